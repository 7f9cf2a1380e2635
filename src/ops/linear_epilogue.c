/* linear_epilogue.c - the epilogue of backends whose kernels return fp32 sums: adds the bias, applies the
 * activation with the kernels of the linear, and writes the result. The bits are those of the epilogues of
 * the gemm kernels. */
#include <string.h>

#include "ops/linear.h"

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
