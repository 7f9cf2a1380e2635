/* api.h - the HTTP API of an engine, as handlers for an HTTP server.
 *
 * Threads: the server's thread takes requests and sends answers. Workers (workers.h) parse JSON, render
 * templates, tokenize, submit requests to the engine, and write long answers. The engine's thread runs the
 * model (event_ring.h). Each request for the engine is a struct flight, which the server's thread owns.
 * Nothing may block the server's thread.
 */
#ifndef GALLOP_API_API_H
#define GALLOP_API_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chat/service.h"

struct api;
struct cors;
struct crash_table_row;
struct err;
struct keys;
struct server;
struct server_exchange;
struct server_options;

/* Options of api_open(). All pointers are borrowed and must stay valid until api_close(). [X]: the default,
 * used if the member is zero. */
struct api_options {
    struct service service;     /* the model, templates and defaults for answering */
    const char *tokenizer_info; /* JSON answer of /tokenizer_info; NULL: the path is not served */

    /* access and limits */
    struct keys *keys;        /* API keys; empty set: no key is needed */
    const struct keys *admin; /* keys that only administrative paths accept; NULL: these paths accept KEYS */
    const struct cors *cors;  /* answers CORS preflight requests; NULL: preflight requests are not answered */
    size_t max_running;       /* maximum number of answers computed at once */
    size_t max_queued;        /* maximum number of waiting answers; further requests get 429 */
    /* maximum number of waiting prompt tokens; further requests get 429 [no limit] */
    size_t max_queued_tokens;
    /* maximum bytes that all requests hold together; further requests get 429 [no limit] */
    size_t max_request_bytes;
    bool fair; /* --scheduling-policy is fair */

    /* threads and times */
    size_t n_threads;      /* number of worker threads [3] */
    double step_timeout_s; /* seconds after which a step counts as stalled: api_stalled() [no limit] */
    double ping_s;         /* seconds without an event before a stream gets a ping [10] */

    /* metrics and log */
    /* measured peak memory bandwidth (bytes/s) and arithmetic rate (operations/s); 0: not measured */
    double roof_bytes, roof_flops;
    bool quiet; /* do not log requests */

    /* Called for paths that the API does not serve; needs no key. Answers X and returns true, or leaves X
     * unanswered and returns false. Its answers are neither logged nor counted. NULL: there are no further
     * pages. */
    bool (*page)(struct server_exchange *x);
    bool (*page_has)(const char *path); /* whether PAGE serves PATH for any method; NULL if PAGE is NULL */
};

int api_open(struct api **out, const struct api_options *o, struct err *e);
void api_close(struct api *a); /* call after api_stop() and after closing the server; A may be NULL */

/* Sets the handlers in the server options O to the functions of A. */
void api_handle(struct api *a, struct server_options *o);

/* Starts the threads, which answer the requests of S. */
int api_start(struct api *a, struct server *s, struct err *e);

/* Ends the threads. The caller may use the engine again. */
void api_stop(struct api *a);

/* Begins the shutdown: the server is no longer ready, and new requests for the engine get 503. */
void api_drain(struct api *a);

/* Cancels all requests in the engine; their answers end with the tokens generated so far. */
void api_abort(struct api *a);

/* Sets WOKEN, which is called on the server's thread after A has handled a wake-up or tick. */
void api_on_wake(struct api *a, void (*woken)(void *ctx), void *ctx);

/* Returns whether the engine has been in one step for longer than step_timeout_s. Then /health and /ready
 * answer 503. Logs one line when such a step is detected and one line when the step ends. */
bool api_stalled(struct api *a);

size_t api_n_requests(const struct api *a); /* number of requests that are unanswered or still computed */
/* returns the number of answers that are still computed, even if their clients have left */
size_t api_n_computing(const struct api *a);

/* Returns the rows [*n] of the table of requests for the crash handler; they stay valid until api_close().
 * Requests beyond the size of the table are not in it. */
const struct crash_table_row *api_running(const struct api *a, size_t *n);

#endif
