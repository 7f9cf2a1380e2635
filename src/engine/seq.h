/* seq.h - one request on its way, or one of the N answers to it: its tokens, what it asked for, what it still
 * holds back.
 *
 * What the answers to a request share, among it the prompt, is made when the request is prepared, on any
 * thread. What an answer needs of its own (its tokens, the counts of its penalties, a detokenizer) is made
 * when it first runs, so that requests that wait cost little and a step adds a token without allocating.
 * States go one way: waiting, running, done; preemption leads back to waiting with nothing computed, and who
 * waits is aside while rows are read ahead for it. Of N answers, the first computes the prompt; the others
 * (its siblings) wait outside the queue until that is done, and then share its rows.
 */
#ifndef GALLOP_ENGINE_SEQ_H
#define GALLOP_ENGINE_SEQ_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "engine/sample.h"
#include "engine/sampling.h"
#include "engine/schedule/heap.h"
#include "engine/schedule/waiting.h"
#include "engine/stop.h"
#include "text/tok/tok.h"

enum { SEQ_MAX_ANSWERS = 128 }; /* to one request */

enum seq_state { SEQ_WAITING, SEQ_ASIDE, SEQ_RUNNING, SEQ_DONE };

enum seq_pooling { SEQ_POOL_NONE, SEQ_POOL_LAST, SEQ_POOL_MEAN };

/* What all answers to a request have in common: never changed once it is made, freed with the last of
 * them. */
struct seq_common {
    atomic_uint n_users;
    struct arena arena;
    struct sampling sampling; /* merged and proved; the seed is that of the first answer */
    int32_t *prompt;          /* [n_prompt] */
    size_t n_prompt;
    uint32_t *allowed;       /* a bit for each token that may be chosen; NULL: all may */
    struct sample_word *bad; /* [n_bad] */
    size_t n_bad;
    struct stop stop;         /* as it is at the beginning of each answer */
    const struct tok *tok;    /* borrowed; NULL: none */
    bool skip_special;        /* in texts */
    size_t n_vocab, n_hidden; /* n_hidden: of a hidden state, for pooling */
};

struct seq {
    struct waiting_entry wait; /* place in the queue of those that wait; order and key also while it runs */
    struct heap_node deadline; /* place among those that have one */
    struct seq *next_of_id;    /* in the step's table of ids */
    struct seq *next;          /* in the list of those that came, are siblings, or are done */
    uint64_t id;
    void *user;
    struct seq_common *common;
    struct arena arena;
    struct sampling sampling; /* that of the request with a seed of its own; lists are common's */
    bool ready;               /* what only this answer needs is allocated */
    int32_t *token;           /* [cap] prompt, then output; until it is ready common's prompt */
    size_t n_prompt, n_known, cap;
    size_t n_computed;           /* rows in the cache */
    size_t n_reached;            /* the most rows it ever had there: those below are computed again */
    size_t n_cached;             /* rows that were there when it first began, computed for others */
    size_t last_total;           /* n_known of the last forward */
    size_t n_charged;            /* rows its key has paid for and that are not computed yet */
    bool begun;                  /* it has run */
    bool looked;                 /* it is known what could be read ahead, and that is done */
    int place;                   /* while aside: the executor's, or EXECUTOR_LATER */
    double ahead_until;          /* clock: then it is computed instead */
    size_t ahead_from, ahead_to; /* rows that were read ahead when it waited last */
    size_t n_stored;             /* of n_cached, those that were read ahead */
    size_t slot;                 /* while running */
    enum seq_state state;
    struct sample_history history;
    struct stop stop;
    struct tok_stream *detok; /* NULL: no tokenizer, tokens only */
    struct buf piece;         /* scratch between detokenizer and stop strings */
    struct buf text;          /* bytes of the last step's TEXT events */
    bool context_cuts;        /* the context ends it, not a limit that was asked for */
    bool queued;              /* counts against the limits of the queue: it has never run */
    bool has_salt;
    uint8_t salt[16];         /* of struct executor_prefix */
    int prompt_logprobs;      /* -1: none; else those of the prompt's tokens and of so many likeliest */
    enum seq_pooling pooling; /* of the prompt's hidden states: no token is made then */
    double *sum;              /* [n_hidden] of those that are computed */
    float *pooled;            /* [n_hidden] */
    struct seq *sibling;      /* the other answers, by next, until the prompt is computed */
    unsigned choice;          /* number of the answer, from 0 */
    double deadline_s;        /* clock; only with a place among deadlines */
    double limit_s;           /* seconds from submission to that, 0: none */
    bool overdue;             /* that has passed */
    struct err fault;         /* code set: ended by an error */
    bool forbids_all;         /* that is why: no token is left to choose */
    double t_first, t_token, t_last; /* clock: first computed, first token, latest token */
};

struct seq_request {
    const int32_t *ids;
    size_t n_ids;
    const struct sampling *sampling; /* merged, with its seed; arrays may be the caller's: they are copied */
    bool keep_special;
    int prompt_logprobs; /* -1: none */
    enum seq_pooling pooling;
    size_t n_hidden; /* of a hidden state, for pooling */
    int priority;
    uint32_t key;        /* waiting_key() */
    double limit_s;      /* 0: none */
    const uint8_t *salt; /* [16] or NULL */
    void *user;
};

/* Proves the request against the vocabulary and MAX_LEN positions and makes its N answers: the first, with
 * the others as its siblings. Each adds its number to the seed; prompt_logprobs are those of the first. */
int seq_new(struct seq **out, const struct seq_request *r, size_t n, const struct tok *tok, size_t n_vocab,
            size_t max_len, struct err *e);
/* Allocates what S needs to run, if that is not there. ERR_NOMEM: nothing has changed. */
int seq_make_ready(struct seq *s);
void seq_free(struct seq *s);      /* NULL is fine */
void seq_free_list(struct seq *s); /* S, what follows it by next, and their siblings */

/* The logits of every row of the prompt are wanted, once. */
/* It may say of tokens that they are not to be chosen. */
bool seq_forbids(const struct seq *s);
bool seq_wants_all(const struct seq *s);

size_t seq_n_output(const struct seq *s);
size_t seq_most_rows(const struct seq *s); /* that it can need: its last token is not computed */

#endif
