/* answer.h - the answers to a request as typed pieces: text, reasoning and tool calls.
 *
 * request_take() adds the engine's output to an answer. A dialect writes the pieces that were not
 * sent yet, and answer_sent() then drops them. Without streaming, all pieces stay until the answer is
 * complete.
 */
#ifndef GALLOP_CHAT_ANSWER_H
#define GALLOP_CHAT_ANSWER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "gallop.h"
#include "text/markup/message.h"

/* A generated token, or a token of a scored prompt. */
struct answer_token {
    int32_t id;
    float logprob;
    size_t rank;       /* rank of a prompt token among all tokens by probability, from 1 */
    size_t top, n_top; /* alternatives of the token: N_TOP entries of answer_tokens.top from index TOP */
};

struct answer_tokens {
    struct answer_token *v; /* [n] */
    size_t n, cap;
    struct gallop_logprob *top; /* [n_top] */
    size_t n_top, cap_top;
};

/* State of a choice in the engine. */
enum answer_state {
    ANSWER_RUNNING,
    ANSWER_ENDED,
    ANSWER_FAILED, /* the choice has an error or exceeded its time limit */
};

/* How much of a choice was sent to a streaming client. */
enum answer_progress { ANSWER_UNSENT, ANSWER_BEGUN, ANSWER_CLOSED };

struct answer_choice {
    struct message said;         /* content, reasoning and tool calls that were not sent yet */
    struct parser *parser;       /* NULL: all generated text is content */
    struct answer_tokens tokens; /* tokens not sent yet; empty unless the request needs tokens or logprobs */
    size_t n_new;                /* number of tokens since the latest event was sent */
    size_t n_output, n_reasoning;
    double logprob; /* sum of the log-probabilities of all tokens */
    double prefill_s, decode_s;
    double last_s; /* clock in seconds at the latest token */
    enum answer_state state;
    enum answer_progress progress;
    atomic_bool lost; /* a part is missing, because memory ran out; the engine's thread may set it */
    enum gallop_finish finish;
    /* gallop_event.forbids_all: 1 if the request excluded every token, 2 if a limit of its constraint ended
     * the choice, else 0 */
    int forbids_all;
    char *error;        /* error message, owned; NULL: no error */
    char *stop_string;  /* the stop string that ended the answer, owned, or NULL */
    int32_t stop_token; /* the stop token that ended the answer; negative: none */
    bool has_score;     /* the answer is a result of beam search */
    double score, cumulative_logprob;
};

/* Results of the engine for a prompt besides the generated tokens. */
struct answer_prompt {
    size_t n_cached; /* prompt tokens found in the prefix cache */
    struct answer_tokens scored;
    float *embedding; /* [n_embedding], owned, or NULL */
    size_t n_embedding;
};

struct answer {
    struct answer_prompt *prompt; /* [n_prompts] */
    size_t n_prompts;
    struct answer_choice *choice; /* [n_choices], ordered by prompt */
    size_t n_choices;
    char *warnings; /* n_warnings zero-terminated strings, one after another; owned */
    size_t n_warnings;
};

/* Copies WARNINGS [n], which came with the end of a choice, unless A has warnings already: they are the same
 * for all choices of a request. Returns false if memory runs out. */
bool answer_add_warnings(struct answer *a, const char *const *warnings, size_t n);

/* Adds the generated TEXT [n]. SPECIAL [n] is not 0 for the bytes of TEXT that come from special tokens. 0 or
 * ERR_NOMEM. */
int answer_add_text(struct answer_choice *h, const char *text, const char *special, size_t n);

/* Ends H after the engine has set H->finish. STOPPED: a stop string or stop token of the request ended it.
 * 0 or ERR_NOMEM. */
int answer_end(struct answer_choice *h, bool stopped);

/* Adds the token of EV with its alternatives TOP [ev->n_top]. Returns false if memory runs out. */
bool answer_add_token(struct answer_tokens *t, const struct gallop_event *ev,
                      const struct gallop_logprob *top);

/* Returns whether H has something to send. */
bool answer_has_news(const struct answer_choice *h);

/* Drops the pieces of H that were sent. */
void answer_sent(struct answer_choice *h);

/* Return the number of generated tokens of all choices, and the number of cached tokens of all prompts. */
size_t answer_n_output(const struct answer *a);
size_t answer_n_cached(const struct answer *a);

/* Returns the number of log-probabilities and embedding values in A, from which the time to write A is
 * estimated. */
size_t answer_n_numbers(const struct answer *a);

/* frees the buffers that the members own; the arrays PROMPT and CHOICE belong to the request */
void answer_fini(struct answer *a);

#endif
