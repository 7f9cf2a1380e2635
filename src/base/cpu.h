/* cpu.h - the instruction sets that this process may use, by CPUID and the operating system (XGETBV). */
#ifndef GALLOP_BASE_CPU_H
#define GALLOP_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* Levels of kernels. Each level includes the levels before it. */
enum cpu_isa { CPU_REF, CPU_AVX2, CPU_AVX512, CPU_AVX512VNNI, CPU_AVX512BF16, CPU_AMX, CPU_N_ISAS };

/* The facts about a processor that decide which level is fastest. */
struct cpu_facts {
    bool has[CPU_N_ISAS];
    bool intel, avx512fp16;
    bool amd;
    unsigned family; /* including the extended family: 0x19 is Zen 3 and 4, 0x1a Zen 5 */
};

/* Returns the fastest level: the highest supported level, except CPU_AVX512BF16 on Intel cores with
 * AVX512-FP16 (Sapphire Rapids and later), where VDPBF16PS does half as many operations per second as FMA.
 * The choice follows from CPUID and not from timing, so that a machine always computes the same bits. */
enum cpu_isa cpu_fastest(const struct cpu_facts *f);

/* Returns whether kernels should prefetch into the level 2 cache only. On Zen 4 (AMD family 19h with AVX-512)
 * a prefetch into level 1 occupies one of few miss buffers until the line arrives, so that loops which
 * prefetch every line stall. Zen 5 and Intel are faster with prefetches into level 1. */
bool cpu_asks_level2(const struct cpu_facts *f);

/* Returns whether the processor and the operating system support ISA. Linux grants the tile registers of
 * CPU_AMX on request; the first call of any function of this file makes the request. */
bool cpu_has(enum cpu_isa isa);
/* Returns cpu_fastest() for this machine. The machine may also support higher levels (cpu_has()). */
enum cpu_isa cpu_best(void);
/* Returns cpu_asks_level2() for this machine: whether kernels should prefetch into level 2 only. */
bool cpu_prefetches_to_l2(void);
const char *cpu_isa_name(enum cpu_isa isa); /* "ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx" */
bool cpu_isa_of_name(const char *s, enum cpu_isa *isa);
/* Returns the processor's brand string, for benchmarks; "unknown" if it has none. */
const char *cpu_model(void);

/* Returns the bytes of the data cache of LEVEL (1 to 3); a typical size if the real size is unknown. */
size_t cpu_cache_bytes(int level);

#endif
