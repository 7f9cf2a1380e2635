/* cpu.h - which instruction sets this process may use: CPUID and what the operating system saves (XGETBV). */
#ifndef GALLOP_BASE_CPU_H
#define GALLOP_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* Levels of kernels, each containing the ones below. */
enum cpu_isa { CPU_REF, CPU_AVX2, CPU_AVX512, CPU_AVX512BF16, CPU_N_ISAS };

bool cpu_has(enum cpu_isa isa); /* the machine and its operating system can run it */
bool cpu_has_vnni(void);        /* CPU_AVX512 and the int8 dots of AVX512-VNNI; not a level by itself */
enum cpu_isa cpu_best(void);    /* the highest that cpu_has() */
const char *cpu_isa_name(enum cpu_isa isa); /* "ref", "avx2", "avx512", "avx512bf16" */
bool cpu_isa_of_name(const char *s, enum cpu_isa *isa);
const char *cpu_model(void); /* brand string, for benchmarks; "unknown" elsewhere */

/* Bytes of the level 1 data, level 2 and level 3 caches of this core; sensible defaults where unknown. */
size_t cpu_cache_bytes(int level);

#endif
