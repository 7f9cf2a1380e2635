/* conversation.c - converts messages, renders them, and finds the end of the last one in the rendered prompt. */
#include "text/markup/conversation.h"

#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/chat.h"
#include "text/markup/template.h"

static bool is_text(const json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

const json_t *conversation_part_text(const json_t *part)
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
        if (is_text(type, kinds[i].type)) {
            text = json_object_get(part, kinds[i].member);
            return text ? text : part;
        }
    return NULL;
}

void conversation_last_text(const json_t *messages, struct buf *out)
{
    const json_t *content =
        json_object_get(json_array_get(messages, json_array_size(messages) - 1), "content");
    bool is_list = json_is_array(content), begun = false;

    for (size_t i = 0; i < (is_list ? json_array_size(content) : 1); i++) {
        const json_t *one = is_list ? conversation_part_text(json_array_get(content, i)) : content;

        if (!json_is_string(one))
            continue;
        if (begun)
            buf_char(out, '\n');
        begun = true;
        buf_add(out, json_string_value(one), json_string_length(one));
    }
}

/* Returns a new string that joins the texts of the parts of CONTENT; NULL: an error. MESSAGE: index of the
 * message, for errors. */
static json_t *join_parts(const json_t *content, size_t message, struct err *e)
{
    struct buf text = {.tag = MEM_TEXT};
    bool begun = false;
    json_t *part, *out;
    size_t i;
    int rc = 0;

    json_array_foreach(content, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *piece = conversation_part_text(part);

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

/* A tag that is appended to the text of the last message, to find the end of this text in the rendered
 * prompt. The blank at its end shows whether the template trims the text of messages. transformers finds the
 * end in the same way for continue_final_message. */
static const char end_tag[] = "CONTINUE_FINAL_MESSAGE_TAG ";

/* Appends the tag to the text of the last message of LIST. The message object is replaced, not modified. */
static int add_end_tag(json_t *list, struct err *e)
{
    size_t last = json_array_size(list) - 1;
    const json_t *m = json_array_get(list, last), *content = json_object_get(m, "content");
    struct buf text = {.tag = MEM_TEXT};
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

/* Sets *LIST to the messages of C and *TOOLS to its tools, as new lists in the form that the template
 * accepts. If the tools are not in OpenAI's format, *TOOLS does not change. */
static int fit(const struct conversation *c, json_t **list, json_t **tools, struct err *e)
{
    const struct template *t = c->template;
    int rc = 0;

    if (json_array_size(c->tools) && tools_check(c->tools, NULL, NULL) == 0)
        rc = tools_complete(&t->tools, c->tools, tools, e);
    if (rc == 0 && !(*list = json_array()))
        rc = err_nomem(e, "messages");
    for (size_t i = 0; i < json_array_size(c->messages) && rc == 0; i++)
        rc = convert(json_array_get(c->messages, i), i, *list, e);
    if (rc == 0)
        rc = roles_fit(&t->roles, *list, e);
    if (rc == 0)
        rc = tools_fit(&t->tools, *list, *tools ? *tools : c->tools, e);
    return rc == 0 && c->is_open ? add_end_tag(*list, e) : rc;
}

/* Sets *OUT to a new object with the variables of the template for C. */
static int make_variables(const struct conversation *c, json_t **out, struct err *e)
{
    json_t *o = json_object(), *fitting = NULL, *complete = NULL;
    int rc = !o ? err_nomem(e, "messages") : c->verbatim ? 0 : fit(c, &fitting, &complete, e);
    json_t *list = fitting ? fitting : c->messages, *tools = complete ? complete : c->tools;

    if (!c->verbatim && c->template->tools.place != TOOLS_IN_VARIABLE)
        tools = NULL;
    if (rc == 0 && ((c->variables && json_object_update(o, c->variables) != 0) ||
                    (tools && json_object_set(o, "tools", tools) != 0) ||
                    (list && json_object_set(o, "messages", list) != 0)))
        rc = err_nomem(e, "messages");
    if (rc == 0)
        rc = chat_variables(c->template->chat, o, c->add_generation_prompt, out, e);
    json_decref(complete);
    json_decref(fitting);
    json_decref(o);
    return rc;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Truncates OUT after the text of the last message, to which the tag was appended. The conversation begins at offset
 * FROM of OUT. */
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

int conversation_render(const struct conversation *c, struct buf *out, struct err *e)
{
    const struct template *t = c->template;
    time_t seconds = time(NULL);
    json_t *variables = NULL;
    size_t from = out->len;
    struct tm now;
    int rc = make_variables(c, &variables, e);

    if (rc)
        return c->file ? err_prefix(e, "%s", c->file) : rc;
    rc = chat_render(t->chat, t->jinja, variables, c->template_name,
                     c->now ? c->now : localtime_r(&seconds, &now), out, c->origin, e);
    json_decref(variables);
    return rc == 0 && c->is_open ? leave_open(out, from, e) : rc;
}
