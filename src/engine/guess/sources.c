/* sources.c - opens the sources, and asks them for guesses. */
#include "engine/guess/sources.h"

#include "base/mem.h"
#include "base/strmap.h"
#include "engine/guess/lookup.h"
#include "engine/guess/suffix.h"
#include "engine/seq.h"

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

/* Writes the new tokens of S into its index and the history. */
static void remember(struct guess_sources *g, struct seq *s, bool ends)
{
    match_add(&s->lookup->own, s->token, s->n_known);
    if (g->has_history)
        history_write(&g->history, &s->lookup->writer, s->token, s->n_known, ends);
}

/* Guesses tokens that constraints force, for the first N_LEFT sequences of g->left, when N sequences ask. Returns how
 * many sequences are left. */
static size_t force(struct guess_sources *g, size_t n_left, size_t n)
{
    size_t most = guess_config_most(&g->config, GUESS_FORCED, n), n_still = 0;

    for (size_t i = 0; i < n_left; i++) {
        struct seq *s = g->left[i];
        struct guess *guess = &s->guess;

        if (s->mask)
            guess->n = constraint_run_guess(&s->run, s->mask, s->token + s->n_known,
                                            most < guess->most ? most : guess->most);
        guess->source = GUESS_FORCED;
        guess->match = 0;
        if (guess->n == 0)
            g->left[n_still++] = s;
    }
    return n_still;
}

/* Asks the sources for guesses of SEQ [n]. Tokens that a constraint forces come first. */
static void propose(void *ctx, struct seq **seq, size_t n)
{
    struct guess_sources *g = ctx;
    size_t n_left = 0;

    for (size_t i = 0; i < n; i++) {
        seq[i]->guess.n = 0;
        if (seq[i]->lookup)
            remember(g, seq[i], false);
        g->left[n_left++] = seq[i];
    }
    n_left = force(g, n_left, n);
    for (size_t m = 0; m < g->config.n_methods; m++) {
        enum guess_source source = g->config.method[m];
        size_t most = guess_config_most(&g->config, source, n), n_still = 0;

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
    if (seq->lookup)
        remember(ctx, (struct seq *)(uintptr_t)seq, true);
}

static int open_history(struct guess_sources *g, struct err *e)
{
    int rc = 0;

    for (size_t i = 0; i < g->config.n_methods; i++) {
        g->has_lookup |= g->config.method[i] == GUESS_NGRAM || g->config.method[i] == GUESS_SUFFIX;
        g->has_history |= g->config.method[i] == GUESS_SUFFIX && g->config.max_cached_requests > 0;
    }
    if (g->has_history)
        rc = history_open(&g->history, HISTORY_BYTES, g->config.max_cached_requests, strmap_seed(), e);
    g->has_history &= rc == 0;
    return rc;
}

/* Sets the maximum number of guesses over all methods and batch sizes. */
static size_t most_guesses(const struct guess_config *c)
{
    size_t most = 0;

    for (size_t i = 0; i < c->n_methods; i++) {
        size_t usual = c->most ? c->most : guess_config_most(c, c->method[i], 0);

        most = usual > most ? usual : most;
    }
    for (size_t i = 0; i < c->n_ranges; i++)
        most = c->range[i].most > most ? c->range[i].most : most;
    return most;
}

int guess_sources_open(struct guess_sources **out, const char *text, struct llm *target, struct err *e)
{
    struct guess_sources *g = mem_zalloc(1, sizeof(*g), MEM_ENGINE);
    int rc;

    *out = NULL;
    if (!g)
        return err_nomem(e, "the sources of guesses");
    arena_init(&g->arena, MEM_ENGINE);
    if ((rc = guess_config_read(&g->config, text, &g->arena, e)) == 0 && target->model.bidirectional)
        rc = err_about(e, ERR_UNSUPPORTED, "speculative_config",
                       "this model has bidirectional attention and generates no text");
    if (rc == 0 && !(g->left = mem_zalloc(target->max_seqs, sizeof(struct seq *), MEM_ENGINE)))
        rc = err_nomem(e, "the sources of guesses");
    if (rc || (rc = open_history(g, e)) != 0) {
        guess_sources_close(g);
        return rc;
    }
    g->maker = (struct guess_maker){.ctx = g,
                                    .most = most_guesses(&g->config),
                                    .adaptive = g->config.adaptive,
                                    .propose = propose,
                                    .leave = leave};
    *out = g;
    return 0;
}

void guess_sources_close(struct guess_sources *g)
{
    if (!g)
        return;
    history_close(&g->history);
    arena_fini(&g->arena);
    mem_free((void *)g->left);
    mem_free(g);
}

size_t guess_sources_lookup(const struct guess_sources *g)
{
    const struct guess_config *c = &g->config;

    if (!g->has_lookup)
        return 0;
    return c->lookup_max > c->max_tree_depth ? c->lookup_max : c->max_tree_depth;
}
