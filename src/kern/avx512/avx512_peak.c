/* avx512_peak.c - the loops of peak.h with 512-bit vectors: sixteen chains of fused multiply-adds, and
 * reading with software prefetching.
 *
 * Two multiply-adds a cycle with a latency of 4 cycles need eight chains; sixteen leave room for the
 * scheduler. The values converge to 1, so that none overflows or becomes subnormal.
 */
#include "kern/peak.h"
#include "kern/prefetch.h"
#include "kern/simd512/simd512.h"

enum { CHAINS = 16 };

double KERN_NAME(avx512_peak_fma)(size_t n)
{
    const __m512 m = _mm512_set1_ps(0.875f), x = _mm512_set1_ps(0.125f);
    __m512 acc[CHAINS];
    volatile float sink;

    /* The chains start with different values; otherwise the compiler would compute one chain for all. */
    SIMD512_UNROLL
    for (int c = 0; c < CHAINS; c++)
        acc[c] = _mm512_set1_ps((float)c + 0.5f);
    for (size_t i = 0; i < n; i++) {
        SIMD512_UNROLL
        for (int c = 0; c < CHAINS; c++)
            acc[c] = _mm512_fmadd_ps(acc[c], m, x);
    }
    SIMD512_UNROLL
    for (int c = 1; c < CHAINS; c++)
        acc[0] = _mm512_add_ps(acc[0], acc[c]);
    sink = simd512_fold_add(acc[0]);
    (void)sink;
    return (double)n * CHAINS * 16 * 2;
}

/* Reads four streams at once, because a core then reads memory 1.5 times as fast as in one stream. */
uint64_t KERN_NAME(avx512_peak_read)(const void *p, size_t bytes)
{
    const char *v = p;
    size_t part = bytes / 4;
    const bool level2 = cpu_prefetches_to_l2();
    __m512i a[4];
    uint64_t w[8], sum = 0;

    SIMD512_UNROLL
    for (int c = 0; c < 4; c++)
        a[c] = _mm512_set1_epi32(c);
    for (size_t i = 0; i + 256 <= part; i += 256) {
        SIMD512_UNROLL
        for (size_t s = 0; s < 4; s++) {
            SIMD512_UNROLL
            for (size_t c = 0; c < 4; c++) {
                prefetch_line(v + s * part + i + 64 * c + 1024, level2);
                a[c] = _mm512_xor_si512(a[c], _mm512_loadu_si512(v + s * part + i + 64 * c));
            }
        }
    }
    _mm512_storeu_si512(w, _mm512_xor_si512(_mm512_xor_si512(a[0], a[1]), _mm512_xor_si512(a[2], a[3])));
    for (int i = 0; i < 8; i++)
        sum ^= w[i];
    return sum;
}
