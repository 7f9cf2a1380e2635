/* stat.c - quickselect with the middle element as pivot: linear in practice, no memory, the same result in
 * any order. */
#include "base/stat.h"

#include <math.h>

#include "base/err.h"

double stat_min(const double *x, size_t n)
{
    double best = n ? x[0] : NAN;

    for (size_t i = 1; i < n; i++)
        if (x[i] < best)
            best = x[i];
    return best;
}

double stat_max(const double *x, size_t n)
{
    double best = n ? x[0] : NAN;

    for (size_t i = 1; i < n; i++)
        if (x[i] > best)
            best = x[i];
    return best;
}

double stat_mean(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return n ? sum / (double)n : NAN;
}

/* Puts the K-th smallest (from 0) at x[k], nothing larger before it, nothing smaller after it. */
static void select_kth(double *x, size_t n, size_t k)
{
    size_t lo = 0, hi = n - 1;

    while (lo < hi) {
        double pivot = x[lo + (hi - lo) / 2];
        size_t i = lo, j = hi;

        for (;;) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i >= j)
                break;
            double swap = x[i];
            x[i++] = x[j];
            x[j--] = swap;
        }
        /* Hoare's partition: x[lo..j] <= pivot <= x[j + 1..hi] and lo <= j < hi. */
        if (k <= j)
            hi = j;
        else
            lo = j + 1;
    }
}

double stat_percentile(double *x, size_t n, double p)
{
    double at, below;
    size_t k;

    ASSERT(p >= 0 && p <= 100, "percentile %g", p);
    if (n == 0)
        return NAN;
    at = p / 100 * (double)(n - 1);
    k = (size_t)at;
    if (k > n - 1)
        k = n - 1;
    select_kth(x, n, k);
    below = x[k];
    if (at <= (double)k || k + 1 >= n)
        return below;
    return below + (at - (double)k) * (stat_min(x + k + 1, n - k - 1) - below);
}

double stat_median(double *x, size_t n)
{
    return stat_percentile(x, n, 50);
}
