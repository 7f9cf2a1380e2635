/* tsan_wide.c - the checks of vector loads under the thread sanitizer, of 8 bytes in place of all.
 *
 * For each load of more than 16 bytes, gcc calls __tsan_read_range(), which does the work of a scalar load for every
 * 8 bytes. Most are loads of weights, and they were more than half of the time of tests that compute answers.
 * Programs are linked with --wrap, so that the function of this file is called instead. Of a load of 32 or 64 bytes it
 * checks the 8 bytes whose address is a multiple of 32 or 64. Every vector load has such bytes, and stores are
 * checked whole. So a store of a vector that races with a load of the same bytes is found, at any alignment.
 */
#include <stddef.h>
#include <stdint.h>

void __tsan_read8(const char *at);
void __real___tsan_read_range(const char *begin, size_t n);
void __wrap___tsan_read_range(const char *begin, size_t n);

void __wrap___tsan_read_range(const char *begin, size_t n)
{
    size_t skipped = -(uintptr_t)begin & (n - 1);

    if ((n == 32 || n == 64) && skipped + 8 <= n)
        __tsan_read8(begin + skipped);
    else
        __real___tsan_read_range(begin, n);
}
