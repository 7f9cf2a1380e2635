/* stablehlo.c - lowers a graph to a StableHLO program: the arguments, the operators in their order, the results.
 *
 * Values between operators are fp32. Linears and attention round their inputs to the type of the frame and sum
 * in fp32; dots of fp32 demand the highest precision, because GPUs would otherwise round to 19 bits.
 */
#include "graph/stablehlo.h"

#include <float.h>

#include "base/mem.h"
#include "graph/hlo_priv.h"
#include "ops/op.h"

static struct hlo_value lower(struct hlo_writer *w, const struct graph_node *n)
{
    struct hlo_value x = graph_n_inputs(n->op) > 0 ? w->node[n->in[0]] : (struct hlo_value){0};
    struct hlo_value y = graph_n_inputs(n->op) > 1 ? w->node[n->in[1]] : x;

    switch (n->op) {
    case GRAPH_IDS: return w->ids;
    case GRAPH_POSITIONS: return w->positions;
    case GRAPH_WANTED: return w->wanted;
    case GRAPH_EMBED: return hlo_embed(w, n, x);
    case GRAPH_NORM: return hlo_norm(w, x, n->w.norm);
    case GRAPH_LINEAR:
    case GRAPH_LOGITS: return hlo_linear(w, x, n->w.linear);
    case GRAPH_HEADS: return hlo_heads(w, n->w.attn, x);
    case GRAPH_ROPE: return hlo_rope(w, n->w.attn, x);
    case GRAPH_ATTN: return hlo_attn(w, n, x);
    case GRAPH_MLP: return hlo_mlp(w, n->w.mlp, x);
    case GRAPH_MOE: return hlo_moe(w, n->w.moe, x, y);
    case GRAPH_GLU: return hlo_binary(w, "multiply", hlo_act(w, x, n->act), y);
    case GRAPH_ADD: return hlo_binary(w, "add", x, y);
    case GRAPH_SCALE: return hlo_with_constant(w, "multiply", x, n->number);
    case GRAPH_SOFTCAP:
        x = hlo_unary(w, "tanh", hlo_with_constant(w, "multiply", x, 1 / n->number));
        return hlo_with_constant(w, "multiply", x, n->number);
    case GRAPH_ROWS: return hlo_gather_rows(w, x, y, 0);
    case GRAPH_RESHAPE: return hlo_reshape(w, x, hlo_matrix_shape(n->rows, n->n));
    case GRAPH_COLUMNS: return hlo_slice(w, x, 1, n->at, n->n);
    case GRAPH_N_OPS: break;
    }
    return x;
}

/* Returns the argmax of each row of LOGITS [rows, V] as i32 [rows]; of equal logits the first. It is -1 if a
 * logit is NaN or +infinity, or if none is finite. */
static struct hlo_value best_of(struct hlo_writer *w, struct hlo_value logits)
{
    struct hlo_shape s = logits.s, scalar = hlo_shape_of(DT_I32, 0, 0, 0, 0, 0, 0);
    struct hlo_value most, all, none, first, is_finite, is_there;

    s.type = DT_I32;
    all = hlo_emit(w, s, "stablehlo.iota dim = 1 : %s", hlo_type_text(s).s);
    none = hlo_integer(w, (long)s.d[1], s);
    most = hlo_reduce(w, logits, "maximum", -FLT_MAX);
    first = hlo_choose(w, hlo_compare(w, "EQ", logits, hlo_spread_last(w, most, logits.s)), all, none);
    is_finite = hlo_compare(w, "LE", logits, hlo_number(w, FLT_MAX, logits.s));
    first = hlo_choose(w, is_finite, first, hlo_integer(w, -1, s));
    first = hlo_reduce_from(w, first, "minimum", hlo_integer(w, (long)s.d[1], scalar));
    is_there = hlo_compare(w, "LT", first, hlo_integer(w, (long)s.d[1], first.s));
    return hlo_choose(w, is_there, first, hlo_integer(w, -1, first.s));
}

/* Finds the head, which begins with the first operator that selects the wanted rows: sets w->n_body, and
 * w->hidden to the values whose rows are selected. */
static void find_head(struct hlo_writer *w)
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
static void find_caches(struct hlo_writer *w)
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

/* Returns the elements [*at, *at + n) of the inputs ALL as a column [n, 1], and adds N to *AT. */
static struct hlo_value input(struct hlo_writer *w, struct hlo_value all, size_t *at, size_t n)
{
    struct hlo_value x = hlo_slice(w, all, 0, *at, n);

    *at += n;
    return hlo_reshape(w, x, hlo_shape_of(DT_I32, 2, n, 1, 0, 0, 0));
}

size_t stablehlo_n_inputs(const struct model *m, size_t n_seqs, size_t rows, size_t n_wanted)
{
    size_t n = stablehlo_n_rows_inputs(n_seqs, rows) + n_wanted;

    for (size_t i = 0; i < m->info.n_ropes; i++)
        if (rope_by_length(&m->info.rope[i]))
            n += 2 * n_seqs * rows * m->info.rope[i].half;
    return n;
}

/* Returns the T x HALF inputs from *AT on, which are the bits of fp32 numbers, as [T, HALF], and advances
 * *AT. */
static struct hlo_value angle_input(struct hlo_writer *w, struct hlo_value all, size_t *at, size_t half)
{
    size_t T = w->f->n_seqs * w->f->rows;
    struct hlo_value x = hlo_reshape(w, input(w, all, at, T * half), hlo_matrix_shape(T, half));
    struct hlo_shape s = hlo_matrix_shape(T, half);

    return hlo_emit(w, s, "stablehlo.bitcast_convert %%%u : (%s) -> %s", x.id, hlo_type_text(x.s).s,
                    hlo_type_text(s).s);
}

static void read_inputs(struct hlo_writer *w, struct hlo_value all)
{
    size_t T = w->f->n_seqs * w->f->rows, at = 0;
    struct hlo_value slots, rows;

    if (w->f->part == STABLEHLO_HEAD) {
        w->wanted = input(w, all, &at, w->f->n_wanted);
        return;
    }
    w->ids = input(w, all, &at, T);
    w->positions = input(w, all, &at, T);
    slots = input(w, all, &at, T);
    rows = input(w, all, &at, T);
    w->places = hlo_concatenate(w, slots, rows, 1);
    w->reads = input(w, all, &at, w->f->n_seqs);
    for (size_t i = 0; i < w->m->info.n_ropes; i++)
        if (rope_by_length(&w->m->info.rope[i])) {
            w->cos[i] = angle_input(w, all, &at, w->m->info.rope[i].half);
            w->sin[i] = angle_input(w, all, &at, w->m->info.rope[i].half);
        }
    w->wanted = input(w, all, &at, w->f->n_wanted);
}

static struct hlo_shape cache_shape(const struct hlo_writer *w, size_t i)
{
    const struct stablehlo_cache *c = &w->p->cache[i];

    return hlo_shape_of(w->f->kv_dtype, 4, w->f->n_slots + 1, c->n_kv, w->f->context + 1, c->d, 0);
}

/* The results of a program that are not caches, in their order. */
struct results {
    struct hlo_value value[2 + STABLEHLO_MAX_HIDDEN];
    size_t n;
};

static struct hlo_value hidden_argument(struct hlo_writer *w, size_t i)
{
    const struct graph_node *n = &w->g->node[w->hidden[i]];

    return (struct hlo_value){w->next++, hlo_matrix_shape(n->rows, n->n)};
}

/* Returns number I of the inputs ALL as a scalar. */
static struct hlo_value scalar_input(struct hlo_writer *w, struct hlo_value all, size_t i)
{
    return hlo_reshape(w, hlo_slice(w, all, 0, i, 1), hlo_shape_of(DT_I32, 0, 0, 0, 0, 0, 0));
}

/* Returns CACHE after copying the first `seen` rows of slot FROM to slot TO. ZERO, FROM and TO are
 * scalars. */
static struct hlo_value copy_slot(struct hlo_writer *w, struct hlo_value cache, struct hlo_value from,
                                  struct hlo_value to, struct hlo_value zero)
{
    struct hlo_shape s = cache.s, part = s;
    const char *scalars = "tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>";
    struct hlo_value rows;

    part.d[0] = 1;
    part.d[2] = w->f->seen;
    rows = hlo_emit(
        w, part,
        "stablehlo.dynamic_slice %%%u, %%%u, %%%u, %%%u, %%%u, sizes = [1, %zu, %zu, %zu] : (%s, %s) "
        "-> %s",
        cache.id, from.id, zero.id, zero.id, zero.id, part.d[1], part.d[2], part.d[3], hlo_type_text(s).s,
        scalars, hlo_type_text(part).s);
    return hlo_emit(w, s,
                    "stablehlo.dynamic_update_slice %%%u, %%%u, %%%u, %%%u, %%%u, %%%u : (%s, %s, %s) -> %s",
                    cache.id, rows.id, to.id, zero.id, zero.id, zero.id, hlo_type_text(s).s,
                    hlo_type_text(part).s, scalars, hlo_type_text(s).s);
}

static void write_copy(struct hlo_writer *w, struct hlo_shape inputs)
{
    struct hlo_value all = {0, inputs}, from = scalar_input(w, all, 0), to = scalar_input(w, all, 1);
    struct hlo_value zero = hlo_integer(w, 0, from.s);

    for (size_t i = 0; i < w->p->n_caches; i++) {
        w->k[i] = copy_slot(w, w->k[i], from, to, zero);
        w->v[i] = copy_slot(w, w->v[i], from, to, zero);
    }
}

/* Writes the body of the program; its first values are the arguments. */
static void write_body(struct hlo_writer *w, struct hlo_shape inputs, struct results *r)
{
    const bool is_head = w->f->part == STABLEHLO_HEAD;

    w->next = 1;
    for (size_t i = 0; i < w->p->n_caches; i++) {
        w->k[i] = (struct hlo_value){w->next++, cache_shape(w, i)};
        w->v[i] = (struct hlo_value){w->next++, cache_shape(w, i)};
    }
    if (w->f->part == STABLEHLO_COPY) {
        write_copy(w, inputs);
        return;
    }
    for (size_t i = 0; i < w->p->n_hidden && is_head; i++)
        w->node[w->hidden[i]] = hidden_argument(w, i);
    read_inputs(w, (struct hlo_value){0, inputs});
    for (size_t i = 0; i < w->g->n_nodes && !w->rc; i++)
        if (!is_head || i >= w->n_body || w->g->node[i].op == GRAPH_WANTED)
            w->node[i] = lower(w, &w->g->node[i]);
    r->value[r->n++] = w->node[w->g->result];
    if (!w->rc)
        r->value[r->n++] = best_of(w, w->node[w->g->result]);
    for (size_t i = 0; i < w->p->n_hidden && w->f->part == STABLEHLO_PROMPT; i++)
        r->value[r->n++] = w->node[w->hidden[i]];
}

/* Writes the types of the results, with commas. */
static void write_types(const struct hlo_writer *w, struct buf *out, const struct results *r)
{
    size_t n = 2 * w->p->n_caches;

    for (size_t i = 0; i < n + r->n; i++)
        buf_fmt(out, "%s%s", i ? ", " : "",
                hlo_type_text(i < n ? cache_shape(w, i / 2) : r->value[i - n].s).s);
}

static void write_head(struct hlo_writer *w, struct buf *out, struct hlo_shape inputs,
                       const struct results *r)
{
    size_t n = 2 * w->p->n_caches, n_hidden = w->f->part == STABLEHLO_HEAD ? w->p->n_hidden : 0;

    buf_fmt(out, "module @gallop {\n  func.func public @main(%%0: %s", hlo_type_text(inputs).s);
    for (size_t i = 0; i < n; i++)
        buf_fmt(out, ",\n      %%%zu: %s {tf.aliasing_output = %zu : i32}", i + 1,
                hlo_type_text(cache_shape(w, i / 2)).s, i);
    for (size_t i = 0; i < n_hidden; i++)
        buf_fmt(out, ",\n      %%%zu: %s", i + 1, hlo_type_text(w->node[w->hidden[i]].s).s);
    for (size_t i = 0; i < w->p->n_weights; i++)
        buf_fmt(out, ",\n      %%%u: %s", w->weight[i].id, hlo_type_text(w->weight[i].s).s);
    buf_str(out, ") -> (");
    write_types(w, out, r);
    buf_str(out, ") {\n");
}

static void write_end(struct hlo_writer *w, struct buf *out, const struct results *r)
{
    size_t n = w->p->n_caches;

    buf_str(out, "    return ");
    for (size_t i = 0; i < 2 * n + r->n; i++)
        buf_fmt(out, "%s%%%u", i ? ", " : "",
                i >= 2 * n ? r->value[i - 2 * n].id
                : i % 2    ? w->v[i / 2].id
                           : w->k[i / 2].id);
    buf_str(out, " : ");
    write_types(w, out, r);
    buf_str(out, "\n  }\n}\n");
}

/* Writes the program: the body first, because it finds the weights, which are arguments of the head. */
static void write_program(struct hlo_writer *w, struct buf *whole)
{
    const struct stablehlo_frame *f = w->f;
    size_t n = f->part == STABLEHLO_COPY   ? 2
               : f->part == STABLEHLO_HEAD ? f->n_wanted
                                           : stablehlo_n_inputs(w->m, f->n_seqs, f->rows, f->n_wanted);
    struct hlo_shape inputs = hlo_shape_of(DT_I32, 1, n, 0, 0, 0, 0);
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
    struct hlo_writer w = {.p = p, .g = g, .m = m, .f = f};
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

void stablehlo_fini(struct stablehlo *p)
{
    buf_fini(&p->text);
    mem_free(p->weight);
    mem_free(p->cache);
    *p = (struct stablehlo){0};
}
