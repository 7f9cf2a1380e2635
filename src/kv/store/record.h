/* record.h - one block of KV rows as it leaves the memory: a header that proves itself, the tokens whose rows
 * they are and all in front of them, and the tiles as they are.
 *
 *   0   8  "GALLOPKB"                      48  16 seed of the tokens (whose they are, regime of ropes)
 *   8   4  version, 1                      64  16 key under which it is kept
 *   12  4  0                               80  32 0
 *   16  8  tokens                          112 16 XXH3-128 of the XXH3-128 of bytes 0..111 and of that of
 *   24  8  bytes of tiles                         all behind 128
 *   32  16 context: what rows depend on    128    tokens, 4 bytes each, then zeros up to a multiple of 64;
 *          beside tokens and seed                 tiles by layer, head, K and V
 * All numbers are little endian. Tiles are those of kern.h (struct kern_attn), the same for all instruction
 * sets and for all layouts of a pool.
 */
#ifndef GALLOP_KV_STORE_RECORD_H
#define GALLOP_KV_STORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv/prefix.h"

enum { RECORD_HEADER = 128, RECORD_VERSION = 1 };

/* What a record is of. */
struct record_name {
    struct prefix_key context, seed, key;
    size_t n_tokens; /* up to the end of the block */
    size_t n_bytes;  /* of tiles */
};

/* The key of the block behind which the chain of tokens is CHAIN. */
struct prefix_key record_key(struct prefix_key context, struct prefix_key chain);

/* Where the tiles begin, and where a record ends. */
size_t record_tiles(size_t n_tokens);
size_t record_bytes(const struct record_name *r); /* SIZE_MAX: an address cannot count them */

/* Writes the header of R into OUT and clears what lies between tokens and tiles. These, from RECORD_HEADER
 * and record_tiles() on, are the caller's to fill in; record_seal() then adds the checksum. */
void record_begin(void *out, const struct record_name *r);
void record_seal(void *record);

/* BYTES [n] are a record that was sealed and kept under KEY. */
bool record_is_whole(const void *bytes, size_t n, struct prefix_key key);

/* BYTES, which is whole, is a record of R with TOKEN [r->n_tokens]. */
bool record_is_of(const void *bytes, const struct record_name *r, const int32_t *token);

#endif
