/* regex.h - regular languages over bytes: expressions, whose derivatives are the states of a lazy DFA.
 *
 * An expression is a number in a store. Equal expressions have equal numbers, so the derivative by a byte (Brzozowski
 * 1964; Owens, Reppy, Turon 2009) is the next state of a deterministic automaton, which is computed when a text reaches
 * it. Expressions include counted repetition, intersection and complement: a{0,1000000} is one node, and its derivative
 * is another one.
 *
 * No state is a dead end: a derivative with an empty language is REGEX_NOTHING. For intersections and complements,
 * detecting an empty language needs a search.
 *
 * A store has limits of memory and work. When a limit is reached or an allocation fails, `fault` is set permanently,
 * and functions return REGEX_NOTHING. Work that takes long can be divided: at `pause_steps` the fault is REGEX_PAUSED.
 * The caller clears it with regex_allow() and repeats the same call, which reuses the results that were complete. Not
 * thread-safe.
 */
#ifndef GALLOP_TEXT_GRAMMAR_REGEX_H
#define GALLOP_TEXT_GRAMMAR_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/edges.h"

/* Predefined expressions. */
enum {
    REGEX_NOTHING,  /* matches no text */
    REGEX_EMPTY,    /* matches the empty text only */
    REGEX_ANYTHING, /* matches every text */
};

#define REGEX_NO_LIMIT UINT32_MAX /* the upper bound of an unbounded repetition */

enum regex_fault {
    REGEX_FINE,
    REGEX_NO_MEMORY,   /* an allocation failed */
    REGEX_OVER_MEMORY, /* the limit of memory is reached */
    REGEX_OVER_WORK,   /* the limit of steps is reached */
    REGEX_PAUSED,      /* the steps of this call are used up: see regex_allow() */
    REGEX_OVER_DEPTH,  /* an expression is nested deeper than REGEX_MOST_DEPTH */
};

/* Maximum nesting depth of expressions, which limits the recursion of functions. All parts of a concatenation
 * count as one level. */
enum { REGEX_MOST_DEPTH = 1200 };

/* A set of bytes. */
struct regex_set {
    uint64_t bit[4];
};

struct regex_node;

struct regex_store {
    struct regex_node *node; /* [n] */
    size_t n, cap;
    struct regex_set *set; /* [n_sets] */
    size_t n_sets, cap_sets;
    uint32_t *list; /* [n_list] members of unions and intersections */
    size_t n_list, cap_list;
    char *text; /* [n_text] bytes of literals */
    size_t n_text, cap_text;
    uint32_t *slot; /* [n_slots] hash table of nodes: 1 + index of the node; 0: free slot */
    size_t n_slots;
    struct edges_tables tables;
    size_t bytes, max_bytes; /* memory in use and its limit, in bytes */
    /* The work so far, its limit, and where it pauses. A step is a derivative, which takes about 100 ns; everything
     * else that takes time is counted in steps too: regex_charge(). */
    size_t steps, max_steps, pause_steps;
    size_t most_steps; /* number of steps that the last regex_allow() allowed */
    /* The processor time of the thread also limits the work. It is read once in many steps, next at step LOOK_STEPS.
     * BEGAN_NS: when the work began (0: not read yet). PAUSE_NS, MAX_NS: the times after which the work pauses and
     * ends. */
    size_t look_steps;
    uint64_t began_ns, pause_ns, max_ns;
    enum regex_fault fault;
    uint32_t clamp_most; /* the argument of regex_clamp() for which results are kept; 0: none */
    uint32_t *work;      /* [n_work] stack: members of the union or intersection under construction */
    size_t n_work, cap_work;
};

/* Opens an empty store with limits of MAX_BYTES of memory and MAX_STEPS derivatives. Fails with ERR_NOMEM. */
int regex_open(struct regex_store *s, size_t max_bytes, size_t max_steps);
void regex_close(struct regex_store *s); /* S may be zeroed */

/* Makes room for N more elements of SIZE bytes in ARRAY, which has USED elements, and counts the memory
 * against the limit of S. Grammars and recognizers use this function too. False: a limit is reached. */
bool regex_reserve(struct regex_store *s, void **array, size_t *cap, size_t used, size_t n, size_t size);

/* Counts N steps of work. False: a limit is exceeded, or there is another fault. */
bool regex_charge(struct regex_store *s, size_t n);

/* Ends a pause, and allows MOST further steps, with a pause after the first NOW of them. So that slow steps do not add
 * up, the work also pauses after the usual time of NOW steps, and ends after ten times the usual time of MOST steps. */
void regex_allow(struct regex_store *s, size_t now, size_t most);

/* ---- constructors ---- */

uint32_t regex_bytes(struct regex_store *s, const struct regex_set *set); /* matches one byte of SET */
uint32_t regex_range(struct regex_store *s, uint8_t low, uint8_t high); /* matches one byte in [low, high] */
uint32_t regex_literal(struct regex_store *s, const char *text, size_t n);
uint32_t regex_concat(struct regex_store *s, uint32_t a, uint32_t b);
uint32_t regex_union(struct regex_store *s, const uint32_t *of, size_t n);
uint32_t regex_or(struct regex_store *s, uint32_t a, uint32_t b);
uint32_t regex_intersection(struct regex_store *s, const uint32_t *of, size_t n);
uint32_t regex_and(struct regex_store *s, uint32_t a, uint32_t b);
uint32_t regex_not(struct regex_store *s, uint32_t a); /* matches every text that A does not match */

/* Matches A at least LEAST and at most MOST times in a row (REGEX_NO_LIMIT: any number of times). */
uint32_t regex_repeat(struct regex_store *s, uint32_t a, uint32_t least, uint32_t most);

/* Matches one character in [low, high] as UTF-8, without surrogates. */
uint32_t regex_characters(struct regex_store *s, uint32_t low, uint32_t high);

/* Matches every text of digits whose number is a multiple of DIVISOR (1 to REGEX_MAX_DIVISOR). The bytes '-'
 * and '.' are ignored, and the empty text counts as 0. Callers intersect the result with number syntax. */
enum { REGEX_MAX_DIVISOR = 1 << 20 };
uint32_t regex_multiple(struct regex_store *s, uint32_t divisor);

/* ---- matching ---- */

/* True if R is nullable: it matches the empty text. */
bool regex_matches_empty(const struct regex_store *s, uint32_t r);

/* Returns the derivative of R by BYTE: it matches a text t if R matches BYTE followed by t. */
uint32_t regex_next(struct regex_store *s, uint32_t r, uint8_t byte);

/* Returns the index of R's table of edges, for walks over many texts: s->tables.table[index][byte] is
 * regex_next(s, R, byte), or EDGES_UNKNOWN if this state was not computed yet. Makes the table if R has none.
 * Returns the table of REGEX_NOTHING after a fault. */
uint32_t regex_table(struct regex_store *s, uint32_t r);

/* True if R matches the whole of TEXT. */
bool regex_matches(struct regex_store *s, uint32_t r, const char *text, size_t n);

/* True if R matches no text. */
bool regex_is_empty(struct regex_store *s, uint32_t r);

/* Sets *OUT to a superset of the bytes with which the texts of R begin. */
void regex_first(struct regex_store *s, uint32_t r, struct regex_set *out);

/* A counted repetition near the start of R: R is P A{least,most} Q, and P is a fixed number of parts that are
 * not nullable. regex_counter() returns false if R has no such form. */
struct regex_counter {
    uint32_t element; /* the repeated expression A */
    uint32_t least, most;
};
bool regex_counter(const struct regex_store *s, uint32_t r, struct regex_counter *out);

/* For an R with a regex_counter(), returns P A* Q: R without the bounds. Sets *LOOP to A* Q. Returns REGEX_NOTHING if
 * A* is stored as a repetition of another element, as (b+)* is stored as b*, because then derivatives do not show where
 * an A begins. */
uint32_t regex_without_counts(struct regex_store *s, uint32_t r, uint32_t *loop);

/* Sets *IS_OPEN to whether R is TAIL or a concatenation that ends with TAIL. Returns true if repetitions can
 * be counted for R, and false if they cannot: R is a union with a member that ends with TAIL, all parts
 * before TAIL are nullable, or R has too many parts. */
bool regex_leads_to(const struct regex_store *s, uint32_t r, uint32_t tail, bool *is_open);

/* Returns R after lowering or removing the repetition bounds that a text of MOST bytes cannot reach. Two
 * states with equal results allow the same next MOST bytes. */
uint32_t regex_clamp(struct regex_store *s, uint32_t r, uint32_t most);

/* ---- byte sets ---- */

static inline void regex_set_add(struct regex_set *set, uint8_t byte)
{
    set->bit[byte >> 6] |= UINT64_C(1) << (byte & 63);
}

static inline bool regex_set_has(const struct regex_set *set, uint8_t byte)
{
    return set->bit[byte >> 6] >> (byte & 63) & 1;
}

static inline void regex_set_join(struct regex_set *set, const struct regex_set *other)
{
    for (int i = 0; i < 4; i++)
        set->bit[i] |= other->bit[i];
}

#endif
