/* gallop_executor.c - the executor of gallop.h: checks and computes the runs of a scheduler outside of the library.
 *
 * Sizes, tokens, positions, slots or block lists, and sampling parameters of a run are checked before anything is
 * changed. The run is computed by the same struct executor as the steps of an engine.
 */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/threads/pool.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "engine/open/open.h"
#include "engine/pjrt/frames.h"
#include "engine/sampling/dry.h"
#include "engine/sampling/public_sampling.h"
#include "engine/sampling/sample.h"
#include "engine/sampling/sampling.h"
#include "gallop.h"
#include "model/model.h"

/* The choice of the token that follows the rows of a sequence. */
struct choice {
    bool wanted; /* gallop_rows.pick is given */
    struct sampling sampling;
    const struct gallop_rows *rows;
    const float *logits; /* [V] logits of the last row */
};

struct gallop_executor {
    struct llm llm;
    struct frames *frames;        /* the executor "pjrt"; NULL: llm.h computes */
    struct plugin_source *plugin; /* plugin of `frames` */
    struct executor x;
    struct sampling config; /* values of generation_config.json */
    struct arena arena;     /* memory of the arrays of `config` and of the histories */
    struct rng_seeds seeds; /* seeds of picks that give none */
    uint64_t n_runs;
    uint64_t *last_use;             /* [n_slots or n_blocks] last user: run number << USE_SHIFT | sequence */
    size_t *n_rows;                 /* [n_slots] number of computed rows */
    struct executor_rows *rows;     /* [max_seqs] */
    struct choice *choice;          /* [max_seqs] */
    struct gallop_pick *pick;       /* [max_seqs] */
    struct sample_scratch *sampler; /* [n_samplers] one for each thread */
    struct sample_history *history; /* [n_samplers] one for each thread */
    size_t n_samplers, n_sequences; /* n_sequences: number of sequences of the current run */
    bool is_down;                   /* a run has failed; the next run opens the executor again */
    size_t seen_window, seen_sink;  /* largest window and sink; window 0: some layer has no window */
};

enum { USE_SHIFT = 13 }; /* bits of the number of a sequence in last_use */
_Static_assert(4096 < 1 << USE_SHIFT,
               "numbers of sequences, which are below max_num_seqs, fit USE_SHIFT bits");

/* ---- open ---- */

/* Sets seen_window and seen_sink to the largest window and sink of all layers. */
static void find_seen(struct gallop_executor *x)
{
    const struct model_info *i = &x->llm.model.info;

    for (size_t l = 0; i->window && l < i->n_layers; l++) {
        size_t sink = i->sink ? i->sink[l] : 0;

        if (i->window[l] == 0) {
            x->seen_window = 0;
            return;
        }
        x->seen_window = i->window[l] > x->seen_window ? i->window[l] : x->seen_window;
        x->seen_sink = sink > x->seen_sink ? sink : x->seen_sink;
    }
}

static int open_samplers(struct gallop_executor *x, struct err *e)
{
    size_t threads = (size_t)pool_threads(x->x.pool), V = x->x.caps.n_vocab,
           cap = x->x.caps.max_len < V ? x->x.caps.max_len : V;
    int rc = 0;

    x->sampler = mem_zalloc(threads, sizeof(*x->sampler), MEM_ENGINE);
    x->history = mem_zalloc(threads, sizeof(*x->history), MEM_ENGINE);
    if (!x->sampler || !x->history)
        return err_nomem(e, "the samplers");
    while (x->n_samplers < threads && rc == 0) {
        rc = sample_history_reserve(&x->history[x->n_samplers], cap, &x->arena, e);
        if (rc == 0)
            rc = sample_open(&x->sampler[x->n_samplers++], x->x.kern, V, e);
    }
    return rc;
}

static int open_scratch(struct gallop_executor *x, struct err *e)
{
    const struct executor_caps *caps = &x->x.caps;
    size_t n = caps->n_slots, units = caps->n_blocks ? caps->n_blocks : n;

    x->last_use = mem_zalloc(units, sizeof(*x->last_use), MEM_ENGINE);
    x->n_rows = mem_zalloc(n, sizeof(*x->n_rows), MEM_ENGINE);
    x->rows = mem_zalloc(n, sizeof(*x->rows), MEM_ENGINE);
    x->choice = mem_zalloc(n, sizeof(*x->choice), MEM_ENGINE);
    x->pick = mem_zalloc(n, sizeof(*x->pick), MEM_ENGINE);
    if (!x->last_use || !x->n_rows || !x->rows || !x->choice || !x->pick)
        return err_nomem(e, "the executor");
    return 0;
}

static int open_parts(struct gallop_executor *x, const struct gallop_options *o,
                      const struct llm_source *source, struct err *e)
{
    int rc = engine_open_llm(&x->llm, o, source, &x->config, &x->arena, e);

    if (rc)
        return rc;
    if (x->llm.model.info.headless)
        return err_set(e, ERR_UNSUPPORTED, "%s", x->llm.model.headless);
    if ((rc = engine_open_executor(&x->x, &x->frames, &x->plugin, &x->llm, o, SIZE_MAX, 0, e)) != 0)
        return rc;
    find_seen(x);
    rc = open_scratch(x, e);
    return rc ? rc : open_samplers(x, e);
}

int gallop_executor_open(struct gallop_executor **out, int version, const struct gallop_options *o, char *err)
{
    struct gallop_executor *x;
    struct llm_source source;
    struct err e = {0};
    int rc;

    *out = NULL;
    if (version != GALLOP_EXECUTOR_VERSION)
        rc = err_set(&e, ERR_UNSUPPORTED, "found GALLOP_EXECUTOR_VERSION %d, but this library has version %d",
                     version, GALLOP_EXECUTOR_VERSION);
    else
        rc = engine_read_source(o, true, &source, &e);
    if (rc)
        return engine_give(err, &e, rc);
    x = mem_zalloc(1, sizeof(*x), MEM_ENGINE);
    if (!x)
        return engine_give(err, &e, err_nomem(&e, "the executor"));
    arena_init(&x->arena, MEM_ENGINE);
    rng_seeds_init(&x->seeds);
    rc = open_parts(x, o, &source, &e);
    if (rc) {
        gallop_executor_close(x);
        return engine_give(err, &e, rc);
    }
    *out = x;
    return 0;
}

void gallop_executor_close(struct gallop_executor *x)
{
    if (!x)
        return;
    if (!engine_close_executor(x->frames, x->plugin))
        return; /* a call of the plugin that has not returned still uses the rest of X */
    for (size_t i = 0; i < x->n_samplers; i++)
        sample_close(&x->sampler[i]);
    mem_free(x->sampler);
    mem_free(x->history);
    mem_free(x->last_use);
    mem_free(x->n_rows);
    mem_free(x->rows);
    mem_free(x->choice);
    mem_free(x->pick);
    llm_close(&x->llm);
    arena_fini(&x->arena);
    mem_free(x);
}

void gallop_executor_describe(const struct gallop_executor *x, struct gallop_executor_caps *caps)
{
    const struct executor_caps *c = &x->x.caps;
    const struct llm *m = &x->llm;
    struct frames_stats device = {0};

    if (x->frames)
        frames_stats(x->frames, &device);
    *caps = (struct gallop_executor_caps){
        .n_layers = m->model.info.n_layers,
        .vocab_size = c->n_vocab,
        .max_model_len = c->max_len,
        .max_seqs = c->n_slots,
        .max_rows = c->max_tokens,
        .max_wanted = c->max_logits,
        .max_prompts = c->max_prompts,
        .mixes = c->mixes,
        .chunks = c->chunks,
        .picks = 1,
        .n_slots = c->n_blocks ? 0 : c->n_slots,
        .n_blocks = c->n_blocks,
        .block_size = c->block,
        .block_bytes = kv_token_bytes(&m->kv.lim) * c->block,
        .kv_bytes = x->frames ? device.cache_bytes : kv_bytes(&m->kv),
        .weight_bytes = m->model.packed_bytes,
        .scratch_bytes = llm_scratch_bytes(m),
        .threads = pool_threads(m->pool),
        .dtype = m->model.opt.dtype == DT_F32 ? "fp32" : "bf16",
        .kv_cache_type = m->kv.type->name,
        .kv_cache_dtype = llm_kv_dtype(m),
        .isa = m->isa,
    };
}

/* ---- checking a run ---- */

/* Checks the limits of an executor with frames of fixed shapes. */
static int check_prompts(const struct executor_caps *c, const struct gallop_rows *rows, size_t n,
                         struct err *e)
{
    size_t n_prompts = 0;

    for (size_t s = 0; s < n; s++)
        n_prompts += rows[s].n > 1;
    if (c->max_prompts && n_prompts > c->max_prompts)
        return err_set(e, ERR_INPUT,
                       "%zu sequences have more than one row, expected at most max_prompts, %zu", n_prompts,
                       c->max_prompts);
    if (!c->mixes && n_prompts && n_prompts < n)
        return err_set(
            e, ERR_INPUT,
            "%zu of %zu sequences have more than one row, but this executor does not mix them with "
            "sequences of one row",
            n_prompts, n);
    return 0;
}

/* Records that sequence S uses U, a slot or a written block. If another sequence of this run uses U already, sets
 * *BEFORE to it and returns false. */
static bool use(struct gallop_executor *x, size_t u, size_t s, size_t *before)
{
    if (x->last_use[u] >> USE_SHIFT == x->n_runs) {
        *before = x->last_use[u] & ((1 << USE_SHIFT) - 1);
        return false;
    }
    x->last_use[u] = x->n_runs << USE_SHIFT | s;
    return true;
}

static int check_sizes(const struct gallop_executor *x, const struct gallop_rows *rows, size_t n,
                       struct err *e)
{
    const struct executor_caps *c = &x->x.caps;
    size_t n_rows = 0, n_wanted = 0;

    if (n == 0 || n > c->n_slots)
        return err_set(e, ERR_INPUT, "found a run of %zu sequences, expected 1 to %zu", n, c->n_slots);
    for (size_t s = 0; s < n; s++) {
        const struct gallop_rows *r = &rows[s];

        if (r->n == 0 || !r->ids)
            return err_set(e, ERR_INPUT, "sequence %zu has no tokens", s);
        if (r->pos > c->max_len || r->n > c->max_len - r->pos)
            return err_set(e, ERR_INPUT,
                           "sequence %zu has %zu rows from position %zu on, but max_model_len is %zu", s,
                           r->n, r->pos, c->max_len);
        if (r->n_wanted > r->n)
            return err_set(e, ERR_INPUT, "sequence %zu: n_wanted is %zu, but it has %zu rows", s, r->n_wanted,
                           r->n);
        n_rows += r->n; /* cannot overflow: at most 4096 times max_len */
        n_wanted += r->n_wanted;
    }
    if (n_rows > c->max_tokens)
        return err_set(e, ERR_INPUT, "found a run of %zu rows, expected at most max_batched_tokens, %zu",
                       n_rows, c->max_tokens);
    if (n_wanted > c->max_logits)
        return err_set(e, ERR_INPUT, "found %zu wanted rows of logits, expected at most max_logits, %zu",
                       n_wanted, c->max_logits);
    return check_prompts(c, rows, n, e);
}

static int check_tokens(const struct gallop_executor *x, const struct gallop_rows *r, size_t s, struct err *e)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->ids[i] < 0 || (size_t)r->ids[i] >= x->x.caps.n_vocab)
            return err_set(e, ERR_INPUT,
                           "sequence %zu: token %d at position %zu is outside the vocabulary of %zu tokens",
                           s, r->ids[i], r->pos + i, x->x.caps.n_vocab);
    return 0;
}

static int check_slot(struct gallop_executor *x, const struct gallop_rows *r, size_t s, struct err *e)
{
    size_t before;

    if (r->blocks || r->n_blocks)
        return err_set(e, ERR_INPUT, "sequence %zu has a list of blocks, but this cache has slots", s);
    if (r->slot >= x->x.caps.n_slots)
        return err_set(e, ERR_INPUT, "sequence %zu has slot %zu, expected a number below %zu", s, r->slot,
                       x->x.caps.n_slots);
    if (!use(x, r->slot, s, &before))
        return err_set(e, ERR_INPUT, "sequences %zu and %zu have the same slot %zu", before, s, r->slot);
    if (r->pos > x->n_rows[r->slot])
        return err_set(e, ERR_INPUT, "sequence %zu begins at position %zu, but its slot %zu has %zu rows", s,
                       r->pos, r->slot, x->n_rows[r->slot]);
    if (r->pos < x->n_rows[r->slot] && !x->x.sees(x->x.ctx, r->slot, r->pos ? r->pos : 1))
        return err_set(
            e, ERR_INPUT,
            "sequence %zu: slot %zu goes back from %zu rows to position %zu, but a window has dropped rows that "
            "this position sees; empty the slot and begin at position 0",
            s, r->slot, x->n_rows[r->slot], r->pos);
    return 0;
}

/* Returns true if a query at position POS or later attends to rows of block I in a sequence's list of blocks. */
static bool is_seen(const struct gallop_executor *x, size_t i, size_t pos)
{
    size_t block = x->x.caps.block;

    return !x->seen_window || i * block < x->seen_sink || (i + 1) * block > kv_first_row(x->seen_window, pos);
}

static int check_table(struct gallop_executor *x, const struct gallop_rows *r, size_t s, struct err *e)
{
    size_t block = x->x.caps.block, n = (r->pos + r->n + block - 1) / block, before;

    if (r->slot)
        return err_set(e, ERR_INPUT, "sequence %zu has slot %zu, but this cache has blocks", s, r->slot);
    if (!r->blocks || r->n_blocks < n)
        return err_set(e, ERR_INPUT, "sequence %zu has a list of %zu blocks, but its %zu rows need %zu", s,
                       r->blocks ? r->n_blocks : 0, r->pos + r->n, n);
    for (size_t i = 0; i < n; i++) {
        int32_t b = r->blocks[i];

        if (b < 0 || (size_t)b >= x->x.caps.n_blocks)
            return err_set(e, ERR_INPUT,
                           "sequence %zu: entry %zu of its list is block %d, expected a number below %zu", s,
                           i, b, x->x.caps.n_blocks);
        if (b == 0 && is_seen(x, i, r->pos))
            return err_set(
                e, ERR_INPUT,
                "sequence %zu: entry %zu of its list is block 0, but its rows are %s from position %zu on", s,
                i, (i + 1) * block > r->pos ? "written" : "seen", r->pos);
        if ((i + 1) * block > r->pos && !use(x, (size_t)b, s, &before))
            return err_set(e, ERR_INPUT, "sequences %zu and %zu write into the same block %d", before, s, b);
    }
    return 0;
}

/* Returns the name of a given member of P that gallop_rows.pick does not support, or NULL. */
static const char *not_for_picks(const struct gallop_sampling *p)
{
    return p->max_new_tokens != -1                                  ? "max_new_tokens"
           : p->thinking_token_budget != -1                         ? "thinking_token_budget"
           : p->n_bias                                              ? "bias"
           : p->n_stop                                              ? "stop"
           : p->n_stop_token                                        ? "stop_token"
           : p->n_bad_words                                         ? "bad_words"
           : p->n_dry_sequence_breakers || p->dry_sequence_breakers ? "dry_sequence_breakers"
           : p->logprobs > 0                                        ? "logprobs above 0"
           : p->use_beam_search > 0                                 ? "use_beam_search"
           : p->num_beams > 1                                       ? "num_beams"
                                                                    : NULL;
}

/* Checks TOKENS [n], which the penalties of P need. WHAT names the owner of P in error messages. */
static int check_history(const struct gallop_executor *x, const struct sampling *p, const int32_t *tokens,
                         size_t n, const char *what, struct err *e)
{
    if (!sample_history_counts(p) && !dry_is_on(p))
        return 0;
    if (!tokens)
        return err_set(e, ERR_INPUT, "%s has a penalty, which needs the member tokens", what);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= x->x.caps.n_vocab)
            return err_set(e, ERR_INPUT, "token %d at position %zu is outside the vocabulary of %zu tokens",
                           tokens[i], i, x->x.caps.n_vocab);
    return 0;
}

/* Reads P into *OUT, merged with the sampling parameters of generation_config.json. WHAT names the owner of P in error
 * messages. Does not allocate. */
static int read_pick(struct gallop_executor *x, const struct gallop_sampling *p, const char *what,
                     struct sampling *out, struct err *e)
{
    const char *name = not_for_picks(p);
    struct sampling user;
    int rc;

    if (name)
        return err_set(e, ERR_INPUT, "%s has %s, which is only supported in requests of an engine", what,
                       name);
    if ((rc = public_sampling_read(p, &user, NULL, e)) != 0)
        return rc;
    sampling_merge(out, &user, &x->config);
    if (!sampling_given(out, SAMPLING_SEED))
        out->seed = rng_seeds_next(&x->seeds);
    return sampling_validate(out, x->x.caps.n_vocab, e);
}

static int check_pick(struct gallop_executor *x, const struct gallop_rows *r, size_t s, struct err *e)
{
    struct choice *c = &x->choice[s];
    int rc;

    *c = (struct choice){.wanted = r->pick, .rows = r};
    if (!r->pick)
        return 0;
    if (r->n_wanted == 0)
        return err_set(e, ERR_INPUT, "sequence %zu has a pick, which needs n_wanted of at least 1", s);
    if (r->n_prompt > r->pos + r->n)
        return err_set(e, ERR_INPUT, "sequence %zu: n_prompt is %zu, but it has only %zu tokens", s,
                       r->n_prompt, r->pos + r->n);
    if ((rc = read_pick(x, r->pick, "its pick", &c->sampling, e)) == 0)
        rc = check_history(x, &c->sampling, r->tokens, r->pos + r->n, "its pick", e);
    return rc ? err_prefix(e, "sequence %zu", s) : 0;
}

static int check_run(struct gallop_executor *x, const struct gallop_rows *rows, size_t n, struct err *e)
{
    int rc = check_sizes(x, rows, n, e);

    x->n_runs++;
    for (size_t s = 0; s < n && rc == 0; s++)
        if ((rc = check_tokens(x, &rows[s], s, e)) == 0 &&
            (rc = x->x.caps.n_blocks ? check_table(x, &rows[s], s, e) : check_slot(x, &rows[s], s, e)) == 0)
            rc = check_pick(x, &rows[s], s, e);
    return rc;
}

/* ---- computing a run ---- */

/* Reserves the rows of all sequences or, after an error, of none. */
static int reserve(struct gallop_executor *x, const struct gallop_rows *rows, size_t n, struct err *e)
{
    size_t done = 0, n_rows = 0;
    int rc = 0;

    for (size_t s = 0; s < n; s++)
        n_rows += rows[s].n;
    while (rc == 0 && done < n) {
        rc = x->x.reserve(x->x.ctx, rows[done].slot, rows[done].pos + rows[done].n);
        done += rc == 0;
    }
    while (rc && done-- > 0)
        x->x.truncate(x->x.ctx, rows[done].slot, x->n_rows[rows[done].slot]);
    return rc ? err_set(e, rc, "the KV cache has no room for %zu rows of %zu sequences", n_rows, n) : 0;
}

/* Chooses the token that follows TOKENS [n], of which N_PROMPT are the prompt, from LOGITS. TOKENS may be NULL
 * if P has no penalty, and ALLOWED if it allows every token. Returns an error code of sample_pick(). */
static int choose_token(struct gallop_executor *x, int thread, const struct sampling *p, const float *logits,
                        const uint32_t *allowed, const int32_t *tokens, size_t n_prompt, size_t n,
                        struct sample_result *r)
{
    struct sample_history *h = &x->history[thread];
    bool counts = sample_history_counts(p), dry = dry_is_on(p);

    if (counts)
        sample_history_begin(h, p, tokens, n_prompt);
    for (size_t i = n_prompt; i < n && counts; i++)
        sample_history_add(h, tokens[i]);
    h->output = dry ? tokens + n_prompt : NULL;
    h->n_before = n_prompt;
    h->tok = x->llm.tok;
    h->allowed = allowed;
    return sample_pick(&x->sampler[thread], p, counts || dry || allowed ? h : NULL, logits, x->x.caps.n_vocab,
                       n - n_prompt, r);
}

/* Task of the thread pool: chooses the tokens of the sequences that THREAD handles. */
static void choose_share(void *ctx, int thread, int n_threads)
{
    struct gallop_executor *x = ctx;

    for (size_t s = (size_t)thread; s < x->n_sequences; s += (size_t)n_threads) {
        struct choice *c = &x->choice[s];
        struct sample_result r;

        x->pick[s] = (struct gallop_pick){.id = -1};
        if (c->wanted && choose_token(x, thread, &c->sampling, c->logits, NULL, c->rows->tokens,
                                      c->rows->n_prompt, c->rows->pos + c->rows->n, &r) == 0)
            x->pick[s] = (struct gallop_pick){.id = r.id, .logprob = r.logprob};
    }
}

/* Releases all slots, whose rows are lost by an error of run(). */
static int lose_slots(struct gallop_executor *x)
{
    x->is_down = true;
    for (size_t i = 0; i < x->x.caps.n_slots && x->x.caps.n_blocks == 0; i++) {
        x->x.release(x->x.ctx, i, NULL, 0);
        x->n_rows[i] = 0;
    }
    return ERR_OS;
}

/* Opens the executor again if it has failed, and waits for it. */
static int open_again(struct gallop_executor *x, struct err *e)
{
    int rc = x->is_down ? x->x.reopen(x->x.ctx, e) : 0;

    while (rc == EXECUTOR_LATER) {
        x->x.reopen_wait(x->x.ctx, 1);
        rc = x->x.reopen(x->x.ctx, e);
    }
    x->is_down = rc != 0;
    return rc ? ERR_OS : 0;
}

static int compute(struct gallop_executor *x, const struct gallop_rows *rows, size_t n,
                   struct gallop_outcome *out, struct err *e)
{
    const struct executor_caps *c = &x->x.caps;
    size_t n_wanted = 0, n_choices = 0;
    int rc;

    for (size_t s = 0; s < n; s++) {
        const struct gallop_rows *r = &rows[s];

        x->rows[s] =
            (struct executor_rows){.slot = c->n_blocks ? s : r->slot,
                                   .id = r->ids,
                                   .n = r->n,
                                   .pos = r->pos,
                                   .n_prompt = c->max_len,
                                   .n_total = c->max_len,
                                   .n_wanted = r->n_wanted,
                                   .block = r->blocks,
                                   .n_blocks = r->blocks ? (r->pos + r->n + c->block - 1) / c->block : 0};
    }
    for (size_t s = 0; s < n; s++)
        n_wanted += rows[s].n_wanted;
    if ((rc = x->x.run(x->x.ctx, x->rows, n, e)) != 0)
        return rc;
    if (!(out->logits = x->x.logits(x->x.ctx, 0, n_wanted))) {
        x->x.failure(x->x.ctx, e);
        return ERR_OS;
    }
    n_wanted = 0;
    for (size_t s = 0; s < n; s++) {
        n_wanted += rows[s].n_wanted;
        n_choices += x->choice[s].wanted;
        if (rows[s].n_wanted)
            x->choice[s].logits = out->logits + (n_wanted - 1) * c->n_vocab;
    }
    x->n_sequences = n;
    if (n_choices > 1)
        pool_run(x->x.pool, choose_share, x);
    else
        choose_share(x, 0, 1);
    out->picks = x->pick;
    return 0;
}

/* Settles the slots of the run and sets their numbers of rows. If the run began at an earlier position of a
 * slot, the slot's old rows after the run's rows are dropped. */
static void settle_slots(struct gallop_executor *x, const struct gallop_rows *rows, size_t n)
{
    for (size_t s = 0; s < n; s++) {
        size_t end = rows[s].pos + rows[s].n;

        x->x.settle(x->x.ctx, rows[s].slot, NULL, end);
        x->n_rows[rows[s].slot] = end;
    }
}

int gallop_executor_run(struct gallop_executor *x, const struct gallop_rows *rows, size_t n,
                        struct gallop_outcome *out, char *err)
{
    bool slots = x->x.caps.n_blocks == 0;
    struct err e = {0};
    int rc = check_run(x, rows, n, &e);

    *out = (struct gallop_outcome){0};
    if (rc || (rc = open_again(x, &e)) != 0 || (slots && (rc = reserve(x, rows, n, &e)) != 0))
        return engine_give(err, &e, rc);
    mem_guard_up();
    rc = compute(x, rows, n, out, &e);
    mem_guard_down();
    if (rc)
        return engine_give(err, &e, lose_slots(x));
    if (slots)
        settle_slots(x, rows, n);
    return 0;
}

/* ---- choices from rows of logits ---- */

struct choices {
    struct gallop_executor *x;
    struct gallop_choice *list; /* [n] */
    size_t n;
};

static int check_choice(struct gallop_executor *x, const struct gallop_choice *c, struct err *e)
{
    struct sampling p;
    int rc;

    if (!c->logits)
        return err_set(e, ERR_INPUT, "logits is NULL");
    if (c->logprobs < -1 || c->logprobs > SAMPLING_MAX_LOGPROBS)
        return err_set(e, ERR_INPUT, "logprobs is %lld, expected -1 to %d", (long long)c->logprobs,
                       SAMPLING_MAX_LOGPROBS);
    if (c->logprobs > 0 && !c->top)
        return err_set(e, ERR_INPUT, "logprobs is %lld, but top is NULL", (long long)c->logprobs);
    if (!c->sampling)
        return c->id >= 0 && (size_t)c->id < x->x.caps.n_vocab
                   ? 0
                   : err_set(e, ERR_INPUT, "token %d is outside the vocabulary of %zu tokens", c->id,
                             x->x.caps.n_vocab);
    if (c->n_tokens > x->x.caps.max_len)
        return err_set(e, ERR_INPUT, "n_tokens is %zu, but max_model_len is %zu", c->n_tokens,
                       x->x.caps.max_len);
    if (c->n_prompt > c->n_tokens)
        return err_set(e, ERR_INPUT, "n_prompt is %zu, but n_tokens is only %zu", c->n_prompt, c->n_tokens);
    rc = read_pick(x, c->sampling, "its sampling", &p, e);
    return rc ? rc : check_history(x, &p, c->tokens, c->n_tokens, "its sampling", e);
}

/* Writes the log-probability, the rank and the likeliest tokens of C. */
static void score_choice(struct gallop_executor *x, int thread, struct gallop_choice *c)
{
    struct sample_result r;

    if (c->logprobs < 0 || c->id < 0 ||
        sample_score(&x->sampler[thread], c->logits, x->x.caps.n_vocab, c->id, (int)c->logprobs, &r) != 0)
        return;
    c->logprob = r.logprob;
    c->rank = r.rank;
    c->n_top = r.n_top;
    for (size_t i = 0; i < r.n_top; i++)
        c->top[i] = (struct gallop_logprob){.id = r.top[i].id, .logprob = r.top[i].logprob};
}

/* Task of the thread pool: computes the choices that THREAD handles. */
static void list_share(void *ctx, int thread, int n_threads)
{
    struct choices *all = ctx;
    struct gallop_executor *x = all->x;

    for (size_t i = (size_t)thread; i < all->n; i += (size_t)n_threads) {
        struct gallop_choice *c = &all->list[i];
        struct sample_result r;
        struct sampling p;

        c->logprob = NAN;
        c->rank = c->n_top = 0;
        if (c->sampling) {
            bool chosen = read_pick(x, c->sampling, "", &p, NULL) == 0 &&
                          choose_token(x, thread, &p, c->logits, c->allowed, c->tokens, c->n_prompt,
                                       c->n_tokens, &r) == 0;

            c->id = chosen ? r.id : -1;
        }
        score_choice(x, thread, c);
    }
}

int gallop_executor_choose(struct gallop_executor *x, struct gallop_choice *choices, size_t n, char *err)
{
    struct choices all = {.x = x, .list = choices, .n = n};
    struct err e = {0};
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        if ((rc = check_choice(x, &choices[i], &e)) != 0)
            err_prefix(&e, "choice %zu", i);
    if (rc)
        return engine_give(err, &e, rc);
    mem_guard_up();
    if (n > 1)
        pool_run(x->x.pool, list_share, &all);
    else
        list_share(&all, 0, 1);
    mem_guard_down();
    return 0;
}

/* ---- changes without a run ---- */

static int truncate_slot(struct gallop_executor *x, size_t slot, size_t n, struct err *e)
{
    if (x->x.caps.n_blocks)
        return err_set(e, ERR_INPUT, "cannot truncate a slot: this cache has blocks of the caller");
    if (slot >= x->x.caps.n_slots || n > x->n_rows[slot])
        return err_set(e, ERR_INPUT, "cannot truncate slot %zu to %zu rows: %s %zu", slot, n,
                       slot < x->x.caps.n_slots ? "its number of rows is" : "the number of slots is",
                       slot < x->x.caps.n_slots ? x->n_rows[slot] : x->x.caps.n_slots);
    if (n && !x->x.sees(x->x.ctx, slot, n))
        return err_set(
            e, ERR_INPUT,
            "cannot truncate slot %zu to %zu rows: a window has dropped rows that the next row sees; 0 is "
            "expected",
            slot, n);
    x->x.truncate(x->x.ctx, slot, n);
    x->n_rows[slot] = n;
    return 0;
}

int gallop_executor_truncate(struct gallop_executor *x, size_t slot, size_t n, char *err)
{
    struct err e = {0};

    return engine_give(err, &e, truncate_slot(x, slot, n, &e));
}

static int copy_block(struct gallop_executor *x, size_t from, size_t to, struct err *e)
{
    size_t n = x->x.caps.n_blocks;

    if (!x->x.copy_block)
        return err_set(e, ERR_INPUT, "cannot copy a block: this cache has slots");
    if (from >= n || to >= n)
        return err_set(e, ERR_INPUT, "cannot copy block %zu to %zu: expected numbers below %zu", from, to, n);
    if (to == 0)
        return err_set(e, ERR_INPUT, "cannot copy block %zu to block 0, which is never written", from);
    if (from != to)
        x->x.copy_block(x->x.ctx, from, to);
    return 0;
}

int gallop_executor_copy_block(struct gallop_executor *x, size_t from, size_t to, char *err)
{
    struct err e = {0};

    return engine_give(err, &e, copy_block(x, from, to, &e));
}
