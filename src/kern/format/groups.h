/* groups.h - the layout of weights in quantization groups of 16 or 32 integers, and of their inputs: for the
 * code that packs weights and for the kernels gemm_blocks and gemm_in_blocks.
 *
 * quant.def lists the formats, and struct quant_format (tensor/quant.h) defines codes, scales, minimums and
 * multiples.
 *
 * A panel of 32 columns is K / 32 groups, one after the other:
 *   heads   fp16 [32], the scale d of each column; in formats with minimums, then fp16 [32], the min of each
 *           column. In formats whose d is a power of two, the head is bytes [32], d = 2^(byte - 128). A head
 *           comes before each group, in formats with multiples before each eight groups
 *   groups  in formats with multiples, first bytes [groups_multiples()][32], the multiples of each column. Then
 *           the codes. A code is split into planes of 8, 4, 2 or 1 bits, whose widths add up to its number of
 *           bits; wider planes come first and have the lower bits. A plane of W bits is [W][2][64] bytes:
 *           bits W s to W s + W - 1 of byte [t][h][4 c + i] belong to k = 4 (t * 8 / W + s) + i of column
 *           16 h + c
 * An input is one tile of up to 12 rows, or tile after tile of at most 6 rows. A tile has K / 32 groups:
 *   int8 [rows][32]   the integers of each row
 *   float [rows]      their scales
 *   float [rows]      the scale times the sum of the 32 integers
 *   int32 [rows][2]   minus the sum of the first 16 integers, and minus the sum of all 32. Multiplied by the
 *                     format's zero point, a power of two, it is the number at which a sum of products starts
 */
#ifndef GALLOP_KERN_FORMAT_GROUPS_H
#define GALLOP_KERN_FORMAT_GROUPS_H

#include <string.h>

#include "kern/gemm.h"
#include "tensor/quant.h"

struct kern_gemm;

enum {
    GROUPS_SIZE = QUANT_SIZE,
    GROUPS_SPAN = 8, /* groups that share a head in formats with multiples */
    GROUPS_LINE = 64,
    GROUPS_CODES = GROUPS_SIZE * KERN_NR, /* codes of a group */
    GROUPS_ROWS = 6,                      /* maximum rows of a tile of an input */
    GROUPS_FEW = 2 * GROUPS_ROWS,         /* maximum rows of an input that is a single tile */
    GROUPS_TILES = 84,             /* maximum tiles that are multiplied by a panel before the next panel */
    GROUPS_ROW = GROUPS_SIZE + 16, /* bytes of a row in a group of the input */
    GROUPS_POWERS = 128,           /* the byte that encodes d = 2^0 */
};

/* Returns the number of scales d that each column has in a group: 2 if each half has its own, otherwise 1. */
static inline int groups_parts(const struct quant_format f)
{
    return f.in_halves ? 2 : 1;
}

/* Returns the number of bytes with multiples that each column of a group has. */
static inline size_t groups_multiples(const struct quant_format *f)
{
    return !f->multiples ? 0 : f->min || f->in_halves ? 2 : 1;
}

/* Return the sizes in bytes of a head, of the codes of a group, of a whole group, and of a span: a head and
 * all groups that share it. groups_span() is the number of these groups. */
static inline size_t groups_head_bytes(const struct quant_format *f)
{
    return f->powers ? KERN_NR : (f->min ? 2 : 1) * KERN_NR * sizeof(uint16_t);
}

static inline size_t groups_code_bytes(const struct quant_format *f)
{
    return f->bits * GROUPS_CODES / 8;
}

static inline size_t groups_bytes(const struct quant_format *f)
{
    return groups_multiples(f) * KERN_NR + groups_code_bytes(f);
}

static inline size_t groups_span(const struct quant_format *f)
{
    return f->multiples ? GROUPS_SPAN : 1;
}

static inline size_t groups_span_bytes(const struct quant_format *f)
{
    return groups_head_bytes(f) + groups_span(f) * groups_bytes(f);
}

/* Returns the bytes of a panel. K is a multiple of 32; of 256 in formats whose group scales are multiples of
 * one scale for 256 weights. */
static inline size_t groups_panel_bytes(const struct quant_format *f, size_t k)
{
    return k / GROUPS_SIZE / groups_span(f) * groups_span_bytes(f);
}

/* Returns the address of panel P of G. */
static inline const uint8_t *groups_panel(const struct kern_gemm *g, const struct quant_format *f, size_t p)
{
    return (const uint8_t *)g->b + (p - g->first) * groups_panel_bytes(f, g->k);
}

/* Return the address of the head of group I of PANEL, and of the group itself. */
static inline const uint8_t *groups_head(const struct quant_format *f, const uint8_t *panel, size_t i)
{
    return panel + i / groups_span(f) * groups_span_bytes(f);
}

static inline const uint8_t *groups_at(const struct quant_format *f, const uint8_t *panel, size_t i)
{
    return groups_head(f, panel, i) + groups_head_bytes(f) + i % groups_span(f) * groups_bytes(f);
}

/* Returns the address of the codes in GROUP. */
static inline const uint8_t *groups_codes(const struct quant_format *f, const uint8_t *group)
{
    return group + groups_multiples(f) * KERN_NR;
}

/* Where a plane of WIDTH bits stores the codes of one step (four k): bits [to, to + WIDTH) of a code are bits
 * [from, from + WIDTH) of the byte at BYTE + 64 * side + 4 * column + k % 4. A code of BITS bits has this
 * plane if WIDTH & BITS is not 0. */
struct groups_plane {
    size_t byte;
    int from, to;
};

static inline struct groups_plane groups_plane_of(unsigned bits, unsigned width, int step)
{
    const int steps = 8 / (int)width, below = (int)(bits & ~(2 * width - 1));

    return (struct groups_plane){((size_t)below + (size_t)(step / steps)) * 2 * GROUPS_LINE,
                                 step % steps * (int)width, below};
}

/* Stores the codes of column C of a group in CODES, plane by plane. */
static inline void groups_put_codes(uint8_t *codes, size_t c, const uint8_t code[GROUPS_SIZE], unsigned bits)
{
    for (unsigned width = 8; width > 0; width /= 2)
        for (int step = 0; step < GROUPS_SIZE / 4 && width & bits;) {
            const size_t line = groups_plane_of(bits, width, step).byte;
            uint32_t bytes = 0, four;

            do { /* collects the steps that share a line */
                const struct groups_plane p = groups_plane_of(bits, width, step);

                memcpy(&four, code + 4 * step, sizeof(four));
                bytes |= ((four >> p.to) & ((1u << width) - 1) * 0x01010101u) << p.from;
            } while (++step % (8 / (int)width) != 0);
            memcpy(codes + line + c / 16 * GROUPS_LINE + c % 16 * 4, &bytes, sizeof(bytes));
        }
}

/* The rows of one tile of an input. groups_tiles() returns the number of tiles of M rows, groups_tile() tile
 * number I. */
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

/* Returns the rows of the tile that ROW belongs to. */
static inline struct groups_rows groups_tile_of(size_t row, size_t m)
{
    return groups_tile(((row + 1) * groups_tiles(m) - 1) / m, m);
}

/* Returns the address of group I of the tile T in the input IN. The three functions after it return the
 * address of the scales, of the scales times sums, and of the negative sums in such a group. */
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

/* Sets the scale, the scale times the sum, and the negative sums of row R, where HALF has the sums of its
 * integers 0 to 15 and 16 to 31. */
static inline void groups_put_sums(char *group, size_t rows, size_t r, const int32_t half[2], float scale)
{
    int32_t *sum = &groups_sums(group, rows)[2 * r], all = half[0] + half[1];

    sum[0] = -half[0];
    sum[1] = -all;
    groups_scales(group, rows)[r] = scale;
    groups_weighed(group, rows)[r] = scale * (float)all;
}

/* Returns minus the sum of a row's integers in half H of a group, or in the whole group if PARTS, the result
 * of groups_parts(), is 1. SUMS has the negative sums of the row. */
static inline int32_t groups_minus(const int32_t *sums, int h, int parts)
{
    return parts == 1 ? sums[1] : h ? sums[1] - sums[0] : sums[0];
}

/* Computes panel P for the tiles [t0, t1) of the rows. Prefetches addresses below STOP only. groups_run()
 * calls such a function for the panels [p0, p1) and for part g->part of the rows, at most GROUPS_TILES tiles
 * at a time. */
typedef void groups_panel_fn(const struct kern_gemm *g, enum dtype t, size_t p, size_t t0, size_t t1,
                             const uint8_t *stop);

static inline void groups_run(const struct kern_gemm *g, enum dtype t, size_t p0, size_t p1,
                              groups_panel_fn *panel)
{
    const uint8_t *stop = groups_panel(g, quant_format_of(t), g->ahead > p1 ? g->ahead : p1);
    size_t t0, tiles;

    kern_gemm_share(g, groups_tiles(g->m), &t0, &tiles);
    for (; t0 < tiles; t0 += GROUPS_TILES)
        for (size_t p = p0; p < p1; p++)
            panel(g, t, p, t0, tiles - t0 < GROUPS_TILES ? tiles : t0 + GROUPS_TILES, stop);
}

#endif
