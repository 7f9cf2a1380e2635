/* mx4.h - the layout of a packed panel of MXFP4: for the code that packs weights and for the kernels of
 * gemm_mx4_*.
 *
 * A panel of 32 columns is K / 32 groups. A group is the scales of the 32 columns, then eight lines of [16
 * columns][2][2] bytes. Byte [c][e][q] of line l has element k = 4 l + 2 q + e of the group: the element of
 * column c in its low nibble, that of column c + 16 in its high nibble. As 16-bit words, nibble 2 q + h of
 * word 2 c + e belongs to column c + 16 h. So one shift of a line moves a pair of k of 16 columns to the low
 * bits of the words, in the order of a bf16 panel.
 */
#ifndef GALLOP_KERN_FORMAT_MX4_H
#define GALLOP_KERN_FORMAT_MX4_H

#include <stddef.h>
#include <stdint.h>

#include "kern/gemm.h"

enum {
    MX4_GROUP_SIZE = 32, /* elements that share a scale */
    MX4_LINE = 64,
    MX4_LINES = 8,
    MX4_GROUP_BYTES = KERN_NR + MX4_LINES * MX4_LINE, /* bytes of a group */
};

/* Returns the offset, in a group, of the byte with element K of column C. */
static inline size_t mx4_byte(size_t k, size_t c)
{
    return KERN_NR + k / 4 * MX4_LINE + c % 16 * 4 + k % 2 * 2 + k / 2 % 2;
}

/* Returns the arguments of gemm_f32 or gemm_bf16 for panel P of G alone, unpacked to UNPACKED. */
static inline struct kern_gemm mx4_panel(const struct kern_gemm *g, size_t p, const void *unpacked)
{
    struct kern_gemm one = *g;

    one.b = unpacked;
    one.first = p;
    one.ahead = 0; /* no panel follows in the scratch */
    return one;
}

/* Returns the address of the first group of panel P. */
static inline const uint8_t *mx4_groups(const struct kern_gemm *g, size_t p)
{
    return (const uint8_t *)g->b + (p - g->first) * (g->k / MX4_GROUP_SIZE) * MX4_GROUP_BYTES;
}

#endif
