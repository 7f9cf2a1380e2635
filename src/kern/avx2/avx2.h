/* avx2.h - declares the kernels for AVX2, FMA and F16C (x86-64-v3): avx2_NAME for every function NAME of
 * functions.def.
 *
 * Every kernel gives the bits of its ref kernel. The files of this folder are compiled with -mavx2 -mfma
 * -mf16c -mbmi2; callers check cpu_has(CPU_AVX2) first.
 */
#ifndef GALLOP_KERN_AVX2_AVX2_H
#define GALLOP_KERN_AVX2_AVX2_H

#include "kern/attention.h"
#include "kern/functions.def"
#include "kern/quant.h"

#define AVX2_DECLARE(name) kern_##name##_fn avx2_##name;
KERN_FUNCTIONS(AVX2_DECLARE)
#undef AVX2_DECLARE

/* Unrolls the next loop, whose bounds are constants, completely, so that its arrays become registers. */
#ifdef __clang__
#define AVX2_UNROLL _Pragma("unroll")
#else
#define AVX2_UNROLL _Pragma("GCC unroll 16")
#endif

#define AVX2_INLINE static inline __attribute__((always_inline))

/* The gemm loops for few and for many rows of A. avx2_few_*() take at most AVX2_FEW_MOST_* rows: with so few,
 * as in decoding, the time goes into reading B from memory. With more rows avx2_many_*() are faster. */
enum { AVX2_FEW_MOST_F32 = 6, AVX2_FEW_MOST_BF16 = 4 };
void avx2_few_f32(const struct kern_gemm *g, size_t p0, size_t p1);
void avx2_few_bf16(const struct kern_gemm *g, size_t p0, size_t p1);
void avx2_many_f32(const struct kern_gemm *g, size_t p0, size_t p1);
void avx2_many_bf16(const struct kern_gemm *g, size_t p0, size_t p1);

enum { AVX2_GEMM_LINE = 16 }; /* floats of each row that are stored side by side in the input of a gemm */

/* Sets SUMS [rows][32], the accumulators of panel P for the ROWS rows from FIRST on, to zeros, or if g->onto
 * to the content of C. */
void avx2_gemm_begin(const struct kern_gemm *g, size_t p, size_t first, size_t rows, float *sums);

/* Computes the epilogue of G for SUMS [rows][32], the finished sums of panel P for the ROWS rows from FIRST
 * on: adds the bias, applies the activation, and stores the result in C or in the input of the next gemm. */
void avx2_gemm_end(const struct kern_gemm *g, size_t p, size_t first, size_t rows, const float *sums,
                   bool bf16);

#endif
