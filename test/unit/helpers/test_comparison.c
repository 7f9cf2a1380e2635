/* test_comparison.c - the comparison of integers that all tests use fails, and its message says what was
 * compared. */
#include <unistd.h>

static int three(void)
{
    return 3;
}

static void a_comparison_that_fails(void **state)
{
    assert_int_equal(three() + 1, -5);
}

static void a_comparison_of_unequal_numbers_fails_and_says_what_they_are(void **state)
{
    char program[4096], command[4200], said[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    size_t n;
    FILE *p;

    assert_true(length > 0);
    snprintf(command, sizeof(command), "'%.*s' fail 2>&1", (int)length, program);
    p = popen(command, "r");
    assert_non_null(p);
    n = fread(said, 1, sizeof(said) - 1, p);
    said[n] = 0;
    if (pclose(p) == 0 || !strstr(said, "three() + 1 is 4 (0x4), expected -5 (0xfffffffffffffffb), -5"))
        fail_msg("it says: %s", said);
}

static void equal_numbers_of_any_type_are_equal(void **state)
{
    assert_int_equal(three(), 3);
    assert_int_equal(-1, (int64_t)-1);
    assert_int_equal(UINT64_MAX, (uint64_t)-1);
    assert_int_equal((size_t)7, (char)7);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest failing[] = {cmocka_unit_test(a_comparison_that_fails)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comparison_of_unequal_numbers_fails_and_says_what_they_are),
        cmocka_unit_test(equal_numbers_of_any_type_are_equal),
    };

    if (argc == 2 && strcmp(argv[1], "fail") == 0)
        return cmocka_run_group_tests(failing, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
