/* batch.h - what one step computes: the new tokens of some sequences, ragged, without padding.
 *
 * Filled by the engine, read by models and ops, valid for one forward. Tokens of a sequence are contiguous
 * and ascending in position. Where the rows of a sequence lie in the cache is told by tile numbers; who owns
 * them is not known here.
 */
#ifndef GALLOP_OPS_BATCH_H
#define GALLOP_OPS_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "tensor/dtype.h"

/* The K and V rows of one layer. Tile TILE of kv head HEAD begins at
 *   k + (TILE >> block_shift) * block_bytes + HEAD * head_bytes + (TILE & (2^block_shift - 1)) * tile_bytes
 * and likewise for v. A tile holds 16 tokens in the layout of kern.h (struct kern_attn), for dp dims. */
struct kv_layer {
    char *k, *v; /* borrowed */
    size_t block_bytes, head_bytes, tile_bytes;
    unsigned block_shift;
    int group; /* which tile table counts: layers that see equally far share one */
};

/* One sequence's place in the cache, for all layers. */
struct kv_view {
    const struct kv_layer *layer; /* [L that store rows] borrowed */
    const uint32_t *const *tile; /* [groups] tables of tile numbers, by position / 16; borrowed. Tiles that no
                                   * query of the layer can see any more may be one tile of zeros */
};

struct batch_seq {
    struct kv_view kv;
    size_t first; /* its first row in the batch */
    size_t n;     /* its rows, at least 1 */
    size_t pos;   /* position of its first row = rows already in the cache */
    size_t
        n_prompt; /* length of its prompt: rope types that depend on lengths use max(n_prompt, position + 1) */
    size_t
        n_total; /* tokens known when this forward was planned: decides short or long factors of longrope */
};

struct batch {
    size_t n_tokens, n_seqs, n_wanted;
    const int32_t *id;           /* [T] */
    const int32_t *pos;          /* [T] */
    const struct batch_seq *seq; /* [n_seqs] */
    const uint32_t *wanted;      /* [n_wanted] rows whose logits are asked for, ascending */
    float *logits;               /* [n_wanted, V] out */
};

#endif
