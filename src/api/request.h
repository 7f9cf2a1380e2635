/* request.h - struct request: a client's request after its body was read.
 *
 * A worker thread fills the struct while it prepares the request. After that the struct does not change.
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
#include "text/markup/markup.h"

struct api_options;
struct dialect;
struct markup_calls;
struct once;
struct server_exchange;

enum {
    REQUEST_ID_BYTES = 192,
    REQUEST_ID_SENT = 128, /* maximum bytes of an id that the client chooses */
    REQUEST_KEY = 17,      /* equal to KEYS_NAME of api/http/keys.h */
    REQUEST_TRACE = 56,
    REQUEST_MAX_ENDS = 2, /* maximum number of tokens that end an answer after a tool call */
};

/* The source of a request's id. */
enum request_naming {
    REQUEST_UNNAMED,  /* the body of the request, or else the server chooses the id */
    REQUEST_NAMED,    /* the header X-Request-Id, which takes precedence over the body */
    REQUEST_MISNAMED, /* the header X-Request-Id has an invalid id: the request is refused */
};

/* Path, client and time of a request; set when the request arrives. */
struct request_origin {
    const char *route;
    char key[REQUEST_KEY]; /* name of the client's API key, or "" */
    char peer[64];
    char trace[REQUEST_TRACE];
    int64_t created;  /* Unix time of arrival, in seconds */
    double arrival_s; /* clock_seconds() at arrival */
};

struct request_prompt {
    /* [n_ids] the tokens, owned; NULL: they were freed, because the answer does not repeat them */
    int32_t *id;
    size_t n_ids;
    struct buf text; /* text of the prompt, if the answer repeats it (`echo`) */
};

struct request {
    const struct api_options *server;
    struct once *once;
    const struct dialect *dialect;
    unsigned endpoint; /* FIELDS_<NAME> of routes.def */
    struct request_origin origin;
    enum request_naming naming;
    char name[REQUEST_ID_SENT + 8]; /* the id without the dialect's prefix */
    char id[REQUEST_ID_BYTES];      /* the id in the answer: the dialect's prefix and NAME */
    struct fields field;
    struct arena arena;
    struct request_prompt *prompt; /* [n_prompts] */
    size_t n_prompts;
    size_t n; /* choices computed for each prompt; with best_of the answer contains only some of them */
    size_t n_prompt_tokens;
    size_t n_cut_tokens; /* tokens that were cut from the prompts, and are not in N_PROMPT_TOKENS */
    uint64_t seed;
    double temperature, top_p;                   /* what is used: of the request, or else of the model */
    struct gallop_structured_outputs structured; /* constraint on the answers; its strings are in ARENA */
    const char *constraint;                      /* the field that constrains the answers; NULL: none */
    enum markup_place place;                     /* where the answers begin */
    bool draws;                                  /* tokens are sampled with a seed that the server chose */
    bool keeps_tokens;                           /* the answer contains token ids or log-probabilities */
    bool keeps_special; /* special tokens stay in the text, because they may be marks of tool calls */
    /* markup of tool calls in the answers; NULL: tool calls are not parsed */
    const struct markup_calls *calls;
    int32_t end_of_call[REQUEST_MAX_ENDS]; /* tokens that end an answer after a tool call */
    size_t n_ends_of_call;
};

/* Returns whether ID is valid as an id from a client: 1 to REQUEST_ID_SENT printable ASCII characters, no
 * blanks. */
bool request_is_id(const char *id);

/* Copies the header traceparent of X (W3C Trace Context, version 00) to OUT, or "" if it is missing or
 * malformed. */
void request_trace(struct server_exchange *x, char out[REQUEST_TRACE]);

/* Sets the id of Q from the header X-Request-Id of X, if X has this header. */
void request_name(struct request *q, struct server_exchange *x);

/* Returns the model name to write in the answer: the request's, or the server's first name. */
const char *request_model(const struct request *q);

/* Returns whether the request has tools that the model may call. */
bool request_has_tools(const struct request *q);

/* Returns the maximum number of tokens to generate for an answer. Below 0: limited by the context length
 * only. */
int64_t request_max_tokens(const struct request *q);

void request_fini(struct request *q);

#endif
