/* ref.h - declares the portable kernels: ref_NAME for every kernel of kern.h.
 *
 * They define the results: one scalar operation after the other, in the order that kern.h fixes, with fmaf()
 * where a fused operation is meant. Every faster kernel of the classes "fp32" and "bf16" must give the same
 * bits. Speed is not a goal here.
 */
#ifndef GALLOP_KERN_REF_REF_H
#define GALLOP_KERN_REF_REF_H

#include "kern/kern.h"

#define REF_DECLARE(name) kern_##name##_fn ref_##name;
KERN_FUNCTIONS(REF_DECLARE)
#undef REF_DECLARE

/* Adds the bias to the sums of panel P and stores the columns below N where G wants them. */
void ref_gemm_end_row(const struct kern_gemm *g, size_t row, size_t p, float sum[KERN_NR], bool bf16);

enum { REF_LANES = 16 };

/* Returns the fold of a 16-lane sum. Destroys s. */
static inline float ref_fold(float s[REF_LANES])
{
    for (int step = REF_LANES / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++)
            s[i] += s[i + step];
    return s[0];
}

#endif
