/* guess_draw.c - draws with the target's parameters, but without log-probabilities. */
#include "engine/guess/guess_draw.h"

static bool ends_answer(const struct sampling *p, int32_t id)
{
    return (!p->ignore_eos && sampling_has_id(p->eos, p->n_eos, id)) ||
           sampling_has_id(p->stop_token, p->n_stop_token, id);
}

bool guess_draw(struct sample_scratch *sampler, struct seq *s, const float *logits, size_t n_vocab)
{
    struct sampling p = s->sampling;
    struct sample_result result;

    p.logprobs = -1;
    p.n_logprob_ids = 0;
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
}
