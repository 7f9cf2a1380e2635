/* request.h - one request to the engine on its way through the server, and the api that it belongs to.
 *
 * A call has prompts, a prompt has n choices. While the front prepares it or writes its answer (busy),
 * everything but x, gone and, while it is prepared, the choices' contents is the front's; afterwards all is
 * the server thread's, but the lists of prompts that the front writes in the middle of a stream (listing). It
 * lives until the front is done with it and every choice that was submitted has ended, also when the client
 * is long gone.
 */
#ifndef GALLOP_API_REQUEST_H
#define GALLOP_API_REQUEST_H

#include <stdatomic.h>

#include "api/api_priv.h"
#include "api/dialect.h"
#include "api/fields.h"
#include "api/keys.h"
#include "api/markup/parser.h"
#include "api/workers.h"
#include "base/arena.h"
#include "base/buf.h"
#include "engine/engine.h"
#include "text/tok/tok.h"

enum { REQUEST_ID_BYTES = 192, REQUEST_ID_SENT = 128 /* bytes of a client's own */, REQUEST_TRACE = 56 };

struct route;

/* A token that was chosen, or one of a scored prompt. */
struct request_token {
    int32_t id;
    float logprob;
    size_t rank;       /* of one of a prompt */
    size_t top, n_top; /* range of the list's top */
};

struct request_tokens {
    struct request_token *v; /* [n] */
    size_t n, cap;
    struct gallop_logprob *top; /* [n_top] */
    size_t n_top, cap_top;
};

/* The four lists of a completion's log-probabilities, as JSON without brackets. */
struct request_lists {
    struct buf offset, logprob, token, top;
};

struct request_choice {
    struct buf text;      /* not sent yet; of a whole answer, all. So are */
    struct buf reasoning; /* and */
    struct buf calls;     /* of tools: the elements of tool_calls */
    bool in_call;         /* the last of them is open, inside of its arguments */
    /* A tool call that is not complete, as an element of CALLS. With stop strings or tokens, which may
     * end the answer inside of it, calls are handed out whole. */
    struct buf held;
    bool holds; /* calls are held until they are complete */
    bool drops; /* a stop string or token has ended the answer: a call that is not complete is left out */
    unsigned n_calls;               /* handed out, or begun where they are not held */
    struct parser *parts;           /* NULL: all is content */
    struct request_tokens tokens;   /* the same; only where they are asked for */
    size_t n_new;                   /* tokens since the last event */
    size_t n_output;                /* tokens so far */
    double logprob;                 /* their sum, where it is known */
    bool written;                   /* it is among the best, and in the answer */
    size_t n_characters;            /* of the text of tokens whose log-probabilities are sent */
    struct tok_stream *pieces;      /* which makes them text; NULL: none yet */
    atomic_bool lost;               /* something of it, for lack of memory */
    bool introduced, ended, closed; /* introduced: its first event is sent; closed: its last one */
    enum gallop_finish finish;
    bool forbids_all;         /* it failed because of what the request forbids */
    enum dialect_block block; /* of a form that has them: the one that is open, */
    size_t n_blocks;          /* and those that are closed */
    bool is_last;             /* the one that is being closed is the answer's last */
    struct buf head, said;    /* of the one that is open: what is known of it, its text */
    size_t name, n_name;      /* range of head: the member with the name of a function that is called */
    struct buf items;         /* those that are closed, as JSON */
    double prefill_s, decode_s;
    size_t n_reasoning; /* tokens of reasoning, about */
    char *stop_string;  /* owned, or NULL */
    int32_t stop_token;
    double last_s; /* clock: latest token */
};

struct request_prompt {
    struct request *call;
    struct tok_ids ids;
    struct buf text; /* of an echo */
    uint64_t id;     /* of the engine; 0: not submitted */
    size_t n_cached, n_open;
    bool waits; /* its tokens count among those that wait */
    struct request_tokens scored;
    struct request_lists lists; /* of the prompt's tokens, for an echo: */
    bool listing, listed;       /* the front is at them; they are there */
    float *embedding;           /* [n_embedding], owned, or NULL */
    size_t n_embedding;
};

struct request {
    struct workers_job job; /* first */
    struct api *api;
    struct request *next, **link; /* of the api's list */
    struct request *next_touched; /* of those that something came for */
    bool touched;
    struct server_exchange *x; /* NULL: the client is gone, or is answered */
    unsigned endpoint;         /* FIELDS_... */
    const char *route;
    const struct dialect *form;
    struct buf body;
    size_t body_bytes; /* of it and what is made of it, that count among those of all */
    char key[KEYS_NAME];
    char request_id[REQUEST_ID_SENT + 8], id[REQUEST_ID_BYTES];
    bool named, misnamed; /* by X-Request-Id: from the start on, the front changes no name; by no name */
    char peer[64], trace[REQUEST_TRACE];
    char reason[DIALECT_REASON];       /* why it was refused, for the log; "": it was not */
    int64_t created;                   /* Unix time */
    double arrival_s, first_s, sent_s; /* clock; first_s: the first token of any choice, 0: none yet */
    struct fields f;
    struct arena arena;
    _Atomic size_t n_reserved; /* places of the queue; gauges read it at any time */
    uint32_t place_key;        /* waiting_key() of whose they are */
    struct request_prompt *prompt;
    size_t n_prompts;
    struct request_choice *choice; /* [n_prompts * n] */
    size_t n;                      /* choices of a prompt, f.n or more of them */
    size_t n_open;                 /* choices that were submitted and go on */
    size_t n_prompt_tokens;
    size_t n_events; /* of a stream whose events are numbered */
    bool drew_seed;  /* its answers are drawn at random with a seed that the server chose: */
    uint64_t seed;
    bool keep_tokens;
    bool keep_special;                /* special tokens stay in the text: they may be marks */
    const struct markup_calls *calls; /* what is looked for in the answers, or NULL */
    int32_t end_of_call
        [MARKUP_MAX_STOP]; /* tokens that end an answer behind a tool call, as the model writes it */
    size_t n_ends_of_call;
    bool busy;             /* with the front */
    bool listing;          /* the front writes the lists of prompts, of a stream that goes on */
    bool gone;             /* the client has left */
    _Atomic bool unwanted; /* its client left, or the server ends: the front need not begin */
    bool aborting;         /* the engine is to be told */
    bool begun;            /* an answer in parts has begun, */
    bool introduced;       /* and what its form says in front of the first token is sent */
    int status;            /* 0, or that of the reply, which is whole then */
    struct buf reply;
    struct api_running *row; /* of the api's table, or NULL */
};

/* ---- on the server's thread ---- */

extern const char request_over_memory[]; /* why a request is refused that is beyond --max-request-memory */

/* Takes the request of X over: reserves a place and hands it to the front, or refuses it. */
void request_start(struct api *a, struct server_exchange *x, const struct route *r);
void request_gone(struct request *c);    /* its client left */
void request_drained(struct request *c); /* its client has taken all that was sent */
void request_advance(struct api *a);     /* takes what the front and the engine have done */
void request_written(struct api *a);     /* what was sent is written, as far as clients take it */
void request_ping(struct api *a,
                  double now); /* tells streams that wait for their first token that they are heard */
void request_abort(struct request *c);
void request_forget_all(struct api *a); /* when the threads are gone */

/* Places of the queue, on any thread. With --scheduling-policy fair a key that has one gets more only while
 * it has at most three times as many as are left, so that there are some for others. */
size_t request_most_places(const struct api *a); /* that a request may have, when there is no other */
/* C, which has one place, gets N in all, as those of KEY. False: there are not so many for it. */
bool request_settle(struct request *c, uint32_t key, size_t n);
void request_leave_places(struct request *c, size_t n);

/* On the engine's thread: there was no memory to hand EV over. */
void request_lost(const struct gallop_event *ev);

/* ID is one that a client may give: 1 to REQUEST_ID_SENT printable ASCII characters without blanks. */
bool request_is_id(const char *id);

/* The traceparent of X (W3C's Trace Context, version 00), or "" where there is none of that form. */
void request_trace(struct server_exchange *x, char out[REQUEST_TRACE]);

#endif
