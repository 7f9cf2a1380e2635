/* ref_mx4.c - C = A x W^T + bias over MXFP4 panels: unpacks each panel by a table for gemm_f32 or
 * gemm_bf16. */
#include <string.h>

#include "kern/format/mx4.h"
#include "kern/ref/ref.h"

static const float fp4[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/* Returns 2^(s - 127), or NaN if S is 255. */
static float scale_of(uint8_t s)
{
    uint32_t u = s == 0 ? 0x00400000u : s == 255 ? 0x7fc00000u : (uint32_t)s << 23;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/* Stores X as element [K, C] of a panel: of gemm_bf16 if BF16 (its upper half, in pairs along K), or of
 * gemm_f32. */
static void mx4_put(void *panel, size_t k, size_t c, float x, bool bf16)
{
    uint32_t u;

    memcpy(&u, &x, 4);
    if (bf16)
        ((uint16_t *)panel)[(k / 2 * KERN_NR + c) * 2 + k % 2] = (uint16_t)(u >> 16);
    else
        ((float *)panel)[k * KERN_NR + c] = x;
}

static void mx4_unpack(void *panel, const uint8_t *group, size_t k, bool bf16)
{
    for (size_t i = 0; i < k; i++)
        for (size_t c = 0; c < KERN_NR; c++) {
            const uint8_t *at = group + i / MX4_GROUP_SIZE * MX4_GROUP_BYTES;
            uint8_t b = at[mx4_byte(i % MX4_GROUP_SIZE, c)];

            mx4_put(panel, i, c, fp4[c < 16 ? b & 15 : b >> 4] * scale_of(at[c]), bf16);
        }
}

static void mx4_gemm(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch, bool bf16)
{
    for (size_t p = p0; p < p1; p++) {
        struct kern_gemm one = mx4_panel(g, p, scratch);

        mx4_unpack(scratch, mx4_groups(g, p), g->k, bf16);
        (bf16 ? ref_gemm_bf16 : ref_gemm_f32)(&one, p, p + 1);
    }
}

void ref_gemm_mx4_f32(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch)
{
    mx4_gemm(g, p0, p1, scratch, false);
}

void ref_gemm_mx4_bf16(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch)
{
    mx4_gemm(g, p0, p1, scratch, true);
}
