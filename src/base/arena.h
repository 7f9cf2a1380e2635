/* arena.h - many small allocations with one end of life (a request, a parsed file).
 *
 * Memory comes in chunks from mem.h and goes back all at once. Blocks are aligned to 16 bytes. Not thread
 * safe.
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
void *arena_alloc(struct arena *a, size_t bytes);              /* NULL: out of memory; contents undefined */
void *arena_zalloc(struct arena *a, size_t n, size_t size);    /* zeroed; NULL also on overflow */
char *arena_strndup(struct arena *a, const char *s, size_t n); /* terminated copy */
void arena_reset(struct arena *a);                             /* frees all chunks but one and starts over */
void arena_fini(struct arena *a);                              /* frees everything; a zeroed arena is fine */

#endif
