/* heap.h - a priority queue whose nodes are embedded in its members, so that nothing is allocated.
 *
 * A pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986): adding costs one comparison, removing the
 * first or any other member O(log n) on average. The owner's function gives the order; members that are equal
 * in it leave in no particular order.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_HEAP_H
#define GALLOP_ENGINE_SCHEDULE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* The part of a member that the heap uses. A zeroed node is in no heap. */
struct heap_node {
    struct heap_node *child, *next;
    /* The previous sibling; of a first child its parent; of the root itself. */
    struct heap_node *prev;
};

typedef bool heap_before_fn(const struct heap_node *a, const struct heap_node *b);

struct heap {
    struct heap_node *first; /* NULL: empty */
    heap_before_fn *before;
    size_t n;
};

void heap_add(struct heap *h, struct heap_node *node);    /* NODE is in no heap */
void heap_remove(struct heap *h, struct heap_node *node); /* NODE is in H; it is zeroed */
bool heap_holds(const struct heap_node *node);            /* NODE is in a heap */

#endif
