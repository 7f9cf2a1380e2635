/* jinja_prim.c - operands of expressions: literals, names, brackets, and what follows them: attributes,
 * subscripts, calls, filters and tests. A filter applies to the operand before it, not to the sign in front
 * of that.
 */
#include "text/jinja_prim.h"

#include <string.h>

#include "text/jinja_expr.h"
#include "text/jinja_filt.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_test.h"

static struct jn *parse_postfix(struct jparse *p, struct jn *n);

static void read_args(struct jparse *p, struct jncall *c, struct jn *of)
{
    uint32_t at = jinja_parse_expect(p, JT_LPAREN).line;
    struct jnodes args = {.v = NULL};
    struct jnkw kw[64];
    bool comma = false, good = true;

    while (jinja_parse_type(p) != JT_RPAREN && !p->r->rc) {
        if (comma) {
            jinja_parse_expect(p, JT_COMMA);
            if (jinja_parse_type(p) == JT_RPAREN)
                break;
        }
        comma = true;
        if (jinja_parse_skip(p, JT_MUL)) {
            good &= !c->star && !c->star_star;
            c->star = jinja_expr_parse(p, true);
            jinja_parse_over(p, of, c->star);
        } else if (jinja_parse_skip(p, JT_POW)) {
            good &= !c->star_star;
            c->star_star = jinja_expr_parse(p, true);
            jinja_parse_over(p, of, c->star_star);
        } else if (jinja_parse_type(p) == JT_NAME && jinja_parse_peek(p, 1)->type == JT_ASSIGN) {
            if (c->n_kw == sizeof(kw) / sizeof(kw[0])) {
                jinja_parse_fail(p, at, "a call has more than %zu named arguments", c->n_kw);
                break;
            }
            good &= !c->star_star;
            kw[c->n_kw].name = jinja_parse_next(p).value;
            for (size_t i = 0; i < c->n_kw; i++)
                if (jinja_val_same(kw[i].name, kw[c->n_kw].name))
                    jinja_parse_fail(p, at, "keyword argument repeated: %s",
                                     jinja_repr_brief(p->r, kw[i].name));
            jinja_parse_next(p);
            kw[c->n_kw].value = jinja_expr_parse(p, true);
            jinja_parse_over(p, of, kw[c->n_kw].value);
            c->n_kw++;
        } else {
            good &= !c->star && !c->star_star && !c->n_kw;
            jinja_parse_push(p, &args, jinja_expr_parse(p, true));
        }
        if (!good)
            jinja_parse_fail(p, at, "invalid syntax for function call expression");
    }
    jinja_parse_expect(p, JT_RPAREN);
    c->args = jinja_parse_list(&args);
    jinja_parse_over_list(p, of, &c->args);
    c->kw = jinja_parse_new(p, (c->n_kw + 1) * sizeof(*kw));
    if (!p->r->rc)
        memcpy(c->kw, kw, c->n_kw * sizeof(*kw));
}

static struct jn *parse_call(struct jparse *p, struct jn *of)
{
    struct jn *n = jinja_parse_node(p, JN_CALL, jinja_parse_line(p));

    n->u.call.of = of;
    n->u.call.args = jinja_parse_new(p, sizeof(struct jncall));
    jinja_parse_over(p, n, of);
    if (jinja_parse_enter(p))
        read_args(p, n->u.call.args, n);
    jinja_parse_leave(p);
    return n;
}

static struct jv dotted_name(struct jparse *p)
{
    struct jtok t = jinja_parse_expect(p, JT_NAME);

    while (jinja_parse_skip(p, JT_DOT)) {
        struct jv dot = jinja_str_lit(p->r, "."), rest = jinja_parse_expect(p, JT_NAME).value;

        if (p->r->rc)
            break;
        t.value = jinja_str_concat(p->r, jinja_str_concat(p->r, t.value, dot), rest);
    }
    return t.value;
}

struct jn *jinja_prim_filters(struct jparse *p, struct jn *of, bool inlined)
{
    while ((inlined || jinja_parse_type(p) == JT_PIPE) && !p->r->rc) {
        struct jn *n;

        if (!inlined)
            jinja_parse_next(p);
        inlined = false;
        n = jinja_parse_node(p, JN_FILTER, jinja_parse_line(p));
        n->u.call.of = of;
        n->u.call.name = dotted_name(p);
        n->u.call.args = jinja_parse_new(p, sizeof(struct jncall));
        if (!p->r->rc)
            n->u.call.what = jinja_filt_find(n->u.call.name.u.str->p, n->u.call.name.u.str->n);
        jinja_parse_over(p, n, of);
        if (jinja_parse_type(p) == JT_LPAREN && jinja_parse_enter(p)) {
            read_args(p, n->u.call.args, n);
            jinja_parse_leave(p);
        }
        of = n;
    }
    return of;
}

/* The one argument a test may have without brackets. */
static bool begins_argument(const struct jparse *p)
{
    switch (jinja_parse_type(p)) {
    case JT_NAME: return !jinja_parse_at(p, "else") && !jinja_parse_at(p, "or") && !jinja_parse_at(p, "and");
    case JT_STRING:
    case JT_INTEGER:
    case JT_FLOAT:
    case JT_LBRACKET:
    case JT_LBRACE: return true;
    default: return false;
    }
}

static struct jn *parse_test(struct jparse *p, struct jn *of)
{
    uint32_t at = jinja_parse_next(p).line;
    bool negated = jinja_parse_skip_name(p, "not");
    struct jn *n = jinja_parse_node(p, JN_TEST, at);
    struct jnodes args = {.v = NULL};

    n->u.call.of = of;
    n->u.call.name = dotted_name(p);
    n->u.call.args = jinja_parse_new(p, sizeof(struct jncall));
    if (!p->r->rc)
        n->u.call.what = jinja_test_find(n->u.call.name.u.str->p, n->u.call.name.u.str->n);
    jinja_parse_over(p, n, of);
    if (jinja_parse_type(p) == JT_LPAREN) {
        if (jinja_parse_enter(p))
            read_args(p, n->u.call.args, n);
        jinja_parse_leave(p);
    } else if (begins_argument(p)) {
        if (jinja_parse_at(p, "is"))
            jinja_parse_fail(p, jinja_parse_line(p), "You cannot chain multiple tests with is");
        jinja_parse_push(p, &args, parse_postfix(p, jinja_prim_parse(p, false)));
        n->u.call.args->args = jinja_parse_list(&args);
        jinja_parse_over_list(p, n, &n->u.call.args->args);
    }
    return negated ? jinja_parse_two(p, JN_NOT, 0, n, NULL, at) : n;
}

/* What stands between brackets or commas in them: an expression, or SLICE, which then becomes a slice. */
static struct jn *parse_subscribed(struct jparse *p, struct jn *slice)
{
    struct jn *first = NULL;

    if (jinja_parse_type(p) != JT_COLON) {
        first = jinja_expr_parse(p, true);
        if (jinja_parse_type(p) != JT_COLON)
            return first;
    }
    jinja_parse_next(p);
    slice->kind = JN_SLICE;
    slice->u.slice.start = first;
    slice->u.slice.stop = slice->u.slice.step = NULL;
    if (jinja_parse_type(p) != JT_COLON && jinja_parse_type(p) != JT_RBRACKET &&
        jinja_parse_type(p) != JT_COMMA)
        slice->u.slice.stop = jinja_expr_parse(p, true);
    if (jinja_parse_skip(p, JT_COLON) && jinja_parse_type(p) != JT_RBRACKET &&
        jinja_parse_type(p) != JT_COMMA)
        slice->u.slice.step = jinja_expr_parse(p, true);
    jinja_parse_over(p, slice, first);
    jinja_parse_over(p, slice, slice->u.slice.stop);
    jinja_parse_over(p, slice, slice->u.slice.step);
    return slice;
}

static struct jn *parse_brackets(struct jparse *p, struct jn *obj)
{
    uint32_t at = jinja_parse_next(p).line;
    struct jn *n = jinja_parse_node(p, JN_ITEM, at), *arg, *fresh, *slice = NULL;
    struct jnodes args = {.v = NULL};

    jinja_parse_over(p, n, obj);
    if (jinja_parse_enter(p)) {
        while (jinja_parse_type(p) != JT_RBRACKET && !p->r->rc) {
            if (args.n)
                jinja_parse_expect(p, JT_COMMA);
            fresh = jinja_parse_node(p, JN_ITEM, at);
            arg = parse_subscribed(p, fresh);
            if (arg == fresh)
                slice = arg;
            jinja_parse_over(p, n, arg);
            jinja_parse_push(p, &args, arg);
        }
        jinja_parse_expect(p, JT_RBRACKET);
    }
    jinja_parse_leave(p);
    if (slice && args.n > 1)
        jinja_parse_fail(p, at, "a slice among several subscripts is not offered");
    if (slice) {
        slice->u.slice.obj = obj;
        slice->depth = n->depth;
        return slice;
    }
    n->u.item.obj = obj;
    n->u.item.key = args.n == 1 ? args.v[0] : jinja_parse_node(p, JN_TUPLE, at);
    if (args.n != 1) {
        n->u.item.key->u.items = jinja_parse_list(&args);
        jinja_parse_over_list(p, n->u.item.key, &n->u.item.key->u.items);
    }
    jinja_parse_over(p, n, n->u.item.key);
    return n;
}

static struct jn *parse_dot(struct jparse *p, struct jn *obj)
{
    uint32_t at = jinja_parse_next(p).line;
    struct jtok t = jinja_parse_next(p);
    struct jn *n;

    if (t.type == JT_NAME) {
        n = jinja_parse_node(p, JN_ATTR, at);
        n->u.attr.obj = obj;
        n->u.attr.name = t.value;
    } else {
        if (t.type != JT_INTEGER)
            jinja_parse_fail(p, t.line, "expected name or number");
        n = jinja_parse_node(p, JN_ITEM, at);
        n->u.item.obj = obj;
        n->u.item.key = jinja_parse_node(p, JN_CONST, t.line);
        n->u.item.key->u.value = t.value;
    }
    jinja_parse_over(p, n, obj);
    return n;
}

static struct jn *parse_postfix(struct jparse *p, struct jn *n)
{
    while (!p->r->rc) {
        if (jinja_parse_type(p) == JT_DOT)
            n = parse_dot(p, n);
        else if (jinja_parse_type(p) == JT_LBRACKET)
            n = parse_brackets(p, n);
        else if (jinja_parse_type(p) == JT_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static struct jn *parse_filter_expr(struct jparse *p, struct jn *n)
{
    while (!p->r->rc) {
        if (jinja_parse_type(p) == JT_PIPE)
            n = jinja_prim_filters(p, n, false);
        else if (jinja_parse_at(p, "is"))
            n = parse_test(p, n);
        else if (jinja_parse_type(p) == JT_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static struct jn *parse_list(struct jparse *p, enum jn_kind kind, enum jtok_type close)
{
    struct jn *n = jinja_parse_node(p, kind, jinja_parse_next(p).line);
    struct jnodes items = {.v = NULL};

    while (jinja_parse_type(p) != close && !p->r->rc) {
        if (items.n)
            jinja_parse_expect(p, JT_COMMA);
        if (jinja_parse_type(p) == close)
            break;
        jinja_parse_push(p, &items, jinja_expr_parse(p, true));
        if (kind == JN_DICT) {
            jinja_parse_expect(p, JT_COLON);
            jinja_parse_push(p, &items, jinja_expr_parse(p, true));
        }
    }
    jinja_parse_expect(p, close);
    n->u.items = jinja_parse_list(&items);
    jinja_parse_over_list(p, n, &n->u.items);
    return n;
}

/* An expression in round brackets: a tuple if there is a comma, or nothing. */
static struct jn *parse_parens(struct jparse *p)
{
    struct jn *n;

    jinja_parse_next(p);
    if (jinja_parse_type(p) == JT_RPAREN) {
        n = jinja_parse_node(p, JN_TUPLE, jinja_parse_line(p));
        n->u.items = (struct jnlist){.v = NULL};
    } else {
        n = jinja_expr_tuple(p, true, NULL);
    }
    jinja_parse_expect(p, JT_RPAREN);
    return n;
}

static struct jn *constant(struct jparse *p, struct jv v, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_CONST, at);

    n->u.value = v;
    return n;
}

static struct jn *parse_name(struct jparse *p, bool with_namespace)
{
    struct jtok t = jinja_parse_next(p);
    struct jn *n;

    if (jinja_str_is(t.value, "true") || jinja_str_is(t.value, "True"))
        return constant(p, jv_bool(true), t.line);
    if (jinja_str_is(t.value, "false") || jinja_str_is(t.value, "False"))
        return constant(p, jv_bool(false), t.line);
    if (jinja_str_is(t.value, "none") || jinja_str_is(t.value, "None"))
        return constant(p, jv_none(), t.line);
    n = jinja_parse_node(p, JN_NAME, t.line);
    n->u.name.id = t.value;
    if (with_namespace && jinja_parse_skip(p, JT_DOT)) {
        n->kind = JN_NSREF;
        n->u.name.attr = jinja_parse_expect(p, JT_NAME).value;
    }
    return n;
}

static struct jn *parse_strings(struct jparse *p)
{
    struct jtok t = jinja_parse_next(p);

    while (jinja_parse_type(p) == JT_STRING && !p->r->rc)
        t.value = jinja_str_concat(p->r, t.value, jinja_parse_next(p).value);
    if (!p->r->rc) { /* a constant is counted here, so that renderings only read it */
        t.value = jinja_str_new(p->r, t.value.u.str->p, t.value.u.str->n);
        if (!p->r->rc)
            jinja_str_chars(t.value.u.str);
    }
    return constant(p, t.value, t.line);
}

struct jn *jinja_prim_parse(struct jparse *p, bool with_namespace)
{
    const struct jtok *t = jinja_parse_peek(p, 0);
    struct jn *n = &p->scrap;

    switch (t->type) {
    case JT_NAME: return parse_name(p, with_namespace);
    case JT_STRING: return parse_strings(p);
    case JT_INTEGER:
    case JT_FLOAT: {
        struct jtok number = jinja_parse_next(p);

        return constant(p, number.value, number.line);
    }
    case JT_LPAREN:
    case JT_LBRACKET:
    case JT_LBRACE:
        if (jinja_parse_enter(p))
            n = t->type == JT_LPAREN     ? parse_parens(p)
                : t->type == JT_LBRACKET ? parse_list(p, JN_LIST, JT_RBRACKET)
                                         : parse_list(p, JN_DICT, JT_RBRACE);
        jinja_parse_leave(p);
        return n;
    default: jinja_parse_fail(p, t->line, "unexpected %s", jinja_parse_describe(p, t)); return n;
    }
}

struct jn *jinja_prim_unary(struct jparse *p, bool with_filter)
{
    enum jtok_type t = jinja_parse_type(p);
    uint32_t at = jinja_parse_line(p);
    struct jn *n;

    if (t == JT_SUB || t == JT_ADD) {
        jinja_parse_next(p);
        n = &p->scrap;
        if (jinja_parse_enter(p))
            n = jinja_parse_two(p, JN_SIGN, t == JT_SUB ? '-' : '+', jinja_prim_unary(p, false), NULL, at);
        jinja_parse_leave(p);
    } else {
        n = jinja_prim_parse(p, false);
    }
    n = parse_postfix(p, n);
    return with_filter ? parse_filter_expr(p, n) : n;
}
