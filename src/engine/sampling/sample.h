/* sample.h - from logits to the next token: penalties, bias, temperature, top-k, top-p, min-p, random pick.
 *
 * The order of the steps is Hugging Face's: min_new_tokens; repetition penalty over prompt and output;
 * frequency and presence penalty over the output; logit_bias; allowed tokens and bad words; temperature;
 * top_k (tokens equal to the k-th stay); top_p (a token stays while the mass of more likely tokens is below
 * p); min_p (relative to the most likely token); softmax; pick. Greedy takes the largest logit after the bad
 * words, the lowest id of equal ones.
 *
 * The pick is the token with the largest sum of logit / temperature and Gumbel noise, which is a hash of seed,
 * index of the output token and token id. This draws each token with its probability (Gumbel-max trick), is a
 * pure function of logits, parameters, seed and index, so that neither batch neighbours nor threads can change
 * it, and mostly gives the same token for two similar distributions, so that a draft model with the same seed
 * guesses well (Daliri, Musco, Suresh, arXiv 2408.07978). Ids above the tokenizer's vocabulary are tokens like
 * any other. Log-probabilities are those of the raw logits, before the chain. Nothing allocates after
 * sample_open(). Each thread needs a struct sample_scratch of its own.
 */
#ifndef GALLOP_ENGINE_SAMPLE_H
#define GALLOP_ENGINE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "engine/sampling/sampling.h"
#include "kern/kern.h"

/* ---- what the chain needs to know of a sequence ---- */

/* A bad word: its last token is never chosen when the others have just been output. */
struct sample_word {
    const int32_t *id; /* [n] */
    size_t n;          /* 1 or more */
};

/* Which tokens the prompt has, how often each was output, and which tokens may come next. Sized when the
 * sequence is made; empty unless a penalty needs it. */
struct sample_history {
    int32_t *id;     /* [n] distinct tokens, in order of appearance */
    uint32_t *count; /* [n] times in the output */
    bool *in_prompt; /* [n] */
    size_t n, cap;   /* cap 0: no penalty needs it */
    uint32_t *slot;  /* [n_slots] 1 + index into id, 0: free; n_slots is a power of two */
    size_t n_slots;
    /* Borrowed. Bit ID is set if the next token may be ID. NULL: all may. */
    const uint32_t *allowed;
    /* Borrowed: the output, of which sample_pick() reads n_output tokens, and the bad words that must not
     * appear in it. */
    const int32_t *output;
    const struct sample_word *bad; /* [n_bad] */
    size_t n_bad;
};

/* Makes a history for the prompt, MAX_NEW output tokens and the allowed tokens of P, with memory of A. Ids
 * must be below N_VOCAB. ERR_NOMEM. */
int sample_history_init(struct sample_history *h, const struct sampling *p, const int32_t *prompt,
                        size_t n_prompt, size_t max_new, size_t n_vocab, struct arena *a, struct err *e);
/* The same in two parts, for a history that serves one sequence after another. reserve() makes room for CAP
 * distinct tokens; begin() starts a sequence, forgets the one before, and never allocates. */
int sample_history_reserve(struct sample_history *h, size_t cap, struct arena *a, struct err *e);
void sample_history_begin(struct sample_history *h, const struct sampling *p, const int32_t *prompt,
                          size_t n);
/* One bit per token that P allows. *OUT is NULL if P allows all. ERR_NOMEM. */
int sample_allowed(uint32_t **out, const struct sampling *p, size_t n_vocab, struct arena *a);
/* The number of distinct tokens that a sequence of this length can have. */
size_t sample_history_cap(size_t n_prompt, size_t max_new, size_t n_vocab);
bool sample_history_counts(const struct sampling *p);          /* a penalty of P needs counts */
void sample_history_add(struct sample_history *h, int32_t id); /* counts an output token; never allocates */
/* takes back an output token (for speculation) */
void sample_history_undo(struct sample_history *h, int32_t id);

/* ---- the chain ---- */

struct sample_top {
    int32_t id;
    float logprob;
};

/* Scratch for vocabularies of up to n_vocab tokens. */
struct sample_scratch {
    const struct kern *kern;
    size_t n_vocab;
    void *memory;           /* the allocation that the arrays below point into */
    float *x;               /* [V] the logits with the chain's changes */
    float *slice_max;       /* [V / 64] */
    int32_t *id;            /* [V] candidates, ascending */
    float *y;               /* [V] their logits, later (logit - max) / temperature */
    float *work[2];         /* [V] overwritten by quickselect */
    struct sample_top *top; /* [SAMPLING_MAX_LOGPROBS] */
};

/* ERR_NOMEM. */
int sample_open(struct sample_scratch *s, const struct kern *k, size_t n_vocab, struct err *e);
void sample_close(struct sample_scratch *s); /* a zeroed one is fine */

struct sample_result {
    int32_t id;
    float logprob; /* of ID; 0 if sampling.logprobs < 0 */
    /* sample_score() only: how many tokens are at least as likely as ID, with ID. 1: ID is the most likely
     * token. */
    size_t rank;
    /* [n_top] Most likely first, or in the order of logprob_ids. Valid until the sampler's next call. */
    const struct sample_top *top;
    size_t n_top; /* at most sampling.logprobs, or sampling.n_logprob_ids */
};

/* Chooses output token number N_OUTPUT (0 for the first) from LOGITS [N_VOCAB], which it does not change. H
 * may be NULL: no history. P must have passed sampling_validate(). Returns 0, ERR_INPUT if a logit is NaN or
 * +infinity, or ERR_NOSPACE if no token is left to choose. Such an error ends this sequence only. */
int sample_pick(struct sample_scratch *s, const struct sampling *p, const struct sample_history *h,
                const float *logits, size_t n_vocab, size_t n_output, struct sample_result *r);

/* Takes ID, whatever P forbids and draws. Log-probabilities and errors are as of sample_pick(). */
int sample_forced(struct sample_scratch *s, const struct sampling *p, const float *logits, size_t n_vocab,
                  int32_t id, struct sample_result *r);

/* The log-probability of token ID in LOGITS, and those of the K most likely tokens (at most
 * SAMPLING_MAX_LOGPROBS). Errors as of sample_pick(). */
int sample_score(struct sample_scratch *s, const float *logits, size_t n_vocab, int32_t id, int k,
                 struct sample_result *r);

/* What the chain did, for `gallop sample`. */
enum { SAMPLE_MAX_STAGES = 8 };
struct sample_stage {
    const char *name;
    size_t survivors; /* tokens that are still possible after this step */
};
struct sample_prob {
    int32_t id;
    double p;
};

/* Runs the chain of sample_pick() and reports its steps, and the final distribution as pairs by ascending id,
 * without probabilities of 0. PROBS has room for N_VOCAB. Greedy gives a single token of probability 1.
 * Errors as of sample_pick(). */
int sample_explain(struct sample_scratch *s, const struct sampling *p, const struct sample_history *h,
                   const float *logits, size_t n_vocab, size_t n_output,
                   struct sample_stage stages[SAMPLE_MAX_STAGES], size_t *n_stages, struct sample_prob *probs,
                   size_t *n_probs);

/* ---- order statistics of floats ---- */

/* By quickselect: both arrays are overwritten, and results do not depend on the order of the values. No value
 * is NaN. */

/* The K-th largest (1: the largest) of x[0 .. n). 1 <= k <= n. SCRATCH [n]. */
float sample_select_kth(float *x, float *scratch, size_t n, size_t k);

/* Values above `value` stay, and the first N_EQUAL of those equal to it (SIZE_MAX: all of them). */
struct sample_select_cut {
    float value;
    size_t n_equal;
};

/* In descending order of y, a value stays while the sum of exp(y) over the values before it is below MASS >
 * 0. If all stay, `value` is the smallest one. y <= 0, n > 0, SCRATCH [n]. */
struct sample_select_cut sample_select_mass(const struct kern *k, float *y, float *scratch, size_t n,
                                            double mass);

/* The sum of exp(y) over y[0 .. n), y <= 0: kernels sum slices of SAMPLE_SELECT_SLICE, whose results are
 * added in double. */
enum { SAMPLE_SELECT_SLICE = 1024 };
double sample_select_sum(const struct kern *k, const float *y, size_t n);

#endif
