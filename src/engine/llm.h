/* llm.h - an opened model with all that it needs to run: weights, tokenizer, KV cache, op sink, scratch.
 *
 * llm_forward() computes new tokens of several sequences and the wanted logits. It does not allocate, which
 * the guard of mem.h checks. llm_executor() makes the model an executor (executor.h).
 */
#ifndef GALLOP_ENGINE_LLM_H
#define GALLOP_ENGINE_LLM_H

#include "base/err.h"
#include "base/files/folder.h"
#include "engine/kv_sparse.h"
#include "engine/op_config.h"
#include "engine/slots.h"
#include "kv/kv.h"
#include "model/model.h"
#include "ops/timed.h"

struct calibration;
struct executor;
struct executor_rows;
struct gallop_model_info;
struct gallop_options;
struct gallop_stats;

/* Arguments of llm_open() besides struct gallop_options. */
struct llm_source {
    char path[FOLDER_PATH_MAX]; /* path of the model, a folder or a file */
    /* the opened checkpoint, which outlives the llm. NULL: llm_open() opens it */
    struct checkpoint *checkpoint;
    struct pool *pool;        /* threads of another engine to share; NULL: own threads are started */
    struct pack_writer *save; /* receives a packed checkpoint of the model; NULL: none is written */
    bool no_prefixes;         /* there is no prefix cache */
    size_t most_len;          /* limit of max_len, unless the option max_model_len is given; 0: no limit */
};

struct llm {
    struct pool *pool;
    struct model model;
    /* calibration statistics, read while weights are quantized: at open, or later for streamed weights; NULL: none */
    struct calibration *scales;
    struct tok *tok;        /* NULL: the checkpoint has no tokenizer */
    struct err tok_missing; /* the reason why `tok` is NULL */
    struct store *store;    /* NULL: there is no KV store */
    struct kv kv;
    struct slots slots;
    struct eager *eager;
    struct timed timed; /* op sink that measures times and calls `eager` */
    struct model_work work;
    enum dtype kv_dtype; /* number format of the KV cache */
    struct kv_sparse sparse;
    size_t max_len, max_seqs, max_tokens, max_wanted;
    float *logits; /* [max_wanted, V] */
    size_t logits_bytes;
    size_t store_bytes; /* bytes of the store's read and write buffers */
    size_t other_bytes; /* bytes of the memory regions of other engines */
    int32_t *id, *pos;  /* [max_tokens] tokens of the current step and their positions */
    /* [n_wanted] indices of the rows of the last run that need logits or hidden states; room for max_tokens */
    uint32_t *wanted;
    size_t n_wanted;
    struct batch_seq *seq; /* [max_seqs] */
    double load_s;
    struct op_config ops;    /* backends that the user chose */
    const struct kern *kern; /* borrowed; static */
    const char *isa;         /* instruction set of the model's gemm kernel */
};

/* Opens the model of S with the options O, which engine_options_check() has accepted. The members model,
 * revision, share_pool and download of O are not used; S contains their results. */
int llm_open(struct llm *m, const struct gallop_options *o, const struct llm_source *s, struct err *e);
void llm_close(struct llm *m); /* M may be zeroed */

/* Computes ROWS [n], which must be within the limits of M. Writes the wanted logits to m->logits, [sum of
 * n_wanted, V], in the order of ROWS. */
void llm_forward(struct llm *m, const struct executor_rows *rows, size_t n);

/* Computes all decoder layers for ROWS [n] with the model WITH and its scratch WORK. The weights of WITH have the
 * shapes of m->model's weights. llm_tail() then computes the logits of the wanted rows FIRST to FIRST + N - 1 into
 * m->logits. */
void llm_layers(struct llm *m, const struct model *with, struct model_work *work,
                const struct executor_rows *rows, size_t n);
void llm_tail(struct llm *m, const struct model *with, struct model_work *work, size_t first, size_t n);

/* Initializes *X as the executor of M, which it borrows. */
void llm_executor(struct llm *m, struct executor *x);

/* Returns ERR_UNSUPPORTED if M cannot compute on this machine, because its weights are on a device only. */
int llm_check_computes(const struct llm *m, struct err *e);

/* Returns the name of a backend of M whose results for a row may depend, in bits, on the number of rows computed
 * together. NULL: M has none. */
const char *llm_loose_backend(const struct llm *m);

/* Returns the name of the number format of the KV cache: "fp32", "bf16", "int8" or "int4". */
const char *llm_kv_dtype(const struct llm *m);

/* Sets *INFO to the sizes, formats and names of M, except the members about tokenizer and chat template. Strings are
 * borrowed from M. */
void llm_describe(const struct llm *m, struct gallop_model_info *info);

/* Sets *S to the counts and sizes of M; the other members, which the steps of an engine count, become 0. */
void llm_stats(const struct llm *m, struct gallop_stats *s);

/* Returns the bytes of scratch memory for steps. */
size_t llm_scratch_bytes(const struct llm *m);

#endif
