/* ref_mx4.c - MXFP4 panels to fp32 and bf16 panels, by table. */
#include <string.h>

#include "kern/kern.h"
#include "kern/ref/ref.h"

enum { GROUP = 32, GROUP_BYTES = KERN_NR + GROUP / 2 * KERN_NR };

static const float fp4[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/* 2^(s - 127). */
static float scale_of(uint8_t s)
{
    uint32_t u = s == 0 ? 0x00400000u : s == 255 ? 0x7fc00000u : (uint32_t)s << 23;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/* Element I of the panel, which is bf16 (the upper half of the fp32) or fp32. */
static void put(void *panel, size_t i, float x, bool bf16)
{
    uint32_t u;

    memcpy(&u, &x, 4);
    if (bf16)
        ((uint16_t *)panel)[i] = (uint16_t)(u >> 16);
    else
        ((float *)panel)[i] = x;
}

/* fp32: rows of 32 columns; bf16: pairs of rows beside each other. */
static void unpack(void *panel, const uint8_t *packed, size_t k, bool bf16)
{
    size_t at = 0;

    for (size_t g = 0; g < k / GROUP; g++, packed += GROUP_BYTES)
        for (size_t i = 0; i < GROUP / 2; i++, at += 2 * KERN_NR)
            for (size_t c = 0; c < KERN_NR; c++) {
                uint8_t b = packed[KERN_NR + i * KERN_NR + c];
                float scale = scale_of(packed[c]);

                put(panel, at + (bf16 ? 2 * c : c), fp4[b & 15] * scale, bf16);
                put(panel, at + (bf16 ? 2 * c + 1 : KERN_NR + c), fp4[b >> 4] * scale, bf16);
            }
}

void ref_mx4_f32(float *panel, const uint8_t *packed, size_t k)
{
    unpack(panel, packed, k, false);
}

void ref_mx4_bf16(uint16_t *panel, const uint8_t *packed, size_t k)
{
    unpack(panel, packed, k, true);
}
