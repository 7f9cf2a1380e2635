/* fuzz_http.c - bytes of a client as a server reads them from a socket, in one piece and in two. Every
 * request is answered at once, and pages of two other origins are allowed. Nothing may be leaked. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/cors.h"
#include "net/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct server *server;
static struct cors cors;

static void handle(void *ctx, struct server_exchange *x)
{
    const char *path = server_head(x)->path;
    char lines[CORS_PREFLIGHT];
    size_t n;

    (void)ctx;
    if (cors_preflight(&cors, server_head(x), lines)) {
        server_reply(x, 200, lines, NULL, "", 0);
    } else if (path[1] == 's') {
        server_begin(x, 200, "", "text/plain");
        server_send(x, path, strlen(path));
        server_end(x);
    } else if (path[1] != 'h') { /* /h... is never answered. */
        server_body(x, &n);
        server_reply(x, 200, "", "text/plain", path, strlen(path));
    }
}

static void ignore(void *ctx, struct server_exchange *x)
{
    (void)ctx;
    (void)x;
}

static void woken(void *ctx)
{
    (void)ctx;
}

static size_t refusal(void *ctx, int status, const char *why, char *out, size_t size)
{
    (void)ctx;
    (void)status;
    if (strlen(why) > size)
        abort();
    memcpy(out, why, strlen(why));
    return strlen(why);
}

static void drain(int fd)
{
    char bytes[4096];

    server_poll(server);
    while (read(fd, bytes, sizeof(bytes)) > 0)
        server_poll(server);
}

static void send_cut(const uint8_t *data, size_t size, size_t cut)
{
    int fd[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) != 0 ||
        server_adopt(server, fd[1], NULL) != 0)
        abort();
    if (write(fd[0], data, cut) >= 0)
        drain(fd[0]);
    if (write(fd[0], data + cut, size - cut) >= 0)
        drain(fd[0]);
    close(fd[0]);
    server_poll(server);
    server_poll(server);
    if (server_n_connections(server) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct server_options o = {.max_head_bytes = 2000,
                                            .max_headers = 20,
                                            .max_body_bytes = 3000,
                                            .cors = &cors,
                                            .handle = handle,
                                            .gone = ignore,
                                            .drained = ignore,
                                            .woken = woken,
                                            .refusal = refusal};
    size_t before;

    if (!server && (cors_open(&cors, "https://a,http://b:3", NULL, NULL, true, NULL) != 0 ||
                    server_open(&server, &o, NULL) != 0))
        abort();
    before = mem_live_blocks();
    if (size > 16000)
        return 0;
    send_cut(data, size, 0);
    send_cut(data, size, size ? data[size - 1] * size / 256 : 0);
    if (mem_live_blocks() != before)
        abort();
    return 0;
}
