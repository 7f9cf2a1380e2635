/* test_parser.c - what models write, told apart: each family as it is documented, at every cut; what is
 * malformed comes back as text.
 */
#include "base/buf.h"
#include "base/err.h"
#include "text/markup/parser.h"
#include "text/tok/tok.h"
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
        {"hermes", NULL,
         NULL, /* white space beside a call belongs to the markup; a line end joins the texts */
         "a\n\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\nb",
         "[content]a[call f]{}[end][content]\nb"},
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

static void a_continued_message_goes_on_in_its_part(void **state)
{
    static const struct {
        const char *row, *continued, *text, *expected;
    } cases[] = {
        {"deepseek_r1", "The answer is", " 42.</think>\n", "[content] 42.</think>\n"},
        {"deepseek_r1", "<think>I must", "\n\nsay it.\n</think>\nIt is.",
         "[reasoning]\n\nsay it.[content]It is."},
        {"qwen3", "<think>I must", " <think> twice</think>a", "[reasoning] <think> twice[content]a"},
        {"qwen3", "The answer is", "<think>a</think>b", "[content]<think>a</think>b"},
        {"qwen3", "<think>", "\na</think>b", "[reasoning]a[content]b"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct parser_options o = {.reasoning = markup_reasoning_named(cases[i].row),
                                   .prompt = cases[i].continued,
                                   .prompt_len = strlen(cases[i].continued),
                                   .continued = cases[i].continued,
                                   .n_continued = strlen(cases[i].continued)};

        assert_true(same(&o, cases[i].text, cases[i].expected, everywhere, NULL));
    }
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

#define HARMONY_CALL(name, arguments) \
    "<|channel|>commentary to=functions." name "<|message|>" arguments "<|call|><|start|>assistant"
#define CALL_F "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}"

/* What a limit leaves of a call: [cut] tells that its arguments are incomplete, and the beginning of what
 * closes it or of the next one in its list is no text. Where calls are forced there is no text at all. */
static void a_limit_cuts_calls(void **state)
{
    static const struct {
        const char *calls, *text, *expected, *forced;
    } cases[] = {
        {"openai", "<|channel|>commentary to=functions.f<|message|>{\"a", "[call f]{\"a[cut]", NULL},
        {"openai", "<|channel|>commentary to=functions.f<|message|>{\"a\":{}}", "[call f]{\"a\":{}}[end]",
         NULL},
        {"openai", "<|channel|>commentary to=functions.f<|message|>", "[call f][cut]", NULL},
        {"openai", HARMONY_CALL("f", "{\"a\":[1") HARMONY_CALL("g", "{\"b\":2}"),
         "[call f]{\"a\":[1[end][call g]{\"b\":2}[end]", NULL},
        {"openai",
         HARMONY_CALL("f", "{\"a\":[\"1") "<|channel|>commentary to=functions.g<|message|>{\"b\":2}",
         "[call f]{\"a\":[\"1[end][call g]{\"b\":2}[end]", NULL},
        {"openai", HARMONY_CALL("f", "{\"a\":1}") "<|channel|>commentary to=functions.g<|message|>{\"b\":",
         "[call f]{\"a\":1}[end][call g]{\"b\":[cut]", NULL},
        {"hermes", CALL_F, "[call f]{\"a\": 1}[end]", NULL},
        {"hermes", CALL_F "\n", "[call f]{\"a\": 1}[end]", NULL},
        {"hermes", CALL_F "\n</tool", "[call f]{\"a\": 1}[end]", NULL},
        {"hermes", CALL_F "\n</tool_call>\n<to", "[call f]{\"a\": 1}[end][content]\n<to",
         "[call f]{\"a\": 1}[end]"},
        {"hermes", CALL_F "\n</tool_call>\n<tool_call>\n{\"name\": \"g",
         "[call f]{\"a\": 1}[end][content]\n<tool_call>\n{\"name\": \"g", "[call f]{\"a\": 1}[end]"},
        {"hermes", CALL_F "\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {\"b",
         "[call f]{\"a\": 1}[end][call g]{\"b[cut]", NULL},
        {"hermes", "<tool_call>\n{\"na", "[content]<tool_call>\n{\"na", ""},
        {"hermes", CALL_F "</x", "[call f]{\"a\": 1}[end][content]</x", "[call f]{\"a\": 1}[end]"},
        {"mistral", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g", "[call f]{}[end]",
         NULL},
        {"mistral", "[TOOL_CALLS][{\"name\": \"f", "[content][TOOL_CALLS][{\"name\": \"f", ""},
        {"phi4_mini_json", "functools[{\"name\": \"f\", \"arguments\": {}},", "[call f]{}[end]", NULL},
        {"llama3_json", "{\"name\": \"f\", \"parameters\": {}}; ", "[call f]{}[end]", NULL},
        {"llama3_json", "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g", "[call f]{}[end]", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int forced = 0; forced < 2; forced++)
            for (int split = 0; split < 2; split++) {
                struct parser_options o = {.calls = markup_calls_named(cases[i].calls),
                                           .names = names,
                                           .n_names = 3,
                                           .is_forced = forced};
                size_t cuts[2] = {0, 0};
                char *t = transcript_of(&o, cases[i].text, strlen(cases[i].text), split ? everywhere : at_two,
                                        cuts, true);

                assert_string_equal(t, forced && cases[i].forced ? cases[i].forced : cases[i].expected);
                mem_free(t);
            }
}

/* A stop string drops a call whose arguments are incomplete, and keeps one whose arguments are complete. */
static void a_stop_string_cuts_calls(void **state)
{
    static const struct {
        const char *calls, *text, *expected;
    } cases[] = {
        {"hermes", "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a", "[content]a[call f]{\"a[cut]"},
        {"hermes", "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}",
         "[content]a[call f]{\"a\": 1}[end]"},
        {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}, \"x\": ", "[call f]{}[end]"},
        {"hermes", "a <tool_call>\n{\"name\": \"f", "[content]a"},
        {"hermes", CALL_F "\n</tool", "[call f]{\"a\": 1}[end]"},
        {"openai", "<|channel|>commentary to=functions.f<|message|>{\"a\": 1}", "[call f]{\"a\": 1}[end]"},
        {"openai", "<|channel|>commentary to=functions.f<|message|>{\"a\": ", "[call f]{\"a\": [cut]"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct parser_options o = {.calls = markup_calls_named(cases[i].calls)};
        struct transcript t = {.text = {.tag = MEM_TEXT}};
        struct parser *a;

        assert_int_equal(parser_open(&a, &o, NULL), 0);
        assert_int_equal(parser_feed(a, cases[i].text, NULL, strlen(cases[i].text), NULL), 0);
        assert_int_equal(parser_finish(a, PARSER_STOPPED, NULL), 0);
        transcript_take(&t, a);
        assert_string_equal(t.text.data, cases[i].expected);
        parser_close(a);
        buf_fini(&t.text);
    }
}

static void forced_calls_drop_text_only_where_calls_are_parsed(void **state)
{
    const struct parser_options none = {.is_forced = true},
                                reasons = {.calls = markup_calls_named("hermes"),
                                           .reasoning = markup_reasoning_named("qwen3"),
                                           .is_forced = true};

    assert_true(same(&none, "a", "[content]a", everywhere, NULL));
    assert_true(
        same(&reasons, "<think>a</think>b" CALL_F, "[reasoning]a[call f]{\"a\": 1}[end]", everywhere, NULL));
}

/* ---- formats that are no JSON ---- */

/* Checks S with the types of a function f: s, i, n, b, l, o, and u, a string or null. */
static void check_typed(const struct sample *s, size_t n)
{
    json_t *tools = json_pack(
        "[{s:s,s:{s:s,s:{s:s,s:{s:{s:s},s:{s:s},s:{s:s},s:{s:s},s:{s:s},s:{s:s,s:{s:{s:s}}},"
        "s:{s:[{s:s},{s:s}]},s:{s:[s,s]},s:{s:s}}}}}]",
        "type", "function", "function", "name", "f", "parameters", "type", "object", "properties", "s",
        "type", "string", "i", "type", "integer", "n", "type", "number", "b", "type", "boolean", "l", "type",
        "array", "o", "type", "object", "properties", "i", "type", "integer", "u", "anyOf", "type", "string",
        "type", "null", "e", "enum", "x", "y", "any", "description", "d");

    for (size_t i = 0; i < n; i++) {
        struct parser_options o = options_of(&s[i]);
        size_t len = strlen(s[i].text), cuts[2] = {0, 0};

        o.tools = tools;
        assert_true(same(&o, s[i].text, s[i].expected, at_two, cuts));
        assert_true(same(&o, s[i].text, s[i].expected, everywhere, NULL));
        for (cuts[0] = 1; cuts[0] < len; cuts[0]++)
            assert_true(same(&o, s[i].text, s[i].expected, at_two, cuts));
    }
    json_decref(tools);
}

#define CHECK_TYPED(samples) check_typed(samples, sizeof(samples) / sizeof((samples)[0]))
#define QWEN(key, value)     "<parameter=" key ">\n" value "\n</parameter>\n"
#define MINI                 "]<]minimax[>["
#define DSML                 "\357\275\234DSML\357\275\234"
#define GLM(key, value)      "<arg_key>" key "</arg_key>\n<arg_value>" value "</arg_value>\n"

/* The types of a value are sought in a bounded number of schemas, also where these refer to each other: ten references
 * to itself would be 10^16 paths of 16. */
static void a_schema_that_refers_to_itself_takes_endless_work(void **state)
{
    static const struct sample sample = {"qwen3_coder", NULL, NULL,
                                         "<function=f>" QWEN("a", "1") QWEN("b", "2") "</function>",
                                         "[call f]{\"a\": \"1\", \"b\": 2}[end]"};
    struct parser_options o = options_of(&sample);
    json_t *self = json_array();

    for (int i = 0; i < 10; i++)
        json_array_append_new(self, json_pack("{s:s}", "$ref", "#/d"));
    o.tools = json_pack("[{s:s,s:{s:s,s:{s:{s:{s:s},s:{s:[{s:s}]}},s:{s:o}}}}]", "type", "function",
                        "function", "name", "f", "parameters", "properties", "a", "$ref", "#/d", "b", "anyOf",
                        "type", "integer", "d", "anyOf", self);
    assert_non_null(o.tools);
    assert_true(same(&o, sample.text, sample.expected, everywhere, NULL));
    json_decref((json_t *)(uintptr_t)o.tools);
}

static void values_have_the_types_of_the_schema(void **state)
{
    static const struct sample samples[] = {
        {"qwen3_coder", NULL, NULL,
         "<tool_call>\n<function=f>\n" QWEN("s", "00420") QWEN("i", " 007 ") QWEN("n", "3.0")
             QWEN("b", "True") QWEN("l", "[\"\\n\", {}]") QWEN("o", "{\"i\": 1}") "</function>\n</tool_call>",
         "[call f]{\"s\": \"00420\", \"i\": 7, \"n\": 3, \"b\": true, \"l\": [\"\\n\", {}], \"o\": {\"i\": 1}}[end]"},
        /* what is not of the type is text */
        {"qwen3_coder", NULL, NULL,
         "<function=f>" QWEN("i", "1.5") QWEN("n", "1e999") QWEN("b", "yes") QWEN("l", "{}")
             QWEN("o", "{") "</function>",
         "[call f]{\"i\": \"1.5\", \"n\": \"1e999\", \"b\": \"yes\", \"l\": \"{}\", \"o\": \"{\"}[end]"},
        {"qwen3_coder", NULL, NULL,
         "<function=f>" QWEN("u", "null") QWEN("e", "x") QWEN("any", "17")
             QWEN("other", "true") "</function>",
         "[call f]{\"u\": null, \"e\": \"x\", \"any\": \"17\", \"other\": \"true\"}[end]"},
        {"qwen3_coder", NULL, NULL, "<function=f>" QWEN("u", "nullable") QWEN("u", "nu") "</function>",
         "[call f]{\"u\": \"nullable\", \"u\": \"nu\"}[end]"},
        {"glm45", NULL, NULL, "<tool_call>f\n" GLM("i", "-12") GLM("s", " \"a\\\n ") "</tool_call>",
         "[call f]{\"i\": -12, \"s\": \" \\\"a\\\\\\n \"}[end]"},
        {"deepseek_v32", NULL, NULL, /* a type that is written has precedence */
         "<" DSML "tool_calls><" DSML "invoke name=\"f\">"
         "<" DSML "parameter name=\"i\" string=\"true\">1</" DSML "parameter>"
         "<" DSML "parameter name=\"s\" string=\"false\">[2]</" DSML "parameter>"
         "</" DSML "invoke></" DSML "tool_calls>",
         "[call f]{\"i\": \"1\", \"s\": [2]}[end]"},
        {"gemma4", NULL, NULL, /* a schema that says nothing is none */
         "<|tool_call>call:f{any:null}<tool_call|>", "[call f]{\"any\": null}[end]"},
        {"gemma4", NULL, NULL,
         "<|tool_call>call:f{s:5,i:<|\"|>6<|\"|>,x:[1,null,a b,{k:<|\"|>}<|\"|>}]}<tool_call|>",
         "[call f]{\"s\": \"5\", \"i\": 6, \"x\": [1, null, \"a b\", {\"k\": \"}\"}]}[end]"},
        {"minimax_m3", NULL, NULL,
         "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<o>]<]minimax[>[<i>4]<]minimax[>[</i>"
         "]<]minimax[>[</o>]<]minimax[>[<l>\n]<]minimax[>[<item>a]<]minimax[>[</item>]<]minimax[>[<item>]<]minimax[>["
         "<k>b]<]minimax[>[</k>]<]minimax[>[</item>]<]minimax[>[</l>]<]minimax[>[<s>]<]minimax[>[</s>"
         "]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
         "[call f]{\"o\": {\"i\": 4}, \"l\": [\"a\", {\"k\": \"b\"}], \"s\": \"\"}[end]"},
        {"minimax_m3", NULL, NULL, /* without a schema, repeated keys are a list, also within another one */
         MINI "<tool_call>" MINI "<invoke name=\"f\">" MINI "<new>" MINI "<t>a" MINI "</t>" MINI "<t>" MINI
              "<x>1" MINI "</x>" MINI "<x>2" MINI "</x>" MINI "<x>3" MINI "</x>" MINI "</t>" MINI "<u>b" MINI
              "</u>" MINI "<t>c" MINI "</t>" MINI "</new>" MINI "<s>d" MINI "</s>" MINI "</invoke>" MINI
              "</tool_call>",
         "[call f]{\"new\": {\"t\": [\"a\", {\"x\": [\"1\", \"2\", \"3\"]}], "
         "\"u\": \"b\", \"t\": \"c\"}, \"s\": \"d\"}[end]"},
    };

    CHECK_TYPED(samples);
}

static void a_value_ends_where_the_call_goes_on(void **state)
{
    static const struct sample samples[] = {
        {"qwen3_coder", NULL, NULL,
         "<function=f>\n" QWEN("s", "a </parameter> b\n</parameter>c</function>")
             QWEN("x", "") "</function>\n",
         "[call f]{\"s\": \"a </parameter> b\\n</parameter>c</function>\", \"x\": \"\"}[end]"},
        {"qwen3_coder", NULL, NULL, /* the line ends of the markup, and those of the value */
         "<function=f><parameter=s>\n\na\n\n</parameter><parameter=x>b\n</parameter></function>",
         "[call f]{\"s\": \"\\na\\n\", \"x\": \"b\\n\"}[end]"},
        {"minicpm5", NULL, NULL,
         "<function name=\"f\"><param name=\"s\"><![CDATA[</param></function>]]></param></function>Ok",
         "[call f]{\"s\": \"</param></function>\"}[end][content]Ok"},
        {"kimi_k3", NULL, NULL,
         "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a&quot;&amp;b\" "
         "type=\"string\"<|sep|>&amp;<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
         "[call f]{\"a\\\"&b\": \"&amp;\"}[end]"},
        /* calls whose closing marks are missing */
        {"qwen3_coder", NULL, NULL, "<tool_call><function=f>" QWEN("s", "a") "</tool_call>b",
         "[call f]{\"s\": \"a\"}[end][content]b"},
        {"qwen3_coder", NULL, NULL, "<function=f>" QWEN("s", "a") "<function=g>" QWEN("s", "b") "</function>",
         "[call f]{\"s\": \"a\"}[end][call g]{\"s\": \"b\"}[end]"},
        {"glm45", NULL, NULL, "<tool_call>f\n" GLM("s", "a"), "[call f]{\"s\": \"a\"}[end]"},
        {"glm45", NULL, NULL, "<tool_call>f\n</tool_call>", "[call f]{}[end]"},
        {"glm45", NULL, NULL, "<tool_call>f <arg_key>s</arg_key>oh", "[call f]{\"s\": [cut][content]oh"},
        {"hy_v3", NULL, NULL,
         "<tool_calls:ab><tool_call:ab>f<tool_sep:ab><arg_key:ab>s</arg_key:ab><arg_value:ab>a</arg_value:ab>"
         "</tool_call:ab></tool_calls:ab>",
         "[call f]{\"s\": \"a\"}[end]"},
    };

    CHECK_TYPED(samples);
}

static void calls_in_python(void **state)
{
    static const struct sample samples[] = {
        {"pythonic", NULL, NULL,
         "[f(s=\"a\\n\\x41\\'\", t='\"', d={'k': [1, (2, 3.50), None], 4: True}), search()]",
         "[call f]{\"s\": \"a\\nA'\", \"t\": \"\\\"\", \"d\": {\"k\": [1, [2, 3.50], null], \"4\": true}}[end]"
         "[call search]{}[end]"},
        {"pythonic", NULL, NULL, "[f(s=\"\"\"a \"quoted\"\nline\"\"\", e=\"\", n=-0.25,)]",
         "[call f]{\"s\": \"a \\\"quoted\\\"\\nline\", \"e\": \"\", \"n\": -0.25}[end]"},
        {"pythonic", NULL, NULL, "[1, 2]", "[content][1, 2]"},
        {"pythonic", NULL, NULL, "[unknown(a=1)]", "[content][unknown(a=1)]"},
        {"pythonic", NULL, NULL, "[f(1)]", "[content][f(1)]"},
        {"pythonic", NULL, NULL, "See [f(a=1)]", "[content]See [f(a=1)]"},
        {"olmo3", NULL, NULL, "Hm\n<function_calls>\nf(a=1)\ng(b=[\"x\"])\n</function_calls>\nOk",
         "[content]Hm[call f]{\"a\": 1}[end][call g]{\"b\": [\"x\"]}[end][content]\nOk"},
        {"lfm2", NULL, NULL, "<|tool_call_start|>[f(a=x)]<|tool_call_end|>",
         "[call f]{\"a\": [cut][content])]<|tool_call_end|>"},
        {"lfm2", NULL, NULL, "<|tool_call_start|>[f(a=1)]<|tool_call_end|>f(a=1)]<|tool_call_end|>Ok",
         "[call f]{\"a\": 1}[end][content]Ok"},
        {"lfm2", NULL, NULL, "<|tool_call_start|>[f(a=1)]<|tool_call_end|>f(a=1) is",
         "[call f]{\"a\": 1}[end][content]f(a=1) is"},
    };

    CHECK_TYPED(samples);
}

static void names_that_a_mark_ends(void **state)
{
    static const struct sample samples[] = {
        {"kimi_k2", NULL, NULL,
         "<|tool_calls_section_begin|> <|tool_call_begin|>\nfunctions.a.b:12 <|tool_call_argument_begin|> "
         "{\"x\": \"}\"}\n"
         "<|tool_call_end|><|tool_call_begin|>c<|tool_call_argument_begin|>{}<|tool_call_end|>"
         "<|tool_calls_section_end|>Ok",
         "[call a.b]{\"x\": \"}\"}[end][call c]{}[end][content]Ok"},
        {"kimi_k2", NULL, NULL, "<|tool_call_begin|>two words<|tool_call_argument_begin|>{}",
         "[content]<|tool_call_begin|>two words<|tool_call_argument_begin|>{}"},
        {"kimi_k2", NULL, NULL, "<|tool_call_begin|>f<|tool_call_argument_begin|>1",
         "[content]<|tool_call_begin|>f<|tool_call_argument_begin|>1"},
        {"apertus", NULL, NULL, "<|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"g\": {}}]<|tools_suffix|>",
         "[call f]{\"a\": 1}[end][call g]{}[end]"},
        {"apertus", NULL, NULL, "<|tools_prefix|>[{\"f\": 1}]", "[content]<|tools_prefix|>[{\"f\": 1}]"},
        {"minimax_m2", NULL, NULL, /* what the row's first mark does not precede is text */
         "<invoke name=\"f\"></invoke>", "[content]<invoke name=\"f\"></invoke>"},
        {"minimax_m2", NULL, NULL, "<minimax:tool_call>\n<invoke name='f'></invoke>\n</minimax:tool_call>",
         "[call f]{}[end]"},
    };

    CHECK_TYPED(samples);
}

static void content_between_marks(void **state)
{
    static const struct sample samples[] = {
        {"cohere_command3", "cohere_command4", "<|CHATBOT_TOKEN|>",
         "<|START_THINKING|>Hm<|END_THINKING|> <|START_TEXT|>a <|START_THINKING|> b<|END_TEXT|>"
         "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {}}]<|END_ACTION|>"
         "<|START_RESPONSE|>c<|END_RESPONSE|>",
         "[reasoning]Hm[content]a <|START_THINKING|> b[call f]{}[end][content]\nc"},
        {"inkling", "inkling", "<|message_model|>",
         "<|content_thinking|>Hm<|end_message|><|message_model|><|content_text|>Hi there<|end_message|>"
         "<|message_model|>"
         "f<|content_invoke_tool_json|>{\"name\": \"f\", \"args\": {}}<|end_message|>",
         "[reasoning]Hm[content]Hi there[call f]{}[end]"},
        {"muse_glimmer", "muse_glimmer", "<|start|>assistant",
         " to=self<|message|>Hm <atem:function_calls><|eom|><|start|>assistant to=user<|message|>Hi to=self<|eom|>"
         "<|start|>assistant to=f<|message|><atem:function_calls><atem:invoke name=\"f\"></atem:invoke>"
         "</atem:function_calls>",
         "[reasoning]Hm <atem:function_calls>[content]Hi to=self[call f]{}[end]"},
        {NULL, "kimi_k3", "<|open|>response<|sep|>", "Hi<|close|>response<|sep|><|close|>message<|sep|>",
         "[content]Hi"},
        {NULL, "hunyuan_a13b", NULL, "<think>\nHm\n</think>\n<answer>\nHi\n</answer>",
         "[reasoning]Hm[content]Hi"},
        {NULL, "deepseek_r1", NULL, " \n <think>a</think>b", "[reasoning]a[content]b"},
        {NULL, "deepseek_r1", NULL, "  a", "[reasoning]  a"},
    };

    CHECK_ALL(samples);
}

/* As for JSON: what is written so far, and nothing of the mark that was cut. */
static void a_limit_cuts_values(void **state)
{
    static const struct {
        const char *calls, *text, *expected;
    } cases[] = {
        {"qwen3_coder", "<function=f><parameter=s>\na b", "[call f]{\"s\": \"a b[cut]"},
        {"qwen3_coder", "<function=f><parameter=s>\na b\n</para", "[call f]{\"s\": \"a b[cut]"},
        {"qwen3_coder", "<function=f><parameter=s>\na b\n</parameter>\n<para",
         "[call f]{\"s\": \"a b\"[cut]"},
        {"qwen3_coder", "<function=f><parameter=s>\na b\n</parameter>\n</fun",
         "[call f]{\"s\": \"a b\"}[end]"},
        {"qwen3_coder", "<function=f", "[content]<function=f"},
        {"qwen3_coder", "a<tool_call>\n<function=f>\n", "[content]a<tool_call>\n<function=f>\n"},
        {"gemma4", "<|tool_call>call:f{s:<|\"|>a", "[call f]{\"s\": \"a[cut]"},
        {"lfm2", "<|tool_call_start|>[f(s=\"a\", t=[1", "[call f]{\"s\": \"a\", \"t\": [[cut]"},
        {"lfm2", "<|tool_call_start|>[f(s=\"a\"), g", "[call f]{\"s\": \"a\"}[end]"},
        {"kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_ca",
         "[call f]{}[end]"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int split = 0; split < 2; split++) {
            struct parser_options o = {
                .calls = markup_calls_named(cases[i].calls), .names = names, .n_names = 3};
            size_t cuts[2] = {0, 0};
            char *t = transcript_of(&o, cases[i].text, strlen(cases[i].text), split ? everywhere : at_two,
                                    cuts, true);

            assert_string_equal(t, cases[i].expected);
            mem_free(t);
        }
}

/* Brackets, white space and half marks inside of values: they are read once. */
static void long_values_cost_no_more_than_a_moment(void **state)
{
    static const struct {
        const char *calls, *head, *unit;
    } cases[] = {
        {"qwen3_coder", "<function=f><parameter=s>", "</parameter>   x"},
        {"qwen3_coder", "<function=f><parameter=s>",
         "</parameter>                                               "
         "                                                    x"},
        {"glm45", "<tool_call>f<arg_key>s</arg_key><arg_value>", "</arg_value><"},
        {"gemma4", "<|tool_call>call:f{s:<|\"|>", "<|\""},
        {"lfm2", "<|tool_call_start|>[f(s=\"", "\\\""},
        {"minimax_m3", "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"f\">", "]<]minimax[>[<k>"},
        {"inkling", "", "word"},
        {"kimi_k2", "<|tool_call_begin|>", "<|tool_call_begin|>f "},
        {"glm45", "", "<tool_call>f\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct parser_options o = {.calls = markup_calls_named(cases[i].calls)};
        struct buf text = {.tag = MEM_API};
        char *t;

        buf_str(&text, cases[i].head);
        while (text.len < 60000)
            buf_str(&text, cases[i].unit);
        t = transcript_of(&o, text.data, text.len, everywhere, NULL, false);
        assert_true(t && strlen(t) > 10000);
        mem_free(t);
        buf_fini(&text);
    }
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

/* Opens a tokenizer whose special tokens are TOKENS. */
static struct tok *tok_with(const char *const *tokens)
{
    struct buf json = {.tag = MEM_TEXT};
    struct tok *t = NULL;

    buf_str(&json, "{\"model\":{\"merges\":[],\"vocab\":{\"a\":0}},\"added_tokens\":[");
    for (int i = 0; tokens[i]; i++)
        buf_fmt(&json, "%s{\"id\":%d,\"content\":\"%s\",\"special\":true}", i ? "," : "", i + 1, tokens[i]);
    buf_str(&json, "]}");
    assert_int_equal(tok_open_json(&t, json.data, json.len, "t", NULL), 0);
    buf_fini(&json);
    return t;
}

/* Parses TEXT, in which special tokens wrote what is between two ^. EVERY: feeds it in parts of so many
 * bytes; 0: as a whole. */
static void assert_special(const struct parser_options *o, const char *text, const char *expected,
                           size_t every)
{
    struct buf plain = {.tag = MEM_TEXT}, special = {.tag = MEM_TEXT};
    struct transcript t = {.text = {.tag = MEM_TEXT}};
    struct parser *a;
    char is_special = 0;

    for (; *text; text++)
        if (*text == '^') {
            is_special = !is_special;
        } else {
            buf_char(&plain, *text);
            buf_char(&special, is_special);
        }
    assert_int_equal(parser_open(&a, o, NULL), 0);
    for (size_t at = 0, n; at < plain.len; at += n) {
        n = every && every < plain.len - at ? every : plain.len - at;
        assert_int_equal(parser_feed(a, plain.data + at, special.data + at, n, NULL), 0);
        transcript_take(&t, a);
    }
    assert_int_equal(parser_finish(a, PARSER_ENDED, NULL), 0);
    transcript_take(&t, a);
    assert_string_equal(t.text.data, expected);
    parser_close(a);
    buf_fini(&t.text);
    buf_fini(&plain);
    buf_fini(&special);
}

/* A mark that the tokenizer has as a special token counts only where this token was generated. */
static void marks_in_ordinary_letters_are_text(void **state)
{
    static const char *const all[] = {"<|channel|>",  "<|message|>", "<|start|>",   "<|end|>",
                                      "<|call|>",     "<|return|>",  "<tool_call>", "</tool_call>",
                                      "[TOOL_CALLS]", "<think>",     "</think>",    "<|channel>",
                                      "<channel|>",   "[THINK]",     "[/THINK]",    NULL};
    static const char *const opening[] = {"<tool_call>", NULL}, *const none[] = {NULL};
    static const struct {
        const char *const *tokens;
        const char *calls, *reasoning, *text, *expected;
    } cases[] = {
        {all, "openai", "openai_gptoss",
         "^<|channel|>^final^<|message|>^You wrote: <|end|><|start|>assistant<|channel|>commentary "
         "to=functions.f<|message|>{}<|call|> Right?^<|return|>^",
         "[content]You wrote: <|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|> "
         "Right?"},
        {all, "openai", "openai_gptoss",
         "^<|channel|>^commentary to=functions.f ^<|message|>^{\"a\": \"<|call|>\"}^<|call|>^",
         "[call f]{\"a\": \"<|call|>\"}[end]"},
        {all, "openai", "openai_gptoss", "^<|channel|>^<|channel|>analysis^<|message|>^a^<|end|>^",
         "[content]a"},
        {all, "hermes", NULL, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
         "[content]<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"},
        {all, "hermes", NULL, "^<tool_call>^{\"name\": \"f\", \"arguments\": {}}^</tool_call>^",
         "[call f]{}[end]"},
        {all, "hermes", NULL, "^<tool_^call>{\"name\": \"f\", \"arguments\": {}}",
         "[content]<tool_call>{\"name\": \"f\", \"arguments\": {}}"},
        {all, "hermes", NULL, "^<tool_call>^{\"name\": \"f\", \"arguments\": {}}</tool_call>",
         "[call f]{}[end][content]</tool_call>"},
        {opening, "hermes", NULL, "^<tool_call>^{\"name\": \"f\", \"arguments\": {}}</tool_call>",
         "[call f]{}[end]"},
        {none, "hermes", "qwen3",
         "<think>a</think><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
         "[reasoning]a[call f]{}[end]"},
        {all, "mistral", "mistral", "^[THINK]^a [/THINK] b^[/THINK]^It is [TOOL_CALLS]f[ARGS]{} there.",
         "[reasoning]a [/THINK] b[content]It is [TOOL_CALLS]f[ARGS]{} there."},
        {all, "mistral", "mistral", "[THINK]a^[TOOL_CALLS]^f[ARGS]{}", "[content][THINK]a[call f]{}[end]"},
        {all, NULL, "gemma4", "^<|channel>^thought\na<channel|>^<channel|>^b",
         "[reasoning]a<channel|>[content]b"},
        {all, NULL, "gemma4", "<|channel>thought\na^<channel|>^b",
         "[content]<|channel>thought\na<channel|>b"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tok *t = tok_with(cases[i].tokens);
        const struct parser_options o = {
            .calls = cases[i].calls ? markup_calls_named(cases[i].calls) : NULL,
            .reasoning = cases[i].reasoning ? markup_reasoning_named(cases[i].reasoning) : NULL,
            .tok = t};

        for (size_t every = 0; every < 16; every++)
            assert_special(&o, cases[i].text, cases[i].expected, every);
        tok_close(t);
    }
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
        assert_int_equal(parser_feed(a, text, NULL, strlen(text), NULL), 0);
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

static void an_id_is_long_except_in_the_families_that_refuse_it(void **state)
{
    for (size_t i = 0; markup_calls_row(i); i++) {
        struct parser_options o = {.calls = markup_calls_row(i)};
        bool is_short = strncmp(o.calls->name, "mistral", strlen("mistral")) == 0;
        struct buf text = {.tag = MEM_TEXT};
        struct parser_piece p;
        struct parser *a;

        markup_example(o.calls, &text);
        assert_int_equal(parser_open(&a, &o, NULL), 0);
        assert_int_equal(parser_feed(a, text.data, NULL, text.len, NULL), 0);
        assert_int_equal(parser_finish(a, PARSER_ENDED, NULL), 0);
        do
            assert_true(parser_take(a, &p));
        while (p.kind != PARSER_CALL);
        assert_int_equal(strlen(p.id), is_short ? 9 : 29);
        assert_int_equal(strncmp(p.id, "call_", 5) == 0, !is_short);
        parser_close(a);
        buf_fini(&text);
    }
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
        assert_int_equal(parser_feed(a, steps[i].text, NULL, strlen(steps[i].text), NULL), 0);
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
        {"hermes", NULL, NULL, "a <tool_call>{\"name\": \"f\", \"arguments\": {}}", NULL},
        {"qwen3_coder", NULL, NULL, "a <function=f><parameter=s>b</parameter></function>c", NULL},
        {"lfm2", NULL, NULL, "<|tool_call_start|>[f(a=1, b=[\"c\"])]<|tool_call_end|>d", NULL},
        {"gemma4", NULL, NULL, "<|tool_call>call:f{a:<|\"|>b<|\"|>,c:{d:1.5}}<tool_call|>", NULL},
    };

    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct parser_options o = options_of(&samples[i]);
        struct tok *tok = i == 2 ? tok_with((const char *const[]){"<tool_call>", NULL}) : NULL;
        size_t before = mem_live_bytes();
        bool failed = true;

        o.tok = tok;
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
        tok_close(tok);
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
        cmocka_unit_test(a_continued_message_goes_on_in_its_part),
        cmocka_unit_test(channels_of_harmony),
        cmocka_unit_test(a_limit_cuts_calls),
        cmocka_unit_test(a_stop_string_cuts_calls),
        cmocka_unit_test(forced_calls_drop_text_only_where_calls_are_parsed),
        cmocka_unit_test(values_have_the_types_of_the_schema),
        cmocka_unit_test(a_schema_that_refers_to_itself_takes_endless_work),
        cmocka_unit_test(a_value_ends_where_the_call_goes_on),
        cmocka_unit_test(calls_in_python),
        cmocka_unit_test(names_that_a_mark_ends),
        cmocka_unit_test(content_between_marks),
        cmocka_unit_test(a_limit_cuts_values),
        cmocka_unit_test(long_values_cost_no_more_than_a_moment),
        cmocka_unit_test(the_comparison_sees_another_transcript),
        cmocka_unit_test(one_call_only),
        cmocka_unit_test(marks_in_ordinary_letters_are_text),
        cmocka_unit_test(ids_are_their_own),
        cmocka_unit_test(an_id_is_long_except_in_the_families_that_refuse_it),
        cmocka_unit_test(nothing_waits_longer_than_it_must),
        cmocka_unit_test(what_is_too_long_is_no_call),
        cmocka_unit_test(as_many_calls_as_there_may_be),
        cmocka_unit_test(marks_inside_of_marks),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
