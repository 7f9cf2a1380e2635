/* known.h - a set of the keys that a store probably has, written by the store's thread and read by the engine's thread.
 *
 * A look-up takes no lock. Its result may be wrong: the set misses records that another process has written or removed
 * since the last listing, and only 64 bits of a key are compared. A false positive costs a read, a false negative a
 * cache hit.
 */
#ifndef GALLOP_KV_STORE_KNOWN_H
#define GALLOP_KV_STORE_KNOWN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kv/prefix.h"

struct known_table;

struct known {
    _Atomic(struct known_table *) table;
    atomic_int n_readers; /* number of threads that are reading the table */
};

int known_open(struct known *k, struct err *e); /* ERR_NOMEM */
void known_close(struct known *k);              /* K may be zeroed */

bool known_has(struct known *k, struct prefix_key key); /* callable from any thread */

/* The functions below are for the store's thread only. known_add() adds nothing if memory is exhausted. */
void known_add(struct known *k, struct prefix_key key);
void known_remove(struct known *k, struct prefix_key key);

/* Moves the keys of FRESH to K in place of K's own keys, and closes FRESH. */
void known_replace(struct known *k, struct known *fresh);

#endif
