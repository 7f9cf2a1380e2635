/* sample_select.c - quickselect with three parts. Pivots come from a fixed congruential sequence, so that no order of the
 * input makes it slow on purpose and every run takes the same steps.
 */
#include "engine/sample_select.h"

#include <stdint.h>

static size_t pivot_at(uint32_t *state, size_t n)
{
    *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
    return (size_t)(((uint64_t)*state * n) >> 32);
}

/* Splits x[0 .. n) (and E alongside, if not NULL) into larger than V, equal, smaller; gives the counts of the first two. */
static void split(float *x, float *e, size_t n, float v, size_t *n_larger, size_t *n_equal)
{
    size_t lo = 0, at = 0, hi = n;

    while (at < hi) {
        size_t to = at;
        float swap;

        if (x[at] > v)
            to = lo++;
        else if (x[at] < v)
            to = --hi;
        if (to != at) {
            swap = x[at], x[at] = x[to], x[to] = swap;
            if (e)
                swap = e[at], e[at] = e[to], e[to] = swap;
        }
        if (to <= at)
            at++;
    }
    *n_larger = lo;
    *n_equal = hi - lo;
}

float sample_select_kth(float *x, size_t n, size_t k)
{
    uint32_t state = 1;

    for (;;) {
        float v = x[pivot_at(&state, n)];
        size_t larger, equal;

        split(x, NULL, n, v, &larger, &equal);
        if (k <= larger) {
            n = larger;
        } else if (k <= larger + equal) {
            return v;
        } else {
            x += larger + equal;
            n -= larger + equal;
            k -= larger + equal;
        }
    }
}

/* Each round settles the elements from a pivot on, or drops the pivot and all below it. */
struct sample_select_cut sample_select_mass(float *x, float *e, size_t n, double mass)
{
    struct sample_select_cut cut = {.n_equal = SIZE_MAX};
    uint32_t state = 1;
    double front = 0;

    while (n > 0) {
        size_t at = pivot_at(&state, n), larger, equal;
        float v = x[at], weight = e[at];
        double sum = front;

        split(x, e, n, v, &larger, &equal);
        for (size_t i = 0; i < larger; i++)
            sum += e[i];
        if (sum >= mass) {
            n = larger;
            continue;
        }
        for (size_t i = 0; i < equal; i++) {
            if (sum >= mass)
                return (struct sample_select_cut){.value = v, .n_equal = i};
            sum += weight;
        }
        cut.value = v;
        if (sum >= mass)
            break;
        front = sum;
        x += larger + equal;
        e += larger + equal;
        n -= larger + equal;
    }
    return cut;
}
