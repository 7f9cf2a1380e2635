/* test_http_head.c - heads of HTTP requests: what is accepted, what is refused, and that no byte is read
 * twice. */
#include "net/http_head.h"

static char text[8192];
static struct http_head head;
static const char *why;

/* Returns the status of HEAD as a whole head. */
static int read_head(const char *s, size_t n)
{
    assert_true(n < sizeof(text));
    memcpy(text, s, n);
    return http_head_read(&head, text, n, 8, &why);
}

static int status_of(const char *s)
{
    return read_head(s, strlen(s));
}

#define GET "GET / HTTP/1.1\r\nHost: x\r\n"

static void a_head_is_taken_apart(void **state)
{
    assert_int_equal(
        status_of("POST /a/b%20c?d=e HTTP/1.1\r\nHOST: h\r\nX-Y:  z \t\r\nContent-Length: 17\r\n\r\n"), 0);
    assert_string_equal(head.method, "POST");
    assert_string_equal(head.path, "/a/b%20c");
    assert_string_equal(head.query, "d=e");
    assert_string_equal(http_head_get(&head, "x-y"), "z");
    assert_string_equal(http_head_get(&head, "host"), "h");
    assert_null(http_head_get(&head, "y"));
    assert_int_equal(head.body_bytes, 17);
    assert_true(head.keep_alive && !head.chunked && !head.expects);
    for (int minor = 0; minor < 2; minor++) { /* HTTP/1.0 knows no interim answers */
        char post[100];

        snprintf(post, sizeof(post), "POST / HTTP/1.%d\r\nHost: x\r\nExpect: 100-continue\r\n\r\n", minor);
        assert_int_equal(status_of(post), 0);
        assert_int_equal(head.expects, minor);
    }
}

/* The forms of a target that a server must accept: with a host, or * for the server itself. */
static void a_target_may_name_the_host(void **state)
{
    static const struct {
        const char *line, *host, *path, *query;
    } cases[] = {{"GET http://x/a/b?c=d", "x", "/a/b", "c=d"},
                 {"GET http://x", "x", "/", ""},
                 {"GET https://X?c//d", "X", "/", "c//d"},
                 {"POST http://x.y:80/", "x.y:80", "/", ""},
                 {"OPTIONS http://x", "x", "*", ""},
                 {"OPTIONS http://x/", "x", "/", ""},
                 {"OPTIONS *", "other", "*", ""},
                 {"GET /http://x/", "other", "/http://x/", ""}};
    char request[200];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(request, sizeof(request), "%s HTTP/1.1\r\nHost: other\r\n\r\n", cases[i].line);
        assert_int_equal(status_of(request), 0);
        assert_string_equal(head.host, cases[i].host);
        assert_string_equal(head.path, cases[i].path);
        assert_string_equal(head.query, cases[i].query);
    }
}

/* The Host field must be there and valid, and is ignored beside the host of the target (RFC 9112, 3.2.2). */
static void the_host_of_a_target_counts(void **state)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {{"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", 0},
                 {"GET HTTPS://x:80/a HTTP/1.1\r\nHost: X:80\r\n\r\n", 0},
                 {"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n", 0},
                 {"GET http://y/ HTTP/1.0\r\n\r\n", 0},
                 {"GET http://y/ HTTP/1.1\r\n\r\n", 400},
                 {"GET http://y/ HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
                 {"GET http://y/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
                 {"GET http://u@x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400},
                 {"GET http:/// HTTP/1.1\r\nHost:\r\n\r\n", 400},
                 {"GET http:///x HTTP/1.0\r\n\r\n", 400},
                 {"GET http:// HTTP/1.0\r\n\r\n", 400},
                 {"GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400},
                 {"GET x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400},
                 {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 0},
                 {"OPTIONS *a HTTP/1.1\r\nHost: x\r\n\r\n", 400},
                 {"GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (status_of(cases[i].text) != cases[i].status)
            fail_msg("%s: not %d", cases[i].text, cases[i].status);
}

static void who_keeps_a_connection(void **state)
{
    static const struct {
        const char *text;
        bool keeps;
    } cases[] = {{GET "\r\n", true},
                 {GET "Connection: close\r\n\r\n", false},
                 {GET "Connection: foo, Close\r\n\r\n", false},
                 {GET "Connection: closed\r\n\r\n", true},
                 {GET "Connection: close\r\nConnection: foo\r\n\r\n", false},
                 {GET "Connection: foo\r\nConnection: bar, close\r\n\r\n", false},
                 {"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: foo\r\n\r\n", true},
                 {"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false},
                 {"GET / HTTP/1.0\r\n\r\n", false},
                 {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(status_of(cases[i].text), 0);
        assert_int_equal(head.keep_alive, cases[i].keeps);
    }
}

static void what_may_be_read_in_two_ways_is_refused(void **state)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {{"", 400},
                 {"GET / HTTP/1.1", 400},
                 {"GET / HTTP/1.1\r\n", 400},
                 {"GET / HTTP/1.1\nHost: x\r\n\r\n", 400},
                 {GET "A: b\n\r\n", 400},
                 {GET "A : b\r\n\r\n", 400},
                 {GET " A: b\r\n\r\n", 400},
                 {GET "A: b\r\n c\r\n\r\n", 400},
                 {GET "A\r\n\r\n", 400},
                 {GET ": b\r\n\r\n", 400},
                 {GET "A: \x01\r\n\r\n", 400},
                 {GET "A: \x7f\r\n\r\n", 400},
                 {GET "\r\nmore", 400},
                 {GET "Host: x\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n", 400},
                 {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 0},
                 {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 0},
                 {GET "Authorization: Bearer a\r\nAuthorization: Bearer a\r\n\r\n", 400},
                 {GET "X-Api-Key: a\r\nx-api-key: b\r\n\r\n", 400},
                 {GET "X-Request-Id: a\r\nX-Request-Id: a\r\n\r\n", 400},
                 {GET "Authorization: Bearer a\r\nX-Api-Key: b\r\nX-Request-Id: a\r\n\r\n", 0},
                 {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
                 {"GET / HTTP/1.2\r\nHost: x\r\n\r\n", 505},
                 {"GET / HTTP/11\r\nHost: x\r\n\r\n", 400},
                 {"GET / http/1.1\r\nHost: x\r\n\r\n", 400},
                 {"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
                 {"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400},
                 {"GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
                 {" GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
                 {GET "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
                 {GET "Content-Length: 1, 1\r\n\r\n", 400},
                 {GET "Content-Length:\r\n\r\n", 400},
                 {GET "Content-Length: 0x1\r\n\r\n", 400},
                 {GET "Content-Length: 9007199254740992\r\n\r\n", 400},
                 {GET "Content-Length: 9007199254740991\r\n\r\n", 0},
                 {GET "Content-Length: 99999999999999999999999\r\n\r\n", 400},
                 {GET "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
                 {GET "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
                 {GET "Transfer-Encoding: Chunked\r\n\r\n", 0},
                 {GET "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
                 {GET "Transfer-Encoding: xchunked\r\n\r\n", 501},
                 {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
                 {GET "Expect: 100-continue\r\n\r\n", 0},
                 {GET "Expect: 200\r\n\r\n", 417},
                 {GET "1: a\r\n2: a\r\n3: a\r\n4: a\r\n5: a\r\n6: a\r\n7: a\r\n\r\n", 0},
                 {GET "1: a\r\n2: a\r\n3: a\r\n4: a\r\n5: a\r\n6: a\r\n7: a\r\n8: a\r\n\r\n", 431}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (status_of(cases[i].text) != cases[i].status)
            fail_msg("%s: not %d", cases[i].text, cases[i].status);
    assert_int_equal(read_head(GET "A: b\0c\r\n\r\n", sizeof(GET "A: b\0c\r\n\r\n") - 1), 400);
}

/* Every truncated head is refused, and no byte after its end is read. */
static void a_head_that_is_cut_is_refused(void **state)
{
    static const char whole[] = GET "A: b\r\nContent-Length: 3\r\n\r\n";

    for (size_t n = 0; n < sizeof(whole) - 1; n++) {
        char *cut = malloc(n ? n : 1);

        memcpy(cut, whole, n);
        assert_int_equal(http_head_read(&head, cut, n, 8, &why), 400);
        free(cut);
    }
    assert_int_equal(status_of(whole), 0);
}

static void sizes_of_chunks(void **state)
{
    static const struct {
        const char *line;
        bool good;
        uint64_t bytes;
    } cases[] = {{"0", true, 0},
                 {"a", true, 10},
                 {"FF", true, 255},
                 {"fffffffffff", true, 0xfffffffffff},
                 {"1;a=b", true, 1},
                 {"", false, 0},
                 {";", false, 0},
                 {"-1", false, 0},
                 {"1 ", false, 0},
                 {" 1", false, 0},
                 {"0x1", false, 0},
                 {"1;\x01", false, 0},
                 {"g", false, 0},
                 {"+1", false, 0},
                 {"fffffffffffff", false, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t bytes;

        assert_int_equal(http_head_chunk_size(cases[i].line, strlen(cases[i].line), &bytes), cases[i].good);
        if (cases[i].good)
            assert_int_equal(bytes, cases[i].bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_head_is_taken_apart),
                                       cmocka_unit_test(a_target_may_name_the_host),
                                       cmocka_unit_test(the_host_of_a_target_counts),
                                       cmocka_unit_test(who_keeps_a_connection),
                                       cmocka_unit_test(what_may_be_read_in_two_ways_is_refused),
                                       cmocka_unit_test(a_head_that_is_cut_is_refused),
                                       cmocka_unit_test(sizes_of_chunks)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
