/* lanes.c - moves hypotheses between the lanes of a beam search, and finds out which continuations end. */
#include "engine/beams/lanes.h"

#include <string.h>

#include "base/mem.h"
#include "engine/executor.h"
#include "text/tok/tok.h"

/* ---- sequences with or without beam search ---- */

struct seq *lanes_head(struct seq *s)
{
    return lanes_search(s) ? s->common->lane[0] : s;
}

size_t lanes_n(const struct seq *s)
{
    return lanes_search(s) ? s->common->rules.width : 1;
}

struct seq *lanes_at(struct seq *s, size_t i)
{
    return lanes_search(s) ? s->common->lane[i] : s;
}

bool lanes_hold_rows(struct seq *s)
{
    for (size_t i = 0; i < lanes_n(s); i++)
        if (lanes_at(s, i)->n_computed)
            return true;
    return false;
}

/* ---- rows ---- */

bool lanes_are_level(const struct seq *head)
{
    const struct seq_beams *b = head->beams;

    if (b->search.n_output == 0) /* the head computes the prompt */
        return true;
    for (size_t i = 0; i < b->search.n_running; i++)
        if (b->running[i]->n_computed + 1 < b->running[i]->n_known)
            return false;
    return true;
}

/* Releases the KV rows of LANE without keeping them in the prefix cache. */
static void drop_rows(struct seq *lane, const struct executor *x)
{
    if (lane->n_computed)
        x->release(x->ctx, lane->slot, NULL, 0);
    lane->n_computed = 0;
}

void lanes_drop_rows(struct seq *s, const struct executor *x)
{
    for (size_t i = 1; i < lanes_n(s); i++)
        drop_rows(lanes_at(s, i), x);
}

/* Returns the number of first KV rows of A that B can use: those of the tokens with which both begin, except the last
 * token of B. */
static size_t shared_rows(const struct seq *a, const struct seq *b)
{
    size_t n = a->n_computed < b->n_known - 1 ? a->n_computed : b->n_known - 1, same = 0;

    while (same < n && a->token[same] == b->token[same])
        same++;
    return same;
}

/* Gives LANE, which has no KV rows, the rows of the prefix cache or the rows that it shares with a running lane,
 * whichever are more. */
static void find_rows(struct seq *head, struct seq *lane, const struct executor *x)
{
    const struct seq_beams *b = head->beams;
    const struct executor_prefix p = seq_prefix(lane);
    const struct seq *from = NULL;
    size_t most = 0;

    for (size_t i = 0; i < b->search.n_running; i++) {
        size_t n = shared_rows(b->running[i], lane);

        if (n > most) {
            most = n;
            from = b->running[i];
        }
    }
    x->release(x->ctx, lane->slot, NULL, 0); /* the slot may be in use after a begin() that found no rows */
    lane->n_computed = x->begin(x->ctx, lane->slot, &p);
    if (lane->n_computed < most) {
        x->release(x->ctx, lane->slot, NULL, 0);
        lane->n_computed = most;
        if (x->fork(x->ctx, from->slot, most, lane->slot, &p) != 0)
            lane->n_computed = x->begin(x->ctx, lane->slot, &p);
    }
    lane->last_total = lane->n_known;
    lane->n_reached = lane->n_computed > lane->n_reached ? lane->n_computed : lane->n_reached;
}

struct seq *lanes_behind(struct seq *head, const struct executor *x)
{
    struct seq_beams *b = head->beams;

    for (size_t i = 0; i < b->search.n_running; i++) {
        struct seq *lane = b->running[i];

        if (lane->n_computed == 0 && lane->n_known > 1)
            find_rows(head, lane, x);
        if (lane->n_computed + 1 < lane->n_known)
            return lane;
    }
    return NULL;
}

/* ---- hypotheses ---- */

/* Copies the output of FROM and the states that depend on it to the lane TO. */
static int copy_hypothesis(struct seq *to, const struct seq *from)
{
    size_t n = seq_n_output(from);
    struct err e = {0};

    memcpy(to->token + to->n_prompt, from->token + from->n_prompt, n * sizeof(*to->token));
    memcpy(to->logprob, from->logprob, n * sizeof(*to->logprob));
    to->n_known = from->n_known;
    to->n_reached = from->n_reached;
    to->last_total = from->last_total;
    sample_history_copy(&to->history, &from->history);
    stop_copy(&to->stop, &from->stop);
    return from->detok ? tok_stream_copy(to->detok, from->detok, &e) : 0;
}

/* Copies the hypothesis of FROM and its KV rows to the empty lane TO. If the rows cannot be forked, TO has none. */
static int fork_lane(struct seq *to, const struct seq *from, const struct executor *x)
{
    int rc = copy_hypothesis(to, from);
    const struct executor_prefix p = seq_prefix(to);

    if (from->n_computed && x->fork(x->ctx, from->slot, from->n_computed, to->slot, &p) == 0)
        to->n_computed = from->n_computed;
    return rc;
}

/* Returns the first lane of HEAD, in the order of `choice`, that is not in LANE [n]. */
static struct seq *free_lane(struct seq *head, struct seq **lane, size_t n)
{
    for (size_t i = 0; i < lanes_n(head); i++) {
        struct seq *q = lanes_at(head, i);
        size_t at = 0;

        while (at < n && lane[at] != q)
            at++;
        if (at == n)
            return q;
    }
    return NULL;
}

/* Sets b->next to the lane of each continuation. The first continuation of a hypothesis keeps its lane. A
 * later one gets NULL, because it is forked afterwards. */
static void keep_lanes(struct seq_beams *b)
{
    for (size_t i = 0; i < b->search.n_running; i++) {
        struct seq *lane = b->running[b->search.next[i].parent];

        for (size_t k = 0; k < i && lane; k++)
            lane = b->next[k] == lane ? NULL : lane;
        b->next[i] = lane;
    }
}

/* Appends the token of the continuation C to the hypothesis of LANE. */
static int extend(struct seq *lane, const struct beam_next *c)
{
    size_t n = seq_n_output(lane);
    struct err e = {0};
    int rc = 0;

    lane->token[lane->n_known++] = c->id;
    lane->logprob[n] = c->logprob;
    sample_history_add(&lane->history, c->id);
    stop_token(&lane->stop, c->id, n + 1);
    if (lane->detok && lane->sampling.n_stop) {
        buf_clear(&lane->piece);
        buf_clear(&lane->text);
        rc = tok_stream_put(lane->detok, c->id, &lane->piece, &e);
        stop_text(&lane->stop, lane->piece.data ? lane->piece.data : "", lane->piece.len, &lane->text);
    }
    return rc;
}

/* Gives each continuation in search.next a lane, forking hypotheses with several continuations, and appends its token.
 * Returns 0 or ERR_NOMEM. */
static int rearrange(struct seq *head, const struct executor *x)
{
    struct seq_beams *b = head->beams;
    size_t n = b->search.n_running;
    struct seq *lane;
    int rc = 0;

    keep_lanes(b);
    for (size_t i = 0; i < lanes_n(head); i++) {
        size_t at = 0;

        lane = lanes_at(head, i);
        while (at < n && b->next[at] != lane)
            at++;
        if (at == n)
            drop_rows(lane, x);
    }
    for (size_t i = 0; i < n && rc == 0; i++)
        if (!b->next[i]) {
            lane = free_lane(head, b->next, n);
            rc = fork_lane(lane, b->running[b->search.next[i].parent], x);
            b->next[i] = lane;
        }
    memcpy((void *)b->running, (const void *)b->next, n * sizeof(struct seq *));
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = extend(b->running[i], &b->search.next[i]);
    return rc;
}

/* ---- ends ---- */

/* Returns true if the token ID after the hypothesis of LANE completes a stop string. */
static bool completes_stop(struct seq_beams *b, struct seq *lane, int32_t id)
{
    struct err e = {0};

    stop_copy(&b->stop, &lane->stop);
    stop_token(&b->stop, id, seq_n_output(lane) + 1);
    buf_clear(&lane->piece);
    buf_clear(&b->text);
    return tok_stream_copy(b->detok, lane->detok, &e) == 0 &&
           tok_stream_put(b->detok, id, &lane->piece, &e) == 0 &&
           stop_text(&b->stop, lane->piece.data ? lane->piece.data : "", lane->piece.len, &b->text);
}

/* Returns true if the token ID ends the output of LANE by being an end token or a stop token, or by completing a stop
 * string. */
static bool ends_with(struct seq_beams *b, struct seq *lane, int32_t id)
{
    struct stop st = lane->stop;
    enum stop_why why = stop_token(&st, id, seq_n_output(lane) + 1);

    return why == STOP_EOS || why == STOP_TOKEN || (b->detok && completes_stop(b, lane, id));
}

bool lanes_step(struct seq *head, const struct executor *x)
{
    struct seq_beams *b = head->beams;
    struct beam_list list[BEAM_MOST];
    struct beam_text text[BEAM_MOST];

    for (size_t i = 0; i < b->search.n_running; i++) {
        struct seq *lane = b->running[i];

        list[i] = lane->list;
        lane->list = (struct beam_list){0};
        text[i] = (struct beam_text){
            .token = lane->token + lane->n_prompt, .logprob = lane->logprob, .n = seq_n_output(lane)};
    }
    beam_rank(&b->search, list);
    for (size_t i = 0; i < b->search.n_next; i++) {
        struct beam_next *c = &b->search.next[i];

        c->ends = ends_with(b, b->running[c->parent], c->id);
    }
    if ((b->has_ended = beam_step(&b->search, text)))
        return true;
    if (rearrange(head, x) != 0)
        head->fault = (struct err){.code = ERR_NOMEM, .msg = "out of memory: the text of a beam"};
    return head->fault.code != 0;
}

/* Copies the finished hypotheses to the lanes that are results of the request. */
static void finish(struct seq *head)
{
    const struct seq_common *c = head->common;
    const struct beam_search *search = &head->beams->search;

    for (size_t i = 0; i < c->n_results; i++) {
        const struct beam_finished *f = &search->finished[i];
        struct seq *s = c->lane[i];

        if (i >= search->n_finished) {
            s->forbids_all = seq_forbids(s);
            err_set(&s->fault, ERR_NOSPACE, "there are only %zu outputs that the request does not exclude",
                    search->n_finished);
            continue;
        }
        memcpy(s->token + s->n_prompt, f->text.token, f->text.n * sizeof(*s->token));
        memcpy(s->logprob, f->text.logprob, f->text.n * sizeof(*s->logprob));
        s->n_known = s->n_prompt + f->text.n;
        s->score = (double)f->score;
        s->sum_logprob = (double)f->sum;
        s->has_score = true;
    }
}

void lanes_end(struct seq *head)
{
    const struct seq_common *c = head->common;

    if (head->beams && head->beams->has_ended && head->fault.code == 0)
        finish(head);
    for (size_t i = 0; i < c->rules.width; i++) {
        struct seq *s = c->lane[i];
        struct err e = {0};

        if (!s->has_score)
            s->n_known = s->n_prompt;
        if (s->ready && s->stop.limit) {
            stop_reset(&s->stop);
            buf_clear(&s->piece);
            if (s->detok) /* back to the state before the first token */
                tok_stream_end(s->detok, &s->piece, &e);
        }
        if (s == head)
            continue;
        s->state = head->state;
        if (s->fault.code == 0) {
            s->fault = head->fault;
            s->forbids_all = head->forbids_all;
        }
        if (!s->stop.limit)
            s->stop.why = head->stop.why;
        s->overdue = head->overdue;
        s->t_first = head->t_first;
        s->t_token = head->t_token;
        s->t_last = head->t_last;
    }
}
