/* test_peak.c - the loops that measure the machine: a reader that skips memory, or a loop that counts
 * operations it does not do, would falsify every share that a benchmark prints. Time itself is not tested. */
#include "base/cpu.h"
#include "kern/peak.h"

enum { BYTES = 8192, LINE = 64 };

/* Returns true if READ notices a change in every line of a buffer. */
static bool reads_all(peak_reader *read)
{
    uint8_t *p = aligned_alloc(LINE, BYTES);
    uint64_t before;
    bool all = true;

    assert_non_null(p);
    for (size_t i = 0; i < BYTES; i++)
        p[i] = (uint8_t)(i * 7 + 1);
    before = read(p, BYTES);
    for (size_t i = 0; i < BYTES; i += LINE) {
        p[i + i / LINE % LINE] ^= 0x55;
        all = all && read(p, BYTES) != before;
        p[i + i / LINE % LINE] ^= 0x55;
    }
    free(p);
    return all;
}

static uint64_t read_half(const void *p, size_t bytes)
{
    return ref_peak_read(p, bytes / 2);
}

static void a_reader_skips_a_line(void **unused)
{
    struct peak best;

    peak_best(&best);
    assert_true(reads_all(best.read));
    assert_true(reads_all(ref_peak_read));
#if defined(__x86_64__)
    if (cpu_has(CPU_AVX2))
        assert_true(reads_all(avx2_peak_read));
#endif
}

static void reads_all_accepts_a_reader_of_half(void **unused)
{
    assert_false(reads_all(read_half));
}

static void operations_do_not_grow_with_the_turns(void **unused)
{
    struct peak best;

    peak_best(&best);
    assert_true(best.fma(1) > 0);
    assert_true(best.fma(1000) == 1000 * best.fma(1));
    assert_true(ref_peak_fma(1000) == 1000 * ref_peak_fma(1));
    assert_true(!best.dot == !cpu_has(CPU_AVX512BF16));
    assert_true(!best.dot8 == !cpu_has(CPU_AVX512VNNI));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_skips_a_line),
        cmocka_unit_test(reads_all_accepts_a_reader_of_half),
        cmocka_unit_test(operations_do_not_grow_with_the_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
