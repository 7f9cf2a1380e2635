/* hlo_moe.c - lowers mixtures of experts: the router, and the experts of few rows or of many. */
#include "graph/hlo_priv.h"

#include <stdio.h>
#include <string.h>

#include "ops/moe.h"

/* The choices of the router: for I from 0 to top_k - 1, the expert of each row with the I-th largest
 * logit. */
struct routing {
    struct hlo_value hot[MOE_MAX_TOP_K];    /* bool [T, experts]: true at this expert */
    struct hlo_value index[MOE_MAX_TOP_K];  /* i32 [T, 1]: the number of this expert */
    struct hlo_value weight[MOE_MAX_TOP_K]; /* [T]: the weight of this expert */
};

/* Finds the top_k largest of LOGITS [T, experts]; of equal ones the first. Sets the weights to these logits. */
static void find_chosen(struct hlo_writer *w, const struct moe *m, struct hlo_value logits, struct routing *r)
{
    struct hlo_shape s = logits.s, column = hlo_shape_of(DT_I32, 2, s.d[0], 1, 0, 0, 0);
    struct hlo_value number = hlo_emit(w, s, "stablehlo.iota dim = 1 : %s", hlo_type_text(s).s);
    struct hlo_value none = hlo_number(w, 1e9f, s), out = hlo_number(w, -3.4e38f, s), left = logits;

    for (size_t i = 0; i < m->top_k; i++) {
        struct hlo_value most = hlo_reduce(w, left, "maximum", -3.4e38f), first;

        first = hlo_choose(w, hlo_compare(w, "EQ", left, hlo_spread_last(w, most, s)), number, none);
        first = hlo_reduce(w, first, "minimum", 1e9f);
        r->hot[i] = hlo_compare(w, "EQ", number, hlo_spread_last(w, first, s));
        r->index[i] = hlo_reshape(w, hlo_convert(w, first, DT_I32), column);
        r->weight[i] = most;
        left = hlo_choose(w, r->hot[i], out, left);
    }
}

static struct hlo_value sum_of_weights(struct hlo_writer *w, const struct moe *m, const struct routing *r)
{
    struct hlo_value sum = r->weight[0];

    for (size_t i = 1; i < m->top_k; i++)
        sum = hlo_binary(w, "add", sum, r->weight[i]);
    return sum;
}

static void divide_weights(struct hlo_writer *w, const struct moe *m, struct routing *r, struct hlo_value by)
{
    for (size_t i = 0; i < m->top_k; i++)
        r->weight[i] = hlo_binary(w, "divide", r->weight[i], by);
}

static void choose_experts(struct hlo_writer *w, const struct moe *m, struct hlo_value logits,
                           struct routing *r)
{
    struct hlo_value most, sum;

    find_chosen(w, m, logits, r);
    most = r->weight[0];
    for (size_t i = 0; i < m->top_k; i++)
        r->weight[i] = m->gate == MOE_SIGMOID
                           ? hlo_unary(w, "logistic", r->weight[i])
                           : hlo_unary(w, "exponential", hlo_binary(w, "subtract", r->weight[i], most));
    if (m->gate == MOE_SOFTMAX_ALL) {
        sum = hlo_binary(w, "subtract", logits, hlo_spread_last(w, most, logits.s));
        divide_weights(w, m, r, hlo_reduce(w, hlo_unary(w, "exponential", sum), "add", 0));
    }
    if (m->gate == MOE_SOFTMAX_CHOSEN || m->renorm)
        divide_weights(w, m, r, sum_of_weights(w, m, r));
    for (size_t i = 0; i < m->top_k && m->expert_scale; i++) {
        struct hlo_value scale = hlo_spread_rows(w, hlo_vector(w, m->expert_scale, m->n_experts), logits.s);

        scale = hlo_reduce(w, hlo_choose(w, r->hot[i], scale, hlo_number(w, 0, logits.s)), "add", 0);
        r->weight[i] = hlo_binary(w, "multiply", r->weight[i], scale);
    }
}

/* Returns the matrices of all experts, [experts, n, k]. */
static struct hlo_matrix matrix_of_experts(struct hlo_writer *w, const struct moe *m, bool down)
{
    const struct linear *l = down ? &m->expert->down : &m->expert->up;

    return hlo_matrix_of(w, (struct stablehlo_weight){.kind = STABLEHLO_EXPERTS, .of = m, .down = down}, l,
                         m->n_experts);
}

/* Returns a matrix of the weights that the function PART selects by the index I from the weights of M. */
static struct hlo_matrix parts_of(struct hlo_writer *w, struct hlo_matrix m, struct hlo_value i,
                                  struct hlo_value (*part)(struct hlo_writer *w, struct hlo_value all,
                                                           struct hlo_value i))
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

static struct hlo_value gather_all(struct hlo_writer *w, struct hlo_value all, struct hlo_value index)
{
    return hlo_gather_rows(w, all, index, 0);
}

/* Computes few rows: gathers the matrices of the experts that each row has chosen. */
static struct hlo_value experts_of_rows(struct hlo_writer *w, const struct moe *m, struct hlo_value h,
                                        const struct routing *r)
{
    struct hlo_matrix up = matrix_of_experts(w, m, false), down = matrix_of_experts(w, m, true);
    struct hlo_value sum = h;

    for (size_t i = 0; i < m->top_k; i++) {
        struct hlo_matrix own = parts_of(w, up, r->index[i], gather_all);
        struct hlo_value x = h, y;

        if (m->scale_input)
            x = hlo_binary(w, "multiply", h, hlo_spread_last(w, r->weight[i], h.s));
        y = hlo_middle(w, hlo_product(w, x, &own, 1), m->expert->up.paired, m->act);
        own = parts_of(w, down, r->index[i], gather_all);
        y = hlo_product(w, y, &own, 1);
        if (!m->scale_input)
            y = hlo_binary(w, "multiply", y, hlo_spread_last(w, r->weight[i], y.s));
        sum = i ? hlo_binary(w, "add", sum, y) : y;
    }
    return sum;
}

/* Returns entry I, a scalar, of the first dim of ALL [experts, ..] as [..]. */
static struct hlo_value one_of(struct hlo_writer *w, struct hlo_value all, struct hlo_value i)
{
    struct hlo_shape s = all.s, rest = all.s;
    struct hlo_value zero = hlo_integer(w, 0, i.s);
    struct hlo_text at = {""}, types = {""}, sizes = {""};

    s.d[0] = 1;
    memmove(rest.d, rest.d + 1, (size_t)--rest.n * sizeof(rest.d[0]));
    for (int d = 0; d < s.n; d++) {
        snprintf(at.s + strlen(at.s), sizeof(at.s) - strlen(at.s), ", %%%u", d ? zero.id : i.id);
        snprintf(types.s + strlen(types.s), sizeof(types.s) - strlen(types.s), ", tensor<i32>");
        snprintf(sizes.s + strlen(sizes.s), sizeof(sizes.s) - strlen(sizes.s), "%s%zu", d ? ", " : "",
                 s.d[d]);
    }
    return hlo_reshape(w,
                       hlo_emit(w, s, "stablehlo.dynamic_slice %%%u%s, sizes = [%s] : (%s%s) -> %s", all.id,
                                at.s, sizes.s, hlo_type_text(all.s).s, types.s, hlo_type_text(s).s),
                       rest);
}

/* Returns column I, a scalar, of X [T, experts] as [T]. */
static struct hlo_value column_at(struct hlo_writer *w, struct hlo_value x, struct hlo_value i,
                                  struct hlo_value zero)
{
    struct hlo_shape s = x.s;

    s.d[1] = 1;
    return hlo_reshape(
        w,
        hlo_emit(w, s,
                 "stablehlo.dynamic_slice %%%u, %%%u, %%%u, sizes = [%zu, 1] : (%s, tensor<i32>, "
                 "tensor<i32>) -> %s",
                 x.id, zero.id, i.id, s.d[0], hlo_type_text(x.s).s, hlo_type_text(s).s),
        hlo_shape_of(DT_F32, 1, s.d[0], 0, 0, 0, 0));
}

/* Returns the result of expert I for all rows of H, times its weights. Rows that did not choose it get 0 by a
 * select and not by a weight of 0, because their result may be an infinity. */
static struct hlo_value expert_at(struct hlo_writer *w, const struct moe *m, struct hlo_value h,
                                  struct hlo_value weights, struct hlo_value hot, struct hlo_value i)
{
    struct hlo_value zero = hlo_integer(w, 0, i.s), x = h, y;
    struct hlo_value own = column_at(w, weights, i, zero);
    struct hlo_matrix up = parts_of(w, matrix_of_experts(w, m, false), i, one_of);
    struct hlo_matrix down = parts_of(w, matrix_of_experts(w, m, true), i, one_of);

    if (m->scale_input)
        x = hlo_binary(w, "multiply", h, hlo_spread_last(w, own, h.s));
    y = hlo_middle(w, hlo_product(w, x, &up, 0), m->expert->up.paired, m->act);
    y = hlo_product(w, y, &down, 0);
    if (!m->scale_input)
        y = hlo_binary(w, "multiply", y, hlo_spread_last(w, own, y.s));
    own = hlo_spread_last(w, column_at(w, hot, i, zero), y.s);
    return hlo_choose(w, hlo_compare(w, "GT", own, hlo_number(w, 0, y.s)), y, hlo_number(w, 0, y.s));
}

/* Computes many rows: a loop over the experts computes all rows with each. */
static struct hlo_value experts_in_turn(struct hlo_writer *w, const struct moe *m, struct hlo_value h,
                                        const struct routing *r)
{
    struct hlo_shape s = r->hot[0].s, scalar = hlo_shape_of(DT_I32, 0, 0, 0, 0, 0, 0), result = h.s;
    struct hlo_value weights, hot, zero, one, first, last, sum, i, goes_on;
    unsigned both;

    s.type = DT_F32;
    weights = hot = zero = hlo_number(w, 0, s);
    one = hlo_number(w, 1, s);
    for (size_t k = 0; k < m->top_k; k++) {
        weights = hlo_choose(w, r->hot[k], hlo_spread_last(w, r->weight[k], s), weights);
        hot = hlo_choose(w, r->hot[k], one, hot);
    }
    result.d[1] = m->expert->down.n;
    first = hlo_integer(w, 0, scalar);
    last = hlo_integer(w, (long)m->n_experts, scalar);
    sum = hlo_number(w, 0, result);
    both = w->next++;
    i = (struct hlo_value){w->next++, scalar};
    buf_fmt(&w->p->text,
            "    %%%u:2 = stablehlo.while(%%%u = %%%u, %%%u = %%%u) : tensor<i32>, %s\n    cond {\n", both,
            i.id, first.id, w->next, sum.id, hlo_type_text(result).s);
    sum.id = w->next++;
    goes_on = hlo_compare(w, "LT", i, last);
    buf_fmt(&w->p->text, "    stablehlo.return %%%u : tensor<i1>\n    } do {\n", goes_on.id);
    sum = hlo_binary(w, "add", sum, expert_at(w, m, h, weights, hot, i));
    i = hlo_binary(w, "add", i, hlo_integer(w, 1, scalar));
    buf_fmt(&w->p->text, "    stablehlo.return %%%u, %%%u : tensor<i32>, %s\n    }\n", i.id, sum.id,
            hlo_type_text(result).s);
    return hlo_emit(w, result, "stablehlo.reshape %%%u#1 : (%s) -> %s", both, hlo_type_text(result).s,
                    hlo_type_text(result).s);
}

struct hlo_value hlo_moe(struct hlo_writer *w, const struct moe *m, struct hlo_value h,
                         struct hlo_value route)
{
    struct routing r = {0};

    if (m->limit > 0 || m->expert->up.bias || m->expert->down.bias)
        hlo_refuse(w, w->layer, "experts with biases or limits are not served");
    if (w->rc)
        return h;
    choose_experts(w, m, hlo_linear(w, route, &m->router), &r);
    if (h.s.d[0] * m->top_k <= m->n_experts)
        return experts_of_rows(w, m, h, &r);
    return experts_in_turn(w, m, h, &r);
}
