/* ref_i4.c - C = A x W^T + bias over 4-bit panels: unpacks each panel to bytes and calls gemm_i8. */
#include <string.h>

#include "kern/format/int4.h"
#include "kern/ref/ref.h"

static void i4_unpack(int8_t *to, const uint8_t *panel, size_t k, size_t group)
{
    for (size_t i = 0; i < k; i++)
        for (size_t c = 0; c < KERN_NR; c++) {
            const uint8_t *head = panel + int4_head(i / INT4_UNIT, group);
            size_t line = i % INT4_UNIT / 8 * 2 + c / 16;
            uint8_t byte = panel[int4_codes(i / INT4_UNIT, group) + line * INT4_LINE + c % 16 * 4 + i % 4];
            int code = byte >> i % 8 / 4 * 4 & 15;

            to[i / 4 * 4 * KERN_NR + 4 * c + i % 4] = (int8_t)(head[c] * code + (int8_t)head[KERN_NR + c]);
        }
}

void ref_gemm_i4(const struct kern_gemm *g, size_t group, size_t p0, size_t p1, void *scratch)
{
    for (size_t p = p0; p < p1; p++) {
        const uint8_t *panel = int4_panel(g, group, p);
        struct kern_gemm one = int4_unpacked(g, p, scratch);

        i4_unpack(scratch, panel, g->k, group);
        memcpy((char *)scratch + g->k * KERN_NR, panel + int4_panel_bytes(g->k, group) - KERN_I8_TAIL,
               KERN_I8_TAIL);
        ref_gemm_i8(&one, p, p + 1);
    }
}
