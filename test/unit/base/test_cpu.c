/* test_cpu.c - instruction set levels against what the compiler's own probe says, caches, names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"

static void a_level_contains_those_below(void **state)
{
    (void)state;
    assert_true(cpu_has(CPU_REF));
    for (enum cpu_isa i = CPU_AVX2; i < CPU_N_ISAS; i++)
        if (cpu_has(i))
            assert_true(cpu_has((enum cpu_isa)(i - 1)));
    assert_true(cpu_has(cpu_best()));
    assert_false(cpu_has(CPU_N_ISAS));
}

static void levels_agree_with_the_compiler(void **state)
{
    (void)state;
#if defined(__x86_64__)
    bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

    assert_int_equal(cpu_has(CPU_AVX2), avx2);
    assert_int_equal(cpu_has(CPU_AVX512), avx512);
    assert_true(strcmp(cpu_model(), "unknown") != 0);
#else
    assert_int_equal(cpu_best(), CPU_REF);
#endif
    assert_true(cpu_model()[0] != ' ' && cpu_model()[0] != 0);
}

static void names_go_there_and_back(void **state)
{
    enum cpu_isa isa;

    (void)state;
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
    (void)state;
    assert_in_range(cpu_cache_bytes(1), 8 << 10, 1 << 20);
    assert_in_range(cpu_cache_bytes(2), 64 << 10, 64 << 20);
    assert_in_range(cpu_cache_bytes(3), 512 << 10, (size_t)4 << 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_contains_those_below),
        cmocka_unit_test(levels_agree_with_the_compiler),
        cmocka_unit_test(names_go_there_and_back),
        cmocka_unit_test(caches_have_believable_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
