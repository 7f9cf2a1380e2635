/* avx2_mx4.c - C = A x W^T + bias over MXFP4 panels: unpacks each panel and calls the gemm for fp32 or bf16
 * while the panel is in L2.
 *
 * Unpacking looks up the bf16 value of each four-bit code, which is the upper half of its fp32 value, and
 * multiplies by the scale.
 */
#include <immintrin.h>

#include "kern/avx2/avx2.h"
#include "kern/format/mx4.h"

/* Returns 2^(s - 127) of eight scales. */
static inline __m256 scales_at(const uint8_t *s)
{
    __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)s));
    __m256i f = _mm256_slli_epi32(x, 23);

    f = _mm256_blendv_epi8(f, _mm256_set1_epi32(0x00400000), _mm256_cmpeq_epi32(x, _mm256_setzero_si256()));
    f = _mm256_blendv_epi8(f, _mm256_set1_epi32(0x7fc00000), _mm256_cmpeq_epi32(x, _mm256_set1_epi32(255)));
    return _mm256_castsi256_ps(f);
}

/* Returns the bf16 value of the nibble in each 16-bit word. The unused byte is looked up as index 0. */
static inline __m256i look_up(__m256i nibble)
{
    const __m256i high = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40, (char)0x80, (char)0xbf, (char)0xbf,
                      (char)0xbf, (char)0xc0, (char)0xc0, (char)0xc0, (char)0xc0));
    const __m256i low = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, (char)0x80, (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0, 0, 0, (char)0x80,
                      (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0));

    return _mm256_or_si256(_mm256_shuffle_epi8(low, nibble),
                           _mm256_shuffle_epi8(high, _mm256_slli_epi16(nibble, 8)));
}

/* Multiplies X, the bf16 values of two consecutive k for eight columns, by the scales S of the columns, and
 * stores the products in the panel from column C on: as fp32 in two rows of KERN_NR columns, or as pairs of
 * bf16. */
static inline void mx4_put(void *panel, size_t pair, size_t c, __m256i x, __m256 s, bool bf16)
{
    __m256 even = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(x, 16)), s);
    __m256 odd =
        _mm256_mul_ps(_mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000u))), s);
    float *f = (float *)panel + pair * 2 * KERN_NR + c;

    if (bf16) {
        _mm256_storeu_si256(
            (__m256i *)(void *)((uint16_t *)panel + (pair * KERN_NR + c) * 2),
            _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(even), 16), _mm256_castps_si256(odd)));
        return;
    }
    _mm256_storeu_ps(f, even);
    _mm256_storeu_ps(f + KERN_NR, odd);
}

AVX2_INLINE void mx4_unpack(void *panel, const uint8_t *group, size_t k, bool bf16)
{
    const __m256i mask = _mm256_set1_epi16(15);

    for (size_t pair = 0; pair < k / 2; pair += MX4_GROUP_SIZE / 2, group += MX4_GROUP_BYTES)
        for (size_t c = 0; c < 16; c += 8) { /* each pass unpacks the columns c + 16 as well */
            const __m256 s[2] = {scales_at(group + c), scales_at(group + 16 + c)};

            for (size_t l = 0; l < MX4_LINES; l++) {
                __m256i x = _mm256_loadu_si256(
                    (const __m256i *)(const void *)(group + KERN_NR + l * MX4_LINE + 4 * c));

                AVX2_UNROLL
                for (int j = 0; j < 4; j++) {
                    __m256i nibble = _mm256_and_si256(_mm256_srli_epi16(x, 4 * j), mask);

                    mx4_put(panel, pair + 2 * l + (size_t)j / 2, c + 16 * ((size_t)j % 2), look_up(nibble),
                            s[j % 2], bf16);
                }
            }
        }
}

AVX2_INLINE void mx4_gemm(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch, bool bf16)
{
    for (size_t p = p0; p < p1; p++) {
        struct kern_gemm one = mx4_panel(g, p, scratch);

        mx4_unpack(scratch, mx4_groups(g, p), g->k, bf16);
        (bf16 ? avx2_gemm_bf16 : avx2_gemm_f32)(&one, p, p + 1);
    }
}

void avx2_gemm_mx4_f32(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch)
{
    mx4_gemm(g, p0, p1, scratch, false);
}

void avx2_gemm_mx4_bf16(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch)
{
    mx4_gemm(g, p0, p1, scratch, true);
}
