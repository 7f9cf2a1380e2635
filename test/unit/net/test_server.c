/* test_server.c - connections of a server, over pairs of sockets: requests in one piece and in several,
 * streams, clients that disconnect, limits, and allocation failures. */
#include "base/buf.h"
#include "net/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static struct server *server;
static struct server_exchange *held; /* of /hold and /stream */
static int n_handled, n_gone, n_drained, n_woken;
static char body[100000];

static void handle(void *ctx, struct server_exchange *x)
{
    const char *path = server_head(x)->path;
    size_t n;

    n_handled++;
    if (strcmp(path, "/hold") == 0) {
        held = x;
    } else if (strcmp(path, "/stream") == 0) {
        held = x;
        server_begin(x, 200, "", "text/plain");
    } else if (strcmp(path, "/give") == 0) {
        struct buf given = {.tag = MEM_NET};
        const char *bytes = server_body(x, &n);

        buf_add(&given, bytes, n);
        server_give(x, 200, "A: b\r\n", "text/plain", &given);
        assert_true(!given.data && !given.len);
    } else {
        const char *bytes = server_body(x, &n);

        server_reply(x, 200, "A: b\r\n", "text/plain", bytes, n);
    }
}

static void gone(void *ctx, struct server_exchange *x)
{
    assert_ptr_equal(x, held);
    held = NULL;
    n_gone++;
}

static void drained(void *ctx, struct server_exchange *x)
{
    n_drained++;
}

static bool wants_body(void *ctx, const struct http_head *h)
{
    return strcmp(h->path, "/unwanted") != 0;
}

/* Each request has a client of its own. */
static uint32_t client_of_one(void *ctx, const struct http_head *h, const char *peer)
{
    static uint32_t n;

    return ++n % 100;
}

static void woken(void *ctx)
{
    n_woken++;
}

static size_t refusal(void *ctx, int status, const char *why, char *out, size_t size)
{
    return (size_t)snprintf(out, size, "%d", status);
}

static int open_with(const double *limit_s, size_t max_connections)
{
    const struct server_options o = {.request_s = limit_s ? *limit_s : 0,
                                     .idle_s = limit_s ? *limit_s : 0,
                                     .write_s = limit_s ? *limit_s : 0,
                                     .stall_s = limit_s && *limit_s >= 1000 ? 0.2 : 1000,
                                     .max_connections = max_connections,
                                     .max_head_bytes = 1000,
                                     .max_headers = 10,
                                     .max_body_bytes = limit_s ? 64 << 20 : 50000,
                                     .max_bodies_bytes = limit_s ? 0 : 100000,
                                     .slow_s = 1000,
                                     .handle = handle,
                                     .wants_body = wants_body,
                                     .client = limit_s ? NULL : client_of_one,
                                     .gone = gone,
                                     .drained = drained,
                                     .woken = woken,
                                     .refusal = refusal};

    n_handled = n_gone = n_drained = 0;
    held = NULL;
    return server_open(&server, &o, NULL);
}

static int open_server(void **state)
{
    return open_with(*state, 0);
}

static int close_server(void **state)
{
    size_t live;

    server_close(server);
    live = mem_tag_bytes(MEM_NET);
    return live != 0;
}

static int connect_to(void)
{
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    assert_int_equal(server_adopt(server, fd[1], NULL), 0);
    return fd[0];
}

static void put(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t k = write(fd, bytes, n);

        if (k > 0) {
            bytes += k;
            n -= (size_t)k;
        }
        server_poll(server);
    }
    for (int i = 0; i < 4; i++)
        server_poll(server);
}

static void put_text(int fd, const char *text)
{
    put(fd, text, strlen(text));
}

/* Removes the Date from each answer in `body`: every answer but 100 has it, with the current time. */
static void take_dates(void)
{
    for (char *at = body, *line;
         (at = strstr(at, "HTTP/1.1 ")) != NULL && (line = strstr(at, "\r\n")) != NULL; at = line) {
        struct tm t = {0};
        const char *rest;

        line += 2;
        if (strncmp(at + 9, "100", 3) == 0)
            continue;
        rest = strptime(line, "Date: %a, %d %b %Y %H:%M:%S GMT", &t);
        assert_non_null(rest);
        assert_true(rest == line + 35 && labs((long)(timegm(&t) - time(NULL))) < 1000);
        memmove(line, line + 37, strlen(line + 37) + 1);
    }
}

/* Returns what has arrived on FD, without dates. */
static const char *got(int fd)
{
    size_t n = 0;
    ssize_t k;

    for (int i = 0; i < 8; i++) {
        server_poll(server);
        while ((k = read(fd, body + n, sizeof(body) - 1 - n)) > 0)
            n += (size_t)k;
    }
    body[n] = 0;
    take_dates();
    return body;
}

static bool is_closed(int fd)
{
    char c;

    server_poll(server);
    return read(fd, &c, 1) == 0;
}

static const char answer[] =
    "HTTP/1.1 200 OK\r\nA: b\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc";

static void a_request_in_pieces_is_one(void **state)
{
    static const char text[] = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";

    for (size_t cut = 1; cut < sizeof(text) - 1; cut++) {
        int fd = connect_to();

        put(fd, text, cut);
        assert_string_equal(got(fd), "");
        put(fd, text + cut, sizeof(text) - 1 - cut);
        assert_string_equal(got(fd), answer);
        close(fd);
    }
}

static void chunks_make_a_body(void **state)
{
    static const char text[] = "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                               "1\r\na\r\n2;x\r\nbc\r\n0\r\nT: t\r\n\r\n";
    int fd = connect_to();

    for (size_t i = 0; i < sizeof(text) - 1; i++)
        put(fd, text + i, 1);
    assert_string_equal(got(fd), answer);
    put_text(fd, "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd");
    assert_non_null(strstr(got(fd), "HTTP/1.1 400"));
    close(fd);
}

static void bytes_that_are_given_are_sent_and_let_go_of(void **state)
{
    static const char big[] = "POST /give HTTP/1.1\r\nHost: x\r\nContent-Length: 40000\r\n\r\n";
    static char text[40000];
    size_t before = mem_tag_bytes(MEM_NET);
    int fd = connect_to();

    put_text(fd, "POST /give HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    assert_string_equal(got(fd), answer);
    put_text(fd, "POST /give HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    assert_string_equal(got(fd), "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 0\r\n\r\n");
    put_text(fd, "HEAD /give HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    assert_string_equal(got(fd),
                        "HTTP/1.1 200 OK\r\nA: b\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\n");
    memset(text, 'x', sizeof(text));
    for (int i = 0; i < 2; i++) { /* The second time the handler does not read it. */
        put(fd, big, sizeof(big) - 1);
        put(fd, text, sizeof(text));
        assert_true(i == 1 || strlen(got(fd)) > sizeof(text));
    }
    close(fd);
    server_poll(server);
    server_poll(server);
    assert_int_equal(mem_tag_bytes(MEM_NET), before);
}

/* What was searched of a head that came in pieces is not left out of the next one, which is shorter. */
static void a_short_request_may_follow_a_long_one_in_pieces(void **state)
{
    static const char begin[] =
        "GET /x HTTP/1.1\r\nHost: x\r\nA: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    int fd = connect_to();

    for (int i = 0; i < 3; i++) {
        put_text(fd, begin);
        put_text(fd, "\r\n\r\nGET /x HTTP/1.1\r\nHost: x\r\n\r\n");
        got(fd);
        assert_int_equal(n_handled, 2 * (i + 1));
    }
    close(fd);
}

static void many_requests_at_once_are_answered_in_order(void **state)
{
    int fd = connect_to();

    for (int i = 0; i < 100; i++)
        assert_true(write(fd, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n", 28) == 28);
    got(fd);
    assert_int_equal(n_handled, 100);
    close(fd);
}

static void a_stream_is_cut_into_chunks(void **state)
{
    int fd = connect_to();

    put_text(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    server_send(held, "hello", 5);
    server_send(held, "", 0);
    server_send(held, " you", 4);
    server_end(held);
    assert_string_equal(got(fd),
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "5\r\nhello\r\n4\r\n you\r\n0\r\n\r\n");
    put_text(fd, "GET /stream HTTP/1.0\r\n\r\n");
    server_send(held, "hello", 5);
    server_end(held);
    assert_string_equal(got(fd),
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nhello");
    assert_true(is_closed(fd));
    assert_true(n_drained >= 1);
    close(fd);
}

static void an_older_client_is_told_that_the_connection_stays(void **state)
{
    int fd = connect_to();

    for (int i = 0; i < 2; i++) {
        put_text(fd, "POST /x HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc");
        assert_string_equal(got(fd), "HTTP/1.1 200 OK\r\nA: b\r\nContent-Type: text/plain\r\n"
                                     "Connection: keep-alive\r\nContent-Length: 3\r\n\r\nabc");
    }
    close(fd);
}

static void a_client_that_leaves_is_seen(void **state)
{
    static const char *const paths[] = {"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n",
                                        "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n",
                                        "GET /hold HTTP/1.1\r\nHost: x\r\n\r\nGET /next"};

    for (int i = 0; i < 6; i++) {
        int fd = connect_to();

        put_text(fd, paths[i % 3]);
        assert_non_null(held);
        if (i < 3)
            close(fd);
        else
            shutdown(fd, SHUT_WR);
        server_poll(server);
        server_poll(server);
        assert_null(held);
        assert_int_equal(n_gone, i + 1);
        if (i >= 3)
            close(fd);
    }
    assert_int_equal(server_n_connections(server), 0);
}

static void who_leaves_within_a_request_has_asked_nothing(void **state)
{
    static const char text[] =
        "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";

    for (size_t cut = 0; cut < 2 * (sizeof(text) - 1); cut++) {
        int fd = connect_to();

        put(fd, text, cut / 2);
        if (cut % 2)
            shutdown(fd, SHUT_WR);
        else
            close(fd);
        for (int i = 0; i < 4; i++)
            server_poll(server);
        assert_int_equal(server_n_connections(server), 0);
        if (cut % 2)
            close(fd);
    }
    assert_int_equal(n_handled, 0);
    assert_int_equal(n_gone, 0);
}

/* Requests that arrive while another is answered wait, at the client if there are many. All are answered in
 * their order, and the server notices meanwhile that a client has disconnected. */
static void who_sends_ahead_is_held_back(void **state)
{
    static const char one[] = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
    size_t n = sizeof(one) - 1, sent = 0, most = 100000 * n, n_answers = 0;
    int fd = connect_to(), idle = 0;

    put_text(fd, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    while (sent < most && idle < 20) {
        ssize_t k = write(fd, one + sent % n, n - sent % n);

        sent += k > 0 ? (size_t)k : 0;
        idle = k > 0 ? 0 : idle + 1;
        server_poll(server);
    }
    assert_true(sent < most && n_handled == 1 && n_gone == 0);
    server_reply(held, 200, "", "text/plain", "", 0);
    for (int i = 0; i < 100000 && (sent % n || n_answers < 1 + sent / n); i++) {
        ssize_t k = sent % n ? write(fd, one + sent % n, n - sent % n) : 0;

        sent += k > 0 ? (size_t)k : 0;
        server_poll(server);
        while ((k = read(fd, body, sizeof(body))) > 0)
            for (ssize_t at = 0; at < k; at++)
                n_answers += body[at] == 'H'; /* of the version of HTTP */
    }
    assert_int_equal(n_answers, 1 + sent / n);
    assert_int_equal(n_handled, n_answers);
    close(fd);
}

static void who_leaves_is_seen_although_it_is_not_read(void **state)
{
    int fd = connect_to();

    put_text(fd, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    memset(body, 'x', sizeof(body));
    for (int i = 0; i < 1000; i++) {
        if (write(fd, body, 1000) < 0)
            break;
        server_poll(server);
    }
    assert_int_equal(n_gone, 0);
    close(fd);
    for (int i = 0; i < 100 && !n_gone; i++)
        server_poll(server);
    assert_int_equal(n_gone, 1);
    assert_int_equal(server_n_connections(server), 0);
}

/* The stream has more output than the sockets take. The client has sent nothing ahead, or more than is read. */
static void who_stops_sending_is_seen_although_its_stream_is_full(void **state)
{
    for (int ahead = 0; ahead < 2; ahead++) {
        int fd = connect_to();

        put_text(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
        memset(body, 'x', sizeof(body));
        for (int i = 0; i < 20; i++)
            server_send(held, body, sizeof(body));
        for (int i = 0; i < 1000 * ahead; i++) {
            if (write(fd, body, 1000) < 0)
                break;
            server_poll(server);
        }
        assert_int_equal(n_gone, ahead);
        shutdown(fd, SHUT_WR);
        for (int i = 0; i < 100 && n_gone == ahead; i++)
            server_poll(server);
        assert_int_equal(n_gone, ahead + 1);
        close(fd);
    }
}

/* If a client sends requests and reads no answers, the server keeps little of either, and in the end the
 * client gets every answer. */
static void who_reads_nothing_fills_no_memory(void **state)
{
    static const char text[] = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n";
    size_t n = sizeof(text) - 1 + 20000, sent = 0, most = 50 * n, bytes = 0, idle = 0;
    char *requests = malloc(most);
    int fd = connect_to();

    memset(requests, 'a', most);
    for (size_t i = 0; i < most; i += n)
        memcpy(requests + i, text, sizeof(text) - 1);
    while (sent < 400 * n && idle < 20) {
        ssize_t k = write(fd, requests + sent % most, most - sent % most);

        sent += k > 0 ? (size_t)k : 0;
        idle = k > 0 ? 0 : idle + 1;
        server_poll(server);
    }
    assert_true(sent < 100 * n);
    for (int i = 0; i < 1000 && (sent % n || bytes < sent / n * 20000); i++) {
        ssize_t k = sent % n ? write(fd, requests + sent % n, n - sent % n) : 0;

        sent += k > 0 ? (size_t)k : 0;
        bytes += strlen(got(fd));
    }
    assert_int_equal(n_handled, sent / n);
    assert_int_equal(bytes / 20000, sent / n);
    free(requests);
    close(fd);
}

/* A client may send all its requests before it reads the first answer. */
static void who_only_stops_sending_gets_what_is_answered(void **state)
{
    static const char text[] = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n";
    size_t n = sizeof(text) - 1 + 20000, sent = 0, bytes = 0;
    char *request = malloc(n);
    int fd = connect_to(), idle = 0;

    memset(request, 'a', n);
    memcpy(request, text, sizeof(text) - 1);
    while (sent < 400 * n && idle < 20) {
        ssize_t k = write(fd, request + sent % n, n - sent % n);

        sent += k > 0 ? (size_t)k : 0;
        idle = k > 0 ? 0 : idle + 1;
        server_poll(server);
    }
    assert_true(n_handled > 2 && idle == 20);
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 20; i++)
        server_poll(server);
    for (int i = 0; i < 1000 && server_n_connections(server); i++)
        bytes += strlen(got(fd));
    bytes += strlen(got(fd));
    assert_int_equal(bytes / 20000, n_handled);
    free(request);
    close(fd);
}

/* Line ends without CR would be read until the head is too long or its time is over. */
static void a_head_with_bare_line_ends_is_refused_at_once(void **state)
{
    static const char *const heads[] = {"GET / HTTP/1.1\nHost: x\n\n", "GET /x HTTP/1.1\r\nHost: x\n",
                                        "GET /x\n", "\n"};

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        for (int pieces = 0; pieces < 2; pieces++) {
            int fd = connect_to();

            for (const char *p = heads[i]; pieces && *p; p++)
                put(fd, p, 1);
            if (!pieces)
                put_text(fd, heads[i]);
            assert_non_null(strstr(got(fd), "HTTP/1.1 400"));
            close(fd);
        }
    assert_int_equal(n_handled, 0);
}

static double hasty = 0.2; /* the longest time in seconds that anything may take */
static double patient = 1.5;
static double stalls = 1000; /* the longest time in seconds between two bytes */

/* Sends a byte now and then until FD has output, which is added to `body`, or FD is closed. */
static void drip(int fd)
{
    double end = clock_seconds() + 300;
    ssize_t k;

    do {
        usleep(5000);
        server_poll(server);
        if (write(fd, "a", 1) < 0)
            assert_int_equal(errno, EPIPE);
        k = read(fd, body, sizeof(body) - 1);
    } while (k < 0 && clock_seconds() < end);
    assert_true(k >= 0);
    body[k] = 0;
}

static void requests_that_come_too_slowly_are_ended(void **state)
{
    static const char *const begin[] = {
        "GET /x HTTP/1.1\r\nHost: x\r\nA: ",
        "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n"};

    for (int i = 0; i < 3; i++) {
        int fd = connect_to();

        put_text(fd, begin[i]);
        drip(fd);
        assert_non_null(strstr(body, "HTTP/1.1 408"));
        close(fd);
    }
    assert_int_equal(n_handled, 0);
}

/* The limit holds for a request that has begun and stalls, and not for a slow answer. */
static void a_request_that_stands_still_is_ended(void **state)
{
    static const char *const begin[] = {
        "GET /x HTTP/1.1\r\nHost: x\r\nA: ",
        "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\nabc",
        "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n"};
    int other = connect_to();
    double end;

    put_text(other, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < 3; i++) {
        int fd = connect_to();

        put_text(fd, begin[i]);
        for (end = clock_seconds() + 60; clock_seconds() < end && !*got(fd);)
            usleep(5000);
        assert_non_null(strstr(body, "HTTP/1.1 408"));
        close(fd);
    }
    assert_int_equal(n_handled, 1);
    server_reply(held, 200, "", "text/plain", "", 0);
    assert_non_null(strstr(got(other), "HTTP/1.1 200"));
    close(other);
}

/* These bytes arrived while the previous request was computed. */
static void the_time_to_stand_still_begins_behind_the_answer_in_front(void **state)
{
    int fd = connect_to();
    double begin;

    put_text(
        fd, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\nPOST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na");
    usleep(600000);
    begin = clock_seconds();
    server_reply(held, 200, "", "text/plain", "", 0);
    while (!strstr(got(fd), "HTTP/1.1 408") && clock_seconds() < begin + 60)
        usleep(5000);
    assert_non_null(strstr(body, "HTTP/1.1 408"));
    assert_true(clock_seconds() - begin >= 0.2);
    close(fd);
}

/* Sends a request for PATH with the head of a body of N bytes, in chunks or not. Returns the socket. */
static int announce(const char *path, int n, bool chunked)
{
    char text[200];
    int fd = connect_to();

    snprintf(text, sizeof(text),
             chunked ? "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n"
                     : "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
             path, n);
    put_text(fd, text);
    return fd;
}

/* ---- slow bodies, on a clock of the test ---- */

enum { MIB = 1 << 20 };

static double now_s;
static char mib[MIB];

static double seconds(void)
{
    return now_s;
}

/* The client is the path without the slash. */
static uint32_t client_of(void *ctx, const struct http_head *h, const char *peer)
{
    assert_string_equal(peer, "local");
    return (uint32_t)atoi(h->path + 1);
}

/* Bodies of up to 8 MiB, and 16 MiB of all of them. */
static int open_on_clock(void **state)
{
    const struct server_options o = {.max_body_bytes = 8 * MIB,
                                     .max_bodies_bytes = 16 * MIB,
                                     .handle = handle,
                                     .wants_body = wants_body,
                                     .client = client_of,
                                     .gone = gone,
                                     .drained = drained,
                                     .woken = woken,
                                     .refusal = refusal,
                                     .seconds = seconds};

    n_handled = n_gone = n_drained = 0;
    now_s = 1000;
    return server_open(&server, &o, NULL);
}

/* Lets S seconds pass, and the server notice it. */
static void pass(double s)
{
    int before = n_woken;

    now_s += s;
    while (n_woken == before) {
        server_poll(server);
        usleep(1000);
    }
}

/* Sends N MiB in pieces of one MiB. */
static void put_mib(int fd, int n)
{
    for (int i = 0; i < n; i++)
        put(fd, mib, MIB);
}

/* The time limit starts anew with each MiB; a body that came fast has no more time for its rest. */
static void each_mib_has_the_time_of_a_request(void **state)
{
    int fd = announce("/1", 8 * MIB, false);

    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) { /* 27 of 30 seconds, with 9 of 10 without progress */
            now_s += 9;
            put(fd, mib, MIB / 4);
        }
        pass(2);
        assert_string_equal(got(fd), "");
        put(fd, mib, MIB / 4);
    }
    put_mib(fd, 3);
    for (int k = 0; k < 3; k++) {
        now_s += 9.5;
        put(fd, mib, SERVER_PACE_BYTES);
    }
    pass(0);
    assert_string_equal(got(fd), "");
    pass(1.6);
    assert_non_null(strstr(got(fd), "HTTP/1.1 408"));
    assert_int_equal(server_bodies_bytes(server), 0);
    close(fd);
    assert_int_equal(n_handled, 0);
}

/* Single bytes are progress of a body that has just begun, and not of one whose first MiB has arrived. */
static void a_large_body_that_dribbles_stands_still(void **state)
{
    for (int large = 0; large < 2; large++) {
        int fd = announce("/1", 8 * MIB, false);

        put(fd, mib, large ? MIB : MIB - 1000);
        for (int k = 0; k < 2; k++) {
            now_s += 6;
            put(fd, mib, 1);
        }
        pass(0);
        assert_int_equal(strstr(got(fd), "HTTP/1.1 408") != NULL, large);
        close(fd);
        got(fd);
    }
}

/* A client that reads the answer only when it has sent all of a body that is too large gets it, but may not take longer
 * than a request. */
static void a_refused_client_may_send_all_of_its_request(void **state)
{
    int fd = announce("/1", 9 * MIB, false);

    for (int i = 0; i < 9; i++) {
        put(fd, mib, MIB);
        pass(1.5);
        assert_int_equal(server_n_connections(server), 1);
    }
    assert_non_null(strstr(got(fd), "HTTP/1.1 413"));
    pass(2.5);
    assert_int_equal(server_n_connections(server), 0);
    close(fd);
    fd = announce("/1", 9 * MIB, false);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(server_n_connections(server), 1);
        assert_int_equal(write(fd, "a", 1), 1);
        pass(1.5);
    }
    pass(0.5);
    assert_int_equal(server_n_connections(server), 0);
    close(fd);
}

/* One client does not get more than three quarters of all bytes, unless it has no other body. */
static void a_client_leaves_bytes_of_bodies_to_others(void **state)
{
    int one = announce("/1", 8 * MIB, false), two = announce("/1", 6 * MIB, false), other;

    put_mib(one, 7);
    put_mib(two, 4); /* 11 of 12 */
    other = announce("/1", MIB + 1, false);
    assert_non_null(strstr(got(other), "HTTP/1.1 503"));
    close(other);
    other = announce("/1", MIB, false);
    assert_string_equal(got(other), "");
    put(other, mib, MIB - 1);
    put(two, mib, 100); /* The bytes of the other body were first. */
    assert_non_null(strstr(got(two), "HTTP/1.1 503"));
    close(two);
    close(other);
    got(one);
    assert_int_equal(server_bodies_bytes(server), 7 * MIB);
    other = announce("/2", 8 * MIB, false);
    put_mib(other, 8);
    assert_non_null(strstr(got(other), "HTTP/1.1 200"));
    close(other);
    close(one);
    got(one);
    assert_int_equal(server_bodies_bytes(server), 0);
}

/* A body of which nothing came for a second makes room, if another needs it. */
static void slow_bodies_make_room(void **state)
{
    int one = announce("/1", 8 * MIB, false), two = announce("/2", 8 * MIB, false), other;

    put_mib(one, 7);
    now_s += 0.5;
    put_mib(two, 7);
    now_s += 0.4;
    other = announce("/3", 3 * MIB, false); /* Nobody is slow. */
    assert_non_null(strstr(got(other), "HTTP/1.1 503"));
    close(other);
    now_s += 0.2;
    put(two, mib, 10);
    other = announce("/3", 2 * MIB - 20, false); /* There is room. */
    assert_string_equal(got(one), "");
    close(other);
    other = announce("/3", 3 * MIB, false);
    assert_non_null(strstr(got(one), "HTTP/1.1 408"));
    assert_string_equal(got(two), "");
    put_mib(other, 3);
    assert_non_null(strstr(got(other), "HTTP/1.1 200"));
    close(other);
    close(one);

    other = announce("/1", MIB, false);
    put(other, mib, MIB - 1);
    now_s += 0.5;
    put(two, mib, SERVER_PACE_BYTES);
    now_s += 2;
    one = announce("/2", 7 * MIB, false); /* The share of client 2 is used up: only its own body is ended. */
    assert_non_null(strstr(got(two), "HTTP/1.1 408"));
    assert_string_equal(got(other), "");
    close(one);
    close(two);
    close(other);
    got(one);
    assert_int_equal(server_bodies_bytes(server), 0);
}

static void connections_without_a_request_are_closed(void **state)
{
    for (int asked = 0; asked < 2; asked++) {
        double end = clock_seconds() + 300;
        int fd = connect_to();

        if (asked) {
            put_text(fd, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
            assert_non_null(strstr(got(fd), "HTTP/1.1 200"));
        }
        while (!is_closed(fd) && clock_seconds() < end)
            usleep(5000);
        assert_true(is_closed(fd));
        close(fd);
    }
    assert_int_equal(server_n_connections(server), 0);
}

static void a_client_that_takes_nothing_is_cut_off(void **state)
{
    double end = clock_seconds() + 300;
    int fd = connect_to();

    put_text(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < 20; i++)
        server_send(held, body, sizeof(body));
    while (!n_gone && clock_seconds() < end) {
        server_poll(server);
        usleep(5000);
    }
    assert_int_equal(n_gone, 1);
    assert_int_equal(server_n_connections(server), 0);
    close(fd);
}

/* A refusal is a sentence in JSON, after which the connection is closed. */
static void check_refusal(const char *text, const char *status)
{
    int fd = connect_to();
    char wanted[32];

    put_text(fd, text);
    snprintf(wanted, sizeof(wanted), "HTTP/1.1 %s ", status);
    assert_non_null(strstr(got(fd), wanted));
    assert_non_null(strstr(body, "Connection: close\r\n"));
    assert_string_equal(body + strlen(body) - 3, status);
    assert_true(is_closed(fd));
    close(fd);
}

static void empty_lines_before_a_request_are_passed_over(void **state)
{
    static const char text[] = "\r\n\r\nPOST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc\r\n";
    int fd = connect_to();

    put_text(fd, text);
    assert_string_equal(got(fd), answer);
    for (size_t i = 0; i < sizeof(text) - 1; i++)
        put(fd, text + i, 1);
    assert_string_equal(got(fd), answer);
    close(fd);
    check_refusal("\nGET /x HTTP/1.1\r\nHost: x\r\n\r\n", "400");
    check_refusal("\rGET /x HTTP/1.1\r\nHost: x\r\n\r\n", "400");
}

static void limits_are_kept(void **state)
{
    char text[2000];

    for (int more = 0; more < 2; more++) { /* the longest head, and one byte more */
        int fd = connect_to();
        int n = snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: x\r\nA: ");

        memset(text + n, 'a', 1000 - 4 - (size_t)n + (size_t)more);
        memcpy(text + 1000 - 4 + more, "\r\n\r\n", 5);
        put_text(fd, text);
        assert_non_null(strstr(got(fd), more ? "HTTP/1.1 431" : "HTTP/1.1 200"));
        close(fd);
    }
    check_refusal("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 50001\r\n\r\n", "413");
    check_refusal("POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nC351\r\n", "413");
}

/* A line that ends with LF alone is refused at once, and so is another control character. */
static void lines_between_chunks_end_with_cr_lf(void **state)
{
    static const char *const wrong[] = {"1\n",
                                        "1\na\r\n",
                                        "1\r\na\n",
                                        "1\r\na\r\n0\n",
                                        "1\r\na\r\n0\r\n\n",
                                        "1\r\na\r\n0\r\nX: y\nGET / HTTP/1.1\r\n\r\n",
                                        "1\r\na\r\n0\r\nX: \x01\r\n\r\n",
                                        "1\rx\r\n",
                                        "1;\x7f\r\n",
                                        "\r\n"};
    char text[200];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        snprintf(text, sizeof(text), "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%s",
                 wrong[i]);
        check_refusal(text, "400");
    }
    assert_int_equal(n_handled, 0);
}

/* Chunks together are limited like one, and so are the lines around them, which are no part of the body. */
static void what_surrounds_chunks_is_limited(void **state)
{
    static const char head[] = "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    static char text[60000];
    int n = snprintf(text, sizeof(text), "%s7530\r\n", head);

    memset(text + n, 'a', 30000);
    strcpy(text + n + 30000, "\r\n4E21\r\n"); /* 30000 and 20001 bytes, of 50000 */
    check_refusal(text, "413");
    n = snprintf(text, sizeof(text), "%s1;", head);
    memset(text + n, 'a', 256);
    text[n + 256] = 0;
    check_refusal(text, "400");
    n = snprintf(text, sizeof(text), "%s0\r\n", head);
    for (int i = 0; i < 50; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "T: %0200d\r\n", i);
    check_refusal(text, "431");
}

/* What a refused client still sends is read, so that it can read the refusal, but not without end. */
static void a_refused_client_that_goes_on_sending_is_cut_off(void **state)
{
    size_t sent = 0;
    int fd = connect_to();
    ssize_t k = 0;

    put_text(fd, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 50001\r\n\r\n");
    while ((k >= 0 || errno == EAGAIN) && sent < 4 << 20) {
        k = write(fd, body, sizeof(body));
        sent += k > 0 ? (size_t)k : 0;
        server_poll(server);
    }
    assert_true(sent > 128 << 10 && sent < 4 << 20);
    assert_int_equal(server_n_connections(server), 0);
    close(fd);
}

static void the_largest_body_is_taken(void **state)
{
    static char text[50100];
    int n = snprintf(text, sizeof(text), "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n"),
        fd = connect_to();

    memset(text + n, 'a', 50000);
    put(fd, text, (size_t)n + 50000);
    assert_int_equal(n_handled, 1);
    assert_non_null(strstr(got(fd), "HTTP/1.1 200"));
    close(fd);
}

/* There is room for two of the largest bodies. Bytes that have arrived count until their request is answered,
 * the body is taken, or the client disconnects. */
static void bodies_share_what_there_is(void **state)
{
    static char bytes[50000];

    for (int chunked = 0; chunked < 2; chunked++) {
        int one = announce("/x", 50000, chunked), two = announce("/x", 50000, chunked), third;

        assert_int_equal(server_bodies_bytes(server), 0); /* Nothing has arrived. */
        put(one, bytes, 49999);
        put(two, bytes, 49999 - SERVER_SMALL_BODY);
        assert_int_equal(server_bodies_bytes(server), 99998 - SERVER_SMALL_BODY);
        third = announce("/x", SERVER_SMALL_BODY + 3, chunked); /* This is one byte too many. */
        assert_non_null(strstr(got(third), "HTTP/1.1 503"));
        assert_non_null(strstr(body, "Retry-After: 1\r\n"));
        assert_true(is_closed(third));
        close(third);
        third = announce("/x", SERVER_SMALL_BODY + 2, chunked);
        assert_string_equal(got(third), "");
        put(two, bytes, SERVER_SMALL_BODY); /* Now the other client is faster. */
        put(third, bytes, SERVER_SMALL_BODY + 1);
        assert_non_null(strstr(got(third), "HTTP/1.1 503"));
        close(third);
        third = announce("/x", SERVER_SMALL_BODY, chunked); /* This body is small. */
        put(third, bytes, SERVER_SMALL_BODY - 1);
        assert_string_equal(got(third), "");
        close(third);
        close(one);
        close(two);
        got(two);
        assert_int_equal(server_bodies_bytes(server), 0);
    }
}

static void a_body_that_was_taken_counts_until_it_is_released(void **state)
{
    static char bytes[20000];
    struct buf taken;
    struct server_body_bytes counted;
    int fd = announce("/hold", sizeof(bytes), false);

    put(fd, bytes, sizeof(bytes));
    assert_non_null(held);
    counted = server_take_body(held, &taken);
    assert_int_equal(counted.n, sizeof(bytes));
    assert_int_equal(taken.len, sizeof(bytes));
    server_reply(held, 200, "", "text/plain", "a", 1);
    assert_non_null(strstr(got(fd), "HTTP/1.1 200"));
    assert_int_equal(server_bodies_bytes(server), sizeof(bytes));
    server_release_body(server, counted);
    assert_int_equal(server_bodies_bytes(server), 0);
    buf_fini(&taken);
    close(fd);
}

/* The length is announced, or the body is in chunks. A small body is still read, and the connection stays
 * open. */
static void a_body_that_nobody_wants_is_not_awaited(void **state)
{
    static const char head[] = "POST /unwanted HTTP/1.1\r\nHost: x\r\n",
                      expects[] = "Expect: 100-continue\r\n";
    char text[200];

    for (int more = 0; more < 2; more++)
        for (int chunked = 0; chunked < 2; chunked++) {
            int fd = connect_to(), n = SERVER_SMALL_BODY + more;

            n_handled = 0;
            snprintf(text, sizeof(text),
                     chunked ? "%sTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n%x\r\n"
                             : "%sContent-Length: %d\r\n\r\n",
                     head, n - chunked);
            put_text(fd, text);
            assert_int_equal(n_handled, more);
            if (more) {
                assert_non_null(strstr(got(fd), "Connection: close\r\n"));
                assert_true(is_closed(fd));
            }
            close(fd);
        }
    for (int wanted = 0; wanted < 2; wanted++) {
        int fd = connect_to();

        snprintf(text, sizeof(text), "%s%sContent-Length: 50000\r\n\r\n",
                 wanted ? "POST /x HTTP/1.1\r\nHost: x\r\n" : head, expects);
        put_text(fd, text);
        assert_int_equal(strncmp(got(fd), "HTTP/1.1 100", 12) == 0, wanted);
        close(fd);
    }
}

static void a_client_is_told_to_go_on(void **state)
{
    int fd = connect_to();

    put_text(fd, "POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_string_equal(got(fd), "HTTP/1.1 100 Continue\r\n\r\n");
    put_text(fd, "abc");
    assert_string_equal(got(fd), answer);
    /* A client that did not wait for it is not told. */
    put_text(fd, "POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc");
    assert_string_equal(got(fd), answer);
    close(fd);
}

static void a_drain_ends_connections(void **state)
{
    int busy = connect_to(), idle = connect_to(), fresh = connect_to();

    put_text(idle, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    got(idle);
    put_text(busy, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    server_drain(server);
    assert_true(is_closed(idle));
    server_reply(held, 200, "", "text/plain", "a", 1);
    assert_non_null(strstr(got(busy), "Connection: close\r\n"));
    assert_false(is_closed(fresh)); /* Its request may be on the way. */
    put_text(fresh, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_non_null(strstr(got(fresh), "Connection: close\r\n"));
    assert_true(is_closed(fresh));
    close(busy);
    close(idle);
    close(fresh);
}

/* Requests an answer of N bytes, more than a socket takes, and returns the connection after reading *TOOK
 * bytes of it. */
static int ask_for_much(size_t n, size_t *took)
{
    char *text = malloc(n + 100);
    int fd = connect_to(),
        head = snprintf(text, 100, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", n);
    ssize_t k;

    memset(text + head, 'a', n);
    put(fd, text, (size_t)head + n);
    free(text);
    assert_int_equal(n_handled, 1);
    k = read(fd, body, 1000); /* The rest is read later. */
    assert_true(k > 0);
    *took = (size_t)k;
    return fd;
}

/* Reads the rest of an answer of N bytes with its head, after TOOK bytes were read before. */
static void read_rest(int fd, size_t n, size_t took)
{
    double end = clock_seconds() + 300;

    while (took <= n && clock_seconds() < end) {
        ssize_t k = read(fd, body, sizeof(body));

        assert_int_not_equal(k, 0); /* The drain ends before its time. */
        took += k > 0 ? (size_t)k : 0;
        server_poll(server);
    }
    assert_true(took > n);
    close(fd);
}

/* A complete answer is written to its end, also if its client reads slowly. */
static void a_drain_leaves_answers_their_end(void **state)
{
    size_t took;
    int fd = ask_for_much(8 << 20, &took);

    server_drain(server);
    assert_int_equal(server_n_connections(server), 1);
    read_rest(fd, 8 << 20, took);
}

/* The time between two requests begins when the answer to the first one is written. */
static void the_time_to_ask_again_begins_behind_the_answer(void **state)
{
    double end = clock_seconds() + 3 * patient; /* The steps are much shorter. */
    size_t took;
    int fd = ask_for_much(8 << 20, &took);

    while (clock_seconds() < end) {
        ssize_t k = read(fd, body, 50000);

        assert_int_not_equal(k, 0);
        took += k > 0 ? (size_t)k : 0;
        for (int i = 0; i < 4; i++)
            server_poll(server);
        usleep(20000);
    }
    read_rest(fd, 8 << 20, took);
}

/* ---- listening ---- */

static int connect_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    at.sin_port = htons((uint16_t)atoi(strrchr(server_address(server), ':') + 1));
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void one_connection_too_many_is_turned_away(void **state)
{
    int first, second;

    server_close(server);
    assert_int_equal(open_with(NULL, 1), 0);
    first = connect_port();
    while (server_n_connections(server) == 0)
        server_poll(server);
    second = connect_port();
    for (double end = clock_seconds() + 60; !*got(second) && clock_seconds() < end;)
        usleep(1000);
    assert_non_null(strstr(body, "HTTP/1.1 503"));
    assert_non_null(strstr(body, "Retry-After: 1\r\n"));
    assert_int_equal(server_n_connections(server), 1);
    put_text(first, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    for (double end = clock_seconds() + 60; !*got(first) && clock_seconds() < end;)
        usleep(1000);
    assert_non_null(strstr(body, "HTTP/1.1 200"));
    close(first);
    close(second);
}

static void only_addresses_of_this_machine_are_local(void **state)
{
    static const struct {
        const char *at;
        bool local;
    } cases[] = {
        {"127.0.0.1", true},        {"127.9.9.9", true}, {"0.0.0.0", false},         {"::1", true},
        {"::ffff:127.0.0.1", true}, {"::", false},       {"::ffff:0.0.0.0", false},  {"126.255.0.1", false},
        {"128.0.0.1", false},       {"::2", false},      {"::ffff:128.0.0.1", false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool is_v6 = strchr(cases[i].at, ':') != NULL;
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0), zero = 0;

        if (is_v6 && fd < 0) /* a machine without IPv6 */
            continue;
        assert_true(fd >= 0);
        inet_pton(is_v6 ? AF_INET6 : AF_INET, cases[i].at, is_v6 ? (void *)&v6.sin6_addr : &v4.sin_addr);
        assert_int_equal(server_is_loopback(is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4),
                         cases[i].local);
        if (is_v6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
        if (bind(fd, is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4,
                 is_v6 ? sizeof(v6) : sizeof(v4)) == 0)
            assert_int_equal(server_is_local(fd), cases[i].local);
        else
            assert_true(is_v6 || !cases[i].local);
        close(fd);
    }
}

/* A socket that nobody listens at is replaced; that of another server is not, also if it is too busy to take a
 * connection. */
static void the_socket_of_another_server_is_not_taken(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char folder[] = "/tmp/gallop-socket-XXXXXX", path[200];
    int fd, more, clients[64], n = 0;
    struct err e;

    assert_non_null(mkdtemp(folder));
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", folder);
    assert_int_equal(server_listen_path(at.sun_path, &fd, &e), 0);
    assert_int_equal(server_listen_path(at.sun_path, &more, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "another server listens on"));
    close(fd);
    assert_int_equal(server_listen_path(at.sun_path, &fd, &e), 0);
    close(fd);
    unlink(at.sun_path);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 0), 0);
    do
        clients[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    while (connect(clients[n++], (struct sockaddr *)&at, sizeof(at)) == 0 && n < 64);
    assert_true(n < 64);
    assert_int_equal(server_listen_path(at.sun_path, &more, &e), ERR_INPUT);
    while (n)
        close(clients[--n]);
    close(fd);
    unlink(at.sun_path);
    memset(path, 'a', sizeof(at.sun_path));
    path[sizeof(at.sun_path)] = 0;
    assert_int_equal(server_listen_path(path, &more, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "at most 107"));
    rmdir(folder);
}

/* If any of our allocations fails, the request is answered or its connection closes, and nothing leaks. */
static void memory_that_runs_out_is_a_refusal(void **state)
{
    for (long n = 1; n < 30; n++) {
        int fd[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
        fcntl(fd[0], F_SETFL, O_NONBLOCK);
        mem_fail_at(n);
        if (server_adopt(server, fd[1], NULL) == 0) {
            put_text(fd[0], "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
            got(fd[0]);
            assert_true(strncmp(body, "HTTP/1.1 200", 12) == 0 || strncmp(body, "HTTP/1.1 503", 12) == 0);
        }
        mem_fail_at(0);
        close(fd[0]);
        server_poll(server);
        server_poll(server);
    }
    assert_int_equal(server_n_connections(server), 0);
}

int main(void)
{
#define TEST(name)          cmocka_unit_test_setup_teardown(name, open_server, close_server)
#define TEST_STALLS(name)   cmocka_unit_test_prestate_setup_teardown(name, open_server, close_server, &stalls)
#define TEST_HASTY(name)    cmocka_unit_test_prestate_setup_teardown(name, open_server, close_server, &hasty)
#define TEST_PATIENT(name)  cmocka_unit_test_prestate_setup_teardown(name, open_server, close_server, &patient)
#define TEST_ON_CLOCK(name) cmocka_unit_test_setup_teardown(name, open_on_clock, close_server)
    const struct CMUnitTest tests[] = {TEST(a_request_in_pieces_is_one),
                                       TEST(chunks_make_a_body),
                                       TEST(bytes_that_are_given_are_sent_and_let_go_of),
                                       TEST(a_short_request_may_follow_a_long_one_in_pieces),
                                       TEST(many_requests_at_once_are_answered_in_order),
                                       TEST(a_stream_is_cut_into_chunks),
                                       TEST(an_older_client_is_told_that_the_connection_stays),
                                       TEST(a_client_that_leaves_is_seen),
                                       TEST(who_leaves_within_a_request_has_asked_nothing),
                                       TEST(who_sends_ahead_is_held_back),
                                       TEST(who_leaves_is_seen_although_it_is_not_read),
                                       TEST(who_stops_sending_is_seen_although_its_stream_is_full),
                                       TEST(a_head_with_bare_line_ends_is_refused_at_once),
                                       TEST_STALLS(a_request_that_stands_still_is_ended),
                                       TEST(who_reads_nothing_fills_no_memory),
                                       TEST(who_only_stops_sending_gets_what_is_answered),
                                       TEST_STALLS(the_time_to_stand_still_begins_behind_the_answer_in_front),
                                       TEST_HASTY(requests_that_come_too_slowly_are_ended),
                                       TEST_HASTY(connections_without_a_request_are_closed),
                                       TEST_HASTY(a_client_that_takes_nothing_is_cut_off),
                                       TEST(limits_are_kept),
                                       TEST(what_surrounds_chunks_is_limited),
                                       TEST(lines_between_chunks_end_with_cr_lf),
                                       TEST(a_refused_client_that_goes_on_sending_is_cut_off),
                                       TEST(one_connection_too_many_is_turned_away),
                                       TEST(only_addresses_of_this_machine_are_local),
                                       TEST(the_socket_of_another_server_is_not_taken),
                                       TEST_ON_CLOCK(each_mib_has_the_time_of_a_request),
                                       TEST_ON_CLOCK(a_large_body_that_dribbles_stands_still),
                                       TEST_ON_CLOCK(a_refused_client_may_send_all_of_its_request),
                                       TEST_ON_CLOCK(a_client_leaves_bytes_of_bodies_to_others),
                                       TEST_ON_CLOCK(slow_bodies_make_room),
                                       TEST(empty_lines_before_a_request_are_passed_over),
                                       TEST(the_largest_body_is_taken),
                                       TEST(a_body_that_nobody_wants_is_not_awaited),
                                       TEST(bodies_share_what_there_is),
                                       TEST(a_body_that_was_taken_counts_until_it_is_released),
                                       TEST(a_client_is_told_to_go_on),
                                       TEST(a_drain_ends_connections),
                                       TEST_PATIENT(a_drain_leaves_answers_their_end),
                                       TEST_PATIENT(the_time_to_ask_again_begins_behind_the_answer),
                                       TEST(memory_that_runs_out_is_a_refusal)};

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
