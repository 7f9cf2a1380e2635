/* test_pjrt.c - programs of every family on a PJRT plugin: the logits of prompts and of decoding frames against the
 * eager executor's. Skipped unless GALLOP_PJRT_PLUGIN names a plugin. */
#include <math.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "engine/pjrt/plugin.h"
#include "engine/pjrt/plugin_source.h"
#include "engine/pjrt/weights.h"
#include "engine/sampling/sample.h"
#include "engine/sampling/sampling.h"
#include "engines.h"
#include "goldfile.h"
#include "graph/graph.h"
#include "graph/record.h"
#include "graph/stablehlo.h"
#include "kv/kv.h"
#include "model/model.h"
#include "ops/batch.h"
#include "ops/linear_ints.h"
#include "ops/moe.h"
#include "ops/rotate.h"

enum { SLOTS = 2, CONTEXT = 64, PROMPT = 11, BUCKET = 16, GUESSED = 3, MAX_FOLDERS = 64, MOST_INPUTS = 4096 };

static double tolerance = 2e-4; /* of logits, as a share of the largest */

struct device {
    const struct model *m;
    struct plugin plugin;
    struct pjrt_buffer *cache[2 * 256], *weight[4096], *hidden[STABLEHLO_MAX_HIDDEN];
    struct stablehlo_weight known[4096]; /* what the weights are */
    size_t n_caches, n_weights;
};

static void upload(struct device *d, const struct stablehlo *p)
{
    struct err e = {0};

    for (size_t i = 0; i < p->n_weights; i++)
        if (weights_upload(&d->plugin, d->m, p, i, CONTEXT, d->m->pool, &d->weight[i], &e) != 0)
            fail_msg("%s", e.msg);
    memcpy(d->known, p->weight, p->n_weights * sizeof(*p->weight));
    d->n_weights = p->n_weights;
    d->n_caches = 2 * p->n_caches;
    for (size_t i = 0; i < d->n_caches; i++) {
        const struct stablehlo_cache *c = &p->cache[i / 2];
        size_t dims[] = {SLOTS + 1, c->n_kv, CONTEXT + 1, c->d};
        float *zero = calloc(dims[0] * dims[1] * dims[2] * dims[3], sizeof(float));

        if (plugin_upload(&d->plugin, zero, DT_F32, dims, 4, &d->cache[i], &e) != 0)
            fail_msg("%s", e.msg);
        free(zero);
    }
}

/* Frees what a model has on the device. */
static void empty_device(struct device *d)
{
    struct plugin plugin = d->plugin;

    for (size_t i = 0; i < d->n_weights; i++)
        plugin_free_buffer(&d->plugin, d->weight[i]);
    for (size_t i = 0; i < d->n_caches; i++)
        plugin_free_buffer(&d->plugin, d->cache[i]);
    for (size_t i = 0; i < STABLEHLO_MAX_HIDDEN; i++)
        plugin_free_buffer(&d->plugin, d->hidden[i]);
    memset(d, 0, sizeof(*d));
    d->plugin = plugin;
}

static void close_device(struct device *d)
{
    empty_device(d);
    plugin_close(&d->plugin);
}

/* Returns the buffer of the weight X among those of the body. */
static struct pjrt_buffer *weight_of(const struct device *d, const struct stablehlo_weight *x)
{
    for (size_t i = 0; i < d->n_weights; i++)
        if (stablehlo_is_same(&d->known[i], x))
            return d->weight[i];
    fail_msg("a head has a weight that the body does not have");
    return NULL;
}

static void download(struct device *d, struct pjrt_buffer *from, void *to, size_t bytes)
{
    struct err e = {0};

    if (plugin_download(&d->plugin, from, to, bytes, &e) != 0)
        fail_msg("%s", e.msg);
    plugin_free_buffer(&d->plugin, from);
}

/* Computes the frame F with the inputs IN into LOGITS [n_wanted, V] and BEST [n_wanted]. The weights are uploaded with
 * the first. */
static void run(struct device *d, const struct model *m, const struct stablehlo_frame *f, const int32_t *in,
                float *logits, int32_t *best)
{
    bool is_head = f->part == STABLEHLO_HEAD;
    struct pjrt_buffer *arg[5000], *out[600], *inputs;
    size_t n_in = is_head ? f->n_wanted : stablehlo_n_inputs(m, f->n_seqs, f->rows, f->n_wanted), n = 0;
    size_t n_caches, n_hidden;
    struct pjrt_loaded *program;
    struct stablehlo p;
    struct graph g;
    struct err e = {0};

    if (graph_record(&g, m, f->n_seqs * f->rows, f->n_wanted, &e) != 0 ||
        stablehlo_write(&p, &g, m, f, &e) != 0)
        fail_msg("%s", e.msg);
    d->m = m;
    if (d->n_weights == 0)
        upload(d, &p);
    assert_true(is_head ? p.n_weights < d->n_weights : p.n_weights == d->n_weights);
    n_caches = is_head ? 0 : d->n_caches;
    n_hidden = f->part == STABLEHLO_PROMPT ? p.n_hidden : 0;
    if (plugin_compile(&d->plugin, p.text.data, p.text.len, "a frame", &program, &e) != 0)
        fail_msg("%s\n%s", e.msg, p.text.data);
    if (plugin_upload(&d->plugin, in, DT_I32, &n_in, 1, &inputs, &e) != 0)
        fail_msg("%s", e.msg);
    arg[n++] = inputs;
    for (size_t i = 0; i < n_caches; i++)
        arg[n++] = d->cache[i];
    for (size_t i = 0; i < p.n_hidden && is_head; i++)
        arg[n++] = d->hidden[i];
    for (size_t i = 0; i < p.n_weights; i++)
        arg[n++] = weight_of(d, &p.weight[i]);
    if (plugin_run(&d->plugin, program, arg, n, out, n_caches + 2 + n_hidden, &e) != 0)
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < n_caches; i++) {
        plugin_free_buffer(&d->plugin, d->cache[i]);
        d->cache[i] = out[i];
    }
    download(d, out[n_caches], logits, f->n_wanted * m->info.vocab * sizeof(float));
    download(d, out[n_caches + 1], best, f->n_wanted * sizeof(*best));
    for (size_t i = 0; i < n_hidden; i++) {
        plugin_free_buffer(&d->plugin, d->hidden[i]);
        d->hidden[i] = out[n_caches + 2 + i];
    }
    plugin_free_buffer(&d->plugin, inputs);
    plugin_free_program(&d->plugin, program);
    stablehlo_fini(&p);
    graph_fini(&g);
}

/* Compares ROWS rows of logits with those of the eager executor, and the best tokens with the logits. */
static void expect(const char *name, const char *what, struct llm *m, const float *found, const int32_t *best,
                   size_t rows)
{
    size_t row, V = m->model.info.vocab;
    double off = goldfile_worst(found, m->logits, rows, V, &row);

    if (!(off <= tolerance))
        fail_msg("%s: %s: logits of row %zu off by %.2e of the largest", name, what, row, off);
    for (size_t i = 0; i < rows; i++) {
        size_t most = 0;

        for (size_t k = 1; k < V; k++)
            most = found[i * V + k] > found[i * V + most] ? k : most;
        if (best[i] != (int32_t)most)
            fail_msg("%s: %s: row %zu: token %d, and the largest logit is %zu", name, what, i, best[i], most);
    }
}

/* Writes cosines and sines of frequencies that depend on lengths to IN, as inputs_of() does. Returns their
 * number. */
static size_t angles_of(int32_t *in, const struct model *m, const struct executor_rows *rows, size_t n,
                        size_t M)
{
    struct batch_seq seq[2];
    struct batch b = {.n_tokens = n * M, .n_seqs = n, .seq = seq};
    size_t at = 0;

    assert_true(n <= 2);
    for (size_t i = 0; i < n; i++)
        seq[i] = (struct batch_seq){.first = i * M,
                                    .n = rows[i].n,
                                    .pos = rows[i].pos,
                                    .n_prompt = rows[i].n_prompt,
                                    .n_total = rows[i].n_total};
    for (size_t r = 0; r < m->info.n_ropes; r++) {
        size_t n_cos = n * M * m->info.rope[r].half;

        if (!rope_by_length(&m->info.rope[r]))
            continue;
        memset(in + at, 0, 2 * n_cos * sizeof(*in));
        rope_fill(&m->info.rope[r], &b, 0, n * M, (float *)(in + at), (float *)(in + at + n_cos));
        at += 2 * n_cos;
    }
    return at;
}

/* Writes the inputs of a frame of M rows for each of N sequences: ROWS [n], of which slot SLOTS is padding.
 * Returns the number of inputs so far, to which those of wanted rows are appended. */
static size_t inputs_of(int32_t *in, const struct model *m, const struct executor_rows *rows, size_t n,
                        size_t M)
{
    size_t T = n * M;

    for (size_t i = 0; i < T; i++) {
        const struct executor_rows *r = &rows[i / M];
        size_t k = i % M;
        bool real = k < r->n;

        in[i] = real ? r->id[k] : 0;
        in[T + i] = real ? (int32_t)(r->pos + k) : 0;
        in[2 * T + i] = real ? (int32_t)r->slot : SLOTS;
        in[3 * T + i] = real ? (int32_t)(r->pos + k) : CONTEXT;
    }
    for (size_t i = 0; i < n; i++)
        in[4 * T + i] = rows[i].n ? (int32_t)rows[i].slot : SLOTS;
    return 4 * T + n + angles_of(in + 4 * T + n, m, rows, n, M);
}

/* Computes the rows OWN in slot 0 with the eager executor, and in slot 1 in a frame F of two sequences, of which the
 * first is padding. */
static void decode(const char *name, const char *what, struct device *d, struct llm *m,
                   struct stablehlo_frame *f, struct executor_rows own)
{
    struct executor_rows pair[2] = {{.slot = SLOTS}, own};
    size_t n, V = m->model.info.vocab;
    int32_t in[MOST_INPUTS], best[BUCKET];
    float *logits = malloc(BUCKET * V * sizeof(float));

    f->part = STABLEHLO_STEP;
    f->n_seqs = 2;
    f->n_wanted = f->rows;
    pair[1].slot = 1;
    llm_forward(m, &own, 1);
    n = inputs_of(in, &m->model, pair, 2, f->rows);
    for (size_t i = 0; i < f->rows; i++)
        in[n + i] = i < own.n ? (int32_t)(f->rows + i) : 0;
    run(d, &m->model, f, in, logits, best);
    expect(name, what, m, logits, best, own.n);
    kv_advance(&m->kv, 0, own.pos + own.n);
    free(logits);
}

/* A prompt in slot 1, whose last rows are padding; all of its logits from its hidden states; in a mixture,
 * whose few rows gather their experts, one token after it; then tokens of which all but the first could be
 * guesses. The sequence is announced with LENGTH tokens, by which some ropes choose their frequencies. */
static void compare_length(const char *name, struct device *d, struct llm *m, size_t length)
{
    struct stablehlo_frame f = {.part = STABLEHLO_PROMPT,
                                .n_seqs = 1,
                                .rows = BUCKET,
                                .n_wanted = 1,
                                .n_slots = SLOTS,
                                .context = CONTEXT,
                                .seen = 32,
                                .dtype = DT_F32,
                                .kv_dtype = DT_F32};
    int32_t ids[PROMPT + 1 + GUESSED], in[MOST_INPUTS], best[BUCKET];
    size_t n, V = m->model.info.vocab;
    struct executor_rows rows = {
        .id = ids, .n = PROMPT, .n_prompt = length, .n_total = length, .n_wanted = 1};
    float *logits = malloc(BUCKET * V * sizeof(float));

    engines_text(1, 0, PROMPT + 1 + GUESSED, ids);
    assert_int_equal(kv_reserve(&m->kv, 0, PROMPT + 1 + GUESSED), 0);
    llm_forward(m, &rows, 1);
    rows.slot = 1;
    n = inputs_of(in, &m->model, &rows, 1, BUCKET);
    in[n] = PROMPT - 1;
    run(d, &m->model, &f, in, logits, best);
    expect(name, "prompt", m, logits, best, 1);

    rows.slot = 0;
    rows.n_wanted = f.n_wanted = PROMPT;
    llm_forward(m, &rows, 1);
    f.part = STABLEHLO_HEAD;
    for (size_t i = 0; i < PROMPT; i++)
        in[i] = (int32_t)i;
    run(d, &m->model, &f, in, logits, best);
    expect(name, "rows of the prompt", m, logits, best, PROMPT);
    kv_advance(&m->kv, 0, PROMPT);
    free(logits);

    rows.pos = PROMPT;
    rows.id = &ids[PROMPT];
    rows.n = rows.n_wanted = f.rows = 1;
    if (m->model.info.n_experts) {
        decode(name, "decoding", d, m, &f, rows);
        rows.pos++;
        rows.id++;
    }
    rows.n = rows.n_wanted = GUESSED;
    f.rows = GUESSED + 1;
    decode(name, "guesses", d, m, &f, rows);
    kv_release(&m->kv, 0);
}

static void compare(const char *name, struct device *d, struct llm *m)
{
    bool by_length = false;

    compare_length(name, d, m, PROMPT);
    for (size_t i = 0; i < m->model.info.n_ropes; i++)
        by_length = by_length || rope_by_length(&m->model.info.rope[i]);
    if (by_length)
        compare_length(name, d, m, 1000);
}

/* GPT-OSS has experts with biases and limits, which are refused. */
static bool linears_are_served(const struct model *m)
{
    struct err e;

    return weights_check(m, &e) == 0 && strcmp(m->arch->model_type, "gpt_oss") != 0;
}

/* GALLOP_PJRT_SHARE=1/2 computes every second model only. */
static void read_share(size_t *share, size_t *shares)
{
    const char *text = getenv("GALLOP_PJRT_SHARE");

    *share = 0;
    *shares = 1;
    if (text)
        assert_true(sscanf(text, "%zu/%zu", share, shares) == 2 && *share < *shares);
}

static void every_family_computes_the_same_logits(void **state)
{
    char names[MAX_FOLDERS][64];
    size_t n = goldfile_list(GALLOP_SOURCE_DIR "/test/golden", names, MAX_FOLDERS), share, shares;
    struct device *d = calloc(1, sizeof(*d));
    struct plugin_source source;
    struct err e = {0};

    read_share(&share, &shares);
    assert_int_equal(plugin_source_read(&source, NULL, NULL, 0, &e), 0);
    assert_int_equal(plugin_open(&d->plugin, &source, &e), 0);
    for (size_t i = share; i < n; i += shares) {
        struct gallop_options o = engines_options(1, 64, 0);
        struct gallop *g;

        o.max_logits = BUCKET;
        g = engines_open(names[i], &o);
        if (linears_are_served(&engine_llm(g)->model)) {
            print_message("%s\n", names[i]);
            compare(names[i], d, engine_llm(g));
            empty_device(d);
        }
        gallop_close(g);
    }
    close_device(d);
    plugin_source_fini(&source);
    free(d);
}

/* ---- integers as weights ---- */

/* Computes Y [T, n] = X W^T + b with the integers of L and inputs that are not rounded. */
static void exact_linear(const struct op_sink *o, float *y, const struct linear *l, const float *x, size_t T)
{
    static uint8_t code[4096];
    static int8_t number[4096], multiple[4096], offset[4096];
    static float rotated[4096];
    bool is_int4 = linear_ints_of(l) == LINEAR_INT4;

    assert_true(l->k <= 4096 && linear_ints_of(l) != LINEAR_NO_INTS);
    for (size_t t = 0; t < T; t++) {
        rotate(l->kern, rotated, x + t * l->k, l->k);
        for (size_t i = 0; i < l->n; i++) {
            double sum = 0;
            float scale =
                is_int4 ? linear_ints_row4(l, i, code, multiple, offset) : linear_ints_row8(l, i, number);

            for (size_t k = 0; k < l->k; k++) {
                size_t g = is_int4 ? k / l->group : 0;

                sum += rotated[k] * (is_int4 ? multiple[g] * code[k] + offset[g] : number[k]);
            }
            y[t * l->n + i] = (float)(sum * scale) + (l->bias ? linear_bias(l, i) : 0);
        }
    }
}

static void exact_pair(const struct op_sink *o, float *y, const struct linear *l, const struct linear *down,
                       const float *h, size_t T)
{
    size_t n = l->n / 2;
    float *up = malloc(T * 2 * n * sizeof(float)), *middle = malloc(T * n * sizeof(float));

    assert_true(l->paired);
    exact_linear(o, up, l, h, T);
    for (size_t i = 0; i < T * n; i++) {
        float gate = up[i / n * 2 * n + i % n];

        middle[i] = gate / (1 + expf(-gate)) * up[i / n * 2 * n + n + i % n];
    }
    exact_linear(o, y, down, middle, T);
    free(up);
    free(middle);
}

static void exact_mlp(const struct op_sink *o, float *y, const struct op_mlp *w, const float *h, size_t T)
{
    assert_true(w->act == KERN_SILU);
    exact_pair(o, y, &w->up, &w->down, h, T);
}

/* Adds to Y [E] the results of the experts of a row whose router has these LOGITS [n_experts], which are changed. */
static void exact_experts(const struct op_sink *o, float *y, const struct moe *m, const float *h,
                          double *logits)
{
    size_t E = m->expert->down.n;
    double all = 0, chosen = 0, weight[MOE_MAX_TOP_K];
    float *one = malloc(E * sizeof(float) * MOE_MAX_TOP_K);

    for (size_t x = 0; x < m->n_experts; x++)
        all += exp(logits[x]);
    for (size_t i = 0; i < m->top_k; i++) {
        size_t best = 0;

        for (size_t x = 1; x < m->n_experts; x++)
            best = logits[x] > logits[best] ? x : best;
        chosen += weight[i] = exp(logits[best]) / all;
        logits[best] = -INFINITY;
        exact_pair(o, one + i * E, &m->expert[best].up, &m->expert[best].down, h, 1);
    }
    for (size_t i = 0; i < m->top_k * E; i++)
        y[i % E] += (float)(one[i] * weight[i / E] / (m->renorm ? chosen : 1));
    free(one);
}

static void exact_moe(const struct op_sink *o, float *y, const struct moe *m, const float *h,
                      const float *route, size_t T)
{
    size_t E = m->expert->down.n, k = m->router.k;
    double logits[64];
    float row[1024];

    assert_true(m->gate == MOE_SOFTMAX_ALL && !m->scale_input && !m->expert_scale && m->n_experts <= 64 &&
                k <= 1024 && m->act == KERN_SILU);
    memset(y, 0, T * E * sizeof(*y));
    for (size_t t = 0; t < T; t++) {
        for (size_t x = 0; x < m->n_experts; x++) {
            linear_row(&m->router, x, row);
            logits[x] = 0;
            for (size_t i = 0; i < k; i++)
                logits[x] += (double)row[i] * (double)(route ? route : h)[t * k + i];
        }
        exact_experts(o, y + t * E, m, h + t * E, logits);
    }
}

/* Opens NAME with QUANT and computes its prompts and decoding rows on the device. EXACT: the eager executor does not
 * round the inputs of its linears, and logits must be equal; otherwise they may be off by that. */
static void compare_quant(const char *name, const char *quant, bool is_exact)
{
    struct gallop_options o = engines_options(1, 64, 0);
    struct device *d = calloc(1, sizeof(*d));
    struct plugin_source source;
    struct err e = {0};
    struct gallop *g;
    struct llm *m;

    print_message("%s, %s\n", name, quant);
    assert_int_equal(plugin_source_read(&source, NULL, NULL, 0, &e), 0);
    assert_int_equal(plugin_open(&d->plugin, &source, &e), 0);
    o.max_logits = BUCKET;
    o.quant = quant;
    g = engines_open(name, &o);
    m = engine_llm(g);
    assert_int_equal(weights_check(&m->model, &e), 0);
    if (is_exact) {
        m->timed.sink.linear = exact_linear;
        m->timed.sink.logits = exact_linear;
        m->timed.sink.mlp = exact_mlp;
        m->timed.sink.moe = exact_moe;
    }
    tolerance = is_exact ? 2e-4 : 8e-2;
    compare(name, d, m);
    tolerance = 2e-4;
    gallop_close(g);
    close_device(d);
    plugin_source_fini(&source);
    free(d);
}

/* The eager executor rounds inputs to 8 bits, which changes a product by about 1 % and the logits of these models by
 * a few per cent; the device does not. */
static void integers_compute_what_the_eager_executor_computes(void **state)
{
    static const struct {
        const char *name, *quant;
        bool is_exact;
    } row[] = {{"llama3-rope", "int8", true},
               {"llama3-rope", "int4", true},
               {"llama-linear-bias-headdim", "int4-g128", true},
               {"qwen3-moe", "int8", true},
               {"mixtral", "int4", true},
               {"llama3-rope", "int8", false}};
    size_t share, shares;

    read_share(&share, &shares);
    for (size_t i = share; i < sizeof(row) / sizeof(row[0]); i += shares)
        compare_quant(row[i].name, row[i].quant, row[i].is_exact);
}

/* Writes a head [V, E] whose logits have ties or numbers that are not finite, as KIND says. */
static void fill_head(float *w, size_t V, size_t E, int kind)
{
    static const float number[] = {0, 1, NAN, INFINITY, -INFINITY, -INFINITY};

    memset(w, 0, V * E * sizeof(*w));
    for (size_t i = kind == 5 ? 0 : 5; i < V; i += kind == 5 ? 1 : 4)
        for (size_t k = 0; k < E; k++)
            w[i * E + k] = number[kind];
    for (size_t i = 7; i < V && kind == 1; i += 4)
        for (size_t k = 0; k < E; k++)
            w[i * E + k] = -1;
}

/* Returns the number of the weight that is the matrix of L. */
static size_t find_linear(const struct device *d, const struct linear *l)
{
    size_t i = 0;

    while (d->known[i].of != l || d->known[i].kind != STABLEHLO_LINEAR)
        i++;
    return i;
}

/* Uploads the matrix W with the shape SHAPE instead of weight I. */
static void replace(struct device *d, size_t i, const float *w, const size_t shape[2])
{
    struct err e = {0};

    plugin_free_buffer(&d->plugin, d->weight[i]);
    assert_int_equal(plugin_upload(&d->plugin, w, DT_F32, shape, 2, &d->weight[i], &e), 0);
}

/* The device and the sampler choose the same token of equal logits, and neither chooses one if there is a NaN. */
static void the_best_token_is_that_of_the_sampler(void **state)
{
    struct stablehlo_frame f = {.part = STABLEHLO_PROMPT,
                                .n_seqs = 1,
                                .rows = 2,
                                .n_wanted = 1,
                                .n_slots = SLOTS,
                                .context = CONTEXT,
                                .seen = 32,
                                .dtype = DT_F32,
                                .kv_dtype = DT_F32};
    struct gallop_options o = engines_options(1, 64, 0);
    struct gallop *g = engines_open("llama3-rope", &o);
    const struct model *m = &engine_llm(g)->model;
    size_t V = m->info.vocab, E = m->info.hidden, shape[] = {V, E}, rows[] = {2, E}, head;
    float *w = malloc(V * E * sizeof(float)), *logits = malloc(V * sizeof(float)), ones[2 * 1024];
    struct device *d = calloc(1, sizeof(*d));
    struct sample_scratch sampler;
    struct plugin_source source;
    struct sampling greedy;
    struct stablehlo p;
    struct graph graph;
    struct err e = {0};
    int32_t best, zero = 0;

    assert_true(E <= 1024);
    for (size_t i = 0; i < 2 * E; i++)
        ones[i] = 1 + (float)(i % 7);
    sampling_default(&greedy);
    assert_int_equal(sample_open(&sampler, engine_llm(g)->kern, V, &e), 0);
    assert_int_equal(plugin_source_read(&source, NULL, NULL, 0, &e), 0);
    assert_int_equal(plugin_open(&d->plugin, &source, &e), 0);
    assert_int_equal(graph_record(&graph, m, 2, 1, &e), 0);
    assert_int_equal(stablehlo_write(&p, &graph, m, &f, &e), 0);
    d->m = m;
    upload(d, &p);
    head = find_linear(d, graph.node[graph.result].w.linear);
    for (size_t i = 0; i < p.n_hidden; i++)
        assert_int_equal(plugin_upload(&d->plugin, ones, DT_F32, rows, 2, &d->hidden[i], &e), 0);
    f.part = STABLEHLO_HEAD;
    for (int kind = 0; kind < 6; kind++) {
        struct sample_result r;
        int rc;

        fill_head(w, V, E, kind);
        replace(d, head, w, shape);
        run(d, m, &f, &zero, logits, &best);
        rc = sample_pick(&sampler, &greedy, NULL, logits, V, 0, &r);
        if (best != (rc ? -1 : r.id))
            fail_msg("head %d: the device chose token %d, the sampler %d (code %d)", kind, best, r.id, rc);
    }
    sample_close(&sampler);
    close_device(d);
    plugin_source_fini(&source);
    stablehlo_fini(&p);
    graph_fini(&graph);
    gallop_close(g);
    free(w);
    free(logits);
    free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_token_is_that_of_the_sampler),
        cmocka_unit_test(integers_compute_what_the_eager_executor_computes),
        cmocka_unit_test(every_family_computes_the_same_logits),
    };

    if (!getenv("GALLOP_PJRT_PLUGIN")) {
        print_message("skipped: GALLOP_PJRT_PLUGIN names no plugin\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
