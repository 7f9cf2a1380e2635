/* cpu.c - reads CPUID and XCR0 once and keeps the facts that follow from them.
 *
 * An instruction set is usable only if the operating system also saves its registers (XGETBV): AVX needs the
 * xmm and ymm state, AVX-512 also the opmask and zmm state. Processors other than x86-64 have only CPU_REF.
 * References: Intel SDM volume 2A (CPUID), volume 1 chapter 13 (XCR0).
 */
#include "base/cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/err.h"

enum { BRAND_BYTES = 48 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct cpu_facts facts;
static char model[BRAND_BYTES + 1];

static const char *const names[CPU_N_ISAS] = {"ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};

#if defined(__x86_64__)
enum {
    L1C_FMA = 1 << 12,
    L1C_OSXSAVE = 1 << 27,
    L1C_AVX = 1 << 28,
    L1C_F16C = 1 << 29,
    L7B_AVX2 = 1 << 5,
    L7B_BMI2 = 1 << 8,
    L7B_AVX512F = 1 << 16,
    L7B_AVX512DQ = 1 << 17,
    L7B_AVX512BW = 1 << 30,
    L7C_AVX512VNNI = 1 << 11,
    L7D_AMX_BF16 = 1 << 22,
    L7D_AVX512FP16 = 1 << 23,
    L7D_AMX_TILE = 1 << 24,
    L7D_AMX_INT8 = 1 << 25,
    L71A_AVX512BF16 = 1 << 5,
    XCR0_YMM = 0x06, /* xmm and ymm state */
    XCR0_ZMM = 0xe6, /* also opmask, upper halves of zmm0-15, zmm16-31 */
    XCR0_TILES = 3 << 17,
    /* arch_prctl(2) */
    REQUEST_STATE = 0x1023,
    STATE_TILES = 18,
};
#define L7B_AVX512VL (1u << 31)

static bool all(unsigned word, unsigned bits)
{
    return (word & bits) == bits;
}

static unsigned xcr0(void)
{
    unsigned lo, hi;

    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

static void probe_vendor(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;

    if (!__get_cpuid(0, &a, &b, &c, &d))
        return;
    facts.intel = b == signature_INTEL_ebx && d == signature_INTEL_edx && c == signature_INTEL_ecx;
    facts.amd = b == signature_AMD_ebx && d == signature_AMD_edx && c == signature_AMD_ecx;
    if (__get_cpuid(1, &a, &b, &c, &d))
        facts.family = (a >> 8 & 15) + ((a >> 8 & 15) == 15 ? a >> 20 & 255 : 0);
}

/* Requests the tile registers from Linux, which saves their 8 KB only for processes that request it. */
static bool may_use_tiles(void)
{
    return syscall(SYS_arch_prctl, REQUEST_STATE, STATE_TILES) == 0;
}

static void probe_isas(void)
{
    unsigned a, b, c, d, c1, b7, d7, max_sub, saved;
    bool *has = facts.has;

    if (!__get_cpuid(1, &a, &b, &c1, &d) || !all(c1, L1C_OSXSAVE))
        return;
    if (!__get_cpuid_count(7, 0, &max_sub, &b7, &c, &d7))
        return;
    saved = xcr0();
    has[CPU_AVX2] =
        all(c1, L1C_AVX | L1C_FMA | L1C_F16C) && all(b7, L7B_AVX2 | L7B_BMI2) && all(saved, XCR0_YMM);
    has[CPU_AVX512] = has[CPU_AVX2] && all(saved, XCR0_ZMM) &&
                      all(b7, L7B_AVX512F | L7B_AVX512DQ | L7B_AVX512BW | L7B_AVX512VL);
    has[CPU_AVX512VNNI] = has[CPU_AVX512] && all(c, L7C_AVX512VNNI);
    facts.avx512fp16 = has[CPU_AVX512] && all(d7, L7D_AVX512FP16);
    if (has[CPU_AVX512VNNI] && max_sub >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
        has[CPU_AVX512BF16] = all(a, L71A_AVX512BF16);
    has[CPU_AMX] = has[CPU_AVX512BF16] && all(d7, L7D_AMX_TILE | L7D_AMX_BF16 | L7D_AMX_INT8) &&
                   all(saved, XCR0_TILES) && may_use_tiles();
}

/* Reads the brand string from three CPUID leaves of 16 bytes, and strips the spaces around it. */
static void probe_model(void)
{
    unsigned word[BRAND_BYTES / 4], n;
    char text[BRAND_BYTES + 1] = {0};
    const char *s = text;

    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &word[4 * i], &word[4 * i + 1], &word[4 * i + 2], &word[4 * i + 3]))
            return;
    memcpy(text, word, BRAND_BYTES);
    while (*s == ' ')
        s++;
    n = (unsigned)strlen(s);
    while (n > 0 && s[n - 1] == ' ')
        n--;
    if (n > 0) {
        memcpy(model, s, n);
        model[n] = 0;
    }
}
#endif

static void probe(void)
{
    facts.has[CPU_REF] = true;
    memcpy(model, "unknown", sizeof "unknown");
#if defined(__x86_64__)
    probe_vendor();
    probe_isas();
#ifdef GALLOP_EMULATE
    for (enum cpu_isa i = CPU_REF; facts.has[CPU_AVX2] && i < CPU_N_ISAS; i++)
        facts.has[i] = true; /* the kernels are compiled for AVX2 (cmake/kernels.cmake) */
#endif
    probe_model();
#endif
}

bool cpu_has(enum cpu_isa isa)
{
    pthread_once(&once, probe);
    return isa < CPU_N_ISAS && facts.has[isa];
}

enum cpu_isa cpu_fastest(const struct cpu_facts *f)
{
    enum cpu_isa best = CPU_REF;

    for (enum cpu_isa i = CPU_REF; i < CPU_N_ISAS; i++)
        if (f->has[i] && !(i == CPU_AVX512BF16 && f->intel && f->avx512fp16))
            best = i;
    return best;
}

enum cpu_isa cpu_best(void)
{
    pthread_once(&once, probe);
    return cpu_fastest(&facts);
}

bool cpu_asks_level2(const struct cpu_facts *f)
{
    return f->amd && f->family == 0x19 && f->has[CPU_AVX512];
}

bool cpu_prefetches_to_l2(void)
{
    pthread_once(&once, probe);
    return cpu_asks_level2(&facts);
}

const char *cpu_isa_name(enum cpu_isa isa)
{
    ASSERT(isa < CPU_N_ISAS, "isa %d", (int)isa);
    return names[isa];
}

bool cpu_isa_of_name(const char *s, enum cpu_isa *isa)
{
    for (enum cpu_isa i = CPU_REF; i < CPU_N_ISAS; i++)
        if (strcmp(s, names[i]) == 0) {
            *isa = i;
            return true;
        }
    return false;
}

const char *cpu_model(void)
{
    pthread_once(&once, probe);
    return model;
}

/* Reads a word from the sysfs file NAME of cache I of processor 0. False: the file cannot be read. */
static bool read_cache(int i, const char *name, char word[32])
{
    char path[96];
    bool ok;
    FILE *f;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, name);
    if (!(f = fopen(path, "r")))
        return false;
    ok = fscanf(f, "%31s", word) == 1;
    fclose(f);
    return ok;
}

/* Returns the bytes of processor 0's data or unified cache of LEVEL according to sysfs; 0: unknown. */
static size_t sysfs_cache_bytes(int level)
{
    char word[32];

    for (int i = 0; i < 8 && read_cache(i, "level", word); i++) {
        size_t kib;

        if (atoi(word) == level && read_cache(i, "type", word) && strcmp(word, "Instruction") != 0 &&
            read_cache(i, "size", word) && sscanf(word, "%zuK", &kib) == 1 && kib > 0 &&
            kib < ((size_t)1 << 30))
            return kib * 1024;
    }
    return 0;
}

size_t cpu_cache_bytes(int level)
{
    static const size_t usual[] = {32 << 10, 512 << 10, 8 << 20};
    size_t n;
    long v;

    ASSERT(level >= 1 && level <= 3, "level %d", level);
    v = sysconf(level == 1   ? _SC_LEVEL1_DCACHE_SIZE
                : level == 2 ? _SC_LEVEL2_CACHE_SIZE
                             : _SC_LEVEL3_CACHE_SIZE);
    if (v > 0)
        return (size_t)v;
    n = sysfs_cache_bytes(level);
    return n > 0 ? n : usual[level - 1];
}
