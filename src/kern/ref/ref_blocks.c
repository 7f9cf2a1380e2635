/* ref_blocks.c - C = A x W^T + bias over weights in quantization groups of integers, one operation after the
 * other. format/groups.h has the layouts. */
#include <math.h>
#include <string.h>

#include "kern/format/groups.h"
#include "kern/kmath.h"
#include "kern/ref/ref.h"
#include "tensor/dtype.h"

void ref_gemm_in_blocks(void *in, const float *x, size_t row, size_t m, size_t k)
{
    struct groups_rows t = groups_tile_of(row, m);
    size_t r = row - t.first;

    for (size_t i = 0; i < k / GROUPS_SIZE; i++, x += GROUPS_SIZE) {
        char *group = groups_in(in, t, k, i);
        int8_t *n = (int8_t *)group + r * GROUPS_SIZE;
        uint32_t largest = 0, bits;
        int32_t half[2] = {0};
        float scale, inv;

        for (size_t j = 0; j < GROUPS_SIZE; j++) {
            bits = kmath_bits(x[j]) & 0x7fffffff;
            largest = bits > largest ? bits : largest;
        }
        inv = kmath_i8_inv(largest, &scale);
        for (size_t j = 0; j < GROUPS_SIZE; j++) {
            n[j] = inv > 0 ? (int8_t)rintf(x[j] * inv) : 0;
            half[j / 16] += n[j];
        }
        groups_put_sums(group, t.rows, r, half, scale);
    }
}

static float half_at(const uint8_t *p, size_t i)
{
    uint16_t h;

    memcpy(&h, p + 2 * i, sizeof(h));
    return dtype_f16_to_f32(h);
}

/* Sets VALUE to the integer weights of column C of a group, with the zero point subtracted. */
static void values_of(const struct quant_format *f, const uint8_t *codes, size_t c, int value[GROUPS_SIZE])
{
    codes += c / 16 * GROUPS_LINE + c % 16 * 4;
    memset(value, 0, GROUPS_SIZE * sizeof(*value));
    for (unsigned width = 8; width > 0; width /= 2)
        for (int k = 0; k < GROUPS_SIZE && width & f->bits; k += 4) {
            const struct groups_plane p = groups_plane_of(f->bits, width, k / 4);

            for (int i = 0; i < 4; i++)
                value[k + i] |= (codes[p.byte + (size_t)i] >> p.from & ((1 << width) - 1)) << p.to;
        }
    for (int k = 0; k < GROUPS_SIZE; k++)
        value[k] = (f->values ? quant_values[f->values][value[k]] : value[k]) - f->zero;
}

/* Returns the integer that multiplies d (I is 0) or min (I is 1) of column C in half H of a group. */
static float multiple_of(const struct quant_format *f, const uint8_t *group, size_t i, size_t h, size_t c)
{
    if (!f->multiples)
        return 1;
    if (f->min && f->in_halves)
        return (float)(group[h * KERN_NR + c] >> 4 * i & 15);
    return f->min ? (float)group[i * KERN_NR + c] : (float)(int8_t)group[h * KERN_NR + c];
}

/* Multiplies row R of a tile of ROWS input rows with a group of the weights and adds the products to the sums
 * y of the columns. */
static void add_group(const struct quant_format *f, const uint8_t *head, const uint8_t *group, char *in,
                      size_t r, size_t rows, float y[KERN_NR])
{
    const int8_t *a = (const int8_t *)in + r * GROUPS_SIZE;
    const float scale = groups_scales(in, rows)[r];
    const int parts = groups_parts(*f);
    const size_t n = GROUPS_SIZE / (size_t)parts;

    for (size_t c = 0; c < KERN_NR; c++) {
        int value[GROUPS_SIZE];

        values_of(f, groups_codes(f, group), c, value);
        for (size_t h = 0; h < (size_t)parts; h++) {
            float d = f->powers ? ldexpf(1, head[c] - GROUPS_POWERS) : half_at(head, c);
            float step = d * multiple_of(f, group, 0, h, c), min;
            int32_t sum = 0;

            for (size_t j = h * n; j < (h + 1) * n; j++)
                sum += a[j] * value[j];
            y[c] = f->powers ? fmaf((float)sum * step, scale, y[c]) : fmaf((float)sum, step * scale, y[c]);
            if (!f->min)
                continue;
            min = half_at(head, KERN_NR + c) * multiple_of(f, group, 1, h, c);
            sum = -groups_minus(groups_sums(in, rows) + 2 * r, (int)h, parts);
            y[c] = fmaf(f->multiples ? 0.0f - min : min, scale * (float)sum, y[c]);
        }
    }
}

void ref_gemm_blocks(const struct kern_gemm *g, enum dtype t, size_t p0, size_t p1)
{
    const struct quant_format *f = quant_format_of(t);
    size_t r0, r1;

    kern_gemm_share(g, g->m, &r0, &r1);
    for (size_t p = p0; p < p1; p++)
        for (size_t row = r0; row < r1; row++) {
            const uint8_t *panel = groups_panel(g, f, p);
            struct groups_rows tile = groups_tile_of(row, g->m);
            float y[KERN_NR] = {0};

            for (size_t i = 0; i < g->k / GROUPS_SIZE; i++)
                add_group(f, groups_head(f, panel, i), groups_at(f, panel, i),
                          groups_in(g->in, tile, g->k, i), row - tile.first, tile.rows, y);
            ref_gemm_end_row(g, row, p, y, false);
        }
}
