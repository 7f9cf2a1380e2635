/* jinja_free.c - one walk over a tree, in the order in which Jinja visits the fields of its nodes. */
#include "text/jinja_free.h"

#include "text/jinja_str.h"

struct walk {
    unsigned wanted, used;
    bool sets_loop, scoped;
    bool into_blocks;
};

static unsigned special(struct jv name)
{
    static const char *const names[] = {"loop", "caller", "kwargs", "varargs", "self", "super"};

    for (unsigned i = 0; i < 6; i++)
        if (jinja_str_is(name, names[i]))
            return 1u << i;
    return 0;
}

static void meet(struct walk *w, struct jv name, bool load)
{
    unsigned bit = special(name) & w->wanted;

    if (load)
        w->used |= bit;
    else
        w->wanted &= ~bit; /* set before it is used: not the special one */
}

static void walk(struct walk *w, const struct jn *n);

static void walk_list(struct walk *w, const struct jnlist *l)
{
    for (size_t i = 0; i < l->n; i++)
        walk(w, l->v[i]);
}

static void walk_call(struct walk *w, const struct jn *n)
{
    const struct jncall *c = n->u.call.args;

    walk(w, n->u.call.of);
    walk_list(w, &c->args);
    for (size_t i = 0; i < c->n_kw; i++)
        walk(w, c->kw[i].value);
    walk(w, c->star);
    walk(w, c->star_star);
}

static void walk_params(struct walk *w, const struct jnlist *l)
{
    for (size_t i = 0; i < l->n; i++)
        meet(w, l->v[i]->u.name.id, false);
}

static void walk_statement(struct walk *w, const struct jn *n)
{
    switch ((enum jn_kind)n->kind) {
    case JN_IF:
        walk(w, n->u.if_->test);
        walk_list(w, &n->u.if_->body);
        walk_list(w, &n->u.if_->elifs);
        walk_list(w, &n->u.if_->otherwise);
        break;
    case JN_FOR:
        walk(w, n->u.for_->target);
        walk(w, n->u.for_->over);
        walk_list(w, &n->u.for_->body);
        walk_list(w, &n->u.for_->otherwise);
        walk(w, n->u.for_->test);
        break;
    case JN_SET:
        walk(w, n->u.set->target);
        walk(w, n->u.set->value);
        break;
    case JN_SET_BLOCK:
        walk(w, n->u.set->target);
        walk(w, n->u.set->filter);
        walk_list(w, &n->u.set->body);
        break;
    case JN_MACRO:
    case JN_CALL_BLOCK:
    case JN_GENERATION:
        walk(w, n->u.macro->call);
        walk_params(w, &n->u.macro->params);
        walk_list(w, &n->u.macro->defaults);
        walk_list(w, &n->u.macro->body);
        break;
    case JN_FILTER_BLOCK:
        walk_list(w, &n->u.body->body);
        walk(w, n->u.body->head);
        break;
    case JN_AUTOESCAPE:
        walk(w, n->u.body->head);
        walk_list(w, &n->u.body->body);
        break;
    case JN_WITH:
        walk_params(w, &n->u.with->targets);
        walk_list(w, &n->u.with->values);
        walk_list(w, &n->u.with->body);
        break;
    case JN_BLOCK:
        w->scoped |= n->u.body->scoped;
        if (w->into_blocks)
            walk_list(w, &n->u.body->body);
        break;
    default: break;
    }
}

static void walk(struct walk *w, const struct jn *n)
{
    if (!n)
        return;
    switch ((enum jn_kind)n->kind) {
    case JN_NAME:
        meet(w, n->u.name.id, !n->u.name.store);
        w->sets_loop |= n->u.name.store && jinja_str_is(n->u.name.id, "loop");
        break;
    case JN_TUPLE:
    case JN_LIST:
    case JN_DICT:
    case JN_CONCAT: walk_list(w, &n->u.items); break;
    case JN_SIGN:
    case JN_NOT:
    case JN_OUTPUT:
    case JN_BINARY:
    case JN_AND:
    case JN_OR:
        walk(w, n->u.op2.a);
        walk(w, n->u.op2.b);
        break;
    case JN_COMPARE: walk_list(w, &n->u.compare.v); break;
    case JN_COND:
        walk(w, n->u.cond.test);
        walk(w, n->u.cond.yes);
        walk(w, n->u.cond.no);
        break;
    case JN_ATTR: walk(w, n->u.attr.obj); break;
    case JN_ITEM:
        walk(w, n->u.item.obj);
        walk(w, n->u.item.key);
        break;
    case JN_SLICE:
        walk(w, n->u.slice.obj);
        walk(w, n->u.slice.start);
        walk(w, n->u.slice.stop);
        walk(w, n->u.slice.step);
        break;
    case JN_CALL:
    case JN_FILTER:
    case JN_TEST: walk_call(w, n); break;
    default: walk_statement(w, n);
    }
}

unsigned jinja_free_names(const struct jnlist *l, unsigned wanted)
{
    struct walk w = {.wanted = wanted};

    walk_list(&w, l);
    return w.used;
}

bool jinja_free_sets_loop(const struct jn *n)
{
    struct walk w = {.into_blocks = true};

    walk(&w, n);
    return w.sets_loop;
}

bool jinja_free_scoped_block(const struct jnlist *l)
{
    struct walk w = {.into_blocks = true};

    walk_list(&w, l);
    return w.scoped;
}
