/* grammar.c - interns expressions over regular expressions and rules, and computes the heads of a position on
 * demand (partial derivatives, Antimirov 1996). */
#include "text/grammar/automata/grammar.h"

#include <string.h>

#include "base/mem.h"

enum kind { END, NEVER, TERM, CALL, SEQUENCE, CHOICE, REPEAT };
enum { FIRST_SLOTS = 256 };

struct grammar_node {
    uint8_t kind;
    bool may_end;   /* nullable: matches the empty text */
    bool has_text;  /* matches at least one text */
    bool has_heads; /* HEAD and N_HEADS are set */
    /* Operands. TERM: regex a. CALL: rule a. SEQUENCE: a, b. CHOICE: list[a, a + b). REPEAT: a{m,n}. */
    uint32_t a, b, m, n;
    uint32_t head, n_heads; /* range of grammar.head */
};

struct grammar_rule {
    uint32_t body;
    bool may_end, has_text;
};

/* ---- the table of nodes ---- */

static size_t hash_node(const struct grammar *g, const struct grammar_node *x)
{
    uint64_t h = x->kind, v[2] = {(uint64_t)x->a << 32 | x->b, (uint64_t)x->m << 32 | x->n};

    if (x->kind == CHOICE)
        v[0] = x->b;
    for (size_t i = 0; i < 2 + (x->kind == CHOICE ? x->b : 0); i++) {
        h = (h ^ (i < 2 ? v[i] : g->list[x->a + i - 2])) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h;
}

static bool is_same(const struct grammar *g, const struct grammar_node *x, const struct grammar_node *y)
{
    if (x->kind != y->kind || x->b != y->b || x->m != y->m || x->n != y->n)
        return false;
    if (x->kind == CHOICE)
        return memcmp(g->list + x->a, g->list + y->a, x->b * sizeof(*g->list)) == 0;
    return x->a == y->a;
}

static bool grow_slots(struct grammar *g)
{
    size_t n = g->n_slots ? 2 * g->n_slots : FIRST_SLOTS;
    uint32_t *slot = mem_zalloc(n, sizeof(*slot), MEM_TEXT);

    if (!slot) {
        g->regex.fault = REGEX_NO_MEMORY;
        return false;
    }
    for (size_t i = 0; i < g->n; i++) {
        size_t at = hash_node(g, &g->node[i]) & (n - 1);

        while (slot[at])
            at = (at + 1) & (n - 1);
        slot[at] = (uint32_t)i + 1;
    }
    mem_free(g->slot);
    g->regex.bytes += (n - g->n_slots) * sizeof(*slot);
    g->slot = slot;
    g->n_slots = n;
    return true;
}

/* Sets may_end and has_text of X from its operands. A rule without a body counts as matching no text. */
static void grammar_describe(struct grammar *g, struct grammar_node *x)
{
    const struct grammar_node *a = x->kind == SEQUENCE || x->kind == REPEAT ? &g->node[x->a] : NULL;

    x->may_end = x->kind == END || (x->kind == TERM && regex_matches_empty(&g->regex, x->a)) ||
                 (x->kind == CALL && g->rule[x->a].may_end) ||
                 (x->kind == SEQUENCE && a->may_end && g->node[x->b].may_end) ||
                 (x->kind == REPEAT && (x->m == 0 || a->may_end));
    x->has_text = x->kind == END || x->kind == TERM || (x->kind == CALL && g->rule[x->a].has_text) ||
                  (x->kind == SEQUENCE && a->has_text && g->node[x->b].has_text) ||
                  (x->kind == REPEAT && (x->m == 0 || a->has_text));
    for (uint32_t i = 0; x->kind == CHOICE && i < x->b; i++) {
        x->may_end = x->may_end || g->node[g->list[x->a + i]].may_end;
        x->has_text = x->has_text || g->node[g->list[x->a + i]].has_text;
    }
}

static uint32_t intern(struct grammar *g, struct grammar_node x, bool *is_new)
{
    size_t at;

    *is_new = false;
    if (g->regex.fault || (2 * (g->n + 1) > g->n_slots && !grow_slots(g)))
        return GRAMMAR_NEVER;
    regex_charge(&g->regex, 1 + (x.kind == CHOICE ? x.b / 16 : 0));
    for (at = hash_node(g, &x) & (g->n_slots - 1); g->slot[at]; at = (at + 1) & (g->n_slots - 1))
        if (is_same(g, &g->node[g->slot[at] - 1], &x))
            return g->slot[at] - 1;
    if (!regex_reserve(&g->regex, (void **)&g->node, &g->cap, g->n, 1, sizeof(*g->node)))
        return GRAMMAR_NEVER;
    grammar_describe(g, &x);
    g->node[g->n] = x;
    g->slot[at] = (uint32_t)++g->n;
    *is_new = true;
    return (uint32_t)g->n - 1;
}

static uint32_t grammar_make(struct grammar *g, unsigned kind, uint32_t a, uint32_t b, uint32_t m, uint32_t n)
{
    bool is_new;

    return intern(g, (struct grammar_node){.kind = (uint8_t)kind, .a = a, .b = b, .m = m, .n = n}, &is_new);
}

int grammar_open(struct grammar *g, size_t max_bytes, size_t max_steps)
{
    *g = (struct grammar){0};
    if (regex_open(&g->regex, max_bytes, max_steps) != 0)
        return ERR_NOMEM;
    grammar_make(g, END, 0, 0, 0, 0);
    grammar_make(g, NEVER, 0, 0, 0, 0);
    if (!g->regex.fault)
        return 0;
    grammar_close(g);
    return ERR_NOMEM;
}

void grammar_close(struct grammar *g)
{
    regex_close(&g->regex);
    mem_free(g->node);
    mem_free(g->list);
    mem_free(g->slot);
    mem_free(g->rule);
    mem_free(g->head);
    mem_free(g->spine);
    tuples_fini(&g->work);
    *g = (struct grammar){0};
}

/* ---- making ---- */

uint32_t grammar_term(struct grammar *g, uint32_t regex)
{
    if (regex == REGEX_EMPTY)
        return GRAMMAR_END;
    return regex_is_empty(&g->regex, regex) ? GRAMMAR_NEVER : grammar_make(g, TERM, regex, 0, 0, 0);
}

uint32_t grammar_text(struct grammar *g, const char *text)
{
    return grammar_term(g, regex_literal(&g->regex, text, strlen(text)));
}

uint32_t grammar_sequence(struct grammar *g, uint32_t a, uint32_t b)
{
    size_t start = g->n_spine;

    if (a == GRAMMAR_NEVER || b == GRAMMAR_NEVER)
        return GRAMMAR_NEVER;
    if (b == GRAMMAR_END)
        return a;
    for (; g->node[a].kind == SEQUENCE; a = g->node[a].b) {
        if (!regex_reserve(&g->regex, (void **)&g->spine, &g->cap_spine, g->n_spine, 1, sizeof(*g->spine)))
            return GRAMMAR_NEVER;
        g->spine[g->n_spine++] = g->node[a].a;
    }
    for (;;) {
        b = a == GRAMMAR_END ? b : grammar_make(g, SEQUENCE, a, b, 0, 0);
        if (g->n_spine == start)
            return b;
        a = g->spine[--g->n_spine];
    }
}

uint32_t grammar_choice(struct grammar *g, const uint32_t *of, size_t n)
{
    size_t used = g->n_list;
    bool is_new;
    uint32_t r;

    if (!regex_reserve(&g->regex, (void **)&g->list, &g->cap_list, used, n, sizeof(*g->list)))
        return GRAMMAR_NEVER;
    for (size_t i = 0; i < n; i++)
        if (of[i] != GRAMMAR_NEVER && !(used > g->n_list && g->list[used - 1] == of[i]))
            g->list[used++] = of[i];
    if (used - g->n_list <= 1)
        return used == g->n_list ? GRAMMAR_NEVER : g->list[g->n_list];
    r = intern(
        g, (struct grammar_node){.kind = CHOICE, .a = (uint32_t)g->n_list, .b = (uint32_t)(used - g->n_list)},
        &is_new);
    g->n_list = is_new ? used : g->n_list;
    return r;
}

uint32_t grammar_either(struct grammar *g, uint32_t a, uint32_t b)
{
    return grammar_choice(g, (uint32_t[]){a, b}, 2);
}

uint32_t grammar_repeat(struct grammar *g, uint32_t a, uint32_t least, uint32_t most)
{
    ASSERT(least <= most, "%u %u", least, most);
    if (most == 0 || a == GRAMMAR_END)
        return GRAMMAR_END;
    if (a == GRAMMAR_NEVER)
        return least == 0 ? GRAMMAR_END : GRAMMAR_NEVER;
    return least == 1 && most == 1 ? a : grammar_make(g, REPEAT, a, 0, least, most);
}

uint32_t grammar_rule(struct grammar *g)
{
    if (!regex_reserve(&g->regex, (void **)&g->rule, &g->cap_rules, g->n_rules, 1, sizeof(*g->rule)))
        return 0;
    g->rule[g->n_rules] = (struct grammar_rule){.body = GRAMMAR_NEVER};
    return (uint32_t)g->n_rules++;
}

void grammar_define(struct grammar *g, uint32_t rule, uint32_t body)
{
    if (rule < g->n_rules)
        g->rule[rule].body = body;
}

uint32_t grammar_call(struct grammar *g, uint32_t rule)
{
    return g->regex.fault ? GRAMMAR_NEVER : grammar_make(g, CALL, rule, 0, 0, 0);
}

int grammar_fault(const struct grammar *g, struct err *e)
{
    switch (g->regex.fault) {
    case REGEX_FINE:
    case REGEX_PAUSED: return 0;
    case REGEX_NO_MEMORY: return err_nomem(e, "a grammar");
    case REGEX_OVER_MEMORY:
        return err_set(e, ERR_NOSPACE, "the grammar needs more than the limit of %zu MiB of memory",
                       g->regex.max_bytes >> 20);
    case REGEX_OVER_DEPTH:
        return err_set(e, ERR_NOSPACE, "the grammar is nested deeper than %d", REGEX_MOST_DEPTH);
    case REGEX_OVER_WORK: break;
    }
    return err_set(e, ERR_NOSPACE, "the grammar is too complex: it needs more than %zu steps",
                   g->regex.most_steps);
}

/* For each expression, the expressions that depend on it: expressions with it as an operand and, if it is the body of a
 * rule, the calls of that rule. */
struct uses {
    uint32_t *first; /* [n + 1] the start of each expression's range in BY */
    uint32_t *by;    /* [n_by] dependent expressions */
    uint32_t *todo;  /* [2 * n_by] stack: expressions whose operand has changed */
    size_t n_by, n_todo;
};

/* Returns operand I of X. If X has fewer operands, returns GRAMMAR_NEVER. */
static uint32_t part_of(const struct grammar *g, const struct grammar_node *x, uint32_t i)
{
    switch ((enum kind)x->kind) {
    case CALL: return i == 0 ? g->rule[x->a].body : GRAMMAR_NEVER;
    case SEQUENCE: return i == 0 ? x->a : i == 1 ? x->b : GRAMMAR_NEVER;
    case CHOICE: return i < x->b ? g->list[x->a + i] : GRAMMAR_NEVER;
    case REPEAT: return i == 0 ? x->a : GRAMMAR_NEVER;
    case END:
    case NEVER:
    case TERM: break;
    }
    return GRAMMAR_NEVER;
}

/* Builds the lists of U. False: out of memory. */
static bool find_uses(const struct grammar *g, struct uses *u)
{
    uint32_t part, sum = 0;

    u->first = mem_zalloc(g->n + 1, sizeof(*u->first), MEM_TEXT);
    for (size_t i = 0; i < g->n && u->first; i++)
        for (uint32_t k = 0; (part = part_of(g, &g->node[i], k)) != GRAMMAR_NEVER; k++, u->n_by++)
            u->first[part]++;
    u->by = mem_zalloc(u->n_by, sizeof(*u->by), MEM_TEXT);
    u->todo = mem_zalloc(u->n_by, 2 * sizeof(*u->todo), MEM_TEXT);
    if (!u->first || !u->by || !u->todo)
        return false;
    for (size_t i = 0; i <= g->n; i++) /* first[i] is first the end of range i, then moved to its start */
        sum = u->first[i] += sum;
    for (size_t i = g->n; i-- > 0;)
        for (uint32_t k = 0; (part = part_of(g, &g->node[i], k)) != GRAMMAR_NEVER; k++)
            u->by[--u->first[part]] = (uint32_t)i;
    return true;
}

/* Recomputes may_end and has_text of I. Pushes the expressions that depend on I if they changed. */
static void settle_one(struct grammar *g, struct uses *u, uint32_t i)
{
    struct grammar_node *x = &g->node[i];
    bool may_end = x->may_end, has_text = x->has_text;

    if (x->kind == CALL) {
        g->rule[x->a].may_end = g->node[g->rule[x->a].body].may_end;
        g->rule[x->a].has_text = g->node[g->rule[x->a].body].has_text;
    }
    grammar_describe(g, x);
    if (x->may_end != may_end || x->has_text != has_text)
        for (uint32_t k = u->first[i]; k < u->first[i + 1]; k++)
            u->todo[u->n_todo++] = u->by[k];
}

/* Computes, as a fixed point, which rules and expressions match the empty text, and which match at least one
 * text. Each expression can change only twice, so the stack has at most two entries for each dependency. */
static void settle(struct grammar *g)
{
    struct uses u = {0};

    regex_charge(&g->regex, g->n / 8);
    if (!find_uses(g, &u)) {
        g->regex.fault = REGEX_NO_MEMORY;
    } else {
        for (size_t i = 0; i < g->n; i++)
            settle_one(g, &u, (uint32_t)i);
        while (u.n_todo > 0)
            settle_one(g, &u, u.todo[--u.n_todo]);
        for (size_t i = 0; i < g->n_rules; i++) {
            g->rule[i].may_end = g->node[g->rule[i].body].may_end;
            g->rule[i].has_text = g->node[g->rule[i].body].has_text;
        }
    }
    mem_free(u.first);
    mem_free(u.by);
    mem_free(u.todo);
}

int grammar_finish(struct grammar *g, uint32_t start, struct err *e)
{
    g->start = grammar_rule(g);
    grammar_define(g, g->start, start);
    if (g->regex.fault)
        return grammar_fault(g, e);
    settle(g);
    if (g->regex.fault)
        return grammar_fault(g, e);
    return g->rule[g->start].has_text ? 0 : err_set(e, ERR_UNSUPPORTED, "no text matches the grammar");
}

/* ---- reading a finished grammar ---- */

uint32_t grammar_body(const struct grammar *g, uint32_t rule)
{
    return g->rule[rule].body;
}

bool grammar_may_end(const struct grammar *g, uint32_t position)
{
    return g->node[position].may_end;
}

static void put_head(struct grammar *g, uint32_t symbol, uint32_t number, uint32_t rest)
{
    if (g->node[rest].has_text &&
        regex_reserve(&g->regex, (void **)&g->head, &g->cap_heads, g->n_heads, 1, sizeof(*g->head)))
        g->head[g->n_heads++] = (struct grammar_head){symbol, number, rest};
}

/* Adds the pair (expression X, position REST) to the pending pairs, unless X matches no text. */
static void rule_add(struct grammar *g, uint32_t x, uint32_t rest)
{
    if (g->node[x].has_text && tuples_add(&g->work, (struct tuple){{x, rest}}) == TUPLES_NO_MEMORY)
        g->regex.fault = REGEX_NO_MEMORY;
}

/* Appends the heads of POSITION to g->head. */
static void add_heads(struct grammar *g, uint32_t position)
{
    tuples_clear(&g->work);
    rule_add(g, position, GRAMMAR_END);
    for (size_t i = 0; i < g->work.n && regex_charge(&g->regex, 1); i++) {
        struct grammar_node x = g->node[g->work.tuple[i].v[0]];
        uint32_t rest = g->work.tuple[i].v[1];

        switch ((enum kind)x.kind) {
        case END:
        case NEVER: break;
        case TERM: put_head(g, GRAMMAR_TERM, x.a, rest); break;
        case CALL: put_head(g, GRAMMAR_RULE, x.a, rest); break;
        case SEQUENCE:
            rule_add(g, x.a, grammar_sequence(g, x.b, rest));
            if (g->node[x.a].may_end)
                rule_add(g, x.b, rest);
            break;
        case CHOICE:
            regex_charge(&g->regex, x.b / 4);
            for (uint32_t k = 0; k < x.b; k++)
                rule_add(g, g->list[x.a + k], rest);
            break;
        case REPEAT:
            rule_add(g, x.a,
                     grammar_sequence(g,
                                      grammar_repeat(g, x.a, x.m > 0 ? x.m - 1 : 0,
                                                     x.n == GRAMMAR_NO_LIMIT ? x.n : x.n - 1),
                                      rest));
        }
    }
}

size_t grammar_heads(struct grammar *g, uint32_t position, const struct grammar_head **heads)
{
    if (!g->node[position].has_heads) {
        size_t first = g->n_heads;

        add_heads(g, position);
        if (g->regex.fault) {
            g->n_heads = first;
            return 0;
        }
        g->node[position].head = (uint32_t)first;
        g->node[position].n_heads = (uint32_t)(g->n_heads - first);
        g->node[position].has_heads = true;
    }
    *heads = g->node[position].n_heads ? g->head + g->node[position].head : NULL;
    return g->node[position].n_heads;
}

uint32_t grammar_clamp(struct grammar *g, uint32_t position, uint32_t most)
{
    struct grammar_node x = g->node[position];

    if (x.kind == SEQUENCE) {
        uint32_t a = grammar_clamp(g, x.a, most);

        return grammar_sequence(g, a, x.b);
    }
    if (x.kind != REPEAT || g->node[x.a].may_end)
        return position;
    return grammar_repeat(g, x.a, x.m > most ? most + 1 : x.m, x.n > most ? GRAMMAR_NO_LIMIT : x.n);
}
