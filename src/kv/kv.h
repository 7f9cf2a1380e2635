/* kv.h - KV caches: where the rows of a sequence lie.
 *
 * A cache hands out tiles of 16 token rows and answers with a table of tile numbers per sequence, the same
 * for all layers and heads, plus the base addresses of each layer (ops/batch.h, struct kv_view). It never
 * looks into the rows. Types are rows of types.def, one file each. Exhaustion is ERR_NOSPACE (a budget) or
 * ERR_NOMEM, never an abort: nothing changes then. Not thread safe; called between steps only.
 */
#ifndef GALLOP_KV_KV_H
#define GALLOP_KV_KV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "ops/batch.h"

enum { KV_DEFAULT_BLOCK = 64 };

struct kv_limits {
    size_t n_layers, n_kv, head_dim;
    enum dtype dtype;   /* of the rows: DT_F32 or DT_BF16 */
    size_t max_seqs;    /* sequence numbers run from 0 */
    size_t max_len;     /* positions of one sequence */
    size_t pool_tokens; /* budget of pooled types, rounded up to blocks */
    size_t block;       /* rows of a block, a power of two from 16; 0: KV_DEFAULT_BLOCK */
};

struct kv;

struct kv_type {
    const char *name;
    int (*open)(struct kv *c, struct err *e);
    /* Rows [0, n) of SEQ will be addressable. May move rows. */
    int (*reserve)(struct kv *c, size_t seq, size_t n);
    void (*truncate)(struct kv *c, size_t seq, size_t n); /* rows from N on are not needed */
    int (*fork)(struct kv *c, size_t from, size_t n,
                size_t to);                                 /* TO (empty) gets the first N rows of FROM */
    struct kv_view (*view)(const struct kv *c, size_t seq); /* valid until the next reserve */
    void (*close)(struct kv *c);
    size_t (*bytes)(const struct kv *c); /* held now */
};

struct kv {
    const struct kv_type *type;
    struct kv_limits lim;
    size_t dp, tile_bytes; /* dims of a stored row; bytes of a K (or V) tile of one head */
    void *state;           /* the type's */
};

bool kv_type_known(const char *name);
const char *kv_type_name(size_t i); /* of the I-th line of types.def; NULL: there are no more */
int kv_open(struct kv *c, const char *type, const struct kv_limits *lim, struct err *e);
int kv_reserve(struct kv *c, size_t seq, size_t n);
void kv_truncate(struct kv *c, size_t seq, size_t n);
void kv_release(struct kv *c, size_t seq); /* all rows of SEQ */
int kv_fork(struct kv *c, size_t from, size_t n, size_t to);
struct kv_view kv_view(const struct kv *c, size_t seq);
size_t kv_bytes(const struct kv *c);
size_t kv_token_bytes(const struct kv_limits *lim); /* of one token in all layers */
void kv_close(struct kv *c);                        /* a zeroed one is fine */

#endif
