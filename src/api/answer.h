/* answer.h - the answers to a request, in typed pieces: text, reasoning and tool calls.
 *
 * The server's thread adds what the engine generates. A dialect writes the pieces that its client does not
 * have yet, and answer_sent() then drops them; of a request without a stream they stay until the answer is
 * complete.
 */
#ifndef GALLOP_API_ANSWER_H
#define GALLOP_API_ANSWER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "gallop.h"

struct parser;

enum { ANSWER_ID_BYTES = 30 /* of the id of a tool call, with the NUL */ };

/* A generated token, or a token of a scored prompt. */
struct answer_token {
    int32_t id;
    float logprob;
    size_t rank;       /* of a prompt's token among all tokens; 1 is the likeliest */
    size_t top, n_top; /* its alternatives: a range of answer_tokens.top */
};

struct answer_tokens {
    struct answer_token *v; /* [n] */
    size_t n, cap;
    struct gallop_logprob *top; /* [n_top] */
    size_t n_top, cap_top;
};

/* A tool call, or the next part of the arguments of a call whose beginning was sent before. */
struct answer_call {
    unsigned index; /* of the call in its answer, from 0 */
    bool begins;    /* ID and name are set */
    char id[ANSWER_ID_BYTES];
    size_t name, n_name; /* range of answer_calls.text, which a zero byte follows */
    size_t arguments, n_arguments;
};

/* When a dialect may write a tool call. */
enum answer_calls_when {
    ANSWER_CALLS_STREAMED, /* as the model writes it */
    ANSWER_CALLS_COMPLETE, /* as soon as it is complete: a stop string may end the answer inside of it */
    ANSWER_CALLS_AT_END,   /* when the answer has ended */
};

struct answer_calls {
    enum answer_calls_when when;
    bool whole;            /* an incomplete call at a stop string or stop token is left out */
    struct answer_call *v; /* [n] */
    size_t n, cap;
    size_t n_ready;   /* the first of V, which a dialect may write */
    unsigned n_given; /* calls that became ready since the answer began */
    struct buf text;
};

/* What the engine does for a choice. */
enum answer_state {
    ANSWER_RUNNING,
    ANSWER_ENDED,
    ANSWER_FAILED, /* with an error, or because its time was over */
};

/* How much of a choice a stream has sent. */
enum answer_progress { ANSWER_UNSENT, ANSWER_BEGUN, ANSWER_CLOSED };

struct answer_choice {
    struct buf text, reasoning; /* not sent yet */
    struct answer_calls calls;  /* not sent yet */
    struct parser *parser;      /* NULL: all text is content */
    bool drops_reasoning;
    struct answer_tokens tokens; /* not sent yet; empty unless the request asks for tokens */
    size_t n_new;                /* tokens since the last event was sent */
    size_t n_output, n_reasoning;
    double logprob; /* sum over all tokens */
    double prefill_s, decode_s;
    double last_s; /* clock: the latest token */
    enum answer_state state;
    enum answer_progress progress;
    atomic_bool lost; /* memory ran out for a part of it; also set on the engine's thread */
    enum gallop_finish finish;
    bool forbids_all;   /* it failed because the request forbids every token */
    char *error;        /* why it failed; owned, or NULL */
    char *stop_string;  /* that ended it; owned, or NULL */
    int32_t stop_token; /* that ended it; below 0: none */
};

/* What the engine computed for a prompt. */
struct answer_prompt {
    size_t n_cached; /* tokens that the prefix cache had */
    struct answer_tokens scored;
    float *embedding; /* [n_embedding], owned, or NULL */
    size_t n_embedding;
};

struct answer {
    struct answer_prompt *prompt; /* [n_prompts] */
    size_t n_prompts;
    struct answer_choice *choice; /* [n_choices]; those of a prompt follow one another */
    size_t n_choices;
    char *warnings; /* n_warnings strings, each with its terminating zero; owned */
    size_t n_warnings;
};

/* Takes the warnings of an answer that has ended: N strings at TEXT, each with its terminating zero. All answers to a
 * request have the same. False: out of memory. */
bool answer_add_warnings(struct answer *a, const char *text, size_t n);

/* Adds TEXT [n], which the model generated. 0 or ERR_NOMEM. */
int answer_add_text(struct answer_choice *h, const char *text, size_t n);

/* The engine has ended H with H->finish. STOPPED: by a stop string or stop token of the request. 0 or
 * ERR_NOMEM. */
int answer_end(struct answer_choice *h, bool stopped);

/* Adds the token of EV with its alternatives TOP. False: out of memory. */
bool answer_add_token(struct answer_tokens *t, const struct gallop_event *ev,
                      const struct gallop_logprob *top);

/* The name of a call, terminated by a zero byte, and its arguments, which are not. */
const char *answer_call_name(const struct answer_calls *c, const struct answer_call *v);
const char *answer_call_arguments(const struct answer_calls *c, const struct answer_call *v);

/* A dialect has something to write for H. */
bool answer_has_news(const struct answer_choice *h);

/* The client was sent everything that a dialect could write. */
void answer_sent(struct answer_choice *h);

/* The generated tokens of all choices, and the cached tokens of all prompts. */
size_t answer_n_output(const struct answer *a);
size_t answer_n_cached(const struct answer *a);

/* The log-probabilities and numbers of embeddings that A holds. */
size_t answer_n_numbers(const struct answer *a);

void answer_fini(
    struct answer *a); /* frees what the members own, but not the arrays of prompts and choices */

#endif
