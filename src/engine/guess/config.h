/* config.h - reads --speculative-config: how the tokens of an answer are guessed.
 *
 * The configuration is a JSON object with vLLM's names, or AMD PACE's (type, model_name). docs/SAMPLING.md
 * explains its members.
 */
#ifndef GALLOP_ENGINE_GUESS_CONFIG_H
#define GALLOP_ENGINE_GUESS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "engine/guess/guess.h"

enum {
    GUESS_MAX_RANGES = 64,
    GUESS_USUAL = 5,       /* default of num_speculative_tokens */
    GUESS_USUAL_LONG = 12, /* the same for suffix and PARD, whose guesses cost less */
};

/* Strings are in the arena of guess_config_read(). */
struct guess_config {
    /* [n_methods] in the order in which they are asked; GUESS_DRAFT stands for both kinds of draft models */
    enum guess_source method[GUESS_SOURCES];
    size_t n_methods; /* 0: no speculation */
    size_t most;      /* num_speculative_tokens; 0: not given */
    bool adaptive;
    /* num_speculative_tokens_per_batch_size: the maximum for steps with FROM to TO decoding sequences. */
    struct {
        size_t from, to, most;
    } range[GUESS_MAX_RANGES]; /* [n_ranges] in ascending order */
    size_t n_ranges;
    size_t lookup_min, lookup_max; /* ngram: lengths of matches */
    /* suffix: the longest match, the number of requests whose tokens are remembered (0: only a sequence's own tokens
     * are searched), the maximum number of guesses for each token of a match, and the minimum share of the occurrences
     * of a match that continue with the guessed token. */
    size_t max_tree_depth, max_cached_requests;
    double max_spec_factor, min_token_prob;
    /* draft_model: model and revision, as options of an engine. */
    const char *model, *revision, *quant;
    size_t max_model_len; /* 0: not given */
    /* parallel_drafting. IS_PARALLEL: a draft model that was trained for it (PARD) guesses all tokens in one pass.
     * MUST_BE_PARALLEL: other draft models are refused, because the member is given as true. */
    bool is_parallel, must_be_parallel;
    double kv_memory; /* GiB of the draft model's KV cache; 0: not given */
};

/* Reads TEXT into *C. ERR_INPUT: it is malformed; ERR_UNSUPPORTED: a method is not implemented. The subject of *E is
 * "speculative_config". */
int guess_config_read(struct guess_config *c, const char *text, struct arena *a, struct err *e);

/* Returns the maximum number of guesses of a sequence in steps with N decoding sequences. */
size_t guess_config_most(const struct guess_config *c, enum guess_source source, size_t n);

#endif
