/* test_stat.c - order statistics against a sorted copy. */
#include <math.h>

#include "base/rng.h"
#include "base/stat.h"

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void nothing_has_no_statistics(void **state)
{
    double x[1] = {0};

    assert_true(isnan(stat_min(x, 0)) && isnan(stat_max(x, 0)) && isnan(stat_median(x, 0)));
}

static void the_median_of_an_even_number_is_the_middle_of_two(void **state)
{
    double even[] = {4, 1, 3, 2}, odd[] = {5, -1, 2}, one[] = {7};

    assert_true(stat_median(even, 4) == 2.5);
    assert_true(stat_median(odd, 3) == 2);
    assert_true(stat_median(one, 1) == 7);
}

static void percentiles_of_few_lie_between_them(void **state)
{
    static const double p[] = {0, 50, 90, 99, 100};

    for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
        double none[1] = {0}, one[1] = {7}, two[2] = {30, 10};

        assert_true(isnan(stat_percentile(none, 0, p[i])));
        assert_true(stat_percentile(one, 1, p[i]) == 7);
        assert_true(fabs(stat_percentile(two, 2, p[i]) - (10 + 20 * p[i] / 100)) < 1e-12);
    }
    assert_true(isnan(stat_mean(NULL, 0)) && stat_mean((double[]){3, 4}, 2) == 3.5);
}

static void order_of_the_input_changes_nothing(void **state)
{
    double x[301], sorted[301], work[301];

    for (int shape = 0; shape < 5; shape++) {
        for (size_t n = 1; n <= 301; n += 25) {
            for (size_t i = 0; i < n; i++)
                x[i] = shape == 0   ? rng_uniform(3, i)
                       : shape == 1 ? (double)i
                       : shape == 2 ? -(double)i
                       : shape == 3 ? (double)(i % 4)
                                    : 1.5;
            memcpy(sorted, x, sizeof(x));
            qsort(sorted, n, sizeof(*sorted), ascending);
            assert_true(stat_min(x, n) == sorted[0] && stat_max(x, n) == sorted[n - 1]);
            memcpy(work, x, sizeof(x));
            assert_true(fabs(stat_median(work, n) - (sorted[(n - 1) / 2] + sorted[n / 2]) / 2) < 1e-9);
            assert_memory_equal(work, sorted, n * sizeof(*work)); /* reordered, not changed */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_has_no_statistics),
        cmocka_unit_test(the_median_of_an_even_number_is_the_middle_of_two),
        cmocka_unit_test(percentiles_of_few_lie_between_them),
        cmocka_unit_test(order_of_the_input_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
