/* shared.c - creates, grows and maps shared memory. */
#include "base/files/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { UNIT = 1 << 20 }; /* the size of the memory is a multiple of it */

int shared_new(struct shared *s, struct err *e)
{
    *s = (struct shared){.fd = memfd_create("gallop", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (s->fd >= 0 && fcntl(s->fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
        return 0;
    err_os(e, "make", "shared memory");
    shared_close(s);
    return ERR_OS;
}

void shared_take(struct shared *s, int fd)
{
    *s = (struct shared){.fd = fd};
}

/* Maps the first N bytes of the file, which has at least N. */
static bool shared_map(struct shared *s, size_t n)
{
    void *p = s->bytes ? mremap(s->bytes, s->n_mapped, n, MREMAP_MAYMOVE)
                       : mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);

    if (p == MAP_FAILED)
        return false;
    s->bytes = p;
    s->n_mapped = n;
    return true;
}

bool shared_reach(struct shared *s, size_t n)
{
    struct stat st;

    if (n <= s->n_mapped)
        return true;
    return fstat(s->fd, &st) == 0 && st.st_size > 0 && (size_t)st.st_size >= n &&
           shared_map(s, (size_t)st.st_size);
}

int shared_reserve(struct shared *s, size_t n, struct err *e)
{
    size_t size;

    if (shared_reach(s, n))
        return 0;
    if (__builtin_add_overflow(n, UNIT - 1, &size) || size > (size_t)1 << 46)
        return err_nomem(e, "shared memory");
    size -= size % UNIT;
    if (ftruncate(s->fd, (off_t)size) != 0 || !shared_map(s, size))
        return err_os(e, "extend", "shared memory");
    return 0;
}

void shared_drop(struct shared *s, size_t from)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = from + (page - from % page) % page;

    if (begin < s->n_mapped)
        madvise(s->bytes + begin, s->n_mapped - begin, MADV_REMOVE);
}

void shared_close(struct shared *s)
{
    if (s->bytes)
        munmap(s->bytes, s->n_mapped);
    if (s->fd >= 0)
        close(s->fd);
    *s = (struct shared){.fd = -1};
}
