/* gptq.c - GPTQ: sums x x^T over inputs, factorizes the sums, and carries rounding errors. */
#include "ops/gptq.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/threads/pool.h"

static size_t triangle(size_t n)
{
    return n * (n + 1) / 2;
}

static size_t segment_size(size_t k, size_t begin)
{
    return k - begin < GPTQ_COLUMNS ? k - begin : GPTQ_COLUMNS;
}

size_t gptq_numbers(size_t k)
{
    return k / GPTQ_COLUMNS * triangle(GPTQ_COLUMNS) + triangle(k % GPTQ_COLUMNS);
}

/* Returns the address of row R of the segment F of N columns. */
static float *row_at(float *f, size_t n, size_t r)
{
    return f + triangle(n) - triangle(n - r);
}

const float *gptq_row(const float *f, size_t k, size_t i, size_t *n)
{
    size_t segment = i / GPTQ_COLUMNS, r = i % GPTQ_COLUMNS, size = segment_size(k, i - r);

    *n = size - r;
    return row_at((float *)(uintptr_t)(f + segment * triangle(GPTQ_COLUMNS)), size, r);
}

/* ---- adding ---- */

/* Rows of H that a thread computes at once, and rows of X that it adds at once. */
enum { STRIPE = 16, TOGETHER = 8 };

struct add_job {
    float *f;
    const float *x;
    size_t m, k;
    atomic_size_t next;
};

/* Adds the rows ROW [TOGETHER], each multiplied by its element of TIMES, to Y [n]. */
static void add_apart(float *restrict y, const float *const row[TOGETHER], const float *times, size_t n)
{
    const float *a = row[0], *b = row[1], *c = row[2], *d = row[3], *e = row[4], *f = row[5], *g = row[6],
                *h = row[7];

    for (size_t i = 0; i < n; i++)
        y[i] += times[0] * a[i] + times[1] * b[i] + times[2] * c[i] + times[3] * d[i] + times[4] * e[i] +
                times[5] * f[i] + times[6] * g[i] + times[7] * h[i];
}

/* Adds x x^T of all rows of X to the rows [first, first + STRIPE) of H. */
static void add_stripe(const struct add_job *j, size_t first)
{
    size_t end = j->k - first < STRIPE ? j->k : first + STRIPE, n;
    const float *row[TOGETHER];
    float times[TOGETHER];

    for (size_t r = 0; r < j->m; r += TOGETHER)
        for (size_t i = first; i < end; i++) {
            float *to = (float *)(uintptr_t)gptq_row(j->f, j->k, i, &n);

            for (size_t t = 0; t < TOGETHER; t++) {
                row[t] = j->x + (r + t < j->m ? r + t : r) * j->k + i;
                times[t] = r + t < j->m ? *row[t] : 0;
            }
            add_apart(to, row, times, n);
        }
}

static void add_share(void *ctx, int thread, int n_threads)
{
    struct add_job *j = ctx;

    (void)thread;
    (void)n_threads;
    for (size_t at; (at = atomic_fetch_add(&j->next, STRIPE)) < j->k;)
        add_stripe(j, at);
}

void gptq_add(struct pool *pool, float *f, const float *x, size_t m, size_t k)
{
    pool_run(pool, add_share, &(struct add_job){.f = f, .x = x, .m = m, .k = k});
}

/* ---- carrying errors ---- */

void gptq_carry(const float *f, size_t k, size_t at, size_t n, const float *error, float *x)
{
    const float *row[TOGETHER];
    float times[TOGETHER];
    size_t length, behind = 0;

    for (size_t i = 0; i < n; i += TOGETHER) {
        for (size_t t = 0; t < TOGETHER; t++) {
            size_t own = i + t < n ? i + t : n - 1;

            row[t] = gptq_row(f, k, at + own, &length) + (n - own);
            times[t] = i + t < n ? error[own] : 0;
            behind = length - (n - own);
        }
        add_apart(x + at + n, row, times, behind);
    }
}

/* ---- factors ---- */

struct make_job {
    float *f;
    size_t k;
    atomic_size_t next;
};

static void damp(float *f, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)*row_at(f, n, i);
    for (size_t i = 0; i < n; i++)
        *row_at(f, n, i) += (float)(sum / (double)n * 0.01);
}

/* Replaces the segment of H, which is (I + A) D (I + A)^T, by D and A, from the last column to the first. */
static void factorize(float *f, size_t n)
{
    float column[GPTQ_COLUMNS];

    damp(f, n);
    for (size_t j = n; j-- > 0;) {
        float d = *row_at(f, n, j), inverse = d > 0 ? 1 / d : 0;

        for (size_t i = 0; i < j; i++)
            column[i] = row_at(f, n, i)[j - i];
        for (size_t i = 0; i < j; i++) {
            float *row = row_at(f, n, i), times = column[i] * inverse;

            for (size_t c = i; c < j; c++)
                row[c - i] -= times * column[c];
            row[j - i] = times;
        }
    }
}

static void make_share(void *ctx, int thread, int n_threads)
{
    struct make_job *j = ctx;

    (void)thread;
    (void)n_threads;
    for (size_t at; (at = atomic_fetch_add(&j->next, GPTQ_COLUMNS)) < j->k;)
        factorize(j->f + at / GPTQ_COLUMNS * triangle(GPTQ_COLUMNS), segment_size(j->k, at));
}

void gptq_make(struct pool *pool, float *f, size_t k)
{
    pool_run(pool, make_share, &(struct make_job){.f = f, .k = k});
}
