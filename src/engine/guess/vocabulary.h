/* vocabulary.h - compares the tokens of two models. */
#ifndef GALLOP_ENGINE_GUESS_VOCABULARY_H
#define GALLOP_ENGINE_GUESS_VOCABULARY_H

#include <stddef.h>

#include "base/err.h"

struct tok;

/* Checks that every id in both vocabularies is the same token, unless it is special in one of them. The sizes may
 * differ. ERR_INPUT names the first token that differs. */
int vocabulary_same(const struct tok *draft, const struct tok *target, struct err *e);

#endif
