/* seq.h - a sequence: one of the N answers to a request, with its tokens, sampling parameters and pending
 * text.
 *
 * The data that the answers to a request share, such as the prompt, are allocated when the request is
 * submitted, on any thread. The memory of a single answer (tokens, counts for penalties, a detokenizer) is
 * allocated when it first runs, so that waiting requests need little memory, and a step adds a token without
 * allocating. The states:
 *
 *              admitted             last token, error, cancel, deadline
 *     WAITING ----------> RUNNING ---------------------------------------> DONE
 *      |   ^                 |
 *      |   +---- preempted --+   (all its rows are released, or the executor has failed)
 *      |   |
 *      v   +---- the read is complete, or its time limit has passed
 *     READING    (entered by the next sequence of the queue, if the store has KV blocks for it)
 *
 * WAITING and READING also change to DONE, by a cancel or a deadline. Of the N answers, the first computes
 * the prompt. The others (its siblings) wait outside the queue until the prompt is computed, and then share
 * its rows.
 *
 * Beam search (beams/lanes.h): the sequences of a request are lanes, each with a slot and the tokens of one running
 * hypothesis. They change their states together: only the first lane, the head, is in the queue and in the lists of
 * the step. At the end, the first lanes get the best outputs.
 */
#ifndef GALLOP_ENGINE_SEQ_H
#define GALLOP_ENGINE_SEQ_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "engine/beams/beam.h"
#include "engine/guess/guess.h"
#include "engine/sampling/reasoning.h"
#include "engine/sampling/sample.h"
#include "engine/sampling/sampling.h"
#include "engine/sampling/stop.h"
#include "engine/schedule/heap.h"
#include "engine/schedule/waiting.h"
#include "text/grammar/constraint.h"

struct constraints;
struct late_mask;

enum { SEQ_MAX_ANSWERS = 128 }; /* maximum number of answers to a request */

struct guess_lookup;
struct match;

enum seq_state { SEQ_WAITING, SEQ_READING, SEQ_RUNNING, SEQ_DONE };

enum seq_pooling { SEQ_POOL_NONE, SEQ_POOL_LAST, SEQ_POOL_MEAN };

/* The data that all answers to a request share. Constant after seq_new(), except for prompt_index, which only the
 * engine's thread uses. Freed with the last answer. */
struct seq_common {
    atomic_uint n_users;
    uint32_t client; /* the client (mem_client()) to which the memory of the answers is charged */
    struct arena arena;
    struct sampling sampling; /* validated; has the seed of the first answer */
    int32_t *prompt;          /* [n_prompt] */
    size_t n_prompt;
    uint32_t *allowed;       /* bit mask of allowed_token_ids; NULL: all tokens are allowed */
    struct sample_word *bad; /* [n_bad] tokens of the bad words */
    size_t n_bad;
    struct constraints *constraints;      /* borrowed; the owner of `constraint` */
    struct constraints_entry *constraint; /* constraint on the answers, a counted reference; NULL: none */
    size_t most_guesses;  /* maximum number of guessed tokens of an answer in a step; 0: no speculation */
    size_t lookup_length; /* maximum length of a match for guesses by lookup; 0: no lookup */
    /* Index of the prompt for lookup (match.h) if several answers share the prompt; made when the first of them
     * runs. */
    struct match *prompt_index;
    struct reasoning reasoning; /* the budget for reasoning */
    struct stop stop;           /* the initial state of each answer's stop rules */
    const struct tok *tok;      /* borrowed; NULL: the model has no tokenizer */
    bool skip_special;          /* texts do not include special tokens */
    struct beam_rules rules;    /* rules of beam search; width 0: there is none */
    struct seq **lane; /* [rules.width] the sequences of the request, by `choice`, if there is beam search */
    /* lanes whose outputs are results and have events; the other lanes only widen the search */
    size_t n_results;
    bool keeps_logits, keeps_probs; /* TOKEN events contain the row of logits or of probabilities */
    /* maximum number of prompt rows of a step whose logits are kept for events; 0: none are kept */
    size_t n_kept_prompt;
    size_t n_vocab, n_hidden; /* n_hidden: floats of a hidden state, for pooling */
};

/* The state of a beam search. */
struct seq_beams {
    struct beam_search search;
    /* [width] the lanes of the running hypotheses, best first; search.n_running of them */
    struct seq **running;
    struct seq **next; /* [width] scratch */
    bool has_ended;    /* the finished hypotheses are the results */
    /* Scratch for finding stop strings in continuations. NULL: the request has no stop strings. */
    struct tok_stream *detok;
    struct stop stop;
    struct buf text;
};

struct seq {
    /* entry in the queue; `order` and `key` are also used while the sequence runs */
    struct waiting_entry wait;
    struct heap_node deadline; /* entry in the heap of deadlines, if deadline_s is set */
    struct seq *next_of_id;    /* next sequence in a chain of step.of_id */
    struct seq *next;          /* next in a list of submitted, sibling or finished sequences */
    uint64_t id;
    void *user;
    struct seq_common *common;
    struct arena arena;
    /* The parameters of `common` with the seed of this answer; arrays are borrowed from `common`. */
    struct sampling sampling;
    bool ready; /* seq_make_ready() has succeeded */
    /* [cap] prompt and output tokens, n_known of them known. Borrowed from `common` until the sequence is ready. */
    int32_t *token;
    size_t n_prompt, n_known, cap;
    size_t n_computed; /* rows in the KV cache */
    size_t n_reached;  /* largest n_computed so far; after a preemption, rows below it are computed again */
    size_t n_cached;   /* rows that were taken from the prefix cache when the sequence first ran */
    size_t last_total; /* n_known at the last step */
    /* tokens whose rows were charged to wait.key (waiting_charge()), but are not computed yet */
    size_t n_charged;
    /* number of failed runs that included the sequence since it last computed a new row */
    size_t n_lost;
    bool begun; /* the sequence has run before */
    bool asked; /* the store was searched for KV blocks of the sequence */
    /* In the state SEQ_READING: the executor's handle of the read, or EXECUTOR_LATER. */
    int handle;
    double read_until;         /* time limit of the read, on the executor's clock */
    size_t read_from, read_to; /* the last read from the store has the rows [read_from, read_to) */
    size_t n_stored;           /* rows of n_cached that were read from the store */
    size_t slot;               /* valid in the state SEQ_RUNNING */
    enum seq_state state;
    /* the guesses of the next step; their tokens are in `token`, after the known ones */
    struct guess guess;
    uint32_t *accepted_at;            /* [most_guesses] number of right guesses by their position in a step */
    struct guess_lookup *lookup;      /* state for guesses by lookup; NULL: none */
    size_t n_right;                   /* guesses of the last step that were right */
    struct guess_counts guess_counts; /* results of the guesses so far */
    /* head only: the state of the beam search, allocated when it first runs */
    struct seq_beams *beams;
    /* Beam search: the likeliest next tokens of this lane, valid until the next step. */
    struct beam_list list;
    float *logprob; /* beam search: [limit] log-probabilities of the output tokens */
    /* beam search: score and sum of log-probabilities of the finished output (engine/beams/beam.h) */
    double score, sum_logprob;
    size_t n_shown; /* beam search: number of output tokens whose events were emitted */
    bool has_score; /* the sequence is a result of beam search */
    struct sample_history history;
    struct constraint_run run; /* state of the constraint, if there is one and no thread of late.h has it */
    size_t mask_words;
    /* [1 + most_guesses, mask_words] token masks of the constraint: for the token after the known ones, and after each
     * guess; set in each step. NULL: no constraint. */
    uint32_t *mask;
    struct late_mask *next_mask; /* the mask of the token after the known ones, while it is computed */
    /* the answer may be complete: it ends if `next_mask`, once made, allows no further token */
    bool may_be_complete;
    struct reasoning_run reasoning;
    double mask_s; /* seconds of work on the constraint for the next token */
    struct stop stop;
    struct tok_stream *detok; /* NULL: the model has no tokenizer, and no text is produced */
    struct buf piece;         /* scratch: text of the last token, before stop strings are checked */
    struct buf text;          /* the bytes of the last step's TEXT events */
    /* [bytes of `text`, then of the text held back] 1: a special token wrote the byte; else 0 */
    struct buf special;
    bool context_cuts; /* the context length limits the output, not max_new_tokens */
    bool queued;       /* the sequence counts in step.n_queued */
    bool has_salt;
    uint8_t salt[16]; /* executor_prefix.salt */
    /* Number of likeliest tokens to report with each token of the prompt; -1: no prompt log-probabilities. */
    int prompt_logprobs;
    /* Rows [n_vocab] of the last step that its events contain; NULL: not requested. kept_logits and kept_probs have 1 +
     * most_guesses rows of raw logits and of probabilities, kept_prompt has n_kept_prompt rows of raw logits of the
     * prompt. */
    float *kept_logits, *kept_probs, *kept_prompt;
    /* Pooling of the prompt's hidden states. With pooling, no tokens are generated. */
    enum seq_pooling pooling;
    double *sum;   /* [n_hidden] sum of the hidden states so far */
    float *pooled; /* [n_hidden] the embedding */
    /* In the first answer: list of the other answers, until the prompt is computed. In the head of a beam
     * search: list of the other lanes until the search ends, and then of the lanes that are not results. */
    struct seq *sibling;
    unsigned choice;    /* number of this answer, from 0 */
    double deadline_s;  /* deadline on the executor's clock, if limit_s > 0 */
    double limit_s;     /* seconds from submission to the deadline; 0: no deadline */
    bool overdue;       /* the sequence ended because its deadline passed */
    struct err fault;   /* the error that ended the sequence; code 0: none */
    bool limits_itself; /* `fault` says that the constraint has exceeded one of its own limits */
    bool forbids_all;   /* `fault` says that the request excludes every token */
    /* Times of the first step, the first token and the latest token, on the executor's clock. */
    double t_first, t_token, t_last;
};

struct seq_request {
    const int32_t *ids;
    size_t n_ids;
    /* The merged parameters with the seed. Arrays are copied. */
    const struct sampling *sampling;
    bool keep_special;
    int prompt_logprobs; /* -1: none */
    /* As in struct seq_common. If n_kept_prompt is not 0, prompt_logprobs is 0 or more. */
    bool keeps_logits, keeps_probs;
    size_t n_kept_prompt;
    enum seq_pooling pooling;
    size_t n_hidden; /* floats of a hidden state, for pooling */
    int priority;
    uint32_t key;        /* key of the client for the policy fair (waiting_key()) */
    double limit_s;      /* 0: no deadline */
    const uint8_t *salt; /* [16] or NULL */
    void *user;
    struct reasoning_request reasoning;
    size_t most_guesses;  /* maximum number of guessed tokens of an answer in a step; 0: no speculation */
    size_t lookup_length; /* maximum length of a match for guesses by lookup; 0: no lookup */
    size_t n_beams;       /* width of the beam search, at least the number of answers; 0: no beam search */
    struct constraints *constraints;
    /* NULL: no constraint. seq_new() takes ownership of it, also when it fails. */
    struct constraints_entry *constraint;
};

/* Validates the request against the vocabulary and MAX_LEN positions, and creates its N answers: *OUT is the
 * first, with the others as its siblings. Answer number I adds I to the seed. Only the first answer computes
 * prompt_logprobs. With beam search, there is a sequence for each beam. */
int seq_new(struct seq **out, const struct seq_request *r, size_t n, const struct tok *tok, size_t n_vocab,
            size_t max_len, struct err *e);
/* Allocates the memory that S needs to run, unless it is allocated already; for the head of a beam search, also the
 * memory of the other lanes. ERR_NOMEM: S is unchanged. */
int seq_make_ready(struct seq *s);
/* Clears the text of the last step's events, but not the text that is held back. */
void seq_clear_text(struct seq *s);

void seq_free(struct seq *s);      /* frees S, which may be NULL, and its siblings */
void seq_free_list(struct seq *s); /* frees the list that begins with S, and the siblings of its sequences */

/* Returns true if the request of S excludes tokens (allowed_token_ids, bad words, a constraint, min_new_tokens). */
bool seq_forbids(const struct seq *s);

/* Returns true if every row of the prompt needs its logits or hidden state (prompt_logprobs, mean pooling). */
bool seq_wants_all(const struct seq *s);

/* Returns the known tokens of S, borrowed, as a prefix for executor.begin(). All KV rows of the prefix except
 * the last may be taken from other sequences. */
struct executor_prefix seq_prefix(const struct seq *s);

size_t seq_n_output(const struct seq *s);
/* Returns the maximum number of tokens that may be guessed in the next step of S: each guess needs a row, and the token
 * after the last guess must not exceed the limit of the output. */
size_t seq_most_guesses(const struct seq *s);
/* Returns the maximum number of KV rows that S can need. The last output token needs no row. */
size_t seq_most_rows(const struct seq *s);

#endif
