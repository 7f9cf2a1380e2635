/* serving.c - computes the statistics of a load from the times of its requests. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "app/print.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/stat.h"
#include "lab/bench/serving.h"
#include "lab/bench/traffic.h"

int serving_open(struct serving *s, struct traffic *t, size_t places, struct err *e)
{
    *s = (struct serving){.traffic = t, .places = places};
    s->request = mem_zalloc(t->n, sizeof(*s->request), MEM_APP);
    return s->request ? 0 : err_nomem(e, "the times of requests");
}

void serving_close(struct serving *s)
{
    mem_free(s->request);
    mem_free(s->gap);
    *s = (struct serving){0};
}

bool serving_sent(struct serving *s, size_t i, double now_s, size_t max_len)
{
    const struct traffic_request *q = &s->traffic->request[i];
    size_t n_open = ++s->n_sent - s->n_ended;

    s->request[i].sent_s = now_s;
    if (q->n_prompt + q->n_output > max_len) {
        s->n_too_long++;
        serving_ended(s, i, now_s, 0, true);
        return false;
    }
    s->most_open = n_open > s->most_open ? n_open : s->most_open;
    return true;
}

double serving_place(const struct serving *s, double due_s)
{
    size_t n_taken = s->n_sent - s->n_ended - s->n_told;

    return n_taken < s->places - s->n_computed ? due_s : fmax(due_s, s->step_s);
}

void serving_computed(struct serving *s)
{
    s->n_computed = s->n_sent - s->n_ended;
}

static void count_second(struct serving *s, double now_s)
{
    if (floor(now_s) > floor(s->token_s))
        s->n_second = 0;
    s->token_s = now_s;
    s->n_second++;
    s->most_a_second = s->n_second > s->most_a_second ? s->n_second : s->most_a_second;
}

int serving_token(struct serving *s, size_t i, int32_t token, double now_s)
{
    struct serving_request *r = &s->request[i];
    double last = r->last_s;

    traffic_answered(s->traffic, i, r->n_output, token);
    count_second(s, now_s);
    r->last_s = now_s;
    s->end_s = now_s > s->end_s ? now_s : s->end_s;
    s->n_step_tokens++;
    if (r->n_output++ == 0) {
        r->first_s = now_s;
        s->n_streams++;
        return 0;
    }
    if (!mem_grow((void **)&s->gap, &s->cap_gaps, s->n_gaps + 1, sizeof(*s->gap), MEM_APP))
        return ERR_NOMEM;
    s->gap[s->n_gaps++] = now_s - last;
    return 0;
}

void serving_step(struct serving *s, double now_s)
{
    if (s->n_step_streams > s->n_full) {
        s->n_full = s->n_step_streams;
        s->n_full_tokens = 0;
        s->full_s = 0;
    }
    if (s->n_full && s->n_step_streams == s->n_full) {
        s->n_full_tokens += s->n_step_tokens;
        s->full_s += now_s - s->step_s;
    }
    s->n_step_streams = s->n_streams;
    s->n_step_tokens = 0;
    s->n_told = s->n_sent - s->n_ended;
    s->step_s = now_s;
}

void serving_ended(struct serving *s, size_t i, double now_s, size_t n_cached, bool failed)
{
    struct serving_request *r = &s->request[i];

    r->ended = true;
    r->failed = failed;
    r->n_cached = n_cached;
    s->n_streams -= r->n_output > 0;
    s->n_ended++;
    s->n_failed += failed;
    s->end_s = now_s > s->end_s ? now_s : s->end_s;
}

/* ---- the summary ---- */

/* Returns the standard deviation of X [n]. */
static double deviation(const double *x, size_t n)
{
    double mean = stat_mean(x, n), sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sqrt(sum / (double)n);
}

/* Adds the members mean_NAME_ms, median_NAME_ms, std_NAME_ms, pXX_NAME_ms and max_NAME_ms of the times X [n],
 * in seconds, to O. Sorts X. */
static void add_times(json_t *o, const char *name, double *x, size_t n, const double *p, size_t n_p)
{
    char key[64];

    snprintf(key, sizeof(key), "mean_%s_ms", name);
    json_object_set_new(o, key, n ? json_real(stat_mean(x, n) * 1000) : json_null());
    snprintf(key, sizeof(key), "median_%s_ms", name);
    json_object_set_new(o, key, n ? json_real(stat_median(x, n) * 1000) : json_null());
    snprintf(key, sizeof(key), "std_%s_ms", name);
    json_object_set_new(o, key, n ? json_real(deviation(x, n) * 1000) : json_null());
    for (size_t i = 0; i < n_p; i++) {
        snprintf(key, sizeof(key), "p%g_%s_ms", p[i], name);
        json_object_set_new(o, key, n ? json_real(stat_percentile(x, n, p[i]) * 1000) : json_null());
    }
    snprintf(key, sizeof(key), "max_%s_ms", name);
    json_object_set_new(o, key, n ? json_real(stat_max(x, n) * 1000) : json_null());
}

/* Numbers and times of the requests that did not fail. */
struct sums {
    size_t n, n_good, n_input, n_output, n_cached, n_first, n_per_token;
    double *ttft, *tpot, *e2el; /* [n_first], [n_per_token], [n_first] seconds */
};

static bool is_within(double x, double limit)
{
    return limit <= 0 || x <= limit;
}

static void sum_up(const struct serving *s, const struct serving_limits *lim, struct sums *t)
{
    for (size_t i = 0; i < s->traffic->n; i++) {
        const struct traffic_request *q = &s->traffic->request[i];
        const struct serving_request *r = &s->request[i];
        double ttft = r->first_s - r->sent_s, e2el = r->last_s - r->sent_s, tpot = 0;

        if (!r->ended || r->failed)
            continue;
        t->n++;
        t->n_input += q->n_prompt;
        t->n_output += r->n_output;
        t->n_cached += r->n_cached;
        if (r->n_output == 0)
            continue;
        if (r->n_output > 1)
            t->tpot[t->n_per_token++] = tpot = (r->last_s - r->first_s) / (double)(r->n_output - 1);
        t->ttft[t->n_first] = ttft;
        t->e2el[t->n_first++] = e2el;
        t->n_good +=
            is_within(ttft, lim->ttft_s) && is_within(tpot, lim->tpot_s) && is_within(e2el, lim->e2el_s);
    }
}

static void add_int(json_t *o, const char *key, size_t n)
{
    json_object_set_new(o, key, json_integer((json_int_t)n));
}

static void add_counts(json_t *o, const struct serving *s, const struct serving_limits *lim,
                       const struct sums *t)
{
    double duration = s->end_s > 0 ? s->end_s : 1e-9;

    add_int(o, "completed", t->n);
    add_int(o, "failed", s->n_failed);
    add_int(o, "too_long", s->n_too_long);
    json_object_set_new(o, "duration", json_real(duration));
    add_int(o, "total_input_tokens", t->n_input);
    add_int(o, "total_output_tokens", t->n_output);
    add_int(o, "cached_input_tokens", t->n_cached);
    json_object_set_new(o, "hit_rate", json_real(t->n_input ? (double)t->n_cached / (double)t->n_input : 0));
    json_object_set_new(o, "request_throughput", json_real((double)t->n / duration));
    if (lim->ttft_s > 0 || lim->tpot_s > 0 || lim->e2el_s > 0)
        json_object_set_new(o, "request_goodput", json_real((double)t->n_good / duration));
    json_object_set_new(o, "output_throughput", json_real((double)t->n_output / duration));
    json_object_set_new(o, "total_token_throughput",
                        json_real((double)(t->n_input + t->n_output) / duration));
    add_int(o, "max_output_tokens_per_s", s->most_a_second);
    add_int(o, "max_concurrent_requests", s->most_open);
    add_int(o, "full_batch", s->n_full);
    json_object_set_new(o, "full_batch_throughput",
                        json_real(s->full_s > 0 ? (double)s->n_full_tokens / s->full_s : 0));
}

/* Adds the mean time to the first token for each turn of the conversations. */
static void add_turns(json_t *o, const struct serving *s)
{
    size_t n = s->traffic->n, n_first = s->traffic->n_first;
    json_t *list = json_array();

    for (size_t first = 0; first < n; first += n_first) { /* the requests of one turn are contiguous */
        double sum = 0;
        size_t count = 0;

        for (size_t i = first; i < first + n_first; i++)
            if (s->request[i].n_output) {
                sum += s->request[i].first_s - s->request[i].sent_s;
                count++;
            }
        json_array_append_new(list, count ? json_real(sum / (double)count * 1000) : json_null());
    }
    json_object_set_new(o, "mean_ttft_ms_by_turn", list);
}

static json_t *write_sums(const struct serving *s, const struct serving_limits *lim, struct sums *t,
                          const double *p, size_t n_p)
{
    json_t *o = json_object();

    if (!o)
        return NULL;
    add_counts(o, s, lim, t);
    add_times(o, "ttft", t->ttft, t->n_first, p, n_p);
    add_times(o, "tpot", t->tpot, t->n_per_token, p, n_p);
    add_times(o, "itl", s->gap, s->n_gaps, p, n_p);
    add_times(o, "e2el", t->e2el, t->n_first, p, n_p);
    if (s->traffic->n > s->traffic->n_first)
        add_turns(o, s);
    return o;
}

json_t *serving_summary(const struct serving *s, const struct serving_limits *lim, const double *p,
                        size_t n_p)
{
    struct sums t = {0};
    json_t *o = NULL;

    t.ttft = mem_zalloc(s->traffic->n, sizeof(double), MEM_APP);
    t.tpot = mem_zalloc(s->traffic->n, sizeof(double), MEM_APP);
    t.e2el = mem_zalloc(s->traffic->n, sizeof(double), MEM_APP);
    if (t.ttft && t.tpot && t.e2el) {
        sum_up(s, lim, &t);
        o = write_sums(s, lim, &t, p, n_p);
    }
    mem_free(t.ttft);
    mem_free(t.tpot);
    mem_free(t.e2el);
    return o;
}

/* ---- printing ---- */

static void print_times(const json_t *o, const char *name, const char *words)
{
    static const char *const parts[] = {"mean", "median", "p90", "p95", "p99", "max"};

    print_fmt("%-26s", words);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char key[64];

        snprintf(key, sizeof(key), "%s_%s_ms", parts[i], name);
        if (json_is_null(json_object_get(o, key)))
            print_fmt(" %10s", "-");
        else
            print_fmt(" %10.1f", json_number_value(json_object_get(o, key)));
    }
    print_text("\n");
}

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void print_turns(const json_t *o)
{
    const json_t *turns = json_object_get(o, "mean_ttft_ms_by_turn");

    if (!turns)
        return;
    print_text("time to first token by turn:");
    for (size_t i = 0; i < json_array_size(turns); i++)
        if (json_is_null(json_array_get(turns, i)))
            print_text(" -");
        else
            print_fmt(" %.0f", json_number_value(json_array_get(turns, i)));
    print_text("\n");
}

/* Returns MB/s from the members BYTES and SECONDS of O, or 0. */
static double rate(const json_t *o, const char *bytes, const char *seconds)
{
    return number(o, seconds) > 0 ? number(o, bytes) / number(o, seconds) / 1e6 : 0;
}

static void print_store(const json_t *o)
{
    print_fmt(
        "KV store: %.0f prompt tokens read from it; %.0f blocks written (%.0f MB/s), %.0f read (%.0f MB/s), "
        "%.0f dropped, %.0f damaged\n",
        number(o, "stored_input_tokens"), number(o, "blocks_written"), rate(o, "written_bytes", "write_s"),
        number(o, "blocks_read"), rate(o, "read_bytes", "read_s"), number(o, "blocks_dropped"),
        number(o, "blocks_damaged"));
}

static void print_guesses(const json_t *o)
{
    double steps = number(o, "steps");

    print_fmt(
        "speculative decoding: %.0f tokens guessed, %.0f of them right: %.2f tokens a step of a sequence\n",
        number(o, "drafted"), number(o, "accepted"), steps > 0 ? 1 + number(o, "accepted") / steps : 0);
}

void serving_print(json_t *o, size_t max_len, bool json)
{
    if (json) {
        print_json(o);
        return;
    }
    print_fmt(
        "%.0f requests in %.1f s, %.0f failed: %.2f requests/s, %.1f output tokens/s, %.1f tokens/s in total\n",
        number(o, "completed"), number(o, "duration"), number(o, "failed"), number(o, "request_throughput"),
        number(o, "output_throughput"), number(o, "total_token_throughput"));
    print_fmt("while the maximum of %.0f sequences ran: %.1f output tokens/s\n", number(o, "full_batch"),
              number(o, "full_batch_throughput"));
    print_fmt("%.0f prompt tokens, %.1f %% of them found in the prefix cache; %.0f preemptions\n",
              number(o, "total_input_tokens"), 100 * number(o, "hit_rate"), number(o, "preemptions"));
    if (json_object_get(o, "kv_store"))
        print_store(json_object_get(o, "kv_store"));
    if (json_object_get(o, "speculation"))
        print_guesses(json_object_get(o, "speculation"));
    print_fmt("%-26s %10s %10s %10s %10s %10s %10s\n", "milliseconds", "mean", "median", "p90", "p95", "p99",
              "max");
    print_times(o, "ttft", "time to first token");
    print_times(o, "tpot", "time per output token");
    print_times(o, "itl", "inter-token latency");
    print_times(o, "e2el", "time to last token");
    print_turns(o);
    if (number(o, "too_long") > 0)
        print_fmt(
            "%.0f of the failed requests have more tokens of prompt and answer than --max-model-len %zu\n",
            number(o, "too_long"), max_len);
    json_decref(o);
}
