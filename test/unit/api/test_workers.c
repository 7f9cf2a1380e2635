/* test_workers.c - jobs of workers: clients take turns, large jobs leave a thread to others, threads of their own
 * compile, and jobs that wait at the end are left alone. */
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
    struct workers_job job[5] = {0}, *done = NULL;

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
    struct workers_job job[5] = {0};

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

static _Atomic int n_open_gates; /* jobs that gate() may end */

/* Runs until a gate is open for it. */
static void gate(struct workers_job *job)
{
    int n;

    n_run++;
    do
        usleep(100);
    while ((n = n_open_gates) == 0 || !atomic_compare_exchange_strong(&n_open_gates, &n, n - 1));
}

static void await_runs(int n)
{
    while (n_run < n)
        usleep(100);
}

/* Adds N_JOBS jobs of the clients and sizes in ORDER ("a": small, "A": large) behind one that holds the only thread,
 * and checks the order in which they are done. */
static void check_order(const char *order, const char *wanted)
{
    size_t n_jobs = strlen(order), n_done = 0;
    struct workers_job first = {.run = gate}, job[16] = {0};
    char found[16] = "";

    n_run = n_open_gates = 0;
    assert_int_equal(workers_open(&front, 1, wake, NULL, NULL), 0);
    workers_add(&front, &first);
    await_runs(1);
    for (size_t i = 0; i < n_jobs; i++) {
        job[i] = (struct workers_job){
            .run = count, .client = order[i] & 31u, .is_large = order[i] >= 'A' && order[i] <= 'Z'};
        workers_add(&front, &job[i]);
    }
    n_open_gates = 1;
    while (n_done < n_jobs + 1)
        for (struct workers_job *done = workers_done(&front); done; done = done->next)
            if (n_done++ > 0)
                found[n_done - 2] = order[done - job];
    assert_string_equal(found, wanted);
    assert_int_equal(front.front.n_large, 0);
    workers_close(&front);
}

/* Client a queues everything first. */
static void clients_take_turns(void **state)
{
    check_order("aaaabc", "abcaaa");
    check_order("aaaabbc", "abcabaa");
    check_order("a", "a");
    check_order("AAAABC", "ABCAAA");
}

/* One thread does large and small jobs in turn, and a large one first. */
static void small_jobs_wait_for_one_large_job(void **state)
{
    check_order("AAAbbb", "AbAbAb");
    check_order("bbA", "Abb");
}

/* Of two threads one does no large jobs. Large jobs are not kept waiting by small ones. */
static void large_jobs_leave_a_thread_to_others(void **state)
{
    struct workers_job large[3] = {0}, small[3] = {0};

    n_run = n_open_gates = 0;
    assert_int_equal(workers_open(&front, 2, wake, NULL, NULL), 0);
    for (int i = 0; i < 3; i++) {
        large[i] = (struct workers_job){.run = gate, .client = 1, .is_large = true};
        workers_add(&front, &large[i]);
    }
    await_runs(1);
    for (int i = 0; i < 3; i++) { /* They end although the large jobs do not. */
        small[i] = (struct workers_job){.run = count, .client = 1};
        workers_add(&front, &small[i]);
        await_runs(2 + i);
    }
    assert_int_equal(n_run, 4);
    small[0].run = small[1].run = gate;
    while (workers_done(&front) == NULL)
        usleep(100);
    workers_add(&front, &small[0]);
    await_runs(5); /* Now both threads are busy. */
    workers_add(&front, &small[1]);
    n_open_gates = 5;
    await_runs(8);
    workers_close(&front);
    assert_int_equal(n_run, 8);
}

/* Of three threads one does no large jobs, and one client has at most one of the others. */
static void large_jobs_of_a_client_leave_a_thread_to_those_of_others(void **state)
{
    struct workers_job own[3] = {0}, other = {.run = count, .client = 2, .is_large = true};

    n_run = n_open_gates = 0;
    assert_int_equal(workers_open(&front, 3, wake, NULL, NULL), 0);
    for (int i = 0; i < 3; i++) {
        own[i] = (struct workers_job){.run = gate, .client = 1, .is_large = true};
        workers_add(&front, &own[i]);
    }
    await_runs(1);
    workers_add(&front, &other); /* It ends although the first of the large jobs does not. */
    await_runs(2);
    while (workers_done(&front) != &other)
        usleep(100);
    n_open_gates = 3;
    await_runs(4);
    workers_close(&front);
    for (int i = 0; i < 3; i++)
        assert_int_equal(front.front.large.line[i].n_taken, 0);
}

static void go_on(struct workers_job *job)
{
    n_run++;
    job->then = gate;
}

/* Adds a job of CLIENT whose rest has to be compiled, which gate() does. */
static void add_compiled(struct workers_job *job, uint32_t client)
{
    *job = (struct workers_job){.run = go_on, .client = client};
    workers_add(&front, job);
}

static void take_done(size_t n)
{
    while (n)
        for (struct workers_job *done = workers_done(&front); done; done = done->next)
            n--;
}

/* Also if a single thread prepares requests, it goes on while constraints are compiled. */
static void compiling_keeps_no_other_job_waiting(void **state)
{
    for (size_t n_threads = 1; n_threads < 3; n_threads++) {
        struct workers_job first[6], small[2] = {{.run = count, .client = 1}, {.run = count, .client = 2}};

        n_run = n_open_gates = 0;
        assert_int_equal(workers_open(&front, n_threads, wake, NULL, NULL), 0);
        for (int i = 0; i < 6; i++)
            add_compiled(&first[i], i < 3 ? 1 : 2);
        await_runs(8); /* six beginnings, and a rest of each client */
        assert_null(workers_done(&front));
        for (int i = 0; i < 2; i++)
            workers_add(&front, &small[i]);
        await_runs(10);
        n_open_gates = 6;
        take_done(8);
        for (int i = 0; i < 6; i++)
            assert_false(first[i].is_large || first[i].then);
        workers_close(&front);
        assert_int_equal(n_run, 14);
    }
}

/* A client that compiles without end leaves a thread to the others, however many jobs it has. */
static void a_client_never_holds_all_that_compile(void **state)
{
    struct workers_job a[8], b;

    n_run = n_open_gates = 0;
    assert_int_equal(workers_open(&front, 3, wake, NULL, NULL), 0);
    for (int i = 0; i < 8; i++)
        add_compiled(&a[i], 1);
    await_runs(8 + 2); /* of three threads that compile it has two */
    usleep(1000);
    assert_int_equal(n_run, 10);
    add_compiled(&b, 2);
    await_runs(12);
    n_open_gates = 9;
    take_done(9);
    assert_int_equal(n_run, 18);
    workers_close(&front);
}

static void change_client(struct workers_job *job)
{
    n_run++;
    job->client = 2;
    job->then = gate;
}

/* Who a job is for may be known only when it was read. Both clients give back what they took. */
static void the_rest_of_a_job_may_be_of_another_client(void **state)
{
    struct workers_job job[4];

    n_run = n_open_gates = 0;
    assert_int_equal(workers_open(&front, 1, wake, NULL, NULL), 0);
    for (int i = 0; i < 2; i++) {
        job[i] = (struct workers_job){.run = change_client, .client = 1};
        workers_add(&front, &job[i]);
    }
    await_runs(3);
    for (int i = 2; i < 4; i++)
        add_compiled(&job[i], 1);
    await_runs(6); /* a rest of client 1, and one of client 2 */
    n_open_gates = 4;
    take_done(4);
    for (uint32_t c = 1; c < 3; c++) {
        assert_int_equal(front.front.small.line[c].n_taken, 0);
        assert_int_equal(front.compilers.small.line[c].n_taken, 0);
    }
    workers_close(&front);
    assert_int_equal(n_run, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_done_in_order),
        cmocka_unit_test(clients_take_turns),
        cmocka_unit_test(small_jobs_wait_for_one_large_job),
        cmocka_unit_test(large_jobs_leave_a_thread_to_others),
        cmocka_unit_test(large_jobs_of_a_client_leave_a_thread_to_those_of_others),
        cmocka_unit_test(compiling_keeps_no_other_job_waiting),
        cmocka_unit_test(a_client_never_holds_all_that_compile),
        cmocka_unit_test(the_rest_of_a_job_may_be_of_another_client),
        cmocka_unit_test(what_waits_at_the_end_is_left_undone)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
