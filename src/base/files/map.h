/* map.h - memory in pages: files mapped read-only, and large zeroed regions for weights and KV.
 *
 * A file can be truncated, or its disk can fail, while it is mapped; reading the lost pages raises SIGBUS.
 * While files are mapped, a handler of that signal replaces lost pages by zeros, so a reader must call
 * map_file_check() before it trusts what it read. Faults elsewhere are passed to the handler that was
 * installed before, which is restored when no file is mapped.
 */
#ifndef GALLOP_BASE_MAP_H
#define GALLOP_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct stat;

/* Identifies the content of a file: if the stamp is equal, the bytes are. */
struct map_stamp {
    uint64_t dev, ino, size;
    int64_t seconds, nanoseconds; /* time of the last change */
};

struct map_file {
    const char *bytes; /* borrowed from the kernel; NULL if closed or empty */
    size_t len;
    struct map_stamp stamp;
    int guard; /* its row in the handler's table; 0: none */
};

/* Maps the regular file FD read-only. The caller has opened it as PATH, and closes it afterwards. A directory,
 * device or unreadable file is an error that names PATH. An empty file has len 0 and bytes NULL. */
int map_file_of(struct map_file *m, int fd, const char *path, struct err *e);

/* ERR_INPUT with a sentence if pages of M were lost, or if the file at PATH is not the one that M mapped:
 * nothing that was read from M can be trusted. */
int map_file_check(const struct map_file *m, const char *path, struct err *e);

/* Asks for huge pages: M will be read completely and stays mapped. */
void map_file_expect(const struct map_file *m);

/* M was checked and stays mapped: from now on a lost page ends the process, as in any program, instead of
 * reading as zeros. */
void map_file_trust(struct map_file *m);

/* Gives back the pages that lie completely inside the N bytes at P; they come from the file again if they are
 * read again. Does nothing if P is not in a mapped file. Callable from any thread. */
void map_file_drop(const void *p, size_t n);

struct map_stamp map_stamp_of(const struct stat *st);
bool map_stamp_same(const struct map_stamp *a, const struct map_stamp *b);

void map_file_close(struct map_file *m); /* a zeroed one is fine */

/* Allocates a zeroed anonymous region of at least BYTES, aligned to 2 MiB if it is that large (and huge pages
 * are asked for), otherwise to 4 KiB. Untouched pages use no memory. NULL: out of memory. Counted, and made
 * to fail in tests, like allocations of mem.h. */
void *map_region_new(size_t bytes);
void map_region_free(void *p, size_t bytes); /* BYTES as at map_region_new(); NULL is fine */

/* Gives back the pages that lie completely inside bytes [from, to) of the region P. They read as zeros
 * afterwards. */
void map_region_drop(void *p, size_t from, size_t to);
size_t map_region_live_bytes(void);

/* Returns the next BYTES, rounded up to 64, of a region that begins at BASE, and advances *AT. With BASE NULL
 * it only counts, so that one function can both size a region and lay it out. */
static inline void *map_carve(void *base, size_t *at, size_t bytes)
{
    void *p = base ? (char *)base + *at : NULL;

    *at += (bytes + 63) & ~(size_t)63;
    return p;
}

#endif
