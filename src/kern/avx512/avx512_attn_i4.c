/* avx512_attn_i4.c - attention to 4-bit KV rows: format/attn_i4.h for AVX-512; calls avx512_attn_i8(). */
#include "kern/avx512/avx512.h"
#include "kern/format/attn_i4.h"
#include "kern/simd512/simd512.h"

void KERN_NAME(avx512_to_i4)(uint8_t *code, uint8_t *factor, uint16_t *scale, const float *x, size_t n)
{
    i4_quantise(code, factor, scale, x, n);
}

void KERN_NAME(avx512_attn_i4)(const struct kern_attn *a)
{
    i4_attn(a, KERN_NAME(avx512_attn_i8));
}
