/* avx512bf16_mx4_bf16.c - C = A x W in MXFP4 with VDPBF16PS: avx512_mx4.h with the sums of
 * avx512bf16_gemm_bf16.c.
 *
 * With one row, 64 packed bytes (two pairs of k of 32 columns) need 4 permutes, 3 shifts, 4 tests, 4
 * additions and 4 VDPBF16PS of 512 bits.
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_mx4.h"

AVX512_MX4_TABLE(AVX512_DOT);

void KERN_NAME(avx512bf16_gemm_mx4_bf16)(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch)
{
    avx512_mx4_drive(g, p0, p1, scratch, &mx4, KERN_NAME(avx512bf16_gemm_bf16), AVX512_DOT);
}
