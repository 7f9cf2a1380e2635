/* gemm.h - the matrix products over packed weights: their arguments, and the kernels for fp32 and bf16.
 *
 * A gemm computes C[M, N] = A[M, K] x W[N, K]^T + bias[N]. W is packed into panels of KERN_NR columns, A is
 * put by a gemm_in_* kernel into the form that the gemm of the same table reads. Kernels for quantized
 * weights take the same arguments; quant.h has their contracts.
 *
 * Every element of C has one fp32 accumulator that starts at +0 and takes K in ascending order,
 * acc = fma(a[k], b[k], acc); the bias is added last. Operands in bf16 are widened, which is exact. Two
 * arithmetic classes of bf16 differ:
 *   bf16 dot       (AVX512-BF16) takes K in ascending pairs with VDPBF16PS
 *   bf16 tile dot  (AMX) takes K in slices of 32 with TDPBF16PS: it sums the even and the odd elements of a
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
    KERN_PAIRS = KERN_NR / 2, /* columns of gate, and of up, in a panel for KERN_GLU */
    KERN_PIECE = 32,          /* K of a piece of a gemm is a multiple of this, except for the last piece */
    KERN_TOGETHER = 256,      /* maximum rows that a gemm of level amx takes through panels together */
    KERN_PANELS = 16,         /* maximum panels that a gemm of level amx takes together */
    KERN_PART = 64,           /* minimum rows for each part of a gemm */
};

/* What a gemm does with its sums after the bias. The result goes to the member c, or to the member out if c
 * is NULL. */
enum kern_gemm_end {
    KERN_SUMS, /* Stores the sums. Needs c. */
    KERN_ACT,  /* Stores act(sum). */
    KERN_GLU,  /* Stores act(gate) * up. A panel holds KERN_PAIRS columns of gate and the same ones of up. */
};

/* The arguments of a gemm. A call computes the panels [p0, p1). */
struct kern_gemm {
    /* A in the form that the kernel reads. The gemm_in_* kernel of the same table has put all M rows there.
     * Size: M * kern_in_bytes(K) bytes, aligned to 64. */
    const void *in;

    /* The packed weights, panel behind panel. With KERN_GLU, N counts pairs of columns; all panels and the
     * bias are then whole, the last panel padded with zeros to 16 + 16 columns. Otherwise the columns beyond
     * N are zeros in b. In neither case are columns beyond N written to c.
     *   f32   [panels][K][32] float
     *   bf16  [panels][(K + 1) / 2][32][2] bf16: pairs along K; an odd K is padded with zeros
     *   i8 and the quantized formats: quant.h */
    const void *b;

    /* [M, N] with rows LDC elements apart; or NULL. */
    float *c;
    size_t ldc;

    /* [N], or NULL. With KERN_GLU: [panels][32]. */
    const float *bias;

    /* The sizes of C[M, N] = A[M, K] x W[N, K]^T. */
    size_t m, k, n;

    /* What becomes of the sums. ACT is used by KERN_ACT and KERN_GLU. */
    enum kern_gemm_end end;
    enum kern_act act;

    /* For KERN_ACT and KERN_GLU with c NULL: the input of the next gemm. The rows of the result are put where
     * gemm_in_f32 or gemm_in_bf16 of the same table would put them. Size: M * kern_in_bytes(N) bytes. Not for
     * inputs in int8, because the scale of a row needs the whole row. */
    void *out;

    /* The panel that b begins with, at most p0. */
    size_t first;

    /* The caller will continue with the panels up to AHEAD: the kernel may prefetch b up to there and not
     * further. If it is below p1, p1 is the limit. */
    size_t ahead;

    /* f32 and bf16 only: this gemm is a piece of one whose panels have PANEL_K rows (0: K rows) and lie that
     * far apart; b begins with the first row of the piece. If ONTO is true the sums begin with the content of
     * c, not with +0. The pieces of a gemm in ascending K, each a multiple of KERN_PIECE except for the last,
     * each with the end KERN_SUMS, and the bias in the last one only, give the bits of the whole gemm. */
    size_t panel_k;
    bool onto;

    /* f32, bf16, i8 and blocks only: the kernel computes part number PART of PARTS parts of the rows. It
     * chooses where to cut; each row belongs to exactly one part. M is then at least KERN_PART * PARTS.
     * 0, 0: all rows. */
    size_t part, parts;

    /* Scratch of kern_gemm_sums_bytes() bytes for the kernel of this table, aligned to 64 and used by no
     * other thread. Its content is lost. */
    float *sums;
};

/* Returns the rows of the panels in b. */
static inline size_t kern_gemm_panel_k(const struct kern_gemm *g)
{
    return g->panel_k ? g->panel_k : g->k;
}

/* Sets [*from, *to) to the share of N equal items that belongs to the part G asks for. */
static inline void kern_gemm_share(const struct kern_gemm *g, size_t n, size_t *from, size_t *to)
{
    size_t parts = g->parts ? g->parts : 1;

    *from = n * g->part / parts;
    *to = n * (g->part + 1) / parts;
}

/* Returns the maximum bytes that a row of K elements takes in the input of a gemm of any table. */
static inline size_t kern_in_bytes(size_t k)
{
    return (k + 31) / 32 * 32 * sizeof(float);
}

/* Puts X[K], row ROW of the M rows of a gemm, to its place in IN. */
typedef void kern_gemm_in_f32_fn(void *in, const float *x, size_t row, size_t m, size_t k);

/* Puts X[K] to its place in IN like kern_gemm_in_f32_fn, rounded to bf16 (nearest, ties to even). */
typedef void kern_gemm_in_bf16_fn(void *in, const float *x, size_t row, size_t m, size_t k);

/* Computes the panels [p0, p1) of G with weights in fp32. */
typedef void kern_gemm_f32_fn(const struct kern_gemm *g, size_t p0, size_t p1);

/* Computes the panels [p0, p1) of G with weights in bf16. */
typedef void kern_gemm_bf16_fn(const struct kern_gemm *g, size_t p0, size_t p1);

/* Packs 32 columns of N words of 4 bytes each into PANEL[N][32]. A NULL column becomes zeros. The words are
 * floats, or with BF16 pairs of bf16. Returns true if all numbers are finite. */
typedef bool kern_pack_words_fn(uint32_t *panel, const char *const *column, size_t n, bool bf16);

#endif
