/* jinja_sym.c - collects loads and stores of names, scope by scope; expressions only load. */
#include "text/jinja_sym.h"

#include <string.h>

struct jsym *jinja_sym_new(struct jsyms *s, struct jsym *parent, struct jfn *fn)
{
    struct jsym *y = jinja_run_zalloc(s->r, 1, sizeof(*y));

    if (!y)
        return NULL;
    y->parent = parent;
    y->fn = fn;
    y->level = parent ? parent->level + 1 : 0;
    return y;
}

static uint32_t slot_of(struct jsyms *s, struct jfn *fn, uint32_t level, struct jv name)
{
    struct jslots *t = &s->slots;

    jinja_run_step(s->r, t->n / 4);
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].fn == fn && t->v[i].level == level && jinja_val_same(t->v[i].name, name))
            return t->v[i].slot;
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 32;
        void *grown = jinja_run_alloc(s->r, cap * sizeof(*t->v));

        if (!grown)
            return 0;
        if (t->n)
            memcpy(grown, t->v, t->n * sizeof(*t->v));
        t->v = grown;
        t->cap = cap;
    }
    t->v[t->n].fn = fn;
    t->v[t->n].level = level;
    t->v[t->n].name = name;
    t->v[t->n].slot = fn->n_slots++;
    return t->v[t->n++].slot;
}

static struct jsym_entry *entry(const struct jsym *y, struct jv name)
{
    for (size_t i = 0; i < y->n; i++)
        if (jinja_val_same(y->e[i].name, name))
            return &y->e[i];
    return NULL;
}

/* The entry of NAME, made if need be; NULL after an error. */
static struct jsym_entry *define(struct jsyms *s, struct jsym *y, struct jv name, enum jsym_kind kind)
{
    struct jsym_entry *e = entry(y, name);

    jinja_run_step(s->r, y->n / 4);
    if (e) {
        e->kind = kind;
        return e;
    }
    if (y->n == y->cap) {
        size_t cap = y->cap ? y->cap * 2 : 8;
        struct jsym_entry *grown = jinja_run_alloc(s->r, cap * sizeof(*grown));

        if (!grown)
            return NULL;
        if (y->n)
            memcpy(grown, y->e, y->n * sizeof(*grown));
        y->e = grown;
        y->cap = cap;
    }
    y->e[y->n] = (struct jsym_entry){.name = name, .kind = kind, .slot = slot_of(s, y->fn, y->level, name)};
    return &y->e[y->n++];
}

bool jinja_sym_find(struct jsyms *s, const struct jsym *y, struct jv name, struct jfn **fn, uint32_t *slot)
{
    for (; y && jinja_run_step(s->r, y->n / 4); y = y->parent) {
        struct jsym_entry *e = entry(y, name);

        if (e) {
            *fn = y->fn;
            *slot = e->slot;
            return true;
        }
    }
    return false;
}

void jinja_sym_param(struct jsyms *s, struct jsym *y, struct jv name)
{
    struct jsym_entry *e = define(s, y, name, JSYM_PARAM);

    if (e)
        e->stored = true;
}

/* From now on entering the scope copies NAME from outside, or does WITHOUT if no outer scope knows it. */
static void load_from_outside(struct jsyms *s, struct jsym *y, struct jsym_entry *e, enum jsym_kind without)
{
    e->kind = jinja_sym_find(s, y->parent, e->name, &e->alias_fn, &e->alias_slot) ? JSYM_ALIAS : without;
}

static void store(struct jsyms *s, struct jsym *y, struct jv name)
{
    struct jsym_entry *e = entry(y, name);

    if (!e) {
        e = define(s, y, name, JSYM_NONE);
        if (!e)
            return;
        load_from_outside(s, y, e, JSYM_UNDEFINED);
    }
    e->stored = true;
}

static void load(struct jsyms *s, struct jsym *y, struct jv name)
{
    struct jfn *fn;
    uint32_t slot;

    if (!jinja_sym_find(s, y, name, &fn, &slot))
        define(s, y, name, JSYM_RESOLVE);
}

static struct jsym branch(struct jsyms *s, const struct jsym *y)
{
    struct jsym b = *y;

    jinja_run_step(s->r, y->n / 2);
    b.e = jinja_run_alloc(s->r, (y->n + 1) * sizeof(*b.e));
    b.cap = b.e ? y->n + 1 : 0;
    b.n = b.e ? y->n : 0;
    if (b.n)
        memcpy(b.e, y->e, y->n * sizeof(*b.e));
    return b;
}

/* A name set in a branch only may keep its old value: the scope loads it from outside. */
static void merge_branches(struct jsyms *s, struct jsym *y, const struct jsym *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < b[i].n && !s->r->rc; k++) {
            const struct jsym_entry *from = &b[i].e[k];
            struct jsym_entry *to = entry(y, from->name);
            bool was_stored = to && to->stored;

            jinja_run_step(s->r, y->n / 4);
            to = define(s, y, from->name, from->kind);
            if (!to)
                return;
            to->alias_fn = from->alias_fn;
            to->alias_slot = from->alias_slot;
            if (from->stored && !was_stored)
                load_from_outside(s, y, to, JSYM_RESOLVE);
        }
    for (size_t i = 0; i < n; i++) /* only now, so that every branch met the names as they were before */
        for (size_t k = 0; k < b[i].n && !s->r->rc; k++)
            if (b[i].e[k].stored)
                entry(y, b[i].e[k].name)->stored = true;
}

static void visit_if(struct jsyms *s, struct jsym *y, const struct jn_if *f)
{
    struct jsym b[3];

    jinja_sym_visit(s, y, f->test);
    b[0] = branch(s, y);
    jinja_sym_visit_list(s, &b[0], &f->body);
    b[1] = branch(s, y);
    jinja_sym_visit_list(s, &b[1], &f->elifs);
    b[2] = branch(s, y);
    jinja_sym_visit_list(s, &b[2], &f->otherwise);
    merge_branches(s, y, b, 3);
}

static void visit_call(struct jsyms *s, struct jsym *y, const struct jn *n)
{
    const struct jncall *c = n->u.call.args;

    jinja_sym_visit(s, y, n->u.call.of);
    jinja_sym_visit_list(s, y, &c->args);
    for (size_t i = 0; i < c->n_kw; i++)
        jinja_sym_visit(s, y, c->kw[i].value);
    jinja_sym_visit(s, y, c->star);
    jinja_sym_visit(s, y, c->star_star);
}

/* What is in a scope of its own is not looked into. */
static void visit_statement(struct jsyms *s, struct jsym *y, const struct jn *n)
{
    switch ((enum jn_kind)n->kind) {
    case JN_IF: visit_if(s, y, n->u.if_); break;
    case JN_FOR: jinja_sym_visit(s, y, n->u.for_->over); break;
    case JN_SET:
        jinja_sym_visit(s, y, n->u.set->value);
        jinja_sym_visit(s, y, n->u.set->target);
        break;
    case JN_SET_BLOCK: jinja_sym_visit(s, y, n->u.set->target); break;
    case JN_MACRO: store(s, y, n->u.macro->name); break;
    case JN_CALL_BLOCK: jinja_sym_visit(s, y, n->u.macro->call); break;
    case JN_FILTER_BLOCK: jinja_sym_visit(s, y, n->u.body->head); break;
    case JN_WITH: jinja_sym_visit_list(s, y, &n->u.with->values); break;
    default: break;
    }
}

void jinja_sym_visit(struct jsyms *s, struct jsym *y, const struct jn *n)
{
    if (!n || s->r->rc)
        return;
    switch ((enum jn_kind)n->kind) {
    case JN_NAME:
        jinja_run_step(s->r, y->n / 4);
        if (n->u.name.store)
            store(s, y, n->u.name.id);
        else
            load(s, y, n->u.name.id);
        break;
    case JN_NSREF: load(s, y, n->u.name.id); break;
    case JN_TUPLE:
    case JN_LIST:
    case JN_DICT:
    case JN_CONCAT: jinja_sym_visit_list(s, y, &n->u.items); break;
    case JN_SIGN:
    case JN_NOT:
    case JN_OUTPUT:
    case JN_BINARY:
    case JN_AND:
    case JN_OR:
        jinja_sym_visit(s, y, n->u.op2.a);
        jinja_sym_visit(s, y, n->u.op2.b);
        break;
    case JN_COMPARE: jinja_sym_visit_list(s, y, &n->u.compare.v); break;
    case JN_COND:
        jinja_sym_visit(s, y, n->u.cond.test);
        jinja_sym_visit(s, y, n->u.cond.yes);
        jinja_sym_visit(s, y, n->u.cond.no);
        break;
    case JN_ATTR: jinja_sym_visit(s, y, n->u.attr.obj); break;
    case JN_ITEM:
        jinja_sym_visit(s, y, n->u.item.obj);
        jinja_sym_visit(s, y, n->u.item.key);
        break;
    case JN_SLICE:
        jinja_sym_visit(s, y, n->u.slice.obj);
        jinja_sym_visit(s, y, n->u.slice.start);
        jinja_sym_visit(s, y, n->u.slice.stop);
        jinja_sym_visit(s, y, n->u.slice.step);
        break;
    case JN_CALL:
    case JN_FILTER:
    case JN_TEST: visit_call(s, y, n); break;
    default: visit_statement(s, y, n);
    }
}

void jinja_sym_visit_list(struct jsyms *s, struct jsym *y, const struct jnlist *l)
{
    for (size_t i = 0; i < l->n; i++)
        jinja_sym_visit(s, y, l->v[i]);
}

void jinja_sym_params(struct jsyms *s, struct jsym *y, const struct jn *target)
{
    if (target->kind == JN_NAME)
        jinja_sym_param(s, y, target->u.name.id);
    else if (target->kind == JN_TUPLE)
        for (size_t i = 0; i < target->u.items.n; i++)
            jinja_sym_params(s, y, target->u.items.v[i]);
}

struct jref jinja_sym_ref(const struct jfn *from, const struct jfn *to, uint32_t slot)
{
    struct jref ref = {.hops = 0, .slot = slot};

    for (; from && from != to; from = from->parent)
        ref.hops++;
    ASSERT(from, "slot %u is in no function around", slot);
    return ref;
}

struct jscope jinja_sym_scope(struct jsyms *s, const struct jsym *y)
{
    struct jscope scope = {.load = jinja_run_zalloc(s->r, y->n, sizeof(*scope.load))};

    for (size_t i = 0; scope.load && i < y->n; i++) {
        const struct jsym_entry *e = &y->e[i];
        struct jload *l = &scope.load[scope.n];

        if (e->kind == JSYM_PARAM || e->kind == JSYM_NONE)
            continue;
        l->slot = e->slot;
        l->name = e->name;
        l->kind = e->kind == JSYM_RESOLVE ? JLOAD_RESOLVE
                  : e->kind == JSYM_ALIAS ? JLOAD_ALIAS
                                          : JLOAD_UNDEFINED;
        if (e->kind == JSYM_ALIAS)
            l->from = jinja_sym_ref(y->fn, e->alias_fn, e->alias_slot);
        scope.n++;
    }
    return scope;
}
