/* statement.c - executes statements: assignments, blocks, loops and macros. */
#include "text/jinja/statement.h"

#include <string.h>

#include "text/jinja/builtin.h"
#include "text/jinja/expression.h"
#include "text/jinja/frame.h"
#include "text/jinja/tree.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"
#include "text/jinja/value/walk.h"

/* ---- assignments ---- */

static void set_attribute(struct rendering *r, const struct tree_node *target, struct value v)
{
    struct value object = jinja_variable(r, target->variable.number), name = target->variable.attribute;

    if (object.kind != VALUE_NAMESPACE)
        jinja_fail(r, "cannot assign attribute on non-namespace object");
    else if (name.size && name.bytes[0] == '_')
        jinja_fail(r, "cannot store the attribute %s, which begins with an underscore, on a namespace",
                   jinja_brief(r, name));
    else
        jinja_dict_set(r, object.dict, name, v);
}

static void assign(struct rendering *r, const struct tree_node *target, struct value v);

static void assign_items(struct rendering *r, const struct tree_node *target, struct value v)
{
    size_t n = target->items.n, count;

    if (!r->rc && !jinja_iterable(v))
        jinja_fail(r, "cannot unpack non-iterable %s object", jinja_type(v));
    v = jinja_is_sequence(v) ? v : jinja_to_list(r, v);
    if (r->rc)
        return;
    count = v.size;
    if (count != n)
        jinja_fail(r, "%s values to unpack (expected %zu, got %zu)", count < n ? "not enough" : "too many", n,
                   count);
    for (size_t i = 0; i < n && !r->rc; i++)
        assign(r, target->items.v[i], v.items[i]);
}

static void assign(struct rendering *r, const struct tree_node *target, struct value v)
{
    if (r->rc)
        return;
    switch ((enum tree_kind)target->kind) {
    case TREE_VARIABLE: jinja_set_variable(r, r->frame, target->variable.number, v); break;
    case TREE_NAMESPACE_TARGET: set_attribute(r, target, v); break;
    default: assign_items(r, target, v);
    }
}

/* ---- blocks ---- */

/* Executes BODY in frame F, with OUT as its output. */
static enum statement_flow execute_apart(struct rendering *r, const struct tree_nodes *body, struct frame *f,
                                         struct text *out)
{
    struct frame *outer = r->frame;
    struct text *before = r->out;
    enum statement_flow flow;

    if (!f)
        return STATEMENT_NEXT;
    r->frame = f;
    r->out = out;
    flow = jinja_execute(r, body);
    r->out = before;
    r->frame = outer;
    return flow;
}

static void put_block(struct rendering *r, struct value v)
{
    if (!r->rc && v.kind != VALUE_STRING)
        jinja_fail(r, "the filters of this block must return a str, not %s", jinja_type(v));
    if (!r->rc)
        jinja_put(r->out, v.bytes, v.size);
}

/* Executes a set or filter block: its text goes through the filters to a variable or the output. */
static enum statement_flow execute_block(struct rendering *r, const struct tree_statement *s)
{
    struct text t = {.r = r};
    enum statement_flow flow = execute_apart(r, &s->body, jinja_frame_open(r, r->frame), &t);
    struct value v;

    r->block = jinja_finish(&t);
    v = flow == STATEMENT_NEXT && !r->rc ? jinja_evaluate(r, s->value) : value_none;
    if (flow == STATEMENT_NEXT && s->target)
        assign(r, s->target, v);
    else if (flow == STATEMENT_NEXT)
        put_block(r, v);
    return flow;
}

static enum statement_flow execute_if(struct rendering *r, const struct tree_node *n)
{
    while (n && !r->rc) {
        const struct tree_statement *f = n->statement;

        r->line = n->line;
        if (!f->test || jinja_true(jinja_evaluate(r, f->test)))
            return r->rc ? STATEMENT_NEXT : jinja_execute(r, &f->body);
        n = f->next;
    }
    return STATEMENT_NEXT;
}

/* ---- loops ---- */

/* The elements that pass a for loop's condition. Each element is tested just before its iteration, because
 * the loop's body may change variables of the condition. */
struct sieve {
    const struct tree_statement *node;
    struct frame *frame;
    struct walk_generator *source;
};

static bool next_passing(struct rendering *r, struct walk_generator *g, struct value *out)
{
    struct sieve *s = g->state;
    struct frame *before = r->frame;
    bool passes = false;

    r->frame = s->frame;
    while (!passes && jinja_next(r, s->source, out)) {
        s->frame->count = 0;
        assign(r, s->node->target, *out);
        passes = jinja_true(jinja_evaluate(r, s->node->test));
    }
    r->frame = before;
    return passes;
}

static struct value sift(struct rendering *r, const struct tree_statement *f, struct value over)
{
    struct sieve *s = jinja_allocate_array(r, 1, sizeof(*s));

    if (!s)
        return value_none;
    s->node = f;
    s->source = jinja_walk(r, over);
    s->frame = jinja_frame_open(r, r->frame);
    return jinja_generator(r, over, s, next_passing);
}

/* Executes the body for each element. Sets *WHOLE if an iteration was executed to its end; otherwise the
 * caller executes the else branch. */
static enum statement_flow run_loop(struct rendering *r, const struct tree_statement *f, struct walk_loop *l,
                                    struct frame *frame, bool *whole)
{
    struct value self = {.kind = VALUE_LOOP, .loop = l};
    enum statement_flow flow = STATEMENT_NEXT;

    while (flow != STATEMENT_BREAK && jinja_loop_next(r, l)) {
        frame->count = 0;
        jinja_set_variable(r, frame, r->template->loop, self);
        assign(r, f->target, l->current);
        flow = jinja_execute(r, &f->body);
        *whole |= flow == STATEMENT_NEXT;
    }
    return flow;
}

static enum statement_flow execute_for(struct rendering *r, const struct tree_node *n)
{
    const struct tree_statement *f = n->statement;
    struct value over = jinja_evaluate(r, f->value);
    struct walk_loop *l = jinja_allocate_array(r, 1, sizeof(*l));
    struct frame *outer = r->frame, *frame;
    bool whole = false;

    r->line = r->rc ? r->line : n->line;
    if (!r->rc && f->test)
        over = sift(r, f, over);
    frame = jinja_frame_open(r, outer);
    if (r->rc)
        return STATEMENT_NEXT;
    l->source = jinja_walk(r, over);
    l->over = over;
    l->index0 = -1;
    r->frame = frame;
    if (l->source)
        run_loop(r, f, l, frame, &whole);
    r->frame = outer;
    return whole || r->rc ? STATEMENT_NEXT : jinja_execute(r, &f->otherwise);
}

/* ---- macros ---- */

static struct value make_macro(struct rendering *r, const struct tree_macro *node)
{
    struct frame_macro *m = jinja_allocate(r, sizeof(*m));

    if (!m)
        return value_none;
    *m = (struct frame_macro){node, r->frame};
    return (struct value){.kind = VALUE_MACRO, .macro = m};
}

/* Assigns the arguments to the parameters. Surplus arguments go to varargs, kwargs or caller if the macro
 * uses these names, and are an error otherwise. */
static void bind_arguments(struct rendering *r, const struct tree_macro *m, const struct builtin_arguments *a)
{
    size_t n = m->parameters.n, required = n - m->defaults.n, more = a->count > n ? a->count - n : 0, at;
    struct value *v = jinja_allocate_array(r, n, sizeof(*v)), caller = value_none;
    struct value_dict *rest = jinja_dict(r);

    if (v && a->count)
        memcpy(v, a->values, (a->count - more) * sizeof(*v));
    for (size_t i = 0; i < a->n_keywords && !r->rc; i++) {
        const struct builtin_keyword *k = &a->keywords[i];

        for (at = 0; at < n && !jinja_same(m->parameters.v[at]->variable.name, k->name);)
            at++;
        if (at < n && v[at].kind != VALUE_MISSING)
            jinja_fail(r, "macro %s got two values for %s", jinja_brief(r, m->name), jinja_brief(r, k->name));
        else if (at < n)
            v[at] = k->value;
        else if (m->uses & TREE_USES_CALLER && jinja_is(k->name, "caller"))
            caller = k->value;
        else if (m->uses & TREE_USES_KWARGS)
            jinja_dict_set(r, rest, k->name, k->value);
        else
            jinja_fail(r, "macro %s takes no keyword argument %s", jinja_brief(r, m->name),
                       jinja_brief(r, k->name));
    }
    if (m->uses & TREE_USES_CALLER)
        jinja_set_variable(r, r->frame, r->template->caller,
                           caller.kind == VALUE_NONE ? jinja_undefined("No caller defined") : caller);
    for (size_t i = 0; i < n && !r->rc; i++) { /* a default may use earlier parameters */
        const struct tree_node *name = m->parameters.v[i];

        if (v[i].kind == VALUE_MISSING)
            v[i] = i >= required ? jinja_evaluate(r, m->defaults.v[i - required])
                                 : jinja_undefined_name(name->variable.name);
        jinja_set_variable(r, r->frame, name->variable.number, v[i]);
    }
    if (m->uses & TREE_USES_KWARGS)
        jinja_set_variable(r, r->frame, r->template->kwargs, jinja_dict_value(rest, VALUE_DICT));
    if (m->uses & TREE_USES_VARARGS)
        jinja_set_variable(r, r->frame, r->template->varargs,
                           jinja_list(r, VALUE_TUPLE, more ? a->values + n : NULL, more));
    else if (more)
        jinja_fail(r, "macro %s takes at most %zu positional argument(s)", jinja_brief(r, m->name), n);
}

struct value jinja_call_macro(struct rendering *r, const struct frame_macro *macro,
                              const struct builtin_arguments *a)
{
    struct frame *outer = r->frame, *f;
    struct text t = {.r = r};

    if (!jinja_enter(r))
        return value_none;
    f = jinja_frame_open(r, macro->frame);
    if (f) {
        r->frame = f;
        bind_arguments(r, macro->node, a);
        r->frame = outer;
    }
    execute_apart(r, &macro->node->body, f, &t);
    jinja_leave(r);
    return jinja_finish(&t);
}

/* ---- statements ---- */

static enum statement_flow execute(struct rendering *r, const struct tree_node *n)
{
    struct value v;

    r->line = n->line;
    switch ((enum tree_kind)n->kind) {
    case TREE_DATA: jinja_put(r->out, n->constant.bytes, n->constant.size); break;
    case TREE_OUTPUT:
        v = jinja_evaluate(r, n->part[0]);
        if (!r->rc) {
            r->line = n->line;
            jinja_print(r->out, v);
        }
        break;
    case TREE_IF: return execute_if(r, n);
    case TREE_FOR: return execute_for(r, n);
    case TREE_SET:
        v = jinja_evaluate(r, n->statement->value);
        r->line = r->rc ? r->line : n->line;
        assign(r, n->statement->target, v);
        break;
    case TREE_MACRO_BLOCK: jinja_set_variable(r, r->frame, n->macro->number, make_macro(r, n->macro)); break;
    case TREE_CALL_BLOCK:
        put_block(r, jinja_evaluate_call(r, n->macro->call, make_macro(r, n->macro)));
        break;
    case TREE_SET_BLOCK:
    case TREE_FILTER_BLOCK: return execute_block(r, n->statement);
    case TREE_GENERATION: execute_apart(r, &n->macro->body, jinja_frame_open(r, r->frame), r->out); break;
    case TREE_BREAK: return STATEMENT_BREAK;
    case TREE_CONTINUE: return STATEMENT_CONTINUE;
    default: ASSERT(false, "node %d is not a statement", n->kind);
    }
    return STATEMENT_NEXT;
}

enum statement_flow jinja_execute(struct rendering *r, const struct tree_nodes *body)
{
    enum statement_flow flow = STATEMENT_NEXT;

    if (!jinja_enter(r))
        return flow;
    for (size_t i = 0; i < body->n && flow == STATEMENT_NEXT && jinja_step(r, 0); i++)
        flow = execute(r, body->v[i]);
    jinja_leave(r);
    return r->rc ? STATEMENT_NEXT : flow;
}
