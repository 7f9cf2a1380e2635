/* metrics.h - counters and histograms of a server, as text in Prometheus' format. The names are those of
 * vLLM, so that its dashboards, autoscalers and gateways work unchanged. They belong to one thread.
 */
#ifndef GALLOP_API_HTTP_METRICS_H
#define GALLOP_API_HTTP_METRICS_H

#include <stdint.h>

#include "gallop.h"

struct buf;

enum { METRICS_MAX_BOUNDS = 32 };

enum metrics_histogram {
    METRICS_TTFT,
    METRICS_ITL,
    METRICS_TPOT, /* the mean of a request */
    METRICS_E2E,
    METRICS_QUEUE,
    METRICS_INFERENCE,
    METRICS_PREFILL,
    METRICS_DECODE,
    METRICS_PROMPT_TOKENS,
    METRICS_GENERATION_TOKENS,
    METRICS_MAX_TOKENS, /* that a request asks for */
    METRICS_N,
    METRICS_ITERATION,
    METRICS_HANDOFF,
    METRICS_N_HISTOGRAMS
};

enum metrics_end { METRICS_STOP, METRICS_LENGTH, METRICS_ABORT, METRICS_ERROR, METRICS_N_ENDS };

/* The number of requests of one route and status. */
struct metrics_http {
    const char *route, *method;
    int status;
    uint64_t n;
};

struct metrics {
    struct {
        uint64_t count[METRICS_MAX_BOUNDS +
                       1]; /* values by the first bound that is not below them; the last: above all bounds */
        double sum;
    } histogram[METRICS_N_HISTOGRAMS];
    uint64_t ended[METRICS_N_ENDS];
    uint64_t n_refused; /* refused with 429 or 503 */
    uint64_t n_limited; /* requests beyond the limits of their keys */
    uint64_t n_stalls;  /* steps that took too long */
    uint64_t prompt_tokens, cached_tokens;
    struct metrics_http http[128];
    size_t n_http;
};

void metrics_observe(struct metrics *m, enum metrics_histogram h, double x);
void metrics_count_http(struct metrics *m, const char *route, const char *method, int status);

/* Figures at this moment. */
struct metrics_now {
    const char *model; /* the label model_name */
    struct gallop_stats stats;
    size_t n_running, n_waiting, n_connections, n_failed_handshakes, bodies_bytes;
    size_t request_bytes, max_request_bytes; /* memory that requests hold, and may hold (0: any number) */
    uint64_t n_over_memory;
    double n_tokens_a_second;
    double roof_bytes, roof_flops; /* that the machine reaches per second; 0: not measured */
};

void metrics_write(const struct metrics *m, const struct metrics_now *now, struct buf *out);

#endif
