/* api.h - the OpenAI API of an engine, as handlers of an HTTP server.
 *
 * Who does what: the server's thread takes requests and writes answers; threads of the front (workers.h) read
 * JSON, render templates, tokenize and submit, and write answers of many numbers; the engine's thread
 * computes (engine_thread.h). A request is one struct request, which the server's thread owns; nothing blocks that
 * thread.
 */
#ifndef GALLOP_API_API_H
#define GALLOP_API_API_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api/keys.h"
#include "api/markup/markup.h"
#include "api/markup/roles.h"
#include "api/markup/tools.h"
#include "base/buf.h"
#include "base/err.h"
#include "gallop.h"
#include "net/cors.h"
#include "net/server.h"
#include "text/chat.h"
#include "text/jinja/jinja.h"

struct api;

/* Everything is borrowed and outlives the api. Zero means the default in brackets. */
struct api_options {
    struct gallop *engine;
    const struct chat *chat;      /* NULL: no template; chat_missing says why */
    const struct jinja *template; /* instead of the model's own; NULL: none */
    const char *template_text;    /* the source of that which is used; NULL: none */
    const char *tokenizer_info;   /* what /tokenizer_info answers, as JSON; NULL: there is no such path */
    const char *chat_missing;
    bool plain_user_text;          /* text of messages has no special tokens: --user-text plain */
    const json_t *template_kwargs; /* variables of every template; NULL: none */
    struct markup markup;          /* how answers are taken apart */
    struct tools_style tools;      /* how the template wants tools */
    struct roles_style roles;      /* which system messages it takes */
    const char *reasoning_field;   /* what reasoning is called in answers ["reasoning"] */
    const char *const *name;       /* [n_names] of the model; the first is shown */
    size_t n_names;
    const char *path_name;       /* also taken as a name, and never shown, as it may be a path; NULL: none */
    struct keys *keys;           /* none of them: everybody may ask */
    const struct keys *admin;    /* only these open what is administration, and nothing else [keys] */
    size_t max_running;          /* requests computed at once */
    size_t max_queued;           /* requests beside those: 429 */
    size_t max_queued_tokens;    /* tokens of prompts that wait: 429 [any number] */
    size_t max_request_bytes;    /* that requests hold together: 429 [any number] */
    size_t n_threads;            /* of the front [2] */
    int64_t max_logprobs;        /* [20] */
    double request_timeout_s;    /* [any time] */
    double step_timeout_s;       /* a step that takes longer is a fault: see api_stalled() [any time] */
    double ping_s;               /* [10] of silence in a stream, before its client is sent a remark */
    enum gallop_pooling pooling; /* of embeddings [last] */
    const struct dense *dense;   /* what pooled ones pass then; borrowed, NULL: nothing */
    bool has_seed;               /* seed is that of requests without one; else each has another */
    uint64_t seed;
    bool fair, priorities;         /* what --scheduling-policy looks at */
    bool neutral;                  /* generation_config.json is not looked at for sampling */
    double roof_bytes, roof_flops; /* a second, for the metrics; 0: not measured */
    bool quiet;                    /* no line for each request */
    const struct cors *cors;       /* questions of browsers are answered by it; NULL: by nobody */

    /* Asked for paths that the API has not, without a key: answers X and returns true, or leaves it as it
     * was. What it answers is neither logged nor counted. NULL: nobody. */
    bool (*page)(struct server_exchange *x);
    bool (*page_has)(const char *path); /* with another method it answers there; NULL as page is */
};

int api_open(struct api **out, const struct api_options *o, struct err *e);
void api_close(struct api *a); /* stopped, and the server closed; NULL is fine */

/* Sets the handlers of O. */
void api_handle(struct api *a, struct server_options *o);

/* Serves S: starts the threads. */
int api_start(struct api *a, struct server *s, struct err *e);

/* Ends the threads; the engine is the caller's again. */
void api_stop(struct api *a);

/* From now on not ready, and what would be computed is refused with 503. */
void api_drain(struct api *a);
/* What is computed ends where it is. */
void api_abort(struct api *a);
/* Called on the server's thread after each wake or tick, when A is done with it. */
void api_on_wake(struct api *a, void (*woken)(void *ctx), void *ctx);

/* The engine has been in one step for longer than step_timeout_s. Then /health and /ready are 503; it is said
 * in the log and counted once for each such step, and said again when the step ends. */
bool api_stalled(struct api *a);

size_t api_n_calls(const struct api *a);     /* that are not answered, or whose computing goes on */
size_t api_n_computing(const struct api *a); /* answers that are not at their end, taken by clients or not */

/* A request that is computed or waits, as a handler of a crash may read it. */
struct api_running {
    _Atomic bool used; /* else there is none in this row */
    char id[160];
    _Atomic size_t n_prompt, n_output; /* tokens */
};

/* The table of them [*n], which stays where it is until api_close(). When it is full, further requests are
 * not in it. */
const struct api_running *api_running(const struct api *a, size_t *n);

/* docs/API.md. */
void api_document(struct buf *out);

#endif
