/* test_mx4.c - MXFP4 panels unpacked: every nibble with every scale against ldexp(), every row of the kernel
 * table against ref bit for bit, and the marks behind the output. */
#include <math.h>

#include "check.h"
#include "kern/kern.h"
#include "rows.h"
#include "tensor/dtype.h"

enum { NR = KERN_NR, GROUP_BYTES = NR + 16 * NR, GROUPS = 5, K = GROUPS * 32 };

static struct rows list[ROWS_MAX];
static size_t n_rows;

static double value(unsigned nibble, unsigned scale)
{
    static const double fp4[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

    if (scale == 255)
        return NAN;
    return ldexp(nibble & 8 ? -fp4[nibble & 7] : fp4[nibble & 7], (int)scale - 127);
}

/* Element K_AT of column C of a packed panel. */
static double plain(const uint8_t *packed, size_t k_at, size_t c)
{
    const uint8_t *group = packed + k_at / 32 * GROUP_BYTES;
    unsigned byte = group[NR + k_at % 32 / 2 * NR + c];

    return value(k_at % 2 ? byte >> 4 : byte & 15, group[c]);
}

static bool same(double want, float got)
{
    if (isnan(want))
        return isnan(got);
    return (float)want == got && signbit((float)want) == signbit(got);
}

/* What a row makes of PACKED, as fp32; [K][32]. */
static void unpack(const struct kern *k, bool bf16, const uint8_t *packed, float *out)
{
    static uint16_t half[(K + 2) * NR];

    if (!bf16) {
        k->mx4_f32(out, packed, K);
        return;
    }
    memset(half, 0x55, sizeof(half));
    k->mx4_bf16(half, packed, K);
    for (size_t i = 0; i < K; i++)
        for (size_t c = 0; c < NR; c++)
            out[i * NR + c] = dtype_bf16_to_f32(half[i / 2 * 2 * NR + 2 * c + i % 2]);
    assert_int_equal(half[K * NR], 0x5555);
}

static void check_panel(const uint8_t *packed)
{
    float *out = malloc((K + 1) * NR * sizeof(*out));

    for (size_t r = 0; r < n_rows; r++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const struct kern *k = &list[r].k;

            if (bf16 ? !k->mx4_bf16 : !k->mx4_f32)
                continue;
            out[K * NR] = 12345;
            unpack(k, bf16, packed, out);
            assert_true(out[K * NR] == 12345);
            for (size_t i = 0; i < K; i++)
                for (size_t c = 0; c < NR; c++)
                    if (!same(plain(packed, i, c), out[i * NR + c]))
                        fail_msg("%s %s: element %zu of column %zu is %g, expected %g", list[r].name,
                                 bf16 ? "bf16" : "fp32", i, c, (double)out[i * NR + c], plain(packed, i, c));
        }
    free(out);
}

static void a_nibble_with_some_scale_unpacks_to_another_number(void **state)
{
    uint8_t *packed = malloc(GROUPS * GROUP_BYTES);

    for (unsigned first = 0; first < 256; first += NR)
        for (unsigned turn = 0; turn < 16; turn++) {
            for (size_t g = 0; g < GROUPS; g++)
                for (size_t c = 0; c < NR; c++) {
                    packed[g * GROUP_BYTES + c] = (uint8_t)(first + (c + g) % NR);
                    for (size_t i = 0; i < 16; i++)
                        packed[g * GROUP_BYTES + NR + i * NR + c] = (uint8_t)(i << 4 | ((i + turn) & 15));
                }
            check_panel(packed);
        }
    free(packed);
}

static void random_panels_unpack_to_other_numbers(void **state)
{
    struct check_rng g = {7};
    uint8_t *packed = malloc(GROUPS * GROUP_BYTES);

    for (int turn = 0; turn < 50; turn++) {
        for (size_t i = 0; i < GROUPS * GROUP_BYTES; i++)
            packed[i] = (uint8_t)check_u32(&g);
        check_panel(packed);
    }
    free(packed);
}

static void the_comparison_sees_a_wrong_sign_value_and_nan(void **state)
{
    assert_true(same(value(5, 128), 6));
    assert_false(same(value(5, 128), -6));
    assert_false(same(value(5, 128), 5));
    assert_false(same(value(5, 128), NAN));
    assert_false(same(value(8, 127), 0.0f)); /* minus zero */
    assert_true(same(value(7, 254), INFINITY));
    assert_true(same(value(1, 0), 0x1p-128f));
    assert_true(same(value(0, 255), NAN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_comparison_sees_a_wrong_sign_value_and_nan),
        cmocka_unit_test(a_nibble_with_some_scale_unpacks_to_another_number),
        cmocka_unit_test(random_panels_unpack_to_other_numbers),
    };

    n_rows = rows_list(list);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
