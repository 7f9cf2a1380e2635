/* sched.c - picks sequences by precedence, within the limits of rows, logits and time. */
#include "engine/schedule/sched.h"

#include "engine/schedule/cost.h"

/* The plan so far. */
struct plan {
    const struct sched_seq *seq;
    const struct sched_limits *lim;
    struct sched_pick *out;
    size_t n, n_wanted, n_prompts, n_streams;
    struct cost_step step;
    /* the rows of decoding sequences alone, and the expected number of tokens that they give */
    struct cost_step decode;
    double tokens;
};

static bool lacks_one(const struct sched_seq *s)
{
    return s->known - s->computed == 1;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns how many of the rows that S lacks the step can compute within the limits and the time target. */
static size_t rows_of(const struct plan *p, const struct sched_seq *s)
{
    const struct sched_limits *lim = p->lim;
    size_t lack = s->known - s->computed, n = smaller(lack, lim->max_tokens - p->step.rows),
           logits = lim->max_wanted ? lim->max_wanted - p->n_wanted : lack;

    if (lim->max_wanted && s->all_wanted)
        n = smaller(n, logits);
    if (lack > 1 && lim->max_prompts && p->n_prompts == lim->max_prompts)
        return 0;
    if (lack > 1 && lim->cost && lim->target_s > 0 && p->n_streams && n)
        n = cost_rows(lim->cost, &p->step, s->computed, p->n_prompts ? 0 : smaller(n, SCHED_LEAST), n,
                      lim->target_s);
    /* the last missing row needs logits, but the limit of rows with logits is reached */
    if (n == lack && logits == 0)
        n--;
    return lim->whole && n < lack ? 0 : n;
}

/* Adds picks of decoding sequences (STREAMS true) or of prompts (STREAMS false). p->out stays sorted by `seq`. */
static void sched_take(struct plan *p, size_t n, bool streams)
{
    for (size_t i = 0; i < n && p->n < p->lim->max_seqs && p->step.rows < p->lim->max_tokens; i++) {
        const struct sched_seq *s = &p->seq[i];
        size_t give, at;

        if (lacks_one(s) != streams || (give = rows_of(p, s)) == 0)
            continue;
        p->n_wanted += s->all_wanted ? give : give == s->known - s->computed;
        p->n_prompts += !streams;
        p->n_streams += streams;
        p->step = cost_with(p->step, give, s->computed);
        if (streams) {
            p->decode = cost_with(p->decode, give, s->computed);
            p->tokens += 1;
        }
        for (at = p->n++; at > 0 && p->out[at - 1].seq > i; at--)
            p->out[at] = p->out[at - 1];
        p->out[at] = (struct sched_pick){i, give};
    }
}

/* Returns the pick whose next guess is the likeliest, or NULL if no guess is left. */
static struct sched_pick *likeliest(const struct plan *p)
{
    struct sched_pick *best = NULL;
    float chance = 0;

    for (size_t i = 0; i < p->n; i++) {
        const struct sched_seq *s = &p->seq[p->out[i].seq];
        size_t next = p->out[i].n - 1;

        if (lacks_one(s) && next < s->n_guesses && (!best || s->chance[next] > chance)) {
            best = &p->out[i];
            chance = s->chance[next];
        }
    }
    return best;
}

/* Minimum time that a guess is assumed to add to a step, as a share of the predicted time of the decoding sequences.
 * The fitted cost of a row can be 0 or negative, and guesses that are never right would then be computed forever. */
static const double least_added = 1.0 / 256;

/* Returns whether to add a guess that is right with probability CHANCE and makes WITH the work of the step: whether its
 * expected tokens per second of added time exceed those of the decoding sequences. Prompts in the step do not count,
 * because their time is needed anyway. Sets *ADDED to the added seconds. */
static bool pays(const struct plan *p, double chance, const struct cost_step *with, double *added)
{
    const struct cost *c = p->lim->cost;
    double decode = cost_predict(c, &p->decode), seconds = cost_predict(c, with) - cost_predict(c, &p->step);

    *added = seconds > least_added * decode ? seconds : least_added * decode;
    return chance * decode > p->tokens * *added;
}

/* Adds guesses to the picks of decoding sequences, the likeliest first: while they pay, and then others while the time
 * that these add is below lim->trial_s. */
static void add_guesses(struct plan *p)
{
    const struct sched_limits *lim = p->lim;
    double left_s = lim->trial_s;
    struct sched_pick *at;

    while (p->step.rows < lim->max_tokens && (!lim->max_wanted || p->n_wanted < lim->max_wanted) &&
           (at = likeliest(p)) != NULL) {
        const struct sched_seq *s = &p->seq[at->seq];
        struct cost_step with = cost_with(p->step, 1, s->computed + at->n);
        double chance = (double)s->chance[at->n - 1], added;

        if (!lim->every_guess && (!lim->cost || (!pays(p, chance, &with, &added) && (left_s -= added) <= 0)))
            return;
        p->step = with;
        p->decode = cost_with(p->decode, 1, s->computed + at->n);
        at->n++;
        p->n_wanted++;
        p->tokens += chance;
    }
}

size_t sched_plan(const struct sched_seq *seq, size_t n, const struct sched_limits *lim,
                  struct sched_pick *out, struct cost_step *step)
{
    struct plan p = {.seq = seq, .lim = lim, .out = out};
    bool prompts = false;

    for (size_t i = 0; i < n; i++)
        prompts = prompts || !lacks_one(&seq[i]);
    if (lim->order == SCHED_PROMPTS_FIRST || lim->apart) {
        sched_take(&p, n, !prompts);
        if (p.n == 0)
            sched_take(&p, n, prompts);
    } else {
        sched_take(&p, n, true);
        sched_take(&p, n, false);
    }
    add_guesses(&p);
    if (step)
        *step = p.step;
    return p.n;
}
