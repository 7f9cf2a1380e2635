/* sample_history.h - what the sampling chain must know of one sequence: which tokens its prompt has, how
 * often each was put out, and what a grammar allows next. Sized when the sequence is made; costs nothing
 * where no penalty asks for it.
 */
#ifndef GALLOP_ENGINE_SAMPLE_HISTORY_H
#define GALLOP_ENGINE_SAMPLE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/sampling.h"

struct sample_history {
    int32_t *id;     /* [n] distinct tokens, in order of appearance */
    uint32_t *count; /* [n] of the output */
    bool *in_prompt; /* [n] */
    size_t n, cap;   /* cap 0: nobody asks */
    uint32_t *slot;  /* [n_slots] 1 + index into id, 0: free; n_slots is a power of two */
    size_t n_slots;
    const uint32_t
        *allowed; /* borrowed: bit id says the next token may be id; NULL: all may. Set before each pick */
};

/* Room for the prompt and MAX_NEW output tokens; all memory comes from A. Ids must lie below N_VOCAB.
 * ERR_NOMEM. */
int sample_history_init(struct sample_history *h, const struct sampling *p, const int32_t *prompt,
                        size_t n_prompt, size_t max_new, size_t n_vocab, struct arena *a, struct err *e);
void sample_history_add(struct sample_history *h, int32_t id);  /* an output token; never allocates */
void sample_history_undo(struct sample_history *h, int32_t id); /* takes one such back (speculation) */

#endif
