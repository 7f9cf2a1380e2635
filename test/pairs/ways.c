/* ways.c - see ways.h. */
#include "ways.h"

#include <stdio.h>
#include <string.h>

#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "engines.h"
#include "files.h"
#include "letters.h"
#include "nan_model.h"

/* ---- models ---- */

static const char *const goldens[] = {"llama3-rope", "gemma3",  "gpt-oss",   "phi3-longrope", "llama-dynamic",
                                      "gemma4",      "mixtral", "qwen3-moe", "llama-yarn",    "llama4",
                                      "mistral",     "qwen3",   "phi3",      "qwen2-window",  "gemma4-moe"};
enum { GOLDENS = sizeof(goldens) / sizeof(goldens[0]) };

/* Returns the folder of a golden with a tokenizer, or of the model of NaN, which are made once. */
static const char *golden_path(size_t i)
{
    static const char *path[GOLDENS];

    return path[i] ? path[i] : (path[i] = letters_model(engines_path(goldens[i])));
}

static const char *nan_path(void)
{
    static const char *path;

    return path ? path : (path = nan_model_make());
}

void ways_draw_model(struct ways_model *m, struct draws *d)
{
    static const char *const dtypes[] = {"fp32", "fp32", "bf16"};
    static const char *const kv_dtypes[] = {NULL, NULL, "fp32", "bf16", "int8", "int4"};
    static const char *const quants[] = {NULL, NULL, NULL, "int8", "int4", "mxfp4"};
    static const char *const sparse[] = {NULL, NULL, NULL, NULL, "sink=4,window=32", "sink=0,window=100"};
    size_t which = draws_below(d, 10), golden = draws_below(d, GOLDENS);

    memset(m, 0, sizeof(*m));
    m->kind.longest = draws_chance(d, 50) ? 160 : REQUESTS_LONGEST;
    m->dtype = DRAWS_ONE(d, dtypes);
    m->kv_dtype = DRAWS_ONE(d, kv_dtypes);
    m->quant = DRAWS_ONE(d, quants);
    m->kv_sparse = DRAWS_ONE(d, sparse);
    switch (which) {
    case 0:
    case 1:
        m->name = "demo";
        m->path = "demo";
        m->kind.has_schemas = true;
        break;
    case 2:
        m->name = "demo with NaN";
        m->path = nan_path();
        m->kind.has_schemas = true;
        m->kind.poison = NAN_MODEL_SPOILS;
        m->quant = NULL;
        break;
    case 3:
        m->name = "demo on the plugin";
        m->path = "demo";
        m->on_plugin = m->kind.greedy = true;
        m->kind.longest = REQUESTS_LONGEST;
        m->dtype = "fp32";
        m->kv_dtype = m->quant = m->kv_sparse = NULL;
        break;
    default: m->name = goldens[golden]; m->path = golden_path(golden);
    }
}

static struct gallop_options options(const struct ways_model *m)
{
    struct gallop_options o = engines_options(6, 512, (int64_t)m->kind.longest);

    o.dtype = m->dtype;
    o.quant = m->quant;
    o.kv_cache_dtype = m->kv_dtype;
    o.kv_sparse = m->kv_sparse;
    o.max_logits = 16;
    if (m->on_plugin) {
        o.executor = "pjrt";
        o.pjrt_plugin = FAKE_PJRT;
        o.prompt_buckets = "480";
        o.batch_buckets = "6";
        o.context_buckets = "480";
    }
    return o;
}

/* ---- ways ---- */

void ways_alone(struct way *w, const struct ways_model *m)
{
    *w = (struct way){.o = options(m)};
    w->o.prefix_index = "none";
    w->o.kv_cache_tokens = 6 * (int64_t)m->kind.longest;
}

static void draw_cache(struct way *w, struct draws *d)
{
    static const char *const types[] = {"slab_pool", "slab_pool", "paged", "paged", "dynamic", "bmc"};
    static const char *const layouts[] = {NULL, "head_major", "block_major"};
    static const char *const indices[] = {"radix", "radix", "hash", "none"};
    static const int64_t blocks[] = {16, 16, 16, 32, 64, 128, 256};
    struct gallop_options *o = &w->o;
    bool has_pool;

    o->kv_cache_type = DRAWS_ONE(d, types);
    has_pool = strcmp(o->kv_cache_type, "slab_pool") == 0 || strcmp(o->kv_cache_type, "paged") == 0;
    o->kv_cache_layout = has_pool ? DRAWS_ONE(d, layouts) : NULL;
    o->prefix_index = has_pool ? DRAWS_ONE(d, indices) : "none";
    o->block_size = DRAWS_ONE(d, blocks);
    if (strcmp(o->kv_cache_type, "bmc") == 0) {
        o->block_size = 0;
        o->bmc_splits = 1 + (int64_t)draws_below(d, 20);
    }
    if (draws_chance(d,
                     65)) /* little more than the longest sequence needs, so that sequences are preempted */
        o->kv_cache_tokens =
            o->max_model_len + o->block_size + (draws_chance(d, 60) ? 0 : (int64_t)draws_below(d, 400));
    w->stores = has_pool && draws_chance(d, 15) && strcmp(o->prefix_index, "none") != 0;
}

static void draw_schedule(struct gallop_options *o, struct draws *d)
{
    static const char *const schedulers[] = {NULL, NULL, "continuous_prefill_first", "iterative"};
    static const char *const policies[] = {NULL, "priority", "fair"};
    static const int64_t steps[] = {0, 1, 16, 100, 500};

    o->scheduler = DRAWS_ONE(d, schedulers);
    o->scheduling_policy = DRAWS_ONE(d, policies);
    o->admission = draws_chance(d, 30) ? "worst-case" : NULL;
    o->max_num_seqs = draws_chance(d, 30) ? 1 + (int64_t)draws_below(d, 3) : 4 + (int64_t)draws_below(d, 13);
    o->max_batched_tokens = o->max_num_seqs + DRAWS_ONE(d, steps);
    o->max_logits = o->max_num_seqs + (int64_t)draws_below(d, 20);
    o->threads = 1 + (int)draws_below(d, 3);
}

static void draw_guesses(struct way *w, const struct ways_model *m, struct draws *d)
{
    static const char *const configs[] = {
        "{\"method\":\"ngram\",\"num_speculative_tokens\":3}",
        "{\"method\":\"ngram\",\"num_speculative_tokens\":5,\"adaptive\":false}",
        "{\"method\":\"suffix\",\"adaptive\":false}",
        "{\"method\":\"suffix,ngram\",\"num_speculative_tokens\":12}",
        "{\"method\":\"self\",\"adaptive\":false}",
        "{\"model\":\"" GALLOP_SOURCE_DIR "/models/demo-draft\",\"adaptive\":false}",
        "{\"method\":\"ngram,draft_model\",\"model\":\"" GALLOP_SOURCE_DIR "/models/demo-draft\"}"};
    static const double accepts[] = {.3, .8, 1};
    bool is_demo = m->kind.has_schemas;

    w->guesses = (enum ways_guesses)draws_below(d, 3);
    w->n_guesses = 1 + draws_below(d, 12);
    w->accept = DRAWS_ONE(d, accepts);
    if (w->guesses == WAYS_CONFIG)
        w->o.speculative_config = configs[draws_below(d, m->on_plugin ? 4 : is_demo ? 7 : 5)];
}

static void draw_executor(struct way *w, const struct ways_model *m, struct draws *d)
{
    static const uint64_t deaths[] = {43, 61, 101};
    size_t kind = draws_below(d, 10);

    w->dies = DRAWS_ONE(d, deaths);
    w->n_no_opens = draws_below(d, 3);
    w->n_laters = draws_below(d, 3);
    if (kind < 2 && !w->stores) {
        w->executor = WAYS_DYING;
        w->o.max_batched_tokens += 100; /* Between two deaths all that runs is computed again. */
    }
    if (kind != 2 || m->on_plugin || w->guesses == WAYS_CONFIG)
        return;
    w->executor = WAYS_STATIC;
    w->guesses = WAYS_NO_GUESSES;
    w->stores = false;
    w->o.prefix_index = "none";
    w->o.max_num_seqs++;
    w->o.max_logits = w->o.max_num_seqs;
    w->o.max_batched_tokens = STATIC_LONGEST;
    w->o.kv_cache_tokens = 0;
}

static void draw_buckets(struct gallop_options *o, struct draws *d)
{
    static const char *const prompts[] = {"16", "16,64", "128"}, *const contexts[] = {"480", "64,480", "128"};

    o->prompt_buckets = DRAWS_ONE(d, prompts);
    o->context_buckets = DRAWS_ONE(d, contexts);
    o->batch_buckets = draws_chance(d, 50) ? "1" : NULL;
    o->max_batched_tokens += 128;
    o->kv_cache_type = o->kv_cache_layout = o->prefix_index = NULL;
    o->kv_cache_tokens = o->block_size = o->bmc_splits = 0;
}

void ways_draw(struct way *w, const struct ways_model *m, struct draws *d)
{
    *w = (struct way){.o = options(m)};
    draw_cache(w, d);
    draw_schedule(&w->o, d);
    draw_guesses(w, m, d);
    if (m->on_plugin) {
        w->stores = false;
        draw_buckets(&w->o, d);
    }
    draw_executor(w, m, d);
}

bool ways_serves(const struct way *w, const struct request *q)
{
    bool beams = q->r.sampling.use_beam_search == 1;
    int64_t block = w->o.block_size ? w->o.block_size : 64,
            n = (int64_t)q->r.n_ids + q->r.sampling.max_new_tokens,
            rows = q->r.sampling.num_beams * ((n + block - 1) / block * block);

    if (beams && (q->r.sampling.num_beams > w->o.max_num_seqs ||
                  (w->o.kv_cache_tokens && rows > w->o.kv_cache_tokens)))
        return false;
    return w->executor != WAYS_STATIC || (!beams && q->r.prompt_logprobs < 0 && !q->r.return_prompt_logits);
}

/* ---- engines ---- */

static const int32_t *right_answer(void *ctx, const struct seq *s, size_t *n)
{
    const struct answer *all = ctx;
    const struct bytes *ids = &all[(size_t)s->user].choice[s->choice].ids;

    *n = ids->n / sizeof(int32_t);
    return (const int32_t *)(const void *)ids->at;
}

int ways_open(struct ways_engine *e, const struct ways_model *m, const struct way *w, struct answer *answer,
              const char *store, char err[GALLOP_ERR_SIZE])
{
    struct gallop_options o = w->o;
    int rc;

    o.kv_store = w->stores ? store : NULL;
    if ((rc = engines_try(&e->g, m->path, &o, err)) != 0)
        return rc;
    if (w->executor == WAYS_STATIC)
        static_shapes_drive(&e->shapes, e->g);
    if (w->executor == WAYS_DYING) {
        dying_drive(&e->dying, e->g);
        e->dying.every = w->dies;
        e->dying.n_no_opens = w->n_no_opens;
        e->dying.n_laters = w->n_laters;
    }
    e->oracle = (struct oracle){.accept = w->accept,
                                .n_vocab = engine_llm(e->g)->model.info.vocab,
                                .answer = right_answer,
                                .ctx = answer};
    oracle_init(&e->oracle, w->n_guesses);
    if (w->guesses == WAYS_ORACLE)
        engine_loop(e->g)->guesser = &e->oracle.guesser;
    return 0;
}

/* ---- descriptions ---- */

static const char *or_usual(const char *text)
{
    return text ? text : "-";
}

void ways_describe_model(const struct ways_model *m, char *out, size_t size)
{
    snprintf(out, size, "%s, dtype %s, quant %s, kv_cache_dtype %s, kv_sparse %s", m->name,
             or_usual(m->dtype), or_usual(m->quant), or_usual(m->kv_dtype), or_usual(m->kv_sparse));
}

void ways_describe(const struct way *w, char *out, size_t size)
{
    static const char *const executors[] = {"", ", static shapes", ", an executor that dies"};
    const struct gallop_options *o = &w->o;
    int n = snprintf(
        out, size,
        "%s %s, blocks of %lld, %lld rows, index %s%s, %lld sequences, %lld rows a step, scheduler %s, "
        "policy %s, admission %s, %d threads%s",
        or_usual(o->kv_cache_type), or_usual(o->kv_cache_layout), (long long)o->block_size,
        (long long)o->kv_cache_tokens, or_usual(o->prefix_index), w->stores ? ", a store" : "",
        (long long)o->max_num_seqs, (long long)o->max_batched_tokens, or_usual(o->scheduler),
        or_usual(o->scheduling_policy), or_usual(o->admission), o->threads, executors[w->executor]);

    if (n >= 0 && (size_t)n < size && w->executor == WAYS_DYING)
        n += snprintf(out + n, size - (size_t)n, " every %d runs", (int)w->dies);
    if (n >= 0 && (size_t)n < size && w->guesses == WAYS_ORACLE)
        n += snprintf(out + n, size - (size_t)n, ", %zu guesses, of which %.0f %% are right", w->n_guesses,
                      100 * w->accept);
    if (n >= 0 && (size_t)n < size && w->guesses == WAYS_CONFIG)
        snprintf(out + n, size - (size_t)n, ", %s", o->speculative_config);
}
