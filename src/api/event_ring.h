/* event_ring.h - the server's engine thread (engine/engine_thread.h), and the ring buffer that passes the events of the
 * engine to the server's thread.
 *
 * After each step the thread copies the events into one of EVENT_RING_BATCHES batches, whose memory is
 * reused, and wakes the server's thread. A lock protects the counters of the ring only, never a
 * computation or a copy. If all batches are full, the engine waits until the server's thread gives one
 * back.
 *
 * If compute threads use every processor, the engine also waits up to 5 ms after each step until the
 * events are written to sockets. Otherwise the server's thread would have to preempt a compute thread. The
 * operating system often delays that until its next clock tick, and the next step would then wait for the
 * preempted compute thread.
 */
#ifndef GALLOP_API_EVENT_RING_H
#define GALLOP_API_EVENT_RING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/threads/thread.h"
#include "engine/engine_thread.h"
#include "gallop.h"

struct err;

enum { EVENT_RING_BATCHES = 64 };

/* A gallop_event whose data are stored in the batch; offsets replace the event's pointers. */
struct event_ring_event {
    struct gallop_event ev; /* the event; its pointers are not valid */
    size_t top, warnings;   /* indices in the batch: first alternative of the token; first warning */
    /* Offset in the batch's TEXT. At this offset are ev.text_len bytes: the event's text, its embedding, or a
     * zero-terminated stop string or error message. After a text come the ev.text_len bytes of ev.special;
     * after a stop string or error come ev.n_warnings zero-terminated warnings. */
    size_t text;
};

struct event_ring_batch {
    struct event_ring_event *event; /* [n] */
    size_t n, cap;
    struct gallop_logprob *top; /* [n_top] */
    size_t n_top, cap_top;
    const char **warning; /* [n_warnings] is set by event_ring_point() */
    size_t n_warnings, cap_warnings;
    char *text; /* [n_text] */
    size_t n_text, cap_text;
    double now_s; /* clock in seconds at the end of the step */
    struct gallop_stats stats;
};

struct event_ring {
    struct engine_thread engine;
    void (*lost)(const struct gallop_event *ev);
    void (*wake)(void *ctx);
    void *ctx;
    struct thread thread;
    bool runs;
    pthread_mutex_t lock;
    pthread_cond_t room;
    struct event_ring_batch batch[EVENT_RING_BATCHES];
    unsigned n_put, n_taken, n_written; /* batches filled, given back, and written to sockets, modulo 2^32 */
    /* True if compute threads use every processor: the engine then waits after each step until the server's thread has
     * written the events to sockets. */
    bool yields;
    bool stops;
};

/* Starts the engine's thread; no other thread may run G until event_ring_close(). The new thread calls WAKE
 * when a batch is ready, and LOST if memory for the event EV runs out. GALLOP_FINISHED events are never
 * lost. */
int event_ring_open(struct event_ring *r, struct gallop *g, void (*lost)(const struct gallop_event *ev),
                    void (*wake)(void *ctx), void *ctx, struct err *e);
/* ends the thread after its current step; a zeroed R is allowed */
void event_ring_close(struct event_ring *r);

/* Returns the oldest batch in the ring, or NULL; event_ring_give_back() removes it from the ring. */
const struct event_ring_batch *event_ring_take(struct event_ring *r);

/* Sets *EV to the event FROM of the batch B, with pointers that are valid as long as the batch. */
void event_ring_point(const struct event_ring_batch *b, const struct event_ring_event *from,
                      struct gallop_event *ev);
void event_ring_give_back(struct event_ring *r);

/* Tells the engine's thread that the events of all batches given back so far are written to the sockets. */
void event_ring_written(struct event_ring *r);

#endif
