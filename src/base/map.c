/* map.c - mmap for files and for large regions. */
#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

static atomic_size_t live_region_bytes;

int map_file_open(struct map_file *m, const char *path, struct err *e)
{
    struct stat st;
    int fd, rc = 0;
    void *p;

    *m = (struct map_file){0};
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_os(e, "open", path);
    if (fstat(fd, &st) != 0) {
        rc = err_os(e, "examine", path);
    } else if (!S_ISREG(st.st_mode)) {
        rc = err_set(e, ERR_INPUT, "%s: this is not a regular file", path);
    } else if (st.st_size > 0) {
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            rc = err_os(e, "map", path);
        else
            *m = (struct map_file){.bytes = p, .len = (size_t)st.st_size};
    }
    close(fd);
    return rc;
}

void map_file_close(struct map_file *m)
{
    if (m->bytes)
        munmap((void *)(uintptr_t)m->bytes, m->len);
    *m = (struct map_file){0};
}

void map_file_drop(const struct map_file *m, const void *p, size_t n)
{
    uintptr_t base = (uintptr_t)m->bytes, from = (uintptr_t)p, to;

    if (!m->bytes || from < base || from - base > m->len || n > m->len - (from - base))
        return;
    to = (from + n) & ~(uintptr_t)(PAGE - 1);
    from = (from + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    if (from < to)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

static size_t rounded(size_t bytes)
{
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;

    if (bytes > SIZE_MAX - 2 * (size_t)HUGE_PAGE)
        return 0;
    return bytes == 0 ? unit : (bytes + unit - 1) / unit * unit;
}

void *map_region_new(size_t bytes)
{
    size_t len = rounded(bytes), extra = len >= HUGE_PAGE ? HUGE_PAGE : 0;
    void *probe = mem_alloc(1, MEM_BASE); /* so that the failing allocator reaches regions too */
    uintptr_t at, aligned;
    void *p;

    if (!probe || len == 0) {
        mem_free(probe);
        return NULL;
    }
    mem_free(probe);
    p = mmap(NULL, len + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    at = (uintptr_t)p;
    aligned = extra ? (at + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1) : at;
    if (aligned > at)
        munmap(p, aligned - at);
    if (extra && aligned + len < at + len + extra)
        munmap((void *)(aligned + len), at + len + extra - (aligned + len));
    if (extra)
        madvise((void *)aligned, len, MADV_HUGEPAGE);
    atomic_fetch_add(&live_region_bytes, len);
    return (void *)aligned;
}

void map_region_free(void *p, size_t bytes)
{
    if (!p)
        return;
    ASSERT(!mem_guarded(), "a region is freed inside a step");
    munmap(p, rounded(bytes));
    atomic_fetch_sub(&live_region_bytes, rounded(bytes));
}

void map_region_drop(void *p, size_t from, size_t to)
{
    from = (from + PAGE - 1) & ~(size_t)(PAGE - 1);
    to &= ~(size_t)(PAGE - 1);
    if (from < to)
        madvise((char *)p + from, to - from, MADV_DONTNEED);
}

size_t map_region_live_bytes(void)
{
    return atomic_load(&live_region_bytes);
}
