/* oracle.h - guesses of known quality, for measurements and tests: tokens of answers that are known from an
 * earlier run, of which a given share is right. */
#ifndef GALLOP_ENGINE_GUESS_ORACLE_H
#define GALLOP_ENGINE_GUESS_ORACLE_H

#include "engine/guess/guess.h"

struct oracle {
    struct guess_maker guesser; /* guesser.most and guesser.adaptive may be changed */
    double accept;              /* chance that a guess is right, from 0 to 1 */
    uint64_t seed;
    size_t n_vocab; /* 2 or more */
    /* Returns the tokens [*n] of the answer of S, or NULL. */
    const int32_t *(*answer)(void *ctx, const struct seq *s, size_t *n);
    void *ctx;
};

/* Initializes O.guesser, which refers to the other members of O. */
void oracle_init(struct oracle *o, size_t most);

#endif
