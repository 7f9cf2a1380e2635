/* test_vec.c - norms, RoPE, activations, conversions, reductions and the joining of chunks: the bits of ref
 * in every kernel, and ref against double precision.
 *
 * Lengths cover every tail, vectors begin at odd addresses, and a mark after each output must survive.
 */
#include <float.h>
#include <math.h>
#include <sys/mman.h>

#include "check.h"
#include "kern/kern.h"
#include "rows.h"
#include "tensor/dtype.h"

enum { MOST = 1100, AFTER = 4 };

static const float mark = 12345.0f;
static const uint16_t mark16 = 0x1234;

static struct rows list[ROWS_MAX];
static size_t n_rows;

/* A vector that ends at the end of a page, with no page after it, so that masked loads beyond it are caught
 * as well. */
struct vec {
    float *x;
    char *page;
    size_t bytes;
};

static struct vec vec_new(struct check_rng *g, size_t n)
{
    const size_t page = 4096, used = (n * sizeof(float) + page - 1) / page * page;
    struct vec v = {.bytes = used + page};

    v.page = mmap(NULL, v.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(v.page != MAP_FAILED);
    assert_int_equal(mprotect(v.page + used, page, PROT_NONE), 0);
    v.x = (float *)(v.page + used) - n;
    check_fill(g, v.x, n);
    return v;
}

static void vec_free(struct vec *v)
{
    munmap(v->page, v->bytes);
}

/* Puts numbers that are hard for arithmetic at random places. */
static void make_special(struct check_rng *g, float *x, size_t n)
{
    static const float special[] = {0.0f,           -0.0f,      INFINITY,   -INFINITY, NAN,
                                    0x1p-149f,      -0x1p-130f, 3e38f,      -3e38f,    88.72f,
                                    88.73f,         -86.98f,    -87.001f,   -100.0f,   1e-20f,
                                    0x1.fffffep-8f, 1.4142134f, 1.4142135f, 1.4142137f};

    for (size_t i = 0; i < n; i++)
        x[i] = check_below(g, 3) ? x[i] * 40 : special[check_below(g, sizeof special / sizeof *special)];
}

static size_t length(size_t trial)
{
    static const size_t large[] = {128, 200, 255, 256, 512, 777, 1024, 1031};

    return trial < 70 ? trial : large[trial - 70];
}

enum { N_LENGTHS = 78 };

/* The outputs of a call: a float or bf16 vector followed by the mark, and x if it was written. */
struct out {
    float f[MOST + AFTER], x[MOST + AFTER];
    uint16_t h[MOST + AFTER];
};

static struct out want, got;

static void out_clear(struct out *o, const float *x, size_t n)
{
    for (size_t i = 0; i < MOST + AFTER; i++) {
        o->f[i] = o->x[i] = mark;
        o->h[i] = mark16;
    }
    memcpy(o->x, x, n * sizeof *x);
}

static void out_compare(size_t n, const char *rows, const char *fn, bool bf16)
{
    check_same(got.f, want.f, n + AFTER, "%s %s n=%zu bf16=%d: out", rows, fn, n, bf16);
    check_same(got.x, want.x, n + AFTER, "%s %s n=%zu bf16=%d: x", rows, fn, n, bf16);
    check_same_bf16(got.h, want.h, n + AFTER, "%s %s n=%zu bf16=%d: out", rows, fn, n, bf16);
    assert_int_equal(want.h[n], mark16);
    assert_true(want.f[n] == mark);
}

/* Runs CALL, with the outputs `o` and the kernels `k`, for ref and then for each table that has FN, and
 * compares. */
#define EACH_ROW(FN, N, BF16, X, CALL)                 \
    for (size_t row = 0; row < n_rows; row++) {        \
        struct out *o = row == 0 ? &want : &got;       \
        const struct kern *k = &list[row].k;           \
        if (!k->FN)                                    \
            continue;                                  \
        out_clear(o, X, N);                            \
        CALL;                                          \
        if (row > 0)                                   \
            out_compare(N, list[row].name, #FN, BF16); \
    }

static void norms_give_equal_bits(void **state)
{
    struct check_rng g = {21};

    for (size_t trial = 1; trial < N_LENGTHS; trial++)
        for (int kind = 0; kind < 8; kind++) {
            size_t n = length(trial);
            struct vec x = vec_new(&g, n), r = vec_new(&g, n), w = vec_new(&g, n), b = vec_new(&g, n);
            const float *with_r = kind & 1 ? r.x : NULL, *with_w = kind & 2 ? w.x : NULL,
                        *with_b = kind & 4 ? b.x : NULL;

            EACH_ROW(rms_norm, n, false, x.x, k->rms_norm(o->f, o->x, with_r, with_w, n, 1e-5f));
            EACH_ROW(layer_norm, n, false, x.x, k->layer_norm(o->f, o->x, with_r, with_w, with_b, n, 1e-5f));
            EACH_ROW(rms_norm, n, false, x.x, k->rms_norm(o->x, o->x, with_r, with_w, n, 1e-5f));
            EACH_ROW(layer_norm, n, false, x.x, k->layer_norm(o->x, o->x, with_r, with_w, with_b, n, 1e-5f));
            vec_free(&x);
            vec_free(&r);
            vec_free(&w);
            vec_free(&b);
        }
}

static void norms_agree_with_double_precision(void **state)
{
    struct check_rng g = {22};

    for (size_t trial = 1; trial < N_LENGTHS; trial++) {
        size_t n = length(trial);
        struct vec x = vec_new(&g, n), w = vec_new(&g, n), b = vec_new(&g, n);
        double mean = 0, square = 0, var = 0, most = 0, exact[MOST], tolerance[MOST], inv,
               few = (double)(n / 16 + 10);

        for (size_t i = 0; i < n; i++) {
            mean += (double)x.x[i] / (double)n;
            square += (double)x.x[i] * (double)x.x[i] / (double)n;
            most = fmax(most, fabs((double)x.x[i]));
        }
        for (size_t i = 0; i < n; i++)
            var += ((double)x.x[i] - mean) * ((double)x.x[i] - mean) / (double)n;
        inv = 1 / sqrt(square + (double)1e-5f);
        for (size_t i = 0; i < n; i++) {
            exact[i] = (double)w.x[i] * (double)x.x[i] * inv;
            tolerance[i] = fabs(exact[i]) * few * CHECK_U;
        }
        list[0].k.rms_norm(want.f, x.x, NULL, w.x, n, 1e-5f);
        check_near(want.f, exact, tolerance, n, "rms_norm n=%zu", n);
        inv = 1 / sqrt(var + (double)1e-5f);
        for (size_t i = 0; i < n; i++) {
            exact[i] = ((double)x.x[i] - mean) * inv * (double)w.x[i] + (double)b.x[i];
            tolerance[i] = 4 * few * CHECK_U * (most * inv * (1 + most * most * inv * inv) + fabs(exact[i]));
        }
        list[0].k.layer_norm(want.f, x.x, NULL, w.x, b.x, n, 1e-5f);
        check_near(want.f, exact, tolerance, n, "layer_norm n=%zu", n);
        vec_free(&x);
        vec_free(&w);
        vec_free(&b);
    }
}

static void elementwise_kernels_give_equal_bits(void **state)
{
    struct check_rng g = {23};

    for (size_t trial = 0; trial < N_LENGTHS; trial++)
        for (int special = 0; special < 2; special++) {
            size_t n = length(trial);
            struct vec x = vec_new(&g, n), y = vec_new(&g, n);
            float a = check_float(&g);

            if (special)
                make_special(&g, x.x, n);
            EACH_ROW(add, n, false, x.x, k->add(o->x, y.x, n));
            EACH_ROW(scale, n, false, x.x, k->scale(o->x, a, n));
            EACH_ROW(scale_add, n, false, y.x, k->scale_add(o->x, x.x, a, n));
            EACH_ROW(softcap, n, false, x.x, k->softcap(o->x, special ? 0.3f : 30, n));
            EACH_ROW(to_bf16, n, true, x.x, k->to_bf16(o->h, x.x, n));
            EACH_ROW(attn_finish, n, false, x.x, k->attn_finish(o->f, x.x, 3.7f, n));
            EACH_ROW(attn_finish, n, false, x.x, k->attn_finish(o->x, x.x, 0.0f, n));
            vec_free(&x);
            vec_free(&y);
        }
}

static void activations_give_equal_bits(void **state)
{
    struct check_rng g = {24};

    for (size_t trial = 0; trial < N_LENGTHS; trial++)
        for (enum kern_act f = KERN_SILU; f < KERN_N_ACTS; f++)
            for (int special = 0; special < 2; special++) {
                size_t n = length(trial);
                struct vec x = vec_new(&g, n), up = vec_new(&g, n);

                if (special)
                    make_special(&g, x.x, n);
                EACH_ROW(act, n, false, x.x, k->act(o->f, x.x, n, f));
                EACH_ROW(act, n, false, x.x, k->act(o->x, o->x, n, f));
                EACH_ROW(glu, n, false, x.x, k->glu(o->f, x.x, up.x, n, f));
                EACH_ROW(glu, n, false, x.x, k->glu(o->x, o->x, up.x, n, f));
                vec_free(&x);
                vec_free(&up);
            }
}

static void every_exponent_is_rounded_to_bf16_alike(void **state)
{
    for (uint32_t high = 0; high < 0x10000; high += 64) {
        float x[64 * 4];

        for (uint32_t i = 0; i < 64 * 4; i++) {
            static const uint32_t low[] = {0, 0x7fff, 0x8000, 0x8001};
            uint32_t u = (high + i / 4) << 16 | low[i % 4];

            memcpy(&x[i], &u, 4);
        }
        EACH_ROW(to_bf16, 64 * 4, true, x, k->to_bf16(o->h, x, 64 * 4));
        for (uint32_t i = 0; i < 64 * 4; i++)
            assert_int_equal(want.h[i], dtype_f32_to_bf16(x[i]));
    }
}

/* Compares one call of to_i8, with marks after its outputs, with the definition in double precision. */
static void quantise(const struct kern *k, const char *row, const float *x, size_t n)
{
    int8_t bytes[MOST + 1], want_bytes[MOST + 1];
    float scale = mark, want_scale = mark;

    memset(bytes, 99, sizeof bytes);
    memset(want_bytes, 99, sizeof want_bytes);
    list[0].k.to_i8(want_bytes, &want_scale, x, n);
    k->to_i8(bytes, &scale, x, n);
    check_same(&scale, &want_scale, 1, "%s to_i8 n=%zu: scale", row, n);
    if (memcmp(bytes, want_bytes, sizeof bytes) != 0)
        fail_msg("%s to_i8 n=%zu: bytes differ", row, n);
    assert_int_equal(bytes[n], 99);
}

static void quantised_rows_are_equal_and_within_half_a_step(void **state)
{
    struct check_rng g = {29};

    for (size_t trial = 0; trial < N_LENGTHS; trial++)
        for (int kind = 0; kind < 4; kind++) {
            size_t n = length(trial);
            struct vec x = vec_new(&g, n);
            int8_t bytes[MOST];
            float scale, m = 0;

            if (kind == 1)
                make_special(&g, x.x, n);
            for (size_t i = 0; i < n && kind == 2; i++) /* These are halves between integers. */
                x.x[i] = ((float)check_below(&g, 254) - 126.5f) / 127 * 4;
            for (size_t i = 0; i < n && kind == 3; i++)
                x.x[i] *= 0x1p-110f;
            if (n > 0 && kind == 2)
                x.x[check_below(&g, n)] = 4;
            for (size_t row = 0; row < n_rows; row++)
                if (list[row].k.to_i8)
                    quantise(&list[row].k, list[row].name, x.x, n);
            for (size_t i = 0; i < n; i++)
                m = fmaxf(m, fabsf(x.x[i]));
            list[0].k.to_i8(bytes, &scale, x.x, n);
            for (size_t i = 0; i < n && kind != 1; i++) {
                double y = (double)x.x[i] * 127 / (double)m;

                if (m > 0)
                    assert_true(fabs(y - bytes[i]) <= 0.5 + 1e-4);
                assert_true(fabs((double)scale * 127 - (double)m) <= (double)m * 2 * CHECK_U);
            }
            vec_free(&x);
        }
}

static void quantisation_of_zeros_tiny_and_boundless_numbers_is_defined(void **state)
{
    static const struct {
        float x[3], scale;
        int8_t want[3];
    } cases[] = {
        {{0, -0.0f, 0}, 0, {0, 0, 0}},
        {{0x1p-149f, -0x1p-126f, 0x1p-122f}, 0, {0, 0, 0}},
        {{0x1p-120f, -0x1p-121f, 0}, 0x1p-120f / 127, {127, -64, 0}},
        {{127, -127, 0.5f}, 1, {127, -127, 0}},
        {{1.5f, -2.5f, 127}, 1, {2, -2, 127}},
        {{3e38f, -3e38f, 1}, 3e38f / 127, {127, -127, 0}},
    };

    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = 0; list[row].k.to_i8 && i < sizeof cases / sizeof *cases; i++) {
            int8_t bytes[3];
            float scale;

            list[row].k.to_i8(bytes, &scale, cases[i].x, 3);
            check_same(&scale, &cases[i].scale, 1, "%s to_i8 of case %zu: scale", list[row].name, i);
            for (int j = 0; j < 3; j++)
                assert_int_equal(bytes[j], cases[i].want[j]);
        }
}

static void rotary_pairs_give_equal_bits_and_rotate(void **state)
{
    struct check_rng g = {25};

    for (size_t half = 0; half <= 128; half++) {
        struct vec x = vec_new(&g, 2 * half), c = vec_new(&g, half), s = vec_new(&g, half);
        double exact[MOST], tolerance[MOST];

        for (size_t i = 0; i < half; i++) {
            double angle = 7 * (double)check_float(&g);

            c.x[i] = (float)cos(angle);
            s.x[i] = (float)sin(angle);
        }
        for (int pairs = 0; pairs < 2; pairs++) {
            if (pairs) {
                EACH_ROW(rope_pair, 2 * half, false, x.x, k->rope_pair(o->x, c.x, s.x, half));
            } else {
                EACH_ROW(rope_half, 2 * half, false, x.x, k->rope_half(o->x, c.x, s.x, half));
            }
            for (size_t i = 0; i < half; i++) {
                size_t one = pairs ? 2 * i : i, two = pairs ? 2 * i + 1 : i + half;
                double x1 = (double)x.x[one], x2 = (double)x.x[two], co = (double)c.x[i], si = (double)s.x[i];

                exact[one] = x1 * co - x2 * si;
                exact[two] = x1 * si + x2 * co;
                tolerance[one] = tolerance[two] = 2 * CHECK_U * (fabs(x1) + fabs(x2));
            }
            check_near(want.x, exact, tolerance, 2 * half, "rope half=%zu pairs=%d", half, pairs);
        }
        vec_free(&x);
        vec_free(&c);
        vec_free(&s);
    }
}

/* Draws from X by kernel table ROW and by the first one: for tokens in sequence, and for others. */
static void check_draws(size_t row, const float *x, size_t n)
{
    int32_t *id = malloc(n * sizeof(*id));

    assert_non_null(id);
    for (size_t i = 0; i < n; i++)
        id[i] = (int32_t)(7 * i + 3);
    for (uint32_t t = 0; t < 20; t++) {
        const uint32_t key[2] = {t * 0x9e3779b9u, t << 28};

        for (int listed = 0; listed < 2; listed++) {
            size_t at = list[row].k.gumbel_argmax(x, n, listed ? id : NULL, key);
            size_t first = list[0].k.gumbel_argmax(x, n, listed ? id : NULL, key);

            if (at != first)
                fail_msg("%s gumbel_argmax n=%zu draws %zu, expected %zu", list[row].name, n, at, first);
        }
    }
    free(id);
}

static void reductions_give_equal_bits(void **state)
{
    struct check_rng g = {26};

    for (size_t trial = 0; trial < N_LENGTHS; trial++)
        for (int kind = 0; kind < 3; kind++) {
            size_t n = length(trial);
            struct vec v = vec_new(&g, n);
            float max, sum, dot;

            if (kind == 1)
                make_special(&g, v.x, n);
            for (size_t i = 0; i < n && kind == 2; i++)
                v.x[i] = check_below(&g, 2) ? 0.0f : -0.0f;
            max = list[0].k.max(v.x, n);
            sum = list[0].k.exp_sum(v.x, n, 0.25f);
            dot = list[0].k.exp_dot(v.x, n, 0.25f);
            for (size_t row = 1; row < n_rows; row++) {
                const struct kern *k = &list[row].k;
                float y;

                if (k->max) {
                    y = k->max(v.x, n);
                    check_same(&y, &max, 1, "%s max n=%zu", list[row].name, n);
                }
                if (k->exp_sum) {
                    y = k->exp_sum(v.x, n, 0.25f);
                    check_same(&y, &sum, 1, "%s exp_sum n=%zu", list[row].name, n);
                }
                if (k->exp_dot) {
                    y = k->exp_dot(v.x, n, 0.25f);
                    check_same(&y, &dot, 1, "%s exp_dot n=%zu", list[row].name, n);
                }
                if (k->gumbel_argmax && n > 0)
                    check_draws(row, v.x, n);
                if (k->argmax && n > 0 && k->argmax(v.x, n) != list[0].k.argmax(v.x, n))
                    fail_msg("%s argmax n=%zu is %zu, expected %zu", list[row].name, n, k->argmax(v.x, n),
                             list[0].k.argmax(v.x, n));
            }
            vec_free(&v);
        }
}

static void argmax_is_the_first_of_equals_and_shuns_nan(void **state)
{
    static const struct {
        float x[5];
        size_t want;
    } cases[] = {
        {{1, 3, 2, 3, 3}, 1},
        {{-0.0f, 0, 0, -1, 0}, 0},
        {{NAN, -INFINITY, NAN, -INFINITY, NAN}, 1},
        {{NAN, NAN, NAN, NAN, NAN}, 0},
        {{NAN, 1, NAN, 2, NAN}, 3},
        {{-3, -2, -5, INFINITY, INFINITY}, 3},
    };

    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = 0; list[row].k.argmax && i < sizeof cases / sizeof *cases; i++)
            for (size_t pad = 0; pad < 40; pad++) {
                float x[45];

                for (size_t j = 0; j < pad; j++)
                    x[j] = NAN;
                memcpy(x + pad, cases[i].x, sizeof cases[i].x);
                assert_int_equal(list[row].k.argmax(x, pad + 5), i == 3 ? 0 : cases[i].want + pad);
            }
}

static void maximum_of_nothing_is_minus_infinity_and_zero_is_positive(void **state)
{
    float nan[20], zero[20];

    for (int i = 0; i < 20; i++) {
        nan[i] = NAN;
        zero[i] = -0.0f;
    }
    for (size_t row = 0; row < n_rows; row++) {
        if (!list[row].k.max)
            continue;
        assert_true(list[row].k.max(nan, 0) == -INFINITY);
        assert_true(list[row].k.max(nan, 20) == -INFINITY);
        for (size_t n = 1; n <= 20; n++)
            assert_false(signbit(list[row].k.max(zero, n)));
    }
}

static void a_token_that_cannot_be_chosen_adds_nothing(void **state)
{
    static const float x[] = {0, -INFINITY, -1, -200, -FLT_MAX};

    for (size_t row = 0; row < n_rows; row++)
        for (size_t n = 1; list[row].k.exp_dot && n <= 5; n++)
            assert_true(fabsf(list[row].k.exp_dot(x, n, 0) - (n > 2 ? -0.36787944f : 0)) < 1e-7f);
}

static void sums_of_exponentials_agree_with_double_precision(void **state)
{
    struct check_rng g = {27};

    for (size_t trial = 0; trial < N_LENGTHS; trial++) {
        size_t n = length(trial);
        struct vec v = vec_new(&g, n);
        double exact = 0, tolerance;
        float y;

        for (size_t i = 0; i < n; i++) {
            v.x[i] *= 20;
            exact += exp((double)v.x[i] - 20);
        }
        tolerance = exact * ((double)(n / 16) + 5 + 40) * CHECK_U;
        y = list[0].k.exp_sum(v.x, n, 20.0f);
        check_near(&y, &exact, &tolerance, 1, "exp_sum n=%zu", n);
        exact = tolerance = 0;
        for (size_t i = 0; i < n; i++) {
            double d = (double)v.x[i] - 20;

            exact += exp(d) * d;
            tolerance += fabs(exp(d) * d) * ((double)(n / 16) + 5 + 80) * CHECK_U;
        }
        y = list[0].k.exp_dot(v.x, n, 20.0f);
        check_near(&y, &exact, &tolerance, 1, "exp_dot n=%zu", n);
        vec_free(&v);
    }
}

/* The running state of attention, and the chunk that is joined to it. */
static void fold_once(const struct kern *k, struct out *o, float m, float l, const float *x, float m2,
                      float l2, const float *o2, size_t d)
{
    out_clear(o, x, d);
    o->f[0] = m;
    o->f[1] = l;
    k->attn_fold(&o->f[0], &o->f[1], o->x, m2, l2, o2, d);
}

static void folding_gives_equal_bits_and_knows_empty_chunks(void **state)
{
    static const float maxima[] = {-INFINITY, -50.0f, 0.0f, 1.5f, 1.5f, 90.0f};
    struct check_rng g = {28};

    for (size_t d = 2; d < 70; d++)
        for (size_t i = 0; i < 36; i++) {
            struct vec a = vec_new(&g, d), b = vec_new(&g, d);
            float m = maxima[i / 6], m2 = maxima[i % 6], l = i / 6 ? 3.5f : 0, l2 = i % 6 ? 1.25f : 0;

            fold_once(&list[0].k, &want, m, l, a.x, m2, l2, b.x, d);
            if (i % 6 == 0) {
                check_same(want.x, a.x, d, "ref fold of an empty chunk");
                assert_true(want.f[0] == m && want.f[1] == l);
            } else if (i / 6 == 0) {
                check_same(want.x, b.x, d, "ref fold into nothing");
                assert_true(want.f[0] == m2 && want.f[1] == l2);
            } else {
                double n = fmax((double)m, (double)m2), x = exp((double)m - n), y = exp((double)m2 - n);

                assert_true((double)want.f[0] == n);
                assert_true(fabs((double)want.f[1] - ((double)l * x + (double)l2 * y)) <
                            1e-6 * (double)want.f[1]);
                assert_true(fabs((double)want.x[d - 1] - ((double)a.x[d - 1] * x + (double)b.x[d - 1] * y)) <
                            1e-6);
            }
            for (size_t row = 1; row < n_rows; row++) {
                if (!list[row].k.attn_fold)
                    continue;
                fold_once(&list[row].k, &got, m, l, a.x, m2, l2, b.x, d);
                out_compare(d, list[row].name, "attn_fold", false);
            }
            vec_free(&a);
            vec_free(&b);
        }
}

/* Columns have every length, and one of them is missing. A NaN or an infinity at any position of any column
 * is found, and the largest finite number is not taken for one. */
static void packed_words_are_the_columns_and_bad_numbers_are_seen(void **state)
{
    enum { WORDS = 19 };
    static const uint32_t bad[2][4] = {{0x7f800000, 0xff800000, 0x7fc00000, 0xffffffff},
                                       {0x7f800001, 0x0001ff80, 0x7fc00000, 0x0000ffff}},
                          good[2] = {0xff7fffff, 0xff7f7f7f};
    uint32_t column[KERN_NR][WORDS], panel[WORDS * KERN_NR + 1];
    const char *at[KERN_NR];

    for (size_t row = 0; row < n_rows; row++)
        for (size_t n = 0; n <= WORDS && list[row].k.pack_words; n++)
            for (size_t trial = 0; trial < 2 * (n * KERN_NR + 1); trial++) {
                bool bf16 = trial % 2;
                size_t place = trial / 2, c = place % KERN_NR, missing = (c + 5) % KERN_NR;

                for (size_t i = 0; i < KERN_NR * WORDS; i++)
                    column[i / WORDS][i % WORDS] = i % 3 ? (uint32_t)i * 0x10001 : good[bf16];
                for (size_t i = 0; i < KERN_NR; i++)
                    at[i] = i == missing ? NULL : (const char *)column[i];
                if (place < n * KERN_NR)
                    column[c][place / KERN_NR] = bad[bf16][place % 4];
                memset(panel, 0x55, sizeof(panel));
                assert_int_equal(list[row].k.pack_words(panel, at, n, bf16), place == n * KERN_NR);
                for (size_t i = 0; i < n * KERN_NR; i++)
                    assert_int_equal(panel[i], i % KERN_NR == missing ? 0 : column[i % KERN_NR][i / KERN_NR]);
                assert_int_equal(panel[n * KERN_NR], 0x55555555);
            }
}

static int find_rows(void **state)
{
    n_rows = rows_list(list);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_give_equal_bits),
        cmocka_unit_test(norms_agree_with_double_precision),
        cmocka_unit_test(elementwise_kernels_give_equal_bits),
        cmocka_unit_test(activations_give_equal_bits),
        cmocka_unit_test(every_exponent_is_rounded_to_bf16_alike),
        cmocka_unit_test(quantised_rows_are_equal_and_within_half_a_step),
        cmocka_unit_test(quantisation_of_zeros_tiny_and_boundless_numbers_is_defined),
        cmocka_unit_test(rotary_pairs_give_equal_bits_and_rotate),
        cmocka_unit_test(reductions_give_equal_bits),
        cmocka_unit_test(argmax_is_the_first_of_equals_and_shuns_nan),
        cmocka_unit_test(maximum_of_nothing_is_minus_infinity_and_zero_is_positive),
        cmocka_unit_test(a_token_that_cannot_be_chosen_adds_nothing),
        cmocka_unit_test(sums_of_exponentials_agree_with_double_precision),
        cmocka_unit_test(packed_words_are_the_columns_and_bad_numbers_are_seen),
        cmocka_unit_test(folding_gives_equal_bits_and_knows_empty_chunks),
    };

    return cmocka_run_group_tests(tests, find_rows, NULL);
}
