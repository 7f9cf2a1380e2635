/* api_priv.h - the state of a server.
 *
 * Only the server's thread may use a struct api, except for: the atomic members; the members with locks of
 * their own (workers, event_ring, queue, seeds, once); and the options, which do not change.
 */
#ifndef GALLOP_API_API_PRIV_H
#define GALLOP_API_API_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "api/crash_table.h"
#include "api/event_ring.h"
#include "api/http/metrics.h"
#include "api/queue.h"
#include "api/workers.h"
#include "base/buf.h"
#include "base/rng.h"
#include "chat/once.h"

struct flight;

struct api {
    struct api_options opt;
    struct server *server;
    struct event_ring event_ring;
    struct workers workers;
    struct flight *first; /* list of all requests for the engine (flight.h) */
    size_t n_flights;
    struct queue queue;
    struct rng_seeds seeds;
    struct once once;
    struct crash_table crash_table;
    _Atomic uint64_t n_over_memory; /* requests refused because of max_request_bytes */
    bool draining;                  /* the server is shutting down */
    size_t max_len;                 /* context length in tokens */
    double started_s;               /* clock in seconds at the start */
    struct metrics metrics;
    struct metrics_now now;
    uint64_t tokens_before; /* prompt and output tokens of all steps before the latest */
    /* [n_handed] for each step whose events are being written to sockets: the clock in seconds at its end */
    double handed_s[EVENT_RING_BATCHES];
    size_t n_handed;
    double mean_s;       /* running mean of the seconds that a request takes */
    double ping_s;       /* clock in seconds at which idle streams are pinged next */
    uint64_t stalled_ns; /* clock in nanoseconds at which the stalled step began; 0: no step is stalled */
    struct buf scratch;  /* buffer for answers that the server's thread writes */
    void (*woken)(void *ctx);
    void *woken_ctx;
};

#endif
