/* cost.h - how long a step will take: a model that is learned from the steps that were.
 *
 * seconds = w0 + w1 * (rows up to COST_KNEE) + w2 * (rows beyond) + w3 * (pairs of row and key that attention
 * visits). The first rows of a step wait for the weights, those beyond for arithmetic. The weights are a
 * recursive least squares fit that forgets (Ljung, System Identification, ch. 11); one below zero does not
 * count in a prediction, and a step that took much longer than it should (pages that came, another program)
 * counts only in part. Nothing is allocated.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_COST_H
#define GALLOP_ENGINE_SCHEDULE_COST_H

#include <stddef.h>

enum { COST_TERMS = 4, COST_KNEE = 16 };

/* What a step computes. */
struct cost_step {
    size_t rows;
    double pairs; /* sum over rows of the keys each attends to */
};

struct cost {
    double weight[COST_TERMS];
    double spread[COST_TERMS][COST_TERMS]; /* of the weights: how much a new step may change them */
    size_t n_learned;
};

/* ROW_S is a guess of the seconds that a row beyond the knee takes, STEP_S of those that one row alone
 * takes. */
void cost_init(struct cost *c, double step_s, double row_s);
void cost_learn(struct cost *c, const struct cost_step *s, double seconds);
double cost_predict(const struct cost *c, const struct cost_step *s); /* seconds, >= 0 */

/* S with N more rows of a prompt, the first of them at position POS. */
struct cost_step cost_with(struct cost_step s, size_t n, size_t pos);

/* The largest N from LEAST to MOST with which cost_with(S, N, POS) takes at most SECONDS, LEAST if none
 * does. */
size_t cost_rows(const struct cost *c, const struct cost_step *s, size_t pos, size_t least, size_t most,
                 double seconds);

#endif
