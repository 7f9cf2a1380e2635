/* messages.c - converts a conversation for the chat template, and renders it.
 *
 * Templates expect messages of one form. Content that is a list of parts becomes one string with a line
 * end between parts, as in vLLM. Missing content, which clients send beside tool calls, becomes an empty
 * string. Arguments of tool calls become objects.
 */
#include "api/prepare/messages.h"

#include <string.h>
#include <time.h>

#include "api/api.h"
#include "api/dialect/dialect.h"
#include "api/markup/roles.h"
#include "api/markup/tools.h"
#include "api/request.h"
#include "base/buf.h"
#include "text/chat.h"
#include "text/jinja/jinja.h"

const json_t *messages_part_text(const json_t *part)
{
    static const struct {
        const char *type, *member;
    } kinds[] = {{"text", "text"},
                 {"input_text", "text"},
                 {"output_text", "text"},
                 {"refusal", "refusal"},
                 {"thinking", "thinking"}};
    const json_t *type = json_object_get(part, "type"), *text;

    if (json_is_string(part))
        return part;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (dialect_is(type, kinds[i].type)) {
            text = json_object_get(part, kinds[i].member);
            return text ? text : part;
        }
    return NULL;
}

/* Returns a new string that joins the texts of the parts of CONTENT; NULL: an error. MESSAGE: index of the
 * message, for errors. */
static json_t *join_parts(const json_t *content, size_t message, struct err *e)
{
    struct buf text = {.tag = MEM_API};
    bool begun = false;
    json_t *part, *out;
    size_t i;
    int rc = 0;

    json_array_foreach(content, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *piece = messages_part_text(part);

        if (!piece)
            rc = err_set(e, type ? ERR_UNSUPPORTED : ERR_INPUT,
                         "messages[%zu].content[%zu]: parts of type '%.40s' are not supported, expected text",
                         message, i, type ? type : "");
        else if (!json_is_string(piece) && !json_is_null(piece))
            rc = err_set(e, ERR_INPUT, "messages[%zu].content[%zu].%s: expected a string", message, i,
                         strstr(type, "text") ? "text" : type);
        if (rc)
            break;
        if (json_is_null(piece)) /* the text of the part is null */
            continue;
        if (begun)
            buf_char(&text, '\n');
        begun = true;
        buf_add(&text, json_string_value(piece), json_string_length(piece));
    }
    if (rc == 0 && text.oom)
        rc = err_nomem(e, "messages");
    out = rc ? NULL : json_stringn(text.data ? text.data : "", text.len);
    if (rc == 0 && !out)
        err_nomem(e, "messages");
    buf_fini(&text);
    return out;
}

static int convert(const json_t *from, size_t i, json_t *list, struct err *e)
{
    json_t *m = json_copy((json_t *)(uintptr_t)from), *content = json_object_get(m, "content"), *joined;
    int rc = m ? 0 : err_nomem(e, "messages");

    if (rc == 0 && !json_is_string(json_object_get(m, "role")))
        rc = err_set(e, ERR_INPUT, "messages[%zu].role: expected a string", i);
    if (rc == 0 && json_is_array(content)) {
        joined = join_parts(content, i, e);
        rc = joined && json_object_set_new(m, "content", joined) == 0 ? 0 : e->code;
    } else if (rc == 0 && (!content || json_is_null(content))) {
        rc = json_object_set_new(m, "content", json_string("")) == 0 ? 0 : err_nomem(e, "messages");
    } else if (rc == 0 && !json_is_string(content)) {
        rc = err_set(e, ERR_INPUT, "messages[%zu].content: expected a string or a list of parts", i);
    }
    if (rc == 0 && json_array_append(list, m) != 0)
        rc = err_nomem(e, "messages");
    json_decref(m);
    return rc;
}

/* Sets the template's variables in O, with LIST as its messages. Later variables replace earlier ones. */
static int set_variables(struct request *q, json_t *o, json_t *list)
{
    const struct fields *f = &q->field;
    int bad = 0;

    if (q->server->template_kwargs)
        bad |= json_object_update(o, (json_t *)(uintptr_t)q->server->template_kwargs);
    if (f->input.reasoning_effort)
        bad |= json_object_set_new(o, "reasoning_effort", json_string(f->input.reasoning_effort));
    if (f->input.thinking != FIELDS_THINKING_UNSAID) { /* most templates read these */
        bad |=
            json_object_set_new(o, "enable_thinking", json_boolean(f->input.thinking == FIELDS_THINKING_ON));
        bad |= json_object_set_new(o, "thinking", json_boolean(f->input.thinking == FIELDS_THINKING_ON));
    }
    if (f->input.thinking == FIELDS_THINKING_OFF) { /* templates of Cohere and Seed-OSS read these */
        bad |= json_object_set_new(o, "reasoning", json_false());
        bad |= json_object_set_new(o, "thinking_budget", json_integer(0));
    }
    if (f->input.kwargs)
        bad |= json_object_update(o, (json_t *)(uintptr_t)f->input.kwargs);
    if (request_has_tools(q) && q->server->tools->place == TOOLS_IN_VARIABLE)
        bad |= json_object_set(o, "tools", (json_t *)(uintptr_t)f->input.tools);
    if (f->input.documents)
        bad |= json_object_set(o, "documents", (json_t *)(uintptr_t)f->input.documents);
    return bad | json_object_set(o, "messages", list);
}

/* A tag that is appended to the text of the last message, to find the end of this text in the rendered
 * prompt. The blank at its end shows whether the template trims the text of messages. transformers finds the
 * end in the same way for continue_final_message. */
static const char end_tag[] = "CONTINUE_FINAL_MESSAGE_TAG ";

/* Appends the tag to the text of the last message of LIST. The message object is replaced, not modified. */
static int add_end_tag(json_t *list, struct err *e)
{
    size_t last = json_array_size(list) - 1;
    const json_t *m = json_array_get(list, last), *content = json_object_get(m, "content");
    struct buf text = {.tag = MEM_API};
    json_t *copy;
    int rc = 0;

    if (!json_is_string(content))
        return err_set(e, ERR_INPUT, "continue_final_message: the content of the last message is not a text");
    buf_add(&text, json_string_value(content), json_string_length(content));
    buf_str(&text, end_tag);
    copy = text.oom ? NULL : json_copy((json_t *)(uintptr_t)m);
    if (!copy || json_object_set_new(copy, "content", json_stringn(text.data, text.len)) != 0 ||
        json_array_set(list, last, copy) != 0)
        rc = err_nomem(e, "messages");
    json_decref(copy);
    buf_fini(&text);
    return rc;
}

/* Sets *OUT to a new object with the converted messages and the template variables of the request. */
static int make_variables(struct request *q, json_t **out, struct err *e)
{
    json_t *o = json_object(), *list = json_array();
    int rc = o && list ? 0 : err_nomem(e, "messages");

    for (size_t i = 0; i < json_array_size(q->field.input.messages) && rc == 0; i++)
        rc = convert(json_array_get(q->field.input.messages, i), i, list, e);
    if (rc == 0)
        rc = roles_fit(q->server->roles, list, e);
    if (rc == 0)
        rc = tools_fit(q->server->tools, list, request_has_tools(q) ? q->field.input.tools : NULL, e);
    if (rc == 0 && q->field.input.continue_final_message)
        rc = add_end_tag(list, e);
    if (rc == 0 && set_variables(q, o, list) != 0)
        rc = err_nomem(e, "messages");
    json_decref(list);
    if (rc)
        json_decref(o);
    *out = rc ? NULL : o;
    return rc;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Truncates OUT, whose rendered text begins at offset FROM, after the text of the last message. */
static int leave_open(struct buf *out, size_t from, struct err *e)
{
    const size_t n = sizeof(end_tag) - 2; /* length without the blank */
    size_t at = out->len;
    bool trims;

    while (at >= from + n && memcmp(out->data + at - n, end_tag, n) != 0)
        at--;
    if (at < from + n)
        return err_set(e, ERR_INPUT, "continue_final_message: the template does not write the last message");
    trims = out->data[at] != ' ';
    at -= n;
    while (trims && at > from && is_blank(out->data[at - 1]))
        at--;
    out->len = at;
    out->data[at] = 0;
    return 0;
}

int messages_render(struct request *q, struct buf *out, struct buf *origin, struct err *e)
{
    const struct api_options *o = q->server;
    time_t seconds = time(NULL);
    json_t *given, *variables = NULL;
    size_t from = out->len;
    struct tm now;
    int rc;

    if (q->field.input.continue_final_message && q->field.input.add_generation_prompt)
        return fields_blame(
            &q->field, "continue_final_message",
            err_set(e, ERR_INPUT, "continue_final_message and add_generation_prompt cannot both be true"));
    if (!o->chat)
        return err_set(e, ERR_INPUT, "%s", o->chat_missing);
    if ((rc = make_variables(q, &given, e)) != 0)
        return rc;
    localtime_r(&seconds, &now);
    if ((rc = chat_variables(o->chat, given, q->field.input.add_generation_prompt, &variables, e)) == 0)
        rc = o->plain_user_text
                 ? chat_render_marked(o->chat, o->template, variables, NULL, &now, out, origin, e)
             : o->template ? jinja_render(o->template, variables, &now, NULL, out, e)
                           : chat_render(o->chat, variables, NULL, &now, out, e);
    if (rc == 0 && q->field.input.continue_final_message)
        rc = leave_open(out, from, e);
    json_decref(variables);
    json_decref(given);
    return rc;
}
