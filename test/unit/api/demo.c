/* demo.c - see demo.h. */
#include "demo.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_priv.h"
#include "engine/step.h"
#include "gallop.h"
#include "text/chat.h"

enum { PATIENCE_S = 600 };

struct demo demo;

struct gallop_options demo_options(void)
{
    struct gallop_options o;

    gallop_options_init(&o);
    o.model = GALLOP_SOURCE_DIR "/models/demo";
    o.threads = 1;
    return o;
}

int demo_open_engine(const struct gallop_options *o)
{
    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR);
    return gallop_open(&demo.engine, o, NULL);
}

const struct executor *demo_compute_by(demo_run_step *run)
{
    static struct executor replaced;
    const struct executor *inner = engine_loop(demo.engine)->x;

    replaced = *inner;
    replaced.run = run;
    engine_loop(demo.engine)->x = &replaced;
    return inner;
}

struct executor *demo_replaced(void)
{
    return (struct executor *)(uintptr_t)engine_loop(demo.engine)->x;
}

int demo_open_chat(struct chat **out, const char *template)
{
    json_t *config = json_pack("{s:s}", "chat_template", template);
    char *text = json_dumps(config, 0);
    int rc = chat_open_text(out, text, strlen(text), "t", NULL);

    mem_free(text);
    json_decref(config);
    return rc;
}

int demo_open(struct api_options a)
{
    static const char *const names[] = {"demo"};
    struct server_options o = {.port = 0};

    a.service.name = names;
    a.service.n_names = 1;
    a.service.engine = demo.engine;
    if (api_open(&demo.api, &a, NULL) != 0)
        return -1;
    api_handle(demo.api, &o);
    return server_open(&demo.server, &o, NULL) != 0 || api_start(demo.api, demo.server, NULL) != 0;
}

int demo_close(void **state)
{
    api_stop(demo.api);
    server_close(demo.server);
    api_close(demo.api);
    gallop_close(demo.engine);
    return 0;
}

int demo_send(const char *request, size_t n)
{
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    server_adopt(demo.server, fd[1], NULL); /* if there is memory for it */
    if (write(fd[0], request, n) < 0)
        assert_int_equal(errno, EPIPE);
    return fd[0];
}

int demo_post(const char *path, const char *heads, const char *body)
{
    static char text[1 << 16];
    int n = snprintf(text, sizeof(text), "POST %s HTTP/1.0\r\n%sContent-Length: %zu\r\n\r\n%s", path, heads,
                     strlen(body), body);

    assert_true((size_t)n < sizeof(text));
    return demo_send(text, (size_t)n);
}

const char *demo_answer(int fd)
{
    static char text[1 << 18];
    double end = clock_seconds() + PATIENCE_S;
    size_t n = 0;
    ssize_t k = -1;

    while (k != 0 && clock_seconds() < end) {
        server_poll(demo.server);
        k = read(fd, text + n, sizeof(text) - 1 - n);
        n += k > 0 ? (size_t)k : 0;
        if (k < 0)
            usleep(50); /* the processor is the engine's */
    }
    close(fd);
    assert_int_equal(k, 0);
    text[n] = 0;
    return text;
}

int demo_status(const char *answer)
{
    return strlen(answer) > 12 ? atoi(answer + strlen("HTTP/1.1 ")) : 0;
}

void demo_await_silence(void)
{
    double end = clock_seconds() + PATIENCE_S;

    while ((api_n_requests(demo.api) || server_n_connections(demo.server)) && clock_seconds() < end)
        server_poll(demo.server);
    assert_int_equal(api_n_requests(demo.api), 0);
}

int demo_check_heap(int failed)
{
    if (mem_live_blocks())
        print_error("%zu blocks are left on the heap\n", mem_live_blocks());
    return failed || mem_live_blocks();
}
