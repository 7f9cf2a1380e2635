/* step.h - the engine's loop: takes sequences, gives events, runs one step at a time.
 *
 * A step ends sequences that were cancelled or are overdue, admits waiting sequences by policy, plans how
 * many rows each computes, reserves KV rows for them, runs the executor, samples on its threads, and turns
 * tokens into events. Nothing in it allocates, and nothing walks the list of waiting sequences.
 *
 * Reading ahead: an executor may have a store of KV blocks outside its memory, on a disk for instance. It is
 * asked for the blocks of the next sequence before that is admitted. While the blocks are being read, the
 * sequence is SEQ_READING: it has left the queue and holds neither a slot nor rows, and later sequences may be
 * admitted. It goes back to its place in the queue when the blocks are in memory, or when the time has passed
 * that computing them would take (a tenth of a second at least).
 *
 * Admission: "optimistic" admits a sequence when there is room for the tokens it has and for STEP_AHEAD more
 * blocks for it and for each running sequence; if the cache is full later all the same, the last running
 * sequence by precedence is preempted: its rows are released and it waits again. "worst-case" admits it when
 * there is room for all rows that it and the running sequences may ever need, and preempts nothing (in pooled
 * caches; the others grow in larger units than was counted). A sequence is always admitted when nothing else
 * runs. A fault of one sequence (NaN logits, no memory for its text) ends only that one.
 */
#ifndef GALLOP_ENGINE_STEP_H
#define GALLOP_ENGINE_STEP_H

#include <stdatomic.h>

#include "engine/executor.h"
#include "engine/schedule/cost.h"
#include "engine/schedule/sched.h"
#include "engine/schedule/waiting.h"
#include "engine/seq.h"

enum {
    /* The most rows of a step, unless more sequences are decoding. A cancel takes effect after the current
     * step. */
    STEP_ROWS = 512,
    /* KV blocks that each running sequence must be able to grow by before another one is admitted. */
    STEP_AHEAD = 1,
};

enum step_event_type { STEP_TOKEN, STEP_TEXT, STEP_FINISHED, STEP_PROMPT, STEP_EMBEDDING };

struct step_event {
    enum step_event_type type;
    struct seq *seq; /* FINISHED: the receiver owns and frees it */
    int32_t token;
    float logprob;
    size_t rank;                  /* PROMPT */
    const struct sample_top *top; /* TOKEN, PROMPT: [n_top] likeliest first */
    size_t n_top;
    size_t text, text_len; /* TEXT: range in seq->text */
};

/* A row of the step whose logits or hidden state are used. */
struct step_row {
    struct seq *seq;
    const float *logits; /* [V] */
    /* Position in SEQ of the token that this row predicts. */
    size_t position;
    struct sample_result result;
    int code;
};

struct step_options {
    size_t max_seqs, max_tokens; /* 0, or too large: what the executor allows */
    /* Limits on sequences that have never run, and on the tokens of their prompts. 0: no limit. */
    size_t max_queued, max_queued_tokens;
    enum waiting_policy policy;
    enum sched_order order;
    bool worst_case;
    double target_s;                  /* of a step in which sequences are decoding; 0: no target */
    double step_guess_s, row_guess_s; /* first guesses, see cost_init() */
};

struct step {
    const struct executor *x; /* borrowed */
    struct step_options opt;
    struct waiting waiting;
    struct heap deadlines;
    struct cost cost;
    struct seq **of_id;   /* [STEP_IDS] chains */
    struct seq **running; /* [max_seqs] by precedence */
    size_t n_running;
    struct seq **reading; /* [max_seqs] being read from the store: neither waiting nor running */
    size_t n_reading;
    uint32_t *free_slot; /* [max_seqs] stack */
    size_t n_free;
    struct seq *done, **last_done; /* ended; their FINISHED is not emitted yet */
    struct sched_seq *sched;       /* [max_seqs] */
    struct sched_pick *pick;       /* [max_seqs] */
    struct seq **picked;           /* [max_seqs] */
    struct executor_want *want;    /* [max_seqs] */
    struct executor_rows *rows;    /* [max_seqs] */
    struct seq **masked;           /* [max_seqs] whose next token is constrained, by constraint */
    size_t n_masked;
    struct step_row *row;           /* [rows of a step, at most max_wanted] */
    struct sample_top *top;         /* [rows of a step, SAMPLING_MAX_LOGPROBS] of the last step */
    struct sample_scratch *sampler; /* [n_samplers] one per thread */
    size_t n_samplers, n_rows;
    size_t piece, piece_end;  /* rows [piece, piece_end) are being sampled or pooled */
    struct step_event *event; /* of the last step */
    size_t n_events, cap_events, next_event;
    /* Sequences that have never run and the tokens of their prompts, from step_take_place() on. */
    _Atomic size_t n_queued, n_queued_tokens;
    uint64_t n_came; /* requests so far */
    uint64_t n_steps, n_prompt_tokens, n_output_tokens, n_finished, n_cached_tokens, n_stored_tokens;
    uint64_t n_preempted, n_recomputed; /* preemptions; rows that were computed again */
    struct gallop_durations mask;       /* time to compute the masks of constrained answers */
};

/* Opens a loop without sequences. X is borrowed and outlives G. */
int step_open(struct step *g, const struct executor *x, const struct step_options *o, struct err *e);
/* Frees the sequences that G still owns. */
void step_close(struct step *g);

/* Reserves room in the queue for a sequence of N_TOKENS. ERR_NOSPACE: the queue is full. May be called from
 * any thread. */
int step_take_place(struct step *g, size_t n_tokens, struct err *e);

/* Takes ownership of S and its siblings, and queues S. S has its id, and step_take_place() has reserved its
 * room. */
void step_add(struct step *g, struct seq *s);

void step_cancel(struct step *g, uint64_t id);
void step_cancel_up_to(struct step *g, uint64_t id); /* all ids up to ID */

/* Takes the next event of the last step. False: none is left. *EV is valid until the next call of step_take()
 * or step_run(). */
bool step_take(struct step *g, struct step_event *ev);

bool step_has_events(const struct step *g);

/* Runs one step. All events of the previous step must have been taken. False: there are no sequences. */
bool step_run(struct step *g);

size_t step_n_waiting(const struct step *g);
size_t step_most_rows(const struct step *g); /* most rows of a step */

#endif
