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
#include "gallop.h"
#include "kv/kv.h"
#include "kv/store/store.h"
#include "model/model.h"
#include "ops/eager.h"
#include "ops/timed.h"
#include "text/tok/tok.h"

/* What an llm is opened from, besides struct gallop_options. */
struct llm_source {
    char path[FOLDER_PATH_MAX];    /* of the model: a folder or a file */
    struct checkpoint *checkpoint; /* the same, opened; outlives the llm. NULL: the model opens it */
    struct pool *pool;             /* threads of another engine to compute on; NULL: own ones */
    struct pack_writer *save;      /* a packed checkpoint is written there; NULL: nowhere */
    bool no_prefixes;              /* rows of finished sequences are not kept */
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

/* Opens the model of S with the options O, which engine_options_check() has accepted. O's model, revision,
 * share_pool and download are not used: S has what they led to. */
int llm_open(struct llm *m, const struct gallop_options *o, const struct llm_source *s, struct err *e);
void llm_close(struct llm *m); /* a zeroed one is fine */

/* Computes ROWS [n]. Logits stand in m->logits in the order of ROWS, [sum of n_wanted, V]. Must fit the
 * limits. */
void llm_forward(struct llm *m, const struct executor_rows *rows, size_t n);

/* What the engine plans against: all that M can do. Borrows M. */
void llm_executor(struct llm *m, struct executor *x);

size_t llm_scratch_bytes(const struct llm *m);

#endif
