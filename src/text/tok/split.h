/* split.h - runs the pre-tokenizer: each step cuts every piece that the step before it made.
 *
 * A final step that spells bytes in the GPT-2 alphabet is dropped, because a byte-level model reads bytes.
 * Steps after a spelling step work on its letters, and the words are turned back into bytes at the end.
 */
#ifndef GALLOP_TEXT_TOK_SPLIT_H
#define GALLOP_TEXT_TOK_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/tok/steps.h"

/* A pre-tokenizer. Zeroed = the whole text is one word. */
struct split {
    struct steps steps;
    bool bytes;   /* set by split_seal(): the words are bytes, not text */
    bool unspell; /* set by split_seal(): words are letters and must be turned into bytes */
};

/* The buffers of one thread. Zeroed = empty. */
struct split_work {
    struct buf *out; /* [n_out] one buffer for each step, then one for the bytes of words */
    size_t n_out;
    struct pattern_work *re; /* borrowed */
};

/* Receives one word of N bytes. A result other than 0 stops the pre-tokenizer. */
typedef int split_sink(void *ctx, const char *word, size_t n, struct err *e);

/* Completes P after its last step was added. */
void split_seal(struct split *p);

bool split_work_init(struct split_work *w, const struct split *p, struct pattern_work *re);
void split_work_fini(struct split_work *w);

/* Passes each word of S (valid UTF-8) to SINK in order; no word is empty. START: bytes of the first character of the
 * user's text if S begins with that character, else 0. Stops at the first error of SINK or of a pattern. */
int split_run(const struct split *p, struct split_work *w, const char *s, size_t n, size_t start,
              split_sink *sink, void *ctx, struct err *e);

#endif
