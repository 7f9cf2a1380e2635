/* runner.c - the thread of an engine, and the answers that it collects (runner.h).
 *
 * One mutex of the runner protects the collected output, the lists and the flags. The thread holds it while it copies
 * the events of a step, which takes microseconds, and never while it computes. A call is freed by whoever is last:
 * the caller (runner_release) or the thread, after the FINISHED events of all answers. */
#include "runner.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum { STACK_BYTES = 8 << 20, IDLE_MS = 50, NAP_NS = 500000 };

/* Engines that share compute threads take turns, in the order in which they ask. */
struct turns {
    pthread_mutex_t lock;
    pthread_cond_t next;
    uint64_t asked, served;
    int users; /* number of runners */
};

enum runner_state { RUNNER_OPENING, RUNNER_OPEN, RUNNER_FAILED };

struct runner {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;    /* there is a call, a question or the end for the thread */
    pthread_cond_t changed; /* the state, the number of guests or the statistics have changed */
    struct gallop *engine;
    struct gallop_options options;
    struct turns *turns;
    enum runner_state state;
    bool closing, closed;
    int code; /* of a failed opening */
    char err[GALLOP_ERR_SIZE];
    int guests;   /* threads that use `engine` between runner_enter() and runner_leave() */
    size_t users; /* 1 for the caller until runner_free(), and 1 for each call and each unreleased channel */
    struct gallop_stats *stats;  /* where the thread writes statistics; NULL: nobody waits for them */
    struct runner_call *calls;   /* list of unfinished calls */
    struct runner_call *cancels; /* list of calls whose cancellation the engine does not know yet */
    struct runner_call *touched; /* list of calls that gained output in this step */
};

struct part {
    int32_t *id;                /* [n_tokens] */
    struct runner_token *token; /* [n_tokens] */
    char *text, *special;       /* [n_text] */
    struct gallop_logprob *top;
    size_t n_tokens, n_text, n_top, cap_ids, cap_tokens, cap_text, cap_special, cap_top;
};

struct answer {
    struct part fresh, taken;
    bool finished;
    struct gallop_event end; /* its strings are owned */
};

struct runner_channel {
    struct runner *runner;
    int fd;
    bool closed, released;
    size_t calls; /* number of calls that report here */
    struct runner_call *ready, **ready_end;
};

struct runner_call {
    struct runner *runner;
    struct runner_call *previous, *next, *next_cancel, *next_touched, *next_ready;
    struct runner_channel *channel;
    uint64_t key, id;
    bool streams, news, running, cancelling, is_touched, is_ready, released, lost;
    pthread_cond_t changed;
    struct part prompt;
    float *pooled;
    unsigned n_answers, n_finished;
    struct answer answer[];
};

/* ---- parts ---- */

static void free_part(struct part *p)
{
    mem_free(p->id);
    mem_free(p->token);
    mem_free(p->text);
    mem_free(p->special);
    mem_free(p->top);
    *p = (struct part){0};
}

static bool add_token(struct part *p, const struct gallop_event *ev)
{
    if (!mem_grow((void **)&p->id, &p->cap_ids, p->n_tokens + 1, sizeof(*p->id), MEM_APP) ||
        !mem_grow((void **)&p->token, &p->cap_tokens, p->n_tokens + 1, sizeof(*p->token), MEM_APP) ||
        !mem_grow((void **)&p->top, &p->cap_top, p->n_top + ev->n_top, sizeof(*p->top), MEM_APP))
        return false;
    if (ev->n_top)
        memcpy(p->top + p->n_top, ev->top, ev->n_top * sizeof(*p->top));
    p->n_top += ev->n_top;
    p->id[p->n_tokens] = ev->token;
    p->token[p->n_tokens++] = (struct runner_token){
        .logprob = ev->logprob, .rank = ev->rank, .text_end = p->n_text, .top_end = p->n_top};
    return true;
}

static bool add_text(struct part *p, const char *text, const char *special, size_t n)
{
    if (!mem_grow((void **)&p->text, &p->cap_text, p->n_text + n, 1, MEM_APP) ||
        !mem_grow((void **)&p->special, &p->cap_special, p->n_text + n, 1, MEM_APP))
        return false;
    memcpy(p->text + p->n_text, text, n);
    memcpy(p->special + p->n_text, special, n);
    p->n_text += n;
    if (p->n_tokens)
        p->token[p->n_tokens - 1].text_end = p->n_text;
    return true;
}

static struct runner_output output_of(const struct part *p)
{
    return (struct runner_output){.ids = p->id,
                                  .tokens = p->token,
                                  .n_tokens = p->n_tokens,
                                  .text = p->text,
                                  .special = p->special,
                                  .text_len = p->n_text,
                                  .top = p->top,
                                  .n_top = p->n_top};
}

/* ---- the end of calls ---- */

static void free_runner(struct runner *r)
{
    int users;

    pthread_mutex_lock(&r->turns->lock);
    users = --r->turns->users;
    pthread_mutex_unlock(&r->turns->lock);
    if (users == 0) {
        pthread_mutex_destroy(&r->turns->lock);
        pthread_cond_destroy(&r->turns->next);
        mem_free(r->turns);
    }
    pthread_cond_destroy(&r->work);
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

static void leave_channel(struct runner_call *c)
{
    struct runner_channel *ch = c->channel;

    if (!ch)
        return;
    if (c->is_ready) {
        struct runner_call **at = &ch->ready;

        while (*at != c)
            at = &(*at)->next_ready;
        *at = c->next_ready;
        if (!*at)
            ch->ready_end = at;
    }
    c->channel = NULL;
    if (--ch->calls == 0 && ch->released)
        mem_free(ch);
}

/* Frees C, which is in no list of its runner. The caller holds the lock. */
static void free_call(struct runner_call *c)
{
    leave_channel(c);
    for (unsigned i = 0; i < c->n_answers; i++) {
        struct answer *a = &c->answer[i];

        free_part(&a->fresh);
        free_part(&a->taken);
        mem_free((void *)(uintptr_t)a->end.stop_string);
        mem_free((void *)(uintptr_t)a->end.error);
        for (size_t w = 0; w < a->end.n_warnings; w++)
            mem_free((void *)(uintptr_t)a->end.warnings[w]);
        mem_free((void *)(uintptr_t)a->end.warnings);
    }
    free_part(&c->prompt);
    mem_free(c->pooled);
    pthread_cond_destroy(&c->changed);
    c->runner->users--;
    mem_free(c);
}

static void link_call(struct runner *r, struct runner_call *c)
{
    c->running = true;
    c->next = r->calls;
    if (c->next)
        c->next->previous = c;
    r->calls = c;
}

/* Takes C out of the lists of running and cancelled calls. */
static void unlink_call(struct runner *r, struct runner_call *c)
{
    c->running = false;
    if (c->next)
        c->next->previous = c->previous;
    if (c->previous)
        c->previous->next = c->next;
    else
        r->calls = c->next;
    for (struct runner_call **at = &r->cancels; *at; at = &(*at)->next_cancel)
        if (*at == c) {
            *at = c->next_cancel;
            break;
        }
}

static void want_cancel(struct runner *r, struct runner_call *c)
{
    if (!c->running || c->cancelling)
        return;
    c->cancelling = true;
    c->next_cancel = r->cancels;
    r->cancels = c;
}

/* Reports the news of C, or frees it if the caller has released it. */
static void wake(struct runner_call *c)
{
    struct runner_channel *ch = c->channel;

    if (c->released) {
        if (!c->running)
            free_call(c);
        return;
    }
    if (!c->streams && c->running)
        return;
    c->news = true;
    if (!ch) {
        pthread_cond_signal(&c->changed);
    } else if (!ch->closed && !c->is_ready) {
        uint64_t one = 1;
        ssize_t count = 0;

        c->is_ready = true;
        c->next_ready = NULL;
        if (!ch->ready)
            count = write(ch->fd, &one, sizeof(one)); /* cannot fail: the counter is far from its limit */
        (void)count;
        *ch->ready_end = c;
        ch->ready_end = &c->next_ready;
    }
}

/* ---- events ---- */

static bool copy_end(struct gallop_event *end, const struct gallop_event *ev)
{
    const char **warnings = NULL;

    *end = *ev;
    end->stop_string = ev->stop_string ? mem_strdup(ev->stop_string, MEM_APP) : NULL;
    end->error = ev->error ? mem_strdup(ev->error, MEM_APP) : NULL;
    end->warnings = NULL;
    end->n_warnings = 0;
    if (ev->n_warnings) {
        warnings = mem_zalloc(ev->n_warnings, sizeof(*warnings), MEM_APP);
        end->warnings = warnings;
        while (warnings && end->n_warnings < ev->n_warnings) {
            warnings[end->n_warnings] = mem_strdup(ev->warnings[end->n_warnings], MEM_APP);
            if (!warnings[end->n_warnings])
                break;
            end->n_warnings++;
        }
    }
    return (end->stop_string || !ev->stop_string) && (end->error || !ev->error) &&
           end->n_warnings == ev->n_warnings;
}

static bool add_pooled(struct runner_call *c, const struct gallop_event *ev)
{
    mem_free(c->pooled);
    c->pooled = mem_alloc(ev->n_embedding * sizeof(*c->pooled), MEM_APP);
    if (!c->pooled)
        return false;
    memcpy(c->pooled, ev->embedding, ev->n_embedding * sizeof(*c->pooled));
    return true;
}

/* Ends answer A of C with event EV. An answer whose output was lost ends with an error. */
static void finish(struct runner *r, struct runner_call *c, struct answer *a, const struct gallop_event *ev)
{
    if (a->finished)
        return;
    a->finished = true;
    if (!copy_end(&a->end, ev))
        c->lost = true;
    if (c->lost)
        a->end.finish = GALLOP_FINISH_ERROR;
    if (++c->n_finished == c->n_answers)
        unlink_call(r, c);
}

static void note(struct runner *r, const struct gallop_event *ev)
{
    struct runner_call *c = ev->user;
    struct answer *a = &c->answer[ev->choice];
    bool kept = true;

    if (!c->is_touched) {
        c->is_touched = true;
        c->next_touched = r->touched;
        r->touched = c;
    }
    if (ev->type == GALLOP_FINISHED)
        finish(r, c, a, ev);
    else if (c->lost || c->released)
        return;
    else if (ev->type == GALLOP_TOKEN)
        kept = add_token(&a->fresh, ev);
    else if (ev->type == GALLOP_TEXT)
        kept = add_text(&a->fresh, ev->text, ev->special, ev->text_len);
    else if (ev->type == GALLOP_PROMPT_TOKEN)
        kept = add_token(&c->prompt, ev);
    else if (ev->type == GALLOP_EMBEDDING)
        kept = add_pooled(c, ev);
    if (!kept) {
        c->lost = true;
        want_cancel(r, c);
    }
}

static void wake_touched(struct runner *r)
{
    while (r->touched) {
        struct runner_call *c = r->touched;

        r->touched = c->next_touched;
        c->is_touched = false;
        wake(c);
    }
}

/* ---- the thread ---- */

/* Returns true if no other engine shares the threads. */
static bool begin_turn(struct turns *t)
{
    uint64_t mine;
    bool alone;

    pthread_mutex_lock(&t->lock);
    mine = t->asked++;
    while (t->served != mine)
        pthread_cond_wait(&t->next, &t->lock);
    alone = t->users == 1;
    pthread_mutex_unlock(&t->lock);
    return alone;
}

static void end_turn(struct turns *t)
{
    pthread_mutex_lock(&t->lock);
    t->served++;
    pthread_cond_broadcast(&t->next);
    pthread_mutex_unlock(&t->lock);
}

/* Waits for work, and does what is not a step. Returns false if the runner is closing. */
static bool prepare(struct runner *r)
{
    bool open;

    pthread_mutex_lock(&r->lock);
    while (!r->closing && (!r->calls || r->stats)) {
        if (!r->stats) {
            pthread_cond_wait(&r->work, &r->lock);
            continue;
        }
        gallop_stats(r->engine, r->stats);
        r->stats = NULL;
        pthread_cond_broadcast(&r->changed);
    }
    /* A call whose submission has not returned has no id yet; its turn comes after the step. */
    while (r->cancels && r->cancels->id && gallop_cancel(r->engine, r->cancels->id) == 0)
        r->cancels = r->cancels->next_cancel;
    open = !r->closing;
    pthread_mutex_unlock(&r->lock);
    return open;
}

/* Computes a step and collects its events. */
static void compute(struct runner *r)
{
    struct gallop_event ev;
    bool alone = begin_turn(r->turns);
    int worked;

    worked = gallop_step(r->engine, alone ? IDLE_MS / 1000.0 : 0);
    end_turn(r->turns);
    pthread_mutex_lock(&r->lock);
    while (gallop_take(r->engine, &ev))
        note(r, &ev);
    wake_touched(r);
    unlock(r);
    if (!worked && !alone)
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

/* Ends all calls, after no thread uses the engine any more, and closes it. */
static void end(struct runner *r)
{
    struct gallop_event ev = {.type = GALLOP_FINISHED, .finish = GALLOP_FINISH_CANCELLED, .stop_token = -1};

    pthread_mutex_lock(&r->lock);
    while (r->guests > 0)
        pthread_cond_wait(&r->changed, &r->lock);
    while (r->calls) {
        struct runner_call *c = r->calls;

        for (ev.choice = 0; ev.choice < c->n_answers; ev.choice++)
            finish(r, c, &c->answer[ev.choice], &ev);
        wake(c);
    }
    pthread_mutex_unlock(&r->lock);
    begin_turn(r->turns);
    gallop_close(r->engine);
    end_turn(r->turns);
}

static void *run(void *arg)
{
    struct runner *r = arg;
    struct gallop *engine = NULL;
    char err[GALLOP_ERR_SIZE] = "";
    int code;

    begin_turn(r->turns);
    code = gallop_open(&engine, &r->options, err);
    end_turn(r->turns);
    pthread_mutex_lock(&r->lock);
    r->engine = engine;
    r->code = code;
    memcpy(r->err, err, sizeof(err));
    r->state = code ? RUNNER_FAILED : RUNNER_OPEN;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (code)
        return NULL;
    while (prepare(r))
        compute(r);
    end(r);
    return NULL;
}

/* Starts the thread with room on its stack and with the signals blocked that belong to the caller's threads. */
static bool start(struct runner *r)
{
    pthread_attr_t attr;
    sigset_t all, before;
    bool ok;

    if (pthread_attr_init(&attr) != 0)
        return false;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ok = pthread_attr_setstacksize(&attr, STACK_BYTES) == 0 && pthread_create(&r->thread, &attr, run, r) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return ok;
}

/* ---- runners ---- */

static void init_condition(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

static struct timespec after(double seconds)
{
    struct timespec t;
    double whole = seconds < 1e9 ? floor(seconds) : 1e9;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)whole;
    t.tv_nsec += seconds < 1e9 ? (long)((seconds - whole) * 1e9) : 0;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static struct turns *new_turns(void)
{
    struct turns *t = mem_zalloc(1, sizeof(*t), MEM_APP);

    if (t) {
        pthread_mutex_init(&t->lock, NULL);
        pthread_cond_init(&t->next, NULL);
    }
    return t;
}

void runner_new(const struct gallop_options *o, struct runner *share, struct runner **out)
{
    struct runner *r = mem_zalloc(1, sizeof(*r), MEM_APP);

    if (!r)
        return;
    r->options = *o;
    r->turns = share ? share->turns : new_turns();
    if (!r->turns) {
        mem_free(r);
        return;
    }
    if (share)
        r->options.share_pool = share->engine;
    pthread_mutex_lock(&r->turns->lock);
    r->turns->users++;
    pthread_mutex_unlock(&r->turns->lock);
    pthread_mutex_init(&r->lock, NULL);
    init_condition(&r->work);
    init_condition(&r->changed);
    r->users = 1;
    if (start(r))
        *out = r;
    else
        free_runner(r);
}

int runner_opened(struct runner *r, double seconds, int *code, char *err)
{
    struct timespec deadline = after(seconds);
    int state;

    pthread_mutex_lock(&r->lock);
    while (r->state == RUNNER_OPENING)
        if (pthread_cond_timedwait(&r->changed, &r->lock, &deadline) == ETIMEDOUT)
            break;
    *code = r->code;
    memcpy(err, r->err, GALLOP_ERR_SIZE);
    state = r->state == RUNNER_OPENING ? 0 : r->state == RUNNER_OPEN ? 1 : -1;
    pthread_mutex_unlock(&r->lock);
    return state;
}

void runner_close(struct runner *r)
{
    bool first;

    pthread_mutex_lock(&r->lock);
    first = !r->closing;
    r->closing = true;
    pthread_cond_broadcast(&r->work);
    pthread_cond_broadcast(&r->changed);
    while (!first && !r->closed)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    if (!first)
        return;
    pthread_join(r->thread, NULL);
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
    *engine = !r->closing && r->state == RUNNER_OPEN ? r->engine : NULL;
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

int runner_stats(struct runner *r, struct gallop_stats *s)
{
    int written;

    pthread_mutex_lock(&r->lock);
    while (r->stats && !r->closing)
        pthread_cond_wait(&r->changed, &r->lock);
    if (!r->closing) {
        r->stats = s;
        pthread_cond_signal(&r->work);
    }
    while (r->stats == s && !r->closing)
        pthread_cond_wait(&r->changed, &r->lock);
    written = r->stats != s && !r->closing;
    if (r->stats == s)
        r->stats = NULL;
    pthread_mutex_unlock(&r->lock);
    return written;
}

/* ---- calls ---- */

static struct runner_call *new_call(struct runner *r, const struct gallop_request *request)
{
    unsigned n = request->n > 1 && request->n <= 128 ? (unsigned)request->n : 1;
    struct runner_call *c = mem_zalloc(1, sizeof(*c) + n * sizeof(c->answer[0]), MEM_APP);

    if (!c)
        return NULL;
    c->runner = r;
    c->n_answers = n;
    init_condition(&c->changed);
    return c;
}

static int refuse(char *err, int code, const char *sentence)
{
    snprintf(err, GALLOP_ERR_SIZE, "%s", sentence);
    return code;
}

int runner_submit(struct runner *r, const struct gallop_request *request, int streams,
                  struct runner_channel *channel, uint64_t key, struct runner_call **call, char *err)
{
    struct gallop_request mine = *request;
    struct gallop *engine;
    struct runner_call *c;
    uint64_t id = 0;
    int code;

    runner_enter(r, &engine);
    if (!engine)
        return refuse(err, GALLOP_CANCELLED, "the engine is closed");
    c = new_call(r, request);
    if (!c) {
        runner_leave(r, &engine);
        return refuse(err, GALLOP_NO_MEMORY, "out of memory: a request");
    }
    mine.user = c;
    c->streams = streams;
    c->channel = channel;
    c->key = key;
    pthread_mutex_lock(&r->lock);
    r->users++;
    if (channel)
        channel->calls++;
    link_call(r, c);
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
    code = gallop_submit(engine, &mine, &id, err);
    pthread_mutex_lock(&r->lock);
    c->id = id;
    if (code) {
        unlink_call(r, c);
        free_call(c);
    } else {
        *call = c;
    }
    pthread_mutex_unlock(&r->lock);
    runner_leave(r, &engine);
    return code;
}

int runner_wait(struct runner_call *c, double seconds)
{
    struct runner *r = c->runner;
    struct timespec deadline = after(seconds);
    int news;

    pthread_mutex_lock(&r->lock);
    while (!c->news)
        if (pthread_cond_timedwait(&c->changed, &r->lock, &deadline) == ETIMEDOUT)
            break;
    news = c->news;
    c->news = false;
    pthread_mutex_unlock(&r->lock);
    return news;
}

const struct gallop_event *runner_take(struct runner_call *c, unsigned i, struct runner_output *out)
{
    struct answer *a = &c->answer[i];
    struct part empty = a->taken;
    const struct gallop_event *event;

    empty.n_tokens = empty.n_text = empty.n_top = 0;
    pthread_mutex_lock(&c->runner->lock);
    a->taken = a->fresh;
    a->fresh = empty;
    event = a->finished ? &a->end : NULL;
    pthread_mutex_unlock(&c->runner->lock);
    *out = output_of(&a->taken);
    return event;
}

void runner_prompt(struct runner_call *c, struct runner_output *out)
{
    pthread_mutex_lock(&c->runner->lock);
    *out = output_of(&c->prompt);
    pthread_mutex_unlock(&c->runner->lock);
}

const float *runner_pooled(const struct runner_call *c)
{
    return c->pooled;
}

void runner_cancel(struct runner_call *c)
{
    struct runner *r = c->runner;

    pthread_mutex_lock(&r->lock);
    want_cancel(r, c);
    pthread_mutex_unlock(&r->lock);
}

void runner_release(struct runner_call *c)
{
    struct runner *r;

    if (!c)
        return;
    r = c->runner;
    pthread_mutex_lock(&r->lock);
    if (c->running) {
        c->released = true;
        want_cancel(r, c);
    } else {
        free_call(c);
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
    uint64_t count;
    ssize_t n_read = 0;

    pthread_mutex_lock(&channel->runner->lock);
    while (taken < n && channel->ready) {
        struct runner_call *c = channel->ready;

        channel->ready = c->next_ready;
        c->is_ready = c->news = false;
        keys[taken++] = c->key;
    }
    if (!channel->ready) {
        channel->ready_end = &channel->ready;
        if (!channel->closed)
            n_read = read(channel->fd, &count, sizeof(count)); /* fails if the counter was 0 already */
    }
    pthread_mutex_unlock(&channel->runner->lock);
    (void)n_read;
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
    if (channel->calls == 0)
        mem_free(channel);
    unlock(r);
}

void runner_fail_at(long n)
{
    mem_fail_at(n);
}
