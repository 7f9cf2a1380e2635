/* statement.c - runs statements: frames and variables, loops, macros, and where their text goes. */
#include <string.h>

#include "text/jinja/tree.h"

/* Frames */

struct frame *jinja_frame_open(struct rendering *r, struct frame *outer)
{
    struct frame *f = jinja_allocate_array(r, 1, sizeof(*f));

    if (f)
        f->outer = outer;
    return f;
}

struct value jinja_variable(struct rendering *r, uint32_t name)
{
    for (const struct frame *f = r->frame; f; f = f->outer) {
        for (size_t i = 0; i < f->count; i++)
            if (f->variables[i].name == name)
                return i < 16 || jinja_step(r, i / 16) ? f->variables[i].value : none;
        if (f->count >= 16 && !jinja_step(r, f->count / 16))
            break;
    }
    return r->outside[name];
}

static void set_variable(struct rendering *r, struct frame *f, uint32_t name, struct value v)
{
    struct variable *variables = f->variables;
    size_t i = 0;

    if (r->rc)
        return;
    while (i < f->count && f->variables[i].name != name)
        i++;
    if (i == f->count)
        variables = jinja_room(r, variables, i, &f->room, sizeof(*variables));
    if (!variables || !jinja_step(r, i / 16))
        return;
    f->variables = variables;
    f->variables[i] = (struct variable){name, v};
    f->count += i == f->count;
}

/* Assignments */

static void set_attribute(struct rendering *r, const struct node *target, struct value v)
{
    struct value object = jinja_variable(r, target->variable.number), name = target->variable.attribute;

    if (object.kind != NAMESPACE)
        jinja_fail(r, "cannot assign attribute on non-namespace object");
    else if (name.size && name.bytes[0] == '_')
        jinja_fail(r, "cannot store the attribute %s, which begins with an underscore, on a namespace",
                   jinja_brief(r, name));
    else
        jinja_dict_set(r, object.dict, name, v);
}

static void assign(struct rendering *r, const struct node *target, struct value v);

static void unpack(struct rendering *r, const struct node *target, struct value v)
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

static void assign(struct rendering *r, const struct node *target, struct value v)
{
    if (r->rc)
        return;
    switch ((enum node_kind)target->kind) {
    case VARIABLE: set_variable(r, r->frame, target->variable.number, v); break;
    case NAMESPACE_TARGET: set_attribute(r, target, v); break;
    default: unpack(r, target, v);
    }
}

/* Bodies */

/* Runs BODY in frame F, with its text into OUT. */
static enum flow execute_apart(struct rendering *r, const struct nodes *body, struct frame *f,
                               struct text *out)
{
    struct frame *outer = r->frame;
    struct text *before = r->out;
    enum flow flow;

    if (!f)
        return GO_ON;
    r->frame = f;
    r->out = out;
    flow = jinja_execute(r, body);
    r->out = before;
    r->frame = outer;
    return flow;
}

static void put_block(struct rendering *r, struct value v)
{
    if (!r->rc && v.kind != STRING)
        jinja_fail(r, "this block must come to a str, not %s", jinja_type(v));
    if (!r->rc)
        jinja_put(r->out, v.bytes, v.size);
}

/* A set block or a filter block: its text, through filters, becomes a variable or goes on. */
static enum flow execute_block(struct rendering *r, const struct statement *s)
{
    struct text t = {.r = r};
    enum flow flow = execute_apart(r, &s->body, jinja_frame_open(r, r->frame), &t);
    struct value v;

    r->block = jinja_finish(&t);
    v = flow == GO_ON && !r->rc ? jinja_evaluate(r, s->value) : none;
    if (flow == GO_ON && s->target)
        assign(r, s->target, v);
    else if (flow == GO_ON)
        put_block(r, v);
    return flow;
}

static enum flow execute_if(struct rendering *r, const struct node *n)
{
    while (n && !r->rc) {
        const struct statement *f = n->statement;

        r->line = n->line;
        if (!f->test || jinja_true(jinja_evaluate(r, f->test)))
            return r->rc ? GO_ON : jinja_execute(r, &f->body);
        n = f->next;
    }
    return GO_ON;
}

/* Loops */

/* The elements that pass the condition of a loop. They are taken one by one, for the body may change what
 * the condition depends on. */
struct sieve {
    const struct statement *node;
    struct frame *frame;
    struct generator *source;
};

static bool next_passing(struct rendering *r, struct generator *g, struct value *out)
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

static struct value sift(struct rendering *r, const struct statement *f, struct value over)
{
    struct sieve *s = jinja_allocate_array(r, 1, sizeof(*s));

    if (!s)
        return none;
    s->node = f;
    s->source = jinja_walk(r, over);
    s->frame = jinja_frame_open(r, r->frame);
    return jinja_generator(r, over, s, next_passing);
}

/* Looks one element ahead only when asked to: what comes next may depend on what the body does. */
static struct value peek(struct rendering *r, struct loop *l)
{
    struct value v;

    if (l->after.kind == MISSING && jinja_next(r, l->source, &v))
        l->after = v;
    return l->after;
}

static bool advance(struct rendering *r, struct loop *l)
{
    struct value v = l->after;

    l->after = missing;
    if (v.kind == MISSING && !jinja_next(r, l->source, &v))
        return false;
    l->index0++;
    l->before = l->current;
    l->current = v;
    return r->rc == 0;
}

size_t jinja_loop_length(struct rendering *r, struct loop *l)
{
    struct value rest;

    if (l->has_length || r->rc)
        return l->length;
    l->has_length = true;
    if (l->over.kind != GENERATOR && jinja_length(r, l->over, &l->length))
        return l->length;
    rest = jinja_to_list(r, (struct value){.kind = GENERATOR, .generator = l->source});
    l->source = jinja_walk(r, rest);
    if (r->rc)
        return 0;
    l->length = rest.size + (size_t)(l->index0 + 1) + (l->after.kind != MISSING);
    return l->length;
}

struct value jinja_loop_attribute(struct rendering *r, struct loop *l, struct value name)
{
    struct value next;

    if (jinja_is(name, "index"))
        return jinja_integer(l->index0 + 1);
    if (jinja_is(name, "index0"))
        return jinja_integer(l->index0);
    if (jinja_is(name, "first"))
        return jinja_boolean(l->index0 == 0);
    if (jinja_is(name, "last"))
        return jinja_boolean(peek(r, l).kind == MISSING);
    if (jinja_is(name, "length"))
        return jinja_integer((int64_t)jinja_loop_length(r, l));
    if (jinja_is(name, "revindex"))
        return jinja_integer((int64_t)jinja_loop_length(r, l) - l->index0);
    if (jinja_is(name, "revindex0"))
        return jinja_integer((int64_t)jinja_loop_length(r, l) - l->index0 - 1);
    if (jinja_is(name, "previtem"))
        return l->index0 == 0 ? jinja_undefined("there is no previous item") : l->before;
    if (jinja_is(name, "nextitem")) {
        next = peek(r, l);
        return next.kind == MISSING ? jinja_undefined("there is no next item") : next;
    }
    return missing;
}

/* The body, once for each element. *WHOLE: some round of it came to its end, which is what Jinja's else
 * branch goes by. */
static enum flow run_loop(struct rendering *r, const struct statement *f, struct loop *l, struct frame *frame,
                          bool *whole)
{
    struct value self = {.kind = LOOP, .loop = l};
    enum flow flow = GO_ON;

    while (flow != BREAK_LOOP && advance(r, l)) {
        frame->count = 0;
        set_variable(r, frame, r->template->loop, self);
        assign(r, f->target, l->current);
        flow = jinja_execute(r, &f->body);
        *whole |= flow == GO_ON;
    }
    return flow;
}

static enum flow execute_for(struct rendering *r, const struct node *n)
{
    const struct statement *f = n->statement;
    struct value over = jinja_evaluate(r, f->value);
    struct loop *l = jinja_allocate_array(r, 1, sizeof(*l));
    struct frame *outer = r->frame, *frame;
    bool whole = false;

    r->line = r->rc ? r->line : n->line;
    if (!r->rc && f->test)
        over = sift(r, f, over);
    frame = jinja_frame_open(r, outer);
    if (r->rc)
        return GO_ON;
    l->source = jinja_walk(r, over);
    l->over = over;
    l->index0 = -1;
    r->frame = frame;
    if (l->source)
        run_loop(r, f, l, frame, &whole);
    r->frame = outer;
    return whole || r->rc ? GO_ON : jinja_execute(r, &f->otherwise);
}

/* Macros */

static struct value make_macro(struct rendering *r, const struct macro_node *node)
{
    struct macro *m = jinja_allocate(r, sizeof(*m));

    if (!m)
        return none;
    *m = (struct macro){node, r->frame};
    return (struct value){.kind = MACRO, .macro = m};
}

/* The values of parameters, and what no parameter took: for the variables varargs, kwargs and caller, or an
 * error. */
static void bind_arguments(struct rendering *r, const struct macro_node *m, const struct arguments *a)
{
    size_t n = m->parameters.n, required = n - m->defaults.n, more = a->count > n ? a->count - n : 0, at;
    struct value *v = jinja_allocate_array(r, n, sizeof(*v)), caller = none;
    struct dict *rest = jinja_dict(r);

    if (v && a->count)
        memcpy(v, a->values, (a->count - more) * sizeof(*v));
    for (size_t i = 0; i < a->n_keywords && !r->rc; i++) {
        const struct keyword *k = &a->keywords[i];

        for (at = 0; at < n && !jinja_same(m->parameters.v[at]->variable.name, k->name);)
            at++;
        if (at < n && v[at].kind != MISSING)
            jinja_fail(r, "macro %s got two values for %s", jinja_brief(r, m->name), jinja_brief(r, k->name));
        else if (at < n)
            v[at] = k->value;
        else if (m->uses & USES_CALLER && jinja_is(k->name, "caller"))
            caller = k->value;
        else if (m->uses & USES_KWARGS)
            jinja_dict_set(r, rest, k->name, k->value);
        else
            jinja_fail(r, "macro %s takes no keyword argument %s", jinja_brief(r, m->name),
                       jinja_brief(r, k->name));
    }
    if (m->uses & USES_CALLER)
        set_variable(r, r->frame, r->template->caller,
                     caller.kind == NONE ? jinja_undefined("No caller defined") : caller);
    for (size_t i = 0; i < n && !r->rc; i++) { /* a default may use what is to its left */
        const struct node *name = m->parameters.v[i];

        if (v[i].kind == MISSING)
            v[i] = i >= required ? jinja_evaluate(r, m->defaults.v[i - required])
                                 : jinja_undefined_name(name->variable.name);
        set_variable(r, r->frame, name->variable.number, v[i]);
    }
    if (m->uses & USES_KWARGS)
        set_variable(r, r->frame, r->template->kwargs, jinja_dict_value(rest, DICT));
    if (m->uses & USES_VARARGS)
        set_variable(r, r->frame, r->template->varargs,
                     jinja_list(r, TUPLE, more ? a->values + n : NULL, more));
    else if (more)
        jinja_fail(r, "macro %s takes not more than %zu argument(s)", jinja_brief(r, m->name), n);
}

struct value jinja_call_macro(struct rendering *r, const struct macro *macro, const struct arguments *a)
{
    struct frame *outer = r->frame, *f;
    struct text t = {.r = r};

    if (!jinja_enter(r))
        return none;
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

/* Statements */

static enum flow execute(struct rendering *r, const struct node *n)
{
    struct value v;

    r->line = n->line;
    switch ((enum node_kind)n->kind) {
    case OUTPUT_DATA: jinja_put(r->out, n->constant.bytes, n->constant.size); break;
    case OUTPUT:
        v = jinja_evaluate(r, n->part[0]);
        if (!r->rc) {
            r->line = n->line;
            jinja_print(r->out, v);
        }
        break;
    case IF: return execute_if(r, n);
    case FOR: return execute_for(r, n);
    case SET:
        v = jinja_evaluate(r, n->statement->value);
        r->line = r->rc ? r->line : n->line;
        assign(r, n->statement->target, v);
        break;
    case MACRO_BLOCK: set_variable(r, r->frame, n->macro->number, make_macro(r, n->macro)); break;
    case CALL_BLOCK: put_block(r, jinja_evaluate_call(r, n->macro->call, make_macro(r, n->macro))); break;
    case SET_BLOCK:
    case FILTER_BLOCK: return execute_block(r, n->statement);
    case GENERATION: execute_apart(r, &n->macro->body, jinja_frame_open(r, r->frame), r->out); break;
    case BREAK: return BREAK_LOOP;
    case CONTINUE: return CONTINUE_LOOP;
    default: ASSERT(false, "node %d is no statement", n->kind);
    }
    return GO_ON;
}

enum flow jinja_execute(struct rendering *r, const struct nodes *body)
{
    enum flow flow = GO_ON;

    if (!jinja_enter(r))
        return flow;
    for (size_t i = 0; i < body->n && flow == GO_ON && jinja_step(r, 0); i++)
        flow = execute(r, body->v[i]);
    jinja_leave(r);
    return r->rc ? GO_ON : flow;
}
