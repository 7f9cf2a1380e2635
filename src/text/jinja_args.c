/* jinja_args.c - Python's rules of calling, for functions whose parameters are known by a string. */
#include "text/jinja_args.h"

#include <string.h>

#include "text/jinja_repr.h"
#include "text/jinja_str.h"

enum { PARAMS_MAX = 8 };

struct params {
    const char *name[PARAMS_MAX];
    size_t len[PARAMS_MAX];
    size_t n, positional_only;
};

static void split(struct params *p, const char *text)
{
    *p = (struct params){.n = 0};
    while (*text) {
        size_t n = strcspn(text, " ");

        if (n == 1 && *text == '/') {
            p->positional_only = p->n;
        } else {
            ASSERT(p->n < PARAMS_MAX, "parameters: %s", text);
            p->name[p->n] = text;
            p->len[p->n++] = n;
        }
        text += n;
        text += *text == ' ';
    }
}

static bool place_keyword(struct jrun *r, const char *function, const struct params *p, const struct jkw *kw,
                          struct jv *out)
{
    const struct jstr *s = kw->name.u.str;

    for (size_t i = p->positional_only; i < p->n; i++)
        if (p->len[i] == s->n && memcmp(p->name[i], s->p, s->n) == 0) {
            if (jv_is(out[i], JV_MISSING)) {
                out[i] = kw->value;
                return true;
            }
            jinja_run_fail(r, "%s() got multiple values for argument %s", function,
                           jinja_repr_brief(r, kw->name));
            return false;
        }
    jinja_run_fail(r, "%s() got an unexpected keyword argument %s", function, jinja_repr_brief(r, kw->name));
    return false;
}

bool jinja_args_bind(struct jrun *r, const char *function, const struct jargs *a, const char *params,
                     int required, struct jv *out)
{
    struct params p;

    split(&p, params);
    for (size_t i = 0; i < p.n; i++)
        out[i] = i < a->n ? a->v[i] : jv_missing();
    if (a->n > p.n) {
        jinja_run_fail(r, "%s() takes at most %zu arguments (%zu given)", function, p.n, a->n);
        return false;
    }
    for (size_t i = 0; i < a->n_kw; i++)
        if (!place_keyword(r, function, &p, &a->kw[i], out))
            return false;
    for (int i = 0; i < required; i++)
        if (jv_is(out[i], JV_MISSING)) {
            jinja_run_fail(r, "%s() missing the required argument '%.*s'", function, (int)p.len[i],
                           p.name[i]);
            return false;
        }
    return r->rc == 0;
}

bool jinja_args_index(struct jrun *r, const char *function, struct jv v, int64_t *out)
{
    if (jv_is(v, JV_MISSING))
        return true;
    if (jv_is_int(v)) {
        *out = jv_index(v);
        return true;
    }
    if (jv_is(v, JV_UNDEF))
        jinja_val_undef_fail(r, v);
    else if (jv_is(v, JV_BIG))
        jinja_run_fail(r, "%s(): the integer is too large to be an index", function);
    else
        jinja_run_fail(r, "%s(): '%s' object cannot be interpreted as an integer", function,
                       jinja_val_type(v));
    return false;
}

bool jinja_args_str(struct jrun *r, const char *function, struct jv v, const struct jstr **out)
{
    if (jv_is(v, JV_MISSING))
        return true;
    if (jv_is(v, JV_STR)) {
        *out = v.u.str;
        return true;
    }
    jinja_run_fail(r, "%s(): the argument must be str, not %s", function, jinja_val_type(v));
    return false;
}

bool jinja_args_true(struct jv v, bool otherwise)
{
    return jv_is(v, JV_MISSING) ? otherwise : jinja_val_true(v);
}
