/* stat.h - order statistics of measurements (benchmarks). Values must not be NaN; of nothing everything is
 * NaN. */
#ifndef GALLOP_BASE_STAT_H
#define GALLOP_BASE_STAT_H

#include <stddef.h>

double stat_min(const double *x, size_t n);
double stat_max(const double *x, size_t n);
double stat_median(double *x, size_t n); /* the mean of the two middle ones when N is even; sorts X */

#endif
