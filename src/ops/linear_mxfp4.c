/* linear_mxfp4.c - backends whose weights stay in MXFP4 and are unpacked by the gemm that uses them.
 *
 * Both backends accept matrices all of whose parts are MXFP4, stored as in GPT-OSS (nibbles and scales in
 * separate tensors) or as in GGUF (scale and nibbles together), and need as many bytes as the file. With
 * quant mxfp4, weights of any other type are rounded to MXFP4, and rows of any length are padded with zeros.
 * Columns that pad the last panel are zeros with a scale of 1.
 *   mxfp4        computes in fp32 or bf16, with the panels of kern/format/mx4.h. Results are those of the same
 *                weights unpacked when they are loaded
 *   mxfp4_int8   computes in integers, with the panels of kern/format/groups.h: twice a weight is a byte, and
 *                inputs are bytes with one scale for each 32. Chosen for quant mxfp4 and for MXFP4 in a GGUF file
 */
#include <math.h>
#include <string.h>

#include "kern/format/groups.h"
#include "kern/format/mx4.h"
#include "kern/kern.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "tensor/view.h"

enum {
    GROUP = MX4_GROUP_SIZE,
    HALF = GROUP / 2,
    /* The smallest scale byte with which a weight can overflow fp32, as 6 * 2^126 does. 255 is NaN. */
    LARGE = 253,
};

/* Returns true if V is stored in MXFP4 and its groups can be copied unchanged. */
static bool is_in_groups(const struct view *v)
{
    return v->dtype == DT_MXFP4 && v->stride[1] == 1 && v->stride[0] % GROUP == 0 &&
           v->shape[1] % GROUP == 0 && !v->zipped;
}

/* Returns true if each part of D has groups that can be copied unchanged, or if all weights are to be rounded to MXFP4
 * (MXFP4 weights stay unchanged). */
static bool is_taken(const struct linear_desc *d)
{
    for (size_t p = 0; p < d->n_parts; p++)
        if (!is_in_groups(d->part[p]) && !d->to_mxfp4)
            return false;
    return true;
}

static bool mxfp4_accepts(const struct linear_desc *d, const char **why_not)
{
    *why_not =
        "the backend accepts MXFP4 weights, or any with quant mxfp4, and computes in fp32 and bf16 only";
    return is_taken(d) && (d->dtype == DT_F32 || d->dtype == DT_BF16);
}

static bool mxfp4_int8_accepts(const struct linear_desc *d, const char **why_not)
{
    bool in_groups = d->as_stored;

    *why_not =
        "the backend accepts MXFP4 weights of a GGUF file, or any with quant mxfp4, and needs dtype bf16";
    for (size_t p = 0; p < d->n_parts; p++)
        in_groups &= !d->scale[p];
    return is_taken(d) && d->dtype == DT_BF16 && (d->to_mxfp4 || in_groups);
}

/* Returns K, padded to whole groups. */
static size_t whole_k(const struct linear *l)
{
    return (l->k + GROUP - 1) / GROUP * GROUP;
}

static size_t mxfp4_open(struct linear *l, const struct linear_desc *d)
{
    (void)d;
    l->padded = l->k % GROUP != 0;
    return (linear_columns(l) + KERN_NR - 1) / KERN_NR * (whole_k(l) / GROUP) * MX4_GROUP_BYTES;
}

static size_t mxfp4_int8_open(struct linear *l, const struct linear_desc *d)
{
    (void)d;
    l->dtype = DT_I8;
    l->padded = l->k % GROUP != 0;
    l->stored[0] = DT_MXFP4;
    l->part_panels[0] = (linear_columns(l) + KERN_NR - 1) / KERN_NR;
    return l->part_panels[0] * groups_panel_bytes(quant_format_of(DT_MXFP4), whole_k(l));
}

/* Returns the nibble whose value is nearest to X, ties to the even mantissa. */
static uint8_t nibble_of(float x)
{
    static const float between[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    uint8_t n = 0;

    while (n < 7 && (n % 2 ? fabsf(x) >= between[n] : fabsf(x) > between[n]))
        n++;
    return n | (signbit(x) ? 8 : 0);
}

/* Returns the squared error of rounding X [32] to FP4 with a scale of 2^E. */
static float error_of(const float *x, int e)
{
    static const float value[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float sum = 0;

    for (size_t i = 0; i < GROUP; i++) {
        float y = ldexpf(x[i], -e), d = fabsf(y) - value[nibble_of(y) & 7];

        sum += d * d;
    }
    return ldexpf(sum, 2 * e);
}

/* Rounds X [32] to a group. Three powers of two are tried as the scale: the scale of the specification, with which the
 * largest |x| is from 4 to 8, and its two neighbours. The scale with the least squared error is used. */
static void round_group(const float *x, uint8_t *scale, uint8_t nibbles[HALF])
{
    float most = 0, least_error = INFINITY;
    int e, best = -127;

    for (size_t i = 0; i < GROUP; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    frexpf(most, &e);
    for (int t = e - 4; t <= e - 2 && most > 0; t++) {
        int in_range = t < -127 ? -127 : t > LARGE - 1 - 127 ? LARGE - 1 - 127 : t;
        float error = error_of(x, in_range);

        if (error < least_error) {
            least_error = error;
            best = in_range;
        }
    }
    *scale = (uint8_t)(best + 127);
    for (size_t i = 0; i < HALF; i++)
        nibbles[i] =
            (uint8_t)(nibble_of(ldexpf(x[2 * i], -best)) | (nibble_of(ldexpf(x[2 * i + 1], -best)) << 4));
}

/* Reads group number B in row I of d->part[P]: its SCALE, and its NIBBLES with adjacent elements in one
 * byte. */
static void stored_group(const struct linear_desc *d, size_t p, size_t i, size_t b, uint8_t *scale,
                         uint8_t nibbles[HALF])
{
    const struct view *v = d->part[p], *s = d->scale[p];
    const uint8_t *in;

    if (s) {
        *scale = ((const uint8_t *)s->data)[i * s->stride[0] + b * s->stride[1]];
        memcpy(nibbles, (const uint8_t *)v->data + (i * v->stride[0] / GROUP + b) * HALF, HALF);
        return;
    }
    in = (const uint8_t *)v->data + (i * v->stride[0] / GROUP + b) * (HALF + 1);
    *scale = *in++;
    for (size_t j = 0; j < HALF; j++) { /* GGUF: byte J holds elements J and J + 16 */
        uint8_t even = in[2 * j % HALF], odd = in[(2 * j + 1) % HALF];

        if (j < HALF / 2)
            nibbles[j] = (uint8_t)((even & 15) | (odd << 4));
        else
            nibbles[j] = (uint8_t)((even >> 4) | (odd & 0xf0));
    }
}

/* One group of 32 weights along K for each of 32 columns. */
struct group {
    uint8_t scale[KERN_NR], nibbles[KERN_NR][HALF];
};

/* Reads group B of 32 columns from column FIRST on. Returns false if one of their weights is not finite. */
static bool group_of(const struct linear_desc *d, size_t first, size_t b, struct group *g)
{
    bool finite = true;

    for (size_t c = 0; c < KERN_NR; c++) {
        size_t p, row = linear_column(d, first + c, &p);

        g->scale[c] = 127;
        memset(g->nibbles[c], 0, HALF);
        if (p < d->n_parts && !is_in_groups(d->part[p])) {
            size_t k = d->part[p]->shape[1], n = k - b * GROUP < GROUP ? k - b * GROUP : GROUP;
            float x[GROUP] = {0};

            linear_elements(d, first + c, b * GROUP, n, x);
            finite &= dtype_all_finite(x, n, DT_F32);
            round_group(x, &g->scale[c], g->nibbles[c]);
        } else if (p < d->n_parts)
            stored_group(d, p, row, b, &g->scale[c], g->nibbles[c]);
        if (g->scale[c] >= LARGE) {
            float x[GROUP];

            linear_elements(d, first + c, b * GROUP, GROUP, x);
            finite &= dtype_all_finite(x, GROUP, DT_F32);
        }
    }
    return finite;
}

static uint8_t nibble_at(const struct group *g, size_t c, size_t k)
{
    return (g->nibbles[c][k / 2] >> (k % 2 * 4)) & 15;
}

static bool mxfp4_pack(struct linear *l, const struct linear_desc *d, size_t begin, size_t end, void *scratch)
{
    size_t groups = whole_k(l) / GROUP;
    uint8_t *to = (uint8_t *)l->packed + begin / KERN_NR * groups * MX4_GROUP_BYTES;
    bool finite = true;
    struct group g;

    (void)scratch;
    for (size_t first = begin; first < end; first += KERN_NR)
        for (size_t b = 0; b < groups; b++, to += MX4_GROUP_BYTES) {
            finite &= group_of(d, first, b, &g);
            memcpy(to, g.scale, sizeof(g.scale));
            for (size_t k = 0; k < GROUP; k++)
                for (size_t c = 0; c < KERN_NR / 2; c++)
                    to[mx4_byte(k, c)] =
                        (uint8_t)(nibble_at(&g, c, k) | (nibble_at(&g, c + KERN_NR / 2, k) << 4));
        }
    return finite;
}

static bool mxfp4_int8_pack(struct linear *l, const struct linear_desc *d, size_t begin, size_t end,
                            void *scratch)
{
    const struct quant_format *f = quant_format_of(DT_MXFP4);
    size_t groups = whole_k(l) / GROUP, bytes = groups_span_bytes(f);
    uint8_t *to = (uint8_t *)l->packed + begin / KERN_NR * groups * bytes, code[GROUPS_SIZE];
    bool finite = true;
    struct group g;

    (void)scratch;
    for (size_t first = begin; first < end; first += KERN_NR)
        for (size_t b = 0; b < groups; b++, to += bytes) {
            finite &= group_of(d, first, b, &g);
            memcpy(to, g.scale, sizeof(g.scale));
            for (size_t c = 0; c < KERN_NR; c++) {
                for (size_t k = 0; k < GROUP; k++)
                    code[k] = nibble_at(&g, c, k);
                groups_put_codes(to + sizeof(g.scale), c, code, f->bits);
            }
        }
    return finite;
}

/* Returns the bytes of scratch that filled_up() needs for a row. */
static size_t padded_bytes(const struct linear *l)
{
    return l->padded ? whole_k(l) * sizeof(float) : 0;
}

/* Returns the bytes of scratch: put() needs a padded row, run() a panel and the sums of the gemm. */
static size_t mxfp4_scratch_bytes(const struct linear *l)
{
    enum kern_fn f = l->dtype == DT_F32 ? KERN_FN_gemm_mx4_f32 : KERN_FN_gemm_mx4_bf16;
    size_t run = linear_panel_bytes(KERN_NR, whole_k(l), l->dtype) + kern_gemm_sums_bytes(l->kern, f),
           put = padded_bytes(l);

    return put > run ? put : run;
}

/* Returns X, or, if K is not a multiple of 32, PADDED [whole_k(l)] with a copy of X and zeros after it. */
static const float *filled_up(const struct linear *l, const float *x, float *padded)
{
    if (!l->padded)
        return x;
    memcpy(padded, x, l->k * sizeof(*x));
    memset(padded + l->k, 0, (whole_k(l) - l->k) * sizeof(*x));
    return padded;
}

static void mxfp4_put(const struct linear *l, void *in, const float *x, size_t row, size_t m, void *scratch)
{
    (l->dtype == DT_F32 ? l->kern->gemm_in_f32 : l->kern->gemm_in_bf16)(in, filled_up(l, x, scratch), row, m,
                                                                        whole_k(l));
}

static void mxfp4_int8_put(const struct linear *l, void *in, const float *x, size_t row, size_t m,
                           void *scratch)
{
    l->kern->gemm_in_blocks(in, filled_up(l, x, scratch), row, m, whole_k(l));
}

static void mxfp4_run(const struct linear *l, const void *in, const struct linear_end *end, size_t m,
                      size_t p0, size_t p1, void *scratch)
{
    size_t panel = linear_panel_bytes(KERN_NR, whole_k(l), l->dtype);
    struct kern_gemm g = linear_gemm(l, in, end, m, (char *)scratch + panel);

    g.k = whole_k(l);
    (l->dtype == DT_F32 ? l->kern->gemm_mx4_f32 : l->kern->gemm_mx4_bf16)(&g, p0, p1, scratch);
}

static void mxfp4_int8_run(const struct linear *l, const void *in, const struct linear_end *end, size_t m,
                           size_t p0, size_t p1, void *scratch)
{
    struct kern_gemm g = linear_gemm(l, in, end, m, NULL); /* gemm_blocks needs no sums */

    (void)scratch;
    g.k = whole_k(l);
    l->kern->gemm_blocks(&g, DT_MXFP4, p0, p1);
}

static size_t mxfp4_int8_most(const struct linear *l)
{
    return kern_gemm_most(l->kern, KERN_FN_gemm_blocks);
}

const struct linear_backend linear_mxfp4 = {.name = "mxfp4",
                                            .layout = "mxfp4 groups of 32 x 32",
                                            .accepts = mxfp4_accepts,
                                            .open = mxfp4_open,
                                            .pack = mxfp4_pack,
                                            .put = mxfp4_put,
                                            .run = mxfp4_run,
                                            .scratch_bytes = mxfp4_scratch_bytes};

const struct linear_backend linear_mxfp4_int8 = {.name = "mxfp4_int8",
                                                 .layout = "mxfp4 blocks of 32 x 32",
                                                 .accepts = mxfp4_int8_accepts,
                                                 .open = mxfp4_int8_open,
                                                 .pack = mxfp4_int8_pack,
                                                 .put = mxfp4_int8_put,
                                                 .run = mxfp4_int8_run,
                                                 .scratch_bytes = padded_bytes,
                                                 .most = mxfp4_int8_most};
