/* jinja_expr.c - Jinja's grammar of expressions, loosest first: if-else, or, and, not, comparisons, + -, ~, * / // %, **,
 * signs, postfix, filters and tests. ** groups to the left and binds looser than a sign; a filter binds tighter than a
 * sign's operand does not.
 */
#include "text/jinja_expr.h"

#include <string.h>

#include "text/jinja_filt.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_test.h"

static struct jn *parse_primary(struct jparse *p, bool with_namespace);
static struct jn *parse_postfix(struct jparse *p, struct jn *n);

static enum jtok_type type(const struct jparse *p)
{
    return jinja_parse_peek(p, 0)->type;
}

static uint32_t line(const struct jparse *p)
{
    return jinja_parse_peek(p, 0)->line;
}

/* Notes that N stands over CHILD and refuses trees too deep to walk. */
static void over(struct jparse *p, struct jn *n, const struct jn *child)
{
    if (child && child->depth >= n->depth)
        n->depth = child->depth + 1;
    if (n->depth > JPARSE_TREE_MAX)
        jinja_parse_fail(p, n->line, "an expression is nested deeper than %d levels", JPARSE_TREE_MAX);
}

static void over_list(struct jparse *p, struct jn *n, const struct jnlist *l)
{
    for (size_t i = 0; i < l->n; i++)
        over(p, n, l->v[i]);
}

static bool enter(struct jparse *p)
{
    if (++p->depth > JPARSE_DEPTH_MAX)
        jinja_parse_fail(p, line(p), "brackets and blocks are nested deeper than %d levels", JPARSE_DEPTH_MAX);
    return p->r->rc == 0;
}

static struct jn *two(struct jparse *p, enum jn_kind kind, uint8_t op, struct jn *a, struct jn *b, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, kind, at);

    n->op = op;
    n->u.op2.a = a;
    n->u.op2.b = b;
    over(p, n, a);
    over(p, n, b);
    return n;
}

static void read_args(struct jparse *p, struct jncall *c, struct jn *of)
{
    uint32_t at = jinja_parse_expect(p, JT_LPAREN).line;
    struct jnodes args = {.v = NULL};
    struct jnkw kw[64];
    bool comma = false, good = true;

    while (type(p) != JT_RPAREN && !p->r->rc) {
        if (comma) {
            jinja_parse_expect(p, JT_COMMA);
            if (type(p) == JT_RPAREN)
                break;
        }
        comma = true;
        if (jinja_parse_skip(p, JT_MUL)) {
            good &= !c->star && !c->star_star;
            c->star = jinja_expr_parse(p, true);
            over(p, of, c->star);
        } else if (jinja_parse_skip(p, JT_POW)) {
            good &= !c->star_star;
            c->star_star = jinja_expr_parse(p, true);
            over(p, of, c->star_star);
        } else if (type(p) == JT_NAME && jinja_parse_peek(p, 1)->type == JT_ASSIGN) {
            if (c->n_kw == sizeof(kw) / sizeof(kw[0])) {
                jinja_parse_fail(p, at, "a call has more than %zu named arguments", c->n_kw);
                break;
            }
            good &= !c->star_star;
            kw[c->n_kw].name = jinja_parse_next(p).value;
            for (size_t i = 0; i < c->n_kw; i++)
                if (jinja_val_same(kw[i].name, kw[c->n_kw].name))
                    jinja_parse_fail(p, at, "keyword argument repeated: %s", jinja_repr_brief(p->r, kw[i].name));
            jinja_parse_next(p);
            kw[c->n_kw].value = jinja_expr_parse(p, true);
            over(p, of, kw[c->n_kw].value);
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
    over_list(p, of, &c->args);
    c->kw = jinja_parse_new(p, (c->n_kw + 1) * sizeof(*kw));
    if (!p->r->rc)
        memcpy(c->kw, kw, c->n_kw * sizeof(*kw));
}

static struct jn *parse_call(struct jparse *p, struct jn *of)
{
    struct jn *n = jinja_parse_node(p, JN_CALL, line(p));

    n->u.call.of = of;
    n->u.call.args = jinja_parse_new(p, sizeof(struct jncall));
    over(p, n, of);
    if (enter(p))
        read_args(p, n->u.call.args, n);
    p->depth--;
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

struct jn *jinja_expr_filters(struct jparse *p, struct jn *of, bool inlined)
{
    while ((inlined || type(p) == JT_PIPE) && !p->r->rc) {
        struct jn *n;

        if (!inlined)
            jinja_parse_next(p);
        inlined = false;
        n = jinja_parse_node(p, JN_FILTER, line(p));
        n->u.call.of = of;
        n->u.call.name = dotted_name(p);
        n->u.call.args = jinja_parse_new(p, sizeof(struct jncall));
        if (!p->r->rc)
            n->u.call.what = jinja_filt_find(n->u.call.name.u.str->p, n->u.call.name.u.str->n);
        over(p, n, of);
        if (type(p) == JT_LPAREN && enter(p)) {
            read_args(p, n->u.call.args, n);
            p->depth--;
        }
        of = n;
    }
    return of;
}

/* The one argument a test may have without brackets. */
static bool begins_argument(const struct jparse *p)
{
    switch (type(p)) {
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
    over(p, n, of);
    if (type(p) == JT_LPAREN) {
        if (enter(p))
            read_args(p, n->u.call.args, n);
        p->depth--;
    } else if (begins_argument(p)) {
        if (jinja_parse_at(p, "is"))
            jinja_parse_fail(p, line(p), "You cannot chain multiple tests with is");
        jinja_parse_push(p, &args, parse_postfix(p, parse_primary(p, false)));
        n->u.call.args->args = jinja_parse_list(&args);
        over_list(p, n, &n->u.call.args->args);
    }
    return negated ? two(p, JN_NOT, 0, n, NULL, at) : n;
}

/* What stands between brackets or commas in them: an expression, or SLICE, which then becomes a slice. */
static struct jn *parse_subscribed(struct jparse *p, struct jn *slice)
{
    struct jn *first = NULL;

    if (type(p) != JT_COLON) {
        first = jinja_expr_parse(p, true);
        if (type(p) != JT_COLON)
            return first;
    }
    jinja_parse_next(p);
    slice->kind = JN_SLICE;
    slice->u.slice.start = first;
    slice->u.slice.stop = slice->u.slice.step = NULL;
    if (type(p) != JT_COLON && type(p) != JT_RBRACKET && type(p) != JT_COMMA)
        slice->u.slice.stop = jinja_expr_parse(p, true);
    if (jinja_parse_skip(p, JT_COLON) && type(p) != JT_RBRACKET && type(p) != JT_COMMA)
        slice->u.slice.step = jinja_expr_parse(p, true);
    over(p, slice, first);
    over(p, slice, slice->u.slice.stop);
    over(p, slice, slice->u.slice.step);
    return slice;
}

static struct jn *parse_brackets(struct jparse *p, struct jn *obj)
{
    uint32_t at = jinja_parse_next(p).line;
    struct jn *n = jinja_parse_node(p, JN_ITEM, at), *arg, *fresh, *slice = NULL;
    struct jnodes args = {.v = NULL};

    over(p, n, obj);
    if (enter(p)) {
        while (type(p) != JT_RBRACKET && !p->r->rc) {
            if (args.n)
                jinja_parse_expect(p, JT_COMMA);
            fresh = jinja_parse_node(p, JN_ITEM, at);
            arg = parse_subscribed(p, fresh);
            if (arg == fresh)
                slice = arg;
            over(p, n, arg);
            jinja_parse_push(p, &args, arg);
        }
        jinja_parse_expect(p, JT_RBRACKET);
    }
    p->depth--;
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
        over_list(p, n->u.item.key, &n->u.item.key->u.items);
    }
    over(p, n, n->u.item.key);
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
    over(p, n, obj);
    return n;
}

static struct jn *parse_postfix(struct jparse *p, struct jn *n)
{
    while (!p->r->rc) {
        if (type(p) == JT_DOT)
            n = parse_dot(p, n);
        else if (type(p) == JT_LBRACKET)
            n = parse_brackets(p, n);
        else if (type(p) == JT_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static struct jn *parse_filter_expr(struct jparse *p, struct jn *n)
{
    while (!p->r->rc) {
        if (type(p) == JT_PIPE)
            n = jinja_expr_filters(p, n, false);
        else if (jinja_parse_at(p, "is"))
            n = parse_test(p, n);
        else if (type(p) == JT_LPAREN)
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

    while (type(p) != close && !p->r->rc) {
        if (items.n)
            jinja_parse_expect(p, JT_COMMA);
        if (type(p) == close)
            break;
        jinja_parse_push(p, &items, jinja_expr_parse(p, true));
        if (kind == JN_DICT) {
            jinja_parse_expect(p, JT_COLON);
            jinja_parse_push(p, &items, jinja_expr_parse(p, true));
        }
    }
    jinja_parse_expect(p, close);
    n->u.items = jinja_parse_list(&items);
    over_list(p, n, &n->u.items);
    return n;
}

/* An expression in round brackets: a tuple if there is a comma, or nothing. */
static struct jn *parse_parens(struct jparse *p)
{
    struct jn *n;

    jinja_parse_next(p);
    if (type(p) == JT_RPAREN) {
        n = jinja_parse_node(p, JN_TUPLE, line(p));
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

    while (type(p) == JT_STRING && !p->r->rc)
        t.value = jinja_str_concat(p->r, t.value, jinja_parse_next(p).value);
    if (!p->r->rc) { /* a constant is counted here, so that renderings only read it */
        t.value = jinja_str_new(p->r, t.value.u.str->p, t.value.u.str->n);
        if (!p->r->rc)
            jinja_str_chars(t.value.u.str);
    }
    return constant(p, t.value, t.line);
}

static struct jn *parse_primary(struct jparse *p, bool with_namespace)
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
        if (enter(p))
            n = t->type == JT_LPAREN     ? parse_parens(p)
                : t->type == JT_LBRACKET ? parse_list(p, JN_LIST, JT_RBRACKET)
                                         : parse_list(p, JN_DICT, JT_RBRACE);
        p->depth--;
        return n;
    default: jinja_parse_fail(p, t->line, "unexpected %s", jinja_parse_describe(p, t)); return n;
    }
}

static struct jn *parse_unary(struct jparse *p, bool with_filter)
{
    enum jtok_type t = type(p);
    uint32_t at = line(p);
    struct jn *n;

    if (t == JT_SUB || t == JT_ADD) {
        jinja_parse_next(p);
        n = &p->scrap;
        if (enter(p))
            n = two(p, JN_SIGN, t == JT_SUB ? '-' : '+', parse_unary(p, false), NULL, at);
        p->depth--;
    } else {
        n = parse_primary(p, false);
    }
    n = parse_postfix(p, n);
    return with_filter ? parse_filter_expr(p, n) : n;
}

static struct jn *parse_pow(struct jparse *p)
{
    uint32_t at = line(p);
    struct jn *n = parse_unary(p, true);

    while (jinja_parse_skip(p, JT_POW)) {
        n = two(p, JN_BINARY, JOP_POW, n, parse_unary(p, true), at);
        at = line(p);
    }
    return n;
}

static struct jn *parse_product(struct jparse *p)
{
    uint32_t at = line(p);
    struct jn *n = parse_pow(p);

    while (!p->r->rc) {
        enum jop op;

        switch (type(p)) {
        case JT_MUL: op = JOP_MUL; break;
        case JT_DIV: op = JOP_DIV; break;
        case JT_FLOORDIV: op = JOP_FLOORDIV; break;
        case JT_MOD: op = JOP_MOD; break;
        default: return n;
        }
        jinja_parse_next(p);
        n = two(p, JN_BINARY, (uint8_t)op, n, parse_pow(p), at);
        at = line(p);
    }
    return n;
}

static struct jn *parse_concat(struct jparse *p)
{
    uint32_t at = line(p);
    struct jn *n = parse_product(p);
    struct jnodes items = {.v = NULL};

    if (type(p) != JT_TILDE)
        return n;
    jinja_parse_push(p, &items, n);
    while (jinja_parse_skip(p, JT_TILDE))
        jinja_parse_push(p, &items, parse_product(p));
    n = jinja_parse_node(p, JN_CONCAT, at);
    n->u.items = jinja_parse_list(&items);
    n->escape = (uint8_t)p->escape;
    over_list(p, n, &n->u.items);
    return n;
}

static struct jn *parse_sum(struct jparse *p)
{
    uint32_t at = line(p);
    struct jn *n = parse_concat(p);

    while (type(p) == JT_ADD || type(p) == JT_SUB) {
        uint8_t op = jinja_parse_next(p).type == JT_ADD ? JOP_ADD : JOP_SUB;

        n = two(p, JN_BINARY, op, n, parse_concat(p), at);
        at = line(p);
    }
    return n;
}

/* Consumes a comparison sign; false when none is there. */
static bool relation(struct jparse *p, uint8_t *rel)
{
    switch (type(p)) {
    case JT_EQ: *rel = JREL_EQ; break;
    case JT_NE: *rel = JREL_NE; break;
    case JT_LT: *rel = JREL_LT; break;
    case JT_LE: *rel = JREL_LE; break;
    case JT_GT: *rel = JREL_GT; break;
    case JT_GE: *rel = JREL_GE; break;
    default:
        if (jinja_parse_at(p, "in")) {
            *rel = JREL_IN;
            break;
        }
        if (jinja_parse_at(p, "not") && jinja_parse_peek(p, 1)->type == JT_NAME &&
            jinja_str_is(jinja_parse_peek(p, 1)->value, "in")) {
            *rel = JREL_NOT_IN;
            jinja_parse_next(p);
            break;
        }
        return false;
    }
    jinja_parse_next(p);
    return true;
}

static struct jn *parse_compare(struct jparse *p)
{
    uint32_t at = line(p);
    struct jn *n = parse_sum(p);
    struct jnodes operands = {.v = NULL};
    uint8_t rel[32], *copy;
    size_t n_rel = 0;

    while (n_rel < sizeof(rel) && relation(p, &rel[n_rel])) {
        if (n_rel++ == 0)
            jinja_parse_push(p, &operands, n);
        jinja_parse_push(p, &operands, parse_sum(p));
    }
    if (n_rel == 0)
        return n;
    if (n_rel == sizeof(rel))
        jinja_parse_fail(p, at, "a chain of %zu comparisons is too long", n_rel);
    n = jinja_parse_node(p, JN_COMPARE, at);
    n->u.compare.v = jinja_parse_list(&operands);
    copy = jinja_parse_new(p, n_rel);
    memcpy(copy, rel, n_rel);
    n->u.compare.rel = copy;
    over_list(p, n, &n->u.compare.v);
    return n;
}

static struct jn *parse_not(struct jparse *p)
{
    struct jn *n = &p->scrap;
    uint32_t at = line(p);

    if (!jinja_parse_skip_name(p, "not"))
        return parse_compare(p);
    if (enter(p))
        n = two(p, JN_NOT, 0, parse_not(p), NULL, at);
    p->depth--;
    return n;
}

static struct jn *parse_and(struct jparse *p)
{
    uint32_t at = line(p);
    struct jn *n = parse_not(p);

    while (jinja_parse_skip_name(p, "and")) {
        n = two(p, JN_AND, 0, n, parse_not(p), at);
        at = line(p);
    }
    return n;
}

static struct jn *parse_or(struct jparse *p)
{
    uint32_t at = line(p);
    struct jn *n = parse_and(p);

    while (jinja_parse_skip_name(p, "or")) {
        n = two(p, JN_OR, 0, n, parse_and(p), at);
        at = line(p);
    }
    return n;
}

static struct jn *parse_cond(struct jparse *p)
{
    uint32_t at = line(p);
    struct jn *yes = parse_or(p);

    while (jinja_parse_skip_name(p, "if")) {
        struct jn *n = jinja_parse_node(p, JN_COND, at);

        n->u.cond.yes = yes;
        n->u.cond.test = parse_or(p);
        n->u.cond.no = NULL;
        if (jinja_parse_skip_name(p, "else")) {
            if (enter(p))
                n->u.cond.no = parse_cond(p);
            p->depth--;
        }
        over(p, n, yes);
        over(p, n, n->u.cond.test);
        over(p, n, n->u.cond.no);
        yes = n;
        at = line(p);
    }
    return yes;
}

struct jn *jinja_expr_parse(struct jparse *p, bool with_cond)
{
    return with_cond ? parse_cond(p) : parse_or(p);
}

static bool ends_tuple(const struct jparse *p, const char *end)
{
    enum jtok_type t = type(p);

    return t == JT_VAR_END || t == JT_BLOCK_END || t == JT_RPAREN || (end && jinja_parse_at(p, end));
}

enum what { EXPRESSIONS, EXPRESSIONS_WITHOUT_COND, TARGETS, TARGETS_WITH_NAMESPACE };

static struct jn *parse_tuple(struct jparse *p, enum what what, const char *end)
{
    struct jnodes items = {.v = NULL};
    bool tuple = false;
    uint32_t at = line(p);
    struct jn *n;

    while (!p->r->rc) {
        if (items.n)
            jinja_parse_expect(p, JT_COMMA);
        if (ends_tuple(p, end))
            break;
        jinja_parse_push(p, &items,
                         what >= TARGETS ? parse_primary(p, what == TARGETS_WITH_NAMESPACE)
                                         : jinja_expr_parse(p, what == EXPRESSIONS));
        if (type(p) != JT_COMMA)
            break;
        tuple = true;
        at = line(p);
    }
    if (!tuple && items.n)
        return items.v[0];
    if (!tuple)
        jinja_parse_fail(p, at, "Expected an expression, got %s", jinja_parse_describe(p, jinja_parse_peek(p, 0)));
    n = jinja_parse_node(p, JN_TUPLE, at);
    n->u.items = jinja_parse_list(&items);
    over_list(p, n, &n->u.items);
    return n;
}

struct jn *jinja_expr_tuple(struct jparse *p, bool with_cond, const char *end)
{
    return parse_tuple(p, with_cond ? EXPRESSIONS : EXPRESSIONS_WITHOUT_COND, end);
}

static void make_target(struct jparse *p, struct jn *n)
{
    static const char *const what[] = {
        [JN_CONST] = "a constant", [JN_LIST] = "a list", [JN_DICT] = "a dict",
    };

    switch ((enum jn_kind)n->kind) {
    case JN_NAME:
        n->u.name.store = true;
        break;
    case JN_NSREF: break;
    case JN_TUPLE:
        for (size_t i = 0; i < n->u.items.n; i++)
            make_target(p, n->u.items.v[i]);
        break;
    default: jinja_parse_fail(p, n->line, "can't assign to %s", n->kind <= JN_DICT && what[n->kind] ? what[n->kind] : "this");
    }
}

struct jn *jinja_expr_target(struct jparse *p, const char *end, bool with_namespace)
{
    struct jn *n = parse_tuple(p, with_namespace ? TARGETS_WITH_NAMESPACE : TARGETS, end);

    if (!p->r->rc)
        make_target(p, n);
    return n;
}

struct jn *jinja_expr_name(struct jparse *p)
{
    struct jtok t = jinja_parse_expect(p, JT_NAME);
    struct jn *n = jinja_parse_node(p, JN_NAME, t.line);

    n->u.name.id = t.value;
    n->u.name.store = true;
    if (!p->r->rc && (jinja_str_is(t.value, "true") || jinja_str_is(t.value, "false") || jinja_str_is(t.value, "none") ||
                      jinja_str_is(t.value, "True") || jinja_str_is(t.value, "False") || jinja_str_is(t.value, "None")))
        jinja_parse_fail(p, t.line, "can't assign to 'name'");
    return n;
}
