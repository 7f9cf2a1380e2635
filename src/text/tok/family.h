/* family.h - the pre-tokenizer patterns of the tokenizers whose files do not hold them (tiktoken files,
 * vocab.json with merges.txt, GGUF), and how such a file is recognised. What is not listed here is refused,
 * never guessed.
 */
#ifndef GALLOP_TEXT_TOK_FAMILY_H
#define GALLOP_TEXT_TOK_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tok;

struct family_special {
    const char *content; /* with one %u where it stands for a row of tokens */
    uint32_t id, n;      /* N tokens from ID on */
    uint32_t first;      /* the number in the first of them */
};

struct family {
    const char *name, *pattern; /* pattern NULL: GPT-2's, by ByteLevel's own splitting */
    bool nfc;
    size_t n_ranks;      /* entries of its tiktoken file; 0: it has none */
    const char *bos;     /* put in front of a text; NULL: nothing */
    const char *classes; /* tokenizer_class names, each with a blank before and after; NULL: none */
    const struct family_special *special; /* where no settings name added tokens; ends with content NULL */
    const char *pre;                      /* names in GGUF's tokenizer.ggml.pre, as in classes */
    const char *before[3];                /* patterns whose matches are cut out first; NULL: no more */
    bool ignore_merges; /* a word that is in the vocabulary is not merged; GGUF does not say it */
    bool pre_bos;       /* BOS where a GGUF does not say whether */
};

const struct family *family_of_ranks(size_t n_ranks);          /* NULL: unknown */
const struct family *family_of_class(const char *class);       /* a tokenizer_class; NULL: unknown */
const struct family *family_of_model(const char *model_type);  /* a config.json's model_type; NULL: unknown */
const struct family *family_of_pre(const char *pre, size_t n); /* tokenizer.ggml.pre; NULL: unknown */

/* Gives T the normalizer, pre-tokenizer and decoder of F. PREFIX_SPACE: a space in front of every text. */
int family_apply(const struct family *f, struct tok *t, bool prefix_space, struct err *e);

/* Adds F's own special tokens to T. */
int family_add_special(const struct family *f, struct tok *t, struct err *e);

#endif
