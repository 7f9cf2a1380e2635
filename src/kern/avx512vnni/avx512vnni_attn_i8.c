/* avx512vnni_attn_i8.c - attention over one chunk in int8 with VPDPBUSD, in the arithmetic class
 * "int8 dot".
 *
 *   keys    int8 [dp / 4][16][4], float [16]: an instruction multiplies four dims of 16 tokens
 *   values  int8 [4][dp][4], float [16]: an instruction multiplies four tokens of 16 dims
 *   q       is rounded to 8 bits relative to the largest element of the row, weights to 8 unsigned bits relative
 *           to the largest weight. The rounding error is as large as that of storing keys and values as int8;
 *           the sums are exact
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_attn.h"

AVX512_ATTN_TABLE(AVX512_I8_KEYS);

void KERN_NAME(avx512vnni_attn_i8)(const struct kern_attn *a)
{
    avx512_attn_drive(a, &micro, AVX512_I8_KEYS);
}
