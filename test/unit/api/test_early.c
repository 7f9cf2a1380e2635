/* test_early.c - tokens that come before the server's thread has a request back from the worker that submitted it are
 * counted like others. The test is the server's thread, and returns the finished job of the worker late.
 */
#include <unistd.h>

#include "api/api_priv.h"
#include "api/crash_table.h"
#include "base/clock.h"
#include "demo.h"

enum { ENOUGH = 20 };

static int open_all(void **state)
{
    struct gallop_options o = demo_options();

    if (demo_open_engine(&o) != 0)
        return -1;
    return demo_open((struct api_options){.service.chat_missing = "no template",
                                          .max_running = 2,
                                          .max_queued = 8,
                                          .service.max_logprobs = 5,
                                          .quiet = true});
}

/* Takes the job of the worker before the server's thread sees it. */
static struct workers_job *take_job(void)
{
    struct workers_job *job;
    double end_s = clock_seconds() + 600;

    while ((job = workers_done(&demo.api->workers)) == NULL && clock_seconds() < end_s)
        usleep(100);
    return job;
}

static void return_job(struct workers_job *job)
{
    struct workers *w = &demo.api->workers;

    pthread_mutex_lock(&w->lock);
    *w->done.last = job;
    w->done.last = &job->next;
    pthread_mutex_unlock(&w->lock);
    w->wake(w->ctx);
}

static const struct crash_table_row *used_row(void)
{
    size_t n;
    const struct crash_table_row *row = api_running(demo.api, &n);

    for (size_t i = 0; i < n; i++)
        if (atomic_load(&row[i].used))
            return &row[i];
    return NULL;
}

/* Sends a request, and polls until a worker has it. Returns its socket. */
static int ask(void)
{
    int fd = demo_post("/v1/completions", "", "{\"prompt\":[5],\"max_tokens\":200,\"min_tokens\":200}");

    while (api_n_requests(demo.api) == 0)
        server_poll(demo.server);
    return fd;
}

static void tokens_that_come_early_are_in_the_crash_report(void **state)
{
    const uint64_t *n_computed = &demo.api->now.stats.n_output_tokens;
    uint64_t before;
    struct workers_job *job;
    int fd;

    for (before = 0, fd = ask(); used_row(); before = *n_computed, fd = ask()) {
        close(fd); /* the worker had returned the request by the end of that poll */
        demo_await_silence();
    }
    assert_non_null(job = take_job());
    while (*n_computed < before + ENOUGH)
        server_poll(demo.server);
    assert_null(used_row());
    return_job(job);
    while (!used_row())
        server_poll(demo.server);
    assert_int_equal(atomic_load(&used_row()->n_output), *n_computed - before);
    close(fd);
    demo_await_silence();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        tokens_that_come_early_are_in_the_crash_report, open_all, demo_close)};

    return demo_run(tests);
}
