/* test_blocks.c - linears whose weights stay in GGUF's quantized blocks, including MXFP4: results compared
 * with double precision on the unpacked weights, equal bits in every kernel and for a row alone or with
 * others, and the matrices that are refused. */
#include <math.h>

#include "base/err.h"
#include "base/threads/pool.h"
#include "check.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "rows.h"
#include "tensor/dtype.h"
#include "tensor/quant.h"
#include "tensor/view.h"

enum { MOST_N = 200, MOST_K = 512, MOST_M = 40 };

static const enum dtype types[] = {
#define QUANT(name, ...) DT_##name,
#include "tensor/quant.def"
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

static struct pool *pool;

/* The offsets of the two halves of a block; -1: the block has one half. */
static const int halves[DT_N][2] = {
    [DT_BF16] = {-1, -1},  [DT_Q4_0] = {0, -1},  [DT_Q4_1] = {0, 2},    [DT_Q5_0] = {0, -1},
    [DT_Q5_1] = {0, 2},    [DT_Q8_0] = {0, -1},  [DT_Q2_K] = {80, 82},  [DT_Q3_K] = {108, -1},
    [DT_Q4_K] = {0, 2},    [DT_Q5_K] = {0, 2},   [DT_Q6_K] = {208, -1}, [DT_IQ4_NL] = {0, -1},
    [DT_IQ4_XS] = {0, -1}, [DT_MXFP4] = {-1, -1}};

/* Returns a matrix of random blocks. The caller frees its bytes with free(). */
static struct view matrix(const char *name, enum dtype t, size_t n, size_t k, uint64_t seed)
{
    size_t bytes = n * k / dtype_group(t) * dtype_bytes(t);
    uint8_t *data = malloc(bytes);
    struct view v = {.name = name, .file = "file", .data = data, .dtype = t, .n_dims = 2, .shape = {n, k}};
    struct check_rng g = {seed};

    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)check_u32(&g);
    for (size_t i = 0; i < bytes && t == DT_MXFP4;
         i += dtype_bytes(t)) /* The two smallest exponents are subnormal. */
        data[i] = data[i] % 16 == 0 ? data[i] / 16 % 2 : 118 + data[i] % 12;
    for (size_t i = 0; i < bytes; i += dtype_bytes(t))
        for (int h = 0; h < 2; h++)
            if (halves[t][h] >= 0) {
                float f = check_float(&g);
                uint16_t x = dtype_f32_to_f16(f == 0 ? 0.5f : f);

                memcpy(data + i + halves[t][h], &x, sizeof(x));
            }
    view_set_contiguous(&v);
    return v;
}

static void drop(struct view *v)
{
    free((void *)(uintptr_t)v->data);
}

static struct linear open_and_pack(const struct linear_desc *d)
{
    struct linear l;
    struct err e = {0};

    if (linear_open(&l, d, NULL, &e) != 0 || linear_pack(&l, d, pool, &e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(l.backend->name, d->part[0]->dtype == DT_MXFP4 ? "mxfp4_int8" : "blocks");
    return l;
}

static struct linear_desc desc_of(const struct view *v, const struct kern *k)
{
    return (struct linear_desc){.name = "test",
                                .kind = OP_MLP,
                                .part = {v},
                                .n_parts = 1,
                                .dtype = DT_BF16,
                                .as_stored = true,
                                .kern = k};
}

/* Computes Y [m, l->n] of the M rows of X. */
static void run(const struct linear *l, const float *x, size_t m, float *y)
{
    void *in = aligned_alloc(64, m * linear_in_bytes(l->k));

    linear_put_all(l, pool, in, x, m);
    linear_run(l, pool, in, y, l->n, m);
    free(in);
}

static void fill(float *x, size_t n, uint64_t seed)
{
    struct check_rng g = {seed};

    check_fill(&g, x, n);
}

/* Returns column I of V times the row X, rounded to integers in groups of 32. Sets *SIZE to the sum of the
 * magnitudes of the products. */
static double product(const struct view *v, size_t i, const float *x, double *size)
{
    float w[MOST_K];
    double sum = 0;

    *size = 0;
    view_part_f32(v, i, 0, v->shape[1], w);
    for (size_t k = 0; k < v->shape[1]; k += 32) {
        float most = 0, inv;

        for (size_t j = 0; j < 32; j++)
            most = fabsf(x[k + j]) > most ? fabsf(x[k + j]) : most;
        inv = most > 0 ? 127 / most : 0;
        for (size_t j = 0; j < 32; j++) {
            double p = (double)rintf(x[k + j] * inv) * (double)(most / 127) * (double)w[k + j];

            sum += p;
            *size += fabs(p);
        }
    }
    return sum;
}

static void every_format_is_near_to_what_a_double_computes(void **state)
{
    static float x[5 * MOST_K], y[5 * MOST_N];
    static double want[5 * MOST_N], tolerance[5 * MOST_N];

    fill(x, 5 * MOST_K, 1);
    memset(x + MOST_K + 32, 0, 32 * sizeof(*x)); /* This group is all zeros. */
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t n = 1; n <= 97; n += 32) {
            struct view v = matrix("w", types[t], n, MOST_K, t + n);
            struct linear_desc d = desc_of(&v, kern_table(cpu_best()));
            struct linear l = open_and_pack(&d);

            for (size_t i = 0; i < 5 * n; i++) {
                want[i] = product(&v, i % n, x + i / n * MOST_K, &tolerance[i]);
                /* There are up to two sums for each 16 of K, and the products have errors, too. With a minimum
                 * the products are larger than the sum. */
                tolerance[i] *= (MOST_K / 8 + 4) * (quant_format_of(types[t])->min ? 8 : 1) * CHECK_U;
            }
            run(&l, x, 5, y);
            check_near(y, want, tolerance, 5 * n, "%s n=%zu", dtype_name(types[t]), n);
            linear_close(&l);
            drop(&v);
        }
}

/* Every kernel gives the same bits, and so does every input row alone. */
static void rows_of_kernels_and_company_change_no_bit(void **state)
{
    static float x[MOST_M * MOST_K], want[MOST_M * MOST_N], got[MOST_M * MOST_N], one[MOST_N];
    struct rows list[ROWS_MAX];
    size_t n_rows = rows_list(list);

    fill(x, MOST_M * MOST_K, 2);
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t m = 1; m <= MOST_M; m += m < 14 ? 1 : 5) {
            size_t n = 1 + (m * 37 + t) % MOST_N, block = dtype_group(types[t]);
            struct view v = matrix("w", types[t], n, block * (1 + (m + t) % (MOST_K / block)), m);
            struct linear_desc d = desc_of(&v, kern_table(CPU_REF));
            struct linear l = open_and_pack(&d);

            run(&l, x, m, want);
            for (size_t r = 0; r < n_rows; r++) {
                if (!list[r].k.gemm_blocks)
                    continue;
                l.kern = &list[r].k;
                run(&l, x, m, got);
                check_same(got, want, m * n, "%s %s m=%zu n=%zu k=%zu", list[r].name, dtype_name(types[t]), m,
                           n, l.k);
                run(&l, x + (m - 1) * l.k, 1, one);
                check_same(one, want + (m - 1) * n, n, "%s %s alone of %zu", list[r].name,
                           dtype_name(types[t]), m);
            }
            linear_close(&l);
            drop(&v);
        }
}

/* There are more rows than a panel takes at once. */
static void many_rows_change_no_bit(void **state)
{
    enum { M = 1100, K = 256, N = 40 };
    float *x = malloc(M * K * sizeof(*x)), *all = malloc(M * N * sizeof(*x)),
          *part = malloc(M * N * sizeof(*x));
    struct view v = matrix("w", DT_Q4_K, N, K, 9);
    struct linear_desc d = desc_of(&v, kern_table(cpu_best()));
    struct linear l = open_and_pack(&d);

    fill(x, M * K, 3);
    run(&l, x, M, all);
    for (size_t at = 0; at < M; at += 100)
        run(&l, x + at * K, 100, part + at * N);
    check_same(part, all, M * N, "1100 rows");
    linear_close(&l);
    drop(&v);
    free(x);
    free(all);
    free(part);
}

static void no_rows_leave_the_result_alone(void **state)
{
    struct rows list[ROWS_MAX];
    size_t n_rows = rows_list(list);
    struct view v = matrix("w", DT_Q4_K, 40, 256, 13);
    struct linear_desc d = desc_of(&v, kern_table(CPU_REF));
    struct linear l = open_and_pack(&d);
    _Alignas(64) char in[64] = {0};

    for (size_t r = 0; r < n_rows; r++) {
        float y[40] = {0}, was[40] = {0};
        struct linear_end e = {.y = y, .ldy = 40};

        if (list[r].k.gemm_blocks)
            l.kern = &list[r].k;
        l.backend->run(&l, in, &e, 0, 0, 2, NULL);
        check_same(y, was, 40, "%s", list[r].name);
    }
    linear_close(&l);
    drop(&v);
}

static void parts_of_rows_make_the_whole_each_row_in_one_of_them(void **state)
{
    static const size_t cases[][2] = {{64, 1}, {128, 2}, {200, 3}, {257, 2}, {530, 3}};
    enum { K = 256, N = 40, M = 530 };
    float *x = malloc(M * K * sizeof(*x)), *whole = malloc(M * N * sizeof(*x)),
          *part = malloc(M * N * sizeof(*x));
    void *in = aligned_alloc(64, M * linear_in_bytes(K));
    struct rows list[ROWS_MAX];
    size_t n_rows = rows_list(list);

    fill(x, M * K, 8);
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t r = 0; r < n_rows; r++) {
            struct view v = matrix("w", types[t], N, K, t);
            struct linear_desc d = desc_of(&v, kern_table(CPU_REF));
            size_t m = cases[t % 5][0], parts = cases[t % 5][1], times[M] = {0};
            struct linear l = open_and_pack(&d);

            if (list[r].k.gemm_blocks)
                l.kern = &list[r].k;
            linear_put_all(&l, pool, in, x, m);
            linear_run(&l, pool, in, whole, N, m);
            for (size_t i = 0; i < parts; i++) {
                struct linear_end e = {.y = part, .ldy = N, .part = i, .parts = parts};

                for (size_t j = 0; j < m * N; j++)
                    part[j] = NAN;
                l.backend->run(&l, in, &e, m, 0, (N + KERN_NR - 1) / KERN_NR, NULL);
                for (size_t j = 0; j < m; j++)
                    if (!isnan(part[j * N])) {
                        times[j]++;
                        check_same(part + j * N, whole + j * N, N, "%s %s m=%zu row %zu", list[r].name,
                                   dtype_name(types[t]), m, j);
                    }
            }
            for (size_t j = 0; j < m; j++)
                if (times[j] != 1)
                    fail_msg("%s: row %zu of %zu is in %zu of %zu parts", list[r].name, j, m, times[j],
                             parts);
            linear_close(&l);
            drop(&v);
        }
    free(x);
    free(whole);
    free(part);
    free(in);
}

static void parts_of_several_formats_are_those_apart(void **state)
{
    enum { M = 7, K = 256 };
    static const size_t rows[3] = {64, 32, 45};
    static const enum dtype of[3] = {DT_Q4_K, DT_Q6_K, DT_Q5_0};
    static float x[M * K], joined[M * (64 + 32 + 45)], apart[M * 64];
    struct view v[3], bias = {.name = "b", .dtype = DT_F32, .n_dims = 1, .shape = {45}};
    float b[45];
    struct linear_desc all = desc_of(&v[0], kern_table(cpu_best()));
    struct linear l, one;
    size_t at = 0;

    fill(x, M * K, 4);
    fill(b, 45, 5);
    bias.data = b;
    view_set_contiguous(&bias);
    for (size_t p = 0; p < 3; p++) {
        v[p] = matrix("w", of[p], rows[p], K, 20 + p);
        all.part[p] = &v[p];
    }
    all.bias[2] = &bias;
    all.n_parts = 3;
    l = open_and_pack(&all);
    run(&l, x, M, joined);
    for (size_t p = 0; p < 3; at += rows[p++]) {
        struct linear_desc d = desc_of(&v[p], all.kern);

        d.bias[0] = all.bias[p];
        one = open_and_pack(&d);
        run(&one, x, M, apart);
        for (size_t m = 0; m < M; m++)
            check_same(joined + m * l.n + at, apart + m * one.n, rows[p], "part %zu, row %zu", p, m);
        linear_close(&one);
    }
    linear_close(&l);
    for (size_t p = 0; p < 3; p++)
        drop(&v[p]);
}

/* GGUF stores q and k in the row order that llama.cpp's RoPE needs. */
static void interleaved_rows_come_in_their_order(void **state)
{
    enum { N = 64, K = 256 };
    static float x[K], plain[N], zipped[N];
    struct view v = matrix("w", DT_Q5_K, N, K, 6), z = v;
    struct linear_desc d = desc_of(&v, kern_table(cpu_best())), of_z = desc_of(&z, d.kern);
    struct linear l = open_and_pack(&d), lz;

    z.zipped = 16;
    lz = open_and_pack(&of_z);
    fill(x, K, 7);
    run(&l, x, 1, plain);
    run(&lz, x, 1, zipped);
    for (size_t i = 0; i < N; i++)
        assert_true(zipped[i] == plain[i / 16 * 16 + i % 8 * 2 + i % 16 / 8]);
    linear_close(&l);
    linear_close(&lz);
    drop(&v);
}

static void gate_and_up_end_in_their_product(void **state)
{
    enum { M = 9, N = 53, K = 256 };
    static float x[M * K], both[M * 2 * N], want[M * N], got[M * N];
    struct view gate = matrix("gate", DT_Q4_K, N, K, 10), up = matrix("up", DT_Q4_K, N, K, 11);
    struct linear_desc d = desc_of(&gate, kern_table(cpu_best()));
    struct linear plain, paired;
    void *in = aligned_alloc(64, M * linear_in_bytes(K));

    fill(x, M * K, 12);
    for (size_t i = 0; i < M * K; i++)
        x[i] *= 0.01f;
    d.part[1] = &up;
    d.n_parts = 2;
    plain = open_and_pack(&d);
    d.paired = true;
    paired = open_and_pack(&d);
    run(&plain, x, M, both);
    for (size_t m = 0; m < M; m++)
        d.kern->glu(want + m * N, both + m * 2 * N, both + m * 2 * N + N, N, KERN_SILU);
    linear_put_all(&paired, pool, in, x, M);
    linear_run_act(&paired, pool, in, got, N, KERN_SILU, M);
    check_same(got, want, M * N, "silu(gate) * up");
    assert_false(linear_leads_into(&paired, &paired));
    linear_close(&plain);
    linear_close(&paired);
    drop(&gate);
    drop(&up);
    free(in);
}

static void one_wrong_bit_of_a_weight_is_seen(void **state)
{
    static float x[MOST_K], was[33], is[33];

    for (size_t k = 0; k < MOST_K; k++)
        x[k] = 1;
    for (size_t t = 0; t < N_TYPES; t++) {
        struct view v = matrix("w", types[t], 33, 256, 30 + t);
        struct linear_desc d = desc_of(&v, kern_table(cpu_best()));
        struct linear l = open_and_pack(&d);

        run(&l, x, 1, was);
        linear_close(&l);
        ((uint8_t *)(uintptr_t)v.data)[32 * 256 / dtype_group(types[t]) * dtype_bytes(types[t]) + 20] ^= 4;
        l = open_and_pack(&d);
        run(&l, x, 1, is);
        assert_int_equal(check_differs(was, is, 33), 32);
        linear_close(&l);
        drop(&v);
    }
}

static const char *taken_by(const struct linear_desc *d)
{
    struct linear l;
    struct err e = {0};

    assert_int_equal(linear_open(&l, d, NULL, &e), 0);
    return l.backend->name;
}

static void what_is_not_taken_is_unpacked(void **state)
{
    struct view v = matrix("w", DT_Q4_0, 40, 256, 1), w = matrix("w", DT_Q4_1, 40, 256, 2),
                whole = matrix("w", DT_BF16, 40, 256, 3);
    const struct linear_desc d = desc_of(&v, kern_table(cpu_best()));
    struct linear_desc other = d;

    assert_string_equal(taken_by(&d), "blocks");
    other.as_stored = false;
    assert_string_equal(taken_by(&other), "gallop");
    other = d;
    other.dtype = DT_F32;
    assert_string_equal(taken_by(&other), "gallop");
    other.dtype = DT_I8;
    assert_string_equal(taken_by(&other), "gallop");
    other = d;
    other.part[1] = &w;
    other.n_parts = 2;
    assert_string_equal(taken_by(&other), "gallop"); /* One panel has columns of both. */
    v.shape[0] = w.shape[0] = 32;
    assert_string_equal(taken_by(&other), "blocks");
    other.paired = true;
    assert_string_equal(taken_by(&other), "gallop");
    other.part[1] = &v;
    assert_string_equal(taken_by(&other), "blocks");
    other = d;
    other.part[0] = &whole;
    assert_string_equal(taken_by(&other), "gallop");
    v = view_transposed(&v);
    assert_string_equal(taken_by(&d), "gallop");
    drop(&v);
    drop(&w);
    drop(&whole);
}

static void a_scale_that_is_not_finite_is_refused(void **state)
{
    static const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e00};

    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t i = 0; i < 6; i++) {
            struct view v = matrix("the.weight", types[t], 33, 256, i);
            struct linear_desc d = desc_of(&v, kern_table(cpu_best()));
            size_t last = (33 * 256 / dtype_group(types[t]) - 1) * dtype_bytes(types[t]);
            int at = halves[types[t]][i / 3];
            struct linear l;
            struct err e = {0};

            if (at >= 0) {
                memcpy((uint8_t *)(uintptr_t)v.data + last + at, &bad[i % 3], 2);
                assert_int_equal(linear_open(&l, &d, NULL, &e), 0);
                assert_int_equal(linear_pack(&l, &d, pool, &e), ERR_INPUT);
                if (!strstr(e.msg, "file: tensor the.weight holds "))
                    fail_msg("%s: %s", dtype_name(types[t]), e.msg);
            }
            drop(&v);
        }
}

/* An input row that contains NaN or an infinity gives NaN in every output that depends on it, and in no
 * other. */
static void an_input_that_is_not_finite_stays_so(void **state)
{
    static float x[3 * 256], y[3 * 40];
    struct view v = matrix("w", DT_Q4_K, 40, 256, 14);
    struct linear_desc d = desc_of(&v, kern_table(cpu_best()));
    struct linear l = open_and_pack(&d);

    fill(x, 3 * 256, 15);
    x[256 + 77] = INFINITY;
    x[2 * 256 + 255] = NAN;
    run(&l, x, 3, y);
    for (size_t i = 0; i < 3 * 40; i++)
        assert_true(isfinite(y[i]) == (i < 40));
    linear_close(&l);
    drop(&v);
}

static int start(void **state)
{
    struct err e = {0};

    return pool_new(&pool, 2, &e);
}

static int end(void **state)
{
    pool_free(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_is_near_to_what_a_double_computes),
        cmocka_unit_test(rows_of_kernels_and_company_change_no_bit),
        cmocka_unit_test(many_rows_change_no_bit),
        cmocka_unit_test(no_rows_leave_the_result_alone),
        cmocka_unit_test(parts_of_rows_make_the_whole_each_row_in_one_of_them),
        cmocka_unit_test(parts_of_several_formats_are_those_apart),
        cmocka_unit_test(interleaved_rows_come_in_their_order),
        cmocka_unit_test(gate_and_up_end_in_their_product),
        cmocka_unit_test(one_wrong_bit_of_a_weight_is_seen),
        cmocka_unit_test(what_is_not_taken_is_unpacked),
        cmocka_unit_test(a_scale_that_is_not_finite_is_refused),
        cmocka_unit_test(an_input_that_is_not_finite_stays_so),
    };

    return cmocka_run_group_tests(tests, start, end);
}
