/* avx512_attn_f32.c - attention over one chunk in fp32: avx512_attn.h with one fma for each step and element.
 *
 *   keys    [dp][16] float, one zmm for each dim;  values  [16][dp] float, dp / 16 zmm for each token
 *   sums    dims ascending, tokens ascending, one accumulator for each element
 *
 * With 12 rows a step has 24 fma, 2 loads, 12 broadcasts and 4 prefetches, as in the gemm.
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_attn.h"

AVX512_ATTN_TABLE(AVX512_F32);

void KERN_NAME(avx512_attn_f32)(const struct kern_attn *a)
{
    avx512_attn_drive(a, &micro, AVX512_F32);
}
