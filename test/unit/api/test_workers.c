/* test_workers.c - jobs of workers: they run in order, and those that wait at the end are left alone. */
#include "api/workers.h"

#include <stdatomic.h>
#include <unistd.h>

static struct workers front;
static _Atomic int n_run, n_woken;

static void wake(void *ctx)
{
    n_woken++;
}

static void count(struct workers_job *job)
{
    n_run++;
}

/* Runs until the workers are closed. */
static void last(struct workers_job *job)
{
    bool stops = false;

    n_run++;
    while (!stops) {
        usleep(1000);
        pthread_mutex_lock(&front.lock);
        stops = front.stops;
        pthread_mutex_unlock(&front.lock);
    }
}

static void jobs_are_done_in_order(void **state)
{
    struct workers_job job[5], *done = NULL;

    n_run = n_woken = 0;
    assert_int_equal(workers_open(&front, 1, wake, NULL, NULL), 0);
    for (int i = 0; i < 5; i++) {
        job[i].run = count;
        workers_add(&front, &job[i]);
    }
    for (int i = 0; i < 5; i++) {
        while (!done)
            done = workers_done(&front);
        assert_ptr_equal(done, &job[i]);
        done = done->next;
    }
    workers_close(&front);
    assert_int_equal(n_run, 5);
    assert_int_equal(n_woken, 5);
}

/* A program that ends does not first do what waits, which may take minutes. */
static void what_waits_at_the_end_is_left_undone(void **state)
{
    struct workers_job job[5];

    n_run = 0;
    assert_int_equal(workers_open(&front, 1, wake, NULL, NULL), 0);
    for (int i = 0; i < 5; i++) {
        job[i].run = i ? count : last;
        workers_add(&front, &job[i]);
    }
    while (!n_run)
        usleep(1000);
    workers_close(&front);
    assert_int_equal(n_run, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(jobs_are_done_in_order),
                                       cmocka_unit_test(what_waits_at_the_end_is_left_undone)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
