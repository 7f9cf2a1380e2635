/* verb_bench.c - `gallop bench`: tokens a second of prefill and decode, beside the machine's roofs of the
 * same minute.
 *
 * Every row is measured once in each repetition, so that a machine whose speed drifts is fair to all of
 * them; the roofs are measured between repetitions. roof_share is the time an ideal machine would need (the
 * larger of bytes / DRAM roof and operations / arithmetic roof) over the time taken.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/benchkern.h"
#include "app/common.h"
#include "app/roof.h"
#include "app/verbs.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "kern/kern.h"

enum { BENCH_PREFILL = COMMON_OWN, BENCH_DECODE, BENCH_CONTEXT, BENCH_BATCH, BENCH_REPS, BENCH_KERNELS };
enum { MAX_ROWS = 16 + 8 * 8, MAX_REPS = 100, MAX_BATCH = 256 };

static const struct opt_row rows[] = {
    COMMON_MODEL_ROWS,
    {.id = BENCH_PREFILL,
     .name = "prefill",
     .type = OPT_STRING,
     .arg = "N,N",
     .fallback = "512,2048",
     .help = "prompt lengths (0: none)"},
    {.id = BENCH_DECODE,
     .name = "decode",
     .type = OPT_INT,
     .arg = "N",
     .range = "[0,100000]",
     .fallback = "128",
     .help = "tokens to decode (0: none)"},
    {.id = BENCH_CONTEXT,
     .name = "context",
     .type = OPT_STRING,
     .arg = "N,N",
     .fallback = "128",
     .help = "rows in the cache when decoding begins"},
    {.id = BENCH_BATCH,
     .name = "batch",
     .type = OPT_STRING,
     .arg = "N,N",
     .fallback = "1,4,8,16,32",
     .help = "sequences decoded at once"},
    {.id = BENCH_REPS,
     .name = "reps",
     .type = OPT_INT,
     .arg = "N",
     .range = "[1,100]",
     .fallback = "5",
     .help = "repetitions; the median counts"},
    {.id = BENCH_KERNELS,
     .name = "kernels",
     .type = OPT_FLAG,
     .help = "measure every kernel row instead of a model"},
    COMMON_OUTPUT_ROWS,
};

struct row {
    bool decode;
    size_t prompt, batch, tokens; /* prompt: rows in the cache when decoding */
    double second[MAX_REPS];
};

struct bench {
    struct llm *m;
    struct row row[MAX_ROWS];
    size_t n_rows, reps;
    double dram[MAX_REPS], flops[MAX_REPS], fp32[MAX_REPS], int8[MAX_REPS];
    bool bf16_native;
    int32_t *ids; /* [longest prompt] */
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
            return err_set(e, ERR_INPUT, "--%s: a list of at most %zu numbers such as 1,4,8 is expected",
                           flag, max);
        out[(*n)++] = v;
        text = *end ? end + 1 : end;
    }
    return 0;
}

static int plan_rows(struct bench *b, const struct opt_values *v, size_t *longest, size_t *most)
{
    size_t list[16], batch[8], n, n_batch, decode = (size_t)opt_int(v, BENCH_DECODE);
    int rc;

    *longest = 16;
    *most = 1;
    if ((rc = read_list(opt_string(v, BENCH_PREFILL), "prefill", list, 16, &n, b->e)) != 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        if (list[i]) {
            b->row[b->n_rows++] = (struct row){.prompt = list[i], .batch = 1, .tokens = list[i]};
            *longest = list[i] > *longest ? list[i] : *longest;
        }
    if ((rc = read_list(opt_string(v, BENCH_CONTEXT), "context", list, 8, &n, b->e)) != 0 ||
        (rc = read_list(opt_string(v, BENCH_BATCH), "batch", batch, 8, &n_batch, b->e)) != 0)
        return rc;
    for (size_t i = 0; i < n && decode; i++)
        for (size_t k = 0; k < n_batch; k++) {
            if (batch[k] < 1 || batch[k] > MAX_BATCH)
                return err_set(b->e, ERR_INPUT, "--batch: %zu is not between 1 and %d", batch[k], MAX_BATCH);
            b->row[b->n_rows++] = (struct row){
                .decode = true, .prompt = list[i] ? list[i] : 1, .batch = batch[k], .tokens = decode};
            *longest = list[i] + decode + 1 > *longest ? list[i] + decode + 1 : *longest;
            *most = batch[k] > *most ? batch[k] : *most;
        }
    return b->n_rows ? 0 : err_set(b->e, ERR_INPUT, "nothing is to be measured");
}

/* Computes N tokens of sequence SLOT from position POS, in steps of the largest size. */
static int prefill(struct bench *b, size_t slot, size_t n)
{
    struct llm *m = b->m;
    int rc;

    for (size_t pos = 0; pos < n;) {
        size_t len = n - pos < m->max_tokens ? n - pos : m->max_tokens;
        struct llm_rows r = {.slot = slot,
                             .id = b->ids + pos,
                             .n = len,
                             .pos = pos,
                             .n_prompt = n,
                             .n_total = n,
                             .n_wanted = pos + len == n};

        if ((rc = kv_reserve(&m->kv, slot, pos + len)) != 0)
            return err_set(b->e, rc, "the KV cache has no room for %zu tokens", n);
        llm_forward(m, &r, 1);
        pos += len;
        kv_advance(&m->kv, slot, pos);
    }
    return 0;
}

/* One token of each of the BATCH sequences, from position POS. */
static int decode_step(struct bench *b, const struct row *row, size_t pos)
{
    struct llm_rows r[MAX_BATCH];
    int rc;

    for (size_t s = 0; s < row->batch; s++) {
        r[s] = (struct llm_rows){.slot = s,
                                 .id = b->ids + (pos - row->prompt) % 16,
                                 .n = 1,
                                 .pos = pos,
                                 .n_prompt = row->prompt,
                                 .n_total = pos + 1,
                                 .n_wanted = 1};
        if ((rc = kv_reserve(&b->m->kv, s, pos + 1)) != 0)
            return err_set(b->e, rc, "the KV cache has no room for %zu sequences of %zu tokens", row->batch,
                           row->prompt + row->tokens);
    }
    llm_forward(b->m, r, row->batch);
    for (size_t s = 0; s < row->batch; s++)
        kv_advance(&b->m->kv, s, pos + 1);
    return 0;
}

static int measure_decode(struct bench *b, const struct row *row, double *seconds)
{
    double start;
    int rc = 0;

    for (size_t s = 0; s < row->batch && rc == 0; s++)
        rc = prefill(b, s, row->prompt);
    start = clock_seconds();
    for (size_t t = 0; t < row->tokens && rc == 0; t++)
        rc = decode_step(b, row, row->prompt + t);
    *seconds = clock_seconds() - start;
    return rc;
}

static int measure(struct bench *b, struct row *row, size_t rep)
{
    double start = clock_seconds();
    int rc = row->decode ? measure_decode(b, row, &row->second[rep]) : prefill(b, 0, row->prompt);

    if (!row->decode)
        row->second[rep] = clock_seconds() - start;
    for (size_t s = 0; s < row->batch; s++)
        kv_release(&b->m->kv, s);
    return rc;
}

static void measure_roofs(struct bench *b, size_t rep)
{
    struct roof r;

    roof_measure(b->m->pool, &r, 0.3);
    b->dram[rep] = r.dram_bytes;
    b->flops[rep] = b->m->model.opt.dtype == DT_F32 ? r.fp32_flops : r.bf16_flops;
    b->fp32[rep] = r.fp32_flops;
    b->int8[rep] = r.int8_ops;
    b->bf16_native = r.bf16_native;
}

/* Bytes and operations of the whole row on an ideal machine. */
static void ideal(const struct bench *b, const struct row *row, double *bytes, double *flops)
{
    const struct model_info *i = &b->m->model.info;
    size_t es = dtype_bytes(b->m->model.opt.dtype);
    double weights = (double)b->m->model.packed_bytes, head = (double)(i->vocab * i->hidden * es),
           kv = (double)kv_token_bytes(&b->m->kv.lim);
    double pair = 4.0 * (double)(i->n_heads * i->head_dim *
                                 i->n_layers); /* operations of one query and key, all layers */

    if (row->decode) {
        double steps = (double)row->tokens, ctx = (double)row->prompt + steps / 2;

        *bytes = steps * (weights + (double)row->batch * ctx * kv);
        *flops = steps * (double)row->batch * (2 * weights / (double)es + ctx * pair);
    } else {
        double n = (double)row->prompt;

        *bytes = weights * (double)((row->prompt + b->m->max_tokens - 1) / b->m->max_tokens) + n * kv;
        *flops = 2 * (weights - head) / (double)es * n + 2 * head / (double)es + n * (n + 1) / 2 * pair;
    }
}

static void print_row(const struct bench *b, struct row *row, double dram, double flops, bool json)
{
    double n = (double)(row->tokens * row->batch), bytes, ops, best;
    double med = stat_median(row->second, b->reps), lo = stat_max(row->second, b->reps),
           hi = stat_min(row->second, b->reps);

    ideal(b, row, &bytes, &ops);
    best = bytes / dram > ops / flops ? bytes / dram : ops / flops;
    if (json)
        common_print_json(json_pack(
            "{s:s,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:i,s:s,s:s,s:s}", "test",
            row->decode ? "decode" : "prefill", "prompt", (json_int_t)row->prompt, "batch",
            (json_int_t)row->batch, "tokens", (json_int_t)row->tokens, "tok_s", n / med, "tok_s_min", n / lo,
            "tok_s_max", n / hi, "bytes_per_token", bytes / n, "roof_share", best / med, "threads",
            pool_threads(b->m->pool), "dtype", b->m->model.opt.dtype == DT_F32 ? "fp32" : "bf16", "quant",
            "none", "bound", bytes / dram > ops / flops ? "memory" : "arithmetic"));
    else
        printf("%-8s %7zu %6zu %10.2f %10.2f %10.2f %10.1f MB %6.1f %% of the %s roof\n",
               row->decode ? "decode" : "prefill", row->prompt, row->batch, n / med, n / lo, n / hi,
               bytes / n / 1e6, 100 * best / med, bytes / dram > ops / flops ? "memory" : "arithmetic");
}

static void print(struct bench *b, bool json)
{
    double dram = stat_median(b->dram, b->reps), flops = stat_median(b->flops, b->reps);

    if (!json) {
        printf("%s, %d thread%s, %s; roofs: %.1f GB/s DRAM read, %.0f GFLOP/s fp32, %.0f GFLOP/s bf16%s, ",
               cpu_model(), pool_threads(b->m->pool), pool_threads(b->m->pool) == 1 ? "" : "s", b->m->isa,
               dram / 1e9, stat_median(b->fp32, b->reps) / 1e9, flops / 1e9,
               b->bf16_native ? "" : " (widened: no bf16 dot here)");
        if (stat_median(b->int8, b->reps) > 0)
            printf("%.0f GOP/s int8\n", stat_median(b->int8, b->reps) / 1e9);
        else
            printf("no int8 dot here\n");
        printf("%-8s %7s %6s %10s %10s %10s %13s\n", "test", "prompt", "batch", "tok/s", "min", "max",
               "a token");
    } else {
        common_print_json(json_pack("{s:s,s:f,s:f,s:f,s:f,s:b,s:i,s:s,s:s}", "test", "roof", "dram_bytes_s",
                                    dram, "fp32_flops", stat_median(b->fp32, b->reps), "bf16_flops", flops,
                                    "int8_ops", stat_median(b->int8, b->reps), "bf16_native",
                                    (int)b->bf16_native, "threads", pool_threads(b->m->pool), "cpu",
                                    cpu_model(), "isa", b->m->isa));
    }
    for (size_t i = 0; i < b->n_rows; i++)
        print_row(b, &b->row[i], dram, flops, json);
}

static int repeat(struct bench *b, bool quiet)
{
    struct common_bar bar = {.what = "measuring", .quiet = quiet};
    int rc = 0;

    for (size_t rep = 0; rep < b->reps && rc == 0; rep++) {
        measure_roofs(b, rep);
        for (size_t i = 0; i < b->n_rows && rc == 0; i++) {
            rc = measure(b, &b->row[i], rep);
            common_progress(&bar, rep * b->n_rows + i + 1, b->reps * b->n_rows);
        }
    }
    common_bar_end(&bar);
    return rc;
}

static int run(const struct opt_values *v, struct err *e)
{
    struct common_bar bar = {.what = "loading", .quiet = opt_flag(v, OPT_QUIET)};
    struct bench *b = mem_zalloc(1, sizeof(*b), MEM_APP);
    char path[4096], err[GALLOP_ERR_SIZE];
    struct gallop_options o;
    struct gallop *g = NULL;
    size_t longest, most;
    int rc;

    if (!b)
        return err_nomem(e, "the benchmark");
    b->e = e;
    b->reps = (size_t)opt_int(v, BENCH_REPS);
    if ((rc = common_options(v, &o, path, sizeof(path), e)) == 0 &&
        (rc = plan_rows(b, v, &longest, &most)) == 0) {
        o.max_num_seqs = (int64_t)most;
        if (o.max_model_len == 0)
            o.max_model_len = (int64_t)longest;
        o.progress = common_progress;
        o.progress_ctx = &bar;
        b->ids = mem_zalloc(longest, sizeof(*b->ids), MEM_APP);
        if (!b->ids)
            rc = err_nomem(e, "the benchmark");
        else if ((rc = gallop_open(&g, &o, err)) != 0)
            err_set(e, rc, "%s", err);
        common_bar_end(&bar);
    }
    if (rc == 0) {
        b->m = gallop_llm(g);
        for (size_t i = 0; i < longest; i++)
            b->ids[i] = (int32_t)((i * 7919 + 13) % b->m->model.info.vocab);
        if ((rc = repeat(b, opt_flag(v, OPT_QUIET))) == 0)
            print(b, opt_flag(v, OPT_JSON));
    }
    mem_free(b->ids);
    mem_free(b);
    gallop_close(g);
    return rc;
}

int verb_bench(int argc, char **argv)
{
    struct opt_values v;
    struct err e = {0};
    int rc = common_parse("bench", "[options]", rows, sizeof(rows) / sizeof(rows[0]), argc, argv, &v);

    if (rc >= 0)
        return rc;
    if (opt_flag(&v, BENCH_KERNELS)) {
        kern_init(cpu_best());
        rc = benchkern_run(opt_flag(&v, OPT_JSON), 0.2, &e);
    } else {
        rc = run(&v, &e);
    }
    if (rc)
        rc = common_fail(&e);
    opt_fini(&v);
    return rc;
}
