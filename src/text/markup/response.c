/* response.c - finds the rows of markup that a response_template describes. */
#include "text/markup/response.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/log.h"

/* Appends the strings within V: marks, and regular expressions without the backslashes before marks. */
static void add_strings(const json_t *v, struct buf *out)
{
    const char *key, *s = json_string_value(v);
    json_t *member;
    size_t i;

    for (; s && *s; s++)
        if (*s != '\\' || !s[1] || !strchr("<>[](){}|/.-:=\"", s[1]))
            buf_char(out, *s);
    if (json_is_string(v))
        buf_char(out, '\n');
    json_array_foreach(v, i, member) add_strings(member, out);
    json_object_foreach((json_t *)(uintptr_t)v, key, member) add_strings(member, out);
}

static bool shows(const struct buf *strings, const char *mark)
{
    return mark && strings->len && strstr(strings->data, mark);
}

/* Returns the row of the tool calls in the field V, whose strings are given; NULL: there is none. */
static const struct markup_calls *calls_of(const json_t *v, const struct buf *strings)
{
    static const struct {
        const char *content;
        unsigned shapes;
    } forms[] = {{"json", MARKUP_OBJECT | MARKUP_LIST | MARKUP_NAMED},
                 {"xml-inline", MARKUP_XML},
                 {"python-call-list", MARKUP_PYTHON}};
    const struct markup_calls *row = strings->len ? markup_calls_shown(strings->data) : NULL;
    const char *content = json_string_value(json_object_get(v, "content"));
    bool closes = row && ((!row->close[0] && !row->call_close[0]) || shows(strings, row->close[0]) ||
                          shows(strings, row->call_close[0]));

    for (size_t i = 0; closes && content && i < sizeof(forms) / sizeof(forms[0]); i++)
        if (strcmp(content, forms[i].content) == 0 && row->shapes & forms[i].shapes &&
            (!row->value_close || row->shapes & MARKUP_OBJECT || shows(strings, row->value_close)))
            return row;
    return NULL;
}

/* Returns the row with the longest marks of reasoning and content among STRINGS; NULL: there is none. */
static const struct markup_reasoning *reasoning_of(const struct buf *strings)
{
    const struct markup_reasoning *best = NULL, *row;
    size_t most = 0, n;

    for (size_t i = 0; (row = markup_reasoning_row(i)) != NULL; i++) {
        if (row->implied || !shows(strings, row->open) || !shows(strings, row->close) ||
            (row->text_open[0] && !shows(strings, row->text_open[0])))
            continue;
        n = strlen(row->open) + (row->text_open[0] ? strlen(row->text_open[0]) : 0);
        best = n > most ? row : best;
        most = n > most ? n : most;
    }
    return best;
}

int response_read(const char *text, struct markup *m, struct err *e)
{
    struct buf in_calls = {.tag = MEM_TEXT}, in_all = {.tag = MEM_TEXT};
    json_t *template = NULL, *fields, *calls;
    const struct markup_calls *c;
    const struct markup_reasoning *r;
    int rc = json_pull_load_exact(&template, text, strlen(text), "response_template", e);

    if (rc)
        return rc;
    fields = json_object_get(template, "fields");
    calls = json_object_get(fields, "tool_calls");
    add_strings(calls, &in_calls);
    add_strings(fields, &in_all);
    c = calls_of(calls, &in_calls);
    r = reasoning_of(&in_all);
    if (c) {
        m->calls = c;
        m->calls_origin = MARKUP_DESCRIBED;
    }
    if (r) {
        m->reasoning = r;
        m->reasoning_origin = MARKUP_DESCRIBED;
    }
    if (in_calls.oom || in_all.oom)
        rc = err_nomem(e, "a response_template");
    else if ((calls && !c) || (json_object_get(fields, "thinking") && !r))
        log_warn(
            "the response_template of tokenizer_config.json describes %s in a form that is not supported; the chat "
            "template decides",
            calls && !c ? "tool calls" : "reasoning");
    buf_fini(&in_calls);
    buf_fini(&in_all);
    json_decref(template);
    return rc;
}
