/* test_team.c - threads that meet within a job: nobody leaves early, every task runs once, with sleeping threads and
 * without memory. It also runs under ThreadSanitizer. */
#include <stdatomic.h>
#include <time.h>

#include "base/mem.h"
#include "base/threads/pool.h"
#include "base/threads/team.h"

enum { MOST = 23, MEETINGS = 200, TASKS = 301 };

static const int sizes[] = {1, 2, 3, 4,
                            5, 8, 9, MOST}; /* up to 4 threads there is no tree; 23 have two levels */

struct stress {
    struct team *team;
    /* Plain memory, which only meetings order. */
    size_t number[MOST];
    atomic_uint ran[MEETINGS][TASKS], word;
    bool slow;
};

static void open_both(int n, struct pool **p, struct team **t)
{
    struct err e = {0};

    if (pool_new(p, n, &e) != 0 || team_new(t, *p, &e) != 0)
        fail_msg("%s", e.msg);
}

static void close_both(struct pool *p, struct team *t)
{
    team_free(t);
    pool_free(p);
}

static void write_and_read(void *ctx, int thread, int n_threads)
{
    struct stress *s = ctx;

    for (size_t i = 1; i <= MEETINGS; i++) {
        s->number[thread] = i;
        team_meet(s->team, thread);
        for (int t = 0; t < n_threads; t++)
            assert_int_equal(s->number[t], i);
        team_meet(s->team, thread); /* before the numbers change */
    }
}

static void what_threads_wrote_before_a_meeting_is_seen_after_it(void **state)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct stress s = {0};
        struct pool *p;

        open_both(sizes[i], &p, &s.team);
        team_stay(s.team);
        pool_run(p, write_and_read, &s);
        assert_int_equal(team_meetings(s.team), 2 * MEETINGS);
        close_both(p, s.team);
    }
}

static void count(void *ctx, int thread, size_t begin, size_t end, size_t end_of_range)
{
    atomic_uint *ran = ctx;

    (void)thread;
    assert_true(begin < end && end <= end_of_range && end_of_range <= TASKS);
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add(&ran[i], 1);
}

/* Phases with and without a meeting between them. */
static void run_phases(void *ctx, int thread, int n_threads)
{
    struct stress *s = ctx;

    (void)n_threads;
    for (size_t i = 0; i < MEETINGS; i++) {
        team_tasks(s->team, thread, i % TASKS, count, s->ran[i]);
        if (i % 3 == 0)
            team_meet(s->team, thread);
    }
}

static void every_task_runs_once(void **state)
{
    static struct stress s;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct pool *p;

        memset(&s, 0, sizeof(s));
        open_both(sizes[i], &p, &s.team);
        if (i % 2)
            team_stay(s.team);
        for (int job = 1; job <= 3; job++) { /* phases go on from job to job */
            team_begin(s.team);
            pool_run(p, run_phases, &s);
            for (size_t m = 0; m < MEETINGS; m++)
                for (size_t t = 0; t < TASKS; t++)
                    assert_int_equal(s.ran[m][t], t < m % TASKS ? job : 0);
        }
        close_both(p, s.team);
    }
}

enum { SMALL_PHASES = 1000 };

/* Phases of one task, which is thread 0's. */
static void run_small_phases(void *ctx, int thread, int n_threads)
{
    struct stress *s = ctx;

    (void)n_threads;
    for (size_t i = 0; i < SMALL_PHASES; i++)
        team_tasks(s->team, thread, 1, count, s->ran[0]);
}

static void run_all_tasks(void *ctx, int thread, int n_threads)
{
    struct stress *s = ctx;

    (void)n_threads;
    team_tasks(s->team, thread, TASKS, count, s->ran[1]);
}

/* The numbers of phases have 16 bits: 40000 phases later, an untouched range seems to be of a later one. */
static void ranges_without_tasks_for_many_phases_are_not_lost(void **state)
{
    static struct stress s;
    unsigned n_small = 0;
    struct pool *p;

    open_both(2, &p, &s.team);
    team_stay(s.team);
    for (unsigned all = 1; all <= 3; all++) {
        for (unsigned jobs = 0; jobs < 40; jobs++) {
            team_begin(s.team);
            pool_run(p, run_small_phases, &s);
            n_small += SMALL_PHASES;
            assert_int_equal(s.ran[0][0], n_small);
        }
        team_begin(s.team);
        pool_run(p, run_all_tasks, &s);
        for (size_t t = 0; t < TASKS; t++)
            assert_int_equal(s.ran[1][t], all);
    }
    close_both(p, s.team);
}

static void come_late(void *ctx, int thread, int n_threads)
{
    struct stress *s = ctx;

    (void)n_threads;
    for (size_t i = 1; i <= 3; i++) {
        if (thread == 1)
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        s->number[thread] = i;
        team_meet(s->team, thread);
        assert_int_equal(s->number[1], i);
        team_meet(s->team, thread);
    }
    if (thread == 1) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        s->number[1] = 4;
        team_say(s->team, &s->word, 1, 7);
    }
    team_wait(s->team, thread, &s->word, 7);
    assert_int_equal(s->number[1], 4);
}

static void threads_sleep_until_a_late_one_comes(void **state)
{
    for (int n = 2; n <= 9; n += 7) {
        struct stress s = {0};
        struct pool *p;

        open_both(n, &p, &s.team);
        team_stay(s.team);
        pool_run(p, come_late, &s);
        assert_true(team_sleeps(s.team) >= 4);
        close_both(p, s.team);
    }
}

struct parting {
    struct team *team;
    atomic_uint rows[2], tasks;
};

static void count_tasks(void *ctx, int thread, size_t begin, size_t end, size_t end_of_range)
{
    assert_int_equal(thread, 0);
    assert_int_equal(end, end_of_range);
    atomic_fetch_add((atomic_uint *)ctx, (unsigned)(end - begin));
}

static void part(void *ctx, int thread, int n_threads)
{
    struct parting *s = ctx;
    size_t begin, end;

    (void)n_threads;
    for (int i = 0; i < 2; i++) {
        if (thread == 1 && i == 0)
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        team_meet(s->team, thread);
    }
    team_share(s->team, thread, TASKS, &begin, &end);
    atomic_fetch_add(&s->rows[thread == 0], (unsigned)(end - begin));
    team_tasks(s->team, thread, TASKS, count_tasks, &s->tasks);
    team_meet(s->team, thread);
}

static void a_team_parts_after_a_thread_has_slept_until_the_next_job(void **state)
{
    for (int n = 2; n <= 9; n += 7) {
        struct parting s = {0};
        struct pool *p;
        size_t begin, end;

        open_both(n, &p, &s.team);
        for (unsigned job = 1; job <= 2; job++) {
            team_begin(s.team);
            pool_run(p, part, &s);
            assert_int_equal(s.rows[1], job * TASKS);
            assert_int_equal(s.rows[0], 0);
            assert_int_equal(s.tasks, job * TASKS);
        }
        team_begin(s.team);
        team_share(s.team, 1, TASKS, &begin, &end);
        assert_true(begin > 0 && end > begin);
        close_both(p, s.team);
    }
}

static void a_team_without_memory_is_an_error(void **state)
{
    struct err e = {0};
    struct team *t;
    struct pool *p;

    assert_int_equal(pool_new(&p, 2, &e), 0);
    mem_fail_at(1);
    assert_int_equal(team_new(&t, p, &e), ERR_NOMEM);
    mem_fail_at(0);
    assert_null(t);
    pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_threads_wrote_before_a_meeting_is_seen_after_it),
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(ranges_without_tasks_for_many_phases_are_not_lost),
        cmocka_unit_test(threads_sleep_until_a_late_one_comes),
        cmocka_unit_test(a_team_parts_after_a_thread_has_slept_until_the_next_job),
        cmocka_unit_test(a_team_without_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
