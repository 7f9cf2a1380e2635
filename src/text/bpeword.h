/* bpeword.h - encodes a word by the tables of a struct bpe. */
#ifndef GALLOP_TEXT_BPEWORD_H
#define GALLOP_TEXT_BPEWORD_H

#include <stddef.h>

#include "base/err.h"
#include "text/bpe.h"
#include "text/tok.h"

struct bpeword_work; /* cache and arrays of one thread; used with one struct bpe only */

struct bpeword_work *bpeword_work_new(const struct bpe *b); /* NULL: out of memory */
void bpeword_work_free(struct bpeword_work *w);             /* NULL is fine */

/* Appends the ids of the word S (good UTF-8 unless byte_level). ERR_NOMEM, or ERR_INPUT for a word of 2
 * GiB. */
int bpeword_encode(const struct bpe *b, struct bpeword_work *w, const char *s, size_t n, struct tok_ids *out,
                   struct err *e);

#endif
