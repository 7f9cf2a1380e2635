/* status.c - the state of the server for load balancers, Prometheus, and clients of AMD PACE. */
#include "api/http/status.h"

#include "api/api_priv.h"
#include "api/http/load.h"
#include "api/http/reply.h"
#include "api/http/routes.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "chat/dialect/dialect.h"
#include "chat/schema.h"

/* ---- probes ---- */

bool status_stalled(struct api *a)
{
    uint64_t begun = engine_thread_step_ns(&a->event_ring.engine), now = clock_ns();
    double s = begun && begun < now ? (double)(now - begun) * 1e-9 : 0;

    if (a->stalled_ns && begun != a->stalled_ns) {
        log_warn("the step that took too long has ended, about %.0f s after it began",
                 (double)(now - a->stalled_ns) * 1e-9);
        a->stalled_ns = 0;
    }
    if (a->stalled_ns || !(a->opt.step_timeout_s > 0) || s <= a->opt.step_timeout_s)
        return a->stalled_ns != 0;
    log_error("the engine has been in one step for %.1f s (step-timeout is %g s); %zu requests wait for it",
              s, a->opt.step_timeout_s, a->n_flights);
    a->metrics.n_stalls++;
    a->stalled_ns = begun;
    return true;
}

static const char stalled[] = "the engine has been in one step for longer than this server allows";

/* Answers a probe with 200, or with 503 and the reason WHY. This 503 is not counted in the metric of requests
 * refused because of load. */
static void answer_probe(const struct reply *r, const char *why)
{
    if (why)
        reply_error(r, 503, "Retry-After: 1\r\n", why, NULL);
    else
        reply_send(r, 200, "", "application/json", "", 0);
}

void status_health(const struct reply *r)
{
    answer_probe(r, status_stalled(r->api) ? stalled : NULL);
}

void status_ready(const struct reply *r)
{
    struct engine_executor x;

    engine_executor_state(r->api->opt.service.engine, &x);
    answer_probe(r, r->api->draining         ? "the server is shutting down"
                    : status_stalled(r->api) ? stalled
                    : x.is_down              ? "the executor has failed and is being opened again"
                                             : NULL);
}

/* ---- versions and load ---- */

const struct schema status_version_schema = {
    "Version", "{'type':'object','required':['version'],'properties':{'version':{'type':'string'}}}", NULL};

void status_version(const struct api *a, struct buf *out)
{
    (void)a;
    buf_fmt(out, "{\"version\":\"%s\"}", gallop_version());
}

/* Returns the version of Ollama whose API is served here. Clients refuse versions that are too old for them
 * (Codex needs 0.13.4, Visual Studio Code 0.6.4). */
void status_ollama_version(const struct api *a, struct buf *out)
{
    (void)a;
    buf_fmt(out, "{\"version\":\"0.13.5\",\"gallop\":\"%s\"}", gallop_version());
}

const struct schema status_load_schema = {
    "Load", "{'type':'object','required':['server_load'],'properties':{'server_load':{'type':'integer'}}}",
    NULL};

void status_load(const struct api *a, struct buf *out)
{
    buf_fmt(out, "{\"server_load\":%zu}", a->n_flights);
}

void status_metrics(const struct reply *r)
{
    struct buf body = {.tag = MEM_API};
    struct metrics_now now;

    load_gauges(r->api, &now);
    metrics_write(&r->api->metrics, &now, &body);
    if (body.oom)
        reply_refuse(r, 503, "out of memory", NULL);
    else
        reply_send(r, 200, "", "text/plain; version=0.0.4; charset=utf-8", body.data, body.len);
    buf_fini(&body);
}

/* ---- AMD PACE's status ---- */

const struct schema status_pace_health_schema = {
    "PaceHealth", "{'type':'object','required':['status','service','queue_size','active_requests']}", NULL};

void status_pace_health(const struct api *a, struct buf *out)
{
    struct metrics_now now;

    load_gauges(a, &now);
    buf_fmt(out,
            "{\"status\":\"%s\",\"service\":\"gallop\",\"scheduler_running\":true,\"queue_size\":%zu,"
            "\"active_requests\":%zu,\"server_metrics_enabled\":true}",
            a->draining ? "draining" : "healthy", now.n_waiting, now.n_running);
}

const struct schema status_pace_queue_schema = {
    "PaceQueue", "{'type':'object','required':['queue_size','active_requests']}", NULL};

void status_pace_queue(const struct api *a, struct buf *out)
{
    struct metrics_now now;

    load_gauges(a, &now);
    buf_fmt(out, "{\"queue_size\":%zu,\"active_requests\":%zu}", now.n_waiting, now.n_running);
}

const struct schema status_pace_config_schema = {
    "PaceConfig", "{'type':'object','required':['model','kv_cache_type','attention_backend']}", NULL};

void status_pace_config(const struct api *a, struct buf *out)
{
    buf_str(out, "{\"model\":");
    dialect_put_string(out, a->opt.service.name[0]);
    /* PACE writes "N/A" if no backend of attention was asked for. */
    buf_fmt(out, ",\"kv_cache_type\":\"%s\",\"attention_backend\":\"N/A\"}",
            engine_info(a->opt.service.engine)->model->kv_cache_type);
}

const struct schema status_pace_metrics_schema = {
    "PaceMetrics", "{'type':'object','required':['sched_session_ttft','sched_session_tpot']}", NULL};

/* Returns the mean of the values in a histogram. */
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
