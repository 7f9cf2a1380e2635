/* status.c - what a server is and does at this moment: models, gauges, PACE's status endpoints. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "api/dialect.h"
#include "api/request.h"
#include "api/status.h"
#include "base/buf.h"
#include "base/clock.h"

void status_gauges(const struct api *a, struct metrics_now *now)
{
    size_t n = 0;

    for (const struct request *c = a->first; c; c = c->next)
        n += c->n_reserved;
    *now = a->now;
    now->model = a->opt.name[0];
    now->n_running = n < now->stats.n_running ? n : now->stats.n_running;
    now->n_waiting = n - now->n_running;
    now->n_connections = a->server ? server_n_connections(a->server) : 0;
    now->request_bytes = mem_charged_bytes();
    now->max_request_bytes = a->opt.max_request_bytes;
    now->n_over_memory = atomic_load(&a->n_over_memory);
    now->bodies_bytes = a->server ? server_bodies_bytes(a->server) : 0;
    now->n_failed_handshakes = a->server ? server_n_failed_handshakes(a->server) : 0;
}

void status_limits(const struct api *a, const char *key, char out[STATUS_LIMITS])
{
    static const char *const names[2] = {"requests", "tokens"};
    struct keys_state state[2];
    int n = 0;

    out[0] = 0;
    if (!key[0])
        return;
    keys_look(a->opt.keys, key, clock_seconds(), state);
    for (int i = 0; i < 2; i++)
        if (state[i].most > 0)
            n +=
                snprintf(out + n, STATUS_LIMITS - (size_t)n,
                         "x-ratelimit-limit-%s: %.0f\r\nx-ratelimit-remaining-%s: %.0f\r\n"
                         "x-ratelimit-reset-%s: %.3fs\r\n",
                         names[i], state[i].most, names[i], floor(state[i].left), names[i], state[i].reset_s);
}

double status_retry_s(const struct api *a)
{
    struct metrics_now now;
    double s;

    status_gauges(a, &now);
    s = a->mean_s * (double)now.n_waiting / (double)(a->opt.max_running ? a->opt.max_running : 1);
    return s < 1 ? 1 : s > 60 ? 60 : s;
}

/* A model as OpenAI has it, with vLLM's max_model_len, and as Anthropic has it. */
static void put_model(const struct api *a, const char *name, struct buf *out)
{
    buf_json_begin(out, '{');
    buf_json_key(out, "id");
    buf_json_str(out, name, strlen(name));
    buf_fmt(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"gallop\",\"root\":",
            (long long)a->created);
    buf_json_str(out, a->opt.name[0], strlen(a->opt.name[0]));
    buf_fmt(out, ",\"parent\":null,\"max_model_len\":%zu,\"type\":\"model\",\"created_at\":", a->max_len);
    dialect_put_time(a->created, out);
    buf_json_key(out, "display_name");
    buf_json_str(out, name, strlen(name));
    buf_fmt(out, ",\"lifecycle\":\"active\",\"max_input_tokens\":%zu,\"max_tokens\":%zu}", a->max_len,
            a->max_len);
}

void status_models(const struct api *a, const char *only, struct buf *out)
{
    if (only) {
        put_model(a, only, out);
        return;
    }
    buf_str(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < a->opt.n_names; i++)
        put_model(a, a->opt.name[i], out);
    buf_str(out, "],\"has_more\":false,\"first_id\":");
    buf_json_str(out, a->opt.name[0], strlen(a->opt.name[0]));
    buf_str(out, ",\"last_id\":");
    buf_json_str(out, a->opt.name[a->opt.n_names - 1], strlen(a->opt.name[a->opt.n_names - 1]));
    buf_str(out, "}");
}

void status_pace_health(const struct api *a, struct buf *out)
{
    struct metrics_now now;

    status_gauges(a, &now);
    buf_fmt(out,
            "{\"status\":\"%s\",\"service\":\"gallop\",\"scheduler_running\":true,\"queue_size\":%zu,"
            "\"active_requests\":%zu,\"server_metrics_enabled\":true}",
            a->draining ? "draining" : "healthy", now.n_waiting, now.n_running);
}

void status_pace_queue(const struct api *a, struct buf *out)
{
    struct metrics_now now;

    status_gauges(a, &now);
    buf_fmt(out, "{\"queue_size\":%zu,\"active_requests\":%zu}", now.n_waiting, now.n_running);
}

/* The mean of a histogram. */
static double mean(const struct metrics *m, enum metrics_histogram h)
{
    uint64_t n = 0;

    for (int i = 0; i <= METRICS_MAX_BOUNDS; i++)
        n += m->histogram[h].count[i];
    return n ? m->histogram[h].sum / (double)n : 0;
}

void status_pace_metrics(const struct api *a, struct buf *out)
{
    double up = clock_seconds() - a->started_s;
    uint64_t served = 0;

    for (int i = 0; i < METRICS_N_ENDS; i++)
        served += a->metrics.ended[i];
    buf_fmt(out,
            "{\"sched_session_ttft\":%.6f,\"sched_session_tpot\":%.6f,\"sched_active_ttft_time\":%.6f,"
            "\"sched_requests_served_per_second\":%.6f,\"sched_total_generated_tokens\":%llu}",
            mean(&a->metrics, METRICS_TTFT), mean(&a->metrics, METRICS_TPOT),
            mean(&a->metrics, METRICS_PREFILL), up > 0 ? (double)served / up : 0,
            (unsigned long long)a->now.stats.n_output_tokens);
}

/* ID is what a request is called by its client, or what its answer is called. While the front has it, only a
 * name of the header is known. */
static bool is_called(const struct request *c, const char *id)
{
    return (!c->busy || c->named) && (strcmp(c->request_id, id) == 0 || strcmp(c->id, id) == 0);
}

const struct request *status_find(const struct api *a, const char *id, const char *key,
                                  const struct request *behind)
{
    const struct request *c = behind ? behind->next : a->first;

    while (c && !(is_called(c, id) && (!key || strcmp(c->key, key) == 0)))
        c = c->next;
    return c;
}

bool status_request(const struct api *a, const char *id, const char *key, struct buf *out)
{
    const struct request *c = status_find(a, id, key, NULL);
    size_t n_output = 0, n_prompt = 0, n_choices = 0;

    if (!c)
        return false;
    if (!c->busy) { /* else these are the front's */
        n_prompt = c->n_prompt_tokens;
        n_choices = c->n_prompts * c->n;
    }
    for (size_t i = 0; i < n_choices; i++)
        n_output += c->choice[i].n_output;
    buf_str(out, "{\"request_id\":");
    buf_json_str(out, c->request_id, strlen(c->request_id));
    buf_fmt(out, ",\"status\":\"%s\",\"prompt_tokens\":%zu,\"generated_tokens\":%zu,\"age_seconds\":%.3f}",
            n_output ? "decoding" : "waiting", n_prompt, n_output, clock_seconds() - c->arrival_s);
    return true;
}
