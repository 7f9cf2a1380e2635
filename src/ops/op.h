/* op.h - the op sink: the dozen operations that a model is written in.
 *
 * A model issues ops by name to a sink and never asks who runs them. The eager sink (eager.h) runs each at
 * once on the kernels and the thread pool; others may record or dump. Ops return void: everything that can
 * fail was proved when the model was opened. T counts rows of the step's batch. All of it is fp32; a linear
 * rounds its input as its backend wants it (linear_put).
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

struct embed {
    struct view table;         /* [rows, E] as stored */
    const struct linear *head; /* the same numbers, exact (linear.h): read in place of it; NULL: none */
    int32_t offset;            /* added to the index (OPT's positions begin at 2) */
    float scale;               /* the row is multiplied by it; 0: as it is */
};

struct norm {
    float *w, *b; /* [n]; NULL: none */
    size_t n;
    float eps;
    bool layer; /* LayerNorm, else RMSNorm */
};

enum rope_pairs { ROPE_PAIRS_HALF, ROPE_PAIRS_NEXT }; /* (i, i + half) as Llama, or (2i, 2i + 1) as GPT-J */

struct attn {
    size_t n_heads, n_kv, d, dp; /* dp: d rounded up to 16 */
    float scale, softcap;        /* softcap 0: none */
    size_t window;               /* 0: all; else keys with position > own - window */
    bool two_sided;     /* rows see later keys of the step, too, within the window: a sequence comes whole */
    const float *sinks; /* [H] or NULL */
    size_t chunk;       /* 0: all; else keys with position / chunk equal to the own (Llama 4) */
    int rope;           /* index of the model's rope, -1: none */
    enum rope_pairs pairs;
    const struct norm *q_norm, *k_norm, *v_norm; /* of each head, NULL: none */
    float temp_scale, temp_floor; /* q *= 1 + temp_scale ln(1 + floor((pos + 1) / temp_floor)); 0: none */
    bool shared; /* k and v are those that an earlier layer stored: qkv is q alone, [T, H D] */
};

struct mlp {
    struct linear up;   /* [I, E]; or gate and up, paired [2 I, E] */
    struct linear down; /* [E, I] */
    enum kern_act act;
};

struct moe; /* ops/moe.h */

struct sink {
    /* Starts a step: cosines of the batch's rows for every rope of the model. */
    void (*begin)(const struct sink *o, const struct rope *ropes, size_t n_ropes, const struct batch *b);
    /* x[T, E] = table[index + offset] (ADD: x += ...) */
    void (*embed)(const struct sink *o, float *x, const struct embed *w, const int32_t *index, bool add,
                  size_t T);
    /* If r: x += r. h = norm(x).                                                       x, r, h [T, n] */
    void (*norm)(const struct sink *o, float *h, float *x, const float *r, const struct norm *w, size_t T);
    /* y = x W^T + b                                                          x [T, k], y [T, n] */
    void (*linear)(const struct sink *o, float *y, const struct linear *w, const float *x, size_t T);
    /* Per-head norms of q, k and v, those that W has, and q's temperature; in place. */
    void (*heads)(const struct sink *o, float *qkv, const struct attn *w, size_t T);
    /* Rotates q and k of qkv [T, (H + 2 K) D] in place. */
    void (*rope)(const struct sink *o, float *qkv, const struct attn *w, size_t T);
    /* Stores k and v, then a[T, H D] = attention of each row over its own sequence up to itself, or where W
     * is two-sided to the sequence's last row in B. */
    void (*attn)(const struct sink *o, float *a, const float *qkv, const struct attn *w,
                 const struct batch *b, size_t layer);
    /* r[T, E] = down(act(up h)), or down(act(gate h) * (up h)) */
    void (*mlp)(const struct sink *o, float *r, const struct mlp *w, const float *h, size_t T);
    /* r[T, E] = the chosen experts' sum for h [T, E], routed by ROUTE [T, E] (NULL: by h). */
    void (*moe)(const struct sink *o, float *r, const struct moe *w, const float *h, const float *route,
                size_t T);
    /* out[T, n] = f(gate) * up; rows of gate and up are ldg and ldu floats apart. */
    void (*glu)(const struct sink *o, float *out, const float *gate, size_t ldg, const float *up, size_t ldu,
                enum kern_act f, size_t n, size_t T);
    /* x *= a.                                                                          [T, n] */
    void (*scale)(const struct sink *o, float *x, float a, size_t n, size_t T);
    /* x = cap tanh(x / cap).                                                           [T, n] */
    void (*softcap)(const struct sink *o, float *x, float cap, size_t n, size_t T);
    /* x += r, nothing else.                                                            [T, n] */
    void (*add)(const struct sink *o, float *x, const float *r, size_t n, size_t T);
    /* dst[i] = src[index[i]], rows of N floats; dst may not overlap src. */
    void (*rows)(const struct sink *o, float *dst, const float *src, const uint32_t *index, size_t n,
                 size_t n_rows);
    /* logits[n_rows, V] = head(h) */
    void (*logits)(const struct sink *o, float *logits, const struct linear *head, const float *h,
                   size_t n_rows);
    /* The residual stream in front of layer LAYER is x + r (r may be NULL); after the final norm H is given
     * instead. For those who asked to see hidden states; does nothing otherwise. */
    void (*tap)(const struct sink *o, size_t layer, const float *x, const float *r, const float *h, size_t T);
    void *ctx;
};

#endif
