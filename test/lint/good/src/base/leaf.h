/* leaf.h - counts. */
#ifndef GALLOP_BASE_LEAF_H
#define GALLOP_BASE_LEAF_H

#include <stddef.h>

size_t leaf_count(size_t n); /* one more than N */

#endif
