/* xxh3.h - XXH3 with the vector loops of this processor, for checksums of many bytes: the library's portable
 * loops reach a third of the memory bandwidth. */
#ifndef GALLOP_BASE_XXH3_H
#define GALLOP_BASE_XXH3_H

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#endif
