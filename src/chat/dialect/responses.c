/* responses.c - OpenAI's Responses API: converts a request's items into chat messages, and writes answers as items.
 *
 * The server stores no responses, so a reference to an earlier response is refused. Supported items are messages, tool
 * calls, tool results and the reasoning of earlier turns. The model sees a function in a namespace as
 * namespace__function. Tools that a server would run are ignored with a warning. The events of a stream are numbered,
 * and the last event contains the whole response. Specification:
 * https://platform.openai.com/docs/api-reference/responses, .../responses-streaming.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_tree.h"
#include "base/mem.h"
#include "chat/dialect/blocks.h"
#include "chat/once.h"
#include "chat/request.h"
#include "chat/schema.h"
#include "engine/sampling/sampling.h"
#include "text/markup/tools.h"

/* ---- requests: from items to a chat ---- */

static int out_of_memory(struct err *e)
{
    return err_nomem(e, "input");
}

/* Sets *TEXT to the text of PART (borrowed), or to NULL. False: content parts of this type have no text. */
static bool find_text(const json_t *part, const json_t **text)
{
    static const char *const types[] = {"input_text", "output_text", "text", "reasoning_text",
                                        "summary_text"};
    const json_t *type = json_object_get(part, "type");

    *text = json_object_get(part, dialect_is(type, "refusal") ? "refusal" : "text");
    if (dialect_is(type, "refusal"))
        return true;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (dialect_is(type, types[i]))
            return true;
    return false;
}

/* Sets *OUT to a new reference to CONTENT (a string, a list of text parts, or null) in the chat format. */
static int read_content(const json_t *content, size_t at, json_t **out, struct err *e)
{
    const json_t *part;
    size_t i;

    *out = NULL;
    if (json_is_string(content)) {
        *out = json_incref((json_t *)(uintptr_t)content);
        return 0;
    }
    if (content && !json_is_null(content) && !json_is_array(content))
        return err_set(e, ERR_INPUT, "input[%zu]: expected a text or a list of texts", at);
    if ((*out = json_array()) == NULL)
        return out_of_memory(e);
    json_array_foreach(content, i, part)
    {
        const json_t *type = json_object_get(part, "type"), *text;

        if (!find_text(part, &text))
            return err_set(e, ERR_UNSUPPORTED, "input[%zu]: a part of type '%.40s' is not supported here", at,
                           json_is_string(type) ? json_string_value(type) : "");
        if (!json_is_string(text))
            return err_set(e, ERR_INPUT, "input[%zu]: expected the text of a part", at);
        if (json_array_append_new(*out, json_pack("{s:s,s:O}", "type", "text", "text", text)) != 0)
            return out_of_memory(e);
    }
    return 0;
}

static int responses_add(json_t *list, json_t *message, struct err *e)
{
    return json_array_append_new(list, message) == 0 ? 0 : out_of_memory(e);
}

/* Returns the message of the assistant at the end of LIST (borrowed). If the last message has another role, appends an
 * empty message of the assistant. */
static json_t *open_turn(json_t *list)
{
    json_t *last = json_array_get(list, json_array_size(list) - 1);

    if (json_array_size(list) && dialect_is(json_object_get(last, "role"), "assistant"))
        return last;
    if (json_array_append_new(list, json_pack("{s:s,s:s}", "role", "assistant", "content", "")) != 0)
        return NULL;
    return json_array_get(list, json_array_size(list) - 1);
}

static int read_message(json_t *list, const json_t *item, size_t at, struct err *e)
{
    const json_t *role = json_object_get(item, "role");
    json_t *content, *turn;
    int rc;

    if (!dialect_is(role, "user") && !dialect_is(role, "assistant") && !dialect_is(role, "system") &&
        !dialect_is(role, "developer"))
        return err_set(e, ERR_INPUT, "input[%zu].role: expected user, assistant, system or developer", at);
    rc = read_content(json_object_get(item, "content"), at, &content, e);
    turn = json_array_get(list, json_array_size(list) - 1);
    if (rc == 0 && dialect_is(role, "assistant") && dialect_is(json_object_get(turn, "role"), "assistant") &&
        dialect_is(json_object_get(turn, "content"),
                   "")) /* so far this message has only reasoning or tool calls */
        rc = json_object_set(turn, "content", content) == 0 ? 0 : out_of_memory(e);
    else if (rc == 0)
        rc = responses_add(list, json_pack("{s:s,s:O}", "role", json_string_value(role), "content", content),
                           e);
    json_decref(content);
    return rc;
}

/* Returns a new reference to the function name that the model sees for ITEM, a function or a tool call: its name, with
 * the prefix NAMESPACE__ if NAMESPACE is not NULL. NULL: ITEM has no name. */
static json_t *full_name(const json_t *item, const char *namespace)
{
    const json_t *name = json_object_get(item, "name");

    if (!namespace || !json_is_string(name))
        return json_incref((json_t *)(uintptr_t)name);
    return json_sprintf("%s__%s", namespace, json_string_value(name));
}

/* Appends a call of the function NAME with the string ARGUMENTS to the assistant's message at the end of LIST. */
static int add_call(json_t *list, const json_t *id, const json_t *name, const json_t *arguments, size_t at,
                    struct err *e)
{
    json_t *turn, *calls;

    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments))
        return err_set(e, ERR_INPUT, "input[%zu]: expected call_id, name and arguments as strings", at);
    turn = open_turn(list);
    calls = json_object_get(turn, "tool_calls");
    if (turn && !calls) {
        json_object_set_new(turn, "tool_calls", json_array());
        calls = json_object_get(turn, "tool_calls");
    }
    return calls ? responses_add(calls,
                                 json_pack("{s:O,s:s,s:{s:O,s:O}}", "id", id, "type", "function", "function",
                                           "name", name, "arguments", arguments),
                                 e)
                 : out_of_memory(e);
}

static int read_call(json_t *list, const json_t *item, size_t at, struct err *e)
{
    json_t *name = full_name(item, json_string_value(json_object_get(item, "namespace")));
    int rc =
        add_call(list, json_object_get(item, "call_id"), name, json_object_get(item, "arguments"), at, e);

    json_decref(name);
    return rc;
}

/* Returns a new JSON string with VALUE serialized as JSON. NULL: VALUE is NULL, or out of memory. */
static json_t *as_text(const json_t *value)
{
    struct buf text = {.tag = MEM_API};
    json_t *out = NULL;

    if (value)
        buf_json_tree(&text, value, false);
    if (text.len && !text.oom)
        out = json_stringn(text.data, text.len);
    buf_fini(&text);
    return out;
}

/* Types of items that are calls of client tools other than functions. TOOL: name of the tool (NULL: the
 * item's member `name` contains it); MEMBER: the item's member that contains the arguments. */
static const struct own_call {
    const char *type, *tool, *member;
} own_calls[] = {{"custom_tool_call", NULL, "input"},
                 {"local_shell_call", "local_shell", "action"},
                 {"shell_call", "shell", "action"},
                 {"apply_patch_call", "apply_patch", "operation"}};

static const struct own_call *find_own_call(const json_t *type)
{
    for (size_t i = 0; i < sizeof(own_calls) / sizeof(own_calls[0]); i++)
        if (dialect_is(type, own_calls[i].type))
            return &own_calls[i];
    return NULL;
}

static int read_own_call(json_t *list, const struct own_call *own, const json_t *item, size_t at,
                         struct err *e)
{
    const json_t *given = json_object_get(item, own->member);
    json_t *name = own->tool ? json_string(own->tool)
                             : full_name(item, json_string_value(json_object_get(item, "namespace"))),
           *object = json_is_object(given) ? json_incref((json_t *)(uintptr_t)given)
                                           : json_pack("{s:O}", own->member, given),
           *arguments = object ? as_text(object) : NULL;
    int rc = add_call(list, json_object_get(item, "call_id"), name, arguments, at, e);

    json_decref(name);
    json_decref(object);
    json_decref(arguments);
    return rc;
}

/* Sets *OUT to the text of the tool result OUTPUT: a string, a list of text parts, or any other value as JSON. */
static int read_output(const json_t *output, size_t at, json_t **out, struct err *e)
{
    if (!output || json_is_null(output) || json_is_string(output) ||
        (json_is_array(output) &&
         (!json_array_size(output) || json_object_get(json_array_get(output, 0), "type"))))
        return read_content(output, at, out, e);
    *out = as_text(output);
    return *out ? 0 : out_of_memory(e);
}

static int read_result(json_t *list, const json_t *item, size_t at, struct err *e)
{
    const json_t *id = json_object_get(item, "call_id");
    json_t *content;
    int rc;

    if (!id)
        id = json_object_get(item, "id");
    if (!json_is_string(id))
        return err_set(e, ERR_INPUT, "input[%zu].call_id: expected a string", at);
    rc = read_output(json_object_get(item, "output"), at, &content, e);
    if (rc == 0)
        rc = responses_add(
            list, json_pack("{s:s,s:O,s:O}", "role", "tool", "tool_call_id", id, "content", content), e);
    json_decref(content);
    return rc;
}

static int read_reasoning(json_t *list, const json_t *item, size_t at, struct err *e)
{
    const json_t *given = json_object_get(item, "content"), *part;
    struct buf text = {.tag = MEM_API};
    json_t *content = NULL, *turn;
    size_t i;
    int rc = given && !json_is_null(given) ? read_content(given, at, &content, e) : 0;

    json_array_foreach(content, i, part)
    {
        const json_t *one = json_object_get(part, "text");

        buf_add(&text, json_string_value(one), json_string_length(one));
    }
    if (rc == 0 && text.oom)
        rc = out_of_memory(e);
    if (rc == 0 && text.len) {
        turn = open_turn(list);
        if (!turn || json_object_set_new(turn, "reasoning_content", json_stringn(text.data, text.len)) != 0)
            rc = out_of_memory(e);
    }
    json_decref(content);
    buf_fini(&text);
    return rc;
}

static bool is_one_of(const json_t *type, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (dialect_is(type, list[i]))
            return true;
    return false;
}

/* Types of items that contain the result of a tool run by the client. */
static const char *const results[] = {"function_call_output", "custom_tool_call_output",
                                      "local_shell_call_output", "shell_call_output",
                                      "apply_patch_call_output"};

/* Types of items that are ignored: about tools that OpenAI's servers run, or readable only by OpenAI's models. */
static const char *const foreign[] = {"web_search_call",
                                      "file_search_call",
                                      "computer_call",
                                      "computer_call_output",
                                      "code_interpreter_call",
                                      "image_generation_call",
                                      "mcp_list_tools",
                                      "mcp_approval_request",
                                      "mcp_approval_response",
                                      "mcp_call",
                                      "tool_search_call",
                                      "tool_search_output",
                                      "compaction",
                                      "compaction_summary",
                                      "configuration_update"};

static int read_item(struct request *q, json_t *list, const json_t *item, size_t at, struct err *e)
{
    const json_t *type = json_object_get(item, "type");
    const struct own_call *own = find_own_call(type);

    if (!type || json_is_null(type) || dialect_is(type, "message"))
        return read_message(list, item, at, e);
    if (dialect_is(type, "function_call"))
        return read_call(list, item, at, e);
    if (own)
        return read_own_call(list, own, item, at, e);
    if (is_one_of(type, results, sizeof(results) / sizeof(results[0])))
        return read_result(list, item, at, e);
    if (dialect_is(type, "reasoning"))
        return read_reasoning(list, item, at, e);
    if (!is_one_of(type, foreign, sizeof(foreign) / sizeof(foreign[0])))
        return err_set(e, ERR_UNSUPPORTED, "input[%zu]: an item of type '%.40s' is not supported here", at,
                       json_is_string(type) ? json_string_value(type) : "");
    once_warn(q->once, q->origin.route, json_string_value(type),
              "items of type '%s' are left out of the input");
    return 0;
}

/* The functions of the field `tools`. */
struct functions {
    json_t *list;    /* functions in the chat format */
    json_t *origins; /* an object for each function: the JSON pointer to its schema, and its `strict` */
};

/* Appends the function TOOL in the chat format. NAMESPACE: its namespace, or NULL. AT: JSON pointer to TOOL. */
static int add_function(const struct functions *to, const json_t *tool, const char *namespace, const char *at,
                        struct err *e)
{
    static const char *const kept[] = {"description", "parameters"};
    json_t *function = json_object(), *name = full_name(tool, namespace);
    int bad = !function || (name && json_object_set(function, "name", name) != 0);

    for (size_t i = 0; i < 2; i++) {
        json_t *v = json_object_get(tool, kept[i]);

        if (v && !json_is_null(v))
            bad |= json_object_set(function, kept[i], v);
    }
    json_decref(name);
    bad = bad || json_array_append_new(to->origins,
                                       json_pack("{s:o,s:O*}", "pointer", json_sprintf("%s/parameters", at),
                                                 "strict", json_object_get(tool, "strict"))) != 0;
    if (bad) {
        json_decref(function);
        return out_of_memory(e);
    }
    return responses_add(to->list, json_pack("{s:s,s:o}", "type", "function", "function", function), e);
}

/* Reads TOOL: appends a function, all functions of a namespace, or nothing with a warning. NAMESPACE: the namespace
 * that contains TOOL, or NULL. AT: JSON pointer to TOOL. I: index in `tools`, for errors. */
static int read_tool(struct request *q, const struct functions *to, const json_t *tool, const char *namespace,
                     const char *at, size_t i, struct err *e)
{
    const json_t *type = json_object_get(tool, "type"), *inner = json_object_get(tool, "tools"), *one;
    const char *name = json_string_value(json_object_get(tool, "name"));
    char inside[80];
    size_t k;
    int rc = 0;

    if (!json_is_object(tool) || (type && !json_is_null(type) && !json_is_string(type)))
        return err_set(e, ERR_INPUT, "tools[%zu]: expected an object with a type", i);
    if (!json_is_string(type) || dialect_is(type, "function"))
        return add_function(to, tool, namespace, at, e);
    if (namespace || !dialect_is(type, "namespace")) {
        once_warn(q->once, q->origin.route, json_string_value(type), "tools of type '%s' are left out");
        return 0;
    }
    if (!name || !json_is_array(inner))
        return err_set(e, ERR_INPUT, "tools[%zu]: expected a namespace with a name and tools", i);
    json_array_foreach(inner, k, one)
    {
        snprintf(inside, sizeof(inside), "%s/tools/%zu", at, k);
        if (rc == 0)
            rc = read_tool(q, to, one, name, inside, i, e);
    }
    return rc;
}

static int read_tools(struct request *q, const struct functions *to, struct err *e)
{
    json_t *list = to->list;
    const json_t *given = q->field.input.tools, *tool;
    char at[40];
    size_t i;
    int rc = 0;

    json_array_foreach(given, i, tool)
    {
        snprintf(at, sizeof(at), "/tools/%zu", i);
        if (rc == 0)
            rc = read_tool(q, to, tool, NULL, at, i, e);
    }
    q->field.input.tools = list;
    q->field.input.tool_origins = to->origins;
    if (rc == 0 && json_array_size(list) > FIELDS_MAX_TOOLS)
        rc = err_set(e, ERR_INPUT, "tools: found %zu functions, expected at most %d", json_array_size(list),
                     FIELDS_MAX_TOOLS);
    return rc ? rc : tools_check(list, NULL, e);
}

static int responses_read_request(struct request *q, struct err *e)
{
    const struct functions tools = {.list = json_array(), .origins = json_array()};
    struct fields *f = &q->field;
    json_t *list = json_array();
    int rc;

    f->own = json_pack("[o,o,o]", list, tools.list, tools.origins);
    if (!f->own)
        return out_of_memory(e);
    fields_blame(f, "tools", 0);
    if ((rc = read_tools(q, &tools, e)) != 0)
        return rc;
    fields_blame(f, "input", 0);
    if (f->input.system)
        rc = responses_add(list, json_pack("{s:s,s:O}", "role", "system", "content", f->input.system), e);
    if (rc == 0 && json_is_string(f->input.prompt))
        rc = responses_add(list, json_pack("{s:s,s:O}", "role", "user", "content", f->input.prompt), e);
    for (size_t i = 0; i < json_array_size(f->input.prompt) && rc == 0; i++)
        rc = read_item(q, list, json_array_get(f->input.prompt, i), i, e);
    f->input.prompt = NULL; /* the request is a chat from here on */
    f->input.messages = list;
    return rc;
}

/* ---- the response ---- */

struct state {
    struct blocks blocks;
    size_t n_events;       /* number of events written so far */
    struct buf head, said; /* open item: JSON of its first members, and its text or arguments so far */
    size_t name, n_name;   /* offset and length in HEAD of the member with the called function's name */
    struct buf items;      /* JSON of the closed items, separated by commas */
};

static bool open_state(struct dialect_writer *w)
{
    struct state *s = mem_zalloc(1, sizeof(*s), MEM_API);

    w->state = s;
    if (s)
        s->head.tag = s->said.tag = s->items.tag = MEM_API;
    return s != NULL;
}

static void close_state(struct dialect_writer *w)
{
    struct state *s = w->state;

    buf_fini(&s->head);
    buf_fini(&s->said);
    buf_fini(&s->items);
    mem_free(s);
}

static void put_json(const json_t *v, const char *otherwise, struct buf *out)
{
    if (v)
        buf_json_tree(out, v, false);
    else
        buf_str(out, otherwise);
}

static void put_number(const char *name, double x, struct buf *out)
{
    buf_json_key(out, name);
    buf_json_real(out, x);
}

/* Writes the member `text`: the format and the verbosity of the request's TEXT. The default format is plain
 * text. */
static void put_text_format(const json_t *text, struct buf *out)
{
    const json_t *format = json_object_get(text, "format"), *verbosity = json_object_get(text, "verbosity");

    buf_json_key(out, "text");
    buf_str(out, "{\"format\":");
    put_json(json_is_null(format) ? NULL : format, "{\"type\":\"text\"}", out);
    if (verbosity) {
        buf_json_key(out, "verbosity");
        buf_json_tree(out, verbosity, false);
    }
    buf_char(out, '}');
}

/* Writes the members of a response that repeat settings of the request. */
static void put_settings(const struct request *q, struct buf *out)
{
    static const char *const echoed[][2] = {{"instructions", "null"},
                                            {"max_output_tokens", "null"},
                                            {"metadata", "{}"},
                                            {"max_tool_calls", "null"},
                                            {"tools", "[]"},
                                            {"tool_choice", "\"auto\""},
                                            {"parallel_tool_calls", "true"},
                                            {"reasoning", "{\"effort\":null,\"summary\":null}"},
                                            {"user", "null"}};

    for (size_t i = 0; i < sizeof(echoed) / sizeof(echoed[0]); i++) {
        const json_t *v = json_object_get(q->field.body, echoed[i][0]);

        buf_json_key(out, echoed[i][0]);
        put_json(json_is_null(v) ? NULL : v, echoed[i][1], out);
    }
    buf_json_key(out, "model");
    dialect_put_string(out, request_model(q));
    put_number("temperature", q->temperature, out);
    put_number("top_p", q->top_p, out);
    put_text_format(json_object_get(q->field.body, "text"), out);
    buf_str(
        out,
        ",\"background\":false,\"previous_response_id\":null,\"store\":false,\"service_tier\":\"default\","
        "\"top_logprobs\":0,\"truncation\":\"disabled\"");
}

static void put_usage(const struct dialect_writer *w, struct buf *out)
{
    const struct answer_choice *h = w->a->choice;
    size_t n_prompt = w->q->n_prompt_tokens;

    buf_fmt(out,
            ",\"usage\":{\"input_tokens\":%zu,\"input_tokens_details\":{\"cached_tokens\":%zu,"
            "\"cache_write_tokens\":0},\"output_tokens\":%zu,"
            "\"output_tokens_details\":{\"reasoning_tokens\":%zu},\"total_tokens\":%zu}",
            n_prompt, w->a->prompt->n_cached, h->n_output, h->n_reasoning, n_prompt + h->n_output);
}

static const char *status_of(const struct answer_choice *h)
{
    return h->finish == GALLOP_FINISH_STOP        ? "completed"
           : h->finish == GALLOP_FINISH_LENGTH    ? "incomplete"
           : h->finish == GALLOP_FINISH_CANCELLED ? "cancelled"
                                                  : "failed";
}

const struct schema responses_schema = {
    "Response",
    "{'type':'object','required':['id','object','created_at','status','model','output','usage'],"
    "'properties':{'warnings':{'type':'array','items':{'type':'string'}},"
    "'id':{'type':'string'},'object':{'const':'response'},"
    "'created_at':{'type':'integer'},'status':{'enum':['completed','incomplete','cancelled']},"
    "'model':{'type':'string'},'output':{'type':'array','items':{'type':'object','required':['type',"
    "'id']}},'usage':{'type':'object','required':['input_tokens','output_tokens','total_tokens'],"
    "'properties':{'input_tokens':{'type':'integer'},'output_tokens':{'type':'integer'},"
    "'total_tokens':{'type':'integer'}}}}}",
    NULL};

/* Writes the response object. ENDED: with the final status and usage; otherwise with the status in_progress, as at the
 * beginning of a stream, even if the answer is complete already. FAULT: the error of a failed answer, or NULL. */
static void put_response(const struct dialect_writer *w, bool ended, const char *fault, struct buf *out)
{
    const struct answer_choice *h = w->a->choice;
    const struct buf *items = &((struct state *)w->state)->items;

    buf_str(out, "{\"id\":");
    dialect_put_string(out, w->q->id);
    buf_fmt(out, ",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"error\":",
            (long long)w->q->origin.created,
            fault   ? "failed"
            : ended ? status_of(h)
                    : "in_progress");
    if (fault) {
        buf_str(out, "{\"code\":\"server_error\",\"message\":");
        dialect_put_string(out, fault);
        buf_str(out, "}");
    } else {
        buf_str(out, "null");
    }
    buf_fmt(out, ",\"incomplete_details\":%s",
            ended && h->finish == GALLOP_FINISH_LENGTH ? "{\"reason\":\"max_output_tokens\"}" : "null");
    put_settings(w->q, out);
    buf_fmt(out, ",\"output\":[%s]", items->len ? items->data : "");
    if (ended) {
        put_usage(w, out);
        dialect_put_warnings(w->a, out);
    } else {
        buf_str(out, ",\"usage\":null");
    }
    buf_str(out, "}");
    out->oom |= items->oom;
}

/* ---- items and events ---- */

static void begin_event(struct state *s, const char *type, struct buf *out)
{
    buf_fmt(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%zu", type, type, s->n_events++);
}

static bool is_open(const struct state *s, enum blocks_kind kind)
{
    return s->blocks.kind == kind;
}

/* Writes the id of the open item. It ends with the id of the request, which the client may have chosen. */
static void put_id(const struct dialect_writer *w, struct buf *out)
{
    static const char *const prefixes[] = {
        [BLOCKS_REASONING] = "rs", [BLOCKS_TEXT] = "msg", [BLOCKS_CALL] = "fc"};
    const struct state *s = w->state;
    char id[sizeof(w->q->name) + 32];

    snprintf(id, sizeof(id), "%s_%zu_%s", prefixes[s->blocks.kind], s->blocks.n, w->q->name);
    dialect_put_string(out, id);
}

/* Writes the members of an event that identify the open item and, if PART, its content part. */
static void put_place(const struct dialect_writer *w, bool part, struct buf *out)
{
    const struct state *s = w->state;

    buf_fmt(out, ",\"output_index\":%zu,\"item_id\":", s->blocks.n);
    put_id(w, out);
    buf_str(out, part ? ",\"content_index\":0" : "");
}

static void put_item_part(const struct state *s, struct buf *out)
{
    bool text = is_open(s, BLOCKS_TEXT);

    buf_fmt(out, "{\"type\":\"%s\",\"text\":", text ? "output_text" : "reasoning_text");
    dialect_put_text(out, &s->said);
    buf_str(out, text ? ",\"annotations\":[],\"logprobs\":[]}" : "}");
}

/* Writes the open item as JSON. FULL: with its text or arguments and its final status. */
static void put_item(const struct dialect_writer *w, bool full, struct buf *out)
{
    const struct state *s = w->state;
    bool text = is_open(s, BLOCKS_TEXT);
    const char *status = !full                                                             ? "in_progress"
                         : s->blocks.is_last && w->a->choice->finish != GALLOP_FINISH_STOP ? "incomplete"
                                                                                           : "completed";

    buf_str(out, "{\"id\":");
    put_id(w, out);
    buf_char(out, ',');
    if (is_open(s, BLOCKS_CALL)) {
        buf_add(out, s->head.data, s->head.len);
        buf_str(out, ",\"arguments\":");
        buf_json_str(out, s->said.data ? s->said.data : "", full ? s->said.len : 0);
        buf_fmt(out, ",\"status\":\"%s\"}", status);
        return;
    }
    buf_fmt(out, "\"type\":\"%s\",\"status\":\"%s\",%s\"content\":[", text ? "message" : "reasoning", status,
            text ? "\"role\":\"assistant\"," : "\"summary\":[],");
    if (full)
        put_item_part(s, out);
    buf_str(out, "]}");
}

static void put_item_event(const struct dialect_writer *w, bool done, struct buf *out)
{
    struct state *s = w->state;

    begin_event(s, done ? "response.output_item.done" : "response.output_item.added", out);
    buf_fmt(out, ",\"output_index\":%zu,\"item\":", s->blocks.n);
    put_item(w, done, out);
    buf_str(out, "}\n\n");
}

static void put_part_event(const struct dialect_writer *w, const char *type, struct buf *out)
{
    begin_event(w->state, type, out);
    put_place(w, true, out);
    buf_str(out, ",\"part\":");
    put_item_part(w->state, out);
    buf_str(out, "}\n\n");
}

/* Splits NAME, the function name that the model sees (namespace__function). Returns the namespace of TOOLS that
 * contains the function, and sets *INNER to the name without the namespace. NULL: the function has no namespace. */
static const char *find_namespace(const json_t *tools, const char *name, const char **inner)
{
    const json_t *tool, *one;
    const char *found = NULL;
    size_t i, k;

    json_array_foreach(tools, i, tool)
    {
        const char *own = json_string_value(json_object_get(tool, "name"));
        size_t n = own ? strlen(own) : 0;

        if (!own || strncmp(name, own, n) != 0)
            continue;
        if (!name[n] && !dialect_is(json_object_get(tool, "type"), "namespace"))
            return NULL;
        if (found || strncmp(name + n, "__", 2) != 0)
            continue;
        json_array_foreach(json_object_get(tool, "tools"), k, one)
        {
            if (dialect_is(json_object_get(one, "name"), name + n + 2)) {
                *inner = name + n + 2;
                found = own;
            }
        }
    }
    return found;
}

/* Saves the first members of a new tool call item in the state, for later events. */
static void keep_head(const struct dialect_writer *w, const char *id, const char *name)
{
    struct state *s = w->state;
    const char *inner = name,
               *namespace = find_namespace(json_object_get(w->q->field.body, "tools"), name, &inner);

    buf_fmt(&s->head, "\"type\":\"function_call\",\"call_id\":\"%s\"", id);
    s->name = s->head.len;
    buf_str(&s->head, ",\"name\":");
    dialect_put_string(&s->head, namespace ? inner : name);
    s->n_name = s->head.len - s->name;
    if (namespace) {
        buf_str(&s->head, ",\"namespace\":");
        dialect_put_string(&s->head, namespace);
    }
}

static void open_item(const struct dialect_writer *w, const char *id, const char *name, struct buf *out)
{
    struct state *s = w->state;

    buf_clear(&s->said);
    buf_clear(&s->head);
    if (is_open(s, BLOCKS_CALL)) {
        keep_head(w, id, name);
        out->oom |= s->head.oom;
    }
    put_item_event(w, false, out);
    if (!is_open(s, BLOCKS_CALL))
        put_part_event(w, "response.content_part.added", out);
}

static void add_to_item(const struct dialect_writer *w, const char *text, size_t n, struct buf *out)
{
    static const char *const types[] = {[BLOCKS_REASONING] = "response.reasoning_text.delta",
                                        [BLOCKS_TEXT] = "response.output_text.delta",
                                        [BLOCKS_CALL] = "response.function_call_arguments.delta"};
    struct state *s = w->state;

    buf_add(&s->said, text, n);
    out->oom |= s->said.oom;
    begin_event(s, types[s->blocks.kind], out);
    put_place(w, !is_open(s, BLOCKS_CALL), out);
    buf_str(out, ",\"delta\":");
    buf_json_str(out, text, n);
    buf_str(out, is_open(s, BLOCKS_TEXT) ? ",\"logprobs\":[]}\n\n" : "}\n\n");
}

static void close_item(const struct dialect_writer *w, struct buf *out)
{
    static const char *const types[] = {[BLOCKS_REASONING] = "response.reasoning_text.done",
                                        [BLOCKS_TEXT] = "response.output_text.done",
                                        [BLOCKS_CALL] = "response.function_call_arguments.done"};
    struct state *s = w->state;
    bool is_call = is_open(s, BLOCKS_CALL);

    begin_event(s, types[s->blocks.kind], out);
    put_place(w, !is_call, out);
    if (is_call && !s->head.oom)
        buf_add(out, s->head.data + s->name, s->n_name);
    buf_fmt(out, ",\"%s\":", is_call ? "arguments" : "text");
    dialect_put_text(out, &s->said);
    buf_str(out, is_open(s, BLOCKS_TEXT) ? ",\"logprobs\":[]}\n\n" : "}\n\n");
    if (!is_call)
        put_part_event(w, "response.content_part.done", out);
    put_item_event(w, true, out);
    if (s->items.len)
        buf_char(&s->items, ',');
    put_item(w, true, &s->items);
}

static void put_items(const struct dialect_writer *w, struct buf *out)
{
    static const struct blocks_writer items = {open_item, add_to_item, close_item};
    struct state *s = w->state;

    blocks_put(w, &s->blocks, &items, w->a->choice, out);
}

static void responses_put_whole(const struct dialect_writer *w, struct buf *out)
{
    put_items(w, out);
    if (out->oom)
        return;
    buf_clear(out); /* drop the events: only the items in the state are needed */
    put_response(w, true, NULL, out);
}

static void put_state(const struct dialect_writer *w, const char *type, bool ended, const char *fault,
                      struct buf *out)
{
    begin_event(w->state, type, out);
    buf_str(out, ",\"response\":");
    put_response(w, ended, fault, out);
    buf_str(out, "}\n\n");
}

static void put_begin(const struct dialect_writer *w, struct buf *out)
{
    put_state(w, "response.created", false, NULL, out);
    put_state(w, "response.in_progress", false, NULL, out);
}

static void responses_put_part(const struct dialect_writer *w, size_t i, struct buf *out)
{
    (void)i; /* Responses has only one choice */
    put_items(w, out);
}

static void responses_put_end(const struct dialect_writer *w, int status, const char *sentence,
                              struct buf *out)
{
    put_state(w,
              status                                       ? "response.failed"
              : w->a->choice->finish == GALLOP_FINISH_STOP ? "response.completed"
                                                           : "response.incomplete",
              true, status ? sentence : NULL, out);
}

const struct dialect responses_dialect = {.prefix = "resp_",
                                          .type = "text/event-stream; charset=utf-8",
                                          .ping = dialect_ping,
                                          .read = responses_read_request,
                                          .open = open_state,
                                          .close = close_state,
                                          .whole = responses_put_whole,
                                          .begin = put_begin,
                                          .part = responses_put_part,
                                          .end = responses_put_end,
                                          .error = dialect_error,
                                          .error_schema = &dialect_error_schema};
