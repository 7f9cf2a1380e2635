/* asan_wide.h - the checks of vector loads and stores under the address sanitizer of gcc, on x86-64. */
#ifndef GALLOP_ASAN_WIDE_H
#define GALLOP_ASAN_WIDE_H

#include <stdbool.h>
#include <stddef.h>

/* gcc calls them in front of each access of N > 16 bytes. */
__attribute__((visibility("default"))) void __asan_loadN(void *begin, size_t n);
__attribute__((visibility("default"))) void __asan_storeN(void *begin, size_t n);

/* Of the run-time library: returns the first byte of N from BEGIN that may not be used, or NULL. */
void *__asan_region_is_poisoned(void *begin, size_t n);

/* True: all N bytes may be used. False: the run-time library must decide, as always if N is not 32 or 64. */
bool asan_wide_is_usable(const void *begin, size_t n);

#endif
