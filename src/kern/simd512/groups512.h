/* groups512.h - unpacks weights in quantization groups and quantizes rows for them with 512-bit vectors;
 * shared by the gemm_blocks kernels of avx512vnni/ and amx/. */
#ifndef GALLOP_KERN_SIMD512_GROUPS512_H
#define GALLOP_KERN_SIMD512_GROUPS512_H

#include <string.h>

#include "kern/format/groups.h"
#include "kern/kmath.h"
#include "kern/simd512/simd512.h"

enum {
    GROUPS512_STEPS =
        GROUPS_SIZE / 4, /* steps of four k in a group; a step takes 64 bytes in each half of a panel */
};

SIMD512_INLINE __m512i groups512_line_at(const uint8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

/* Shifts 16-bit words left by LEFT bits, or right if LEFT is negative. LEFT is a constant after inlining, so
 * one instruction remains; the switch is for clang, which needs literal constants before inlining. */
SIMD512_INLINE __m512i groups512_moved(__m512i v, int left)
{
    switch (left) {
    case 4: return _mm512_slli_epi16(v, 4);
    case 3: return _mm512_slli_epi16(v, 3);
    case 2: return _mm512_slli_epi16(v, 2);
    case 1: return _mm512_slli_epi16(v, 1);
    case -1: return _mm512_srli_epi16(v, 1);
    case -2: return _mm512_srli_epi16(v, 2);
    case -3: return _mm512_srli_epi16(v, 3);
    case -4: return _mm512_srli_epi16(v, 4);
    case -5: return _mm512_srli_epi16(v, 5);
    case -6: return _mm512_srli_epi16(v, 6);
    default: return v;
    }
}

/* Reads the bit plane of WIDTH bits (groups.h) for the codes of step S for 16 columns, the left (H is 0) or the right
 * ones. Returns the codes with only these bits, at their position in the code. */
SIMD512_INLINE __m512i groups512_plane_at(const uint8_t *at, int s, int h, unsigned bits, unsigned width)
{
    const struct groups_plane p = groups_plane_of(bits, width, s);
    const __m512i mask = _mm512_set1_epi8((char)(((1u << width) - 1) << p.to));

    return _mm512_and_si512(groups512_moved(groups512_line_at(at + p.byte + h * GROUPS_LINE), p.to - p.from),
                            mask);
}

/* Returns the values of step S for the left (H is 0) or right 16 columns: the codes at AT, or the entries of
 * the format's table that they select. */
SIMD512_INLINE __m512i groups512_values_at(const uint8_t *at, int s, int h, const struct quant_format f)
{
    __m512i v = _mm512_setzero_si512();

    if (f.bits == 8)
        return groups512_line_at(at + (s * 2 + h) * GROUPS_LINE);
    if (f.bits & 4)
        v = groups512_plane_at(at, s, h, f.bits, 4);
    if (f.bits & 2)
        v = _mm512_or_si512(v, groups512_plane_at(at, s, h, f.bits, 2));
    if (f.bits & 1)
        v = _mm512_or_si512(v, groups512_plane_at(at, s, h, f.bits, 1));
    if (f.values)
        v = _mm512_shuffle_epi8(
            _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)quant_values[f.values])),
            v);
    return v;
}

SIMD512_INLINE __m512 groups512_halves_at(const uint8_t *p)
{
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);

    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_cvtph_ps(_mm256_castsi256_si128(h))),
                              _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)), 1);
}

/* Returns the scales d of 16 columns in a format whose d is a power of two: their exponents, as floats. */
SIMD512_INLINE __m512 groups512_exponents_at(const uint8_t *p)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));

    return _mm512_cvtepi32_ps(_mm512_sub_epi32(e, _mm512_set1_epi32(GROUPS_POWERS)));
}

/* Returns the integers that multiply d (I is 0) or min (I is 1) in half H of a group, for 16 columns. P
 * points to the group's multiples. */
SIMD512_INLINE __m512 groups512_multiples_at(const uint8_t *p, int i, int h, const struct quant_format f)
{
    const int at = f.in_halves ? h : i;
    __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p + at * KERN_NR)));

    if (f.min && f.in_halves)
        v = _mm512_and_si512(i ? _mm512_srli_epi32(v, 4) : v, _mm512_set1_epi32(15));
    if (!f.min)
        v = _mm512_srai_epi32(_mm512_slli_epi32(v, 24), 24);
    return _mm512_cvtepi32_ps(v);
}

/* Returns the scales d in half H of a group for 16 columns, the left (SIDE is 0) or the right ones: their
 * exponents if f.powers, otherwise their values. groups512_min_at() returns the minimums. */
SIMD512_INLINE __m512 groups512_d_at(const uint8_t *head, const uint8_t *group, int side, int h,
                                     const struct quant_format f)
{
    __m512 d = f.powers ? groups512_exponents_at(head + 16 * side) : groups512_halves_at(head + 32 * side);

    return f.multiples ? _mm512_mul_ps(d, groups512_multiples_at(group + 16 * side, 0, h, f)) : d;
}

SIMD512_INLINE __m512 groups512_min_at(const uint8_t *head, const uint8_t *group, int side, int h,
                                       const struct quant_format f)
{
    __m512 min = groups512_halves_at(head + 2 * KERN_NR + 32 * side);

    if (!f.multiples)
        return min;
    return _mm512_sub_ps(_mm512_setzero_ps(),
                         _mm512_mul_ps(min, groups512_multiples_at(group + 16 * side, 1, h, f)));
}

/* Returns, in all lanes, the sum of the dequantized inputs of row R in half H of a group, or in the whole
 * group in formats without halves. IN is the group in a tile of ROWS rows. */
SIMD512_INLINE __m512 groups512_weighed(char *in, int rows, int r, int h, const struct quant_format f)
{
    const int32_t *sums = groups_sums(in, (size_t)rows) + 2 * r;
    __m512i minus = _mm512_set1_epi32(sums[0]);

    if (!f.in_halves)
        return _mm512_set1_ps(groups_weighed(in, (size_t)rows)[r]);
    if (h)
        minus = _mm512_sub_epi32(_mm512_set1_epi32(sums[1]), minus);
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_setzero_si512(), minus)),
                         _mm512_set1_ps(groups_scales(in, (size_t)rows)[r]));
}

/* Scales the integer sums N of a group by the weight scales D and the row's SCALE and adds them to Y. With
 * POWERS, D has the exponents of the scales, and VSCALEFPS, which needs no port of the multipliers, applies
 * them. */
SIMD512_INLINE __m512 groups512_add(__m512 y, __m512i n, __m512 d, float scale, bool powers)
{
    const __m512 x = _mm512_cvtepi32_ps(n), row = _mm512_set1_ps(scale);

    return powers ? _mm512_fmadd_ps(_mm512_scalef_ps(x, d), row, y)
                  : _mm512_fmadd_ps(x, _mm512_mul_ps(d, row), y);
}

/* An unpacked group: the values, and the scales d and minimums of each half. Formats without halves use only
 * half 0. If the scales are powers of two, d has their exponents. */
struct groups512_group {
    uint8_t value[GROUPS512_STEPS][2][GROUPS_LINE];
    float d[2][KERN_NR], min[2][KERN_NR];
};

/* Unpacks N groups of PANEL, from group FROM on. CENTRED: subtracts the format's zero point from the
 * values. */
SIMD512_INLINE void groups512_unpack(struct groups512_group *to, const uint8_t *panel, size_t from, size_t n,
                                     const struct quant_format f, bool centred)
{
    for (size_t i = 0; i < n; i++, to++) {
        const uint8_t *head = groups_head(&f, panel, from + i), *group = groups_at(&f, panel, from + i),
                      *codes = groups_codes(&f, group);

        SIMD512_UNROLL
        for (int s = 0; s < GROUPS512_STEPS; s++)
            SIMD512_UNROLL
        for (int h = 0; h < 2; h++) {
            __m512i v = groups512_values_at(codes, s, h, f);

            if (centred && f.zero)
                v = _mm512_add_epi8(v, _mm512_set1_epi8((char)-f.zero));
            _mm512_storeu_si512((void *)to->value[s][h], v);
        }
        for (int side = 0; side < 2; side++)
            for (int h = 0; h < groups_parts(f); h++) {
                _mm512_storeu_ps(&to->d[h][16 * side], groups512_d_at(head, group, side, h, f));
                if (f.min)
                    _mm512_storeu_ps(&to->min[h][16 * side], groups512_min_at(head, group, side, h, f));
            }
    }
}

/* ---- the input ---- */

/* Returns the maximum of the unsigned lanes or, with SUM, their sum. */
SIMD512_INLINE int32_t groups512_fold(__m512i v, bool sum)
{
    __m256i low = _mm512_castsi512_si256(v), high = _mm512_extracti64x4_epi64(v, 1);
    __m128i a, b;

    low = sum ? _mm256_add_epi32(low, high) : _mm256_max_epu32(low, high);
    a = _mm256_castsi256_si128(low);
    b = _mm256_extracti128_si256(low, 1);
    a = sum ? _mm_add_epi32(a, b) : _mm_max_epu32(a, b);
    b = _mm_shuffle_epi32(a, 0x4e);
    a = sum ? _mm_add_epi32(a, b) : _mm_max_epu32(a, b);
    b = _mm_shuffle_epi32(a, 0xb1);
    return _mm_cvtsi128_si32(sum ? _mm_add_epi32(a, b) : _mm_max_epu32(a, b));
}

static uint32_t groups512_largest_of(__m512 a, __m512 b)
{
    const __m512i all = _mm512_set1_epi32(0x7fffffff);

    return (uint32_t)groups512_fold(_mm512_max_epu32(_mm512_and_si512(all, _mm512_castps_si512(a)),
                                                     _mm512_and_si512(all, _mm512_castps_si512(b))),
                                    false);
}

/* Rounds sixteen numbers times INV to int8 and stores them at N. Returns their sum. */
static int32_t groups512_put_half(int8_t *n, __m512 x, __m512 inv)
{
    __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(x, inv));

    _mm_storeu_si128((__m128i *)(void *)n, _mm512_cvtepi32_epi8(v));
    return groups512_fold(v, true);
}

/* Quantizes X[k] and stores it in the input IN as row R of tile T. */
static inline void groups512_put(void *in, struct groups_rows t, size_t r, const float *x, size_t k)
{
    for (size_t i = 0; i < k / GROUPS_SIZE; i++, x += GROUPS_SIZE) {
        char *group = groups_in(in, t, k, i);
        __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
        float scale, inv = kmath_i8_inv(groups512_largest_of(a, b), &scale);
        int8_t *n = (int8_t *)group + r * GROUPS_SIZE;
        int32_t half[2] = {0};

        memset(n, 0, GROUPS_SIZE);
        if (inv > 0) {
            half[0] = groups512_put_half(n, a, _mm512_set1_ps(inv));
            half[1] = groups512_put_half(n + 16, b, _mm512_set1_ps(inv));
        }
        groups_put_sums(group, t.rows, r, half, scale);
    }
}

#endif
