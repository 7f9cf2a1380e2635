/* weights.c - reads packed weights back row by row, and copies them to the device. */
#include "engine/pjrt/weights.h"

#include <math.h>
#include <string.h>

#include "base/files/map.h"
#include "base/mem.h"
#include "engine/pjrt/plugin.h"
#include "graph/stablehlo.h"
#include "model/model.h"
#include "model/stream.h"
#include "ops/batch.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "ops/linear_ints.h"
#include "ops/moe.h"
#include "ops/op.h"
#include "ops/rope.h"
#include "ops/rotate.h"
#include "tensor/view.h"

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

enum { DROPPED = 1024 }; /* rows that are read before the pages of the mapped file are dropped */

/* A weight that is copied to the device. */
struct source {
    const struct model *m;
    const struct stablehlo_weight *w;
    size_t context;
    struct pool *pool;
    float *row;      /* buffer for a row of W, or for the whole table of a RoPE */
    bool has_sequel; /* the next weight is another array of the same int8 or int4 linear */
};

/* Converts X [n] to TYPE (fp32 or bf16) and writes it to elements [at, at + n) of TO. */
static void put_numbers(void *to, enum dtype type, size_t at, const float *x, size_t n)
{
    if (type == DT_F32) {
        memcpy((float *)to + at, x, n * sizeof(float));
        return;
    }
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)to)[at + i] = dtype_f32_to_bf16(x[i]);
}

/* Writes the array PIECE (such as the integers or the scales) of the int8 or int4 linear L to TO, as matrix number AT.
 * ROW is a buffer for a row. */
static void put_ints(void *to, enum stablehlo_piece piece, size_t at, const struct linear *l, void *row)
{
    bool is_int4 = linear_ints_of(l) == LINEAR_INT4;
    size_t half = (l->k + 1) / 2, n_groups = is_int4 ? linear_ints_groups(l) : 0;
    /* multiples and offsets of the quantization groups */
    int8_t *numbers = row, *groups = numbers + 2 * half;
    void *out = piece == STABLEHLO_NUMBERS || piece == STABLEHLO_CODES ? row : NULL;

    numbers[2 * half - 1] = 0;
    for (size_t i = 0; i < l->n; i++) {
        size_t r = at * l->n + i;
        float scale =
            is_int4 ? linear_ints_row4(l, i, out, groups, groups + n_groups) : linear_ints_row8(l, i, out);

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

/* Writes the weights of L as matrix number AT of TO, in the dtype of s->w. T describes L if its weights are streamed
 * from a file; NULL: they are packed. */
static int put_rows(const struct source *s, void *to, size_t at, const struct linear *l,
                    const struct model_todo *t, struct err *e)
{
    for (size_t i = 0; i < l->n; i++) {
        if (t)
            stream_row(t, i, s->row);
        else
            linear_row(l, i, s->row);
        if (t && !dtype_all_finite(s->row, l->k, DT_F32))
            return err_set(e, ERR_INPUT, "%s holds an infinity or NaN, expected finite numbers", l->name);
        put_numbers(to, s->w->dtype, (at * l->n + i) * l->k, s->row, l->k);
        if (i % DROPPED == DROPPED - 1)
            stream_drop(l, t);
    }
    return 0;
}

/* Writes the linear L [n, k], or one of its arrays (s->w->piece) if its weights are integers, to TO as matrix number
 * AT. */
static int put_linear(const struct source *s, void *to, size_t at, const struct linear *l, struct err *e)
{
    const struct model_todo *t = stream_of(s->m, l);
    int rc;

    if (!linear_ints_of(l)) {
        rc = put_rows(s, to, at, l, t, e);
    } else if ((rc = t ? stream_pack(t, s->pool, e) : 0) == 0) {
        put_ints(to, s->w->piece, at, l, s->row);
        if (t && !s->has_sequel)
            stream_unpack(t);
    }
    stream_drop(l, t);
    return rc;
}

/* Writes the Hadamard matrix [n, n], normalized to rows of length 1. */
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

static int put_experts(const struct source *s, void *to, struct err *e)
{
    const struct moe *moe = s->w->of;
    int rc = 0;

    for (size_t x = 0; x < s->w->shape[0] && rc == 0; x++)
        rc = put_linear(s, to, x, s->w->down ? &moe->expert[x].down : &moe->expert[x].up, e);
    return rc;
}

static void put_table(const struct source *s, void *to)
{
    const struct op_embed *embed = s->w->of;

    for (size_t i = 0; i < s->w->shape[0]; i++) {
        view_row_f32(&embed->table, i, s->row);
        put_numbers(to, s->w->dtype, i * s->w->shape[1], s->row, s->w->shape[1]);
        if (i % DROPPED == DROPPED - 1)
            stream_drop_table(s->m, embed);
    }
    stream_drop_table(s->m, embed);
}

/* Writes the weight s->w to TO. */
static int fill(const struct source *s, void *to, struct err *e)
{
    const struct stablehlo_weight *w = s->w;

    switch (w->kind) {
    case STABLEHLO_LINEAR: return put_linear(s, to, 0, w->of, e);
    case STABLEHLO_EXPERTS: return put_experts(s, to, e);
    case STABLEHLO_BIAS:
        for (size_t i = 0; i < w->shape[0]; i++)
            ((float *)to)[i] = linear_bias(w->of, i);
        break;
    case STABLEHLO_VECTOR: put_numbers(to, DT_F32, 0, w->of, w->shape[0]); break;
    case STABLEHLO_TABLE: put_table(s, to); break;
    case STABLEHLO_COS:
    case STABLEHLO_SIN: put_rope(to, w->of, w->kind == STABLEHLO_COS, s->context, s->row); break;
    case STABLEHLO_SIGNS:
        for (size_t i = 0; i < w->shape[0]; i++)
            ((float *)to)[i] = rotate_sign(i);
        break;
    case STABLEHLO_HADAMARD: put_hadamard(to, w->shape[0]); break;
    }
    return 0;
}

/* Calls fill() with SIGBUS unblocked, so that a file that becomes shorter is an error (base/files/map.h). */
static int fill_safely(const struct source *s, void *to, struct err *e)
{
    MAP_READING();

    return stream_checked(s->m, fill(s, to, e), e);
}

/* Returns the number of elements of s->row for W: at least the elements of a row. */
static size_t row_of(const struct stablehlo_weight *w)
{
    const struct linear *l = w->of;

    if (w->kind == STABLEHLO_EXPERTS) {
        const struct moe *m = w->of;

        l = w->down ? &m->expert->down : &m->expert->up;
    }
    return w->kind == STABLEHLO_LINEAR || w->kind == STABLEHLO_EXPERTS ? l->k + 4 : w->shape[w->n_dims - 1];
}

static bool is_sequel(const struct stablehlo_weight *a, const struct stablehlo_weight *b)
{
    return a->kind == STABLEHLO_LINEAR && b->kind == STABLEHLO_LINEAR && a->of == b->of;
}

int weights_upload(struct plugin *p, const struct model *m, const struct stablehlo *program, size_t number,
                   size_t context, struct pool *pool, struct pjrt_buffer **out, struct err *e)
{
    const struct stablehlo_weight *w = &program->weight[number];
    struct source s = {.m = m,
                       .w = w,
                       .context = context,
                       .pool = pool,
                       .has_sequel = number + 1 < program->n_weights && is_sequel(w, w + 1)};
    bool is_table = w->kind == STABLEHLO_COS || w->kind == STABLEHLO_SIN;
    size_t n = 1, last = row_of(w);
    void *host;
    int rc;

    for (int i = 0; i < w->n_dims; i++)
        if (__builtin_mul_overflow(n, w->shape[i], &n))
            return err_nomem(e, "a weight");
    host = plugin_staging(p, n * dtype_bytes(w->dtype));
    s.row = mem_alloc((is_table ? n : last) * sizeof(float), MEM_ENGINE);
    if (!host || !s.row) {
        rc = err_nomem(e, "a weight");
    } else {
        if ((rc = fill_safely(&s, host, e)) == 0)
            rc = plugin_upload(p, host, w->dtype, w->shape, w->n_dims, out, e);
    }
    plugin_free_staging(p, host);
    mem_free(s.row);
    return rc;
}
