/* hlo_ops.c - lowers embeddings, norms, linears, activations and MLPs. */
#include "graph/hlo_priv.h"

#include "ops/op.h"

struct hlo_value hlo_embed(struct hlo_writer *w, const struct graph_node *n, struct hlo_value index)
{
    const struct op_embed *e = n->w.embed;
    struct stablehlo_weight own = {.kind = STABLEHLO_TABLE,
                                   .of = e,
                                   .shape = {e->table.shape[0], e->table.shape[1]},
                                   .n_dims = 2,
                                   .dtype = e->table.dtype == DT_BF16 ? DT_BF16 : DT_F32};
    struct hlo_value table = e->head ? hlo_matrix_of_linear(w, e->head).numbers : hlo_weight(w, own), x;

    if (e->offset)
        index = hlo_binary(w, "add", index, hlo_integer(w, e->offset, index.s));
    x = hlo_convert(w, hlo_gather_rows(w, table, index, 0), DT_F32);
    return e->scale != 0 ? hlo_with_constant(w, "multiply", x, e->scale) : x;
}

struct hlo_value hlo_norm(struct hlo_writer *w, struct hlo_value x, const struct op_norm *n)
{
    float each = 1 / (float)n->n;
    struct hlo_value y;

    if (n->layer) {
        struct hlo_value mean = hlo_with_constant(w, "multiply", hlo_reduce(w, x, "add", 0), each);

        x = hlo_binary(w, "subtract", x, hlo_spread_last(w, mean, x.s));
    }
    y = hlo_with_constant(w, "multiply", hlo_reduce(w, hlo_binary(w, "multiply", x, x), "add", 0), each);
    y = hlo_unary(w, "rsqrt", hlo_with_constant(w, "add", y, n->eps));
    y = hlo_binary(w, "multiply", x, hlo_spread_last(w, y, x.s));
    if (n->w)
        y = hlo_binary(w, "multiply", y, hlo_spread_rows(w, hlo_vector(w, n->w, n->n), x.s));
    if (n->b)
        y = hlo_binary(w, "add", y, hlo_spread_rows(w, hlo_vector(w, n->b, n->n), x.s));
    return y;
}

struct hlo_value hlo_linear(struct hlo_writer *w, struct hlo_value x, const struct linear *l)
{
    struct hlo_matrix m = hlo_matrix_of_linear(w, l);
    struct hlo_value y = hlo_product(w, x, &m, 0);

    if (l->bias) {
        struct hlo_value bias = hlo_weight(
            w, (struct stablehlo_weight){
                   .kind = STABLEHLO_BIAS, .of = l, .shape = {l->n}, .n_dims = 1, .dtype = DT_F32});

        y = hlo_binary(w, "add", y, hlo_spread_rows(w, bias, y.s));
    }
    return y;
}

/* erf(x) by formula 7.1.26 of Abramowitz and Stegun, with an error of at most 1.5e-7. */
static struct hlo_value erf_of(struct hlo_writer *w, struct hlo_value x)
{
    static const float c[] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f};
    struct hlo_value a = hlo_unary(w, "abs", x), one = hlo_number(w, 1, x.s), t, sum, e;

    t = hlo_binary(w, "divide", one,
                   hlo_with_constant(w, "add", hlo_with_constant(w, "multiply", a, 0.3275911f), 1));
    sum = hlo_with_constant(w, "multiply", t, c[0]);
    for (int i = 1; i < 5; i++)
        sum = hlo_binary(w, "multiply", hlo_with_constant(w, "add", sum, c[i]), t);
    e = hlo_unary(w, "exponential", hlo_unary(w, "negate", hlo_binary(w, "multiply", x, x)));
    sum = hlo_binary(w, "subtract", one, hlo_binary(w, "multiply", sum, e));
    return hlo_binary(w, "multiply", sum, hlo_unary(w, "sign", x));
}

struct hlo_value hlo_act(struct hlo_writer *w, struct hlo_value x, enum kern_act act)
{
    struct hlo_value y;

    switch (act) {
    case KERN_SILU: return hlo_binary(w, "multiply", x, hlo_unary(w, "logistic", x));
    case KERN_GELU_QUICK:
        y = hlo_unary(w, "logistic", hlo_with_constant(w, "multiply", x, 1.702f));
        return hlo_binary(w, "multiply", x, y);
    case KERN_RELU: return hlo_with_constant(w, "maximum", x, 0);
    case KERN_GELU_TANH:
        y = hlo_binary(w, "multiply", hlo_binary(w, "multiply", x, x), x);
        y = hlo_binary(w, "add", x, hlo_with_constant(w, "multiply", y, 0.044715f));
        y = hlo_unary(w, "tanh", hlo_with_constant(w, "multiply", y, 0.7978845608028654f));
        break;
    case KERN_GELU_ERF: y = erf_of(w, hlo_with_constant(w, "multiply", x, 0.70710678118654752f)); break;
    default: return x;
    }
    y = hlo_with_constant(w, "multiply", hlo_with_constant(w, "add", y, 1), 0.5f);
    return hlo_binary(w, "multiply", x, y);
}

struct hlo_value hlo_middle(struct hlo_writer *w, struct hlo_value y, bool paired, enum kern_act act)
{
    int last = y.s.n - 1;
    size_t half = y.s.d[last] / 2;

    if (!paired)
        return hlo_act(w, y, act);
    return hlo_binary(w, "multiply", hlo_act(w, hlo_slice(w, y, last, 0, half), act),
                      hlo_slice(w, y, last, half, half));
}

struct hlo_value hlo_mlp(struct hlo_writer *w, const struct op_mlp *mlp, struct hlo_value h)
{
    struct hlo_value up = hlo_linear(w, h, &mlp->up);

    return hlo_linear(w, hlo_middle(w, up, mlp->up.paired, mlp->act), &mlp->down);
}
