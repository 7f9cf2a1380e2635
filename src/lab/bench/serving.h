/* serving.h - the statistics of serving: time to first token, inter-token latency, throughput, prefix-cache hits.
 *
 * Records the times of each request, by a real or a simulated clock, and computes statistics with the names and
 * definitions of `vllm bench serve`: ttft from sending (when a request is due and may be sent) to the first token;
 * tpot (last - first) / (tokens - 1) of requests with two or more tokens; itl the times between tokens; e2el from
 * sending to the last token. Additions to vLLM's are the hits of the prefix cache, and full_batch_throughput: tokens
 * per second in the steps with the maximum number of sequences (full_batch), without the beginning and the end of a
 * load. */
#ifndef GALLOP_LAB_BENCH_SERVING_H
#define GALLOP_LAB_BENCH_SERVING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/step.h"
#include "lab/bench/traffic.h"

struct serving_request {
    double sent_s, first_s, last_s; /* clock; the last two are set if there are tokens */
    size_t n_output, n_cached;
    bool ended, failed;
};

struct serving {
    struct traffic *traffic;         /* borrowed */
    struct serving_request *request; /* [traffic->n] */
    double *gap;                     /* [n_gaps] seconds */
    size_t n_gaps, cap_gaps;
    size_t n_sent, n_ended, n_failed, n_too_long, most_open;
    size_t places; /* maximum number of open requests; SIZE_MAX: no limit */
    size_t n_computed,
        n_told; /* open while the last step was computed, and when all that came of it was told */
    size_t n_second, most_a_second;       /* tokens of the current second, of the best second */
    size_t n_streams;                     /* sequences that have their first token and not their last */
    size_t n_step_streams, n_step_tokens; /* sequences when the step began; tokens of the step */
    size_t n_full,
        n_full_tokens;     /* the most streams there were; tokens of the steps that began with as many */
    double full_s, step_s; /* time of those steps; end of the last step */
    double token_s, end_s; /* time of the last token; of the last event */
};

/* At most PLACES requests are open at once. */
int serving_open(struct serving *s, struct traffic *t, size_t places, struct err *e);
void serving_close(struct serving *s);

/* Records that request I is sent at NOW. False: prompt and answer exceed MAX_LEN tokens, and it has failed. */
bool serving_sent(struct serving *s, size_t i, double now_s, size_t max_len);

/* Returns when the next request, which was due at DUE_S, could be sent: DUE_S if a place was free during the last step
 * and still is, else the end of that step, which freed it. */
double serving_place(const struct serving *s, double due_s);

/* Records that a step was computed; its events follow. */
void serving_computed(struct serving *s);

/* Records that request I got a TOKEN at NOW. ERR_NOMEM: the time between tokens is lost. */
int serving_token(struct serving *s, size_t i, int32_t token, double now_s);

/* Records that the events of the step that ended at NOW are complete. */
void serving_step(struct serving *s, double now_s);
void serving_ended(struct serving *s, size_t i, double now_s, size_t n_cached, bool failed);

/* Limits of goodput in seconds; 0: none. */
struct serving_limits {
    double ttft_s, tpot_s, e2el_s;
};

/* Returns the statistics with percentiles at P [n_p] percent, as a new reference; NULL: out of memory. Sorts the
 * gaps. */
json_t *serving_summary(const struct serving *s, const struct serving_limits *lim, const double *p,
                        size_t n_p);

/* Prints O as JSON, or as a table of the most important values, and releases it. MAX_LEN as in serving_sent(). */
void serving_print(json_t *o, size_t max_len, bool json);

#endif
