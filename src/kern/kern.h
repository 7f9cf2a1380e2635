/* kern.h - the kernel table: pure functions on pointers, one per job, the best the machine has for each.
 *
 * A kernel allocates nothing, locks nothing, logs nothing, cannot fail and knows neither models nor threads:
 * callers cut the work. For every job there is a portable row in ref/ and faster rows in the ISA folders
 * (kern.def, best first).
 *
 * Order of arithmetic. Each output element has one canonical sum, the same in every row of an arithmetic
 * class, for every M, every tile and every caller, so that results are equal bit for bit:
 *   - gemm: one fp32 accumulator an element, starting at +0, k ascending, acc = fma(a[k], b[k], acc); bias is
 *     added last. bf16 operands are widened exactly. Class "bf16 dot" (AVX512-BF16) instead takes k in
 *     ascending pairs with VDPBF16PS, and class "bf16 tile dot" (AMX) blocks of 32 with TDPBF16PS: the even
 *     and the odd elements of a block by fma from +0, then acc = acc + (even + odd).
 *   - gemm_i8: sums of integers, exact in any order; what they become as floats is one formula.
 *   - 16-lane sums (norms, softmax sums): lane i adds elements i, i + 16, i + 32, ... ascending (missing ones
 *     are not added), then lanes fold as s[i] += s[i + 8], += s[i + 4], += s[i + 2], += s[i + 1] (i below the
 *     step).
 *   - exp, tanh, erf and everything built on them: the formulas of kmath.h, operation by operation.
 * Subnormals are honoured everywhere but inside VDPBF16PS and TDPBF16PS. No row may be compiled with
 * contraction; fma is written where it is meant. The bits of a NaN (sign, payload) are nobody's promise.
 */
#ifndef GALLOP_KERN_KERN_H
#define GALLOP_KERN_KERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

enum {
    KERN_NR = 32,        /* columns of a packed weight panel */
    KERN_PIECE = 32,     /* a gemm in pieces is cut at multiples of so many of K */
    KERN_TOGETHER = 256, /* rows that gemms of level amx take through panels together, at most */
    KERN_PANELS = 16,    /* panels that they take together, at most */
    KERN_PART = 64,      /* rows of a part of a gemm, at least */
    KERN_TILE = 16,      /* tokens of a KV tile */
    KERN_CHUNK = 256,    /* absolute positions of an attention chunk */
    KERN_CHUNK_TILES = KERN_CHUNK / KERN_TILE,
    KERN_ATTN_ROWS = 48,  /* query rows an attention kernel works on at once; scratch is sized by it */
    KERN_ATTN_DIM = 512,  /* largest dp of attention */
    KERN_I4_GROUP = 16,   /* elements of a row of 4 bits that share a factor */
    KERN_ROTATED = 2048,  /* largest block of hadamard; no head is longer */
    KERN_I8_QUERY = 127,  /* class "int8 dot": what stands for the largest of a row of q */
    KERN_I8_WEIGHT = 255, /* and of the weights of a row */
    KERN_I8_TAIL = 2 * KERN_NR * 4, /* bytes behind the weights of an int8 panel */
    KERN_I8_MOST_K = 65536,         /* of gemm_i8: 255 x 127 as often are less than 2^31 */
};

struct blocks_form; /* blocks.h */

enum kern_act { KERN_SILU, KERN_GELU_TANH, KERN_GELU_ERF, KERN_GELU_QUICK, KERN_RELU, KERN_N_ACTS };

/* What becomes of a gemm's sums with their bias. It goes to c, or, where that is NULL, into out. */
enum kern_gemm_end {
    KERN_SUMS, /* they stay as they are; to c only */
    KERN_ACT,  /* act(sum) */
    KERN_GLU,  /* act(gate) * up. A panel holds KERN_PAIRS columns of gate and the same ones of up */
};
enum { KERN_PAIRS = KERN_NR / 2 };

/* C[M, N] = A[M, K] x W[N, K]^T + bias[N] for the panels [p0, p1) of KERN_NR columns; or, of KERN_GLU, N
 * pairs of them, the panels whole and bias too: the last one's 16 + 16 columns are zeros beyond N.
 *
 *   in    A in the form that the row reads: all of its M rows were put there by gemm_in_f32, gemm_in_bf16 or
 *         gemm_in_i8 of the same table. M times kern_in_bytes(K), aligned to 64
 *   c     [M, N], rows ldc elements apart
 *   out   of KERN_ACT and KERN_GLU, but not of int8, whose rows are put whole: M times kern_in_bytes(N),
 *         where gemm_in_f32 or gemm_in_bf16 of the same table would put the rows of the result
 *   f32:  b [panels][K][32] float
 *   bf16: b [panels][(K + 1) / 2][32][2] bf16, pairs along K; an odd K is padded with zeros
 *   i8:   b [panels]{[(K + 3) / 4][32][4] int8, fours along K, the last padded with zeros; [32] int32, -128
 *         times the sum of each column's weights; [32] float, the scale of each column}. |weight| <= 127, K
 *         <= KERN_I8_MOST_K
 *   first the panel that b begins with, at most p0
 *   ahead the panel up to which the caller will go on, unless it is below p1: what lies in front of it may be
 *         asked for, and nothing behind it
 *   panel_k, onto of f32 and bf16: the gemm is a piece of one with panels of PANEL_K rows (0: of K), which
 *         lie as far apart; b begins with the first row of the piece. ONTO: sums begin with what c holds, not
 *         with +0. Pieces of K ascending, multiples of KERN_PIECE but for the last, that all end in
 *         KERN_SUMS, the bias with the last, are to the bit the gemm that they are pieces of
 *   part, parts of f32, bf16, i8 and blocks: only the PART-th of PARTS shares of the rows is computed, cut
 *         where the row likes to, each once. M is then at least KERN_PART times PARTS. 0, 0: all of them
 *   sums  kern_gemm_sums_bytes() of the table's row, aligned to 64, which no other thread uses; what lies
 *         there is lost
 * Columns beyond N are zeros in b and are not written to c. bias may be NULL. Panels lie one behind the
 * other. */
struct kern_gemm {
    const void *in;
    const void *b;
    float *c;
    size_t ldc;
    const float *bias;
    size_t m, k, n;
    enum kern_gemm_end end;
    enum kern_act act;
    void *out;
    size_t first, ahead;
    size_t panel_k;
    bool onto;
    size_t part, parts;
    float *sums;
};

/* Rows of the panels in b. */
static inline size_t kern_gemm_panel_k(const struct kern_gemm *g)
{
    return g->panel_k ? g->panel_k : g->k;
}

/* The part [*from, *to) of N equal things that is G's share of its rows. */
static inline void kern_gemm_share(const struct kern_gemm *g, size_t n, size_t *from, size_t *to)
{
    size_t parts = g->parts ? g->parts : 1;

    *from = n * g->part / parts;
    *to = n * (g->part + 1) / parts;
}

/* Scores M query rows against one chunk (at most KERN_CHUNK tokens) of one kv head, and weighs its values.
 *
 *   q       [m, dp] contiguous float; zeros from d to dp. Classes "bf16 dot" and "bf16 tile dot" round it to
 *           bf16; the latter sums scores in blocks of 32 dims, or of 16 at the end, and outputs in blocks of
 *           the tokens of a tile
 *   k_tile  n_tiles pointers; a tile holds 16 tokens: f32 [dp][16]; bf16 [dp / 2][16][2] (pairs of dims)
 *   v_tile  n_tiles pointers; f32 [16][dp]; bf16 [8][dp][2] (pairs of tokens)
 *   next    n_next pointers, at most KERN_CHUNK_TILES: tiles of keys that the caller will ask for next, a
 *           hint to the hardware
 *   lo, hi  [m] row r sees the tokens lo[r] <= j < hi[r] of the chunk; others weigh exactly zero.
 *           0 <= lo, hi <= 16 n_tiles. Tokens nobody of the m rows sees may hold anything finite.
 *   s = scale * (q . k), dims ascending in one accumulator; if softcap > 0: s = softcap * tanh(s / softcap)
 *   max[r] = (max of visible s) + 0; p = exp(s - max), as 2^(t - max t) with t = (scale * log2 e) * (q . k),
 *           or log2 e * s with a softcap; sum[r] = 16-lane sum of p over the chunk (masked: 0)
 *   out[r, 0..dp) = (sum over tokens ascending of p * v, one accumulator an element) + 0. Adding +0 makes a
 *           zero positive, so that it cannot be told whether a kernel skipped a token of weight 0 or worked
 *           on it. attn_bf16 rounds p to bf16 (nearest even) for the product with v, not for the sum.
 *   A row that sees nothing: max = -infinity, sum = 0, out = 0.
 * attn_i8: k_tile int8 [dp / 4][16][4] (fours of dims), then float [16], the scale of each token, not
 *   negative; v_tile int8 [4][dp][4] (fours of tokens), then float [16]. dot = dims ascending fma(q[d],
 *   (float)k[d], dot); s = scale * (dot * k_scale[token]); softcap, max, p and sum as above; out = tokens
 *   ascending fma(p * v_scale[token], (float)v, acc), + 0, the product w of p and its scale rounded to fp32.
 *   Tokens nobody sees: any bytes, any finite scales.
 *   Class "int8 dot" works on integers. Of q: n = rint(q * inv), inv = 127 / max |q|; dot = (float)(n . k) *
 *   (max |q| / 127). Of w: n = rint(w * inv), inv = 255 / max w; out = (float)(n . v) * (max w / 255) + 0.
 *   Where inv is infinite or NaN all of it is zero. A NaN or an infinity in q makes its dots NaN.
 * attn_i4: tiles as attn_i4.h says, in 4 bits: each becomes a tile of int8, exactly, and all is as attn_i8 of
 * the
 *   same class has it. Tokens nobody sees: any codes, any finite scales.
 * m may be anything; a kernel works through it in blocks of KERN_ATTN_ROWS at most. dp is a multiple of 16,
 * at most KERN_ATTN_DIM. Tiles are best aligned to 64 bytes, but need not be. scratch: KERN_ATTN_ROWS *
 * KERN_CHUNK floats, 64-byte aligned, and as much again for attn_bf16 and attn_i8; attn_i4:
 * kern_i4_scratch_bytes(dp). */
struct kern_attn {
    const void *q;
    const void *const *k_tile;
    const void *const *v_tile;
    const int32_t *lo, *hi;
    float *out; /* [m, dp] */
    float *max, *sum;
    float *scratch;
    size_t m, dp, n_tiles;
    float scale, softcap;
    const void *const *next;
    size_t n_next;
};

/* Bytes that the input of a gemm takes for a row of K elements, at most, whatever row reads it. */
static inline size_t kern_in_bytes(size_t k)
{
    return (k + 31) / 32 * 32 * sizeof(float);
}

/* Bytes of an int8 panel. */
static inline size_t kern_i8_panel_bytes(size_t k)
{
    return (k + 3) / 4 * 4 * KERN_NR + KERN_I8_TAIL;
}

/* Bytes of a tile of keys, or of values, in 4 bits. */
static inline size_t kern_i4_tile_bytes(size_t dp)
{
    return KERN_TILE / 2 * dp + dp / 2 + KERN_TILE * sizeof(uint16_t);
}

static inline size_t kern_i4_scratch_bytes(size_t dp)
{
    return 2 * KERN_ATTN_ROWS * KERN_CHUNK * sizeof(float) +
           2 * KERN_CHUNK_TILES * KERN_TILE * (dp + sizeof(float));
}

/* Every kernel: X(name, return type, (parameters)). Vectors need no alignment and may have any length. out
 * may be the input.
 *
 * gemm_in_f32, gemm_in_bf16: x [k], row ROW of the M rows of a gemm, to where it belongs in IN; bf16: rounded
 * to
 *             nearest even.
 * gemm_in_i8:  the same in integers. m = the largest |x|, or FIXED, where that is not 0: of x beyond it n is
 *             127 or -127; inv = 127 / m; n = rint(x * inv), ties to even; the
 * row's
 *             scale = m / 127. Where inv is infinite n and scale are 0. If an x is NaN or infinite, scale is
 *             NaN.
 * gemm_i8:     y = (float)(sum of n * weight) * (row's scale * column's scale), then bias. The column's int32
 * is for
 *             rows that add 128 to n, to multiply bytes without a sign.
 * gemm_i4:     gemm_i8 with b in 4 bits, packed in groups of GROUP, 32 or 128, as int4.h says; K is a
 * multiple
 *             of 32. scratch: an int8 panel, 64-byte aligned.
 * gemm_mx4_f32, gemm_mx4_bf16: gemm_f32 and gemm_bf16 with b in MXFP4, packed as mx4.h says; K is a multiple
 *             of 32, A was put there by the same gemm_in_*. A weight is FP4[nibble] * 2^(scale - 127), FP4 =
 *             0, .5, 1, 1.5, 2, 3, 4, 6 and from nibble 8 on their negatives: exact in fp32 and bf16. Scales
 *             with which a value reaches 2^128, and 255, which is NaN, may not be there (OCP Microscaling
 *             1.0). scratch: a panel as the gemm has it, 64-byte aligned.
 * gemm_in_blocks: x [k], k a multiple of 32, as gemm_in_i8 does it, but each 32 elements with a scale of
 *             their own, to where blocks.h says.
 * gemm_blocks: C = A x W^T + bias with b in the form F of blocks.h. From +0, groups of 32 (or halves of 16)
 *             ascending: y = fma((float)(sum of n * (code - zero)), d * scale, y); then, with minimums, y =
 *             fma(min, scale * (float)(sum of n), y). Products of halves and multiples are exact. Of
 *             powers: y = fma((float)(sum of n * (code - zero)) * d, scale, y).
 * rms_norm:   if (r) x += r first (stored); out = w * (x * (1 / sqrtf(sum(x^2) / n + eps))); the sum is
 *             16-lane with fma(x, x, s). w NULL: no scale.
 * layer_norm: if (r) x += r (stored); mean = sum(x) / n; var = sum((x - mean)^2) / n (16-lane sums; fma for
 *             squares); out = fma((x - mean) * inv, w, b), inv = 1 / sqrtf(var + eps); w, b may be NULL
 *             (as if 1, 0).
 * add:        x += r.
 * rope_half:  pairs (i, i + half): x1' = fma(-x2, s, x1 * c), x2' = fma(x1, s, x2 * c); cos, sin [half].
 * rope_pair:  the same for pairs (2i, 2i + 1).
 * act:        out = f(x).  glu: out = f(gate) * up. A gemm's ends KERN_ACT and KERN_GLU are these.
 * to_bf16:    rounds to nearest even.  scale_add: y = fma(a, x, y).  scale: x *= a.
 * softcap:    x = cap * tanh(x / cap).
 * to_i8:      absmax quantisation: m = the largest |x| (NaN ignored, 0 if there is nothing else);
 *             inv = 127 / m. If inv is infinite (m is 0, or below 2^-121 or so): scale = 0, out = zeros. Else
 *             scale = m / 127; y = x * inv; y = 127 unless y < 127 (also for NaN); y = -127 unless y > -127;
 *             out = y rounded to the nearest integer, ties to even. With an infinite x scale is infinite.
 * to_i4:      x [n] in 4 bits, padded with zeros to groups of 16; code [up(n, 16)] from 0 to 15, factor
 *             [up(n, 16) / 16] from 0 to 15. m as in to_i8; s = *scale = bf16(m / 112); z = x * (1 / s); if 1
 *             / s is infinite: scale 0, z = 0. Of each group: t = the first of 1 to 16 with 7 t >= its
 *             largest |z| (NaN ignored), or 16; for f = t - 4 (at least 1) to t: y = z * (1 / f); y = 7
 *             unless y < 7, y = -8 unless y > -8; c = y rounded, ties to even; lost = 16-lane sum of (z - c *
 *             f)^2. f with the least, the lowest of equals (t if all are NaN): code = c + 8, factor = f - 1.
 * hadamard:   turns x [n] by the Hadamard matrix H over its root, in blocks of the largest power of two that
 *             divides n, of KERN_ROTATED at most: for half = 1, 2, 4, ... (x[j], x[j + half]) = (x[j] + x[j +
 *             half], x[j] - x[j + half]), then x *= 1 / sqrtf(block). Products of rows that are both turned
 *             stay what they are; few large elements, which would leave a scale a row few bits for the rest,
 *             are spread over all. Its own inverse. QuaRot (Ashkboos et al. 2024).
 * argmax:     index of the largest, the lowest of equals (-0 equals 0); NaN counts as below everything; 0 if
 *             all are NaN; n > 0.
 * max:        (the largest) + 0 (NaN ignored; -infinity if nothing else).
 * exp_sum:    16-lane sum of exp(x - max).
 * pack_words: to panel [n][32], words of 4 bytes, the columns column [32] of n words each; NULL: a column of
 *             zeros. Words are floats, or pairs of bf16 where BF16 says so; true: all of them are finite.
 * attn_fold:  joins chunk (m2, l2, o2) to the running (m, l, o): if l2 is 0 and m2 is -infinity nothing
 *             happens; n = max(m, m2), a = exp(m - n), b = exp(m2 - n), l = fma(l, a, l2 * b), o = fma(o, a,
 *             o2 * b); a running m of -infinity is replaced by (m2, l2, o2) as they are, whatever o held.
 * attn_finish: out = o * (1 / l) for d elements (l = 0: zeros).
 */
#define KERN_FUNCTIONS(X)                                                                                \
    X(gemm_f32, void, (const struct kern_gemm *g, size_t p0, size_t p1))                                 \
    X(gemm_bf16, void, (const struct kern_gemm *g, size_t p0, size_t p1))                                \
    X(gemm_in_f32, void, (void *in, const float *x, size_t row, size_t m, size_t k))                     \
    X(gemm_in_bf16, void, (void *in, const float *x, size_t row, size_t m, size_t k))                    \
    X(gemm_i8, void, (const struct kern_gemm *g, size_t p0, size_t p1))                                  \
    X(gemm_i4, void, (const struct kern_gemm *g, size_t group, size_t p0, size_t p1, void *scratch))     \
    X(gemm_in_i8, void, (void *in, const float *x, size_t row, size_t m, size_t k, float fixed))         \
    X(gemm_mx4_f32, void, (const struct kern_gemm *g, size_t p0, size_t p1, void *scratch))              \
    X(gemm_mx4_bf16, void, (const struct kern_gemm *g, size_t p0, size_t p1, void *scratch))             \
    X(gemm_blocks, void, (const struct kern_gemm *g, const struct blocks_form *f, size_t p0, size_t p1)) \
    X(gemm_in_blocks, void, (void *in, const float *x, size_t row, size_t m, size_t k))                  \
    X(attn_f32, void, (const struct kern_attn *a))                                                       \
    X(attn_bf16, void, (const struct kern_attn *a))                                                      \
    X(attn_i8, void, (const struct kern_attn *a))                                                        \
    X(attn_i4, void, (const struct kern_attn *a))                                                        \
    X(attn_fold, void, (float *m, float *l, float *o, float m2, float l2, const float *o2, size_t d))    \
    X(attn_finish, void, (float *out, const float *o, float l, size_t d))                                \
    X(rms_norm, void, (float *out, float *x, const float *r, const float *w, size_t n, float eps))       \
    X(layer_norm, void,                                                                                  \
      (float *out, float *x, const float *r, const float *w, const float *b, size_t n, float eps))       \
    X(add, void, (float *x, const float *r, size_t n))                                                   \
    X(scale, void, (float *x, float a, size_t n))                                                        \
    X(scale_add, void, (float *y, const float *x, float a, size_t n))                                    \
    X(rope_half, void, (float *x, const float *cos, const float *sin, size_t half))                      \
    X(rope_pair, void, (float *x, const float *cos, const float *sin, size_t half))                      \
    X(act, void, (float *out, const float *x, size_t n, enum kern_act f))                                \
    X(glu, void, (float *out, const float *gate, const float *up, size_t n, enum kern_act f))            \
    X(softcap, void, (float *x, float cap, size_t n))                                                    \
    X(to_bf16, void, (uint16_t * out, const float *x, size_t n))                                         \
    X(to_i8, void, (int8_t * out, float *scale, const float *x, size_t n))                               \
    X(to_i4, void, (uint8_t * code, uint8_t * factor, uint16_t * scale, const float *x, size_t n))       \
    X(hadamard, void, (float *x, size_t n))                                                              \
    X(pack_words, bool, (uint32_t * panel, const char *const *column, size_t n, bool bf16))              \
    X(argmax, size_t, (const float *x, size_t n))                                                        \
    X(max, float, (const float *x, size_t n))                                                            \
    X(exp_sum, float, (const float *x, size_t n, float max))

#define KERN_ENUM(name, ret, params) KERN_FN_##name,
enum kern_fn { KERN_FUNCTIONS(KERN_ENUM) KERN_N_FUNCTIONS };
#undef KERN_ENUM

/* A table: a row for every function, and which row it is. */
#define KERN_FIELD(name, ret, params) ret(*name) params;
struct kern {
    KERN_FUNCTIONS(KERN_FIELD)
    struct {
        enum cpu_isa isa;
        const char *class;
    } row[KERN_N_FUNCTIONS];
};
#undef KERN_FIELD

/* The best rows that the machine has and that are not above CAP. The tables of all levels are filled at the
 * first call in a process and const afterwards, so engines of several levels may compute at once. Callers
 * hand their table down; there is none in force for all. */
const struct kern *kern_table(enum cpu_isa cap);

const char *kern_name(enum kern_fn f);                        /* "gemm_bf16" */
enum cpu_isa kern_isa(const struct kern *k, enum kern_fn f);  /* which row K has */
const char *kern_class(const struct kern *k, enum kern_fn f); /* its arithmetic class: "fp32", "bf16", ... */

/* Of how many rows a gemm of K's is best computed at once, so that they stay in the cache of the thread that
 * does while panels come from further away: whoever cuts more into parts fetches each of them once. */
static inline size_t kern_gemm_most(const struct kern *k, enum kern_fn f)
{
    return k->row[f].isa == CPU_AMX ? KERN_TOGETHER : SIZE_MAX;
}

/* Bytes of kern_gemm.sums that the gemm F of K wants: those of level amx keep the sums of several panels, the
 * others keep theirs in registers or in a few KiB of stack. */
static inline size_t kern_gemm_sums_bytes(const struct kern *k, enum kern_fn f)
{
    return k->row[f].isa == CPU_AMX ? KERN_PANELS * KERN_TOGETHER * KERN_NR * sizeof(float) : 0;
}

/* The table of exactly one ISA: functions it has no row for are NULL. false: not built in. The machine may
 * not be able to run them: ask cpu_has(). For tests and benchmarks. */
bool kern_rows(enum cpu_isa isa, struct kern *out);

#endif
