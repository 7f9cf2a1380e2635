/* hadamard.c - the fast Walsh-Hadamard transform of a head. */
#include "ops/hadamard.h"

#include <math.h>

static void turn_block(float *x, size_t n)
{
    float norm = 1.0f / sqrtf((float)n);

    for (size_t half = 1; half < n; half *= 2)
        for (size_t i = 0; i < n; i += 2 * half)
            for (size_t j = i; j < i + half; j++) {
                float a = x[j], b = x[j + half];

                x[j] = a + b;
                x[j + half] = a - b;
            }
    for (size_t i = 0; i < n; i++)
        x[i] *= norm;
}

void hadamard_turn(float *x, size_t d)
{
    size_t n = d & (~d + 1); /* the largest power of two that divides d */

    for (size_t i = 0; n > 1 && i < d; i += n)
        turn_block(x + i, n);
}
