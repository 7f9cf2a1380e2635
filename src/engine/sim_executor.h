/* sim_executor.h - an executor that computes nothing: it has given rates, a simulated clock and a real KV
 * cache into which no rows are written.
 *
 * It drives the same step, scheduler, policies and caches as a model does, for `gallop simulate` and for
 * tests. A step takes
 *
 *   sqrt((bytes of weights / bandwidth)^2 + (flops of the linears / flops)^2)
 *   + max(bytes of earlier rows / bandwidth, flops of attention / flops) + overhead
 *
 * Reading weights and computing with them overlap in part: measured steps of 1 to 32 rows lie between the
 * larger of the two and their sum, and near the root of the sum of their squares (docs/notebook). The
 * rates are those that a machine reaches, not those of its data sheet. In a mixture of experts, a step of n
 * rows reads the share 1 - (1 - top_k / experts)^n of the experts, as if each row chose at random. All logits
 * are equal, so each token is 0. Faults occur at random (seeded): no room where there is some, no memory,
 * slow steps.
 */
#ifndef GALLOP_ENGINE_SIM_EXECUTOR_H
#define GALLOP_ENGINE_SIM_EXECUTOR_H

#include "engine/executor.h"
#include "engine/slots.h"

struct sim_executor_spec {
    double bandwidth, flops; /* bytes and floating point operations per second */
    double overhead_s;       /* per step */
    double dense_bytes;      /* weights that every step reads */
    double expert_bytes;     /* weights of all experts */
    double n_experts, top_k; /* 0: not a mixture of experts */
    double row_flops;        /* of a row in all linears */
    /* Of a row with logits. The bytes of the head are among the dense ones. */
    double head_flops;
    double pair_flops;  /* of a pair of row and key, in all layers */
    double token_bytes; /* KV rows of a token, in all layers */
    /* Chances of faults: a reserve without room, a reserve without memory, a slow step. */
    double p_no_room, p_no_memory, p_slow;
    uint64_t seed;
};

struct sim_executor {
    struct sim_executor_spec spec;
    struct slots slots;
    struct executor x;
    double now_s;
    float *logits; /* [max_wanted] */
    uint64_t n_draws;
};

/* KV is borrowed, open, and outlives M. A step has at most MAX_TOKENS rows. */
int sim_executor_open(struct sim_executor *m, const struct sim_executor_spec *spec, struct kv *kv,
                      size_t max_tokens, struct err *e);
void sim_executor_close(struct sim_executor *m); /* a zeroed one is fine */

#endif
