/* record.h - the format in which a KV block is stored: a header with a checksum, the tokens of the block and
 * all tokens before them, and the tiles of the block.
 *
 *   0   8  "GALLOPKB"                      48  16 seed of the tokens (their owner, RoPE regime)
 *   8   4  version, 1                      64  16 key under which it is stored
 *   12  4  0                               80  32 0
 *   16  8  tokens                          112 16 XXH3-128 of the XXH3-128 of bytes 0..111 and of that of
 *   24  8  bytes of tiles                         all bytes from 128 on
 *   32  16 context: what rows depend on    128    tokens, 4 bytes each, then zeros up to a multiple of 64;
 *          besides tokens and seed                tiles by layer, head, K and V
 *
 * All numbers are little endian. Tiles are those of struct kern_attn, the same for all instruction sets and for
 * all layouts of a pool.
 */
#ifndef GALLOP_KV_STORE_RECORD_H
#define GALLOP_KV_STORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv/prefix.h"

enum { RECORD_HEADER = 128, RECORD_VERSION = 1 };

/* What identifies a record. */
struct record_name {
    struct prefix_key context, seed, key;
    size_t n_tokens; /* up to the end of the block */
    size_t n_bytes;  /* of tiles */
};

/* The key of the block whose chain of tokens has the hash CHAIN. */
struct prefix_key record_key(struct prefix_key context, struct prefix_key chain);

/* The offset at which the tiles begin. */
size_t record_tiles(size_t n_tokens);
/* The bytes of the whole record. SIZE_MAX: too large for size_t. */
size_t record_bytes(const struct record_name *r);

/* Writes the header of R to OUT and clears the bytes between tokens and tiles. The caller fills in the tokens
 * from RECORD_HEADER on and the tiles from record_tiles() on; record_seal() then adds the checksum. */
void record_begin(void *out, const struct record_name *r);
void record_seal(void *record);

/* BYTES [n] is a record that was sealed and stored under KEY. */
bool record_is_whole(const void *bytes, size_t n, struct prefix_key key);

/* BYTES, which is whole, is the record of R with TOKEN [r->n_tokens]. */
bool record_is_of(const void *bytes, const struct record_name *r, const int32_t *token);

#endif
