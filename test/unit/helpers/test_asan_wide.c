/* test_asan_wide.c - vector accesses outside of a block are found by the checks that test/sanitizer/asan_wide.c has
 * in place of those of the address sanitizer.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) && defined(__x86_64__)
#include "../../sanitizer/asan_wide.h"

/* In front of and behind a block of every size, and within it, at every alignment. */
static void what_is_usable_is_what_the_library_says(void **state)
{
    static const size_t widths[] = {32, 64};
    int n_usable = 0;

    for (size_t size = 1; size < 200; size++) {
        char *block = malloc(size);

        assert_non_null(block);
        for (size_t w = 0; w < 2; w++)
            for (long at = -16; at <= (long)size; at++) {
                bool inside = at >= 0 && (size_t)at + widths[w] <= size,
                     whole = ((size_t)at + widths[w] - 1) / 8 < size / 8,
                     usable = asan_wide_is_usable(block + at, widths[w]);

                if (usable != (inside && whole) ||
                    inside != !__asan_region_is_poisoned(block + at, widths[w]))
                    fail_msg("%zu bytes at %ld of %zu: usable %d", widths[w], at, size, usable);
                n_usable += usable;
            }
        free(block);
    }
    assert_true(n_usable > 10000);
}

/* Returns the exit status of a child that accesses N bytes at AT of a block of 100 bytes. */
static int status_of(bool store, long at, size_t n)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        char *block = malloc(100);

        fclose(stderr); /* the report */
        (store ? __asan_storeN : __asan_loadN)(block + at, n);
        free(block);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void an_access_outside_of_a_block_ends_the_program(void **state)
{
    for (int store = 0; store < 2; store++) {
        assert_int_equal(status_of(store, 0, 64), 0);
        assert_int_equal(status_of(store, 36, 64), 0);
        assert_int_equal(status_of(store, 68, 32), 0);
        assert_int_equal(status_of(store, 20, 80), 0);
        assert_int_not_equal(status_of(store, 37, 64), 0);
        assert_int_not_equal(status_of(store, 69, 32), 0);
        assert_int_not_equal(status_of(store, 21, 80), 0);
        assert_int_not_equal(status_of(store, -1, 64), 0);
    }
}

#else

static void what_is_usable_is_what_the_library_says(void **state)
{
    skip();
}

static void an_access_outside_of_a_block_ends_the_program(void **state)
{
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_usable_is_what_the_library_says),
        cmocka_unit_test(an_access_outside_of_a_block_ends_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
