/* benchcost.h - what a step must at least move and compute: the numerator of every share of a roof that a
 * benchmark of models prints.
 *
 * Counted is what an ideal machine cannot avoid: weights once a step, rows of the KV cache once for each
 * sequence and layer that sees them (also where layers share them), the products. Activations, tables and
 * what caches could keep are not counted. Of a mixture of experts all experts are.
 */
#ifndef GALLOP_APP_BENCHCOST_H
#define GALLOP_APP_BENCHCOST_H

#include "kv/kv.h"

struct benchcost_model {
    double linear_bytes,
        head_bytes;             /* packed weights without the head, which is read where logits are wanted */
    size_t weight_bytes;        /* of one of their elements */
    size_t n_heads;             /* query heads */
    const struct kv_limits *kv; /* borrowed; layers, windows, heads and type of the rows */
};

struct benchcost {
    double bytes, flops;
};

/* One step: N tokens of each of BATCH sequences, which have POS rows before it; the last WANTED of each give
 * logits. Rows that are written count as rows that are read. */
struct benchcost benchcost_step(const struct benchcost_model *m, size_t pos, size_t n, size_t batch,
                                size_t wanted);

/* STEPS such steps one after the other, from position POS on. */
struct benchcost benchcost_decode(const struct benchcost_model *m, size_t pos, size_t n, size_t batch,
                                  size_t steps);

/* A prompt of N tokens in steps of at most CHUNK; only the last token gives logits. */
struct benchcost benchcost_prefill(const struct benchcost_model *m, size_t n, size_t chunk);

#endif
