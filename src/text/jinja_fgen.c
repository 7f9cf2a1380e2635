/* jinja_fgen.c - map, select and the like: each keeps what it needs in a small state and pulls from its
 * source.
 *
 * As in Jinja even wrong arguments are noticed only when the first element is asked for.
 */
#include "text/jinja_fgen.h"

#include "text/jinja_attr.h"
#include "text/jinja_case.h"
#include "text/jinja_cmp.h"
#include "text/jinja_dict.h"
#include "text/jinja_filt.h"
#include "text/jinja_iter.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_test.h"

struct gen {
    struct jargs args;
    struct jiter *source;    /* NULL before the first element */
    bool by_attribute, keep; /* of select and reject */
    struct jpath path;
    struct jv otherwise;
    const struct jfilter *filter;
    const struct jtest *test;
    struct jargs rest;  /* arguments of the filter or test */
    struct jdict *seen; /* of unique */
    struct jv size;     /* of batch and slice */
    int64_t at;         /* of slice */
    struct jv fill;
    struct jv all; /* of slice: the elements */
};

static struct jargs copy_args(struct jrun *r, const struct jargs *a)
{
    struct jargs out = {.n = 0};
    struct jv *v = jinja_run_zalloc(r, a->n, sizeof(*v));
    struct jkw *kw = jinja_run_zalloc(r, a->n_kw, sizeof(*kw));

    for (size_t i = 0; v && i < a->n; i++)
        v[i] = a->v[i];
    for (size_t i = 0; kw && i < a->n_kw; i++)
        kw[i] = a->kw[i];
    if (v && kw)
        out = (struct jargs){.v = v, .n = a->n, .kw = kw, .n_kw = a->n_kw};
    return out;
}

static struct jv generator(struct jrun *r, const char *repr, struct jv v, const struct jargs *a,
                           struct gen **state, bool (*next)(struct jrun *, struct jiter *, struct jv *))
{
    struct gen *g = jinja_run_zalloc(r, 1, sizeof(*g));

    if (g)
        g->args = copy_args(r, a);
    if (r->rc)
        return jv_none();
    if (state)
        *state = g;
    return jinja_iter_new(r, repr, v, g, next);
}

/* Opens the source once. False when it is falsy, which ends map and select before they look at anything. */
static bool open_source(struct jrun *r, struct jiter *it, struct gen *g)
{
    if (!jinja_val_true(it->over))
        return false;
    g->source = jinja_iter_open(r, it->over);
    return g->source != NULL;
}

static bool prepare_map(struct jrun *r, struct gen *g)
{
    const struct jargs *a = &g->args;
    struct jv attribute = jv_missing();

    g->otherwise = jv_missing();
    if (a->n) {
        if (jv_is(a->v[0], JV_STR))
            g->filter = jinja_filt_find(a->v[0].u.str->p, a->v[0].u.str->n);
        if (!g->filter)
            jinja_run_fail(r, "No filter named %s.", jinja_repr_brief(r, a->v[0]));
        g->rest = (struct jargs){.v = a->v + 1, .n = a->n - 1, .kw = a->kw, .n_kw = a->n_kw};
        return r->rc == 0;
    }
    for (size_t i = 0; i < a->n_kw; i++) {
        if (jinja_str_is(a->kw[i].name, "attribute"))
            attribute = a->kw[i].value;
        else if (jinja_str_is(a->kw[i].name, "default"))
            g->otherwise = a->kw[i].value;
        else
            jinja_run_fail(r, "Unexpected keyword argument %s", jinja_repr_brief(r, a->kw[i].name));
    }
    if (jv_is(attribute, JV_MISSING))
        jinja_run_fail(r, "map requires a filter argument");
    return r->rc == 0 && jinja_attr_path(r, attribute, &g->path);
}

static bool next_map(struct jrun *r, struct jiter *it, struct jv *out)
{
    struct gen *g = it->state;
    struct jv v;

    if (!g->source && (!open_source(r, it, g) || !prepare_map(r, g)))
        return false;
    if (!jinja_iter_next(r, g->source, &v))
        return false;
    *out = g->filter ? g->filter->call(r, v, &g->rest) : jinja_attr_follow(r, v, &g->path, g->otherwise);
    return true;
}

struct jv jinja_fgen_map(struct jrun *r, struct jv v, const struct jargs *a)
{
    return generator(r, "<generator object sync_do_map>", v, a, NULL, next_map);
}

static bool prepare_select(struct jrun *r, struct gen *g)
{
    const struct jargs *a = &g->args;
    size_t off = g->by_attribute ? 1 : 0;

    if (g->by_attribute && a->n == 0) {
        jinja_run_fail(r, "Missing parameter for attribute name");
        return false;
    }
    if (g->by_attribute && !jinja_attr_path(r, a->v[0], &g->path))
        return false;
    if (a->n <= off)
        return true;
    if (jv_is(a->v[off], JV_STR))
        g->test = jinja_test_find(a->v[off].u.str->p, a->v[off].u.str->n);
    if (!g->test)
        jinja_run_fail(r, "No test named %s.", jinja_repr_brief(r, a->v[off]));
    g->rest = (struct jargs){.v = a->v + off + 1, .n = a->n - off - 1, .kw = a->kw, .n_kw = a->n_kw};
    return r->rc == 0;
}

static bool next_select(struct jrun *r, struct jiter *it, struct jv *out)
{
    struct gen *g = it->state;
    struct jv v, x;

    if (!g->source && (!open_source(r, it, g) || !prepare_select(r, g)))
        return false;
    while (jinja_iter_next(r, g->source, &v)) {
        x = jinja_attr_follow(r, v, &g->path, jv_missing());
        if ((g->test ? g->test->call(r, x, &g->rest) : jinja_val_true(x)) == g->keep && !r->rc) {
            *out = v;
            return true;
        }
    }
    return false;
}

static struct jv select_or_reject(struct jrun *r, struct jv v, const struct jargs *a, bool keep,
                                  bool by_attribute)
{
    struct gen *g = NULL;
    struct jv out = generator(r, "<generator object select_or_reject>", v, a, &g, next_select);

    if (g) {
        g->keep = keep;
        g->by_attribute = by_attribute;
    }
    return out;
}

struct jv jinja_fgen_select(struct jrun *r, struct jv v, const struct jargs *a)
{
    return select_or_reject(r, v, a, true, false);
}

struct jv jinja_fgen_reject(struct jrun *r, struct jv v, const struct jargs *a)
{
    return select_or_reject(r, v, a, false, false);
}

struct jv jinja_fgen_selectattr(struct jrun *r, struct jv v, const struct jargs *a)
{
    return select_or_reject(r, v, a, true, true);
}

struct jv jinja_fgen_rejectattr(struct jrun *r, struct jv v, const struct jargs *a)
{
    return select_or_reject(r, v, a, false, true);
}

static bool next_item(struct jrun *r, struct jiter *it, struct jv *out)
{
    if (jv_is(it->over, JV_UNDEF))
        return false;
    if (!jv_is(it->over, JV_DICT)) {
        jinja_run_fail(r, "Can only get item pairs from a mapping.");
        return false;
    }
    if (it->at >= it->over.u.dict->n)
        return false;
    *out = jinja_val_pair(r, it->over.u.dict->e[it->at].key, it->over.u.dict->e[it->at].value);
    it->at++;
    return true;
}

struct jv jinja_fgen_items(struct jrun *r, struct jv v, const struct jargs *a)
{
    if (!jinja_args_bind(r, "items", a, "", 0, NULL))
        return jv_none();
    return jinja_iter_new(r, "<generator object do_items>", v, NULL, next_item);
}

static bool next_unique(struct jrun *r, struct jiter *it, struct jv *out)
{
    struct gen *g = it->state;
    struct jv v, key;
    size_t before;

    if (!g->source) {
        g->source = jinja_iter_open(r, it->over);
        g->seen = jinja_dict_new(r);
    }
    while (g->source && g->seen && jinja_iter_next(r, g->source, &v)) {
        key = jinja_attr_follow(r, v, &g->path, jv_missing());
        if (!g->keep && jv_is(key, JV_STR))
            key = jinja_case_map(r, key, JCASE_LOWER);
        before = g->seen->n;
        if (!jinja_dict_set(r, g->seen, key, jv_none()))
            return false;
        if (g->seen->n > before) {
            *out = v;
            return true;
        }
    }
    return false;
}

struct jv jinja_fgen_unique(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct gen *g = NULL;
    struct jv p[2], out;

    if (!jinja_args_bind(r, "unique", a, "case_sensitive attribute", 0, p))
        return jv_none();
    out = generator(r, "<generator object sync_do_unique>", v, a, &g, next_unique);
    if (g) {
        g->keep = jinja_args_true(p[0], false); /* the case */
        jinja_attr_path(r, p[1], &g->path);
    }
    return out;
}

static bool next_batch(struct jrun *r, struct jiter *it, struct jv *out)
{
    struct gen *g = it->state;
    struct jgrow row = {.r = r};
    bool filling = !jv_is(g->fill, JV_MISSING) && !jv_is(g->fill, JV_NONE);
    struct jv v;

    if (!g->source && !(g->source = jinja_iter_open(r, it->over)))
        return false;
    if (!jv_is(g->all, JV_MISSING)) /* the element that ended the row before */
        jinja_val_push(&row, g->all);
    g->all = jv_missing();
    while (jinja_iter_next(r, g->source, &v)) {
        if (jinja_cmp_equal(r, jv_int((int64_t)row.n), g->size)) {
            g->all = v;
            *out = jinja_val_done(&row, JV_LIST);
            return true;
        }
        if (!jinja_val_push(&row, v))
            return false;
    }
    if (row.n == 0)
        return false;
    while (filling && jinja_cmp_rel(r, JREL_LT, jv_int((int64_t)row.n), g->size))
        if (!jinja_val_push(&row, g->fill))
            return false;
    *out = jinja_val_done(&row, JV_LIST);
    return true;
}

static bool next_slice(struct jrun *r, struct jiter *it, struct jv *out)
{
    struct gen *g = it->state;
    struct jgrow part = {.r = r};
    int64_t n, each, extra, from, to, size = 0;

    if (!jinja_args_index(r, "slice", g->size, &size))
        return false;
    if (jv_is(g->all, JV_MISSING)) {
        g->all = jinja_iter_list(r, it->over);
        if (!r->rc && size == 0)
            jinja_run_fail(r, "integer division or modulo by zero");
    }
    if (r->rc || g->at >= size)
        return false;
    n = (int64_t)g->all.u.list->n;
    each = n / size;
    extra = n % size;
    from = g->at * each + (g->at < extra ? g->at : extra);
    to = from + each + (g->at < extra);
    for (; from < to; from++)
        if (!jinja_val_push(&part, g->all.u.list->v[from]))
            return false;
    if (!jv_is(g->fill, JV_MISSING) && !jv_is(g->fill, JV_NONE) && g->at >= extra)
        jinja_val_push(&part, g->fill);
    g->at++;
    *out = jinja_val_done(&part, JV_LIST);
    return true;
}

static struct jv sized(struct jrun *r, struct jv v, const struct jargs *a, const char *name,
                       const char *params, const char *repr,
                       bool (*next)(struct jrun *, struct jiter *, struct jv *))
{
    struct gen *g = NULL;
    struct jv p[2], out;

    if (!jinja_args_bind(r, name, a, params, 1, p))
        return jv_none();
    out = generator(r, repr, v, a, &g, next);
    if (g) {
        g->size = p[0];
        g->fill = p[1];
    }
    return out;
}

struct jv jinja_fgen_batch(struct jrun *r, struct jv v, const struct jargs *a)
{
    return sized(r, v, a, "batch", "linecount fill_with", "<generator object do_batch>", next_batch);
}

struct jv jinja_fgen_slice(struct jrun *r, struct jv v, const struct jargs *a)
{
    return sized(r, v, a, "slice", "slices fill_with", "<generator object sync_do_slice>", next_slice);
}
