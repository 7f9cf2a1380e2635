/* batch.h - what one step computes: the new tokens of some sequences, ragged, without padding.
 *
 * Filled by the engine, read by models and ops, valid for one forward. Tokens of a sequence are contiguous
 * and ascending in position. Where the rows of a sequence lie in the cache is told by tile numbers; who owns
 * them is not known here.
 */
#ifndef GALLOP_OPS_BATCH_H
#define GALLOP_OPS_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/kern.h"
#include "tensor/dtype.h"

/* The K and V rows of one layer. A tile holds 16 tokens in the layout of kern.h (struct kern_attn), for dp
 * dims; 2^block_shift of them are a block. */
struct kv_layer {
    char *k, *v; /* borrowed */
    size_t block_bytes, head_bytes, tile_bytes;
    unsigned block_shift;
    int group; /* which tile table counts: layers that see equally far share one */
};

/* Tile number TILE of kv head HEAD, where BASE is the layer's k or v. */
static inline char *kv_layer_tile(const struct kv_layer *l, char *base, uint32_t tile, size_t head)
{
    return base + (size_t)(tile >> l->block_shift) * l->block_bytes + head * l->head_bytes +
           (tile & ((1u << l->block_shift) - 1)) * l->tile_bytes;
}

/* Bytes of a tile of K, or of V, of DP dims in rows of type T: DT_F32, DT_BF16, DT_I8 or DT_I4. */
static inline size_t kv_tile_bytes(enum dtype t, size_t dp)
{
    if (t == DT_I4)
        return kern_i4_tile_bytes(dp);
    return KERN_TILE * (dp * dtype_bytes(t) + (t == DT_I8 ? sizeof(float) : 0));
}

/* One sequence's place in the cache, for all layers. */
struct kv_view {
    const struct kv_layer *layer; /* [L that store rows] borrowed */
    /* [groups] tables of tile numbers, by position / 16; borrowed. Tiles that no query of the layer can see
     * any more may be one tile of zeros */
    const uint32_t *const *tile;
};

struct batch_seq {
    struct kv_view kv;
    size_t first; /* its first row in the batch */
    size_t n;     /* its rows, at least 1 */
    size_t pos;   /* position of its first row = rows already in the cache */
    /* length of its prompt: rope types that depend on lengths use max(n_prompt, position + 1) */
    size_t n_prompt;
    /* tokens known when this forward was planned: decides short or long factors of longrope */
    size_t n_total;
};

struct batch {
    size_t n_tokens, n_seqs, n_wanted;
    const int32_t *id;           /* [T] */
    const int32_t *pos;          /* [T] */
    const struct batch_seq *seq; /* [n_seqs] */
    const uint32_t *wanted;      /* [n_wanted] rows that go through the last norm, ascending */
    float *logits;               /* [n_wanted, V] out */
    bool hidden_only;            /* no logits are asked for, only the hidden states of the wanted rows */
};

#endif
