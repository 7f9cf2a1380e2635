/* test_backends.c - every backend of backends.def on every linear that it accepts, against native: within the
 * error of rounding, or bit for bit where it promises that; with the same bits for any number of rows and any
 * range of panels; and with activations that change no bit. */
#include <math.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/threads/pool.h"
#include "kern/gemm.h"
#include "kern/kern.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "tensor/dtype.h"
#include "tensor/quant.h"
#include "tensor/view.h"

enum { MOST_M = 97, DOWN = 40 }; /* 64 rows, and 33 */

static struct pool *pool;

static const struct shape {
    size_t part[LINEAR_MAX_PARTS], k;
    bool bias, paired;
} shapes[] = {
    {{1}, 1, false, false},           {{31}, 2, true, false},          {{64}, 64, false, false},
    {{65}, 63, true, false},          {{40, 17, 13}, 67, true, false}, {{130}, 416, false, false},
    {{33, 96, 32}, 320, true, false}, {{53, 53}, 96, true, true},      {{160, 160}, 257, false, true},
    {{96, 96}, 64, true, true},
};
enum { N_SHAPES = sizeof(shapes) / sizeof(*shapes) };

/* The weights of a linear as they are stored, the rows of X, and the sums of native. */
struct sample {
    struct view part[LINEAR_MAX_PARTS], bias[LINEAR_MAX_PARTS], down;
    struct linear_desc desc, next;
    unsigned char *bytes;
    float *b, *x, *want, *bound, *w; /* want, bound [MOST_M, n] */
    size_t n, k;
};

static float number(size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)(int32_t)x / 2147483648.0f;
}

static struct view plain(const void *data, size_t n, size_t k, enum dtype t)
{
    struct view v = {
        .name = "w", .file = "file", .data = data, .dtype = t, .n_dims = k ? 2 : 1, .shape = {n, k}};

    view_set_contiguous(&v);
    return v;
}

static void fill_weights(struct sample *s, enum dtype t)
{
    size_t blocks = s->n * s->k / dtype_group(t), bytes = dtype_bytes(t);

    s->bytes = calloc(blocks, bytes);
    for (size_t i = 0; i < blocks; i++) {
        unsigned char *to = s->bytes + i * bytes;
        float f = number(i);
        uint16_t half = t == DT_BF16 ? dtype_f32_to_bf16(f) : dtype_f32_to_f16(t == DT_F16 ? f : f / 64);

        for (size_t c = 0; c < bytes && dtype_is_grouped(t); c++)
            to[c] = (unsigned char)(number(i * 64 + c) * 127);
        if (t == DT_MXFP4)
            to[0] = (unsigned char)(120 + i % 4);
        else
            memcpy(to, t == DT_F32 ? (void *)&f : &half, t == DT_F32 ? sizeof(f) : sizeof(half));
    }
}

/* Computes native's sums, and a bound: half a unit of fp32 for each of K additions on either side. */
static void know(struct sample *s)
{
    void *in = aligned_alloc(64, MOST_M * linear_in_bytes(s->k));
    struct linear_desc d = s->desc;
    struct err e = {0};
    struct linear l;
    float *row = malloc(s->k * sizeof(*row));

    d.paired = false;
    assert_int_equal(linear_open(&l, &d, "native", &e), 0);
    assert_int_equal(linear_pack(&l, &d, pool, &e), 0);
    linear_put_all(&l, pool, in, s->x, MOST_M);
    linear_run(&l, pool, in, s->want, s->n, MOST_M);
    for (size_t i = 0; i < s->n; i++) {
        linear_elements(&d, i, 0, s->k, row);
        for (size_t r = 0; r < MOST_M; r++) {
            double sum = fabs((double)s->want[r * s->n + i]);

            for (size_t k = 0; k < s->k; k++)
                sum += fabs((double)row[k] * (double)s->x[r * s->k + k]);
            s->bound[r * s->n + i] = (float)(sum * (double)(s->k + 4) * 0x1p-23);
        }
    }
    linear_close(&l);
    free(row);
    free(in);
}

static void sample_open(struct sample *s, const struct shape *shape, enum dtype stored, enum dtype computed)
{
    size_t at = 0, inner;

    *s = (struct sample){.k = shape->k};
    if (dtype_is_grouped(stored))
        s->k = (s->k + dtype_group(stored) - 1) / dtype_group(stored) * dtype_group(stored);
    s->desc = (struct linear_desc){.name = "test",
                                   .kind = OP_MLP,
                                   .paired = shape->paired,
                                   .dtype = computed,
                                   .as_stored = true,
                                   .kern = kern_table(cpu_best())};
    for (size_t p = 0; p < LINEAR_MAX_PARTS; p++)
        s->n += shape->part[p];
    fill_weights(s, stored);
    s->b = calloc(s->n, sizeof(*s->b));
    for (size_t p = 0; p < LINEAR_MAX_PARTS && shape->part[p]; p++, s->desc.n_parts++) {
        size_t row_bytes = s->k / dtype_group(stored) * dtype_bytes(stored);

        s->part[p] = plain(s->bytes + at * row_bytes, shape->part[p], s->k, stored);
        s->bias[p] = plain(s->b + at, shape->part[p], 0, DT_F32);
        s->desc.part[p] = &s->part[p];
        s->desc.bias[p] = shape->bias ? &s->bias[p] : NULL;
        at += shape->part[p];
    }
    for (size_t i = 0; i < s->n; i++)
        s->b[i] = 4 * number(i + 77);
    s->x = calloc(MOST_M * s->k, sizeof(*s->x));
    for (size_t i = 0; i < MOST_M * s->k; i++)
        s->x[i] = 2 * number(i + 12345);
    s->want = calloc(MOST_M * s->n, sizeof(*s->want));
    s->bound = calloc(MOST_M * s->n, sizeof(*s->bound));
    know(s);
    inner = shape->paired ? s->n / 2 : s->n;
    s->w = calloc(DOWN * inner, sizeof(*s->w));
    for (size_t i = 0; i < DOWN * inner; i++)
        s->w[i] = number(i + 99);
    s->down = plain(s->w, DOWN, inner, DT_F32);
    s->next = (struct linear_desc){.name = "next",
                                   .kind = OP_MLP,
                                   .part = {&s->down},
                                   .n_parts = 1,
                                   .dtype = computed,
                                   .kern = s->desc.kern};
}

static void sample_close(struct sample *s)
{
    free(s->bytes);
    free(s->b);
    free(s->x);
    free(s->want);
    free(s->bound);
    free(s->w);
}

/* Describes the case for the message of a failure. */
static const char *about(const struct linear *l, const struct sample *s)
{
    static char text[160];

    snprintf(text, sizeof(text), "%s: %zu x %zu%s of %s in %s", l->backend->name, s->n, s->k,
             s->desc.paired ? ", paired" : "", dtype_name(s->part[0].dtype), dtype_name(s->desc.dtype));
    return text;
}

/* Returns whether PACK promises the bits of native. */
static bool is_exact(const struct linear *l, const struct sample *s)
{
    return (l->backend->flags & LINEAR_NATIVE) || s->desc.dtype == DT_I8;
}

static void compare(const struct linear *l, const struct sample *s, const float *got, size_t m)
{
    for (size_t i = 0; i < m * s->n; i++)
        if (is_exact(l, s) ? memcmp(&got[i], &s->want[i], sizeof(*got)) != 0
                           : !(fabsf(got[i] - s->want[i]) <= s->bound[i]))
            fail_msg("%s, %zu rows: row %zu column %zu: found %.9g, expected %.9g +- %g", about(l, s), m,
                     i / s->n, i % s->n, (double)got[i], (double)s->want[i],
                     is_exact(l, s) ? 0 : (double)s->bound[i]);
}

/* Checks the sums for every number of rows and for ranges of panels, which must be as good as those of all
 * rows. */
static void run_sums(const struct linear *l, const struct sample *s)
{
    size_t panels = (s->n + KERN_NR - 1) / KERN_NR;
    void *in = aligned_alloc(64, MOST_M * linear_in_bytes(s->k));
    float *all = calloc(MOST_M * s->n, sizeof(*all)), *y = calloc(MOST_M * s->n, sizeof(*y));

    linear_put_all(l, pool, in, s->x, MOST_M);
    linear_run(l, pool, in, all, s->n, MOST_M);
    /* Quantized blocks round their input, which other types do not. */
    if (l->dtype != DT_I8 || s->desc.dtype == DT_I8)
        compare(l, s, all, MOST_M);
    for (size_t m = 1; m < MOST_M; m += l->backend->flags & LINEAR_NATIVE ? 60 : m < 34 ? 1 : 31) {
        linear_put_all(l, pool, in, s->x, m);
        for (size_t p = 0, n = 1; p < panels; p += n, n++)
            linear_run_panels(l, pool, 0, in, y, s->n, m, p, p + n < panels ? p + n : panels);
        if (linear_is_loose(l))
            compare(l, s, y, m);
        else if (memcmp(y, all, m * s->n * sizeof(*y)) != 0)
            fail_msg("%s: %zu rows in blocks have other bits than %d rows", about(l, s), m, MOST_M);
    }
    free(in);
    free(all);
    free(y);
}

/* Applies ACT to the sums of L as the kernels of the table do: [M, inner]. */
static void run_apart(const struct sample *s, const char *backend, enum kern_act act, size_t m, float *out)
{
    void *in = aligned_alloc(64, m * linear_in_bytes(s->k));
    float *y = calloc(m * s->n, sizeof(*y));
    struct linear_desc d = s->desc;
    struct linear l;
    struct err e = {0};

    d.paired = false;
    assert_int_equal(linear_open(&l, &d, backend, &e), 0);
    assert_int_equal(linear_pack(&l, &d, pool, &e), 0);
    linear_put_all(&l, pool, in, s->x, m);
    linear_run(&l, pool, in, y, s->n, m);
    for (size_t r = 0; r < m; r++)
        if (s->desc.paired)
            l.kern->glu(out + r * s->n / 2, y + r * s->n, y + r * s->n + s->n / 2, s->n / 2, act);
        else
            l.kern->act(out + r * s->n, y + r * s->n, s->n, act);
    linear_close(&l);
    free(in);
    free(y);
}

/* Checks activations at the end, to fp32 and into the next linear. */
static void run_ends(const struct linear *l, const struct sample *s, enum kern_act act)
{
    enum { M = 37 };
    size_t inner = s->next.part[0]->shape[1];
    void *in = aligned_alloc(64, M * linear_in_bytes(s->k)),
         *middle = aligned_alloc(64, M * linear_in_bytes(inner));
    float *want = calloc(M * inner, sizeof(*want)), *got = calloc(M * inner, sizeof(*got));
    float y[2][M * DOWN];
    struct linear next;
    struct err e = {0};

    run_apart(s, l->backend->name, act, M, want);
    linear_put_all(l, pool, in, s->x, M);
    linear_run_act(l, pool, in, got, inner, act, M);
    if (!linear_is_loose(l) && memcmp(got, want, M * inner * sizeof(*got)) != 0)
        fail_msg("%s: activation %d at the end changes bits", about(l, s), (int)act);
    assert_int_equal(
        linear_open(&next, &s->next, dtype_is_grouped(s->part[0].dtype) ? NULL : l->backend->name, &e), 0);
    assert_int_equal(linear_pack(&next, &s->next, pool, &e), 0);
    if (linear_leads_into(l, &next)) {
        linear_run_into(l, pool, in, &next, middle, act, M);
        linear_run(&next, pool, middle, y[0], DOWN, M);
        linear_put_all(&next, pool, middle, got, M);
        linear_run(&next, pool, middle, y[1], DOWN, M);
        if (memcmp(y[0], y[1], sizeof(y[0])) != 0)
            fail_msg("%s: what is put into the next linear has other bits than what goes there by itself",
                     about(l, s));
    }
    linear_close(&next);
    free(in);
    free(middle);
    free(want);
    free(got);
}

/* Checks one backend, unless it does not accept the linear. native accepts all. */
static void run_backend(const struct sample *s, const struct linear_backend *b, enum kern_act act)
{
    const char *why_not = NULL;
    struct err e = {0};
    struct linear l;

    if (!b->accepts(&s->desc, &why_not)) {
        assert_non_null(why_not);
        if (linear_open(&l, &s->desc, b->name, &e) != ERR_UNSUPPORTED) /* Two backends may share a name. */
            assert_ptr_not_equal(l.backend, b);
        return;
    }
    assert_int_equal(linear_open(&l, &s->desc, b->name, &e), 0);
    assert_int_equal(linear_pack(&l, &s->desc, pool, &e), 0);
    if (!s->desc.paired)
        run_sums(&l, s);
    run_ends(&l, s, act);
    linear_close(&l);
}

static void a_backend_that_differs_from_native_or_from_itself(void **state)
{
    static const struct {
        enum dtype stored, computed;
    } types[] = {{DT_F32, DT_F32},    {DT_BF16, DT_BF16}, {DT_F16, DT_BF16},
                 {DT_F32, DT_I8},     {DT_BF16, DT_I8},   {DT_MXFP4, DT_F32},
                 {DT_MXFP4, DT_BF16}, {DT_Q4_0, DT_BF16}, {DT_BF16, DT_F32}};
    const struct linear_backend *b;

    for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
        for (size_t k = 0; k < N_SHAPES; k++) {
            struct sample s;

            sample_open(&s, &shapes[k], types[t].stored, types[t].computed);
            for (int i = 0; (b = linear_backend_at(i)) != NULL; i++)
                run_backend(&s, b, (enum kern_act)((k + t) % KERN_N_ACTS));
            sample_close(&s);
        }
}

static void a_backend_that_the_build_lacks_is_no_backend_and_says_so(void **state)
{
    static const char *const names[] = {"tpp", "jit"};

    for (int i = 0; i < 2; i++)
        assert_int_not_equal(linear_backend_known(names[i]), linear_backend_lacks(names[i]) != NULL);
    assert_null(linear_backend_lacks("gallop"));
    assert_null(linear_backend_lacks("brgemm"));
}

static int start(void **state)
{
    struct err e = {0};

    return pool_new(&pool, 2, &e);
}

static int end(void **state)
{
    pool_free(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_backend_that_differs_from_native_or_from_itself),
        cmocka_unit_test(a_backend_that_the_build_lacks_is_no_backend_and_says_so),
    };

    return cmocka_run_group_tests(tests, start, end);
}
