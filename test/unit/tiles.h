/* tiles.h - copies rows from one cache to another as whole tiles, which are the same in every cache type.
 * Blocks move to a store in this way (kv/store/record.h); here it also works between types without a
 * store. */
#ifndef GALLOP_TEST_TILES_H
#define GALLOP_TEST_TILES_H

#include "kv/kv.h"

/* Copies the rows that a query after the first N rows of SEQ of A sees to the empty sequence TO of B. Both
 * caches have the same sizes, dtypes of rows and windows, and may be the same. ERR_NOSPACE: TO stays
 * empty. */
int tiles_move(const struct kv *a, size_t seq, size_t n, struct kv *b, size_t to);

#endif
