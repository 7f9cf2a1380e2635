/* linear_panels.c - backends "gallop" and "native": packed panels of 32 columns, K ascending, and the gemm of
 * the kernel table. "gallop" uses the best kernels of the machine; "native" uses the portable reference
 * kernels, which are slow; tests compare all other backends with it.
 *
 * fp32: [panel][k][32]. bf16: [panel][(k + 1) / 2][32][2], rounded to nearest even from the stored value.
 * int8: [panel][(k + 3) / 4][32][4], followed by the corrections and scales of the columns (kern/quant.h). An
 * int8 weight is rint(127 w / m), with m the largest |w| of its column, which is a row of W. These rows and
 * the rows of the input are rotated before they are rounded (rotate.h).
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kern/gemm.h"
#include "kern/kern.h"
#include "kern/quant.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "ops/rotate.h"
#include "tensor/view.h"

/* Bytes after the panels for the absolute maximum of inputs that have one scale for all rows (fixed_at()). */
enum { FIXED_BYTES = 64 };

size_t linear_panel_bytes(size_t n, size_t k, enum dtype t)
{
    size_t panels = (n + KERN_NR - 1) / KERN_NR;

    return t == DT_F32  ? panels * k * KERN_NR * 4
           : t == DT_I8 ? panels * kern_i8_panel_bytes(k)
                        : panels * ((k + 1) / 2) * KERN_NR * 4;
}

/* 32 columns are packed this many elements along K at a time, so that they stay in L1. */
enum { KB = 64 };

static void put_f32(float *panel, float tile[KERN_NR][KB], size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < KERN_NR; c++)
            panel[i * KERN_NR + c] = tile[c][i];
}

static void put_bf16(uint16_t *panel, float tile[KERN_NR][KB], size_t n)
{
    for (size_t i = 0; i < n; i += 2)
        for (size_t c = 0; c < KERN_NR; c++) {
            panel[(i / 2 * KERN_NR + c) * 2] = dtype_f32_to_bf16(tile[c][i]);
            panel[(i / 2 * KERN_NR + c) * 2 + 1] = i + 1 < n ? dtype_f32_to_bf16(tile[c][i + 1]) : 0;
        }
}

/* Returns true if all parts are contiguous and in the type of the arithmetic, so that packing moves bytes. */
static bool is_stored_so(const struct linear_desc *d)
{
    for (size_t p = 0; p < d->n_parts; p++)
        if (d->part[p]->dtype != d->dtype || d->part[p]->stride[1] != 1 || d->part[p]->zipped)
            return false;
    return true;
}

/* Packs the columns [first, first + COLUMNS) of parts for which is_stored_so() holds. Returns false if a
 * weight is not finite. */
static bool pack_stored(const struct linear *l, const struct linear_desc *d, size_t first, size_t columns,
                        char *panel)
{
    size_t es = dtype_bytes(l->dtype), words = l->k * es / sizeof(uint32_t);
    const char *at[KERN_NR] = {NULL}; /* NULL: a column of zeros */
    bool finite;

    for (size_t c = 0; c < columns; c++) {
        size_t p, row = linear_column(d, first + c, &p);

        if (p < d->n_parts)
            at[c] = view_at(d->part[p], row).data;
    }
    finite = l->kern->pack_words((uint32_t *)(void *)panel, at, words, l->dtype == DT_BF16);
    if (l->k * es % sizeof(uint32_t)) { /* an odd number of bf16: the last one of each column */
        char *to = panel + words * KERN_NR * sizeof(uint32_t);

        memset(to, 0, KERN_NR * sizeof(uint32_t));
        for (size_t c = 0; c < KERN_NR; c++)
            if (at[c])
                memcpy(to + c * sizeof(uint32_t), at[c] + words * sizeof(uint32_t), es);
        finite &= dtype_all_finite(to, KERN_NR * 2, l->dtype);
    }
    return finite;
}

/* Writes the integers Q [k] and their SCALE as column C of an int8 panel. */
static void put_column_i8(char *panel, size_t c, const int8_t *q, float scale, size_t k)
{
    char *tail = panel + kern_i8_panel_bytes(k) - KERN_I8_TAIL + 4 * c;
    int32_t sum = 0;

    for (size_t i = 0; i < k; i += 4) {
        int8_t four[4] = {0};

        memcpy(four, q + i, k - i < 4 ? k - i : 4);
        memcpy(panel + i * KERN_NR + 4 * c, four, 4);
        sum += four[0] + four[1] + four[2] + four[3];
    }
    sum *= -128;
    memcpy(tail, &sum, sizeof(sum));
    memcpy(tail + KERN_I8_TAIL / 2, &scale, sizeof(scale));
}

/* Returns the address, after the panels, of the absolute maximum of all inputs (linear_desc.largest). */
static float *fixed_at(const struct linear *l)
{
    return (float *)(void *)((char *)l->packed + l->packed_bytes - FIXED_BYTES);
}

/* Packs columns in int8. W is scratch for k floats and k integers. Returns false if a weight is not
 * finite. */
static bool pack_i8(const struct linear *l, const struct linear_desc *d, size_t begin, size_t end, float *w)
{
    int8_t *q = (int8_t *)(w + l->k);
    bool finite = true;
    float scale;

    for (size_t column = begin; column < end; column++) {
        linear_elements(d, column, 0, l->k, w);
        finite &= dtype_all_finite(w, l->k, DT_F32);
        rotate(l->kern, w, w, l->k);
        l->kern->to_i8(q, &scale, w, l->k);
        finite &= isfinite(scale) != 0;
        put_column_i8((char *)l->packed + column / KERN_NR * kern_i8_panel_bytes(l->k), column % KERN_NR, q,
                      scale, l->k);
    }
    return finite;
}

bool linear_panels_pack(struct linear *l, const struct linear_desc *d, size_t begin, size_t end,
                        void *scratch)
{
    bool stored_so = is_stored_so(d);
    size_t per_panel = linear_panel_bytes(KERN_NR, l->k, l->dtype), es = dtype_bytes(l->dtype);
    float tile[KERN_NR][KB] = {{0}};
    bool finite = true;

    if (l->fixed && begin == 0)
        *fixed_at(l) = d->largest;
    if (l->dtype == DT_I8)
        return pack_i8(l, d, begin, end, scratch);
    for (size_t row = begin; row < end; row += KERN_NR) {
        char *panel = (char *)l->packed + row / KERN_NR * per_panel;
        size_t columns = end - row < KERN_NR ? end - row : KERN_NR;

        if (stored_so) {
            finite &= pack_stored(l, d, row, columns, panel);
            continue;
        }
        for (size_t c = columns; c < KERN_NR; c++)
            memset(tile[c], 0, sizeof(tile[c]));
        for (size_t k = 0; k < l->k; k += KB) {
            size_t n = l->k - k < KB ? l->k - k : KB;

            for (size_t c = 0; c < columns; c++)
                linear_elements(d, row + c, k, n, tile[c]);
            if (l->dtype == DT_F32)
                put_f32((float *)(void *)panel + k * KERN_NR, tile, n);
            else
                put_bf16((uint16_t *)(void *)panel + k * KERN_NR, tile, n);
            finite &= dtype_all_finite(panel + k * KERN_NR * es,
                                       linear_panel_bytes(KERN_NR, n, l->dtype) / es, l->dtype);
        }
    }
    return finite;
}

void linear_panels_row(const struct linear *l, size_t i, float *out)
{
    const char *panel = (const char *)l->packed + i / KERN_NR * linear_panel_bytes(KERN_NR, l->k, l->dtype);
    const uint32_t *word = (const uint32_t *)(const void *)panel + i % KERN_NR;

    if (l->dtype == DT_F32) {
        for (size_t k = 0; k < l->k; k++)
            memcpy(&out[k], &word[k * KERN_NR], sizeof(*out));
        return;
    }
    for (size_t k = 0; k < l->k; k++)
        out[k] = dtype_bf16_to_f32((uint16_t)(word[k / 2 * KERN_NR] >> (k % 2 * 16)));
}

size_t linear_panels_open(struct linear *l, const struct linear_desc *d)
{
    l->fixed = d->fixed;
    return linear_panel_bytes(linear_columns(l), l->k, l->dtype) + (l->fixed ? FIXED_BYTES : 0);
}

/* Adds a rotated row of the input to the linear's statistics, by its largest element. */
static void count_row(const struct linear *l, const float *rotated)
{
    float most = 0;

    for (size_t i = 0; i < l->k; i++)
        most = fabsf(rotated[i]) > most ? fabsf(rotated[i]) : most;
    if (most > 0 && isfinite(most))
        atomic_fetch_add(&l->seen->rows[linear_seen_bin(most)], 1);
    if (l->seen->kept && isfinite(most)) {
        size_t at = atomic_fetch_add(&l->seen->n, 1);

        if (at < l->seen->most)
            memcpy(l->seen->kept + at * l->k, rotated, l->k * sizeof(*rotated));
    }
}

static bool panels_accepts(const struct linear_desc *d, const char **why_not)
{
    *why_not =
        "the backend computes in fp32, bf16 and int8 only, in int8 with at most 65536 elements in an input row";
    return ((d->dtype == DT_F32 || d->dtype == DT_BF16) && !d->to_mxfp4) ||
           (d->dtype == DT_I8 && !d->group && d->part[0]->shape[1] <= KERN_I8_MOST_K);
}

static enum kern_fn gemm_of(const struct linear *l)
{
    return l->dtype == DT_F32 ? KERN_FN_gemm_f32 : l->dtype == DT_I8 ? KERN_FN_gemm_i8 : KERN_FN_gemm_bf16;
}

size_t linear_panels_scratch(const struct linear *l)
{
    size_t rows = l->dtype == DT_I8 ? l->k * (sizeof(float) + sizeof(int8_t)) : 0,
           sums = kern_gemm_sums_bytes(l->kern, gemm_of(l));

    return rows > sums ? rows : sums;
}

void linear_panels_put(const struct linear *l, void *in, const float *x, size_t row, size_t m, void *scratch)
{
    float *rotated = scratch; /* the rotated row, [k] */

    if (l->dtype == DT_I8) {
        rotate(l->kern, rotated, x, l->k);
        if (l->seen)
            count_row(l, rotated);
        l->kern->gemm_in_i8(in, rotated, row, m, l->k, l->fixed ? *fixed_at(l) : 0);
    } else {
        (l->dtype == DT_F32 ? l->kern->gemm_in_f32 : l->kern->gemm_in_bf16)(in, x, row, m, l->k);
    }
}

struct kern_gemm linear_gemm(const struct linear *l, const void *in, const struct linear_end *end, size_t m,
                             void *sums)
{
    return (struct kern_gemm){.in = in,
                              .b = l->packed,
                              .c = end->y,
                              .ldc = end->ldy,
                              .bias = l->bias,
                              .m = m,
                              .k = l->k,
                              .n = l->paired ? l->n / 2 : l->n,
                              .end = !end->activated ? KERN_SUMS
                                     : l->paired     ? KERN_GLU
                                                     : KERN_ACT,
                              .act = end->act,
                              .out = end->next,
                              .ahead = end->ahead,
                              .part = end->part,
                              .parts = end->parts,
                              .sums = sums};
}

static size_t panels_most(const struct linear *l)
{
    return kern_gemm_most(l->kern, gemm_of(l));
}

void linear_panels_run(const struct linear *l, const void *in, const struct linear_end *end, size_t m,
                       size_t p0, size_t p1, void *scratch)
{
    const struct kern_gemm g = linear_gemm(l, in, end, m, scratch);

    (l->dtype == DT_F32  ? l->kern->gemm_f32
     : l->dtype == DT_I8 ? l->kern->gemm_i8
                         : l->kern->gemm_bf16)(&g, p0, p1);
}

const struct linear_backend linear_gallop = {.name = "gallop",
                                             .layout = LINEAR_LAYOUT_PANELS,
                                             .accepts = panels_accepts,
                                             .open = linear_panels_open,
                                             .pack = linear_panels_pack,
                                             .put = linear_panels_put,
                                             .run = linear_panels_run,
                                             .scratch_bytes = linear_panels_scratch,
                                             .most = panels_most,
                                             .row = linear_panels_row};
const struct linear_backend linear_native = {.name = "native",
                                             .layout = LINEAR_LAYOUT_PANELS,
                                             .accepts = panels_accepts,
                                             .open = linear_panels_open,
                                             .pack = linear_panels_pack,
                                             .put = linear_panels_put,
                                             .run = linear_panels_run,
                                             .scratch_bytes = linear_panels_scratch,
                                             .row = linear_panels_row,
                                             .flags = LINEAR_NATIVE};
