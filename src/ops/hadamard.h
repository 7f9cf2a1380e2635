/* hadamard.h - the rotation in front of int8 rows of the KV cache.
 *
 * A few dims of a key are often much larger than the rest, and a scale a row then leaves the rest few bits.
 * Turning q and k by the same orthogonal matrix leaves their product as it is and spreads such dims over all;
 * values are turned too, and the weighted sum is turned back. The matrix is Sylvester's Hadamard matrix over
 * its root, in blocks of the largest power of two that divides the head size; it is its own inverse. Idea:
 * QuaRot (Ashkboos et al. 2024).
 */
#ifndef GALLOP_OPS_HADAMARD_H
#define GALLOP_OPS_HADAMARD_H

#include <stddef.h>

/* Turns x[d] in place; always the same additions in the same order. */
void hadamard_turn(float *x, size_t d);

#endif
