/* avx2_i4.c - C = A x W^T + bias over 4-bit panels: unpacks each panel to bytes in L2 for gemm_i8. */
#include <immintrin.h>
#include <string.h>

#include "kern/avx2/avx2.h"
#include "kern/format/int4.h"

/* HEAD has the multiples and offsets of a group (int4.h). Returns the multiples of eight columns, each in
 * both halves of a 32-bit lane. offsets_at() returns the offsets, each in all four bytes of a lane. */
static inline __m256i multiples_at(const uint8_t *head)
{
    __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)head));

    return _mm256_or_si256(x, _mm256_slli_epi32(x, 16));
}

static inline __m256i offsets_at(const uint8_t *head)
{
    const __m256i four =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));

    return _mm256_shuffle_epi8(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)head)),
                               four);
}

/* Unpacks the columns [8 q, 8 q + 8) of a unit of codes. */
AVX2_INLINE void unpack_unit(char *to, const uint8_t *codes, int q, __m256i multiple, __m256i offset)
{
    const __m256i low = _mm256_set1_epi8(15);

    codes += q / 2 * INT4_LINE + q % 2 * 32;
    to += 32 * q;
    for (int s = 0; s < INT4_STEPS; s++, codes += 2 * INT4_LINE, to += 2 * 4 * KERN_NR) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)codes);
        __m256i y = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);

        x = _mm256_mullo_epi16(_mm256_and_si256(x, low), multiple);
        y = _mm256_mullo_epi16(y, multiple);
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_add_epi8(x, offset));
        _mm256_storeu_si256((__m256i *)(void *)(to + 4 * KERN_NR), _mm256_add_epi8(y, offset));
    }
}

static void i4_unpack(char *to, const uint8_t *panel, size_t k, size_t group)
{
    for (size_t i = 0; i < k / INT4_UNIT; i++, to += INT4_UNIT * KERN_NR)
        for (int q = 0; q < KERN_NR / 8; q++) {
            const uint8_t *head = panel + int4_head(i, group) + 8 * q;

            unpack_unit(to, panel + int4_codes(i, group), q, multiples_at(head), offsets_at(head + KERN_NR));
        }
}

void avx2_gemm_i4(const struct kern_gemm *g, size_t group, size_t p0, size_t p1, void *scratch)
{
    for (size_t p = p0; p < p1; p++) {
        const uint8_t *panel = int4_panel(g, group, p);
        struct kern_gemm one = int4_unpacked(g, p, scratch);

        i4_unpack(scratch, panel, g->k, group);
        memcpy((char *)scratch + g->k * KERN_NR, panel + int4_panel_bytes(g->k, group) - KERN_I8_TAIL,
               KERN_I8_TAIL);
        avx2_gemm_i8(&one, p, p + 1);
    }
}
