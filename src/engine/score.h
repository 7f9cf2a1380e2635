/* score.h - logits of a text without generating, for `logits`, `ppl` and tests. */
#ifndef GALLOP_ENGINE_SCORE_H
#define GALLOP_ENGINE_SCORE_H

#include "engine/llm.h"

struct score_request {
    const int32_t *ids;
    size_t n;
    size_t last;   /* compute logits of the last LAST positions (at most n) */
    size_t chunk;  /* tokens per forward; 0: as many as a step takes */
    float *hidden; /* [L + 1, n, E] or NULL; LAST must be n then */
    /* Called with N rows of logits [n, V], those of positions POS, POS + 1, ... A non-zero return value stops
     * the run and becomes its result. */
    int (*rows)(void *ctx, size_t pos, size_t n, const float *logits);
    void *ctx;
};

/* Uses sequence 0 of the cache, which must be free, and frees it again. Errors: no tokens, too many tokens, a
 * token outside the vocabulary, no rows left. */
int score_run(struct llm *m, const struct score_request *r, struct err *e);

/* The log of the sum of exp of N logits, computed in double. */
double score_logsumexp(const float *x, size_t n);

#endif
