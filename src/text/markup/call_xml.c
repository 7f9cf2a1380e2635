/* call_xml.c - the state machine of calls whose keys and values stand between marks. */
#include <string.h>

#include "base/utf8.h"
#include "text/markup/parser_priv.h"

enum {
    MAX_KEY = 1024,
    /* bytes of white space after a value that are skipped in search of its closing mark */
    MAX_AHEAD = 64
};

/* ---- names and keys ---- */

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

enum parser_found call_xml_key(const struct parser *a, size_t at, size_t *len)
{
    enum parser_found m = parser_match_any(a, at, a->o.calls->key_open, MARKUP_MAX_MARKS, len);

    if (m != IS_MATCH || !(a->o.calls->shapes & MARKUP_TREE))
        return m;
    if (at + *len == a->in.len)
        return a->finishing ? NO_MATCH : MAY_MATCH;
    return a->in.data[at + *len] == '/' ? NO_MATCH : IS_MATCH;
}

/* Returns whether a limit has cut the answer inside a mark of MARKS [n]: the text from offset AT to its end
 * is the beginning of such a mark. */
static bool is_cut(const struct parser *a, size_t at, const char *const *marks, size_t n)
{
    bool more = false;

    for (size_t i = 0; i < n && marks[i] && !more && a->finishing && a->end != PARSER_ENDED; i++)
        markup_match(a->in.data + at, a->in.len - at, marks[i], &more);
    return more;
}

/* Returns whether a value may end before offset AT: white space at AT is followed by a mark of the row or by
 * the end of the text, or has at least MAX_AHEAD bytes. */
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
    found = call_xml_key(a, at, &len);
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

/* Writes the key in c->word and the JSON syntax before it, and sets c->types to the types of its value. */
static void key_ends(struct parser *a)
{
    struct parser_call *c = &a->call;
    const struct markup_calls *row = a->o.calls;
    struct parser_level *l;
    char *s;
    const char *type, *rest;
    size_t n = call_word(a, &s, &rest), n_rest = (size_t)(c->word.data + c->word.len - rest), len;

    call_open(a);
    l = &c->level[c->depth - 1];
    /* the first element of a nested value: unless the schema decides, `item` makes the value a list */
    if (!l->close) {
        bool is_list = n == 4 && memcmp(s, "item", 4) == 0;
        unsigned types = call_types(c->level[0].schema, l->schema);

        is_list = l->schema && !(types & VALUE_STRING)
                      ? (types & VALUE_ARRAY && (is_list || !(types & VALUE_OBJECT)))
                      : is_list;
        l->close = is_list ? ']' : '}';
        parser_args(a, is_list ? "[" : "{", 1);
    }
    call_key(a, s, n);
    type = row->type_attribute ? attribute(rest, n_rest, row->type_attribute, &len) : NULL;
    if (type && strcmp(row->type_attribute, "string") == 0)
        c->types = len == 4 && memcmp(type, "true", 4) == 0 ? VALUE_STRING : VALUE_ANY;
    else if (type && call_type_named(type, len))
        c->types = call_type_named(type, len);
    c->state = row->value_open ? XML_OPEN : XML_BEGIN;
}

/* ---- values ---- */

/* Returns whether the value at the current position consists of nested keys and values (MARKUP_TREE). *AT is
 * the offset of the first mark of these. */
static enum parser_found tree_match(const struct parser *a, size_t *at)
{
    size_t len, end = a->at + MAX_AHEAD;

    *at = a->at;
    while (*at < a->in.len && *at < end && utf8_is_blank(a->in.data[*at]))
        ++*at;
    if (*at == a->in.len)
        return a->finishing || *at == end ? NO_MATCH : MAY_MATCH;
    return call_xml_key(a, *at, &len);
}

/* Reads the text before the first byte of a value. Returns false if more text is needed. */
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
    call_text_begin(a, c->types != VALUE_STRING);
    c->state = XML_VALUE;
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
        c->state = is_cdata ? XML_VALUE : XML_NEXT;
        if (!is_cdata)
            call_text_end(a);
    } else if (is_cut(a, a->at, &a->o.calls->value_close, 1)) {
        a->at = a->in.len;
    } else {
        call_text(a, a->in.data[a->at++]);
    }
    return true;
}

/* ---- the call ---- */

static void end(struct parser *a, size_t behind, bool complete)
{
    call_open(a);
    while (complete && a->call.depth)
        call_pop(a);
    call_release(a);
    parser_end_call(a, behind, complete);
}

/* Reads a key, or the end of the call, after the function's name or a value. Returns false if more text is needed. */
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
    if (m == NO_MATCH && (m = call_xml_key(a, a->at, &len)) == IS_MATCH) {
        c->word.len = 0;
        c->state = XML_KEY;
        a->at += len;
        return true;
    }
    if (m == NO_MATCH && c->begun) { /* a mark that a limit has cut is dropped, and does not become text */
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

/* Reads a byte of a key, or the mark after it. Returns false if more text is needed. */
static bool key_step(struct parser *a)
{
    struct parser_call *c = &a->call;
    size_t len;
    enum parser_found m = parser_match(a, a->at, a->o.calls->key_end, &len);

    if (m == MAY_MATCH)
        return false;
    if (m == IS_MATCH) {
        a->at += len;
        key_ends(a);
    } else if (c->word.len < MAX_KEY) {
        buf_char(&c->word, a->in.data[a->at++]);
    } else if (c->begun) {
        end(a, a->at, false);
    } else {
        parser_misfit(a);
    }
    return true;
}

/* Reads a byte or mark between a key and its value. Returns false if more text is needed. */
static bool open_step(struct parser *a)
{
    const struct markup_calls *row = a->o.calls;
    const char *s = a->in.data + a->at;
    enum parser_found m, typed = NO_MATCH;
    unsigned type;
    size_t len;

    if ((m = parser_match(a, a->at, row->value_open, &len)) == NO_MATCH)
        typed = parser_match(a, a->at, row->value_type, &len);
    if (m == MAY_MATCH || typed == MAY_MATCH)
        return false;
    if (m == IS_MATCH) {
        a->call.state = XML_BEGIN;
    } else if (typed == IS_MATCH) {
        type = call_type_named(s + (strchr(row->value_type, MARKUP_ANY) - row->value_type),
                               len + 1 - strlen(row->value_type));
        a->call.types = type ? type : a->call.types;
    } else if (utf8_is_blank(*s)) {
        len = 1;
    } else {
        end(a, a->at, false);
        return true;
    }
    a->at += len;
    return true;
}

bool call_xml_step(struct parser *a)
{
    switch (a->call.state) {
    case XML_NEXT: return next_step(a);
    case XML_KEY: return key_step(a);
    case XML_OPEN: return open_step(a);
    case XML_BEGIN: return begin_step(a);
    default: return value_step(a);
    }
}

void call_xml_finish(struct parser *a)
{
    struct parser_call *c = &a->call;

    if (c->state == XML_NEXT) { /* all values are complete */
        end(a, a->at, true);
        return;
    }
    if (c->state == XML_VALUE || c->state == XML_CDATA)
        call_text_cut(a);
    end(a, a->at, false);
}
