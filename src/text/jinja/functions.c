/* functions.c - the global functions of templates. */
#include "text/jinja/functions.h"

#include <string.h>
#include <time.h>

#include "base/utf8.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"

/* Limits: the elements of range(), as in Jinja's sandbox; the bytes of a date; the bytes of a message. */
enum { RANGE_MAX = 100000, DATE_MAX = 1024, MESSAGE_MAX = 800 };

static struct value make_range(struct rendering *r, struct value nothing, const struct builtin_call *given)
{
    struct value_range *g = jinja_allocate(r, sizeof(*g));
    bool one = given->p[1].kind == VALUE_MISSING; /* a single argument is the stop */
    uint64_t span, step;

    (void)nothing;
    if (!g)
        return value_none;
    *g = (struct value_range){.start = one ? 0 : jinja_to_integer(given->p[0]),
                              .stop = jinja_to_integer(given->p[one ? 0 : 1]),
                              .step = jinja_given_integer(given, 2, 1)};
    if (g->step == 0)
        return jinja_fail(r, "range() arg 3 must not be zero");
    if (g->step > 0 ? g->stop > g->start : g->stop < g->start) {
        span = g->step > 0 ? (uint64_t)g->stop - (uint64_t)g->start : (uint64_t)g->start - (uint64_t)g->stop;
        step = g->step > 0 ? (uint64_t)g->step : 0 - (uint64_t)g->step;
        g->count = (size_t)((span - 1) / step + 1);
    }
    if (g->count > RANGE_MAX)
        jinja_fail(r, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", RANGE_MAX);
    return (struct value){.kind = VALUE_RANGE, .range = g};
}

/* Makes a dict or a namespace from a dict argument and the keyword arguments. */
static struct value make_dict(struct rendering *r, struct value nothing, const struct builtin_call *g)
{
    const struct builtin_arguments *a = g->all;
    struct value_dict *d = jinja_dict(r);

    (void)nothing;
    if (a->count > 1 || (a->count && a->values[0].kind != VALUE_DICT))
        jinja_fail(r, "%s(): the argument must be a dict, not %s", g->name, jinja_type(a->values[0]));
    for (uint32_t i = 0; a->count && !r->rc && i < a->values[0].dict->count; i++)
        jinja_dict_set(r, d, a->values[0].dict->pairs[i].key, a->values[0].dict->pairs[i].value);
    for (size_t i = 0; i < a->n_keywords && !r->rc; i++)
        jinja_dict_set(r, d, a->keywords[i].name, a->keywords[i].value);
    for (uint32_t i = 0; g->how == VALUE_NAMESPACE && !r->rc && i < d->count; i++)
        if (d->pairs[i].key.kind == VALUE_STRING && d->pairs[i].key.size && d->pairs[i].key.bytes[0] == '_')
            jinja_fail(r, "cannot store the attribute %s, which begins with an underscore, on a namespace",
                       jinja_brief(r, d->pairs[i].key));
    return r->rc ? value_none : jinja_dict_value(d, (enum value_kind)g->how);
}

static struct value raise_exception(struct rendering *r, struct value nothing, const struct builtin_call *g)
{
    struct value text = jinja_to_string(r, g->p[0]);

    jinja_fail(r, "%.*s", text.size < MESSAGE_MAX ? (int)text.size : MESSAGE_MAX, text.bytes);
    return nothing;
}

/* Replaces the directives in which strftime() and Python's datetime.now() differ: %f becomes 000000, and %z
 * and %Z become empty, because the time has no zone. */
static const char *date_format(struct rendering *r, struct value format)
{
    struct text t = {.r = r};

    for (size_t i = 0; i < format.size; i++) {
        const char *p = format.bytes + i;
        bool two = *p == '%' && i + 1 < format.size;

        if (two && p[1] == 'f')
            jinja_put_literal(&t, "000000");
        else if (two && p[1] != 'z' && p[1] != 'Z')
            jinja_put(&t, p, 2);
        else if (!two)
            jinja_put_byte(&t, *p ? *p : ' ');
        i += two;
    }
    return jinja_finish_terminated(&t);
}

static struct value strftime_now(struct rendering *r, struct value nothing, const struct builtin_call *g)
{
    struct tm tm = *r->now;
    char text[DATE_MAX];
    struct text t = {.r = r};
    const char *format;
    size_t n;

    (void)nothing;
    if (g->p[0].size == 0 || !jinja_step(r, 16 + 4 * (size_t)g->p[0].size))
        return g->p[0];
    timegm(&tm); /* sets the day of the week and of the year from the date */
    tm.tm_isdst = r->now->tm_isdst;
    format = date_format(r, g->p[0]);
    n = r->rc ? 0 : strftime(text, sizeof(text), format, &tm);
    if (n == 0 && 2 * strlen(format) >= sizeof(text))
        jinja_fail(r, "strftime_now: the formatted date exceeds %d bytes", DATE_MAX);
    if (utf8_valid_prefix(text, n) != n)
        jinja_fail(r, "strftime_now: the formatted date is not UTF-8");
    jinja_step(r, n / 4);
    jinja_put(&t, text, n);
    return jinja_finish(&t);
}

const struct builtin jinja_functions[] = {
    {"range", make_range, "start# stop# step#", 1, 0, true},
    {"dict", make_dict, NULL, 0, VALUE_DICT, 0},
    {"namespace", make_dict, NULL, 0, VALUE_NAMESPACE, 0},
    {"raise_exception", raise_exception, "message", 1, 0, false},
    {"strftime_now", strftime_now, "format$", 1, 0, false},
    {.name = NULL},
};
