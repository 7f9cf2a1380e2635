/* test_answer.c - tool calls of an answer: when a dialect may write them, and what remains when they were
 * sent. */
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "chat/answer.h"
#include "text/markup/markup.h"
#include "text/markup/parser.h"

#define CALL(name, arguments) "<tool_call>{\"name\": \"" name "\", \"arguments\": " arguments "}</tool_call>"

static struct answer_choice choice;
static struct answer answer = {.choice = &choice, .n_choices = 1};

static int begin(void **state)
{
    struct parser_options o = {.calls = markup_calls_named("hermes"), .seed = 1};

    choice = (struct answer_choice){.finish = 0};
    message_init(&choice.said, MEM_API);
    return parser_open(&choice.parser, &o, NULL);
}

static int end(void **state)
{
    answer_fini(&answer);
    return 0;
}

static void add(const char *text)
{
    assert_int_equal(answer_add_text(&choice, text, NULL, strlen(text)), 0);
}

/* The calls that may be written now: "name(arguments)", or "+arguments" for the rest of one. */
static void expect_ready(const char *expected)
{
    const struct message_calls *c = &choice.said.calls;
    struct buf found = {.tag = MEM_API};

    for (size_t i = 0; i < c->n_ready; i++) {
        buf_fmt(&found, c->v[i].begins ? "%s(" : "+", message_call_name(c, &c->v[i]));
        buf_add(&found, message_call_arguments(c, &c->v[i]), c->v[i].n_arguments);
        buf_str(&found, c->v[i].begins ? ")" : "");
    }
    assert_string_equal(found.data ? found.data : "", expected);
    buf_fini(&found);
}

static void a_streamed_call_goes_on_in_the_next_event(void **state)
{
    add("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\"");
    expect_ready("f({\"a\")");
    assert_true(answer_has_news(&choice));
    answer_sent(&choice);
    assert_false(answer_has_news(&choice));
    add(": 1}}</tool_call>" CALL("g", "{}"));
    expect_ready("+: 1}g({})");
    assert_int_equal(choice.said.calls.n_given, 2);
}

static void a_call_is_held_until_it_is_complete(void **state)
{
    choice.said.calls.when = MESSAGE_CALLS_COMPLETE;
    add(CALL("f", "{\"a\": 1}") "<tool_call>{\"name\": \"gg\", \"arguments\": {\"b\"");
    expect_ready("f({\"a\": 1})");
    answer_sent(&choice);
    expect_ready("");
    assert_false(answer_has_news(&choice));
    add(": 2}}</tool_call>");
    expect_ready("gg({\"b\": 2})");
}

/* The stop string has ended the answer inside of a call: clients see no part of that call. */
static void a_stop_string_drops_an_incomplete_call(void **state)
{
    choice.said.calls.when = MESSAGE_CALLS_COMPLETE;
    choice.said.calls.whole = true;
    add(CALL("f", "{}") "<tool_call>{\"name\": \"g\", \"arguments\": {\"b\"");
    choice.finish = GALLOP_FINISH_STOP;
    assert_int_equal(answer_end(&choice, true), 0);
    expect_ready("f({})");
    assert_int_equal(choice.said.calls.n_given, 1);
}

static void a_limit_leaves_an_incomplete_call(void **state)
{
    choice.said.calls.when = MESSAGE_CALLS_COMPLETE;
    choice.said.calls.whole = true;
    add("<tool_call>{\"name\": \"g\", \"arguments\": {\"b\"");
    choice.finish = GALLOP_FINISH_LENGTH;
    assert_int_equal(answer_end(&choice, false), 0);
    expect_ready("g({\"b\")");
}

static void calls_at_the_end_wait_for_it(void **state)
{
    choice.said.calls.when = MESSAGE_CALLS_AT_END;
    add(CALL("f", "{}"));
    expect_ready("");
    answer_sent(&choice);
    add(CALL("g", "{}"));
    choice.finish = GALLOP_FINISH_STOP;
    assert_int_equal(answer_end(&choice, false), 0);
    expect_ready("f({})g({})");
}

static void reasoning_that_is_not_shown_is_counted(void **state)
{
    struct parser_options o = {.reasoning = markup_reasoning_named("qwen3"), .seed = 1};

    parser_close(choice.parser);
    assert_int_equal(parser_open(&choice.parser, &o, NULL), 0);
    choice.said.drops_reasoning = true;
    choice.n_output = 3;
    add("<think>hm");
    choice.n_output = 5;
    add("</think>so");
    assert_int_equal(choice.n_reasoning, 3);
    assert_int_equal(choice.said.reasoning.len, 0);
    assert_string_equal(choice.said.text.data, "so");
}

/* An answer that failed has not ended: a stream sends what came before and then says why. */
static void a_failed_answer_has_no_end(void **state)
{
    choice.said.calls.when = MESSAGE_CALLS_AT_END;
    add("so far" CALL("f", "{}"));
    choice.finish = GALLOP_FINISH_DEADLINE;
    assert_int_equal(answer_end(&choice, false), 0);
    assert_int_equal(choice.state, ANSWER_FAILED);
    assert_true(answer_has_news(&choice));
    expect_ready("");
    answer_sent(&choice);
    assert_int_equal(choice.progress, ANSWER_BEGUN);
    assert_false(answer_has_news(&choice));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_streamed_call_goes_on_in_the_next_event, begin, end),
        cmocka_unit_test_setup_teardown(a_call_is_held_until_it_is_complete, begin, end),
        cmocka_unit_test_setup_teardown(a_stop_string_drops_an_incomplete_call, begin, end),
        cmocka_unit_test_setup_teardown(a_limit_leaves_an_incomplete_call, begin, end),
        cmocka_unit_test_setup_teardown(calls_at_the_end_wait_for_it, begin, end),
        cmocka_unit_test_setup_teardown(reasoning_that_is_not_shown_is_counted, begin, end),
        cmocka_unit_test_setup_teardown(a_failed_answer_has_no_end, begin, end)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
