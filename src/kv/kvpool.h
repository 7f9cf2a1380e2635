/* kvpool.h - what slab_pool and paged share: one region of equal blocks for each group of layers, reserved at
 * open and never grown, and for each sequence and group a table of the tiles it holds.
 *
 * A block is a number; it means the same rows in all layers of its group, and in each of them K and V of all
 * heads. Sequences hold blocks [0, head) and [first, end) by position; between, where a window has dropped
 * rows, the table names a block of zeros that is never written, so that a kernel may read it. [0, head) are
 * the blocks of the group's sink, once they are apart from the others; until then FIRST is 0. Who owns a
 * block, and where the next comes from, is the type's business: take and put.
 */
#ifndef GALLOP_KV_KVPOOL_H
#define GALLOP_KV_KVPOOL_H

#include "kv/kv.h"

struct kvpool_group {
    char *region;
    size_t region_bytes;
    /* that can be handed out; where there is a window, block number n_blocks is the one of zeros */
    size_t n_blocks;
    uint32_t *free; /* stack; the top is n_free - 1 */
    size_t n_free;
};

struct kvpool_seq {
    uint32_t *tile;    /* [tiles of max_len] */
    size_t first, end; /* blocks held */
    size_t head; /* and those in front of them that hold the sink: 0, or all of it where FIRST is not 0 */
    size_t low;  /* the first row behind the sink that was ever written, in or above block FIRST */
};

struct kvpool {
    size_t block_tiles, max_blocks; /* tiles of a block; blocks of max_len rows */
    unsigned shift;                 /* log2 of block_tiles */
    struct kvpool_group group[KV_MAX_GROUPS];
    struct kv_layer *layer; /* [L] */
    struct kvpool_seq *seq; /* [max_seqs, groups] */
    const uint32_t **table; /* [max_seqs, groups] */
    uint32_t *tiles;        /* all tables */
    size_t *len;            /* [max_seqs] rows of each sequence */
    /* A block of group G; there is one. Gives back a sequence's hold on one. */
    uint32_t (*take)(struct kv *c, size_t g);
    void (*put)(struct kv *c, size_t g, uint32_t block);
};

/* Bytes of all groups' regions for c->lim (block filled in) and c's groups. */
size_t kvpool_bytes(const struct kv *c);

/* Blocks that one sequence of max_len rows holds at most, in the group where that is most. */
size_t kvpool_least_blocks(const struct kv *c);

/* P is the first member of the type's state, zeroed, its take and put set. On failure the type closes it. */
int kvpool_open(struct kv *c, struct kvpool *p, struct err *e);
void kvpool_close(struct kvpool *p);

struct kvpool_seq *kvpool_seq(const struct kv *c, const struct kvpool *p, size_t seq, size_t g);
uint32_t kvpool_block(const struct kvpool *p, const struct kvpool_seq *q,
                      size_t i); /* number of its I-th block */
void kvpool_set(const struct kvpool *p, struct kvpool_seq *q, size_t i, uint32_t block);

/* The usual life of a free block: a LIFO stack. */
uint32_t kvpool_pop(struct kvpool *p, size_t g);
void kvpool_push(struct kvpool *p, size_t g, uint32_t block);

size_t kvpool_lacks(const struct kv *c, const struct kvpool *p, size_t seq, size_t g,
                    size_t n); /* blocks for N rows */
/* Whether N_FREE blocks of group G are enough for WANT [n]. */
bool kvpool_has_room(const struct kv *c, size_t g, size_t n_free, const struct kv_want *want, size_t n);
void kvpool_extend(struct kv *c, struct kvpool *p, size_t seq, size_t n); /* takes what lacks in all groups */

/* A query at N of SEQ would see nothing that was dropped. */
bool kvpool_sees(const struct kv *c, size_t seq, size_t n);
int kvpool_truncate(struct kv *c, size_t seq, size_t n);
void kvpool_advance(struct kv *c, size_t seq, size_t pos);

/* The blocks that a query at N sees, in group G: [0, head) and [first, end). */
struct kvpool_range {
    size_t head, first, end;
};
struct kvpool_range kvpool_range(const struct kv *c, size_t g, size_t n);
/* An empty sequence will hold blocks from FIRST on, below it zeros, apart from the sink; rows below LOW
 * behind the sink will never be written. */
void kvpool_begin(const struct kvpool *p, size_t g, struct kvpool_seq *q, size_t first, size_t low);
/* LOW of a sequence that gets the blocks of Q from FIRST on. */
size_t kvpool_low(const struct kv *c, const struct kvpool_seq *q, size_t first);
void kvpool_copy(const struct kv *c, const struct kvpool *p, size_t g, uint32_t from, uint32_t to);

/* A block of group G as bytes [kvpool_block_bytes()], by layer, head, K and V, whatever the layout. */
size_t kvpool_block_bytes(const struct kv *c, size_t g);
void kvpool_save(const struct kv *c, const struct kvpool *p, size_t g, uint32_t block, char *out);
void kvpool_load(const struct kv *c, const struct kvpool *p, size_t g, uint32_t block, const char *bytes);

struct kv_view kvpool_view(const struct kv *c, size_t seq);
size_t kvpool_held_bytes(const struct kv *c, size_t seq);
size_t kvpool_region_bytes(const struct kv *c);

/* Adds to COUNT [n_blocks] how often each block of group G is held or free; ERR_INPUT where a table is
 * wrong. */
int kvpool_count(const struct kv *c, size_t g, uint32_t *count, struct err *e);

/* Calls CHECK for each group with zeroed counts. */
typedef int kvpool_check_fn(const struct kv *c, size_t g, uint32_t *count, struct err *e);
int kvpool_check(const struct kv *c, kvpool_check_fn *check, struct err *e);

#endif
