/* kv_slab_pool.c - one pool for all sequences: fixed blocks from a LIFO free list that hands out neighbours in order.
 *
 * Head-major: each layer holds [K then V][n_kv][blocks] blocks of `block` rows, so the tiles of one head are neighbours
 * wherever a sequence's blocks are. A block belongs to one sequence; a fork copies.
 */
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "kv/kv.h"

struct seq {
    uint32_t *tile; /* [tiles of max_len] table, filled for the blocks held */
    const uint32_t *table[1];
    size_t blocks;
};

struct slab {
    char *region;
    size_t region_bytes, n_blocks, block_tiles;
    uint32_t *free_block; /* stack; the top is n_free - 1 */
    size_t n_free;
    struct seq *seq;
    struct kv_layer *layer;
};

static void slab_pool_close(struct kv *c)
{
    struct slab *s = c->state;

    if (!s)
        return;
    for (size_t i = 0; s->seq && i < c->lim.max_seqs; i++)
        mem_free(s->seq[i].tile);
    map_region_free(s->region, s->region_bytes);
    mem_free(s->free_block);
    mem_free(s->seq);
    mem_free(s->layer);
    mem_free(s);
    c->state = NULL;
}

static void set_bases(const struct kv *c, struct slab *s)
{
    size_t head = s->n_blocks * s->block_tiles * c->tile_bytes;
    unsigned shift = 0;

    while ((1u << shift) < s->block_tiles)
        shift++;
    for (size_t l = 0; l < c->lim.n_layers; l++) {
        char *k = s->region + l * 2 * c->lim.n_kv * head;

        s->layer[l] = (struct kv_layer){.k = k,
                                        .v = k + c->lim.n_kv * head,
                                        .head_bytes = head,
                                        .block_bytes = s->block_tiles * c->tile_bytes,
                                        .tile_bytes = c->tile_bytes,
                                        .block_shift = shift};
    }
}

static int slab_pool_open(struct kv *c, struct err *e)
{
    struct slab *s = c->state = mem_zalloc(1, sizeof(*s), MEM_KV);
    size_t block = c->lim.block ? c->lim.block : KV_DEFAULT_BLOCK,
           tiles = (c->lim.max_len + block - 1) / block * (block / KERN_TILE);
    bool ok = s != NULL;

    if (ok) {
        s->block_tiles = block / KERN_TILE;
        s->n_blocks = (c->lim.pool_tokens + block - 1) / block;
        s->region_bytes = s->n_blocks * s->block_tiles * c->tile_bytes * 2 * c->lim.n_kv * c->lim.n_layers;
        s->region = map_region_new(s->region_bytes);
        s->free_block = mem_zalloc(s->n_blocks, sizeof(*s->free_block), MEM_KV);
        s->seq = mem_zalloc(c->lim.max_seqs, sizeof(*s->seq), MEM_KV);
        s->layer = mem_zalloc(c->lim.n_layers, sizeof(*s->layer), MEM_KV);
        ok = s->region && s->free_block && s->seq && s->layer;
    }
    for (size_t i = 0; ok && i < c->lim.max_seqs; i++) {
        s->seq[i].tile = mem_zalloc(tiles, sizeof(*s->seq[i].tile), MEM_KV);
        s->seq[i].table[0] = s->seq[i].tile;
        ok = s->seq[i].tile != NULL;
    }
    if (!ok) {
        size_t bytes = s ? s->region_bytes : 0;

        slab_pool_close(c);
        return err_set(e, ERR_NOMEM, "out of memory: %zu bytes for a KV pool of %zu tokens", bytes,
                       c->lim.pool_tokens);
    }
    for (size_t i = 0; i < s->n_blocks; i++) /* so that the first one out is block 0 */
        s->free_block[i] = (uint32_t)(s->n_blocks - 1 - i);
    s->n_free = s->n_blocks;
    set_bases(c, s);
    return 0;
}

static int slab_pool_reserve(struct kv *c, size_t seq, size_t n)
{
    struct slab *s = c->state;
    struct seq *q = &s->seq[seq];
    size_t need = (n + s->block_tiles * KERN_TILE - 1) / (s->block_tiles * KERN_TILE);

    if (need > q->blocks && need - q->blocks > s->n_free)
        return ERR_NOSPACE;
    for (; q->blocks < need; q->blocks++) {
        uint32_t block = s->free_block[--s->n_free];

        for (size_t t = 0; t < s->block_tiles; t++)
            q->tile[q->blocks * s->block_tiles + t] = (uint32_t)(block * s->block_tiles + t);
    }
    return 0;
}

static void slab_pool_truncate(struct kv *c, size_t seq, size_t n)
{
    struct slab *s = c->state;
    struct seq *q = &s->seq[seq];
    size_t keep = (n + s->block_tiles * KERN_TILE - 1) / (s->block_tiles * KERN_TILE);

    while (q->blocks > keep) {
        q->blocks--;
        s->free_block[s->n_free++] = (uint32_t)(q->tile[q->blocks * s->block_tiles] / s->block_tiles);
    }
}

static int slab_pool_fork(struct kv *c, size_t from, size_t n, size_t to)
{
    struct slab *s = c->state;
    size_t filled = (n + KERN_TILE - 1) / KERN_TILE;
    int rc = slab_pool_reserve(c, to, n);

    for (size_t l = 0; rc == 0 && l < c->lim.n_layers; l++)
        for (size_t h = 0; h < c->lim.n_kv; h++)
            for (size_t t = 0; t < filled; t++) {
                size_t a = h * s->layer[l].head_bytes + s->seq[from].tile[t] * c->tile_bytes;
                size_t b = h * s->layer[l].head_bytes + s->seq[to].tile[t] * c->tile_bytes;

                memcpy(s->layer[l].k + b, s->layer[l].k + a, c->tile_bytes);
                memcpy(s->layer[l].v + b, s->layer[l].v + a, c->tile_bytes);
            }
    return rc;
}

static struct kv_view slab_pool_view(const struct kv *c, size_t seq)
{
    const struct slab *s = c->state;

    return (struct kv_view){.layer = s->layer, .tile = s->seq[seq].table};
}

static size_t slab_pool_bytes(const struct kv *c)
{
    const struct slab *s = c->state;

    return s->region_bytes;
}

const struct kv_type kv_slab_pool = {.name = "slab_pool",
                                     .open = slab_pool_open,
                                     .reserve = slab_pool_reserve,
                                     .truncate = slab_pool_truncate,
                                     .fork = slab_pool_fork,
                                     .view = slab_pool_view,
                                     .close = slab_pool_close,
                                     .bytes = slab_pool_bytes};
