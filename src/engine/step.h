/* step.h - the engine's loop: sequences in, events out, one step at a time.
 *
 * A step admits waiting sequences, asks the scheduler who computes what, reserves rows, runs the batch,
 * samples, and turns tokens into events. Finished sequences leave at once. When the cache is full the
 * youngest running sequence gives its rows back and is computed again later. A fault of one sequence (NaN
 * logits, no memory for its text) ends that one.
 */
#ifndef GALLOP_ENGINE_STEP_H
#define GALLOP_ENGINE_STEP_H

#include <stdatomic.h>

#include "engine/llm.h"
#include "engine/sched.h"
#include "engine/seq.h"

enum step_event_type { STEP_TOKEN, STEP_TEXT, STEP_FINISHED };

struct step_event {
    enum step_event_type type;
    struct seq *seq; /* of FINISHED: the receiver frees it */
    int32_t token;
    float logprob;
    const struct sample_top *top; /* TOKEN: [n_top] likeliest first */
    size_t n_top;
    size_t text, text_len; /* TEXT: range in step.text */
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
    struct llm_rows *rows;        /* [max_seqs] */
    struct sample_result *result; /* [max_seqs] */
    int *result_code;             /* [max_seqs] */
    struct step_event *event;     /* of the last step */
    size_t n_events, cap_events, next_event;
    struct buf text;        /* bytes of the last step's TEXT events */
    struct sample_top *top; /* [max_seqs, SAMPLING_MAX_LOGPROBS] of the last step's tokens */
    uint64_t n_steps, n_prompt_tokens, n_output_tokens, n_finished;
};

int step_open(struct step *g, struct llm *m, struct err *e);
void step_close(struct step *g); /* frees the sequences it still holds */

/* Takes S over. ERR_NOMEM: S stays the caller's. */
int step_add(struct step *g, struct seq *s, struct err *e);

/* True if an event was taken; computes when none is left. False: nothing to do. The event and its ranges are
 * valid until the next call. */
bool step_next(struct step *g, struct step_event *ev);

#endif
