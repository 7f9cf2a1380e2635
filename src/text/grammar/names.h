/* names.h - keeps the names of each JSON object distinct, which a grammar cannot express.
 *
 * A row of the recognizer does not depend on the names that an object has so far. When the quote that ends a name
 * comes, the name is compared with the earlier ones of its object, which are found in the text of the answer. If it
 * occurs there, with the same value, the recognizer goes on without its items inside the name. So the state is a row
 * and the text, and a step back is a truncation. Masks of rows stay in their cache; names_filter() removes tokens from
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
#include "text/grammar/token_trie.h"

struct names_list {
    int32_t *id; /* [n] tokens */
    size_t n, cap;
};

/* The tokens of a vocabulary whose text may contain a whole name and the quotes around it, and those whose text may
 * end inside a name that it begins. */
struct names_tokens {
    struct names_list whole, opening;
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
};

/* Borrows R and TOKENS. DEPTH: bytes of the vocabulary's longest token. ERR_NOMEM. */
int names_open(struct names *x, struct recognizer *r, const struct names_tokens *tokens, size_t depth,
               struct err *e);
void names_close(struct names *x); /* X may be zeroed */

/* Returns the row after the byte TEXT[at] at ROW, to which the text before it leads. RECOGNIZER_DEAD: it is not
 * allowed. */
uint32_t names_next(struct recognizer *r, uint32_t row, const char *text, size_t at);

/* True if the grammar matches TEXT as a whole, and the names of each object are distinct. */
bool names_match(struct recognizer *r, const char *text, size_t n);

/* Appends the text of TOKEN to TEXT [*n], which leads to ROW and has room for trie->depth more bytes, and returns the
 * row after it. RECOGNIZER_DEAD: the token is not allowed, and *N does not change. */
uint32_t names_add(const struct names *x, const struct token_trie *trie, uint32_t row, char *text, size_t *n,
                   int32_t token);

/* Clears the bits of MASK, the mask of ROW, for tokens that names_add() does not allow. Returns their number. */
size_t names_filter(const struct names *x, const struct token_trie *trie, uint32_t row, char *text, size_t n,
                    uint32_t *mask);

#endif
