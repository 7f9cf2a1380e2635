/* llm.h - everything one model needs to run, opened together: weights, tokenizer, cache, kernels' sink,
 * scratch.
 *
 * llm_forward() computes new tokens of a number of sequences and leaves the logits that were asked for.
 * Nothing is allocated in it, and the guard of mem.h proves so. Seen from above it is an executor
 * (executor.h).
 */
#ifndef GALLOP_ENGINE_LLM_H
#define GALLOP_ENGINE_LLM_H

#include "engine/executor.h"
#include "engine/kv_sparse.h"
#include "engine/op_config.h"
#include "engine/slots.h"
#include "kv/kv.h"
#include "kv/store/store.h"
#include "model/model.h"
#include "ops/eager.h"
#include "ops/timed.h"
#include "text/tok/tok.h"

struct llm_options {
    const char *model;             /* folder or GGUF file */
    struct checkpoint *checkpoint; /* MODEL, opened; outlives the llm. NULL: the model opens it */
    const char *dtype;             /* "fp32", "bf16"; NULL: as it was packed, else bf16 */
    const char *quant;             /* of the linears (model/quant.h); NULL: as they are stored or packed */
    struct pack_writer *save;      /* a packed checkpoint is written there; NULL: nowhere */
    const char *kv_type;           /* NULL: slab_pool */
    const char *kv_dtype;          /* NULL, "auto", "fp32", "bf16", "int8", "int4" */
    const char *scales;            /* file of quant "int8-static"; NULL: none */
    const char *op_config;         /* JSON or NULL */
    const char *attention_backend; /* NULL, "auto", "gallop", "native" */
    const char *isa;               /* NULL: the best */
    int threads;                   /* 0: physical cores */
    struct pool *pool;             /* computes on these threads, another engine's; NULL: on its own */
    size_t max_len;                /* 0: the model's */
    size_t max_seqs, max_tokens;   /* 0: 32 and 512 */
    size_t max_wanted;             /* rows of logits a step can give, at least max_seqs; 0: a few more */
    size_t kv_tokens, kv_bytes;    /* budget of the cache, by rows or by bytes; 0: automatic */
    bool kv_unbounded;             /* an automatic one is not bounded by 4 GiB */
    size_t block, bmc_splits;      /* 0: automatic */
    const char *kv_layout;         /* NULL, "head_major", "block_major" */
    bool no_prefixes;              /* rows of sequences that are gone are not kept */
    enum prefix_kind prefix_index;
    const char *kv_sparse;   /* NULL, "sink=4,window=1024" */
    const char *kv_store;    /* folder or redis://...; NULL: blocks are kept nowhere else */
    uint64_t kv_store_bytes; /* of a folder; 0: 16 GiB */
    bool allow_links;        /* those of the folder may lead out of it */
    void (*progress)(void *ctx, size_t done, size_t total);
    void *progress_ctx;
};

struct llm {
    struct pool *pool;
    struct model model;
    struct tok *tok; /* NULL: the folder has no tokenizer; tok_missing says why */
    struct err tok_missing;
    struct store *store; /* NULL: there is none */
    struct kv kv;
    struct slots slots;
    struct eager *eager;
    struct timed timed; /* in front of it */
    struct model_work work;
    enum dtype kv_dtype; /* of the cache's rows */
    struct kv_sparse sparse;
    size_t max_len, max_seqs, max_tokens, max_wanted;
    float *logits; /* [max_wanted, V] */
    size_t logits_bytes;
    size_t store_bytes;    /* of the store's slots */
    size_t other_bytes;    /* of regions that were there before: other engines' */
    int32_t *id, *pos;     /* [max_tokens] */
    uint32_t *wanted;      /* [max_tokens] rows of the last run whose results are asked for */
    size_t n_wanted;       /* of them */
    struct batch_seq *seq; /* [max_seqs] */
    double load_s;
    struct op_config ops;    /* the backends that were asked for */
    const struct kern *kern; /* borrowed for ever */
    const char *isa;         /* of the bf16 or fp32 gemm */
};

int llm_open(struct llm *m, const struct llm_options *o, struct err *e);
void llm_close(struct llm *m); /* a zeroed one is fine */

/* Computes ROWS [n]. Logits stand in m->logits in the order of ROWS, [sum of n_wanted, V]. Must fit the
 * limits. */
void llm_forward(struct llm *m, const struct executor_rows *rows, size_t n);

/* What the engine plans against: all that M can do. Borrows M. */
void llm_executor(struct llm *m, struct executor *x);

size_t llm_scratch_bytes(const struct llm *m);

#endif
