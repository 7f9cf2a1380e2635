/* test_pjrt.c - programs of every family on a PJRT plugin: the logits of prompts and of decoding frames against the
 * eager executor's. Skipped unless GALLOP_PJRT_PLUGIN names a plugin. */
#include <math.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/pjrt/weights.h"
#include "engines.h"
#include "goldfile.h"
#include "graph/record.h"

enum { SLOTS = 2, CONTEXT = 64, PROMPT = 11, BUCKET = 16, MAX_FOLDERS = 64 };

struct device {
    struct plugin plugin;
    struct pjrt_buffer *cache[2 * 256], *weight[4096];
    size_t n_caches, n_weights;
};

static void upload(struct device *d, const struct stablehlo *p)
{
    struct err e = {0};

    for (size_t i = 0; i < p->n_weights; i++)
        if (weights_upload(&d->plugin, &p->weight[i], CONTEXT, &d->weight[i], &e) != 0)
            fail_msg("%s", e.msg);
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

/* Computes the frame F with the inputs IN into LOGITS [n_wanted, V]. The weights are uploaded with the first. */
static void run(struct device *d, const struct model *m, const struct stablehlo_frame *f, const int32_t *in,
                float *logits)
{
    struct pjrt_buffer *arg[5000], *out[600], *inputs;
    size_t n_in = 4 * f->n_seqs * f->rows + f->n_seqs + f->n_wanted, n = 0;
    struct pjrt_loaded *program;
    struct stablehlo p;
    struct graph g;
    struct err e = {0};

    if (graph_record(&g, m, f->n_seqs * f->rows, f->n_wanted, &e) != 0 ||
        stablehlo_write(&p, &g, m, f, &e) != 0)
        fail_msg("%s", e.msg);
    if (d->n_weights == 0)
        upload(d, &p);
    assert_int_equal(p.n_weights, d->n_weights);
    if (plugin_compile(&d->plugin, p.text.data, p.text.len, "a frame", &program, &e) != 0)
        fail_msg("%s\n%s", e.msg, p.text.data);
    if (plugin_upload(&d->plugin, in, DT_I32, &n_in, 1, &inputs, &e) != 0)
        fail_msg("%s", e.msg);
    arg[n++] = inputs;
    for (size_t i = 0; i < d->n_caches; i++)
        arg[n++] = d->cache[i];
    for (size_t i = 0; i < d->n_weights; i++)
        arg[n++] = d->weight[i];
    if (plugin_run(&d->plugin, program, arg, n, out, d->n_caches + 1, &e) != 0)
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < d->n_caches; i++) {
        plugin_free_buffer(&d->plugin, d->cache[i]);
        d->cache[i] = out[i];
    }
    if (plugin_download(&d->plugin, out[d->n_caches], logits, f->n_wanted * m->info.vocab * sizeof(float),
                        &e) != 0)
        fail_msg("%s", e.msg);
    plugin_free_buffer(&d->plugin, out[d->n_caches]);
    plugin_free_buffer(&d->plugin, inputs);
    plugin_free_program(&d->plugin, program);
    stablehlo_fini(&p);
    graph_fini(&g);
}

static void expect(const char *name, const char *what, struct llm *m, const float *found)
{
    size_t row;
    double off = goldfile_worst(found, m->logits, 1, m->model.info.vocab, &row);

    if (!(off <= 2e-4))
        fail_msg("%s: %s: logits off by %.2e of the largest", name, what, off);
}

/* A prompt in slot 1, whose last rows are padding, and then one token after it in a frame with padding. */
static void compare(const char *name, struct device *d, struct llm *m)
{
    struct stablehlo_frame prompt = {.n_seqs = 1,
                                     .rows = BUCKET,
                                     .n_wanted = 1,
                                     .n_slots = SLOTS,
                                     .context = CONTEXT,
                                     .seen = 32,
                                     .dtype = DT_F32,
                                     .kv_dtype = DT_F32};
    struct stablehlo_frame decode = prompt;
    int32_t ids[PROMPT + 1], in[4 * BUCKET + 2] = {0};
    /* ids, positions, slots and rows of two sequences, slots that are read, wanted rows; sequence 0 is padding */
    int32_t next[] = {0, 0, 0, PROMPT, SLOTS, 1, CONTEXT, PROMPT, SLOTS, 1, 0, 1};
    struct executor_rows rows = {
        .id = ids, .n = PROMPT, .n_prompt = PROMPT, .n_total = CONTEXT, .n_wanted = 1};
    float *logits = malloc(2 * m->model.info.vocab * sizeof(float));

    engines_text(1, 0, PROMPT + 1, ids);
    for (size_t i = 0; i < BUCKET; i++) {
        bool real = i < PROMPT;

        in[i] = real ? ids[i] : 0;
        in[BUCKET + i] = real ? (int32_t)i : 0;
        in[2 * BUCKET + i] = real ? 1 : SLOTS;
        in[3 * BUCKET + i] = real ? (int32_t)i : CONTEXT;
    }
    in[4 * BUCKET] = 1;
    in[4 * BUCKET + 1] = PROMPT - 1;
    assert_int_equal(kv_reserve(&m->kv, 0, PROMPT + 1), 0);
    llm_forward(m, &rows, 1);
    run(d, &m->model, &prompt, in, logits);
    expect(name, "prompt", m, logits);
    kv_advance(&m->kv, 0, PROMPT);

    decode.n_seqs = decode.n_wanted = 2;
    decode.rows = 1;
    next[1] = ids[PROMPT];
    rows = (struct executor_rows){
        .id = &ids[PROMPT], .n = 1, .pos = PROMPT, .n_prompt = PROMPT, .n_total = CONTEXT, .n_wanted = 1};
    llm_forward(m, &rows, 1);
    run(d, &m->model, &decode, next, logits);
    expect(name, "decoding", m, logits + m->model.info.vocab);
    free(logits);
}

/* GPT-OSS has experts with biases and limits, which are refused. */
static bool linears_are_served(const struct model *m)
{
    struct err e;

    return weights_check(m, &e) == 0 && strcmp(m->arch->model_type, "gpt_oss") != 0;
}

static void every_family_computes_the_same_logits(void **state)
{
    char names[MAX_FOLDERS][64];
    size_t n = goldfile_list(GALLOP_SOURCE_DIR "/test/golden", names, MAX_FOLDERS);
    struct device *d = calloc(1, sizeof(*d));
    struct plugin_source source;
    struct err e = {0};

    assert_int_equal(plugin_source_read(&source, NULL, NULL, 0, &e), 0);
    for (size_t i = 0; i < n; i++) {
        struct gallop_options o = engines_options(1, 64, 0);
        struct gallop *g;

        o.max_logits = 2;
        g = engines_open(names[i], &o);
        if (linears_are_served(&engine_llm(g)->model)) {
            print_message("%s\n", names[i]);
            if (plugin_open(&d->plugin, &source, &e) != 0)
                fail_msg("%s", e.msg);
            compare(names[i], d, engine_llm(g));
            for (size_t k = 0; k < d->n_weights; k++)
                plugin_free_buffer(&d->plugin, d->weight[k]);
            for (size_t k = 0; k < d->n_caches; k++)
                plugin_free_buffer(&d->plugin, d->cache[k]);
            plugin_close(&d->plugin);
            memset(d, 0, sizeof(*d));
        }
        gallop_close(g);
    }
    plugin_source_fini(&source);
    free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_computes_the_same_logits),
    };

    if (!getenv("GALLOP_PJRT_PLUGIN")) {
        print_message("skipped: GALLOP_PJRT_PLUGIN names no plugin\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
