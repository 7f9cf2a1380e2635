/* linear_ints.c - reads rows back from the panels that linear_panels.c and linear_int4.c pack. */
#include "ops/linear_ints.h"

#include <string.h>

#include "kern/format/int4.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"

/* Returns true if the weights of L are packed in LAYOUT (linear_backend.layout). */
static bool has_layout(const struct linear *l, const char *layout)
{
    return l->dtype == DT_I8 && strcmp(l->backend->layout, layout) == 0;
}

enum linear_ints linear_ints_of(const struct linear *l)
{
    return has_layout(l, LINEAR_LAYOUT_PANELS) ? LINEAR_INT8
           : has_layout(l, LINEAR_LAYOUT_INT4) ? LINEAR_INT4
                                               : LINEAR_NO_INTS;
}

/* Returns the scale of column C of a panel that ends at END. */
static float scale_of(const uint8_t *end, size_t c)
{
    float scale;

    memcpy(&scale, end - KERN_I8_TAIL / 2 + 4 * c, sizeof(scale));
    return scale;
}

float linear_ints_row8(const struct linear *l, size_t i, int8_t *out)
{
    size_t column = linear_column_of_row(l, i), c = column % KERN_NR, bytes = kern_i8_panel_bytes(l->k);
    const uint8_t *panel = (const uint8_t *)l->packed + column / KERN_NR * bytes;

    for (size_t k = 0; k < l->k && out; k++)
        out[k] = (int8_t)panel[k / 4 * 4 * KERN_NR + 4 * c + k % 4];
    return scale_of(panel + bytes, c);
}

size_t linear_ints_groups(const struct linear *l)
{
    return (l->k + l->group - 1) / l->group;
}

float linear_ints_row4(const struct linear *l, size_t i, uint8_t *out, int8_t *multiple, int8_t *offset)
{
    size_t column = linear_column_of_row(l, i), c = column % KERN_NR,
           bytes = int4_panel_bytes(int4_k(l->k), l->group);
    const uint8_t *panel = (const uint8_t *)l->packed + column / KERN_NR * bytes;

    for (size_t k = 0; k < l->k && out; k++) {
        size_t line = k % INT4_UNIT / 8 * 2 + c / 16;
        uint8_t two = panel[int4_codes(k / INT4_UNIT, l->group) + line * INT4_LINE + c % 16 * 4 + k % 4];

        out[k] = two >> (k % 8 / 4 * 4) & 15;
    }
    for (size_t g = 0; g < linear_ints_groups(l); g++) {
        const uint8_t *head = panel + int4_head(g * (l->group / INT4_UNIT), l->group);

        multiple[g] = (int8_t)head[c];
        offset[g] = (int8_t)head[KERN_NR + c];
    }
    return scale_of(panel + bytes, c);
}
