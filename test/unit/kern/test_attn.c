/* test_attn.c - every attention kernel on one chunk: the bits of ref, an oracle, and independence of the
 * other rows in a call.
 *
 * A problem holds queries, keys and values both exactly and packed in tiles. Tokens that no row sees hold
 * large finite numbers or keys of NaN, dims from d to dp are zero, and outputs and scratch are NaN before the call.
 */
#include <math.h>

#include "check.h"
#include "kern/kern.h"
#include "rows.h"
#include "tensor/dtype.h"

enum { MOST_M = 60, MOST_D = KERN_ATTN_DIM, SCRATCH = 2 * KERN_ATTN_ROWS * KERN_CHUNK };

enum type { F32, BF16, I8, N_TYPES }; /* the dtypes of keys and values */

enum view { FULL, CAUSAL, WINDOW, RANDOM, ONE_TOKEN, NOTHING, N_VIEWS };

struct problem {
    size_t m, d, dp, tiles;
    enum type type;
    float scale, softcap;
    int32_t lo[MOST_M], hi[MOST_M];
    float *q, *k, *v;  /* exact values: [m][dp], [tokens][dp], [tokens][dp] */
    void *k_in, *v_in; /* the tiles in the order in which the kernel reads them */
    const void *k_tile[KERN_CHUNK_TILES], *v_tile[KERN_CHUNK_TILES];
};

struct result {
    float out[MOST_M * MOST_D], max[MOST_M], sum[MOST_M];
};

static float scratch[SCRATCH] __attribute__((aligned(64)));

static void *take(size_t bytes)
{
    void *p = malloc(bytes);

    assert_non_null(p);
    return p;
}

static void set_view(struct problem *p, struct check_rng *g, enum view view)
{
    int32_t n = (int32_t)(p->tiles * KERN_TILE);

    for (size_t r = 0; r < p->m; r++) {
        int32_t end = n - (int32_t)(p->m - 1 - r), a = (int32_t)check_below(g, (size_t)n + 1),
                b = (int32_t)check_below(g, (size_t)n + 1);

        end = end < 0 ? 0 : end;
        p->lo[r] = 0;
        p->hi[r] = n;
        switch (view) {
        case CAUSAL: p->hi[r] = end; break;
        case WINDOW:
            p->hi[r] = end;
            p->lo[r] = end > 37 ? end - 37 : 0;
            break;
        case RANDOM: /* Some rows see nothing. */
            p->lo[r] = a;
            p->hi[r] = b;
            break;
        case ONE_TOKEN:
            p->lo[r] = a < n ? a : n - 1;
            p->hi[r] = p->lo[r] + 1;
            break;
        case NOTHING: p->lo[r] = p->hi[r] = a; break;
        case FULL:
        case N_VIEWS: break;
        }
    }
}

static bool is_seen(const struct problem *p, int32_t token)
{
    for (size_t r = 0; r < p->m; r++)
        if (p->lo[r] <= token && token < p->hi[r])
            return true;
    return false;
}

static size_t tile_bytes(const struct problem *p)
{
    static const size_t size[N_TYPES] = {4, 2, 1};

    return KERN_TILE * p->dp * size[p->type] + (p->type == I8 ? KERN_TILE * sizeof(float) : 0);
}

/* Stores X in element I of tile T of the kernel's array; int8 elements are multiples of the SCALE of their
 * token. Returns the value that the kernel will read. */
static float put(const struct problem *p, void *to, size_t t, size_t i, float x, float scale)
{
    char *tile = (char *)to + t * tile_bytes(p);
    int8_t byte = (int8_t)fmaxf(-128, fminf(127, rintf(x * 127)));

    switch (p->type) {
    case BF16:
        ((uint16_t *)(void *)tile)[i] = dtype_f32_to_bf16(x);
        return dtype_bf16_to_f32(((uint16_t *)(void *)tile)[i]);
    case I8: ((int8_t *)tile)[i] = byte; return (float)byte * scale;
    default: return ((float *)(void *)tile)[i] = x;
    }
}

/* Stores and returns the int8 scale of a token: sometimes subnormal, and UNSEEN if no row sees the token. */
static float put_scale(const struct problem *p, struct check_rng *g, void *to, size_t token, bool seen,
                       float unseen)
{
    float scale = seen ? (check_below(g, 20) ? 0.02f * fabsf(check_float(g)) : 0x1p-140f) : unseen;

    if (p->type == I8)
        memcpy((char *)to + token / KERN_TILE * tile_bytes(p) + KERN_TILE * p->dp +
                   token % KERN_TILE * sizeof scale,
               &scale, sizeof scale);
    return scale;
}

static void fill(struct problem *p, struct check_rng *g)
{
    size_t dp = p->dp;

    for (size_t i = 0; i < p->m * dp; i++)
        p->q[i] = i % dp < p->d ? 2 * check_float(g) : 0.0f;
    for (size_t t = 0; t < p->tiles * KERN_TILE; t++) {
        bool seen = is_seen(p, (int32_t)t);
        float huge = check_below(g, 2) ? 3e38f : -3e38f, key = check_below(g, 2) ? 1e30f : NAN;
        float k_scale = put_scale(p, g, p->k_in, t, seen, isnan(key) ? key : huge),
              v_scale = put_scale(p, g, p->v_in, t, seen, huge);

        for (size_t d = 0; d < dp; d++) {
            size_t tile = t / KERN_TILE, in = t % KERN_TILE;
            size_t n = p->type == BF16 ? 2 : p->type == I8 ? 4 : 1; /* elements of a lane */
            size_t k_at = (d / n * KERN_TILE + in) * n + d % n, v_at = (in / n * dp + d) * n + in % n;
            float k = seen ? 2 * check_float(g) : key, v = seen ? check_float(g) : -1e30f;

            p->k[t * dp + d] = put(p, p->k_in, tile, k_at, d < p->d ? k : 0.0f, k_scale);
            p->v[t * dp + d] = put(p, p->v_in, tile, v_at, d < p->d ? v : 0.0f, v_scale);
        }
    }
    for (size_t t = 0; t < p->tiles; t++) {
        p->k_tile[t] = (const char *)p->k_in + t * tile_bytes(p);
        p->v_tile[t] = (const char *)p->v_in + t * tile_bytes(p);
    }
}

static void make(struct problem *p, struct check_rng *g, enum type type, size_t m, size_t d, size_t tiles,
                 enum view view)
{
    size_t n;

    *p = (struct problem){.m = m, .d = d, .dp = (d + 15) / 16 * 16, .tiles = tiles, .type = type};
    p->scale = 1 / sqrtf((float)d);
    p->softcap = check_below(g, 4) ? 0 : 5.0f;
    n = tiles * KERN_TILE * p->dp;
    p->q = take(m * p->dp * 4);
    p->k = take(n * 4);
    p->v = take(n * 4);
    p->k_in = take(tiles * tile_bytes(p));
    p->v_in = take(tiles * tile_bytes(p));
    set_view(p, g, view);
    fill(p, g);
}

static void drop(struct problem *p)
{
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->k_in);
    free(p->v_in);
}

static void (*kernel_of(const struct problem *p, const struct kern *k))(const struct kern_attn *a)
{
    return p->type == BF16 ? k->attn_bf16 : p->type == I8 ? k->attn_i8 : k->attn_f32;
}

static bool has_row(const struct problem *p, const struct rows *r)
{
    return kernel_of(p, &r->k) != NULL;
}

static enum kern_fn fn_of(const struct problem *p)
{
    return p->type == BF16 ? KERN_FN_attn_bf16 : p->type == I8 ? KERN_FN_attn_i8 : KERN_FN_attn_f32;
}

/* Computes the rows [r, r + m) of the problem into the same rows of OUT. */
static void run(const struct problem *p, const struct kern *k, size_t r, size_t m, struct result *out)
{
    struct kern_attn a = {
        .q = p->q + r * p->dp,
        .k_tile = p->k_tile,
        .v_tile = p->v_tile,
        .lo = p->lo + r,
        .hi = p->hi + r,
        .out = out->out + r * p->dp,
        .max = out->max + r,
        .sum = out->sum + r,
        .scratch = scratch,
        .m = m,
        .dp = p->dp,
        .n_tiles = p->tiles,
        .scale = p->scale,
        .softcap = p->softcap,
        .next = p->k_tile, /* This hint must not change anything. */
        .n_next = m % 2 ? p->tiles : 0,
    };

    for (size_t i = 0; i < SCRATCH; i++)
        scratch[i] = NAN;
    for (size_t i = 0; i < m; i++)
        a.max[i] = a.sum[i] = NAN;
    for (size_t i = 0; i < m * p->dp; i++)
        a.out[i] = NAN;
    kernel_of(p, k)(&a);
}

static void check_results(const struct problem *p, const struct result *got, const struct result *want,
                          const char *name)
{
    char text[160];

    snprintf(text, sizeof text, "%s %s m=%zu d=%zu tiles=%zu softcap=%g", name, kern_name(fn_of(p)), p->m,
             p->d, p->tiles, (double)p->softcap);
    check_same(got->max, want->max, p->m, "%s: max", text);
    check_same(got->sum, want->sum, p->m, "%s: sum", text);
    check_same(got->out, want->out, p->m * p->dp, "%s: out", text);
}

static double value_scale(const struct problem *p, size_t token)
{
    float scale;

    memcpy(&scale,
           (const char *)p->v_tile[token / KERN_TILE] + KERN_TILE * p->dp + token % KERN_TILE * sizeof scale,
           sizeof scale);
    return (double)scale;
}

/* Compares row R with an oracle in double precision, within the error of fp32. The error of a score comes
 * from its dot of D products, its scaling and its cap; that of a weight from its score, the maximum and exp;
 * that of the output from its weights (8 bits in bf16) and the sum over tokens. Bf16 dots round q, an error
 * of up to 2^-8. Int8 rounds a score and a weight once more, and products below 2^-120 may vanish. Int8 dots
 * have an error of 2^-8 of the largest q of the row in each product, and of 2^-9 of its largest weight. */
static void compare_row_with_oracle(const struct problem *p, const struct result *got, size_t r,
                                    const char *class, const char *name)
{
    bool rounded = strncmp(class, "bf16 ", 5) == 0, whole = strcmp(class, "int8 dot") == 0;
    double most_q = 0, most_w = 0;
    double s[KERN_CHUNK], max = -INFINITY, sum = 0, sum_err, wrong = 0, want[MOST_D], tolerance[MOST_D];
    size_t n = 0;

    for (size_t d = 0; d < p->d; d++)
        most_q = fmax(most_q, fabs((double)p->q[r * p->dp + d]));
    for (int32_t j = p->lo[r]; j < p->hi[r]; j++, n++) {
        double dot = 0, magnitude = 0, keys = 0, e;

        for (size_t d = 0; d < p->d; d++) {
            double x = (double)p->q[r * p->dp + d] * (double)p->k[(size_t)j * p->dp + d];

            dot += x;
            magnitude += fabs(x);
            keys += fabs((double)p->k[(size_t)j * p->dp + d]);
        }
        s[j] = (double)p->scale * dot;
        e = CHECK_U * (double)p->scale * ((double)p->d + (p->type == I8 ? 3 : 1)) * magnitude;
        e += rounded ? 0x1p-8 * (double)p->scale * magnitude : 0;
        e += whole ? 0x1.03p-8 * (double)p->scale * most_q * keys : 0;
        if (p->softcap > 0)
            s[j] = (double)p->softcap * tanh(s[j] / (double)p->softcap);
        e += 10 * CHECK_U * fabs(s[j]);
        wrong = e > wrong ? e : wrong;
        max = s[j] > max ? s[j] : max;
    }
    for (int32_t j = p->lo[r]; j < p->hi[r]; j++) {
        sum += exp(s[j] - max);
        if (whole)
            most_w = fmax(most_w, exp(s[j] - max) * value_scale(p, (size_t)j));
    }
    sum_err = sum * (2.02 * wrong + 40 * CHECK_U);
    want[0] = max;
    tolerance[0] = wrong + 1e-37;
    check_near(&got->max[r], want, tolerance, 1, "%s: max of row %zu", name, r);
    want[0] = sum;
    tolerance[0] = sum_err + 1e-30;
    check_near(&got->sum[r], want, tolerance, 1, "%s: sum of row %zu", name, r);
    for (size_t d = 0; d < p->dp; d++) {
        double out = 0, magnitude = 0;

        for (int32_t j = p->lo[r]; j < p->hi[r]; j++) {
            double x = exp(s[j] - max) * (double)p->v[(size_t)j * p->dp + d];

            out += x;
            magnitude += fabs(x);
        }
        want[d] = out;
        tolerance[d] =
            magnitude * (2.02 * wrong + CHECK_U * (double)(n + 10) + (p->type == BF16 ? 0x1p-8 : 0)) +
            0x1.02p-9 * most_w * 128 * (double)n + 1e-36;
    }
    check_near(got->out + r * p->dp, want, tolerance, p->dp, "%s: out of row %zu", name, r);
}

static void compare_with_oracle(const struct problem *p, const struct result *got, const struct rows *row)
{
    char name[160];

    snprintf(name, sizeof name, "%s %s m=%zu d=%zu tiles=%zu softcap=%g", row->name, kern_name(fn_of(p)),
             p->m, p->d, p->tiles, (double)p->softcap);
    for (size_t r = 0; r < p->m; r++)
        if (p->lo[r] < p->hi[r])
            compare_row_with_oracle(p, got, r, row->class[fn_of(p)], name);
}

static void rows_that_see_nothing_are_empty(const struct problem *p, const struct result *got,
                                            const char *name)
{
    static const float zero[MOST_D];

    for (size_t r = 0; r < p->m; r++)
        if (p->lo[r] >= p->hi[r]) {
            assert_true(got->max[r] == -INFINITY);
            assert_true(got->sum[r] == 0);
            check_same(got->out + r * p->dp, zero, p->dp, "%s, row %zu sees nothing", name, r);
        }
}

static struct result want, got, alone;

static void compare_rows(const struct problem *p, bool oracle_too)
{
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);

    run(p, &list[0].k, 0, p->m, &want);
    for (size_t i = 0; i < n; i++) {
        if (!has_row(p, &list[i]))
            continue;
        run(p, &list[i].k, 0, p->m, &got);
        rows_that_see_nothing_are_empty(p, &got, list[i].name);
        if (rows_equal_ref(&list[i], fn_of(p)))
            check_results(p, &got, &want, list[i].name);
        if (oracle_too && (i == 0 || !rows_equal_ref(&list[i], fn_of(p))))
            compare_with_oracle(p, &got, &list[i]);
    }
}

static void compare_shape(struct check_rng *g, size_t m, size_t d, size_t tiles, enum view view,
                          bool oracle_too)
{
    for (enum type type = F32; type < N_TYPES; type++) {
        struct problem p;

        make(&p, g, type, m, d, tiles, view);
        compare_rows(&p, oracle_too);
        drop(&p);
    }
}

static void rows_of_a_class_give_equal_bits(void **state)
{
    struct check_rng g = {11};

    for (size_t m = 1; m <= 30; m++)
        for (enum view v = FULL; v < N_VIEWS; v++)
            compare_shape(&g, m, 1 + check_below(&g, 130), 1 + check_below(&g, KERN_CHUNK_TILES), v, false);
    for (size_t tiles = 1; tiles <= KERN_CHUNK_TILES; tiles++)
        for (size_t m = 1; m <= 6; m++)
            compare_shape(&g, m, 16 + check_below(&g, 17), tiles, (enum view)check_below(&g, N_VIEWS), false);
}

static void large_heads_and_many_rows_give_equal_bits(void **state)
{
    static const size_t shapes[][3] = {
        {1, 256, 16}, {8, 256, 16}, {24, 240, 5}, {5, 272, 3},  {30, 264, 2},  {3, 512, 4},   {25, 512, 3},
        {60, 64, 4},  {49, 128, 7}, {7, 272, 16}, {8, 512, 15}, {14, 272, 16}, {24, 320, 13},
    };
    struct check_rng g = {12};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (enum view v = FULL; v <= RANDOM; v++)
            compare_shape(&g, shapes[i][0], shapes[i][1], shapes[i][2], v, false);
}

static void results_are_as_near_as_their_type_allows(void **state)
{
    struct check_rng g = {13};

    for (int trial = 0; trial < 40; trial++)
        compare_shape(&g, 1 + check_below(&g, 30), 1 + check_below(&g, 200),
                      1 + check_below(&g, KERN_CHUNK_TILES), (enum view)check_below(&g, N_VIEWS), true);
}

static void a_row_alone_equals_the_row_in_company(void **state)
{
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);
    struct check_rng g = {14};

    for (int trial = 0; trial < 21; trial++)
        for (size_t i = 0; i < n; i++) {
            struct problem p;

            make(&p, &g, (enum type)(trial % N_TYPES), KERN_ATTN_ROWS - check_below(&g, 3),
                 1 + check_below(&g, 130), 1 + check_below(&g, KERN_CHUNK_TILES),
                 (enum view)check_below(&g, N_VIEWS));
            if (has_row(&p, &list[i])) {
                run(&p, &list[i].k, 0, p.m, &want);
                for (size_t r = 0; r < p.m; r++)
                    run(&p, &list[i].k, r, 1, &alone);
                check_results(&p, &alone, &want, list[i].name);
            }
            drop(&p);
        }
}

/* The same rows with all sixteen tiles: the tiles that no row sees add nothing. */
static void tiles_that_nobody_sees_change_nothing(void **state)
{
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);
    struct check_rng g = {15};

    for (int trial = 0; trial < 18; trial++)
        for (size_t i = 0; i < n; i++) {
            struct problem p;

            make(&p, &g, (enum type)(trial % N_TYPES), 1 + check_below(&g, 24), 1 + check_below(&g, 100),
                 1 + check_below(&g, 8), (enum view)check_below(&g, N_VIEWS));
            if (has_row(&p, &list[i])) {
                run(&p, &list[i].k, 0, p.m, &want);
                for (size_t t = p.tiles; t < KERN_CHUNK_TILES; t++) {
                    p.k_tile[t] = p.k_tile[t % p.tiles];
                    p.v_tile[t] = p.v_tile[t % p.tiles];
                }
                p.tiles = KERN_CHUNK_TILES;
                run(&p, &list[i].k, 0, p.m, &got);
                check_results(&p, &got, &want, list[i].name);
            }
            drop(&p);
        }
}

/* Products of weights and values that underflow leave zeros of either sign in the sums. */
static void zeros_have_one_sign_in_company_and_alone(void **state)
{
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);
    struct check_rng g = {16};

    for (size_t i = 0; i < n; i++)
        for (enum type type = F32; type < N_TYPES; type++) {
            struct problem p;

            make(&p, &g, type, KERN_ATTN_ROWS, 32, 6, WINDOW);
            for (size_t t = 0; t < p.tiles * KERN_TILE; t++)
                for (size_t d = 0; d < p.dp; d++) {
                    static const float tiny[N_TYPES] = {0x1p-148f, 0x1p-128f, 1};
                    float x = check_below(&g, 2) ? tiny[type] : -tiny[type];

                    put(&p, p.v_in, t / KERN_TILE, t % KERN_TILE * p.dp + d, x, 1);
                }
            for (size_t t = 0; t < p.tiles && type == I8; t++)
                for (size_t j = 0; j < KERN_TILE; j++) {
                    float scale = check_below(&g, 2) ? 0x1p-149f : -0x1p-149f;

                    memcpy((char *)p.v_in + t * tile_bytes(&p) + KERN_TILE * p.dp + 4 * j, &scale, 4);
                }
            if (has_row(&p, &list[i])) {
                run(&p, &list[i].k, 0, p.m, &want);
                for (size_t r = 0; r < p.m; r++)
                    run(&p, &list[i].k, r, 1, &alone);
                check_results(&p, &alone, &want, list[i].name);
                for (size_t j = 0; j < p.m * p.dp; j++)
                    assert_false(want.out[j] == 0 && signbit(want.out[j]));
            }
            drop(&p);
        }
}

/* Makes the key of TOKEN NaN, as the cache marks a token: an element, or the scale. */
static void spoil(struct problem *p, size_t token)
{
    static const uint32_t nan = 0x7fc07fc0;
    size_t at = p->type == I8 ? KERN_TILE * p->dp : 0;

    memcpy((char *)p->k_in + token / KERN_TILE * tile_bytes(p) + at + token % KERN_TILE * 4, &nan, 4);
}

/* Rows that see a key of NaN get NaN, whatever else they see, in this chunk or in others; the other rows of the call do
 * not change. */
static void a_key_of_nan_is_overlooked_or_seen_by_others(void **state)
{
    static float o[MOST_D], out[MOST_D], other[MOST_D];
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list), n_nan = 0, n_clean = 0;
    struct check_rng g = {17};

    for (int trial = 0; trial < 60; trial++)
        for (size_t i = 0; i < n; i++) {
            size_t token, tiles = 1 + check_below(&g, KERN_CHUNK_TILES);
            struct problem p;

            make(&p, &g, (enum type)(trial % N_TYPES), 1 + check_below(&g, 24), 1 + check_below(&g, 100),
                 tiles, (enum view)check_below(&g, N_VIEWS));
            token = check_below(&g, p.tiles * KERN_TILE);
            if (has_row(&p, &list[i])) {
                run(&p, &list[i].k, 0, p.m, &want);
                spoil(&p, token);
                run(&p, &list[i].k, 0, p.m, &got);
            }
            for (size_t r = 0; r < p.m && has_row(&p, &list[i]); r++) {
                bool sees = p.lo[r] <= (int32_t)token && (int32_t)token < p.hi[r];
                const struct kern *k = &list[list[i].k.attn_fold ? i : 0].k;
                float *row = got.out + r * p.dp, m = -INFINITY, l = 0;

                if (!sees) {
                    check_same(&got.max[r], &want.max[r], 1, "%s: max of row %zu", list[i].name, r);
                    check_same(&got.sum[r], &want.sum[r], 1, "%s: sum of row %zu", list[i].name, r);
                    check_same(row, want.out + r * p.dp, p.dp, "%s: out of row %zu", list[i].name, r);
                    n_clean++;
                    continue;
                }
                n_nan++;
                assert_true(isnan(got.sum[r]));
                for (int last = 0; last < 2;
                     last++) { /* the chunk is folded before another one, and behind it */
                    m = -INFINITY;
                    l = 0;
                    memset(o, 0, sizeof(o));
                    if (!last)
                        k->attn_fold(&m, &l, o, got.max[r], got.sum[r], row, p.dp);
                    k->attn_fold(&m, &l, o, 1, 1, other, p.dp);
                    if (last)
                        k->attn_fold(&m, &l, o, got.max[r], got.sum[r], row, p.dp);
                    k->attn_finish(out, o, l, p.dp);
                    for (size_t d = 0; d < p.dp; d++)
                        if (!isnan(out[d]))
                            fail_msg("%s %s: dim %zu of row %zu is %g", list[i].name, kern_name(fn_of(&p)), d,
                                     r, (double)out[d]);
                }
            }
            drop(&p);
        }
    assert_true(n_nan > 100 && n_clean > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_class_give_equal_bits),
        cmocka_unit_test(large_heads_and_many_rows_give_equal_bits),
        cmocka_unit_test(results_are_as_near_as_their_type_allows),
        cmocka_unit_test(a_row_alone_equals_the_row_in_company),
        cmocka_unit_test(tiles_that_nobody_sees_change_nothing),
        cmocka_unit_test(zeros_have_one_sign_in_company_and_alone),
        cmocka_unit_test(a_key_of_nan_is_overlooked_or_seen_by_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
