/* split.h - the pre-tokenizer: each step cuts every piece of the step before it.
 *
 * A step that spells bytes in the GPT-2 alphabet costs nothing if it is the last one: the words then stay
 * bytes, which a byte-level model reads. Steps after it see the letters, and the words are turned back into
 * bytes at the end.
 */
#ifndef GALLOP_TEXT_TOK_SPLIT_H
#define GALLOP_TEXT_TOK_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/tok/pattern.h"
#include "text/tok/steps.h"

/* Zeroed = the whole text is one word. */
struct split {
    struct steps steps;
    bool bytes; /* the words are bytes, not text; set by split_seal() */
    bool unspell;
};

/* Zeroed = empty. */
struct split_work {
    struct buf *out; /* [n_out] one for each step, then one for the bytes of the words */
    size_t n_out;
    struct pattern_work *re; /* borrowed */
};

typedef int split_sink(void *ctx, const char *word, size_t n, struct err *e);

/* Must be called after the last step was added. */
void split_seal(struct split *p);

bool split_work_init(struct split_work *w, const struct split *p, struct pattern_work *re);
void split_work_fini(struct split_work *w);

/* Gives each word of S (valid UTF-8) to SINK in order; no word is empty. The first START bytes of S stand for
 * the first character of the user's text; 0: S is a later part. Stops at the first error of SINK or of a pattern. */
int split_run(const struct split *p, struct split_work *w, const char *s, size_t n, size_t start,
              split_sink *sink, void *ctx, struct err *e);

#endif
