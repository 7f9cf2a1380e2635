/* known.h - the keys that a store is believed to hold: written by the store's thread, asked by the engine's.
 *
 * A question takes no lock and no time to speak of. It may be answered wrongly: what another process has
 * written or removed since the last look is not known, and of a key 64 bits count. A wrong yes costs a look,
 * a wrong no a hit.
 */
#ifndef GALLOP_KV_STORE_KNOWN_H
#define GALLOP_KV_STORE_KNOWN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kv/prefix.h"

struct known_table;

struct known {
    _Atomic(struct known_table *) table;
    atomic_int n_readers; /* who are looking into it right now */
};

int known_open(struct known *k, struct err *e); /* ERR_NOMEM */
void known_close(struct known *k);              /* a zeroed one is fine */

bool known_has(struct known *k, struct prefix_key key); /* any thread */

/* The rest is for the store's thread alone. A key for which there is no memory is not added. */
void known_add(struct known *k, struct prefix_key key);
void known_remove(struct known *k, struct prefix_key key);

/* FRESH, opened and filled, takes the place of what was known, and is closed. */
void known_replace(struct known *k, struct known *fresh);

#endif
