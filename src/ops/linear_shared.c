/* linear_shared.c - functions that backends of linears share: the mapping from columns of panels to rows of
 * the joined parts, reading weights, scratch, the histogram of inputs, the epilogue of kernels that return fp32
 * sums. The file depends on no backend. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/threads/pool.h"
#include "kern/gemm.h"
#include "kern/kern.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "tensor/quant.h"
#include "tensor/view.h"

size_t linear_joined_rows(const struct linear_desc *d)
{
    size_t n = 0;

    for (size_t p = 0; p < d->n_parts; p++)
        n += d->part[p]->shape[0];
    return n;
}

size_t linear_column(const struct linear_desc *d, size_t column, size_t *p)
{
    size_t i = column, half = d->paired ? linear_joined_rows(d) / 2 : 0;

    *p = 0;
    if (d->paired) {
        i = column / KERN_NR * KERN_PAIRS + column % KERN_PAIRS;
        i = i < half ? i + (column % KERN_NR < KERN_PAIRS ? 0 : half) : 2 * half;
    }
    while (*p < d->n_parts && i >= d->part[*p]->shape[0])
        i -= d->part[(*p)++]->shape[0];
    return i;
}

size_t linear_columns(const struct linear *l)
{
    return l->paired ? (l->n / 2 + KERN_PAIRS - 1) / KERN_PAIRS * KERN_NR : l->n;
}

/* Converts the elements [k0, k0 + n) of row I of an MXFP4 part with its scales in a separate tensor. */
static void mxfp4_elements(const struct view *v, const struct view *scale, size_t i, size_t k0, size_t n,
                           float *out)
{
    const uint8_t *row = (const uint8_t *)v->data + i * v->stride[0] / 2;
    uint8_t group[17], byte;

    for (size_t k = k0; k < k0 + n; k++) { /* decodes each element as the first element of a group */
        byte = row[k / 2];
        group[0] = ((const uint8_t *)scale->data)[i * scale->stride[0] + k / 32 * scale->stride[1]];
        group[1] = k % 2 ? byte >> 4 : byte & 15;
        quant_to_f32(out + (k - k0), group, DT_MXFP4, 0, 1);
    }
}

void linear_elements(const struct linear_desc *d, size_t column, size_t k0, size_t n, float *out)
{
    size_t p, i = linear_column(d, column, &p);

    if (p == d->n_parts)
        memset(out, 0, n * sizeof(*out));
    else if (d->scale[p])
        mxfp4_elements(d->part[p], d->scale[p], i, k0, n, out);
    else
        view_part_f32(d->part[p], i, k0, n, out);
}

void *linear_scratch(const struct linear *l, const struct pool *pool, int thread)
{
    if (!l->backend->scratch_bytes)
        return NULL;
    ASSERT(l->backend->scratch_bytes(l) <= pool_scratch_bytes(pool), "%s", l->name);
    return pool_scratch(pool, thread);
}

size_t linear_seen_bin(float largest)
{
    float bin = ceilf(log2f(largest) * LINEAR_SEEN_OCTAVE) + LINEAR_SEEN_ONE;

    return bin < 0 ? 0 : bin < LINEAR_SEEN_BINS ? (size_t)bin : LINEAR_SEEN_BINS - 1;
}

float linear_seen_largest(size_t bin)
{
    return exp2f(((float)bin - LINEAR_SEEN_ONE) / LINEAR_SEEN_OCTAVE);
}

/* The bits are those of the epilogues of the gemm kernels. */
void linear_end_panel(const struct linear *l, const struct linear_end *end, const struct linear_sums *s,
                      linear_put_part *put_part)
{
    bool pairs = end->activated && l->paired;
    size_t width = pairs ? KERN_PAIRS : KERN_NR, all = pairs ? l->n / 2 : linear_columns(l);
    size_t at = s->panel * width, n = all - at < width ? all - at : width;

    for (size_t r = 0; r < s->rows; r++) {
        float *x = s->sums + r * s->ld;

        for (size_t c = 0; l->bias && c < KERN_NR && s->panel * KERN_NR + c < linear_columns(l); c++)
            x[c] += l->bias[s->panel * KERN_NR + c];
        if (pairs)
            l->kern->glu(x, x, x + KERN_PAIRS, n, end->act);
        else if (end->activated)
            l->kern->act(x, x, n, end->act);
        if (end->y)
            memcpy(end->y + (s->row + r) * end->ldy + at, x, n * sizeof(*x));
        else
            put_part(l, end->next, x, at, n, s->row + r, s->m, all);
    }
}
