/* team.c - meetings and ranges of tasks.
 *
 * Each thread counts its meetings. A thread that comes writes the number of the meeting to its own word. Up to FLAT
 * threads read each other's words: a meeting takes as long as one cache line travels. More threads form a tree:
 * thread t waits for threads t + i * 8^j, i = 1..7, for every j for which t is a multiple of 8^(j + 1), then reports to
 * its own parent, and waits until the parent says that all have come. Neighbouring threads are on neighbouring
 * processors, so that most words are read within a node. A word has at most seven readers on each level of the tree.
 *
 * The untaken tasks of a thread's range are one word with the number of the phase, so that a thread may take tasks of
 * a range whose owner has not begun the phase. A thread leaves a phase only when the ranges that it helps are empty;
 * therefore it never finds tasks of an earlier phase.
 */
#include "base/threads/team.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/mem.h"
#include "base/threads/wait.h"

enum {
    LINE = 64,
    FLAT = 4, /* number of threads up to which each reads the words of all others */
    FAN = 8,  /* threads of a group in the tree */
    HELPED = 8,
    TASK_BITS = 24,
    LAST_PHASE = 1 << 14, /* at which the numbers of phases begin again with the next job */
};

/* The words of a thread. Other threads wait for COME and for GONE, and take tasks from LEFT. */
struct member {
    _Alignas(LINE)
        atomic_uint come; /* the last meeting to which the thread, and in a tree its group, has come */
    _Alignas(LINE) atomic_uint gone;      /* in a tree: the last meeting to which all threads have come */
    _Alignas(LINE) _Atomic uint64_t left; /* the phase, and the untaken tasks of the thread's range */
    _Alignas(LINE) unsigned meetings;     /* used by the thread itself, as the members below */
    uint16_t phase;
    bool has_parted;
    uint64_t n_meetings;
};

struct team {
    _Alignas(LINE) atomic_uint sleepers; /* threads that sleep at a meeting or are about to */
    _Atomic uint64_t sleeps;
    /* The meeting of this job at or after which a thread slept first; 0: none has slept. It is written before the
     * thread comes to the next meeting, so that all threads know it there. */
    atomic_uint slept_at;
    _Alignas(LINE) int n_threads;
    bool crowded;
    bool stays;   /* team_stay() */
    void *memory; /* the allocation that contains this struct */
    struct member member[];
};

/* ---- meetings ---- */

static bool has_come(atomic_uint *word, unsigned meeting)
{
    return (int)(atomic_load_explicit(word, memory_order_acquire) - meeting) >= 0;
}

void team_wait(struct team *t, int thread, atomic_uint *word, unsigned number)
{
    int patience = wait_spins(t->crowded);
    unsigned seen, none = 0; /* none: no thread has slept in this job */

    for (int i = 0; i < patience; i++) {
        if (has_come(word, number))
            return;
        wait_briefly(t->crowded);
    }
    atomic_fetch_add(&t->sleepers, 1);
    atomic_fetch_add_explicit(&t->sleeps, 1, memory_order_relaxed);
    atomic_compare_exchange_strong(&t->slept_at, &none, t->member[thread].meetings);
    while ((int)((seen = atomic_load(word)) - number) < 0)
        wait_sleep(word, seen);
    atomic_fetch_sub_explicit(&t->sleepers, 1, memory_order_relaxed);
}

void team_say(struct team *t, atomic_uint *word, size_t n, unsigned number)
{
    for (size_t i = 0; i + 1 < n; i++)
        atomic_store_explicit(&word[i], number, memory_order_release);
    atomic_store(&word[n - 1], number); /* before SLEEPERS is read; the other stores are before this one */
    for (size_t i = 0; i < n && atomic_load(&t->sleepers) > 0; i++)
        wait_wake(&word[i]);
}

static void meet_flat(struct team *t, int thread, unsigned meeting)
{
    team_say(t, &t->member[thread].come, 1, meeting);
    for (int i = 0; i < t->n_threads; i++)
        team_wait(t, thread, &t->member[i].come, meeting);
}

static void meet_in_tree(struct team *t, int thread, unsigned meeting)
{
    int step = 1;

    for (; step < t->n_threads && thread % (step * FAN) == 0; step *= FAN)
        for (int i = 1; i < FAN && thread + i * step < t->n_threads; i++)
            team_wait(t, thread, &t->member[thread + i * step].come, meeting);
    if (thread > 0) {
        team_say(t, &t->member[thread].come, 1, meeting);
        team_wait(t, thread, &t->member[thread - thread % (step * FAN)].gone, meeting);
    }
    if (thread % FAN == 0)
        team_say(t, &t->member[thread].gone, 1, meeting);
}

void team_meet(struct team *t, int thread)
{
    struct member *m = &t->member[thread];
    unsigned slept_at;

    m->n_meetings++;
    if (t->n_threads == 1 || m->has_parted)
        return;
    if (t->n_threads <= FLAT)
        meet_flat(t, thread, ++m->meetings);
    else
        meet_in_tree(t, thread, ++m->meetings);
    slept_at = atomic_load_explicit(&t->slept_at, memory_order_relaxed);
    m->has_parted = slept_at && !t->stays && (int)(slept_at - m->meetings) < 0;
}

void team_stay(struct team *t)
{
    t->stays = true;
}

void team_begin(struct team *t)
{
    atomic_store_explicit(&t->slept_at, 0, memory_order_relaxed);
    /* The words of a range without tasks keep an old phase, which must not become a later one when numbers wrap. */
    bool wraps = t->member[0].phase >= LAST_PHASE;

    for (int i = 0; i < t->n_threads; i++) {
        struct member *m = &t->member[i];

        m->has_parted = false;
        m->phase = wraps ? 0 : t->member[0].phase;
        if (wraps)
            atomic_store_explicit(&m->left, 0, memory_order_relaxed);
    }
}

bool team_is_away(const struct team *t, int thread)
{
    return t->member[thread].has_parted && thread > 0;
}

void team_share(const struct team *t, int thread, size_t n, size_t *begin, size_t *end)
{
    if (!t->member[thread].has_parted) {
        pool_share(n, 1, thread, t->n_threads, begin, end);
        return;
    }
    *begin = 0;
    *end = thread == 0 ? n : 0;
}

uint64_t team_meetings(const struct team *t)
{
    return t->member[0].n_meetings;
}

uint64_t team_sleeps(const struct team *t)
{
    return atomic_load_explicit(&t->sleeps, memory_order_relaxed);
}

/* ---- ranges of tasks ---- */

/* Takes three quarters of the tasks left in the range of OWNER from their beginning, or (TAIL) half of them from their
 * end, rounded up. False: none is left in PHASE. */
static bool take(struct team *t, int owner, uint16_t phase, size_t n, bool tail, size_t *begin, size_t *end,
                 size_t *end_of_range)
{
    const uint64_t mask = ((uint64_t)1 << TASK_BITS) - 1;
    _Atomic uint64_t *left = &t->member[owner].left;
    uint64_t seen = atomic_load_explicit(left, memory_order_relaxed), then;
    size_t first, last, count;

    do {
        uint16_t of = (uint16_t)(seen >> 2 * TASK_BITS);

        if (of == phase) {
            first = seen >> TASK_BITS & mask;
            last = seen & mask;
        } else if ((int16_t)(of - phase) > 0) {
            return false;
        } else {
            pool_share(n, 1, owner, t->n_threads, &first, &last);
        }
        if (first >= last)
            return false;
        count = tail ? (last - first + 1) / 2 : last - first - (last - first) / 4;
        *begin = tail ? last - count : first;
        *end = tail ? last : first + count;
        *end_of_range = last;
        then = (uint64_t)phase << 2 * TASK_BITS | (uint64_t)(tail ? first : *end) << TASK_BITS |
               (tail ? *begin : last);
    } while (!atomic_compare_exchange_weak_explicit(left, &seen, then, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

void team_tasks(struct team *t, int thread, size_t n, pool_range_fn *fn, void *ctx)
{
    uint16_t phase = ++t->member[thread].phase;
    bool alone = t->n_threads == 1 || t->member[thread].has_parted;
    size_t begin, end, end_of_range;

    ASSERT(n >> TASK_BITS == 0, "%zu tasks", n);
    if (alone && thread == 0 && n)
        fn(ctx, 0, 0, n, n);
    for (int i = 0; i < t->n_threads && i <= HELPED && !alone; i++)
        while (take(t, (thread + i) % t->n_threads, phase, n, i > 0, &begin, &end, &end_of_range))
            fn(ctx, thread, begin, end, end_of_range);
}

/* ---- open and close ---- */

int team_new(struct team **out, const struct pool *pool, struct err *e)
{
    size_t n = (size_t)pool_threads(pool);
    void *memory = mem_zalloc(1, sizeof(struct team) + n * sizeof(struct member) + LINE, MEM_BASE);
    struct team *t;

    *out = NULL;
    if (!memory)
        return err_nomem(e, "the meetings of compute threads");
    t = (struct team *)(((uintptr_t)memory + LINE - 1) & ~(uintptr_t)(LINE - 1));
    t->memory = memory;
    t->n_threads = (int)n;
    t->crowded = pool_is_crowded(pool);
    *out = t;
    return 0;
}

void team_free(struct team *t)
{
    if (t)
        mem_free(t->memory);
}
