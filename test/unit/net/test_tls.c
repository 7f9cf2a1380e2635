/* test_tls.c - TLS connections, over pairs of sockets, where they could differ from plain ones: full sockets,
 * ends and truncations, clients that disconnect or read nothing, time limits, memory. */
#include "net/tls/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "files.h"
#include "net/server.h"

static struct server *server;
static struct tls *tls;
static SSL_CTX *clients;
static struct server_exchange *held; /* of /hold and /stream */
static int n_handled, n_gone;
/* the sockets of clients that began a handshake, and of those that were answered */
static int crowd[20], n_greeted;
static char body[4 << 20];
static char hasty_requests[] = "requests", hasty_writes[] = "writes"; /* what must be done in 0.2 s */
static char known_clients[] = "clients"; /* only clients with a certificate are served */

static int count_greeted(void)
{
    int n = 0;

    for (size_t i = 0; i < sizeof(crowd) / sizeof(crowd[0]); i++) {
        int bytes = 0;

        n += crowd[i] && ioctl(crowd[i], FIONREAD, &bytes) == 0 && bytes > 0;
    }
    return n;
}

static void handle(void *ctx, struct server_exchange *x)
{
    const char *path = server_head(x)->path;
    size_t n;

    n_handled++;
    n_greeted = count_greeted();
    if (strcmp(path, "/hold") == 0) {
        held = x;
    } else if (strcmp(path, "/stream") == 0) {
        held = x;
        server_begin(x, 200, "", "text/plain");
    } else {
        const char *bytes = server_body(x, &n);

        server_reply(x, 200, "", "text/plain", bytes, n);
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
}

static void woken(void *ctx)
{
}

static size_t refusal(void *ctx, int status, const char *why, char *out, size_t size)
{
    return (size_t)snprintf(out, size, "%d", status);
}

/* Makes a certificate for two days, signed by its own key, as the files own.pem and own.key. */
static int make_certificate(void **state)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    FILE *out;

    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -86400);
    X509_gmtime_adj(X509_getm_notAfter(x), 86400);
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)"own", -1,
                               -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    X509_sign(x, key, EVP_sha256());
    umask(077);
    out = fopen("own.pem", "w");
    PEM_write_X509(out, x);
    fclose(out);
    out = fopen("own.key", "w");
    PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);
    fclose(out);
    X509_free(x);
    EVP_PKEY_free(key);
    clients = SSL_CTX_new(TLS_client_method());
    return clients == NULL;
}

static int forget_certificate(void **state)
{
    SSL_CTX_free(clients);
    return 0;
}

static int open_server(void **state)
{
    const bool known = *state == known_clients;
    const struct tls_options files = {.certificate = "own.pem",
                                      .key = "own.key",
                                      .authorities = known ? "own.pem" : NULL,
                                      .clients = known ? TLS_CLIENTS_PROVEN : TLS_CLIENTS_ANY};
    struct server_options o = {.request_s = *state == hasty_requests ? 0.2 : 0,
                               .write_s = *state == hasty_writes ? 0.2 : 0,
                               .handle = handle,
                               .gone = gone,
                               .drained = drained,
                               .woken = woken,
                               .refusal = refusal};

    n_handled = n_gone = 0;
    held = NULL;
    if (tls_open(&tls, &files, NULL) != 0)
        return -1;
    o.tls = tls;
    return server_open(&server, &o, NULL);
}

static int close_server(void **state)
{
    server_close(server);
    tls_close(tls);
    return mem_tag_bytes(MEM_NET) != 0;
}

/* ---- clients ---- */

struct client {
    int fd;
    SSL *ssl;
};

static int connect_to(void)
{
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    assert_int_equal(server_adopt(server, fd[1], NULL), 0);
    return fd[0];
}

static void poll_server(void)
{
    for (int i = 0; i < 4; i++)
        server_poll(server);
}

/* Returns a client whose handshake is complete. */
static struct client join(void)
{
    struct client c = {.fd = connect_to(), .ssl = SSL_new(clients)};

    SSL_set_fd(c.ssl, c.fd);
    SSL_set_mode(c.ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    for (int i = 0; i < 100 && SSL_connect(c.ssl) != 1; i++)
        poll_server();
    assert_true(SSL_is_init_finished(c.ssl));
    poll_server();
    return c;
}

static void leave(struct client *c)
{
    SSL_free(c->ssl);
    close(c->fd);
    poll_server();
}

static void put(struct client *c, const char *bytes, size_t n)
{
    double end = clock_seconds() + 300;

    while (n && clock_seconds() < end) {
        int k = SSL_write(c->ssl, bytes, (int)(n < 1 << 20 ? n : 1 << 20));

        bytes += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
        poll_server();
    }
    assert_int_equal(n, 0);
}

static void put_text(struct client *c, const char *text)
{
    put(c, text, strlen(text));
}

/* Reads from C into `body` until WANTED bytes have arrived or the connection ends, at most PIECE at a time.
 * *END: SSL_ERROR_NONE, SSL_ERROR_ZERO_RETURN (the server sent close_notify), or another. */
static size_t take(struct client *c, size_t wanted, int piece, int *end)
{
    double until_s = clock_seconds() + 300;
    size_t n = 0;

    *end = SSL_ERROR_NONE;
    while (n < wanted && clock_seconds() < until_s) {
        int k, room = (int)(sizeof(body) - 1 - n);

        ERR_clear_error();
        k = SSL_read(c->ssl, body + n, room < piece ? room : piece);
        *end = k > 0 ? SSL_ERROR_NONE : SSL_get_error(c->ssl, k);
        n += k > 0 ? (size_t)k : 0;
        if (*end != SSL_ERROR_NONE && *end != SSL_ERROR_WANT_READ)
            break;
        server_poll(server);
    }
    body[n] = 0;
    return n;
}

/* ---- full sockets ---- */

#define DATE "Date: Fri, 27 Nov 2026 07:25:47 GMT\r\n"

static char letter(size_t i)
{
    return (char)('a' + (i * 2654435761u >> 7) % 26);
}

static char *letters(size_t n)
{
    char *text = malloc(n);

    for (size_t i = 0; i < n; i++)
        text[i] = letter(i);
    return text;
}

static void bodies_of_any_size_come_whole(void **state)
{
    static const size_t sizes[] = {1, 16383, 16384, 16385, 100000, 3000000},
                        dated = sizeof("HTTP/1.1 200 OK\r\n") - 1;
    char head[200], *text = letters(3000000);
    int end;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct client c = join();
        int length = snprintf(
            head, sizeof(head),
            "HTTP/1.1 200 OK\r\n" DATE "Content-Type: text/plain\r\nContent-Length: %zu\r\n\r\n", sizes[i]);
        char request[100];

        put(&c, request,
            (size_t)snprintf(request, sizeof(request),
                             "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", sizes[i]));
        put(&c, text, sizes[i]);
        assert_int_equal(take(&c, (size_t)length + sizes[i], 5000, &end), (size_t)length + sizes[i]);
        memcpy(head + dated, body + dated, sizeof(DATE) - 1); /* The time has any value. */
        assert_memory_equal(body, head, (size_t)length);
        assert_memory_equal(body + length, text, sizes[i]);
        leave(&c);
    }
    free(text);
}

/* Parts of all sizes are added while earlier ones wait for a client that reads now and then. So the waiting
 * bytes move in memory between two attempts to write them. */
static void streams_come_whole_past_full_sockets(void **state)
{
    struct client c = join();
    size_t sent = 0, n = 0, length;
    char *text = letters(3000000);
    int end;

    put_text(&c, "GET /stream HTTP/1.0\r\n\r\n");
    length = strlen("HTTP/1.1 200 OK\r\n" DATE "Content-Type: text/plain\r\nConnection: close\r\n\r\n");
    assert_int_equal(take(&c, length, 1000, &end), length);
    for (size_t i = 0; sent < 2000000; i++) {
        size_t part = 1 + (i * 2654435761u >> 5) % (i % 50 ? 600 : 60000);

        server_send(held, text + sent, part);
        sent += part;
        if (i % 3 == 0)
            server_poll(server);
        if (i % 7 == 0) {
            int k = SSL_read(c.ssl, body + n, 3000);

            n += k > 0 ? (size_t)k : 0;
        }
    }
    assert_true(server_unsent(held) > 100000); /* or nothing was tried */
    server_end(held);
    assert_memory_equal(body, text, n);
    assert_int_equal(take(&c, SIZE_MAX, 100000, &end), sent - n);
    assert_memory_equal(body, text + n, sent - n);
    assert_int_equal(end, SSL_ERROR_ZERO_RETURN);
    free(text);
    leave(&c);
}

/* If a client sends requests and reads no answers, the server keeps little of either, and in the end the
 * client gets every answer. */
static void who_reads_nothing_fills_no_memory(void **state)
{
    static const char text[] = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n";
    size_t n = sizeof(text) - 1 + 20000, most = 400 * n, sent = 0, idle = 0, bytes;
    char *requests = malloc(most);
    struct client c = join();
    int end;

    memset(requests, 'a', most);
    for (size_t i = 0; i < most; i += n)
        memcpy(requests + i, text, sizeof(text) - 1);
    while (sent < most && idle < 20) {
        int k = SSL_write(c.ssl, requests + sent, (int)(most - sent < 100000 ? most - sent : 100000));

        sent += k > 0 ? (size_t)k : 0;
        idle = k > 0 ? 0 : idle + 1;
        server_poll(server);
    }
    assert_true(sent < most / 4);
    n = sent / n *
        (20000 +
         strlen("HTTP/1.1 200 OK\r\n" DATE "Content-Type: text/plain\r\nContent-Length: 20000\r\n\r\n"));
    for (bytes = 0; bytes < n;) {
        size_t k = take(&c, 1, 16384, &end);

        assert_true(k > 0);
        bytes += k;
    }
    assert_int_equal(bytes, n);
    free(requests);
    leave(&c);
}

/* ---- ends ---- */

/* The event that an answer is written may arrive when the last answer of the connection is already
 * waiting. */
static void a_refusal_behind_an_answer_comes_whole(void **state)
{
    static const char good[] = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n", bad[] = "nonsense\r\n\r\n";

    for (int polls = 0; polls < 8; polls++) {
        struct client c = join();
        int end;

        assert_int_equal(SSL_write(c.ssl, good, sizeof(good) - 1), sizeof(good) - 1);
        for (int i = 0; i < polls; i++)
            server_poll(server);
        assert_int_equal(SSL_write(c.ssl, bad, sizeof(bad) - 1), sizeof(bad) - 1);
        poll_server();
        take(&c, SIZE_MAX, 1000, &end);
        assert_non_null(strstr(body, "HTTP/1.1 200 OK\r\n"));
        assert_non_null(strstr(body, "HTTP/1.1 400 Bad Request\r\n"));
        assert_string_equal(body + strlen(body) - 7, "\r\n\r\n400");
        assert_int_equal(end, SSL_ERROR_ZERO_RETURN);
        leave(&c);
    }
}

/* Only close_notify distinguishes an answer that ends with its connection from a truncated one. So it must be
 * sent even if the socket has no room for it after the last byte. */
static void every_stream_ends_properly(void **state)
{
    int end;

    for (size_t n = 140000; n < 300000; n += 2000) {
        struct client c = join();

        put_text(&c, "GET /stream HTTP/1.0\r\n\r\n");
        for (size_t sent = 0; sent < n; sent += 1000)
            server_send(held, body, 1000);
        server_end(held);
        poll_server();
        assert_true(take(&c, SIZE_MAX, 100000, &end) > n);
        assert_int_equal(end, SSL_ERROR_ZERO_RETURN);
        leave(&c);
    }
}

static void a_cut_is_no_end(void **state)
{
    struct client c = join();
    int end;

    put_text(&c, "GET /stream HTTP/1.0\r\n\r\n");
    server_send(held, "a", 1);
    poll_server();
    server_cut(held);
    take(&c, SIZE_MAX, 1000, &end);
    assert_true(end == SSL_ERROR_SSL || end == SSL_ERROR_SYSCALL);
    leave(&c);
}

static void a_client_that_leaves_is_seen(void **state)
{
    static const char *const paths[] = {"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n",
                                        "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"};

    for (int i = 0; i < 6; i++) {
        struct client c = join();

        put_text(&c, paths[i % 2]);
        assert_non_null(held);
        if (i < 2)
            close(c.fd);
        else if (i < 4)
            shutdown(c.fd, SHUT_WR);
        else
            SSL_shutdown(c.ssl);
        poll_server();
        assert_null(held);
        assert_int_equal(n_gone, i + 1);
        if (i < 2)
            c.fd = -1;
        leave(&c);
    }
    assert_int_equal(server_n_connections(server), 0);
}

/* A client that has closed its direction still gets the answers to its complete requests. */
static void who_stops_sending_gets_what_is_complete(void **state)
{
    char *text = letters(1000000);

    for (int notify = 0; notify < 2; notify++) {
        struct client c = join();
        int end;

        put_text(&c, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
        put(&c, text, 1000000);
        poll_server();
        assert_int_equal(n_handled, notify + 1);
        if (notify)
            SSL_shutdown(c.ssl);
        else
            shutdown(c.fd, SHUT_WR);
        poll_server();
        assert_true(take(&c, SIZE_MAX, 100000, &end) > 1000000);
        assert_non_null(strstr(body, "\r\n\r\n"));
        assert_memory_equal(strstr(body, "\r\n\r\n") + 4, text, 1000000);
        assert_int_equal(end, SSL_ERROR_ZERO_RETURN);
        leave(&c);
    }
    free(text);
}

static void a_drain_ends_connections_properly(void **state)
{
    struct client c = join();
    int end;

    put_text(&c, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(take(&c, 20, 1000, &end) >= 20);
    server_drain(server);
    poll_server();
    take(&c, SIZE_MAX, 1000, &end);
    assert_int_equal(end, SSL_ERROR_ZERO_RETURN);
    leave(&c);
}

/* ---- HTTP without TLS ---- */

static int endless = -1;  /* the socket on which recv() always finds bytes */
static size_t n_received; /* the number of bytes that are available */

/* Replaces the function of the C library. */
ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    if (fd != endless)
        return recvfrom(fd, bytes, n, flags, NULL, NULL);
    n_received += n;
    memset(bytes, 'a', n);
    return n_received < 100 << 20 ? (ssize_t)n : 0; /* An endless loop must fail, and not hang. */
}

/* The input of a client that speaks HTTP without TLS is read before it is answered, within limits. */
static void who_sends_plain_http_without_end_is_cut_off(void **state)
{
    static const char text[] = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n";
    int fd[2];
    ssize_t n;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    n_received = 0;
    endless = fd[1];
    assert_int_equal(server_adopt(server, fd[1], NULL), 0);
    assert_int_equal(write(fd[0], text, sizeof(text) - 1), sizeof(text) - 1);
    poll_server();
    endless = -1;
    n = read(fd[0], body, sizeof(body) - 1);
    assert_true(n > 0);
    body[n] = 0;
    assert_non_null(strstr(body, "HTTP/1.1 400"));
    assert_true(n_received > 100000 && n_received <= 300000);
    assert_int_equal(server_n_connections(server), 0);
    assert_int_equal(server_n_failed_handshakes(server), 1);
    close(fd[0]);
}

/* ---- time and memory ---- */

static void handshakes_that_dawdle_are_ended(void **state)
{
    static const char hello[] = "\x16\x03\x01\x01\x00\x01"; /* the first bytes of a handshake */

    for (size_t n = 0; n < 6; n += 5) {
        double end = clock_seconds() + 300;
        int fd = connect_to();
        char c;

        assert_int_equal(write(fd, hello, n), n);
        while (read(fd, &c, 1) != 0 && clock_seconds() < end) {
            server_poll(server);
            usleep(5000);
        }
        assert_int_equal(read(fd, &c, 1), 0);
        /* A client that sent no byte does not count. */
        assert_int_equal(server_n_failed_handshakes(server), n > 0);
        close(fd);
    }
    assert_int_equal(server_n_connections(server), 0);
}

static void a_client_that_takes_nothing_is_cut_off(void **state)
{
    double end = clock_seconds() + 300;
    struct client c = join();

    put_text(&c, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < 20; i++)
        server_send(held, body, 100000);
    while (!n_gone && clock_seconds() < end) {
        server_poll(server);
        usleep(5000);
    }
    assert_int_equal(n_gone, 1);
    assert_int_equal(server_n_connections(server), 0);
    leave(&c);
}

static void memory_that_runs_out_ends_the_connection(void **state)
{
    for (long n = 1; n < 12; n++) {
        int fd[2], end;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
        fcntl(fd[0], F_SETFL, O_NONBLOCK);
        mem_fail_at(n);
        if (server_adopt(server, fd[1], NULL) == 0) {
            struct client c = {.fd = fd[0], .ssl = SSL_new(clients)};

            SSL_set_fd(c.ssl, c.fd);
            for (int i = 0; i < 100 && SSL_connect(c.ssl) != 1; i++)
                poll_server();
            put_text(&c, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
            take(&c, 12, 1000, &end);
            assert_true(strncmp(body, "HTTP/1.1 200", 12) == 0 || strncmp(body, "HTTP/1.1 503", 12) == 0);
            SSL_free(c.ssl);
        }
        mem_fail_at(0);
        close(fd[0]);
        poll_server();
    }
    assert_int_equal(server_n_connections(server), 0);
}

/* Twenty clients begin a handshake before a connected client sends a request, and all are ready at once: the
 * request is served first, and then the handshakes are done as well. */
static void a_crowd_of_handshakes_is_behind_who_is_connected(void **state)
{
    static const char request[] = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
    enum { N = sizeof(crowd) / sizeof(crowd[0]) };
    struct client one = join();
    SSL *ssl[N];

    for (int i = 0; i < N; i++) {
        crowd[i] = connect_to();
        ssl[i] = SSL_new(clients);
        SSL_set_fd(ssl[i], crowd[i]);
        assert_int_equal(SSL_connect(ssl[i]), -1);
    }
    assert_int_equal(SSL_write(one.ssl, request, sizeof(request) - 1), sizeof(request) - 1);
    n_greeted = -1;
    for (int i = 0; i < 100 && n_greeted < 0; i++)
        server_poll(server);
    assert_int_equal(n_handled, 1);
    assert_int_equal(n_greeted, 0);
    poll_server();
    assert_int_equal(count_greeted(), N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(SSL_connect(ssl[i]), 1);
        SSL_free(ssl[i]);
        close(crowd[i]);
        crowd[i] = 0;
    }
    poll_server();
    leave(&one);
}

/* Whether the handshake of SSL succeeds and a request is answered. Frees SSL. */
static bool is_served(SSL *ssl)
{
    struct client c = {.fd = connect_to(), .ssl = ssl};
    int n = n_handled, end;

    SSL_set_fd(ssl, c.fd);
    for (int i = 0; i < 100 && SSL_connect(ssl) != 1; i++)
        poll_server();
    if (SSL_is_init_finished(ssl) && SSL_write(ssl, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n", 28) == 28)
        take(&c, 12, 12, &end);
    leave(&c);
    return n_handled > n;
}

static void a_client_that_offers_other_protocols_only_is_refused(void **state)
{
    SSL *other = SSL_new(clients), *both = SSL_new(clients);

    SSL_set_alpn_protos(other, (const unsigned char *)"\2h2", 3);
    SSL_set_alpn_protos(both, (const unsigned char *)"\2h2\10http/1.1", 12);
    assert_false(is_served(other));
    assert_int_equal(server_n_failed_handshakes(server), 1);
    assert_true(is_served(both));
}

static void a_client_without_its_certificate_is_refused(void **state)
{
    SSL *unknown = SSL_new(clients), *known = SSL_new(clients);

    assert_int_equal(SSL_use_certificate_file(known, "own.pem", SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_use_PrivateKey_file(known, "own.key", SSL_FILETYPE_PEM), 1);
    assert_false(is_served(unknown));
    assert_int_equal(server_n_failed_handshakes(server), 1);
    assert_true(is_served(known));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_server, close_server)
#define TEST_AS(name, server) \
    cmocka_unit_test_prestate_setup_teardown(name, open_server, close_server, server)
    const struct CMUnitTest tests[] = {TEST(a_crowd_of_handshakes_is_behind_who_is_connected),
                                       TEST(a_client_that_offers_other_protocols_only_is_refused),
                                       TEST_AS(a_client_without_its_certificate_is_refused, known_clients),
                                       TEST(bodies_of_any_size_come_whole),
                                       TEST(streams_come_whole_past_full_sockets),
                                       TEST(who_reads_nothing_fills_no_memory),
                                       TEST(a_refusal_behind_an_answer_comes_whole),
                                       TEST(every_stream_ends_properly),
                                       TEST(a_cut_is_no_end),
                                       TEST(a_client_that_leaves_is_seen),
                                       TEST(who_stops_sending_gets_what_is_complete),
                                       TEST(a_drain_ends_connections_properly),
                                       TEST(who_sends_plain_http_without_end_is_cut_off),
                                       TEST_AS(handshakes_that_dawdle_are_ended, hasty_requests),
                                       TEST_AS(a_client_that_takes_nothing_is_cut_off, hasty_writes),
                                       TEST(memory_that_runs_out_ends_the_connection)};

    signal(SIGPIPE, SIG_IGN);
    files_enter();
    return cmocka_run_group_tests(tests, make_certificate, forget_certificate);
}
