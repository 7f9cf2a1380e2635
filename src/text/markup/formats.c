/* formats.c - the rows of the two tables of markup. A new format is a new row here; macros write what rows share. */
#include "text/markup/markup.h"

#define ROW(NAME, ALIASES, MODELS, SHAPES, EXAMPLE, ...)                                          \
    {                                                                                             \
        .name = NAME, .aliases = ALIASES, .models = MODELS, .shapes = SHAPES, .example = EXAMPLE, \
        __VA_ARGS__                                                                               \
    }

/* The marks of a row may be special tokens. */
#define MARKED_ROW(NAME, ALIASES, MODELS, SHAPES, EXAMPLE, ...) \
    ROW(NAME, ALIASES, MODELS, SHAPES, EXAMPLE, __VA_ARGS__, .special = true)

#define OBJECT(ARGS) "{\"name\": \"f\", \"" ARGS "\": {\"a\": 1}}"
#define LIST         "[" OBJECT("arguments") "]"

/* <function=f> <parameter=a>1</parameter> </function> between the tags OUTER. */
#define FUNCTION_ROW(NAME, ALIASES, MODELS, SHAPES, OUTER, LINE_END, ...)                  \
    MARKED_ROW(NAME, ALIASES, MODELS, MARKUP_XML | (SHAPES),                               \
               "<" OUTER ">\n<function=f>\n<parameter=a>" LINE_END "1" LINE_END            \
               "</parameter>\n</function>\n</" OUTER ">",                                  \
               .open = {"<" OUTER ">"}, .call = {"<function="}, .name_end = {">"},         \
               .key_open = {"<parameter="}, .key_end = ">", .value_close = "</parameter>", \
               .call_close = {"</function>"}, .close = {"</" OUTER ">"}, __VA_ARGS__)

/* <invoke name="f"> <parameter name="a">1</parameter> </invoke>, whose tags begin with TAG; the parameter may have
 * the attribute TYPE. */
#define INVOKED(TAG, TYPE)                                                                          \
    "<" TAG "invoke name=\"f\">\n<" TAG "parameter name=\"a\"" TYPE ">1</" TAG "parameter>\n</" TAG \
    "invoke>\n"
#define INVOKE(TAG)                                                                          \
    .call = {"<" TAG "invoke name="}, .needs_open = true, .quoted = true, .name_end = {">"}, \
    .key_open = {"<" TAG "parameter name="}, .key_end = ">", .value_close = "</" TAG "parameter>"

/* <tool_call>f <arg_key>a</arg_key> <arg_value>1</arg_value> </tool_call>; the tags begin with TAG and end with END. */
#define KEYS(TAG, END)                                                        \
    .call = {"<" TAG "tool_call" END}, .key_open = {"<" TAG "arg_key" END},   \
    .key_end = "</" TAG "arg_key" END, .value_open = "<" TAG "arg_value" END, \
    .value_close = "</" TAG "arg_value" END, .call_close = {"</" TAG "tool_call" END}
#define WITH_KEYS(TAG, SEPARATOR)                                                                     \
    "<" TAG "tool_call>f" SEPARATOR "\n<" TAG "arg_key>a</" TAG "arg_key>\n<" TAG "arg_value>1</" TAG \
    "arg_value>\n</" TAG "tool_call>"

const struct markup_calls markup_calls_rows[] = {
    MARKED_ROW("hermes", "qwen3_json|granite4|ernie45",
               "Qwen 2.5, Qwen 3, QwQ, Hermes, Granite 4, ERNIE 4.5, MiMo-VL", MARKUP_OBJECT | MARKUP_LIST,
               "<tool_call>\n" OBJECT("arguments") "\n</tool_call>", .open = {"<tool_call>"},
               .close = {"</tool_call>"}),
    MARKED_ROW("llama3_json", "llama4_json", "Llama 3.1 to 3.3; the whole answer, several with `;`",
               MARKUP_OBJECT, OBJECT("parameters"), .open = {"<|python_tag|>"}, .bare = '{',
               .separator = "; "),
    MARKED_ROW("mistral_v3", NULL, "Mistral 7B v0.3, Nemo", MARKUP_OBJECT | MARKUP_LIST, "[TOOL_CALLS] " LIST,
               .open = {"[TOOL_CALLS]"}, .short_id = true),
    MARKED_ROW("mistral", NULL, "Mistral, Ministral, Magistral, Devstral; also a list of objects",
               MARKUP_OBJECT | MARKUP_LIST | MARKUP_NAMED, "[TOOL_CALLS]f[ARGS]{\"a\": 1}",
               .open = {"[TOOL_CALLS]"}, .name_end = {"[ARGS]", "[CALL_ID]\1[ARGS]"}, .no_mark = true,
               .short_id = true),
    MARKED_ROW("phi4_mini_json", NULL, "Phi-4-mini", MARKUP_LIST, "functools" LIST,
               .open = {"functools", "<|tool_call|>"}, .close = {"<|/tool_call|>"}),
    MARKED_ROW("openai", NULL, "gpt-oss", 0,
               "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
               .channels = true, .stop = {"<|call|>", "<|return|>"}),
    /* ---- JSON ---- */
    MARKED_ROW("longcat", NULL, "LongCat-Flash", MARKUP_OBJECT | MARKUP_LIST,
               "<longcat_tool_call>\n" OBJECT("arguments") "\n</longcat_tool_call>",
               .open = {"<longcat_tool_call>"}, .close = {"</longcat_tool_call>"}),
    MARKED_ROW("jamba", "hunyuan_a13b", "Jamba 1.5, Hunyuan-A13B, Apriel", MARKUP_OBJECT | MARKUP_LIST,
               "<tool_calls>" LIST "</tool_calls>", .open = {"<tool_calls>"}, .close = {"</tool_calls>"}),
    MARKED_ROW("granite", NULL, "Granite 3.0, 3.1", MARKUP_LIST, "<|tool_call|>" LIST,
               .open = {"<|tool_call|>", "<tool_call>"}),
    ROW("granite-20b-fc", NULL, "granite-20b-functioncalling", MARKUP_OBJECT,
        "<function_call> " OBJECT("arguments"), .open = {"<function_call>"}),
    ROW("xlam", NULL, "xLAM-2; the whole answer", MARKUP_LIST, LIST,
        .open = {"<tool_call>", "[TOOL_CALLS]", "```json"}, .close = {"</tool_call>", "```"}, .bare = '['),
    MARKED_ROW("internlm", NULL, "InternLM 2.5", MARKUP_OBJECT,
               "<|action_start|><|plugin|>\n" OBJECT("parameters") "<|action_end|>",
               .open = {"<|action_start|><|plugin|>"}, .close = {"<|action_end|>"}),
    MARKED_ROW("apertus", NULL, "Apertus", MARKUP_LIST | MARKUP_KEYED,
               "<|tools_prefix|>[{\"f\": {\"a\": 1}}]<|tools_suffix|>", .open = {"<|tools_prefix|>"},
               .close = {"<|tools_suffix|>"}),
    MARKED_ROW("cohere_command3", "cohere_command4", "Command R7B, Command A, Command A+", MARKUP_LIST,
               "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": 1}}]"
               "<|END_ACTION|>",
               .open = {"<|START_ACTION|>"}, .close = {"<|END_ACTION|>"}, .name_key = "tool_name"),
    MARKED_ROW("gigachat3", NULL, "GigaChat 3, 3.1", MARKUP_OBJECT, "<|function_call|>" OBJECT("arguments"),
               .open = {"<|function_call|>", "<|message_sep|>\n\nfunction call<|role_sep|>",
                        "function call<|role_sep|>"},
               .close = {"<|message_sep|>"}),
    MARKED_ROW("inkling", NULL, "Inkling", MARKUP_OBJECT,
               "<|content_invoke_tool_json|>" OBJECT("args") "<|end_message|>",
               .open = {"<|content_invoke_tool_json|>", "\1<|content_invoke_tool_json|>"},
               .call_close = {"<|end_message|>"}, .close = {"<|message_model|>"}, .args_key = "args",
               .separator = "<|message_model|>"),
    MARKED_ROW("nemotron_json", NULL, "Nemotron Nano v2", MARKUP_OBJECT | MARKUP_LIST,
               "<TOOLCALL>" LIST "</TOOLCALL>", .open = {"<TOOLCALL>"}, .close = {"</TOOLCALL>"}),
/* ---- a name, and arguments as JSON ---- */
#define DEEPSEEK(WHAT) "<｜tool▁" WHAT "｜>"
    MARKED_ROW("deepseek_v3", NULL, "DeepSeek V3-0324, R1-0528 and R1 distills", MARKUP_NAMED,
               DEEPSEEK("calls▁begin") DEEPSEEK("call▁begin") "function" DEEPSEEK(
                   "sep") "f\n```json\n{\"a\": 1}\n```" DEEPSEEK("call▁end") DEEPSEEK("calls▁end"),
               .open = {DEEPSEEK("calls▁begin")},
               .call = {(DEEPSEEK("call▁begin") "function" DEEPSEEK("sep"))}, .name_end = {"```json"},
               .call_close = {"```", DEEPSEEK("call▁end")}, .close = {DEEPSEEK("calls▁end")}),
    MARKED_ROW(
        "deepseek_v31", NULL, "DeepSeek V3.1", MARKUP_NAMED,
        DEEPSEEK("calls▁begin") DEEPSEEK("call▁begin") "f" DEEPSEEK("sep") "{\"a\": 1}" DEEPSEEK("call▁end")
            DEEPSEEK("calls▁end"),
        .open = {DEEPSEEK("calls▁begin")}, .call = {DEEPSEEK("call▁begin")}, .name_end = {DEEPSEEK("sep")},
        .call_close = {DEEPSEEK("call▁end")}, .close = {DEEPSEEK("calls▁end")}),
    MARKED_ROW("kimi_k2", NULL, "Kimi K2, K2-Thinking, K2.5", MARKUP_NAMED,
               "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
               "{\"a\": 1}<|tool_call_end|><|tool_calls_section_end|>",
               .open = {"<|tool_calls_section_begin|>"}, .call = {"<|tool_call_begin|>"},
               .name_open = "functions.", .name_end = {"<|tool_call_argument_begin|>"}, .is_numbered = true,
               .call_close = {"<|tool_call_end|>"}, .close = {"<|tool_calls_section_end|>"}),
#define PLAMO(WHAT) "<|plamo:" WHAT ":plamo|>"
#define PLAMO_JSON  PLAMO("end_tool_name") PLAMO("begin_tool_arguments") "<|plamo:constrain|>json<|plamo:msg|>"
    MARKED_ROW("plamo3", NULL, "PLaMo 3", MARKUP_NAMED,
               PLAMO("begin_tool_requests") PLAMO("begin_tool_request")
                   PLAMO("begin_tool_name") "f" PLAMO_JSON "{\"a\": 1}" PLAMO("end_tool_arguments")
                       PLAMO("end_tool_request") PLAMO("end_tool_requests"),
               .open = {PLAMO("begin_tool_requests")},
               .call = {(PLAMO("begin_tool_request") PLAMO("begin_tool_name"))}, .name_end = {(PLAMO_JSON)},
               .call_close = {PLAMO("end_tool_arguments"), PLAMO("end_tool_request")},
               .close = {PLAMO("end_tool_requests")}),
    MARKED_ROW("solar_open", NULL, "Solar Open", MARKUP_NAMED,
               "<|tool_call:begin|>x1<|tool_call:name|>f<|tool_call:args|>{\"a\": 1}<|tool_call:end|>",
               .call = {"<|tool_call:begin|>\1<|tool_call:name|>"}, .name_end = {"<|tool_call:args|>"},
               .call_close = {"<|tool_call:end|>"}),
    ROW("functionary_v3_1", NULL, "Functionary 3.1", MARKUP_NAMED, "<function=f>{\"a\": 1}</function>",
        .call = {"<function="}, .name_end = {">"}, .call_close = {"</function>"}),
    /* ---- keys and values between marks ---- */
    FUNCTION_ROW("qwen3_coder", "qwen3_xml|step3p5",
                 "Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step-3.5, Granite 4.2", 0, "tool_call", "\n",
                 .trims_lines = true),
    FUNCTION_ROW("mimo", NULL, "MiMo-V2", 0, "tool_call", "", .trims_lines = false),
    FUNCTION_ROW("seed_oss", NULL, "Seed-OSS", 0, "seed:tool_call", "", .trims_lines = true),
    MARKED_ROW("glm45", "glm47|ling3|poolside_v1", "GLM-4.5 and later, Ling 3, Laguna, Spark 2.5", MARKUP_XML,
               WITH_KEYS("", ""), KEYS("", ">")),
    MARKED_ROW("hy_v3", "hy_v4", "Hunyuan 3 and 4; all marks may have one suffix, `<tool_call:x7>`",
               MARKUP_XML, "<tool_calls>\n" WITH_KEYS("", "<tool_sep>") "\n</tool_calls>",
               .open = {"<tool_calls\1>"}, KEYS("", "\1>"), .needs_open = true, .name_end = {"<tool_sep\1>"},
               .close = {"</tool_calls\1>"}),
    MARKED_ROW("k2_horizon", NULL, "K2 Horizon, in its forms xml, xml_typed and json",
               MARKUP_XML | MARKUP_OBJECT, "<ifm|tool_calls>\n" WITH_KEYS("ifm|", "") "\n</ifm|tool_calls>",
               .open = {"<ifm|tool_calls>"}, KEYS("ifm|", ">"), .needs_open = true,
               .type_open = "<ifm|arg_type>", .type_close = "</ifm|arg_type>",
               .close = {"</ifm|tool_calls>"}),
    MARKED_ROW("minimax_m2", NULL, "MiniMax M2", MARKUP_XML,
               "<minimax:tool_call>\n" INVOKED("", "") "</minimax:tool_call>",
               .open = {"<minimax:tool_call>"}, INVOKE(""), .call_close = {"</invoke>"},
               .close = {"</minimax:tool_call>"}),
    ROW("dots", NULL, "dots", MARKUP_XML | MARKUP_OBJECT,
        "<dots_function_call>\n" INVOKED("", "") "</dots_function_call>", .open = {"<dots_function_call>"},
        INVOKE(""), .call_close = {"</invoke>"}, .close = {"</dots_function_call>"}),
    MARKED_ROW(
        "deepseek_v32", "deepseek_v4", "DeepSeek V3.2, V4", MARKUP_XML,
        "<｜DSML｜function_calls>\n" INVOKED("｜DSML｜", " string=\"false\"") "</｜DSML｜function_calls>",
        .open = {"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"}, INVOKE("｜DSML｜"),
        .type_attribute = "string", .call_close = {"</｜DSML｜invoke>"},
        .close = {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"}),
    MARKED_ROW("deepseek_v41", NULL, "DeepSeek V4.1", MARKUP_XML,
               "<｜DSML｜ calls>\n" INVOKED("｜DSML｜ ", " string=\"false\"") "</｜DSML｜ calls>",
               .open = {"<｜DSML｜ calls>"}, INVOKE("｜DSML｜ "), .type_attribute = "string",
               .call_close = {"</｜DSML｜ invoke>"}, .close = {"</｜DSML｜ calls>"}),
    MARKED_ROW(
        "step3", NULL, "Step3", MARKUP_XML,
        "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"f\">"
        "<steptml:parameter name=\"a\">1</steptml:parameter></steptml:invoke><｜tool_call_end｜>\n"
        "<｜tool_calls_end｜>",
        .open = {"<｜tool_calls_begin｜>"},
        .call = {"<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="}, .quoted = true,
        .name_end = {">"}, .key_open = {"<steptml:parameter name="}, .key_end = ">",
        .value_close = "</steptml:parameter>", .call_close = {"</steptml:invoke>", "<｜tool_call_end｜>"},
        .close = {"<｜tool_calls_end｜>"}),
    MARKED_ROW("muse_glimmer", NULL, "Muse Glimmer", MARKUP_XML,
               " to=f<|message|><atem:function_calls>\n" INVOKED("atem:", "") "</atem:function_calls>",
               .open = {" to=\1<|message|><atem:function_calls>"}, INVOKE("atem:"),
               .call_close = {"</atem:invoke>", "</atem:function_calls>"}, .close = {"<|eom|>"}),
    MARKED_ROW("minicpm5", NULL, "MiniCPM5", MARKUP_XML,
               "<function name=\"f\"><param name=\"a\">1</param></function>",
               .call = {"<function name=", "<functionname="}, .quoted = true, .name_end = {">"},
               .key_open = {"<param name=", "<paramname="}, .key_end = ">", .value_close = "</param>",
               .call_close = {"</function>"}),
    MARKED_ROW("kimi_k3", NULL, "Kimi K3", MARKUP_XML,
               "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>"
               "<|open|>argument key=\"a\" type=\"number\"<|sep|>1<|close|>argument<|sep|>"
               "<|close|>call<|sep|><|close|>tools<|sep|>",
               .open = {"<|open|>tools<|sep|>"}, .call = {"<|open|>call tool="}, .quoted = true,
               .name_end = {"<|sep|>"}, .key_open = {"<|open|>argument key="}, .key_end = "<|sep|>",
               .type_attribute = "type", .value_close = "<|close|>argument<|sep|>",
               .call_close = {"<|close|>call<|sep|>"}, .close = {"<|close|>tools<|sep|>"}),
#define MINIMAX "]<]minimax[>["
    MARKED_ROW("minimax_m3", NULL, "MiniMax M3", MARKUP_XML | MARKUP_TREE,
               MINIMAX "<tool_call>\n" MINIMAX "<invoke name=\"f\">" MINIMAX "<a>1" MINIMAX "</a>" MINIMAX
                       "</invoke>\n" MINIMAX "</tool_call>",
               .open = {MINIMAX "<tool_call>"}, .call = {MINIMAX "<invoke name="}, .quoted = true,
               .name_end = {">"}, .key_open = {MINIMAX "<"}, .key_end = ">", .value_close = MINIMAX "</\1>",
               .call_close = {MINIMAX "</invoke>"}, .close = {MINIMAX "</tool_call>"}),
    /* transformers' row in the model's files is not read; its own templates write one of these two forms */
    FUNCTION_ROW("hf", NULL, "the markup of hermes or of qwen3_coder", MARKUP_OBJECT | MARKUP_LIST,
                 "tool_call", "\n", .trims_lines = true),
    /* ---- braces ---- */
    MARKED_ROW("gemma4", NULL, "Gemma 4", MARKUP_BRACES, "<|tool_call>call:f{a:1}<tool_call|>",
               .open = {"<|tool_call>"}, .call_close = {"<tool_call|>"}, .close = {"<|tool_response>"},
               .quote = "<|\"|>"),
    MARKED_ROW("functiongemma", NULL, "FunctionGemma", MARKUP_BRACES,
               "<start_function_call>call:f{a:1}<end_function_call>", .open = {"<start_function_call>"},
               .call_close = {"<end_function_call>"}, .close = {"<start_function_response>"},
               .quote = "<escape>"),
    /* ---- Python ---- */
    MARKED_ROW("pythonic", "llama4_pythonic", "Llama 3.2, Llama 4, ToolACE; the whole answer", MARKUP_PYTHON,
               "[f(a=1)]", .open = {"<|python_start|>"}, .close = {"<|python_end|>"}, .bare = '['),
    ROW("olmo3", NULL, "OLMo 3; a line for each call", MARKUP_PYTHON,
        "<function_calls>\nf(a=1)\n</function_calls>", .open = {"<function_calls>"},
        .close = {"</function_calls>"}),
    MARKED_ROW("lfm2", NULL, "LFM2, LFM2.5", MARKUP_PYTHON, "<|tool_call_start|>[f(a=1)]<|tool_call_end|>",
               .open = {"<|tool_call_start|>"}, .close = {"<|tool_call_end|>"}, .echoes = true),
};

#define REASONING_ROW(NAME, ALIASES, MODELS, OPEN, CLOSE, ...)                                        \
    {                                                                                                 \
        .name = NAME, .aliases = ALIASES, .models = MODELS, .open = OPEN, .close = CLOSE, __VA_ARGS__ \
    }

const struct markup_reasoning markup_reasoning_rows[] = {
    REASONING_ROW("deepseek_r1", "holo2|step3", "DeepSeek R1, Step3, Holo2; an answer begins with it",
                  "<think>", "</think>", .implied = true),
    REASONING_ROW(
        "qwen3",
        "deepseek_v3|deepseek_v4|deepseek_v41|nemotron_v3|granite_thinking_parser|mimo|minicpmv|step3p5|"
        "glm45|glm47|ling3|kimi_k2|minimax_m2|minimax_m2_append_think|poolside_v1|olmo3|hf",
        "most models with these marks; only if the prompt or the model opens it", "<think>", "</think>",
        .implied = false),
    REASONING_ROW("mistral", NULL, "Magistral, Ministral", "[THINK]", "[/THINK]", .special = true),
    REASONING_ROW("gemma4", NULL, "Gemma 4", "<|channel>thought\n", "<channel|>", .special = true),
    REASONING_ROW("openai_gptoss", NULL, "gpt-oss", NULL, NULL, .special = true, .channels = true),
    REASONING_ROW("cohere_command3", "cohere_command4", "Command R7B, A, A+", "<|START_THINKING|>",
                  "<|END_THINKING|>", .text_open = {"<|START_RESPONSE|>", "<|START_TEXT|>"},
                  .text_close = {"<|END_RESPONSE|>", "<|END_TEXT|>"}, .special = true),
    REASONING_ROW("ernie45", NULL, "ERNIE 4.5; an answer begins with it", "<think>", "</think>",
                  .text_open = {"<response>"}, .text_close = {"</response>"}, .implied = true),
    REASONING_ROW("granite", NULL, "Granite 3",
                  "Here is my thought process:", "Here is my response:", .implied = false),
    REASONING_ROW("hunyuan_a13b", NULL, "Hunyuan-A13B", "<think>", "</think>", .text_open = {"<answer>"},
                  .text_close = {"</answer>"}),
    REASONING_ROW("hy_v3", "hy_v4", "Hunyuan 3 and 4; the marks may have a suffix", "<think\1>", "</think\1>",
                  .implied = false),
    REASONING_ROW("inkling", NULL, "Inkling", "<|content_thinking|>", "<|end_message|>",
                  .text_open = {"<|content_text|>"}, .text_close = {"<|end_message|>"},
                  .skip = {"<|message_model|>"}, .special = true),
    REASONING_ROW("k2_horizon", NULL, "K2 Horizon", "<ifm|think\1>", "</ifm|think\1>", .implied = false),
    REASONING_ROW("kimi_k3", NULL, "Kimi K3", "<|open|>think<|sep|>", "<|close|>think<|sep|>",
                  .text_open = {"<|open|>response<|sep|>"}, .text_close = {"<|close|>response<|sep|>"},
                  .skip = {"<|close|>message<|sep|>"}, .special = true),
    REASONING_ROW("minimax_m3", NULL, "MiniMax M3", "<mm:think>", "</mm:think>", .implied = false),
    REASONING_ROW("muse_glimmer", NULL, "Muse Glimmer", " to=self<|message|>", "<|eom|>",
                  .text_open = {" to=user<|message|>"}, .text_close = {"<|eom|>"},
                  .skip = {"<|start|>assistant"}, .special = true),
    REASONING_ROW("plamo3", NULL, "PLaMo 3", PLAMO("begin_think"), PLAMO("end_think"), .special = true),
    REASONING_ROW("seed_oss", NULL, "Seed-OSS", "<seed:think>", "</seed:think>", .implied = false),
};

const size_t markup_n_calls_rows = sizeof(markup_calls_rows) / sizeof(markup_calls_rows[0]),
             markup_n_reasoning_rows = sizeof(markup_reasoning_rows) / sizeof(markup_reasoning_rows[0]);
