/* jinja_val.c - making values, and the questions that can be asked of any of them. */
#include "text/jinja_val.h"

#include <string.h>

#include "text/jinja_dict.h"
#include "text/jinja_int.h"
#include "text/jinja_loop.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"

static struct jv seq(struct jrun *r, enum jv_type t, const struct jv *v, size_t n)
{
    struct jv out = jv_of(t);
    struct jlist *l;
    size_t bytes;

    if (__builtin_mul_overflow(n, sizeof(*v), &bytes) || __builtin_add_overflow(bytes, sizeof(*l), &bytes))
        bytes = SIZE_MAX;
    l = jinja_run_alloc(r, bytes);
    if (!l)
        return jv_none();
    l->n = n;
    if (n)
        memcpy(l->v, v, n * sizeof(*v));
    out.u.list = l;
    return out;
}

struct jv jinja_val_list(struct jrun *r, const struct jv *v, size_t n)
{
    return seq(r, JV_LIST, v, n);
}

struct jv jinja_val_tuple(struct jrun *r, const struct jv *v, size_t n)
{
    return seq(r, JV_TUPLE, v, n);
}

struct jv jinja_val_pair(struct jrun *r, struct jv a, struct jv b)
{
    struct jv v[2] = {a, b};

    return jinja_val_tuple(r, v, 2);
}

bool jinja_val_push(struct jgrow *g, struct jv v)
{
    if (g->n == g->cap) {
        size_t cap = g->cap ? g->cap * 2 : 8;
        struct jv *grown = jinja_run_alloc(g->r, cap > SIZE_MAX / sizeof(v) ? SIZE_MAX : cap * sizeof(v));

        if (!grown)
            return false;
        if (g->n)
            memcpy(grown, g->v, g->n * sizeof(v));
        g->v = grown;
        g->cap = cap;
    }
    g->v[g->n++] = v;
    return true;
}

struct jv jinja_val_done(struct jgrow *g, enum jv_type t)
{
    return seq(g->r, t, g->v, g->n);
}

static struct jv undef(struct jrun *r, const char *hint, struct jv obj, struct jv name)
{
    struct jv v = jv_of(JV_UNDEF);
    struct jundef *u = jinja_run_alloc(r, sizeof(*u));

    if (!u)
        return jv_none();
    *u = (struct jundef){.hint = hint, .obj = obj, .name = name};
    v.u.undef = u;
    return v;
}

struct jv jinja_val_undef_hint(struct jrun *r, const char *hint)
{
    return undef(r, hint, jv_missing(), jv_missing());
}

struct jv jinja_val_undef_name(struct jrun *r, struct jv name)
{
    return undef(r, NULL, jv_missing(), name);
}

struct jv jinja_val_undef_item(struct jrun *r, struct jv obj, struct jv name)
{
    return undef(r, NULL, obj, name);
}

struct jv jinja_val_undef_fail(struct jrun *r, struct jv v)
{
    const struct jundef *u = v.u.undef;
    const char *type;

    if (u->hint) {
        jinja_run_fail(r, "%s", u->hint);
    } else if (jv_is(u->obj, JV_MISSING)) {
        jinja_run_fail(r, "%s is undefined", jinja_repr_brief(r, u->name));
    } else {
        type = jinja_val_type(u->obj);
        if (jv_is(u->obj, JV_NONE))
            jinja_run_fail(r, "%sNone%s has no %s %s", jv_is(u->name, JV_STR) ? "'" : "",
                           jv_is(u->name, JV_STR) ? "'" : "",
                           jv_is(u->name, JV_STR) ? "attribute" : "element", jinja_repr_brief(r, u->name));
        else if (jv_is(u->name, JV_STR))
            jinja_run_fail(r, "'%s object' has no attribute %s", type, jinja_repr_brief(r, u->name));
        else
            jinja_run_fail(r, "%s object has no element %s", type, jinja_repr_brief(r, u->name));
    }
    return jv_none();
}

const char *jinja_val_type(struct jv v)
{
    static const char *const view[] = {"dict_keys", "dict_values", "dict_items"};

    switch ((enum jv_type)v.type) {
    case JV_MISSING: return "missing";
    case JV_UNDEF: return "Undefined";
    case JV_NONE: return "NoneType";
    case JV_BOOL: return "bool";
    case JV_INT:
    case JV_BIG: return "int";
    case JV_FLOAT: return "float";
    case JV_STR: return v.flags & JV_MARKUP ? "Markup" : "str";
    case JV_LIST: return "list";
    case JV_TUPLE: return v.flags & JV_GROUP ? "_GroupTuple" : "tuple";
    case JV_DICT: return "dict";
    case JV_RANGE: return "range";
    case JV_VIEW: return view[v.view];
    case JV_ITER: return "generator";
    case JV_NS: return "Namespace";
    case JV_LOOP: return "LoopContext";
    case JV_MACRO: return "Macro";
    case JV_METHOD: return "builtin_function_or_method";
    case JV_FUNC: return "function";
    case JV_CYCLER: return "Cycler";
    case JV_JOINER: return "Joiner";
    case JV_SELF: return "TemplateReference";
    case JV_BLOCK: return "BlockReference";
    }
    return "object";
}

bool jinja_val_true(struct jv v)
{
    switch ((enum jv_type)v.type) {
    case JV_MISSING:
    case JV_UNDEF:
    case JV_NONE: return false;
    case JV_BOOL: return v.u.b;
    case JV_INT: return v.u.i != 0;
    case JV_FLOAT: return v.u.f != 0.0;
    case JV_STR: return v.u.str->n != 0;
    case JV_LIST:
    case JV_TUPLE: return v.u.list->n != 0;
    case JV_DICT:
    case JV_VIEW: return v.u.dict->n != 0;
    case JV_RANGE: return v.u.range->n != 0;
    default: return true;
    }
}

bool jinja_val_len(struct jrun *r, struct jv v, size_t *n)
{
    switch ((enum jv_type)v.type) {
    case JV_UNDEF: *n = 0; return true;
    case JV_STR: *n = jinja_str_chars(v.u.str); return true;
    case JV_LIST:
    case JV_TUPLE: *n = v.u.list->n; return true;
    case JV_DICT:
    case JV_VIEW: *n = v.u.dict->n; return true;
    case JV_RANGE: *n = v.u.range->n; return true;
    case JV_LOOP: *n = jinja_loop_length(r, v.u.loop); return true;
    default: return false;
    }
}

bool jinja_val_callable(struct jv v)
{
    switch ((enum jv_type)v.type) {
    case JV_UNDEF: /* its class defines __call__, which then fails */
    case JV_MACRO:
    case JV_METHOD:
    case JV_FUNC:
    case JV_LOOP:
    case JV_JOINER:
    case JV_BLOCK: return true;
    default: return false;
    }
}

bool jinja_val_same(struct jv a, struct jv b)
{
    if (a.type != b.type)
        return false;
    switch ((enum jv_type)a.type) {
    case JV_MISSING:
    case JV_NONE: return true;
    case JV_BOOL: return a.u.b == b.u.b;
    case JV_INT: return a.u.i == b.u.i;
    case JV_FLOAT: return memcmp(&a.u.f, &b.u.f, sizeof(a.u.f)) == 0;
    case JV_STR:
        return a.u.str == b.u.str ||
               (a.u.str->n == b.u.str->n && memcmp(a.u.str->p, b.u.str->p, a.u.str->n) == 0);
    case JV_VIEW: return a.u.dict == b.u.dict && a.view == b.view;
    default: return a.u.list == b.u.list;
    }
}
