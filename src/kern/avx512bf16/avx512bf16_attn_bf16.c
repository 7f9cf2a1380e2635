/* avx512bf16_attn_bf16.c - attention over one chunk with VDPBF16PS: class "bf16 dot".
 *
 *   keys    [dp / 2][16][2] bf16: a dot takes a pair of dims of 16 tokens; dims ascending in pairs
 *   values  [8][dp][2] bf16: a dot takes a pair of tokens of 16 dims; tokens ascending in pairs
 *   weights rounded to bf16 with VCVTNEPS2BF16: it turns subnormals into zeros, and so does the dot that
 *   reads them
 *
 * One row scores 4 tiles at once, 256 bytes of keys in the 6 cycles of a dot; memory is slower. With 12 rows
 * a step takes 24 dots, 2 loads, 12 broadcasts and 4 prefetches.
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_attn.h"

AVX512_ATTN_TABLE(AVX512_DOT);

void KERN_NAME(avx512bf16_attn_bf16)(const struct kern_attn *a)
{
    avx512_attn_drive(a, &micro, AVX512_DOT);
}
