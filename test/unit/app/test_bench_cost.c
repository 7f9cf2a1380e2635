/* test_bench_cost.c - the arithmetic behind every share of a roof: a row, a pair or a weight that is counted
 * twice or not at all would make a benchmark lie. Expected numbers are worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "app/bench/bench.h"

/* Three layers, 4 heads on 2 kv heads of 18 dims, which are stored as 32. Weights of 1000 and 100
 * elements. */
enum { L = 3, LINEAR = 1000, HEAD = 100, PAIR = 4 * 4 * 18 };

static const size_t windows[L] = {0, 4, 0};

static struct kv_limits limits(enum dtype dtype, const size_t *window)
{
    return (struct kv_limits){
        .n_layers = L, .n_kv = 2, .head_dim = 18, .dtype = dtype, .max_len = 4096, .window = window};
}

static struct bench_cost_model model_of(const struct kv_limits *lim)
{
    return (struct bench_cost_model){
        .linear_bytes = 2 * LINEAR, .head_bytes = 2 * HEAD, .weight_bytes = 2, .n_heads = 4, .kv = lim};
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
        double row; /* bytes of K and V of both heads in one layer */
    } types[] = {{DT_F32, 2 * 2 * 32 * 4}, {DT_BF16, 2 * 2 * 32 * 2}, {DT_I8, 2 * 2 * (32 + 4)}};

    (void)state;
    for (int t = 0; t < 3; t++) {
        struct kv_limits lim = limits(types[t].dtype, NULL);
        struct bench_cost_model m = model_of(&lim);

        expect(bench_cost_step(&m, 10, 1, 1, 1), 2 * (LINEAR + HEAD) + L * 11 * types[t].row,
               2 * (LINEAR + HEAD) + L * 11 * PAIR);
    }
}

static void weights_count_once_a_step_and_rows_once_a_sequence(void **state)
{
    struct kv_limits lim = limits(DT_BF16, NULL);
    struct bench_cost_model m = model_of(&lim);

    (void)state;
    expect(bench_cost_step(&m, 10, 1, 7, 1), 2 * (LINEAR + HEAD) + 7 * L * 11 * 256,
           7 * (2 * (LINEAR + HEAD) + L * 11 * PAIR));
    /* five tokens of a sequence see the same rows, and each its own number of keys */
    expect(bench_cost_step(&m, 10, 5, 7, 5), 2 * (LINEAR + HEAD) + 7 * L * 15 * 256,
           7 * (5 * 2 * (LINEAR + HEAD) + L * (11 + 12 + 13 + 14 + 15) * PAIR));
}

static void windows_count_only_the_rows_that_are_seen(void **state)
{
    struct kv_limits lim = limits(DT_BF16, windows);
    struct bench_cost_model m = model_of(&lim);

    (void)state;
    expect(bench_cost_step(&m, 10, 1, 1, 1), 2 * (LINEAR + HEAD) + (2 * 11 + 4) * 256,
           2 * (LINEAR + HEAD) + (2 * 11 + 4) * PAIR);
    /* queries 10, 11, 12 see rows 7 to 12 through the window, four each */
    expect(bench_cost_step(&m, 10, 3, 1, 3), 2 * (LINEAR + HEAD) + (2 * 13 + 6) * 256,
           3 * 2 * (LINEAR + HEAD) + (2 * (11 + 12 + 13) + 3 * 4) * PAIR);
    expect(bench_cost_step(&m, 0, 3, 1, 0), 2 * LINEAR + L * 3 * 256,
           3 * 2 * LINEAR + L * (1 + 2 + 3) * PAIR);
}

static void sinks_count_beside_their_windows(void **state)
{
    static const size_t sinks[L] = {0, 2, 0};
    struct kv_limits lim = limits(DT_BF16, windows);
    struct bench_cost_model m = model_of(&lim);

    (void)state;
    lim.sink = sinks;
    expect(bench_cost_step(&m, 10, 3, 1, 3), 2 * (LINEAR + HEAD) + (2 * 13 + 6 + 2) * 256,
           3 * 2 * (LINEAR + HEAD) + (2 * (11 + 12 + 13) + 3 * (4 + 2)) * PAIR);
    /* the window still touches the sink: all six rows */
    expect(bench_cost_step(&m, 5, 1, 1, 1), 2 * (LINEAR + HEAD) + L * 6 * 256,
           2 * (LINEAR + HEAD) + L * 6 * PAIR);
}

static void layers_that_share_rows_read_them_and_store_none(void **state)
{
    struct kv_limits lim = limits(DT_BF16, windows), stores = limits(DT_BF16, windows);
    struct bench_cost_model m = model_of(&lim);

    (void)state;
    lim.n_layers = stores.n_layers = 2;
    lim.n_shared = 1; /* reads the rows of layer 0 */
    assert_int_equal(kv_token_bytes(&lim), kv_token_bytes(&stores));
    expect(bench_cost_step(&m, 10, 1, 1, 1), 2 * (LINEAR + HEAD) + (2 * 11 + 4) * 256,
           2 * (LINEAR + HEAD) + (2 * 11 + 4) * PAIR);
    m.kv = &stores; /* the ruler */
    expect(bench_cost_step(&m, 10, 1, 1, 1), 2 * (LINEAR + HEAD) + (11 + 4) * 256,
           2 * (LINEAR + HEAD) + (11 + 4) * PAIR);
}

static void steps_without_logits_do_not_touch_the_head(void **state)
{
    struct kv_limits lim = limits(DT_BF16, NULL);
    struct bench_cost_model m = model_of(&lim);

    (void)state;
    expect(bench_cost_step(&m, 0, 2, 1, 0), 2 * LINEAR + L * 2 * 256, 2 * 2 * LINEAR + L * 3 * PAIR);
    expect(bench_cost_step(&m, 0, 2, 1, 1), 2 * (LINEAR + HEAD) + L * 2 * 256,
           2 * 2 * LINEAR + 2 * HEAD + L * 3 * PAIR);
}

static void a_prompt_counts_visible_pairs_whatever_its_chunks(void **state)
{
    struct kv_limits lim = limits(DT_BF16, NULL), narrow = limits(DT_BF16, windows);
    struct bench_cost_model m = model_of(&lim), w = model_of(&narrow);
    double full = 100 * 101 / 2, seen = 1 + 2 + 3 + 97 * 4;

    (void)state;
    for (size_t chunk = 1; chunk <= 128; chunk++) {
        assert_true(bench_cost_prefill(&m, 100, chunk).flops ==
                    100 * 2 * LINEAR + 2 * HEAD + L * full * PAIR);
        assert_true(bench_cost_prefill(&w, 100, chunk).flops ==
                    100 * 2 * LINEAR + 2 * HEAD + (2 * full + seen) * PAIR);
    }
    expect(bench_cost_prefill(&m, 100, 64), 2 * 2 * LINEAR + 2 * HEAD + L * (64 + 100) * 256,
           100 * 2 * LINEAR + 2 * HEAD + L * full * PAIR);
}

static void decoding_is_the_sum_of_its_steps(void **state)
{
    struct kv_limits lim = limits(DT_I8, windows);
    struct bench_cost_model m = model_of(&lim);
    struct bench_cost sum = {0}, c = bench_cost_decode(&m, 30, 4, 3, 5);

    (void)state;
    for (size_t pos = 30; pos < 50; pos += 4) {
        struct bench_cost step = bench_cost_step(&m, pos, 4, 3, 4);

        sum.bytes += step.bytes;
        sum.flops += step.flops;
    }
    expect(c, sum.bytes, sum.flops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_costs_what_its_type_takes_with_padding_and_scales),
        cmocka_unit_test(weights_count_once_a_step_and_rows_once_a_sequence),
        cmocka_unit_test(windows_count_only_the_rows_that_are_seen),
        cmocka_unit_test(sinks_count_beside_their_windows),
        cmocka_unit_test(layers_that_share_rows_read_them_and_store_none),
        cmocka_unit_test(steps_without_logits_do_not_touch_the_head),
        cmocka_unit_test(a_prompt_counts_visible_pairs_whatever_its_chunks),
        cmocka_unit_test(decoding_is_the_sum_of_its_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
