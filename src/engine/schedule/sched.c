/* sched.c - picks sequences by precedence, within the limits of rows, logits and time. */
#include "engine/schedule/sched.h"

/* The plan so far. */
struct plan {
    const struct sched_seq *seq;
    const struct sched_limits *lim;
    struct sched_pick *out;
    size_t n, n_wanted, n_prompts, n_streams;
    struct cost_step step;
    double tokens; /* expected number of new tokens */
};

static bool lacks_one(const struct sched_seq *s)
{
    return s->known - s->computed == 1;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns how many missing rows of S fit into the step, within the limits and the time target. */
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
    if (n == lack && logits == 0) /* the last missing row needs logits, for which there is no room */
        n--;
    return lim->whole && n < lack ? 0 : n;
}

/* Adds picks of decoding sequences (STREAMS true) or of prompts (STREAMS false). p->out stays sorted by
 * `seq`. */
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
        p->tokens += give == s->known - s->computed;
        p->step = cost_with(p->step, give, s->computed);
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

/* Adds guesses to the picks of decoding sequences while they pay. */
static void add_guesses(struct plan *p)
{
    const struct sched_limits *lim = p->lim;
    double seconds = lim->cost ? cost_predict(lim->cost, &p->step) : 0;
    struct sched_pick *at;

    while (p->step.rows < lim->max_tokens && (!lim->max_wanted || p->n_wanted < lim->max_wanted) &&
           (at = likeliest(p)) != NULL) {
        const struct sched_seq *s = &p->seq[at->seq];
        double chance = (double)s->chance[at->n - 1];
        struct cost_step step = cost_with(p->step, 1, s->computed + at->n);
        double with = lim->cost ? cost_predict(lim->cost, &step) : 0;

        if (!lim->every_guess && chance * seconds <= p->tokens * (with - seconds))
            return;
        at->n++;
        p->n_wanted++;
        p->tokens += chance;
        p->step = step;
        seconds = with;
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
