/* test_roof.c - the roofs of the machine: a rate of one thread taken for that of all, a roof that depends on what the
 * clock says, or int8 judged by the roof of another type would make every share of a roof wrong. */
#include "base/cpu.h"
#include "base/err.h"
#include "base/threads/pool.h"
#include "kern/roof.h"

static void numbers_have_the_roof_of_their_type(void **state)
{
    struct roof r = {.fp32_flops = 10, .bf16_flops = 20, .int8_ops = 80};

    assert_true(roof_flops(&r, DT_F32) == 10 && roof_flops(&r, DT_BF16) == 20);
    assert_true(roof_flops(&r, DT_I8) == 80);
    r.int8_ops = 0;
    assert_true(roof_flops(&r, DT_I8) == 10);
}

static void a_roof_is_measured_on_all_threads_and_lies_between_others(void **state)
{
    struct roof_meter roofs;
    struct roof a, b;
    struct pool *pool;
    struct err e;

    assert_int_equal(pool_new(&pool, 2, &e), 0);
    assert_int_equal(roof_meter_open(&roofs, pool, &e), 0);
    roof_meter_measure(&roofs, 0.001, &a);
    roof_meter_close(&roofs);
    pool_free(pool);
    assert_true(a.fp32_flops > 0 && a.bf16_flops > 0 && a.dram_bytes > 0 && a.int8_ops >= 0);
    assert_true(a.bf16_native || a.bf16_flops == a.fp32_flops);
    assert_true(a.bf16_native == (cpu_best() >= CPU_AVX512BF16)); /* not what the clock says */
    b = a;
    b.dram_bytes = 3 * a.dram_bytes;
    b = roof_between(&a, &b);
    assert_true(b.dram_bytes == 2 * a.dram_bytes && b.bf16_flops == a.bf16_flops);
    assert_true(b.bf16_native == a.bf16_native);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_the_roof_of_their_type),
        cmocka_unit_test(a_roof_is_measured_on_all_threads_and_lies_between_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
