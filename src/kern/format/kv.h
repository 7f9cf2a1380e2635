/* kv.h - the addresses of the K and V rows of a sequence in a KV cache, for attention to read and write.
 *
 * The caches of src/kv fill these structs and own the blocks; the operators read them.
 */
#ifndef GALLOP_KERN_FORMAT_KV_H
#define GALLOP_KERN_FORMAT_KV_H

#include <stddef.h>
#include <stdint.h>

#include "kern/attention.h"
#include "tensor/dtype.h"

/* The K and V rows of one layer. A tile holds 16 tokens (kern/attention.h). A KV block is 2^block_shift
 * tiles. */
struct kv_layer {
    /* The addresses of all K and of all V tiles of the layer; borrowed. The sizes are the distances, in
     * bytes, between KV blocks, between KV heads in a block, and between tiles of a head. */
    char *k, *v;
    size_t block_bytes, head_bytes, tile_bytes;
    unsigned block_shift;
    /* Index of the tile table of the layer in kv_view.tile: layers with the same window share a table. */
    int group;
};

/* Returns the address of tile number TILE of KV head HEAD. BASE is l->k or l->v. */
static inline char *kv_layer_tile(const struct kv_layer *l, char *base, uint32_t tile, size_t head)
{
    return base + (size_t)(tile >> l->block_shift) * l->block_bytes + head * l->head_bytes +
           (tile & ((1u << l->block_shift) - 1)) * l->tile_bytes;
}

/* Returns the bytes of a tile of K, or of V, with DP dims of type T: DT_F32, DT_BF16, DT_I8 or DT_I4. */
static inline size_t kv_tile_bytes(enum dtype t, size_t dp)
{
    if (t == DT_I4)
        return kern_i4_tile_bytes(dp);
    return KERN_TILE * (dp * dtype_bytes(t) + (t == DT_I8 ? sizeof(float) : 0));
}

/* The K and V rows of one sequence, for all layers. */
struct kv_view {
    /* The layers that store rows, one element each; borrowed. */
    const struct kv_layer *layer;
    /* The tile tables, [groups]; borrowed. tile[g][position / 16] is the number of the tile with a position.
     * Tiles that no later query of the layer sees may all be one tile of zeros. */
    const uint32_t *const *tile;
};

#endif
