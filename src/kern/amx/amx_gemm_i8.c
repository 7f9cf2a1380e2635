/* amx_gemm_i8.c - C = A x W of bytes with TDPBUSD, in the arithmetic class "int8 sum"; and the same
 * over 4-bit panels.
 *
 *   panel  [(K + 3) / 4][32][4] int8: 16 fours of k of 16 columns are an AMX tile B; then the correction for
 *          the 128 added to A, and the scales
 *   A      bytes with 128 added: 16 fours of k of 16 rows are an AMX tile A
 *
 * With few rows, 4-bit panels are computed by the AVX-512 kernel, which expands them in registers. It can
 * read the same input, because for a single tile of rows both kernels use the same layout.
 */
#include "kern/amx/amx_unpacked.h"
#include "kern/format/int4.h"

enum {
    FEW = 4,   /* maximum rows that the AVX-512 kernel computes */
    UNITS = 2, /* units of INT4_UNIT k that one product of AMX tiles covers */
};

void KERN_NAME(amx_gemm_in_i8)(void *in, const float *x, size_t row, size_t m, size_t k, float fixed)
{
    avx512_gemm_put_i8(in, amx_gemm_tile(row, m), x, row, m, k, fixed);
}

void KERN_NAME(amx_gemm_i8)(const struct kern_gemm *g, size_t p0, size_t p1)
{
    amx_gemm_drive(g, p0, p1, AVX512_I8_GEMM);
}

static void expand(char *to, const struct amx_unpacked *u, size_t p, size_t from, size_t n)
{
    KERN_NAME(avx512vnni_i4_expand)(u->g, u->group, p, UNITS * from, UNITS * n, AVX512_GEMM_AHEAD, to);
}

/* Expands each panel to bytes in L2 and calls gemm_i8. Used if K is not a multiple of UNITS units, and with
 * so many rows that storing and loading sums (amx_unpacked.h) would cost more. */
static void whole_panels(const struct kern_gemm *g, size_t group, size_t p0, size_t p1, void *scratch)
{
    for (size_t p = p0; p < p1; p++) {
        struct kern_gemm one = int4_unpacked(g, p, scratch);

        KERN_NAME(avx512vnni_i4_panel)(g, group, p, scratch);
        KERN_NAME(amx_gemm_i8)(&one, p, p + 1);
    }
}

void KERN_NAME(amx_gemm_i4)(const struct kern_gemm *g, size_t group, size_t p0, size_t p1, void *scratch)
{
    const size_t bytes = int4_panel_bytes(g->k, group);
    const struct amx_unpacked u = {.g = g,
                                   .group = group,
                                   .iterations = g->k / (UNITS * INT4_UNIT),
                                   .unpack = expand,
                                   .tail = (const char *)g->b + bytes - KERN_I8_TAIL,
                                   .tail_apart = bytes};

    if (g->m > 0 && g->m <= FEW)
        KERN_NAME(avx512vnni_i4_at_once)(g, group, p0, p1);
    else if (g->k % (UNITS * INT4_UNIT) || g->m > KERN_TOGETHER)
        whole_panels(g, group, p0, p1, scratch);
    else
        amx_unpacked_drive(&u, p0, p1, AVX512_I8_GEMM);
}
