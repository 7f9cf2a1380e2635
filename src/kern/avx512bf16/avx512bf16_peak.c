/* avx512bf16_peak.c - the bf16 loop of peak.h: VDPBF16PS on registers.
 *
 * Twenty-four chains cover a latency of up to 6 cycles at up to two VDPBF16PS a cycle; the gemm has as many.
 * The pairs are (1, 0) and (2^-7, 2^-7).
 */
#include "kern/peak.h"
#include "kern/simd512/simd512.h"

enum { CHAINS = 24 };

double KERN_NAME(avx512bf16_peak_dot)(size_t n)
{
    const __m512i one = _mm512_set1_epi32(0x3f80), x = _mm512_set1_epi32(0x3c003c00);
    __m512 acc[CHAINS];
    volatile float sink;

    /* The chains start with different values; otherwise the compiler would compute one chain for all. */
    SIMD512_UNROLL
    for (int c = 0; c < CHAINS; c++)
        acc[c] = _mm512_set1_ps((float)c + 0.5f);
    for (size_t i = 0; i < n; i++) {
        SIMD512_UNROLL
        for (int c = 0; c < CHAINS; c++)
            acc[c] = simd512_dot(acc[c], one, x);
    }
    SIMD512_UNROLL
    for (int c = 1; c < CHAINS; c++)
        acc[0] = _mm512_add_ps(acc[0], acc[c]);
    sink = simd512_fold_add(acc[0]);
    (void)sink;
    return (double)n * CHAINS * 16 * 4;
}
