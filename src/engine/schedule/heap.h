/* heap.h - an intrusive priority queue: nodes are embedded in the elements, so nothing is allocated.
 *
 * It is a pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986): insertion costs one comparison,
 * removing the first or any other element O(log n) amortized. The order of equal elements is unspecified.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_HEAP_H
#define GALLOP_ENGINE_SCHEDULE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* The node of an element. A zeroed node is not in a heap. */
struct heap_node {
    struct heap_node *child, *next; /* first child, next sibling */
    struct heap_node *prev; /* previous sibling; of a first child, its parent; of the root, the root itself */
};

typedef bool heap_before_fn(const struct heap_node *a, const struct heap_node *b);

struct heap {
    struct heap_node *first; /* NULL: empty */
    heap_before_fn *before;
    size_t n;
};

void heap_add(struct heap *h, struct heap_node *node);    /* NODE must not be in a heap */
void heap_remove(struct heap *h, struct heap_node *node); /* NODE must be in H; it is zeroed */
bool heap_holds(const struct heap_node *node);            /* returns true if NODE is in a heap */

#endif
