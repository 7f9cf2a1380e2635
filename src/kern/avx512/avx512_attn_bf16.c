/* avx512_attn_bf16.c - attention over one chunk in bf16 without the bf16 dot: all operands are widened
 * exactly and summed as in ref/. For processors with AVX-512 and without AVX512-BF16.
 *
 *   keys    [dp / 2][16][2] bf16;  values  [8][dp][2] bf16. To widen a pair, the lower half is shifted up and
 *           the upper half masked
 *   q       fp32; weights are rounded to bf16 and kept as floats
 *   sums    even dim before odd dim, even token before odd token, one accumulator for each element
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_attn.h"

AVX512_ATTN_TABLE(AVX512_WIDE);

void KERN_NAME(avx512_attn_bf16)(const struct kern_attn *a)
{
    avx512_attn_drive(a, &micro, AVX512_WIDE);
}
