/* gallop_events.c - the functions of gallop.h and engine.h that compute steps and give events.
 *
 * Submissions and cancellations are posted without a lock; the thread that calls gallop_step() processes
 * them between two steps. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/threads/pool.h"
#include "engine/constraints/constraints.h"
#include "engine/gallop_priv.h"
#include "engine/seq.h"
#include "engine/step.h"

/* A flag in an entry of gallop.cancel. It cancels all requests whose ids are at most the id in the other bits. */
#define CANCEL_UP_TO (UINT64_C(1) << 63)

_Static_assert(sizeof(struct gallop_logprob) == sizeof(struct sample_top),
               "arrays of log-probabilities are returned unchanged");

/* ---- submissions ---- */

void engine_open_inbox(struct gallop *g)
{
    pthread_condattr_t clock;

    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&g->submitted, &clock);
    pthread_condattr_destroy(&clock);
}

void engine_close_inbox(struct gallop *g)
{
    seq_free(g->finished);
    seq_free_list(atomic_load(&g->inbox));
    pthread_cond_destroy(&g->submitted);
    pthread_mutex_destroy(&g->lock);
}

uint64_t engine_post(struct gallop *g, struct seq *s)
{
    uint64_t id = atomic_fetch_add(&g->last_id, 1) + 1;

    s->queued = true;
    s->id = id;
    s->wait.arrival_s = g->executor.clock_s(g->executor.ctx);
    for (struct seq *q = s->sibling; q; q = q->next)
        q->id = id;
    s->next = atomic_load(&g->inbox);
    while (!atomic_compare_exchange_weak(&g->inbox, &s->next, s))
        ;
    if (atomic_load(&g->sleeping)) {
        pthread_mutex_lock(&g->lock);
        pthread_cond_signal(&g->submitted);
        pthread_mutex_unlock(&g->lock);
    }
    return id;
}

/* ---- cancel ---- */

int gallop_cancel(struct gallop *g, uint64_t id)
{
    uint64_t last = atomic_load(&g->last_id), mark = id ? id : CANCEL_UP_TO | last;

    if (id > last)
        return 0; /* the id is unknown */
    for (int i = 0; i < ENGINE_PENDING_CANCELS; i++) {
        uint64_t none = 0;

        if (atomic_compare_exchange_strong(&g->cancel[i], &none, mark))
            return 0;
    }
    return -1;
}

/* Moves the pending cancellations to MARK. Returns their number. */
static int take_cancels(struct gallop *g, uint64_t mark[ENGINE_PENDING_CANCELS])
{
    int n = 0;

    for (int i = 0; i < ENGINE_PENDING_CANCELS; i++)
        if (atomic_load_explicit(&g->cancel[i], memory_order_relaxed) != 0)
            mark[n++] = atomic_exchange(&g->cancel[i], 0);
    return n;
}

/* Moves the sequences of the inbox to the step, in order of submission. */
static void take_inbox(struct gallop *g)
{
    struct seq *s = atomic_load_explicit(&g->inbox, memory_order_relaxed), *first = NULL;

    if (!s)
        return;
    for (s = atomic_exchange(&g->inbox, NULL); s;) {
        struct seq *next = s->next;

        s->next = first;
        first = s;
        s = next;
    }
    while (first) {
        struct seq *next = first->next;

        first->next = NULL;
        step_add(g->step, first);
        first = next;
    }
}

void engine_await(struct gallop *g, double wait_s)
{
    struct timespec until = clock_at(clock_seconds() + wait_s);

    pthread_mutex_lock(&g->lock);
    atomic_store(&g->sleeping, true);
    while (!g->woken && !atomic_load(&g->inbox) &&
           pthread_cond_timedwait(&g->submitted, &g->lock, &until) == 0)
        ;
    g->woken = false;
    atomic_store(&g->sleeping, false);
    pthread_mutex_unlock(&g->lock);
}

void engine_wake(struct gallop *g)
{
    pthread_mutex_lock(&g->lock);
    g->woken = true;
    pthread_cond_signal(&g->submitted);
    pthread_mutex_unlock(&g->lock);
}

/* ---- events ---- */

/* Fills *OUT with the results of the guesses for S. */
static void describe_guesses(const struct seq *s, struct gallop_speculation *out)
{
    size_t n = s->accepted_at ? s->common->most_guesses : 0;

    *out = (struct gallop_speculation){.n_steps = s->guess_counts.n_steps,
                                       .n_drafts = s->guess_counts.n_drafts,
                                       .n_draft_tokens = s->guess_counts.n_guessed,
                                       .n_accepted_tokens = s->guess_counts.n_accepted,
                                       .n_positions = n};
    if (n)
        memcpy(out->accepted_per_pos, s->accepted_at, n * sizeof(*s->accepted_at));
}

/* Fills the FINISHED event of S. */
static void describe_end(const struct seq *s, struct gallop_event *ev)
{
    const struct stop *st = &s->stop;

    ev->type = GALLOP_FINISHED;
    ev->stop_token = st->why == STOP_TOKEN ? st->token : -1;
    ev->stop_string = st->why == STOP_STRING ? s->sampling.stop[st->string].s : NULL;
    ev->finish = s->fault.code            ? GALLOP_FINISH_ERROR
                 : st->why == STOP_LENGTH ? GALLOP_FINISH_LENGTH
                 : st->why != STOP_NONE   ? GALLOP_FINISH_STOP
                 : s->overdue             ? GALLOP_FINISH_DEADLINE
                                          : GALLOP_FINISH_CANCELLED;
    ev->error = s->fault.code ? s->fault.msg : NULL;
    ev->forbids_all = s->limits_itself ? 2 : s->forbids_all;
    ev->context_full = st->why == STOP_LENGTH && s->context_cuts;
    if (s->common->constraint)
        ev->warnings = constraint_warnings(constraints_of(s->common->constraint), &ev->n_warnings);
    ev->has_score = s->has_score;
    ev->score = s->score;
    ev->cumulative_logprob = s->sum_logprob;
    ev->n_prompt = s->n_prompt;
    ev->n_output = seq_n_output(s);
    ev->n_cached = s->n_cached;
    ev->n_stored = s->n_stored;
    describe_guesses(s, &ev->speculation);
    ev->prefill_s = s->t_token > 0 ? s->t_token - s->t_first : 0;
    ev->decode_s = s->t_token > 0 ? s->t_last - s->t_token : 0;
}

/* Returns whether other threads have submitted or cancelled requests. */
static bool has_inbox(const struct gallop *g)
{
    bool found = atomic_load_explicit(&g->inbox, memory_order_relaxed) != NULL;

    for (int i = 0; i < ENGINE_PENDING_CANCELS && !found; i++)
        found = atomic_load_explicit(&g->cancel[i], memory_order_relaxed) != 0;
    return found;
}

/* Moves submissions and cancellations of other threads to the step. The caller has the lock of the pool. */
static void take_over(struct gallop *g)
{
    uint64_t mark[ENGINE_PENDING_CANCELS];
    int n = take_cancels(g, mark); /* must precede take_inbox(), which then finds all cancelled requests */

    take_inbox(g);
    for (int i = 0; i < n; i++)
        if (mark[i] & CANCEL_UP_TO)
            step_cancel_up_to(g->step, mark[i] & ~CANCEL_UP_TO);
        else
            step_cancel(g->step, mark[i]);
}

bool engine_is_idle(const struct gallop *g)
{
    return !atomic_load(&g->inbox) && !step_n_waiting(g->step) && !g->step->n_running &&
           !step_has_events(g->step);
}

/* Runs a step if there are no events. Returns whether there are events then. */
static bool has_events(struct gallop *g)
{
    bool found;

    if (!has_inbox(g) && step_has_events(g->step))
        return true;
    pool_lock(g->pool);
    take_over(g);
    found = step_has_events(g->step) || step_run(g->step);
    pool_unlock(g->pool);
    return found;
}

int gallop_step(struct gallop *g, double wait_s)
{
    if (has_events(g))
        return 1;
    if (!(wait_s > 0))
        return 0;
    engine_await(g, wait_s);
    return has_events(g);
}

int gallop_take(struct gallop *g, struct gallop_event *ev)
{
    struct step_event se;

    seq_free(g->finished);
    g->finished = NULL;
    if (!step_take(g->step, &se))
        return 0;
    *ev = (struct gallop_event){.request = se.seq->id, .choice = se.seq->choice, .user = se.seq->user};
    switch (se.type) {
    case STEP_TOKEN:
    case STEP_PROMPT:
        ev->type = se.type == STEP_TOKEN ? GALLOP_TOKEN : GALLOP_PROMPT_TOKEN;
        ev->token = se.token;
        ev->logprob = se.logprob;
        ev->rank = se.rank;
        ev->top = (const struct gallop_logprob *)(const void *)se.top;
        ev->n_top = se.n_top;
        ev->logits = se.logits;
        ev->probs = se.probs;
        break;
    case STEP_TEXT:
        ev->type = GALLOP_TEXT;
        ev->text = se.seq->text.data + se.text;
        ev->text_len = se.text_len;
        ev->special = se.seq->special.data + se.text;
        break;
    case STEP_EMBEDDING:
        ev->type = GALLOP_EMBEDDING;
        ev->embedding = se.seq->pooled;
        ev->n_embedding = g->model.hidden_size;
        break;
    case STEP_FINISHED: describe_end(se.seq, ev); g->finished = se.seq;
    }
    return 1;
}

int gallop_next(struct gallop *g, struct gallop_event *ev)
{
    if (has_inbox(g)) {
        pool_lock(g->pool);
        take_over(g);
        pool_unlock(g->pool);
    }
    while (!gallop_take(g, ev))
        if (!gallop_step(g, 0))
            return 0;
    return 1;
}
