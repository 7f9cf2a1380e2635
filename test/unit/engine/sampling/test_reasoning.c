/* test_reasoning.c - the budget of tokens for reasoning: where reasoning begins and ends, that its end is forced, with
 * and without a constraint, and that answers are the same alone and in company, whatever the cache, the size of a
 * step, the number of threads, and preemption.
 */
#include <math.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/sampling/reasoning.h"
#include "engines.h"
#include "gallop.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"
#include "ways.h"

enum { N = 5, PROMPT = 40 };

static const char think_end[] = "</think>";
static char first_letter[2] = "?"; /* the first letter of answer number 3 */

/* What the requests ask for. */
static const struct asked {
    int64_t budget, n_new;
    const char *open, *regex;
    double temperature;
    bool begun;
} asked[N] = {
    {.budget = 5, .n_new = 60, .open = "<think>", .begun = true},
    {.budget = -1, .n_new = 120, .open = "<think>", .begun = true},
    {.budget = 12,
     .n_new = 150,
     .open = "<think>",
     .begun = true,
     .regex = "[0-9]{4}-[0-9]{2}",
     .temperature = 1},
    {.budget = 3, .n_new = 60, .open = first_letter, .temperature = 1}, /* the model writes the mark itself */
    {.budget = 0, .n_new = 60, .open = "<think>", .begun = true, .temperature = 1.5},
};

static void ask(const struct asked *a, size_t which, int32_t *ids, struct gallop_request *r)
{
    engines_text(which, 0, PROMPT, ids);
    gallop_request_init(r);
    r->ids = ids;
    r->n_ids = PROMPT;
    r->user = (void *)which;
    r->sampling.max_new_tokens = a->n_new;
    r->sampling.ignore_eos = !a->regex;
    r->sampling.do_sample = a->temperature > 0;
    r->sampling.temperature = a->temperature > 0 ? a->temperature : NAN;
    r->sampling.has_seed = 1;
    r->sampling.seed = which;
    r->sampling.thinking_token_budget = a->budget;
    r->reasoning_open = a->open;
    r->reasoning_close = think_end;
    r->reasoning_begun = a->begun;
    r->structured_outputs.regex = a->regex;
    r->structured_outputs.begins_after = a->regex ? think_end : NULL;
}

/* Submits A with prompt and seed WHICH as answer number AT. */
static void submit_to(struct gallop *g, const struct asked *a, size_t which, size_t at)
{
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];
    int32_t ids[PROMPT];

    ask(a, which, ids, &r);
    r.user = (void *)at;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

static void submit(struct gallop *g, const struct asked *a, size_t which)
{
    submit_to(g, a, which, which);
}

/* The answer has the tokens of PLAIN up to number BUDGET, and then those of the closing mark. */
static void check_forced(struct gallop *g, const struct engines_answer *a, const struct engines_answer *plain,
                         size_t budget)
{
    struct tok_ids mark = {0};

    assert_int_equal(tok_encode(engine_info(g)->tok, think_end, strlen(think_end), 0, &mark, NULL), 0);
    for (size_t i = 0; i < budget; i++)
        assert_int_equal(a->token[i], plain->token[i]);
    for (size_t i = 0; i < mark.n; i++)
        assert_int_equal(a->token[budget + i], mark.id[i]);
    tok_ids_fini(&mark);
}

static void the_end_of_reasoning_is_forced_when_the_budget_is_spent(void **state)
{
    static struct engines_answer plain[1], out[1];
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct asked a = asked[0];
    const char *end;

    a.budget = -1;
    submit(g, &a, 0);
    memset(plain, 0, sizeof(plain));
    engines_run(g, plain);
    assert_null(strstr(plain->text, think_end));
    for (a.budget = 0; a.budget < 8; a.budget++) {
        submit(g, &a, 0);
        memset(out, 0, sizeof(out));
        engines_run(g, out);
        check_forced(g, out, plain, (size_t)a.budget);
        end = strstr(out->text, think_end);
        assert_non_null(end);
        assert_null(strstr(end + 1, think_end)); /* it is forced once */
        assert_int_equal(out->n, a.n_new);
    }
    gallop_close(g);
}

/* Reasoning begins where the prompt ends with its mark, and not where it has ended, or was never begun. */
static void reasoning_begins_where_the_prompt_says_so(void **state)
{
    static const struct {
        const char *text;
        int begun;
        bool forced;
    } prompts[] = {
        {"Once <think>", 0, true},
        {"Once <think>\n\n", 0, true},
        {"Once", 1, true},
        {"Once", 0, false},
        {"<think> Once", 0, false}, /* the prompt says more, so that it is not known where it stands */
        {"Once <think> </think>", 0, false}};
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);

    for (size_t i = 0; i < sizeof(prompts) / sizeof(prompts[0]); i++) {
        static struct engines_answer out[1];
        struct gallop_request r;

        gallop_request_init(&r);
        r.text = prompts[i].text;
        r.sampling.max_new_tokens = 30;
        r.sampling.ignore_eos = 1;
        r.sampling.thinking_token_budget = 2;
        r.reasoning_open = "<think>";
        r.reasoning_close = think_end;
        r.reasoning_begun = prompts[i].begun;
        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
        memset(out, 0, sizeof(out));
        engines_run(g, out);
        if ((strstr(out->text, think_end) != NULL) != prompts[i].forced)
            fail_msg("prompt %s: %s", prompts[i].text, out->text);
    }
    gallop_close(g);
}

static void find_first_letter(void)
{
    static struct engines_answer out[1];
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct asked a = asked[3];

    a.budget = -1;
    submit_to(g, &a, 3, 0);
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    first_letter[0] = out->text[strspn(out->text, " \n")];
    assert_true(first_letter[0] != 0);
    gallop_close(g);
}

/* The opening mark is the first letter of the answer. */
static void reasoning_that_the_model_opens_is_closed_once(void **state)
{
    static struct engines_answer plain[1], out[1];
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct asked a = asked[3];
    const char *end;

    a.budget = -1;
    a.n_new = 200;
    submit_to(g, &a, 3, 0);
    memset(plain, 0, sizeof(plain));
    engines_run(g, plain);
    a.budget = 4;
    submit_to(g, &a, 3, 0);
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    check_forced(g, out, plain, strspn(out->text, " \n") ? 2 + 4 : 1 + 4);
    end = strstr(out->text, think_end);
    assert_non_null(end);
    assert_null(strstr(end + 1, think_end));
    gallop_close(g);
}

static bool is_inside(const struct reasoning_run *run)
{
    return run->place == PARSER_IN_REASONING || run->place == PARSER_AT_CALL;
}

/* Feeds TEXT, in which | marks each byte before which a spent budget begins or ceases to force the end. */
static void check_places(const struct tok *tok, const struct reasoning_request *q, const char *text)
{
    struct reasoning_run run;
    struct reasoning r;
    struct arena a;
    bool is_forced = false;

    arena_init(&a, MEM_ENGINE);
    assert_int_equal(reasoning_init(&r, q, NULL, 0, tok, &a, NULL), 0);
    assert_int_equal(reasoning_run_open(&run, &r), 0);
    for (const char *p = text; *p; p++) {
        struct tok_ids ids = {0};

        for (; *p == '|'; p++)
            is_forced = !is_forced;
        if ((reasoning_run_forced(&run) >= 0) != is_forced)
            fail_msg("before %s of %s", p, text);
        if (!*p)
            break;
        assert_int_equal(tok_encode(tok, p, 1, 0, &ids, NULL), 0);
        for (size_t i = 0; i < ids.n; i++)
            assert_int_equal(reasoning_run_add(&run, ids.id[i], NULL), 0);
        tok_ids_fini(&ids);
    }
    reasoning_run_close(&run);
    arena_fini(&a);
}

/* Texts as check_places() reads them. */
static const struct reasoning_request hermes = {.is_limited = true,
                                                .open = "<think>",
                                                .close = think_end,
                                                .call = {"<tool_call>"},
                                                .call_close = "</tool_call>"},
                                      mistral = {.is_limited = true,
                                                 .open = "[THINK]",
                                                 .close = "[/THINK]",
                                                 .call = {"[TOOL_CALLS]"}},
                                      phi = {.is_limited = true,
                                             .open = "<think>",
                                             .close = think_end,
                                             .call = {"functools", "<%tool_call%>"},
                                             .call_close = "<%/tool_call%>"},
                                      plain = {.is_limited = true, .open = "<think>", .close = think_end};

static const struct {
    const struct reasoning_request *q;
    bool begun;
    const char *text;
} place[] = {
    {&plain, true, "|hm</think>| x <think> y"},
    {&plain, true, "|hm</think>|\n<think>|so</think>|x<think>y"},
    {&plain, false, " \n<think>|hm</think>|x"},
    {&plain, false, "x <think>hm"},
    {&plain, false, "<<think>hm"},
    {&plain, false, "<th<think>hm"},
    {&plain, true, "|a<tool_call>{"},
    {&hermes, true,
     "|a<tool_call>|\n{\"name\": \"f\", \"arguments\": {\"a\": \"</think>\"}}\n</tool_call>x<think>y"},
    {&hermes, true, "|a<tool_call>|[{\"name\": \"f\"}]</tool_call>\n<think>|hm</think>|x"},
    {&hermes, true, "|the <tool_call>| t|ag</think>|x"},
    {&hermes, true, "|the <tool_call>|s| and <tool_call>|`|, </think>|x"},
    {&hermes, true, "|<tool_call>|<|/think>|x"},
    {&hermes, true, "|<tool_<tool_call>|{\"arguments\": {}, \"name\": \"f\"}</tool_call>\n</think><think>|x"},
    {&hermes, true, "|the <tool_call>|{`| opens</think>|x"},
    {&hermes, true, "|the <tool_call>|{\"name\": <|f>, \"arguments\": {</think>|x"},
    {&hermes, true, "|the <tool_call>|{\"name\": \"f\", \"arguments\": .|..}</tool_call></think>|x"},
    {&hermes, true, "|the <tool_call>|{}| and <tool_call>|[]|</think>|x"},
    {&hermes, true, "|<tool_call>|{\"id\": [1, \"]\"], \"name\": \"f\", \"parameters\": {</think>"},
    {&hermes, true, "|<tool_call>|{\"a\": \"<tool_call>\"}| <tool_call>|{\"name\": \"f\"}</think>"},
    {&hermes, false, "<tool_call>{\"name\": \"f\"}</tool_call> <think>|hm"},
    {&hermes, false, "<tool_call>{} <think>hm"},
    {&hermes, false, "<tool_call> is <think>"},
    {&hermes, false, "x<tool_call>{}</tool_call> <think>hm"},
    {&mistral, false, "[THINK]|a[TOOL_CALLS]|get_it[ARGS]{}[THINK]|b"},
    {&mistral, true, "|a[TOOL_CALLS]| (|b[/THINK]|c"},
    {&mistral, true, "|the [TOOL_CALLS]| mark b|egins[/THINK]|c"},
    {&mistral, true, "|[TOOL_CALLS]|get[CALL_ID]x1[ARGS] {[/THINK]"},
    {&mistral, true, "|[TOOL_CALLS]|[{\"name\": \"f\", \"arguments\": {[/THINK]"},
    {&phi, true, "|functools|[{"},
    {&phi, true, "|functools| f|or <%tool_call%>|[{\"name\": \"f\"}]<%/tool_call%>\n<think>|a"},
    {&phi, true, "|functools|[1|, 2]</think>|x"},
};

static void calls_end_reasoning_and_mentions_do_not_open_it(void **state)
{
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    const struct tok *tok = engine_info(g)->tok;

    for (size_t i = 0; i < sizeof(place) / sizeof(place[0]); i++) {
        struct reasoning_request q = *place[i].q;

        q.begun = place[i].begun;
        check_places(tok, &q, place[i].text);
    }
    gallop_close(g);
}

/* The end is forced 1024 tokens later, even if it is still open whether they are a tool call. */
static void an_endless_beginning_of_a_call_is_cut(void **state)
{
    const struct reasoning_request q = {.is_limited = true,
                                        .open = "<think>",
                                        .close = think_end,
                                        .call = {"<tool_call>"},
                                        .call_close = "</tool_call>",
                                        .begun = true};
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    const struct tok *tok = engine_info(g)->tok;
    struct reasoning_run run;
    struct tok_ids ids = {0};
    struct reasoning r;
    struct arena a;

    arena_init(&a, MEM_ENGINE);
    assert_int_equal(reasoning_init(&r, &q, NULL, 0, tok, &a, NULL), 0);
    assert_int_equal(reasoning_run_open(&run, &r), 0);
    assert_int_equal(tok_encode(tok, "<tool_call>{", strlen("<tool_call>{"), 0, &ids, NULL), 0);
    for (size_t i = 0; i < ids.n; i++)
        assert_int_equal(reasoning_run_add(&run, ids.id[i], NULL), 0);
    tok_ids_fini(&ids);
    assert_int_equal(tok_encode(tok, " ", 1, 0, &ids, NULL), 0);
    while (run.n_spent < 1024) {
        assert_int_equal(reasoning_run_forced(&run), -1);
        assert_int_equal(reasoning_run_add(&run, ids.id[0], NULL), 0);
    }
    assert_int_equal(reasoning_run_forced(&run), r.forced[0]);
    tok_ids_fini(&ids);
    reasoning_run_close(&run);
    arena_fini(&a);
    gallop_close(g);
}

static void a_constrained_answer_follows_the_forced_end(void **state)
{
    static struct engines_answer out[1];
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct asked a = asked[2];
    const char *end;

    for (a.budget = 0; a.budget < 4; a.budget++) {
        submit(g, &a, 0);
        memset(out, 0, sizeof(out));
        engines_run(g, out);
        assert_int_equal(out->end.finish, GALLOP_FINISH_STOP);
        end = strstr(out->text, think_end);
        assert_non_null(end);
        end += strlen(think_end) + strspn(end + strlen(think_end), " \n");
        assert_int_equal(strlen(end), 7);
        assert_true(strspn(end, "0123456789") == 4 && end[4] == '-');
    }
    gallop_close(g);
}

/* A constraint that has no place for the mark is kept to, and the mark is left out. */
static void a_constraint_counts_more_than_the_budget(void **state)
{
    static struct engines_answer out[1];
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct gallop_request r;

    gallop_request_init(&r);
    r.text = "Once";
    r.sampling.max_new_tokens = 30;
    r.sampling.thinking_token_budget = 1;
    r.reasoning_open = "<think>";
    r.reasoning_close = think_end;
    r.reasoning_begun = 1;
    r.structured_outputs.regex = "[a-z]{12}";
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    assert_int_equal(out->end.finish, GALLOP_FINISH_STOP);
    assert_int_equal(strspn(out->text, "abcdefghijklmnopqrstuvwxyz"), 12);
    gallop_close(g);
}

/* Bad words, allowed tokens and biases apply to what the model chooses, not to what is forced. */
static void what_is_forced_is_not_forbidden(void **state)
{
    static const char *const bad[] = {"think", "</", "</think>"};
    static struct engines_answer out[1];
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct gallop_request r;

    gallop_request_init(&r);
    r.text = "Once";
    r.sampling.max_new_tokens = 30;
    r.sampling.bad_words = bad;
    r.sampling.n_bad_words = 3;
    r.sampling.logprobs = 2;
    r.sampling.thinking_token_budget = 1;
    r.reasoning_open = "<think>";
    r.reasoning_close = think_end;
    r.reasoning_begun = 1;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    assert_non_null(strstr(out->text, think_end));
    for (size_t i = 0; i < out->n; i++)
        assert_true(out->logprob[i] < 0);
    assert_int_equal(out->n_top, 2);
    gallop_close(g);
}

static void submit_asked(struct gallop *g, size_t which)
{
    submit(g, &asked[which], which);
}

static void answers_are_the_same_alone_and_in_company(void **state)
{
    static struct engines_answer alone[N];

    assert_true(ways_alone_and_in_company(alone, N, 272, submit_asked, NULL).n_preempted > 0);
    for (size_t i = 0; i < N; i++)
        if ((strstr(alone[i].text, think_end) != NULL) != (i != 1))
            fail_msg("answer %zu: %s", i, alone[i].text);
}

/* Each of several answers has a budget of its own. */
static void each_answer_has_a_budget_of_its_own(void **state)
{
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    size_t n[3] = {0}, n_ended = 0;
    struct gallop_request r;
    struct gallop_event ev;
    int32_t ids[PROMPT];
    char text[3][1024] = {{0}};

    ask(&asked[0], 0, ids, &r);
    r.sampling.do_sample = 1;
    r.sampling.temperature = 1.5;
    r.sampling.has_seed = 1;
    r.n = 3;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    while (gallop_next(g, &ev)) {
        if (ev.type == GALLOP_TEXT && strlen(text[ev.choice]) + ev.text_len < sizeof(text[0]))
            strncat(text[ev.choice], ev.text, ev.text_len);
        n[ev.choice] += ev.type == GALLOP_TOKEN;
        n_ended += ev.type == GALLOP_FINISHED;
    }
    assert_int_equal(n_ended, 3);
    assert_true(strcmp(text[0], text[1]) != 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(n[i], asked[0].n_new);
        assert_non_null(strstr(text[i], think_end));
    }
    gallop_close(g);
}

static void a_budget_without_marks_is_refused_by_name(void **state)
{
    static const char longer[] = "</thinkthinkthinkthinkthinkthinkthinkthinkthinkthinkthinkthinkthink>";
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    const struct {
        const char *open, *close, *sentence;
    } wrong[] = {
        {NULL, NULL, "thinking_token_budget: no marks of this model's reasoning are known"},
        {"<think>", NULL, "thinking_token_budget: no marks of this model's reasoning are known"},
        {"<think>", "", "reasoning_close: expected marks of 1 to 64 bytes"},
        {"<think>", longer, "reasoning_close: expected marks of 1 to 64 bytes"},
        {longer, "</think>", "reasoning_open: expected marks of 1 to 64 bytes"},
    };
    char err[GALLOP_ERR_SIZE];
    struct gallop_request r;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        gallop_request_init(&r);
        r.text = "a";
        r.sampling.thinking_token_budget = 5;
        r.reasoning_open = wrong[i].open;
        r.reasoning_close = wrong[i].close;
        assert_int_not_equal(gallop_submit(g, &r, NULL, err), 0);
        assert_string_equal(err, wrong[i].sentence);
    }
    gallop_close(g);
}

/* Marks are found where they begin inside of what looked like one, and across tokens. */
static void marks_are_found_wherever_they_begin(void **state)
{
    static const struct {
        const char *mark, *text;
        bool found;
    } example[] = {{"aab", "xaaab", true},
                   {"aab", "aaaaaab", true},
                   {"abab", "xabaabab", true},
                   {"aab", "abababaa", false},
                   {"</think>", "<</think>", true},
                   {"</think>", "</</think>", true},
                   {"</think>", "</think</thin>", false}};
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    const struct tok *tok = engine_info(g)->tok;

    for (size_t i = 0; i < sizeof(example) / sizeof(example[0]); i++)
        for (size_t cut = 0; cut < strlen(example[i].text); cut++) {
            const struct reasoning_request q = {
                .is_limited = true, .budget = 900, .open = "#", .close = example[i].mark, .begun = true};
            struct reasoning_run run;
            struct tok_ids ids = {0};
            struct reasoning r;
            struct arena a;

            arena_init(&a, MEM_ENGINE);
            assert_int_equal(tok_encode(tok, example[i].text, cut, 0, &ids, NULL), 0);
            assert_int_equal(
                tok_encode(tok, example[i].text + cut, strlen(example[i].text) - cut, 0, &ids, NULL), 0);
            assert_int_equal(reasoning_init(&r, &q, NULL, 0, tok, &a, NULL), 0);
            assert_int_equal(reasoning_run_open(&run, &r), 0);
            for (size_t k = 0; k < ids.n; k++)
                assert_int_equal(reasoning_run_add(&run, ids.id[k], NULL), 0);
            if (is_inside(&run) == example[i].found)
                fail_msg("%s in %s, cut at %zu", example[i].mark, example[i].text, cut);
            reasoning_run_close(&run);
            tok_ids_fini(&ids);
            arena_fini(&a);
        }
    gallop_close(g);
}

static void a_refused_allocation_ends_one_request_and_nothing_else(void **state)
{
    static struct engines_answer out[1];
    bool is_whole = false;

    test_of_one_thread();
    for (long at = 1; !is_whole; at++) {
        struct gallop *g = ways_open(&ways[0], 64, 1, 0);
        struct gallop_request r;
        int32_t ids[PROMPT];

        ask(&asked[0], 0, ids, &r);
        memset(out, 0, sizeof(out));
        mem_fail_at(at);
        if (gallop_submit(g, &r, NULL, NULL) == 0)
            engines_run(g, out);
        is_whole = !mem_failed();
        mem_fail_at(0);
        assert_true(out->ended || out->n == 0);
        memset(out, 0, sizeof(out));
        submit(g, &asked[0], 0);
        engines_run(g, out);
        assert_non_null(strstr(out->text, think_end));
        gallop_close(g);
    }
}

/* A mark that is a special token counts only where this token was generated. */
static void marks_in_ordinary_letters_neither_open_nor_close_reasoning(void **state)
{
    static const char json[] =
        "{\"model\":{\"merges\":[],\"vocab\":{\"a\":0,\"<\":1,\"o\":2,\">\":3,\"c\":4,\"{\":5,"
        "\"t\":6}},\"added_tokens\":[{\"id\":7,\"content\":\"<o>\",\"special\":true},"
        "{\"id\":8,\"content\":\"<c>\",\"special\":true},"
        "{\"id\":9,\"content\":\"<t>\",\"special\":true}]}";
    /* The tokens of an answer, and whether reasoning is open after them: 1, or 0. */
    static const struct {
        int32_t ids[10];
        const char *inside;
    } cases[] = {
        {{7, 1, 4, 3, 0, 8, 0, -1}, "1111100"}, /* <o> < c > a <c> a */
        {{1, 2, 3, 0, 7, 0, -1}, "000000"},     /* < o > a <o> a: the content has begun */
        {{7, 1, 6, 3, 5, 0, 8, -1}, "1111110"}, /* <o> < t > { a <c> */
        {{8, 7, 0, 1, 4, 8, 7, -1}, "0000000"}, /* <c> is content */
    };
    const struct reasoning_request q = {.is_limited = true,
                                        .budget = 99,
                                        .open = "<o>",
                                        .close = "<c>",
                                        .call = {"<t>"},
                                        .call_close = "</t>"};
    struct tok *tok;

    assert_int_equal(tok_open_json(&tok, json, strlen(json), "t", NULL), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct reasoning_run run;
        struct reasoning r;
        struct arena arena;

        arena_init(&arena, MEM_ENGINE);
        assert_int_equal(reasoning_init(&r, &q, NULL, 0, tok, &arena, NULL), 0);
        assert_int_equal(reasoning_run_open(&run, &r), 0);
        for (size_t k = 0; cases[i].ids[k] >= 0; k++) {
            assert_int_equal(reasoning_run_add(&run, cases[i].ids[k], NULL), 0);
            assert_int_equal(is_inside(&run), cases[i].inside[k] == '1');
        }
        reasoning_run_close(&run);
        arena_fini(&arena);
    }
    tok_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_in_ordinary_letters_neither_open_nor_close_reasoning),
        cmocka_unit_test(the_end_of_reasoning_is_forced_when_the_budget_is_spent),
        cmocka_unit_test(reasoning_begins_where_the_prompt_says_so),
        cmocka_unit_test(reasoning_that_the_model_opens_is_closed_once),
        cmocka_unit_test(calls_end_reasoning_and_mentions_do_not_open_it),
        cmocka_unit_test(an_endless_beginning_of_a_call_is_cut),
        cmocka_unit_test(a_constrained_answer_follows_the_forced_end),
        cmocka_unit_test(a_constraint_counts_more_than_the_budget),
        cmocka_unit_test(what_is_forced_is_not_forbidden),
        cmocka_unit_test(answers_are_the_same_alone_and_in_company),
        cmocka_unit_test(each_answer_has_a_budget_of_its_own),
        cmocka_unit_test(a_budget_without_marks_is_refused_by_name),
        cmocka_unit_test(marks_are_found_wherever_they_begin),
        cmocka_unit_test(a_refused_allocation_ends_one_request_and_nothing_else),
    };

    find_first_letter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
