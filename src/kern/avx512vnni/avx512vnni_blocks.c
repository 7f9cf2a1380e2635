/* avx512vnni_blocks.c - C = A x W over weights in small groups of integers, with VPDPBUSD: class "int8 sum".
 *
 * A few rows unpack weights in registers. For more, eight groups of a panel at a time are unpacked to bytes
 * in the first cache, with what their columns are multiplied by. Every tile of rows walks those eight, and
 * asks memory for its share of the next. The float sums of up to 504 rows wait between them in an array of
 * the thread's own. A full tile takes 12 vpdpbusd, 2 loads and 6 broadcasts for four k, and at the end of a
 * group three or four operations for each of its 12 sums.
 */
#include <string.h>

#include "kern/ahead.h"
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_gemm.h"
#include "kern/blocks.h"

enum {
    GROUPS = BLOCKS_SPAN, /* that all tiles walk before the next */
    STEPS = BLOCKS_GROUP / 4,
    TILES = 84, /* that go through a panel together */
    FEW = 12,   /* rows at most that unpack in registers */
};

/* Groups unpacked. */
struct chunk {
    uint8_t code[GROUPS][STEPS][2][BLOCKS_LINE];
    float d[GROUPS][2][KERN_NR]; /* of the halves of a group; of the first alone, of whole ones */
    float min[GROUPS][KERN_NR];
};

/* ---- unpacking ---- */

SIMD512_INLINE __m512i line_at(const uint8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

/* Words LEFT bits further up; down where that is negative. Once inlined it is one instruction: LEFT is a
 * constant then, but clang wants to see one in each before. */
SIMD512_INLINE __m512i moved(__m512i v, int left)
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

/* The codes of step S and side H, which lie in so many BITS. */
SIMD512_INLINE __m512i code_at(const uint8_t *at, int s, int h, unsigned bits)
{
    const __m512i mask = _mm512_set1_epi8(bits == 5 ? 16 : 48);
    const uint8_t *upper = at + BLOCKS_CODES / 2;
    __m512i v = line_at(at + (bits == 8 ? s * 2 + h : s / 2 * 2 + h) * BLOCKS_LINE), u;

    if (bits == 8)
        return v;
    v = _mm512_and_si512(s % 2 ? _mm512_srli_epi16(v, 4) : v, _mm512_set1_epi8(15));
    if (bits == 5) { /* bit S of each byte to its bit 4 */
        u = line_at(upper + h * BLOCKS_LINE);
        v = _mm512_or_si512(v, _mm512_and_si512(moved(u, 4 - s), mask));
    }
    if (bits == 6) { /* bits 2 (S % 4) and the next to bits 4 and 5 */
        u = line_at(upper + (s / 4 * 2 + h) * BLOCKS_LINE);
        v = _mm512_or_si512(v, _mm512_and_si512(moved(u, 4 - 2 * (s % 4)), mask));
    }
    return v;
}

SIMD512_INLINE __m512 halves_at(const uint8_t *p)
{
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);

    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_cvtph_ps(_mm256_castsi256_si128(h))),
                              _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)), 1);
}

/* Sixteen multiples, of halves of a group with a sign. */
SIMD512_INLINE __m512 multiples_at(const uint8_t *p, int halves)
{
    __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));

    if (halves == 2)
        v = _mm512_srai_epi32(_mm512_slli_epi32(v, 24), 24);
    return _mm512_cvtepi32_ps(v);
}

/* What 16 columns of side SIDE are multiplied by in half H of a group; and their minimums. */
SIMD512_INLINE __m512 d_at(const uint8_t *head, const uint8_t *group, int side, int h,
                           const struct blocks_form f)
{
    __m512 d = halves_at(head + 32 * side);

    return f.multiples ? _mm512_mul_ps(d, multiples_at(group + h * KERN_NR + 16 * side, f.halves)) : d;
}

SIMD512_INLINE __m512 min_at(const uint8_t *head, const uint8_t *group, int side, const struct blocks_form f)
{
    __m512 min = halves_at(head + 2 * KERN_NR + 32 * side);

    if (!f.multiples)
        return min;
    return _mm512_sub_ps(_mm512_setzero_ps(),
                         _mm512_mul_ps(min, multiples_at(group + KERN_NR + 16 * side, 1)));
}

SIMD512_INLINE const uint8_t *codes_of(const uint8_t *group, const struct blocks_form f)
{
    return group + (f.multiples ? 2 * KERN_NR : 0);
}

SIMD512_INLINE void unpack(struct chunk *to, const uint8_t *panel, size_t from, size_t n,
                           const struct blocks_form f)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *head = blocks_head(&f, panel, from + i), *group = blocks_group(&f, panel, from + i);

        SIMD512_UNROLL
        for (int s = 0; s < STEPS; s++)
            SIMD512_UNROLL
        for (int h = 0; h < 2; h++)
            _mm512_storeu_si512((void *)to->code[i][s][h], code_at(codes_of(group, f), s, h, f.bits));
        for (int side = 0; side < 2; side++) {
            for (int h = 0; h < f.halves; h++)
                _mm512_storeu_ps(&to->d[i][h][16 * side], d_at(head, group, side, h, f));
            if (f.min)
                _mm512_storeu_ps(&to->min[i][16 * side], min_at(head, group, side, f));
        }
    }
}

/* ---- a tile of rows ---- */

SIMD512_INLINE __m512i four_at(const char *p)
{
    int32_t four;

    memcpy(&four, p, sizeof(four));
    return _mm512_set1_epi32(four);
}

/* Half H of a group, or with HALVES 1 all of it, to the integer sums SUM, which begin with what zeros take
 * away. The codes lie in so many BITS. */
SIMD512_INLINE void multiply(__m512i sum[BLOCKS_ROWS][2], const uint8_t *codes, unsigned bits, char *in,
                             int h, int rows, int halves, int zero)
{
    const int n = STEPS / halves;
    const int32_t *sums = blocks_sums(in, (size_t)rows);

    SIMD512_UNROLL
    for (int r = 0; r < BLOCKS_ROWS; r++)
        if (r < rows)
            sum[r][0] = sum[r][1] =
                zero ? _mm512_set1_epi32(-zero *
                                         (halves == 2 ? sums[2 * r + h] : sums[2 * r] + sums[2 * r + 1]))
                     : _mm512_setzero_si512();
    SIMD512_UNROLL
    for (int s = 0; s < STEPS; s++)
        if (s >= h * n && s < (h + 1) * n) {
            __m512i w0 = code_at(codes, s, 0, bits), w1 = code_at(codes, s, 1, bits);

            SIMD512_UNROLL
            for (int r = 0; r < BLOCKS_ROWS; r++)
                if (r < rows) {
                    __m512i a = four_at(in + r * BLOCKS_GROUP + 4 * s);

                    sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], w0, a);
                    sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], w1, a);
                }
        }
}

SIMD512_INLINE void add_sums(__m512 y[BLOCKS_ROWS][2], __m512i sum[BLOCKS_ROWS][2], __m512 d0, __m512 d1,
                             const float *scale, int rows)
{
    SIMD512_UNROLL
    for (int r = 0; r < BLOCKS_ROWS; r++)
        if (r < rows) {
            __m512 s = _mm512_set1_ps(scale[r]);

            y[r][0] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][0]), _mm512_mul_ps(d0, s), y[r][0]);
            y[r][1] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][1]), _mm512_mul_ps(d1, s), y[r][1]);
        }
}

/* N groups of a tile, from IN on, times those from FROM on of PANEL, which C holds unpacked if there are more
 * than a few rows. */
struct work {
    float *sums; /* [2][rows][16] */
    const uint8_t *panel;
    size_t from, n;
    const struct chunk *c;
    char *in;
    const char *next;
    size_t ask; /* bytes from NEXT on that are wanted next */
    bool level2;
};

SIMD512_INLINE void add_group(__m512 y[BLOCKS_ROWS][2], const struct work *t, size_t i, char *in, int rows,
                              const struct blocks_form f, bool few)
{
    const uint8_t *head = blocks_head(&f, t->panel, t->from + i),
                  *group = blocks_group(&f, t->panel, t->from + i);
    const uint8_t *codes = few ? codes_of(group, f) : t->c->code[i][0][0];
    __m512i sum[BLOCKS_ROWS][2];

    SIMD512_UNROLL
    for (int h = 0; h < 2; h++)
        if (h < f.halves) {
            const float *d = t->c->d[i][h];

            multiply(sum, codes, few ? f.bits : 8, in, h, rows, f.halves, f.zero);
            add_sums(y, sum, few ? d_at(head, group, 0, h, f) : _mm512_loadu_ps(d),
                     few ? d_at(head, group, 1, h, f) : _mm512_loadu_ps(d + 16),
                     blocks_scales(in, (size_t)rows), rows);
        }
    if (f.min) {
        const float *weighed = blocks_weighed(in, (size_t)rows), *min = t->c->min[i];
        __m512 m0 = few ? min_at(head, group, 0, f) : _mm512_loadu_ps(min),
               m1 = few ? min_at(head, group, 1, f) : _mm512_loadu_ps(min + 16);

        SIMD512_UNROLL
        for (int r = 0; r < BLOCKS_ROWS; r++)
            if (r < rows) {
                y[r][0] = _mm512_fmadd_ps(m0, _mm512_set1_ps(weighed[r]), y[r][0]);
                y[r][1] = _mm512_fmadd_ps(m1, _mm512_set1_ps(weighed[r]), y[r][1]);
            }
    }
}

SIMD512_INLINE void micro(const struct work *t, int rows, const struct blocks_form f, bool few)
{
    const char *ask = t->next;
    float *sums = t->sums;
    char *in = t->in;
    __m512 y[BLOCKS_ROWS][2];

    SIMD512_UNROLL
    for (int r = 0; r < BLOCKS_ROWS; r++)
        if (r < rows) {
            y[r][0] = t->from ? _mm512_loadu_ps(sums + 16 * r) : _mm512_setzero_ps();
            y[r][1] = t->from ? _mm512_loadu_ps(sums + 16 * (rows + r)) : _mm512_setzero_ps();
        }
    SIMD512_LOOP
    for (size_t i = 0; i < t->n; i++, in += rows * BLOCKS_ROW) {
        for (const char *stop = t->next + t->ask * (i + 1) / t->n; ask < stop; ask += 64)
            ahead_line(ask, t->level2);
        add_group(y, t, i, in, rows, f, few);
    }
    SIMD512_UNROLL
    for (int r = 0; r < BLOCKS_ROWS; r++)
        if (r < rows) {
            _mm512_storeu_ps(sums + 16 * r, y[r][0]);
            _mm512_storeu_ps(sums + 16 * (rows + r), y[r][1]);
        }
}

typedef void micro_fn(const struct work *t);

/* Everything for one form: its name, and its members as constants. */
#define ONE(name, rows, few, ...)                               \
    static void name##_##rows(const struct work *t)             \
    {                                                           \
        micro(t, rows, (struct blocks_form){__VA_ARGS__}, few); \
    }
#define ROWS_OF(name, few, ...)    \
    ONE(name, 1, few, __VA_ARGS__) \
    ONE(name, 2, few, __VA_ARGS__) \
    ONE(name, 3, few, __VA_ARGS__) \
    ONE(name, 4, few, __VA_ARGS__) \
    ONE(name, 5, few, __VA_ARGS__) \
    ONE(name, 6, few, __VA_ARGS__) \
    static micro_fn *const name[BLOCKS_ROWS] = {name##_1, name##_2, name##_3, name##_4, name##_5, name##_6};
#define FORM(name, ...)                                                                      \
    ROWS_OF(few_##name, true, __VA_ARGS__)                                                   \
    ROWS_OF(many_##name, false, __VA_ARGS__)                                                 \
    static void unpack_##name(struct chunk *to, const uint8_t *panel, size_t from, size_t n) \
    {                                                                                        \
        unpack(to, panel, from, n, (struct blocks_form){__VA_ARGS__});                       \
    }
FORM(4, 4, 8, false, false, 1)
FORM(4_min, 4, 0, true, false, 1)
FORM(4_multiples, 4, 0, true, true, 1)
FORM(5, 5, 16, false, false, 1)
FORM(5_min, 5, 0, true, false, 1)
FORM(5_multiples, 5, 0, true, true, 1)
FORM(6, 6, 32, false, true, 2)
FORM(8, 8, 128, false, false, 1)

static const struct row {
    struct blocks_form f;
    micro_fn *const *few, *const *many;
    void (*unpack)(struct chunk *to, const uint8_t *panel, size_t from, size_t n);
} forms[] = {
    {{4, 8, false, false, 1}, few_4, many_4, unpack_4},
    {{4, 0, true, false, 1}, few_4_min, many_4_min, unpack_4_min},
    {{4, 0, true, true, 1}, few_4_multiples, many_4_multiples, unpack_4_multiples},
    {{5, 16, false, false, 1}, few_5, many_5, unpack_5},
    {{5, 0, true, false, 1}, few_5_min, many_5_min, unpack_5_min},
    {{5, 0, true, true, 1}, few_5_multiples, many_5_multiples, unpack_5_multiples},
    {{6, 32, false, true, 2}, few_6, many_6, unpack_6},
    {{8, 128, false, false, 1}, few_8, many_8, unpack_8},
};

static const struct row *row_of(const struct blocks_form *f)
{
    const struct row *r = forms;

    while (r->f.bits != f->bits || r->f.min != f->min || r->f.multiples != f->multiples)
        r++;
    return r;
}

/* ---- panels ---- */

/* The tiles [t0, t1) through the groups of W; each asks for its share of what is wanted next. */
static void run_chunk(const struct kern_gemm *g, struct work w, size_t t0, size_t t1, micro_fn *const *tile)
{
    const char *next = w.next;
    size_t ask = w.ask;

    for (size_t i = t0; i < t1; i++) {
        struct blocks_rows t = blocks_tile(i, g->m);
        size_t asked = ask * (i - t0) / (t1 - t0) / 64 * 64;

        w.next = next + asked;
        w.ask = ask * (i + 1 - t0) / (t1 - t0) / 64 * 64 - asked;
        w.in = blocks_in(g->in, t, g->k, w.from);
        tile[t.rows - 1](&w);
        w.sums += t.rows * KERN_NR;
    }
}

static void run_panel(const struct kern_gemm *g, const struct blocks_form *f, size_t p, size_t t0, size_t t1,
                      const uint8_t *stop)
{
    float sums[TILES * BLOCKS_ROWS * KERN_NR] __attribute__((aligned(64)));
    struct chunk c __attribute__((aligned(64)));
    const uint8_t *panel = blocks_panel(g, f, p);
    const struct row *row = row_of(f);
    const size_t groups = g->k / BLOCKS_GROUP, bytes = GROUPS / blocks_span(f) * blocks_span_bytes(f);

    for (size_t from = 0; from < groups; from += GROUPS) {
        struct work w = {.sums = sums, .panel = panel, .from = from, .c = &c, .level2 = cpu_level2_ahead()};

        w.n = groups - from < GROUPS ? groups - from : GROUPS;
        w.next = (const char *)blocks_head(f, panel, from + w.n);
        w.ask = (size_t)((const char *)stop - w.next);
        w.ask = w.ask < bytes ? w.ask : bytes;
        if (g->m > FEW)
            row->unpack(&c, panel, from, w.n);
        run_chunk(g, w, t0, t1, g->m > FEW ? row->many : row->few);
    }
    for (size_t i = t0, at = 0; i < t1; i++) {
        struct blocks_rows t = blocks_tile(i, g->m);

        avx512_gemm_end(g, p, (struct avx512_gemm_rows){t.first, t.rows}, sums + at, AVX512_I8_GEMM);
        at += t.rows * KERN_NR;
    }
}

void KERN_NAME(avx512vnni_gemm_blocks)(const struct kern_gemm *g, const struct blocks_form *f, size_t p0,
                                       size_t p1)
{
    size_t tiles = blocks_tiles(g->m);
    const uint8_t *stop = blocks_panel(g, f, g->ahead > p1 ? g->ahead : p1);

    for (size_t t0 = 0; t0 < tiles; t0 += TILES)
        for (size_t p = p0; p < p1; p++)
            run_panel(g, f, p, t0, tiles - t0 < TILES ? tiles : t0 + TILES, stop);
}

/* ---- the input ---- */

/* The larger, or the sum, of lanes I and I + 8, I + 4, I + 2 and I + 1: lane 0 is that of all. */
SIMD512_INLINE int32_t fold(__m512i v, bool sum)
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

static uint32_t largest_of(__m512 a, __m512 b)
{
    const __m512i all = _mm512_set1_epi32(0x7fffffff);

    return (uint32_t)fold(_mm512_max_epu32(_mm512_and_si512(all, _mm512_castps_si512(a)),
                                           _mm512_and_si512(all, _mm512_castps_si512(b))),
                          false);
}

/* Sixteen numbers as bytes to N; their sum. */
static int32_t put_half(int8_t *n, __m512 x, __m512 inv)
{
    __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(x, inv));

    _mm_storeu_si128((__m128i *)(void *)n, _mm512_cvtepi32_epi8(v));
    return fold(v, true);
}

void KERN_NAME(avx512vnni_gemm_in_blocks)(void *in, const float *x, size_t row, size_t m, size_t k)
{
    struct blocks_rows t = blocks_tile_of(row, m);
    size_t r = row - t.first;

    for (size_t i = 0; i < k / BLOCKS_GROUP; i++, x += BLOCKS_GROUP) {
        char *group = blocks_in(in, t, k, i);
        __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
        float *scale = &blocks_scales(group, t.rows)[r], inv = kmath_i8_inv(largest_of(a, b), scale);
        int32_t *sum = &blocks_sums(group, t.rows)[2 * r];
        int8_t *n = (int8_t *)group + r * BLOCKS_GROUP;

        sum[0] = sum[1] = 0;
        memset(n, 0, BLOCKS_GROUP);
        if (inv > 0) {
            sum[0] = put_half(n, a, _mm512_set1_ps(inv));
            sum[1] = put_half(n + 16, b, _mm512_set1_ps(inv));
        }
        blocks_weighed(group, t.rows)[r] = *scale * (float)(sum[0] + sum[1]);
    }
}
