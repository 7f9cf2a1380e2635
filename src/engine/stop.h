/* stop.h - when a text ends: end tokens, stop tokens, stop strings across token borders, and the length.
 *
 * One struct stop a sequence, fed first with each new token and then with the text that token released from
 * the detokenizer. Text that may be the beginning of a stop string is held back until it is decided, so the
 * user never sees any part of a stop string, however it is cut into tokens; what follows the first match is
 * dropped (and the match itself, unless include_stop). Which match is first depends on the bytes alone: the
 * one that ends first, of those the longest. Nothing counts as a stop before min_new_tokens tokens are out
 * (vLLM's rule; Hugging Face would look at strings always); a string may begin before that point, but must
 * end after it. Tokens that end a text are part of the output ids, not of the text.
 */
#ifndef GALLOP_ENGINE_STOP_H
#define GALLOP_ENGINE_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "engine/sampling.h"

enum stop_why {
    STOP_NONE,   /* goes on */
    STOP_EOS,    /* an end token */
    STOP_TOKEN,  /* one of the request's stop tokens */
    STOP_STRING, /* one of the request's stop strings */
    STOP_LENGTH, /* max_new_tokens, or the context is full */
};

struct stop_text; /* the state of one stop string */

struct stop {
    const struct sampling *s; /* borrowed */
    size_t limit;             /* most output tokens */
    size_t n_output;          /* tokens seen */
    enum stop_why why;
    int32_t token;          /* STOP_EOS, STOP_TOKEN: which */
    size_t string;          /* STOP_STRING: index into s->stop */
    struct stop_text *text; /* [s->n_stops] */
    char *held;             /* bytes not yet released, at most the longest stop string */
    size_t n_held;
};

/* S must be valid and outlive the struct; all memory comes from A. MAX_LEN: most tokens of prompt and
 * output together. Where max_new_tokens is not given, a model's max_length bounds the same sum. ERR_NOMEM. */
int stop_init(struct stop *st, const struct sampling *s, size_t n_prompt, size_t max_len, struct arena *a,
              struct err *e);

size_t stop_longest(const struct sampling *s); /* bytes of the longest stop string; 0: there is none */

/* Another text with the stops of FROM, which was initialised and never fed and outlives it; S, which replaces
 * FROM's, has the same lists. ERR_NOMEM. */
int stop_begin(struct stop *st, const struct stop *from, const struct sampling *s, struct arena *a);

/* The output token number N_OUTPUT (1 for the first) is ID. Returns why the text ends with it, as far as
 * tokens tell. */
enum stop_why stop_token(struct stop *st, int32_t id, size_t n_output);

/* The text PIECE came out with the last token of stop_token(), or was left in the detokenizer at the end:
 * appends to OUT what may be shown. True: a stop string is complete, and why is STOP_STRING, also where
 * the length or an end token was reached with the same token; then nothing more may follow. Running out of
 * memory shows in out->oom. */
bool stop_text(struct stop *st, const char *piece, size_t n, struct buf *out);

/* The end has come for another reason than a stop string: appends what was held back. */
void stop_flush(struct stop *st, struct buf *out);

#endif
