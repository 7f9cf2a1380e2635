/* moe.h - a mixture of experts: a router, and gated MLPs (experts), of which only the chosen ones are
 * computed.
 *
 * The router always computes in fp32. The experts' results for a token are added in ascending order of the
 * experts' indices, so that they do not depend on the rest of the batch. Interleaved rows of gate and up
 * (GPT-OSS) are reordered when they are packed: gate always comes first.
 */
#ifndef GALLOP_OPS_MOE_H
#define GALLOP_OPS_MOE_H

#include <stdbool.h>
#include <stddef.h>

#include "kern/vector.h"
#include "ops/linear.h"

enum { MOE_MAX_EXPERTS = 4096, MOE_MAX_TOP_K = 64 };

/* How the K largest router logits become weights. Of equal logits, the lower expert is chosen. */
enum moe_gate {
    /* Softmax over all experts, of which the K largest are taken (Mixtral, Qwen). */
    MOE_SOFTMAX_ALL,
    /* Softmax over the K chosen logits (GPT-OSS). */
    MOE_SOFTMAX_CHOSEN,
    /* Sigmoid of each chosen logit (Llama 4). */
    MOE_SIGMOID
};

struct moe_expert {
    /* Gate and up, [2 I, E]; packed in pairs of columns unless moe.limit is set. */
    struct linear up;
    /* The down linear, [E, I]. */
    struct linear down;
};

struct moe {
    struct linear router;      /* [n_experts, E], fp32 */
    struct moe_expert *expert; /* the experts, [n_experts] */
    size_t n_experts, top_k, inner;
    enum moe_gate gate;
    /* True if the weights of a token are divided by their sum. */
    bool renorm;
    /* True if the weight multiplies the input of the expert instead of its result (Llama 4). */
    bool scale_input;
    /* Numbers that multiply the weights of each expert, [n_experts]; borrowed; NULL: none. */
    const float *expert_scale;
    /* An expert computes act(gate) * up if LIMIT is 0. If LIMIT > 0 (GPT-OSS), it computes (up + 1) * gate *
     * sigmoid(alpha * gate) with gate = min(gate, limit) and up = clamp(up, -limit, limit). */
    enum kern_act act;
    float limit;
    float alpha;
};

#endif
