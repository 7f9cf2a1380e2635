/* jinja_ops.c - which operator means what for which types; an undefined operand is always an error. */
#include "text/jinja_ops.h"

#include <string.h>

#include "text/jinja_html.h"
#include "text/jinja_pct.h"
#include "text/jinja_str.h"

static struct jv unsupported(struct jrun *r, enum jop op, struct jv a, struct jv b)
{
    static const char *const sign[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

    if (op == JOP_ADD && (jv_is(a, JV_STR) || jv_is_seq(a)))
        jinja_run_fail(r, "can only concatenate %s (not \"%s\") to %s", jinja_val_type(a), jinja_val_type(b),
                       jinja_val_type(a));
    else
        jinja_run_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", sign[op], jinja_val_type(a),
                       jinja_val_type(b));
    return jv_none();
}

static struct jv add_strings(struct jrun *r, struct jv a, struct jv b)
{
    bool markup = jv_is_markup(a) || jv_is_markup(b);
    struct jv v;

    if (markup) {
        a = jinja_html_escape(r, a);
        b = jinja_html_escape(r, b);
    }
    if (r->rc)
        return jv_none();
    v = jinja_str_concat(r, a, b);
    if (jv_is(v, JV_STR))
        v.flags = markup ? JV_MARKUP : 0;
    return v;
}

static struct jv add_lists(struct jrun *r, struct jv a, struct jv b)
{
    size_t na = a.u.list->n, nb = b.u.list->n;
    struct jv v = jv_of((enum jv_type)a.type);
    struct jlist *l = jinja_run_alloc(r, sizeof(*l) + (na + nb) * sizeof(v));

    if (!l)
        return jv_none();
    l->n = na + nb;
    if (na)
        memcpy(l->v, a.u.list->v, na * sizeof(v));
    if (nb)
        memcpy(l->v + na, b.u.list->v, nb * sizeof(v));
    v.u.list = l;
    return v;
}

static struct jv repeat_list(struct jrun *r, struct jv a, size_t times)
{
    struct jv v = jv_of((enum jv_type)a.type);
    size_t n = a.u.list->n, total, bytes;
    struct jlist *l;

    if (__builtin_mul_overflow(n, times, &total) || __builtin_mul_overflow(total, sizeof(v), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(*l), &bytes))
        bytes = SIZE_MAX;
    l = jinja_run_alloc(r, bytes);
    if (!l)
        return jv_none();
    l->n = total;
    for (size_t i = 0; i < total; i++)
        l->v[i] = a.u.list->v[i % n];
    v.u.list = l;
    return v;
}

/* A string, list or tuple, several times over. */
static struct jv repeat(struct jrun *r, struct jv a, struct jv times)
{
    struct jbuf b = {.r = r};
    size_t n;
    struct jv v;

    if (jv_is(times, JV_BIG)) {
        jinja_run_fail(r, "cannot fit 'int' into an index-sized integer");
        return jv_none();
    }
    n = jv_index(times) > 0 ? (size_t)jv_index(times) : 0;
    if (!jv_is(a, JV_STR))
        return repeat_list(r, a, n);
    jinja_str_pad(&b, a, n);
    v = jinja_str_done(&b);
    v.flags = jv_is(v, JV_STR) ? a.flags : 0;
    return v;
}

static bool repeatable(struct jv v)
{
    return jv_is(v, JV_STR) || jv_is_seq(v);
}

struct jv jinja_ops_binary(struct jrun *r, enum jop op, struct jv a, struct jv b)
{
    if (r->rc)
        return jv_none();
    if (jinja_num_is(a) && jinja_num_is(b))
        return jinja_num_binary(r, op, a, b);
    if (op == JOP_MOD && jv_is(a, JV_STR))
        return jinja_pct_format(r, a, b);
    if (jv_is(a, JV_UNDEF) || jv_is(b, JV_UNDEF))
        return jinja_val_undef_fail(r, jv_is(a, JV_UNDEF) ? a : b);
    if (op == JOP_ADD && jv_is(a, JV_STR) && jv_is(b, JV_STR))
        return add_strings(r, a, b);
    if (op == JOP_ADD && jv_is_seq(a) && a.type == b.type)
        return add_lists(r, a, b);
    if (op == JOP_MUL && repeatable(a) && jinja_num_is_int(b))
        return repeat(r, a, b);
    if (op == JOP_MUL && repeatable(b) && jinja_num_is_int(a))
        return repeat(r, b, a);
    return unsupported(r, op, a, b);
}

struct jv jinja_ops_sign(struct jrun *r, bool minus, struct jv a)
{
    if (r->rc)
        return jv_none();
    if (jv_is(a, JV_UNDEF))
        return jinja_val_undef_fail(r, a);
    if (!jinja_num_is(a)) {
        jinja_run_fail(r, "bad operand type for unary %c: '%s'", minus ? '-' : '+', jinja_val_type(a));
        return jv_none();
    }
    if (minus)
        return jinja_num_negate(r, a);
    return jv_is(a, JV_BOOL) ? jv_int(a.u.b) : a;
}
