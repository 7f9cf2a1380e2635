/* sim_executor.h - a simulated executor: it computes no logits, but advances a clock by the expected time of
 * each step.
 *
 * It runs with the engine's step, scheduler, policies and a real KV cache, into which no rows are written,
 * for `gallop simulate` and for tests. The time of a step is
 *
 *   sqrt((bytes of weights / bandwidth)^2 + (flops of the linears / flops)^2)
 *   + max(bytes of earlier rows / bandwidth, flops of attention / flops) + overhead
 *
 * Reading weights and computing with them overlap in part: measured times of steps of 1 to 32 rows are
 * between the larger of the two times and their sum, and close to the root of the sum of their squares
 * (docs/notebook). The rates are sustained rates, not those of a data sheet. In a mixture of experts, a step
 * of n rows reads 1 - (1 - top_k / experts)^n of the experts, the expectation if each row chooses experts at
 * random. The vocabulary has one token, unless the specification has more, all
 * with equal logits. For tests, faults can be injected at random, with a seed: a full
 * cache, exhausted memory, slow steps, runs that fail, and an executor that cannot be opened again.
 */
#ifndef GALLOP_ENGINE_SIM_EXECUTOR_H
#define GALLOP_ENGINE_SIM_EXECUTOR_H

#include "engine/executor.h"
#include "engine/slots.h"
#include "kv/kv.h"

struct sim_executor_spec {
    double bandwidth, flops; /* bytes and floating point operations per second */
    double overhead_s;       /* additional seconds of each step */
    double dense_bytes;      /* bytes of the weights that every step reads, including the head */
    double expert_bytes;     /* bytes of the weights of all experts */
    double n_experts, top_k; /* 0: the model is not a mixture of experts */
    double row_flops;        /* operations of a row in all linears except the head */
    double head_flops;       /* operations of the head for a row with logits */
    double pair_flops;       /* operations of attention for a pair of row and key, in all layers */
    double token_bytes;      /* bytes of the KV rows of a token, in all layers */
    /* Probabilities of faults: reserve() returns ERR_NOSPACE, reserve() returns ERR_NOMEM, a step is slow. */
    double p_no_room, p_no_memory, p_slow;
    /* Probabilities of faults: run() fails and all rows are lost, reopen() fails, reopen() has not finished. */
    double p_dead, p_stays_dead, p_opening;
    uint64_t seed;
    size_t n_vocab; /* tokens of the vocabulary; 0: one */
};

struct sim_executor {
    struct sim_executor_spec spec;
    struct slots slots;
    struct executor x;
    double now_s;
    float *logits; /* [max_wanted, n_vocab] zeros */
    bool is_dead;
    const char *kv_type; /* type of the cache, for reopen() */
    struct kv_limits kv_lim;
    uint64_t n_draws;
};

/* Opens an executor M with the open cache KV, which is borrowed and outlives M. A step has at most MAX_TOKENS rows. */
int sim_executor_open(struct sim_executor *m, const struct sim_executor_spec *spec, struct kv *kv,
                      size_t max_tokens, struct err *e);
void sim_executor_close(struct sim_executor *m); /* M may be zeroed */

#endif
