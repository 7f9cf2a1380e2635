/* amx_attn_bf16.c - attention over one chunk with TDPBF16PS, in the arithmetic class "bf16 tile dot".
 *
 *   scores  a tile of keys (16 tokens) is read as one AMX tile, operand B, for every 32 dims: 16 pairs of
 *           dims for each token. If 16 dims remain, the last AMX tile has 8 pairs. The rows of q are
 *           multiplied with two tiles of keys at a time
 *   weights as in avx512_attn.h
 *   values  a tile of values (16 tokens) is read as one AMX tile, operand B, for every 16 dims: 8 pairs of
 *           tokens for each dim. The sums of four of these AMX tiles (64 dims) are in registers at once
 *
 * So a score is the ascending sum of slices of 32 dims, and an output that of slices of 16 tokens (a KV
 * tile). Up to 16 query rows are computed together. While one KV tile is computed, all cache lines of a later
 * one are prefetched, in the order of memory.
 */
#include "kern/amx/amx_tile.h"
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_attn.h"

enum {
    HALF = AMX_WORDS / 2,                        /* pairs in 16 dims, and in the 16 tokens of a tile */
    Q_STRIDE = AVX512_STRIDE * sizeof(uint32_t), /* bytes from one row of q to the next */
    P_STRIDE = KERN_CHUNK * sizeof(uint32_t), /* bytes from one row of scores, or of weights, to the next */
    DIMS = 4 * KERN_TILE,                     /* dims of the output that are accumulated at once */
};

/* Sets the shapes of the AMX tiles for ROWS query rows. Tiles 0 to 3 hold sums or operand A, tiles 4 and 5
 * operand B, for products over 32 dims. Tiles 6 (operand A, 8 words a row) and 7 (operand B, 8 rows) are for
 * products over 16 dims or 16 tokens. */
static void shape(size_t rows)
{
    struct amx_shapes s = {.palette = 1};

    for (int i = 0; i < 8; i++)
        s.bytes[i] = AMX_LINE;
    for (int i = 0; i < 4; i++)
        s.rows[i] = (uint8_t)rows;
    s.rows[4] = s.rows[5] = AMX_WORDS;
    s.rows[6] = (uint8_t)rows;
    s.bytes[6] = HALF * sizeof(uint32_t);
    s.rows[7] = HALF;
    AMX_SHAPES(&s);
}

/* Prefetches all lines of KV tile number I, counted as in prefetch_attn_tile(). */
static void ask(const struct avx512_attn *o, size_t i)
{
    const char *at;

    if (o->lead == 0)
        return;
    at = prefetch_attn_tile(o->a, o->t0, o->t1, i);
    for (size_t n = 0; n < o->tile_bytes; n += PREFETCH_LINE)
        prefetch_line(at + n, o->level2);
}

/* Computes the dot products of all query rows with the key tiles T and T + 1. If T is the last tile, it is
 * computed twice. */
static void dots(const struct avx512_attn *o, size_t t)
{
    const size_t next = t + 1 < o->t1 ? t + 1 : t;
    const char *k0 = o->a->k_tile[t], *k1 = o->a->k_tile[next];
    const char *q = (const char *)o->q;
    size_t d = 0;

    ask(o, t - o->t0 + o->lead);
    if (next != t)
        ask(o, next - o->t0 + o->lead);
    AMX_ZERO(0);
    AMX_ZERO(1);
    for (; d + 32 <= o->a->dp;
         d += 32, q += AMX_LINE, k0 += AMX_WORDS * AMX_LINE, k1 += AMX_WORDS * AMX_LINE) {
        AMX_LOAD(2, q, Q_STRIDE);
        AMX_LOAD(4, k0, AMX_LINE);
        AMX_BF16(0, 2, 4);
        AMX_LOAD(5, k1, AMX_LINE);
        AMX_BF16(1, 2, 5);
    }
    if (d < o->a->dp) {
        AMX_LOAD(6, q, Q_STRIDE);
        AMX_LOAD(7, k0, AMX_LINE);
        AMX_BF16(0, 6, 7);
        AMX_LOAD(7, k1, AMX_LINE);
        AMX_BF16(1, 6, 7);
    }
    AMX_STORE(0, o->s + t * KERN_TILE, P_STRIDE);
    AMX_STORE(1, o->s + next * KERN_TILE, P_STRIDE);
}

/* Computes the dims [d, d + 16 n) of the outputs of all query rows. */
static void values(const struct avx512_attn *o, size_t d, size_t n)
{
    const size_t line = o->a->dp * sizeof(uint32_t), out_stride = o->a->dp * sizeof(float);
    float *out = o->a->out + o->row * o->a->dp + d;

    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
    for (size_t t = o->t0; t < o->t1; t++) {
        const char *v = (const char *)o->a->v_tile[t] + d * sizeof(uint32_t);

        if (d == 0)
            ask(o, o->t1 - 2 * o->t0 + t + 2 * o->lead);
        AMX_LOAD(6, o->p + t * HALF, P_STRIDE);
        AMX_LOAD(7, v, line);
        AMX_BF16(0, 6, 7);
        if (n > 1) {
            AMX_LOAD(7, v + AMX_LINE, line);
            AMX_BF16(1, 6, 7);
        }
        if (n > 2) {
            AMX_LOAD(7, v + 2 * AMX_LINE, line);
            AMX_BF16(2, 6, 7);
        }
        if (n > 3) {
            AMX_LOAD(7, v + 3 * AMX_LINE, line);
            AMX_BF16(3, 6, 7);
        }
    }
    AMX_STORE(0, out, out_stride);
    if (n > 1)
        AMX_STORE(1, out + 16, out_stride);
    if (n > 2)
        AMX_STORE(2, out + 32, out_stride);
    if (n > 3)
        AMX_STORE(3, out + 48, out_stride);
}

/* Computes the scores, the weights and the weighted sums of values for the query rows of O. */
static void rows(struct avx512_attn *o)
{
    const size_t dp = o->a->dp;
    float *out = o->a->out + o->row * dp;

    avx512_attn_fill(o, AVX512_DOT);
    for (size_t t = o->t0; t < o->t1; t += 2)
        dots(o, t);
    avx512_attn_weigh_all(o, AVX512_DOT);
    for (size_t d = 0; d < dp; d += DIMS)
        values(o, d, dp - d < DIMS ? (dp - d) / 16 : DIMS / 16);
    for (size_t i = 0; i < o->rows * dp; i += 16)
        _mm512_storeu_ps(out + i, _mm512_add_ps(_mm512_loadu_ps(out + i), _mm512_setzero_ps()));
}

void KERN_NAME(amx_attn_bf16)(const struct kern_attn *a)
{
    _Alignas(64) uint32_t q[AMX_ROWS * AVX512_STRIDE];
    struct avx512_attn o = {.a = a,
                            .q = q,
                            .s = a->scratch,
                            .p = (uint32_t *)(void *)a->scratch + KERN_ATTN_ROWS * KERN_CHUNK,
                            .tile_bytes = a->dp * KERN_TILE * sizeof(uint16_t),
                            .level2 = cpu_prefetches_to_l2()};
    size_t tiles = (a->m + AMX_ROWS - 1) / AMX_ROWS, shaped = 0;

    o.lead = avx512_attn_lead(&o);
    for (size_t i = 0; i < tiles; i++) {
        avx512_attn_take(&o, a->m * i / tiles, a->m * (i + 1) / tiles);
        if (o.rows != shaped)
            shape(shaped = o.rows);
        rows(&o);
        o.lead = 0; /* for the next rows all tiles are in L2 */
    }
    AMX_RELEASE();
}
