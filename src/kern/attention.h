/* attention.h - the attention kernels: query rows against one chunk of the KV cache, and the fold of chunks.
 *
 * The keys are cut into chunks of KERN_CHUNK absolute positions. A kernel computes one chunk by itself, as
 * (max, sum, out) for each query row; attn_fold joins the chunks in ascending order and attn_finish divides.
 */
#ifndef GALLOP_KERN_ATTENTION_H
#define GALLOP_KERN_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

enum {
    KERN_TILE = 16,   /* tokens of a KV tile */
    KERN_CHUNK = 256, /* absolute positions of an attention chunk */
    KERN_CHUNK_TILES = KERN_CHUNK / KERN_TILE,
    KERN_ATTN_ROWS = 48,  /* query rows that a kernel works on at once; scratch is sized by it */
    KERN_ATTN_DIM = 512,  /* maximum dp */
    KERN_I8_QUERY = 127,  /* class "int8 dot": the largest |q| of a row is quantized to this */
    KERN_I8_WEIGHT = 255, /* class "int8 dot": the largest weight of a row is quantized to this */
};

/* The arguments of attention of M query rows to one chunk of one KV head. */
struct kern_attn {
    /* [m, dp] contiguous, the elements from the head dim to dp zeros. */
    const void *q;

    /* [n_tiles] tiles of KERN_TILE tokens; the types of the kernels say how a tile is laid out. Tiles are
     * best aligned to 64 bytes. Tokens that no query row sees may hold any finite numbers. */
    const void *const *k_tile;
    const void *const *v_tile;

    /* [m] each: row r sees the tokens lo[r] <= j < hi[r] of the chunk, 0 <= lo, hi <= 16 n_tiles. All other
     * tokens weigh exactly zero. */
    const int32_t *lo, *hi;

    /* [m, dp]: the sums of weighted values. */
    float *out;

    /* [m] each: the maximum score and the sum of weights of each row. */
    float *max, *sum;

    /* KERN_ATTN_ROWS * KERN_CHUNK floats, aligned to 64; twice as many for attn_bf16 and attn_i8;
     * kern_i4_scratch_bytes(dp) bytes for attn_i4. */
    float *scratch;

    /* The number of query rows, of any size; the head dim padded to a multiple of 16, at most KERN_ATTN_DIM;
     * and the number of tiles, at most KERN_CHUNK_TILES. */
    size_t m, dp, n_tiles;

    /* The factor of the scores, and the soft cap of the scores (0: none). */
    float scale, softcap;

    /* [n_next], at most KERN_CHUNK_TILES: tiles of keys that the caller will use next. The kernel may
     * prefetch them. */
    const void *const *next;
    size_t n_next;
};

/* Returns the bytes of a tile of keys, or of values, in 4 bits. */
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

/* Attention to keys and values in fp32: a tile of keys is [dp][16], one of values [16][dp].
 *
 *   s = scale * (q . k), dims ascending in one accumulator; with a soft cap s = softcap * tanh(s / softcap)
 *   max[r] = (max of the visible s) + 0
 *   p = exp(s - max), computed as 2^(t - max t) with t = (scale * log2 e) * (q . k), or t = log2 e * s with a
 *       soft cap
 *   sum[r] = 16-lane sum of p over the chunk, masked tokens 0
 *   out[r, 0..dp) = (sum of p * v, tokens ascending, one accumulator an element) + 0
 *
 * Adding +0 makes every zero positive, so that the result does not show whether a kernel skipped a token of
 * weight 0. A row that sees no token gets max = -infinity, sum = 0 and out = 0. */
typedef void kern_attn_f32_fn(const struct kern_attn *a);

/* Attention to keys and values in bf16: a tile of keys is [dp / 2][16][2], pairs of dims; one of values
 * [8][dp][2], pairs of tokens. The arithmetic is that of kern_attn_f32_fn, except that p is rounded to bf16
 * (nearest, ties to even) for the product with v, not for the sum. Classes "bf16 dot" and "bf16 tile dot"
 * round q to bf16; the latter sums scores in slices of 32 dims, or 16 at the end, and outputs in slices of
 * the tokens of a tile. */
typedef void kern_attn_bf16_fn(const struct kern_attn *a);

/* Attention to keys and values in int8 with a scale a token. A tile of keys is int8 [dp / 4][16][4], fours
 * of dims; one of values int8 [4][dp][4], fours of tokens; after either lie the scales of the tokens, float
 * [16], not negative. Tokens that no query row sees may hold any bytes and any finite scales.
 *
 *   dot = fma(q[d], (float)k[d], dot), dims ascending;  s = scale * (dot * k_scale[token])
 *   out = fma(w, (float)v, acc), tokens ascending, then + 0;  w = p * v_scale[token], rounded to fp32
 *
 * The soft cap, max, p and sum are those of kern_attn_f32_fn. Class "int8 dot" works on integers:
 *
 *   n = rint(q * inv), inv = 127 / max |q|;  dot = (float)(n . k) * (max |q| / 127)
 *   n = rint(w * inv), inv = 255 / max w;    out = (float)(n . v) * (max w / 255) + 0
 *
 * If INV is infinite or NaN, all of its n are zero. A NaN or an infinity in a row of q makes its dots NaN. */
typedef void kern_attn_i8_fn(const struct kern_attn *a);

/* Attention to keys and values in 4 bits, in tiles that attn_i4.h defines. Each tile is expanded exactly to
 * a tile of int8; the rest is attn_i8 of the same class. Tokens that no query row sees may hold any codes
 * and any finite scales. */
typedef void kern_attn_i4_fn(const struct kern_attn *a);

/* Joins the chunk (m2, l2, o2) to the running (m, l, o), which are a maximum, a sum of weights and D outputs.
 *
 *   n = max(m, m2);  a = exp(m - n);  b = exp(m2 - n)
 *   m = n;  l = fma(l, a, l2 * b);  o = fma(o, a, o2 * b)
 *
 * If l2 is 0 and m2 is -infinity the kernel does nothing. If the running m is -infinity, (m2, l2, o2) replace
 * (m, l, o), whatever o held. */
typedef void kern_attn_fold_fn(float *m, float *l, float *o, float m2, float l2, const float *o2, size_t d);

/* out = o * (1 / l) for D elements; zeros if l is 0. */
typedef void kern_attn_finish_fn(float *out, const float *o, float l, size_t d);

#endif
