/* draw.h - chooses the tokens of a step: computes the masks of constraints before a run, and draws the tokens
 * that follow its wanted rows.
 *
 * A sequence with guesses has several wanted rows: that of its last known token, and those of its guesses. Row
 * j is drawn as if guesses 0 to j - 1 were known: with the number of its own token, the mask behind these
 * guesses, and counts of penalties that include them. The caller (step.c) uses the rows in order, up to the
 * first token that differs from its guess. Rows behind it may contain anything, also NaN.
 */
#ifndef GALLOP_ENGINE_DRAW_H
#define GALLOP_ENGINE_DRAW_H

#include "engine/step.h"

/* Sets the masks of the constrained sequences among the N of the plan that choose a token in this step: that of
 * seq.next_mask, and those behind guesses. Guesses behind which a mask cannot be made are dropped from seq.guess. */
void draw_masks(struct step *g, size_t n);

/* After the run of the N sequences of the plan: fills g->row with the wanted rows, and draws, scores or pools them.
 * Returns false if the executor has failed (executor.failure); no sequence has changed then. */
bool draw_tokens(struct step *g, size_t n);

#endif
