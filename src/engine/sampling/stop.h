/* stop.h - decides when a text ends: end tokens, stop tokens, stop strings across token borders, and length.
 *
 * Each sequence has a struct stop, which receives each new token and then the text that the detokenizer produced from
 * it. Text that may be the beginning of a stop string is held back until later text decides whether it is one, so no
 * part of a stop string is ever output. Text after the first match is dropped, and so is the match itself, unless
 * include_stop is set. The first match is the match that ends first; of matches that end together, it is the longest.
 * It does not depend on how the text is divided into tokens. Before min_new_tokens tokens are output, nothing ends the
 * text (as in vLLM; Hugging Face always checks stop strings); a stop string may begin before that point, but must end
 * after it. A token that ends the text is part of the output ids, but not of the text.
 */
#ifndef GALLOP_ENGINE_STOP_H
#define GALLOP_ENGINE_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct sampling;

enum stop_why {
    STOP_NONE,   /* the text has not ended */
    STOP_EOS,    /* an end token of the model, or a complete constrained answer */
    STOP_TOKEN,  /* one of the request's stop tokens */
    STOP_STRING, /* one of the request's stop strings */
    STOP_LENGTH, /* max_new_tokens, max_length, or the context is full */
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
    char *held;             /* [n_held] text that is held back, shorter than the longest stop string */
    size_t n_held;
};

/* Initializes *ST with memory of A. S is validated and outlives ST. MAX_LEN is the maximum number of prompt
 * and output tokens together; if max_new_tokens is not given, max_length limits the same sum. ERR_NOMEM. */
int stop_init(struct stop *st, const struct sampling *s, size_t n_prompt, size_t max_len, struct arena *a,
              struct err *e);

/* Returns the length of the longest stop string in bytes; 0: there are none. */
size_t stop_longest(const struct sampling *s);

/* Initializes *ST as a copy of FROM. FROM was initialized by stop_init(), has not processed a token, and
 * outlives ST. S replaces the parameters of FROM and has the same lists. ERR_NOMEM. */
int stop_begin(struct stop *st, const struct stop *from, const struct sampling *s, struct arena *a);

/* Makes TO, which has the same stop strings, a copy of the state of FROM. */
void stop_copy(struct stop *to, const struct stop *from);
/* Puts ST back into the state before the first token. */
void stop_reset(struct stop *st);

/* Processes output token number N_OUTPUT (from 1). Returns the reason if the text ends by this token or by
 * its length, else STOP_NONE. */
enum stop_why stop_token(struct stop *st, int32_t id, size_t n_output);

/* Processes PIECE [n], the text of the last token, or the rest of the detokenizer's text at the end. Appends the text
 * that can be output to OUT (out->oom: memory is exhausted). Returns true if a stop string is complete; then st->why is
 * STOP_STRING, even if the token also ended the text, and no more text may follow. */
bool stop_text(struct stop *st, const char *piece, size_t n, struct buf *out);

/* Appends the text that is held back to OUT. Called when the text has ended without a stop string. */
void stop_flush(struct stop *st, struct buf *out);

#endif
