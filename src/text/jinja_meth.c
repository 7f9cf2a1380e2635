/* jinja_meth.c - methods and properties of everything but strings (jinja_strm.c) and loops (jinja_loop.c).
 *
 * What changes a list or a dict is refused by the sandbox that chat templates run in, so it does not exist
 * here.
 */
#include "text/jinja_meth.h"

#include <math.h>
#include <string.h>

#include "text/jinja_cmp.h"
#include "text/jinja_dict.h"
#include "text/jinja_int.h"
#include "text/jinja_iter.h"
#include "text/jinja_loop.h"
#include "text/jinja_macro.h"
#include "text/jinja_num.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_strm.h"
#include "text/jinja_tree.h"

struct jv jinja_meth_find(struct jrun *r, const struct jmeth *table, struct jv self, const struct jstr *name)
{
    for (; table->name; table++)
        if (table->name[0] == name->p[0] && strlen(table->name) == name->n &&
            memcmp(table->name, name->p, name->n) == 0) {
            struct jv v = jv_of(JV_METHOD);
            struct jmethod *m = jinja_run_alloc(r, sizeof(*m));

            if (!m)
                return jv_none();
            *m = (struct jmethod){.self = self, .row = table};
            v.u.method = m;
            return v;
        }
    return jv_missing();
}

static struct jv view(struct jv self, enum jview_kind kind)
{
    struct jv v = jv_of(JV_VIEW);

    v.view = (uint8_t)kind;
    v.u.dict = self.u.dict;
    return v;
}

static struct jv dict_view(struct jrun *r, struct jv self, const struct jargs *a, const char *name,
                           enum jview_kind kind)
{
    return jinja_args_bind(r, name, a, "", 0, NULL) ? view(self, kind) : jv_none();
}

static struct jv dict_keys(struct jrun *r, struct jv self, const struct jargs *a)
{
    return dict_view(r, self, a, "keys", JVIEW_KEYS);
}

static struct jv dict_values(struct jrun *r, struct jv self, const struct jargs *a)
{
    return dict_view(r, self, a, "values", JVIEW_VALUES);
}

static struct jv dict_items(struct jrun *r, struct jv self, const struct jargs *a)
{
    return dict_view(r, self, a, "items", JVIEW_ITEMS);
}

static struct jv dict_get(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jv p[2], v;
    uint32_t hash;

    if (!jinja_args_bind(r, "get", a, "key default /", 1, p))
        return jv_none();
    if (!jinja_dict_hash(r, p[0], &hash)) {
        jinja_run_fail(r, "unhashable type: '%s'", jinja_val_type(p[0]));
        return jv_none();
    }
    if (jinja_dict_get(r, self.u.dict, p[0], &v))
        return v;
    return jv_is(p[1], JV_MISSING) ? jv_none() : p[1];
}

static struct jv dict_copy(struct jrun *r, struct jv self, const struct jargs *a)
{
    return jinja_args_bind(r, "copy", a, "", 0, NULL) ? self : jv_none();
}

static struct jv dict_fromkeys(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jdict *d = jinja_dict_new(r);
    struct jiter *it;
    struct jv p[2], key;

    (void)self;
    if (!d || !jinja_args_bind(r, "fromkeys", a, "iterable value /", 1, p))
        return jv_none();
    it = jinja_iter_open(r, p[0]);
    while (it && jinja_iter_next(r, it, &key))
        if (!jinja_dict_set(r, d, key, jv_is(p[1], JV_MISSING) ? jv_none() : p[1]))
            break;
    return r->rc ? jv_none() : jinja_dict_value(d);
}

static const struct jmeth dict_methods[] = {
    {"get", dict_get},   {"items", dict_items},       {"keys", dict_keys}, {"values", dict_values},
    {"copy", dict_copy}, {"fromkeys", dict_fromkeys}, {NULL, NULL},
};

static struct jv seq_count(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jiter *it;
    struct jv p[1], v;
    int64_t n = 0;

    if (!jinja_args_bind(r, "count", a, "value /", 1, p))
        return jv_none();
    it = jinja_iter_open(r, self);
    while (it && jinja_iter_next(r, it, &v))
        n += jinja_cmp_equal(r, v, p[0]);
    return jv_int(n);
}

static struct jv seq_index(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jiter *it;
    struct jv p[3], v;
    int64_t from = 0, to = INT64_MAX, i = 0;
    size_t n = 0;

    if (!jinja_args_bind(r, "index", a, "value start stop /", 1, p) ||
        !jinja_args_index(r, "index", p[1], &from) || !jinja_args_index(r, "index", p[2], &to))
        return jv_none();
    jinja_val_len(r, self, &n);
    if (from < 0)
        from += (int64_t)n;
    if (to < 0)
        to += (int64_t)n;
    it = jinja_iter_open(r, self);
    for (; it && jinja_iter_next(r, it, &v); i++)
        if (i >= from && i < to && jinja_cmp_equal(r, v, p[0]))
            return jv_int(i);
    jinja_run_fail(r, "%s is not in %s", jinja_repr_brief(r, p[0]), jinja_val_type(self));
    return jv_none();
}

static struct jv list_copy(struct jrun *r, struct jv self, const struct jargs *a)
{
    return jinja_args_bind(r, "copy", a, "", 0, NULL) ? self : jv_none();
}

static const struct jmeth list_methods[] = {
    {"index", seq_index}, {"count", seq_count}, {"copy", list_copy}, {NULL, NULL}};
static const struct jmeth tuple_methods[] = {{"index", seq_index}, {"count", seq_count}, {NULL, NULL}};

static struct jv int_bit_length(struct jrun *r, struct jv self, const struct jargs *a)
{
    return jinja_args_bind(r, "bit_length", a, "", 0, NULL) ? jv_int((int64_t)jinja_int_bits(self))
                                                            : jv_none();
}

static struct jv num_self(struct jrun *r, struct jv self, const struct jargs *a)
{
    if (!jinja_args_bind(r, "conjugate", a, "", 0, NULL))
        return jv_none();
    return jv_is(self, JV_BOOL) ? jv_int(self.u.b) : self;
}

static struct jv float_is_integer(struct jrun *r, struct jv self, const struct jargs *a)
{
    if (!jinja_args_bind(r, "is_integer", a, "", 0, NULL))
        return jv_none();
    return jv_bool(isfinite(self.u.f) && self.u.f == trunc(self.u.f));
}

static const struct jmeth int_methods[] = {
    {"bit_length", int_bit_length}, {"conjugate", num_self}, {NULL, NULL}};
static const struct jmeth float_methods[] = {
    {"is_integer", float_is_integer}, {"conjugate", num_self}, {NULL, NULL}};

static struct jv cycler_current(struct jv self)
{
    return self.u.cycler->items->v[self.u.cycler->pos];
}

static struct jv cycler_next(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jcycler *c = self.u.cycler;
    struct jv now = cycler_current(self);

    if (!jinja_args_bind(r, "next", a, "", 0, NULL))
        return jv_none();
    c->pos = (c->pos + 1) % c->items->n;
    return now;
}

static struct jv cycler_reset(struct jrun *r, struct jv self, const struct jargs *a)
{
    if (jinja_args_bind(r, "reset", a, "", 0, NULL))
        self.u.cycler->pos = 0;
    return jv_none();
}

static const struct jmeth cycler_methods[] = {{"next", cycler_next}, {"reset", cycler_reset}, {NULL, NULL}};
static const struct jmeth dict_type_methods[] = {{"fromkeys", dict_fromkeys}, {NULL, NULL}};

static bool one_of(struct jv name, const char *words)
{
    while (*words) {
        size_t n = strcspn(words, " ");

        if (n == name.u.str->n && memcmp(words, name.u.str->p, n) == 0)
            return true;
        words += n;
        words += *words == ' ';
    }
    return false;
}

static struct jv unsafe(struct jrun *r, struct jv obj, struct jv name)
{
    struct jbuf b = {.r = r};

    jinja_str_puts(&b, "access to attribute ");
    jinja_repr_put(&b, name);
    jinja_str_putf(&b, " of '%s' object is unsafe.", jinja_val_type(obj));
    jinja_str_putc(&b, 0);
    return r->rc ? jv_none() : jinja_val_undef_hint(r, b.p);
}

static struct jv num_attr(struct jrun *r, struct jv obj, struct jv name)
{
    bool real = jv_is(obj, JV_FLOAT);

    if (one_of(name, "real") || (!real && one_of(name, "numerator")))
        return jv_is(obj, JV_BOOL) ? jv_int(obj.u.b) : obj;
    if (one_of(name, "imag"))
        return real ? jv_float(0) : jv_int(0);
    if (!real && one_of(name, "denominator"))
        return jv_int(1);
    return jinja_meth_find(r, real ? float_methods : int_methods, obj, name.u.str);
}

static struct jv seq_attr(struct jrun *r, struct jv obj, struct jv name)
{
    if (jv_is(obj, JV_LIST) && one_of(name, "append clear extend insert pop remove reverse sort"))
        return unsafe(r, obj, name);
    if ((obj.flags & JV_GROUP) && one_of(name, "grouper"))
        return obj.u.list->v[0];
    if ((obj.flags & JV_GROUP) && one_of(name, "list"))
        return obj.u.list->v[1];
    return jinja_meth_find(r, jv_is(obj, JV_LIST) ? list_methods : tuple_methods, obj, name.u.str);
}

static struct jv range_attr(struct jrun *r, struct jv obj, struct jv name)
{
    if (one_of(name, "start"))
        return jv_int(obj.u.range->start);
    if (one_of(name, "stop"))
        return jv_int(obj.u.range->stop);
    if (one_of(name, "step"))
        return jv_int(obj.u.range->step);
    return jinja_meth_find(r, tuple_methods, obj, name.u.str);
}

static struct jv cycler_attr(struct jrun *r, struct jv obj, struct jv name)
{
    if (one_of(name, "current"))
        return cycler_current(obj);
    if (one_of(name, "pos"))
        return jv_int((int64_t)obj.u.cycler->pos);
    if (one_of(name, "items"))
        return jinja_val_tuple(r, obj.u.cycler->items->v, obj.u.cycler->items->n);
    return jinja_meth_find(r, cycler_methods, obj, name.u.str);
}

static struct jv joiner_attr(struct jv obj, struct jv name)
{
    if (one_of(name, "sep"))
        return obj.u.joiner->sep;
    return one_of(name, "used") ? jv_bool(obj.u.joiner->used) : jv_missing();
}

static bool is_dunder(const struct jstr *s)
{
    return s->n > 4 && memcmp(s->p, "__", 2) == 0 && memcmp(s->p + s->n - 2, "__", 2) == 0;
}

struct jv jinja_meth_attr(struct jrun *r, struct jv obj, struct jv name)
{
    struct jv v;

    if (jv_is(obj, JV_UNDEF))
        return jinja_val_undef_fail(r, obj);
    if (is_dunder(name.u.str) && !(jv_is(obj, JV_DICT) && jinja_dict_get(r, obj.u.dict, name, &v)))
        return unsafe(r, obj, name);
    switch ((enum jv_type)obj.type) {
    case JV_BOOL:
    case JV_INT:
    case JV_BIG:
    case JV_FLOAT: return num_attr(r, obj, name);
    case JV_STR: return jinja_meth_find(r, jinja_strm_table, obj, name.u.str);
    case JV_LIST:
    case JV_TUPLE: return seq_attr(r, obj, name);
    case JV_DICT:
        if (one_of(name, "clear pop popitem setdefault update"))
            return unsafe(r, obj, name);
        return jinja_meth_find(r, dict_methods, obj, name.u.str);
    case JV_RANGE: return range_attr(r, obj, name);
    case JV_NS: return jinja_dict_get(r, obj.u.dict, name, &v) ? v : jv_missing();
    case JV_LOOP: return jinja_loop_attr(r, obj, name.u.str);
    case JV_MACRO: return jinja_macro_attr(r, obj.u.macro, name.u.str);
    case JV_CYCLER: return cycler_attr(r, obj, name);
    case JV_JOINER: return joiner_attr(obj, name);
    case JV_SELF: return jinja_tree_block(r, name);
    case JV_FUNC:
        if (strcmp(obj.u.func->name, "dict") == 0)
            return jinja_meth_find(r, dict_type_methods, obj, name.u.str);
        return jv_missing();
    default: return jv_missing();
    }
}
