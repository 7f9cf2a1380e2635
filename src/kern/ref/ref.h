/* ref.h - declares the portable kernels: ref_NAME for every function NAME of functions.def.
 *
 * These kernels define the results: one scalar operation after the other, in the order that kern.h fixes,
 * with fmaf() where a fused operation is meant. Every other kernel of the classes "fp32" and "bf16" must give
 * the same bits. The ref kernels need not be fast.
 */
#ifndef GALLOP_KERN_REF_REF_H
#define GALLOP_KERN_REF_REF_H

#include "kern/attention.h"
#include "kern/functions.def"
#include "kern/quant.h"

#define REF_DECLARE(name) kern_##name##_fn ref_##name;
KERN_FUNCTIONS(REF_DECLARE)
#undef REF_DECLARE

/* Computes the epilogue of G for row ROW of panel P: adds the bias to SUM, applies the activation, and stores
 * the columns below N in c, or in out as bf16 or fp32. */
void ref_gemm_end_row(const struct kern_gemm *g, size_t row, size_t p, float sum[KERN_NR], bool bf16);

enum { REF_LANES = 16 }; /* lanes of a 16-lane sum (kern.h) */

/* Folds the lanes of a 16-lane sum and returns the sum. Overwrites S. */
static inline float ref_fold(float s[REF_LANES])
{
    for (int step = REF_LANES / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++)
            s[i] += s[i + step];
    return s[0];
}

#endif
