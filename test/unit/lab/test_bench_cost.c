/* test_bench_cost.c - the arithmetic of ideal times: a row, a pair or a weight that is counted twice or not
 * at all, or a maximum of sums in place of a sum of maxima, would falsify a benchmark. The expected numbers
 * were worked out by hand. */
#include <math.h>

#include "base/err.h"
#include "engine/llm.h"
#include "kern/roof.h"
#include "lab/bench/cost.h"
#include "lab/bench/trace.h"
#include "ops/batch.h"
#include "ops/moe.h"

/* Three layers have 4 heads on 2 KV heads of 18 dims, which are stored as 32. Each layer has a linear of 1000
 * weights, and the head has 100. */
enum { L = 3, LINEAR = 3000, HEAD = 100, PAIR = 4 * 4 * 18 };
enum { EXPERTS = 8, CHOSEN = 2, ROUTER = 16, EXPERT = 50 };

static const size_t windows[L] = {0, 4, 0};

static struct {
    struct linear linear, head;
    struct op_attn attn[L];
    struct moe_expert expert[EXPERTS];
    struct moe moe;
    bool has_experts;
} net = {
    .linear = {.name = "layers.0.linear", .n = 100, .k = 10, .packed_bytes = 2000, .dtype = DT_BF16},
    .head = {.name = "head", .kind = OP_LM_HEAD, .n = 10, .k = 10, .packed_bytes = 200, .dtype = DT_BF16}};

static void forward(const struct model *m, const struct op_sink *o, const struct batch *b,
                    struct model_work *s)
{
    (void)m;
    for (size_t l = 0; l < L; l++) {
        o->linear(o, s->qkv, &net.linear, s->h, b->n_tokens);
        o->attn(o, s->a, s->qkv, &net.attn[l], b, l);
        if (net.has_experts)
            o->moe(o, s->r, &net.moe, s->h, NULL, b->n_tokens);
    }
}

static void tail(const struct model *m, const struct op_sink *o, const struct batch *b, struct model_work *s)
{
    (void)m;
    o->logits(o, b->logits, &net.head, s->hw, b->n_wanted);
}

static struct llm llm = {.model = {.forward = forward, .tail = tail}};
static struct roof roof; /* Zeros: nothing is a bound. */

static struct bench_cost_model model_of(enum dtype kv_dtype, const size_t *window)
{
    for (size_t l = 0; l < L; l++)
        net.attn[l] =
            (struct op_attn){.n_heads = 4, .n_kv = 2, .d = 18, .dp = 32, .window = window ? window[l] : 0};
    net.has_experts = false;
    llm.model.info = (struct model_info){.n_layers = L};
    llm.kv_dtype = kv_dtype;
    roof = (struct roof){0};
    return (struct bench_cost_model){.llm = &llm, .roof = &roof};
}

static struct bench_cost step(const struct bench_cost_model *m, size_t pos, size_t n, size_t batch,
                              size_t wanted)
{
    const struct bench_rows rows = {.n_seqs = batch, .pos = pos, .n = n, .wanted = wanted};

    return bench_cost_step(m, &rows, 1);
}

static void expect(struct bench_cost c, double bytes, double flops)
{
    if (c.bytes != bytes || c.flops != flops)
        fail_msg("%.0f bytes and %.0f operations, expected are %.0f and %.0f", c.bytes, c.flops, bytes,
                 flops);
}

static void a_row_costs_what_its_type_takes_with_padding_and_scales(void **state)
{
    static const struct {
        enum dtype dtype;
        double row; /* the bytes of K and V of both heads in one layer */
    } types[] = {
        {DT_F32, 2 * 2 * 32 * 4}, {DT_BF16, 2 * 2 * 32 * 2}, {DT_I8, 2 * 2 * (32 + 4)}, {DT_I4, 2 * 2 * 19}};

    for (int t = 0; t < 4; t++) {
        struct bench_cost_model m = model_of(types[t].dtype, NULL);

        expect(step(&m, 10, 1, 1, 1), 2 * (LINEAR + HEAD) + L * 11 * types[t].row,
               2 * (LINEAR + HEAD) + L * 11 * PAIR);
    }
}

static void weights_count_once_a_step_and_rows_once_a_sequence(void **state)
{
    struct bench_cost_model m = model_of(DT_BF16, NULL);

    expect(step(&m, 10, 1, 7, 1), 2 * (LINEAR + HEAD) + 7 * L * 11 * 256,
           7 * (2 * (LINEAR + HEAD) + L * 11 * PAIR));
    /* Five tokens of a sequence see the same rows, and each has its own number of keys. */
    expect(step(&m, 10, 5, 7, 5), 2 * (LINEAR + HEAD) + 7 * L * 15 * 256,
           7 * (5 * 2 * (LINEAR + HEAD) + L * (11 + 12 + 13 + 14 + 15) * PAIR));
}

static void windows_count_only_the_rows_that_are_seen(void **state)
{
    struct bench_cost_model m = model_of(DT_BF16, windows);

    expect(step(&m, 10, 1, 1, 1), 2 * (LINEAR + HEAD) + (2 * 11 + 4) * 256,
           2 * (LINEAR + HEAD) + (2 * 11 + 4) * PAIR);
    /* Queries 10, 11 and 12 see rows 7 to 12 through the window, four each. */
    expect(step(&m, 10, 3, 1, 3), 2 * (LINEAR + HEAD) + (2 * 13 + 6) * 256,
           3 * 2 * (LINEAR + HEAD) + (2 * (11 + 12 + 13) + 3 * 4) * PAIR);
    expect(step(&m, 0, 3, 1, 0), 2 * LINEAR + L * 3 * 256, 3 * 2 * LINEAR + L * (1 + 2 + 3) * PAIR);
}

static void sinks_count_beside_their_windows(void **state)
{
    static const size_t sinks[L] = {0, 2, 0};
    struct bench_cost_model m = model_of(DT_BF16, NULL);

    llm.model.info.window = windows;
    llm.model.info.sink = sinks;
    expect(step(&m, 10, 3, 1, 3), 2 * (LINEAR + HEAD) + (2 * 13 + 6 + 2) * 256,
           3 * 2 * (LINEAR + HEAD) + (2 * (11 + 12 + 13) + 3 * (4 + 2)) * PAIR);
    /* The window still touches the sink, so all six rows are visible. */
    expect(step(&m, 5, 1, 1, 1), 2 * (LINEAR + HEAD) + L * 6 * 256, 2 * (LINEAR + HEAD) + L * 6 * PAIR);
}

static void steps_without_logits_do_not_touch_the_head(void **state)
{
    struct bench_cost_model m = model_of(DT_BF16, NULL);

    expect(step(&m, 0, 2, 1, 0), 2 * LINEAR + L * 2 * 256, 2 * 2 * LINEAR + L * 3 * PAIR);
    expect(step(&m, 0, 2, 1, 1), 2 * (LINEAR + HEAD) + L * 2 * 256, 2 * 2 * LINEAR + 2 * HEAD + L * 3 * PAIR);
}

static void a_prompt_counts_visible_pairs_whatever_its_chunks(void **state)
{
    double full = 100 * 101 / 2, seen = 1 + 2 + 3 + 97 * 4;

    for (size_t chunk = 1; chunk <= 128; chunk++) {
        struct bench_cost_model m = model_of(DT_BF16, NULL);

        assert_true(bench_cost_prefill(&m, 100, chunk).flops ==
                    100 * 2 * LINEAR + 2 * HEAD + L * full * PAIR);
        m = model_of(DT_BF16, windows);
        assert_true(bench_cost_prefill(&m, 100, chunk).flops ==
                    100 * 2 * LINEAR + 2 * HEAD + (2 * full + seen) * PAIR);
    }
    struct bench_cost_model m = model_of(DT_BF16, NULL);

    expect(bench_cost_prefill(&m, 100, 64), 2 * 2 * LINEAR + 2 * HEAD + L * (64 + 100) * 256,
           100 * 2 * LINEAR + 2 * HEAD + L * full * PAIR);
}

static void decoding_is_the_sum_of_its_steps(void **state)
{
    struct bench_cost_model m = model_of(DT_I8, windows);
    const struct bench_rows rows = {.n_seqs = 3, .pos = 30, .n = 4, .wanted = 4};
    struct bench_cost sum = {0}, c = bench_cost_steps(&m, &rows, 1, 5);

    for (size_t pos = 30; pos < 50; pos += 4) {
        struct bench_cost one = step(&m, pos, 4, 3, 4);

        sum.bytes += one.bytes;
        sum.flops += one.flops;
    }
    expect(c, sum.bytes, sum.flops);
}

static void a_mixed_step_reads_weights_once_for_both(void **state)
{
    struct bench_cost_model m = model_of(DT_BF16, NULL);
    const struct bench_rows rows[] = {{.n_seqs = 2, .pos = 10, .n = 1, .wanted = 1}, {1, 20, 3, 0}};
    double seen = 2 * 11 + (21 + 22 + 23);

    expect(bench_cost_step(&m, rows, 2), 2 * (LINEAR + HEAD) + L * (2 * 11 + 23) * 256,
           5 * 2 * LINEAR + 2 * 2 * HEAD + L * seen * PAIR);
    /* For both, the second step begins where the first ended. */
    expect(bench_cost_steps(&m, rows, 2, 2), 2 * 2 * (LINEAR + HEAD) + L * (2 * 11 + 23 + 2 * 12 + 26) * 256,
           2 * (5 * 2 * LINEAR + 2 * 2 * HEAD) + L * (seen + 2 * 12 + (24 + 25 + 26)) * PAIR);
}

/* A linear of 1000 weights has 2000 bytes, and 2000 operations for each row. */
static void the_ideal_is_the_sum_of_the_longer_of_each_operator(void **state)
{
    struct bench_cost_model m = model_of(DT_BF16, NULL);
    struct bench_cost c;

    roof = (struct roof){.bf16_flops = 4000, .fp32_flops = 1, .dram_bytes = 1000};
    /* 8 rows at position 0 of 8 sequences. Linears: 4 s of operations, 2 s of bytes. Attention: 8 rows of
     * 256 bytes, 2.048 s, and 8 pairs of 288 operations, 0.576 s. The head: 0.4 s of operations, 0.2 s of
     * bytes. */
    c = step(&m, 0, 1, 8, 1);
    assert_true(fabs(c.seconds - (L * (4 + 2.048) + 0.4)) < 1e-9);
    assert_true(fabs(c.memory_seconds - L * 2.048) < 1e-9);
    /* With one row, bytes are the bound of all operators. */
    c = step(&m, 0, 1, 1, 1);
    assert_true(fabs(c.seconds - c.bytes / 1000) < 1e-9 && c.memory_seconds == c.seconds);
    /* The maximum of sums would be less. */
    c = step(&m, 0, 1, 8, 1);
    assert_true(c.seconds > c.bytes / 1000 + 1 && c.seconds > c.flops / 4000 + 1);
}

static void of_experts_those_count_that_are_expected(void **state)
{
    struct bench_cost_model m = model_of(DT_BF16, NULL);
    const struct linear expert = {.n = 5, .k = 10, .packed_bytes = 2 * EXPERT, .dtype = DT_BF16};
    double dense, expected = EXPERTS * (1 - pow(1 - (double)CHOSEN / EXPERTS, 3));
    struct bench_cost c;

    dense = step(&m, 10, 1, 1, 1).bytes;
    net.has_experts = true;
    net.moe =
        (struct moe){.router = {.name = "layers.0.mlp.router", .n = 4, .k = 4, .packed_bytes = 4 * ROUTER},
                     .expert = net.expert,
                     .n_experts = EXPERTS,
                     .top_k = CHOSEN};
    for (int x = 0; x < EXPERTS; x++)
        net.expert[x] = (struct moe_expert){.up = expert, .down = expert};
    c = step(&m, 10, 1, 1, 1);
    assert_true(fabs(c.bytes - dense - L * (4 * ROUTER + CHOSEN * 2 * 2 * EXPERT)) < 1e-6);
    dense = step(&m, 10, 1, 3, 1).bytes - L * 4 * ROUTER - L * expected * 2 * 2 * EXPERT;
    net.has_experts = false;
    assert_true(fabs(step(&m, 10, 1, 3, 1).bytes - dense) < 1e-6);
}

static void a_trace_adds_up_layers_and_what_lies_between(void **state)
{
    static struct bench_trace_sum sum;
    struct timed_op ops[] = {
        {.kind = OP_QKV,
         .name = "model.layers.0.attn.q",
         .seconds = 1,
         .part = {{.bytes = 100}},
         .n_parts = 1},
        {.kind = OP_MLP, .name = "model.layers.0.mlp.up", .is_module = true, .seconds = 2},
        {.kind = OP_QKV,
         .name = "model.layers.17.attn.q",
         .seconds = 3,
         .part = {{.bytes = 60}},
         .n_parts = 1},
        {.kind = OP_LM_HEAD, .name = "lm_head", .seconds = 4},
        {.kind = OP_OUT, .name = "h.3.c.4x.w", .seconds = 5}};
    static const char *const names[] = {"attn.q", "mlp", "lm_head", "c.4x.w"};
    struct bench_trace t = {.op = ops, .n_ops = 5, .cap = 5};

    roof = (struct roof){.dram_bytes = 80};
    bench_trace_step(&t, 16, &roof, &sum);
    assert_int_equal(t.n_ops, 0);
    bench_trace_step(&t, 1, &roof, &sum); /* no row */
    assert_int_equal(sum.n_steps, 1);
    assert_true(sum.seconds == 16);
    assert_int_equal(sum.n_rows, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(sum.row[i].name, names[i]);
    assert_int_equal(sum.row[0].calls, 2);
    assert_true(sum.row[0].seconds == 4 && sum.row[0].cost.bytes == 160 && sum.row[0].cost.seconds == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_costs_what_its_type_takes_with_padding_and_scales),
        cmocka_unit_test(weights_count_once_a_step_and_rows_once_a_sequence),
        cmocka_unit_test(windows_count_only_the_rows_that_are_seen),
        cmocka_unit_test(sinks_count_beside_their_windows),
        cmocka_unit_test(steps_without_logits_do_not_touch_the_head),
        cmocka_unit_test(a_prompt_counts_visible_pairs_whatever_its_chunks),
        cmocka_unit_test(decoding_is_the_sum_of_its_steps),
        cmocka_unit_test(a_mixed_step_reads_weights_once_for_both),
        cmocka_unit_test(the_ideal_is_the_sum_of_the_longer_of_each_operator),
        cmocka_unit_test(of_experts_those_count_that_are_expected),
        cmocka_unit_test(a_trace_adds_up_layers_and_what_lies_between),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
