/* test_mxfp4.c - the backends that keep weights in four bits: the size of their weights, and equal bits
 * with the same weights unpacked when loaded, in every stored form; for integers, the error of rounding
 * the input. */
#include <math.h>

#include "base/files/map.h"
#include "base/rng.h"
#include "base/threads/pool.h"
#include "kern/kern.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

enum { N = 75, K = 160, BLOCKS = K / 32, M = 6 }; /* N is not a multiple of the 32 columns of a panel. */

struct setup {
    uint8_t blocks[2 * N * BLOCKS * 16],
        scales[2 * N * BLOCKS]; /* Rows of gate and up are interleaved, as in GPT-OSS. */
    uint8_t gguf[N * BLOCKS * 17];
    float x[M * K], bias[2 * N];
    struct pool *pool;
};

static void open_setup(struct setup *s)
{
    struct err e = {0};
    uint32_t r[4];

    for (size_t i = 0; i < sizeof(s->blocks); i++) {
        rng_block(1, 0, i, r);
        s->blocks[i] = (uint8_t)r[0];
    }
    for (size_t i = 0; i < sizeof(s->scales); i++) {
        rng_block(2, 0, i, r);
        s->scales[i] = (uint8_t)(120 + r[0] % 12);
    }
    for (size_t i = 0; i < sizeof(s->gguf); i++) {
        rng_block(3, 0, i, r);
        s->gguf[i] = i % 17 ? (uint8_t)r[0] : (uint8_t)(120 + r[0] % 12);
    }
    for (size_t i = 0; i < M * K; i++) {
        s->x[i] = (float)rng_normal(5, i);
    }
    for (size_t i = 0; i < 2 * N; i++)
        s->bias[i] = (float)rng_normal(6, i);
    assert_int_equal(pool_new(&s->pool, 2, &e), 0);
}

/* Computes y = x W^T by BACKEND (NULL: the first that accepts). */
static void run(struct setup *s, const struct linear_desc *d, const char *backend, float *y, size_t *packed)
{
    struct linear l;
    struct err e = {0};
    void *in;

    assert_int_equal(linear_open(&l, d, backend, &e), 0);
    assert_int_equal(linear_pack(&l, d, s->pool, &e), 0);
    if (!backend)
        assert_string_equal(l.backend->name, d->to_mxfp4 ? "mxfp4_int8" : "mxfp4");
    *packed = l.packed_bytes;
    memset(y, 0x7f, M * l.n * sizeof(*y));
    in = map_region_new(M * linear_in_bytes(K));
    assert_non_null(in);
    linear_put_all(&l, s->pool, in, s->x, M);
    linear_run(&l, s->pool, in, y, l.n, M);
    map_region_free(in, M * linear_in_bytes(K));
    linear_close(&l);
}

/* Checks for the same bits from all backends that accept the linear, in both dtypes. */
static void compare(struct setup *s, struct linear_desc *d, size_t n)
{
    static const char *const others[] = {"gallop", "native"};
    float *y = malloc(M * n * sizeof(*y)), *want = malloc(M * n * sizeof(*want));
    size_t packed, unpacked;

    for (int bf16 = 0; bf16 < 2; bf16++)
        for (size_t i = 0; i < 2; i++) {
            d->dtype = bf16 ? DT_BF16 : DT_F32;
            run(s, d, NULL, y, &packed);
            run(s, d, others[i], want, &unpacked);
            if (bf16 && i == 1 && strcmp(kern_class(kern_table(cpu_best()), KERN_FN_gemm_bf16), "bf16") != 0)
                continue; /* another arithmetic class */
            assert_memory_equal(y, want, M * n * sizeof(*y));
            assert_int_equal(packed, (n + 31) / 32 * 32 * BLOCKS * 17);
            assert_true(unpacked > 3 * packed);
        }
    free(y);
    free(want);
}

/* Inputs in bytes give results with an error of 0.005 of their size here. */
static void compare_int8(struct setup *s, struct linear_desc *d, size_t n)
{
    float *y = malloc(M * n * sizeof(*y)), *want = malloc(M * n * sizeof(*want));
    double off = 0, size = 0;
    size_t packed;

    d->dtype = DT_F32;
    run(s, d, NULL, want, &packed);
    d->dtype = DT_BF16;
    d->to_mxfp4 = true;
    run(s, d, NULL, y, &packed);
    assert_int_equal(packed, (n + 31) / 32 * 32 * BLOCKS * 17);
    for (size_t i = 0; i < M * n; i++) {
        off += ((double)y[i] - (double)want[i]) * ((double)y[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    if (!(sqrt(off / size) > 0.001 && sqrt(off / size) < 0.012))
        fail_msg("integers are off by %g", sqrt(off / size));
    d->to_mxfp4 = false;
    free(y);
    free(want);
}

static struct view matrix(const void *data, size_t n, size_t row, enum dtype t)
{
    return (struct view){.name = "w",
                         .data = data,
                         .dtype = t,
                         .n_dims = 2,
                         .shape = {n, t == DT_MXFP4 ? K : BLOCKS},
                         .stride = {row, 1}};
}

static void nibbles_and_scales_apart_give_other_bits_than_unpacked(void **state)
{
    struct setup *s = malloc(sizeof(*s));
    struct view gate, up, gate_scale, up_scale, bias;
    struct linear_desc d;

    open_setup(s);
    gate = matrix(s->blocks, N, 2 * K, DT_MXFP4);
    up = matrix(s->blocks + K / 2, N, 2 * K, DT_MXFP4);
    gate_scale = matrix(s->scales, N, 2 * BLOCKS, DT_U8);
    up_scale = matrix(s->scales + BLOCKS, N, 2 * BLOCKS, DT_U8);
    bias = (struct view){
        .name = "b", .data = s->bias, .dtype = DT_F32, .n_dims = 1, .shape = {N}, .stride = {2}};
    d = (struct linear_desc){.name = "test",
                             .kind = OP_MLP,
                             .part = {&gate, &up},
                             .bias = {&bias, &bias},
                             .scale = {&gate_scale, &up_scale},
                             .n_parts = 2,
                             .kern = kern_table(cpu_best())};
    compare(s, &d, 2 * N);
    compare_int8(s, &d, 2 * N);
    pool_free(s->pool);
    free(s);
}

static void blocks_of_gguf_give_other_bits_than_unpacked(void **state)
{
    struct setup *s = malloc(sizeof(*s));
    struct view w;
    struct linear_desc d;

    open_setup(s);
    w = matrix(s->gguf, N, K, DT_MXFP4);
    d = (struct linear_desc){
        .name = "test", .kind = OP_MLP, .part = {&w}, .n_parts = 1, .kern = kern_table(cpu_best())};
    compare(s, &d, N);
    compare_int8(s, &d, N);
    pool_free(s->pool);
    free(s);
}

static void other_matrices_are_refused_with_a_reason(void **state)
{
    struct setup *s = malloc(sizeof(*s));
    struct view w, turned, plain;
    struct linear_desc d = {.name = "test",
                            .kind = OP_MLP,
                            .part = {&plain},
                            .n_parts = 1,
                            .dtype = DT_F32,
                            .kern = kern_table(cpu_best())};
    struct linear l;
    struct err e = {0};

    open_setup(s);
    plain = matrix(s->x, 2, K, DT_F32);
    plain.shape[1] = K;
    assert_int_not_equal(linear_open(&l, &d, "mxfp4", &e), 0);
    assert_non_null(strstr(e.msg, "MXFP4"));
    w = matrix(s->gguf, 32, K, DT_MXFP4);
    turned = view_transposed(&w);
    d.part[0] = &turned;
    assert_int_not_equal(linear_open(&l, &d, "mxfp4", &e), 0);
    pool_free(s->pool);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nibbles_and_scales_apart_give_other_bits_than_unpacked),
        cmocka_unit_test(blocks_of_gguf_give_other_bits_than_unpacked),
        cmocka_unit_test(other_matrices_are_refused_with_a_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
