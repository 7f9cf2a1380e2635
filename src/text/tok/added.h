/* added.h - added tokens, which are cut out of a text before the model encodes the rest.
 *
 * There are two sets of patterns, as in the Hugging Face library: one is searched in the original text, one in the
 * normalized text. In either set the leftmost match wins, and of matches at the same position the longest one.
 */
#ifndef GALLOP_TEXT_TOK_ADDED_H
#define GALLOP_TEXT_TOK_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json/json_pull.h"
#include "text/tok/vocabulary.h"

struct tok_added {
    uint32_t id;
    bool special, lstrip, rstrip, single_word, normalized;
    /* Borrowed: the normal form of the token's content, which decoding returns. S NULL: they are equal. */
    struct json_str normal;
};

/* The patterns of one set. */
struct tok_added_patterns {
    struct vocab_trie trie; /* pattern -> index of its token */
    bool begins[256];       /* [byte] true: some pattern begins with this byte */
    size_t longest;         /* bytes of the longest pattern */
    size_t empty;           /* index + 1 of the token whose pattern is empty; 0: none */
};

/* The added tokens of a tokenizer. An empty set is zeroed except for NAMES, which vocab_init() sets. */
struct tok_added_set {
    struct tok_added *token;
    size_t n, cap;
    struct vocab names; /* the contents and ids of the tokens */
    uint32_t *by_id;    /* [n_by_id] index of the token + 1; 0: no added token has this id */
    size_t n_by_id, by_id_cap;
    struct tok_added_patterns raw, normalized;
};

/* A part of a text, s[begin, end): an added token, or (TOKEN NULL) the text before the next token. */
struct tok_added_cut {
    const struct tok_added *token;
    size_t begin, end;
};

/* The state of cutting the text s[0, n). */
struct tok_added_iter {
    const struct tok_added_set *a;
    const struct tok_added_patterns *patterns;
    const char *s;
    size_t n;
    size_t at;          /* offset where the search continues */
    size_t done;        /* end offset of the parts that were returned */
    bool matched;       /* a pattern matched, and its match ended at AT */
    const char *origin; /* [n] the argument of tok_encode_marked(), or NULL */
    bool plain;         /* special tokens stay in the text */
    bool have;          /* NEXT is the part to return next */
    struct tok_added_cut next;
};

void tok_added_fini(struct tok_added_set *a); /* A may be zeroed */

/* Adds the token T, whose text is CONTENT. T.id must be set. If A has this content under this id, nothing
 * changes. ERR_INPUT: the id is above VOCAB_MAX_ID or belongs to another added token. */
int tok_added_add(struct tok_added_set *a, struct tok_added t, const char *content, size_t n, struct err *e);

/* Makes the search find token I by PATTERN (its content, or the normal form of its content). As in the Hugging Face
 * library, an empty PATTERN matches between any two characters. The text is cut at each of these places, but the token
 * itself is returned only at places where it includes adjacent blanks (lstrip or rstrip). */
int tok_added_index(struct tok_added_set *a, size_t i, const char *pattern, size_t n, struct err *e);

/* Returns the added token ID, or NULL. */
const struct tok_added *tok_added_get(const struct tok_added_set *a, size_t id);

/* Starts to cut S by the patterns for original text or, if NORMALIZED is set, for normalized text. PLAIN:
 * special tokens stay in the text. */
void tok_added_start(struct tok_added_iter *it, const struct tok_added_set *a, bool normalized, bool plain,
                     const char *s, size_t n);

/* Sets *CUT to the next part of the text, which is not empty. Returns false at the end. */
bool tok_added_next(struct tok_added_iter *it, struct tok_added_cut *cut);

#endif
