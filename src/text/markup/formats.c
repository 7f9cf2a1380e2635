/* formats.c - the rows of the two tables of markup. A new format is a new row here; macros write the common parts of
 * rows. */
#include "text/markup/markup.h"

/* A row of either table. */
#define ROW(NAME, ALIASES, MODELS, ...)                                 \
    {                                                                   \
        .name = NAME, .aliases = ALIASES, .models = MODELS, __VA_ARGS__ \
    }
/* A row with marks that may be special tokens. */
#define MARKED(...) ROW(__VA_ARGS__, .special = true)

#define MARKS(OPEN, CLOSE) .open = OPEN, .close = CLOSE

#define NUMBER(EXAMPLE) "\3" EXAMPLE
#define TYPE            "\2"

/* The texts of markup_calls.form: around names and JSON arguments, or around all keys and values. */
#define FORM(OPEN, BEFORE, BETWEEN, AFTER, CLOSE) .form = {OPEN, BEFORE, BETWEEN, AFTER, CLOSE}

#define TAG(NAME) .open = {"<" NAME ">"}, .close = {"</" NAME ">"}

/* {"name": "f", "arguments": {"a": 1}} */
#define OBJECT(BEFORE, ARGUMENTS, AFTER) \
    FORM("", BEFORE "{\"name\": \"", "\", \"" ARGUMENTS "\": ", "}" AFTER, "")
#define LIST(BEFORE, AFTER) FORM(BEFORE "[", "{\"name\": \"", "\", \"arguments\": ", "}", "]" AFTER)

/* <function=f> <parameter=a>1</parameter> </function> between the tags OUTER. */
#define FUNCTION(OUTER, LINE_END)                                                                       \
    TAG(OUTER), .call = {"<function="}, .name_end = {">"}, .key_open = {"<parameter="}, .key_end = ">", \
                .value_close = "</parameter>", .call_close = {"</function>"},                           \
                FORM("", "<" OUTER ">\n<function=", ">\n", "</function>\n</" OUTER ">", ""),            \
                .key_between = ">" LINE_END, .value_after = LINE_END "</parameter>\n"

/* <invoke name="f"> <parameter name="a">1</parameter> </invoke>, whose tags begin with START, between OPEN and CLOSE;
 * the parameter may have the attribute TYPED. */
#define INVOKE(START, OPEN, CLOSE, TYPED)                                                              \
    .call = {"<" START "invoke name="}, .needs_open = true, .quoted = true, .name_end = {">"},         \
    .key_open = {"<" START "parameter name="}, .key_end = ">", .value_close = "</" START "parameter>", \
    FORM(OPEN "\n", "<" START "invoke name=\"", "\">\n", "</" START "invoke>", "\n" CLOSE),            \
    .key_between = "\"" TYPED ">", .value_after = "</" START "parameter>\n"

/* <tool_call>f <arg_key>a</arg_key> <arg_value>1</arg_value> </tool_call>; the tags begin with START and end with
 * END. */
#define KEYS(START, END, OPEN, SEPARATOR, CLOSE)                                              \
    .call = {"<" START "tool_call" END}, .key_open = {"<" START "arg_key" END},               \
    .key_end = "</" START "arg_key" END, .value_open = "<" START "arg_value" END,             \
    .value_close = "</" START "arg_value" END, .call_close = {"</" START "tool_call" END},    \
    FORM(OPEN, "<" START "tool_call" END, SEPARATOR "\n", "</" START "tool_call" END, CLOSE), \
    .key_between = "</" START "arg_key" END "\n<" START "arg_value" END,                      \
    .value_after = "</" START "arg_value" END "\n"

#define BRACES(OPEN, CLOSE)                                        \
    .open = {OPEN}, .name_end = {"{", "("}, .call_close = {CLOSE}, \
    FORM("", OPEN "call:", "{", "}" CLOSE, ""), .key_between = ":"
#define PYTHON(OPEN, CLOSE) .name_end = {"("}, FORM(OPEN, "", "(", ")", CLOSE), .key_between = "="

#define DEEPSEEK(WHAT) "<｜tool▁" WHAT "｜>"
#define PLAMO(WHAT)    "<|plamo:" WHAT ":plamo|>"
#define PLAMO_JSON     PLAMO("end_tool_name") PLAMO("begin_tool_arguments") "<|plamo:constrain|>json<|plamo:msg|>"
#define DSML           "｜DSML｜"
#define MINIMAX        "]<]minimax[>["

const struct markup_calls markup_calls_rows[] = {
    MARKED("hermes", "qwen3_json|granite4|ernie45",
           "Qwen 2.5, Qwen 3, QwQ, Hermes, Granite 4, ERNIE 4.5, MiMo-VL",
           .shapes = MARKUP_OBJECT | MARKUP_LIST, TAG("tool_call"),
           OBJECT("<tool_call>\n", "arguments", "\n</tool_call>")),
    MARKED("llama3_json", "llama4_json", "Llama 3.1 to 3.3; the whole answer, several with `;`",
           .shapes = MARKUP_OBJECT, .open = {"<|python_tag|>"}, OBJECT("", "parameters", ""), .bare = '{',
           .separator = "; "),
    MARKED("mistral_v3", NULL, "Mistral 7B v0.3, Nemo", .shapes = MARKUP_OBJECT | MARKUP_LIST,
           .open = {"[TOOL_CALLS]"}, LIST("[TOOL_CALLS]\t", ""), .short_id = true),
    MARKED("mistral", NULL, "Mistral, Ministral, Magistral, Devstral; also a list of objects",
           .shapes = MARKUP_OBJECT | MARKUP_LIST | MARKUP_NAMED, .open = {"[TOOL_CALLS]"},
           .name_end = {"[ARGS]", "[CALL_ID]\1[ARGS]"}, FORM("", "[TOOL_CALLS]", "[ARGS]", "", ""),
           .no_mark = true, .short_id = true),
    MARKED("phi4_mini_json", NULL, "Phi-4-mini", .shapes = MARKUP_LIST,
           .open = {"functools", "<|tool_call|>"}, .close = {"<|/tool_call|>"}, LIST("functools", "")),
    MARKED("openai", NULL, "gpt-oss", .channels = true,
           FORM("", "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "<|call|>", ""),
           .stop = {"<|call|>", "<|return|>"}),
    /* ---- JSON ---- */
    MARKED("longcat", NULL, "LongCat-Flash", .shapes = MARKUP_OBJECT | MARKUP_LIST, TAG("longcat_tool_call"),
           OBJECT("<longcat_tool_call>\n", "arguments", "\n</longcat_tool_call>")),
    MARKED("jamba", "hunyuan_a13b", "Jamba 1.5, Hunyuan-A13B, Apriel", .shapes = MARKUP_OBJECT | MARKUP_LIST,
           TAG("tool_calls"), LIST("<tool_calls>", "</tool_calls>")),
    MARKED("granite", NULL, "Granite 3.0, 3.1", .shapes = MARKUP_LIST,
           .open = {"<|tool_call|>", "<tool_call>"}, LIST("<|tool_call|>", "")),
    ROW("granite-20b-fc", NULL, "granite-20b-functioncalling", .shapes = MARKUP_OBJECT,
        .open = {"<function_call>"}, OBJECT("<function_call> ", "arguments", "")),
    ROW("xlam", NULL, "xLAM-2; the whole answer", .shapes = MARKUP_LIST,
        .open = {"<tool_call>", "[TOOL_CALLS]", "```json"}, .close = {"</tool_call>", "```"}, LIST("", ""),
        .bare = '['),
    MARKED("internlm", NULL, "InternLM 2.5", .shapes = MARKUP_OBJECT, .open = {"<|action_start|><|plugin|>"},
           .close = {"<|action_end|>"},
           OBJECT("<|action_start|><|plugin|>\n", "parameters", "<|action_end|>")),
    MARKED("apertus", NULL, "Apertus", .shapes = MARKUP_LIST | MARKUP_KEYED, .open = {"<|tools_prefix|>"},
           .close = {"<|tools_suffix|>"}, FORM("<|tools_prefix|>[", "{\"", "\": ", "}", "]<|tools_suffix|>")),
    MARKED("cohere_command3", "cohere_command4", "Command R7B, Command A, Command A+", .shapes = MARKUP_LIST,
           .open = {"<|START_ACTION|>"}, .close = {"<|END_ACTION|>"}, .name_key = "tool_name",
           FORM("<|START_ACTION|>[", "{\"tool_call_id\": \"" NUMBER("0") "\", \"tool_name\": \"",
                "\", \"parameters\": ", "}", "]<|END_ACTION|>")),
    MARKED("gigachat3", NULL, "GigaChat 3, 3.1", .shapes = MARKUP_OBJECT,
           .open = {"<|function_call|>", "<|message_sep|>\n\nfunction call<|role_sep|>",
                    "function call<|role_sep|>"},
           .close = {"<|message_sep|>"}, OBJECT("<|function_call|>", "arguments", "")),
    MARKED("inkling", NULL, "Inkling", .shapes = MARKUP_OBJECT,
           .open = {"<|content_invoke_tool_json|>", "\1<|content_invoke_tool_json|>"},
           .call_close = {"<|end_message|>"}, .close = {"<|message_model|>"}, .args_key = "args",
           OBJECT("<|content_invoke_tool_json|>", "args", "<|end_message|>"),
           .separator = "<|message_model|>"),
    MARKED("nemotron_json", NULL, "Nemotron Nano v2", .shapes = MARKUP_OBJECT | MARKUP_LIST, TAG("TOOLCALL"),
           LIST("<TOOLCALL>", "</TOOLCALL>")),
    /* ---- a name, and arguments as JSON ---- */
    MARKED("deepseek_v3", NULL, "DeepSeek V3-0324, R1-0528 and R1 distills", .shapes = MARKUP_NAMED,
           .open = {DEEPSEEK("calls▁begin")}, .call = {(DEEPSEEK("call▁begin") "function" DEEPSEEK("sep"))},
           .name_end = {"```json"}, .call_close = {"```", DEEPSEEK("call▁end")},
           .close = {DEEPSEEK("calls▁end")},
           FORM(DEEPSEEK("calls▁begin"), DEEPSEEK("call▁begin") "function" DEEPSEEK("sep"), "\n```json\n",
                "\n```" DEEPSEEK("call▁end"), DEEPSEEK("calls▁end"))),
    MARKED("deepseek_v31", NULL, "DeepSeek V3.1", .shapes = MARKUP_NAMED, .open = {DEEPSEEK("calls▁begin")},
           .call = {DEEPSEEK("call▁begin")}, .name_end = {DEEPSEEK("sep")},
           .call_close = {DEEPSEEK("call▁end")}, .close = {DEEPSEEK("calls▁end")},
           FORM(DEEPSEEK("calls▁begin"), DEEPSEEK("call▁begin"), DEEPSEEK("sep"), DEEPSEEK("call▁end"),
                DEEPSEEK("calls▁end"))),
    MARKED("kimi_k2", NULL, "Kimi K2, K2-Thinking, K2.5", .shapes = MARKUP_NAMED,
           .open = {"<|tool_calls_section_begin|>"}, .call = {"<|tool_call_begin|>"},
           .name_open = "functions.", .name_end = {"<|tool_call_argument_begin|>"}, .is_numbered = true,
           .call_close = {"<|tool_call_end|>"}, .close = {"<|tool_calls_section_end|>"},
           FORM("<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.",
                ":" NUMBER("0") "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                "<|tool_calls_section_end|>")),
    MARKED("plamo3", NULL, "PLaMo 3", .shapes = MARKUP_NAMED, .open = {PLAMO("begin_tool_requests")},
           .call = {(PLAMO("begin_tool_request") PLAMO("begin_tool_name"))}, .name_end = {(PLAMO_JSON)},
           .call_close = {PLAMO("end_tool_arguments"), PLAMO("end_tool_request")},
           .close = {PLAMO("end_tool_requests")},
           FORM(PLAMO("begin_tool_requests"), PLAMO("begin_tool_request") PLAMO("begin_tool_name"),
                PLAMO_JSON, PLAMO("end_tool_arguments") PLAMO("end_tool_request"),
                PLAMO("end_tool_requests"))),
    MARKED(
        "solar_open", NULL, "Solar Open", .shapes = MARKUP_NAMED,
        .call = {"<|tool_call:begin|>\1<|tool_call:name|>"}, .name_end = {"<|tool_call:args|>"},
        .call_close = {"<|tool_call:end|>"},
        FORM("", "<|tool_call:begin|>\1<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>", "")),
    ROW("functionary_v3_1", NULL, "Functionary 3.1", .shapes = MARKUP_NAMED, .call = {"<function="},
        .name_end = {">"}, .call_close = {"</function>"}, FORM("", "<function=", ">", "</function>", "")),
    /* ---- keys and values between marks ---- */
    MARKED("qwen3_coder", "qwen3_xml|step3p5",
           "Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step-3.5, Granite 4.2", .shapes = MARKUP_XML,
           FUNCTION("tool_call", "\n"), .trims_lines = true),
    MARKED("mimo", NULL, "MiMo-V2", .shapes = MARKUP_XML, FUNCTION("tool_call", "")),
    MARKED("seed_oss", NULL, "Seed-OSS", .shapes = MARKUP_XML, FUNCTION("seed:tool_call", ""),
           .trims_lines = true),
    MARKED("glm45", "glm47|ling3|poolside_v1", "GLM-4.5 and later, Ling 3, Laguna, Spark 2.5",
           .shapes = MARKUP_XML, KEYS("", ">", "", "", "")),
    MARKED("hy_v3", "hy_v4", "Hunyuan 3 and 4; all marks may have one suffix, `<tool_call:x7>`",
           .shapes = MARKUP_XML, .open = {"<tool_calls\1>"}, .needs_open = true, .name_end = {"<tool_sep\1>"},
           .close = {"</tool_calls\1>"},
           KEYS("", "\1>", "<tool_calls\1>\n", "<tool_sep\1>", "\n</tool_calls\1>")),
    MARKED("k2_horizon", NULL, "K2 Horizon, in its forms xml, xml_typed and json",
           .shapes = MARKUP_XML | MARKUP_OBJECT, TAG("ifm|tool_calls"), .needs_open = true,
           .value_type = "<ifm|arg_type>\1</ifm|arg_type>",
           KEYS("ifm|", ">", "<ifm|tool_calls>\n", "", "\n</ifm|tool_calls>")),
    MARKED("minimax_m2", NULL, "MiniMax M2", .shapes = MARKUP_XML, TAG("minimax:tool_call"),
           .call_close = {"</invoke>"}, INVOKE("", "<minimax:tool_call>", "</minimax:tool_call>", "")),
    ROW("dots", NULL, "dots", .shapes = MARKUP_XML | MARKUP_OBJECT, TAG("dots_function_call"),
        .call_close = {"</invoke>"}, INVOKE("", "<dots_function_call>", "</dots_function_call>", "")),
    MARKED("deepseek_v32", "deepseek_v4", "DeepSeek V3.2, V4", .shapes = MARKUP_XML,
           .open = {"<" DSML "function_calls>", "<" DSML "tool_calls>"}, .type_attribute = "string",
           .call_close = {"</" DSML "invoke>"},
           .close = {"</" DSML "function_calls>", "</" DSML "tool_calls>"},
           INVOKE(DSML, "<" DSML "function_calls>", "</" DSML "function_calls>", " string=\"" TYPE "\"")),
    MARKED("deepseek_v41", NULL, "DeepSeek V4.1", .shapes = MARKUP_XML, TAG(DSML " calls"),
           .type_attribute = "string", .call_close = {"</" DSML " invoke>"},
           INVOKE(DSML " ", "<" DSML " calls>", "</" DSML " calls>", " string=\"" TYPE "\"")),
    MARKED("step3", NULL, "Step3", .shapes = MARKUP_XML, .open = {"<｜tool_calls_begin｜>"},
           .call = {"<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="}, .quoted = true,
           .name_end = {">"}, .key_open = {"<steptml:parameter name="}, .key_end = ">",
           .value_close = "</steptml:parameter>", .call_close = {"</steptml:invoke>", "<｜tool_call_end｜>"},
           .close = {"<｜tool_calls_end｜>"},
           FORM("",
                "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜>"
                "<steptml:invoke name=\"",
                "\">", "</steptml:invoke><｜tool_call_end｜>\n<｜tool_calls_end｜>", ""),
           .key_between = "\">", .value_after = "</steptml:parameter>"),
    MARKED("muse_glimmer", NULL, "Muse Glimmer", .shapes = MARKUP_XML,
           .open = {" to=\1<|message|><atem:function_calls>"},
           .call_close = {"</atem:invoke>", "</atem:function_calls>"}, .close = {"<|eom|>"},
           INVOKE("atem:", " to=\1<|message|><atem:function_calls>", "</atem:function_calls>", "")),
    MARKED("minicpm5", NULL, "MiniCPM5", .shapes = MARKUP_XML, .call = {"<function name=", "<functionname="},
           .quoted = true, .name_end = {">"}, .key_open = {"<param name=", "<paramname="}, .key_end = ">",
           .value_close = "</param>", .call_close = {"</function>"},
           FORM("", "<function name=\"", "\">", "</function>", ""), .key_between = "\">",
           .value_after = "</param>", .separator = ""),
    MARKED("kimi_k3", NULL, "Kimi K3", .shapes = MARKUP_XML, .open = {"<|open|>tools<|sep|>"},
           .call = {"<|open|>call tool="}, .quoted = true, .name_end = {"<|sep|>"},
           .key_open = {"<|open|>argument key="}, .key_end = "<|sep|>", .type_attribute = "type",
           .value_close = "<|close|>argument<|sep|>", .call_close = {"<|close|>call<|sep|>"},
           .close = {"<|close|>tools<|sep|>"},
           FORM("", "<|open|>tools<|sep|><|open|>call tool=\"", "\" index=\"" NUMBER("1") "\"<|sep|>",
                "<|close|>call<|sep|><|close|>tools<|sep|>", ""),
           .key_between = "\" type=\"" TYPE "\"<|sep|>", .value_after = "<|close|>argument<|sep|>",
           .separator = ""),
    MARKED("minimax_m3", NULL, "MiniMax M3", .shapes = MARKUP_XML | MARKUP_TREE,
           .open = {MINIMAX "<tool_call>"}, .call = {MINIMAX "<invoke name="}, .quoted = true,
           .name_end = {">"}, .key_open = {MINIMAX "<"}, .key_end = ">", .value_close = MINIMAX "</\1>",
           .call_close = {MINIMAX "</invoke>"}, .close = {MINIMAX "</tool_call>"},
           FORM("", MINIMAX "<tool_call>\n" MINIMAX "<invoke name=\"", "\">",
                MINIMAX "</invoke>\n" MINIMAX "</tool_call>", ""),
           .key_between = ">", .value_after = MINIMAX "</\1>"),
    /* the response_templates of transformers itself have one of these two forms (response.h) */
    MARKED("hf", NULL, "the markup of hermes or of qwen3_coder",
           .shapes = MARKUP_XML | MARKUP_OBJECT | MARKUP_LIST, FUNCTION("tool_call", "\n"),
           .trims_lines = true),
    /* ---- braces ---- */
    MARKED("gemma4", NULL, "Gemma 4", .shapes = MARKUP_BRACES, BRACES("<|tool_call>", "<tool_call|>"),
           .close = {"<|tool_response>"}, .quote = "<|\"|>"),
    MARKED("functiongemma", NULL, "FunctionGemma", .shapes = MARKUP_BRACES,
           BRACES("<start_function_call>", "<end_function_call>"), .close = {"<start_function_response>"},
           .quote = "<escape>"),
    /* ---- Python ---- */
    MARKED("pythonic", "llama4_pythonic", "Llama 3.2, Llama 4, ToolACE; the whole answer",
           .shapes = MARKUP_PYTHON, .open = {"<|python_start|>"}, .close = {"<|python_end|>"},
           PYTHON("[", "]"), .bare = '['),
    ROW("olmo3", NULL, "OLMo 3; a line for each call", .shapes = MARKUP_PYTHON, TAG("function_calls"),
        PYTHON("<function_calls>\n", "\n</function_calls>")),
    MARKED("lfm2", NULL, "LFM2, LFM2.5", .shapes = MARKUP_PYTHON, .open = {"<|tool_call_start|>"},
           .close = {"<|tool_call_end|>"}, PYTHON("<|tool_call_start|>[", "]<|tool_call_end|>"),
           .echoes = true),
};

const struct markup_reasoning markup_reasoning_rows[] = {
    ROW("deepseek_r1", "holo2|step3", "DeepSeek R1, Step3, Holo2; an answer begins with it",
        MARKS("<think>", "</think>"), .implied = true),
    ROW("qwen3",
        "deepseek_v3|deepseek_v4|deepseek_v41|nemotron_v3|granite_thinking_parser|mimo|minicpmv|step3p5|"
        "glm45|glm47|ling3|kimi_k2|minimax_m2|minimax_m2_append_think|poolside_v1|olmo3|hf",
        "most models with these marks; only if the prompt or the model opens it",
        MARKS("<think>", "</think>")),
    MARKED("mistral", NULL, "Magistral, Ministral", MARKS("[THINK]", "[/THINK]")),
    MARKED("gemma4", NULL, "Gemma 4", MARKS("<|channel>thought\n", "<channel|>")),
    MARKED("openai_gptoss", NULL, "gpt-oss", .channels = true),
    MARKED("cohere_command3", "cohere_command4", "Command R7B, A, A+",
           MARKS("<|START_THINKING|>", "<|END_THINKING|>"),
           .text_open = {"<|START_RESPONSE|>", "<|START_TEXT|>"},
           .text_close = {"<|END_RESPONSE|>", "<|END_TEXT|>"}),
    ROW("ernie45", NULL, "ERNIE 4.5; an answer begins with it", MARKS("<think>", "</think>"),
        .text_open = {"<response>"}, .text_close = {"</response>"}, .implied = true),
    ROW("granite", NULL, "Granite 3", MARKS("Here is my thought process:", "Here is my response:")),
    ROW("hunyuan_a13b", NULL, "Hunyuan-A13B", MARKS("<think>", "</think>"), .text_open = {"<answer>"},
        .text_close = {"</answer>"}),
    ROW("hy_v3", "hy_v4", "Hunyuan 3 and 4; the marks may have a suffix", MARKS("<think\1>", "</think\1>")),
    MARKED("inkling", NULL, "Inkling", MARKS("<|content_thinking|>", "<|end_message|>"),
           .text_open = {"<|content_text|>"}, .text_close = {"<|end_message|>"},
           .skip = {"<|message_model|>"}),
    ROW("k2_horizon", NULL, "K2 Horizon", MARKS("<ifm|think\1>", "</ifm|think\1>")),
    MARKED("kimi_k3", NULL, "Kimi K3", MARKS("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
           .text_open = {"<|open|>response<|sep|>"}, .text_close = {"<|close|>response<|sep|>"},
           .skip = {"<|close|>message<|sep|>"}),
    ROW("minimax_m3", NULL, "MiniMax M3", MARKS("<mm:think>", "</mm:think>")),
    MARKED("muse_glimmer", NULL, "Muse Glimmer", MARKS(" to=self<|message|>", "<|eom|>"),
           .text_open = {" to=user<|message|>"}, .text_close = {"<|eom|>"}, .skip = {"<|start|>assistant"}),
    MARKED("plamo3", NULL, "PLaMo 3", MARKS(PLAMO("begin_think"), PLAMO("end_think"))),
    ROW("seed_oss", NULL, "Seed-OSS", MARKS("<seed:think>", "</seed:think>")),
};

const size_t markup_n_calls_rows = sizeof(markup_calls_rows) / sizeof(markup_calls_rows[0]),
             markup_n_reasoning_rows = sizeof(markup_reasoning_rows) / sizeof(markup_reasoning_rows[0]);
