/* peak.h - loops that measure the limits of the machine: arithmetic on registers alone, and reading alone.
 *
 * They lie in the folders of the instruction sets because they need their instructions; roof.c turns the
 * results into rates. They are not kernels: no model needs them and their arithmetic has no order
 * to keep.
 */
#ifndef GALLOP_KERN_PEAK_H
#define GALLOP_KERN_PEAK_H

#include <stddef.h>
#include <stdint.h>

/* Runs N iterations of a loop. Returns the number of operations, of which a multiply-add counts two. */
typedef double peak_loop(size_t n);

/* Reads [p, p + bytes), which is aligned to 64 bytes and a multiple of 1024 bytes long. The result only
 * keeps the compiler from removing the loop. */
typedef uint64_t peak_reader(const void *p, size_t bytes);

struct peak {
    peak_loop *fma;  /* fp32 */
    peak_loop *dot;  /* bf16 pairs into fp32; NULL: the machine has no such instruction */
    peak_loop *dot8; /* int8 quadruples into int32; NULL: the machine has no such instruction */
    peak_reader *read;
};

/* Returns in P the widest loops that this machine can run. */
void peak_best(struct peak *p);

peak_loop ref_peak_fma, avx2_peak_fma, avx512_peak_fma, avx512bf16_peak_dot, avx512vnni_peak_dot8,
    amx_peak_dot, amx_peak_dot8;
peak_reader ref_peak_read, avx2_peak_read, avx512_peak_read;

#ifdef KERN_EMULATE_AVX512
peak_loop emu_avx512_peak_fma, emu_avx512bf16_peak_dot, emu_avx512vnni_peak_dot8, emu_amx_peak_dot,
    emu_amx_peak_dot8;
peak_reader emu_avx512_peak_read;
#endif

#endif
