/* jinja_attr.c - look-ups never fail for want of an element: they give an undefined value that remembers
 * what it was. */
#include "text/jinja_attr.h"

#include "text/jinja_dict.h"
#include "text/jinja_int.h"
#include "text/jinja_iter.h"
#include "text/jinja_meth.h"
#include "text/jinja_num.h"
#include "text/jinja_str.h"
#include "text/jinja_tree.h"
#include "text/jinja_uni.h"

static struct jv char_at(struct jrun *r, struct jv s, size_t i)
{
    size_t from = jinja_str_offset(s.u.str, i);

    if (!jinja_run_step(r, jinja_str_chars(s.u.str) == s.u.str->n ? 0 : from / 16))
        return jv_none();
    return jinja_str_sub(r, s, from, from + jinja_str_step(s.u.str->p + from));
}

/* obj[key] as Python has it; missing where Python raises TypeError or LookupError. */
static struct jv subscript(struct jrun *r, struct jv obj, struct jv key)
{
    struct jv v;
    int64_t i;
    size_t n;

    if (jv_is(obj, JV_DICT))
        return jinja_dict_get(r, obj.u.dict, key, &v) ? v : jv_missing();
    if (jv_is(obj, JV_SELF))
        return jv_is(key, JV_STR) ? jinja_tree_block(r, key) : jv_missing();
    if (!jv_is_seq(obj) && !jv_is(obj, JV_STR) && !jv_is(obj, JV_RANGE))
        return jv_missing();
    if (!jv_is_int(key) || !jinja_val_len(r, obj, &n))
        return jv_missing();
    i = jv_index(key);
    if (i < 0)
        i += (int64_t)n;
    if (i < 0 || (size_t)i >= n)
        return jv_missing();
    if (jv_is(obj, JV_STR))
        return char_at(r, obj, (size_t)i);
    return jv_is(obj, JV_RANGE) ? jv_int(jinja_iter_range_item(obj.u.range, (size_t)i)) : obj.u.list->v[i];
}

struct jv jinja_attr_get(struct jrun *r, struct jv obj, struct jv name)
{
    struct jv v = jinja_meth_attr(r, obj, name);

    if (jv_is(v, JV_MISSING))
        v = subscript(r, obj, name);
    return jv_is(v, JV_MISSING) ? jinja_val_undef_item(r, obj, name) : v;
}

struct jv jinja_attr_item(struct jrun *r, struct jv obj, struct jv key)
{
    struct jv v;

    if (jv_is(obj, JV_UNDEF))
        return jinja_val_undef_fail(r, obj);
    v = subscript(r, obj, key);
    if (jv_is(v, JV_MISSING) && jv_is(key, JV_STR))
        v = jinja_meth_attr(r, obj, key);
    return jv_is(v, JV_MISSING) ? jinja_val_undef_item(r, obj, key) : v;
}

static bool bound(struct jrun *r, struct jv v, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    if (jv_is(v, JV_MISSING) || jv_is(v, JV_NONE))
        return true;
    if (jv_is(v, JV_BIG)) {
        *out = jinja_int_negative(v) ? -INT64_MAX : INT64_MAX;
        return true;
    }
    if (!jv_is_int(v)) {
        jinja_run_fail(r, "slice indices must be integers or None or have an __index__ method");
        return false;
    }
    *out = jv_index(v);
    return true;
}

struct extent {
    int64_t start, stop, step;
    size_t n; /* elements chosen */
};

static int64_t clamp(int64_t i, int64_t n, int64_t lo, int64_t hi)
{
    if (i < 0)
        i += n;
    return i < lo ? lo : i > hi ? hi : i;
}

static bool extent_of(struct jrun *r, struct jv start, struct jv stop, struct jv step, int64_t n,
                      struct extent *x)
{
    bool back;

    if (!bound(r, step, 1, &x->step))
        return false;
    if (x->step == 0) {
        jinja_run_fail(r, "slice step cannot be zero");
        return false;
    }
    if (x->step < -INT64_MAX / 2) /* so that sums below cannot overflow; no string or list is that long */
        x->step = -INT64_MAX / 2;
    if (x->step > INT64_MAX / 2)
        x->step = INT64_MAX / 2;
    back = x->step < 0;
    if (!bound(r, start, back ? INT64_MAX : 0, &x->start) ||
        !bound(r, stop, back ? INT64_MIN : INT64_MAX, &x->stop))
        return false;
    x->start = clamp(x->start, n, back ? -1 : 0, back ? n - 1 : n);
    x->stop = x->stop == INT64_MIN ? -1 : clamp(x->stop, n, back ? -1 : 0, back ? n - 1 : n);
    if (back)
        x->n = x->start > x->stop ? (size_t)((x->start - x->stop - 1) / -x->step) + 1 : 0;
    else
        x->n = x->stop > x->start ? (size_t)((x->stop - x->start - 1) / x->step) + 1 : 0;
    return true;
}

static struct jv slice_str(struct jrun *r, struct jv s, const struct extent *x)
{
    struct jbuf b = {.r = r};
    const char *p = s.u.str->p;
    size_t at, n = s.u.str->n;
    struct jv v;

    if (x->n == 0)
        return jinja_str_sub(r, s, 0, 0);
    if (!jinja_run_step(r, n / 16))
        return jv_none();
    at = jinja_str_offset(s.u.str, (size_t)x->start);
    if (x->step == 1) {
        size_t to =
            x->stop == (int64_t)jinja_str_chars(s.u.str) ? n : jinja_str_offset(s.u.str, (size_t)x->stop);

        return jinja_str_sub(r, s, at, to);
    }
    for (size_t i = 0; i < x->n && !r->rc; i++) {
        jinja_str_put(&b, p + at, jinja_str_step(p + at));
        for (int64_t k = 0; k < x->step && i + 1 < x->n; k++)
            at += jinja_str_step(p + at);
        for (int64_t k = 0; k > x->step && i + 1 < x->n; k--)
            at -= jinja_str_back(p, at);
    }
    v = jinja_str_done(&b);
    v.flags = s.flags;
    return v;
}

static struct jv slice_range(struct jrun *r, const struct jrange *g, const struct extent *x)
{
    struct jv v = jv_of(JV_RANGE);
    struct jrange *out = jinja_run_alloc(r, sizeof(*out));

    if (!out)
        return jv_none();
    out->start = (int64_t)((uint64_t)g->start + (uint64_t)x->start * (uint64_t)g->step);
    out->step = (int64_t)((uint64_t)g->step * (uint64_t)x->step);
    out->n = x->n;
    out->stop = (int64_t)((uint64_t)g->start + (uint64_t)x->stop * (uint64_t)g->step);
    v.u.range = out;
    return v;
}

struct jv jinja_attr_slice(struct jrun *r, struct jv obj, struct jv start, struct jv stop, struct jv step)
{
    struct jgrow g = {.r = r};
    struct extent x;
    size_t n;

    if (jv_is(obj, JV_UNDEF))
        return jinja_val_undef_fail(r, obj);
    if (jv_is(obj, JV_DICT)) {
        jinja_run_fail(r, "unhashable type: 'slice'");
        return jv_none();
    }
    if (!jv_is_seq(obj) && !jv_is(obj, JV_STR) && !jv_is(obj, JV_RANGE)) {
        jinja_run_fail(r, "'%s' object is not subscriptable", jinja_val_type(obj));
        return jv_none();
    }
    if (!jinja_val_len(r, obj, &n) || !extent_of(r, start, stop, step, (int64_t)n, &x))
        return jv_none();
    if (jv_is(obj, JV_STR))
        return slice_str(r, obj, &x);
    if (jv_is(obj, JV_RANGE))
        return slice_range(r, obj.u.range, &x);
    for (size_t i = 0; i < x.n; i++)
        if (!jinja_val_push(&g, obj.u.list->v[x.start + (int64_t)i * x.step]))
            break;
    return jinja_val_done(&g, (enum jv_type)obj.type);
}

static bool all_digits(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i += jinja_str_step(p + i))
        if (!jinja_uni_digit(jinja_str_char(p + i)))
            return false;
    return n > 0;
}

bool jinja_attr_path(struct jrun *r, struct jv path, struct jpath *out)
{
    struct jgrow g = {.r = r};
    struct jv number;

    *out = (struct jpath){.part = NULL};
    if (jv_is(path, JV_MISSING) || jv_is(path, JV_NONE))
        return true;
    if (!jv_is(path, JV_STR)) {
        jinja_val_push(&g, path);
    } else {
        const char *p = path.u.str->p;
        size_t n = path.u.str->n, from = 0;

        for (size_t i = 0; i <= n && !r->rc; i++)
            if (i == n || p[i] == '.') {
                if (all_digits(p + from, i - from) && jinja_num_parse_int(r, p + from, i - from, 10, &number))
                    jinja_val_push(&g, number);
                else
                    jinja_val_push(&g, jinja_str_sub(r, path, from, i));
                from = i + 1;
            }
    }
    *out = (struct jpath){.part = g.v, .n = g.n};
    return r->rc == 0;
}

struct jv jinja_attr_follow(struct jrun *r, struct jv obj, const struct jpath *p, struct jv otherwise)
{
    for (size_t i = 0; i < p->n && !r->rc; i++) {
        obj = jinja_attr_item(r, obj, p->part[i]);
        if (jv_is(obj, JV_UNDEF) && !jv_is(otherwise, JV_MISSING) && !jv_is(otherwise, JV_NONE))
            obj = otherwise;
    }
    return obj;
}
