/* stat.h - statistics of measurements (benchmarks, latencies). Values must not be NaN; N 0 gives NaN. */
#ifndef GALLOP_BASE_STAT_H
#define GALLOP_BASE_STAT_H

#include <stddef.h>

double stat_min(const double *x, size_t n);
double stat_max(const double *x, size_t n);
double stat_mean(const double *x, size_t n);

/* Returns percentile P (0 to 100), interpolated linearly like NumPy's default. Sorts X. */
double stat_percentile(double *x, size_t n, double p);
double stat_median(double *x, size_t n); /* mean of the two middle values if N is even; sorts X */

#endif
