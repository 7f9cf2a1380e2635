/* api_priv.h - the state of a server: what its handlers, workers and engine thread share.
 *
 * Belongs to the server's thread, except for the atomic members, the parts that have a lock, and those that
 * never change after api_open().
 */
#ifndef GALLOP_API_API_PRIV_H
#define GALLOP_API_API_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/api.h"
#include "api/engine_thread.h"
#include "api/metrics.h"
#include "api/workers.h"
#include "base/buf.h"
#include "engine/engine.h"

struct request;

struct api {
    struct api_options opt;
    struct server *server;
    struct engine_thread relay;
    struct workers front;
    struct request *first;
    size_t n_calls;
    _Atomic size_t n_reserved; /* choices, or calls of which it is not known yet */
    pthread_mutex_t places_lock;
    size_t places_of[ENGINE_FAIR_KEYS]; /* of n_reserved, those of each key */
    _Atomic size_t n_waiting_tokens;
    _Atomic uint64_t n_over_memory; /* requests refused because of --max-request-memory */
    _Atomic uint64_t n_seeds;
    uint64_t secret; /* of seeds */
    bool draining;
    size_t max_len;
    int64_t created; /* Unix time */
    double started_s;
    struct metrics metrics;
    struct metrics_now now;
    uint64_t tokens_before; /* of the last step that was looked at */
    double
        handed_s[ENGINE_THREAD_BATCHES]; /* [n_handed] clock: ends of steps whose tokens are being written */
    size_t n_handed;
    double mean_s;           /* of the last requests, about */
    double ping_s;           /* clock: when the streams that wait are told next */
    uint64_t stalled_ns;     /* clock: when the step began that takes too long; 0: none does */
    struct buf scratch;      /* of the server's thread */
    struct api_running *row; /* [n_rows] crash_table.c */
    size_t n_rows, next_row;
    void (*woken)(void *ctx);
    void *woken_ctx;
    pthread_mutex_t unknown_lock;
    char unknown[64][64]; /* names of fields and types that were said in the log */
    size_t n_unknown;
};

#endif
