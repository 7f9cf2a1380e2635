/* verb_bench.c - `gallop bench`: tokens per second of prefill, decode and mixed steps, and the roofs of the
 * machine, measured between these measurements.
 *
 * Every measurement is made once in each repetition, so that a drift of the machine's speed affects all
 * measurements equally. The roofs are measured at the beginning of each repetition, every few seconds, and at
 * the end. roof_share is the ideal time (cost.c), computed from the roofs before and after a measurement,
 * divided by the measured time; the median over the repetitions is printed. The KV rows of contexts are
 * copied instead of computed (fill.c), and are kept between repetitions unless the model has windows. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/stat.h"
#include "base/threads/pool.h"
#include "engine/engine_priv.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "engine/schedule/sched.h"
#include "kern/kern.h"
#include "kern/roof.h"
#include "lab/bench/backends.h"
#include "lab/bench/cost.h"
#include "lab/bench/fill.h"
#include "lab/bench/kernels.h"
#include "lab/bench/serve.h"
#include "lab/bench/speculate.h"
#include "lab/bench/trace.h"
#include "lab/bench/traffic.h"

enum { MAX_ROWS = 16 + 2 * 8 * 8, MAX_REPS = 100, MAX_BATCH = BENCH_MAX_SEQS - 1, MAX_LOGITS = 4096 };
enum { CYCLE = 16, MIXED_STEPS = 4 };

static const double roof_age = 3; /* maximum seconds between two measurements of the roofs */

struct bench_options {
    struct load load;
    struct options_output out;
    struct bench_serve_options serve;
    struct bench_speculate_options speculate;
    struct traffic_options traffic;
    const char *prefill, *context, *batch; /* lists of numbers, such as "1,4,8" */
    bool prefill_given, batch_given;
    const char *kernel; /* prefix of the names of kernels to measure */
    size_t decode, rows, mixed, reps;
    double roof_seconds;
    bool roof_seconds_given, kernels, backends;
};

#define INTO(member) OPT_INTO(struct bench_options, member)

static const struct opt_row rows[] = {
    {"prefill", 0, PARAM_TEXT, "N,N", EVERYDAY,
     .help = "lengths of the prompts whose prefill is measured; 0: no prefill", .fallback = "512,2048",
     OPT_INTO(struct bench_options, prefill), OPT_SOURCE(struct bench_options, prefill_given)},
    {"decode", 0, PARAM_INT, "N", EVERYDAY,
     .help = "number of tokens that each sequence decodes, rounded up to whole steps; 0: no decoding",
     .fallback = "128", .values = "[0,100000]", INTO(decode)},
    {"context", 0, PARAM_TEXT, "N,N", EVERYDAY,
     .help =
         "context lengths at which decoding begins; at most 512 rows are computed, longer contexts repeat them",
     .fallback = "128", INTO(context)},
    {"batch", 0, PARAM_TEXT, "N,N", EVERYDAY, .help = "numbers of sequences that are decoded at once",
     .fallback = "1,4,8,16,32", OPT_INTO(struct bench_options, batch),
     OPT_SOURCE(struct bench_options, batch_given)},
    {"rows", 0, PARAM_INT, "N", EVERYDAY,
     .help = "number of tokens of each sequence in a decoding step; more than 1 as in speculative decoding",
     .fallback = "1", .values = "[1,512]", INTO(rows)},
    {"mixed", 0, PARAM_INT, "N", EVERYDAY,
     .help =
         "also measure mixed steps, which compute N tokens of a prompt and a token of each decoding sequence; 0: no "
         "mixed steps",
     .fallback = "0", .values = "[0,65536]", INTO(mixed)},
    {"reps", 0, PARAM_INT, "N", EVERYDAY, .help = "number of repetitions, of which the median is printed",
     .fallback = "5", .values = "[1,100]", INTO(reps)},
    {"roof-seconds", 0, PARAM_REAL, "S", EVERYDAY, .help = "duration of each measurement of the roofs",
     .fallback = "1", .values = "(0,60]", OPT_INTO(struct bench_options, roof_seconds),
     OPT_SOURCE(struct bench_options, roof_seconds_given)},
    {"kernels", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help =
         "measure every kernel instead of a model; --threads (default 1) is the number of threads that run it at "
         "the same time",
     INTO(kernels)},
    {"kernel", 0, PARAM_TEXT, "NAME", EVERYDAY,
     .help = "with --kernels, measure only the kernels whose names begin with NAME", .otherwise = "all",
     INTO(kernel)},
    {"backends", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help =
         "measure every linear backend on the model's linears instead of whole steps, with --batch rows (default "
         "1,8,32) and with the rows of --prefill (default 512)",
     INTO(backends)},
    {0}};

enum test { PREFILL, DECODE, MIXED };
static const char *const test_names[] = {"prefill", "decode", "mixed"};

/* A measurement: a row of the output. */
struct row {
    enum test test;
    size_t prompt;           /* length of the prompt, or of the context of DECODE and MIXED */
    size_t batch;            /* number of sequences */
    size_t tokens;           /* number of tokens that each sequence computes */
    size_t rows;             /* tokens in a step, of each sequence (DECODE) or of the prompt (MIXED) */
    double second[MAX_REPS]; /* time of each repetition */
    size_t roof[MAX_REPS];   /* index of the last measurement of the roofs before each repetition */
    struct bench_trace_sum trace;
};

struct bench {
    struct llm *m;
    struct bench_fill fill;
    struct row row[MAX_ROWS];
    size_t n_rows, reps;
    size_t rows, mixed;             /* values of --rows and --mixed */
    size_t longest, context, batch; /* maxima over the rows: positions of a sequence, context, batch */
    struct roof_meter roofs;
    struct roof *roof; /* [n_roofs] measurements of the roofs, in order of time */
    size_t n_roofs;
    double roof_seconds, roof_end; /* duration of a measurement of the roofs, end of the last one */
    bool traced;
    struct bench_trace trace;
    int32_t *ids; /* [longest] */
    struct err *e;
};

/* Reads the value TEXT of the option FLAG, such as "1,4,8", into OUT, at most MAX numbers. *N becomes their
 * number. */
static int read_list(const char *text, const char *flag, size_t *out, size_t max, size_t *n, struct err *e)
{
    *n = 0;
    while (*text) {
        char *end;
        unsigned long v = strtoul(text, &end, 10);

        if (end == text || (*end && *end != ',') || v > 10000000 || *n == max)
            return err_set(e, ERR_USAGE, "--%s: expected a list of at most %zu numbers such as 1,4,8", flag,
                           max);
        out[(*n)++] = v;
        text = *end ? end + 1 : end;
    }
    return 0;
}

static void add_prefill(struct bench *b, size_t n)
{
    b->row[b->n_rows++] = (struct row){.test = PREFILL, .prompt = n, .batch = 1, .tokens = n};
    b->longest = n > b->longest ? n : b->longest;
}

/* Adds a measurement that decodes after a context. END is the largest number of positions of its
 * sequences. */
static void add_behind(struct bench *b, const struct row *row, size_t end)
{
    b->row[b->n_rows++] = *row;
    b->longest = end > b->longest ? end : b->longest;
    b->context = row->prompt > b->context ? row->prompt : b->context;
    b->batch = row->batch > b->batch ? row->batch : b->batch;
}

static int add_decode(struct bench *b, size_t context, size_t batch, size_t tokens)
{
    const struct row decode = {
        .test = DECODE, .prompt = context, .batch = batch, .tokens = tokens, .rows = b->rows};
    const struct row mixed = {
        .test = MIXED, .prompt = context, .batch = batch, .tokens = MIXED_STEPS, .rows = b->mixed};

    if (batch < 1 || batch > MAX_BATCH)
        return err_set(b->e, ERR_USAGE, "--batch: found %zu, expected 1 to %d", batch, MAX_BATCH);
    if (batch * b->rows > MAX_LOGITS)
        return err_set(b->e, ERR_USAGE,
                       "--rows: a step of %zu tokens of each of %zu sequences exceeds the limit of %d tokens",
                       b->rows, batch, MAX_LOGITS);
    if (tokens)
        add_behind(b, &decode, context + tokens);
    if (b->mixed)
        add_behind(b, &mixed, context + MIXED_STEPS * b->mixed);
    return 0;
}

static int plan_rows(struct bench *b, const struct bench_options *o)
{
    size_t list[16], batch[8], n, n_batch, decode = o->decode;
    int rc;

    b->rows = o->rows;
    b->mixed = o->mixed;
    b->longest = CYCLE + b->rows;
    b->batch = 1;
    if ((rc = read_list(o->prefill, "prefill", list, 16, &n, b->e)) != 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        if (list[i])
            add_prefill(b, list[i]);
    if ((rc = read_list(o->context, "context", list, 8, &n, b->e)) != 0 ||
        (rc = read_list(o->batch, "batch", batch, 8, &n_batch, b->e)) != 0)
        return rc;
    decode = (decode + b->rows - 1) / b->rows * b->rows;
    for (size_t i = 0; i < n && (decode || b->mixed); i++)
        for (size_t k = 0; k < n_batch; k++)
            if ((rc = add_decode(b, list[i] ? list[i] : 1, batch[k], decode)) != 0)
                return rc;
    return b->n_rows ? 0
                     : err_set(b->e, ERR_USAGE, "--prefill, --decode and --mixed exclude every measurement");
}

/* Sets the engine's options to the sizes that the measurements need. Fails if --max-model-len is too
 * small. */
static int size_engine(const struct bench *b, struct gallop_options *o)
{
    size_t decoded = 0, seq, n = 0;

    if (o->max_model_len == 0)
        o->max_model_len = (int64_t)b->longest;
    if ((size_t)o->max_model_len < b->longest)
        return err_set(b->e, ERR_USAGE,
                       "--max-model-len: found %lld, expected at least %zu, which the measurements need",
                       (long long)o->max_model_len, b->longest);
    /* The engine reserves one row of logits for each sequence; a decoding step needs b->rows of them. */
    o->max_num_seqs = (int64_t)(b->batch * b->rows + (b->mixed > 0));
    for (size_t i = 0; i < b->n_rows; i++)
        if (b->row[i].test != PREFILL && b->row[i].prompt + b->row[i].tokens > decoded)
            decoded = b->row[i].prompt + b->row[i].tokens;
    for (size_t s = 0; s < b->batch + (b->mixed > 0); s++) {
        seq =
            s && s < b->batch ? decoded : b->longest; /* the first and the last sequence also hold prompts */
        if (!kv_type_pooled(o->kv_cache_type)) {      /* regions are larger than their rows */
            seq = 2 * seq + 1024;
            seq = seq < (size_t)o->max_model_len ? seq : (size_t)o->max_model_len;
        }
        n += seq + KV_MAX_BLOCK;
    }
    o->kv_cache_tokens = (int64_t)n;
    return 0;
}

/* Writes the rows of step number STEP to R. Returns the number of sequences. */
static size_t step_rows(const struct bench *b, const struct row *row, size_t step, struct executor_rows *r)
{
    size_t each = row->test == DECODE ? row->rows : 1, pos = row->prompt + step * each;

    for (size_t s = 0; s < row->batch; s++)
        r[s] = (struct executor_rows){.slot = s,
                                      .id = b->ids + step * each % CYCLE,
                                      .n = each,
                                      .pos = pos,
                                      .n_prompt = row->prompt,
                                      .n_total = pos + each,
                                      .n_wanted = each};
    if (row->test == DECODE)
        return row->batch;
    r[row->batch] = (struct executor_rows){.slot = row->batch,
                                           .id = b->ids,
                                           .n = row->rows,
                                           .pos = row->prompt + step * row->rows,
                                           .n_prompt = row->prompt + (MIXED_STEPS + 1) * row->rows,
                                           .n_total = row->prompt + (MIXED_STEPS + 1) * row->rows};
    return row->batch + 1;
}

/* Computes one step. With --trace, adds its operators to the row's trace. */
static void forward(struct bench *b, struct row *row, const struct executor_rows *r, size_t n)
{
    double start = clock_seconds();

    llm_forward(b->m, r, n);
    if (b->traced)
        bench_trace_step(&b->trace, clock_seconds() - start, &b->roof[b->n_roofs - 1], &row->trace);
}

static int one_step(struct bench *b, struct row *row, size_t step)
{
    struct executor_rows r[BENCH_MAX_SEQS] = {0};
    size_t n = step_rows(b, row, step, r);
    int rc;

    for (size_t s = 0; s < n; s++)
        if ((rc = kv_reserve(&b->m->kv, s, r[s].pos + r[s].n)) != 0)
            return err_set(b->e, rc, "the KV cache has no room for %zu sequences of %zu tokens", n,
                           r[s].pos + r[s].n);
    forward(b, row, r, n);
    for (size_t s = 0; s < n; s++)
        kv_advance(&b->m->kv, s, r[s].pos + r[s].n);
    return 0;
}

static size_t steps_of(const struct row *row)
{
    return row->test == DECODE ? row->tokens / row->rows : row->tokens;
}

static int measure_decode(struct bench *b, struct row *row, double *seconds)
{
    double start;
    int rc = 0;

    for (size_t s = 0; s < row->batch + (row->test == MIXED) && rc == 0; s++)
        rc = bench_fill_sequence(&b->fill, s, row->prompt, b->e);
    start = clock_seconds();
    for (size_t t = 0; t < steps_of(row) && rc == 0; t++)
        rc = one_step(b, row, t);
    *seconds = clock_seconds() - start;
    return rc;
}

static int measure_prefill(struct bench *b, struct row *row, double *seconds)
{
    double start;
    int rc = 0;

    if (b->fill.m)
        bench_fill_drop(&b->fill, 0);
    start = clock_seconds();
    for (size_t pos = 0, len; pos < row->prompt && rc == 0; pos += len) {
        struct executor_rows r = {
            .id = b->ids + pos, .pos = pos, .n_prompt = row->prompt, .n_total = row->prompt};

        len = row->prompt - pos < b->m->max_tokens ? row->prompt - pos : b->m->max_tokens;
        r.n = len;
        r.n_wanted = pos + len == row->prompt;
        if ((rc = kv_reserve(&b->m->kv, 0, pos + len)) != 0)
            return err_set(b->e, rc, "the KV cache has no room for %zu tokens", row->prompt);
        forward(b, row, &r, 1);
        kv_advance(&b->m->kv, 0, pos + len);
    }
    *seconds = clock_seconds() - start;
    kv_release(&b->m->kv, 0);
    return rc;
}

static void measure_roofs(struct bench *b)
{
    roof_meter_measure(&b->roofs, b->roof_seconds, &b->roof[b->n_roofs++]);
    b->roof_end = clock_seconds();
}

/* Returns the ideal cost of all steps of ROW on a machine with ROOF. */
static struct bench_cost ideal(const struct bench *b, const struct row *row, const struct roof *roof)
{
    struct bench_cost_model m = {.llm = b->m, .roof = roof};
    const struct bench_rows decode = {row->batch, row->prompt, row->rows, row->rows};
    const struct bench_rows mixed[] = {{row->batch, row->prompt, 1, 1}, {1, row->prompt, row->rows, 0}};

    switch (row->test) {
    case PREFILL: return bench_cost_prefill(&m, row->prompt, b->m->max_tokens);
    case DECODE: return bench_cost_steps(&m, &decode, 1, steps_of(row));
    default: return bench_cost_steps(&m, mixed, 2, MIXED_STEPS);
    }
}

/* Returns the median of the roof shares of the repetitions. *C becomes the ideal cost of the last
 * repetition. */
static double share_of(const struct bench *b, const struct row *row, struct bench_cost *c)
{
    double share[MAX_REPS];

    *c = (struct bench_cost){0};
    for (size_t i = 0; i < b->reps; i++) {
        struct roof roof = roof_between(&b->roof[row->roof[i]], &b->roof[row->roof[i] + 1]);

        *c = ideal(b, row, &roof);
        share[i] = c->seconds / row->second[i];
    }
    return stat_median(share, b->reps);
}

static void print_row(const struct bench *b, struct row *row, bool json)
{
    struct bench_cost c;
    double share = share_of(b, row, &c), med = stat_median(row->second, b->reps);
    double hi = stat_min(row->second, b->reps), lo = stat_max(row->second, b->reps);
    size_t chunk = row->prompt < b->m->max_tokens ? row->prompt : b->m->max_tokens;
    size_t in_step = row->test == PREFILL ? chunk : row->rows;
    size_t steps = row->test == PREFILL ? (row->prompt + chunk - 1) / chunk : steps_of(row);
    double n = (double)(row->tokens * row->batch + (row->test == MIXED ? steps * in_step : 0));
    bool memory = 2 * c.memory_seconds > c.seconds;
    const char *dtype = b->m->model.opt.dtype == DT_F32 ? "fp32" : "bf16";

    if (json)
        print_json(json_pack("{s:s,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:i,s:s,s:s,s:s,s:I,s:f,s:f,s:f}", "test",
                             test_names[row->test], "prompt", (json_int_t)row->prompt, "batch",
                             (json_int_t)row->batch, "tokens", (json_int_t)row->tokens, "tok_s", n / med,
                             "tok_s_min", n / lo, "tok_s_max", n / hi, "bytes_per_token", c.bytes / n,
                             "roof_share", share, "threads", pool_threads(b->m->pool), "dtype", dtype,
                             "quant", b->m->model.quant, "bound", memory ? "memory" : "arithmetic", "rows",
                             (json_int_t)in_step, "flops_per_token", c.flops / n, "step_s",
                             med / (double)steps, "ideal_step_s", share * med / (double)steps));
    else
        print_fmt("%-8s %7zu %6zu %5zu %10.2f %10.2f %10.2f %10.1f MB %6.1f %% of the ideal (%s)\n",
                  test_names[row->test], row->prompt, row->batch, in_step, n / med, n / lo, n / hi,
                  c.bytes / n / 1e6, 100 * share, memory ? "memory" : "arithmetic");
    if (b->traced)
        bench_trace_print(&row->trace, json ? json_pack("{s:s,s:I,s:I,s:I}", "of", test_names[row->test],
                                                        "prompt", (json_int_t)row->prompt, "batch",
                                                        (json_int_t)row->batch, "rows", (json_int_t)in_step)
                                            : NULL);
}

/* Computes *R, the medians of all measurements of the roofs. */
static int median_roof(const struct bench *b, struct roof *r)
{
    double *x = mem_zalloc(b->n_roofs, sizeof(*x), MEM_APP);
    double *const to[] = {&r->fp32_flops, &r->bf16_flops, &r->int8_ops, &r->dram_bytes};

    if (!x)
        return err_nomem(b->e, "the roofs");
    *r = b->roof[0];
    for (size_t k = 0; k < sizeof(to) / sizeof(to[0]); k++) {
        for (size_t i = 0; i < b->n_roofs; i++) {
            const double from[] = {b->roof[i].fp32_flops, b->roof[i].bf16_flops, b->roof[i].int8_ops,
                                   b->roof[i].dram_bytes};

            x[i] = from[k];
        }
        *to[k] = stat_median(x, b->n_roofs);
    }
    mem_free(x);
    return 0;
}

static int bench_print(struct bench *b, bool json)
{
    struct roof r = {0};
    int rc = median_roof(b, &r);

    if (rc)
        return rc;
    bench_roof_print(&r, pool_threads(b->m->pool), b->m->isa, json);
    if (!json)
        print_fmt("%-8s %7s %6s %5s %10s %10s %10s %13s\n", "test", "prompt", "batch", "rows", "tok/s", "min",
                  "max", "a token");
    for (size_t i = 0; i < b->n_rows; i++)
        print_row(b, &b->row[i], json);
    return 0;
}

static int repeat(struct bench *b)
{
    struct print_bar bar = {.what = "measuring"};
    int rc = b->context ? bench_fill_open(&b->fill, b->m, b->ids, b->context, b->e) : 0;

    if (rc == 0 && b->traced)
        rc = bench_trace_open(&b->trace, b->m, b->e);
    for (size_t rep = 0; rep < b->reps && rc == 0; rep++)
        for (size_t i = 0; i < b->n_rows && rc == 0; i++) {
            struct row *row = &b->row[i];

            if (i == 0 || clock_seconds() - b->roof_end > roof_age)
                measure_roofs(b);
            row->roof[rep] = b->n_roofs - 1;
            rc = (row->test == PREFILL ? measure_prefill : measure_decode)(b, row, &row->second[rep]);
            rc =
                rc ? rc : print_flush(b->e); /* fails, and ends the benchmark, if the output pipe is closed */
            print_progress(&bar, rep * b->n_rows + i + 1, b->reps * b->n_rows);
        }
    if (rc == 0)
        measure_roofs(b);
    print_bar_end(&bar);
    bench_trace_close(&b->trace);
    bench_fill_close(&b->fill);
    return rc;
}

/* Makes all measurements with the open engine and prints the results. */
static int measure(struct bench *b, bool json)
{
    int rc;

    for (size_t i = 0; i < b->longest; i++)
        b->ids[i] = (int32_t)((i * 7919 + 13) % b->m->model.info.vocab);
    if (b->mixed && b->batch + b->mixed > b->m->max_tokens)
        return err_set(b->e, ERR_USAGE,
                       "--mixed: %zu prompt tokens and %zu sequences exceed the %zu rows of a step", b->mixed,
                       b->batch, b->m->max_tokens);
    if ((rc = roof_meter_open(&b->roofs, b->m->pool, b->e)) == 0 && (rc = repeat(b)) == 0)
        rc = bench_print(b, json);
    roof_meter_close(&b->roofs);
    return rc;
}

static int bench_model(struct bench_options *o, struct err *e)
{
    struct bench *b = mem_zalloc(1, sizeof(*b), MEM_APP);
    struct gallop *g = NULL;
    int rc;

    if (!b)
        return err_nomem(e, "the benchmark");
    b->e = e;
    b->reps = o->reps;
    b->roof_seconds = o->roof_seconds;
    b->traced = o->traffic.trace != NULL;
    if ((rc = plan_rows(b, o)) == 0 && (rc = load_prepare(&o->load, e)) == 0 &&
        (rc = size_engine(b, &o->load.o)) == 0) {
        b->ids = mem_zalloc(b->longest, sizeof(*b->ids), MEM_APP);
        b->roof = mem_zalloc(b->reps * b->n_rows + 1, sizeof(*b->roof), MEM_APP);
        rc = b->ids && b->roof ? load_engine(&o->load, NULL, &g, e) : err_nomem(e, "the benchmark");
    }
    if (rc == 0) {
        b->m = engine_llm(g);
        rc = llm_check_computes(b->m, e);
    }
    if (rc == 0)
        rc = measure(b, o->out.json);
    mem_free(b->roof);
    mem_free(b->ids);
    mem_free(b);
    gallop_close(g);
    return rc;
}

/* Adds the numbers in the value TEXT of the option FLAG to b->rows, each limited to MOST. Zeros, and numbers
 * that b->rows contains already, are skipped. */
static int add_backend_rows(struct bench_backends *b, const char *flag, const char *text, size_t most,
                            struct err *e)
{
    size_t list[8], n;
    int rc = read_list(text, flag, list, 8, &n, e);

    for (size_t i = 0; i < n && rc == 0; i++) {
        size_t m = list[i] < most ? list[i] : most;
        bool there = m == 0;

        for (size_t k = 0; k < b->n_rows; k++)
            there |= b->rows[k] == m;
        if (!there)
            b->rows[b->n_rows++] = m;
    }
    return rc;
}

static int bench_linears(struct bench_options *o, struct err *e)
{
    struct bench_backends b = {
        .reps = o->reps, .roof_seconds = o->roof_seconds_given ? o->roof_seconds : 0.2, .json = o->out.json};
    int rc;

    if (o->load.o.op_config)
        return err_set(e, ERR_USAGE,
                       "--op-config cannot be combined with --backends, which measures every backend");
    if ((rc = add_backend_rows(&b, "batch", o->batch_given ? o->batch : "1,8,32", MAX_BATCH, e)) != 0)
        return rc;
    b.n_batches = b.n_rows;
    if ((rc = add_backend_rows(&b, "prefill", o->prefill_given ? o->prefill : "512", SCHED_ROWS, e)) != 0)
        return rc;
    if (b.n_rows == 0)
        return err_set(e, ERR_USAGE, "--batch and --prefill are both 0, so that nothing is left to measure");
    return (rc = load_prepare(&o->load, e)) != 0 ? rc : bench_backends(&b, &o->load.o, e);
}

static int bench_guesses(struct bench_options *o, struct err *e)
{
    struct bench_speculate b = {.of = o->speculate,
                                .decode = o->decode,
                                .reps = o->reps,
                                .roof_seconds = o->roof_seconds_given ? o->roof_seconds : 0.2,
                                .json = o->out.json};
    int rc;

    if ((rc = read_list(o->context, "context", b.context, BENCH_SPECULATE_LIST, &b.n_contexts, e)) != 0 ||
        (rc = read_list(o->batch, "batch", b.batch, BENCH_SPECULATE_LIST, &b.n_batches, e)) != 0)
        return rc;
    for (size_t i = 0; i < b.n_contexts; i++)
        b.context[i] += b.context[i] == 0;
    for (size_t i = 0; i < b.n_batches; i++)
        if (b.batch[i] < 1 || b.batch[i] > MAX_BATCH)
            return err_set(e, ERR_USAGE, "--batch: found %zu, expected 1 to %d", b.batch[i], MAX_BATCH);
    if (b.n_contexts == 0 || b.n_batches == 0 || b.decode == 0)
        return err_set(e, ERR_USAGE, "--context, --batch and --decode exclude every measurement");
    return bench_speculate(&b, &o->load, e);
}

static int bench_run(const struct opt_values *v, struct err *e)
{
    struct bench_options o = {.kernel = ""};
    const char *trace;

    load_init(&o.load);
    traffic_options_init(&o.traffic);
    opt_read(v, &o, sizeof(o));
    if (o.serve.serve)
        return bench_serve(&o.serve, &o.traffic, &o.load, o.out.json, e);
    if ((trace = traffic_trace_file(&o.traffic)) != NULL)
        return err_set(
            e, ERR_USAGE,
            "--trace %s: a file of requests needs --serve; --trace without a file prints the time of each "
            "operator",
            trace);
    if (o.kernels)
        return bench_kernels(o.load.o.threads ? o.load.o.threads : 1, o.kernel, o.out.json, 0.2, e);
    if (o.backends)
        return bench_linears(&o, e);
    return o.speculate.guesses ? bench_guesses(&o, e) : bench_model(&o, e);
}

const struct verb verb_bench = {
    .name = "bench",
    .summary = "measure tokens per second against the roofs of the machine",
    .arguments = "[options]",
    .no_words = "options only",
    .manual =
        "Measures tokens per second of prefill and decoding, and of steps that mix both (--mixed). The roofs of the "
        "machine, the memory bandwidth and arithmetic rates that it sustains, are measured in between, and results are "
        "also given as a share of them. --serve measures a load of many requests instead, --backends every linear"
        " backend on the linears of the model, --kernels every kernel, and --speculate speculative decoding with "
        "guesses of known quality. --trace without a file prints, with or without --serve, the time of each operator "
        "of a step, its bytes and operations per second, its share of the roof, and the time between operators.",
    .options = (const struct opt_part[]){OPT_PART(struct bench_options, load, options_model),
                                         OPT_OWN(struct bench_options, rows),
                                         OPT_PART(struct bench_options, speculate, bench_speculate_options),
                                         OPT_PART(struct bench_options, serve, bench_serve_options),
                                         OPT_PART(struct bench_options, traffic, traffic_options),
                                         OPT_PART(struct bench_options, load, options_source),
                                         OPT_PART(struct bench_options, load, options_engine),
                                         OPT_PART(struct bench_options, load, options_scheduling),
                                         OPT_PART(struct bench_options, out, options_json),
                                         OPT_PART(struct bench_options, out, options_help), OPT_END},
    .run = bench_run,
};
