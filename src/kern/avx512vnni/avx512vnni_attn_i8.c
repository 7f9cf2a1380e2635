/* avx512vnni_attn_i8.c - attention over one chunk from int8 with VPDPBUSD: class "int8 dot".
 *
 *   keys    int8 [dp / 4][16][4], float [16]: a dot takes four dims of 16 tokens
 *   values  int8 [4][dp][4], float [16]: a dot takes four tokens of 16 dims
 *   q       8 bits of its row's largest, weights 8 bits of theirs, without sign. What is lost is of the size
 *           of what storing keys and values as int8 has lost; sums are exact
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_attn.h"

AVX512_ATTN_TABLE(AVX512_I8_KEYS);

void KERN_NAME(avx512vnni_attn_i8)(const struct kern_attn *a)
{
    avx512_attn_drive(a, &micro, AVX512_I8_KEYS);
}
