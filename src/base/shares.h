/* shares.h - a pool of units (bytes of memory, entries of a queue) that clients share.
 *
 * In a fair pool a client may take units only if it then holds at most three times as many as remain free. Thus one
 * client never holds more than three quarters of the pool, and others always find some of it. Clients are numbers below
 * SHARES_CLIENTS, such as hashes of API keys.
 *
 * Any thread may call these functions. Two threads that take units for the same client at the same time may exceed its
 * share by the units of one of them; the size of the pool is never exceeded.
 */
#ifndef GALLOP_BASE_SHARES_H
#define GALLOP_BASE_SHARES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHARES_CLIENTS = 1024 };

struct shares {
    bool fair;                         /* false: clients are counted, but may take everything */
    _Atomic size_t n;                  /* units that are taken */
    _Atomic size_t of[SHARES_CLIENTS]; /* units that each client holds */
};

/* Returns the maximum number of units that one client can hold of a pool of MOST units. */
size_t shares_most(const struct shares *s, size_t most);

/* Returns whether CLIENT may take N more units of S, which has MOST units. A client that then holds at most ALONE units
 * is not limited by its share. */
bool shares_has_room(const struct shares *s, uint32_t client, size_t n, size_t most, size_t alone);

/* Takes N units of S for CLIENT. If shares_has_room() is false, changes nothing and returns false. */
bool shares_take(struct shares *s, uint32_t client, size_t n, size_t most, size_t alone);

void shares_give(struct shares *s, uint32_t client, size_t n); /* gives N units of CLIENT back */

#endif
