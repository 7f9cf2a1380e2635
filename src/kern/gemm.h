/* gemm.h - the matrix products over packed weights: their arguments, and the kernels for fp32 and bf16.
 *
 * A gemm computes C[M, N] = A[M, K] x W[N, K]^T + bias[N]. W is packed into panels of KERN_NR columns. A
 * kernel gemm_in_* stores the rows of A in the form that the gemm of the same table reads. Kernels for
 * quantized weights take the same arguments; quant.h has their contracts.
 *
 * Every element of C has one fp32 accumulator that starts at +0 and adds the products with K ascending, acc =
 * fma(a[k], b[k], acc); the bias is added last. Operands in bf16 are widened, which is exact. Two arithmetic
 * classes of bf16 differ:
 *   bf16 dot       (AVX512-BF16) adds ascending pairs along K with VDPBF16PS
 *   bf16 tile dot  (AMX) adds slices of 32 along K with TDPBF16PS: it sums the even and the odd elements of a
 *                  slice with fma from +0 each, then acc = acc + (even + odd)
 * Both instructions treat subnormals as zeros.
 */
#ifndef GALLOP_KERN_GEMM_H
#define GALLOP_KERN_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/vector.h"

enum {
    KERN_NR = 32,             /* columns of a panel */
    KERN_PAIRS = KERN_NR / 2, /* columns of gate in a panel for KERN_GLU, and columns of up */
    KERN_PIECE = 32,          /* K may be split into pieces (panel_k below) at multiples of this */
    KERN_TOGETHER = 256,      /* level amx: maximum rows that a gemm multiplies by a panel at once */
    KERN_PANELS = 16,         /* level amx: maximum panels that a gemm computes together */
    KERN_PART = 64,           /* minimum rows of each part if rows are split (parts below) */
};

/* The epilogue of a gemm: the function of the sums (after the bias) that it stores. The result goes to the member c, or
 * to the member out if c is NULL. */
enum kern_gemm_end {
    KERN_SUMS, /* Stores the sums. Needs c. */
    KERN_ACT,  /* Stores act(sum). */
    KERN_GLU, /* Stores act(gate) * up. A panel holds KERN_PAIRS columns of gate and the same columns of up. */
};

/* The arguments of a gemm. A call computes the panels [p0, p1). */
struct kern_gemm {
    /* The input A, as gemm_in_* of the same table stores it: M * kern_in_bytes(K) bytes, aligned to 64. */
    const void *in;

    /* The packed weights, one panel after the other:
     *   f32   [panels][K][32] float
     *   bf16  [panels][(K + 1) / 2][32][2] bf16: pairs along K; an odd K is padded with zeros
     *   i8 and the quantized formats: quant.h
     * With KERN_GLU, N counts pairs of columns, and the last panel and its bias are padded with zeros to 16 +
     * 16 columns. Otherwise b has zeros in the columns beyond N. Columns beyond N are never written to c. */
    const void *b;

    /* The result C, [M, N], whose rows begin LDC elements apart. NULL: the result goes to out. */
    float *c;
    size_t ldc;

    /* The bias, [N], or [panels][32] with KERN_GLU. NULL: no bias. */
    const float *bias;

    /* The sizes of C[M, N] = A[M, K] x W[N, K]^T. */
    size_t m, k, n;

    /* The epilogue, and the activation function that KERN_ACT and KERN_GLU use. */
    enum kern_gemm_end end;
    enum kern_act act;

    /* The result of KERN_ACT and KERN_GLU if c is NULL: the input of the next gemm, stored as gemm_in_f32 or
     * gemm_in_bf16 of the same table stores it. Size: M * kern_in_bytes(N) bytes. Inputs in int8 cannot be
     * written here, because the scale of a row needs the whole row. */
    void *out;

    /* The number of the panel at b, at most p0. */
    size_t first;

    /* The end of the panels that the caller computes next, up to which the kernel may prefetch; at least
     * p1. */
    size_t ahead;

    /* f32 and bf16 only: a gemm may be computed in pieces along K, in ascending order. b then points to the
     * first k of the piece, and panel_k is the K of whole panels, from which their distance follows (0: k).
     * If ONTO is true, the sums start at the content of c instead of +0. The pieces give the bits of the
     * whole gemm if the k of each piece but the last is a multiple of KERN_PIECE, all end with KERN_SUMS, and
     * only the last piece has the bias. */
    size_t panel_k;
    bool onto;

    /* f32, bf16, i8 and blocks only: the rows, at least KERN_PART * PARTS, are split into PARTS parts, and
     * the kernel computes part number PART. It chooses where it cuts; each row belongs to exactly one part.
     * 0, 0: all rows. */
    size_t part, parts;

    /* Scratch of kern_gemm_sums_bytes() bytes, aligned to 64. No other thread may use it during the call. */
    float *sums;
};

/* Returns the number of k in a whole panel of b. */
static inline size_t kern_gemm_panel_k(const struct kern_gemm *g)
{
    return g->panel_k ? g->panel_k : g->k;
}

/* Divides N items, such as tiles of rows, among the parts of G. Sets [*from, *to) to the items of part
 * g->part. */
static inline void kern_gemm_share(const struct kern_gemm *g, size_t n, size_t *from, size_t *to)
{
    size_t parts = g->parts ? g->parts : 1;

    *from = n * g->part / parts;
    *to = n * (g->part + 1) / parts;
}

/* Returns the maximum bytes of a row of K elements in the input of any gemm. */
static inline size_t kern_in_bytes(size_t k)
{
    return (k + 31) / 32 * 32 * sizeof(float);
}

/* Stores X[K], row ROW of the M input rows of a gemm, in IN, as gemm_f32 of the same table reads it. */
typedef void kern_gemm_in_f32_fn(void *in, const float *x, size_t row, size_t m, size_t k);

/* Rounds X[K] to bf16 (nearest, ties to even) and stores it in IN, as gemm_bf16 of the table reads it. */
typedef void kern_gemm_in_bf16_fn(void *in, const float *x, size_t row, size_t m, size_t k);

/* Computes the panels [p0, p1) of G with weights in fp32. */
typedef void kern_gemm_f32_fn(const struct kern_gemm *g, size_t p0, size_t p1);

/* Computes the panels [p0, p1) of G with weights in bf16. */
typedef void kern_gemm_bf16_fn(const struct kern_gemm *g, size_t p0, size_t p1);

/* Packs 32 columns of N words of 4 bytes each into PANEL[N][32]. A NULL column becomes zeros. A word is a
 * float, or with BF16 a pair of bf16. Returns true if all numbers are finite. */
typedef bool kern_pack_words_fn(uint32_t *panel, const char *const *column, size_t n, bool bf16);

#endif
