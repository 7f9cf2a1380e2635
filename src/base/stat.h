/* stat.h - order statistics of measurements (benchmarks, latencies). Values must not be NaN; of nothing
 * everything is NaN. */
#ifndef GALLOP_BASE_STAT_H
#define GALLOP_BASE_STAT_H

#include <stddef.h>

double stat_min(const double *x, size_t n);
double stat_max(const double *x, size_t n);
double stat_mean(const double *x, size_t n);

/* The value below which P percent lie (0 <= P <= 100), linear between neighbours as NumPy's default; sorts
 * X. */
double stat_percentile(double *x, size_t n, double p);
double stat_median(double *x, size_t n); /* the mean of the two middle ones when N is even; sorts X */

#endif
