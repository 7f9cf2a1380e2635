/* nan_model.h - the bundled model with a token whose rows are not finite.
 *
 * A dim of the hidden states belongs to one token, NAN_MODEL_SPOILS: the first MLP makes infinity of it, and it is zero
 * in the rows of all other tokens. So the rows of this token in all layers but the first are NaN, and those of tokens
 * behind it, too. */
#ifndef GALLOP_TEST_NAN_MODEL_H
#define GALLOP_TEST_NAN_MODEL_H

enum { NAN_MODEL_SPOILS = 2000 };

/* Makes the model and returns its folder, which is removed when the program ends. */
const char *nan_model_make(void);

#endif
