/* map.h - memory in pages: read-only maps of files, and large zeroed regions for weights and KV rows.
 *
 * A file can be truncated, or its disk can fail, while it is mapped; reading the lost pages raises SIGBUS. While files
 * are mapped, a handler of SIGBUS replaces lost pages by zeros, so a reader must call map_file_check() before it trusts
 * the data. Other faults are passed to the previous handler, which is restored when no file is mapped any more.
 */
#ifndef GALLOP_BASE_MAP_H
#define GALLOP_BASE_MAP_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct stat;

/* Identifies the contents of a file: files with equal stamps have equal bytes. */
struct map_stamp {
    uint64_t dev, ino, size;
    int64_t seconds, nanoseconds; /* time of the last modification */
};

struct map_file {
    const char *bytes; /* the mapped bytes; NULL if closed or empty */
    size_t len;
    struct map_stamp stamp;
    int guard; /* row in the table of the SIGBUS handler, from 1; 0: none */
};

/* Maps the regular file FD read-only. The caller has opened FD as PATH and closes it afterwards. ERR_INPUT:
 * FD is a directory or device. An empty file has len 0 and bytes NULL. */
int map_file_of(struct map_file *m, int fd, const char *path, struct err *e);

/* Unblocks SIGBUS on this thread, because the host program may have blocked it, so that a lost page is an error of
 * map_file_check() and does not end the process. map_reading_end() restores the signal mask that was written to
 * *OLD. */
void map_reading_begin(sigset_t *old);
void map_reading_end(const sigset_t *old);

/* Calls map_reading_begin() now, and map_reading_end() at the end of the enclosing block. */
#define MAP_READING()                                                   \
    sigset_t map_reading_old __attribute__((cleanup(map_reading_end))); \
    map_reading_begin(&map_reading_old)

/* Checks that data read from M is valid. ERR_INPUT: pages of M were lost, or the file PATH was changed or
 * replaced since M was mapped. */
int map_file_check(const struct map_file *m, const char *path, struct err *e);

/* Requests huge pages for M, which will be read completely and stay mapped. */
void map_file_expect(const struct map_file *m);

/* Removes the guard of M, which was checked and stays mapped. From now on reading a lost page raises SIGBUS
 * instead of giving zeros. */
void map_file_trust(struct map_file *m);

/* Releases the pages that lie completely inside P [n]; later reads load them from the file again. Does
 * nothing if P is not in a mapped file. Callable from any thread. */
void map_file_drop(const void *p, size_t n);

/* Like map_file_drop(), but P must be in a mapped file, which is not checked. */
void map_pages_drop(const void *p, size_t n);

struct map_stamp map_stamp_of(const struct stat *st);
bool map_stamp_same(const struct map_stamp *a, const struct map_stamp *b);

void map_file_close(struct map_file *m); /* M may be zeroed */

/* Allocates a zeroed anonymous region of at least BYTES. Regions of 2 MiB and more are aligned to 2 MiB and
 * use huge pages; smaller ones are aligned to 4 KiB. Untouched pages use no memory. NULL: out of memory, or
 * chosen by mem_fail_at(). */
void *map_region_new(size_t bytes);
void map_region_free(void *p, size_t bytes); /* same BYTES as in map_region_new(); P may be NULL */

/* Releases the pages that lie completely inside bytes [FROM, TO) of the region P. They then read as zeros. */
void map_region_drop(void *p, size_t from, size_t to);
size_t map_region_live_bytes(void);

/* Returns the memory at offset *AT of the region BASE, and advances *AT by BYTES rounded up to 64. With BASE
 * NULL it only advances *AT, so that the same code can compute a region's size and lay it out. */
static inline void *map_carve(void *base, size_t *at, size_t bytes)
{
    void *p = base ? (char *)base + *at : NULL;

    *at += (bytes + 63) & ~(size_t)63;
    return p;
}

#endif
