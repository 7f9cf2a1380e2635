/* test.h - the file that every unit test is compiled with (cmake/tests.cmake includes it): the headers that
 * all of them need, cmocka, and a comparison of integers whose message says what was compared. cmocka passes
 * every test a parameter `state`, which need not be used. */
#ifndef GALLOP_TEST_TEST_H
#define GALLOP_TEST_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

static inline void test_int_equal(const char *what, unsigned long long found, const char *wanted,
                                  unsigned long long expected, const char *file, int line)
{
    if (found == expected)
        return;
    print_error("%s is %lld (0x%llx), expected %lld (0x%llx), %s\n", what, (long long)found, found,
                (long long)expected, expected, wanted);
    _fail(file, line);
}

#undef assert_int_equal
#define assert_int_equal(found, expected)                                                                    \
    test_int_equal(#found, (unsigned long long)(found), #expected, (unsigned long long)(expected), __FILE__, \
                   __LINE__)

/* Skips the rest of a test whose engines have one thread under the thread sanitizer, which finds nothing there. */
static inline void test_of_one_thread(void)
{
#if defined(__SANITIZE_THREAD__)
    skip();
#endif
}

#endif
