/* anthropic.c - Anthropic's Messages API: conversations in blocks, made into a chat, and answers in blocks.
 *
 * Text, calls of tools and their results, and the reasoning of earlier turns are understood. A last message
 * of the assistant is continued. Thinking is what the model does by itself: it cannot be asked for, but be
 * left out. Form: https://docs.anthropic.com/en/api/messages, .../messages-streaming.
 */
#include <string.h>

#include "api/call.h"
#include "base/json_pull.h"

/* ---- from their messages to a chat ---- */

static int wrong_block(size_t message, size_t i, const json_t *block, struct err *e)
{
    const char *type = json_string_value(json_object_get(block, "type"));

    if (!type)
        return err_set(e, ERR_INPUT, "messages[%zu].content[%zu].type: expected a string", message, i);
    return err_set(e, ERR_UNSUPPORTED,
                   "messages[%zu].content[%zu]: a block of type '%.40s' is not supported here", message, i,
                   type);
}

static bool is_type(const json_t *block, const char *type)
{
    return form_is(json_object_get(block, "type"), type);
}

/* {"type": "text", "text"} of BLOCK. */
static int add_text(json_t *parts, const json_t *block, size_t message, size_t i, struct err *e)
{
    const json_t *text = json_object_get(block, "text");

    if (!json_is_string(text))
        return err_set(e, ERR_INPUT, "messages[%zu].content[%zu].text: expected a string", message, i);
    if (json_array_append_new(parts, json_pack("{s:s,s:O}", "type", "text", "text", text)) != 0)
        return err_nomem(e, "messages");
    return 0;
}

/* A message of a tool. */
static int add_result(json_t *list, const json_t *block, size_t message, size_t i, struct err *e)
{
    const json_t *id = json_object_get(block, "tool_use_id"), *content = json_object_get(block, "content"),
                 *part;
    json_t *parts, *m = NULL;
    size_t k;
    int rc = 0;

    if (!json_is_string(id))
        return err_set(e, ERR_INPUT, "messages[%zu].content[%zu].tool_use_id: expected a string", message, i);
    if (content && !json_is_string(content) && !json_is_array(content))
        return err_set(e, ERR_INPUT, "messages[%zu].content[%zu].content: expected a string or blocks",
                       message, i);
    parts = json_array();
    if (!parts)
        return err_nomem(e, "messages");
    json_array_foreach(content, k, part)
    {
        if (rc == 0)
            rc = is_type(part, "text") ? add_text(parts, part, message, i, e)
                                       : wrong_block(message, i, part, e);
    }
    if (rc == 0)
        m = json_pack("{s:s,s:O,s:O}", "role", "tool", "tool_call_id", id, "content",
                      json_is_string(content) ? content : parts);
    json_decref(parts);
    if (rc == 0 && (!m || json_array_append(list, m) != 0))
        rc = err_nomem(e, "messages");
    json_decref(m);
    return rc;
}

/* A call of the assistant's. */
static int add_call(json_t *calls, const json_t *block, size_t message, size_t i, struct err *e)
{
    const json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name"),
                 *input = json_object_get(block, "input");
    char *text;
    json_t *call;

    if (!json_is_string(id) || !json_is_string(name) || !json_is_object(input))
        return err_set(e, ERR_INPUT, "messages[%zu].content[%zu]: expected id, name and an object as input",
                       message, i);
    text = json_dumps(input, JSON_COMPACT);
    call = text ? json_pack("{s:O,s:s,s:{s:O,s:s}}", "id", id, "type", "function", "function", "name", name,
                            "arguments", text)
                : NULL;
    mem_free(text); /* jansson's memory is ours */
    return json_array_append_new(calls, call) == 0 ? 0 : err_nomem(e, "messages");
}

/* What the blocks of a message say. */
struct turn {
    json_t *parts, *calls; /* text, and calls of tools */
    struct buf thinking;
};

static int read_block(json_t *list, const json_t *block, size_t message, size_t i, bool assistant,
                      struct turn *t, struct err *e)
{
    const json_t *thinking = json_object_get(block, "thinking");

    if (is_type(block, "text"))
        return add_text(t->parts, block, message, i, e);
    if (!assistant && is_type(block, "tool_result"))
        return add_result(list, block, message, i, e);
    if (assistant && is_type(block, "tool_use"))
        return add_call(t->calls, block, message, i, e);
    if (assistant && is_type(block, "redacted_thinking"))
        return 0; /* nobody can read it */
    if (!assistant || !is_type(block, "thinking") || !json_is_string(thinking))
        return wrong_block(message, i, block, e);
    buf_add(&t->thinking, json_string_value(thinking), json_string_length(thinking));
    return t->thinking.oom ? err_nomem(e, "messages") : 0;
}

/* NULL: no memory. */
static json_t *make_message(const struct turn *t, bool assistant)
{
    json_t *m = json_pack("{s:s,s:O}", "role", assistant ? "assistant" : "user", "content", t->parts);
    int bad = !m;

    if (json_array_size(t->calls))
        bad |= json_object_set(m, "tool_calls", t->calls);
    if (t->thinking.len)
        bad |= json_object_set_new(m, "reasoning_content", json_stringn(t->thinking.data, t->thinking.len));
    if (bad)
        json_decref(m);
    return bad ? NULL : m;
}

/* Appends what MESSAGE says: results of tools first, each a message of its own. */
static int read_message(json_t *list, const json_t *message, size_t at, struct err *e)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content"), *block;
    struct turn t = {.parts = json_array(), .calls = json_array(), .thinking = {.tag = MEM_API}};
    bool assistant = role && strcmp(role, "assistant") == 0;
    int rc = t.parts && t.calls ? 0 : err_nomem(e, "messages");
    size_t i;

    if (rc == 0 && !assistant && (!role || strcmp(role, "user") != 0))
        rc = err_set(e, ERR_INPUT, "messages[%zu].role: expected user or assistant", at);
    if (rc == 0 && !json_is_string(content) && !json_is_array(content))
        rc = err_set(e, ERR_INPUT, "messages[%zu].content: expected a string or a list of blocks", at);
    if (rc == 0 && json_is_string(content) &&
        json_array_append_new(t.parts, json_pack("{s:s,s:O}", "type", "text", "text", content)) != 0)
        rc = err_nomem(e, "messages");
    json_array_foreach(content, i, block)
    {
        if (rc == 0)
            rc = read_block(list, block, at, i, assistant, &t, e);
    }
    if (rc == 0 && (assistant || json_array_size(t.parts)) &&
        json_array_append_new(list, make_message(&t, assistant)) != 0)
        rc = err_nomem(e, "messages");
    json_decref(t.parts);
    json_decref(t.calls);
    buf_fini(&t.thinking);
    return rc;
}

/* OpenAI's form of a tool. */
static int read_tool(json_t *list, const json_t *tool, size_t i, struct err *e)
{
    const json_t *type = json_object_get(tool, "type"), *name = json_object_get(tool, "name"),
                 *says = json_object_get(tool, "description"),
                 *schema = json_object_get(tool, "input_schema");
    json_t *function;

    if (type && !json_is_null(type) && !is_type(tool, "custom"))
        return err_set(e, ERR_UNSUPPORTED, "tools[%zu]: only tools of the client's are supported", i);
    if (!json_is_string(name) || !json_is_object(schema))
        return err_set(e, ERR_INPUT, "tools[%zu]: expected a name and an input_schema", i);
    function = json_pack("{s:O,s:O}", "name", name, "parameters", schema);
    if (json_is_string(says) && function)
        json_object_set(function, "description", (json_t *)(uintptr_t)says);
    return json_array_append_new(list, json_pack("{s:s,s:o}", "type", "function", "function", function)) == 0
               ? 0
               : err_nomem(e, "tools");
}

static int read_tools(struct call *c, json_t *list, struct err *e)
{
    struct fields *f = &c->f;
    int rc = 0;

    fields_blame(f, "tools", 0);
    for (size_t i = 0; i < json_array_size(f->tools) && rc == 0; i++)
        rc = read_tool(list, json_array_get(f->tools, i), i, e);
    f->tools = f->tools ? list : NULL;
    return rc ? rc : tools_check(f->tools, NULL, e);
}

/* The system message. */
static int read_system(struct call *c, json_t *list, struct err *e)
{
    if (!c->f.system || (json_is_array(c->f.system) && !json_array_size(c->f.system)))
        return 0;
    return json_array_append_new(list, json_pack("{s:s,s:O}", "role", "system", "content", c->f.system)) == 0
               ? 0
               : err_nomem(e, "system");
}

static int read_request(struct call *c, struct err *e)
{
    json_t *list = json_array(), *tools = json_array();
    const json_t *last = NULL;
    struct fields *f = &c->f;
    int rc;

    f->own = json_pack("[o,o]", list, tools);
    rc = f->own ? read_system(c, list, e) : err_nomem(e, "messages");
    if (rc == 0)
        rc = read_tools(c, tools, e);
    if (rc)
        return rc;
    fields_blame(f, "messages", 0);
    for (size_t i = 0; i < json_array_size(f->messages) && rc == 0; i++) {
        last = json_array_get(f->messages, i);
        rc = read_message(list, last, i, e);
    }
    f->messages = list;
    if (rc == 0 && strcmp(json_string_value(json_object_get(last, "role")), "assistant") == 0) {
        f->continue_final_message = true;
        f->add_generation_prompt = false;
    }
    return rc;
}

/* ---- answers ---- */

static void put_error(struct buf *out, int status, const char *message, const char *param)
{
    const char *type = status == 401   ? "authentication_error"
                       : status == 403 ? "permission_error"
                       : status == 404 ? "not_found_error"
                       : status == 413 ? "request_too_large"
                       : status == 429 ? "rate_limit_error"
                       : status == 503 ? "overloaded_error"
                       : status == 504 ? "timeout_error"
                       : status >= 500 ? "api_error"
                                       : "invalid_request_error";

    buf_fmt(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type);
    buf_json_str(out, message, strlen(message));
    buf_str(out, ",\"param\":");
    if (param)
        buf_json_str(out, param, strlen(param));
    else
        buf_json_null(out);
    buf_str(out, "}}");
}

static void put_usage(const struct call *c, struct buf *out)
{
    const struct call_choice *h = c->choice;
    size_t cached = c->prompt->n_cached;

    buf_fmt(
        out,
        "\"usage\":{\"input_tokens\":%zu,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%zu,"
        "\"output_tokens\":%zu}",
        c->n_prompt_tokens - cached, cached, h->n_output);
}

/* Members stop_reason and stop_sequence. */
static void put_stop(const struct call_choice *h, struct buf *out)
{
    bool called = h->parts && parts_n_calls(h->parts);
    const char *reason = h->finish == GALLOP_FINISH_LENGTH ? "max_tokens"
                         : h->finish != GALLOP_FINISH_STOP ? "abort"
                         : called                          ? "tool_use"
                         : h->stop_string                  ? "stop_sequence"
                                                           : "end_turn";

    buf_fmt(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    form_put_string(out, h->finish == GALLOP_FINISH_STOP && !called ? h->stop_string : NULL);
}

static void put_head(const struct call *c, struct buf *out)
{
    const char *model = c->f.model ? c->f.model : c->api->opt.name[0];

    buf_str(out, "\"id\":");
    buf_json_str(out, c->id, strlen(c->id));
    buf_str(out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    buf_json_str(out, model, strlen(model));
}

/* The arguments of CALL as an object; what is no object, under a name. */
static void put_input(const json_t *call, struct buf *out)
{
    const json_t *text = json_object_get(json_object_get(call, "function"), "arguments");
    json_t *input;

    out->oom |=
        json_pull_load(&input, json_string_value(text), json_string_length(text), "", NULL) == ERR_NOMEM;
    if (json_is_object(input)) {
        buf_add(out, json_string_value(text), json_string_length(text));
    } else {
        buf_str(out, "{\"arguments\":");
        buf_json_str(out, json_string_value(text), json_string_length(text));
        buf_char(out, '}');
    }
    json_decref(input);
}

static void put_content(struct call_choice *h, struct buf *out)
{
    json_t *calls = form_calls(h, out), *call;
    size_t i;

    buf_json_begin(out, '[');
    if (h->reasoning.len) {
        buf_str(out, "{\"type\":\"thinking\",\"thinking\":");
        buf_json_str(out, h->reasoning.data, h->reasoning.len);
        buf_str(out, ",\"signature\":\"\"}");
    }
    if (h->text.len) {
        buf_str(out, h->reasoning.len ? "," : "");
        buf_str(out, "{\"type\":\"text\",\"text\":");
        buf_json_str(out, h->text.data, h->text.len);
        buf_str(out, "}");
    }
    json_array_foreach(calls, i, call)
    {
        buf_str(out, i || h->text.len || h->reasoning.len ? "," : "");
        buf_fmt(out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":",
                json_string_value(json_object_get(call, "id")));
        buf_json_str(out, json_string_value(json_object_get(json_object_get(call, "function"), "name")),
                     json_string_length(json_object_get(json_object_get(call, "function"), "name")));
        buf_str(out, ",\"input\":");
        put_input(call, out);
        buf_str(out, "}");
    }
    buf_json_end(out, ']');
    json_decref(calls);
}

static void put_whole(struct call *c, struct buf *out)
{
    struct call_choice *h = c->choice;

    buf_str(out, "{");
    put_head(c, out);
    buf_str(out, ",\"content\":");
    put_content(h, out);
    buf_str(out, ",");
    put_stop(h, out);
    buf_str(out, ",");
    put_usage(c, out);
    buf_str(out, "}");
}

/* ---- events ---- */

static void begin_event(struct buf *out, const char *type)
{
    buf_fmt(out, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void put_begin(struct call *c, struct buf *out)
{
    begin_event(out, "message_start");
    buf_str(out, ",\"message\":{");
    put_head(c, out);
    buf_str(out, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,");
    put_usage(c, out);
    buf_str(out, "}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n");
}

static void open_block(struct call *c, struct call_choice *h, const char *id, const char *name,
                       struct buf *out)
{
    (void)c;
    begin_event(out, "content_block_start");
    buf_fmt(out, ",\"index\":%zu,\"content_block\":", h->n_blocks);
    if (h->block == FORM_CALL) {
        buf_fmt(out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", id);
        buf_json_str(out, name, strlen(name));
        buf_str(out, ",\"input\":{}}}\n\n");
    } else {
        buf_str(out, h->block == FORM_TEXT
                         ? "{\"type\":\"text\",\"text\":\"\"}}\n\n"
                         : "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n");
    }
}

static void add_to_block(struct call *c, struct call_choice *h, const char *text, size_t n, struct buf *out)
{
    static const char *const deltas[][2] = {[FORM_REASONING] = {"thinking_delta", "thinking"},
                                            [FORM_TEXT] = {"text_delta", "text"},
                                            [FORM_CALL] = {"input_json_delta", "partial_json"}};

    (void)c;
    begin_event(out, "content_block_delta");
    buf_fmt(out, ",\"index\":%zu,\"delta\":{\"type\":\"%s\",\"%s\":", h->n_blocks, deltas[h->block][0],
            deltas[h->block][1]);
    buf_json_str(out, text, n);
    buf_str(out, "}}\n\n");
}

static void close_block(struct call *c, struct call_choice *h, struct buf *out)
{
    (void)c;
    begin_event(out, "content_block_stop");
    buf_fmt(out, ",\"index\":%zu}\n\n", h->n_blocks);
}

static void put_part(struct call *c, size_t i, struct buf *out)
{
    static const struct form_blocks blocks = {open_block, add_to_block, close_block};

    form_put_blocks(c, &c->choice[i], &blocks, out);
    form_sent(&c->choice[i]);
}

static void put_end(struct call *c, int status, const char *sentence, struct buf *out)
{
    if (status) {
        buf_str(out, "event: error\ndata: ");
        put_error(out, status, sentence, NULL);
        buf_str(out, "\n\n");
        return;
    }
    begin_event(out, "message_delta");
    buf_str(out, ",\"delta\":{");
    put_stop(c->choice, out);
    buf_str(out, "},");
    put_usage(c, out);
    buf_str(out, "}\n\n");
    begin_event(out, "message_stop");
    buf_str(out, "}\n\n");
}

const struct form anthropic_form = {.prefix = "msg_",
                                    .type = "text/event-stream; charset=utf-8",
                                    .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                                    .read = read_request,
                                    .whole = put_whole,
                                    .begin = put_begin,
                                    .part = put_part,
                                    .end = put_end,
                                    .error = put_error,
                                    .error_schema = "AnthropicError"};
