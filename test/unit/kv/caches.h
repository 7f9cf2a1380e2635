/* caches.h - functions that open, fill and check caches, and rows with recognizable contents: an
 * implementation of the tile layouts of kern.h that is independent of the program's. */
#ifndef GALLOP_TEST_KV_CACHES_H
#define GALLOP_TEST_KV_CACHES_H

#include "kv/kv.h"

/* Opens a cache and checks its counts. The test fails if anything is wrong. */
void caches_open(struct kv *c, const char *type, struct kv_limits lim);
void caches_check(const struct kv *c);

/* Returns the address of the tile that holds row POS of SEQ. */
char *caches_tile(const struct kv_view *v, size_t layer, size_t head, size_t pos, bool value);

/* Writes row POS of SEQ in all layers, heads and dims, with contents that follow from STAMP. */
void caches_write(const struct kv *c, size_t seq, size_t pos, uint32_t stamp);

/* Returns whether row POS of SEQ in LAYER is what caches_write() wrote. EVERY: all dims are compared;
 * otherwise the first and the last. */
bool caches_is(const struct kv *c, size_t seq, size_t layer, size_t pos, uint32_t stamp, bool every);

/* Adds the rows [from, to) of SEQ, STEP at a time, as an engine does. Row POS gets the stamp POS + 1. */
void caches_grow(struct kv *c, size_t seq, size_t from, size_t to, size_t step);

/* Fails unless every row that a query after N rows sees is what caches_grow() wrote. */
void caches_must_show(const struct kv *c, size_t seq, size_t n);

#endif
