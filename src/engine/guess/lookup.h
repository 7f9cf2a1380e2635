/* lookup.h - the state of a running sequence for guesses by lookup: an index of its own tokens, and the writer of its
 * tokens into the history of all sequences. */
#ifndef GALLOP_ENGINE_GUESS_LOOKUP_H
#define GALLOP_ENGINE_GUESS_LOOKUP_H

#include "engine/guess/history.h"
#include "engine/guess/match.h"

struct guess_lookup {
    struct match own;
    struct history_writer writer;
};

/* Allocates the index of a prompt of N tokens, which several answers share. Matches have at most MAX_LENGTH tokens.
 * Returns NULL if memory is exhausted. */
struct match *guess_lookup_prompt(size_t n, size_t max_length);
void guess_lookup_free_prompt(struct match *m); /* M may be NULL */

/* Allocates the state of a sequence of at most CAPACITY tokens after its prompt. PROMPT is the borrowed index of the
 * prompt; NULL: CAPACITY includes the prompt. Matches have at most MAX_LENGTH tokens, and at most MATCH_MAX_LENGTH.
 * SALT: the 16 bytes that sequences must have in common to share tokens; NULL: none. The history does not get the first
 * N_SKIPPED tokens. Returns NULL if memory is exhausted. */
struct guess_lookup *guess_lookup_new(const struct match *prompt, size_t capacity, size_t max_length,
                                      const uint8_t *salt, size_t n_skipped);
void guess_lookup_free(struct guess_lookup *l); /* L may be NULL */

#endif
