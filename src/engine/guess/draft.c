/* draft.c - opens a draft model, keeps its rows, and draws guesses from its logits. */
#include "engine/guess/draft.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "ckpt/checkpoint.h"
#include "ckpt/config.h"
#include "engine/executor.h"
#include "engine/guess/guess_draw.h"
#include "engine/guess/vocabulary.h"
#include "engine/llm.h"
#include "engine/open/find_model.h"
#include "engine/seq.h"
#include "gallop.h"
#include "model/model.h"
#include "tensor/dtype.h"

enum {
    LEAST_LOGITS = 32, /* minimum number of rows whose logits are computed together */
    FIRST_PASSES =
        /* the mean time begins with the fastest of these, because the first ones touch new memory pages */
    16,
};

/* newest: weight of the newest pass in the mean time of a pass. Times above (1 + most_surprise) times the mean are cut
 * to this value, because other processes may have delayed the pass. */
static const double newest = 0.1, most_surprise = 1.0;

/* The rows of a running sequence. Token t of the sequence has row t if t < DRAFT_SINK, otherwise row t - skip; rows of
 * tokens from DRAFT_SINK to DRAFT_SINK + skip do not exist. */
struct draft_slot {
    bool is_open;
    size_t skip;
    size_t n_rows;           /* rows of known tokens */
    size_t n_fed;            /* rows of guesses after them */
    int32_t fed[GUESS_MOST]; /* [n_fed] the guesses of these rows */
    size_t last_total;       /* number of tokens for which the rows were computed last */
    bool is_replaced;        /* a row was computed from a replacement of its token (token_at()) */
};

/* A sequence that asks for guesses. */
struct draft_seq {
    struct seq *seq;
    struct draft_slot *slot;
    /* MOST: maximum number of guesses; LENGTH: number of known tokens that the draft model sees */
    size_t most, length;
    bool is_active; /* it gets more guesses */
};

/* A row of the run whose logits give the next guess of a sequence. */
struct draft_row {
    struct draft_seq *of;
    const float *logits;
};

struct draft {
    struct checkpoint checkpoint;
    struct llm llm;
    struct executor x;
    enum guess_source source;
    int32_t mask; /* PARD: the mask token */
    size_t most;
    size_t n_vocab;             /* the target's vocabulary */
    size_t cap;                 /* maximum number of rows of a sequence */
    struct draft_slot *slot;    /* [max_seqs] */
    struct draft_seq *seq;      /* [max_seqs] */
    struct executor_rows *rows; /* [max_seqs] the run */
    size_t n_rows, n_ids;       /* sequences and tokens of the run */
    int32_t *id;                /* [max_tokens] tokens of the run */
    struct draft_row *row;      /* [max_tokens] the wanted rows of the run */
    size_t n_wanted, piece, piece_end;
    struct sample_scratch *sampler; /* [n_samplers] one for each thread */
    float *padded; /* [n_samplers, n_vocab] logits of a draft with a smaller vocabulary; otherwise NULL */
    size_t n_samplers;
    double pass_s; /* mean seconds of a pass that gives guesses */
    size_t n_timed;
};

/* ---- open ---- */

static const char what[] = "the draft model";

/* Reads from config.json whether the draft guesses in one pass, and whether its weights are quantized. */
static int read_kind(struct draft *d, const struct draft_options *o, bool *is_quantized, struct err *e)
{
    static const char *const names[] = {"pard_token", "ptd_token_id", "mask_token_id"};
    struct config *c;
    int64_t mask = -1;
    bool is_pard2 = false;
    int rc = checkpoint_config(&c, &d->checkpoint, e);

    if (rc)
        return rc;
    *is_quantized = d->checkpoint.gguf.n || d->checkpoint.pack || config_quant_method(c);
    for (size_t i = 0; rc == 0 && mask < 0 && i < sizeof(names) / sizeof(names[0]); i++)
        rc = config_int(c, names[i], -1, -1, INT32_MAX, &mask, e);
    is_pard2 = config_has(c, "pard2") || config_has(c, "pard2_target_layers");
    config_close(c);
    if (rc)
        return rc;
    if (mask < 0 && o->must_be_parallel)
        return err_set(
            e, ERR_INPUT,
            "parallel_drafting is true, but the model names no mask token (pard_token, ptd_token_id "
            "or mask_token_id of config.json), so it was not trained for it");
    d->mask = (int32_t)mask;
    d->source = mask >= 0 && o->is_parallel ? GUESS_PARD : GUESS_DRAFT;
    d->most = o->most ? o->most : d->source == GUESS_PARD ? DRAFT_USUAL_PARD : DRAFT_USUAL;
    if (is_pard2 && d->source == GUESS_PARD)
        log_info("%s: the draft model is used as PARD; the projection of PARD-2 is not used", o->model);
    return 0;
}

static int open_model(struct draft *d, const struct draft_options *o, struct llm *target, struct err *e)
{
    const struct find_model_options where = {
        .revision = o->revision, .progress = o->engine->download, .progress_ctx = o->engine->download_ctx};
    struct llm_source s = {.checkpoint = &d->checkpoint, .pool = target->pool};
    struct gallop_options g = {.dtype = target->model.opt.dtype == DT_F32 ? "fp32" : "bf16",
                               .isa = o->engine->isa,
                               .allow_links = o->engine->allow_links,
                               .quant = o->quant,
                               .max_model_len = (int64_t)o->max_model_len,
                               .max_num_seqs = (int64_t)target->max_seqs,
                               .max_logits = LEAST_LOGITS,
                               .kv_cache_memory = o->kv_memory,
                               .progress = o->engine->progress,
                               .progress_ctx = o->engine->progress_ctx};
    bool is_quantized = false;
    int rc;

    s.most_len = target->max_len < DRAFT_ROWS ? target->max_len : DRAFT_ROWS;
    if ((rc = find_model_path(s.path, sizeof(s.path), o->model, &where, e)) != 0 ||
        (rc = checkpoint_open(&d->checkpoint, (struct folder){.path = s.path, .allow_links = g.allow_links},
                              e)) != 0 ||
        (rc = checkpoint_check(&d->checkpoint, e)) != 0 || (rc = read_kind(d, o, &is_quantized, e)) != 0)
        return rc;
    if (!g.quant && !is_quantized)
        g.quant = "int8";
    return llm_open(&d->llm, &g, &s, e);
}

/* Checks that the opened model can guess tokens of TARGET. */
static int check_model(const struct draft *d, const struct llm *target, struct err *e)
{
    const struct model *m = &d->llm.model;

    if (m->info.headless || m->bidirectional)
        return err_set(e, ERR_UNSUPPORTED, "it %s, so it cannot guess tokens",
                       m->bidirectional ? "has bidirectional attention" : "has no language model head");
    if (d->source == GUESS_PARD && (size_t)d->mask >= m->info.vocab)
        return err_set(e, ERR_INPUT, "its mask token is %d, expected less than its vocabulary of %zu tokens",
                       (int)d->mask, m->info.vocab);
    if (d->llm.tok && target->tok)
        return vocabulary_same(d->llm.tok, target->tok, e);
    if (m->info.vocab != target->model.info.vocab)
        return err_set(e, ERR_INPUT,
                       "its vocabulary has %zu tokens, expected %zu, because a tokenizer is missing",
                       m->info.vocab, target->model.info.vocab);
    return 0;
}

/* Returns whether every sequence can have N rows at the same time. */
static bool has_room(struct draft *d, struct executor_want *want, size_t n)
{
    for (size_t i = 0; i < d->llm.max_seqs; i++)
        want[i] = (struct executor_want){.slot = i, .n = n};
    return d->x.has_room(d->x.ctx, want, d->llm.max_seqs);
}

/* Sets the maximum number of rows of a sequence. TARGET_LEN: the target's maximum. */
static int limit_rows(struct draft *d, size_t target_len, struct err *e)
{
    size_t low = 0, high = d->llm.max_len, least = 2 * (DRAFT_SINK + d->most + 1);
    struct executor_want *want = mem_zalloc(d->llm.max_seqs, sizeof(*want), MEM_ENGINE);

    if (!want)
        return err_nomem(e, what);
    while (low < high) { /* there is room for LOW rows, and not for more than HIGH */
        size_t middle = high - (high - low) / 2;

        if (has_room(d, want, middle))
            low = middle;
        else
            high = middle - 1;
    }
    mem_free(want);
    d->cap = low;
    if (d->cap < least && d->cap < target_len)
        return err_set(
            e, ERR_INPUT,
            "its KV cache has %zu rows for each sequence, of which %zu may run, expected at least %zu "
            "(members \"max_model_len\" and \"draft_kv_cache_memory_gb\")",
            d->cap, d->llm.max_seqs, least);
    return 0;
}

static int open_arrays(struct draft *d, struct err *e)
{
    size_t n = d->llm.max_seqs, threads = (size_t)pool_threads(d->llm.pool);
    int rc = 0;

    threads = threads < n ? threads : n;
    d->slot = mem_zalloc(n, sizeof(*d->slot), MEM_ENGINE);
    d->seq = mem_zalloc(n, sizeof(*d->seq), MEM_ENGINE);
    d->rows = mem_zalloc(n, sizeof(*d->rows), MEM_ENGINE);
    d->id = mem_zalloc(d->llm.max_tokens, sizeof(*d->id), MEM_ENGINE);
    d->row = mem_zalloc(d->llm.max_tokens, sizeof(*d->row), MEM_ENGINE);
    d->sampler = mem_zalloc(threads, sizeof(*d->sampler), MEM_ENGINE);
    if (d->llm.model.info.vocab < d->n_vocab)
        d->padded = mem_zalloc(threads * d->n_vocab, sizeof(*d->padded), MEM_ENGINE);
    if (!d->slot || !d->seq || !d->rows || !d->id || !d->row || !d->sampler ||
        (d->llm.model.info.vocab < d->n_vocab && !d->padded))
        return err_nomem(e, what);
    while (d->n_samplers < threads && rc == 0)
        rc = sample_open(&d->sampler[d->n_samplers++], d->llm.kern, d->n_vocab, e);
    return rc;
}

int draft_open(struct draft **out, const struct draft_options *o, struct llm *target, struct err *e)
{
    struct draft *d = mem_zalloc(1, sizeof(*d), MEM_ENGINE);
    struct err why = {0};
    int rc;

    *out = NULL;
    if (!d)
        return err_nomem(e, what);
    d->n_vocab = target->model.info.vocab;
    if ((rc = open_model(d, o, target, &why)) == 0 && (rc = check_model(d, target, &why)) == 0) {
        llm_executor(&d->llm, &d->x);
        if ((rc = limit_rows(d, target->max_len, &why)) == 0)
            rc = open_arrays(d, &why);
    }
    if (rc) {
        draft_close(d);
        err_prefix(&why, "%s", what);
        err_subject(&why, "speculative_config");
        if (e)
            *e = why;
        return rc;
    }
    *out = d;
    return 0;
}

void draft_close(struct draft *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_samplers; i++)
        sample_close(&d->sampler[i]);
    llm_close(&d->llm);
    checkpoint_close(&d->checkpoint);
    mem_free(d->slot);
    mem_free(d->seq);
    mem_free(d->rows);
    mem_free(d->id);
    mem_free(d->row);
    mem_free(d->sampler);
    mem_free(d->padded);
    mem_free(d);
}

enum guess_source draft_source(const struct draft *d)
{
    return d->source;
}

size_t draft_most(const struct draft *d)
{
    return d->most;
}

double draft_pass_s(const struct draft *d)
{
    return d->n_timed < FIRST_PASSES ? 0 : d->pass_s;
}

const struct llm *draft_llm(const struct draft *d)
{
    return &d->llm;
}

/* ---- rows ---- */

/* Returns the token of row ROW of T, or 0 if the draft model's vocabulary lacks it. A guess may get worse by that, but
 * the target still verifies it. */
static int32_t token_at(const struct draft *d, const struct draft_seq *t, size_t row)
{
    int32_t id = t->seq->token[row < DRAFT_SINK ? row : row + t->slot->skip];

    if ((size_t)id < d->llm.model.info.vocab)
        return id;
    t->slot->is_replaced = true;
    return 0;
}

/* Returns the tokens of T if its rows may enter the prefix cache, because no token was skipped or replaced, else
 * NULL. */
static const int32_t *tokens_of(const struct draft_seq *t)
{
    return t->slot->skip || t->slot->is_replaced ? NULL : t->seq->token;
}

/* Makes the first N rows of T final, and drops the others. */
static void settle(struct draft *d, const struct draft_seq *t, size_t n)
{
    d->x.settle(d->x.ctx, t->seq->slot, tokens_of(t), n);
    t->slot->n_rows = n;
    t->slot->n_fed = 0;
}

/* Keeps the rows of correct guesses. The row of the last known token is never kept, because it must be computed again
 * for its logits. */
static void keep_right_rows(struct draft *d, const struct draft_seq *t)
{
    struct draft_slot *slot = t->slot;
    size_t n = 0;

    while (n < slot->n_fed && slot->n_rows + n + 1 < t->length &&
           slot->fed[n] == t->seq->token[slot->n_rows + n + slot->skip])
        n++;
    if (slot->n_fed)
        settle(d, t, slot->n_rows + n);
}

/* Drops all rows of T. */
static void close_slot(struct draft *d, const struct draft_seq *t)
{
    struct draft_slot *slot = t->slot;

    d->x.release(d->x.ctx, t->seq->slot, tokens_of(t), slot->n_rows);
    *slot = (struct draft_slot){0};
}

/* Prepares the slot of T and sets t->length: drops rows that are no longer valid, and starts an empty slot with rows of
 * the prefix cache. If a sequence exceeds the limit, only half as many rows as the limit are used: the rows of its
 * DRAFT_SINK first tokens and of its last tokens. */
static void prepare_sequence(struct draft *d, struct draft_seq *t)
{
    struct draft_slot *slot = t->slot;
    size_t known = t->seq->n_known;

    t->length = known - slot->skip;
    if (slot->is_open) {
        keep_right_rows(d, t);
        if (t->length + t->most > d->cap ||
            d->x.is_stale(d->x.ctx, slot->n_rows, slot->last_total, t->length))
            close_slot(d, t);
    }
    if (!slot->is_open && known + t->most <= d->cap) {
        const struct executor_prefix p = seq_prefix(t->seq);

        slot->n_rows = d->x.begin(d->x.ctx, t->seq->slot, &p);
    } else if (!slot->is_open) {
        slot->skip = known - d->cap / 2;
    }
    slot->is_open = true;
    slot->last_total = t->length = known - slot->skip;
}

/* ---- draws ---- */

/* Returns the logits of R, padded to the target's vocabulary if the draft's is smaller. */
static const float *fit_logits(const struct draft *d, const struct draft_row *r, size_t sampler)
{
    size_t own = d->llm.model.info.vocab;
    float *x;

    if (!d->padded)
        return r->logits;
    x = d->padded + sampler * d->n_vocab;
    memcpy(x, r->logits, own * sizeof(*x));
    for (size_t i = own; i < d->n_vocab; i++)
        x[i] = -INFINITY;
    return x;
}

/* Draws the next guess of the sequence of R. */
static void draw(const struct draft *d, const struct draft_row *r, size_t sampler)
{
    struct draft_seq *t = r->of;

    t->is_active = t->is_active &&
                   guess_draw(&d->sampler[sampler], t->seq, fit_logits(d, r, sampler), d->n_vocab) &&
                   t->seq->guess.n < t->most;
}

/* Task of the pool: draws the guesses of a thread's sequences, each in order. */
static void draw_share(void *ctx, int thread, int n_threads)
{
    const struct draft *d = ctx;
    size_t n = (size_t)n_threads < d->n_samplers ? (size_t)n_threads : d->n_samplers;

    for (size_t i = d->piece; i < d->piece_end && (size_t)thread < n; i++)
        if (d->row[i].of->seq->guess.part % n == (size_t)thread)
            draw(d, &d->row[i], (size_t)thread);
}

/* Draws a guess from each wanted row of the run. */
static void draw_rows(struct draft *d)
{
    for (d->piece = 0; d->piece < d->n_wanted; d->piece = d->piece_end) {
        size_t left = d->n_wanted - d->piece, n = left < d->x.caps.max_logits ? left : d->x.caps.max_logits;
        const float *logits = d->x.logits(d->x.ctx, d->piece, n);

        d->piece_end = d->piece + n;
        for (size_t i = 0; i < n; i++)
            d->row[d->piece + i].logits = logits + i * d->x.caps.n_vocab;
        if (n > 1)
            pool_run(d->llm.pool, draw_share, d);
        else
            draw(d, &d->row[d->piece], 0);
    }
}

/* ---- passes ---- */

/* Runs the rows that were added, and draws a guess from each wanted row. */
static void rows_run(struct draft *d)
{
    int rc = d->n_rows ? d->x.run(d->x.ctx, d->rows, d->n_rows, NULL) : 0;

    ASSERT(rc == 0, "the executor of llm.h failed");
    if (d->n_rows == 0)
        return;
    draw_rows(d);
    d->n_rows = d->n_ids = d->n_wanted = 0;
}

/* Like rows_run(), and updates the mean time of a pass. */
static void run_timed(struct draft *d)
{
    double begin = clock_seconds(), seconds;
    bool is_empty = d->n_rows == 0;

    rows_run(d);
    seconds = clock_seconds() - begin;
    if (is_empty)
        return;
    if (d->n_timed++ < FIRST_PASSES)
        d->pass_s = d->n_timed == 1 || seconds < d->pass_s ? seconds : d->pass_s;
    else if (seconds > (1 + most_surprise) * d->pass_s)
        d->pass_s += newest * most_surprise * d->pass_s;
    else
        d->pass_s += newest * (seconds - d->pass_s);
}

/* Adds rows [pos, pos + n) of T to the run; a guess is drawn from each of the last N_WANTED. Returns the array [n] to
 * which the caller writes their tokens, or NULL if there is no memory for the rows. */
static int32_t *add_rows(struct draft *d, struct draft_seq *t, size_t pos, size_t n, size_t n_wanted)
{
    const struct seq *s = t->seq;
    size_t skip = t->slot->skip;
    int32_t *id;

    if (d->n_ids + n > d->x.caps.max_tokens)
        rows_run(d);
    if (d->x.reserve(d->x.ctx, s->slot, pos + n) != 0)
        return NULL;
    id = d->id + d->n_ids;
    d->rows[d->n_rows] = (struct executor_rows){.slot = s->slot,
                                                .id = id,
                                                .n = n,
                                                .pos = pos,
                                                .n_prompt = s->n_prompt > skip ? s->n_prompt - skip : 1,
                                                .n_total = t->length,
                                                .n_wanted = n_wanted};
    d->n_rows++;
    d->n_ids += n;
    for (size_t i = 0; i < n_wanted; i++)
        d->row[d->n_wanted++].of = t;
    return id;
}

/* Adds the rows of known tokens that T lacks to the run. If it lacks many, adds at most *LEFT of them, and subtracts
 * their number from *LEFT. If T then lacks none, a guess is drawn from the last row, and PARD adds rows of mask
 * tokens. */
static void add_known(struct draft *d, struct draft_seq *t, size_t *left)
{
    struct draft_slot *slot = t->slot;
    size_t lacks = t->length - slot->n_rows, n = lacks, n_masks;
    int32_t *id;

    if (lacks > GUESS_MOST + 1) {
        n = lacks < *left ? lacks : *left;
        *left -= n;
    }
    t->is_active = n == lacks;
    n_masks = t->is_active && d->source == GUESS_PARD ? t->most - 1 : 0;
    id = n ? add_rows(d, t, slot->n_rows, n + n_masks, t->is_active ? 1 + n_masks : 0) : NULL;
    t->is_active &= id != NULL;
    if (!id)
        return;
    for (size_t i = 0; i < n; i++)
        id[i] = token_at(d, t, slot->n_rows + i);
    for (size_t i = 0; i < n_masks; i++)
        id[n + i] = d->mask;
    slot->n_rows += n; /* draft_propose() calls settle() for these rows after the run */
}

/* Adds the row of the last guess of T to the run. */
static void add_guess(struct draft *d, struct draft_seq *t)
{
    struct draft_slot *slot = t->slot;
    int32_t guess = t->seq->token[t->seq->n_known + t->seq->guess.n - 1], *id;

    t->is_active &= (size_t)guess < d->llm.model.info.vocab;
    id = t->is_active ? add_rows(d, t, t->length + slot->n_fed, 1, 1) : NULL;
    t->is_active &= id != NULL;
    if (!id)
        return;
    *id = guess;
    slot->fed[slot->n_fed++] = guess;
}

void draft_propose(struct draft *d, struct seq **seq, size_t n)
{
    size_t left = DRAFT_CATCH_UP, most = d->most;

    if (n == 0)
        return;
    if (most > d->llm.max_tokens / n)
        most = d->llm.max_tokens / n;
    guess_draw_lanes(seq, n);
    mem_guard_up();
    for (size_t i = 0; i < n; i++) {
        struct draft_seq *t = &d->seq[i];
        struct seq *s = seq[i];

        *t = (struct draft_seq){.seq = s, .slot = &d->slot[s->slot], .most = s->guess.most};
        t->most = t->most < most ? t->most : most;
        s->guess.n = s->guess.match = 0;
        s->guess.source = d->source;
        prepare_sequence(d, t);
        if (t->most)
            add_known(d, t, &left);
    }
    if (left == DRAFT_CATCH_UP)
        run_timed(d);
    else
        rows_run(d);
    for (size_t i = 0; i < n; i++)
        if (d->seq[i].slot->n_rows)
            settle(d, &d->seq[i], d->seq[i].slot->n_rows);
    for (size_t k = 1; k < most && d->source == GUESS_DRAFT; k++) {
        for (size_t i = 0; i < n; i++)
            if (d->seq[i].is_active)
                add_guess(d, &d->seq[i]);
        run_timed(d);
    }
    for (size_t i = 0; i < n; i++)
        guess_draw_undo(seq[i]);
    mem_guard_down();
}

void draft_leave(struct draft *d, const struct seq *seq)
{
    struct draft_slot *slot = &d->slot[seq->slot];
    struct draft_seq t = {
        .seq = (struct seq *)(uintptr_t)seq, .slot = slot, .length = seq->n_known - slot->skip};

    if (!slot->is_open)
        return;
    mem_guard_up();
    keep_right_rows(d, &t);
    close_slot(d, &t);
    mem_guard_down();
}
