/* avx2_attn_i8.c - attention over one chunk in int8 with one scale for each token; bytes are converted to
 * floats exactly.
 *
 *   keys    int8 [dp / 4][16][4], float [16]: a dot product is multiplied by the scale of its token
 *   values  int8 [4][dp][4], float [16]: a weight is multiplied by the scale of its token, before the values
 */
#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_attn.h"

AVX2_ATTN_TABLE(AVX2_I8);

void avx2_attn_i8(const struct kern_attn *a)
{
    avx2_attn_drive(a, &micro, AVX2_I8);
}
