/* schema_properties.c - builds the expression of an object from its end to its start. Before member I, state[k]
 * has the expression of the rest of the object if K properties are already written. K is counted only as far
 * as minProperties and maxProperties need it, so optional members form a chain and not a product.
 *
 * The names of optional members that may come next, and of the required one after them, are a tree of common
 * prefixes (key_tree.h): a position has few alternatives, however many names may come. */
#include "text/grammar/schema/schema_properties.h"

#include <string.h>

#include "text/grammar/schema/key_tree.h"
#include "text/grammar/schema/schema_read.h"
#include "text/grammar/schema/schema_value.h"

enum { MOST_STATES = 200000, MOST_PLACES = 64, MOST_FREE = 4, MOST_FREE_STATES = 4000 };

/* FEWEST_NAMES: members of objects whose names become a tree. MOST_TREE_STEPS: expressions made for trees. */
enum { FEWEST_NAMES = 4, MOST_TREE_STEPS = 400000 };

/* The rest of an object in one state of its counts or free members. */
struct state {
    uint32_t at;   /* the expression of the rest */
    uint32_t tail; /* the part of AT without the names of the tree */
    struct key_tree_names names;
};

struct properties {
    struct schema_compiler *c;
    const struct schema_object *o;
    const struct schema_member **member; /* [n] members that can have a value */
    size_t n;
    uint32_t not_members;  /* regular expression of the names that are not members */
    uint32_t comma, close; /* regular expressions of "," and "}" */
    uint32_t other;        /* the expression of a property that is not a member; GRAMMAR_NEVER: not allowed */
    uint32_t some;         /* the expression of a property that is not a member and satisfies o->some[0] */
    bool is_closed;        /* a property that is not a member needs an entry of o->other with is_described */
    bool has_tree;         /* the names are in TREE */
    struct key_tree tree;
};

static uint32_t term(struct properties *p, uint32_t regex)
{
    return grammar_term(p->c->g, regex);
}

/* Returns the expression of a property whose name matches NAME and whose value matches VALUE, after a comma
 * unless FIRST. */
static uint32_t property(struct properties *p, bool first, uint32_t name, uint32_t value)
{
    struct schema_compiler *c = p->c;
    uint32_t r = regex_concat(c->s, json_text_quoted(&c->text, name), schema_mark(c, false, ':', true));

    if (value == GRAMMAR_NEVER || name == REGEX_NOTHING)
        return GRAMMAR_NEVER;
    return grammar_sequence(c->g, term(p, first ? r : regex_concat(c->s, p->comma, r)), value);
}

/* Returns the expression of a comma followed by the property X. */
static uint32_t next(struct properties *p, uint32_t x)
{
    return grammar_sequence(p->c->g, term(p, p->comma), x);
}

/* True if answers may have properties of the entry X of o->other. */
static bool is_written(const struct properties *p, const struct schema_names *x)
{
    return x->term != SCHEMA_NONE && (x->is_described || !p->is_closed);
}

/* Returns the expression of one property that is not a member, without a comma. SOME, if not NULL, is a
 * further condition on its name and value. */
static uint32_t other_properties(struct properties *p, const struct schema_names *some)
{
    struct schema_compiler *c = p->c;
    const struct schema_object *o = p->o;
    uint32_t *of = schema_alloc(c, o->n_others, sizeof(*of));

    for (size_t i = 0; of && i < o->n_others; i++) {
        uint32_t keys = o->other[i].keys, value = o->other[i].term;

        of[i] = GRAMMAR_NEVER;
        if (!is_written(p, &o->other[i]))
            continue;
        if (some) {
            keys = schema_regex_and(c, keys, some->keys, c->text.string);
            value = schema_and(c, value, some->term);
        }
        if (value == SCHEMA_NONE || !schema_work(c, 1))
            continue;
        keys = schema_regex_and(c, keys, p->not_members, c->text.string);
        of[i] = keys == REGEX_NOTHING ? GRAMMAR_NEVER : property(p, true, keys, schema_value(c, value));
    }
    return of ? grammar_choice(c->g, of, o->n_others) : GRAMMAR_NEVER;
}

/* Returns the expression of LEAST to MOST properties that are not members. FIRST: they are the first
 * properties of the object, so no comma precedes the first of them. */
static uint32_t others(struct properties *p, bool first, uint32_t least, uint32_t most)
{
    struct grammar *g = p->c->g;
    uint32_t more = most == SCHEMA_NO_LIMIT ? most : most - 1, r;

    if (p->other == GRAMMAR_NEVER || most < least || most == 0)
        return least == 0 ? GRAMMAR_END : GRAMMAR_NEVER;
    if (!first)
        return grammar_repeat(g, next(p, p->other), least, most);
    r = grammar_sequence(g, p->other, grammar_repeat(g, next(p, p->other), least ? least - 1 : 0, more));
    return least == 0 ? grammar_either(g, GRAMMAR_END, r) : r;
}

/* Returns the expression of LEAST to MOST properties that are not members, of which at least one satisfies
 * o->some[0]. */
static uint32_t others_with_some(struct properties *p, bool first, uint32_t least, uint32_t most)
{
    struct grammar *g = p->c->g;
    uint32_t of[MOST_PLACES], n = 0, before = 0;
    bool is_last = false;

    /* One alternative per number of properties before p->some; the last one covers all larger numbers. */
    for (; !is_last && (most == SCHEMA_NO_LIMIT || before < most); before++) {
        bool at_front = first && before == 0;
        uint32_t front, behind = least > before + 1 ? least - before - 1 : 0;

        if (n == MOST_PLACES) {
            schema_over_limit(p->c, "minProperties",
                              "counting so many properties under `not` is not supported");
            return GRAMMAR_NEVER;
        }
        is_last = most == SCHEMA_NO_LIMIT && !at_front && before + 1 >= least;
        front = at_front ? GRAMMAR_END : others(p, first, before, is_last ? SCHEMA_NO_LIMIT : before);
        front = grammar_sequence(g, front, at_front ? p->some : next(p, p->some));
        of[n++] = grammar_sequence(
            g, front, others(p, false, behind, most == SCHEMA_NO_LIMIT ? most : most - before - 1));
    }
    return grammar_choice(g, of, n);
}

/* Returns the expression of the rest of the object after its members: LEAST to MOST properties that are not members,
 * and the closing brace. */
static uint32_t rest(struct properties *p, bool first, uint32_t least, uint32_t most)
{
    struct schema_compiler *c = p->c;
    struct grammar *g = c->g;
    uint32_t r, close = term(p, p->close);

    if (p->o->n_some > 0)
        return grammar_sequence(g, others_with_some(p, first, least, most), close);
    if (!first || least > 0)
        return grammar_sequence(g, others(p, first, least, most), close);
    r = most == 0 ? GRAMMAR_NEVER : grammar_sequence(g, others(p, true, 1, most), close);
    return grammar_either(g, term(p, schema_mark(c, false, '}', false)), r);
}

/* Returns the regular expression of the names of all members, including members that must be absent. */
static uint32_t names_of_members(struct properties *p)
{
    struct json_string *name = schema_alloc(p->c, p->o->n_members, sizeof(*name));

    for (size_t i = 0; name && i < p->o->n_members; i++) {
        const struct schema_key *k = &p->c->key[p->o->member[i].key];

        name[i] = (struct json_string){k->text, k->n};
    }
    return name ? json_text_one_of(&p->c->text, name, p->o->n_members, JSON_EVERY_SPELLING) : REGEX_NOTHING;
}

/* True if an object can have enough properties for minProperties by its members alone. */
static bool is_enough(const struct properties *p)
{
    uint32_t n = 0;

    for (size_t i = 0; i < p->n && n < p->o->least; i++)
        n += !schema_is_empty(p->c, p->member[i]->term, SCHEMA_EMPTY_DEPTH);
    return n >= p->o->least;
}

/* Initializes P. False: no object can satisfy the clause, or there is an error. */
static bool begin(struct properties *p)
{
    struct schema_compiler *c = p->c;
    bool is_open = false;

    p->comma = schema_mark(c, false, ',', true);
    p->close = schema_mark(c, true, '}', false);
    p->member = schema_alloc(c, p->o->n_members, sizeof(*p->member));
    if (!p->member)
        return false;
    for (size_t i = 0; i < p->o->n_members; i++) {
        const struct schema_member *m = &p->o->member[i];

        if (m->term == SCHEMA_NONE && m->is_required)
            return false;
        if (m->term != SCHEMA_NONE)
            p->member[p->n++] = m;
    }
    if (p->o->n_some > 1) {
        schema_unserved(c, c->at, "not",
                        "more than one required property outside `properties` is not supported");
        return false;
    }
    p->is_closed = p->o->is_closed && !c->is_open && p->o->n_some == 0 && is_enough(p);
    for (size_t i = 0; i < p->o->n_others; i++)
        is_open = is_open || is_written(p, &p->o->other[i]);
    p->other = p->some = GRAMMAR_NEVER;
    if (is_open) {
        p->not_members = schema_regex_not(c, names_of_members(p), c->text.string);
        p->other = other_properties(p, NULL);
        if (p->o->n_some)
            p->some = other_properties(p, p->o->some);
    }
    return !c->rc;
}

/* True if every choice of members satisfies minProperties and maxProperties: no counting is needed. */
static bool is_uncounted(const struct properties *p)
{
    size_t n_required = 0;

    for (size_t i = 0; i < p->n; i++)
        n_required += p->member[i]->is_required;
    return p->o->least <= n_required &&
           (p->o->most == SCHEMA_NO_LIMIT || (p->other == GRAMMAR_NEVER && p->o->most >= p->n));
}

/* Builds the tree of the members' names, and initializes N_STATES states with it. A pair of states, before
 * and after the first property, shares the expressions of the tree. False: there is an error. */
static bool begin_states(struct properties *p, struct state *state, size_t n_states)
{
    uint32_t *key = schema_alloc(p->c, p->n, sizeof(*key));

    for (size_t i = 0; key && i < p->n; i++)
        key[i] = p->member[i]->key;
    p->has_tree = key && p->n >= FEWEST_NAMES && key_tree_build(p->c, &p->tree, key, p->n) &&
                  p->tree.n_steps <= MOST_TREE_STEPS / ((n_states + 1) / 2);
    for (size_t k = 0; k < n_states && !p->c->rc; k++) {
        state[k].tail = state[k].at;
        if (p->has_tree && !key_tree_names_init(p->c, &p->tree, &state[k].names))
            return false;
    }
    return key && !p->c->rc;
}

/* Moves X from the state after member I to the state before it. AFTER is the expression that follows the member. FIRST:
 * no property is written yet in X. */
static void put_member(struct properties *p, struct state *x, size_t i, bool first, uint32_t after)
{
    struct schema_compiler *c = p->c;
    const struct schema_member *m = p->member[i];
    uint32_t value = schema_value(c, m->term), quote, colon, names;

    if (m->is_required) {
        x->at = grammar_sequence(c->g, property(p, first, c->key[m->key].regex, value), after);
        x->tail = GRAMMAR_NEVER;
        key_tree_names_clear(&x->names);
        if (!p->has_tree || i == 0 || p->member[i - 1]->is_required)
            return; /* no optional member precedes, so no choice of names has this one */
    }
    if (!p->has_tree) {
        uint32_t take = grammar_sequence(c->g, property(p, first, c->key[m->key].regex, value), after);

        x->at = grammar_either(c->g, take, x->at);
        return;
    }
    quote = regex_range(c->s, '"', '"');
    colon = regex_concat(c->s, quote, schema_mark(c, false, ':', true));
    after = grammar_sequence(c->g, grammar_sequence(c->g, term(p, colon), value), after);
    names = key_tree_names_add(c, &p->tree, &x->names, i, after);
    names = grammar_sequence(c->g, term(p, first ? quote : regex_concat(c->s, p->comma, quote)), names);
    if (!m->is_required)
        x->at = grammar_either(c->g, names, x->tail);
}

/* ---- free members: not listed in `properties`, so they may come in any order ---- */

/* Objects with free members. SET has a bit for each free member that is already written. The rest of the
 * object is state[2 * set] if no property is written yet, else state[2 * set + 1]. */
struct free_members {
    const struct schema_member *member[MOST_FREE]; /* [n] */
    unsigned n;
    struct state state[2 << MOST_FREE];
};

/* Moves the free members from P to F, if they are few enough to be written in any order. */
static void take_free(struct properties *p, struct free_members *f)
{
    size_t n = 0, n_free = 0;

    for (size_t i = 0; i < p->n; i++)
        n_free += p->member[i]->is_free;
    if (n_free > MOST_FREE || (p->n + 1) << n_free > MOST_FREE_STATES || p->o->n_some > 0)
        return;
    for (size_t i = 0; i < p->n; i++)
        if (p->member[i]->is_free)
            f->member[f->n++] = p->member[i];
        else
            p->member[n++] = p->member[i];
    p->n = n;
}

/* Returns the expression of a choice: ONE, or a free member outside SET and the rest of the object after it. FIRST: no
 * comma precedes the member. */
static uint32_t or_free(struct properties *p, struct free_members *f, unsigned set, bool first, uint32_t one)
{
    struct schema_compiler *c = p->c;
    uint32_t of[MOST_FREE + 1];
    unsigned n = 0;

    of[n++] = one;
    for (unsigned i = 0; i < f->n; i++)
        if (!(set >> i & 1))
            of[n++] = grammar_sequence(
                c->g,
                property(p, first, c->key[f->member[i]->key].regex, schema_value(c, f->member[i]->term)),
                f->state[2 * (set | 1U << i) + 1].at);
    return grammar_choice(c->g, of, n);
}

/* Returns the expression of objects with free members, without limits on the number of properties. */
static uint32_t with_free(struct properties *p, struct free_members *f)
{
    struct schema_compiler *c = p->c;
    struct grammar *g = c->g;
    uint32_t more = next(p, p->other);

    for (unsigned set = 1U << f->n; set-- > 0;) {
        bool is_done = true;
        uint32_t begun, first;

        for (unsigned i = 0; i < f->n; i++)
            is_done = is_done && (set >> i & 1 || !f->member[i]->is_required);
        begun = or_free(p, f, set, false, is_done ? term(p, p->close) : GRAMMAR_NEVER);
        if (more != GRAMMAR_NEVER)
            begun = grammar_sequence(g, grammar_repeat(g, more, 0, GRAMMAR_NO_LIMIT), begun);
        first = or_free(p, f, set, true, grammar_sequence(g, p->other, begun));
        f->state[2 * set + 1].at = begun;
        f->state[2 * set].at =
            is_done ? grammar_either(g, term(p, schema_mark(c, false, '}', false)), first) : first;
    }
    if (!begin_states(p, f->state, (size_t)2 << f->n))
        return GRAMMAR_NEVER;
    for (size_t i = p->n; i > 0 && schema_work(c, 1U << f->n); i--)
        for (unsigned set = 1U << f->n; set-- > 0;)
            for (unsigned k = 0; k < 2; k++) {
                struct state *x = &f->state[2 * set + k];

                /* The state after a member is f->state[2 * set + 1], which changes last. */
                put_member(p, x, i - 1, k == 0, f->state[2 * set + 1].at);
                x->at = or_free(p, f, set, k == 0, x->at);
            }
    return f->state[0].at;
}

uint32_t schema_properties(struct schema_compiler *c, const struct schema_object *o)
{
    struct properties p = {.c = c, .o = o};
    struct free_members f = {.n = 0};
    uint32_t cap = 1, least = 0, most = SCHEMA_NO_LIMIT;
    struct state *state;

    if (!begin(&p))
        return GRAMMAR_NEVER;
    if (is_uncounted(&p)) {
        take_free(&p, &f);
        if (f.n > 0)
            return grammar_sequence(c->g, term(&p, schema_mark(c, false, '{', true)), with_free(&p, &f));
    } else {
        least = o->least;
        most = o->most;
        cap = most != SCHEMA_NO_LIMIT ? most : least > 1 ? least : 1;
        if (cap > p.n + 1)
            cap = (uint32_t)p.n + 1; /* only members are counted here */
    }
    if ((p.n + 1) * ((size_t)cap + 1) > MOST_STATES) {
        schema_over_limit(c, least ? "minProperties" : "maxProperties",
                          "counting so many optional properties is not supported");
        return GRAMMAR_NEVER;
    }
    state = schema_alloc(c, (size_t)cap + 1, sizeof(*state));
    if (!state)
        return GRAMMAR_NEVER;
    for (uint32_t k = 0; k <= cap; k++)
        state[k].at = most != SCHEMA_NO_LIMIT && k > most ? GRAMMAR_NEVER
                                                          : rest(&p, k == 0, least > k ? least - k : 0,
                                                                 most == SCHEMA_NO_LIMIT ? most : most - k);
    if (!begin_states(&p, state, (size_t)cap + 1))
        return GRAMMAR_NEVER;
    for (size_t i = p.n; i > 0 && schema_work(c, 1 + cap / 16); i--)
        for (uint32_t k = 0; k <= cap; k++) {
            uint32_t after = k < cap                   ? state[k + 1].at
                             : most == SCHEMA_NO_LIMIT ? state[cap].at
                                                       : GRAMMAR_NEVER;

            put_member(&p, &state[k], i - 1, k == 0, after);
        }
    return grammar_sequence(c->g, term(&p, schema_mark(c, false, '{', true)), state[0].at);
}
