/* avx2_attn_i4.c - attention to 4-bit KV rows: format/attn_i4.h compiled for AVX2; calls avx2_attn_i8(). */
#include "kern/avx2/avx2.h"
#include "kern/format/attn_i4.h"

void avx2_to_i4(uint8_t *code, uint8_t *factor, uint16_t *scale, const float *x, size_t n)
{
    i4_quantise(code, factor, scale, x, n);
}

void avx2_attn_i4(const struct kern_attn *a)
{
    i4_attn(a, avx2_attn_i8);
}
