/* amx_mx4_bf16.c - C = A x W over MXFP4 panels, in the arithmetic class "bf16 tile dot". An iteration
 * of the AMX tiles multiplies one group of 32 weights along K. */
#include "kern/amx/amx_unpacked.h"
#include "kern/avx512/avx512_mx4.h"

static void mx4_unpack(char *to, const struct amx_unpacked *u, size_t p, size_t from, size_t n)
{
    const uint8_t *group = mx4_groups(u->g, p) + from * MX4_GROUP_BYTES;

    for (size_t at = 0; at < n * MX4_GROUP_BYTES; at += AMX_LINE)
        prefetch_line((const char *)group + AVX512_GEMM_AHEAD + at, false);
    avx512_mx4_unpack(to, group, n, AVX512_DOT);
}

void KERN_NAME(amx_gemm_mx4_bf16)(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch)
{
    const struct amx_unpacked u = {.g = g, .iterations = g->k / MX4_GROUP_SIZE, .unpack = mx4_unpack};

    (void)scratch;
    amx_unpacked_drive(&u, p0, p1, AVX512_DOT);
}
