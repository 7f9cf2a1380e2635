/* event_ring.c - callbacks that the engine's thread calls before and after each step, and the ring buffer
 * that passes batches of events to the server's thread. */
#include "api/event_ring.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "base/threads/topo.h"
#include "engine/engine.h"

#define YIELD_S 0.005 /* seconds: maximum wait until a step's tokens are written to sockets */

/* Grows B for EV and N more bytes of text. Returns false if memory runs out. */
static bool event_ring_has_room(struct event_ring_batch *b, const struct gallop_event *ev, size_t n)
{
    return mem_grow((void **)&b->event, &b->cap, b->n + 1, sizeof(*b->event), MEM_API) &&
           mem_grow((void **)&b->top, &b->cap_top, b->n_top + ev->n_top, sizeof(*b->top), MEM_API) &&
           mem_grow((void **)&b->warning, &b->cap_warnings, b->n_warnings + ev->n_warnings,
                    sizeof(*b->warning), MEM_API) &&
           mem_grow((void **)&b->text, &b->cap_text, b->n_text + n, 1, MEM_API);
}

/* Returns the total bytes of EV's warnings, each with its terminating zero. */
static size_t warnings_bytes(const struct gallop_event *ev)
{
    size_t n = 0;

    for (size_t i = 0; i < ev->n_warnings; i++)
        n += strlen(ev->warnings[i]) + 1;
    return n;
}

static void put_text(struct event_ring_batch *b, const char *text, size_t n)
{
    if (n)
        memcpy(b->text + b->n_text, text, n);
    b->n_text += n;
}

/* Copies EV into the batch. If memory runs out, the event is passed to the callback r->lost and dropped; a
 * GALLOP_FINISHED event is retried until it is copied. */
static void put_event(struct event_ring *r, struct event_ring_batch *b, const struct gallop_event *ev)
{
    const char *text = ev->type == GALLOP_TEXT        ? ev->text
                       : ev->type == GALLOP_EMBEDDING ? (const char *)ev->embedding
                       : ev->error                    ? ev->error
                                                      : ev->stop_string;
    size_t n = ev->type == GALLOP_TEXT        ? ev->text_len
               : ev->type == GALLOP_EMBEDDING ? ev->n_embedding * sizeof(*ev->embedding)
               : text                         ? strlen(text) + 1
                                              : 0;
    size_t n_special = ev->type == GALLOP_TEXT ? n : 0;
    struct event_ring_event *out;

    while (!event_ring_has_room(b, ev, n + n_special + warnings_bytes(ev))) {
        if (ev->type != GALLOP_FINISHED) {
            r->lost(ev);
            return;
        }
        usleep(1000); /* retry: without its FINISHED event the request would never end */
    }
    out = &b->event[b->n++];
    *out =
        (struct event_ring_event){.ev = *ev, .top = b->n_top, .text = b->n_text, .warnings = b->n_warnings};
    out->ev.text_len = n;
    if (ev->n_top)
        memcpy(b->top + b->n_top, ev->top, ev->n_top * sizeof(*b->top));
    b->n_top += ev->n_top;
    b->n_warnings += ev->n_warnings;
    put_text(b, text, n);
    put_text(b, ev->special, n_special);
    for (size_t i = 0; i < ev->n_warnings; i++)
        put_text(b, ev->warnings[i], strlen(ev->warnings[i]) + 1);
}

/* Waits for a free batch, into which the events of the next step will be copied. Returns false if the thread
 * has to stop. */
static bool event_ring_begin(void *ctx)
{
    struct event_ring *r = ctx;
    struct event_ring_batch *b;
    bool stops;

    pthread_mutex_lock(&r->lock);
    while (r->n_put - r->n_taken == EVENT_RING_BATCHES && !r->stops)
        pthread_cond_wait(&r->room, &r->lock);
    stops = r->stops;
    b = &r->batch[r->n_put % EVENT_RING_BATCHES];
    pthread_mutex_unlock(&r->lock);
    if (!stops)
        b->n = b->n_top = b->n_warnings = b->n_text = 0;
    return !stops;
}

/* Blocks until every batch is written to sockets, but at most for YIELD_S, so that the server's thread can
 * run on this processor. */
static void yield_processor(struct event_ring *r)
{
    struct timespec until = clock_at(clock_seconds() + YIELD_S);

    pthread_mutex_lock(&r->lock);
    while (r->n_written != r->n_put && !r->stops &&
           pthread_cond_clockwait(&r->room, &r->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    pthread_mutex_unlock(&r->lock);
}

/* Puts the events of a step into the ring. */
static void collect(void *ctx)
{
    struct event_ring *r = ctx;
    struct event_ring_batch *b = &r->batch[r->n_put % EVENT_RING_BATCHES];
    struct gallop_event ev;

    b->now_s = clock_seconds();
    while (gallop_take(r->engine.g, &ev))
        put_event(r, b, &ev);
    gallop_stats(r->engine.g, &b->stats);
    pthread_mutex_lock(&r->lock);
    r->n_put++;
    pthread_mutex_unlock(&r->lock);
    r->wake(r->ctx);
    if (r->yields && b->n)
        yield_processor(r);
}

static void *event_ring_run(void *ctx)
{
    engine_thread_run(&((struct event_ring *)ctx)->engine);
    return NULL;
}

int event_ring_open(struct event_ring *r, struct gallop *g, void (*lost)(const struct gallop_event *ev),
                    void (*wake)(void *ctx), void *ctx, struct err *e)
{
    struct topo topo;
    int rc;

    if ((rc = topo_open(&topo, e)) != 0)
        return rc;
    *r = (struct event_ring){.engine = {.g = g, .begin = event_ring_begin, .collect = collect, .ctx = r},
                             .lost = lost,
                             .wake = wake,
                             .ctx = ctx};
    r->yields = engine_info(g)->model->threads >= topo.n_cpus;
    topo_close(&topo);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->room, NULL);
    rc = thread_start(&r->thread, event_ring_run, r);
    r->runs = rc == 0;
    if (r->runs)
        pthread_setname_np(r->thread.id, "engine");
    return rc ? err_set(e, ERR_OS, "no thread can be started for the engine: %s", strerror(rc)) : 0;
}

void event_ring_close(struct event_ring *r)
{
    if (!r->engine.g)
        return;
    pthread_mutex_lock(&r->lock);
    r->stops = true;
    pthread_cond_signal(&r->room);
    pthread_mutex_unlock(&r->lock);
    engine_wake(r->engine.g);
    if (r->runs)
        thread_join(&r->thread);
    for (int i = 0; i < EVENT_RING_BATCHES; i++) {
        mem_free(r->batch[i].event);
        mem_free(r->batch[i].top);
        mem_free((void *)r->batch[i].warning);
        mem_free(r->batch[i].text);
    }
    pthread_cond_destroy(&r->room);
    pthread_mutex_destroy(&r->lock);
    *r = (struct event_ring){.runs = false};
}

const struct event_ring_batch *event_ring_take(struct event_ring *r)
{
    const struct event_ring_batch *b;

    pthread_mutex_lock(&r->lock);
    b = r->n_put == r->n_taken ? NULL : &r->batch[r->n_taken % EVENT_RING_BATCHES];
    pthread_mutex_unlock(&r->lock);
    return b;
}

void event_ring_point(const struct event_ring_batch *b, const struct event_ring_event *from,
                      struct gallop_event *ev)
{
    const char *text = b->text + from->text, *warning = text + from->ev.text_len;

    *ev = from->ev;
    ev->top = b->top + from->top;
    ev->warnings = b->warning + from->warnings;
    for (size_t i = 0; i < ev->n_warnings; i++) {
        b->warning[from->warnings + i] = warning;
        warning += strlen(warning) + 1;
    }
    if (ev->type == GALLOP_TEXT) {
        ev->text = text;
        ev->special = text + ev->text_len;
    } else if (ev->type == GALLOP_EMBEDDING) {
        ev->embedding = (const float *)(const void *)text;
    } else if (ev->error) {
        ev->error = text;
    } else if (ev->stop_string) {
        ev->stop_string = text;
    }
}

void event_ring_give_back(struct event_ring *r)
{
    pthread_mutex_lock(&r->lock);
    r->n_taken++;
    pthread_cond_signal(&r->room);
    pthread_mutex_unlock(&r->lock);
}

void event_ring_written(struct event_ring *r)
{
    pthread_mutex_lock(&r->lock);
    r->n_written = r->n_taken;
    pthread_cond_signal(&r->room);
    pthread_mutex_unlock(&r->lock);
}
