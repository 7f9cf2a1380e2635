/* test_cpu.c - instruction set levels against the compiler's own probe, the sizes of caches, and names. */

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/cpu.h"

static void a_level_contains_those_below(void **state)
{
    assert_true(cpu_has(CPU_REF));
    for (enum cpu_isa i = CPU_AVX2; i < CPU_N_ISAS; i++)
        if (cpu_has(i))
            assert_true(cpu_has((enum cpu_isa)(i - 1)));
    assert_true(cpu_has(cpu_best()));
    assert_false(cpu_has(CPU_N_ISAS));
}

static void levels_agree_with_the_compiler(void **state)
{
#if defined(__x86_64__)
    bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

    assert_int_equal(cpu_has(CPU_AVX2), avx2);
    assert_int_equal(cpu_has(CPU_AVX512), avx512);
    avx512 = avx512 && __builtin_cpu_supports("avx512vnni");
    assert_int_equal(cpu_has(CPU_AVX512VNNI), avx512);
    avx512 = avx512 && __builtin_cpu_supports("avx512bf16");
    assert_int_equal(cpu_has(CPU_AVX512BF16), avx512);
    assert_true(!cpu_has(CPU_AMX) || avx512); /* Linux may refuse what the processor has. */
    assert_true(strcmp(cpu_model(), "unknown") != 0);
#else
    assert_int_equal(cpu_best(), CPU_REF);
#endif
    assert_true(cpu_model()[0] != ' ' && cpu_model()[0] != 0);
}

/* Returns a processor that has the levels up to TOP. */
static struct cpu_facts facts(enum cpu_isa top, bool intel, bool avx512fp16)
{
    struct cpu_facts f = {.intel = intel, .avx512fp16 = avx512fp16};

    for (enum cpu_isa i = CPU_REF; i <= top; i++)
        f.has[i] = true;
    return f;
}

static void bf16_dots_are_taken_where_they_are_slower_or_left_where_they_are_faster(void **state)
{
    for (enum cpu_isa top = CPU_REF; top < CPU_N_ISAS; top++)
        for (int fp16 = 0; fp16 < 2; fp16++)
            for (int intel = 0; intel < 2; intel++) {
                struct cpu_facts f = facts(top, intel, fp16);
                bool slow = top == CPU_AVX512BF16 && intel && fp16; /* unless there is AMX */

                assert_int_equal(cpu_fastest(&f), slow ? CPU_AVX512VNNI : top);
            }
}

static void the_choice_for_this_machine_rests_on_its_own_facts(void **state)
{
#if defined(__x86_64__)
    unsigned a, b, c, d = 0;
    bool fp16 = __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 23 & 1;
    enum cpu_isa top = CPU_REF;
    struct cpu_facts f;

    while (top + 1 < CPU_N_ISAS && cpu_has((enum cpu_isa)(top + 1)))
        top++;
    f = facts(top, __builtin_cpu_is("intel"), fp16);
    assert_int_equal(cpu_best(), cpu_fastest(&f));
#endif
}

static void lines_are_asked_into_the_wrong_level(void **state)
{
    for (enum cpu_isa top = CPU_REF; top < CPU_N_ISAS; top++)
        for (unsigned family = 0x17; family <= 0x1b; family++)
            for (int amd = 0; amd < 2; amd++) {
                struct cpu_facts f = facts(top, !amd, false);

                f.amd = amd;
                f.family = family;
                assert_int_equal(cpu_asks_level2(&f), amd && family == 0x19 && top >= CPU_AVX512);
            }
#if defined(__x86_64__)
    assert_int_equal(cpu_prefetches_to_l2(), __builtin_cpu_is("amdfam19h") && cpu_has(CPU_AVX512));
#endif
}

static void names_go_there_and_back(void **state)
{
    enum cpu_isa isa;

    for (enum cpu_isa i = CPU_REF; i < CPU_N_ISAS; i++) {
        assert_true(cpu_isa_of_name(cpu_isa_name(i), &isa));
        assert_int_equal(isa, i);
    }
    assert_false(cpu_isa_of_name("avx", &isa));
    assert_false(cpu_isa_of_name("", &isa));
    assert_false(cpu_isa_of_name("AVX2", &isa));
}

static void caches_have_believable_sizes(void **state)
{
    assert_in_range(cpu_cache_bytes(1), 8 << 10, 1 << 20);
    assert_in_range(cpu_cache_bytes(2), 64 << 10, 64 << 20);
    assert_in_range(cpu_cache_bytes(3), 512 << 10, (size_t)4 << 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_contains_those_below),
        cmocka_unit_test(levels_agree_with_the_compiler),
        cmocka_unit_test(bf16_dots_are_taken_where_they_are_slower_or_left_where_they_are_faster),
        cmocka_unit_test(the_choice_for_this_machine_rests_on_its_own_facts),
        cmocka_unit_test(lines_are_asked_into_the_wrong_level),
        cmocka_unit_test(names_go_there_and_back),
        cmocka_unit_test(caches_have_believable_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
