/* rotate.h - random rotation before rounding to integers.
 *
 * Rows of weights and of inputs are multiplied by the same orthogonal matrix. The products of rows stay the
 * same, and a few large elements no longer determine the scale of all others (QuaRot, Ashkboos et al. 2024;
 * QuIP#, Tseng et al. 2024).
 */
#ifndef GALLOP_OPS_ROTATE_H
#define GALLOP_OPS_ROTATE_H

#include <stddef.h>

struct kern;

/* Rotates X [k] into OUT, which may be X, by pseudo-random signs and a Hadamard matrix.
 *
 * The order S of the matrix is the largest power of two up to k and KERN_ROTATED. As many first elements as
 * possible are rotated in pieces of S. If elements remain, the same number of last elements is rotated after
 * that; the overlap spreads the first rotation over the rest. Matrices of the power of two in k (64 for 576 =
 * 9 x 64) would spread large elements over small pieces only, and the largest piece would determine the
 * scale. */
void rotate(const struct kern *kern, float *out, const float *x, size_t k);

/* Returns S for rows of K elements. */
size_t rotate_size(size_t k);

/* Returns the sign, 1 or -1, that element I of a piece is multiplied by, I < KERN_ROTATED. */
float rotate_sign(size_t i);

#endif
