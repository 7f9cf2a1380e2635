/* test_outage.c - when an executor that has failed is opened again. */
#include "engine/schedule/outage.h"

static void tries_are_made_after_longer_and_longer_pauses(void **state)
{
    static const double expected[] = {0, .1, .2, .4, .8, 1.6, 3.2, 6.4, 10, 10};
    struct outage o = {0};
    double now = 100;

    outage_begin(&o, now);
    assert_true(atomic_load(&o.is_down));
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_true(outage_wait_s(&o, now) < expected[i] + 1e-9);
        assert_true(outage_wait_s(&o, now) > expected[i] - 1e-9);
        now += expected[i] + 1e-9;
        assert_true(outage_wait_s(&o, now) == 0);
        assert_int_equal(outage_try_failed(&o, now), i + 1 >= OUTAGE_TRIES);
    }
    assert_true(o.since_s == 100);
    outage_end(&o);
    assert_false(atomic_load(&o.is_down));
    assert_int_equal(atomic_load(&o.n_restarts), 1);
}

/* An executor that can be opened, but fails in each first run, is not opened again and again without a pause. */
static void only_a_run_that_succeeds_makes_tries_quick_again(void **state)
{
    struct outage o = {0};

    for (int i = 0; i < 3; i++) {
        outage_begin(&o, 0);
        assert_true(outage_wait_s(&o, 0) == (i == 0 ? 0 : i == 1 ? .1 : .2));
        outage_end(&o);
    }
    outage_computed(&o);
    outage_begin(&o, 0);
    assert_true(outage_wait_s(&o, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tries_are_made_after_longer_and_longer_pauses),
        cmocka_unit_test(only_a_run_that_succeeds_makes_tries_quick_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
