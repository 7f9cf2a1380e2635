/* timed.h - a sink in front of another that adds up what each kind of operator takes: seconds, and the bytes
 * and operations that it cannot do without.
 *
 * Bytes are those of weights and of rows of the KV cache, which come from memory; activations stay in the
 * caches and are not counted, nor are the scales of int8 rows. Two readings of the clock an operator, which
 * need no system call.
 */
#ifndef GALLOP_OPS_TIMED_H
#define GALLOP_OPS_TIMED_H

#include "ops/op.h"

enum { TIMED_OTHER = OP_N_KINDS, TIMED_N_KINDS }; /* other: embeddings, elementwise operators */

struct timed_kind {
    double seconds, bytes, flops; /* since it was opened */
};

struct timed {
    struct sink sink; /* of the model */
    const struct sink *to;
    const size_t *window, *n_sink; /* [layers] of a sparse cache, NULL: rows see what struct attn says */
    size_t kv_bytes;               /* of an element of the KV cache */
    struct timed_kind kind[TIMED_N_KINDS];
};

/* All pointers are borrowed. WINDOW and N_SINK: as in struct eager_limits. */
void timed_open(struct timed *t, const struct sink *to, enum dtype kv_dtype, const size_t *window,
                const size_t *n_sink);

/* "norm", "qkv_projection", ... "other" */
const char *timed_name(int kind);

#endif
