/* cost.c - counts rows and pairs layer by layer, because windows differ. */
#include "app/bench/bench.h"

/* Rows of LAYER that queries [pos, pos + n) see, all of them together. */
static double seen_rows(const struct kv_limits *lim, size_t layer, size_t pos, size_t n)
{
    const struct kv_group g = {.window = lim->window ? lim->window[layer] : 0,
                               .sink = lim->sink ? lim->sink[layer] : 0};
    size_t first = kv_group_first(&g, pos);

    return (double)(pos + n - first + (first ? g.sink : 0));
}

struct bench_cost bench_cost_step(const struct bench_cost_model *m, size_t pos, size_t n, size_t batch,
                                  size_t wanted)
{
    const struct kv_limits *lim = m->kv;
    double es = (double)m->weight_bytes, tokens = (double)(n * batch), logits = (double)(wanted * batch);
    double row = (double)(kv_token_bytes(lim) / lim->n_layers), seen = 0, scored = 0;

    for (size_t l = 0; l < lim->n_layers + lim->n_shared; l++) {
        seen += seen_rows(lim, l, pos, n);
        for (size_t i = 0; i < n; i++)
            scored += seen_rows(lim, l, pos + i, 1);
    }
    /* a pair: head_dim multiplications and additions for the score, as many for the sum of values */
    return (struct bench_cost){.bytes = m->linear_bytes + (wanted ? m->head_bytes : 0) +
                                        (double)batch * seen * row,
                               .flops = 2 * m->linear_bytes / es * tokens + 2 * m->head_bytes / es * logits +
                                        (double)batch * scored * 4 * (double)(m->n_heads * lim->head_dim)};
}

static void add(struct bench_cost *sum, struct bench_cost c)
{
    sum->bytes += c.bytes;
    sum->flops += c.flops;
}

struct bench_cost bench_cost_decode(const struct bench_cost_model *m, size_t pos, size_t n, size_t batch,
                                    size_t steps)
{
    struct bench_cost sum = {0};

    for (size_t s = 0; s < steps; s++)
        add(&sum, bench_cost_step(m, pos + s * n, n, batch, n));
    return sum;
}

struct bench_cost bench_cost_prefill(const struct bench_cost_model *m, size_t n, size_t chunk)
{
    struct bench_cost sum = {0};

    for (size_t pos = 0; pos < n; pos += chunk) {
        size_t len = n - pos < chunk ? n - pos : chunk;

        add(&sum, bench_cost_step(m, pos, len, 1, pos + len == n));
    }
    return sum;
}
