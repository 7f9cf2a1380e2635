/* test_runner.c - the engine's thread of the Python package (python/native/runner.h), for the sanitizers: calls from
 * many threads, calls that end early, channels, and closing at every state. test/python has the other tests. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/mem.h"
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

static struct runner_call *submitted(struct runner *r, int64_t n_new, int streams, struct runner_channel *ch,
                                     uint64_t key)
{
    struct gallop_request q;
    struct runner_call *c = NULL;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&q);
    q.text = "Once upon a time";
    q.text_len = SIZE_MAX;
    q.sampling.max_new_tokens = n_new;
    q.sampling.ignore_eos = 1;
    assert_int_equal(runner_submit(r, &q, streams, ch, key, &c, err), 0);
    return c;
}

/* Reads a call to its end. Returns the number of its tokens. */
static size_t read_all(struct runner_call *c)
{
    const struct gallop_event *end = NULL;
    struct runner_output out;
    size_t n = 0, text = 0;

    while (!end) {
        while (!runner_wait(c, 0.01))
            ;
        end = runner_take(c, 0, &out);
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
        struct runner_call *c = submitted(r, LENGTH, i % 2, NULL, 0);

        if (i == 3)
            runner_cancel(c);
        if (i != 4)
            assert_true(read_all(c) <= LENGTH);
        runner_release(c);
        assert_int_equal(runner_stats(r, &s), 1);
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

static void a_channel_reports_its_calls_until_they_have_ended(void **state)
{
    struct runner *r = opened(NULL);
    struct runner_channel *ch = NULL;
    struct runner_call *call[8];
    size_t n_tokens = 0;
    int left = 8;

    runner_channel_new(r, &ch);
    assert_non_null(ch);
    for (uint64_t i = 0; i < 8; i++)
        call[i] = submitted(r, LENGTH, i % 2, ch, i);
    while (left > 0) {
        struct pollfd fd = {.fd = runner_channel_fd(ch), .events = POLLIN};
        uint64_t key[3];
        size_t n;

        assert_int_equal(poll(&fd, 1, 20000), 1);
        n = runner_channel_take(ch, key, 3);
        for (size_t i = 0; i < n; i++) {
            struct runner_output out;
            bool ended = runner_take(call[key[i]], 0, &out);

            n_tokens += out.n_tokens;
            left -= ended;
        }
    }
    assert_int_equal(n_tokens, 8 * LENGTH);
    for (int i = 0; i < 4; i++)
        runner_release(call[i]);
    runner_channel_close(ch); /* before the other calls */
    for (int i = 4; i < 8; i++)
        runner_release(call[i]);
    runner_channel_close(ch);
    runner_channel_free(ch);
    runner_free(r);
}

static void *close_it(void *arg)
{
    runner_close(arg);
    return NULL;
}

static void closing_ends_running_calls(void **state)
{
    for (int round = 0; round < 4; round++) {
        struct runner *r = opened(NULL);
        struct runner_channel *ch = NULL;
        struct runner_call *call[6], *late = NULL;
        struct gallop *engine = NULL;
        struct gallop_request q;
        char err[GALLOP_ERR_SIZE];
        pthread_t thread;

        runner_channel_new(r, &ch);
        assert_non_null(ch);
        for (int i = 0; i < 6; i++)
            call[i] = submitted(r, 1000, i % 2, i < 3 ? ch : NULL, 7); /* longer than closing takes */
        if (round % 2)
            usleep(3000);
        if (round > 1)
            runner_release(call[5]);
        pthread_create(&thread, NULL, close_it, r);
        runner_close(r);
        pthread_join(thread, NULL);
        gallop_request_init(&q);
        assert_int_equal(runner_submit(r, &q, 0, NULL, 0, &late, err), GALLOP_CANCELLED);
        assert_null(late);
        runner_enter(r, &engine);
        assert_null(engine);
        runner_leave(r, &engine);
        assert_int_equal(runner_stats(r, NULL), 0);
        runner_free(r);
        for (int i = 0; i < (round > 1 ? 5 : 6); i++) {
            struct runner_output out;
            const struct gallop_event *end = runner_take(call[i], 0, &out);

            assert_int_equal(end->finish, GALLOP_FINISH_CANCELLED);
            runner_release(call[i]);
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
    do { /* until closing has begun */
        runner_enter(c.r, &outside);
        runner_leave(c.r, &outside);
    } while (runner_stats(c.r, &s) == 1);
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
    struct gallop_request q;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&q);
    q.text = "Once upon a time";
    q.text_len = SIZE_MAX;
    q.sampling.max_new_tokens = 2;
    q.sampling.ignore_eos = 1;
    for (q.n = 127; q.n <= 128; q.n++) {
        struct runner_call *c = NULL;

        assert_int_equal(runner_submit(r, &q, 0, NULL, 0, &c, err), 0);
        for (unsigned i = 0; i < q.n; i++) {
            const struct gallop_event *end = NULL;
            struct runner_output out;
            size_t n = 0;

            for (; !end; n += out.n_tokens) {
                end = runner_take(c, i, &out);
                if (!end)
                    runner_wait(c, 0.01);
            }
            assert_int_equal(n, 2);
        }
        runner_release(c);
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

static void every_allocation_of_a_call_fails_once(void **state)
{
    struct runner *r = opened(NULL);
    struct gallop_request q;
    char err[GALLOP_ERR_SIZE];
    int calm = 0;

    gallop_request_init(&q);
    q.text = "Once";
    q.text_len = SIZE_MAX;
    q.sampling.max_new_tokens = 3;
    q.sampling.logprobs = 2;
    for (long at = 1; calm < 3; at++) {
        struct runner_call *c = NULL;
        int code;

        runner_fail_at(at);
        code = runner_submit(r, &q, 0, NULL, 0, &c, err);
        if (c) {
            const struct gallop_event *end;
            struct runner_output out;

            while (!runner_wait(c, 0.01))
                ;
            end = runner_take(c, 0, &out);
            assert_true(end->finish == GALLOP_FINISH_ERROR || out.n_tokens == 3);
            calm = mem_failed() ? 0 : calm + 1;
            runner_release(c);
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
        cmocka_unit_test(a_channel_reports_its_calls_until_they_have_ended),
        cmocka_unit_test(closing_ends_running_calls),
        cmocka_unit_test(closing_waits_for_who_came_in),
        cmocka_unit_test(each_of_many_answers_is_kept),
        cmocka_unit_test(a_model_that_cannot_be_opened_is_an_error),
        cmocka_unit_test(every_allocation_of_a_call_fails_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
