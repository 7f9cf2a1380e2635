/* step.c - one step after another. */
#include "engine/step.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

int step_open(struct step *g, struct llm *m, struct err *e)
{
    size_t n = m->max_seqs;
    int rc;

    *g = (struct step){.llm = m};
    g->last = &g->first;
    g->slot_used = mem_zalloc(n, sizeof(*g->slot_used), MEM_ENGINE);
    g->active = mem_zalloc(n, sizeof(*g->active), MEM_ENGINE);
    g->sched = mem_zalloc(n, sizeof(*g->sched), MEM_ENGINE);
    g->pick = mem_zalloc(n, sizeof(*g->pick), MEM_ENGINE);
    g->want = mem_zalloc(n, sizeof(*g->want), MEM_ENGINE);
    g->rows = mem_zalloc(n, sizeof(*g->rows), MEM_ENGINE);
    g->result = mem_zalloc(n, sizeof(*g->result), MEM_ENGINE);
    g->result_code = mem_zalloc(n, sizeof(*g->result_code), MEM_ENGINE);
    g->top = mem_zalloc(n * SAMPLING_MAX_LOGPROBS, sizeof(*g->top), MEM_ENGINE);
    rc = g->slot_used && g->active && g->sched && g->pick && g->want && g->rows && g->result &&
                 g->result_code && g->top
             ? sample_open(&g->sampler, m->kern, m->model.info.vocab, e)
             : err_nomem(e, "the engine's step");
    if (rc)
        step_close(g);
    return rc;
}

void step_close(struct step *g)
{
    while (g->first) {
        struct seq *s = g->first;

        g->first = s->next;
        seq_free(s);
    }
    /* those that are done and were not fetched */
    for (size_t i = g->next_event; i < g->n_events; i++)
        if (g->event[i].type == STEP_FINISHED)
            seq_free(g->event[i].seq);
    sample_close(&g->sampler);
    mem_free(g->slot_used);
    mem_free(g->active);
    mem_free(g->sched);
    mem_free(g->pick);
    mem_free(g->want);
    mem_free(g->rows);
    mem_free(g->result);
    mem_free(g->result_code);
    mem_free(g->event);
    mem_free(g->top);
    *g = (struct step){0};
}

int step_add(struct step *g, struct seq *s, struct err *e)
{
    /* a sequence gives at most a token, a text, what was held back and an end in a step */
    if (!mem_grow((void **)&g->event, &g->cap_events, 4 * (g->n_waiting + g->n_running + 1),
                  sizeof(*g->event), MEM_ENGINE))
        return err_nomem(e, "events");
    s->next = NULL;
    s->state = SEQ_WAITING;
    *g->last = s;
    g->last = &s->next;
    g->n_waiting++;
    return 0;
}

/* ---- leaving ---- */

static void release_slot(struct step *g, struct seq *s)
{
    if (s->state != SEQ_RUNNING)
        return;
    kv_release(&g->llm->kv, s->slot);
    g->slot_used[s->slot] = false;
    s->n_computed = 0;
    g->n_running--;
}

static void fault(struct seq *s, int code, const char *sentence)
{
    if (s->fault.code == 0)
        err_set(&s->fault, code, "%s", sentence);
}

static struct step_event *add_event(struct step *g, enum step_event_type type, struct seq *s)
{
    struct step_event *ev = &g->event[g->n_events++];

    ASSERT(g->n_events <= g->cap_events);
    *ev = (struct step_event){.type = type, .seq = s};
    return ev;
}

static void emit_text(struct step *g, struct seq *s, size_t from)
{
    if (s->text.oom)
        fault(s, ERR_NOMEM, "out of memory: text to show");
    else if (s->text.len > from) {
        struct step_event *ev = add_event(g, STEP_TEXT, s);

        ev->text = from;
        ev->text_len = s->text.len - from;
    }
}

/* What was held back is shown, unless a stop string cut it off; then the last event. */
static void finish(struct step *g, struct seq *s)
{
    size_t from = s->text.len;
    struct err e = {0};

    if (s->detok && s->stop.why != STOP_STRING && !s->fault.code) {
        buf_clear(&s->piece);
        if (tok_stream_end(s->detok, &s->piece, &e) != 0)
            fault(s, e.code, e.msg);
        else if (!stop_text(&s->stop, s->piece.data ? s->piece.data : "", s->piece.len, &s->text))
            stop_flush(&s->stop, &s->text);
        emit_text(g, s, from);
    }
    if (s->state == SEQ_WAITING)
        g->n_waiting--;
    release_slot(g, s);
    s->state = SEQ_DONE;
    g->n_finished++;
    add_event(g, STEP_FINISHED, s);
}

/* Unlinks the sequences that are done, are cancelled or have failed, finishing them where that is still to
 * do. */
static void sweep(struct step *g)
{
    struct seq **at = &g->first;

    g->last = &g->first;
    while (*at) {
        struct seq *s = *at;

        if (s->state != SEQ_DONE && (s->cancelled || s->fault.code))
            finish(g, s);
        if (s->state == SEQ_DONE) {
            *at = s->next;
            continue;
        }
        at = &s->next;
        g->last = at;
    }
}

/* ---- planning ---- */

/* Rows of S that have to be there before it is worth to begin, and before another one comes. */
static struct kv_want ahead(const struct step *g, const struct seq *s, size_t slot)
{
    size_t n = s->n_known + STEP_AHEAD * g->llm->kv.lim.block, most = seq_most_rows(s);

    return (struct kv_want){.seq = slot, .n = n < most ? n : most};
}

/* The cache has room for S in SLOT beside those that run. */
static bool has_room(struct step *g, const struct seq *s, size_t slot)
{
    size_t n = 0;

    for (struct seq *q = g->first; q; q = q->next)
        if (q->state == SEQ_RUNNING)
            g->want[n++] = ahead(g, q, q->slot);
    g->want[n++] = ahead(g, s, slot);
    return kv_has_room(&g->llm->kv, g->want, n);
}

static void admit(struct step *g)
{
    for (struct seq *s = g->first; s && g->n_running < g->llm->max_seqs; s = s->next) {
        size_t slot = 0;

        if (s->state != SEQ_WAITING)
            continue;
        while (g->slot_used[slot])
            slot++;
        if (g->n_running && !has_room(g, s, slot))
            break; /* later ones do not pass it, or it might wait for ever */
        g->slot_used[slot] = true;
        s->slot = slot;
        s->state = SEQ_RUNNING;
        g->n_running++;
        g->n_waiting--;
        if (s->t_first == 0)
            s->t_first = clock_seconds();
    }
}

static size_t plan(struct step *g)
{
    size_t most = g->llm->max_seqs > STEP_ROWS ? g->llm->max_seqs : STEP_ROWS, n = 0;
    const struct sched_limits lim = {.max_tokens = g->llm->max_tokens < most ? g->llm->max_tokens : most,
                                     .max_seqs = g->llm->max_seqs};

    for (struct seq *s = g->first; s; s = s->next) {
        if (s->state != SEQ_RUNNING)
            continue;
        if (llm_must_recompute(g->llm, s->n_computed, s->last_total, s->n_known)) {
            kv_release(&g->llm->kv, s->slot);
            s->n_computed = 0;
        }
        g->active[n] = s;
        g->sched[n++] = (struct sched_seq){s->n_computed, s->n_known};
    }
    return sched_plan(g->sched, n, &lim, g->pick);
}

/* S goes back to the queue with nothing computed. */
static void requeue(struct step *g, struct seq *s)
{
    release_slot(g, s);
    s->state = SEQ_WAITING;
    g->n_waiting++;
    g->n_preempted++;
}

/* The cache is full: the youngest sequence behind S gives its rows back, or S itself waits if older ones hold
 * the rest. False: S is alone, and the cache too small for it. */
static bool preempt(struct step *g, struct seq *s)
{
    struct seq *victim = NULL;

    for (struct seq *q = s->next; q; q = q->next)
        if (q->state == SEQ_RUNNING && q->n_computed)
            victim = q;
    for (struct seq *q = g->first; q != s && !victim; q = q->next)
        if (q->state == SEQ_RUNNING)
            victim = s;
    if (!victim)
        return false;
    requeue(g, victim);
    return true;
}

/* Rows for what was picked. A sequence that loses its rows to another leaves the plan. */
static size_t reserve(struct step *g, size_t n_picks)
{
    size_t n = 0;

    for (size_t i = 0; i < n_picks; i++) {
        struct seq *s = g->active[g->pick[i].seq];
        int rc = ERR_NOSPACE;

        while (s->state == SEQ_RUNNING &&
               (rc = kv_reserve(&g->llm->kv, s->slot, s->n_computed + g->pick[i].n)) != 0)
            if (rc != ERR_NOSPACE || !preempt(g, s))
                break;
        if (s->state != SEQ_RUNNING)
            continue;
        if (rc) {
            fault(s, rc,
                  rc == ERR_NOMEM ? "out of memory: rows of the KV cache"
                                  : "the KV cache is too small for this sequence");
            continue;
        }
        g->pick[n++] = g->pick[i];
    }
    for (size_t i = 0; i < n;) /* preempted after they were reserved */
        if (g->active[g->pick[i].seq]->state != SEQ_RUNNING)
            memmove(&g->pick[i], &g->pick[i + 1], (--n - i) * sizeof(*g->pick));
        else
            i++;
    return n;
}

/* ---- computing ---- */

/* Picks the next token of S, the I-th of the plan, from its LOGITS. */
static void sample(struct step *g, const struct seq *s, size_t i, const float *logits)
{
    struct sample_result *r = &g->result[i];
    struct sample_top *top = g->top + i * SAMPLING_MAX_LOGPROBS;

    g->result_code[i] = sample_pick(&g->sampler, &s->sampling, &s->history, logits, g->llm->model.info.vocab,
                                    seq_n_output(s), r);
    if (g->result_code[i] == 0 && r->n_top)
        memcpy(top, r->top, r->n_top * sizeof(*top));
    r->top = top;
}

/* N rows of S are computed: which of them the first time? */
static void count_rows(struct step *g, struct seq *s, size_t n)
{
    size_t before = s->n_reached;

    s->n_computed += n;
    s->n_reached = s->n_computed > before ? s->n_computed : before;
    g->n_recomputed += n - (s->n_reached - before);
    if (before < s->n_prompt)
        g->n_prompt_tokens += s->n_reached - before;
}

static void compute(struct step *g, size_t n)
{
    size_t row = 0;

    for (size_t i = 0; i < n; i++) {
        struct seq *s = g->active[g->pick[i].seq];

        g->rows[i] =
            (struct llm_rows){.slot = s->slot,
                              .id = s->token + s->n_computed,
                              .n = g->pick[i].n,
                              .pos = s->n_computed,
                              .n_prompt = s->n_prompt,
                              .n_total = s->n_known,
                              .n_wanted = s->stop.limit && s->n_computed + g->pick[i].n == s->n_known};
    }
    llm_forward(g->llm, g->rows, n);
    mem_guard_up();
    for (size_t i = 0; i < n; i++) {
        struct seq *s = g->active[g->pick[i].seq];

        s->last_total = s->n_known;
        count_rows(g, s, g->pick[i].n);
        kv_advance(&g->llm->kv, s->slot, s->n_computed);
        if (!g->rows[i].n_wanted)
            continue;
        sample(g, s, i, g->llm->logits + row++ * g->llm->model.info.vocab);
    }
    mem_guard_down();
    g->n_steps++;
}

static void add_token_event(struct step *g, struct seq *s, const struct sample_result *r)
{
    struct step_event *ev = add_event(g, STEP_TOKEN, s);

    ev->token = r->id;
    ev->logprob = r->logprob;
    ev->top = r->top;
    ev->n_top = r->n_top;
}

/* The token R of S goes on its way: events, stop rules, text. */
static void deliver(struct step *g, struct seq *s, const struct sample_result *r)
{
    size_t from = s->text.len;
    struct err e = {0};
    enum stop_why why;

    s->t_last = clock_seconds();
    if (s->n_known == s->n_prompt)
        s->t_token = s->t_last;
    s->token[s->n_known++] = r->id;
    sample_history_add(&s->history, r->id);
    g->n_output_tokens++;
    add_token_event(g, s, r);
    why = stop_token(&s->stop, r->id, seq_n_output(s));
    if (s->detok && why != STOP_EOS && why != STOP_TOKEN) {
        buf_clear(&s->piece);
        if (tok_stream_put(s->detok, r->id, &s->piece, &e) != 0)
            fault(s, e.code, e.msg);
        else if (stop_text(&s->stop, s->piece.data ? s->piece.data : "", s->piece.len, &s->text))
            why = STOP_STRING;
        emit_text(g, s, from);
    }
    if (why != STOP_NONE)
        finish(g, s);
}

/* The prompt of S is computed, and no token was asked for. */
static void end_of_prompt(struct step *g, struct seq *s)
{
    s->t_token = s->t_last = clock_seconds();
    s->stop.why = STOP_LENGTH;
    finish(g, s);
}

bool step_run(struct step *g)
{
    size_t n;

    ASSERT(g->next_event == g->n_events, "%zu of %zu events are taken", g->next_event, g->n_events);
    if (!g->first)
        return false;
    g->n_events = g->next_event = 0;
    for (struct seq *s = g->first; s; s = s->next)
        buf_clear(&s->text);
    sweep(g);
    admit(g);
    n = reserve(g, plan(g));
    if (n)
        compute(g, n);
    for (size_t i = 0; i < n; i++) {
        struct seq *s = g->active[g->pick[i].seq];

        if (s->stop.limit == 0 && s->n_computed == s->n_known)
            end_of_prompt(g, s);
        if (!g->rows[i].n_wanted)
            continue;
        if (g->result_code[i])
            fault(
                s, g->result_code[i],
                "no token can be chosen: the model's logits are not numbers (NaN), or every token is forbidden");
        else
            deliver(g, s, &g->result[i]);
    }
    sweep(g);
    return true;
}

bool step_take(struct step *g, struct step_event *ev)
{
    if (g->next_event == g->n_events)
        return false;
    *ev = g->event[g->next_event++];
    return true;
}
