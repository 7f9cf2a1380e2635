/* rows.c - see rows.h. */
#include "rows.h"

#ifdef KERN_HAVE_EMULATED_AVX512
#define DECLARE_ref(fn)
#define DECLARE_avx2(fn)
#define DECLARE_avx512(fn)           extern kern_##fn##_fn emu_avx512_##fn;
#define DECLARE_avx512vnni(fn)       extern kern_##fn##_fn emu_avx512vnni_##fn;
#define DECLARE_avx512bf16(fn)       extern kern_##fn##_fn emu_avx512bf16_##fn;
#define DECLARE_amx(fn)              extern kern_##fn##_fn emu_amx_##fn;
#define KERN(fn, rows, level, class) DECLARE_##rows(fn)
#include "kern/kern.def"
#undef KERN

#define SET_ref(fn)
#define SET_avx2(fn)
#define SET_avx512(fn)     \
    if (isa == CPU_AVX512) \
        k->fn = emu_avx512_##fn;
#define SET_avx512vnni(fn)     \
    if (isa == CPU_AVX512VNNI) \
        k->fn = emu_avx512vnni_##fn;
#define SET_avx512bf16(fn)     \
    if (isa == CPU_AVX512BF16) \
        k->fn = emu_avx512bf16_##fn;
#define SET_amx(fn)     \
    if (isa == CPU_AMX) \
        k->fn = emu_amx_##fn;

static const char *const emulated[CPU_N_ISAS] = {[CPU_AVX512] = "emulated avx512",
                                                 [CPU_AVX512VNNI] = "emulated avx512vnni",
                                                 [CPU_AVX512BF16] = "emulated avx512bf16",
                                                 [CPU_AMX] = "emulated amx"};

static void set_emulated(struct kern *k, enum cpu_isa isa)
{
#define KERN(fn, rows, level, class) SET_##rows(fn)
#include "kern/kern.def"
#undef KERN
}
#endif

static void set_classes(struct rows *r, enum cpu_isa isa)
{
#define KERN(fn, rows, level, name) \
    if (level == isa)               \
        r->class[KERN_FN_##fn] = name;
#include "kern/kern.def"
#undef KERN
}

size_t rows_list(struct rows list[ROWS_MAX])
{
    size_t n = 0;

    memset(list, 0, ROWS_MAX * sizeof *list);
    for (enum cpu_isa isa = CPU_REF; isa < CPU_N_ISAS; isa++) {
        if (!cpu_has(isa) || !kern_rows(isa, &list[n].k))
            continue;
        list[n].name = cpu_isa_name(isa);
        set_classes(&list[n++], isa);
    }
#ifdef KERN_HAVE_EMULATED_AVX512
    for (enum cpu_isa isa = CPU_AVX512; isa <= CPU_AMX; isa++) {
        list[n].name = emulated[isa];
        list[n].emulated = true;
        set_emulated(&list[n].k, isa);
        set_classes(&list[n++], isa);
    }
#endif
    return n;
}

bool rows_equal_ref(const struct rows *r, enum kern_fn f)
{
    return r->class[f] && !strstr(r->class[f], " dot");
}

float *lent_sums(void)
{
    static float sums[KERN_PANELS * KERN_TOGETHER * KERN_NR] __attribute__((aligned(64)));

    memset(sums, 0xff, sizeof(sums));
    return sums;
}
