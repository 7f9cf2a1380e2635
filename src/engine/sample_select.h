/* sample_select.h - order statistics of floats by quickselect: the k-th largest, and the largest that make up a mass. The
 * arrays are shuffled; results do not depend on the order they came in. No NaN.
 */
#ifndef GALLOP_ENGINE_SAMPLE_SELECT_H
#define GALLOP_ENGINE_SAMPLE_SELECT_H

#include <stddef.h>

/* The K-th largest (1: the largest) of x[0 .. n). 1 <= k <= n. */
float sample_select_kth(float *x, size_t n, size_t k);

/* Of a set in order of size: those above `value` stay, and so many of those equal to it (SIZE_MAX: all). */
struct sample_select_cut {
    float value;
    size_t n_equal;
};

/* In descending order of x, an element stays while the weights in front of it sum to less than MASS > 0; where all stay,
 * value is the smallest. E [n] are the weights, >= 0, equal for equal x. n > 0. */
struct sample_select_cut sample_select_mass(float *x, float *e, size_t n, double mass);

#endif
