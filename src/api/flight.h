/* flight.h - a flight: one HTTP request for the engine, with its states from its arrival until it is freed.
 *
 *      PREPARING ---------> COMPUTING ---------> WRITING
 *          |                 |     |                |
 *          |     (stream)    |     |                |
 *          |        +--------+     |                |
 *          |        v              |                |
 *          |      BEGUN            |                |
 *          |        v              v                v
 *          |     STREAMING -----> DRAINING <--------+
 *          |      |     ^          ^    |
 *          |      v     |          |    +--> freed
 *          |     LISTING           |
 *          +-----------------------+
 *
 * In PREPARING, WRITING and LISTING a worker uses the flight, and the server's thread must not touch the
 * members that the worker uses. In all other states only the server's thread uses it. A client may disconnect
 * in any state. This sets the member X to NULL, and the flight becomes DRAINING, at once or when its worker
 * is done. It is freed only when flight_may_free() is true.
 */
#ifndef GALLOP_API_FLIGHT_H
#define GALLOP_API_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/queue.h"
#include "api/workers.h"
#include "chat/request.h"
#include "net/server.h"

struct api;
struct crash_table_row;
struct event_ring_batch;
struct gallop_event;
struct route;

enum flight_state {
    FLIGHT_PREPARING, /* a worker reads the request and submits or refuses it */
    FLIGHT_COMPUTING, /* the engine computes; nothing was sent yet */
    FLIGHT_BEGUN,     /* the head of a stream was sent, and no token was generated yet */
    FLIGHT_STREAMING, /* events are sent when the engine generates tokens */
    FLIGHT_LISTING,   /* a worker formats the many log-probabilities of a stream's next event */
    FLIGHT_WRITING,   /* all answers are complete; a worker writes the long reply */
    FLIGHT_DRAINING,  /* the client was answered or has left; the engine may still compute */
};

/* Cancellation of a flight's sequences in the engine. */
enum flight_cancel {
    FLIGHT_WANTED,
    /* must be cancelled as soon as all prompts are submitted and the engine accepts the message */
    FLIGHT_CANCEL,
    FLIGHT_CANCELLED, /* the engine has accepted the cancellation */
};

struct flight {
    struct workers_job job; /* must be the first member, for the cast from a job */
    struct api *api;
    struct flight *next, **link; /* links in the list of all flights */
    struct flight *next_touched; /* next flight that has events in the current batch */
    bool touched;                /* the flight is in the list linked by NEXT_TOUCHED */
    enum flight_state state;
    enum flight_cancel cancel;
    /* Number of the client (base/shares.h) that the memory, places and tokens of the request count for: its API key,
     * else the field `user`, else its address. */
    uint32_t client;
    struct server_exchange *x; /* NULL: the client was answered or has left */
    struct request q;
    size_t n_open;   /* submitted choices that have not ended */
    struct buf body; /* the HTTP request's body */
    /* bytes of BODY, which count toward the server's limit for all bodies until a worker has parsed BODY */
    struct server_body_bytes body_bytes;
    bool counts_as_over_memory; /* the metric api.n_over_memory already counts this request */
    /* first_s: clock in seconds at the first token of any choice (0: no token yet); sent_s: when bytes of a
     * stream were last sent */
    double first_s, sent_s;
    struct queue_places places;
    struct crash_table_row *row; /* NULL: the flight is not in the crash table */
};

/* Returns the flight whose request has the prompt P. */
struct flight *flight_of_prompt(const struct request_prompt *p);

/* ---- on the server's thread ---- */

/* Starts the request of X: reserves a place in the queue and starts a worker's job, or refuses X. */
void flight_start(struct api *a, struct server_exchange *x, const struct route *r);
void flight_gone(struct flight *f); /* must be called when the client of F has left */
/* must be called when the client of F has received all sent bytes */
void flight_drained(struct flight *f);
void flight_abort(struct flight *f); /* cancels the answers of F */
/* handles the finished jobs of workers and the new events of the engine */
void flight_advance(struct api *a);
void flight_written(struct api *a); /* call when sent bytes were written to all sockets that accept them */
/* Sends a ping to streams without an event for longer than ping_s. NOW: clock in seconds. */
void flight_ping(struct api *a, double now);
void flight_free_all(struct api *a); /* frees all flights, after the threads have ended */

/* Returns whether F is PREPARING or WRITING; then its token counts and answers must not be read. */
bool flight_is_with_worker(const struct flight *f);

/* Returns whether F can be freed: it is drained and has no running choice and no pending events. */
bool flight_may_free(const struct flight *f);

/* ---- on the engine's thread ---- */

/* Marks the choice of EV as incomplete, because memory to pass EV to the server's thread ran out. */
void flight_lost(const struct gallop_event *ev);

#endif
