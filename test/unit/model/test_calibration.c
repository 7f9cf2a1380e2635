/* test_calibration.c - invalid files of gallop calibrate, and the sizes that it finds. */
#include <math.h>

#include "check.h"
#include "model/calibration.h"
#include "ops/linear.h"

#define FILE_OF(linears) "{\"format\":\"gallop scales\",\"version\":1,\"linears\":" linears "}"

static void a_file_that_says_nothing_is_taken(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "at byte 0"},
               {"[]", "\"format\" is not"},
               {"{\"format\":\"scales\",\"version\":1,\"linears\":{}}", "\"format\" is not"},
               {"{\"format\":\"gallop scales\",\"version\":2,\"linears\":{}}", "\"version\" is not 1"},
               {"{\"format\":\"gallop scales\",\"version\":1}", "\"linears\" is not an object"},
               {FILE_OF("{}"), "linear up is missing"},
               {FILE_OF("{\"up\":3}"), "has 0 columns"},
               {FILE_OF("{\"up\":{\"columns\":5,\"largest\":1}}"), "has 5 columns, expected 4"},
               {FILE_OF("{\"up\":{\"columns\":-4,\"largest\":1}}"), "has -4 columns"},
               {FILE_OF("{\"up\":{\"columns\":4}}"), "\"largest\" of linear up"},
               {FILE_OF("{\"up\":{\"columns\":4,\"largest\":-1}}"), "\"largest\" of linear up"},
               {FILE_OF("{\"up\":{\"columns\":4,\"largest\":1e31}}"), "\"largest\" of linear up"},
               {FILE_OF("{\"up\":{\"columns\":4,\"largest\":1e-31}}"), "\"largest\" of linear up"}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct calibration s;
        struct err e = {0};
        float x;
        int rc = calibration_read(&s, bad[i].text, strlen(bad[i].text), "F", &e);

        if (rc == 0)
            rc = calibration_get(&s, "up", 4, &x, &e);
        assert_int_equal(rc, ERR_INPUT);
        if (!strstr(e.msg, bad[i].says) || strncmp(e.msg, "F: ", 3) != 0)
            fail_msg("%zu: %s", i, e.msg);
        calibration_close(&s);
    }
}

static void a_size_is_another_when_it_is_read(void **state)
{
    static const char text[] =
        FILE_OF("{\"up\":{\"columns\":4,\"largest\":2.5},\"head\":{\"columns\":7,\"largest\":0}}");
    struct calibration s;
    struct err e;
    float x;

    assert_int_equal(calibration_read(&s, text, strlen(text), "F", &e), 0);
    assert_int_equal(calibration_get(&s, "up", 4, &x, &e), 0);
    assert_true(x == 2.5f);
    assert_int_equal(calibration_get(&s, "head", 7, &x, &e), 0);
    assert_true(x == 0);
    calibration_close(&s);
}

static void a_size_is_counted_where_it_is_not(void **state)
{
    for (float x = 1e-9f; x < 1e9f; x *= 1.3f) {
        float up = linear_seen_largest(linear_seen_bin(x));

        assert_true(x <= up * 1.000001f && up < x * 1.0906f); /* 2^(1/8) */
    }
    assert_int_equal(linear_seen_bin(1e-30f), 0);
    assert_int_equal(linear_seen_bin(3e38f), LINEAR_SEEN_BINS - 1);
    assert_int_equal(linear_seen_bin(0), 0);
}

/* Rows of one size get that size, rows of similar sizes the largest one, and a few outliers get none. */
static void the_size_of_few_rows_counts_for_all(void **state)
{
    static struct linear_seen one, near, far, none;

    one.rows[linear_seen_bin(3)] = 1000;
    assert_true(fabsf(calibration_find(&one, 2048) / 3 - 1) < 0.1f);
    near.rows[linear_seen_bin(3)] = 1000;
    near.rows[linear_seen_bin(4)] = 500;
    assert_true(fabsf(calibration_find(&near, 2048) / 4 - 1) < 0.1f);
    far.rows[linear_seen_bin(3)] = 1000;
    far.rows[linear_seen_bin(300)] = 2;
    assert_true(calibration_find(&far, 2048) == 0);
    assert_true(calibration_find(&none, 2048) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_says_nothing_is_taken),
        cmocka_unit_test(a_size_is_another_when_it_is_read),
        cmocka_unit_test(a_size_is_counted_where_it_is_not),
        cmocka_unit_test(the_size_of_few_rows_counts_for_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
