/* api.h - the HTTP API of an engine, as handlers of an HTTP server.
 *
 * Threads: the server's thread takes requests and sends answers; workers (workers.h) read JSON, render
 * templates, tokenize and submit, and write long answers; the engine's thread computes (engine_thread.h). A
 * request that is computed is one struct flight, which the server's thread owns. Nothing blocks that thread.
 */
#ifndef GALLOP_API_API_H
#define GALLOP_API_API_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/markup/markup.h"
#include "api/markup/roles.h"
#include "api/markup/tools.h"
#include "gallop.h"

struct api;
struct chat;
struct cors;
struct crash_table_row;
struct dense;
struct err;
struct jinja;
struct keys;
struct server;
struct server_exchange;
struct server_options;

/* All pointers are borrowed, and their targets outlive the api. Zero means the default in brackets. */
struct api_options {
    struct gallop *engine;

    /* the model's names */
    const char *const *name; /* [n_names]; the first is shown */
    size_t n_names;
    const char
        *path_name; /* also accepted as a name, but never shown, because it may be a path; NULL: none */

    /* conversations */
    const struct chat *chat;      /* NULL: there is no template; chat_missing says why */
    const struct jinja *template; /* replaces the model's own template; NULL: nothing does */
    const char *template_text;    /* the source of the template in use; NULL: none */
    const char *tokenizer_info;   /* the JSON of /tokenizer_info; NULL: there is no such path */
    const char *chat_missing;
    bool plain_user_text;          /* the text of messages has no special tokens: --user-text plain */
    const json_t *template_kwargs; /* variables of every rendering; NULL: none */
    struct markup markup;          /* how tool calls and reasoning are parsed out of answers */
    struct tools_style tools;      /* how the template wants tools */
    struct roles_style roles;      /* which system messages the template takes */
    const char *reasoning_field;   /* the member that has the reasoning of an answer ["reasoning"] */

    /* who may ask, and how much */
    struct keys *keys;        /* an empty set: everybody may ask */
    const struct keys *admin; /* opens the paths of administration, and nothing else [keys] */
    const struct cors *cors;  /* answers CORS preflight requests; NULL: nothing does */
    size_t max_running;       /* answers that are computed at once */
    size_t max_queued;        /* answers that wait beside those; further ones get 429 */
    size_t max_queued_tokens; /* tokens of prompts that wait; 429 [any number] */
    size_t max_request_bytes; /* memory that all requests hold together; 429 [any number] */
    int64_t max_logprobs;     /* [20] */
    bool fair, priorities;    /* what --scheduling-policy considers */

    /* times */
    size_t n_threads;         /* workers [2] */
    double request_timeout_s; /* [any time] */
    double step_timeout_s;    /* a step that takes longer is a fault: api_stalled() [any time] */
    double ping_s;            /* silence in a stream, before its client is sent a remark [10] */

    /* how tokens and embeddings come about */
    enum gallop_pooling pooling; /* of embeddings [last] */
    const struct dense *dense;   /* modules that embeddings pass after pooling; NULL: none */
    bool has_seed;               /* SEED is that of requests without one; else each has another */
    uint64_t seed;
    bool neutral; /* sampling ignores generation_config.json */

    /* reports */
    double roof_bytes, roof_flops; /* per second, for the metrics; 0: not measured */
    bool quiet;                    /* no log line for each request */

    /* Asked for paths that the API does not have, without a key: answers X and returns true, or leaves X as
     * it is. Its answers are neither logged nor counted. NULL: there is no page. */
    bool (*page)(struct server_exchange *x);
    bool (*page_has)(const char *path); /* it answers PATH with another method; NULL as page is */
};

int api_open(struct api **out, const struct api_options *o, struct err *e);
void api_close(struct api *a); /* it is stopped and the server closed; NULL is fine */

/* Sets the handlers of O. */
void api_handle(struct api *a, struct server_options *o);

/* Serves S: starts the threads. */
int api_start(struct api *a, struct server *s, struct err *e);

/* Ends the threads; the engine belongs to the caller again. */
void api_stop(struct api *a);

/* From now on the server is not ready, and requests for the engine are refused with 503. */
void api_drain(struct api *a);

/* Answers that are being computed end where they are. */
void api_abort(struct api *a);

/* WOKEN is called on the server's thread after each wake or tick, when A has finished its work. */
void api_on_wake(struct api *a, void (*woken)(void *ctx), void *ctx);

/* The engine has been in one step for longer than step_timeout_s. Then /health and /ready are 503. The log
 * says so once for each such step, and again when the step ends. */
bool api_stalled(struct api *a);

size_t api_n_requests(const struct api *a); /* requests that are not answered, or are still computed */
size_t api_n_computing(
    const struct api *a); /* answers that have not ended, whether clients wait for them or not */

/* The table of requests for the handler of a crash: [*n], which stays where it is until api_close(). When it
 * is full, further requests are not in it. */
const struct crash_table_row *api_running(const struct api *a, size_t *n);

#endif
