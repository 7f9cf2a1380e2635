/* verb_simulate.c - `gallop simulate`: predicts how a machine with a given bandwidth and arithmetic rate
 * would serve a load, for example before it is bought.
 *
 * The scheduler, policies and prefix cache of the engine run with a simulated clock on an executor that
 * computes nothing (engine/sim_executor.h). The bytes and operations of a step are computed from the shapes
 * of the model's tensors. The KV cache is assumed to keep all rows in all layers: windows, and rows that
 * layers share, are ignored.
 */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/threads/pool.h"
#include "engine/engine.h"
#include "engine/seq.h"
#include "engine/sim_executor.h"
#include "engine/step.h"
#include "lab/bench/serving.h"
#include "lab/bench/traffic.h"
#include "lab/shapes.h"

struct simulate_options {
    struct load load; /* only the values of options_scheduling are used */
    struct options_output out;
    struct traffic_options traffic;
    const char *shape, *limit;
    size_t layers; /* 0: the number of layers of the shape */
    double bandwidth, flops, overhead_ms, bits, kv_bits;
    size_t max_model_len; /* 0: the length of the longest request */
    double kv_cache_gib;
    size_t block_size, max_batched_tokens;
    bool rate_sweep;
};

#define INTO(member) OPT_INTO(struct simulate_options, member)

static const struct opt_row rows[] = {
    {"shape", 0, PARAM_TEXT, "NAME", EVERYDAY,
     .help = "name of the model's shape; gallop synth --list shows the names", INTO(shape)},
    {"layers", 0, PARAM_INT, "N", EVERYDAY, .help = "number of layers", .otherwise = "the model's",
     .values = "[1,4096]", INTO(layers)},
    {"bandwidth", 0, PARAM_REAL, "GB/s", EVERYDAY,
     .help = "memory bandwidth that the machine sustains; required", .values = "(0,1000000]",
     INTO(bandwidth)},
    {"flops", 0, PARAM_REAL, "GF/s", EVERYDAY, .help = "arithmetic rate that the machine sustains; required",
     .values = "(0,1000000000]", INTO(flops)},
    {"overhead-ms", 0, PARAM_REAL, "MS", EVERYDAY,
     .help = "time that each step takes in addition to memory and arithmetic", .fallback = "1",
     .values = "[0,1000]", INTO(overhead_ms)},
    {"rate-sweep", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help = "find the highest request rate at which --limit holds, by scaling the times of arrival",
     INTO(rate_sweep)},
    {"limit", 0, PARAM_TEXT, "LIMITS", EVERYDAY,
     .help =
         "limits of --rate-sweep for 95th percentiles in milliseconds: ttft (time to first token), tpot (time per "
         "output token), e2el (time to last token), e.g. ttft:2000,tpot:200,e2el:60000",
     .fallback = "ttft:2000,tpot:200", INTO(limit)},
    {"bits", 0, PARAM_REAL, "N", MODEL,
     .help = "bits for each weight; stored MXFP4 weights have at most 4.25", .fallback = "16",
     .values = "[1,32]", INTO(bits)},
    {"kv-bits", 0, PARAM_REAL, "N", MODEL, .help = "bits for each element of the KV cache", .fallback = "16",
     .values = "[1,32]", INTO(kv_bits)},
    {"max-model-len", 0, PARAM_INT, "N", MODEL,
     .help = "context length: maximum number of tokens of prompt and answer; longer requests fail",
     .otherwise = "the length of the longest request", .values = "[2,16777216]", INTO(max_model_len)},
    {"kv-cache-memory", 0, PARAM_REAL, "GIB", CACHE, .help = "memory of the KV cache", .fallback = "4",
     .values = "(0,1048576]", INTO(kv_cache_gib)},
    {"block-size", 0, PARAM_INT, "N", CACHE, .help = "number of tokens in a KV block, a power of two",
     .fallback = "64", .values = "[16,256]", INTO(block_size)},
    {"max-num-batched-tokens", 0, PARAM_INT, "N", COMPUTING, .help = "maximum number of tokens in a step",
     .fallback = "512", .values = "[1,65536]", INTO(max_batched_tokens)},
    {0}};

/* The simulated machine and load, and the results. */
struct simulation {
    const struct simulate_options *o;
    struct traffic traffic;
    struct sim_executor_spec spec;
    struct serving_limits limits;
    struct step_options step;
    size_t max_len, kv_tokens;
    struct err *e;
};

/* ---- the model ---- */

/* Numbers of weights, by their use. */
struct sizes {
    double dense, embedding, head, expert;
    double mxfp4; /* weights of experts that are stored in MXFP4 */
};

static const double mxfp4_bits = 4.25; /* bits per weight: 32 weights have 16 bytes and a scale byte */

/* Callback of shapes_tensors(): adds the elements of T to the sizes. */
static int add_tensor(void *ctx, const struct shapes_tensor *t)
{
    struct sizes *s = ctx;
    double n = 1;
    int dims = 0;

    while (dims < 4 && t->shape[dims])
        n *= (double)t->shape[dims++];
    if (t->fill == SYNTH_NIBBLES)
        s->mxfp4 += 2 * n;
    else if (t->fill == SYNTH_SCALES || dims < 2)
        return 0;
    else if (strstr(t->name, "embed_tokens") || strstr(t->name, "wte") || strstr(t->name, "wpe") ||
             strstr(t->name, "embed_positions"))
        s->embedding += n;
    else if (strstr(t->name, "lm_head"))
        s->head += n;
    else if (strstr(t->name, ".experts."))
        s->expert += n;
    else
        s->dense += n;
    return 0;
}

static int read_shape(struct simulation *m)
{
    const struct simulate_options *o = m->o;
    const struct shape *shape = o->shape ? shapes_of_name(o->shape) : NULL;
    double bytes = o->bits / 8;
    size_t layers = 0;
    struct sizes s = {0};

    if (!shape)
        return err_set(m->e, ERR_USAGE, "--shape: found '%s', expected a name that gallop synth --list shows",
                       o->shape ? o->shape : "");
    if (o->bandwidth <= 0 || o->flops <= 0)
        return err_set(m->e, ERR_USAGE, "simulate: --bandwidth and --flops must be given");
    layers = o->layers ? o->layers : shape->layers;
    shapes_tensors(shape, layers, add_tensor, &s);
    s.head = s.head > 0 ? s.head : (double)(shape->vocab * shape->hidden);
    m->spec = (struct sim_executor_spec){
        .bandwidth = o->bandwidth * 1e9,
        .flops = o->flops * 1e9,
        .overhead_s = o->overhead_ms / 1000,
        .dense_bytes = (s.dense + s.head) * bytes,
        .expert_bytes = s.expert * bytes + s.mxfp4 * fmin(bytes, mxfp4_bits / 8),
        .n_experts = (double)shape->experts,
        .top_k = (double)shape->top_k,
        .row_flops =
            2 * (s.dense +
                 (shape->experts ? (s.expert + s.mxfp4) * (double)shape->top_k / (double)shape->experts : 0)),
        .head_flops = 2 * s.head,
        .pair_flops = 4.0 * (double)(layers * shape->heads * shape->head_dim),
        .token_bytes = 2.0 * (double)(layers * shape->kv * shape->head_dim) * o->kv_bits / 8};
    m->kv_tokens = (size_t)(o->kv_cache_gib * (double)(1 << 30) / m->spec.token_bytes);
    return 0;
}

/* ---- options ---- */

/* Reads a list of limits such as "ttft:2000,tpot:200". */
static int read_limits(struct simulation *m)
{
    const char *text = m->o->limit;

    for (bool goes_on = true; goes_on;) {
        struct {
            const char *name;
            double *limit;
        } all[] = {{"ttft:", &m->limits.ttft_s}, {"tpot:", &m->limits.tpot_s}, {"e2el:", &m->limits.e2el_s}};
        double ms = 0;
        char *end = NULL;

        for (size_t i = 0; i < 3; i++)
            if (strncmp(text, all[i].name, 5) == 0) {
                ms = strtod(text + 5, &end);
                *all[i].limit = ms / 1000;
            }
        if (!(ms > 0 && isfinite(ms)) || (*end && *end != ','))
            return err_set(
                m->e, ERR_USAGE,
                "--limit: found '%s', expected milliseconds above 0 such as ttft:2000,tpot:200,e2el:60000",
                text);
        goes_on = *end == ',';
        text = end + 1;
    }
    return 0;
}

static int read_options(struct simulation *m)
{
    const struct simulate_options *o = m->o;
    const struct gallop_options *engine = &o->load.o;
    int rc;

    if (o->traffic.trace && !traffic_trace_file(&o->traffic))
        return err_set(m->e, ERR_USAGE, "--trace: found no file name, expected a file of requests");
    if ((rc = read_limits(m)) != 0 || (rc = read_shape(m)) != 0 ||
        (rc = traffic_of_options(&m->traffic, &o->traffic, m->e)) != 0)
        return rc;
    if (o->block_size & (o->block_size - 1))
        return err_set(m->e, ERR_USAGE, "--block-size: found %zu, expected a power of two", o->block_size);
    m->max_len = o->max_model_len ? o->max_model_len : traffic_longest(&m->traffic);
    if (m->kv_tokens < m->max_len + o->block_size)
        return err_set(
            m->e, ERR_INPUT,
            "the KV cache holds %zu tokens, but a sequence can have %zu; --kv-cache-memory %.2f or more is expected",
            m->kv_tokens, m->max_len,
            ceil((double)(m->max_len + o->block_size) * m->spec.token_bytes / (1 << 30) * 100) / 100);
    m->step = (struct step_options){.one_by_one = strcmp(engine->scheduler, "iterative") == 0,
                                    .max_tokens = o->max_batched_tokens,
                                    .max_queued = (size_t)engine->max_num_queued_reqs,
                                    .max_queued_tokens = (size_t)engine->max_num_queued_tokens,
                                    .order = strcmp(engine->scheduler, "continuous_prefill_first") == 0
                                                 ? SCHED_PROMPTS_FIRST
                                                 : SCHED_DECODES_FIRST,
                                    .worst_case = strcmp(engine->admission, "worst-case") == 0,
                                    .target_s = engine->tpot_target_ms / 1000,
                                    .step_guess_s = m->spec.dense_bytes / m->spec.bandwidth,
                                    .row_guess_s = m->spec.row_flops / m->spec.flops};
    waiting_policy_of_name(engine->scheduling_policy, &m->step.policy);
    return 0;
}

/* ---- a run ---- */

struct simulate_run {
    struct simulation *m;
    double speed;
    struct kv kv;
    struct sim_executor executor;
    struct step step;
    struct serving serving;
    int32_t *ids;  /* [max_len] tokens of the prompt that is being submitted */
    size_t n_came; /* number of first turns that were sent */
};

/* Opens the objects of a run. The KV cache has as many blocks as that of the simulated machine, but its rows
 * have only one head of one byte. */
static int open_run(struct simulate_run *r)
{
    const struct simulate_options *o = r->m->o;
    enum prefix_kind index = PREFIX_RADIX;
    bool keeps = prefix_kind_of_name(o->load.o.prefix_index, &index) && !o->load.no_prefix_caching;
    const struct kv_limits lim = {.n_layers = 1,
                                  .n_kv = 1,
                                  .head_dim = 1,
                                  .dtype = DT_I8,
                                  .max_seqs = (size_t)o->load.o.max_num_seqs,
                                  .max_len = r->m->max_len,
                                  .block = o->block_size,
                                  .pool_tokens = r->m->kv_tokens,
                                  .keep_prefixes = keeps,
                                  .prefix_index = index};
    size_t most = r->m->step.max_tokens > lim.max_seqs ? r->m->step.max_tokens : lim.max_seqs;
    int rc;

    r->ids = mem_zalloc(r->m->max_len, sizeof(*r->ids), MEM_APP);
    if (!r->ids)
        return err_nomem(r->m->e, "a prompt");
    if ((rc = kv_open(&r->kv, "paged", &lim, r->m->e)) != 0 ||
        (rc = sim_executor_open(&r->executor, &r->m->spec, &r->kv, most, r->m->e)) != 0 ||
        (rc = step_open(&r->step, &r->executor.x, &r->m->step, r->m->e)) != 0)
        return rc;
    return serving_open(&r->serving, &r->m->traffic, SIZE_MAX, r->m->e);
}

static void close_run(struct simulate_run *r)
{
    step_close(&r->step);
    sim_executor_close(&r->executor);
    kv_close(&r->kv);
    serving_close(&r->serving);
    mem_free(r->ids);
}

/* Submits request I at the simulated time AT_S. Sets *ENDED if the queue is full or the request exceeds the
 * context length. */
static int send_one(struct simulate_run *r, size_t i, double at_s, bool *ended)
{
    const struct traffic_request *q = &r->m->traffic.request[i];
    struct sampling sampling;
    struct seq_request sr = {.ids = r->ids,
                             .n_ids = q->n_prompt,
                             .sampling = &sampling,
                             .prompt_logprobs = -1,
                             .user = &r->serving.request[i]};
    struct err why = {0};
    struct seq *s;

    *ended = !serving_sent(&r->serving, i, at_s, r->m->max_len);
    if (*ended)
        return 0;
    sampling_default(&sampling);
    sampling.max_new_tokens = q->n_output;
    sampling.ignore_eos = true;
    sampling_mark(&sampling, SAMPLING_MAX_NEW_TOKENS);
    if (step_take_place(&r->step, q->n_prompt, &why) != 0) {
        serving_ended(&r->serving, i, at_s, 0, true);
        *ended = true;
        return 0;
    }
    traffic_tokens(&r->m->traffic, i, INT32_MAX, r->ids);
    if (seq_new(&s, &sr, 1, NULL, INT32_MAX, r->m->max_len, r->m->e) != 0)
        return r->m->e->code;
    s->queued = true;
    s->id = i + 1;
    step_add(&r->step, s);
    return 0;
}

/* Submits request I. If it is refused, submits the next turn of its conversation, and so on. */
static int send_turns(struct simulate_run *r, size_t i, double at_s)
{
    bool ended = true;
    int rc = send_one(r, i, at_s, &ended);

    while (rc == 0 && ended && (i = r->m->traffic.request[i].next) != 0)
        rc = send_one(r, i, at_s, &ended);
    return rc;
}

/* Records the events of the last step, and submits the next turns of finished requests. */
static int take_events(struct simulate_run *r)
{
    double now = r->executor.now_s;
    struct step_event ev;
    int rc = 0;

    while (rc == 0 && step_take(&r->step, &ev)) {
        size_t i = (size_t)((struct serving_request *)ev.seq->user - r->serving.request),
               next = r->m->traffic.request[i].next;

        if (ev.type == STEP_TOKEN && serving_token(&r->serving, i, ev.token, now) != 0)
            return err_nomem(r->m->e, "the times of tokens");
        if (ev.type != STEP_FINISHED)
            continue;
        serving_ended(&r->serving, i, now, ev.seq->n_cached, ev.seq->fault.code != 0);
        seq_free(ev.seq);
        if (next)
            rc = send_turns(r, next, now);
    }
    serving_step(&r->serving, now);
    return rc;
}

/* Runs all requests, whose times of arrival are divided by r->speed. */
static int run_traffic(struct simulate_run *r)
{
    const struct traffic *t = &r->m->traffic;
    int rc = 0;

    while (rc == 0 && r->serving.n_ended < t->n) {
        while (rc == 0 && r->n_came < t->n_first &&
               t->request[r->n_came].at_s / r->speed <= r->executor.now_s) {
            rc = send_turns(r, r->n_came, t->request[r->n_came].at_s / r->speed);
            r->n_came++;
        }
        if (rc == 0 && !step_run(&r->step) && r->n_came < t->n_first)
            r->executor.now_s = fmax(r->executor.now_s, t->request[r->n_came].at_s / r->speed);
        rc = rc ? rc : take_events(r);
    }
    return rc;
}

/* Returns the statistics of the load at SPEED, or NULL after an error (m->e). */
static json_t *simulate(struct simulation *m, double speed)
{
    static const double p[] = {90, 95, 99};
    struct simulate_run r = {.m = m, .speed = speed};
    json_t *o = NULL;

    if (open_run(&r) == 0 && run_traffic(&r) == 0 && !(o = serving_summary(&r.serving, &m->limits, p, 3)))
        err_nomem(m->e, "the summary");
    if (o) {
        json_object_set_new(o, "preemptions", json_integer((json_int_t)r.step.n_preempted));
        json_object_set_new(o, "recomputed_tokens", json_integer((json_int_t)r.step.n_recomputed));
        json_object_set_new(o, "steps", json_integer((json_int_t)r.step.n_steps));
        json_object_set_new(o, "kv_tokens", json_integer((json_int_t)m->kv_tokens));
        json_object_set_new(o, "speed", json_real(speed));
    }
    close_run(&r);
    return o;
}

/* ---- --rate-sweep ---- */

static bool is_within(const json_t *o, const char *key, double limit_s)
{
    return limit_s <= 0 || json_number_value(json_object_get(o, key)) <= limit_s * 1000;
}

/* Returns true if the statistics O satisfy --limit and no request failed. */
static bool holds(const struct simulation *m, const json_t *o)
{
    return json_integer_value(json_object_get(o, "failed")) == 0 &&
           is_within(o, "p95_ttft_ms", m->limits.ttft_s) && is_within(o, "p95_tpot_ms", m->limits.tpot_s) &&
           is_within(o, "p95_e2el_ms", m->limits.e2el_s);
}

/* Finds, by bisection to 2 %, the highest speed of arrivals at which the limits are satisfied, and prints the
 * statistics of that load. */
static int sweep(struct simulation *m, bool json)
{
    double low = 0, high = 0, speed = 1;
    json_t *best = NULL;

    if (m->traffic.request[m->traffic.n_first - 1].at_s == 0)
        return err_set(
            m->e, ERR_USAGE,
            "--rate-sweep: all requests arrive at once; --request-rate or a trace with times is expected");
    while ((high == 0 || low == 0 || high > low * 1.02) && speed > 1e-6 && speed < 1e6) {
        json_t *o = simulate(m, speed);

        if (!o) {
            json_decref(best);
            return m->e->code;
        }
        if (holds(m, o)) {
            json_decref(best);
            best = o;
            low = speed;
        } else {
            high = speed;
            json_decref(o);
        }
        speed = low == 0 ? high / 2 : high == 0 ? low * 2 : sqrt(low * high);
    }
    if (!best)
        return err_set(m->e, ERR_INPUT,
                       "--limit: this machine exceeds the limits even at a millionth of the request rate");
    if (!json && high == 0)
        print_text("the limits hold at any rate of this traffic:\n");
    else if (!json)
        print_fmt("the limits hold up to %.3g times this traffic:\n", low);
    serving_print(best, m->max_len, json);
    return 0;
}

static int simulate_run(const struct opt_values *v, struct err *e)
{
    struct simulate_options o = {.shape = NULL};
    struct simulation m = {.o = &o, .e = e};
    json_t *summary;
    int rc;

    load_init(&o.load);
    traffic_options_init(&o.traffic);
    opt_read(v, &o, sizeof(o));
    rc = read_options(&m);
    if (rc == 0 && o.rate_sweep)
        rc = sweep(&m, o.out.json);
    else if (rc == 0 && (summary = simulate(&m, 1)) != NULL)
        serving_print(summary, m.max_len, o.out.json);
    else if (rc == 0)
        rc = e->code;
    traffic_fini(&m.traffic);
    return rc;
}

const struct verb verb_simulate = {
    .name = "simulate",
    .summary = "predict how a machine would serve a load of requests",
    .arguments = "--shape NAME --bandwidth GB/s --flops GF/s [options]",
    .no_words = "options only",
    .manual =
        "Predicts time to first token, inter-token latency, throughput, prefix-cache hits and preemptions of a load on "
        "a machine with the given memory bandwidth and arithmetic rate. The scheduler, policies and prefix cache are "
        "those of the engine; the time of a step is computed from its bytes and operations.",
    .options = (const struct opt_part[]){OPT_OWN(struct simulate_options, rows),
                                         OPT_PART(struct simulate_options, traffic, traffic_options),
                                         OPT_PART(struct simulate_options, load, options_scheduling),
                                         OPT_PART(struct simulate_options, out, options_json),
                                         OPT_PART(struct simulate_options, out, options_help), OPT_END},
    .run = simulate_run,
};
