/* xxh3.h - XXH3 by the loops of this processor, for sums of many bytes: the library's common ones read a
 * third of what memory gives. */
#ifndef GALLOP_BASE_XXH3_H
#define GALLOP_BASE_XXH3_H

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#endif
