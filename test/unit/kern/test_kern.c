/* test_kern.c - the kernel table: every function has a kernel, the level is respected, and the names are
 * right. */
#include "kern/kern.h"

#define COUNT(name) +1
enum { N = 0 KERN_FUNCTIONS(COUNT) };

static bool is_complete(const struct kern *k)
{
#define MISSING(name) || !k->name
    return !(0 KERN_FUNCTIONS(MISSING));
#undef MISSING
}

static void ref_has_a_row_for_every_function(void **state)
{
    struct kern k;

    assert_true(kern_rows(CPU_REF, &k));
    assert_true(is_complete(&k));
}

static void the_cap_is_kept_and_nothing_is_empty(void **state)
{
    for (enum cpu_isa cap = CPU_REF; cap < CPU_N_ISAS; cap++) {
        const struct kern *k = kern_table(cap);

        assert_true(is_complete(k));
        for (int f = 0; f < N; f++) {
            assert_true(kern_isa(k, (enum kern_fn)f) <= cap);
            assert_true(cpu_has(kern_isa(k, (enum kern_fn)f)));
        }
    }
}

static void the_best_row_that_runs_is_chosen(void **state)
{
    struct kern k;

    for (enum cpu_isa cap = CPU_REF; cap < CPU_N_ISAS; cap++) {
        for (enum cpu_isa isa = CPU_REF; isa <= cap; isa++) {
            if (!cpu_has(isa) || !kern_rows(isa, &k))
                continue;
#define NOT_BELOW(name) assert_true(!k.name || kern_isa(kern_table(cap), KERN_FN_##name) >= isa);
            KERN_FUNCTIONS(NOT_BELOW)
#undef NOT_BELOW
        }
    }
}

static void the_table_holds_the_row_it_says(void **state)
{
    const struct kern *best = kern_table(CPU_N_ISAS - 1);
    struct kern k;

#define SAME(name)                                              \
    assert_true(kern_rows(kern_isa(best, KERN_FN_##name), &k)); \
    assert_true(best->name == k.name);
    KERN_FUNCTIONS(SAME)
#undef SAME
}

static void a_level_keeps_its_table_when_another_is_asked_for(void **state)
{
    const struct kern *ref = kern_table(CPU_REF), was = *ref;

    for (enum cpu_isa cap = CPU_REF; cap < CPU_N_ISAS; cap++)
        assert_true(kern_table(cap) == kern_table(cap) && (cap == CPU_REF || kern_table(cap) != ref));
    assert_true(kern_table(CPU_REF) == ref);
    assert_memory_equal(ref, &was, sizeof was);
}

static void names_and_classes_are_those_of_the_contract(void **state)
{
    const struct kern *ref = kern_table(CPU_REF), *best = kern_table(CPU_N_ISAS - 1);

    assert_string_equal(kern_name(KERN_FN_gemm_f32), "gemm_f32");
    assert_string_equal(kern_name(KERN_FN_exp_sum), "exp_sum");
    assert_string_equal(kern_class(ref, KERN_FN_gemm_f32), "fp32");
    assert_string_equal(kern_class(ref, KERN_FN_gemm_bf16), "bf16");
    assert_string_equal(kern_class(best, KERN_FN_gemm_bf16), cpu_has(CPU_AMX)          ? "bf16 tile dot"
                                                             : cpu_has(CPU_AVX512BF16) ? "bf16 dot"
                                                                                       : "bf16");
    assert_string_equal(kern_class(best, KERN_FN_attn_i8), cpu_has(CPU_AVX512VNNI) ? "int8 dot" : "fp32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_has_a_row_for_every_function),
        cmocka_unit_test(the_cap_is_kept_and_nothing_is_empty),
        cmocka_unit_test(the_best_row_that_runs_is_chosen),
        cmocka_unit_test(the_table_holds_the_row_it_says),
        cmocka_unit_test(a_level_keeps_its_table_when_another_is_asked_for),
        cmocka_unit_test(names_and_classes_are_those_of_the_contract),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
