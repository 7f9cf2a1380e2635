/* test_markup.c - rows are found by the names that others use, and by what a chat template shows. */
#include "base/buf.h"
#include "base/err.h"
#include "text/markup/markup.h"
#include "transcript.h"

static void names_of_vllm(void **state)
{
    static const char *const calls[] = {"hermes",  "llama3_json", "llama4_json",
                                        "mistral", "openai",      "phi4_mini_json"};
    static const char *const reasoning[] = {"deepseek_r1", "qwen3", "mistral", "gemma4", "openai_gptoss"};
    struct buf names;

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        assert_non_null(markup_calls_named(calls[i]));
    for (size_t i = 0; i < sizeof(reasoning) / sizeof(reasoning[0]); i++)
        assert_non_null(markup_reasoning_named(reasoning[i]));
    assert_null(markup_calls_named("her"));
    assert_null(markup_calls_named(""));
    assert_null(markup_reasoning_named("hermes"));
    buf_init(&names, MEM_API);
    markup_calls_names(&names);
    assert_string_equal(names.data, "hermes, llama3_json, mistral, phi4_mini_json, openai");
    buf_clear(&names);
    markup_reasoning_names(&names);
    assert_string_equal(names.data, "deepseek_r1, qwen3, mistral, gemma4, openai_gptoss");
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
        {"<tool_call>\n<function=f>\n<parameter=x> arguments", NULL, NULL},
        {"<tool_call>f<arg_key>x</arg_key> arguments </think>", NULL, "qwen3"},
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
        bool inside;
    } cases[] = {
        {"qwen3", "assistant\n<think>\n", true},
        {"qwen3", "assistant\n<think>", true},
        {"qwen3", "assistant\n", false},
        {"qwen3", "", false},
        {"qwen3", "assistant\n<think>\n\n</think>\n\n", false},
        {"qwen3", "<think> is a mark<|im_end|>assistant\n", false},
        {"deepseek_r1", "assistant\n", true},
        {"deepseek_r1", "", true},
        {"deepseek_r1", "assistant\n<think>\n\n</think>\n\n", false},
        {"gemma4", "<|turn>model\n<|channel>thought\n", true},
        {"gemma4", "<|turn>model\n<|channel>thought\n<channel|>", false},
        {"openai_gptoss", "<|start|>assistant", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(markup_begins_inside(markup_reasoning_named(cases[i].row), cases[i].prompt,
                                              strlen(cases[i].prompt)),
                         cases[i].inside);
    assert_false(markup_begins_inside(NULL, "<think>", 7));
}

static void names_go_before_what_a_template_shows(void **state)
{
    static const char template[] = "<tool_call> arguments </think>";
    struct markup m;
    struct err e;

    assert_int_equal(markup_choose(&m, "auto", "auto", template, &e), 0);
    assert_true(m.calls == markup_calls_named("hermes") && m.reasoning == markup_reasoning_named("qwen3"));
    assert_int_equal(markup_choose(&m, "mistral", "deepseek_r1", template, &e), 0);
    assert_true(m.calls == markup_calls_named("mistral") &&
                m.reasoning == markup_reasoning_named("deepseek_r1"));
    assert_int_equal(markup_choose(&m, "none", "none", template, &e), 0);
    assert_true(!m.calls && !m.reasoning);
    assert_int_equal(markup_choose(&m, "auto", "auto", NULL, &e), 0);
    assert_true(!m.calls && !m.reasoning);
    assert_int_equal(markup_choose(&m, "hermes2", "auto", template, &e), ERR_USAGE);
    assert_string_equal(e.msg, "found 'hermes2', expected auto, none, hermes, llama3_json, "
                               "mistral, phi4_mini_json, openai");
    assert_string_equal(e.subject, "tool_call_parser");
    assert_int_equal(markup_choose(&m, "auto", "", template, &e), ERR_USAGE);
    assert_string_equal(e.msg, "found '', expected auto, none, deepseek_r1, qwen3, mistral, "
                               "gemma4, openai_gptoss");
    assert_string_equal(e.subject, "reasoning_parser");
}

static bool nowhere(const void *ctx, size_t at)
{
    (void)ctx;
    return at == 0;
}

static void each_row_reads_its_own_example(void **state)
{
    const struct markup_calls *row;

    for (size_t i = 0; (row = markup_calls_row(i)) != NULL; i++) {
        static const char *const names[] = {"f"};
        struct parser_options o = {.calls = row, .names = names, .n_names = 1};
        char *t = transcript_of(&o, row->example, strlen(row->example), nowhere, NULL, false);

        assert_string_equal(t, "[call f]{\"a\": 1}[end]");
        mem_free(t);
    }
    assert_true(markup_reasoning_row(4) && !markup_reasoning_row(5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_vllm),
        cmocka_unit_test(a_template_shows_its_row),
        cmocka_unit_test(an_answer_begins_where_its_prompt_ends),
        cmocka_unit_test(names_go_before_what_a_template_shows),
        cmocka_unit_test(each_row_reads_its_own_example),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
