/* test_dot512.c - the classes "bf16 dot", "bf16 tile dot" and "int8 dot": the AVX512-BF16, AMX and VNNI
 * kernels (emulated, and for AMX also on the machine itself) against VDPBF16PS, TDPBF16PS and integer sums
 * written out in plain C.
 *
 * The models below add pairs in ascending order, as gemm.h says, and each pair as Intel's manual does: the
 * odd element first, in two fused operations; or in slices of sixteen pairs, with even and odd elements
 * summed separately. Subnormals are zeros. The way in which rows, panels and K are cut must not change a bit,
 * so the models do not cut. The test is skipped if the emulation is not built.
 */
#include <math.h>

#include "check.h"
#include "kern/kern.h"
#include "kern/kmath.h"
#include "tensor/dtype.h"

#ifndef KERN_HAVE_EMULATED_AVX512
int main(void)
{
    return 77;
}
#else

void emu_avx512bf16_gemm_in_bf16(void *in, const float *x, size_t row, size_t m, size_t k);
void emu_avx512bf16_gemm_bf16(const struct kern_gemm *g, size_t p0, size_t p1);
void emu_amx_gemm_in_bf16(void *in, const float *x, size_t row, size_t m, size_t k);
void emu_amx_gemm_bf16(const struct kern_gemm *g, size_t p0, size_t p1);
void emu_avx512bf16_attn_bf16(const struct kern_attn *a);
void emu_amx_attn_bf16(const struct kern_attn *a);
void emu_avx512vnni_attn_i8(const struct kern_attn *a);

enum { MOST_TILES = KERN_CHUNK_TILES, SCRATCH = 2 * KERN_ATTN_ROWS * KERN_CHUNK, MARK = 12345 };

static struct check_rng rng = {1};

static size_t below(size_t n)
{
    return check_below(&rng, n);
}

static float noise(void)
{
    return 2 * check_float(&rng);
}

static void *need(size_t bytes)
{
    void *p = calloc(1, bytes + 64);

    assert_non_null(p);
    return p;
}

static float flush(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0.0f, f) : f;
}

static float widen(uint16_t h)
{
    return flush(dtype_bf16_to_f32(h));
}

/* Computes VDPBF16PS on one lane. */
static float dot(float s, const uint16_t a[2], const uint16_t b[2])
{
    s = flush(fmaf(widen(a[1]), widen(b[1]), flush(s)));
    return flush(fmaf(widen(a[0]), widen(b[0]), s));
}

/* The kernels of a class, and the model of their sums. */
struct class
{
    void (*put)(void *in, const float *x, size_t row, size_t m, size_t k);
    void (*gemm)(const struct kern_gemm *g, size_t p0, size_t p1);
    bool tiles;
};

/* Computes TDPBF16PS: adds the PAIRS of a slice to S. The pairs of a column of B are BY elements apart. */
static float tile(float s, const uint16_t *a, const uint16_t *b, size_t by, size_t pairs)
{
    float even = 0, odd = 0;

    for (size_t i = 0; i < pairs; i++, a += 2, b += by) {
        even = flush(fmaf(widen(a[0]), widen(b[0]), even));
        odd = flush(fmaf(widen(a[1]), widen(b[1]), odd));
    }
    return flush(s + flush(even + odd));
}

/* Returns the model's sum of a column. A [k, rounded up to a pair] is the row. */
static float tile_model(const struct kern_gemm *g, const uint16_t *a, size_t col)
{
    size_t pairs = (g->k + 1) / 2;
    const uint16_t *b = (const uint16_t *)g->b + (col / KERN_NR * pairs * KERN_NR + col % KERN_NR) * 2;
    float s = 0;

    for (size_t at = 0; at < pairs; at += 16)
        s = tile(s, a + 2 * at, b + 2 * at * KERN_NR, 2 * KERN_NR, pairs - at < 16 ? pairs - at : 16);
    return g->bias ? s + g->bias[col] : s;
}

/* Returns the model's sum of a column. A [k] is the row. */
static float gemm_model(const struct kern_gemm *g, const uint16_t *a, size_t col)
{
    size_t pairs = (g->k + 1) / 2;
    const uint16_t *b = (const uint16_t *)g->b + (col / KERN_NR * pairs * KERN_NR + col % KERN_NR) * 2;
    float s = 0;

    for (size_t k = 0; k < g->k; k += 2, b += 2 * KERN_NR)
        s = dot(s, (const uint16_t[]){a[k], k + 1 < g->k ? a[k + 1] : 0x8000}, b);
    return g->bias ? s + g->bias[col] : s;
}

/* kern_gemm.sums of all gemms. */
static float sums[KERN_PANELS * KERN_TOGETHER * KERN_NR] __attribute__((aligned(64)));

/* Compares one random gemm of M x K x N over the panels [P0, P1) with the model, element by element. A ends
 * at the end of its allocation. */
static void check_class(const struct class *class, size_t m, size_t k, size_t n, size_t p0, size_t p1,
                        float scale)
{
    size_t panels = (n + KERN_NR - 1) / KERN_NR, pairs = (k + 1) / 2, ldc = n + 3;
    float *x = need(m * k * 4);
    uint16_t *a = need(m * pairs * 4), *b = need(panels * pairs * KERN_NR * 4);
    float *c = need(m * ldc * 4), *bias = need(n * 4);
    void *in = aligned_alloc(64, m * kern_in_bytes(k));
    struct kern_gemm g = {.in = in, .b = b, .c = c, .ldc = ldc, .m = m, .k = k, .n = n, .sums = sums};

    g.bias = below(2) ? bias : NULL;
    for (size_t i = 0; i < m * k; i++)
        a[i / k * 2 * pairs + i % k] = dtype_f32_to_bf16(x[i] = noise() * scale);
    for (size_t i = 0; i < panels * pairs * KERN_NR * 2; i++) {
        size_t col = i / (pairs * KERN_NR * 2) * KERN_NR + i / 2 % KERN_NR;

        if (col < n && i / (2 * KERN_NR) % pairs * 2 + i % 2 < k)
            b[i] = dtype_f32_to_bf16(noise() * scale);
    }
    for (size_t i = 0; i < n; i++)
        bias[i] = noise();
    for (size_t i = 0; i < m * ldc; i++)
        c[i] = MARK;
    assert_non_null(in);
    for (size_t i = 0; i < m; i++)
        class->put(in, x + i * k, i, m, k);
    class->gemm(&g, p0, p1);
    for (size_t i = 0; i < m * ldc; i++) {
        size_t col = i % ldc;
        bool mine = col >= p0 * KERN_NR && col < p1 * KERN_NR && col < n;
        const uint16_t *row = a + i / ldc * 2 * pairs;
        float want = !mine ? (float)MARK : class->tiles ? tile_model(&g, row, col) : gemm_model(&g, row, col);

        assert_memory_equal(&c[i], &want, 4);
    }
    free(a);
    free(x);
    free(in);
    free(b);
    free(c);
    free(bias);
}

static void check_gemm(size_t m, size_t k, size_t n, size_t p0, size_t p1, float scale)
{
    struct class class = {emu_avx512bf16_gemm_in_bf16, emu_avx512bf16_gemm_bf16, false};
    struct kern rows;

    check_class(&class, m, k, n, p0, p1, scale);
    class = (struct class){emu_amx_gemm_in_bf16, emu_amx_gemm_bf16, true};
    check_class(&class, m, k, n, p0, p1, scale);
    if (!cpu_has(CPU_AMX) || !kern_rows(CPU_AMX, &rows))
        return;
    class = (struct class){rows.gemm_in_bf16, rows.gemm_bf16, true};
    check_class(&class, m, k, n, p0, p1, scale);
}

static void gemm_differs_when_k_is_cut_into_blocks(void **unused)
{
    static const size_t ks[] = {1, 2, 3, 255, 256, 257, 1023, 1024, 1025, 2051};

    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        check_gemm(1, ks[i], 33, 0, 2, 1);
        check_gemm(14, ks[i], 33, 0, 2, 1);
        check_gemm(33, ks[i], 33, 0, 2, 1);
    }
}

static void gemm_differs_between_groups_of_panels_or_blocks_of_rows(void **unused)
{
    check_gemm(13, 20, 19 * KERN_NR + 5, 0, 20, 1);
    check_gemm(3, 20, 19 * KERN_NR + 16, 2, 20, 1);
    check_gemm(530, 9, 2 * KERN_NR, 0, 2, 1);
    check_gemm(255, 2080, 10 * KERN_NR, 1, 10, 1);
    check_gemm(20, 2051, 2 * KERN_NR, 0, 2, 1);
}

static void gemm_keeps_denormals_that_the_dot_flushes(void **unused)
{
    check_gemm(7, 31, 40, 0, 2, 0x1p-66f);
    check_gemm(2, 70, 40, 0, 2, 0x1p-66f);
}

/* Replaces the dots S of one row by weights, and returns their maximum score and their sum. */
static void weigh_model(const struct kern_attn *a, size_t r, float *s, float *max, float *sum)
{
    const bool given = a->softcap > 0 || !(a->scale > 0); /* The scores replace the dots. */
    float lane[KERN_TILE] = {0}, most = -INFINITY, twos = (given ? 1 : a->scale) * KMATH_LOG2E;

    for (int32_t j = a->lo[r]; j < a->hi[r]; j++) {
        if (given)
            s[j] = a->scale * s[j];
        s[j] = a->softcap > 0 ? a->softcap * kmath_tanh(s[j] / a->softcap) : s[j];
        most = s[j] > most ? s[j] : most;
    }
    *max = (given ? 1 : a->scale) * most + 0.0f;
    for (int32_t j = a->lo[r]; j < a->hi[r]; j++)
        lane[j % KERN_TILE] += s[j] = kmath_exp2(twos * s[j] - twos * most);
    for (int step = KERN_TILE / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++)
            lane[i] += lane[i + step];
    *sum = lane[0];
}

/* Computes the model of attention for one row: maximum, sum and output of a chunk, with the bf16 dot in both
 * products, or with tiles. */
static void bf16_model(const struct kern_attn *a, size_t r, bool tiles, float *max, float *sum, float *out)
{
    const float *q = (const float *)a->q + r * a->dp;
    uint16_t rounded[KERN_ATTN_DIM], p[KERN_CHUNK] = {0};
    float s[KERN_CHUNK];

    for (size_t d = 0; d < a->dp; d++)
        rounded[d] = dtype_f32_to_bf16(q[d]);
    for (int32_t j = a->lo[r]; j < a->hi[r]; j++) {
        const uint16_t *k = (const uint16_t *)a->k_tile[j / KERN_TILE] + j % KERN_TILE * 2;

        s[j] = 0;
        for (size_t d = 0; d < a->dp && !tiles; d += 2)
            s[j] = dot(s[j], rounded + d, k + d * KERN_TILE);
        for (size_t d = 0; d < a->dp && tiles; d += 32)
            s[j] = tile(s[j], rounded + d, k + d * KERN_TILE, 2 * KERN_TILE, a->dp - d < 32 ? 8 : 16);
    }
    weigh_model(a, r, s, max, sum);
    for (int32_t j = a->lo[r]; j < a->hi[r]; j++)
        p[j] = dtype_f32_to_bf16(s[j]);
    for (size_t d = 0; d < a->dp; d++) {
        out[d] = 0;
        for (size_t t = 0; t < a->n_tiles && tiles; t++)
            out[d] = tile(out[d], p + t * KERN_TILE, (const uint16_t *)a->v_tile[t] + 2 * d, 2 * a->dp, 8);
        for (size_t j = 0; j < a->n_tiles * KERN_TILE && !tiles; j += 2)
            out[d] = dot(out[d], p + j,
                         (const uint16_t *)a->v_tile[j / KERN_TILE] + (j % KERN_TILE / 2 * a->dp + d) * 2);
        out[d] += 0.0f;
    }
}

static float i8_scale(const void *tile, size_t token, size_t dp)
{
    float scale;

    memcpy(&scale, (const char *)tile + KERN_TILE * dp + token * sizeof scale, sizeof scale);
    return scale;
}

/* Returns the integer scale at which MOST stands for LARGEST, and sets *inv to its inverse. */
static float i8_step(float most, float largest, float *inv)
{
    *inv = largest / most;
    if (*inv < INFINITY)
        return most / largest;
    *inv = 0;
    return 0;
}

/* Computes the model of attention for one row with integers, in any order. */
static void i8_model(const struct kern_attn *a, size_t r, float *max, float *sum, float *out)
{
    const float *q = (const float *)a->q + r * a->dp;
    float s[KERN_CHUNK], most = 0, inv, step;
    int32_t n[KERN_ATTN_DIM];

    for (size_t d = 0; d < a->dp; d++)
        most = fabsf(q[d]) > most ? fabsf(q[d]) : most;
    step = i8_step(most, KERN_I8_QUERY, &inv);
    for (size_t d = 0; d < a->dp; d++)
        n[d] = (int32_t)rintf(q[d] * inv);
    for (int32_t j = a->lo[r]; j < a->hi[r]; j++) {
        const int8_t *k = (const int8_t *)a->k_tile[j / KERN_TILE] + j % KERN_TILE * 4;
        int32_t dot = 0;

        for (size_t d = 0; d < a->dp; d++)
            dot += n[d] * k[d / 4 * KERN_TILE * 4 + d % 4];
        s[j] = (float)dot * step;
        s[j] = s[j] * i8_scale(a->k_tile[j / KERN_TILE], (size_t)j % KERN_TILE, a->dp);
    }
    weigh_model(a, r, s, max, sum);
    most = 0;
    for (int32_t j = a->lo[r]; j < a->hi[r]; j++) {
        s[j] = s[j] * i8_scale(a->v_tile[j / KERN_TILE], (size_t)j % KERN_TILE, a->dp);
        most = s[j] > most ? s[j] : most;
    }
    step = i8_step(most, KERN_I8_WEIGHT, &inv);
    for (size_t d = 0; d < a->dp; d++) {
        int32_t dot = 0;

        for (int32_t j = a->lo[r]; j < a->hi[r]; j++) {
            int32_t w = (int32_t)rintf(s[j] * inv), at = j % KERN_TILE;
            int8_t v =
                ((const int8_t *)a->v_tile[j / KERN_TILE])[((size_t)at / 4 * a->dp + d) * 4 + (size_t)at % 4];

            dot += w * v;
        }
        out[d] = (float)dot * step + 0.0f;
    }
}

/* Fills tiles at KV with random bf16, or with bytes and scales of which one is zero. */
static void fill_tiles(char *kv, size_t tiles, size_t dp, bool i8)
{
    size_t bytes = i8 ? KERN_TILE * (dp + sizeof(float)) : KERN_TILE * dp * 2;

    for (size_t t = 0; t < tiles; t++, kv += bytes) {
        for (size_t i = 0; i < KERN_TILE * dp && i8; i++)
            kv[i] = (char)(int8_t)((int)below(256) - 128);
        for (size_t i = 0; i < KERN_TILE && i8; i++) {
            float scale = below(30) ? fabsf(noise()) / 60 : 0;

            memcpy(kv + KERN_TILE * dp + i * sizeof scale, &scale, sizeof scale);
        }
        for (size_t i = 0; i < KERN_TILE * dp && !i8; i++)
            ((uint16_t *)(void *)kv)[i] = dtype_f32_to_bf16(noise());
    }
}

enum attn_class { BF16, TILES, I8, N_CLASSES };

/* Emulated attention gives the bits of the model, and so does that of the machine if the machine has it. */
static void compare_attn(const struct kern_attn *a, enum attn_class class)
{
    static const enum cpu_isa isas[N_CLASSES] = {CPU_AVX512BF16, CPU_AMX, CPU_AVX512VNNI};
    enum cpu_isa isa = isas[class];
    struct kern k = {.attn_bf16 = class == TILES ? emu_amx_attn_bf16 : emu_avx512bf16_attn_bf16,
                     .attn_i8 = emu_avx512vnni_attn_i8};
    float *want = need(a->dp * 4), max, sum;
    size_t n = cpu_has(isa) ? 2 : 1;

    for (size_t i = 0; i < n; i++) {
        if (i)
            kern_rows(isa, &k);
        memset(a->out, 0xff, a->m * a->dp * sizeof(float));
        (class == I8 ? k.attn_i8 : k.attn_bf16)(a);
        for (size_t r = 0; r < a->m; r++) {
            if (class == I8)
                i8_model(a, r, &max, &sum, want);
            else
                bf16_model(a, r, class == TILES, &max, &sum, want);
            assert_memory_equal(&a->max[r], &max, 4);
            assert_memory_equal(&a->sum[r], &sum, 4);
            assert_memory_equal(a->out + r * a->dp, want, a->dp * 4);
        }
    }
    free(want);
}

/* Checks M random rows over N_TILES tiles. They see [lo, hi): all tokens, a random part, or sometimes
 * none. */
static void check_attn(size_t m, size_t dp, size_t n_tiles, bool masked, float softcap, enum attn_class class)
{
    const bool i8 = class == I8;
    size_t tile = i8 ? KERN_TILE * (dp + sizeof(float)) : KERN_TILE * dp * 2;
    char *kv = need(2 * n_tiles * tile);
    float *q = need(m * dp * 4), *out = need(m * dp * 4), *max = need(m * 4), *sum = need(m * 4);
    float *scratch = aligned_alloc(64, SCRATCH * sizeof(float));
    const void *k_tile[MOST_TILES], *v_tile[MOST_TILES];
    int32_t *lo = need(m * 4), *hi = need(m * 4);
    struct kern_attn a = {q,       k_tile, v_tile, lo,      hi,   out,     max,  sum,
                          scratch, m,      dp,     n_tiles, 0.3f, softcap, NULL, 0};

    assert_non_null(scratch);
    memset(scratch, 0xff, SCRATCH * sizeof(float));
    for (size_t i = 0; i < m * dp; i++)
        q[i] = noise();
    fill_tiles(kv, 2 * n_tiles, dp, i8);
    for (size_t t = 0; t < n_tiles; t++) {
        k_tile[t] = kv + 2 * t * tile;
        v_tile[t] = kv + (2 * t + 1) * tile;
    }
    for (size_t r = 0; r < m; r++) {
        lo[r] = masked ? (int32_t)below(n_tiles * KERN_TILE) : 0;
        hi[r] = masked ? (int32_t)below(n_tiles * KERN_TILE + 1) : (int32_t)(n_tiles * KERN_TILE);
    }
    compare_attn(&a, class);
    free(q), free(kv), free(out), free(max), free(sum), free(scratch), free(lo), free(hi);
}

static void attention_differs_from_the_plain_dot_for_some_number_of_rows(void **unused)
{
    for (size_t m = 1; m <= 30; m++)
        for (enum attn_class c = BF16; c < N_CLASSES; c++)
            check_attn(m, 64, 1 + below(5), m % 2, 0, c);
}

static void attention_differs_for_some_head_size(void **unused)
{
    for (size_t dp = 16; dp <= 144; dp += 16)
        for (enum attn_class c = BF16; c < N_CLASSES; c++) {
            check_attn(3, dp, 3, true, 0, c);
            check_attn(7, dp, 2, false, 20, c);
        }
    for (enum attn_class c = BF16; c < N_CLASSES; c++)
        check_attn(2, KERN_ATTN_DIM, 2, false, 0, c);
}

static void attention_differs_for_some_number_of_tiles(void **unused)
{
    for (size_t t = 1; t <= MOST_TILES; t++)
        for (enum attn_class c = BF16; c < N_CLASSES; c++) {
            check_attn(4, 32, t, false, 0, c);
            check_attn(9, 32, t, true, 5, c);
        }
}

/* Integers have no NaN. Rows of q that are not finite must not give finite weights, and must not overflow the
 * sums. */
static void a_row_that_is_not_finite_looks_like_one_that_is(void **unused)
{
    enum { M = 4, DP = KERN_ATTN_DIM, TILE = KERN_TILE * (DP + 4) };
    static float scratch[SCRATCH] __attribute__((aligned(64))), q[M * DP], out[M * DP], want[DP];
    static char kv[2 * TILE];
    const void *k = kv, *v = kv + TILE;
    float max[M], sum[M], want_max, want_sum;
    int32_t lo[M] = {0}, hi[M] = {16, 16, 16, 16};
    struct kern_attn a = {q, &k, &v, lo, hi, out, max, sum, scratch, M, DP, 1, 0.3f, 0, NULL, 0};

    fill_tiles(kv, 2, DP, true);
    for (size_t i = 0; i < M * DP; i++)
        q[i] = noise();
    q[5] = NAN;
    for (size_t i = 0; i < DP; i++) {
        q[DP + i] = i % 2 ? INFINITY : -INFINITY;
        q[2 * DP + i] = NAN;
    }
    emu_avx512vnni_attn_i8(&a);
    for (size_t r = 0; r < 3; r++)
        assert_true(isnan(sum[r]));
    i8_model(&a, 3, &want_max, &want_sum, want);
    assert_memory_equal(&max[3], &want_max, 4);
    assert_memory_equal(&sum[3], &want_sum, 4);
    assert_memory_equal(out + 3 * DP, want, DP * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_differs_when_k_is_cut_into_blocks),
        cmocka_unit_test(gemm_differs_between_groups_of_panels_or_blocks_of_rows),
        cmocka_unit_test(gemm_keeps_denormals_that_the_dot_flushes),
        cmocka_unit_test(attention_differs_from_the_plain_dot_for_some_number_of_rows),
        cmocka_unit_test(attention_differs_for_some_head_size),
        cmocka_unit_test(attention_differs_for_some_number_of_tiles),
        cmocka_unit_test(a_row_that_is_not_finite_looks_like_one_that_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
