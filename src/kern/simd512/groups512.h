/* groups512.h - unpacking weights in quantization groups, and quantizing rows for them, with 512-bit
 * vectors: the part that the gemm_blocks kernels of avx512vnni/ and amx/ share. */
#ifndef GALLOP_KERN_SIMD512_GROUPS512_H
#define GALLOP_KERN_SIMD512_GROUPS512_H

#include <string.h>

#include "kern/avx512/avx512.h"
#include "kern/format/groups.h"
#include "kern/kmath.h"
#include "kern/simd512/simd512.h"

enum {
    GROUPS512_STEPS = GROUPS_SIZE / 4, /* steps of four k in a group, 64 bytes for each side of a panel */
};

/* All forms: X(name, bits, zero, min, multiples, halves, powers). */
#define GROUPS512_FORMS(X)                     \
    X(4, 4, 8, false, false, 1, false)         \
    X(4_min, 4, 0, true, false, 1, false)      \
    X(4_multiples, 4, 0, true, true, 1, false) \
    X(4_powers, 4, 16, false, false, 1, true)  \
    X(5, 5, 16, false, false, 1, false)        \
    X(5_min, 5, 0, true, false, 1, false)      \
    X(5_multiples, 5, 0, true, true, 1, false) \
    X(6, 6, 32, false, true, 2, false)         \
    X(8, 8, 128, false, false, 1, false)

static inline bool groups512_same(const struct groups_form *a, const struct groups_form *b)
{
    return a->bits == b->bits && a->min == b->min && a->multiples == b->multiples && a->powers == b->powers;
}

SIMD512_INLINE __m512i groups512_line_at(const uint8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

/* Shifts words left by LEFT bits, or right if LEFT is negative. LEFT is constant after inlining, so one
 * instruction remains; clang needs the constants before that, hence the switch. */
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
    default: return v;
    }
}

/* Returns the codes of step S and side H, which are packed in BITS bits each; with POWERS, looked up in
 * GROUPS_FP4. */
SIMD512_INLINE __m512i groups512_code_at(const uint8_t *at, int s, int h, unsigned bits, bool powers)
{
    const __m512i mask = _mm512_set1_epi8(bits == 5 ? 16 : 48);
    const uint8_t *upper = at + GROUPS_CODES / 2;
    __m512i v = groups512_line_at(at + (bits == 8 ? s * 2 + h : s / 2 * 2 + h) * GROUPS_LINE), u;

    if (bits == 8)
        return v;
    v = _mm512_and_si512(s % 2 ? _mm512_srli_epi16(v, 4) : v, _mm512_set1_epi8(15));
    if (bits == 5) { /* moves bit S of each byte to bit 4 */
        u = groups512_line_at(upper + h * GROUPS_LINE);
        v = _mm512_or_si512(v, _mm512_and_si512(groups512_moved(u, 4 - s), mask));
    }
    if (bits == 6) { /* moves bits 2 (S % 4) and the next one to bits 4 and 5 */
        u = groups512_line_at(upper + (s / 4 * 2 + h) * GROUPS_LINE);
        v = _mm512_or_si512(v, _mm512_and_si512(groups512_moved(u, 4 - 2 * (s % 4)), mask));
    }
    if (powers)
        v = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_setr_epi8(GROUPS_FP4)), v);
    return v;
}

SIMD512_INLINE __m512 groups512_halves_at(const uint8_t *p)
{
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);

    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_cvtph_ps(_mm256_castsi256_si128(h))),
                              _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)), 1);
}

/* Returns the exponents of sixteen powers of two. */
SIMD512_INLINE __m512 groups512_exponents_at(const uint8_t *p)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));

    return _mm512_cvtepi32_ps(_mm512_sub_epi32(e, _mm512_set1_epi32(GROUPS_POWERS)));
}

/* Returns sixteen multiples, signed if the form has HALVES. */
SIMD512_INLINE __m512 groups512_multiples_at(const uint8_t *p, int halves)
{
    __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));

    if (halves == 2)
        v = _mm512_srai_epi32(_mm512_slli_epi32(v, 24), 24);
    return _mm512_cvtepi32_ps(v);
}

/* Returns d of the 16 columns of side SIDE in half H of a group; in forms of powers, its exponents.
 * groups512_min_at() returns the minimums. */
SIMD512_INLINE __m512 groups512_d_at(const uint8_t *head, const uint8_t *group, int side, int h,
                                     const struct groups_form f)
{
    __m512 d = f.powers ? groups512_exponents_at(head + 16 * side) : groups512_halves_at(head + 32 * side);

    return f.multiples ? _mm512_mul_ps(d, groups512_multiples_at(group + h * KERN_NR + 16 * side, f.halves))
                       : d;
}

SIMD512_INLINE __m512 groups512_min_at(const uint8_t *head, const uint8_t *group, int side,
                                       const struct groups_form f)
{
    __m512 min = groups512_halves_at(head + 2 * KERN_NR + 32 * side);

    if (!f.multiples)
        return min;
    return _mm512_sub_ps(_mm512_setzero_ps(),
                         _mm512_mul_ps(min, groups512_multiples_at(group + KERN_NR + 16 * side, 1)));
}

/* Returns Y plus the sum N of the products of a group times D times the SCALE of the row. In forms of powers
 * D holds exponents, and an instruction that uses no multiplier port adds them. */
SIMD512_INLINE __m512 groups512_add(__m512 y, __m512i n, __m512 d, float scale, bool powers)
{
    const __m512 x = _mm512_cvtepi32_ps(n), row = _mm512_set1_ps(scale);

    return powers ? _mm512_fmadd_ps(_mm512_scalef_ps(x, d), row, y)
                  : _mm512_fmadd_ps(x, _mm512_mul_ps(d, row), y);
}

SIMD512_INLINE const uint8_t *groups512_codes_of(const uint8_t *group, const struct groups_form f)
{
    return group + (f.multiples ? 2 * KERN_NR : 0);
}

/* An unpacked group. */
struct groups512_group {
    uint8_t code[GROUPS512_STEPS][2][GROUPS_LINE];
    float d
        [2]
        [KERN_NR]; /* d of the two halves, of the group in [0] without halves; exponents in forms of powers */
    float min[KERN_NR];
};

/* Unpacks N groups of PANEL from group FROM on. CENTRED: the codes are signed, with the zero of the form
 * subtracted. */
SIMD512_INLINE void groups512_unpack(struct groups512_group *to, const uint8_t *panel, size_t from, size_t n,
                                     const struct groups_form f, bool centred)
{
    for (size_t i = 0; i < n; i++, to++) {
        const uint8_t *head = groups_head(&f, panel, from + i), *group = groups_at(&f, panel, from + i),
                      *codes = groups512_codes_of(group, f);

        SIMD512_UNROLL
        for (int s = 0; s < GROUPS512_STEPS; s++)
            SIMD512_UNROLL
        for (int h = 0; h < 2; h++) {
            __m512i v = groups512_code_at(codes, s, h, f.bits, f.powers);

            if (centred && f.zero)
                v = _mm512_add_epi8(v, _mm512_set1_epi8((char)-f.zero));
            _mm512_storeu_si512((void *)to->code[s][h], v);
        }
        for (int side = 0; side < 2; side++) {
            for (int h = 0; h < f.halves; h++)
                _mm512_storeu_ps(&to->d[h][16 * side], groups512_d_at(head, group, side, h, f));
            if (f.min)
                _mm512_storeu_ps(&to->min[16 * side], groups512_min_at(head, group, side, f));
        }
    }
}

/* ---- the input ---- */

/* Folds the lanes to their maximum or, with SUM, their sum: lane I takes lane I + 8, I + 4, I + 2, I + 1. */
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

/* Stores sixteen numbers as bytes at N. Returns their sum. */
static int32_t groups512_put_half(int8_t *n, __m512 x, __m512 inv)
{
    __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(x, inv));

    _mm_storeu_si128((__m128i *)(void *)n, _mm512_cvtepi32_epi8(v));
    return groups512_fold(v, true);
}

/* Quantizes X [k] and puts it into the input IN as row R of tile T. */
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
