/* jinja_glob.c - global functions of the chat template environment. */
#include "text/jinja_glob.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text/jinja_dict.h"
#include "text/jinja_iter.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"

enum { RANGE_MAX = 100000, STRFTIME_MAX = 4096 };

static bool range_bounds(struct jrun *r, const struct jargs *a, struct jrange *g)
{
    *g = (struct jrange){.step = 1};
    if (a->n_kw || a->n < 1 || a->n > 3) {
        jinja_run_fail(r, "range takes 1 to 3 arguments and no names");
        return false;
    }
    for (size_t i = 0; i < a->n; i++)
        if (!jv_is_int(a->v[i])) {
            jinja_run_fail(r, "'%s' object cannot be interpreted as an integer", jinja_val_type(a->v[i]));
            return false;
        }
    if (a->n == 1) {
        g->stop = jv_index(a->v[0]);
        return true;
    }
    g->start = jv_index(a->v[0]);
    g->stop = jv_index(a->v[1]);
    g->step = a->n == 3 ? jv_index(a->v[2]) : 1;
    if (g->step == 0)
        jinja_run_fail(r, "range() arg 3 must not be zero");
    return r->rc == 0;
}

static struct jv call_range(struct jrun *r, const struct jargs *a)
{
    struct jv v = jv_of(JV_RANGE);
    struct jrange *g = jinja_run_alloc(r, sizeof(*g));
    uint64_t span, step;

    if (!g || !range_bounds(r, a, g))
        return jv_none();
    if (g->step > 0 ? g->stop > g->start : g->stop < g->start) {
        span = g->step > 0 ? (uint64_t)g->stop - (uint64_t)g->start : (uint64_t)g->start - (uint64_t)g->stop;
        step = g->step > 0 ? (uint64_t)g->step : 0 - (uint64_t)g->step;
        if ((span - 1) / step + 1 > RANGE_MAX) {
            jinja_run_fail(r, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                           RANGE_MAX);
            return jv_none();
        }
        g->n = (size_t)((span - 1) / step + 1);
    }
    v.u.range = g;
    return v;
}

/* The entries of one positional argument, a mapping or an iterable of pairs, and of the named ones. */
static struct jdict *make_dict(struct jrun *r, const struct jargs *a, const char *name)
{
    struct jdict *d = jinja_dict_new(r);
    struct jiter *it;
    struct jv v, pair;

    if (!d || a->n > 1) {
        jinja_run_fail(r, "%s expected at most 1 argument, got %zu", name, a->n);
        return NULL;
    }
    if (a->n && jv_is(a->v[0], JV_UNDEF)) {
        jinja_val_undef_fail(r, a->v[0]);
    } else if (a->n && jv_is(a->v[0], JV_DICT)) {
        jinja_dict_update(r, d, a->v[0].u.dict);
    } else if (a->n) {
        it = jinja_iter_open(r, a->v[0]);
        while (it && jinja_iter_next(r, it, &v)) {
            pair = jinja_iter_list(r, v);
            if (!r->rc && pair.u.list->n != 2)
                jinja_run_fail(r, "dictionary update sequence element has length %zu; 2 is required",
                               pair.u.list->n);
            if (r->rc || !jinja_dict_set(r, d, pair.u.list->v[0], pair.u.list->v[1]))
                break;
        }
    }
    for (size_t i = 0; i < a->n_kw && !r->rc; i++)
        jinja_dict_set(r, d, a->kw[i].name, a->kw[i].value);
    return r->rc ? NULL : d;
}

static struct jv call_dict(struct jrun *r, const struct jargs *a)
{
    return jinja_dict_value(make_dict(r, a, "dict"));
}

static struct jv call_namespace(struct jrun *r, const struct jargs *a)
{
    struct jdict *d = make_dict(r, a, "namespace");
    struct jv v = jv_of(JV_NS);

    for (size_t i = 0; d && i < d->n; i++)
        if (jv_is(d->e[i].key, JV_STR) && d->e[i].key.u.str->n && d->e[i].key.u.str->p[0] == '_')
            jinja_run_fail(
                r,
                "Chat templates cannot store underscore-prefixed attributes on a namespace, but got %s. "
                "Please rename the attribute.",
                jinja_repr_brief(r, d->e[i].key));
    if (r->rc)
        return jv_none();
    v.u.dict = d;
    return v;
}

static struct jv call_raise_exception(struct jrun *r, const struct jargs *a)
{
    struct jv p[1];
    struct jv text;

    if (!jinja_args_bind(r, "raise_exception", a, "message", 1, p))
        return jv_none();
    text = jinja_repr_str(r, p[0]);
    if (!r->rc)
        jinja_run_fail(r, "%.*s", (int)(text.u.str->n < 800 ? text.u.str->n : 800), text.u.str->p);
    return jv_none();
}

/* The format without what C knows otherwise than Python's datetime: microseconds, and a time without zone. */
static bool strftime_format(struct jrun *r, struct jv format, struct jbuf *out)
{
    const struct jstr *s = format.u.str;

    for (size_t i = 0; i < s->n; i++) {
        bool two = s->p[i] == '%' && i + 1 < s->n;

        if (two && s->p[i + 1] == 'f')
            jinja_str_puts(out, "000000");
        else if (two && s->p[i + 1] != 'z' && s->p[i + 1] != 'Z')
            jinja_str_put(out, s->p + i, 2);
        else if (!two)
            jinja_str_putc(out, s->p[i] ? s->p[i] : ' ');
        i += two;
    }
    jinja_str_putc(out, 0);
    return r->rc == 0;
}

static struct jv call_strftime_now(struct jrun *r, const struct jargs *a)
{
    struct jbuf format = {.r = r};
    struct tm tm = *r->now;
    char text[STRFTIME_MAX];
    size_t n;
    struct jv p[1];

    if (!jinja_args_bind(r, "strftime_now", a, "format", 1, p))
        return jv_none();
    if (!jv_is(p[0], JV_STR)) {
        jinja_run_fail(r, "strftime() argument 1 must be str, not %s", jinja_val_type(p[0]));
        return jv_none();
    }
    timegm(&tm); /* the day of the week and of the year follow from the date */
    tm.tm_isdst = r->now->tm_isdst;
    if (p[0].u.str->n == 0 || !strftime_format(r, p[0], &format))
        return jinja_str_lit(r, "");
    n = strftime(text, sizeof(text), format.p, &tm);
    if (n == 0 && format.n > 1 && format.n * 2 >= sizeof(text))
        jinja_run_fail(r, "strftime_now: the date is longer than %d bytes", STRFTIME_MAX);
    if (utf8_valid_prefix(text, n) != n)
        jinja_run_fail(r, "strftime_now: the date is not UTF-8");
    return jinja_str_new(r, text, n);
}

static struct jv call_joiner(struct jrun *r, const struct jargs *a)
{
    struct jv v = jv_of(JV_JOINER), p[1];
    struct jjoiner *j = jinja_run_zalloc(r, 1, sizeof(*j));

    if (!j || !jinja_args_bind(r, "joiner", a, "sep", 0, p))
        return jv_none();
    j->sep = jv_is(p[0], JV_MISSING) ? jinja_str_lit(r, ", ") : p[0];
    v.u.joiner = j;
    return v;
}

static struct jv call_cycler(struct jrun *r, const struct jargs *a)
{
    struct jv v = jv_of(JV_CYCLER), items = jinja_val_list(r, a->v, a->n);
    struct jcycler *c = jinja_run_zalloc(r, 1, sizeof(*c));

    if (a->n == 0 || a->n_kw)
        jinja_run_fail(r, "at least one item has to be provided, and none by name");
    if (!c || r->rc)
        return jv_none();
    c->items = items.u.list;
    v.u.cycler = c;
    return v;
}

static struct jv call_lipsum(struct jrun *r, const struct jargs *a)
{
    (void)a;
    jinja_run_fail(r, "lipsum() makes random text, which is not offered: a rendering must be repeatable");
    return jv_none();
}

static const struct jfunc functions[] = {
    {"range", "<function safe_range>", call_range},
    {"dict", "<dict>", call_dict},
    {"namespace", "<class 'Namespace'>", call_namespace},
    {"raise_exception", "<function raise_exception>", call_raise_exception},
    {"strftime_now", "<function strftime_now>", call_strftime_now},
    {"joiner", "<class 'jinja2.utils.Joiner'>", call_joiner},
    {"cycler", "<class 'jinja2.utils.Cycler'>", call_cycler},
    {"lipsum", "<function generate_lorem_ipsum>", call_lipsum},
};

struct jdict *jinja_glob_new(struct jrun *r)
{
    struct jdict *d = jinja_dict_new(r);

    for (size_t i = 0; d && i < sizeof(functions) / sizeof(functions[0]); i++) {
        struct jv v = jv_of(JV_FUNC), name = jinja_str_lit(r, functions[i].name);

        v.u.func = &functions[i];
        if (r->rc || !jinja_dict_set(r, d, name, v))
            return NULL;
    }
    return d;
}
