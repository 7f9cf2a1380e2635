/* jinja_html.c - what markupsafe and urllib.parse.quote do. Of the named entities striptags knows only
 * common ones. */
#include "text/jinja_html.h"

#include <stdlib.h>
#include <string.h>

#include "text/jinja_dict.h"
#include "text/jinja_iter.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_uni.h"

void jinja_html_put(struct jbuf *b, const char *p, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        const char *to = NULL;

        switch (p[i]) {
        case '&': to = "&amp;"; break;
        case '<': to = "&lt;"; break;
        case '>': to = "&gt;"; break;
        case '\'': to = "&#39;"; break;
        case '"': to = "&#34;"; break;
        default: continue;
        }
        jinja_str_put(b, p + kept, i - kept);
        jinja_str_puts(b, to);
        kept = i + 1;
    }
    if (n)
        jinja_str_put(b, p + kept, n - kept);
}

static struct jv markup(struct jv v)
{
    if (jv_is(v, JV_STR))
        v.flags |= JV_MARKUP;
    return v;
}

static struct jv escape_text(struct jrun *r, struct jv v)
{
    struct jbuf b = {.r = r};
    struct jv s = jinja_repr_str(r, v);

    if (!jv_is(s, JV_STR) || !jinja_run_step(r, s.u.str->n / 16))
        return jv_none();
    jinja_html_put(&b, s.u.str->p, s.u.str->n);
    return markup(jinja_str_done(&b));
}

struct jv jinja_html_escape(struct jrun *r, struct jv v)
{
    return jv_is_markup(v) ? v : escape_text(r, v);
}

struct jv jinja_html_filter_escape(struct jrun *r, struct jv v, const struct jargs *a)
{
    return jinja_args_bind(r, "escape", a, "", 0, NULL) ? jinja_html_escape(r, v) : jv_none();
}

struct jv jinja_html_filter_forceescape(struct jrun *r, struct jv v, const struct jargs *a)
{
    return jinja_args_bind(r, "forceescape", a, "", 0, NULL) ? escape_text(r, v) : jv_none();
}

struct jv jinja_html_filter_safe(struct jrun *r, struct jv v, const struct jargs *a)
{
    return jinja_args_bind(r, "safe", a, "", 0, NULL) ? markup(jinja_repr_soft(r, v)) : jv_none();
}

struct entity {
    const char *name;
    uint32_t c;
};

static const struct entity entities[] = {
    {"amp", '&'},      {"lt", '<'},       {"gt", '>'},        {"quot", '"'},     {"apos", '\''},
    {"nbsp", 0xa0},    {"copy", 0xa9},    {"reg", 0xae},      {"deg", 0xb0},     {"laquo", 0xab},
    {"raquo", 0xbb},   {"middot", 0xb7},  {"times", 0xd7},    {"divide", 0xf7},  {"euro", 0x20ac},
    {"pound", 0xa3},   {"cent", 0xa2},    {"yen", 0xa5},      {"sect", 0xa7},    {"para", 0xb6},
    {"ndash", 0x2013}, {"mdash", 0x2014}, {"lsquo", 0x2018},  {"rsquo", 0x2019}, {"ldquo", 0x201c},
    {"rdquo", 0x201d}, {"bull", 0x2022},  {"hellip", 0x2026}, {"trade", 0x2122}, {"rarr", 0x2192},
};

/* The entity at P ("&...;"): its length in bytes, or 0 when it is none. */
static size_t read_entity(const char *p, size_t n, uint32_t *c)
{
    const char *semicolon = memchr(p, ';', n < 12 ? n : 12);
    size_t len = semicolon ? (size_t)(semicolon - p) : 0;
    char text[12] = {0};

    if (len < 2)
        return 0;
    memcpy(text, p + 1, len - 1);
    if (text[0] == '#') {
        bool hex = (text[1] | 32) == 'x';
        char *end;

        *c = (uint32_t)strtoul(text + 1 + hex, &end, hex ? 16 : 10);
        if (*end || end == text + 1 + hex)
            return 0;
        if (*c == 0 || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000))
            *c = 0xfffd;
        return len + 1;
    }
    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++)
        if (strcmp(entities[i].name, text) == 0) {
            *c = entities[i].c;
            return len + 1;
        }
    return 0;
}

static void unescape(struct jbuf *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n && !out->r->rc;) {
        uint32_t c;
        size_t len = p[i] == '&' ? read_entity(p + i, n - i, &c) : 0;

        if (len) {
            jinja_str_putu(out, c);
            i += len;
        } else {
            jinja_str_putc(out, p[i++]);
        }
    }
}

/* Drops tags and comments; an unclosed one ends the search. */
static void drop_tags(struct jbuf *out, const char *p, size_t n)
{
    size_t at = 0;

    while (at < n && jinja_run_step(out->r, 0)) {
        const char *tag = memchr(p + at, '<', n - at);
        size_t from = tag ? (size_t)(tag - p) : n, end;
        bool comment = n - from >= 4 && memcmp(p + from, "<!--", 4) == 0;

        if (!tag)
            break;
        end = comment ? jinja_str_find(p + from + 4, n - from - 4, "-->", 3)
                      : jinja_str_find(p + from, n - from, ">", 1);
        if (end == SIZE_MAX)
            break;
        jinja_str_put(out, p + at, from - at);
        at = from + end + (comment ? 7 : 1);
    }
    jinja_str_put(out, p + at, n - at);
}

struct jv jinja_html_filter_striptags(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jbuf bare = {.r = r}, spaced = {.r = r}, out = {.r = r};
    struct jv s = jinja_repr_str(r, v);
    bool blank = false;

    if (!jinja_args_bind(r, "striptags", a, "", 0, NULL) || !jv_is(s, JV_STR))
        return jv_none();
    drop_tags(&bare, s.u.str->p, s.u.str->n);
    for (size_t i = 0; i < bare.n && !r->rc; i += jinja_str_step(bare.p + i)) {
        if (jinja_uni_space(jinja_str_char(bare.p + i))) {
            blank = true;
            continue;
        }
        if (blank && spaced.n)
            jinja_str_putc(&spaced, ' ');
        blank = false;
        jinja_str_put(&spaced, bare.p + i, jinja_str_step(bare.p + i));
    }
    unescape(&out, spaced.p, spaced.n);
    return jinja_str_done(&out);
}

struct jv jinja_html_filter_xmlattr(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jbuf b = {.r = r};
    struct jv p[1], part;
    bool space;

    if (!jinja_args_bind(r, "xmlattr", a, "autospace", 0, p))
        return jv_none();
    if (!jv_is(v, JV_DICT)) {
        jinja_run_fail(r, "'%s' object has no attribute 'items'", jinja_val_type(v));
        return jv_none();
    }
    space = jinja_args_true(p[0], true);
    for (size_t i = 0; i < v.u.dict->n && !r->rc; i++) {
        const struct jentry *e = &v.u.dict->e[i];

        if (jv_is(e->value, JV_NONE) || jv_is(e->value, JV_UNDEF))
            continue;
        if (!jv_is(e->key, JV_STR)) {
            jinja_run_fail(r, "expected string or bytes-like object, got '%s'", jinja_val_type(e->key));
            break;
        }
        for (size_t k = 0; k < e->key.u.str->n; k++)
            if (strchr(" \t\n\r\f\v/>=", e->key.u.str->p[k]) && e->key.u.str->p[k])
                jinja_run_fail(r, "Invalid character in attribute name: %s", jinja_repr_brief(r, e->key));
        if (b.n || space)
            jinja_str_putc(&b, ' ');
        part = jinja_html_escape(r, e->key);
        jinja_repr_put_str(&b, part);
        jinja_str_puts(&b, "=\"");
        part = jinja_html_escape(r, e->value);
        jinja_repr_put_str(&b, part);
        jinja_str_putc(&b, '"');
    }
    v = jinja_str_done(&b);
    return r->autoescape ? markup(v) : v;
}

/* Percent-encodes str(v). In a query string a blank becomes + and / is encoded too. */
static void put_quoted(struct jbuf *b, struct jv v, bool query)
{
    struct jv s = jinja_repr_str(b->r, v);

    if (!jv_is(s, JV_STR))
        return;
    for (size_t i = 0; i < s.u.str->n; i++) {
        unsigned char c = (unsigned char)s.u.str->p[i];
        bool plain = c < 0x80 && (jinja_uni_alnum(c) || (c && strchr(query ? "_.-~" : "_.-~/", c)));

        if (plain)
            jinja_str_putc(b, (char)c);
        else if (c == ' ' && query)
            jinja_str_putc(b, '+');
        else
            jinja_str_putf(b, "%%%02X", c);
    }
}

struct jv jinja_html_filter_urlencode(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jbuf b = {.r = r};
    struct jiter *it;
    struct jv pair = v;

    if (!jinja_args_bind(r, "urlencode", a, "", 0, NULL))
        return jv_none();
    if (jv_is(v, JV_STR) || !jinja_iter_can(v)) {
        put_quoted(&b, v, false);
        return jinja_str_done(&b);
    }
    if (jv_is(v, JV_DICT)) {
        pair = jv_of(JV_VIEW);
        pair.view = JVIEW_ITEMS;
        pair.u.dict = v.u.dict;
    }
    it = jinja_iter_open(r, pair);
    while (it && jinja_iter_next(r, it, &pair)) {
        struct jv two = jinja_iter_list(r, pair);

        if (!r->rc && two.u.list->n != 2)
            jinja_run_fail(r, "urlencode wants pairs, this one has %zu parts", two.u.list->n);
        if (r->rc)
            break;
        if (b.n)
            jinja_str_putc(&b, '&');
        put_quoted(&b, two.u.list->v[0], true);
        jinja_str_putc(&b, '=');
        put_quoted(&b, two.u.list->v[1], true);
    }
    return jinja_str_done(&b);
}
