/* schema_items.c - builds expressions for arrays: a prefix and a repetition. For `contains`, states count the
 * matching elements; for `uniqueItems`, states record the values already written. */
#include "text/grammar/schema/schema_items.h"

#include <string.h>

#include "text/grammar/schema/schema_value.h"
#include "text/grammar/schema/schema_values.h"

/* MOST_COUNTED: maximum number of elements that are counted one by one. */
enum { MOST_CONTAINS = 3, MOST_STATES = 20000, MOST_COUNTED = 1000 };

struct items {
    struct schema_compiler *c;
    const struct schema_array *a;
    /* Expressions: "," between elements; "]" after elements; "]" of an empty array. */
    uint32_t comma, close, close_empty;
};

/* Returns the expression of an element in TERM, with a comma before it unless FIRST. */
static uint32_t element(struct items *p, bool first, uint32_t term)
{
    uint32_t value = term == SCHEMA_NONE ? GRAMMAR_NEVER : schema_value(p->c, term);

    return first ? value : grammar_sequence(p->c->g, p->comma, value);
}

/* Returns the expression of the elements and the closing bracket, without `contains` and `uniqueItems`. */
static uint32_t plain(struct items *p)
{
    const struct schema_array *a = p->a;
    struct grammar *g = p->c->g;
    uint32_t n = a->n_prefix < a->most ? (uint32_t)a->n_prefix : a->most, r;
    uint32_t least = a->least > n ? a->least - n : 0, most = a->rest == SCHEMA_NONE       ? 0
                                                             : a->most == SCHEMA_NO_LIMIT ? SCHEMA_NO_LIMIT
                                                                                          : a->most - n;

    if (least > most)
        return GRAMMAR_NEVER;
    if (n > 0 || most == 0) {
        r = grammar_repeat(g, most ? element(p, false, a->rest) : GRAMMAR_NEVER, least, most);
        r = grammar_sequence(g, r, n ? p->close : p->close_empty);
    } else {
        r = grammar_repeat(g, element(p, false, a->rest), least ? least - 1 : 0,
                           most == SCHEMA_NO_LIMIT ? most : most - 1);
        r = grammar_sequence(g, element(p, true, a->rest), grammar_sequence(g, r, p->close));
        if (least == 0)
            r = grammar_either(g, p->close_empty, r);
    }
    for (uint32_t i = n; i-- > 0 && schema_work(p->c, 1);) {
        r = grammar_sequence(g, element(p, i == 0, a->prefix[i]), r);
        if (i >= a->least)
            r = grammar_either(g, i ? p->close : p->close_empty, r);
    }
    return r;
}

/* ---- contains ---- */

/* A state: the number of elements so far, and for each `contains` the number of matching elements. A count
 * stops at its limit, because larger counts make no difference. */
struct count {
    uint32_t n, of[MOST_CONTAINS];
};

struct counting {
    struct items *items;
    /* [n_states] for each state: 1 + the expression of the rest of the array; 0: not yet built */
    uint32_t *known;
    struct count limit;
    bool is_open; /* more than limit.n elements are allowed */
};

static size_t number_of(const struct counting *q, const struct count *at)
{
    size_t r = at->n;

    for (size_t i = 0; i < q->items->a->n_contains; i++)
        r = r * (q->limit.of[i] + (size_t)1) + at->of[i];
    return r;
}

/* Computes the state after an element that matches the `contains` conditions FITS (a bit for each). False:
 * the state AT allows no such element. */
static bool advance(const struct counting *q, const struct count *at, unsigned fits, struct count *to)
{
    const struct schema_array *a = q->items->a;

    *to = *at;
    if (at->n < q->limit.n)
        to->n++;
    else if (!q->is_open)
        return false;
    for (size_t i = 0; i < a->n_contains; i++) {
        const struct schema_contains *x = &a->contains[i];

        if (!(fits >> i & 1))
            continue;
        if (at->n < x->from)
            return false;
        if (at->of[i] < q->limit.of[i])
            to->of[i]++;
        else if (x->most != SCHEMA_NO_LIMIT)
            return false;
    }
    return true;
}

/* Returns the term of an element that matches the conditions FITS and comes after the state AT. It matches no
 * other condition that has a maximum. */
static uint32_t fitting(const struct counting *q, const struct count *at, unsigned fits)
{
    struct schema_compiler *c = q->items->c;
    const struct schema_array *a = q->items->a;
    uint32_t term = schema_element(a, at->n);

    for (size_t i = 0; i < a->n_contains; i++)
        if (fits >> i & 1)
            term = schema_and(c, term, a->contains[i].term);
        else if (a->contains[i].most != SCHEMA_NO_LIMIT && at->n >= a->contains[i].from)
            term = schema_and(c, term, schema_not(c, a->contains[i].term));
    return term;
}

static bool is_enough(const struct counting *q, const struct count *at)
{
    const struct schema_array *a = q->items->a;

    for (size_t i = 0; i < a->n_contains; i++)
        if (at->of[i] < a->contains[i].least)
            return false;
    return at->n >= a->least;
}

/* Returns the expression for the rest of the array from the state AT on. */
static uint32_t from_count(struct counting *q, struct count at)
{
    struct items *p = q->items;
    struct grammar *g = p->c->g;
    uint32_t of[2 << MOST_CONTAINS], same[1 << MOST_CONTAINS], r;
    size_t number = number_of(q, &at), n = 0, n_same = 0;

    if (q->known[number])
        return q->known[number] - 1;
    if (!schema_work(p->c, 1))
        return GRAMMAR_NEVER;
    if (is_enough(q, &at))
        of[n++] = at.n ? p->close : p->close_empty;
    for (unsigned fits = 0; fits < 1U << p->a->n_contains; fits++) {
        struct count to;
        uint32_t term, one;

        if (!advance(q, &at, fits, &to) || (term = fitting(q, &at, fits)) == SCHEMA_NONE)
            continue;
        one = element(p, at.n == 0, term);
        if (number_of(q, &to) == number)
            same[n_same++] = one;
        else
            of[n++] = grammar_sequence(g, one, from_count(q, to));
    }
    r = grammar_choice(g, of, n);
    if (n_same > 0)
        r = grammar_sequence(g, grammar_repeat(g, grammar_choice(g, same, n_same), 0, GRAMMAR_NO_LIMIT), r);
    q->known[number] = r + 1;
    return r;
}

static uint32_t counted(struct items *p)
{
    const struct schema_array *a = p->a;
    struct counting q = {.items = p, .is_open = a->most == SCHEMA_NO_LIMIT};
    size_t n_states;

    if (a->n_contains > MOST_CONTAINS) {
        schema_unserved(p->c, p->c->at, "contains", "more than %d conditions for one array are not supported",
                        MOST_CONTAINS);
        return GRAMMAR_NEVER;
    }
    q.limit.n = q.is_open ? a->least > 1 ? a->least : 1 : a->most;
    if (q.is_open && q.limit.n < a->n_prefix)
        q.limit.n = (uint32_t)a->n_prefix;
    for (size_t i = 0; i < a->n_contains; i++) {
        const struct schema_contains *x = &a->contains[i];

        q.limit.of[i] = x->most != SCHEMA_NO_LIMIT ? x->most : x->least;
        if (q.is_open && q.limit.n < x->from)
            q.limit.n = x->from;
    }
    n_states = (size_t)q.limit.n + 1;
    for (size_t i = 0; i < a->n_contains && n_states <= MOST_STATES; i++)
        n_states *= q.limit.of[i] + (size_t)1;
    if (n_states > MOST_STATES || q.limit.n > MOST_COUNTED) {
        schema_over_limit(p->c, "contains", "counting so many elements is not supported");
        return GRAMMAR_NEVER;
    }
    q.known = schema_alloc(p->c, n_states, sizeof(*q.known));
    return q.known ? from_count(&q, (struct count){0}) : GRAMMAR_NEVER;
}

/* ---- distinct elements ---- */

struct choosing {
    struct items *items;
    struct schema_values values;
    /* [2^values.n] for each set of values already written: 1 + expression of the rest; 0: not yet built */
    uint32_t *known;
};

static uint32_t from_set(struct choosing *q, uint32_t set, uint32_t n)
{
    struct items *p = q->items;
    const struct schema_array *a = p->a;
    uint32_t of[SCHEMA_MOST_VALUES + 1], r;
    size_t n_of = 0;

    if (q->known[set])
        return q->known[set] - 1;
    if (!schema_work(p->c, 1))
        return GRAMMAR_NEVER;
    if (n >= a->least)
        of[n_of++] = n ? p->close : p->close_empty;
    for (uint32_t i = 0; i < q->values.n && n < a->most; i++) {
        uint32_t term;

        if (set >> i & 1)
            continue;
        term = schema_and(p->c, schema_element(a, n), schema_value_term(p->c, q->values.value[i]));
        of[n_of++] = grammar_sequence(p->c->g, element(p, n == 0, term), from_set(q, set | 1U << i, n + 1));
    }
    r = grammar_choice(p->c->g, of, n_of);
    q->known[set] = r + 1;
    return r;
}

/* Sets *OUT to the expression of the rest of an array with distinct elements. False: there is an error, or
 * `uniqueItems` is not supported for these elements. */
static bool distinct(struct items *p, uint32_t *out)
{
    const struct schema_array *a = p->a;
    struct choosing q = {.items = p};
    bool is_finite =
        a->rest == SCHEMA_NONE || a->most <= a->n_prefix || schema_values_add(p->c, &q.values, a->rest, 0);

    for (size_t i = 0; i < a->n_prefix && i < a->most && is_finite; i++)
        is_finite = schema_values_add(p->c, &q.values, a->prefix[i], 0);
    if (p->c->rc)
        return false;
    if (!is_finite || a->n_contains) {
        schema_unserved(p->c, a->unique, "uniqueItems",
                        a->n_contains ? "is not supported together with `contains`"
                                      : "is only supported for elements with at most %d different values",
                        SCHEMA_MOST_VALUES);
        return false;
    }
    q.known = schema_alloc(p->c, (size_t)1 << q.values.n, sizeof(*q.known));
    if (q.known)
        *out = from_set(&q, 0, 0);
    return q.known != NULL;
}

uint32_t schema_items(struct schema_compiler *c, const struct schema_array *a)
{
    struct items p = {.c = c, .a = a};
    uint32_t r = 0;

    p.comma = grammar_term(c->g, schema_mark(c, false, ',', true));
    p.close = grammar_term(c->g, schema_mark(c, true, ']', false));
    p.close_empty = grammar_term(c->g, schema_mark(c, false, ']', false));
    if (!a->unique || a->most <= 1 || !distinct(&p, &r))
        r = a->n_contains ? counted(&p) : plain(&p);
    return grammar_sequence(c->g, grammar_term(c->g, schema_mark(c, false, '[', true)), r);
}
