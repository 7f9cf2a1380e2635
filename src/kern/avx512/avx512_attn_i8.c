/* avx512_attn_i8.c - attention over one chunk in int8 with one scale for each token: avx512_attn.h with bytes
 * that are converted to floats exactly. For processors without VNNI.
 *
 *   keys    int8 [dp / 4][16][4], float [16]: a dot product is multiplied by the scale of its token
 *   values  int8 [4][dp][4], float [16]: a weight is multiplied by the scale of its token, before the values
 *   sums    dims ascending, tokens ascending, one accumulator for each element
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_attn.h"

AVX512_ATTN_TABLE(AVX512_I8);

void KERN_NAME(avx512_attn_i8)(const struct kern_attn *a)
{
    avx512_attn_drive(a, &micro, AVX512_I8);
}
