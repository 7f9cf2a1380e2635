/* flight.h - the life of one HTTP request for the engine, from its arrival until nothing of it is left.
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
 * In PREPARING, WRITING and LISTING a worker has the flight: the server's thread does not touch what it works on.
 * In all other states everything belongs to the server's thread. A client may leave in any state, which sets X to
 * NULL; unless a worker has the flight, it then drains. It is freed when flight_may_free() says so, and only then.
 */
#ifndef GALLOP_API_FLIGHT_H
#define GALLOP_API_FLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/answer.h"
#include "api/dialect/dialect.h"
#include "api/queue.h"
#include "api/request.h"
#include "api/workers.h"

struct api;
struct crash_table_row;
struct engine_thread_batch;
struct server_exchange;
struct gallop_event;
struct route;

enum flight_state {
    FLIGHT_PREPARING, /* a worker reads the request and submits it, or refuses it */
    FLIGHT_COMPUTING, /* the engine computes; nothing was sent */
    FLIGHT_BEGUN,     /* the head of a stream was sent; the first token is not there */
    FLIGHT_STREAMING, /* events are sent as they come */
    FLIGHT_LISTING,   /* a worker writes what the next event begins with, because it is long */
    FLIGHT_WRITING,   /* everything is computed; a worker writes the answer, because it is long */
    FLIGHT_DRAINING,  /* the client has its answer or has left; the engine may still compute */
};

/* Whether the sequences of a flight are cancelled. */
enum flight_cancel {
    FLIGHT_WANTED,
    FLIGHT_CANCEL,    /* the engine must be told, once all prompts are submitted and it accepts messages */
    FLIGHT_CANCELLED, /* the engine was told */
};

/* A prompt in the engine, whose events have it as their user. */
struct flight_prompt {
    struct flight *flight;
    uint64_t id;   /* of the engine; 0: not submitted */
    size_t n_open; /* choices that go on */
    bool waits;    /* its tokens count among those that wait */
};

struct flight {
    struct workers_job job; /* first */
    struct api *api;
    struct flight *next, **link; /* of the api's list */
    struct flight *next_touched; /* of the flights that the current batch has events for */
    bool touched;                /* it is in that list */
    enum flight_state state;
    enum flight_cancel cancel;
    _Atomic bool unwanted;     /* a worker need not prepare it: the client has left, or the server ends */
    struct server_exchange *x; /* NULL: the client has its answer or has left */
    struct request q;
    struct answer a;
    struct dialect_writer writer;
    struct flight_prompt *prompt; /* [q.n_prompts] */
    size_t n_open;                /* choices that were submitted and go on */
    struct buf body;              /* of the HTTP request */
    size_t body_bytes;            /* that count among the bodies of the server */
    int status;                   /* of the complete answer in REPLY; 0: there is none */
    struct buf reply;
    char reason[DIALECT_REASON]; /* why it was refused, for the log; "": it was not */
    double first_s, sent_s;      /* clock: the first token of any choice, 0: none yet; the last bytes sent */
    struct queue_places places;
    struct crash_table_row *row; /* NULL: it is not in the table */
};

/* ---- on the server's thread ---- */

/* Takes the request of X: reserves a place and hands it to a worker, or refuses it. */
void flight_start(struct api *a, struct server_exchange *x, const struct route *r);
void flight_gone(struct flight *f); /* must be called when the client of F has left */
void flight_drained(
    struct flight *f); /* must be called when the client has received everything that was sent */
void flight_abort(struct flight *f); /* ends the answers of F early */
void flight_advance(struct api *a);  /* goes on with what workers and the engine have done */
void flight_written(struct api *a);  /* what was sent is written, as far as clients take it */
/* Sends a remark to clients that have waited for long. */
void flight_ping(struct api *a, double now);
void flight_free_all(struct api *a); /* when the threads have ended */

/* A worker has it for preparing or for writing: counts of its tokens and its answers are not to be read. */
bool flight_is_with_worker(const struct flight *f);

/* True if nothing refers to F any more. */
bool flight_may_free(const struct flight *f);

/* ---- on the engine's thread ---- */

/* Marks the choice of EV as incomplete: EV could not be handed over because there was no memory. */
void flight_lost(const struct gallop_event *ev);

#endif
