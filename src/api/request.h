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

#include "api/api.h"
#include "api/dialect.h"
#include "api/engine_thread.h"
#include "api/fields.h"
#include "api/markup/parser.h"
#include "api/metrics.h"
#include "api/workers.h"
#include "base/arena.h"
#include "base/buf.h"
#include "engine/engine.h"
#include "text/tok/tok.h"

enum { REQUEST_ID_BYTES = 192, REQUEST_ID_SENT = 128 /* bytes of a client's own */, REQUEST_TRACE = 56 };

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
    bool forbids_all;      /* it failed because of what the request forbids */
    enum form_block block; /* of a form that has them: the one that is open, */
    size_t n_blocks;       /* and those that are closed */
    bool is_last;          /* the one that is being closed is the answer's last */
    struct buf head, said; /* of the one that is open: what is known of it, its text */
    size_t name, n_name;   /* range of head: the member with the name of a function that is called */
    struct buf items;      /* those that are closed, as JSON */
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

struct route;

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

/* ---- request.c: on the server's thread ---- */

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

/* ---- prepare.c: on a thread of the front ---- */

/* Reads, renders, tokenizes and submits the call of JOB, or leaves a status and a reply. */
void prepare_request(struct workers_job *job);
void prepare_cancel(struct request *c); /* what was submitted of it */
void prepare_waits_no_more(struct request_prompt *p);
/* Logs that something called NAME was left out, once for each name. SENTENCE has a %s for the name. */
void prepare_say_once(struct request *c, const char *name, const char *sentence)
    __attribute__((format(printf, 3, 0)));
int64_t prepare_max_tokens(const struct request *c);

/* ---- messages.c ---- */

bool messages_have_tools(const struct request *c); /* and the template is to be given them */

/* The text of PART of a message's content: a string or null; something else where it has none as it should;
 * NULL: its type has no text. Borrowed. */
const json_t *messages_part_text(const json_t *part);

/* The text of a conversation, by the model's template; with --user-text plain ORIGIN says where each byte of
 * it came from, else it stays empty. */
int messages_render(struct request *c, struct buf *out, struct buf *origin, struct err *e);

/* ---- crash_table.c: which requests are in the house, for a handler of a crash ---- */

int crash_table_open(struct api *a, struct err *e);
void crash_table_close(struct api *a);
void crash_table_begin(struct request *c); /* C is prepared */
void crash_table_end(struct request *c);

/* ---- answer.c: JSON of answers ---- */

/* Takes TEXT, the next of choice H, apart. 0 or ERR_NOMEM. */
int answer_take(const struct request *c, struct request_choice *h, const char *text, size_t n);
/* The same of what was held back; FINISH: how it ended. */
int answer_take_end(const struct request *c, struct request_choice *h, enum gallop_finish finish,
                    bool stopped);
/* Writes P->lists. */
void answer_list_prompt(const struct request *c, struct request_prompt *p);

/* There is something to show. */
bool answer_has_news(const struct request *c, const struct request_choice *h);

/* The call that is being taken comes to an end for now: H->calls are whole elements. */
void answer_end_call(struct request_choice *h);

/* ---- routes.c ---- */

/* The name of the key that X has; "": none. */
void routes_key(const struct api *a, const struct server_exchange *x, char key[KEYS_NAME]);
void routes_handle(void *ctx, struct server_exchange *x);
bool routes_wants_body(void *ctx, const struct http_head *h);
size_t routes_refusal(void *ctx, int status, const char *why, char *out, size_t size);
/* Answers X with an error in the form of its path; a 429 or 503 says when to come back. */
void routes_refuse(struct api *a, struct server_exchange *x, const char *route, int status,
                   const char *message, const char *param);
/* Refuses X, a request beyond the limits of KEY, of which the next may come in WAIT_S. */
void routes_limit(struct api *a, struct server_exchange *x, const char *route, const char *key,
                  double wait_s);
/* Answers X, counts it and logs it. */
void routes_reply(struct api *a, struct server_exchange *x, const char *route, int status,
                  const char *headers, const char *type, const void *body, size_t n);

/* ---- status.c: what is so, for people and machines ---- */

void status_gauges(const struct api *a, struct metrics_now *now);
void status_models(const struct api *a, const char *only, struct buf *out); /* ONLY NULL: all */
void status_pace_health(const struct api *a, struct buf *out);
void status_pace_queue(const struct api *a, struct buf *out);
void status_pace_metrics(const struct api *a, struct buf *out);
/* What is computed of ID, for its client. */
bool status_request(const struct api *a, const char *id, const char *key,
                    struct buf *out); /* false: no such */
double status_retry_s(const struct api *a);
/* OpenAI's lines of headers about the limits of KEY; "" where it has none. */
enum { STATUS_LIMITS = 400 };
void status_limits(const struct api *a, const char *key, char out[STATUS_LIMITS]);

/* The next call behind BEHIND (NULL: the first) that its client, who has KEY (NULL: any), knows as ID. */
const struct request *status_find(const struct api *a, const char *id, const char *key,
                                  const struct request *behind);

#endif
