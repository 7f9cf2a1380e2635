/* kvpool.h - the common part of the pooled types: for each group of layers a region of equal KV blocks, which
 * is reserved at open and never grows, and for each sequence and group a table of its tiles.
 *
 * A block has a number, which means the same rows in all layers of its group, and in each layer K and V of
 * all heads. A sequence holds blocks [0, head) and [first, end) of its positions. Between them, where a
 * window has dropped rows, its table has the number of a block of zeros that is never written, so that a
 * kernel may read it. [0, head) are the blocks of the sink once they are apart from the window; before that,
 * FIRST is 0. The type decides how blocks are shared, and allocates and releases them with the functions
 * ALLOCATE and RELEASE.
 */
#ifndef GALLOP_KV_KVPOOL_H
#define GALLOP_KV_KVPOOL_H

#include "kv/kv.h"

struct kvpool_group {
    char *region;
    size_t region_bytes;
    /* Blocks that can be allocated. A group with a window has one more, number n_blocks, which holds
     * zeros. */
    size_t n_blocks;
    uint32_t *free; /* stack of free blocks; the top is n_free - 1 */
    size_t n_free;
};

struct kvpool_seq {
    uint32_t *tile;    /* [tiles of max_len] */
    size_t first, end; /* the sequence holds blocks [first, end) */
    /* The sequence also holds blocks [0, head), those of the sink: none of them, or all of them if FIRST is
     * not 0. */
    size_t head;
    /* The first row after the sink that was ever written, in or above block FIRST. */
    size_t low;
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
    /* Allocates a block of group G; there must be one. Releases the hold of a sequence on a block. */
    uint32_t (*allocate)(struct kv *c, size_t g);
    void (*release)(struct kv *c, size_t g, uint32_t block);
};

/* Bytes of the regions of all groups, for c->lim (with its block set) and the groups of C. */
size_t kvpool_bytes(const struct kv *c);

/* The most blocks that a sequence of max_len rows holds, in the group where that is most. */
size_t kvpool_least_blocks(const struct kv *c);

/* Opens P, the first member of the type's state, which is zeroed but for ALLOCATE and RELEASE. On failure the
 * type closes it. */
int kvpool_open(struct kv *c, struct kvpool *p, struct err *e);
void kvpool_close(struct kvpool *p);

struct kvpool_seq *kvpool_seq(const struct kv *c, const struct kvpool *p, size_t seq, size_t g);
/* The number of the I-th block of a sequence. */
uint32_t kvpool_block(const struct kvpool *p, const struct kvpool_seq *q, size_t i);
void kvpool_set(const struct kvpool *p, struct kvpool_seq *q, size_t i, uint32_t block);

/* The stack of free blocks: takes one from it, puts one back. */
uint32_t kvpool_pop(struct kvpool *p, size_t g);
void kvpool_push(struct kvpool *p, size_t g, uint32_t block);

/* How many blocks SEQ must allocate in group G to hold N rows. */
size_t kvpool_lacks(const struct kv *c, const struct kvpool *p, size_t seq, size_t g, size_t n);
/* Whether N_FREE blocks of group G are enough for WANT [n]. */
bool kvpool_has_room(const struct kv *c, size_t g, size_t n_free, const struct kv_want *want, size_t n);
/* Allocates the blocks that SEQ lacks for N rows, in all groups. */
void kvpool_extend(struct kv *c, struct kvpool *p, size_t seq, size_t n);

/* All rows that a query at N of SEQ sees are in the cache. */
bool kvpool_sees(const struct kv *c, size_t seq, size_t n);
int kvpool_truncate(struct kv *c, size_t seq, size_t n);
void kvpool_advance(struct kv *c, size_t seq, size_t pos);

/* The blocks of group G that a query at N sees: [0, head) and [first, end). */
struct kvpool_range {
    size_t head, first, end;
};
struct kvpool_range kvpool_range(const struct kv *c, size_t g, size_t n);
/* Prepares the table of an empty sequence that will hold blocks from FIRST on, besides those of the sink:
 * earlier blocks are the one of zeros. Rows after the sink and below LOW will never be written. */
void kvpool_begin(const struct kvpool *p, size_t g, struct kvpool_seq *q, size_t first, size_t low);
/* The LOW of a sequence that gets the blocks of Q from FIRST on. */
size_t kvpool_low(const struct kv *c, const struct kvpool_seq *q, size_t first);
void kvpool_copy(const struct kv *c, const struct kvpool *p, size_t g, uint32_t from, uint32_t to);

/* A block of group G as kv_block_bytes() bytes: by layer, head, K and V, whatever the layout of the
 * pool. */
void kvpool_save(const struct kv *c, const struct kvpool *p, size_t g, uint32_t block, char *out);
void kvpool_load(const struct kv *c, const struct kvpool *p, size_t g, uint32_t block, const char *bytes);

struct kv_view kvpool_view(const struct kv *c, size_t seq);
size_t kvpool_held_bytes(const struct kv *c, size_t seq);
size_t kvpool_region_bytes(const struct kv *c);

/* Adds to COUNT [n_blocks] how many sequences hold each block of group G. ERR_INPUT: a table or the list of
 * free blocks is wrong. */
int kvpool_count(const struct kv *c, size_t g, uint32_t *count, struct err *e);

/* Calls CHECK for each group with zeroed counts. */
typedef int kvpool_check_fn(const struct kv *c, size_t g, uint32_t *count, struct err *e);
int kvpool_check(const struct kv *c, kvpool_check_fn *check, struct err *e);

#endif
