/* jinja_eval.c - a tree walker: one function for each kind of expression that does more than pass on. */
#include "text/jinja_eval.h"

#include "text/jinja_attr.h"
#include "text/jinja_cmp.h"
#include "text/jinja_dict.h"
#include "text/jinja_exec.h"
#include "text/jinja_filt.h"
#include "text/jinja_html.h"
#include "text/jinja_iter.h"
#include "text/jinja_loop.h"
#include "text/jinja_macro.h"
#include "text/jinja_meth.h"
#include "text/jinja_ops.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_test.h"

enum { FEW = 4 };

/* Evaluated arguments; few of them need no memory. */
struct evaluated {
    struct jargs args;
    struct jv few[FEW];
    struct jkw few_kw[FEW];
};

bool jinja_eval_escapes(const struct jrun *r, const struct jn *n)
{
    return n->escape == JESCAPE_YES || (n->escape == JESCAPE_DYNAMIC && r->autoescape);
}

static bool add_keyword(struct jrun *r, struct jkw *kw, size_t *n, struct jv name, struct jv value)
{
    for (size_t i = 0; i < *n; i++)
        if (jinja_val_same(kw[i].name, name)) {
            jinja_run_fail(r, "got multiple values for keyword argument %s", jinja_repr_brief(r, name));
            return false;
        }
    kw[(*n)++] = (struct jkw){name, value};
    return jinja_run_step(r, *n / 16);
}

/* The elements of *star and the entries of **star_star, where the call has them. */
static bool eval_stars(struct jrun *r, struct jact *a, const struct jncall *c, struct jv *list,
                       struct jv *dict)
{
    *list = *dict = jv_missing();
    if (c->star) {
        struct jv v = jinja_eval(r, a, c->star);

        *list = r->rc ? jv_none() : jinja_iter_list(r, v);
    }
    if (c->star_star) {
        *dict = jinja_eval(r, a, c->star_star);
        if (!r->rc && !jv_is(*dict, JV_DICT))
            jinja_run_fail(r, "argument after ** must be a mapping, not %s", jinja_val_type(*dict));
    }
    return r->rc == 0;
}

static bool eval_args(struct jrun *r, struct jact *a, const struct jncall *c, struct jv caller,
                      struct evaluated *e)
{
    struct jv list, dict, *v = e->few;
    struct jkw *kw = e->few_kw;
    size_t n = c->args.n, n_kw = 0, most, most_kw;

    e->args = (struct jargs){.n = 0};
    if (!eval_stars(r, a, c, &list, &dict))
        return false;
    most = n + (jv_is(list, JV_LIST) ? list.u.list->n : 0);
    most_kw = c->n_kw + (jv_is(dict, JV_DICT) ? dict.u.dict->n : 0) + 1;
    if (most > FEW)
        v = jinja_run_zalloc(r, most, sizeof(*v));
    if (most_kw > FEW)
        kw = jinja_run_zalloc(r, most_kw, sizeof(*kw));
    if (!v || !kw)
        return false;
    for (size_t i = 0; i < n; i++)
        v[i] = jinja_eval(r, a, c->args.v[i]);
    for (size_t i = n; i < most; i++)
        v[i] = list.u.list->v[i - n];
    for (size_t i = 0; i < c->n_kw && !r->rc; i++)
        add_keyword(r, kw, &n_kw, c->kw[i].name, jinja_eval(r, a, c->kw[i].value));
    for (size_t i = 0; jv_is(dict, JV_DICT) && i < dict.u.dict->n && !r->rc; i++) {
        if (!jv_is(dict.u.dict->e[i].key, JV_STR))
            jinja_run_fail(r, "keywords must be strings");
        else
            add_keyword(r, kw, &n_kw, dict.u.dict->e[i].key, dict.u.dict->e[i].value);
    }
    if (!jv_is(caller, JV_MISSING) && !r->rc)
        add_keyword(r, kw, &n_kw, jinja_str_lit(r, "caller"), caller);
    e->args = (struct jargs){.v = v, .n = most, .kw = kw, .n_kw = n_kw};
    return r->rc == 0;
}

static struct jv call_joiner(struct jrun *r, struct jjoiner *j, const struct jargs *args)
{
    if (!jinja_args_bind(r, "joiner", args, "", 0, NULL))
        return jv_none();
    if (j->used)
        return j->sep;
    j->used = true;
    return jinja_str_lit(r, "");
}

struct jv jinja_eval_apply(struct jrun *r, struct jv callee, const struct jargs *args)
{
    struct jv p[1];

    switch ((enum jv_type)callee.type) {
    case JV_METHOD: return callee.u.method->row->call(r, callee.u.method->self, args);
    case JV_FUNC: return callee.u.func->call(r, args);
    case JV_MACRO: return jinja_macro_call(r, callee.u.macro, args);
    case JV_JOINER: return call_joiner(r, callee.u.joiner, args);
    case JV_LOOP:
        if (!jinja_args_bind(r, "loop", args, "iterable", 1, p))
            return jv_none();
        if (callee.u.loop->node)
            return jinja_exec_recurse(r, callee.u.loop->node, callee.u.loop->act, p[0],
                                      callee.u.loop->depth0 + 1);
        jinja_run_fail(r, "The loop must have the 'recursive' marker to be called recursively.");
        return jv_none();
    case JV_BLOCK:
        if (!jinja_args_bind(r, "block", args, "", 0, NULL))
            return jv_none();
        return jinja_exec_block_text(r, callee.u.block->index);
    case JV_UNDEF: return jinja_val_undef_fail(r, callee);
    default: jinja_run_fail(r, "'%s' object is not callable", jinja_val_type(callee)); return jv_none();
    }
}

struct jv jinja_eval_call(struct jrun *r, struct jact *a, const struct jn *n, struct jv caller)
{
    struct evaluated e;
    struct jv callee = jinja_eval(r, a, n->u.call.of);

    if (r->rc || !eval_args(r, a, n->u.call.args, caller, &e))
        return jv_none();
    r->line = n->line;
    return jinja_eval_apply(r, callee, &e.args);
}

static struct jv eval_filter(struct jrun *r, struct jact *a, const struct jn *n, const struct jv *text)
{
    const struct jfilter *f = n->u.call.what;
    struct evaluated e;
    struct jv v;

    if (!n->u.call.of)
        v = text ? *text : jv_none();
    else if (text && n->u.call.of->kind == JN_FILTER)
        v = jinja_eval_filters(r, a, n->u.call.of, *text);
    else
        v = jinja_eval(r, a, n->u.call.of);
    if (r->rc || !eval_args(r, a, n->u.call.args, jv_missing(), &e))
        return jv_none();
    r->line = n->line;
    if (f)
        return f->call(r, v, &e.args);
    jinja_run_fail(r, "No filter named %s found.", jinja_repr_brief(r, n->u.call.name));
    return jv_none();
}

struct jv jinja_eval_filters(struct jrun *r, struct jact *a, const struct jn *n, struct jv text)
{
    struct jv v = jv_none();

    if (jinja_run_enter(r)) {
        v = eval_filter(r, a, n, &text);
        jinja_run_leave(r);
    }
    return v;
}

static struct jv eval_test(struct jrun *r, struct jact *a, const struct jn *n)
{
    const struct jtest *t = n->u.call.what;
    struct evaluated e;
    struct jv v = jinja_eval(r, a, n->u.call.of);

    if (r->rc || !eval_args(r, a, n->u.call.args, jv_missing(), &e))
        return jv_none();
    r->line = n->line;
    if (t)
        return jv_bool(t->call(r, v, &e.args));
    jinja_run_fail(r, "No test named %s found.", jinja_repr_brief(r, n->u.call.name));
    return jv_none();
}

static struct jv eval_items(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jgrow g = {.r = r};

    for (size_t i = 0; i < n->u.items.n && !r->rc; i++)
        jinja_val_push(&g, jinja_eval(r, a, n->u.items.v[i]));
    return jinja_val_done(&g, n->kind == JN_LIST ? JV_LIST : JV_TUPLE);
}

static struct jv eval_dict(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jdict *d = jinja_dict_new(r);

    for (size_t i = 0; d && i + 1 < n->u.items.n && !r->rc; i += 2) {
        struct jv key = jinja_eval(r, a, n->u.items.v[i]), value = jinja_eval(r, a, n->u.items.v[i + 1]);

        r->line = n->line;
        if (!r->rc)
            jinja_dict_set(r, d, key, value);
    }
    return r->rc ? jv_none() : jinja_dict_value(d);
}

/* a ~ b ~ c: plain text, but where output is escaped Markup if one of them is. */
static struct jv eval_concat(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv all = eval_items(r, a, n), out = jinja_str_lit(r, ""), v;
    bool markup = false;

    if (r->rc)
        return jv_none();
    for (size_t i = 0; i < all.u.list->n && jinja_eval_escapes(r, n); i++)
        markup |= jv_is_markup(all.u.list->v[i]);
    for (size_t i = 0; i < all.u.list->n && !r->rc; i++) {
        v = all.u.list->v[i];
        v = markup ? jinja_html_escape(r, v) : jinja_repr_soft(r, v);
        if (!r->rc)
            out = i ? jinja_str_concat(r, out, v) : v;
    }
    out.flags = markup ? JV_MARKUP : 0;
    return r->rc ? jv_none() : out;
}

static struct jv eval_compare(struct jrun *r, struct jact *a, const struct jn *n)
{
    const struct jnlist *l = &n->u.compare.v;
    struct jv left = jinja_eval(r, a, l->v[0]), right;

    for (size_t i = 1; i < l->n; i++) {
        right = jinja_eval(r, a, l->v[i]);
        if (r->rc)
            return jv_none();
        r->line = n->line;
        if (!jinja_cmp_rel(r, (enum jrel)n->u.compare.rel[i - 1], left, right))
            return jv_bool(false);
        left = right;
    }
    return jv_bool(true);
}

static struct jv eval_cond(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jbuf b = {.r = r};
    bool yes = jinja_val_true(jinja_eval(r, a, n->u.cond.test));

    if (r->rc)
        return jv_none();
    if (yes || n->u.cond.no)
        return jinja_eval(r, a, yes ? n->u.cond.yes : n->u.cond.no);
    jinja_str_putf(&b,
                   "the inline if-expression on line %u evaluated to false and no else section was defined.",
                   n->line);
    jinja_str_putc(&b, 0);
    return r->rc ? jv_none() : jinja_val_undef_hint(r, b.p);
}

static struct jv eval_slice(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv obj = jinja_eval(r, a, n->u.slice.obj);
    struct jv start = n->u.slice.start ? jinja_eval(r, a, n->u.slice.start) : jv_missing();
    struct jv stop = n->u.slice.stop ? jinja_eval(r, a, n->u.slice.stop) : jv_missing();
    struct jv step = n->u.slice.step ? jinja_eval(r, a, n->u.slice.step) : jv_missing();

    r->line = r->rc ? r->line : n->line;
    return r->rc ? jv_none() : jinja_attr_slice(r, obj, start, stop, step);
}

static struct jv eval_name(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv v = *jinja_act_slot(a, n->u.name.ref);

    return jv_is(v, JV_MISSING) ? jinja_val_undef_name(r, n->u.name.id) : v;
}

static struct jv eval_binary(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv x = jinja_eval(r, a, n->u.op2.a), y = jinja_eval(r, a, n->u.op2.b);

    if (r->rc)
        return jv_none();
    r->line = n->line;
    return jinja_ops_binary(r, (enum jop)n->op, x, y);
}

static struct jv eval_item(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv obj = jinja_eval(r, a, n->u.item.obj), key = jinja_eval(r, a, n->u.item.key);

    if (r->rc)
        return jv_none();
    r->line = n->line;
    return jinja_attr_item(r, obj, key);
}

static struct jv eval_attr(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv obj = jinja_eval(r, a, n->u.attr.obj);

    if (r->rc)
        return jv_none();
    r->line = n->line;
    return jinja_attr_get(r, obj, n->u.attr.name);
}

static struct jv eval_sign(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv v = jinja_eval(r, a, n->u.op2.a);

    r->line = r->rc ? r->line : n->line;
    return jinja_ops_sign(r, n->op == '-', v);
}

static struct jv eval_tree(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv v;

    switch ((enum jn_kind)n->kind) {
    case JN_NOT: return jv_bool(!jinja_val_true(jinja_eval(r, a, n->u.op2.a)));
    case JN_AND:
    case JN_OR:
        v = jinja_eval(r, a, n->u.op2.a);
        return !r->rc && jinja_val_true(v) == (n->kind == JN_AND) ? jinja_eval(r, a, n->u.op2.b) : v;
    case JN_BINARY: return eval_binary(r, a, n);
    case JN_SIGN: return eval_sign(r, a, n);
    case JN_TUPLE:
    case JN_LIST: return eval_items(r, a, n);
    case JN_DICT: return eval_dict(r, a, n);
    case JN_CONCAT: return eval_concat(r, a, n);
    case JN_COMPARE: return eval_compare(r, a, n);
    case JN_COND: return eval_cond(r, a, n);
    case JN_ATTR: return eval_attr(r, a, n);
    case JN_ITEM: return eval_item(r, a, n);
    case JN_SLICE: return eval_slice(r, a, n);
    case JN_CALL: return jinja_eval_call(r, a, n, jv_missing());
    case JN_FILTER: return eval_filter(r, a, n, NULL);
    case JN_TEST: return eval_test(r, a, n);
    default: break;
    }
    ASSERT(false, "node %d is no expression", n->kind);
    return jv_none();
}

struct jv jinja_eval(struct jrun *r, struct jact *a, const struct jn *n)
{
    struct jv v;

    if (n->kind == JN_CONST)
        return n->u.value;
    if (n->kind == JN_NAME)
        return eval_name(r, a, n);
    if (!jinja_run_step(r, 0) || !jinja_run_enter(r))
        return jv_none();
    v = eval_tree(r, a, n);
    jinja_run_leave(r);
    return v;
}
