/* jinja_test.c - Jinja 3.1's tests. */
#include "text/jinja_test.h"

#include <string.h>

#include "text/jinja_cmp.h"
#include "text/jinja_filt.h"
#include "text/jinja_iter.h"
#include "text/jinja_num.h"
#include "text/jinja_ops.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_stris.h"

static bool none_given(struct jrun *r, const char *name, const struct jargs *a)
{
    return jinja_args_bind(r, name, a, "", 0, NULL);
}

static bool is_defined(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "defined", a) && !jv_is(v, JV_UNDEF);
}

static bool is_undefined(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "undefined", a) && jv_is(v, JV_UNDEF);
}

static bool is_none(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "none", a) && jv_is(v, JV_NONE);
}

static bool is_boolean(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "boolean", a) && jv_is(v, JV_BOOL);
}

static bool is_true(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "true", a) && jv_is(v, JV_BOOL) && v.u.b;
}

static bool is_false(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "false", a) && jv_is(v, JV_BOOL) && !v.u.b;
}

static bool is_integer(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "integer", a) && (jv_is(v, JV_INT) || jv_is(v, JV_BIG));
}

static bool is_float(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "float", a) && jv_is(v, JV_FLOAT);
}

static bool is_number(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "number", a) && jinja_num_is(v);
}

static bool is_string(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "string", a) && jv_is(v, JV_STR);
}

static bool is_mapping(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "mapping", a) && jv_is(v, JV_DICT);
}

static bool is_sequence(struct jrun *r, struct jv v, const struct jargs *a)
{
    if (!none_given(r, "sequence", a))
        return false;
    switch ((enum jv_type)v.type) {
    case JV_UNDEF: /* has a length and subscripts, as far as Python can tell */
    case JV_STR:
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_RANGE: return true;
    default: return false;
    }
}

static bool is_iterable(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "iterable", a) && (jinja_iter_can(v) || jv_is(v, JV_LOOP));
}

static bool is_callable(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "callable", a) && jinja_val_callable(v);
}

static bool is_escaped(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "escaped", a) && jv_is_markup(v);
}

static bool is_lower(struct jrun *r, struct jv v, const struct jargs *a)
{
    if (!none_given(r, "lower", a))
        return false;
    v = jinja_repr_str(r, v);
    return jv_is(v, JV_STR) && jinja_stris_is_lower(r, v.u.str);
}

static bool is_upper(struct jrun *r, struct jv v, const struct jargs *a)
{
    if (!none_given(r, "upper", a))
        return false;
    v = jinja_repr_str(r, v);
    return jv_is(v, JV_STR) && jinja_stris_is_upper(r, v.u.str);
}

static bool remainder_is(struct jrun *r, struct jv v, struct jv by, int64_t wanted)
{
    struct jv m = jinja_ops_binary(r, JOP_MOD, v, by);

    return r->rc == 0 && jinja_cmp_equal(r, m, jv_int(wanted));
}

static bool is_odd(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "odd", a) && remainder_is(r, v, jv_int(2), 1);
}

static bool is_even(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "even", a) && remainder_is(r, v, jv_int(2), 0);
}

static bool is_divisibleby(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[1];

    return jinja_args_bind(r, "divisibleby", a, "num", 1, p) && remainder_is(r, v, p[0], 0);
}

static bool is_sameas(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[1];

    return jinja_args_bind(r, "sameas", a, "other", 1, p) && jinja_val_same(v, p[0]);
}

static bool is_filter(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "filter", a) && jv_is(v, JV_STR) && jinja_filt_find(v.u.str->p, v.u.str->n);
}

static bool is_test(struct jrun *r, struct jv v, const struct jargs *a)
{
    return none_given(r, "test", a) && jv_is(v, JV_STR) && jinja_test_find(v.u.str->p, v.u.str->n);
}

static bool rel(struct jrun *r, struct jv v, const struct jargs *a, enum jrel how)
{
    struct jv p[1];

    return jinja_args_bind(r, "comparison", a, how == JREL_IN ? "seq" : "b /", 1, p) &&
           jinja_cmp_rel(r, how, v, p[0]);
}

static bool is_eq(struct jrun *r, struct jv v, const struct jargs *a)
{
    return rel(r, v, a, JREL_EQ);
}

static bool is_ne(struct jrun *r, struct jv v, const struct jargs *a)
{
    return rel(r, v, a, JREL_NE);
}

static bool is_lt(struct jrun *r, struct jv v, const struct jargs *a)
{
    return rel(r, v, a, JREL_LT);
}

static bool is_le(struct jrun *r, struct jv v, const struct jargs *a)
{
    return rel(r, v, a, JREL_LE);
}

static bool is_gt(struct jrun *r, struct jv v, const struct jargs *a)
{
    return rel(r, v, a, JREL_GT);
}

static bool is_ge(struct jrun *r, struct jv v, const struct jargs *a)
{
    return rel(r, v, a, JREL_GE);
}

static bool is_in(struct jrun *r, struct jv v, const struct jargs *a)
{
    return rel(r, v, a, JREL_IN);
}

static const struct jtest table[] = {
    {"defined", is_defined},
    {"undefined", is_undefined},
    {"none", is_none},
    {"string", is_string},
    {"mapping", is_mapping},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"boolean", is_boolean},
    {"true", is_true},
    {"false", is_false},
    {"integer", is_integer},
    {"float", is_float},
    {"number", is_number},
    {"callable", is_callable},
    {"escaped", is_escaped},
    {"lower", is_lower},
    {"upper", is_upper},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisibleby},
    {"sameas", is_sameas},
    {"filter", is_filter},
    {"test", is_test},
    {"in", is_in},
    {"==", is_eq},
    {"eq", is_eq},
    {"equalto", is_eq},
    {"!=", is_ne},
    {"ne", is_ne},
    {">", is_gt},
    {"gt", is_gt},
    {"greaterthan", is_gt},
    {">=", is_ge},
    {"ge", is_ge},
    {"<", is_lt},
    {"lt", is_lt},
    {"lessthan", is_lt},
    {"<=", is_le},
    {"le", is_le},
};

const struct jtest *jinja_test_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
            return &table[i];
    return NULL;
}
