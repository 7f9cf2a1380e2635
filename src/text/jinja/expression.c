/* expression.c - evaluates expressions by a recursive walk over the tree. */
#include "text/jinja/expression.h"

#include "text/jinja/builtin.h"
#include "text/jinja/frame.h"
#include "text/jinja/methods.h"
#include "text/jinja/statement.h"
#include "text/jinja/tree.h"
#include "text/jinja/value/calculate.h"
#include "text/jinja/value/compare.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/slice.h"
#include "text/jinja/value/walk.h"

enum { FEW = 4 };

/* The evaluated arguments of a call. Up to FEW of each kind are stored in this struct, without an allocation. */
struct evaluated {
    struct builtin_arguments arguments;
    struct value few[FEW];
    struct builtin_keyword few_keywords[FEW];
};

/* Evaluates the arguments of the call C. CALLER, unless MISSING, becomes the keyword argument "caller". */
static bool evaluate_arguments(struct rendering *r, const struct tree_call *c, struct value caller,
                               struct evaluated *e)
{
    size_t n = c->arguments.n, named = c->n_keywords, more = caller.kind != VALUE_MISSING;
    struct value *values = e->few, list = value_missing, dict = value_missing;
    struct builtin_keyword *keywords = e->few_keywords;

    if (c->list && (list = jinja_to_list(r, jinja_evaluate(r, c->list))).kind == VALUE_LIST)
        n += list.size;
    if (c->dict && (dict = jinja_evaluate(r, c->dict)).kind == VALUE_DICT)
        more += dict.dict->count;
    else if (c->dict)
        jinja_fail(r, "argument after ** must be a mapping, not %s", jinja_type(dict));
    if (n > FEW)
        values = jinja_allocate_array(r, n, sizeof(*values));
    if (named + more > FEW)
        keywords = jinja_allocate_array(r, named + more, sizeof(*keywords));
    if (!values || !keywords || r->rc)
        return false;
    for (size_t i = 0; i < n; i++)
        values[i] =
            i < c->arguments.n ? jinja_evaluate(r, c->arguments.v[i]) : list.items[i - c->arguments.n];
    for (size_t i = 0; i < named; i++)
        keywords[i] = (struct builtin_keyword){c->keywords[i].name, jinja_evaluate(r, c->keywords[i].value)};
    for (uint32_t i = 0; dict.kind == VALUE_DICT && i < dict.dict->count; i++) {
        if (dict.dict->pairs[i].key.kind != VALUE_STRING)
            jinja_fail(r, "keywords must be strings");
        keywords[named++] = (struct builtin_keyword){dict.dict->pairs[i].key, dict.dict->pairs[i].value};
    }
    if (caller.kind != VALUE_MISSING)
        keywords[named++] = (struct builtin_keyword){jinja_literal("caller"), caller};
    e->arguments = (struct builtin_arguments){values, n, keywords, named};
    return r->rc == 0;
}

static struct value apply(struct rendering *r, struct value callee, const struct builtin_arguments *a)
{
    switch ((enum value_kind)callee.kind) {
    case VALUE_METHOD: return jinja_apply(r, callee.method->builtin, callee.method->self, a);
    case VALUE_MACRO: return jinja_call_macro(r, callee.macro, a);
    case VALUE_UNDEFINED: return jinja_fail_undefined(r, callee);
    case VALUE_FUNCTION: return jinja_apply(r, callee.function, value_none, a);
    default: return jinja_fail(r, "'%s' object is not callable", jinja_type(callee));
    }
}

struct value jinja_evaluate_call(struct rendering *r, const struct tree_node *n, struct value caller)
{
    const struct tree_call *c = n->call;
    struct value of = jinja_evaluate(r, c->of);
    struct evaluated e;

    if (r->rc || !evaluate_arguments(r, c, caller, &e))
        return value_none;
    r->line = n->line;
    if (n->kind == TREE_CALL)
        return apply(r, of, &e.arguments);
    if (c->row)
        return jinja_apply(r, c->row, of, &e.arguments);
    return jinja_fail(r, "No %s named %s.", n->kind == TREE_FILTER ? "filter" : "test",
                      jinja_brief(r, c->name));
}

static struct value evaluate_items(struct rendering *r, const struct tree_node *n)
{
    struct value v = jinja_list(r, n->kind == TREE_LIST ? VALUE_LIST : VALUE_TUPLE, NULL, n->items.n);

    for (size_t i = 0; !r->rc && i < n->items.n; i++)
        v.items[i] = jinja_evaluate(r, n->items.v[i]);
    return r->rc ? value_none : v;
}

static struct value evaluate_dict(struct rendering *r, const struct tree_node *n)
{
    struct value_dict *d = jinja_dict(r);

    for (size_t i = 0; i + 1 < n->items.n && !r->rc; i += 2) {
        struct value key = jinja_evaluate(r, n->items.v[i]), v = jinja_evaluate(r, n->items.v[i + 1]);

        if (r->rc)
            break;
        r->line = n->line;
        jinja_dict_set(r, d, key, v);
    }
    return r->rc ? value_none : jinja_dict_value(d, VALUE_DICT);
}

static struct value evaluate_comparison(struct rendering *r, const struct tree_node *n)
{
    struct value left = jinja_evaluate(r, n->part[0]), right;

    for (const struct tree_node *c = n; c; c = c->part[2]) {
        right = jinja_evaluate(r, c->part[1]);
        if (r->rc)
            return value_none;
        r->line = n->line;
        if (!jinja_compare(r, (enum compare_how)c->op, left, right))
            return jinja_boolean(false);
        left = right;
    }
    return jinja_boolean(true);
}

static struct value evaluate_conditional(struct rendering *r, const struct tree_node *n)
{
    const struct tree_node *chosen = n->part[jinja_true(jinja_evaluate(r, n->part[0])) ? 1 : 2];

    if (!r->rc && chosen)
        return jinja_evaluate(r, chosen);
    return jinja_undefined("the inline if-expression evaluated to false and no else section was defined.");
}

/* Evaluates operators, subscripts, attributes and slices. */
static struct value evaluate_operands(struct rendering *r, const struct tree_node *n)
{
    struct value v[4] = {value_none};

    for (int i = 0; i < 4 && n->part[i]; i++)
        v[i] = jinja_evaluate(r, n->part[i]);
    if (r->rc)
        return value_none;
    r->line = n->line;
    switch ((enum tree_kind)n->kind) {
    case TREE_ELEMENT: return jinja_member(r, v[0], v[1], false);
    case TREE_ATTRIBUTE: return jinja_member(r, v[0], v[1], true);
    case TREE_SLICE: return jinja_slice(r, v[0], v[1], v[2], v[3]);
    case TREE_SIGN: return jinja_apply_sign(r, n->op == '-', v[0]);
    default: return jinja_calculate(r, (enum calculate_op)n->op, v[0], v[1]);
    }
}

static struct value evaluate_logic(struct rendering *r, const struct tree_node *n)
{
    struct value v = jinja_evaluate(r, n->part[0]);

    if (n->kind == TREE_NOT)
        return jinja_boolean(!jinja_true(v));
    return !r->rc && jinja_true(v) == (n->kind == TREE_AND) ? jinja_evaluate(r, n->part[1]) : v;
}

static struct value evaluate_tree(struct rendering *r, const struct tree_node *n)
{
    switch ((enum tree_kind)n->kind) {
    case TREE_NOT:
    case TREE_AND:
    case TREE_OR: return evaluate_logic(r, n);
    case TREE_ELEMENT:
    case TREE_ATTRIBUTE:
    case TREE_SIGN:
    case TREE_SLICE:
    case TREE_CALCULATION: return evaluate_operands(r, n);
    case TREE_TUPLE:
    case TREE_LIST: return evaluate_items(r, n);
    case TREE_DICT: return evaluate_dict(r, n);
    case TREE_COMPARISON: return evaluate_comparison(r, n);
    case TREE_CONDITIONAL: return evaluate_conditional(r, n);
    case TREE_CALL:
    case TREE_FILTER:
    case TREE_TEST: return jinja_evaluate_call(r, n, value_missing);
    case TREE_BLOCK_TEXT: return r->block;
    default: break;
    }
    ASSERT(false, "node %d is not an expression", n->kind);
    return value_none;
}

struct value jinja_evaluate(struct rendering *r, const struct tree_node *n)
{
    struct value v;

    if (n->kind == TREE_CONSTANT)
        return n->constant;
    if (n->kind == TREE_VARIABLE) {
        v = jinja_variable(r, n->variable.number);
        return v.kind == VALUE_MISSING ? jinja_undefined_name(n->variable.name) : v;
    }
    if (!jinja_step(r, 0) || !jinja_enter(r))
        return value_none;
    v = evaluate_tree(r, n);
    jinja_leave(r);
    return v;
}
