/* kvrows.h - rows with recognisable contents, written into tiles and found again: the tests' own reading of
 * the tile layouts of kern.h. */
#ifndef GALLOP_TEST_KV_KVROWS_H
#define GALLOP_TEST_KV_KVROWS_H

#include "kv/kv.h"

/* Address of the tile that holds row POS of SEQ. */
char *kvrows_tile(const struct kv_view *v, size_t layer, size_t head, size_t pos, bool value);

/* Writes row POS of SEQ in all layers, heads, dims; contents follow from STAMP. */
void kvrows_write(const struct kv *c, size_t seq, size_t pos, uint32_t stamp);

/* Row POS of SEQ in LAYER is what kvrows_write() wrote. EVERY: all dims; otherwise the first and the last. */
bool kvrows_is(const struct kv *c, size_t seq, size_t layer, size_t pos, uint32_t stamp, bool every);

#endif
