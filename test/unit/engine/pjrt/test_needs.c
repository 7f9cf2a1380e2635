/* test_needs.c - a device without enough memory is refused with what fits. */
#include "engine/pjrt/needs.h"

static void memory_that_is_too_small_is_refused_with_what_fits(void **state)
{
    const size_t gib = (size_t)1 << 30;
    struct needs n = {.weight_bytes = 3 * gib,
                      .cache_bytes = 17 * (gib / 2),
                      .n_slots = 16,
                      .context = 8191,
                      .memory_bytes = 8 * gib,
                      .free_bytes = 7 * gib};
    struct err e = {0};

    assert_int_equal(needs_check(&n, &e), ERR_NOMEM);
    assert_string_equal(
        e.msg, "pjrt: weights need 3.00 GiB, and caches of 16 slots x 8191 rows 8.50 GiB, but the device has "
               "7.00 GiB free of 8.00 GiB; 7 slots (max_num_seqs) of 8191 rows fit, or 16 slots of 3854 rows "
               "(max_model_len)");
    /* What it names fits, and one slot or row more does not. */
    for (size_t more = 0; more <= 1; more++) {
        struct needs slots = n, rows = n;

        slots.n_slots = 7 + more;
        slots.cache_bytes = n.cache_bytes / 17 * (8 + more);
        rows.context = 3854 + more;
        rows.cache_bytes = n.cache_bytes / 8192 * (3855 + more);
        assert_int_equal(needs_check(&slots, &e) != 0, more);
        assert_int_equal(needs_check(&rows, &e) != 0, more);
    }
}

static void limits_are_exact(void **state)
{
    struct needs n = {.weight_bytes = 1000,
                      .cache_bytes = 3000,
                      .n_slots = 2,
                      .context = 9,
                      .memory_bytes = 5000,
                      .free_bytes = 4000};
    struct err e = {0};

    assert_int_equal(needs_check(&n, &e), 0);
    n.free_bytes--;
    assert_int_equal(needs_check(&n, &e), ERR_NOMEM);
    assert_non_null(strstr(e.msg, "; 1 slots (max_num_seqs) of 9 rows fit, or 2 slots of 8 rows"));
    n.free_bytes = 1001;
    assert_int_equal(needs_check(&n, &e), ERR_NOMEM);
    assert_non_null(strstr(e.msg, "; 0 slots (max_num_seqs) of 9 rows fit, or 2 slots of 0 rows"));
    n.free_bytes = 1000;
    assert_int_equal(needs_check(&n, &e), ERR_NOMEM);
    assert_non_null(strstr(e.msg, "too little for the weights alone"));
    n.memory_bytes = n.free_bytes = 0; /* the device does not tell */
    assert_int_equal(needs_check(&n, &e), 0);
}

static void an_error_of_the_device_tells_what_was_needed(void **state)
{
    const struct needs n = {.weight_bytes = 2048, .cache_bytes = 3 << 20, .n_slots = 2, .context = 9};
    struct err e = {.code = ERR_OS, .msg = "pjrt: copy to the device: out of memory"};

    needs_add(&n, &e);
    assert_int_equal(e.code, ERR_OS);
    assert_string_equal(e.msg,
                        "pjrt: copy to the device: out of memory; weights need 2.0 KiB, and caches of 2 "
                        "slots x 9 rows 3.00 MiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_is_too_small_is_refused_with_what_fits),
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(an_error_of_the_device_tells_what_was_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
