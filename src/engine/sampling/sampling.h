/* sampling.h - the generation parameters of a request: length, decoding, penalties, stops, seed,
 * log-probabilities.
 *
 * Names and meanings are as in Hugging Face's generation config. Three layers are merged field by field: the
 * user's values, the model's generation_config.json, and neutral defaults (greedy, no cuts, no penalties). A
 * struct sampling borrows its arrays and strings from the arena of its reader. sample.c applies the
 * parameters to logits, and stop.c ends the text. */
#ifndef GALLOP_ENGINE_SAMPLING_H
#define GALLOP_ENGINE_SAMPLING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/param/param.h"

struct arena;
struct err;
struct folder;

enum sampling_field {
#define SAMPLING_FIELD(field, ...)      SAMPLING_##field,
#define SAMPLING_LIST(field, ...)       SAMPLING_##field,
#define SAMPLING_FILE_FIELD(field, ...) SAMPLING_##field,
#define SAMPLING_FILE_LIST(field, ...)  SAMPLING_##field,
#include "engine/sampling/sampling.def"
    SAMPLING_N_FIELDS
};

enum {
    SAMPLING_MAX_STOPS = 64,         /* stop strings of a request */
    SAMPLING_MAX_STOP_BYTES = 1024,  /* bytes of one stop string */
    SAMPLING_MAX_BAD_WORDS = 256,    /* bad words of a request */
    SAMPLING_MAX_BAD_BYTES = 128,    /* bytes of one bad word */
    SAMPLING_MAX_BREAKERS = 32,      /* sequence breakers of a request (dry.h) */
    SAMPLING_MAX_BREAKER_BYTES = 40, /* bytes of one sequence breaker */
    SAMPLING_MAX_IDS = 4096,         /* stop tokens or end tokens of a request */
    SAMPLING_MAX_BIASES = 1 << 20,   /* entries of logit_bias */
    SAMPLING_MAX_ALLOWED = 1 << 20,  /* entries of allowed_token_ids */
    SAMPLING_MAX_LOGPROBS = 1024,    /* likeliest tokens that are reported for each token */
};

/* When a beam search ends (engine/beams/beam.h). The numbers are those of gallop_sampling.early_stopping and
 * the order of the choices of --early-stopping. */
enum sampling_early { SAMPLING_EARLY_FALSE, SAMPLING_EARLY_TRUE, SAMPLING_EARLY_NEVER };

/* The type of the elements of a list, and its JSON syntax. */
enum sampling_list {
    SAMPLING_NO_LIST,
    SAMPLING_STRINGS, /* struct sampling_str; a string or a list of strings */
    SAMPLING_IDS,     /* int32_t; a token id or a list of token ids */
    SAMPLING_BIASES,  /* struct sampling_bias; an object of token id to number, or a list of [id, number] */
};

/* A row of sampling.def. */
struct sampling_row {
    struct param param; /* its member in struct sampling; of a list only the name and the offset are set */
    enum sampling_list list;
    bool draws;        /* giving the field without do_sample sets do_sample */
    size_t n_at;       /* lists: offset of the number of entries */
    size_t most;       /* lists: maximum number of entries */
    size_t most_bytes; /* lists of strings: maximum bytes of a string */
    const char *help;  /* without a full stop; NULL: only generation_config.json has the field */
};

extern const struct sampling_row sampling_row[SAMPLING_N_FIELDS];

/* Decoding is greedy below this temperature. */
#define SAMPLING_LOWEST_TEMPERATURE 1e-5

struct sampling_bias {
    int32_t id;
    float value; /* finite */
};

struct sampling_str {
    const char *s; /* borrowed: N bytes of UTF-8 and a final NUL; N > 0 */
    size_t n;
};

/* clang-format off */
#define SAMPLING_ELEMENT_STRINGS struct sampling_str
#define SAMPLING_ELEMENT_IDS     int32_t
#define SAMPLING_ELEMENT_BIASES  struct sampling_bias
struct sampling {
    /* Bit (1 << enum sampling_field) is set if the user or generation_config.json gave the field. */
    uint64_t given;
    /* The fields of sampling.def; a list is MEMBER [n_MEMBER]. A count of SIZE_MAX means no limit. The seed
     * is valid if it is given. Ids of biases, end tokens and suppressed tokens are ascending and distinct. */
#define SAMPLING_FIELD(field, member, draws, type, ...)      type member;
#define SAMPLING_FILE_FIELD(field, member, draws, type, ...) type member;
#define SAMPLING_LIST(field, name, member, kind, ...)        SAMPLING_ELEMENT_##kind *member; size_t n_##member;
#define SAMPLING_FILE_LIST                                   SAMPLING_LIST
#include "engine/sampling/sampling.def"
    /* Fields of requests only. */
    bool include_stop; /* the text includes the stop string or stop token that ends it */
    int32_t *allowed;  /* [n_allowed] allowed_token_ids: other tokens are not chosen; n_allowed 0: all are allowed */
    size_t n_allowed;
    /* [n_logprob_ids] tokens whose log-probabilities are reported, in this order, instead of the likeliest
     * tokens; at most SAMPLING_MAX_LOGPROBS. */
    int32_t *logprob_id;
    size_t n_logprob_ids;
    /* Fields of generation_config.json only; -1: not given. */
    int32_t bos, pad;
};
/* clang-format on */

/* Sets every field to its neutral value: greedy, without limits or penalties. */
void sampling_default(struct sampling *s);
bool sampling_given(const struct sampling *s, enum sampling_field f);
/* Marks F as given. Callers that set a member directly must call it. */
void sampling_mark(struct sampling *s, enum sampling_field f);

/* Sets field F to V and marks it as given. F is a number or flag other than the seed, and V is in its range. */
void sampling_set_number(struct sampling *s, enum sampling_field f, double v);

/* Marks every field that shapes the distribution (penalties, temperature, top_k, suppressed tokens ...) as
 * given, so that a merge keeps the values of S instead of those of generation_config.json. */
void sampling_keep_neutral(struct sampling *s);

/* Returns the name of a field for its name NAME in OpenAI's API: max_new_tokens for max_tokens and
 * max_completion_tokens, min_new_tokens for min_tokens. Returns NAME if it is none of these. */
const char *sampling_name(const char *name);

/* Sets the field NAME to V, unless V is null, and marks it as given. Aliases are stop_strings, stop_token_ids and the
 * names of sampling_name(), which generation_config.json does not have. allowed_token_ids is also accepted, max_length
 * is not. ERR_INPUT, also for an unknown name. */
int sampling_set_member(struct sampling *s, const char *name, const json_t *v, struct arena *a,
                        struct err *e);

/* Sets the fields that the JSON object OBJECT contains, like sampling_set_member(). ERR_INPUT begins with WHAT
 * ("request 3", a file). */
int sampling_set_json(struct sampling *s, const json_t *object, const char *what, struct arena *a,
                      struct err *e);

/* Reads generation_config.json of the folder IN into *S. Fields that the file lacks, or all if there is no file, are
 * neutral. Unknown keys are ignored; keys that request another decoding method (beams, contrastive ...) cause one
 * warning. Token ids from N_VOCAB on, which the model cannot choose, are dropped, with a warning for each field. */
int sampling_from_generation_config(struct folder in, size_t n_vocab, struct sampling *s, struct arena *a,
                                    struct err *e);

/* Reads the text of a generation_config.json into *S in the same way. PATH is for messages. */
int sampling_from_text(const char *text, size_t len, const char *path, size_t n_vocab, struct sampling *s,
                       struct arena *a, struct err *e);

/* Merges field by field: the value of USER if given, else of CONFIG if given, else the neutral value. Arrays
 * stay borrowed. If USER gives a field that asks for drawing (sampling_row.draws), but not do_sample,
 * do_sample becomes true. If min_new_tokens exceeds max_new_tokens, the limit that USER did not give is set
 * to the other (min_new_tokens, if USER gave neither). */
void sampling_merge(struct sampling *out, const struct sampling *user, const struct sampling *config);

/* Sorts biases and stop tokens by id. */
void sampling_sort(struct sampling *s);

/* Validates a merged record: all ranges, ids below N_VOCAB, min_new_tokens <= max_new_tokens. ERR_INPUT names
 * the field. */
int sampling_validate(const struct sampling *s, size_t n_vocab, struct err *e);

/* Returns true if the likeliest token is always chosen. */
bool sampling_is_greedy(const struct sampling *s);

/* Returns true if USER, the parameters of a request, asks for beam search: use_beam_search, or num_beams
 * above 1 without use_beam_search false. */
bool sampling_is_search(const struct sampling *user);
/* Returns ERR_UNSUPPORTED if a parameter of USER asks for random sampling, which beam search does not do. The subject
 * of *E is the parameter. */
int sampling_check_search(const struct sampling *user, struct err *e);

/* Adds the end token ID of config.json or of the tokenizer to S. Returns 0 or ERR_NOMEM. */
int sampling_add_eos(struct sampling *s, int32_t id, struct arena *a, struct err *e);

/* Returns true if IDS [n], which are ascending, contain ID. */
bool sampling_has_id(const int32_t *ids, size_t n, int32_t id);

#endif
