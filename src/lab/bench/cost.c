/* cost.c - counts the bytes and operations of a step: runs the model's forward pass with an op sink that
 * counts instead of computing. */
#include <jansson.h>

#include "app/print.h"
#include "base/cpu.h"
#include "base/err.h"
#include "engine/llm.h"
#include "kern/roof.h"
#include "lab/bench/cost.h"
#include "ops/batch.h"

void bench_cost_add_op(struct bench_cost *cost, const struct roof *roof, const struct timed_op *op)
{
    for (size_t i = 0; i < op->n_parts; i++) {
        const struct timed_part *p = &op->part[i];
        double peak = roof_flops(roof, p->dtype);
        double memory = roof->dram_bytes > 0 ? p->bytes / roof->dram_bytes : 0;
        double arithmetic = peak > 0 ? p->flops / peak : 0;

        cost->bytes += p->bytes;
        cost->flops += p->flops;
        cost->seconds += memory > arithmetic ? memory : arithmetic;
        cost->memory_seconds += memory > arithmetic ? memory : 0;
    }
}

struct sum {
    struct bench_cost cost;
    const struct roof *roof;
};

static void add_op(void *ctx, const struct timed_op *op)
{
    struct sum *s = ctx;

    bench_cost_add_op(&s->cost, s->roof, op);
}

struct bench_cost bench_cost_step(const struct bench_cost_model *m, const struct bench_rows *rows,
                                  size_t n_rows)
{
    const struct model_info *i = &m->llm->model.info;
    struct sum sum = {.roof = m->roof};
    struct batch_seq seq[BENCH_MAX_SEQS];
    struct batch b = {.seq = seq};
    struct timed counter;

    for (size_t r = 0; r < n_rows; r++)
        for (size_t s = 0; s < rows[r].n_seqs; s++) {
            ASSERT(b.n_seqs < BENCH_MAX_SEQS, "%zu sequences", b.n_seqs);
            seq[b.n_seqs++] = (struct batch_seq){.first = b.n_tokens, .n = rows[r].n, .pos = rows[r].pos};
            b.n_tokens += rows[r].n;
            b.n_wanted += rows[r].wanted;
        }
    timed_open(&counter, NULL, m->llm->kv_dtype, i->window, i->sink);
    counter.each = add_op;
    counter.each_ctx = &sum;
    model_forward(&m->llm->model, &counter.sink, &b, &m->llm->work);
    return sum.cost;
}

static void cost_add(struct bench_cost *sum, struct bench_cost c)
{
    sum->bytes += c.bytes;
    sum->flops += c.flops;
    sum->seconds += c.seconds;
    sum->memory_seconds += c.memory_seconds;
}

struct bench_cost bench_cost_steps(const struct bench_cost_model *m, const struct bench_rows *rows,
                                   size_t n_rows, size_t steps)
{
    struct bench_rows now[2];
    struct bench_cost sum = {0};

    ASSERT(n_rows <= 2, "%zu kinds of sequences", n_rows);
    for (size_t s = 0; s < steps; s++) {
        for (size_t r = 0; r < n_rows; r++) {
            now[r] = rows[r];
            now[r].pos += s * rows[r].n;
        }
        cost_add(&sum, bench_cost_step(m, now, n_rows));
    }
    return sum;
}

struct bench_cost bench_cost_prefill(const struct bench_cost_model *m, size_t n, size_t chunk)
{
    struct bench_cost sum = {0};

    for (size_t pos = 0; pos < n; pos += chunk) {
        size_t len = n - pos < chunk ? n - pos : chunk;
        const struct bench_rows rows = {.n_seqs = 1, .pos = pos, .n = len, .wanted = pos + len == n};

        cost_add(&sum, bench_cost_step(m, &rows, 1));
    }
    return sum;
}

void bench_roof_print(const struct roof *r, int threads, const char *isa, bool json)
{
    if (json) {
        print_json(json_pack("{s:s,s:f,s:f,s:f,s:f,s:b,s:i,s:s,s:s}", "test", "roof", "dram_bytes_s",
                             r->dram_bytes, "fp32_flops", r->fp32_flops, "bf16_flops", r->bf16_flops,
                             "int8_ops", r->int8_ops, "bf16_native", (int)r->bf16_native, "threads", threads,
                             "cpu", cpu_model(), "isa", isa));
        return;
    }
    print_fmt("%s, %d thread%s, %s; roofs: %.1f GB/s DRAM read, %.0f GFLOP/s fp32, %.0f GFLOP/s bf16%s, ",
              cpu_model(), threads, threads == 1 ? "" : "s", isa, r->dram_bytes / 1e9, r->fp32_flops / 1e9,
              r->bf16_flops / 1e9, r->bf16_native ? "" : " (widened)");
    if (r->int8_ops > 0)
        print_fmt("%.0f GOP/s int8\n", r->int8_ops / 1e9);
    else
        print_fmt("no int8 dot product instructions\n");
}
