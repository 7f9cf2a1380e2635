/* stablehlo.c - lowers the operators of a graph to StableHLO: one function for each operator.
 *
 * Values between operators are fp32. Linears and attention round their inputs to the type of the frame and sum
 * in fp32; dots of fp32 demand the highest precision, because GPUs would otherwise round to 19 bits.
 */
#include "graph/stablehlo.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ops/linear_ints.h"
#include "ops/moe.h"
#include "ops/rotate.h"

enum { MAX_DIMS = 5 };

struct shape {
    enum dtype type; /* DT_F32, DT_BF16, DT_I32, or DT_BOOL for conditions */
    int n;
    size_t d[MAX_DIMS];
};

/* A value of the program: %id. */
struct value {
    unsigned id;
    struct shape s;
};

struct writer {
    struct stablehlo *p;
    const struct graph *g;
    const struct model *m;
    const struct stablehlo_frame *f;
    struct value *node;   /* [n_nodes] the values of the graph */
    struct value *weight; /* values of the weights so far, parallel to p->weight */
    size_t cap_weight;
    struct value *k, *v; /* [n_caches] the caches now */
    struct value ids, positions, wanted;
    uint32_t hidden[STABLEHLO_MAX_HIDDEN]; /* [p->n_hidden] nodes whose wanted rows go to the head */
    size_t n_body;                         /* nodes before the head */
    struct value places;                   /* i32 [T, 2]: slot and row of the cache of each row */
    struct value reads;                    /* i32 [n_seqs, 1]: slots that are read */
    unsigned next;                         /* the number of the next value */
    size_t layer;                          /* the layer of the last attention, for messages */
    int rc;
    char why[200];
};

static void refuse(struct writer *w, size_t layer, const char *why)
{
    if (w->rc)
        return;
    w->rc = ERR_UNSUPPORTED;
    snprintf(w->why, sizeof(w->why), "layer %zu: %s", layer, why);
}

/* ---- text ---- */

struct text {
    char s[128];
};

static struct text type_text(struct shape s)
{
    struct text t;
    size_t at = (size_t)snprintf(t.s, sizeof(t.s), "tensor<");

    for (int i = 0; i < s.n; i++)
        at += (size_t)snprintf(t.s + at, sizeof(t.s) - at, "%zux", s.d[i]);
    snprintf(t.s + at, sizeof(t.s) - at, "%s>",
             s.type == DT_F32    ? "f32"
             : s.type == DT_BF16 ? "bf16"
             : s.type == DT_I32  ? "i32"
             : s.type == DT_I8   ? "i8"
                                 : "i1");
    return t;
}

static struct text dims_text(const int *d, int n)
{
    struct text t = {""};
    size_t at = 0;

    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(t.s + at, sizeof(t.s) - at, "%s%d", i ? ", " : "", d[i]);
    return t;
}

static struct shape shape_of(enum dtype type, int n, size_t a, size_t b, size_t c, size_t d, size_t e)
{
    return (struct shape){type, n, {a, b, c, d, e}};
}

static struct shape matrix(size_t rows, size_t n)
{
    return shape_of(DT_F32, 2, rows, n, 0, 0, 0);
}

/* Appends "%id = " and the formatted operator. Returns the value with the shape S. */
__attribute__((format(printf, 3, 4))) static struct value emit(struct writer *w, struct shape s,
                                                               const char *fmt, ...)
{
    char line[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    buf_fmt(&w->p->text, "    %%%u = %s\n", w->next, line);
    return (struct value){w->next++, s};
}

static struct value number_of(struct writer *w, float x, struct shape s)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return emit(w, s, "stablehlo.constant dense<0x%08X> : %s", bits, type_text(s).s);
}

static struct value integer_of(struct writer *w, long x, struct shape s)
{
    return emit(w, s, "stablehlo.constant dense<%ld> : %s", x, type_text(s).s);
}

static struct value unary(struct writer *w, const char *op, struct value x)
{
    return emit(w, x.s, "stablehlo.%s %%%u : %s", op, x.id, type_text(x.s).s);
}

static struct value binary(struct writer *w, const char *op, struct value a, struct value b)
{
    return emit(w, a.s, "stablehlo.%s %%%u, %%%u : %s", op, a.id, b.id, type_text(a.s).s);
}

static struct value with_constant(struct writer *w, const char *op, struct value x, float c)
{
    return binary(w, op, x, number_of(w, c, x.s));
}

static struct value convert_to(struct writer *w, struct value x, enum dtype type)
{
    struct shape s = x.s;

    s.type = type;
    if (x.s.type == type)
        return x;
    return emit(w, s, "stablehlo.convert %%%u : (%s) -> %s", x.id, type_text(x.s).s, type_text(s).s);
}

static struct value reshape(struct writer *w, struct value x, struct shape s)
{
    s.type = x.s.type;
    return emit(w, s, "stablehlo.reshape %%%u : (%s) -> %s", x.id, type_text(x.s).s, type_text(s).s);
}

/* Copies X along new dims: dim i of X becomes dim at[i] of S. */
static struct value broadcast(struct writer *w, struct value x, struct shape s, const int *at)
{
    s.type = x.s.type;
    return emit(w, s, "stablehlo.broadcast_in_dim %%%u, dims = [%s] : (%s) -> %s", x.id,
                dims_text(at, x.s.n).s, type_text(x.s).s, type_text(s).s);
}

static struct value transpose(struct writer *w, struct value x, const int *order)
{
    struct shape s = x.s;

    for (int i = 0; i < s.n; i++)
        s.d[i] = x.s.d[order[i]];
    return emit(w, s, "stablehlo.transpose %%%u, dims = [%s] : (%s) -> %s", x.id, dims_text(order, s.n).s,
                type_text(x.s).s, type_text(s).s);
}

/* Takes the elements [from, from + n) of dim DIM. */
static struct value slice(struct writer *w, struct value x, int dim, size_t from, size_t n)
{
    struct shape s = x.s;
    struct text t = {""};
    size_t at = 0;

    if (from == 0 && n == x.s.d[dim])
        return x;
    s.d[dim] = n;
    for (int i = 0; i < s.n; i++)
        at += (size_t)snprintf(t.s + at, sizeof(t.s) - at, "%s%zu:%zu", i ? ", " : "",
                               i == dim ? from : (size_t)0, i == dim ? from + n : s.d[i]);
    return emit(w, s, "stablehlo.slice %%%u [%s] : (%s) -> %s", x.id, t.s, type_text(x.s).s, type_text(s).s);
}

static struct value concatenate(struct writer *w, struct value a, struct value b, int dim)
{
    struct shape s = a.s;

    s.d[dim] += b.s.d[dim];
    return emit(w, s, "stablehlo.concatenate %%%u, %%%u, dim = %d : (%s, %s) -> %s", a.id, b.id, dim,
                type_text(a.s).s, type_text(b.s).s, type_text(s).s);
}

/* Reduces the last dim by OP, "add", "maximum" or "minimum", beginning with the scalar INIT. */
static struct value reduce_from(struct writer *w, struct value x, const char *op, struct value init)
{
    struct shape s = x.s;

    s.n--;
    return emit(w, s,
                "stablehlo.reduce(%%%u init: %%%u) applies stablehlo.%s across dimensions = [%d] : (%s, "
                "%s) -> %s",
                x.id, init.id, op, s.n, type_text(x.s).s, type_text(init.s).s, type_text(s).s);
}

/* Reduces the last dim of fp32 numbers; INIT is the neutral number of OP. */
static struct value reduce(struct writer *w, struct value x, const char *op, float init)
{
    return reduce_from(w, x, op, number_of(w, init, shape_of(DT_F32, 0, 0, 0, 0, 0, 0)));
}

/* Returns X, which lacks the last dim of S, copied along it. */
static struct value spread_last(struct writer *w, struct value x, struct shape s)
{
    static const int at[] = {0, 1, 2, 3};

    return broadcast(w, x, s, at);
}

/* Returns X [n] copied to all rows of S, whose last dim is n. */
static struct value spread_rows(struct writer *w, struct value x, struct shape s)
{
    const int at[] = {s.n - 1};

    return broadcast(w, x, s, at);
}

/* Sums the products of A and B over dim CA of A and dim CB of B. The first N_BATCH dims of both are the same. The
 * result has fp32 numbers. */
static struct value dot(struct writer *w, struct value a, struct value b, int n_batch, int ca, int cb)
{
    static const int batch[] = {0, 1, 2};
    const char *precise = a.s.type == DT_F32 ? ", precision = [HIGHEST, HIGHEST]" : "";
    struct shape s = {.type = DT_F32};
    struct text batches = dims_text(batch, n_batch), both = {""};

    for (int i = 0; i < a.s.n; i++)
        if (i != ca)
            s.d[s.n++] = a.s.d[i];
    for (int i = n_batch; i < b.s.n; i++)
        if (i != cb)
            s.d[s.n++] = b.s.d[i];
    if (n_batch)
        snprintf(both.s, sizeof(both.s), "batching_dims = [%.40s] x [%.40s], ", batches.s, batches.s);
    return emit(w, s, "stablehlo.dot_general %%%u, %%%u, %scontracting_dims = [%d] x [%d]%s : (%s, %s) -> %s",
                a.id, b.id, both.s, ca, cb, precise, type_text(a.s).s, type_text(b.s).s, type_text(s).s);
}

/* Returns the rows of TABLE (its first dim) at the indexes INDEX [n, 1]. LIMIT: only the first LIMIT elements of dim
 * 2 are taken; 0: all. */
static struct value gather_rows(struct writer *w, struct value table, struct value index, size_t limit)
{
    struct shape s = table.s;
    struct text sizes = {""};
    size_t at = 0;
    static const int offsets[] = {1, 2, 3, 4};

    s.d[0] = index.s.d[0];
    if (limit)
        s.d[2] = limit;
    for (int i = 0; i < s.n; i++)
        at += (size_t)snprintf(sizes.s + at, sizeof(sizes.s) - at, "%s%zu", i ? ", " : "",
                               i ? s.d[i] : (size_t)1);
    return emit(
        w, s,
        "\"stablehlo.gather\"(%%%u, %%%u) <{dimension_numbers = #stablehlo.gather<offset_dims = [%s], "
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = "
        "array<i64: %s>}> : (%s, %s) -> %s",
        table.id, index.id, dims_text(offsets, s.n - 1).s, sizes.s, type_text(table.s).s,
        type_text(index.s).s, type_text(s).s);
}

static struct value compare(struct writer *w, const char *how, struct value a, struct value b)
{
    struct shape s = a.s;

    s.type = DT_BOOL;
    return emit(w, s, "stablehlo.compare %s, %%%u, %%%u, %s : (%s, %s) -> %s", how, a.id, b.id,
                a.s.type == DT_I32 ? "SIGNED" : "FLOAT", type_text(a.s).s, type_text(b.s).s, type_text(s).s);
}

static struct value choose(struct writer *w, struct value condition, struct value a, struct value b)
{
    return emit(w, a.s, "stablehlo.select %%%u, %%%u, %%%u : %s, %s", condition.id, a.id, b.id,
                type_text(condition.s).s, type_text(a.s).s);
}

/* ---- weights ---- */

/* Returns the argument for the weight X, which is added on its first use. */
static struct value weight(struct writer *w, struct stablehlo_weight x)
{
    struct stablehlo *p = w->p;
    struct shape s = {.type = x.dtype, .n = x.n_dims};

    for (size_t i = 0; i < p->n_weights; i++)
        if (stablehlo_is_same(&p->weight[i], &x))
            return w->weight[i];
    memcpy(s.d, x.shape, sizeof(x.shape));
    if (!mem_grow((void **)&p->weight, &p->cap_weights, p->n_weights + 1, sizeof(x), MEM_MODEL) ||
        !mem_grow((void **)&w->weight, &w->cap_weight, p->n_weights + 1, sizeof(*w->weight), MEM_MODEL)) {
        w->rc = w->rc ? w->rc : ERR_NOMEM;
        return (struct value){0, s};
    }
    p->weight[p->n_weights] = x;
    /* Arguments of weights are named by their own numbers, because they are found while the text is written. */
    w->weight[p->n_weights] = (struct value){1000000 + (unsigned)p->n_weights, s};
    return w->weight[p->n_weights++];
}

static struct value vector_of(struct writer *w, const float *x, size_t n)
{
    return weight(w, (struct stablehlo_weight){
                         .kind = STABLEHLO_VECTOR, .of = x, .shape = {n}, .n_dims = 1, .dtype = DT_F32});
}

/* The weights of a matrix [.., n, k]: numbers, or integers that are numbers times scales [.., n]. */
struct matrix {
    struct value numbers; /* int4: codes, two in a byte */
    struct value multiples, offsets, scales;
    enum linear_ints ints;
    size_t k, group;
};

/* Returns the weight X with the matrix of L, or if N_EXPERTS is not 0 with the matrices of so many linears. */
static struct value piece_of(struct writer *w, struct stablehlo_weight x, const struct linear *l,
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
    return weight(w, x);
}

static struct matrix matrix_of(struct writer *w, struct stablehlo_weight x, const struct linear *l,
                               size_t n_experts)
{
    struct matrix m = {.ints = linear_ints_of(l), .k = l->k, .group = l->group};

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

static struct matrix matrix_of_linear(struct writer *w, const struct linear *l)
{
    return matrix_of(w, (struct stablehlo_weight){.kind = STABLEHLO_LINEAR, .of = l}, l, 0);
}

/* ---- integers ---- */

/* Returns X [.., pieces, size], of which each piece is multiplied by a Hadamard matrix: by those of the two halves of
 * its bits, whose Kronecker product it is. */
static struct value hadamard(struct writer *w, struct value x)
{
    size_t T = x.s.d[0], P = x.s.d[1], size = x.s.d[2], last = 1;
    static const int back[] = {0, 1, 3, 2};
    struct value h;

    while (last * last < size)
        last *= 2;
    x = reshape(w, x, shape_of(DT_F32, 4, T, P, size / last, last, 0));
    h = weight(w, (struct stablehlo_weight){
                      .kind = STABLEHLO_HADAMARD, .shape = {last, last}, .n_dims = 2, .dtype = DT_F32});
    x = transpose(w, dot(w, x, h, 0, 3, 0), back);
    if (size / last > 1) {
        h = weight(w, (struct stablehlo_weight){.kind = STABLEHLO_HADAMARD,
                                                .shape = {size / last, size / last},
                                                .n_dims = 2,
                                                .dtype = DT_F32});
        x = dot(w, x, h, 0, 3, 0);
    }
    return reshape(w, transpose(w, x, back), shape_of(DT_F32, 3, T, P, size, 0, 0));
}

/* Rotates pieces of SIZE elements of X [T, pieces x size]. */
static struct value rotate_pieces(struct writer *w, struct value x, size_t size)
{
    struct shape s = shape_of(DT_F32, 3, x.s.d[0], x.s.d[1] / size, size, 0, 0);
    struct value signs = weight(
        w, (struct stablehlo_weight){.kind = STABLEHLO_SIGNS, .shape = {size}, .n_dims = 1, .dtype = DT_F32});

    return reshape(w, hadamard(w, binary(w, "multiply", reshape(w, x, s), spread_rows(w, signs, s))), x.s);
}

/* Rotates the rows of X [T, k] as rotate() does. */
static struct value rotate_rows(struct writer *w, struct value x)
{
    size_t k = x.s.d[1], size = rotate_size(k), whole = k / size * size;
    struct value y = rotate_pieces(w, slice(w, x, 1, 0, whole), size);

    if (whole == k)
        return y;
    y = concatenate(w, y, slice(w, x, 1, whole, k - whole), 1);
    return concatenate(w, slice(w, y, 1, 0, k - whole),
                       rotate_pieces(w, slice(w, y, 1, k - whole, whole), size), 1);
}

/* Returns X [.., groups] with each number copied for the GROUP elements of its group, [.., k], as TYPE. */
static struct value spread_groups(struct writer *w, struct value x, size_t group, size_t k, enum dtype type)
{
    struct shape s = x.s, flat = x.s;

    s.d[s.n++] = group;
    flat.d[flat.n - 1] *= group;
    return slice(w, reshape(w, spread_last(w, convert_to(w, x, type), s), flat), flat.n - 1, 0, k);
}

/* Returns the integers of M as numbers [.., n, k] of the type TYPE, which has them all. */
static struct value integers_of(struct writer *w, const struct matrix *m, enum dtype type)
{
    int last = m->numbers.s.n - 1;
    struct value low, high, y;

    if (m->ints == LINEAR_INT8)
        return convert_to(w, m->numbers, type);
    low = binary(w, "and", m->numbers, integer_of(w, 15, m->numbers.s));
    high = binary(w, "shift_right_logical", m->numbers, integer_of(w, 4, m->numbers.s));
    y = slice(w, concatenate(w, low, high, last), last, 0, m->k);
    y = binary(w, "multiply", convert_to(w, y, type), spread_groups(w, m->multiples, m->group, m->k, type));
    return binary(w, "add", y, spread_groups(w, m->offsets, m->group, m->k, type));
}

/* Returns X [T, k] times the matrix M, whose first dim is T if N_BATCH is 1: fp32 [T, n]. */
static struct value product(struct writer *w, struct value x, const struct matrix *m, int n_batch)
{
    struct value numbers = m->numbers, y;
    int last = numbers.s.n - 1;

    if (!m->ints)
        return dot(w, convert_to(w, x, numbers.s.type), numbers, n_batch, 1, last);
    numbers = integers_of(w, m, w->f->dtype);
    y = dot(w, convert_to(w, rotate_rows(w, x), w->f->dtype), numbers, n_batch, 1, last);
    return binary(w, "multiply", y, n_batch ? m->scales : spread_rows(w, m->scales, y.s));
}

/* ---- operators ---- */

static struct value lower_embed(struct writer *w, const struct graph_node *n, struct value index)
{
    const struct op_embed *e = n->w.embed;
    struct stablehlo_weight own = {.kind = STABLEHLO_TABLE,
                                   .of = e,
                                   .shape = {e->table.shape[0], e->table.shape[1]},
                                   .n_dims = 2,
                                   .dtype = e->table.dtype == DT_BF16 ? DT_BF16 : DT_F32};
    struct value table = e->head ? matrix_of_linear(w, e->head).numbers : weight(w, own), x;

    if (e->offset)
        index = binary(w, "add", index, integer_of(w, e->offset, index.s));
    x = convert_to(w, gather_rows(w, table, index, 0), DT_F32);
    return e->scale != 0 ? with_constant(w, "multiply", x, e->scale) : x;
}

/* Norms the last dim of X. */
static struct value norm_of(struct writer *w, struct value x, const struct op_norm *n)
{
    float each = 1 / (float)n->n;
    struct value y;

    if (n->layer) {
        struct value mean = with_constant(w, "multiply", reduce(w, x, "add", 0), each);

        x = binary(w, "subtract", x, spread_last(w, mean, x.s));
    }
    y = with_constant(w, "multiply", reduce(w, binary(w, "multiply", x, x), "add", 0), each);
    y = unary(w, "rsqrt", with_constant(w, "add", y, n->eps));
    y = binary(w, "multiply", x, spread_last(w, y, x.s));
    if (n->w)
        y = binary(w, "multiply", y, spread_rows(w, vector_of(w, n->w, n->n), x.s));
    if (n->b)
        y = binary(w, "add", y, spread_rows(w, vector_of(w, n->b, n->n), x.s));
    return y;
}

static struct value linear_of(struct writer *w, struct value x, const struct linear *l)
{
    struct matrix m = matrix_of_linear(w, l);
    struct value y = product(w, x, &m, 0);

    if (l->bias) {
        struct value bias =
            weight(w, (struct stablehlo_weight){
                          .kind = STABLEHLO_BIAS, .of = l, .shape = {l->n}, .n_dims = 1, .dtype = DT_F32});

        y = binary(w, "add", y, spread_rows(w, bias, y.s));
    }
    return y;
}

/* erf(x) by formula 7.1.26 of Abramowitz and Stegun, with an error of at most 1.5e-7. */
static struct value erf_of(struct writer *w, struct value x)
{
    static const float c[] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f};
    struct value a = unary(w, "abs", x), one = number_of(w, 1, x.s), t, sum, e;

    t = binary(w, "divide", one, with_constant(w, "add", with_constant(w, "multiply", a, 0.3275911f), 1));
    sum = with_constant(w, "multiply", t, c[0]);
    for (int i = 1; i < 5; i++)
        sum = binary(w, "multiply", with_constant(w, "add", sum, c[i]), t);
    e = unary(w, "exponential", unary(w, "negate", binary(w, "multiply", x, x)));
    sum = binary(w, "subtract", one, binary(w, "multiply", sum, e));
    return binary(w, "multiply", sum, unary(w, "sign", x));
}

static struct value act_of(struct writer *w, struct value x, enum kern_act act)
{
    struct value y;

    switch (act) {
    case KERN_SILU: return binary(w, "multiply", x, unary(w, "logistic", x));
    case KERN_GELU_QUICK:
        y = unary(w, "logistic", with_constant(w, "multiply", x, 1.702f));
        return binary(w, "multiply", x, y);
    case KERN_RELU: return with_constant(w, "maximum", x, 0);
    case KERN_GELU_TANH:
        y = binary(w, "multiply", binary(w, "multiply", x, x), x);
        y = binary(w, "add", x, with_constant(w, "multiply", y, 0.044715f));
        y = unary(w, "tanh", with_constant(w, "multiply", y, 0.7978845608028654f));
        break;
    case KERN_GELU_ERF: y = erf_of(w, with_constant(w, "multiply", x, 0.70710678118654752f)); break;
    default: return x;
    }
    y = with_constant(w, "multiply", with_constant(w, "add", y, 1), 0.5f);
    return binary(w, "multiply", x, y);
}

/* Returns act(gate) * up, or act(y), for the results Y of an up linear. */
static struct value middle_of(struct writer *w, struct value y, bool paired, enum kern_act act)
{
    int last = y.s.n - 1;
    size_t half = y.s.d[last] / 2;

    if (!paired)
        return act_of(w, y, act);
    return binary(w, "multiply", act_of(w, slice(w, y, last, 0, half), act), slice(w, y, last, half, half));
}

static struct value lower_mlp(struct writer *w, const struct op_mlp *mlp, struct value h)
{
    struct value up = linear_of(w, h, &mlp->up);

    return linear_of(w, middle_of(w, up, mlp->up.paired, mlp->act), &mlp->down);
}

/* Returns the heads [FIRST, first + n) of QKV [T, columns] as [T, n, D]. */
static struct value heads_of(struct writer *w, struct value qkv, size_t first, size_t n, size_t d)
{
    return reshape(w, slice(w, qkv, 1, first * d, n * d), shape_of(DT_F32, 3, qkv.s.d[0], n, d, 0, 0));
}

/* Returns q, k and v, [T, n, D] each, as one matrix. */
static struct value joined(struct writer *w, struct value q, struct value k, struct value v, bool has_kv)
{
    size_t T = q.s.d[0];
    struct value y = reshape(w, q, matrix(T, q.s.d[1] * q.s.d[2]));

    if (has_kv) {
        y = concatenate(w, y, reshape(w, k, matrix(T, k.s.d[1] * k.s.d[2])), 1);
        y = concatenate(w, y, reshape(w, v, matrix(T, v.s.d[1] * v.s.d[2])), 1);
    }
    return y;
}

static struct value temperature(struct writer *w, const struct op_attn *a, struct value q)
{
    struct value x =
        reshape(w, convert_to(w, w->positions, DT_F32), shape_of(DT_F32, 1, q.s.d[0], 0, 0, 0, 0));
    static const int at[] = {0};

    x = with_constant(w, "divide", with_constant(w, "add", x, 1), a->temp_floor);
    x = unary(w, "log_plus_one", unary(w, "floor", x));
    x = with_constant(w, "add", with_constant(w, "multiply", x, a->temp_scale), 1);
    return binary(w, "multiply", q, broadcast(w, x, q.s, at));
}

static struct value lower_heads(struct writer *w, const struct op_attn *a, struct value qkv)
{
    struct value q = heads_of(w, qkv, 0, a->n_heads, a->d), k = q, v = q;

    if (a->q_norm)
        q = norm_of(w, q, a->q_norm);
    if (!a->shared) {
        k = heads_of(w, qkv, a->n_heads, a->n_kv, a->d);
        v = heads_of(w, qkv, a->n_heads + a->n_kv, a->n_kv, a->d);
        k = a->k_norm ? norm_of(w, k, a->k_norm) : k;
        v = a->v_norm ? norm_of(w, v, a->v_norm) : v;
    }
    if (a->temp_scale != 0)
        q = temperature(w, a, q);
    return joined(w, q, k, v, !a->shared);
}

/* Rotates the first 2 half dims of X [T, n, D] by COS and SIN [T, half]. */
static struct value rope_heads(struct writer *w, const struct op_attn *a, struct value x, struct value cos,
                               struct value sin)
{
    size_t T = x.s.d[0], n = x.s.d[1], D = x.s.d[2], half = cos.s.d[1];
    bool next = a->pairs == ROPE_PAIRS_NEXT;
    struct shape part = shape_of(DT_F32, 3, T, n, half, 0, 0), pair = shape_of(DT_F32, 4, T, n, half, 2, 0);
    struct value first, second, y1, y2, y, head = slice(w, x, 2, 0, 2 * half);
    static const int at[] = {0, 2};

    cos = broadcast(w, cos, part, at);
    sin = broadcast(w, sin, part, at);
    if (next) {
        head = reshape(w, head, pair);
        first = reshape(w, slice(w, head, 3, 0, 1), part);
        second = reshape(w, slice(w, head, 3, 1, 1), part);
    } else {
        first = slice(w, head, 2, 0, half);
        second = slice(w, head, 2, half, half);
    }
    y1 = binary(w, "subtract", binary(w, "multiply", first, cos), binary(w, "multiply", second, sin));
    y2 = binary(w, "add", binary(w, "multiply", second, cos), binary(w, "multiply", first, sin));
    if (next) {
        pair.d[3] = 1;
        y = concatenate(w, reshape(w, y1, pair), reshape(w, y2, pair), 3);
        y = reshape(w, y, shape_of(DT_F32, 3, T, n, 2 * half, 0, 0));
    } else {
        y = concatenate(w, y1, y2, 2);
    }
    return 2 * half == D ? y : concatenate(w, y, slice(w, x, 2, 2 * half, D - 2 * half), 2);
}

static struct value table_of(struct writer *w, const struct rope *r, enum stablehlo_kind kind)
{
    return gather_rows(
        w,
        weight(w,
               (struct stablehlo_weight){
                   .kind = kind, .of = r, .shape = {w->f->context, r->half}, .n_dims = 2, .dtype = DT_F32}),
        w->positions, 0);
}

static struct value lower_rope(struct writer *w, const struct op_attn *a, struct value qkv)
{
    const struct rope *r = &w->m->info.rope[a->rope];
    struct value cos = table_of(w, r, STABLEHLO_COS), sin = table_of(w, r, STABLEHLO_SIN);
    struct value q = rope_heads(w, a, heads_of(w, qkv, 0, a->n_heads, a->d), cos, sin), k = q, v = q;

    if (!a->shared) {
        k = rope_heads(w, a, heads_of(w, qkv, a->n_heads, a->n_kv, a->d), cos, sin);
        v = heads_of(w, qkv, a->n_heads + a->n_kv, a->n_kv, a->d);
    }
    return joined(w, q, k, v, !a->shared);
}

/* ---- attention ---- */

/* Returns CACHE with X [T, n_kv, D] at w->places. */
static struct value store(struct writer *w, struct value cache, struct value x)
{
    const char *type = cache.s.type == DT_F32 ? "tensor<f32>" : "tensor<bf16>";

    x = convert_to(w, x, cache.s.type);
    return emit(
        w, cache.s,
        "\"stablehlo.scatter\"(%%%u, %%%u, %%%u) <{scatter_dimension_numbers = "
        "#stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 2], "
        "scatter_dims_to_operand_dims = [0, 2], index_vector_dim = 1>, indices_are_sorted = false, "
        "unique_indices = false}> ({\n    ^bb0(%%old: %s, %%new: %s):\n      stablehlo.return %%new : "
        "%s\n    }) : (%s, %s, %s) -> %s",
        cache.id, w->places.id, x.id, type, type, type, type_text(cache.s).s, type_text(w->places.s).s,
        type_text(x.s).s, type_text(cache.s).s);
}

/* Returns whether row r of sequence b sees key c, [n_seqs, 1, rows, 1, seen] as copied to S. */
static struct value mask_of(struct writer *w, const struct op_attn *a, struct shape s)
{
    static const int by_row[] = {0, 2}, by_key[] = {4};
    struct shape i32 = s, keys = shape_of(DT_I32, 1, s.d[4], 0, 0, 0, 0);
    struct value pos, key, sees;

    i32.type = DT_I32;
    pos = reshape(w, w->positions, shape_of(DT_I32, 2, s.d[0], s.d[2], 0, 0, 0));
    pos = broadcast(w, pos, i32, by_row);
    key = broadcast(w, emit(w, keys, "stablehlo.iota dim = 0 : %s", type_text(keys).s), i32, by_key);
    sees = compare(w, "LE", key, pos);
    if (a->window) {
        struct value first = binary(w, "subtract", pos, integer_of(w, (long)a->window, i32));

        sees = binary(w, "and", sees, compare(w, "GT", key, first));
    }
    if (a->chunk) {
        struct value chunk = integer_of(w, (long)a->chunk, i32);
        struct value same =
            compare(w, "EQ", binary(w, "divide", key, chunk), binary(w, "divide", pos, chunk));

        sees = binary(w, "and", sees, same);
    }
    return sees;
}

/* Returns the softmax numerators of SCORES [n_seqs, n_kv, rows, G, seen] and sets *SUM to their sums. */
static struct value softmax(struct writer *w, const struct op_attn *a, struct value scores, struct value *sum)
{
    struct value most, e, sink;
    struct shape s = scores.s;
    static const int by_head[] = {1, 3};

    most = reduce(w, scores, "maximum", -3.4e38f);
    if (a->sinks) {
        sink = reshape(w, vector_of(w, a->sinks, a->n_heads), matrix(s.d[1], s.d[3]));
        sink = broadcast(w, sink, most.s, by_head);
        most = binary(w, "maximum", most, sink);
    }
    e = unary(w, "exponential", binary(w, "subtract", scores, spread_last(w, most, s)));
    *sum = reduce(w, e, "add", 0);
    if (a->sinks)
        *sum = binary(w, "add", *sum, unary(w, "exponential", binary(w, "subtract", sink, most)));
    return e;
}

static struct value attend(struct writer *w, const struct op_attn *a, struct value q, struct value k,
                           struct value v)
{
    size_t B = w->f->n_seqs, M = w->f->rows, K = a->n_kv, G = a->n_heads / K, D = a->d, C = w->f->seen;
    struct shape five = shape_of(DT_F32, 5, B, K, M, G, C);
    struct value scores, sum, e, y;
    static const int heads_first[] = {0, 2, 1, 3, 4}, rows_first[] = {0, 2, 1, 3, 4};

    q = reshape(w, q, shape_of(DT_F32, 5, B, M, K, G, D));
    q = reshape(w, transpose(w, q, heads_first), shape_of(DT_F32, 4, B, K, M * G, D, 0));
    k = gather_rows(w, k, w->reads, C);
    v = gather_rows(w, v, w->reads, C);
    scores = reshape(w, dot(w, convert_to(w, q, k.s.type), k, 2, 3, 3), five);
    scores = with_constant(w, "multiply", scores, a->scale);
    if (a->softcap > 0) {
        scores = unary(w, "tanh", with_constant(w, "multiply", scores, 1 / a->softcap));
        scores = with_constant(w, "multiply", scores, a->softcap);
    }
    scores = choose(w, mask_of(w, a, five), scores, number_of(w, -3.4e38f, five));
    e = softmax(w, a, scores, &sum);
    e = reshape(w, convert_to(w, e, v.s.type), shape_of(v.s.type, 4, B, K, M * G, C, 0));
    y = reshape(w, dot(w, e, v, 2, 3, 2), shape_of(DT_F32, 5, B, K, M, G, D));
    y = binary(w, "divide", y, spread_last(w, sum, y.s));
    return reshape(w, transpose(w, y, rows_first), matrix(B * M, a->n_heads * D));
}

static size_t cache_of(const struct writer *w, size_t layer)
{
    for (size_t i = 0; i < w->p->n_caches; i++)
        if (w->p->cache[i].layer == layer)
            return i;
    return 0;
}

static struct value lower_attn(struct writer *w, const struct graph_node *n, struct value qkv)
{
    const struct op_attn *a = n->w.attn;
    size_t i = cache_of(w, n->at);

    w->layer = n->at;
    if (a->two_sided)
        refuse(w, n->at, "attention in both directions is not served");
    if (!a->shared) {
        w->k[i] = store(w, w->k[i], heads_of(w, qkv, a->n_heads, a->n_kv, a->d));
        w->v[i] = store(w, w->v[i], heads_of(w, qkv, a->n_heads + a->n_kv, a->n_kv, a->d));
    }
    return attend(w, a, slice(w, qkv, 1, 0, a->n_heads * a->d), w->k[i], w->v[i]);
}

/* ---- mixtures of experts ---- */

/* The choice of the router: for each rank I of the top_k, the expert of each row and its weight. */
struct routing {
    struct value hot[MOE_MAX_TOP_K];    /* bool [T, experts]: the expert of rank I */
    struct value index[MOE_MAX_TOP_K];  /* i32 [T, 1]: its number */
    struct value weight[MOE_MAX_TOP_K]; /* [T] */
};

/* Finds the top_k largest of LOGITS [T, experts]; of equal ones the first. Sets the weights to these logits. */
static void find_chosen(struct writer *w, const struct moe *m, struct value logits, struct routing *r)
{
    struct shape s = logits.s, column = shape_of(DT_I32, 2, s.d[0], 1, 0, 0, 0);
    struct value number = emit(w, s, "stablehlo.iota dim = 1 : %s", type_text(s).s);
    struct value none = number_of(w, 1e9f, s), out = number_of(w, -3.4e38f, s), left = logits;

    for (size_t i = 0; i < m->top_k; i++) {
        struct value most = reduce(w, left, "maximum", -3.4e38f), first;

        first = choose(w, compare(w, "EQ", left, spread_last(w, most, s)), number, none);
        first = reduce(w, first, "minimum", 1e9f);
        r->hot[i] = compare(w, "EQ", number, spread_last(w, first, s));
        r->index[i] = reshape(w, convert_to(w, first, DT_I32), column);
        r->weight[i] = most;
        left = choose(w, r->hot[i], out, left);
    }
}

static struct value sum_of_weights(struct writer *w, const struct moe *m, const struct routing *r)
{
    struct value sum = r->weight[0];

    for (size_t i = 1; i < m->top_k; i++)
        sum = binary(w, "add", sum, r->weight[i]);
    return sum;
}

static void divide_weights(struct writer *w, const struct moe *m, struct routing *r, struct value by)
{
    for (size_t i = 0; i < m->top_k; i++)
        r->weight[i] = binary(w, "divide", r->weight[i], by);
}

static void choose_experts(struct writer *w, const struct moe *m, struct value logits, struct routing *r)
{
    struct value most, sum;

    find_chosen(w, m, logits, r);
    most = r->weight[0];
    for (size_t i = 0; i < m->top_k; i++)
        r->weight[i] = m->gate == MOE_SIGMOID
                           ? unary(w, "logistic", r->weight[i])
                           : unary(w, "exponential", binary(w, "subtract", r->weight[i], most));
    if (m->gate == MOE_SOFTMAX_ALL) {
        sum = binary(w, "subtract", logits, spread_last(w, most, logits.s));
        divide_weights(w, m, r, reduce(w, unary(w, "exponential", sum), "add", 0));
    }
    if (m->gate == MOE_SOFTMAX_CHOSEN || m->renorm)
        divide_weights(w, m, r, sum_of_weights(w, m, r));
    for (size_t i = 0; i < m->top_k && m->expert_scale; i++) {
        struct value scale = spread_rows(w, vector_of(w, m->expert_scale, m->n_experts), logits.s);

        scale = reduce(w, choose(w, r->hot[i], scale, number_of(w, 0, logits.s)), "add", 0);
        r->weight[i] = binary(w, "multiply", r->weight[i], scale);
    }
}

/* Returns the matrices of all experts, [experts, n, k]. */
static struct matrix matrix_of_experts(struct writer *w, const struct moe *m, bool down)
{
    const struct linear *l = down ? &m->expert->down : &m->expert->up;

    return matrix_of(w, (struct stablehlo_weight){.kind = STABLEHLO_EXPERTS, .of = m, .down = down}, l,
                     m->n_experts);
}

/* Returns PART applied to all weights of M. */
static struct matrix parts_of(struct writer *w, struct matrix m, struct value i,
                              struct value (*part)(struct writer *w, struct value all, struct value i))
{
    m.numbers = part(w, m.numbers, i);
    if (m.ints == LINEAR_INT4) {
        m.multiples = part(w, m.multiples, i);
        m.offsets = part(w, m.offsets, i);
    }
    if (m.ints)
        m.scales = part(w, m.scales, i);
    return m;
}

static struct value gather_all(struct writer *w, struct value all, struct value index)
{
    return gather_rows(w, all, index, 0);
}

/* Few rows: the matrices of each row's experts are gathered. */
static struct value experts_of_rows(struct writer *w, const struct moe *m, struct value h,
                                    const struct routing *r)
{
    struct matrix up = matrix_of_experts(w, m, false), down = matrix_of_experts(w, m, true);
    struct value sum = h;

    for (size_t i = 0; i < m->top_k; i++) {
        struct matrix own = parts_of(w, up, r->index[i], gather_all);
        struct value x = h, y;

        if (m->scale_input)
            x = binary(w, "multiply", h, spread_last(w, r->weight[i], h.s));
        y = middle_of(w, product(w, x, &own, 1), m->expert->up.paired, m->act);
        own = parts_of(w, down, r->index[i], gather_all);
        y = product(w, y, &own, 1);
        if (!m->scale_input)
            y = binary(w, "multiply", y, spread_last(w, r->weight[i], y.s));
        sum = i ? binary(w, "add", sum, y) : y;
    }
    return sum;
}

/* Returns number I, a scalar, of ALL [experts, ..], as [..]. */
static struct value one_of(struct writer *w, struct value all, struct value i)
{
    struct shape s = all.s, rest = all.s;
    struct value zero = integer_of(w, 0, i.s);
    struct text at = {""}, types = {""}, sizes = {""};

    s.d[0] = 1;
    memmove(rest.d, rest.d + 1, (size_t)--rest.n * sizeof(rest.d[0]));
    for (int d = 0; d < s.n; d++) {
        snprintf(at.s + strlen(at.s), sizeof(at.s) - strlen(at.s), ", %%%u", d ? zero.id : i.id);
        snprintf(types.s + strlen(types.s), sizeof(types.s) - strlen(types.s), ", tensor<i32>");
        snprintf(sizes.s + strlen(sizes.s), sizeof(sizes.s) - strlen(sizes.s), "%s%zu", d ? ", " : "",
                 s.d[d]);
    }
    return reshape(w,
                   emit(w, s, "stablehlo.dynamic_slice %%%u%s, sizes = [%s] : (%s%s) -> %s", all.id, at.s,
                        sizes.s, type_text(all.s).s, types.s, type_text(s).s),
                   rest);
}

/* Returns column I, a scalar, of X [T, experts] as [T]. */
static struct value column_at(struct writer *w, struct value x, struct value i, struct value zero)
{
    struct shape s = x.s;

    s.d[1] = 1;
    return reshape(w,
                   emit(w, s,
                        "stablehlo.dynamic_slice %%%u, %%%u, %%%u, sizes = [%zu, 1] : (%s, tensor<i32>, "
                        "tensor<i32>) -> %s",
                        x.id, zero.id, i.id, s.d[0], type_text(x.s).s, type_text(s).s),
                   shape_of(DT_F32, 1, s.d[0], 0, 0, 0, 0));
}

/* Returns the result of expert I for all rows of H, times its weights, which are 0 for rows that did not choose
 * it. */
static struct value expert_at(struct writer *w, const struct moe *m, struct value h, struct value weights,
                              struct value hot, struct value i)
{
    struct value zero = integer_of(w, 0, i.s), x = h, y;
    struct value own = column_at(w, weights, i, zero);
    struct matrix up = parts_of(w, matrix_of_experts(w, m, false), i, one_of);
    struct matrix down = parts_of(w, matrix_of_experts(w, m, true), i, one_of);

    if (m->scale_input)
        x = binary(w, "multiply", h, spread_last(w, own, h.s));
    y = middle_of(w, product(w, x, &up, 0), m->expert->up.paired, m->act);
    y = product(w, y, &down, 0);
    if (m->scale_input)
        own = column_at(w, hot, i, zero);
    return binary(w, "multiply", y, spread_last(w, own, y.s));
}

/* Many rows: a loop computes all rows with one expert after the other. */
static struct value experts_in_turn(struct writer *w, const struct moe *m, struct value h,
                                    const struct routing *r)
{
    struct shape s = r->hot[0].s, scalar = shape_of(DT_I32, 0, 0, 0, 0, 0, 0), result = h.s;
    struct value weights, hot, zero, one, first, last, sum, i, goes_on;
    unsigned both;

    s.type = DT_F32;
    weights = hot = zero = number_of(w, 0, s);
    one = number_of(w, 1, s);
    for (size_t k = 0; k < m->top_k; k++) {
        weights = choose(w, r->hot[k], spread_last(w, r->weight[k], s), weights);
        hot = choose(w, r->hot[k], one, hot);
    }
    result.d[1] = m->expert->down.n;
    first = integer_of(w, 0, scalar);
    last = integer_of(w, (long)m->n_experts, scalar);
    sum = number_of(w, 0, result);
    both = w->next++;
    i = (struct value){w->next++, scalar};
    buf_fmt(&w->p->text,
            "    %%%u:2 = stablehlo.while(%%%u = %%%u, %%%u = %%%u) : tensor<i32>, %s\n    cond {\n", both,
            i.id, first.id, w->next, sum.id, type_text(result).s);
    sum.id = w->next++;
    goes_on = compare(w, "LT", i, last);
    buf_fmt(&w->p->text, "    stablehlo.return %%%u : tensor<i1>\n    } do {\n", goes_on.id);
    sum = binary(w, "add", sum, expert_at(w, m, h, weights, hot, i));
    i = binary(w, "add", i, integer_of(w, 1, scalar));
    buf_fmt(&w->p->text, "    stablehlo.return %%%u, %%%u : tensor<i32>, %s\n    }\n", i.id, sum.id,
            type_text(result).s);
    return emit(w, result, "stablehlo.reshape %%%u#1 : (%s) -> %s", both, type_text(result).s,
                type_text(result).s);
}

static struct value lower_moe(struct writer *w, const struct moe *m, struct value h, struct value route)
{
    struct routing r;

    if (m->limit > 0 || m->expert->up.bias || m->expert->down.bias)
        refuse(w, w->layer, "experts with biases or limits are not served");
    if (w->rc)
        return h;
    choose_experts(w, m, linear_of(w, route, &m->router), &r);
    if (h.s.d[0] * m->top_k <= m->n_experts)
        return experts_of_rows(w, m, h, &r);
    return experts_in_turn(w, m, h, &r);
}

/* ---- the program ---- */

static struct value lower(struct writer *w, const struct graph_node *n)
{
    struct value x = graph_n_inputs(n->op) > 0 ? w->node[n->in[0]] : (struct value){0};
    struct value y = graph_n_inputs(n->op) > 1 ? w->node[n->in[1]] : x;

    switch (n->op) {
    case GRAPH_IDS: return w->ids;
    case GRAPH_POSITIONS: return w->positions;
    case GRAPH_WANTED: return w->wanted;
    case GRAPH_EMBED: return lower_embed(w, n, x);
    case GRAPH_NORM: return norm_of(w, x, n->w.norm);
    case GRAPH_LINEAR:
    case GRAPH_LOGITS: return linear_of(w, x, n->w.linear);
    case GRAPH_HEADS: return lower_heads(w, n->w.attn, x);
    case GRAPH_ROPE: return lower_rope(w, n->w.attn, x);
    case GRAPH_ATTN: return lower_attn(w, n, x);
    case GRAPH_MLP: return lower_mlp(w, n->w.mlp, x);
    case GRAPH_MOE: return lower_moe(w, n->w.moe, x, y);
    case GRAPH_GLU: return binary(w, "multiply", act_of(w, x, n->act), y);
    case GRAPH_ADD: return binary(w, "add", x, y);
    case GRAPH_SCALE: return with_constant(w, "multiply", x, n->number);
    case GRAPH_SOFTCAP:
        x = unary(w, "tanh", with_constant(w, "multiply", x, 1 / n->number));
        return with_constant(w, "multiply", x, n->number);
    case GRAPH_ROWS: return gather_rows(w, x, y, 0);
    case GRAPH_RESHAPE: return reshape(w, x, matrix(n->rows, n->n));
    case GRAPH_COLUMNS: return slice(w, x, 1, n->at, n->n);
    case GRAPH_N_OPS: break;
    }
    return x;
}

/* Returns the column of the largest of LOGITS [rows, V], i32 [rows]: the first of equal ones; -1 if a logit is NaN or
 * +infinity, or if none is finite. */
static struct value best_of(struct writer *w, struct value logits)
{
    struct shape s = logits.s, scalar = shape_of(DT_I32, 0, 0, 0, 0, 0, 0);
    struct value most, all, none, first, is_finite, is_there;

    s.type = DT_I32;
    all = emit(w, s, "stablehlo.iota dim = 1 : %s", type_text(s).s);
    none = integer_of(w, (long)s.d[1], s);
    most = reduce(w, logits, "maximum", -FLT_MAX);
    first = choose(w, compare(w, "EQ", logits, spread_last(w, most, logits.s)), all, none);
    is_finite = compare(w, "LE", logits, number_of(w, FLT_MAX, logits.s));
    first = choose(w, is_finite, first, integer_of(w, -1, s));
    first = reduce_from(w, first, "minimum", integer_of(w, (long)s.d[1], scalar));
    is_there = compare(w, "LT", first, integer_of(w, (long)s.d[1], first.s));
    return choose(w, is_there, first, integer_of(w, -1, first.s));
}

/* Finds the head: the operators from the first one that takes the wanted rows, and the values whose rows it takes. */
static void find_head(struct writer *w)
{
    w->n_body = w->g->n_nodes;
    for (size_t i = 0; i < w->g->n_nodes; i++) {
        if (w->g->node[i].op != GRAPH_ROWS)
            continue;
        ASSERT(w->p->n_hidden < STABLEHLO_MAX_HIDDEN, "%zu hidden states", w->p->n_hidden);
        w->n_body = w->p->n_hidden ? w->n_body : i;
        w->hidden[w->p->n_hidden++] = w->g->node[i].in[0];
    }
}

/* Lists the caches: one for each layer that stores keys and values. */
static void find_caches(struct writer *w)
{
    struct stablehlo *p = w->p;

    if (w->f->part == STABLEHLO_HEAD)
        return;
    for (size_t i = 0; i < w->g->n_nodes && !w->rc; i++) {
        const struct graph_node *n = &w->g->node[i];

        if (n->op != GRAPH_ATTN || n->w.attn->shared)
            continue;
        if (!mem_grow((void **)&p->cache, &p->cap_caches, p->n_caches + 1, sizeof(*p->cache), MEM_MODEL))
            w->rc = ERR_NOMEM;
        else
            p->cache[p->n_caches++] = (struct stablehlo_cache){n->at, n->w.attn->n_kv, n->w.attn->d};
    }
}

/* Takes the elements [*at, *at + n) of the inputs as a column [n, 1]. */
static struct value input(struct writer *w, struct value all, size_t *at, size_t n)
{
    struct value x = slice(w, all, 0, *at, n);

    *at += n;
    return reshape(w, x, shape_of(DT_I32, 2, n, 1, 0, 0, 0));
}

static void read_inputs(struct writer *w, struct value all)
{
    size_t T = w->f->n_seqs * w->f->rows, at = 0;
    struct value slots, rows;

    if (w->f->part == STABLEHLO_HEAD) {
        w->wanted = input(w, all, &at, w->f->n_wanted);
        return;
    }
    w->ids = input(w, all, &at, T);
    w->positions = input(w, all, &at, T);
    slots = input(w, all, &at, T);
    rows = input(w, all, &at, T);
    w->places = concatenate(w, slots, rows, 1);
    w->reads = input(w, all, &at, w->f->n_seqs);
    w->wanted = input(w, all, &at, w->f->n_wanted);
}

static struct shape cache_shape(const struct writer *w, size_t i)
{
    const struct stablehlo_cache *c = &w->p->cache[i];

    return shape_of(w->f->kv_dtype, 4, w->f->n_slots + 1, c->n_kv, w->f->context + 1, c->d, 0);
}

/* The results of a program that are not caches, in their order. */
struct results {
    struct value value[2 + STABLEHLO_MAX_HIDDEN];
    size_t n;
};

static struct value hidden_argument(struct writer *w, size_t i)
{
    const struct graph_node *n = &w->g->node[w->hidden[i]];

    return (struct value){w->next++, matrix(n->rows, n->n)};
}

/* Writes the body of the program; its first values are the arguments. */
static void write_body(struct writer *w, struct shape inputs, struct results *r)
{
    const bool is_head = w->f->part == STABLEHLO_HEAD;

    w->next = 1;
    for (size_t i = 0; i < w->p->n_caches; i++) {
        w->k[i] = (struct value){w->next++, cache_shape(w, i)};
        w->v[i] = (struct value){w->next++, cache_shape(w, i)};
    }
    for (size_t i = 0; i < w->p->n_hidden && is_head; i++)
        w->node[w->hidden[i]] = hidden_argument(w, i);
    read_inputs(w, (struct value){0, inputs});
    for (size_t i = 0; i < w->g->n_nodes && !w->rc; i++)
        if (!is_head || i >= w->n_body || w->g->node[i].op == GRAPH_WANTED)
            w->node[i] = lower(w, &w->g->node[i]);
    r->value[r->n++] = w->node[w->g->result];
    if (!w->rc)
        r->value[r->n++] = best_of(w, w->node[w->g->result]);
    for (size_t i = 0; i < w->p->n_hidden && w->f->part == STABLEHLO_PROMPT; i++)
        r->value[r->n++] = w->node[w->hidden[i]];
}

static void write_head(struct writer *w, struct buf *out, struct shape inputs, const struct results *r)
{
    size_t n = 2 * w->p->n_caches, n_hidden = w->f->part == STABLEHLO_HEAD ? w->p->n_hidden : 0;

    buf_fmt(out, "module @gallop {\n  func.func public @main(%%0: %s", type_text(inputs).s);
    for (size_t i = 0; i < n; i++)
        buf_fmt(out, ",\n      %%%zu: %s {tf.aliasing_output = %zu : i32}", i + 1,
                type_text(cache_shape(w, i / 2)).s, i);
    for (size_t i = 0; i < n_hidden; i++)
        buf_fmt(out, ",\n      %%%zu: %s", i + 1, type_text(w->node[w->hidden[i]].s).s);
    for (size_t i = 0; i < w->p->n_weights; i++)
        buf_fmt(out, ",\n      %%%u: %s", w->weight[i].id, type_text(w->weight[i].s).s);
    buf_str(out, ") -> (");
    for (size_t i = 0; i < n; i++)
        buf_fmt(out, "%s, ", type_text(cache_shape(w, i / 2)).s);
    for (size_t i = 0; i < r->n; i++)
        buf_fmt(out, "%s%s", i ? ", " : "", type_text(r->value[i].s).s);
    buf_str(out, ") {\n");
}

static void write_end(struct writer *w, struct buf *out, const struct results *r)
{
    size_t n = w->p->n_caches;

    buf_str(out, "    return ");
    for (size_t i = 0; i < n; i++)
        buf_fmt(out, "%%%u, %%%u, ", w->k[i].id, w->v[i].id);
    for (size_t i = 0; i < r->n; i++)
        buf_fmt(out, "%s%%%u", i ? ", " : "", r->value[i].id);
    buf_str(out, " : ");
    for (size_t i = 0; i < 2 * n; i++)
        buf_fmt(out, "%s, ", type_text(cache_shape(w, i / 2)).s);
    for (size_t i = 0; i < r->n; i++)
        buf_fmt(out, "%s%s", i ? ", " : "", type_text(r->value[i].s).s);
    buf_str(out, "\n  }\n}\n");
}

/* Writes the program: the body first, because it finds the weights, which are arguments of the head. */
static void write_program(struct writer *w, struct buf *whole)
{
    const struct stablehlo_frame *f = w->f;
    size_t n = 4 * f->n_seqs * f->rows + f->n_seqs + f->n_wanted;
    struct shape inputs = shape_of(DT_I32, 1, f->part == STABLEHLO_HEAD ? f->n_wanted : n, 0, 0, 0, 0);
    struct results results = {.n = 0};

    write_body(w, inputs, &results);
    if (w->rc)
        return;
    write_head(w, whole, inputs, &results);
    buf_add(whole, w->p->text.data, w->p->text.len);
    write_end(w, whole, &results);
}

int stablehlo_write(struct stablehlo *p, const struct graph *g, const struct model *m,
                    const struct stablehlo_frame *f, struct err *e)
{
    struct writer w = {.p = p, .g = g, .m = m, .f = f};
    struct buf whole;

    *p = (struct stablehlo){0};
    buf_init(&p->text, MEM_MODEL);
    buf_init(&whole, MEM_MODEL);
    ASSERT(g->node[0].rows == f->n_seqs * f->rows && f->seen <= f->context, "%zu rows", g->node[0].rows);
    find_caches(&w);
    find_head(&w);
    w.node = mem_zalloc(g->n_nodes, sizeof(*w.node), MEM_MODEL);
    w.k = mem_zalloc(p->n_caches ? p->n_caches : 1, sizeof(*w.k), MEM_MODEL);
    w.v = mem_zalloc(p->n_caches ? p->n_caches : 1, sizeof(*w.v), MEM_MODEL);
    if (!w.node || !w.k || !w.v)
        w.rc = ERR_NOMEM;
    if (!w.rc)
        write_program(&w, &whole);
    if (!w.rc && (p->text.oom || whole.oom || !whole.data))
        w.rc = ERR_NOMEM;
    buf_fini(&p->text);
    p->text = whole;
    mem_free(w.node);
    mem_free(w.weight);
    mem_free(w.k);
    mem_free(w.v);
    if (w.rc == ERR_NOMEM)
        return err_nomem(e, "the program of a step");
    return w.rc ? err_set(e, w.rc, "pjrt: %s", w.why) : 0;
}

bool stablehlo_is_same(const struct stablehlo_weight *a, const struct stablehlo_weight *b)
{
    return a->kind == b->kind && a->piece == b->piece && a->of == b->of && a->down == b->down &&
           a->shape[0] == b->shape[0];
}

void stablehlo_fini(struct stablehlo *p)
{
    buf_fini(&p->text);
    mem_free(p->weight);
    mem_free(p->cache);
    *p = (struct stablehlo){0};
}
