/* arena.h - many small allocations that are freed together, as those of a request or of a parsed file are.
 *
 * Memory comes in chunks and goes back all at once. An arena belongs to one thread at a time.
 */
#ifndef GALLOP_BASE_ARENA_H
#define GALLOP_BASE_ARENA_H

#include <stddef.h>

#include "base/mem.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunk; /* newest first */
    size_t used;               /* bytes used of the newest chunk */
    enum mem_tag tag;
};

void arena_init(struct arena *a, enum mem_tag tag);

/* BYTES of undefined contents, aligned to 16. NULL: out of memory. */
void *arena_alloc(struct arena *a, size_t bytes);

/* N x SIZE zeroed bytes. NULL: out of memory, or the product overflows. */
void *arena_zalloc(struct arena *a, size_t n, size_t size);

/* A copy of the N bytes at S, with a zero byte after them. NULL: out of memory. */
char *arena_strndup(struct arena *a, const char *s, size_t n);

/* Frees everything. A zeroed arena is fine. */
void arena_fini(struct arena *a);

#endif
