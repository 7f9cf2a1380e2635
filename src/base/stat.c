/* stat.c - order statistics of a handful of measurements: sorting is cheap enough. */
#include "base/stat.h"

#include <math.h>
#include <stdlib.h>

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

double stat_median(double *x, size_t n)
{
    if (n == 0)
        return NAN;
    qsort(x, n, sizeof(*x), ascending);
    return x[(n - 1) / 2] + (x[n / 2] - x[(n - 1) / 2]) / 2;
}
