/* verb_bench.c - `gallop bench`: tokens a second of prefill and decode, beside the machine's roofs of the
 * same minute.
 *
 * Every row is measured once in each repetition, so that a machine whose speed drifts is fair to all of them;
 * the roofs are measured between repetitions. roof_share is the time an ideal machine would need (the larger
 * of bytes / DRAM roof and operations / arithmetic roof, cost.c) over the time taken. Contexts are not
 * computed but filled (fill.c), and stay from one repetition to the next where windows let them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "app/bench/bench.h"
#include "app/bench/stat.h"
#include "base/clock.h"
#include "base/mem.h"
#include "kern/kern.h"

enum { MAX_ROWS = 16 + 8 * 8, MAX_REPS = 100, MAX_BATCH = 256, MAX_LOGITS = 4096, CYCLE = 16 };

static const struct opt_row rows[] = {
    {"prefill", 0, OPT_STRING, "N,N", EVERYDAY, .help = "prompt lengths; 0: none", .fallback = "512,2048"},
    {"decode", 0, OPT_INT, "N", EVERYDAY, .help = "tokens to decode, rounded up to whole steps; 0: none",
     .fallback = "128", .range = "[0,100000]"},
    {"context", 0, OPT_STRING, "N,N", EVERYDAY,
     .help = "rows in the cache when decoding begins: up to 512 that are computed, repeated",
     .fallback = "128"},
    {"batch", 0, OPT_STRING, "N,N", EVERYDAY, .help = "sequences decoded at once", .fallback = "1,4,8,16,32"},
    {"rows", 0, OPT_INT, "N", EVERYDAY, .help = "tokens of each sequence in a step: speculation, chunk tails",
     .fallback = "1", .range = "[1,512]"},
    {"reps", 0, OPT_INT, "N", EVERYDAY, .help = "repetitions; the median counts", .fallback = "5",
     .range = "[1,100]"},
    {"kernels", 0, OPT_FLAG, NULL, EVERYDAY,
     .help = "measure every kernel row instead of a model, on --threads threads (1) at once"},
    {0}};

struct row {
    bool decode;
    size_t prompt, batch, tokens; /* prompt: rows in the cache when decoding */
    size_t rows;                  /* tokens of a sequence in a step */
    double second[MAX_REPS];
};

struct bench {
    struct llm *m;
    struct bench_fill fill;
    struct row row[MAX_ROWS];
    size_t n_rows, reps, rows;      /* rows: of all decode rows */
    size_t longest, context, batch; /* the largest: positions of a sequence, --context, --batch */
    double dram[MAX_REPS], flops[MAX_REPS], fp32[MAX_REPS], int8[MAX_REPS];
    bool bf16_native;
    int32_t *ids; /* [longest] */
    struct err *e;
};

/* "1,4,8" into OUT. */
static int read_list(const char *text, const char *flag, size_t *out, size_t max, size_t *n, struct err *e)
{
    *n = 0;
    while (*text) {
        char *end;
        unsigned long v = strtoul(text, &end, 10);

        if (end == text || (*end && *end != ',') || v > 10000000 || *n == max)
            return err_set(e, ERR_USAGE, "--%s: a list of at most %zu numbers such as 1,4,8 is expected",
                           flag, max);
        out[(*n)++] = v;
        text = *end ? end + 1 : end;
    }
    return 0;
}

static void add_prefill(struct bench *b, size_t n)
{
    b->row[b->n_rows++] = (struct row){.prompt = n, .batch = 1, .tokens = n};
    b->longest = n > b->longest ? n : b->longest;
}

static int add_decode(struct bench *b, size_t context, size_t batch, size_t tokens)
{
    size_t end = context + tokens;

    if (batch < 1 || batch > MAX_BATCH)
        return err_set(b->e, ERR_USAGE, "--batch: %zu is not between 1 and %d", batch, MAX_BATCH);
    if (batch * b->rows > MAX_LOGITS)
        return err_set(b->e, ERR_USAGE, "--rows: %zu tokens of %zu sequences are more than %d in a step",
                       b->rows, batch, MAX_LOGITS);
    b->row[b->n_rows++] =
        (struct row){.decode = true, .prompt = context, .batch = batch, .tokens = tokens, .rows = b->rows};
    b->longest = end > b->longest ? end : b->longest;
    b->context = context > b->context ? context : b->context;
    b->batch = batch > b->batch ? batch : b->batch;
    return 0;
}

static int plan_rows(struct bench *b, const struct opt_values *v)
{
    size_t list[16], batch[8], n, n_batch, decode = (size_t)opt_int(v, "decode");
    int rc;

    b->rows = (size_t)opt_int(v, "rows");
    b->longest = CYCLE + b->rows;
    b->batch = 1;
    if ((rc = read_list(opt_string(v, "prefill"), "prefill", list, 16, &n, b->e)) != 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        if (list[i])
            add_prefill(b, list[i]);
    if ((rc = read_list(opt_string(v, "context"), "context", list, 8, &n, b->e)) != 0 ||
        (rc = read_list(opt_string(v, "batch"), "batch", batch, 8, &n_batch, b->e)) != 0)
        return rc;
    decode = (decode + b->rows - 1) / b->rows * b->rows;
    for (size_t i = 0; i < n && decode; i++)
        for (size_t k = 0; k < n_batch; k++)
            if ((rc = add_decode(b, list[i] ? list[i] : 1, batch[k], decode)) != 0)
                return rc;
    return b->n_rows ? 0 : err_set(b->e, ERR_USAGE, "nothing is to be measured");
}

/* The engine is made for what is measured, unless the user says otherwise. */
static int size_engine(const struct bench *b, struct gallop_options *o)
{
    size_t decoded = 0, seq, n = 0;

    if (o->max_model_len == 0)
        o->max_model_len = (int64_t)b->longest;
    if ((size_t)o->max_model_len < b->longest)
        return err_set(b->e, ERR_USAGE, "--max-model-len: %lld positions, what is to be measured takes %zu",
                       (long long)o->max_model_len, b->longest);
    o->max_num_seqs = (int64_t)(b->batch * b->rows); /* a row of logits is counted as a sequence */
    for (size_t i = 0; i < b->n_rows; i++)
        if (b->row[i].decode && b->row[i].prompt + b->row[i].tokens > decoded)
            decoded = b->row[i].prompt + b->row[i].tokens;
    for (size_t s = 0; s < b->batch; s++) { /* sequence 0 also takes prompts */
        seq = s ? decoded : b->longest;
        if (!kv_type_pooled(o->kv_cache_type)) { /* regions that double, or that grow by parts */
            seq = 2 * seq + 1024;
            seq = seq < (size_t)o->max_model_len ? seq : (size_t)o->max_model_len;
        }
        n += seq + KV_MAX_BLOCK;
    }
    o->kv_cache_tokens = (int64_t)n;
    return 0;
}

/* The next tokens of each of the BATCH sequences, from position POS. */
static int decode_step(struct bench *b, const struct row *row, size_t pos)
{
    struct executor_rows r[MAX_BATCH];
    int rc;

    for (size_t s = 0; s < row->batch; s++) {
        r[s] = (struct executor_rows){.slot = s,
                                      .id = b->ids + (pos - row->prompt) % CYCLE,
                                      .n = row->rows,
                                      .pos = pos,
                                      .n_prompt = row->prompt,
                                      .n_total = pos + row->rows,
                                      .n_wanted = row->rows};
        if ((rc = kv_reserve(&b->m->kv, s, pos + row->rows)) != 0)
            return err_set(b->e, rc, "the KV cache has no room for %zu sequences of %zu tokens", row->batch,
                           row->prompt + row->tokens);
    }
    llm_forward(b->m, r, row->batch);
    for (size_t s = 0; s < row->batch; s++)
        kv_advance(&b->m->kv, s, pos + row->rows);
    return 0;
}

static int measure_decode(struct bench *b, const struct row *row, double *seconds)
{
    double start;
    int rc = 0;

    for (size_t s = 0; s < row->batch && rc == 0; s++)
        rc = bench_fill_sequence(&b->fill, s, row->prompt, b->e);
    start = clock_seconds();
    for (size_t t = 0; t < row->tokens && rc == 0; t += row->rows)
        rc = decode_step(b, row, row->prompt + t);
    *seconds = clock_seconds() - start;
    return rc;
}

static int measure_prefill(struct bench *b, const struct row *row, double *seconds)
{
    double start;
    int rc;

    if (b->fill.m)
        bench_fill_drop(&b->fill, 0);
    start = clock_seconds();
    rc = bench_fill_prompt(b->m, b->ids, row->prompt, false, b->e);
    *seconds = clock_seconds() - start;
    kv_release(&b->m->kv, 0);
    return rc;
}

static void measure_roofs(struct bench *b, size_t rep)
{
    struct bench_roof r;

    bench_roof_measure(b->m->pool, &r, 0.3);
    b->dram[rep] = r.dram_bytes;
    b->flops[rep] = b->m->model.opt.dtype == DT_F32 ? r.fp32_flops : r.bf16_flops;
    b->fp32[rep] = r.fp32_flops;
    b->int8[rep] = r.int8_ops;
    b->bf16_native = r.bf16_native;
}

/* Bytes and operations of the whole row on an ideal machine. */
static struct bench_cost ideal(const struct bench *b, const struct row *row)
{
    const struct model_info *i = &b->m->model.info;
    size_t es = dtype_bytes(b->m->model.opt.dtype);
    double head = (double)(i->vocab * i->hidden * es);
    struct bench_cost_model m = {.linear_bytes = (double)b->m->model.packed_bytes - head,
                                 .head_bytes = head,
                                 .weight_bytes = es,
                                 .n_heads = i->n_heads,
                                 .kv = &b->m->kv.lim};

    return row->decode ? bench_cost_decode(&m, row->prompt, row->rows, row->batch, row->tokens / row->rows)
                       : bench_cost_prefill(&m, row->prompt, b->m->max_tokens);
}

static void print_row(const struct bench *b, struct row *row, double dram, double flops, bool json)
{
    double n = (double)(row->tokens * row->batch), best;
    double med = stat_median(row->second, b->reps), lo = stat_max(row->second, b->reps),
           hi = stat_min(row->second, b->reps);

    struct bench_cost c = ideal(b, row);
    bool memory = c.bytes / dram > c.flops / flops;
    size_t chunk = row->prompt < b->m->max_tokens ? row->prompt : b->m->max_tokens;

    best = memory ? c.bytes / dram : c.flops / flops;
    if (json)
        print_json(json_pack("{s:s,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:i,s:s,s:s,s:s,s:I}", "test",
                             row->decode ? "decode" : "prefill", "prompt", (json_int_t)row->prompt, "batch",
                             (json_int_t)row->batch, "tokens", (json_int_t)row->tokens, "tok_s", n / med,
                             "tok_s_min", n / lo, "tok_s_max", n / hi, "bytes_per_token", c.bytes / n,
                             "roof_share", best / med, "threads", pool_threads(b->m->pool), "dtype",
                             b->m->model.opt.dtype == DT_F32 ? "fp32" : "bf16", "quant", "none", "bound",
                             memory ? "memory" : "arithmetic", "rows",
                             (json_int_t)(row->decode ? row->rows : chunk)));
    else
        print_fmt("%-8s %7zu %6zu %5zu %10.2f %10.2f %10.2f %10.1f MB %6.1f %% of the %s roof\n",
                  row->decode ? "decode" : "prefill", row->prompt, row->batch,
                  row->decode ? row->rows : chunk, n / med, n / lo, n / hi, c.bytes / n / 1e6,
                  100 * best / med, memory ? "memory" : "arithmetic");
}

static void print(struct bench *b, bool json)
{
    double dram = stat_median(b->dram, b->reps), flops = stat_median(b->flops, b->reps);

    if (!json) {
        print_fmt("%s, %d thread%s, %s; roofs: %.1f GB/s DRAM read, %.0f GFLOP/s fp32, %.0f GFLOP/s bf16%s, ",
                  cpu_model(), pool_threads(b->m->pool), pool_threads(b->m->pool) == 1 ? "" : "s", b->m->isa,
                  dram / 1e9, stat_median(b->fp32, b->reps) / 1e9, flops / 1e9,
                  b->bf16_native ? "" : " (widened)");
        if (stat_median(b->int8, b->reps) > 0)
            print_fmt("%.0f GOP/s int8\n", stat_median(b->int8, b->reps) / 1e9);
        else
            print_fmt("no int8 dot here\n");
        print_fmt("%-8s %7s %6s %5s %10s %10s %10s %13s\n", "test", "prompt", "batch", "rows", "tok/s", "min",
                  "max", "a token");
    } else {
        print_json(json_pack("{s:s,s:f,s:f,s:f,s:f,s:b,s:i,s:s,s:s}", "test", "roof", "dram_bytes_s", dram,
                             "fp32_flops", stat_median(b->fp32, b->reps), "bf16_flops", flops, "int8_ops",
                             stat_median(b->int8, b->reps), "bf16_native", (int)b->bf16_native, "threads",
                             pool_threads(b->m->pool), "cpu", cpu_model(), "isa", b->m->isa));
    }
    for (size_t i = 0; i < b->n_rows; i++)
        print_row(b, &b->row[i], dram, flops, json);
}

static int repeat(struct bench *b)
{
    struct print_bar bar = {.what = "measuring"};
    int rc = b->context ? bench_fill_open(&b->fill, b->m, b->ids, b->context, b->e) : 0;

    for (size_t rep = 0; rep < b->reps && rc == 0; rep++) {
        measure_roofs(b, rep);
        for (size_t i = 0; i < b->n_rows && rc == 0; i++) {
            struct row *row = &b->row[i];

            rc = (row->decode ? measure_decode : measure_prefill)(b, row, &row->second[rep]);
            rc = rc ? rc : print_flush(b->e); /* a reader that is gone ends the work */
            print_progress(&bar, rep * b->n_rows + i + 1, b->reps * b->n_rows);
        }
    }
    print_bar_end(&bar);
    bench_fill_close(&b->fill);
    return rc;
}

static int bench_model(const struct opt_values *v, struct err *e)
{
    struct bench *b = mem_zalloc(1, sizeof(*b), MEM_APP);
    struct gallop *g = NULL;
    struct load l;
    int rc;

    if (!b)
        return err_nomem(e, "the benchmark");
    b->e = e;
    b->reps = (size_t)opt_int(v, "reps");
    if ((rc = plan_rows(b, v)) == 0 && (rc = load_options(v, &l, e)) == 0 &&
        (rc = size_engine(b, &l.o)) == 0) {
        b->ids = mem_zalloc(b->longest, sizeof(*b->ids), MEM_APP);
        rc = b->ids ? load_engine(&l, NULL, &g, e) : err_nomem(e, "the benchmark");
    }
    if (rc == 0) {
        b->m = gallop_llm(g);
        for (size_t i = 0; i < b->longest; i++)
            b->ids[i] = (int32_t)((i * 7919 + 13) % b->m->model.info.vocab);
        if ((rc = repeat(b)) == 0)
            print(b, opt_flag(v, "json"));
    }
    mem_free(b->ids);
    mem_free(b);
    gallop_close(g);
    return rc;
}

static int run(const struct opt_values *v, struct err *e)
{
    int threads = opt_int(v, "threads") ? (int)opt_int(v, "threads") : 1;

    if (opt_flag(v, "serve"))
        return bench_serve(v, e);
    return opt_flag(v, "kernels") ? bench_kernels(threads, opt_flag(v, "json"), 0.2, e) : bench_model(v, e);
}

const struct verb verb_bench = {
    .name = "bench",
    .summary = "tokens a second against the machine's roofs",
    .arguments = "[options]",
    .no_words = "options only",
    .manual =
        "Tokens a second of prefill and decode, beside the machine's own roofs measured in between; with "
        "--kernels the speed of every kernel instead, with --serve a load of many requests.",
    .options = (const struct opt_row *const[]){options_model, rows, bench_serve_options, traffic_options,
                                               options_source, options_engine, options_scheduling,
                                               options_json, options_help, NULL},
    .run = run,
};
