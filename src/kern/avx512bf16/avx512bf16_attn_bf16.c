/* avx512bf16_attn_bf16.c - attention over one chunk with VDPBF16PS: class "bf16 dot".
 *
 *   keys    [dp / 2][16][2] bf16: a dot takes a pair of dims of 16 tokens; dims ascending in pairs
 *   values  [8][dp][2] bf16: a dot takes a pair of tokens of 16 dims; tokens ascending in pairs
 *   weights rounded to bf16 with VCVTNEPS2BF16: it makes zeros of denormals, but so does the dot that reads
 *   them
 *
 * One row scores 4 tiles at once, 256 bytes of keys in the 6 cycles that a dot takes: memory is slower. 12
 * rows: 24 dots against 2 loads, 12 broadcasts and 4 prefetches a step.
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_attn.h"

AVX512_ATTN_TABLE(AVX512_DOT);

void KERN_NAME(avx512bf16_attn_bf16)(const struct kern_attn *a)
{
    avx512_attn_drive(a, &micro, AVX512_DOT);
}
