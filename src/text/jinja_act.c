/* jinja_act.c - slots, scopes and assignment. */
#include "text/jinja_act.h"

#include "text/jinja_dict.h"
#include "text/jinja_iter.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"

struct jact *jinja_act_new(struct jrun *r, const struct jfn *fn, struct jact *up)
{
    struct jact *a = r->spare;

    if (a && a->cap >= fn->n_slots) {
        r->spare = a->spare;
    } else {
        a = jinja_run_alloc(r, sizeof(*a) + fn->n_slots * sizeof(a->slot[0]));
        if (!a)
            return NULL;
        a->cap = fn->n_slots;
    }
    a->up = up;
    a->spare = NULL;
    for (uint32_t i = 0; i < fn->n_slots; i++)
        a->slot[i] = jv_missing();
    return a;
}

void jinja_act_done(struct jrun *r, const struct jfn *fn, struct jact *a)
{
    if (fn->captured || !a)
        return;
    a->spare = r->spare;
    r->spare = a;
}

struct jv jinja_act_resolve(struct jrun *r, struct jv name)
{
    struct jv v;

    if (jinja_dict_get(r, r->vars, name, &v) || jinja_dict_get(r, r->context, name, &v) ||
        jinja_dict_get(r, r->globals, name, &v))
        return v;
    return jv_missing();
}

void jinja_act_enter(struct jrun *r, struct jact *a, const struct jscope *scope)
{
    for (size_t i = 0; i < scope->n; i++) {
        const struct jload *l = &scope->load[i];

        switch (l->kind) {
        case JLOAD_UNDEFINED: a->slot[l->slot] = jv_missing(); break;
        case JLOAD_RESOLVE: a->slot[l->slot] = jinja_act_resolve(r, l->name); break;
        case JLOAD_ALIAS: a->slot[l->slot] = *jinja_act_slot(a, l->from); break;
        }
    }
}

static void unpack(struct jrun *r, struct jact *a, const struct jnlist *targets, struct jv value)
{
    struct jgrow g = {.r = r};
    struct jiter *it;
    struct jv v;

    if (!jinja_iter_can(value)) {
        jinja_run_fail(r, "cannot unpack non-iterable %s object", jinja_val_type(value));
        return;
    }
    it = jinja_iter_open(r, value);
    while (it && g.n <= targets->n && jinja_iter_next(r, it, &v))
        if (!jinja_val_push(&g, v))
            return;
    if (g.n < targets->n)
        jinja_run_fail(r, "not enough values to unpack (expected %zu, got %zu)", targets->n, g.n);
    else if (g.n > targets->n)
        jinja_run_fail(r, "too many values to unpack (expected %zu)", targets->n);
    for (size_t i = 0; i < targets->n && !r->rc; i++)
        jinja_act_assign(r, a, targets->v[i], g.v[i]);
}

static void set_attribute(struct jrun *r, struct jact *a, const struct jn *target, struct jv value)
{
    struct jv ns = *jinja_act_slot(a, target->u.name.ref), name = target->u.name.attr;

    if (!jv_is(ns, JV_NS))
        jinja_run_fail(r, "cannot assign attribute on non-namespace object");
    else if (name.u.str->p[0] == '_')
        jinja_run_fail(
            r,
            "Chat templates cannot store underscore-prefixed attributes on a namespace, but got %s. Please "
            "rename the attribute.",
            jinja_repr_brief(r, name));
    else
        jinja_dict_set(r, ns.u.dict, name, value);
}

void jinja_act_assign(struct jrun *r, struct jact *a, const struct jn *target, struct jv value)
{
    if (r->rc)
        return;
    if (target->kind == JN_NAME)
        *jinja_act_slot(a, target->u.name.ref) = value;
    else if (target->kind == JN_NSREF)
        set_attribute(r, a, target, value);
    else
        unpack(r, a, &target->u.items, value);
}
