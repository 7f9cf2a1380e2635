/* int4.h - how a packed panel of 4-bit integers lies in memory, for its packer and for the rows of gemm_i4.
 *
 * A weight is (multiple * code + offset) * the column's scale: codes of 0 to 15, and for a group of 32 or 128
 * of them, ascending in K, a multiple without a sign and an offset with one, bytes. The sum in front of the
 * scale is an integer from -127 to 127: a panel is one of gemm_i8 that takes half its bytes, and multiple *
 * code never leaves a byte, so that one product of 16 bits expands two codes.
 *
 * A panel of 32 columns is, for every group of K one behind the other,
 *   multiples [32], offsets [32] bytes
 *   codes [group / 32][4][2][64]: byte [t][s][h][4 c + i] has k = 32 t + 8 s + i of the group and of column
 *         16 h + c in its lower nibble, and k + 4 in the other. K is a multiple of 32; a last group may be
 *         shorter
 * and what an int8 panel has behind its weights (kern.h): -128 times the sum of each column, and the scales.
 */
#ifndef GALLOP_KERN_FORMAT_INT4_H
#define GALLOP_KERN_FORMAT_INT4_H

#include "kern/kern.h"

enum {
    INT4_UNIT = 32, /* K is a multiple of */
    INT4_LINE = 64,
    INT4_STEPS = 4,                                     /* of eight k, of a unit */
    INT4_CODES = INT4_STEPS * KERN_NR / 16 * INT4_LINE, /* bytes of a unit */
    INT4_HEAD = 2 * KERN_NR,
    INT4_MOST = 15,     /* the largest code */
    INT4_MULTIPLE = 17, /* and multiple */
    INT4_MOST_GROUP = 128,
};

/* K, filled up with zeros. */
static inline size_t int4_k(size_t k)
{
    return (k + INT4_UNIT - 1) / INT4_UNIT * INT4_UNIT;
}

/* Bytes of a panel. */
static inline size_t int4_panel_bytes(size_t k, size_t group)
{
    return (k + group - 1) / group * INT4_HEAD + k / INT4_UNIT * INT4_CODES + KERN_I8_TAIL;
}

/* Panel P of G. */
static inline const uint8_t *int4_panel(const struct kern_gemm *g, size_t group, size_t p)
{
    return (const uint8_t *)g->b + (p - g->first) * int4_panel_bytes(g->k, group);
}

/* The head of the group that unit I of a panel belongs to, and the unit's codes, from the panel's begin
 * on. */
static inline size_t int4_head(size_t i, size_t group)
{
    size_t units = group / INT4_UNIT;

    return i / units * (INT4_HEAD + units * INT4_CODES);
}

static inline size_t int4_codes(size_t i, size_t group)
{
    return int4_head(i, group) + INT4_HEAD + i % (group / INT4_UNIT) * INT4_CODES;
}

/* Panel P by itself, which UNPACKED holds as gemm_i8 reads it. */
static inline struct kern_gemm int4_unpacked(const struct kern_gemm *g, size_t p, const void *unpacked)
{
    struct kern_gemm one = *g;

    one.b = unpacked;
    one.first = p;
    one.ahead = 0; /* nothing lies behind it there */
    return one;
}

#endif
