/* turns.h - a queue in which clients take turns: the first item of each client comes before the second of any.
 *
 * A client with many items delays those of another client by one item. Clients are numbers below SHARES_CLIENTS
 * (base/shares.h). The caller holds a lock during each call, and owns the items.
 */
#ifndef GALLOP_BASE_THREADS_TURNS_H
#define GALLOP_BASE_THREADS_TURNS_H

#include <stddef.h>
#include <stdint.h>

#include "base/shares.h"

struct turns_item {
    struct turns_item *next; /* next item of the same client */
    uint32_t client;
};

/* The waiting items of a client. */
struct turns_line {
    struct turns_item *first, **last;
    struct turns_line *next; /* the next client in the queue of clients */
    size_t n_taken;          /* items taken for which turns_give() was not called yet */
};

struct turns {
    struct turns_line line[SHARES_CLIENTS];
    struct turns_line *first, **last; /* queue of the clients with waiting items */
    size_t most;                      /* maximum of n_taken */
};

/* Initializes an empty queue. MOST: maximum number of items of one client that are taken at the same time; 0: no
 * limit. */
void turns_init(struct turns *t, size_t most);

void turns_add(struct turns *t, struct turns_item *item);

/* Removes and returns the first item of the client whose turn it is. NULL: no item waits, or the limit of taken items
 * is reached by each client with waiting items. */
struct turns_item *turns_take(struct turns *t);

/* Ends the use of a taken item of CLIENT, so that another one may be taken. */
void turns_give(struct turns *t, uint32_t client);

#endif
