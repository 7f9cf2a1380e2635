/* stop.h - decides when a text ends: end tokens, stop tokens, stop strings across token borders, and length.
 *
 * Each sequence has a struct stop, which is given each new token and then the text that the detokenizer
 * produced from it. Text that may be the beginning of a stop string is held back until that is decided, so
 * the user never sees any part of a stop string, however it is cut into tokens. What follows the first match
 * is dropped, and so is the match itself, unless include_stop is set. Which match is first depends on the
 * bytes alone: the one that ends first, and of several the longest. Nothing counts as a stop before
 * min_new_tokens tokens are output (vLLM's rule; Hugging Face always looks at strings); a string may begin
 * before that point, but must end after it. Tokens that end a text are part of the output ids, not of the
 * text.
 */
#ifndef GALLOP_ENGINE_STOP_H
#define GALLOP_ENGINE_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "engine/sampling/sampling.h"

enum stop_why {
    STOP_NONE,   /* the text goes on */
    STOP_EOS,    /* an end token */
    STOP_TOKEN,  /* one of the request's stop tokens */
    STOP_STRING, /* one of the request's stop strings */
    STOP_LENGTH, /* max_new_tokens, or the context is full */
};

struct stop_text; /* the state of one stop string */

struct stop {
    const struct sampling *s; /* borrowed */
    size_t limit;             /* maximum number of output tokens */
    size_t n_output;          /* output tokens so far */
    enum stop_why why;
    int32_t token;          /* STOP_EOS, STOP_TOKEN: the token */
    size_t string;          /* STOP_STRING: index into s->stop */
    struct stop_text *text; /* [s->n_stop] */
    char *held;             /* text that is not yet released, at most the longest stop string */
    size_t n_held;
};

/* S must be valid and outlive ST; all memory comes from A. MAX_LEN is the maximum of prompt and output tokens
 * together. If max_new_tokens is not given, a model's max_length limits the same sum. ERR_NOMEM. */
int stop_init(struct stop *st, const struct sampling *s, size_t n_prompt, size_t max_len, struct arena *a,
              struct err *e);

size_t stop_longest(const struct sampling *s); /* bytes of the longest stop string; 0: there are none */

/* Starts another text with the stops of FROM, which was initialized, never used, and outlives ST. S replaces
 * FROM's parameters and has the same lists. ERR_NOMEM. */
int stop_begin(struct stop *st, const struct stop *from, const struct sampling *s, struct arena *a);

/* Takes output token number N_OUTPUT (1 for the first). Returns why the text ends with it, as far as tokens
 * tell. */
enum stop_why stop_token(struct stop *st, int32_t id, size_t n_output);

/* Takes PIECE, the text of the token last given to stop_token(), or what the detokenizer had left at the end,
 * and appends to OUT the text that may be shown. True: a stop string is complete; WHY becomes STOP_STRING,
 * also if the same token reached the length or was an end token, and nothing more may follow. Out of memory:
 * out->oom is set. */
bool stop_text(struct stop *st, const char *piece, size_t n, struct buf *out);

/* Appends the text that was held back, when the text ends for another reason than a stop string. */
void stop_flush(struct stop *st, struct buf *out);

#endif
