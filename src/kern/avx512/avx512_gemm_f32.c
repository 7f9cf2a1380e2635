/* avx512_gemm_f32.c - C = A x W in fp32: avx512_gemm.h with one fused multiply-add for each step and element.
 *
 *   panel  [K][32] float, 2 zmm in each step;  A  one float of each row in a step, broadcast
 *   sums   12 x 2 accumulators, K ascending, bias last
 *
 * With 12 rows, a step has 24 vfmadd231ps, 2 loads and 12 broadcasts. Zen 4 issues one 512-bit FMA and one
 * 512-bit load (or two narrower ones) in a cycle: 24 cycles, which hide the loads. Zen 5 and Intel with two
 * FMA ports: 12 cycles, which still hide 14 loads at two a cycle (llvm-mca, Ice Lake: 13.1 with the
 * instructions of the loop). With one row: two chains, 128 bytes in 4 cycles, far more than memory delivers.
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_gemm.h"

AVX512_GEMM_TABLE(AVX512_F32);

void KERN_NAME(avx512_gemm_in_f32)(void *in, const float *x, size_t row, size_t m, size_t k)
{
    avx512_gemm_put(in, x, row, m, k, AVX512_F32);
}

void KERN_NAME(avx512_gemm_f32)(const struct kern_gemm *g, size_t p0, size_t p1)
{
    avx512_gemm_drive(g, p0, p1, micro, AVX512_F32);
}
