/* avx512_mx4_f32.c - C = A x W in MXFP4 with fp32 sums: avx512_mx4.h with the sums of avx512_gemm_f32.c. */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_mx4.h"

AVX512_MX4_TABLE(AVX512_F32);

void KERN_NAME(avx512_gemm_mx4_f32)(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch)
{
    avx512_mx4_drive(g, p0, p1, scratch, &mx4, KERN_NAME(avx512_gemm_f32), AVX512_F32);
}
