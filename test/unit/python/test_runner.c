/* test_runner.c - the engine's thread of the Python package (python/native/runner.h), for the sanitizers: requests from
 * many threads, requests that end early, an engine that fails, channels, and closing at every state. test/python has
 * the other tests. */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/engine_priv.h"
#include "engine/executor.h"
#include "engine/step.h"
#include "runner.h"

enum { THREADS = 4, LENGTH = 12 };

struct closing {
    struct runner *r;
    _Atomic bool is_closed;
};

static struct runner *opened(struct runner *share)
{
    struct gallop_options o;
    struct runner *r = NULL;
    char err[GALLOP_ERR_SIZE];
    int code, state;

    gallop_options_init(&o);
    o.model = GALLOP_SOURCE_DIR "/models/demo";
    o.max_num_seqs = 4;
    o.max_model_len = 128;
    o.threads = share ? 0 : 2;
    runner_new(&o, share, &r);
    assert_non_null(r);
    while ((state = runner_opened(r, 0.01, &code, err)) == 0)
        ;
    assert_int_equal(state, 1);
    return r;
}

/* Returns false if R is closing. */
static bool stats_of(struct runner *r, struct gallop_stats *s)
{
    struct gallop *engine;
    bool open;

    runner_enter(r, &engine);
    open = engine != NULL;
    if (open)
        gallop_stats(engine, s);
    runner_leave(r, &engine);
    return open;
}

static struct runner_request *submitted(struct runner *r, int64_t n_new, int streams,
                                        struct runner_channel *ch, uint64_t key)
{
    struct gallop_request ask;
    struct runner_request *q = NULL;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&ask);
    ask.text = "Once upon a time";
    ask.text_len = SIZE_MAX;
    ask.sampling.max_new_tokens = n_new;
    ask.sampling.ignore_eos = 1;
    assert_int_equal(runner_submit(r, &ask, streams, ch, key, &q, err), 0);
    return q;
}

/* Waits for the end of a request, and returns why it has ended. */
static enum gallop_finish finish_of(struct runner_request *q)
{
    const struct gallop_event *end;
    struct runner_output out;

    while ((end = runner_take(q, 0, &out)) == NULL)
        runner_wait(q, 0.01);
    return end->finish;
}

/* Reads a request to its end. Returns the number of its tokens. */
static size_t read_all(struct runner_request *q)
{
    const struct gallop_event *end = NULL;
    struct runner_output out;
    size_t n = 0, text = 0;

    while (!end) {
        while (!runner_wait(q, 0.01))
            ;
        end = runner_take(q, 0, &out);
        n += out.n_tokens;
        text += out.text_len;
        for (size_t i = 0; i < out.n_tokens; i++)
            assert_true(out.ids[i] >= 0 && out.tokens[i].text_end <= out.text_len);
    }
    assert_int_equal(end->n_output, n);
    assert_true(text > 0 || n == 0);
    return n;
}

static void *use(void *arg)
{
    struct runner *r = arg;
    struct gallop_stats s;

    for (int i = 0; i < 6; i++) {
        struct runner_request *q = submitted(r, LENGTH, i % 2, NULL, 0);

        if (i == 3)
            runner_cancel(q);
        if (i != 4)
            assert_true(read_all(q) <= LENGTH);
        runner_release(q);
        assert_true(stats_of(r, &s));
    }
    return NULL;
}

static void threads_share_an_engine(void **state)
{
    struct runner *r = opened(NULL), *other = opened(r);
    pthread_t thread[2 * THREADS];

    for (int i = 0; i < 2 * THREADS; i++)
        pthread_create(&thread[i], NULL, use, i % 2 ? r : other);
    for (int i = 0; i < 2 * THREADS; i++)
        pthread_join(thread[i], NULL);
    runner_free(r);
    runner_free(other);
}

static void a_channel_reports_its_requests_until_they_have_ended(void **state)
{
    struct runner *r = opened(NULL);
    struct runner_channel *ch = NULL;
    struct runner_request *request[8];
    size_t n_tokens = 0;
    int left = 8;

    runner_channel_new(r, &ch);
    assert_non_null(ch);
    for (uint64_t i = 0; i < 8; i++)
        request[i] = submitted(r, LENGTH, i % 2, ch, i);
    while (left > 0) {
        struct pollfd fd = {.fd = runner_channel_fd(ch), .events = POLLIN};
        uint64_t key[3];
        size_t n;

        assert_int_equal(poll(&fd, 1, 20000), 1);
        n = runner_channel_take(ch, key, 3);
        for (size_t i = 0; i < n; i++) {
            struct runner_output out;
            bool ended = runner_take(request[key[i]], 0, &out);

            n_tokens += out.n_tokens;
            left -= ended;
        }
    }
    assert_int_equal(n_tokens, 8 * LENGTH);
    for (int i = 0; i < 4; i++)
        runner_release(request[i]);
    runner_channel_close(ch); /* before the other requests */
    for (int i = 4; i < 8; i++)
        runner_release(request[i]);
    runner_channel_close(ch);
    runner_channel_free(ch);
    runner_free(r);
}

/* The released request was the last of those whose news had not been taken. */
static void a_channel_reports_after_its_last_request_was_released(void **state)
{
    struct runner *r = opened(NULL);
    struct runner_channel *ch = NULL;
    struct runner_request *request[3];
    uint64_t key[3];

    runner_channel_new(r, &ch);
    assert_non_null(ch);
    for (uint64_t i = 0; i < 3; i++) {
        request[i] = submitted(r, LENGTH, 0, ch, i);
        finish_of(request[i]);
        if (i == 1)
            runner_release(request[i]);
    }
    assert_int_equal(runner_channel_take(ch, key, 3), 2);
    assert_int_equal(key[0], 0);
    assert_int_equal(key[1], 2);
    runner_release(request[0]);
    runner_release(request[2]);
    runner_channel_free(ch);
    runner_free(r);
}

static void a_channel_stays_readable_until_all_keys_are_taken(void **state)
{
    struct runner *r = opened(NULL);
    struct runner_channel *ch = NULL;
    struct runner_request *request[8];
    struct pollfd fd = {.events = POLLIN};
    uint64_t key[3];

    runner_channel_new(r, &ch);
    assert_non_null(ch);
    fd.fd = runner_channel_fd(ch);
    for (uint64_t i = 0; i < 8; i++)
        request[i] = submitted(r, LENGTH, 0, ch, i);
    for (uint64_t i = 0; i < 8; i++)
        finish_of(request[i]);
    for (size_t left = 8, n; left > 0; left -= n) {
        assert_int_equal(poll(&fd, 1, 0), 1);
        n = runner_channel_take(ch, key, 3);
        assert_int_equal(n, left < 3 ? left : 3);
    }
    assert_int_equal(poll(&fd, 1, 0), 0);
    for (uint64_t i = 0; i < 8; i++)
        runner_release(request[i]);
    runner_channel_free(ch);
    runner_free(r);
}

/* An executor whose steps wait for the test. */
static struct gate {
    struct executor gated;
    const struct executor *x; /* the engine's own */
    sem_t begun, go;
    atomic_bool is_open;
} gate;

static int run_when_let(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    if (!atomic_load(&gate.is_open)) {
        sem_post(&gate.begun);
        sem_wait(&gate.go);
    }
    return gate.x->run(ctx, rows, n, e);
}

static struct runner *opened_behind_gate(void)
{
    struct runner *r = opened(NULL);
    struct gallop *engine;

    runner_enter(r, &engine);
    gate.x = engine_loop(engine)->x;
    gate.gated = *gate.x;
    gate.gated.run = run_when_let;
    sem_init(&gate.begun, 0, 0);
    sem_init(&gate.go, 0, 0);
    atomic_store(&gate.is_open, false);
    engine_loop(engine)->x = &gate.gated;
    runner_leave(r, &engine);
    return r;
}

/* Ends the wait of the current step and of all later ones. */
static void open_gate(void)
{
    atomic_store(&gate.is_open, true);
    sem_post(&gate.go);
}

/* The engine takes 256 cancellations between two steps: all of these arrive during one. */
static void more_cancellations_than_the_engine_takes_at_once_arrive(void **state)
{
    enum { MANY = 600 };
    static struct runner_request *request[MANY];
    struct runner *r = opened_behind_gate();
    struct gallop_stats s;

    for (int i = 0; i < MANY; i++)
        request[i] = submitted(r, 100, i % 2, NULL, 0);
    sem_wait(&gate.begun);
    for (int i = 0; i < MANY; i += 2)
        runner_cancel(request[i]);
    for (int i = 1; i < MANY; i += 2)
        runner_release(request[i]);
    open_gate();
    for (int i = 0; i < MANY; i += 2) {
        assert_int_equal(finish_of(request[i]), GALLOP_FINISH_CANCELLED);
        runner_release(request[i]);
    }
    do
        assert_true(stats_of(r, &s));
    while (s.n_running + s.n_waiting > 0);
    runner_free(r);
}

/* The output is taken after each step. */
static void alternatives_are_given_once(void **state)
{
    struct runner *r = opened_behind_gate();
    const struct gallop_event *end = NULL;
    struct runner_request *q = NULL;
    struct gallop_request ask;
    struct runner_output out;
    size_t n_tokens = 0;

    gallop_request_init(&ask);
    ask.text = "Once upon a time";
    ask.text_len = SIZE_MAX;
    ask.sampling.max_new_tokens = LENGTH;
    ask.sampling.ignore_eos = 1;
    ask.sampling.logprobs = 2;
    assert_int_equal(runner_submit(r, &ask, 1, NULL, 0, &q, NULL), 0);
    while (!end) {
        sem_post(&gate.go);
        while (!runner_wait(q, 0.01))
            ;
        end = runner_take(q, 0, &out);
        assert_int_equal(out.n_tokens, 1);
        assert_int_equal(out.n_top, 2);
        assert_int_equal(out.tokens[0].top_end, 2);
        n_tokens += out.n_tokens;
    }
    assert_int_equal(n_tokens, LENGTH);
    runner_release(q);
    runner_free(r);
}

struct canceller {
    _Atomic(struct runner_request *) request;
    _Atomic int n_cancelled;
    _Atomic bool ends;
};

static void *cancel_all(void *arg)
{
    struct canceller *c = arg;

    while (!atomic_load(&c->ends)) {
        struct runner_request *q = atomic_exchange(&c->request, NULL);

        if (q) {
            runner_cancel(q);
            atomic_fetch_add(&c->n_cancelled, 1);
        }
    }
    return NULL;
}

/* A request that another thread cancels as soon as it exists, alone on an engine that computes nothing else. */
static void a_request_that_is_cancelled_at_once_ends(void **state)
{
    struct runner *r = opened(NULL);
    struct canceller c = {.ends = false};
    pthread_t thread;

    pthread_create(&thread, NULL, cancel_all, &c);
    for (int i = 0; i < 200; i++) {
        struct runner_request *q = submitted(r, 100, i % 2, NULL, 0);
        const struct gallop_event *end = NULL;
        struct runner_output out;

        atomic_store(&c.request, q);
        while (!end) {
            runner_wait(q, 0.001);
            end = runner_take(q, 0, &out);
        }
        assert_true(end->finish == GALLOP_FINISH_CANCELLED || end->n_output == 100);
        while (atomic_load(&c.n_cancelled) == i)
            ;
        runner_release(submitted(r, 2, 0, NULL, 0));
        runner_release(q);
    }
    atomic_store(&c.ends, true);
    pthread_join(thread, NULL);
    runner_free(r);
}

static int fail_to_run(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    return err_set(e, ERR_OS, "it is broken");
}

static int reopen(void *ctx, struct err *e)
{
    return 0;
}

static void reopen_wait(void *ctx, double seconds)
{
    usleep((useconds_t)(seconds * 1e6));
}

struct waiter {
    struct runner_request *q;
    const struct gallop_event *end;
};

static void *wait_for_the_end(void *arg)
{
    struct waiter *w = arg;
    struct runner_output out;

    while ((w->end = runner_take(w->q, 0, &out)) == NULL)
        runner_wait(w->q, 10);
    return NULL;
}

static void an_error_of_the_engine_reaches_all_who_wait(void **state)
{
    struct runner *r = opened(NULL);
    struct runner_channel *ch = NULL;
    struct waiter w[THREADS];
    pthread_t thread[THREADS];
    struct executor broken;
    struct gallop *engine;
    size_t n_told = 0;

    runner_enter(r, &engine);
    broken = *engine_loop(engine)->x;
    broken.run = fail_to_run;
    broken.reopen = reopen;
    broken.reopen_wait = reopen_wait;
    engine_loop(engine)->x = &broken;
    runner_leave(r, &engine);
    runner_channel_new(r, &ch);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct waiter){.q = submitted(r, LENGTH, 0, i % 2 ? ch : NULL, 1)};
        if (i % 2 == 0)
            pthread_create(&thread[i], NULL, wait_for_the_end, &w[i]);
    }
    while (n_told < THREADS / 2) {
        struct pollfd fd = {.fd = runner_channel_fd(ch), .events = POLLIN};
        uint64_t key[THREADS];

        assert_int_equal(poll(&fd, 1, 20000), 1);
        n_told += runner_channel_take(ch, key, THREADS);
    }
    for (int i = 0; i < THREADS; i++) {
        if (i % 2 == 0)
            pthread_join(thread[i], NULL);
        else
            wait_for_the_end(&w[i]);
        assert_int_equal(w[i].end->finish, GALLOP_FINISH_ERROR);
        assert_non_null(strstr(w[i].end->error, "it is broken"));
        runner_release(w[i].q);
    }
    runner_channel_free(ch);
    runner_free(r);
}

/* An executor that is down, and is not opened again, does not keep an engine open. */
static int never_open(void *ctx, struct err *e)
{
    return err_set(e, ERR_OS, "it cannot be opened");
}

static void closing_ends_requests_that_wait_for_a_broken_executor(void **state)
{
    struct runner *r = opened(NULL);
    struct executor broken;
    struct gallop *engine;
    struct runner_request *q;
    struct runner_output out;

    runner_enter(r, &engine);
    broken = *engine_loop(engine)->x;
    broken.run = fail_to_run;
    broken.reopen = never_open;
    broken.reopen_wait = reopen_wait;
    engine_loop(engine)->x = &broken;
    q = submitted(r, LENGTH, 0, NULL, 0);
    while (!engine_loop(engine)->outage.is_down)
        usleep(1000);
    runner_leave(r, &engine);
    runner_close(r);
    assert_int_equal(runner_take(q, 0, &out)->finish, GALLOP_FINISH_CANCELLED);
    runner_release(q);
    runner_free(r);
}

static void *close_it(void *arg)
{
    runner_close(arg);
    return NULL;
}

static void closing_ends_running_requests(void **state)
{
    for (int round = 0; round < 4; round++) {
        struct runner *r = opened(NULL);
        struct runner_channel *ch = NULL;
        struct runner_request *request[6], *late = NULL;
        struct gallop *engine = NULL;
        struct gallop_request ask;
        char err[GALLOP_ERR_SIZE];
        pthread_t thread;

        runner_channel_new(r, &ch);
        assert_non_null(ch);
        for (int i = 0; i < 6; i++)
            request[i] = submitted(r, 1000, i % 2, i < 3 ? ch : NULL, 7); /* longer than closing takes */
        if (round % 2)
            usleep(3000);
        if (round > 1)
            runner_release(request[5]);
        pthread_create(&thread, NULL, close_it, r);
        runner_close(r);
        pthread_join(thread, NULL);
        gallop_request_init(&ask);
        assert_int_equal(runner_submit(r, &ask, 0, NULL, 0, &late, err), GALLOP_CANCELLED);
        assert_null(late);
        runner_enter(r, &engine);
        assert_null(engine);
        runner_leave(r, &engine);
        runner_free(r);
        for (int i = 0; i < (round > 1 ? 5 : 6); i++) {
            struct runner_output out;
            const struct gallop_event *end = runner_take(request[i], 0, &out);

            assert_int_equal(end->finish, GALLOP_FINISH_CANCELLED);
            assert_true(end->n_prompt > 0);
            runner_release(request[i]);
        }
        runner_channel_free(ch);
    }
}

static void *close_and_say(void *arg)
{
    struct closing *c = arg;

    runner_close(c->r);
    atomic_store(&c->is_closed, true);
    return NULL;
}

/* A guest that the engine did not let in leaves, too: the one that is inside still keeps the engine open. */
static void closing_waits_for_who_came_in(void **state)
{
    struct closing c = {.r = opened(NULL)};
    struct gallop *inside = NULL, *outside = NULL;
    struct gallop_stats s;
    pthread_t thread;

    runner_enter(c.r, &inside);
    assert_non_null(inside);
    runner_leave(c.r, &outside);
    pthread_create(&thread, NULL, close_and_say, &c);
    while (stats_of(c.r, &s)) /* until closing has begun */
        ;
    usleep(20000);
    assert_false(atomic_load(&c.is_closed));
    gallop_stats(inside, &s);
    runner_leave(c.r, &inside);
    pthread_join(thread, NULL);
    runner_free(c.r);
}

/* As many answers as a request may have. */
static void each_of_many_answers_is_kept(void **state)
{
    struct runner *r = opened(NULL);
    struct gallop_request ask;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&ask);
    ask.text = "Once upon a time";
    ask.text_len = SIZE_MAX;
    ask.sampling.max_new_tokens = 2;
    ask.sampling.ignore_eos = 1;
    for (ask.n = 127; ask.n <= 128; ask.n++) {
        struct runner_request *q = NULL;

        assert_int_equal(runner_submit(r, &ask, 0, NULL, 0, &q, err), 0);
        for (unsigned i = 0; i < ask.n; i++) {
            const struct gallop_event *end = NULL;
            struct runner_output out;
            size_t n = 0;

            for (; !end; n += out.n_tokens) {
                end = runner_take(q, i, &out);
                if (!end)
                    runner_wait(q, 0.01);
            }
            assert_int_equal(n, 2);
        }
        runner_release(q);
    }
    runner_free(r);
}

static void a_model_that_cannot_be_opened_is_an_error(void **state)
{
    struct gallop_options o;
    struct runner *r = NULL;
    char err[GALLOP_ERR_SIZE];
    int code, ended;

    gallop_options_init(&o);
    o.model = "/nowhere";
    runner_new(&o, NULL, &r);
    while ((ended = runner_opened(r, 0.01, &code, err)) == 0)
        ;
    assert_int_equal(ended, -1);
    assert_int_equal(code, GALLOP_BAD_INPUT);
    assert_non_null(strstr(err, "/nowhere"));
    runner_free(r);
}

static void every_allocation_of_a_request_fails_once(void **state)
{
    struct runner *r = opened(NULL);
    struct gallop_request ask;
    char err[GALLOP_ERR_SIZE];
    int calm = 0;

    gallop_request_init(&ask);
    ask.text = "Once";
    ask.text_len = SIZE_MAX;
    ask.sampling.max_new_tokens = 3;
    ask.sampling.logprobs = 2;
    for (long at = 1; calm < 3; at++) {
        struct runner_request *q = NULL;
        int code;

        runner_fail_at(at);
        code = runner_submit(r, &ask, 0, NULL, 0, &q, err);
        if (q) {
            const struct gallop_event *end;
            struct runner_output out;

            while (!runner_wait(q, 0.01))
                ;
            end = runner_take(q, 0, &out);
            assert_true(end->finish == GALLOP_FINISH_ERROR || out.n_tokens == 3);
            calm = mem_failed() ? 0 : calm + 1;
            runner_release(q);
        } else {
            assert_int_equal(code, GALLOP_NO_MEMORY);
        }
    }
    runner_fail_at(0);
    runner_free(r);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_an_engine),
        cmocka_unit_test(a_channel_reports_its_requests_until_they_have_ended),
        cmocka_unit_test(a_channel_reports_after_its_last_request_was_released),
        cmocka_unit_test(a_channel_stays_readable_until_all_keys_are_taken),
        cmocka_unit_test(more_cancellations_than_the_engine_takes_at_once_arrive),
        cmocka_unit_test(alternatives_are_given_once),
        cmocka_unit_test(a_request_that_is_cancelled_at_once_ends),
        cmocka_unit_test(an_error_of_the_engine_reaches_all_who_wait),
        cmocka_unit_test(closing_ends_running_requests),
        cmocka_unit_test(closing_ends_requests_that_wait_for_a_broken_executor),
        cmocka_unit_test(closing_waits_for_who_came_in),
        cmocka_unit_test(each_of_many_answers_is_kept),
        cmocka_unit_test(a_model_that_cannot_be_opened_is_an_error),
        cmocka_unit_test(every_allocation_of_a_request_fails_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
