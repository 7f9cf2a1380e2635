/* ref_draw.c - the random draw of a token, in plain C.
 *
 * One element follows the other; see kern_gumbel_argmax_fn in vector.h.
 */
#include <math.h>

#include "kern/kmath.h"
#include "kern/ref/ref.h"

size_t ref_gumbel_argmax(const float *x, size_t n, const int32_t *id, const uint32_t key[2])
{
    float best = -INFINITY;
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        float y = x[i] + kmath_gumbel(kmath_noise(id ? (uint32_t)id[i] : (uint32_t)i, key));

        if (y > best) {
            best = y;
            at = i;
        }
    }
    return at;
}
