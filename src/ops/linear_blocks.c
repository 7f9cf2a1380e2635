/* linear_blocks.c - backend "blocks": quantized weights of a GGUF file keep their integers.
 *
 * The backend accepts matrices all of whose parts have quantized formats (quant.def), and needs about as many
 * bytes as the file, in the panels of kern/format/groups.h. Backend "mxfp4_int8" serves MXFP4. Inputs are
 * rounded to 8-bit integers with one scale for each 32 elements, as in llama.cpp; sums of 32 products are
 * exact. Parts may have different formats, as q, k and v often do, if each part has whole panels. Columns
 * that pad the last panel are zeros.
 */
#include <string.h>

#include "kern/format/groups.h"
#include "kern/kern.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "tensor/quant.h"
#include "tensor/view.h"

static size_t panel_bytes(const struct linear *l, size_t part)
{
    return groups_panel_bytes(quant_format_of(l->stored[part]), l->k);
}

static bool stored_accepts(const struct linear_desc *d, const char **why_not)
{
    bool mixed = false;

    *why_not =
        "the backend accepts weights in quantized formats of GGUF except MXFP4 (several formats: each in "
        "multiples of 32 rows), with dtype bf16 and no other quantization";
    if (!d->as_stored || d->dtype != DT_BF16)
        return false;
    for (size_t p = 0; p < d->n_parts; p++) {
        const struct view *v = d->part[p];
        size_t group = dtype_group(v->dtype);

        if (!dtype_is_grouped(v->dtype) || v->dtype == DT_MXFP4 || v->stride[1] != 1 ||
            v->stride[0] % group || v->shape[1] % group || d->scale[p])
            return false;
        mixed |= v->dtype != d->part[0]->dtype;
    }
    for (size_t p = 0; p + 1 < d->n_parts && mixed; p++)
        if (d->paired || d->part[p]->shape[0] % KERN_NR)
            return false;
    return true;
}

static size_t stored_open(struct linear *l, const struct linear_desc *d)
{
    size_t bytes = 0, panels = (linear_columns(l) + KERN_NR - 1) / KERN_NR;
    bool mixed = false;

    l->dtype = DT_I8;
    for (size_t p = 1; p < d->n_parts; p++)
        mixed |= d->part[p]->dtype != d->part[0]->dtype;
    for (size_t p = 0; p < (mixed ? d->n_parts : 1); p++) {
        l->stored[p] = d->part[p]->dtype;
        l->part_panels[p] = mixed ? (d->part[p]->shape[0] + KERN_NR - 1) / KERN_NR : panels;
        bytes += l->part_panels[p] * panel_bytes(l, p);
    }
    return bytes;
}

/* Returns the address of the panels of PART and sets *PANEL to the number of its first panel. */
static char *part_at(const struct linear *l, size_t part, size_t *panel)
{
    char *at = l->packed;

    *panel = 0;
    for (size_t p = 0; p < part; p++) {
        *panel += l->part_panels[p];
        at += l->part_panels[p] * panel_bytes(l, p);
    }
    return at;
}

static const uint8_t *row_at(const struct view *v, size_t row)
{
    return (const uint8_t *)v->data +
           view_stored_row(v, row) * (v->stride[0] / dtype_group(v->dtype)) * dtype_bytes(v->dtype);
}

/* Packs group I of column C of PANEL. Returns false if one of its weights is not finite. */
static bool pack_group(const struct quant_format *f, uint8_t *panel, size_t i, size_t c,
                       const struct quant_codes *q)
{
    uint8_t *head = panel + (size_t)(groups_head(f, panel, i) - panel);
    uint8_t *group = panel + (size_t)(groups_at(f, panel, i) - panel);

    memcpy(head + 2 * c, &q->d, sizeof(q->d));
    if (f->min)
        memcpy(head + 2 * (KERN_NR + c), &q->min, sizeof(q->min));
    for (size_t m = 0; m < groups_multiples(f); m++)
        group[m * KERN_NR + c] = q->multiple[m];
    groups_put_codes(group + groups_multiples(f) * KERN_NR, c, q->code, f->bits);
    return (q->d & 0x7c00) != 0x7c00 && (q->min & 0x7c00) != 0x7c00;
}

/* Packs 32 columns from column FIRST on. Returns false if one of their weights is not finite. */
static bool pack_panel(const struct linear *l, const struct linear_desc *d, size_t first)
{
    const struct quant_format *f;
    size_t part = 0, panel, bytes;
    char *to = part_at(l, part, &panel);
    bool finite = true;

    while (first / KERN_NR >= panel + l->part_panels[part])
        to = part_at(l, ++part, &panel);
    f = quant_format_of(l->stored[part]);
    bytes = panel_bytes(l, part);
    to += (first / KERN_NR - panel) * bytes;
    memset(to, 0, bytes);
    for (size_t c = 0; c < KERN_NR; c++) {
        size_t p, row = linear_column(d, first + c, &p);
        struct quant_codes q;

        for (size_t i = 0; i < l->k / GROUPS_SIZE && p < d->n_parts; i++) {
            quant_group(&q, row_at(d->part[p], row), l->stored[part], i);
            finite &= pack_group(f, (uint8_t *)to, i, c, &q);
        }
    }
    return finite;
}

static bool stored_pack(struct linear *l, const struct linear_desc *d, size_t begin, size_t end,
                        void *scratch)
{
    bool finite = true;

    (void)scratch;
    for (size_t first = begin; first < end; first += KERN_NR)
        finite &= pack_panel(l, d, first);
    return finite;
}

static void stored_put(const struct linear *l, void *in, const float *x, size_t row, size_t m, void *scratch)
{
    (void)scratch;
    l->kern->gemm_in_blocks(in, x, row, m, l->k);
}

static void stored_run(const struct linear *l, const void *in, const struct linear_end *end, size_t m,
                       size_t p0, size_t p1, void *scratch)
{
    (void)scratch;
    for (size_t part = 0; part < LINEAR_MAX_PARTS && l->part_panels[part]; part++) {
        struct kern_gemm g = linear_gemm(l, in, end, m, NULL); /* gemm_blocks needs no sums */
        size_t from, to;

        g.b = part_at(l, part, &g.first);
        from = p0 > g.first ? p0 : g.first;
        to = g.first + l->part_panels[part];
        g.ahead = g.ahead < to ? g.ahead : to;
        to = p1 < to ? p1 : to;
        if (from < to)
            l->kern->gemm_blocks(&g, l->stored[part], from, to);
    }
}

static size_t stored_most(const struct linear *l)
{
    return kern_gemm_most(l->kern, KERN_FN_gemm_blocks);
}

const struct linear_backend linear_blocks = {.name = "blocks",
                                             .layout = "blocks of 32 x 32",
                                             .accepts = stored_accepts,
                                             .open = stored_open,
                                             .pack = stored_pack,
                                             .put = stored_put,
                                             .run = stored_run,
                                             .most = stored_most};
