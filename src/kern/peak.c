/* peak.c - picks the loops of peak.h by the instruction sets of the processor. */
#include "kern/peak.h"

#include "base/cpu.h"

void peak_best(struct peak *p)
{
    *p = (struct peak){.fma = ref_peak_fma, .read = ref_peak_read};
#if defined(__x86_64__)
    if (cpu_has(CPU_AVX2)) {
        p->fma = avx2_peak_fma;
        p->read = avx2_peak_read;
    }
    if (cpu_has(CPU_AVX512)) {
        p->fma = avx512_peak_fma;
        p->read = avx512_peak_read;
    }
    if (cpu_has(CPU_AVX512VNNI))
        p->dot8 = avx512vnni_peak_dot8;
    if (cpu_has(CPU_AVX512BF16))
        p->dot = avx512bf16_peak_dot;
    if (cpu_has(CPU_AMX)) {
        p->dot = amx_peak_dot;
        p->dot8 = amx_peak_dot8;
    }
#endif
}
