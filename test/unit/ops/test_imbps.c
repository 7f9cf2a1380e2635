/* test_imbps.c - an MLP in splits of its intermediate: the bits of the same MLP whole, for any split, with
 * every kernel table that the machine runs. */
#include <math.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/threads/pool.h"
#include "kern/kern.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "tensor/view.h"

enum { MOST_M = 97 };

static struct pool *pool;

/* The weights and rows of an MLP. */
struct sample {
    size_t e, inner, n;
    bool paired, bias;
    struct view part[2], part_bias[2], down_view, down_bias;
    float *w, *x, *want, *got;
    struct linear up, down;
};

static float number(size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)(int32_t)x / 2147483648.0f;
}

static struct view plain(const void *data, size_t n, size_t k)
{
    struct view v = {
        .name = "w", .file = "file", .data = data, .dtype = DT_F32, .n_dims = k ? 2 : 1, .shape = {n, k}};

    view_set_contiguous(&v);
    return v;
}

static void pack(struct linear *l, const struct linear_desc *d, const char *backend)
{
    struct err e = {0};

    assert_int_equal(linear_open(l, d, backend, &e), 0);
    assert_int_equal(linear_pack(l, d, pool, &e), 0);
}

static void sample_open(struct sample *s, enum dtype t, const struct kern *kern, const char *backend)
{
    size_t parts = s->paired ? 2 : 1, up = parts * s->inner * s->e, down = s->n * s->inner, at = up + down;
    struct linear_desc d = {
        .name = "up", .kind = OP_MLP, .n_parts = parts, .paired = s->paired, .dtype = t, .kern = kern};

    s->w = malloc((at + 2 * s->inner + s->n) * sizeof(*s->w));
    s->x = malloc(MOST_M * s->e * sizeof(*s->x));
    s->want = calloc(MOST_M * s->n, sizeof(*s->want));
    s->got = calloc(MOST_M * s->n, sizeof(*s->got));
    for (size_t i = 0; i < at + 2 * s->inner + s->n; i++)
        s->w[i] = number(i);
    for (size_t i = 0; i < MOST_M * s->e; i++)
        s->x[i] = number(i + 12345);
    for (size_t p = 0; p < parts; p++) {
        s->part[p] = plain(s->w + p * s->inner * s->e, s->inner, s->e);
        s->part_bias[p] = plain(s->w + at + p * s->inner, s->inner, 0);
        d.part[p] = &s->part[p];
        d.bias[p] = s->bias ? &s->part_bias[p] : NULL;
    }
    pack(&s->up, &d, backend);
    s->down_view = plain(s->w + up, s->n, s->inner);
    s->down_bias = plain(s->w + at + 2 * s->inner, s->n, 0);
    d = (struct linear_desc){.name = "down",
                             .kind = OP_MLP,
                             .part = {&s->down_view},
                             .bias = {s->bias ? &s->down_bias : NULL},
                             .n_parts = 1,
                             .dtype = t,
                             .kern = kern};
    pack(&s->down, &d, backend);
}

static void sample_close(struct sample *s)
{
    linear_close(&s->up);
    linear_close(&s->down);
    free(s->w);
    free(s->x);
    free(s->want);
    free(s->got);
}

/* Computes M rows whole and in splits; SPLIT 0: the splits that the backend chooses. */
static void compare(struct sample *s, size_t m, size_t split, enum kern_act act)
{
    void *in = aligned_alloc(64, m * linear_in_bytes(s->e)),
         *middle = aligned_alloc(64, m * linear_in_bytes(s->inner));
    const struct linear_mlp mlp = {&s->up, &s->down, act, in, middle, s->got, m};

    for (size_t i = 0; i < m * s->n; i++)
        s->got[i] = NAN; /* The old contents must not be added. */
    linear_put_all(&s->up, pool, in, s->x, m);
    linear_run_into(&s->up, pool, in, &s->down, middle, act, m);
    linear_run(&s->down, pool, middle, s->want, s->n, m);
    memset(middle, 0xff, m * linear_in_bytes(s->inner));
    if (split)
        linear_run_splits(&mlp, pool, split);
    else
        linear_run_mlp(&mlp, pool);
    if (memcmp(s->got, s->want, m * s->n * sizeof(*s->got)) != 0)
        fail_msg("%zu -> %zu -> %zu%s%s in %s, %zu rows, splits of %zu: other bits than whole", s->e,
                 s->inner, s->n, s->paired ? ", paired" : "", s->bias ? ", bias" : "",
                 dtype_name(s->up.dtype), m, split);
    free(in);
    free(middle);
}

static void an_mlp_in_splits_with_other_bits_than_whole(void **state)
{
    static const struct sample shapes[] = {{.e = 64, .inner = 320, .n = 64, .paired = true},
                                           {.e = 33, .inner = 293, .n = 47, .paired = true, .bias = true},
                                           {.e = 70, .inner = 257, .n = 33, .bias = true},
                                           {.e = 48, .inner = 200, .n = 100}};
    static const size_t splits[] = {32, 64, 96, 192, 1024};

    for (enum cpu_isa isa = CPU_REF; isa <= CPU_AMX; isa++)
        for (size_t i = 0; cpu_has(isa) && i < 2 * sizeof(shapes) / sizeof(*shapes); i++) {
            struct sample s = shapes[i / 2];

            sample_open(&s, i % 2 ? DT_F32 : DT_BF16, kern_table(isa), "imbps");
            for (size_t m = 1; m <= 33; m++)
                compare(&s, m, splits[m % 5], (enum kern_act)(m % KERN_N_ACTS));
            for (size_t k = 0; k < 5 && isa != CPU_REF; k++)
                compare(&s, MOST_M, splits[k], KERN_SILU);
            sample_close(&s);
        }
}

/* The MLP is so wide that even a few rows do not fit into level 2. */
static void the_splits_that_are_chosen_with_other_bits(void **state)
{
    struct sample s = {.e = 3, .inner = 20011, .n = 5, .paired = true, .bias = true};

    sample_open(&s, DT_F32, kern_table(cpu_best()), "imbps");
    for (size_t m = 1; m <= 33; m += 8)
        compare(&s, m, 0, KERN_SILU);
    compare(&s, MOST_M, 0, KERN_SILU);
    sample_close(&s);
}

static void what_it_cannot_split_is_refused(void **state)
{
    static const float w[64 * 64];
    const struct view v = plain(w, 64, 64);
    const struct linear_desc mlp = {.name = "w",
                                    .kind = OP_MLP,
                                    .part = {&v},
                                    .n_parts = 1,
                                    .dtype = DT_F32,
                                    .kern = kern_table(cpu_best())};
    struct linear_desc d = mlp;
    struct err e = {0};
    struct linear l;

    assert_int_equal(linear_open(&l, &d, "imbps", &e), 0);
    linear_close(&l);
    d.kind = OP_OUT;
    assert_int_equal(linear_open(&l, &d, "imbps", &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "mlp only"));
    d = mlp;
    d.is_expert = true;
    assert_int_equal(linear_open(&l, &d, "imbps", &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "experts"));
    d = mlp;
    d.dtype = DT_I8;
    assert_int_equal(linear_open(&l, &d, "imbps", &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "fp32 and bf16"));
    assert_true(linear_backend_serves("imbps", OP_MLP) && !linear_backend_serves("imbps", OP_LM_HEAD));
    assert_true(linear_backend_serves("gallop", OP_LM_HEAD));
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
        cmocka_unit_test(an_mlp_in_splits_with_other_bits_than_whole),
        cmocka_unit_test(the_splits_that_are_chosen_with_other_bits),
        cmocka_unit_test(what_it_cannot_split_is_refused),
    };

    return cmocka_run_group_tests(tests, start, end);
}
