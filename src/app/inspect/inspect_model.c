/* inspect_model.c - collects the facts of a model, and prints them as text or JSON. */
#include "app/inspect/inspect_model.h"

#include <string.h>

#include "app/print.h"
#include "base/threads/topo.h"
#include "base/utf8.h"
#include "ckpt/weights.h"
#include "engine/llm.h"
#include "graph/graph.h"
#include "graph/record.h"
#include "kern/kern.h"
#include "ops/linear_backend.h"
#include "tensor/view.h"
#include "text/tok/tok.h"

enum { LONG = 32768 }; /* length in tokens of the example sequence whose KV cache size is shown */

static int numa_nodes(void)
{
    struct topo t;
    int n = 1;

    if (topo_open(&t, NULL) == 0) {
        n = t.n_nodes;
        topo_close(&t);
    }
    return n;
}

static json_t *tensor_json(const struct model_tensor *t)
{
    json_t *shape = json_array(), *o;

    for (int d = 0; d < t->view->n_dims; d++)
        json_array_append_new(shape, json_integer((json_int_t)t->view->shape[d]));
    o = json_pack("{s:o,s:s,s:o,s:o,s:I,s:s}", "name", print_json_text(t->view->name), "dtype",
                  dtype_name(t->view->dtype), "shape", shape, "file", print_json_text(t->view->file), "bytes",
                  (json_int_t)view_bytes(t->view), "use", t->use);
    if (t->linear && strcmp(t->use, "linear") == 0) {
        json_object_set_new(o, "op", json_string(linear_kind_name(t->linear->kind)));
        json_object_set_new(o, "packed_in", print_json_text(t->linear->name));
        json_object_set_new(o, "backend", json_string(t->linear->backend->name));
        json_object_set_new(o, "why", json_string(t->linear->why));
        json_object_set_new(o, "same_bits_for_any_rows", json_boolean(!linear_is_loose(t->linear)));
        json_object_set_new(o, "packed_dtype", json_string(dtype_name(t->linear->dtype)));
        json_object_set_new(o, "packed_bytes",
                            json_integer((json_int_t)(t->linear->packed_bytes * t->n_linears)));
    }
    if (numa_nodes() == 1)
        json_object_set_new(o, "numa_node", json_integer(0));
    return o;
}

static const char *linear_type(const struct linear *l)
{
    return l->dtype == DT_F32 ? "fp32" : l->dtype == DT_I8 ? "int8" : "bf16";
}

void inspect_print_tensors(const struct llm *llm)
{
    const struct model *m = &llm->model;

    for (size_t t = 0; t < m->n_tensors; t++) {
        const struct model_tensor *x = &m->tensor[t];
        char shape[96], name[512];

        snprintf(name, sizeof(name), "%s", x->view->name);
        utf8_printable(name); /* the name comes from the file */
        print_fmt("%-52s %-4s %-16s %-10s", name, dtype_name(x->view->dtype),
                  view_shape_text(x->view, shape, sizeof(shape)), x->use);
        if (x->linear && strcmp(x->use, "linear") == 0)
            print_fmt(" %-14s %s (%s), %s%s, %.1f KiB packed", linear_kind_name(x->linear->kind),
                      x->linear->backend->name, x->linear->why, linear_type(x->linear),
                      linear_is_loose(x->linear) ? " (bits may depend on the rows of a step)" : "",
                      (double)(x->linear->packed_bytes * x->n_linears) / 1024);
        print_text("\n");
    }
}

/* Returns the bytes of KV cache that a sequence of LONG tokens needs, even if M's context is shorter. If
 * WINDOWS is false, all layers keep the keys and values of all tokens, as if the model had no sliding
 * windows. */
static size_t long_bytes(const struct llm *m, bool windows)
{
    struct kv_limits lim = m->kv.lim;

    lim.max_len = LONG;
    if (!windows || !kv_type_pooled(m->kv.type->name)) /* other cache types store all tokens */
        lim.window = NULL;
    return kv_seq_bytes(&lim, LONG);
}

static json_t *kv_json(const struct llm *m, const struct gallop_options *opt)
{
    const struct kv_limits *lim = &m->kv.lim;
    json_t *o =
        json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "type", m->kv.type->name, "dtype", llm_kv_dtype(m),
                  "layers", (json_int_t)lim->n_layers, "bytes_per_token", (json_int_t)kv_token_bytes(lim),
                  "bytes_32k", (json_int_t)long_bytes(m, true), "bytes_32k_without_windows",
                  (json_int_t)long_bytes(m, false), "tokens", (json_int_t)lim->pool_tokens, "budget_bytes",
                  (json_int_t)kv_budget_bytes(m->kv.type->name, lim));

    if (kv_type_pooled(m->kv.type->name)) {
        json_object_set_new(o, "block", json_integer((json_int_t)lim->block));
        json_object_set_new(o, "layout", json_string(kv_layout_name(lim->layout)));
    }
    if (m->sparse.window)
        json_object_set_new(o, "sparse",
                            json_pack("{s:I,s:I}", "sink", (json_int_t)m->sparse.sink, "window",
                                      (json_int_t)m->sparse.window));
    if (m->store)
        json_object_set_new(o, "store",
                            json_pack("{s:o,s:f,s:I}", "where", print_json_text(opt->kv_store), "gib",
                                      opt->kv_store_size, "slot_bytes", (json_int_t)m->store_bytes));
    return o;
}

void inspect_print_kv(const struct llm *m, const struct gallop_options *opt)
{
    const struct kv_limits *lim = &m->kv.lim;
    const double mib = 1048576;

    print_fmt("KV cache %s in %s: %zu bytes a token", m->kv.type->name, llm_kv_dtype(m), kv_token_bytes(lim));
    if (lim->n_shared)
        print_fmt(" (%zu of %zu layers store)", lim->n_layers, lim->n_layers + lim->n_shared);
    print_fmt(", %.1f MiB a sequence of 32k", (double)long_bytes(m, true) / mib);
    if (lim->window)
        print_fmt(" (%.1f MiB without windows)", (double)long_bytes(m, false) / mib);
    print_fmt("; room for %zu tokens, %.1f MiB", lim->pool_tokens,
              (double)kv_budget_bytes(m->kv.type->name, lim) / mib);
    if (kv_type_pooled(m->kv.type->name))
        print_fmt(", in blocks of %zu, %s", lim->block, kv_layout_name(lim->layout));
    if (m->sparse.window)
        print_fmt("; sparse: the first %zu and the last %zu rows", m->sparse.sink, m->sparse.window);
    if (m->store)
        print_fmt("; store %s, %.1f MiB of slots", opt->kv_store, (double)m->store_bytes / mib);
    print_text("\n");
}

static json_t *kernels_json(const struct kern *k)
{
    json_t *o = json_object();

    for (int f = 0; f < KERN_N_FUNCTIONS; f++)
        json_object_set_new(o, kern_name((enum kern_fn)f),
                            json_pack("{s:s,s:s}", "isa", cpu_isa_name(kern_isa(k, (enum kern_fn)f)), "class",
                                      kern_class(k, (enum kern_fn)f)));
    return o;
}

/* ---- norm, rope and attention: their backends and kernels ---- */

/* An operator: the name of the backend that the options request (ASKED), and the backend, instruction set and
 * arithmetic class that compute it. AMD PACE's names of attention backends select the backend gallop
 * (docs/KERNELS.md). */
struct inspect_operator {
    enum op_kind kind;
    const char *asked, *backend, *isa, *class;
};

static struct inspect_operator operator_at(const struct llm *m, int i)
{
    static const enum op_kind kinds[] = {OP_NORM, OP_ROPE, OP_ATTENTION};
    const enum kern_fn attention = m->kv_dtype == DT_F32  ? KERN_FN_attn_f32
                                   : m->kv_dtype == DT_I8 ? KERN_FN_attn_i8
                                   : m->kv_dtype == DT_I4 ? KERN_FN_attn_i4
                                                          : KERN_FN_attn_bf16;
    const enum kern_fn functions[] = {KERN_FN_rms_norm, KERN_FN_rope_half, attention};
    const char *asked = m->ops.backend[kinds[i]];
    bool native = asked && strcmp(asked, "native") == 0;
    const struct kern *kern = native ? kern_table(CPU_REF) : m->kern;

    return (struct inspect_operator){.kind = kinds[i],
                                     .asked = asked ? asked : "auto",
                                     .backend = native ? "native" : "gallop",
                                     .isa = cpu_isa_name(kern_isa(kern, functions[i])),
                                     .class = kern_class(kern, functions[i])};
}

static json_t *operators_json(const struct llm *m)
{
    json_t *all = json_object();

    for (int i = 0; i < 3; i++) {
        struct inspect_operator o = operator_at(m, i);

        json_object_set_new(all, linear_kind_name(o.kind),
                            json_pack("{s:s,s:s,s:s,s:s}", "asked", o.asked, "backend", o.backend, "isa",
                                      o.isa, "class", o.class));
    }
    return all;
}

static void print_operators(const struct llm *m)
{
    for (int i = 0; i < 3; i++) {
        struct inspect_operator o = operator_at(m, i);

        print_fmt("%s%s %s", i ? ", " : "operators: ", linear_kind_name(o.kind), o.backend);
        if (strcmp(o.asked, o.backend) != 0 && strcmp(o.asked, "auto") != 0)
            print_fmt(" (asked for as %s)", o.asked);
        print_fmt(" on %s (%s)", o.isa, o.class);
    }
    print_text("\n");
}

json_t *inspect_tensors_json(const struct llm *m)
{
    json_t *list = json_array();

    for (size_t t = 0; t < m->model.n_tensors; t++)
        json_array_append_new(list, tensor_json(&m->model.tensor[t]));
    return list;
}

json_t *inspect_model_json(const struct llm *m, const struct gallop_options *opt,
                           const struct gallop_stats *s)
{
    const struct model_info *i = &m->model.info;
    json_t *o = json_pack(
        "{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "architecture", m->model.arch->class_name,
        "model_type", m->model.arch->model_type, "layers", (json_int_t)i->n_layers, "hidden",
        (json_int_t)i->hidden, "heads", (json_int_t)i->n_heads, "kv_heads", (json_int_t)i->n_kv, "head_dim",
        (json_int_t)i->head_dim, "intermediate", (json_int_t)i->inner, "vocab", (json_int_t)i->vocab,
        "context", (json_int_t)i->max_len, "parameters", (json_int_t)m->model.n_params);
    json_object_set_new(o, "format", json_string(weights_kind(m->model.weights)));
    json_object_set_new(o, "tokenizer", m->tok ? json_string(tok_kind(m->tok)) : json_null());
    json_object_set_new(o, "dtype", json_string(s->dtype));
    json_object_set_new(o, "quant", json_string(s->quant));
    json_object_set_new(o, "threads", json_integer(s->threads));
    json_object_set_new(o, "isa", json_string(s->isa));
    json_object_set_new(o, "cpu", json_string(cpu_model()));
    json_object_set_new(o, "numa_nodes", json_integer(numa_nodes()));
    json_object_set_new(o, "kernels", kernels_json(m->kern));
    json_object_set_new(o, "operators", operators_json(m));
    json_object_set_new(o, "kv", kv_json(m, opt));
    return o;
}

void inspect_print_model(const struct llm *m, const struct gallop_stats *s)
{
    const struct model_info *i = &m->model.info;

    print_fmt(
        "%s, %zu layers, hidden %zu, %zu heads (%zu kv) of %zu, intermediate %zu, vocabulary %zu, context %zu, %.1f M "
        "parameters\n",
        m->model.arch->class_name, i->n_layers, i->hidden, i->n_heads, i->n_kv, i->head_dim, i->inner,
        i->vocab, i->max_len, (double)m->model.n_params / 1e6);
    print_fmt("stored as %s; tokenizer %s\n", weights_kind(m->model.weights),
              m->tok ? tok_kind(m->tok) : "none");
    print_fmt("computed in %s on %d thread%s of %s, ", s->dtype, s->threads, s->threads == 1 ? "" : "s",
              cpu_model());
    print_fmt("linears on %s (%s), %d NUMA node%s\n", m->isa, kern_class(m->kern, model_gemm(&m->model)),
              numa_nodes(), numa_nodes() == 1 ? "" : "s");
    print_operators(m);
    print_fmt("weights %.1f MiB packed, scratch %.1f MiB; loaded in %.2f s\n",
              (double)s->weight_bytes / 1048576, (double)s->scratch_bytes / 1048576, s->load_s);
}

/* ---- the graph of a step ---- */

int inspect_print_graph(const struct llm *m, size_t rows, bool as_json, struct err *e)
{
    struct graph graph;
    struct buf text;
    int rc = graph_record(&graph, &m->model, rows, 1, e);

    if (rc)
        return rc;
    buf_init(&text, MEM_MODEL);
    if (as_json)
        graph_json(&graph, &text);
    else
        graph_print(&graph, &text);
    buf_str(&text, as_json ? "\n" : "");
    graph_fini(&graph);
    if (text.oom)
        rc = err_nomem(e, "the text of the graph");
    else
        print_text(text.data);
    buf_fini(&text);
    return rc;
}
