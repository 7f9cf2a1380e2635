/* test_err.c - a path of this machine in an error, and text of a request, can be left out, whatever was put
 * around them. */
#include "test.h"

#include <string.h>

#include "base/err.h"

static void assert_texts(const struct err *e, const char *full, const char *without_path)
{
    char text[sizeof(*e)];

    err_text(e, text, sizeof(text));
    assert_string_equal(text, full);
    err_text_without_path(e, text, sizeof(text));
    assert_string_equal(text, without_path);
}

static void the_path_of_a_sentence_is_left_out(void **state)
{
    struct err e = {0};

    assert_int_equal(err_at(&e, ERR_INPUT, "/models/x", "%d: bad", 7), ERR_INPUT);
    assert_texts(&e, "/models/x: 7: bad", "7: bad");
    err_subject(&e, "model");
    assert_texts(&e, "model: /models/x: 7: bad", "model: 7: bad");
    err_prefix(&e, "line %d", 3);
    assert_texts(&e, "line 3: model: /models/x: 7: bad", "7: bad");
}

static void a_sentence_without_a_path_stays(void **state)
{
    struct err e = {0};

    err_at(&e, ERR_INPUT, "/models/x", "bad");
    err_set(&e, ERR_INPUT, "/models/y: it is part of what a client wrote");
    assert_texts(&e, "/models/y: it is part of what a client wrote",
                 "/models/y: it is part of what a client wrote");
    err_prefix(&e, "line 3");
    assert_texts(&e, "line 3: /models/y: it is part of what a client wrote",
                 "line 3: /models/y: it is part of what a client wrote");
}

static void a_path_that_fills_the_sentence_is_left_out(void **state)
{
    char path[2 * sizeof(((struct err *)0)->msg)], text[sizeof(struct err)];
    struct err e = {0};

    memset(path, 'p', sizeof(path) - 1);
    path[sizeof(path) - 1] = 0;
    err_at(&e, ERR_INPUT, path, "bad");
    err_text_without_path(&e, text, sizeof(text));
    assert_string_equal(text, "");
    err_at(&e, ERR_INPUT, path + sizeof(path) - 100, "bad");
    err_prefix(&e, "%s", path);
    err_text_without_path(&e, text, sizeof(text));
    assert_string_equal(text, "");
}

static void assert_log(const struct err *e, const char *logged)
{
    char text[sizeof(*e)];

    err_text_for_log(e, text, sizeof(text));
    assert_string_equal(text, logged);
}

static void text_of_a_request_is_left_out_of_the_log(void **state)
{
    struct err e = {0};

    assert_int_equal(err_quote(&e, ERR_INPUT,
                               "secret: a\x1b"
                               "b",
                               "my.jinja line %d", 3),
                     ERR_INPUT);
    assert_texts(&e, "my.jinja line 3: secret: a?b", "my.jinja line 3: secret: a?b");
    assert_log(&e, "my.jinja line 3: ...");
    err_subject(&e, "messages");
    assert_log(&e, "messages: my.jinja line 3: ...");
    err_prefix(&e, "request %d", 7);
    assert_texts(&e, "request 7: messages: my.jinja line 3: secret: a?b",
                 "request 7: messages: my.jinja line 3: secret: a?b");
    assert_log(&e, "request 7: messages: my.jinja line 3: ...");
    err_quote(&e, ERR_INPUT, "", "empty");
    assert_log(&e, "empty: ");
    err_at(&e, ERR_INPUT, "/models/x", "a chat template: bad");
    assert_log(&e, "a chat template: bad");
}

static void a_quotation_that_does_not_fit_is_left_out_of_the_log(void **state)
{
    char text[2 * sizeof(((struct err *)0)->msg)], logged[sizeof(struct err)];
    struct err e = {0};

    memset(text, 'z', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    err_quote(&e, ERR_INPUT, text, "line 3");
    assert_log(&e, "line 3: ...");
    memset(text, 'p', sizeof(text) - 1);
    for (size_t n = sizeof(e.msg) - 20; n < sizeof(e.msg) + 10; n++) {
        err_quote(&e, ERR_INPUT, "zzz", "line 3");
        err_prefix(&e, "%.*s", (int)n, text);
        err_text_for_log(&e, logged, sizeof(logged));
        assert_null(strchr(logged, 'z'));
    }
    memset(text, 'p', sizeof(text) - 1);
    err_quote(&e, ERR_INPUT, "zzz", "%s", text);
    err_text_for_log(&e, logged, sizeof(logged));
    assert_null(strchr(logged, 'z'));
}

static void no_record_takes_the_code_only(void **state)
{
    assert_int_equal(err_at(NULL, ERR_OS, "/models/x", "bad"), ERR_OS);
    assert_int_equal(err_quote(NULL, ERR_INPUT, "bad", "line %d", 3), ERR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_of_a_sentence_is_left_out),
        cmocka_unit_test(a_sentence_without_a_path_stays),
        cmocka_unit_test(a_path_that_fills_the_sentence_is_left_out),
        cmocka_unit_test(text_of_a_request_is_left_out_of_the_log),
        cmocka_unit_test(a_quotation_that_does_not_fit_is_left_out_of_the_log),
        cmocka_unit_test(no_record_takes_the_code_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
