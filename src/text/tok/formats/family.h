/* family.h - the pre-tokenizer patterns of tokenizers whose files do not contain them (tiktoken files,
 * vocab.json with merges.txt, GGUF), and how such a file is recognized. A tokenizer that is not in the table
 * is refused, never guessed. */
#ifndef GALLOP_TEXT_TOK_FAMILY_H
#define GALLOP_TEXT_TOK_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/tok/build.h"

struct family_special {
    const char *content; /* with one %u if it stands for several tokens */
    uint32_t id, n;      /* N tokens from ID on */
    uint32_t first;      /* the number in the first of them */
};

/* The kind of a name by which a family is known. */
enum family_name {
    FAMILY_CLASS, /* a tokenizer_class */
    FAMILY_MODEL, /* the model_type of a config.json */
    FAMILY_PRE,   /* GGUF's tokenizer.ggml.pre */
    FAMILY_NAMES
};

struct family {
    const char *name, *pattern; /* pattern NULL: GPT-2's, which ByteLevel has */
    bool nfc;
    size_t n_ranks;                       /* the entries of its tiktoken file; 0: it has none */
    const char *bos;                      /* the token before a text; NULL: none */
    const char *known_as[FAMILY_NAMES];   /* names with a blank before and after each; NULL: none */
    const struct family_special *special; /* if no settings name added tokens; ends with content NULL */
    const char *before[3];                /* patterns whose matches are cut out first; NULL: no more */
    bool ignore_merges; /* a word that is in the vocabulary is not merged; GGUF does not say it */
    bool pre_bos;       /* the default of BOS for a GGUF file that does not say it */
};

const struct family *family_of_ranks(size_t n_ranks);                                  /* NULL: unknown */
const struct family *family_known_as(enum family_name by, const char *name, size_t n); /* NULL: unknown */

/* Gives T the normalizer, pre-tokenizer and decoder of F. PREFIX_SPACE: a space before every text. */
int family_apply(const struct family *f, struct tok *t, bool prefix_space, struct err *e);

/* Adds F's own special tokens to T. */
int family_add_special(const struct family *f, struct tok *t, struct err *e);

#endif
