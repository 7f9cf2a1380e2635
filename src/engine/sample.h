/* sample.h - from logits to the next token: penalties, bias, temperature, top-k, top-p, min-p, one random
 * pick.
 *
 * The chain, in this order (Hugging Face's): min_new_tokens; repetition penalty over prompt and output;
 * frequency and presence penalty over the output; logit_bias; the grammar's mask and bad words; temperature;
 * top_k (ties with the k-th stay); top_p (a token stays while the mass in front of it is below p); min_p
 * (relative to the likeliest); softmax; pick. Greedy takes the largest logit after the mask, the lowest id of
 * equals.
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

#include "base/arena.h"
#include "base/err.h"
#include "engine/sampling.h"
#include "kern/kern.h"

/* ---- what the chain must know of one sequence ---- */

/* Tokens that do not follow each other: the last is never chosen behind the others. */
struct sample_word {
    const int32_t *id; /* [n] */
    size_t n;          /* 1 or more */
};

/* Which tokens its prompt has, how often each was put out, and what a grammar allows next. Sized when the
 * sequence is made; costs nothing where no penalty asks for it. */
struct sample_history {
    int32_t *id;     /* [n] distinct tokens, in order of appearance */
    uint32_t *count; /* [n] of the output */
    bool *in_prompt; /* [n] */
    size_t n, cap;   /* cap 0: no penalty asks */
    uint32_t *slot;  /* [n_slots] 1 + index into id, 0: free; n_slots is a power of two */
    size_t n_slots;
    /* borrowed: bit id says the next token may be id; NULL: all may. Set before each pick */
    const uint32_t *allowed;
    /* borrowed: the output, of which a pick reads as many tokens as it is told there are, and what is not to
     * come in it */
    const int32_t *output;
    const struct sample_word *bad; /* [n_bad] */
    size_t n_bad;
};

/* Room for the prompt and MAX_NEW output tokens, and the allowed ones; all memory comes from A. Ids must lie
 * below N_VOCAB. ERR_NOMEM. */
int sample_history_init(struct sample_history *h, const struct sampling *p, const int32_t *prompt,
                        size_t n_prompt, size_t max_new, size_t n_vocab, struct arena *a, struct err *e);
/* The same in two parts, for one history that serves one sequence after another: room for CAP distinct
 * tokens, and a beginning, which forgets what was there and never allocates. */
int sample_history_reserve(struct sample_history *h, size_t cap, struct arena *a, struct err *e);
void sample_history_begin(struct sample_history *h, const struct sampling *p, const int32_t *prompt,
                          size_t n);
/* A bit for each token that P allows; *OUT NULL: it allows all. ERR_NOMEM. */
int sample_allowed(uint32_t **out, const struct sampling *p, size_t n_vocab, struct arena *a);
/* Distinct tokens that a sequence of so many can have. */
size_t sample_history_cap(size_t n_prompt, size_t max_new, size_t n_vocab);
bool sample_history_counts(const struct sampling *p);           /* it asks for a penalty */
void sample_history_add(struct sample_history *h, int32_t id);  /* an output token; never allocates */
void sample_history_undo(struct sample_history *h, int32_t id); /* takes one such back (speculation) */

/* ---- the chain ---- */

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
    float logprob; /* of id; only where sampling.logprobs >= 0, else 0 */
    size_t rank;   /* of sample_score(): how many tokens are as likely or likelier; 1: none but id */
    const struct sample_top
        *top;     /* [n_top] likeliest first, or as asked for; until the sampler's next call */
    size_t n_top; /* at most sampling.logprobs, or sampling.n_logprob_ids */
};

/* Chooses output token number N_OUTPUT (0 for the first) from LOGITS [N_VOCAB], which stay as they are. H
 * may be NULL: no history. P must have passed sampling_validate(). Returns 0, ERR_INPUT when a logit is
 * NaN or +infinity, or ERR_NOSPACE when no token is left: this sequence cannot go on, others can. */
int sample_pick(struct sampler *s, const struct sampling *p, const struct sample_history *h,
                const float *logits, size_t n_vocab, size_t n_output, struct sample_result *r);

/* Log-probability of token ID by LOGITS, and the K likeliest (at most SAMPLING_MAX_LOGPROBS). Errors as
 * above. */
int sample_score(struct sampler *s, const float *logits, size_t n_vocab, int32_t id, int k,
                 struct sample_result *r);

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

/* ---- order statistics of floats ---- */

/* By quickselect: both arrays are used up; results do not depend on the order the values came in. No NaN. */

/* The K-th largest (1: the largest) of x[0 .. n). 1 <= k <= n. SCRATCH [n]. */
float sample_select_kth(float *x, float *scratch, size_t n, size_t k);

/* Of a set in order of size: those above `value` stay, and so many of those equal to it (SIZE_MAX: all). */
struct sample_select_cut {
    float value;
    size_t n_equal;
};

/* In descending order of y, a token stays while the sum of exp(y) in front of it is below MASS > 0; where
 * all stay, value is the smallest. y <= 0, n > 0, SCRATCH [n]. */
struct sample_select_cut sample_select_mass(const struct kern *k, float *y, float *scratch, size_t n,
                                            double mass);

/* The sum of exp(y) over y[0 .. n), y <= 0: the kernel's, by blocks of SAMPLE_SELECT_BLOCK, folded in
 * double. */
enum { SAMPLE_SELECT_BLOCK = 1024 };
double sample_select_sum(const struct kern *k, const float *y, size_t n);

#endif
