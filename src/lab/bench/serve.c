/* serve.c - `gallop bench --serve`: submits a load of many requests to an engine in the process, without
 * HTTP, and measures latency and throughput. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/opt.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "kern/roof.h"
#include "kv/store/store.h"
#include "lab/bench/serve.h"
#include "lab/bench/serving.h"
#include "lab/bench/trace.h"
#include "lab/bench/traffic.h"

#define INTO(member) OPT_INTO(struct bench_serve_options, member)

const struct opt_row bench_serve_options[] = {
    {"serve", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help =
         "measure a load of many requests, without HTTP: throughput, time to first token, inter-token latency",
     INTO(serve)},
    {"max-concurrency", 0, PARAM_INT, "N", LOAD,
     .help = "maximum number of unfinished requests; further requests are sent when others finish",
     .otherwise = "no limit", .values = "[1,1000000]", INTO(max_concurrency)},
    {0}};

struct load_run {
    struct gallop *g;
    struct traffic traffic;
    struct serving serving;
    int32_t *ids; /* [longest request] tokens of the prompt that is being submitted */
    size_t n_vocab, max_len;
    size_t n_came;                     /* number of first turns that were sent */
    struct gallop_speculation guesses; /* speculation in all answers */
    double start;                      /* start of the load, by clock_seconds() */
    bool traced;
    struct bench_trace trace;
    struct bench_trace_sum sum;
    struct roof roof; /* roofs for the trace, measured before the load */
    struct err *e;
};

/* Submits request I, and records AT_S as the time at which it was sent. Sets *ENDED if the engine refused
 * it. */
static int send_one(struct load_run *r, size_t i, double at_s, bool *ended)
{
    const struct traffic_request *q = &r->traffic.request[i];
    struct gallop_request req;
    char why[GALLOP_ERR_SIZE];
    int rc;

    *ended = !serving_sent(&r->serving, i, at_s, r->max_len);
    if (*ended)
        return 0;
    gallop_request_init(&req);
    traffic_tokens(&r->traffic, i, r->n_vocab, r->ids);
    req.ids = r->ids;
    req.n_ids = q->n_prompt;
    req.sampling.max_new_tokens = (int64_t)q->n_output;
    req.sampling.ignore_eos = 1;
    req.sampling.do_sample = 0;
    req.user = &r->serving.request[i];
    if ((rc = gallop_submit(r->g, &req, NULL, why)) == GALLOP_NO_SPACE) {
        serving_ended(&r->serving, i, at_s, 0, true);
        *ended = true;
    } else if (rc) {
        return err_set(r->e, rc, "request %zu: %s", i, why);
    }
    return 0;
}

/* Submits request I. If it is refused, submits the next turn of its conversation, and so on. */
static int send_turns(struct load_run *r, size_t i, double at_s)
{
    bool ended = true;
    int rc = send_one(r, i, at_s, &ended);

    while (rc == 0 && ended && (i = r->traffic.request[i].next) != 0)
        rc = send_one(r, i, at_s, &ended);
    return rc;
}

/* Adds an answer's counts of guesses to the counts of the load. */
static void add_guesses(struct load_run *r, const struct gallop_speculation *s)
{
    r->guesses.n_steps += s->n_steps;
    r->guesses.n_draft_tokens += s->n_draft_tokens;
    r->guesses.n_accepted_tokens += s->n_accepted_tokens;
    for (size_t i = 0; i < s->n_positions; i++)
        r->guesses.accepted_per_pos[i] += s->accepted_per_pos[i];
    if (s->n_positions > r->guesses.n_positions)
        r->guesses.n_positions = s->n_positions;
}

/* Records the events of the last step, and submits the next turns of finished requests. */
static int take_events(struct load_run *r)
{
    double now = clock_seconds() - r->start;
    struct gallop_event ev;
    int rc = 0;

    serving_computed(&r->serving);
    while (rc == 0 && gallop_take(r->g, &ev)) {
        size_t i = (size_t)((struct serving_request *)ev.user - r->serving.request);

        if (ev.type == GALLOP_TOKEN && serving_token(&r->serving, i, ev.token, now) != 0)
            return err_nomem(r->e, "the times of tokens");
        if (ev.type != GALLOP_FINISHED)
            continue;
        add_guesses(r, &ev.speculation);
        serving_ended(&r->serving, i, now, ev.n_cached,
                      ev.finish != GALLOP_FINISH_LENGTH && ev.finish != GALLOP_FINISH_STOP);
        if (r->traffic.request[i].next)
            rc = send_turns(r, r->traffic.request[i].next, now);
    }
    serving_step(&r->serving, now);
    return rc ? rc : print_flush(r->e); /* fails, and ends the benchmark, if the output pipe is closed */
}

static int run_load(struct load_run *r)
{
    const struct traffic *t = &r->traffic;
    struct serving *s = &r->serving;
    struct print_bar bar = {.what = "serving"};
    int rc = 0;

    r->start = clock_seconds();
    while (rc == 0 && s->n_ended < t->n) {
        double now = clock_seconds() - r->start, wait = 0;

        while (rc == 0 && r->n_came < t->n_first && s->n_sent - s->n_ended < s->places &&
               t->request[r->n_came].at_s <= now) {
            /* The request was due during a step, so its latency includes the wait for the end of the step. */
            rc = send_turns(r, r->n_came, serving_place(s, t->request[r->n_came].at_s));
            r->n_came++;
        }
        if (r->n_came < t->n_first && s->n_sent == s->n_ended)
            wait = fmax(t->request[r->n_came].at_s - now, 0);
        now = clock_seconds();
        gallop_step(r->g, wait);
        if (r->traced)
            bench_trace_step(&r->trace, clock_seconds() - now, &r->roof, &r->sum);
        rc = rc ? rc : take_events(r);
        print_progress(&bar, s->n_ended, t->n);
    }
    print_bar_end(&bar);
    return rc;
}

static json_t *store_json(const struct store *store, const struct gallop_stats *s)
{
    struct store_stats t;

    store_stats(store, &t);
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f}", "stored_input_tokens",
                     (json_int_t)s->n_stored_tokens, "blocks_written", (json_int_t)t.n_written, "blocks_read",
                     (json_int_t)t.n_read, "blocks_dropped", (json_int_t)t.n_dropped, "blocks_damaged",
                     (json_int_t)t.n_damaged, "written_bytes", (json_int_t)t.written_bytes, "read_bytes",
                     (json_int_t)t.read_bytes, "write_s", t.write_s, "read_s", t.read_s);
}

static int report(const struct load_run *r, bool json)
{
    static const double p[] = {90, 95, 99};
    struct gallop_stats s;
    json_t *o = serving_summary(&r->serving, &(struct serving_limits){0}, p, 3);

    if (!o)
        return err_nomem(r->e, "the summary");
    gallop_stats(r->g, &s);
    json_object_set_new(o, "test", json_string("serve"));
    json_object_set_new(o, "preemptions", json_integer((json_int_t)s.n_preempted));
    json_object_set_new(o, "recomputed_tokens", json_integer((json_int_t)s.n_recomputed_tokens));
    json_object_set_new(o, "steps", json_integer((json_int_t)s.n_steps));
    json_object_set_new(o, "threads", json_integer(s.threads));
    json_object_set_new(o, "dtype", json_string(s.dtype));
    json_object_set_new(o, "quant", json_string(s.quant));
    if (engine_llm(r->g)->store)
        json_object_set_new(o, "kv_store", store_json(engine_llm(r->g)->store, &s));
    if (r->guesses.n_positions)
        json_object_set_new(o, "speculation", print_json_speculation(&r->guesses));
    serving_print(o, r->max_len, json);
    if (r->traced)
        bench_trace_print(&r->sum, json ? json_pack("{s:s}", "of", "serve") : NULL);
    return 0;
}

/* Measures the roofs for the trace, and starts recording operators. */
static int open_trace(struct load_run *r)
{
    struct llm *m = engine_llm(r->g);
    struct roof_meter roofs;
    int rc = roof_meter_open(&roofs, m->pool, r->e);

    if (rc == 0)
        roof_meter_measure(&roofs, 1, &r->roof);
    roof_meter_close(&roofs);
    return rc ? rc : bench_trace_open(&r->trace, m, r->e);
}

int bench_serve(const struct bench_serve_options *o, const struct traffic_options *traffic, struct load *l,
                bool json, struct err *e)
{
    struct load_run r = {.e = e, .traced = traffic->trace && !traffic_trace_file(traffic)};
    size_t longest, places = o->max_concurrency ? o->max_concurrency : SIZE_MAX;
    int rc;

    if ((rc = traffic_of_options(&r.traffic, traffic, e)) != 0)
        return rc;
    longest = traffic_longest(&r.traffic);
    if ((rc = load_prepare(l, e)) == 0 && (rc = serving_open(&r.serving, &r.traffic, places, e)) == 0) {
        if (l->o.max_model_len == 0)
            l->o.max_model_len = longest > 1 ? (int64_t)longest : 2; /* engines require at least 2 */
        l->o.kv_cache_unbounded = 0;
        r.ids = mem_zalloc(longest, sizeof(*r.ids), MEM_APP);
        rc = r.ids ? load_engine(l, NULL, &r.g, e) : err_nomem(e, "a prompt");
    }
    if (rc == 0) {
        r.n_vocab = engine_llm(r.g)->model.info.vocab;
        r.max_len = engine_llm(r.g)->max_len;
        rc = r.traced ? open_trace(&r) : 0;
        rc = rc ? rc : run_load(&r);
    }
    rc = rc ? rc : report(&r, json);
    bench_trace_close(&r.trace);
    gallop_close(r.g);
    mem_free(r.ids);
    serving_close(&r.serving);
    traffic_fini(&r.traffic);
    return rc;
}
