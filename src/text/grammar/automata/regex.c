/* regex.c - the store of expressions: interns and simplifies expressions, and computes derivatives.
 *
 * Simplification keeps the number of states small: unions and intersections are flat, sorted and without
 * duplicates; byte sets in a union become one set; concatenations lean to the right; neighbouring repetitions
 * of one expression are added up. Functions recurse into operands, but not into the second part of a
 * concatenation; the depth of each expression is counted and limited.
 */
#include "text/grammar/automata/regex.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "text/grammar/automata/tuples.h"

enum kind { NOTHING, EMPTY, ANYTHING, BYTES, LITERAL, CONCAT, UNION, INTERSECTION, NOT, REPEAT, MULTIPLE };

/* Whether an expression matches at least one text, as far as is known. */
enum knowledge { UNKNOWN, HAS_TEXT, HAS_NONE };

struct regex_node {
    uint8_t kind;
    bool matches_empty; /* nullable: the expression matches the empty text */
    bool is_plain;      /* contains no intersection, complement or multiple, so it matches some text */
    uint8_t known;      /* enum knowledge */
    uint16_t depth; /* 1 + depth of the deepest operand; the second part of a concatenation adds nothing */
    /* If the expression is plain: bytes of its shortest text, and the maximum number of bytes that complete the
     * beginning of a text. */
    uint32_t shortest, reach;
    uint32_t clamped; /* the result of regex_clamp() for store.clamp_most; REGEX_NOTHING: not known */
    /* The operands. BYTES: set[a]. LITERAL: text[a, a + b). CONCAT: a, then b. UNION, INTERSECTION: list[a, a
     * + b). NOT: a. REPEAT: a, m to n times. MULTIPLE: divisor a, remainder b of the digits so far. */
    uint32_t a, b, m, n;
    struct edges next; /* the derivatives computed so far */
};

enum { FIRST_SLOTS = 256, MOST_SEARCHED = 20000 }; /* MOST_SEARCHED: states of one emptiness search */

/* ---- the table of nodes ---- */

static uint32_t fail(struct regex_store *s, enum regex_fault fault)
{
    if (s->fault == REGEX_FINE)
        s->fault = fault;
    return REGEX_NOTHING;
}

bool regex_reserve(struct regex_store *s, void **array, size_t *cap, size_t used, size_t n, size_t size)
{
    size_t before = *cap;

    if (used + n <= *cap)
        return true;
    if (used + n > UINT32_MAX || !mem_grow(array, cap, used + n, size, MEM_TEXT)) { /* indices have 32 bits */
        fail(s, REGEX_NO_MEMORY);
        return false;
    }
    s->bytes += (*cap - before) * size;
    if (s->bytes > s->max_bytes)
        fail(s, REGEX_OVER_MEMORY);
    return s->fault == REGEX_FINE;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
    const unsigned char *at = p;
    uint64_t v;

    for (; n >= 8; n -= 8, at += 8) {
        memcpy(&v, at, 8);
        h = mix(h, v);
    }
    for (v = n; n > 0; n--)
        v = v << 8 | *at++;
    return mix(h, v);
}

static bool has_list(unsigned kind)
{
    return kind == UNION || kind == INTERSECTION;
}

static uint64_t hash_node(const struct regex_store *s, const struct regex_node *x)
{
    uint64_t h = mix(x->kind, (uint64_t)x->m << 32 | x->n);

    if (x->kind == BYTES)
        return hash_bytes(h, &s->set[x->a], sizeof(struct regex_set));
    if (x->kind == LITERAL)
        return hash_bytes(h, s->text + x->a, x->b);
    if (has_list(x->kind))
        return hash_bytes(h, s->list + x->a, x->b * sizeof(*s->list));
    return mix(h, (uint64_t)x->a << 32 | x->b);
}

static bool is_same(const struct regex_store *s, const struct regex_node *x, const struct regex_node *y)
{
    if (x->kind != y->kind || x->m != y->m || x->n != y->n)
        return false;
    if (x->kind == BYTES)
        return memcmp(&s->set[x->a], &s->set[y->a], sizeof(struct regex_set)) == 0;
    if (x->kind == LITERAL)
        return x->b == y->b && memcmp(s->text + x->a, s->text + y->a, x->b) == 0;
    if (has_list(x->kind))
        return x->b == y->b && memcmp(s->list + x->a, s->list + y->a, x->b * sizeof(*s->list)) == 0;
    return x->a == y->a && x->b == y->b;
}

static bool grow_slots(struct regex_store *s)
{
    size_t n = s->n_slots ? 2 * s->n_slots : FIRST_SLOTS;
    uint32_t *slot = mem_zalloc(n, sizeof(*slot), MEM_TEXT);

    if (!slot) {
        fail(s, REGEX_NO_MEMORY);
        return false;
    }
    for (size_t i = 0; i < s->n; i++) {
        size_t at = hash_node(s, &s->node[i]) & (n - 1);

        while (slot[at])
            at = (at + 1) & (n - 1);
        slot[at] = (uint32_t)i + 1;
    }
    mem_free(s->slot);
    s->bytes += (n - s->n_slots) * sizeof(*slot);
    s->slot = slot;
    s->n_slots = n;
    return true;
}

static void regex_describe(const struct regex_store *s, struct regex_node *x);

/* Returns the number of the expression X, whose set, list or text is at the end of the store's arrays. Sets
 * *IS_NEW if the expression is new. Then it refers to these elements, and the caller must keep them. */
static uint32_t intern(struct regex_store *s, struct regex_node x, bool *is_new)
{
    size_t at;

    *is_new = false;
    if (s->fault != REGEX_FINE || (2 * (s->n + 1) > s->n_slots && !grow_slots(s)))
        return REGEX_NOTHING;
    for (at = hash_node(s, &x) & (s->n_slots - 1); s->slot[at]; at = (at + 1) & (s->n_slots - 1))
        if (is_same(s, &s->node[s->slot[at] - 1], &x))
            return s->slot[at] - 1;
    if (!regex_reserve(s, (void **)&s->node, &s->cap, s->n, 1, sizeof(*s->node)))
        return REGEX_NOTHING;
    regex_describe(s, &x);
    if (x.depth > REGEX_MOST_DEPTH)
        return fail(s, REGEX_OVER_DEPTH);
    regex_charge(s, 1 + (has_list(x.kind) ? x.b / 16 : 0));
    s->node[s->n] = x;
    s->slot[at] = (uint32_t)++s->n;
    *is_new = true;
    return (uint32_t)s->n - 1;
}

static uint32_t regex_make(struct regex_store *s, unsigned kind, uint32_t a, uint32_t b, uint32_t m,
                           uint32_t n)
{
    bool is_new;

    return intern(s, (struct regex_node){.kind = (uint8_t)kind, .a = a, .b = b, .m = m, .n = n}, &is_new);
}

static uint32_t add_counts(uint32_t a, uint32_t b)
{
    return a >= REGEX_NO_LIMIT - b ? REGEX_NO_LIMIT : a + b;
}

static uint32_t multiply_counts(uint32_t a, uint32_t b)
{
    uint64_t product = (uint64_t)a * b;

    return product < REGEX_NO_LIMIT ? (uint32_t)product : REGEX_NO_LIMIT;
}

static uint32_t largest_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Sets shortest and reach of X, which is plain, from its operands. */
static void describe_lengths(const struct regex_store *s, struct regex_node *x)
{
    const struct regex_node *a = x->kind == CONCAT || x->kind == REPEAT ? &s->node[x->a] : NULL, *b;

    switch ((enum kind)x->kind) {
    case BYTES: x->shortest = x->reach = 1; break;
    case LITERAL: x->shortest = x->reach = x->b; break;
    case CONCAT:
        b = &s->node[x->b];
        x->shortest = add_counts(a->shortest, b->shortest);
        x->reach = largest_of(add_counts(a->reach, b->shortest), b->reach);
        break;
    case REPEAT:
        x->shortest = multiply_counts(a->shortest, x->m);
        x->reach = add_counts(a->reach, multiply_counts(a->shortest, x->m > 0 ? x->m - 1 : 0));
        break;
    case UNION:
        x->shortest = REGEX_NO_LIMIT;
        for (uint32_t i = 0; i < x->b; i++) {
            const struct regex_node *y = &s->node[s->list[x->a + i]];

            x->shortest = y->shortest < x->shortest ? y->shortest : x->shortest;
            x->reach = largest_of(x->reach, y->reach);
        }
        break;
    case NOTHING:
    case EMPTY:
    case ANYTHING:
    case INTERSECTION:
    case NOT:
    case MULTIPLE: break;
    }
}

/* Sets the members of X that follow from its operands, such as `depth` and `matches_empty`. */
static void regex_describe(const struct regex_store *s, struct regex_node *x)
{
    const struct regex_node *a =
        x->kind == CONCAT || x->kind == NOT || x->kind == REPEAT ? &s->node[x->a] : NULL;

    x->depth = 1 + (a ? a->depth : 0);
    x->is_plain = x->kind != NOT && x->kind != INTERSECTION && x->kind != MULTIPLE && (!a || a->is_plain);
    switch ((enum kind)x->kind) {
    case EMPTY:
    case ANYTHING: x->matches_empty = true; break;
    case CONCAT:
        x->matches_empty = a->matches_empty && s->node[x->b].matches_empty;
        x->is_plain = x->is_plain && s->node[x->b].is_plain;
        x->depth = s->node[x->b].depth > x->depth ? s->node[x->b].depth : x->depth;
        break;
    case UNION:
    case INTERSECTION:
        x->matches_empty = x->kind == INTERSECTION;
        for (uint32_t i = 0; i < x->b; i++) {
            const struct regex_node *y = &s->node[s->list[x->a + i]];

            x->matches_empty = x->kind == UNION ? x->matches_empty || y->matches_empty
                                                : x->matches_empty && y->matches_empty;
            x->is_plain = x->is_plain && y->is_plain;
            x->depth = y->depth >= x->depth ? 1 + y->depth : x->depth;
        }
        break;
    case NOT: x->matches_empty = !a->matches_empty; break;
    case REPEAT: x->matches_empty = x->m == 0 || a->matches_empty; break;
    case MULTIPLE: x->matches_empty = x->b == 0; break;
    case NOTHING:
    case BYTES:
    case LITERAL: break;
    }
    if (x->is_plain)
        describe_lengths(s, x);
    x->known = x->kind == NOTHING ? HAS_NONE : x->is_plain || x->matches_empty ? HAS_TEXT : UNKNOWN;
}

int regex_open(struct regex_store *s, size_t max_bytes, size_t max_steps)
{
    *s = (struct regex_store){.max_bytes = max_bytes};
    regex_allow(s, max_steps, max_steps);
    for (unsigned kind = NOTHING; kind <= ANYTHING; kind++)
        regex_make(s, kind, 0, 0, 0, 0);
    if (s->fault == REGEX_FINE)
        regex_table(s, REGEX_NOTHING); /* made now, because after a fault no memory may be left for it */
    if (s->fault == REGEX_FINE)
        return 0;
    regex_close(s);
    return ERR_NOMEM;
}

void regex_close(struct regex_store *s)
{
    mem_free(s->node);
    mem_free(s->set);
    mem_free(s->list);
    mem_free(s->text);
    mem_free(s->slot);
    mem_free(s->work);
    edges_fini(&s->tables);
    *s = (struct regex_store){0};
}

/* ---- leaves ---- */

uint32_t regex_bytes(struct regex_store *s, const struct regex_set *set)
{
    uint32_t r;
    bool is_new;

    if (!(set->bit[0] | set->bit[1] | set->bit[2] | set->bit[3]))
        return REGEX_NOTHING;
    if (!regex_reserve(s, (void **)&s->set, &s->cap_sets, s->n_sets, 1, sizeof(*s->set)))
        return REGEX_NOTHING;
    s->set[s->n_sets] = *set;
    r = intern(s, (struct regex_node){.kind = BYTES, .a = (uint32_t)s->n_sets}, &is_new);
    s->n_sets += is_new;
    return r;
}

uint32_t regex_range(struct regex_store *s, uint8_t low, uint8_t high)
{
    struct regex_set set = {{0}};

    for (unsigned c = low; c <= high; c++)
        regex_set_add(&set, (uint8_t)c);
    return regex_bytes(s, &set);
}

/* Returns the literal text[at, at + n) of the store. Sets *IS_NEW as intern() does. */
static uint32_t literal(struct regex_store *s, uint32_t at, uint32_t n, bool *is_new)
{
    *is_new = false;
    if (n == 0)
        return REGEX_EMPTY;
    if (n == 1)
        return regex_range(s, (uint8_t)s->text[at], (uint8_t)s->text[at]);
    return intern(s, (struct regex_node){.kind = LITERAL, .a = at, .b = n}, is_new);
}

uint32_t regex_literal(struct regex_store *s, const char *text, size_t n)
{
    uint32_t r;
    bool is_new;

    if (n > UINT32_MAX / 2 || s->n_text > UINT32_MAX / 2)
        return fail(s, REGEX_OVER_MEMORY);
    if (!regex_reserve(s, (void **)&s->text, &s->cap_text, s->n_text, n, 1))
        return REGEX_NOTHING;
    if (n > 0)
        memcpy(s->text + s->n_text, text, n);
    r = literal(s, (uint32_t)s->n_text, (uint32_t)n, &is_new);
    s->n_text += is_new ? n : 0;
    return r;
}

uint32_t regex_multiple(struct regex_store *s, uint32_t divisor)
{
    ASSERT(divisor >= 1 && divisor <= REGEX_MAX_DIVISOR, "%u", divisor);
    return regex_make(s, MULTIPLE, divisor, 0, 0, 0);
}

/* Matches UTF-8 sequences of 1 + N bytes for the code points in [low, high]. The first byte is MARK with the
 * highest bits of the code point; N continuation bytes have six bits each. */
static uint32_t sequences(struct regex_store *s, uint32_t mark, uint32_t low, uint32_t high, unsigned n)
{
    uint32_t below = (UINT32_C(1) << 6 * n) - 1, first = low >> 6 * n, last = high >> 6 * n,
             r = REGEX_NOTHING;

    if (n == 0)
        return regex_range(s, (uint8_t)(mark | low), (uint8_t)(mark | high));
    if (first == last)
        return regex_concat(s, regex_range(s, (uint8_t)(mark | first), (uint8_t)(mark | first)),
                            sequences(s, 0x80, low & below, high & below, n - 1));
    if (low & below) {
        r = sequences(s, mark, low, low | below, n);
        first++;
    }
    if ((high & below) != below) {
        r = regex_or(s, r, sequences(s, mark, high & ~below, high, n));
        last--;
    }
    if (first > last)
        return r;
    return regex_or(s, r,
                    regex_concat(s, regex_range(s, (uint8_t)(mark | first), (uint8_t)(mark | last)),
                                 regex_repeat(s, regex_range(s, 0x80, 0xbf), n, n)));
}

uint32_t regex_characters(struct regex_store *s, uint32_t low, uint32_t high)
{
    /* Ranges of characters with equally many UTF-8 bytes, without the surrogates. */
    static const struct {
        uint32_t low, high, mark;
        unsigned n;
    } part[] = {{0, 0x7f, 0, 0},
                {0x80, 0x7ff, 0xc0, 1},
                {0x800, 0xd7ff, 0xe0, 2},
                {0xe000, 0xffff, 0xe0, 2},
                {0x10000, 0x10ffff, 0xf0, 3}};
    uint32_t r = REGEX_NOTHING;

    for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++) {
        uint32_t from = low > part[i].low ? low : part[i].low, to = high < part[i].high ? high : part[i].high;

        if (from <= to)
            r = regex_or(s, r, sequences(s, part[i].mark, from, to, part[i].n));
    }
    return r;
}

/* ---- compositions ---- */

/* Returns X as a repetition. If X is another kind of expression, this is X{1,1}. */
static struct regex_node as_repeat(const struct regex_store *s, uint32_t x)
{
    if (s->node[x].kind == REPEAT)
        return s->node[x];
    return (struct regex_node){.kind = CONCAT, .a = x, .m = 1, .n = 1};
}

/* Returns the concatenation of A, which is not itself a concatenation, and B. */
static uint32_t concat_one(struct regex_store *s, uint32_t a, uint32_t b)
{
    bool is_spine = s->node[b].kind == CONCAT;
    struct regex_node x = as_repeat(s, a), y = as_repeat(s, is_spine ? s->node[b].a : b);
    uint32_t joined;

    if (a == REGEX_NOTHING || b == REGEX_NOTHING)
        return REGEX_NOTHING;
    if (a == REGEX_EMPTY || b == REGEX_EMPTY)
        return a == REGEX_EMPTY ? b : a;
    if (a == REGEX_ANYTHING && (b == REGEX_ANYTHING || (is_spine && s->node[b].a == REGEX_ANYTHING)))
        return b;
    if (x.a != y.a || (x.kind != REPEAT && y.kind != REPEAT))
        return regex_make(s, CONCAT, a, b, 0, 0);
    joined = regex_repeat(s, x.a, add_counts(x.m, y.m), add_counts(x.n, y.n));
    return is_spine ? concat_one(s, joined, s->node[b].b) : joined;
}

static bool push(struct regex_store *s, uint32_t r)
{
    if (!regex_reserve(s, (void **)&s->work, &s->cap_work, s->n_work, 1, sizeof(*s->work)))
        return false;
    s->work[s->n_work++] = r;
    return true;
}

uint32_t regex_concat(struct regex_store *s, uint32_t a, uint32_t b)
{
    size_t start = s->n_work;

    if (a == REGEX_NOTHING || b == REGEX_NOTHING)
        return REGEX_NOTHING;
    for (; s->node[a].kind == CONCAT; a = s->node[a].b)
        if (!push(s, s->node[a].a))
            break;
    b = concat_one(s, a, b);
    while (s->n_work > start)
        b = concat_one(s, s->work[--s->n_work], b);
    return s->fault == REGEX_FINE ? b : REGEX_NOTHING;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Adds R to the union or intersection (KIND) under construction. If R has the same kind, its members are
 * added. Byte sets are joined into SET; other members are pushed. True: R alone determines the result. */
static bool push_parts(struct regex_store *s, unsigned kind, uint32_t r, struct regex_set *set, bool *has_set)
{
    const struct regex_node *x = &s->node[r];

    if (has_list(x->kind) && x->kind == kind) {
        uint32_t at = x->a, n = x->b;

        for (uint32_t i = 0; i < n; i++)
            if (push_parts(s, kind, s->list[at + i], set, has_set))
                return true;
        return false;
    }
    if (x->kind == BYTES) {
        for (int i = 0; i < 4; i++)
            set->bit[i] =
                kind == UNION ? set->bit[i] | s->set[x->a].bit[i] : set->bit[i] & s->set[x->a].bit[i];
        *has_set = true;
        return false;
    }
    if (r == (kind == UNION ? REGEX_ANYTHING : REGEX_NOTHING))
        return true;
    if (r != (kind == UNION ? REGEX_NOTHING : REGEX_ANYTHING))
        push(s, r);
    return false;
}

/* Sorts work[start, n_work) and removes duplicates. In a union with a nullable member, also removes REGEX_EMPTY. */
static void sort_parts(struct regex_store *s, unsigned kind, size_t start)
{
    size_t n = start;
    bool has_empty = false;

    regex_charge(s, (s->n_work - start) / 4);
    if (s->n_work - start > 1)
        qsort(s->work + start, s->n_work - start, sizeof(*s->work), compare_numbers);
    for (size_t i = start; i < s->n_work; i++)
        has_empty = has_empty || (s->work[i] != REGEX_EMPTY && s->node[s->work[i]].matches_empty);
    for (size_t i = start; i < s->n_work; i++)
        if (!(i > start && s->work[i] == s->work[i - 1]) &&
            !(kind == UNION && has_empty && s->work[i] == REGEX_EMPTY))
            s->work[n++] = s->work[i];
    s->n_work = n;
}

/* Pops work[start, n_work) and returns its union or intersection. */
static uint32_t regex_join(struct regex_store *s, unsigned kind, size_t start)
{
    size_t given = s->n_work;
    struct regex_set set = {{0}};
    bool has_set = false, decided = false, is_new;
    uint32_t r;

    if (kind == INTERSECTION)
        memset(&set, 0xff, sizeof(set));
    for (size_t i = start; i < given && !decided; i++)
        decided = push_parts(s, kind, s->work[i], &set, &has_set);
    if (has_set && !decided) {
        r = regex_bytes(s, &set);
        decided = kind == INTERSECTION && r == REGEX_NOTHING;
        if (r != REGEX_NOTHING)
            push(s, r);
    }
    sort_parts(s, kind, given);
    if (s->fault != REGEX_FINE)
        r = REGEX_NOTHING;
    else if (decided)
        r = kind == UNION ? REGEX_ANYTHING : REGEX_NOTHING;
    else if (s->n_work == given)
        r = kind == UNION ? REGEX_NOTHING : REGEX_ANYTHING;
    else if (s->n_work == given + 1)
        r = s->work[given];
    else if (!regex_reserve(s, (void **)&s->list, &s->cap_list, s->n_list, s->n_work - given,
                            sizeof(*s->list)))
        r = REGEX_NOTHING;
    else {
        uint32_t n = (uint32_t)(s->n_work - given);

        memcpy(s->list + s->n_list, s->work + given, n * sizeof(*s->list));
        r = intern(s, (struct regex_node){.kind = (uint8_t)kind, .a = (uint32_t)s->n_list, .b = n}, &is_new);
        s->n_list += is_new ? n : 0;
    }
    s->n_work = start;
    return r;
}

static uint32_t join_of(struct regex_store *s, unsigned kind, const uint32_t *of, size_t n)
{
    size_t start = s->n_work;

    for (size_t i = 0; i < n; i++)
        push(s, of[i]);
    return regex_join(s, kind, start);
}

uint32_t regex_union(struct regex_store *s, const uint32_t *of, size_t n)
{
    return join_of(s, UNION, of, n);
}

uint32_t regex_or(struct regex_store *s, uint32_t a, uint32_t b)
{
    return a == REGEX_NOTHING ? b : b == REGEX_NOTHING ? a : join_of(s, UNION, (uint32_t[]){a, b}, 2);
}

uint32_t regex_intersection(struct regex_store *s, const uint32_t *of, size_t n)
{
    return join_of(s, INTERSECTION, of, n);
}

uint32_t regex_and(struct regex_store *s, uint32_t a, uint32_t b)
{
    return join_of(s, INTERSECTION, (uint32_t[]){a, b}, 2);
}

uint32_t regex_not(struct regex_store *s, uint32_t a)
{
    if (s->fault != REGEX_FINE)
        return REGEX_NOTHING;
    if (a == REGEX_NOTHING || a == REGEX_ANYTHING)
        return a == REGEX_NOTHING ? REGEX_ANYTHING : REGEX_NOTHING;
    return s->node[a].kind == NOT ? s->node[a].a : regex_make(s, NOT, a, 0, 0, 0);
}

/* Returns A without its alternative REGEX_EMPTY, if A is a union that has one. */
static uint32_t without_empty(struct regex_store *s, uint32_t a)
{
    size_t start = s->n_work;
    const struct regex_node *x = &s->node[a];

    /* REGEX_EMPTY is the lowest number a union can contain. */
    if (x->kind != UNION || s->list[x->a] != REGEX_EMPTY)
        return a;
    for (uint32_t i = 1; i < x->b; i++)
        if (!push(s, s->list[s->node[a].a + i]))
            break;
    return regex_join(s, UNION, start);
}

uint32_t regex_repeat(struct regex_store *s, uint32_t a, uint32_t least, uint32_t most)
{
    const struct regex_node *x = &s->node[a];

    ASSERT(least <= most, "%u %u", least, most);
    if (most == 0 || a == REGEX_EMPTY)
        return REGEX_EMPTY;
    if (a == REGEX_NOTHING)
        return least == 0 ? REGEX_EMPTY : REGEX_NOTHING;
    if (a == REGEX_ANYTHING)
        return REGEX_ANYTHING;
    if (x->matches_empty) {
        least = 0;
        a = without_empty(s, a);
        x = &s->node[a];
    }
    if (least == 1 && most == 1)
        return a;
    if (x->kind == REPEAT && x->m == 0 && (x->n == REGEX_NO_LIMIT || (x->n == 1 && least == 0)))
        return x->n == REGEX_NO_LIMIT ? a : regex_repeat(s, x->a, 0, most); /* (a*){m,n}, (a?){0,n} */
    if (x->kind == REPEAT && x->m == 1 && x->n == REGEX_NO_LIMIT && most == REGEX_NO_LIMIT && least <= 1)
        return regex_repeat(s, x->a, least, most); /* (a+)*, (a+)+ */
    return regex_make(s, REPEAT, a, 0, least, most);
}

/* ---- derivatives ---- */

bool regex_matches_empty(const struct regex_store *s, uint32_t r)
{
    return s->node[r].matches_empty;
}

static uint32_t derive(struct regex_store *s, uint32_t r, uint8_t byte);

static uint32_t derive_concat(struct regex_store *s, uint32_t r, uint8_t byte)
{
    size_t start = s->n_work;

    for (;;) {
        struct regex_node x = s->node[r];
        bool is_last = x.kind != CONCAT;

        push(s, is_last ? regex_next(s, r, byte) : regex_concat(s, regex_next(s, x.a, byte), x.b));
        if (is_last || s->fault != REGEX_FINE || !s->node[x.a].matches_empty)
            break;
        r = x.b;
    }
    if (s->n_work == start + 1)
        return s->work[--s->n_work];
    return regex_join(s, UNION, start);
}

static uint32_t derive_list(struct regex_store *s, uint32_t r, uint8_t byte)
{
    size_t start = s->n_work;
    struct regex_node x = s->node[r];

    for (uint32_t i = 0; i < x.b && s->fault == REGEX_FINE; i++)
        push(s, regex_next(s, s->list[x.a + i], byte));
    return regex_join(s, x.kind, start);
}

static uint32_t derive_multiple(struct regex_store *s, uint32_t r, uint8_t byte)
{
    struct regex_node x = s->node[r];

    if (byte == '-' || byte == '.')
        return r;
    if (byte < '0' || byte > '9')
        return REGEX_NOTHING;
    return regex_make(s, MULTIPLE, x.a, (uint32_t)((x.b * UINT64_C(10) + byte - '0') % x.a), 0, 0);
}

enum { LOOK_STEPS = 1024, STEP_NS = 100 };

/* Compares the processor time of the work with pause_ns and max_ns. */
static void look_at_clock(struct regex_store *s)
{
    uint64_t now = clock_thread_ns(), took;

    s->look_steps = s->steps + LOOK_STEPS;
    if (s->began_ns == 0)
        s->began_ns = now - LOOK_STEPS * STEP_NS;
    took = now - s->began_ns;
    if (took > s->pause_ns)
        fail(s, took > s->max_ns ? REGEX_OVER_WORK : REGEX_PAUSED);
}

bool regex_charge(struct regex_store *s, size_t n)
{
    s->steps += n;
    if (s->steps > s->pause_steps)
        fail(s, s->steps > s->max_steps ? REGEX_OVER_WORK : REGEX_PAUSED);
    else if (s->steps > s->look_steps)
        look_at_clock(s);
    return s->fault == REGEX_FINE;
}

void regex_allow(struct regex_store *s, size_t now, size_t most)
{
    s->most_steps = most;
    s->max_steps = s->steps + most;
    s->pause_steps = s->steps + (now < most ? now : most);
    s->look_steps = s->steps + LOOK_STEPS;
    s->began_ns = 0;
    s->max_ns = (uint64_t)most * STEP_NS * 10;
    s->pause_ns = now < most ? (uint64_t)now * STEP_NS : s->max_ns;
    if (s->fault == REGEX_PAUSED)
        s->fault = REGEX_FINE;
}

/* Computes the derivative of R by BYTE. The result may be an expression that matches no text. */
static uint32_t derive(struct regex_store *s, uint32_t r, uint8_t byte)
{
    struct regex_node x = s->node[r];
    bool is_new;

    switch ((enum kind)x.kind) {
    case NOTHING:
    case EMPTY: return REGEX_NOTHING;
    case ANYTHING: return REGEX_ANYTHING;
    case BYTES: return regex_set_has(&s->set[x.a], byte) ? REGEX_EMPTY : REGEX_NOTHING;
    case LITERAL:
        return (uint8_t)s->text[x.a] == byte ? literal(s, x.a + 1, x.b - 1, &is_new) : REGEX_NOTHING;
    case CONCAT: return derive_concat(s, r, byte);
    case UNION:
    case INTERSECTION: return derive_list(s, r, byte);
    case NOT: return regex_not(s, regex_next(s, x.a, byte));
    case REPEAT:
        return regex_concat(
            s, regex_next(s, x.a, byte),
            regex_repeat(s, x.a, x.m > 0 ? x.m - 1 : 0, x.n == REGEX_NO_LIMIT ? REGEX_NO_LIMIT : x.n - 1));
    case MULTIPLE: return derive_multiple(s, r, byte);
    }
    return REGEX_NOTHING;
}

uint32_t regex_next(struct regex_store *s, uint32_t r, uint8_t byte)
{
    uint32_t to = edges_get(&s->tables, &s->node[r].next, byte);
    size_t taken;

    if (to != EDGES_UNKNOWN)
        return to;
    if (s->fault != REGEX_FINE || !regex_charge(s, 1))
        return REGEX_NOTHING;
    to = derive(s, r, byte);
    if (regex_is_empty(s, to))
        to = REGEX_NOTHING;
    if (s->fault != REGEX_FINE)
        return REGEX_NOTHING;
    taken = edges_set(&s->tables, &s->node[r].next, byte, to);
    if (taken == SIZE_MAX)
        return fail(s, REGEX_NO_MEMORY);
    s->bytes += taken;
    return s->bytes > s->max_bytes ? fail(s, REGEX_OVER_MEMORY) : to;
}

uint32_t regex_table(struct regex_store *s, uint32_t r)
{
    size_t taken = edges_make_table(&s->tables, &s->node[r].next);

    if (taken == SIZE_MAX) {
        fail(s, REGEX_NO_MEMORY);
        r = REGEX_NOTHING;
    } else {
        s->bytes += taken;
    }
    return s->node[r].next.table - 1;
}

bool regex_matches(struct regex_store *s, uint32_t r, const char *text, size_t n)
{
    for (size_t i = 0; i < n && r != REGEX_NOTHING; i++)
        r = regex_next(s, r, (uint8_t)text[i]);
    return s->fault == REGEX_FINE && s->node[r].matches_empty;
}

void regex_first(struct regex_store *s, uint32_t r, struct regex_set *out)
{
    *out = (struct regex_set){{0}};
    for (;; r = s->node[r].b) {
        struct regex_node x = s->node[r];
        struct regex_set part = {{0}}, both;

        regex_charge(s, has_list(x.kind) ? x.b / 8 : 0);
        switch ((enum kind)x.kind) {
        case NOTHING:
        case EMPTY: break;
        case ANYTHING:
        case NOT: memset(&part, 0xff, sizeof(part)); break;
        case BYTES: part = s->set[x.a]; break;
        case LITERAL: regex_set_add(&part, (uint8_t)s->text[x.a]); break;
        case CONCAT:
        case REPEAT: regex_first(s, x.a, &part); break;
        case UNION:
        case INTERSECTION:
            for (uint32_t i = 0; i < x.b; i++) {
                regex_first(s, s->list[x.a + i], &both);
                for (int w = 0; w < 4; w++)
                    part.bit[w] = i == 0            ? both.bit[w]
                                  : x.kind == UNION ? part.bit[w] | both.bit[w]
                                                    : part.bit[w] & both.bit[w];
            }
            break;
        case MULTIPLE:
            for (unsigned c = '0'; c <= '9'; c++)
                regex_set_add(&part, (uint8_t)c);
            regex_set_add(&part, '-');
            regex_set_add(&part, '.');
            break;
        }
        regex_set_join(out, &part);
        if (x.kind != CONCAT || !s->node[x.a].matches_empty)
            return;
    }
}

/* ---- emptiness ---- */

/* A partition of the 256 byte values into classes. All bytes of a class lead to the same derivative. */
struct classes {
    struct regex_set of[256];
    unsigned n;
};

/* Refines the partition, so that each class is completely inside or outside SET. */
static void refine(struct classes *c, const struct regex_set *set)
{
    for (unsigned k = 0, n = c->n; k < n; k++) {
        struct regex_set in, out;
        uint64_t any_in = 0, any_out = 0;

        for (int i = 0; i < 4; i++) {
            any_in |= in.bit[i] = c->of[k].bit[i] & set->bit[i];
            any_out |= out.bit[i] = c->of[k].bit[i] & ~set->bit[i];
        }
        if (any_in && any_out) {
            c->of[k] = in;
            c->of[c->n++] = out;
        }
    }
}

/* Returns the lowest byte of SET, which is not empty. */
static uint8_t first_byte(const struct regex_set *set)
{
    unsigned i = 0;

    while (!set->bit[i])
        i++;
    return (uint8_t)(64 * i + (unsigned)__builtin_ctzll(set->bit[i]));
}

/* Refines the partition, so that the bytes of a class lead to the same derivative of R. */
static void regex_split(struct regex_store *s, uint32_t r, struct classes *c)
{
    for (;; r = s->node[r].b) {
        struct regex_node x = s->node[r];
        struct regex_set one = {{0}};

        regex_charge(s, 1);
        if (x.kind == BYTES)
            refine(c, &s->set[x.a]);
        if (x.kind == LITERAL) {
            regex_set_add(&one, (uint8_t)s->text[x.a]);
            refine(c, &one);
        }
        for (unsigned d = '-'; x.kind == MULTIPLE && d <= '9'; d++) {
            one = (struct regex_set){{0}};
            regex_set_add(&one, (uint8_t)d);
            refine(c, &one);
        }
        for (uint32_t i = 0; has_list(x.kind) && i < x.b; i++)
            regex_split(s, s->list[x.a + i], c);
        if (x.kind == NOT || x.kind == REPEAT || x.kind == CONCAT)
            regex_split(s, x.a, c);
        if (x.kind != CONCAT || !s->node[x.a].matches_empty)
            return;
    }
}

/* The states that a search has reached, and for each the index of the state before it. */
struct search {
    struct tuples seen;
    uint32_t *from; /* [seen.n] */
    size_t cap;
};

/* Records that R was reached from the state with the index FROM and, if R is new, pushes its index on the stack of
 * states to expand. */
static void see(struct regex_store *s, struct search *f, uint32_t r, uint32_t from)
{
    enum tuples_added added = tuples_add(&f->seen, (struct tuple){{r}});

    if (added == TUPLES_NO_MEMORY ||
        !mem_grow((void **)&f->from, &f->cap, f->seen.n, sizeof(*f->from), MEM_TEXT))
        fail(s, REGEX_NO_MEMORY);
    else if (added == TUPLES_NEW && push(s, (uint32_t)f->seen.n - 1))
        f->from[f->seen.n - 1] = from;
}

/* Marks the states on the path to the state with index I as HAS_TEXT, so that later searches end at them. Without this,
 * each state of an intersection would search all other states again. */
static void mark_way(struct regex_store *s, const struct search *f, uint32_t i)
{
    for (; i != 0; i = f->from[i])
        s->node[f->seen.tuple[i].v[0]].known = HAS_TEXT;
}

/* Searches the derivatives of R, depth first, for one that matches a text. True: there is none. */
static bool search_is_empty(struct regex_store *s, uint32_t r)
{
    struct search f = {.cap = 0};
    size_t start = s->n_work;
    bool found = false;

    see(s, &f, r, 0);
    while (s->n_work > start && !found && s->fault == REGEX_FINE) {
        uint32_t i = s->work[--s->n_work], x = f.seen.tuple[i].v[0];
        struct classes c;

        found = s->node[x].known == HAS_TEXT;
        if (found)
            mark_way(s, &f, i);
        if (found || s->node[x].known == HAS_NONE)
            continue;
        memset(&c.of[0], 0xff, sizeof(c.of[0]));
        c.n = 1;
        regex_split(s, x, &c);
        for (unsigned k = 0; k < c.n && s->fault == REGEX_FINE; k++) {
            if (f.seen.n > MOST_SEARCHED)
                fail(s, REGEX_OVER_WORK);
            else if (regex_charge(s, 1))
                see(s, &f, derive(s, x, first_byte(&c.of[k])), i);
        }
    }
    for (size_t i = 0; i < f.seen.n && !found && s->fault == REGEX_FINE; i++)
        s->node[f.seen.tuple[i].v[0]].known = HAS_NONE;
    s->n_work = start;
    tuples_fini(&f.seen);
    mem_free(f.from);
    return !found;
}

/* True if the concatenation R matches no text. Its parts are tested in a loop, because there may be many. */
static bool concat_is_empty(struct regex_store *s, uint32_t r)
{
    size_t start = s->n_work;
    bool is_empty = false;

    while (s->node[r].kind == CONCAT && s->node[r].known == UNKNOWN && !is_empty && s->fault == REGEX_FINE) {
        push(s, r);
        is_empty = regex_is_empty(s, s->node[r].a);
        r = s->node[r].b;
    }
    is_empty = is_empty || regex_is_empty(s, r);
    while (s->n_work > start) {
        r = s->work[--s->n_work];
        if (s->fault == REGEX_FINE)
            s->node[r].known = is_empty ? HAS_NONE : HAS_TEXT;
    }
    return s->fault == REGEX_FINE && is_empty;
}

bool regex_is_empty(struct regex_store *s, uint32_t r)
{
    struct regex_node x = s->node[r];
    bool is_empty = false;

    if (x.known != UNKNOWN || s->fault != REGEX_FINE)
        return x.known == HAS_NONE;
    if (x.kind == CONCAT)
        return concat_is_empty(s, r);
    if (x.kind == REPEAT) {
        is_empty = regex_is_empty(s, x.a);
    } else if (x.kind == UNION) {
        is_empty = true;
        for (uint32_t i = 0; i < x.b && is_empty; i++)
            is_empty = regex_is_empty(s, s->list[x.a + i]);
    } else if (x.kind != MULTIPLE) {
        is_empty = search_is_empty(s, r);
    }
    if (s->fault == REGEX_FINE)
        s->node[r].known = is_empty ? HAS_NONE : HAS_TEXT;
    return s->fault == REGEX_FINE && is_empty;
}

/* ---- bounds of repetitions ---- */

enum { SPINE = 6 /* number of leading parts of a concatenation that are examined */ };

/* Returns part I (counted from 0) of the concatenation R, or REGEX_NOTHING if R has fewer parts. Sets *REST
 * to the expression after the part. */
static uint32_t part_of(const struct regex_store *s, uint32_t r, int i, uint32_t *rest)
{
    for (; i > 0 && s->node[r].kind == CONCAT; i--)
        r = s->node[r].b;
    *rest = s->node[r].kind == CONCAT ? s->node[r].b : REGEX_EMPTY;
    return i > 0 ? REGEX_NOTHING : s->node[r].kind == CONCAT ? s->node[r].a : r;
}

/* Returns the index of the part of R that regex_counter() describes. -1: R has no such part. */
static int counted_part(const struct regex_store *s, uint32_t r)
{
    uint32_t rest;

    for (int i = 0; i < SPINE && s->node[r].is_plain; i++) {
        const struct regex_node *x = &s->node[part_of(s, r, i, &rest)];

        if (x->kind == REPEAT && (x->m != x->n || s->node[x->a].kind != BYTES))
            return i;
        if (x->kind == NOTHING || x->matches_empty)
            return -1;
    }
    return -1;
}

bool regex_counter(const struct regex_store *s, uint32_t r, struct regex_counter *out)
{
    uint32_t rest;
    int i = counted_part(s, r);

    if (i < 0)
        return false;
    r = part_of(s, r, i, &rest);
    *out = (struct regex_counter){s->node[r].a, s->node[r].m, s->node[r].n};
    return true;
}

uint32_t regex_without_counts(struct regex_store *s, uint32_t r, uint32_t *loop)
{
    uint32_t rest, part, element, star, made;
    int i = counted_part(s, r);

    *loop = REGEX_NOTHING;
    part = part_of(s, r, i, &rest);
    element = s->node[part].a;
    star = regex_repeat(s, element, 0, REGEX_NO_LIMIT);
    if (s->node[star].kind != REPEAT || s->node[star].a != element)
        return REGEX_NOTHING;
    *loop = made = regex_concat(s, star, rest);
    while (i-- > 0) {
        part = part_of(s, r, i, &rest);
        made = regex_concat(s, part, made);
    }
    return made;
}

enum { MOST_PARTS = 256 /* of a concatenation that regex_leads_to() follows */ };

bool regex_leads_to(const struct regex_store *s, uint32_t r, uint32_t tail, bool *is_open)
{
    bool may_be_skipped = true;

    *is_open = r == tail;
    if (*is_open)
        return true;
    if (s->node[r].kind == UNION) {
        for (uint32_t i = 0; i < s->node[r].b && !*is_open; i++)
            if (!regex_leads_to(s, s->list[s->node[r].a + i], tail, is_open))
                return false;
        return !*is_open;
    }
    for (int i = 0; i < MOST_PARTS && s->node[r].kind == CONCAT && !*is_open; i++) {
        may_be_skipped = may_be_skipped && s->node[s->node[r].a].matches_empty;
        r = s->node[r].b;
        *is_open = r == tail;
    }
    if (!*is_open)
        return s->node[r].kind != CONCAT; /* false: there are more parts than were looked at */
    return !may_be_skipped;
}

/* ---- repetition bounds that a short text cannot reach ---- */

enum { CLAMP_PARTS = 64 /* leading parts of a concatenation that are clamped */ };

static uint32_t clamp(struct regex_store *s, uint32_t r, uint32_t most);

static uint32_t clamp_concat(struct regex_store *s, uint32_t r, uint32_t most)
{
    size_t start = s->n_work;

    for (int i = 0; i < CLAMP_PARTS && s->node[r].kind == CONCAT && s->fault == REGEX_FINE;
         r = s->node[r].b, i++)
        push(s, clamp(s, s->node[r].a, most));
    r = s->node[r].kind == CONCAT ? r : clamp(s, r, most);
    while (s->n_work > start)
        r = regex_concat(s, s->work[--s->n_work], r);
    return r;
}

/* Returns whether B excludes no text of A, which is plain, as far as the first MOST bytes of a text show. Repetition
 * bounds of B are ignored if neither these bytes nor their completion in A can reach them. */
static bool is_within(struct regex_store *s, uint32_t a, uint32_t b, uint32_t most)
{
    uint32_t most_kept = s->clamp_most, wide;

    s->clamp_most = 0; /* results for another number are not kept */
    wide = s->node[b].is_plain ? clamp(s, b, add_counts(most, s->node[a].reach)) : b;
    s->clamp_most = most_kept;
    return wide != b && regex_is_empty(s, regex_and(s, a, regex_not(s, wide)));
}

/* Clamps the intersection R to one of its members, if the others do not limit a text of MOST bytes. */
static uint32_t clamp_intersection(struct regex_store *s, uint32_t r, uint32_t most)
{
    struct regex_node x = s->node[r];

    for (uint32_t i = 0; i < x.b && x.b <= 4 && s->fault == REGEX_FINE; i++) {
        uint32_t a = s->list[x.a + i];
        bool is_all = s->node[a].is_plain;

        for (uint32_t k = 0; k < x.b && is_all; k++)
            is_all = k == i || is_within(s, a, s->list[x.a + k], most);
        if (is_all && s->fault == REGEX_FINE)
            return clamp(s, a, most);
    }
    return r;
}

static uint32_t clamp_parts(struct regex_store *s, uint32_t r, uint32_t most)
{
    struct regex_node x = s->node[r];
    size_t start = s->n_work;
    uint32_t a;

    switch ((enum kind)x.kind) {
    case CONCAT: return clamp_concat(s, r, most);
    case UNION:
        for (uint32_t i = 0; i < x.b && s->fault == REGEX_FINE; i++)
            push(s, clamp(s, s->list[x.a + i], most));
        return regex_join(s, UNION, start);
    case INTERSECTION: return clamp_intersection(s, r, most);
    case REPEAT:
        a = clamp(s, x.a, most);
        return regex_repeat(s, a, x.m > most ? most + 1 : x.m, x.n > most ? REGEX_NO_LIMIT : x.n);
    case NOTHING:
    case EMPTY:
    case ANYTHING:
    case BYTES:
    case LITERAL:
    case NOT:
    case MULTIPLE: break;
    }
    return r;
}

static uint32_t clamp(struct regex_store *s, uint32_t r, uint32_t most)
{
    bool is_kept = most == s->clamp_most;
    uint32_t to = is_kept ? s->node[r].clamped : REGEX_NOTHING;

    if (to != REGEX_NOTHING || r == REGEX_NOTHING || !regex_charge(s, 1))
        return to;
    to = clamp_parts(s, r, most);
    if (is_kept && s->fault == REGEX_FINE)
        s->node[r].clamped = to;
    return to;
}

uint32_t regex_clamp(struct regex_store *s, uint32_t r, uint32_t most)
{
    s->clamp_most = s->clamp_most ? s->clamp_most : most;
    return clamp(s, r, most);
}
