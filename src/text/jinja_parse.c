/* jinja_parse.c - the token stream, and the statements: what stands between {% and %}. */
#include "text/jinja_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja_expr.h"
#include "text/jinja_prim.h"
#include "text/jinja_str.h"

static const struct jtok end_of_template = {.type = JT_EOF};

const struct jtok *jinja_parse_peek(const struct jparse *p, size_t ahead)
{
    if (p->r->rc || p->at + ahead >= p->n)
        return p->n ? (p->r->rc ? &end_of_template : &p->tok[p->n - 1]) : &end_of_template;
    return &p->tok[p->at + ahead];
}

struct jtok jinja_parse_next(struct jparse *p)
{
    struct jtok t = *jinja_parse_peek(p, 0);

    if (p->at + 1 < p->n)
        p->at++;
    return t;
}

bool jinja_parse_skip(struct jparse *p, enum jtok_type t)
{
    if (jinja_parse_peek(p, 0)->type != t)
        return false;
    jinja_parse_next(p);
    return true;
}

const char *jinja_parse_describe(struct jparse *p, const struct jtok *t)
{
    char *text;
    size_t n;

    if (t->type != JT_NAME || !jv_is(t->value, JV_STR))
        return jinja_lex_name(t->type);
    n = t->value.u.str->n;
    text = jinja_parse_new(p, n + 3);
    if (p->r->rc)
        return "?";
    snprintf(text, n + 3, "'%.*s'", (int)n, t->value.u.str->p);
    return text;
}

struct jtok jinja_parse_expect(struct jparse *p, enum jtok_type t)
{
    const struct jtok *now = jinja_parse_peek(p, 0);

    if (now->type == t)
        return jinja_parse_next(p);
    if (now->type == JT_EOF)
        jinja_parse_fail(p, now->line, "unexpected end of template, expected %s", jinja_lex_name(t));
    else
        jinja_parse_fail(p, now->line, "expected token %s, got %s", jinja_lex_name(t),
                         jinja_parse_describe(p, now));
    return end_of_template;
}

bool jinja_parse_at(const struct jparse *p, const char *name)
{
    const struct jtok *t = jinja_parse_peek(p, 0);

    return t->type == JT_NAME && jinja_str_is(t->value, name);
}

bool jinja_parse_skip_name(struct jparse *p, const char *name)
{
    if (!jinja_parse_at(p, name))
        return false;
    jinja_parse_next(p);
    return true;
}

bool jinja_parse_expect_name(struct jparse *p, const char *name)
{
    if (jinja_parse_skip_name(p, name))
        return true;
    jinja_parse_fail(p, jinja_parse_peek(p, 0)->line, "expected token '%s', got %s", name,
                     jinja_parse_describe(p, jinja_parse_peek(p, 0)));
    return false;
}

void jinja_parse_fail(struct jparse *p, uint32_t line, const char *fmt, ...)
{
    char text[600];
    va_list ap;

    if (p->r->rc)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    p->r->line = line;
    jinja_run_fail(p->r, "%s", text);
}

void *jinja_parse_new(struct jparse *p, size_t bytes)
{
    void *m = jinja_run_zalloc(p->r, 1, bytes);

    if (m)
        return m;
    memset(p->spare, 0, sizeof(p->spare));
    return p->spare;
}

struct jn *jinja_parse_node(struct jparse *p, enum jn_kind kind, uint32_t line)
{
    struct jn *n = jinja_run_zalloc(p->r, 1, sizeof(*n));

    if (!n)
        n = &p->scrap;
    n->kind = (uint8_t)kind;
    n->line = line;
    n->depth = 1;
    return n;
}

void jinja_parse_push(struct jparse *p, struct jnodes *l, struct jn *n)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        struct jn **grown = jinja_run_alloc(p->r, cap * sizeof(*grown));

        if (!grown)
            return;
        if (l->n)
            memcpy(grown, l->v, l->n * sizeof(*grown));
        l->v = grown;
        l->cap = cap;
    }
    l->v[l->n++] = n;
}

struct jnlist jinja_parse_list(const struct jnodes *l)
{
    return (struct jnlist){.v = l->v, .n = l->n};
}

enum jtok_type jinja_parse_type(const struct jparse *p)
{
    return jinja_parse_peek(p, 0)->type;
}

uint32_t jinja_parse_line(const struct jparse *p)
{
    return jinja_parse_peek(p, 0)->line;
}

bool jinja_parse_enter(struct jparse *p)
{
    if (++p->depth > JPARSE_DEPTH_MAX)
        jinja_parse_fail(p, jinja_parse_line(p), "brackets and blocks are nested deeper than %d levels",
                         JPARSE_DEPTH_MAX);
    return p->r->rc == 0;
}

void jinja_parse_leave(struct jparse *p)
{
    p->depth--;
}

void jinja_parse_over(struct jparse *p, struct jn *n, const struct jn *child)
{
    if (child && child->depth >= n->depth)
        n->depth = child->depth + 1;
    if (n->depth > JPARSE_TREE_MAX)
        jinja_parse_fail(p, n->line, "an expression is nested deeper than %d levels", JPARSE_TREE_MAX);
}

void jinja_parse_over_list(struct jparse *p, struct jn *n, const struct jnlist *l)
{
    for (size_t i = 0; i < l->n; i++)
        jinja_parse_over(p, n, l->v[i]);
}

struct jn *jinja_parse_two(struct jparse *p, enum jn_kind kind, uint8_t op, struct jn *a, struct jn *b,
                           uint32_t line)
{
    struct jn *n = jinja_parse_node(p, kind, line);

    n->op = op;
    n->u.op2.a = a;
    n->u.op2.b = b;
    jinja_parse_over(p, n, a);
    jinja_parse_over(p, n, b);
    return n;
}

/* Ends of bodies are given as names with blanks between them: "elif else endif". */
static bool at_end(const struct jparse *p, const char *ends)
{
    const struct jtok *t = jinja_parse_peek(p, 0);

    while (*ends) {
        size_t n = strcspn(ends, " ");

        if (t->type == JT_NAME && t->value.u.str->n == n && memcmp(t->value.u.str->p, ends, n) == 0)
            return true;
        ends += n;
        ends += *ends == ' ';
    }
    return false;
}

static void fail_tag(struct jparse *p, const char *tag, uint32_t at)
{
    const char *ends = p->n_waiting ? p->waiting[p->n_waiting - 1] : NULL;
    char head[200];

    if (tag)
        snprintf(head, sizeof(head), "Encountered unknown tag %s.", tag);
    else
        snprintf(head, sizeof(head), "Unexpected end of template.");
    if (ends)
        jinja_parse_fail(
            p, at,
            "%s Jinja was looking for one of the following tags: %s. The innermost block that needs "
            "to be closed is '%s'.",
            head, ends, p->tag[p->n_waiting - 1]);
    else
        jinja_parse_fail(p, at, "%s", head);
}

static struct jn *parse_statement(struct jparse *p);

static void read_nodes(struct jparse *p, struct jnodes *body, const char *ends)
{
    while (!p->r->rc) {
        const struct jtok *t = jinja_parse_peek(p, 0);
        struct jn *n;

        switch (t->type) {
        case JT_DATA:
            n = jinja_parse_node(p, JN_DATA, t->line);
            n->u.value = t->value;
            jinja_parse_push(p, body, n);
            jinja_parse_next(p);
            break;
        case JT_VAR_BEGIN:
            jinja_parse_next(p);
            n = jinja_parse_node(p, JN_OUTPUT, t->line);
            n->escape = (uint8_t)p->escape;
            n->u.op2.a = jinja_expr_tuple(p, true, NULL);
            jinja_parse_push(p, body, n);
            jinja_parse_expect(p, JT_VAR_END);
            break;
        case JT_BLOCK_BEGIN:
            jinja_parse_next(p);
            if (ends && at_end(p, ends))
                return;
            jinja_parse_push(p, body, parse_statement(p));
            jinja_parse_expect(p, JT_BLOCK_END);
            break;
        default:
            if (ends)
                fail_tag(p, NULL, t->line);
            return;
        }
    }
}

/* The statements of a block up to one of ENDS, which becomes the current token. TAG is the block's own
 * name. */
static struct jnlist parse_body(struct jparse *p, const char *tag, const char *ends)
{
    struct jnodes body = {.v = NULL};

    jinja_parse_skip(p, JT_COLON);
    jinja_parse_expect(p, JT_BLOCK_END);
    if (++p->depth > JPARSE_DEPTH_MAX)
        jinja_parse_fail(p, jinja_parse_line(p), "brackets and blocks are nested deeper than %d levels",
                         JPARSE_DEPTH_MAX);
    if (!p->r->rc) {
        p->waiting[p->n_waiting] = ends;
        p->tag[p->n_waiting++] = tag;
        read_nodes(p, &body, ends);
        p->n_waiting--;
    }
    jinja_parse_leave(p);
    return jinja_parse_list(&body);
}

static struct jnlist parse_whole_body(struct jparse *p, const char *tag, const char *end)
{
    struct jnlist body = parse_body(p, tag, end);

    jinja_parse_next(p);
    return body;
}

static struct jn *parse_set(struct jparse *p, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_SET, at);
    struct jn_set *s = jinja_parse_new(p, sizeof(*s));

    n->u.set = s;
    s->target = jinja_expr_target(p, NULL, true);
    if (jinja_parse_skip(p, JT_ASSIGN)) {
        s->value = jinja_expr_tuple(p, true, NULL);
        return n;
    }
    n->kind = JN_SET_BLOCK;
    s->filter = jinja_prim_filters(p, NULL, false);
    s->body = parse_whole_body(p, "set", "endset");
    return n;
}

/* The loop's target once more: the condition is a function of its own and keeps its variables elsewhere. */
static struct jn *copy_target(struct jparse *p, const struct jn *n)
{
    struct jn *copy = jinja_parse_node(p, (enum jn_kind)n->kind, n->line);
    struct jnodes items = {.v = NULL};

    if (p->r->rc)
        return copy;
    *copy = *n;
    if (n->kind == JN_TUPLE) {
        for (size_t i = 0; i < n->u.items.n; i++)
            jinja_parse_push(p, &items, copy_target(p, n->u.items.v[i]));
        copy->u.items = jinja_parse_list(&items);
    }
    return copy;
}

static struct jn *parse_for(struct jparse *p, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_FOR, at);
    struct jn_for *f = jinja_parse_new(p, sizeof(*f));

    n->u.for_ = f;
    f->target = jinja_expr_target(p, "in", false);
    jinja_parse_expect_name(p, "in");
    f->over = jinja_expr_tuple(p, false, "recursive");
    if (jinja_parse_skip_name(p, "if")) {
        f->test = jinja_expr_parse(p, true);
        f->test_target = copy_target(p, f->target);
    }
    f->recursive = jinja_parse_skip_name(p, "recursive");
    f->body = parse_body(p, "for", "endfor else");
    if (!jinja_str_is(jinja_parse_next(p).value, "endfor") && !p->r->rc)
        f->otherwise = parse_whole_body(p, "for", "endfor");
    return n;
}

static struct jn *parse_if(struct jparse *p, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_IF, at), *result = n;
    struct jnodes elifs = {.v = NULL};
    struct jn_if *first = jinja_parse_new(p, sizeof(*first)), *f = first;
    struct jtok t;

    for (;;) {
        n->u.if_ = f;
        f->test = jinja_expr_tuple(p, false, NULL);
        f->body = parse_body(p, "if", "elif else endif");
        t = jinja_parse_next(p);
        if (p->r->rc || !jinja_str_is(t.value, "elif"))
            break;
        n = jinja_parse_node(p, JN_IF, jinja_parse_line(p));
        f = jinja_parse_new(p, sizeof(*f));
        jinja_parse_push(p, &elifs, n);
    }
    if (!p->r->rc && jinja_str_is(t.value, "else"))
        first->otherwise = parse_whole_body(p, "if", "endif");
    first->elifs = jinja_parse_list(&elifs);
    return result;
}

static struct jn *parse_with(struct jparse *p, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_WITH, at);
    struct jn_with *w = jinja_parse_new(p, sizeof(*w));
    struct jnodes targets = {.v = NULL}, values = {.v = NULL};

    n->u.with = w;
    while (jinja_parse_peek(p, 0)->type != JT_BLOCK_END && !p->r->rc) {
        if (targets.n)
            jinja_parse_expect(p, JT_COMMA);
        jinja_parse_push(p, &targets, jinja_expr_target(p, NULL, false));
        jinja_parse_expect(p, JT_ASSIGN);
        jinja_parse_push(p, &values, jinja_expr_parse(p, true));
    }
    w->targets = jinja_parse_list(&targets);
    w->values = jinja_parse_list(&values);
    w->body = parse_whole_body(p, "with", "endwith");
    return n;
}

static struct jn *parse_autoescape(struct jparse *p, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_AUTOESCAPE, at);
    struct jn_body *b = jinja_parse_new(p, sizeof(*b));
    enum jescape outer = p->escape;

    n->u.body = b;
    b->head = jinja_expr_parse(p, true);
    if (b->head->kind == JN_CONST)
        p->escape = jinja_val_true(b->head->u.value) ? JESCAPE_YES : JESCAPE_NO;
    else
        p->escape = JESCAPE_DYNAMIC;
    b->body = parse_whole_body(p, "autoescape", "endautoescape");
    p->escape = outer;
    return n;
}

static struct jn *parse_block(struct jparse *p, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_BLOCK, at);
    struct jn_body *b = jinja_parse_new(p, sizeof(*b));

    n->u.body = b;
    b->name = jinja_parse_expect(p, JT_NAME).value;
    b->scoped = jinja_parse_skip_name(p, "scoped");
    b->required = jinja_parse_skip_name(p, "required");
    b->body = parse_whole_body(p, "block", "endblock");
    if (!p->r->rc && jinja_parse_peek(p, 0)->type == JT_NAME &&
        jinja_val_same(jinja_parse_peek(p, 0)->value, b->name))
        jinja_parse_next(p);
    return n;
}

static void parse_signature(struct jparse *p, struct jn_macro *m)
{
    struct jnodes params = {.v = NULL}, defaults = {.v = NULL};

    jinja_parse_expect(p, JT_LPAREN);
    while (jinja_parse_peek(p, 0)->type != JT_RPAREN && !p->r->rc) {
        struct jn *name;

        if (params.n)
            jinja_parse_expect(p, JT_COMMA);
        name = jinja_expr_name(p);
        for (size_t i = 0; i < params.n && !p->r->rc; i++)
            if (jinja_val_same(params.v[i]->u.name.id, name->u.name.id))
                jinja_parse_fail(p, name->line, "a macro has the same argument twice");
        jinja_parse_push(p, &params, name);
        if (jinja_parse_skip(p, JT_ASSIGN))
            jinja_parse_push(p, &defaults, jinja_expr_parse(p, true));
        else if (defaults.n)
            jinja_parse_fail(p, jinja_parse_line(p), "non-default argument follows default argument");
    }
    jinja_parse_expect(p, JT_RPAREN);
    m->params = jinja_parse_list(&params);
    m->defaults = jinja_parse_list(&defaults);
}

static struct jn *parse_macro(struct jparse *p, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_MACRO, at);
    struct jn_macro *m = jinja_parse_new(p, sizeof(*m));

    n->u.macro = m;
    m->name = jinja_expr_name(p)->u.name.id;
    parse_signature(p, m);
    m->body = parse_whole_body(p, "macro", "endmacro");
    return n;
}

static struct jn *parse_call_block(struct jparse *p, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_CALL_BLOCK, at);
    struct jn_macro *m = jinja_parse_new(p, sizeof(*m));

    n->u.macro = m;
    n->escape = (uint8_t)p->escape;
    m->name = jv_none();
    if (jinja_parse_peek(p, 0)->type == JT_LPAREN)
        parse_signature(p, m);
    m->call = jinja_expr_parse(p, true);
    if (m->call->kind != JN_CALL)
        jinja_parse_fail(p, at, "expected call");
    m->body = parse_whole_body(p, "call", "endcall");
    return n;
}

/* {% generation %}: marks what the assistant wrote; for rendering it is a call block that prints its body. */
static struct jn *parse_generation(struct jparse *p, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_GENERATION, at);
    struct jn_macro *m = jinja_parse_new(p, sizeof(*m));

    n->u.macro = m;
    m->name = jv_none();
    m->body = parse_whole_body(p, "generation", "endgeneration");
    return n;
}

static struct jn *parse_filter_block(struct jparse *p, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_FILTER_BLOCK, at);
    struct jn_body *b = jinja_parse_new(p, sizeof(*b));

    n->u.body = b;
    n->escape = (uint8_t)p->escape;
    b->head = jinja_prim_filters(p, NULL, true);
    b->body = parse_whole_body(p, "filter", "endfilter");
    return n;
}

/* {% print a, b %} */
static struct jn *parse_print(struct jparse *p, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_OUTPUT, at);
    struct jnodes items = {.v = NULL};

    n->escape = (uint8_t)p->escape;
    while (jinja_parse_peek(p, 0)->type != JT_BLOCK_END && !p->r->rc) {
        if (items.n)
            jinja_parse_expect(p, JT_COMMA);
        jinja_parse_push(p, &items, jinja_expr_parse(p, true));
    }
    n->u.op2.a = jinja_parse_node(p, JN_CONCAT, at);
    n->u.op2.a->u.items = jinja_parse_list(&items);
    n->u.op2.a->escape = (uint8_t)p->escape;
    return n;
}

/* include, import, from and extends parse, and fail when they run: a chat template stands alone. */
static struct jn *parse_unavailable(struct jparse *p, const char *what, uint32_t at)
{
    struct jn *n = jinja_parse_node(p, JN_UNAVAILABLE, at);

    n->u.value = jinja_str_lit(p->r, what);
    while (jinja_parse_peek(p, 0)->type != JT_BLOCK_END && jinja_parse_peek(p, 0)->type != JT_EOF)
        jinja_parse_next(p);
    return n;
}

static struct jn *parse_statement(struct jparse *p)
{
    static const struct {
        const char *tag;
        struct jn *(*parse)(struct jparse *p, uint32_t at);
    } tags[] = {
        {"if", parse_if},
        {"set", parse_set},
        {"for", parse_for},
        {"macro", parse_macro},
        {"with", parse_with},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"generation", parse_generation},
        {"block", parse_block},
        {"print", parse_print},
        {"autoescape", parse_autoescape},
    };
    static const char *const elsewhere[] = {"include", "import", "from", "extends"};
    const struct jtok *t = jinja_parse_peek(p, 0);

    if (t->type != JT_NAME) {
        jinja_parse_fail(p, t->line, "tag name expected");
        return &p->scrap;
    }
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
        if (jinja_parse_skip_name(p, tags[i].tag))
            return tags[i].parse(p, t->line);
    if (jinja_parse_skip_name(p, "break"))
        return jinja_parse_node(p, JN_BREAK, t->line);
    if (jinja_parse_skip_name(p, "continue"))
        return jinja_parse_node(p, JN_CONTINUE, t->line);
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        if (jinja_parse_skip_name(p, elsewhere[i]))
            return parse_unavailable(p, elsewhere[i], t->line);
    fail_tag(p, jinja_parse_describe(p, t), t->line);
    return &p->scrap;
}

struct jnlist jinja_parse_template(struct jparse *p)
{
    struct jnodes body = {.v = NULL};

    read_nodes(p, &body, NULL);
    return jinja_parse_list(&body);
}
