/* test_load.c - gauges and the time to come back, of requests and figures of the engine that are given. */
#include "api/api_priv.h"
#include "api/flight.h"
#include "api/http/load.h"
#include "api/http/metrics.h"

static const char *const names[] = {"m", "alias"};

static void answers_run_or_wait(void **state)
{
    struct flight second = {.places.n = 3}, first = {.places.n = 4, .next = &second};
    struct api a = {.opt = {.service.name = names, .service.n_names = 2, .max_running = 2}, .first = &first};
    struct metrics_now now;

    (void)state;
    a.now.stats.n_running = 2;
    load_gauges(&a, &now);
    assert_int_equal(now.n_running, 2);
    assert_int_equal(now.n_waiting, 5);
    assert_string_equal(now.model, "m");
    a.now.stats.n_running = 9; /* the engine's figures are of a moment ago: some have ended */
    load_gauges(&a, &now);
    assert_int_equal(now.n_running, 7);
    assert_int_equal(now.n_waiting, 0);
}

static void clients_come_back_when_the_queue_is_gone(void **state)
{
    static const struct {
        double mean_s;
        size_t n, running;
        double s;
    } rows[] = {{8, 7, 2, 20},   {8, 2, 2, 1},   {0, 7, 2, 1},   {0.5, 7, 2, 1.25},
                {0.25, 7, 2, 1}, {24, 7, 2, 60}, {30, 7, 2, 60}, {8, 7, 0, 28}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct flight f = {.places.n = rows[i].n};
        struct api a = {.opt = {.service.name = names, .service.n_names = 1, .max_running = 2},
                        .first = &f,
                        .mean_s = rows[i].mean_s};

        a.now.stats.n_running = rows[i].running;
        if (load_retry_s(&a) != rows[i].s)
            fail_msg("row %zu: %g s, expected %g", i, load_retry_s(&a), rows[i].s);
    }
}

/* Prometheus knows the escapes of a backslash, a quote and a line end, and no others. */
static void labels_have_the_escapes_of_prometheus(void **state)
{
    static const struct {
        const char *model, *label;
    } rows[] = {{"a", "\"a\""},
                {"a\xff\x7f\x01", "\"a???\""},
                {"\\\"\n\t", "\"\\\\\\\"\\n \""},
                {"\xc3\xa9\xe2\x80\xa8", "\"\xc3\xa9?\""}};
    static struct metrics m;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct metrics_now now = {.model = rows[i].model};
        struct buf out = {.tag = MEM_API};
        char sample[200];

        metrics_write(&m, &now, &out);
        snprintf(sample, sizeof(sample), "\nvllm:num_requests_running{engine=\"0\",model_name=%s} 0\n",
                 rows[i].label);
        if (!strstr(out.data, sample))
            fail_msg("row %zu: %.300s", i, out.data);
        buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_run_or_wait),
                                       cmocka_unit_test(labels_have_the_escapes_of_prometheus),
                                       cmocka_unit_test(clients_come_back_when_the_queue_is_gone)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
