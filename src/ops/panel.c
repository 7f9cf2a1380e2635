/* panel.c - rows of W become columns of panels.
 *
 * fp32: [panel][k][32]; bf16: [panel][(k + 1) / 2][32][2], rounded to nearest even from the stored value.
 */
#include "ops/panel.h"

#include "kern/kern.h"

size_t panel_bytes(size_t n, size_t k, enum dtype t)
{
    size_t panels = (n + KERN_NR - 1) / KERN_NR;

    return t == DT_F32 ? panels * k * KERN_NR * 4 : panels * ((k + 1) / 2) * KERN_NR * 4;
}

static void put_f32(float *panel, size_t c, const float *row, size_t k)
{
    for (size_t i = 0; i < k; i++)
        panel[i * KERN_NR + c] = row[i];
}

static void put_bf16(uint16_t *panel, size_t c, const float *row, size_t k)
{
    for (size_t i = 0; i < k; i++)
        panel[(i / 2 * KERN_NR + c) * 2 + i % 2] = dtype_f32_to_bf16(row[i]);
}

void panel_pack(struct linear *l, const struct linear_desc *d, size_t begin, size_t end, float *row)
{
    size_t per_panel = panel_bytes(KERN_NR, l->k, l->dtype);

    for (size_t i = begin; i < end; i++) {
        char *panel = (char *)l->packed + i / KERN_NR * per_panel;

        linear_row(d, i, row);
        if (l->dtype == DT_F32)
            put_f32((float *)(void *)panel, i % KERN_NR, row, l->k);
        else
            put_bf16((uint16_t *)(void *)panel, i % KERN_NR, row, l->k);
    }
}
