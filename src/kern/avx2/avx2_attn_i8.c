/* avx2_attn_i8.c - attention over one chunk in int8 with a scale a token: bytes become floats, exactly.
 *
 *   keys    int8 [dp / 4][16][4], float [16]: a dot takes the scale of its token after the last dim
 *   values  int8 [4][dp][4], float [16]: a weight takes the scale of its token before the values
 */
#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_attn.h"

AVX2_ATTN_TABLE(AVX2_I8);

void avx2_attn_i8(const struct kern_attn *a)
{
    avx2_attn_drive(a, &micro, AVX2_I8);
}
