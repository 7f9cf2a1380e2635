/* sample_select.c - quickselect that copies instead of swapping: larger values gather at the front of the
 * array, smaller ones in the scratch array, without a branch on either. Pivots come from a fixed
 * congruential sequence, so that no order of the input makes it slow on purpose and every run takes the
 * same steps.
 */
#include "engine/sample_select.h"

#include <stdint.h>

static size_t pivot_at(uint32_t *state, size_t n)
{
    *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
    return (size_t)(((uint64_t)*state * n) >> 32);
}

/* Moves what is larger than V to the front of x[0 .. n) and what is smaller to SCRATCH; gives their
 * numbers. */
static void split(float *x, float *scratch, size_t n, float v, size_t *n_larger, size_t *n_smaller)
{
    size_t larger = 0, smaller = 0;

    for (size_t i = 0; i < n; i++) {
        float one = x[i];

        x[larger] = one;
        scratch[smaller] = one;
        larger += one > v;
        smaller += one < v;
    }
    *n_larger = larger;
    *n_smaller = smaller;
}

static void swap_arrays(float **a, float **b)
{
    float *old = *a;

    *a = *b;
    *b = old;
}

float sample_select_kth(float *x, float *scratch, size_t n, size_t k)
{
    uint32_t state = 1;

    for (;;) {
        float v = x[pivot_at(&state, n)];
        size_t larger, smaller;

        split(x, scratch, n, v, &larger, &smaller);
        if (k <= larger) {
            n = larger;
        } else if (k <= n - smaller) {
            return v;
        } else {
            k -= n - smaller;
            n = smaller;
            swap_arrays(&x, &scratch);
        }
    }
}

double sample_select_sum(const struct kern *k, const float *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i += SAMPLE_SELECT_BLOCK)
        sum += k->exp_sum(y + i, n - i < SAMPLE_SELECT_BLOCK ? n - i : SAMPLE_SELECT_BLOCK, 0);
    return sum;
}

/* Each round settles the values from a pivot on, or drops the pivot and all below it. */
struct sample_select_cut sample_select_mass(const struct kern *k, float *y, float *scratch, size_t n,
                                            double mass)
{
    struct sample_select_cut cut = {.n_equal = SIZE_MAX};
    uint32_t state = 1;
    double front = 0;

    while (n > 0 && front < mass) {
        float v = y[pivot_at(&state, n)];
        size_t larger, smaller, equal;
        double sum, weight;

        split(y, scratch, n, v, &larger, &smaller);
        sum = front + sample_select_sum(k, y, larger);
        if (sum >= mass) {
            n = larger;
            continue;
        }
        weight = k->exp_sum(&v, 1, 0);
        equal = n - larger - smaller;
        for (size_t i = 0; i < equal; i++) {
            if (sum >= mass)
                return (struct sample_select_cut){.value = v, .n_equal = i};
            sum += weight;
        }
        cut.value = v;
        front = sum;
        n = smaller;
        swap_arrays(&y, &scratch);
    }
    return cut;
}
