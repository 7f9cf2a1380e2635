/* avx2_attn_step.h - the inner step of attention: sums in registers += a column of q, or of weights, x a row
 * of keys or values.
 *
 *   F32   a step has one element of fp32
 *   BF16  two elements, pairs in 32-bit lanes: the even element is shifted left by 16, the odd one is masked
 *   I8    four elements, fours in 32-bit lanes: each is shifted to the top and back down, then converted
 *
 * The sums are 1 row x 8 registers, 2 x 6, 3 x 4, 4 x 3, 5 x 2 or 6 x 2. At least 8 sums hide the latency of
 * the FMA, and the other operands fit into the 16 registers. Sizes and kinds are constants at every call.
 */
#ifndef GALLOP_KERN_AVX2_AVX2_ATTN_STEP_H
#define GALLOP_KERN_AVX2_AVX2_ATTN_STEP_H

#include <immintrin.h>

#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_tile.h"

enum avx2_kind { AVX2_F32, AVX2_BF16, AVX2_I8 };

enum {
    AVX2_ATTN_REGS = 8,   /* registers for each row in the widest shape of sums */
    AVX2_ATTN_LANES = 32, /* bytes of 8 lanes in memory */
};

typedef __m256 avx2_sums[AVX2_ROWS][AVX2_ATTN_REGS];

/* The mask of the upper half of 32-bit lanes. */
static const uint32_t avx2_attn_upper[1][8] __attribute__((aligned(32))) = {
    {0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u}};

/* Returns the dims of keys, or the tokens of values, in one step. */
AVX2_INLINE size_t avx2_attn_unit(enum avx2_kind kind)
{
    return kind == AVX2_F32 ? 1 : kind == AVX2_BF16 ? 2 : 4;
}

/* Returns the bytes of an element of keys and values. */
AVX2_INLINE size_t avx2_attn_size(enum avx2_kind kind)
{
    return kind == AVX2_F32 ? 4 : kind == AVX2_BF16 ? 2 : 1;
}

/* Sets W to eight signed bytes of B as floats: in each 32-bit lane, the byte SHIFT bits below the top. */
#define AVX2_ATTN_BYTES(w, b, SHIFT)                                                         \
    __asm__ volatile("vmovups %1, %0\n\tvpslld $" SHIFT ", %0, %0\n\tvpsrad $24, %0, %0\n\t" \
                     "vcvtdq2ps %0, %0"                                                      \
                     : "=x"(w)                                                               \
                     : "m"(*(const char(*)[32])(b)))

/* Loads eight elements of keys or values as floats: element number PART of each 32-bit lane. The assembly of
 * this function and of the next two is volatile, because in this order the inner loops need no more registers
 * than there are; gcc 12 finds other orders, which spill. */
AVX2_INLINE __m256 avx2_attn_load(const char *b, int part, enum avx2_kind kind)
{
    __m256 w;

    if (kind == AVX2_I8 && part == 0)
        AVX2_ATTN_BYTES(w, b, "24");
    else if (kind == AVX2_I8 && part == 1)
        AVX2_ATTN_BYTES(w, b, "16");
    else if (kind == AVX2_I8 && part == 2)
        AVX2_ATTN_BYTES(w, b, "8");
    else if (kind == AVX2_I8)
        AVX2_ATTN_BYTES(w, b, "0");
    else if (kind == AVX2_F32)
        __asm__ volatile("vmovups %1, %0" : "=x"(w) : "m"(*(const char(*)[32])b));
    else if (part)
        __asm__ volatile("vmovaps %2, %0\n\tvandps %1, %0, %0"
                         : "=&x"(w)
                         : "m"(*(const char(*)[32])b), "m"(*avx2_attn_upper));
    else
        __asm__ volatile("vmovups %1, %0\n\tvpslld $16, %0, %0" : "=x"(w) : "m"(*(const char(*)[32])b));
    return w;
}

AVX2_INLINE __m256 avx2_attn_broadcast(const float *x)
{
    __m256 y;

    __asm__ volatile("vbroadcastss %1, %0" : "=x"(y) : "m"(*x));
    return y;
}

/* Computes *acc = fma(x, y, *acc). */
AVX2_INLINE void avx2_attn_fma(__m256 *acc, __m256 x, __m256 y)
{
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(*acc) : "x"(x), "x"(y));
}

/* Computes acc[r][c] += x[r] * b[c], with element number PART of each lane of column b[c]. The rows of x
 * begin STRIDE floats apart. If there are at most three columns, or fewer than rows, the columns stay in
 * registers and the elements of x are loaded one by one; otherwise it is the reverse. */
AVX2_INLINE void avx2_attn_outer(avx2_sums acc, const char *const *b, size_t at, const float *x,
                                 size_t stride, int part, int rows, int cols, enum avx2_kind kind)
{
    __m256 w[4], one;

    if (cols <= 3 || rows > cols) {
        AVX2_UNROLL
        for (int c = 0; c < 4; c++)
            if (c < cols)
                w[c] = avx2_attn_load(b[c] + at, part, kind);
        AVX2_UNROLL
        for (int r = 0; r < AVX2_ROWS; r++) {
            if (r >= rows)
                break;
            one = avx2_attn_broadcast(x + (size_t)r * stride);
            AVX2_UNROLL
            for (int c = 0; c < 4; c++)
                if (c < cols)
                    avx2_attn_fma(&acc[r][c], one, w[c]);
        }
        return;
    }
    AVX2_UNROLL
    for (int r = 0; r < 4; r++)
        if (r < rows)
            w[r] = avx2_attn_broadcast(x + (size_t)r * stride);
    AVX2_UNROLL
    for (int c = 0; c < AVX2_ATTN_REGS; c++) {
        if (c >= cols)
            break;
        one = avx2_attn_load(b[c] + at, part, kind);
        AVX2_UNROLL
        for (int r = 0; r < 4; r++)
            if (r < rows)
                avx2_attn_fma(&acc[r][c], w[r], one);
    }
}

/* The step for 4 rows x 3 columns needs all 16 registers: twelve sums, three columns, a broadcast. It is
 * written in assembly, because gcc 12 would spill some of the sums. */
#define AVX2_ATTN_ROW43(R, DIM, S0, S1, S2)                        \
    "vbroadcastss " #R "*%c[stride]+4*" #DIM "(%[x]), %%ymm15\n\t" \
    "vfmadd231ps %%ymm12, %%ymm15, %" S0 "\n\t"                    \
    "vfmadd231ps %%ymm13, %%ymm15, %" S1 "\n\t"                    \
    "vfmadd231ps %%ymm14, %%ymm15, %" S2 "\n\t"
#define AVX2_ATTN_ROWS43(DIM)              \
    AVX2_ATTN_ROW43(0, DIM, "0", "1", "2") \
    AVX2_ATTN_ROW43(1, DIM, "3", "4", "5") \
    AVX2_ATTN_ROW43(2, DIM, "6", "7", "8") \
    AVX2_ATTN_ROW43(3, DIM, "9", "10", "11")
#define AVX2_ATTN_BYTES43(SHIFT)                                                     \
    "vmovups %[b0], %%ymm12\n\tvmovups %[b1], %%ymm13\n\tvmovups %[b2], %%ymm14\n\t" \
    "vpslld $" SHIFT ", %%ymm12, %%ymm12\n\tvpslld $" SHIFT ", %%ymm13, %%ymm13\n\t" \
    "vpslld $" SHIFT ", %%ymm14, %%ymm14\n\tvpsrad $24, %%ymm12, %%ymm12\n\t"        \
    "vpsrad $24, %%ymm13, %%ymm13\n\tvpsrad $24, %%ymm14, %%ymm14\n\t"               \
    "vcvtdq2ps %%ymm12, %%ymm12\n\tvcvtdq2ps %%ymm13, %%ymm13\n\tvcvtdq2ps %%ymm14, %%ymm14\n\t"
#define AVX2_ATTN_ASM43(CODE)                                                                              \
    __asm__(CODE                                                                                           \
            : "+x"(acc[0][0]), "+x"(acc[0][1]), "+x"(acc[0][2]), "+x"(acc[1][0]), "+x"(acc[1][1]),         \
              "+x"(acc[1][2]), "+x"(acc[2][0]), "+x"(acc[2][1]), "+x"(acc[2][2]), "+x"(acc[3][0]),         \
              "+x"(acc[3][1]), "+x"(acc[3][2])                                                             \
            : [x] "r"(x), [stride] "i"(stride * sizeof(float)), [b0] "m"(*(const char(*)[32])(b[0] + at)), \
              [b1] "m"(*(const char(*)[32])(b[1] + at)), [b2] "m"(*(const char(*)[32])(b[2] + at)),        \
              [mask] "m"(*avx2_attn_upper)                                                                 \
            : "xmm12", "xmm13", "xmm14", "xmm15", "memory")

AVX2_INLINE void avx2_attn_step43(avx2_sums acc, const char *const *b, size_t at, const float *x,
                                  const size_t stride, enum avx2_kind kind)
{
    if (kind == AVX2_F32)
        AVX2_ATTN_ASM43(
            "vmovups %[b0], %%ymm12\n\tvmovups %[b1], %%ymm13\n\tvmovups %[b2], %%ymm14\n\t" AVX2_ATTN_ROWS43(
                0));
    else if (kind == AVX2_I8)
        AVX2_ATTN_ASM43(AVX2_ATTN_BYTES43("24") AVX2_ATTN_ROWS43(0) AVX2_ATTN_BYTES43("16") AVX2_ATTN_ROWS43(
            1) AVX2_ATTN_BYTES43("8") AVX2_ATTN_ROWS43(2) AVX2_ATTN_BYTES43("0") AVX2_ATTN_ROWS43(3));
    else
        AVX2_ATTN_ASM43(
            "vmovups %[b0], %%ymm12\n\tvmovups %[b1], %%ymm13\n\tvmovups %[b2], %%ymm14\n\t"
            "vpslld $16, %%ymm12, %%ymm12\n\tvpslld $16, %%ymm13, %%ymm13\n\t"
            "vpslld $16, %%ymm14, %%ymm14\n\t" AVX2_ATTN_ROWS43(
                0) "vmovaps %[mask], %%ymm12\n\tvmovaps %[mask], %%ymm13\n\tvmovaps %[mask], %%ymm14\n\t"
                   "vandps %[b0], %%ymm12, %%ymm12\n\tvandps %[b1], %%ymm13, %%ymm13\n\t"
                   "vandps %[b2], %%ymm14, %%ymm14\n\t" AVX2_ATTN_ROWS43(1));
}

/* Computes one step, of 1, 2 or 4 elements by KIND: multiplies the elements of each row of x with those of
 * each column b[c] and adds the products to acc[r][c]. */
AVX2_INLINE void avx2_attn_step(avx2_sums acc, const char *const *b, size_t at, const float *x, size_t stride,
                                int rows, int cols, enum avx2_kind kind)
{
    if (rows == 4 && cols == 3) {
        avx2_attn_step43(acc, b, at, x, stride, kind);
        return;
    }
    AVX2_UNROLL
    for (int part = 0; part < 4; part++)
        if ((size_t)part < avx2_attn_unit(kind))
            avx2_attn_outer(acc, b, at, x + part, stride, part, rows, cols, kind);
}

#endif
