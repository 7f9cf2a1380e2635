/* parse.c - tokens to a tree: Jinja's grammar of statements and expressions, as far as chat templates go.
 *
 * Expressions from the loosest: if-else, or, and, not, comparisons, + -, ~, * / // %, **, sign, and what
 * follows an operand: attributes, subscripts, calls, then filters and tests. A filter applies to the operand
 * before it, not to the sign in front of that; ** groups to the left and binds looser than a sign. After the
 * first error every function returns a harmless node.
 */
#include <string.h>

#include "text/jinja/tree.h"

enum {
    NESTING_MAX = 150, /* brackets and blocks within one another */
    KEYWORDS_MAX = 64,
};

struct parser {
    struct rendering *r;
    struct jinja *j;
    const struct token *tokens;
    size_t n, at;
    int depth;
    int loops;        /* loops around, which break and continue may end */
    unsigned uses;    /* special names seen in the macro */
    const char *ends; /* tags that would end the block around, with blanks between them; or NULL */
    _Alignas(16) unsigned char scrap[256]; /* what is built after an error */
};

/* Nodes under construction. */
struct collected {
    struct nodes nodes;
    size_t room;
};

static const struct token end_of_template = {.kind = END_OF_TEMPLATE};

/* Tokens */

static const struct token *peek(const struct parser *p, size_t ahead)
{
    if (p->r->rc || p->n == 0)
        return &end_of_template;
    return &p->tokens[p->at + ahead < p->n ? p->at + ahead : p->n - 1];
}

static int kind(const struct parser *p)
{
    return peek(p, 0)->kind;
}

static struct token next(struct parser *p)
{
    struct token t = *peek(p, 0);

    if (p->at + 1 < p->n)
        p->at++;
    p->r->line = p->r->rc ? p->r->line : peek(p, 0)->line; /* where an error would be */
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
    return kind(p) == NAME && jinja_is(peek(p, 0)->value, name);
}

static bool skip_name(struct parser *p, const char *name)
{
    if (!at_name(p, name))
        return false;
    next(p);
    return true;
}

static const char *describe(struct parser *p, const struct token *t)
{
    return t->kind == NAME ? jinja_brief(p->r, t->value) : jinja_token_name(t);
}

static struct token expect(struct parser *p, int k)
{
    if (kind(p) != k)
        jinja_fail(p->r, "expected token %s, got %s", jinja_token_name(&(struct token){.kind = k}),
                   describe(p, peek(p, 0)));
    return p->r->rc ? end_of_template : next(p);
}

/* Nodes */

static bool enter(struct parser *p)
{
    if (++p->depth > NESTING_MAX)
        jinja_fail(p->r, "brackets and blocks are nested deeper than %d levels", NESTING_MAX);
    return p->r->rc == 0;
}

static void leave(struct parser *p)
{
    p->depth--;
}

/* Zeroed memory; after an error some that nobody reads. */
static void *fresh(struct parser *p, size_t bytes)
{
    void *m = jinja_allocate_array(p->r, 1, bytes);

    ASSERT(bytes <= sizeof(p->scrap), "%zu bytes", bytes);
    return m ? m : memset(p->scrap, 0, sizeof(p->scrap));
}

static struct node *make(struct parser *p, enum node_kind k)
{
    struct node *n = fresh(p, sizeof(*n));

    n->kind = (uint8_t)k;
    n->line = p->r->line;
    return n;
}

static void collect(struct parser *p, struct collected *c, struct node *n)
{
    struct node **v = jinja_room(p->r, c->nodes.v, c->nodes.n, &c->room, sizeof(struct node *));

    if (!v)
        return;
    c->nodes.v = v;
    c->nodes.v[c->nodes.n++] = n;
}

static struct node *make_two(struct parser *p, enum node_kind k, unsigned op, struct node *a, struct node *b)
{
    struct node *n = make(p, k);

    n->line = a ? a->line : n->line;
    n->op = (uint8_t)op;
    n->part[0] = a;
    n->part[1] = b;
    return n;
}

/* A tuple, list, dict or joined string of ITEMS. */
static struct node *make_items(struct parser *p, enum node_kind k, const struct nodes *items)
{
    struct node *n = make(p, k);

    n->items = *items;
    return n;
}

static struct node *make_constant(struct parser *p, struct value v)
{
    struct node *n = make(p, CONSTANT);

    n->constant = v;
    return n;
}

static uint32_t number_of(struct parser *p, struct value name)
{
    struct value number = jinja_integer(p->j->names ? p->j->names->count : 0);

    if (!p->r->rc && !jinja_dict_get(p->r, p->j->names, name, &number))
        jinja_dict_set(p->r, p->j->names, name, number);
    return (uint32_t)number.integer;
}

static struct node *make_variable(struct parser *p, struct value name)
{
    struct node *n = make(p, VARIABLE);

    n->variable.name = name;
    n->variable.number = number_of(p, name);
    p->uses |= n->variable.number == p->j->varargs  ? USES_VARARGS
               : n->variable.number == p->j->kwargs ? USES_KWARGS
               : n->variable.number == p->j->caller ? USES_CALLER
                                                    : 0;
    return n;
}

/* Expressions */

enum series { EXPRESSIONS, EXPRESSIONS_BEFORE_IF, TARGETS, TARGETS_WITH_ATTRIBUTES };

static struct node *parse_series(struct parser *p, enum series what);
static struct node *parse_expression(struct parser *p);
static struct node *parse_unary(struct parser *p, bool filters);
static struct node *parse_postfix(struct parser *p, struct node *n, bool filters);

/* The arguments in round brackets; those with a name come last. */
static void parse_arguments(struct parser *p, struct call *c)
{
    struct collected list = {.room = 0};
    struct named keywords[KEYWORDS_MAX];

    expect(p, '(');
    while (kind(p) != ')' && !p->r->rc) {
        if (c->n_keywords == KEYWORDS_MAX)
            jinja_fail(p->r, "a call has more than %d named arguments", KEYWORDS_MAX);
        if (!c->list && skip(p, '*')) {
            c->list = parse_expression(p);
        } else if (!c->dict && skip(p, POWER_OF)) {
            c->dict = parse_expression(p);
        } else if (kind(p) == NAME && peek(p, 1)->kind == '=') {
            struct named *k = &keywords[c->n_keywords];

            k->name = next(p).value;
            next(p);
            for (size_t i = 0; i < c->n_keywords; i++)
                if (jinja_same(keywords[i].name, k->name))
                    jinja_fail(p->r, "keyword argument repeated: %s", jinja_brief(p->r, k->name));
            k->value = parse_expression(p);
            c->n_keywords++;
        } else {
            if (c->n_keywords)
                jinja_fail(p->r, "an argument without a name follows one with a name");
            collect(p, &list, parse_expression(p));
        }
        if (kind(p) != ')')
            expect(p, ',');
    }
    expect(p, ')');
    c->arguments = list.nodes;
    c->keywords = jinja_allocate(p->r, (c->n_keywords + 1) * sizeof(*keywords));
    if (c->keywords)
        memcpy(c->keywords, keywords, c->n_keywords * sizeof(*keywords));
}

/* A call, filter or test of OF, with its arguments if it has any. */
static struct node *parse_call(struct parser *p, enum node_kind k, struct node *of)
{
    struct node *n = make(p, k);
    struct call *c = n->call = fresh(p, sizeof(*c));

    c->of = of;
    c->name = k != CALL ? expect(p, NAME).value : none;
    c->row = k == CALL ? NULL : jinja_find_row(k == FILTERED ? jinja_filters : jinja_tests, c->name);
    if (kind(p) == '(') {
        if (enter(p))
            parse_arguments(p, c);
        leave(p);
    }
    return n;
}

/* The filters behind OF; with INLINED the first one has no bar before it. */
static struct node *parse_filters(struct parser *p, struct node *of, bool inlined)
{
    for (; (inlined || skip(p, '|')) && !p->r->rc; inlined = false)
        of = parse_call(p, FILTERED, of);
    return of;
}

/* Whether the one argument follows that a test may have without brackets. */
static bool begins_argument(const struct parser *p)
{
    int k = kind(p);

    if (k == NAME)
        return !at_name(p, "else") && !at_name(p, "or") && !at_name(p, "and");
    return k == TEXT || k == WHOLE || k == DECIMAL || k == '[' || k == '{';
}

static struct node *parse_primary(struct parser *p);

static struct node *parse_test(struct parser *p, struct node *of)
{
    struct collected argument = {.room = 0};
    struct node *n;
    bool negated;

    next(p);
    negated = skip_name(p, "not");
    n = parse_call(p, TESTED, of);
    if (p->tokens[p->at - 1].kind == NAME && begins_argument(p)) {
        if (at_name(p, "is"))
            jinja_fail(p->r, "You cannot chain multiple tests with is");
        if (enter(p))
            collect(p, &argument, parse_postfix(p, parse_primary(p), false));
        leave(p);
        n->call->arguments = argument.nodes;
    }
    return negated ? make_two(p, NOT, 0, n, NULL) : n;
}

/* The rest of obj[start:stop:step], where the first colon is next. */
static struct node *parse_slice(struct parser *p, struct node *object, struct node *start)
{
    struct node *n = make(p, SLICE);

    next(p);
    n->part[0] = object;
    n->part[1] = start ? start : make_constant(p, none);
    n->part[2] = kind(p) != ':' && kind(p) != ']' ? parse_expression(p) : make_constant(p, none);
    n->part[3] = skip(p, ':') && kind(p) != ']' ? parse_expression(p) : make_constant(p, none);
    return n;
}

static struct node *parse_subscript(struct parser *p, struct node *object)
{
    next(p);
    struct node *n = object, *key = NULL;

    if (enter(p)) {
        if (kind(p) != ':')
            key = parse_series(p, EXPRESSIONS);
        n = kind(p) == ':' ? parse_slice(p, object, key) : make_two(p, ELEMENT, 0, object, key);
        expect(p, ']');
    }
    leave(p);
    return n;
}

static struct node *parse_dot(struct parser *p, struct node *object)
{
    struct token t;

    next(p);
    t = next(p);
    if (t.kind != NAME && t.kind != WHOLE)
        jinja_fail(p->r, "expected name or number");
    return make_two(p, t.kind == NAME ? ATTRIBUTE : ELEMENT, 0, object, make_constant(p, t.value));
}

/* What follows an operand: attributes, subscripts and calls; then, with FILTERS, filters and tests. */
static struct node *parse_postfix(struct parser *p, struct node *n, bool filters)
{
    for (bool filtered = false; !p->r->rc;) {
        if (kind(p) == '(')
            n = parse_call(p, CALL, n);
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
        filtered |= n->kind == FILTERED || n->kind == TESTED || n->kind == NOT;
    }
    return n;
}

/* A list, or a dict: there the items are keys and values in turns. */
static struct node *parse_items(struct parser *p, enum node_kind k, int close)
{
    struct collected items = {.room = 0};
    next(p);

    while (kind(p) != close && !p->r->rc) {
        collect(p, &items, parse_expression(p));
        if (k == DICT_OF) {
            expect(p, ':');
            collect(p, &items, parse_expression(p));
        }
        if (kind(p) != close)
            expect(p, ',');
    }
    expect(p, close);
    return make_items(p, k, &items.nodes);
}

static struct node *parse_parentheses(struct parser *p)
{
    struct node *n;

    next(p);
    n = kind(p) == ')' ? make(p, TUPLE_OF) : parse_series(p, EXPRESSIONS);
    expect(p, ')');
    return n;
}

static bool is_constant_name(struct value name, struct value *v)
{
    static const char *const names[] = {"none", "None", "false", "False", "true", "True"};
    int i = 0;

    while (i < 6 && !jinja_is(name, names[i]))
        i++;
    *v = i < 2 ? none : i < 6 ? jinja_boolean(i >= 4) : name;
    return i < 6;
}

static struct node *parse_primary(struct parser *p)
{
    const struct token *t = peek(p, 0);
    struct node *n = NULL;
    struct value v;

    switch (t->kind) {
    case NAME: v = next(p).value; return is_constant_name(v, &v) ? make_constant(p, v) : make_variable(p, v);
    case TEXT: /* strings side by side are one */
        for (v = next(p).value; kind(p) == TEXT && !p->r->rc;)
            v = jinja_join(p->r, v, next(p).value);
        return make_constant(p, v);
    case WHOLE:
    case DECIMAL: return make_constant(p, next(p).value);
    case '(':
    case '[':
    case '{':
        if (enter(p))
            n = t->kind == '('   ? parse_parentheses(p)
                : t->kind == '[' ? parse_items(p, LIST_OF, ']')
                                 : parse_items(p, DICT_OF, '}');
        leave(p);
        break;
    default: jinja_fail(p->r, "unexpected %s", describe(p, t));
    }
    return n ? n : make(p, CONSTANT);
}

static struct node *parse_unary(struct parser *p, bool filters)
{
    int k = kind(p);
    struct node *n;

    if (k == '-' || k == '+') {
        next(p);
        n = enter(p) ? parse_unary(p, false) : NULL;
        n = make_two(p, SIGN, k == '-' ? '-' : '+', n, NULL);
        leave(p);
    } else {
        n = parse_primary(p);
    }
    return parse_postfix(p, n, filters);
}

static struct node *parse_joined(struct parser *p);

/* Operators that group to the left: + -, then * / // %, then **. */
static struct node *parse_calculation(struct parser *p, int level)
{
    static const struct {
        int token;
        enum operation op;
        int level;
    } row[] = {{'+', ADD, 0},
               {'-', SUBTRACT, 0},
               {'*', MULTIPLY, 1},
               {'/', DIVIDE, 1},
               {OVER_FLOOR, FLOOR_DIVIDE, 1},
               {'%', MODULO, 1},
               {POWER_OF, POWER, 2}};
    struct node *n = NULL, *right;

    for (size_t i = 0;;) {
        right = level == 0 ? parse_joined(p) : level == 1 ? parse_calculation(p, 2) : parse_unary(p, true);
        n = n ? make_two(p, CALCULATION, row[i].op, n, right) : right;
        for (i = 0; i < sizeof(row) / sizeof(row[0]); i++)
            if (row[i].token == kind(p) && row[i].level == level)
                break;
        if (i == sizeof(row) / sizeof(row[0]))
            return n;
        next(p);
    }
}

static struct node *parse_joined(struct parser *p)
{
    struct collected items = {.room = 0};

    do
        collect(p, &items, parse_calculation(p, 1));
    while (skip(p, '~'));
    return items.nodes.n == 1 ? items.nodes.v[0] : make_items(p, JOINED, &items.nodes);
}

/* Consumes a comparison; false when none is there. */
static bool parse_relation(struct parser *p, enum comparison *how)
{
    static const int token[] = {
        [EQUAL] = IS_EQUAL,           [UNEQUAL] = IS_UNEQUAL, [LESS] = '<',
        [LESS_EQUAL] = IS_LESS_EQUAL, [GREATER] = '>',        [GREATER_EQUAL] = IS_GREATER_EQUAL};

    for (*how = EQUAL; *how < IN; ++*how)
        if (skip(p, token[*how]))
            return true;
    if (at_name(p, "not") && peek(p, 1)->kind == NAME && jinja_is(peek(p, 1)->value, "in")) {
        *how = NOT_IN;
        next(p);
    }
    return skip_name(p, "in");
}

static struct node *parse_comparison(struct parser *p)
{
    struct node *first = parse_calculation(p, 0), *chain = NULL, **end = &chain;
    enum comparison how;

    while (parse_relation(p, &how)) {
        *end = make_two(p, COMPARISON, how, first, parse_calculation(p, 0));
        end = &(*end)->part[2];
    }
    return chain ? chain : first;
}

static struct node *parse_not(struct parser *p)
{
    struct node *n;

    if (!skip_name(p, "not"))
        return parse_comparison(p);
    n = make_two(p, NOT, 0, enter(p) ? parse_not(p) : NULL, NULL);
    leave(p);
    return n;
}

/* Operands of `and`, then of `or`. */
static struct node *parse_logic(struct parser *p, enum node_kind k)
{
    struct node *n = k == OR ? parse_logic(p, AND) : parse_not(p);

    while (skip_name(p, k == OR ? "or" : "and"))
        n = make_two(p, k, 0, n, k == OR ? parse_logic(p, AND) : parse_not(p));
    return n;
}

static struct node *parse_expression(struct parser *p)
{
    struct node *yes = parse_logic(p, OR), *n;

    while (skip_name(p, "if")) {
        n = make(p, CONDITIONAL);
        n->part[0] = parse_logic(p, OR);
        n->part[1] = yes;
        if (skip_name(p, "else")) {
            n->part[2] = enter(p) ? parse_expression(p) : NULL;
            leave(p);
        }
        yes = n;
    }
    return yes;
}

/* A name to assign to, or several in brackets. */
static struct node *parse_target(struct parser *p, enum series what)
{
    const struct token *t = peek(p, 0);
    struct node *n;
    struct value v;

    if (t->kind == '(' && enter(p)) {
        next(p);
        n = parse_series(p, what);
        expect(p, ')');
        leave(p);
        return n;
    }
    if (t->kind != NAME || is_constant_name(t->value, &v))
        jinja_fail(p->r, "can't assign to %s", describe(p, t));
    n = make(p, VARIABLE);
    n->variable.name = next(p).value;
    n->variable.number = number_of(p, n->variable.name);
    if (what == TARGETS_WITH_ATTRIBUTES && skip(p, '.')) {
        n->kind = NAMESPACE_TARGET;
        n->variable.attribute = expect(p, NAME).value;
    } else if (n->variable.number == p->j->loop && p->loops) {
        jinja_fail(p->r, "Can't assign to special loop variable in for-loop");
    }
    return n;
}

/* Expressions or targets with commas between them: one, or a tuple. */
static struct node *parse_series(struct parser *p, enum series what)
{
    struct collected items = {.room = 0};
    bool comma = false;

    while (!p->r->rc && kind(p) != PRINT_END && kind(p) != TAG_END && kind(p) != ')' && kind(p) != ']' &&
           !(what >= TARGETS && comma && at_name(p, "in"))) {
        collect(p, &items,
                what >= TARGETS       ? parse_target(p, what)
                : what == EXPRESSIONS ? parse_expression(p)
                                      : parse_logic(p, OR));
        comma |= kind(p) == ',';
        if (!skip(p, ','))
            break;
    }
    if (!comma && items.nodes.n)
        return items.nodes.v[0];
    if (!comma)
        jinja_fail(p->r, "Expected an expression, got %s", describe(p, peek(p, 0)));
    return make_items(p, TUPLE_OF, &items.nodes);
}

/* Statements */

static bool at_end(const struct parser *p)
{
    for (const char *end = p->ends; end && *end && kind(p) == NAME; end += *end == ' ') {
        size_t n = strcspn(end, " ");

        if (peek(p, 0)->value.size == n && memcmp(peek(p, 0)->value.bytes, end, n) == 0)
            return true;
        end += n;
    }
    return false;
}

static void fail_tag(struct parser *p, const char *what, const char *tag)
{
    if (p->ends)
        jinja_fail(p->r, "%s%s. Jinja was looking for one of the following tags: %s.", what, tag, p->ends);
    else
        jinja_fail(p->r, "%s%s.", what, tag);
}

static struct node *parse_statement(struct parser *p);

static void parse_nodes(struct parser *p, struct collected *body)
{
    while (!p->r->rc) {
        const struct token *t = peek(p, 0);
        struct node *n;

        switch (t->kind) {
        case DATA:
            n = make(p, OUTPUT_DATA);
            n->constant = next(p).value;
            collect(p, body, n);
            break;
        case PRINT_BEGIN:
            next(p);
            n = make(p, OUTPUT);
            collect(p, body, n);
            n->part[0] = parse_series(p, EXPRESSIONS);
            expect(p, PRINT_END);
            break;
        case TAG_BEGIN:
            next(p);
            if (at_end(p))
                return;
            collect(p, body, parse_statement(p));
            expect(p, TAG_END);
            break;
        default:
            if (p->ends)
                fail_tag(p, "Unexpected end of template", "");
            return;
        }
    }
}

/* The statements of a block up to one of ENDS, which becomes the current token. */
static struct nodes parse_body(struct parser *p, const char *ends)
{
    struct collected body = {.room = 0};
    const char *outer = p->ends;

    skip(p, ':');
    expect(p, TAG_END);
    if (enter(p)) {
        p->ends = ends;
        parse_nodes(p, &body);
        p->ends = outer;
    }
    leave(p);
    return body.nodes;
}

static struct nodes parse_whole_body(struct parser *p, const char *end)
{
    struct nodes body = parse_body(p, end);

    next(p);
    return body;
}

/* {% set x = value %}, {% set x %}text{% endset %}, or {% filter name %}text{% endfilter %}. */
static struct node *parse_set(struct parser *p)
{
    bool filter = jinja_is(p->tokens[p->at - 1].value, "filter");
    struct node *n = make(p, filter ? FILTER_BLOCK : SET);
    struct set_node *s = n->set = fresh(p, sizeof(*s));

    if (!filter)
        s->target = parse_series(p, TARGETS_WITH_ATTRIBUTES);
    if (!filter && skip(p, '=')) {
        s->value = parse_series(p, EXPRESSIONS);
        return n;
    }
    n->kind = filter ? FILTER_BLOCK : SET_BLOCK;
    s->value = parse_filters(p, make(p, BLOCK_TEXT), filter);
    s->body = parse_whole_body(p, filter ? "endfilter" : "endset");
    return n;
}

static struct node *parse_for(struct parser *p)
{
    struct node *n = make(p, FOR);
    struct for_node *f = n->loop = fresh(p, sizeof(*f));

    p->loops++;
    f->target = parse_series(p, TARGETS);
    if (!skip_name(p, "in"))
        jinja_fail(p->r, "expected token 'in', got %s", describe(p, peek(p, 0)));
    f->over = parse_series(p, EXPRESSIONS_BEFORE_IF);
    if (skip_name(p, "if"))
        f->test = parse_expression(p);
    f->body = parse_body(p, "endfor else");
    p->loops--;
    if (jinja_is(next(p).value, "else"))
        f->otherwise = parse_whole_body(p, "endfor");
    return n;
}

static struct node *parse_if(struct parser *p)
{
    struct node *n = make(p, IF), *branch = n;
    bool otherwise = false;

    for (;;) {
        struct if_node *f = branch->branch = fresh(p, sizeof(*f));
        struct value end;

        if (!otherwise)
            f->test = parse_series(p, EXPRESSIONS_BEFORE_IF);
        f->body = parse_body(p, otherwise ? "endif" : "elif else endif");
        end = next(p).value;
        if (p->r->rc || jinja_is(end, "endif"))
            return n;
        otherwise = jinja_is(end, "else");
        branch = f->next = make(p, IF);
    }
}

static void parse_signature(struct parser *p, struct macro_node *m)
{
    struct collected parameters = {.room = 0}, defaults = {.room = 0};

    expect(p, '(');
    while (kind(p) != ')' && !p->r->rc) {
        struct node *name;

        if (kind(p) != NAME)
            jinja_fail(p->r, "a macro's argument must be a name");
        name = parse_target(p, TARGETS);
        for (size_t i = 0; i < parameters.nodes.n; i++)
            if (parameters.nodes.v[i]->variable.number == name->variable.number)
                jinja_fail(p->r, "a macro has the same argument twice");
        collect(p, &parameters, name);
        if (skip(p, '='))
            collect(p, &defaults, parse_expression(p));
        else if (defaults.nodes.n)
            jinja_fail(p->r, "non-default argument follows default argument");
        if (kind(p) != ')')
            expect(p, ',');
    }
    expect(p, ')');
    m->parameters = parameters.nodes;
    m->defaults = defaults.nodes;
}

/* A macro, or a nameless one for another to call, or one that prints its body: {% generation %} marks what
 * the assistant wrote. */
static struct node *parse_macro(struct parser *p)
{
    struct value tag = p->tokens[p->at - 1].value;
    bool call = jinja_is(tag, "call"), named = jinja_is(tag, "macro");
    struct node *n = make(p, named ? MACRO_BLOCK : call ? CALL_BLOCK : GENERATION);
    struct macro_node *m = n->macro = fresh(p, sizeof(*m));
    unsigned uses = p->uses;
    int loops = p->loops;

    if (named && kind(p) != NAME)
        jinja_fail(p->r, "a macro must have a name");
    m->name = named ? parse_target(p, TARGETS)->variable.name : none;
    m->number = named ? number_of(p, m->name) : 0;
    p->uses = 0;
    p->loops = 0; /* break and continue do not reach a loop around it */
    if (named || (call && kind(p) == '('))
        parse_signature(p, m);
    if (call && (m->call = parse_expression(p))->kind != CALL)
        jinja_fail(p->r, "expected call");
    m->body = parse_whole_body(p, named ? "endmacro" : call ? "endcall" : "endgeneration");
    m->uses = p->uses;
    p->uses |= uses;
    p->loops = loops;
    return n;
}

static struct node *parse_jump(struct parser *p)
{
    bool stop = jinja_is(p->tokens[p->at - 1].value, "break");

    if (!p->loops)
        jinja_fail(p->r, "'%s' outside loop", stop ? "break" : "continue");
    return make(p, stop ? BREAK : CONTINUE);
}

static struct node *parse_statement(struct parser *p)
{
    static const struct {
        const char *tag;
        struct node *(*parse)(struct parser *p);
    } tags[] = {
        {"if", parse_if},       {"set", parse_set},       {"for", parse_for},
        {"macro", parse_macro}, {"call", parse_macro},    {"filter", parse_set},
        {"break", parse_jump},  {"continue", parse_jump}, {"generation", parse_macro},
    };
    static const char *const elsewhere[] = {"include", "import",     "from",  "extends", "block",
                                            "with",    "autoescape", "print", "do",      "trans"};
    const struct token *t = peek(p, 0);

    if (t->kind != NAME)
        jinja_fail(p->r, "tag name expected");
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
        if (skip_name(p, tags[i].tag))
            return tags[i].parse(p);
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        if (at_name(p, elsewhere[i]))
            jinja_fail(p->r, "the tag '%s' is not offered", elsewhere[i]);
    fail_tag(p, "Encountered unknown tag ", describe(p, t));
    return make(p, CONSTANT);
}

void jinja_parse_tokens(struct rendering *r, struct jinja *j, const struct token *tokens, size_t n)
{
    struct parser *p = jinja_allocate_array(r, 1, sizeof(*p));
    struct collected body = {.room = 0};

    if (!p)
        return;
    *p = (struct parser){.r = r, .j = j, .tokens = tokens, .n = n};
    j->names = jinja_dict(r);
    j->loop = number_of(p, jinja_literal("loop"));
    j->varargs = number_of(p, jinja_literal("varargs"));
    j->kwargs = number_of(p, jinja_literal("kwargs"));
    j->caller = number_of(p, jinja_literal("caller"));
    parse_nodes(p, &body);
    j->body = body.nodes;
}
