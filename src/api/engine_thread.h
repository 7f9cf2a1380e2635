/* engine_thread.h - the thread that runs the engine, and the ring through which it hands events over.
 *
 * After each step the thread copies the events into one of ENGINE_THREAD_BATCHES batches, which keep their
 * memory, and wakes the server's thread. A lock is held while a number changes, and never while something is
 * computed or copied. If all batches are full, the engine waits until one is taken.
 *
 * If compute threads use every processor, the engine also waits a little after each step until the events are
 * written to sockets. Otherwise the server's thread would have to preempt a compute thread, for which the
 * system often makes it wait for a tick of the clock, and the step would then wait for that compute thread.
 */
#ifndef GALLOP_API_ENGINE_THREAD_H
#define GALLOP_API_ENGINE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/threads/thread.h"
#include "gallop.h"

struct err;

enum { ENGINE_THREAD_BATCHES = 64 };

/* A gallop_event whose pointers are offsets into the batch. */
struct engine_thread_event {
    struct gallop_event ev; /* its pointers are not valid */
    size_t top;             /* index of its alternatives in the batch's TOP */
    size_t
        text; /* offset of its text, embedding, stop string or error in the batch's TEXT: ev.text_len bytes.
               * ev.n_warnings strings, each with its terminating zero, follow */
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
    unsigned n_put, n_taken, n_written; /* batches that were put, taken and written, modulo 2^32 */
    bool yields;                        /* compute threads use every processor */
    bool stops;
    _Atomic uint64_t step_ns; /* clock: when the current step began; 0: there is none */
};

/* Starts the thread: G belongs to it until engine_thread_close(). On it, WAKE is called when there is a
 * batch, and LOST when there is no memory to hand EV over. Events of the type GALLOP_FINISHED are never lost.
 */
int engine_thread_open(struct engine_thread *t, struct gallop *g, void (*lost)(const struct gallop_event *ev),
                       void (*wake)(void *ctx), void *ctx, struct err *e);
void engine_thread_close(
    struct engine_thread *t); /* ends the thread between two steps; a zeroed one is fine */

/* When the current step began, by clock_ns(); 0: there is none. On any thread. */
uint64_t engine_thread_step_ns(const struct engine_thread *t);

/* Returns the oldest batch that was not given back, or NULL. */
const struct engine_thread_batch *engine_thread_take(struct engine_thread *t);
void engine_thread_give_back(struct engine_thread *t);

/* The events of all batches that were given back are written to the sockets that take them. */
void engine_thread_written(struct engine_thread *t);

#endif
