/* avx512_gemm_bf16.c - C = A x W in bf16 without the bf16 dot: both operands are widened exactly, and the
 * sums are the fp32 sums of ref/. For processors with AVX-512 and without AVX512-BF16.
 *
 *   panel  [K / 2][32][2] bf16, 2 zmm of pairs in each step; the even k are shifted up, the odd k masked
 *   A      rounded to bf16 and widened when it is stored in the input, then two broadcasts for each row and step
 *   sums   12 x 2 accumulators, even k before odd k, bias last
 *
 * With 12 rows, a step (two k) has 48 vfmadd231ps, 2 loads, 24 broadcasts and 4 integer operations.
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_gemm.h"

AVX512_GEMM_TABLE(AVX512_WIDE);

void KERN_NAME(avx512_gemm_in_bf16)(void *in, const float *x, size_t row, size_t m, size_t k)
{
    avx512_gemm_put(in, x, row, m, k, AVX512_WIDE);
}

void KERN_NAME(avx512_gemm_bf16)(const struct kern_gemm *g, size_t p0, size_t p1)
{
    avx512_gemm_drive(g, p0, p1, micro, AVX512_WIDE);
}
