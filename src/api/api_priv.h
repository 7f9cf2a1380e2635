/* api_priv.h - the state of a server.
 *
 * It belongs to the server's thread, but for the atomic members, the parts that lock themselves (workers, the
 * engine's thread, the queue, seeds, and what was logged once), and the options, which do not change.
 */
#ifndef GALLOP_API_API_PRIV_H
#define GALLOP_API_API_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "api/crash_table.h"
#include "api/engine_thread.h"
#include "api/http/metrics.h"
#include "api/once.h"
#include "api/queue.h"
#include "api/seeds.h"
#include "api/workers.h"
#include "base/buf.h"

struct flight;

struct api {
    struct api_options opt;
    struct server *server;
    struct engine_thread engine_thread;
    struct workers workers;
    struct flight *first; /* all flights */
    size_t n_flights;
    struct queue queue;
    struct seeds seeds;
    struct once once;
    struct crash_table crash_table;
    _Atomic uint64_t n_over_memory; /* requests refused because of --max-request-memory */
    bool draining;                  /* the server shuts down */
    size_t max_len;                 /* context length */
    int64_t created;                /* Unix time */
    double started_s;               /* clock */
    struct metrics metrics;
    struct metrics_now now;
    uint64_t tokens_before; /* tokens that all steps before the latest one computed */
    double
        handed_s[ENGINE_THREAD_BATCHES]; /* [n_handed] clock: ends of steps whose tokens are being written */
    size_t n_handed;
    double mean_s;       /* seconds that a request takes: a running mean */
    double ping_s;       /* clock: when streams that wait are pinged next */
    uint64_t stalled_ns; /* clock: when the step that takes too long began; 0: none does */
    struct buf scratch;  /* answers of the server's thread */
    void (*woken)(void *ctx);
    void *woken_ctx;
};

#endif
