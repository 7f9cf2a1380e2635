/* jinja_cmp.c - comparison of values; depth and steps are counted, since values may be deep and long. */
#include "text/jinja_cmp.h"

#include <string.h>

#include "text/jinja_dict.h"
#include "text/jinja_iter.h"
#include "text/jinja_num.h"
#include "text/jinja_str.h"

static bool equal_lists(struct jrun *r, const struct jlist *a, const struct jlist *b)
{
    bool same = a->n == b->n;

    if (a == b)
        return true;
    for (size_t i = 0; same && i < a->n; i++)
        same = jinja_cmp_equal(r, a->v[i], b->v[i]);
    return same && r->rc == 0;
}

static bool equal_dicts(struct jrun *r, const struct jdict *a, const struct jdict *b)
{
    bool same = a->n == b->n;
    struct jv v;

    if (a == b)
        return true;
    for (size_t i = 0; same && i < a->n; i++)
        same = jinja_dict_get(r, b, a->e[i].key, &v) && jinja_cmp_equal(r, a->e[i].value, v);
    return same && r->rc == 0;
}

static bool equal_ranges(const struct jrange *a, const struct jrange *b)
{
    return a->n == b->n && (a->n == 0 || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

/* dict.keys() compares as a set does; other views only with themselves. */
static bool equal_views(struct jrun *r, struct jv a, struct jv b)
{
    struct jv v;

    if (a.view != JVIEW_KEYS || b.view != JVIEW_KEYS)
        return jinja_val_same(a, b);
    if (a.u.dict->n != b.u.dict->n)
        return false;
    for (size_t i = 0; i < a.u.dict->n; i++)
        if (!jinja_dict_get(r, b.u.dict, a.u.dict->e[i].key, &v))
            return false;
    return true;
}

bool jinja_cmp_equal(struct jrun *r, struct jv a, struct jv b)
{
    bool same;

    if (jinja_num_is(a) && jinja_num_is(b))
        return jinja_num_cmp(a, b) == 0;
    if (a.type != b.type)
        return false;
    if (jv_is(a, JV_STR))
        return a.u.str->n == b.u.str->n && jinja_run_step(r, a.u.str->n / 64) &&
               memcmp(a.u.str->p, b.u.str->p, a.u.str->n) == 0;
    if (!jinja_run_step(r, 0) || !jinja_run_enter(r))
        return false;
    switch ((enum jv_type)a.type) {
    case JV_UNDEF: same = true; break;
    case JV_LIST:
    case JV_TUPLE: same = equal_lists(r, a.u.list, b.u.list); break;
    case JV_DICT: same = equal_dicts(r, a.u.dict, b.u.dict); break;
    case JV_RANGE: same = equal_ranges(a.u.range, b.u.range); break;
    case JV_VIEW: same = equal_views(r, a, b); break;
    default: same = jinja_val_same(a, b);
    }
    jinja_run_leave(r);
    return same;
}

static int cmp_str(const struct jstr *a, const struct jstr *b)
{
    size_t n = a->n < b->n ? a->n : b->n;
    int c = n ? memcmp(a->p, b->p, n) : 0; /* the order of UTF-8 is the order of characters */

    return c < 0 ? -1 : c > 0 ? 1 : a->n < b->n ? -1 : a->n > b->n;
}

static bool holds(enum jrel rel, int c)
{
    switch (rel) {
    case JREL_LT: return c < 0;
    case JREL_LE: return c <= 0;
    case JREL_GT: return c == 1;
    default: return c == 0 || c == 1;
    }
}

static bool ordered(struct jrun *r, enum jrel rel, struct jv a, struct jv b);

static bool ordered_lists(struct jrun *r, enum jrel rel, const struct jlist *a, const struct jlist *b)
{
    bool result;
    size_t i = 0;

    if (!jinja_run_enter(r))
        return false;
    while (i < a->n && i < b->n && jinja_cmp_equal(r, a->v[i], b->v[i]))
        i++;
    if (r->rc)
        result = false;
    else if (i < a->n && i < b->n)
        result = ordered(r, rel, a->v[i], b->v[i]);
    else
        result = holds(rel, a->n < b->n ? -1 : a->n > b->n);
    jinja_run_leave(r);
    return result;
}

static bool ordered(struct jrun *r, enum jrel rel, struct jv a, struct jv b)
{
    static const char *const sign[] = {"==", "!=", "<", "<=", ">", ">="};

    if (!jinja_run_step(r, 0))
        return false;
    if (jinja_num_is(a) && jinja_num_is(b)) {
        int c = jinja_num_cmp(a, b);

        return c != 2 && holds(rel, c);
    }
    if (jv_is(a, JV_STR) && jv_is(b, JV_STR))
        return jinja_run_step(r, a.u.str->n / 64) && holds(rel, cmp_str(a.u.str, b.u.str));
    if (jv_is_seq(a) && a.type == b.type)
        return ordered_lists(r, rel, a.u.list, b.u.list);
    if (jv_is(a, JV_UNDEF) || jv_is(b, JV_UNDEF))
        jinja_val_undef_fail(r, jv_is(a, JV_UNDEF) ? a : b);
    else
        jinja_run_fail(r, "'%s' not supported between instances of '%s' and '%s'", sign[rel],
                       jinja_val_type(a), jinja_val_type(b));
    return false;
}

bool jinja_cmp_rel(struct jrun *r, enum jrel rel, struct jv a, struct jv b)
{
    switch (rel) {
    case JREL_EQ: return jinja_cmp_equal(r, a, b);
    case JREL_NE: return !jinja_cmp_equal(r, a, b);
    case JREL_IN: return jinja_cmp_contains(r, a, b);
    case JREL_NOT_IN: return !jinja_cmp_contains(r, a, b);
    default: return ordered(r, rel, a, b);
    }
}

static bool str_contains(struct jrun *r, struct jv item, const struct jstr *s)
{
    if (jv_is(item, JV_STR))
        return jinja_run_step(r, s->n / 8) &&
               jinja_str_find(s->p, s->n, item.u.str->p, item.u.str->n) != SIZE_MAX;
    jinja_run_fail(r, "'in <string>' requires string as left operand, not %s", jinja_val_type(item));
    return false;
}

static bool dict_contains(struct jrun *r, struct jv item, const struct jdict *d)
{
    uint32_t hash;
    struct jv v;

    if (!jinja_dict_hash(r, item, &hash)) {
        jinja_run_fail(r, "unhashable type: '%s'", jinja_val_type(item));
        return false;
    }
    return jinja_dict_get(r, d, item, &v);
}

bool jinja_cmp_contains(struct jrun *r, struct jv item, struct jv in)
{
    struct jiter *it;
    struct jv v;

    if (jv_is(in, JV_STR))
        return str_contains(r, item, in.u.str);
    if (jv_is(in, JV_DICT) || (jv_is(in, JV_VIEW) && in.view == JVIEW_KEYS))
        return dict_contains(r, item, in.u.dict);
    if (!jinja_iter_can(in)) {
        jinja_run_fail(r, "argument of type '%s' is not iterable", jinja_val_type(in));
        return false;
    }
    it = jinja_iter_open(r, in);
    while (it && jinja_iter_next(r, it, &v))
        if (jinja_cmp_equal(r, v, item))
            return true;
    return false;
}

static void merge(struct jrun *r, struct jsort *out, const struct jsort *a, size_t na, const struct jsort *b,
                  size_t nb, bool descending)
{
    size_t i = 0, j = 0;

    while (i < na && j < nb && !r->rc) {
        /* equal keys keep their order in both directions: B goes first only where it must */
        bool second =
            descending ? ordered(r, JREL_LT, a[i].key, b[j].key) : ordered(r, JREL_LT, b[j].key, a[i].key);

        *out++ = second ? b[j++] : a[i++];
    }
    while (i < na)
        *out++ = a[i++];
    while (j < nb)
        *out++ = b[j++];
}

void jinja_cmp_sort(struct jrun *r, struct jsort *s, struct jsort *tmp, size_t n, bool descending)
{
    struct jsort *from = s, *to = tmp;

    for (size_t width = 1; width < n && !r->rc; width *= 2) {
        struct jsort *swap = from;

        for (size_t i = 0; i < n; i += 2 * width) {
            size_t mid = i + width < n ? i + width : n, end = i + 2 * width < n ? i + 2 * width : n;

            merge(r, to + i, from + i, mid - i, from + mid, end - mid, descending);
        }
        from = to;
        to = swap;
    }
    if (from != s)
        memcpy(s, from, n * sizeof(*s));
}
