/* batch.h - what one step computes: the new tokens of some sequences, ragged, without padding.
 *
 * Filled by the engine, read by models and ops, valid for one forward. Tokens of a sequence are contiguous
 * and ascending in position. Where the rows of a sequence lie in the cache is told by tile numbers; who owns
 * them is not known here.
 */
#ifndef GALLOP_OPS_BATCH_H
#define GALLOP_OPS_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/format/kv.h"

struct batch_seq {
    struct kv_view kv;
    size_t first; /* its first row in the batch */
    size_t n;     /* its rows, at least 1 */
    size_t pos;   /* position of its first row = rows already in the cache */
    /* length of its prompt: rope types that depend on lengths use max(n_prompt, position + 1) */
    size_t n_prompt;
    /* tokens known when this forward was planned: decides short or long factors of longrope */
    size_t n_total;
};

struct batch {
    size_t n_tokens, n_seqs, n_wanted;
    const int32_t *id;           /* [T] */
    const int32_t *pos;          /* [T] */
    const struct batch_seq *seq; /* [n_seqs] */
    const uint32_t *wanted;      /* [n_wanted] rows that go through the last norm, ascending */
    float *logits;               /* [n_wanted, V] out */
    bool hidden_only;            /* no logits are asked for, only the hidden states of the wanted rows */
};

#endif
