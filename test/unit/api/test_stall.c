/* test_stall.c - a step that does not end: probes say so, the log says it once, and all is well when it ends
 * after all. The executor of the engine is one that stands still on demand, so nothing depends on how fast
 * the machine is.
 */
#include "api/api.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/gallop_in.h"

#define SOON_S 1.0 /* --step-timeout of these tests: no busy machine lets a thread wait so long by itself */

static struct gallop *engine;
static struct api *api;
static struct server *server;
static const struct executor *inner;
static struct executor slow;
static atomic_bool stands, arrived;

static const float *run_slowly(void *ctx, const struct executor_rows *rows, size_t n)
{
    atomic_store(&arrived, true);
    while (atomic_load(&stands))
        usleep(1000);
    return inner->run(ctx, rows, n);
}

static int open_all(void **state)
{
    static const char *const names[] = {"demo"};
    struct api_options a = {.name = names,
                            .n_names = 1,
                            .chat_missing = "no template",
                            .max_running = 8,
                            .max_queued = 8,
                            .max_logprobs = 5,
                            .quiet = true,
                            .step_timeout_s = SOON_S};
    struct server_options so = {.port = 0};
    struct gallop_options o;

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    signal(SIGPIPE, SIG_IGN);
    gallop_options_init(&o);
    o.model = GALLOP_SOURCE_DIR "/models/demo";
    o.threads = 1;
    if (gallop_open(&engine, &o, NULL) != 0)
        return -1;
    inner = gallop_loop(engine)->x;
    slow = *inner;
    slow.run = run_slowly;
    gallop_loop(engine)->x = &slow;
    atomic_store(&stands, true);
    atomic_store(&arrived, false);
    a.engine = engine;
    if (api_open(&api, &a, NULL) != 0)
        return -1;
    api_handle(api, &so);
    log_set_level(LOG_ERROR);
    return server_open(&server, &so, NULL) != 0 || api_start(api, server, NULL) != 0;
}

static int close_all(void **state)
{
    api_stop(api);
    server_close(server);
    api_close(api);
    gallop_close(engine);
    return 0;
}

static int ask(const char *request)
{
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    assert_int_equal(server_adopt(server, fd[1], NULL), 0);
    assert_int_equal(write(fd[0], request, strlen(request)), strlen(request));
    return fd[0];
}

/* What comes on FD until its end. */
static const char *answer(int fd)
{
    static char text[1 << 18];
    double end = clock_seconds() + 100;
    size_t n = 0;
    ssize_t k = -1;

    while (k != 0 && clock_seconds() < end) {
        server_poll(server);
        k = read(fd, text + n, sizeof(text) - 1 - n);
        n += k > 0 ? (size_t)k : 0;
    }
    close(fd);
    assert_int_equal(k, 0);
    text[n] = 0;
    return text;
}

static int status_of(const char *path)
{
    char request[64];

    snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n\r\n", path);
    return atoi(answer(ask(request)) + strlen("HTTP/1.1 "));
}

static long count_of(const char *metric)
{
    const char *text = strstr(answer(ask("GET /metrics HTTP/1.0\r\n\r\n")), metric);

    return text && (text = strstr(text + strlen(metric), metric)) != NULL /* behind # TYPE */
               ? strtol(strchr(strstr(text, "{"), '}') + 1, NULL, 10)
               : -1;
}

static int ask_for_tokens(void)
{
    static const char body[] = "{\"prompt\":[5,6,7],\"max_tokens\":3,\"min_tokens\":3}";
    char request[200];

    snprintf(request, sizeof(request), "POST /v1/completions HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    return ask(request);
}

static void a_step_that_stands_still_is_seen_until_it_ends(void **state)
{
    double end = clock_seconds() + 100;
    int fd;

    assert_int_equal(status_of("/health"), 200); /* nothing to compute is no step */
    assert_false(api_stalled(api));
    fd = ask_for_tokens();
    while ((!atomic_load(&arrived) || !api_stalled(api)) && clock_seconds() < end)
        server_poll(server);
    assert_true(api_stalled(api));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(status_of("/health"), 503);
        assert_int_equal(status_of("/ready"), 503);
    }
    assert_non_null(strstr(answer(ask("GET /health HTTP/1.0\r\n\r\n")), "--step-timeout"));
    assert_int_equal(count_of("vllm:step_timeouts_total"), 1); /* one step, however often it was seen */
    assert_int_equal(count_of("vllm:requests_refused_total"), 0);
    atomic_store(&stands, false);
    assert_non_null(strstr(answer(fd), "\"completion_tokens\":3"));
    assert_int_equal(status_of("/health"), 200);
    assert_int_equal(status_of("/ready"), 200);
    assert_int_equal(count_of("vllm:step_timeouts_total"), 1);
}

static void steps_that_end_are_none_that_take_too_long(void **state)
{
    atomic_store(&stands, false);
    for (int i = 0; i < 5; i++)
        assert_non_null(strstr(answer(ask_for_tokens()), "\"completion_tokens\":3"));
    assert_int_equal(status_of("/health"), 200);
    assert_int_equal(count_of("vllm:step_timeouts_total"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
    const struct CMUnitTest tests[] = {TEST(a_step_that_stands_still_is_seen_until_it_ends),
                                       TEST(steps_that_end_are_none_that_take_too_long)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    if (mem_live_blocks())
        print_error("%zu blocks are left on the heap\n", mem_live_blocks());
    return failed || mem_live_blocks();
}
