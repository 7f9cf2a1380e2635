/* metrics.c - the definitions of the histograms, and the text of all metrics. */
#include "api/http/metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

enum { MOST_LABEL = 1000 /* bytes of the value of a label */ };

/* Upper bounds of the buckets, as in vLLM, and additional bounds for times on CPUs. Each list ends with 0. */
static const double to_first[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75, 1,    2.5,  5,
                                  7.5,  10,   15,  20,  30,  40,  60,  80, 160, 320, 640, 1280, 2560, 0};
static const double between[] = {.005, .01, .015, .02, .025, .03, .04, .05, .06, .075, .1, .15, .2,
                                 .3,   .4,  .5,   .75, 1,    2.5, 5,   7.5, 10,  20,   40, 80,  0};
static const double whole[] = {.05, .1, .2, .3, .5, .8,  1,   1.5, 2,   2.5,  5,    10, 15,
                               20,  30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680, 0};
static const double tokens[] = {1,    2,    5,     10,    20,    50,     100,    200,    500,     1000,
                                2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000, 0};
static const double few[] = {1, 2, 5, 10, 20, 50, 100, 0};
static const double handoff[] = {.0001, .0002, .0005, .001, .002, .003, .004, .005, .0075, .01,
                                 .015,  .02,   .05,   .1,   .25,  .5,   1,    2.5,  0};
static const double rows[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 0};

static const struct {
    const char *name, *help;
    const double *bound;
} histograms[METRICS_N_HISTOGRAMS] = {
    [METRICS_TTFT] = {"vllm:time_to_first_token_seconds", "Seconds to the first token of an answer",
                      to_first},
    [METRICS_ITL] = {"vllm:inter_token_latency_seconds", "Seconds between two tokens of an answer", between},
    [METRICS_TPOT] = {"vllm:request_time_per_output_token_seconds", "Mean seconds a token behind the first",
                      between},
    [METRICS_E2E] = {"vllm:e2e_request_latency_seconds", "Seconds of a request", whole},
    [METRICS_QUEUE] = {"vllm:request_queue_time_seconds", "Seconds before anything was computed", whole},
    [METRICS_INFERENCE] = {"vllm:request_inference_time_seconds", "Seconds from there to the end", whole},
    [METRICS_PREFILL] = {"vllm:request_prefill_time_seconds", "Seconds from there to the first token", whole},
    [METRICS_DECODE] = {"vllm:request_decode_time_seconds", "Seconds from the first token to the last",
                        whole},
    [METRICS_PROMPT_TOKENS] = {"vllm:request_prompt_tokens", "Tokens of a prompt", tokens},
    [METRICS_GENERATION_TOKENS] = {"vllm:request_generation_tokens", "Tokens of an answer", tokens},
    [METRICS_MAX_TOKENS] = {"vllm:request_params_max_tokens", "max_tokens of a request", tokens},
    [METRICS_N] = {"vllm:request_params_n", "n of a request", few},
    [METRICS_ITERATION] = {"vllm:iteration_tokens_total", "Tokens of a step", rows},
    [METRICS_HANDOFF] = {"gallop:handoff_seconds",
                         "Seconds from the end of a step until its tokens are written to the sockets",
                         handoff},
};

void metrics_observe(struct metrics *m, enum metrics_histogram h, double x)
{
    size_t i = 0;

    while (histograms[h].bound[i] > 0 && x > histograms[h].bound[i])
        i++;
    m->histogram[h].count[i]++;
    m->histogram[h].sum += x;
}

void metrics_count_http(struct metrics *m, const char *route, const char *method, int status)
{
    const size_t most = sizeof(m->http) / sizeof(m->http[0]);

    for (size_t i = 0; i < m->n_http; i++)
        if (strcmp(m->http[i].route, route) == 0 && strcmp(m->http[i].method, method) == 0 &&
            m->http[i].status == status) {
            m->http[i].n++;
            return;
        }
    if (m->n_http < most)
        m->http[m->n_http++] = (struct metrics_http){route, method, status, 1};
}

/* ---- text ---- */

/* The labels that every sample gets. */
struct labels {
    struct buf text;
};

/* Appends TEXT as the value of a label. The text format has fewer escapes than JSON: control characters and bytes
 * that are not UTF-8 are replaced. */
static void put_label(struct buf *out, const char *text)
{
    char clean[MOST_LABEL + 1];

    snprintf(clean, sizeof(clean), "%s", text);
    utf8_printable(clean);
    buf_char(out, '"');
    for (const char *p = clean; *p; p++) {
        if (*p == '"' || *p == '\\')
            buf_char(out, '\\');
        if (*p == '\n' || *p == '\t')
            buf_str(out, *p == '\n' ? "\\n" : " ");
        else
            buf_char(out, *p);
    }
    buf_char(out, '"');
}

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_fmt(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void sample(struct buf *out, const struct labels *l, const char *name, const char *more, double x)
{
    buf_fmt(out, "%s{%s%s} %.17g\n", name, l->text.data ? l->text.data : "", more, x);
}

static void gauge(struct buf *out, const struct labels *l, const char *name, const char *help, double x)
{
    head(out, name, "gauge", help);
    sample(out, l, name, "", x);
}

static void counter(struct buf *out, const struct labels *l, const char *name, const char *help, double x)
{
    head(out, name, "counter", help);
    sample(out, l, name, "", x);
}

static void write_histogram(const struct metrics *m, enum metrics_histogram h, const struct labels *l,
                            struct buf *out)
{
    const char *name = histograms[h].name, *labels = l->text.data ? l->text.data : "";
    size_t above = 0;
    uint64_t n = 0;

    head(out, name, "histogram", histograms[h].help);
    for (size_t i = 0; histograms[h].bound[i] > 0; i++) {
        n += m->histogram[h].count[i];
        buf_fmt(out, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, labels, histograms[h].bound[i], n);
        above = i + 1;
    }
    n += m->histogram[h].count[above];
    buf_fmt(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, n);
    buf_fmt(out, "%s_sum{%s} %.17g\n", name, labels, m->histogram[h].sum);
    buf_fmt(out, "%s_count{%s} %" PRIu64 "\n", name, labels, n);
}

/* Writes D as a histogram whose upper bounds are 2^i microseconds. */
static void write_durations(const char *name, const char *help, const struct gallop_durations *d,
                            const struct labels *l, struct buf *out)
{
    const char *labels = l->text.data ? l->text.data : "";
    uint64_t n = 0;

    head(out, name, "histogram", help);
    for (int i = 0; i + 1 < GALLOP_N_DURATIONS; i++) {
        n += d->count[i];
        buf_fmt(out, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, labels, 1e-6 * (1 << i), n);
    }
    n += d->count[GALLOP_N_DURATIONS - 1];
    buf_fmt(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, n);
    buf_fmt(out, "%s_sum{%s} %.17g\n", name, labels, d->seconds);
    buf_fmt(out, "%s_count{%s} %" PRIu64 "\n", name, labels, n);
}

/* Writes the results of speculative decoding. */
static void write_speculation(const struct gallop_stats *s, const struct labels *l, struct buf *out)
{
    char position[48];

    if (!s->n_draft_positions)
        return;
    counter(out, l, "vllm:spec_decode_num_drafts_total",
            "Times that guessed tokens of an answer were computed", (double)s->n_drafts);
    counter(out, l, "vllm:spec_decode_num_draft_tokens_total", "Guessed tokens that were computed",
            (double)s->n_draft_tokens);
    counter(out, l, "vllm:spec_decode_num_accepted_tokens_total", "Of them, those that were right",
            (double)s->n_accepted_tokens);
    head(out, "vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter",
         "Guessed tokens that were right, by their position in the guess");
    for (size_t i = 0; i < s->n_draft_positions; i++) {
        snprintf(position, sizeof(position), ",position=\"%zu\"", i);
        sample(out, l, "vllm:spec_decode_num_accepted_tokens_per_pos_total", position,
               (double)s->n_accepted_per_pos[i]);
    }
}

/* Writes the costs of constrained answers. */
static void write_grammars(const struct gallop_stats *s, const struct labels *l, struct buf *out)
{
    counter(out, l, "gallop:grammar_cache_queries_total", "Prompts whose answers are constrained",
            (double)s->n_grammar_queries);
    counter(out, l, "gallop:grammar_cache_hits_total",
            "Of them, those whose compiled constraint was kept from before", (double)s->n_grammar_hits);
    write_durations("gallop:grammar_compile_seconds", "Seconds to compile a constraint", &s->grammar_compile,
                    l, out);
    write_durations("gallop:grammar_mask_seconds",
                    "Seconds to compute the token mask of a constrained answer for one token",
                    &s->grammar_mask, l, out);
}

static void write_gauges(const struct metrics_now *now, const struct labels *l, struct buf *out)
{
    const struct gallop_stats *s = &now->stats;

    gauge(out, l, "vllm:num_requests_running", "Answers that are computed", (double)now->n_running);
    gauge(out, l, "vllm:num_requests_waiting", "Answers that have not begun", (double)now->n_waiting);
    gauge(out, l, "vllm:kv_cache_usage_perc",
          "Part of the KV cache's budget that running answers hold, 0 to 1",
          s->kv_budget_bytes ? (double)s->kv_used_bytes / (double)s->kv_budget_bytes : 0);
    gauge(out, l, "vllm:http_connections", "Open connections", (double)now->n_connections);
    gauge(out, l, "vllm:http_body_bytes",
          "Bytes of large bodies of requests, limited by the option max-bodies-bytes",
          (double)now->bodies_bytes);
    gauge(out, l, "gallop:request_memory_bytes", "Bytes of memory that requests and their answers hold",
          (double)now->request_bytes);
    gauge(out, l, "gallop:request_memory_limit_bytes",
          "Limit of the memory that requests and their answers hold (option max-request-memory)",
          (double)now->max_request_bytes);
    counter(out, l, "gallop:requests_over_memory_total",
            "Requests refused because of the limit of their memory", (double)now->n_over_memory);
    counter(out, l, "vllm:tls_handshakes_failed_total", "Handshakes of TLS that failed",
            (double)now->n_failed_handshakes);
    counter(out, l, "vllm:num_preemptions_total", "Answers put back because the KV cache was full",
            (double)s->n_preempted);
    counter(out, l, "vllm:prompt_tokens_recomputed_total", "Tokens computed again after that",
            (double)s->n_recomputed_tokens);
    counter(out, l, "vllm:generation_tokens_total", "Tokens of answers", (double)s->n_output_tokens);
}

/* Writes a counter for each compiled program of the executor: how often it ran or, with PADDING, how many
 * padding rows it computed. */
static void write_programs(const struct metrics_now *now, const char *name, const char *help, bool padding,
                           const struct labels *l, struct buf *out)
{
    char more[128];

    head(out, name, "counter", help);
    for (size_t i = 0; i < now->executor.n_programs; i++) {
        struct engine_program p;

        engine_executor_program(now->engine, i, &p);
        snprintf(more, sizeof(more), ",kind=\"%s\",sequences=\"%zu\",rows=\"%zu\",context=\"%zu\"", p.kind,
                 p.n_seqs, p.n_rows, p.n_seen);
        sample(out, l, name, more, (double)(padding ? p.n_padding_rows : p.n_runs));
    }
}

static void write_executor(const struct metrics_now *now, const struct labels *l, struct buf *out)
{
    const struct engine_executor *x = &now->executor;
    const struct {
        const char *name;
        uint64_t n;
    } result[] = {
        {"compiled", x->n_compiled}, {"loaded", x->n_loaded}, {"kept", x->n_kept}, {"damaged", x->n_damaged}};
    char more[64];

    gauge(out, l, "gallop:executor_up", "1, or 0 while an executor that failed is opened again", !x->is_down);
    counter(out, l, "gallop:executor_restarts_total", "Times that an executor that failed was opened again",
            (double)x->n_restarts);
    write_programs(now, "gallop:bucket_runs_total", "Runs of compiled programs", false, l, out);
    write_programs(now, "gallop:bucket_padding_rows_total", "Rows of padding in these runs", true, l, out);
    counter(out, l, "gallop:compile_seconds_total", "Seconds of compiling programs", x->compile_s);
    head(out, "gallop:programs_total", "counter",
         "Programs that were compiled or loaded from files, were kept in files, and had damaged files");
    for (size_t i = 0; i < sizeof(result) / sizeof(result[0]); i++) {
        snprintf(more, sizeof(more), ",result=\"%s\"", result[i].name);
        sample(out, l, "gallop:programs_total", more, (double)result[i].n);
    }
}

static void write_counters(const struct metrics *m, const struct labels *l, struct buf *out)
{
    static const char *const ends[METRICS_N_ENDS] = {"stop", "length", "abort", "error"};
    char more[64];

    counter(out, l, "vllm:prompt_tokens_total", "Tokens of prompts", (double)m->prompt_tokens);
    counter(out, l, "vllm:prompt_tokens_cached_total", "Of them, found in the prefix cache",
            (double)m->cached_tokens);
    counter(out, l, "vllm:prefix_cache_queries_total", "Tokens looked for in the prefix cache",
            (double)m->prompt_tokens);
    counter(out, l, "vllm:prefix_cache_hits_total", "Tokens found there", (double)m->cached_tokens);
    counter(out, l, "vllm:requests_refused_total", "Requests refused because of load", (double)m->n_refused);
    counter(out, l, "vllm:requests_over_limit_total", "Requests refused because of the limits of their keys",
            (double)m->n_limited);
    counter(out, l, "vllm:step_timeouts_total", "Steps that took longer than the option step-timeout",
            (double)m->n_stalls);
    head(out, "vllm:request_success_total", "counter", "Answers by how they ended");
    for (int i = 0; i < METRICS_N_ENDS; i++) {
        snprintf(more, sizeof(more), ",finished_reason=\"%s\"", ends[i]);
        sample(out, l, "vllm:request_success_total", more, (double)m->ended[i]);
    }
}

/* Writes a counter for each operator. AT: offset of its value, a double, in the operator's statistics. */
static void write_operators(const struct gallop_stats *s, const char *name, const char *help, size_t at,
                            struct buf *out)
{
    buf_fmt(out, "# HELP gallop:operator_%s_total %s\n# TYPE gallop:operator_%s_total counter\n", name, help,
            name);
    for (int i = 0; i < GALLOP_N_OPERATORS && s->operators[i].name; i++)
        buf_fmt(out, "gallop:operator_%s_total{engine=\"0\",operator=\"%s\"} %.17g\n", name,
                s->operators[i].name, *(const double *)((const char *)&s->operators[i] + at));
}

static void write_machine(const struct metrics_now *now, struct buf *out)
{
    const struct gallop_stats *s = &now->stats;

    write_operators(s, "seconds", "Time of steps by kind of operator",
                    offsetof(struct gallop_operator, seconds), out);
    write_operators(s, "bytes", "Weights and KV rows that they had to read",
                    offsetof(struct gallop_operator, bytes), out);
    write_operators(s, "flops", "Operations of their products", offsetof(struct gallop_operator, flops), out);
    buf_fmt(
        out,
        "# HELP gallop:operator_waiting_seconds_total Time within operators that the calling thread waited for the "
        "other compute threads, which is in no operator's time\n"
        "# TYPE gallop:operator_waiting_seconds_total counter\n"
        "gallop:operator_waiting_seconds_total{engine=\"0\"} %.17g\n",
        s->waited_s);
    if (now->roof_bytes > 0)
        buf_fmt(out,
                "# HELP gallop:roof_bytes_per_second Memory that the machine reads at most\n"
                "# TYPE gallop:roof_bytes_per_second gauge\n"
                "gallop:roof_bytes_per_second %.17g\n",
                now->roof_bytes);
    if (now->roof_flops > 0)
        buf_fmt(out,
                "# HELP gallop:roof_flops_per_second Operations that it computes at most\n"
                "# TYPE gallop:roof_flops_per_second gauge\n"
                "gallop:roof_flops_per_second %.17g\n",
                now->roof_flops);
}

static void write_http(const struct metrics *m, struct buf *out)
{
    buf_str(out,
            "# HELP http_requests_total Requests by route and status\n# TYPE http_requests_total counter\n");
    for (size_t i = 0; i < m->n_http; i++)
        buf_fmt(out, "http_requests_total{handler=\"%s\",method=\"%s\",status=\"%d\"} %" PRIu64 "\n",
                m->http[i].route, m->http[i].method, m->http[i].status, m->http[i].n);
}

void metrics_write(const struct metrics *m, const struct metrics_now *now, struct buf *out)
{
    struct labels l = {.text = {.tag = MEM_API}};

    buf_str(&l.text, "engine=\"0\",model_name=");
    put_label(&l.text, now->model);
    write_gauges(now, &l, out);
    write_counters(m, &l, out);
    for (int h = 0; h < METRICS_N_HISTOGRAMS; h++)
        write_histogram(m, (enum metrics_histogram)h, &l, out);
    write_grammars(&now->stats, &l, out);
    write_speculation(&now->stats, &l, out);
    write_executor(now, &l, out);
    write_machine(now, out);
    write_http(m, out);
    buf_fini(&l.text);
}
