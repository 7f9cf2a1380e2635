/* record.c - the recording op sink: finds the node that wrote a buffer, and appends a node for each
 * operator. */
#include "graph/record.h"

#include <string.h>

#include "base/files/map.h"
#include "base/mem.h"
#include "graph/graph.h"
#include "model/model.h"
#include "ops/batch.h"
#include "ops/moe.h"
#include "ops/op.h"

/* A buffer of the model, N floats at P, and the node whose value is in it. */
struct written {
    const float *p;
    size_t n;
    uint32_t node;
};

struct record {
    struct op_sink sink;
    struct graph *graph;
    /* The batch of the pass. The recorder recognizes ids, positions and wanted rows by their addresses. */
    struct batch batch;
    uint32_t ids, positions, wanted;
    /* Buffers that hold a value, in no order; they do not overlap. */
    struct written *written;
    size_t n_written, cap_written;
    /* The first failure: the code and the operator that failed. */
    int rc;
    enum graph_op at;
    const char *why;
};

static void operator_refuse(struct record *r, int rc, enum graph_op at, const char *why)
{
    if (r->rc)
        return;
    r->rc = rc;
    r->at = at;
    r->why = why;
}

static uint32_t node_add(struct record *r, const struct graph_node *node)
{
    uint32_t i = r->rc ? 0 : graph_add(r->graph, node);

    if (i == UINT32_MAX)
        operator_refuse(r, ERR_NOMEM, node->op, NULL);
    return i == UINT32_MAX ? 0 : i;
}

/* Returns the node for the floats P [rows, n], with rows LD floats apart, which operator OP reads: the node
 * that wrote them, or a new node that reshapes its value or takes columns of it. */
static uint32_t read_of(struct record *r, const float *p, size_t rows, size_t n, size_t ld, enum graph_op op)
{
    const struct written *w = NULL;
    const struct graph_node *from;
    size_t first;

    for (size_t i = 0; i < r->n_written && !w; i++)
        if (p >= r->written[i].p && p < r->written[i].p + r->written[i].n)
            w = &r->written[i];
    if (!w || r->rc) {
        operator_refuse(r, ERR_UNSUPPORTED, op, "reads floats that no operator has written");
        return 0;
    }
    from = &r->graph->node[w->node];
    first = (size_t)(p - w->p);
    if (first == 0 && ld == n && from->rows == rows && from->n == n)
        return w->node;
    if (first == 0 && ld == n && rows * n == from->rows * from->n)
        return node_add(r, &(struct graph_node){.op = GRAPH_RESHAPE, .in = {w->node}, .rows = rows, .n = n});
    if (ld == from->n && rows == from->rows && first + n <= ld)
        return node_add(
            r, &(struct graph_node){.op = GRAPH_COLUMNS, .in = {w->node}, .rows = rows, .n = n, .at = first});
    operator_refuse(r, ERR_UNSUPPORTED, op,
                    "reads a part of a buffer that is not some columns of all its rows");
    return 0;
}

static uint32_t read_rows(struct record *r, const float *p, size_t rows, size_t n, enum graph_op op)
{
    return read_of(r, p, rows, n, n, op);
}

/* Appends NODE, whose value is written to P, and drops the values that these floats held before. */
static void write_to(struct record *r, const float *p, const struct graph_node *node)
{
    size_t floats = node->rows * node->n, kept = 0;
    uint32_t i = node_add(r, node);

    for (size_t k = 0; k < r->n_written; k++)
        if (p + floats <= r->written[k].p || r->written[k].p + r->written[k].n <= p)
            r->written[kept++] = r->written[k];
    r->n_written = kept;
    if (!mem_grow((void **)&r->written, &r->cap_written, kept + 1, sizeof(*r->written), MEM_MODEL)) {
        operator_refuse(r, ERR_NOMEM, node->op, NULL);
        return;
    }
    r->written[r->n_written++] = (struct written){p, floats, i};
}

/* ---- the operators ---- */

static void record_begin(const struct op_sink *o, const struct rope *ropes, size_t n_ropes,
                         const struct batch *b)
{
    (void)o, (void)ropes, (void)n_ropes, (void)b;
}

static void record_embed(const struct op_sink *o, float *x, const struct op_embed *w, const int32_t *index,
                         bool is_added, size_t T)
{
    struct record *r = o->ctx;
    size_t n = w->table.shape[1];
    uint32_t old = is_added ? read_rows(r, x, T, n, GRAPH_EMBED) : 0;
    struct graph_node node = {.op = GRAPH_EMBED, .rows = T, .n = n, .w.embed = w};

    if (index != r->batch.id && index != r->batch.pos)
        operator_refuse(r, ERR_UNSUPPORTED, GRAPH_EMBED,
                        "has an index that is neither the ids nor the positions");
    node.in[0] = index == r->batch.id ? r->ids : r->positions;
    if (is_added)
        node = (struct graph_node){.op = GRAPH_ADD, .in = {old, node_add(r, &node)}, .rows = T, .n = n};
    write_to(r, x, &node);
}

static void record_norm(const struct op_sink *o, float *h, float *x, const float *add_r,
                        const struct op_norm *w, size_t T)
{
    struct record *r = o->ctx;
    uint32_t in = read_rows(r, x, T, w->n, GRAPH_NORM);

    if (add_r) {
        uint32_t with = read_rows(r, add_r, T, w->n, GRAPH_NORM);

        write_to(r, x, &(struct graph_node){.op = GRAPH_ADD, .in = {in, with}, .rows = T, .n = w->n});
        in = read_rows(r, x, T, w->n, GRAPH_NORM);
    }
    write_to(r, h, &(struct graph_node){.op = GRAPH_NORM, .in = {in}, .rows = T, .n = w->n, .w.norm = w});
}

static void record_linear(const struct op_sink *o, float *y, const struct linear *w, const float *x, size_t T)
{
    struct record *r = o->ctx;
    uint32_t in = read_rows(r, x, T, w->k, GRAPH_LINEAR);

    write_to(r, y, &(struct graph_node){.op = GRAPH_LINEAR, .in = {in}, .rows = T, .n = w->n, .w.linear = w});
}

/* Returns the number of columns of q, k and v. */
static size_t columns_of(const struct op_attn *w)
{
    return (w->n_heads + (w->shared ? 0 : 2 * w->n_kv)) * w->d;
}

static void in_place(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T, enum graph_op op)
{
    struct record *r = o->ctx;
    size_t n = columns_of(w);
    uint32_t in = read_rows(r, qkv, T, n, op);

    write_to(r, qkv, &(struct graph_node){.op = op, .in = {in}, .rows = T, .n = n, .w.attn = w});
}

static void record_heads(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T)
{
    in_place(o, qkv, w, T, GRAPH_HEADS);
}

static void record_rope(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T)
{
    if (w->rope >= 0)
        in_place(o, qkv, w, T, GRAPH_ROPE);
}

static void record_attn(const struct op_sink *o, float *a, const float *qkv, const struct op_attn *w,
                        const struct batch *b, size_t layer)
{
    struct record *r = o->ctx;
    size_t T = b->n_tokens;
    uint32_t in = read_rows(r, qkv, T, columns_of(w), GRAPH_ATTN);

    write_to(r, a,
             &(struct graph_node){
                 .op = GRAPH_ATTN, .in = {in}, .rows = T, .n = w->n_heads * w->d, .w.attn = w, .at = layer});
}

static void record_mlp(const struct op_sink *o, float *y, const struct op_mlp *w, const float *h, size_t T)
{
    struct record *r = o->ctx;
    uint32_t in = read_rows(r, h, T, w->up.k, GRAPH_MLP);

    write_to(r, y, &(struct graph_node){.op = GRAPH_MLP, .in = {in}, .rows = T, .n = w->down.n, .w.mlp = w});
}

static void record_moe(const struct op_sink *o, float *y, const struct moe *w, const float *h,
                       const float *route, size_t T)
{
    struct record *r = o->ctx;
    uint32_t in = read_rows(r, h, T, w->expert->up.k, GRAPH_MOE);
    uint32_t router = route ? read_rows(r, route, T, w->router.k, GRAPH_MOE) : in;

    write_to(r, y,
             &(struct graph_node){
                 .op = GRAPH_MOE, .in = {in, router}, .rows = T, .n = w->expert->down.n, .w.moe = w});
}

static void record_glu(const struct op_sink *o, float *out, const float *gate, size_t ldg, const float *up,
                       size_t ldu, enum kern_act f, size_t n, size_t T)
{
    struct record *r = o->ctx;
    uint32_t g = read_of(r, gate, T, n, ldg, GRAPH_GLU), u = read_of(r, up, T, n, ldu, GRAPH_GLU);

    write_to(r, out, &(struct graph_node){.op = GRAPH_GLU, .in = {g, u}, .rows = T, .n = n, .act = f});
}

/* Records X [T, n] = op(X, number). */
static void with_number(const struct op_sink *o, float *x, float number, size_t n, size_t T, enum graph_op op)
{
    struct record *r = o->ctx;
    uint32_t in = read_rows(r, x, T, n, op);

    write_to(r, x, &(struct graph_node){.op = op, .in = {in}, .rows = T, .n = n, .number = number});
}

static void record_scale(const struct op_sink *o, float *x, float a, size_t n, size_t T)
{
    with_number(o, x, a, n, T, GRAPH_SCALE);
}

static void record_softcap(const struct op_sink *o, float *x, float cap, size_t n, size_t T)
{
    with_number(o, x, cap, n, T, GRAPH_SOFTCAP);
}

static void record_add(const struct op_sink *o, float *x, const float *with, size_t n, size_t T)
{
    struct record *r = o->ctx;
    uint32_t a = read_rows(r, x, T, n, GRAPH_ADD), b = read_rows(r, with, T, n, GRAPH_ADD);

    write_to(r, x, &(struct graph_node){.op = GRAPH_ADD, .in = {a, b}, .rows = T, .n = n});
}

static void record_rows(const struct op_sink *o, float *dst, const float *src, const uint32_t *index,
                        size_t n, size_t n_rows)
{
    struct record *r = o->ctx;
    uint32_t in = read_rows(r, src, r->batch.n_tokens, n, GRAPH_ROWS);

    if (index != r->batch.wanted)
        operator_refuse(r, ERR_UNSUPPORTED, GRAPH_ROWS, "has an index that is not the wanted rows");
    write_to(r, dst, &(struct graph_node){.op = GRAPH_ROWS, .in = {in, r->wanted}, .rows = n_rows, .n = n});
}

static void record_logits(const struct op_sink *o, float *logits, const struct linear *head, const float *h,
                          size_t n_rows)
{
    struct record *r = o->ctx;
    uint32_t in = read_rows(r, h, n_rows, head->k, GRAPH_LOGITS);

    write_to(
        r, logits,
        &(struct graph_node){.op = GRAPH_LOGITS, .in = {in}, .rows = n_rows, .n = head->n, .w.linear = head});
}

static void record_tap(const struct op_sink *o, size_t layer, const float *x, const float *add_r,
                       const float *h, size_t T)
{
    (void)o, (void)layer, (void)x, (void)add_r, (void)h, (void)T;
}

/* ---- a whole pass ---- */

static const struct op_sink sink = {.begin = record_begin,
                                    .embed = record_embed,
                                    .norm = record_norm,
                                    .linear = record_linear,
                                    .heads = record_heads,
                                    .rope = record_rope,
                                    .attn = record_attn,
                                    .mlp = record_mlp,
                                    .moe = record_moe,
                                    .glu = record_glu,
                                    .scale = record_scale,
                                    .softcap = record_softcap,
                                    .add = record_add,
                                    .rows = record_rows,
                                    .logits = record_logits,
                                    .tap = record_tap};

/* The memory of a pass: buffers that are never written, and the indexes of the batch. */
struct pass {
    struct model_work work;
    float *logits; /* [n_wanted, V] */
    size_t logits_bytes;
    int32_t *index; /* [3 T] ids, positions, wanted rows; their values are not read */
};

static int pass_open(struct pass *p, const struct model *m, size_t rows, size_t n_wanted, struct err *e)
{
    int rc = model_work_open(&p->work, m, rows, n_wanted, e);

    if (rc)
        return rc;
    if (__builtin_mul_overflow(n_wanted * sizeof(float), m->info.vocab, &p->logits_bytes) ||
        !(p->logits = map_region_new(p->logits_bytes)) ||
        !(p->index = mem_zalloc(rows, 3 * sizeof(*p->index), MEM_MODEL)))
        return err_nomem(e, "the recording of a step");
    return 0;
}

static void pass_close(struct pass *p)
{
    mem_free(p->index);
    map_region_free(p->logits, p->logits_bytes);
    model_work_close(&p->work);
}

static int refused(const struct record *r, struct err *e)
{
    if (r->rc == ERR_NOMEM)
        return err_nomem(e, "the recording of a step");
    return err_set(e, r->rc, "the step cannot be recorded: operator %s, number %zu, %s", graph_op_name(r->at),
                   r->graph->n_nodes, r->why);
}

int graph_record(struct graph *g, const struct model *m, size_t rows, size_t n_wanted, struct err *e)
{
    struct record r = {.graph = g, .sink = sink};
    struct pass p = {0};
    int rc;

    *g = (struct graph){0};
    ASSERT(n_wanted > 0 && n_wanted <= rows, "%zu of %zu rows", n_wanted, rows);
    if ((rc = pass_open(&p, m, rows, n_wanted, e)) != 0)
        goto done;
    r.sink.ctx = &r;
    r.batch = (struct batch){.n_tokens = rows,
                             .n_wanted = n_wanted,
                             .id = p.index,
                             .pos = p.index + rows,
                             .wanted = (uint32_t *)(p.index + 2 * rows),
                             .logits = p.logits};
    r.ids = node_add(&r, &(struct graph_node){.op = GRAPH_IDS, .rows = rows, .n = 1});
    r.positions = node_add(&r, &(struct graph_node){.op = GRAPH_POSITIONS, .rows = rows, .n = 1});
    r.wanted = node_add(&r, &(struct graph_node){.op = GRAPH_WANTED, .rows = n_wanted, .n = 1});
    model_forward(m, &r.sink, &r.batch, &p.work);
    g->result = g->n_nodes ? (uint32_t)(g->n_nodes - 1) : 0;
    rc = r.rc ? refused(&r, e) : 0;
done:
    if (rc)
        graph_fini(g);
    mem_free(r.written);
    pass_close(&p);
    return rc;
}
