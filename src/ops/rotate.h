/* rotate.h - rows of weights and of inputs rotated by the same orthogonal matrix, before both are rounded to
 * integers: their products stay, and a few large elements do not take the bits of all others (QuaRot,
 * Ashkboos et al. 2024; QuIP#, Tseng et al. 2024). */
#ifndef GALLOP_OPS_ROTATE_H
#define GALLOP_OPS_ROTATE_H

#include "kern/kern.h"

/* X [k] rotated to OUT, which may be X, by pseudo-random signs and a Hadamard matrix: as many of its first
 * elements as the largest power of two (in blocks of KERN_ROTATED), then, where that is not all, as many of
 * its last. The second rotation spreads over the rest what the first one mixed: a block of its own for each
 * factor (576 is 9 x 64) would leave each with its own size, and the largest with the scale. */
void rotate(const struct kern *kern, float *out, const float *x, size_t k);

#endif
