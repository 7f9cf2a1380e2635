/* test_rope.c - the factors and frequencies of each RoPE type agree with its formula, computed here in double
 * precision; and which rows change when a RoPE switches its factors. The goldens compare with Hugging Face's
 * own numbers. */
#include "ops/rope.h"

#include <math.h>

#include "ops/batch.h"

enum { DIM = 8, HALF = DIM / 2 };

static const double small[HALF] = {1, 1.5, 2, 3}, large[HALF] = {2, 4, 8, 16};

static struct rope opened(struct rope_params p)
{
    struct rope r;
    struct err e = {0};

    p.dim = DIM;
    p.theta = p.theta > 0 ? p.theta : 10000;
    p.short_factor = small;
    p.long_factor = large;
    if (rope_open(&r, &p, &e) != 0)
        fail_msg("%s", e.msg);
    return r;
}

static double plain(double theta, size_t i)
{
    return pow(theta, -2.0 * (double)i / DIM);
}

static void must_be(const char *what, size_t i, double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-6 * fabs(expected)))
        fail_msg("%s, number %zu: found %.9g, expected %.9g", what, i, found, expected);
}

#define YARN(x, given, ...)                                                              \
    {                                                                                    \
        .type = ROPE_YARN, .factor = x, .original = 64, .beta_fast = 32, .beta_slow = 1, \
        .attention_factor = given, __VA_ARGS__                                           \
    }
#define LONGROPE(most, x, given)                                                                         \
    {                                                                                                    \
        .type = ROPE_LONGROPE, .original = 1024, .max_pos = most, .factor = x, .attention_factor = given \
    }

/* The expected scale of logits. It is ABOVE / BELOW, each of which is 0.1 times itself times log(4) plus 1;
 * or, with a LENGTH, the root of 1 + log(LENGTH) / log(1024); or FACTOR. */
static const struct {
    struct rope_params p;
    double above, below, length, factor;
} ways[] = {
    {{.type = ROPE_DEFAULT, .attention_factor = 0.5}, .factor = 1},
    {{.type = ROPE_LINEAR, .factor = 4, .attention_factor = 0.5}, .factor = 1},
    {YARN(4, -1, .mscale = 0), .above = 1},
    {YARN(0.5, -1, .mscale = 0), .factor = 1},
    {YARN(4, 0.5, .mscale = 0), .factor = 0.5},
    {YARN(4, 0, .mscale = 0), .factor = 0},
    {YARN(4, -1, .mscale = 0.7, .mscale_all = 0.5), .above = 0.7, .below = 0.5},
    {YARN(4, -1, .mscale = 0.7), .above = 1},
    {YARN(4, -1, .mscale_all = 0.5), .above = 1},
    {LONGROPE(4096, 0, -1), .length = 4},
    {LONGROPE(4096, 8, -1), .length = 8},
    {LONGROPE(1024, 0, -1), .factor = 1},
    {LONGROPE(4096, 0, 0.5), .factor = 0.5},
};

static void another_factor_scales_the_logits(void **state)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        struct rope r = opened(ways[i].p);
        double factor = ways[i].factor;

        if (ways[i].above > 0)
            factor = (0.1 * ways[i].above * log(4) + 1) /
                     (ways[i].below > 0 ? 0.1 * ways[i].below * log(4) + 1 : 1);
        if (ways[i].length > 0)
            factor = sqrt(1 + log(ways[i].length) / log(1024));
        must_be("attention factor", i, r.attention_factor, factor);
        assert_int_equal(rope_switch_length(&r), r.type == ROPE_LONGROPE ? 1024 : 0);
        rope_close(&r);
    }
}

/* Llama 3.1: wavelengths below 8192 / 4 keep their frequency, and those above 8192 get an eighth of it. */
static double banded(double inv)
{
    double wave = 2 * M_PI / inv, smooth = (8192 / wave - 1) / (4 - 1);

    return wave < 2048 ? inv : wave > 8192 ? inv / 8 : (1 - smooth) * inv / 8 + smooth * inv;
}

static void a_frequency_is_of_another_type(void **state)
{
    struct rope way[] = {opened((struct rope_params){.type = ROPE_DEFAULT}),
                         opened((struct rope_params){.type = ROPE_LINEAR, .factor = 4}),
                         opened((struct rope_params){.type = ROPE_PROPORTIONAL, .factor = 4, .n_rotated = 4}),
                         opened((struct rope_params){
                             .type = ROPE_LONGROPE, .original = 64, .max_pos = 256, .attention_factor = -1}),
                         opened((struct rope_params){.type = ROPE_LLAMA3,
                                                     .theta = 500000,
                                                     .factor = 8,
                                                     .original = 8192,
                                                     .low_freq = 1,
                                                     .high_freq = 4}),
                         opened((struct rope_params){.type = ROPE_YARN,
                                                     .factor = 4,
                                                     .original = 100000,
                                                     .beta_fast = 32,
                                                     .beta_slow = 1,
                                                     .attention_factor = -1,
                                                     .truncate = true})};

    for (size_t i = 0; i < HALF; i++) {
        double inv = plain(10000, i);
        double keep = i <= 2 ? 1
                             : 1 - ((double)i - 2) /
                                       /* yarn: from pair 2.70, rounded down to 2, to 4.20, rounded up to 5 */
                                       (5 - 2);

        must_be("default", i, way[0].inv[i], inv);
        must_be("linear", i, way[1].inv[i], inv / 4);
        if (i < 2)
            must_be("proportional", i, way[2].inv[i], inv / 4);
        else
            assert_true(way[2].inv[i] == 0);
        must_be("longrope, short", i, way[3].inv[i], inv / small[i]);
        must_be("longrope, long", i, way[3].inv_long[i], inv / large[i]);
        must_be("llama3", i, way[4].inv[i], banded(plain(500000, i)));
        must_be("yarn", i, way[5].inv[i], inv / 4 * (1 - keep) + inv * keep);
    }
    for (size_t w = 0; w < sizeof(way) / sizeof(*way); w++)
        rope_close(&way[w]);
}

/* Rows of one sequence that begins at POS. */
static void fill(const struct rope *r, size_t pos, size_t n_prompt, size_t n_total, float cos_rows[3 * HALF])
{
    const struct batch_seq s = {.n = 3, .pos = pos, .n_prompt = n_prompt, .n_total = n_total};
    const struct batch b = {.n_tokens = 3, .n_seqs = 1, .seq = &s};
    float sin_rows[3 * HALF];

    rope_fill(r, &b, 0, 3, cos_rows, sin_rows);
}

static void a_length_counts_that_is_not_reached_yet(void **state)
{
    struct rope longer = opened((struct rope_params){
                    .type = ROPE_LONGROPE, .original = 64, .max_pos = 64, .attention_factor = -1}),
                dynamic = opened((struct rope_params){.type = ROPE_DYNAMIC, .factor = 2, .original = 64});
    float row[3 * HALF];

    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < HALF; i++) {
            double at = 62 + (double)t, n = 63 + (double)t,
                   base = 10000 * pow(2 * n / 64 - 1, DIM / (DIM - 2.0));

            fill(&longer, 62, 10, 64, row);
            must_be("longrope of 64 tokens", i, row[t * HALF + i], cos((float)at * longer.inv[i]));
            fill(&longer, 62, 10, 65, row);
            must_be("longrope of 65 tokens", i, row[t * HALF + i], cos((float)at * longer.inv_long[i]));
            fill(&dynamic, 62, 10, 100, row); /* The position of the row itself counts. */
            must_be("dynamic", i, row[t * HALF + i], cos(at * (n > 64 ? plain(base, i) : plain(10000, i))));
            fill(&dynamic, 62, 65, 100, row); /* The length of the prompt counts as well. */
            base = 10000 * pow(2.0 * 65 / 64 - 1, DIM / (DIM - 2.0));
            must_be("dynamic of a long prompt", i, row[t * HALF + i], cos(at * plain(base, i)));
        }
    rope_close(&longer);
    rope_close(&dynamic);
}

static void a_row_that_need_not_go_back_is_changed(void **state)
{
    struct rope r = opened((struct rope_params){.type = ROPE_DEFAULT});
    const struct batch_seq s = {.n = 3, .pos = 9, .n_prompt = 3, .n_total = 12};
    const struct batch b = {.n_tokens = 3, .n_seqs = 1, .seq = &s};
    float c[3 * HALF], d[3 * HALF];

    for (size_t i = 0; i < 3 * HALF; i++)
        c[i] = d[i] = 7;
    rope_back(&r, &b, 0, 3, 10, c, d);
    for (size_t i = 0; i < HALF; i++) {
        assert_true(c[i] == 7 && d[i] == 7 && c[HALF + i] == 7 && d[HALF + i] == 7); /* positions 9 and 10 */
        must_be("cosine of one step back", i, c[2 * HALF + i], cos(-plain(10000, i)));
        assert_true(fabs(d[2 * HALF + i] - sin(-plain(10000, i))) < 1e-6);
    }
    rope_close(&r);
}

/* Rows of sequences with one regime have the same frequencies, and are stale only across the border of longrope. */
static void rows_of_other_frequencies_are_shared_or_kept(void **state)
{
    struct rope r[3] = {opened((struct rope_params){.type = ROPE_DEFAULT}),
                        opened((struct rope_params)LONGROPE(4096, 0, -1)),
                        opened((struct rope_params){.type = ROPE_DYNAMIC, .factor = 2, .original = 128})};
    const struct rope dynamic[2] = {r[2], r[2]};

    for (int i = 0; i < 3; i++)
        assert_int_equal(rope_by_length(&r[i]), i > 0);
    /* longrope: the tokens in all, of which 1024 have the short factors */
    assert_int_equal(rope_regime(r, 2, 5, 1024), rope_regime(r, 2, 900, 6));
    assert_int_equal(rope_regime(r, 2, 5, 1025), rope_regime(r, 2, 1500, 2000));
    assert_int_not_equal(rope_regime(r, 2, 5, 1024), rope_regime(r, 2, 5, 1025));
    assert_int_equal(rope_regime(r, 1, 5, 1024), rope_regime(r, 1, 5, 1025));
    assert_int_equal(rope_is_stale(r, 3, 1023, 1024), false);
    assert_int_equal(rope_is_stale(r, 3, 1024, 1025), true);
    assert_int_equal(rope_is_stale(r, 3, 1025, 1024), true);
    assert_int_equal(rope_is_stale(r, 3, 1025, 4000), false);
    assert_int_equal(rope_is_stale(r, 1, 1024, 1025), false);
    /* dynamic: the tokens of a prompt, if they are more than 128 */
    assert_int_equal(rope_regime(dynamic, 2, 128, 128), rope_regime(dynamic, 2, 3, 4000));
    assert_int_not_equal(rope_regime(dynamic, 2, 129, 129), rope_regime(dynamic, 2, 128, 129));
    assert_int_not_equal(rope_regime(dynamic, 2, 129, 131), rope_regime(dynamic, 2, 130, 131));
    assert_int_equal(rope_regime(dynamic, 2, 130, 131), rope_regime(dynamic, 2, 130, 200));
    assert_int_equal(rope_is_stale(dynamic, 2, 128, 129), false);
    for (int i = 0; i < 3; i++)
        rope_close(&r[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_factor_scales_the_logits),
        cmocka_unit_test(a_frequency_is_of_another_type),
        cmocka_unit_test(a_length_counts_that_is_not_reached_yet),
        cmocka_unit_test(a_row_that_need_not_go_back_is_changed),
        cmocka_unit_test(rows_of_other_frequencies_are_shared_or_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
