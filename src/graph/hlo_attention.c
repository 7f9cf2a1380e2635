/* hlo_attention.c - lowers attention and the operators on heads: norms, temperature, RoPE, and stores to the
 * KV caches. */
#include "graph/hlo_priv.h"

#include <math.h>

#include "ops/op.h"

/* ---- heads ---- */

/* Returns the heads [FIRST, first + n) of QKV [T, columns] as [T, n, D]. */
static struct hlo_value heads_of(struct hlo_writer *w, struct hlo_value qkv, size_t first, size_t n, size_t d)
{
    return hlo_reshape(w, hlo_slice(w, qkv, 1, first * d, n * d),
                       hlo_shape_of(DT_F32, 3, qkv.s.d[0], n, d, 0, 0));
}

/* Joins q, k and v, [T, n, D] each, along their columns to one matrix [T, ..]. HAS_KV false: only q. */
static struct hlo_value joined(struct hlo_writer *w, struct hlo_value q, struct hlo_value k,
                               struct hlo_value v, bool has_kv)
{
    size_t T = q.s.d[0];
    struct hlo_value y = hlo_reshape(w, q, hlo_matrix_shape(T, q.s.d[1] * q.s.d[2]));

    if (has_kv) {
        y = hlo_concatenate(w, y, hlo_reshape(w, k, hlo_matrix_shape(T, k.s.d[1] * k.s.d[2])), 1);
        y = hlo_concatenate(w, y, hlo_reshape(w, v, hlo_matrix_shape(T, v.s.d[1] * v.s.d[2])), 1);
    }
    return y;
}

static struct hlo_value temperature(struct hlo_writer *w, const struct op_attn *a, struct hlo_value q)
{
    struct hlo_value x =
        hlo_reshape(w, hlo_convert(w, w->positions, DT_F32), hlo_shape_of(DT_F32, 1, q.s.d[0], 0, 0, 0, 0));
    static const int at[] = {0};

    x = hlo_with_constant(w, "divide", hlo_with_constant(w, "add", x, 1), a->temp_floor);
    x = hlo_unary(w, "log_plus_one", hlo_unary(w, "floor", x));
    x = hlo_with_constant(w, "add", hlo_with_constant(w, "multiply", x, a->temp_scale), 1);
    return hlo_binary(w, "multiply", q, hlo_broadcast(w, x, q.s, at));
}

struct hlo_value hlo_heads(struct hlo_writer *w, const struct op_attn *a, struct hlo_value qkv)
{
    struct hlo_value q = heads_of(w, qkv, 0, a->n_heads, a->d), k = q, v = q;

    if (a->q_norm)
        q = hlo_norm(w, q, a->q_norm);
    if (!a->shared) {
        k = heads_of(w, qkv, a->n_heads, a->n_kv, a->d);
        v = heads_of(w, qkv, a->n_heads + a->n_kv, a->n_kv, a->d);
        k = a->k_norm ? hlo_norm(w, k, a->k_norm) : k;
        v = a->v_norm ? hlo_norm(w, v, a->v_norm) : v;
    }
    if (a->temp_scale != 0)
        q = temperature(w, a, q);
    return joined(w, q, k, v, !a->shared);
}

/* Rotates the first 2 * half dims of X [T, n, D] by COS and SIN [T, half]. */
static struct hlo_value rope_heads(struct hlo_writer *w, const struct op_attn *a, struct hlo_value x,
                                   struct hlo_value cos, struct hlo_value sin)
{
    size_t T = x.s.d[0], n = x.s.d[1], D = x.s.d[2], half = cos.s.d[1];
    bool next = a->pairs == ROPE_PAIRS_NEXT;
    struct hlo_shape part = hlo_shape_of(DT_F32, 3, T, n, half, 0, 0),
                     pair = hlo_shape_of(DT_F32, 4, T, n, half, 2, 0);
    struct hlo_value first, second, y1, y2, y, head = hlo_slice(w, x, 2, 0, 2 * half);
    static const int at[] = {0, 2};

    cos = hlo_broadcast(w, cos, part, at);
    sin = hlo_broadcast(w, sin, part, at);
    if (next) {
        head = hlo_reshape(w, head, pair);
        first = hlo_reshape(w, hlo_slice(w, head, 3, 0, 1), part);
        second = hlo_reshape(w, hlo_slice(w, head, 3, 1, 1), part);
    } else {
        first = hlo_slice(w, head, 2, 0, half);
        second = hlo_slice(w, head, 2, half, half);
    }
    y1 = hlo_binary(w, "subtract", hlo_binary(w, "multiply", first, cos),
                    hlo_binary(w, "multiply", second, sin));
    y2 = hlo_binary(w, "add", hlo_binary(w, "multiply", second, cos), hlo_binary(w, "multiply", first, sin));
    if (next) {
        pair.d[3] = 1;
        y = hlo_concatenate(w, hlo_reshape(w, y1, pair), hlo_reshape(w, y2, pair), 3);
        y = hlo_reshape(w, y, hlo_shape_of(DT_F32, 3, T, n, 2 * half, 0, 0));
    } else {
        y = hlo_concatenate(w, y1, y2, 2);
    }
    return 2 * half == D ? y : hlo_concatenate(w, y, hlo_slice(w, x, 2, 2 * half, D - 2 * half), 2);
}

static struct hlo_value table_of(struct hlo_writer *w, const struct rope *r, enum stablehlo_kind kind)
{
    return hlo_gather_rows(w,
                           hlo_weight(w, (struct stablehlo_weight){.kind = kind,
                                                                   .of = r,
                                                                   .shape = {w->f->context, r->half},
                                                                   .n_dims = 2,
                                                                   .dtype = DT_F32}),
                           w->positions, 0);
}

struct hlo_value hlo_rope(struct hlo_writer *w, const struct op_attn *a, struct hlo_value qkv)
{
    const struct rope *r = &w->m->info.rope[a->rope];
    bool is_input = rope_by_length(r);
    struct hlo_value cos = is_input ? w->cos[a->rope] : table_of(w, r, STABLEHLO_COS);
    struct hlo_value sin = is_input ? w->sin[a->rope] : table_of(w, r, STABLEHLO_SIN);
    struct hlo_value q = rope_heads(w, a, heads_of(w, qkv, 0, a->n_heads, a->d), cos, sin), k = q, v = q;

    if (!a->shared) {
        k = rope_heads(w, a, heads_of(w, qkv, a->n_heads, a->n_kv, a->d), cos, sin);
        v = heads_of(w, qkv, a->n_heads + a->n_kv, a->n_kv, a->d);
    }
    return joined(w, q, k, v, !a->shared);
}

/* ---- attention ---- */

static struct hlo_shape f32_of(struct hlo_shape s)
{
    s.type = DT_F32;
    return s;
}

/* Returns CACHE after storing X [T, n_kv, D], which has the type of CACHE, in the slots and rows of
 * w->places. */
static struct hlo_value store(struct hlo_writer *w, struct hlo_value cache, struct hlo_value x)
{
    const char *type = cache.s.type == DT_F32 ? "tensor<f32>" : "tensor<bf16>";

    return hlo_emit(
        w, cache.s,
        "\"stablehlo.scatter\"(%%%u, %%%u, %%%u) <{scatter_dimension_numbers = "
        "#stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 2], "
        "scatter_dims_to_operand_dims = [0, 2], index_vector_dim = 1>, indices_are_sorted = false, "
        "unique_indices = false}> ({\n    ^bb0(%%old: %s, %%new: %s):\n      stablehlo.return %%new : "
        "%s\n    }) : (%s, %s, %s) -> %s",
        cache.id, w->places.id, x.id, type, type, type, hlo_type_text(cache.s).s,
        hlo_type_text(w->places.s).s, hlo_type_text(x.s).s, hlo_type_text(cache.s).s);
}

/* Stores the keys K and values V [T, n_kv, D] in the caches of number I. A value that is not finite would spoil even
 * rows that do not see it: its masked weight 0 times NaN or infinity is NaN. Such a value is therefore stored as 0, and
 * its key as NaN: rows that see the key get NaN, and for others the mask removes its score. */
static void store_rows(struct hlo_writer *w, size_t i, struct hlo_value k, struct hlo_value v)
{
    struct hlo_shape condition;
    struct hlo_value is_finite;

    k = hlo_convert(w, k, w->k[i].s.type);
    v = hlo_convert(w, v, w->v[i].s.type);
    condition = v.s;
    condition.type = DT_BOOL;
    is_finite = hlo_emit(w, condition, "stablehlo.is_finite %%%u : (%s) -> %s", v.id, hlo_type_text(v.s).s,
                         hlo_type_text(condition).s);
    k = hlo_choose(w, is_finite, k, hlo_convert(w, hlo_number(w, NAN, f32_of(k.s)), k.s.type));
    v = hlo_choose(w, is_finite, v, hlo_convert(w, hlo_number(w, 0, f32_of(v.s)), v.s.type));
    w->k[i] = store(w, w->k[i], k);
    w->v[i] = store(w, w->v[i], v);
}

/* Returns the attention mask with the shape S [n_seqs, n_kv, rows, G, seen]: true where the row sees the
 * key. */
static struct hlo_value mask_of(struct hlo_writer *w, const struct op_attn *a, struct hlo_shape s)
{
    static const int by_row[] = {0, 2}, by_key[] = {4};
    struct hlo_shape i32 = s, keys = hlo_shape_of(DT_I32, 1, s.d[4], 0, 0, 0, 0);
    struct hlo_value pos, key, sees;

    i32.type = DT_I32;
    pos = hlo_reshape(w, w->positions, hlo_shape_of(DT_I32, 2, s.d[0], s.d[2], 0, 0, 0));
    pos = hlo_broadcast(w, pos, i32, by_row);
    key = hlo_broadcast(w, hlo_emit(w, keys, "stablehlo.iota dim = 0 : %s", hlo_type_text(keys).s), i32,
                        by_key);
    sees = hlo_compare(w, "LE", key, pos);
    if (a->window) {
        struct hlo_value first = hlo_binary(w, "subtract", pos, hlo_integer(w, (long)a->window, i32));

        sees = hlo_binary(w, "and", sees, hlo_compare(w, "GT", key, first));
    }
    if (a->chunk) {
        struct hlo_value chunk = hlo_integer(w, (long)a->chunk, i32);
        struct hlo_value same =
            hlo_compare(w, "EQ", hlo_binary(w, "divide", key, chunk), hlo_binary(w, "divide", pos, chunk));

        sees = hlo_binary(w, "and", sees, same);
    }
    return sees;
}

/* Returns the softmax numerators of SCORES [n_seqs, n_kv, rows, G, seen] and sets *SUM to their sums. */
static struct hlo_value softmax(struct hlo_writer *w, const struct op_attn *a, struct hlo_value scores,
                                struct hlo_value *sum)
{
    struct hlo_value most, e, sink;
    struct hlo_shape s = scores.s;
    static const int by_head[] = {1, 3};

    most = hlo_reduce(w, scores, "maximum", -3.4e38f);
    if (a->sinks) {
        sink = hlo_reshape(w, hlo_vector(w, a->sinks, a->n_heads), hlo_matrix_shape(s.d[1], s.d[3]));
        sink = hlo_broadcast(w, sink, most.s, by_head);
        most = hlo_binary(w, "maximum", most, sink);
    }
    e = hlo_unary(w, "exponential", hlo_binary(w, "subtract", scores, hlo_spread_last(w, most, s)));
    *sum = hlo_reduce(w, e, "add", 0);
    if (a->sinks)
        *sum = hlo_binary(w, "add", *sum, hlo_unary(w, "exponential", hlo_binary(w, "subtract", sink, most)));
    return e;
}

static struct hlo_value attend(struct hlo_writer *w, const struct op_attn *a, struct hlo_value q,
                               struct hlo_value k, struct hlo_value v)
{
    size_t B = w->f->n_seqs, M = w->f->rows, K = a->n_kv, G = a->n_heads / K, D = a->d, C = w->f->seen;
    struct hlo_shape five = hlo_shape_of(DT_F32, 5, B, K, M, G, C);
    struct hlo_value scores, sum, e, y;
    static const int heads_first[] = {0, 2, 1, 3, 4}, rows_first[] = {0, 2, 1, 3, 4};

    q = hlo_reshape(w, q, hlo_shape_of(DT_F32, 5, B, M, K, G, D));
    q = hlo_reshape(w, hlo_transpose(w, q, heads_first), hlo_shape_of(DT_F32, 4, B, K, M * G, D, 0));
    k = hlo_gather_rows(w, k, w->reads, C);
    v = hlo_gather_rows(w, v, w->reads, C);
    scores = hlo_reshape(w, hlo_dot(w, hlo_convert(w, q, k.s.type), k, 2, 3, 3), five);
    scores = hlo_with_constant(w, "multiply", scores, a->scale);
    if (a->softcap > 0) {
        scores = hlo_unary(w, "tanh", hlo_with_constant(w, "multiply", scores, 1 / a->softcap));
        scores = hlo_with_constant(w, "multiply", scores, a->softcap);
    }
    scores = hlo_choose(w, mask_of(w, a, five), scores, hlo_number(w, -3.4e38f, five));
    e = softmax(w, a, scores, &sum);
    e = hlo_reshape(w, hlo_convert(w, e, v.s.type), hlo_shape_of(v.s.type, 4, B, K, M * G, C, 0));
    y = hlo_reshape(w, hlo_dot(w, e, v, 2, 3, 2), hlo_shape_of(DT_F32, 5, B, K, M, G, D));
    y = hlo_binary(w, "divide", y, hlo_spread_last(w, sum, y.s));
    return hlo_reshape(w, hlo_transpose(w, y, rows_first), hlo_matrix_shape(B * M, a->n_heads * D));
}

static size_t cache_of(const struct hlo_writer *w, size_t layer)
{
    for (size_t i = 0; i < w->p->n_caches; i++)
        if (w->p->cache[i].layer == layer)
            return i;
    return 0;
}

struct hlo_value hlo_attn(struct hlo_writer *w, const struct graph_node *n, struct hlo_value qkv)
{
    const struct op_attn *a = n->w.attn;
    size_t i = cache_of(w, n->at);

    w->layer = n->at;
    if (a->two_sided)
        hlo_refuse(w, n->at, "attention in both directions is not served");
    if (!a->shared)
        store_rows(w, i, heads_of(w, qkv, a->n_heads, a->n_kv, a->d),
                   heads_of(w, qkv, a->n_heads + a->n_kv, a->n_kv, a->d));
    return attend(w, a, hlo_slice(w, qkv, 1, 0, a->n_heads * a->d), w->k[i], w->v[i]);
}
