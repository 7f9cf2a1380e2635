/* test_parser.c - what models write, told apart: each family as it is documented, at every cut; what is
 * malformed comes back as text.
 */
#include "base/buf.h"
#include "base/err.h"
#include "text/markup/parser.h"
#include "transcript.h"

struct sample {
    const char *calls, *reasoning; /* names of rows, or NULL */
    const char *prompt;
    const char *text, *expected;
};

static const char *const names[] = {"get_weather", "f", "search"};

static struct parser_options options_of(const struct sample *s)
{
    struct parser_options o = {
        .names = names, .n_names = 3, .prompt = s->prompt, .prompt_len = s->prompt ? strlen(s->prompt) : 0};

    if (s->calls)
        assert_non_null(o.calls = markup_calls_named(s->calls));
    if (s->reasoning)
        assert_non_null(o.reasoning = markup_reasoning_named(s->reasoning));
    return o;
}

static bool at_two(const void *ctx, size_t at)
{
    const size_t *cuts = ctx;

    return at == cuts[0] || at == cuts[1];
}

static bool everywhere(const void *ctx, size_t at)
{
    (void)ctx;
    return at > 0;
}

static bool same(const struct parser_options *o, const char *text, const char *expected,
                 bool (*cut)(const void *, size_t), const void *ctx)
{
    char *found = transcript_of(o, text, strlen(text), cut, ctx, false);
    bool good = found && strcmp(found, expected) == 0;

    if (!good)
        print_error("of:       %s\nfound:    %s\nexpected: %s\n", text, found ? found : "(no memory)",
                    expected);
    mem_free(found);
    return good;
}

/* Whole, byte by byte, at each place, and at each pair of places. */
static void check(const struct sample *s)
{
    struct parser_options o = options_of(s);
    size_t n = strlen(s->text), cuts[2] = {0, 0};

    assert_true(same(&o, s->text, s->expected, at_two, cuts));
    assert_true(same(&o, s->text, s->expected, everywhere, NULL));
    for (cuts[0] = 1; cuts[0] < n; cuts[0]++)
        for (cuts[1] = cuts[0]; cuts[1]<n; cuts[1] += n> 200 ? 7 : 1)
            assert_true(same(&o, s->text, s->expected, at_two, cuts));
}

static void check_all(const struct sample *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check(&s[i]);
}

#define CHECK_ALL(samples) check_all(samples, sizeof(samples) / sizeof((samples)[0]))

static void plain_text_is_content(void **state)
{
    static const struct sample samples[] = {
        {NULL, NULL, NULL, "", ""},
        {NULL, NULL, NULL, " Hello\n\n", "[content] Hello\n\n"},
        {NULL, NULL, NULL, "<tool_call>{}</tool_call><think>", "[content]<tool_call>{}</tool_call><think>"},
        {"hermes", NULL, NULL, "a < b, <tool>, <tool_call", "[content]a < b, <tool>, <tool_call"},
        {"hermes", "qwen3", NULL, "\n two\n lines \n\n", "[content]\n two\n lines \n\n"},
        {"mistral", NULL, NULL, "x[1], [TOOL_CALL], [TOOL_", "[content]x[1], [TOOL_CALL], [TOOL_"},
        {"mistral", NULL, NULL, "[TOOL_CALLS]a]f[ARGS]{}", "[content][TOOL_CALLS]a]f[ARGS]{}"},
        {"llama3_json", NULL, NULL, "Take {\"name\": \"f\"}", "[content]Take {\"name\": \"f\"}"},
        {"phi4_mini_json", NULL, NULL, "functools is a module", "[content]functools is a module"},
        {"hermes", NULL, NULL, "h\303\251 \360\237\230\200", "[content]h\303\251 \360\237\230\200"},
    };

    CHECK_ALL(samples);
}

static void a_call_of_hermes(void **state)
{
    static const struct sample samples[] = {
        {"hermes", NULL, NULL,
         "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
         "[call get_weather]{\"city\": \"Paris\"}[end]"},
        {"hermes", NULL, NULL,
         "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
         "{\"name\": \"search\", \"arguments\": {\"q\": [1, {\"x\": null}]}}\n</tool_call>\n",
         "[content]Let me see.[call f]{}[end][call search]{\"q\": [1, {\"x\": null}]}[end]"},
        {"hermes", NULL, NULL, /* the arguments stand first */
         "<tool_call>{\"arguments\": {\"n1\": 2}, \"name\": \"sum\"}</tool_call>",
         "[call sum]{\"n1\": 2}[end]"},
        {"hermes", NULL, NULL, /* marks, brackets and quotes inside of strings */
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"t\": \"}</tool_call> \\\" {[ \\\\\"}}</tool_call>ok",
         "[call f]{\"t\": \"}</tool_call> \\\" {[ \\\\\"}[end][content]ok"},
        {"hermes", NULL, NULL, /* no closing mark */
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}", "[call f]{\"a\": 1}[end]"},
        {"hermes", NULL, NULL, /* the last brace is missing */
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}\n</tool_call>", "[call f]{\"a\": 1}[end]"},
        {"hermes", NULL, NULL, /* other members, escapes in names, JSON as a string */
         "<tool_call>{\"id\": \"x}\", \"n\": -1.5e3, \"b\": [{}], \"name\": \"\\u0066\", \"arguments\": "
         "\"{\\\"a\\\": \\\"\\u00e9\\ud83d\\ude00\\n\\\"}\", \"x\": true}</tool_call>",
         "[call f]{\"a\": \"\303\251\360\237\230\200\n\"}[end]"},
        {"hermes", NULL, NULL, "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call> .",
         "[call f]{}[end][content] ."},
        {"hermes", NULL, NULL, "<tool_call>{\"name\": \"f\"}</tool_call>", "[call f]{}[end]"},
        {"hermes", NULL, NULL,
         "<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]</tool_call>",
         "[call f]{}[end][call g]{}[end]"},
        {"hermes", NULL, NULL, /* the middle of a text keeps its white space */
         "a\n\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\nb",
         "[content]a[call f]{}[end][content]\n\n\nb"},
    };

    CHECK_ALL(samples);
}

static void what_is_no_call_is_content(void **state)
{
    static const char *const texts[] = {
        "<tool_call>hello</tool_call>",
        "<tool_call>{\"arguments\": {\"a\": 1}}</tool_call>",
        "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": 7}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
        "<tool_call>{'name': 'f', 'arguments': {}}</tool_call>",
        "<tool_call>{\"name\" \"f\"}</tool_call>",
        "<tool_call>{\"name\": \"f\",, \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\" \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"name\": \"g\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"x\": :, \"name\": \"f\"}</tool_call>",
        "<tool_call>{\"x\": , \"name\": \"f\"}</tool_call>",
        "<tool_call>{}</tool_call>",
        "<tool_call>[]</tool_call>",
        "<tool_call>{\"name\": \"f\", \"argu",
        "<tool_call>{\"name\": \"f",
        "<tool_call>{\"name\": \"f\", \"arguments\": ",
        "<tool_call>  ",
        "<tool_call>{\"arguments\": {\"a\": {",
    };
    char expected[200];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct sample s = {"hermes", NULL, NULL, texts[i], expected};

        snprintf(expected, sizeof(expected), "[content]%s", texts[i]);
        check(&s);
    }
}

static void a_call_is_found_behind_one_that_is_none(void **state)
{
    static const struct sample samples[] = {
        {"hermes", NULL, NULL, "<tool_call> <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
         "[content]<tool_call>[call f]{}[end]"},
        {"hermes", NULL, NULL, "<tool_call>{\"name\": \"<tool_call>{\"name\": \"f\", \"arguments\": {}}",
         "[content]<tool_call>{\"name\": \"[call f]{}[end]"},
        {"hermes", NULL, NULL,
         "Use <tool_call> so: <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
         "[content]Use <tool_call> so:[call f]{}[end]"},
        {"hermes", NULL, NULL, /* the second one is broken: the first one stands */
         "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call><tool_call>{\"name\"}</tool_call>",
         "[call f]{}[end][content]<tool_call>{\"name\"}</tool_call>"},
        {"hermes", NULL, NULL, /* broken behind its arguments */
         "<tool_call>{\"name\": \"f\", \"arguments\": {}, x}</tool_call>",
         "[call f]{}[end][content], x}</tool_call>"},
        {"phi4_mini_json", NULL, NULL, "functools[{\"name\": \"f\", \"arguments\": {}}, oh]",
         "[call f]{}[end][content], oh]"},
    };

    CHECK_ALL(samples);
}

static void an_answer_that_ends_inside_a_call(void **state)
{
    static const struct sample samples[] = {
        {"hermes", NULL, NULL, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x",
         "[call f]{\"a\": \"x[cut]"},
        {"hermes", NULL, NULL, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\"",
         "[call f]{\"a\"[cut]"},
        {"mistral", NULL, NULL, "[TOOL_CALLS]f[ARGS]{\"a\"", "[call f]{\"a\"[cut]"},
        {"mistral", NULL, NULL, "[TOOL_CALLS]f[ARGS]", "[content][TOOL_CALLS]f[ARGS]"},
    };

    CHECK_ALL(samples);
}

static void a_call_of_llama(void **state)
{
    static const struct sample samples[] = {
        {"llama3_json", NULL, NULL, "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}",
         "[call get_weather]{\"city\": \"Paris\"}[end]"},
        {"llama4_json", NULL, NULL, "\n{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}\n",
         "[call f]{}[end]"},
        {"llama3_json", NULL, NULL,
         "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": {\"a\": 1}}",
         "[call f]{}[end][call f]{\"a\": 1}[end]"},
        {"llama3_json", NULL, NULL,
         "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"search\", \"arguments\": {\"a\": 1}}",
         "[call f]{}[end][call search]{\"a\": 1}[end]"},
        /* JSON that was asked for is no call */
        {"llama3_json", NULL, NULL, "{\"name\": \"Ada\", \"parameters\": {}}",
         "[content]{\"name\": \"Ada\", \"parameters\": {}}"},
        {"llama3_json", NULL, NULL, "{\"name\": \"f\"}", "[content]{\"name\": \"f\"}"},
        {"llama3_json", NULL, NULL, "{\"a\": {\"name\": \"f\"}}", "[content]{\"a\": {\"name\": \"f\"}}"},
        {"llama3_json", NULL, NULL, "<|python_tag|>search.call(q=\"x\")",
         "[content]<|python_tag|>search.call(q=\"x\")"},
    };

    CHECK_ALL(samples);
}

static void a_call_of_mistral(void **state)
{
    static const struct sample samples[] = {
        {"mistral", NULL, NULL,
         "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"VvvODy9mT\"}, "
         "{\"name\": \"search\", \"arguments\": {}}]",
         "[call f]{\"a\": 1}[end][call search]{}[end]"},
        {"mistral", NULL, NULL, "[TOOL_CALLS] [{\"arguments\": {\"a\": \"]\"}, \"name\": \"f\"}]",
         "[call f]{\"a\": \"]\"}[end]"},
        {"mistral", NULL, NULL, "Sure.[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}",
         "[content]Sure.[call f]{\"a\": 1}[end][call g]{}[end]"},
        {"mistral", NULL, NULL, "[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{\"a\": {}}",
         "[call f]{\"a\": {}}[end]"},
        {"mistral", NULL, NULL, "[TOOL_CALLS]a.b-c_9{\"x\": 1}y{}",
         "[call a.b-c_9]{\"x\": 1}[end][call y]{}[end]"},
        {"mistral", NULL, NULL, "[TOOL_CALLS]f[ARGS]{}Now text, {x}",
         "[call f]{}[end][content]Now text, {x}"},
        {"mistral", NULL, NULL, "[TOOL_CALLS]{\"name\": \"f\", \"arguments\": {}}", "[call f]{}[end]"},
        {"mistral", NULL, NULL, "[TOOL_CALLS]f[ARGS]x{}", "[content][TOOL_CALLS]f[ARGS]x{}"},
        {"mistral", NULL, NULL, "[TOOL_CALLS]f[OTHER][ARGS]{}", "[content][TOOL_CALLS]f[OTHER][ARGS]{}"},
        {"mistral", NULL, NULL, "[TOOL_CALLS]two words{}", "[content][TOOL_CALLS]two words{}"},
        {"mistral", "mistral", NULL, "[THINK]Hm.[/THINK][TOOL_CALLS]f[ARGS]{}",
         "[reasoning]Hm.[call f]{}[end]"},
    };

    CHECK_ALL(samples);
}

static void a_call_of_phi(void **state)
{
    static const struct sample samples[] = {
        {"phi4_mini_json", NULL, NULL,
         "functools[{\"name\": \"f\", \"arguments\": {\"a\": [1]}}, {\"name\": \"g\", \"parameters\": {}}]",
         "[call f]{\"a\": [1]}[end][call g]{}[end]"},
        {"phi4_mini_json", NULL, NULL,
         "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]<|/tool_call|> Done",
         "[call f]{}[end][content] Done"},
        {"phi4_mini_json", NULL, NULL, "functools [{\"name\": 1}]", "[content]functools [{\"name\": 1}]"},
    };

    CHECK_ALL(samples);
}

static void reasoning_is_split_off(void **state)
{
    static const char open[] = "<|im_start|>assistant\n<think>\n",
                      closed[] = "assistant\n<think>\n\n</think>\n\n";
    static const struct sample samples[] = {
        {NULL, "qwen3", NULL, "<think>\nHm.\n\nYes.\n</think>\n\nHello\n",
         "[reasoning]Hm.\n\nYes.[content]Hello\n"},
        {NULL, "qwen3", open, "Hm.\n</think>\n\nHello", "[reasoning]Hm.[content]Hello"},
        {NULL, "qwen3", open, "<think>\nHm.</think>Hello", "[reasoning]Hm.[content]Hello"},
        {NULL, "qwen3", closed, "\nHello", "[content]\nHello"},
        {NULL, "qwen3", NULL, "Hello <think> </think>", "[content]Hello <think> </think>"},
        {NULL, "qwen3", NULL, "<think>\n\n</think>\n\nHello", "[content]Hello"},
        {NULL, "qwen3", NULL, "<think>Hm.\n", "[reasoning]Hm.\n"},
        {NULL, "qwen3", NULL, "<think>a</think>\n<think>b</think>c", "[reasoning]a\nb[content]c"},
        {NULL, "qwen3", NULL, "<think>", ""},
        {NULL, "qwen3", open, "a </think", "[reasoning]a </think"},
        {NULL, "deepseek_r1", "\357\275\234Assistant>", "Hm.</think>Hello", "[reasoning]Hm.[content]Hello"},
        {NULL, "deepseek_r1", closed, "Hello", "[content]Hello"},
        {NULL, "gemma4", "<|turn>model\n", "<|channel>thought\nHm.\n<channel|>Hello",
         "[reasoning]Hm.[content]Hello"},
        {"hermes", "qwen3", open,
         "Hm.\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
         "[reasoning]Hm.[call f]{}[end]"},
        /* a call inside of reasoning ends it; one that is only spoken of does not */
        {"hermes", "qwen3", open,
         "I use <tool_call> now\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
         "[reasoning]I use <tool_call> now[call f]{}[end]"},
        {"hermes", "qwen3", open, "Hm.<tool_call>{\"name\": \"f\"}</tool_call>\n</think>\nOk",
         "[reasoning]Hm.[call f]{}[end][content]\n\nOk"},
        {"llama3_json", "qwen3", open, "{\"name\": \"f\", \"parameters\": {}}</think>Ok",
         "[reasoning]{\"name\": \"f\", \"parameters\": {}}[content]Ok"},
    };

    CHECK_ALL(samples);
}

static void channels_of_harmony(void **state)
{
    static const char prompt[] = "<|start|>user<|message|>Hi<|end|><|start|>assistant";
    static const char final[] = "<|end|><|start|>assistant<|channel|>final<|message|>Par";
    static const struct sample samples[] = {
        {"openai", NULL, prompt,
         "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
         "[reasoning]Hm.[content]Hello."},
        {"openai", "openai_gptoss", prompt,
         "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
         "<|constrain|>json<|message|>{\"a\":1}<|call|>",
         "[reasoning]Hm.[call f]{\"a\":1}[end]"},
        {"openai", NULL, prompt,
         " to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>{\"a\": \"<|\"}",
         "[call get_weather]{\"a\": \"<|\"}[end]"},
        {"openai", NULL, prompt,
         "<|channel|>commentary<|message|>Plan<|end|><|start|>assistant<|channel|>final<|message|>Do",
         "[content]Plan\nDo"},
        {"openai", NULL, prompt,
         "<|channel|>commentary to=functions.f<|message|><|call|><|start|>assistant<|channel|>commentary "
         "to=functions.g<|message|>{}<|call|>",
         "[call f]{}[end][call g]{}[end]"},
        {"openai", NULL, prompt, "<|channel|>commentary to=search<|message|>{}", "[call search]{}[end]"},
        {"openai", NULL, prompt, "<|channel|>analysis to=python code<|message|>1+1<|call|>",
         "[reasoning]1+1"},
        {NULL, "openai_gptoss", prompt, "<|channel|>commentary to=functions.f<|message|>{}<|call|>",
         "[content]{}"},
        /* what some answers have: no header, no end, words that do not belong there */
        {"openai", NULL, prompt, "Hello", "[content]Hello"},
        {"openai", NULL, prompt, "<|message|>Hello", "[content]Hello"},
        {"openai", NULL, prompt, "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Ok",
         "[reasoning]Hm.[content]Ok"},
        {"openai", NULL, prompt, "<|channel|>final --x<|message|>Ok<|end|>\n", "[content]Ok"},
        {"openai", NULL, prompt, "<|channel|>final<|message|>Ok<|end|>more", "[content]Ok\nmore"},
        {"openai", NULL, prompt, "<|channel|>oh<|end|>", "[content]<|channel|>oh"},
        {"openai", NULL, prompt, "<|channel|>final<|mess", ""},
        {"openai", NULL, prompt, "<|channel|>final<|message|>a <|end", "[content]a <|end"},
        {"openai", NULL, final, "is", "[content]is"},
        {"openai", NULL, final, "is<|end|><|start|>assistant<|channel|>analysis<|message|>Hm",
         "[content]is[reasoning]Hm"},
        {"openai", NULL, NULL, "<|channel|>final<|message|>Ok", "[content]Ok"},
    };

    CHECK_ALL(samples);
}

static void a_call_that_a_limit_cuts_is_not_complete(void **state)
{
    const struct sample s = {"openai", NULL, NULL, "<|channel|>commentary to=functions.f<|message|>{\"a",
                             NULL};
    struct parser_options o = options_of(&s);
    char *t = transcript_of(&o, s.text, strlen(s.text), everywhere, NULL, true);

    assert_string_equal(t, "[call f]{\"a[cut]");
    mem_free(t);
}

/* The checker itself must be able to fail. */
static void the_comparison_sees_another_transcript(void **state)
{
    const struct sample s = {"hermes", NULL, NULL, "a", NULL};
    struct parser_options o = options_of(&s);

    assert_false(same(&o, "a", "[content]b", everywhere, NULL));
    assert_false(same(&o, "a", "[reasoning]a", everywhere, NULL));
}

static void one_call_only(void **state)
{
    static const char text[] =
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call><tool_call>"
        "{\"name\": \"g\", \"arguments\": {}}</tool_call>end";
    const struct sample s = {"hermes", NULL, NULL, text, NULL};
    struct parser_options o = options_of(&s);

    o.one_call = true;
    assert_true(same(&o, text, "[call f]{\"a\": 1}[end][content]end", everywhere, NULL));
}

static void ids_are_their_own(void **state)
{
    static const char text[] = "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]f[ARGS]{}";
    char seen[4][PARSER_ID_SIZE];
    size_t n = 0;

    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct parser_options o = {.calls = markup_calls_named("mistral"), .seed = seed};
        struct parser_piece p;
        struct parser *a;

        assert_int_equal(parser_open(&a, &o, NULL), 0);
        assert_int_equal(parser_feed(a, text, strlen(text), NULL), 0);
        while (parser_take(a, &p))
            if (p.kind == PARSER_CALL)
                memcpy(seen[n++], p.id, sizeof(p.id));
        parser_close(a);
    }
    assert_int_equal(n, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(strlen(seen[i]), 9);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(seen[i], seen[j]);
    }
}

static void an_id_is_long_where_the_family_does_not_say(void **state)
{
    struct parser_options o = {.calls = markup_calls_named("hermes")};
    struct parser_piece p;
    struct parser *a;

    assert_int_equal(parser_open(&a, &o, NULL), 0);
    assert_int_equal(parser_feed(a, o.calls->example, strlen(o.calls->example), NULL), 0);
    assert_true(parser_take(a, &p));
    assert_int_equal(strlen(p.id), 29);
    assert_int_equal(strncmp(p.id, "call_", 5), 0);
    parser_close(a);
}

/* Arguments come out while the call is still being written, and text that is no mark at once. */
static void nothing_waits_longer_than_it_must(void **state)
{
    static const struct {
        const char *text, *expected;
    } steps[] = {
        {"Hi <to", "[content]Hi"},
        {"p>", "[content]Hi <top>"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a", "[content]Hi <top>[call f]{\"a"},
        {"\": [", "[content]Hi <top>[call f]{\"a\": ["},
        {"]}}", "[content]Hi <top>[call f]{\"a\": []}[end]"},
    };
    struct parser_options o = {.calls = markup_calls_named("hermes")};
    struct transcript t = {0};
    struct parser *a;

    buf_init(&t.text, MEM_API);
    assert_int_equal(parser_open(&a, &o, NULL), 0);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        assert_int_equal(parser_feed(a, steps[i].text, strlen(steps[i].text), NULL), 0);
        transcript_take(&t, a);
        assert_string_equal(t.text.data, steps[i].expected);
    }
    parser_close(a);
    buf_fini(&t.text);
}

/* LEN bytes of FILL between HEAD and TAIL. */
static char *padded(const char *head, char fill, size_t len, const char *tail)
{
    size_t n = strlen(head);
    char *s = mem_alloc(n + len + strlen(tail) + 1, MEM_API);

    memcpy(s, head, n);
    memset(s + n, fill, len);
    strcpy(s + n + len, tail);
    return s;
}

static void check_padded(const char *head, size_t len, const char *tail, const char *before, bool call)
{
    struct parser_options o = {.calls = markup_calls_named("hermes")};
    char *text = padded(head, 'x', len, tail);
    char *t = transcript_of(&o, text, strlen(text), everywhere, NULL, false);

    assert_int_equal(strncmp(t, before, strlen(before)), 0);
    assert_int_equal(strstr(t, "[call") != NULL, call);
    if (!call)
        assert_string_equal(t + strlen("[content]"), text);
    mem_free(t);
    mem_free(text);
}

static void what_is_too_long_is_no_call(void **state)
{
    static const char name[] = "<tool_call>{\"name\": \"", behind[] = "\", \"arguments\": {}}</tool_call>";
    static const char early[] = "<tool_call>{\"arguments\": {\"a\": \"",
                      then[] = "\"}, \"name\": \"f\"}</tool_call>";
    size_t room = PARSER_MAX_HELD - strlen(early) - strlen(then) + strlen("}</tool_call>");

    check_padded(name, PARSER_MAX_NAME, behind, "[call xxx", true);
    check_padded(name, PARSER_MAX_NAME + 1, behind, "[content]<tool_call>", false);
    check_padded(early, room, then, "[call f]", true);
    check_padded(early, room + 1, then, "[content]<tool_call>", false);
    check_padded("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"", 3 * PARSER_MAX_HELD, "\"}}",
                 "[call f]", true);
}

static void as_many_calls_as_there_may_be(void **state)
{
    static const char one[] = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    struct parser_options o = {.calls = markup_calls_named("hermes")};
    struct buf text;
    char *t;

    buf_init(&text, MEM_API);
    for (int i = 0; i <= PARSER_MAX_CALLS; i++)
        buf_str(&text, one);
    t = transcript_of(&o, text.data, text.len, everywhere, NULL, false);
    assert_string_equal(strstr(t, "[content]"),
                        "[content]<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>");
    mem_free(t);
    buf_fini(&text);
}

/* What would be read again and again costs no more than a moment: marks inside of what may be a call. */
static void marks_inside_of_marks(void **state)
{
    static const char unit[] = "<tool_call>{\"arguments\": {";
    struct parser_options o = {.calls = markup_calls_named("hermes")};
    struct buf text;
    char *t;

    buf_init(&text, MEM_API);
    while (text.len < 60000)
        buf_str(&text, unit);
    t = transcript_of(&o, text.data, text.len, everywhere, NULL, false);
    assert_string_equal(t + strlen("[content]"), text.data);
    mem_free(t);
    buf_fini(&text);
}

static void every_allocation_may_fail(void **state)
{
    static const struct sample samples[] = {
        {"hermes", "qwen3", NULL,
         "<think>Hm</think>  a <tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>b", NULL},
        {"openai", NULL, "<|start|>assistant", "<|channel|>final<|message|>Ok", NULL},
    };

    for (size_t i = 0; i < 2; i++) {
        struct parser_options o = options_of(&samples[i]);
        size_t before = mem_live_bytes();
        bool failed = true;

        for (long n = 1; failed; n++) {
            char *t;

            mem_fail_at(n);
            t = transcript_of(&o, samples[i].text, strlen(samples[i].text), everywhere, NULL, false);
            failed = mem_failed();
            mem_fail_at(0);
            if (!failed)
                assert_non_null(t);
            mem_free(t);
            assert_int_equal(mem_live_bytes(), before);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_is_content),
        cmocka_unit_test(a_call_of_hermes),
        cmocka_unit_test(what_is_no_call_is_content),
        cmocka_unit_test(a_call_is_found_behind_one_that_is_none),
        cmocka_unit_test(an_answer_that_ends_inside_a_call),
        cmocka_unit_test(a_call_of_llama),
        cmocka_unit_test(a_call_of_mistral),
        cmocka_unit_test(a_call_of_phi),
        cmocka_unit_test(reasoning_is_split_off),
        cmocka_unit_test(channels_of_harmony),
        cmocka_unit_test(a_call_that_a_limit_cuts_is_not_complete),
        cmocka_unit_test(the_comparison_sees_another_transcript),
        cmocka_unit_test(one_call_only),
        cmocka_unit_test(ids_are_their_own),
        cmocka_unit_test(an_id_is_long_where_the_family_does_not_say),
        cmocka_unit_test(nothing_waits_longer_than_it_must),
        cmocka_unit_test(what_is_too_long_is_no_call),
        cmocka_unit_test(as_many_calls_as_there_may_be),
        cmocka_unit_test(marks_inside_of_marks),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
