/* cost.h - predicts how long a step takes, with a model that is fitted to the steps so far.
 *
 * seconds = w0 + w1 * (rows up to COST_KNEE) + w2 * (rows beyond) + w3 * (pairs of row and key that attention
 * visits). The first rows of a step wait for the weights to come from memory, the rows beyond for arithmetic.
 * The weights w are a recursive least squares fit with forgetting (Ljung, System Identification, ch. 11). A
 * negative weight counts as 0 in a prediction, and a step that took much longer than predicted (page faults,
 * another program) counts only in part. Nothing is allocated.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_COST_H
#define GALLOP_ENGINE_SCHEDULE_COST_H

#include <stddef.h>

enum { COST_TERMS = 4, COST_KNEE = 16 };

/* What a step computes. */
struct cost_step {
    size_t rows;
    double pairs; /* the sum over rows of the keys that each attends to */
};

struct cost {
    double weight[COST_TERMS];
    /* covariance of the weights: how much a new step may change them */
    double spread[COST_TERMS][COST_TERMS];
    size_t n_learned;
};

/* Starts from a guess: ROW_S seconds for a row beyond the knee, STEP_S seconds for a step of one row. */
void cost_init(struct cost *c, double step_s, double row_s);
void cost_learn(struct cost *c, const struct cost_step *s, double seconds);
double cost_predict(const struct cost *c, const struct cost_step *s); /* seconds, >= 0 */

/* S with N more rows of a sequence, the first of them at position POS. */
struct cost_step cost_with(struct cost_step s, size_t n, size_t pos);

/* The largest N in [least, most] for which cost_with(S, N, POS) is predicted to take at most SECONDS; LEAST
 * if there is none. */
size_t cost_rows(const struct cost *c, const struct cost_step *s, size_t pos, size_t least, size_t most,
                 double seconds);

#endif
