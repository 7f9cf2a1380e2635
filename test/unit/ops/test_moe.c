/* test_moe.c - the mixture of experts of the eager sink against a plain one in double precision: every kind
 * of gating, ties, the clamped activation, weights on the input; and equal bits over batches, blocks and
 * threads. */
#include <math.h>

#include "base/rng.h"
#include "base/threads/pool.h"
#include "kern/kern.h"
#include "ops/eager/eager.h"
#include "ops/moe.h"
#include "ops/op.h"
#include "tensor/view.h"

/* The sizes are odd, and there are more tokens than the sink groups at once. */
enum { X = 9, E = 52, I = 38, MAX_T = 2100 };

/* The weights as they are stored, and the linears that were opened from them. */
struct setup {
    float *router, *router_bias; /* [X, E], [X] */
    float *up, *up_bias;         /* [X, 2 I, E], [X, 2 I], gate first */
    float *down, *down_bias;     /* [X, E, I], [X, E] */
    float scale[X];
    struct moe_expert expert[X];
    struct moe w;
    struct pool *pool;
    struct eager *g;
    enum dtype dtype;
};

/* Fills with numbers that bf16 holds, so that only sums differ between the dtypes. */
static float *noise(uint64_t seed, size_t n, double by)
{
    float *x = malloc(n * sizeof(*x));

    for (size_t i = 0; i < n; i++)
        x[i] = dtype_bf16_to_f32(dtype_f32_to_bf16((float)(by * rng_normal(seed, i))));
    return x;
}

static void open_linear(struct setup *s, struct linear *l, const float *w, const float *bias, size_t n,
                        size_t k, enum dtype dtype, bool paired)
{
    struct view v = {.name = "w", .data = w, .dtype = DT_F32, .n_dims = 2, .shape = {n, k}};
    struct view b = {.name = "b", .data = bias, .dtype = DT_F32, .n_dims = 1, .shape = {n}};
    struct linear_desc d = {.name = "test",
                            .kind = OP_MLP,
                            .part = {&v},
                            .bias = {&b},
                            .n_parts = 1,
                            .paired = paired,
                            .dtype = dtype,
                            .kern = kern_table(cpu_best())};
    struct err e = {0};

    view_set_contiguous(&v);
    view_set_contiguous(&b);
    assert_int_equal(linear_open(l, &d, NULL, &e), 0);
    assert_int_equal(linear_pack(l, &d, s->pool, &e), 0);
}

static void open_setup(struct setup *s, size_t top_k, enum dtype dtype, int threads)
{
    struct eager_limits lim = {.max_tokens = MAX_T,
                               .max_seqs = 1,
                               .max_len = 16,
                               .n_heads = 1,
                               .n_kv = 1,
                               .head_dim = 16,
                               .inner = 16,
                               .n_experts = X,
                               .top_k = top_k,
                               .expert_inner = I,
                               .linear_k = E,
                               .hidden = E,
                               .kern = kern_table(cpu_best())};
    struct err e = {0};

    *s = (struct setup){.router = noise(1, X * E, 0.2),
                        .router_bias = noise(2, X, 0.3),
                        .up = noise(3, X * 2 * I * E, 0.15),
                        .up_bias = noise(4, X * 2 * I, 0.5),
                        .down = noise(5, X * E * I, 0.15),
                        .down_bias = noise(6, X * E, 0.5),
                        .dtype = dtype};
    for (size_t x = 0; x < X; x++)
        s->scale[x] = 0.5f + (float)x / 4;
    assert_int_equal(pool_new(&s->pool, threads, &e), 0);
    assert_int_equal(eager_new(&s->g, &lim, s->pool, &e), 0);
    s->w = (struct moe){
        .expert = s->expert, .n_experts = X, .top_k = top_k, .inner = I, .act = KERN_SILU, .alpha = 1.702f};
    open_linear(s, &s->w.router, s->router, s->router_bias, X, E, DT_F32, false);
    for (size_t x = 0; x < X; x++) {
        open_linear(s, &s->expert[x].up, s->up + x * 2 * I * E, s->up_bias + x * 2 * I, 2 * I, E, dtype,
                    false);
        open_linear(s, &s->expert[x].down, s->down + x * E * I, s->down_bias + x * E, E, I, dtype, false);
    }
}

/* Interleaves gate and up in pairs, as models without a limit have them. */
static void pair_up(struct setup *s)
{
    for (size_t x = 0; x < X; x++) {
        linear_close(&s->expert[x].up);
        open_linear(s, &s->expert[x].up, s->up + x * 2 * I * E, s->up_bias + x * 2 * I, 2 * I, E, s->dtype,
                    true);
    }
}

static void close_setup(struct setup *s)
{
    linear_close(&s->w.router);
    for (size_t x = 0; x < X; x++) {
        linear_close(&s->expert[x].up);
        linear_close(&s->expert[x].down);
    }
    eager_free(s->g);
    pool_free(s->pool);
    free(s->router);
    free(s->router_bias);
    free(s->up);
    free(s->up_bias);
    free(s->down);
    free(s->down_bias);
}

static float *run(struct setup *s, const float *h, const float *route, size_t T)
{
    const struct op_sink *o = eager_sink(s->g);
    float *r = malloc(T * E * sizeof(*r));

    memset(r, 0x7f, T * E * sizeof(*r)); /* The old contents must not matter. */
    o->moe(o, r, &s->w, h, route, T);
    return r;
}

/* ---- the plain one ---- */

static double act(const struct moe *w, double gate, double up)
{
    if (w->limit > 0) {
        gate = fmin(gate, (double)w->limit);
        up = fmax(-(double)w->limit, fmin(up, (double)w->limit));
        return (up + 1) * gate / (1 + exp(-(double)w->alpha * gate));
    }
    return up * gate / (1 + exp(-gate));
}

/* Adds WEIGHT times the output of expert X for IN. */
static void plain_expert(const struct setup *s, size_t x, const double *in, double weight, double *out)
{
    double middle[I];

    for (size_t i = 0; i < I; i++) {
        double gate = (double)s->up_bias[x * 2 * I + i], up = (double)s->up_bias[x * 2 * I + I + i];

        for (size_t k = 0; k < E; k++) {
            gate += in[k] * (double)s->up[(x * 2 * I + i) * E + k];
            up += in[k] * (double)s->up[(x * 2 * I + I + i) * E + k];
        }
        middle[i] = act(&s->w, gate, up);
    }
    for (size_t n = 0; n < E; n++) {
        double sum = (double)s->down_bias[x * E + n];

        for (size_t i = 0; i < I; i++)
            sum += middle[i] * (double)s->down[(x * E + n) * I + i];
        out[n] += weight * sum;
    }
}

static void plain(const struct setup *s, const float *h, const float *route, double *out)
{
    const struct moe *w = &s->w;
    double logit[X], weight[X], all = 0, chosen = 0, in[E];
    bool taken[X] = {false};

    for (size_t x = 0; x < X; x++) {
        logit[x] = (double)s->router_bias[x];
        for (size_t k = 0; k < E; k++)
            logit[x] += (double)route[k] * (double)s->router[x * E + k];
        all += exp(logit[x]);
    }
    for (size_t n = 0; n < w->top_k; n++) {
        size_t best = X;

        for (size_t x = 0; x < X; x++)
            if (!taken[x] && (best == X || logit[x] > logit[best]))
                best = x;
        taken[best] = true;
        weight[best] = w->gate == MOE_SIGMOID ? 1 / (1 + exp(-logit[best])) : exp(logit[best]);
        chosen += weight[best];
    }
    memset(out, 0, E * sizeof(*out));
    for (size_t x = 0; x < X; x++) {
        double by = weight[x];

        if (!taken[x])
            continue;
        if (w->renorm || w->gate == MOE_SOFTMAX_CHOSEN)
            by /= chosen;
        else if (w->gate == MOE_SOFTMAX_ALL)
            by /= all;
        by *= w->expert_scale ? (double)w->expert_scale[x] : 1;
        for (size_t k = 0; k < E; k++)
            in[k] = (double)h[k] * (w->scale_input ? by : 1);
        plain_expert(s, x, in, w->scale_input ? 1 : by, out);
    }
}

/* Returns the largest error of any element over the largest element of its row. NaN counts as infinite. */
static double worst_error(const struct setup *s, const float *got, const float *h, const float *route,
                          size_t T)
{
    double worst = 0, want[E];

    for (size_t t = 0; t < T; t++) {
        double most = 0, off = 0;

        plain(s, h + t * E, route + t * E, want);
        for (size_t i = 0; i < E; i++) {
            double d = fabs((double)got[t * E + i] - want[i]);

            most = fmax(most, fabs(want[i]));
            off = d <= off ? off : isnan(d) ? INFINITY : d;
        }
        worst = fmax(worst, off / most);
    }
    return worst;
}

static void check(struct setup *s, double limit)
{
    size_t T = 23;
    float *h = noise(7, T * E, 1), *r = run(s, h, NULL, T);
    double off = worst_error(s, r, h, h, T);

    if (!(off <= limit))
        fail_msg("gate %d, renorm %d, scale_input %d, limit %g: off by %.2e", (int)s->w.gate, s->w.renorm,
                 s->w.scale_input, (double)s->w.limit, off);
    free(h);
    free(r);
}

/* ---- tests ---- */

static void the_comparison_sees_zeros_a_wrong_element_and_nan(void **state)
{
    struct setup s;
    float *h = noise(7, 3 * E, 1), *r;

    open_setup(&s, 2, DT_F32, 1);
    r = run(&s, h, NULL, 3);
    assert_true(worst_error(&s, r, h, h, 3) < 1e-5);
    r[E + 5] += 0.1f;
    assert_true(worst_error(&s, r, h, h, 3) > 1e-3);
    r[E + 5] = NAN;
    assert_true(worst_error(&s, r, h, h, 3) > 1e9);
    memset(r, 0, 3 * E * sizeof(*r));
    assert_true(worst_error(&s, r, h, h, 3) > 0.9);
    free(h);
    free(r);
    close_setup(&s);
}

static void every_way_of_gating_agrees(void **state)
{
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (size_t k = 1; k <= X; k += 2) {
            struct setup s;

            open_setup(&s, k, bf16 ? DT_BF16 : DT_F32, 2);
            for (int gate = 0; gate < 3; gate++)
                for (int bits = 0; bits < 16; bits++) {
                    s.w.gate = (enum moe_gate)gate;
                    s.w.renorm = bits & 1;
                    s.w.expert_scale = bits & 2 ? s.scale : NULL;
                    s.w.scale_input = bits & 4;
                    s.w.limit = bits & 8 ? 0.75f : 0;
                    check(&s, bf16 ? 3e-2 : 2e-5);
                }
            s.w.limit = 0;
            s.w.gate = MOE_SOFTMAX_ALL;
            pair_up(&s);
            check(&s, bf16 ? 3e-2 : 2e-5);
            close_setup(&s);
        }
}

/* The limit is so low that many values exceed it, so the result depends on the clamps. */
static void the_clamps_are_felt(void **state)
{
    size_t T = 5;
    float *h = noise(7, T * E, 1), *low, *high;
    struct setup s;

    open_setup(&s, 3, DT_F32, 1);
    s.w.limit = 0.5f;
    low = run(&s, h, NULL, T);
    s.w.limit = 1e6f;
    high = run(&s, h, NULL, T);
    assert_true(worst_error(&s, low, h, h, T) > 0.05);
    assert_true(worst_error(&s, high, h, h, T) < 2e-5);
    free(h);
    free(low);
    free(high);
    close_setup(&s);
}

static void the_router_may_read_something_else(void **state)
{
    size_t T = 11;
    float *h = noise(7, T * E, 1), *route = noise(8, T * E, 1), *r;
    struct setup s;

    open_setup(&s, 2, DT_F32, 2);
    r = run(&s, h, route, T);
    assert_true(worst_error(&s, r, h, route, T) < 2e-5);
    assert_true(worst_error(&s, r, h, h, T) > 0.1);
    free(h);
    free(route);
    free(r);
    close_setup(&s);
}

/* All experts but one have the same logit, and that one has a larger one: it and the two lowest numbers are
 * chosen. The plain implementation chooses in this order, too. Spoiled weights show that the other experts
 * take no part. */
static void of_equal_logits_the_lower_expert_wins(void **state)
{
    float *h = noise(7, E, 1), *r, *again;
    struct setup s;

    open_setup(&s, 3, DT_F32, 1);
    linear_close(&s.w.router);
    for (size_t x = 0; x < X; x++) {
        memcpy(s.router + x * E, s.router, E * sizeof(float));
        s.router_bias[x] = x == 6 ? 1 : 0;
    }
    open_linear(&s, &s.w.router, s.router, s.router_bias, X, E, DT_F32, false);
    r = run(&s, h, NULL, 1);
    assert_true(worst_error(&s, r, h, h, 1) < 2e-5);
    for (size_t x = 2; x < X; x++)
        for (size_t i = 0; x != 6 && i < E; i++)
            s.expert[x].down.bias[i] = NAN;
    again = run(&s, h, NULL, 1);
    assert_memory_equal(again, r, E * sizeof(float));
    s.expert[1].down.bias[0] = NAN;
    free(again);
    again = run(&s, h, NULL, 1);
    assert_true(isnan(again[0]));
    free(r);
    free(again);
    free(h);
    close_setup(&s);
}

/* Each token alone, all at once, in chunks, and on any number of threads: the bits are the same. */
static void neither_batch_nor_threads_change_a_bit(void **state)
{
    for (int bf16 = 0; bf16 < 2; bf16++) {
        float *h = noise(7, MAX_T * E, 1), *want = NULL;

        for (int threads = 1; threads <= 5; threads++) {
            struct setup s;
            float *all;

            open_setup(&s, 4, bf16 ? DT_BF16 : DT_F32, threads);
            s.w.renorm = true;
            if (threads % 2)
                pair_up(&s);
            all = run(&s, h, NULL, MAX_T);
            if (!want)
                want = all;
            assert_memory_equal(all, want, MAX_T * E * sizeof(float));
            for (size_t t = 0, n; t < MAX_T; t += n) {
                float *part;

                n = 1 + t % 7 * (t % 3) * 20;
                n = MAX_T - t < n ? MAX_T - t : n;
                part = run(&s, h + t * E, NULL, n);
                assert_memory_equal(part, want + t * E, n * E * sizeof(float));
                free(part);
            }
            if (all != want)
                free(all);
            close_setup(&s);
        }
        free(h);
        free(want);
    }
}

/* Hostile weights make NaN, which must stay in its row, and K experts must still be found. */
static void nan_stays_in_its_token(void **state)
{
    size_t T = 6;
    float *h = noise(7, T * E, 1), *clean, *r;
    struct setup s;

    open_setup(&s, 4, DT_F32, 2);
    clean = run(&s, h, NULL, T);
    h[2 * E + 3] = NAN;
    r = run(&s, h, NULL, T);
    assert_true(isnan(r[2 * E]));
    assert_memory_equal(r, clean, 2 * E * sizeof(float));
    assert_memory_equal(r + 3 * E, clean + 3 * E, (T - 3) * E * sizeof(float));
    free(h);
    free(clean);
    free(r);
    close_setup(&s);
}

/* One expert that all tokens share, and all experts of each token. Experts that no token chose hold NaN. */
static void one_expert_and_all_of_them_agree(void **state)
{
    size_t T = 33;
    float *h = noise(7, T * E, 1), *r;
    struct setup s;

    open_setup(&s, X, DT_F32, 2);
    pair_up(&s);
    s.w.renorm = true;
    r = run(&s, h, NULL, T);
    assert_true(worst_error(&s, r, h, h, T) < 2e-5);
    free(r);
    linear_close(&s.w.router);
    for (size_t i = 0; i < X * E; i++)
        s.router[i] = 0;
    for (size_t x = 0; x < X; x++)
        s.router_bias[x] = x == 4 ? 1 : 0;
    open_linear(&s, &s.w.router, s.router, s.router_bias, X, E, DT_F32, false);
    s.w.top_k = 1;
    for (size_t x = 0; x < X; x++)
        for (size_t i = 0; x != 4 && i < E; i++)
            s.expert[x].down.bias[i] = NAN;
    for (size_t n = 1; n <= T; n++) {
        r = run(&s, h, NULL, n);
        assert_true(worst_error(&s, r, h, h, n) < 2e-5);
        free(r);
    }
    free(h);
    close_setup(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_comparison_sees_zeros_a_wrong_element_and_nan),
        cmocka_unit_test(every_way_of_gating_agrees),
        cmocka_unit_test(the_clamps_are_felt),
        cmocka_unit_test(the_router_may_read_something_else),
        cmocka_unit_test(of_equal_logits_the_lower_expert_wins),
        cmocka_unit_test(neither_batch_nor_threads_change_a_bit),
        cmocka_unit_test(nan_stays_in_its_token),
        cmocka_unit_test(one_expert_and_all_of_them_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
