/* test_echo.c - log-probabilities of a long prompt, which a stream begins with: they are written on
 * a worker thread, so that no other stream waits for them.
 */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "api/api_priv.h"
#include "api/flight.h"
#include "demo.h"

enum { N_IDS = 700, N_ASKED = 5 };

static int open_all(void **state)
{
    struct gallop_options o = demo_options();

    return demo_open_engine(&o) != 0 || demo_open((struct api_options){.service.chat_missing = "no template",
                                                                       .max_running = 4,
                                                                       .max_queued = 8,
                                                                       .service.max_logprobs = 20,
                                                                       .quiet = true}) != 0;
}

/* The processor time of the worker threads. */
static double workers_s(void)
{
    double sum = 0;

    for (size_t i = 0; i < demo.api->workers.front.n; i++) {
        struct timespec t;
        clockid_t clock;

        assert_int_equal(pthread_getcpuclockid(demo.api->workers.front.thread[i].id, &clock), 0);
        assert_int_equal(clock_gettime(clock, &t), 0);
        sum += (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    }
    return sum;
}

/* The processor time of workers for requests with FIELDS, which ask for 5 log-probabilities of each token of
 * a prompt. */
static double ask(const char *fields)
{
    static char body[8 * N_IDS + 400];
    double before = workers_s();

    for (int k = 0; k < N_ASKED; k++) {
        size_t n = (size_t)snprintf(
            body, sizeof(body), "{\"max_tokens\":1,\"temperature\":0,\"echo\":true,%s,\"prompt\":[", fields);

        for (int i = 0; i < N_IDS; i++)
            n += (size_t)snprintf(body + n, sizeof(body) - n, "%s%d", i ? "," : "", 5 + i);
        snprintf(body + n, sizeof(body) - n, "]}");
        assert_int_equal(demo_status(demo_answer(demo_post("/v1/completions", "", body))), 200);
    }
    return workers_s() - before;
}

static void workers_write_them(void **state)
{
    double whole = ask("\"logprobs\":5"), stream = ask("\"logprobs\":5,\"stream\":true"),
           none = ask("\"stream\":true");

    assert_true(whole > 3 * none); /* else there is nothing to be seen */
    assert_true(stream > whole / 3);
}

/* The client is gone before they are written, or while they are: nothing is left of it. */
static void a_client_that_leaves_meanwhile_is_forgotten(void **state)
{
    static char body[8 * N_IDS + 400];
    size_t n = (size_t)snprintf(body, sizeof(body),
                                "{\"stream\":true,\"logprobs\":5,\"echo\":true,"
                                "\"max_tokens\":4,\"prompt\":[5");

    for (int i = 1; i < N_IDS; i++)
        n += (size_t)snprintf(body + n, sizeof(body) - n, ",%d", 5 + i);
    snprintf(body + n, sizeof(body) - n, "]}");
    for (int k = 0; k < 8; k++) {
        int fd = demo_post("/v1/completions", "", body);

        do
            server_poll(demo.server);
        while (!demo.api->first || demo.api->first->state < FLIGHT_BEGUN);
        close(fd);
        demo_await_silence();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(workers_write_them, open_all, demo_close),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_meanwhile_is_forgotten, open_all, demo_close)};

    return demo_run(tests);
}
