/* anthropic.c - Anthropic's Messages API: converts requests into chat messages in OpenAI's format, and writes
 * answers as content blocks.
 *
 * Supported input: text, tool calls and their results, system messages at any position, and the reasoning of earlier
 * turns. If the last message is the assistant's, the model continues it. The model decides whether it reasons; a
 * request can limit the tokens of reasoning, and omit it from the answer. Tools that Anthropic's servers run, and
 * content blocks about such tools, are ignored with a warning. Specification:
 * https://docs.anthropic.com/en/api/messages, .../messages-streaming.
 */
#include <inttypes.h>
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

/* ---- requests: from Anthropic's messages to a chat ---- */

/* The state of reading a request. */
struct reading {
    struct request *q;
    json_t *list;    /* messages in OpenAI's format */
    json_t *tools;   /* tools in OpenAI's format */
    json_t *origins; /* an object for each tool: the JSON pointer to its schema, and its `strict` */
    json_t *offered; /* object: names of tools that messages added (true) or removed (false); owned */
    json_t *defined; /* definitions of tools that are in messages; owned */
    size_t at;       /* index of the current message */
    size_t last;     /* index of the user's last message */
    bool assistant;  /* whether the current message is the assistant's */
};

static bool is_type(const json_t *block, const char *type)
{
    return dialect_is(json_object_get(block, "type"), type);
}

static int wrong_block(const struct reading *r, size_t i, const json_t *block, struct err *e)
{
    const char *type = json_string_value(json_object_get(block, "type"));

    if (!type)
        return err_set(e, ERR_INPUT, "messages[%zu].content[%zu].type: expected a string", r->at, i);
    return err_set(e, ERR_UNSUPPORTED,
                   "messages[%zu].content[%zu]: a block of type '%.40s' is not supported here", r->at, i,
                   type);
}

static int add_string(json_t *parts, const char *text, size_t n, struct err *e)
{
    return json_array_append_new(parts, json_pack("{s:s,s:s%}", "type", "text", "text", text, n)) == 0
               ? 0
               : err_nomem(e, "messages");
}

/* Returns the length of the billing line that Claude Code writes at the beginning of a system message TEXT [n], or 0.
 * The line is removed, because it differs in every request and would prevent all hits of the prefix cache. */
static size_t billing_line(const char *text, size_t n)
{
    static const char mark[] = "x-anthropic-billing-header:";
    const char *end;

    if (n < sizeof(mark) - 1 || memcmp(text, mark, sizeof(mark) - 1) != 0)
        return 0;
    end = memchr(text, '\n', n);
    return end ? (size_t)(end - text) + 1 : n;
}

/* Appends TEXT of a system message, without its billing line, to PARTS. */
static int add_system_text(json_t *parts, const json_t *text, struct err *e)
{
    const char *own = json_string_value(text);
    size_t n = json_string_length(text), skip = billing_line(own, n);

    return skip && skip == n ? 0 : add_string(parts, own + skip, n - skip, e);
}

/* Appends the text of BLOCK, a content block of the type `text`, to PARTS. */
static int add_text(const struct reading *r, json_t *parts, const json_t *block, size_t i, struct err *e)
{
    const json_t *text = json_object_get(block, "text");

    if (!json_is_string(text))
        return err_set(e, ERR_INPUT, "messages[%zu].content[%zu].text: expected a string", r->at, i);
    return add_string(parts, json_string_value(text), json_string_length(text), e);
}

/* Appends the text of CONTENT, a string or a list of text blocks inside BLOCK, to PARTS. */
static int add_texts(const struct reading *r, json_t *parts, const json_t *block, const json_t *content,
                     size_t i, struct err *e)
{
    const json_t *one;
    int rc = 0;
    size_t k;

    if (json_is_string(content))
        return add_string(parts, json_string_value(content), json_string_length(content), e);
    if (!json_is_array(content))
        return wrong_block(r, i, block, e);
    json_array_foreach(content, k, one)
    {
        if (rc == 0)
            rc = is_type(one, "text") ? add_text(r, parts, one, i, e) : wrong_block(r, i, one, e);
    }
    return rc;
}

/* Appends title, source and text of BLOCK, a plain-text document or a search result, to PARTS. */
static int add_document(const struct reading *r, json_t *parts, const json_t *block, size_t i, struct err *e)
{
    const json_t *source = json_object_get(block, "source"), *title = json_object_get(block, "title"),
                 *content = is_type(source, "text")      ? json_object_get(source, "data")
                            : is_type(source, "content") ? json_object_get(source, "content")
                            : json_is_string(source)     ? json_object_get(block, "content")
                                                         : NULL;
    int rc = content ? 0 : wrong_block(r, i, block, e);

    if (rc == 0 && json_is_string(title))
        rc = add_string(parts, json_string_value(title), json_string_length(title), e);
    if (rc == 0 && json_is_string(source))
        rc = add_string(parts, json_string_value(source), json_string_length(source), e);
    return rc ? rc : add_texts(r, parts, block, content, i, e);
}

/* Records that a message has added (MAY) or removed the tool NAME. */
static int offer(const struct reading *r, const json_t *name, bool may, struct err *e)
{
    if (!json_is_string(name))
        return err_set(e, ERR_INPUT, "messages[%zu].content: expected the name of a tool", r->at);
    return json_object_set_new_nocheck(r->offered, json_string_value(name), json_boolean(may)) == 0
               ? 0
               : err_nomem(e, "messages");
}

/* Handles the block `tool_reference`, the result of a tool search: makes the tool callable, and tells the model so. */
static int add_reference(const struct reading *r, json_t *parts, const json_t *block, struct err *e)
{
    const json_t *name = json_object_get(block, "tool_name");
    char text[300];
    int rc = offer(r, name, true, e);

    snprintf(text, sizeof(text), "The tool %.256s is available.", rc ? "" : json_string_value(name));
    return rc ? rc : add_string(parts, text, strlen(text), e);
}

/* Appends the text of BLOCK to PARTS. Only types that are valid for both roles and in tool results are accepted. */
static int add_textual(const struct reading *r, json_t *parts, const json_t *block, size_t i, struct err *e)
{
    if (is_type(block, "text"))
        return add_text(r, parts, block, i, e);
    if (is_type(block, "document") || is_type(block, "search_result"))
        return add_document(r, parts, block, i, e);
    if (is_type(block, "tool_reference"))
        return add_reference(r, parts, block, e);
    return wrong_block(r, i, block, e);
}

/* Appends a message of the role `tool` with the tool result BLOCK. */
static int add_result(const struct reading *r, const json_t *block, size_t i, struct err *e)
{
    const json_t *id = json_object_get(block, "tool_use_id"), *content = json_object_get(block, "content"),
                 *part;
    json_t *parts, *m = NULL;
    size_t k;
    int rc = 0;

    if (!json_is_string(id))
        return err_set(e, ERR_INPUT, "messages[%zu].content[%zu].tool_use_id: expected a string", r->at, i);
    if (content && !json_is_string(content) && !json_is_array(content) && !json_is_null(content))
        return err_set(e, ERR_INPUT, "messages[%zu].content[%zu].content: expected a string or blocks", r->at,
                       i);
    parts = json_array();
    if (!parts)
        return err_nomem(e, "messages");
    if (json_is_true(json_object_get(block, "is_error"))) /* templates have no other way to mark an error */
        rc = add_string(parts, "Error:", strlen("Error:"), e);
    if (rc == 0 && json_is_string(content))
        rc = add_string(parts, json_string_value(content), json_string_length(content), e);
    json_array_foreach(content, k, part)
    {
        if (rc == 0)
            rc = add_textual(r, parts, part, i, e);
    }
    if (rc == 0)
        m = json_pack("{s:s,s:O,s:O}", "role", "tool", "tool_call_id", id, "content", parts);
    json_decref(parts);
    if (rc == 0 && (!m || json_array_append(r->list, m) != 0))
        rc = err_nomem(e, "messages");
    json_decref(m);
    return rc;
}

/* Appends the tool call in BLOCK, a block of the assistant, to CALLS in OpenAI's format. */
static int add_call(const struct reading *r, json_t *calls, const json_t *block, size_t i, struct err *e)
{
    const json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name"),
                 *input = json_object_get(block, "input");
    bool empty = !input || json_is_null(input);
    struct buf text = {.tag = MEM_API};
    json_t *call;

    if (!json_is_string(id) || !json_is_string(name) || (!empty && !json_is_object(input)))
        return err_set(e, ERR_INPUT, "messages[%zu].content[%zu]: expected id, name and an object as input",
                       r->at, i);
    if (empty)
        buf_str(&text, "{}");
    else
        buf_json_tree(&text, input, true);
    call = text.oom ? NULL
                    : json_pack("{s:O,s:s,s:{s:O,s:s%}}", "id", id, "type", "function", "function", "name",
                                name, "arguments", text.data, text.len);
    buf_fini(&text);
    return json_array_append_new(calls, call) == 0 ? 0 : err_nomem(e, "messages");
}

/* The content of a message of the user or the assistant. */
struct turn {
    json_t *parts, *calls; /* JSON arrays of the text parts and of the tool calls */
    struct buf thinking;   /* reasoning */
};

/* Returns whether BLOCK is about a tool that Anthropic's servers ran, or is encrypted for its models. */
static bool is_foreign(const json_t *block)
{
    static const char *const types[] = {"redacted_thinking",
                                        "server_tool_use",
                                        "web_search_tool_result",
                                        "web_fetch_tool_result",
                                        "code_execution_tool_result",
                                        "bash_code_execution_tool_result",
                                        "text_editor_code_execution_tool_result",
                                        "tool_search_tool_result",
                                        "advisor_tool_result",
                                        "mcp_tool_use",
                                        "mcp_tool_result",
                                        "mcp_tool_listing",
                                        "fallback"};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (is_type(block, types[i]))
            return true;
    return false;
}

static int read_block(struct reading *r, const json_t *block, size_t i, struct turn *t, struct err *e)
{
    const json_t *thinking = json_object_get(block, "thinking");

    if (!r->assistant && is_type(block, "tool_result"))
        return add_result(r, block, i, e);
    if (r->assistant && is_type(block, "tool_use"))
        return add_call(r, t->calls, block, i, e);
    if (is_foreign(block)) {
        once_warn(r->q->once, r->q->origin.route, json_string_value(json_object_get(block, "type")),
                  "blocks of type '%s' are left out of messages");
        return 0;
    }
    if (is_type(block, "compaction")) /* its content is a summary of the earlier conversation, or null */
        return json_is_string(json_object_get(block, "content"))
                   ? add_texts(r, t->parts, block, json_object_get(block, "content"), i, e)
                   : 0;
    if (!r->assistant || !is_type(block, "thinking"))
        return add_textual(r, t->parts, block, i, e);
    if (!json_is_string(thinking))
        return wrong_block(r, i, block, e);
    buf_add(&t->thinking, json_string_value(thinking), json_string_length(thinking));
    return t->thinking.oom ? err_nomem(e, "messages") : 0;
}

/* Returns the message of ROLE with the content T in OpenAI's format; NULL: out of memory. */
static json_t *make_message(const struct turn *t, const char *role)
{
    json_t *m = json_pack("{s:s,s:O}", "role", role, "content", t->parts);
    int bad = !m;

    if (json_array_size(t->calls))
        bad |= json_object_set(m, "tool_calls", t->calls);
    if (t->thinking.len)
        bad |= json_object_set_new(m, "reasoning_content", json_stringn(t->thinking.data, t->thinking.len));
    if (bad)
        json_decref(m);
    return bad ? NULL : m;
}

/* Appends MESSAGE of the user or the assistant. Each tool result in it becomes a separate message before it. */
static int read_turn(struct reading *r, const json_t *message, const char *role, struct err *e)
{
    const json_t *content = json_object_get(message, "content"), *block;
    struct turn t = {.parts = json_array(), .calls = json_array(), .thinking = {.tag = MEM_API}};
    int rc = t.parts && t.calls ? 0 : err_nomem(e, "messages");
    size_t i;

    r->assistant = strcmp(role, "assistant") == 0;
    if (rc == 0 && !json_is_string(content) && !json_is_array(content))
        rc = err_set(e, ERR_INPUT, "messages[%zu].content: expected a string or a list of blocks", r->at);
    if (rc == 0 && json_is_string(content))
        rc = add_string(t.parts, json_string_value(content), json_string_length(content), e);
    json_array_foreach(content, i, block)
    {
        if (rc == 0)
            rc = read_block(r, block, i, &t, e);
    }
    if (rc == 0 && (r->assistant || json_array_size(t.parts)) &&
        json_array_append_new(r->list, make_message(&t, role)) != 0)
        rc = err_nomem(e, "messages");
    json_decref(t.parts);
    json_decref(t.calls);
    buf_fini(&t.thinking);
    return rc;
}

/* Reads a `tool_addition` or `tool_removal` block of a system message. */
static int change_tools(struct reading *r, const json_t *block, struct err *e)
{
    const json_t *tool = json_object_get(block, "tool"), *definition = json_object_get(tool, "definition");
    const json_t *type = json_object_get(definition, "type");
    bool adds = is_type(block, "tool_addition");

    if (adds && is_type(tool, "tool_definition")) {
        if ((type && !json_is_null(type) && !json_is_string(type)) ||
            json_array_append(r->defined, (json_t *)(uintptr_t)definition) != 0)
            return err_set(e, ERR_INPUT, "messages[%zu].content: expected the definition of a tool", r->at);
        return offer(r, json_object_get(definition, "name"), true, e);
    }
    if (is_type(tool, "tool_reference"))
        return offer(r, json_object_get(tool, "name"), adds, e);
    once_warn(r->q->once, r->q->origin.route, "tool_addition",
              "a '%s' of other tools than functions is left out");
    return 0;
}

/* Reads MESSAGE, a system message inside the list of messages. */
static int read_system_turn(struct reading *r, const json_t *message, struct err *e)
{
    const json_t *content = json_object_get(message, "content"), *block;
    bool over = dialect_is(json_object_get(message, "clear_at"), "next_user_message") && r->at < r->last;
    json_t *parts = json_array();
    int rc = parts ? 0 : err_nomem(e, "messages");
    size_t i;

    if (rc == 0 && json_is_string(content))
        rc = add_system_text(parts, content, e);
    else if (rc == 0 && content && !json_is_null(content) && !json_is_array(content))
        rc = err_set(e, ERR_INPUT, "messages[%zu].content: expected a string or a list of blocks", r->at);
    json_array_foreach(content, i, block)
    {
        const json_t *text = json_object_get(block, "text");

        if (rc == 0)
            rc = is_type(block, "text") && json_is_string(text) ? add_system_text(parts, text, e)
                 : is_type(block, "tool_addition") || is_type(block, "tool_removal")
                     ? change_tools(r, block, e)
                     : wrong_block(r, i, block, e);
    }
    if (rc == 0 && json_array_size(parts) && !over &&
        json_array_append_new(r->list, json_pack("{s:s,s:O}", "role", "system", "content", parts)) != 0)
        rc = err_nomem(e, "messages");
    json_decref(parts);
    return rc;
}

static int read_message(struct reading *r, const json_t *message, struct err *e)
{
    const json_t *role = json_object_get(message, "role");

    if (dialect_is(role, "system"))
        return read_system_turn(r, message, e);
    if (!dialect_is(role, "user") && !dialect_is(role, "assistant"))
        return err_set(e, ERR_INPUT, "messages[%zu].role: expected user, assistant or system", r->at);
    return read_turn(r, message, json_string_value(role), e);
}

/* Appends TOOL, element I of `tools`, in OpenAI's format. */
static int read_tool(struct reading *r, const json_t *tool, size_t i, struct err *e)
{
    const json_t *name = json_object_get(tool, "name"), *says = json_object_get(tool, "description"),
                 *schema = json_object_get(tool, "input_schema");
    json_t *function, *pointer;

    if (!json_is_string(name) || !json_is_object(schema))
        return err_set(e, ERR_INPUT, "tools[%zu]: expected a name and an input_schema", i);
    function = json_pack("{s:O,s:O}", "name", name, "parameters", schema);
    if (json_is_string(says) && function)
        json_object_set(function, "description", (json_t *)(uintptr_t)says);
    pointer = json_sprintf("/tools/%zu/input_schema", i);
    if (json_array_append_new(r->origins, json_pack("{s:o,s:O*}", "pointer", pointer, "strict",
                                                    json_object_get(tool, "strict"))) != 0) {
        json_decref(function);
        return err_nomem(e, "tools");
    }
    return json_array_append_new(r->tools,
                                 json_pack("{s:s,s:o}", "type", "function", "function", function)) == 0
               ? 0
               : err_nomem(e, "tools");
}

static bool is_client_tool(const json_t *tool)
{
    const json_t *type = json_object_get(tool, "type");

    return !type || json_is_null(type) || is_type(tool, "custom");
}

/* Appends tools of LIST that no message has removed. LAST false: the tools without `defer_loading`. LAST
 * true: the tools with `defer_loading` that a message has added; these come last in the prompt, so that the
 * prompt before them still matches the prefix cache. SEARCHED: `defer_loading` is ignored, because the
 * request relies on Anthropic's tool search. */
static int read_tools(struct reading *r, const json_t *list, bool last, bool searched, struct err *e)
{
    const json_t *tool;
    size_t i;
    int rc = 0;

    json_array_foreach(list, i, tool)
    {
        const json_t *name = json_object_get(tool, "name"),
                     *offered =
                         json_is_string(name) ? json_object_get(r->offered, json_string_value(name)) : NULL;
        bool deferred = json_is_true(json_object_get(tool, "defer_loading")) && !searched;

        if (!is_client_tool(tool)) {
            if (!last)
                once_warn(r->q->once, r->q->origin.route, json_string_value(json_object_get(tool, "type")),
                          "tools of type '%s' are left out");
        } else if (rc == 0 && !json_is_false(offered) && (offered || !deferred) && last == deferred) {
            rc = read_tool(r, tool, i, e);
        }
    }
    return rc;
}

static int read_all_tools(struct reading *r, struct err *e)
{
    struct fields *f = &r->q->field;
    const json_t *tool;
    bool searched = false;
    size_t i;
    int rc;

    fields_blame(f, "tools", 0);
    json_array_foreach(f->input.tools, i, tool)
    {
        const char *type = json_string_value(json_object_get(tool, "type"));

        if (!type && json_object_get(tool, "type") && !json_is_null(json_object_get(tool, "type")))
            return err_set(e, ERR_INPUT, "tools[%zu].type: expected a string", i);
        searched |= type && strncmp(type, "tool_search_tool", 16) == 0;
    }
    rc = read_tools(r, f->input.tools, false, searched, e);
    if (rc == 0)
        rc = read_tools(r, f->input.tools, true, searched, e);
    if (rc == 0)
        rc = read_tools(r, r->defined, false, true, e);
    f->input.tools = f->input.tools || json_array_size(r->tools) ? r->tools : NULL;
    f->input.tool_origins = r->origins;
    if (rc == 0 &&
        json_array_size(f->input.tools) > FIELDS_MAX_TOOLS) /* including the tools that messages define */
        rc = err_set(e, ERR_INPUT, "tools: found %zu functions, expected at most %d",
                     json_array_size(f->input.tools), FIELDS_MAX_TOOLS);
    return rc ? rc : tools_check(f->input.tools, NULL, e);
}

/* Reads the field `system` as the first message. */
static int read_system(struct reading *r, struct err *e)
{
    const json_t *system = r->q->field.input.system, *block;
    json_t *parts = json_array();
    int rc = parts ? 0 : err_nomem(e, "system");
    size_t i;

    if (rc == 0 && json_is_string(system))
        rc = add_system_text(parts, system, e);
    json_array_foreach(system, i, block)
    {
        if (rc == 0)
            rc = add_system_text(parts, json_object_get(block, "text"), e);
    }
    if (rc == 0 && json_array_size(parts) &&
        json_array_append_new(r->list, json_pack("{s:s,s:O}", "role", "system", "content", parts)) != 0)
        rc = err_nomem(e, "system");
    json_decref(parts);
    return rc;
}

/* Checks that the budget for reasoning leaves tokens for the answer. */
static int check_thinking(struct fields *f, struct err *e)
{
    int64_t budget = f->input.thinking_budget, most = f->generation.max_tokens;

    if (budget < 0 || most < 0 || budget < most)
        return 0;
    return fields_blame(f, "thinking",
                        err_set(e, ERR_INPUT,
                                "thinking.budget_tokens: found %" PRId64
                                ", expected less than max_tokens, which is %" PRId64,
                                budget, most));
}

static int anthropic_read_request(struct request *q, struct err *e)
{
    struct reading r = {.q = q, .list = json_array(), .tools = json_array()};
    const json_t *last = NULL;
    struct fields *f = &q->field;
    int rc;

    r.offered = json_object();
    r.defined = json_array();
    r.origins = json_array();
    f->own = json_pack("[o,o,o,o,o]", r.list, r.tools, r.offered, r.defined, r.origins);
    rc = f->own ? read_system(&r, e) : err_nomem(e, "messages");
    if (rc == 0)
        fields_blame(f, "messages", 0);
    for (size_t i = 0; i < json_array_size(f->input.messages); i++)
        if (dialect_is(json_object_get(json_array_get(f->input.messages, i), "role"), "user"))
            r.last = i;
    for (r.at = 0; r.at < json_array_size(f->input.messages) && rc == 0; r.at++) {
        last = json_array_get(f->input.messages, r.at);
        rc = read_message(&r, last, e);
    }
    f->input.messages = r.list;
    if (rc == 0)
        rc = read_all_tools(&r, e);
    if (rc == 0)
        rc = check_thinking(f, e);
    if (rc == 0 && strcmp(json_string_value(json_object_get(last, "role")), "assistant") == 0) {
        f->input.continue_final_message = true;
        f->input.add_generation_prompt = false;
    }
    return rc;
}

/* ---- answers ---- */

const struct schema anthropic_error_schema = {
    "AnthropicError",
    "{'type':'object','required':['type','error'],'properties':{'type':{'const':'error'},"
    "'error':{'type':'object','required':['type','message'],'properties':{'type':{'type':'string'},"
    "'message':{'type':'string'},'details':{'type':'object'}}}}}",
    NULL};

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
    dialect_put_string(out, param);
    /* clients recognize this error code and go on without `thread` */
    if (param && strcmp(param, "thread") == 0)
        buf_str(out,
                ",\"details\":{\"error_code\":\"thread_unsupported_request\",\"unsupported\":[\"thread\"]}");
    buf_str(out, "}}");
}

static void put_counts(size_t n_input, size_t n_cached, size_t n_output, struct buf *out)
{
    buf_fmt(
        out,
        "\"usage\":{\"input_tokens\":%zu,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%zu,"
        "\"output_tokens\":%zu}",
        n_input - n_cached, n_cached, n_output);
}

static void put_usage(const struct dialect_writer *w, struct buf *out)
{
    put_counts(w->q->n_prompt_tokens, w->a->prompt->n_cached, w->a->choice->n_output, out);
}

/* Writes stop_reason and stop_sequence. A cancelled answer has the stop_reason null, because Anthropic's API
 * has none for it. */
static void put_stop(const struct answer_choice *h, struct buf *out)
{
    bool called = h->said.calls.n_given > 0;
    const char *reason = h->finish == GALLOP_FINISH_LENGTH ? "max_tokens"
                         : called                          ? "tool_use"
                         : h->stop_string                  ? "stop_sequence"
                                                           : "end_turn";

    buf_str(out, "\"stop_reason\":");
    dialect_put_string(out,
                       h->finish == GALLOP_FINISH_LENGTH || h->finish == GALLOP_FINISH_STOP ? reason : NULL);
    buf_str(out, ",\"stop_sequence\":");
    dialect_put_string(out, h->finish == GALLOP_FINISH_STOP && !called ? h->stop_string : NULL);
}

/* If the request has context_management, writes an empty list of applied edits: Gallop applies none. */
static void put_edits(const struct request *q, struct buf *out)
{
    if (q->field.output.asks_for_edits)
        buf_str(out, ",\"context_management\":{\"applied_edits\":[]}");
}

static void put_head(const struct request *q, struct buf *out)
{
    buf_str(out, "\"id\":");
    dialect_put_string(out, q->id);
    buf_str(out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    dialect_put_string(out, request_model(q));
}

static void put_content(const struct answer_choice *h, struct buf *out)
{
    const struct message_calls *calls = &h->said.calls;

    buf_json_begin(out, '[');
    if (h->said.reasoning.len) {
        buf_str(out, "{\"type\":\"thinking\",\"thinking\":");
        dialect_put_text(out, &h->said.reasoning);
        buf_str(out, ",\"signature\":\"\"}");
    }
    if (h->said.text.len) {
        buf_str(out, h->said.reasoning.len ? "," : "");
        buf_str(out, "{\"type\":\"text\",\"text\":");
        dialect_put_text(out, &h->said.text);
        buf_str(out, "}");
    }
    for (size_t i = 0; i < calls->n_ready; i++) {
        const struct message_call *v = &calls->v[i];

        buf_str(out, i || h->said.text.len || h->said.reasoning.len ? "," : "");
        buf_fmt(out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", v->id);
        dialect_put_string(out, message_call_name(calls, v));
        buf_str(out, ",\"input\":");
        dialect_put_arguments(message_call_arguments(calls, v), v->n_arguments, out);
        buf_str(out, "}");
    }
    buf_json_end(out, ']');
}

const struct schema anthropic_schema = {
    "Message",
    "{'type':'object','required':['id','type','role','model','content','stop_reason','stop_sequence',"
    "'usage'],'properties':{'warnings':{'type':'array','items':{'type':'string'}},"
    "'id':{'type':'string'},'type':{'const':'message'},"
    "'role':{'const':'assistant'},'model':{'type':'string'},'content':{'type':'array',"
    "'items':{'type':'object','required':['type']}},'stop_reason':{'enum':['end_turn','max_tokens',"
    "'stop_sequence','tool_use','abort']},'stop_sequence':{'type':['string','null']},"
    "'usage':{'type':'object','required':['input_tokens','output_tokens'],"
    "'properties':{'input_tokens':{'type':'integer'},'output_tokens':{'type':'integer'}}}}}",
    NULL};

static void anthropic_put_whole(const struct dialect_writer *w, struct buf *out)
{
    buf_str(out, "{");
    put_head(w->q, out);
    buf_str(out, ",\"content\":");
    put_content(w->a->choice, out);
    buf_str(out, ",");
    put_stop(w->a->choice, out);
    buf_str(out, ",");
    put_usage(w, out);
    put_edits(w->q, out);
    dialect_put_warnings(w->a, out);
    buf_str(out, "}");
}

/* ---- events ---- */

static bool open_blocks(struct dialect_writer *w)
{
    w->state = mem_zalloc(1, sizeof(struct blocks), MEM_API);
    return w->state != NULL;
}

static void close_blocks(struct dialect_writer *w)
{
    mem_free(w->state);
}

static void begin_event(struct buf *out, const char *type)
{
    buf_fmt(out, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void put_begin(const struct dialect_writer *w, struct buf *out)
{
    begin_event(out, "message_start");
    buf_str(out, ",\"message\":{");
    put_head(w->q, out);
    buf_str(out, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,");
    /* cached and output tokens are 0, because their present numbers depend on timing */
    put_counts(w->q->n_prompt_tokens, 0, 0, out);
    buf_str(out, "}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n");
}

static void open_block(const struct dialect_writer *w, const char *id, const char *name, struct buf *out)
{
    const struct blocks *b = w->state;

    begin_event(out, "content_block_start");
    buf_fmt(out, ",\"index\":%zu,\"content_block\":", b->n);
    if (b->kind == BLOCKS_CALL) {
        buf_fmt(out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", id);
        dialect_put_string(out, name);
        buf_str(out, ",\"input\":{}}}\n\n");
    } else {
        buf_str(out, b->kind == BLOCKS_TEXT
                         ? "{\"type\":\"text\",\"text\":\"\"}}\n\n"
                         : "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n");
    }
}

static void add_to_block(const struct dialect_writer *w, const char *text, size_t n, struct buf *out)
{
    static const char *const deltas[][2] = {[BLOCKS_REASONING] = {"thinking_delta", "thinking"},
                                            [BLOCKS_TEXT] = {"text_delta", "text"},
                                            [BLOCKS_CALL] = {"input_json_delta", "partial_json"}};
    const struct blocks *b = w->state;

    begin_event(out, "content_block_delta");
    buf_fmt(out, ",\"index\":%zu,\"delta\":{\"type\":\"%s\",\"%s\":", b->n, deltas[b->kind][0],
            deltas[b->kind][1]);
    buf_json_str(out, text, n);
    buf_str(out, "}}\n\n");
}

static void close_block(const struct dialect_writer *w, struct buf *out)
{
    const struct blocks *b = w->state;

    begin_event(out, "content_block_stop");
    buf_fmt(out, ",\"index\":%zu}\n\n", b->n);
}

static void anthropic_put_part(const struct dialect_writer *w, size_t i, struct buf *out)
{
    static const struct blocks_writer blocks = {open_block, add_to_block, close_block};

    blocks_put(w, w->state, &blocks, &w->a->choice[i], out);
}

static void anthropic_put_end(const struct dialect_writer *w, int status, const char *sentence,
                              struct buf *out)
{
    if (status) {
        buf_str(out, "event: error\ndata: ");
        put_error(out, status, sentence, NULL);
        buf_str(out, "\n\n");
        return;
    }
    begin_event(out, "message_delta");
    buf_str(out, ",\"delta\":{");
    put_stop(w->a->choice, out);
    buf_str(out, "},");
    put_usage(w, out);
    put_edits(w->q, out);
    dialect_put_warnings(w->a, out);
    buf_str(out, "}\n\n");
    begin_event(out, "message_stop");
    buf_str(out, "}\n\n");
}

const struct dialect anthropic_dialect = {.prefix = "msg_",
                                          .type = "text/event-stream; charset=utf-8",
                                          .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                                          .read = anthropic_read_request,
                                          .open = open_blocks,
                                          .close = close_blocks,
                                          .whole = anthropic_put_whole,
                                          .begin = put_begin,
                                          .part = anthropic_put_part,
                                          .end = anthropic_put_end,
                                          .error = put_error,
                                          .error_schema = &anthropic_error_schema};
