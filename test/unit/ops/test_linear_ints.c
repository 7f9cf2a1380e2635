/* test_linear_ints.c - the integers and scales that are read back from packed weights are those with which the gemms
 * compute: their products, added up here, have the bits of linear_run(). */
#include <math.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/threads/pool.h"
#include "check.h"
#include "kern/kern.h"
#include "ops/linear.h"
#include "ops/linear_ints.h"
#include "ops/rotate.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

static struct pool *pool;

enum { M = 3, N = 72, MOST_K = 2600 };

static float w[N * MOST_K], x[M * MOST_K], y[M * N];

/* Writes row I of the weights of L to OUT [k] as integers. Returns their scale. */
static float read_row(const struct linear *l, size_t i, int *out)
{
    static uint8_t code[MOST_K];
    static int8_t number[MOST_K], multiple[MOST_K], offset[MOST_K];
    bool is_int4 = linear_ints_of(l) == LINEAR_INT4;
    float scale = is_int4 ? linear_ints_row4(l, i, code, multiple, offset) : linear_ints_row8(l, i, number);

    for (size_t k = 0; k < l->k; k++)
        out[k] = is_int4 ? multiple[k / l->group] * code[k] + offset[k / l->group] : number[k];
    return scale;
}

/* Writes the rotated input X [k] as integers to OUT. Returns their scale. */
static float read_input(const struct linear *l, const float *in, int *out)
{
    static float rotated[MOST_K];
    float most = 0;

    rotate(l->kern, rotated, in, l->k);
    for (size_t k = 0; k < l->k; k++)
        most = fmaxf(most, fabsf(rotated[k]));
    for (size_t k = 0; k < l->k; k++)
        out[k] = (int)rintf(rotated[k] * (127 / most));
    return most / 127;
}

/* Packs the weights [N, k]. */
static void pack(struct linear *l, size_t k, size_t group, bool paired)
{
    const struct view v = {.name = "w",
                           .file = "test",
                           .data = w,
                           .dtype = DT_F32,
                           .n_dims = 2,
                           .shape = {N, k},
                           .stride = {k, 1}};
    const struct linear_desc d = {.name = "test",
                                  .kind = OP_MLP,
                                  .part = {&v},
                                  .n_parts = 1,
                                  .paired = paired,
                                  .dtype = DT_I8,
                                  .group = group,
                                  .kern = kern_table(cpu_best())};
    struct err e;

    if (linear_open(l, &d, NULL, &e) != 0 || linear_pack(l, &d, pool, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(linear_ints_of(l), group ? LINEAR_INT4 : LINEAR_INT8);
}

/* Compares with the gemm, and the rows with those of a linear whose columns are packed in pairs. */
static void compare(size_t k, size_t group)
{
    static int weight[MOST_K], input[MOST_K], other[MOST_K];
    void *in = aligned_alloc(64, M * linear_in_bytes(k));
    struct linear l, pairs;

    pack(&l, k, group, false);
    pack(&pairs, k, group, true);
    linear_put_all(&l, pool, in, x, M);
    linear_run(&l, pool, in, y, N, M);
    for (size_t i = 0; i < N; i++) {
        float s = read_row(&l, i, weight);

        assert_true(s == read_row(&pairs, i, other));
        assert_memory_equal(weight, other, k * sizeof(*weight));
        for (size_t r = 0; r < M; r++) {
            float scale = read_input(&l, x + r * k, input), expected;
            long sum = 0;

            for (size_t c = 0; c < k; c++)
                sum += (long)weight[c] * input[c];
            expected = (float)sum * (scale * s);
            if (expected != y[r * N + i])
                fail_msg("k %zu, group %zu: row %zu is %g, expected %g", k, group, i, (double)y[r * N + i],
                         (double)expected);
        }
    }
    linear_close(&l);
    linear_close(&pairs);
    free(in);
}

static void integers_are_those_of_the_gemm(void **state)
{
    static const size_t ks[] = {1, 2, 31, 32, 33, 67, 128, 160, 576, 2048, MOST_K};
    struct check_rng g = {1};

    for (size_t i = 0; i < N * MOST_K; i++)
        w[i] = check_float(&g) + check_float(&g) * check_float(&g);
    for (size_t i = 0; i < M * MOST_K; i++)
        x[i] = check_float(&g) + check_float(&g);
    for (size_t i = 0; i < sizeof(ks) / sizeof(ks[0]); i++) {
        compare(ks[i], 0);
        compare(ks[i], 32);
        compare(ks[i], 128);
    }
}

static void floats_have_no_integers(void **state)
{
    const struct view v = {.name = "w",
                           .file = "test",
                           .data = w,
                           .dtype = DT_F32,
                           .n_dims = 2,
                           .shape = {N, 64},
                           .stride = {64, 1}};
    struct linear_desc d = {.name = "test",
                            .kind = OP_MLP,
                            .part = {&v},
                            .n_parts = 1,
                            .dtype = DT_F32,
                            .kern = kern_table(cpu_best())};
    struct linear l;
    struct err e;

    assert_int_equal(linear_open(&l, &d, NULL, &e), 0);
    assert_int_equal(linear_ints_of(&l), LINEAR_NO_INTS);
    linear_close(&l);
    d.to_mxfp4 = true;
    assert_int_equal(linear_open(&l, &d, NULL, &e), 0);
    assert_int_equal(linear_ints_of(&l), LINEAR_NO_INTS);
    linear_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_those_of_the_gemm),
        cmocka_unit_test(floats_have_no_integers),
    };
    struct err e;
    int failed;

    if (pool_new(&pool, 2, &e) != 0)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    pool_free(pool);
    return failed;
}
