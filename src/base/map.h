/* map.h - memory that comes in pages: files mapped read-only, and large zeroed regions for weights and KV.
 *
 * A file can become shorter, or its disk fail, while it is mapped; reading the lost pages is a SIGBUS. As
 * long as a file is mapped, a handler of that signal puts zeros in the place of lost pages and goes on: who
 * reads a mapped file asks map_file_check() before it believes what it read. Faults elsewhere go to the
 * handler that was there before; when no file is mapped that handler is back in its place.
 */
#ifndef GALLOP_BASE_MAP_H
#define GALLOP_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct stat;

/* Which bytes a file had: another stamp, other bytes. */
struct map_stamp {
    uint64_t dev, ino, size;
    int64_t seconds, nanoseconds; /* of the last change */
};

struct map_file {
    const char *bytes; /* borrowed from the kernel; NULL when closed or empty */
    size_t len;
    struct map_stamp stamp;
    int guard; /* its row in the table of the handler; 0: none */
};

/* Maps the regular file FD read-only, which the caller opened, as PATH, and closes. A directory, device or
 * unreadable file is an error that names it. An empty file opens with len 0 and bytes NULL. */
int map_file_of(struct map_file *m, int fd, const char *path, struct err *e);

/* ERR_INPUT with a sentence when pages of M were lost, or when the file at PATH is not what it was when M was
 * opened: nothing that was read since can be believed. */
int map_file_check(const struct map_file *m, const char *path, struct err *e);

/* The whole of M will be read, and stays mapped: huge pages are asked for. */
void map_file_expect(const struct map_file *m);

/* M stays mapped, and was proved: from now on a lost page ends the process, as it does in any program,
 * instead of reading as zeros. */
void map_file_trust(struct map_file *m);

/* The N bytes at P were read: pages that lie wholly among them are given back, and come again from the file
 * if they are read again. Does nothing where P is not in a mapped file. By any thread. */
void map_file_drop(const void *p, size_t n);

struct map_stamp map_stamp_of(const struct stat *st);
bool map_stamp_same(const struct map_stamp *a, const struct map_stamp *b);

void map_file_close(struct map_file *m); /* a zeroed one is fine */

/* A zeroed anonymous region of at least BYTES, aligned to 2 MiB when it is that large (huge pages are asked
 * for), else to 4 KiB. Untouched pages cost nothing. NULL: out of memory. Counted and made to fail by the
 * hooks of mem.h. */
void *map_region_new(size_t bytes);
void map_region_free(void *p, size_t bytes); /* the same BYTES; NULL is fine */

/* Bytes [from, to) of the region P are not needed any more: pages that lie wholly inside are given back (and
 * hold zeros if they are read again). */
void map_region_drop(void *p, size_t from, size_t to);
size_t map_region_live_bytes(void);

/* Hands out the next BYTES, rounded up to 64, of a region that begins at BASE; *AT counts. With BASE NULL it
 * only counts, so that one function can size a region and then lay it out. */
static inline void *map_carve(void *base, size_t *at, size_t bytes)
{
    void *p = base ? (char *)base + *at : NULL;

    *at += (bytes + 63) & ~(size_t)63;
    return p;
}

#endif
