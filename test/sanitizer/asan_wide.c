/* asan_wide.c - the checks of vector loads and stores under the address sanitizer, in a few instructions.
 *
 * gcc has no code of its own for the check of an access of more than 16 bytes, and calls __asan_loadN() and
 * __asan_storeN(). Those of its run-time library take some fifty instructions, which was two thirds of the time of
 * the tests that compute answers. The functions of this file replace them in programs. An access whose bytes may all
 * be used, as the zeros of the shadow say, is allowed here. The run-time library decides on all others, and reports.
 */
#include "asan_wide.h"

#include <stdint.h>
#include <string.h>

/* Of the run-time library. */
void __asan_report_load_n(void *begin, size_t n);
void __asan_report_store_n(void *begin, size_t n);

/* Returns the address of the shadow of byte AT: one byte for eight, 0 if all eight may be used. */
static const void *shadow(uintptr_t at)
{
    return (const void *)((at >> 3) + 0x7fff8000);
}

bool asan_wide_is_usable(const void *begin, size_t n)
{
    uintptr_t at = (uintptr_t)begin;
    uint64_t eight = 1;
    uint32_t four;
    uint8_t last; /* the fifth or ninth byte, if BEGIN is not aligned */

    memcpy(&last, shadow(at + n - 1), sizeof(last));
    if (n == 64) {
        memcpy(&eight, shadow(at), sizeof(eight));
    } else if (n == 32) {
        memcpy(&four, shadow(at), sizeof(four));
        eight = four;
    }
    return (eight | last) == 0;
}

void __asan_loadN(void *begin, size_t n)
{
    void *bad = asan_wide_is_usable(begin, n) ? NULL : __asan_region_is_poisoned(begin, n);

    if (bad)
        __asan_report_load_n(bad, n);
}

void __asan_storeN(void *begin, size_t n)
{
    void *bad = asan_wide_is_usable(begin, n) ? NULL : __asan_region_is_poisoned(begin, n);

    if (bad)
        __asan_report_store_n(bad, n);
}
