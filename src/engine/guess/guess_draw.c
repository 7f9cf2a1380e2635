/* guess_draw.c - draws with the target's parameters, but without log-probabilities. */
#include "engine/guess/guess_draw.h"

#include "base/mem.h"
#include "engine/constraints/masks.h"
#include "engine/sampling/sample.h"
#include "engine/sampling/sampling.h"
#include "engine/seq.h"
#include "text/grammar/constraint.h"

static bool ends_answer(const struct sampling *p, int32_t id)
{
    return (!p->ignore_eos && sampling_has_id(p->eos, p->n_eos, id)) ||
           sampling_has_id(p->stop_token, p->n_stop_token, id);
}

void guess_draw_lanes(struct seq **seq, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t first = seq[i]->mask ? 0 : i;

        while (seq[first]->run.c != seq[i]->run.c)
            first++;
        seq[i]->guess.part = first;
    }
}

/* Computes the mask of the token after the guesses of S, and first adds the last guess to the constraint if it lacks
 * it. New states of the constraint are allocated, so the guards against allocations are lifted meanwhile. */
static bool make_mask(struct seq *s)
{
    size_t n = seq_n_output(s) + s->guess.n, n_guards = 0;
    struct constraint_steps own = {.left = MASKS_GUESS_STEPS}, *before = s->run.steps;
    bool has_mask;

    for (; mem_guarded(); n_guards++)
        mem_guard_down();
    s->run.steps = &own; /* another thread may use BEFORE */
    has_mask = s->run.n == n || (constraint_run_may_guess(&s->run) &&
                                 constraint_run_add(&s->run, s->token[s->n_known + s->guess.n - 1]));
    has_mask = has_mask && masks_guess(s, s->mask);
    s->run.steps = before;
    while (n_guards-- > 0)
        mem_guard_up();
    return has_mask;
}

bool guess_draw(struct sample_scratch *sampler, struct seq *s, const float *logits, size_t n_vocab)
{
    struct sampling p = s->sampling;
    struct sample_result result;

    p.logprobs = -1;
    p.n_logprob_ids = 0;
    if (s->mask && !make_mask(s))
        return false;
    if (sample_pick(sampler, &p, &s->history, logits, n_vocab, seq_n_output(s) + s->guess.n, &result) != 0 ||
        ends_answer(&s->sampling, result.id))
        return false;
    sample_history_add(&s->history, result.id);
    s->token[s->n_known + s->guess.n++] = result.id;
    return true;
}

void guess_draw_undo(struct seq *s)
{
    for (size_t k = s->guess.n; k-- > 0;)
        sample_history_undo(&s->history, s->token[s->n_known + k]);
    if (s->mask)
        constraint_run_truncate(&s->run, seq_n_output(s));
}
