/* jinja_repr.c - how Python prints: quotes chosen by content, escapes for what cannot be shown, floats
 * shortest. */
#include "text/jinja_repr.h"

#include <string.h>

#include "text/jinja_cmp.h"
#include "text/jinja_dict.h"
#include "text/jinja_int.h"
#include "text/jinja_iter.h"
#include "text/jinja_loop.h"
#include "text/jinja_macro.h"
#include "text/jinja_num.h"
#include "text/jinja_str.h"
#include "text/jinja_uni.h"

enum { PRETTY_WIDTH = 80 };

static void put_escape(struct jbuf *b, uint32_t c)
{
    switch (c) {
    case '\n': jinja_str_puts(b, "\\n"); return;
    case '\r': jinja_str_puts(b, "\\r"); return;
    case '\t': jinja_str_puts(b, "\\t"); return;
    default: break;
    }
    if (c < 0x100)
        jinja_str_putf(b, "\\x%02x", c);
    else if (c < 0x10000)
        jinja_str_putf(b, "\\u%04x", c);
    else
        jinja_str_putf(b, "\\U%08x", c);
}

static void put_quoted(struct jbuf *b, const struct jstr *s, bool ascii)
{
    char quote = memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';
    size_t kept = 0, i = 0;

    jinja_str_putc(b, quote);
    while (i < s->n && !b->r->rc) {
        uint32_t c = jinja_str_char(s->p + i);
        size_t n = jinja_str_step(s->p + i);
        bool plain =
            jinja_uni_printable(c) && c != (unsigned char)quote && c != '\\' && !(ascii && c >= 0x80);

        if (!plain) {
            jinja_str_put(b, s->p + kept, i - kept);
            kept = i + n;
            if (c == (unsigned char)quote || c == '\\') {
                jinja_str_putc(b, '\\');
                jinja_str_putc(b, (char)c);
            } else {
                put_escape(b, c);
            }
        }
        i += n;
    }
    jinja_str_put(b, s->p + kept, i - kept);
    jinja_str_putc(b, quote);
}

static void put(struct jbuf *b, struct jv v, bool ascii);

static void put_elements(struct jbuf *b, const struct jlist *l, bool ascii)
{
    for (size_t i = 0; i < l->n && !b->r->rc; i++) {
        if (i)
            jinja_str_puts(b, ", ");
        put(b, l->v[i], ascii);
    }
}

static void put_dict(struct jbuf *b, const struct jdict *d, bool ascii)
{
    jinja_str_putc(b, '{');
    for (size_t i = 0; i < d->n && !b->r->rc; i++) {
        if (i)
            jinja_str_puts(b, ", ");
        put(b, d->e[i].key, ascii);
        jinja_str_puts(b, ": ");
        put(b, d->e[i].value, ascii);
    }
    jinja_str_putc(b, '}');
}

static void put_view(struct jbuf *b, struct jv v, bool ascii)
{
    struct jv all = jinja_iter_list(b->r, v);

    jinja_str_putf(b, "%s([", jinja_val_type(v));
    if (jv_is(all, JV_LIST))
        put_elements(b, all.u.list, ascii);
    jinja_str_puts(b, "])");
}

static void put_int(struct jbuf *b, struct jv v)
{
    char text[20], *p = text + sizeof(text);
    uint64_t u;

    if (jv_is(v, JV_INT)) {
        u = v.u.i < 0 ? 0 - (uint64_t)v.u.i : (uint64_t)v.u.i;
        do
            *--p = (char)('0' + u % 10);
        while ((u /= 10) != 0);
        if (v.u.i < 0)
            *--p = '-';
        jinja_str_put(b, p, (size_t)(text + sizeof(text) - p));
        return;
    }
    if (jinja_int_negative(v))
        jinja_str_putc(b, '-');
    jinja_int_put(b, v, 10);
}

static void put_range(struct jbuf *b, const struct jrange *g)
{
    jinja_str_putf(b, "range(%lld, %lld", (long long)g->start, (long long)g->stop);
    if (g->step != 1)
        jinja_str_putf(b, ", %lld", (long long)g->step);
    jinja_str_putc(b, ')');
}

/* Objects that show no contents. Python would print addresses, which nobody can rely on. */
static void put_object(struct jbuf *b, struct jv v)
{
    switch ((enum jv_type)v.type) {
    case JV_ITER: jinja_str_puts(b, v.u.iter->repr); break;
    case JV_FUNC: jinja_str_puts(b, v.u.func->repr); break;
    case JV_LOOP: jinja_loop_put(b, v.u.loop); break;
    case JV_MACRO: jinja_macro_put(b, v.u.macro); break;
    case JV_METHOD: jinja_str_puts(b, "<built-in method>"); break;
    case JV_CYCLER: jinja_str_puts(b, "<jinja2.utils.Cycler object>"); break;
    case JV_JOINER: jinja_str_puts(b, "<jinja2.utils.Joiner object>"); break;
    case JV_SELF: jinja_str_puts(b, "<TemplateReference None>"); break;
    default: jinja_str_puts(b, "<jinja2.runtime.BlockReference object>");
    }
}

static void put_container(struct jbuf *b, struct jv v, bool ascii)
{
    if (!jinja_run_enter(b->r))
        return;
    switch ((enum jv_type)v.type) {
    case JV_LIST:
        jinja_str_putc(b, '[');
        put_elements(b, v.u.list, ascii);
        jinja_str_putc(b, ']');
        break;
    case JV_TUPLE:
        jinja_str_putc(b, '(');
        put_elements(b, v.u.list, ascii);
        jinja_str_puts(b, v.u.list->n == 1 ? ",)" : ")");
        break;
    case JV_NS:
        jinja_str_puts(b, "<Namespace ");
        put_dict(b, v.u.dict, ascii);
        jinja_str_putc(b, '>');
        break;
    case JV_DICT: put_dict(b, v.u.dict, ascii); break;
    default: put_view(b, v, ascii);
    }
    jinja_run_leave(b->r);
}

static void put(struct jbuf *b, struct jv v, bool ascii)
{
    if (!jinja_run_step(b->r, 0))
        return;
    switch ((enum jv_type)v.type) {
    case JV_MISSING: jinja_str_puts(b, "missing"); break;
    case JV_UNDEF: jinja_str_puts(b, "Undefined"); break;
    case JV_NONE: jinja_str_puts(b, "None"); break;
    case JV_BOOL: jinja_str_puts(b, v.u.b ? "True" : "False"); break;
    case JV_INT:
    case JV_BIG: put_int(b, v); break;
    case JV_FLOAT: jinja_num_put_float(b, v.u.f); break;
    case JV_STR:
        if (v.flags & JV_MARKUP)
            jinja_str_puts(b, "Markup(");
        put_quoted(b, v.u.str, ascii);
        if (v.flags & JV_MARKUP)
            jinja_str_putc(b, ')');
        break;
    case JV_RANGE: put_range(b, v.u.range); break;
    case JV_LIST:
    case JV_TUPLE:
    case JV_NS:
    case JV_DICT:
    case JV_VIEW: put_container(b, v, ascii); break;
    default: put_object(b, v);
    }
}

void jinja_repr_put(struct jbuf *b, struct jv v)
{
    put(b, v, false);
}

void jinja_repr_put_ascii(struct jbuf *b, struct jv v)
{
    put(b, v, true);
}

void jinja_repr_put_str(struct jbuf *b, struct jv v)
{
    if (jv_is(v, JV_STR))
        jinja_str_put(b, v.u.str->p, v.u.str->n);
    else if (!jv_is(v, JV_UNDEF))
        put(b, v, false);
}

struct jv jinja_repr_soft(struct jrun *r, struct jv v)
{
    struct jbuf b = {.r = r};

    if (jv_is(v, JV_STR))
        return v;
    jinja_repr_put_str(&b, v);
    v = jinja_str_done(&b);
    return jv_is(v, JV_STR) ? v : jv_none();
}

struct jv jinja_repr_str(struct jrun *r, struct jv v)
{
    v = jinja_repr_soft(r, v);
    v.flags = 0;
    return v;
}

const char *jinja_repr_brief(struct jrun *r, struct jv v)
{
    struct jbuf b = {.r = r};

    if (r->rc)
        return "?";
    jinja_repr_put(&b, v);
    jinja_str_putc(&b, 0);
    if (r->rc || !b.p)
        return "?";
    if (b.n > 200) { /* cut between characters */
        size_t n = 200;

        while (n > 0 && ((unsigned char)b.p[n] & 0xc0) == 0x80)
            n--;
        b.p[n] = 0;
    }
    return b.p;
}

/* What a key is sorted by: itself, or behind the name of its type where not all keys are strings. */
static struct jv pretty_order(struct jrun *r, const struct jdict *d, struct jv key)
{
    for (size_t i = 0; i < d->n; i++)
        if (!jv_is(d->e[i].key, JV_STR))
            return jinja_val_pair(r, jinja_str_lit(r, jinja_val_type(key)), key);
    return key;
}

/* A copy of V in which dicts are in the order of their keys, as pprint shows them. */
static struct jv sorted(struct jrun *r, struct jv v)
{
    struct jgrow g = {.r = r};
    struct jsort *s;
    struct jdict *d;

    if (!jinja_run_enter(r))
        return v;
    if (jv_is_seq(v) && !(v.flags & JV_GROUP)) {
        for (size_t i = 0; i < v.u.list->n && !r->rc; i++)
            jinja_val_push(&g, sorted(r, v.u.list->v[i]));
        v = jinja_val_done(&g, (enum jv_type)v.type);
    } else if (jv_is(v, JV_DICT)) {
        size_t n = v.u.dict->n;
        const struct jentry *e = v.u.dict->e;

        s = jinja_run_zalloc(r, 2 * n, sizeof(*s));
        d = jinja_dict_new(r);
        for (size_t i = 0; s && i < n; i++)
            s[i] = (struct jsort){pretty_order(r, v.u.dict, e[i].key), jv_int((int64_t)i)};
        if (s && d)
            jinja_cmp_sort(r, s, s + n, n, false);
        for (size_t i = 0; s && d && i < n && !r->rc; i++)
            jinja_dict_set(r, d, e[s[i].value.u.i].key, sorted(r, e[s[i].value.u.i].value));
        v = r->rc ? jv_none() : jinja_dict_value(d);
    }
    jinja_run_leave(r);
    return v;
}

/* V at column INDENT, with ALLOWANCE columns needed behind it. */
static void put_pretty(struct jbuf *b, struct jv v, size_t indent, size_t allowance)
{
    struct jbuf flat = {.r = b->r};
    bool dict = jv_is(v, JV_DICT);
    struct jv space = jinja_str_lit(b->r, " ");
    size_t n, width;

    put(&flat, v, false);
    if (b->r->rc)
        return;
    width = jinja_str_count(flat.p, flat.n);
    if ((!dict && (!jv_is_seq(v) || v.flags)) || width + indent + allowance <= PRETTY_WIDTH ||
        !jinja_run_enter(b->r)) {
        jinja_str_put(b, flat.p, flat.n);
        return;
    }
    n = dict ? v.u.dict->n : v.u.list->n;
    jinja_str_putc(b, dict ? '{' : jv_is(v, JV_LIST) ? '[' : '(');
    for (size_t i = 0; i < n && !b->r->rc; i++) {
        struct jbuf key = {.r = b->r};
        size_t behind = i + 1 < n ? 1 : allowance + 1;

        if (i) {
            jinja_str_puts(b, ",\n");
            jinja_str_pad(b, space, indent + 1);
        }
        if (dict) {
            put(&key, v.u.dict->e[i].key, false);
            jinja_str_puts(&key, ": ");
            jinja_str_put(b, key.p, key.n);
        }
        if (!b->r->rc)
            put_pretty(b, dict ? v.u.dict->e[i].value : v.u.list->v[i],
                       indent + 1 + jinja_str_count(key.p, key.n), behind);
    }
    jinja_str_puts(b, dict ? "}" : jv_is(v, JV_LIST) ? "]" : n == 1 ? ",)" : ")");
    jinja_run_leave(b->r);
}

struct jv jinja_repr_pretty(struct jrun *r, struct jv v)
{
    struct jbuf b = {.r = r};

    put_pretty(&b, sorted(r, v), 0, 0);
    return jinja_str_done(&b);
}
