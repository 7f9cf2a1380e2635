/* eager.h - the sink that computes each op at once, cut into shares for the pool's threads.
 *
 * Owns the buffers that ops need between them (cosines, packed queries, the MLP's middle, attention
 * partials), sized at open for the largest step, so that nothing is allocated while it runs. One step at a
 * time.
 */
#ifndef GALLOP_OPS_EAGER_H
#define GALLOP_OPS_EAGER_H

#include "base/err.h"
#include "base/threads/pool.h"
#include "ops/op.h"

struct eager_limits {
    size_t max_tokens;              /* rows of a step */
    size_t max_seqs;                /* sequences of a step */
    size_t max_len;                 /* positions of a sequence */
    size_t n_heads, n_kv, head_dim; /* largest of the layers */
    size_t inner;                   /* largest I of an MLP */
    size_t rope_half[2];            /* pairs that each rope of the model rotates, 0: none */
    size_t linear_k;                /* largest input of the linears */
    size_t n_experts, top_k;        /* largest of the mixtures of experts, 0: there is none */
    size_t expert_inner;            /* largest I of an expert */
    size_t hidden;                  /* E */
    /* [L] borrowed; NULL: rows see what struct attn says. Else a row of a layer without chunks sees
     * the last window[l] rows and the first sink[l], as if those stood directly in front of them. */
    const size_t *window, *sink;
    size_t seen;             /* sink + window of every layer that has a sink */
    enum dtype kv_dtype;     /* of the rows in the cache: DT_F32, DT_BF16, DT_I8 or DT_I4 */
    const struct kern *kern; /* borrowed for ever */
    bool native[OP_N_KINDS]; /* reference kernels for this kind, as the user asked */
};

struct eager;

int eager_new(struct eager **out, const struct eager_limits *lim, struct pool *pool, struct err *e);
const struct sink *eager_sink(const struct eager *g);
size_t eager_bytes(const struct eager *g); /* of scratch */

/* Where tap() shall put hidden states, [L + 1, rows, E] float with ROWS rows a layer, written from row *at
 * on; NULL: off. */
void eager_capture(struct eager *g, float *hidden, size_t rows, size_t at);
void eager_free(struct eager *g); /* NULL is fine */

#endif
