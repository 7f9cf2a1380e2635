/* test_keys.c - API keys: who has one, and files of them. */
#include "api/keys.h"

#include "base/mem.h"

static char name[KEYS_NAME], other[KEYS_NAME];

static void only_whole_keys_are_taken(void **state)
{
    struct keys k = {0};

    assert_int_equal(keys_add(&k, "alpha", NULL), 0);
    assert_int_equal(keys_add(&k, "beta", NULL), 0);
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
    assert_int_equal(keys_add_lines(&k, "# none\n", 7, "F", &e), ERR_INPUT);
    assert_int_equal(keys_add(&k, "", &e), ERR_INPUT);
    assert_int_equal(keys_add(&k, "\xc3\xa9", &e), ERR_INPUT);
    keys_fini(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_whole_keys_are_taken),
                                       cmocka_unit_test(a_file_has_a_key_a_line)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
