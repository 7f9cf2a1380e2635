/* ref_blocks.c - C = A x W^T + bias over weights in quantization groups of integers, one operation after the
 * other. */
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

/* Returns the code of weight K of column C of a group. */
static int code_of(const struct groups_form *f, const uint8_t *codes, size_t k, size_t c)
{
    static const uint8_t fp4[16] = {GROUPS_FP4};
    size_t s = k / 4, side = c / 16 * GROUPS_LINE, at = c % 16 * 4 + k % 4;
    const uint8_t *upper = codes + GROUPS_CODES / 2 + side + at;
    int code;

    if (f->bits == 8)
        return codes[s * 2 * GROUPS_LINE + side + at];
    code = codes[s / 2 * 2 * GROUPS_LINE + side + at] >> s % 2 * 4 & 15;
    if (f->bits == 5)
        code |= (upper[0] >> s & 1) << 4;
    if (f->bits == 6)
        code |= (upper[s / 4 * 2 * GROUPS_LINE] >> s % 4 * 2 & 3) << 4;
    return f->powers ? fp4[code] : code;
}

/* Adds a group of row R, one of ROWS rows in its tile, to the sums of the columns. */
static void add_group(const struct groups_form *f, const uint8_t *head, const uint8_t *group, char *in,
                      size_t r, size_t rows, float y[KERN_NR])
{
    const uint8_t *codes = group + (f->multiples ? 2 * KERN_NR : 0);
    const int8_t *a = (const int8_t *)in + r * GROUPS_SIZE;

    for (size_t c = 0; c < KERN_NR; c++) {
        float d = f->powers ? ldexpf(1, head[c] - GROUPS_POWERS) : half_at(head, c);
        size_t n = GROUPS_SIZE / (size_t)f->halves;

        for (size_t h = 0; h < (size_t)f->halves; h++) {
            float step = !f->multiples    ? d
                         : f->halves == 2 ? d * (float)(int8_t)group[h * KERN_NR + c]
                                          : d * group[c];
            int32_t sum = 0;

            for (size_t j = h * n; j < (h + 1) * n; j++)
                sum += a[j] * (code_of(f, codes, j, c) - f->zero);
            y[c] = f->powers ? fmaf((float)sum * step, groups_scales(in, rows)[r], y[c])
                             : fmaf((float)sum, step * groups_scales(in, rows)[r], y[c]);
        }
        if (f->min) {
            float min = half_at(head, KERN_NR + c);

            min = f->multiples ? 0.0f - min * group[KERN_NR + c] : min;
            y[c] = fmaf(min, groups_weighed(in, rows)[r], y[c]);
        }
    }
}

void ref_gemm_blocks(const struct kern_gemm *g, const struct groups_form *f, size_t p0, size_t p1)
{
    size_t r0, r1;

    kern_gemm_share(g, g->m, &r0, &r1);
    for (size_t p = p0; p < p1; p++)
        for (size_t row = r0; row < r1; row++) {
            const uint8_t *panel = groups_panel(g, f, p);
            struct groups_rows t = groups_tile_of(row, g->m);
            float y[KERN_NR] = {0};

            for (size_t i = 0; i < g->k / GROUPS_SIZE; i++)
                add_group(f, groups_head(f, panel, i), groups_at(f, panel, i), groups_in(g->in, t, g->k, i),
                          row - t.first, t.rows, y);
            ref_gemm_end_row(g, row, p, y, false);
        }
}
