/* test_sparse.c - attention of layers that see the first rows and a window, against StreamingLLM as its paper
 * has it (https://arxiv.org/abs/2309.17453): keys are kept unturned, and what a query sees is turned to
 * positions 0, 1, 2, ... inside the cache, with the query last; in plain double precision. And bit-equality
 * over how a sequence is cut and how many threads there are.
 */
#include <math.h>

#include "base/rng.h"
#include "kern/kern.h"
#include "ops/eager.h"

enum { MAX_LEN = 700, TILES = (MAX_LEN + 15) / 16, SEQS = 2 };

struct shape {
    size_t H, K, D, turned; /* TURNED dims of D have a rope; 0: the layer has none */
    enum rope_pairs pairs;
    size_t len, sink, window;
    enum dtype kv;
};

struct setup {
    struct shape s;
    struct attn w;
    struct rope rope;
    size_t window, sink;
    float *qkv; /* [len, (H + 2K) D] before rope */
    char *rows; /* k and v of SEQS sequences */
    struct kv_layer layer;
    uint32_t tile[SEQS][TILES];
    const uint32_t *table[SEQS];
    struct pool *pool;
    struct eager *g;
};

static size_t width(const struct setup *t)
{
    return (t->s.H + 2 * t->s.K) * t->s.D;
}

static void open_rows(struct setup *t)
{
    size_t dp = t->w.dp, tile = dp * 16 * dtype_bytes(t->s.kv) + (t->s.kv == DT_I8 ? 64 : 0);

    t->layer = (struct kv_layer){.tile_bytes = tile, .block_bytes = tile, .head_bytes = tile * TILES * SEQS};
    t->rows = malloc(2 * t->s.K * t->layer.head_bytes);
    memset(t->rows, 0x7f, 2 * t->s.K * t->layer.head_bytes); /* large finite garbage */
    t->layer.k = t->rows;
    t->layer.v = t->rows + t->s.K * t->layer.head_bytes;
    for (uint32_t i = 0; i < TILES * SEQS;
         i++) /* scattered; 37 and the number of tiles have no common factor */
        t->tile[i % SEQS][i / SEQS] = i * 37 % (TILES * SEQS);
    for (size_t q = 0; q < SEQS; q++)
        t->table[q] = t->tile[q];
}

static void open_setup(struct setup *t, const struct shape *s, int threads)
{
    struct rope_params rp = {.type = ROPE_DEFAULT, .dim = s->turned, .theta = 500};
    struct err e = {0};

    *t = (struct setup){.s = *s, .window = s->window, .sink = s->sink};
    t->w = (struct attn){.n_heads = s->H,
                         .n_kv = s->K,
                         .d = s->D,
                         .dp = (s->D + 15) / 16 * 16,
                         .scale = (float)(2 / sqrt((double)s->D)),
                         .rope = s->turned ? 0 : -1,
                         .pairs = s->pairs};
    if (s->turned)
        assert_int_equal(rope_open(&t->rope, &rp, &e), 0);
    t->qkv = malloc(s->len * width(t) * sizeof(float));
    for (size_t i = 0; i < s->len * width(t); i++)
        t->qkv[i] = (float)rng_normal(3, i);
    open_rows(t);
    assert_int_equal(pool_new(&t->pool, threads, &e), 0);
    assert_int_equal(eager_new(&t->g,
                               &(struct eager_limits){.max_tokens = MAX_LEN,
                                                      .max_seqs = SEQS,
                                                      .max_len = MAX_LEN,
                                                      .n_heads = s->H,
                                                      .n_kv = s->K,
                                                      .head_dim = s->D,
                                                      .inner = 16,
                                                      .rope_half = {s->turned / 2},
                                                      .hidden = 16,
                                                      .n_layers = 1,
                                                      .dtype = DT_F32,
                                                      .kern = kern_table(cpu_best()),
                                                      .kv_dtype = s->kv,
                                                      .window = &t->window,
                                                      .sink = &t->sink,
                                                      .seen = s->sink ? s->sink + s->window : 0},
                               t->pool, &e),
                     0);
}

static void close_setup(struct setup *t)
{
    eager_free(t->g);
    pool_free(t->pool);
    rope_close(&t->rope);
    free(t->qkv);
    free(t->rows);
}

/* The sequence in pieces of CHUNK tokens, [len, H D]; from half of it on beside another that is ten rows
 * behind. free(). */
static float *run(struct setup *t, size_t chunk, bool beside)
{
    const struct sink *o = eager_sink(t->g);
    size_t len = t->s.len, row = t->s.H * t->s.D, both = 2 * (chunk < len ? chunk : len);
    float *out = malloc(len * row * sizeof(float)), *a = malloc(both * row * sizeof(float)),
          *x = malloc(both * width(t) * sizeof(float));

    for (size_t pos = 0; pos < len; pos += chunk) {
        size_t n = len - pos < chunk ? len - pos : chunk, other = beside && pos ? (n < 10 ? n : 10) : 0;
        struct batch_seq q[SEQS] = {{.kv = {&t->layer, &t->table[0]}, .n = n, .pos = pos},
                                    {.kv = {&t->layer, &t->table[1]}, .first = n, .n = other}};
        struct batch b = {.n_tokens = n + other, .n_seqs = other ? 2 : 1, .seq = q};

        memcpy(x, t->qkv + pos * width(t), n * width(t) * sizeof(float));
        memcpy(x + n * width(t), t->qkv, other * width(t) * sizeof(float));
        o->begin(o, &t->rope, t->s.turned ? 1 : 0, &b);
        o->rope(o, x, &t->w, n + other);
        o->attn(o, a, x, &t->w, &b, 0);
        memcpy(out + pos * row, a, n * row * sizeof(float));
    }
    free(a);
    free(x);
    return out;
}

/* OUT = head X as it stands at POS. */
static void turn(const struct setup *t, const float *x, size_t pos, double *out)
{
    size_t half = t->s.turned / 2;

    for (size_t d = 0; d < t->s.D; d++)
        out[d] = (double)x[d];
    for (size_t i = 0; i < half; i++) {
        size_t a = t->s.pairs == ROPE_PAIRS_HALF ? i : 2 * i,
               b = t->s.pairs == ROPE_PAIRS_HALF ? i + half : 2 * i + 1;
        double angle = (double)pos * (double)t->rope.inv[i];

        out[a] = (double)x[a] * cos(angle) - (double)x[b] * sin(angle);
        out[b] = (double)x[b] * cos(angle) + (double)x[a] * sin(angle);
    }
}

/* Row ROW of the text is number *PLACE of what a query at T sees; false: it is not seen. */
static bool place(const struct setup *t, size_t row, size_t pos, size_t *place)
{
    bool parted = pos >= t->sink + t->window;

    *place = row < t->sink || !parted ? row : t->sink + row - (pos + 1 - t->window);
    return !parted || row < t->sink || row + t->window > pos;
}

/* Head H of row T by the paper; IN_TEXT: with positions of the text instead. */
static void plain(const struct setup *t, size_t pos, size_t h, bool in_text, double *out)
{
    size_t kv = h / (t->s.H / t->s.K), D = t->s.D, at;
    double q[512], k[512], sum = 0;

    place(t, pos, pos, &at);
    turn(t, t->qkv + pos * width(t) + h * D, in_text ? pos : at, q);
    memset(out, 0, D * sizeof(double));
    for (size_t j = 0; j <= pos; j++) {
        const float *row = t->qkv + j * width(t);
        double dot = 0, e;

        if (!place(t, j, pos, &at))
            continue;
        turn(t, row + (t->s.H + kv) * D, in_text ? j : at, k);
        for (size_t d = 0; d < D; d++)
            dot += q[d] * k[d];
        sum += e = exp(dot * (double)t->w.scale);
        for (size_t d = 0; d < D; d++)
            out[d] += e * (double)row[(t->s.H + t->s.K + kv) * D + d];
    }
    for (size_t d = 0; d < D; d++)
        out[d] /= sum;
}

/* Largest error of any element, relative to the largest element of its head's row. */
static double worst_error(const struct setup *t, const float *got, bool in_text)
{
    double want[512], worst = 0;

    for (size_t pos = 0; pos<t->s.len; pos += pos> 150 ? 23 : 1)
        for (size_t h = 0; h < t->s.H; h++) {
            double most = 0, off = 0;

            plain(t, pos, h, in_text, want);
            for (size_t d = 0; d < t->s.D; d++) {
                double x = (double)got[(pos * t->s.H + h) * t->s.D + d];

                off = fmax(off, isnan(x) ? INFINITY : fabs(x - want[d]));
                most = fmax(most, fabs(want[d]));
            }
            worst = fmax(worst, off / most);
        }
    return worst;
}

static void check(const struct shape *s, double limit)
{
    static const size_t cuts[] = {1, 7, 64};
    size_t bytes = s->len * s->H * s->D * sizeof(float);
    float *whole = NULL;

    for (int threads = 1; threads <= 2; threads++) {
        struct setup t;
        float *x;

        open_setup(&t, s, threads);
        x = run(&t, s->len, false);
        if (!whole) {
            double off = worst_error(&t, x, false);

            whole = x;
            if (!(off <= limit))
                fail_msg("sink %zu, window %zu: off by %.2e of its largest (limit %.1e)", s->sink, s->window,
                         off, limit);
        } else {
            assert_memory_equal(x, whole, bytes);
            free(x);
        }
        for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
            x = run(&t, cuts[c], c % 2 == 0);
            if (memcmp(x, whole, bytes) != 0)
                fail_msg("sink %zu, window %zu: bits differ in pieces of %zu on %d threads", s->sink,
                         s->window, cuts[c], threads);
            free(x);
        }
        close_setup(&t);
    }
    free(whole);
}

static void attention_is_the_papers_with_positions_inside_the_cache(void **state)
{
    static const struct shape shape[] = {
        {4, 2, 32, 32, ROPE_PAIRS_HALF, 300, 4, 64, DT_F32},
        {2, 1, 48, 32, ROPE_PAIRS_NEXT, 200, 1, 16, DT_F32}, /* a part is turned */
        {3, 3, 20, 20, ROPE_PAIRS_HALF, 150, 40, 1, DT_F32},
        {2, 1, 16, 16, ROPE_PAIRS_HALF, 690, 300, 290, DT_F32}, /* two pieces */
        {2, 2, 16, 0, ROPE_PAIRS_HALF, 150, 4, 30, DT_F32},
        {2, 1, 32, 32, ROPE_PAIRS_HALF, 150, 0, 30, DT_F32}};

    for (size_t i = 0; i < sizeof(shape) / sizeof(shape[0]); i++)
        check(&shape[i], 1e-4); /* angles of the text are rounded to fp32: up to 700 x 2^-24 */
}

static void rows_of_other_types_stay_within_their_rounding(void **state)
{
    static const struct shape bf16 = {4, 2, 64, 64, ROPE_PAIRS_HALF, 250, 4, 90, DT_BF16},
                              int8 = {4, 1, 64, 64, ROPE_PAIRS_HALF, 250, 4, 90, DT_I8};

    check(&bf16, 4e-2);
    check(&int8, 8e-2);
}

static void a_window_as_long_as_the_sequence_changes_no_bit(void **state)
{
    struct shape s = {4, 2, 32, 32, ROPE_PAIRS_HALF, 300, 4, 296, DT_F32};
    struct setup sparse, all;
    float *x, *y;

    open_setup(&sparse, &s, 2);
    s.sink = 0;
    s.window = 0;
    open_setup(&all, &s, 2);
    x = run(&sparse, 50, false);
    y = run(&all, 50, false);
    assert_memory_equal(x, y, s.len * s.H * s.D * sizeof(float));
    free(x);
    free(y);
    close_setup(&sparse);
    close_setup(&all);
}

static void the_ruler_tells_positions_of_the_text_from_those_of_the_cache(void **state)
{
    static const struct shape s = {2, 1, 32, 32, ROPE_PAIRS_HALF, 200, 4, 30, DT_F32};
    struct setup t;
    float *x;

    open_setup(&t, &s, 1);
    x = run(&t, s.len, false);
    assert_true(worst_error(&t, x, false) < 1e-4);
    assert_true(worst_error(&t, x, true) > 0.1);
    x[7] = NAN;
    assert_true(worst_error(&t, x, false) > 1e9);
    free(x);
    close_setup(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ruler_tells_positions_of_the_text_from_those_of_the_cache),
        cmocka_unit_test(attention_is_the_papers_with_positions_inside_the_cache),
        cmocka_unit_test(rows_of_other_types_stay_within_their_rounding),
        cmocka_unit_test(a_window_as_long_as_the_sequence_changes_no_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
