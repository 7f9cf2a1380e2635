/* tuples.h - a list of distinct tuples of four numbers, in the order of insertion. */
#ifndef GALLOP_TEXT_GRAMMAR_TUPLES_H
#define GALLOP_TEXT_GRAMMAR_TUPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tuple {
    uint32_t v[4];
};

/* A list. Zeroed = empty. */
struct tuples {
    struct tuple *tuple; /* [n] */
    size_t n, cap;
    uint64_t *slot; /* [n_slots] hash table: round << 32 | (index + 1) */
    size_t n_slots;
    uint32_t round; /* slots of earlier rounds are free, so clearing the list needs no memset() */
};

enum tuples_added { TUPLES_KNOWN, TUPLES_NEW, TUPLES_NO_MEMORY };

enum tuples_added tuples_add(struct tuples *t, struct tuple x);
void tuples_clear(struct tuples *t); /* empties the list, but keeps its memory */
void tuples_fini(struct tuples *t);

uint64_t tuples_hash(const struct tuple *x, size_t n);

#endif
