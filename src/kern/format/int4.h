/* int4.h - the layout of a packed panel of 4-bit integers: for the code that packs weights and for the
 * kernels of gemm_i4.
 *
 * A weight is (multiple * code + offset) * the scale of its column. Codes are 0 to 15. Each quantization
 * group of 32 or 128 weights along K has an unsigned byte, the multiple, and a signed byte, the offset.
 * multiple * code + offset is an integer from -127 to 127, so a panel holds the weights of a gemm_i8 panel in
 * half the bytes. multiple * code fits in a byte, so one 16-bit product expands two codes.
 *
 * A panel of 32 columns has these parts for each group along K, one group after the other:
 *   multiples [32] bytes, offsets [32] bytes
 *   codes [group / 32][4][2][64]: the lower nibble of byte [t][s][h][4 c + i] belongs to k = 32 t + 8 s + i of
 *         the group and to column 16 h + c, the upper nibble to k + 4. K is a multiple of 32; the last group may
 *         be shorter
 * The panel ends with the sums and scales of an int8 panel (kern_gemm_i8_fn in quant.h).
 */
#ifndef GALLOP_KERN_FORMAT_INT4_H
#define GALLOP_KERN_FORMAT_INT4_H

#include <stddef.h>
#include <stdint.h>

#include "kern/gemm.h"
#include "kern/quant.h"

enum {
    INT4_UNIT = 32, /* rows of a unit; K is a multiple of it */
    INT4_LINE = 64,
    INT4_STEPS = 4,                                     /* steps of a unit, of eight k each */
    INT4_CODES = INT4_STEPS * KERN_NR / 16 * INT4_LINE, /* bytes of the codes of a unit */
    INT4_HEAD = 2 * KERN_NR,                            /* bytes of the multiples and offsets of a group */
    INT4_MOST = 15,                                     /* the largest code */
    INT4_MULTIPLE = 17,                                 /* the largest integer factor of a group's codes */
    INT4_MOST_GROUP = 128,
};

/* Returns K rounded up to whole units; the packed weights are padded with zeros. */
static inline size_t int4_k(size_t k)
{
    return (k + INT4_UNIT - 1) / INT4_UNIT * INT4_UNIT;
}

/* Returns the bytes of a panel with quantization groups of GROUP weights. */
static inline size_t int4_panel_bytes(size_t k, size_t group)
{
    return (k + group - 1) / group * INT4_HEAD + k / INT4_UNIT * INT4_CODES + KERN_I8_TAIL;
}

/* Returns the address of panel P of G. */
static inline const uint8_t *int4_panel(const struct kern_gemm *g, size_t group, size_t p)
{
    return (const uint8_t *)g->b + (p - g->first) * int4_panel_bytes(g->k, group);
}

/* Return the offsets, in the panel, of the multiples of unit I's group and of the codes of unit I. */
static inline size_t int4_head(size_t i, size_t group)
{
    size_t units = group / INT4_UNIT;

    return i / units * (INT4_HEAD + units * INT4_CODES);
}

static inline size_t int4_codes(size_t i, size_t group)
{
    return int4_head(i, group) + INT4_HEAD + i % (group / INT4_UNIT) * INT4_CODES;
}

/* Returns the arguments of gemm_i8 for panel P of G alone, which has been unpacked to UNPACKED. */
static inline struct kern_gemm int4_unpacked(const struct kern_gemm *g, size_t p, const void *unpacked)
{
    struct kern_gemm one = *g;

    one.b = unpacked;
    one.first = p;
    one.ahead = 0; /* no panel follows in the scratch */
    return one;
}

#endif
