/* tuples.h - a list of distinct tuples of four numbers, in the order in which they were added. */
#ifndef GALLOP_TEXT_GRAMMAR_TUPLES_H
#define GALLOP_TEXT_GRAMMAR_TUPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tuple {
    uint32_t v[4];
};

/* Zeroed = empty. */
struct tuples {
    struct tuple *tuple; /* [n] */
    size_t n, cap;
    uint64_t *slot; /* [n_slots] round in which it was filled, and 1 + index */
    size_t n_slots;
    uint32_t round;
};

enum tuples_added { TUPLES_KNOWN, TUPLES_NEW, TUPLES_NO_MEMORY };

enum tuples_added tuples_add(struct tuples *t, struct tuple x);
void tuples_clear(struct tuples *t); /* empties the list, and keeps its memory */
void tuples_fini(struct tuples *t);

uint64_t tuples_hash(const struct tuple *x, size_t n);

#endif
