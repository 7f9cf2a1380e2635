/* test_mx4.c - gemms over MXFP4 panels against those over the same weights unpacked, bit for bit, in every
 * kernel: every nibble with every scale, any rows and columns, and the marks around C. */
#include <math.h>

#include "check.h"
#include "kern/format/mx4.h"
#include "kern/kern.h"
#include "rows.h"
#include "tensor/dtype.h"

enum { NR = KERN_NR, GAP = 3, MOST_SCALE = 252 }; /* With the scale 253, the value 6 is infinite. */

static struct rows list[ROWS_MAX];
static size_t n_rows;

static double value(unsigned nibble, unsigned scale)
{
    static const double fp4[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

    return ldexp(nibble & 8 ? -fp4[nibble & 7] : fp4[nibble & 7], (int)scale - 127);
}

/* A [m, k] and W [n, k], packed and unpacked. The rows of C are further apart than N. */
struct problem {
    size_t m, k, n, panels, ldc;
    uint8_t *nibble, *scale; /* [panels * 32, k], [panels * 32, k / 32] */
    float *a, *bias;
    uint8_t *packed;
    float *f32;
    uint16_t *bf16;
};

static void *take(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

    assert_non_null(p);
    return p;
}

/* Packs the nibbles and scales. */
static void pack(struct problem *p)
{
    size_t groups = p->k / 32;

    memset(p->packed, 0, p->panels * groups * MX4_GROUP_BYTES);
    for (size_t c = 0; c < p->panels * NR; c++)
        for (size_t k = 0; k < p->k; k++) {
            uint8_t *group = p->packed + (c / NR * groups + k / 32) * MX4_GROUP_BYTES;
            unsigned nibble = p->nibble[c * p->k + k], scale = p->scale[c * groups + k / 32];
            float x = (float)value(nibble, scale);
            size_t panel = c / NR * NR * p->k, i = c % NR;

            group[i] = (uint8_t)scale;
            group[mx4_byte(k % 32, i)] |= (uint8_t)(i < 16 ? nibble : nibble << 4);
            p->f32[panel + k * NR + i] = x;
            p->bf16[panel + (k / 2 * NR + i) * 2 + k % 2] = dtype_f32_to_bf16(x);
        }
}

static void make(struct problem *p, struct check_rng *g, size_t m, size_t k, size_t n)
{
    size_t columns;

    *p = (struct problem){.m = m, .k = k, .n = n, .panels = (n + NR - 1) / NR, .ldc = n + GAP};
    columns = p->panels * NR;
    p->nibble = take(columns * k);
    p->scale = take(columns * k / 32);
    p->a = take(m * k * sizeof(float));
    p->bias = check_below(g, 2) ? take(n * sizeof(float)) : NULL;
    p->packed = take(p->panels * (k / 32) * MX4_GROUP_BYTES);
    p->f32 = take(columns * k * sizeof(float));
    p->bf16 = take(columns * k * sizeof(uint16_t));
    for (size_t i = 0; i < columns * k; i++)
        p->nibble[i] = check_u32(g) & 15;
    for (size_t i = 0; i < columns * k / 32; i++)
        p->scale[i] = (uint8_t)(118 + check_below(g, 12));
    for (size_t i = 0; i < m * k; i++)
        p->a[i] = check_float(g);
    if (p->bias)
        check_fill(g, p->bias, n);
}

static void drop(struct problem *p)
{
    free(p->nibble);
    free(p->scale);
    free(p->a);
    free(p->bias);
    free(p->packed);
    free(p->f32);
    free(p->bf16);
}

/* Computes C with K from the packed or the unpacked weights, for the panels [p0, p1). */
static void run(const struct problem *p, const struct kern *k, bool bf16, bool packed, size_t p0, size_t p1,
                float *c)
{
    size_t in_bytes = p->m * kern_in_bytes(p->k), panel = p->k * NR * sizeof(float);
    void *in = take(in_bytes), *scratch = take(panel);
    struct kern_gemm g = {.in = in,
                          .c = c,
                          .ldc = p->ldc,
                          .bias = p->bias,
                          .m = p->m,
                          .k = p->k,
                          .n = p->n,
                          .sums = lent_sums()};

    memset(in, 0xff, in_bytes); /* NaN shows a read. */
    memset(scratch, 0xff, panel);
    for (size_t r = 0; r < p->m; r++)
        (bf16 ? k->gemm_in_bf16 : k->gemm_in_f32)(in, p->a + r * p->k, r, p->m, p->k);
    g.b = packed ? p->packed : bf16 ? (const void *)p->bf16 : p->f32;
    if (packed)
        (bf16 ? k->gemm_mx4_bf16 : k->gemm_mx4_f32)(&g, p0, p1, scratch);
    else
        (bf16 ? k->gemm_bf16 : k->gemm_f32)(&g, p0, p1);
    free(in);
    free(scratch);
}

static float *new_c(const struct problem *p)
{
    float *c = take(p->m * p->ldc * sizeof(*c));

    for (size_t i = 0; i < p->m * p->ldc; i++)
        c[i] = 12345;
    return c;
}

/* Compares packed with unpacked weights, in two cuts, for every kernel. */
static void compare(struct problem *p, struct check_rng *g)
{
    pack(p);
    for (size_t r = 0; r < n_rows; r++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const struct kern *k = &list[r].k;
            size_t cut = check_below(g, p->panels + 1);
            float *want, *got;

            if (bf16 ? !k->gemm_mx4_bf16 : !k->gemm_mx4_f32)
                continue;
            want = new_c(p);
            got = new_c(p);
            run(p, k, bf16, false, 0, p->panels, want);
            run(p, k, bf16, true, 0, cut, got);
            run(p, k, bf16, true, cut, p->panels, got);
            check_same(got, want, p->m * p->ldc, "%s %s m=%zu k=%zu n=%zu", list[r].name,
                       bf16 ? "bf16" : "fp32", p->m, p->k, p->n);
            free(want);
            free(got);
        }
}

static void sums_of_any_shape_have_other_bits_than_unpacked(void **state)
{
    struct check_rng g = {7};

    for (size_t m = 1; m <= 33; m++)
        for (int trial = 0; trial < (m < 14 ? 3 : 1); trial++) {
            struct problem p;

            make(&p, &g, m, 32 * (1 + check_below(&g, 6)), 1 + check_below(&g, 130));
            compare(&p, &g);
            drop(&p);
        }
}

/* K is longer than the KC slice of any gemm. */
static void long_sums_have_other_bits_than_unpacked(void **state)
{
    static const size_t shapes[][3] = {{1, 2880, 96}, {2, 4128, 40}, {12, 2080, 32}, {15, 4192, 33},
                                       {47, 288, 40}, {70, 320, 33}, {300, 544, 33}};
    struct check_rng g = {8};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        struct problem p;

        make(&p, &g, shapes[i][0], shapes[i][1], shapes[i][2]);
        compare(&p, &g);
        drop(&p);
    }
}

/* Each row of A has a single one, so C is W. */
static void a_nibble_with_some_scale_is_another_number(void **state)
{
    struct check_rng g = {9};

    for (unsigned first = 0; first <= MOST_SCALE; first += NR)
        for (size_t m = 1; m <= 16; m += 3) {
            struct problem p;

            make(&p, &g, m, 64, 64);
            for (size_t i = 0; i < p.panels * NR * p.k; i++)
                p.nibble[i] = i & 15;
            for (size_t i = 0; i < p.panels * NR * 2; i++) {
                unsigned s = first + i / 2 % NR;

                p.scale[i] = (uint8_t)(s < MOST_SCALE ? s : MOST_SCALE);
            }
            for (size_t i = 0; i < m * p.k; i++)
                p.a[i] = i % p.k == i / p.k * 7 % p.k;
            compare(&p, &g);
            drop(&p);
        }
}

/* The unpacked panels, with which the other tests compare, hold the weights, and ref multiplies by them. */
static void ref_computes_what_the_format_says(void **state)
{
    struct check_rng g = {10};
    struct problem p;
    float *c;

    make(&p, &g, 5, 96, 50);
    pack(&p);
    c = new_c(&p);
    run(&p, &list[0].k, false, true, 0, p.panels, c);
    for (size_t r = 0; r < p.m; r++)
        for (size_t i = 0; i < p.n; i++) {
            double sum = p.bias ? (double)p.bias[i] : 0, most = fabs(sum);

            for (size_t k = 0; k < p.k; k++) {
                double x = (double)p.a[r * p.k + k] * value(p.nibble[i * p.k + k], p.scale[i * 3 + k / 32]);

                sum += x;
                most += fabs(x);
            }
            assert_true(fabs((double)c[r * p.ldc + i] - sum) <= most * 1e-5);
        }
    free(c);
    drop(&p);
}

static void the_comparison_sees_one_nibble(void **state)
{
    struct check_rng g = {11};
    struct problem p;
    float *want, *got;

    make(&p, &g, 1, 32, 32);
    pack(&p);
    want = new_c(&p);
    got = new_c(&p);
    run(&p, &list[0].k, false, false, 0, 1, want);
    p.packed[mx4_byte(17, 20)] ^= 0x10;
    run(&p, &list[0].k, false, true, 0, 1, got);
    assert_memory_not_equal(got, want, p.ldc * sizeof(float));
    assert_memory_equal(got, want, 20 * sizeof(float));
    free(want);
    free(got);
    drop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_comparison_sees_one_nibble),
        cmocka_unit_test(ref_computes_what_the_format_says),
        cmocka_unit_test(a_nibble_with_some_scale_is_another_number),
        cmocka_unit_test(sums_of_any_shape_have_other_bits_than_unpacked),
        cmocka_unit_test(long_sums_have_other_bits_than_unpacked),
    };

    n_rows = rows_list(list);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
