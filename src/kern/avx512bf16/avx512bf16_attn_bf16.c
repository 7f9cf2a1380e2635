/* avx512bf16_attn_bf16.c - attention over one chunk with VDPBF16PS, in the arithmetic class "bf16 dot".
 *
 *   keys    [dp / 2][16][2] bf16: an instruction multiplies a pair of dims of 16 tokens; pairs ascending
 *   values  [8][dp][2] bf16: an instruction multiplies a pair of tokens of 16 dims; pairs ascending
 *   weights rounded to bf16 with VCVTNEPS2BF16, which turns subnormals into zeros, as VDPBF16PS would
 *
 * One row scores 4 tiles at once, 256 bytes of keys in the 6 cycles of a VDPBF16PS; memory is slower. With 12
 * rows a step has 24 VDPBF16PS, 2 loads, 12 broadcasts and 4 prefetches.
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_attn.h"

AVX512_ATTN_TABLE(AVX512_DOT);

void KERN_NAME(avx512bf16_attn_bf16)(const struct kern_attn *a)
{
    avx512_attn_drive(a, &micro, AVX512_DOT);
}
