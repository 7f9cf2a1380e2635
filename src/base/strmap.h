/* strmap.h - a hash map from byte strings to 64-bit values (open addressing, xxHash).
 *
 * Keys are borrowed and must outlive the map. A map never shrinks and has no deletion, which its uses (tensor
 * names, vocabulary entries) do not need.
 */
#ifndef GALLOP_BASE_STRMAP_H
#define GALLOP_BASE_STRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct strmap_slot {
    const char *key; /* borrowed; NULL: the slot is free */
    uint32_t len, hash;
    uint64_t value;
};

struct strmap {
    struct strmap_slot *slot;
    size_t n_slots, n; /* n_slots is a power of two, or 0 */
    enum mem_tag tag;
};

/* Returns the seed of hashes. It is random in each process, so that files and clients cannot choose keys that
 * collide. */
uint64_t strmap_seed(void);

void strmap_init(struct strmap *m, enum mem_tag tag);
bool strmap_reserve(struct strmap *m, size_t n); /* reserves room for N keys; false: out of memory */
/* Adds KEY with VALUE. 1: added; 0: KEY was present and keeps its value; -1: out of memory. */
int strmap_put(struct strmap *m, const char *key, size_t len, uint64_t value);
bool strmap_get(const struct strmap *m, const char *key, size_t len, uint64_t *value);
/* Adds KEY or overwrites its value. False: out of memory, which is possible only for a new key. */
bool strmap_set(struct strmap *m, const char *key, size_t len, uint64_t value);
void strmap_fini(struct strmap *m); /* M may be zeroed */

#endif
