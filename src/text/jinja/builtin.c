/* builtin.c - calls built-ins: assigns arguments to parameters and checks their types. */
#include "text/jinja/builtin.h"

#include <string.h>

#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"

const struct builtin *jinja_find_row(const struct builtin *rows, struct value name)
{
    while (rows->name && !(name.size && rows->name[0] == *name.bytes && jinja_is(name, rows->name)))
        rows++;
    return rows->name ? rows : NULL;
}

/* Fails if V has another type than its parameter. TYPE '$': a string; '#': an integer; '%': either. */
static void check_type(struct rendering *r, const struct builtin *row, char type, struct value v)
{
    if (v.kind == VALUE_MISSING || (v.kind == VALUE_STRING && type != '#') ||
        (jinja_is_integer(v) && type != '$'))
        return;
    if (type == '$')
        jinja_fail(r, "%s(): the argument must be str, not %s", row->name, jinja_type(v));
    else if (v.kind == VALUE_UNDEFINED)
        jinja_fail_undefined(r, v);
    else
        jinja_fail(r, "%s(): '%s' object cannot be interpreted as an integer", row->name, jinja_type(v));
}

/* Sets OUT[i] to the argument for parameter i; unset elements stay MISSING. False: an argument is wrong. */
static bool place_arguments(struct rendering *r, const struct builtin *row, const struct builtin_arguments *a,
                            struct value *out)
{
    const char *name = row->parameters;
    size_t i, taken = 0;

    for (i = 0; *name; i++, name += *name == ' ') {
        struct value parameter = jinja_string(name, strcspn(name, " $#%?"));

        ASSERT(i < BUILTIN_PARAMETERS, "%s: %s", row->name, row->parameters);
        name += parameter.size;
        if (i < a->count)
            out[i] = a->values[i];
        for (size_t k = 0; k < a->n_keywords && !row->positional; k++)
            if (jinja_same(a->keywords[k].name, parameter)) {
                if (out[i].kind != VALUE_MISSING)
                    jinja_fail(r, "%s() got multiple values for argument %s", row->name,
                               jinja_brief(r, parameter));
                out[i] = a->keywords[k].value;
                taken++;
            }
        if (i < row->required && out[i].kind == VALUE_MISSING)
            jinja_fail(r, "%s() is missing the argument %s", row->name, jinja_brief(r, parameter));
        if (*name == '?' && out[i].kind == VALUE_NONE)
            out[i] = value_missing;
        name += *name == '?';
        if (*name && *name != ' ')
            check_type(r, row, *name++, out[i]);
    }
    if (a->count > i)
        jinja_fail(r, "%s() takes at most %zu arguments (%zu given)", row->name, i, a->count);
    if (taken < a->n_keywords)
        jinja_fail(r, "%s() got a keyword argument that it does not take", row->name);
    return r->rc == 0;
}

struct value jinja_apply(struct rendering *r, const struct builtin *row, struct value v,
                         const struct builtin_arguments *a)
{
    struct builtin_call g = {.all = a, .name = row->name, .how = row->how};

    if (row->parameters && (a->count || a->n_keywords || row->required) && !place_arguments(r, row, a, g.p))
        return value_none;
    return r->rc ? value_none : row->call(r, v, &g);
}

int64_t jinja_given_integer(const struct builtin_call *g, size_t i, int64_t otherwise)
{
    return g->p[i].kind == VALUE_MISSING ? otherwise : jinja_to_integer(g->p[i]);
}

struct value jinja_blanks(struct rendering *r, const struct builtin_call *g, size_t i, int64_t otherwise)
{
    struct text t = {.r = r};
    int64_t n;

    if (g->p[i].kind == VALUE_STRING)
        return g->p[i];
    n = jinja_given_integer(g, i, otherwise);
    jinja_put_times(&t, jinja_literal(" "), n > 0 ? (size_t)n : 0);
    return jinja_finish(&t);
}
