/* sample.h - from logits to the next token: penalties, bias, temperature, top-k, top-p, min-p, one random
 * pick.
 *
 * The chain, in this order (Hugging Face's): min_new_tokens; repetition penalty over prompt and output;
 * frequency and presence penalty over the output; logit_bias; the grammar's mask; temperature; top_k (ties
 * with the k-th stay); top_p (a token stays while the mass in front of it is below p); min_p (relative to
 * the likeliest); softmax; pick. Greedy takes the largest logit after the mask, the lowest id of equals.
 *
 * The pick is a pure function of logits, parameters, seed and the number of the token, so neither
 * neighbours nor threads can change it. Ids above the tokenizer's vocabulary are tokens like any other.
 * Log-probabilities are those of the raw logits, before the chain. Nothing allocates after sample_open().
 * One struct sampler a thread.
 */
#ifndef GALLOP_ENGINE_SAMPLE_H
#define GALLOP_ENGINE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/sample_history.h"
#include "engine/sampling.h"
#include "kern/kern.h"

struct sample_top {
    int32_t id;
    float logprob;
};

/* Scratch for vocabularies up to n_vocab. */
struct sampler {
    const struct kern *kern;
    size_t n_vocab;
    void *block;            /* what the arrays below lie in */
    float *x;               /* [V] logits as the chain changes them */
    float *block_max;       /* [V / 64] */
    double *block_sum;      /* [V / 1024] */
    int32_t *id;            /* [V] candidates: tokens that may survive, ascending */
    float *y;               /* [V] their logits, then (logit - max) / temperature */
    float *work[2];         /* [V] used up by selections */
    struct sample_top *top; /* [SAMPLING_MAX_LOGPROBS] */
};

int sample_open(struct sampler *s, const struct kern *k, size_t n_vocab, struct err *e); /* ERR_NOMEM */
void sample_close(struct sampler *s); /* a zeroed one is fine */

struct sample_result {
    int32_t id;
    float logprob;                /* of id; only where sampling.logprobs >= 0, else 0 */
    const struct sample_top *top; /* [n_top] likeliest first; borrowed until the sampler's next call */
    size_t n_top;                 /* at most sampling.logprobs */
};

/* Chooses output token number N_OUTPUT (0 for the first) from LOGITS [N_VOCAB], which stay as they are. H
 * may be NULL: no history. P must have passed sampling_validate(). Returns 0, or ERR_INPUT when a logit is
 * NaN or +infinity or no token is left: this sequence cannot go on, others can. */
int sample_pick(struct sampler *s, const struct sampling *p, const struct sample_history *h,
                const float *logits, size_t n_vocab, size_t n_output, struct sample_result *r);

/* What the chain did, for people. */
enum { SAMPLE_MAX_STAGES = 8 };
struct sample_stage {
    const char *name;
    size_t survivors; /* tokens still possible after it */
};
struct sample_prob {
    int32_t id;
    double p;
};

/* The chain of sample_pick() laid open: its stages, and the distribution picked from as pairs by ascending
 * id (only what is above 0). PROBS has room for N_VOCAB. A greedy configuration ends in one token of
 * probability 1. Errors as above. */
int sample_explain(struct sampler *s, const struct sampling *p, const struct sample_history *h,
                   const float *logits, size_t n_vocab, size_t n_output,
                   struct sample_stage stages[SAMPLE_MAX_STAGES], size_t *n_stages, struct sample_prob *probs,
                   size_t *n_probs);

#endif
