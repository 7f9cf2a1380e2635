/* queue.h - the queue of possible merges of a long word, smallest key first.
 *
 * A key is rank << 32 | position. Keys that come in ascending order, as a hostile run of one character makes
 * them, stand in a few sorted piles and cost O(1); the others go through a heap, O(log n). With a heap alone
 * a megabyte of one letter takes four times as long, and one of random letters half as long again.
 */
#ifndef GALLOP_TEXT_TOK_QUEUE_H
#define GALLOP_TEXT_TOK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QUEUE_PILES = 6 };

struct queue_pile {
    uint64_t *key; /* [n], ascending; those before HEAD are gone */
    size_t head, n, cap;
};

struct queue { /* zeroed = empty */
    struct queue_pile pile[QUEUE_PILES];
    uint64_t *heap, *spare;
    size_t n_heap, heap_cap, spare_cap;
};

void queue_fini(struct queue *q);
void queue_clear(struct queue *q); /* keeps the memory */

/* Room for N keys of the first filling. false: out of memory. */
bool queue_reserve(struct queue *q, size_t n);

/* The first filling of an empty queue, in the order of positions; queue_sort() ends it. */
void queue_fill(struct queue *q, uint64_t key);
void queue_sort(struct queue *q);

bool queue_push(struct queue *q, uint64_t key); /* false: out of memory */
bool queue_pop(struct queue *q, uint64_t *key); /* false: empty */

#endif
