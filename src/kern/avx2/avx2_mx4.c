/* avx2_mx4.c - MXFP4 panels to fp32 and bf16 panels: the four bits are looked up as the two bytes of a bf16,
 * which are the upper half of the fp32, and multiplied by the scale. */
#include <immintrin.h>

#include "kern/avx2/avx2.h"

enum { GROUP = 32, GROUP_BYTES = KERN_NR + GROUP / 2 * KERN_NR };

/* 2^(s - 127) of eight scales. */
static inline __m256 scales_at(const uint8_t *s)
{
    __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)s));
    __m256i f = _mm256_slli_epi32(x, 23);

    f = _mm256_blendv_epi8(f, _mm256_set1_epi32(0x00400000), _mm256_cmpeq_epi32(x, _mm256_setzero_si256()));
    f = _mm256_blendv_epi8(f, _mm256_set1_epi32(0x7fc00000), _mm256_cmpeq_epi32(x, _mm256_set1_epi32(255)));
    return _mm256_castsi256_ps(f);
}

/* Sixteen elements, given as nibbles in bytes, to fp32 with the scales S. */
static inline void widen(__m128i nibble, const __m256 s[2], __m256 out[2])
{
    const __m128i high =
        _mm_setr_epi8(0, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40, (char)0x80, (char)0xbf, (char)0xbf,
                      (char)0xbf, (char)0xc0, (char)0xc0, (char)0xc0, (char)0xc0);
    const __m128i low = _mm_setr_epi8(0, 0, (char)0x80, (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0, 0, 0,
                                      (char)0x80, (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0);
    __m128i h = _mm_shuffle_epi8(high, nibble), l = _mm_shuffle_epi8(low, nibble);
    __m256i a = _mm256_cvtepu16_epi32(_mm_unpacklo_epi8(l, h)),
            b = _mm256_cvtepu16_epi32(_mm_unpackhi_epi8(l, h));

    out[0] = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), s[0]);
    out[1] = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(b, 16)), s[1]);
}

/* Pairs of fp32 whose lower halves are zero, as bf16 beside each other. */
static inline __m256i pair(__m256 even, __m256 odd)
{
    return _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(even), 16), _mm256_castps_si256(odd));
}

/* Two rows of 16 columns at AT, in elements. */
static inline void put(void *panel, size_t at, size_t c, const __m256 even[2], const __m256 odd[2], bool bf16)
{
    float *f = (float *)panel + at + c;
    uint16_t *h = (uint16_t *)panel + at + 2 * c;

    if (bf16) {
        _mm256_storeu_si256((__m256i *)(void *)h, pair(even[0], odd[0]));
        _mm256_storeu_si256((__m256i *)(void *)(h + 16), pair(even[1], odd[1]));
        return;
    }
    _mm256_storeu_ps(f, even[0]);
    _mm256_storeu_ps(f + 8, even[1]);
    _mm256_storeu_ps(f + KERN_NR, odd[0]);
    _mm256_storeu_ps(f + KERN_NR + 8, odd[1]);
}

AVX2_INLINE void unpack(void *panel, const uint8_t *packed, size_t k, bool bf16)
{
    const __m128i mask = _mm_set1_epi8(15);

    for (size_t g = 0; g < k / GROUP; g++, packed += GROUP_BYTES)
        for (size_t c = 0; c < KERN_NR; c += 16) {
            const __m256 s[2] = {scales_at(packed + c), scales_at(packed + c + 8)};

            for (size_t i = 0; i < GROUP / 2; i++) {
                __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(packed + (i + 1) * KERN_NR + c));
                __m256 even[2], odd[2];

                widen(_mm_and_si128(b, mask), s, even);
                widen(_mm_and_si128(_mm_srli_epi16(b, 4), mask), s, odd);
                put(panel, (g * GROUP + 2 * i) * KERN_NR, c, even, odd, bf16);
            }
        }
}

void avx2_mx4_f32(float *panel, const uint8_t *packed, size_t k)
{
    unpack(panel, packed, k, false);
}

void avx2_mx4_bf16(uint16_t *panel, const uint8_t *packed, size_t k)
{
    unpack(panel, packed, k, true);
}
