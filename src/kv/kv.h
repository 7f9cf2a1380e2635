/* kv.h - KV caches: where the rows of a sequence lie.
 *
 * A cache hands out tiles of 16 token rows and answers with tables of tile numbers per sequence, one for each
 * group of layers that see equally far, plus the base addresses of each layer (ops/batch.h, struct kv_view).
 * It never looks into the rows. Types are rows of types.def. Exhaustion is ERR_NOSPACE (a budget) or
 * ERR_NOMEM, rows that a window has dropped are KV_GONE; none of them is an abort, and after each nothing has
 * changed. Not thread safe; called between steps only.
 *
 * A layer keeps all rows, those of a window, or those of a window and the first ones in front of it, its sink
 * (StreamingLLM, https://arxiv.org/abs/2309.17453). Until window and sink part, there is nothing between
 * them.
 *
 * Rows below the length of a sequence (the last reserve, truncate, fork, adopt) are final; those that a
 * reserve adds may be written. A tile of DT_I8 holds 16 dp bytes and behind them 16 float scales, one a row,
 * one of DT_I4 what kern/format/attn_i4.h says;
 * dp are the dims of the layer's heads, rounded up to 16. All layers get tiles for the largest.
 */
#ifndef GALLOP_KV_KV_H
#define GALLOP_KV_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/threads/pool.h"
#include "kv/prefix.h"
#include "ops/batch.h"

enum {
    KV_GONE =
        64, /* a code beside those of err.h: rows that are asked for have been dropped; compute them again */
    KV_MAX_GROUPS = 8,
    KV_MIN_BLOCK = 16,
    KV_MAX_BLOCK = 256,
    KV_PAGED_BLOCK = 64, /* whole blocks are shared, so large ones share less */
    KV_AHEADS = 8        /* sequences whose rows are read ahead at once */
};

enum { KV_AHEAD_NOTHING = -1, KV_AHEAD_LATER = -2 };

enum kv_layout {
    KV_BLOCK_MAJOR, /* pooled types: [blocks][n_kv][K, V][rows of a block] */
    KV_HEAD_MAJOR   /* [K, V][n_kv][blocks][rows of a block] */
};

struct store;

struct kv_limits {
    size_t n_layers, n_kv, head_dim; /* of the layers that store rows */
    size_t n_shared;       /* layers behind those, which read some of their rows: nothing is reserved */
    enum dtype dtype;      /* of the rows: DT_F32, DT_BF16, DT_I8 or DT_I4 */
    size_t max_seqs;       /* sequence numbers run from 0 */
    size_t max_len;        /* positions of one sequence */
    size_t pool_tokens;    /* budget of rows of all sequences; pooled types round it up to blocks */
    size_t block;          /* rows of a block, a power of two from 16 to 256; 0: kv_block() */
    enum kv_layout layout; /* of pooled types */
    bool keep_prefixes; /* of pooled types: rows of sequences that are gone stay for those that begin alike */
    enum prefix_kind prefix_index;
    struct store *store; /* keeps blocks beyond the pool where prefixes are kept; NULL: nothing does. Borrowed
                            for the cache's life */
    struct prefix_key store_context; /* what rows depend on beside tokens, seeds and the sizes here */
    size_t splits;                   /* of bmc; 0: floor(sqrt(max_len)) */
    /* most rows beyond what kv_advance() was told, in all sequences together; 0: any number */
    size_t step_tokens;
    /* [n_layers + n_shared] a query at p sees rows from p + 1 - window on, 0: all; NULL: no window. And the
     * first rows, which are seen beside the window; NULL: none. Borrowed for the cache's life, as is DIM */
    const size_t *window, *sink;
    const size_t *dim; /* [n_layers] of a head, at most head_dim; NULL: all have that */
    struct pool
        *touch; /* these threads touch the pool's pages at once; NULL: pages come when they are written */
};

/* Layers that see equally far share one tile table. Group 0 keeps all rows, if any layer does. */
struct kv_group {
    size_t window; /* 0: keeps all rows */
    size_t sink;   /* first rows that are kept beside the window */
    size_t n_layers;
};

/* Rows [0, n) of a sequence that are asked for. */
struct kv_want {
    size_t seq, n;
};

struct kv;

/* What a type does. */
struct kv_ops {
    /* Of types that reserve their budget at open, before there is a cache (state NULL): the bytes of that,
     * and the blocks that one sequence of max_len rows holds at most. NULL: there is nothing reserved. */
    size_t (*pool_bytes)(const struct kv *c);
    size_t (*least_blocks)(const struct kv *c);
    int (*open)(struct kv *c, struct err *e);
    int (*reserve)(struct kv *c, size_t seq, size_t n);
    bool (*has_room)(const struct kv *c, const struct kv_want *want, size_t n);
    int (*truncate)(struct kv *c, size_t seq, size_t n);
    int (*fork)(struct kv *c, size_t from, size_t n, size_t to);
    void (*advance)(struct kv *c, size_t seq, size_t pos);
    void (*publish)(struct kv *c, size_t seq, const int32_t *token, size_t n,
                    bool last); /* NULL: keeps none */
    size_t (*adopt)(struct kv *c, size_t seq, struct prefix_key seed, const int32_t *token, size_t n);
    /* Of types that can have a store, as below. */
    int (*ahead)(struct kv *c, struct prefix_key seed, const int32_t *token, size_t n, size_t *from,
                 size_t *to);
    bool (*ahead_go_on)(struct kv *c, int place);
    void (*ahead_end)(struct kv *c, int place);
    void (*ahead_wait)(struct kv *c, double seconds);
    bool (*sees)(const struct kv *c, size_t seq, size_t n);
    /* Of types whose tables come from the caller; NULL: the cache makes them itself. */
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
    size_t max_block; /* largest block chosen automatically */
    /* Of types whose regions grow: the rows wanted for NEED where there is room for HAVE. */
    size_t (*capacity)(const struct kv *c, size_t have, size_t need);
};

extern const struct kv_ops kv_paged, kv_grow, kv_extern;
size_t kv_grow_doubled(const struct kv *c, size_t have, size_t need);
size_t kv_grow_in_splits(const struct kv *c, size_t have, size_t need);

struct kv {
    const struct kv_type *type;
    struct kv_limits lim; /* block filled in */
    size_t tile_bytes;    /* of a K (or V) tile of one head */
    struct kv_group group[KV_MAX_GROUPS];
    size_t n_groups;
    uint8_t *group_of; /* [n_layers] */
    void *state;       /* the type's */
};

bool kv_type_pooled(const char *name); /* reserves its budget at open; false also for unknown names */
bool kv_type_extern(const char *name); /* its tables come from the caller; false also for unknown names */
/* Tests: of the I-th type that makes its tables itself; NULL: there are no more. */
const char *kv_type_name(size_t i);

bool kv_layout_of_name(const char *name, enum kv_layout *layout); /* "head_major", "block_major" */
const char *kv_layout_name(enum kv_layout layout);

/* TYPE is known and can be opened with LIM; ERR_INPUT and a sentence otherwise. */
int kv_check_limits(const char *type, const struct kv_limits *lim, struct err *e);
int kv_open(struct kv *c, const char *type, const struct kv_limits *lim, struct err *e);
void kv_close(struct kv *c); /* a zeroed one is fine */

/* Rows [0, n) of SEQ will be addressable, apart from those below a window. May move rows. */
int kv_reserve(struct kv *c, size_t seq, size_t n);

/* Whether all of WANT [n], each of another sequence, could be had at once as things stand: every kv_reserve()
 * up to there would find its budget, whatever the order, where windows are advanced after each step. What
 * other sequences may still ask for is not counted, nor what dynamic and bmc take beyond it when a region
 * grows. */
bool kv_has_room(const struct kv *c, const struct kv_want *want, size_t n);

/* Rows from N on are not needed. KV_GONE: a query at N would see rows that were dropped, or N lies in a sink
 * behind which rows were dropped. */
int kv_truncate(struct kv *c, size_t seq, size_t n);
void kv_release(struct kv *c, size_t seq); /* all rows of SEQ */

/* TO (empty) gets the first N rows of FROM, of windows what a query at N sees. KV_GONE as in
 * kv_truncate(). */
int kv_fork(struct kv *c, size_t from, size_t n, size_t to);

/* No query of SEQ below POS will come: what only those see may be given back. POS is at most the length of
 * SEQ, unless that is empty. dynamic and bmc keep all rows. */
void kv_advance(struct kv *c, size_t seq, size_t pos);

/* A query at N of SEQ would find all rows that it sees. */
bool kv_sees(const struct kv *c, size_t seq, size_t n);

/* SEQ (empty) gets the rows of the longest beginning of TOKEN [n] that is there, from sequences with the same
 * SEED, now running or gone, and is known as one of these from now on. Returns how many. Types that keep no
 * prefixes: 0. */
size_t kv_adopt(struct kv *c, size_t seq, struct prefix_key seed, const int32_t *token, size_t n);

/* The first N rows of SEQ, which are final, are those of TOKEN [n]: others can adopt them from now on, also
 * when SEQ is gone and until their place is needed. To be called before kv_advance() lets go of rows. LAST:
 * no more will come, so that a block which is not full counts, too. Nothing happens if SEQ did not begin with
 * kv_adopt(). */
void kv_publish(struct kv *c, size_t seq, const int32_t *token, size_t n, bool last);

/* Of an extern cache: the rows of SEQ lie in BLOCK [n], from position 0 on, as long as nothing else is said.
 * Numbers lie below kv_n_blocks(); those of rows that no query sees may be 0, the block of zeros. Others: 0
 * blocks. */
void kv_lend(struct kv *c, size_t seq, const int32_t *block, size_t n);
void kv_copy_block(struct kv *c, size_t from, size_t to); /* in all layers; TO is not 0 */
size_t kv_n_blocks(const struct kv *c);                   /* block 0 among them */

/* ---- reading ahead: rows that a store has and the pool has not ---- */

/* Begins to read what kv_adopt() of the same arguments would find if all were here that the store has. TOKEN
 * is borrowed until the end. Returns a place, and that rows [*from, *to) will be added to those that are
 * there; KV_AHEAD_NOTHING; or KV_AHEAD_LATER: they are being read already, or all places are taken. */
int kv_ahead(struct kv *c, struct prefix_key seed, const int32_t *token, size_t n, size_t *from, size_t *to);

/* Makes kept blocks of what has come and asks for the next. True: it is at its end, and the place free. */
bool kv_ahead_go_on(struct kv *c, int place);
void kv_ahead_end(struct kv *c, int place);       /* before that; what has come stays */
void kv_ahead_wait(struct kv *c, double seconds); /* until something comes for any of them */

struct kv_view kv_view(const struct kv *c, size_t seq); /* valid until the next call that changes the cache */
size_t kv_bytes(const struct kv *c); /* of memory held now, by all sequences and free blocks */
size_t kv_held_bytes(const struct kv *c, size_t seq); /* of the blocks (or the region) of one sequence */

/* Tests: every block is free or held as often as it is counted. ERR_INPUT and a sentence otherwise. */
int kv_check(const struct kv *c, struct err *e);

/* ---- arithmetic, before there is a cache ---- */

/* Rows of a block of TYPE: lim->block, or else the largest power of two from 16 on whose K and V rows of all
 * heads take a quarter of the level 2 cache and that is at most a quarter of the smallest window. */
size_t kv_block(const char *type, const struct kv_limits *lim);
size_t kv_token_bytes(const struct kv_limits *lim);                  /* of one token in all layers */
size_t kv_seq_bytes(const struct kv_limits *lim, size_t n);          /* of N rows, less those no query sees */
size_t kv_pool_bytes(const char *type, const struct kv_limits *lim); /* that a pooled type reserves */
size_t kv_budget_bytes(const char *type,
                       const struct kv_limits *lim); /* the same, or what others may grow to */
size_t kv_pool_fit(const char *type, struct kv_limits lim,
                   size_t bytes); /* largest pool_tokens within BYTES */
/* The longest record that TYPE puts into a store (store/record.h); 0: it has none. SIZE_MAX: an address
 * cannot count it. */
size_t kv_record_bytes(const char *type, const struct kv_limits *lim);
/* Smallest pool_tokens with which one sequence can grow to max_len; of pooled types in whole blocks. */
size_t kv_least_tokens(const char *type, const struct kv_limits *lim);
size_t kv_layer_dim(const struct kv_limits *lim, size_t layer); /* of a head; in tiles up to the next 16 */

/* The first row that a window shows to a query at POS. */
static inline size_t kv_first_row(size_t window, size_t pos)
{
    return window && pos + 1 > window ? pos + 1 - window : 0;
}

/* The same for a group; 0 as long as its window touches the sink. */
static inline size_t kv_group_first(const struct kv_group *g, size_t pos)
{
    size_t first = kv_first_row(g->window, pos);

    return first > g->sink ? first : 0;
}

#endif
