/* avx2_gemm.c - C = A x W^T + bias for fp32 and bf16 weights: selects the loop for few or for many rows. */
#include "kern/avx2/avx2.h"

void avx2_gemm_f32(const struct kern_gemm *g, size_t p0, size_t p1)
{
    if (g->m > AVX2_FEW_MOST_F32)
        avx2_many_f32(g, p0, p1);
    else if (g->m > 0)
        avx2_few_f32(g, p0, p1);
}

void avx2_gemm_bf16(const struct kern_gemm *g, size_t p0, size_t p1)
{
    if (g->m > AVX2_FEW_MOST_BF16)
        avx2_many_bf16(g, p0, p1);
    else if (g->m > 0)
        avx2_few_bf16(g, p0, p1);
}
