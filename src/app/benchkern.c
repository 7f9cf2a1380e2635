/* benchkern.c - times each row of kern.def on the shapes that a 1 to 8 billion parameter model calls it with.
 *
 * One thread: a kernel knows no others. Weights and keys are walked through a region of 256 MB, so that
 * nothing of them is in a cache when its turn comes; activations and the operands of the vector kernels are,
 * as they are in a step. A shape is timed in calls (a gemm in groups of 16 panels, as a thread gets them), in
 * batches of a tenth of the time, and the best batch counts. The share is the roof's own time for the bytes
 * or the operations, whichever is longer, over the measured one; kernels on cached vectors have no roof here.
 */
#include "app/benchkern.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "app/roof.h"
#include "base/clock.h"
#include "base/map.h"
#include "kern/kern.h"
#include "tensor/dtype.h"

enum {
    GEMM_K = 2048,
    GEMM_N = 8192,
    CALL_PANELS = 16,
    CALL_COLUMNS = CALL_PANELS * KERN_NR,
    DECODE_TOKENS = 8192,
    DECODE_ROWS = 4, /* query heads of a kv head */
    PREFILL_ROWS = 512,
    VECTOR = 128256, /* a vocabulary */
    HEAD_MAX = 128,
    BATCHES = 10,
};

static const size_t region_bytes = (size_t)256 << 20;

struct shape {
    enum kern_fn fn;
    const char *text;
    size_t m, n; /* rows and vector length; attention: tokens of a step (512: prefill), head dim */
};

static const struct shape shapes[] = {
    {KERN_FN_gemm_f32, "M=1 K=2048 N=8192", 1, GEMM_N},
    {KERN_FN_gemm_f32, "M=4 K=2048 N=8192", 4, GEMM_N},
    {KERN_FN_gemm_f32, "M=16 K=2048 N=8192", 16, GEMM_N},
    {KERN_FN_gemm_f32, "M=128 K=2048 N=8192", 128, GEMM_N},
    {KERN_FN_gemm_bf16, "M=1 K=2048 N=8192", 1, GEMM_N},
    {KERN_FN_gemm_bf16, "M=4 K=2048 N=8192", 4, GEMM_N},
    {KERN_FN_gemm_bf16, "M=16 K=2048 N=8192", 16, GEMM_N},
    {KERN_FN_gemm_bf16, "M=128 K=2048 N=8192", 128, GEMM_N},
    {KERN_FN_attn_f32, "decode 8192 G=4 d=64", 1, 64},
    {KERN_FN_attn_f32, "decode 8192 G=4 d=128", 1, 128},
    {KERN_FN_attn_f32, "prefill 512 d=64", PREFILL_ROWS, 64},
    {KERN_FN_attn_f32, "prefill 512 d=128", PREFILL_ROWS, 128},
    {KERN_FN_attn_bf16, "decode 8192 G=4 d=64", 1, 64},
    {KERN_FN_attn_bf16, "decode 8192 G=4 d=128", 1, 128},
    {KERN_FN_attn_bf16, "8 rows 8192 G=4 d=64", 8, 64},
    {KERN_FN_attn_bf16, "prefill 512 d=64", PREFILL_ROWS, 64},
    {KERN_FN_attn_bf16, "prefill 512 d=128", PREFILL_ROWS, 128},
    {KERN_FN_attn_i8, "decode 8192 G=4 d=64", 1, 64},
    {KERN_FN_attn_i8, "decode 8192 G=4 d=128", 1, 128},
    {KERN_FN_attn_i8, "8 rows 8192 G=4 d=64", 8, 64},
    {KERN_FN_attn_i8, "prefill 512 d=64", PREFILL_ROWS, 64},
    {KERN_FN_attn_i8, "prefill 512 d=128", PREFILL_ROWS, 128},
    {KERN_FN_attn_fold, "d=128", 0, 128},
    {KERN_FN_attn_finish, "d=128 bf16", 0, 128},
    {KERN_FN_rms_norm, "2048 residual bf16", 0, 2048},
    {KERN_FN_layer_norm, "2048 residual bf16", 0, 2048},
    {KERN_FN_add, "2048", 0, 2048},
    {KERN_FN_scale, "2048", 0, 2048},
    {KERN_FN_scale_add, "2048", 0, 2048},
    {KERN_FN_rope_half, "d=64", 0, 64},
    {KERN_FN_rope_pair, "d=64", 0, 64},
    {KERN_FN_act, "gelu_tanh 8192 bf16", 0, 8192},
    {KERN_FN_glu, "silu 8192 bf16", 0, 8192},
    {KERN_FN_to_bf16, "8192", 0, 8192},
    {KERN_FN_to_i8, "128", 0, 128},
    {KERN_FN_argmax, "128256", 0, VECTOR},
    {KERN_FN_max, "128256", 0, VECTOR},
    {KERN_FN_exp_sum, "128256", 0, VECTOR},
};

static const struct row {
    enum kern_fn fn;
    enum cpu_isa isa;
    const char *class;
} rows[] = {
#define KERN(fn, rows, level, class) {KERN_FN_##fn, level, class},
#include "kern/kern.def"
#undef KERN
};

/* Where everything lies. */
struct ground {
    char *region; /* weights, or keys and values, of float or bf16 */
    bool is_bf16, filled;
    float *x, *y, *z; /* VECTOR floats each: operands in cache */
    float *c;         /* results: 128 x CALL_COLUMNS, or a prefill's rows */
    float *scratch;
    const void *k_tile[DECODE_TOKENS / KERN_TILE], *v_tile[DECODE_TOKENS / KERN_TILE];
    int32_t lo[PREFILL_ROWS], hi[PREFILL_ROWS];
    float max[PREFILL_ROWS], sum[PREFILL_ROWS];
    float cos[HEAD_MAX],
        sin[HEAD_MAX]; /* of one angle: a rotation that keeps lengths can be repeated for ever */
};

/* A shape on a row, and what a call of it costs. */
struct work {
    struct ground *g;
    const struct shape *s;
    const struct kern *k;
    bool bf16;
    size_t at;           /* next piece of the region */
    double bytes, flops; /* of one call */
    double calls;        /* that make the shape */
};

static float noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)*state * 0x1p-31f;
}

/* Fills the region with noise of a type: one megabyte of it, repeated. */
static void ground_fill(struct ground *g, bool bf16)
{
    const size_t piece = (size_t)1 << 20;
    uint32_t state = 1;

    if (g->filled && g->is_bf16 == bf16)
        return;
    for (size_t i = 0; i < piece / 4; i++) {
        float f = noise(&state);
        uint16_t h[2] = {dtype_f32_to_bf16(f), dtype_f32_to_bf16(-f)};

        memcpy(g->region + 4 * i, bf16 ? (const void *)h : &f, 4);
    }
    for (size_t i = piece; i < region_bytes; i += piece)
        memcpy(g->region + i, g->region, piece);
    g->is_bf16 = bf16;
    g->filled = true;
}

static size_t ground_floats(void)
{
    return 3 * VECTOR + (size_t)PREFILL_ROWS * CALL_COLUMNS + 2 * (size_t)KERN_ATTN_ROWS * KERN_CHUNK;
}

static void ground_close(struct ground *g)
{
    map_region_free(g->region, region_bytes);
    map_region_free(g->x, ground_floats() * sizeof(float));
    *g = (struct ground){0};
}

static int ground_open(struct ground *g, struct err *e)
{
    *g = (struct ground){0};
    g->region = map_region_new(region_bytes);
    g->x = map_region_new(ground_floats() * sizeof(float));
    if (!g->region || !g->x) {
        ground_close(g);
        return err_nomem(e, "the benchmark's weights");
    }
    g->y = g->x + VECTOR;
    g->z = g->y + VECTOR;
    g->c = g->z + VECTOR;
    g->scratch = g->c + (size_t)PREFILL_ROWS * CALL_COLUMNS;
    for (size_t i = 0; i < HEAD_MAX; i++) {
        g->cos[i] = 0.6f;
        g->sin[i] = 0.8f;
    }
    return 0;
}

/* A piece of BYTES of the region, the next one every time. */
static char *next_piece(struct work *w, size_t bytes)
{
    size_t n = region_bytes / bytes;

    return w->g->region + w->at++ % n * bytes;
}

static void call_gemm(struct work *w)
{
    struct kern_gemm g = {.lda = GEMM_K, .ldc = CALL_COLUMNS, .m = w->s->m, .k = GEMM_K, .n = CALL_COLUMNS};

    g.a = w->g->x;
    g.c = w->g->c;
    g.b = next_piece(w, (size_t)CALL_COLUMNS * GEMM_K * (w->bf16 ? 2 : 4));
    if (w->bf16)
        w->k->gemm_bf16(&g, 0, CALL_PANELS);
    else
        w->k->gemm_f32(&g, 0, CALL_PANELS);
}

/* Bytes of a tile of keys or of values: 16 tokens of float, of bf16, or of int8 with a scale each. */
static size_t tile_bytes(const struct shape *s)
{
    switch (s->fn) {
    case KERN_FN_attn_i8: return KERN_TILE * (s->n + sizeof(float));
    case KERN_FN_attn_bf16: return KERN_TILE * s->n * sizeof(uint16_t);
    default: return KERN_TILE * s->n * sizeof(float);
    }
}

/* All chunks of one kv head: 4 rows a token over 8192 tokens, or 512 rows over themselves. */
static void call_attn(struct work *w)
{
    struct ground *g = w->g;
    bool prefill = w->s->m == PREFILL_ROWS;
    size_t tokens = prefill ? PREFILL_ROWS : DECODE_TOKENS, d = w->s->n, tile = tile_bytes(w->s);
    const char *head = next_piece(w, tokens / KERN_TILE * tile * 2);
    struct kern_attn a = {.q = g->x,
                          .lo = g->lo,
                          .hi = g->hi,
                          .out = g->c,
                          .max = g->max,
                          .sum = g->sum,
                          .scratch = g->scratch,
                          .m = prefill ? PREFILL_ROWS : w->s->m * DECODE_ROWS,
                          .dp = d,
                          .n_tiles = KERN_CHUNK_TILES,
                          .scale = 0.125f};

    for (size_t t = 0; t < tokens / KERN_TILE; t++) {
        g->k_tile[t] = head + t * tile;
        g->v_tile[t] = head + (tokens / KERN_TILE + t) * tile;
    }
    for (size_t j = 0; j < tokens; j += KERN_CHUNK) {
        for (size_t r = 0; r < a.m; r++) {
            size_t seen = prefill ? (r + 1 > j ? r + 1 - j : 0) : KERN_CHUNK;

            g->hi[r] = (int32_t)(seen < KERN_CHUNK ? seen : KERN_CHUNK);
        }
        a.k_tile = g->k_tile + j / KERN_TILE;
        a.v_tile = g->v_tile + j / KERN_TILE;
        a.next = a.k_tile + KERN_CHUNK_TILES;
        a.n_next = j + KERN_CHUNK < tokens ? KERN_CHUNK_TILES : 0;
        switch (w->s->fn) {
        case KERN_FN_attn_i8: w->k->attn_i8(&a); break;
        case KERN_FN_attn_bf16: w->k->attn_bf16(&a); break;
        default: w->k->attn_f32(&a);
        }
    }
}

static void call_vector(struct work *w)
{
    const struct kern *k = w->k;
    struct ground *g = w->g;
    size_t n = w->s->n;
    volatile size_t place;
    volatile float value;

    switch (w->s->fn) {
    case KERN_FN_attn_fold:
        value = 1;
        k->attn_fold(&g->max[0], &g->sum[0], g->c, 0.5f, value, g->y, n);
        break;
    case KERN_FN_attn_finish: k->attn_finish(g->c, g->x, 2, n, true); break;
    case KERN_FN_rms_norm: k->rms_norm(g->c, g->z, g->y, g->x, n, 1e-5f, true); break;
    case KERN_FN_layer_norm: k->layer_norm(g->c, g->z, g->y, g->x, g->y, n, 1e-5f, true); break;
    case KERN_FN_add: k->add(g->z, g->y, n); break;
    case KERN_FN_scale: k->scale(g->c, 1, n); break;
    case KERN_FN_scale_add: k->scale_add(g->z, g->y, 0.5f, n); break;
    case KERN_FN_rope_half: k->rope_half(g->z, g->cos, g->sin, n / 2); break;
    case KERN_FN_rope_pair: k->rope_pair(g->z, g->cos, g->sin, n / 2); break;
    case KERN_FN_act: k->act(g->c, g->x, n, KERN_GELU_TANH, true); break;
    case KERN_FN_glu: k->glu(g->c, g->x, g->y, n, KERN_SILU, true); break;
    case KERN_FN_to_bf16: k->to_bf16((uint16_t *)(void *)g->c, g->x, n); break;
    case KERN_FN_to_i8: k->to_i8((int8_t *)g->c, g->max, g->x, n); break;
    case KERN_FN_argmax:
        place = k->argmax(g->x, n);
        (void)place;
        break;
    case KERN_FN_max: value = k->max(g->x, n); break;
    case KERN_FN_exp_sum: value = k->exp_sum(g->x, n, 1); break;
    default: ASSERT(0, "kernel %s has no benchmark", kern_name(w->s->fn));
    }
}

/* Bytes an element that a vector kernel must read and write, each operand once; its operations are not
 * counted. */
static double vector_bytes(enum kern_fn fn)
{
    switch (fn) {
    case KERN_FN_rms_norm: return 18; /* x, r, w; x, out */
    case KERN_FN_layer_norm: return 22;
    case KERN_FN_attn_fold:
    case KERN_FN_add:
    case KERN_FN_scale_add: return 12;
    case KERN_FN_scale: return 8;
    case KERN_FN_rope_half:
    case KERN_FN_rope_pair: return 12; /* x in and out, half of cos and of sin */
    case KERN_FN_glu: return 10;
    case KERN_FN_attn_finish:
    case KERN_FN_act:
    case KERN_FN_to_bf16: return 6;
    case KERN_FN_to_i8: return 5;
    default: return 4;
    }
}

static void (*prepare(struct work *w))(struct work *w)
{
    const struct shape *s = w->s;
    double size = w->bf16 ? 2 : 4, tokens = DECODE_TOKENS, m = (double)s->m, pairs = DECODE_ROWS * tokens;

    w->calls = 1;
    switch (s->fn) {
    case KERN_FN_gemm_f32:
    case KERN_FN_gemm_bf16:
        ground_fill(w->g, w->bf16);
        w->calls = (double)s->n / CALL_COLUMNS;
        w->bytes = (CALL_COLUMNS + m) * GEMM_K * size + m * CALL_COLUMNS * 4;
        w->flops = 2 * m * GEMM_K * CALL_COLUMNS;
        return call_gemm;
    case KERN_FN_attn_f32:
    case KERN_FN_attn_bf16:
    case KERN_FN_attn_i8: /* floats are int8 too, and sane scales */
        ground_fill(w->g, w->bf16);
        pairs *= m;
        if (s->m == PREFILL_ROWS) {
            tokens = PREFILL_ROWS;
            pairs = tokens * (tokens + 1) / 2;
        }
        w->bytes = 2 * tokens / KERN_TILE * (double)tile_bytes(s);
        w->flops = 4 * pairs * (double)s->n;
        return call_attn;
    default:
        w->bytes = (double)s->n * vector_bytes(s->fn);
        w->flops = 0;
        return call_vector;
    }
}

/* Seconds of one call, the best batch of about SECONDS. */
static double measure(struct work *w, void (*call)(struct work *w), double seconds)
{
    double best = 1e30, start = clock_seconds(), t = start, now;
    size_t n = 1;

    do {
        for (size_t i = 0; i < n; i++)
            call(w);
        now = clock_seconds();
        if ((now - t) / (double)n < best)
            best = (now - t) / (double)n;
        if (now - t < seconds / BATCHES / 2)
            n *= 2;
        t = now;
    } while (t - start < seconds);
    return best;
}

/* The activations of a gemm in their type, the queries of attention, and sane values in what the last
 * row left. */
static void ground_reset(struct ground *g, bool bf16)
{
    uint32_t state = 2;

    for (size_t i = 0; i < 3 * VECTOR; i++)
        g->x[i] = noise(&state);
    memset(g->c, 0, (size_t)PREFILL_ROWS * CALL_COLUMNS * sizeof(float));
    g->max[0] = 1;
    g->sum[0] = 1;
    if (!bf16)
        return;
    for (size_t i = 0; i < 2 * VECTOR; i++) {
        uint16_t h[2] = {dtype_f32_to_bf16(g->x[i]), dtype_f32_to_bf16(-g->x[i])};

        memcpy(&g->x[i], h, 4);
    }
}

/* Prints one line: figures of the whole shape. ROOF names what bounds it, "" where nothing here does. Int8
 * dots take two operations for one: q and weights are two rows of bytes. */
static void print_line(bool json, const struct row *r, const struct shape *s, const struct work *w,
                       double seconds, const struct roof *roof)
{
    double us = seconds * w->calls * 1e6, gb = w->bytes / seconds * 1e-9, gf = w->flops / seconds * 1e-9;
    bool bf16 = strcmp(r->class, "bf16 dot") == 0, int8 = strcmp(r->class, "int8 dot") == 0;
    double peak = bf16 ? roof->bf16_flops : int8 ? roof->int8_ops / 2 : roof->fp32_flops, share = 0;
    const char *name = "", *arithmetic = bf16 ? "bf16" : int8 ? "int8" : "fp32";

    if (w->flops > 0) {
        double by_flops = w->flops / peak, by_bytes = roof->dram_bytes > 0 ? w->bytes / roof->dram_bytes : 0;

        name = by_flops > by_bytes ? arithmetic : "dram";
        share = (by_flops > by_bytes ? by_flops : by_bytes) / seconds;
    }
    if (json && !*name)
        printf(
            "{\"kernel\":\"%s\",\"isa\":\"%s\",\"class\":\"%s\",\"shape\":\"%s\",\"us\":%.4f,\"gb_s\":%.3f,"
            "\"gflop_s\":null,\"roof\":null,\"roof_share\":null}\n",
            kern_name(s->fn), cpu_isa_name(r->isa), r->class, s->text, us, gb);
    else if (json)
        printf(
            "{\"kernel\":\"%s\",\"isa\":\"%s\",\"class\":\"%s\",\"shape\":\"%s\",\"us\":%.3f,\"gb_s\":%.3f,"
            "\"gflop_s\":%.3f,\"roof\":\"%s\",\"roof_share\":%.4f}\n",
            kern_name(s->fn), cpu_isa_name(r->isa), r->class, s->text, us, gb, gf, name, share);
    else if (!*name)
        printf("%-11s  %-10s  %-8s  %-22s  %11.3f  %7.1f  %8s  %s\n", kern_name(s->fn), cpu_isa_name(r->isa),
               r->class, s->text, us, gb, "-", "in cache");
    else
        printf("%-11s  %-10s  %-8s  %-22s  %11.3f  %7.1f  %8.1f  %3.0f%% of %s\n", kern_name(s->fn),
               cpu_isa_name(r->isa), r->class, s->text, us, gb, gf, share * 100, name);
    fflush(stdout);
}

static void print_roof(bool json, const struct roof *r)
{
    if (json) {
        printf("{\"kernel\":\"roof\",\"cpu\":\"%s\",\"fp32_gflop_s\":%.1f,", cpu_model(),
               r->fp32_flops * 1e-9);
        printf("\"bf16_gflop_s\":%.1f,\"bf16_native\":%s,", r->bf16_flops * 1e-9,
               r->bf16_native ? "true" : "false");
        printf("\"int8_gop_s\":%.1f,\"dram_gb_s\":%.2f}\n", r->int8_ops * 1e-9, r->dram_bytes * 1e-9);
        return;
    }
    printf("%s, one thread: fp32 %.1f GFLOP/s, bf16 ", cpu_model(), r->fp32_flops * 1e-9);
    if (r->bf16_native)
        printf("%.1f GFLOP/s, ", r->bf16_flops * 1e-9);
    else
        printf("as fp32 (widened), ");
    if (r->int8_ops > 0)
        printf("int8 %.1f GOP/s, ", r->int8_ops * 1e-9);
    else
        printf("int8 dot not here, ");
    printf("memory %.1f GB/s\n", r->dram_bytes * 1e-9);
    printf("%-11s  %-10s  %-8s  %-22s  %11s  %7s  %8s  %s\n", "kernel", "isa", "class", "shape", "us", "GB/s",
           "GFLOP/s", "roof");
}

static void bench_row(const struct row *r, struct ground *g, bool json, double seconds,
                      const struct roof *roof)
{
    struct kern k;

    kern_rows(r->isa, &k);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct work w = {.g = g, .s = &shapes[i], .k = &k};
        void (*call)(struct work * w);

        if (shapes[i].fn != r->fn)
            continue;
        w.bf16 = r->fn == KERN_FN_gemm_bf16 || r->fn == KERN_FN_attn_bf16;
        call = prepare(&w);
        ground_reset(g, w.bf16 && r->fn == KERN_FN_gemm_bf16);
        print_line(json, r, w.s, &w, measure(&w, call, seconds), roof);
    }
}

int benchkern_run(bool json, double seconds_per_row, struct err *e)
{
    struct ground *g;
    struct pool *p = NULL;
    struct roof roof;
    int rc;

    if ((rc = pool_new(&p, 1, e)) != 0)
        return rc;
    g = map_region_new(sizeof *g);
    if (!g) {
        rc = err_nomem(e, "the benchmark's tables");
    } else if ((rc = ground_open(g, e)) == 0) {
        roof_measure(p, &roof, 1.0);
        print_roof(json, &roof);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (cpu_has(rows[i].isa))
                bench_row(&rows[i], g, json, seconds_per_row, &roof);
        ground_close(g);
    }
    map_region_free(g, sizeof *g);
    pool_free(p);
    return rc;
}
