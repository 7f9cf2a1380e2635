/* test_tool_calls.c - grammars of tool calls in every markup: what is an answer with tool calls, and what is not.
 */
#include <jansson.h>

#include "base/mem.h"
#include "text/grammar/automata/recognizer.h"
#include "text/grammar/tool_calls.h"
#include "text/markup/markup.h"

enum { MEMORY = 64 << 20, STEPS = 1 << 22 };

/* Stands for the compiler of JSON Schemas: {"text": T} describes the text T, others an empty object. */
static int small_schema(void *context, struct grammar *g, const struct tool_calls_function *function,
                        uint32_t *start, struct err *e)
{
    const json_t *text = json_object_get(function->parameters, "text");

    if (context)
        return err_set(e, ERR_UNSUPPORTED, "a schema that is not served");
    *start = grammar_text(g, text ? json_string_value(text) : "{}");
    return 0;
}

/* The control tokens <|channel|>, <|end|>, [TOOL_CALLS] and [ARGS]. */
static struct token_trie trie;

static void open_trie(void)
{
    static const char *const text[] = {
        "a",           "\xff<|channel|>\xff", "\xff<|end|>\xff", "\xff[TOOL_CALLS]\xff", "\xff[ARGS]\xff",
        "\xff[ARG\xff"};
    size_t len[6];

    for (size_t i = 0; i < 6; i++)
        len[i] = strlen(text[i]);
    assert_int_equal(token_trie_make(&trie, text, len, 6, NULL), 0);
}

/* True if TEXT is an answer in FORM to functions f, whose arguments are {"a": 1}, and g. HOW has letters: f for free
 * text, p for parallel tool calls, 1 for function f alone, c for the content [7], t for control tokens. */
static bool accepts(const char *form, const char *how, const char *text)
{
    json_t *schema = json_pack("{s:s}", "text", "{\"a\": 1}");
    struct tool_calls_made made;
    const struct tool_calls_function function[] = {{.name = "f", .parameters = schema}, {.name = "g"}};
    struct tool_calls calls = {.form = tool_calls_form_named(form, &made),
                               .function = function,
                               .n = strchr(how, '1') ? 1 : 2,
                               .is_free = strchr(how, 'f'),
                               .is_parallel = strchr(how, 'p'),
                               .content = GRAMMAR_NEVER};
    struct grammar g;
    struct recognizer r;
    struct err e = {0};
    uint32_t start;
    bool yes;

    assert_non_null(schema);
    assert_non_null(calls.form);
    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    if (strchr(how, 'c'))
        calls.content = grammar_text(&g, "[7]");
    if (tool_calls_grammar(&g, &calls, strchr(how, 't') ? &trie : NULL, small_schema, NULL, &start, &e) !=
            0 ||
        grammar_finish(&g, start, &e) != 0 || recognizer_open(&r, &g, &e) != 0)
        fail_msg("%s: %s", form, e.msg);
    yes = recognizer_matches(&r, text, strlen(text));
    assert_int_equal(g.regex.fault, REGEX_FINE);
    recognizer_close(&r);
    grammar_close(&g);
    json_decref(schema);
    return yes;
}

#define HERMES_F  "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"
#define HERMES_G  "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"
#define LLAMA_F   "{\"name\": \"f\", \"parameters\": {\"a\": 1}}"
#define LLAMA_G   "{\"name\": \"g\", \"parameters\": {}}"
#define MISTRAL_F "[TOOL_CALLS]f[ARGS]{\"a\": 1}"
#define LIST_F    "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"
#define OPENAI_F  "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}"
#define ANALYSIS  "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
#define C(name)   "\xff" name "\xff"

static const struct {
    const char *form, *how, *yes[4], *no[5];
} answers[] = {
    {"hermes",
     "",
     {HERMES_F, HERMES_G},
     {"", "x", HERMES_F "\n" HERMES_G, "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"}},
    {"hermes", "1", {HERMES_F}, {HERMES_G}},
    {"hermes", "p", {HERMES_F, HERMES_F "\n" HERMES_G "\n" HERMES_F}, {HERMES_F "\n", HERMES_F HERMES_G}},
    {"hermes",
     "fp",
     {"", "hi", "hi " HERMES_F "\n" HERMES_G " ok", "<tool_"},
     {"hi <tool_call>", HERMES_F "<tool_call>"}},
    {"hermes", "f", {"hi", "hi " HERMES_F " ok"}, {HERMES_F "\n" HERMES_G}},
    {"llama3_json", "", {LLAMA_F, "<|python_tag|>" LLAMA_G}, {"", LLAMA_F "; " LLAMA_G, "hi"}},
    {"llama3_json", "p", {LLAMA_F "; " LLAMA_G}, {LLAMA_F "; "}},
    {"llama3_json",
     "fp",
     {"", "hi {", LLAMA_F "; " LLAMA_G, "<|python_tag|>" LLAMA_F},
     {"{", " {", "hi <|python_tag|>", LLAMA_F "x"}},
    {"mistral", "", {MISTRAL_F, "[TOOL_CALLS]g[ARGS]{}"}, {"", "[TOOL_CALLS]h[ARGS]{}", MISTRAL_F MISTRAL_F}},
    {"mistral", "p", {MISTRAL_F MISTRAL_F}, {MISTRAL_F "x"}},
    {"mistral",
     "fp",
     {"hi", "a" MISTRAL_F, "a" MISTRAL_F MISTRAL_F},
     {"[TOOL_CALLS]", "[TOOL_CALLS][" LIST_F "]", "a" MISTRAL_F "b", MISTRAL_F "b" MISTRAL_F,
      MISTRAL_F "h[ARGS]{}"}},
    {"mistral", "f", {"hi", "a" MISTRAL_F}, {MISTRAL_F "b", MISTRAL_F MISTRAL_F}},
    {"mistral_list",
     "",
     {"[TOOL_CALLS][" LIST_F "]"},
     {"[TOOL_CALLS][]", LIST_F, "[TOOL_CALLS][" LIST_F ", " LIST_F "]"}},
    {"mistral_list", "p", {"[TOOL_CALLS][" LIST_F ", " LIST_F "]"}, {"[TOOL_CALLS][" LIST_F ", ]"}},
    {"mistral_list", "fp", {"a[TOOL_CALLS][" LIST_F ", " LIST_F "]"}, {"[TOOL_CALLS]", MISTRAL_F}},
    {"phi4_mini_json",
     "p",
     {"functools[" LIST_F "]", "functools[" LIST_F ", " LIST_F "]"},
     {"functools[]", LIST_F}},
    {"phi4_mini_json",
     "fp",
     {"functools", "a functools[" LIST_F "]"},
     {"functools[]", "<|tool_call|>", "functools [1]", "functools\n["}},
    {"openai",
     "",
     {OPENAI_F, ANALYSIS ANALYSIS OPENAI_F, " to=functions.f<|channel|>commentary json<|message|>{\"a\": 1}"},
     {"", OPENAI_F OPENAI_F, ANALYSIS, OPENAI_F "<|call|>", "<|channel|>final<|message|>hi"}},
    {"openai", "p", {OPENAI_F}, {OPENAI_F OPENAI_F}},
    {"openai",
     "fp",
     {"<|channel|>final<|message|>hi", "<|channel|>commentary<|message|>a<|end|><|start|>assistant" OPENAI_F,
      ANALYSIS "<|channel|>final<|message|>", "<|channel|>analysis<|message|>hm"},
     {"<|channel|>commentary to=functions.f <|message|>{}", OPENAI_F "x", "<|start|>assistant to=functions.f",
      "<|channel|>final<|message|>a<|end|>", "<|channel|>final<|message|>a<|start|>"}},
    {"openai",
     "fpc",
     {ANALYSIS OPENAI_F, ANALYSIS "<|channel|>final <|constrain|>json<|message|>[7]"},
     {ANALYSIS "<|channel|>final<|message|>[8]", "<|channel|>commentary<|message|>a"}},
    {"hermes", "fpc", {"[7]", HERMES_F "\n" HERMES_G}, {"", "hi", "[7]" HERMES_F}},
    {"openai",
     "t",
     {C("<|channel|>") "analysis<|message|>hm" C("<|end|>") "<|start|>assistant" C(
         "<|channel|>") "commentary to=functions.f<|constrain|>json<|message|>{\"a\": 1}"},
     {OPENAI_F}},
    {"mistral", "pt", {C("[TOOL_CALLS]") "f" C("[ARGS]") "{\"a\": 1}"}, {MISTRAL_F}},
    {"mistral",
     "fpt",
     {"a", "a" C("[TOOL_CALLS]") "g" C("[ARGS]") "{}"},
     {MISTRAL_F, "a[TOOL_CALLS]", "\xff"}},
    {"mistral_list", "t", {C("[TOOL_CALLS]") " [" LIST_F "]"}, {C("[TOOL_CALLS]") "  [" LIST_F "]"}},
};

static void answers_call_functions_as_they_may(void **state)
{
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
        for (size_t k = 0; k < 5; k++) {
            if (k < 4 && answers[i].yes[k] && !accepts(answers[i].form, answers[i].how, answers[i].yes[k]))
                fail_msg("%s (%s) refuses \"%s\"", answers[i].form, answers[i].how, answers[i].yes[k]);
            if (answers[i].no[k] && accepts(answers[i].form, answers[i].how, answers[i].no[k]))
                fail_msg("%s (%s) accepts \"%s\"", answers[i].form, answers[i].how, answers[i].no[k]);
        }
}

/* Returns 1 if TEXT is a forced call of f with the parameters s, a string that is required, e, x or "y z", and n, 5;
 * 0 if it is not, and the negated error if EXTRA, a further parameter or NULL, cannot be enforced. */
static int values_accept(const char *form, json_t *extra, const char *text)
{
    json_t *schema = json_pack("{s:s,s:{s:{s:s,s:s},s:{s:s,s:[s,s]},s:{s:s,s:s}},s:[s]}", "type", "object",
                               "properties", "s", "type", "string", "description", "d", "e", "type", "string",
                               "enum", "x", "y z", "n", "type", "integer", "text", "5", "required", "s");
    const struct tool_calls_function function = {.name = "f", .parameters = schema};
    struct tool_calls calls = {.function = &function, .n = 1, .content = GRAMMAR_NEVER};
    struct grammar g;
    struct recognizer r;
    struct err e = {0};
    uint32_t start;
    int rc;

    if (extra)
        json_object_set_new(json_object_get(schema, "properties"), "more", extra);
    calls.form = tool_calls_form_named(form, &calls.made);
    assert_non_null(calls.form);
    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    rc = -tool_calls_grammar(&g, &calls, NULL, small_schema, NULL, &start, &e);
    if (rc == 0) {
        assert_int_equal(grammar_finish(&g, start, NULL), 0);
        assert_int_equal(recognizer_open(&r, &g, NULL), 0);
        rc = recognizer_matches(&r, text, strlen(text));
        recognizer_close(&r);
    }
    grammar_close(&g);
    json_decref(schema);
    return rc;
}

#define QWEN(parameters) "<tool_call>\n<function=f>\n" parameters "</function>\n</tool_call>"
#define QWEN_S           "<parameter=s>\nany <text> </p\n\n</parameter>\n"

static void values_between_marks_are_as_the_schema_says(void **state)
{
    assert_int_equal(values_accept("qwen3_coder", NULL, QWEN(QWEN_S)), 1);
    assert_int_equal(
        values_accept("qwen3_coder", NULL,
                      QWEN(QWEN_S "<parameter=e>\ny z\n</parameter>\n<parameter=n>\n5\n</parameter>\n")),
        1);
    assert_int_equal(values_accept("qwen3_coder", NULL, QWEN("")), 0);
    assert_int_equal(values_accept("qwen3_coder", NULL, QWEN(QWEN_S "<parameter=e>\nz\n</parameter>\n")), 0);
    assert_int_equal(values_accept("qwen3_coder", NULL, QWEN(QWEN_S "<parameter=n>\n6\n</parameter>\n")), 0);
    assert_int_equal(values_accept("qwen3_coder", NULL, QWEN(QWEN_S "<parameter=x>\n5\n</parameter>\n")), 0);
    assert_int_equal(
        values_accept("qwen3_coder", NULL, QWEN("<parameter=s>\n</parameter> x\n</parameter>\n")), 0);
    assert_int_equal(
        values_accept("glm45", NULL,
                      "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a</arg_value>\n</tool_call>"),
        1);
    assert_int_equal(
        values_accept("minimax_m2", NULL,
                      "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a</parameter>\n"
                      "</invoke>\n</minimax:tool_call>"),
        1);
    /* what a text without quotes cannot obey is refused, not ignored */
    assert_int_equal(
        values_accept("qwen3_coder", json_pack("{s:s,s:i}", "type", "string", "maxLength", 3), ""),
        -ERR_UNSUPPORTED);
    assert_int_equal(values_accept("qwen3_coder", json_pack("{s:[s,s]}", "type", "string", "null"), ""),
                     -ERR_UNSUPPORTED);
    assert_int_equal(values_accept("qwen3_coder", json_pack("{s:s,s:s}", "type", "object", "$ref", "#"), ""),
                     -ERR_UNSUPPORTED);
}

/* A row with a form can be forced to call a function; constrain.c refuses the others. */
static void every_form_writes_the_example_of_its_markup(void **state)
{
    struct tool_calls_made none;
    size_t n_forms = 0;

    for (size_t i = 0; markup_calls_row(i); i++) {
        const struct markup_calls *row = markup_calls_row(i);

        struct tool_calls_made made;
        char text[500];

        if (!tool_calls_form_named(row->name, &made))
            continue;
        n_forms++;
        snprintf(text, sizeof(text), "%s", row->example);
        if (row->stop[0]) /* the token that ends an answer is not part of it */
            text[strlen(text) - strlen(row->stop[0])] = 0;
        if (!accepts(row->name, "p", text))
            fail_msg("%s refuses \"%s\"", row->name, text);
    }
    assert_int_equal(n_forms, 29);
    assert_null(tool_calls_form_named("none", &none));
}

static void errors_name_the_function(void **state)
{
    const struct tool_calls_function function = {.name = "f\""};
    struct tool_calls calls = {.function = &function, .n = 1};
    struct grammar g;
    struct err e = {0};
    uint32_t start;

    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    calls.form = tool_calls_form_named("hermes", &calls.made);
    assert_int_equal(tool_calls_grammar(&g, &calls, NULL, small_schema, &e, &start, &e), ERR_UNSUPPORTED);
    assert_string_equal(e.msg, "function \"f\"\": a schema that is not served");
    calls.form = tool_calls_form_named("mistral", NULL);
    assert_int_equal(tool_calls_grammar(&g, &calls, NULL, small_schema, NULL, &start, &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "function \"f\"\": the name has other characters than letters"));
    grammar_close(&g);
}

static void names_are_escaped_where_they_stand_in_json(void **state)
{
    const struct tool_calls_function function = {.name = "a\"\\\n"};
    const struct tool_calls calls = {
        .form = tool_calls_form_named("llama3_json", NULL), .function = &function, .n = 1};
    static const char text[] = "{\"name\": \"a\\\"\\\\\\u000a\", \"parameters\": {}}";
    struct grammar g;
    struct recognizer r;
    uint32_t start;

    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    assert_int_equal(tool_calls_grammar(&g, &calls, NULL, small_schema, NULL, &start, NULL), 0);
    assert_int_equal(grammar_finish(&g, start, NULL), 0);
    assert_int_equal(recognizer_open(&r, &g, NULL), 0);
    assert_true(recognizer_matches(&r, text, strlen(text)));
    recognizer_close(&r);
    grammar_close(&g);
}

static void failed_allocations_are_reported(void **state)
{
    json_t *v = json_pack("{s:s,s:b,s:[{s:s},{s:s}]}", "markup", "mistral_list", "parallel", 1, "functions",
                          "name", "f", "name", "g");
    struct tool_calls calls = {.content = GRAMMAR_NEVER};

    for (long at = 1;; at++) {
        struct grammar g;
        struct err e = {0};
        uint32_t start;
        int code;
        bool failed;

        assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
        mem_fail_at(at);
        code = tool_calls_read(&g, v, NULL, small_schema, NULL, &calls, &start, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(code, failed ? ERR_NOMEM : 0);
        grammar_close(&g);
        if (!failed) {
            assert_in_range(at, 5, 500);
            break;
        }
    }
    json_decref(v);
}

static void wrong_members_are_refused_by_name(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"{}", "markup: expected the name"},
        {"{\"markup\": \"x\"}", "markup: expected the name"},
        {"{\"markup\": \"hermes\", \"functions\": []}", "functions: expected a list"},
        {"{\"markup\": \"hermes\", \"functions\": [{\"name\": \"f\"}, {}]}", "functions[1].name: expected"},
        {"{\"markup\": \"hermes\", \"functions\": [{\"name\": \"f\", \"parameters\": 3}]}",
         "functions[0].parameters: expected"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *v = json_loads(cases[i].text, 0, NULL);
        struct tool_calls calls = {.content = GRAMMAR_NEVER};
        struct grammar g;
        struct err e = {0};
        uint32_t start;

        assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
        assert_int_equal(tool_calls_read(&g, v, NULL, small_schema, NULL, &calls, &start, &e), ERR_INPUT);
        assert_non_null(strstr(e.msg, cases[i].words));
        grammar_close(&g);
        json_decref(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_call_functions_as_they_may),
        cmocka_unit_test(values_between_marks_are_as_the_schema_says),
        cmocka_unit_test(every_form_writes_the_example_of_its_markup),
        cmocka_unit_test(errors_name_the_function),
        cmocka_unit_test(names_are_escaped_where_they_stand_in_json),
        cmocka_unit_test(failed_allocations_are_reported),
        cmocka_unit_test(wrong_members_are_refused_by_name),
    };
    int failed;

    open_trie();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    token_trie_close(&trie);
    return failed;
}
