/* op.h - the op sink: the dozen operators that a model is written in.
 *
 * A model calls the operators of a sink by name and does not know their implementation. The eager sink
 * (eager.h) computes each operator at once with kernels on the thread pool; another sink may count or record
 * the calls. Operators return void: every error is found when the model is opened. T is the number of rows of
 * the step's batch. Arrays are fp32; a linear rounds its input as its backend needs it (linear_put()).
 */
#ifndef GALLOP_OPS_OP_H
#define GALLOP_OPS_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/linear.h"
#include "ops/rope.h"
#include "tensor/view.h"

struct batch;

/* An embedding. */
struct op_embed {
    /* The table, [rows, E], as it is stored in the checkpoint. */
    struct view table;
    /* An exact linear (linear_is_exact()) with the same weights, read instead of TABLE; or NULL. */
    const struct linear *head;
    /* This number is added to each index; 2 for the positions of OPT. */
    int32_t offset;
    /* This number multiplies the row; 0: no scaling. */
    float scale;
};

struct op_norm {
    /* The name of the Hugging Face module, borrowed; NULL: a norm without weights. */
    const char *name;
    /* Weights and bias, [n] each; NULL: none. */
    float *w, *b;
    size_t n;
    float eps;
    /* True for LayerNorm, false for RMSNorm. */
    bool layer;
};

struct op_attn {
    /* Numbers of query heads and of KV heads; head size, and head size rounded up to a multiple of 16. */
    size_t n_heads, n_kv, d, dp;
    /* The number that scales the scores, and their soft cap (0: none). */
    float scale, softcap;
    /* A row at position p sees keys with position > p - window; 0: all keys up to p. */
    size_t window;
    /* Rows see later keys as well, within the window. A sequence is then computed in one step. */
    bool two_sided;
    /* One logit for each head, [H], that takes part in its softmax (GPT-OSS); NULL: none. */
    const float *sinks;
    /* A row at position p sees keys with the same position / chunk (Llama 4); 0: no chunks. */
    size_t chunk;
    /* Index into the model's ropes; -1: no RoPE. */
    int rope;
    enum rope_pairs pairs;
    /* Norms of each head of q, k and v; NULL: none. */
    const struct op_norm *q_norm, *k_norm, *v_norm;
    /* q *= 1 + temp_scale ln(1 + floor((pos + 1) / temp_floor)); temp_scale 0: none. */
    float temp_scale, temp_floor;
    /* The layer reads k and v that an earlier layer stored; qkv holds q alone, [T, H D]. */
    bool shared;
};

struct op_mlp {
    /* The up linear, [I, E], or gate and up in pairs of columns, [2 I, E]. */
    struct linear up;
    /* The down linear, [E, I]. */
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
    /* x, r, h [T, n]. If r is not NULL, x += r; then h = norm(x). */
    void (*norm)(const struct op_sink *o, float *h, float *x, const float *r, const struct op_norm *w,
                 size_t T);
    /* x [T, k], y [T, n]: y = x W^T + b. */
    void (*linear)(const struct op_sink *o, float *y, const struct linear *w, const float *x, size_t T);
    /* Applies the norms of W to the heads of q, k and v, and the temperature to q, in place. */
    void (*heads)(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T);
    /* Applies RoPE to q and k of qkv [T, (H + 2 K) D], in place. */
    void (*rope)(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T);
    /* Stores k and v in the cache. Then a[T, H D] = attention of each row to its sequence up to the row
     * itself, or, if W is two-sided, up to the last row of the sequence in B. */
    void (*attn)(const struct op_sink *o, float *a, const float *qkv, const struct op_attn *w,
                 const struct batch *b, size_t layer);
    /* r[T, E] = down(act(up h)), or down(act(gate h) * (up h)) if W is gated. */
    void (*mlp)(const struct op_sink *o, float *r, const struct op_mlp *w, const float *h, size_t T);
    /* r[T, E] = the weighted sum of the chosen experts of h; ROUTE [T, E] is the router's input (NULL: h). */
    void (*moe)(const struct op_sink *o, float *r, const struct moe *w, const float *h, const float *route,
                size_t T);
    /* out[T, n] = f(gate) * up; the rows of GATE and UP begin LDG and LDU floats apart. */
    void (*glu)(const struct op_sink *o, float *out, const float *gate, size_t ldg, const float *up,
                size_t ldu, enum kern_act f, size_t n, size_t T);
    /* x[T, n] *= a. */
    void (*scale)(const struct op_sink *o, float *x, float a, size_t n, size_t T);
    /* x[T, n] = cap tanh(x / cap). */
    void (*softcap)(const struct op_sink *o, float *x, float cap, size_t n, size_t T);
    /* x[T, n] += r. */
    void (*add)(const struct op_sink *o, float *x, const float *r, size_t n, size_t T);
    /* dst[i] = src[index[i]], rows of N floats; DST and SRC do not overlap. */
    void (*rows)(const struct op_sink *o, float *dst, const float *src, const uint32_t *index, size_t n,
                 size_t n_rows);
    /* logits[n_rows, V] = head(h), for h [n_rows, E]. */
    void (*logits)(const struct op_sink *o, float *logits, const struct linear *head, const float *h,
                   size_t n_rows);
    /* If the caller captures hidden states, copies x + r, the residual stream before layer LAYER (r may be
     * NULL). After the final norm H is copied instead; before, H is NULL. */
    void (*tap)(const struct op_sink *o, size_t layer, const float *x, const float *r, const float *h,
                size_t T);
    void *ctx;
};

#endif
