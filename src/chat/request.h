/* request.h - struct request: a client's request, from its body to its written answer, without sockets.
 *
 * The caller that serves a request calls request_open(), the functions of prepare/prepare.h, request_take()
 * with each event of the engine, and request_write() or the functions of the request's dialect. The server
 * does this with worker threads and an engine thread (api/flight.h), `gallop run --batch` in a loop.
 */
#ifndef GALLOP_CHAT_REQUEST_H
#define GALLOP_CHAT_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "chat/answer.h"
#include "chat/dialect/dialect.h"
#include "chat/fields.h"
#include "gallop.h"
#include "text/markup/markup.h"

struct markup_calls;
struct once;
struct rng_seeds;
struct service;

enum {
    REQUEST_ID_BYTES = 192,
    REQUEST_ID_SENT = 128, /* maximum bytes of an id that the client chooses */
    REQUEST_KEY = 17,      /* size of an API key's name, with its zero byte */
    REQUEST_TRACE = 56,
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
    double arrival_s; /* time of arrival, by clock_seconds() */
};

/* A prompt. The user pointer of the engine's events is its address. */
struct request_prompt {
    struct request *request;
    uint64_t engine_id; /* id in the engine; 0: not submitted */
    size_t n_open;      /* submitted choices that have not ended */
    bool waits;         /* used by the server: the prompt's tokens are counted as waiting */
    /* [n_ids] the tokens, owned; NULL: they were freed, because the answer does not repeat them */
    int32_t *id;
    size_t n_ids;
    struct buf text; /* text of the prompt, if the answer repeats it (`echo`) */
};

struct request {
    const struct service *service;
    struct once *once;
    struct rng_seeds *seeds; /* seeds for requests without a seed */
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
    double temperature, top_p;                   /* values in use: the request's, or else the model's */
    struct gallop_structured_outputs structured; /* constraint on the answers; its strings are in ARENA */
    const char *constraint;                      /* the field that constrains the answers; NULL: none */
    enum markup_place place;                     /* whether the answers begin in reasoning or in content */
    bool draws;                                  /* tokens are sampled with a seed that the server chose */
    bool keeps_tokens;                           /* the answer contains token ids or log-probabilities */
    bool keeps_special; /* special tokens stay in the text, because they may be marks of tool calls */
    /* markup of tool calls in the answers; NULL: tool calls are not parsed */
    const struct markup_calls *calls;
    int32_t end_of_call[MARKUP_MAX_STOP]; /* tokens that end an answer after a tool call */
    size_t n_ends_of_call;

    struct answer answer;
    struct dialect_writer writer;
    _Atomic bool unwanted; /* the client has left, or the server shuts down */
    int status;            /* HTTP status of the complete answer in REPLY; 0: there is no reply yet */
    struct buf reply;
    char reason[DIALECT_REASON]; /* why the request failed, for the log; "": it did not fail */
    _Atomic bool is_over_memory; /* the limit of the memory for all requests was exceeded */
};

/* Initializes the zeroed Q as a request to ENDPOINT, which S answers. DIALECT reads the request body and
 * writes the response. S and DIALECT are borrowed. */
void request_open(struct request *q, const struct service *s, unsigned endpoint,
                  const struct dialect *dialect);
void request_fini(struct request *q);

/* Returns whether ID is valid as an id from a client: 1 to REQUEST_ID_SENT printable ASCII characters, no
 * blanks. */
bool request_is_id(const char *id);

/* Returns the model name to write in the answer: the request's, or the server's first name. */
const char *request_model(const struct request *q);

/* Returns whether the request has tools that the model may call. */
bool request_has_tools(const struct request *q);

/* Returns the maximum number of tokens to generate for an answer. Below 0: limited by the context length
 * only. */
int64_t request_max_tokens(const struct request *q);

/* Adds the event EV of the prompt P to the answers. Returns false if memory runs out: a part of the
 * answer is missing and its choice has failed, so the caller must cancel the request. */
bool request_take(struct request_prompt *p, const struct gallop_event *ev);

/* Returns the answer number CHOICE to the prompt P. */
struct answer_choice *request_choice(const struct request_prompt *p, size_t choice);

/* Returns the HTTP status of the first failed choice and sets *SENTENCE to the reason. 0: none failed. */
int request_fault(const struct request *q, const char **sentence);

/* Writes the complete answer, or an error, to OUT, which is cleared first. Returns the HTTP status. */
int request_write(struct request *q, struct buf *out);

/* request_begin_writing() clears OUT, to which a dialect then writes, and resets the flags of earlier
 * failures. request_lacks_memory() returns whether OUT is incomplete, because memory ran out in OUT or in
 * jansson since then. */
void request_begin_writing(struct buf *out);
bool request_lacks_memory(struct buf *out);

/* Records whether memory for the answer of Q exceeded the budget since the last call of mem_over_budget(). */
void request_note_memory(struct request *q);

#endif
