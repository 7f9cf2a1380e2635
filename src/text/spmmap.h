/* spmmap.h - sentencepiece's precompiled character map: a double-array trie from byte strings to
 * replacements.
 *
 * Layout (little endian): u32 bytes of the trie, the trie's u32 units, then zero-terminated replacements that
 * the trie's values index. Units are those of the darts-clone library: bit 31 value flag, bit 8 has-leaf,
 * bits 0-7 label, bits 10-30 offset, shifted by 8 more if bit 9 is set.
 */
#ifndef GALLOP_TEXT_SPMMAP_H
#define GALLOP_TEXT_SPMMAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct spmmap;

/* Reads the map from BYTES, which are copied. ERR_INPUT when they are none. */
int spmmap_new(struct spmmap **out, const char *bytes, size_t n, struct err *e);
void spmmap_free(struct spmmap *m); /* NULL is fine */

/* The replacement of the longest entry that begins S; *len is that entry's length. false: none begins it. */
bool spmmap_longest(const struct spmmap *m, const char *s, size_t n, size_t *len, const char **to,
                    size_t *n_to);

/* The replacement of the shortest entry that begins S. */
bool spmmap_shortest(const struct spmmap *m, const char *s, size_t n, const char **to, size_t *n_to);

#endif
