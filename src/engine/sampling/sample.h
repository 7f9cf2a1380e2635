/* sample.h - samples the next token from logits: penalties, bias, temperature, truncation (top_k, top_p, ...), random
 * pick.
 *
 * The order of the stages is Hugging Face's: logit_bias; min_new_tokens and suppressed tokens; repetition penalty over
 * prompt and output; frequency and presence penalty over the output; DRY (dry.h); allowed tokens and bad words;
 * top_n_sigma; temperature; top_k (tokens with the logit of the k-th are kept, too); top_p (a token is kept while the
 * probability of the likelier tokens is below p); min_p (relative to the likeliest token); typical_p; xtc; softmax;
 * pick. Greedy decoding takes the largest logit after the bad words; of equal logits, it takes the token with the
 * lowest id.
 *
 * top_n_sigma keeps logits of at least max - n sigma. It stands before the cuts, as in llama.cpp, since a cut would
 * change sigma, the standard deviation of the model's logits (without -infinity, and before penalties and masks, so
 * that a constraint with few tokens does not narrow it); temperature does not change which tokens it keeps. typical_p
 * keeps the tokens whose -log(p) is nearest to the entropy (Meister et al.: Locally typical sampling, arXiv
 * 2202.00666), of those at equal distance all; it is the last of Hugging Face's warpers. xtc excludes the likeliest
 * choices: with xtc_probability, all tokens with a probability of at least xtc_threshold but the least likely of them
 * (of equals, the lowest id) are dropped. It comes last because it chooses among the tokens that are left; its decision
 * is random number N_OUTPUT of the seed, in a stream of its own (rng_uniform()).
 *
 * The pick is the token with the largest sum of logit / temperature and Gumbel noise, which is a hash of seed, index of
 * the output token and token id. This draws each token with its probability (Gumbel-max trick). The pick is a pure
 * function of logits, parameters, seed and index, so it does not depend on other sequences of the batch or on threads.
 * Two similar distributions mostly give the same token, so that a draft model with the same seed guesses well (Daliri,
 * Musco, Suresh, arXiv 2408.07978). Ids above the tokenizer's vocabulary are ordinary tokens. Log-probabilities are
 * computed from the raw logits, before all stages. Only sample_open() and the functions of histories allocate. Each
 * thread needs its own struct sample_scratch.
 */
#ifndef GALLOP_ENGINE_SAMPLE_H
#define GALLOP_ENGINE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct kern;
struct sampling;

/* ---- state of a sequence that the stages use ---- */

/* The tokens of a bad word. The last one is not chosen if the output ends with the others. */
struct sample_word {
    const int32_t *id; /* [n] */
    size_t n;          /* 1 or more */
};

/* The counts of tokens for penalties, and the constraints on the next token. The counts are allocated in
 * advance, and only if a penalty needs them. */
struct sample_history {
    int32_t *id;     /* [n] distinct tokens, in order of their first occurrence */
    uint32_t *count; /* [n] occurrences in the output */
    bool *in_prompt; /* [n] the token is in the prompt */
    size_t n, cap;   /* cap 0: no penalty needs counts */
    uint32_t *slot;  /* [n_slots] hash table: 1 + index into id, 0: free; n_slots is a power of two */
    size_t n_slots;
    /* Borrowed. Bit ID is set if token ID may be chosen. NULL: every token may. */
    const uint32_t *allowed;
    /* Borrowed: the output tokens so far, of which sample_pick() reads n_output, for bad words and DRY. For
     * DRY, the N_BEFORE tokens of the prompt are in front of them, at output[-n_before] and up. */
    const int32_t *output;
    size_t n_before;
    const struct tok *tok;         /* borrowed; for the sequence breakers of DRY; NULL: there are none */
    const struct sample_word *bad; /* [n_bad] the bad words, borrowed */
    size_t n_bad;
};

/* Initializes a history for a prompt and MAX_NEW output tokens, with memory of A. Token ids are below
 * N_VOCAB. ERR_NOMEM. */
int sample_history_init(struct sample_history *h, const struct sampling *p, const int32_t *prompt,
                        size_t n_prompt, size_t max_new, size_t n_vocab, struct arena *a, struct err *e);
/* Allocates a history of up to CAP distinct tokens, which sample_history_begin() can reuse for many
 * sequences. ERR_NOMEM. */
int sample_history_reserve(struct sample_history *h, size_t cap, struct arena *a, struct err *e);
/* Clears the history and starts a sequence with PROMPT [n]. Does not allocate. */
void sample_history_begin(struct sample_history *h, const struct sampling *p, const int32_t *prompt,
                          size_t n);
/* Sets *OUT to a bit mask of the tokens that P allows, or to NULL if P allows every token. ERR_NOMEM. */
int sample_allowed(uint32_t **out, const struct sampling *p, size_t n_vocab, struct arena *a);
/* Returns the maximum number of distinct tokens of a sequence with N_PROMPT prompt tokens and MAX_NEW output tokens. */
size_t sample_history_cap(size_t n_prompt, size_t max_new, size_t n_vocab);
/* Returns true if a penalty of P needs counts. */
bool sample_history_counts(const struct sampling *p);
/* Counts an output token. Does not allocate. */
void sample_history_add(struct sample_history *h, int32_t id);
/* Makes TO, which has the capacity of FROM, a copy of the counts of FROM. */
void sample_history_copy(struct sample_history *to, const struct sample_history *from);
/* Subtracts the output token that was added last and not subtracted yet (a guess of speculative decoding). */
void sample_history_undo(struct sample_history *h, int32_t id);

/* ---- sampling ---- */

struct sample_top {
    int32_t id;
    float logprob;
};

/* The scratch memory of a thread for vocabularies of up to n_vocab tokens. */
struct sample_scratch {
    const struct kern *kern;
    size_t n_vocab;
    void *memory;           /* the allocation that contains the arrays below */
    float *x;               /* [V] logits, modified by the stages */
    float *slice_max;       /* [V / 64] maxima of slices of 64 logits */
    int32_t *id;            /* [V] candidate tokens, ascending */
    float *y;               /* [V] logits of the candidates, later (logit - max) / temperature */
    float *work[2];         /* [V] copies that quickselect overwrites */
    struct sample_top *top; /* [SAMPLING_MAX_LOGPROBS] */
};

/* Allocates scratch memory. ERR_NOMEM. */
int sample_open(struct sample_scratch *s, const struct kern *k, size_t n_vocab, struct err *e);
void sample_close(struct sample_scratch *s); /* S may be zeroed */

struct sample_result {
    int32_t id;
    float logprob; /* log-probability of ID; 0 if it was not requested */
    /* sample_score() only: the number of tokens at least as likely as ID, including ID. */
    size_t rank;
    /* [n_top] the likeliest tokens in descending order, or the tokens of logprob_id in their order. Valid
     * until S is used again. */
    const struct sample_top *top;
    size_t n_top; /* at most sampling.logprobs, or sampling.n_logprob_ids */
};

/* Chooses output token number N_OUTPUT (from 0) from LOGITS [N_VOCAB], which are not modified. P has passed
 * sampling_validate(). H may be NULL: no history. Returns 0, ERR_INPUT if a logit is NaN or +infinity, or
 * ERR_NOSPACE if no token can be chosen. */
int sample_pick(struct sample_scratch *s, const struct sampling *p, const struct sample_history *h,
                const float *logits, size_t n_vocab, size_t n_output, struct sample_result *r);

/* Returns true if sample_pick() returns nothing but the argmax of the logits (the lowest id of equal ones). Arguments
 * are those of sample_pick(). */
bool sample_is_plain(const struct sampling *p, const struct sample_history *h, size_t n_output);

/* Chooses token ID, even if P forbids it or would choose a different token. Log-probabilities and errors are
 * as in sample_pick(). */
int sample_forced(struct sample_scratch *s, const struct sampling *p, const float *logits, size_t n_vocab,
                  int32_t id, struct sample_result *r);

/* Writes to OUT [n_vocab] the probabilities with which sample_pick() draws its token; 0 for tokens that the stages
 * drop. Greedy decoding: the softmax of the logits after the bad words, at temperature 1. Arguments and errors are
 * those of sample_pick(). */
int sample_probs(struct sample_scratch *s, const struct sampling *p, const struct sample_history *h,
                 const float *logits, size_t n_vocab, size_t n_output, float *out);

/* Writes the K tokens (1 to SAMPLING_MAX_LOGPROBS) that beam search ranks first to R->top, or fewer if fewer may be
 * chosen: the largest log-probabilities of LOGITS after the stages before the temperature, which change
 * log-probabilities here and not logits, as in Hugging Face's beam search. Arguments and errors are those of
 * sample_pick(). */
int sample_ranked(struct sample_scratch *s, const struct sampling *p, const struct sample_history *h,
                  const float *logits, size_t n_vocab, size_t n_output, size_t k, struct sample_result *r);

/* Writes the log-probability and rank of token ID, and the K likeliest tokens (at most SAMPLING_MAX_LOGPROBS), to *R.
 * Returns 0, or ERR_INPUT if a logit is NaN or +infinity. */
int sample_score(struct sample_scratch *s, const float *logits, size_t n_vocab, int32_t id, int k,
                 struct sample_result *r);

/* A stage of the sampler and its result, for `gallop sample`. */
enum { SAMPLE_MAX_STAGES = 13 };
struct sample_stage {
    const char *name;
    size_t survivors; /* number of tokens that remain after the stage */
};
struct sample_prob {
    int32_t id;
    double p;
};

/* Runs the stages of sample_pick() and writes their results to STAGES (dry, masks, top_n_sigma, typical_p and xtc only
 * if P or H has them), and the final probabilities to PROBS [N_VOCAB], by ascending id and without probabilities of 0.
 * Greedy decoding gives one token with probability 1. Errors are those of sample_pick(). */
int sample_explain(struct sample_scratch *s, const struct sampling *p, const struct sample_history *h,
                   const float *logits, size_t n_vocab, size_t n_output,
                   struct sample_stage stages[SAMPLE_MAX_STAGES], size_t *n_stages, struct sample_prob *probs,
                   size_t *n_probs);

/* ---- order statistics of floats ---- */

/* These functions use quickselect. They overwrite both arrays; results do not depend on the order of the
 * values. No value is NaN. */

/* Returns the K-th largest value (1: the largest) of X [n]. SCRATCH [n]. */
float sample_select_kth(float *x, float *scratch, size_t n, size_t k);

/* A threshold: values above `value` are kept, and of the values equal to it the first n_equal (SIZE_MAX: all). */
struct sample_select_cut {
    float value;
    size_t n_equal;
};

/* Returns the threshold that keeps the largest values of Y [n] until the sum of exp(y) over the kept values
 * reaches MASS > 0. Y <= 0, n > 0, SCRATCH [n]. */
struct sample_select_cut sample_select_mass(const struct kern *k, float *y, float *scratch, size_t n,
                                            double mass);

/* Returns the smallest T so that the sum of exp(v + CENTRE) over the values of V [n] with |v| <= T reaches
 * MASS > 0; if the sum over all values does not, the largest |v|. SCRATCH [n]. */
float sample_select_near(const struct kern *k, float *v, float *scratch, size_t n, float centre, double mass);

/* Returns the sum of exp(y) over Y [n], y <= 0. Kernels sum slices of SAMPLE_SELECT_SLICE values, and the
 * sums are added in double. */
enum { SAMPLE_SELECT_SLICE = 1024 };
double sample_select_sum(const struct kern *k, const float *y, size_t n);

#endif
