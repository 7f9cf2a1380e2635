/* attention.h - the attention kernels: query rows against one chunk of the KV cache, and the fold of chunks.
 *
 * The keys are cut into chunks of KERN_CHUNK absolute positions. For each query row, a kernel computes the
 * maximum score, the sum of weights and the weighted sum of values of one chunk. attn_fold joins the chunks
 * in ascending order, and attn_finish divides by the sum of weights.
 */
#ifndef GALLOP_KERN_ATTENTION_H
#define GALLOP_KERN_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

enum {
    KERN_TILE = 16,   /* tokens of a KV tile */
    KERN_CHUNK = 256, /* token positions in an attention chunk; chunks begin at multiples of it */
    KERN_CHUNK_TILES = KERN_CHUNK / KERN_TILE,
    KERN_ATTN_ROWS = 48,  /* maximum query rows that a kernel computes together */
    KERN_ATTN_DIM = 512,  /* maximum padded head dim */
    KERN_I8_QUERY = 127,  /* class "int8 dot": the integer to which the largest |q| of a row is scaled */
    KERN_I8_WEIGHT = 255, /* class "int8 dot": the integer to which the largest weight of a row is scaled */
};

/* The arguments of an attention kernel, which computes M query rows against one chunk of one KV head. */
struct kern_attn {
    /* The query rows, [m, dp] contiguous. The elements from the head dim to dp are zeros. */
    const void *q;

    /* The tiles of keys and of values, [n_tiles] each, of KERN_TILE tokens. The comment at each kernel type
     * below defines their layout. Tiles are best aligned to 64 bytes. Tokens that a row does not see may hold
     * any finite values, and keys of any numbers, also NaN: a NaN key makes the sum of each row that sees it
     * NaN, so that attn_finish gives NaN. */
    const void *const *k_tile;
    const void *const *v_tile;

    /* The visible tokens of each query row, [m] each: row r sees the tokens lo[r] <= j < hi[r] of the chunk,
     * where 0 <= lo and hi <= 16 n_tiles. All other tokens have the weight 0. */
    const int32_t *lo, *hi;

    /* The sums of weighted values, [m, dp]. */
    float *out;

    /* The maximum score and the sum of weights of each row, [m] each. */
    float *max, *sum;

    /* Scratch of KERN_ATTN_ROWS * KERN_CHUNK floats, aligned to 64 bytes; twice as many floats for attn_bf16
     * and attn_i8, kern_i4_scratch_bytes(dp) bytes for attn_i4. */
    float *scratch;

    /* M: the number of query rows, without a limit. DP: the head dim padded to a multiple of 16, at most
     * KERN_ATTN_DIM. N_TILES: the number of tiles, at most KERN_CHUNK_TILES. */
    size_t m, dp, n_tiles;

    /* scale * (q . k) is a score. softcap limits the scores (0: no limit). */
    float scale, softcap;

    /* The key tiles of the chunk that the caller will compute next, [n_next], at most KERN_CHUNK_TILES. The
     * kernel prefetches them. */
    const void *const *next;
    size_t n_next;
};

/* Returns the bytes of a 4-bit tile of keys or of values, with DP dims for each token. */
static inline size_t kern_i4_tile_bytes(size_t dp)
{
    return KERN_TILE / 2 * dp + dp / 2 + KERN_TILE * sizeof(uint16_t);
}

/* Returns the bytes of scratch that attn_i4 needs. */
static inline size_t kern_i4_scratch_bytes(size_t dp)
{
    return 2 * KERN_ATTN_ROWS * KERN_CHUNK * sizeof(float) +
           2 * KERN_CHUNK_TILES * KERN_TILE * (dp + sizeof(float));
}

/* Attention to keys and values in fp32: a tile of keys is [dp][16], a tile of values [16][dp].
 *
 *   s = scale * (q . k), dims ascending in one accumulator; with a soft cap s = softcap * tanh(s / softcap)
 *   max[r] = (max of the visible s) + 0
 *   p = exp(s - max), computed as 2^(t - max t) with t = (scale * log2 e) * (q . k), or t = log2 e * s with a
 *       soft cap
 *   sum[r] = 16-lane sum of p over the chunk; p of a masked token is 0
 *   out[r, 0..dp) = (sum of p * v, tokens ascending, one accumulator for each element) + 0
 *
 * Adding +0 makes every zero positive, so that the result does not show whether a kernel skipped a token of
 * weight 0. A row that sees no token gets max = -infinity, sum = 0 and out = 0. */
typedef void kern_attn_f32_fn(const struct kern_attn *a);

/* Attention to keys and values in bf16: a tile of keys is [dp / 2][16][2], pairs of dims; a tile of values is
 * [8][dp][2], pairs of tokens. The arithmetic is that of kern_attn_f32_fn, except that p is rounded to bf16
 * (nearest, ties to even) for the product with v, but not for the sum of weights. The classes "bf16 dot" and
 * "bf16 tile dot" round q to bf16. The class "bf16 tile dot" sums a score in slices of 32 dims (the last
 * slice may have 16) and an output in slices of the 16 tokens of a tile. */
typedef void kern_attn_bf16_fn(const struct kern_attn *a);

/* Attention to keys and values in int8 with one scale for each token. A tile of keys is int8 [dp / 4][16][4],
 * four consecutive dims together; a tile of values is int8 [4][dp][4], four consecutive tokens together. Each
 * tile ends with the scales of its tokens, float [16], not negative. Tokens that a query row does not see may
 * hold any bytes, any finite scales of values and any scales of keys, also NaN.
 *
 *   dot = fma(q[d], (float)k[d], dot), dims ascending;  s = scale * (dot * k_scale[token])
 *   out = fma(w, (float)v, acc), tokens ascending, then + 0;  w = p * v_scale[token], rounded to fp32
 *
 * The soft cap, max, p and sum are those of kern_attn_f32_fn. Class "int8 dot" works on integers:
 *
 *   n = rint(q * inv), inv = 127 / max |q|;  dot = (float)(n . k) * (max |q| / 127)
 *   n = rint(w * inv), inv = 255 / max w;    out = (float)(n . v) * (max w / 255) + 0
 *
 * If inv is infinite or NaN, all n of the row are 0. A NaN or infinity in a query row makes its dot products
 * NaN. */
typedef void kern_attn_i8_fn(const struct kern_attn *a);

/* Attention to keys and values in 4 bits, in tiles that format/attn_i4.h defines. The kernel expands each
 * tile to a tile of int8, which is exact, and runs attn_i8 of the same class. The tokens that a
 * query row does not see are as in kern_attn_i8_fn. */
typedef void kern_attn_i4_fn(const struct kern_attn *a);

/* Joins a chunk (m2, l2, o2) to the chunks before it (m, l, o): the maximum score, the sum of weights, and
 * the weighted sums of values [d].
 *
 *   n = max(m, m2);  a = exp(m - n);  b = exp(m2 - n)
 *   m = n;  l = fma(l, a, l2 * b);  o = fma(o, a, o2 * b)
 *
 * If m2 is -infinity and l2 is 0, the kernel does nothing. If m is -infinity and l is 0, it copies (m2, l2,
 * o2) to (m, l, o) without reading o. */
typedef void kern_attn_fold_fn(float *m, float *l, float *o, float m2, float l2, const float *o2, size_t d);

/* Computes out = o * (1 / l), [d], or zeros if l is 0. */
typedef void kern_attn_finish_fn(float *out, const float *o, float l, size_t d);

#endif
