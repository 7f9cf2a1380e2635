/* call_name.c - reads names of functions, and keys, that stand between marks. */
#include <string.h>

#include "base/utf8.h"
#include "text/markup/parser_priv.h"

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

size_t call_word(struct parser *a, char **word, const char **rest)
{
    char *p = a->call.word.data, *end = p ? p + a->call.word.len : p;
    char quote;

    while (p < end && utf8_is_blank(*p))
        p++;
    while (end > p && utf8_is_blank(end[-1]))
        end--;
    *word = p;
    *rest = end;
    if (!a->o.calls->quoted || p == end)
        return (size_t)(end - p);
    quote = *p == '"' || *p == '\'' ? *p : 0;
    *word = p += quote != 0;
    while (p < end && (quote ? *p != quote : !utf8_is_blank(*p)))
        p++;
    *rest = p;
    return decode_entities(*word, (size_t)(p - *word));
}

bool call_is_name(const struct markup_calls *row, char c)
{
    if (row->shapes & MARKUP_XML)
        return c && !strchr(" \t\r\n<>{}[]()\"'", c);
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-.:", c)) || (unsigned char)c >= 0x80;
}

/* Sets c->name to the function's name in c->word, and c->state to the state that reads its arguments. Returns
 * false if c->word is not a valid name, the answer has too many calls, or a call without a mark names a
 * function that the request does not have. */
static bool name_ends(struct parser *a)
{
    struct parser_call *c = &a->call;
    const struct markup_calls *row = a->o.calls;
    const char *rest;
    char *s, *colon;
    size_t n = call_word(a, &s, &rest), n_prefix = row->name_open ? strlen(row->name_open) : 0;

    if (n_prefix && n > n_prefix && memcmp(s, row->name_open, n_prefix) == 0) {
        s += n_prefix;
        n -= n_prefix;
    }
    if (row->shapes & MARKUP_BRACES && (colon = n ? memchr(s, ':', n) : NULL) != NULL) { /* call:f */
        n -= (size_t)(colon + 1 - s);
        s = colon + 1;
    }
    for (size_t i = n; row->is_numbered && i > 1; i--) {
        if (s[i - 1] == ':' && i < n)
            n = i - 1;
        if (s[i - 1] < '0' || s[i - 1] > '9')
            break;
    }
    for (size_t i = 0; i < n; i++)
        if (!call_is_name(row, s[i]))
            return false;
    if (n == 0 || n > PARSER_MAX_NAME || a->n_calls >= PARSER_MAX_CALLS ||
        (c->bare && a->o.n_names && !parser_knows(a, s, n)))
        return false;
    call_json_object(c);
    buf_add(&c->name, s, n);
    c->named = true;
    c->state = row->shapes & MARKUP_NAMED ? AT_ARGS : row->shapes & MARKUP_XML ? XML_NEXT : WORDS_KEY;
    call_levels(a);
    c->level[0].end = a->in.data[a->at] == '{' ? '}' : ')';
    return true;
}

bool call_name_step(struct parser *a)
{
    struct parser_call *c = &a->call;
    const struct markup_calls *row = a->o.calls;
    char ch = a->in.data[a->at];
    bool is_blank = utf8_is_blank(ch),
         was_blank = c->word.len && utf8_is_blank(c->word.data[c->word.len - 1]);
    size_t len, n;
    enum parser_found m = parser_match_any(a, a->at, row->name_end, MARKUP_MAX_MARKS, &len), next = NO_MATCH;

    if (m != IS_MATCH && row->shapes & MARKUP_XML && (next = call_xml_key(a, a->at, &n)) == NO_MATCH)
        next = parser_match(a, a->at, row->call_close[0], &n);
    if (m == MAY_MATCH || next == MAY_MATCH)
        return false;
    if (m == IS_MATCH || next == IS_MATCH || (row->no_mark && ch == '{')) {
        if (!name_ends(a))
            parser_misfit(a);
        else
            a->at += m == IS_MATCH ? len : 0;
    } else if (c->word.len <= 2 * PARSER_MAX_NAME &&
               (row->quoted || is_blank || (call_is_name(row, ch) && !was_blank))) {
        if (!is_blank || c->word.len)
            buf_char(&c->word, ch);
        a->at++;
    } else {
        parser_misfit(a);
    }
    return true;
}
