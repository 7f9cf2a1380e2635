/* test_markup.c - rows are found by the names that others use, and by what a chat template shows. */
#include "base/buf.h"
#include "base/err.h"
#include "text/markup/markup.h"
#include "text/markup/response.h"
#include "transcript.h"

/* clang-format off */
static const char *const all_calls[] = {
    "apertus", "cohere_command3", "cohere_command4", "deepseek_v3", "deepseek_v31", "deepseek_v32",
    "deepseek_v4", "deepseek_v41", "dots", "ernie45", "functiongemma", "gemma4", "gigachat3", "glm45",
    "glm47", "granite", "granite-20b-fc", "granite4", "hermes", "hf", "hunyuan_a13b", "hy_v3", "hy_v4",
    "inkling", "internlm", "jamba", "k2_horizon", "kimi_k2", "kimi_k3", "lfm2", "ling3", "llama3_json",
    "llama4_json", "llama4_pythonic", "longcat", "mimo", "minicpm5", "minimax_m2", "minimax_m3", "mistral",
    "muse_glimmer", "olmo3", "openai", "phi4_mini_json", "plamo3", "poolside_v1", "pythonic", "qwen3_coder",
    "qwen3_json", "qwen3_xml", "seed_oss", "step3", "step3p5", "xlam"};

static const char *const all_reasoning[] = {
    "cohere_command3", "cohere_command4", "deepseek_r1", "deepseek_v3", "deepseek_v4", "deepseek_v41",
    "ernie45", "gemma4", "glm45", "glm47", "granite", "granite_thinking_parser", "hf", "holo2",
    "hunyuan_a13b", "hy_v3", "hy_v4", "inkling", "k2_horizon", "kimi_k2", "kimi_k3", "ling3", "mimo",
    "minicpmv", "minimax_m2", "minimax_m2_append_think", "minimax_m3", "mistral", "muse_glimmer",
    "nemotron_v3", "olmo3", "openai_gptoss", "plamo3", "poolside_v1", "qwen3", "seed_oss", "step3",
    "step3p5"};
/* clang-format on */

static void names_of_vllm(void **state)
{
    struct buf names;

    for (size_t i = 0; i < sizeof(all_calls) / sizeof(all_calls[0]); i++)
        assert_non_null(markup_calls_named(all_calls[i]));
    for (size_t i = 0; i < sizeof(all_reasoning) / sizeof(all_reasoning[0]); i++)
        assert_non_null(markup_reasoning_named(all_reasoning[i]));
    assert_null(markup_calls_named("her"));
    assert_null(markup_calls_named(""));
    assert_null(markup_reasoning_named("hermes"));
    buf_init(&names, MEM_API);
    markup_calls_names(&names);
    assert_memory_equal(names.data, "hermes, llama3_json, mistral_v3, mistral, phi4_mini_json, openai, ", 65);
    buf_clear(&names);
    markup_reasoning_names(&names);
    assert_memory_equal(names.data, "deepseek_r1, qwen3, mistral, gemma4, openai_gptoss, ", 52);
    buf_fini(&names);
}

static void a_template_shows_its_row(void **state)
{
    static const struct {
        const char *template, *calls, *reasoning;
    } cases[] = {
        {"", NULL, NULL},
        {"<|im_start|>{{ m.content }}", NULL, NULL},
        {"<tools></tools> <tool_call>{\"name\": .., \"arguments\": ..}</tool_call>", "hermes", NULL},
        {"<tool_call>{\\\"arguments\\\": ..}</tool_call> {{ c.split('</think>') }}", "hermes", "qwen3"},
        {"<tool_call>\n<function=f>\n<parameter=x> arguments", "qwen3_coder", NULL},
        {"<tool_call>f<arg_key>x</arg_key><arg_value> arguments </think>", "glm45", "qwen3"},
        {"<tool_call> and no more", NULL, NULL},
        {"<\357\275\234tool\342\226\201calls\342\226\201begin\357\275\234>", NULL, NULL},
        {"<|start_header_id|> {\"name\": function name, \"parameters\": dictionary", "llama3_json", NULL},
        {"<|start_header_id|> {\"parameters\": ..}", NULL, NULL},
        {"[AVAILABLE_TOOLS][/INST][TOOL_CALLS]", "mistral", NULL},
        {"[TOOL_CALLS][ARGS][THINK]", "mistral", "mistral"},
        {"<|system|><|tool|>{{ m.tools }}<|/tool|>", "phi4_mini_json", NULL},
        {"<|start|>assistant<|channel|>analysis<|message|>", "openai", "openai_gptoss"},
        {"<\357\275\234Assistant\357\275\234><think> </think>", NULL, "deepseek_r1"},
        {"<|turn>model\n<|channel>thought\n<channel|>", NULL, "gemma4"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct markup_calls *calls = markup_calls_shown(cases[i].template);
        const struct markup_reasoning *reasoning = markup_reasoning_shown(cases[i].template);

        assert_string_equal(calls ? calls->name : "none", cases[i].calls ? cases[i].calls : "none");
        assert_string_equal(reasoning ? reasoning->name : "none",
                            cases[i].reasoning ? cases[i].reasoning : "none");
    }
}

static void an_answer_begins_where_its_prompt_ends(void **state)
{
    static const struct {
        const char *row, *prompt;
        enum markup_place place;
    } cases[] = {
        {"qwen3", "assistant\n<think>\n", MARKUP_OPENED},
        {"qwen3", "assistant\n<think>", MARKUP_OPENED},
        {"qwen3", "assistant\n", MARKUP_BEFORE},
        {"qwen3", "", MARKUP_BEFORE},
        {"qwen3", "assistant\n<think>\n\n</think>\n\n", MARKUP_CLOSED},
        {"qwen3", "<think> is a mark<|im_end|>assistant\n", MARKUP_BEFORE},
        {"deepseek_r1", "assistant\n", MARKUP_OPENED},
        {"deepseek_r1", "", MARKUP_OPENED},
        {"deepseek_r1", "assistant\n<think>\n\n</think>\n\n", MARKUP_CLOSED},
        {"gemma4", "<|turn>model\n<|channel>thought\n", MARKUP_OPENED},
        {"gemma4", "<|turn>model\n<|channel>thought\n<channel|>", MARKUP_CLOSED},
        {"openai_gptoss", "<|start|>assistant", MARKUP_BEFORE},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(markup_place(markup_reasoning_named(cases[i].row), cases[i].prompt,
                                      strlen(cases[i].prompt), NULL, 0),
                         cases[i].place);
    assert_int_equal(markup_place(NULL, "<think>", 7, NULL, 0), MARKUP_BEFORE);
}

static void an_answer_goes_on_where_the_continued_message_ends(void **state)
{
    static const struct {
        const char *continued; /* the prompt ends with it */
        enum markup_place place, implied;
    } cases[] = {
        {"The answer is", MARKUP_CONTENT, MARKUP_CONTENT},
        {"<think>x</think>The answer is", MARKUP_CONTENT, MARKUP_CONTENT},
        {"x</think>The answer is", MARKUP_CONTENT, MARKUP_CONTENT},
        {"<think>I must", MARKUP_INSIDE, MARKUP_INSIDE},
        {"<think>a</think>b<think>c", MARKUP_INSIDE, MARKUP_INSIDE},
        {"<think>a</think>\n", MARKUP_CLOSED, MARKUP_CLOSED},
        {"<think>\n", MARKUP_OPENED, MARKUP_OPENED},
        {" \n", MARKUP_BEFORE, MARKUP_OPENED},
        {"", MARKUP_BEFORE, MARKUP_OPENED},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t k = 0; k < 2; k++) {
            const char *text = cases[i].continued;
            char prompt[200];
            int n = snprintf(prompt, sizeof(prompt), "<think> is a mark<|im_end|>assistant\n%s", text);

            assert_int_equal(markup_place(markup_reasoning_named(k ? "deepseek_r1" : "qwen3"), prompt,
                                          (size_t)n, text, strlen(text)),
                             k ? cases[i].implied : cases[i].place);
        }
    assert_int_equal(markup_place(NULL, "a", 1, "a", 1), MARKUP_CONTENT);
}

static void answers_begin_with_reasoning_where_it_is_open(void **state)
{
    assert_true(markup_reasons(MARKUP_OPENED) && markup_reasons(MARKUP_INSIDE));
    assert_false(markup_reasons(MARKUP_BEFORE) || markup_reasons(MARKUP_CLOSED) ||
                 markup_reasons(MARKUP_CONTENT));
}

static void names_go_before_what_a_template_shows(void **state)
{
    struct markup m, shown;
    struct err e;

    markup_shown("<tool_call> arguments </think>", &shown);
    assert_int_equal(markup_choose(&m, "auto", "auto", &shown, &e), 0);
    assert_true(m.calls == markup_calls_named("hermes") && m.reasoning == markup_reasoning_named("qwen3"));
    assert_string_equal(markup_origin_name(m.calls_origin), "shown in the template");
    assert_int_equal(markup_choose(&m, "mistral", "deepseek_r1", &shown, &e), 0);
    assert_string_equal(markup_origin_name(m.calls_origin), "as configured");
    assert_true(m.calls == markup_calls_named("mistral") &&
                m.reasoning == markup_reasoning_named("deepseek_r1"));
    assert_int_equal(markup_choose(&m, "none", "none", &shown, &e), 0);
    assert_true(!m.calls && !m.reasoning);
    assert_int_equal(markup_choose(&m, "auto", "auto", NULL, &e), 0);
    assert_true(!m.calls && !m.reasoning);
    assert_int_equal(markup_choose(&m, "hermes2", "auto", &shown, &e), ERR_USAGE);
    assert_memory_equal(e.msg, "found 'hermes2', expected auto, none, hermes, llama3_json, mistral_v3, ", 70);
    assert_string_equal(e.subject, "tool_call_parser");
    assert_int_equal(markup_choose(&m, "auto", "", &shown, &e), ERR_USAGE);
    assert_memory_equal(e.msg, "found '', expected auto, none, deepseek_r1, qwen3, mistral, ", 60);
    assert_string_equal(e.subject, "reasoning_parser");
}

/* The marks and the form of what is between them decide; of what no row reads, the chat template decides. */
static void a_response_template_describes_its_row(void **state)
{
    static const struct {
        const char *calls, *content; /* members of the field for tool calls */
        const char *row;             /* NULL: the row that was found before stays */
    } cases[] = {
        {"'open':'<tool_call>','close':'</tool_call>','transform':{'arguments':'{content.arguments}'}",
         "json", "hermes"},
        {"'open_pattern':'<tool_call>\\\\s*<function=(?P<name>[^>]+)>','close_pattern':'</function>\\\\s*</tool_call>',"
         "'content_args':{'tag_pattern':'<parameter=(?P<key>[^>]+)>\\\\n?(?P<value>.*?)</parameter>'}",
         "xml-inline", "qwen3_coder"},
        {"'open_pattern':'<\\\\|tool_call_start\\\\|>','close':'<|tool_call_end|>'", "python-call-list",
         "lfm2"},
        {"'open':'[TOOL_CALLS]'", "json", "mistral"},
        {"'open':'<tool_call>','close':'</tool_call>','transform':{'arguments':'{content}'}", "kv-lines",
         NULL},
        {"'open':'<|tool_call_start|>','close':'<|tool_call_end|>'", "json", NULL}, /* the row reads Python */
        {"'open':'<tool_call>','close':'<end>','transform':{'arguments':'{content.arguments}'}", "json",
         NULL},
        {"'open':'<mine>','close':'</mine>','transform':{'arguments':'{content.arguments}'}", "json", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct markup m = {.calls = markup_calls_named("apertus"), .calls_origin = MARKUP_RENDERED};
        const struct markup before = m;
        struct buf text = {.tag = MEM_TEXT};
        struct err e;

        buf_fmt(&text,
                "{'fields':{'thinking':{'open':'<think>','close':'</think>'},'content':{},'tool_calls':{%s,"
                "'content':'%s'}}}",
                cases[i].calls, cases[i].content);
        for (size_t k = 0; k < text.len; k++)
            text.data[k] = text.data[k] == '\'' ? '"' : text.data[k];
        assert_int_equal(response_read(text.data, &m, &e), 0);
        assert_string_equal(m.calls->name, cases[i].row ? cases[i].row : before.calls->name);
        assert_int_equal(m.calls_origin, cases[i].row ? MARKUP_DESCRIBED : MARKUP_RENDERED);
        assert_string_equal(m.reasoning->name, "qwen3");
        assert_string_equal(markup_origin_name(m.reasoning_origin), "described in response_template");
        buf_fini(&text);
    }
}

static bool nowhere(const void *ctx, size_t at)
{
    (void)ctx;
    return at == 0;
}

static bool everywhere(const void *ctx, size_t at)
{
    (void)ctx;
    return at > 0;
}

/* In the types of a function f with an integer a, at every cut; with text around it, which no mark leaks
 * into. */
static void each_row_reads_its_own_example(void **state)
{
    static const char *const names[] = {"f"};
    json_t *tools = json_pack("[{s:s,s:{s:s,s:{s:s,s:{s:{s:s}}}}}]", "type", "function", "function", "name",
                              "f", "parameters", "type", "object", "properties", "a", "type", "integer");
    const struct markup_calls *row;

    for (size_t i = 0; (row = markup_calls_row(i)) != NULL; i++)
        for (int way = 0; way < 4; way++) {
            struct parser_options o = {.calls = row, .names = names, .n_names = 1, .tools = tools};
            bool is_alone = way < 2 || row->bare || row->channels;
            struct buf text = {.tag = MEM_TEXT};
            char *t;

            buf_str(&text, is_alone ? "" : "Before <x\n");
            markup_example(row, &text);
            buf_str(&text, is_alone ? "" : "\n{After");
            t = transcript_of(&o, text.data, text.len, way & 1 ? everywhere : nowhere, NULL, false);
            if (is_alone)
                assert_string_equal(t, "[call f]{\"a\": 1}[end]");
            else
                assert_string_equal(t, "[content]Before <x[call f]{\"a\": 1}[end][content]\n{After");
            mem_free(t);
            buf_fini(&text);
        }
    json_decref(tools);
}

/* A name that two rows have would be found in the first one only. */
static void each_name_is_that_of_one_row(void **state)
{
    const struct markup_calls *c;
    const struct markup_reasoning *r;

    for (size_t i = 0; (c = markup_calls_row(i)) != NULL; i++) {
        assert_ptr_equal(markup_calls_named(c->name), c);
        for (const char *p = c->aliases; p && *p; p += strcspn(p, "|"), p += *p == '|') {
            char name[64];

            snprintf(name, sizeof(name), "%.*s", (int)strcspn(p, "|"), p);
            assert_ptr_equal(markup_calls_named(name), c);
        }
    }
    for (size_t i = 0; (r = markup_reasoning_row(i)) != NULL; i++)
        assert_ptr_equal(markup_reasoning_named(r->name), r);
    assert_null(markup_calls_named("qwen3_json|granite4"));
}

/* Appends S as docs/TOOL-CALLS.md writes it; a table has no bars and line ends. */
static void add_html(struct buf *b, const char *s, bool is_code)
{
    for (; *s; s++)
        if (*s == '|')
            buf_str(b, "&#124;");
        else if (*s == '<' && is_code)
            buf_str(b, "&lt;");
        else if (*s == '\n')
            buf_str(b, "<br>");
        else if (*s != MARKUP_ANY)
            buf_char(b, *s);
}

static void add_names(struct buf *b, const char *name, const char *aliases)
{
    buf_fmt(b, "| `%s`%s", name, aliases ? " (" : "");
    for (const char *p = aliases; p && *p; p += strcspn(p, "|"), p += *p == '|')
        buf_fmt(b, "%s`%.*s`", p == aliases ? "" : ", ", (int)strcspn(p, "|"), p);
    buf_str(b, aliases ? ") | " : " | ");
}

static void add_code(struct buf *b, const char *s)
{
    buf_str(b, "<code>");
    add_html(b, s, true);
    buf_str(b, "</code>");
}

static void read_file(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "r");
    char part[4096];
    size_t n;

    assert_non_null(f);
    while ((n = fread(part, 1, sizeof(part), f)) > 0)
        buf_add(out, part, n);
    fclose(f);
}

static void the_tables_of_the_documents_are_those_of_the_code(void **state)
{
    struct buf doc = {.tag = MEM_TEXT}, line = {.tag = MEM_TEXT}, example = {.tag = MEM_TEXT};
    const struct markup_calls *c;
    const struct markup_reasoning *r;

    read_file(GALLOP_SOURCE_DIR "/docs/TOOL-CALLS.md", &doc);
    for (size_t i = 0; (c = markup_calls_row(i)) != NULL; i++) {
        buf_clear(&line);
        add_names(&line, c->name, c->aliases);
        markup_example(c, &example);
        add_code(&line, example.data);
        buf_clear(&example);
        buf_str(&line, " | ");
        add_html(&line, c->models, false);
        buf_str(&line, " |\n");
        if (!strstr(doc.data, line.data))
            fail_msg("docs/TOOL-CALLS.md lacks the line\n%s", line.data);
    }
    for (size_t i = 0; (r = markup_reasoning_row(i)) != NULL; i++) {
        buf_clear(&line);
        add_names(&line, r->name, r->aliases);
        if (r->channels) {
            buf_str(&line, "messages of the channel `analysis`");
        } else {
            add_code(&line, r->open);
            buf_str(&line, " ... ");
            add_code(&line, r->close);
        }
        buf_fmt(&line, " | %s |\n", r->models);
        if (!strstr(doc.data, line.data))
            fail_msg("docs/TOOL-CALLS.md lacks the line\n%s", line.data);
    }
    buf_fini(&doc);
    buf_fini(&line);
    buf_fini(&example);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_vllm),
        cmocka_unit_test(a_template_shows_its_row),
        cmocka_unit_test(an_answer_begins_where_its_prompt_ends),
        cmocka_unit_test(an_answer_goes_on_where_the_continued_message_ends),
        cmocka_unit_test(answers_begin_with_reasoning_where_it_is_open),
        cmocka_unit_test(names_go_before_what_a_template_shows),
        cmocka_unit_test(a_response_template_describes_its_row),
        cmocka_unit_test(each_row_reads_its_own_example),
        cmocka_unit_test(each_name_is_that_of_one_row),
        cmocka_unit_test(the_tables_of_the_documents_are_those_of_the_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
