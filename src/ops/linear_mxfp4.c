/* linear_mxfp4.c - backend "mxfp4": weights stay in four bits and are unpacked panel by panel where they are
 * used.
 *
 * Takes matrices all of whose parts are MXFP4, stored as GPT-OSS does (nibbles and scales in tensors of their
 * own) or as GGUF does (scale and nibbles in one block), and keeps as many bytes as the file. A thread
 * unpacks one panel into its scratch and gives it to the gemm of the kernel table, so results equal those of
 * the same weights unpacked at load. Packed: [panel][k / 32], each 32 scales and [16][32] bytes (kern.h,
 * mx4_f32).
 */
#include <string.h>

#include "ops/linear.h"

enum {
    BLOCK = 32,
    HALF = BLOCK / 2,
    GROUP_BYTES = KERN_NR + HALF * KERN_NR,
    LARGE = 253, /* the least scale that can make an infinity, 6 * 2^126; 255 is NaN */
};

static bool accepts(const struct linear_desc *d, const char **why_not)
{
    *why_not = "it takes rows of MXFP4 blocks and computes in fp32 and bf16 only";
    for (size_t p = 0; p < d->n_parts; p++) {
        const struct view *v = d->part[p];

        if (v->dtype != DT_MXFP4 || v->stride[1] != 1 || v->stride[0] % BLOCK || v->shape[1] % BLOCK ||
            v->zipped)
            return false;
    }
    return d->dtype == DT_F32 || d->dtype == DT_BF16;
}

static size_t packed_bytes(size_t n, size_t k, enum dtype t)
{
    (void)t;
    return (n + KERN_NR - 1) / KERN_NR * (k / BLOCK) * GROUP_BYTES;
}

/* Block B of row I of part P: its scale, and its nibbles with neighbours in one byte. */
static void block_at(const struct linear_desc *d, size_t p, size_t i, size_t b, uint8_t *scale,
                     uint8_t nibbles[HALF])
{
    const struct view *v = d->part[p], *s = d->scale[p];
    const uint8_t *in;

    if (s) {
        *scale = ((const uint8_t *)s->data)[i * s->stride[0] + b * s->stride[1]];
        memcpy(nibbles, (const uint8_t *)v->data + (i * v->stride[0] / BLOCK + b) * HALF, HALF);
        return;
    }
    in = (const uint8_t *)v->data + (i * v->stride[0] / BLOCK + b) * (HALF + 1);
    *scale = *in++;
    for (size_t j = 0; j < HALF; j++) { /* GGUF: byte J holds the elements J and J + 16 */
        uint8_t even = in[2 * j % HALF], odd = in[(2 * j + 1) % HALF];

        nibbles[j] = (uint8_t)(j < HALF / 2 ? (even & 15) | odd << 4 : even >> 4 | (odd & 0xf0));
    }
}

static bool pack(struct linear *l, const struct linear_desc *d, size_t begin, size_t end)
{
    size_t groups = l->k / BLOCK;
    bool finite = true;

    for (size_t column = begin; column < end; column++) {
        uint8_t *panel = (uint8_t *)l->packed + column / KERN_NR * groups * GROUP_BYTES;
        size_t c = column % KERN_NR, p, row = linear_column(d, column, &p);

        for (size_t b = 0; p < d->n_parts && b < groups; b++, panel += GROUP_BYTES) {
            uint8_t nibbles[HALF];

            block_at(d, p, row, b, panel + c, nibbles);
            if (panel[c] >= LARGE) {
                float x[BLOCK];

                linear_elements(d, column, b * BLOCK, BLOCK, x);
                finite &= dtype_all_finite(x, BLOCK, DT_F32);
            }
            for (size_t j = 0; j < HALF; j++)
                panel[(j + 1) * KERN_NR + c] = nibbles[j];
        }
    }
    return finite;
}

static size_t scratch_bytes(size_t k, enum dtype t)
{
    return linear_panel_bytes(KERN_NR, k, t);
}

static void put(const struct linear *l, void *in, const float *x, size_t row, size_t m)
{
    if (l->dtype == DT_F32)
        l->kern->gemm_in_f32(in, x, row, m, l->k);
    else
        l->kern->gemm_in_bf16(in, x, row, m, l->k);
}

static void run(const struct linear *l, const void *in, const struct linear_end *end, size_t m, size_t p0,
                size_t p1, void *scratch)
{
    size_t per_panel = l->k / BLOCK * GROUP_BYTES;
    struct kern_gemm g = linear_gemm(l, in, end, m);

    g.b = scratch;
    for (size_t p = p0; p < p1; p++) {
        const uint8_t *packed = (const uint8_t *)l->packed + p * per_panel;

        g.first = p;
        if (l->dtype == DT_F32) {
            l->kern->mx4_f32(scratch, packed, l->k);
            l->kern->gemm_f32(&g, p, p + 1);
        } else {
            l->kern->mx4_bf16(scratch, packed, l->k);
            l->kern->gemm_bf16(&g, p, p + 1);
        }
    }
}

const struct linear_backend linear_mxfp4 = {.name = "mxfp4",
                                            .accepts = accepts,
                                            .packed_bytes = packed_bytes,
                                            .pack = pack,
                                            .put = put,
                                            .run = run,
                                            .scratch_bytes = scratch_bytes};
