/* avx512bf16.h - the rows of this folder: the kernels of the class "bf16 dot". The machine must have
 * AVX512-BF16.
 *
 * The rounding of to_bf16 is not here: VCVTNEPS2BF16 makes zeros of denormals, the other rows keep them.
 */
#ifndef GALLOP_KERN_AVX512BF16_AVX512BF16_H
#define GALLOP_KERN_AVX512BF16_AVX512BF16_H

#include "kern/kern.h"

#ifdef KERN_EMULATE_AVX512
void emu_avx512bf16_gemm_bf16(const struct kern_gemm *g, size_t p0, size_t p1);
void emu_avx512bf16_attn_bf16(const struct kern_attn *a);
#else
void avx512bf16_gemm_bf16(const struct kern_gemm *g, size_t p0, size_t p1);
void avx512bf16_attn_bf16(const struct kern_attn *a);
#endif

#endif
