/* test_event_ring.c - batches hold what their own steps told, also when the ring comes around; the
 * engine's thread lets the sockets have its processor after a step, where compute threads take every one, and
 * nowhere else. Steps compute nothing, so that only waiting takes time.
 */
#include "api/event_ring.h"

#include <dirent.h>
#include <semaphore.h>
#include <unistd.h>

#include "base/threads/topo.h"
#include "engine/executor.h"
#include "engine/step.h"
#include "engines.h"
#include "test.h"

#define YIELD_S 0.005 /* event_ring.c waits so long for what is not written */

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

static int run_nothing(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    (void)ctx, (void)rows, (void)e;
    assert_int_equal(n, 1);
    return 0;
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
    struct event_ring r;

    o.threads = threads;
    o.prefix_index = "none"; /* rows that nothing has computed are not published */
    g = engines_open("demo", &o);
    nothing = *engine_loop(g)->x;
    nothing.run = run_nothing;
    nothing.logits = same_logits;
    logits = calloc(nothing.caps.n_vocab, sizeof(*logits));
    assert_non_null(logits);
    engine_loop(g)->x = &nothing;
    assert_int_equal(sem_init(&woken, 0, 0), 0);
    gallop_request_init(&q);
    q.ids = prompt;
    q.n_ids = 3;
    q.sampling.max_new_tokens = N_TOKENS;
    q.sampling.ignore_eos = 1;
    assert_int_equal(event_ring_open(&r, g, lost, wake, NULL, NULL), 0);
    assert_int_equal(gallop_submit(g, &q, NULL, NULL), 0);
    for (int steps = 0; steps < N_TOKENS;) {
        const struct event_ring_batch *b;

        sem_wait(&woken);
        b = event_ring_take(&r);
        assert_non_null(b);
        if (b->n) {
            if (steps++ && b->now_s - before < least)
                least = b->now_s - before;
            before = b->now_s;
        }
        event_ring_give_back(&r);
        if (written)
            event_ring_written(&r);
    }
    event_ring_close(&r);
    free(logits);
    gallop_close(g);
    sem_destroy(&woken);
    return least;
}

/* Batches are used again and again: each tells of its own step alone. */
static void a_batch_keeps_what_it_told_before(void **state)
{
    enum { N_ROUNDS = 3 * EVENT_RING_BATCHES, N_TOP = 3, N_PROMPT = 3 };
    struct gallop_options o = engines_options(1, 256, 256);
    static const int32_t prompt[N_PROMPT] = {5, 6, 7};
    struct gallop *g = engines_open("demo", &o);
    size_t n_tokens = 0, n_texts = 0;
    struct gallop_request q;
    bool ended = false;
    struct event_ring r;

    (void)state;
    assert_int_equal(sem_init(&woken, 0, 0), 0);
    gallop_request_init(&q);
    q.ids = prompt;
    q.n_ids = N_PROMPT;
    q.sampling.max_new_tokens = N_ROUNDS;
    q.sampling.ignore_eos = 1;
    q.sampling.logprobs = N_TOP;
    assert_int_equal(event_ring_open(&r, g, lost, wake, NULL, NULL), 0);
    assert_int_equal(gallop_submit(g, &q, NULL, NULL), 0);
    while (!ended) {
        const struct event_ring_batch *b;
        size_t top = 0, text = 0;

        sem_wait(&woken);
        b = event_ring_take(&r);
        assert_non_null(b);
        for (size_t i = 0; i < b->n; i++) {
            const struct event_ring_event *e = &b->event[i];

            assert_int_equal(e->top, top);
            assert_int_equal(e->text, text);
            top += e->ev.n_top;
            text += e->ev.text_len;
            for (size_t k = 0; e->ev.type == GALLOP_TEXT && k < e->ev.text_len; k++)
                assert_int_equal(b->text[text++], 0); /* no special token wrote it */
            if (e->ev.type == GALLOP_TOKEN) {
                assert_int_equal(e->ev.n_top, N_TOP);
                for (size_t k = 1; k < N_TOP; k++)
                    assert_true(b->top[e->top + k].logprob <= b->top[e->top + k - 1].logprob);
                assert_true(b->top[e->top].logprob >= e->ev.logprob);
                n_tokens++;
            }
            n_texts += e->ev.type == GALLOP_TEXT;
            ended |= e->ev.type == GALLOP_FINISHED;
        }
        assert_int_equal(b->n_top, top);
        assert_int_equal(b->n_text, text);
        event_ring_give_back(&r);
        event_ring_written(&r);
    }
    assert_int_equal(n_tokens, N_ROUNDS);
    assert_true(n_texts > 0);
    event_ring_close(&r);
    gallop_close(g);
    sem_destroy(&woken);
}

/* Returns whether the engine's thread sleeps. */
static bool engine_sleeps(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    bool sleeps = false;

    assert_non_null(tasks);
    while (!sleeps && (task = readdir(tasks)) != NULL) {
        char path[300], text[64] = "";
        FILE *stat;

        snprintf(path, sizeof(path), "/proc/self/task/%s/stat", task->d_name);
        if ((stat = fopen(path, "r")) == NULL)
            continue;
        sleeps = fgets(text, sizeof(text), stat) && strstr(text, "(engine) S");
        fclose(stat);
    }
    closedir(tasks);
    return sleeps;
}

/* No batch is given back, so that the thread waits for room when it is to end. */
static void closing_ends_a_thread_that_waits_for_room(void **state)
{
    struct gallop_options o = engines_options(1, 256, 256);
    static const int32_t prompt[3] = {5, 6, 7};
    struct gallop_request q;
    struct event_ring r;
    struct gallop *g;

    (void)state;
    o.threads = 1;
    g = engines_open("demo", &o);
    assert_int_equal(sem_init(&woken, 0, 0), 0);
    gallop_request_init(&q);
    q.ids = prompt;
    q.n_ids = 3;
    q.sampling.max_new_tokens = 2 * EVENT_RING_BATCHES;
    q.sampling.ignore_eos = 1;
    assert_int_equal(event_ring_open(&r, g, lost, wake, NULL, NULL), 0);
    r.yields = false; /* the thread sleeps for no other reason then */
    assert_int_equal(gallop_submit(g, &q, NULL, NULL), 0);
    for (int i = 0; i < EVENT_RING_BATCHES; i++)
        sem_wait(&woken);
    while (!engine_sleeps())
        usleep(1000);
    event_ring_close(&r);
    gallop_close(g);
    sem_destroy(&woken);
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
        cmocka_unit_test(a_batch_keeps_what_it_told_before),
        cmocka_unit_test(closing_ends_a_thread_that_waits_for_room),
        cmocka_unit_test(no_step_begins_before_tokens_are_written_where_all_processors_compute),
        cmocka_unit_test(the_wait_ends_when_tokens_are_written),
        cmocka_unit_test(no_step_waits_where_a_processor_is_free)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
