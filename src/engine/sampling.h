/* sampling.h - what a request asks of generation: length, decoding, penalties, stops, seed, logprobs.
 *
 * Names and meanings are those of Hugging Face's generation config. Three layers are merged field by
 * field: what the user gave explicitly, the model's generation_config.json, neutral defaults (greedy,
 * nothing cut, nothing penalised). A plain record: arrays and strings are borrowed from the arena that the
 * reader of a layer was given. The chain that obeys it is sample.c, the ends of a text are stop.c.
 */
#ifndef GALLOP_ENGINE_SAMPLING_H
#define GALLOP_ENGINE_SAMPLING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/folder.h"

/* Every field by its name in JSON. One bit each in sampling.given. */
#define SAMPLING_FIELDS(X)                    \
    X(MAX_NEW_TOKENS, max_new_tokens)         \
    X(MIN_NEW_TOKENS, min_new_tokens)         \
    X(DO_SAMPLE, do_sample)                   \
    X(GREEDY, greedy)                         \
    X(TEMPERATURE, temperature)               \
    X(TOP_K, top_k)                           \
    X(TOP_P, top_p)                           \
    X(MIN_P, min_p)                           \
    X(REPETITION_PENALTY, repetition_penalty) \
    X(FREQUENCY_PENALTY, frequency_penalty)   \
    X(PRESENCE_PENALTY, presence_penalty)     \
    X(LOGIT_BIAS, logit_bias)                 \
    X(STOP, stop)                             \
    X(STOP_TOKEN, stop_token)                 \
    X(BAD_WORDS, bad_words)                   \
    X(EOS_TOKEN_ID, eos_token_id)             \
    X(IGNORE_EOS, ignore_eos)                 \
    X(SEED, seed)                             \
    X(LOGPROBS, logprobs)                     \
    X(MAX_LENGTH, max_length)

#define SAMPLING_ENUM(upper, lower) SAMPLING_##upper,
enum sampling_field { SAMPLING_FIELDS(SAMPLING_ENUM) SAMPLING_N_FIELDS };
#undef SAMPLING_ENUM

enum {
    SAMPLING_MAX_STOPS = 64,        /* stop strings of a request */
    SAMPLING_MAX_STOP_BYTES = 1024, /* bytes of one of them */
    SAMPLING_MAX_BAD_WORDS = 256,   /* of a request, */
    SAMPLING_MAX_BAD_BYTES = 128,   /* bytes of one of them */
    SAMPLING_MAX_IDS = 4096,        /* stop or end tokens of a request */
    SAMPLING_MAX_BIASES = 1 << 20,  /* entries of logit_bias */
    SAMPLING_MAX_ALLOWED = 1 << 20, /* entries of allowed_token_ids */
    SAMPLING_MAX_LOGPROBS = 1024,   /* most alternatives a token */
};

/* A temperature below this means greedy. */
#define SAMPLING_LOWEST_TEMPERATURE 1e-5

struct sampling_bias {
    int32_t id;
    float value; /* finite */
};

struct sampling_str {
    const char *s; /* borrowed, terminated; UTF-8, not empty */
    size_t n;
};

struct sampling {
    uint32_t given;        /* 1 << enum sampling_field: a layer above the neutral defaults set it */
    size_t max_new_tokens; /* SIZE_MAX: until the context is full */
    size_t min_new_tokens; /* neither an end nor a stop before */
    size_t max_length;     /* prompt and output together, where max_new_tokens is not given; SIZE_MAX: none */
    bool do_sample;
    bool greedy; /* forces greedy whatever the rest says */
    bool ignore_eos;
    double temperature;                         /* >= 0 */
    size_t top_k;                               /* 0: all */
    double top_p;                               /* 0 < p <= 1 */
    double min_p;                               /* 0 <= p <= 1 */
    double repetition_penalty;                  /* > 0; 1: none */
    double frequency_penalty, presence_penalty; /* 0: none */
    uint64_t seed;                              /* meaningful where given; otherwise the engine chooses one */
    int logprobs;               /* -1: none; K >= 0: that of the token and of the K likeliest */
    struct sampling_bias *bias; /* [n_biases] ids ascending and distinct */
    size_t n_biases;
    struct sampling_str *stop; /* [n_stops] */
    size_t n_stops;
    struct sampling_str
        *bad_words; /* [n_bad_words] texts that are not to come; who prepares a request tokenizes them */
    size_t n_bad_words;
    int32_t *stop_token; /* [n_stop_tokens] */
    size_t n_stop_tokens;
    int32_t *eos; /* [n_eos] ascending and distinct */
    size_t n_eos;
    /* Of the user alone. */
    bool
        include_stop; /* the text keeps the stop string or stop token that ends it; without a name in files */
    int32_t *allowed; /* [n_allowed] allowed_token_ids: no other token is chosen; n_allowed 0: any */
    size_t n_allowed;
    /* [n_logprob_ids] log-probabilities of these tokens, in this order, instead of those of the likeliest; at
     * most SAMPLING_MAX_LOGPROBS */
    int32_t *logprob_id;
    size_t n_logprob_ids;
    int32_t bos, pad; /* -1: not named; only generation_config.json names them */
};

void sampling_default(struct sampling *s); /* neutral: greedy, without limits or penalties */
bool sampling_given(const struct sampling *s, enum sampling_field f);
void sampling_mark(struct sampling *s, enum sampling_field f); /* for callers that set a field themselves */
const char *sampling_name(enum sampling_field f);              /* "top_k" */

/* Sets the fields named in OBJECT and marks them given; null means not given. "stop_strings" and
 * "stop_token_ids" are other names of stop and stop_token; max_length is not a request's, and
 * "allowed_token_ids" is one's alone. ERR_INPUT names
 * WHAT ("request 3", a file), the field, what was found and what was expected, also for an unknown name. */
int sampling_set_json(struct sampling *s, const json_t *object, const char *what, struct arena *a,
                      struct err *e);

/* Reads generation_config.json of the folder IN over neutral defaults. No such file: neutral. Keys it does
 * not know are ignored; those that ask for another way of decoding (beams, contrastive, typical_p ...) cause
 * one warning. */
int sampling_from_generation_config(struct folder in, struct sampling *s, struct arena *a, struct err *e);

/* The same for the file's text; PATH is for messages. */
int sampling_from_text(const char *text, size_t len, const char *path, struct sampling *s, struct arena *a,
                       struct err *e);

/* Field by field: USER's where given, else CONFIG's where given, else neutral. Arrays stay borrowed.
 * Beyond that: a user who gives a temperature, top_k, top_p or min_p and says nothing of do_sample wants
 * sampling; min_new_tokens and max_new_tokens that contradict each other give way where the user did not
 * say them. */
void sampling_merge(struct sampling *out, const struct sampling *user, const struct sampling *config);

/* Puts biases and stop tokens into ascending order: a record that a caller filled may have them in
 * another. */
void sampling_sort(struct sampling *s);

/* Proves a merged record against the vocabulary: every range again (callers may have set fields
 * themselves), ids below N_VOCAB, min_new_tokens <= max_new_tokens. ERR_INPUT names the field. */
int sampling_validate(const struct sampling *s, size_t n_vocab, struct err *e);

/* True when the next token is the likeliest, not a random one. */
bool sampling_is_greedy(const struct sampling *s);

/* Adds an end token (config.json and the tokenizer name some). Only what no layer marked given should be
 * extended so. */
int sampling_add_eos(struct sampling *s, int32_t id, struct arena *a, struct err *e);

/* True when ID is in the list of N, in whatever order. */
bool sampling_has_id(const int32_t *ids, size_t n, int32_t id);

#endif
