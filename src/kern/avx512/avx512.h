/* avx512.h - the rows of this folder: avx512_<function> for every function of kern.h, in the classes fp32 and
 * bf16 (bf16 operands are widened), equal to ref/ bit for bit. The machine must have AVX-512 F, BW, DQ and
 * VL.
 */
#ifndef GALLOP_KERN_AVX512_AVX512_H
#define GALLOP_KERN_AVX512_AVX512_H

#include "kern/kern.h"

#ifdef KERN_EMULATE_AVX512
#define AVX512_DECLARE(name, ret, params) ret emu_avx512_##name params;
#else
#define AVX512_DECLARE(name, ret, params) ret avx512_##name params;
#endif
KERN_FUNCTIONS(AVX512_DECLARE)
#undef AVX512_DECLARE

#endif
