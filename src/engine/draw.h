/* draw.h - chooses the tokens of a step: computes the token masks of constraints before the executor's run,
 * and samples the next tokens from the wanted rows of the run (executor_rows.n_wanted).
 *
 * A sequence with guesses (speculative decoding) has several wanted rows: one for its last known token, and
 * one for each guess. The token of row j is sampled as if guesses 0 to j - 1 were known: with the output
 * position after them, the token mask after them, and counts for penalties that include them. The caller
 * (step.c) uses the rows in order, up to the first token that differs from its guess. Later rows were
 * computed from wrong guesses and may contain anything, even NaN.
 */
#ifndef GALLOP_ENGINE_DRAW_H
#define GALLOP_ENGINE_DRAW_H

#include <stdbool.h>
#include <stddef.h>

struct step;

/* Sets seq.mask of each of the N planned sequences that has a constraint and samples a token in this step: the mask of
 * the next token (from seq.next_mask), and a mask after each guess. If the mask after a guess cannot be computed, this
 * guess and all later ones are dropped from seq.guess. */
void draw_masks(struct step *g, size_t n);

/* Called after the executor has run the N sequences of the plan: fills g->row with the rows that need results, and
 * samples, scores or pools them. Returns false if the executor has failed (executor.failure); no sequence has changed
 * then. */
bool draw_tokens(struct step *g, size_t n);

#endif
