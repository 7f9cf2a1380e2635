/* jinja_expr.c - Jinja's grammar of expressions down to operands (jinja_prim.c), loosest first: if-else, or,
 * and, not, comparisons, + -, ~, * / // %, **. The operator ** groups to the left and binds looser than a
 * sign.
 */
#include "text/jinja_expr.h"

#include <string.h>

#include "text/jinja_prim.h"
#include "text/jinja_str.h"

static struct jn *parse_pow(struct jparse *p)
{
    uint32_t at = jinja_parse_line(p);
    struct jn *n = jinja_prim_unary(p, true);

    while (jinja_parse_skip(p, JT_POW)) {
        n = jinja_parse_two(p, JN_BINARY, JOP_POW, n, jinja_prim_unary(p, true), at);
        at = jinja_parse_line(p);
    }
    return n;
}

static struct jn *parse_product(struct jparse *p)
{
    uint32_t at = jinja_parse_line(p);
    struct jn *n = parse_pow(p);

    while (!p->r->rc) {
        enum jop op;

        switch (jinja_parse_type(p)) {
        case JT_MUL: op = JOP_MUL; break;
        case JT_DIV: op = JOP_DIV; break;
        case JT_FLOORDIV: op = JOP_FLOORDIV; break;
        case JT_MOD: op = JOP_MOD; break;
        default: return n;
        }
        jinja_parse_next(p);
        n = jinja_parse_two(p, JN_BINARY, (uint8_t)op, n, parse_pow(p), at);
        at = jinja_parse_line(p);
    }
    return n;
}

static struct jn *parse_concat(struct jparse *p)
{
    uint32_t at = jinja_parse_line(p);
    struct jn *n = parse_product(p);
    struct jnodes items = {.v = NULL};

    if (jinja_parse_type(p) != JT_TILDE)
        return n;
    jinja_parse_push(p, &items, n);
    while (jinja_parse_skip(p, JT_TILDE))
        jinja_parse_push(p, &items, parse_product(p));
    n = jinja_parse_node(p, JN_CONCAT, at);
    n->u.items = jinja_parse_list(&items);
    n->escape = (uint8_t)p->escape;
    jinja_parse_over_list(p, n, &n->u.items);
    return n;
}

static struct jn *parse_sum(struct jparse *p)
{
    uint32_t at = jinja_parse_line(p);
    struct jn *n = parse_concat(p);

    while (jinja_parse_type(p) == JT_ADD || jinja_parse_type(p) == JT_SUB) {
        uint8_t op = jinja_parse_next(p).type == JT_ADD ? JOP_ADD : JOP_SUB;

        n = jinja_parse_two(p, JN_BINARY, op, n, parse_concat(p), at);
        at = jinja_parse_line(p);
    }
    return n;
}

/* Consumes a comparison sign; false when none is there. */
static bool relation(struct jparse *p, uint8_t *rel)
{
    switch (jinja_parse_type(p)) {
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
    uint32_t at = jinja_parse_line(p);
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
    jinja_parse_over_list(p, n, &n->u.compare.v);
    return n;
}

static struct jn *parse_not(struct jparse *p)
{
    struct jn *n = &p->scrap;
    uint32_t at = jinja_parse_line(p);

    if (!jinja_parse_skip_name(p, "not"))
        return parse_compare(p);
    if (jinja_parse_enter(p))
        n = jinja_parse_two(p, JN_NOT, 0, parse_not(p), NULL, at);
    jinja_parse_leave(p);
    return n;
}

static struct jn *parse_and(struct jparse *p)
{
    uint32_t at = jinja_parse_line(p);
    struct jn *n = parse_not(p);

    while (jinja_parse_skip_name(p, "and")) {
        n = jinja_parse_two(p, JN_AND, 0, n, parse_not(p), at);
        at = jinja_parse_line(p);
    }
    return n;
}

static struct jn *parse_or(struct jparse *p)
{
    uint32_t at = jinja_parse_line(p);
    struct jn *n = parse_and(p);

    while (jinja_parse_skip_name(p, "or")) {
        n = jinja_parse_two(p, JN_OR, 0, n, parse_and(p), at);
        at = jinja_parse_line(p);
    }
    return n;
}

static struct jn *parse_cond(struct jparse *p)
{
    uint32_t at = jinja_parse_line(p);
    struct jn *yes = parse_or(p);

    while (jinja_parse_skip_name(p, "if")) {
        struct jn *n = jinja_parse_node(p, JN_COND, at);

        n->u.cond.yes = yes;
        n->u.cond.test = parse_or(p);
        n->u.cond.no = NULL;
        if (jinja_parse_skip_name(p, "else")) {
            if (jinja_parse_enter(p))
                n->u.cond.no = parse_cond(p);
            jinja_parse_leave(p);
        }
        jinja_parse_over(p, n, yes);
        jinja_parse_over(p, n, n->u.cond.test);
        jinja_parse_over(p, n, n->u.cond.no);
        yes = n;
        at = jinja_parse_line(p);
    }
    return yes;
}

struct jn *jinja_expr_parse(struct jparse *p, bool with_cond)
{
    return with_cond ? parse_cond(p) : parse_or(p);
}

static bool ends_tuple(const struct jparse *p, const char *end)
{
    enum jtok_type t = jinja_parse_type(p);

    return t == JT_VAR_END || t == JT_BLOCK_END || t == JT_RPAREN || (end && jinja_parse_at(p, end));
}

enum what { EXPRESSIONS, EXPRESSIONS_WITHOUT_COND, TARGETS, TARGETS_WITH_NAMESPACE };

static struct jn *parse_tuple(struct jparse *p, enum what what, const char *end)
{
    struct jnodes items = {.v = NULL};
    bool tuple = false;
    uint32_t at = jinja_parse_line(p);
    struct jn *n;

    while (!p->r->rc) {
        if (items.n)
            jinja_parse_expect(p, JT_COMMA);
        if (ends_tuple(p, end))
            break;
        jinja_parse_push(p, &items,
                         what >= TARGETS ? jinja_prim_parse(p, what == TARGETS_WITH_NAMESPACE)
                                         : jinja_expr_parse(p, what == EXPRESSIONS));
        if (jinja_parse_type(p) != JT_COMMA)
            break;
        tuple = true;
        at = jinja_parse_line(p);
    }
    if (!tuple && items.n)
        return items.v[0];
    if (!tuple)
        jinja_parse_fail(p, at, "Expected an expression, got %s",
                         jinja_parse_describe(p, jinja_parse_peek(p, 0)));
    n = jinja_parse_node(p, JN_TUPLE, at);
    n->u.items = jinja_parse_list(&items);
    jinja_parse_over_list(p, n, &n->u.items);
    return n;
}

struct jn *jinja_expr_tuple(struct jparse *p, bool with_cond, const char *end)
{
    return parse_tuple(p, with_cond ? EXPRESSIONS : EXPRESSIONS_WITHOUT_COND, end);
}

static void make_target(struct jparse *p, struct jn *n)
{
    static const char *const what[] = {
        [JN_CONST] = "a constant",
        [JN_LIST] = "a list",
        [JN_DICT] = "a dict",
    };

    switch ((enum jn_kind)n->kind) {
    case JN_NAME: n->u.name.store = true; break;
    case JN_NSREF: break;
    case JN_TUPLE:
        for (size_t i = 0; i < n->u.items.n; i++)
            make_target(p, n->u.items.v[i]);
        break;
    default:
        jinja_parse_fail(p, n->line, "can't assign to %s",
                         n->kind <= JN_DICT && what[n->kind] ? what[n->kind] : "this");
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
    if (!p->r->rc &&
        (jinja_str_is(t.value, "true") || jinja_str_is(t.value, "false") || jinja_str_is(t.value, "none") ||
         jinja_str_is(t.value, "True") || jinja_str_is(t.value, "False") || jinja_str_is(t.value, "None")))
        jinja_parse_fail(p, t.line, "can't assign to 'name'");
    return n;
}
