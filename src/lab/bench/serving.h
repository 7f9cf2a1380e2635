/* serving.h - the statistics of serving: time to first token, inter-token latency, throughput, prefix-cache
 * hits.
 *
 * Records the times of each request, by a real or a simulated clock, and computes statistics with the
 * names and definitions of `vllm bench serve`. The time of sending is the time at which a request is due
 * and --max-concurrency allows it.
 *
 *   ttft   time from sending to the first token
 *   tpot   (time of the last token - time of the first) / (tokens - 1), of answers with two or more tokens
 *   itl    times between two successive tokens
 *   e2el   time from sending to the last token
 *
 * Two statistics are not in vLLM: the hits of the prefix cache, and full_batch_throughput: tokens per
 * second of the steps with the largest number of sequences (full_batch), which excludes the beginning and
 * the end of a load. */
#ifndef GALLOP_LAB_BENCH_SERVING_H
#define GALLOP_LAB_BENCH_SERVING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct traffic;

struct serving_request {
    double sent_s;          /* time at which the request was sent */
    double first_s, last_s; /* times of the first and last token; set if n_output > 0 */
    size_t n_output, n_cached;
    bool ended, failed;
};

/* The records of a load. A request is open from sending to its end. */
struct serving {
    struct traffic *traffic;         /* borrowed */
    struct serving_request *request; /* [traffic->n] */
    double *gap;                     /* [n_gaps] times between two tokens in seconds */
    size_t n_gaps, cap_gaps;
    size_t n_sent, n_ended, n_failed, n_too_long;
    size_t most_open;                     /* largest number of open requests so far */
    size_t places;                        /* maximum number of open requests; SIZE_MAX: no limit */
    size_t n_computed;                    /* number of open requests during the last step */
    size_t n_told;                        /* number of open requests after the events of the last step */
    size_t n_second, most_a_second;       /* tokens in the current second, and the maximum over all seconds */
    size_t n_streams;                     /* sequences that have their first token, but not their last */
    size_t n_step_streams, n_step_tokens; /* n_streams when the step began, and tokens of the step */
    size_t n_full;                        /* largest n_step_streams so far */
    size_t n_full_tokens;                 /* tokens of the steps with n_full streams */
    double full_s;                        /* time of the steps with n_full streams */
    double step_s, token_s,
        end_s; /* times of the end of the last step, of the last token, of the last event */
};

/* Starts the records of the load T. At most PLACES requests are open at once. */
int serving_open(struct serving *s, struct traffic *t, size_t places, struct err *e);
void serving_close(struct serving *s);

/* Records that request I is sent at NOW_S. Returns false, and records that the request failed, if prompt and
 * answer exceed MAX_LEN tokens. */
bool serving_sent(struct serving *s, size_t i, double now_s, size_t max_len);

/* Returns the time of sending of a request that was due at DUE_S: DUE_S if fewer than s->places requests were
 * open during the last step, else the end of that step. */
double serving_place(const struct serving *s, double due_s);

/* Records that a step was computed. The events of the step are recorded next. */
void serving_computed(struct serving *s);

/* Records that request I got TOKEN at NOW_S. ERR_NOMEM: the time since the previous token could not be
 * stored. */
int serving_token(struct serving *s, size_t i, int32_t token, double now_s);

/* Records that all events of the step, which ended at NOW_S, are recorded. */
void serving_step(struct serving *s, double now_s);

/* Records that request I ended at NOW_S, with N_CACHED prompt tokens from the prefix cache. */
void serving_ended(struct serving *s, size_t i, double now_s, size_t n_cached, bool failed);

/* Limits in seconds within which a request counts for goodput; 0: no limit. */
struct serving_limits {
    double ttft_s, tpot_s, e2el_s;
};

/* Returns a new JSON object with the statistics and the percentiles P [n_p], or NULL if memory is exhausted.
 * Sorts s->gap. */
json_t *serving_summary(const struct serving *s, const struct serving_limits *lim, const double *p,
                        size_t n_p);

/* Prints the statistics O as JSON, or the most important ones as a table, and releases O. MAX_LEN is the
 * context length. */
void serving_print(json_t *o, size_t max_len, bool json);

#endif
