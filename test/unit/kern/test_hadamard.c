/* test_hadamard.c - the Hadamard rotation of int8 rows and linears is orthogonal and its own inverse, and
 * every kernel gives the same bits. */
#include <math.h>

#include "base/rng.h"
#include "check.h"
#include "rows.h"

enum { MOST = 3072 };

static const size_t sizes[] = {1, 2, 3, 4, 7, 8, 16, 24, 48, 64, 80, 96, 128, 256, 512, 1024, 1536, 3072};

static void hadamard_turn(float *x, size_t n)
{
    kern_table(CPU_REF)->hadamard(x, n);
}

static void a_row_turns_to_other_bits(void **state)
{
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);

    for (size_t i = 1; i < n; i++)
        for (size_t s = 0; list[i].k.hadamard && s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            float want[MOST + 1], got[MOST + 1];

            for (size_t j = 0; j <= sizes[s]; j++)
                want[j] = got[j] = (float)rng_normal(s, j);
            hadamard_turn(want, sizes[s]);
            list[i].k.hadamard(got, sizes[s]);
            check_same(got, want, sizes[s] + 1, "%s n=%zu", list[i].name, sizes[s]);
        }
}

/* 1024 elements are two blocks of 512. */
static void blocks_are_not_longer_than_the_longest(void **state)
{
    float x[2 * KERN_ROTATED] = {1};

    hadamard_turn(x, 2 * KERN_ROTATED);
    for (size_t i = 0; i < 2 * KERN_ROTATED; i++)
        assert_true((x[i] == 0) == (i >= KERN_ROTATED));
}

static void turning_twice_is_turning_not_at_all(void **state)
{
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        float x[MOST], y[MOST];

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
        float x[MOST], y[MOST];
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
        assert_true(fabs(before - after) < 1e-3);
    }
}

/* The rotation spreads one large dim of 64 over 64 dims of an eighth of it. */
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
        cmocka_unit_test(a_row_turns_to_other_bits),
        cmocka_unit_test(blocks_are_not_longer_than_the_longest),
        cmocka_unit_test(turning_twice_is_turning_not_at_all),
        cmocka_unit_test(products_of_rows_stay),
        cmocka_unit_test(a_large_dim_is_spread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
