/* responses.c - OpenAI's Responses: a conversation of items, made into a chat, and answers of items.
 *
 * Nothing is kept: what refers to an earlier response is refused. Messages, calls of functions, their results
 * and the reasoning of earlier turns are understood. Each event has its number; the last holds the whole
 * response. Form: https://platform.openai.com/docs/api-reference/responses, .../responses-streaming.
 */
#include <math.h>
#include <string.h>

#include "api/call.h"

/* ---- from items to a chat ---- */

static int out_of_memory(struct err *e)
{
    return err_nomem(e, "input");
}

/* CONTENT, a text or a list of texts, as a chat has it, to *OUT (a new reference). */
static int read_content(const json_t *content, size_t at, json_t **out, struct err *e)
{
    const json_t *part;
    size_t i;

    *out = NULL;
    if (json_is_string(content)) {
        *out = json_incref((json_t *)(uintptr_t)content);
        return 0;
    }
    if (!json_is_array(content))
        return err_set(e, ERR_INPUT, "input[%zu]: expected a text or a list of texts", at);
    if ((*out = json_array()) == NULL)
        return out_of_memory(e);
    json_array_foreach(content, i, part)
    {
        const json_t *type = json_object_get(part, "type"), *text = json_object_get(part, "text");

        if (!form_is(type, "input_text") && !form_is(type, "output_text") && !form_is(type, "text") &&
            !form_is(type, "reasoning_text"))
            return err_set(e, ERR_UNSUPPORTED, "input[%zu]: a part of type '%.40s' is not supported here", at,
                           json_is_string(type) ? json_string_value(type) : "");
        if (!json_is_string(text))
            return err_set(e, ERR_INPUT, "input[%zu]: expected the text of a part", at);
        if (json_array_append_new(*out, json_pack("{s:s,s:O}", "type", "text", "text", text)) != 0)
            return out_of_memory(e);
    }
    return 0;
}

static int add(json_t *list, json_t *message, struct err *e)
{
    return json_array_append_new(list, message) == 0 ? 0 : out_of_memory(e);
}

/* The assistant's message at the end of LIST, to which more is added; made if there is none. Borrowed. */
static json_t *open_turn(json_t *list)
{
    json_t *last = json_array_get(list, json_array_size(list) - 1);

    if (json_array_size(list) && form_is(json_object_get(last, "role"), "assistant"))
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

    if (!form_is(role, "user") && !form_is(role, "assistant") && !form_is(role, "system") &&
        !form_is(role, "developer"))
        return err_set(e, ERR_INPUT, "input[%zu].role: expected user, assistant, system or developer", at);
    rc = read_content(json_object_get(item, "content"), at, &content, e);
    turn = json_array_get(list, json_array_size(list) - 1);
    if (rc == 0 && form_is(role, "assistant") && json_object_get(turn, "reasoning_content") &&
        form_is(json_object_get(turn, "content"), ""))
        rc = json_object_set(turn, "content", content) == 0 ? 0 : out_of_memory(e); /* behind its reasoning */
    else if (rc == 0)
        rc = add(list, json_pack("{s:s,s:O}", "role", json_string_value(role), "content", content), e);
    json_decref(content);
    return rc;
}

static int read_call(json_t *list, const json_t *item, size_t at, struct err *e)
{
    const json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name"),
                 *arguments = json_object_get(item, "arguments");
    json_t *turn, *calls;

    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments))
        return err_set(e, ERR_INPUT, "input[%zu]: expected call_id, name and arguments as strings", at);
    turn = open_turn(list);
    calls = json_object_get(turn, "tool_calls");
    if (turn && !calls) {
        json_object_set_new(turn, "tool_calls", json_array());
        calls = json_object_get(turn, "tool_calls");
    }
    return calls ? add(calls,
                       json_pack("{s:O,s:s,s:{s:O,s:O}}", "id", id, "type", "function", "function", "name",
                                 name, "arguments", arguments),
                       e)
                 : out_of_memory(e);
}

static int read_result(json_t *list, const json_t *item, size_t at, struct err *e)
{
    const json_t *id = json_object_get(item, "call_id");
    json_t *content;
    int rc;

    if (!json_is_string(id))
        return err_set(e, ERR_INPUT, "input[%zu].call_id: expected a string", at);
    rc = read_content(json_object_get(item, "output"), at, &content, e);
    if (rc == 0)
        rc = add(list, json_pack("{s:s,s:O,s:O}", "role", "tool", "tool_call_id", id, "content", content), e);
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

static int read_item(json_t *list, const json_t *item, size_t at, struct err *e)
{
    const json_t *type = json_object_get(item, "type");

    if (!type || form_is(type, "message"))
        return read_message(list, item, at, e);
    if (form_is(type, "function_call"))
        return read_call(list, item, at, e);
    if (form_is(type, "function_call_output"))
        return read_result(list, item, at, e);
    if (form_is(type, "reasoning"))
        return read_reasoning(list, item, at, e);
    return err_set(e, ERR_UNSUPPORTED, "input[%zu]: an item of type '%.40s' is not supported here", at,
                   json_is_string(type) ? json_string_value(type) : "");
}

/* A function without the wrapping that a chat has. */
static int read_tool(json_t *list, const json_t *tool, size_t i, struct err *e)
{
    json_t *function;

    if (!form_is(json_object_get(tool, "type"), "function"))
        return err_set(e, ERR_UNSUPPORTED, "tools[%zu]: only functions are supported by this server", i);
    function = json_copy((json_t *)(uintptr_t)tool);
    json_object_del(function, "type");
    json_object_del(function, "strict");
    return add(list, json_pack("{s:s,s:o}", "type", "function", "function", function), e);
}

static int read_request(struct call *c, struct err *e)
{
    json_t *list = json_array(), *tools = json_array();
    struct fields *f = &c->f;
    int rc;

    f->own = json_pack("[o,o]", list, tools);
    if (!f->own)
        return out_of_memory(e);
    fields_blame(f, "tools", 0);
    rc = 0;
    for (size_t i = 0; i < json_array_size(f->tools) && rc == 0; i++)
        rc = read_tool(tools, json_array_get(f->tools, i), i, e);
    if (rc == 0)
        rc = tools_check(tools, NULL, e);
    f->tools = tools;
    if (rc)
        return rc;
    fields_blame(f, "input", 0);
    if (f->system)
        rc = add(list, json_pack("{s:s,s:O}", "role", "system", "content", f->system), e);
    if (rc == 0 && json_is_string(f->prompt))
        rc = add(list, json_pack("{s:s,s:O}", "role", "user", "content", f->prompt), e);
    for (size_t i = 0; i < json_array_size(f->prompt) && rc == 0; i++)
        rc = read_item(list, json_array_get(f->prompt, i), i, e);
    f->prompt = NULL; /* as a chat from now on */
    f->messages = list;
    return rc;
}

/* ---- the response ---- */

static void put_json(const json_t *v, const char *otherwise, struct buf *out)
{
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    buf_str(out, text ? text : otherwise);
    out->oom |= v && !text;
    mem_free(text); /* jansson's memory is ours */
}

static void put_number(const char *name, double x, struct buf *out)
{
    buf_json_key(out, name);
    buf_json_real(out, isnan(x) ? 1 : x);
}

/* What of a response the request says. */
static void put_settings(const struct call *c, struct buf *out)
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
    const char *model = c->f.model ? c->f.model : c->api->opt.name[0];

    for (size_t i = 0; i < sizeof(echoed) / sizeof(echoed[0]); i++) {
        const json_t *v = json_object_get(c->f.body, echoed[i][0]);

        buf_json_key(out, echoed[i][0]);
        put_json(json_is_null(v) ? NULL : v, echoed[i][1], out);
    }
    buf_json_key(out, "model");
    buf_json_str(out, model, strlen(model));
    put_number("temperature", c->f.temperature, out);
    put_number("top_p", c->f.top_p, out);
    buf_str(
        out,
        ",\"background\":false,\"previous_response_id\":null,\"store\":false,\"service_tier\":\"default\","
        "\"text\":{\"format\":{\"type\":\"text\"}},\"top_logprobs\":0,\"truncation\":\"disabled\"");
}

static void put_usage(const struct call *c, struct buf *out)
{
    const struct call_choice *h = c->choice;

    buf_fmt(
        out,
        ",\"usage\":{\"input_tokens\":%zu,\"input_tokens_details\":{\"cached_tokens\":%zu},\"output_tokens\":%zu,"
        "\"output_tokens_details\":{\"reasoning_tokens\":%zu},\"total_tokens\":%zu}",
        c->n_prompt_tokens, c->prompt->n_cached, h->n_output, h->n_reasoning,
        c->n_prompt_tokens + h->n_output);
}

static const char *status_of(const struct call_choice *h)
{
    return h->finish == GALLOP_FINISH_STOP        ? "completed"
           : h->finish == GALLOP_FINISH_LENGTH    ? "incomplete"
           : h->finish == GALLOP_FINISH_CANCELLED ? "cancelled"
                                                  : "failed";
}

/* ENDED: as it is at its end, not as a stream begins with it, when all may be computed already. FAULT: why it
 * failed, or NULL. */
static void put_response(const struct call *c, bool ended, const char *fault, struct buf *out)
{
    const struct call_choice *h = c->choice;

    buf_str(out, "{\"id\":");
    buf_json_str(out, c->id, strlen(c->id));
    buf_fmt(out, ",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"error\":",
            (long long)c->created,
            fault   ? "failed"
            : ended ? status_of(h)
                    : "in_progress");
    if (fault) {
        buf_str(out, "{\"code\":\"server_error\",\"message\":");
        buf_json_str(out, fault, strlen(fault));
        buf_str(out, "}");
    } else {
        buf_str(out, "null");
    }
    buf_fmt(out, ",\"incomplete_details\":%s",
            ended && h->finish == GALLOP_FINISH_LENGTH ? "{\"reason\":\"max_output_tokens\"}" : "null");
    put_settings(c, out);
    buf_fmt(out, ",\"output\":[%s]", h->items.len ? h->items.data : "");
    if (ended)
        put_usage(c, out);
    else
        buf_str(out, ",\"usage\":null");
    buf_str(out, "}");
    out->oom |= h->items.oom;
}

/* ---- items and events ---- */

static void begin_event(struct call *c, const char *type, struct buf *out)
{
    buf_fmt(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%zu", type, type, c->n_events++);
}

static const char *prefix_of(const struct call_choice *h)
{
    return h->block == FORM_CALL ? "fc" : h->block == FORM_TEXT ? "msg" : "rs";
}

/* The id of the item that is open; clients choose part of it. */
static void put_id(const struct call *c, const struct call_choice *h, struct buf *out)
{
    char id[sizeof(c->request_id) + 32];

    snprintf(id, sizeof(id), "%s_%zu_%s", prefix_of(h), h->n_blocks, c->request_id);
    buf_json_str(out, id, strlen(id));
}

/* Members that say which item an event is about. */
static void put_place(const struct call *c, const struct call_choice *h, bool part, struct buf *out)
{
    buf_fmt(out, ",\"output_index\":%zu,\"item_id\":", h->n_blocks);
    put_id(c, h, out);
    buf_str(out, part ? ",\"content_index\":0" : "");
}

static void put_part(const struct call_choice *h, struct buf *out)
{
    buf_fmt(out, "{\"type\":\"%s\",\"text\":", h->block == FORM_TEXT ? "output_text" : "reasoning_text");
    buf_json_str(out, h->said.data ? h->said.data : "", h->said.len);
    buf_str(out, h->block == FORM_TEXT ? ",\"annotations\":[],\"logprobs\":[]}" : "}");
}

/* The item that is open; FULL: with what was said of it. */
static void put_item(const struct call *c, const struct call_choice *h, bool full, struct buf *out)
{
    const char *status = !full                                           ? "in_progress"
                         : h->is_last && h->finish != GALLOP_FINISH_STOP ? "incomplete"
                                                                         : "completed";

    buf_str(out, "{\"id\":");
    put_id(c, h, out);
    buf_char(out, ',');
    if (h->block == FORM_CALL) {
        buf_add(out, h->head.data, h->head.len);
        buf_str(out, ",\"arguments\":");
        buf_json_str(out, h->said.data ? h->said.data : "", full ? h->said.len : 0);
        buf_fmt(out, ",\"status\":\"%s\"}", status);
        return;
    }
    buf_fmt(out, "\"type\":\"%s\",\"status\":\"%s\",%s\"content\":[",
            h->block == FORM_TEXT ? "message" : "reasoning", status,
            h->block == FORM_TEXT ? "\"role\":\"assistant\"," : "\"summary\":[],");
    if (full)
        put_part(h, out);
    buf_str(out, "]}");
}

static void put_item_event(struct call *c, const struct call_choice *h, bool done, struct buf *out)
{
    begin_event(c, done ? "response.output_item.done" : "response.output_item.added", out);
    buf_fmt(out, ",\"output_index\":%zu,\"item\":", h->n_blocks);
    put_item(c, h, done, out);
    buf_str(out, "}\n\n");
}

static void open_item(struct call *c, struct call_choice *h, const char *id, const char *name,
                      struct buf *out)
{
    buf_clear(&h->said);
    buf_clear(&h->head);
    if (h->block == FORM_CALL) {
        buf_fmt(&h->head, "\"type\":\"function_call\",\"call_id\":\"%s\",\"name\":", id);
        buf_json_str(&h->head, name, strlen(name));
        out->oom |= h->head.oom;
    }
    put_item_event(c, h, false, out);
    if (h->block == FORM_CALL)
        return;
    begin_event(c, "response.content_part.added", out);
    put_place(c, h, true, out);
    buf_str(out, ",\"part\":");
    put_part(h, out);
    buf_str(out, "}\n\n");
}

static void add_to_item(struct call *c, struct call_choice *h, const char *text, size_t n, struct buf *out)
{
    static const char *const types[] = {[FORM_REASONING] = "response.reasoning_text.delta",
                                        [FORM_TEXT] = "response.output_text.delta",
                                        [FORM_CALL] = "response.function_call_arguments.delta"};

    buf_add(&h->said, text, n);
    out->oom |= h->said.oom;
    begin_event(c, types[h->block], out);
    put_place(c, h, h->block != FORM_CALL, out);
    buf_str(out, ",\"delta\":");
    buf_json_str(out, text, n);
    buf_str(out, h->block == FORM_TEXT ? ",\"logprobs\":[]}\n\n" : "}\n\n");
}

static void close_item(struct call *c, struct call_choice *h, struct buf *out)
{
    static const char *const types[] = {[FORM_REASONING] = "response.reasoning_text.done",
                                        [FORM_TEXT] = "response.output_text.done",
                                        [FORM_CALL] = "response.function_call_arguments.done"};

    begin_event(c, types[h->block], out);
    put_place(c, h, h->block != FORM_CALL, out);
    buf_fmt(out, ",\"%s\":", h->block == FORM_CALL ? "arguments" : "text");
    buf_json_str(out, h->said.data ? h->said.data : "", h->said.len);
    buf_str(out, h->block == FORM_TEXT ? ",\"logprobs\":[]}\n\n" : "}\n\n");
    if (h->block != FORM_CALL) {
        begin_event(c, "response.content_part.done", out);
        put_place(c, h, true, out);
        buf_str(out, ",\"part\":");
        put_part(h, out);
        buf_str(out, "}\n\n");
    }
    put_item_event(c, h, true, out);
    if (h->items.len)
        buf_char(&h->items, ',');
    put_item(c, h, true, &h->items);
}

static const struct form_blocks items = {open_item, add_to_item, close_item};

static void put_whole(struct call *c, struct buf *out)
{
    form_put_blocks(c, c->choice, &items, out);
    if (out->oom)
        return;
    buf_clear(out); /* what counts is in choice->items */
    put_response(c, true, NULL, out);
}

static void put_state(struct call *c, const char *type, bool ended, const char *fault, struct buf *out)
{
    begin_event(c, type, out);
    buf_str(out, ",\"response\":");
    put_response(c, ended, fault, out);
    buf_str(out, "}\n\n");
}

static void put_begin(struct call *c, struct buf *out)
{
    put_state(c, "response.created", false, NULL, out);
    put_state(c, "response.in_progress", false, NULL, out);
}

static void put_part_of_stream(struct call *c, size_t i, struct buf *out)
{
    form_put_blocks(c, &c->choice[i], &items, out);
    form_sent(&c->choice[i]);
}

static void put_end(struct call *c, int status, const char *sentence, struct buf *out)
{
    put_state(c,
              status                                    ? "response.failed"
              : c->choice->finish == GALLOP_FINISH_STOP ? "response.completed"
                                                        : "response.incomplete",
              true, status ? sentence : NULL, out);
}

const struct form responses_form = {.prefix = "resp_",
                                    .type = "text/event-stream; charset=utf-8",
                                    .ping = ": ping\n\n",
                                    .read = read_request,
                                    .whole = put_whole,
                                    .begin = put_begin,
                                    .part = put_part_of_stream,
                                    .end = put_end,
                                    .error = form_error,
                                    .error_schema = "Error"};
