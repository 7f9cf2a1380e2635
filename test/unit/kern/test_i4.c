/* test_i4.c - gemm_i4 against gemm_i8 over the same weights as bytes, bit for bit, in every kernel: any rows
 * and columns, both group sizes, a shorter last group, every epilogue. */
#include <math.h>

#include "check.h"
#include "kern/format/int4.h"
#include "kern/kern.h"
#include "rows.h"

enum { NR = KERN_NR, GAP = 3 };

static struct rows list[ROWS_MAX];
static size_t n_rows;

/* A [m, k] and W [n, k], in 4 bits and as bytes. The rows of C are further apart than N. */
struct problem {
    size_t m, k, n, group, panels, ldc;
    float *a, *bias;
    uint8_t *i4, *i8;
};

static void *take(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

    assert_non_null(p);
    memset(p, 0, (bytes + 127) / 64 * 64);
    return p;
}

/* Stores column C of panel P: a random scale and zero point for each group, and codes whose weights stay
 * within int8. */
static void put_column(const struct problem *p, size_t panel, size_t c, struct check_rng *g)
{
    uint8_t *i4 = p->i4 + panel * int4_panel_bytes(p->k, p->group);
    uint8_t *i8 = p->i8 + panel * kern_i8_panel_bytes(p->k);
    float scale = fabsf(check_float(g));
    int32_t sum = 0;
    int multiple = 0, offset = 0;

    for (size_t k = 0; k < p->k; k++) {
        uint8_t *head = i4 + k / p->group * (INT4_HEAD + p->group / 32 * INT4_CODES);
        size_t in_group = k % p->group, line = in_group / 32 * 8 + in_group % 32 / 8 * 2 + c / 16;
        int code;

        if (in_group == 0) {
            multiple = 1 + (int)check_below(g, INT4_MULTIPLE);
            offset = (int)check_below(g, (unsigned)(255 - 15 * (multiple < 17 ? multiple : 16))) - 127;
            head[c] = (uint8_t)multiple;
            head[NR + c] = (uint8_t)(int8_t)offset;
        }
        do
            code = (int)check_below(g, 16);
        while (multiple * code + offset > 127);
        head[INT4_HEAD + line * 64 + c % 16 * 4 + k % 4] |= (uint8_t)(code << k % 8 / 4 * 4);
        i8[k / 4 * 4 * NR + 4 * c + k % 4] = (uint8_t)(int8_t)(multiple * code + offset);
        sum -= 128 * (multiple * code + offset);
    }
    for (int t = 0; t < 2; t++) {
        uint8_t *tail =
            (t ? i4 + int4_panel_bytes(p->k, p->group) : i8 + kern_i8_panel_bytes(p->k)) - KERN_I8_TAIL;

        memcpy(tail + 4 * c, &sum, 4);
        memcpy(tail + KERN_I8_TAIL / 2 + 4 * c, &scale, 4);
    }
}

static void make(struct problem *p, struct check_rng *g, size_t m, size_t k, size_t n, size_t group)
{
    *p =
        (struct problem){.m = m, .k = k, .n = n, .group = group, .panels = (n + NR - 1) / NR, .ldc = n + GAP};
    p->a = take(m * k * sizeof(float));
    p->bias = check_below(g, 2) ? take(p->panels * NR * sizeof(float)) : NULL;
    p->i4 = take(p->panels * int4_panel_bytes(k, group));
    p->i8 = take(p->panels * kern_i8_panel_bytes(k));
    check_fill(g, p->a, m * k);
    if (p->bias)
        check_fill(g, p->bias, n);
    for (size_t j = 0; j < n; j++)
        put_column(p, j / NR, j % NR, g);
}

static void drop(struct problem *p)
{
    free(p->a);
    free(p->bias);
    free(p->i4);
    free(p->i8);
}

/* Computes C with K for the panels [p0, p1), in 4 bits or as bytes. */
static void run(const struct problem *p, const struct kern *k, bool packed, enum kern_gemm_end end, size_t p0,
                size_t p1, float *c)
{
    void *in = take(p->m * kern_in_bytes(p->k)), *scratch = take(kern_i8_panel_bytes(p->k));
    struct kern_gemm g = {.in = in,
                          .c = c,
                          .ldc = p->ldc,
                          .bias = p->bias,
                          .m = p->m,
                          .k = p->k,
                          .n = end == KERN_GLU ? p->panels * NR / 2 : p->n,
                          .end = end,
                          .act = KERN_SILU,
                          .sums = lent_sums()};

    memset(in, 0xff, p->m * kern_in_bytes(p->k));
    memset(scratch, 0xff, kern_i8_panel_bytes(p->k));
    for (size_t r = 0; r < p->m; r++)
        k->gemm_in_i8(in, p->a + r * p->k, r, p->m, p->k, 0);
    g.first = p0;
    g.ahead = p->panels;
    g.b = packed ? p->i4 + p0 * int4_panel_bytes(p->k, p->group) : p->i8 + p0 * kern_i8_panel_bytes(p->k);
    if (packed)
        k->gemm_i4(&g, p->group, p0, p1, scratch);
    else
        k->gemm_i8(&g, p0, p1);
    free(in);
    free(scratch);
}

static float *new_c(const struct problem *p)
{
    size_t n = p->m * (p->panels * NR + GAP);
    float *c = take(n * sizeof(*c));

    for (size_t i = 0; i < n; i++)
        c[i] = 12345;
    return c;
}

/* Compares bytes with 4 bits, in two cuts, and both with ref, for every kernel. */
static void compare(struct problem *p, struct check_rng *g)
{
    static const enum kern_gemm_end ends[] = {KERN_SUMS, KERN_ACT, KERN_GLU};
    enum kern_gemm_end end = ends[check_below(g, 3)];
    size_t cut = check_below(g, p->panels + 1), n;
    float *of_ref = new_c(p);

    p->ldc = (end == KERN_GLU ? p->panels * NR / 2 : p->n) + GAP;
    n = p->m * p->ldc;
    run(p, &list[0].k, true, end, 0, p->panels, of_ref);
    for (size_t r = 0; r < n_rows; r++) {
        const struct kern *k = &list[r].k;
        float *want = new_c(p), *got = new_c(p);

        if (k->gemm_i4) {
            run(p, k, false, end, 0, p->panels, want);
            run(p, k, true, end, 0, cut, got);
            run(p, k, true, end, cut, p->panels, got);
            check_same(got, want, n, "%s m=%zu k=%zu n=%zu group=%zu", list[r].name, p->m, p->k, p->n,
                       p->group);
            check_same(got, of_ref, n, "%s and ref", list[r].name);
        }
        free(want);
        free(got);
    }
    free(of_ref);
}

static void sums_of_any_shape_have_other_bits_than_those_of_bytes(void **state)
{
    struct check_rng g = {7};

    for (size_t m = 1; m <= 50; m++)
        for (int trial = 0; trial < (m < 14 ? 3 : 1); trial++) {
            struct problem p;

            make(&p, &g, m, 32 * (1 + check_below(&g, 13)), 1 + check_below(&g, 130), trial % 2 ? 32 : 128);
            compare(&p, &g);
            drop(&p);
        }
}

static void long_sums_have_other_bits_than_those_of_bytes(void **state)
{
    static const size_t shapes[][3] = {{1, 2880, 96},  {2, 4128, 40}, {12, 2080, 32},  {40, 4192, 33},
                                       {70, 288, 200}, {48, 320, 40}, {300, 1088, 33}, {256, 576, 33}};
    struct check_rng g = {8};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        struct problem p;

        make(&p, &g, shapes[i][0], shapes[i][1], shapes[i][2], i % 2 ? 32 : 128);
        compare(&p, &g);
        drop(&p);
    }
}

static void the_comparison_sees_one_code(void **state)
{
    struct check_rng g = {11};
    struct problem p;
    float *want, *got;

    make(&p, &g, 1, 64, 32, 32);
    want = new_c(&p);
    got = new_c(&p);
    run(&p, &list[0].k, true, KERN_SUMS, 0, 1, want);
    p.i4[int4_codes(1, 32) + 3 * INT4_LINE + 4 * 4 + 2] ^= 0x10; /* a code of column 20 */
    run(&p, &list[0].k, true, KERN_SUMS, 0, 1, got);
    assert_memory_equal(got, want, 20 * sizeof(float));
    assert_true(got[20] != want[20]);
    assert_memory_equal(got + 21, want + 21, 11 * sizeof(float));
    free(want);
    free(got);
    drop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_comparison_sees_one_code),
        cmocka_unit_test(sums_of_any_shape_have_other_bits_than_those_of_bytes),
        cmocka_unit_test(long_sums_have_other_bits_than_those_of_bytes),
    };

    n_rows = rows_list(list);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
