/* linear_int4.c - backends "gallop" and "native" for int4: 4-bit weights in groups of 32 or 128, inputs of 8
 * bits with one scale for each row.
 *
 * Rows of W and of the input are rotated as for int8 (rotate.h), after which the weights of a group resemble
 * samples of a normal distribution in every model. A column has one scale, as in int8; every group has an
 * integer scale (multiple) and an integer zero point (offset). The 16 values of its codes are evenly spaced
 * points of the column's int8 grid, and the gemm sums integers over all of K. The two levels of scales are
 * those of QServe (Lin et al. 2024). A search over the multiples finds the points of a group with the least
 * error.
 */
#include <math.h>
#include <string.h>

#include "kern/format/int4.h"
#include "kern/kern.h"
#include "ops/gptq.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "ops/rotate.h"
#include "tensor/view.h"

static bool int4_accepts(const struct linear_desc *d, const char **why_not)
{
    *why_not = "the backend computes int4 only, with at most 65536 elements in an input row";
    return d->dtype == DT_I8 && d->group && d->part[0]->shape[1] <= KERN_I8_MOST_K;
}

static size_t int4_open(struct linear *l, const struct linear_desc *d)
{
    l->group = d->group;
    return (linear_columns(l) + KERN_NR - 1) / KERN_NR * int4_panel_bytes(int4_k(l->k), l->group);
}

/* ---- the points of a group ---- */

/* A grid for the weights of a group: the points multiple * code + offset for the codes 0 to 15, and the
 * squared error of rounding the weights to these points. */
struct points {
    float multiple, offset, error;
};

/* Rounds X to the nearest integer, |X| < 2^22. Fast even without an instruction for rounding. */
static inline float nearest(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: a float of this size has no fraction bits */

    return (x + shift) - shift;
}

/* Returns the code in [LEAST, MOST] whose point is nearest to X. */
static inline float code_of(float x, float inverse, const struct points *p, float least, float most)
{
    float code = nearest((x - p->offset) * inverse);

    code = code > least ? code : least;
    return code < most ? code : most;
}

/* Sets [*LEAST, *MOST] to the codes whose points fit into int8. */
static void span_codes(const struct points *p, float *least, float *most)
{
    float low = ceilf((-127 - p->offset) / p->multiple), high = floorf((127 - p->offset) / p->multiple);

    *least = low > 0 ? low : 0;
    *most = high < INT4_MOST ? high : INT4_MOST;
}

/* Rounds X [n] to the points P and sets their error. Returns the offset with which the same codes have the
 * least error. */
static float weigh_points(struct points *p, const float *x, size_t n)
{
    float least, most, inverse = 1 / p->multiple, error = 0, sum = 0;

    span_codes(p, &least, &most);
    for (size_t i = 0; i < n; i++) {
        float rest = x[i] - p->multiple * code_of(x[i], inverse, p, least, most), d = rest - p->offset;

        sum += rest;
        error += d * d;
    }
    p->error = error;
    return nearest(sum / (float)n);
}

static float clamp_i8(float x)
{
    return x < -127 ? -127 : x > 127 ? 127 : x;
}

/* Fits points with the given MULTIPLE to X [n], and copies them to BEST if their error is smaller. The points lie
 * around MIDDLE at first; then their offset is replaced, up to three times, by the offset with the least error. */
static void settle_points(struct points *best, float multiple, float middle, const float *x, size_t n)
{
    struct points p = {.multiple = multiple, .offset = clamp_i8(nearest(middle - multiple * INT4_MOST / 2))};

    for (int round = 0; round < 3; round++) {
        float next = clamp_i8(weigh_points(&p, x, n)), was = p.offset;

        if (p.error < best->error)
            *best = p;
        p.offset = next;
        if (next == was)
            break;
    }
}

/* Returns the best points for X [n], which is scaled to the int8 grid. With m the multiple whose points
 * cover all of X, it tries multiples from 0.65 m to m: smaller ones clip too many elements, larger ones
 * waste codes. */
static struct points points_for(const float *x, size_t n)
{
    struct points best = {.multiple = 1, .error = INFINITY};
    float low = x[0], high = x[0], all;

    for (size_t i = 1; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    all = ceilf((high - low) / INT4_MOST);
    all = all < 1 ? 1 : all > INT4_MULTIPLE ? INT4_MULTIPLE : all;
    for (float multiple = floorf(all * 0.65f) < 1 ? 1 : floorf(all * 0.65f); multiple <= all; multiple++)
        settle_points(&best, multiple, (low + high) / 2, x, n);
    return best;
}

/* ---- packing ---- */

/* The state of packing column C of PANEL. */
struct column {
    uint8_t *panel;
    size_t c;
    /* The weights, scaled to the int8 grid and not rounded, [int4_k(k)]. */
    float *w;
    /* The weights plus the errors that GPTQ carries to them, [int4_k(k)]; these numbers are rounded. */
    float *x;
    float error[INT4_MOST_GROUP], scale;
    /* Sum of the rounded weights. */
    int32_t sum;
};

/* Writes the codes, multiple and offset of the group of N elements from AT on; carries errors within it. */
static void put_group(struct column *w, const struct linear *l, const float *gptq, size_t at, size_t n)
{
    float *x = w->x + at, least, most;
    struct points p = points_for(x, n);
    uint8_t *head = w->panel + int4_head(at / INT4_UNIT, l->group);

    span_codes(&p, &least, &most);
    head[w->c] = (uint8_t)p.multiple;
    head[KERN_NR + w->c] = (uint8_t)(int8_t)p.offset;
    for (size_t i = 0; i < n; i++) {
        unsigned code = (unsigned)code_of(x[i], 1 / p.multiple, &p, least, most);
        size_t k = at + i, line = k % INT4_UNIT / 8 * 2 + w->c / 16, length;
        int32_t point = (int32_t)p.multiple * (int32_t)code + (int32_t)p.offset;

        w->panel[int4_codes(k / INT4_UNIT, l->group) + line * INT4_LINE + w->c % 16 * 4 + k % 4] |=
            (uint8_t)(code << (k % 8 / 4 * 4));
        w->sum += point;
        w->error[i] = w->w[k] - (float)point;
        if (gptq && k < l->k) {
            const float *row = gptq_row(gptq, l->k, k, &length);

            for (size_t j = 1; j < length && i + j < n; j++)
                x[i + j] += w->error[i] * row[j];
        }
    }
}

/* Reads column I of D, rotates it and scales it to the int8 grid. Returns false if a weight is not finite. */
static bool take_column(struct column *w, const struct linear *l, const struct linear_desc *d, size_t i)
{
    size_t bytes = int4_k(l->k) * sizeof(float);
    float most = 0, inverse;

    linear_elements(d, i, 0, l->k, w->w);
    if (!dtype_all_finite(w->w, l->k, DT_F32))
        return false;
    rotate(l->kern, w->w, w->w, l->k);
    memset(w->w + l->k, 0, bytes - l->k * sizeof(float));
    for (size_t k = 0; k < l->k; k++)
        most = fabsf(w->w[k]) > most ? fabsf(w->w[k]) : most;
    w->scale = most / 127;
    inverse = 127 / most;
    if (isinf(inverse))
        w->scale = inverse = 0;
    for (size_t k = 0; k < l->k; k++)
        w->w[k] *= inverse;
    memcpy(w->x, w->w, bytes);
    w->sum = 0;
    return isfinite(w->scale);
}

/* Packs the column W into its panel, which must be zeroed. */
static void put_column(struct column *w, const struct linear *l, const float *gptq)
{
    size_t k = int4_k(l->k);
    uint8_t *tail = w->panel + int4_panel_bytes(k, l->group) - KERN_I8_TAIL + 4 * w->c;

    for (size_t at = 0, n; at < k; at += n) {
        n = k - at < l->group ? k - at : l->group;
        put_group(w, l, gptq, at, n);
        if (gptq)
            gptq_carry(gptq, l->k, at, n < l->k - at ? n : l->k - at, w->error, w->x);
    }
    w->sum *= -128;
    memcpy(tail, &w->sum, sizeof(w->sum));
    memcpy(tail + KERN_I8_TAIL / 2, &w->scale, sizeof(w->scale));
}

static bool int4_pack(struct linear *l, const struct linear_desc *d, size_t begin, size_t end, void *scratch)
{
    size_t bytes = int4_panel_bytes(int4_k(l->k), l->group);
    struct column w = {.w = scratch, .x = (float *)scratch + int4_k(l->k)};

    for (size_t i = begin; i < end; i++) {
        w.panel = (uint8_t *)l->packed + i / KERN_NR * bytes;
        w.c = i % KERN_NR;
        if (w.c == 0)
            memset(w.panel, 0, bytes);
        if (!take_column(&w, l, d, i))
            return false;
        put_column(&w, l, d->gptq);
    }
    return true;
}

/* ---- running ---- */

static void int4_put(const struct linear *l, void *in, const float *x, size_t row, size_t m, void *scratch)
{
    size_t k = int4_k(l->k);
    float *rotated = scratch; /* the rotated row, [k] */

    rotate(l->kern, rotated, x, l->k);
    memset(rotated + l->k, 0, (k - l->k) * sizeof(*rotated));
    l->kern->gemm_in_i8(in, rotated, row, m, k, 0);
}

/* pack() needs scratch for two columns; run() for a panel, followed by the sums of the gemm. */
static size_t int4_scratch_bytes(const struct linear *l)
{
    size_t k = int4_k(l->k), columns = 2 * k * sizeof(float),
           run = kern_i8_panel_bytes(k) + kern_gemm_sums_bytes(l->kern, KERN_FN_gemm_i4);

    return columns > run ? columns : run;
}

static void int4_run(const struct linear *l, const void *in, const struct linear_end *end, size_t m,
                     size_t p0, size_t p1, void *scratch)
{
    size_t panel = kern_i8_panel_bytes(int4_k(l->k));
    struct kern_gemm g = linear_gemm(l, in, end, m, (char *)scratch + panel);

    g.k = int4_k(l->k);
    l->kern->gemm_i4(&g, l->group, p0, p1, scratch);
}

const struct linear_backend linear_int4 = {.name = "gallop",
                                           .layout = LINEAR_LAYOUT_INT4,
                                           .accepts = int4_accepts,
                                           .open = int4_open,
                                           .pack = int4_pack,
                                           .put = int4_put,
                                           .run = int4_run,
                                           .scratch_bytes = int4_scratch_bytes};
const struct linear_backend linear_int4_native = {.name = "native",
                                                  .layout = LINEAR_LAYOUT_INT4,
                                                  .accepts = int4_accepts,
                                                  .open = int4_open,
                                                  .pack = int4_pack,
                                                  .put = int4_put,
                                                  .run = int4_run,
                                                  .scratch_bytes = int4_scratch_bytes,
                                                  .flags = LINEAR_NATIVE};
