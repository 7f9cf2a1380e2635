/* beam.h - beam search: scores, finished hypotheses and the end of the search. It knows neither KV rows nor models.
 *
 * The rules are those of Hugging Face's generate() (transformers 5, _beam_search), in fp32 as there. A hypothesis is an
 * output; its sum is the sum of the log-probabilities of its tokens. `width` hypotheses run. A step ranks the
 * continuations of all of them by their sums and takes the best `n_ranked`, which are max(2, 1 + number of end tokens)
 * for each hypothesis, so that `width` of them do not end. Of the first `width` continuations, those that end become
 * finished hypotheses; later ones that end are dropped. The best `width` continuations that do not end run on. The
 * score of a finished hypothesis is its sum / (number of its tokens, with the end token) ^ length_penalty, and the best
 * `width` of them are kept. At the limit of the output every continuation ends.
 *
 * The search ends when `width` hypotheses are finished and the best running one cannot beat the worst of them.
 * early_stopping says which score of the best running one is compared. true: none, the search ends. false: its present
 * score. "never": the score of its sum at the limit of the output if length_penalty is positive, otherwise as with
 * false.
 */
#ifndef GALLOP_ENGINE_BEAMS_BEAM_H
#define GALLOP_ENGINE_BEAMS_BEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "engine/sampling/sampling.h"

struct sample_top;

enum {
    BEAM_MOST = 32,                          /* maximum number of running hypotheses */
    BEAM_MOST_RANKED = SAMPLING_MAX_LOGPROBS /* maximum number of continuations that a step ranks */
};

struct beam_rules {
    size_t width;    /* number of running hypotheses, 1 to BEAM_MOST */
    size_t n_ranked; /* continuations that a step ranks, from 2 * width to BEAM_MOST_RANKED */
    size_t limit;    /* maximum number of tokens of an output */
    double length_penalty;
    enum sampling_early early_stopping;
};

/* A continuation of a running hypothesis by one token. */
struct beam_next {
    float sum, logprob; /* sum with the token, and log-probability of the token */
    int32_t id;
    size_t parent; /* number of the running hypothesis */
    bool ends;
};

/* A hypothesis: [n] tokens with their log-probabilities. */
struct beam_text {
    int32_t *token;
    float *logprob;
    size_t n;
};

struct beam_finished {
    struct beam_text text; /* arrays of [limit], owned by the search */
    float sum, score;
};

struct beam_search {
    struct beam_rules rules;
    size_t n_output; /* tokens of each running hypothesis */
    float *sum;      /* [width] sums of the running hypotheses, descending; n_running of them */
    struct beam_finished *finished; /* [width] finished hypotheses by descending score; n_finished of them */
    struct beam_next *next;         /* [n_ranked] continuations by descending sum; n_next of them */
    size_t n_running, n_finished, n_next;
};

/* Returns max(2, 1 + n_ends) * width. */
size_t beam_n_ranked(size_t width, size_t n_ends);

/* Starts a search with one running hypothesis, which has no tokens. Memory is allocated in A. ERR_NOMEM. */
int beam_init(struct beam_search *b, const struct beam_rules *rules, struct arena *a);

/* The tokens that may follow a running hypothesis: LIST [n], by descending log-probability. */
struct beam_list {
    const struct sample_top *list;
    size_t n;
};

/* Writes the `n_ranked` continuations with the largest sums to b->next, without setting `ends`. LIST [n_running] has
 * the next tokens of each running hypothesis. Continuations with equal sums are in the order of their parents. */
void beam_rank(struct beam_search *b, const struct beam_list *list);

/* Turns the continuations b->next [n_next] into finished hypotheses and new running hypotheses. The caller has set
 * their `ends`. The new running hypotheses become the first n_running elements of b->next. RUNNING [n_running] are the
 * outputs of the old running hypotheses. Returns true if the search has ended. */
bool beam_step(struct beam_search *b, const struct beam_text *running);

#endif
