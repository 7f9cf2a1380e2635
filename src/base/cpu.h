/* cpu.h - which instruction sets this process may use: CPUID and what the operating system saves (XGETBV). */
#ifndef GALLOP_BASE_CPU_H
#define GALLOP_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* Levels of kernels. Each level includes those before it. */
enum cpu_isa { CPU_REF, CPU_AVX2, CPU_AVX512, CPU_AVX512VNNI, CPU_AVX512BF16, CPU_AMX, CPU_N_ISAS };

/* The facts that decide which level is fastest. */
struct cpu_facts {
    bool has[CPU_N_ISAS];
    bool intel, avx512fp16;
    bool amd;
    unsigned family; /* with its extension: 0x19 is Zen 3 and Zen 4, 0x1a is Zen 5 */
};

/* The fastest level: the highest one, but not CPU_AVX512BF16 on Intel cores with AVX512-FP16 (Sapphire Rapids
 * and later), where VDPBF16PS does half as many operations per second as FMA. Decided from CPUID and never by
 * timing, so that a machine always computes the same bits. */
enum cpu_isa cpu_fastest(const struct cpu_facts *f);

/* Whether kernels prefetch into the level 2 cache only. On Zen 4 (AMD family 19h with AVX-512) a prefetch
 * into level 1 occupies one of few miss buffers until memory answers, so that loops which prefetch every line
 * stall. Zen 5 and Intel are faster with prefetches into level 1. */
bool cpu_asks_level2(const struct cpu_facts *f);

/* Whether the machine and its operating system can run ISA. Linux grants a process the tile registers of
 * CPU_AMX on request; the first call of any function here makes the request. */
bool cpu_has(enum cpu_isa isa);
/* cpu_fastest() of this machine; higher levels for which cpu_has() is true work, too */
enum cpu_isa cpu_best(void);
bool cpu_level2_ahead(void);                /* cpu_asks_level2() of this machine */
const char *cpu_isa_name(enum cpu_isa isa); /* "ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx" */
bool cpu_isa_of_name(const char *s, enum cpu_isa *isa);
/* The brand string, for benchmarks; "unknown" if there is none. */
const char *cpu_model(void);

/* Bytes of the level 1 data, level 2 or level 3 cache of this core; a usual size if that is unknown. */
size_t cpu_cache_bytes(int level);

#endif
