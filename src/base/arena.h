/* arena.h - many small allocations that are freed together, such as those of a request or a parsed file.
 *
 * Memory is allocated in chunks and freed all at once. One thread at a time may use an arena.
 */
#ifndef GALLOP_BASE_ARENA_H
#define GALLOP_BASE_ARENA_H

#include <stddef.h>

#include "base/mem.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunk; /* newest first */
    size_t used;               /* bytes used in the newest chunk */
    enum mem_tag tag;
};

void arena_init(struct arena *a, enum mem_tag tag);

/* Allocates BYTES of undefined contents, aligned to 16 bytes. NULL: out of memory. */
void *arena_alloc(struct arena *a, size_t bytes);

/* Allocates N * SIZE zeroed bytes. NULL: out of memory, or the product overflows. */
void *arena_zalloc(struct arena *a, size_t n, size_t size);

/* Returns a copy of S [n] with a terminating zero byte. NULL: out of memory. */
char *arena_strndup(struct arena *a, const char *s, size_t n);

/* Frees all allocations. A may be zeroed. */
void arena_fini(struct arena *a);

#endif
