/* op.h - the op sink: the dozen operations that a model is written in.
 *
 * A model calls operators of a sink by name and does not know the implementation. The eager sink (eager.h)
 * computes each operator at once with kernels on the thread pool; another sink may count or record them.
 * Operators return void: everything that can fail is checked when the model is opened. T is the number of
 * rows of the step's batch. Arrays are fp32; a linear rounds its input as its backend needs it
 * (linear_put()).
 */
#ifndef GALLOP_OPS_OP_H
#define GALLOP_OPS_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/kern.h"
#include "ops/batch.h"
#include "ops/linear.h"
#include "ops/rope.h"
#include "tensor/view.h"

struct op_embed {
    /* [rows, E] as stored. */
    struct view table;
    /* An exact linear (linear_is_exact()) with the same numbers, which is read instead of TABLE; or NULL. */
    const struct linear *head;
    /* Added to the index: OPT's positions begin at 2. */
    int32_t offset;
    /* Multiplies the row; 0: the row is not scaled. */
    float scale;
};

struct op_norm {
    /* [n]; NULL: none. */
    float *w, *b;
    size_t n;
    float eps;
    /* True: LayerNorm; false: RMSNorm. */
    bool layer;
};

struct op_attn {
    /* dp is d rounded up to a multiple of 16. */
    size_t n_heads, n_kv, d, dp;
    /* Of the scores; softcap 0: none. */
    float scale, softcap;
    /* A row at position p sees keys with position > p - window; 0: all keys up to p. */
    size_t window;
    /* Rows see later keys of the step as well, within the window; all rows of a sequence come in one step. */
    bool two_sided;
    /* [H] a logit per head that takes part in the softmax (GPT-OSS), or NULL. */
    const float *sinks;
    /* A row at position p sees keys with the same position / chunk (Llama 4); 0: no chunks. */
    size_t chunk;
    /* Index of the model's rope; -1: none. */
    int rope;
    enum rope_pairs pairs;
    /* Norms of each head; NULL: none. */
    const struct op_norm *q_norm, *k_norm, *v_norm;
    /* q *= 1 + temp_scale ln(1 + floor((pos + 1) / temp_floor)); temp_scale 0: none. */
    float temp_scale, temp_floor;
    /* k and v are those that an earlier layer stored; qkv is q alone, [T, H D]. */
    bool shared;
};

struct op_mlp {
    /* [I, E], or gate and up, paired [2 I, E]. */
    struct linear up;
    /* [E, I] */
    struct linear down;
    enum kern_act act;
};

struct moe; /* ops/moe.h */

struct op_sink {
    /* Starts a step: computes the cosines of the batch's rows for every rope of the model. */
    void (*begin)(const struct op_sink *o, const struct rope *ropes, size_t n_ropes, const struct batch *b);
    /* x[T, E] = table[index + offset], or with ADD, x += table[index + offset]. */
    void (*embed)(const struct op_sink *o, float *x, const struct op_embed *w, const int32_t *index, bool add,
                  size_t T);
    /* If r: x += r. h = norm(x).                                                       x, r, h [T, n] */
    void (*norm)(const struct op_sink *o, float *h, float *x, const float *r, const struct op_norm *w,
                 size_t T);
    /* y = x W^T + b                                                          x [T, k], y [T, n] */
    void (*linear)(const struct op_sink *o, float *y, const struct linear *w, const float *x, size_t T);
    /* Applies W's norms of the heads of q, k and v, and q's temperature, in place. */
    void (*heads)(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T);
    /* Rotates q and k of qkv [T, (H + 2 K) D] in place. */
    void (*rope)(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T);
    /* Stores k and v, then a[T, H D] = attention of each row to its sequence up to itself, or, if W is
     * two-sided, up to the sequence's last row in B. */
    void (*attn)(const struct op_sink *o, float *a, const float *qkv, const struct op_attn *w,
                 const struct batch *b, size_t layer);
    /* r[T, E] = down(act(up h)), or down(act(gate h) * (up h)) */
    void (*mlp)(const struct op_sink *o, float *r, const struct op_mlp *w, const float *h, size_t T);
    /* r[T, E] = the weighted sum of the chosen experts for h [T, E]; ROUTE [T, E] is the input of the router
     * (NULL: h). */
    void (*moe)(const struct op_sink *o, float *r, const struct moe *w, const float *h, const float *route,
                size_t T);
    /* out[T, n] = f(gate) * up; rows of GATE and UP are LDG and LDU floats apart. */
    void (*glu)(const struct op_sink *o, float *out, const float *gate, size_t ldg, const float *up,
                size_t ldu, enum kern_act f, size_t n, size_t T);
    /* x *= a.                                                                          [T, n] */
    void (*scale)(const struct op_sink *o, float *x, float a, size_t n, size_t T);
    /* x = cap tanh(x / cap).                                                           [T, n] */
    void (*softcap)(const struct op_sink *o, float *x, float cap, size_t n, size_t T);
    /* x += r.                                                                          [T, n] */
    void (*add)(const struct op_sink *o, float *x, const float *r, size_t n, size_t T);
    /* dst[i] = src[index[i]], rows of N floats; DST and SRC do not overlap. */
    void (*rows)(const struct op_sink *o, float *dst, const float *src, const uint32_t *index, size_t n,
                 size_t n_rows);
    /* logits[n_rows, V] = head(h) */
    void (*logits)(const struct op_sink *o, float *logits, const struct linear *head, const float *h,
                   size_t n_rows);
    /* Copies the residual stream before layer LAYER, x + r (r may be NULL), to a caller that captures hidden
     * states; after the final norm H is given instead. Does nothing if hidden states are not captured. */
    void (*tap)(const struct op_sink *o, size_t layer, const float *x, const float *r, const float *h,
                size_t T);
    void *ctx;
};

#endif
