/* metrics.h - what a server did, as text in Prometheus' format, under the names that vLLM has, so that
 * dashboards, autoscalers and gateways made for it work unchanged. Belongs to one thread.
 */
#ifndef GALLOP_API_HTTP_METRICS_H
#define GALLOP_API_HTTP_METRICS_H

#include <stdint.h>

#include "base/buf.h"
#include "gallop.h"

enum { METRICS_MAX_BOUNDS = 32 };

enum metrics_histogram {
    METRICS_TTFT,
    METRICS_ITL,
    METRICS_TPOT, /* mean of a request */
    METRICS_E2E,
    METRICS_QUEUE,
    METRICS_INFERENCE,
    METRICS_PREFILL,
    METRICS_DECODE,
    METRICS_PROMPT_TOKENS,
    METRICS_GENERATION_TOKENS,
    METRICS_MAX_TOKENS, /* asked for */
    METRICS_N,
    METRICS_ITERATION,
    METRICS_HANDOFF,
    METRICS_N_HISTOGRAMS
};

enum metrics_end { METRICS_STOP, METRICS_LENGTH, METRICS_ABORT, METRICS_ERROR, METRICS_N_ENDS };

/* Requests of one route and status. */
struct metrics_http {
    const char *route, *method;
    int status;
    uint64_t n;
};

struct metrics {
    struct {
        uint64_t count[METRICS_MAX_BOUNDS + 1]; /* by the first bound that is not below; last: above all */
        double sum;
    } histogram[METRICS_N_HISTOGRAMS];
    uint64_t ended[METRICS_N_ENDS];
    uint64_t n_refused; /* 429 and 503 */
    uint64_t n_limited; /* requests beyond the limits of their keys */
    uint64_t n_stalls;  /* steps that took too long */
    uint64_t prompt_tokens, cached_tokens;
    struct metrics_http http[128];
    size_t n_http;
};

void metrics_observe(struct metrics *m, enum metrics_histogram h, double x);
void metrics_count_http(struct metrics *m, const char *route, const char *method, int status);

/* What is so at this moment. */
struct metrics_now {
    const char *model; /* label */
    struct gallop_stats stats;
    size_t n_running, n_waiting, n_connections, n_failed_handshakes, bodies_bytes;
    size_t request_bytes, max_request_bytes; /* that requests hold, and may hold; 0: any number */
    uint64_t n_over_memory;
    double n_tokens_a_second;
    double roof_bytes, roof_flops; /* that the machine does in a second at most; 0: not measured */
};

void metrics_write(const struct metrics *m, const struct metrics_now *now, struct buf *out);

#endif
