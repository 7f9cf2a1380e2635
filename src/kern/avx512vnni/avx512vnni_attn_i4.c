/* avx512vnni_attn_i4.c - attention to 4-bit KV rows: format/attn_i4.h; calls avx512vnni_attn_i8(). */
#include "kern/avx512/avx512.h"
#include "kern/format/attn_i4.h"
#include "kern/simd512/simd512.h"

void KERN_NAME(avx512vnni_attn_i4)(const struct kern_attn *a)
{
    i4_attn(a, KERN_NAME(avx512vnni_attn_i8));
}
