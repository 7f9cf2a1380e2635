/* test_rng.c - Philox against its published known answers, and the properties that the sampler needs. */
#include <math.h>

#include "base/rng.h"

/* Known answers of Random123 (kat_vectors, philox4x32 with 10 rounds): counter, key, result. */
static const struct {
    uint32_t counter[4], key[2], result[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void blocks_are_those_of_the_paper(void **state)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        const uint32_t *c = known[i].counter, *k = known[i].key;
        uint32_t out[4];

        rng_block((uint64_t)k[1] << 32 | k[0], (uint64_t)c[3] << 32 | c[2], (uint64_t)c[1] << 32 | c[0], out);
        assert_memory_equal(out, known[i].result, sizeof(out));
    }
}

static void every_bit_of_seed_and_counter_matters(void **state)
{
    uint32_t base[4], other[4];

    rng_block(5, 6, 7, base);
    for (int bit = 0; bit < 64; bit++) {
        uint64_t flip = UINT64_C(1) << bit;

        rng_block(5 ^ flip, 6, 7, other);
        assert_memory_not_equal(base, other, sizeof(base));
        rng_block(5, 6 ^ flip, 7, other);
        assert_memory_not_equal(base, other, sizeof(base));
        rng_block(5, 6, 7 ^ flip, other);
        assert_memory_not_equal(base, other, sizeof(base));
    }
}

static void uniform_numbers_have_53_bits_below_one(void **state)
{
    double sum = 0, square = 0, lowest = 1, highest = 0;
    const size_t n = 200000;
    int odd = 0;

    for (size_t i = 0; i < n; i++) {
        double u = rng_uniform(42, i);

        assert_true(u >= 0 && u < 1 && u * 0x1p53 == floor(u * 0x1p53));
        odd += fmod(u * 0x1p53, 2) == 1;
        sum += u;
        square += u * u;
        lowest = u < lowest ? u : lowest;
        highest = u > highest ? u : highest;
    }
    assert_true(fabs(sum / n - 0.5) < 0.003 && fabs(square / n - 1.0 / 3) < 0.003);
    assert_true(lowest < 1e-4 && highest > 1 - 1e-4);
    assert_true(odd > 99000 && odd < 101000); /* The lowest bit varies as well. */
}

static void uniform_numbers_depend_on_seed_and_index_alone(void **state)
{
    double a = rng_uniform(1, 1000);

    rng_uniform(2, 5);
    assert_true(rng_uniform(1, 1000) == a);
    assert_true(rng_uniform(2, 1000) != a && rng_uniform(1, 1001) != a);
    assert_true(rng_uniform(UINT64_C(1) << 40 | 1, 1000) != a);
}

static void normal_numbers_have_the_right_moments_and_tails(void **state)
{
    double m1 = 0, m2 = 0, m4 = 0, product = 0;
    const size_t n = 200000;
    size_t beyond = 0;

    for (size_t i = 0; i < n; i++) {
        double z = rng_normal(9, i);

        assert_true(isfinite(z));
        m1 += z;
        m2 += z * z;
        m4 += z * z * z * z;
        beyond += fabs(z) > 2;
        product += z * (rng_uniform(9, i) - 0.5);
    }
    assert_true(fabs(m1 / n) < 0.01 && fabs(m2 / n - 1) < 0.02 && fabs(m4 / n - 3) < 0.1);
    assert_true(fabs((double)beyond / n - 0.0455) < 0.003);
    assert_true(fabs(product / n) < 0.005); /* They are independent of the uniform numbers. */
}

/* Requests without a seed draw different numbers, those of another engine too. */
static void fresh_seeds_differ(void **state)
{
    struct rng_seeds seeds[2];
    uint64_t all[2][100];

    for (int k = 0; k < 2; k++) {
        rng_seeds_init(&seeds[k]);
        for (int i = 0; i < 100; i++)
            all[k][i] = rng_seeds_next(&seeds[k]);
    }
    for (int i = 0; i < 200; i++)
        for (int k = 0; k < i; k++)
            assert_true(all[i / 100][i % 100] != all[k / 100][k % 100]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_those_of_the_paper),
        cmocka_unit_test(every_bit_of_seed_and_counter_matters),
        cmocka_unit_test(uniform_numbers_have_53_bits_below_one),
        cmocka_unit_test(uniform_numbers_depend_on_seed_and_index_alone),
        cmocka_unit_test(normal_numbers_have_the_right_moments_and_tails),
        cmocka_unit_test(fresh_seeds_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
