/* token_masks.h - which tokens may follow the text so far: one bit for each token of the vocabulary.
 *
 * A mask is a function of a recognizer's row. A walk over the whole trie of the vocabulary costs about a
 * millisecond where much is allowed, so the work is divided. For each state of a regular expression one walk
 * finds the tokens that stay inside the expression and the places in the trie where it may end; this depends
 * on nothing else, and is kept. What follows an end depends on the row, and is walked for each row: short
 * parts of the trie. The masks of rows are kept, too, up to a limit.
 *
 * Not thread-safe: the recognizer makes rows during a walk.
 */
#ifndef GALLOP_TEXT_GRAMMAR_TOKEN_MASKS_H
#define GALLOP_TEXT_GRAMMAR_TOKEN_MASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/recognizer.h"
#include "text/grammar/token_trie.h"

struct token_masks_set;
struct token_masks_term;

struct token_masks {
    struct recognizer *r;
    const struct token_trie *trie;
    struct token_masks_term *term; /* [n_terms] walks inside regular expressions */
    size_t n_terms, cap_terms;
    uint32_t *term_of; /* [cap_states] by state of a regular expression: 1 + index of term, or 0 */
    size_t cap_states;
    struct token_masks_set *mask; /* [n_masks] masks of rows */
    size_t n_masks, cap_masks;
    uint32_t *mask_of; /* [cap_rows] by row: 1 + index of mask, or 0 */
    size_t cap_rows;
    size_t kept_bytes;                           /* of the masks of rows */
    uint32_t *path_row, *path_node, *path_count; /* [depth + 1] of the walk */
    bool *path_open;                             /* [depth + 1] likewise */
    uint32_t *bits;                              /* [words] the mask that is being made */
    size_t words;
};

/* R and TRIE are borrowed. ERR_NOMEM. */
int token_masks_open(struct token_masks *m, struct recognizer *r, const struct token_trie *trie,
                     struct err *e);
void token_masks_close(struct token_masks *m); /* a zeroed one is fine */

/* Sets the bits of the tokens after which the text is still the beginning of a text of the grammar, and clears
 * all others, in MASK [m->words]. Returns the number of those tokens; 0 also after a fault of the grammar's
 * store. */
size_t token_masks_get(struct token_masks *m, uint32_t row, uint32_t *mask);

/* The row after TOKEN. RECOGNIZER_DEAD: its text is not allowed there, or the trie has no such token. */
uint32_t token_masks_next(struct token_masks *m, uint32_t row, int32_t token);

#endif
