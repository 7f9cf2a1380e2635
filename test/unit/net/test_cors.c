/* test_cors.c - which pages of other origins may read answers: lists at their limits, header lines of
 * answers, and preflight requests of browsers. */
#include "net/cors.h"
#include "sentence.h"

static struct cors c;
static struct err e;
static char lines[CORS_LINES], preflight[CORS_PREFLIGHT];

static int open_as(const char *origins, const char *methods, const char *headers, bool credentials)
{
    cors_close(&c);
    e = (struct err){.code = 0};
    return cors_open(&c, origins, methods, headers, credentials, &e);
}

/* Makes a head of METHOD with these header lines. */
static const struct http_head *head(const char *method, const char *fields)
{
    static struct http_head h;
    static char text[8192];
    const char *why = "";
    int n = snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: h\r\n%s\r\n", method, fields);

    if (http_head_read(&h, text, (size_t)n, 100, &why) != 0)
        fail_msg("%s: %s", fields, why);
    return &h;
}

static const char *lines_for(const char *fields)
{
    cors_lines(&c, head("GET", fields), lines);
    return lines;
}

static bool asks(const char *method, const char *fields)
{
    return cors_preflight(&c, head(method, fields), preflight);
}

#define WANTS "Access-Control-Request-Method: POST\r\n"

static void nothing_is_allowed_by_itself(void **state)
{
    assert_int_equal(open_as(NULL, NULL, NULL, false), 0);
    assert_string_equal(lines_for("Origin: https://a.example\r\n"), "");
    assert_false(asks("OPTIONS", "Origin: https://a.example\r\n" WANTS));
    assert_int_equal(open_as("[]", NULL, NULL, false), 0);
    assert_string_equal(lines_for("Origin: https://a.example\r\n"), "Vary: Origin\r\n");
    assert_false(asks("OPTIONS", "Origin: https://a.example\r\n" WANTS));
}

static void listed_origins_alone_are_told(void **state)
{
    static const char *const lists[] = {"[\"https://a.example\", \"http://localhost:3000\"]",
                                        "https://a.example,http://localhost:3000",
                                        " https://a.example , http://localhost:3000 "};
    static const char *const strangers[] = {
        "",
        "Origin: null\r\n",
        "Origin: \r\n",
        "Origin: https://b.example\r\n",
        "Origin: http://a.example\r\n",
        "Origin: https://a.example:443\r\n",
        "Origin: https://a.example.b.example\r\n",
        "Origin: https://a.exampl\r\n",
        "Origin: https://x.a.example\r\n",
        "Origin: http://localhost:30000\r\n",
        "Origin: *\r\n",
        "Origin: https://a.example https://b.example\r\n",
        "Origin: https://a.example\r\nOrigin: https://b.example\r\n",
    };

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        assert_int_equal(open_as(lists[i], NULL, NULL, false), 0);
        assert_non_null(strstr(lines_for("Origin: https://a.example\r\n"),
                               "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n"));
        assert_null(strstr(lines, "Credentials"));
        assert_non_null(strstr(lines_for("Origin: HTTP://Localhost:3000\r\n"),
                               "Access-Control-Allow-Origin: http://localhost:3000\r\n"));
        for (size_t k = 0; k < sizeof(strangers) / sizeof(strangers[0]); k++) {
            char fields[256];

            assert_string_equal(lines_for(strangers[k]), "Vary: Origin\r\n");
            snprintf(fields, sizeof(fields), "%s" WANTS, strangers[k]);
            assert_false(asks("OPTIONS", fields));
        }
    }
}

static void all_origins_get_a_star_and_no_credentials(void **state)
{
    assert_int_equal(open_as("[\"*\"]", NULL, NULL, false), 0);
    assert_non_null(strstr(lines_for("Origin: null\r\n"), "Access-Control-Allow-Origin: *\r\n"));
    assert_null(strstr(lines, "Vary"));
    assert_string_equal(lines_for(""), "");
    assert_int_equal(open_as("*", NULL, NULL, true), ERR_USAGE);
    assert_non_null(strstr(sentence_of(&e), "allow_credentials: "));
    assert_int_equal(open_as("https://a.example,*", NULL, NULL, true), ERR_USAGE);
    assert_int_equal(open_as("https://a.example", NULL, NULL, true), 0);
    assert_non_null(
        strstr(lines_for("Origin: https://a.example\r\n"), "Access-Control-Allow-Credentials: true\r\n"));
    assert_null(strstr(lines_for("Origin: https://b.example\r\n"), "Credentials"));
}

static void browsers_are_told_what_may_be_sent(void **state)
{
    char long_list[1400];

    assert_int_equal(open_as("https://a.example", NULL, NULL, false), 0);
    assert_true(asks("OPTIONS", "Origin: https://a.example\r\n" WANTS
                                "Access-Control-Request-Headers: authorization, content-type\r\n"));
    assert_string_equal(preflight, "Access-Control-Allow-Methods: GET, HEAD, POST\r\n"
                                   "Access-Control-Allow-Headers: authorization, content-type\r\n"
                                   "Access-Control-Max-Age: 600\r\n");
    assert_true(asks("OPTIONS", "Origin: https://a.example\r\n" WANTS));
    assert_null(strstr(preflight, "Allow-Headers"));
    assert_true(
        asks("OPTIONS", "Origin: https://a.example\r\n" WANTS "Access-Control-Request-Headers: a<b>\r\n"));
    assert_null(strstr(preflight, "Allow-Headers"));
    for (size_t n = 1022; n <= 1025; n++) {
        memset(long_list, 'a', n);
        long_list[n] = 0;
        snprintf(lines, sizeof(lines), "%s", "");
        {
            char fields[1600];

            snprintf(fields, sizeof(fields),
                     "Origin: https://a.example\r\n" WANTS "Access-Control-Request-Headers: %s\r\n",
                     long_list);
            assert_true(asks("OPTIONS", fields));
            assert_int_equal(strstr(preflight, long_list) != NULL, n < 1024);
            assert_non_null(strstr(preflight, "Max-Age: 600\r\n"));
        }
    }
    assert_false(asks("OPTIONS", "Origin: https://a.example\r\n"));
    assert_false(asks("POST", "Origin: https://a.example\r\n" WANTS));
    assert_false(asks("OPTIONS", WANTS));
    assert_int_equal(open_as("https://a.example", "[\"POST\"]", "Authorization, X-Own", false), 0);
    assert_true(
        asks("OPTIONS", "Origin: https://a.example\r\n" WANTS "Access-Control-Request-Headers: x-other\r\n"));
    assert_string_equal(preflight, "Access-Control-Allow-Methods: POST\r\n"
                                   "Access-Control-Allow-Headers: Authorization, X-Own\r\n"
                                   "Access-Control-Max-Age: 600\r\n");
}

static void wrong_lists_name_the_option(void **state)
{
    static const char *const origins[] = {"a.example",
                                          "null",
                                          "https://",
                                          "://a",
                                          "https://a.example/",
                                          "https://a.example/x",
                                          "https://a@b",
                                          "https://*.a.example",
                                          "[\"https://a.example\", 5]",
                                          "[\"https://a.example\"",
                                          "[\"https://a.example\\u0000\"]",
                                          "[\"https://a\\r\\nX: y\"]",
                                          "[[\"https://a.example\"]]",
                                          "{\"a\":1}"};
    char text[1200];

    for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++) {
        if (open_as(origins[i], NULL, NULL, false) != ERR_USAGE)
            fail_msg("%s is taken", origins[i]);
        assert_non_null(strstr(sentence_of(&e), "allowed_origins: "));
    }
    assert_int_equal(open_as("*", "[\"PO ST\"]", NULL, false), ERR_USAGE);
    assert_non_null(strstr(sentence_of(&e), "allowed_methods: "));
    assert_int_equal(open_as("*", NULL, "a:b", false), ERR_USAGE);
    assert_non_null(strstr(sentence_of(&e), "allowed_headers: "));
    assert_int_equal(open_as(NULL, "GET", NULL, false), ERR_USAGE);
    assert_int_equal(open_as(NULL, NULL, "a", false), ERR_USAGE);
    assert_int_equal(open_as(NULL, NULL, NULL, true), ERR_USAGE);
    assert_non_null(strstr(sentence_of(&e), "allow_credentials: has no effect without"));
    for (size_t n = 256; n <= 257; n++) { /* the length of a word */
        memset(text, 'a', n);
        text[n] = 0;
        assert_int_equal(open_as("*", NULL, text, false), n == 256 ? 0 : ERR_USAGE);
    }
    for (size_t n = 341; n <= 342; n++) { /* words of three bytes, with their separators */
        for (size_t i = 0; i < n; i++)
            memcpy(text + 2 * i, "b,", 3);
        assert_int_equal(open_as("*", NULL, text, false), n == 341 ? 0 : ERR_USAGE);
    }
}

static int end(void **state)
{
    cors_close(&c);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_allowed_by_itself), cmocka_unit_test(listed_origins_alone_are_told),
        cmocka_unit_test(all_origins_get_a_star_and_no_credentials),
        cmocka_unit_test(browsers_are_told_what_may_be_sent), cmocka_unit_test(wrong_lists_name_the_option)};

    return cmocka_run_group_tests(tests, NULL, end);
}
