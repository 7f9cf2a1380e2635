/* test_hadamard.c - the rotation of int8 rows is orthogonal and its own inverse. */
#include "ops/hadamard.h"

#include <math.h>

#include "base/rng.h"

static const size_t sizes[] = {1, 2, 3, 7, 16, 48, 64, 80, 96, 128, 256, 512};

static void turning_twice_is_turning_not_at_all(void **state)
{
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        float x[512], y[512];

        for (size_t i = 0; i < sizes[s]; i++)
            x[i] = y[i] = (float)rng_normal(s, i);
        hadamard_turn(y, sizes[s]);
        hadamard_turn(y, sizes[s]);
        for (size_t i = 0; i < sizes[s]; i++)
            assert_true(fabsf(x[i] - y[i]) < 4e-6f);
    }
}

static void products_of_rows_stay(void **state)
{
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        float x[512], y[512];
        double before = 0, after = 0;

        for (size_t i = 0; i < sizes[s]; i++) {
            x[i] = (float)rng_normal(s, i);
            y[i] = (float)rng_normal(s + 100, i);
            before += (double)x[i] * (double)y[i];
        }
        hadamard_turn(x, sizes[s]);
        hadamard_turn(y, sizes[s]);
        for (size_t i = 0; i < sizes[s]; i++)
            after += (double)x[i] * (double)y[i];
        assert_true(fabs(before - after) < 1e-4);
    }
}

/* What it is for: one large dim of 64 becomes 64 dims of an eighth of it. */
static void a_large_dim_is_spread(void **state)
{
    float x[64] = {0};

    x[5] = 8;
    hadamard_turn(x, 64);
    for (size_t i = 0; i < 64; i++)
        assert_true(fabsf(fabsf(x[i]) - 1) < 1e-6f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turning_twice_is_turning_not_at_all),
        cmocka_unit_test(products_of_rows_stay),
        cmocka_unit_test(a_large_dim_is_spread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
