/* seq.h - a sequence: one of the N answers to a request, with its tokens, its parameters and the text it
 * holds back.
 *
 * What the answers to a request share, the prompt for instance, is made when the request is prepared, on any
 * thread. What an answer needs for itself (its tokens, the counts for its penalties, a detokenizer) is made
 * when it first runs, so that waiting requests cost little and a step adds a token without allocating. The
 * states:
 *
 *              admitted             last token, error, cancel, deadline
 *     WAITING ----------> RUNNING ---------------------------------------> DONE
 *      |   ^                 |
 *      |   +---- preempted --+   (all its rows are released)
 *      |   |
 *      v   +---- the read is done, or takes longer than it is worth
 *     READING    (entered by the next sequence of the queue, if the store has KV blocks for it)
 *
 * WAITING and READING end in DONE as well, by a cancel or a deadline. Of N answers, the first computes the
 * prompt; the others (its siblings) wait outside the queue until that is done, and then share its rows.
 */
#ifndef GALLOP_ENGINE_SEQ_H
#define GALLOP_ENGINE_SEQ_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "engine/constraints/constraints.h"
#include "engine/sampling/reasoning.h"
#include "engine/sampling/sample.h"
#include "engine/sampling/sampling.h"
#include "engine/sampling/stop.h"
#include "engine/schedule/heap.h"
#include "engine/schedule/waiting.h"
#include "text/tok/tok.h"

enum { SEQ_MAX_ANSWERS = 128 }; /* the most answers to one request */

enum seq_state { SEQ_WAITING, SEQ_READING, SEQ_RUNNING, SEQ_DONE };

enum seq_pooling { SEQ_POOL_NONE, SEQ_POOL_LAST, SEQ_POOL_MEAN };

/* What all answers to a request share. It never changes once it is made, and is freed with the last
 * answer. */
struct seq_common {
    atomic_uint n_users;
    struct arena arena;
    struct sampling sampling; /* validated; its seed is that of the first answer */
    int32_t *prompt;          /* [n_prompt] */
    size_t n_prompt;
    uint32_t *allowed;       /* one bit per token that may be chosen; NULL: all tokens may */
    struct sample_word *bad; /* [n_bad] */
    size_t n_bad;
    struct constraints *constraints;      /* where CONSTRAINT is given back */
    struct constraints_entry *constraint; /* what answers must look like; NULL: anything */
    struct reasoning reasoning;           /* the budget for it */
    struct stop stop;                     /* the state that each answer starts with */
    const struct tok *tok;                /* borrowed; NULL: the model has no tokenizer */
    bool skip_special;                    /* leave special tokens out of texts */
    size_t n_vocab, n_hidden;             /* n_hidden: floats of a hidden state, for pooling */
};

struct seq {
    struct waiting_entry wait; /* entry in the queue; order and key are also used while S runs */
    struct heap_node deadline; /* entry in the heap of deadlines, if deadline_s is set */
    struct seq *next_of_id;    /* next in its chain of the step's table of ids */
    struct seq *next;          /* next in a list of submitted, sibling or finished sequences */
    uint64_t id;
    void *user;
    struct seq_common *common;
    struct arena arena;
    /* as in common, with the seed of this answer; its arrays are borrowed from common */
    struct sampling sampling;
    bool ready; /* seq_make_ready() has succeeded */
    /* [cap] Prompt, then output. Borrowed from common until the sequence is ready. */
    int32_t *token;
    size_t n_prompt, n_known, cap;
    size_t n_computed; /* rows in the KV cache */
    /* Most rows that were ever in the cache; rows below are being computed again. */
    size_t n_reached;
    size_t n_cached;   /* rows that were in the cache when it first ran */
    size_t last_total; /* n_known at the last step */
    size_t n_charged;  /* rows that its key was charged for and that are not computed yet */
    bool begun;        /* it has run before */
    bool asked;        /* the store has been asked for its KV blocks */
    /* While SEQ_READING: the executor's handle of the read, or EXECUTOR_LATER. */
    int handle;
    double ahead_until;          /* clock at which waiting for the read ends */
    size_t ahead_from, ahead_to; /* rows that the last read brings */
    size_t n_stored;             /* those of n_cached that came from the store */
    size_t slot;                 /* while SEQ_RUNNING */
    enum seq_state state;
    struct sample_history history;
    struct constraint_run run; /* of a constrained answer */
    size_t mask_words;
    uint32_t *mask; /* [mask_words] one bit per token that may come next; NULL: not constrained */
    struct reasoning_run reasoning;
    double mask_s; /* seconds that computing it took */
    struct stop stop;
    struct tok_stream *detok; /* NULL: no tokenizer, tokens only */
    struct buf piece;         /* scratch between detokenizer and stop strings */
    /* The bytes of the last step's TEXT events. */
    struct buf text;
    bool context_cuts; /* the context length, not the request, limits the output */
    bool queued;       /* counts against the queue's limits: it has never run */
    bool has_salt;
    uint8_t salt[16]; /* see struct executor_prefix */
    /* Prompt log-probabilities: -1 for none, otherwise the number of most likely tokens to report beside each
     * token of the prompt. */
    int prompt_logprobs;
    /* What becomes of the prompt's hidden states. With pooling, no tokens are generated. */
    enum seq_pooling pooling;
    double *sum;         /* [n_hidden] sum of the hidden states so far */
    float *pooled;       /* [n_hidden] the embedding */
    struct seq *sibling; /* list of the other answers, until the prompt is computed */
    unsigned choice;     /* index of this answer, from 0 */
    double deadline_s;   /* clock; set if limit_s is */
    double limit_s;      /* seconds from submission to the deadline; 0: no deadline */
    bool overdue;        /* the deadline ended it */
    struct err fault;    /* a code is set: an error ended it */
    /* The error is that the request forbids every token. */
    bool forbids_all;
    /* Clock at its first step, its first token and its latest token. */
    double t_first, t_token, t_last;
};

struct seq_request {
    const int32_t *ids;
    size_t n_ids;
    /* Validated, with its seed. Arrays may be the caller's; they are copied. */
    const struct sampling *sampling;
    bool keep_special;
    int prompt_logprobs; /* -1: none */
    enum seq_pooling pooling;
    size_t n_hidden; /* floats of a hidden state, for pooling */
    int priority;
    uint32_t key;        /* waiting_key() */
    double limit_s;      /* 0: no deadline */
    const uint8_t *salt; /* [16] or NULL */
    void *user;
    struct reasoning_request reasoning;
    struct constraints *constraints;
    /* NULL: none. seq_new() takes it over, also where it fails. */
    struct constraints_entry *constraint;
};

/* Validates the request against the vocabulary and MAX_LEN positions, and makes its N answers: the first,
 * with the others as its siblings. Answer I adds I to the seed. Only the first computes prompt_logprobs. */
int seq_new(struct seq **out, const struct seq_request *r, size_t n, const struct tok *tok, size_t n_vocab,
            size_t max_len, struct err *e);
/* Allocates what S needs to run, unless it is there. ERR_NOMEM: nothing has changed. */
int seq_make_ready(struct seq *s);
void seq_free(struct seq *s);      /* NULL is fine */
void seq_free_list(struct seq *s); /* S, its followers by NEXT, and the siblings of all of them */

/* The request of S forbids some tokens, so that it may leave none to choose. */
bool seq_forbids(const struct seq *s);

/* The logits of every row of the prompt are wanted, once, for prompt_logprobs. */
bool seq_wants_all(const struct seq *s);

size_t seq_n_output(const struct seq *s);
size_t seq_most_rows(const struct seq *s); /* most KV rows it can need: the last token is not computed */

#endif
