/* avx512vnni_gemm_i8.c - C = A x W of bytes with VPDPBUSD, in the arithmetic class "int8 sum".
 *
 *   panel  [(K + 3) / 4][32][4] int8, 2 zmm in each step; then the correction for the 128 added to A, and the
 *          scales
 *   A      bytes with 128 added, four for each row and step, broadcast
 *   sums   14 x 2 accumulators of int32
 *
 * With 12 rows, a step (four k) has 24 vpdpbusd, 2 loads and 12 broadcasts: as for two k of the bf16 dot.
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_gemm.h"

AVX512_GEMM_TALL(AVX512_I8_GEMM);

void KERN_NAME(avx512vnni_gemm_in_i8)(void *in, const float *x, size_t row, size_t m, size_t k, float fixed)
{
    avx512_gemm_put_i8(
        in, avx512_gemm_tile(((row + 1) * avx512_gemm_tiles(m, AVX512_I8_GEMM) - 1) / m, m, AVX512_I8_GEMM),
        x, row, m, k, fixed);
}

void KERN_NAME(avx512vnni_gemm_i8)(const struct kern_gemm *g, size_t p0, size_t p1)
{
    avx512_gemm_drive(g, p0, p1, micro, AVX512_I8_GEMM);
}
