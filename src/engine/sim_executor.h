/* sim_executor.h - an executor that computes nothing: a machine of stated rates, with a clock of its own and
 * a real KV cache, whose rows nobody writes.
 *
 * It drives the same step, scheduler, policies and caches as a model does, for the simulator and for tests. A
 * step takes
 *
 *   sqrt((bytes of weights / bandwidth)^2 + (flops of the linears / flops)^2)
 *   + max(bytes of rows in front / bandwidth, flops of attention / flops) + overhead
 *
 * Reading weights and computing with them overlap in part: measured steps of 1 to 32 rows lie between the
 * larger of the two and their sum, and near the root of their squares (docs/notebook). The rates
 * are those that a machine reaches, not those of its data sheet. Of a mixture's experts a step of n rows
 * reads the share 1 - (1 - top_k / experts)^n, as if each row chose by chance. All logits are one number, so
 * each token is 0. Faults by chance (seeded): no room where there is some, no memory, steps that take much
 * longer.
 */
#ifndef GALLOP_ENGINE_SIM_EXECUTOR_H
#define GALLOP_ENGINE_SIM_EXECUTOR_H

#include "engine/executor.h"
#include "engine/slots.h"

struct sim_executor_spec {
    double bandwidth, flops; /* bytes and floating point operations a second */
    double overhead_s;       /* of a step */
    double dense_bytes;      /* of weights that every step reads */
    double expert_bytes;     /* of all experts' weights */
    double n_experts, top_k; /* 0: no mixture */
    double row_flops;        /* of a row in all linears */
    double head_flops;       /* of a row whose logits are wanted; its bytes are among the dense ones */
    double pair_flops;       /* of a row and a key, in all layers */
    double token_bytes;      /* of the KV rows of a token, in all layers */
    double p_no_room, p_no_memory, p_slow; /* chance of a fault: of a reserve twice, of a step */
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

/* KV is borrowed, open, and outlives the machine; MAX_TOKENS rows a step. */
int sim_executor_open(struct sim_executor *m, const struct sim_executor_spec *spec, struct kv *kv,
                      size_t max_tokens, struct err *e);
void sim_executor_close(struct sim_executor *m); /* a zeroed one is fine */

#endif
