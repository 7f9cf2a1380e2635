/* score.h - computes the logits of a prompt without generating tokens, for `gallop logits`, `gallop ppl` and tests. */
#ifndef GALLOP_ENGINE_SCORE_H
#define GALLOP_ENGINE_SCORE_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct llm;

struct score_request {
    const int32_t *ids;
    size_t n;
    size_t last;   /* logits are computed for the last `last` positions, at most n */
    size_t chunk;  /* tokens of a step; 0: the maximum of the model */
    float *hidden; /* [L + 1, n, E] receives the hidden states; then `last` must be n. NULL: unused */
    /* Called with the logits [n, V] of positions POS to POS + N - 1. A result other than 0 ends score_run(),
     * which returns it. */
    int (*rows)(void *ctx, size_t pos, size_t n, const float *logits);
    void *ctx;
};

/* Computes the prompt of R in sequence 0 of the cache, which must be empty and is empty afterwards.
 * ERR_INPUT: the prompt is empty or longer than the context, or has a token outside the vocabulary.
 * ERR_NOSPACE: the cache is too small. */
int score_run(struct llm *m, const struct score_request *r, struct err *e);

/* Returns log(sum(exp(X [n]))), computed in double. */
double score_logsumexp(const float *x, size_t n);

#endif
