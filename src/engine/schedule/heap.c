/* heap.c - implements the pairing heap of heap.h. */
#include "engine/schedule/heap.h"

#include "base/err.h"

/* Merges the heaps with the roots A and B, which may be NULL. Returns the root that is first in the order;
 * the other root becomes its first child. */
static struct heap_node *meld(struct heap *h, struct heap_node *a, struct heap_node *b)
{
    if (!a || !b)
        return a ? a : b;
    if (h->before(b, a)) {
        struct heap_node *first = b;

        b = a;
        a = first;
    }
    b->next = a->child;
    if (b->next)
        b->next->prev = b;
    b->prev = a;
    a->child = b;
    return a;
}

/* Merges the list of siblings that begins with NODE into one heap (two-pass pairing): first pairs from front
 * to back, then the pairs from back to front. Returns the root. */
static struct heap_node *meld_siblings(struct heap *h, struct heap_node *node)
{
    struct heap_node *pairs = NULL, *root = NULL;

    while (node) {
        struct heap_node *a = node, *b = node->next;

        node = b ? b->next : NULL;
        a->next = NULL;
        if (b)
            b->next = NULL;
        a = meld(h, a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        struct heap_node *a = pairs;

        pairs = a->next;
        a->next = NULL;
        root = meld(h, root, a);
    }
    return root;
}

static void set_first(struct heap *h, struct heap_node *root)
{
    h->first = root;
    if (root)
        root->prev = root;
}

void heap_add(struct heap *h, struct heap_node *node)
{
    ASSERT(!heap_holds(node));
    set_first(h, meld(h, h->first, node));
    h->n++;
}

void heap_remove(struct heap *h, struct heap_node *node)
{
    struct heap_node *below;

    ASSERT(heap_holds(node) && h->n);
    below = meld_siblings(h, node->child);
    if (node == h->first) {
        set_first(h, below);
    } else {
        if (node->prev->child == node)
            node->prev->child = node->next;
        else
            node->prev->next = node->next;
        if (node->next)
            node->next->prev = node->prev;
        set_first(h, meld(h, h->first, below));
    }
    *node = (struct heap_node){0};
    h->n--;
}

bool heap_holds(const struct heap_node *node)
{
    return node->prev != NULL;
}
