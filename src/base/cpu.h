/* cpu.h - which instruction sets this process may use: CPUID and what the operating system saves (XGETBV). */
#ifndef GALLOP_BASE_CPU_H
#define GALLOP_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* Levels of kernels, each containing the ones below. */
enum cpu_isa { CPU_REF, CPU_AVX2, CPU_AVX512, CPU_AVX512VNNI, CPU_AVX512BF16, CPU_AMX, CPU_N_ISAS };

/* What the choice of a level rests on. */
struct cpu_facts {
    bool has[CPU_N_ISAS];
    bool intel, avx512fp16;
    bool amd;
    unsigned family; /* with its extension: 0x19 is Zen 3 and Zen 4, 0x1a Zen 5 */
};

/* The level whose rows are fastest: the highest there is, but not CPU_AVX512BF16 on Intel's cores with
 * AVX512-FP16 (Sapphire Rapids and later), where VDPBF16PS does half as many operations a second as FMA.
 * Known from CPUID and never timed, so that one machine always computes the same bits. */
enum cpu_isa cpu_fastest(const struct cpu_facts *f);

/* Whether lines are asked for ahead into level 2 only. On Zen 4 (AMD family 19h with AVX-512) a prefetch into
 * level 1 holds one of few places for misses until memory answers: loops that ask for every line of a stream
 * wait for places. Zen 5 and Intel are faster when they ask into level 1. */
bool cpu_asks_level2(const struct cpu_facts *f);

/* The machine and its operating system can run it. CPU_AMX: Linux lets a process use the registers of tiles
 * when it asks, which the first call of any function here does. */
bool cpu_has(enum cpu_isa isa);
enum cpu_isa cpu_best(void); /* cpu_fastest() of this machine; higher ones that cpu_has() run, too */
bool cpu_level2_ahead(void); /* cpu_asks_level2() of this machine */
const char *cpu_isa_name(enum cpu_isa isa); /* "ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx" */
bool cpu_isa_of_name(const char *s, enum cpu_isa *isa);
const char *cpu_model(void); /* brand string, for benchmarks; "unknown" elsewhere */

/* Bytes of the level 1 data, level 2 and level 3 caches of this core; sensible defaults where unknown. */
size_t cpu_cache_bytes(int level);

#endif
