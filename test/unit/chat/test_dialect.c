/* test_dialect.c - answers in blocks: which piece goes into which block, whatever comes in one event; and the
 * errors of dialects.
 */
#include <math.h>

#include "base/buf.h"
#include "base/mem.h"
#include "chat/dialect/blocks.h"
#include "chat/dialect/dialect.h"
#include "chat/dialect/openai.h"
#include "chat/request.h"
#include "chat/service.h"
#include "engine/sampling/sampling.h"
#include "text/markup/markup.h"

static struct answer_prompt prompt;
static struct answer_choice choice;
static struct answer answer = {.prompt = &prompt, .n_prompts = 1, .choice = &choice, .n_choices = 1};
static struct blocks written;
static struct buf said; /* the blocks that were written, in short */

static void open_block(const struct dialect_writer *w, const char *id, const char *name, struct buf *out)
{
    buf_fmt(out, "[%s%s ",
            written.kind == BLOCKS_CALL   ? "call "
            : written.kind == BLOCKS_TEXT ? "text"
                                          : "reasoning",
            name ? name : "");
}

static void add(const struct dialect_writer *w, const char *text, size_t n, struct buf *out)
{
    buf_add(out, text, n);
}

static void close_block(const struct dialect_writer *w, struct buf *out)
{
    buf_str(out, "]");
}

/* A tool call NAME, or the rest of one (NULL), in the next event. */
static void call(const char *name, const char *arguments)
{
    struct message_calls *c = &choice.said.calls;
    struct message_call *v;

    assert_true(mem_grow((void **)&c->v, &c->cap, c->n + 1, sizeof(*c->v), MEM_API));
    v = &c->v[c->n];
    *v = (struct message_call){.begins = name, .id = "i", .name = c->text.len};
    buf_str(&c->text, name ? name : "");
    buf_char(&c->text, 0);
    v->arguments = c->text.len;
    v->n_arguments = strlen(arguments);
    buf_str(&c->text, arguments);
    c->n_ready = ++c->n;
}

/* An event of what was added. */
static void event(const char *reasoning, const char *text)
{
    static const struct blocks_writer blocks = {open_block, add, close_block};

    buf_str(&choice.said.reasoning, reasoning);
    buf_str(&choice.said.text, text);
    blocks_put(NULL, &written, &blocks, &choice, &said);
    answer_sent(&choice);
    assert_false(said.oom);
}

static int begin(void **state)
{
    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    choice = (struct answer_choice){.finish = 0};
    message_init(&choice.said, MEM_API);
    written = (struct blocks){.n = 0};
    said = (struct buf){.tag = MEM_API};
    return 0;
}

static int end(void **state)
{
    answer_fini(&answer);
    buf_fini(&said);
    return 0;
}

static void pieces_alone_are_blocks_one_behind_another(void **state)
{
    event("why", "");
    event("", "a");
    event("", "b");
    call("f", "{");
    event("", "");
    call(NULL, "}");
    event("", "");
    choice.state = ANSWER_ENDED;
    call("g", "{}");
    event("", "");
    assert_string_equal(said.data, "[reasoning why][text ab][call f {}][call g {}]");
}

/* The rest of a call's arguments belongs to it, also if text that followed the call comes with it. */
static void the_rest_of_a_call_does_not_become_text(void **state)
{
    call("f", "{1");
    event("", "");
    choice.state = ANSWER_ENDED;
    call(NULL, "2}");
    call("g", "{}");
    event("", "done");
    assert_string_equal(said.data, "[call f {12}][text done][call g {}]");
}

/* If an answer is cut, only the last item is incomplete, as in a stream. */
static void only_the_last_item_of_a_cut_response_is_incomplete(void **state)
{
    static const char *const names[] = {"m"};
    struct service o = {.name = names, .n_names = 1};
    struct sampling sampling = {.temperature = 1, .top_p = 1};
    struct request q = {.service = &o, .field = {.sampling = &sampling}};
    struct dialect_writer w = {.q = &q, .a = &answer};

    buf_str(&choice.said.reasoning, "why");
    buf_str(&choice.said.text, "becau");
    choice.state = ANSWER_ENDED;
    choice.finish = GALLOP_FINISH_LENGTH;
    assert_true(responses_dialect.open(&w));
    responses_dialect.whole(&w, &said);
    responses_dialect.close(&w);
    assert_non_null(strstr(said.data, "\"type\":\"reasoning\",\"status\":\"completed\""));
    assert_non_null(strstr(said.data, "\"type\":\"message\",\"status\":\"incomplete\""));
}

/* The string may follow a call, which is why the answer ended then. */
static void a_stop_sequence_is_not_told_beside_a_call(void **state)
{
    static const char *const names[] = {"m"},
                             *const ends[] = {"\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"END\"",
                                              "\"stop_reason\":\"tool_use\",\"stop_sequence\":null"};
    struct service o = {.name = names, .n_names = 1};
    struct request q = {.service = &o};
    struct dialect_writer w = {.q = &q, .a = &answer};

    choice.finish = GALLOP_FINISH_STOP;
    choice.stop_string = mem_strdup("END", MEM_API);
    assert_non_null(choice.stop_string);
    for (unsigned n_calls = 0; n_calls < 2; n_calls++) {
        choice.said.calls.n_given = n_calls;
        buf_clear(&said);
        anthropic_dialect.whole(&w, &said);
        assert_non_null(strstr(said.data, ends[n_calls]));
        buf_clear(&said);
        anthropic_dialect.end(&w, 0, NULL, &said);
        assert_non_null(strstr(said.data, ends[n_calls]));
    }
}

/* The usage with which a stream begins does not depend on the tokens that there are by then. */
static void a_stream_begins_with_no_tokens(void **state)
{
    static const char *const names[] = {"m"};
    const struct markup markup = {.reasoning = markup_reasoning_named("qwen3")};
    struct service o = {.name = names, .n_names = 1, .markup = &markup};
    struct request_prompt asked = {.n_ids = 7};
    struct request q = {.service = &o,
                        .endpoint = FIELDS_CHAT,
                        .prompt = &asked,
                        .n_prompts = 1,
                        .n = 1,
                        .n_prompt_tokens = 7};
    struct dialect_writer w = {.q = &q, .a = &answer};

    q.field.output.continuous_usage = true;
    choice.n_output = 5;
    choice.n_reasoning = 3;
    prompt.n_cached = 2;
    openai_chat.introduce(&w, &said);
    assert_non_null(strstr(said.data, "\"completion_tokens\":0"));
    assert_non_null(strstr(said.data, "\"reasoning_tokens\":0"));
    buf_clear(&said);
    openai_chat.part(&w, 0, &said);
    assert_non_null(strstr(said.data, "\"completion_tokens\":5"));
    assert_non_null(strstr(said.data, "\"cached_tokens\":2"));
    assert_non_null(strstr(said.data, "\"reasoning_tokens\":3"));
    buf_clear(&said);
    q.endpoint = FIELDS_COMPLETIONS; /* whose text is not parsed */
    openai_chat.part(&w, 0, &said);
    assert_null(strstr(said.data, "reasoning_tokens"));
    buf_clear(&said);
    q.endpoint = FIELDS_MESSAGES;
    anthropic_dialect.begin(&w, &said);
    assert_non_null(strstr(said.data, "\"usage\":{\"input_tokens\":7,\"cache_creation_input_tokens\":0,"
                                      "\"cache_read_input_tokens\":0,\"output_tokens\":0}"));
    buf_clear(&said);
    anthropic_dialect.whole(&w, &said);
    assert_non_null(strstr(said.data, "\"usage\":{\"input_tokens\":5,\"cache_creation_input_tokens\":0,"
                                      "\"cache_read_input_tokens\":2,\"output_tokens\":5}"));
    prompt.n_cached = 0;
}

/* Two answers to each of two prompts, of which each has its own numbers in every event. */
static void usage_of_an_event_is_of_its_own_prompt(void **state)
{
    static const char *const names[] = {"m"};
    static const struct markup markup = {.reasoning = NULL};
    static struct answer_prompt prompts[2] = {{.n_cached = 1}, {.n_cached = 4}};
    static struct answer_choice choices[4];
    struct answer all = {.prompt = prompts, .n_prompts = 2, .choice = choices, .n_choices = 4};
    struct service o = {.name = names, .n_names = 1, .markup = &markup};
    struct request_prompt asked[2] = {{.n_ids = 7}, {.n_ids = 9}};
    struct request q = {
        .service = &o, .endpoint = FIELDS_COMPLETIONS, .prompt = asked, .n_prompts = 2, .n = 2};
    struct dialect_writer w = {.q = &q, .a = &all};

    q.field.output.continuous_usage = true;
    for (size_t i = 0; i < 4; i++) {
        char usage[200];

        choices[i].n_output = 3 + i;
        for (int begins = 0; begins < 2; begins++) {
            size_t n = begins ? 0 : 3 + i;

            snprintf(usage, sizeof(usage),
                     ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,"
                     "\"prompt_tokens_details\":{\"cached_tokens\":%d}}}\n\n",
                     asked[i / 2].n_ids, n, asked[i / 2].n_ids + n, i < 2 ? 1 : 4);
            buf_clear(&said);
            openai_end_event(&w, i, begins, &said);
            assert_string_equal(said.data, usage);
        }
    }
}

/* Clients of Anthropic's API go on without `thread` if they find this code. */
static void an_error_about_threads_has_its_code(void **state)
{
    anthropic_dialect.error(&said, 400, "so", "thread");
    assert_string_equal(
        said.data, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"so\","
                   "\"param\":\"thread\",\"details\":{\"error_code\":\"thread_unsupported_request\","
                   "\"unsupported\":[\"thread\"]}}}");
}

/* What clients tell errors apart by: the type in OpenAI's form and in Anthropic's. */
static void an_error_has_the_type_of_another_status(void **state)
{
    static const struct {
        int status;
        const char *openai, *anthropic;
    } types[] = {{400, "BadRequestError", "invalid_request_error"},
                 {401, "AuthenticationError", "authentication_error"},
                 {403, "PermissionDeniedError", "permission_error"},
                 {404, "NotFoundError", "not_found_error"},
                 {405, "MethodNotAllowedError", "invalid_request_error"},
                 {408, "RequestTimeoutError", "invalid_request_error"},
                 {413, "PayloadTooLargeError", "request_too_large"},
                 {415, "UnsupportedMediaTypeError", "invalid_request_error"},
                 {429, "RateLimitError", "rate_limit_error"},
                 {431, "HeadersTooLargeError", "invalid_request_error"},
                 {500, "InternalServerError", "api_error"},
                 {501, "NotImplementedError", "api_error"},
                 {503, "ServiceUnavailableError", "overloaded_error"},
                 {504, "TimeoutError", "timeout_error"}};
    char wanted[300];

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        buf_clear(&said);
        openai_chat.error(&said, types[i].status, "so", i % 2 ? "n" : NULL);
        snprintf(wanted, sizeof(wanted),
                 "{\"error\":{\"message\":\"so\",\"type\":\"%s\",\"param\":%s,\"code\":%d}}", types[i].openai,
                 i % 2 ? "\"n\"" : "null", types[i].status);
        assert_string_equal(said.data, wanted);
        buf_clear(&said);
        anthropic_dialect.error(&said, types[i].status, "so", i % 2 ? "n" : NULL);
        snprintf(wanted, sizeof(wanted),
                 "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"so\",\"param\":%s}}",
                 types[i].anthropic, i % 2 ? "\"n\"" : "null");
        assert_string_equal(said.data, wanted);
    }
}

static const char *reason_of(const char *sentence, char out[DIALECT_REASON])
{
    memset(out, 'x', DIALECT_REASON);
    dialect_reason(sentence, out, DIALECT_REASON);
    return out;
}

static void reasons_for_the_log_hold_no_text_of_prompts(void **state)
{
    char out[DIALECT_REASON], text[600], quoted[600];

    assert_string_equal(reason_of("", out), "");
    assert_string_equal(reason_of("n: found 0, expected 1 to 128", out), "n: found 0, expected 1 to 128");
    assert_string_equal(reason_of("Only 'application/json', `a` or \"b\"", out),
                        "Only 'application/json', `a` or \"b\"");
    assert_string_equal(reason_of("a 'two words' b `x\ty` c \"\n\".", out), "a '...' b `...` c \"...\".");
    assert_string_equal(reason_of("it's one", out), "it's one");
    for (size_t n = 64; n <= 65; n++) {
        snprintf(text, sizeof(text), "'%0*d'", (int)n, 7);
        assert_string_equal(reason_of(text, out), n == 64 ? text : "'...'");
    }
    assert_string_equal(reason_of("tools: the model's chat template does not support them", out),
                        "tools: the model's chat template does not support them");
    for (size_t n = 0; n < 500; n++) { /* cut, and ended within its room */
        memset(text, 'y', n);
        text[n] = 0;
        assert_true(strlen(reason_of(text, out)) < DIALECT_REASON && strncmp(text, out, strlen(out)) == 0);
        snprintf(quoted, sizeof(quoted), "%.*s'a z'", (int)(n < 400 ? n : 400), text);
        assert_true(strlen(reason_of(quoted, out)) < DIALECT_REASON && !strchr(out, 'z'));
    }
}

static void arguments_are_an_object_on_one_line_as_they_were_generated(void **state)
{
    static const char *const cases[][2] = {
        {"{}", "{}"},
        {"{\"a\": 1E+3, \"b\":[ ]}", "{\"a\": 1E+3, \"b\":[ ]}"},
        {"{\"a\":\n1E+3}", "{\"a\":1000.0}"},
        {"{\"a\":\r1}", "{\"a\":1}"},
        {"[1]", "{\"arguments\":\"[1]\"}"},
        {"{\"a\":", "{\"arguments\":\"{\\\"a\\\":\"}"},
        {"", "{\"arguments\":\"\"}"},
    };
    struct buf b = {.tag = MEM_API};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        buf_clear(&b);
        dialect_put_arguments(cases[i][0], strlen(cases[i][0]), &b);
        assert_string_equal(b.data, cases[i][1]);
        assert_false(b.oom);
    }
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pieces_alone_are_blocks_one_behind_another, begin, end),
        cmocka_unit_test_setup_teardown(the_rest_of_a_call_does_not_become_text, begin, end),
        cmocka_unit_test_setup_teardown(an_error_has_the_type_of_another_status, begin, end),
        cmocka_unit_test_setup_teardown(a_stop_sequence_is_not_told_beside_a_call, begin, end),
        cmocka_unit_test_setup_teardown(a_stream_begins_with_no_tokens, begin, end),
        cmocka_unit_test_setup_teardown(usage_of_an_event_is_of_its_own_prompt, begin, end),
        cmocka_unit_test_setup_teardown(an_error_about_threads_has_its_code, begin, end),
        cmocka_unit_test(reasons_for_the_log_hold_no_text_of_prompts),
        cmocka_unit_test(arguments_are_an_object_on_one_line_as_they_were_generated),
        cmocka_unit_test_setup_teardown(only_the_last_item_of_a_cut_response_is_incomplete, begin, end)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
