/* simd512_emu.h - AVX-512 on AVX2 machines, for tests: the headers of SIMDe, and plain loops for the
 * instructions that SIMDe 0.7.4 lacks or computes differently. It is slow, and no installed object contains
 * it.
 *
 * It must be compiled with AVX2 and FMA, so that a fused multiply-add is fused; and with -Wno-psabi, because
 * vectors of 64 bytes are passed in memory here and only the emulated files pass them. VDPBF16PS and
 * VCVTNEPS2BF16 follow the operation sections of Intel's manual (volume 2): two chained FMAs for each lane,
 * the odd element first, round to nearest even, subnormal inputs and outputs as zeros.
 */
#ifndef GALLOP_TEST_EMULATED_SIMD512_EMU_H
#define GALLOP_TEST_EMULATED_SIMD512_EMU_H

#ifndef __FMA__
#error "the emulation needs -mavx2 -mfma"
#endif

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/fma.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The names below are compiler built-ins elsewhere, so each function has a name of this file and a macro
 * renames it. */

static inline __m512 simd512_emu_maskz_loadu_ps(__mmask16 m, const void *p)
{
    float f[16] = {0};

    for (int i = 0; i < 16; i++)
        if (m >> i & 1)
            memcpy(&f[i], (const char *)p + 4 * i, 4);
    return _mm512_loadu_ps(f);
}
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps(m, p) simd512_emu_maskz_loadu_ps(m, p)

#undef _mm512_stream_ps
/* SIMDe lacks this instruction. Caches are not emulated. */
#define _mm512_stream_ps(p, v) _mm512_storeu_ps(p, v)
#undef _mm512_stream_si512
#define _mm512_stream_si512(p, v) _mm512_storeu_si512(p, v)

static inline void simd512_emu_mask_storeu_ps(void *p, __mmask16 m, __m512 v)
{
    float f[16];

    _mm512_storeu_ps(f, v);
    for (int i = 0; i < 16; i++)
        if (m >> i & 1)
            memcpy((char *)p + 4 * i, &f[i], 4);
}
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps(p, m, v) simd512_emu_mask_storeu_ps(p, m, v)

static inline __m256i simd512_emu_maskz_loadu_epi16(__mmask16 m, const void *p)
{
    uint16_t h[16] = {0};

    for (int i = 0; i < 16; i++)
        if (m >> i & 1)
            memcpy(&h[i], (const char *)p + 2 * i, 2);
    return _mm256_loadu_si256((const __m256i *)(const void *)h);
}
#undef _mm256_maskz_loadu_epi16
#define _mm256_maskz_loadu_epi16(m, p) simd512_emu_maskz_loadu_epi16(m, p)

static inline void simd512_emu_mask_storeu_epi16(void *p, __mmask16 m, __m256i v)
{
    uint16_t h[16];

    _mm256_storeu_si256((__m256i *)(void *)h, v);
    for (int i = 0; i < 16; i++)
        if (m >> i & 1)
            memcpy((char *)p + 2 * i, &h[i], 2);
}
#undef _mm256_mask_storeu_epi16
#define _mm256_mask_storeu_epi16(p, m, v) simd512_emu_mask_storeu_epi16(p, m, v)

static inline __m512i simd512_emu_cvtepu16_epi32(__m256i v)
{
    uint16_t h[16];
    uint32_t u[16];

    _mm256_storeu_si256((__m256i *)(void *)h, v);
    for (int i = 0; i < 16; i++)
        u[i] = h[i];
    return _mm512_loadu_si512(u);
}
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(v) simd512_emu_cvtepu16_epi32(v)

static inline __m512i simd512_emu_cvtepu8_epi32(__m128i v)
{
    uint8_t b[16];
    uint32_t u[16];

    _mm_storeu_si128((__m128i *)(void *)b, v);
    for (int i = 0; i < 16; i++)
        u[i] = b[i];
    return _mm512_loadu_si512(u);
}
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32(v) simd512_emu_cvtepu8_epi32(v)

static inline __m256i simd512_emu_cvtepi32_epi16(__m512i v)
{
    uint32_t u[16];
    uint16_t h[16];

    _mm512_storeu_si512(u, v);
    for (int i = 0; i < 16; i++)
        h[i] = (uint16_t)u[i];
    return _mm256_loadu_si256((const __m256i *)(const void *)h);
}
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16(v) simd512_emu_cvtepi32_epi16(v)

static inline __m128i simd512_emu_cvtepi32_epi8(__m512i v)
{
    uint32_t u[16];
    uint8_t b[16];

    _mm512_storeu_si512(u, v);
    for (int i = 0; i < 16; i++)
        b[i] = (uint8_t)u[i];
    return _mm_loadu_si128((const __m128i *)(const void *)b);
}
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8(v) simd512_emu_cvtepi32_epi8(v)

/* The bytes of A are unsigned, those of B signed. */
static inline __m512i simd512_emu_dpbusd_epi32(__m512i acc, __m512i a, __m512i b)
{
    int32_t s[16];
    uint8_t ua[64];
    int8_t sb[64];

    _mm512_storeu_si512(s, acc);
    _mm512_storeu_si512(ua, a);
    _mm512_storeu_si512(sb, b);
    for (int i = 0; i < 64; i++)
        s[i / 4] += ua[i] * sb[i];
    return _mm512_loadu_si512(s);
}
#undef _mm512_dpbusd_epi32
#define _mm512_dpbusd_epi32(acc, a, b) simd512_emu_dpbusd_epi32(acc, a, b)

/* SIMDe adds and multiplies signed numbers, for which overflow is undefined. */
static inline __m512i simd512_emu_add_epi8(__m512i a, __m512i b)
{
    uint8_t ua[64], ub[64];

    _mm512_storeu_si512(ua, a);
    _mm512_storeu_si512(ub, b);
    for (int i = 0; i < 64; i++)
        ua[i] = (uint8_t)(ua[i] + ub[i]);
    return _mm512_loadu_si512(ua);
}
#undef _mm512_add_epi8
#define _mm512_add_epi8(a, b) simd512_emu_add_epi8(a, b)

static inline __m512i simd512_emu_mullo_epi16(__m512i a, __m512i b)
{
    uint16_t ua[32], ub[32];

    _mm512_storeu_si512(ua, a);
    _mm512_storeu_si512(ub, b);
    for (int i = 0; i < 32; i++)
        ua[i] = (uint16_t)((uint32_t)ua[i] * ub[i]);
    return _mm512_loadu_si512(ua);
}
#undef _mm512_mullo_epi16
#define _mm512_mullo_epi16(a, b) simd512_emu_mullo_epi16(a, b)

static inline __m512i simd512_emu_srai_epi32(__m512i v, unsigned n)
{
    int32_t u[16];

    _mm512_storeu_si512(u, v);
    for (int i = 0; i < 16; i++)
        u[i] >>= n;
    return _mm512_loadu_si512(u);
}
#undef _mm512_srai_epi32
#define _mm512_srai_epi32(v, n) simd512_emu_srai_epi32(v, n)

static inline __mmask32 simd512_emu_test_epi16_mask(__m512i a, __m512i b)
{
    uint16_t ua[32], ub[32];
    __mmask32 m = 0;

    _mm512_storeu_si512(ua, a);
    _mm512_storeu_si512(ub, b);
    for (int i = 0; i < 32; i++)
        if (ua[i] & ub[i])
            m |= (__mmask32)1 << i;
    return m;
}
#undef _mm512_test_epi16_mask
#define _mm512_test_epi16_mask(a, b) simd512_emu_test_epi16_mask(a, b)

/* Sums of words wrap around. Where M has no bit, the words of KEEP stay. */
static inline __m512i simd512_emu_mask_add_epi16(__m512i keep, __mmask32 m, __m512i a, __m512i b)
{
    uint16_t u[32], ua[32], ub[32];

    _mm512_storeu_si512(u, keep);
    _mm512_storeu_si512(ua, a);
    _mm512_storeu_si512(ub, b);
    for (int i = 0; i < 32; i++)
        if (m >> i & 1)
            u[i] = (uint16_t)(ua[i] + ub[i]);
    return _mm512_loadu_si512(u);
}
#undef _mm512_mask_add_epi16
#define _mm512_mask_add_epi16(keep, m, a, b) simd512_emu_mask_add_epi16(keep, m, a, b)

static inline __m512 simd512_emu_cvtepi32_ps(__m512i v)
{
    int32_t u[16];
    float f[16];

    _mm512_storeu_si512(u, v);
    for (int i = 0; i < 16; i++)
        f[i] = (float)u[i];
    return _mm512_loadu_ps(f);
}
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(v) simd512_emu_cvtepi32_ps(v)

static inline __m512 simd512_emu_cvtepu32_ps(__m512i v)
{
    uint32_t u[16];
    float f[16];

    _mm512_storeu_si512(u, v);
    for (int i = 0; i < 16; i++)
        f[i] = (float)u[i];
    return _mm512_loadu_ps(f);
}
#undef _mm512_cvtepu32_ps
#define _mm512_cvtepu32_ps(v) simd512_emu_cvtepu32_ps(v)

static inline __m512i simd512_emu_mullo_epi32(__m512i a, __m512i b)
{
    uint32_t x[16], y[16];

    _mm512_storeu_si512(x, a);
    _mm512_storeu_si512(y, b);
    for (int i = 0; i < 16; i++)
        x[i] *= y[i];
    return _mm512_loadu_si512(x);
}
#undef _mm512_mullo_epi32
#define _mm512_mullo_epi32(a, b) simd512_emu_mullo_epi32(a, b)

/* Multiplies by a power of two whose exponent is an integer. */
static inline __m512 simd512_emu_scalef_ps(__m512 v, __m512 exponent)
{
    float f[16], e[16];

    _mm512_storeu_ps(f, v);
    _mm512_storeu_ps(e, exponent);
    for (int i = 0; i < 16; i++)
        f[i] = ldexpf(f[i], (int)e[i]);
    return _mm512_loadu_ps(f);
}
#undef _mm512_scalef_ps
#define _mm512_scalef_ps(v, exponent) simd512_emu_scalef_ps(v, exponent)

/* Rounds to nearest even. No lane may lie outside of int32_t. */
static inline __m512i simd512_emu_cvtps_epi32(__m512 v)
{
    float f[16];
    int32_t u[16];

    _mm512_storeu_ps(f, v);
    for (int i = 0; i < 16; i++)
        u[i] = (int32_t)rintf(f[i]);
    return _mm512_loadu_si512(u);
}
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32(v) simd512_emu_cvtps_epi32(v)

static inline __m256 simd512_emu_extractf32x8_ps(__m512 v, int half)
{
    float f[16];

    _mm512_storeu_ps(f, v);
    return _mm256_loadu_ps(f + 8 * half);
}
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps(v, half) simd512_emu_extractf32x8_ps(v, half)

static inline __m512 simd512_emu_permute_ps(__m512 v, int sel)
{
    float f[16], g[16];

    _mm512_storeu_ps(f, v);
    for (int i = 0; i < 16; i++)
        g[i] = f[(i & ~3) + (sel >> 2 * (i & 3) & 3)];
    return _mm512_loadu_ps(g);
}
#undef _mm512_permute_ps
#define _mm512_permute_ps(v, sel) simd512_emu_permute_ps(v, sel)

static inline float simd512_emu_flush(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0.0f, f) : f;
}

static inline float simd512_emu_of_bf16(uint32_t h)
{
    uint32_t u = h << 16;
    float f;

    memcpy(&f, &u, 4);
    return simd512_emu_flush(f);
}

static inline __m512 simd512_emu_dpbf16_ps(__m512 acc, __m512i a, __m512i b)
{
    float f[16];
    uint32_t ua[16], ub[16];

    _mm512_storeu_ps(f, acc);
    _mm512_storeu_si512(ua, a);
    _mm512_storeu_si512(ub, b);
    for (int i = 0; i < 16; i++) {
        float s = simd512_emu_flush(f[i]);

        s = fmaf(simd512_emu_of_bf16(ua[i] >> 16), simd512_emu_of_bf16(ub[i] >> 16), s);
        s = simd512_emu_flush(s);
        s = fmaf(simd512_emu_of_bf16(ua[i] & 0xffff), simd512_emu_of_bf16(ub[i] & 0xffff), s);
        f[i] = simd512_emu_flush(s);
    }
    return _mm512_loadu_ps(f);
}

static inline __m256i simd512_emu_cvtneps_pbh(__m512 v)
{
    uint32_t u[16];
    uint16_t h[16];

    _mm512_storeu_si512(u, _mm512_castps_si512(v));
    for (int i = 0; i < 16; i++) {
        if ((u[i] & 0x7f800000) == 0)
            h[i] = (uint16_t)(u[i] >> 16 & 0x8000);
        else if ((u[i] & 0x7fffffff) > 0x7f800000)
            h[i] = (uint16_t)(u[i] >> 16 | 0x40);
        else
            h[i] = (uint16_t)((u[i] + 0x7fff + (u[i] >> 16 & 1)) >> 16);
    }
    return _mm256_loadu_si256((const __m256i *)(const void *)h);
}

#endif
