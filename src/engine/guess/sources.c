/* sources.c - opens the sources, and asks them for guesses. */
#include "engine/guess/sources.h"

#include <string.h>

#include "base/clock.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "base/strmap.h"
#include "engine/constraints/masks.h"
#include "engine/guess/config.h"
#include "engine/guess/draft.h"
#include "engine/guess/guess.h"
#include "engine/guess/history.h"
#include "engine/guess/lookup.h"
#include "engine/guess/self_draft.h"
#include "engine/guess/suffix.h"
#include "engine/llm.h"
#include "engine/seq.h"
#include "gallop.h"
#include "kv/kv.h"

struct guess_sources {
    struct guess_maker maker; /* the functions that the step calls */
    struct guess_config config;
    struct arena arena; /* strings of `config` */
    bool has_history;
    struct history history;        /* tokens of all sequences, for the method suffix */
    struct draft *draft;           /* the draft model; NULL: none */
    struct self_draft *self_draft; /* the int4 weights of the method self; NULL: none */
    struct seq **left;             /* [max_seqs] sequences for which no source has a guess yet */
    struct masks masks;            /* the sequences of `left` that have a constraint */
    struct pool *pool;             /* the threads of the model; borrowed */
};

/* Returns true if guesses of SOURCE are computed by a model. */
static bool is_draft(enum guess_source source)
{
    return source == GUESS_DRAFT || source == GUESS_SELF;
}

/* Maximum number of tokens of long prompts that are indexed before a step, in at most a few milliseconds. */
enum { INDEXED = 2048 };

/* Maximum number of guesses of ngram for each token of a match. */
static const double ngram_factor = 2;

/* Guesses the next tokens of S by lookup. Returns their number. */
static size_t look_up(struct guess_sources *g, struct seq *s, enum guess_source source, size_t most)
{
    const struct guess_config *c = &g->config;
    int32_t *guess = s->token + s->n_known;

    if (source == GUESS_NGRAM) {
        const struct match_rule rule = {.min_length = c->lookup_min, .n_most = most, .factor = ngram_factor};

        return match_guess(&s->lookup->own, s->token, s->n_known, &rule, guess, &s->guess.match);
    }
    return suffix_guess(&s->lookup->own, g->has_history ? &g->history : NULL, &s->lookup->writer, s->token,
                        s->n_known,
                        &(struct match_rule){.min_length = 1,
                                             .n_most = most,
                                             .factor = c->max_spec_factor,
                                             .repeats = true,
                                             .min_share = c->min_token_prob},
                        guess, &s->guess.match);
}

/* Adds the tokens of TOKEN [n] that the index M lacks. If it lacks many, adds at most *LEFT of them, and subtracts
 * their number from *LEFT. */
static void index_tokens(struct match *m, const int32_t *token, size_t n, size_t *left)
{
    size_t lacks = n - m->n_tokens;

    if (lacks > GUESS_MOST + 1) {
        lacks = lacks < *left ? lacks : *left;
        *left -= lacks;
    }
    match_add(m, token, m->n_tokens + lacks);
}

/* Writes the new tokens of S into its index, after the tokens of a prompt that several answers share, and into the
 * history. *LEFT limits the tokens of long prompts that are indexed before a step. A sequence whose index is not
 * complete has no guesses by lookup. */
static void remember(struct guess_sources *g, struct seq *s, size_t *left)
{
    struct match *own = &s->lookup->own, *prompt = s->common->prompt_index;
    size_t n;

    if (prompt)
        index_tokens(prompt, s->token, prompt->capacity, left);
    n = prompt ? prompt->n_tokens : 0;
    if (!prompt || n == prompt->capacity) {
        index_tokens(own, s->token, s->n_known, left);
        n = own->n_tokens;
    }
    if (g->has_history)
        history_write(&g->history, &s->lookup->writer, s->token, n, false);
}

/* Writes the tokens that the constraint of S forces as guesses, at most *CTX, a size_t. */
static void force_tokens(void *ctx, struct seq *s)
{
    size_t most = *(const size_t *)ctx;

    s->guess.n = constraint_run_guess(&s->run, s->mask, s->token + s->n_known,
                                      most < s->guess.most ? most : s->guess.most);
}

/* Writes the tokens that constraints force as guesses of the first N_LEFT sequences of g->left. N is the number of
 * sequences that ask for guesses. Keeps the sequences without guesses in g->left and returns their number. */
static size_t force(struct guess_sources *g, size_t n_left, size_t n)
{
    size_t most = guess_config_most(&g->config, GUESS_FORCED, n), n_still = 0;

    masks_begin(&g->masks);
    g->masks.n = 0;
    g->masks.work = force_tokens;
    g->masks.ctx = &most;
    for (size_t i = 0; i < n_left; i++) {
        g->left[i]->guess.source = GUESS_FORCED;
        g->left[i]->guess.match = 0;
        if (g->left[i]->mask)
            masks_add(&g->masks, g->left[i]);
    }
    masks_run(&g->masks, g->pool);
    for (size_t i = 0; i < n_left; i++)
        if (g->left[i]->guess.n == 0)
            g->left[n_still++] = g->left[i];
    return n_still;
}

/* Asks the int4 weights for guesses of the sequences g->left [n_left], and measures the passes. */
static void ask_self(struct guess_sources *g, size_t n_left)
{
    double begin = clock_seconds(), seconds;
    size_t n_passes = 1;

    self_draft_propose(g->self_draft, g->left, n_left);
    for (size_t i = 0; i < n_left; i++)
        n_passes = g->left[i]->guess.n > n_passes ? g->left[i]->guess.n : n_passes;
    seconds = (clock_seconds() - begin) / (double)n_passes;
    g->maker.pass_s = g->maker.pass_s > 0 ? .9 * g->maker.pass_s + .1 * seconds : seconds;
}

/* Asks the draft model, or the int4 weights, for guesses of the sequences g->left [n_left]. */
static void ask_draft(struct guess_sources *g, enum guess_source source, size_t n_left)
{
    for (size_t i = 0; i < n_left; i++) {
        struct guess *guess = &g->left[i]->guess;

        guess->most = g->maker.depth < guess->most ? g->maker.depth : guess->most;
    }
    if (source == GUESS_SELF) {
        ask_self(g, n_left);
    } else {
        draft_propose(g->draft, g->left, n_left);
        g->maker.pass_s = draft_pass_s(g->draft);
    }
}

/* Asks the sources for guesses of SEQ [n]. Tokens that a constraint forces come first. */
static void propose(void *ctx, struct seq **seq, size_t n)
{
    struct guess_sources *g = ctx;
    size_t n_left = 0, left = INDEXED;

    for (size_t i = 0; i < n; i++) {
        seq[i]->guess.n = 0;
        if (seq[i]->lookup)
            remember(g, seq[i], &left);
        g->left[n_left++] = seq[i];
    }
    n_left = force(g, n_left, n);
    for (size_t m = 0; m < g->config.n_methods; m++) {
        enum guess_source source = g->config.method[m];
        bool has_passes = is_draft(source);
        size_t most = guess_config_most(&g->config, has_passes ? g->maker.draft : source, n), n_still = 0;

        if (has_passes) {
            g->maker.depth = most < g->maker.depth ? most : g->maker.depth;
            if (g->maker.depth && n_left)
                ask_draft(g, source, n_left);
            n_left = 0; /* a draft model is the last method */
            break;
        }

        for (size_t i = 0; i < n_left; i++) {
            struct seq *s = g->left[i];
            struct guess *guess = &s->guess;

            guess->source = source;
            guess->match = 0;
            if (s->lookup && (source == GUESS_NGRAM || source == GUESS_SUFFIX))
                guess->n = look_up(g, s, source, most < guess->most ? most : guess->most);
            if (guess->n == 0)
                g->left[n_still++] = s;
        }
        n_left = n_still;
    }
}

static void leave(void *ctx, const struct seq *seq)
{
    struct guess_sources *g = ctx;

    if (seq->lookup && g->has_history) {
        struct history_writer *w = &seq->lookup->writer;
        size_t known = seq->n_known, n = known < w->n_written + INDEXED ? known : w->n_written + INDEXED;

        history_write(&g->history, w, seq->token, n, n == known);
    }
    if (g->draft)
        draft_leave(g->draft, seq);
}

static int open_history(struct guess_sources *g, struct err *e)
{
    int rc = 0;

    for (size_t i = 0; i < g->config.n_methods; i++) {
        g->has_history |= g->config.method[i] == GUESS_SUFFIX && g->config.max_cached_requests > 0;
    }
    if (g->has_history)
        rc = history_open(&g->history, HISTORY_BYTES, g->config.max_cached_requests, strmap_seed(), e);
    g->has_history &= rc == 0;
    return rc;
}

/* Returns the maximum number of guesses of a sequence over all methods and batch sizes. */
static size_t most_guesses(const struct guess_sources *g)
{
    const struct guess_config *c = &g->config;
    size_t most = g->draft ? draft_most(g->draft) : 0;

    for (size_t i = 0; i < c->n_methods; i++) {
        size_t usual = c->most ? c->most : guess_config_most(c, c->method[i], 0);

        most = usual > most ? usual : most;
    }
    for (size_t i = 0; i < c->n_ranges; i++)
        most = c->range[i].most > most ? c->range[i].most : most;
    return most;
}

/* Opens the draft model, if there is one. */
static int open_draft(struct guess_sources *g, const struct gallop_options *o, struct llm *target,
                      struct err *e)
{
    const struct guess_config *c = &g->config;
    const struct draft_options draft = {.engine = o,
                                        .model = c->model,
                                        .revision = c->revision,
                                        .quant = c->quant,
                                        .max_model_len = c->max_model_len,
                                        .kv_memory = c->kv_memory,
                                        .is_parallel = c->is_parallel,
                                        .must_be_parallel = c->must_be_parallel,
                                        .most = c->most};
    int rc = c->model ? draft_open(&g->draft, &draft, target, e) : 0;

    for (size_t i = 0; i < c->n_methods && rc == 0; i++)
        if (c->method[i] == GUESS_SELF && o->executor && strcmp(o->executor, "pjrt") == 0) {
            rc = err_about(
                e, ERR_UNSUPPORTED, "speculative_config",
                "executor \"pjrt\" does not serve the method \"self\", whose passes need the KV rows on "
                "the CPU");
        } else if (c->method[i] == GUESS_SELF) {
            rc = self_draft_open(&g->self_draft, o, target, guess_config_most(c, GUESS_SELF, 0), e);
            g->maker.draft = GUESS_SELF;
        }
    if (rc || !g->draft)
        return rc;
    g->maker.draft = draft_source(g->draft);
    g->maker.is_parallel = g->maker.draft == GUESS_PARD;
    return 0;
}

/* Checks that guesses cannot change the answers of TARGET. */
static int check_target(const struct llm *target, struct err *e)
{
    const char *loose = llm_loose_backend(target);

    if (target->model.bidirectional)
        return err_about(e, ERR_UNSUPPORTED, "speculative_config",
                         "this model has bidirectional attention and generates no text");
    if (loose)
        return err_about(
            e, ERR_UNSUPPORTED, "speculative_config",
            "not supported with the backend %s unless its linears are int8: its results depend on the "
            "number of rows of a step, so that guesses would change answers",
            loose);
    return 0;
}

int guess_sources_open(struct guess_sources **out, const struct gallop_options *o, struct llm *target,
                       struct err *e)
{
    struct guess_sources *g = mem_zalloc(1, sizeof(*g), MEM_ENGINE);
    int rc;
    MAP_READING(); /* a draft model may be opened */

    *out = NULL;
    if (!g)
        return err_nomem(e, "the sources of guesses");
    arena_init(&g->arena, MEM_ENGINE);
    if ((rc = guess_config_read(&g->config, o->speculative_config, &g->arena, e)) == 0)
        rc = check_target(target, e);
    if (rc == 0) {
        g->left = mem_zalloc(target->max_seqs, sizeof(struct seq *), MEM_ENGINE);
        rc = g->left ? masks_open(&g->masks, target->max_seqs, target->pool, MASKS_STEPS / 4, e)
                     : err_nomem(e, "the sources of guesses");
    }
    g->pool = target->pool;
    g->maker.draft = GUESS_SOURCES;
    if (rc || (rc = open_history(g, e)) != 0 || (rc = open_draft(g, o, target, e)) != 0) {
        guess_sources_close(g);
        return rc;
    }
    g->maker.ctx = g;
    g->maker.most = most_guesses(g);
    g->maker.adaptive = g->config.adaptive;
    g->maker.propose = propose;
    g->maker.leave = leave;
    *out = g;
    return 0;
}

void guess_sources_close(struct guess_sources *g)
{
    if (!g)
        return;
    draft_close(g->draft);
    self_draft_close(g->self_draft);
    history_close(&g->history);
    arena_fini(&g->arena);
    mem_free((void *)g->left);
    masks_close(&g->masks);
    mem_free(g);
}

struct guess_maker *guess_sources_maker(struct guess_sources *g)
{
    return &g->maker;
}

size_t guess_sources_lookup(const struct guess_sources *g)
{
    const struct guess_config *c = &g->config;
    size_t longest = 0;

    for (size_t i = 0; i < c->n_methods; i++) {
        size_t length = c->method[i] == GUESS_NGRAM    ? c->lookup_max
                        : c->method[i] == GUESS_SUFFIX ? c->max_tree_depth
                                                       : 0;

        longest = length > longest ? length : longest;
    }
    return longest;
}

struct guess_memory guess_sources_memory(const struct guess_sources *g, const struct llm *target)
{
    const struct llm *m = g->draft ? draft_llm(g->draft) : NULL;
    size_t n = target->max_len < MATCH_MAX_TOKENS ? target->max_len : MATCH_MAX_TOKENS;

    return (struct guess_memory){.lookup = guess_sources_lookup(g) ? target->max_seqs * match_bytes(n) : 0,
                                 .history = g->has_history ? HISTORY_BYTES : 0,
                                 .weights = m               ? m->model.packed_bytes + m->model.table_bytes
                                            : g->self_draft ? self_draft_bytes(g->self_draft)
                                                            : 0,
                                 .kv = m ? kv_budget_bytes(m->kv.type->name, &m->kv.lim) : 0};
}
