/* added.h - added tokens, which are cut out of a text before the model sees it.
 *
 * There are two sets of them, as in the Hugging Face library: those that are searched in the original text,
 * and those that are searched in the normalized text. In either set the leftmost match wins, and the longest
 * of those that begin at the same position.
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
    struct json_str normal; /* the text that it decodes to if normalization changes its content; borrowed */
};

/* The patterns of one set. */
struct tok_added_patterns {
    struct vocab_trie trie; /* values are indices of tokens */
    bool begins[256];       /* a pattern begins with this byte */
    size_t longest;         /* the bytes of the longest pattern */
    size_t empty;           /* the token whose pattern is empty, plus one; 0: none */
};

/* Empty when everything but NAMES is zeroed. */
struct tok_added_set {
    struct tok_added *token;
    size_t n, cap;
    struct vocab names; /* the contents and ids of the tokens */
    uint32_t *by_id;    /* [n_by_id] index of the token + 1; 0: no added token has this id */
    size_t n_by_id, by_id_cap;
    struct tok_added_patterns raw, normalized;
};

/* A part of a text: a token, or the text before the next token (token NULL). */
struct tok_added_cut {
    const struct tok_added *token;
    size_t begin, end;
};

struct tok_added_iter {
    const struct tok_added_set *a;
    const struct tok_added_patterns *patterns;
    const char *s;
    size_t n;
    size_t at;          /* the search continues here */
    size_t done;        /* the end of the parts that were returned */
    bool matched;       /* a pattern was found before AT */
    const char *origin; /* [n] of tok_encode_marked(), or NULL */
    bool plain, have;
    struct tok_added_cut next;
};

void tok_added_fini(struct tok_added_set *a); /* a zeroed A is fine */

/* Adds a token with the text CONTENT. T.id must be set; a token that A already has does not change. An id
 * above VOCAB_MAX_ID or of another added token is ERR_INPUT. */
int tok_added_add(struct tok_added_set *a, struct tok_added t, const char *content, size_t n, struct err *e);

/* Makes the search find token I by PATTERN (its content or its normal form). An empty PATTERN is found
 * between any two characters, as in the Hugging Face library: the text is cut there, and the token appears
 * where it swallows blanks. */
int tok_added_index(struct tok_added_set *a, size_t i, const char *pattern, size_t n, struct err *e);

/* NULL: no added token has this id. */
const struct tok_added *tok_added_get(const struct tok_added_set *a, size_t id);

/* Starts to cut S. PLAIN: special tokens are left in the text. */
void tok_added_start(struct tok_added_iter *it, const struct tok_added_set *a, bool normalized, bool plain,
                     const char *s, size_t n);

/* The next part of the text, which is not empty. False: the end. */
bool tok_added_next(struct tok_added_iter *it, struct tok_added_cut *cut);

#endif
