/* linear_imbps.c - backend "imbps": computes an MLP in column ranges of its intermediate that stay in L2 (AMD
 * PACE calls it Intermediate Memory Block Partitioning).
 *
 * The intermediate [T, I] of an MLP is cut into splits of columns that stay in L2 for all rows of a step. For
 * each split the threads compute up (and gate) with the activation, then multiply the split with its rows of
 * down and add the products to the output, in which the sums accumulate. All splits use the same buffer.
 * Packed weights, input layouts and kernels are those of "gallop". In both backends down adds along I in
 * ascending order, so the bits are the same. For few rows there is one split, and the computation is that of
 * "gallop".
 */
#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/threads/pool.h"
#include "kern/gemm.h"
#include "kern/kern.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"

/* The number of columns of a split is a multiple of UNIT, and at least LEAST. */
enum { UNIT = 64, LEAST = 256 };

static bool imbps_accepts(const struct linear_desc *d, const char **why_not)
{
    *why_not = "the backend serves mlp only";
    if (d->kind != OP_MLP)
        return false;
    *why_not = "the backend serves whole MLPs, not the experts of a mixture";
    if (d->is_expert)
        return false;
    *why_not =
        "the backend computes in fp32 and bf16 only, because a split cannot compute the scale of an int8 row";
    return (d->dtype == DT_F32 || d->dtype == DT_BF16) && !d->to_mxfp4;
}

/* A split: the columns [at, at + n) of the intermediate. */
struct split {
    const struct linear_mlp *w;
    const struct pool *pool;
    size_t at, n;
};

static size_t columns_of_panel(const struct linear *up)
{
    return up->paired ? KERN_PAIRS : KERN_NR;
}

static void multiply(const struct linear *l, const struct kern_gemm *g, size_t p0, size_t p1)
{
    (l->dtype == DT_F32 ? l->kern->gemm_f32 : l->kern->gemm_bf16)(g, p0, p1);
}

static void run_up(void *ctx, int thread, size_t p0, size_t p1, size_t ahead)
{
    const struct split *s = ctx;
    const struct linear_mlp *w = s->w;
    const struct linear_end end = {.next = w->middle, .activated = true, .act = w->act, .ahead = ahead};
    struct kern_gemm g = linear_gemm(w->up, w->in, &end, w->m, linear_scratch(w->up, s->pool, thread));
    size_t first = s->at / columns_of_panel(w->up);

    g.b = (const char *)g.b + first * linear_panel_bytes(KERN_NR, w->up->k, w->up->dtype);
    g.bias = g.bias ? g.bias + first * KERN_NR : NULL;
    g.n = s->n;
    multiply(w->up, &g, p0, p1);
}

static void run_down(void *ctx, int thread, size_t p0, size_t p1, size_t ahead)
{
    const struct split *s = ctx;
    const struct linear_mlp *w = s->w;
    const struct linear_end end = {.y = w->y, .ldy = w->down->n, .ahead = ahead};
    struct kern_gemm g =
        linear_gemm(w->down, w->middle, &end, w->m, linear_scratch(w->down, s->pool, thread));

    g.b = (const char *)g.b + linear_panel_bytes(KERN_NR, s->at, w->down->dtype);
    g.bias = s->at + s->n == w->down->k ? g.bias : NULL;
    g.k = s->n;
    g.panel_k = w->down->k;
    g.onto = s->at > 0;
    multiply(w->down, &g, p0, p1);
}

void linear_run_splits(const struct linear_mlp *w, struct pool *pool, size_t split)
{
    struct split s = {.w = w, .pool = pool};
    size_t each = columns_of_panel(w->up), k = w->down->k;

    ASSERT(split && split % KERN_PIECE == 0, "splits of %zu", split);
    for (; s.at < k && w->m; s.at += s.n) {
        s.n = k - s.at < split ? k - s.at : split;
        pool_run_ranges(pool, (s.n + each - 1) / each, run_up, &s);
        pool_run_ranges(pool, (w->down->n + KERN_NR - 1) / KERN_NR, run_down, &s);
    }
}

/* Returns the number of columns in a split if the intermediate is cut into the fewest equal splits of which M
 * rows fit into L2. */
static size_t split_for(const struct linear *down, size_t m)
{
    bool dots = strcmp(kern_class(down->kern, KERN_FN_gemm_bf16), "bf16") != 0;
    size_t bytes = m * (down->dtype == DT_BF16 && dots ? sizeof(uint16_t) : sizeof(float)),
           most = cpu_cache_bytes(2) / bytes, n;

    most = most < LEAST ? LEAST : most / UNIT * UNIT;
    n = (down->k + most - 1) / most;
    return ((down->k + n - 1) / n + UNIT - 1) / UNIT * UNIT;
}

static void imbps_run_mlp(const struct linear_mlp *w, struct pool *pool)
{
    linear_run_splits(w, pool, split_for(w->down, w->m));
}

const struct linear_backend linear_imbps = {.name = "imbps",
                                            .layout = LINEAR_LAYOUT_PANELS,
                                            .accepts = imbps_accepts,
                                            .open = linear_panels_open,
                                            .pack = linear_panels_pack,
                                            .put = linear_panels_put,
                                            .run = linear_panels_run,
                                            .scratch_bytes = linear_panels_scratch,
                                            .row = linear_panels_row,
                                            .run_mlp = imbps_run_mlp};
