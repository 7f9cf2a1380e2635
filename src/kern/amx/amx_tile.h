/* amx_tile.h - the AMX tile registers: their shapes, and the instructions that the kernels of this folder
 * use.
 *
 * A tile has up to 16 rows of up to 64 bytes. LDTILECFG sets the shapes of all eight tiles at once and clears
 * the tiles. A product adds A [rows][words] x B [words][16] to C [rows][16]; a word of A or B is a pair of
 * bf16 or four bytes. In memory, B is the left or the right half of a panel, with rows 128 bytes apart, and A
 * is a cache line of each input row, with rows 64 bytes apart.
 *
 * TDPBF16PS sums the even and the odd elements along K separately, from +0, ascending and by fma, adds the
 * two sums, and adds the result to C. Subnormal inputs and outputs count as zeros (Intel SDM volume 2;
 * test_dot512.c emulates it). TDPBUSD and TDPBSSD (with signed bytes in A) are exact. The instructions are
 * written as assembly, because the intrinsics hide from the compiler which memory they read.
 */
#ifndef GALLOP_KERN_AMX_TILE_H
#define GALLOP_KERN_AMX_TILE_H

#include <stddef.h>
#include <stdint.h>

#include "kern/amx/amx_shapes.h"

#ifndef KERN_EMULATE_AVX512
#define AMX_SHAPES(s)      __asm__ volatile("ldtilecfg %0" : : "m"(*(s)))
#define AMX_RELEASE()      __asm__ volatile("tilerelease" : :)
#define AMX_ZERO(t)        __asm__ volatile("tilezero %%tmm" #t : :)
#define AMX_LOAD(t, p, by) AMX_LOAD_TIMES(t, p, by, 1)
/* Loads tile T without replacing lines in L1. */
#define AMX_LOAD_PASSING(t, p, by) \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #t : : "r"(p), "r"((size_t)(by)) : "memory")
#define AMX_STORE(t, p, by) AMX_STORE_TIMES(t, p, by, 1)
/* Load and store tile T, whose rows in memory are TIMES * BY bytes apart; TIMES is 1, 2, 4 or 8. */
#define AMX_LOAD_TIMES(t, p, by, times) \
    __asm__ volatile("tileloadd (%0,%1," #times "), %%tmm" #t : : "r"(p), "r"((size_t)(by)) : "memory")
#define AMX_STORE_TIMES(t, p, by, times) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1," #times ")" : : "r"(p), "r"((size_t)(by)) : "memory")
#define AMX_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#define AMX_I8(c, a, b)   __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#define AMX_S8(c, a, b)   __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#endif

/* Sets the shapes of the AMX tiles for a product of ROWS[0] + ROWS[1] input rows and a panel. Tiles 0 and 1
 * hold the sums of the first ROWS[0] rows, left and right 16 columns, and 2 and 3 those of the other ROWS[1]
 * rows. 4 and 5 are operand A for these rows, with WORDS words a row; 6 and 7 are operand B, left and right
 * columns. */
static inline void amx_shape(const size_t rows[2], size_t words)
{
    struct amx_shapes s = {.palette = 1};

    for (int i = 0; i < 2; i++)
        if (rows[i]) { /* a tile without rows must not have bytes either */
            s.rows[2 * i] = s.rows[2 * i + 1] = s.rows[4 + i] = (uint8_t)rows[i];
            s.bytes[2 * i] = s.bytes[2 * i + 1] = AMX_LINE;
            s.bytes[4 + i] = (uint16_t)(4 * words);
        }
    s.rows[6] = s.rows[7] = (uint8_t)words;
    s.bytes[6] = s.bytes[7] = AMX_LINE;
    AMX_SHAPES(&s);
}

#endif
