/* engine_thread.c - the loop of the engine's thread, and the ring of batches to the server's thread. */
#include "api/engine_thread.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "base/threads/topo.h"
#include "engine/engine.h"

#define IDLE_S  0.1   /* seconds: an idle engine checks this often whether to stop */
#define YIELD_S 0.005 /* seconds: maximum wait until a step's tokens are written to sockets */

/* Grows B for EV and N more bytes of text. Returns false if memory runs out. */
static bool engine_thread_has_room(struct engine_thread_batch *b, const struct gallop_event *ev, size_t n)
{
    return mem_grow((void **)&b->event, &b->cap, b->n + 1, sizeof(*b->event), MEM_API) &&
           mem_grow((void **)&b->top, &b->cap_top, b->n_top + ev->n_top, sizeof(*b->top), MEM_API) &&
           mem_grow((void **)&b->text, &b->cap_text, b->n_text + n, 1, MEM_API);
}

/* Returns the total size of the warnings of EV with their terminating zeros. */
static size_t warnings_bytes(const struct gallop_event *ev)
{
    size_t n = 0;

    for (size_t i = 0; i < ev->n_warnings; i++)
        n += strlen(ev->warnings[i]) + 1;
    return n;
}

static void put_text(struct engine_thread_batch *b, const char *text, size_t n)
{
    if (n)
        memcpy(b->text + b->n_text, text, n);
    b->n_text += n;
}

/* Copies EV into the batch. If memory runs out, the event is passed to the callback t->lost and dropped; a
 * GALLOP_FINISHED event is retried until it is copied. */
static void put_event(struct engine_thread *t, struct engine_thread_batch *b, const struct gallop_event *ev)
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
    struct engine_thread_event *out;

    while (!engine_thread_has_room(b, ev, n + n_special + warnings_bytes(ev))) {
        if (ev->type != GALLOP_FINISHED) {
            t->lost(ev);
            return;
        }
        usleep(1000); /* retry: without its FINISHED event the request would never end */
    }
    out = &b->event[b->n++];
    *out = (struct engine_thread_event){.ev = *ev, .top = b->n_top, .text = b->n_text};
    out->ev.text_len = n;
    if (ev->n_top)
        memcpy(b->top + b->n_top, ev->top, ev->n_top * sizeof(*b->top));
    b->n_top += ev->n_top;
    put_text(b, text, n);
    put_text(b, ev->special, n_special);
    for (size_t i = 0; i < ev->n_warnings; i++)
        put_text(b, ev->warnings[i], strlen(ev->warnings[i]) + 1);
}

/* Waits for a free batch and returns it empty. NULL: the thread has to stop. */
static struct engine_thread_batch *next_batch(struct engine_thread *t)
{
    struct engine_thread_batch *b;

    pthread_mutex_lock(&t->lock);
    while (t->n_put - t->n_taken == ENGINE_THREAD_BATCHES && !t->stops)
        pthread_cond_wait(&t->room, &t->lock);
    b = t->stops ? NULL : &t->batch[t->n_put % ENGINE_THREAD_BATCHES];
    pthread_mutex_unlock(&t->lock);
    if (!b)
        return NULL;
    b->n = b->n_top = b->n_text = 0;
    return b;
}

/* Blocks until every batch is written to sockets, but at most for YIELD_S, so that the server's thread can
 * run on this processor. */
static void yield_processor(struct engine_thread *t)
{
    struct timespec until = clock_at(clock_seconds() + YIELD_S);

    pthread_mutex_lock(&t->lock);
    while (t->n_written != t->n_put && !t->stops &&
           pthread_cond_clockwait(&t->room, &t->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    pthread_mutex_unlock(&t->lock);
}

static void put_batch(struct engine_thread *t, struct engine_thread_batch *b)
{
    gallop_stats(t->g, &b->stats);
    pthread_mutex_lock(&t->lock);
    t->n_put++;
    pthread_mutex_unlock(&t->lock);
    t->wake(t->ctx);
    if (t->yields && b->n)
        yield_processor(t);
}

/* Runs a step. Returns false if there was nothing to compute. */
static bool engine_thread_compute(struct engine_thread *t)
{
    bool computed;

    atomic_store(&t->step_ns, clock_ns());
    computed = gallop_step(t->g, 0) != 0;
    atomic_store(&t->step_ns, 0);
    return computed;
}

static void *engine_thread_run(void *ctx)
{
    struct engine_thread *t = ctx;
    struct engine_thread_batch *b;

    while ((b = next_batch(t)) != NULL) {
        struct gallop_event ev;

        if (!engine_thread_compute(t)) {
            engine_await(t->g, IDLE_S);
            continue;
        }
        b->now_s = clock_seconds();
        while (gallop_take(t->g, &ev))
            put_event(t, b, &ev);
        put_batch(t, b);
    }
    return NULL;
}

int engine_thread_open(struct engine_thread *t, struct gallop *g, void (*lost)(const struct gallop_event *ev),
                       void (*wake)(void *ctx), void *ctx, struct err *e)
{
    struct topo topo;
    int rc;

    if ((rc = topo_open(&topo, e)) != 0)
        return rc;
    *t = (struct engine_thread){.g = g, .lost = lost, .wake = wake, .ctx = ctx};
    t->yields = engine_info(g)->model->threads >= topo.n_cpus;
    topo_close(&topo);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->room, NULL);
    rc = thread_start(&t->thread, engine_thread_run, t);
    t->runs = rc == 0;
    if (t->runs)
        pthread_setname_np(t->thread.id, "engine");
    return rc ? err_set(e, ERR_OS, "no thread can be started for the engine: %s", strerror(rc)) : 0;
}

void engine_thread_close(struct engine_thread *t)
{
    if (!t->g)
        return;
    pthread_mutex_lock(&t->lock);
    t->stops = true;
    pthread_cond_signal(&t->room);
    pthread_mutex_unlock(&t->lock);
    if (t->runs)
        thread_join(&t->thread);
    for (int i = 0; i < ENGINE_THREAD_BATCHES; i++) {
        mem_free(t->batch[i].event);
        mem_free(t->batch[i].top);
        mem_free(t->batch[i].text);
    }
    pthread_cond_destroy(&t->room);
    pthread_mutex_destroy(&t->lock);
    *t = (struct engine_thread){.g = NULL};
}

uint64_t engine_thread_step_ns(const struct engine_thread *t)
{
    return atomic_load(&t->step_ns);
}

const struct engine_thread_batch *engine_thread_take(struct engine_thread *t)
{
    const struct engine_thread_batch *b;

    pthread_mutex_lock(&t->lock);
    b = t->n_put == t->n_taken ? NULL : &t->batch[t->n_taken % ENGINE_THREAD_BATCHES];
    pthread_mutex_unlock(&t->lock);
    return b;
}

const char *engine_thread_point(const struct engine_thread_batch *b, const struct engine_thread_event *r,
                                struct gallop_event *ev)
{
    const char *text = b->text + r->text;

    *ev = r->ev;
    ev->top = b->top + r->top;
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
    return text + ev->text_len;
}

void engine_thread_give_back(struct engine_thread *t)
{
    pthread_mutex_lock(&t->lock);
    t->n_taken++;
    pthread_cond_signal(&t->room);
    pthread_mutex_unlock(&t->lock);
}

void engine_thread_written(struct engine_thread *t)
{
    pthread_mutex_lock(&t->lock);
    t->n_written = t->n_taken;
    pthread_cond_signal(&t->room);
    pthread_mutex_unlock(&t->lock);
}
