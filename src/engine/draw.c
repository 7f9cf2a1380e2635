/* draw.c - computes the token masks of a step, and samples tokens from the logits of its rows. */
#include "engine/draw.h"

#include <string.h>

#include "base/threads/pool.h"
#include "engine/constraints/constraints.h"
#include "engine/constraints/masks.h"
#include "engine/executor.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "text/grammar/constraint.h"

/* ---- masks ---- */

/* Sets the token masks of S: of the token after the known tokens, and of the token after each guess. A guess is dropped
 * if the mask after it cannot be made, or only with much work. */
static void set_masks(void *ctx, struct seq *s)
{
    size_t n_known = s->run.n, n = s->guess.n;

    (void)ctx;
    memcpy(s->mask, s->next_mask->mask, s->mask_words * sizeof(*s->mask));
    masks_finish(s, s->mask);
    s->guess.n = 0;
    while (s->guess.n < n && constraint_run_may_guess(&s->run) &&
           constraint_run_add(&s->run, s->token[s->n_known + s->guess.n]) &&
           masks_guess(s, s->mask + (s->guess.n + 1) * s->mask_words))
        s->guess.n++;
    constraint_run_truncate(&s->run, n_known);
}

void draw_masks(struct step *g, size_t n)
{
    struct masks *m = &g->masks;

    m->n = 0;
    m->work = set_masks;
    for (size_t i = 0; i < n; i++) {
        struct seq *s = g->picked[i];

        if (s->mask && s->stop.limit && s->n_computed + g->pick[i].n >= s->n_known)
            masks_add(m, s);
    }
    masks_run(m, g->x->pool);
    for (size_t i = 0; i < m->n; i++) {
        constraints_time(&g->mask, m->seq[i]->mask_s);
        m->seq[i]->mask_s = 0;
    }
}

/* ---- tokens ---- */

/* Fills g->row with the rows of the N sequences that need logits or a hidden state. One thread samples the rows with
 * the same `task` in order: the rows of a sequence whose penalties count the guesses before each row. */
static void list_rows(struct step *g, size_t n)
{
    size_t task = 0;

    g->n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        const struct executor_rows *r = &g->rows[i];
        struct seq *s = g->picked[i];

        for (size_t k = r->n - r->n_wanted; k < r->n; k++) {
            bool is_known = r->pos + k < s->n_known;

            task += is_known || !s->history.cap;
            g->row[g->n_rows++] = (struct step_row){.seq = s,
                                                    .given = r->id[k],
                                                    .position = r->pos + k + 1,
                                                    .task = task,
                                                    .is_known = is_known,
                                                    .index = k - (r->n - r->n_wanted)};
        }
    }
}

/* Returns the token that the budget for reasoning forces S to choose next, or -1. A constraint that excludes
 * the token takes precedence. */
static int32_t forced_token(const struct seq *s)
{
    int32_t id = reasoning_run_forced(&s->reasoning);

    return id >= 0 && s->mask && !(s->mask[id / 32] >> id % 32 & 1) ? -1 : id;
}

/* Returns the counts and the token mask for sampling the token that R predicts. Guesses before it have been added to
 * s->history. */
static struct sample_history history_of(const struct step_row *r)
{
    const struct seq *s = r->seq;
    struct sample_history h = s->history;

    if (s->mask)
        h.allowed = s->mask + (r->position - s->n_known) * s->mask_words;
    return h;
}

/* Copies the logits and probabilities that the event of R's token contains to the memory of its sequence. */
static void keep_rows(const struct step *g, struct step_row *r, struct sample_scratch *sampler)
{
    const struct seq *s = r->seq;
    /* `at` is not used for rows of the prompt */
    size_t n_vocab = g->x->caps.n_vocab, at = r->position - s->n_known;
    struct sample_history h;
    float *to = NULL;

    if (r->position < s->n_prompt)
        to = s->kept_prompt ? s->kept_prompt + r->index * n_vocab : NULL;
    else if (s->kept_logits)
        to = s->kept_logits + at * n_vocab;
    if (to)
        memcpy(to, r->logits, n_vocab * sizeof(*to));
    r->kept = to;
    if (r->position < s->n_prompt || !s->kept_probs || r->code || !s->stop.limit)
        return;
    h = history_of(r);
    r->probs = s->kept_probs + at * n_vocab;
    r->code = sample_probs(sampler, &s->sampling, &h, r->logits, n_vocab, r->position - s->n_prompt,
                           s->kept_probs + at * n_vocab);
}

/* Draws the token that R predicts, which is output token number r->position - n_prompt. */
static void draw_row(const struct step *g, struct step_row *r, struct sample_scratch *sampler)
{
    struct seq *s = r->seq;
    size_t n_vocab = g->x->caps.n_vocab;
    struct sample_history h;

    if (!r->is_known)
        sample_history_add(&s->history, r->given); /* draw_tokens() subtracts the guesses again */
    h = history_of(r);
    if (s->common->rules.width > 1) {
        r->code = sample_ranked(sampler, &s->sampling, &h, r->logits, n_vocab, r->position - s->n_prompt,
                                s->common->rules.n_ranked, &r->result);
        return;
    }
    r->code =
        sample_pick(sampler, &s->sampling, &h, r->logits, n_vocab, r->position - s->n_prompt, &r->result);
    if (s->common->rules.width == 1 && r->code == 0) { /* greedy decoding */
        sampler->top[0] = (struct sample_top){.id = r->result.id, .logprob = r->result.logprob};
        r->result.top = sampler->top;
        r->result.n_top = 1;
    }
}

/* Returns whether the token of R is the argmax of its logits, and no log-probabilities or rows of it are requested. */
static bool is_plain(const struct step *g, const struct step_row *r)
{
    const struct seq *s = r->seq;
    struct sample_history h;

    if (!g->x->best || s->pooling || !s->stop.limit || r->position < s->n_prompt + seq_wants_all(s) ||
        s->common->rules.width || s->mask || s->history.cap || s->kept_logits || s->kept_probs ||
        reasoning_run_forced(&s->reasoning) >= 0)
        return false;
    h = history_of(r);
    return sample_is_plain(&s->sampling, &h, r->position - s->n_prompt);
}

/* Draws the token that g->row[i] predicts, or scores it if it is a token of the prompt. */
static void choose(struct step *g, size_t i, struct sample_scratch *sampler)
{
    struct step_row *r = &g->row[i];
    const struct seq *s = r->seq;
    struct sample_top *top = g->top + i * SAMPLING_MAX_LOGPROBS;
    int32_t forced = r->is_known ? forced_token(s) : -1; /* no token after a guess is forced */

    r->code = 0;
    if (r->position < s->n_prompt)
        r->code = sample_score(sampler, r->logits, g->x->caps.n_vocab, s->token[r->position],
                               s->prompt_logprobs, &r->result);
    else if (s->stop.limit && forced >= 0)
        r->code = sample_forced(sampler, &s->sampling, r->logits, g->x->caps.n_vocab, forced, &r->result);
    else if (s->stop.limit)
        draw_row(g, r, sampler);
    if (r->code == 0 && r->result.n_top)
        memcpy(top, r->result.top, r->result.n_top * sizeof(*top));
    r->result.top = top;
    if (s->kept_prompt || s->kept_logits || s->kept_probs)
        keep_rows(g, r, sampler);
}

/* Task of the pool: samples the rows in [piece, piece_end) whose `task` belongs to THREAD. */
static void choose_rows(void *ctx, int thread, int n_threads)
{
    struct step *g = ctx;
    size_t n = (size_t)n_threads < g->n_samplers ? (size_t)n_threads : g->n_samplers;

    for (size_t i = g->piece; i < g->piece_end && (size_t)thread < n; i++)
        if (g->row[i].task % n == (size_t)thread)
            choose(g, i, &g->sampler[thread]);
}

/* Computes the logits of rows [g->piece, g->piece_end), and samples or scores their tokens. Returns false if the
 * executor has failed. */
static bool choose_piece(struct step *g)
{
    const float *logits = g->x->logits(g->x->ctx, g->piece, g->piece_end - g->piece);

    if (!logits)
        return false;
    for (size_t i = g->piece; i < g->piece_end; i++)
        g->row[i].logits = logits + (i - g->piece) * g->x->caps.n_vocab;
    if (g->x->pool && g->piece_end - g->piece > 1)
        pool_run(g->x->pool, choose_rows, g);
    else
        choose_rows(g, 0, 1);
    return true;
}

/* Takes the argmax tokens of rows [g->piece, g->piece_end), for which is_plain() holds, from the executor. If the
 * executor does not know one of them, samples all from their logits. Returns false if the executor has failed. */
static bool take_best(struct step *g)
{
    size_t n = g->piece_end - g->piece;
    const int32_t *best = g->x->best(g->x->ctx, g->piece, n);

    for (size_t i = 0; i < n && best; i++) {
        struct step_row *r = &g->row[g->piece + i];

        if (best[i] < 0)
            return choose_piece(g);
        r->code = 0;
        r->result = (struct sample_result){.id = best[i], .top = g->top};
    }
    return best != NULL;
}

/* Adds the hidden states of rows [g->piece, g->piece_end) to the sums of their sequences. */
static bool pool_piece(struct step *g)
{
    const float *hidden = g->x->hidden(g->x->ctx, g->piece, g->piece_end - g->piece);

    for (size_t i = g->piece; i < g->piece_end; i++, hidden += g->x->caps.n_hidden) {
        g->row[i].code = 0;
        for (size_t k = 0; k < g->x->caps.n_hidden; k++)
            g->row[i].seq->sum[k] += (double)hidden[k];
    }
    return true;
}

/* The result of a row that is needed from the executor. */
enum needs { NEEDS_HIDDEN, NEEDS_BEST, NEEDS_LOGITS };

static enum needs needs_of(const struct step *g, const struct step_row *r)
{
    return r->seq->pooling ? NEEDS_HIDDEN : is_plain(g, r) ? NEEDS_BEST : NEEDS_LOGITS;
}

/* Samples, scores or pools the rows of g->row, in groups of at most max_logits rows with the same `needs`. Returns
 * false if the executor has failed, at row g->piece. */
static bool take_pieces(struct step *g)
{
    bool is_done;

    for (g->piece = 0; g->piece < g->n_rows; g->piece = g->piece_end) {
        enum needs needs = needs_of(g, &g->row[g->piece]);

        g->piece_end = g->piece + 1;
        while (g->piece_end < g->n_rows && g->piece_end - g->piece < g->x->caps.max_logits &&
               needs_of(g, &g->row[g->piece_end]) == needs)
            g->piece_end++;
        is_done = needs == NEEDS_HIDDEN ? pool_piece(g)
                  : needs == NEEDS_BEST ? take_best(g)
                                        : choose_piece(g);
        if (!is_done)
            return false;
    }
    return true;
}

bool draw_tokens(struct step *g, size_t n)
{
    bool is_good;

    list_rows(g, n);
    is_good = take_pieces(g);
    for (size_t i = g->piece; i-- > 0;)
        if (!g->row[i].is_known)
            sample_history_undo(&g->row[i].seq->history, g->row[i].given);
    return is_good;
}
