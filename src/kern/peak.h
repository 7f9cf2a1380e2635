/* peak.h - loops that measure the limits of the machine: arithmetic on registers alone, and reading alone.
 *
 * The loops are in the folders of the instruction sets because they use their instructions; roof.c turns the
 * results into rates. The loops are not kernels: no model calls them, and the order of arithmetic is free.
 */
#ifndef GALLOP_KERN_PEAK_H
#define GALLOP_KERN_PEAK_H

#include <stddef.h>
#include <stdint.h>

/* Runs N iterations of an arithmetic loop. Returns the number of operations; a multiply-add counts as two. */
typedef double peak_loop(size_t n);

/* Reads [p, p + bytes), which is aligned to 64 bytes and whose length is a multiple of 1024. Callers ignore
 * the value of the result; it keeps the compiler from removing the loop. */
typedef uint64_t peak_reader(const void *p, size_t bytes);

/* The widest loops that a machine can run. */
struct peak {
    peak_loop *fma; /* fp32 */
    peak_loop *dot; /* dot products of bf16 pairs into fp32; NULL: the processor has no such instruction */
    peak_loop
        *dot8; /* dot products of int8 quadruples into int32; NULL: the processor has no such instruction */
    peak_reader *read;
};

/* Sets P to the widest loops that this machine can run. */
void peak_best(struct peak *p);

peak_loop ref_peak_fma, avx2_peak_fma, avx512_peak_fma, avx512bf16_peak_dot, avx512vnni_peak_dot8,
    amx_peak_dot, amx_peak_dot8;
peak_reader ref_peak_read, avx2_peak_read, avx512_peak_read;

#if defined(KERN_EMULATE_AVX512) && !defined(KERN_EMULATE_ALL)
peak_loop emu_avx512_peak_fma, emu_avx512bf16_peak_dot, emu_avx512vnni_peak_dot8, emu_amx_peak_dot,
    emu_amx_peak_dot8;
peak_reader emu_avx512_peak_read;
#endif

#endif
