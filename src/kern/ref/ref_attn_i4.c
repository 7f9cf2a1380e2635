/* ref_attn_i4.c - attention to 4-bit KV rows: format/attn_i4.h compiled as plain C; calls ref_attn_i8(). */
#include "kern/format/attn_i4.h"
#include "kern/ref/ref.h"

void ref_to_i4(uint8_t *code, uint8_t *factor, uint16_t *scale, const float *x, size_t n)
{
    i4_quantise(code, factor, scale, x, n);
}

void ref_attn_i4(const struct kern_attn *a)
{
    i4_attn(a, ref_attn_i8);
}
