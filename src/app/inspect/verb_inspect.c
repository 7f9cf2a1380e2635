/* verb_inspect.c - `gallop inspect`: shows the model (inspect_model.h), and the scheduler, the guesses, the executor
 * and the embeddings of its engine. */
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "app/input.h"
#include "app/inspect/inspect_model.h"
#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"
#include "engine/embeddings/embedder.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/guess/sources.h"
#include "engine/pjrt/frames.h"
#include "engine/schedule/sched.h"
#include "engine/schedule/waiting.h"
#include "engine/step.h"

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
    json_t *o;
    struct gallop_stats s;

    gallop_stats(g, &s);
    o = inspect_model_json(m, opt, &s);
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
    json_object_set_new(o, "tensors", inspect_tensors_json(m));
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

static void print_text_page(const struct gallop *g, const struct llm *m, const struct gallop_options *opt,
                            const struct embeddings *x)
{
    struct gallop_stats s;

    gallop_stats(g, &s);
    inspect_print_model(m, &s);
    if (engine_frames(g))
        print_executor(engine_frames(g));
    inspect_print_kv(m, opt);
    if (engine_guesses(g))
        print_guesses(g, m);
    print_embeddings(x);
    print_scheduling(engine_loop(g));
    print_text("\n");
    inspect_print_tensors(m);
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
        rc = inspect_print_graph(engine_llm(g), (size_t)o.rows, o.out.json, e);
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
