/* amx_gemm_i8.c - C = A x W of bytes with TDPBUSD: class "int8 sum"; and of 4-bit panels.
 *
 *   panel  [(K + 3) / 4][32][4] int8: 16 fours of k of 16 columns are a tile of B; then what frees the sums
 *          of the 128 added to A, and scales
 *   A      bytes with 128 added, 16 fours of 16 rows a tile
 *
 * Few rows are the AVX-512 kernel's, which reads a stream of weights faster: rows of one tile lie in both
 * inputs alike. So are those of 4-bit panels, which it expands in registers; for many rows a panel is
 * expanded once, and the tiles have it while it lies in level 2.
 */
#include "kern/amx/amx_gemm.h"
#include "kern/int4.h"

enum { AT_ONCE_ROWS = 64 };

void KERN_NAME(amx_gemm_in_i8)(void *in, const float *x, size_t row, size_t m, size_t k, float fixed)
{
    avx512_gemm_put_i8(in, amx_gemm_tile(row, m), x, row, m, k, fixed);
}

void KERN_NAME(amx_gemm_i8)(const struct kern_gemm *g, size_t p0, size_t p1)
{
    amx_gemm_drive(g, p0, p1, AVX512_I8_GEMM);
}

void KERN_NAME(amx_gemm_i4)(const struct kern_gemm *g, size_t group, size_t p0, size_t p1, void *scratch)
{
    if (g->m > 0 && g->m <= AVX512_ROWS) {
        KERN_NAME(avx512vnni_i4_at_once)(g, group, p0, p1);
        return;
    }
    for (size_t p = p0, n; p < p1; p += n) {
        struct kern_gemm some = int4_unpacked(g, p, scratch);

        n = g->m > AT_ONCE_ROWS ? 1 : p1 - p < KERN_UNPACKED ? p1 - p : KERN_UNPACKED;
        KERN_NAME(avx512vnni_i4_expand)(g, group, p, n, scratch);
        KERN_NAME(amx_gemm_i8)(&some, p, p + n);
    }
}
