/* avx512vnni.h - the rows of this folder: the kernels of the class "int8 dot". The machine must have
 * AVX512-VNNI.
 */
#ifndef GALLOP_KERN_AVX512VNNI_AVX512VNNI_H
#define GALLOP_KERN_AVX512VNNI_AVX512VNNI_H

#include "kern/kern.h"

#ifdef KERN_EMULATE_AVX512
void emu_avx512vnni_attn_i8(const struct kern_attn *a);
#else
void avx512vnni_attn_i8(const struct kern_attn *a);
#endif

#endif
