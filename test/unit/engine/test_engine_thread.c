/* test_engine_thread.c - the loop of a thread that owns an engine: it sleeps without requests, is woken by submissions
 * and by engine_wake(), never misses one, and still tries to open an executor that has failed.
 */
#include "engine/engine_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/executor.h"
#include "engine/schedule/outage.h"
#include "engine/step.h"
#include "engines.h"

struct loop {
    struct engine_thread t;
    atomic_int n_begun, n_steps, n_ended;
    atomic_bool stops;
    bool wakes_itself;
    int n_most; /* end after so many calls of begin(); 0: no limit */
    pthread_t thread;
};

static bool begin(void *ctx)
{
    struct loop *l = ctx;
    int n = atomic_fetch_add(&l->n_begun, 1) + 1;

    if (l->wakes_itself)
        engine_wake(l->t.g);
    return !atomic_load(&l->stops) && (!l->n_most || n < l->n_most);
}

static void collect(void *ctx)
{
    struct loop *l = ctx;
    struct gallop_event ev;

    assert_int_equal(engine_thread_step_ns(&l->t), 0);
    while (gallop_take(l->t.g, &ev))
        if (ev.type == GALLOP_FINISHED)
            atomic_fetch_add(&l->n_ended, 1);
    atomic_fetch_add(&l->n_steps, 1);
}

static void *run(void *ctx)
{
    engine_thread_run(ctx);
    return NULL;
}

static void open_loop(struct loop *l)
{
    struct gallop_options o = engines_options(2, 64, 64);

    *l = (struct loop){.t = {.begin = begin, .collect = collect}};
    o.threads = 1;
    l->t.g = engines_open("demo", &o);
    l->t.ctx = l;
}

static void start(struct loop *l)
{
    assert_int_equal(pthread_create(&l->thread, NULL, run, &l->t), 0);
}

static void stop(struct loop *l)
{
    atomic_store(&l->stops, true);
    engine_wake(l->t.g);
    pthread_join(l->thread, NULL);
    gallop_close(l->t.g);
}

static void submit(struct loop *l)
{
    static const int32_t prompt[3] = {5, 6, 7};
    struct gallop_request q;

    gallop_request_init(&q);
    q.ids = prompt;
    q.n_ids = 3;
    q.sampling.max_new_tokens = 4;
    q.sampling.ignore_eos = 1;
    assert_int_equal(gallop_submit(l->t.g, &q, NULL, NULL), 0);
}

static void await(const atomic_int *n, int most)
{
    double until = clock_seconds() + 20;

    while (atomic_load(n) < most && clock_seconds() < until)
        usleep(500);
    assert_true(atomic_load(n) >= most);
}

static void an_engine_without_requests_sleeps_and_ends_at_once(void **state)
{
    struct loop l;
    double begun;
    int n;

    open_loop(&l);
    start(&l);
    submit(&l);
    await(&l.n_ended, 1);
    usleep(50000);
    n = atomic_load(&l.n_begun);
    usleep(300000);
    assert_int_equal(atomic_load(&l.n_begun), n);
    begun = clock_seconds();
    stop(&l);
    assert_true(clock_seconds() - begun < 5);
}

/* The loop may be anywhere between two sleeps when a request or a call of engine_wake() comes. */
static void no_submission_and_no_call_is_missed(void **state)
{
    struct loop l;

    open_loop(&l);
    start(&l);
    for (int i = 1; i <= 200; i++) {
        submit(&l);
        await(&l.n_ended, i);
    }
    for (int i = 0; i < 2000; i++) {
        int n = atomic_load(&l.n_begun);

        engine_wake(l.t.g);
        await(&l.n_begun, n + 1);
    }
    stop(&l);
}

static void a_call_before_the_engine_sleeps_is_not_forgotten(void **state)
{
    struct loop l;

    open_loop(&l);
    l.wakes_itself = true;
    l.n_most = 100;
    engine_thread_run(&l.t);
    assert_int_equal(atomic_load(&l.n_begun), 100);
    assert_int_equal(atomic_load(&l.n_steps), 0);
    gallop_close(l.t.g);
}

static int n_tries;

static int reopen_later(void *ctx, struct err *e)
{
    (void)ctx;
    return ++n_tries < 4 ? err_set(e, ERR_OS, "not yet") : 0;
}

/* Nothing else would make a server ready again before its next request. */
static void an_executor_that_failed_is_opened_again_without_a_request(void **state)
{
    struct executor fails;
    struct loop l;

    open_loop(&l);
    fails = *engine_loop(l.t.g)->x;
    fails.reopen = reopen_later;
    engine_loop(l.t.g)->x = &fails;
    outage_begin(&engine_loop(l.t.g)->outage, 0);
    n_tries = 0;
    start(&l);
    for (double until = clock_seconds() + 20;
         atomic_load(&engine_loop(l.t.g)->outage.is_down) && clock_seconds() < until;)
        usleep(1000);
    assert_false(atomic_load(&engine_loop(l.t.g)->outage.is_down));
    stop(&l);
    assert_int_equal(n_tries, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_without_requests_sleeps_and_ends_at_once),
        cmocka_unit_test(no_submission_and_no_call_is_missed),
        cmocka_unit_test(a_call_before_the_engine_sleeps_is_not_forgotten),
        cmocka_unit_test(an_executor_that_failed_is_opened_again_without_a_request)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
