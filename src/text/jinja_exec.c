/* jinja_exec.c - one function for each kind of statement. */
#include "text/jinja_exec.h"

#include "text/jinja_dict.h"
#include "text/jinja_eval.h"
#include "text/jinja_html.h"
#include "text/jinja_iter.h"
#include "text/jinja_loop.h"
#include "text/jinja_macro.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_tree.h"

static struct jv safe(const struct jrun *r, struct jv text)
{
    if (r->autoescape && jv_is(text, JV_STR))
        text.flags = JV_MARKUP;
    return text;
}

struct jv jinja_exec_capture(struct jrun *r, struct jact *a, const struct jnlist *l, enum jflow *flow)
{
    struct jbuf *outer = r->out, text = {.r = r};

    r->out = &text;
    *flow = jinja_exec_list(r, a, l);
    r->out = outer;
    return jinja_str_done(&text);
}

/* Writes what a call or filter block came to, which must be text. */
static void write_text(struct jrun *r, struct jv v)
{
    if (r->rc)
        return;
    if (jv_is(v, JV_STR))
        jinja_str_put(r->out, v.u.str->p, v.u.str->n);
    else
        jinja_run_fail(r, "this block must come to a str, not %s", jinja_val_type(v));
}

static void exec_output(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv v = jinja_eval(r, a, n->u.op2.a);

    if (r->rc)
        return;
    r->line = n->line;
    if (jinja_eval_escapes(r, n))
        v = jinja_html_escape(r, v);
    jinja_repr_put_str(r->out, v);
}

static enum jflow exec_if(struct jrun *r, struct jact *a, const struct jn_if *f)
{
    const struct jnlist *body = &f->body;
    bool holds = jinja_val_true(jinja_eval(r, a, f->test));

    for (size_t i = 0; !holds && !r->rc && i < f->elifs.n; i++) {
        const struct jn_if *other = f->elifs.v[i]->u.if_;

        r->line = f->elifs.v[i]->line;
        holds = jinja_val_true(jinja_eval(r, a, other->test));
        body = &other->body;
    }
    return r->rc ? JFLOW_ON : jinja_exec_list(r, a, holds ? body : &f->otherwise);
}

/* The condition of a loop, as a generator over what passes it. */
struct sieve {
    const struct jn_for *f;
    struct jact *up, *act;
    struct jiter *source;
};

/* What the target's variables hold now: a value, or a tuple of them. */
static struct jv read_target(struct jrun *r, struct jact *a, const struct jn *target)
{
    struct jgrow g = {.r = r};

    if (target->kind == JN_NAME)
        return *jinja_act_slot(a, target->u.name.ref);
    for (size_t i = 0; i < target->u.items.n; i++)
        if (!jinja_val_push(&g, read_target(r, a, target->u.items.v[i])))
            break;
    return jinja_val_done(&g, JV_TUPLE);
}

static bool next_passing(struct jrun *r, struct jiter *it, struct jv *out)
{
    struct sieve *s = it->state;
    struct jv v;

    if (!s->source) {
        s->act = jinja_act_new(r, &s->f->test_fn, s->up);
        if (!s->act)
            return false;
        jinja_act_enter(r, s->act, &s->f->test_scope);
        s->source = jinja_iter_open(r, it->over);
    }
    while (s->source && jinja_iter_next(r, s->source, &v)) {
        jinja_act_assign(r, s->act, s->f->test_target, v);
        if (r->rc)
            return false;
        if (jinja_val_true(jinja_eval(r, s->act, s->f->test)) && !r->rc) {
            *out = read_target(r, s->act, s->f->test_target);
            return true;
        }
    }
    return false;
}

static struct jv sift(struct jrun *r, const struct jn_for *f, struct jact *up, struct jv over)
{
    struct sieve *s = jinja_run_zalloc(r, 1, sizeof(*s));

    if (!s)
        return jv_none();
    s->f = f;
    s->up = up;
    return jinja_iter_new(r, "<generator object>", over, s, next_passing);
}

/* The iterations of N in activation A. UP: where its condition is defined; AGAIN: it can call itself. What
 * is returned is for a loop around this one, from the else. */
static enum jflow run_loop(struct jrun *r, const struct jn *n, struct jact *a, struct jact *up,
                           struct jv over, int64_t depth0, bool again)
{
    const struct jn_for *f = n->u.for_;
    struct jloop *loop = NULL;
    struct jiter *it = NULL;
    bool none = true;
    struct jv v;

    if (f->test)
        over = sift(r, f, up, over);
    r->line = r->rc ? r->line : n->line;
    if (f->extended)
        loop = jinja_loop_new(r, over, depth0, again ? n : NULL, up);
    else
        it = jinja_iter_open(r, over);
    while (!r->rc && (loop ? jinja_loop_next(r, loop, &v) : jinja_iter_next(r, it, &v))) {
        enum jflow flow;

        jinja_act_assign(r, a, f->target, v);
        if (loop) {
            struct jv l = jv_of(JV_LOOP);

            l.u.loop = loop;
            *jinja_act_slot(a, f->loop) = l;
        }
        jinja_act_enter(r, a, &f->scope);
        flow = jinja_exec_list(r, a, &f->body);
        if (flow == JFLOW_BREAK)
            break;
        if (flow == JFLOW_ON)
            none = false; /* as in Jinja, an iteration that ended in continue does not count */
    }
    if (none && f->otherwise.n && !r->rc) {
        jinja_act_enter(r, a, &f->else_scope);
        return jinja_exec_list(r, a, &f->otherwise);
    }
    return JFLOW_ON;
}

struct jv jinja_exec_recurse(struct jrun *r, const struct jn *n, struct jact *up, struct jv over,
                             int64_t depth0)
{
    struct jbuf *outer = r->out, text = {.r = r};
    struct jact *a;

    if (!jinja_run_enter(r))
        return jv_none();
    a = jinja_act_new(r, &n->u.for_->fn, up);
    if (a) {
        r->out = &text;
        run_loop(r, n, a, up, over, depth0, true);
        r->out = outer;
    }
    jinja_run_leave(r);
    return safe(r, jinja_str_done(&text));
}

static enum jflow exec_for(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv over = jinja_eval(r, a, n->u.for_->over);

    if (r->rc)
        return JFLOW_ON;
    if (!n->u.for_->recursive)
        return run_loop(r, n, a, a, over, 0, false);
    write_text(r, jinja_exec_recurse(r, n, a, over, 0));
    return JFLOW_ON;
}

static void export_names(struct jrun *r, struct jact *a, const struct jn_set *s)
{
    for (size_t i = 0; r->tree->n_blocks && i < s->n_exported && !r->rc; i++)
        jinja_dict_set(r, r->vars, s->exported[i], *jinja_act_slot(a, s->from[i]));
}

static void check_namespaces(struct jrun *r, struct jact *a, const struct jn *target)
{
    if (target->kind == JN_TUPLE)
        for (size_t i = 0; i < target->u.items.n; i++)
            check_namespaces(r, a, target->u.items.v[i]);
    else if (target->kind == JN_NSREF && !jv_is(*jinja_act_slot(a, target->u.name.ref), JV_NS))
        jinja_run_fail(r, "cannot assign attribute on non-namespace object");
}

static void exec_set(struct jrun *r, struct jact *a, const struct jn *n)
{
    const struct jn_set *s = n->u.set;
    struct jv v;

    check_namespaces(r, a, s->target);
    v = r->rc ? jv_none() : jinja_eval(r, a, s->value);
    r->line = r->rc ? r->line : n->line;
    jinja_act_assign(r, a, s->target, v);
    export_names(r, a, s);
}

static enum jflow exec_set_block(struct jrun *r, struct jact *a, const struct jn *n)
{
    const struct jn_set *s = n->u.set;
    enum jflow flow;
    struct jv v;

    jinja_act_enter(r, a, &s->scope);
    v = jinja_exec_capture(r, a, &s->body, &flow);
    if (flow != JFLOW_ON || r->rc)
        return flow;
    r->line = n->line;
    if (s->filter)
        v = jinja_eval_filters(r, a, s->filter, v);
    jinja_act_assign(r, a, s->target, r->autoescape ? safe(r, jinja_repr_soft(r, v)) : v);
    export_names(r, a, s);
    return JFLOW_ON;
}

static enum jflow exec_filter_block(struct jrun *r, struct jact *a, const struct jn *n)
{
    const struct jn_body *b = n->u.body;
    enum jflow flow;
    struct jv v;

    jinja_act_enter(r, a, &b->scope);
    v = jinja_exec_capture(r, a, &b->body, &flow);
    if (flow != JFLOW_ON || r->rc)
        return flow;
    r->line = n->line;
    if (jinja_eval_escapes(r, n))
        v.flags = JV_MARKUP;
    write_text(r, jinja_eval_filters(r, a, b->head, v));
    return JFLOW_ON;
}

static enum jflow exec_with(struct jrun *r, struct jact *a, const struct jn_with *w)
{
    jinja_act_enter(r, a, &w->scope);
    for (size_t i = 0; i < w->targets.n && !r->rc; i++)
        jinja_act_assign(r, a, w->targets.v[i], jinja_eval(r, a, w->values.v[i]));
    return r->rc ? JFLOW_ON : jinja_exec_list(r, a, &w->body);
}

static enum jflow exec_autoescape(struct jrun *r, struct jact *a, const struct jn_body *b)
{
    bool outer = r->autoescape;
    enum jflow flow;

    jinja_act_enter(r, a, &b->scope);
    r->autoescape = jinja_val_true(jinja_eval(r, a, b->head));
    flow = jinja_exec_list(r, a, &b->body);
    r->autoescape = outer;
    return flow;
}

static void exec_macro(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv v = jinja_macro_value(r, n, a);

    *jinja_act_slot(a, n->u.macro->self) = v;
    if (n->u.macro->toplevel && r->tree->n_blocks)
        jinja_dict_set(r, r->vars, n->u.macro->name, v);
}

static void exec_call_block(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv caller = jinja_macro_value(r, n, a);

    if (!r->rc)
        write_text(r, jinja_eval_call(r, a, n->u.macro->call, caller));
}

static void exec_generation(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jmacro m = {.node = n, .act = a};

    write_text(r, jinja_macro_call(r, &m, &(struct jargs){.n = 0}));
}

/* Runs a block into the current output. A scoped one sees the variables around it as if they were the
 * context's. */
static void run_block(struct jrun *r, const struct jn *n, struct jact *around)
{
    const struct jn_body *b = n->u.body;
    struct jdict *vars = r->vars;
    struct jact *a = jinja_act_new(r, &b->fn, NULL);

    if (!a || !jinja_run_enter(r))
        return;
    if (around && b->scoped) {
        r->vars = jinja_dict_new(r);
        if (r->vars)
            jinja_dict_update(r, r->vars, vars);
        for (size_t i = 0; r->vars && i < b->n_local; i++) {
            struct jv v = *jinja_act_slot(around, b->from[i]);

            if (!jv_is(v, JV_MISSING))
                jinja_dict_set(r, r->vars, b->local[i], v);
        }
    }
    if (b->uses_self)
        *jinja_act_slot(a, b->self) = jv_of(JV_SELF);
    if (b->uses_super)
        *jinja_act_slot(a, b->super) = jinja_val_undef_hint(r, "there is no parent block of this name.");
    if (b->required)
        jinja_run_fail(r, "Required block %s not found", jinja_repr_brief(r, b->name));
    if (!r->rc) {
        jinja_act_enter(r, a, &b->scope);
        jinja_exec_list(r, a, &b->body);
    }
    r->vars = vars;
    jinja_act_done(r, &b->fn, a);
    jinja_run_leave(r);
}

struct jv jinja_exec_block_text(struct jrun *r, uint32_t index)
{
    struct jbuf *outer = r->out, text = {.r = r};

    r->out = &text;
    run_block(r, r->tree->block[index], NULL);
    r->out = outer;
    return safe(r, jinja_str_done(&text));
}

static enum jflow exec(struct jrun *r, struct jact *a, const struct jn *n)
{
    r->line = n->line;
    switch ((enum jn_kind)n->kind) {
    case JN_DATA: jinja_str_put(r->out, n->u.value.u.str->p, n->u.value.u.str->n); break;
    case JN_OUTPUT: exec_output(r, a, n); break;
    case JN_IF: return exec_if(r, a, n->u.if_);
    case JN_FOR: return exec_for(r, a, n);
    case JN_SET: exec_set(r, a, n); break;
    case JN_SET_BLOCK: return exec_set_block(r, a, n);
    case JN_MACRO: exec_macro(r, a, n); break;
    case JN_CALL_BLOCK: exec_call_block(r, a, n); break;
    case JN_GENERATION: exec_generation(r, a, n); break;
    case JN_FILTER_BLOCK: return exec_filter_block(r, a, n);
    case JN_WITH: return exec_with(r, a, n->u.with);
    case JN_AUTOESCAPE: return exec_autoescape(r, a, n->u.body);
    case JN_BLOCK: run_block(r, n, a); break;
    case JN_BREAK: return JFLOW_BREAK;
    case JN_CONTINUE: return JFLOW_CONTINUE;
    case JN_UNAVAILABLE:
        jinja_run_fail(r, "{%% %s %%}: no loader for this environment specified",
                       jinja_repr_brief(r, n->u.value));
        break;
    default: ASSERT(false, "node %d is no statement", n->kind);
    }
    return JFLOW_ON;
}

enum jflow jinja_exec_list(struct jrun *r, struct jact *a, const struct jnlist *l)
{
    enum jflow flow = JFLOW_ON;

    if (!jinja_run_enter(r))
        return flow;
    for (size_t i = 0; i < l->n && flow == JFLOW_ON && jinja_run_step(r, 0); i++)
        flow = exec(r, a, l->v[i]);
    jinja_run_leave(r);
    return r->rc ? JFLOW_ON : flow;
}
