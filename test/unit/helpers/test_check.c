/* test_check.c - the comparisons of the kernel tests must be able to fail. */
#include <math.h>

#include "check.h"

enum { N = 100 };

static void fill(float x[N], double want[N], double tolerance[N])
{
    struct check_rng g = {7};

    check_fill(&g, x, N);
    for (int i = 0; i < N; i++) {
        want[i] = (double)x[i];
        tolerance[i] = 1e-6;
    }
}

static void the_truth_passes(void **state)
{
    float x[N];
    double want[N], tolerance[N];

    fill(x, want, tolerance);
    assert_int_equal(check_differs(x, x, N), N);
    assert_true(check_error(x, want, tolerance, N).within);
    assert_true(check_error(x, want, tolerance, N).max_abs == 0);
}

static void all_zeros_fail(void **state)
{
    float x[N], zero[N] = {0};
    double want[N], tolerance[N];

    fill(x, want, tolerance);
    assert_true(check_differs(zero, x, N) < N);
    assert_false(check_error(zero, want, tolerance, N).within);
    assert_true(fabs(check_error(zero, want, tolerance, N).relative_l2 - 1) < 1e-12);
}

static void one_wrong_element_fails_and_is_named(void **state)
{
    float x[N], y[N];
    double want[N], tolerance[N];

    fill(x, want, tolerance);
    for (int i = 0; i < N; i++) {
        struct check_error e;

        for (int j = 0; j < N; j++)
            y[j] = x[j];
        y[i] += 1e-3f;
        assert_int_equal(check_differs(y, x, N), i);
        e = check_error(y, want, tolerance, N);
        assert_false(e.within);
        assert_int_equal(e.worst, i);
        assert_true(fabs(e.max_abs - 1e-3) < 1e-6);
    }
}

static void one_bit_fails_where_bits_are_asked_for(void **state)
{
    float a = 1.0f, b = nextafterf(1.0f, 2.0f), zero = 0.0f, minus = -0.0f;
    uint16_t h = 0x3f80, h2 = 0x3f81;

    assert_int_equal(check_differs(&a, &b, 1), 0);
    assert_int_equal(check_differs(&zero, &minus, 1), 0);
    assert_int_equal(check_differs_bf16(&h, &h2, 1), 0);
}

static void nan_is_equal_to_nan_only(void **state)
{
    float a = NAN, b = -NAN, c = 1.0f;
    double want = 1, nan = (double)NAN, tolerance = 1e9;
    uint16_t h = 0x7fc0, h2 = 0xffc1, h3 = 0x7f80;

    assert_int_equal(check_differs(&a, &b, 1), 1);
    assert_int_equal(check_differs(&a, &c, 1), 0);
    assert_int_equal(check_differs_bf16(&h, &h2, 1), 1);
    assert_int_equal(check_differs_bf16(&h, &h3, 1), 0);
    assert_false(check_error(&a, &want, &tolerance, 1).within);
    assert_false(check_error(&c, &nan, &tolerance, 1).within);
}

static void infinity_is_near_itself_only(void **state)
{
    float a = INFINITY, b = -INFINITY, c = 3e38f;
    double want = (double)INFINITY, tolerance = 1;

    assert_true(check_error(&a, &want, &tolerance, 1).within);
    assert_false(check_error(&b, &want, &tolerance, 1).within);
    assert_false(check_error(&c, &want, &tolerance, 1).within);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_truth_passes),
        cmocka_unit_test(all_zeros_fail),
        cmocka_unit_test(one_wrong_element_fails_and_is_named),
        cmocka_unit_test(one_bit_fails_where_bits_are_asked_for),
        cmocka_unit_test(nan_is_equal_to_nan_only),
        cmocka_unit_test(infinity_is_near_itself_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
