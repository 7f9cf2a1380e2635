/* record.h - the format in which a KV block is stored: a header with a checksum, the tokens of the block and
 * all tokens before them, and the tiles of the block.
 *
 *   0   8  "GALLOPKB"                      48  16 seed of the tokens (owner, RoPE regime)
 *   8   4  version, 1                      64  16 key under which it is stored
 *   12  4  0                               80  32 0
 *   16  8  number of tokens                112 16 checksum: XXH3-128 of two XXH3-128 hashes, of bytes
 *   24  8  bytes of tiles                         0..111 and of all bytes from 128 on
 *   32  16 context: hash of model, sizes   128    tokens, 4 bytes each, then zeros up to a multiple of 64;
 *          and group of layers                    tiles by layer, head, K and V
 *
 * All numbers are little endian. Tiles have the format of struct kern_attn, which is the same for all
 * instruction sets and layouts of a pool.
 */
#ifndef GALLOP_KV_STORE_RECORD_H
#define GALLOP_KV_STORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv/prefix.h"

enum { RECORD_HEADER = 128, RECORD_VERSION = 1 };

/* The fields that identify a record. */
struct record_name {
    struct prefix_key context, seed, key;
    size_t n_tokens; /* number of tokens from position 0 to the end of the block */
    size_t n_bytes;  /* bytes of the tiles */
};

/* Returns the key of the block whose chain hash (prefix.h) is CHAIN. */
struct prefix_key record_key(struct prefix_key context, struct prefix_key chain);

/* Returns the offset of the tiles in a record. */
size_t record_tiles(size_t n_tokens);
/* Returns the bytes of the whole record. SIZE_MAX: too large for size_t. */
size_t record_bytes(const struct record_name *r);

/* Writes the header of R to OUT and clears the bytes between tokens and tiles. The caller fills in the tokens
 * from RECORD_HEADER on and the tiles from record_tiles() on; record_seal() then adds the checksum. */
void record_begin(void *out, const struct record_name *r);
void record_seal(void *record);

/* Returns whether BYTES [n] is a record of KEY with the right checksum. */
bool record_is_whole(const void *bytes, size_t n, struct prefix_key key);

/* Returns whether BYTES, which passed record_is_whole(), is the record of R with TOKEN [r->n_tokens]. */
bool record_is_of(const void *bytes, const struct record_name *r, const int32_t *token);

#endif
