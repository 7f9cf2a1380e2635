/* tiles.h - rows that move from one cache to another: as whole tiles, which are the same in every type. It is
 * how blocks leave a cache for a store (kv/store/record.h), between types that have none, too.
 */
#ifndef GALLOP_TEST_TILES_H
#define GALLOP_TEST_TILES_H

#include "kv/kv.h"

/* What a query behind the first N rows of SEQ of A sees becomes the rows of TO, which is empty, of B; both
 * caches have the same sizes, types of rows and windows, and may be one. ERR_NOSPACE: TO stays empty. */
int tiles_move(const struct kv *a, size_t seq, size_t n, struct kv *b, size_t to);

#endif
