/* sample_select.h - order statistics of floats by quickselect: the k-th largest, and the largest that make
 * up a probability mass. Both arrays are used up; results do not depend on the order the values came in.
 * No NaN.
 */
#ifndef GALLOP_ENGINE_SAMPLE_SELECT_H
#define GALLOP_ENGINE_SAMPLE_SELECT_H

#include <stddef.h>

#include "kern/kern.h"

/* The K-th largest (1: the largest) of x[0 .. n). 1 <= k <= n. SCRATCH [n]. */
float sample_select_kth(float *x, float *scratch, size_t n, size_t k);

/* Of a set in order of size: those above `value` stay, and so many of those equal to it (SIZE_MAX: all). */
struct sample_select_cut {
    float value;
    size_t n_equal;
};

/* In descending order of y, a token stays while the sum of exp(y) in front of it is below MASS > 0; where
 * all stay, value is the smallest. y <= 0, n > 0, SCRATCH [n]. */
struct sample_select_cut sample_select_mass(const struct kern *k, float *y, float *scratch, size_t n,
                                            double mass);

/* The sum of exp(y) over y[0 .. n), y <= 0: the kernel's, by blocks of SAMPLE_SELECT_BLOCK, folded in
 * double. */
enum { SAMPLE_SELECT_BLOCK = 1024 };
double sample_select_sum(const struct kern *k, const float *y, size_t n);

#endif
