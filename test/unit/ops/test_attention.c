/* test_attention.c - the attention of the eager sink against a plain one in double precision: causal,
 * windows, chunks, sinks in the softmax, soft caps, odd head sizes, long contexts that are split, and rows of
 * every dtype. A sequence gives the same bits however it is cut, beside any other sequence, and on any number
 * of threads.
 *
 * Also caches that keep the first rows and a window, as in StreamingLLM (https://arxiv.org/abs/2309.17453):
 * keys are stored without RoPE, and the rows that a query sees are rotated to the positions 0, 1, 2, ...
 * inside the cache, with the query last.
 */
#include <math.h>

#include "base/rng.h"
#include "base/threads/pool.h"
#include "kern/format/kv.h"
#include "kern/kern.h"
#include "ops/batch.h"
#include "ops/eager/eager.h"
#include "ops/op.h"
#include "ops/rope.h"

enum { MAX_LEN = 900, TILES = (MAX_LEN + 15) / 16, SEQS = 2, BESIDE = 10 };

struct shape {
    size_t H, K, D, len;
    enum dtype rows;      /* the dtype of the rows of the cache */
    size_t window, chunk; /* the window of the layer; 0: none */
    float softcap;
    const float *sinks;
    size_t first, kept; /* what a sparse cache keeps: the first rows and a window; 0: all rows */
    size_t rotated;     /* the number of dims of D that RoPE rotates; 0: the layer has no RoPE */
    enum rope_pairs pairs;
    float scale; /* a factor of 1 / sqrt(D) */
};

struct setup {
    struct shape s;
    struct op_attn w;
    struct rope rope;
    float *qkv;  /* [len, (H + 2K) D] before RoPE */
    float *held; /* the same as the cache returns it, where it is stored without RoPE */
    char *rows;  /* k and v of SEQS sequences */
    struct kv_layer layer;
    uint32_t tile[SEQS][TILES];
    const uint32_t *table[SEQS];
    struct pool *pool;
    struct eager *g;
};

enum { N_ROW_TYPES = 4 };
static const enum dtype row_types[N_ROW_TYPES] = {DT_F32, DT_BF16, DT_I8, DT_I4};

static struct shape shape(size_t H, size_t K, size_t D, size_t len)
{
    return (struct shape){.H = H, .K = K, .D = D, .len = len, .scale = 1};
}

static size_t width(const struct setup *t)
{
    return (t->s.H + 2 * t->s.K) * t->s.D;
}

static size_t out_bytes(const struct setup *t)
{
    return t->s.len * t->s.H * t->s.D * sizeof(float);
}

/* Replaces X by the values that an int8 row holds. */
static void through_i8(float *x, size_t n)
{
    int8_t row[512];
    float scale;

    kern_table(CPU_REF)->hadamard(x, n);
    kern_table(cpu_best())->to_i8(row, &scale, x, n);
    for (size_t i = 0; i < n; i++)
        x[i] = scale * (float)row[i];
    kern_table(CPU_REF)->hadamard(x, n);
}

/* Replaces X by the values that a row of 4 bits holds. */
static void through_i4(float *x, size_t n)
{
    uint8_t code[512], factor[512 / KERN_I4_GROUP];
    uint16_t scale;

    kern_table(CPU_REF)->hadamard(x, n);
    kern_table(cpu_best())->to_i4(code, factor, &scale, x, n);
    for (size_t i = 0; i < n; i++)
        x[i] = dtype_bf16_to_f32(scale) * (float)((code[i] - 8) * (factor[i / KERN_I4_GROUP] + 1));
    kern_table(CPU_REF)->hadamard(x, n);
}

/* Fills X with numbers that the rows hold without rounding, unless they are rotated before they are
 * stored. */
static void make_input(struct setup *t)
{
    size_t n = t->s.len * width(t), heads = t->s.H + 2 * t->s.K;

    t->qkv = malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        t->qkv[i] = (float)rng_normal(1, i);
        if (t->s.rows == DT_BF16)
            t->qkv[i] = dtype_bf16_to_f32(dtype_f32_to_bf16(t->qkv[i]));
    }
    for (size_t i = 0; i < t->s.len * heads; i++)
        if (i % heads >= t->s.H && t->s.rows == DT_I8)
            through_i8(t->qkv + i * t->s.D, t->s.D);
    t->held = malloc(n * sizeof(float));
    memcpy(t->held, t->qkv, n * sizeof(float));
    for (size_t i = 0; i < t->s.len * heads; i++)
        if (i % heads >= t->s.H && t->s.rows == DT_I4)
            through_i4(t->held + i * t->s.D, t->s.D);
}

static void make_rows(struct setup *t)
{
    size_t tile = kv_tile_bytes(t->s.rows, t->w.dp);

    t->layer = (struct kv_layer){.tile_bytes = tile, .block_bytes = tile, .head_bytes = tile * TILES * SEQS};
    t->rows = malloc(2 * t->s.K * t->layer.head_bytes);
    memset(t->rows, 0x7f,
           /* Masked rows hold large finite numbers, which must not matter. */
           2 * t->s.K * t->layer.head_bytes);
    t->layer.k = t->rows;
    t->layer.v = t->rows + t->s.K * t->layer.head_bytes;
    for (uint32_t i = 0; i < TILES * SEQS;
         i++) /* The tiles are scattered. 37 and the number of tiles have no common factor. */
        t->tile[i % SEQS][i / SEQS] = i * 37 % (TILES * SEQS);
    for (size_t q = 0; q < SEQS; q++)
        t->table[q] = t->tile[q];
}

static void open_setup(struct setup *t, const struct shape *s, int threads)
{
    struct rope_params rp = {.type = ROPE_DEFAULT, .dim = s->rotated, .theta = 500};
    struct eager_limits lim = {.max_tokens = MAX_LEN,
                               .max_seqs = SEQS,
                               .max_len = MAX_LEN,
                               .n_heads = s->H,
                               .n_kv = s->K,
                               .head_dim = s->D,
                               .inner = 16,
                               .rope_half = {s->rotated / 2},
                               .hidden = 16,
                               .kern = kern_table(cpu_best()),
                               .kv_dtype = s->rows};
    struct err e = {0};

    *t = (struct setup){.s = *s};
    t->w = (struct op_attn){.n_heads = s->H,
                            .n_kv = s->K,
                            .d = s->D,
                            .dp = (s->D + 15) / 16 * 16,
                            .scale = s->scale / (float)sqrt((double)s->D),
                            .window = s->window,
                            .chunk = s->chunk,
                            .softcap = s->softcap,
                            .sinks = s->sinks,
                            .rope = s->rotated ? 0 : -1,
                            .pairs = s->pairs};
    if (s->kept) {
        lim.window = &t->s.kept;
        lim.sink = &t->s.first;
        lim.seen = s->first ? s->first + s->kept : 0;
    }
    if (s->rotated)
        assert_int_equal(rope_open(&t->rope, &rp, &e), 0);
    make_input(t);
    make_rows(t);
    assert_int_equal(pool_new(&t->pool, threads, &e), 0);
    assert_int_equal(eager_new(&t->g, &lim, t->pool, &e), 0);
}

static void close_setup(struct setup *t)
{
    eager_free(t->g);
    pool_free(t->pool);
    rope_close(&t->rope);
    free(t->qkv);
    free(t->held);
    free(t->rows);
}

/* Computes the sequence in chunks of CHUNK tokens, [len, H D]; if BESIDE is set, with a second sequence from
 * the second chunk on. free(). */
static float *run(struct setup *t, size_t chunk, bool beside)
{
    const struct op_sink *o = eager_sink(t->g);
    size_t len = t->s.len, row = t->s.H * t->s.D, most = (chunk < len ? chunk : len) + BESIDE;
    float *out = malloc(len * row * sizeof(float)), *a = malloc(most * row * sizeof(float));
    float *x = malloc(most * width(t) * sizeof(float));

    for (size_t pos = 0; pos < len; pos += chunk) {
        size_t n = len - pos < chunk ? len - pos : chunk,
               other = beside && pos ? (n < BESIDE ? n : BESIDE) : 0;
        struct batch_seq q[SEQS] = {
            {.kv = {&t->layer, &t->table[0]}, .n = n, .pos = pos, .n_prompt = len, .n_total = len},
            {.kv = {&t->layer, &t->table[1]}, .first = n, .n = other, .n_prompt = other, .n_total = other}};
        struct batch b = {.n_tokens = n + other, .n_seqs = other ? 2 : 1, .seq = q};

        memcpy(x, t->qkv + pos * width(t), n * width(t) * sizeof(float));
        memcpy(x + n * width(t), t->qkv, other * width(t) * sizeof(float));
        o->begin(o, &t->rope, t->s.rotated ? 1 : 0, &b);
        if (t->s.rotated)
            o->rope(o, x, &t->w, n + other);
        o->attn(o, a, x, &t->w, &b, 0);
        memcpy(out + pos * row, a, n * row * sizeof(float));
    }
    free(a);
    free(x);
    return out;
}

/* ---- the plain one ---- */

/* Rotates one head of X to position POS, into OUT. */
static void rotate(const struct setup *t, const float *x, size_t pos, double *out)
{
    size_t half = t->s.rotated / 2;

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

/* Returns whether a query at POS sees row ROW of the text, and sets *place to its position in the cache. */
static bool sees(const struct shape *s, size_t row, size_t pos, size_t *place)
{
    bool parted = s->kept && pos >= s->first + s->kept;

    *place = row < s->first || !parted ? row : s->first + row - (pos + 1 - s->kept);
    if (s->chunk && row < pos / s->chunk * s->chunk)
        return false;
    if (s->window && row + s->window <= pos)
        return false;
    return !parted || row < s->first || row + s->kept > pos;
}

/* Computes head H of row POS. IN_TEXT: rotated to positions of the text instead of the cache's. */
static void plain(const struct setup *t, size_t pos, size_t h, bool in_text, double *out)
{
    size_t kv = h / (t->s.H / t->s.K), D = t->s.D, at;
    double q[512], k[512], score[MAX_LEN], max = t->s.sinks ? (double)t->s.sinks[h] : -INFINITY, sum;

    sees(&t->s, pos, pos, &at);
    rotate(t, t->held + pos * width(t) + h * D, in_text ? pos : at, q);
    for (size_t j = 0; j <= pos; j++) {
        score[j] = -INFINITY;
        if (!sees(&t->s, j, pos, &at))
            continue;
        rotate(t, t->held + j * width(t) + (t->s.H + kv) * D, in_text ? j : at, k);
        score[j] = 0;
        for (size_t d = 0; d < D; d++)
            score[j] += q[d] * k[d];
        score[j] *= (double)t->w.scale;
        if (t->s.softcap > 0)
            score[j] = (double)t->s.softcap * tanh(score[j] / (double)t->s.softcap);
        max = fmax(max, score[j]);
    }
    sum = t->s.sinks ? exp((double)t->s.sinks[h] - max) : 0;
    memset(out, 0, D * sizeof(double));
    for (size_t j = 0; j <= pos; j++) {
        const float *v = t->held + j * width(t) + (t->s.H + t->s.K + kv) * D;
        double e = exp(score[j] - max);

        sum += e;
        for (size_t d = 0; d < D; d++)
            out[d] += e * (double)v[d];
    }
    for (size_t d = 0; d < D; d++)
        out[d] /= sum;
}

/* Returns the largest error of any element, relative to the largest element of its head's row. */
static double worst_error(const struct setup *t, const float *got, bool in_text)
{
    double want[512], worst = 0;

    for (size_t pos = 0; pos<t->s.len; pos += pos> 150 ? 23 : 1)
        for (size_t h = 0; h < t->s.H; h++) {
            double most = 0, off = 0;

            plain(t, pos, h, in_text, want);
            for (size_t d = 0; d < t->s.D; d++) {
                double x = (double)got[(pos * t->s.H + h) * t->s.D + d];

                if (isnan(x))
                    return INFINITY;
                off = fmax(off, fabs(x - want[d]));
                most = fmax(most, fabs(want[d]));
            }
            worst = fmax(worst, off / most);
        }
    return worst;
}

/* ---- both ---- */

static void check_opened(struct setup *t, const struct shape *s, int threads, float **whole, double limit)
{
    static const size_t cuts[] = {1, 5, 7, 16, 64};
    float *x = run(t, s->len, false);
    double off = *whole ? 0 : worst_error(t, x, false);

    if (!(off <= limit))
        fail_msg(
            "%zu heads on %zu of %zu, %zu rows of %s, window %zu, chunk %zu, first %zu, kept %zu: off by %.2e of "
            "its largest (limit %.1e)",
            s->H, s->K, s->D, s->len, dtype_name(s->rows), s->window, s->chunk, s->first, s->kept, off,
            limit);
    if (!*whole)
        *whole = x;
    else if (memcmp(x, *whole, out_bytes(t)) != 0)
        fail_msg("bits differ on %d threads", threads);
    if (x != *whole)
        free(x);
    for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
        if ((c == 2) != (threads == 2)) /* One of the five runs on two threads. */
            continue;
        x = run(t, cuts[c], c % 2 == 0);
        if (memcmp(x, *whole, out_bytes(t)) != 0)
            fail_msg(
                "%zu heads on %zu of %zu, %zu rows, window %zu, chunk %zu, first %zu, kept %zu: bits differ in "
                "pieces of %zu on %d threads",
                s->H, s->K, s->D, s->len, s->window, s->chunk, s->first, s->kept, cuts[c], threads);
        free(x);
    }
}

static void check_filled(const struct shape *s, double limit, int garbage)
{
    float *whole = NULL;

    for (int threads = 1; threads <= 2; threads++) {
        struct setup t;

        open_setup(&t, s, threads);
        memset(t.rows, garbage, 2 * t.s.K * t.layer.head_bytes);
        check_opened(&t, s, threads, &whole, limit);
        close_setup(&t);
    }
    free(whole);
}

static void check(const struct shape *s, double limit)
{
    check_filled(s, limit, 0x7f);
}

/* The tolerance of int8 and bf16 rows, for numbers that are stored without rounding. Bf16 rounds weights to 8
 * bits. Int8 rounds q and weights to 8 bits of their largest, where the kernel works on integers. */
static double limit_of(enum dtype rows)
{
    if (rows == DT_BF16)
        return 8e-3;
    return (rows == DT_I8 || rows == DT_I4) &&
                   strcmp(kern_class(kern_table(cpu_best()), KERN_FN_attn_i8), "int8 dot") == 0
               ? 4e-2
               : 1e-5;
}

static void causal_attention_is_wrong_for_an_odd_shape(void **state)
{
    static const size_t shapes[][4] = {{1, 1, 16, 40}, {4, 2, 20, 70}, {6, 3, 80, 37},
                                       {8, 1, 48, 33}, {3, 3, 7, 50},  {2, 2, 256, 20}};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct shape s = shape(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);

        check(&s, 2e-6);
    }
}

static void a_long_context_that_is_split_shows_it(void **state)
{
    /* With few KV heads the pieces of a few rows are divided among the threads; many heads are divided themselves. */
    static const size_t heads[][2] = {{4, 2}, {16, 1}, {16, 8}};

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct shape s = shape(heads[i][0], heads[i][1], 32, MAX_LEN);

        check(&s, 4e-6);
    }
}

static void a_window_or_chunk_shows_what_it_hides(void **state)
{
    static const size_t sizes[] = {1, 16, 17, 50, 256, 300};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int chunk = 0; chunk < 2; chunk++) {
            struct shape s = shape(2, 1, 32, 700);

            *(chunk ? &s.chunk : &s.window) = sizes[i];
            check(&s, 4e-6);
        }
}

static void a_sink_has_no_part_in_the_softmax(void **state)
{
    static const float sinks[4] = {0.0f, 1.5f, -3.0f, 8.0f};

    for (size_t i = 0; i < N_ROW_TYPES; i++) {
        struct shape s = shape(4, 2, 16, 300), none = s;
        struct setup t;
        float *with, *without;

        s.rows = none.rows = row_types[i];
        s.sinks = sinks;
        check(&s, limit_of(s.rows));
        open_setup(&t, &s, 2);
        with = run(&t, s.len, false);
        close_setup(&t);
        open_setup(&t, &none, 2);
        without = run(&t, s.len, false);
        /* This also holds where it is zero. */
        assert_memory_not_equal(with, without, s.H * s.D * sizeof(float));
        free(with);
        free(without);
        close_setup(&t);
    }
}

static void a_soft_cap_bends_no_score(void **state)
{
    for (size_t i = 0; i < N_ROW_TYPES; i++) {
        struct shape s = shape(2, 2, 64, 90);

        s.rows = row_types[i];
        s.softcap = 2;
        check(&s, limit_of(s.rows));
    }
}

static void rows_of_another_type_are_read_as_something_else(void **state)
{
    static const size_t shapes[][4] = {{4, 1, 64, 600}, {6, 3, 80, 37}, {3, 3, 7, 50}, {8, 2, 128, 300}};

    for (size_t i = 0; i < N_ROW_TYPES; i++)
        for (size_t n = 0; n < 4; n++) {
            struct shape s = shape(shapes[n][0], shapes[n][1], shapes[n][2], shapes[n][3]);

            s.rows = row_types[i];
            check(&s, limit_of(s.rows));
        }
}

/* A sequence that overflowed leaves NaN in its tiles. The next owner of a tile must not see them, also if its
 * last tile is not full and its heads are padded. */
static void a_tile_whose_last_owner_left_nan_is_not_cleared(void **state)
{
    static const size_t lens[] = {1, 15, 16, 17, 37, 290};

    for (size_t i = 0; i < N_ROW_TYPES; i++)
        for (size_t n = 0; n < sizeof(lens) / sizeof(*lens); n++) {
            struct shape s = shape(4, 2, 24, lens[n]);

            s.rows = row_types[i];
            check_filled(&s, limit_of(s.rows), 0xff);
        }
}

/* Computes T, whose token AT has a key (VALUE: values) of head 0 that is not finite: the query heads of KV head 0 are
 * NaN from that token on, and nothing else differs from WANT. */
static void check_spoiled(struct setup *t, size_t at, bool value, const float *want, const char *what)
{
    static const size_t cuts[] = {1, 7, 37};
    size_t D = t->s.D, H = t->s.H;

    for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
        float *got = run(t, cuts[c], false);

        for (size_t i = 0; i < t->s.len * H * D; i++) {
            bool sees = i / (H * D) >= at && i / D % H < H / t->s.K;

            if (sees ? !isnan(got[i]) : memcmp(&got[i], &want[i], sizeof(*got)) != 0)
                fail_msg(
                    "%s of token %zu, %s rows, %s: dim %zu of head %zu of token %zu is %g, in pieces of %zu",
                    value ? "values" : "keys", at, dtype_name(t->s.rows), what, i % D, i / D % H, i / (H * D),
                    (double)got[i], cuts[c]);
        }
        free(got);
    }
}

static void a_number_that_is_not_finite_is_hidden_or_spreads(void **state)
{
    static const struct {
        const char *name;
        float x;
        bool every;               /* every element has it */
        bool spoils[N_ROW_TYPES]; /* rows of row_types that cannot hold it */
    } cases[] = {{"NaN", NAN, false, {true, true, true, true}},
                 {"infinity", INFINITY, false, {true, true, true, true}},
                 {"-infinity", -INFINITY, false, {true, true, true, true}},
                 {"more than bf16 can hold", -3.4e38f, false, {false, true, false, false}},
                 {"a rotation above the largest number", 3.3e38f, true, {false, false, true, true}}};
    static const size_t tokens[] = {0, 15, 16, 20, 36};

    for (size_t i = 0; i < N_ROW_TYPES; i++) {
        struct shape s = shape(4, 2, 24, 37);
        struct setup t;
        float *want;

        s.rows = row_types[i];
        open_setup(&t, &s, 1);
        want = run(&t, 37, false);
        for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
            for (size_t n = 0; n < 2 * sizeof(tokens) / sizeof(tokens[0]) && cases[k].spoils[i]; n++) {
                size_t at = tokens[n / 2];
                float *x = t.qkv + at * width(&t) + (s.H + n % 2 * s.K) * s.D, saved[24];

                memcpy(saved, x, sizeof(saved));
                for (size_t d = 0; d < s.D; d++)
                    if (cases[k].every || d == 23)
                        x[d] = cases[k].x;
                check_spoiled(&t, at, n % 2, want, cases[k].name);
                memcpy(x, saved, sizeof(saved));
            }
        free(want);
        close_setup(&t);
    }
}

static void a_sparse_cache_is_not_that_of_the_paper(void **state)
{
    static const struct shape shapes[] = {
        {.H = 4, .K = 2, .D = 32, .rotated = 32, .len = 300, .first = 4, .kept = 64},
        {.H = 2,
         .K = 1,
         .D = 48,
         .rotated = 32,
         .pairs = ROPE_PAIRS_NEXT,
         .len = 200,
         .first = 1,
         .kept = 16},
        {.H = 3, .K = 3, .D = 20, .rotated = 20, .len = 150, .first = 40, .kept = 1},
        {.H = 2, .K = 1, .D = 16, .rotated = 16, .len = 690, .first = 300, .kept = 290}, /* two chunks */
        {.H = 2, .K = 2, .D = 16, .len = 150, .first = 4, .kept = 30},
        {.H = 2, .K = 1, .D = 32, .rotated = 32, .len = 150, .kept = 30}};
    struct shape s = {.H = 4, .K = 2, .D = 64, .rotated = 64, .len = 250, .first = 4, .kept = 90, .scale = 2};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct shape fp32 = shapes[i];

        fp32.scale = 2;
        check(&fp32, 1e-4); /* Angles of the text are rounded to fp32, an error of up to 700 x 2^-24. */
    }
    s.rows = DT_BF16;
    check(&s, 4e-2);
    s.rows = DT_I8;
    check(&s, 8e-2);
}

static void a_window_as_long_as_the_sequence_changes_a_bit(void **state)
{
    struct shape s = shape(4, 2, 32, 300);
    struct setup sparse, all;
    float *x, *y;

    s.rotated = 32;
    open_setup(&all, &s, 2);
    s.first = 4;
    s.kept = 296;
    open_setup(&sparse, &s, 2);
    x = run(&sparse, 50, false);
    y = run(&all, 50, false);
    assert_memory_equal(x, y, out_bytes(&all));
    free(x);
    free(y);
    close_setup(&sparse);
    close_setup(&all);
}

static void the_comparison_overlooks_zeros_nan_or_other_positions(void **state)
{
    struct shape s = {.H = 2, .K = 1, .D = 32, .rotated = 32, .len = 200, .first = 4, .kept = 30, .scale = 2};
    struct setup t;
    float *x;

    open_setup(&t, &s, 1);
    x = run(&t, s.len, false);
    assert_true(worst_error(&t, x, false) < 1e-4);
    /* The positions are those of the text and not of the cache. */
    assert_true(worst_error(&t, x, true) > 0.1);
    x[7] = NAN;
    assert_true(worst_error(&t, x, false) > 1e9);
    memset(x, 0, out_bytes(&t));
    assert_true(worst_error(&t, x, false) > 0.9);
    free(x);
    close_setup(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_comparison_overlooks_zeros_nan_or_other_positions),
        cmocka_unit_test(causal_attention_is_wrong_for_an_odd_shape),
        cmocka_unit_test(a_long_context_that_is_split_shows_it),
        cmocka_unit_test(a_window_or_chunk_shows_what_it_hides),
        cmocka_unit_test(a_sink_has_no_part_in_the_softmax),
        cmocka_unit_test(a_soft_cap_bends_no_score),
        cmocka_unit_test(rows_of_another_type_are_read_as_something_else),
        cmocka_unit_test(a_tile_whose_last_owner_left_nan_is_not_cleared),
        cmocka_unit_test(a_number_that_is_not_finite_is_hidden_or_spreads),
        cmocka_unit_test(a_sparse_cache_is_not_that_of_the_paper),
        cmocka_unit_test(a_window_as_long_as_the_sequence_changes_a_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
