/* kv.h - KV caches: where the K and V rows of a sequence are.
 *
 * A cache hands out tiles of 16 token rows. For each sequence it gives tables of tile numbers, one for each group of
 * layers with the same window and sink, and the base addresses of each layer (struct kv_view). It never reads the rows.
 * Each type of cache has a row in types.def and a struct kv_ops, which kv_paged.c, kv_grow.c or kv_extern.c defines and
 * this header declares. Functions return ERR_NOSPACE (over budget), ERR_NOMEM and KV_GONE (rows that are needed were
 * dropped) instead of aborting, and then leave the cache unchanged. The functions are not thread safe and are called
 * between steps only.
 *
 * A layer keeps all rows, or the last rows (a window), or a window and the first rows of the sequence (a sink, as in
 * StreamingLLM, https://arxiv.org/abs/2309.17453). Only rows between the sink and the window are dropped.
 *
 * The last reserve, truncate, fork or adopt sets the length of a sequence. Rows that a reserve adds may be written;
 * earlier rows are final. A DT_I8 tile holds 16 * dp bytes and then 16 float scales, one per row, where dp is the
 * dimension of the layer's heads rounded up to 16. kern/format/attn_i4.h describes DT_I4 tiles. The tiles of all layers
 * have the size of the largest one.
 */
#ifndef GALLOP_KV_KV_H
#define GALLOP_KV_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kern/attention.h"
#include "kern/format/kv.h"
#include "kv/prefix.h"

enum {
    /* An error code besides those of err.h: needed rows were dropped and must be computed again. */
    KV_GONE = 64,
    KV_MAX_GROUPS = 8,
    KV_MIN_BLOCK = 16,
    KV_MAX_BLOCK = 256,
    /* Default rows of a block of type paged. Smaller blocks share longer prefixes. */
    KV_PAGED_BLOCK = 64,
    KV_READ_AHEADS = 8 /* maximum number of concurrent kv_read_ahead() reads */
};

enum { KV_READ_AHEAD_NOTHING = -1, KV_READ_AHEAD_LATER = -2 };

enum kv_layout {
    KV_BLOCK_MAJOR, /* pooled types: [blocks][n_kv][K, V][rows of a block] */
    KV_HEAD_MAJOR   /* [K, V][n_kv][blocks][rows of a block] */
};

struct store;

struct kv_limits {
    size_t n_layers, n_kv, head_dim; /* n_layers: layers that store rows; n_kv: KV heads */
    /* Number of further layers. They read rows of the first n_layers, so nothing is reserved for them. */
    size_t n_shared;
    enum dtype dtype; /* type of the rows: DT_F32, DT_BF16, DT_I8 or DT_I4 */
    size_t max_seqs;  /* maximum number of sequences, numbered from 0 */
    size_t max_len;   /* maximum number of rows of a sequence */
    /* Budget: maximum number of rows of all sequences together. Pooled types round it up to blocks. */
    size_t pool_tokens;
    /* Rows of a block, a power of two from 16 to 256. 0: kv_block() chooses the number. */
    size_t block;
    enum kv_layout layout; /* memory layout of the pool of pooled types */
    /* Pooled types: whether the rows of finished sequences stay in the prefix cache. */
    bool keep_prefixes;
    enum prefix_kind prefix_index;
    /* The KV store that keeps copies of blocks outside the pool if keep_prefixes is set. NULL: no store.
     * Borrowed for the cache's life. */
    struct store *store;
    /* A hash of everything that rows depend on besides tokens, seeds and these limits, such as the model's
     * weights. It becomes part of the store's keys. */
    struct prefix_key store_context;
    size_t splits; /* bmc only: steps in which a region grows to max_len; 0: floor(sqrt(max_len)) */
    /* Maximum number of rows of all sequences after their kv_advance() positions. 0: no limit. */
    size_t step_tokens;
    /* [n_layers + n_shared] In layer l, a query at position p sees rows from p + 1 - window[l] on (window 0:
     * all rows) and the first sink[l] rows. NULL: none. Borrowed for the cache's life, like DIM. */
    const size_t *window, *sink;
    /* [n_layers] Dimension of a layer's heads, at most head_dim. NULL: all have head_dim. */
    const size_t *dim;
    /* The threads that write to every page of the KV pool at open, so that each page is allocated near a
     * thread. NULL: pages are allocated when they are first written. */
    struct pool *touch;
};

/* Layers with the same window and sink, which share tile tables. Layers that keep all rows are group 0. */
struct kv_group {
    size_t window; /* number of last rows that are kept; 0: all rows */
    size_t sink;   /* number of first rows that are kept besides the window */
    size_t n_layers;
};

/* A demand for memory: sequence SEQ needs rows [0, n). */
struct kv_want {
    size_t seq, n;
};

struct kv;

/* The functions of a cache type. The exported functions below check arguments and call them. */
struct kv_ops {
    /* For types that reserve a pool at open, and else NULL. pool_bytes() returns the size of the pool in bytes,
     * least_blocks() the number of blocks that the pool must have at least: those of a sequence of max_len rows. Both
     * are called before the cache is open (state NULL). */
    size_t (*pool_bytes)(const struct kv *c);
    size_t (*least_blocks)(const struct kv *c);
    int (*open)(struct kv *c, struct err *e);
    int (*reserve)(struct kv *c, size_t seq, size_t n);
    bool (*has_room)(const struct kv *c, const struct kv_want *want, size_t n);
    int (*truncate)(struct kv *c, size_t seq, size_t n);
    int (*fork)(struct kv *c, size_t from, size_t n, size_t to);
    void (*advance)(struct kv *c, size_t seq, size_t pos);
    /* The functions of the prefix cache. NULL: the type has no prefix cache. */
    void (*set_tokens)(struct kv *c, size_t seq, size_t pos, const int32_t *token, size_t n);
    void (*publish)(struct kv *c, size_t seq, const int32_t *token, size_t n, bool last);
    size_t (*adopt)(struct kv *c, size_t seq, struct prefix_key seed, const int32_t *token, size_t n);
    /* Reading ahead from a store; see kv_read_ahead(). NULL: the type cannot have a store. */
    int (*read_ahead)(struct kv *c, struct prefix_key seed, const int32_t *token, size_t n, size_t *from,
                      size_t *to);
    bool (*read_ahead_go_on)(struct kv *c, int handle);
    void (*read_ahead_end)(struct kv *c, int handle);
    void (*read_ahead_wait)(struct kv *c, double seconds);
    bool (*sees)(const struct kv *c, size_t seq, size_t n);
    /* For types whose block tables come from the caller. NULL: the cache makes its own tables. */
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
    /* For types whose regions grow: returns the new capacity of a region that has HAVE rows and needs NEED rows. */
    size_t (*capacity)(const struct kv *c, size_t have, size_t need);
};

extern const struct kv_ops kv_paged, kv_grow, kv_extern;
size_t kv_grow_doubled(const struct kv *c, size_t have, size_t need);
size_t kv_grow_in_splits(const struct kv *c, size_t have, size_t need);

struct kv {
    const struct kv_type *type;
    struct kv_limits lim; /* the limits of kv_open(), with lim.block set */
    size_t tile_bytes;    /* bytes of a K or V tile of one head */
    struct kv_group group[KV_MAX_GROUPS];
    size_t n_groups;
    uint8_t *group_of; /* [n_layers] index into GROUP */
    void *state;       /* private data of the type */
};

bool kv_type_pooled(const char *name); /* whether NAME is a type that reserves a pool at open */
/* Returns whether the caller provides the block tables of the type NAME; false for unknown names. */
bool kv_type_extern(const char *name);
/* For tests: the name of the I-th type that makes its own block tables. NULL after the last one. */
const char *kv_type_name(size_t i);

/* Parses "head_major" or "block_major". False: NAME is neither. */
bool kv_layout_of_name(const char *name, enum kv_layout *layout);
const char *kv_layout_name(enum kv_layout layout);

/* Checks that TYPE is known and can be opened with LIM. Returns ERR_INPUT and a sentence otherwise. */
int kv_check_limits(const char *type, const struct kv_limits *lim, struct err *e);
int kv_open(struct kv *c, const char *type, const struct kv_limits *lim, struct err *e);
void kv_close(struct kv *c); /* C may be zeroed */

/* Reserves memory for rows [0, n) of SEQ, except rows that windows have dropped. May move existing rows, those of
 * other sequences, too. */
int kv_reserve(struct kv *c, size_t seq, size_t n);

/* Returns whether kv_reserve() would succeed now for all elements of WANT [n], in any order and with windows advanced
 * after each step. The elements name different sequences. Ignores later demands of other sequences, and the memory that
 * dynamic and bmc need while a region grows. */
bool kv_has_room(const struct kv *c, const struct kv_want *want, size_t n);

/* Returns the maximum number of rows of all sequences together. 0: there is no limit, since every layer has a window
 * whose rows are dropped. */
size_t kv_most_rows(const struct kv *c);

/* Drops all rows of SEQ from row N on. KV_GONE: a query at position N would see rows that were dropped, or N
 * lies in a sink whose later rows were dropped. */
int kv_truncate(struct kv *c, size_t seq, size_t n);
void kv_release(struct kv *c, size_t seq); /* drops all rows of SEQ */

/* Gives the first N rows of FROM to TO, which is empty. In a group with a window, TO gets only the rows that
 * a query at position N sees. Returns KV_GONE in the same cases as kv_truncate(). */
int kv_fork(struct kv *c, size_t from, size_t n, size_t to);

/* Promises that SEQ will have no query before POS, so that the cache may drop rows that only earlier queries see. POS
 * is at most the length of SEQ, unless SEQ is empty. dynamic and bmc keep all rows. */
void kv_advance(struct kv *c, size_t seq, size_t pos);

/* Returns whether all rows that a query at position N of SEQ sees are in the cache. */
bool kv_sees(const struct kv *c, size_t seq, size_t n);

/* Gives SEQ, which is empty, the rows of the longest prefix of TOKEN [n] in the prefix cache under SEED. The rows may
 * come from running or finished sequences. Returns the number of rows; 0 for types without a prefix cache. From now on
 * kv_publish() adds the rows of SEQ under SEED. */
size_t kv_adopt(struct kv *c, size_t seq, struct prefix_key seed, const int32_t *token, size_t n);

/* Records that the rows [pos, pos + n) of SEQ, which are reserved, are computed from TOKEN [n]. */
void kv_set_tokens(struct kv *c, size_t seq, size_t pos, const int32_t *token, size_t n);

/* Adds the first N rows of SEQ, which are final and were computed from TOKEN [n] (kv_set_tokens()), to the prefix
 * cache. They stay there after SEQ ends until their blocks are needed. Call this function before kv_advance() drops
 * rows. LAST: SEQ gets no more rows; its partly filled last block is added too. Does nothing unless SEQ began with
 * kv_adopt(). Aborts if the rows were computed from other tokens. */
void kv_publish(struct kv *c, size_t seq, const int32_t *token, size_t n, bool last);

/* For types whose block tables come from the caller: sets the table of SEQ. Its rows from position 0 on are
 * in the blocks BLOCK [n] until the next call. Numbers are below kv_n_blocks(); blocks whose rows no query
 * sees may be 0, the block of zeros. */
void kv_lend(struct kv *c, size_t seq, const int32_t *block, size_t n);
void kv_copy_block(struct kv *c, size_t from, size_t to); /* copies a block in all layers; TO is not 0 */
/* The number of blocks, including block 0; 0 for types that make their own tables. */
size_t kv_n_blocks(const struct kv *c);

/* ---- reading ahead: loading KV blocks from the store into the pool ---- */

/* Starts to load the blocks of TOKEN [n] that the store has and the pool lacks, so that kv_adopt() with the
 * same arguments will find them. TOKEN is borrowed until the read ends. Returns a handle, and sets [*from,
 * *to) to the range of rows that will be added to the pool. KV_READ_AHEAD_NOTHING: the store has no more rows of
 * this prefix. KV_READ_AHEAD_LATER: another read is loading these blocks, or all handles are in use. */
int kv_read_ahead(struct kv *c, struct prefix_key seed, const int32_t *token, size_t n, size_t *from,
                  size_t *to);

/* Adds the blocks that have arrived to the prefix cache and requests the next blocks. True: the read is
 * finished and the handle is free. */
bool kv_read_ahead_go_on(struct kv *c, int handle);
void kv_read_ahead_end(struct kv *c, int handle); /* cancels the read; blocks that have arrived stay */
/* Waits until a block of any read arrives, at most SECONDS. */
void kv_read_ahead_wait(struct kv *c, double seconds);

/* Returns the addresses and tile tables of SEQ, valid until the next call that changes the cache. */
struct kv_view kv_view(const struct kv *c, size_t seq);
size_t kv_bytes(const struct kv *c);                  /* bytes of all sequences and free blocks */
size_t kv_held_bytes(const struct kv *c, size_t seq); /* bytes of the blocks, or of the region, of SEQ */

/* For tests: checks that every block is free, or held by as many sequences as its count says. Returns ERR_INPUT and a
 * sentence otherwise. */
int kv_check(const struct kv *c, struct err *e);

/* ---- sizes, for which no cache need be open ---- */

/* Returns the rows of a block of TYPE: lim->block if it is set. Otherwise it is the largest power of two,
 * from 16 to the maximum of TYPE, that meets two limits: a block of one layer takes at most a quarter of the
 * level 2 cache, and it has at most a quarter of the rows of the smallest window. */
size_t kv_block(const char *type, const struct kv_limits *lim);
size_t kv_token_bytes(const struct kv_limits *lim); /* bytes of one token in all layers */
/* Bytes of N rows of a sequence, without rows that no query sees. */
size_t kv_seq_bytes(const struct kv_limits *lim, size_t n);
/* Bytes that a pooled type reserves at open; 0 for other types. */
size_t kv_pool_bytes(const char *type, const struct kv_limits *lim);
/* The bytes that a pooled type reserves, or the limit up to which another type may grow. */
size_t kv_budget_bytes(const char *type, const struct kv_limits *lim);
/* Returns the largest pool_tokens with which kv_budget_bytes() is at most BYTES. */
size_t kv_pool_fit(const char *type, struct kv_limits lim, size_t bytes);
/* Bytes of the longest record that TYPE writes to a store (store/record.h). 0: the type writes no records.
 * SIZE_MAX: too large for size_t. */
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

/* Returns the first row that a query at POS sees through a window. 0 if WINDOW is 0. */
static inline size_t kv_first_row(size_t window, size_t pos)
{
    return window && pos + 1 > window ? pos + 1 - window : 0;
}

/* Returns the first window row of group G that a query at POS sees; 0 while the window touches the sink. */
static inline size_t kv_group_first(const struct kv_group *g, size_t pos)
{
    size_t first = kv_first_row(g->window, pos);

    return first > g->sink ? first : 0;
}

#endif
