/* jinja_scope.c - walks the tree as Jinja's code generator does: each scope's names are collected before
 * its nodes. */
#include "text/jinja_scope.h"

#include <string.h>

#include "text/jinja_free.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_sym.h"

struct resolve {
    struct jsyms s;
    struct jinja *j;
    struct jn **block;
    size_t n_blocks, cap_blocks;
};

/* Where the walk is. */
struct frame {
    struct jsym *sym;
    bool toplevel; /* of the template, and in no scope but branches of an if */
    bool soft;     /* in a branch: unknown filters are an error only if they run */
    bool in_loop;  /* break and continue have a loop, in this function */
};

static struct jrun *run_of(struct resolve *z)
{
    return z->s.r;
}

static void fail(struct resolve *z, const struct jn *n, const char *text)
{
    run_of(z)->line = n->line;
    jinja_run_fail(run_of(z), "%s", text);
}

static struct frame inner(struct resolve *z, const struct frame *f, struct jfn *fn)
{
    return (struct frame){.sym = jinja_sym_new(&z->s, f->sym, fn), .in_loop = f->in_loop && fn == f->sym->fn};
}

static struct jref ref(struct resolve *z, const struct frame *f, struct jv name, const struct jn *n)
{
    struct jfn *fn;
    uint32_t slot;

    if (!run_of(z)->rc && jinja_sym_find(&z->s, f->sym, name, &fn, &slot))
        return jinja_sym_ref(f->sym->fn, fn, slot);
    run_of(z)->line = n->line;
    jinja_run_fail(run_of(z), "the name %s is not known in this scope", jinja_repr_brief(run_of(z), name));
    return (struct jref){0, 0};
}

static void walk(struct resolve *z, const struct frame *f, struct jn *n);

static void walk_list(struct resolve *z, const struct frame *f, const struct jnlist *l)
{
    for (size_t i = 0; i < l->n; i++)
        walk(z, f, l->v[i]);
}

static void begin_function(struct jfn *fn, struct jfn *parent)
{
    fn->parent = parent;
    if (parent)
        parent->captured = true;
}

static void walk_call(struct resolve *z, const struct frame *f, struct jn *n)
{
    const struct jncall *c = n->u.call.args;
    bool filter = n->kind == JN_FILTER;

    if (n->kind != JN_CALL && !n->u.call.what && !f->soft) {
        run_of(z)->line = n->line;
        jinja_run_fail(run_of(z), "No %s named %s.", filter ? "filter" : "test",
                       jinja_repr_brief(run_of(z), n->u.call.name));
    }
    walk(z, f, n->u.call.of);
    walk_list(z, f, &c->args);
    for (size_t i = 0; i < c->n_kw; i++)
        walk(z, f, c->kw[i].value);
    walk(z, f, c->star);
    walk(z, f, c->star_star);
}

static void walk_for(struct resolve *z, const struct frame *f, struct jn *n)
{
    struct jn_for *l = n->u.for_;
    struct jfn *fn = l->recursive ? &l->fn : f->sym->fn;
    struct frame body, otherwise, test;

    if (l->recursive)
        begin_function(&l->fn, f->sym->fn);
    body = inner(z, f, fn);
    otherwise = inner(z, f, fn);
    if (run_of(z)->rc)
        return;
    body.in_loop = true;
    l->extended = l->recursive || jinja_free_names(&l->body, JFREE_LOOP) || jinja_free_scoped_block(&l->body);
    if (l->extended) {
        struct jv name = jinja_str_lit(run_of(z), "loop");

        if (run_of(z)->rc)
            return;
        jinja_str_chars(name.u.str);
        jinja_sym_param(&z->s, body.sym, name);
        l->loop = ref(z, &body, name, n);
    }
    jinja_sym_params(&z->s, body.sym, l->target);
    jinja_sym_visit_list(&z->s, body.sym, &l->body);
    jinja_sym_visit_list(&z->s, otherwise.sym, &l->otherwise);
    if (jinja_free_sets_loop(n))
        fail(z, n, "Can't assign to special loop variable in for-loop target");
    walk(z, f, l->over);
    if (l->test) {
        begin_function(&l->test_fn, f->sym->fn);
        test = inner(z, f, &l->test_fn);
        if (run_of(z)->rc)
            return;
        jinja_sym_params(&z->s, test.sym, l->test_target);
        jinja_sym_visit(&z->s, test.sym, l->test);
        walk(z, &test, l->test_target);
        walk(z, &test, l->test);
        l->test_scope = jinja_sym_scope(&z->s, test.sym);
    }
    walk(z, &body, l->target);
    walk_list(z, &body, &l->body);
    walk_list(z, &otherwise, &l->otherwise);
    l->scope = jinja_sym_scope(&z->s, body.sym);
    l->else_scope = jinja_sym_scope(&z->s, otherwise.sym);
}

static struct jref special(struct resolve *z, struct frame *f, const char *literal, const struct jn *n)
{
    struct jv name = jinja_str_lit(run_of(z), literal);

    if (run_of(z)->rc)
        return (struct jref){0, 0};
    jinja_str_chars(name.u.str);
    jinja_sym_param(&z->s, f->sym, name);
    return ref(z, f, name, n);
}

static void walk_macro(struct resolve *z, const struct frame *f, struct jn *n)
{
    struct jn_macro *m = n->u.macro;
    struct frame in;
    unsigned used;
    bool has_kwargs = false, has_varargs = false;

    begin_function(&m->fn, f->sym->fn);
    in = inner(z, f, &m->fn);
    if (run_of(z)->rc)
        return;
    for (size_t i = 0; i < m->params.n; i++) {
        struct jv name = m->params.v[i]->u.name.id;

        jinja_sym_params(&z->s, in.sym, m->params.v[i]);
        has_kwargs |= jinja_str_is(name, "kwargs");
        has_varargs |= jinja_str_is(name, "varargs");
        if (jinja_str_is(name, "caller")) {
            m->explicit_caller = true;
            if (i < m->params.n - m->defaults.n && (jinja_free_names(&m->body, JFREE_CALLER)))
                fail(z, n,
                     "When defining macros or call blocks the special \"caller\" argument must be omitted or "
                     "be "
                     "given a default.");
        }
    }
    jinja_sym_visit_list(&z->s, in.sym, &m->defaults);
    jinja_sym_visit_list(&z->s, in.sym, &m->body);
    used = jinja_free_names(&m->body, JFREE_CALLER | JFREE_KWARGS | JFREE_VARARGS);
    m->uses_caller = used & JFREE_CALLER;
    m->uses_kwargs = (used & JFREE_KWARGS) && !has_kwargs;
    m->uses_varargs = (used & JFREE_VARARGS) && !has_varargs;
    if (m->uses_caller)
        m->caller = special(z, &in, "caller", n);
    if (m->uses_kwargs)
        m->kwargs = special(z, &in, "kwargs", n);
    if (m->uses_varargs)
        m->varargs = special(z, &in, "varargs", n);
    walk_list(z, &in, &m->params);
    walk_list(z, &in, &m->defaults);
    walk_list(z, &in, &m->body);
    m->scope = jinja_sym_scope(&z->s, in.sym);
    if (n->kind == JN_CALL_BLOCK)
        walk(z, f, m->call);
    if (n->kind == JN_MACRO) {
        m->self = ref(z, f, m->name, n);
        m->toplevel = f->toplevel;
    }
}

static void walk_with(struct resolve *z, const struct frame *f, struct jn *n)
{
    struct jn_with *w = n->u.with;
    struct frame in = inner(z, f, f->sym->fn);

    if (run_of(z)->rc)
        return;
    for (size_t i = 0; i < w->targets.n; i++)
        jinja_sym_params(&z->s, in.sym, w->targets.v[i]);
    jinja_sym_visit_list(&z->s, in.sym, &w->body);
    walk_list(z, &in, &w->targets);
    walk_list(z, f, &w->values);
    walk_list(z, &in, &w->body);
    w->scope = jinja_sym_scope(&z->s, in.sym);
}

/* A filter block or autoescape: a scope of its own around the head and the body. */
static void walk_body(struct resolve *z, const struct frame *f, struct jn *n)
{
    struct jn_body *b = n->u.body;
    struct frame in = inner(z, f, f->sym->fn);

    if (run_of(z)->rc)
        return;
    if (n->kind == JN_AUTOESCAPE)
        jinja_sym_visit(&z->s, in.sym, b->head);
    jinja_sym_visit_list(&z->s, in.sym, &b->body);
    jinja_sym_visit(&z->s, in.sym, b->head);
    walk_list(z, &in, &b->body);
    walk(z, &in, b->head);
    b->scope = jinja_sym_scope(&z->s, in.sym);
}

/* Counts, or with SET also notes, the names a target sets and where they are. */
static void export_names(struct resolve *z, const struct frame *f, struct jn_set *s, const struct jn *target,
                         bool set)
{
    if (target->kind == JN_TUPLE)
        for (size_t i = 0; i < target->u.items.n; i++)
            export_names(z, f, s, target->u.items.v[i], set);
    if (target->kind != JN_NAME)
        return;
    if (set) {
        s->exported[s->n_exported] = target->u.name.id;
        s->from[s->n_exported] = ref(z, f, target->u.name.id, target);
    }
    s->n_exported++;
}

static void walk_set(struct resolve *z, const struct frame *f, struct jn *n)
{
    struct jn_set *s = n->u.set;

    if (n->kind == JN_SET) {
        walk(z, f, s->value);
    } else {
        struct frame in = inner(z, f, f->sym->fn);

        if (run_of(z)->rc)
            return;
        jinja_sym_visit_list(&z->s, in.sym, &s->body);
        walk_list(z, &in, &s->body);
        walk(z, &in, s->filter);
        s->scope = jinja_sym_scope(&z->s, in.sym);
    }
    walk(z, f, s->target);
    if (!f->toplevel)
        return;
    export_names(z, f, s, s->target, false);
    s->exported = jinja_run_zalloc(run_of(z), s->n_exported, sizeof(*s->exported));
    s->from = jinja_run_zalloc(run_of(z), s->n_exported, sizeof(*s->from));
    s->n_exported = 0;
    if (s->exported && s->from)
        export_names(z, f, s, s->target, true);
}

/* What a scoped block sees beside the context: everything set in the scopes around it. */
static void local_names(struct resolve *z, const struct frame *f, struct jn_body *b)
{
    size_t most = 0;

    for (const struct jsym *y = f->sym; y; y = y->parent)
        most += y->n;
    b->local = jinja_run_zalloc(run_of(z), most, sizeof(*b->local));
    b->from = jinja_run_zalloc(run_of(z), most, sizeof(*b->from));
    if (!b->local || !b->from)
        return;
    for (const struct jsym *y = f->sym; y; y = y->parent)
        for (size_t i = 0; i < y->n; i++) {
            bool known = !y->e[i].stored;

            for (size_t k = 0; k < b->n_local && !known; k++)
                known = jinja_val_same(b->local[k], y->e[i].name);
            if (known || !jinja_run_step(run_of(z), b->n_local / 16))
                continue;
            b->local[b->n_local] = y->e[i].name;
            b->from[b->n_local++] = jinja_sym_ref(f->sym->fn, y->fn, y->e[i].slot);
        }
}

static void walk_block(struct resolve *z, const struct frame *f, struct jn *n)
{
    struct jn_body *b = n->u.body;
    struct frame in = {.sym = jinja_sym_new(&z->s, NULL, &b->fn)};
    unsigned used;

    if (run_of(z)->rc)
        return;
    jinja_run_step(run_of(z), z->n_blocks / 4);
    for (size_t i = 0; i < z->n_blocks; i++)
        if (jinja_val_same(z->block[i]->u.body->name, b->name))
            fail(z, n, "a block of this name is defined twice");
    if (z->n_blocks == z->cap_blocks) {
        size_t cap = z->cap_blocks ? z->cap_blocks * 2 : 8;
        struct jn **grown = jinja_run_alloc(run_of(z), cap * sizeof(*grown));

        if (!grown)
            return;
        if (z->n_blocks)
            memcpy(grown, z->block, z->n_blocks * sizeof(*grown));
        z->block = grown;
        z->cap_blocks = cap;
    }
    b->index = (uint32_t)z->n_blocks;
    z->block[z->n_blocks++] = n;
    if (b->scoped)
        local_names(z, f, b);
    used = jinja_free_names(&b->body, JFREE_SELF | JFREE_SUPER);
    b->uses_self = used & JFREE_SELF;
    b->uses_super = used & JFREE_SUPER;
    if (b->uses_self)
        b->self = special(z, &in, "self", n);
    if (b->uses_super)
        b->super = special(z, &in, "super", n);
    jinja_sym_visit_list(&z->s, in.sym, &b->body);
    walk_list(z, &in, &b->body);
    b->scope = jinja_sym_scope(&z->s, in.sym);
}

static void walk_if(struct resolve *z, const struct frame *f, struct jn *n)
{
    struct jn_if *i = n->u.if_;
    struct frame soft = *f;

    soft.soft = true;
    walk(z, &soft, i->test);
    walk_list(z, &soft, &i->body);
    walk_list(z, &soft, &i->elifs);
    walk_list(z, &soft, &i->otherwise);
}

static void walk_cond(struct resolve *z, const struct frame *f, struct jn *n)
{
    struct frame soft = *f;

    soft.soft = true;
    walk(z, &soft, n->u.cond.test);
    walk(z, &soft, n->u.cond.yes);
    walk(z, &soft, n->u.cond.no);
}

static void walk(struct resolve *z, const struct frame *f, struct jn *n)
{
    if (!n || run_of(z)->rc)
        return;
    switch ((enum jn_kind)n->kind) {
    case JN_CONST:
    case JN_DATA:
    case JN_UNAVAILABLE: break;
    case JN_NAME:
    case JN_NSREF: n->u.name.ref = ref(z, f, n->u.name.id, n); break;
    case JN_TUPLE:
    case JN_LIST:
    case JN_DICT:
    case JN_CONCAT: walk_list(z, f, &n->u.items); break;
    case JN_SIGN:
    case JN_NOT:
    case JN_OUTPUT:
    case JN_BINARY:
    case JN_AND:
    case JN_OR:
        walk(z, f, n->u.op2.a);
        walk(z, f, n->u.op2.b);
        break;
    case JN_COMPARE: walk_list(z, f, &n->u.compare.v); break;
    case JN_COND: walk_cond(z, f, n); break;
    case JN_ATTR: walk(z, f, n->u.attr.obj); break;
    case JN_ITEM:
        walk(z, f, n->u.item.obj);
        walk(z, f, n->u.item.key);
        break;
    case JN_SLICE:
        walk(z, f, n->u.slice.obj);
        walk(z, f, n->u.slice.start);
        walk(z, f, n->u.slice.stop);
        walk(z, f, n->u.slice.step);
        break;
    case JN_CALL:
    case JN_FILTER:
    case JN_TEST: walk_call(z, f, n); break;
    case JN_IF: walk_if(z, f, n); break;
    case JN_FOR: walk_for(z, f, n); break;
    case JN_SET:
    case JN_SET_BLOCK: walk_set(z, f, n); break;
    case JN_MACRO:
    case JN_CALL_BLOCK:
    case JN_GENERATION: walk_macro(z, f, n); break;
    case JN_FILTER_BLOCK:
    case JN_AUTOESCAPE: walk_body(z, f, n); break;
    case JN_WITH: walk_with(z, f, n); break;
    case JN_BLOCK: walk_block(z, f, n); break;
    case JN_BREAK:
    case JN_CONTINUE:
        if (!f->in_loop)
            fail(z, n, n->kind == JN_BREAK ? "'break' outside loop" : "'continue' not properly in loop");
        break;
    }
}

void jinja_scope_resolve(struct jrun *r, struct jinja *j)
{
    struct resolve z = {.s = {.r = r}, .j = j};
    struct frame root = {.sym = jinja_sym_new(&z.s, NULL, &j->fn), .toplevel = true};
    struct jn nowhere = {.line = 1};

    if (r->rc)
        return;
    j->uses_self = jinja_free_names(&j->body, JFREE_SELF);
    if (j->uses_self)
        j->self = special(&z, &root, "self", &nowhere);
    jinja_sym_visit_list(&z.s, root.sym, &j->body);
    walk_list(&z, &root, &j->body);
    if (r->rc)
        return;
    j->scope = jinja_sym_scope(&z.s, root.sym);
    j->block = z.block;
    j->n_blocks = z.n_blocks;
}
