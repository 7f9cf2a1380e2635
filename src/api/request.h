/* request.h - struct request, the request of a client after its body was read.
 *
 * A worker fills it while the request is prepared. After that it does not change.
 */
#ifndef GALLOP_API_REQUEST_H
#define GALLOP_API_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/fields.h"
#include "base/arena.h"
#include "base/buf.h"
#include "gallop.h"
#include "text/tok/ids.h"

struct api_options;
struct dialect;
struct markup_calls;
struct once;
struct server_exchange;

enum {
    REQUEST_ID_BYTES = 192,
    REQUEST_ID_SENT = 128, /* bytes of an id that the client chooses */
    REQUEST_KEY = 17,      /* KEYS_NAME of api/http/keys.h */
    REQUEST_TRACE = 56,
    REQUEST_MAX_ENDS = 2, /* tokens that end an answer after a tool call */
};

/* Where the id of a request comes from. */
enum request_naming {
    REQUEST_UNNAMED,  /* its body, or the server chooses it */
    REQUEST_NAMED,    /* the header X-Request-Id: the id never changes */
    REQUEST_MISNAMED, /* the header has something that cannot be an id: the request is refused */
};

/* Where a request comes from; set when it arrives. */
struct request_origin {
    const char *route;
    char key[REQUEST_KEY]; /* name of the API key, or "" */
    char peer[64];
    char trace[REQUEST_TRACE];
    int64_t created;  /* Unix time */
    double arrival_s; /* clock */
};

struct request_prompt {
    struct tok_ids ids;
    struct buf text; /* of an echo */
};

struct request {
    const struct api_options *server;
    struct once *once;
    const struct dialect *dialect;
    unsigned endpoint; /* FIELDS_... */
    struct request_origin origin;
    enum request_naming naming;
    char name[REQUEST_ID_SENT + 8]; /* the id as the client knows it */
    char id[REQUEST_ID_BYTES];      /* the id in the answer: a prefix of the dialect and NAME */
    struct fields field;
    struct arena arena;
    struct request_prompt *prompt; /* [n_prompts] */
    size_t n_prompts;
    size_t n; /* choices for each prompt; with best_of more than the answer has */
    size_t n_prompt_tokens;
    uint64_t seed;
    struct gallop_structured_outputs structured; /* what answers must look like; texts are in ARENA */
    bool reasons;                                /* answers begin inside reasoning */
    bool draws;         /* tokens are drawn at random with SEED, which the server chose */
    bool keeps_tokens;  /* the answer has token ids or log-probabilities */
    bool keeps_special; /* special tokens stay in the text, because they may be marks of tool calls */
    const struct markup_calls
        *calls; /* how tool calls are marked in the answers; NULL: they are not looked for */
    int32_t end_of_call[REQUEST_MAX_ENDS]; /* tokens that end an answer after a tool call */
    size_t n_ends_of_call;
};

/* True if a client may choose ID: it has 1 to REQUEST_ID_SENT printable ASCII characters and no blanks. */
bool request_is_id(const char *id);

/* Writes the header traceparent of X (W3C Trace Context, version 00) to OUT, or "" if it is missing or malformed. */
void request_trace(struct server_exchange *x, char out[REQUEST_TRACE]);

/* Sets the name of Q from the header X-Request-Id of X, if there is one. */
void request_name(struct request *q, struct server_exchange *x);

/* Returns the name of the model for the answer. */
const char *request_model(const struct request *q);

/* True if the request has tools and the model may call them. */
bool request_has_tools(const struct request *q);

/* Returns the maximum number of tokens to generate for an answer; below 0: until the context is full. */
int64_t request_max_tokens(const struct request *q);

void request_fini(struct request *q);

#endif
