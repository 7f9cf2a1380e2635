/* weights.c - reads packed weights back row by row, and copies them to the device. */
#include "engine/pjrt/weights.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "ops/linear_ints.h"
#include "ops/moe.h"
#include "ops/rotate.h"

int weights_check(const struct model *m, struct err *e)
{
    for (size_t i = 0; i < m->n_linears; i++)
        if (!linear_has_rows(m->linear[i]) && linear_ints_of(m->linear[i]) == LINEAR_NO_INTS)
            return err_set(
                e, ERR_UNSUPPORTED,
                "pjrt: %s is packed by backend %s, whose weights are not served; quant \"none\", \"int8\" "
                "or \"int4\" is expected",
                m->linear[i]->name, m->linear[i]->backend->name);
    return 0;
}

/* Writes the numbers X [n] as elements [at, at + n) of TO, which has the type TYPE. */
static void put_numbers(void *to, enum dtype type, size_t at, const float *x, size_t n)
{
    if (type == DT_F32) {
        memcpy((float *)to + at, x, n * sizeof(float));
        return;
    }
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)to)[at + i] = dtype_f32_to_bf16(x[i]);
}

/* Writes the PIECE of the integers of L to TO, as matrix number AT. ROW has room for a row. */
static void put_ints(void *to, enum stablehlo_piece piece, size_t at, const struct linear *l, void *row)
{
    bool is_int4 = linear_ints_of(l) == LINEAR_INT4;
    size_t half = (l->k + 1) / 2, n_groups = is_int4 ? linear_ints_groups(l) : 0;
    int8_t *numbers = row, *groups = numbers + 2 * half; /* multiples and offsets */

    numbers[2 * half - 1] = 0;
    for (size_t i = 0; i < l->n; i++) {
        size_t r = at * l->n + i;
        float scale =
            is_int4 ? linear_ints_row4(l, i, row, groups, groups + n_groups) : linear_ints_row8(l, i, row);

        if (piece == STABLEHLO_SCALES)
            ((float *)to)[r] = scale;
        else if (piece == STABLEHLO_NUMBERS)
            memcpy((int8_t *)to + r * l->k, numbers, l->k);
        else if (piece != STABLEHLO_CODES)
            memcpy((int8_t *)to + r * n_groups, groups + (piece == STABLEHLO_OFFSETS ? n_groups : 0),
                   n_groups);
        for (size_t k = 0; k < half && piece == STABLEHLO_CODES; k++)
            ((uint8_t *)to)[r * half + k] =
                (uint8_t)((unsigned)numbers[k] | (unsigned)numbers[half + k] << 4);
    }
}

/* Writes the PIECE of L, a matrix [n, k], to TO, as matrix number AT. ROW has room for a row. */
static void put_linear(void *to, const struct stablehlo_weight *w, size_t at, const struct linear *l,
                       float *row)
{
    if (linear_ints_of(l)) {
        put_ints(to, w->piece, at, l, row);
        return;
    }
    for (size_t i = 0; i < l->n; i++) {
        linear_row(l, i, row);
        put_numbers(to, w->dtype, (at * l->n + i) * l->k, row, l->k);
    }
}

/* Writes the Hadamard matrix [n, n] whose rows have the length 1. */
static void put_hadamard(float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            to[i * n + k] =
                (float)(__builtin_popcountll(i & k) % 2 ? -1 / sqrt((double)n) : 1 / sqrt((double)n));
}

static void put_rope(float *to, const struct rope *r, bool cos, size_t context, float *other)
{
    struct batch_seq seq = {.n = context, .n_prompt = context, .n_total = context};
    struct batch b = {.n_tokens = context, .n_seqs = 1, .seq = &seq};

    rope_fill(r, &b, 0, context, cos ? to : other, cos ? other : to);
}

/* Writes W to TO. ROW has room for a row of W, or for the whole of a rope's table. */
static void fill(void *to, const struct stablehlo_weight *w, size_t context, float *row)
{
    const struct op_embed *embed = w->of;
    const struct linear *l = w->of;
    const struct moe *moe = w->of;

    switch (w->kind) {
    case STABLEHLO_LINEAR: put_linear(to, w, 0, l, row); break;
    case STABLEHLO_EXPERTS:
        for (size_t x = 0; x < w->shape[0]; x++)
            put_linear(to, w, x, w->down ? &moe->expert[x].down : &moe->expert[x].up, row);
        break;
    case STABLEHLO_BIAS:
        for (size_t i = 0; i < w->shape[0]; i++)
            ((float *)to)[i] = linear_bias(l, i);
        break;
    case STABLEHLO_VECTOR: put_numbers(to, DT_F32, 0, w->of, w->shape[0]); break;
    case STABLEHLO_TABLE:
        for (size_t i = 0; i < w->shape[0]; i++) {
            view_row_f32(&embed->table, i, row);
            put_numbers(to, w->dtype, i * w->shape[1], row, w->shape[1]);
        }
        break;
    case STABLEHLO_COS:
    case STABLEHLO_SIN: put_rope(to, w->of, w->kind == STABLEHLO_COS, context, row); break;
    case STABLEHLO_SIGNS:
        for (size_t i = 0; i < w->shape[0]; i++)
            ((float *)to)[i] = rotate_sign(i);
        break;
    case STABLEHLO_HADAMARD: put_hadamard(to, w->shape[0]); break;
    }
}

/* Returns the number of elements in a row of W, or in what fill() needs of it. */
static size_t row_of(const struct stablehlo_weight *w)
{
    const struct linear *l = w->of;

    if (w->kind == STABLEHLO_EXPERTS) {
        const struct moe *m = w->of;

        l = w->down ? &m->expert->down : &m->expert->up;
    }
    return w->kind == STABLEHLO_LINEAR || w->kind == STABLEHLO_EXPERTS ? l->k + 4 : w->shape[w->n_dims - 1];
}

int weights_upload(struct plugin *p, const struct stablehlo_weight *w, size_t context,
                   struct pjrt_buffer **out, struct err *e)
{
    bool is_table = w->kind == STABLEHLO_COS || w->kind == STABLEHLO_SIN;
    size_t n = 1, last = row_of(w);
    void *host;
    float *row;
    int rc;

    for (int i = 0; i < w->n_dims; i++)
        if (__builtin_mul_overflow(n, w->shape[i], &n))
            return err_nomem(e, "a weight");
    host = plugin_staging(p, n * dtype_bytes(w->dtype));
    row = mem_alloc((is_table ? n : last) * sizeof(float), MEM_ENGINE);
    if (!host || !row) {
        rc = err_nomem(e, "a weight");
    } else {
        fill(host, w, context, row);
        rc = plugin_upload(p, host, w->dtype, w->shape, w->n_dims, out, e);
    }
    plugin_free_staging(p, host);
    mem_free(row);
    return rc;
}
