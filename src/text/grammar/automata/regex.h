/* regex.h - regular languages over bytes, as expressions whose derivatives are the states of an automaton.
 *
 * An expression is a number in a store. Equal expressions have equal numbers, so that the derivative by a byte
 * (Brzozowski 1964; Owens, Reppy, Turon 2009) can be used as the next state of a deterministic automaton,
 * whose states are made when a text reaches them. Counted repetition, intersection and complement are part of
 * the expressions: a{0,1000000} is one node, and its derivative another.
 *
 * No state is a dead end: a derivative whose language is empty is REGEX_NOTHING. This needs a search where
 * intersections or complements are involved.
 *
 * A store has limits of memory and work. When one is reached or an allocation fails, `fault` is set for good,
 * and functions return REGEX_NOTHING. Not thread-safe.
 */
#ifndef GALLOP_TEXT_GRAMMAR_REGEX_H
#define GALLOP_TEXT_GRAMMAR_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/edges.h"

/* Expressions that every store has. */
enum {
    REGEX_NOTHING,  /* no text */
    REGEX_EMPTY,    /* the empty text only */
    REGEX_ANYTHING, /* every text */
};

#define REGEX_NO_LIMIT UINT32_MAX /* as the upper bound of a repetition */

enum regex_fault {
    REGEX_FINE,
    REGEX_NO_MEMORY,   /* an allocation failed */
    REGEX_OVER_MEMORY, /* the limit of bytes is reached */
    REGEX_OVER_WORK,   /* the limit of steps is reached */
};

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
    uint32_t *list; /* [n_list] the members of unions and intersections */
    size_t n_list, cap_list;
    char *text; /* [n_text] the bytes of literals */
    size_t n_text, cap_text;
    uint32_t *slot; /* [n_slots] hash table of nodes: 1 + a number, or 0 */
    size_t n_slots;
    struct edges_tables tables;
    size_t bytes, max_bytes; /* memory in use, and its limit */
    size_t steps, max_steps; /* derivatives computed so far, and their limit */
    enum regex_fault fault;
    uint32_t *work; /* [n_work] members of the union or intersection that is being made, as a stack */
    size_t n_work, cap_work;
};

/* Opens an empty store that takes at most MAX_BYTES of memory and computes MAX_STEPS derivatives. ERR_NOMEM
 * is the only failure. */
int regex_open(struct regex_store *s, size_t max_bytes, size_t max_steps);
void regex_close(struct regex_store *s); /* a zeroed one is fine */

/* Makes room for N more elements of SIZE bytes in ARRAY, of which USED are in use, and counts its memory against the
 * limit of S. Grammars and recognizers keep their arrays so, too. False: a fault. */
bool regex_reserve(struct regex_store *s, void **array, size_t *cap, size_t used, size_t n, size_t size);

/* ---- making expressions ---- */

uint32_t regex_bytes(struct regex_store *s, const struct regex_set *set); /* one byte of SET */
uint32_t regex_range(struct regex_store *s, uint8_t low, uint8_t high);   /* one byte in [low, high] */
uint32_t regex_literal(struct regex_store *s, const char *text, size_t n);
uint32_t regex_concat(struct regex_store *s, uint32_t a, uint32_t b);
uint32_t regex_union(struct regex_store *s, const uint32_t *of, size_t n);
uint32_t regex_or(struct regex_store *s, uint32_t a, uint32_t b);
uint32_t regex_intersection(struct regex_store *s, const uint32_t *of, size_t n);
uint32_t regex_and(struct regex_store *s, uint32_t a, uint32_t b);
uint32_t regex_not(struct regex_store *s, uint32_t a); /* every text that A does not match */

/* A, at least LEAST and at most MOST times (REGEX_NO_LIMIT: any number). */
uint32_t regex_repeat(struct regex_store *s, uint32_t a, uint32_t least, uint32_t most);

/* One character in [low, high] as UTF-8, without surrogates. */
uint32_t regex_characters(struct regex_store *s, uint32_t low, uint32_t high);

/* Every text of digits whose number is a multiple of DIVISOR (1 to REGEX_MAX_DIVISOR); the bytes '-' and '.'
 * do not count. The empty text is 0. To be intersected with the form of a number. */
enum { REGEX_MAX_DIVISOR = 1 << 20 };
uint32_t regex_multiple(struct regex_store *s, uint32_t divisor);

/* ---- reading texts ---- */

bool regex_matches_empty(const struct regex_store *s, uint32_t r);

/* The state after BYTE: the texts t for which BYTE t is in R. REGEX_NOTHING: there are none. */
uint32_t regex_next(struct regex_store *s, uint32_t r, uint8_t byte);

/* The number of a table of the edges of R, for walks over many texts: s->tables.table[NUMBER][BYTE] is
 * regex_next(s, R, BYTE), or EDGES_UNKNOWN. Makes the table where R has none. After a fault the table of
 * REGEX_NOTHING. */
uint32_t regex_table(struct regex_store *s, uint32_t r);

/* True if R matches the whole of TEXT. */
bool regex_matches(struct regex_store *s, uint32_t r, const char *text, size_t n);

/* True if no text is in R. */
bool regex_is_empty(struct regex_store *s, uint32_t r);

/* The bytes that a text of R may begin with, and perhaps more. */
void regex_first(const struct regex_store *s, uint32_t r, struct regex_set *out);

/* The counted repetition near the beginning of R: P A{least,most} Q, where P is a fixed number of parts, none of
 * which matches the empty text. False: R is not of that form. */
struct regex_counter {
    uint32_t element; /* A */
    uint32_t least, most;
};
bool regex_counter(const struct regex_store *s, uint32_t r, struct regex_counter *out);

/* R, for which regex_counter() is true, without its counts: P A* Q. *LOOP is A* Q. */
uint32_t regex_without_counts(struct regex_store *s, uint32_t r, uint32_t *loop);

/* Sets *IS_OPEN to whether R is TAIL, or some parts followed by TAIL. False: R is a union with such a member, or all
 * of those parts match the empty text. */
bool regex_leads_to(const struct regex_store *s, uint32_t r, uint32_t tail, bool *is_open);

/* R where repetition counts are lowered that no text of MOST bytes can tell from it: two states with an equal
 * result allow the same next MOST bytes. */
uint32_t regex_clamp(struct regex_store *s, uint32_t r, uint32_t most);

/* ---- sets ---- */

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
