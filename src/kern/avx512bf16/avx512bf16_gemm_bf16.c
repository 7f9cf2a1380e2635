/* avx512bf16_gemm_bf16.c - C = A x W with VDPBF16PS, in the arithmetic class "bf16 dot": pairs along K,
 * ascending.
 *
 *   panel  [K / 2][32][2] bf16, 2 zmm in each step, which are operands of VDPBF16PS as they are stored
 *   A      one pair for each row and step, broadcast
 *   sums   14 x 2 accumulators, bias last
 *
 * With 12 rows, a step (two k) has 24 vdpbf16ps, 2 loads and 12 broadcasts. Zen 4 issues one 512-bit
 * vdpbf16ps and one 512-bit load in a cycle, Zen 5 two and two: 24 and 12 cycles, limited by vdpbf16ps in
 * both (llvm-mca, Cooper Lake: 13.1 with the instructions of the loop). With one row: two chains, 128 bytes
 * in 6 cycles, far more than memory delivers to a core.
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_gemm.h"

AVX512_GEMM_TALL(AVX512_DOT);

void KERN_NAME(avx512bf16_gemm_in_bf16)(void *in, const float *x, size_t row, size_t m, size_t k)
{
    avx512_gemm_put(in, x, row, m, k, AVX512_DOT);
}

void KERN_NAME(avx512bf16_gemm_bf16)(const struct kern_gemm *g, size_t p0, size_t p1)
{
    avx512_gemm_drive(g, p0, p1, micro, AVX512_DOT);
}
