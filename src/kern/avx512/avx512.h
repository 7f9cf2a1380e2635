/* avx512.h - declares the 512-bit kernels.
 *
 * The kernels of this folder are avx512_<function> for the functions of functions.def in the classes "fp32" and
 * "bf16" (bf16 operands are widened), equal to ref/ bit for bit. They need AVX-512 F, BW, DQ and VL.
 *
 * The kernels of the folders beside it are declared here, too: avx512bf16/ (class "bf16 dot"), avx512vnni/
 * (classes "int8 sum" and "int8 dot") and amx/ (classes "bf16 tile dot" and "int8 sum"). None of these
 * folders has a to_bf16, because VCVTNEPS2BF16 turns subnormals into zeros and to_bf16 keeps them.
 */
#ifndef GALLOP_KERN_AVX512_AVX512_H
#define GALLOP_KERN_AVX512_AVX512_H

#include "kern/attention.h"
#include "kern/functions.def"
#include "kern/quant.h"

#if defined(KERN_EMULATE_AVX512) && !defined(KERN_EMULATE_ALL)
#define AVX512_NAME(x) emu_##x
#else
#define AVX512_NAME(x) x
#endif
#define AVX512_DECLARE(name) kern_##name##_fn AVX512_NAME(avx512_##name);
KERN_FUNCTIONS(AVX512_DECLARE)
#undef AVX512_DECLARE

kern_gemm_in_bf16_fn AVX512_NAME(avx512bf16_gemm_in_bf16), AVX512_NAME(amx_gemm_in_bf16);
kern_gemm_bf16_fn AVX512_NAME(avx512bf16_gemm_bf16), AVX512_NAME(amx_gemm_bf16);
kern_gemm_mx4_bf16_fn AVX512_NAME(avx512bf16_gemm_mx4_bf16), AVX512_NAME(amx_gemm_mx4_bf16);
kern_attn_bf16_fn AVX512_NAME(avx512bf16_attn_bf16), AVX512_NAME(amx_attn_bf16);
kern_attn_i8_fn AVX512_NAME(avx512vnni_attn_i8);
kern_attn_i4_fn AVX512_NAME(avx512vnni_attn_i4);
kern_gemm_in_i8_fn AVX512_NAME(avx512vnni_gemm_in_i8), AVX512_NAME(amx_gemm_in_i8);
kern_gemm_i8_fn AVX512_NAME(avx512vnni_gemm_i8), AVX512_NAME(amx_gemm_i8);
kern_gemm_i4_fn AVX512_NAME(avx512vnni_gemm_i4), AVX512_NAME(amx_gemm_i4);
kern_gemm_in_blocks_fn AVX512_NAME(avx512vnni_gemm_in_blocks), AVX512_NAME(amx_gemm_in_blocks);
kern_gemm_blocks_fn AVX512_NAME(avx512vnni_gemm_blocks), AVX512_NAME(amx_gemm_blocks);

/* Computes gemm_i4 of 1 to AVX512_ROWS rows with several panels at once, for Intel's cores, which read memory
 * faster in several streams (AMD's cores in one). */
void AVX512_NAME(avx512vnni_i4_at_once)(const struct kern_gemm *g, size_t group, size_t p0, size_t p1);

/* Expands N units of panel P of a gemm_i4, from unit FROM on, to TO, in the layout that gemm_i8 reads. For
 * each line that it reads, it prefetches the line AHEAD bytes further on, unless AHEAD is 0. */
void AVX512_NAME(avx512vnni_i4_expand)(const struct kern_gemm *g, size_t group, size_t p, size_t from,
                                       size_t n, size_t ahead, char *to);

/* Expands the whole panel P of a gemm_i4 to PANEL without prefetching. */
void AVX512_NAME(avx512vnni_i4_panel)(const struct kern_gemm *g, size_t group, size_t p, void *panel);

/* Computes gemm_blocks of 1 to GROUPS_FEW rows with several panels at once: several streams from memory. */
void AVX512_NAME(avx512vnni_groups_at_once)(const struct kern_gemm *g, enum dtype t, size_t p0, size_t p1);

#endif
