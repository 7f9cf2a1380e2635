/* call_xml.c - the state machine of calls whose keys and values stand between marks. */
#include <string.h>

#include "base/utf8.h"
#include "text/markup/parser_priv.h"

enum {
    MAX_KEY = 1024,
    MAX_AHEAD = 64 /* white space behind a value before what follows decides that it has ended */
};

/* ---- names and keys ---- */

/* Sets *S [*n] to the first value of the text in c->word: all of it or, if the row has attributes, up to its
 * end in quotes or a blank. *REST [*n_rest] is the text behind it. */
static void first_value(struct parser *a, char **s, size_t *n, char **rest, size_t *n_rest)
{
    char *p = a->call.word.data, *end = p ? p + a->call.word.len : p;
    char quote;

    while (p < end && utf8_is_blank(*p))
        p++;
    while (end > p && utf8_is_blank(end[-1]))
        end--;
    *s = *rest = p;
    *n = (size_t)(end - p);
    *n_rest = 0;
    if (!a->o.calls->quoted || p == end)
        return;
    quote = *p == '"' || *p == '\'' ? *p : 0;
    *s = p += quote != 0;
    while (p < end && (quote ? *p != quote : !utf8_is_blank(*p)))
        p++;
    *n = (size_t)(p - *s);
    *rest = p;
    *n_rest = (size_t)(end - p);
}

/* Decodes the entities of S [n] in place. Returns the new length. */
static size_t decode_entities(char *s, size_t n)
{
    static const struct {
        const char *entity;
        char c;
    } all[] = {{"&quot;", '"'}, {"&apos;", '\''}, {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}};
    size_t to = 0;

    for (size_t i = 0; i < n; i++, to++) {
        s[to] = s[i];
        for (size_t k = 0; s[i] == '&' && k < sizeof(all) / sizeof(all[0]); k++) {
            size_t len = strlen(all[k].entity);

            if (n - i >= len && memcmp(s + i, all[k].entity, len) == 0) {
                s[to] = all[k].c;
                i += len - 1;
                break;
            }
        }
    }
    return to;
}

/* Finds the attribute NAME="VALUE" in S [n]. Returns its value, and its length in *LEN; NULL: there is
 * none. */
static const char *attribute(const char *s, size_t n, const char *name, size_t *len)
{
    size_t n_name = strlen(name);

    for (size_t i = 0; i + n_name + 2 <= n; i++) {
        const char *value = s + i + n_name + 2, *end;

        if (memcmp(s + i, name, n_name) != 0 || value[-2] != '=' || (value[-1] != '"' && value[-1] != '\''))
            continue;
        end = memchr(value, value[-1], n - i - n_name - 2);
        *len = end ? (size_t)(end - value) : 0;
        return end ? value : NULL;
    }
    return NULL;
}

/* Returns whether a mark before a key begins at offset AT. In a tree, `/` behind it makes it the end of a
 * value. */
static enum parser_found key_match(const struct parser *a, size_t at, size_t *len)
{
    enum parser_found m = parser_match_any(a, at, a->o.calls->key_open, MARKUP_MAX_MARKS, len);

    if (m != IS_MATCH || !(a->o.calls->shapes & MARKUP_TREE))
        return m;
    if (at + *len == a->in.len)
        return a->finishing ? NO_MATCH : MAY_MATCH;
    return a->in.data[at + *len] == '/' ? NO_MATCH : IS_MATCH;
}

/* Returns whether the rest of the text from offset AT on may be the beginning of a mark of MARKS [n], which a
 * limit has cut. */
static bool is_cut(const struct parser *a, size_t at, const char *const *marks, size_t n)
{
    bool more = false;

    for (size_t i = 0; i < n && marks[i] && !more && a->finishing && a->end != PARSER_ENDED; i++)
        markup_match(a->in.data + at, a->in.len - at, marks[i], &more);
    return more;
}

/* Returns whether what begins behind white space at offset AT shows that a value ended before it: a mark of
 * the row, or the end of the text. */
static enum parser_found ends_before(const struct parser *a, size_t at)
{
    const struct markup_calls *row = a->o.calls;
    const char *const *lists[] = {row->call, row->call_close, row->close, row->open};
    size_t len, end = at + MAX_AHEAD;
    enum parser_found found;

    while (at < a->in.len && at < end && utf8_is_blank(a->in.data[at]))
        at++;
    if (at == end)
        return IS_MATCH;
    if (at == a->in.len)
        return a->finishing ? IS_MATCH : MAY_MATCH;
    found = key_match(a, at, &len);
    for (size_t i = 0; i < 4 && found != IS_MATCH; i++) {
        enum parser_found m =
            parser_match_any(a, at, lists[i], i < 3 ? MARKUP_MAX_MARKS : MARKUP_MAX_OPEN, &len);

        found = m == NO_MATCH ? found : m;
    }
    if (found == NO_MATCH &&
        (is_cut(a, at, row->key_open, MARKUP_MAX_MARKS) || is_cut(a, at, row->call_close, MARKUP_MAX_MARKS)))
        found = IS_MATCH;
    return found;
}

static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!s[i] || strchr(" \t\r\n<>{}[]()\"'", s[i]))
            return false;
    return n > 0 && n <= PARSER_MAX_NAME;
}

/* Sets c->name to the name in c->word. Returns false if it is none. */
static bool name_ends(struct parser *a)
{
    struct parser_call *c = &a->call;
    char *s, *rest;
    size_t n, n_rest;

    first_value(a, &s, &n, &rest, &n_rest);
    n = a->o.calls->quoted ? decode_entities(s, n) : n;
    if (!is_name(s, n))
        return false;
    parser_clear(c, &c->name);
    buf_add(&c->name, s, n);
    c->state = XML_NEXT;
    return true;
}

/* Reads a byte or the end of the name. Returns false if more text is needed. */
static bool name_step(struct parser *a)
{
    struct parser_call *c = &a->call;
    size_t len;
    enum parser_found m = parser_match_any(a, a->at, a->o.calls->name_end, MARKUP_MAX_MARKS, &len),
                      next = NO_MATCH;
    size_t n;

    if (m != IS_MATCH && (next = key_match(a, a->at, &n)) == NO_MATCH)
        next = parser_match(a, a->at, a->o.calls->call_close[0], &n);
    if (m == MAY_MATCH || next == MAY_MATCH)
        return false;
    if (m == IS_MATCH || next == IS_MATCH) {
        if (!name_ends(a))
            parser_misfit(a);
        else
            a->at += m == IS_MATCH ? len : 0;
    } else if (c->word.len > 2 * PARSER_MAX_NAME) {
        parser_misfit(a);
    } else {
        buf_char(&c->word, a->in.data[a->at++]);
    }
    return true;
}

static void open_arguments(struct parser *a)
{
    if (a->call.begun)
        return;
    parser_begin_call(a);
    call_levels(a);
    parser_args(a, "{", 1);
}

/* Writes the key in c->word, and what precedes it. */
static void key_ends(struct parser *a)
{
    struct parser_call *c = &a->call;
    const struct markup_calls *row = a->o.calls;
    struct parser_level *l;
    char *s, *rest;
    const char *type;
    size_t n, n_rest, len;

    first_value(a, &s, &n, &rest, &n_rest);
    open_arguments(a);
    l = &c->level[c->depth - 1];
    if (!l->close) { /* the first element of a value: `item` and the like are those of a list */
        bool is_list = n == 4 && memcmp(s, "item", 4) == 0;
        unsigned types = call_types(c->level[0].schema, l->schema);

        is_list = l->schema && !(types & VALUE_STRING)
                      ? (types & VALUE_ARRAY && (is_list || !(types & VALUE_OBJECT)))
                      : is_list;
        l->close = is_list ? ']' : '}';
        parser_args(a, is_list ? "[" : "{", 1);
    }
    call_key(a, s, row->quoted ? decode_entities(s, n) : n);
    type = row->type_attribute ? attribute(rest, n_rest, row->type_attribute, &len) : NULL;
    if (type && strcmp(row->type_attribute, "string") == 0)
        c->types = len == 4 && memcmp(type, "true", 4) == 0 ? VALUE_STRING : VALUE_ANY;
    else if (type && call_type_named(type, len))
        c->types = call_type_named(type, len);
    c->state = row->value_open ? XML_OPEN : XML_BEGIN;
}

/* ---- values ---- */

/* Returns whether the text held back may be the null that a value of string or null begins with. */
static bool may_be_null(const struct parser_call *c)
{
    return c->types == (VALUE_STRING | VALUE_NULL) && c->word.len <= 4 &&
           memcmp("null", c->word.len ? c->word.data : "", c->word.len) == 0;
}

/* Appends a byte to a string. A line end that may belong to the markup is held back. */
static void string_byte(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;
    if (c->has_line_end)
        call_string(a, "\n", 1);
    c->has_line_end = c->is_led && ch == '\n';
    if (!c->has_line_end)
        call_string(a, &ch, 1);
}

/* Puts out the value that was held back as the beginning of a string. */
static void release(struct parser *a)
{
    struct parser_call *c = &a->call;

    c->is_held = false;
    parser_args(a, "\"", 1);
    for (size_t i = 0; i < c->word.len; i++)
        string_byte(a, c->word.data[i]);
}

static void value_begins(struct parser *a)
{
    struct parser_call *c = &a->call;

    c->is_led = c->has_line_end = false;
    c->is_held = c->types != VALUE_STRING;
    parser_clear(c, &c->word);
    if (!c->is_held)
        parser_args(a, "\"", 1);
    c->state = XML_VALUE;
}

static void value_byte(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;

    if (!c->is_held) {
        string_byte(a, ch);
        return;
    }
    buf_char(&c->word, ch);
    if (c->types == (VALUE_STRING | VALUE_NULL) && !may_be_null(c) && !utf8_is_blank(ch))
        release(a);
}

static void value_ends(struct parser *a)
{
    struct parser_call *c = &a->call;
    size_t n = c->word.len;

    if (!c->is_held) {
        parser_args(a, "\"", 1);
    } else {
        if (c->is_led && n && c->word.data[n - 1] == '\n')
            n--;
        call_value(a, c->types, c->word.data ? c->word.data : "", n);
    }
    c->state = XML_NEXT;
}

/* Decides whether a value, before its first byte, is a list or an object of further elements, which begin at
 * *AT. */
static enum parser_found tree_match(const struct parser *a, size_t *at)
{
    size_t len, end = a->at + MAX_AHEAD;

    *at = a->at;
    while (*at < a->in.len && *at < end && utf8_is_blank(a->in.data[*at]))
        ++*at;
    if (*at == a->in.len)
        return a->finishing || *at == end ? NO_MATCH : MAY_MATCH;
    return key_match(a, *at, &len);
}

/* Reads what stands before the first byte of a value. Returns false if more text is needed. */
static bool begin_step(struct parser *a)
{
    static const char cdata[] = "<![CDATA[";
    struct parser_call *c = &a->call;
    size_t at, len;
    enum parser_found m;

    if (a->o.calls->shapes & MARKUP_TREE) {
        m = tree_match(a, &at);
        if (m == MAY_MATCH)
            return false;
        if (m == IS_MATCH && call_push(a, 0, 0, 0)) {
            if (!c->holds && !c->schema)
                c->holds = c->depth;
            a->at = at;
            c->state = XML_NEXT;
            return true;
        }
    }
    m = parser_match(a, a->at, cdata, &len);
    if (m == MAY_MATCH)
        return false;
    value_begins(a);
    if (m == IS_MATCH) {
        a->at += len;
        c->state = XML_CDATA;
    } else if (a->o.calls->trims_lines && a->in.data[a->at] == '\n') {
        c->is_led = true;
        a->at++;
    }
    return true;
}

/* Reads a byte or the end of a value. A value ends at its closing mark if a mark of the call, or the end of
 * the text, follows. Returns false if more text is needed. */
static bool value_step(struct parser *a)
{
    struct parser_call *c = &a->call;
    bool is_cdata = c->state == XML_CDATA;
    size_t len;
    enum parser_found m = parser_match(a, a->at, is_cdata ? "]]>" : a->o.calls->value_close, &len);

    if (m == IS_MATCH && !is_cdata && !(a->o.calls->shapes & MARKUP_TREE))
        m = ends_before(a, a->at + len);
    if (m == MAY_MATCH)
        return false;
    if (m == IS_MATCH) {
        a->at += len;
        if (is_cdata)
            c->state = XML_VALUE;
        else
            value_ends(a);
    } else if (is_cut(a, a->at, &a->o.calls->value_close, 1)) {
        a->at = a->in.len;
    } else {
        value_byte(a, a->in.data[a->at++]);
    }
    return true;
}

/* ---- the call ---- */

static void end(struct parser *a, size_t behind, bool complete)
{
    open_arguments(a);
    while (complete && a->call.depth)
        call_pop(a);
    call_release(a);
    parser_end_call(a, behind, complete);
}

/* Reads what follows the name or a value: a key, or the end of the call. Returns false if more text is
 * needed. */
static bool next_step(struct parser *a)
{
    struct parser_call *c = &a->call;
    const struct markup_calls *row = a->o.calls;
    size_t len;
    enum parser_found m;

    if (utf8_is_blank(a->in.data[a->at])) {
        a->at++;
        return true;
    }
    if ((m = parser_match(a, a->at, row->call_close[0], &len)) == IS_MATCH) {
        end(a, a->at + len, true);
        a->at += len;
        return true;
    }
    if (m == NO_MATCH && c->begun && c->depth > 1 &&
        (m = parser_match(a, a->at, row->value_close, &len)) == IS_MATCH) {
        call_pop(a);
        a->at += len;
        return true;
    }
    if (m == NO_MATCH && (m = key_match(a, a->at, &len)) == IS_MATCH) {
        parser_clear(c, &c->word);
        c->state = XML_KEY;
        a->at += len;
        return true;
    }
    if (m == NO_MATCH && c->begun) { /* of a mark that a limit cut, nothing is text */
        bool ends = is_cut(a, a->at, row->call_close, 1) || is_cut(a, a->at, row->close, MARKUP_MAX_MARKS);

        if (ends || is_cut(a, a->at, row->key_open, MARKUP_MAX_MARKS)) {
            a->at = a->in.len;
            end(a, a->at, ends);
            return true;
        }
    }
    if (m == NO_MATCH && (c->begun || row->name_end[0]))
        m = ends_before(a, a->at);
    if (m == MAY_MATCH)
        return false;
    if (m == IS_MATCH || c->begun)
        end(a, a->at, true);
    else
        parser_misfit(a);
    return true;
}

/* Collects bytes in c->word up to the mark END. Returns false if more text is needed; *ENDS: END was
 * skipped. */
static bool collect(struct parser *a, const char *mark, bool *ends)
{
    struct parser_call *c = &a->call;
    size_t len;
    enum parser_found m = parser_match(a, a->at, mark, &len);

    *ends = m == IS_MATCH;
    if (m == MAY_MATCH)
        return false;
    if (m == IS_MATCH) {
        a->at += len;
    } else if (c->word.len < MAX_KEY) {
        buf_char(&c->word, a->in.data[a->at++]);
    } else if (c->begun) {
        end(a, a->at, false);
    } else {
        parser_misfit(a);
    }
    return true;
}

/* Reads the marks between a key and its value. Returns false if more text is needed. */
static bool open_step(struct parser *a)
{
    const struct markup_calls *row = a->o.calls;
    size_t len;
    enum parser_found m, type;

    if (utf8_is_blank(a->in.data[a->at])) {
        a->at++;
        return true;
    }
    m = parser_match(a, a->at, row->value_open, &len);
    if (m == IS_MATCH) {
        a->at += len;
        a->call.state = XML_BEGIN;
        return true;
    }
    type = parser_match(a, a->at, row->type_open, &len);
    if (m == MAY_MATCH || type == MAY_MATCH)
        return false;
    if (type == IS_MATCH) {
        a->at += len;
        parser_clear(&a->call, &a->call.word);
        a->call.state = XML_TYPE;
    } else {
        end(a, a->at, false);
    }
    return true;
}

static void type_ends(struct parser *a)
{
    struct parser_call *c = &a->call;
    unsigned type = call_type_named(c->word.data ? c->word.data : "", c->word.len);

    c->types = type ? type : c->types;
    c->state = XML_OPEN;
}

bool call_xml_step(struct parser *a)
{
    bool ends, goes;

    switch (a->call.state) {
    case XML_NAME: return name_step(a);
    case XML_NEXT: return next_step(a);
    case XML_OPEN: return open_step(a);
    case XML_BEGIN: return begin_step(a);
    case XML_VALUE:
    case XML_CDATA: return value_step(a);
    default: break;
    }
    goes = collect(a, a->call.state == XML_KEY ? a->o.calls->key_end : a->o.calls->type_close, &ends);
    if (goes && ends && a->call.state == XML_KEY)
        key_ends(a);
    else if (goes && ends)
        type_ends(a);
    return goes;
}

void call_xml_finish(struct parser *a)
{
    struct parser_call *c = &a->call;

    if (c->state == XML_NEXT) { /* all values are complete */
        end(a, a->at, true);
        return;
    }
    if ((c->state == XML_VALUE || c->state == XML_CDATA) && c->is_held && c->word.len) {
        if (c->types & VALUE_STRING)
            release(a);
        else
            parser_args(a, c->word.data, c->word.len);
    }
    end(a, a->at, false);
}
