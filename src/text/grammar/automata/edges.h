/* edges.h - the known transitions of an automaton's state: a map from a byte to the next state.
 *
 * Automata are built lazily, and most states have edges for one or two bytes only. A state stores three edges
 * itself; a state with more gets a table of 256 edges. Both regular expressions (regex.h) and rows of a
 * recognizer (recognizer.h) store their edges in this way.
 */
#ifndef GALLOP_TEXT_GRAMMAR_EDGES_H
#define GALLOP_TEXT_GRAMMAR_EDGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EDGES_OWN = 3 };
#define EDGES_UNKNOWN UINT32_MAX

struct edges {
    uint8_t n; /* number of edges stored in this struct */
    uint8_t byte[EDGES_OWN];
    uint32_t to[EDGES_OWN];
    uint32_t table; /* 1 + index of the state's table; 0: the state has no table */
};

/* The tables of all states of an automaton. Zeroed = empty. */
struct edges_tables {
    uint32_t (*table)[256]; /* [n] */
    size_t n, cap;
};

/* Returns the state after BYTE. EDGES_UNKNOWN: the edge was not computed yet. */
static inline uint32_t edges_get(const struct edges_tables *t, const struct edges *e, uint8_t byte)
{
    if (e->table)
        return t->table[e->table - 1][byte];
    for (unsigned i = 0; i < e->n; i++)
        if (e->byte[i] == byte)
            return e->to[i];
    return EDGES_UNKNOWN;
}

/* Records that BYTE leads from the state with the edges E to the state TO. Returns the number of bytes that
 * were allocated. SIZE_MAX: memory ran out; the edge is not recorded, and will be computed again. */
size_t edges_set(struct edges_tables *t, struct edges *e, uint8_t byte, uint32_t to);

/* Makes a table for E if it has none. Returns the same as edges_set(). */
size_t edges_make_table(struct edges_tables *t, struct edges *e);

void edges_fini(struct edges_tables *t);

#endif
