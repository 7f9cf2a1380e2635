/* avx2_attn_bf16.c - attention over one chunk in bf16: all operands are widened exactly and summed as in
 * ref/.
 *
 *   keys    [dp / 2][16][2] bf16;  values  [8][dp][2] bf16
 *   q       fp32; weights are rounded to bf16 and kept as floats
 *   sums    even dim before odd dim, even token before odd token, one accumulator for each element
 */
#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_attn.h"

AVX2_ATTN_TABLE(AVX2_BF16);

void avx2_attn_bf16(const struct kern_attn *a)
{
    avx2_attn_drive(a, &micro, AVX2_BF16);
}
