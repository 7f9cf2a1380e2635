/* gallop.c - the engine of gallop.h: opens it, accepts requests from any thread, computes steps, and gives
 * events.
 *
 * Submissions and cancellations are posted without a lock; the thread that calls gallop_step() processes
 * them between two steps. */
#include "gallop.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/files/map.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/threads/pool.h"
#include "ckpt/checkpoint.h"
#include "ckpt/config.h"
#include "engine/beams/ask.h"
#include "engine/constraints/constraints.h"
#include "engine/embeddings/embed.h"
#include "engine/embeddings/embedder.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/executor.h"
#include "engine/find_model.h"
#include "engine/guess/sources.h"
#include "engine/llm.h"
#include "engine/options.h"
#include "engine/pjrt/frames.h"
#include "engine/pjrt/plugin_source.h"
#include "engine/sampling/public_sampling.h"
#include "engine/sampling/sample.h"
#include "engine/sampling/sampling.h"
#include "engine/schedule/waiting.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "kv/store/store.h"
#include "text/tok/ids.h"
#include "text/tok/infill.h"
#include "text/tok/tok.h"

enum { PENDING_CANCELS = 256, DEFAULT_TARGET_MS = 700 };

/* A flag in an entry of gallop.cancel. It cancels all requests whose ids are at most the id in the other bits. */
#define CANCEL_UP_TO (UINT64_C(1) << 63)

struct gallop {
    struct llm llm;
    struct executor executor;
    struct step step;
    struct constraints constraints;
    struct guess_sources *guesses; /* NULL: no speculative decoding */
    struct frames *frames;         /* the executor "pjrt"; NULL: llm.h computes */
    struct plugin_source plugin;   /* plugin of the executor "pjrt" */
    struct engine_info info;
    struct gallop_model_info model; /* info.model points to it */
    struct sampling config;         /* values of generation_config.json, with the model's end tokens */
    struct arena config_arena;
    struct texts *texts; /* NULL in engines that gallop_open() did not open; closed by CLOSE_TEXTS */
    void (*close_texts)(struct texts *t);
    struct embedder embedder;    /* result of engine_read_embedder() */
    struct err embedder_missing; /* why `embedder` cannot be used; code 0: it can */
    _Atomic uint64_t last_id;    /* id of the newest request; also read by gallop_cancel() */
    struct rng_seeds seeds;      /* seeds for requests that give none */
    _Atomic(struct seq *) inbox; /* list of submitted sequences that no step has accepted, newest first */
    _Atomic bool sleeping;       /* gallop_step() waits for the condition `submitted` */
    bool woken;                  /* engine_wake() was called since the last wait */
    pthread_mutex_t lock;        /* protects this wait and `woken` only */
    pthread_cond_t submitted;
    /* the sequence of the last event, if it was FINISHED; freed by the next gallop_take() */
    struct seq *finished;
    /* pending cancellations: an id, or CANCEL_UP_TO | id; 0: free */
    _Atomic uint64_t cancel[PENDING_CANCELS];
};

_Static_assert((int)GALLOP_BAD_INPUT == (int)ERR_INPUT && (int)GALLOP_UNSUPPORTED == (int)ERR_UNSUPPORTED &&
                   (int)GALLOP_OS_ERROR == (int)ERR_OS && (int)GALLOP_NO_MEMORY == (int)ERR_NOMEM &&
                   (int)GALLOP_NO_SPACE == (int)ERR_NOSPACE && (int)GALLOP_CANCELLED == (int)ERR_CANCELLED,
               "internal error codes are returned unchanged");
_Static_assert(sizeof(((struct err *)0)->msg) <= GALLOP_ERR_SIZE, "every sentence fits the caller's buffer");
_Static_assert((int)ENGINE_FAIR_KEYS == (int)WAITING_KEYS, "engine_fair_key() returns waiting_key()");
_Static_assert(sizeof(struct gallop_logprob) == sizeof(struct sample_top),
               "arrays of log-probabilities are returned unchanged");

int engine_give(char *err, const struct err *e, int rc)
{
    if (rc && err)
        err_text(e, err, GALLOP_ERR_SIZE);
    return rc;
}

const char *gallop_version(void)
{
    return GALLOP_VERSION;
}

/* ---- open ---- */

void gallop_options_init(struct gallop_options *o)
{
    memset(o, 0, sizeof(*o));
}

int engine_read_source(const struct gallop_options *o, bool is_executor, struct llm_source *s, struct err *e)
{
    const struct find_model_options where = {
        .revision = o->revision, .progress = o->download, .progress_ctx = o->download_ctx};
    int rc = engine_options_check(o, is_executor, e);

    *s = (struct llm_source){.pool = o->share_pool ? o->share_pool->llm.pool : NULL,
                             .no_prefixes = is_executor};
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

/* ---- the step's options ---- */

/* Returns true if the value CHOSEN of an option is NAME. CHOSEN may be NULL (the default). */
static bool is_chosen(const char *chosen, const char *name)
{
    return chosen && strcmp(chosen, name) == 0;
}

/* Sets initial estimates, rather too high, of the seconds to read the weights and to compute a row, until
 * steps are measured. */
static void guess_costs(const struct llm *m, struct step_options *s)
{
    const double flops = 2e10 * pool_threads(m->pool), bytes = 1e10;

    s->step_guess_s = (double)m->model.packed_bytes / bytes;
    s->row_guess_s = (double)m->model.packed_bytes / flops;
}

static void read_step_options(const struct gallop_options *o, const struct llm *m, struct step_options *s)
{
    bool prompts_first = is_chosen(o->scheduler, "continuous_prefill_first");

    *s = (struct step_options){.one_by_one = is_chosen(o->scheduler, "iterative"),
                               .max_queued = (size_t)o->max_num_queued_reqs,
                               .max_queued_tokens = (size_t)o->max_num_queued_tokens,
                               .policy = WAITING_FCFS,
                               .order = prompts_first ? SCHED_PROMPTS_FIRST : SCHED_DECODES_FIRST,
                               .worst_case = is_chosen(o->admission, "worst-case"),
                               .target_s =
                                   (o->tpot_target_ms > 0 ? o->tpot_target_ms : DEFAULT_TARGET_MS) / 1000};
    if (o->scheduling_policy)
        waiting_policy_of_name(o->scheduling_policy, &s->policy);
    guess_costs(m, s);
}

/* Opens the sources of guesses. SIGBUS is unblocked as in engine_open_llm(), because a draft model may be opened. */
static int open_guesses(struct gallop *g, const struct gallop_options *o, struct err *e)
{
    MAP_READING();

    return guess_sources_open(&g->guesses, o, &g->llm, e);
}

/* Unlike engine_open_llm(), does not unblock SIGBUS, because the plugin maps its files itself. */
int engine_open_executor(struct executor *x, struct frames **frames, struct plugin_source *plugin,
                         struct llm *m, const struct gallop_options *o, size_t most_rows, size_t most_guesses,
                         struct err *e)
{
    struct frames_options f = {.source = plugin,
                               .most_rows = most_rows < m->max_tokens ? most_rows : m->max_tokens,
                               .most_guesses = most_guesses,
                               .progress = o->progress,
                               .progress_ctx = o->progress_ctx};
    int rc = 0;

    if (!is_chosen(o->executor, "pjrt")) {
        llm_executor(m, x);
        return 0;
    }
    rc = plugin_source_read(plugin, o->pjrt_plugin, o->pjrt_options, (size_t)o->pjrt_device, e);
    plugin->has_process = o->executor_process != 0;
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

static int open_step(struct gallop *g, const struct gallop_options *o, struct err *e)
{
    struct step_options so;
    size_t n_seqs;
    int rc;

    read_step_options(o, &g->llm, &so);
    n_seqs = so.max_seqs ? so.max_seqs : g->llm.max_seqs;
    if (o->speculative_config && (rc = open_guesses(g, o, e)) != 0)
        return rc;
    rc = engine_open_executor(&g->executor, &g->frames, &g->plugin, &g->llm, o,
                              n_seqs > SCHED_ROWS ? n_seqs : SCHED_ROWS,
                              g->guesses ? g->guesses->maker.most : 0, e);
    if (rc || (rc = step_open(&g->step, &g->executor, &so, e)) != 0)
        return rc;
    g->step.guesser = g->guesses ? &g->guesses->maker : NULL;
    return 0;
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

static int fill_info(struct gallop *g, const char *model, struct err *e)
{
    const struct llm *m = &g->llm;
    const struct model *w = &m->model;
    const struct checkpoint *c = w->checkpoint;

    char name[512];

    llm_describe(m, &g->model);
    find_model_name(model, model, name, sizeof(name));
    if (!(g->model.name = arena_strndup(&g->config_arena, name, strlen(name))))
        return err_nomem(e, "the engine");
    g->info = (struct engine_info){.model = &g->model,
                                   .tok = m->tok,
                                   .defaults = &g->config,
                                   .is_gguf = c && c->gguf.n,
                                   .is_bidirectional = w->bidirectional,
                                   .has_store = m->store != NULL,
                                   .has_priorities = g->step.waiting.policy != WAITING_FCFS,
                                   .load_s = m->load_s};
    return 0;
}

int engine_open(struct gallop **out, const struct gallop_options *o, struct checkpoint *c, struct err *e)
{
    struct llm_source source;
    pthread_condattr_t clock;
    struct gallop *g;
    int rc;

    *out = NULL;
    if ((rc = engine_read_source(o, false, &source, e)) != 0)
        return rc;
    source.checkpoint = c;
    g = mem_zalloc(1, sizeof(*g), MEM_ENGINE);
    if (!g)
        return err_nomem(e, "the engine");
    arena_init(&g->config_arena, MEM_ENGINE);
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&g->submitted, &clock);
    pthread_condattr_destroy(&clock);
    rng_seeds_init(&g->seeds);
    if (source.pool)
        pool_lock(source.pool);
    if ((rc = engine_open_llm(&g->llm, o, &source, &g->config, &g->config_arena, e)) == 0 &&
        (rc = open_step(g, o, e)) == 0)
        rc = fill_info(g, o->model, e);
    if (source.pool)
        pool_unlock(source.pool);
    if (rc) {
        gallop_close(g);
        return rc;
    }
    constraints_open(&g->constraints, g->llm.tok);
    *out = g;
    return 0;
}

int engine_open_chat(const struct gallop *g, struct chat **out, struct err *e)
{
    MAP_READING();

    return checkpoint_chat(out, g->llm.model.checkpoint, e);
}

int engine_read_embedder(struct gallop *g, struct err *e)
{
    struct err *missing = &g->embedder_missing;
    int rc;
    MAP_READING();

    rc = embedder_open(&g->embedder, g->llm.model.checkpoint, missing);
    if (rc == 0)
        rc = dense_check(&g->embedder.dense, g->llm.model.info.hidden, missing);
    if (rc == ERR_NOMEM)
        *e = *missing;
    return rc == ERR_NOMEM ? rc : 0;
}

int engine_embedder(const struct gallop *g, enum gallop_pooling pooling, const struct embedder **out,
                    struct err *e)
{
    *out = pooling == GALLOP_POOL_AUTO ? &g->embedder : NULL;
    ASSERT(!*out || g->embedder.pooling || g->embedder_missing.code,
           "an engine that gallop_open() did not open");
    if (*out && g->embedder_missing.code && e)
        *e = g->embedder_missing;
    return *out ? g->embedder_missing.code : 0;
}

void gallop_close(struct gallop *g)
{
    if (!g)
        return;
    seq_free(g->finished);
    seq_free_list(atomic_load(&g->inbox));
    step_close(&g->step);
    guess_sources_close(g->guesses);
    if (!frames_close(g->frames))
        return; /* a call of the plugin that has not returned still uses the rest of G */
    plugin_source_fini(&g->plugin);
    if (g->texts)
        g->close_texts(g->texts);
    embedder_close(&g->embedder);
    constraints_close(&g->constraints);
    llm_close(&g->llm);
    arena_fini(&g->config_arena);
    pthread_cond_destroy(&g->submitted);
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
}

void engine_keep_texts(struct gallop *g, struct texts *t, void (*close)(struct texts *t))
{
    g->texts = t;
    g->close_texts = close;
}

struct texts *engine_texts(const struct gallop *g)
{
    ASSERT(g->texts, "an engine that gallop_open() did not open");
    return g->texts;
}

struct llm *engine_llm(struct gallop *g)
{
    return &g->llm;
}

const struct frames *engine_frames(const struct gallop *g)
{
    return g->frames;
}

const struct constraints *engine_constraints(const struct gallop *g)
{
    return &g->constraints;
}

struct step *engine_loop(struct gallop *g)
{
    return &g->step;
}

const struct step *engine_scheduling(const struct gallop *g)
{
    return &g->step;
}

const struct guess_sources *engine_guesses(const struct gallop *g)
{
    return g->guesses;
}

void engine_executor_state(const struct gallop *g, struct engine_executor *s)
{
    const struct outage *o = &g->step.outage;

    *s = (struct engine_executor){.is_down = atomic_load(&o->is_down),
                                  .n_restarts = atomic_load(&o->n_restarts)};
    if (g->frames)
        frames_state(g->frames, s);
}

void engine_executor_program(const struct gallop *g, size_t i, struct engine_program *p)
{
    frames_program(g->frames, i, p);
}

uint32_t engine_fair_key(const char *key, size_t n)
{
    return waiting_key(key, n);
}

const struct engine_info *engine_info(const struct gallop *g)
{
    return &g->info;
}

/* ---- submit ---- */

void gallop_request_init(struct gallop_request *r)
{
    *r = (struct gallop_request){
        .text_len = SIZE_MAX, .suffix_len = SIZE_MAX, .n = 1, .prompt_logprobs = -1, .speculative = 1};
    public_sampling_init(&r->sampling);
}

/* Sets *FIRST to the index of the first token after the left padding. */
static int skip_padding(const struct gallop_request *r, size_t *first, struct err *e)
{
    *first = 0;
    if (!r->mask)
        return 0;
    while (*first < r->n_ids && r->mask[*first] == 0)
        ++*first;
    for (size_t i = *first; i < r->n_ids; i++)
        if (r->mask[i] == 0)
            return err_set(
                e, ERR_INPUT,
                "the attention mask has a 0 at position %zu behind a 1; padding is supported on the left only",
                i);
    return 0;
}

/* Writes the texts of o->choice to OUT as a JSON array. */
static int write_choices(const struct gallop_structured_outputs *o, struct buf *out, struct err *e)
{
    buf_json_begin(out, '[');
    for (size_t i = 0; i < o->n_choice; i++) {
        if (!o->choice || !o->choice[i])
            return err_about(e, ERR_INPUT, "structured_outputs", "choice: text %zu of %zu is NULL", i,
                             o->n_choice);
        buf_json_str(out, o->choice[i], strlen(o->choice[i]));
    }
    buf_json_end(out, ']');
    return out->oom ? err_nomem(e, "a request") : 0;
}

/* Describes the constraint of R in *SOURCE, which may borrow text from CHOICES. Sets *IS_GIVEN to whether R has a
 * constraint. */
static int describe_constraint(const struct gallop_request *r, struct constraint_source *source,
                               struct buf *choices, bool *is_given, struct err *e)
{
    const struct gallop_structured_outputs *o = &r->structured_outputs;
    const struct {
        bool is_given;
        enum constraint_kind kind;
        const char *text;
    } way[] = {{o->json, CONSTRAINT_JSON_SCHEMA, o->json},
               {o->regex, CONSTRAINT_REGEX, o->regex},
               {o->choice || o->n_choice, CONSTRAINT_CHOICE, NULL},
               {o->grammar, CONSTRAINT_GRAMMAR, o->grammar},
               {o->json_object, CONSTRAINT_JSON_OBJECT, ""},
               {o->structural_tag, CONSTRAINT_TAG, o->structural_tag}};
    int n = 0, rc = 0;

    *source = (struct constraint_source){.kind = CONSTRAINT_NONE,
                                         .is_lax = o->ignore_unsupported != 0,
                                         .is_compact = o->disable_any_whitespace != 0,
                                         .is_open = o->allow_additional_properties != 0,
                                         .whitespace = o->whitespace_pattern,
                                         .after = o->begins_after,
                                         .open = o->may_begin_with,
                                         .has_channels = o->has_channels != 0,
                                         .tools = o->tool_calls};
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++)
        if (way[i].is_given) {
            source->kind = way[i].kind;
            source->text = way[i].text;
            n++;
        }
    *is_given = n > 0 || o->tool_calls;
    if (!*is_given)
        return 0;
    if (n > 1 || r->pooling)
        return err_about(e, ERR_INPUT, "structured_outputs",
                         n > 1 ? "found %d constraints, expected one" : "embeddings cannot have a constraint",
                         n);
    if (source->kind == CONSTRAINT_CHOICE && (rc = write_choices(o, choices, e)) == 0)
        source->text = choices->data;
    source->n = rc || !source->text ? 0 : strlen(source->text);
    if (rc)
        err_subject(e, "structured_outputs");
    return rc;
}

/* Compiles the constraint of R, if any, or takes it from the cache, and sets it in SR. */
static int read_constraint(struct gallop *g, const struct gallop_request *r, struct seq_request *sr,
                           struct err *e)
{
    struct constraint_fault fault = {.is_in_tools = false};
    struct buf choices = {.tag = MEM_ENGINE};
    struct constraint_source source;
    bool is_given;
    int rc = describe_constraint(r, &source, &choices, &is_given, e);

    if (rc == 0 && is_given) {
        sr->constraints = &g->constraints;
        rc = constraints_get(&g->constraints, &source, &sr->constraint, &fault, e);
        if (rc)
            err_subject(e, fault.is_in_tools ? "structured_outputs.tool_calls" : "structured_outputs");
    }
    buf_fini(&choices);
    return rc;
}

bool engine_is_compiled(struct gallop *g, const struct gallop_request *r)
{
    struct buf choices = {.tag = MEM_ENGINE};
    struct constraint_source source;
    struct err e = {0};
    bool is_given, has;

    has = describe_constraint(r, &source, &choices, &is_given, &e) != 0 || !is_given ||
          constraints_has(&g->constraints, &source);
    buf_fini(&choices);
    return has;
}

/* Refuses a beam search of SR if the number of tokens that USER asks for cannot fit into the KV cache. A search whose
 * request gives no max_new_tokens is not refused: it may end before the cache is full. */
static int check_beams(const struct gallop *g, const struct sampling *user, const struct seq_request *sr,
                       struct err *e)
{
    size_t room = g->llm.max_len - sr->n_ids, n = user->max_new_tokens < room ? user->max_new_tokens : room;

    if (!sr->n_beams || !sampling_given(user, SAMPLING_MAX_NEW_TOKENS) || sr->n_ids == 0 ||
        sr->n_ids > g->llm.max_len || n == 0)
        return 0; /* seq_new() refuses invalid requests */
    return ask_fits(&g->step.x->caps, sr->n_ids, n, sr->n_beams, e);
}

/* Reads which rows of logits and probabilities the events of R contain. */
static int read_kept(const struct gallop *g, const struct gallop_request *r, struct seq_request *sr,
                     struct err *e)
{
    const char *name = r->return_logits          ? "return_logits"
                       : r->return_probs         ? "return_probs"
                       : r->return_prompt_logits ? "return_prompt_logits"
                                                 : NULL;

    if (name && (sr->n_beams || r->pooling))
        return err_about(e, ERR_UNSUPPORTED, name, "%s has no rows of logits",
                         r->pooling ? "an embedding" : "beam search");
    sr->keeps_logits = r->return_logits != 0;
    sr->keeps_probs = r->return_probs != 0;
    sr->n_kept_prompt = r->return_prompt_logits ? g->step.x->caps.max_logits : 0;
    if (r->return_prompt_logits && sr->prompt_logprobs < 0)
        sr->prompt_logprobs = 0;
    return 0;
}

/* Validates R and SR and creates the list of sequences of all answers to R. X: see read_ids(). */
static int new_answers(struct gallop *g, const struct gallop_request *r, const struct embedder *x,
                       const struct sampling *user, struct sampling *merged, struct seq_request *sr,
                       struct seq **out, struct err *e)
{
    uint8_t salt[DIGEST_BYTES]; /* the prefix cache uses the first 16 bytes */
    int rc = r->cache_salt ? digest_sha256(r->cache_salt, strlen(r->cache_salt), salt, e) : 0;

    sr->salt = r->cache_salt ? salt : NULL;
    *out = NULL;
    if (r->n < 0 || r->n > SEQ_MAX_ANSWERS)
        return err_about(e, ERR_INPUT, "n", "found %lld, expected 1 to %d answers", (long long)r->n,
                         SEQ_MAX_ANSWERS);
    if (r->prompt_logprobs < -1 || r->prompt_logprobs > SAMPLING_MAX_LOGPROBS)
        return err_about(e, ERR_INPUT, "prompt_logprobs", "found %lld, expected 0 to %d, or -1 for none",
                         (long long)r->prompt_logprobs, SAMPLING_MAX_LOGPROBS);
    if ((unsigned)r->pooling > GALLOP_POOL_AUTO ||
        (r->pooling && (r->n > 1 || r->prompt_logprobs >= 0 || sr->sampling->max_new_tokens != 0)))
        return err_about(
            e, ERR_INPUT, "pooling",
            "an embedding needs n 1 and max_new_tokens 0, and prompt_logprobs must not be given");
    if (r->pooling && g->step.x->caps.n_hidden == 0)
        return err_about(e, ERR_UNSUPPORTED, "pooling", "this executor computes no embeddings");
    if (!r->pooling && g->llm.model.info.headless)
        return err_set(e, ERR_UNSUPPORTED, "this model %s, so it can only compute embeddings",
                       g->llm.model.bidirectional ? "has bidirectional attention"
                                                  : "has no language model head (lm_head.weight is missing)");
    if (g->llm.model.bidirectional && sr->n_ids > g->llm.max_tokens)
        return err_set(
            e, ERR_INPUT,
            "the prompt has %zu tokens, expected at most max_batched_tokens, %zu, because a model with bidirectional "
            "attention computes the whole prompt in one step",
            sr->n_ids, g->llm.max_tokens);
    sr->pooling = (enum seq_pooling)(x ? x->pooling : r->pooling);
    sr->n_hidden = g->llm.model.info.hidden;
    if (!(r->deadline_s >= 0))
        return err_about(e, ERR_INPUT, "deadline_s", "found %g, expected 0 or more", r->deadline_s);
    sr->prompt_logprobs = (int)r->prompt_logprobs;
    rc = rc ? rc : ask_read(r, user, merged, &g->step.x->caps, g->step.opt.max_seqs, &sr->n_beams, e);
    rc = rc ? rc : check_beams(g, user, sr, e);
    rc = rc ? rc : read_kept(g, r, sr, e);
    rc = rc ? rc : read_constraint(g, r, sr, e);
    return rc ? rc
              : seq_new(out, sr, r->n ? (size_t)r->n : 1, g->llm.tok, g->llm.model.info.vocab, g->llm.max_len,
                        e);
}

/* Posts S and its siblings to the inbox and wakes the computing thread. Returns the id of the request. */
static uint64_t post(struct gallop *g, struct seq *s)
{
    uint64_t id = atomic_fetch_add(&g->last_id, 1) + 1;

    s->queued = true;
    s->id = id;
    s->wait.arrival_s = g->executor.clock_s(g->executor.ctx);
    for (struct seq *q = s->sibling; q; q = q->next)
        q->id = id;
    s->next = atomic_load(&g->inbox);
    while (!atomic_compare_exchange_weak(&g->inbox, &s->next, s))
        ;
    if (atomic_load(&g->sleeping)) {
        pthread_mutex_lock(&g->lock);
        pthread_cond_signal(&g->submitted);
        pthread_mutex_unlock(&g->lock);
    }
    return id;
}

/* Sets the prompt of SR to the ids of R, or to the tokens of the text of R, which are stored in IDS. X: the settings
 * for the prompt of an embedding; NULL: none. */
static int read_ids(const struct gallop *g, const struct gallop_request *r, const struct embedder *x,
                    struct seq_request *sr, struct tok_ids *ids, struct err *e)
{
    unsigned flags = r->no_special ? 0 : TOK_ADD_SPECIAL;
    size_t first, n, n_cut;
    int rc;

    if (r->suffix && !r->text)
        return err_about(e, ERR_INPUT, "suffix", "the text before the gap, `text`, is missing");
    if (!r->text) {
        if ((rc = skip_padding(r, &first, e)) == 0) {
            sr->ids = r->ids ? r->ids + first : NULL;
            sr->n_ids = r->n_ids - first;
            if (x)
                embed_ids(x, &sr->ids, &sr->n_ids);
        }
        return rc;
    }
    if (r->ids || r->n_ids)
        return err_set(e, ERR_INPUT, "the prompt is given as text and as ids; one of them is expected");
    if (!g->llm.tok)
        return err_set(e, ERR_INPUT, "a prompt that is text needs a tokenizer: %s", g->llm.tok_missing.msg);
    n = r->text_len == SIZE_MAX ? strlen(r->text) : r->text_len;
    rc = r->suffix
             ? infill_encode(g->llm.tok, r->text, n, r->suffix,
                             r->suffix_len == SIZE_MAX ? strlen(r->suffix) : r->suffix_len, flags, ids, e)
         : x ? embed_text(x, g->llm.tok, r->text, n, !r->no_special, ids, &n_cut, e)
             : tok_encode(g->llm.tok, r->text, n, flags, ids, e);
    sr->ids = ids->id;
    sr->n_ids = ids->n;
    return rc;
}

/* Adds the tokens that end the middle of a fill-in-the-middle prompt to the end tokens of S. Memory is allocated in
 * A. */
static int add_infill_ends(const struct gallop *g, const struct gallop_request *r, struct sampling *s,
                           struct arena *a, struct err *e)
{
    int32_t id[INFILL_MAX_ENDS];
    size_t n = (r->suffix || r->infill) && g->llm.tok ? infill_ends(g->llm.tok, id) : 0;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        if ((size_t)id[i] < g->step.x->caps.n_vocab)
            rc = sampling_add_eos(s, id[i], a, e);
    return rc;
}

int engine_submit(struct gallop *g, const struct gallop_request *r, const struct sampling *user, uint64_t *id,
                  struct err *e)
{
    struct seq_request sr = {.keep_special = r->keep_special != 0,
                             .user = r->user,
                             .priority = r->priority,
                             .key = waiting_key(r->key, r->key ? strlen(r->key) : 0),
                             .limit_s = r->deadline_s,
                             .most_guesses = r->speculative && g->step.guesser ? g->step.guesser->most : 0,
                             .lookup_length = g->guesses ? guess_sources_lookup(g->guesses) : 0};
    const struct embedder *x = NULL;
    struct tok_ids ids = {0};
    struct sampling merged;
    struct arena arena;
    struct seq *s = NULL;
    int rc;

    arena_init(&arena, MEM_ENGINE);
    sampling_merge(&merged, user, &g->config);
    if (!sampling_given(&merged, SAMPLING_SEED))
        merged.seed = rng_seeds_next(&g->seeds);
    sr.sampling = &merged;
    /* A budget of the model's generation config is ignored if the marks of its reasoning are not known, and
     * with beam search. */
    sr.reasoning = (struct reasoning_request){
        .is_limited = merged.thinking_token_budget != SIZE_MAX && !sampling_is_search(user) &&
                      (r->reasoning_close || sampling_given(user, SAMPLING_THINKING_TOKEN_BUDGET)),
        .budget = merged.thinking_token_budget,
        .open = r->reasoning_open,
        .close = r->reasoning_close,
        .call = {r->tool_call_open[0], r->tool_call_open[1]},
        .call_close = r->tool_call_close,
        .begun = r->reasoning_begun != 0};
    rc = engine_embedder(g, r->pooling, &x, e);
    if (rc == 0 && (rc = read_ids(g, r, x, &sr, &ids, e)) == 0 &&
        (rc = add_infill_ends(g, r, &merged, &arena, e)) == 0 &&
        (rc = new_answers(g, r, x, user, &merged, &sr, &s, e)) == 0 &&
        (rc = step_take_place(&g->step, sr.n_ids, e)) != 0)
        seq_free_list(s);
    if (rc == 0) {
        uint64_t own = post(g, s);

        if (id)
            *id = own;
    }
    tok_ids_fini(&ids);
    arena_fini(&arena);
    return rc;
}

int gallop_submit(struct gallop *g, const struct gallop_request *r, uint64_t *id, char *err)
{
    struct sampling user;
    struct err e = {0};
    struct arena arena;
    int rc;

    arena_init(&arena, MEM_ENGINE);
    if ((rc = public_sampling_read(&r->sampling, &user, &arena, &e)) == 0)
        rc = engine_submit(g, r, &user, id, &e);
    arena_fini(&arena);
    return engine_give(err, &e, rc);
}

/* ---- cancel ---- */

int gallop_cancel(struct gallop *g, uint64_t id)
{
    uint64_t last = atomic_load(&g->last_id), mark = id ? id : CANCEL_UP_TO | last;

    if (id > last)
        return 0; /* the id is unknown */
    for (int i = 0; i < PENDING_CANCELS; i++) {
        uint64_t none = 0;

        if (atomic_compare_exchange_strong(&g->cancel[i], &none, mark))
            return 0;
    }
    return -1;
}

/* Moves the pending cancellations to MARK. Returns their number. */
static int take_cancels(struct gallop *g, uint64_t mark[PENDING_CANCELS])
{
    int n = 0;

    for (int i = 0; i < PENDING_CANCELS; i++)
        if (atomic_load_explicit(&g->cancel[i], memory_order_relaxed) != 0)
            mark[n++] = atomic_exchange(&g->cancel[i], 0);
    return n;
}

/* Moves the sequences of the inbox to the step, in order of submission. */
static void take_inbox(struct gallop *g)
{
    struct seq *s = atomic_load_explicit(&g->inbox, memory_order_relaxed), *first = NULL;

    if (!s)
        return;
    for (s = atomic_exchange(&g->inbox, NULL); s;) {
        struct seq *next = s->next;

        s->next = first;
        first = s;
        s = next;
    }
    while (first) {
        struct seq *next = first->next;

        first->next = NULL;
        step_add(&g->step, first);
        first = next;
    }
}

void engine_await(struct gallop *g, double wait_s)
{
    struct timespec until = clock_at(clock_seconds() + wait_s);

    pthread_mutex_lock(&g->lock);
    atomic_store(&g->sleeping, true);
    while (!g->woken && !atomic_load(&g->inbox) &&
           pthread_cond_timedwait(&g->submitted, &g->lock, &until) == 0)
        ;
    g->woken = false;
    atomic_store(&g->sleeping, false);
    pthread_mutex_unlock(&g->lock);
}

void engine_wake(struct gallop *g)
{
    pthread_mutex_lock(&g->lock);
    g->woken = true;
    pthread_cond_signal(&g->submitted);
    pthread_mutex_unlock(&g->lock);
}

/* ---- events ---- */

/* Fills *OUT with the results of the guesses for S. */
static void describe_guesses(const struct seq *s, struct gallop_speculation *out)
{
    size_t n = s->accepted_at ? s->common->most_guesses : 0;

    *out = (struct gallop_speculation){.n_steps = s->guess_counts.n_steps,
                                       .n_drafts = s->guess_counts.n_drafts,
                                       .n_draft_tokens = s->guess_counts.n_guessed,
                                       .n_accepted_tokens = s->guess_counts.n_accepted,
                                       .n_positions = n};
    if (n)
        memcpy(out->accepted_per_pos, s->accepted_at, n * sizeof(*s->accepted_at));
}

/* Fills the FINISHED event of S. */
static void describe_end(const struct seq *s, struct gallop_event *ev)
{
    const struct stop *st = &s->stop;

    ev->type = GALLOP_FINISHED;
    ev->stop_token = st->why == STOP_TOKEN ? st->token : -1;
    ev->stop_string = st->why == STOP_STRING ? s->sampling.stop[st->string].s : NULL;
    ev->finish = s->fault.code            ? GALLOP_FINISH_ERROR
                 : st->why == STOP_LENGTH ? GALLOP_FINISH_LENGTH
                 : st->why != STOP_NONE   ? GALLOP_FINISH_STOP
                 : s->overdue             ? GALLOP_FINISH_DEADLINE
                                          : GALLOP_FINISH_CANCELLED;
    ev->error = s->fault.code ? s->fault.msg : NULL;
    ev->forbids_all = s->limits_itself ? 2 : s->forbids_all;
    ev->context_full = st->why == STOP_LENGTH && s->context_cuts;
    if (s->common->constraint)
        ev->warnings = constraint_warnings(constraints_of(s->common->constraint), &ev->n_warnings);
    ev->has_score = s->has_score;
    ev->score = s->score;
    ev->cumulative_logprob = s->sum_logprob;
    ev->n_prompt = s->n_prompt;
    ev->n_output = seq_n_output(s);
    ev->n_cached = s->n_cached;
    ev->n_stored = s->n_stored;
    describe_guesses(s, &ev->speculation);
    ev->prefill_s = s->t_token > 0 ? s->t_token - s->t_first : 0;
    ev->decode_s = s->t_token > 0 ? s->t_last - s->t_token : 0;
}

/* Returns whether other threads have submitted or cancelled requests. */
static bool has_inbox(const struct gallop *g)
{
    bool found = atomic_load_explicit(&g->inbox, memory_order_relaxed) != NULL;

    for (int i = 0; i < PENDING_CANCELS && !found; i++)
        found = atomic_load_explicit(&g->cancel[i], memory_order_relaxed) != 0;
    return found;
}

/* Moves submissions and cancellations of other threads to the step. The caller has the lock of the pool. */
static void take_over(struct gallop *g)
{
    uint64_t mark[PENDING_CANCELS];
    int n = take_cancels(g, mark); /* must precede take_inbox(), which then finds all cancelled requests */

    take_inbox(g);
    for (int i = 0; i < n; i++)
        if (mark[i] & CANCEL_UP_TO)
            step_cancel_up_to(&g->step, mark[i] & ~CANCEL_UP_TO);
        else
            step_cancel(&g->step, mark[i]);
}

bool engine_is_idle(const struct gallop *g)
{
    return !atomic_load(&g->inbox) && !step_n_waiting(&g->step) && !g->step.n_running &&
           !step_has_events(&g->step);
}

/* Runs a step if there are no events. Returns whether there are events then. */
static bool has_events(struct gallop *g)
{
    bool found;

    if (!has_inbox(g) && step_has_events(&g->step))
        return true;
    pool_lock(g->llm.pool);
    take_over(g);
    found = step_has_events(&g->step) || step_run(&g->step);
    pool_unlock(g->llm.pool);
    return found;
}

int gallop_step(struct gallop *g, double wait_s)
{
    if (has_events(g))
        return 1;
    if (!(wait_s > 0))
        return 0;
    engine_await(g, wait_s);
    return has_events(g);
}

int gallop_take(struct gallop *g, struct gallop_event *ev)
{
    struct step_event se;

    seq_free(g->finished);
    g->finished = NULL;
    if (!step_take(&g->step, &se))
        return 0;
    *ev = (struct gallop_event){.request = se.seq->id, .choice = se.seq->choice, .user = se.seq->user};
    switch (se.type) {
    case STEP_TOKEN:
    case STEP_PROMPT:
        ev->type = se.type == STEP_TOKEN ? GALLOP_TOKEN : GALLOP_PROMPT_TOKEN;
        ev->token = se.token;
        ev->logprob = se.logprob;
        ev->rank = se.rank;
        ev->top = (const struct gallop_logprob *)(const void *)se.top;
        ev->n_top = se.n_top;
        ev->logits = se.logits;
        ev->probs = se.probs;
        break;
    case STEP_TEXT:
        ev->type = GALLOP_TEXT;
        ev->text = se.seq->text.data + se.text;
        ev->text_len = se.text_len;
        ev->special = se.seq->special.data + se.text;
        break;
    case STEP_EMBEDDING:
        ev->type = GALLOP_EMBEDDING;
        ev->embedding = se.seq->pooled;
        ev->n_embedding = g->llm.model.info.hidden;
        break;
    case STEP_FINISHED: describe_end(se.seq, ev); g->finished = se.seq;
    }
    return 1;
}

int gallop_next(struct gallop *g, struct gallop_event *ev)
{
    if (has_inbox(g)) {
        pool_lock(g->llm.pool);
        take_over(g);
        pool_unlock(g->llm.pool);
    }
    while (!gallop_take(g, ev))
        if (!gallop_step(g, 0))
            return 0;
    return 1;
}

_Static_assert((int)GALLOP_MAX_DRAFT_TOKENS == (int)GUESS_MOST, "gallop.h has the maximum number of guesses");
_Static_assert((int)GALLOP_N_OPERATORS == (int)TIMED_N_KINDS, "gallop.h has the number of operator kinds");

/* Returns the bytes of the KV cache that running sequences hold. */
static size_t kv_used_bytes(const struct kv *kv)
{
    size_t held = 0, all = kv_bytes(kv);

    for (size_t i = 0; i < kv->lim.max_seqs; i++)
        held += kv_held_bytes(kv, i);
    return held < all ? held : all; /* HELD counts a shared block once for each sequence that has it */
}

void gallop_stats(const struct gallop *g, struct gallop_stats *s)
{
    struct constraints *constraints =
        (struct constraints *)(uintptr_t)&g->constraints; /* without const, for its lock */
    struct store_stats store = {0};

    if (g->llm.store)
        store_stats(g->llm.store, &store);
    pool_lock(g->llm.pool); /* waits for the end of a step, and of submissions and cancellations */
    *s = (struct gallop_stats){.n_waiting = step_n_waiting(&g->step),
                               .n_running = g->step.n_running,
                               .n_steps = g->step.n_steps,
                               .n_prompt_tokens = g->step.n_prompt_tokens,
                               .n_output_tokens = g->step.n_output_tokens,
                               .n_finished = g->step.n_finished,
                               .n_cached_tokens = g->step.n_cached_tokens,
                               .n_stored_tokens = g->step.n_stored_tokens,
                               .n_store_written = store.n_written,
                               .n_store_read = store.n_read,
                               .n_store_dropped = store.n_dropped,
                               .n_store_damaged = store.n_damaged,
                               .n_preempted = g->step.n_preempted,
                               .n_recomputed_tokens = g->step.n_recomputed,
                               .weight_bytes = g->llm.model.packed_bytes,
                               .kv_bytes = kv_bytes(&g->llm.kv),
                               .kv_used_bytes = kv_used_bytes(&g->llm.kv),
                               .kv_budget_bytes = kv_budget_bytes(g->llm.kv.type->name, &g->llm.kv.lim),
                               .scratch_bytes = llm_scratch_bytes(&g->llm),
                               .max_model_len = g->llm.max_len,
                               .vocab_size = g->llm.model.info.vocab,
                               .load_s = g->llm.load_s,
                               .waited_s = g->llm.timed.waited_seconds,
                               .threads = pool_threads(g->llm.pool),
                               .dtype = g->llm.model.opt.dtype == DT_F32 ? "fp32" : "bf16",
                               .quant = g->llm.model.quant,
                               .isa = g->llm.isa,
                               .grammar_mask = g->step.mask,
                               .n_drafts = g->step.guess_counts.n_drafts,
                               .n_draft_tokens = g->step.guess_counts.n_guessed,
                               .n_accepted_tokens = g->step.guess_counts.n_accepted,
                               .n_draft_positions = g->step.guesser ? g->step.guesser->most : 0};
    constraints_stats(constraints, s);
    memcpy(s->n_accepted_per_pos, g->step.n_accepted_at, sizeof(s->n_accepted_per_pos));
    for (int i = 0; i < TIMED_N_KINDS; i++) {
        const struct timed_kind *k = &g->llm.timed.kind[i];

        s->operators[i] = (struct gallop_operator){timed_name(i), k->seconds, k->bytes, k->flops};
    }
    pool_unlock(g->llm.pool);
}
