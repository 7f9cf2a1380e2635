/* test_gptq.c - sums of squares of inputs and their Cholesky factors against plain loops, at the ends of
 * blocks, and the error of int4 weights that are rounded by GPTQ on inputs like those of the calibration. */
#include <math.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/threads/pool.h"
#include "check.h"
#include "kern/kern.h"
#include "ops/gptq.h"
#include "ops/linear.h"
#include "ops/rotate.h"
#include "tensor/view.h"

static struct pool *pool;

enum { MOST_K = 2 * GPTQ_COLUMNS + 3, MOST_M = 17 };

static float x[MOST_M * MOST_K];

static void fill(struct check_rng *g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = check_float(g);
}

static float *sums_of(size_t m, size_t k)
{
    float *f = calloc(gptq_numbers(k) + 1, sizeof(*f));

    gptq_add(pool, f, x, m, k);
    return f;
}

/* Returns element (I, J) of H of M rows. */
static double square(size_t m, size_t k, size_t i, size_t j)
{
    double sum = 0;

    for (size_t r = 0; r < m; r++)
        sum += (double)x[r * k + i] * (double)x[r * k + j];
    return sum;
}

static void every_pair_of_a_block_is_summed_and_none_of_two(void **state)
{
    static const size_t ks[] = {1, 2, 31, GPTQ_COLUMNS, GPTQ_COLUMNS + 1, MOST_K}, ms[] = {0, 1, 8, MOST_M};
    struct check_rng g = {1};

    assert_int_equal(gptq_numbers(0), 0);
    assert_int_equal(gptq_numbers(3), 6);
    assert_int_equal(gptq_numbers(GPTQ_COLUMNS + 2), GPTQ_COLUMNS * (GPTQ_COLUMNS + 1) / 2 + 3);
    fill(&g, MOST_M * MOST_K);
    for (size_t a = 0; a < sizeof(ks) / sizeof(*ks); a++)
        for (size_t b = 0; b < sizeof(ms) / sizeof(*ms); b++) {
            size_t k = ks[a], m = ms[b], seen = 0, n;
            float *f = sums_of(m, k);

            for (size_t i = 0; i < k; i++) {
                const float *row = gptq_row(f, k, i, &n);
                size_t end = (i / GPTQ_COLUMNS + 1) * GPTQ_COLUMNS;

                assert_int_equal(i + n, end < k ? end : k);
                assert_ptr_equal(row, f + seen);
                seen += n;
                for (size_t j = 0; j < n; j += 1 + j / 8)
                    if (!(fabs((double)row[j] - square(m, k, i, i + j)) < 1e-5))
                        fail_msg("k=%zu, m=%zu, (%zu, %zu): %g", k, m, i, i + j, (double)row[j]);
            }
            assert_int_equal(seen, gptq_numbers(k));
            free(f);
        }
}

/* Returns the largest distance between (I + A) D (I + A)^T and H of M rows of K, to whose diagonal a
 * hundredth of its mean is added, relative to the largest element. */
static double factors_off(const float *f, size_t m, size_t k)
{
    double mean = 0, worst = 0, most = 0;
    size_t n;

    for (size_t i = 0; i < k; i++)
        mean += square(m, k, i, i) / (double)k;
    for (size_t i = 0; i < k; i++)
        for (size_t j = i; j < k; j++) {
            double h = square(m, k, i, j) + (i == j ? 0.01 * mean : 0), sum = 0;

            for (size_t c = j; c < k; c++) {
                double d = (double)*gptq_row(f, k, c, &n);
                double ic = c == i ? 1 : (double)gptq_row(f, k, i, &n)[c - i];
                double jc = c == j ? 1 : (double)gptq_row(f, k, j, &n)[c - j];

                sum += ic * d * jc;
            }
            worst = fabs(sum - h) > worst ? fabs(sum - h) : worst;
            most = fabs(h) > most ? fabs(h) : most;
        }
    return worst / most;
}

static void factors_multiply_to_what_they_were_made_of(void **state)
{
    struct check_rng g = {2};
    float *f;

    fill(&g, MOST_M * 70);
    f = sums_of(MOST_M, 70);
    assert_true(factors_off(f, MOST_M, 70) > 0.1); /* The factors are as long as the sums. */
    gptq_make(pool, f, 70);
    assert_true(factors_off(f, MOST_M, 70) < 1e-4);
    free(f);
    f = sums_of(0, 70);
    gptq_make(pool, f, 70);
    for (size_t i = 0; i < gptq_numbers(70); i++)
        assert_true(f[i] == 0);
    free(f);
}

static void what_a_group_leaves_goes_to_the_end_of_its_block(void **state)
{
    static const size_t at[] = {0, 992, GPTQ_COLUMNS, MOST_K - 3}, ns[] = {1, 3, 8, 32};
    struct check_rng g = {3};
    float *f = calloc(gptq_numbers(MOST_K), sizeof(*f)), error[32], y[MOST_K];

    for (size_t i = 0; i < gptq_numbers(MOST_K); i++)
        f[i] = check_float(&g);
    for (size_t i = 0; i < 32; i++)
        error[i] = check_float(&g);
    for (size_t a = 0; a < 4; a++)
        for (size_t b = 0; b < 4; b++) {
            size_t n = at[a] + ns[b] < MOST_K ? ns[b] : MOST_K - at[a], length;
            size_t end = (at[a] / GPTQ_COLUMNS + 1) * GPTQ_COLUMNS;

            memset(y, 0, sizeof(y));
            gptq_carry(f, MOST_K, at[a], n, error, y);
            for (size_t j = 0; j < MOST_K; j++) {
                double sum = 0;

                for (size_t i = at[a]; i < at[a] + n && j >= at[a] + n && j < end; i++)
                    sum += (double)error[i - at[a]] * (double)gptq_row(f, MOST_K, i, &length)[j - i];
                if (!(fabs((double)y[j] - sum) < 1e-5))
                    fail_msg("%zu from %zu on, to %zu: %g, not %g", n, at[a], j, (double)y[j], sum);
            }
        }
    free(f);
}

/* ---- rounding ---- */

enum { K = 160, N = 40, SEEN = 400, RANK = 12 };

/* Makes inputs [m, K] near a space of RANK dimensions, BASIS [RANK, K]. */
static void inputs(struct check_rng *g, const float *basis, float *out, size_t m)
{
    for (size_t r = 0; r < m; r++)
        for (size_t i = 0; i < K; i++)
            out[r * K + i] = 0.1f * check_float(g);
    for (size_t r = 0; r < m; r++)
        for (size_t b = 0; b < RANK; b++) {
            float times = check_float(g);

            for (size_t i = 0; i < K; i++)
                out[r * K + i] += times * basis[b * K + i];
        }
}

/* Computes Y [M, N] by int4 weights V in groups of GROUP. */
static void multiply(struct view *v, size_t group, const float *feedback, const char *backend,
                     const float *in, size_t m, float *y)
{
    struct linear_desc d = {.name = "test",
                            .kind = OP_MLP,
                            .part = {v},
                            .n_parts = 1,
                            .dtype = DT_I8,
                            .group = group,
                            .gptq = feedback,
                            .kern = kern_table(cpu_best())};
    void *room = aligned_alloc(64, m * linear_in_bytes(K));
    struct linear l;
    struct err e;

    if (linear_open(&l, &d, backend, &e) != 0 || linear_pack(&l, &d, pool, &e) != 0)
        fail_msg("%s", e.msg);
    linear_put_all(&l, pool, room, in, m);
    linear_run(&l, pool, room, y, N, m);
    linear_close(&l);
    free(room);
}

static double squares_off(const float *w, const float *in, size_t m, const float *y)
{
    double off = 0;

    for (size_t r = 0; r < m; r++)
        for (size_t c = 0; c < N; c++) {
            double sum = 0;

            for (size_t i = 0; i < K; i++)
                sum += (double)in[r * K + i] * (double)w[c * K + i];
            off += (sum - (double)y[r * N + c]) * (sum - (double)y[r * N + c]);
        }
    return off;
}

static void rounding_by_what_was_seen_costs_less_than_half(void **state)
{
    static float w[N * K], basis[RANK * K], in[SEEN * K], turned[SEEN * K], y[2][64 * N];
    struct view v = {.name = "w",
                     .file = "test",
                     .data = w,
                     .dtype = DT_F32,
                     .n_dims = 2,
                     .shape = {N, K},
                     .stride = {K, 1}};
    float *f = calloc(gptq_numbers(K), sizeof(*f));
    struct check_rng g = {4};

    for (size_t i = 0; i < N * K; i++)
        w[i] = check_float(&g);
    for (size_t i = 0; i < RANK * K; i++)
        basis[i] = check_float(&g);
    for (size_t group = 32; group <= 128; group *= 4) { /* Sums of zeros change nothing. */
        inputs(&g, basis, in, 64);
        multiply(&v, group, NULL, NULL, in, 64, y[0]);
        multiply(&v, group, f, NULL, in, 64, y[1]);
        check_same(y[0], y[1], 64 * N, "nothing seen, groups of %zu", group);
    }
    inputs(&g, basis, in, SEEN);
    for (size_t r = 0; r < SEEN; r++)
        rotate(kern_table(cpu_best()), turned + r * K, in + r * K, K);
    gptq_add(pool, f, turned, SEEN, K);
    gptq_make(pool, f, K);
    for (size_t group = 32; group <= 128; group *= 4) {
        double without, with;

        inputs(&g, basis, in, 64); /* other inputs */
        multiply(&v, group, NULL, NULL, in, 64, y[0]);
        without = squares_off(w, in, 64, y[0]);
        multiply(&v, group, f, NULL, in, 64, y[0]);
        with = squares_off(w, in, 64, y[0]);
        multiply(&v, group, f, "native", in, 64, y[1]);
        check_same(y[0], y[1], 64 * N, "native, groups of %zu", group);
        if (!(with < without / 2))
            fail_msg("groups of %zu: %g, without %g", group, with, without);
    }
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_a_block_is_summed_and_none_of_two),
        cmocka_unit_test(factors_multiply_to_what_they_were_made_of),
        cmocka_unit_test(what_a_group_leaves_goes_to_the_end_of_its_block),
        cmocka_unit_test(rounding_by_what_was_seen_costs_less_than_half),
    };
    struct err e;
    int failed;

    if (pool_new(&pool, 2, &e) != 0)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    pool_free(pool);
    return failed;
}
