/* bpequeue.h - the queue of possible merges of a long word, smallest key first.
 *
 * A key is rank << 32 | position. Keys that come in ascending order, as a hostile run of one character makes
 * them, stand in a few sorted piles and cost O(1); the others go through a heap, O(log n).
 */
#ifndef GALLOP_TEXT_BPEQUEUE_H
#define GALLOP_TEXT_BPEQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BPEQUEUE_PILES = 6 };

struct bpequeue_pile {
    uint64_t *key; /* [n], ascending; those before HEAD are gone */
    size_t head, n, cap;
};

struct bpequeue { /* zeroed = empty */
    struct bpequeue_pile pile[BPEQUEUE_PILES];
    uint64_t *heap, *spare;
    size_t n_heap, heap_cap, spare_cap;
};

void bpequeue_fini(struct bpequeue *q);
void bpequeue_clear(struct bpequeue *q); /* keeps the memory */

/* Room for N keys of the first filling. false: out of memory. */
bool bpequeue_reserve(struct bpequeue *q, size_t n);

/* The first filling of an empty queue, in the order of positions; bpequeue_sort() ends it. */
void bpequeue_fill(struct bpequeue *q, uint64_t key);
void bpequeue_sort(struct bpequeue *q);

bool bpequeue_push(struct bpequeue *q, uint64_t key); /* false: out of memory */
bool bpequeue_pop(struct bpequeue *q, uint64_t *key); /* false: empty */

#endif
