/* serving.h - what people who serve models ask: times to the first token and between tokens, rates, shares
 * of hits.
 *
 * Notes the moments of each request, by a real or a simulated clock, and sums them up with the names and
 * definitions of `vllm bench serve`: ttft from sending (when a request is due and
 * may be sent) to the first token; tpot (last - first) / (tokens - 1)
 * of a request with two and more; itl the gaps between tokens of a request; e2el from sending to the last
 * token. What vllm has not: hits of the prefix cache, and full_batch_throughput, tokens a second of the steps
 * in which as many streams went on as ever did at once (full_batch): without beginning and end of a load. */
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
    double sent_s, first_s, last_s; /* clock; the last two if tokens came */
    size_t n_output, n_cached;
    bool ended, failed;
};

struct serving {
    struct traffic *traffic;         /* borrowed */
    struct serving_request *request; /* [traffic->n] */
    double *gap;                     /* [n_gaps] seconds */
    size_t n_gaps, cap_gaps;
    size_t n_sent, n_ended, n_failed, n_too_long, most_open;
    size_t places; /* requests that may be open at once; SIZE_MAX: any number */
    size_t n_computed,
        n_told; /* open while the last step was computed, and when all that came of it was told */
    size_t n_second, most_a_second;       /* tokens of the second that runs, of the fullest one */
    size_t n_streams;                     /* that have their first token and not their last */
    size_t n_step_streams, n_step_tokens; /* streams when the step began; tokens that came of it */
    size_t n_full,
        n_full_tokens;     /* the most streams there were; tokens of the steps that began with as many */
    double full_s, step_s; /* time of those; end of the last step */
    double token_s, end_s; /* of the last token; of the last that happened */
};

/* With at most PLACES requests open at once. */
int serving_open(struct serving *s, struct traffic *t, size_t places, struct err *e);
void serving_close(struct serving *s); /* a zeroed one is fine */

/* Request I is sent at NOW. False: with its answer it is longer than MAX_LEN tokens, and has failed. */
bool serving_sent(struct serving *s, size_t i, double now_s, size_t max_len);

/* The moment at which the next request to be sent, which was due at DUE_S, found a place: DUE_S if one was
 * empty while the last step was computed and is so still, else the end of that step, which emptied it. */
double serving_place(const struct serving *s, double due_s);

/* A step was computed; what came of it is told next. */
void serving_computed(struct serving *s);

/* Request I got a TOKEN at NOW. ERR_NOMEM: the gap is lost. */
int serving_token(struct serving *s, size_t i, int32_t token, double now_s);

/* All that came of the step which ended at NOW is told. */
void serving_step(struct serving *s, double now_s);
void serving_ended(struct serving *s, size_t i, double now_s, size_t n_cached, bool failed);

/* Limits of goodput in seconds; 0: none. */
struct serving_limits {
    double ttft_s, tpot_s, e2el_s;
};

/* Percentiles are those at P [n_p] percent; sorts the gaps. New reference; NULL: out of memory. */
json_t *serving_summary(const struct serving *s, const struct serving_limits *lim, const double *p,
                        size_t n_p);

/* O as JSON, or as a table of what people look for; drops it. MAX_LEN is that of serving_sent(). */
void serving_print(json_t *o, size_t max_len, bool json);

#endif
