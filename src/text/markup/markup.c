/* markup.c - finds rows by their names and from chat templates, and finds marks in texts. */
#include "text/markup/markup.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/param/param.h"
#include "base/utf8.h"

size_t markup_calls_marks(const struct markup_calls *row, const char **mark)
{
    const char *const *const lists[] = {row->open,       row->call,     row->close,
                                        row->call_close, row->name_end, row->key_open};
    const char *const single[] = {row->key_end, row->value_open, row->value_close, row->value_type,
                                  row->quote};
    size_t n = 0;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        for (size_t k = 0; k < (i ? MARKUP_MAX_MARKS : MARKUP_MAX_OPEN) && lists[i][k]; k++)
            mark[n++] = lists[i][k];
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++)
        if (single[i])
            mark[n++] = single[i];
    return n;
}

const struct markup_calls *markup_calls_row(size_t i)
{
    return i < markup_n_calls_rows ? &markup_calls_rows[i] : NULL;
}

const struct markup_reasoning *markup_reasoning_row(size_t i)
{
    return i < markup_n_reasoning_rows ? &markup_reasoning_rows[i] : NULL;
}

/* Returns whether a row with OWN and ALIASES is called NAME. */
static bool is_called(const char *own, const char *aliases, const char *name)
{
    return strcmp(own, name) == 0 || (*name && param_index(aliases, name, strlen(name)) >= 0);
}

const struct markup_calls *markup_calls_named(const char *name)
{
    for (size_t i = 0; i < markup_n_calls_rows; i++)
        if (is_called(markup_calls_rows[i].name, markup_calls_rows[i].aliases, name))
            return &markup_calls_rows[i];
    return NULL;
}

const struct markup_reasoning *markup_reasoning_named(const char *name)
{
    for (size_t i = 0; i < markup_n_reasoning_rows; i++)
        if (is_called(markup_reasoning_rows[i].name, markup_reasoning_rows[i].aliases, name))
            return &markup_reasoning_rows[i];
    return NULL;
}

static bool is_any(char c)
{
    return (unsigned char)c > ' ' && !strchr("<>[]{}()|\"'`", c);
}

size_t markup_match(const char *s, size_t n, const char *mark, bool *more)
{
    size_t at = 0;

    *more = false;
    for (; *mark; mark++) {
        if (*mark == MARKUP_ANY) {
            for (size_t i = 0; at < n && i < MARKUP_MOST_ANY && is_any(s[at]); i++)
                at++;
            *more = at == n;
            if (*more)
                return 0;
        } else if (at == n) {
            *more = true;
            return 0;
        } else if (s[at++] != *mark) {
            return 0;
        }
    }
    return at;
}

const char *markup_fixed(const char *mark)
{
    return mark && !strchr(mark, MARKUP_ANY) ? mark : NULL;
}

/* Appends TEXT, a text of markup_calls.form. WORD (NULL: none) replaces MARKUP_ANY, and TYPE replaces
 * MARKUP_TYPE. */
static void write_part(struct buf *out, const char *text, const char *word, const char *type)
{
    for (; text && *text; text++)
        if (*text == MARKUP_TYPE)
            buf_str(out, type);
        else if (*text == MARKUP_ANY)
            buf_str(out, word ? word : text[1] == '>' ? "" : "f");
        else if (*text != MARKUP_NUMBER)
            buf_char(out, *text == MARKUP_BLANK ? ' ' : *text);
}

void markup_example(const struct markup_calls *row, struct buf *out)
{
    const char *type = row->type_attribute && strcmp(row->type_attribute, "string") == 0 ? "false" : "number";

    write_part(out, row->form.open, NULL, NULL);
    write_part(out, row->form.before, NULL, NULL);
    buf_char(out, 'f');
    write_part(out, row->form.between, NULL, NULL);
    if (row->key_between) {
        write_part(out, row->key_open[0], NULL, NULL);
        buf_str(out, *row->key_between == '"' ? "\"a" : "a"); /* an attribute */
        write_part(out, row->key_between, NULL, type);
        buf_char(out, '1');
        write_part(out, row->value_after, row->shapes & MARKUP_TREE ? "a" : NULL, NULL);
    } else {
        buf_str(out, "{\"a\": 1}");
    }
    write_part(out, row->form.after, NULL, NULL);
    write_part(out, row->form.close, NULL, NULL);
}

static bool shows(const char *template, const char *what)
{
    return strstr(template, what) != NULL;
}

static bool shows_channels(const char *template)
{
    return shows(template, "<|channel|>") && shows(template, "<|message|>");
}

/* Returns whether TEMPLATE has each tag of MARK, and the text between them. */
static bool shows_parts(const char *template, const char *mark)
{
    char part[128];
    size_t n;

    if (!markup_fixed(mark) || strlen(mark) >= sizeof(part))
        return false;
    for (; *mark; mark += n) {
        n = *mark == '<' ? strcspn(mark, ">") : strcspn(mark, "<");
        n += *mark == '<' && mark[n] == '>';
        memcpy(part, mark, n);
        part[n] = 0;
        if (!shows(template, part))
            return false;
    }
    return true;
}

/* Returns the number of bytes of the marks of ROW if TEMPLATE has them all; 0: some are missing, or they are too short
 * to decide. */
static size_t n_shown(const char *template, const struct markup_calls *row)
{
    const char *const marks[] = {row->open[0], row->call[0],
                                 row->shapes & MARKUP_NAMED ? row->name_end[0] : NULL, row->key_open[0],
                                 row->value_open};
    size_t n = 0;

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (marks[i] && !shows_parts(template, marks[i]))
            return 0;
        n += marks[i] ? strlen(marks[i]) : 0;
    }
    if (row->shapes & MARKUP_OBJECT && !row->args_key && !shows(template, "arguments") &&
        !shows(template, "parameters"))
        return 0;
    return row->bare || n < strlen("<tool_call>") ? 0 : n;
}

const struct markup_calls *markup_calls_shown(const char *template)
{
    const struct markup_calls *best = NULL;
    size_t most = 0;

    if (shows_channels(template))
        return markup_calls_named("openai");
    if (shows(template, "[TOOL_CALLS]"))
        return markup_calls_named("mistral");
    if (shows(template, "<|tool|>") && shows(template, "<|/tool|>"))
        return markup_calls_named("phi4_mini_json");
    if (shows(template, "<|start_header_id|>") && shows(template, "\"name\": function name, \"parameters\":"))
        return markup_calls_named("llama3_json");
    for (size_t i = 0; i < markup_n_calls_rows; i++) {
        size_t n = n_shown(template, &markup_calls_rows[i]);

        best = n > most ? &markup_calls_rows[i] : best;
        most = n > most ? n : most;
    }
    return best;
}

const struct markup_reasoning *markup_reasoning_shown(const char *template)
{
    if (shows_channels(template))
        return markup_reasoning_named("openai_gptoss");
    if (shows(template, "[THINK]"))
        return markup_reasoning_named("mistral");
    if (shows(template, "<|channel>thought"))
        return markup_reasoning_named("gemma4");
    if (shows(template, "</think>"))
        return markup_reasoning_named(shows(template, "<｜Assistant｜>") ? "deepseek_r1" : "qwen3");
    return NULL;
}

void markup_shown(const char *template, struct markup *out)
{
    *out =
        (struct markup){.calls = markup_calls_shown(template), .reasoning = markup_reasoning_shown(template)};
    out->calls_origin = out->calls ? MARKUP_SHOWN : MARKUP_NO_ORIGIN;
    out->reasoning_origin = out->reasoning ? MARKUP_SHOWN : MARKUP_NO_ORIGIN;
}

void markup_calls_names(struct buf *out)
{
    for (size_t i = 0; i < markup_n_calls_rows; i++)
        buf_fmt(out, "%s%s", i ? ", " : "", markup_calls_rows[i].name);
}

void markup_reasoning_names(struct buf *out)
{
    for (size_t i = 0; i < markup_n_reasoning_rows; i++)
        buf_fmt(out, "%s%s", i ? ", " : "", markup_reasoning_rows[i].name);
}

const char *markup_origin_name(enum markup_origin origin)
{
    static const char *const names[] = {[MARKUP_NO_ORIGIN] = "none",
                                        [MARKUP_NAMED_ROW] = "as configured",
                                        [MARKUP_RENDERED] = "rendered",
                                        [MARKUP_SHOWN] = "shown in the template",
                                        [MARKUP_DESCRIBED] = "described in response_template"};

    return names[origin];
}

json_t *markup_json(const struct markup *m)
{
    return json_pack("{s:s?,s:s?,s:s,s:s}", "tool_call_parser", m->calls ? m->calls->name : NULL,
                     "reasoning_parser", m->reasoning ? m->reasoning->name : NULL, "tool_call_parser_from",
                     markup_origin_name(m->calls_origin), "reasoning_parser_from",
                     markup_origin_name(m->reasoning_origin));
}

/* Sets E to an error: NAME, the value of the option SUBJECT, is none of the names that WRITE_NAMES writes. */
static int name_refuse(const char *subject, const char *name, void (*write_names)(struct buf *),
                       struct err *e)
{
    struct buf names;
    int rc;

    buf_init(&names, MEM_TEXT);
    write_names(&names);
    rc = err_about(e, ERR_USAGE, subject, "found '%.40s', expected auto, none, %s", name, names.data);
    buf_fini(&names);
    return rc;
}

int markup_choose(struct markup *out, const char *calls, const char *reasoning, const struct markup *found,
                  struct err *e)
{
    *out = found ? *found : (struct markup){.calls = NULL};
    if (strcmp(calls, "auto") != 0) {
        out->calls = markup_calls_named(calls);
        out->calls_origin = out->calls ? MARKUP_NAMED_ROW : MARKUP_NO_ORIGIN;
        out->plain_calls = strcmp(calls, "none") == 0;
        if (!out->calls && !out->plain_calls)
            return name_refuse("tool_call_parser", calls, markup_calls_names, e);
    }
    if (strcmp(reasoning, "auto") != 0) {
        out->reasoning = markup_reasoning_named(reasoning);
        out->reasoning_origin = out->reasoning ? MARKUP_NAMED_ROW : MARKUP_NO_ORIGIN;
        if (!out->reasoning && strcmp(reasoning, "none") != 0)
            return name_refuse("reasoning_parser", reasoning, markup_reasoning_names, e);
    }
    return 0;
}

/* Returns the length of S [n] without trailing white space. */
static size_t trimmed(const char *s, size_t n)
{
    while (n && utf8_is_blank(s[n - 1]))
        n--;
    return n;
}

/* Returns whether S [n] ends with MARK without MARK's trailing white space. MARK NULL: false. */
static bool ends_with(const char *s, size_t n, const char *mark)
{
    char bare[128];
    size_t len = mark ? trimmed(mark, strlen(mark)) : 0;
    bool more;

    if (len == 0 || len >= sizeof(bare))
        return false;
    memcpy(bare, mark, len);
    bare[len] = 0;
    for (size_t at = n > len + MARKUP_MOST_ANY ? n - len - MARKUP_MOST_ANY : 0; at < n; at++)
        if (markup_match(s + at, n - at, bare, &more) == n - at)
            return true;
    return false;
}

/* Returns the end of the last occurrence of MARK in S [n]; 0: there is none. */
static size_t last_of(const char *s, size_t n, const char *mark)
{
    bool more;

    for (size_t at = n; at-- > 0;) {
        size_t len = markup_match(s + at, n - at, mark, &more);

        if (len)
            return at + len;
    }
    return 0;
}

bool markup_in_text(const struct markup_reasoning *r, const char *prompt, size_t n)
{
    n = trimmed(prompt, n);
    return r && (ends_with(prompt, n, r->text_open[0]) || ends_with(prompt, n, r->text_open[1]));
}

enum markup_place markup_place(const struct markup_reasoning *r, const char *prompt, size_t n,
                               const char *continued, size_t n_continued)
{
    bool is_new = !continued || trimmed(continued, n_continued) == 0;

    if (!r || r->channels)
        return is_new ? MARKUP_BEFORE : MARKUP_CONTENT;
    n = trimmed(prompt, n);
    if (ends_with(prompt, n, r->open))
        return MARKUP_OPENED;
    if (ends_with(prompt, n, r->close) || markup_in_text(r, prompt, n))
        return MARKUP_CLOSED;
    if (is_new)
        return r->implied ? MARKUP_OPENED : MARKUP_BEFORE;
    return last_of(continued, n_continued, r->open) > last_of(continued, n_continued, r->close)
               ? MARKUP_INSIDE
               : MARKUP_CONTENT;
}

bool markup_reasons(enum markup_place place)
{
    return place == MARKUP_OPENED || place == MARKUP_INSIDE;
}
