/* pool.c - the caller starts a job by raising `generation`, and every worker reports its end in its own `state`.
 *
 * The release of GENERATION publishes a job. Threads report along a tree: thread t waits for its children, threads 4 t
 * + 1 to 4 t + 4, before it reports, and the job is finished when the children of thread 0 have reported. So no thread
 * reads more than four states. With 64 threads, a single reader would fetch 63 cache lines from other cores, one after
 * the other. Both sides spin on a cache line that the other side writes, then sleep on the same word as a futex. A
 * sleeper first sets its flag (sequentially consistent); the other side writes the word and then reads the flag, so
 * that no wake-up is missed; the kernel compares the word once more.
 *
 * Other processes may use the same processors, and a worker that the system has preempted runs again only after
 * milliseconds, hundreds of jobs later. So a thread does not wait for a worker that has not started a job: it takes
 * over the worker's share (with its number, range and scratch), and then waits for the worker's children. Starting a
 * job and taking over a share are one compare and exchange of the worker's state, so that a share is never done twice.
 * A worker that was preempted within its share must be waited for; after a short while the waiting thread sleeps, so
 * that its processor is free. A job's function may wait for all threads of the job, since a thread takes over a share
 * only after its own share has returned.
 *
 * Workers are bound to processors when they start. The caller is bound at its first job, so that one thread may create
 * the pool and another run it; pool_free() on the same thread unbinds it. The main thread is never bound, because
 * threads that it starts later would inherit the binding and share one processor.
 */
#include "base/threads/pool.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "base/threads/thread.h"
#include "base/threads/topo.h"
#include "base/threads/wait.h"

enum {
    LINE = 64,
    PAGE = 4096, /* scratch of different threads is on different pages */
    MAX_THREADS = 4096,
    CHILDREN = 4, /* children of a thread in the tree */
    /* Number of threads from which a finished thread takes tasks. It is limited, because their cache lines
     * must be fetched from other cores. */
    HELPED = 8,
    /* Pauses (about 2 us) before the share of a worker that has not started is taken over. */
    LATE = 64,
};

/* The untaken tasks of a thread's range: their beginning in the upper 32 bits, their end in the lower. */
struct range {
    _Alignas(LINE) _Atomic uint64_t left;
};

/* The state of a worker is 2 g if its share of generation g is finished or was taken over by another thread,
 * and 2 g + 1 while it does its share of generation g. */
struct worker {
    _Alignas(LINE) atomic_uint state;
    atomic_bool awaited; /* another thread sleeps until this worker has finished */
    /* The worker's last share was taken over. Used by the thread that waits for the worker. */
    bool away;
    struct pool *pool;
    struct thread thread;
    int number; /* 1 .. n_threads - 1 */
    int os;     /* processor, or -1 */
};

struct pool {
    /* Incremented by the caller for a new job, or to end the workers. */
    _Alignas(LINE) atomic_uint generation;
    /* Number of workers that sleep on GENERATION or are about to. */
    _Alignas(LINE) atomic_uint sleepers;
    /* The function of the job, written before GENERATION is incremented. NULL: workers end. */
    _Alignas(LINE) pool_fn *fn;
    void *ctx;
    int n_threads, n_started;  /* n_threads includes the caller; n_started: running workers */
    bool shared;               /* more threads than processors */
    atomic_int users;          /* number of pool_new() and pool_join() calls minus pool_free() calls */
    atomic_uint asked, served; /* calls of pool_lock(), and of pool_unlock() */
    atomic_bool running;
    bool caller_bound;
    int caller_os;      /* processor of thread 0, or -1 */
    const void *caller; /* the thread that ran the last job */
    uint64_t waited_ns; /* what pool_waited_ns() returns */
    /* The allocation that contains this struct. */
    void *memory;
    char *scratch;          /* [n_threads, scratch_bytes] */
    size_t scratch_bytes;   /* bytes of one thread */
    struct range *range;    /* [n_threads] */
    struct worker worker[]; /* [n_threads - 1] */
};

static _Thread_local char thread_mark; /* its address identifies the thread */

/* Sets this thread to round to nearest and to keep denormals, so that all threads compute the same bits, even
 * if a host program has changed the mode of its threads. Returns the previous mode. */
static inline unsigned round_as_promised(void)
{
#if defined(__x86_64__)
    unsigned before = __builtin_ia32_stmxcsr();

    __builtin_ia32_ldmxcsr(0x1f80);
    return before;
#else
    return 0;
#endif
}

static inline void round_as_before(unsigned before)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(before);
#else
    (void)before;
#endif
}

/* Spins until *WORD equals VALUE (WANTED true) or differs from it (WANTED false). False: the maximum number
 * of spins is reached. Spins are limited even in a step, because another process may need the processor. */
static bool spin(const struct pool *p, atomic_uint *word, unsigned value, bool wanted)
{
    const bool shared = p->shared;
    int patience = wait_spins(shared);

    for (int i = 0; i < patience; i++) {
        if ((atomic_load_explicit(word, memory_order_acquire) == value) == wanted)
            return true;
        wait_briefly(shared);
    }
    return false;
}

/* Waits for a generation after SEEN, and returns it. */
static unsigned next_job(struct pool *p, unsigned seen)
{
    unsigned now;

    if (!spin(p, &p->generation, seen, false)) {
        atomic_fetch_add(&p->sleepers, 1);
        while (atomic_load(&p->generation) == seen)
            wait_sleep(&p->generation, seen);
        atomic_fetch_sub_explicit(&p->sleepers, 1, memory_order_relaxed);
    }
    now = atomic_load_explicit(&p->generation, memory_order_acquire);
    return now;
}

static unsigned finished(unsigned generation)
{
    return 2 * generation;
}

/* Changes the state of worker W from finished(GENERATION - 1) to STATE. False: W has started GENERATION, or
 * its share was taken over. */
static bool leave_job_before(struct worker *w, unsigned generation, unsigned state)
{
    unsigned before = finished(generation - 1);

    return atomic_compare_exchange_strong_explicit(&w->state, &before, state, memory_order_acq_rel,
                                                   memory_order_acquire);
}

static uint64_t gather(struct pool *p, int t, unsigned generation);

/* If W has not started GENERATION, does W's share and waits for W's children. Returns the nanoseconds of
 * waiting for the children; 0 if W has started. */
static uint64_t take_over(struct pool *p, struct worker *w, unsigned generation)
{
    for (int i = w->away ? LATE : 0; i < LATE; i++) {
        if (atomic_load_explicit(&w->state, memory_order_relaxed) != finished(generation - 1))
            break;
        wait_pause();
    }
    w->away = leave_job_before(w, generation, finished(generation));
    if (!w->away)
        return 0;
    mem_guard_up();
    p->fn(p->ctx, w->number, p->n_threads);
    mem_guard_down();
    return gather(p, w->number, generation);
}

static void wait_for(const struct pool *p, struct worker *w, unsigned generation)
{
    unsigned seen;

    if (spin(p, &w->state, finished(generation), true))
        return;
    atomic_store(&w->awaited, true);
    while ((seen = atomic_load(&w->state)) != finished(generation))
        wait_sleep(&w->state, seen);
    atomic_store_explicit(&w->awaited, false, memory_order_relaxed);
}

/* Waits until the children of thread T have finished GENERATION. Called by T, or by the thread that took over
 * its share. Returns the nanoseconds of waiting, without the time for shares of others. */
static uint64_t gather(struct pool *p, int t, unsigned generation)
{
    int first = CHILDREN * t + 1, end = first + CHILDREN < p->n_threads ? first + CHILDREN : p->n_threads;
    uint64_t waited = 0, begin;

    if (first >= end)
        return 0;
    for (int c = first; c < end; c++)
        waited += take_over(p, &p->worker[c - 1], generation);
    begin = clock_ns();
    for (int c = first; c < end; c++)
        wait_for(p, &p->worker[c - 1], generation);
    return waited + clock_ns() - begin;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    unsigned seen = 0;

    if (w->os >= 0)
        topo_bind(w->os);
    round_as_promised();
    for (;;) {
        seen = next_job(p, seen);
        if (!leave_job_before(w, seen, finished(seen) + 1))
            continue;
        if (!p->fn)
            return NULL;
        mem_guard_up();
        p->fn(p->ctx, w->number, p->n_threads);
        mem_guard_down();
        gather(p, w->number, seen);
        atomic_store(&w->state, finished(seen));
        if (atomic_load(&w->awaited))
            wait_wake(&w->state);
    }
}

static void post(struct pool *p, pool_fn *fn, void *ctx)
{
    p->fn = fn;
    p->ctx = ctx;
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->sleepers) > 0)
        wait_wake(&p->generation);
}

static void adopt_caller(struct pool *p)
{
    p->caller = &thread_mark;
    p->caller_bound = p->caller_os >= 0 && syscall(SYS_gettid) != getpid() && topo_bind(p->caller_os);
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx)
{
    unsigned before = round_as_promised();

    ASSERT(!atomic_exchange_explicit(&p->running, true, memory_order_acquire),
           "a pool runs one job at a time: a job started another, or two threads use engines that share it");
    if (p->caller != &thread_mark)
        adopt_caller(p);
    if (p->n_threads == 1) {
        fn(ctx, 0, 1);
    } else {
        post(p, fn, ctx);
        fn(ctx, 0, p->n_threads);
        p->waited_ns += gather(p, 0, atomic_load_explicit(&p->generation, memory_order_relaxed));
    }
    atomic_store_explicit(&p->running, false, memory_order_release);
    round_as_before(before);
}

/* ---- ranges of tasks ---- */

struct ranges_job {
    struct range *range;
    pool_range_fn *fn;
    void *ctx;
    size_t n;
};

static uint64_t range_of(size_t begin, size_t end)
{
    return (uint64_t)begin << 32 | end;
}

/* Takes half of the tasks left in R, rounded up, from their beginning or (TAIL) end. False: none is left. */
static bool take_range(struct range *r, bool tail, size_t *begin, size_t *end, size_t *end_of_range)
{
    uint64_t left = atomic_load_explicit(&r->left, memory_order_relaxed), then;
    size_t first, last, n;

    do {
        first = left >> 32;
        last = left & UINT32_MAX;
        if (first >= last)
            return false;
        n = (last - first + 1) / 2;
        then = tail ? range_of(first, last - n) : range_of(first + n, last);
    } while (!atomic_compare_exchange_weak_explicit(&r->left, &left, then, memory_order_relaxed,
                                                    memory_order_relaxed));
    *begin = tail ? last - n : first;
    *end = tail ? last : first + n;
    *end_of_range = last;
    return true;
}

static void run_ranges(void *ctx, int thread, int n_threads)
{
    const struct ranges_job *j = ctx;
    size_t begin, end, end_of_range;

    if (n_threads == 1 && j->n)
        j->fn(j->ctx, 0, 0, j->n, j->n);
    for (int i = 0; i < n_threads && i <= HELPED && n_threads > 1; i++)
        while (take_range(&j->range[(thread + i) % n_threads], i > 0, &begin, &end, &end_of_range))
            j->fn(j->ctx, thread, begin, end, end_of_range);
}

void pool_run_ranges(struct pool *p, size_t n, pool_range_fn *fn, void *ctx)
{
    struct ranges_job j = {p->range, fn, ctx, n};

    ASSERT(n <= UINT32_MAX, "%zu tasks", n);
    for (int i = 0; i < p->n_threads; i++) {
        size_t begin, end;

        pool_share(n, 1, i, p->n_threads, &begin, &end);
        atomic_store_explicit(&p->range[i].left, range_of(begin, end), memory_order_relaxed);
    }
    pool_run(p, run_ranges, &j);
}

/* ---- open and close ---- */

/* Chooses the processors of threads. A single thread is not bound: several processes would share a core. */
static int place_threads(struct pool *p, struct err *e)
{
    struct topo t;
    int rc = topo_open(&t, e);

    if (rc != 0)
        return rc;
    p->shared = p->n_threads > t.n_cpus || (t.quota_cpus > 0 && p->n_threads > t.quota_cpus + 0.5);
    p->caller_os = -1;
    if (p->n_threads > 1 && p->n_threads <= t.n_cpus)
        p->caller_os = t.cpu[0].os;
    for (int i = 1; i < p->n_threads; i++)
        p->worker[i - 1].os = p->n_threads <= t.n_cpus ? t.cpu[i].os : -1;
    topo_close(&t);
    return 0;
}

static int start_workers(struct pool *p, struct err *e)
{
    int rc = 0;

    for (int i = 1; i < p->n_threads && rc == 0; i++) {
        struct worker *w = &p->worker[i - 1];
        char name[32];

        w->pool = p;
        w->number = i;
        rc = thread_start(&w->thread, work, w);
        if (rc == 0) {
            p->n_started++;
            snprintf(name, sizeof(name), "compute-%d", i);
            pthread_setname_np(w->thread.id, name);
        }
    }
    if (rc == 0)
        return 0;
    return err_set(e, ERR_OS, "cannot start compute thread %d of %d: %s", p->n_started + 1, p->n_threads,
                   strerror(rc));
}

int pool_new(struct pool **out, int n_threads, struct err *e)
{
    size_t bytes;
    struct pool *p;
    void *memory;
    int rc;

    *out = NULL;
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return err_set(e, ERR_INPUT, "found %d threads, expected 1 to %d", n_threads, MAX_THREADS);
    bytes = sizeof(struct pool) + (size_t)(n_threads - 1) * sizeof(struct worker) +
            (size_t)n_threads * sizeof(struct range) + LINE;
    memory = mem_zalloc(1, bytes, MEM_BASE);
    if (!memory)
        return err_nomem(e, "pool of compute threads");
    p = (struct pool *)(((uintptr_t)memory + LINE - 1) & ~(uintptr_t)(LINE - 1));
    p->memory = memory;
    p->n_threads = n_threads;
    p->range = (struct range *)(void *)&p->worker[n_threads - 1];
    atomic_init(&p->users, 1);
    rc = place_threads(p, e);
    if (rc == 0)
        rc = start_workers(p, e);
    if (rc != 0) {
        pool_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

struct pool *pool_join(struct pool *p)
{
    atomic_fetch_add(&p->users, 1);
    return p;
}

void pool_lock(struct pool *p)
{
    unsigned mine = atomic_fetch_add(&p->asked, 1), served;

    while ((served = atomic_load(&p->served)) != mine)
        wait_sleep(&p->served, served);
}

void pool_unlock(struct pool *p)
{
    unsigned served = atomic_fetch_add(&p->served, 1) + 1;

    if (atomic_load(&p->asked) != served)
        wait_wake(&p->served);
}

int pool_threads(const struct pool *p)
{
    return p->n_threads;
}

uint64_t pool_waited_ns(const struct pool *p)
{
    return p->waited_ns;
}

int pool_reserve(struct pool *p, size_t bytes, struct err *e)
{
    size_t each = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1), n = (size_t)p->n_threads;
    char *scratch;

    ASSERT(!p->running, "scratch is reserved inside a job");
    if (bytes <= p->scratch_bytes)
        return 0;
    scratch = map_region_new(n * each);
    if (!scratch)
        return err_set(e, ERR_NOMEM, "out of memory: %zu bytes of scratch for each of %zu threads", each, n);
    map_region_free(p->scratch, n * p->scratch_bytes);
    p->scratch = scratch;
    p->scratch_bytes = each;
    return 0;
}

size_t pool_scratch_bytes(const struct pool *p)
{
    return p->scratch_bytes;
}

void *pool_scratch(const struct pool *p, int thread)
{
    return p->scratch + (size_t)thread * p->scratch_bytes;
}

void pool_free(struct pool *p)
{
    if (!p || atomic_fetch_sub(&p->users, 1) > 1)
        return;
    ASSERT(!p->running, "a pool is freed inside its job");
    post(p, NULL, NULL);
    for (int i = 0; i < p->n_started; i++)
        thread_join(&p->worker[i].thread);
    if (p->caller == &thread_mark && p->caller_bound)
        topo_unbind();
    map_region_free(p->scratch, (size_t)p->n_threads * p->scratch_bytes);
    mem_free(p->memory);
}

void pool_share(size_t n, size_t unit, int thread, int n_threads, size_t *begin, size_t *end)
{
    size_t units, each, extra, t = (size_t)thread, first, count;

    ASSERT(unit > 0 && thread >= 0 && thread < n_threads, "unit %zu, thread %d of %d", unit, thread,
           n_threads);
    units = n / unit + (n % unit != 0);
    each = units / (size_t)n_threads;
    extra = units % (size_t)n_threads;
    first = t * each + (t < extra ? t : extra);
    count = each + (t < extra);
    *begin = first < units ? first * unit : n;
    *end = first + count < units ? (first + count) * unit : n;
}
