/* avx512vnni_peak.c - the int8 loop of peak.h: VPDPBUSD on registers, sixteen chains. */
#include "kern/peak.h"
#include "kern/simd512/simd512.h"

enum { CHAINS = 16 };

double KERN_NAME(avx512vnni_peak_dot8)(size_t n)
{
    const __m512i a = _mm512_set1_epi32(0x01010101), b = _mm512_set1_epi32(0x0101ffff);
    __m512i acc[CHAINS];
    volatile int sink;
    int w[16];

    /* The chains start with different values; otherwise the compiler would compute one chain for all. */
    SIMD512_UNROLL
    for (int c = 0; c < CHAINS; c++)
        acc[c] = _mm512_set1_epi32(c);
    for (size_t i = 0; i < n; i++) {
        SIMD512_UNROLL
        for (int c = 0; c < CHAINS; c++)
            acc[c] = _mm512_dpbusd_epi32(acc[c], a, b);
    }
    SIMD512_UNROLL
    for (int c = 1; c < CHAINS; c++)
        acc[0] = _mm512_xor_si512(acc[0], acc[c]);
    _mm512_storeu_si512(w, acc[0]);
    sink = w[0];
    (void)sink;
    return (double)n * CHAINS * 64 * 2;
}
