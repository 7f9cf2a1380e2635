/* parse.c - parses tokens into a tree, by Jinja's grammar of statements and expressions as far as chat
 * templates use it.
 *
 * The precedence of expressions, from the loosest: if-else, or, and, not, comparisons, + -, ~, * / // %, **,
 * sign, postfix operators (attributes, subscripts, calls), filters and tests. A filter applies to the operand
 * before it, without the operand's sign. ** groups to the left and binds looser than a sign. After the first
 * error every function returns a node that is safe to use.
 */
#include "text/jinja/parse.h"

#include <string.h>

#include "text/jinja/filters.h"
#include "text/jinja/lex.h"
#include "text/jinja/tree.h"
#include "text/jinja/value/calculate.h"
#include "text/jinja/value/compare.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"

enum {
    NESTING_MAX = 150, /* the largest depth of brackets and blocks */
    KEYWORDS_MAX = 64,
};

struct parser {
    struct rendering *r;
    struct jinja *j;
    const struct lex_token *tokens;
    size_t n, at;
    int depth;
    int loops;        /* number of enclosing loops, which break and continue can leave */
    unsigned uses;    /* TREE_USES_* of the current macro */
    const char *ends; /* the tags that end the current block, separated by blanks, or NULL */
    _Alignas(16) unsigned char scrap[256]; /* memory for nodes that are built after an error */
};

static const struct lex_token end_of_template = {.kind = LEX_END_OF_TEMPLATE};

/* ---- tokens ---- */

static const struct lex_token *peek(const struct parser *p, size_t ahead)
{
    if (p->r->rc || p->n == 0)
        return &end_of_template;
    return &p->tokens[p->at + ahead < p->n ? p->at + ahead : p->n - 1];
}

static int kind(const struct parser *p)
{
    return peek(p, 0)->kind;
}

static struct lex_token next(struct parser *p)
{
    struct lex_token t = *peek(p, 0);

    if (p->at + 1 < p->n)
        p->at++;
    /* Errors are reported at the line of the next token. */
    p->r->line = p->r->rc ? p->r->line : peek(p, 0)->line;
    return t;
}

static bool skip(struct parser *p, int k)
{
    if (kind(p) != k)
        return false;
    next(p);
    return true;
}

static bool at_name(const struct parser *p, const char *name)
{
    return kind(p) == LEX_NAME && jinja_is(peek(p, 0)->value, name);
}

static bool skip_name(struct parser *p, const char *name)
{
    if (!at_name(p, name))
        return false;
    next(p);
    return true;
}

static const char *describe(struct parser *p, const struct lex_token *t)
{
    return t->kind == LEX_NAME ? jinja_brief(p->r, t->value) : jinja_token_name(t);
}

static struct lex_token expect(struct parser *p, int k)
{
    if (kind(p) != k)
        jinja_fail(p->r, "expected token %s, got %s", jinja_token_name(&(struct lex_token){.kind = k}),
                   describe(p, peek(p, 0)));
    return p->r->rc ? end_of_template : next(p);
}

/* ---- nodes ---- */

static bool parse_enter(struct parser *p)
{
    if (++p->depth > NESTING_MAX)
        jinja_fail(p->r, "brackets and blocks are nested deeper than %d levels", NESTING_MAX);
    return p->r->rc == 0;
}

static void parse_leave(struct parser *p)
{
    p->depth--;
}

/* Calls PARSE one level of nesting deeper. Returns NULL if the nesting is too deep. */
static struct tree_node *nested(struct parser *p, struct tree_node *(*parse)(struct parser *p))
{
    struct tree_node *n = parse_enter(p) ? parse(p) : NULL;

    parse_leave(p);
    return n;
}

/* Returns zeroed memory for a node; after an error, scrap memory. */
static void *fresh(struct parser *p, size_t bytes)
{
    void *m = jinja_allocate_array(p->r, 1, bytes);

    ASSERT(bytes <= sizeof(p->scrap), "%zu bytes", bytes);
    return m ? m : memset(p->scrap, 0, sizeof(p->scrap));
}

static struct tree_node *make(struct parser *p, enum tree_kind k)
{
    struct tree_node *n = fresh(p, sizeof(*n));

    n->kind = (uint8_t)k;
    n->line = p->r->line;
    return n;
}

static void collect(struct parser *p, struct tree_nodes *c, struct tree_node *n)
{
    struct tree_node **v = jinja_room(p->r, c->v, c->n, &c->room, sizeof(struct tree_node *));

    if (!v)
        return;
    c->v = v;
    c->v[c->n++] = n;
}

static struct tree_node *make_two(struct parser *p, enum tree_kind k, unsigned op, struct tree_node *a,
                                  struct tree_node *b)
{
    struct tree_node *n = make(p, k);

    n->line = a ? a->line : n->line;
    n->op = (uint8_t)op;
    n->part[0] = a;
    n->part[1] = b;
    return n;
}

/* Makes a tuple, list or dict node of ITEMS. */
static struct tree_node *make_items(struct parser *p, enum tree_kind k, const struct tree_nodes *items)
{
    struct tree_node *n = make(p, k);

    n->items = *items;
    return n;
}

static struct tree_node *make_constant(struct parser *p, struct value v)
{
    struct tree_node *n = make(p, TREE_CONSTANT);

    n->constant = v;
    return n;
}

/* Returns the number of NAME, which is interned if it is new. */
static uint32_t number_of(struct parser *p, struct value name)
{
    struct value number = jinja_integer(p->j->names ? p->j->names->count : 0);

    if (!p->r->rc && !jinja_dict_get(p->r, p->j->names, name, &number))
        jinja_dict_set(p->r, p->j->names, name, number);
    return (uint32_t)number.integer;
}

static struct tree_node *make_variable(struct parser *p, struct value name)
{
    struct tree_node *n = make(p, TREE_VARIABLE);

    n->variable.name = name;
    n->variable.number = number_of(p, name);
    p->uses |= n->variable.number == p->j->varargs  ? TREE_USES_VARARGS
               : n->variable.number == p->j->kwargs ? TREE_USES_KWARGS
               : n->variable.number == p->j->caller ? TREE_USES_CALLER
                                                    : 0;
    return n;
}

/* ---- expressions ---- */

enum series { EXPRESSIONS, EXPRESSIONS_BEFORE_IF, TARGETS, TARGETS_WITH_ATTRIBUTES };

static struct tree_node *parse_series(struct parser *p, enum series what);
static struct tree_node *parse_expression(struct parser *p);
static struct tree_node *parse_postfix(struct parser *p, struct tree_node *n, bool filters);

/* Parses the arguments in parentheses: positional arguments, then keyword arguments. */
static void parse_arguments(struct parser *p, struct tree_call *c)
{
    struct tree_nodes list = {.room = 0};
    size_t room = 0;

    expect(p, '(');
    while (kind(p) != ')' && !p->r->rc) {
        if (c->n_keywords == KEYWORDS_MAX)
            jinja_fail(p->r, "a call has more than %d keyword arguments", KEYWORDS_MAX);
        if (!c->list && skip(p, '*')) {
            c->list = parse_expression(p);
        } else if (!c->dict && skip(p, LEX_POWER)) {
            c->dict = parse_expression(p);
        } else if (kind(p) == LEX_NAME && peek(p, 1)->kind == '=') {
            struct tree_named k = {.name = next(p).value};

            next(p);
            for (size_t i = 0; i < c->n_keywords; i++)
                if (jinja_same(c->keywords[i].name, k.name))
                    jinja_fail(p->r, "keyword argument repeated: %s", jinja_brief(p->r, k.name));
            k.value = parse_expression(p);
            c->keywords = jinja_room(p->r, c->keywords, c->n_keywords, &room, sizeof(k));
            if (c->keywords)
                c->keywords[c->n_keywords++] = k;
        } else {
            if (c->n_keywords)
                jinja_fail(p->r, "a positional argument follows a keyword argument");
            collect(p, &list, parse_expression(p));
        }
        if (kind(p) != ')')
            expect(p, ',');
    }
    expect(p, ')');
    c->arguments = list;
}

/* Parses a call, filter or test of the operand OF, and its arguments if there are parentheses. */
static struct tree_node *parse_call(struct parser *p, enum tree_kind k, struct tree_node *of)
{
    struct tree_node *n = make(p, k);
    struct tree_call *c = n->call = fresh(p, sizeof(*c));

    c->of = of;
    c->name = k != TREE_CALL ? expect(p, LEX_NAME).value : value_none;
    c->row = k == TREE_CALL ? NULL : jinja_find_row(k == TREE_FILTER ? jinja_filters : jinja_tests, c->name);
    if (kind(p) == '(') {
        if (parse_enter(p))
            parse_arguments(p, c);
        parse_leave(p);
    }
    return n;
}

/* Parses the filters after the operand OF. INLINED: there is no bar before the first filter. */
static struct tree_node *parse_filters(struct parser *p, struct tree_node *of, bool inlined)
{
    for (; (inlined || skip(p, '|')) && !p->r->rc; inlined = false)
        of = parse_call(p, TREE_FILTER, of);
    return of;
}

/* True if an argument of a test without parentheses follows. */
static bool begins_argument(const struct parser *p)
{
    int k = kind(p);

    if (k == LEX_NAME)
        return !jinja_is_among(peek(p, 0)->value, "else or and");
    return k == LEX_STRING || k == LEX_INTEGER || k == LEX_FLOAT || k == '[' || k == '{';
}

static struct tree_node *parse_primary(struct parser *p);

static struct tree_node *parse_test(struct parser *p, struct tree_node *of)
{
    struct tree_nodes argument = {.room = 0};
    struct tree_node *n;
    bool negated;

    next(p);
    negated = skip_name(p, "not");
    n = parse_call(p, TREE_TEST, of);
    if (p->tokens[p->at - 1].kind == LEX_NAME && begins_argument(p)) {
        if (at_name(p, "is"))
            jinja_fail(p->r, "You cannot chain multiple tests with is");
        if (parse_enter(p))
            collect(p, &argument, parse_postfix(p, parse_primary(p), false));
        parse_leave(p);
        n->call->arguments = argument;
    }
    return negated ? make_two(p, TREE_NOT, 0, n, NULL) : n;
}

/* Parses the rest of obj[start:stop:step]; the next token is the first colon. */
static struct tree_node *parse_slice(struct parser *p, struct tree_node *object, struct tree_node *start)
{
    struct tree_node *n = make(p, TREE_SLICE);

    next(p);
    n->part[0] = object;
    n->part[1] = start ? start : make_constant(p, value_none);
    n->part[2] = kind(p) != ':' && kind(p) != ']' ? parse_expression(p) : make_constant(p, value_none);
    n->part[3] = skip(p, ':') && kind(p) != ']' ? parse_expression(p) : make_constant(p, value_none);
    return n;
}

static struct tree_node *parse_subscript(struct parser *p, struct tree_node *object)
{
    next(p);
    struct tree_node *n = object, *key = NULL;

    if (parse_enter(p)) {
        if (kind(p) != ':')
            key = parse_series(p, EXPRESSIONS);
        n = kind(p) == ':' ? parse_slice(p, object, key) : make_two(p, TREE_ELEMENT, 0, object, key);
        expect(p, ']');
    }
    parse_leave(p);
    return n;
}

static struct tree_node *parse_dot(struct parser *p, struct tree_node *object)
{
    struct lex_token t;

    next(p);
    t = next(p);
    if (t.kind != LEX_NAME && t.kind != LEX_INTEGER)
        jinja_fail(p->r, "expected name or number");
    return make_two(p, t.kind == LEX_NAME ? TREE_ATTRIBUTE : TREE_ELEMENT, 0, object,
                    make_constant(p, t.value));
}

/* Parses the attributes, subscripts and calls after the operand N; with FILTERS also filters and tests. */
static struct tree_node *parse_postfix(struct parser *p, struct tree_node *n, bool filters)
{
    for (bool filtered = false; !p->r->rc;) {
        if (kind(p) == '(')
            n = parse_call(p, TREE_CALL, n);
        else if (kind(p) == '.' && !filtered)
            n = parse_dot(p, n);
        else if (kind(p) == '[' && !filtered)
            n = parse_subscript(p, n);
        else if (filters && kind(p) == '|')
            n = parse_filters(p, n, false);
        else if (filters && at_name(p, "is"))
            n = parse_test(p, n);
        else
            break;
        filtered |= n->kind == TREE_FILTER || n->kind == TREE_TEST || n->kind == TREE_NOT;
    }
    return n;
}

/* Parses a list, or a dict as alternating keys and values, up to the character CLOSE. */
static struct tree_node *parse_items(struct parser *p, enum tree_kind k, int close)
{
    struct tree_nodes items = {.room = 0};
    next(p);

    while (kind(p) != close && !p->r->rc) {
        collect(p, &items, parse_expression(p));
        if (k == TREE_DICT) {
            expect(p, ':');
            collect(p, &items, parse_expression(p));
        }
        if (kind(p) != close)
            expect(p, ',');
    }
    expect(p, close);
    return make_items(p, k, &items);
}

static struct tree_node *parse_parentheses(struct parser *p)
{
    struct tree_node *n;

    next(p);
    n = kind(p) == ')' ? make(p, TREE_TUPLE) : parse_series(p, EXPRESSIONS);
    expect(p, ')');
    return n;
}

static bool is_constant_name(struct value name, struct value *v)
{
    static const char *const names[] = {"none", "None", "false", "False", "true", "True"};
    int i = 0;

    while (i < 6 && !jinja_is(name, names[i]))
        i++;
    *v = i < 2 ? value_none : i < 6 ? jinja_boolean(i >= 4) : name;
    return i < 6;
}

static struct tree_node *parse_primary(struct parser *p)
{
    const struct lex_token *t = peek(p, 0);
    struct tree_node *n = NULL;
    struct value v;

    switch (t->kind) {
    case LEX_NAME:
        v = next(p).value;
        return is_constant_name(v, &v) ? make_constant(p, v) : make_variable(p, v);
    case LEX_STRING: /* adjacent string literals are joined */
        for (v = next(p).value; kind(p) == LEX_STRING && !p->r->rc;)
            v = jinja_join(p->r, v, next(p).value);
        return make_constant(p, v);
    case LEX_INTEGER:
    case LEX_FLOAT: return make_constant(p, next(p).value);
    case '(':
    case '[':
    case '{':
        if (parse_enter(p))
            n = t->kind == '('   ? parse_parentheses(p)
                : t->kind == '[' ? parse_items(p, TREE_LIST, ']')
                                 : parse_items(p, TREE_DICT, '}');
        parse_leave(p);
        break;
    default: jinja_fail(p->r, "unexpected %s", describe(p, t));
    }
    return n ? n : make(p, TREE_CONSTANT);
}

/* Parses an operand with its signs. Attributes, subscripts and calls bind tighter than signs. */
static struct tree_node *parse_signed(struct parser *p)
{
    int k = kind(p);

    if (k != '-' && k != '+')
        return parse_postfix(p, parse_primary(p), false);
    next(p);
    return make_two(p, TREE_SIGN, (unsigned)k, nested(p, parse_signed), NULL);
}

static struct tree_node *parse_not(struct parser *p);

enum { OR_LEVEL, AND_LEVEL, SUM_LEVEL, JOIN_LEVEL, PRODUCT_LEVEL, POWER_LEVEL };

/* Parses binary operators of precedence LEVEL and tighter, which group to the left. The operands of `and` are
 * negations and comparisons; the operands of comparisons are sums. */
static struct tree_node *parse_binary(struct parser *p, int level)
{
    static const struct {
        int level, token;
        const char *word;
        enum tree_kind kind;
        enum calculate_op op;
    } row[] = {{OR_LEVEL, LEX_NAME, "or", TREE_OR, 0},
               {AND_LEVEL, LEX_NAME, "and", TREE_AND, 0},
               {SUM_LEVEL, '+', NULL, TREE_CALCULATION, CALCULATE_ADD},
               {SUM_LEVEL, '-', NULL, TREE_CALCULATION, CALCULATE_SUBTRACT},
               {JOIN_LEVEL, '~', NULL, TREE_CALCULATION, CALCULATE_JOIN},
               {PRODUCT_LEVEL, '*', NULL, TREE_CALCULATION, CALCULATE_MULTIPLY},
               {PRODUCT_LEVEL, '/', NULL, TREE_CALCULATION, CALCULATE_DIVIDE},
               {PRODUCT_LEVEL, LEX_FLOOR_DIVIDE, NULL, TREE_CALCULATION, CALCULATE_FLOOR_DIVIDE},
               {PRODUCT_LEVEL, '%', NULL, TREE_CALCULATION, CALCULATE_MODULO},
               {POWER_LEVEL, LEX_POWER, NULL, TREE_CALCULATION, CALCULATE_POWER}};
    enum { ROWS = sizeof(row) / sizeof(row[0]) };
    struct tree_node *n = NULL, *right;

    for (size_t i = 0;;) {
        right = level == AND_LEVEL     ? parse_not(p)
                : level == POWER_LEVEL ? parse_postfix(p, parse_signed(p), true)
                                       : parse_binary(p, level + 1);
        n = n ? make_two(p, row[i].kind, row[i].op, n, right) : right;
        for (i = 0; i < ROWS; i++)
            if (row[i].level == level && (row[i].word ? at_name(p, row[i].word) : kind(p) == row[i].token))
                break;
        if (i == ROWS)
            return n;
        next(p);
    }
}

/* Consumes a comparison operator. False: the next token is not one. */
static bool parse_relation(struct parser *p, enum compare_how *how)
{
    static const int token[] = {[COMPARE_EQUAL] = LEX_EQUAL, [COMPARE_UNEQUAL] = LEX_UNEQUAL,
                                [COMPARE_LESS] = '<',        [COMPARE_LESS_EQUAL] = LEX_LESS_EQUAL,
                                [COMPARE_GREATER] = '>',     [COMPARE_GREATER_EQUAL] = LEX_GREATER_EQUAL};

    for (*how = COMPARE_EQUAL; *how < COMPARE_IN; ++*how)
        if (skip(p, token[*how]))
            return true;
    if (at_name(p, "not") && peek(p, 1)->kind == LEX_NAME && jinja_is(peek(p, 1)->value, "in")) {
        *how = COMPARE_NOT_IN;
        next(p);
    }
    return skip_name(p, "in");
}

static struct tree_node *parse_comparison(struct parser *p)
{
    struct tree_node *first = parse_binary(p, SUM_LEVEL), *chain = NULL, **end = &chain;
    enum compare_how how;

    while (parse_relation(p, &how)) {
        *end = make_two(p, TREE_COMPARISON, how, first, parse_binary(p, SUM_LEVEL));
        end = &(*end)->part[2];
    }
    return chain ? chain : first;
}

static struct tree_node *parse_not(struct parser *p)
{
    if (!skip_name(p, "not"))
        return parse_comparison(p);
    return make_two(p, TREE_NOT, 0, nested(p, parse_not), NULL);
}

static struct tree_node *parse_expression(struct parser *p)
{
    struct tree_node *yes = parse_binary(p, OR_LEVEL), *n;

    while (skip_name(p, "if")) {
        n = make(p, TREE_CONDITIONAL);
        n->part[0] = parse_binary(p, OR_LEVEL);
        n->part[1] = yes;
        if (skip_name(p, "else"))
            n->part[2] = nested(p, parse_expression);
        yes = n;
    }
    return yes;
}

/* Parses the target of an assignment: a name, or several names in parentheses. */
static struct tree_node *parse_target(struct parser *p, enum series what)
{
    const struct lex_token *t = peek(p, 0);
    struct tree_node *n;
    struct value v;

    if (t->kind == '(' && parse_enter(p)) {
        next(p);
        n = parse_series(p, what);
        expect(p, ')');
        parse_leave(p);
        return n;
    }
    if (t->kind != LEX_NAME || is_constant_name(t->value, &v))
        jinja_fail(p->r, "can't assign to %s", describe(p, t));
    n = make(p, TREE_VARIABLE);
    n->variable.name = next(p).value;
    n->variable.number = number_of(p, n->variable.name);
    if (what == TARGETS_WITH_ATTRIBUTES && skip(p, '.')) {
        n->kind = TREE_NAMESPACE_TARGET;
        n->variable.attribute = expect(p, LEX_NAME).value;
    } else if (n->variable.number == p->j->loop && p->loops) {
        jinja_fail(p->r, "Can't assign to special loop variable in for-loop");
    }
    return n;
}

/* Parses one expression or target, or a tuple of them separated by commas. */
static struct tree_node *parse_series(struct parser *p, enum series what)
{
    struct tree_nodes items = {.room = 0};
    bool comma = false;

    while (!p->r->rc && kind(p) != LEX_PRINT_END && kind(p) != LEX_TAG_END && kind(p) != ')' &&
           kind(p) != ']' && !(what >= TARGETS && comma && at_name(p, "in"))) {
        collect(p, &items,
                what >= TARGETS       ? parse_target(p, what)
                : what == EXPRESSIONS ? parse_expression(p)
                                      : parse_binary(p, OR_LEVEL));
        comma |= kind(p) == ',';
        if (!skip(p, ','))
            break;
    }
    if (!comma && items.n)
        return items.v[0];
    if (!comma)
        jinja_fail(p->r, "Expected an expression, got %s", describe(p, peek(p, 0)));
    return make_items(p, TREE_TUPLE, &items);
}

/* ---- statements ---- */

static bool at_end(const struct parser *p)
{
    return p->ends && kind(p) == LEX_NAME && jinja_is_among(peek(p, 0)->value, p->ends);
}

/* Fails because of the tag TAG; the message WHAT also lists the tags that could end the current block. */
static void fail_tag(struct parser *p, const char *what, const char *tag)
{
    if (p->ends)
        jinja_fail(p->r, "%s%s. Jinja was looking for one of the following tags: %s.", what, tag, p->ends);
    else
        jinja_fail(p->r, "%s%s.", what, tag);
}

static struct tree_node *parse_statement(struct parser *p);

static void parse_nodes(struct parser *p, struct tree_nodes *body)
{
    while (!p->r->rc) {
        const struct lex_token *t = peek(p, 0);
        struct tree_node *n;

        switch (t->kind) {
        case LEX_DATA:
            n = make(p, TREE_DATA);
            n->constant = next(p).value;
            collect(p, body, n);
            break;
        case LEX_PRINT_BEGIN:
            next(p);
            n = make(p, TREE_OUTPUT);
            collect(p, body, n);
            n->part[0] = parse_series(p, EXPRESSIONS);
            expect(p, LEX_PRINT_END);
            break;
        case LEX_TAG_BEGIN:
            next(p);
            if (at_end(p))
                return;
            collect(p, body, parse_statement(p));
            expect(p, LEX_TAG_END);
            break;
        default:
            if (p->ends)
                fail_tag(p, "Unexpected end of template", "");
            return;
        }
    }
}

/* Parses the statements of a block up to one of the tags ENDS, which becomes the current token. */
static struct tree_nodes parse_body(struct parser *p, const char *ends)
{
    struct tree_nodes body = {.room = 0};
    const char *outer = p->ends;

    skip(p, ':');
    expect(p, LEX_TAG_END);
    if (parse_enter(p)) {
        p->ends = ends;
        parse_nodes(p, &body);
        p->ends = outer;
    }
    parse_leave(p);
    return body;
}

static struct tree_nodes parse_whole_body(struct parser *p, const char *end)
{
    struct tree_nodes body = parse_body(p, end);

    next(p);
    return body;
}

/* Parses {% set x = value %}, {% set x %}text{% endset %} or {% filter name %}text{% endfilter %}. */
static struct tree_node *parse_set(struct parser *p)
{
    bool filter = jinja_is(p->tokens[p->at - 1].value, "filter");
    struct tree_node *n = make(p, filter ? TREE_FILTER_BLOCK : TREE_SET);
    struct tree_statement *s = n->statement = fresh(p, sizeof(*s));

    if (!filter)
        s->target = parse_series(p, TARGETS_WITH_ATTRIBUTES);
    if (!filter && skip(p, '=')) {
        s->value = parse_series(p, EXPRESSIONS);
        return n;
    }
    n->kind = filter ? TREE_FILTER_BLOCK : TREE_SET_BLOCK;
    s->value = parse_filters(p, make(p, TREE_BLOCK_TEXT), filter);
    s->body = parse_whole_body(p, filter ? "endfilter" : "endset");
    return n;
}

static struct tree_node *parse_for(struct parser *p)
{
    struct tree_node *n = make(p, TREE_FOR);
    struct tree_statement *f = n->statement = fresh(p, sizeof(*f));

    p->loops++;
    f->target = parse_series(p, TARGETS);
    if (!skip_name(p, "in"))
        jinja_fail(p->r, "expected token 'in', got %s", describe(p, peek(p, 0)));
    f->value = parse_series(p, EXPRESSIONS_BEFORE_IF);
    if (skip_name(p, "if"))
        f->test = parse_expression(p);
    f->body = parse_body(p, "endfor else");
    p->loops--;
    if (jinja_is(next(p).value, "else"))
        f->otherwise = parse_whole_body(p, "endfor");
    return n;
}

static struct tree_node *parse_if(struct parser *p)
{
    struct tree_node *n = make(p, TREE_IF), *branch = n;
    bool otherwise = false;

    for (;;) {
        struct tree_statement *f = branch->statement = fresh(p, sizeof(*f));
        struct value end;

        if (!otherwise)
            f->test = parse_series(p, EXPRESSIONS_BEFORE_IF);
        f->body = parse_body(p, otherwise ? "endif" : "elif else endif");
        end = next(p).value;
        if (p->r->rc || jinja_is(end, "endif"))
            return n;
        otherwise = jinja_is(end, "else");
        branch = f->next = make(p, TREE_IF);
    }
}

static void parse_signature(struct parser *p, struct tree_macro *m)
{
    struct tree_nodes parameters = {.room = 0}, defaults = {.room = 0};

    expect(p, '(');
    while (kind(p) != ')' && !p->r->rc) {
        struct tree_node *name;

        if (kind(p) != LEX_NAME)
            jinja_fail(p->r, "a macro's parameter must be a name");
        name = parse_target(p, TARGETS);
        for (size_t i = 0; i < parameters.n; i++)
            if (parameters.v[i]->variable.number == name->variable.number)
                jinja_fail(p->r, "a macro has the same parameter twice");
        collect(p, &parameters, name);
        if (skip(p, '='))
            collect(p, &defaults, parse_expression(p));
        else if (defaults.n)
            jinja_fail(p->r, "non-default argument follows default argument");
        if (kind(p) != ')')
            expect(p, ',');
    }
    expect(p, ')');
    m->parameters = parameters;
    m->defaults = defaults;
}

/* Parses a macro; a call block, whose body is an anonymous macro that the called macro may call; or a
 * generation block, which marks text of the assistant and prints its body. */
static struct tree_node *parse_macro(struct parser *p)
{
    struct value tag = p->tokens[p->at - 1].value;
    bool call = jinja_is(tag, "call"), named = jinja_is(tag, "macro");
    struct tree_node *n = make(p, named ? TREE_MACRO_BLOCK : call ? TREE_CALL_BLOCK : TREE_GENERATION);
    struct tree_macro *m = n->macro = fresh(p, sizeof(*m));
    unsigned uses = p->uses;
    int loops = p->loops;

    if (named && kind(p) != LEX_NAME)
        jinja_fail(p->r, "a macro must have a name");
    m->name = named ? parse_target(p, TARGETS)->variable.name : value_none;
    m->number = named ? number_of(p, m->name) : 0;
    p->uses = 0;
    p->loops = 0; /* break and continue cannot leave a loop outside the macro */
    if (named || (call && kind(p) == '('))
        parse_signature(p, m);
    if (call && (m->call = parse_expression(p))->kind != TREE_CALL)
        jinja_fail(p->r, "expected call");
    m->body = parse_whole_body(p, named ? "endmacro" : call ? "endcall" : "endgeneration");
    m->uses = p->uses;
    p->uses |= uses;
    p->loops = loops;
    return n;
}

static struct tree_node *parse_jump(struct parser *p)
{
    bool stop = jinja_is(p->tokens[p->at - 1].value, "break");

    if (!p->loops)
        jinja_fail(p->r, "'%s' outside loop", stop ? "break" : "continue");
    return make(p, stop ? TREE_BREAK : TREE_CONTINUE);
}

static struct tree_node *parse_statement(struct parser *p)
{
    static const struct {
        const char *tag;
        struct tree_node *(*parse)(struct parser *p);
    } tags[] = {
        {"if", parse_if},       {"set", parse_set},       {"for", parse_for},
        {"macro", parse_macro}, {"call", parse_macro},    {"filter", parse_set},
        {"break", parse_jump},  {"continue", parse_jump}, {"generation", parse_macro},
    };
    static const char elsewhere[] = "include import from extends block with autoescape print do trans";
    const struct lex_token *t = peek(p, 0);

    if (t->kind != LEX_NAME)
        jinja_fail(p->r, "tag name expected");
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
        if (skip_name(p, tags[i].tag))
            return tags[i].parse(p);
    if (jinja_is_among(t->value, elsewhere))
        jinja_fail(p->r, "the tag %s is not supported", describe(p, t));
    fail_tag(p, "Encountered unknown tag ", describe(p, t));
    return make(p, TREE_CONSTANT);
}

void jinja_parse_tokens(struct rendering *r, struct jinja *j, const struct lex_token *tokens, size_t n)
{
    struct parser *p = jinja_allocate_array(r, 1, sizeof(*p));

    if (!p)
        return;
    *p = (struct parser){.r = r, .j = j, .tokens = tokens, .n = n};
    j->names = jinja_dict(r);
    j->loop = number_of(p, jinja_literal("loop"));
    j->varargs = number_of(p, jinja_literal("varargs"));
    j->kwargs = number_of(p, jinja_literal("kwargs"));
    j->caller = number_of(p, jinja_literal("caller"));
    parse_nodes(p, &j->body);
}
