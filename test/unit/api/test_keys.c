/* test_keys.c - API keys: which clients have one, their limits, and files of keys. */
#include "api/http/keys.h"
#include "base/buf.h"
#include "base/err.h"

static char name[KEYS_NAME], other[KEYS_NAME];

static void only_whole_keys_are_taken(void **state)
{
    struct keys k = {0};

    assert_int_equal(keys_add(&k, "alpha", "K", NULL), 0);
    assert_int_equal(keys_add(&k, "beta", "K", NULL), 0);
    assert_true(keys_allow(&k, "Bearer alpha", NULL, name) && keys_allow(&k, "bearer  beta", NULL, other));
    assert_string_not_equal(name, other);
    assert_true(keys_allow(&k, NULL, "alpha", other));
    assert_string_equal(name, other);
    assert_false(keys_allow(&k, "Bearer alph", NULL, name) || keys_allow(&k, "Bearer alphab", NULL, name) ||
                 keys_allow(&k, "Bearer ", NULL, name) || keys_allow(&k, NULL, NULL, name) ||
                 keys_allow(&k, NULL, "", name) || keys_allow(&k, "alpha", NULL, name) ||
                 keys_allow(&k, "Bearer x", "alpha", name));
    assert_string_equal(name, "");
    keys_fini(&k);
    assert_false(keys_allow(&k, "Bearer alpha", NULL, name));
}

static void a_file_has_a_key_a_line(void **state)
{
    static const char text[] = "# remark\n\none\r\n  \ntwo \nthree";
    struct keys k = {0};
    struct err e;

    assert_int_equal(keys_add_lines(&k, text, sizeof(text) - 1, "F", &e), 0);
    assert_int_equal(k.n, 3);
    assert_true(keys_allow(&k, NULL, "one", name) && keys_allow(&k, NULL, "two", name) &&
                keys_allow(&k, NULL, "three", name));
    assert_int_equal(keys_add_lines(&k, "a b", 3, "F", &e), ERR_INPUT);
    assert_null(strstr(e.msg, "a b"));
    keys_fini(&k);
    assert_int_equal(keys_add_lines(&k, "# none\n", 7, "F", &e), 0);
    assert_true(k.n == 0 && !keys_needed(&k) && !keys_needed(NULL));
    k.closed = true;
    assert_true(keys_needed(&k) && !keys_allow(&k, NULL, "", name));
    assert_int_equal(keys_add(&k, "", "K", &e), ERR_INPUT);
    assert_int_equal(keys_add(&k, "\xc3\xa9", "K", &e), ERR_INPUT);
    keys_fini(&k);
}

static void a_line_may_limit_its_key(void **state)
{
    static const char text[] =
        "one\ntwo requests_per_minute=3  tokens_per_minute=60\r\nthree tokens_per_minute=1000000000";
    static const char *const bad[] = {"k x=1",
                                      "k requests_per_minute=",
                                      "k requests_per_minute=0",
                                      "k requests_per_minute=1000000001",
                                      "k requests_per_minute=99999999999999999999",
                                      "k tokens_per_minute=1.5",
                                      "k tokens_per_minute=-1",
                                      "k tokens_per_minute=1 tokens_per_minute=1",
                                      "k requests_per_minute=1x"};
    struct keys_state s[2];
    struct keys k = {0};
    struct err e;

    assert_int_equal(keys_add_lines(&k, text, sizeof(text) - 1, "F", &e), 0);
    assert_int_equal(k.n, 3);
    assert_true(keys_allow(&k, NULL, "three", name));
    keys_look(&k, name, 5, s);
    assert_true(s[0].most == 0 && s[1].most == 1e9 && s[1].left == 1e9 && s[1].reset_s == 0);
    assert_true(keys_allow(&k, NULL, "one", name));
    keys_look(&k, name, 5, s);
    assert_true(s[0].most == 0 && s[1].most == 0);
    for (int i = 0; i < 1000; i++)
        assert_true(keys_take(&k, name, 5) == 0);
    keys_fini(&k);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(keys_add_lines(&k, bad[i], strlen(bad[i]), "F", &e), ERR_INPUT);
        assert_non_null(strstr(e.msg, "F: key 1: "));
        keys_fini(&k);
    }
}

static void a_key_that_is_given_twice_has_the_limits_of_both(void **state)
{
    static const char text[] = "one requests_per_minute=3\none tokens_per_minute=60\n";
    struct keys_state s[2];
    struct keys k = {0};
    struct err e;

    (void)state;
    assert_int_equal(keys_add(&k, "one", "K", &e), 0);
    assert_int_equal(keys_add_lines(&k, "# empty\n", 8, "F", &e), 0);
    assert_int_equal(keys_add_lines(&k, text, sizeof(text) - 1, "F", &e), 0);
    assert_int_equal(k.n, 1);
    assert_true(keys_allow(&k, NULL, "one", name));
    keys_look(&k, name, 5, s);
    assert_true(s[0].most == 3 && s[1].most == 60);
    assert_int_equal(keys_add_lines(&k, "one tokens_per_minute=9", 23, "F", &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "expected once"));
    keys_fini(&k);
}

static void a_key_that_used_up_its_limit_waits(void **state)
{
    static const char text[] = "one requests_per_minute=3 tokens_per_minute=60\ntwo requests_per_minute=3";
    struct keys_state s[2];
    struct keys k = {0};

    assert_int_equal(keys_add_lines(&k, text, sizeof(text) - 1, "F", NULL), 0);
    assert_true(keys_allow(&k, NULL, "one", name) && keys_allow(&k, NULL, "two", other));
    for (int i = 0; i < 3; i++)
        assert_true(keys_take(&k, name, 100) == 0);
    assert_true(keys_take(&k, name, 100) == 20 && keys_take(&k, other, 100) == 0);
    assert_true(keys_take(&k, name, 110) ==
                10); /* a client that asks too early does not wait longer for it */
    keys_look(&k, name, 110, s);
    assert_true(s[0].most == 3 && s[0].left == 0.5 && s[0].reset_s == 50 && s[1].left == 60);
    assert_true(keys_take(&k, name, 120) == 0 && keys_take(&k, name, 120) == 20);
    keys_charge(&k, name, 90, 120);
    assert_true(keys_take(&k, name, 140) == 11); /* of requests there is one, of tokens ten too few */
    keys_look(&k, name, 140, s);
    assert_true(s[1].left == 0 && s[1].reset_s == 70);
    assert_true(keys_take(&k, name, 151) == 0);
    keys_look(&k, name, 10000, s);
    assert_true(s[0].left == 3 && s[1].left == 60); /* no more than a minute's */
    keys_charge(&k, name, 100, 10000);
    {
        static const char again[] =
            "two\nnew requests_per_minute=3\none tokens_per_minute=120 requests_per_minute=2";
        struct keys next = {0};

        assert_int_equal(keys_add_lines(&next, again, sizeof(again) - 1, "F", NULL), 0);
        keys_keep_used(&next, &k);
        assert_true(keys_take(&next, name, 10000) == 20.5); /* 41 tokens at 120 a minute */
        keys_look(&next, other, 10000, s);
        assert_true(s[0].most == 0);
        keys_fini(&next);
    }
    keys_charge(&k, "no such key", 5, 10000);
    assert_true(keys_take(&k, "no such key", 10000) == 0);
    keys_fini(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_whole_keys_are_taken),
                                       cmocka_unit_test(a_file_has_a_key_a_line),
                                       cmocka_unit_test(a_line_may_limit_its_key),
                                       cmocka_unit_test(a_key_that_is_given_twice_has_the_limits_of_both),
                                       cmocka_unit_test(a_key_that_used_up_its_limit_waits)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
