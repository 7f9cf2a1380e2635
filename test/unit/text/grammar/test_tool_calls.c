/* test_tool_calls.c - grammars of tool calls in every markup: what is an answer with tool calls, and what is not, and
 * that the parser of the markup reads back what a grammar writes.
 */
#include <jansson.h>

#include "base/buf.h"
#include "base/json/json_pull.h"
#include "base/mem.h"
#include "text/grammar/automata/recognizer.h"
#include "text/grammar/preface.h"
#include "text/grammar/schema/schema.h"
#include "text/grammar/tool_calls.h"
#include "text/markup/markup.h"
#include "text/markup/parser.h"

enum { MEMORY = 64 << 20, STEPS = 1 << 22, GRAMMARS = 20, WALKS = 50, MOST_TEXT = 20000, MOST_ROWS = 20000 };

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

/* The control tokens <|channel|>, <|end|>, [TOOL_CALLS], [ARGS], <tool_calls:x7> and <tool_call:x7>. */
static struct token_trie trie;

static void open_trie(void)
{
    static const char *const text[] = {"a",
                                       "\xff<|channel|>\xff",
                                       "\xff<|end|>\xff",
                                       "\xff[TOOL_CALLS]\xff",
                                       "\xff[ARGS]\xff",
                                       "\xff[ARG\xff",
                                       "\xff<tool_calls:x7>\xff",
                                       "\xff<tool_call:x7>\xff"};
    size_t len[8];

    for (size_t i = 0; i < 8; i++)
        len[i] = strlen(text[i]);
    assert_int_equal(token_trie_make(&trie, text, len, 8, NULL), 0);
}

/* True if TEXT is an answer in FORM to functions f, whose arguments are {"a": 1}, and g. HOW has letters: f for free
 * text, p for parallel tool calls, 1 for function f alone, c for the content [7], t for control tokens. */
static bool accepts(const char *form, const char *how, const char *text)
{
    json_t *schema = json_pack("{s:s,s:{s:{s:s,s:s}}}", "text", "{\"a\": 1}", "properties", "a", "type",
                               "number", "text", "1");
    const struct tool_calls_function function[] = {{.name = "f", .parameters = schema}, {.name = "g"}};
    struct tool_calls calls = {.function = function,
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
    assert_true(tool_calls_markup_named(form, &calls.markup));
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
#define GEMMA_F   "<|tool_call>call:f{a:1}<tool_call|>"
#define GEMMA_G   "<|tool_call>call:g{}<tool_call|>"
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
    {"mistral_v3",
     "",
     {"[TOOL_CALLS][" LIST_F "]"},
     {"[TOOL_CALLS][]", LIST_F, "[TOOL_CALLS][" LIST_F ", " LIST_F "]"}},
    {"mistral_v3", "p", {"[TOOL_CALLS][" LIST_F ", " LIST_F "]"}, {"[TOOL_CALLS][" LIST_F ", ]"}},
    {"mistral_v3", "fp", {"a[TOOL_CALLS][" LIST_F ", " LIST_F "]"}, {"[TOOL_CALLS]", MISTRAL_F}},
    {"gemma4", "p", {GEMMA_F, GEMMA_F GEMMA_G}, {GEMMA_F "\n" GEMMA_G}},
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
    /* the suffix of the marks is that of the vocabulary */
    {"hy_v3",
     "1t",
     {C("<tool_calls:x7>") "\n" C(
         "<tool_call:x7>") "f<tool_sep>\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>"
                           "\n</tool_call>\n</tool_calls>"},
     {"<tool_calls:x7>\n" C("<tool_call:x7>") "f<tool_sep>\n</tool_call>\n</tool_calls>",
      C("<tool_calls:x7>") "\n<tool_call>f<tool_sep>\n</tool_call>\n</tool_calls>"}},
    {"mistral_v3", "t", {C("[TOOL_CALLS]") " [" LIST_F "]"}, {C("[TOOL_CALLS]") "  [" LIST_F "]"}},
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
    assert_true(tool_calls_markup_named(form, &calls.markup));
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

static void every_form_writes_the_example_of_its_markup(void **state)
{
    struct tool_calls_markup none;

    for (size_t i = 0; markup_calls_row(i); i++) {
        const struct markup_calls *row = markup_calls_row(i);

        struct buf text = {.tag = MEM_TEXT};

        markup_example(row, &text);
        if (row->stop[0]) /* the token that ends an answer is not part of it */
            text.data[text.len - strlen(row->stop[0])] = 0;
        if (!accepts(row->name, "p", text.data))
            fail_msg("%s refuses \"%s\"", row->name, text.data);
        buf_fini(&text);
    }
    assert_false(tool_calls_markup_named("none", &none));
}

/* ---- reading back ---- */

static uint32_t chance(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 8) % n;
}

/* Returns a new random value, and sets *SCHEMA to a new schema of this value alone. NESTED: levels of lists and objects
 * that it may have. */
static json_t *random_value(uint32_t *seed, int nested, json_t **schema)
{
    static const char *const texts[] = {"x",
                                        "two words",
                                        "a\nb\n\nc",
                                        "1",
                                        "null",
                                        "</p> & <",
                                        "\"q\" 'r'",
                                        "\\n \\ / {[(,:=",
                                        "\303\251\360\237\230\200",
                                        "to=f"};
    static const char *const keys[] = {"k", "other_key", "k2"};
    json_t *v, *properties, *required, *inner;
    uint32_t kind = chance(seed, nested ? 7 : 5), n = chance(seed, 3) + 1;

    if (kind < 4) {
        v = kind < 2    ? json_string(texts[chance(seed, 10)])
            : kind == 2 ? json_integer((json_int_t)chance(seed, 5000) - 900)
                        : json_real(chance(seed, 1000) / 8.0 + 0.0625);
        *schema = json_pack("{s:s,s:[O]}", "type",
                            kind < 2    ? "string"
                            : kind == 2 ? "integer"
                                        : "number",
                            "enum", v);
        return v;
    }
    if (kind == 4) {
        v = json_boolean(chance(seed, 2));
        *schema = json_pack("{s:s,s:[O]}", "type", "boolean", "enum", v);
        return v;
    }
    if (kind == 5) { /* all items of a list have one schema */
        inner = random_value(seed, nested - 1, schema);
        v = json_pack("[o]", inner);
        *schema = json_pack("{s:s,s:o}", "type", "array", "items", *schema);
        return v;
    }
    v = json_object();
    properties = json_object();
    required = json_array();
    for (uint32_t i = 0; i < n; i++) {
        json_object_set_new(v, keys[i], random_value(seed, nested - 1, &inner));
        json_object_set_new(properties, keys[i], inner);
        json_array_append_new(required, json_string(keys[i]));
    }
    *schema = json_pack("{s:s,s:o,s:o}", "type", "object", "properties", properties, "required", required);
    return v;
}

/* Returns a new object of arguments, and sets *SCHEMA. */
static json_t *random_arguments(uint32_t *seed, json_t **schema)
{
    json_t *v = NULL;

    do {
        if (v) {
            json_decref(v);
            json_decref(*schema);
        }
        v = random_value(seed, 3, schema);
    } while (!json_is_object(v));
    return v;
}

static int whole_schema(void *context, struct grammar *g, const struct tool_calls_function *function,
                        uint32_t *start, struct err *e)
{
    const struct schema_options o = {.without_space = *(const bool *)context,
                                     .is_object = !function->value_close,
                                     .excluded = function->value_close};
    struct schema_report report = {0};
    int rc = schema_compile(g, function->parameters, &o, start, &report, e);

    schema_report_fini(&report);
    return rc;
}

/* The bytes that may follow each row of a grammar: [n] of them from 1 on, n at 0; 0: not known yet. */
static uint8_t follow[MOST_ROWS][257];

/* Writes a random answer of R to TEXT. Returns its length. */
static size_t walk(struct recognizer *r, uint32_t *seed, char *text)
{
    uint32_t row = RECOGNIZER_BEGIN;
    size_t n = 0;

    while (n < MOST_TEXT) {
        uint8_t own[257] = {0}, *f = row < MOST_ROWS ? follow[row] : own;
        size_t n_follow = f[0];

        for (unsigned byte = 0; !f[0] && byte < 255; byte++)
            if (recognizer_next(r, row, (uint8_t)byte) != RECOGNIZER_DEAD)
                f[++n_follow] = (uint8_t)byte;
        f[0] = (uint8_t)n_follow;
        if (n_follow == 0 || (recognizer_may_end(r, row) && chance(seed, 3) == 0))
            break;
        text[n] = (char)f[1 + chance(seed, (uint32_t)n_follow)];
        row = recognizer_next(r, row, (uint8_t)text[n++]);
    }
    assert_true(recognizer_may_end(r, row));
    return n;
}

/* Returns whether FOUND is MEANT, whose lists stand for any number of their item. */
static bool is_meant(const json_t *found, const json_t *meant)
{
    const char *key;
    json_t *v;
    size_t i;
    bool same = json_typeof(found) == json_typeof(meant);

    if (!json_is_array(meant) && !json_is_object(meant))
        return json_equal(found, meant) ||
               (json_is_number(found) && json_number_value(found) == json_number_value(meant));
    same = same && json_object_size(found) == json_object_size(meant);
    json_array_foreach(found, i, v) same = same && is_meant(v, json_array_get(meant, 0));
    json_object_foreach((json_t *)(uintptr_t)meant, key, v) same =
        same && json_object_get(found, key) && is_meant(json_object_get(found, key), v);
    return same;
}

/* The row reads TEXT [n] as complete calls of these functions with these arguments, and nothing else. */
static void check_read(const struct markup_calls *row, const struct tool_calls_function *function,
                       json_t *const *arguments, const json_t *tools, const char *text, size_t n)
{
    const char *const names[] = {function[0].name, function[1].name};
    const struct parser_options o = {.calls = row,
                                     .names = names,
                                     .n_names = 2,
                                     .tools = tools,
                                     .prompt = "<|start|>assistant",
                                     .prompt_len = strlen("<|start|>assistant")};
    struct buf found = {.tag = MEM_TEXT};
    struct parser_piece p;
    struct parser *a;
    size_t n_calls = 0, which = 0;
    json_t *v;

    assert_int_equal(parser_open(&a, &o, NULL), 0);
    assert_int_equal(parser_feed(a, text, NULL, n, NULL), 0);
    assert_int_equal(parser_finish(a, PARSER_ENDED, NULL), 0);
    while (parser_take(a, &p)) {
        if (p.kind == PARSER_CALL) {
            which = p.len == strlen(names[0]) && memcmp(p.text, names[0], p.len) == 0 ? 0 : 1;
            if (p.len != strlen(names[which]) || memcmp(p.text, names[which], p.len) != 0)
                fail_msg("%s: %.*s", row->name, (int)n, text);
            n_calls++;
        } else if (p.kind == PARSER_ARGUMENTS) {
            buf_add(&found, p.text, p.len);
        } else if (p.kind == PARSER_CALL_END) {
            v = NULL;
            if (!p.complete || json_pull_load_exact(&v, found.data, found.len, "", NULL) != 0 ||
                !is_meant(v, arguments[which]))
                fail_msg("%s reads %.*s: %.*s", row->name, (int)found.len, found.data, (int)n, text);
            json_decref(v);
            buf_clear(&found);
        } else {
            fail_msg("%s has text beside calls: %.*s", row->name, (int)n, text);
        }
    }
    assert_true(n_calls > 0);
    parser_close(a);
    buf_fini(&found);
}

static void walks_are_read_back(const struct markup_calls *row, uint32_t seed)
{
    static char text[MOST_TEXT];
    json_t *arguments[2], *schema[2], *tools;
    struct tool_calls_function function[2] = {{.name = "f"}, {.name = "get_it-2.x"}};
    struct tool_calls calls = {
        .function = function, .n = 2, .content = GRAMMAR_NEVER, .is_parallel = seed % 2};
    bool is_compact = seed % 3 == 0;
    struct grammar g;
    struct recognizer r;
    struct err e = {0};
    uint32_t start;

    for (size_t i = 0; i < 2; i++) {
        arguments[i] = random_arguments(&seed, &schema[i]);
        function[i].parameters = schema[i];
    }
    tools = json_pack("[{s:{s:s,s:O}},{s:{s:s,s:O}}]", "function", "name", function[0].name, "parameters",
                      schema[0], "function", "name", function[1].name, "parameters", schema[1]);
    assert_true(tool_calls_markup_named(row->name, &calls.markup));
    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    if (tool_calls_grammar(&g, &calls, NULL, whole_schema, &is_compact, &start, &e) != 0 ||
        grammar_finish(&g, start, &e) != 0 || recognizer_open(&r, &g, &e) != 0)
        fail_msg("%s: %s", row->name, e.msg);
    memset(follow, 0, sizeof(follow));
    for (size_t i = 0; i < WALKS; i++)
        check_read(row, function, arguments, tools, text, walk(&r, &seed, text));
    recognizer_close(&r);
    grammar_close(&g);
    json_decref(tools);
    for (size_t i = 0; i < 2; i++) {
        json_decref(arguments[i]);
        json_decref(schema[i]);
    }
}

/* Harmony's messages may have reasoning before a call; fuzz_calls.c reads them. */
static void every_row_reads_back_what_its_grammar_writes(void **state)
{
    for (size_t i = 0; markup_calls_row(i); i++)
        for (uint32_t seed = 1; seed <= GRAMMARS && !markup_calls_row(i)->channels; seed++)
            walks_are_read_back(markup_calls_row(i), seed);
}

/* Returns whether TEXT is reasoning up to CLOSE, and z behind it. */
static bool ends_reasoning(const struct token_trie *control, const char *close, const char *text)
{
    struct grammar g;
    struct recognizer r;
    uint32_t x;
    bool yes;

    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    x = preface_after(&g, control, close, REGEX_NOTHING, grammar_text(&g, "z"));
    assert_int_equal(grammar_finish(&g, x, NULL), 0);
    assert_int_equal(recognizer_open(&r, &g, NULL), 0);
    yes = recognizer_matches(&r, text, strlen(text));
    recognizer_close(&r);
    grammar_close(&g);
    return yes;
}

static void marks_of_reasoning_have_the_suffix_of_the_vocabulary(void **state)
{
    assert_true(ends_reasoning(&trie, "<tool_calls\1>", "hm <tool_calls\n" C("<tool_calls:x7>") "\nz"));
    assert_false(ends_reasoning(&trie, "<tool_calls\1>", "hm<tool_calls>z"));
    assert_false(ends_reasoning(&trie, "<tool_calls\1>", "hm<tool_calls:q>" C("<tool_calls:x7>") "z"));
    assert_true(ends_reasoning(NULL, "<tool_calls\1>", "hm<tool_calls>z"));
    assert_true(ends_reasoning(&trie, "</think\1>", "hm</think>z"));
}

static void errors_name_the_function(void **state)
{
    const struct tool_calls_function function = {.name = "f\""};
    struct tool_calls calls = {.function = &function, .n = 1};
    struct grammar g;
    struct err e = {0};
    uint32_t start;

    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    assert_true(tool_calls_markup_named("hermes", &calls.markup));
    assert_int_equal(tool_calls_grammar(&g, &calls, NULL, small_schema, &e, &start, &e), ERR_UNSUPPORTED);
    assert_string_equal(e.msg, "function \"f\"\": a schema that is not served");
    assert_true(tool_calls_markup_named("mistral", &calls.markup));
    assert_int_equal(tool_calls_grammar(&g, &calls, NULL, small_schema, NULL, &start, &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "function \"f\"\": the name has other characters than letters"));
    grammar_close(&g);
}

static void names_are_escaped_where_they_stand_in_json(void **state)
{
    const struct tool_calls_function function = {.name = "a\"\\\n"};
    struct tool_calls calls = {.function = &function, .n = 1};
    static const char text[] = "{\"name\": \"a\\\"\\\\\\n\", \"parameters\": {}}";
    struct grammar g;
    struct recognizer r;
    uint32_t start;

    assert_true(tool_calls_markup_named("llama3_json", &calls.markup));
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
    json_t *v = json_pack("{s:s,s:b,s:[{s:s},{s:s}]}", "markup", "mistral_v3", "parallel", 1, "functions",
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
        cmocka_unit_test(every_row_reads_back_what_its_grammar_writes),
        cmocka_unit_test(marks_of_reasoning_have_the_suffix_of_the_vocabulary),
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
