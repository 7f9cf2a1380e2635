/* rotate.c - rotates rows: multiplies by pseudo-random signs, then by the Hadamard matrix. */
#include "ops/rotate.h"

#include <stdint.h>
#include <string.h>

#include "kern/kern.h"
#include "kern/quant.h"

/* SIGN(i) is the sign bit or 0 for element I, from the finalizer of MurmurHash3. Periodic signs, like those
 * of the rows of a Hadamard matrix, would concentrate large elements instead of spreading them. */
#define MIX_1(i) (((i) ^ ((i) >> 16)) * 0x85ebca6bu)
#define MIX_2(i) (((i) ^ ((i) >> 13)) * 0xc2b2ae35u)
#define SIGN(i)  ((MIX_2(MIX_1((uint32_t)(i))) ^ (MIX_2(MIX_1((uint32_t)(i))) >> 16)) & 0x80000000u)
#define SIGNS_8(i) \
    SIGN(i), SIGN(i + 1), SIGN(i + 2), SIGN(i + 3), SIGN(i + 4), SIGN(i + 5), SIGN(i + 6), SIGN(i + 7)
#define SIGNS_64(i)                                                                                 \
    SIGNS_8(i), SIGNS_8(i + 8), SIGNS_8(i + 16), SIGNS_8(i + 24), SIGNS_8(i + 32), SIGNS_8(i + 40), \
        SIGNS_8(i + 48), SIGNS_8(i + 56)
#define SIGNS_512(i)                                                                        \
    SIGNS_64(i), SIGNS_64(i + 64), SIGNS_64(i + 128), SIGNS_64(i + 192), SIGNS_64(i + 256), \
        SIGNS_64(i + 320), SIGNS_64(i + 384), SIGNS_64(i + 448)

static const uint32_t signs[KERN_ROTATED] = {SIGNS_512(0), SIGNS_512(512), SIGNS_512(1024), SIGNS_512(1536)};

/* Writes X [n] to OUT, which may be X, with the signs changed by the array of sign bits. */
static void flip(float *out, const float *x, size_t n)
{
    for (size_t at = 0; at < n; at += KERN_ROTATED) {
        size_t end = n - at < KERN_ROTATED ? n - at : KERN_ROTATED;

        for (size_t i = 0; i < end; i++) {
            uint32_t bits;

            memcpy(&bits, &x[at + i], sizeof(bits));
            bits ^= signs[i];
            memcpy(&out[at + i], &bits, sizeof(bits));
        }
    }
}

size_t rotate_size(size_t k)
{
    size_t size = 1;

    while (size * 2 <= k && size < KERN_ROTATED)
        size *= 2;
    return size;
}

float rotate_sign(size_t i)
{
    return signs[i] ? -1 : 1;
}

void rotate(const struct kern *kern, float *out, const float *x, size_t k)
{
    size_t size = rotate_size(k), whole = k / size * size; /* whole: elements of the first rotation */

    flip(out, x, whole);
    kern->hadamard(out, whole);
    if (whole < k) {
        float *last = out + (k - whole);

        memcpy(out + whole, x + whole, (k - whole) * sizeof(*x));
        flip(last, last, whole);
        kern->hadamard(last, whole);
    }
}
