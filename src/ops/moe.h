/* moe.h - a mixture of experts: a router, and per expert a gated MLP of which only the chosen are computed.
 *
 * The router computes in fp32 always. Of one token the experts' results are added in ascending order of the
 * experts' numbers, so that they do not depend on what else is in the batch. Experts whose gate and up rows
 * are stored interleaved (GPT-OSS) are put in order when they are packed: here gate always comes first.
 */
#ifndef GALLOP_OPS_MOE_H
#define GALLOP_OPS_MOE_H

#include "ops/op.h"

enum { MOE_MAX_EXPERTS = 4096, MOE_MAX_TOP_K = 64 };

/* How the K largest router logits become weights (of equal ones the lower expert wins). */
enum moe_gate {
    MOE_SOFTMAX_ALL,    /* softmax over all experts, then the K largest (Mixtral, Qwen) */
    MOE_SOFTMAX_CHOSEN, /* softmax over the K chosen logits alone (GPT-OSS) */
    MOE_SIGMOID         /* sigmoid of each chosen logit (Llama 4) */
};

struct expert {
    struct linear up;   /* gate and up: [2 I, E]; paired unless there is a limit */
    struct linear down; /* [E, I] */
};

struct moe {
    struct linear router;  /* [n_experts, E], fp32 */
    struct expert *expert; /* [n_experts] */
    size_t n_experts, top_k, inner;
    enum moe_gate gate;
    bool renorm;      /* weights are divided by their sum */
    bool scale_input; /* the weight multiplies what goes into the expert, not what comes out (Llama 4) */
    const float *expert_scale; /* [n_experts] multiplies the weights; borrowed; NULL: none */
    enum kern_act act;         /* f(gate) * up */
    float limit;               /* > 0: instead gate = min(gate, limit), up = clamp(up, +-limit),
                            (up + 1) * gate * sigmoid(alpha gate) (GPT-OSS) */
    float alpha;
};

#endif
