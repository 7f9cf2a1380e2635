/* open.c - opens the parts of an engine: finds the model, reads its weights, generation config and facts, and opens the
 * executor.
 */
#include "engine/open/open.h"

#include <string.h>

#include "base/buf.h"
#include "base/files/map.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "ckpt/config.h"
#include "engine/embeddings/embedder.h"
#include "engine/gallop_priv.h"
#include "engine/llm.h"
#include "engine/open/find_model.h"
#include "engine/open/options.h"
#include "engine/pjrt/frames.h"
#include "engine/pjrt/plugin_source.h"
#include "engine/sampling/sampling.h"
#include "text/tok/tok.h"

int engine_read_source(const struct gallop_options *o, bool is_executor, struct llm_source *s, struct err *e)
{
    const struct find_model_options where = {
        .revision = o->revision, .progress = o->download, .progress_ctx = o->download_ctx};
    int rc = engine_options_check(o, is_executor, e);

    *s = (struct llm_source){.pool = o->share_pool ? o->share_pool->pool : NULL, .no_prefixes = is_executor};
    if (rc)
        return rc;
    if (!o->model)
        return err_about(e, ERR_INPUT, "model", "the name or path of a model is missing");
    return find_model_path(s->path, sizeof(s->path), o->model, &where, e);
}

/* Reads generation_config.json, or the generation config that a GGUF or packed file contains. */
static int read_generation(const struct llm *m, struct sampling *config, struct arena *a, struct err *e)
{
    struct checkpoint *c = m->model.checkpoint;
    const struct buf *text;
    int rc = checkpoint_generation(&text, c, e);

    if (rc)
        return rc;
    return text ? sampling_from_text(text->data, text->len, c->in.path, m->model.info.vocab, config, a, e)
                : sampling_from_generation_config(c->in, m->model.info.vocab, config, a, e);
}

/* Adds the end token ID, which SOURCE of the checkpoint names, to CONFIG; an id outside the vocabulary is
 * ignored, with a warning. */
static int add_end(const struct llm *m, struct sampling *config, int64_t id, const char *source,
                   struct arena *a, struct err *e)
{
    if (id < 0)
        return 0;
    if ((size_t)id < m->model.info.vocab)
        return sampling_add_eos(config, (int32_t)id, a, e);
    log_warn("%s: ignored the end token %lld of %s: the model's vocabulary has %zu tokens",
             m->model.checkpoint->in.path, (long long)id, source, m->model.info.vocab);
    return 0;
}

/* Reads the generation config and adds end tokens as vLLM does: the end tokens of generation_config.json (if
 * it has none, of config.json) and the end token of the tokenizer. */
static int read_config(const struct llm *m, struct sampling *config, struct arena *a, struct err *e)
{
    int64_t eos[64];
    size_t n = 0;
    int rc = read_generation(m, config, a, e);

    if (rc == 0 && !sampling_given(config, SAMPLING_EOS_TOKEN_ID))
        rc = config_ints_or_int(m->model.config, "eos_token_id", eos, 64, &n, e);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = add_end(m, config, eos[i], "config.json", a, e);
    if (rc)
        return rc;
    sampling_mark(config, SAMPLING_EOS_TOKEN_ID);
    return add_end(m, config, m->tok ? tok_eos(m->tok) : -1, "the tokenizer", a, e);
}

/* Unblocks SIGBUS while files are mapped, so that a truncated file causes an error instead of ending the
 * process (base/files/map.h). */
int engine_open_llm(struct llm *m, const struct gallop_options *o, const struct llm_source *s,
                    struct sampling *config, struct arena *a, struct err *e)
{
    int rc;
    MAP_READING();

    if ((rc = llm_open(m, o, s, e)) != 0 || (rc = read_config(m, config, a, e)) != 0)
        return rc;
    if (o->has_seed) {
        config->seed = o->seed;
        sampling_mark(config, SAMPLING_SEED);
    }
    return 0;
}

/* Unlike engine_open_llm(), does not unblock SIGBUS, because the plugin maps its files itself. */
int engine_open_executor(struct executor *x, struct frames **frames, struct plugin_source **plugin,
                         struct llm *m, const struct gallop_options *o, size_t most_rows, size_t most_guesses,
                         struct err *e)
{
    struct frames_options f = {.most_rows = most_rows < m->max_tokens ? most_rows : m->max_tokens,
                               .most_guesses = most_guesses,
                               .progress = o->progress,
                               .progress_ctx = o->progress_ctx};
    int rc = 0;

    if (!o->executor || strcmp(o->executor, "pjrt") != 0) {
        llm_executor(m, x);
        return 0;
    }
    f.source = *plugin = mem_zalloc(1, sizeof(**plugin), MEM_ENGINE);
    if (!f.source)
        return err_nomem(e, "the executor");
    rc = plugin_source_read(f.source, o->pjrt_plugin, o->pjrt_options, (size_t)o->pjrt_device, e);
    f.source->has_process = o->executor_process != 0;
    f.most_rows = f.most_rows < m->max_len ? f.most_rows : m->max_len;
    if (o->prompt_buckets && rc == 0)
        rc = frames_read_buckets(&f.prompts, o->prompt_buckets, "prompt_buckets", f.most_rows, e);
    if (o->batch_buckets && rc == 0)
        rc = frames_read_buckets(&f.batches, o->batch_buckets, "batch_buckets", m->max_seqs, e);
    if (o->context_buckets && rc == 0)
        rc = frames_read_buckets(&f.contexts, o->context_buckets, "context_buckets", m->max_len, e);
    if (rc == 0 && (rc = frames_open(frames, m, &f, e)) == 0)
        frames_executor(*frames, x);
    return rc;
}

bool engine_close_executor(struct frames *f, struct plugin_source *plugin)
{
    if (!frames_close(f))
        return false;
    if (plugin)
        plugin_source_fini(plugin);
    mem_free(plugin);
    return true;
}

int engine_read_info(struct gallop *g, const char *model, struct err *e)
{
    const struct llm *m = g->llm;
    const struct model *w = &m->model;
    const struct checkpoint *c = w->checkpoint;
    char name[512];

    llm_describe(m, &g->model);
    find_model_name(model, model, name, sizeof(name));
    if (!(g->model.name = arena_strndup(&g->config_arena, name, strlen(name))))
        return err_nomem(e, "the engine");
    g->info = (struct engine_info){.model = &g->model,
                                   .tok = m->tok,
                                   .defaults = g->config,
                                   .is_gguf = c && c->gguf.n,
                                   .is_bidirectional = w->bidirectional,
                                   .has_store = m->store != NULL,
                                   .load_s = m->load_s};
    return 0;
}

int engine_open_chat(const struct gallop *g, struct chat **out, struct err *e)
{
    MAP_READING();

    return checkpoint_chat(out, g->llm->model.checkpoint, e);
}

int engine_read_embedder(struct gallop *g, struct err *e)
{
    struct err *missing = &g->embedder_missing;
    int rc;
    MAP_READING();

    rc = embedder_open(g->embedder, g->llm->model.checkpoint, missing);
    if (rc == 0)
        rc = dense_check(&g->embedder->dense, g->llm->model.info.hidden, missing);
    if (rc == ERR_NOMEM)
        *e = *missing;
    return rc == ERR_NOMEM ? rc : 0;
}
