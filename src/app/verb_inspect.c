/* verb_inspect.c - `gallop inspect`: shows the architecture, tensors, backends with their reasons, sizes and
 * instruction sets of a model. */
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "app/input.h"
#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/threads/topo.h"
#include "base/utf8.h"
#include "ckpt/checkpoint.h"
#include "ckpt/weights.h"
#include "engine/embeddings/embedder.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/guess/sources.h"
#include "engine/llm.h"
#include "engine/pjrt/frames.h"
#include "engine/schedule/sched.h"
#include "engine/schedule/waiting.h"
#include "engine/step.h"
#include "graph/graph.h"
#include "graph/record.h"
#include "kern/kern.h"
#include "kv/kv.h"
#include "model/model.h"
#include "ops/linear.h"
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

static const char *kv_dtype(const struct llm *m)
{
    switch (m->kv.lim.dtype) {
    case DT_F32: return "fp32";
    case DT_I8: return "int8";
    case DT_I4: return "int4";
    default: return "bf16";
    }
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
        json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "type", m->kv.type->name, "dtype", kv_dtype(m),
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

static void print_kv(const struct llm *m, const struct gallop_options *opt)
{
    const struct kv_limits *lim = &m->kv.lim;
    const double mib = 1048576;

    print_fmt("KV cache %s in %s: %zu bytes a token", m->kv.type->name, kv_dtype(m), kv_token_bytes(lim));
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

/* ---- speculative decoding ---- */

static json_t *guesses_json(const struct gallop *g, const struct llm *m)
{
    const struct guess_memory b = guess_sources_memory(engine_guesses(g), m);

    return json_pack("{s:I,s:I,s:I,s:I}", "lookup_bytes", (json_int_t)b.lookup, "history_bytes",
                     (json_int_t)b.history, "draft_bytes", (json_int_t)b.weights, "draft_kv_bytes",
                     (json_int_t)b.kv);
}

static void print_guesses(const struct gallop *g, const struct llm *m)
{
    const struct guess_memory b = guess_sources_memory(engine_guesses(g), m);
    const double mib = 1048576;

    print_fmt(
        "guesses: %.1f MiB at most for the tokens of running sequences, %.1f MiB for those of other requests; "
        "draft of %.1f MiB and %.1f MiB for its KV cache\n",
        (double)b.lookup / mib, (double)b.history / mib, (double)b.weights / mib, (double)b.kv / mib);
}

/* ---- limits and policy of the scheduler ---- */

static const char *admission(const struct step *s)
{
    return s->opt.worst_case ? "worst-case" : "optimistic";
}

static json_t *scheduling_json(const struct step *s)
{
    return json_pack("{s:I,s:I,s:s,s:f,s:s,s:s}", "requests_at_once", (json_int_t)step_most_running(s),
                     "rows_a_step", (json_int_t)step_most_rows(s), "first",
                     s->opt.order == SCHED_PROMPTS_FIRST ? "prompts" : "streams", "tpot_target_ms",
                     s->opt.target_s * 1000, "policy", waiting_policy_name(s->opt.policy), "admission",
                     admission(s));
}

static void print_scheduling(const struct step *s)
{
    if (step_most_running(s) == 1)
        print_fmt("one request at a time, its prompt in steps of up to %zu rows", step_most_rows(s));
    else
        print_fmt("%zu requests at once, steps of up to %zu rows: ", step_most_running(s), step_most_rows(s));
    if (step_most_running(s) > 1 && s->opt.order == SCHED_PROMPTS_FIRST)
        print_text("prompts alone, then streams");
    else if (step_most_running(s) > 1)
        print_fmt("streams first, then chunks of prompts that keep them below %g ms", s->opt.target_s * 1000);
    print_fmt("; policy %s, admission %s\n", waiting_policy_name(s->opt.policy), admission(s));
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

static json_t *executor_json(const struct frames *f)
{
    struct frames_stats s;

    frames_stats(f, &s);
    return json_pack("{s:s,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:I,s:I,s:f,s:I,s:I}", "name", "pjrt", "plugin",
                     print_json_text(s.plugin), "platform", print_json_text(s.platform), "version",
                     print_json_text(s.version), "device", print_json_text(s.kind), "devices",
                     (json_int_t)s.n_devices, "memory_bytes", (json_int_t)s.memory_bytes, "programs",
                     (json_int_t)s.n_programs, "compiled", (json_int_t)s.n_compiled, "loaded",
                     (json_int_t)s.n_loaded, "compile_s", s.compile_s, "device_weight_bytes",
                     (json_int_t)s.weight_bytes, "device_kv_bytes", (json_int_t)s.cache_bytes);
}

/* How the model's files say that embeddings are made. */
struct embeddings {
    struct embedder by;
    struct err why; /* code 0, or why `gallop serve` refuses these files */
};

/* Reads the sentence-transformers files in the folder of the model C. */
static void read_embeddings(struct embeddings *x, struct checkpoint *c)
{
    if (!c->gguf.n)
        embedder_open(&x->by, c, &x->why);
}

static json_t *embeddings_json(const struct embeddings *x)
{
    if (x->why.code)
        return json_pack("{s:o}", "refused", print_json_text(x->why.msg));
    return json_pack("{s:s,s:O?,s:b,s:I,s:I}", "pooling", x->by.pooling == GALLOP_POOL_MEAN ? "mean" : "last",
                     "prompt", x->by.prompt, "chat_template", x->by.is_message, "max_tokens",
                     (json_int_t)x->by.most, "dimensions", (json_int_t)x->by.dimensions);
}

static void print_embeddings(const struct embeddings *x)
{
    const struct embedder *by = &x->by;

    if (x->why.code)
        print_fmt("embeddings are refused: %s\n", x->why.msg);
    if (x->why.code || !by->is_known)
        return;
    print_fmt("embeddings: %s", by->pooling == GALLOP_POOL_MEAN ? "mean of all tokens" : "last token");
    if (by->prompt)
        print_text(", with the default prompt");
    if (by->is_message)
        print_text(", texts as messages of the user in the chat template");
    if (by->most)
        print_fmt(", texts cut to %zu tokens", by->most);
    if (by->dimensions)
        print_fmt(", the first %zu dimensions", by->dimensions);
    print_text("\n");
}

/* Returns the formats of tool calls and reasoning that the chat template of the model C writes. */
static struct markup markup_of(struct checkpoint *c)
{
    struct input_template t = {.is_open = false};
    struct markup found;
    struct err e; /* ignored: a model without a usable template has no such formats */

    if (input_template_open(&t, c, NULL, &e) == 0)
        input_template_examine(&t, &e);
    found = t.template.markup;
    input_template_close(&t);
    return found;
}

static void print_json_page(const struct gallop *g, const struct llm *m, const struct gallop_options *opt,
                            const struct embeddings *x, const struct markup *markup)
{
    const struct model_info *i = &m->model.info;
    json_t *list = json_array(), *o;
    struct gallop_stats s;

    gallop_stats(g, &s);
    for (size_t t = 0; t < m->model.n_tensors; t++)
        json_array_append_new(list, tensor_json(&m->model.tensor[t]));
    o = json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "architecture", m->model.arch->class_name,
                  "model_type", m->model.arch->model_type, "layers", (json_int_t)i->n_layers, "hidden",
                  (json_int_t)i->hidden, "heads", (json_int_t)i->n_heads, "kv_heads", (json_int_t)i->n_kv,
                  "head_dim", (json_int_t)i->head_dim, "intermediate", (json_int_t)i->inner, "vocab",
                  (json_int_t)i->vocab, "context", (json_int_t)i->max_len, "parameters",
                  (json_int_t)m->model.n_params);
    json_object_set_new(o, "format", json_string(weights_kind(m->model.weights)));
    json_object_set_new(o, "tokenizer", m->tok ? json_string(tok_kind(m->tok)) : json_null());
    json_object_set_new(o, "dtype", json_string(s.dtype));
    json_object_set_new(o, "quant", json_string(s.quant));
    json_object_set_new(o, "threads", json_integer(s.threads));
    json_object_set_new(o, "isa", json_string(s.isa));
    json_object_set_new(o, "cpu", json_string(cpu_model()));
    json_object_set_new(o, "numa_nodes", json_integer(numa_nodes()));
    json_object_set_new(o, "kernels", kernels_json(m->kern));
    json_object_set_new(o, "operators", operators_json(m));
    json_object_set_new(o, "kv", kv_json(m, opt));
    if (engine_guesses(g))
        json_object_set_new(o, "guesses", guesses_json(g, m));
    json_object_set_new(o, "scheduling", scheduling_json(engine_loop(g)));
    if (engine_frames(g))
        json_object_set_new(o, "executor", executor_json(engine_frames(g)));
    else
        json_object_set_new(o, "executor", json_pack("{s:s}", "name", "eager"));
    if (x->why.code || x->by.is_known)
        json_object_set_new(o, "embeddings", embeddings_json(x));
    json_object_set_new(o, "markup", markup_json(markup));
    json_object_set_new(o, "weight_bytes", json_integer((json_int_t)s.weight_bytes));
    json_object_set_new(o, "scratch_bytes", json_integer((json_int_t)s.scratch_bytes));
    json_object_set_new(o, "load_s", json_real(s.load_s));
    json_object_set_new(o, "tensors", list);
    print_json(o);
}

static void print_executor(const struct frames *f)
{
    const double mib = 1048576;
    struct frames_stats s;

    frames_stats(f, &s);
    print_fmt("executor pjrt: %s on %s %s, %zu device%s", s.kind, s.platform, s.version, s.n_devices,
              s.n_devices == 1 ? "" : "s");
    if (s.memory_bytes)
        print_fmt(" of %.1f GiB", (double)s.memory_bytes / mib / 1024);
    print_fmt(
        "; %zu programs (%zu compiled, %zu from the cache folder) in %.2f s; %.1f MiB of weights and %.1f MiB of "
        "KV rows on the device\n",
        s.n_programs, s.n_compiled, s.n_loaded, s.compile_s, (double)s.weight_bytes / mib,
        (double)s.cache_bytes / mib);
}

static const char *linear_type(const struct linear *l)
{
    return l->dtype == DT_F32 ? "fp32" : l->dtype == DT_I8 ? "int8" : "bf16";
}

static void print_tensors(const struct model *m)
{
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

static void print_text_page(const struct gallop *g, const struct llm *m, const struct gallop_options *opt,
                            const struct embeddings *x)
{
    const struct model_info *i = &m->model.info;
    struct gallop_stats s;

    gallop_stats(g, &s);
    print_fmt(
        "%s, %zu layers, hidden %zu, %zu heads (%zu kv) of %zu, intermediate %zu, vocabulary %zu, context %zu, %.1f M "
        "parameters\n",
        m->model.arch->class_name, i->n_layers, i->hidden, i->n_heads, i->n_kv, i->head_dim, i->inner,
        i->vocab, i->max_len, (double)m->model.n_params / 1e6);
    print_fmt("stored as %s; tokenizer %s\n", weights_kind(m->model.weights),
              m->tok ? tok_kind(m->tok) : "none");
    print_fmt("computed in %s on %d thread%s of %s, ", s.dtype, s.threads, s.threads == 1 ? "" : "s",
              cpu_model());
    print_fmt("linears on %s (%s), %d NUMA node%s\n", m->isa, kern_class(m->kern, model_gemm(&m->model)),
              numa_nodes(), numa_nodes() == 1 ? "" : "s");
    print_operators(m);
    print_fmt("weights %.1f MiB packed, scratch %.1f MiB; loaded in %.2f s\n",
              (double)s.weight_bytes / 1048576, (double)s.scratch_bytes / 1048576, s.load_s);
    if (engine_frames(g))
        print_executor(engine_frames(g));
    print_kv(m, opt);
    if (engine_guesses(g))
        print_guesses(g, m);
    print_embeddings(x);
    print_scheduling(engine_loop(g));
    print_text("\n");
    print_tensors(&m->model);
}

/* ---- the graph of a step ---- */

/* Prints the operators of a step that computes ROWS tokens and the logits of the last one, as text or as
 * JSON. */
static int print_graph(const struct model *m, size_t rows, bool as_json, struct err *e)
{
    struct graph graph;
    struct buf text;
    int rc = graph_record(&graph, m, rows, 1, e);

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

struct inspect_options {
    struct load load;
    struct options_output out;
    bool graph;
    int64_t rows;
    bool rows_given;
};

static const struct opt_row graph_options[] = {
    {"graph", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help =
         "print the operators that a step computes, one on each line, with the shapes of their results, or as a JSON "
         "object with --json; nothing else is printed",
     OPT_INTO(struct inspect_options, graph)},
    {"rows", 0, PARAM_INT, "T", EVERYDAY, .help = "with --graph, number of rows (tokens) of the step",
     .fallback = "16", .values = "[1,65536]", OPT_INTO(struct inspect_options, rows),
     OPT_SOURCE(struct inspect_options, rows_given)},
    {0}};

static int inspect_run(const struct opt_values *v, struct err *e)
{
    struct inspect_options o = {.rows = 0};
    struct checkpoint model = {0};
    struct embeddings x = {0};
    struct gallop *g = NULL;
    struct markup markup;
    int rc;

    load_init(&o.load);
    opt_read(v, &o, sizeof(o));
    o.load.headless = true;
    if (o.rows_given && !o.graph)
        log_warn("--rows changes nothing without --graph");
    if ((rc = load_prepare(&o.load, e)) != 0 || (rc = load_checkpoint(&o.load, &model, e)) != 0)
        return rc;
    read_embeddings(&x, &model);
    markup = markup_of(&model);
    if ((rc = load_engine(&o.load, &model, &g, e)) == 0 && o.graph)
        rc = print_graph(&engine_llm(g)->model, (size_t)o.rows, o.out.json, e);
    else if (rc == 0 && o.out.json)
        print_json_page(g, engine_llm(g), &o.load.o, &x, &markup);
    else if (rc == 0)
        print_text_page(g, engine_llm(g), &o.load.o, &x);
    gallop_close(g);
    checkpoint_close(&model);
    embedder_close(&x.by);
    return rc;
}

const struct verb verb_inspect = {
    .name = "inspect",
    .summary = "show architecture, tensors and backends of a checkpoint",
    .arguments = "[options]",
    .no_words = "options only",
    .manual =
        "Shows the architecture of a model; every tensor with its dtype, shape, file and backend, and the reason for "
        "the backend; the backends and instruction sets of the other operators; the bytes of the weights; how "
        "embeddings are made, if the files of sentence-transformers are there; the bytes "
        "of the KV cache for a token, and for a sequence of 32k tokens with and without windows; and the limits of "
        "the scheduler that follow from them.",
    .options = (const struct opt_part[]){OPT_OWN(struct inspect_options, graph_options),
                                         OPT_PART(struct inspect_options, load, options_model),
                                         OPT_PART(struct inspect_options, load, options_source),
                                         OPT_PART(struct inspect_options, load, options_engine),
                                         OPT_PART(struct inspect_options, load, options_scheduling),
                                         OPT_PART(struct inspect_options, out, options_json),
                                         OPT_PART(struct inspect_options, out, options_help), OPT_END},
    .run = inspect_run,
};
