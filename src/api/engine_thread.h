/* engine_thread.h - the thread that runs the engine, and the ring buffer that passes its events to the
 * server's thread.
 *
 * After each step the thread copies the events into one of ENGINE_THREAD_BATCHES batches, whose memory is
 * reused, and wakes the server's thread. A lock protects the counters of the ring only, never a
 * computation or a copy. If all batches are full, the engine waits until the server's thread gives one
 * back.
 *
 * If compute threads use every processor, the engine also waits up to 5 ms after each step until the
 * events are written to sockets. Otherwise the server's thread would have to preempt a compute thread. The
 * operating system often delays that until its next clock tick, and the next step would then wait for the
 * preempted compute thread.
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

/* A gallop_event whose data are stored in the batch; offsets replace the event's pointers. */
struct engine_thread_event {
    struct gallop_event ev; /* the event; its pointers are not valid */
    size_t top;             /* index of the token's alternatives in the batch's TOP */
    /* Offset in the batch's TEXT of the event's text, embedding, or zero-terminated stop string or error (ev.text_len
     * bytes), followed by the [ev.text_len] bytes `special` of a text, or by ev.n_warnings zero-terminated
     * strings. */
    size_t text;
};

struct engine_thread_batch {
    struct engine_thread_event *event; /* [n] */
    size_t n, cap;
    struct gallop_logprob *top; /* [n_top] */
    size_t n_top, cap_top;
    char *text; /* [n_text] */
    size_t n_text, cap_text;
    double now_s; /* clock in seconds at the end of the step */
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
    unsigned n_put, n_taken, n_written; /* batches filled, given back, and written to sockets, modulo 2^32 */
    /* compute threads use every processor: wait for the server after a step */
    bool yields;
    bool stops;
    _Atomic uint64_t step_ns; /* clock in nanoseconds at which the current step began; 0: no step runs */
};

/* Starts the thread, which alone may run G until engine_thread_close(). The new thread calls WAKE when a
 * batch is ready, and LOST if memory for the event EV runs out. GALLOP_FINISHED events are never lost. */
int engine_thread_open(struct engine_thread *t, struct gallop *g, void (*lost)(const struct gallop_event *ev),
                       void (*wake)(void *ctx), void *ctx, struct err *e);
/* ends the thread after its current step; a zeroed T is allowed */
void engine_thread_close(struct engine_thread *t);

/* Returns the time of clock_ns() at which the current step began; 0: no step runs. Any thread may call it. */
uint64_t engine_thread_step_ns(const struct engine_thread *t);

/* Returns the oldest batch in the ring, or NULL; engine_thread_give_back() removes it from the ring. */
const struct engine_thread_batch *engine_thread_take(struct engine_thread *t);

/* Sets *EV to the event R of the batch B, with pointers that are valid as long as the batch. Returns its warnings,
 * ev->n_warnings zero-terminated strings, one after another; ev->warnings is not valid. */
const char *engine_thread_point(const struct engine_thread_batch *b, const struct engine_thread_event *r,
                                struct gallop_event *ev);
void engine_thread_give_back(struct engine_thread *t);

/* Informs the thread that the events of all batches that were given back are written to the sockets. */
void engine_thread_written(struct engine_thread *t);

#endif
