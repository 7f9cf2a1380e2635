/* simd512.h - the common functions of the 512-bit kernels: masked access, the canonical 16-lane fold, bf16,
 * and the functions of kmath.h on sixteen lanes, operation by operation.
 *
 * With KERN_EMULATE_AVX512 the same sources are compiled for AVX2 and export emu_<symbol>: the compiler
 * includes simd512_emu.h first (cmake/kernels.cmake), so that tests prove the kernels equal to ref/ on
 * machines without AVX-512. The results must be equal in both cases. Only files that are compiled with
 * AVX-512 F, BW, DQ and VL, or for the emulation, may include this header. With KERN_EMULATE_ALL, too, the emulation
 * takes the place of the kernels in a whole build (GALLOP_EMULATE).
 */
#ifndef GALLOP_KERN_SIMD512_SIMD512_H
#define GALLOP_KERN_SIMD512_SIMD512_H

#ifdef KERN_EMULATE_AVX512
#ifdef KERN_EMULATE_ALL
#define KERN_NAME(x) x
#else
#define KERN_NAME(x) emu_##x
#endif
#define SIMD512_INLINE static inline
#define SIMD512_UNROLL
#define SIMD512_LOOP
#define SIMD512_FIRST(a, b) ((void)0)
#else
#include <immintrin.h>
#define KERN_NAME(x)   x
#define SIMD512_INLINE static inline __attribute__((always_inline))
/* SIMD512_UNROLL completely unrolls the next loop, whose count is constant. SIMD512_LOOP keeps the next loop from being
 * unrolled, because that would need more registers than there are. */
#ifdef __clang__
#define SIMD512_UNROLL _Pragma("unroll")
#define SIMD512_LOOP   _Pragma("nounroll")
#else
#define SIMD512_UNROLL _Pragma("GCC unroll 32")
#ifdef __SANITIZE_ADDRESS__
#define SIMD512_LOOP /* gcc warns that it ignores the pragma on loops that it has instrumented */
#else
#define SIMD512_LOOP _Pragma("GCC unroll 1")
#endif
#endif
/* Makes the compiler compute vector A before all instructions that depend on vector B. Otherwise it moves the
 * computation of A down to its first use, where the next instructions have to wait for it. */
#define SIMD512_FIRST(a, b) __asm__("" : "+v"(a), "+v"(b))
#endif

/* Expands to what(1, ...) what(2, ...) and so on, up to 6, 12 or 16, for each number of rows. */
#define SIMD512_TO_6(what, ...)                                                                              \
    what(1, __VA_ARGS__) what(2, __VA_ARGS__) what(3, __VA_ARGS__) what(4, __VA_ARGS__) what(5, __VA_ARGS__) \
        what(6, __VA_ARGS__)
#define SIMD512_TO_12(what, ...)                                                         \
    SIMD512_TO_6(what, __VA_ARGS__)                                                      \
    what(7, __VA_ARGS__) what(8, __VA_ARGS__) what(9, __VA_ARGS__) what(10, __VA_ARGS__) \
        what(11, __VA_ARGS__) what(12, __VA_ARGS__)
#define SIMD512_TO_16(what, ...)     \
    SIMD512_TO_12(what, __VA_ARGS__) \
    what(13, __VA_ARGS__) what(14, __VA_ARGS__) what(15, __VA_ARGS__) what(16, __VA_ARGS__)
/* As WHAT of these macros, expands to name_<rows> and a comma: an element of an array initializer. */
#define SIMD512_NAMED(rows, name) name##_##rows,

#include "kern/kmath.h"
#include "kern/vector.h"

#define SIMD512_ALL ((__mmask16)0xffff)

/* Returns the mask of the first min(n, 16) lanes. */
SIMD512_INLINE __mmask16 simd512_head(size_t n)
{
    return n < 16 ? (__mmask16)((1u << n) - 1) : SIMD512_ALL;
}

/* Loads the lanes of M; the other lanes are +0, and their memory is not read. SIMD512_ALL is a plain load. */
SIMD512_INLINE __m512 simd512_load(const float *p, __mmask16 m)
{
    return m == SIMD512_ALL ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(m, p);
}

SIMD512_INLINE void simd512_store(float *p, __mmask16 m, __m512 v)
{
    if (m == SIMD512_ALL)
        _mm512_storeu_ps(p, v);
    else
        _mm512_mask_storeu_ps(p, m, v);
}

/* Rounds to bf16 (nearest, ties to even) in the low halves of 32-bit lanes. A NaN becomes a quiet NaN. */
SIMD512_INLINE __m512i simd512_round_bf16(__m512 v)
{
    __m512i u = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i near = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);

    return _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, near, quiet), 16);
}

SIMD512_INLINE void simd512_store_bf16(uint16_t *p, __mmask16 m, __m512 v)
{
    __m256i h = _mm512_cvtepi32_epi16(simd512_round_bf16(v));

    if (m == SIMD512_ALL)
        _mm256_storeu_si256((__m256i *)p, h);
    else
        _mm256_mask_storeu_epi16(p, m, h);
}

/* Folds the lanes of a 16-lane sum as kern.h defines and returns the sum. */
SIMD512_INLINE float simd512_fold_add(__m512 v)
{
    __m256 y = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));

    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

SIMD512_INLINE int32_t simd512_fold_add_i32(__m512i v)
{
    __m512 f = _mm512_castsi512_ps(v);
    __m256i y = _mm256_add_epi32(_mm256_castps_si256(_mm512_castps512_ps256(f)),
                                 _mm256_castps_si256(_mm512_extractf32x8_ps(f, 1)));
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));

    x = _mm_add_epi32(x, _mm_unpackhi_epi64(x, x));
    return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 1)));
}

/* Returns the largest lane. No lane may be NaN. */
SIMD512_INLINE float simd512_fold_max(__m512 v)
{
    __m256 y = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));

    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

SIMD512_INLINE __m512 simd512_abs(__m512 x)
{
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
}

/* Returns |x| with the sign of s. */
SIMD512_INLINE __m512 simd512_copysign(__m512 x, __m512 s)
{
    __m512i sign = _mm512_set1_epi32((int)0x80000000u);
    __m512i u = _mm512_andnot_si512(sign, _mm512_castps_si512(x));

    return _mm512_castsi512_ps(_mm512_or_si512(u, _mm512_and_si512(sign, _mm512_castps_si512(s))));
}

#if defined(__AVX512BF16__) || defined(KERN_EMULATE_AVX512)
/* Computes VDPBF16PS: adds the products of each lane's pair of bf16 to ACC. */
SIMD512_INLINE __m512 simd512_dot(__m512 acc, __m512i a, __m512i b)
{
#ifdef KERN_EMULATE_AVX512
    return simd512_emu_dpbf16_ps(acc, a, b);
#else
    return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
#endif
}

/* Computes VCVTNEPS2BF16: rounds as simd512_round_bf16() does, but subnormals become zeros. */
SIMD512_INLINE __m256i simd512_flush_bf16(__m512 v)
{
#ifdef KERN_EMULATE_AVX512
    return simd512_emu_cvtneps_pbh(v);
#else
    return (__m256i)_mm512_cvtneps_pbh(v);
#endif
}
#endif

/* Returns p * x + c, a step of Horner's rule. */
SIMD512_INLINE __m512 simd512_horner(__m512 p, __m512 x, float c)
{
    return _mm512_fmadd_ps(p, x, _mm512_set1_ps(c));
}

/* Computes kmath_reduce() on 16 lanes. */
SIMD512_INLINE __m512 simd512_reduce(__m512 x, __m512 *r)
{
    __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(KMATH_LOG2E), _mm512_set1_ps(KMATH_MAGIC));
    __m512 n = _mm512_sub_ps(t, _mm512_set1_ps(KMATH_MAGIC));

    *r = _mm512_fnmadd_ps(n, _mm512_set1_ps(KMATH_LN2_HI), x);
    *r = _mm512_fnmadd_ps(n, _mm512_set1_ps(KMATH_LN2_LO), *r);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23));
}

/* Computes kmath_exp() on 16 lanes. */
SIMD512_INLINE __m512 simd512_exp(__m512 x)
{
    __m512 half, p, r;

    x = _mm512_min_ps(_mm512_set1_ps(KMATH_EXP_MAX), x);
    x = _mm512_max_ps(_mm512_set1_ps(KMATH_EXP_MIN), x);
    half = simd512_reduce(x, &r);
    p = simd512_horner(_mm512_set1_ps(2 * KMATH_EXP_C6), r, 2 * KMATH_EXP_C5);
    p = simd512_horner(p, r, 2 * KMATH_EXP_C4);
    p = simd512_horner(p, r, 2 * KMATH_EXP_C3);
    p = simd512_horner(p, r, 2 * KMATH_EXP_C2);
    p = simd512_horner(p, r, 2.0f);
    p = simd512_horner(p, r, 2.0f);
    return _mm512_mul_ps(p, half);
}

/* Computes kmath_exp2() on 16 lanes. NaN converts to the integer 2^31, which is 0 after the shift. */
SIMD512_INLINE __m512 simd512_exp2(__m512 x)
{
    __m512i n;
    __m512 p, r;

    x = _mm512_max_ps(_mm512_set1_ps(KMATH_EXP2_MIN), x);
    n = _mm512_cvtps_epi32(x);
    r = _mm512_sub_ps(x, _mm512_cvtepi32_ps(n));
    p = simd512_horner(_mm512_set1_ps(KMATH_EXP2_D5), r, KMATH_EXP2_D4);
    p = simd512_horner(p, r, KMATH_EXP2_D3);
    p = simd512_horner(p, r, KMATH_EXP2_D2);
    p = simd512_horner(p, r, KMATH_EXP2_D1);
    p = simd512_horner(p, r, 1.0f);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(n, 23)));
}

/* Computes kmath_tanh() on 16 lanes. */
SIMD512_INLINE __m512 simd512_tanh(__m512 x)
{
    __m512 z = simd512_abs(x), s, q, e, p, r;

    z = _mm512_add_ps(z, z);
    z = _mm512_min_ps(_mm512_set1_ps(KMATH_TANH_MAX), z);
    s = simd512_reduce(z, &r);
    s = _mm512_add_ps(s, s);
    p = simd512_horner(_mm512_set1_ps(KMATH_EXP_C6), r, KMATH_EXP_C5);
    p = simd512_horner(p, r, KMATH_EXP_C4);
    p = simd512_horner(p, r, KMATH_EXP_C3);
    p = simd512_horner(p, r, KMATH_EXP_C2);
    q = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
    e = _mm512_fmadd_ps(s, q, _mm512_sub_ps(s, _mm512_set1_ps(1.0f)));
    return simd512_copysign(_mm512_div_ps(e, _mm512_add_ps(e, _mm512_set1_ps(2.0f))), x);
}

/* Computes kmath_erf() on 16 lanes. */
SIMD512_INLINE __m512 simd512_erf(__m512 x)
{
    __m512 a = _mm512_min_ps(_mm512_set1_ps(KMATH_ERF_MAX), simd512_abs(x));
    __m512 z = _mm512_mul_ps(a, a), near, far;

    near = simd512_horner(_mm512_set1_ps(KMATH_ERF_S5), z, KMATH_ERF_S4);
    near = simd512_horner(near, z, KMATH_ERF_S3);
    near = simd512_horner(near, z, KMATH_ERF_S2);
    near = simd512_horner(near, z, KMATH_ERF_S1);
    near = simd512_horner(near, z, KMATH_ERF_S0);
    near = _mm512_mul_ps(near, a);
    far = simd512_horner(_mm512_set1_ps(KMATH_ERF_L5), a, KMATH_ERF_L4);
    far = simd512_horner(far, a, KMATH_ERF_L3);
    far = simd512_horner(far, a, KMATH_ERF_L2);
    far = simd512_horner(far, a, KMATH_ERF_L1);
    far = simd512_horner(far, a, KMATH_ERF_L0);
    far = _mm512_sub_ps(_mm512_set1_ps(1.0f), simd512_exp(far));
    return simd512_copysign(
        _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, _mm512_set1_ps(KMATH_ERF_SPLIT), _CMP_LT_OQ), far, near),
        x);
}

/* Returns x / (1 + exp(y)), the form of three of the activations. */
SIMD512_INLINE __m512 simd512_gate(__m512 x, __m512 y)
{
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), simd512_exp(y)));
}

/* Computes kmath_act() on 16 lanes. F is the same for all lanes, and a constant where speed matters. */
SIMD512_INLINE __m512 simd512_act(__m512 x, enum kern_act f)
{
    __m512 t;

    switch (f) {
    case KERN_SILU:
        return simd512_gate(x, _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x),
                                                                    _mm512_set1_epi32((int)0x80000000u))));
    case KERN_GELU_TANH:
        t = _mm512_mul_ps(_mm512_set1_ps(KMATH_GELU_CUBIC), _mm512_mul_ps(x, x));
        t = _mm512_fmadd_ps(t, x, x);
        return simd512_gate(x, _mm512_mul_ps(_mm512_set1_ps(KMATH_GELU_TANH), t));
    case KERN_GELU_ERF:
        t = _mm512_mul_ps(_mm512_set1_ps(0.5f), x);
        return _mm512_fmadd_ps(t, simd512_erf(_mm512_mul_ps(x, _mm512_set1_ps(KMATH_SQRT_HALF))), t);
    case KERN_GELU_QUICK: return simd512_gate(x, _mm512_mul_ps(_mm512_set1_ps(KMATH_GELU_QUICK), x));
    case KERN_RELU: return _mm512_max_ps(_mm512_setzero_ps(), x);
    case KERN_N_ACTS: break;
    }
    return x;
}

#endif
