/* test_errand.c - a function on a thread of its own: its result arrives, whoever waits for it and how long. */
#include "base/threads/errand.h"

#include <stdatomic.h>
#include <unistd.h>

static atomic_bool may_end;

static int work(void *ctx, struct err *e)
{
    while (!atomic_load(&may_end))
        usleep(100);
    return *(int *)ctx ? err_set(e, ERR_OS, "it failed") : 0;
}

static void a_result_is_taken_when_the_function_has_ended(void **state)
{
    struct errand r;
    struct err e = {0};
    int fails = 0;

    errand_init(&r);
    assert_true(errand_wait(&r, 0)); /* nothing runs */
    for (int turn = 0; turn < 2; turn++) {
        fails = turn;
        atomic_store(&may_end, false);
        assert_int_equal(errand_start(&r, work, &fails, &e), 0);
        assert_false(errand_wait(&r, 0));
        assert_false(errand_wait(&r, .01));
        atomic_store(&may_end, true);
        while (!errand_wait(&r, 1))
            ;
        assert_int_equal(errand_take(&r, &e), turn ? ERR_OS : 0);
        assert_string_equal(e.msg, turn ? "it failed" : "");
    }
    errand_fini(&r);
}

static void closing_waits_for_a_function_whose_result_nobody_took(void **state)
{
    struct errand r;
    int fails = 1;

    errand_init(&r);
    atomic_store(&may_end, true);
    assert_int_equal(errand_start(&r, work, &fails, NULL), 0);
    errand_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_is_taken_when_the_function_has_ended),
        cmocka_unit_test(closing_waits_for_a_function_whose_result_nobody_took),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
