/* kernels.c - times each kernel of kern.def on shapes of models with 1 to 8 billion parameters.
 *
 * Every thread has its own data, as in a step. Weights, keys and the inputs of gemms are read from a region
 * far larger than the caches, so they are never cached. Results of gemms are written to a buffer larger than
 * the caches, with the row stride of the whole matrix. The operands of vector kernels are cached, as they are
 * in a step. A call of a gemm computes the part of a linear that one thread computes. Calls are timed between
 * measurements of the roofs (roof.c). The roof share is the ideal time for the bytes or for the operations,
 * whichever is longer, divided by the measured time. Kernels on cached vectors have no roof.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "app/print.h"
#include "base/err.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "kern/format/groups.h"
#include "kern/format/int4.h"
#include "kern/format/mx4.h"
#include "kern/kern.h"
#include "kern/roof.h"
#include "lab/bench/kernels.h"
#include "tensor/dtype.h"

enum {
    GEMM_K = 2048,
    GEMM_N = 8192,
    REF_PANELS = 4, /* maximum panels of a call of the reference kernels, which are slow */
    DECODE_TOKENS = 8192,
    DECODE_ROWS = 4, /* query heads for each KV head */
    PREFILL_ROWS = 512,
    VECTOR = 128256, /* size of a vocabulary */
    VECTOR_LONG = 262144,
    HEAD_MAX = 128,
    MAX_THREADS = 256,
};

static const size_t regions_bytes = (size_t)256 << 20, least_region_bytes = (size_t)64 << 20;

/* A kernel and a shape on which it is measured. */
struct work_shape {
    enum kern_fn fn;
    const char *text;
    size_t m, n; /* gemm: rows, columns; vector kernel: 0, length; attention: tokens of the step, head size */
    size_t tokens; /* attention: tokens in the cache, including the tokens of the step; else 0 */
    /* Vector kernels: the number of bytes that are read and written for each element. gemm_blocks: the dtype
     * of the weights. */
    int of;
};

static const struct work_shape shapes[] = {
    {KERN_FN_gemm_f32, "M=1 K=2048 N=8192", 1, GEMM_N, 0, 0},
    {KERN_FN_gemm_f32, "M=4 K=2048 N=8192", 4, GEMM_N, 0, 0},
    {KERN_FN_gemm_f32, "M=16 K=2048 N=8192", 16, GEMM_N, 0, 0},
    {KERN_FN_gemm_f32, "M=128 K=2048 N=8192", 128, GEMM_N, 0, 0},
    {KERN_FN_gemm_f32, "M=512 K=2048 N=8192", 512, GEMM_N, 0, 0},
    {KERN_FN_gemm_bf16, "M=1 K=2048 N=8192", 1, GEMM_N, 0, 0},
    {KERN_FN_gemm_bf16, "M=4 K=2048 N=8192", 4, GEMM_N, 0, 0},
    {KERN_FN_gemm_bf16, "M=8 K=2048 N=8192", 8, GEMM_N, 0, 0},
    {KERN_FN_gemm_bf16, "M=16 K=2048 N=8192", 16, GEMM_N, 0, 0},
    {KERN_FN_gemm_bf16, "M=32 K=2048 N=8192", 32, GEMM_N, 0, 0},
    {KERN_FN_gemm_bf16, "M=128 K=2048 N=8192", 128, GEMM_N, 0, 0},
    {KERN_FN_gemm_bf16, "M=272 K=2048 N=8192", 272, GEMM_N, 0, 0},
    {KERN_FN_gemm_bf16, "M=512 K=2048 N=8192", 512, GEMM_N, 0, 0},
    {KERN_FN_gemm_i8, "M=1 K=2048 N=8192", 1, GEMM_N, 0, 0},
    {KERN_FN_gemm_i8, "M=8 K=2048 N=8192", 8, GEMM_N, 0, 0},
    {KERN_FN_gemm_i8, "M=16 K=2048 N=8192", 16, GEMM_N, 0, 0},
    {KERN_FN_gemm_i8, "M=32 K=2048 N=8192", 32, GEMM_N, 0, 0},
    {KERN_FN_gemm_i8, "M=128 K=2048 N=8192", 128, GEMM_N, 0, 0},
    {KERN_FN_gemm_i8, "M=512 K=2048 N=8192", 512, GEMM_N, 0, 0},
    {KERN_FN_gemm_i4, "M=1 K=2048 N=8192", 1, GEMM_N, 0, 0},
    {KERN_FN_gemm_i4, "M=8 K=2048 N=8192", 8, GEMM_N, 0, 0},
    {KERN_FN_gemm_i4, "M=16 K=2048 N=8192", 16, GEMM_N, 0, 0},
    {KERN_FN_gemm_i4, "M=32 K=2048 N=8192", 32, GEMM_N, 0, 0},
    {KERN_FN_gemm_i4, "M=512 K=2048 N=8192", 512, GEMM_N, 0, 0},
    {KERN_FN_gemm_mx4_f32, "M=1 K=2048 N=8192", 1, GEMM_N, 0, 0},
    {KERN_FN_gemm_mx4_bf16, "M=1 K=2048 N=8192", 1, GEMM_N, 0, 0},
    {KERN_FN_gemm_mx4_bf16, "M=4 K=2048 N=8192", 4, GEMM_N, 0, 0},
    {KERN_FN_gemm_mx4_bf16, "M=16 K=2048 N=8192", 16, GEMM_N, 0, 0},
    {KERN_FN_gemm_mx4_bf16, "M=128 K=2048 N=8192", 128, GEMM_N, 0, 0},
#define QUANT(name, ...) {KERN_FN_gemm_blocks, #name " M=1 K=2048 N=8192", 1, GEMM_N, 0, DT_##name},
#include "tensor/quant.def"
    {KERN_FN_gemm_blocks, "Q4_K M=8 K=2048 N=8192", 8, GEMM_N, 0, DT_Q4_K},
    {KERN_FN_gemm_blocks, "Q4_K M=32 K=2048 N=8192", 32, GEMM_N, 0, DT_Q4_K},
    {KERN_FN_gemm_blocks, "Q4_K M=512 K=2048 N=8192", 512, GEMM_N, 0, DT_Q4_K},
    {KERN_FN_gemm_in_f32, "K=2048", 0, GEMM_K, 0, 8},
    {KERN_FN_gemm_in_bf16, "K=2048", 0, GEMM_K, 0, 6},
    {KERN_FN_gemm_in_i8, "K=2048", 0, GEMM_K, 0, 5},
    {KERN_FN_gemm_in_blocks, "K=2048", 0, GEMM_K, 0, 5},
    {KERN_FN_attn_f32, "decode 8192 G=4 d=64", 1, 64, DECODE_TOKENS, 0},
    {KERN_FN_attn_f32, "decode 8192 G=4 d=128", 1, 128, DECODE_TOKENS, 0},
    {KERN_FN_attn_f32, "prefill 512 d=64", PREFILL_ROWS, 64, PREFILL_ROWS, 0},
    {KERN_FN_attn_f32, "prefill 512 d=128", PREFILL_ROWS, 128, PREFILL_ROWS, 0},
    {KERN_FN_attn_bf16, "decode 8192 G=4 d=64", 1, 64, DECODE_TOKENS, 0},
    {KERN_FN_attn_bf16, "decode 8192 G=4 d=128", 1, 128, DECODE_TOKENS, 0},
    {KERN_FN_attn_bf16, "8 rows 8192 G=4 d=64", 8, 64, DECODE_TOKENS, 0},
    {KERN_FN_attn_bf16, "prefill 512 d=64", PREFILL_ROWS, 64, PREFILL_ROWS, 0},
    {KERN_FN_attn_bf16, "prefill 2048 d=64", PREFILL_ROWS, 64, 2048, 0},
    {KERN_FN_attn_bf16, "prefill 2048 d=128", PREFILL_ROWS, 128, 2048, 0},
    {KERN_FN_attn_bf16, "prefill 8192 d=64", PREFILL_ROWS, 64, DECODE_TOKENS, 0},
    {KERN_FN_attn_bf16, "prefill 8192 d=128", PREFILL_ROWS, 128, DECODE_TOKENS, 0},
    {KERN_FN_attn_i8, "decode 8192 G=4 d=64", 1, 64, DECODE_TOKENS, 0},
    {KERN_FN_attn_i8, "decode 8192 G=4 d=128", 1, 128, DECODE_TOKENS, 0},
    {KERN_FN_attn_i8, "8 rows 8192 G=4 d=64", 8, 64, DECODE_TOKENS, 0},
    {KERN_FN_attn_i8, "prefill 512 d=64", PREFILL_ROWS, 64, PREFILL_ROWS, 0},
    {KERN_FN_attn_i8, "prefill 2048 d=64", PREFILL_ROWS, 64, 2048, 0},
    {KERN_FN_attn_i8, "prefill 2048 d=128", PREFILL_ROWS, 128, 2048, 0},
    {KERN_FN_attn_i8, "prefill 8192 d=64", PREFILL_ROWS, 64, DECODE_TOKENS, 0},
    {KERN_FN_attn_i4, "decode 8192 G=4 d=64", 1, 64, DECODE_TOKENS, 0},
    {KERN_FN_attn_i4, "decode 8192 G=4 d=128", 1, 128, DECODE_TOKENS, 0},
    {KERN_FN_attn_i4, "8 rows 8192 G=4 d=64", 8, 64, DECODE_TOKENS, 0},
    {KERN_FN_attn_i4, "prefill 512 d=64", PREFILL_ROWS, 64, PREFILL_ROWS, 0},
    {KERN_FN_attn_i4, "prefill 2048 d=64", PREFILL_ROWS, 64, 2048, 0},
    {KERN_FN_attn_i4, "prefill 2048 d=128", PREFILL_ROWS, 128, 2048, 0},
    {KERN_FN_attn_fold, "d=128", 0, 128, 0, 12},
    {KERN_FN_attn_finish, "d=128", 0, 128, 0, 8},
    {KERN_FN_rms_norm, "2048 residual", 0, 2048, 0, 20},
    {KERN_FN_layer_norm, "2048 residual", 0, 2048, 0, 24},
    {KERN_FN_add, "2048", 0, 2048, 0, 12},
    {KERN_FN_scale, "2048", 0, 2048, 0, 8},
    {KERN_FN_scale_add, "2048", 0, 2048, 0, 12},
    {KERN_FN_rope_half, "d=64", 0, 64, 0, 12},
    {KERN_FN_rope_pair, "d=64", 0, 64, 0, 12},
    {KERN_FN_act, "gelu_tanh 8192", 0, 8192, 0, 8},
    {KERN_FN_glu, "silu 8192", 0, 8192, 0, 12},
    {KERN_FN_softcap, "128256", 0, VECTOR, 0, 8},
    {KERN_FN_to_bf16, "8192", 0, 8192, 0, 6},
    {KERN_FN_to_i8, "128", 0, 128, 0, 5},
    {KERN_FN_to_i4, "128", 0, 128, 0, 5},
    {KERN_FN_hadamard, "128", 0, 128, 0, 8},
    {KERN_FN_hadamard, "2048", 0, 2048, 0, 8},
    {KERN_FN_pack_words, "32 columns of 4096 bf16", 0, (size_t)2048 * KERN_NR, 0, 8},
    {KERN_FN_argmax, "128256", 0, VECTOR, 0, 4},
    {KERN_FN_argmax, "262144", 0, VECTOR_LONG, 0, 4},
    {KERN_FN_gumbel_argmax, "128256", 0, VECTOR, 0, 4},
    {KERN_FN_max, "128256", 0, VECTOR, 0, 4},
    {KERN_FN_exp_sum, "128256", 0, VECTOR, 0, 4},
    {KERN_FN_exp_dot, "128256", 0, VECTOR, 0, 4},
};

static const struct row {
    enum kern_fn fn;
    enum cpu_isa isa;
    const char *class;
} rows[] = {
#define KERN(fn, rows, level, class) {KERN_FN_##fn, level, class},
#include "kern/kern.def"
#include "kern/peak.h"
#undef KERN
};

/* The format of the random numbers in a region. */
enum content { NOTHING, FLOATS, BF16, MX4 };

/* The memory of a thread. */
struct ground {
    char *region; /* [region_bytes] weights, or keys and values, that are read from memory */
    size_t region_bytes;
    size_t at; /* offset of the next bytes to read from the region */
    enum content content;
    float *x, *y, *z; /* [VECTOR] cached operands */
    float *c;         /* [PREFILL_ROWS, GEMM_N] results */
    size_t c_at;      /* offset in c at which the next gemm writes */
    float *scratch;   /* scratch of attention */
    float *panel;     /* scratch of a gemm that unpacks weights */
    float *sums;      /* sums of any gemm */
    const void *k_tile[DECODE_TOKENS / KERN_TILE], *v_tile[DECODE_TOKENS / KERN_TILE];
    int32_t lo[PREFILL_ROWS], hi[PREFILL_ROWS];
    float max[PREFILL_ROWS], sum[PREFILL_ROWS];
    /* Cosines and sines of one angle. RoPE with them keeps the lengths of vectors, so repeated calls do not
     * overflow. */
    float cos[HEAD_MAX], sin[HEAD_MAX];
};

/* The work of one thread: calls of a kernel on a shape, and the cost of one call. */
struct task {
    struct ground *g;
    const struct work_shape *s;
    const struct kern *k;
    bool bf16; /* the kernel computes in bf16 */
    enum content content;
    size_t panel, n_panels; /* first panel and number of panels of a call */
    double bytes, flops;    /* bytes and operations of one call */
    double calls;           /* number of calls in which the thread computes its part of the shape */
};

/* Returns the next number in [-1, 1) of a linear congruential generator. */
static float noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)*state * 0x1p-31f;
}

/* Fills the region with random numbers in the format CONTENT, repeated after one megabyte. With MX4 every
 * byte is also a valid scale. */
static void ground_fill(struct ground *g, enum content content)
{
    const size_t piece = (size_t)1 << 20;
    uint32_t state = 1;

    if (g->content == content)
        return;
    for (size_t i = 0; i < piece / 4; i++) {
        float f = noise(&state);
        uint16_t h[2] = {dtype_f32_to_bf16(f), dtype_f32_to_bf16(-f)};
        uint32_t bytes = (state & 0x3f3f3f3f) + 0x40404040;

        memcpy(g->region + 4 * i,
               content == FLOATS ? (const void *)&f
               : content == BF16 ? (const void *)h
                                 : &bytes,
               4);
    }
    for (size_t i = piece; i < g->region_bytes; i += piece)
        memcpy(g->region + i, g->region, piece);
    g->content = content;
}

static size_t ground_floats(void)
{
    return 3 * VECTOR + (size_t)PREFILL_ROWS * GEMM_N + kern_i4_scratch_bytes(KERN_ATTN_DIM) / sizeof(float) +
           (size_t)GEMM_K * KERN_NR + (size_t)KERN_PANELS * KERN_TOGETHER * KERN_NR;
}

static void ground_close(struct ground *g)
{
    map_region_free(g->region, g->region_bytes);
    map_region_free(g->x, ground_floats() * sizeof(float));
    *g = (struct ground){0};
}

static int ground_open(struct ground *g, size_t region_bytes, struct err *e)
{
    *g = (struct ground){.region_bytes = region_bytes};
    g->region = map_region_new(region_bytes);
    g->x = map_region_new(ground_floats() * sizeof(float));
    if (!g->region || !g->x) {
        ground_close(g);
        return err_nomem(e, "the benchmark's weights");
    }
    g->y = g->x + VECTOR;
    g->z = g->y + VECTOR;
    g->c = g->z + VECTOR;
    g->scratch = g->c + (size_t)PREFILL_ROWS * GEMM_N;
    g->panel = g->scratch + kern_i4_scratch_bytes(KERN_ATTN_DIM) / sizeof(float);
    g->sums = g->panel + (size_t)GEMM_K * KERN_NR;
    for (size_t i = 0; i < HEAD_MAX; i++) {
        g->cos[i] = 0.6f;
        g->sin[i] = 0.8f;
    }
    return 0;
}

/* Returns the next BYTES of the region, aligned to 64 bytes; after the end of the region it continues at the
 * beginning. */
static const char *next_piece(void *work, size_t bytes)
{
    struct ground *g = ((struct task *)work)->g;
    size_t at = g->region_bytes - g->at < bytes ? 0 : g->at;

    g->at = at + (bytes + 63) / 64 * 64;
    return g->region + at;
}

/* Returns the arguments of the next call of a gemm. Successive calls write to successive result matrices in
 * w->g->c, each into the columns of this thread. */
static struct kern_gemm next_gemm(struct task *w)
{
    size_t m = w->s->m;
    struct kern_gemm g = {.ldc = GEMM_N, .m = m, .k = GEMM_K, .n = w->n_panels * KERN_NR, .sums = w->g->sums};

    if (w->g->c_at + m * GEMM_N > (size_t)PREFILL_ROWS * GEMM_N)
        w->g->c_at = 0;
    g.c = w->g->c + w->g->c_at + w->panel * KERN_NR;
    w->g->c_at += m * GEMM_N;
    return g;
}

static void call_gemm(void *work)
{
    struct task *w = work;
    struct kern_gemm g = next_gemm(w);
    bool i8 = w->s->fn == KERN_FN_gemm_i8;
    size_t es = i8 ? 1 : w->bf16 ? 2 : 4;

    /* The random words of the region are valid inputs: floats also serve as scales and as int8. */
    g.in = next_piece(w, g.m * (GEMM_K * es + (i8 ? sizeof(float) : 0)));
    g.b = next_piece(w, i8 ? w->n_panels * kern_i8_panel_bytes(GEMM_K) : g.n * GEMM_K * es);
    (i8 ? w->k->gemm_i8 : w->bf16 ? w->k->gemm_bf16 : w->k->gemm_f32)(&g, 0, w->n_panels);
}

enum { INT4_GROUP = 32 };

static void call_gemm_i4(void *work)
{
    struct task *w = work;
    struct kern_gemm g = next_gemm(w);

    g.in = next_piece(w, g.m * (GEMM_K + sizeof(float)));
    g.b = next_piece(w, w->n_panels * int4_panel_bytes(GEMM_K, INT4_GROUP));
    w->k->gemm_i4(&g, INT4_GROUP, 0, w->n_panels, w->g->panel);
}

static void call_gemm_mx4(void *work)
{
    struct task *w = work;
    struct kern_gemm g = next_gemm(w);

    g.in = w->g->x; /* the bytes of the region are not valid floats */
    g.b = next_piece(w, w->n_panels * (GEMM_K / MX4_GROUP_SIZE) * (size_t)MX4_GROUP_BYTES);
    (w->bf16 ? w->k->gemm_mx4_bf16 : w->k->gemm_mx4_f32)(&g, 0, w->n_panels, w->g->panel);
}

static void call_gemm_blocks(void *work)
{
    struct task *w = work;
    struct kern_gemm g = next_gemm(w);

    g.in = w->g->x;
    g.b = next_piece(w, w->n_panels * groups_panel_bytes(quant_format_of((enum dtype)w->s->of), GEMM_K));
    w->k->gemm_blocks(&g, (enum dtype)w->s->of, 0, w->n_panels);
}

/* Returns the bytes of a tile of keys or values (16 tokens) in the format of the kernel. */
static size_t tile_bytes(const struct work_shape *s)
{
    switch (s->fn) {
    case KERN_FN_attn_i8: return KERN_TILE * (s->n + sizeof(float));
    case KERN_FN_attn_i4: return kern_i4_tile_bytes(s->n);
    case KERN_FN_attn_bf16: return KERN_TILE * s->n * sizeof(uint16_t);
    default: return KERN_TILE * s->n * sizeof(float);
    }
}

/* Computes the attention of one KV head, chunk by chunk: of DECODE_ROWS query heads for each of m tokens over
 * all tokens or, for a prefill, of the last PREFILL_ROWS tokens with a causal mask. */
static void call_attn(void *work)
{
    struct task *w = work;
    struct ground *g = w->g;
    bool prefill = w->s->m == PREFILL_ROWS;
    size_t tokens = w->s->tokens, d = w->s->n, tile = tile_bytes(w->s), before = tokens - PREFILL_ROWS;
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
                          .scale = w->s->fn == KERN_FN_attn_i8 || w->s->fn == KERN_FN_attn_i4 ? 0.125f / 127
                                                                                              : 0.125f};

    for (size_t t = 0; t < tokens / KERN_TILE; t++) {
        g->k_tile[t] = head + t * tile;
        g->v_tile[t] = head + (tokens / KERN_TILE + t) * tile;
    }
    for (size_t j = 0; j < tokens; j += KERN_CHUNK) {
        for (size_t r = 0; r < a.m; r++) {
            size_t end = prefill ? before + r + 1 : tokens, seen = end > j ? end - j : 0;

            g->hi[r] = (int32_t)(seen < KERN_CHUNK ? seen : KERN_CHUNK);
        }
        a.k_tile = g->k_tile + j / KERN_TILE;
        a.v_tile = g->v_tile + j / KERN_TILE;
        a.next = a.k_tile + KERN_CHUNK_TILES;
        a.n_next = j + KERN_CHUNK < tokens ? KERN_CHUNK_TILES : 0;
        switch (w->s->fn) {
        case KERN_FN_attn_i4: w->k->attn_i4(&a); break;
        case KERN_FN_attn_i8: w->k->attn_i8(&a); break;
        case KERN_FN_attn_bf16: w->k->attn_bf16(&a); break;
        default: w->k->attn_f32(&a);
        }
    }
}

static void call_vector(void *work)
{
    struct task *w = work;
    const struct kern *k = w->k;
    struct ground *g = w->g;
    size_t n = w->s->n;
    volatile size_t place;
    volatile float value;
    const char *column[KERN_NR];

    switch (w->s->fn) {
    case KERN_FN_gemm_in_f32: k->gemm_in_f32(g->c, g->x, 0, 1, n); break;
    case KERN_FN_gemm_in_bf16: k->gemm_in_bf16(g->c, g->x, 0, 1, n); break;
    case KERN_FN_gemm_in_i8: k->gemm_in_i8(g->c, g->x, 0, 1, n, 0); break;
    case KERN_FN_gemm_in_blocks: k->gemm_in_blocks(g->c, g->x, 0, 1, n); break;
    case KERN_FN_attn_fold:
        value = 1;
        k->attn_fold(&g->max[0], &g->sum[0], g->c, 0.5f, value, g->y, n);
        break;
    case KERN_FN_attn_finish: k->attn_finish(g->c, g->x, 2, n); break;
    case KERN_FN_rms_norm: k->rms_norm(g->c, g->z, g->y, g->x, n, 1e-5f); break;
    case KERN_FN_layer_norm: k->layer_norm(g->c, g->z, g->y, g->x, g->y, n, 1e-5f); break;
    case KERN_FN_add: k->add(g->z, g->y, n); break;
    case KERN_FN_scale: k->scale(g->c, 1, n); break;
    case KERN_FN_scale_add: k->scale_add(g->z, g->y, 0.5f, n); break;
    case KERN_FN_rope_half: k->rope_half(g->z, g->cos, g->sin, n / 2); break;
    case KERN_FN_rope_pair: k->rope_pair(g->z, g->cos, g->sin, n / 2); break;
    case KERN_FN_act: k->act(g->c, g->x, n, KERN_GELU_TANH); break;
    case KERN_FN_glu: k->glu(g->c, g->x, g->y, n, KERN_SILU); break;
    case KERN_FN_softcap: k->softcap(g->z, 30, n); break;
    case KERN_FN_to_bf16: k->to_bf16((uint16_t *)(void *)g->c, g->x, n); break;
    case KERN_FN_to_i4:
        k->to_i4((uint8_t *)g->c, (uint8_t *)g->max, (uint16_t *)(void *)g->sum, g->x, n);
        break;
    case KERN_FN_to_i8: k->to_i8((int8_t *)g->c, g->max, g->x, n); break;
    case KERN_FN_hadamard: k->hadamard(g->z, n); break;
    case KERN_FN_pack_words:
        for (size_t c = 0; c < KERN_NR; c++)
            column[c] = (const char *)(g->x + c * (n / KERN_NR));
        k->pack_words((uint32_t *)(void *)g->c, column, n / KERN_NR, true);
        break;
    case KERN_FN_argmax:
        place = k->argmax(g->x, n);
        (void)place;
        break;
    case KERN_FN_gumbel_argmax:
        place = k->gumbel_argmax(g->x, n, NULL, (const uint32_t[]){1, 2});
        (void)place;
        break;
    case KERN_FN_max: value = k->max(g->x, n); break;
    case KERN_FN_exp_sum: value = k->exp_sum(g->x, n, 1); break;
    case KERN_FN_exp_dot: value = k->exp_dot(g->x, n, 1); break;
    default: ASSERT(0, "kernel %s has no benchmark", kern_name(w->s->fn));
    }
}

/* Sets w->panel and w->n_panels to the panels of a gemm that thread number THREAD of N threads computes. */
static void take_panels(struct task *w, enum cpu_isa isa, int thread, int n)
{
    size_t end;

    pool_share(w->s->n / KERN_NR, 1, thread, n, &w->panel, &end);
    w->n_panels = end - w->panel;
    w->calls = 1;
    if (w->s->m && !w->s->tokens && isa == CPU_REF && w->n_panels > REF_PANELS) {
        w->calls = (double)w->n_panels / REF_PANELS;
        w->n_panels = REF_PANELS;
    }
}

/* Computes the cost of a call of W and returns the function that makes the call. */
static void (*prepare(struct task *w))(void *work)
{
    const struct work_shape *s = w->s;
    double size = s->fn == KERN_FN_gemm_i8 || s->fn == KERN_FN_gemm_blocks ? 1
                  : w->bf16                                                ? 2
                                                                           : 4,
           columns = (double)(w->n_panels * KERN_NR), tokens = (double)s->tokens, m = (double)s->m;
    double pairs = s->m == PREFILL_ROWS ? m * (tokens - m) + m * (m + 1) / 2 : DECODE_ROWS * m * tokens;

    switch (s->fn) {
    case KERN_FN_gemm_f32:
    case KERN_FN_gemm_bf16:
    case KERN_FN_gemm_i8:
        w->bytes = (columns + m) * GEMM_K * size + m * columns * 4;
        w->flops = 2 * m * GEMM_K * columns;
        return call_gemm;
    case KERN_FN_gemm_i4:
        w->bytes =
            columns / KERN_NR * (double)int4_panel_bytes(GEMM_K, INT4_GROUP) + m * (GEMM_K + columns * 4);
        w->flops = 2 * m * GEMM_K * columns;
        return call_gemm_i4;
    case KERN_FN_gemm_mx4_f32:
    case KERN_FN_gemm_mx4_bf16:
        w->bytes = columns / KERN_NR * (GEMM_K / MX4_GROUP_SIZE) * MX4_GROUP_BYTES + m * GEMM_K * size +
                   m * columns * 4;
        w->flops = 2 * m * GEMM_K * columns;
        w->content = MX4;
        return call_gemm_mx4;
    case KERN_FN_gemm_blocks:
        w->bytes =
            columns / KERN_NR * (double)groups_panel_bytes(quant_format_of((enum dtype)s->of), GEMM_K) +
            m * (GEMM_K * size + columns * 4);
        w->flops = 2 * m * GEMM_K * columns;
        w->content = MX4;
        return call_gemm_blocks;
    case KERN_FN_attn_f32:
    case KERN_FN_attn_bf16:
    case KERN_FN_attn_i8: /* the region's random floats are also valid as int8 values and as scales */
    case KERN_FN_attn_i4:
        w->bytes = 2 * tokens / KERN_TILE * (double)tile_bytes(s);
        w->flops = 4 * pairs * (double)s->n;
        return call_attn;
    default:
        w->bytes = (double)s->n * s->of;
        w->flops = 0; /* operations of this kernel are not counted */
        return call_vector;
    }
}

/* Sets the cached operands to random numbers, in bf16 if BF16 is set, and clears the results of the last
 * kernel. */
static void ground_reset(struct ground *g, bool bf16)
{
    uint32_t state = 2;

    for (size_t i = 0; i < 3 * VECTOR; i++)
        g->x[i] = noise(&state);
    memset(g->c, 0, (size_t)PREFILL_ROWS * GEMM_N * sizeof(float));
    g->max[0] = 1;
    g->sum[0] = 1;
    if (!bf16)
        return;
    for (size_t i = 0; i < 2 * VECTOR; i++) {
        uint16_t h[2] = {dtype_f32_to_bf16(g->x[i]), dtype_f32_to_bf16(-g->x[i])};

        memcpy(&g->x[i], h, 4);
    }
}

/* The threads with their memory, and the roofs. */
struct team {
    struct pool *pool;
    int n;
    struct ground **ground; /* [n] */
    struct roof roof;
    struct peak peak;
    bool json;
};

/* Sets the loop in *B that measures the arithmetic roof of a kernel of CLASS, and returns the name of the
 * roof. */
static const char *arithmetic_of(const struct team *t, const char *class, struct roof_round *b)
{
    b->loop = t->peak.fma;
    if (strcmp(class, "int8 dot") == 0 || strcmp(class, "int8 sum") == 0) {
        b->loop = t->peak.dot8;
        return "int8";
    }
    if (strncmp(class, "bf16 ", 5) != 0)
        return "fp32";
    if (t->roof.bf16_native)
        b->loop = t->peak.dot;
    return "bf16";
}

/* Prints one result: the time of the shape, and the rates of all threads together. ROOF is the name of the
 * roof that limits the kernel (memory or arithmetic), or "" for vector kernels. */
static void print_line(const struct team *t, const struct row *r, const struct task *w, const char *roof,
                       const struct roof_round_result *m)
{
    double us = m->seconds * w->calls * 1e6, gb = t->n * w->bytes / m->seconds * 1e-9,
           gf = t->n * w->flops / m->seconds * 1e-9;
    const char *fn = kern_name(w->s->fn), *isa = cpu_isa_name(r->isa);

    if (t->json) {
        json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:f,s:f}", "kernel", fn, "isa", isa, "class", r->class,
                              "shape", w->s->text, "us", us, "gb_s", gb);

        json_object_set_new(o, "gflop_s", *roof ? json_real(gf) : json_null());
        json_object_set_new(o, "roof", *roof ? json_string(roof) : json_null());
        json_object_set_new(o, "roof_share", *roof ? json_real(m->share) : json_null());
        print_json(o);
    } else {
        print_fmt("%-13s  %-10s  %-8s  %-22s  %11.3f  %7.1f  ", fn, isa, r->class, w->s->text, us, gb);
        if (*roof)
            print_fmt("%8.1f  %3.0f%% of %s\n", gf, m->share * 100, roof);
        else
            print_fmt("%8s  in cache\n", "-");
    }
}

static void print_roof(const struct team *t)
{
    const struct roof *r = &t->roof;

    if (t->json) {
        print_json(json_pack("{s:s,s:s,s:i,s:f,s:f,s:b,s:f,s:f}", "kernel", "roof", "cpu", cpu_model(),
                             "threads", t->n, "fp32_gflop_s", r->fp32_flops * 1e-9, "bf16_gflop_s",
                             r->bf16_flops * 1e-9, "bf16_native", (int)r->bf16_native, "int8_gop_s",
                             r->int8_ops * 1e-9, "dram_gb_s", r->dram_bytes * 1e-9));
        return;
    }
    print_fmt("%s, %d thread%s: fp32 %.1f GFLOP/s, bf16 ", cpu_model(), t->n, t->n == 1 ? "" : "s",
              r->fp32_flops * 1e-9);
    if (r->bf16_native)
        print_fmt("%.1f GFLOP/s, ", r->bf16_flops * 1e-9);
    else
        print_fmt("as fp32 (widened), ");
    if (r->int8_ops > 0)
        print_fmt("int8 %.1f GOP/s, ", r->int8_ops * 1e-9);
    else
        print_fmt("no int8 dot product, ");
    print_fmt("memory %.1f GB/s\n", r->dram_bytes * 1e-9);
    print_fmt("%-13s  %-10s  %-8s  %-22s  %11s  %7s  %8s  %s\n", "kernel", "isa", "class", "shape", "us",
              "GB/s", "GFLOP/s", "roof");
}

/* ---- all kernels ---- */

/* Task of the thread pool: fills the memory of a thread, so that its pages are allocated on the thread's NUMA
 * node. */
static void run_fill(void *ctx, int thread, int n_threads)
{
    struct task *w = ((struct task **)ctx)[thread];

    (void)n_threads;
    if (w->flops > 0)
        ground_fill(w->g, w->content);
    ground_reset(w->g, w->s->fn == KERN_FN_gemm_bf16 || w->s->fn == KERN_FN_gemm_mx4_bf16);
}

/* Measures row R of kern.def on shape S for SECONDS, and prints the result. */
static int bench_shape(const struct team *t, const struct row *r, const struct work_shape *s, double seconds,
                       struct err *e)
{
    struct task work[MAX_THREADS], *each[MAX_THREADS];
    struct roof_round b = {.pool = t->pool, .work = (void *const *)each, .piece = next_piece};
    struct roof_round_result m;
    struct kern k;
    const char *roof;

    kern_rows(r->isa, &k);
    for (int i = 0; i < t->n; i++) {
        each[i] = &work[i];
        work[i] = (struct task){.g = t->ground[i], .s = s, .k = &k};
        work[i].bf16 =
            s->fn == KERN_FN_gemm_bf16 || s->fn == KERN_FN_attn_bf16 || s->fn == KERN_FN_gemm_mx4_bf16;
        work[i].content = work[i].bf16 ? BF16 : FLOATS;
        take_panels(&work[i], r->isa, i, t->n);
        b.call = prepare(&work[i]);
    }
    pool_run(t->pool, run_fill, each);
    b.bytes = work->bytes;
    b.flops = work->flops;
    b.read = t->peak.read;
    roof = arithmetic_of(t, r->class, &b);
    m = roof_rounds(&b, seconds);
    print_line(t, r, work, work->flops == 0 ? "" : m.memory ? "dram" : roof, &m);
    return print_flush(e);
}

static int open_team(struct team *t, int threads, struct err *e)
{
    size_t bytes = regions_bytes / (size_t)threads / least_region_bytes * least_region_bytes;
    int rc = pool_new(&t->pool, threads, e);

    if (rc)
        return rc;
    bytes = bytes ? bytes : least_region_bytes;
    t->ground = mem_zalloc((size_t)threads, sizeof(*t->ground), MEM_APP);
    for (; t->ground && t->n < threads && rc == 0; t->n++) {
        t->ground[t->n] = map_region_new(sizeof(**t->ground));
        if (!t->ground[t->n])
            return err_nomem(e, "the benchmark's tables");
        rc = ground_open(t->ground[t->n], bytes, e);
    }
    return t->ground ? rc : err_nomem(e, "the benchmark");
}

static void close_team(struct team *t)
{
    for (int i = 0; i < t->n; i++) {
        ground_close(t->ground[i]);
        map_region_free(t->ground[i], sizeof(**t->ground));
    }
    mem_free(t->ground);
    pool_free(t->pool);
}

int bench_kernels(int threads, const char *only, bool json, double seconds_per_row, struct err *e)
{
    struct team t = {.json = json};
    struct roof_meter roofs;
    int rc;

    if (threads > MAX_THREADS)
        return err_set(e, ERR_INPUT, "--threads: found %d, expected at most %d with --kernels", threads,
                       MAX_THREADS);
    if ((rc = open_team(&t, threads, e)) == 0) {
        peak_best(&t.peak);
        if ((rc = roof_meter_open(&roofs, t.pool, e)) == 0)
            roof_meter_measure(&roofs, 1, &t.roof);
        roof_meter_close(&roofs);
        if (rc == 0) {
            print_roof(&t);
            rc = print_flush(e);
        }
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (size_t k = 0; k < sizeof shapes / sizeof *shapes && cpu_has(rows[i].isa); k++)
                if (shapes[k].fn == rows[i].fn && strncmp(kern_name(rows[i].fn), only, strlen(only)) == 0 &&
                    rc == 0)
                    rc = bench_shape(&t, &rows[i], &shapes[k], seconds_per_row, e);
    }
    close_team(&t);
    return rc;
}
