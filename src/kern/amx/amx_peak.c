/* amx_peak.c - products of whole tiles on registers, four chains: the most that the machine can do. */
#include "kern/amx/amx_tile.h"
#include "kern/peak.h"
#include "kern/simd512.h"

enum { CHAINS = 4, ELEMENTS = AMX_ROWS * AMX_WORDS };

/* BYTES: of fours of them, else of pairs of bf16. */
SIMD512_INLINE double peak(size_t n, int bytes)
{
    amx_shape((const size_t[]){AMX_ROWS, AMX_ROWS}, AMX_WORDS);
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
