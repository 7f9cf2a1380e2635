/* kvpool.h - the common part of the pooled types: for each group of layers a region of equal KV blocks,
 * reserved at open, and for each sequence and group a table of tile numbers.
 *
 * A block number names the same rows in all layers of a group; in each layer the block holds K and V of all
 * heads. A sequence holds blocks [0, head), which contain the rows of its sink, and blocks [first, end). HEAD
 * and FIRST are 0 until the window has left the sink. Between HEAD and FIRST, where a window has dropped
 * rows, the table names a block of zeros that is never written, so that kernels may read it. The cache type
 * decides how blocks are shared; the pool calls its functions ALLOCATE and RELEASE.
 */
#ifndef GALLOP_KV_KVPOOL_H
#define GALLOP_KV_KVPOOL_H

#include "kv/kv.h"

struct kvpool_group {
    char *region;
    size_t region_bytes;
    /* Number of allocatable blocks. A group with a window also has the block of zeros, number n_blocks. */
    size_t n_blocks;
    uint32_t *free; /* stack of free block numbers; the top is free[n_free - 1] */
    size_t n_free;
};

struct kvpool_seq {
    uint32_t *tile;    /* [tiles of max_len rows] */
    size_t first, end; /* the sequence holds blocks [first, end) */
    /* The sequence also holds blocks [0, head), which contain the sink. HEAD is 0 while FIRST is 0. */
    size_t head;
    /* The first row after the sink that was ever written; it is in block FIRST or later. */
    size_t low;
};

struct kvpool {
    size_t block_tiles, max_blocks; /* tiles of a block; blocks of max_len rows */
    unsigned shift;                 /* log2 of block_tiles */
    struct kvpool_group group[KV_MAX_GROUPS];
    struct kv_layer *layer; /* [L] */
    struct kvpool_seq *seq; /* [max_seqs, groups] */
    const uint32_t **table; /* [max_seqs, groups] */
    uint32_t *tiles;        /* memory of all tile tables */
    size_t *len;            /* [max_seqs] rows of each sequence */
    /* Functions of the cache type. ALLOCATE returns a block of group G, of which one must be available.
     * RELEASE ends a sequence's hold on BLOCK. */
    uint32_t (*allocate)(struct kv *c, size_t g);
    void (*release)(struct kv *c, size_t g, uint32_t block);
};

/* Bytes of the regions of all groups. C need not be open, but its limits, block and groups are set. */
size_t kvpool_bytes(const struct kv *c);

/* The maximum number of blocks that a sequence of max_len rows holds in any group. */
size_t kvpool_least_blocks(const struct kv *c);

/* Opens P, the first member of c->state, zeroed except for its functions. On failure the caller closes P. */
int kvpool_open(struct kv *c, struct kvpool *p, struct err *e);
void kvpool_close(struct kvpool *p);

struct kvpool_seq *kvpool_seq(const struct kv *c, const struct kvpool *p, size_t seq, size_t g);
/* Gets or sets the number of the I-th block of a sequence. */
uint32_t kvpool_block(const struct kvpool *p, const struct kvpool_seq *q, size_t i);
void kvpool_set(const struct kvpool *p, struct kvpool_seq *q, size_t i, uint32_t block);

/* Pops a block from the stack of free blocks, or pushes BLOCK. */
uint32_t kvpool_pop(struct kvpool *p, size_t g);
void kvpool_push(struct kvpool *p, size_t g, uint32_t block);

/* Returns how many blocks SEQ must allocate in group G to hold N rows. */
size_t kvpool_lacks(const struct kv *c, const struct kvpool *p, size_t seq, size_t g, size_t n);
/* Returns whether N_FREE blocks of group G are enough for WANT [n]. */
bool kvpool_has_room(const struct kv *c, size_t g, size_t n_free, const struct kv_want *want, size_t n);
/* Allocates the blocks that SEQ lacks for N rows, in all groups. */
void kvpool_extend(struct kv *c, struct kvpool *p, size_t seq, size_t n);

/* These functions implement kv_sees(), kv_truncate() and kv_advance(). */
bool kvpool_sees(const struct kv *c, size_t seq, size_t n);
int kvpool_truncate(struct kv *c, size_t seq, size_t n);
void kvpool_advance(struct kv *c, size_t seq, size_t pos);

/* The blocks of group G that a query at position N sees: [0, head) and [first, end). */
struct kvpool_range {
    size_t head, first, end;
};
struct kvpool_range kvpool_range(const struct kv *c, size_t g, size_t n);
/* Prepares the table of an empty sequence that will hold the blocks from FIRST on and the blocks of the sink. Entries
 * before FIRST get the block of zeros. Rows after the sink and before row LOW will never be written. */
void kvpool_begin(const struct kvpool *p, size_t g, struct kvpool_seq *q, size_t first, size_t low);
/* Returns the value of LOW for a sequence that shares the blocks of Q from FIRST on. */
size_t kvpool_low(const struct kv *c, const struct kvpool_seq *q, size_t first);
void kvpool_copy(const struct kv *c, const struct kvpool *p, size_t g, uint32_t from, uint32_t to);

/* Copy a block of group G to or from kv_block_bytes() bytes, ordered by layer, head, K and V. */
void kvpool_save(const struct kv *c, const struct kvpool *p, size_t g, uint32_t block, char *out);
void kvpool_load(const struct kv *c, const struct kvpool *p, size_t g, uint32_t block, const char *bytes);

struct kv_view kvpool_view(const struct kv *c, size_t seq);
size_t kvpool_held_bytes(const struct kv *c, size_t seq);
size_t kvpool_region_bytes(const struct kv *c);

/* Adds to COUNT [n_blocks] the number of sequences that hold each block of group G. ERR_INPUT: a table or the
 * stack of free blocks is inconsistent. */
int kvpool_count(const struct kv *c, size_t g, uint32_t *count, struct err *e);

/* Calls CHECK for each group with zeroed counts. */
typedef int kvpool_check_fn(const struct kv *c, size_t g, uint32_t *count, struct err *e);
int kvpool_check(const struct kv *c, kvpool_check_fn *check, struct err *e);

#endif
