/* stat.c - statistics of a few measurements. Percentiles sort, because that is cheap enough. */
#include "base/stat.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double stat_min(const double *x, size_t n)
{
    double best = n ? x[0] : NAN;

    for (size_t i = 1; i < n; i++)
        best = x[i] < best ? x[i] : best;
    return best;
}

double stat_max(const double *x, size_t n)
{
    double best = n ? x[0] : NAN;

    for (size_t i = 1; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

double stat_mean(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return n ? sum / (double)n : NAN;
}

double stat_percentile(double *x, size_t n, double p)
{
    double at = p / 100 * (double)(n ? n - 1 : 0);
    size_t k = (size_t)at;

    ASSERT(p >= 0 && p <= 100, "percentile %g", p);
    if (n == 0)
        return NAN;
    qsort(x, n, sizeof(*x), ascending);
    return k + 1 < n ? x[k] + (at - (double)k) * (x[k + 1] - x[k]) : x[n - 1];
}

double stat_median(double *x, size_t n)
{
    return stat_percentile(x, n, 50);
}
