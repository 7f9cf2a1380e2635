/* test_nan.c - a request whose rows are NaN or infinite ends with an error, and leaves no trace in others: those beside
 * it in a step, those that take over rows of its blocks, those for which its token was a wrong guess, and those that
 * read what it left in a KV store. In all types of caches and rows. The model is that of
 * nan_model.h.
 */
#include <math.h>

#include "engine/engine_priv.h"
#include "engine/guess/guess.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "engines.h"
#include "files.h"
#include "gallop.h"
#include "nan_model.h"

enum { SPOILS = NAN_MODEL_SPOILS, PROMPT = 27, NEW = 6, MOST = 280 };

static const char *model;

static int make_model(void **state)
{
    model = nan_model_make();
    return 0;
}

/* ---- requests ---- */

/* Makes N tokens of text number TEXT. All texts have the first PROMPT - 4 tokens in common, which is in the middle of a
 * tile. */
static void words(size_t text, size_t n, int32_t *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(300 + ((i < PROMPT - 4 ? 0 : text * 61) + i * i * 5 + i * 37) % 1500);
}

static void submit(struct gallop *g, const int32_t *ids, size_t n, int64_t answers, int32_t forced,
                   size_t which)
{
    static const float much = 1e30f;
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = n;
    r.n = answers;
    r.user = (void *)which;
    r.sampling.max_new_tokens = NEW;
    r.sampling.ignore_eos = 1;
    r.sampling.logprobs = 0;
    r.sampling.do_sample = answers > 1;
    r.sampling.has_seed = 1;
    r.sampling.seed = 3;
    if (forced) {
        r.sampling.bias_id = &forced;
        r.sampling.bias = &much;
        r.sampling.n_bias = 1;
    }
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

/* The requests of a test, by the number of their first answer: clean ones of texts 0, 1 and 2, the last with two
 * answers; a bad one of text 0 in the middle of a tile; one with two answers; and one that draws the bad token. */
enum { CLEAN, CLEAN_TOO, CLEAN_TWO, BAD = CLEAN_TWO + 2, BAD_TWO, BAD_LATE = BAD_TWO + 2, N };

static void ask(struct gallop *g, size_t which)
{
    int32_t ids[PROMPT];

    words(which, PROMPT, ids);
    if (which == BAD || which == BAD_TWO)
        ids[PROMPT - 4] = SPOILS;
    submit(g, ids, PROMPT, which == CLEAN_TWO || which == BAD_TWO ? 2 : 1, which == BAD_LATE ? SPOILS : 0,
           which);
}

/* Takes all events until no request is left. The only error is that of NaN. */
static void run(struct gallop *g, struct engines_answer *all)
{
    struct gallop_event ev;

    while (gallop_next(g, &ev)) {
        if (ev.type == GALLOP_FINISHED && ev.finish == GALLOP_FINISH_ERROR)
            assert_non_null(strstr(ev.error, "NaN"));
        engines_take(all, &ev);
    }
}

/* Fails unless answer WHICH has ended with an error behind N tokens. */
static void check_bad(const char *what, const struct engines_answer *a, size_t which, size_t n)
{
    if (a[which].end.finish != GALLOP_FINISH_ERROR || a[which].n != n)
        fail_msg("%s: answer %zu ends with %d behind %zu tokens, expected an error behind %zu", what, which,
                 (int)a[which].end.finish, a[which].n, n);
}

static void check_clean(const char *what, const struct engines_answer *got, const struct engines_answer *want)
{
    char says[256];

    if (engines_differ(got, want, BAD, says))
        fail_msg("%s: %s", what, says);
    for (size_t i = 0; i < BAD; i++)
        assert_int_equal(got[i].n, NEW);
}

/* ---- guesses that are wrong ---- */

static void guess_badly(void *ctx, struct seq **seq, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct guess *guess = &seq[i]->guess;

        guess->source = GUESS_ORACLE;
        guess->match = 0;
        for (guess->n = 0; guess->n < guess->most && guess->n < 3; guess->n++)
            seq[i]->token[seq[i]->n_known + guess->n] = SPOILS;
    }
}

/* ---- tests ---- */

static const struct way {
    const char *dtype, *kv_dtype, *type, *isa;
} ways[] = {
    {"fp32", "auto", "slab_pool", NULL}, {"fp32", "auto", "bmc", "avx2"},
    {"bf16", "auto", "paged", NULL},     {"bf16", "auto", "dynamic", "avx2"},
    {"bf16", "int8", "slab_pool", NULL}, {"fp32", "int8", "paged", "avx2"},
    {"bf16", "int4", "paged", NULL},     {"bf16", "int4", "bmc", "avx2"},
};
enum { N_WAYS = sizeof(ways) / sizeof(ways[0]) };

static struct gallop_options options_of(const struct way *w, int64_t step)
{
    struct gallop_options o = engines_options(8, step, 512);

    o.dtype = w->dtype;
    o.kv_cache_dtype = w->kv_dtype;
    o.kv_cache_type = w->type;
    o.isa = w->isa;
    return o;
}

static const char *name_of(const struct way *w, const char *what)
{
    static char text[256];

    snprintf(text, sizeof(text), "%s rows %s %s %s: %s", w->dtype, w->kv_dtype, w->type, w->isa ? w->isa : "",
             what);
    return text;
}

/* Opens an engine as W says. NULL: this machine lacks the instruction set. */
static struct gallop *open_way(const struct way *w, const struct gallop_options *o)
{
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;

    if (engines_try(&g, model, o, err) == 0)
        return g;
    if (!w->isa || !strstr(err, w->isa))
        fail_msg("%s: %s", name_of(w, "open"), err);
    return NULL;
}

static void a_request_with_nan_changes_others(void **state)
{
    static struct engines_answer want[N], got[N];

    for (size_t i = 0; i < N_WAYS; i++) {
        struct gallop_options o = options_of(&ways[i], 64);
        struct guess_maker guesser = {.most = 3, .draft = GUESS_SOURCES, .propose = guess_badly};
        struct gallop *g = open_way(&ways[i], &o);

        if (!g)
            continue;
        memset(want, 0, sizeof(want));
        for (size_t which = 0; which < BAD; which += 1)
            if (which != CLEAN_TWO + 1) { /* each alone */
                ask(g, which);
                run(g, want);
            }
        gallop_close(g);
        check_clean(name_of(&ways[i], "alone"), want, want);

        g = open_way(&ways[i], &o);
        memset(got, 0, sizeof(got)); /* one after another, the bad ones first */
        for (size_t which = N; which-- > 0;)
            if (which != CLEAN_TWO + 1 && which != BAD_TWO + 1) {
                ask(g, which);
                run(g, got);
            }
        check_clean(name_of(&ways[i], "behind bad ones"), got, want);
        check_bad(name_of(&ways[i], "behind others"), got, BAD, 0);
        check_bad(name_of(&ways[i], "behind others"), got, BAD_TWO, 0);
        check_bad(name_of(&ways[i], "behind others"), got, BAD_TWO + 1, 0);
        check_bad(name_of(&ways[i], "behind others"), got, BAD_LATE, 1);

        memset(got, 0, sizeof(got)); /* together, with all that was found before */
        for (size_t which = 0; which < N; which++)
            if (which != CLEAN_TWO + 1 && which != BAD_TWO + 1)
                ask(g, which);
        run(g, got);
        check_clean(name_of(&ways[i], "in company"), got, want);
        check_bad(name_of(&ways[i], "in company"), got, BAD, 0);
        check_bad(name_of(&ways[i], "in company"), got, BAD_LATE, 1);

        engine_loop(g)->guesser = &guesser; /* every guess is wrong, and the rows of guesses are NaN */
        memset(got, 0, sizeof(got));
        for (size_t which = 0; which < BAD; which++)
            if (which != CLEAN_TWO + 1)
                ask(g, which);
        run(g, got);
        check_clean(name_of(&ways[i], "with bad guesses"), got, want);
        assert_true(engine_loop(g)->guess_counts.n_guessed >= 3 * BAD);
        assert_int_equal(engine_loop(g)->guess_counts.n_accepted, 0);
        assert_int_equal(engine_loop(g)->n_free, 8);
        engines_check_cache(g);
        gallop_close(g);
    }
}

/* The rows of a prompt that is computed in several steps are found by others before its end shows that they are NaN. A
 * row that sees only NaN, and then chunks of attention without, is NaN, too. */
static void nan_is_hidden_by_what_follows_it(void **state)
{
    static struct engines_answer got[2];

    for (size_t i = 0; i < N_WAYS; i++)
        for (int all = 0; all < (ways[i].isa ? 1 : 2); all++) { /* a bad token at the beginning, or 260 */
            struct gallop_options o = options_of(&ways[i], 64);
            struct gallop *g = open_way(&ways[i], &o);
            int32_t ids[MOST];

            if (!g)
                continue;
            words(1, MOST, ids);
            for (size_t k = all ? 0 : 5; k < (all ? 260 : 6); k++)
                ids[k] = SPOILS;
            for (size_t n = all ? MOST : 40; n > MOST - 10 || (!all && n > 20); n -= 10) {
                memset(got, 0, sizeof(got));
                submit(g, ids, n, 1, 0, 0);
                run(g, got);
                check_bad(name_of(&ways[i], all ? "many bad tokens" : "a bad token"), got, 0, 0);
            }
            gallop_close(g);
        }
}

/* What a failed request computed in its last step is neither found by others nor stored. */
static void rows_of_a_failed_request_are_published(void **state)
{
    static struct engines_answer want[N], got[N];
    static const char *const rows[] = {"auto", "int8", "int4"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct way w = {"bf16", rows[i], "paged", NULL};
        struct gallop_options o = options_of(&w, 64);
        struct gallop_stats s;
        struct gallop *g = open_way(&w, &o);
        char at[300];

        memset(want, 0, sizeof(want));
        ask(g, CLEAN);
        run(g, want);
        gallop_close(g);

        snprintf(at, sizeof(at), "%s/store-%zu", files_folder(), i);
        o.kv_store = at;
        for (int again = 0; again < 2; again++) {
            g = open_way(&w, &o);
            for (int twice = 0; twice < 2; twice++) {
                memset(got, 0, sizeof(got));
                ask(g, BAD);
                run(g, got);
                check_bad(name_of(&w, "alone"), got, BAD, 0);
                assert_int_equal(got[BAD].end.n_cached, 0);
            }
            if (again) {
                memset(got, 0, sizeof(got));
                ask(g, CLEAN);
                run(g, got);
                assert_int_equal(got[CLEAN].end.n_cached, 0);
                assert_memory_equal(got[CLEAN].token, want[CLEAN].token, NEW * sizeof(int32_t));
                assert_memory_equal(got[CLEAN].logprob, want[CLEAN].logprob, NEW * sizeof(float));
            }
            s = engines_stats(g);
            assert_int_equal(s.n_stored_tokens, 0);
            gallop_close(g);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_with_nan_changes_others),
        cmocka_unit_test(nan_is_hidden_by_what_follows_it),
        cmocka_unit_test(rows_of_a_failed_request_are_published),
    };

    return cmocka_run_group_tests(tests, make_model, NULL);
}
