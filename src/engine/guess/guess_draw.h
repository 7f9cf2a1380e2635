/* guess_draw.h - draws a guess from the logits of a draft, as the target will draw the token. */
#ifndef GALLOP_ENGINE_GUESS_GUESS_DRAW_H
#define GALLOP_ENGINE_GUESS_GUESS_DRAW_H

#include "engine/seq.h"

/* Draws the token behind the guesses of S from LOGITS [N_VOCAB], with the parameters, the seed and the number of that
 * token, and appends it to the guesses. The caller calls guess_draw_undo() before the step draws tokens. Returns false
 * if there is no guess: no token can be drawn, or it would end the answer. */
bool guess_draw(struct sample_scratch *sampler, struct seq *s, const float *logits, size_t n_vocab);

/* Takes the guesses of S out of the counts of its tokens. */
void guess_draw_undo(struct seq *s);

#endif
