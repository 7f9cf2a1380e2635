/* step.h - the engine's loop: accepts sequences, runs one step at a time, and gives events.
 *
 * A step ends sequences that were cancelled or are overdue, admits waiting sequences by policy, makes the token masks
 * of constraints (constraints/late.h: a sequence whose mask takes long is left out of the step), guesses tokens of
 * decoding sequences (guess/guess.h), plans the number of rows of each sequence, reserves KV rows for them, runs the
 * executor, samples on its threads, and turns tokens into events. A step does not allocate and never walks the list of
 * waiting sequences.
 *
 * Reading ahead: an executor may have a store of KV blocks outside its memory, on a disk for instance. Before the next
 * sequence of the queue is admitted, the executor starts to read its blocks. Meanwhile the sequence is SEQ_READING: it
 * is not in the queue and holds neither a slot nor rows, and later sequences may be admitted. It returns to its place
 * in the queue when the blocks are in memory, or after the time that computing them would take (at least 0.1 seconds).
 *
 * Admission: "optimistic" admits a sequence when its tokens fit into the cache, with STEP_SPARE_BLOCKS more blocks for
 * it and for each running sequence. If the cache is full later, the running sequence of the lowest precedence is
 * preempted: its rows are released, and it waits again. "worst-case" admits a sequence when all rows that it and the
 * running sequences can ever need fit, so that none is preempted. A sequence is always admitted when no other sequence
 * runs. A fault of one sequence (NaN logits, no memory for its text) ends only this sequence.
 *
 * Failures: if a run of the executor fails, all running sequences are put back into the queue, as preempted ones are,
 * and the executor is opened again. Until then each step only ends sequences that were cancelled or are overdue, and
 * waits for a moment.
 */
#ifndef GALLOP_ENGINE_STEP_H
#define GALLOP_ENGINE_STEP_H

#include <stdatomic.h>

#include "engine/constraints/late.h"
#include "engine/constraints/masks.h"
#include "engine/guess/guess.h"
#include "engine/sampling/sample.h"
#include "engine/schedule/cost.h"
#include "engine/schedule/outage.h"
#include "engine/schedule/sched.h"
#include "engine/schedule/waiting.h"
#include "gallop.h"

struct executor;
struct executor_rows;
struct executor_want;
struct seq;

/* Number of KV blocks by which each running sequence must be able to grow when another sequence is admitted. */
enum { STEP_SPARE_BLOCKS = 1 };

enum step_event_type { STEP_TOKEN, STEP_TEXT, STEP_FINISHED, STEP_PROMPT, STEP_EMBEDDING };

struct step_event {
    enum step_event_type type;
    struct seq *seq; /* FINISHED: the receiver of the event owns and frees the sequence */
    int32_t token;
    float logprob;
    size_t rank;                  /* PROMPT: number of tokens at least as likely, including this token */
    const struct sample_top *top; /* TOKEN, PROMPT: [n_top] the likeliest tokens, in descending order */
    size_t n_top;
    /* TOKEN, PROMPT: [V] raw logits and probabilities, if requested; else NULL */
    const float *logits, *probs;
    size_t text, text_len; /* TEXT: range in seq->text */
};

/* A row of the step whose logits or hidden state are used. */
struct step_row {
    struct seq *seq;
    const float *logits; /* [V] */
    int32_t given;       /* the token from which the row is computed: a known token of `seq`, or a guess */
    bool is_known;
    size_t position; /* position in `seq` of the token that this row predicts */
    size_t index;    /* index of the row among the rows of `seq` in g->row */
    /* [V] raw logits and probabilities for the event of the token, in memory of `seq`; NULL: not requested */
    const float *kept, *probs;
    size_t task; /* the tokens of rows of one task are sampled by one thread, in the order of the rows */
    struct sample_result result;
    int code; /* error code of sampling or scoring, 0: none */
};

struct step_options {
    size_t max_seqs,
        max_tokens; /* limits of a step; 0, or above the executor's limit: the executor's limit */
    /* Maximum number of sequences that have never run, and maximum sum of their prompt lengths. 0: no limit.
     * */
    size_t max_queued, max_queued_tokens;
    enum waiting_policy policy;
    enum sched_order order;
    bool worst_case;                  /* admission "worst-case" */
    bool one_by_one;                  /* a sequence, or a beam search, starts only when no other runs */
    double target_s;                  /* target time of a step with decoding sequences; 0: no target */
    double step_guess_s, row_guess_s; /* initial estimates for cost_init() */
};

struct step {
    const struct executor *x; /* borrowed */
    struct step_options opt;
    struct waiting waiting;
    struct heap deadlines;
    struct cost cost;
    struct outage outage;
    struct guess_maker *guesser; /* borrowed; NULL: no speculative decoding */
    struct guess_chances chances;
    double trial_s; /* seconds available to try guesses that are not expected to save time */
    struct guess_counts guess_counts;
    uint64_t n_accepted_at[GUESS_MOST]; /* accepted guesses by position */
    float *chance;                      /* [max_seqs, GUESS_MOST] memory of seq.guess.chance */
    struct seq **guessing;              /* [max_seqs] sequences that ask for guesses */
    struct seq **of_id;                 /* [STEP_IDS] hash table of all sequences by id, with chains */
    struct seq **running;               /* [max_seqs] running sequences, in order of precedence */
    size_t n_running;
    struct seq **reading; /* [max_seqs] sequences in the state SEQ_READING */
    size_t n_reading;
    uint32_t *free_slot; /* [max_seqs] stack of free slots */
    size_t n_free;
    struct seq *done, **last_done; /* list of ended sequences whose FINISHED event is not emitted yet */
    struct sched_seq *sched;       /* [max_seqs] the planner's input: sequences that lack KV rows */
    /* [max_seqs] the sequences of `sched`: running ones, and lanes of beam searches */
    struct seq **lacking;
    size_t n_lacking;
    struct sched_pick *pick;    /* [max_seqs] the plan */
    struct seq **picked;        /* [max_seqs] the sequences of the plan */
    struct executor_want *want; /* [max_seqs] */
    struct executor_rows *rows; /* [max_seqs] the rows of the plan */
    struct masks masks;         /* the sequences whose masks are being made */
    struct late_work late;      /* the threads that make deferred masks (late.h) */
    /* number of running sequences that this step leaves out, because their masks are deferred (late.h) */
    size_t n_late;
    struct step_row *row;           /* [n_rows] the wanted rows of the last step */
    struct sample_top *top;         /* [n_rows, SAMPLING_MAX_LOGPROBS] likeliest tokens of each row */
    struct sample_scratch *sampler; /* [n_samplers] one for each thread */
    size_t n_samplers, n_rows;
    size_t piece, piece_end;  /* elements [piece, piece_end) of `row` are being sampled or pooled */
    struct step_event *event; /* [n_events] events of the last step; next_event is the next to take */
    size_t n_events, cap_events, next_event;
    /* Number of sequences that have never run, counted from step_take_place() on, and the total number of
     * tokens of their prompts. */
    _Atomic size_t n_queued, n_queued_tokens;
    uint64_t n_came; /* number of requests so far */
    uint64_t n_steps, n_prompt_tokens, n_output_tokens, n_finished, n_cached_tokens, n_stored_tokens;
    uint64_t n_preempted, n_recomputed; /* number of preemptions, and of rows that were computed again */
    struct gallop_durations mask;       /* times to compute the masks of constrained answers */
};

/* Opens a loop without sequences. X is borrowed and outlives G. step.guesser may be set afterwards. */
int step_open(struct step *g, const struct executor *x, const struct step_options *o, struct err *e);
/* Frees the sequences that G still owns. */
void step_close(struct step *g);

/* Reserves room in the queue for a sequence with a prompt of N_TOKENS. ERR_NOSPACE: the queue is full. May be
 * called from any thread. */
int step_take_place(struct step *g, size_t n_tokens, struct err *e);

/* Takes ownership of S and its siblings, and queues S. S has an id, and step_take_place() has reserved room for it. */
void step_add(struct step *g, struct seq *s);

/* Ends the sequences with the id ID. Unknown ids are ignored. */
void step_cancel(struct step *g, uint64_t id);
/* Ends the sequences with ids of at most ID. */
void step_cancel_up_to(struct step *g, uint64_t id);

/* Writes the next event of the last step to *EV, valid until the next call of step_take() or step_run().
 * Returns false if no event is left. */
bool step_take(struct step *g, struct step_event *ev);

bool step_has_events(const struct step *g);

/* Runs one step. All events of the previous step must have been taken. Returns false if there are no sequences. */
bool step_run(struct step *g);

/* Returns the number of sequences that wait or are being read from the store. */
size_t step_n_waiting(const struct step *g);
/* Returns the maximum number of requests that run at the same time. */
size_t step_most_running(const struct step *g);
/* Returns the maximum number of rows of a step. */
size_t step_most_rows(const struct step *g);

#endif
