/* avx512_mx4.h - the 512-bit gemms over MXFP4 panels.
 *
 *   few     rows, one tile of the input: a group of a panel is read once, unpacked in registers and multiplied
 *           with all rows. One row computes two panels at once, so that it has four chains of sums
 *   many    rows: a panel is unpacked to scratch, which stays in L2, for the gemm of the same class
 *
 * Unpacking gives the exact weight, so every sum has the bits of the gemm over unpacked panels. For "bf16
 * dot", 16 columns of a pair of k need a shift, a permute of words that looks up the four bits, and an
 * addition of the scale to the exponent, unless the value is zero. With scale 0 the addition would be wrong
 * for 0.5 * 2^-127, so groups with such a scale are unpacked with multiplications. For fp32 sums, 16 columns
 * of one k need a shift, a permute of floats and a multiplication.
 */
#ifndef GALLOP_KERN_AVX512_MX4_H
#define GALLOP_KERN_AVX512_MX4_H

#include "kern/avx512/avx512_gemm.h"
#include "kern/format/mx4.h"

enum {
    AVX512_MX4_SIDES = 2,  /* sides of a panel: 16 columns each */
    AVX512_MX4_PANELS = 2, /* maximum panels that are computed at once */
    AVX512_MX4_STEPS = 16, /* pairs of k in a group */
};

/* Returns the sixteen FP4 values as words of bf16, twice, because the permute looks up five bits. */
SIMD512_INLINE __m512i avx512_mx4_words(void)
{
    static const uint16_t table[32] = {0,      0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0,
                                       0x8000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0,
                                       0,      0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0,
                                       0x8000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0};

    return _mm512_loadu_si512(table);
}

/* Returns the sixteen FP4 values as floats. */
SIMD512_INLINE __m512 avx512_mx4_floats(void)
{
    return _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
}

/* Returns 2^(s - 127) of sixteen scales. */
SIMD512_INLINE __m512 avx512_mx4_scale(const uint8_t *scales)
{
    __m512i s = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)scales));
    __mmask16 least = _mm512_cmpeq_epi32_mask(s, _mm512_setzero_si512());

    s = _mm512_mask_mov_epi32(_mm512_slli_epi32(s, 23), least, _mm512_set1_epi32(0x00400000));
    return _mm512_castsi512_ps(s);
}

/* Returns, for sixteen scales, the integers whose addition to a pair of bf16 multiplies both by the scale. */
SIMD512_INLINE __m512i avx512_mx4_exponent(const uint8_t *scales)
{
    __m512i s = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)scales));

    s = _mm512_slli_epi32(_mm512_sub_epi32(s, _mm512_set1_epi32(127)), 7);
    return _mm512_or_si512(_mm512_and_si512(s, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(s, 16));
}

/* Returns the FP4 values of the nibbles, which are in the low bits of 16-bit words, as bf16, scaled by
 * EXPONENT (avx512_mx4_exponent()). */
SIMD512_INLINE __m512i avx512_mx4_pairs(__m512i nibbles, __m512i exponent, __m512i words)
{
    __m512i v = _mm512_permutexvar_epi16(nibbles, words);

    return _mm512_mask_add_epi16(v, _mm512_test_epi16_mask(nibbles, _mm512_set1_epi16(7)), v, exponent);
}

/* Returns the even (ODD is 0) or odd element of each pair as scaled floats. NIBBLES has the nibbles in the
 * low bits of 16-bit words. */
SIMD512_INLINE __m512 avx512_mx4_element(__m512i nibbles, int odd, __m512 scale, __m512 floats)
{
    __m512i at = odd ? _mm512_srli_epi32(nibbles, 16) : nibbles;

    return _mm512_mul_ps(_mm512_permutexvar_ps(at, floats), scale);
}

/* Returns true if one of the 32 scales of a group is 0. */
SIMD512_INLINE bool avx512_mx4_has_least(const uint8_t *scales)
{
    __m256i s = _mm256_loadu_si256((const __m256i *)(const void *)scales);

    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(s, _mm256_setzero_si256())) != 0;
}

/* Unpacks a group to rows of a panel, [32][32] float or pairs of bf16 [16][32][2]: converts each value and
 * multiplies it by the scale of its column. */
SIMD512_INLINE void avx512_mx4_group(char *panel, const uint8_t *group, enum avx512_kind kind)
{
    const __m512 floats = avx512_mx4_floats();
    __m512 scale[AVX512_MX4_SIDES];

    scale[0] = avx512_mx4_scale(group);
    scale[1] = avx512_mx4_scale(group + 16);
    for (size_t l = 0; l < MX4_LINES; l++) {
        __m512i x = _mm512_loadu_si512(group + KERN_NR + l * MX4_LINE);

        SIMD512_UNROLL
        for (int j = 0; j < 4; j++) {
            __m512 even = avx512_mx4_element(x, 0, scale[j % 2], floats);
            __m512 odd = avx512_mx4_element(x, 1, scale[j % 2], floats);
            size_t pair = 2 * l + (size_t)j / 2;
            char *to = panel + 64 * (size_t)(j % 2);

            if (kind == AVX512_F32) {
                _mm512_storeu_ps(to + pair * 2 * AVX512_GEMM_STEP, even);
                _mm512_storeu_ps(to + (pair * 2 + 1) * AVX512_GEMM_STEP, odd);
            } else {
                _mm512_storeu_si512(to + pair * AVX512_GEMM_STEP,
                                    _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16),
                                                    _mm512_castps_si512(odd)));
            }
            x = _mm512_srli_epi16(x, 4);
        }
    }
}

/* Returns nibble J of every word in its lowest bits. Each shift has a literal constant, because some
 * compilers reject a count that becomes constant only by unrolling. */
SIMD512_INLINE __m512i avx512_mx4_nibble(__m512i x, int j)
{
    switch (j) {
    case 0: return x;
    case 1: return _mm512_srli_epi16(x, 4);
    case 2: return _mm512_srli_epi16(x, 8);
    default: return _mm512_srli_epi16(x, 12);
    }
}

/* Unpacks a group by adding exponents to pairs of bf16, [16][32][2]. No scale may be 0. */
SIMD512_INLINE void avx512_mx4_group_fast(char *panel, const uint8_t *group)
{
    const __m512i words = avx512_mx4_words();
    __m512i exponent[AVX512_MX4_SIDES];

    exponent[0] = avx512_mx4_exponent(group);
    exponent[1] = avx512_mx4_exponent(group + 16);
    for (size_t l = 0; l < MX4_LINES; l++, panel += 2 * AVX512_GEMM_STEP) {
        __m512i x = _mm512_loadu_si512(group + KERN_NR + l * MX4_LINE);

        SIMD512_UNROLL
        for (int j = 0; j < 4; j++)
            _mm512_storeu_si512(panel + 64 * j,
                                avx512_mx4_pairs(avx512_mx4_nibble(x, j), exponent[j % 2], words));
    }
}

/* ---- few rows ---- */

/* The arguments of a micro-kernel: it multiplies a tile of rows of A with one or two whole panels. */
struct avx512_mx4 {
    const uint32_t *a;
    const uint8_t *b[AVX512_MX4_PANELS];
    size_t groups;
    float *sums; /* the sums, [panels][2][rows][16]: left and right columns of each panel */
};

typedef void avx512_mx4_fn(const struct avx512_mx4 *t);

/* Multiplies ROWS rows of A with line X of a group, which holds two pairs of k, and adds the products to the
 * sums, with bf16 dots. avx512_mx4_fma() does the same in fp32. */
SIMD512_INLINE void avx512_mx4_dot(__m512 acc[AVX512_MOST_ROWS][AVX512_COLS], const uint32_t *a, __m512i x,
                                   const __m512i *exponent, __m512i words, int rows, int column)
{
    SIMD512_UNROLL
    for (int j = 0; j < 4; j++) {
        __m512i v = avx512_mx4_pairs(avx512_mx4_nibble(x, j), exponent[j % 2], words);

        SIMD512_UNROLL
        for (int r = 0; r < AVX512_ROWS; r++)
            if (r < rows)
                acc[r][column + j % 2] =
                    avx512_tile_add(acc[r][column + j % 2],
                                    _mm512_set1_epi32((int)a[r * AVX512_GEMM_LINE + j / 2]), v, AVX512_DOT);
    }
}

SIMD512_INLINE void avx512_mx4_fma(__m512 acc[AVX512_MOST_ROWS][AVX512_COLS], const uint32_t *a, __m512i x,
                                   const __m512 *scale, __m512 floats, int rows, int column)
{
    SIMD512_UNROLL
    for (int j = 0; j < 4; j++) {
        SIMD512_UNROLL
        for (int odd = 0; odd < 2; odd++) {
            __m512 v = avx512_mx4_element(x, odd, scale[j % 2], floats);

            SIMD512_UNROLL
            for (int r = 0; r < AVX512_ROWS; r++)
                if (r < rows)
                    acc[r][column + j % 2] =
                        avx512_tile_add(acc[r][column + j % 2],
                                        _mm512_set1_epi32((int)a[r * AVX512_GEMM_LINE + j / 2 * 2 + odd]),
                                        _mm512_castps_si512(v), AVX512_F32);
        }
        x = _mm512_srli_epi16(x, 4);
    }
}

/* Adds the products of a group in which a scale is 0, after unpacking it. */
SIMD512_INLINE void avx512_mx4_least(__m512 acc[AVX512_MOST_ROWS][AVX512_COLS], const uint32_t *a,
                                     const uint8_t *group, int rows, int column)
{
    char unpacked[AVX512_MX4_STEPS * AVX512_GEMM_STEP] __attribute__((aligned(64)));

    avx512_mx4_group(unpacked, group, AVX512_DOT);
    SIMD512_LOOP
    for (size_t s = 0; s < AVX512_MX4_STEPS; s++) {
        SIMD512_UNROLL
        for (int side = 0; side < AVX512_MX4_SIDES; side++) {
            __m512i v = _mm512_loadu_si512(unpacked + s * AVX512_GEMM_STEP + 64 * side);

            SIMD512_UNROLL
            for (int r = 0; r < AVX512_ROWS; r++)
                if (r < rows)
                    acc[r][column + side] = avx512_tile_add(
                        acc[r][column + side], _mm512_set1_epi32((int)a[(size_t)r * AVX512_GEMM_LINE + s]), v,
                        AVX512_DOT);
        }
    }
}

/* Multiplies one line of A with the group at offset AT of each panel and adds the products, with bf16
 * dots. */
SIMD512_INLINE void avx512_mx4_group_dot(__m512 acc[AVX512_MOST_ROWS][AVX512_COLS],
                                         const struct avx512_mx4 *t, size_t at, const uint32_t *a, int rows,
                                         int panels)
{
    const __m512i words = avx512_mx4_words();
    __m512i exponent[AVX512_MX4_PANELS][AVX512_MX4_SIDES];
    bool least = false;

    SIMD512_UNROLL
    for (int p = 0; p < AVX512_MX4_PANELS; p++)
        if (p < panels) {
            exponent[p][0] = avx512_mx4_exponent(t->b[p] + at);
            exponent[p][1] = avx512_mx4_exponent(t->b[p] + at + 16);
            least |= avx512_mx4_has_least(t->b[p] + at);
        }
    if (__builtin_expect(least, 0)) {
        SIMD512_UNROLL
        for (int p = 0; p < AVX512_MX4_PANELS; p++)
            if (p < panels)
                avx512_mx4_least(acc, a, t->b[p] + at, rows, 2 * p);
        return;
    }
    SIMD512_LOOP
    for (size_t l = 0; l < MX4_LINES; l++, a += 2) {
        SIMD512_UNROLL
        for (int p = 0; p < AVX512_MX4_PANELS; p++)
            if (p < panels)
                avx512_mx4_dot(acc, a, _mm512_loadu_si512(t->b[p] + at + KERN_NR + l * MX4_LINE), exponent[p],
                               words, rows, 2 * p);
    }
}

/* Multiplies two lines of A with the group at offset AT of each panel and adds the products, in fp32. */
SIMD512_INLINE void avx512_mx4_group_fma(__m512 acc[AVX512_MOST_ROWS][AVX512_COLS],
                                         const struct avx512_mx4 *t, size_t at, const uint32_t *a, int rows,
                                         int panels)
{
    const __m512 floats = avx512_mx4_floats();
    __m512 scale[AVX512_MX4_PANELS][AVX512_MX4_SIDES];

    SIMD512_UNROLL
    for (int p = 0; p < AVX512_MX4_PANELS; p++)
        if (p < panels) {
            scale[p][0] = avx512_mx4_scale(t->b[p] + at);
            scale[p][1] = avx512_mx4_scale(t->b[p] + at + 16);
        }
    SIMD512_LOOP
    for (size_t l = 0; l < MX4_LINES; l++, a += 4) {
        if (l == MX4_LINES / 2)
            a += (size_t)(rows - 1) * AVX512_GEMM_LINE;
        SIMD512_UNROLL
        for (int p = 0; p < AVX512_MX4_PANELS; p++)
            if (p < panels)
                avx512_mx4_fma(acc, a, _mm512_loadu_si512(t->b[p] + at + KERN_NR + l * MX4_LINE), scale[p],
                               floats, rows, 2 * p);
    }
}

SIMD512_INLINE void avx512_mx4_micro(const struct avx512_mx4 *t, int rows, int panels, enum avx512_kind kind)
{
    const size_t words = MX4_GROUP_SIZE / avx512_tile_unit(kind) * avx512_tile_words(kind);
    __m512 acc[AVX512_MOST_ROWS][AVX512_COLS];
    const uint32_t *a = t->a;

    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows)
            acc[r][0] = acc[r][1] = acc[r][2] = acc[r][3] = _mm512_setzero_ps();
    for (size_t i = 0; i < t->groups; i++, a += words * (size_t)rows) {
        if (kind == AVX512_DOT)
            avx512_mx4_group_dot(acc, t, i * MX4_GROUP_BYTES, a, rows, panels);
        else
            avx512_mx4_group_fma(acc, t, i * MX4_GROUP_BYTES, a, rows, panels);
    }
    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows) {
            SIMD512_UNROLL
            for (int c = 0; c < AVX512_MX4_SIDES * AVX512_MX4_PANELS; c++)
                if (c < AVX512_MX4_SIDES * panels)
                    _mm512_storeu_ps(t->sums + 16 * (c * rows + r), acc[r][c]);
        }
}

#define AVX512_MX4_FN(rows, panels, kind)                            \
    static void mx4_of_##panels##_##rows(const struct avx512_mx4 *t) \
    {                                                                \
        avx512_mx4_micro(t, rows, panels, kind);                     \
    }
/* Defines the micro-kernels of a kind: for one panel, by rows - 1, and for two panels and one row. */
#define AVX512_MX4_TABLE(kind)            \
    SIMD512_TO_12(AVX512_MX4_FN, 1, kind) \
    AVX512_MX4_FN(1, 2, kind)             \
    static const struct avx512_mx4_table mx4 = {{SIMD512_TO_12(SIMD512_NAMED, mx4_of_1)}, mx4_of_2_1}

struct avx512_mx4_table {
    avx512_mx4_fn *one[AVX512_ROWS], *two;
};

SIMD512_INLINE void avx512_mx4_few(const struct kern_gemm *g, size_t p0, size_t p1,
                                   const struct avx512_mx4_table *micro, enum avx512_kind kind)
{
    float sums[AVX512_ROWS * KERN_NR] __attribute__((aligned(64)));
    struct avx512_mx4 t = {.a = g->in, .groups = g->k / MX4_GROUP_SIZE, .sums = sums};
    const struct avx512_gemm_rows rows = {0, g->m};

    for (size_t p = p0, n; p < p1; p += n) {
        n = g->m == 1 && p + 1 < p1 ? 2 : 1;
        t.b[0] = mx4_groups(g, p);
        t.b[1] = t.b[0] + t.groups * MX4_GROUP_BYTES;
        (n == 2 ? micro->two : micro->one[g->m - 1])(&t);
        for (size_t i = 0; i < n; i++)
            avx512_gemm_end(g, p + i, rows, sums + i * g->m * KERN_NR, kind);
    }
}

/* ---- many rows ---- */

SIMD512_INLINE void avx512_mx4_unpack(char *panel, const uint8_t *group, size_t groups, enum avx512_kind kind)
{
    const size_t bytes = MX4_GROUP_SIZE * KERN_NR * (kind == AVX512_F32 ? 4 : 2);

    for (size_t i = 0; i < groups; i++, group += MX4_GROUP_BYTES, panel += bytes)
        if (kind == AVX512_F32 || avx512_mx4_has_least(group))
            avx512_mx4_group(panel, group, kind);
        else
            avx512_mx4_group_fast(panel, group);
}

typedef void avx512_mx4_gemm_fn(const struct kern_gemm *g, size_t p0, size_t p1);

SIMD512_INLINE void avx512_mx4_drive(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch,
                                     const struct avx512_mx4_table *micro, avx512_mx4_gemm_fn *gemm,
                                     enum avx512_kind kind)
{
    if (g->m > 0 && g->m <= AVX512_ROWS) {
        avx512_mx4_few(g, p0, p1, micro, kind);
        return;
    }
    for (size_t p = p0; p < p1; p++) {
        struct kern_gemm one = mx4_panel(g, p, scratch);

        avx512_mx4_unpack(scratch, mx4_groups(g, p), g->k / MX4_GROUP_SIZE, kind);
        gemm(&one, p, p + 1);
    }
}

#endif
