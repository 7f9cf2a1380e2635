/* cost.c - recursive least squares with forgetting, with four coefficients. */
#include "engine/schedule/cost.h"

#include <string.h>

/* Forgetting factor: a step that is 100 steps old has a weight of about 1/8. */
static const double forget = 0.98;
/* Initial and maximum trace of the covariance. The limit keeps the variance of terms that are 0 for many
 * steps from growing without bound. */
static const double most_spread = 1e4;
/* Maximum relative error of a step in the fit: (measured - predicted) / predicted is limited to this value. */
static const double most_surprise = 1.0;

/* Computes the four terms of S, scaled to about 1 for a typical step. */
static void terms(const struct cost_step *s, double x[COST_TERMS])
{
    size_t few = s->rows < COST_KNEE ? s->rows : COST_KNEE;

    x[0] = 1;
    x[1] = (double)few / COST_KNEE;
    x[2] = (double)(s->rows - few) / 256;
    x[3] = s->pairs / (1 << 20);
}

void cost_init(struct cost *c, double step_s, double row_s)
{
    *c = (struct cost){.weight = {step_s, 0, row_s * 256, 0}};
    for (int i = 0; i < COST_TERMS; i++)
        c->spread[i][i] = most_spread / COST_TERMS;
}

static double product(const double a[COST_TERMS], const double b[COST_TERMS])
{
    double sum = 0;

    for (int i = 0; i < COST_TERMS; i++)
        sum += a[i] * b[i];
    return sum;
}

double cost_predict(const struct cost *c, const struct cost_step *s)
{
    double x[COST_TERMS], sum = 0;

    terms(s, x);
    for (int i = 0; i < COST_TERMS; i++)
        sum += c->weight[i] > 0 ? c->weight[i] * x[i] : 0;
    return sum;
}

void cost_learn(struct cost *c, const struct cost_step *s, double seconds)
{
    double x[COST_TERMS], gain[COST_TERMS], expected, wrong, norm, trace = 0;

    terms(s, x);
    expected = product(c->weight, x);
    wrong = seconds - expected;
    if (c->n_learned >= 2 * COST_TERMS && expected > 0 && wrong > most_surprise * expected)
        wrong = most_surprise * expected;
    for (int i = 0; i < COST_TERMS; i++)
        gain[i] = product(c->spread[i], x);
    norm = forget + product(x, gain);
    for (int i = 0; i < COST_TERMS; i++)
        c->weight[i] += gain[i] / norm * wrong;
    for (int i = 0; i < COST_TERMS; i++)
        for (int j = 0; j < COST_TERMS; j++)
            c->spread[i][j] -= gain[i] * gain[j] / norm;
    for (int i = 0; i < COST_TERMS; i++)
        trace += c->spread[i][i];
    for (int i = 0; i < COST_TERMS && trace < most_spread; i++)
        for (int j = 0; j < COST_TERMS; j++)
            c->spread[i][j] /= forget;
    c->n_learned++;
}

struct cost_step cost_with(struct cost_step s, size_t n, size_t pos)
{
    s.rows += n;
    s.pairs += (double)n * (double)pos + (double)n * (double)(n + 1) / 2;
    return s;
}

size_t cost_rows(const struct cost *c, const struct cost_step *s, size_t pos, size_t least, size_t most,
                 double seconds)
{
    while (least < most) {
        size_t n = least + (most - least + 1) / 2;
        struct cost_step with = cost_with(*s, n, pos);

        if (cost_predict(c, &with) <= seconds)
            least = n;
        else
            most = n - 1;
    }
    return least;
}
