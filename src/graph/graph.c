/* graph.c - nodes of a graph, and the graph as text and as JSON. */
#include "graph/graph.h"

#include <string.h>

#include "base/mem.h"
#include "ops/moe.h"
#include "ops/op.h"

enum weights { NONE, EMBED, NORM, LINEAR, ATTN, MLP, MOE };

static const struct {
    const char *name;
    size_t n_inputs;
    enum weights weights;
} ops[GRAPH_N_OPS] = {
#define GRAPH_OP(name, text, n_in, weights) {text, n_in, weights},
#include "graph/ops.def"
#undef GRAPH_OP
};

const char *graph_op_name(enum graph_op op)
{
    return ops[op].name;
}

size_t graph_n_inputs(enum graph_op op)
{
    return ops[op].n_inputs;
}

uint32_t graph_add(struct graph *g, const struct graph_node *node)
{
    if (g->n_nodes >= UINT32_MAX - 1 ||
        !mem_grow((void **)&g->node, &g->cap_nodes, g->n_nodes + 1, sizeof(*g->node), MEM_MODEL))
        return UINT32_MAX;
    g->node[g->n_nodes] = *node;
    return (uint32_t)g->n_nodes++;
}

static void print_attn(const struct op_attn *w, struct buf *out)
{
    buf_fmt(out, " heads %zu/%zu x %zu", w->n_heads, w->n_kv, w->d);
    if (w->window)
        buf_fmt(out, " window %zu", w->window);
    if (w->chunk)
        buf_fmt(out, " chunk %zu", w->chunk);
    if (w->two_sided)
        buf_str(out, " two-sided");
    if (w->softcap > 0)
        buf_fmt(out, " softcap %g", (double)w->softcap);
    if (w->sinks)
        buf_str(out, " sinks");
    if (w->shared)
        buf_str(out, " shared k and v");
}

static void print_weights(const struct graph_node *x, struct buf *out)
{
    switch (ops[x->op].weights) {
    case NONE: break;
    case EMBED: buf_fmt(out, " %s", x->w.embed->table.name); break;
    case NORM: buf_fmt(out, " %s", x->w.norm->name ? x->w.norm->name : "without weights"); break;
    case LINEAR: buf_fmt(out, " %s", x->w.linear->name); break;
    case ATTN: print_attn(x->w.attn, out); break;
    case MLP: buf_fmt(out, " %s %s", x->w.mlp->up.name, x->w.mlp->down.name); break;
    case MOE:
        buf_fmt(out, " %s, %zu of %zu experts", x->w.moe->router.name, x->w.moe->top_k, x->w.moe->n_experts);
        break;
    }
}

static void print_numbers(const struct graph_node *x, struct buf *out)
{
    if (x->op == GRAPH_SCALE || x->op == GRAPH_SOFTCAP)
        buf_fmt(out, " %.9g", (double)x->number);
    if (x->op == GRAPH_ROPE)
        buf_fmt(out, " rope %d", x->w.attn->rope);
    if (x->op == GRAPH_ATTN)
        buf_fmt(out, " layer %zu", x->at);
    if (x->op == GRAPH_COLUMNS)
        buf_fmt(out, " from %zu", x->at);
}

void graph_print(const struct graph *g, struct buf *out)
{
    for (size_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *x = &g->node[i];

        buf_fmt(out, "%%%zu [%zu, %zu] = %s", i, x->rows, x->n, ops[x->op].name);
        for (size_t k = 0; k < ops[x->op].n_inputs; k++)
            buf_fmt(out, " %%%u", x->in[k]);
        print_numbers(x, out);
        print_weights(x, out);
        buf_char(out, '\n');
    }
    buf_fmt(out, "result %%%u\n", g->result);
}

/* ---- JSON ---- */

static void member_int(struct buf *out, const char *key, size_t v)
{
    buf_json_key(out, key);
    buf_json_int(out, (int64_t)v);
}

static void member_flag(struct buf *out, const char *key, bool v)
{
    buf_json_key(out, key);
    buf_json_bool(out, v);
}

static void json_attn(const struct op_attn *w, struct buf *out)
{
    member_int(out, "heads", w->n_heads);
    member_int(out, "kv_heads", w->n_kv);
    member_int(out, "head_dim", w->d);
    member_int(out, "window", w->window);
    member_int(out, "chunk", w->chunk);
    member_flag(out, "two_sided", w->two_sided);
    member_flag(out, "sinks", w->sinks != NULL);
    member_flag(out, "shared", w->shared);
    buf_json_key(out, "softcap");
    buf_json_float(out, w->softcap);
}

static void json_name(struct buf *out, const char *name)
{
    if (name)
        buf_json_str(out, name, strlen(name));
}

static void json_weights(const struct graph_node *x, struct buf *out)
{
    enum weights w = ops[x->op].weights;

    buf_json_key(out, "weights");
    buf_json_begin(out, '[');
    if (w == EMBED)
        json_name(out, x->w.embed->table.name);
    if (w == NORM)
        json_name(out, x->w.norm->name);
    if (w == LINEAR)
        json_name(out, x->w.linear->name);
    if (w == MLP) {
        json_name(out, x->w.mlp->up.name);
        json_name(out, x->w.mlp->down.name);
    }
    if (w == MOE)
        json_name(out, x->w.moe->router.name);
    buf_json_end(out, ']');
    if (w == ATTN)
        json_attn(x->w.attn, out);
    if (w == MOE) {
        member_int(out, "experts", x->w.moe->n_experts);
        member_int(out, "top_k", x->w.moe->top_k);
    }
}

static void json_node(const struct graph_node *x, struct buf *out)
{
    buf_json_begin(out, '{');
    buf_json_key(out, "op");
    json_name(out, ops[x->op].name);
    buf_json_key(out, "shape");
    buf_json_begin(out, '[');
    buf_json_int(out, (int64_t)x->rows);
    buf_json_int(out, (int64_t)x->n);
    buf_json_end(out, ']');
    buf_json_key(out, "in");
    buf_json_begin(out, '[');
    for (size_t k = 0; k < ops[x->op].n_inputs; k++)
        buf_json_int(out, x->in[k]);
    buf_json_end(out, ']');
    if (x->op == GRAPH_SCALE || x->op == GRAPH_SOFTCAP) {
        buf_json_key(out, "number");
        buf_json_float(out, x->number);
    }
    if (x->op == GRAPH_ROPE)
        member_int(out, "rope", (size_t)x->w.attn->rope);
    if (x->op == GRAPH_ATTN)
        member_int(out, "layer", x->at);
    if (x->op == GRAPH_COLUMNS)
        member_int(out, "from", x->at);
    json_weights(x, out);
    buf_json_end(out, '}');
}

void graph_json(const struct graph *g, struct buf *out)
{
    buf_json_begin(out, '{');
    buf_json_key(out, "nodes");
    buf_json_begin(out, '[');
    for (size_t i = 0; i < g->n_nodes; i++)
        json_node(&g->node[i], out);
    buf_json_end(out, ']');
    member_int(out, "result", g->result);
    buf_json_end(out, '}');
}

void graph_fini(struct graph *g)
{
    mem_free(g->node);
    *g = (struct graph){0};
}
