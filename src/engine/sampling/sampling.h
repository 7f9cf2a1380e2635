/* sampling.h - the generation parameters of a request: length, decoding, penalties, stops, seed,
 * log-probabilities.
 *
 * Names and meanings are those of Hugging Face's generation config. Three layers are merged field by field:
 * what the user gave, the model's generation_config.json, and neutral defaults (greedy, no cuts, no
 * penalties). A plain record: its arrays and strings are borrowed from the arena of the layer's reader.
 * sample.c applies the parameters, stop.c ends the text.
 */
#ifndef GALLOP_ENGINE_SAMPLING_H
#define GALLOP_ENGINE_SAMPLING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    SAMPLING_MAX_STOPS = 64,        /* stop strings of a request */
    SAMPLING_MAX_STOP_BYTES = 1024, /* bytes of one of them */
    SAMPLING_MAX_BAD_WORDS = 256,   /* bad words of a request */
    SAMPLING_MAX_BAD_BYTES = 128,   /* bytes of one bad word */
    SAMPLING_MAX_IDS = 4096,        /* stop tokens or end tokens of a request */
    SAMPLING_MAX_BIASES = 1 << 20,  /* entries of logit_bias */
    SAMPLING_MAX_ALLOWED = 1 << 20, /* entries of allowed_token_ids */
    SAMPLING_MAX_LOGPROBS = 1024,   /* alternatives per token */
};

/* How a field is stored in struct sampling, and what it is in JSON. */
enum sampling_kind {
    SAMPLING_AS_BOOL,    /* bool */
    SAMPLING_AS_COUNT,   /* size_t; a whole number */
    SAMPLING_AS_SEED,    /* uint64_t; a whole number of 64 bits */
    SAMPLING_AS_INTEGER, /* int; -1: none */
    SAMPLING_AS_NUMBER,  /* double */
    SAMPLING_AS_STRINGS, /* struct sampling_str *; a string or a list of strings */
    SAMPLING_AS_IDS,     /* int32_t *; a token id or a list of ids */
    SAMPLING_AS_BIASES,  /* struct sampling_bias *; an object of id to number, or a list of pairs */
};

/* A row of sampling.def. */
struct sampling_row {
    const char *name; /* in JSON: "top_k" */
    enum sampling_kind kind;
    bool draws;    /* giving it asks for drawing at random */
    size_t at;     /* offset of the member in struct sampling */
    size_t n_at;   /* lists: offset of the number of entries */
    double lo, hi; /* numbers: inclusive, but LO is excluded if open_lo is set; HI may be INFINITY */
    bool open_lo;
    const char *range;    /* numbers: the same as text, "(0,1]"; "" if every number is allowed */
    const char *expected; /* "a number above 0 and at most 1" */
    size_t most;          /* lists: the largest number of entries */
    size_t most_bytes;    /* SAMPLING_AS_STRINGS: of one string */
    const char *help;     /* without a full stop; NULL: only generation_config.json has the field */
};

extern const struct sampling_row sampling_row[SAMPLING_N_FIELDS];

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

/* clang-format off */
#define BOOL        bool
#define COUNT       size_t
#define UINT64      uint64_t
#define INTEGER     int
#define NUMBER      double
#define DRAW_COUNT  size_t
#define DRAW_NUMBER double
#define STRINGS     struct sampling_str
#define IDS         int32_t
#define BIASES      struct sampling_bias
struct sampling {
    /* Bit (1 << enum sampling_field) is set if the user or the model's file gave the field. */
    uint32_t given;
    /* The fields of sampling.def: of lists MEMBER [n_MEMBER]. After a merge, counts of SIZE_MAX stand for no limit; a
     * seed counts if it is given; ids of biases and end tokens are ascending and distinct. */
#define SAMPLING_FIELD(field, member, kind, ...)                         kind member;
#define SAMPLING_FILE_FIELD(field, member, kind, ...)                    kind member;
#define SAMPLING_LIST(field, name, member, kind, ...)                    kind *member; size_t n_##member;
#define SAMPLING_FILE_LIST(field, name, member, kind, ...)               kind *member; size_t n_##member;
#include "engine/sampling/sampling.def"
    /* Requests have these fields, files do not. */
    bool include_stop; /* keep the stop string or stop token that ends the text */
    int32_t *allowed;  /* [n_allowed] allowed_token_ids: only these are chosen; n_allowed 0: any token */
    size_t n_allowed;
    /* [n_logprob_ids] Log-probabilities of these tokens, in this order, instead of the most likely ones. At
     * most SAMPLING_MAX_LOGPROBS. */
    int32_t *logprob_id;
    size_t n_logprob_ids;
    int32_t bos, pad; /* -1: not given; only generation_config.json has them */
};
#undef BOOL
#undef COUNT
#undef UINT64
#undef INTEGER
#undef NUMBER
#undef DRAW_COUNT
#undef DRAW_NUMBER
#undef STRINGS
#undef IDS
#undef BIASES
/* clang-format on */

void sampling_default(struct sampling *s); /* greedy, without limits or penalties */
bool sampling_given(const struct sampling *s, enum sampling_field f);
/* marks F as given, for callers that set a field themselves */
void sampling_mark(struct sampling *s, enum sampling_field f);

/* Sets F, which is neither a seed nor a list, to V, which is in its range, and marks it. */
void sampling_set_number(struct sampling *s, enum sampling_field f, double v);

/* Marks every number that shapes the distribution as given: what S does not have stays neutral, whatever a lower
 * layer says. */
void sampling_keep_neutral(struct sampling *s);

/* Sets the fields that OBJECT names and marks them as given; null means not given. "stop_strings" and
 * "stop_token_ids" are aliases of stop and stop_token; max_length is for files only, allowed_token_ids for
 * requests only. ERR_INPUT names WHAT ("request 3", a file), the field, what was found and what was expected,
 * also for an unknown name. */
int sampling_set_json(struct sampling *s, const json_t *object, const char *what, struct arena *a,
                      struct err *e);

/* Reads generation_config.json of the folder IN over neutral defaults. If there is no such file, the result
 * is neutral. Unknown keys are ignored; those that ask for another decoding method (beams, contrastive,
 * typical_p ...) cause one warning. */
int sampling_from_generation_config(struct folder in, struct sampling *s, struct arena *a, struct err *e);

/* The same from the text of the file. PATH is for messages. */
int sampling_from_text(const char *text, size_t len, const char *path, struct sampling *s, struct arena *a,
                       struct err *e);

/* Merges field by field: USER's value if given, else CONFIG's if given, else neutral. Arrays stay borrowed. A
 * user who gives temperature, top_k, top_p or min_p but not do_sample wants sampling. Of min_new_tokens and
 * max_new_tokens that contradict each other, the one that the user did not give yields. */
void sampling_merge(struct sampling *out, const struct sampling *user, const struct sampling *config);

/* Sorts biases and stop tokens: callers may have filled them in any order. */
void sampling_sort(struct sampling *s);

/* Validates a merged record against the vocabulary: every range again (callers may have set fields
 * themselves), ids below N_VOCAB, min_new_tokens <= max_new_tokens. ERR_INPUT names the field. */
int sampling_validate(const struct sampling *s, size_t n_vocab, struct err *e);

/* True when the most likely token is chosen, without chance. */
bool sampling_is_greedy(const struct sampling *s);

/* Adds an end token: config.json and the tokenizer name some. Only for a list that no layer gave. */
int sampling_add_eos(struct sampling *s, int32_t id, struct arena *a, struct err *e);

/* True when ID is in the list, whatever its order. */
bool sampling_has_id(const int32_t *ids, size_t n, int32_t id);

#endif
