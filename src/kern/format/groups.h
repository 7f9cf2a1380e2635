/* groups.h - the layout of weights in quantization groups of 16 or 32 integers, and of their inputs: for the
 * code that packs weights and for the kernels gemm_blocks and gemm_in_blocks.
 *
 * A weight is d * (code - zero), or d * code + min. Codes are unsigned, of 4, 5, 6 or 8 bits. Along K, 32
 * weights share a d (and a min), or 16 weights share a d. In GGUF's formats d is a half, or the product of a
 * half for 256 weights and an 8-bit integer, called a multiple. In MXFP4 d is a power of two, and the 4-bit
 * number is looked up in GROUPS_FP4 to give the code.
 *
 * A panel of 32 columns is K / 32 groups, one after the other:
 *   heads   halves [32]: d of each column; with minimums, then halves [32]: min of each column. A head stands
 *           before each group, or before each eight groups in forms with multiples. In forms of powers the
 *           head is bytes [32], d = 2^(byte - 128)
 *   groups  in forms with multiples, first multiples [2][32] bytes: signed, for the two halves of 16 weights;
 *           or unsigned, for d and for min. Then the codes:
 *           their lower four bits [4][2][64]: byte [s][h][4 c + i] has weight k = 8 s + i of column 16 h + c
 *           in its lower nibble and weight k = 8 s + 4 + i in its upper nibble
 *           with five bits, the fifth bits [2][64]: bit s of byte [h][4 c + i] belongs to k = 4 s + i
 *           with six bits, the fifth and sixth bits [2][2][64]: bits 2 s and 2 s + 1 of byte [t][h][4 c + i]
 *           belong to k = 16 t + 4 s + i
 *           with eight bits, [8][2][64] instead of all that: byte [s][h][4 c + i] is weight k = 4 s + i
 * An input is tile after tile of at most 6 rows, or a single tile of up to 12 rows. A tile has [K / 32]
 * groups:
 *           int8 [rows][32]; float [rows], the scales; float [rows], the scale times the sum of the 32
 *           numbers; int32 [rows][2], minus the sums of the first 16 and of all 32 numbers. The latter times
 *           the zero of the form, a power of two, is the start of a sum over codes
 */
#ifndef GALLOP_KERN_FORMAT_GROUPS_H
#define GALLOP_KERN_FORMAT_GROUPS_H

#include <string.h>

#include "kern/kern.h"

enum {
    GROUPS_SIZE = 32,
    GROUPS_SPAN = 8, /* groups that share a head in forms with multiples */
    GROUPS_LINE = 64,
    GROUPS_CODES = GROUPS_SIZE * KERN_NR, /* codes of a group */
    GROUPS_ROWS = 6,                      /* maximum rows of a tile of an input */
    GROUPS_FEW = 2 * GROUPS_ROWS,         /* up to this number of rows, one tile has all of them */
    GROUPS_TILES = 84,                    /* tiles that go through a panel together */
    GROUPS_ROW = GROUPS_SIZE + 16,        /* bytes of a row in a group of the input */
    GROUPS_POWERS = 128,                  /* the byte that stands for 2^0 */
};

struct groups_form {
    unsigned bits; /* 4, 5, 6 or 8; 0: no form */
    int zero;      /* the code of the number 0; unused in forms with minimums */
    bool min, multiples;
    int halves;  /* 2: 16 weights share a d; only with multiples and without minimums */
    bool powers; /* MXFP4: 4 bits, without minimums, multiples and halves */
};

/* Twice the numbers of E2M1 (0, 0.5, 1, 1.5, 2, 3, 4, 6, and the same negated) plus 16. */
#define GROUPS_FP4 16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4

/* Returns the bytes of a head. groups_code_bytes(), groups_bytes() and groups_span_bytes() return those of
 * the codes of a group, of a group, and of a head with its groups. */
static inline size_t groups_head_bytes(const struct groups_form *f)
{
    return f->powers ? KERN_NR : (f->min ? 2 : 1) * KERN_NR * sizeof(uint16_t);
}

static inline size_t groups_code_bytes(const struct groups_form *f)
{
    return f->bits * GROUPS_CODES / 8;
}

static inline size_t groups_bytes(const struct groups_form *f)
{
    return (f->multiples ? 2 * KERN_NR : 0) + groups_code_bytes(f);
}

static inline size_t groups_span(const struct groups_form *f)
{
    return f->multiples ? GROUPS_SPAN : 1;
}

static inline size_t groups_span_bytes(const struct groups_form *f)
{
    return groups_head_bytes(f) + groups_span(f) * groups_bytes(f);
}

/* Returns the bytes of a panel. K is a multiple of 32, and of 256 in forms with multiples. */
static inline size_t groups_panel_bytes(const struct groups_form *f, size_t k)
{
    return k / GROUPS_SIZE / groups_span(f) * groups_span_bytes(f);
}

/* Returns panel P of G. */
static inline const uint8_t *groups_panel(const struct kern_gemm *g, const struct groups_form *f, size_t p)
{
    return (const uint8_t *)g->b + (p - g->first) * groups_panel_bytes(f, g->k);
}

/* Returns the head of group I of PANEL. groups_at() returns the group. */
static inline const uint8_t *groups_head(const struct groups_form *f, const uint8_t *panel, size_t i)
{
    return panel + i / groups_span(f) * groups_span_bytes(f);
}

static inline const uint8_t *groups_at(const struct groups_form *f, const uint8_t *panel, size_t i)
{
    return groups_head(f, panel, i) + groups_head_bytes(f) + i % groups_span(f) * groups_bytes(f);
}

/* Returns four codes of a column that follow each other along K, one a byte. */
static inline uint32_t groups_four_at(const uint8_t *code, size_t step)
{
    uint32_t four;

    memcpy(&four, code + 4 * step, sizeof(four));
    return four;
}

static inline void groups_put_four(uint8_t *codes, size_t line, size_t c, uint32_t four)
{
    memcpy(codes + (2 * line + c / 16) * GROUPS_LINE + c % 16 * 4, &four, sizeof(four));
}

/* Puts the codes of column C of a group to their places in CODES. */
static inline void groups_put_codes(uint8_t *codes, size_t c, const uint8_t code[GROUPS_SIZE], unsigned bits)
{
    enum { STEPS = GROUPS_SIZE / 4 };
    uint8_t *upper = codes + GROUPS_CODES / 2;
    uint32_t all[2] = {0};

    for (size_t s = 0; s < STEPS && bits == 8; s++)
        groups_put_four(codes, s, c, groups_four_at(code, s));
    if (bits == 8)
        return;
    for (size_t s = 0; s < STEPS; s += 2)
        groups_put_four(codes, s / 2, c,
                        (groups_four_at(code, s) & 0x0f0f0f0f) | (groups_four_at(code, s + 1) & 0x0f0f0f0f)
                                                                     << 4);
    for (size_t s = 0; s < STEPS && bits == 5; s++)
        all[0] |= (groups_four_at(code, s) >> 4 & 0x01010101) << s;
    for (size_t s = 0; s < STEPS && bits == 6; s++)
        all[s / 4] |= (groups_four_at(code, s) >> 4 & 0x03030303) << s % 4 * 2;
    if (bits > 4)
        groups_put_four(upper, 0, c, all[0]);
    if (bits == 6)
        groups_put_four(upper, 1, c, all[1]);
}

/* The rows of one tile of an input. groups_tiles() returns the number of tiles of M rows, groups_tile() the
 * tile number I. */
struct groups_rows {
    size_t first, rows;
};

static inline size_t groups_tiles(size_t m)
{
    return m <= GROUPS_FEW ? m > 0 : (m + GROUPS_ROWS - 1) / GROUPS_ROWS;
}

static inline struct groups_rows groups_tile(size_t i, size_t m)
{
    size_t tiles = groups_tiles(m), first = m * i / tiles;

    return (struct groups_rows){first, m * (i + 1) / tiles - first};
}

/* Returns the tile that ROW belongs to. */
static inline struct groups_rows groups_tile_of(size_t row, size_t m)
{
    return groups_tile(((row + 1) * groups_tiles(m) - 1) / m, m);
}

/* Returns the data of group I of the rows of tile T in the input IN. */
static inline char *groups_in(const void *in, struct groups_rows t, size_t k, size_t i)
{
    return (char *)(uintptr_t)in + (t.first * (k / GROUPS_SIZE) + i * t.rows) * GROUPS_ROW;
}

static inline float *groups_scales(char *group, size_t rows)
{
    return (float *)(void *)(group + rows * GROUPS_SIZE);
}

static inline float *groups_weighed(char *group, size_t rows)
{
    return groups_scales(group, rows) + rows;
}

static inline int32_t *groups_sums(char *group, size_t rows)
{
    return (int32_t *)(void *)(groups_weighed(group, rows) + rows);
}

/* Sets what row R has besides its bytes: the scale and, from the sums of its two halves, the products and
 * sums. */
static inline void groups_put_sums(char *group, size_t rows, size_t r, const int32_t half[2], float scale)
{
    int32_t *sum = &groups_sums(group, rows)[2 * r], all = half[0] + half[1];

    sum[0] = -half[0];
    sum[1] = -all;
    groups_scales(group, rows)[r] = scale;
    groups_weighed(group, rows)[r] = scale * (float)all;
}

/* Returns minus the sum of half H of a row from its SUMS, or of the whole row if HALVES is 1. */
static inline int32_t groups_minus(const int32_t *sums, int h, int halves)
{
    return halves == 1 ? sums[1] : h ? sums[1] - sums[0] : sums[0];
}

/* Computes panel P for the tiles [t0, t1) of the rows. Nothing from STOP on may be prefetched. groups_run()
 * calls it for the panels [p0, p1) and at most GROUPS_TILES tiles of the part of the rows that G asks for. */
typedef void groups_panel_fn(const struct kern_gemm *g, const struct groups_form *f, size_t p, size_t t0,
                             size_t t1, const uint8_t *stop);

static inline void groups_run(const struct kern_gemm *g, const struct groups_form *f, size_t p0, size_t p1,
                              groups_panel_fn *panel)
{
    const uint8_t *stop = groups_panel(g, f, g->ahead > p1 ? g->ahead : p1);
    size_t t0, tiles;

    kern_gemm_share(g, groups_tiles(g->m), &t0, &tiles);
    for (; t0 < tiles; t0 += GROUPS_TILES)
        for (size_t p = p0; p < p1; p++)
            panel(g, f, p, t0, tiles - t0 < GROUPS_TILES ? tiles : t0 + GROUPS_TILES, stop);
}

#endif
