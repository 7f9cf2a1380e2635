/* step.h - the engine's loop: sequences in, events out, one step at a time.
 *
 * A step ends what was cancelled or is overdue, admits waiting sequences by policy, plans who computes what,
 * takes rows for them, runs the executor, samples on its threads, and turns tokens into events. Nothing in it
 * allocates, and nothing walks the sequences that wait.
 *
 * Reading ahead: an executor may have rows of a sequence outside its memory, on a disk for instance. It is
 * asked for them before the sequence that is next is admitted. While it reads them the sequence is "aside":
 * it has left the queue and holds neither a slot nor rows, and those behind it may be admitted. It goes back
 * to its place in the queue when the rows are in memory, or when the time has passed that computing them
 * would take (a tenth of a second at least).
 *
 * Admission: "optimistic" admits a sequence when there is room for the tokens it has and for STEP_AHEAD
 * blocks more of it and of each that runs; when the cache is full all the same, the last running sequence by
 * precedence gives its rows back and waits again. "worst-case" admits it when there is room for all that it
 * and those that run may ever need: nothing is preempted (in pooled caches; others grow ahead of what is
 * promised). A sequence alone is always admitted. A fault of one sequence (NaN logits, no memory for its
 * text) ends that one.
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
    STEP_ROWS = 512, /* of a step at most, unless more sequences decode: a cancel is seen behind them */
    STEP_AHEAD = 1,  /* blocks that each running sequence may grow by before others have to leave */
};

enum step_event_type { STEP_TOKEN, STEP_TEXT, STEP_FINISHED, STEP_PROMPT, STEP_EMBEDDING };

struct step_event {
    enum step_event_type type;
    struct seq *seq; /* of FINISHED: the receiver frees it */
    int32_t token;
    float logprob;
    size_t rank;                  /* PROMPT */
    const struct sample_top *top; /* TOKEN, PROMPT: [n_top] likeliest first */
    size_t n_top;
    size_t text, text_len; /* TEXT: range in seq->text */
};

/* A choice between what a row of logits allows. */
struct step_row {
    struct seq *seq;
    const float *logits; /* [V] */
    size_t position;     /* in the sequence, of the token that the row foretells */
    struct sample_result result;
    int code;
};

struct step_options {
    size_t max_seqs, max_tokens; /* at most what the executor allows; 0: that */
    size_t max_queued,
        max_queued_tokens; /* sequences that have never run, and tokens of their prompts; 0: any */
    enum waiting_policy policy;
    enum sched_order order;
    bool worst_case;
    double target_s;                  /* of a step in which streams go on; 0: any time */
    double step_guess_s, row_guess_s; /* cost_init() */
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
    struct seq **aside; /* [max_seqs] neither waiting nor running: rows of theirs are read ahead */
    size_t n_aside;
    uint32_t *free_slot; /* [max_seqs] stack */
    size_t n_free;
    struct seq *done, **last_done; /* whose FINISHED is not taken yet */
    struct sched_seq *sched;       /* [max_seqs] */
    struct sched_pick *pick;       /* [max_seqs] */
    struct seq **picked;           /* [max_seqs] */
    struct executor_want *want;    /* [max_seqs] */
    struct executor_rows *rows;    /* [max_seqs] */
    struct step_row *row;          /* [rows of a step, at most max_wanted] */
    struct sample_top *top;        /* [as many, SAMPLING_MAX_LOGPROBS] of the last step's rows */
    struct sampler *sampler;       /* [n_samplers] one a thread */
    size_t n_samplers, n_rows;
    size_t piece, piece_end;  /* rows [piece, piece_end) are those whose logits are there */
    struct step_event *event; /* of the last step */
    size_t n_events, cap_events, next_event;
    _Atomic size_t n_queued, n_queued_tokens; /* of sequences at the door and behind it that have never run */
    uint64_t n_came;                          /* requests */
    uint64_t n_steps, n_prompt_tokens, n_output_tokens, n_finished, n_cached_tokens, n_stored_tokens;
    uint64_t n_preempted, n_recomputed; /* sequences put back; rows computed once more */
};

/* X is borrowed and outlives G. */
int step_open(struct step *g, const struct executor *x, const struct step_options *o, struct err *e);
void step_close(struct step *g); /* frees the sequences it still holds */

/* From any thread: takes a place for a sequence of N_TOKENS in the queue. ERR_NOSPACE: it is full. */
int step_take_place(struct step *g, size_t n_tokens, struct err *e);

/* Takes S over, with its siblings. It has its id and its place. */
void step_add(struct step *g, struct seq *s);

void step_cancel(struct step *g, uint64_t id);
void step_cancel_up_to(struct step *g, uint64_t id); /* all ids up to it */

/* Takes the next event of the last step; false: none is left. It is valid until the next call of either. */
bool step_take(struct step *g, struct step_event *ev);

bool step_has_events(const struct step *g);

/* Computes one step, when all events of the last are taken. False: no sequence is there. */
bool step_run(struct step *g);

size_t step_n_waiting(const struct step *g);
size_t step_most_rows(const struct step *g); /* of a step */

#endif
