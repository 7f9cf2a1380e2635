/* draw.h - chooses the tokens of a step: computes the masks of constraints before a run, and draws the tokens that
 * follow its wanted rows.
 *
 * A sequence with guesses has several wanted rows: that of its last known token, and those of its guesses. Row j is
 * drawn as if guesses 0 to j - 1 were known: with the number of its own token, the mask after these guesses, and counts
 * of penalties that include them. The caller (step.c) uses the rows in order, up to the first token that differs from
 * its guess. Later rows were computed from wrong guesses and may contain anything, even NaN.
 */
#ifndef GALLOP_ENGINE_DRAW_H
#define GALLOP_ENGINE_DRAW_H

#include <stdbool.h>
#include <stddef.h>

struct step;

/* Sets seq.mask of the constrained sequences, among the N of the plan, that sample a token in this step: from
 * seq.next_mask, and after each guess. Guesses after which a mask cannot be made are dropped from seq.guess. */
void draw_masks(struct step *g, size_t n);

/* Called after the executor has run the N sequences of the plan: fills g->row with the rows that need results, and
 * samples, scores or pools them. Returns false if the executor has failed (executor.failure); no sequence has changed
 * then. */
bool draw_tokens(struct step *g, size_t n);

#endif
