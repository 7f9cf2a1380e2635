/* suffix.h - guesses from a sequence's own tokens (match.h) and those of earlier sequences (history.h), as vLLM's
 * method "suffix".
 *
 * The longest match in either is taken, with up to MATCH_MAX_OCCURRENCES of its occurrences in each. Each occurrence
 * votes for the token that followed it; the token with the most votes is guessed, and if votes are equal, the token of
 * the first occurrence: own tokens before the history, recent before old. Occurrences that went on with another token
 * drop out. The guesses end where fewer than min_share of all occurrences are left. An occurrence in the own tokens
 * goes on with the guesses (match_rule.repeats); one in the history ends with its sequence.
 *
 * Where the longest match is shorter than SUFFIX_RESUMED, but a longer one was interrupted by the last tokens
 * (match_interrupted()), the guesses are the tokens that followed the replaced ones. Tables, records and code with
 * renamed variables repeat earlier text except for single tokens.
 */
#ifndef GALLOP_ENGINE_GUESS_SUFFIX_H
#define GALLOP_ENGINE_GUESS_SUFFIX_H

#include "engine/guess/history.h"

struct match;
struct match_rule;

/* A guess after an interrupted match is as trustworthy as one after a match of this length. */
enum { SUFFIX_RESUMED = 2 };

/* Writes guesses for the tokens after TOKEN [n] to GUESS [rule->n_most]. All of TOKEN must be in the index OWN. Matches
 * have at most OWN->max_length tokens. H may be NULL: no history. Sets *LENGTH, which may be NULL, to the length of the
 * match. Returns the number of guesses. */
size_t suffix_guess(const struct match *own, const struct history *h, const struct history_writer *w,
                    const int32_t *token, size_t n, const struct match_rule *rule, int32_t *guess,
                    size_t *length);

#endif
