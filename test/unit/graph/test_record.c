/* test_record.c - a recorded graph computes what the model computes, bit for bit: the test calls the operators of
 * the graph one after the other, each with buffers of its own. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "engines.h"
#include "files.h"
#include "goldfile.h"
#include "graph/graph.h"
#include "graph/record.h"
#include "kv/kv.h"
#include "model/model.h"
#include "ops/batch.h"
#include "ops/moe.h"
#include "ops/op.h"

enum { MAX_FOLDERS = 64, WANTED = 2 };

/* Copies the value of node I, whose shape TO has, because the operator changes it in place. */
static float *changed(float **value, const struct graph_node *to, uint32_t i)
{
    float *x = malloc(to->rows * to->n * sizeof(float));

    assert_non_null(x);
    memcpy(x, value[i], to->rows * to->n * sizeof(float));
    return x;
}

static void copy_columns(float *y, const float *x, const struct graph_node *to, size_t n)
{
    for (size_t r = 0; r < to->rows; r++)
        memcpy(y + r * to->n, x + r * n + to->at, to->n * sizeof(float));
}

/* Computes node I of G with the operators of O. */
static float *compute(const struct graph *g, size_t i, float **value, const struct op_sink *o,
                      const struct batch *b)
{
    const struct graph_node *x = &g->node[i], *from = &g->node[x->in[0]];
    size_t T = x->rows, n = x->n;
    float *in = graph_n_inputs(x->op) > 0 ? value[x->in[0]] : NULL, *y;
    bool in_place = x->op == GRAPH_HEADS || x->op == GRAPH_ROPE || x->op == GRAPH_ADD ||
                    x->op == GRAPH_SCALE || x->op == GRAPH_SOFTCAP;

    y = in_place ? changed(value, x, x->in[0]) : malloc(T * n * sizeof(float));
    assert_non_null(y);
    switch (x->op) {
    case GRAPH_IDS:
    case GRAPH_POSITIONS:
    case GRAPH_WANTED: break;
    case GRAPH_EMBED: o->embed(o, y, x->w.embed, from->op == GRAPH_IDS ? b->id : b->pos, false, T); break;
    case GRAPH_NORM: o->norm(o, y, in, NULL, x->w.norm, T); break;
    case GRAPH_LINEAR: o->linear(o, y, x->w.linear, in, T); break;
    case GRAPH_HEADS: o->heads(o, y, x->w.attn, T); break;
    case GRAPH_ROPE: o->rope(o, y, x->w.attn, T); break;
    case GRAPH_ATTN: o->attn(o, y, in, x->w.attn, b, x->at); break;
    case GRAPH_MLP: o->mlp(o, y, x->w.mlp, in, T); break;
    case GRAPH_MOE: o->moe(o, y, x->w.moe, in, value[x->in[1]], T); break;
    case GRAPH_GLU: o->glu(o, y, in, n, value[x->in[1]], n, x->act, n, T); break;
    case GRAPH_ADD: o->add(o, y, value[x->in[1]], n, T); break;
    case GRAPH_SCALE: o->scale(o, y, x->number, n, T); break;
    case GRAPH_SOFTCAP: o->softcap(o, y, x->number, n, T); break;
    case GRAPH_ROWS: o->rows(o, y, in, b->wanted, n, T); break;
    case GRAPH_RESHAPE: memcpy(y, in, T * n * sizeof(float)); break;
    case GRAPH_COLUMNS: copy_columns(y, in, x, from->n); break;
    case GRAPH_LOGITS: o->logits(o, y, x->w.linear, in, T); break;
    case GRAPH_N_OPS: break;
    }
    return y;
}

/* Computes all nodes. Returns the result [WANTED, V]. */
static float *replay(const struct graph *g, struct llm *m, const struct batch *b)
{
    const struct op_sink *o = &m->timed.sink;
    float **value = calloc(g->n_nodes, sizeof(*value)), *result;

    assert_non_null(value);
    o->begin(o, m->model.info.rope, m->model.info.n_ropes, b);
    for (size_t i = 0; i < g->n_nodes; i++) {
        for (size_t k = 0; k < graph_n_inputs(g->node[i].op); k++)
            assert_true(g->node[i].in[k] < i);
        value[i] = compute(g, i, value, o, b);
    }
    result = value[g->result];
    for (size_t i = 0; i < g->n_nodes; i++)
        if (i != g->result)
            free(value[i]);
    free(value);
    return result;
}

/* Compares the graph of T rows of the model NAME with the model. */
static void compare(const char *name, struct llm *m, size_t T)
{
    size_t V = m->model.info.vocab;
    int32_t ids[64], pos[64];
    uint32_t wanted[WANTED] = {(uint32_t)T - 2, (uint32_t)T - 1};
    struct executor_rows rows = {.id = ids, .n = T, .n_prompt = T, .n_total = T, .n_wanted = WANTED};
    struct batch_seq seq = {.n = T, .n_prompt = T, .n_total = T};
    struct batch b = {
        .n_tokens = T, .n_seqs = 1, .n_wanted = WANTED, .id = ids, .pos = pos, .seq = &seq, .wanted = wanted};
    struct graph g;
    struct err e = {0};
    float *found;

    engines_text(1, 0, T, ids);
    for (size_t i = 0; i < T; i++)
        pos[i] = (int32_t)i;
    assert_int_equal(kv_reserve(&m->kv, 0, T), 0);
    llm_forward(m, &rows, 1);
    seq.kv = kv_view(&m->kv, 0);
    if (graph_record(&g, &m->model, T, WANTED, &e) != 0)
        fail_msg("%s: %s", name, e.msg);
    assert_int_equal(g.node[g.result].op == GRAPH_LOGITS || g.node[g.result].op == GRAPH_SOFTCAP, 1);
    found = replay(&g, m, &b);
    if (memcmp(found, m->logits, WANTED * V * sizeof(float)) != 0)
        fail_msg("%s: the graph of %zu rows computes other logits than the model", name, T);
    free(found);
    graph_fini(&g);
}

static void every_family_is_recorded_and_computes_the_same_bits(void **state)
{
    char names[MAX_FOLDERS][64];
    size_t n = goldfile_list(GALLOP_SOURCE_DIR "/test/golden", names, MAX_FOLDERS);

    assert_true(n > 20);
    for (size_t i = 0; i < n; i++) {
        struct gallop_options o = engines_options(1, 64, 0);
        struct gallop *g;

        o.max_logits = WANTED;
        g = engines_open(names[i], &o);
        for (size_t T = 2; T <= 50; T += 24)
            compare(names[i], engine_llm(g), T);
        gallop_close(g);
    }
}

/* The largest bucket costs as little as the smallest, because nothing is computed. */
static void recording_computes_nothing(void **state)
{
    struct gallop_options o = engines_options(1, 64, 0);
    struct gallop *g = engines_open("demo", &o);
    struct llm *m = engine_llm(g);
    struct graph small, large;
    struct buf a, b;
    struct err e;

    assert_int_equal(graph_record(&small, &m->model, 1, 1, &e), 0);
    assert_int_equal(graph_record(&large, &m->model, 65536, 1, &e), 0);
    assert_int_equal(small.n_nodes, large.n_nodes);
    buf_init(&a, MEM_MODEL);
    buf_init(&b, MEM_MODEL);
    graph_print(&small, &a);
    graph_print(&large, &b);
    assert_non_null(strstr(a.data, "%3 [1, "));
    assert_non_null(strstr(b.data, "%3 [65536, "));
    assert_non_null(strstr(a.data, "model.layers.0.input_layernorm"));
    assert_non_null(strstr(a.data, "= logits %"));
    buf_fini(&a);
    buf_fini(&b);
    graph_fini(&small);
    graph_fini(&large);
    gallop_close(g);
}

static void every_allocation_may_fail(void **state)
{
    struct gallop_options o = engines_options(1, 64, 0);
    struct gallop *g = engines_open("demo", &o);
    struct graph graph;
    struct err e;
    bool failed = true;

    for (long n = 1; failed; n++) {
        int rc;

        mem_fail_at(n);
        rc = graph_record(&graph, &engine_llm(g)->model, 8, 1, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(rc, failed ? ERR_NOMEM : 0);
        assert_int_equal(graph.n_nodes == 0, failed);
    }
    graph_fini(&graph);
    gallop_close(g);
}

/* ---- models that cannot be recorded ---- */

static float other[64];

static void forward_from_nowhere(const struct model *m, const struct op_sink *o, const struct batch *b,
                                 struct model_work *s)
{
    o->scale(o, other, 2, 8, b->n_tokens);
}

static void forward_of_a_part(const struct model *m, const struct op_sink *o, const struct batch *b,
                              struct model_work *s)
{
    static const struct op_embed table = {.table = {.shape = {4, 8}, .n_dims = 2}};

    o->embed(o, s->x, &table, b->id, false, b->n_tokens);
    o->scale(o, s->x, 2, 8, b->n_tokens - 1);
}

static void no_tail(const struct model *m, const struct op_sink *o, const struct batch *b,
                    struct model_work *s)
{
    (void)m, (void)o, (void)b, (void)s;
}

static void what_cannot_be_recorded_is_named(void **state)
{
    struct gallop_options o = engines_options(1, 64, 0);
    struct gallop *g = engines_open("demo", &o);
    struct model m = engine_llm(g)->model;
    struct graph graph;
    struct err e = {0};

    m.tail = no_tail;
    m.forward = forward_from_nowhere;
    assert_int_equal(graph_record(&graph, &m, 4, 1, &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "operator scale, number 3, reads floats that no operator has written"));
    m.forward = forward_of_a_part;
    assert_int_equal(graph_record(&graph, &m, 4, 1, &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "reads a part of a buffer"));
    assert_int_equal(graph.n_nodes, 0);
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_is_recorded_and_computes_the_same_bits),
        cmocka_unit_test(recording_computes_nothing),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(what_cannot_be_recorded_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
