/* map.h - memory that comes in pages: files mapped read-only, and large zeroed regions for weights and KV. */
#ifndef GALLOP_BASE_MAP_H
#define GALLOP_BASE_MAP_H

#include <stddef.h>

#include "base/err.h"

struct map_file {
    const char *bytes; /* borrowed from the kernel; NULL when closed or empty */
    size_t len;
};

/* Maps the regular file PATH read-only. A directory, device or unreadable file is an error that names it. An
 * empty file opens with len 0 and bytes NULL. */
int map_file_open(struct map_file *m, const char *path, struct err *e);
void map_file_close(struct map_file *m); /* a zeroed one is fine */

/* The pages of [p, p + n) will not be needed soon: the kernel may drop them (they can be read again from the
 * file). */
void map_file_drop(const struct map_file *m, const void *p, size_t n);

/* A zeroed anonymous region of at least BYTES, aligned to 2 MiB when it is that large (huge pages are asked
 * for), else to 4 KiB. Untouched pages cost nothing. NULL: out of memory. Counted and made to fail by the
 * hooks of mem.h. */
void *map_region_new(size_t bytes);
void map_region_free(void *p, size_t bytes); /* the same BYTES; NULL is fine */

/* Bytes [from, to) of the region P are not needed any more: pages that lie wholly inside are given back (and
 * hold zeros if they are read again). */
void map_region_drop(void *p, size_t from, size_t to);
size_t map_region_live_bytes(void);

#endif
