/* jinja_fseq.c - sorting, grouping, first and last, sums: filters that walk their value when they are
 * called. */
#include "text/jinja_fseq.h"

#include <string.h>

#include "text/jinja_attr.h"
#include "text/jinja_case.h"
#include "text/jinja_cmp.h"
#include "text/jinja_dict.h"
#include "text/jinja_html.h"
#include "text/jinja_iter.h"
#include "text/jinja_meth.h"
#include "text/jinja_ops.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_strm.h"

static struct jv fold(struct jrun *r, struct jv v, bool case_sensitive)
{
    if (case_sensitive || !jv_is(v, JV_STR))
        return v;
    return jinja_case_map(r, v, JCASE_LOWER);
}

struct jv jinja_fseq_attr(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[1], out;

    if (!jinja_args_bind(r, "attr", a, "name", 1, p))
        return jv_none();
    if (!jv_is(p[0], JV_STR)) {
        jinja_run_fail(r, "attribute name must be string, not '%s'", jinja_val_type(p[0]));
        return jv_none();
    }
    out = jinja_meth_attr(r, v, p[0]);
    return jv_is(out, JV_MISSING) ? jinja_val_undef_item(r, v, p[0]) : out;
}

struct jv jinja_fseq_default(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[2];

    if (!jinja_args_bind(r, "default", a, "default_value boolean", 0, p))
        return jv_none();
    if (!jv_is(v, JV_UNDEF) && !(jinja_args_true(p[1], false) && !jinja_val_true(v)))
        return v;
    return jv_is(p[0], JV_MISSING) ? jinja_str_lit(r, "") : p[0];
}

struct jv jinja_fseq_length(struct jrun *r, struct jv v, const struct jargs *a)
{
    size_t n = 0;

    if (!jinja_args_bind(r, "length", a, "", 0, NULL))
        return jv_none();
    if (!jinja_val_len(r, v, &n))
        jinja_run_fail(r, "object of type '%s' has no len()", jinja_val_type(v));
    return jv_int((int64_t)n);
}

struct jv jinja_fseq_list(struct jrun *r, struct jv v, const struct jargs *a)
{
    return jinja_args_bind(r, "list", a, "", 0, NULL) ? jinja_iter_list(r, v) : jv_none();
}

struct jv jinja_fseq_first(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jiter *it;
    struct jv out;

    if (!jinja_args_bind(r, "first", a, "", 0, NULL))
        return jv_none();
    it = jinja_iter_open(r, v);
    if (it && jinja_iter_next(r, it, &out))
        return out;
    return jinja_val_undef_hint(r, "No first item, sequence was empty.");
}

struct jv jinja_fseq_last(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv it, out;

    if (!jinja_args_bind(r, "last", a, "", 0, NULL))
        return jv_none();
    it = jinja_iter_reversed(r, v);
    if (jv_is(it, JV_MISSING)) {
        jinja_run_fail(r, "'%s' object is not reversible", jinja_val_type(v));
        return jv_none();
    }
    if (!r->rc && jinja_iter_next(r, it.u.iter, &out))
        return out;
    return jinja_val_undef_hint(r, "No last item, sequence was empty.");
}

/* Always the same choices for the same template: a rendering must be repeatable. */
struct jv jinja_fseq_random(struct jrun *r, struct jv v, const struct jargs *a)
{
    size_t n = 0;

    if (!jinja_args_bind(r, "random", a, "", 0, NULL))
        return jv_none();
    if (!jinja_val_len(r, v, &n))
        jinja_run_fail(r, "object of type '%s' has no len()", jinja_val_type(v));
    if (n == 0)
        return jinja_val_undef_hint(r, "No random item, sequence was empty.");
    r->random = r->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return jinja_attr_item(r, v, jv_int((int64_t)((r->random >> 33) % n)));
}

static struct jv reversed_string(struct jrun *r, struct jv v)
{
    return jinja_attr_slice(r, v, jv_missing(), jv_missing(), jv_int(-1));
}

struct jv jinja_fseq_reverse(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jgrow g = {.r = r};
    struct jv out;

    if (!jinja_args_bind(r, "reverse", a, "", 0, NULL))
        return jv_none();
    if (jv_is(v, JV_STR))
        return reversed_string(r, v);
    out = jinja_iter_reversed(r, v);
    if (!jv_is(out, JV_MISSING))
        return out;
    if (!jinja_iter_can(v)) {
        jinja_run_fail(r, "argument must be iterable");
        return jv_none();
    }
    out = jinja_iter_list(r, v);
    for (size_t i = r->rc ? 0 : out.u.list->n; i-- > 0;)
        if (!jinja_val_push(&g, out.u.list->v[i]))
            break;
    return jinja_val_done(&g, JV_LIST);
}

struct jv jinja_fseq_join(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jbuf b = {.r = r};
    struct jgrow items = {.r = r};
    struct jpath path;
    struct jiter *it;
    struct jv p[2], d;
    bool markup = false;

    if (!jinja_args_bind(r, "join", a, "d attribute", 0, p) || !jinja_attr_path(r, p[1], &path))
        return jv_none();
    d = jv_is(p[0], JV_MISSING) ? jinja_str_lit(r, "") : jinja_repr_soft(r, p[0]);
    it = jinja_iter_open(r, v);
    while (it && jinja_iter_next(r, it, &v)) {
        v = jinja_repr_soft(r, jinja_attr_follow(r, v, &path, jv_missing()));
        markup |= jv_is_markup(v);
        if (!jinja_val_push(&items, v))
            break;
    }
    markup = r->autoescape && (markup || jv_is_markup(d));
    if (markup)
        d = jinja_html_escape(r, d);
    for (size_t i = 0; i < items.n && !r->rc; i++) {
        v = markup ? jinja_html_escape(r, items.v[i]) : items.v[i];
        if (i)
            jinja_repr_put_str(&b, d);
        jinja_repr_put_str(&b, v);
    }
    v = jinja_str_done(&b);
    if (markup && !r->rc)
        v.flags = JV_MARKUP;
    return v;
}

/* What an element is sorted by: the list of what the paths of a comma separated attribute lead to. */
static struct jv sort_key(struct jrun *r, struct jv v, const struct jpath *path, size_t n,
                          bool case_sensitive)
{
    struct jgrow g = {.r = r};

    for (size_t i = 0; i < n && !r->rc; i++)
        jinja_val_push(&g, fold(r, jinja_attr_follow(r, v, &path[i], jv_missing()), case_sensitive));
    return jinja_val_done(&g, JV_LIST);
}

static struct jpath *read_paths(struct jrun *r, struct jv attribute, size_t *n)
{
    const struct jstr *s = jv_is(attribute, JV_STR) ? attribute.u.str : NULL;
    size_t from = 0, count = 1;
    struct jpath *path;

    for (size_t i = 0; s && i < s->n; i++)
        count += s->p[i] == ',';
    path = jinja_run_zalloc(r, count, sizeof(*path));
    *n = 0;
    if (!path)
        return NULL;
    if (!s)
        jinja_attr_path(r, attribute, &path[(*n)++]);
    for (size_t i = 0; s && i <= s->n && !r->rc; i++)
        if (i == s->n || s->p[i] == ',') {
            jinja_attr_path(r, jinja_str_sub(r, attribute, from, i), &path[(*n)++]);
            from = i + 1;
        }
    return r->rc ? NULL : path;
}

struct jv jinja_fseq_sort(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[3], all;
    struct jpath *path;
    struct jsort *s;
    struct jgrow g = {.r = r};
    size_t n_paths, n;
    int64_t reverse = 0;
    bool sensitive;

    if (!jinja_args_bind(r, "sort", a, "reverse case_sensitive attribute", 0, p) ||
        !jinja_args_index(r, "sort", p[0], &reverse) || !(path = read_paths(r, p[2], &n_paths)))
        return jv_none();
    sensitive = jinja_args_true(p[1], false);
    all = jinja_iter_list(r, v);
    n = r->rc ? 0 : all.u.list->n;
    s = jinja_run_zalloc(r, 2 * n, sizeof(*s));
    for (size_t i = 0; s && i < n && !r->rc; i++)
        s[i] = (struct jsort){sort_key(r, all.u.list->v[i], path, n_paths, sensitive), all.u.list->v[i]};
    if (s)
        jinja_cmp_sort(r, s, s + n, n, reverse != 0);
    for (size_t i = 0; s && i < n; i++)
        if (!jinja_val_push(&g, s[i].value))
            break;
    return jinja_val_done(&g, JV_LIST);
}

struct jv jinja_fseq_dictsort(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[3];
    struct jsort *s;
    struct jgrow g = {.r = r};
    bool sensitive, by_value;
    int64_t reverse = 0;
    size_t n;

    if (!jinja_args_bind(r, "dictsort", a, "case_sensitive by reverse", 0, p) ||
        !jinja_args_index(r, "dictsort", p[2], &reverse))
        return jv_none();
    by_value = jinja_str_is(p[1], "value");
    if (!by_value && !jv_is(p[1], JV_MISSING) && !jinja_str_is(p[1], "key"))
        jinja_run_fail(r, "You can only sort by either \"key\" or \"value\"");
    else if (jv_is(v, JV_UNDEF))
        jinja_val_undef_fail(r, v);
    else if (!jv_is(v, JV_DICT))
        jinja_run_fail(r, "'%s' object has no attribute 'items'", jinja_val_type(v));
    if (r->rc)
        return jv_none();
    sensitive = jinja_args_true(p[0], false);
    n = v.u.dict->n;
    s = jinja_run_zalloc(r, 2 * n, sizeof(*s));
    for (size_t i = 0; s && i < n; i++) {
        const struct jentry *e = &v.u.dict->e[i];

        s[i] = (struct jsort){fold(r, by_value ? e->value : e->key, sensitive),
                              jinja_val_pair(r, e->key, e->value)};
    }
    if (s)
        jinja_cmp_sort(r, s, s + n, n, reverse != 0);
    for (size_t i = 0; s && i < n; i++)
        if (!jinja_val_push(&g, s[i].value))
            break;
    return jinja_val_done(&g, JV_LIST);
}

static struct jv extreme(struct jrun *r, struct jv v, const struct jargs *a, const char *name,
                         enum jrel better)
{
    struct jv p[2], best = jv_missing(), best_key = jv_none(), key, x;
    struct jpath path;
    struct jiter *it;
    bool sensitive;

    if (!jinja_args_bind(r, name, a, "case_sensitive attribute", 0, p) || !jinja_attr_path(r, p[1], &path))
        return jv_none();
    sensitive = jinja_args_true(p[0], false);
    it = jinja_iter_open(r, v);
    while (it && jinja_iter_next(r, it, &x)) {
        key = fold(r, jinja_attr_follow(r, x, &path, jv_missing()), sensitive);
        if (jv_is(best, JV_MISSING) || jinja_cmp_rel(r, better, key, best_key)) {
            best = x;
            best_key = key;
        }
    }
    return jv_is(best, JV_MISSING) ? jinja_val_undef_hint(r, "No aggregated item, sequence was empty.")
                                   : best;
}

struct jv jinja_fseq_max(struct jrun *r, struct jv v, const struct jargs *a)
{
    return extreme(r, v, a, "max", JREL_GT);
}

struct jv jinja_fseq_min(struct jrun *r, struct jv v, const struct jargs *a)
{
    return extreme(r, v, a, "min", JREL_LT);
}

struct jv jinja_fseq_sum(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[2], sum, x;
    struct jpath path;
    struct jiter *it;

    if (!jinja_args_bind(r, "sum", a, "attribute start", 0, p) || !jinja_attr_path(r, p[0], &path))
        return jv_none();
    sum = jv_is(p[1], JV_MISSING) ? jv_int(0) : p[1];
    if (jv_is(sum, JV_STR))
        jinja_run_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    it = jinja_iter_open(r, v);
    while (it && jinja_iter_next(r, it, &x))
        sum = jinja_ops_binary(r, JOP_ADD, sum, jinja_attr_follow(r, x, &path, jv_missing()));
    return sum;
}

/* One group: a tuple that also answers to .grouper and .list. */
static struct jv group(struct jrun *r, struct jv key, const struct jsort *s, size_t n)
{
    struct jgrow g = {.r = r};
    struct jv v;

    for (size_t i = 0; i < n; i++)
        if (!jinja_val_push(&g, s[i].value))
            break;
    v = jinja_val_pair(r, key, jinja_val_done(&g, JV_LIST));
    if (jv_is(v, JV_TUPLE))
        v.flags = JV_GROUP;
    return v;
}

struct jv jinja_fseq_groupby(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[3], all;
    struct jpath path;
    struct jgrow g = {.r = r};
    struct jsort *s;
    size_t n, from = 0;
    bool sensitive;

    if (!jinja_args_bind(r, "groupby", a, "attribute default case_sensitive", 1, p) ||
        !jinja_attr_path(r, p[0], &path))
        return jv_none();
    sensitive = jinja_args_true(p[2], false);
    all = jinja_iter_list(r, v);
    n = r->rc ? 0 : all.u.list->n;
    s = jinja_run_zalloc(r, 2 * n, sizeof(*s));
    for (size_t i = 0; s && i < n && !r->rc; i++) {
        v = all.u.list->v[i];
        s[i] = (struct jsort){fold(r, jinja_attr_follow(r, v, &path, p[1]), sensitive), v};
    }
    if (s)
        jinja_cmp_sort(r, s, s + n, n, false);
    for (size_t i = 1; s && i <= n && !r->rc; i++)
        if (i == n ||
            !jinja_cmp_equal(r, s[i].key, s[from].key)) { /* the key is shown as the first one has it */
            v = jinja_attr_follow(r, s[from].value, &path, p[1]);
            jinja_val_push(&g, group(r, v, s + from, i - from));
            from = i;
        }
    return jinja_val_done(&g, JV_LIST);
}
