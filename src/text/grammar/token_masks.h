/* token_masks.h - computes which tokens may follow the text so far, as a mask with one bit per token.
 *
 * A mask depends only on a row of the recognizer. A walk over the whole trie of the vocabulary takes about a
 * millisecond if many tokens are allowed, so the work is divided. For each state of a regular expression, one walk
 * finds the tokens that stay inside the expression, and the trie nodes at which the expression may end. This result
 * depends on the state alone and is cached. Tokens that continue after such a node depend on the row, and need a walk
 * over small subtrees for each row. The masks of rows are cached as well, up to a limit.
 *
 * Not thread-safe: a walk adds rows to the recognizer.
 */
#ifndef GALLOP_TEXT_GRAMMAR_TOKEN_MASKS_H
#define GALLOP_TEXT_GRAMMAR_TOKEN_MASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/recognizer.h"
#include "text/grammar/token_trie.h"

struct token_masks_place;
struct token_masks_set;
struct token_masks_term;

/* The result of a walk inside one regular expression. It outlives the grammar of the walk. Schemas with strings or
 * property names without limits contain the same expression, and share the result if they have the same vocabulary. */
struct token_masks_walk {
    struct token_masks_term *term; /* owned; NULL: none */
};

enum { TOKEN_MASKS_MOST_BASES = 4 };

struct token_masks {
    struct recognizer *r;
    const struct token_trie *trie;
    struct token_masks_term *term; /* [n_terms] results of walks inside regular expressions */
    size_t n_terms, cap_terms;
    uint32_t *term_of; /* [cap_states] state of a regular expression -> 1 + index in TERM; 0: none */
    size_t cap_states;
    /* [n_bases] states whose walks are borrowed: token_masks_share() */
    uint32_t base[TOKEN_MASKS_MOST_BASES];
    size_t n_bases;
    struct token_masks_set *mask; /* [n_masks] cached masks of rows */
    size_t n_masks, cap_masks;
    uint32_t *mask_of; /* [cap_rows] row -> 1 + index in MASK; 0: none */
    size_t cap_rows;
    size_t kept_bytes;              /* memory of the cached masks of rows */
    struct token_masks_place *path; /* [depth + 1] scratch: where a walk of the tokens stands, by depth */
    uint32_t *bits;                 /* [words] scratch: the mask under construction */
    size_t words;
};

/* Opens empty caches. R and TRIE are borrowed. ERR_NOMEM. */
int token_masks_open(struct token_masks *m, struct recognizer *r, const struct token_trie *trie,
                     struct err *e);
void token_masks_close(struct token_masks *m); /* M may be zeroed */

/* Walks over TRIE inside REGEX, an expression of the finished grammar G. ERR_NOMEM, ERR_NOSPACE. */
int token_masks_walk_open(struct token_masks_walk *w, struct grammar *g, uint32_t regex,
                          const struct token_trie *trie, struct err *e);
void token_masks_walk_close(struct token_masks_walk *w); /* W may be zeroed */

/* Uses the results of W, which must outlive M, for REGEX, which must be the expression of W. Walks of other expressions
 * then visit only the texts after which their states differ from the states of REGEX. */
void token_masks_share(struct token_masks *m, uint32_t regex, const struct token_masks_walk *w);

/* Sets the bits of MASK [m->words] for the tokens that may come next at ROW. Returns the number of these
 * tokens; 0 also after a fault of the grammar's store. */
size_t token_masks_get(struct token_masks *m, uint32_t row, uint32_t *mask);

/* Returns the row after TOKEN. RECOGNIZER_DEAD: the token is not allowed at ROW, or not in the trie. */
uint32_t token_masks_next(struct token_masks *m, uint32_t row, int32_t token);

#endif
