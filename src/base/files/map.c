/* map.c - maps files and large regions with mmap(), and guards mapped files with a SIGBUS handler.
 *
 * The handler may run on any thread at any time. It reads a table of fixed size with atomic fields, and calls
 * only mmap(), which is safe in a signal handler.
 */
#include "base/files/map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

static atomic_size_t live_region_bytes;

/* ---- the guard ---- */

enum { GUARDS = 8192 };

static struct {
    atomic_uintptr_t begin, end; /* address range in whole pages; begin 0: the row is free */
    atomic_bool lost;
} guard[GUARDS];
static atomic_int n_guards; /* rows from this index on were never used */

static pthread_mutex_t guard_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t n_guarded;          /* rows in use */
static struct sigaction previous; /* the handler that was installed before on_lost_page() */
static bool installed;
static uintptr_t page_bytes;

/* Passes a signal that does not concern a guarded file to the previous handler. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};

    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(sig, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(sig);
    } else if (info->si_code > 0 || previous.sa_handler == SIG_DFL) {
        sigaction(SIGBUS, &by_default, NULL); /* the fault repeats and kills the process */
        if (info->si_code <= 0)
            raise(sig);
    }
}

static void on_lost_page(int sig, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr, begin, end;
    int rows = atomic_load(&n_guards), saved = errno;

    for (int i = 0; i < rows && info->si_code > 0; i++) {
        begin = atomic_load(&guard[i].begin);
        end = atomic_load(&guard[i].end);
        if (!begin || at < begin || at >= end)
            continue;
        at &= ~(page_bytes - 1);
        if (mmap((void *)at, end - at, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                 0) == MAP_FAILED)
            break;
        atomic_store(&guard[i].lost, true);
        errno = saved;
        return;
    }
    errno = saved;
    pass_on(sig, info, context);
}

void map_reading_begin(sigset_t *old)
{
    sigset_t bus;

    sigemptyset(&bus);
    sigaddset(&bus, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &bus, old);
}

void map_reading_end(const sigset_t *old)
{
    pthread_sigmask(SIG_SETMASK, old, NULL);
}

static void install_handler(void)
{
    struct sigaction ours = {.sa_sigaction = on_lost_page, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    if (installed)
        return;
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, NULL, &previous);
    installed = sigaction(SIGBUS, &ours, NULL) == 0;
}

/* Restores the previous handler, unless a newer handler is installed, which may call on_lost_page(). */
static void remove_handler(void)
{
    struct sigaction now;

    if (!installed || sigaction(SIGBUS, NULL, &now) != 0 || !(now.sa_flags & SA_SIGINFO) ||
        now.sa_sigaction != on_lost_page)
        return;
    installed = sigaction(SIGBUS, &previous, NULL) != 0;
}

/* Adds M to the table. False: all rows are in use. */
static bool guard_begin(struct map_file *m)
{
    int i = 0;

    pthread_mutex_lock(&guard_lock);
    while (i < GUARDS && atomic_load(&guard[i].begin))
        i++;
    if (i < GUARDS) {
        if (n_guarded++ == 0)
            install_handler();
        if (i >= atomic_load(&n_guards))
            atomic_store(&n_guards, i + 1);
        atomic_store(&guard[i].lost, false);
        atomic_store(&guard[i].end, ((uintptr_t)m->bytes + m->len + page_bytes - 1) & ~(page_bytes - 1));
        atomic_store(&guard[i].begin, (uintptr_t)m->bytes);
        m->guard = i + 1;
    }
    pthread_mutex_unlock(&guard_lock);
    return i < GUARDS;
}

static void guard_end(const struct map_file *m)
{
    if (!m->guard)
        return;
    pthread_mutex_lock(&guard_lock);
    atomic_store(&guard[m->guard - 1].begin, 0);
    if (--n_guarded == 0)
        remove_handler();
    pthread_mutex_unlock(&guard_lock);
}

/* ---- files ---- */

struct map_stamp map_stamp_of(const struct stat *st)
{
    return (struct map_stamp){.dev = st->st_dev,
                              .ino = st->st_ino,
                              .size = (uint64_t)st->st_size,
                              .seconds = st->st_mtim.tv_sec,
                              .nanoseconds = st->st_mtim.tv_nsec};
}

bool map_stamp_same(const struct map_stamp *a, const struct map_stamp *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->seconds == b->seconds &&
           a->nanoseconds == b->nanoseconds;
}

int map_file_of(struct map_file *m, int fd, const char *path, struct err *e)
{
    struct map_file f = {0};
    struct stat st;
    void *p;

    *m = f;
    if (fstat(fd, &st) != 0)
        return err_os(e, "examine", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INPUT, "%s: this is not a regular file", path);
    f.stamp = map_stamp_of(&st);
    f.len = (size_t)st.st_size;
    if (f.len > 0) {
        p = mmap(NULL, f.len, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            return err_os(e, "map", path);
        f.bytes = p;
        if (!guard_begin(&f)) {
            munmap(p, f.len);
            return err_set(e, ERR_OS, "%s: cannot map: more than %d files are mapped at once", path, GUARDS);
        }
    }
    *m = f;
    return 0;
}

int map_file_check(const struct map_file *m, const char *path, struct err *e)
{
    bool lost = m->guard && atomic_load(&guard[m->guard - 1].lost);
    struct map_stamp now;
    struct stat st;

    if (stat(path, &st) != 0)
        return err_set(e, ERR_INPUT, "%s: the file was removed while it was read", path);
    now = map_stamp_of(&st);
    if (now.size < m->stamp.size)
        return err_set(e, ERR_INPUT,
                       "%s: the file was truncated while it was read: it had %llu bytes, now it has %llu",
                       path, (unsigned long long)m->stamp.size, (unsigned long long)now.size);
    if (!map_stamp_same(&now, &m->stamp))
        return err_set(e, ERR_INPUT, "%s: the file was changed or replaced while it was read", path);
    return lost ? err_set(e, ERR_INPUT, "%s: a part of the file could not be read from its disk", path) : 0;
}

void map_file_expect(const struct map_file *m)
{
    if (m->bytes)
        madvise((void *)(uintptr_t)m->bytes, m->len, MADV_HUGEPAGE);
}

void map_file_trust(struct map_file *m)
{
    guard_end(m);
    m->guard = 0;
}

void map_file_drop(const void *p, size_t n)
{
    uintptr_t from = (uintptr_t)p, to = from + n;
    bool found = false;

    pthread_mutex_lock(&guard_lock);
    for (int i = 0; i < atomic_load(&n_guards) && !found; i++) {
        uintptr_t begin = atomic_load(&guard[i].begin);

        found = begin && from >= begin && to <= atomic_load(&guard[i].end);
    }
    pthread_mutex_unlock(&guard_lock);
    if (found)
        map_pages_drop(p, n);
}

void map_pages_drop(const void *p, size_t n)
{
    uintptr_t from = ((uintptr_t)p + page_bytes - 1) & ~(page_bytes - 1);
    uintptr_t to = ((uintptr_t)p + n) & ~(page_bytes - 1);

    if (from < to)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

void map_file_close(struct map_file *m)
{
    guard_end(m);
    if (m->bytes)
        munmap((void *)(uintptr_t)m->bytes, m->len);
    *m = (struct map_file){0};
}

/* ---- regions ---- */

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
    void *probe = mem_alloc(1, MEM_BASE); /* lets mem_fail_at() fail regions as well */
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
