/* jinja_json.c - writes JSON as Python does: separators ", " and ": ", floats by repr(), keys turned into
 * strings. */
#include "text/jinja_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/jpull.h"
#include "text/jinja_cmp.h"
#include "text/jinja_dict.h"
#include "text/jinja_num.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"

struct dump {
    struct jbuf out;
    bool ascii, sort, pretty;
    struct jv indent;       /* the string of one level */
    struct jv comma, colon; /* separators */
};

static void put_unit(struct jbuf *b, uint32_t c)
{
    if (c >= 0x10000) {
        c -= 0x10000;
        jinja_str_putf(b, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
    } else {
        jinja_str_putf(b, "\\u%04x", c);
    }
}

static void put_char(struct jbuf *b, uint32_t c)
{
    switch (c) {
    case '"': jinja_str_puts(b, "\\\""); break;
    case '\\': jinja_str_puts(b, "\\\\"); break;
    case '\n': jinja_str_puts(b, "\\n"); break;
    case '\r': jinja_str_puts(b, "\\r"); break;
    case '\t': jinja_str_puts(b, "\\t"); break;
    case '\f': jinja_str_puts(b, "\\f"); break;
    case '\b': jinja_str_puts(b, "\\b"); break;
    default: put_unit(b, c);
    }
}

static void put_string(struct dump *d, const struct jstr *s)
{
    struct jbuf *b = &d->out;
    size_t kept = 0, i = 0;

    jinja_str_putc(b, '"');
    while (i < s->n && !b->r->rc) {
        unsigned char c = (unsigned char)s->p[i];
        size_t n = jinja_str_step(s->p + i);

        if (c < 0x20 || c == '"' || c == '\\' || (d->ascii && c >= 0x7f)) {
            jinja_str_put(b, s->p + kept, i - kept);
            put_char(b, jinja_str_char(s->p + i));
            kept = i + n;
        }
        i += n;
    }
    jinja_str_put(b, s->p + kept, i - kept);
    jinja_str_putc(b, '"');
}

static void put_float(struct jbuf *b, double f)
{
    if (isfinite(f))
        jinja_num_put_float(b, f);
    else
        jinja_str_puts(b, isnan(f) ? "NaN" : f < 0 ? "-Infinity" : "Infinity");
}

static void new_line(struct dump *d, size_t level)
{
    if (!d->pretty)
        return;
    jinja_str_putc(&d->out, '\n');
    jinja_str_pad(&d->out, d->indent, level);
}

static void put(struct dump *d, struct jv v, size_t level);

static void put_list(struct dump *d, const struct jlist *l, size_t level)
{
    jinja_str_putc(&d->out, '[');
    for (size_t i = 0; i < l->n && !d->out.r->rc; i++) {
        if (i)
            jinja_str_put(&d->out, d->comma.u.str->p, d->comma.u.str->n);
        new_line(d, level + 1);
        put(d, l->v[i], level + 1);
    }
    if (l->n)
        new_line(d, level);
    jinja_str_putc(&d->out, ']');
}

static void put_key(struct dump *d, struct jv key)
{
    struct jbuf *b = &d->out;

    switch ((enum jv_type)key.type) {
    case JV_STR: put_string(d, key.u.str); return;
    case JV_NONE:
    case JV_BOOL:
    case JV_INT:
    case JV_BIG:
    case JV_FLOAT: break;
    default:
        jinja_run_fail(b->r, "keys must be str, int, float, bool or None, not %s", jinja_val_type(key));
        return;
    }
    jinja_str_putc(b, '"');
    put(d, key, 0);
    jinja_str_putc(b, '"');
}

static void put_dict(struct dump *d, const struct jdict *dict, size_t level)
{
    struct jrun *r = d->out.r;
    size_t n = dict->n;
    struct jsort *order = d->sort ? jinja_run_zalloc(r, 2 * n, sizeof(*order)) : NULL;

    for (size_t i = 0; order && i < n; i++)
        order[i] = (struct jsort){dict->e[i].key, dict->e[i].value};
    if (order)
        jinja_cmp_sort(r, order, order + n, n, false);
    jinja_str_putc(&d->out, '{');
    for (size_t i = 0; i < n && !r->rc; i++) {
        if (i)
            jinja_str_put(&d->out, d->comma.u.str->p, d->comma.u.str->n);
        new_line(d, level + 1);
        put_key(d, order ? order[i].key : dict->e[i].key);
        jinja_str_put(&d->out, d->colon.u.str->p, d->colon.u.str->n);
        put(d, order ? order[i].value : dict->e[i].value, level + 1);
    }
    if (n)
        new_line(d, level);
    jinja_str_putc(&d->out, '}');
}

static void put(struct dump *d, struct jv v, size_t level)
{
    struct jbuf *b = &d->out;

    if (!jinja_run_step(b->r, 0) || !jinja_run_enter(b->r))
        return;
    switch ((enum jv_type)v.type) {
    case JV_NONE: jinja_str_puts(b, "null"); break;
    case JV_BOOL: jinja_str_puts(b, v.u.b ? "true" : "false"); break;
    case JV_INT:
    case JV_BIG: jinja_repr_put(b, v); break;
    case JV_FLOAT: put_float(b, v.u.f); break;
    case JV_STR: put_string(d, v.u.str); break;
    case JV_LIST:
    case JV_TUPLE: put_list(d, v.u.list, level); break;
    case JV_DICT: put_dict(d, v.u.dict, level); break;
    default: jinja_run_fail(b->r, "Object of type %s is not JSON serializable", jinja_val_type(v));
    }
    jinja_run_leave(b->r);
}

static bool read_indent(struct dump *d, struct jv v)
{
    struct jbuf b = {.r = d->out.r};
    int64_t n;

    d->pretty = !jv_is(v, JV_MISSING) && !jv_is(v, JV_NONE);
    d->indent = v;
    if (!d->pretty || jv_is(v, JV_STR))
        return true;
    if (!jinja_args_index(d->out.r, "tojson", v, &n))
        return false;
    jinja_str_pad(&b, jinja_str_lit(d->out.r, " "), n > 0 ? (size_t)n : 0);
    d->indent = jinja_str_done(&b);
    return d->out.r->rc == 0;
}

static bool read_separators(struct dump *d, struct jv v)
{
    struct jrun *r = d->out.r;

    d->comma = jinja_str_lit(r, d->pretty ? "," : ", ");
    d->colon = jinja_str_lit(r, ": ");
    if (jv_is(v, JV_MISSING) || jv_is(v, JV_NONE))
        return r->rc == 0;
    if (!jv_is_seq(v) || v.u.list->n != 2 || !jv_is(v.u.list->v[0], JV_STR) ||
        !jv_is(v.u.list->v[1], JV_STR)) {
        jinja_run_fail(r, "tojson(): separators must be two strings");
        return false;
    }
    d->comma = v.u.list->v[0];
    d->colon = v.u.list->v[1];
    return true;
}

struct jv jinja_json_filter(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct dump d = {.out = {.r = r}};
    struct jv p[4];

    if (!jinja_args_bind(r, "tojson", a, "ensure_ascii indent separators sort_keys", 0, p))
        return jv_none();
    d.ascii = jinja_args_true(p[0], false);
    d.sort = jinja_args_true(p[3], false);
    if (!read_indent(&d, p[1]) || !read_separators(&d, p[2]))
        return jv_none();
    put(&d, v, 0);
    return jinja_str_done(&d.out);
}

static struct jv load_array(struct jrun *r, const json_t *j)
{
    struct jgrow g = {.r = r};

    for (size_t i = 0; i < json_array_size(j); i++)
        if (!jinja_val_push(&g, jinja_json_load(r, json_array_get(j, i))))
            break;
    return jinja_val_done(&g, JV_LIST);
}

static struct jv load_object(struct jrun *r, const json_t *j)
{
    json_t *object = (json_t *)(uintptr_t)j; /* jansson's iterators do not take const, but do not change it */
    struct jdict *d = jinja_dict_new(r);

    for (void *i = json_object_iter(object); d && i && !r->rc; i = json_object_iter_next(object, i)) {
        const char *key = json_object_iter_key(i);
        struct jv name = jinja_str_ref(r, key, json_object_iter_key_len(i));

        if (!r->rc)
            jinja_dict_set(r, d, name, jinja_json_load(r, json_object_iter_value(i)));
    }
    return r->rc ? jv_none() : jinja_dict_value(d);
}

struct jv jinja_json_load(struct jrun *r, const json_t *j)
{
    struct jv v = jv_none();

    if (!jinja_run_step(r, 0) || !jinja_run_enter(r))
        return v;
    switch (json_typeof(j)) {
    case JSON_OBJECT: v = load_object(r, j); break;
    case JSON_ARRAY: v = load_array(r, j); break;
    case JSON_STRING: v = jinja_str_ref(r, json_string_value(j), json_string_length(j)); break;
    case JSON_INTEGER: v = jv_int(json_integer_value(j)); break;
    case JSON_REAL: v = jv_float(json_real_value(j)); break;
    case JSON_TRUE: v = jv_bool(true); break;
    case JSON_FALSE: v = jv_bool(false); break;
    case JSON_NULL: break;
    }
    jinja_run_leave(r);
    return v;
}

static struct jv read_number(struct jrun *r, struct jp *j)
{
    struct jp_str s = jp_raw(j);
    double f;
    struct jv v;

    if (!memchr(s.s, '.', s.n) && !memchr(s.s, 'e', s.n) && !memchr(s.s, 'E', s.n) &&
        jinja_num_parse_int(r, s.s, s.n, 10, &v))
        return v;
    if (!r->rc && jinja_num_parse_float(s.s, s.n, &f))
        return jv_float(f);
    if (!r->rc)
        jp_fail(j, "this number is too long");
    return jv_none();
}

static struct jv read_value(struct jrun *r, struct jp *j)
{
    struct jgrow g = {.r = r};
    struct jdict *d;
    struct jp_str s;
    struct jv name;
    bool b = false;

    if (!jinja_run_step(r, 0))
        return jv_none();
    switch (jp_peek(j)) {
    case JP_OBJECT:
        d = jinja_dict_new(r);
        for (jp_enter_object(j); d && jp_key(j, &s);) {
            name = jinja_str_ref(r, s.s, s.n);
            if (r->rc || !jinja_dict_set(r, d, name, read_value(r, j)))
                return jv_none();
        }
        return jinja_dict_value(d);
    case JP_ARRAY:
        for (jp_enter_array(j); jp_elem(j);)
            if (!jinja_val_push(&g, read_value(r, j)))
                return jv_none();
        return jinja_val_done(&g, JV_LIST);
    case JP_STRING: return jp_string(j, &s) ? jinja_str_ref(r, s.s, s.n) : jv_none();
    case JP_NUMBER: return read_number(r, j);
    case JP_TRUE:
    case JP_FALSE: return jp_bool(j, &b) ? jv_bool(b) : jv_none();
    default: jp_null(j); return jv_none();
    }
}

struct jv jinja_json_read(struct jrun *r, const char *text, size_t len, const char *where)
{
    struct jp j;
    struct jv v = jv_none();

    if (jp_open(&j, text, len, where, &r->arena, r->e) == 0)
        v = read_value(r, &j);
    if (!r->rc)
        r->rc = jp_finish(&j);
    return r->rc ? jv_none() : v;
}
