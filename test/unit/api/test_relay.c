/* test_relay.c - the engine's thread lets the sockets have its processor after a step, where compute threads
 * take every one, and nowhere else. Steps compute nothing, so that only waiting takes time.
 */
#include "api/relay.h"

#include <semaphore.h>

#include "base/threads/topo.h"
#include "engines.h"
#include "test.h"

#define YIELD_S 0.005 /* relay.c waits so long for what is not written */

enum { N_TOKENS = 20 };

static sem_t woken;

static void wake(void *ctx)
{
    (void)ctx;
    sem_post(&woken);
}

static void lost(const struct gallop_event *ev)
{
    fail_msg("an event of type %d is lost", (int)ev->type);
}

static float *logits; /* [vocabulary] zeros */

static void run_nothing(void *ctx, const struct executor_rows *rows, size_t n)
{
    (void)ctx;
    (void)rows;
    assert_int_equal(n, 1);
}

static const float *same_logits(void *ctx, size_t first, size_t n)
{
    (void)ctx;
    assert_int_equal(first, 0);
    assert_int_equal(n, 1);
    return logits;
}

/* The least time between the ends of two steps of one request, s; what comes of each is WRITTEN, or never. */
static double least_gap(int threads, bool written)
{
    struct gallop_options o = engines_options(1, 64, 64);
    static const int32_t prompt[3] = {5, 6, 7};
    struct gallop_request q;
    double before = 0, least = 1e9;
    struct executor nothing;
    struct gallop *g;
    struct relay r;

    o.threads = threads;
    g = engines_open("demo", &o);
    nothing = *gallop_loop(g)->x;
    nothing.run = run_nothing;
    nothing.logits = same_logits;
    logits = calloc(nothing.caps.n_vocab, sizeof(*logits));
    assert_non_null(logits);
    gallop_loop(g)->x = &nothing;
    assert_int_equal(sem_init(&woken, 0, 0), 0);
    gallop_request_init(&q);
    q.ids = prompt;
    q.n_ids = 3;
    q.sampling.max_new_tokens = N_TOKENS;
    q.sampling.ignore_eos = 1;
    assert_int_equal(relay_open(&r, g, lost, wake, NULL, NULL), 0);
    assert_int_equal(gallop_submit(g, &q, NULL, NULL), 0);
    for (int steps = 0; steps < N_TOKENS;) {
        const struct relay_batch *b;

        sem_wait(&woken);
        b = relay_take(&r);
        assert_non_null(b);
        if (b->n) {
            if (steps++ && b->now_s - before < least)
                least = b->now_s - before;
            before = b->now_s;
        }
        relay_give_back(&r);
        if (written)
            relay_written(&r);
    }
    relay_close(&r);
    free(logits);
    gallop_close(g);
    sem_destroy(&woken);
    return least;
}

static int all_processors(void)
{
    struct topo t;
    int n;

    assert_int_equal(topo_open(&t, NULL), 0);
    n = t.n_cpus;
    topo_close(&t);
    return n;
}

static void no_step_begins_before_tokens_are_written_where_all_processors_compute(void **state)
{
    (void)state;
    assert_true(least_gap(all_processors(), false) >= YIELD_S);
}

static void the_wait_ends_when_tokens_are_written(void **state)
{
    (void)state;
    assert_true(least_gap(all_processors(), true) < YIELD_S);
}

static void no_step_waits_where_a_processor_is_free(void **state)
{
    (void)state;
    if (all_processors() == 1)
        skip();
    assert_true(least_gap(1, false) < YIELD_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_step_begins_before_tokens_are_written_where_all_processors_compute),
        cmocka_unit_test(the_wait_ends_when_tokens_are_written),
        cmocka_unit_test(no_step_waits_where_a_processor_is_free)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
