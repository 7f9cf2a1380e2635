/* test_pool.c - the compute pool under stress, with sleeping workers, with threads on wrong processors, and
 * out of memory. It also runs under ThreadSanitizer. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/mem.h"
#include "base/threads/pool.h"
#include "base/threads/topo.h"

enum { MOST = 64 };

static const int sizes[] = {1, 2, 3, 8, 23}; /* The last size has three levels of the tree. */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

struct tally {
    size_t ran[MOST]; /* This is plain memory, which only the pool orders. */
    int n_threads[MOST];
    size_t input, output[MOST];
};

static void count(void *ctx, int thread, int n_threads)
{
    struct tally *t = ctx;

    t->ran[thread]++;
    t->n_threads[thread] = n_threads;
    t->output[thread] = t->input * 3 + (size_t)thread;
}

#if defined(__x86_64__)
enum { CONTROL = 0xffc0, PROMISED = 0x1f80 }; /* The other bits of MXCSR record exceptions. */

static void note_control(void *ctx, int thread, int n_threads)
{
    (void)n_threads;
    ((unsigned *)ctx)[thread] = _mm_getcsr() & CONTROL;
}

static void a_callers_rounding_does_not_reach_the_job_and_comes_back(void **state)
{
    const unsigned other = PROMISED | _MM_ROUND_TOWARD_ZERO | _MM_FLUSH_ZERO_ON;

    for (int n = 1; n <= 3; n++) {
        struct pool *p;
        struct err e;
        unsigned control[3] = {0}, after;

        _mm_setcsr(other); /* Workers inherit this. */
        assert_int_equal(pool_new(&p, n, &e), 0);
        pool_run(p, note_control, control);
        after = _mm_getcsr() & CONTROL;
        _mm_setcsr(PROMISED);
        assert_int_equal(after, other);
        for (int i = 0; i < n; i++)
            assert_int_equal(control[i], PROMISED);
        pool_free(p);
    }
}
#endif

static void every_thread_runs_every_job_once(void **state)
{
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        struct tally t = {.input = 0};
        struct pool *p;
        struct err e = {0};

        assert_int_equal(pool_new(&p, sizes[k], &e), 0);
        assert_int_equal(pool_threads(p), sizes[k]);
        for (size_t job = 1; job <= 3000; job++) {
            t.input = job;
            pool_run(p, count, &t);
            for (int i = 0; i < sizes[k]; i++) {
                assert_int_equal(t.ran[i], job);
                assert_int_equal(t.n_threads[i], sizes[k]);
                assert_int_equal(t.output[i], job * 3 + (size_t)i);
            }
        }
        assert_int_equal(t.ran[sizes[k]], 0);
        pool_free(p);
    }
}

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static void one_is_slow(void *ctx, int thread, int n_threads)
{
    struct tally *t = ctx;

    if (thread == (int)(t->input % (size_t)n_threads))
        pause_ms(2);
    count(ctx, thread, n_threads);
}

/* Workers fall asleep between jobs, and the caller falls asleep in a long one. */
static void sleepers_on_either_side_are_woken(void **state)
{
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        struct tally t = {.input = 0};
        struct pool *p;
        struct err e = {0};

        assert_int_equal(pool_new(&p, sizes[k], &e), 0);
        for (size_t job = 1; job <= 24; job++) {
            t.input = job;
            if (job % 3 == 0)
                pause_ms(3);
            pool_run(p, one_is_slow, &t);
            for (int i = 0; i < sizes[k]; i++)
                assert_int_equal(t.ran[i], job);
        }
        pool_free(p);
    }
}

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void an_idle_pool_burns_no_processor_time(void **state)
{
    struct tally t = {.input = 0};
    struct pool *p;
    struct err e = {0};
    double before;

    assert_int_equal(pool_new(&p, 4, &e), 0);
    pool_run(p, count, &t);
    pause_ms(50); /* This is longer than a worker spins. */
    before = cpu_seconds();
    pause_ms(200);
    assert_true(cpu_seconds() - before < 0.05);
    pool_free(p);
}

static void look_at_guard(void *ctx, int thread, int n_threads)
{
    bool *up = ctx;

    (void)n_threads;
    up[thread] = mem_guarded();
}

static void the_allocation_guard_is_up_in_workers_during_a_job(void **state)
{
    bool up[3] = {false};
    struct pool *p;
    struct err e = {0};

    assert_int_equal(pool_new(&p, 3, &e), 0);
    pool_run(p, look_at_guard, up);
    assert_true(up[1] && up[2]);
    assert_false(up[0]); /* The guard of the caller's thread is not the pool's. */
    assert_false(mem_guarded());
    pool_free(p);
}

static void *run_elsewhere(void *arg)
{
    struct tally t = {.input = 7};

    for (int i = 0; i < 100; i++)
        pool_run(arg, count, &t);
    assert_int_equal(t.ran[0] + t.ran[1], 200);
    return NULL;
}

static void a_pool_serves_a_thread_that_did_not_make_it(void **state)
{
    struct pool *p;
    pthread_t thread;
    struct err e = {0};

    assert_int_equal(pool_new(&p, 2, &e), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_elsewhere, p), 0);
    pthread_join(thread, NULL);
    pool_free(p);
}

struct bound {
    int cpu[MOST];
    atomic_int n_here; /* the number of threads in the job */
    bool let_go;
};

/* No task is taken over while all threads wait for each other in the job. */
static void meet(atomic_int *n_here, int n_threads)
{
    atomic_fetch_add(n_here, 1);
    while (atomic_load(n_here) % n_threads)
        sched_yield();
}

static void record_cpu(void *ctx, int thread, int n_threads)
{
    cpu_set_t set;
    struct bound *b = ctx;

    b->cpu[thread] = -1;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1)
        b->cpu[thread] = sched_getcpu();
    meet(&b->n_here, n_threads);
}

static void *run_bound(void *arg)
{
    struct bound *b = arg;
    cpu_set_t before, after;
    struct pool *p;

    if (sched_getaffinity(0, sizeof(before), &before) != 0 || pool_new(&p, 2, NULL) != 0)
        return NULL;
    pool_run(p, record_cpu, b);
    pool_free(p);
    b->let_go = sched_getaffinity(0, sizeof(after), &after) == 0 && CPU_EQUAL(&before, &after);
    return NULL;
}

static void threads_are_bound_to_distinct_processors_and_the_caller_is_let_go(void **state)
{
    struct bound b = {.let_go = false};
    struct pool *p;
    struct topo t;
    pthread_t thread;
    struct err e = {0};

    assert_int_equal(topo_open(&t, &e), 0);
    if (t.n_cpus < 2) {
        topo_close(&t);
        skip();
    }
    assert_int_equal(pthread_create(&thread, NULL, run_bound, &b), 0);
    pthread_join(thread, NULL);
    assert_int_equal(b.cpu[0], t.cpu[0].os);
    assert_int_equal(b.cpu[1], t.cpu[1].os);
    assert_true(b.let_go);

    assert_int_equal(pool_new(&p, 2, &e), 0);
    b.n_here = 0;
    pool_run(p, record_cpu, &b);
    assert_int_equal(b.cpu[0], -1); /* Threads that the main thread starts would inherit its binding. */
    assert_int_equal(b.cpu[1], t.cpu[1].os);
    pool_free(p);

    assert_int_equal(pool_new(&p, t.n_cpus < MOST ? t.n_cpus + 1 : 1, &e), 0);
    b.n_here = 0;
    pool_run(p, record_cpu, &b);
    assert_true(b.cpu[0] == -1 &&
                b.cpu[1] == -1); /* There are more threads than processors, so the system may move them. */
    pool_free(p);
    topo_close(&t);
}

static void numbers_of_threads_that_make_no_sense_are_refused(void **state)
{
    struct pool *p = (struct pool *)state;
    struct err e = {0};

    assert_int_equal(pool_new(&p, 0, &e), ERR_INPUT);
    assert_null(p);
    assert_non_null(strstr(e.msg, "0 threads"));
    assert_int_equal(pool_new(&p, -3, &e), ERR_INPUT);
    assert_int_equal(pool_new(&p, 1 << 20, &e), ERR_INPUT);
    pool_free(NULL);
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    size_t blocks = mem_live_blocks();
    bool failed = true;

    for (long n = 1; failed; n++) {
        struct pool *p;
        struct err e = {0};
        int rc;

        mem_fail_at(n);
        rc = pool_new(&p, 3, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(rc, failed ? ERR_NOMEM : 0);
        assert_true(!failed == (p != NULL));
        pool_free(p);
        assert_int_equal(mem_live_blocks(), blocks);
        assert_true(n < 100);
    }
}

/* Threads need address space for their stacks. If the process has too little, some threads start and some do
 * not. */
static void threads_that_cannot_start_are_an_error_and_the_others_end(void **state)
{
    int status;
    pid_t pid;

    if (SANITIZED)
        skip();
    pid = fork();
    if (pid == 0) {
        struct rlimit limit = {.rlim_cur = 256 << 20, .rlim_max = 256 << 20};
        struct err e = {0};
        struct pool *p;
        int rc;

        setrlimit(RLIMIT_AS, &limit);
        rc = pool_new(&p, 200, &e);
        _exit(rc == ERR_OS && !p && strstr(e.msg, "of 200") ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static struct pool *joined;

static void run_another(void *ctx, int thread, int n_threads)
{
    (void)n_threads;
    if (thread == 0)
        pool_run(joined, count, ctx);
}

/* Two threads with engines on one pool look to the pool like a job that starts another job. */
static void a_second_job_at_the_same_time_aborts(void **state)
{
    int status;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        struct rlimit none = {0};
        struct tally t = {0};
        struct err e = {0};

        setrlimit(RLIMIT_CORE, &none);
        if (pool_new(&joined, 1, &e) != 0 || !freopen("/dev/null", "w", stderr))
            _exit(1);
        pool_run(joined, run_another, &t);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void a_pool_lives_until_its_last_user_frees_it(void **state)
{
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        size_t blocks = mem_live_blocks();
        struct tally t = {.input = 1};
        struct err e = {0};
        struct pool *p;

        assert_int_equal(pool_new(&p, sizes[k], &e), 0);
        assert_ptr_equal(pool_join(p), p);
        pool_run(p, count, &t);
        pool_free(p);
        pool_run(p, count, &t);
        for (int i = 0; i < sizes[k]; i++)
            assert_int_equal(t.ran[i], 2);
        pool_free(p);
        assert_int_equal(mem_live_blocks(), blocks);
    }
}

/* ---- users on several threads ---- */

enum { N_USERS = 4, N_LOCKS = 200 };

struct user {
    struct pool *p;
    struct tally *t;
    atomic_int *inside;
    atomic_bool *together;
};

static void *lock_and_run(void *ctx)
{
    struct user *u = ctx;

    for (int i = 0; i < N_LOCKS; i++) {
        pool_lock(u->p);
        if (atomic_fetch_add(u->inside, 1) != 0)
            atomic_store(u->together, true);
        pool_run(u->p, count, u->t);
        atomic_fetch_sub(u->inside, 1);
        pool_unlock(u->p);
    }
    pool_free(u->p);
    return NULL;
}

/* The user that opened the pool frees it first. */
static void users_on_several_threads_run_jobs_one_after_the_other(void **state)
{
    atomic_int inside = 0;
    atomic_bool together = false;
    struct tally t = {.input = 1};
    struct user u = {.t = &t, .inside = &inside, .together = &together};
    pthread_t thread[N_USERS];

    assert_int_equal(pool_new(&u.p, 2, NULL), 0);
    for (int i = 0; i < N_USERS; i++) {
        pool_join(u.p);
        assert_int_equal(pthread_create(&thread[i], NULL, lock_and_run, &u), 0);
    }
    pool_free(u.p);
    for (int i = 0; i < N_USERS; i++)
        pthread_join(thread[i], NULL);
    assert_false(atomic_load(&together));
    assert_int_equal(t.ran[0], N_USERS * N_LOCKS);
    assert_int_equal(t.ran[1], N_USERS * N_LOCKS);
}

struct asker {
    struct pool *p;
    int number;
    int *order, *n;
};

static void *ask(void *ctx)
{
    struct asker *a = ctx;

    pool_lock(a->p);
    a->order[(*a->n)++] = a->number;
    pool_unlock(a->p);
    return NULL;
}

/* A user that runs one job after another must not keep the others waiting. */
static void who_asks_first_is_served_first(void **state)
{
    int order[N_USERS + 1], n = 0;
    struct asker a[N_USERS];
    pthread_t thread[N_USERS];
    struct pool *p;

    assert_int_equal(pool_new(&p, 1, NULL), 0);
    pool_lock(p);
    for (int i = 0; i < N_USERS; i++) {
        a[i] = (struct asker){p, i, order, &n};
        assert_int_equal(pthread_create(&thread[i], NULL, ask, &a[i]), 0);
        pause_ms(20); /* it asks */
    }
    pool_unlock(p);
    pool_lock(p);
    order[n++] = N_USERS;
    pool_unlock(p);
    for (int i = 0; i < N_USERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i <= N_USERS; i++)
        assert_int_equal(order[i], i);
    pool_free(p);
}

static void shares_cover_everything_once_in_whole_units(void **state)
{
    static const size_t ns[] = {0, 1, 5, 16, 31, 32, 33, 1000, 151936, SIZE_MAX};
    static const size_t units[] = {1, 2, 16, 32, 100};

    for (size_t i = 0; i < sizeof(ns) / sizeof(*ns); i++)
        for (size_t u = 0; u < sizeof(units) / sizeof(*units); u++)
            for (int n_threads = 1; n_threads <= 9; n_threads++) {
                size_t at = 0, least = SIZE_MAX, most = 0;

                for (int t = 0; t < n_threads; t++) {
                    size_t begin, end, units_here;

                    pool_share(ns[i], units[u], t, n_threads, &begin, &end);
                    assert_true(begin == at && end >= begin && end <= ns[i]);
                    assert_true(end == ns[i] || end % units[u] == 0);
                    units_here = (end - begin) / units[u] + ((end - begin) % units[u] != 0);
                    least = units_here < least ? units_here : least;
                    most = units_here > most ? units_here : most;
                    at = end;
                }
                assert_true(at == ns[i]);
                assert_true(most - least <= 1); /* No thread waits for more than one task. */
            }
}

struct deal {
    atomic_int done[2000]; /* how often each task was done */
    size_t n;
    int slow;                  /* a thread that takes a millisecond for a task; -1: none */
    atomic_size_t by_slow;     /* the number of tasks that this thread did */
    atomic_size_t misreported; /* the number of ranges that are not contiguous */
};

static void do_parts(void *ctx, int thread, size_t begin, size_t end, size_t end_of_range)
{
    struct deal *d = ctx;

    if (begin >= end || end > end_of_range || end_of_range > d->n)
        atomic_fetch_add(&d->misreported, 1);
    for (size_t i = begin; i < end; i++) {
        atomic_fetch_add(&d->done[i], 1);
        if (thread == d->slow) {
            atomic_fetch_add(&d->by_slow, 1);
            pause_ms(1);
        }
    }
}

static void dealt_parts_are_done_once_each_and_a_slow_thread_is_helped(void **state)
{
    static const size_t parts[] = {0, 1, 2, 3, 7, 8, 9, 64, 400};

    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        struct pool *p;
        struct err e = {0};

        assert_int_equal(pool_new(&p, sizes[k], &e), 0);
        for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
            for (int slow = -1; slow < sizes[k] && slow < 2; slow++) {
                struct deal d = {.n = parts[i], .slow = slow};

                pool_run_ranges(p, d.n, do_parts, &d);
                for (size_t at = 0; at < sizeof(d.done) / sizeof(*d.done); at++)
                    assert_int_equal(d.done[at], at < d.n);
                assert_int_equal(d.misreported, 0);
                /* The slow thread would do its whole range alone. Others take tasks of it while it does the
                 * first half. */
                if (slow >= 0 && d.n == 400 && sizes[k] > 1)
                    assert_in_range(d.by_slow, 0, d.n / (size_t)sizes[k] - 1);
            }
        pool_free(p);
    }
}

static atomic_int n_held;
static atomic_bool held_may_go;

/* Holds a worker as if the system had taken its processor away. */
static void hold(int signal)
{
    const struct timespec t = {.tv_nsec = 200000};

    (void)signal;
    atomic_fetch_add(&n_held, 1);
    while (!atomic_load(&held_may_go))
        nanosleep(&t, NULL);
}

struct roll {
    pthread_t thread[MOST];
    atomic_int n_here;
    struct tally tally;
};

static void call_roll(void *ctx, int thread, int n_threads)
{
    struct roll *r = ctx;

    r->thread[thread] = pthread_self();
    meet(&r->n_here, n_threads);
}

static void call_roll_late(void *ctx, int thread, int n_threads)
{
    struct roll *r = ctx;

    r->thread[thread] = pthread_self();
    one_is_slow(&r->tally, thread, n_threads);
}

/* Jobs complete without the workers of HELD [n]. */
static void run_without(int n_threads, const int *held, size_t n)
{
    struct roll r = {.n_here = 0}, now = {.n_here = 0};
    struct pool *p;
    struct err e = {0};

    assert_int_equal(pool_new(&p, n_threads, &e), 0);
    pool_run(p, call_roll, &r);
    atomic_store(&n_held, 0);
    atomic_store(&held_may_go, false);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_kill(r.thread[held[i]], SIGTRAP), 0);
    while (atomic_load(&n_held) < (int)n)
        pause_ms(1);
    for (size_t job = 1; job <= 2 * (size_t)n_threads; job++) {
        struct deal d = {.n = 400, .slow = -1};

        now.tally.input = job;
        pool_run(p, call_roll_late, &now);
        for (int t = 0; t < n_threads; t++)
            assert_int_equal(now.tally.ran[t], job);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < n; k++)
                assert_false(pthread_equal(now.thread[held[i]], r.thread[held[k]]));
        pool_run_ranges(p, d.n, do_parts, &d);
        for (size_t at = 0; at < d.n; at++)
            assert_int_equal(d.done[at], 1);
    }
    atomic_store(&held_may_go, true);
    r.n_here = 0;
    pool_run(p, call_roll, &r); /* The workers have returned. */
    pool_free(p);
}

static void a_worker_that_has_not_begun_is_not_waited_for(void **state)
{
    struct sigaction act = {.sa_handler = hold}, before;

    sigemptyset(&act.sa_mask);
    assert_int_equal(sigaction(SIGTRAP, &act, &before), 0);
    run_without(2, (const int[]){1}, 1);
    run_without(3, (const int[]){2, 1}, 2);
    run_without(23, (const int[]){1}, 1);            /* Thread 1 has the children 5 to 8. */
    run_without(23, (const int[]){1, 5, 21, 22}, 4); /* The tree has three levels. */
    sigaction(SIGTRAP, &before, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_cannot_start_are_an_error_and_the_others_end),
        cmocka_unit_test(every_thread_runs_every_job_once),
        cmocka_unit_test(sleepers_on_either_side_are_woken),
        cmocka_unit_test(a_worker_that_has_not_begun_is_not_waited_for),
        cmocka_unit_test(an_idle_pool_burns_no_processor_time),
        cmocka_unit_test(the_allocation_guard_is_up_in_workers_during_a_job),
        cmocka_unit_test(a_pool_serves_a_thread_that_did_not_make_it),
        cmocka_unit_test(threads_are_bound_to_distinct_processors_and_the_caller_is_let_go),
        cmocka_unit_test(numbers_of_threads_that_make_no_sense_are_refused),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(a_second_job_at_the_same_time_aborts),
#if defined(__x86_64__)
        cmocka_unit_test(a_callers_rounding_does_not_reach_the_job_and_comes_back),
#endif
        cmocka_unit_test(a_pool_lives_until_its_last_user_frees_it),
        cmocka_unit_test(users_on_several_threads_run_jobs_one_after_the_other),
        cmocka_unit_test(who_asks_first_is_served_first),
        cmocka_unit_test(shares_cover_everything_once_in_whole_units),
        cmocka_unit_test(dealt_parts_are_done_once_each_and_a_slow_thread_is_helped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
