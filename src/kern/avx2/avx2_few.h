/* avx2_few.h - gemm for few rows of A, as in decoding: bound by reading B from memory, once. */
#ifndef GALLOP_KERN_AVX2_AVX2_FEW_H
#define GALLOP_KERN_AVX2_AVX2_FEW_H

#include "kern/kern.h"

/* Most rows of a call. Beyond, arithmetic is the bound, and avx2_gemm.c does better. */
enum { AVX2_FEW_MOST_F32 = 6, AVX2_FEW_MOST_BF16 = 4 };

/* The gemms of kern.h for at least one row and at most as many as above. */
void avx2_few_f32(const struct kern_gemm *g, size_t p0, size_t p1);
void avx2_few_bf16(const struct kern_gemm *g, size_t p0, size_t p1);

#endif
