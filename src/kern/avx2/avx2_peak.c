/* avx2_peak.c - the loops of peak.h with AVX2 and FMA.
 *
 * Two fused multiply-adds a cycle with a latency of 4 or 5 cycles need eight to ten chains; the loop has
 * twelve. The values converge to 1, so that none overflows or becomes subnormal.
 */
#include <immintrin.h>

#include "kern/avx2/avx2.h"
#include "kern/peak.h"
#include "kern/prefetch.h"

enum { CHAINS = 12 };

double avx2_peak_fma(size_t n)
{
    const __m256 m = _mm256_set1_ps(0.875f), x = _mm256_set1_ps(0.125f);
    __m256 acc[CHAINS];
    volatile float sink;

    /* The chains start with different values; otherwise the compiler would compute one chain for all. */
    AVX2_UNROLL
    for (int c = 0; c < CHAINS; c++)
        acc[c] = _mm256_set1_ps((float)c + 0.5f);
    for (size_t i = 0; i < n; i++) {
        AVX2_UNROLL
        for (int c = 0; c < CHAINS; c++)
            acc[c] = _mm256_fmadd_ps(acc[c], m, x);
    }
    AVX2_UNROLL
    for (int c = 1; c < CHAINS; c++)
        acc[0] = _mm256_add_ps(acc[0], acc[c]);
    sink = _mm256_cvtss_f32(acc[0]);
    (void)sink;
    return (double)n * CHAINS * 8 * 2;
}

/* Reads four streams at once, because a core then reads memory 1.5 times as fast as in one stream. */
uint64_t avx2_peak_read(const void *p, size_t bytes)
{
    const char *v = p;
    size_t part = bytes / 4;
    const bool level2 = cpu_prefetches_to_l2();
    __m256i a = _mm256_setzero_si256(), b = a;

    for (size_t i = 0; i + 256 <= part; i += 256)
        for (size_t s = 0; s < 4; s++)
            for (size_t j = 0; j < 256; j += 64) {
                const char *q = v + s * part + i + j;

                prefetch_line(q + 1024, level2);
                a = _mm256_xor_si256(a, _mm256_load_si256((const __m256i *)(const void *)q));
                b = _mm256_xor_si256(b, _mm256_load_si256((const __m256i *)(const void *)(q + 32)));
            }
    a = _mm256_xor_si256(a, b);
    return (uint64_t)_mm256_extract_epi64(a, 0) ^ (uint64_t)_mm256_extract_epi64(a, 1) ^
           (uint64_t)_mm256_extract_epi64(a, 2) ^ (uint64_t)_mm256_extract_epi64(a, 3);
}
