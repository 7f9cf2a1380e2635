/* heap.h - a priority queue whose nodes lie in the members themselves: nothing is allocated.
 *
 * A pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986): adding costs a comparison, taking the first
 * or any other member O(log n) on average. Order is the owner's function; members that are equal in it leave
 * in no particular order.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_HEAP_H
#define GALLOP_ENGINE_SCHEDULE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* Part of a member. A zeroed node is in no heap. */
struct heap_node {
    struct heap_node *child, *next;
    struct heap_node *prev; /* the sibling in front, or the parent of the first child; of the root: itself */
};

typedef bool heap_before_fn(const struct heap_node *a, const struct heap_node *b);

struct heap {
    struct heap_node *first; /* NULL: empty */
    heap_before_fn *before;
    size_t n;
};

void heap_add(struct heap *h, struct heap_node *node);    /* which is in no heap */
void heap_remove(struct heap *h, struct heap_node *node); /* which is in H; it is zeroed */
bool heap_holds(const struct heap_node *node);            /* it is in a heap */

#endif
