/* avx2_few.h - gemm for few rows of A, as in decoding: bound by reading B from memory, once. */
#ifndef GALLOP_KERN_AVX2_AVX2_FEW_H
#define GALLOP_KERN_AVX2_AVX2_FEW_H

#include "kern/kern.h"

enum { AVX2_FEW_MOST = 8 }; /* rows of a call; beyond, arithmetic is the bound */

/* The gemm of kern.h for 1 <= g->m <= AVX2_FEW_MOST. */
void avx2_few_f32(const struct kern_gemm *g, size_t p0, size_t p1);
void avx2_few_bf16(const struct kern_gemm *g, size_t p0, size_t p1);

#endif
