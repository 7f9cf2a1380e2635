/* test_stall.c - a step that does not end: probes say so, the log says it once, and all is well when it ends
 * after all. The executor of the engine is one that stands still on demand, so nothing depends on how fast
 * the machine is.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "demo.h"
#include "engine/engine_priv.h"
#include "gallop.h"

/* --step-timeout for a step that stands still, and for steps of any machine, however busy. */
#define SOON_S 0.2
#define LATE_S 1000

static const struct executor *inner;
static atomic_bool stands, arrived, fails;

static int run_slowly(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    atomic_store(&arrived, true);
    while (atomic_load(&stands))
        usleep(1000);
    return inner->run(ctx, rows, n, e);
}

static int open_with(double step_timeout_s)
{
    struct gallop_options o = demo_options();

    if (demo_open_engine(&o) != 0)
        return -1;
    inner = demo_compute_by(run_slowly);
    atomic_store(&stands, true);
    atomic_store(&arrived, false);
    return demo_open((struct api_options){.service.chat_missing = "no template",
                                          .max_running = 8,
                                          .max_queued = 8,
                                          .service.max_logprobs = 5,
                                          .quiet = true,
                                          .step_timeout_s = step_timeout_s});
}

static int open_all(void **state)
{
    return open_with(LATE_S);
}

static int open_soon(void **state)
{
    return open_with(SOON_S);
}

static const char *get(const char *path)
{
    char request[64];
    int n = snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n\r\n", path);

    return demo_answer(demo_send(request, (size_t)n));
}

static int status_of(const char *path)
{
    return demo_status(get(path));
}

static long count_of(const char *metric)
{
    const char *text = strstr(get("/metrics"), metric);

    return text && (text = strstr(text + strlen(metric), metric)) != NULL /* behind # TYPE */
               ? strtol(strchr(strstr(text, "{"), '}') + 1, NULL, 10)
               : -1;
}

static int ask_for_tokens(void)
{
    return demo_post("/v1/completions", "", "{\"prompt\":[5,6,7],\"max_tokens\":3,\"min_tokens\":3}");
}

/* A request of a single step. */
static int ask_for_a_token(void)
{
    return demo_post("/v1/completions", "", "{\"prompt\":[5,6,7],\"max_tokens\":1}");
}

static void a_step_that_stands_still_is_seen_until_it_ends(void **state)
{
    double end = clock_seconds() + 600;
    int fd;

    assert_int_equal(status_of("/health"), 200); /* nothing to compute is no step */
    assert_false(api_stalled(demo.api));
    fd = ask_for_a_token();
    while ((!atomic_load(&arrived) || !api_stalled(demo.api)) && clock_seconds() < end)
        server_poll(demo.server);
    assert_true(api_stalled(demo.api));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(status_of("/health"), 503);
        assert_int_equal(status_of("/ready"), 503);
    }
    assert_non_null(strstr(get("/health"), "in one step for longer than this server allows"));
    assert_int_equal(count_of("vllm:step_timeouts_total"), 1); /* one step, however often it was seen */
    assert_int_equal(count_of("vllm:requests_refused_total"), 0);
    atomic_store(&stands, false);
    assert_non_null(strstr(demo_answer(fd), "\"completion_tokens\":1"));
    assert_int_equal(status_of("/health"), 200);
    assert_int_equal(status_of("/ready"), 200);
    assert_int_equal(count_of("vllm:step_timeouts_total"), 1);
}

static void steps_that_end_are_none_that_take_too_long(void **state)
{
    atomic_store(&stands, false);
    for (int i = 0; i < 5; i++)
        assert_non_null(strstr(demo_answer(ask_for_tokens()), "\"completion_tokens\":3"));
    assert_int_equal(status_of("/health"), 200);
    assert_int_equal(count_of("vllm:step_timeouts_total"), 0);
}

/* ---- an executor that fails ---- */

static int fail_once(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    return atomic_exchange(&fails, false) ? err_set(e, ERR_OS, "the device is gone")
                                          : inner->run(ctx, rows, n, e);
}

static int open_late(void *ctx, struct err *e)
{
    (void)ctx;
    (void)e;
    return atomic_load(&stands) ? EXECUTOR_LATER : 0;
}

static void wait_late(void *ctx, double seconds)
{
    (void)ctx;
    usleep((unsigned)(seconds * 1e6));
}

static int open_failing(void **state)
{
    int rc = open_all(state);
    struct executor *x = demo_replaced();

    x->run = fail_once;
    x->reopen = open_late;
    x->reopen_wait = wait_late;
    atomic_store(&fails, true);
    return rc;
}

static void a_server_whose_executor_failed_is_not_ready_and_answers_later(void **state)
{
    int fd[2];

    assert_int_equal(status_of("/ready"), 200);
    fd[0] = ask_for_tokens();
    while (status_of("/ready") != 503)
        usleep(1000);
    assert_non_null(strstr(get("/ready"), "the executor has failed and is being opened again"));
    assert_int_equal(status_of("/health"), 200); /* another start would help nobody */
    assert_int_equal(count_of("gallop:executor_up"), 0);
    assert_int_equal(count_of("gallop:executor_restarts_total"), 0);
    fd[1] = ask_for_tokens(); /* it waits */
    atomic_store(&stands, false);
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(demo_answer(fd[i]), "\"completion_tokens\":3"));
    assert_int_equal(status_of("/ready"), 200);
    assert_int_equal(count_of("gallop:executor_up"), 1);
    assert_int_equal(count_of("gallop:executor_restarts_total"), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, demo_close)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_step_that_stands_still_is_seen_until_it_ends, open_soon,
                                        demo_close),
        TEST(steps_that_end_are_none_that_take_too_long),
        cmocka_unit_test_setup_teardown(a_server_whose_executor_failed_is_not_ready_and_answers_later,
                                        open_failing, demo_close)};

    return demo_run(tests);
}
