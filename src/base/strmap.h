/* strmap.h - a hash map from byte strings to 64-bit values (open addressing, xxHash).
 *
 * Keys are borrowed: they must outlive the map. A map grows and never shrinks, and has no deletion: its uses
 * (tensor names, vocabulary entries) need none.
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

void strmap_init(struct strmap *m, enum mem_tag tag);
bool strmap_reserve(struct strmap *m, size_t n); /* room for N keys; false: out of memory */
/* Adds KEY. 1: added. 0: it was there and keeps its old value. -1: out of memory. */
int strmap_put(struct strmap *m, const char *key, size_t len, uint64_t value);
bool strmap_get(const struct strmap *m, const char *key, size_t len, uint64_t *value);
/* Adds KEY or overwrites its value. False: out of memory, which only a new key can cause. */
bool strmap_set(struct strmap *m, const char *key, size_t len, uint64_t value);
void strmap_fini(struct strmap *m); /* a zeroed map is fine */

#endif
