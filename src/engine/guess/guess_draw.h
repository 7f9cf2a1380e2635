/* guess_draw.h - draws a guess from the logits of a draft, as the target will draw the token. */
#ifndef GALLOP_ENGINE_GUESS_GUESS_DRAW_H
#define GALLOP_ENGINE_GUESS_GUESS_DRAW_H

#include <stdbool.h>
#include <stddef.h>

struct sample_scratch;
struct seq;

/* Assigns SEQ [n] to parts for guess_draw(), each of which one thread draws: sets guess.part to numbers below N.
 * Sequences with the same constraint get the same part, because they share its cached states. */
void guess_draw_lanes(struct seq **seq, size_t n);

/* Draws the token after the guesses of S from LOGITS [N_VOCAB], with the parameters, the seed, the number and the mask
 * of that token, and appends it to the guesses. The caller calls guess_draw_undo() before the step draws tokens.
 * Returns false if there is no guess: no token can be drawn, the token would end the answer, or computing its mask
 * takes too much work. Guesses of one part are drawn by one thread. */
bool guess_draw(struct sample_scratch *sampler, struct seq *s, const float *logits, size_t n_vocab);

/* Removes the guesses of S from the counts of its tokens and from its constraint. */
void guess_draw_undo(struct seq *s);

#endif
