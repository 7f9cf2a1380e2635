/* amx_peak.c - the loops of peak.h with AMX: products of whole AMX tiles on registers, in four chains.
 *
 * The tiles hold numbers like those of a model, because products of zeros run at a higher clock. */
#include "kern/amx/amx_tile.h"
#include "kern/peak.h"
#include "kern/simd512/simd512.h"

enum { CHAINS = 4, ELEMENTS = AMX_ROWS * AMX_WORDS };

/* Fills the tiles of A and B with pseudo-random bytes, or, if BYTES is 0, with bf16 of 0.5 to 1. */
SIMD512_INLINE void fill(int bytes)
{
    _Alignas(64) uint32_t word[4][ELEMENTS];

    for (uint32_t i = 0; i < 4 * ELEMENTS; i++) {
        uint32_t x = (i + 1) * 2654435761u;

        word[i / ELEMENTS][i % ELEMENTS] = bytes ? x : (x & 0x80ff80ff) | 0x3f003f00;
    }
    AMX_LOAD(4, word[0], AMX_LINE);
    AMX_LOAD(5, word[1], AMX_LINE);
    AMX_LOAD(6, word[2], AMX_LINE);
    AMX_LOAD(7, word[3], AMX_LINE);
}

/* Runs N iterations of int8 products if BYTES is not 0, otherwise of bf16 products. Returns the number of
 * operations. */
SIMD512_INLINE double peak(size_t n, int bytes)
{
    amx_shape((const size_t[]){AMX_ROWS, AMX_ROWS}, AMX_WORDS);
    fill(bytes);
    for (size_t i = 0; i < n; i++)
        if (bytes) {
            AMX_I8(0, 4, 6);
            AMX_I8(1, 4, 7);
            AMX_I8(2, 5, 6);
            AMX_I8(3, 5, 7);
        } else {
            AMX_BF16(0, 4, 6);
            AMX_BF16(1, 4, 7);
            AMX_BF16(2, 5, 6);
            AMX_BF16(3, 5, 7);
        }
    AMX_RELEASE();
    return (double)n * CHAINS * ELEMENTS * AMX_WORDS * (bytes ? 4 : 2) * 2;
}

double KERN_NAME(amx_peak_dot)(size_t n)
{
    return peak(n, 0);
}

double KERN_NAME(amx_peak_dot8)(size_t n)
{
    return peak(n, 1);
}
