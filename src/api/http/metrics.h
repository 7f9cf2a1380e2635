/* metrics.h - counters and histograms of a server, written in Prometheus' text format. The names are those
 * of vLLM, so that its dashboards, autoscalers and gateways work unchanged. Only one thread may use a
 * struct metrics.
 */
#ifndef GALLOP_API_HTTP_METRICS_H
#define GALLOP_API_HTTP_METRICS_H

#include <stdint.h>

#include "engine/engine.h"
#include "gallop.h"

struct buf;

enum { METRICS_MAX_BOUNDS = 32 };

enum metrics_histogram {
    METRICS_TTFT,
    METRICS_ITL,
    METRICS_TPOT, /* mean time per output token of a request */
    METRICS_E2E,
    METRICS_QUEUE,
    METRICS_INFERENCE,
    METRICS_PREFILL,
    METRICS_DECODE,
    METRICS_PROMPT_TOKENS,
    METRICS_GENERATION_TOKENS,
    METRICS_MAX_TOKENS, /* max_tokens of a request */
    METRICS_N,
    METRICS_ITERATION,
    METRICS_HANDOFF,
    METRICS_N_HISTOGRAMS
};

enum metrics_end { METRICS_STOP, METRICS_LENGTH, METRICS_ABORT, METRICS_ERROR, METRICS_N_ENDS };

/* Counter of the requests with one route, method and status. */
struct metrics_http {
    const char *route, *method;
    int status;
    uint64_t n;
};

struct metrics {
    struct {
        uint64_t count[METRICS_MAX_BOUNDS +
                       /* count[i]: values up to bound i and above bound i - 1; the last: values above all
                        * bounds */
                       1];
        double sum;
    } histogram[METRICS_N_HISTOGRAMS];
    uint64_t ended[METRICS_N_ENDS];
    uint64_t n_refused; /* requests refused with 429 or 503 */
    uint64_t n_limited; /* requests refused because of their key's rate limit */
    uint64_t n_stalls;  /* steps longer than --step-timeout */
    uint64_t prompt_tokens, cached_tokens;
    struct metrics_http http[128];
    size_t n_http;
};

void metrics_observe(struct metrics *m, enum metrics_histogram h, double x);
void metrics_count_http(struct metrics *m, const char *route, const char *method, int status);

/* Gauges: values at the moment of a scrape. */
struct metrics_now {
    const char *model; /* value of the label model_name */
    struct gallop_stats stats;
    size_t n_running, n_waiting, n_connections, n_failed_handshakes, bodies_bytes;
    size_t request_bytes, max_request_bytes; /* bytes that all requests hold, and their limit (0: no limit) */
    uint64_t n_over_memory;
    struct engine_executor executor;
    const struct gallop *engine; /* engine whose compiled programs are listed; NULL: none are listed */
    double n_tokens_a_second;
    /* measured peak memory bandwidth (bytes/s) and arithmetic rate (operations/s); 0: not measured */
    double roof_bytes, roof_flops;
};

void metrics_write(const struct metrics *m, const struct metrics_now *now, struct buf *out);

#endif
