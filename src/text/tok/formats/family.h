/* family.h - the pre-tokenizer patterns for files that lack them (tiktoken, vocab.json with merges.txt,
 * GGUF), and the names by which such files are recognized. Unknown tokenizers are refused, never guessed. */
#ifndef GALLOP_TEXT_TOK_FAMILY_H
#define GALLOP_TEXT_TOK_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tok;

/* Special tokens with consecutive ids. */
struct family_special {
    const char *content; /* the text; if it contains %u, it is a format for N tokens */
    uint32_t id, n;      /* the ids ID ... ID + N - 1 */
    uint32_t first;      /* the number that %u has in the first token */
};

/* Where the name of a family comes from. */
enum family_name {
    FAMILY_CLASS, /* tokenizer_class of tokenizer_config.json */
    FAMILY_MODEL, /* model_type of config.json */
    FAMILY_PRE,   /* tokenizer.ggml.pre of a GGUF file */
    FAMILY_NAMES
};

/* Tokenizers that cut text into words in the same way. */
struct family {
    const char *name, *pattern;         /* PATTERN: pattern of the pre-tokenizer; NULL: GPT-2's */
    bool nfc;                           /* text is normalized to NFC */
    size_t n_ranks;                     /* the number of entries of the family's tiktoken file; 0: none */
    const char *bos;                    /* the token before every text; NULL: none */
    const char *known_as[FAMILY_NAMES]; /* names with a blank before and after each, or NULL */
    /* Special tokens of a tiktoken file without configured added tokens; CONTENT NULL ends the list. */
    const struct family_special *special;
    const char *before[3]; /* patterns whose matches are cut out before PATTERN applies; NULL ends the list */
    bool ignore_merges;    /* a word in the vocabulary is not split by merging; not recorded in GGUF */
    bool pre_bos;          /* the default of tokenizer.ggml.add_bos_token */
};

const struct family *family_of_ranks(size_t n_ranks);                                  /* NULL: unknown */
const struct family *family_known_as(enum family_name by, const char *name, size_t n); /* NULL: unknown */

/* Adds the normalizer, pre-tokenizer and decoder of F to T. PREFIX_SPACE: texts get a leading space. */
int family_apply(const struct family *f, struct tok *t, bool prefix_space, struct err *e);

/* Adds the special tokens of F to T. */
int family_add_special(const struct family *f, struct tok *t, struct err *e);

#endif
