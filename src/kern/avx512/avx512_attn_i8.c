/* avx512_attn_i8.c - attention over one chunk from int8 with a scale a token: the walk of avx512_attn.h,
 * bytes becoming floats, exactly. For processors without VNNI.
 *
 *   keys    int8 [dp / 4][16][4], float [16]: a dot takes its token's scale when all dims are in
 *   values  int8 [4][dp][4], float [16]: a weight takes its token's scale before the values
 *   sums    dims ascending, tokens ascending, one accumulator an element
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_attn.h"

AVX512_ATTN_TABLE(AVX512_I8);

void KERN_NAME(avx512_attn_i8)(const struct kern_attn *a)
{
    avx512_attn_drive(a, &micro, AVX512_I8);
}
