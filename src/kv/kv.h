/* kv.h - KV caches: where the K and V rows of a sequence are.
 *
 * A cache hands out tiles of 16 token rows. For each sequence it gives tables of tile numbers, one for each
 * group of layers with the same window and sink, and the base addresses of each layer (struct kv_view). It
 * never reads the rows. A type of cache is a row of types.def and a struct kv_ops, which kv_paged.c,
 * kv_grow.c and kv_extern.c define: this header declares them. ERR_NOSPACE (over budget), ERR_NOMEM and
 * KV_GONE (rows that a window has dropped) are results, never an abort, and after each of them nothing has
 * changed. Not thread safe; called between steps only.
 *
 * A layer keeps all rows, or those of a window, or those of a window and its sink, which is the first rows of
 * the sequence (StreamingLLM, https://arxiv.org/abs/2309.17453). No rows are dropped until there are some
 * between sink and window.
 *
 * Rows below the length of a sequence (set by the last reserve, truncate, fork or adopt) are final; rows that
 * a reserve adds may be written. A tile of DT_I8 holds 16 dp bytes and then 16 float scales, one per row;
 * kern/format/attn_i4.h describes one of DT_I4. dp is the dimension of the layer's heads, rounded up to 16.
 * Tiles of all layers have the size of the largest.
 */
#ifndef GALLOP_KV_KV_H
#define GALLOP_KV_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/threads/pool.h"
#include "kern/format/kv.h"
#include "kern/kern.h"
#include "kv/prefix.h"

enum {
    /* A code besides those of err.h: rows that are needed were dropped and must be computed again. */
    KV_GONE = 64,
    KV_MAX_GROUPS = 8,
    KV_MIN_BLOCK = 16,
    KV_MAX_BLOCK = 256,
    /* Default block of paged. Only whole blocks are shared, so small ones share more. */
    KV_PAGED_BLOCK = 64,
    KV_AHEADS = 8 /* sequences that read from the store at once */
};

enum { KV_AHEAD_NOTHING = -1, KV_AHEAD_LATER = -2 };

enum kv_layout {
    KV_BLOCK_MAJOR, /* pooled types: [blocks][n_kv][K, V][rows of a block] */
    KV_HEAD_MAJOR   /* [K, V][n_kv][blocks][rows of a block] */
};

struct store;

struct kv_limits {
    size_t n_layers, n_kv, head_dim; /* layers that store rows */
    /* Layers after those, which read rows of the others. Nothing is reserved for them. */
    size_t n_shared;
    enum dtype dtype; /* of the rows: DT_F32, DT_BF16, DT_I8 or DT_I4 */
    size_t max_seqs;  /* most sequences, numbered from 0 */
    size_t max_len;   /* most positions of a sequence */
    /* Budget: rows of all sequences together. Pooled types round it up to blocks. */
    size_t pool_tokens;
    /* Rows of a block, a power of two from 16 to 256. 0: kv_block() chooses. */
    size_t block;
    enum kv_layout layout; /* of pooled types */
    /* Pooled types: rows of finished sequences stay in the prefix cache. */
    bool keep_prefixes;
    enum prefix_kind prefix_index;
    /* Keeps blocks outside the pool, if keep_prefixes is set. NULL: no store. Borrowed for the cache's
     * life. */
    struct store *store;
    /* What rows depend on besides tokens, seeds and these limits: part of the store's keys. */
    struct prefix_key store_context;
    size_t splits; /* bmc only; 0: floor(sqrt(max_len)) */
    /* Most rows after the positions of kv_advance(), in all sequences together. 0: no limit. */
    size_t step_tokens;
    /* [n_layers + n_shared] A query at position p sees rows from p + 1 - window[l] on (0: all rows), and the
     * first sink[l] rows. NULL: no windows, no sinks. Borrowed for the cache's life, like DIM. */
    const size_t *window, *sink;
    /* [n_layers] Dimension of a layer's heads, at most head_dim. NULL: all have head_dim. */
    const size_t *dim;
    /* Its threads touch the pages of the pool at open. NULL: pages come when they are first written. */
    struct pool *touch;
};

/* Layers with the same window and sink share a tile table. If any layer keeps all rows, that is group 0. */
struct kv_group {
    size_t window; /* 0: keeps all rows */
    size_t sink;   /* first rows that are kept besides the window */
    size_t n_layers;
};

/* Rows [0, n) of a sequence. */
struct kv_want {
    size_t seq, n;
};

struct kv;

/* The functions of a type. The exported functions below check their arguments and call these. */
struct kv_ops {
    /* Types that reserve their budget at open: the bytes of that, and the most blocks that a sequence of
     * max_len rows holds. Called before there is a cache (state NULL). NULL: the type reserves nothing. */
    size_t (*pool_bytes)(const struct kv *c);
    size_t (*least_blocks)(const struct kv *c);
    int (*open)(struct kv *c, struct err *e);
    int (*reserve)(struct kv *c, size_t seq, size_t n);
    bool (*has_room)(const struct kv *c, const struct kv_want *want, size_t n);
    int (*truncate)(struct kv *c, size_t seq, size_t n);
    int (*fork)(struct kv *c, size_t from, size_t n, size_t to);
    void (*advance)(struct kv *c, size_t seq, size_t pos);
    /* NULL: the type has no prefix cache. */
    void (*publish)(struct kv *c, size_t seq, const int32_t *token, size_t n, bool last);
    size_t (*adopt)(struct kv *c, size_t seq, struct prefix_key seed, const int32_t *token, size_t n);
    /* Types that can have a store; see below. */
    int (*ahead)(struct kv *c, struct prefix_key seed, const int32_t *token, size_t n, size_t *from,
                 size_t *to);
    bool (*ahead_go_on)(struct kv *c, int handle);
    void (*ahead_end)(struct kv *c, int handle);
    void (*ahead_wait)(struct kv *c, double seconds);
    bool (*sees)(const struct kv *c, size_t seq, size_t n);
    /* Types whose block tables come from the caller. NULL: the cache makes its tables. */
    void (*lend)(struct kv *c, size_t seq, const int32_t *block, size_t n);
    void (*copy_block)(struct kv *c, size_t from, size_t to);
    size_t (*n_blocks)(const struct kv *c);
    struct kv_view (*view)(const struct kv *c, size_t seq);
    size_t (*bytes)(const struct kv *c);
    size_t (*held)(const struct kv *c, size_t seq);
    int (*check)(const struct kv *c, struct err *e);
    void (*close)(struct kv *c);
};

/* A row of types.def. */
struct kv_type {
    const char *name;
    const struct kv_ops *ops;
    size_t max_block; /* largest block that kv_block() chooses */
    /* Types whose regions grow: the capacity for NEED rows where the region has HAVE. */
    size_t (*capacity)(const struct kv *c, size_t have, size_t need);
};

extern const struct kv_ops kv_paged, kv_grow, kv_extern;
size_t kv_grow_doubled(const struct kv *c, size_t have, size_t need);
size_t kv_grow_in_splits(const struct kv *c, size_t have, size_t need);

struct kv {
    const struct kv_type *type;
    struct kv_limits lim; /* with its block set */
    size_t tile_bytes;    /* of the K (or V) tile of one head */
    struct kv_group group[KV_MAX_GROUPS];
    size_t n_groups;
    uint8_t *group_of; /* [n_layers] index into GROUP */
    void *state;       /* of the type */
};

bool kv_type_pooled(const char *name); /* false also for unknown names */
/* its block tables come from the caller; false also for unknown names */
bool kv_type_extern(const char *name);
/* Tests: the name of the I-th type that makes its own tables. NULL: there are no more. */
const char *kv_type_name(size_t i);

bool kv_layout_of_name(const char *name, enum kv_layout *layout); /* "head_major", "block_major" */
const char *kv_layout_name(enum kv_layout layout);

/* Checks that TYPE is known and can be opened with LIM. ERR_INPUT and a sentence otherwise. */
int kv_check_limits(const char *type, const struct kv_limits *lim, struct err *e);
int kv_open(struct kv *c, const char *type, const struct kv_limits *lim, struct err *e);
void kv_close(struct kv *c); /* a zeroed one is fine */

/* Reserves rows [0, n) of SEQ, without those that its windows have dropped. May move rows. */
int kv_reserve(struct kv *c, size_t seq, size_t n);

/* Whether kv_reserve() would succeed now for all of WANT [n], which name different sequences, in any order
 * and with windows advanced after each step. It does not count what other sequences may still ask for, nor
 * the memory that dynamic and bmc need while a region grows. */
bool kv_has_room(const struct kv *c, const struct kv_want *want, size_t n);

/* Drops the rows of SEQ from N on. KV_GONE: a query at N would see rows that were dropped, or N lies in a
 * sink whose later rows were dropped. */
int kv_truncate(struct kv *c, size_t seq, size_t n);
void kv_release(struct kv *c, size_t seq); /* drops all rows of SEQ */

/* Gives the first N rows of FROM to TO, which is empty; of windows, those that a query at N sees. KV_GONE as
 * for kv_truncate(). */
int kv_fork(struct kv *c, size_t from, size_t n, size_t to);

/* Promises that no query of SEQ before POS will come; rows that only those see may be dropped. POS is at most
 * the length of SEQ, unless SEQ is empty. dynamic and bmc keep all rows. */
void kv_advance(struct kv *c, size_t seq, size_t pos);

/* All rows that a query at position N of SEQ sees are in the cache. */
bool kv_sees(const struct kv *c, size_t seq, size_t n);

/* Gives SEQ, which is empty, the rows of the longest prefix of TOKEN [n] that the prefix cache has under
 * SEED, from running or finished sequences. kv_publish() adds the rows of SEQ under SEED from now on. Returns
 * the number of rows; 0 for types without a prefix cache. */
size_t kv_adopt(struct kv *c, size_t seq, struct prefix_key seed, const int32_t *token, size_t n);

/* Adds the first N rows of SEQ, which are final and those of TOKEN [n], to the prefix cache, where they stay
 * after SEQ ends until their blocks are needed. Call it before kv_advance() drops rows. LAST: SEQ will have
 * no more rows, so that a block which is not full is added, too. Does nothing unless SEQ began with
 * kv_adopt(). */
void kv_publish(struct kv *c, size_t seq, const int32_t *token, size_t n, bool last);

/* Types whose tables come from the caller: the rows of SEQ lie in BLOCK [n], from position 0 on, until the
 * next call. Numbers are below kv_n_blocks(); blocks whose rows no query sees may be 0, the block of
 * zeros. */
void kv_lend(struct kv *c, size_t seq, const int32_t *block, size_t n);
void kv_copy_block(struct kv *c, size_t from, size_t to); /* in all layers; TO is not 0 */
size_t kv_n_blocks(const struct kv *c); /* with block 0; 0 for types that make their tables */

/* ---- reading ahead: KV blocks that the store has and the pool has not ---- */

/* Begins to read the blocks that kv_adopt() would use with these arguments if all blocks of the store were in
 * the pool. TOKEN is borrowed until the read ends. Returns a handle, and in [*from, *to) the rows that will
 * be added to those in the pool. KV_AHEAD_NOTHING: the store has no more. KV_AHEAD_LATER: another read brings
 * these blocks, or all handles are in use. */
int kv_ahead(struct kv *c, struct prefix_key seed, const int32_t *token, size_t n, size_t *from, size_t *to);

/* Adds the blocks that have come to the prefix cache and asks for the next ones. True: the read is done, and
 * the handle free. */
bool kv_ahead_go_on(struct kv *c, int handle);
void kv_ahead_end(struct kv *c, int handle); /* cancels the read; blocks that have come stay */
/* Waits until a block comes for any of the reads, at most SECONDS. */
void kv_ahead_wait(struct kv *c, double seconds);

/* valid until the next call that changes the cache */
struct kv_view kv_view(const struct kv *c, size_t seq);
size_t kv_bytes(const struct kv *c);                  /* memory held now, by all sequences and free blocks */
size_t kv_held_bytes(const struct kv *c, size_t seq); /* of the blocks (or the region) of SEQ */

/* Tests: checks that every block is free, or held as often as its count says. ERR_INPUT and a sentence
 * otherwise. */
int kv_check(const struct kv *c, struct err *e);

/* ---- sizes, before there is a cache ---- */

/* Rows of a block of TYPE: lim->block if set. Otherwise the largest power of two from 16 on whose K and V
 * rows of all heads take at most a quarter of the level 2 cache, and that is at most a quarter of the
 * smallest window. */
size_t kv_block(const char *type, const struct kv_limits *lim);
size_t kv_token_bytes(const struct kv_limits *lim); /* of one token in all layers */
/* Bytes of N rows of a sequence, without rows that no query sees. */
size_t kv_seq_bytes(const struct kv_limits *lim, size_t n);
size_t kv_pool_bytes(const char *type, const struct kv_limits *lim); /* reserved by a pooled type */
/* The bytes that a pooled type reserves, or up to which another type may grow. */
size_t kv_budget_bytes(const char *type, const struct kv_limits *lim);
/* The largest pool_tokens that fits into BYTES. */
size_t kv_pool_fit(const char *type, struct kv_limits lim, size_t bytes);
/* The longest record that TYPE writes to a store (store/record.h). 0: it writes none. SIZE_MAX: too large for
 * size_t. */
size_t kv_record_bytes(const char *type, const struct kv_limits *lim);
/* The smallest pool_tokens with which one sequence can grow to max_len; whole blocks for pooled types. */
size_t kv_least_tokens(const char *type, const struct kv_limits *lim);
/* Dimension of the heads of LAYER; tiles round it up to 16. */
static inline size_t kv_layer_dim(const struct kv_limits *lim, size_t layer)
{
    return lim->dim ? lim->dim[layer] : lim->head_dim;
}

/* Bytes of a block of group G: K and V rows of all heads, in all layers of the group. */
static inline size_t kv_block_bytes(const struct kv *c, size_t g)
{
    return c->group[g].n_layers * 2 * c->lim.n_kv * (c->lim.block / KERN_TILE) * c->tile_bytes;
}

/* The first row that a window shows to a query at POS. */
static inline size_t kv_first_row(size_t window, size_t pos)
{
    return window && pos + 1 > window ? pos + 1 - window : 0;
}

/* The same for a group; 0 as long as its window touches its sink. */
static inline size_t kv_group_first(const struct kv_group *g, size_t pos)
{
    size_t first = kv_first_row(g->window, pos);

    return first > g->sink ? first : 0;
}

#endif
