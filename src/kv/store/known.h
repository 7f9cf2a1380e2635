/* known.h - the keys that a store is believed to hold: written by the store's thread, read by the engine's.
 *
 * A look-up takes no lock and little time. It may be wrong: records that another process has written or
 * removed since the last listing are not known, and only 64 bits of a key are compared. A wrong yes costs a
 * read, a wrong no a cache hit.
 */
#ifndef GALLOP_KV_STORE_KNOWN_H
#define GALLOP_KV_STORE_KNOWN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kv/prefix.h"

struct known_table;

struct known {
    _Atomic(struct known_table *) table;
    atomic_int n_readers; /* threads that are reading the table now */
};

int known_open(struct known *k, struct err *e); /* ERR_NOMEM */
void known_close(struct known *k);              /* a zeroed one is fine */

bool known_has(struct known *k, struct prefix_key key); /* callable from any thread */

/* The functions below are for the store's thread only. A key for which there is no memory is not added. */
void known_add(struct known *k, struct prefix_key key);
void known_remove(struct known *k, struct prefix_key key);

/* Replaces what K knows by FRESH, which is opened and filled. FRESH is closed. */
void known_replace(struct known *k, struct known *fresh);

#endif
