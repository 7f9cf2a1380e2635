/* hlo_weights.c - weights as arguments of a StableHLO program, and products with them: matrices of numbers, or of
 * integers (ops/linear_ints.h), whose inputs are rotated. */
#include "graph/hlo_priv.h"

#include <string.h>

#include "base/mem.h"
#include "ops/rotate.h"

struct hlo_value hlo_weight(struct hlo_writer *w, struct stablehlo_weight x)
{
    struct stablehlo *p = w->p;
    struct hlo_shape s = {.type = x.dtype, .n = x.n_dims};

    for (size_t i = 0; i < p->n_weights; i++)
        if (stablehlo_is_same(&p->weight[i], &x))
            return w->weight[i];
    memcpy(s.d, x.shape, sizeof(x.shape));
    if (!mem_grow((void **)&p->weight, &p->cap_weights, p->n_weights + 1, sizeof(x), MEM_MODEL) ||
        !mem_grow((void **)&w->weight, &w->cap_weight, p->n_weights + 1, sizeof(*w->weight), MEM_MODEL)) {
        w->rc = w->rc ? w->rc : ERR_NOMEM;
        return (struct hlo_value){0, s};
    }
    p->weight[p->n_weights] = x;
    /* Arguments of weights are named by their own numbers, because they are found while the text is written. */
    w->weight[p->n_weights] = (struct hlo_value){1000000 + (unsigned)p->n_weights, s};
    return w->weight[p->n_weights++];
}

struct hlo_value hlo_vector(struct hlo_writer *w, const float *x, size_t n)
{
    return hlo_weight(w, (struct stablehlo_weight){
                             .kind = STABLEHLO_VECTOR, .of = x, .shape = {n}, .n_dims = 1, .dtype = DT_F32});
}

/* Returns the argument for array PIECE of the weight X, [n, columns], or [n] if COLUMNS is 0. N_EXPERTS not
 * 0: X has so many matrices, and the array this first dim. */
static struct hlo_value piece_of(struct hlo_writer *w, struct stablehlo_weight x, const struct linear *l,
                                 size_t n_experts, enum stablehlo_piece piece, size_t columns)
{
    size_t shape[] = {l->n, columns, 0};

    x.piece = piece;
    x.dtype = piece == STABLEHLO_SCALES ? DT_F32 : DT_I8;
    if (piece == STABLEHLO_NUMBERS)
        x.dtype = l->dtype == DT_F32 || l->dtype == DT_I8 ? l->dtype : DT_BF16;
    x.n_dims = columns ? 2 : 1;
    x.shape[0] = n_experts;
    memcpy(x.shape + (n_experts != 0), shape, (size_t)x.n_dims * sizeof(shape[0]));
    x.n_dims += n_experts != 0;
    return hlo_weight(w, x);
}

struct hlo_matrix hlo_matrix_of(struct hlo_writer *w, struct stablehlo_weight x, const struct linear *l,
                                size_t n_experts)
{
    struct hlo_matrix m = {.ints = linear_ints_of(l), .k = l->k, .group = l->group};

    if (m.ints == LINEAR_INT4) {
        m.numbers = piece_of(w, x, l, n_experts, STABLEHLO_CODES, (l->k + 1) / 2);
        m.multiples = piece_of(w, x, l, n_experts, STABLEHLO_MULTIPLES, linear_ints_groups(l));
        m.offsets = piece_of(w, x, l, n_experts, STABLEHLO_OFFSETS, linear_ints_groups(l));
    } else {
        m.numbers = piece_of(w, x, l, n_experts, STABLEHLO_NUMBERS, l->k);
    }
    if (m.ints)
        m.scales = piece_of(w, x, l, n_experts, STABLEHLO_SCALES, 0);
    return m;
}

struct hlo_matrix hlo_matrix_of_linear(struct hlo_writer *w, const struct linear *l)
{
    return hlo_matrix_of(w, (struct stablehlo_weight){.kind = STABLEHLO_LINEAR, .of = l}, l, 0);
}

/* ---- integers ---- */

/* Returns X [T, pieces, size] with each piece multiplied by a Hadamard matrix. The matrix is a Kronecker
 * product of two smaller Hadamard matrices, by which the piece is multiplied one after the other. */
static struct hlo_value hadamard(struct hlo_writer *w, struct hlo_value x)
{
    size_t T = x.s.d[0], P = x.s.d[1], size = x.s.d[2], last = 1;
    static const int back[] = {0, 1, 3, 2};
    struct hlo_value h;

    while (last * last < size)
        last *= 2;
    x = hlo_reshape(w, x, hlo_shape_of(DT_F32, 4, T, P, size / last, last, 0));
    h = hlo_weight(w, (struct stablehlo_weight){
                          .kind = STABLEHLO_HADAMARD, .shape = {last, last}, .n_dims = 2, .dtype = DT_F32});
    x = hlo_transpose(w, hlo_dot(w, x, h, 0, 3, 0), back);
    if (size / last > 1) {
        h = hlo_weight(w, (struct stablehlo_weight){.kind = STABLEHLO_HADAMARD,
                                                    .shape = {size / last, size / last},
                                                    .n_dims = 2,
                                                    .dtype = DT_F32});
        x = hlo_dot(w, x, h, 0, 3, 0);
    }
    return hlo_reshape(w, hlo_transpose(w, x, back), hlo_shape_of(DT_F32, 3, T, P, size, 0, 0));
}

/* Rotates pieces of SIZE elements of X [T, pieces x size]. */
static struct hlo_value rotate_pieces(struct hlo_writer *w, struct hlo_value x, size_t size)
{
    struct hlo_shape s = hlo_shape_of(DT_F32, 3, x.s.d[0], x.s.d[1] / size, size, 0, 0);
    struct hlo_value signs = hlo_weight(
        w, (struct stablehlo_weight){.kind = STABLEHLO_SIGNS, .shape = {size}, .n_dims = 1, .dtype = DT_F32});

    return hlo_reshape(
        w, hadamard(w, hlo_binary(w, "multiply", hlo_reshape(w, x, s), hlo_spread_rows(w, signs, s))), x.s);
}

/* Rotates the rows of X [T, k] as rotate() does. */
static struct hlo_value rotate_rows(struct hlo_writer *w, struct hlo_value x)
{
    size_t k = x.s.d[1], size = rotate_size(k), whole = k / size * size;
    struct hlo_value y = rotate_pieces(w, hlo_slice(w, x, 1, 0, whole), size);

    if (whole == k)
        return y;
    y = hlo_concatenate(w, y, hlo_slice(w, x, 1, whole, k - whole), 1);
    return hlo_concatenate(w, hlo_slice(w, y, 1, 0, k - whole),
                           rotate_pieces(w, hlo_slice(w, y, 1, k - whole, whole), size), 1);
}

/* Returns X [.., groups] with each number copied for the GROUP elements of its group, [.., k], as TYPE. */
static struct hlo_value spread_groups(struct hlo_writer *w, struct hlo_value x, size_t group, size_t k,
                                      enum dtype type)
{
    struct hlo_shape s = x.s, flat = x.s;

    s.d[s.n++] = group;
    flat.d[flat.n - 1] *= group;
    return hlo_slice(w, hlo_reshape(w, hlo_spread_last(w, hlo_convert(w, x, type), s), flat), flat.n - 1, 0,
                     k);
}

/* Returns the integers of M as numbers [.., n, k] of TYPE, which represents them exactly. */
static struct hlo_value integers_of(struct hlo_writer *w, const struct hlo_matrix *m, enum dtype type)
{
    int last = m->numbers.s.n - 1;
    struct hlo_value low, high, y;

    if (m->ints == LINEAR_INT8)
        return hlo_convert(w, m->numbers, type);
    low = hlo_binary(w, "and", m->numbers, hlo_integer(w, 15, m->numbers.s));
    high = hlo_binary(w, "shift_right_logical", m->numbers, hlo_integer(w, 4, m->numbers.s));
    y = hlo_slice(w, hlo_concatenate(w, low, high, last), last, 0, m->k);
    y = hlo_binary(w, "multiply", hlo_convert(w, y, type),
                   spread_groups(w, m->multiples, m->group, m->k, type));
    return hlo_binary(w, "add", y, spread_groups(w, m->offsets, m->group, m->k, type));
}

struct hlo_value hlo_product(struct hlo_writer *w, struct hlo_value x, const struct hlo_matrix *m,
                             int n_batch)
{
    struct hlo_value numbers = m->numbers, y;
    int last = numbers.s.n - 1;

    if (!m->ints)
        return hlo_dot(w, hlo_convert(w, x, numbers.s.type), numbers, n_batch, 1, last);
    numbers = integers_of(w, m, w->f->dtype);
    y = hlo_dot(w, hlo_convert(w, rotate_rows(w, x), w->f->dtype), numbers, n_batch, 1, last);
    return hlo_binary(w, "multiply", y, n_batch ? m->scales : hlo_spread_rows(w, m->scales, y.s));
}
