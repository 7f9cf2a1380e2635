/* engine_thread.h - the thread that runs the engine, and the hand-off of what comes out of it.
 *
 * After each step its events are copied into one of ENGINE_THREAD_BATCHES batches, which keep their memory,
 * and the other side is woken. The lock is held to move a number, never while something is computed or
 * copied. If all batches are full, because nobody takes them, the engine waits: it cannot run away from those
 * it serves.
 *
 * Where compute threads take every processor the engine also waits a little after each step, until what came
 * of it is written to sockets. The other side would have to push a compute thread aside for that anyhow, for
 * which the system often makes it wait for a tick of its clock, and the step would wait for that thread.
 */
#ifndef GALLOP_API_ENGINE_THREAD_H
#define GALLOP_API_ENGINE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/threads/thread.h"
#include "gallop.h"

enum { ENGINE_THREAD_BATCHES = 64 };

/* A gallop_event whose pointers are offsets into the batch. */
struct engine_thread_event {
    struct gallop_event ev; /* without top, embedding, text, stop_string and error, */
    size_t top;             /* which are at: top[top], */
    size_t text;            /* and text + text: floats, text, stop string or error, ev.text_len bytes */
};

struct engine_thread_batch {
    struct engine_thread_event *event; /* [n] */
    size_t n, cap;
    struct gallop_logprob *top; /* [n_top] */
    size_t n_top, cap_top;
    char *text; /* [n_text] */
    size_t n_text, cap_text;
    double now_s; /* clock: when the step ended */
    struct gallop_stats stats;
};

struct engine_thread {
    struct gallop *g;
    void (*lost)(const struct gallop_event *ev);
    void (*wake)(void *ctx);
    void *ctx;
    struct thread thread;
    bool runs;
    pthread_mutex_t lock;
    pthread_cond_t room;
    struct engine_thread_batch batch[ENGINE_THREAD_BATCHES];
    unsigned n_put, n_taken, n_written; /* modulo 2^32 */
    bool yields;                        /* compute threads take every processor */
    bool stops;
    _Atomic uint64_t step_ns; /* clock: when the step that is computed began; 0: none is */
};

/* Starts the thread: G belongs to it until engine_thread_close(). WAKE is called on it when there is a batch,
 * LOST when there is no memory to keep EV: what is told of its request lacks that. Ends are never lost. */
int engine_thread_open(struct engine_thread *r, struct gallop *g, void (*lost)(const struct gallop_event *ev),
                       void (*wake)(void *ctx), void *ctx, struct err *e);
void engine_thread_close(
    struct engine_thread *r); /* ends the thread between two steps; a zeroed one is fine */

/* When the step that is computed began, by clock_ns(); 0: none is. From any thread. */
uint64_t engine_thread_step_ns(const struct engine_thread *r);

/* The oldest batch that was not given back, or NULL. */
const struct engine_thread_batch *engine_thread_take(struct engine_thread *r);
void engine_thread_give_back(struct engine_thread *r);

/* What was in batches that were given back is written to all sockets that take it. */
void engine_thread_written(struct engine_thread *r);

#endif
