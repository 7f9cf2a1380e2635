/* cost.h - predicts the time of a step with a linear model that is fitted to the measured steps.
 *
 * seconds = w0 + w1 * (rows up to COST_KNEE) + w2 * (rows beyond) + w3 * (pairs of row and key in attention). The time
 * of the first rows of a step is determined by the memory bandwidth for reading weights, the time of further rows by
 * arithmetic. The coefficients w are fitted by recursive least squares with forgetting (Ljung, System Identification,
 * ch. 11). A prediction treats negative coefficients as 0, so that it never falls with more work. The fit keeps
 * negative coefficients: with updates that set them to 0, the other coefficients drifted by more than test_cost.c
 * allows. A step that took much longer than predicted (page faults, other programs) counts only in part. Nothing is
 * allocated.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_COST_H
#define GALLOP_ENGINE_SCHEDULE_COST_H

#include <stddef.h>

enum { COST_TERMS = 4, COST_KNEE = 16 };

/* The work of a step. */
struct cost_step {
    size_t rows;
    double pairs; /* sum over the rows of the number of keys that a row attends to */
};

struct cost {
    double weight[COST_TERMS];             /* the coefficients w */
    double spread[COST_TERMS][COST_TERMS]; /* covariance of the coefficients */
    size_t n_learned;                      /* number of steps that were learned */
};

/* Initializes the model with estimates: STEP_S seconds for a step of one row, ROW_S seconds for each row
 * beyond COST_KNEE. */
void cost_init(struct cost *c, double step_s, double row_s);
/* Updates the coefficients with a step S that took SECONDS. */
void cost_learn(struct cost *c, const struct cost_step *s, double seconds);
/* Returns the predicted seconds of S, at least 0. */
double cost_predict(const struct cost *c, const struct cost_step *s);

/* Returns S with N more rows of a sequence, the first of them at position POS. */
struct cost_step cost_with(struct cost_step s, size_t n, size_t pos);

/* Returns the largest N from LEAST to MOST for which cost_with(S, N, POS) is predicted to take at most
 * SECONDS, or LEAST if no N satisfies this. */
size_t cost_rows(const struct cost *c, const struct cost_step *s, size_t pos, size_t least, size_t most,
                 double seconds);

#endif
