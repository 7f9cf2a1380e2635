/* step.h - the engine's loop: sequences in, events out, one step at a time.
 *
 * A step admits waiting sequences, asks the scheduler who computes what, reserves rows, runs the batch,
 * samples, and turns tokens into events. Finished sequences leave at once. A sequence is admitted, in order
 * of arrival, when the cache has room for the tokens it has and for STEP_AHEAD blocks more of it and of each
 * that runs; the first one always is. When the cache is full all the same, the youngest running sequence
 * gives its rows back and waits until it is admitted again. A fault of one sequence (NaN logits, no memory
 * for its text) ends that one.
 */
#ifndef GALLOP_ENGINE_STEP_H
#define GALLOP_ENGINE_STEP_H

#include <stdatomic.h>

#include "engine/llm.h"
#include "engine/sched.h"
#include "engine/seq.h"

enum {
    STEP_ROWS = 512, /* of a step at most, unless more sequences decode: a cancel is seen behind them */
    STEP_AHEAD = 1,  /* blocks that each running sequence may grow by before others have to leave */
};

enum step_event_type { STEP_TOKEN, STEP_TEXT, STEP_FINISHED };

struct step_event {
    enum step_event_type type;
    struct seq *seq; /* of FINISHED: the receiver frees it */
    int32_t token;
    float logprob;
    const struct sample_top *top; /* TOKEN: [n_top] likeliest first */
    size_t n_top;
    size_t text, text_len; /* TEXT: range in seq->text */
};

struct step {
    struct llm *llm; /* borrowed */
    struct sampler sampler;
    struct seq *first, **last; /* all sequences that are not done, in order of arrival */
    size_t n_waiting, n_running;
    bool *slot_used;              /* [max_seqs] */
    struct seq **active;          /* [max_seqs] running, in order of arrival */
    struct sched_seq *sched;      /* [max_seqs] */
    struct sched_pick *pick;      /* [max_seqs] */
    struct kv_want *want;         /* [max_seqs] */
    struct llm_rows *rows;        /* [max_seqs] */
    struct sample_result *result; /* [max_seqs] */
    int *result_code;             /* [max_seqs] */
    struct step_event *event;     /* of the last step */
    size_t n_events, cap_events, next_event;
    struct sample_top *top; /* [max_seqs, SAMPLING_MAX_LOGPROBS] of the last step's tokens */
    uint64_t n_steps, n_prompt_tokens, n_output_tokens, n_finished;
    uint64_t n_preempted, n_recomputed; /* preempted sequences; rows computed once more */
};

int step_open(struct step *g, struct llm *m, struct err *e);
void step_close(struct step *g); /* frees the sequences it still holds */

/* Takes S over. ERR_NOMEM: S stays the caller's. */
int step_add(struct step *g, struct seq *s, struct err *e);

/* Takes the next event of the last step; false: none is left. It is valid until the next call of either. */
bool step_take(struct step *g, struct step_event *ev);

/* Computes one step, when all events of the last are taken. False: no sequence is there. */
bool step_run(struct step *g);

#endif
