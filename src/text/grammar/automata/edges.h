/* edges.h - the transitions of an automaton's states that are known so far: state and byte to the next state.
 *
 * States are made while texts are read, and most of them are left by one or two bytes only. A state keeps
 * three edges itself; one with more gets a table of 256. Both the states of regular expressions (regex.h) and
 * the rows of a recognizer (recognizer.h) use it.
 */
#ifndef GALLOP_TEXT_GRAMMAR_EDGES_H
#define GALLOP_TEXT_GRAMMAR_EDGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EDGES_OWN = 3 };
#define EDGES_UNKNOWN UINT32_MAX

struct edges {
    uint8_t n; /* of the edges inside this struct */
    uint8_t byte[EDGES_OWN];
    uint32_t to[EDGES_OWN];
    uint32_t table; /* 1 + the index of its table; 0: it has none */
};

/* The tables of all states of one automaton. Zeroed = empty. */
struct edges_tables {
    uint32_t (*table)[256]; /* [n] */
    size_t n, cap;
};

/* The state that BYTE leads to, or EDGES_UNKNOWN. */
static inline uint32_t edges_get(const struct edges_tables *t, const struct edges *e, uint8_t byte)
{
    if (e->table)
        return t->table[e->table - 1][byte];
    for (unsigned i = 0; i < e->n; i++)
        if (e->byte[i] == byte)
            return e->to[i];
    return EDGES_UNKNOWN;
}

/* Records that BYTE leads to TO. Returns the bytes of memory that this took, or SIZE_MAX where there was
 * none: the edge is then not recorded, and will be computed again. */
size_t edges_set(struct edges_tables *t, struct edges *e, uint8_t byte, uint32_t to);

/* Gives E a table if it has none. Returns as edges_set(). */
size_t edges_make_table(struct edges_tables *t, struct edges *e);

void edges_fini(struct edges_tables *t);

#endif
