/* runner.c - the thread of an engine, and the answers that it collects (runner.h).
 *
 * One mutex of the runner protects the collected output, the lists and the flags. The thread holds it while it copies
 * the events of a step, which takes microseconds, and never while it computes. A request is freed by whoever is last:
 * the caller (runner_release) or the thread, after the FINISHED events of all answers. */
#include "runner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/threads/thread.h"
#include "engine/engine.h"
#include "engine/engine_thread.h"

/* The values are those of runner_opened(). */
enum runner_state { RUNNER_FAILED = -1, RUNNER_OPENING, RUNNER_OPEN };

struct runner {
    struct thread thread;
    struct engine_thread engine; /* its pointer is valid while the runner is open and not closing */
    struct gallop_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the state or the number of guests has changed */
    enum runner_state state;
    int code; /* of a failed opening */
    char err[GALLOP_ERR_SIZE];
    atomic_bool closing;
    bool closed;
    bool cancels_again; /* the engine had no room for a cancellation */
    int guests;         /* threads that use the engine between runner_enter() and runner_leave() */
    size_t users;       /* the caller until runner_free(), each request, and each unreleased channel */
    struct runner_request *running; /* list of unfinished requests */
    struct runner_request *touched; /* list of requests that gained output in this step */
};

struct part {
    struct runner_output out;
    size_t cap_ids, cap_tokens, cap_text, cap_special, cap_top;
};

struct answer {
    struct part fresh, taken;
    bool finished;
    struct gallop_event end; /* its strings are in the arena of the request */
};

struct runner_channel {
    struct runner *runner;
    int fd;
    bool closed, released;
    size_t n_requests; /* requests that report here */
    struct runner_request *ready, **ready_end;
};

struct runner_request {
    struct runner *runner;
    struct runner_request *previous, *next, *next_touched, *next_ready;
    struct runner_channel *channel;
    uint64_t key, id;
    bool streams, news, running, cancelled, is_touched, is_ready, released, lost;
    pthread_cond_t changed;
    struct arena arena; /* of the ends of the answers and the pooled hidden state */
    struct part prompt;
    float *pooled;
    unsigned n_answers, n_finished;
    struct answer answer[];
};

/* ---- parts ---- */

static void free_part(struct part *p)
{
    mem_free(p->out.ids);
    mem_free(p->out.tokens);
    mem_free(p->out.text);
    mem_free(p->out.special);
    mem_free(p->out.top);
}

static bool add_token(struct part *p, const struct gallop_event *ev)
{
    struct runner_output *o = &p->out;

    if (!mem_grow((void **)&o->ids, &p->cap_ids, o->n_tokens + 1, sizeof(*o->ids), MEM_APP) ||
        !mem_grow((void **)&o->tokens, &p->cap_tokens, o->n_tokens + 1, sizeof(*o->tokens), MEM_APP) ||
        !mem_grow((void **)&o->top, &p->cap_top, o->n_top + ev->n_top, sizeof(*o->top), MEM_APP))
        return false;
    if (ev->n_top)
        memcpy(o->top + o->n_top, ev->top, ev->n_top * sizeof(*o->top));
    o->n_top += ev->n_top;
    o->ids[o->n_tokens] = ev->token;
    o->tokens[o->n_tokens++] = (struct runner_token){
        .logprob = ev->logprob, .rank = ev->rank, .text_end = o->text_len, .top_end = o->n_top};
    return true;
}

static bool add_text(struct part *p, const struct gallop_event *ev)
{
    struct runner_output *o = &p->out;
    size_t n = o->text_len + ev->text_len;

    if (!mem_grow((void **)&o->text, &p->cap_text, n, 1, MEM_APP) ||
        !mem_grow((void **)&o->special, &p->cap_special, n, 1, MEM_APP))
        return false;
    memcpy(o->text + o->text_len, ev->text, ev->text_len);
    memcpy(o->special + o->text_len, ev->special, ev->text_len);
    o->text_len = n;
    if (o->n_tokens)
        o->tokens[o->n_tokens - 1].text_end = n;
    return true;
}

/* ---- the end of requests ---- */

static void free_runner(struct runner *r)
{
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
}

/* Unlocks R, and frees it if it has no user left. */
static void unlock(struct runner *r)
{
    bool last = r->users == 0;

    pthread_mutex_unlock(&r->lock);
    if (last)
        free_runner(r);
}

static void leave_channel(struct runner_request *q)
{
    struct runner_channel *ch = q->channel;

    if (!ch)
        return;
    if (q->is_ready) {
        struct runner_request **at = &ch->ready;

        while (*at != q)
            at = &(*at)->next_ready;
        *at = q->next_ready;
        if (!*at)
            ch->ready_end = at;
    }
    q->channel = NULL;
    if (--ch->n_requests == 0 && ch->released)
        mem_free(ch);
}

/* Frees Q, which is in no list of its runner. The caller holds the lock. */
static void free_request(struct runner_request *q)
{
    leave_channel(q);
    for (unsigned i = 0; i < q->n_answers; i++) {
        free_part(&q->answer[i].fresh);
        free_part(&q->answer[i].taken);
    }
    free_part(&q->prompt);
    arena_fini(&q->arena);
    pthread_cond_destroy(&q->changed);
    q->runner->users--;
    mem_free(q);
}

static void link_request(struct runner *r, struct runner_request *q)
{
    q->running = true;
    q->next = r->running;
    if (q->next)
        q->next->previous = q;
    r->running = q;
}

static void unlink_request(struct runner *r, struct runner_request *q)
{
    q->running = false;
    if (q->next)
        q->next->previous = q->previous;
    if (q->previous)
        q->previous->next = q->next;
    else
        r->running = q->next;
}

/* Cancels Q in the engine, if it runs there. The engine accepts a limited number of cancellations before a step; the
 * thread tries again after it. */
static void cancel(struct runner *r, struct runner_request *q)
{
    q->cancelled = true;
    if (q->running && gallop_cancel(r->engine.g, q->id) != 0)
        r->cancels_again = true;
}

/* Reports the news of Q, or frees it if the caller has released it. */
static void wake(struct runner_request *q)
{
    struct runner_channel *ch = q->channel;

    if (q->released) {
        if (!q->running)
            free_request(q);
        return;
    }
    if (!q->streams && q->running)
        return;
    q->news = true;
    if (!ch) {
        pthread_cond_signal(&q->changed);
    } else if (!ch->closed && !q->is_ready) {
        q->is_ready = true;
        q->next_ready = NULL;
        if (!ch->ready)
            eventfd_write(ch->fd, 1); /* cannot fail: the counter is far from its limit */
        *ch->ready_end = q;
        ch->ready_end = &q->next_ready;
    }
}

/* ---- events ---- */

/* Returns a copy of S, which may be NULL, in memory of Q. If there is none, the output of Q is lost. */
static const char *copy(struct runner_request *q, const char *s)
{
    const char *out = s ? arena_strndup(&q->arena, s, strlen(s)) : NULL;

    q->lost |= s && !out;
    return out;
}

/* Ends answer A of Q with event EV. An answer whose output was lost ends with an error. */
static void finish(struct runner *r, struct runner_request *q, struct answer *a,
                   const struct gallop_event *ev)
{
    const char **warnings =
        ev->n_warnings ? arena_zalloc(&q->arena, ev->n_warnings, sizeof(*warnings)) : NULL;

    a->finished = true;
    a->end = *ev;
    a->end.stop_string = copy(q, ev->stop_string);
    a->end.error = copy(q, ev->error);
    q->lost |= ev->n_warnings && !warnings;
    for (size_t i = 0; i < ev->n_warnings && !q->lost; i++)
        warnings[i] = copy(q, ev->warnings[i]);
    a->end.warnings = warnings;
    if (q->lost) {
        a->end.finish = GALLOP_FINISH_ERROR;
        a->end.n_warnings = 0;
    }
    if (++q->n_finished == q->n_answers)
        unlink_request(r, q);
}

static bool add_pooled(struct runner_request *q, const struct gallop_event *ev)
{
    size_t n_bytes = ev->n_embedding * sizeof(*q->pooled);

    q->pooled = arena_alloc(&q->arena, n_bytes);
    if (q->pooled)
        memcpy(q->pooled, ev->embedding, n_bytes);
    return q->pooled != NULL;
}

static void note(struct runner *r, const struct gallop_event *ev)
{
    struct runner_request *q = ev->user;
    struct answer *a = &q->answer[ev->choice];
    bool kept = true;

    if (!q->is_touched) {
        q->is_touched = true;
        q->next_touched = r->touched;
        r->touched = q;
    }
    if (ev->type == GALLOP_FINISHED)
        finish(r, q, a, ev);
    else if (q->lost || q->released)
        return;
    else if (ev->type == GALLOP_TOKEN)
        kept = add_token(&a->fresh, ev);
    else if (ev->type == GALLOP_TEXT)
        kept = add_text(&a->fresh, ev);
    else if (ev->type == GALLOP_PROMPT_TOKEN)
        kept = add_token(&q->prompt, ev);
    else if (ev->type == GALLOP_EMBEDDING)
        kept = add_pooled(q, ev);
    if (!kept) {
        q->lost = true;
        q->id = ev->request; /* runner_submit() may not have set it yet */
        cancel(r, q);
    }
}

static void wake_touched(struct runner *r)
{
    while (r->touched) {
        struct runner_request *q = r->touched;

        r->touched = q->next_touched;
        q->is_touched = false;
        wake(q);
    }
}

/* ---- the thread ---- */

static bool begin(void *ctx)
{
    return !atomic_load(&((struct runner *)ctx)->closing);
}

/* Collects the events of a step. */
static void collect(void *ctx)
{
    struct runner *r = ctx;
    struct gallop_event ev;
    bool again;

    pthread_mutex_lock(&r->lock);
    while (gallop_take(r->engine.g, &ev))
        note(r, &ev);
    wake_touched(r);
    again = r->cancels_again;
    r->cancels_again = false;
    for (struct runner_request *q = r->running; q && again; q = q->next)
        if (q->cancelled)
            cancel(r, q);
    pthread_mutex_unlock(&r->lock);
}

/* Cancels all requests after no other thread uses the engine any more, and closes it. */
static void end(struct runner *r)
{
    pthread_mutex_lock(&r->lock);
    while (r->guests > 0)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    while (r->running) { /* which only this thread changes now */
        gallop_cancel(r->engine.g, 0);
        gallop_step(r->engine.g, 0);
        collect(r);
    }
    gallop_close(r->engine.g);
}

static void *run(void *arg)
{
    struct runner *r = arg;
    char err[GALLOP_ERR_SIZE] = "";
    int code = gallop_open(&r->engine.g, &r->options, err);

    pthread_mutex_lock(&r->lock);
    r->code = code;
    memcpy(r->err, err, sizeof(err));
    r->state = code ? RUNNER_FAILED : RUNNER_OPEN;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (code)
        return NULL;
    engine_thread_run(&r->engine);
    end(r);
    return NULL;
}

/* ---- runners ---- */

/* Waits for COND until the time UNTIL_S of clock_seconds(). Returns false if this time has come. */
static bool wait_until(struct runner *r, pthread_cond_t *cond, double until_s)
{
    struct timespec until = clock_at(until_s);

    return pthread_cond_clockwait(cond, &r->lock, CLOCK_MONOTONIC, &until) == 0;
}

void runner_new(const struct gallop_options *o, struct runner *share, struct runner **out)
{
    struct runner *r = mem_zalloc(1, sizeof(*r), MEM_APP);

    if (!r)
        return;
    r->options = *o;
    if (share)
        r->options.share_pool = share->engine.g;
    r->engine.begin = begin;
    r->engine.collect = collect;
    r->engine.ctx = r;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->users = 1;
    if (thread_start(&r->thread, run, r) == 0)
        *out = r;
    else
        free_runner(r);
}

int runner_opened(struct runner *r, double seconds, int *code, char *err)
{
    double until_s = clock_seconds() + seconds;
    enum runner_state state;

    pthread_mutex_lock(&r->lock);
    while (r->state == RUNNER_OPENING && wait_until(r, &r->changed, until_s))
        ;
    *code = r->code;
    memcpy(err, r->err, GALLOP_ERR_SIZE);
    state = r->state;
    pthread_mutex_unlock(&r->lock);
    return state;
}

void runner_close(struct runner *r)
{
    bool first;

    pthread_mutex_lock(&r->lock);
    first = !r->closing;
    r->closing = true;
    if (first && r->state == RUNNER_OPEN)
        engine_wake(r->engine.g);
    pthread_cond_broadcast(&r->changed);
    while (!first && !r->closed)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    if (!first)
        return;
    thread_join(&r->thread);
    pthread_mutex_lock(&r->lock);
    r->closed = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

void runner_free(struct runner *r)
{
    if (!r)
        return;
    runner_close(r);
    pthread_mutex_lock(&r->lock);
    r->users--;
    unlock(r);
}

void runner_enter(struct runner *r, struct gallop **engine)
{
    pthread_mutex_lock(&r->lock);
    *engine = !r->closing && r->state == RUNNER_OPEN ? r->engine.g : NULL;
    r->guests += *engine != NULL;
    pthread_mutex_unlock(&r->lock);
}

void runner_leave(struct runner *r, struct gallop **engine)
{
    pthread_mutex_lock(&r->lock);
    if (*engine && --r->guests == 0)
        pthread_cond_broadcast(&r->changed);
    *engine = NULL;
    pthread_mutex_unlock(&r->lock);
}

/* ---- requests ---- */

static struct runner_request *new_request(struct runner *r, const struct gallop_request *request)
{
    unsigned n = request->n > 1 && request->n <= 128 ? (unsigned)request->n : 1;
    struct runner_request *q = mem_zalloc(1, sizeof(*q) + n * sizeof(q->answer[0]), MEM_APP);

    if (!q)
        return NULL;
    q->runner = r;
    q->n_answers = n;
    arena_init(&q->arena, MEM_APP);
    pthread_cond_init(&q->changed, NULL);
    return q;
}

static int refuse(char *err, int code, const char *sentence)
{
    snprintf(err, GALLOP_ERR_SIZE, "%s", sentence);
    return code;
}

int runner_submit(struct runner *r, const struct gallop_request *request, int streams,
                  struct runner_channel *channel, uint64_t key, struct runner_request **out, char *err)
{
    struct gallop_request mine = *request;
    struct gallop *engine;
    struct runner_request *q;
    uint64_t id = 0;
    int code;

    runner_enter(r, &engine);
    if (!engine)
        return refuse(err, GALLOP_CANCELLED, "the engine is closed");
    q = new_request(r, request);
    if (!q) {
        runner_leave(r, &engine);
        return refuse(err, GALLOP_NO_MEMORY, "out of memory: a request");
    }
    mine.user = q;
    q->streams = streams;
    q->channel = channel;
    q->key = key;
    pthread_mutex_lock(&r->lock);
    r->users++;
    if (channel)
        channel->n_requests++;
    link_request(r, q);
    pthread_mutex_unlock(&r->lock);
    code = gallop_submit(engine, &mine, &id, err);
    pthread_mutex_lock(&r->lock);
    q->id = id;
    if (code) {
        unlink_request(r, q);
        free_request(q);
    } else {
        *out = q;
    }
    pthread_mutex_unlock(&r->lock);
    runner_leave(r, &engine);
    return code;
}

int runner_wait(struct runner_request *q, double seconds)
{
    struct runner *r = q->runner;
    double until_s = clock_seconds() + seconds;
    int news;

    pthread_mutex_lock(&r->lock);
    while (!q->news && wait_until(r, &q->changed, until_s))
        ;
    news = q->news;
    q->news = false;
    pthread_mutex_unlock(&r->lock);
    return news;
}

const struct gallop_event *runner_take(struct runner_request *q, unsigned i, struct runner_output *out)
{
    struct answer *a = &q->answer[i];
    struct part empty = a->taken;
    const struct gallop_event *event;

    empty.out.n_tokens = empty.out.text_len = empty.out.n_top = 0;
    pthread_mutex_lock(&q->runner->lock);
    a->taken = a->fresh;
    a->fresh = empty;
    event = a->finished ? &a->end : NULL;
    pthread_mutex_unlock(&q->runner->lock);
    *out = a->taken.out;
    return event;
}

void runner_prompt(struct runner_request *q, struct runner_output *out)
{
    pthread_mutex_lock(&q->runner->lock);
    *out = q->prompt.out;
    pthread_mutex_unlock(&q->runner->lock);
}

const float *runner_pooled(const struct runner_request *q)
{
    return q->pooled;
}

void runner_cancel(struct runner_request *q)
{
    struct runner *r = q->runner;

    pthread_mutex_lock(&r->lock);
    cancel(r, q);
    pthread_mutex_unlock(&r->lock);
}

void runner_release(struct runner_request *q)
{
    struct runner *r;

    if (!q)
        return;
    r = q->runner;
    pthread_mutex_lock(&r->lock);
    if (q->running) {
        q->released = true;
        cancel(r, q);
    } else {
        free_request(q);
    }
    unlock(r);
}

/* ---- channels ---- */

void runner_channel_new(struct runner *r, struct runner_channel **channel)
{
    struct runner_channel *ch = mem_zalloc(1, sizeof(*ch), MEM_APP);

    if (!ch)
        return;
    ch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ch->fd < 0) {
        mem_free(ch);
        return;
    }
    ch->runner = r;
    ch->ready_end = &ch->ready;
    pthread_mutex_lock(&r->lock);
    r->users++;
    pthread_mutex_unlock(&r->lock);
    *channel = ch;
}

int runner_channel_fd(const struct runner_channel *channel)
{
    return channel->fd;
}

size_t runner_channel_take(struct runner_channel *channel, uint64_t *keys, size_t n)
{
    size_t taken = 0;
    eventfd_t count;

    pthread_mutex_lock(&channel->runner->lock);
    while (taken < n && channel->ready) {
        struct runner_request *q = channel->ready;

        channel->ready = q->next_ready;
        q->is_ready = q->news = false;
        keys[taken++] = q->key;
    }
    if (!channel->ready) {
        channel->ready_end = &channel->ready;
        if (!channel->closed)
            eventfd_read(channel->fd, &count); /* fails if the counter was 0 already */
    }
    pthread_mutex_unlock(&channel->runner->lock);
    return taken;
}

/* Closes the file descriptor of CH, once. The caller holds the lock. */
static void close_channel(struct runner_channel *ch)
{
    if (!ch->closed)
        close(ch->fd);
    ch->closed = true;
}

void runner_channel_close(struct runner_channel *channel)
{
    pthread_mutex_lock(&channel->runner->lock);
    close_channel(channel);
    pthread_mutex_unlock(&channel->runner->lock);
}

void runner_channel_free(struct runner_channel *channel)
{
    struct runner *r;

    if (!channel)
        return;
    r = channel->runner;
    pthread_mutex_lock(&r->lock);
    close_channel(channel);
    channel->released = true;
    r->users--;
    if (channel->n_requests == 0)
        mem_free(channel);
    unlock(r);
}

void runner_fail_at(long n)
{
    mem_fail_at(n);
}
