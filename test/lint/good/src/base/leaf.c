/* leaf.c - adds one. */
#include "base/leaf.h"

size_t leaf_count(size_t n)
{
    return n + 1;
}
