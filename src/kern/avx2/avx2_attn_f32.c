/* avx2_attn_f32.c - attention over one chunk in fp32: avx2_attn.h with one fma for each step and element.
 *
 *   keys    [dp][16] float;  values  [16][dp] float
 *   sums    dims ascending, tokens ascending, one accumulator for each element
 */
#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_attn.h"

AVX2_ATTN_TABLE(AVX2_F32);

void avx2_attn_f32(const struct kern_attn *a)
{
    avx2_attn_drive(a, &micro, AVX2_F32);
}
