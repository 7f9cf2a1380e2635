/* test_crash_table.c - the rows of requests for the crash report. */
#include <string.h>

#include "api/crash_table.h"
#include "base/err.h"
#include "test.h"

/* Every free row is found, wherever the search begins, and no row has two requests. */
static void a_row_in_use_hides_free_ones(void **state)
{
    struct crash_table t = {.n = 0};
    struct crash_table_row *row[3];

    assert_int_equal(crash_table_open(&t, 3, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_non_null(row[i] = crash_table_add(&t, "a", 1, 0));
    assert_null(crash_table_add(&t, "b", 1, 0));
    for (int from = 0; from < 3; from++)
        for (int i = 0; i < 3; i++) {
            crash_table_remove(row[i]);
            assert_ptr_equal(crash_table_add(&t, "c", 5, 7), row[i]);
            assert_string_equal(row[i]->id, "c");
            assert_int_equal(row[i]->n_prompt, 5);
            assert_int_equal(row[i]->n_output, 7);
            t.next++;
        }
    crash_table_remove(NULL);
    crash_table_close(&t);
}

static void the_table_is_larger_than_allowed(void **state)
{
    struct crash_table t = {.n = 0};

    assert_int_equal(crash_table_open(&t, 4097, NULL), 0);
    for (size_t i = 0; i < 4096; i++)
        assert_non_null(crash_table_add(&t, "a", 1, 0));
    assert_null(crash_table_add(&t, "b", 1, 0));
    crash_table_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_in_use_hides_free_ones),
        cmocka_unit_test(the_table_is_larger_than_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
