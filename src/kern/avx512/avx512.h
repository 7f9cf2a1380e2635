/* avx512.h - the rows of this folder: avx512_<function> for the functions of kern.h in the classes fp32 and
 * bf16 (bf16 operands are widened), equal to ref/ bit for bit; gemms of integers are those of avx512vnni/.
 * The machine must have AVX-512 F, BW, DQ and VL.
 *
 * And the rows of the folders beside it: those of avx512bf16/ (class "bf16 dot"), avx512vnni/ (classes "int8
 * sum" and "int8 dot") and amx/ (class "bf16 tile dot", and "int8 sum"). There is no to_bf16 among them:
 * VCVTNEPS2BF16 makes zeros of denormals, the other rows keep them.
 */
#ifndef GALLOP_KERN_AVX512_AVX512_H
#define GALLOP_KERN_AVX512_AVX512_H

#include "kern/kern.h"

#ifdef KERN_EMULATE_AVX512
#define AVX512_NAME(x) emu_##x
#else
#define AVX512_NAME(x) x
#endif
#define AVX512_DECLARE(name, ret, params) ret AVX512_NAME(avx512_##name) params;
KERN_FUNCTIONS(AVX512_DECLARE)
#undef AVX512_DECLARE
void AVX512_NAME(avx512bf16_gemm_in_bf16)(void *in, const float *x, size_t row, size_t m, size_t k);
void AVX512_NAME(avx512bf16_gemm_bf16)(const struct kern_gemm *g, size_t p0, size_t p1);
void AVX512_NAME(avx512bf16_gemm_mx4_bf16)(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch);
void AVX512_NAME(avx512bf16_attn_bf16)(const struct kern_attn *a);
void AVX512_NAME(amx_gemm_in_bf16)(void *in, const float *x, size_t row, size_t m, size_t k);
void AVX512_NAME(amx_gemm_bf16)(const struct kern_gemm *g, size_t p0, size_t p1);
void AVX512_NAME(amx_gemm_mx4_bf16)(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch);
void AVX512_NAME(amx_attn_bf16)(const struct kern_attn *a);
void AVX512_NAME(amx_gemm_in_blocks)(void *in, const float *x, size_t row, size_t m, size_t k);
void AVX512_NAME(amx_gemm_blocks)(const struct kern_gemm *g, const struct blocks_form *f, size_t p0,
                                  size_t p1);
void AVX512_NAME(amx_gemm_in_i8)(void *in, const float *x, size_t row, size_t m, size_t k, float fixed);
void AVX512_NAME(amx_gemm_i8)(const struct kern_gemm *g, size_t p0, size_t p1);
void AVX512_NAME(amx_gemm_i4)(const struct kern_gemm *g, size_t group, size_t p0, size_t p1, void *scratch);
void AVX512_NAME(avx512vnni_gemm_in_i8)(void *in, const float *x, size_t row, size_t m, size_t k,
                                        float fixed);
void AVX512_NAME(avx512vnni_gemm_i8)(const struct kern_gemm *g, size_t p0, size_t p1);
void AVX512_NAME(avx512vnni_gemm_i4)(const struct kern_gemm *g, size_t group, size_t p0, size_t p1,
                                     void *scratch);
/* The same of 1 to AVX512_ROWS rows, several panels at once: Intel's memory gives a thread more in several
 * streams, AMD's in one. */
void AVX512_NAME(avx512vnni_i4_at_once)(const struct kern_gemm *g, size_t group, size_t p0, size_t p1);
/* N units of panel P of a gemm_i4 from FROM on to TO, as gemm_i8 reads them; of each
 * line the one AHEAD bytes behind it is asked for, unless AHEAD is 0. And the whole panel, asking for
 * nothing. */
void AVX512_NAME(avx512vnni_i4_expand)(const struct kern_gemm *g, size_t group, size_t p, size_t from,
                                       size_t n, size_t ahead, char *to);
void AVX512_NAME(avx512vnni_i4_panel)(const struct kern_gemm *g, size_t group, size_t p, void *panel);
void AVX512_NAME(avx512vnni_gemm_in_blocks)(void *in, const float *x, size_t row, size_t m, size_t k);
void AVX512_NAME(avx512vnni_gemm_blocks)(const struct kern_gemm *g, const struct blocks_form *f, size_t p0,
                                         size_t p1);
/* The same of 1 to BLOCKS_FEW rows, several panels at once. */
void AVX512_NAME(avx512vnni_blocks_at_once)(const struct kern_gemm *g, const struct blocks_form *f, size_t p0,
                                            size_t p1);
void AVX512_NAME(avx512vnni_attn_i8)(const struct kern_attn *a);
void AVX512_NAME(avx512vnni_attn_i4)(const struct kern_attn *a);

#endif
