/* fields.c - reads the fields of a request by the rows of fields.def, and generates their documentation
 * and schema.
 */
#include "chat/fields.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/json/json_tree.h"
#include "base/mem.h"
#include "base/param/param_json.h"
#include "engine/sampling/sampling.h"

enum kind { BOOL, INT, NUMBER, TEXT, FILLED, OWN, EMPTY, LOGGED, NEVER };

struct row {
    const char *name;
    unsigned endpoints;
    enum kind kind;
    size_t offset;     /* offset of the value in struct fields */
    const char *range; /* INT, NUMBER: the allowed interval, such as "[0,1]" */
    size_t most;       /* TEXT, FILLED: maximum length in bytes */
    int (*read)(struct fields *f, const json_t *v, struct err *e);
    /* OWN, EMPTY: the type in words; LOGGED, NEVER: the JSON values without effect, separated by | */
    const char *form;
    const char *says;
    const char *schema; /* OWN: JSON Schema of the values, with ' in place of " */
    /* BOOL, INT, NUMBER: 1 + the sampling field that gets the value; 0: the value is stored at OFFSET */
    int sampled;
};

/* The path of each endpoint, and the field that it requires (or NULL). */
#define COMPUTED(letter, name, path, needs, form, gives, says)            {FIELDS_##name, path, needs},
#define HANDLED(letter, name, path, needs, access, function, gives, says) {FIELDS_##name, path, needs},
#define ANSWERED(path, access, function, gives, says)
#define WRITTEN(path, access, function, gives, says)
static const struct endpoint {
    unsigned endpoint;
    const char *path, *needs;
} endpoints[FIELDS_N_ENDPOINTS] = {
#include "chat/routes.def"
};
#undef COMPUTED
#undef HANDLED

/* The letters by which fields.def names endpoints. */
#define COMPUTED(letter, name, path, needs, form, gives, says)            letter = FIELDS_##name,
#define HANDLED(letter, name, path, needs, access, function, gives, says) letter = FIELDS_##name,
enum {
#include "chat/routes.def"
    P = FIELDS_OPTIONS,
    B = FIELDS_LINE
};
#undef COMPUTED
#undef HANDLED
#undef ANSWERED
#undef WRITTEN

static int unexpected(const char *name, const json_t *v, const char *expected, struct err *e)
{
    char text[PARAM_FOUND_BYTES];

    return err_set(e, ERR_INPUT, "%s: found %s, expected %s", name, param_found(v, text), expected);
}

/* Sets E to an error about V, the value of the field NAME. If V is a list, the error is about its first
 * element for which IS returns false, and says that ELEMENT was expected. Otherwise it says that LIST was
 * expected. */
static int unexpected_in(const char *name, const json_t *v, bool (*is)(const json_t *v), const char *list,
                         const char *element, struct err *e)
{
    char index[80];
    size_t i = 0;

    while (i < json_array_size(v) && is(json_array_get(v, i)))
        i++;
    if (i >= json_array_size(v))
        return unexpected(name, v, list, e);
    snprintf(index, sizeof(index), "%s[%zu]", name, i);
    return unexpected(index, json_array_get(v, i), element, e);
}

/* ---- readers of lists, objects and other special values ---- */

/* Replaces floats in LIST that are whole numbers by integers. If memory runs out, the float stays and is
 * refused later. */
static void make_whole(const json_t *list)
{
    /* it is part of the body, which the request owns and may change */
    json_t *own = (json_t *)(uintptr_t)list;
    int64_t whole;

    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_real(json_array_get(list, i)) && param_whole(json_array_get(list, i), &whole))
            json_array_set_new(own, i, json_integer(whole));
}

static bool is_id(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= INT32_MAX;
}

static bool all(const json_t *list, bool (*is)(const json_t *v))
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!is(json_array_get(list, i)))
            return false;
    return true;
}

static bool is_string(const json_t *v)
{
    return json_is_string(v);
}

static bool is_object(const json_t *v)
{
    return json_is_object(v);
}

static bool is_ids(const json_t *v)
{
    return json_is_array(v) && json_array_size(v) > 0 && all(v, is_id);
}

/* Reports members of the object V, the field NAME or a part of it, that are not in KNOWN [n]: they have no effect. */
static void say_unknown(const struct fields *f, const char *name, const json_t *v, const char *const *known,
                        size_t n)
{
    const char *key;
    json_t *o;

    json_object_foreach((json_t *)(uintptr_t)v, key, o)
    {
        char member[96];
        size_t i = 0;

        while (i < n && strcmp(key, known[i]) != 0)
            i++;
        snprintf(member, sizeof(member), "%s.%s", name, key);
        if (i == n)
            f->unknown(f->unknown_ctx, member);
    }
}

#define SAY_UNKNOWN(f, name, v, ...)                            \
    say_unknown(f, name, v, (const char *const[]){__VA_ARGS__}, \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* schema_NAME: the JSON Schema of the values that read_NAME accepts besides null, with ' in place of ". */

/* Two macros that define read_READER() and its schema. The function checks the value and stores it in f->TO. That of
 * VALUE() accepts a value for which IS_TYPE is true, that of OBJECTS() a list of at most MOST objects. EXPECTED is what
 * an error says was expected. */
#define VALUE(reader, name, to, is_type, expected, schema)                     \
    static const char schema_##reader[] = schema;                              \
    static int read_##reader(struct fields *f, const json_t *v, struct err *e) \
    {                                                                          \
        f->to = v;                                                             \
        return is_type(v) ? 0 : unexpected(name, v, expected, e);              \
    }
#define OBJECTS(reader, name, to, most, schema)                                \
    static const char schema_##reader[] = schema;                              \
    static int read_##reader(struct fields *f, const json_t *v, struct err *e) \
    {                                                                          \
        return read_objects(&f->to, name, v, most, e);                         \
    }
#define SCHEMA_IDS "{'type':'array','items':{'type':'integer','minimum':0,'maximum':2147483647}"
static const char schema_prompt[] =
    "{'anyOf':[{'type':'string'},{'type':'array','items':{'type':'string'},'minItems':1,"
    "'maxItems':1024}," SCHEMA_IDS ",'minItems':1},{'type':'array','minItems':1,'maxItems':1024,"
    "'items':" SCHEMA_IDS ",'minItems':1}}]}";

static int unexpected_prompt(const char *name, const json_t *v, struct err *e)
{
    static const char expected[] =
        "a string, a list of strings, a list of token ids, or a list of such lists, none empty";
    const json_t *first = json_array_get(v, 0);

    if (json_is_string(first))
        return unexpected_in(name, v, is_string, expected, "a string, like the first", e);
    if (json_is_array(first))
        return unexpected_in(name, v, is_ids, expected, "a list of token ids that is not empty", e);
    return is_id(first) ? unexpected_in(name, v, is_id, expected, "a token id, like the first", e)
                        : unexpected(name, v, expected, e);
}

static int check_prompts(struct fields *f, const char *name, const json_t *v, struct err *e)
{
    f->input.prompt = v;
    make_whole(v);
    for (size_t i = 0; i < json_array_size(v); i++)
        make_whole(json_array_get(v, i));
    if (!json_is_string(v) && !(json_is_array(v) && json_array_size(v) > 0 &&
                                (all(v, is_id) || all(v, is_string) || all(v, is_ids))))
        return unexpected_prompt(name, v, e);
    if (json_is_array(v) && !is_id(json_array_get(v, 0)) && json_array_size(v) > FIELDS_MAX_PROMPTS)
        return err_set(e, ERR_INPUT, "%s: found %zu prompts, expected at most %d", name, json_array_size(v),
                       FIELDS_MAX_PROMPTS);
    return 0;
}

static int read_prompt(struct fields *f, const json_t *v, struct err *e)
{
    return check_prompts(f, "prompt", v, e);
}

VALUE(prompt_text, "prompt", input.prompt, is_string, "a string", "{'type':'string'}")

static const char schema_suffix[] = "{'type':'string'}";

static int read_suffix(struct fields *f, const json_t *v, struct err *e)
{
    f->input.suffix = json_string_length(v) ? v : NULL;
    return json_is_string(v) ? 0 : unexpected("suffix", v, "a string", e);
}

static int read_objects(const json_t **to, const char *name, const json_t *v, size_t most, struct err *e)
{
    *to = v;
    if (!json_is_array(v) || !all(v, is_object))
        return unexpected_in(name, v, is_object, "a list of objects", "an object", e);
    if (json_array_size(v) > most)
        return err_set(e, ERR_INPUT, "%s: found %zu entries, expected at most %zu", name, json_array_size(v),
                       most);
    return 0;
}

#define SCHEMA_MESSAGE                                                                        \
    "{'type':'object','required':['role'],'properties':{"                                     \
    "'role':{'type':'string'},'content':{'anyOf':[{'type':'string'},{'type':'null'},{'type':" \
    "'array','items':{'type':'object','required':['type'],'properties':{'type':{'enum':["     \
    "'text','input_text','output_text','refusal','thinking']},'text':{'type':['string',"      \
    "'null']}}}}]},'tool_calls':{'type':['array','null'],'items':{'type':'object'}},"         \
    "'tool_call_id':{'type':'string'},'name':{'type':'string'}}}"
static const char schema_messages[] = "{'type':'array','minItems':1,'items':" SCHEMA_MESSAGE "}";
OBJECTS(any_messages, "messages", input.messages, SIZE_MAX, "{'type':'array','items':" SCHEMA_MESSAGE "}")

static int read_messages(struct fields *f, const json_t *v, struct err *e)
{
    int rc = read_any_messages(f, v, e);

    return rc || json_array_size(v) ? rc : err_set(e, ERR_INPUT, "messages: at least one message is needed");
}

static const char schema_tools[] =
    "{'type':'array','maxItems':1024,'items':{'type':'object','required':['type','function'],"
    "'properties':{'type':{'const':'function'},'function':{'type':'object','required':['name'],"
    "'properties':{'name':{'type':'string','minLength':1},'description':{'type':'string'},"
    "'parameters':{'type':'object'},'strict':{'type':['boolean','null']}}}}}}";

/* Adds "type": "function" to tools that have a function but no type. */
static int name_types(const json_t *tools, struct err *e)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *tool = json_array_get(tools, i), *type = json_object_get(tool, "type"), *named;

        if ((type && !json_is_null(type)) || !json_object_get(tool, "function"))
            continue;
        named = json_object(); /* a new object, so that the type is the first member */
        if (!named || json_object_set_new(named, "type", json_null()) != 0 ||
            json_object_update(named, tool) != 0 ||
            json_object_set_new(named, "type", json_string("function")) != 0 ||
            json_array_set((json_t *)(uintptr_t)tools, i, named) != 0) {
            json_decref(named);
            return err_nomem(e, "tools");
        }
        json_decref(named);
    }
    return 0;
}

static int read_tools(struct fields *f, const json_t *v, struct err *e)
{
    int rc = read_objects(&f->input.tools, "tools", v, FIELDS_MAX_TOOLS, e);

    if (rc == 0)
        rc = name_types(v, e);
    return rc ? rc : tools_check(v, NULL, e);
}

static const char schema_tool_choice[] =
    "{'anyOf':[{'enum':['auto','none','required']},{'type':'object','required':['type'],'properties':{'type':{'enum':"
    "['auto','none','required','function','allowed_tools']},'name':{'type':'string'},"
    "'function':{'type':'object','required':['name'],"
    "'properties':{'name':{'type':'string'}}},'mode':{'enum':['auto','required']},'tools':{'type':'array','items':"
    "{'type':'object'}},'allowed_tools':{'type':'object','required':['mode','tools'],'properties':{'mode':{'enum':"
    "['auto','required']},'tools':{'type':'array','items':{'type':'object'}}}}}}]}";

static int read_tool_choice(struct fields *f, const json_t *v, struct err *e)
{
    return tools_choose(v, &f->input.tool_choice, &f->tool_names, e);
}

/* ---- readers for Anthropic's API ---- */

static const char schema_turns[] =
    "{'type':'array','minItems':1,'items':{'type':'object','required':['role','content'],'properties':{'role':"
    "{'enum':['user','assistant','system']},'content':{'anyOf':[{'type':'string'},{'type':'array','items':{'type':"
    "'object','required':['type','text'],'properties':{'type':{'const':'text'},'text':{'type':'string'}}}}]}}}}";

#define read_turns read_messages

static const char schema_system[] =
    "{'anyOf':[{'type':'string'},{'type':'array','items':{'type':'object','required':['type','text'],'properties':"
    "{'type':{'const':'text'},'text':{'type':'string'}}}}]}";

static bool is_text_block(const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));

    return type && strcmp(type, "text") == 0 && json_is_string(json_object_get(v, "text"));
}

static int read_system(struct fields *f, const json_t *v, struct err *e)
{
    f->input.system = v;
    return json_is_string(v) || (json_is_array(v) && all(v, is_text_block))
               ? 0
               : unexpected_in("system", v, is_text_block, "a string or a list of blocks of text",
                               "a block of text", e);
}

OBJECTS(
    client_tools, "tools", input.tools, FIELDS_MAX_TOOLS,
    "{'type':'array','maxItems':1024,'items':{'type':'object','required':['name','input_schema'],'properties':"
    "{'name':{'type':'string','minLength':1},'description':{'type':'string'},'input_schema':{'type':'object'},"
    "'strict':{'type':['boolean','null']}}}}")

static const char schema_choice_object[] =
    "{'type':'object','required':['type'],'properties':{'type':{'enum':['auto','none','any','tool']},"
    "'name':{'type':'string'},'disable_parallel_tool_use':{'type':'boolean'}}}";

static int read_choice_object(struct fields *f, const json_t *v, struct err *e)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    const json_t *one = json_object_get(v, "disable_parallel_tool_use"), *name = json_object_get(v, "name");
    bool is_named = type && strcmp(type, "tool") == 0;

    if (!type || (one && !json_is_boolean(one) && !json_is_null(one)))
        return unexpected("tool_choice", v, "an object with a type", e);
    if (is_named && json_string_length(name) == 0)
        return err_set(e, ERR_INPUT, "tool_choice.name: expected the name of a tool");
    if (!is_named && strcmp(type, "any") != 0 && strcmp(type, "auto") != 0 && strcmp(type, "none") != 0)
        return err_set(e, ERR_INPUT, "tool_choice.type: found '%.40s', expected auto, none, any or tool",
                       type);
    f->input.tool_choice = *type == 'n'                ? TOOLS_NONE
                           : strcmp(type, "auto") == 0 ? TOOLS_AUTO
                           : is_named                  ? TOOLS_NAMED
                                                       : TOOLS_REQUIRED;
    f->output.parallel_tool_calls = !json_is_true(one);
    f->tool_names = is_named ? json_pack("[O]", name) : NULL;
    return is_named && !f->tool_names ? err_nomem(e, "tool_choice") : 0;
}

enum { MIN_THINKING = 1024 /* minimum of budget_tokens in Anthropic's API */ };

/* Reads BUDGET, the member budget_tokens of `thinking`. */
static int read_thinking_budget(struct fields *f, const json_t *budget, struct err *e)
{
    int64_t n;

    if (!budget || json_is_null(budget))
        return 0;
    if (!param_whole(budget, &n) || n < MIN_THINKING || n > INT32_MAX)
        return unexpected("thinking.budget_tokens", budget, "a whole number in [1024,2147483647]", e);
    f->input.thinking_budget = n;
    return 0;
}

static const char schema_thinking[] =
    "{'type':'object','required':['type'],'properties':{'type':{'enum':['adaptive','enabled','disabled']},"
    "'budget_tokens':{'type':['integer','null']},'display':{'type':['string','null']}}}";

static int read_thinking(struct fields *f, const json_t *v, struct err *e)
{
    static const char *const types[] = {"adaptive", "enabled", "disabled"};
    const char *type = json_string_value(json_object_get(v, "type")),
               *display = json_string_value(json_object_get(v, "display"));
    size_t i = 0;

    if (!type)
        return unexpected("thinking", v, "an object with a type", e);
    while (i < 3 && strcmp(type, types[i]) != 0)
        i++;
    if (i == 3)
        return err_set(e, ERR_UNSUPPORTED,
                       "thinking.type: '%.40s' is not supported, expected adaptive, enabled or disabled",
                       type);
    SAY_UNKNOWN(f, "thinking", v, "type", "budget_tokens", "display");
    f->output.include_reasoning = i < 2 && !(display && strcmp(display, "omitted") == 0);
    f->input.thinking = i == 0 ? FIELDS_THINKING_UNSAID : i == 1 ? FIELDS_THINKING_ON : FIELDS_THINKING_OFF;
    return i == 1 ? read_thinking_budget(f, json_object_get(v, "budget_tokens"), e) : 0;
}

/* Reads EFFORT, the value of the field NAME, into the template variable reasoning_effort. */
static int read_effort(struct fields *f, const char *name, const json_t *effort, struct err *e)
{
    size_t n = json_string_length(effort);

    if (effort && !json_is_null(effort) && (!json_is_string(effort) || n > 32))
        return unexpected(name, effort, "a string of at most 32 bytes", e);
    f->input.reasoning_effort = n ? json_string_value(effort) : NULL;
    if (f->input.reasoning_effort && strcmp(f->input.reasoning_effort, "none") == 0)
        f->input.thinking = FIELDS_THINKING_OFF;
    return 0;
}

static const char schema_reasoning_effort[] = "{'type':['string','null'],'maxLength':32}";

static int read_reasoning_effort(struct fields *f, const json_t *v, struct err *e)
{
    return read_effort(f, "reasoning_effort", v, e);
}

static const char schema_think[] =
    "{'anyOf':[{'type':'boolean'},{'type':'string','minLength':1,'maxLength':32}]}";

static int read_think(struct fields *f, const json_t *v, struct err *e)
{
    if (!json_is_boolean(v) && json_string_length(v) == 0)
        return unexpected("think", v, "true, false or a level such as low", e);
    f->input.thinking = json_is_false(v) ? FIELDS_THINKING_OFF : FIELDS_THINKING_ON;
    f->output.include_reasoning = !json_is_false(v);
    return json_is_string(v) ? read_effort(f, "think", v, e) : 0;
}

static const char schema_context_management[] = "{'type':'object'}";

static int read_context_management(struct fields *f, const json_t *v, struct err *e)
{
    f->output.asks_for_edits = true;
    return json_is_object(v) ? 0 : unexpected("context_management", v, "an object", e);
}

#define SCHEMA_JSON_FORMAT                                                                  \
    "{'type':['object','null'],'required':['type','schema'],'properties':{'type':{'const':" \
    "'json_schema'},'schema':{'type':'object'}}}"

static bool is_json_format(const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));

    return type && strcmp(type, "json_schema") == 0 && json_is_object(json_object_get(v, "schema"));
}

static const char schema_output_format[] = SCHEMA_JSON_FORMAT;

static int read_output_format(struct fields *f, const json_t *v, struct err *e)
{
    (void)f;
    return is_json_format(v) ? 0 : unexpected("output_format", v, "the type json_schema and a schema", e);
}

static const char schema_output_config[] =
    "{'type':'object','properties':{'effort':{'type':['string','null'],'maxLength':32},"
    "'format':" SCHEMA_JSON_FORMAT "}}";

static int read_output_config(struct fields *f, const json_t *v, struct err *e)
{
    const json_t *format = json_object_get(v, "format");

    if (!json_is_object(v))
        return unexpected("output_config", v, "an object", e);
    if (format && !json_is_null(format) && !is_json_format(format))
        return err_set(e, ERR_INPUT, "output_config.format: expected the type json_schema and a schema");
    SAY_UNKNOWN(f, "output_config", v, "effort", "format");
    return read_effort(f, "output_config.effort", json_object_get(v, "effort"), e);
}

/* ---- readers for OpenAI's Responses ---- */

static const char schema_input[] =
    "{'anyOf':[{'type':'string'},{'type':'array','minItems':1,'items':{'type':'object','required':['role','content'],"
    "'properties':{'type':{'const':'message'},'role':{'enum':['user','assistant','system','developer']},'content':"
    "{'anyOf':[{'type':'string'},{'type':'array','items':{'type':'object','required':['type','text'],'properties':"
    "{'type':{'enum':['input_text','output_text']},'text':{'type':'string'}}}}]}}}}]}";

static int read_input(struct fields *f, const json_t *v, struct err *e)
{
    f->input.prompt = v;
    return json_is_string(v) || (json_is_array(v) && json_array_size(v) && all(v, is_object))
               ? 0
               : unexpected_in("input", v, is_object, "a string or a list of items, not empty", "an object",
                               e);
}

#define schema_texts schema_prompt

static int read_texts(struct fields *f, const json_t *v, struct err *e)
{
    return check_prompts(f, "input", v, e);
}

static const char schema_any_texts[] = "{'type':['string','array']}";

static int read_any_texts(struct fields *f, const json_t *v, struct err *e)
{
    f->input.prompt = v;
    return json_is_array(v) && json_array_size(v) == 0 ? 0 : read_texts(f, v, e);
}

static const char schema_encoding[] = "{'enum':['float','base64']}";

static int read_encoding(struct fields *f, const json_t *v, struct err *e)
{
    const char *text = json_string_value(v);

    f->output.base64 = text && strcmp(text, "base64") == 0;
    return f->output.base64 || (text && strcmp(text, "float") == 0)
               ? 0
               : unexpected("encoding_format", v, "'float' or 'base64'", e);
}

static int read_options(struct fields *f, const json_t *v, struct err *e);
static const char schema_options[] = "{'type':'object'}";

VALUE(instructions, "instructions", input.system, is_string, "a string", "{'type':'string'}")
OBJECTS(
    functions, "tools", input.tools, FIELDS_MAX_TOOLS,
    "{'type':'array','maxItems':1024,'items':{'type':'object','required':['type','name'],'properties':{'type':"
    "{'enum':['function','web_search']},'name':{'type':'string','minLength':1},'description':{'type':'string'},"
    "'parameters':{'type':'object'},'strict':{'type':['boolean','null']}}}}")

/* These readers only check types. prepare/choose.c later reads the constraint on the answer from the body. */

static bool is_schema(const json_t *v)
{
    return json_is_object(v) || json_is_string(v);
}

static bool is_list(const json_t *v)
{
    return json_is_array(v);
}

#define FORM(name, is_type, expected, schema)                                \
    static const char schema_##name[] = schema;                              \
    static int read_##name(struct fields *f, const json_t *v, struct err *e) \
    {                                                                        \
        (void)f;                                                             \
        return is_type(v) ? 0 : unexpected(#name, v, expected, e);           \
    }

FORM(structured_outputs, is_object, "an object", "{'type':['object','null']}")
FORM(guided_json, is_schema, "a JSON schema", "{'type':['object','string','null']}")
FORM(guided_regex, is_string, "a string", "{'type':['string','null']}")
FORM(guided_choice, is_list, "a list of strings", "{'type':['array','null'],'items':{'type':'string'}}")
FORM(guided_grammar, is_string, "a string", "{'type':['string','null']}")
FORM(guided_whitespace_pattern, is_string, "a string", "{'type':['string','null']}")
#undef FORM

static const char schema_response_format[] = "{'type':['object','null']}";

static int read_response_format(struct fields *f, const json_t *v, struct err *e)
{
    const char *type = json_string_value(json_object_get(v, "type"));

    if (!json_is_object(v))
        return unexpected("response_format", v, "an object", e);
    if (type && strcmp(type, "structural_tag") == 0)
        return 0;
    SAY_UNKNOWN(f, "response_format", v, "type", "json_schema", "schema");
    SAY_UNKNOWN(f, "response_format.json_schema", json_object_get(v, "json_schema"), "name", "description",
                "schema", "strict");
    return 0;
}

static const char schema_format[] = "{'type':['string','object','null']}";

static int read_format(struct fields *f, const json_t *v, struct err *e)
{
    const char *text = json_string_value(v);

    (void)f;
    return json_is_object(v) || (text && (!*text || strcmp(text, "json") == 0))
               ? 0
               : unexpected("format", v, "\"json\" or a JSON schema", e);
}

static const char schema_text_format[] =
    "{'type':'object','properties':{'format':{'type':'object','required':['type'],'properties':{'type':{'enum':["
    "'text','json_object','json_schema']}}},'verbosity':{'type':['string','null']}}}";

static int read_text_format(struct fields *f, const json_t *v, struct err *e)
{
    const json_t *format = json_object_get(v, "format");
    const char *type = json_string_value(json_object_get(format, "type"));

    if (!json_is_object(v) || (format && !json_is_null(format) && !type))
        return unexpected("text", v, "an object with a format of some type", e);
    SAY_UNKNOWN(f, "text", v, "format", "verbosity");
    SAY_UNKNOWN(f, "text.format", format, "type", "name", "description", "schema", "strict");
    return !type || strcmp(type, "text") == 0 || strcmp(type, "json_object") == 0 ||
                   strcmp(type, "json_schema") == 0
               ? 0
               : err_set(e, ERR_UNSUPPORTED,
                         "text.format.type: found %.40s, expected text, json_object or json_schema", type);
}

static const char schema_reasoning[] =
    "{'type':'object','properties':{'effort':{'type':['string','null'],'maxLength':32}}}";

static int read_reasoning(struct fields *f, const json_t *v, struct err *e)
{
    return json_is_object(v) ? read_effort(f, "reasoning.effort", json_object_get(v, "effort"), e)
                             : unexpected("reasoning", v, "an object", e);
}

/* The parts of an answer that `include` may ask for. All are about tools that a server runs or about
 * images, which answers of this server never have. */
static const char *const includable[] = {
    "reasoning.encrypted_content",  "web_search_call.action.sources", "web_search_call.results",
    "file_search_call.results",     "code_interpreter_call.outputs",  "computer_call_output.output.image_url",
    "message.input_image.image_url"};
static const char schema_include[] =
    "{'type':'array','items':{'enum':['reasoning.encrypted_content','web_search_call.action.sources',"
    "'web_search_call.results','file_search_call.results','code_interpreter_call.outputs',"
    "'computer_call_output.output.image_url','message.input_image.image_url']}}";

static bool is_included(const json_t *v)
{
    for (size_t i = 0; i < sizeof(includable) / sizeof(includable[0]); i++)
        if (strcmp(json_string_value(v), includable[i]) == 0)
            return true;
    return false;
}

static int read_include(struct fields *f, const json_t *v, struct err *e)
{
    (void)f;
    if (!json_is_array(v) || !all(v, is_string))
        return unexpected_in("include", v, is_string, "a list of strings", "a string", e);
    return all(v, is_included)
               ? 0
               : err_set(e, ERR_UNSUPPORTED, "include: what it asks for is not supported by this server");
}

OBJECTS(documents, "documents", input.documents, 1024,
        "{'type':'array','maxItems':1024,'items':{'type':'object'}}")
OBJECTS(any_tools, "tools", input.tools, SIZE_MAX, "{'type':'array','items':{'type':'object'}}")
VALUE(kwargs, "chat_template_kwargs", input.kwargs, is_object, "an object", "{'type':'object'}")

static const char schema_stream_options[] =
    "{'type':'object','properties':{'include_usage':{'type':['boolean','null']},"
    "'continuous_usage_stats':{'type':['boolean','null']}}}";

static int read_stream_options(struct fields *f, const json_t *v, struct err *e)
{
    const char *key;
    json_t *o;

    f->output.has_stream_options = true;
    if (!json_is_object(v))
        return unexpected("stream_options", v, "an object", e);
    SAY_UNKNOWN(f, "stream_options", v, "include_usage", "continuous_usage_stats", "include_obfuscation");
    json_object_foreach((json_t *)(uintptr_t)v, key, o)
    {
        bool usage = strcmp(key, "include_usage") == 0;

        if (!usage && strcmp(key, "continuous_usage_stats") != 0)
            continue;
        if (!json_is_boolean(o) && !json_is_null(o))
            return unexpected(usage ? "stream_options.include_usage"
                                    : "stream_options.continuous_usage_stats",
                              o, "true or false", e);
        *(usage ? &f->output.include_usage : &f->output.continuous_usage) = json_is_true(o);
    }
    f->output.continuous_usage = f->output.continuous_usage && f->output.include_usage;
    return 0;
}

static const char schema_seed[] = "{'type':'integer','minimum':-9223372036854775808}";

static int read_seed(struct fields *f, const json_t *v, struct err *e)
{
    int64_t whole = 0;

    if (!json_bits(v, &f->generation.seed)) {
        if (!param_whole(v, &whole))
            return unexpected("seed", v, "a whole number of 64 bits", e);
        f->generation.seed = (uint64_t)whole;
    }
    f->generation.has_seed = !(json_is_number(v) && f->generation.seed == UINT64_MAX); /* -1: no seed */
    return 0;
}

static const char schema_early_stopping[] = "{'enum':[true,false,'never']}";

static int read_early_stopping(struct fields *f, const json_t *v, struct err *e)
{
    bool never = json_is_string(v) && strcmp(json_string_value(v), "never") == 0;

    if (!json_is_boolean(v) && !never)
        return unexpected("early_stopping", v, "true, false or \"never\"", e);
    sampling_set_number(f->sampling, SAMPLING_EARLY_STOPPING, never ? SAMPLING_EARLY_NEVER : json_is_true(v));
    return 0;
}

/* ---- lists of the sampling parameters ---- */

/* Returns N elements of SIZE bytes in f->lists, or NULL after an error. */
static void *new_list(struct fields *f, size_t n, size_t size, struct err *e)
{
    void *list = arena_zalloc(&f->lists, n, size);

    if (!list)
        err_nomem(e, "a request");
    return list;
}

/* Reads V, a string or, if IS_LIST, only a list of strings within the limits of the row ID. The texts stay in V. */
static int read_strings(struct fields *f, const char *name, enum sampling_field id, bool is_list,
                        const json_t *v, struct err *e)
{
    const struct sampling_row *row = &sampling_row[id];
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    struct sampling_str *list;

    if (is_list && !json_is_array(v))
        return unexpected(name, v, "a list of strings", e);
    if (!json_is_string(v) && !(json_is_array(v) && all(v, is_string)))
        return unexpected_in(name, v, is_string, "a string or a list of strings", "a string", e);
    if (n > row->most)
        return err_set(e, ERR_INPUT, "%s: found %zu strings, expected at most %zu", name, n, row->most);
    if (!(list = new_list(f, n, sizeof(*list), e)))
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;

        list[i] = (struct sampling_str){json_string_value(one), json_string_length(one)};
        if (list[i].n == 0 || list[i].n > row->most_bytes)
            return err_set(e, ERR_INPUT, "%s: found a string of %zu bytes, expected 1 to %zu", name,
                           list[i].n, row->most_bytes);
    }
    *(const struct sampling_str **)(void *)((char *)f->sampling + row->param.into.at) = list;
    *(size_t *)(void *)((char *)f->sampling + row->n_at) = n;
    sampling_mark(f->sampling, id);
    return 0;
}

#define STRINGS(reader, name, id, is_list, schema)                             \
    static const char schema_##reader[] = schema;                              \
    static int read_##reader(struct fields *f, const json_t *v, struct err *e) \
    {                                                                          \
        return read_strings(f, name, id, is_list, v, e);                       \
    }

STRINGS(stop, "stop", SAMPLING_STOP, false,
        "{'anyOf':[{'type':'string','minLength':1,'maxLength':1024},{'type':'array','maxItems':64,"
        "'items':{'type':'string','minLength':1,'maxLength':1024}}]}")
STRINGS(stop_sequences, "stop_sequences", SAMPLING_STOP, true,
        "{'type':'array','maxItems':64,'items':{'type':'string','minLength':1,'maxLength':1024}}")
STRINGS(bad_words, "bad_words", SAMPLING_BAD_WORDS, true,
        "{'type':'array','maxItems':256,'items':{'type':'string','minLength':1,'maxLength':128}}")
STRINGS(breakers, "dry_sequence_breakers", SAMPLING_DRY_SEQUENCE_BREAKERS, true,
        "{'type':'array','maxItems':32,'items':{'type':'string','minLength':1,'maxLength':40}}")

/* Checks that V is a list of LEAST to MOST token ids. */
static int check_token_ids(const char *name, const json_t *v, size_t least, size_t most, struct err *e)
{
    make_whole(v);
    if (!json_is_array(v) || !all(v, is_id))
        return unexpected_in(name, v, is_id, "a list of token ids", "a token id", e);
    if (json_array_size(v) > most)
        return err_set(e, ERR_INPUT, "%s: found %zu ids, expected at most %zu", name, json_array_size(v),
                       most);
    return json_array_size(v) < least ? err_set(e, ERR_INPUT, "%s: the list is empty", name) : 0;
}

/* Reads V, a list of LEAST to MOST token ids, into *TO [*n_to]. */
static int read_ids(struct fields *f, const char *name, const json_t *v, size_t least, size_t most,
                    int32_t **to, size_t *n_to, struct err *e)
{
    int rc = check_token_ids(name, v, least, most, e);
    int32_t *id;

    if (rc || !(id = new_list(f, json_array_size(v), sizeof(*id), e)))
        return rc ? rc : ERR_NOMEM;
    for (size_t i = 0; i < json_array_size(v); i++)
        id[i] = (int32_t)json_integer_value(json_array_get(v, i));
    *to = id;
    *n_to = json_array_size(v);
    return 0;
}

static const char schema_allowed[] = SCHEMA_IDS ",'minItems':1,'maxItems':1048576}";

static int read_allowed(struct fields *f, const json_t *v, struct err *e)
{
    struct sampling *s = f->sampling;

    return read_ids(f, "allowed_token_ids", v, 1, SAMPLING_MAX_ALLOWED, &s->allowed, &s->n_allowed, e);
}

static const char schema_stop_token_ids[] = SCHEMA_IDS ",'maxItems':4096}";

static int read_stop_token_ids(struct fields *f, const json_t *v, struct err *e)
{
    struct sampling *s = f->sampling;
    int rc = read_ids(f, "stop_token_ids", v, 0, SAMPLING_MAX_IDS, &s->stop_token, &s->n_stop_token, e);

    if (s->n_stop_token)
        sampling_mark(s, SAMPLING_STOP_TOKEN);
    return rc;
}

static const char schema_logprob_ids[] = SCHEMA_IDS ",'minItems':1,'maxItems':128}";

/* Reads V, the list logprob_token_ids, and drops duplicates. */
static int read_logprob_ids(struct fields *f, const json_t *v, struct err *e)
{
    struct sampling *s = f->sampling;
    int rc =
        read_ids(f, "logprob_token_ids", v, 1, FIELDS_MAX_LOGPROB_IDS, &s->logprob_id, &s->n_logprob_ids, e);
    int32_t *id = s->logprob_id;
    size_t n = s->n_logprob_ids, kept = 0;

    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < kept && id[k] != id[i])
            k++;
        id[k] = id[i];
        kept += k == kept;
    }
    s->n_logprob_ids = kept;
    return rc;
}

static const char schema_prompt_ids[] = SCHEMA_IDS ",'minItems':1}";

static int read_prompt_ids(struct fields *f, const json_t *v, struct err *e)
{
    f->input.prompt = v;
    return check_token_ids("ids", v, 1, SIZE_MAX, e);
}

static const char schema_logprobs[] = "{'type':['boolean','integer'],'minimum':0,'maximum':1024}";

static int read_logprobs(struct fields *f, const json_t *v, struct err *e)
{
    f->output.chat_logprobs = json_is_true(v);
    return json_is_boolean(v) ? 0 : sampling_set_member(f->sampling, "logprobs", v, &f->lists, e);
}

static const char schema_tokens[] = SCHEMA_IDS ",'maxItems':4194304}";

static int read_tokens(struct fields *f, const json_t *v, struct err *e)
{
    f->input.tokens = v;
    return check_token_ids("tokens", v, 0, 1 << 22, e);
}

static const char schema_logit_bias[] =
    "{'type':'object','maxProperties':4096,'propertyNames':{'pattern':'^[0-9]{1,9}$'},"
    "'additionalProperties':{'type':'number','minimum':-100,'maximum':100}}";

static int read_logit_bias(struct fields *f, const json_t *v, struct err *e)
{
    struct sampling *s = f->sampling;
    const char *key;
    json_t *bias;

    if (!json_is_object(v))
        return unexpected("logit_bias", v, "an object of token id to number", e);
    if (json_object_size(v) > FIELDS_MAX_BIASES)
        return err_set(e, ERR_INPUT, "logit_bias: found %zu entries, expected at most %d",
                       json_object_size(v), FIELDS_MAX_BIASES);
    if (!(s->bias = new_list(f, json_object_size(v), sizeof(*s->bias), e)))
        return ERR_NOMEM;
    json_object_foreach((json_t *)(uintptr_t)v, key, bias)
    {
        double x = json_number_value(bias);

        if (key[0] == 0 || key[strspn(key, "0123456789")] || strlen(key) > 9)
            return err_set(e, ERR_INPUT, "logit_bias: found the key '%.40s', expected a token id", key);
        if (!json_is_number(bias) || !(x >= -100 && x <= 100))
            return unexpected("logit_bias", bias, "numbers from -100 to 100", e);
        s->bias[s->n_bias++] = (struct sampling_bias){(int32_t)atoll(key), (float)x};
    }
    sampling_sort(s);
    sampling_mark(s, SAMPLING_LOGIT_BIAS);
    return 0;
}

static const char schema_request_ids[] =
    "{'anyOf':[{'type':'string'},{'type':'array','maxItems':1024,'items':{'type':'string'}}]}";

static int read_request_ids(struct fields *f, const json_t *v, struct err *e)
{
    f->request_ids = v;
    if (!json_is_string(v) && !(json_is_array(v) && json_array_size(v) <= 1024 && all(v, is_string)))
        return unexpected_in("request_ids", v, is_string, "a string or a list of at most 1024 strings",
                             "a string", e);
    return 0;
}

/* ---- the table ---- */

#define AT(member) offsetof(struct fields, member)
#define BOOL(name, where, member, says) \
    {#name, where, BOOL, AT(member), NULL, 0, NULL, "boolean", says, NULL, 0},
#define INT(name, where, member, range, says) \
    {#name, where, INT, AT(member), range, 0, NULL, NULL, says, NULL, 0},
#define NUMBER(name, where, member, range, says) \
    {#name, where, NUMBER, AT(member), range, 0, NULL, NULL, says, NULL, 0},
#define TEXT(name, where, member, most, says) \
    {#name, where, TEXT, AT(member), NULL, most, NULL, NULL, says, NULL, 0},
#define FILLED(name, where, member, most, says) \
    {#name, where, FILLED, AT(member), NULL, most, NULL, NULL, says, NULL, 0},
#define OWN(name, where, reader, form, says) \
    {#name, where, OWN, 0, NULL, 0, read_##reader, form, says, schema_##reader, 0},
#define EMPTY(name, where, form, says)     {#name, where, EMPTY, 0, NULL, 0, NULL, form, says, NULL, 0},
#define LOGGED(name, where, neutral, says) {#name, where, LOGGED, 0, NULL, 0, NULL, neutral, says, NULL, 0},
#define NEVER(name, where, neutral)        {#name, where, NEVER, 0, NULL, 0, NULL, neutral, NULL, NULL, 0},
/* Rows of engine/sampling/sampling.def. SAMPLED rows have the range NULL, which means the range of the
 * sampling field. */
#define SAMPLED(name, where, field) SAMPLED_ROW(SAMPLING_##field, NUMBER, NULL, name, where, NULL, )
#define OF_PARAM_FLAG               BOOL
#define OF_PARAM_INT                INT
#define OF_PARAM_BITS               INT
#define OF_PARAM_REAL               NUMBER
#define OF_PARAM_CHOICE             INT
#define REQUEST(...)                __VA_ARGS__
#define REQUEST_WITHIN(...)         __VA_ARGS__
#define SAMPLED_ROW_OF(...)         SAMPLED_ROW(__VA_ARGS__)
#define SAMPLED_ROW(field, kind, says, name, where, range, ...) \
    {#name, where, kind, 0, range, 0, NULL, "boolean", says, NULL, 1 + (field)},
#define SAMPLING_FIELD(field, member, draws, kind, type, values, neutral, access, help, flag, request) \
    SAMPLED_ROW_OF(SAMPLING_##field, OF_##type, help, request, values, )
static const struct row rows[] = {
#include "chat/fields.def"
};
#undef BOOL
#undef INT
#undef NUMBER
#undef TEXT
#undef FILLED
#undef OWN
#undef EMPTY
#undef LOGGED
#undef NEVER

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* Return the range and the description of row R, or those of its sampling field if the row has none. */
static const char *range_of(const struct row *r)
{
    return r->range || !r->sampled || r->kind == BOOL ? r->range : sampling_row[r->sampled - 1].param.values;
}

static const char *says_of(const struct row *r)
{
    return r->says || !r->sampled ? r->says : sampling_row[r->sampled - 1].help;
}

/* Appends the description of R as a sentence. */
static void put_says(const struct row *r, struct buf *out)
{
    const char *says = says_of(r);

    if (r->sampled) /* the help of sampling fields is a phrase for --help */
        buf_fmt(out, "%c%s.", toupper((unsigned char)says[0]), says + 1);
    else
        buf_str(out, says);
}

/* Returns whether V equals one of the JSON texts in NEUTRAL, which are separated by |. */
static bool is_neutral(const char *neutral, const json_t *v)
{
    bool same = false;

    while (*neutral && !same) {
        size_t n = strcspn(neutral, "|");
        json_t *o;

        same = json_pull_load(&o, neutral, n, "", NULL) == 0 && json_equal(o, v);
        json_decref(o);
        neutral += n + (neutral[n] == '|');
    }
    return same;
}

static int read_number(struct fields *f, const struct row *r, const json_t *v, struct err *e)
{
    double x = json_number_value(v);
    char expected[80];

    snprintf(expected, sizeof(expected), "a %snumber in %s", r->kind == INT ? "whole " : "", range_of(r));
    if (!json_is_number(v) || !param_in_range(range_of(r), x) || (r->kind == INT && x != floor(x)))
        return unexpected(r->name, v, expected, e);
    if (r->sampled) /* top_k: vLLM uses -1 for no limit, which is 0 here */
        sampling_set_number(f->sampling, (enum sampling_field)(r->sampled - 1),
                            param_in_range(sampling_row[r->sampled - 1].param.values, x) ? x : 0);
    else if (r->kind == INT)
        *(int64_t *)(void *)((char *)f + r->offset) = (int64_t)x;
    else
        *(double *)(void *)((char *)f + r->offset) = x;
    return 0;
}

static int read_text(struct fields *f, const struct row *r, const json_t *v, struct err *e)
{
    size_t n = json_string_length(v);

    if (!json_is_string(v))
        return unexpected(r->name, v, "a string", e);
    if (n == 0 && r->kind == TEXT) /* an empty string counts as absent */
        return 0;
    if (n == 0 || n > r->most)
        return err_set(e, ERR_INPUT, "%s: found a string of %zu bytes, expected %d to %zu", r->name, n,
                       r->kind == FILLED, r->most);
    if (strlen(json_string_value(v)) != n)
        return err_set(e, ERR_INPUT, "%s: found a string with a zero in it", r->name);
    *(const char **)(void *)((char *)f + r->offset) = json_string_value(v);
    return 0;
}

static int read_member(struct fields *f, const struct row *r, const json_t *v, struct err *e)
{
    switch (r->kind) {
    case BOOL:
        if (!json_is_boolean(v))
            return unexpected(r->name, v, "true or false", e);
        if (r->sampled)
            sampling_set_number(f->sampling, (enum sampling_field)(r->sampled - 1), json_is_true(v));
        else
            *(bool *)(void *)((char *)f + r->offset) = json_is_true(v);
        f->input.has_add_special |= strcmp(r->name, "add_special_tokens") == 0;
        return 0;
    case INT:
    case NUMBER: return read_number(f, r, v, e);
    case TEXT:
    case FILLED: return read_text(f, r, v, e);
    case OWN: return r->read(f, v, e);
    case EMPTY:
    case LOGGED: return 0;
    default:
        return is_neutral(r->form, v)
                   ? 0
                   : err_set(e, ERR_UNSUPPORTED, "%s is not supported by this server", r->name);
    }
}

static const struct row *fields_find(const char *name, unsigned endpoint)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if ((rows[i].endpoints & endpoint) && strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

/* Reports that the field KEY of `options` has no effect. */
static void say_ignored(const struct fields *f, const char *key)
{
    char name[64];

    snprintf(name, sizeof(name), "options.%s", key);
    f->unknown(f->unknown_ctx, name);
}

static int read_options(struct fields *f, const json_t *v, struct err *e)
{
    const char *key;
    json_t *o;

    if (!json_is_object(v))
        return unexpected("options", v, "an object", e);
    json_object_foreach((json_t *)(uintptr_t)v, key, o)
    {
        const struct row *r = fields_find(key, FIELDS_OPTIONS);
        int rc = r && !json_is_null(o) ? read_member(f, r, o, e) : 0;

        if (!r || (r->kind == LOGGED && !json_is_null(o) && !is_neutral(r->form, o)))
            say_ignored(f, key);

        if (rc) {
            char sentence[sizeof(e->msg) + 16];

            snprintf(sentence, sizeof(sentence), "options.%s", e->msg);
            return err_set(e, rc, "%s", sentence);
        }
    }
    return 0;
}

/* ---- reading ---- */

int fields_blame(struct fields *f, const char *name, int rc)
{
    snprintf(f->param, sizeof(f->param), "%s", name);
    return rc;
}

/* Returns why the body TEXT [n] is refused before parsing: too many lists, objects, members or values, whose parsed
 * form takes many times their bytes and much time, or too deep nesting. NULL: it may be parsed. */
static const char *excess(const char *text, size_t n)
{
    size_t depth = 0, n_lists = 0, n_values = 0, n_members = 0, n_fields = 0;
    bool in_string = false;

    for (size_t i = 0; i < n; i++) {
        char c = text[i];

        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > FIELDS_MAX_DEPTH)
                return "is nested deeper than 64 lists and objects";
            if (++n_lists > FIELDS_MAX_LISTS)
                return "has more than 65536 lists and objects";
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        } else if (c == ',' && ++n_values > FIELDS_MAX_VALUES) {
            return "has more than 4259840 values";
        } else if (c == ':') {
            if (++n_members > FIELDS_MAX_MEMBERS)
                return "has more than 262144 members of objects";
            if (depth == 1 && ++n_fields > FIELDS_MAX_FIELDS)
                return "has more than 1024 fields";
        }
    }
    return NULL;
}

/* Reads the member KEY of a request to ENDPOINT, with the value V. */
static int read_named(struct fields *f, unsigned endpoint, const char *key, const json_t *v, struct err *e)
{
    const struct row *r = fields_find(key, endpoint);

    if (!r && endpoint == FIELDS_LINE)
        return sampling_set_member(f->sampling, key, v, &f->lists, e);
    if (!r)
        f->unknown(f->unknown_ctx, key);
    return r && !json_is_null(v) ? read_member(f, r, v, e) : 0;
}

int fields_read(struct fields *f, unsigned endpoint, const char *text, size_t n,
                const struct sampling *otherwise, fields_unknown *unknown, void *ctx, struct err *e)
{
    char found[PARAM_FOUND_BYTES];
    const char *key, *why;
    json_t *v;
    int rc;

    *f = (struct fields){
#define MEMBER(group, type, name, otherwise) .group.name = otherwise,
#include "chat/fields.def"
#undef MEMBER
        .unknown = unknown, .unknown_ctx = ctx};
    arena_init(&f->lists, MEM_API);
    f->sampling = mem_alloc(sizeof(*f->sampling), MEM_API);
    if (!f->sampling)
        return err_nomem(e, "a request");
    sampling_default(f->sampling);
    if (otherwise)
        *f->sampling = *otherwise;
    f->output.stream = endpoint & (FIELDS_GENERATE | FIELDS_OLLAMA_CHAT);
    /* skip a UTF-8 byte order mark, which some editors write */
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        n -= 3;
    }
    if (endpoint != FIELDS_LINE && (why = excess(text, n)) != NULL)
        return err_set(e, ERR_INPUT, "the body %s", why);
    mem_lib_failed(); /* resets the flag of an earlier failure */
    if ((rc = json_pull_load_large(&f->body, text, n, "the body is not JSON", "seed", e)) != 0)
        return rc == ERR_NOMEM ? err_nomem(e, "a request") : rc;
    if (!json_is_object(f->body))
        return err_set(e, ERR_INPUT, "the body is %s, expected an object", param_found(f->body, found));
    json_object_foreach(f->body, key, v)
    {
        if ((rc = read_named(f, endpoint, key, v, e)) != 0)
            return fields_blame(f, key, rc);
    }
    return 0;
}

void fields_forget(struct fields *f, unsigned endpoint)
{
    static const char *const kept[] = {
        "model", "max_tokens",  "instructions",        "max_output_tokens", "metadata", "max_tool_calls",
        "tools", "tool_choice", "parallel_tool_calls", "reasoning",         "text",     "user"};
    const size_t n_kept = endpoint == FIELDS_RESPONSES ? sizeof(kept) / sizeof(kept[0]) : 2;
    const char *key;
    void *next;
    json_t *v;

    json_object_foreach_safe(f->body, next, key, v)
    {
        size_t i = 0;

        while (i < n_kept && strcmp(key, kept[i]) != 0)
            i++;
        if (i == n_kept)
            json_object_del(f->body, key);
    }
    json_decref(f->own);
    json_decref(f->tool_names);
    f->own = f->tool_names = NULL;
    f->input.suffix = f->input.suffix ? json_true() : NULL;
    f->input.prompt = f->input.messages = f->input.system = f->input.tools = f->input.tool_origins =
        f->input.documents = f->input.kwargs = f->input.tokens = f->request_ids = NULL;
    arena_fini(&f->lists);
    arena_init(&f->lists, MEM_API);
    f->input.reasoning_effort = f->input.truncation_side = f->request_id = f->cache_salt = f->user = NULL;
}

void fields_fini(struct fields *f)
{
    json_decref(f->body);
    json_decref(f->own);
    json_decref(f->tool_names);
    f->body = f->own = f->tool_names = NULL;
    mem_free(f->sampling);
    f->sampling = NULL;
    arena_fini(&f->lists);
}

/* ---- docs/API.md ---- */

static void document_row(const struct row *r, struct buf *out)
{
    buf_fmt(out, "| `%s` | ", r->name);
    if (r->kind == INT || r->kind == NUMBER)
        buf_fmt(out, "%s in %s", r->kind == INT ? "whole number" : "number", range_of(r));
    else if (r->kind == TEXT)
        buf_fmt(out, "string of at most %zu bytes", r->most);
    else if (r->kind == FILLED)
        buf_fmt(out, "string of 1 to %zu bytes", r->most);
    else
        buf_str(out, r->kind == LOGGED ? "number" : r->form);
    buf_fmt(out, " | %s",
            r->kind == EMPTY    ? "Accepted without effect. "
            : r->kind == LOGGED ? "Accepted without effect, with a warning in the log. "
                                : "");
    put_says(r, out);
    buf_str(out, " |\n");
}

static void document_endpoint(unsigned endpoint, const char *method, const char *path, struct buf *out)
{
    const char *comma = "";

    buf_fmt(out, "\n### `%s%s`\n\n| field | type and range | what it does |\n| --- | --- | --- |\n", method,
            path);
    for (size_t i = 0; i < N_ROWS; i++)
        if ((rows[i].endpoints & endpoint) && rows[i].kind != NEVER)
            document_row(&rows[i], out);
    for (size_t i = 0; i < N_ROWS; i++)
        if ((rows[i].endpoints & endpoint) && rows[i].kind == NEVER) {
            buf_fmt(out, "%s`%s`",
                    *comma ? comma : "\nRefused with 400, because they are not supported: ", rows[i].name);
            if (strcmp(rows[i].form, "null") != 0) {
                buf_str(out, " (except ");
                for (const char *p = rows[i].form; *p; p++)
                    buf_fmt(out, *p == '|' ? " and " : "%c", *p);
                buf_str(out, ")");
            }
            comma = ", ";
        }
    if (*comma)
        buf_str(out, ".\n");
}

void fields_document(struct buf *out)
{
    for (size_t i = 0; i < FIELDS_N_ENDPOINTS; i++)
        document_endpoint(endpoints[i].endpoint, "POST ", endpoints[i].path, out);
    document_endpoint(FIELDS_OPTIONS, "", "options", out);
}

const char *fields_needed(unsigned endpoint)
{
    for (size_t i = 0; i < FIELDS_N_ENDPOINTS; i++)
        if (endpoints[i].endpoint == endpoint)
            return endpoints[i].needs;
    return NULL;
}

/* ---- the schema ---- */

static void put_range(const char *range, struct buf *out)
{
    struct param_range r;

    param_range(range, &r);
    buf_fmt(out, ",\"%s\":%.17g", r.open_lo ? "exclusiveMinimum" : "minimum", r.lo);
    if (isfinite(r.hi))
        buf_fmt(out, ",\"maximum\":%.17g", r.hi);
}

/* Writes a schema that allows the JSON texts of NEUTRAL and null. */
static void put_neutral(const char *neutral, struct buf *out)
{
    buf_str(out, "\"enum\":[");
    for (const char *p = neutral; *p; p++)
        buf_char(out, *p == '|' ? ',' : *p);
    buf_str(out, strcmp(neutral, "null") == 0 ? "]" : ",null]");
}

/* Writes the JSON Schema of the values of R. NEEDED: the field is required, so null is not allowed. MODELS:
 * a JSON list of the values that `model` may have. */
static void put_schema(const struct row *r, bool needed, const char *models, struct buf *out)
{
    const char *null = needed ? "" : ",\"null\"";

    buf_char(out, '{');
    switch (r->kind) {
    case BOOL: buf_fmt(out, "\"type\":[\"boolean\"%s]", null); break;
    case INT:
    case NUMBER:
        buf_fmt(out, "\"type\":[\"%s\"%s]", r->kind == INT ? "integer" : "number", null);
        put_range(range_of(r), out);
        break;
    case TEXT:
    case FILLED:
        if (strcmp(r->name, "model") == 0)
            buf_fmt(out, "\"enum\":%s", models);
        else
            buf_fmt(out, "\"type\":[\"string\"%s],\"minLength\":%d,\"maxLength\":%zu", null,
                    r->kind == FILLED, r->most);
        break;
    case OWN:
        buf_str(out, "\"anyOf\":[");
        for (const char *p = r->schema; *p; p++)
            buf_char(out, *p == '\'' ? '"' : *p);
        buf_str(out, needed ? "]" : ",{\"type\":\"null\"}]");
        break;
    case NEVER: put_neutral(r->form, out); break;
    case EMPTY:
    case LOGGED: break;
    }
    if (says_of(r)) {
        struct buf text = {.tag = MEM_API};

        buf_str(&text, r->kind == EMPTY ? "Accepted without effect. " : "");
        put_says(r, &text);
        if (r->kind != EMPTY)
            buf_char(out, ',');
        buf_str(out, "\"description\":");
        buf_json_str(out, text.data ? text.data : "", text.len);
        out->oom |= text.oom;
        buf_fini(&text);
    }
    buf_char(out, '}');
}

void fields_schema(unsigned endpoint, const char *models, struct buf *out)
{
    const char *needs = fields_needed(endpoint);

    buf_json_begin(out, '{');
    buf_str(out, "\"type\":\"object\",");
    if (needs)
        buf_fmt(out, "\"required\":[\"%s\"],", needs);
    buf_str(out, "\"properties\":");
    buf_json_begin(out, '{');
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].endpoints & endpoint) {
            buf_json_key(out, rows[i].name);
            put_schema(&rows[i], needs && strcmp(needs, rows[i].name) == 0, models, out);
        }
    buf_json_end(out, '}');
    buf_json_end(out, '}');
}

bool fields_row(size_t i, struct fields_row *out)
{
    static const char *const kinds[] = {"bool", "int",   "number", "text", "filled",
                                        "own",  "empty", "logged", "never"};

    if (i >= N_ROWS)
        return false;
    *out = (struct fields_row){rows[i].name, kinds[rows[i].kind], range_of(&rows[i]), rows[i].endpoints};
    return true;
}
