/* test_int4.c - linears with 4-bit weights that are quantized from floats: their error, equal bits on all
 * kernels, and columns without a scale. */
#include <math.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/threads/pool.h"
#include "check.h"
#include "kern/kern.h"
#include "ops/linear.h"
#include "tensor/view.h"

static struct pool *pool;

enum { M = 3, N = 40, MOST_K = 600 };

struct matrix {
    struct view v;
    float w[N * MOST_K], x[M * MOST_K];
};

/* Returns numbers that are nearly normally distributed. */
static float draw(struct check_rng *g)
{
    float sum = 0;

    for (int i = 0; i < 6; i++)
        sum += check_float(g);
    return sum;
}

static void make(struct matrix *a, size_t k, struct check_rng *g)
{
    for (size_t i = 0; i < N * k; i++)
        a->w[i] = draw(g) * (float)(1 + i / k);
    for (size_t i = 0; i < M * k; i++)
        a->x[i] = draw(g);
    a->v = (struct view){.name = "w",
                         .file = "test",
                         .data = a->w,
                         .dtype = DT_F32,
                         .n_dims = 2,
                         .shape = {N, k},
                         .stride = {(ptrdiff_t)k > 0 ? k : 1, 1}};
}

/* Computes Y [M, N] by a linear of D. */
static void multiply(const struct matrix *a, struct linear_desc d, const char *backend, float *y)
{
    void *in = aligned_alloc(64, M * linear_in_bytes(a->v.shape[1]));
    struct linear l;
    struct err e;

    d.name = "test";
    d.kind = OP_MLP;
    d.part[0] = &a->v;
    d.n_parts = 1;
    d.kern = kern_table(cpu_best());
    if (linear_open(&l, &d, backend, &e) != 0 || linear_pack(&l, &d, pool, &e) != 0)
        fail_msg("%s", e.msg);
    linear_put_all(&l, pool, in, a->x, M);
    linear_run(&l, pool, in, y, N, M);
    linear_close(&l);
    free(in);
}

/* Returns the root of the mean squared error of Y, over that of the exact sums. */
static double off(const struct matrix *a, const float *y, size_t column)
{
    size_t k = a->v.shape[1];
    double error = 0, all = 0;

    for (size_t r = 0; r < M; r++) {
        double sum = 0;

        for (size_t i = 0; i < k; i++) {
            double p = (double)a->x[r * k + i] * (double)a->w[column * k + i];

            sum += p;
            all += p * p;
        }
        error += (sum - (double)y[r * N + column]) * (sum - (double)y[r * N + column]);
    }
    return sqrt(error / all);
}

static double mean_off(const struct matrix *a, const float *y)
{
    double sum = 0;

    for (size_t i = 0; i < N; i++)
        sum += off(a, y, i) / N;
    return sum;
}

/* 16 points between -2.2 and 2.2 standard deviations have an error of 0.085 of them, and MXFP4 slightly
 * more. */
static void four_bits_err_by_more_than_they_must(void **state)
{
    static const size_t ks[] = {32, 33, 67, 128, 160, 256, 576, MOST_K};
    struct check_rng g = {1};

    for (size_t i = 0; i < sizeof(ks) / sizeof(*ks); i++) {
        struct matrix a;
        float y[M * N], native[M * N];

        make(&a, ks[i], &g);
        for (size_t group = 32; group <= 128; group *= 4) {
            multiply(&a, (struct linear_desc){.dtype = DT_I8, .group = group}, "gallop", y);
            multiply(&a, (struct linear_desc){.dtype = DT_I8, .group = group}, "native", native);
            check_same(y, native, M * N, "native, k=%zu, groups of %zu", ks[i], group);
            if (!(mean_off(&a, y) > 0.02 && mean_off(&a, y) < (group == 32 ? 0.1 : 0.125)))
                fail_msg("k=%zu, groups of %zu: %g", ks[i], group, mean_off(&a, y));
        }
        for (int bf16 = 0; bf16 < 2; bf16++) { /* This backend computes in integers. */
            enum dtype t = bf16 ? DT_BF16 : DT_F32;

            multiply(&a, (struct linear_desc){.dtype = t, .to_mxfp4 = true}, NULL, y);
            if (!(mean_off(&a, y) > 0.04 && mean_off(&a, y) < 0.14))
                fail_msg("mxfp4, %s, k=%zu: %g", dtype_name(t), ks[i], mean_off(&a, y));
        }
    }
}

/* Columns of zeros, and of numbers whose 127th part vanishes, give zeros. A single large weight does not
 * spoil its column beyond the error that the rotation spreads over the row. */
static void a_column_without_a_scale_is_no_number(void **state)
{
    struct check_rng g = {2};
    struct matrix a;
    float y[M * N];

    make(&a, 96, &g);
    memset(a.w, 0, 96 * sizeof(float));
    for (size_t i = 96; i < 192; i++)
        a.w[i] = 1e-44f;
    a.w[200] = 1e4f;
    for (size_t group = 32; group <= 128; group *= 4) {
        multiply(&a, (struct linear_desc){.dtype = DT_I8, .group = group}, NULL, y);
        for (size_t r = 0; r < M; r++)
            assert_true(y[r * N] == 0 && y[r * N + 1] == 0);
        assert_true(off(&a, y, 2) < 0.1);
    }
    for (int bf16 = 0; bf16 < 2; bf16++) {
        multiply(&a, (struct linear_desc){.dtype = bf16 ? DT_BF16 : DT_F32, .to_mxfp4 = true}, NULL, y);
        for (size_t r = 0; r < M; r++)
            assert_true(y[r * N] == 0 && fabsf(y[r * N + 1]) < 1e-36f);
    }
}

static void what_four_bits_cannot_hold_is_taken(void **state)
{
    struct check_rng g = {3};
    struct matrix a;
    struct linear_desc d = {.name = "test",
                            .kind = OP_MLP,
                            .part = {&a.v},
                            .n_parts = 1,
                            .dtype = DT_BF16,
                            .to_mxfp4 = true,
                            .kern = kern_table(cpu_best())};
    struct linear l;
    struct err e;

    make(&a, 64, &g);
    a.w[70] = INFINITY;
    assert_int_equal(linear_open(&l, &d, NULL, &e), 0);
    assert_int_equal(linear_pack(&l, &d, pool, &e), ERR_INPUT);
    d.to_mxfp4 = false;
    d.dtype = DT_I8;
    d.group = 32;
    assert_int_equal(linear_open(&l, &d, NULL, &e), 0);
    assert_int_equal(linear_pack(&l, &d, pool, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "holds inf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_bits_err_by_more_than_they_must),
        cmocka_unit_test(a_column_without_a_scale_is_no_number),
        cmocka_unit_test(what_four_bits_cannot_hold_is_taken),
    };
    struct err e;
    int failed;

    if (pool_new(&pool, 2, &e) != 0)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    pool_free(pool);
    return failed;
}
