/* xxh3.h - XXH3 with the fastest loops of this processor, for hashing large data. The library's portable
 * loops reach only a third of the memory bandwidth. */
#ifndef GALLOP_BASE_XXH3_H
#define GALLOP_BASE_XXH3_H

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#endif
