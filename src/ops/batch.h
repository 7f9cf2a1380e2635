/* batch.h - the batch: the new tokens of some sequences that one step computes, ragged, without padding.
 *
 * The engine fills a batch, models and operators read it, and it is valid for one forward pass. Tokens of a
 * sequence are contiguous and ascending in position.
 */
#ifndef GALLOP_OPS_BATCH_H
#define GALLOP_OPS_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/format/kv.h"

/* One sequence of a batch. */
struct batch_seq {
    struct kv_view kv;
    /* The sequence's first row in the batch and the number of its rows, at least 1. */
    size_t first;
    size_t n;
    /* Position of the first row, which is the number of rows already in the cache. */
    size_t pos;
    /* Length of the prompt: rope types that depend on a length use max(n_prompt, position + 1). */
    size_t n_prompt;
    /* Number of tokens known when the step was planned; longrope chooses its short or long factors by it. */
    size_t n_total;
};

struct batch {
    size_t n_tokens, n_seqs, n_wanted;
    const int32_t *id;           /* the token ids, [T] */
    const int32_t *pos;          /* the positions of the tokens, [T] */
    const struct batch_seq *seq; /* the sequences, [n_seqs] */
    /* The rows whose logits or hidden states are needed, [n_wanted], ascending. */
    const uint32_t *wanted;
    /* The result of the forward pass, [n_wanted, V]. */
    float *logits;
    /* True if the hidden states of the wanted rows are needed and their logits are not. */
    bool hidden_only;
};

#endif
