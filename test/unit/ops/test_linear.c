/* test_linear.c - the state of a linear before and after packing; the weights that packing refuses, by name;
 * and that an activation at its end changes no bit. */
#include <math.h>
#include <stdatomic.h>

#include "base/cpu.h"
#include "base/files/map.h"
#include "base/threads/pool.h"
#include "kern/kern.h"
#include "kern/quant.h"
#include "ops/linear.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

static struct pool *pool;

/* Opens and packs, as gallop_open() does. Returns 0, or the code of the error in E. */
static int pack(const struct linear_desc *d, const char *backend, struct err *e)
{
    struct linear l;
    int rc;

    *e = (struct err){0};
    if ((rc = linear_open(&l, d, backend, e)) == 0 && (rc = linear_pack(&l, d, pool, e)) == 0)
        linear_close(&l);
    return rc;
}

static struct view plain(const char *name, const void *data, size_t n, size_t k, enum dtype t)
{
    struct view v = {
        .name = name, .file = "file", .data = data, .dtype = t, .n_dims = k ? 2 : 1, .shape = {n, k}};

    view_set_contiguous(&v);
    return v;
}

static void opening_takes_no_memory_and_says_what_packing_will_take(void **state)
{
    static const char *const backends[] = {"gallop", "native"};
    static const enum dtype types[] = {DT_F32, DT_BF16, DT_I8};
    static const size_t most[] = {2 * 65 * 32 * 4, 2 * 33 * 32 * 4, 2 * (17 * 128 + 256)};
    float *w = calloc(33 * 65, sizeof(*w));
    struct view v = plain("w", w, 33, 65, DT_F32);
    struct err none = {0};

    assert_int_equal(pool_reserve(pool, 1 << 20, &none), 0); /* The scratch belongs to the pool. */
    for (int t = 0; t < 3; t++)
        for (int b = 0; b < 2; b++) {
            struct linear_desc d = {.name = "test",
                                    .kind = OP_MLP,
                                    .part = {&v},
                                    .n_parts = 1,
                                    .dtype = types[t],
                                    .kern = kern_table(cpu_best())};
            size_t before = map_region_live_bytes(), bytes;
            struct linear l;
            struct err e = {0};

            assert_int_equal(linear_open(&l, &d, backends[b], &e), 0);
            assert_null(l.packed);
            assert_int_equal(map_region_live_bytes(), before);
            bytes = l.packed_bytes;
            assert_int_equal(bytes, most[t]);
            assert_int_equal(linear_pack(&l, &d, pool, &e), 0);
            assert_true(map_region_live_bytes() >= before + bytes);
            linear_close(&l);
            assert_int_equal(map_region_live_bytes(), before);
        }
    free(w);
}

/* A file can describe such a matrix in a few bytes, by an unpickled view with a stride of 0. */
static void a_matrix_larger_than_memory_can_address_is_refused(void **state)
{
    static const float zero;
    struct view v = {.name = "w", .file = "file", .data = &zero, .n_dims = 2};
    struct linear_desc d = {.name = "test",
                            .kind = OP_MLP,
                            .part = {&v},
                            .n_parts = 1,
                            .dtype = DT_F32,
                            .kern = kern_table(cpu_best())};
    struct err e;

    v.shape[0] = (size_t)1 << 31;
    v.shape[1] = (size_t)1 << 31;
    assert_int_equal(pack(&d, NULL, &e), ERR_NOMEM);
    assert_string_equal(e.msg, "test: 2147483648 x 2147483648 elements are more than memory can hold");
    v.shape[0] = SIZE_MAX;
    v.shape[1] = 1;
    assert_int_equal(pack(&d, NULL, &e), ERR_NOMEM);
}

enum { N = 70, K = 67 }; /* There are neither whole panels nor whole tiles. */

/* One number at a time is not finite, at positions that cover each corner of panels and tiles. */
static void numbers_that_are_not_finite_are_refused_wherever_they_lie(void **state)
{
    static const size_t at[] = {0, K - 1, (N - 1) * K, N * K - 1, 31 * K + 64, 32 * K + 63, 40 * K + 65};
    static const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16}, computed[] = {DT_F32, DT_BF16, DT_I8};
    static const char *const backends[] = {"gallop", "native"};

    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
            for (size_t b = 0; b < 4; b++) {
                uint16_t *h = calloc(N * K, sizeof(*h));
                float *f = calloc(N * K, sizeof(*f));
                struct view v = plain("the.weight", types[t] == DT_F32 ? (void *)f : h, N, K, types[t]);
                struct linear_desc d = {.name = "test",
                                        .kind = OP_MLP,
                                        .part = {&v},
                                        .n_parts = 1,
                                        .dtype = computed[(i + t) % 3],
                                        .kern = kern_table(cpu_best())};
                struct err e;

                assert_int_equal(pack(&d, backends[b % 2], &e), 0);
                f[at[i]] = bad[b];
                h[at[i]] = types[t] == DT_F16 ? dtype_f32_to_f16(bad[b]) : dtype_f32_to_bf16(bad[b]);
                if (pack(&d, backends[b % 2], &e) != ERR_INPUT ||
                    !strstr(e.msg, "file: tensor the.weight holds ") ||
                    !strstr(e.msg, "expected finite numbers"))
                    fail_msg("%s %g at %zu: not refused by name: \"%s\"", dtype_name(types[t]),
                             (double)bad[b], at[i], e.msg);
                free(h);
                free(f);
            }
}

static void numbers_that_round_to_an_infinity_are_refused_where_they_are_rounded(void **state)
{
    /* the largest number that stays finite, and the next one */
    const uint32_t most = 0x7f7f7fff, next = 0x7f7f8000;
    float w[4] = {0};
    struct view v = plain("the.weight", w, 2, 2, DT_F32);
    struct linear_desc d = {.name = "test",
                            .kind = OP_MLP,
                            .part = {&v},
                            .n_parts = 1,
                            .dtype = DT_BF16,
                            .kern = kern_table(cpu_best())};
    struct err e;

    memcpy(&w[3], &most, sizeof(most));
    assert_int_equal(pack(&d, NULL, &e), 0);
    memcpy(&w[3], &next, sizeof(next));
    assert_int_equal(pack(&d, NULL, &e), ERR_INPUT);
    assert_string_equal(
        e.msg,
        "file: tensor the.weight holds 3.39618e+38, which is infinite in bf16, expected finite numbers");
    d.dtype = DT_F32;
    assert_int_equal(pack(&d, NULL, &e), 0);
}

static void of_joined_tensors_and_biases_the_one_at_fault_is_named(void **state)
{
    float w[2][4] = {{0}}, b[2][2] = {{0}};
    struct view part[2], bias[2];
    struct linear_desc d = {.name = "test",
                            .kind = OP_QKV,
                            .part = {&part[0], &part[1]},
                            .bias = {&bias[0], &bias[1]},
                            .n_parts = 2,
                            .dtype = DT_BF16,
                            .kern = kern_table(cpu_best())};
    struct err e;

    for (int p = 0; p < 2; p++) {
        part[p] = plain(p ? "k.weight" : "q.weight", w[p], 2, 2, DT_F32);
        bias[p] = plain(p ? "k.bias" : "q.bias", b[p], 2, 0, DT_F32);
    }
    assert_int_equal(pack(&d, NULL, &e), 0);
    w[1][3] = NAN;
    assert_int_equal(pack(&d, NULL, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "tensor k.weight holds"));
    w[1][3] = 0;
    b[1][1] = -INFINITY;
    assert_int_equal(pack(&d, NULL, &e), ERR_INPUT);
    assert_string_equal(e.msg, "file: tensor k.bias holds -inf, expected finite numbers");
    b[1][1] = 3.4e38f; /* Biases stay fp32. */
    assert_int_equal(pack(&d, NULL, &e), 0);
}

static void scales_of_blocks_that_are_not_finite_are_refused(void **state)
{
    static const struct {
        enum dtype type;
        size_t scale, second; /* offsets in a block; a second offset of 0: there is none */
    } of[] = {{DT_Q4_0, 0, 0}, {DT_Q4_1, 0, 2},   {DT_Q5_0, 0, 0},   {DT_Q5_1, 0, 2},
              {DT_Q8_0, 0, 0}, {DT_Q2_K, 80, 82}, {DT_Q3_K, 108, 0}, {DT_Q4_K, 0, 2},
              {DT_Q5_K, 0, 2}, {DT_Q6_K, 208, 0}, {DT_IQ4_NL, 0, 0}, {DT_IQ4_XS, 0, 0}};

    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
        size_t block = dtype_bytes(of[i].type), n = dtype_group(of[i].type);
        uint8_t *data = calloc(40 * 2, block);
        struct view v = plain("the.weight", data, 40, 2 * n, of[i].type);
        struct linear_desc d = {.name = "test",
                                .kind = OP_MLP,
                                .part = {&v},
                                .n_parts = 1,
                                .dtype = DT_BF16,
                                .kern = kern_table(cpu_best())};
        const uint16_t infinity = 0x7c00;
        struct err e;

        assert_int_equal(pack(&d, NULL, &e), 0);
        for (int second = 0; second < (of[i].second ? 2 : 1); second++) {
            uint8_t *at = data + 77 * block + (second ? of[i].second : of[i].scale);

            memcpy(at, &infinity, sizeof(infinity));
            if (pack(&d, NULL, &e) != ERR_INPUT || !strstr(e.msg, "tensor the.weight holds"))
                fail_msg("%s: scale %d: not refused by name: \"%s\"", dtype_name(of[i].type), second, e.msg);
            memset(at, 0, sizeof(infinity));
        }
        free(data);
    }
}

/* Nibble 4 is 2, nibble 3 is 1.5, nibble 6 is 4, nibble 5 is 3. */
static void scales_of_mxfp4_that_are_not_finite_are_refused_by_every_backend(void **state)
{
    static const struct {
        uint8_t scale, nibble;
        int refused;
    } of[] = {{255, 0, 1}, {254, 3, 0}, {254, 4, 1}, {253, 5, 0}, {253, 6, 1}, {253, 14, 1}, {252, 7, 0}};
    static const char *const backends[] = {"mxfp4", "gallop", "native", "mxfp4_int8"};
    uint8_t blocks[33 * 16] = {0}, scales[33] = {0}, gguf[33 * 17] = {0};
    struct view w = {.name = "the_blocks",
                     .file = "file",
                     .data = blocks,
                     .dtype = DT_MXFP4,
                     .n_dims = 2,
                     .shape = {33, 32},
                     .stride = {32, 1}};
    struct view s = plain("the_scales", scales, 33, 1, DT_U8), both = w;

    both.name = "the.weight";
    both.data = gguf;
    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++)
        for (size_t b = 0; b < 4; b++)
            for (int apart = 0; apart < 2; apart++) {
                struct linear_desc d = {.name = "test",
                                        .kind = OP_MLP,
                                        .part = {apart ? &w : &both},
                                        .scale = {apart ? &s : NULL},
                                        .n_parts = 1,
                                        .dtype = DT_BF16,
                                        .to_mxfp4 = b == 3,
                                        .kern = kern_table(cpu_best())};
                struct err e;
                int rc;

                scales[32] = gguf[32 * 17] = of[i].scale;
                blocks[32 * 16 + 15] = gguf[32 * 17 + 16] = of[i].nibble;
                rc = pack(&d, backends[b], &e);
                if (rc != (of[i].refused ? ERR_INPUT : 0) ||
                    (rc && !strstr(e.msg, apart ? "tensor the_scales holds" : "tensor the.weight holds")))
                    fail_msg("%s: scale %u, nibble %u: code %d, expected %s: \"%s\"", backends[b],
                             of[i].scale, of[i].nibble, rc, of[i].refused ? "a refusal by name" : "0", e.msg);
            }
}

/* Reads weights back from panels, for every stored dtype and every computing dtype. */
static void a_row_read_from_the_packed_matrix_that_is_not_the_stored_one(void **state)
{
    static const struct {
        const char *backend;
        enum dtype stored, computed;
        bool exact;
    } of[] = {{"gallop", DT_BF16, DT_BF16, true},  {"native", DT_BF16, DT_BF16, true},
              {"gallop", DT_BF16, DT_F32, true},   {"native", DT_F16, DT_F32, true},
              {"gallop", DT_F32, DT_F32, true},    {"gallop", DT_Q8_0, DT_F32, true},
              {"gallop", DT_F32, DT_BF16, false},  {"gallop", DT_F16, DT_BF16, false},
              {"gallop", DT_Q8_0, DT_BF16, false}, {"mxfp4", DT_MXFP4, DT_F32, false},
              {"gallop", DT_BF16, DT_I8, false},   {"native", DT_F32, DT_I8, false}};
    enum { ODD = 67, BLOCKS = 64 };
    unsigned char *bytes = malloc((size_t)N * ODD * 4);
    float got[ODD], want[ODD];

    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
        size_t k = dtype_is_grouped(of[i].stored) ? BLOCKS : ODD;
        struct view v = plain("w", bytes, N, k, of[i].stored);
        struct linear_desc d = {.name = "test",
                                .kind = OP_LM_HEAD,
                                .part = {&v},
                                .n_parts = 1,
                                .dtype = of[i].computed,
                                .kern = kern_table(cpu_best())};
        struct err e = {0};
        struct linear l;

        for (size_t b = 0; b < (size_t)N * ODD * 4; b++) /* The numbers are finite in every dtype. */
            bytes[b] = (unsigned char)((b * 97 + b / 251 * 13) % 256 & (b % 2 ? 0xbb : 0x7f));
        assert_int_equal(linear_open(&l, &d, of[i].backend, &e), 0);
        assert_int_equal(linear_is_exact(&l, &d), of[i].exact);
        if (linear_pack(&l, &d, pool, &e) != 0)
            fail_msg("%zu: %s", i, e.msg);
        for (size_t r = 0; r < N && of[i].exact; r++) {
            linear_row(&l, r, got);
            view_row_f32(&v, r, want);
            assert_memory_equal(got, want, k * sizeof(*got));
        }
        linear_close(&l);
    }
    free(bytes);
}

/* ---- what ends in the next one's input ---- */

enum { M = 5, INNER = 53, DEPTH = 64 }; /* INNER: 5 of the 16 pairs of a panel are used */

struct middle {
    struct view gate, up, joined, down, bias[2];
    uint8_t *bytes; /* [2 INNER][DEPTH] of some dtype, gate first */
    float x[M * DEPTH], b[2 * INNER], w[40 * INNER];
};

/* Makes weights of dtype T; MXFP4 as GGUF stores it. */
static void middle_open(struct middle *s, enum dtype t)
{
    size_t blocks = 2 * INNER * DEPTH / dtype_group(t), row = DEPTH / dtype_group(t) * dtype_bytes(t);

    *s = (struct middle){.bytes = calloc(blocks, dtype_bytes(t))};
    for (size_t i = 0; i < blocks; i++)
        if (t == DT_MXFP4)
            memset(s->bytes + i * 17, (int)(i * 37 % 256), 17), s->bytes[i * 17] = (uint8_t)(120 + i % 3);
        else if (t == DT_F32)
            ((float *)(void *)s->bytes)[i] = (float)((int)(i * 7919 % 199) - 99) / 160;
        else
            ((uint16_t *)(void *)s->bytes)[i] = (t == DT_F16 ? dtype_f32_to_f16 : dtype_f32_to_bf16)(
                (float)((int)(i * 7919 % 199) - 99) / 160);
    for (size_t i = 0; i < M * DEPTH; i++)
        s->x[i] = (float)((int)(i * 104729 % 97) - 48) / 32;
    for (size_t i = 0; i < 40 * INNER; i++)
        s->w[i] = (float)((int)(i * 31 % 89) - 44) / 64;
    for (size_t i = 0; i < 2 * INNER; i++)
        s->b[i] = (float)(i % 11) - 5;
    s->gate = plain("gate", s->bytes, INNER, DEPTH, t);
    s->up = plain("up", s->bytes + INNER * row, INNER, DEPTH, t);
    s->joined = plain("gate_up", s->bytes, 2 * INNER, DEPTH, t);
    s->down = plain("down", s->w, 40, INNER, DT_F32);
    s->bias[0] = plain("gate.bias", s->b, INNER, 0, DT_F32);
    s->bias[1] = plain("up.bias", s->b + INNER, INNER, 0, DT_F32);
}

/* Computes two linears with an activation between them, by way of fp32 or not: Y [M, 40]. */
static void run_two(const struct middle *s, struct linear_desc d, const char *backend, bool through,
                    enum kern_act act, float *y)
{
    const struct linear_desc next = {
        .name = "down", .kind = OP_MLP, .part = {&s->down}, .n_parts = 1, .dtype = d.dtype, .kern = d.kern};
    struct linear l, down;
    struct err e = {0};
    void *in = aligned_alloc(64, M * linear_in_bytes(DEPTH)),
         *mid = aligned_alloc(64, M * linear_in_bytes(INNER));
    float middle[M * 2 * INNER];
    bool gated = d.paired;

    d.paired &= !through;
    assert_int_equal(linear_open(&l, &d, backend, &e), 0);
    assert_int_equal(linear_pack(&l, &d, pool, &e), 0);
    assert_int_equal(linear_open(&down, &next, strcmp(backend, "native") ? NULL : backend, &e), 0);
    assert_int_equal(linear_pack(&down, &next, pool, &e), 0);
    linear_put_all(&l, pool, in, s->x, M);
    if (through) {
        linear_run(&l, pool, in, middle, l.n, M);
        for (size_t i = 0; i < M; i++) {
            float *row = middle + i * l.n;

            if (gated)
                d.kern->glu(row, row, row + INNER, INNER, act);
            else
                d.kern->act(row, row, INNER, act);
            linear_put(&down, pool, 0, mid, row, i, M);
        }
    } else if (linear_leads_into(&l, &down)) {
        linear_run_into(&l, pool, in, &down, mid, act, M);
    } else {
        assert_true(d.dtype == DT_I8);
        linear_run_act(&l, pool, in, middle, INNER, act, M);
        linear_put_all(&down, pool, mid, middle, M);
    }
    linear_run(&down, pool, mid, y, 40, M);
    linear_close(&l);
    linear_close(&down);
    free(in);
    free(mid);
}

static void an_activation_at_the_end_gives_the_bits_of_one_behind(void **state)
{
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16, DT_MXFP4};
    static const char *const backends[] = {"gallop", "native", "mxfp4"};

    for (size_t t = 0; t < 4; t++)
        for (unsigned how = 0; how < 24; how++)
            for (size_t b = 0; b < (types[t] == DT_MXFP4 && how < 16 ? 3 : 2); b++) {
                bool gated = how & 1, one = how & 2;
                struct middle s;
                struct linear_desc d = {.name = "test",
                                        .kind = OP_MLP,
                                        .part = {&s.gate, gated ? &s.up : NULL},
                                        .bias = {how & 4 ? &s.bias[0] : NULL, how & 4 ? &s.bias[1] : NULL},
                                        .n_parts = gated ? 2 : 1,
                                        .paired = gated,
                                        .dtype = how & 16  ? DT_I8
                                                 : how & 8 ? DT_F32
                                                           : DT_BF16,
                                        .kern = kern_table(cpu_best())};
                float want[M * 40], got[M * 40];

                middle_open(&s, types[t]);
                if (one && gated) { /* Phi stores them like this. */
                    s.bias[0].shape[0] = 2 * INNER;
                    d.part[0] = &s.joined;
                    d.n_parts = 1;
                }
                run_two(&s, d, backends[b], true, (enum kern_act)(how % KERN_N_ACTS), want);
                run_two(&s, d, backends[b], false, (enum kern_act)(how % KERN_N_ACTS), got);
                if (memcmp(got, want, sizeof(got)) != 0)
                    fail_msg("%s, %s, case %u: other bits", dtype_name(types[t]), backends[b], how);
                run_two(&s, d, backends[b], false, (enum kern_act)((how + 1) % KERN_N_ACTS), got);
                if (d.dtype != DT_I8) /* Both activations may be rounded in the same way. */
                    assert_memory_not_equal(got, want, sizeof(got));
                free(s.bytes);
            }
}

/* The error of integers is half a unit of every weight and of every element of the input. */
static void integers_lie_within_their_rounding(void **state)
{
    static const char *const backends[] = {"gallop", "native"};
    struct middle s;

    middle_open(&s, DT_F32);
    for (size_t b = 0; b < 2; b++) {
        struct linear_desc d = {.name = "test",
                                .kind = OP_MLP,
                                .part = {&s.gate},
                                .n_parts = 1,
                                .dtype = DT_I8,
                                .kern = kern_table(cpu_best())};
        void *in = aligned_alloc(64, M * linear_in_bytes(DEPTH));
        float y[M * INNER];
        struct err e = {0};
        struct linear l;
        double off = 0;

        assert_int_equal(linear_open(&l, &d, backends[b], &e), 0);
        assert_int_equal(linear_pack(&l, &d, pool, &e), 0);
        linear_put_all(&l, pool, in, s.x, M);
        linear_run(&l, pool, in, y, INNER, M);
        for (size_t r = 0; r < M; r++)
            for (size_t i = 0; i < INNER; i++) {
                float x[DEPTH], w[DEPTH]; /* after rounding */
                double most_x = 0, most_w = 0, sum = 0, bound = 0, found = (double)y[r * INNER + i];

                memcpy(x, s.x + r * DEPTH, sizeof(x));
                memcpy(w, s.bytes + i * sizeof(w), sizeof(w));
                for (size_t k = 0; k < DEPTH; k++)
                    sum += (double)x[k] * (double)w[k];
                d.kern->hadamard(x, DEPTH);
                d.kern->hadamard(w, DEPTH);
                for (size_t k = 0; k < DEPTH; k++) {
                    most_x = fmax(most_x, fabs((double)x[k]));
                    most_w = fmax(most_w, fabs((double)w[k]));
                }
                for (size_t k = 0; k < DEPTH; k++)
                    bound +=
                        (fabs((double)x[k]) * most_w + fabs((double)w[k]) * most_x + most_x * most_w / 254) /
                        254;
                off = fmax(off, fabs(found - sum));
                if (fabs(found - sum) > bound * 1.0001)
                    fail_msg("%s: row %zu column %zu: found %g, expected %g +- %g", backends[b], r, i, found,
                             sum, bound);
            }
        assert_true(off > 1e-6); /* They are rounded. */
        linear_close(&l);
        free(in);
    }
    free(s.bytes);
}

static void a_linear_of_integers_with_too_many_columns_is_refused(void **state)
{
    static float w[KERN_I8_MOST_K + 1];

    for (size_t k = KERN_I8_MOST_K; k <= KERN_I8_MOST_K + 1; k++) {
        struct view v = plain("w", w, 1, k, DT_F32);
        struct linear_desc d = {.name = "test",
                                .kind = OP_MLP,
                                .part = {&v},
                                .n_parts = 1,
                                .dtype = DT_I8,
                                .kern = kern_table(cpu_best())};
        struct err e;

        assert_int_equal(pack(&d, NULL, &e), k > KERN_I8_MOST_K ? ERR_UNSUPPORTED : 0);
    }
}

static void a_weight_that_is_not_finite_is_found_among_pairs(void **state)
{
    static const size_t at[] = {0, INNER * DEPTH - 1, INNER * DEPTH, 2 * INNER * DEPTH - 1};

    for (size_t i = 0; i < 4; i++)
        for (int f16 = 0; f16 < 2; f16++) {
            struct middle s;
            struct linear_desc d = {.name = "test",
                                    .kind = OP_MLP,
                                    .part = {&s.gate, &s.up},
                                    .bias = {&s.bias[0], &s.bias[1]},
                                    .n_parts = 2,
                                    .paired = true,
                                    .dtype = DT_BF16,
                                    .kern = kern_table(cpu_best())};
            struct err e;

            middle_open(&s, f16 ? DT_F16 : DT_BF16);
            assert_int_equal(pack(&d, NULL, &e), 0);
            ((uint16_t *)(void *)s.bytes)[at[i]] = f16 ? 0x7c00 : 0x7f80;
            assert_int_equal(pack(&d, NULL, &e), ERR_INPUT);
            assert_non_null(strstr(e.msg, i < 2 ? "tensor gate holds inf" : "tensor up holds inf"));
            ((uint16_t *)(void *)s.bytes)[at[i]] = 0;
            s.b[2 * INNER - 1] = NAN;
            assert_int_equal(pack(&d, NULL, &e), ERR_INPUT);
            assert_non_null(strstr(e.msg, "tensor up.bias holds"));
            free(s.bytes);
        }
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

/* ---- what threads are dealt ---- */

enum { MOST_PARTS = 16, MOST_PANELS = 64 };
static atomic_int dealt[MOST_PARTS][MOST_PANELS];
static atomic_int n_wrong;
static atomic_size_t n_parts;

/* Counts its calls in place of a gemm. */
static void count_dealt(const struct kern_gemm *g, size_t p0, size_t p1)
{
    size_t panels = (g->n + KERN_NR - 1) / KERN_NR;

    if (g->part >= g->parts || g->parts > MOST_PARTS ||
        g->parts * KERN_PART > (g->parts > 1 ? g->m : SIZE_MAX) || p0 >= p1 || p1 > panels || g->ahead < p1 ||
        g->ahead > panels) {
        atomic_fetch_add(&n_wrong, 1);
        return;
    }
    atomic_store(&n_parts, g->parts);
    for (size_t p = p0; p < p1; p++)
        atomic_fetch_add(&dealt[g->part][p], 1);
}

/* Returns the number of tasks for M rows through N panels on this many threads, as a gemm of ISA. */
static size_t deal(size_t m, size_t panels, int threads, enum cpu_isa isa)
{
    struct kern kern = *kern_table(CPU_REF);
    float *w = calloc(panels * KERN_NR, sizeof(*w));
    struct view v = plain("w", w, panels * KERN_NR - 5, 1, DT_F32);
    struct linear_desc d = {
        .name = "test", .kind = OP_MLP, .part = {&v}, .n_parts = 1, .dtype = DT_BF16, .kern = &kern};
    struct linear l;
    struct pool *some;
    struct err e = {0};

    kern.gemm_bf16 = count_dealt;
    kern.row[KERN_FN_gemm_bf16].isa = isa;
    memset(dealt, 0, sizeof(dealt));
    assert_int_equal(pool_new(&some, threads, &e), 0);
    assert_int_equal(linear_open(&l, &d, "gallop", &e), 0);
    assert_int_equal(linear_pack(&l, &d, some, &e), 0);
    linear_run(&l, some, w, w, panels * KERN_NR, m);
    assert_int_equal(n_wrong, 0);
    for (size_t i = 0; i < n_parts * panels; i++)
        assert_int_equal(dealt[i / panels][i % panels], 1);
    linear_close(&l);
    pool_free(some);
    free(w);
    return n_parts;
}

static void each_panel_meets_each_part_of_the_rows_once(void **state)
{
    static const size_t ms[] = {1, 63, 128, 256, 257, 512, 600};

    for (int threads = 1; threads <= 9; threads++)
        for (size_t i = 0; i < sizeof(ms) / sizeof(*ms); i++)
            for (size_t panels = 1; panels <= 37; panels += 6) {
                deal(ms[i], panels, threads, CPU_REF);
                deal(ms[i], panels, threads, CPU_AMX);
            }
}

static void rows_are_cut_where_panels_are_too_few_or_a_cache_too_small(void **state)
{
    assert_int_equal(deal(512, 64, 2, CPU_AVX512), 1);
    assert_int_equal(deal(512, 64, 2, CPU_AMX), 2); /* 256 rows stay in level 2. */
    assert_int_equal(deal(256, 64, 2, CPU_AMX), 1);
    assert_int_equal(deal(512, 3, 2, CPU_AVX512), 2);  /* one task of 2 panels and one of 1 */
    assert_int_equal(deal(512, 3, 12, CPU_AVX512), 4); /* a quarter of a panel each */
    assert_int_equal(deal(127, 3, 12, CPU_AVX512), 1); /* too few rows to split */
    assert_int_equal(deal(128, 3, 12, CPU_AVX512), 2);
    assert_int_equal(deal(512, 2, 1, CPU_AVX512), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_takes_no_memory_and_says_what_packing_will_take),
        cmocka_unit_test(a_matrix_larger_than_memory_can_address_is_refused),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused_wherever_they_lie),
        cmocka_unit_test(numbers_that_round_to_an_infinity_are_refused_where_they_are_rounded),
        cmocka_unit_test(of_joined_tensors_and_biases_the_one_at_fault_is_named),
        cmocka_unit_test(scales_of_blocks_that_are_not_finite_are_refused),
        cmocka_unit_test(scales_of_mxfp4_that_are_not_finite_are_refused_by_every_backend),
        cmocka_unit_test(a_row_read_from_the_packed_matrix_that_is_not_the_stored_one),
        cmocka_unit_test(an_activation_at_the_end_gives_the_bits_of_one_behind),
        cmocka_unit_test(a_weight_that_is_not_finite_is_found_among_pairs),
        cmocka_unit_test(each_panel_meets_each_part_of_the_rows_once),
        cmocka_unit_test(rows_are_cut_where_panels_are_too_few_or_a_cache_too_small),
        cmocka_unit_test(integers_lie_within_their_rounding),
        cmocka_unit_test(a_linear_of_integers_with_too_many_columns_is_refused),
    };

    return cmocka_run_group_tests(tests, start, end);
}
