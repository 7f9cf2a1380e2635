/* test_http.c - the HTTP client against a small server in this process: bodies, ranges, redirects, and every
 * allocation failing. */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/http.h"

/* ---- a server: it gives the same answer to every request, and keeps the last request ---- */

static struct {
    int fd;
    pthread_t thread;
    char url[64], request[4096];
    const char *answer;
    size_t answer_len;
} server;

static void *serve(void *arg)
{
    int fd;

    (void)arg;
    while ((fd = accept(server.fd, NULL, NULL)) >= 0) {
        size_t n = 0;
        ssize_t got;

        while (n < sizeof(server.request) - 1 &&
               (got = recv(fd, server.request + n, sizeof(server.request) - 1 - n, 0)) > 0) {
            n += (size_t)got;
            server.request[n] = 0;
            if (strstr(server.request, "\r\n\r\n"))
                break;
        }
        if (n)
            (void)!send(fd, server.answer, server.answer_len, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        while (recv(fd, &(char[64]){0}, 64, 0) > 0)
            ;
        close(fd);
    }
    return NULL;
}

static int start_server(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    struct http *h;

    server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server.fd < 0 || bind(server.fd, (struct sockaddr *)&a, len) != 0 || listen(server.fd, 16) != 0 ||
        getsockname(server.fd, (struct sockaddr *)&a, &len) != 0)
        return -1;
    snprintf(server.url, sizeof(server.url), "http://127.0.0.1:%d", ntohs(a.sin_port));
    setenv("no_proxy", "*", 1);
    http_use_mem();
    if (http_open(&h, NULL) != 0)
        return -1;
    http_close(h);
    return pthread_create(&server.thread, NULL, serve, NULL);
}

static int stop_server(void **state)
{
    shutdown(server.fd, SHUT_RDWR);
    close(server.fd);
    return pthread_join(server.thread, NULL);
}

/* ---- a client ---- */

struct taken {
    char body[256];
    size_t n;
    uint64_t first;
    bool begun, refuse;
};

static bool take_first(void *ctx, uint64_t first)
{
    struct taken *t = ctx;

    t->begun = true;
    t->first = first;
    return !t->refuse;
}

static bool take_bytes(void *ctx, const char *bytes, size_t n)
{
    struct taken *t = ctx;

    if (n > sizeof(t->body) - 1 - t->n)
        return false;
    memcpy(t->body + t->n, bytes, n);
    t->n += n;
    t->body[t->n] = 0;
    return true;
}

static int get(const char *answer, struct http_request q, struct taken *t, struct http_reply *r,
               struct err *e)
{
    struct http *h;
    int rc;

    *t = (struct taken){.refuse = t->refuse};
    *e = (struct err){0};
    server.answer = answer;
    server.answer_len = strlen(answer);
    q.url = q.url ? q.url : server.url;
    q.connect_seconds = 5;
    q.stall_seconds = 5;
    q.begin = take_first;
    q.body = take_bytes;
    q.ctx = t;
    *r = (struct http_reply){0};
    if ((rc = http_open(&h, e)) == 0)
        rc = http_run(h, &q, r, e);
    http_close(h);
    return rc;
}

static void headers_and_body_come_as_they_are(void **state)
{
    struct taken t = {0};
    struct http_reply r;
    struct err e;
    uint64_t n;

    assert_int_equal(get("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nETag:  \"x\" \r\n\r\nhello",
                         (struct http_request){.bearer = "tok"}, &t, &r, &e),
                     0);
    assert_int_equal(r.status, 200);
    assert_string_equal(t.body, "hello");
    assert_string_equal(http_header(&r, "etag"), "\"x\"");
    assert_true(http_header_u64(&r, "Content-Length", &n) && n == 5);
    assert_false(http_header_u64(&r, "ETag", &n) || http_header_u64(&r, "Age", &n));
    assert_null(http_header(&r, "eta"));
    assert_non_null(strstr(server.request, "Authorization: Bearer tok\r\n"));
    assert_non_null(strstr(server.request, "Accept-Encoding: identity\r\n"));
    http_reply_fini(&r);
}

static void an_empty_file_begins_too(void **state)
{
    struct taken t = {0};
    struct http_reply r;
    struct err e;

    assert_int_equal(
        get("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", (struct http_request){0}, &t, &r, &e), 0);
    assert_true(t.begun && t.n == 0);
    http_reply_fini(&r);
}

static void only_the_range_that_was_asked_for_is_taken(void **state)
{
    static const char good[] = "HTTP/1.1 206 P\r\nContent-Range: bytes 7-8/9\r\nContent-Length: 2\r\n\r\nab";
    static const char *const bad[] = {
        "HTTP/1.1 206 P\r\nContent-Range: bytes 6-7/9\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 206 P\r\nContent-Range: items 7-8/9\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 206 P\r\nContent-Range: bytes 99999999999999999999999-8/9\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 206 P\r\nContent-Length: 2\r\n\r\nab"};
    const struct http_request q = {.from = 7};
    struct taken t = {0};
    struct http_reply r;
    struct err e;

    assert_int_equal(get(good, q, &t, &r, &e), 0);
    assert_true(t.first == 7 && t.n == 2);
    assert_non_null(strstr(server.request, "Range: bytes=7-\r\n"));
    http_reply_fini(&r);
    assert_int_equal(get("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", q, &t, &r, &e), 0);
    assert_true(t.begun && t.first == 0);
    http_reply_fini(&r);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(get(bad[i], q, &t, &r, &e), ERR_INPUT);
        assert_true(!t.begun && t.n == 0 && !r.transient);
        http_reply_fini(&r);
    }
}

static void what_a_refusal_says_is_no_body(void **state)
{
    struct taken t = {0};
    struct http_reply r;
    struct err e;

    assert_int_equal(get("HTTP/1.1 404 No\r\nX-Error-Code: RepoNotFound\r\nContent-Length: 4\r\n\r\nnope",
                         (struct http_request){0}, &t, &r, &e),
                     0);
    assert_true(r.status == 404 && !t.begun && !r.transient);
    assert_string_equal(http_header(&r, "X-Error-Code"), "RepoNotFound");
    http_reply_fini(&r);
    assert_int_equal(
        get("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", (struct http_request){0}, &t, &r, &e), 0);
    assert_true(r.status == 503 && r.transient && !r.unreachable);
    http_reply_fini(&r);
}

static void an_interim_answer_leaves_no_headers(void **state)
{
    struct taken t = {0};
    struct http_reply r;
    struct err e;

    assert_int_equal(get("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                         "HTTP/1.1 200 OK\r\nETag: y\r\nContent-Length: 0\r\n\r\n",
                         (struct http_request){0}, &t, &r, &e),
                     0);
    assert_null(http_header(&r, "Link"));
    assert_string_equal(http_header(&r, "ETag"), "y");
    http_reply_fini(&r);
}

static void a_refusal_without_end_is_cut_off(void **state)
{
    enum { N = 2 << 20 };
    char *answer = malloc(N + 100);
    struct taken t = {0};
    struct http_reply r;
    struct err e;
    int n = snprintf(answer, 100, "HTTP/1.1 404 No\r\nContent-Length: %d\r\n\r\n", N);

    memset(answer + n, 'x', N);
    answer[n + N] = 0;
    assert_int_equal(get(answer, (struct http_request){0}, &t, &r, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "the answer is longer than 1"));
    http_reply_fini(&r);
    free(answer);
}

static void some_refusals_may_pass(void **state)
{
    static const struct {
        int status;
        bool passes;
    } cases[] = {{400, false}, {401, false}, {403, false}, {404, false}, {408, true}, {425, true},
                 {429, true},  {500, true},  {501, false}, {502, true},  {503, true}, {504, true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct taken t = {0};
        struct http_reply r;
        char answer[80];
        struct err e;

        snprintf(answer, sizeof(answer), "HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n", cases[i].status);
        assert_int_equal(get(answer, (struct http_request){0}, &t, &r, &e), 0);
        assert_true(r.status == cases[i].status && r.transient == cases[i].passes);
        http_reply_fini(&r);
    }
}

static void failures_say_whether_they_may_pass(void **state)
{
    struct taken t = {0};
    struct http_reply r;
    struct err e;

    assert_int_equal(
        get("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", (struct http_request){0}, &t, &r, &e),
        ERR_OS); /* truncated */
    assert_true(r.transient && !r.unreachable && t.n == 5);
    http_reply_fini(&r);
    assert_int_equal(get("", (struct http_request){.url = "http://127.0.0.1:1/x?secret=1"}, &t, &r, &e),
                     ERR_OS);
    assert_true(r.transient && r.unreachable);
    assert_non_null(strstr(e.msg, "http://127.0.0.1:1/x: "));
    assert_null(strstr(e.msg, "secret"));
    http_reply_fini(&r);
    assert_int_equal(get("", (struct http_request){.url = "file:///etc/passwd"}, &t, &r, &e), ERR_OS);
    assert_true(!r.transient && t.n == 0);
    http_reply_fini(&r);
    assert_int_equal(get("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                         (struct http_request){.max_bytes = 4}, &t, &r, &e),
                     ERR_INPUT);
    assert_true(!r.transient);
    http_reply_fini(&r);
    assert_int_equal(get("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                         (struct http_request){.max_bytes = 5}, &t, &r, &e),
                     0);
    http_reply_fini(&r);
    t.refuse = true;
    assert_int_equal(
        get("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", (struct http_request){0}, &t, &r, &e),
        ERR_CANCELLED);
    assert_true(r.stopped && !r.transient);
    http_reply_fini(&r);
}

static void redirects_end(void **state)
{
    struct taken t = {0};
    struct http_reply r;
    char url[80];
    struct err e;

    assert_int_equal(get("HTTP/1.1 302 F\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n",
                         (struct http_request){0}, &t, &r, &e),
                     0);
    snprintf(url, sizeof(url), "%s/again", server.url);
    assert_string_equal(r.location, url);
    http_reply_fini(&r);
    assert_int_equal(get("HTTP/1.1 302 F\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n",
                         (struct http_request){.follow = 3}, &t, &r, &e),
                     ERR_INPUT);
    assert_non_null(strstr(e.msg, "redirects more than"));
    http_reply_fini(&r);
    assert_int_equal(get("HTTP/1.1 302 F\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
                         (struct http_request){.follow = 3}, &t, &r, &e),
                     ERR_OS);
    assert_true(!t.begun);
    http_reply_fini(&r);
}

static void the_token_stays_with_the_first_origin(void **state)
{
    for (int other = 0; other < 2; other++) {
        struct taken t = {0};
        struct http_reply r;
        char answer[200];
        struct err e;

        snprintf(
            answer, sizeof(answer),
            "HTTP/1.1 302 F\r\nLocation: http://%s%s/next\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            other ? "localhost" : "127.0.0.1", strrchr(server.url, ':'));
        assert_int_equal(get(answer, (struct http_request){.follow = 1, .bearer = "secret"}, &t, &r, &e),
                         ERR_INPUT);
        assert_non_null(strstr(server.request, "GET /next "));
        assert_int_equal(strstr(server.request, "Authorization: Bearer secret") == NULL, other);
        http_reply_fini(&r);
    }
}

static void an_origin_is_scheme_host_and_port(void **state)
{
    assert_false(http_same_origin("http://a:443/", "https://a:443/"));
    assert_true(http_same_origin("https://a.b/x", "https://A.B:443/y?z"));
    assert_true(http_same_origin("http://a:80", "http://a/"));
    assert_false(http_same_origin("https://a.b", "http://a.b"));
    assert_false(http_same_origin("https://a.b", "https://a.b:444"));
    assert_false(http_same_origin("https://a.b", "https://a.b.c"));
    assert_false(http_same_origin("https://a.b", "https://a.b@c.d"));
    assert_false(http_same_origin("", ""));
}

static void secrets_of_an_address_are_not_shown(void **state)
{
    char out[64];

    assert_string_equal(http_url_for_people(out, sizeof(out), "https://user:pw@host:1/p/q?sig=1#f"),
                        "https://host:1/p/q");
    assert_string_equal(http_url_for_people(out, sizeof(out), "https://host?x@y"), "https://host");
    assert_string_equal(http_url_for_people(out, sizeof(out), "https://host/a@b"), "https://host/a@b");
    assert_string_equal(http_url_for_people(out, sizeof(out), "nonsense"), "nonsense");
    assert_string_equal(http_url_for_people(out, 8, "https://host"), "https:/");
}

static void every_failed_allocation_leaves_nothing(void **state)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\nhello";
    size_t blocks;
    int n_errors = 0;

    for (long n = 0;; n++) {
        struct taken t = {0};
        struct http_reply r;
        struct err e;
        bool failed;
        int rc;

        blocks = mem_live_blocks();
        mem_fail_at(n);
        rc = get(answer, (struct http_request){.bearer = "tok", .follow = 2}, &t, &r, &e);
        failed = mem_failed();
        mem_fail_at(0);
        http_reply_fini(&r);
        assert_int_equal(mem_live_blocks(), blocks);
        n_errors += rc != 0;
        if (rc == 0) /* libcurl does without some allocations. */
            assert_string_equal(t.body, "hello");
        if (n > 0 && !failed)
            break;
    }
    assert_true(n_errors > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_and_body_come_as_they_are),
        cmocka_unit_test(an_empty_file_begins_too),
        cmocka_unit_test(only_the_range_that_was_asked_for_is_taken),
        cmocka_unit_test(what_a_refusal_says_is_no_body),
        cmocka_unit_test(an_interim_answer_leaves_no_headers),
        cmocka_unit_test(a_refusal_without_end_is_cut_off),
        cmocka_unit_test(some_refusals_may_pass),
        cmocka_unit_test(the_token_stays_with_the_first_origin),
        cmocka_unit_test(failures_say_whether_they_may_pass),
        cmocka_unit_test(redirects_end),
        cmocka_unit_test(an_origin_is_scheme_host_and_port),
        cmocka_unit_test(secrets_of_an_address_are_not_shown),
        cmocka_unit_test(every_failed_allocation_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
