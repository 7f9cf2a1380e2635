/* test_attention.c - the eager sink's attention against a plain double-precision one: causal, windows,
 * sinks, soft caps, odd head sizes, ragged batches, long contexts that are split; and bit-equality over how
 * a sequence is cut. */
#include <math.h>

#include "base/rng.h"
#include "kern/kern.h"
#include "ops/eager.h"
#include "ops/hadamard.h"

enum { MAX_LEN = 900, TILES = (MAX_LEN + 15) / 16 };

struct setup {
    size_t H, K, D, dp, len;
    struct attn w;
    float *qkv; /* [len, (H + 2K) D] of one sequence */
    char *k, *v;
    struct kv_layer layer;
    uint32_t tile[TILES];
    const uint32_t *table[1];
    struct pool *pool;
    struct eager *g;
    enum dtype dtype;
};

static float noise(uint64_t i, uint64_t j)
{
    return (float)rng_normal(i, j);
}

/* X becomes what an int8 row gives back. */
static void through_i8(float *x, size_t n)
{
    int8_t row[512];
    float scale;

    hadamard_turn(x, n);
    kern_table(cpu_best())->to_i8(row, &scale, x, n);
    for (size_t i = 0; i < n; i++)
        x[i] = scale * (float)row[i];
    hadamard_turn(x, n);
}

/* KV: the type of the cache's rows. */
static void open_rows(struct setup *s, size_t H, size_t K, size_t D, size_t len, enum dtype dtype,
                      enum dtype kv, int threads)
{
    struct eager_limits lim = {.max_tokens = MAX_LEN,
                               .max_seqs = 4,
                               .max_len = MAX_LEN,
                               .n_heads = H,
                               .n_kv = K,
                               .head_dim = D,
                               .inner = 16,
                               .hidden = 16,
                               .n_layers = 1,
                               .dtype = dtype,
                               .kern = kern_table(cpu_best()),
                               .kv_dtype = kv};
    struct err e = {0};
    size_t width = (H + 2 * K) * D, tile = (D + 15) / 16 * 16 * 16 * dtype_bytes(kv);

    tile += kv == DT_I8 ? 64 : 0;

    *s = (struct setup){.H = H, .K = K, .D = D, .dp = (D + 15) / 16 * 16, .len = len, .dtype = dtype};
    s->w = (struct attn){
        .n_heads = H, .n_kv = K, .d = D, .dp = s->dp, .scale = (float)(1 / sqrt((double)D)), .rope = -1};
    s->qkv = malloc(len * width * sizeof(float));
    for (size_t i = 0; i < len * width; i++) {
        s->qkv[i] = noise(1, i);
        if (dtype == DT_BF16 || kv == DT_BF16) /* so that storing them rounds nothing away */
            s->qkv[i] = dtype_bf16_to_f32(dtype_f32_to_bf16(s->qkv[i]));
    }
    for (size_t i = 0; kv == DT_I8 && i < len * (H + 2 * K); i++)
        if (i % (H + 2 * K) >= H)
            through_i8(s->qkv + i * D, D);
    s->layer = (struct kv_layer){.tile_bytes = tile, .block_bytes = tile};
    s->layer.head_bytes = s->layer.tile_bytes * TILES;
    s->k = s->layer.k = malloc(s->layer.head_bytes * K);
    s->v = s->layer.v = malloc(s->layer.head_bytes * K);
    memset(s->k, 0x7f, s->layer.head_bytes * K); /* large finite garbage: masked rows must not matter */
    memset(s->v, 0x7f, s->layer.head_bytes * K);
    for (uint32_t t = 0; t < TILES; t++)
        s->tile[t] = (t * 37) % TILES; /* scattered; 37 and TILES have no common factor */
    s->table[0] = s->tile;
    assert_int_equal(pool_new(&s->pool, threads, &e), 0);
    assert_int_equal(eager_new(&s->g, &lim, s->pool, &e), 0);
}

static void open_setup(struct setup *s, size_t H, size_t K, size_t D, size_t len, enum dtype dtype,
                       int threads)
{
    open_rows(s, H, K, D, len, dtype, dtype, threads);
}

static void close_setup(struct setup *s)
{
    eager_free(s->g);
    pool_free(s->pool);
    free(s->qkv);
    free(s->k);
    free(s->v);
}

/* Runs the whole sequence in pieces of CHUNK tokens; out [len, H D] act. free(). */
static void *run(struct setup *s, size_t chunk)
{
    size_t es = dtype_bytes(s->dtype), width = (s->H + 2 * s->K) * s->D, row = s->H * s->D * es;
    const struct sink *o = eager_sink(s->g);
    char *out = malloc(s->len * row);

    for (size_t pos = 0; pos < s->len; pos += chunk) {
        size_t n = s->len - pos < chunk ? s->len - pos : chunk;
        struct batch_seq q = {.kv = {.layer = &s->layer, .tile = s->table},
                              .n = n,
                              .pos = pos,
                              .n_prompt = s->len,
                              .n_total = s->len};
        struct batch b = {.n_tokens = n, .n_seqs = 1, .seq = &q};

        o->attn(o, out + pos * row, s->qkv + pos * width, &s->w, &b, 0);
    }
    return out;
}

/* Attention of row T, head H, in double. */
static void plain(const struct setup *s, size_t t, size_t h, double *out)
{
    size_t width = (s->H + 2 * s->K) * s->D, kv = h / (s->H / s->K),
           from = s->w.window && t + 1 > s->w.window ? t + 1 - s->w.window : 0;
    const float *q = s->qkv + t * width + h * s->D;
    double *p = malloc((t + 1) * sizeof(double)), max = s->w.sinks ? (double)s->w.sinks[h] : -INFINITY, sum;

    if (s->w.chunk)
        from = t / s->w.chunk * s->w.chunk;
    for (size_t j = from; j <= t; j++) {
        const float *k = s->qkv + j * width + (s->H + kv) * s->D;
        double dot = 0;

        for (size_t d = 0; d < s->D; d++)
            dot += (double)q[d] * (double)k[d];
        p[j] = dot * (double)s->w.scale;
        if (s->w.softcap > 0)
            p[j] = (double)s->w.softcap * tanh(p[j] / (double)s->w.softcap);
        max = fmax(max, p[j]);
    }
    sum = s->w.sinks ? exp((double)s->w.sinks[h] - max) : 0;
    memset(out, 0, s->D * sizeof(double));
    for (size_t j = from; j <= t; j++) {
        const float *v = s->qkv + j * width + (s->H + s->K + kv) * s->D;
        double e = exp(p[j] - max);

        sum += e;
        for (size_t d = 0; d < s->D; d++)
            out[d] += e * (double)v[d];
    }
    for (size_t d = 0; d < s->D; d++)
        out[d] /= sum;
    free(p);
}

/* Largest error of any element, relative to the largest element of its head's row. */
static double worst_error(const struct setup *s, const void *got)
{
    double want[512], worst = 0;

    for (size_t t = 0; t<s->len; t += s->len> 200 ? 13 : 1)
        for (size_t h = 0; h < s->H; h++) {
            double most = 0, off = 0;

            plain(s, t, h, want);
            for (size_t d = 0; d < s->D; d++) {
                size_t at = (t * s->H + h) * s->D + d;
                double x = s->dtype == DT_F32 ? (double)((const float *)got)[at]
                                              : (double)dtype_bf16_to_f32(((const uint16_t *)got)[at]);

                off = fmax(off, fabs(x - want[d]));
                most = fmax(most, fabs(want[d]));
                if (isnan(x))
                    return INFINITY;
            }
            worst = fmax(worst, off / most);
        }
    return worst;
}

static void check(struct setup *s, double limit)
{
    static const size_t cuts[] = {1, 5, 16, 64};
    void *whole = run(s, s->len);
    double off = worst_error(s, whole);

    if (!(off <= limit))
        fail_msg("attention is off by %.2e of its largest (limit %.1e)", off, limit);
    for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
        void *cut = run(s, cuts[c]);

        if (memcmp(cut, whole, s->len * s->H * s->D * dtype_bytes(s->dtype)) != 0)
            fail_msg("bits differ when cut into pieces of %zu", cuts[c]);
        free(cut);
    }
    free(whole);
}

static void causal_attention_agrees_for_odd_shapes(void **state)
{
    static const size_t shape[][4] = {{1, 1, 16, 40}, {4, 2, 20, 70}, {6, 3, 80, 37},
                                      {8, 1, 48, 33}, {3, 3, 7, 50},  {2, 2, 256, 20}};

    for (size_t i = 0; i < sizeof(shape) / sizeof(shape[0]); i++) {
        struct setup s;

        open_setup(&s, shape[i][0], shape[i][1], shape[i][2], shape[i][3], DT_F32, 2);
        check(&s, 2e-6);
        close_setup(&s);
    }
}

static void long_contexts_are_split_without_a_trace(void **state)
{
    struct setup s;

    open_setup(&s, 4, 2, 32, MAX_LEN, DT_F32, 3);
    check(&s, 4e-6);
    close_setup(&s);
}

static void a_window_hides_all_but_its_keys(void **state)
{
    static const size_t windows[] = {1, 17, 256, 300};

    for (size_t i = 0; i < 4; i++) {
        struct setup s;

        open_setup(&s, 2, 1, 32, 700, DT_F32, 2);
        s.w.window = windows[i];
        check(&s, 4e-6);
        close_setup(&s);
    }
}

/* What int8 and bf16 rows may differ by where rows are given that storing does not round: weights are rounded
 * to 8 bits in bf16; of int8 q is, to 15 bits of its largest, where the kernel works on integers. */
static double limit_of(enum dtype kv)
{
    if (kv == DT_BF16)
        return 8e-3;
    return kv == DT_I8 && strcmp(kern_class(kern_table(cpu_best()), KERN_FN_attn_i8), "int8 dot") == 0 ? 5e-4
                                                                                                       : 1e-5;
}

static const enum dtype row_types[] = {DT_F32, DT_BF16, DT_I8};

static void sinks_join_the_softmax_even_when_zero(void **state)
{
    static const float sinks[4] = {0.0f, 1.5f, -3.0f, 8.0f};

    for (size_t i = 0; i < 3; i++) {
        struct setup s;
        void *with, *without;

        open_rows(&s, 4, 2, 16, 300, DT_F32, row_types[i], 2);
        without = run(&s, s.len);
        s.w.sinks = sinks;
        check(&s, limit_of(row_types[i]));
        with = run(&s, s.len);
        assert_memory_not_equal(with, without, s.H * s.D * sizeof(float));
        free(with);
        free(without);
        close_setup(&s);
    }
}

static void a_soft_cap_bends_the_scores(void **state)
{
    for (size_t i = 0; i < 3; i++) {
        struct setup s;

        open_rows(&s, 2, 2, 64, 90, DT_F32, row_types[i], 1);
        s.w.softcap = 2.0f;
        check(&s, limit_of(row_types[i]));
        close_setup(&s);
    }
}

static void bf16_attention_stays_within_its_rounding(void **state)
{
    struct setup s;

    open_setup(&s, 4, 1, 64, 600, DT_BF16, 2);
    check(&s, 1.2e-2); /* p and the result are rounded to 8 bits */
    close_setup(&s);
}

static void rows_of_another_type_are_read_as_they_were_stored(void **state)
{
    static const size_t shape[][4] = {{4, 1, 64, 600}, {6, 3, 80, 37}, {3, 3, 7, 50}, {8, 2, 128, 300}};

    for (size_t i = 0; i < 3; i++)
        for (size_t n = 0; n < 4; n++) {
            struct setup s;

            open_rows(&s, shape[n][0], shape[n][1], shape[n][2], shape[n][3], DT_F32, row_types[i], 2);
            check(&s, limit_of(row_types[i]));
            close_setup(&s);
            open_rows(&s, shape[n][0], shape[n][1], shape[n][2], shape[n][3], DT_BF16, row_types[i], 2);
            check(&s, 1.2e-2);
            close_setup(&s);
        }
}

/* A sequence that overflowed leaves NaN in its tiles; the next owner of a tile sees none of it, also where
 * its last tile is not full and its heads are padded. */
static void a_tile_whose_last_owner_left_nan_is_cleared(void **state)
{
    static const size_t lens[] = {1, 15, 16, 17, 37, 290};

    for (size_t i = 0; i < 3; i++)
        for (size_t n = 0; n < sizeof(lens) / sizeof(*lens); n++) {
            struct setup s;

            open_rows(&s, 4, 2, 24, lens[n], DT_F32, row_types[i], 2);
            memset(s.k, 0xff, s.layer.head_bytes * 2);
            memset(s.v, 0xff, s.layer.head_bytes * 2);
            check(&s, limit_of(row_types[i]));
            close_setup(&s);
        }
}

static void a_chunk_hides_those_in_front(void **state)
{
    static const size_t chunks[] = {1, 16, 50, 256, 300};

    for (size_t i = 0; i < 5; i++) {
        struct setup s;

        open_setup(&s, 2, 1, 32, 700, DT_F32, 2);
        s.w.chunk = chunks[i];
        check(&s, 4e-6);
        close_setup(&s);
    }
}

static void the_ruler_sees_zeros_and_nan(void **state)
{
    struct setup s;
    float *x;

    open_setup(&s, 1, 1, 16, 20, DT_F32, 1);
    x = calloc(s.len * s.D, sizeof(float));
    assert_true(worst_error(&s, x) > 0.9);
    x[5] = NAN;
    assert_true(worst_error(&s, x) > 1e9);
    free(x);
    close_setup(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ruler_sees_zeros_and_nan),
        cmocka_unit_test(causal_attention_agrees_for_odd_shapes),
        cmocka_unit_test(long_contexts_are_split_without_a_trace),
        cmocka_unit_test(a_window_hides_all_but_its_keys),
        cmocka_unit_test(sinks_join_the_softmax_even_when_zero),
        cmocka_unit_test(a_soft_cap_bends_the_scores),
        cmocka_unit_test(bf16_attention_stays_within_its_rounding),
        cmocka_unit_test(rows_of_another_type_are_read_as_they_were_stored),
        cmocka_unit_test(a_tile_whose_last_owner_left_nan_is_cleared),
        cmocka_unit_test(a_chunk_hides_those_in_front),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
