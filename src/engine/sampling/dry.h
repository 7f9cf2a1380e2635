/* dry.h - the penalty DRY ("don't repeat yourself"): lowers the logits of tokens that would continue a repetition.
 *
 * The tokens of prompt and answer are compared with their own end. If the last N tokens occurred before, N at least
 * dry_allowed_length, then the token that followed them there would continue the repetition, and dry_multiplier *
 * dry_base^(N - dry_allowed_length) is subtracted from its logit; if several N apply to a token, the largest counts.
 * Names and formula are those of llama.cpp. A repetition ends at a sequence breaker, a text such as a line end: only
 * tokens after the last breaker are compared, and a token that contains a breaker is not penalized. A breaker is
 * searched in the text of the tokens, so it may begin inside one token and end inside another.
 *
 * The result is a pure function of parameters and tokens. Lengths are found by the Z-algorithm in time proportional to
 * the number of tokens; lengths above DRY_LONGEST count as DRY_LONGEST.
 */
#ifndef GALLOP_ENGINE_DRY_H
#define GALLOP_ENGINE_DRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tok;

struct sampling;

/* Maximum length of a repetition, to which longer ones are cut, and largest dry_allowed_length. */
enum { DRY_LONGEST = 1024 };

/* Returns true if the parameters P enable the penalty. */
bool dry_is_on(const struct sampling *p);

/* Subtracts the penalty from the logits X [N_VOCAB], given the tokens of prompt and answer TOKEN [N]. TOK is
 * the tokenizer, or NULL: there are no breakers. LONGEST [N_VOCAB] is scratch memory. Does not allocate. */
void dry_penalise(const struct sampling *p, const struct tok *tok, const int32_t *token, size_t n, float *x,
                  size_t n_vocab, int32_t *longest);

#endif
