/* names.h - keeps the names of each JSON object distinct, which a grammar cannot express.
 *
 * A row of the recognizer does not depend on the names that an object has so far. When the quote that ends a name
 * comes, the name is compared with the earlier ones of its object (names_text.h). If it occurs there, with the same
 * value, the recognizer goes on without its items inside the name. So the state is a row and the text, and a step back
 * is a truncation. Masks of rows stay in their cache; names_filter() removes tokens from
 * a copy.
 *
 * Only names that the grammar marks are compared (grammar_name()). Where few names are possible, a beginning of a name
 * is refused if all its ends occur earlier.
 */
#ifndef GALLOP_TEXT_GRAMMAR_NAMES_H
#define GALLOP_TEXT_GRAMMAR_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/recognizer.h"
#include "text/grammar/names_text.h"
#include "text/grammar/token_trie.h"

/* A token with a quote that can begin a name. */
struct names_token {
    int32_t id;
    uint32_t text;  /* offset of its text in names_tokens.text */
    uint16_t quote; /* offset of the quote in the text */
    uint16_t n;     /* bytes of the name behind the quote, as far as the token goes */
    /* In the list WHOLE: the value of the name, [n_value] bytes at this offset in names_tokens.text. */
    uint32_t value;
    uint16_t n_value;
};

struct names_list {
    struct names_token *token; /* [n] */
    size_t n, cap;
};

/* The tokens of a vocabulary that may write names. */
struct names_tokens {
    /* Tokens that may contain one whole name and its quotes, and only white space and commas before it. */
    struct names_list whole;
    uint32_t *by_value;        /* [whole.n] indices of WHOLE, in the order of the values */
    struct names_list winding; /* may contain other whole names */
    struct names_list opening; /* may end inside a name */
    char *text;                /* [n_text] */
    size_t n_text, cap_text;
    bool begins[256]; /* a value in WHOLE begins with the byte */
    uint32_t pair[256]
                 [8]; /* bit b of [a]: some text begins with the bytes a and b, and has a quote behind a */
};

/* ERR_NOMEM. */
int names_tokens_open(struct names_tokens *t, const struct token_trie *trie, struct err *e);
void names_tokens_close(struct names_tokens *t); /* T may be zeroed */

struct names_path;

/* What the answers of one constraint share. */
struct names {
    struct recognizer *r;
    const struct names_tokens *tokens;
    struct names_path *path; /* [depth + 1] scratch: the path of a walk over the trie */
    uint8_t *info;           /* [cap_info] what is known of each row; 0: nothing yet */
    size_t cap_info;
};

/* Borrows R and TOKENS. DEPTH: bytes of the vocabulary's longest token. ERR_NOMEM. */
int names_open(struct names *x, struct recognizer *r, const struct names_tokens *tokens, size_t depth,
               struct err *e);
void names_close(struct names *x); /* X may be zeroed */

/* True if the grammar matches TEXT as a whole, and the names of each object are distinct. */
bool names_match(struct recognizer *r, const char *text, size_t n);

/* Appends the text of TOKEN to T, whose text leads to ROW and which has room for trie->depth more bytes. Returns the
 * row after it. RECOGNIZER_DEAD: the token is not allowed, and T does not change. */
uint32_t names_add(struct names *x, const struct token_trie *trie, uint32_t row, struct names_text *t,
                   int32_t token);

/* Clears the bits of MASK, the mask of ROW, for tokens that names_add() does not allow. Returns their number. */
size_t names_filter(struct names *x, const struct token_trie *trie, uint32_t row, struct names_text *t,
                    uint32_t *mask);

#endif
