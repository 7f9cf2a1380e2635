/* step.c - runs the steps of step.h: admission, planning, computing, events. */
/* long: the parts share the sequences of a step and the order in which they change */
#include "engine/step.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "engine/beams/lanes.h"
#include "engine/constraints/constraints.h"
#include "engine/draw.h"
#include "engine/executor.h"
#include "text/tok/tok.h"

enum {
    STEP_IDS = 1 << 14,
    EVENTS_A_SEQ = 4,
    /* number of first steps of sequences with guesses in which all guesses are computed, to learn times and chances */
    FIRST_DRAFTS = 16,
    TRIAL = 64,       /* steps from one trial of guesses that are not expected to save time to the next */
    TRIAL_PLAIN = 256 /* period, in steps, in which one step computes no guesses */
};

/* Maximum share of all steps' time for guesses that are not expected to save time. */
static const double trial_share = 1.0 / 256;

/* Maximum seconds that a step waits for the store, or for an executor that is opened again. */
static const double patience_s = 0.01;

/* Seconds that a sequence always waits for the store, even if its rows could be computed faster. */
static const double unnoticed_s = 0.1;

/* ---- open and close ---- */

static int alloc_arrays(struct step *g, struct err *e)
{
    size_t n = g->opt.max_seqs, most = step_most_rows(g),
           n_rows = g->x->caps.max_wanted < most ? g->x->caps.max_wanted : most;

    g->cap_events = EVENTS_A_SEQ * n + 2 * n_rows;
    g->of_id = mem_zalloc(STEP_IDS, sizeof(struct seq *), MEM_ENGINE);
    g->running = mem_zalloc(n, sizeof(struct seq *), MEM_ENGINE);
    g->reading = mem_zalloc(n, sizeof(struct seq *), MEM_ENGINE);
    g->free_slot = mem_zalloc(n, sizeof(*g->free_slot), MEM_ENGINE);
    g->sched = mem_zalloc(n, sizeof(*g->sched), MEM_ENGINE);
    g->pick = mem_zalloc(n, sizeof(*g->pick), MEM_ENGINE);
    g->picked = mem_zalloc(n, sizeof(struct seq *), MEM_ENGINE);
    g->lacking = mem_zalloc(n, sizeof(struct seq *), MEM_ENGINE);
    g->want = mem_zalloc(n, sizeof(*g->want), MEM_ENGINE);
    g->rows = mem_zalloc(n, sizeof(*g->rows), MEM_ENGINE);
    g->guessing = mem_zalloc(n, sizeof(struct seq *), MEM_ENGINE);
    g->chance = mem_zalloc(n * GUESS_MOST, sizeof(*g->chance), MEM_ENGINE);
    g->row = mem_zalloc(n_rows, sizeof(*g->row), MEM_ENGINE);
    g->top = mem_zalloc(n_rows * SAMPLING_MAX_LOGPROBS, sizeof(*g->top), MEM_ENGINE);
    g->event = mem_zalloc(g->cap_events, sizeof(*g->event), MEM_ENGINE);
    if (!g->of_id || !g->running || !g->reading || !g->free_slot || !g->sched || !g->pick || !g->picked ||
        !g->lacking || !g->want || !g->rows || !g->guessing || !g->chance || !g->row || !g->top || !g->event)
        return err_nomem(e, "the engine's step");
    while (g->n_free < n) { /* slot 0 is on top of the stack */
        g->free_slot[g->n_free] = (uint32_t)(n - 1 - g->n_free);
        g->n_free++;
    }
    return masks_open(&g->masks, n, g->x->pool, MASKS_STEPS, e);
}

static int open_samplers(struct step *g, struct err *e)
{
    size_t threads = g->x->pool ? (size_t)pool_threads(g->x->pool) : 1, most = g->x->caps.max_wanted;
    int rc = 0;

    threads = threads < most ? threads : most;
    g->sampler = mem_zalloc(threads, sizeof(*g->sampler), MEM_ENGINE);
    if (!g->sampler)
        return err_nomem(e, "the engine's step");
    while (g->n_samplers < threads && rc == 0)
        rc = sample_open(&g->sampler[g->n_samplers++], g->x->kern, g->x->caps.n_vocab, e);
    return rc;
}

static bool is_due_before(const struct heap_node *a, const struct heap_node *b);

int step_open(struct step *g, const struct executor *x, const struct step_options *o, struct err *e)
{
    const struct executor_caps *caps = &x->caps;
    int rc;

    *g = (struct step){.x = x, .opt = *o, .deadlines.before = is_due_before};
    g->last_done = &g->done;
    if (!g->opt.max_seqs || g->opt.max_seqs > caps->n_slots)
        g->opt.max_seqs = caps->n_slots;
    if (!g->opt.max_tokens || g->opt.max_tokens > caps->max_tokens)
        g->opt.max_tokens = caps->max_tokens;
    cost_init(&g->cost, o->step_guess_s, o->row_guess_s);
    guess_chances_init(&g->chances);
    if ((rc = alloc_arrays(g, e)) != 0 || (rc = waiting_open(&g->waiting, o->policy, e)) != 0 ||
        (rc = open_samplers(g, e)) != 0)
        step_close(g);
    g->waiting.n_slots = rc ? 0 : step_most_running(g);
    return rc;
}

void step_close(struct step *g)
{
    if (g->of_id)
        step_cancel_up_to(g, UINT64_MAX);
    seq_free_list(g->done);
    /* The caller takes ownership of a sequence by taking its FINISHED event. These events were never taken,
     * so their sequences are freed here. */
    for (size_t i = g->next_event; i < g->n_events; i++)
        if (g->event[i].type == STEP_FINISHED)
            seq_free(g->event[i].seq);
    late_close(&g->late);
    masks_close(&g->masks);
    for (size_t i = 0; i < g->n_samplers; i++)
        sample_close(&g->sampler[i]);
    waiting_close(&g->waiting);
    mem_free(g->sampler);
    mem_free((void *)g->of_id);
    mem_free((void *)g->running);
    mem_free((void *)g->reading);
    mem_free(g->free_slot);
    mem_free(g->sched);
    mem_free(g->pick);
    mem_free((void *)g->picked);
    mem_free((void *)g->lacking);
    mem_free(g->want);
    mem_free(g->rows);
    mem_free((void *)g->guessing);
    mem_free(g->chance);
    mem_free(g->row);
    mem_free(g->top);
    mem_free(g->event);
    *g = (struct step){0};
}

/* ---- submission ---- */

static struct seq *of_wait(struct waiting_entry *w)
{
    return (struct seq *)(void *)((char *)w - offsetof(struct seq, wait));
}

static struct seq *of_deadline(const struct heap_node *node)
{
    return (struct seq *)(void *)((char *)(uintptr_t)node - offsetof(struct seq, deadline));
}

static bool is_due_before(const struct heap_node *a, const struct heap_node *b)
{
    return of_deadline(a)->deadline_s < of_deadline(b)->deadline_s;
}

/* Adds N to *COUNT if the sum is at most MOST (0: no limit). Returns false otherwise. */
static bool add_within(_Atomic size_t *count, size_t n, size_t most)
{
    size_t old = atomic_load(count);

    do {
        if (most && (old >= most || n > most - old))
            return false;
    } while (!atomic_compare_exchange_weak(count, &old, old + n));
    return true;
}

int step_take_place(struct step *g, size_t n_tokens, struct err *e)
{
    size_t most = g->opt.max_queued, most_tokens = g->opt.max_queued_tokens;

    if (!add_within(&g->n_queued, 1, most))
        return err_set(e, ERR_NOSPACE, "the queue is full: %zu requests are waiting, which is the limit",
                       most);
    /* A prompt of any length may enter an empty queue. */
    if (!add_within(&g->n_queued_tokens, n_tokens, most_tokens) &&
        (n_tokens <= most_tokens || !add_within(&g->n_queued_tokens, n_tokens, n_tokens))) {
        atomic_fetch_sub(&g->n_queued, 1);
        return err_set(
            e, ERR_NOSPACE,
            "the queue is full: prompts of %zu tokens are waiting, %zu more would exceed the limit of %zu",
            atomic_load(&g->n_queued_tokens), n_tokens, most_tokens);
    }
    return 0;
}

/* Takes S and its prompt tokens out of the counts of the queue, which step_take_place() raised. */
static void leave_queue(struct step *g, struct seq *s)
{
    if (s->queued) {
        atomic_fetch_sub(&g->n_queued, 1);
        atomic_fetch_sub(&g->n_queued_tokens, s->n_prompt);
    }
    s->queued = false;
}

static struct seq **chain_of(struct step *g, uint64_t id)
{
    return &g->of_id[id % STEP_IDS];
}

static void enqueue(struct step *g, struct seq *s)
{
    struct seq **chain = chain_of(g, s->id);

    s->next_of_id = *chain;
    *chain = s;
    if (s->limit_s > 0) {
        s->deadline_s = s->wait.arrival_s + s->limit_s;
        heap_add(&g->deadlines, &s->deadline);
    }
    s->state = SEQ_WAITING;
    waiting_add(&g->waiting, &s->wait);
}

void step_add(struct step *g, struct seq *s)
{
    if (s->wait.arrival_s == 0)
        s->wait.arrival_s = g->x->clock_s(g->x->ctx);
    s->wait.order = g->n_came++ * SEQ_MAX_ANSWERS;
    enqueue(g, s);
}

/* ---- removal ---- */

static void leave_slot(struct step *g, struct seq *s)
{
    size_t at = 0;

    for (size_t i = lanes_n(s); i-- > 0;) {
        struct seq *lane = lanes_at(s, i);

        if (g->outage.is_down || s->fault.code)
            g->x->release(g->x->ctx, lane->slot, NULL, 0);
        else
            g->x->release(g->x->ctx, lane->slot, lane->token, lane->n_computed);
        g->free_slot[g->n_free++] = (uint32_t)lane->slot;
        lane->n_computed = 0;
    }
    if (g->guesser && g->guesser->leave)
        g->guesser->leave(g->guesser->ctx, s);
    waiting_charge(&g->waiting, s->wait.key, -(int64_t)s->n_charged);
    s->n_charged = 0;
    waiting_run(&g->waiting, s->wait.key, -(int)lanes_n(s));
    while (g->running[at] != s)
        at++;
    memmove((void *)(g->running + at), (void *)(g->running + at + 1),
            (--g->n_running - at) * sizeof(struct seq *));
}

/* Removes S from the list of sequences whose KV blocks are being read from the store. */
static void leave_reading(struct step *g, struct seq *s)
{
    size_t at = 0;

    if (s->handle >= 0)
        g->x->read_ahead_end(g->x->ctx, s->handle);
    while (g->reading[at] != s)
        at++;
    memmove((void *)(g->reading + at), (void *)(g->reading + at + 1),
            (--g->n_reading - at) * sizeof(struct seq *));
}

/* Queues the siblings of S with the time of arrival of S. Called when the prompt of S is computed, or S ends before
 * that. */
static void release_siblings(struct step *g, struct seq *s)
{
    while (s->sibling && !lanes_search(s)) {
        struct seq *q = s->sibling;

        s->sibling = q->next;
        q->next = NULL;
        q->wait.arrival_s = s->wait.arrival_s;
        q->wait.order = s->wait.order + q->choice;
        enqueue(g, q);
    }
}

/* Appends S to the list g->done. */
static void add_done(struct step *g, struct seq *s)
{
    s->next = NULL;
    *g->last_done = s;
    g->last_done = &s->next;
    g->n_finished++;
}

/* Ends the other lanes of the head S, and appends the results among them to the list g->done. The other lanes are freed
 * with S. */
static void end_lanes(struct step *g, struct seq *s)
{
    struct seq *q = s->sibling;

    lanes_end(s);
    s->sibling = NULL;
    while (q) {
        struct seq *next = q->next;

        if (q->choice < s->common->n_results) {
            add_done(g, q);
        } else {
            q->next = s->sibling;
            s->sibling = q;
        }
        q = next;
    }
}

/* Ends S, which may be in any state, and appends it to the list g->done. step_take() emits a STEP_FINISHED
 * event for each sequence of this list. The lanes of a beam search end together. */
static void end(struct step *g, struct seq *s)
{
    struct seq **at = chain_of(g, s->id);

    s = lanes_head(s);
    if (s->state == SEQ_RUNNING)
        leave_slot(g, s);
    else if (s->state == SEQ_READING)
        leave_reading(g, s);
    else
        waiting_remove(&g->waiting, &s->wait);
    leave_queue(g, s);
    if (heap_holds(&s->deadline))
        heap_remove(&g->deadlines, &s->deadline);
    while (*at != s)
        at = &(*at)->next_of_id;
    *at = s->next_of_id;
    s->state = SEQ_DONE;
    add_done(g, s);
    if (lanes_search(s))
        end_lanes(g, s);
    release_siblings(g, s);
}

/* Records an error of S, unless it has one. An error of a lane is one of its beam search. */
static void fault(struct seq *s, int code, const char *sentence)
{
    s = s->state == SEQ_DONE ? s : lanes_head(s);
    if (s->fault.code == 0)
        err_set(&s->fault, code, "%s", sentence);
}

/* Returns the first sequence of CHAIN with the id ID (with UP_TO: an id of at most ID), or NULL. */
static struct seq *step_find(struct seq *chain, uint64_t id, bool up_to)
{
    while (chain && chain->id != id && !(up_to && chain->id < id))
        chain = chain->next_of_id;
    return chain;
}

void step_cancel(struct step *g, uint64_t id)
{
    struct seq *s;

    while ((s = step_find(*chain_of(g, id), id, false)) != NULL)
        end(g, s); /* end() adds the siblings of S to the chain, where the next iteration finds them */
}

void step_cancel_up_to(struct step *g, uint64_t id)
{
    for (size_t i = 0; i < STEP_IDS; i++)
        for (struct seq *s; (s = step_find(g->of_id[i], id, true)) != NULL;)
            end(g, s);
}

static void end_overdue(struct step *g)
{
    double now = g->deadlines.first ? g->x->clock_s(g->x->ctx) : 0;

    while (g->deadlines.first && of_deadline(g->deadlines.first)->deadline_s <= now) {
        struct seq *s = of_deadline(g->deadlines.first);

        s->overdue = true;
        end(g, s);
    }
}

/* ---- events ---- */

static struct step_event *add_event(struct step *g, enum step_event_type type, struct seq *s)
{
    struct step_event *ev = &g->event[g->n_events++];

    ASSERT(g->n_events <= g->cap_events);
    *ev = (struct step_event){.type = type, .seq = s};
    return ev;
}

/* Passes the new text of S, s->piece, through the stop strings to s->text. Returns true if a stop string is
 * complete. */
static bool put_piece(struct seq *s)
{
    size_t n = tok_stream_n_special(s->detok);

    for (size_t i = 0; i < s->piece.len; i++)
        buf_char(&s->special, i + n >= s->piece.len);
    return stop_text(&s->stop, s->piece.data ? s->piece.data : "", s->piece.len, &s->text);
}

/* Emits a TEXT event with the bytes of s->text from FROM on, if there are any. */
static void emit_text(struct step *g, struct seq *s, size_t from)
{
    if (s->text.oom || s->special.oom)
        fault(s, ERR_NOMEM, "out of memory: the text of an answer");
    else if (s->text.len > from) {
        struct step_event *ev = add_event(g, STEP_TEXT, s);

        ev->text = from;
        ev->text_len = s->text.len - from;
    }
}

static void emit_token(struct step *g, enum step_event_type type, const struct step_row *r, int32_t id)
{
    struct step_event *ev = add_event(g, type, r->seq);

    ev->token = id;
    ev->logprob = r->result.logprob;
    ev->rank = r->result.rank;
    ev->top = r->result.top;
    ev->n_top = r->result.n_top;
    ev->logits = r->kept;
    ev->probs = r->probs;
}

/* Emits the events of output token number N (from 1), which was sampled for row R, and applies the stop rules. */
static enum stop_why show(struct step *g, struct seq *s, const struct step_row *r, size_t n)
{
    size_t from = s->text.len;
    int32_t id = r->result.id;
    struct err e = {0};
    enum stop_why why = stop_token(&s->stop, id, n);

    g->n_output_tokens++;
    emit_token(g, STEP_TOKEN, r, id);
    if (s->detok && ((why != STOP_EOS && why != STOP_TOKEN) || s->sampling.include_stop)) {
        buf_clear(&s->piece);
        if (tok_stream_put(s->detok, id, &s->piece, &e) != 0)
            fault(s, e.code, e.msg);
        else if (put_piece(s))
            why = STOP_STRING;
        emit_text(g, s, from);
    }
    return why;
}

/* Emits the text that was held back, unless a stop string removed it, and then the FINISHED event of S. */
static void emit_end(struct step *g, struct seq *s)
{
    size_t from = s->text.len;
    struct err e = {0};

    if (s->detok && s->stop.why != STOP_STRING && !s->fault.code) {
        buf_clear(&s->piece);
        if (tok_stream_end(s->detok, &s->piece, &e) != 0)
            fault(s, e.code, e.msg);
        else if (!put_piece(s))
            stop_flush(&s->stop, &s->text);
        emit_text(g, s, from);
    }
    add_event(g, STEP_FINISHED, s);
}

/* Emits the events of the next output token of S, the result of a beam search. */
static void emit_next(struct step *g, struct seq *s)
{
    size_t i = s->n_shown++;
    const struct step_row r = {.seq = s,
                               .result = {.id = s->token[s->n_prompt + i], .logprob = s->logprob[i]}};

    seq_clear_text(s);
    show(g, s, &r, i + 1);
}

bool step_take(struct step *g, struct step_event *ev)
{
    if (g->next_event == g->n_events) {
        struct seq *s = g->done;

        g->n_events = g->next_event = 0;
        if (s && s->has_score && s->n_shown < seq_n_output(s) && !s->fault.code) {
            emit_next(g, s);
            *ev = g->event[g->next_event++];
            return true;
        }
        if (!s)
            return false;
        g->done = s->next;
        if (!g->done)
            g->last_done = &g->done;
        emit_end(g, s);
    }
    *ev = g->event[g->next_event++];
    return true;
}

bool step_has_events(const struct step *g)
{
    return g->next_event < g->n_events || g->done;
}

/* ---- admission ---- */

/* Returns the KV rows of S, in SLOT, for which the cache must have room when a sequence is admitted: with "optimistic"
 * the rows of the known tokens and STEP_SPARE_BLOCKS blocks, with "worst-case" all rows that S can need. */
static struct executor_want rows_to_admit(const struct step *g, const struct seq *s, size_t slot)
{
    size_t n = s->n_known + STEP_SPARE_BLOCKS * g->x->caps.block, most = seq_most_rows(s);

    return (struct executor_want){.slot = slot, .n = g->opt.worst_case || n > most ? most : n};
}

/* Appends the KV rows that the lanes of S need (rows_to_admit()) to g->want [n] and returns the new length. STARTS: S
 * has no slots yet, and the next free ones are assumed. A lane without rows will be forked and then share the full
 * blocks of the prompt, which are not counted for it. */
static size_t add_wants(struct step *g, struct seq *s, bool starts, size_t n)
{
    size_t block = g->x->caps.block;

    for (size_t k = 0; k < lanes_n(s); k++) {
        struct seq *lane = lanes_at(s, k);
        struct executor_want want =
            rows_to_admit(g, lane, starts ? g->free_slot[g->n_free - 1 - k] : lane->slot);

        if (k && g->x->caps.shares && lane->n_computed == 0)
            want.n -= (s->n_prompt - 1) / block * block;
        g->want[n++] = want;
    }
    return n;
}

/* Returns true if the KV cache has room for S beside all running sequences (rows_to_admit()). */
static bool step_has_room(struct step *g, struct seq *s)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n_running; i++)
        n = add_wants(g, g->running[i], false, n);
    n = add_wants(g, s, true, n);
    return g->x->has_room(g->x->ctx, g->want, n);
}

/* Returns the first answer to the request of S if S can share its rows, else NULL. The rows of the prompt are
 * shared except the last row, which S computes to get its logits. */
static const struct seq *first_answer(struct step *g, const struct seq *s)
{
    for (const struct seq *q = *chain_of(g, s->id); q && s->choice; q = q->next_of_id)
        if (q->id == s->id && q->choice == 0 && q->state == SEQ_RUNNING && q->n_computed + 1 >= q->n_prompt &&
            !g->x->is_stale(g->x->ctx, q->n_computed, q->last_total, s->n_known))
            return q;
    return NULL;
}

/* Returns the tokens of S as a prefix whose KV rows may be taken from other sequences, unless S needs results of all
 * its rows. */
static struct executor_prefix prefix_of(const struct seq *s)
{
    struct executor_prefix p = seq_prefix(s);

    p.n_shared = seq_wants_all(s) ? 0 : p.n_shared;
    return p;
}

/* Starts the slot of S with existing KV rows: the rows of the first answer to the request, or of the prefix cache.
 * Returns their number. */
static size_t rows_there(struct step *g, struct seq *s)
{
    const struct executor_prefix p = prefix_of(s);
    const struct seq *first = first_answer(g, s);

    if (first && s->n_known == s->n_prompt && s->n_prompt > 1 &&
        g->x->fork(g->x->ctx, first->slot, s->n_prompt - 1, s->slot, &p) == 0)
        return s->n_prompt - 1;
    return g->x->begin(g->x->ctx, s->slot, &p);
}

/* Counts the cached rows of S that were read from the store. */
static void count_stored(struct step *g, struct seq *s)
{
    size_t to = s->read_to < s->n_cached ? s->read_to : s->n_cached;

    s->n_stored = to > s->read_from ? to - s->read_from : 0;
    g->n_stored_tokens += s->n_stored;
}

/* Moves S from the queue to the running sequences and gives it a slot. */
static void step_start(struct step *g, struct seq *s)
{
    size_t at = g->n_running++;

    waiting_remove(&g->waiting, &s->wait);
    for (; at && waiting_before(&g->waiting, &s->wait, &g->running[at - 1]->wait); at--)
        g->running[at] = g->running[at - 1];
    g->running[at] = s;
    for (size_t i = 0; i < lanes_n(s); i++) {
        lanes_at(s, i)->slot = g->free_slot[--g->n_free];
        lanes_at(s, i)->state = SEQ_RUNNING;
    }
    waiting_run(&g->waiting, s->wait.key, (int)lanes_n(s));
    s->n_computed = rows_there(g, s);
    if (!s->begun) {
        s->begun = true;
        s->t_first = g->x->clock_s(g->x->ctx);
        s->n_cached = s->n_computed;
        g->n_cached_tokens += s->n_computed;
        count_stored(g, s);
    }
    s->n_reached = s->n_computed > s->n_reached ? s->n_computed : s->n_reached;
    s->last_total = s->n_known;
    leave_queue(g, s);
    s->n_charged = s->n_known - s->n_reached; /* rows that are computed again are not charged twice */
    waiting_charge(&g->waiting, s->wait.key, (int64_t)s->n_charged);
}

/* ---- reading ahead ---- */

/* Starts to read the KV blocks of S from the store. Returns false if the store has no block for S. */
static bool read_ahead(struct step *g, struct seq *s)
{
    const struct executor_prefix p = prefix_of(s);

    s->handle = p.n_shared ? g->x->read_ahead(g->x->ctx, &p, &s->read_from, &s->read_to) : EXECUTOR_NOTHING;
    return s->handle != EXECUTOR_NOTHING;
}

/* Returns the seconds that S may wait for the store: the expected time to compute the same rows, at least
 * unnoticed_s. */
static double worth(const struct step *g, const struct seq *s)
{
    bool known = s->handle >= 0;
    const struct cost_step step = cost_with(
        (struct cost_step){0}, known ? s->read_to - s->read_from : s->n_known, known ? s->read_from : 0);

    return fmax(cost_predict(&g->cost, &step), unnoticed_s);
}

/* Returns true if the read for S is complete, or if its time limit has passed. */
static bool is_ready(struct step *g, struct seq *s, double now)
{
    if (now >= s->read_until)
        return true;
    if (s->handle == EXECUTOR_LATER)
        return !read_ahead(g, s);
    if (!g->x->read_ahead_go_on(g->x->ctx, s->handle))
        return false;
    s->handle = EXECUTOR_NOTHING;
    return true;
}

/* Starts to read the KV blocks of S and moves S from the queue to g->reading. Returns false if the store has
 * no block for S. */
static bool start_reading(struct step *g, struct seq *s, double now)
{
    s->asked = true;
    s->read_from = s->read_to = 0;
    if (!read_ahead(g, s))
        return false;
    waiting_remove(&g->waiting, &s->wait);
    s->state = SEQ_READING;
    s->read_until = now + worth(g, s);
    g->reading[g->n_reading++] = s;
    return true;
}

/* Requeues the sequences whose read is complete, and starts reads for the next sequences of the queue. */
static void update_reading(struct step *g)
{
    double now = g->n_reading || g->waiting.n ? g->x->clock_s(g->x->ctx) : 0;
    struct waiting_entry *w;

    for (size_t i = 0; i < g->n_reading;) {
        struct seq *s = g->reading[i];

        if (!is_ready(g, s, now)) {
            i++;
            continue;
        }
        leave_reading(g, s);
        s->state = SEQ_WAITING;
        waiting_add(&g->waiting, &s->wait);
    }
    while (g->n_reading < g->opt.max_seqs && (w = waiting_next(&g->waiting)) != NULL && !of_wait(w)->asked)
        start_reading(g, of_wait(w), now);
}

/* Allocates the memory that S needs to run. Returns false if memory is exhausted: then S stays in the queue
 * until running sequences free memory, or ends with an error if no sequence runs. */
static bool has_memory(struct step *g, struct seq *s)
{
    if (seq_make_ready(s) == 0)
        return true;
    if (!g->n_running && !g->n_reading) {
        fault(s, ERR_NOMEM, "out of memory: tokens of a sequence");
        end(g, s);
    }
    return false;
}

/* Admits waiting sequences in the order of the policy, as long as slots and KV rows are free. */
static void admit(struct step *g)
{
    double now = g->x->read_ahead && g->waiting.n ? g->x->clock_s(g->x->ctx) : 0;
    struct waiting_entry *w;

    while (g->n_free && (w = waiting_next(&g->waiting)) != NULL) {
        struct seq *s = of_wait(w);

        if (g->n_free < lanes_n(s) || (g->n_running && (g->opt.one_by_one || !step_has_room(g, s))))
            return; /* later sequences are not admitted instead, even if they fit, because S could starve */
        if (g->x->read_ahead && !s->asked && g->n_reading == g->opt.max_seqs)
            return; /* the list of reads is full */
        if (g->x->read_ahead && !s->asked && start_reading(g, s, now))
            continue;
        if (!has_memory(g, s))
            return;
        step_start(g, s);
    }
}

/* Waits briefly for the store, because no sequence could run in this step. */
static void wait_for_rows(struct step *g)
{
    double now = g->x->clock_s(g->x->ctx), until = now + patience_s;

    for (size_t i = 0; i < g->n_reading; i++)
        until = g->reading[i]->read_until < until ? g->reading[i]->read_until : until;
    if (until > now)
        g->x->read_ahead_wait(g->x->ctx, until - now);
}

/* ---- masks ---- */

/* Returns true if S can take part in this step: no thread of late.h has its constraint, and the mask of its next token
 * is made. */
static bool has_mask(const struct seq *s)
{
    return !s->mask || !s->stop.limit ||
           (!constraints_is_lent(s->common->constraint) && s->next_mask->is_made);
}

/* Function `work` of masks_run(): makes the mask of the next token of S. */
static void make_next(void *ctx, struct seq *s)
{
    (void)ctx;
    if (!s->next_mask->is_made) /* otherwise a thread of late.h has made it */
        late_mask_make(s->next_mask, &s->run);
}

/* Handles the complete mask s->next_mask: ends S if its answer is complete, or if the constraint has reached a
 * limit. */
static void take_mask(struct step *g, struct seq *s)
{
    struct late_mask *x = s->next_mask;
    bool is_complete = s->may_be_complete && constraint_run_may_end(&s->run) && x->n_allowed == 0;

    s->mask_s += x->seconds;
    x->seconds = 0;
    x->was_lent = false;
    if (x->err.code && s->stop.why == STOP_NONE) {
        s->limits_itself = x->err.code == ERR_UNSUPPORTED;
        err_set(&s->fault, x->err.code, "the constraint on the answer has reached a limit: %s", x->err.msg);
    } else if (is_complete) {
        s->stop.why = STOP_EOS;
    }
    s->may_be_complete = false;
    if (s->stop.why != STOP_NONE || s->fault.code)
        end(g, s);
}

/* Hands the constraints of those sequences in g->masks that have a deferred mask to the threads of late.h. Sequences
 * with the same constraint are adjacent in g->masks. */
static void lend_late(struct step *g)
{
    struct masks *m = &g->masks;

    struct late_job *job = NULL;

    for (size_t i = 0; i < m->n; i++) {
        struct seq *s = m->seq[i];

        if (!s->next_mask->is_made && !job)
            job = late_begin(&g->late, s->common->constraints, s->common->constraint);
        if (!s->next_mask->is_made && job)
            late_add(job, s->next_mask, &s->run);
        if (job && (i + 1 == m->n || m->seq[i + 1]->common->constraint != s->common->constraint)) {
            late_lend(&g->late, job);
            job = NULL;
        }
    }
}

/* Makes the masks that running sequences lack, within the work limit of a step (MASKS_STEPS). Gives the constraints
 * whose masks need more work to the threads of late.h. */
static void make_masks(struct step *g)
{
    struct masks *m = &g->masks;

    late_take(&g->late);
    masks_begin(m);
    m->n = 0;
    m->work = make_next;
    for (size_t i = 0; i < g->n_running; i++) {
        struct seq *s = g->running[i];

        if (!s->mask || !s->stop.limit || constraints_is_lent(s->common->constraint))
            continue;
        s->run.steps = m->steps;
        if (!s->next_mask->is_made || s->next_mask->was_lent)
            masks_add(m, s);
    }
    masks_run(m, g->x->pool);
    for (size_t i = 0; i < m->n; i++)
        if (m->seq[i]->next_mask->is_made)
            take_mask(g, m->seq[i]);
    lend_late(g);
}

/* ---- planning ---- */

size_t step_most_running(const struct step *g)
{
    return g->opt.one_by_one ? 1 : g->opt.max_seqs;
}

size_t step_most_rows(const struct step *g)
{
    size_t most = g->opt.max_seqs > SCHED_ROWS ? g->opt.max_seqs : SCHED_ROWS;

    return g->opt.max_tokens < most || !g->x->caps.chunks ? g->opt.max_tokens : most;
}

/* Returns the maximum number of guesses of S in the next step. */
static size_t room_for_guesses(const struct step *g, const struct seq *s)
{
    size_t most = seq_most_guesses(s), free_of_force = reasoning_run_free(&s->reasoning);

    if (s->n_known - s->n_computed != 1 || (seq_wants_all(s) && s->n_reached < s->n_prompt))
        return 0;
    most = most < g->guesser->most ? most : g->guesser->most;
    most = most < free_of_force ? most : free_of_force;
    /* The rows of guesses are computed with the RoPE factors of the known tokens, which must be valid for the longer
     * sequence. */
    while (most && g->x->is_stale(g->x->ctx, s->n_known, s->n_known, s->n_known + most))
        most--;
    return most;
}

/* Drops the first guess of S that its constraint excludes, and all later ones. Drops all guesses after one that would
 * end the answer. */
static void cut_guesses(const struct step *g, struct seq *s)
{
    const struct sampling *p = &s->sampling;
    size_t n_known = s->run.n, n = s->guess.n;

    s->guess.n = 0;
    while (s->guess.n < n) {
        int32_t id = s->token[s->n_known + s->guess.n];

        bool ends = (sampling_has_id(p->eos, p->n_eos, id) && !p->ignore_eos) ||
                    sampling_has_id(p->stop_token, p->n_stop_token, id);

        if (id < 0 || (size_t)id >= g->x->caps.n_vocab ||
            (s->mask && !(constraint_run_may_guess(&s->run) && constraint_run_add(&s->run, id))))
            break;
        s->guess.n++;
        if (ends)
            break;
    }
    if (s->mask)
        constraint_run_truncate(&s->run, n_known);
}

/* The time of a step with guesses of a draft model, in seconds. */
struct depth_time {
    double passes_s; /* passes of the draft model */
    double rows_s;   /* predicted time of the target's step with the rows of the guesses */
};

/* Returns the times with K guesses of the draft M for each of the N sequences in g->guessing. */
static struct depth_time depth_time(const struct step *g, const struct guess_maker *m, size_t n, size_t k)
{
    struct cost_step step = {0};

    for (size_t i = 0; i < n; i++)
        step = cost_with(step, 1 + k, g->guessing[i]->n_computed);
    return (struct depth_time){.passes_s = (double)(m->is_parallel && k ? 1 : k) * m->pass_s,
                               .rows_s = cost_predict(&g->cost, &step)};
}

/* BEST is the best number of guesses by the current estimates. Returns the largest number above it whose
 * additional time is at most g->trial_s, and subtracts the time of the additional draft passes from
 * g->trial_s. Returns BEST if there is no such number. */
static size_t trial_depth(struct step *g, const struct guess_maker *m, size_t n, size_t best)
{
    const struct depth_time usual = depth_time(g, m, n, best);

    for (size_t k = m->most; k > best; k--) {
        const struct depth_time t = depth_time(g, m, n, k);
        double added_s = t.passes_s - usual.passes_s;

        if (added_s + t.rows_s - usual.rows_s <= g->trial_s) {
            g->trial_s -= added_s;
            return k;
        }
    }
    return best;
}

/* Returns how many tokens the draft model is to guess for each of the N sequences in g->guessing: the number with the
 * most expected tokens per second, or, in every TRIAL-th step, a larger one. */
static size_t draft_depth(struct step *g, size_t n)
{
    const struct guess_maker *m = g->guesser;
    struct guess guess = {.source = m->draft, .n = m->most, .chance = g->chance};
    double tokens = (double)n, best_rate, plain_s;
    size_t best = 0;

    if (!m->adaptive || m->pass_s <= 0 || g->guess_counts.n_drafts < FIRST_DRAFTS)
        return m->most;
    guess_chances_set(&g->chances, &guess);
    if ((plain_s = depth_time(g, m, n, 0).rows_s) <= 0)
        return m->most;
    best_rate = tokens / plain_s;
    for (size_t k = 1; k <= m->most; k++) {
        const struct depth_time t = depth_time(g, m, n, k);

        tokens += (double)n * (double)guess.chance[k - 1];
        if (tokens / (t.passes_s + t.rows_s) > best_rate) {
            best_rate = tokens / (t.passes_s + t.rows_s);
            best = k;
        }
    }
    return g->n_steps % TRIAL == 0 ? trial_depth(g, m, n, best) : best;
}

/* Writes guesses for the decoding sequences, and their chances. */
static void step_guess(struct step *g)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n_running; i++) {
        struct seq *s = g->running[i];

        if (has_mask(s) && (s->guess.most = room_for_guesses(g, s)) > 0)
            g->guessing[n++] = s;
    }
    if (n == 0)
        return;
    g->guesser->depth = g->guesser->draft < GUESS_SOURCES ? draft_depth(g, n) : 0;
    g->guesser->propose(g->guesser->ctx, g->guessing, n);
    for (size_t i = 0; i < n; i++) {
        struct guess *guess = &g->guessing[i]->guess;

        cut_guesses(g, g->guessing[i]);
        guess->chance = g->chance + i * GUESS_MOST;
        guess_chances_set(&g->chances, guess);
    }
}

/* Returns true if the next step must compute no guesses, because the time of such steps must be measured now and
 * then. */
static bool is_without_guesses(const struct step *g)
{
    return g->guesser->adaptive &&
           (g->n_steps == 4 || g->n_steps == 16 || g->n_steps % TRIAL_PLAIN == TRIAL_PLAIN / 3);
}

/* If the KV rows of S are invalid for its number of tokens (is_stale()), replaces them by existing valid ones. */
static void renew_rows(struct step *g, struct seq *s)
{
    const struct seq *first = lanes_search(s) ? s->beams->running[0] : s;

    if (!g->x->is_stale(g->x->ctx, first->n_computed, first->last_total, first->n_known))
        return;
    g->x->release(g->x->ctx, s->slot, s->token, s->n_computed);
    lanes_drop_rows(s, g->x);
    s->n_computed = rows_there(g, s);
    s->last_total = s->n_known;
}

/* Adds S, a sequence or a lane, to the planner's input with its first KNOWN tokens. */
static void add_rows(struct step *g, struct seq *s, size_t known)
{
    size_t first = s->n_computed > s->n_reached ? s->n_computed : s->n_reached;

    if (s->kept_prompt && first < s->n_prompt && known - first > s->common->n_kept_prompt)
        /* the memory for the logits of prompt rows is limited to n_kept_prompt rows */
        known = first + s->common->n_kept_prompt;
    g->sched[g->n_lacking] = (struct sched_seq){.computed = s->n_computed,
                                                .known = known,
                                                .all_wanted = seq_wants_all(s) && s->n_reached < s->n_prompt,
                                                .n_guesses = s->guess.n,
                                                .chance = s->guess.chance};
    g->lacking[g->n_lacking++] = s;
}

/* Adds S, or its lanes, to the planner's input. If each lane of a beam search lacks only one row, the lanes are
 * decoding sequences, and the planner takes all of them or none. */
static void add_lacking(struct step *g, struct seq *s)
{
    if (!has_mask(s)) {
        g->n_late++;
        /* the last row, which samples a token, has to wait for the mask */
        if (g->x->caps.chunks && s->n_computed + 1 < s->n_known)
            add_rows(g, s, s->n_known - 1);
    } else if (!lanes_search(s)) {
        add_rows(g, s, s->n_known);
    } else if (!lanes_are_level(s)) {
        struct seq *lane = lanes_behind(s, g->x);

        if (lane) /* NULL: all missing rows were found in the cache */
            add_rows(g, lane, lane->n_known - 1);
    }
    if (lanes_search(s) && lanes_are_level(s))
        for (size_t i = 0; i < s->beams->search.n_running; i++)
            add_rows(g, s->beams->running[i], s->beams->running[i]->n_known);
}

/* Plans the step: fills g->pick and g->picked. Returns the number of sequences in the plan. */
static size_t step_plan(struct step *g)
{
    const struct executor_caps *caps = &g->x->caps;
    struct sched_limits lim = {
        .max_tokens = step_most_rows(g),
        .max_seqs = g->opt.max_seqs,
        .max_wanted = caps->max_wanted,
        .max_prompts = caps->max_prompts,
        .order = g->opt.order,
        .apart = !caps->mixes,
        .whole = !caps->chunks,
        .cost = &g->cost,
        .target_s = g->opt.target_s,
        .every_guess = g->guesser && (!g->guesser->adaptive || g->guess_counts.n_drafts < FIRST_DRAFTS)};
    size_t n;

    for (size_t i = 0; i < g->n_running; i++) {
        /* A sequence that was preempted or left out may have guesses of an earlier step. */
        g->running[i]->guess.n = 0;
        renew_rows(g, g->running[i]);
    }
    if (g->guesser && caps->guesses && !is_without_guesses(g))
        step_guess(g);
    /* read after trial_depth() has subtracted the time of the draft */
    lim.trial_s = g->n_steps % TRIAL == 0 ? g->trial_s : 0;
    g->n_lacking = g->n_late = 0;
    for (size_t i = 0; i < g->n_running; i++)
        add_lacking(g, g->running[i]);
    n = sched_plan(g->sched, g->n_lacking, &lim, g->pick, NULL);
    for (size_t i = 0; i < n; i++)
        g->picked[i] = g->lacking[g->pick[i].seq];
    return n;
}

/* Releases the rows of S and puts S back into the queue. */
static void put_back(struct step *g, struct seq *s)
{
    leave_slot(g, s);
    s->asked = false; /* the store is searched again, since it may contain the rows of S by then */
    for (size_t i = 0; i < lanes_n(s); i++)
        lanes_at(s, i)->state = SEQ_WAITING;
    waiting_add(&g->waiting, &s->wait);
}

/* Frees rows for S in a full cache: preempts the running sequence with the lowest precedence that holds rows, or S
 * itself if there is none after S. Returns false if S has the highest precedence and no other sequence holds rows. */
static bool preempt(struct step *g, struct seq *s)
{
    struct seq *last = NULL;

    s = lanes_head(s);
    for (size_t i = g->n_running; !last && i-- && g->running[i] != s;)
        if (lanes_hold_rows(g->running[i]))
            last = g->running[i];
    if (!last && g->running[0] == s)
        return false;
    put_back(g, last ? last : s);
    g->n_preempted++;
    return true;
}

/* Reserves KV rows [0, N) for S, and preempts other sequences while the cache is full. S itself may be
 * preempted or end with an error. */
static void reserve_rows(struct step *g, struct seq *s, size_t n)
{
    int rc;

    while ((rc = g->x->reserve(g->x->ctx, s->slot, n)) != 0) {
        if (rc != ERR_NOSPACE || !preempt(g, s))
            break;
        if (s->state != SEQ_RUNNING)
            return;
    }
    if (rc) {
        fault(s, rc,
              rc == ERR_NOMEM   ? "out of memory: rows of the KV cache"
              : lanes_search(s) ? "the KV cache is too small for the beams of this request"
                                : "the KV cache is too small for this sequence");
        end(g, s);
    }
}

/* Returns how many rows of PICK belong to known tokens of S. The others belong to guesses. */
static size_t known_rows(const struct seq *s, const struct sched_pick *pick)
{
    size_t lack = s->n_known - s->n_computed;

    return pick->n < lack ? pick->n : lack;
}

/* Reserves KV rows for the N_PICKS sequences of the plan. Sequences that are preempted or end are removed from the
 * plan, and guesses are dropped if the cache has no room for them. Returns the number of sequences that remain. */
static size_t step_reserve(struct step *g, size_t n_picks)
{
    size_t n = 0;

    for (size_t i = 0; i < n_picks; i++) {
        struct seq *s = g->picked[i];

        if (s->state == SEQ_RUNNING)
            reserve_rows(g, s, s->n_computed + known_rows(s, &g->pick[i]));
    }
    /* A second loop, since reserving rows for a later sequence may preempt an earlier one of the plan, and since
     * guesses must not take the rows that a known token needs. */
    for (size_t i = 0; i < n_picks; i++) {
        struct seq *s = g->picked[i];
        struct sched_pick pick = g->pick[i];

        if (s->state != SEQ_RUNNING)
            continue;
        if (pick.n > known_rows(s, &pick) && g->x->reserve(g->x->ctx, s->slot, s->n_computed + pick.n) != 0)
            pick.n = known_rows(s, &pick);
        g->pick[n] = pick;
        g->picked[n++] = s;
    }
    return n;
}

/* ---- computing ---- */

/* Returns how many of the next N rows of S need logits or a hidden state: the last row if it predicts a new
 * token, and all rows of a scored prompt the first time that they are computed. */
static size_t n_wanted(const struct seq *s, size_t n)
{
    size_t end = s->n_computed + n, first = s->n_computed > s->n_reached ? s->n_computed : s->n_reached;

    if (seq_wants_all(s) && first < s->n_prompt && first < end)
        return end - first;
    if (end < s->n_known || !(s->stop.limit || s->pooling))
        return 0;
    return 1 + end - s->n_known; /* the last known token and the guesses */
}

/* Limits the guesses of S to those among the N rows that the plan computes for it. */
static void set_guesses(struct seq *s, size_t n)
{
    size_t end = s->n_computed + n;

    s->guess.n = end > s->n_known ? end - s->n_known : 0;
}

static void fill_rows(struct step *g, size_t n_seqs)
{
    for (size_t i = 0; i < n_seqs; i++) {
        const struct seq *s = g->picked[i];
        size_t lack = s->n_known - s->n_computed, n = g->pick[i].n > lack ? lack + s->guess.n : g->pick[i].n;

        g->rows[i] = (struct executor_rows){.slot = s->slot,
                                            .id = s->token + s->n_computed,
                                            .n = n,
                                            .pos = s->n_computed,
                                            .n_prompt = s->n_prompt,
                                            .n_total = s->n_known,
                                            .n_wanted = n_wanted(s, n)};
    }
}

/* Updates counters after N more rows of S were computed. Rows below n_reached were computed again. */
static void count_rows(struct step *g, struct seq *s, size_t n)
{
    size_t before = s->n_reached;

    s->last_total = s->n_known;
    s->n_computed += n;
    s->n_reached = s->n_computed > before ? s->n_computed : before;
    s->n_lost = s->n_reached > before ? 0 : s->n_lost;
    s->n_charged -= s->n_reached - before < s->n_charged ? s->n_reached - before : s->n_charged;
    g->n_recomputed += n - (s->n_reached - before);
    if (before < s->n_prompt)
        g->n_prompt_tokens += s->n_reached - before;
}

/* Adds a share of the SECONDS of a step with N sequences to g->trial_s, the time for guesses that are not
 * expected to save time. If the time was too short for a guess, it accumulates, up to the time of one step
 * and one pass of the draft model; a trial uses it up. */
static void add_trial_time(struct step *g, size_t n, double seconds)
{
    bool is_used = false;

    for (size_t i = 0; i < n && g->n_steps % TRIAL == 0; i++)
        is_used |= g->picked[i]->guess.n > 0;
    g->trial_s = fmin((is_used ? 0 : g->trial_s) + trial_share * seconds,
                      seconds + (g->guesser ? g->guesser->pass_s : 0));
}

/* Ends S with the error "the executor WHAT: E". */
static void end_by_executor(struct step *g, struct seq *s, const char *what, const struct err *e)
{
    s = lanes_head(s);
    if (s->fault.code == 0)
        err_set(&s->fault, e->code, "the executor %s: %s", what, e->msg);
    end(g, s);
}

/* Ends all waiting sequences with the error "the executor WHAT: E". */
static void end_waiting(struct step *g, const char *what, const struct err *e)
{
    struct waiting_entry *w;

    while ((w = waiting_next(&g->waiting)) != NULL)
        end_by_executor(g, of_wait(w), what, e);
}

/* Handles the error E of a run with the N sequences of the plan: puts all running sequences back into the queue, but
 * ends those that were in OUTAGE_RUNS failed runs. If OUTAGE_TRIES runs in succession have failed, all sequences
 * end. */
static void lose_rows(struct step *g, size_t n, const struct err *e)
{
    outage_begin(&g->outage, g->x->clock_s(g->x->ctx));
    log_error("the executor failed: %s; it is opened again, and %zu running requests are computed again",
              e->msg, g->n_running);
    g->n_rows = 0;
    for (size_t i = 0; i < n; i++)
        if (++g->picked[i]->n_lost >= OUTAGE_RUNS && g->picked[i]->state == SEQ_RUNNING)
            end_by_executor(g, g->picked[i], "failed in each run of this request", e);
    while (g->n_running)
        put_back(g, g->running[g->n_running - 1]);
    while (g->n_reading) {
        struct seq *s = g->reading[g->n_reading - 1];

        leave_reading(g, s);
        s->asked = false;
        s->state = SEQ_WAITING;
        waiting_add(&g->waiting, &s->wait);
    }
    if (g->outage.n_tries >= OUTAGE_TRIES)
        end_waiting(g, "fails in each run", e);
}

/* Computes the plan of N sequences: runs the executor and samples tokens into g->row. Returns false if the run has
 * failed. */
static bool step_compute(struct step *g, size_t n)
{
    struct cost_step step = {0};
    double start = g->x->clock_s(g->x->ctx), seconds;
    struct err e = {0};
    bool is_good;

    for (size_t i = 0; i < n; i++)
        set_guesses(g->picked[i], g->pick[i].n);
    draw_masks(g, n);
    fill_rows(g, n);
    mem_guard_up();
    is_good = g->x->run(g->x->ctx, g->rows, n, &e) == 0;
    if (is_good && !draw_tokens(g, n)) {
        is_good = false;
        g->x->failure(g->x->ctx, &e);
    }
    mem_guard_down();
    if (!is_good) {
        lose_rows(g, n, &e);
        return false;
    }
    outage_computed(&g->outage);
    for (size_t i = 0; i < n; i++) {
        step = cost_with(step, g->rows[i].n, g->rows[i].pos);
        count_rows(g, g->picked[i], g->rows[i].n - g->picked[i]->guess.n);
    }
    seconds = g->x->clock_s(g->x->ctx) - start;
    if (g->n_steps > 0) /* the first step, which touches new memory pages, takes up to 1000 times as long */
        cost_learn(&g->cost, &step, seconds);
    add_trial_time(g, n, seconds);
    g->n_steps++;
    return true;
}

/* Advances the constraint of S by its new token ID. If the answer may be complete, the mask of the next token is made
 * now, because an answer ends when no further token is allowed; otherwise it is made before the next step. Returns
 * false if the work limit of the step is reached first; S is then left out of steps until the mask is complete. */
static bool follow_constraint(struct step *g, struct seq *s, int32_t id)
{
    struct late_mask *x = s->next_mask;

    if (!s->mask)
        return true;
    *x = (struct late_mask){.mask = x->mask, .has_token = true, .token = id};
    s->may_be_complete = true;
    s->run.steps = g->masks.steps;
    if (constraint_run_add(&s->run, id)) {
        x->has_token = false;
        s->may_be_complete = constraint_run_may_end(&s->run);
        if (!s->may_be_complete)
            return true;
    }
    return late_mask_make(x, &s->run);
}

/* Records that S has N_TOKENS new tokens. */
static void note_tokens(struct step *g, struct seq *s, size_t n_tokens)
{
    s->t_last = g->x->clock_s(g->x->ctx);
    if (s->n_known == s->n_prompt)
        s->t_token = s->t_last;
    waiting_charge(&g->waiting, s->wait.key, (int64_t)n_tokens);
}

/* Appends the token that was sampled for R to S, applies the stop rules and emits the events. */
static void deliver(struct step *g, struct seq *s, const struct step_row *r)
{
    int32_t id = r->result.id;
    struct err e = {0};
    enum stop_why why;

    note_tokens(g, s, 1);
    s->token[s->n_known++] = id;
    sample_history_add(&s->history, id);
    why = show(g, s, r, seq_n_output(s));
    if (reasoning_run_add(&s->reasoning, id, &e) != 0)
        fault(s, e.code, e.msg);
    if (s->fault.code == 0 && (why == STOP_NONE || why == STOP_LENGTH)) {
        if (!follow_constraint(g, s, id))
            return;
        if (s->mask && s->next_mask->is_made) {
            take_mask(g, s);
            return;
        }
    }
    if (why != STOP_NONE || s->fault.code)
        end(g, s);
}

/* Computes the embedding of S from its sum of hidden states and emits it. */
static void give_embedding(struct step *g, struct seq *s)
{
    double n = s->pooling == SEQ_POOL_MEAN ? (double)s->n_prompt : 1;
    bool good = true;

    for (size_t i = 0; i < g->x->caps.n_hidden; i++) {
        s->pooled[i] = (float)(s->sum[i] / n);
        good &= isfinite(s->pooled[i]);
    }
    if (good)
        add_event(g, STEP_EMBEDDING, s);
    else
        fault(s, ERR_UNSUPPORTED, "there is no embedding: the model's hidden states contain NaN or infinity");
}

/* Processes the result of a row: emits its token or prompt token, or ends the sequence after an error. */
static void take_row(struct step *g, const struct step_row *r)
{
    struct seq *s = r->seq;

    if (!r->is_known) {
        if (s->n_known != r->position || s->token[r->position - 1] != r->given)
            return; /* this guess, or a guess before it, is wrong */
        if (s->may_be_complete)
            /* the answer may have ended with this guess; if not, the token is sampled again in a later step */
            return;
        s->n_right++;
    }
    if (s->state != SEQ_RUNNING) /* an earlier row of this step has ended the sequence */
        return;
    if (!r->is_known)
        count_rows(g, s, 1);
    if (r->code == ERR_NOSPACE && lanes_search(s) && r->position >= s->n_prompt) {
        /* no candidates for this lane; other hypotheses may continue */
        s->list = (struct beam_list){.list = r->result.top};
    } else if (r->code) {
        s->forbids_all = r->code == ERR_NOSPACE && seq_forbids(s);
        fault(s, r->code,
              s->forbids_all ? "no token can be chosen: the request excludes every token at this position"
                             : "no token can be chosen: the model's logits contain NaN or infinity");
        end(g, s);
    } else if (s->pooling) {
        return;
    } else if (r->position < s->n_prompt) {
        emit_token(g, STEP_PROMPT, r, s->token[r->position]);
    } else if (s->stop.limit && lanes_search(s)) {
        s->list = (struct beam_list){.list = r->result.top, .n = r->result.n_top};
    } else if (s->stop.limit) {
        s->guess_counts.n_steps += r->is_known;
        deliver(g, s, r);
    }
}

/* Called when the prompt of S is computed. Queues the siblings of S, and ends S if it must not generate tokens. */
static void end_of_prompt(struct step *g, struct seq *s)
{
    release_siblings(g, s);
    if (s->stop.limit)
        return;
    s->t_token = s->t_last = g->x->clock_s(g->x->ctx);
    s->stop.why = STOP_LENGTH;
    if (s->pooling)
        give_embedding(g, s);
    end(g, s);
}

/* Ends S with an error: the executor computes whole sequences only, and S is longer than a step. */
static void end_misfit(struct step *g, struct seq *s)
{
    fault(s, ERR_UNSUPPORTED, "the sequence has more tokens than one step of this executor can compute");
    end(g, s);
}

/* Makes the computed rows of the N sequences of the plan final, drops the rows of wrong guesses, and learns from the
 * results. */
static void step_settle(struct step *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct seq *s = g->picked[i];
        size_t n_guessed = s->guess.n, n_right = s->n_right;

        if (n_guessed) {
            guess_chances_learn(&g->chances, &s->guess, s->state == SEQ_RUNNING ? n_guessed : n_right,
                                n_right);
            guess_counts_add(&g->guess_counts, n_guessed, n_right);
            guess_counts_add(&s->guess_counts, n_guessed, n_right);
            for (size_t k = 0; k < n_right; k++) {
                g->n_accepted_at[k]++;
                s->accepted_at[k]++;
            }
        }
        s->guess.n = 0;
        if (s->state == SEQ_RUNNING)
            g->x->settle(g->x->ctx, s->slot, s->token, s->n_computed);
    }
}

/* Processes the results of all rows in g->row. N is the number of sequences in the plan. */
static void take_rows(struct step *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        g->picked[i]->n_right = 0;
        seq_clear_text(g->picked[i]);
    }
    for (size_t i = 0; i < g->n_rows && n; i++)
        take_row(g, &g->row[i]);
}

/* Extends the hypotheses of the beam searches, among the N sequences of the plan, whose lanes have candidates for the
 * next token. */
static void step_search(struct step *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct seq *s = lanes_head(g->picked[i]);

        if (!lanes_search(s) || s->state != SEQ_RUNNING || g->picked[i] != s->beams->running[0] ||
            !s->beams->running[0]->list.list)
            continue;
        note_tokens(g, s, s->beams->search.n_running);
        if (lanes_step(s, g->x))
            end(g, s);
    }
}

/* Starts or continues to open the failed executor again. Returns true if it computes now. */
static bool step_reopen(struct step *g)
{
    const struct executor *x = g->x;
    struct outage *o = &g->outage;
    double now = x->clock_s(x->ctx), wait_s = outage_wait_s(o, now);
    struct err e = {0};
    int rc = wait_s > 0 ? EXECUTOR_LATER : x->reopen(x->ctx, &e);

    if (rc == 0) {
        outage_end(o);
        log_warn("the executor computes again, %.1f s after it failed", now - o->since_s);
        return true;
    }
    if (rc == EXECUTOR_LATER) {
        if (g->waiting.n)
            x->reopen_wait(x->ctx, wait_s > 0 && wait_s < patience_s ? wait_s : patience_s);
    } else if (outage_try_failed(o, now)) {
        if (o->n_tries == OUTAGE_TRIES)
            log_error(
                "the executor cannot be opened again: %s; %zu waiting requests end, and it is tried every "
                "%.0f s",
                e.msg, g->waiting.n, outage_wait_s(o, now));
        end_waiting(g, "cannot be opened again", &e);
    }
    return false;
}

bool step_run(struct step *g)
{
    uint64_t changes;
    size_t n;

    ASSERT(!step_has_events(g), "%zu of %zu events are taken", g->next_event, g->n_events);
    if (!g->n_running && !g->waiting.n && !g->n_reading) {
        if (g->outage.is_down)
            step_reopen(g);
        return false;
    }
    g->n_events = g->next_event = 0;
    end_overdue(g);
    if (g->outage.is_down && !step_reopen(g))
        return true;
    if (g->x->read_ahead)
        update_reading(g);
    admit(g);
    make_masks(g);
    changes = g->n_preempted + g->n_finished;
    n = step_reserve(g, step_plan(g));
    if (n)
        n = step_compute(g, n) ? n : 0;
    else if (g->n_late)
        late_wait(&g->late, patience_s);
    else if (g->n_running && changes == g->n_preempted + g->n_finished)
        end_misfit(g, g->running[0]);
    else if (!g->n_running && g->n_reading)
        wait_for_rows(g);
    take_rows(g, n);
    step_settle(g, n);
    step_search(g, n);
    for (size_t i = 0; i < n; i++)
        if (g->picked[i]->state == SEQ_RUNNING && g->picked[i]->n_computed >= g->picked[i]->n_prompt &&
            g->rows[i].pos < g->picked[i]->n_prompt)
            end_of_prompt(g, g->picked[i]);
    return true;
}

size_t step_n_waiting(const struct step *g)
{
    return g->waiting.n + g->n_reading;
}
