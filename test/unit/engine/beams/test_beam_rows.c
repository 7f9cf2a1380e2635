/* test_beam_rows.c - what a beam search leaves in the prefix cache and in a KV store: rows under the tokens that they
 * were computed from. The logits behind each hypothesis that the search had are those of an engine without a cache, and
 * slots, blocks and memory are given back. */
#include <stdatomic.h>

#include "base/mem.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "engine/schedule/waiting.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "engines.h"
#include "files.h"
#include "gallop.h"
#include "kv/kv.h"

enum { PROMPT = 20, BEAMS = 6, NEW = 44, LONG = 76, MOST = PROMPT + LONG, VOCAB = 4096, MOST_FOUND = 64 };

static struct gallop *fresh; /* computes every row */

/* A search of the test. */
struct search {
    const char *name;
    int64_t n, beams, longest;
    int32_t stop[4]; /* end tokens */
    size_t n_stop;
    const char *string; /* stop string */
    enum gallop_early early;
    double repetition; /* penalty; 0: none */
    int cancel_after;  /* steps; 0: it ends by itself */
};

static const struct search searches[] = {
    {.name = "to its limit", .n = BEAMS, .beams = BEAMS, .longest = NEW},
    {.name = "of many tokens", .n = 4, .beams = 4, .longest = LONG, .repetition = 1.3},
    {.name = "with few results", .n = 2, .beams = BEAMS, .longest = NEW},
    {.name = "of one token", .n = 3, .beams = 3, .longest = 1},
    {.name = "of one beam", .n = 1, .beams = 1, .longest = NEW},
    {.name = "with several ends", .n = 4, .beams = 4, .longest = NEW, .stop = {19, 13, 262}, .n_stop = 3},
    {.name = "that stops early",
     .n = 3,
     .beams = 4,
     .longest = NEW,
     .stop = {19, 14},
     .n_stop = 2,
     .early = GALLOP_EARLY_TRUE},
    {.name = "with a stop string", .n = 4, .beams = 4, .longest = NEW, .string = "the "},
    {.name = "that is cancelled", .n = 4, .beams = 4, .longest = NEW, .cancel_after = 23},
};
enum { N_SEARCHES = sizeof(searches) / sizeof(searches[0]) };

/* Texts that the search S of text TEXT has had: its results, and hypotheses that were running. */
struct found {
    int32_t ids[MOST_FOUND][MOST];
    size_t len[MOST_FOUND], n;
};

/* Makes N tokens of text number TEXT: tokens of words, since the bundled model has learned nothing of those of
 * bytes. */
static void words(size_t text, size_t n, int32_t *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(300 + (text * 61 + i * i * 5 + i * 37) % 1500);
}

static void submit(struct gallop *g, const struct search *s, size_t text, size_t which)
{
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];
    int32_t ids[PROMPT];

    words(text, PROMPT, ids);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = PROMPT;
    r.n = s->n;
    r.user = (void *)which;
    r.sampling.use_beam_search = 1;
    r.sampling.num_beams = s->beams;
    r.sampling.max_new_tokens = s->longest;
    r.sampling.ignore_eos = 1;
    if (s->repetition > 0)
        r.sampling.repetition_penalty = s->repetition;
    r.sampling.early_stopping = (int)s->early;
    r.sampling.stop_token = s->n_stop ? s->stop : NULL;
    r.sampling.n_stop_token = s->n_stop;
    r.sampling.stop = s->string ? &s->string : NULL;
    r.sampling.n_stop = s->string != NULL;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("a search %s: %s", s->name, err);
}

static void add_found(struct found *f, const int32_t *ids, size_t n)
{
    assert_true(f->n < MOST_FOUND && n <= MOST);
    memcpy(f->ids[f->n], ids, n * sizeof(*ids));
    f->len[f->n++] = n;
}

/* Adds the hypotheses of the searches that run in G. */
static void add_running(struct found *f, struct gallop *g)
{
    const struct step *step = engine_loop(g);

    for (size_t i = 0; i < step->n_running; i++) {
        const struct seq_beams *b = step->running[i]->beams;

        for (size_t k = 0; k < b->search.n_running && f->n < MOST_FOUND; k++)
            add_found(f, b->running[k]->token, b->running[k]->n_known);
    }
}

/* Runs the search S of text TEXT in G, and collects what it had: the hypotheses of every EVERYth step, and its
 * results. */
static void run(struct gallop *g, const struct search *s, size_t text, size_t every, struct found *f)
{
    static struct engines_answer got[BEAMS];
    struct gallop_event ev;
    int32_t ids[MOST];

    memset(got, 0, sizeof(got));
    submit(g, s, text, 0);
    for (int steps = 1; gallop_step(g, 0); steps++) {
        if (every && (size_t)steps % every == 0)
            add_running(f, g);
        if (steps == s->cancel_after)
            gallop_cancel(g, 0);
        while (gallop_take(g, &ev))
            engines_take(got, &ev);
    }
    engines_run(g, got);
    words(text, PROMPT, ids);
    for (int64_t i = 0; i < s->n && f->n < MOST_FOUND; i++) {
        assert_int_equal(got[i].end.finish == GALLOP_FINISH_CANCELLED, s->cancel_after > 0);
        memcpy(ids + PROMPT, got[i].token, got[i].n * sizeof(int32_t));
        add_found(f, ids, PROMPT + got[i].n);
    }
}

/* Computes the logits [VOCAB] behind IDS [n] in G. Returns how many rows it found in the cache. */
static size_t logits_behind(struct gallop *g, const int32_t *ids, size_t n, float *logits)
{
    size_t vocab = gallop_describe(g)->vocab_size, n_cached = SIZE_MAX;
    struct gallop_request r;
    struct gallop_event ev;

    assert_true(vocab <= VOCAB);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = n;
    r.return_logits = 1;
    r.sampling.max_new_tokens = 1;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    while (gallop_next(g, &ev)) {
        if (ev.type == GALLOP_TOKEN)
            memcpy(logits, ev.logits, vocab * sizeof(*logits));
        if (ev.type == GALLOP_FINISHED)
            n_cached = ev.n_cached;
    }
    return n_cached;
}

/* Compares the logits behind each text of F, and a token more, with those of `fresh`. Returns how many rows of the last
 * one were in the cache. */
static size_t check_found(struct gallop *g, const char *what, const struct found *f)
{
    static float got[VOCAB], want[VOCAB];
    size_t n_cached = 0;

    for (size_t i = 0; i < f->n; i++) {
        int32_t ids[MOST + 1];
        size_t n = f->len[i];

        memcpy(ids, f->ids[i], n * sizeof(*ids));
        ids[n] = 5;
        n_cached = logits_behind(g, ids, n + 1, got);
        assert_int_equal(logits_behind(fresh, ids, n + 1, want), 0);
        if (memcmp(got, want, gallop_describe(g)->vocab_size * sizeof(*got)) != 0)
            fail_msg("%s: text %zu of %zu tokens has other logits (%zu rows from the cache)", what, i, n,
                     n_cached);
    }
    return n_cached;
}

static struct gallop_options options(void)
{
    struct gallop_options o = engines_options(8, 64, 128);

    o.scheduling_policy = "fair";
    return o;
}

static int open_fresh(void **state)
{
    struct gallop_options o = options();

    o.prefix_index = "none";
    fresh = engines_open("demo", &o);
    return 0;
}

static int close_fresh(void **state)
{
    gallop_close(fresh);
    return 0;
}

/* Everything that a search held is free again. */
static void check_free(struct gallop *g, size_t slots)
{
    const struct step *s = engine_loop(g);

    assert_int_equal(s->n_free, slots);
    assert_int_equal(s->n_running, 0);
    assert_int_equal(atomic_load(&s->n_queued), 0);
    assert_int_equal(atomic_load(&s->n_queued_tokens), 0);
    for (size_t i = 0; i < WAITING_KEYS; i++)
        assert_int_equal(s->waiting.key[i].n_running, 0);
    for (size_t i = 0; i < slots; i++)
        assert_int_equal(kv_held_bytes(&engine_llm(g)->kv, i), 0);
    engines_check_cache(g);
}

static void a_search_leaves_rows_under_other_tokens(void **state)
{
    static const struct {
        const char *type, *index;
    } ways[] = {{"slab_pool", "radix"}, {"paged", "radix"}, {"paged", "hash"}};

    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        for (size_t i = 0; i < N_SEARCHES; i++) {
            const struct search *s = &searches[i];
            struct gallop_options o = options();
            static struct found f;
            struct gallop *g;
            size_t bytes, n_cached;
            char what[128];

            f.n = 0;
            o.kv_cache_type = ways[w].type;
            o.prefix_index = ways[w].index;
            g = engines_open("demo", &o);
            run(g, &searches[3], 9, 0, &f); /* what is allocated once */
            f.n = 0;
            bytes = mem_live_bytes();
            snprintf(what, sizeof(what), "%s %s: a search %s", ways[w].type, ways[w].index, s->name);
            run(g, s, i, 5, &f);
            assert_int_equal(engines_stats(g).n_recomputed_tokens, 0);
            assert_int_equal(engines_stats(g).n_prompt_tokens, 2 * PROMPT);
            assert_int_equal(mem_live_bytes(), bytes);
            check_free(g, 8);
            assert_true(f.n > 0);
            n_cached = check_found(g, what, &f);
            /* All rows of a result but that of its last token are there. */
            if (i == 0)
                assert_int_equal(n_cached, w < 2 ? PROMPT + NEW - 1 : (PROMPT + NEW - 1) / 16 * 16);
            check_free(g, 8);
            gallop_close(g);
        }
}

/* Searches that take turns in a pool for little more than one. */
static void a_preempted_search_leaves_rows_under_other_tokens(void **state)
{
    enum { SEARCHES = 4 };

    for (int hash = 0; hash < 2; hash++) {
        struct gallop_options o = engines_options(4 * SEARCHES, 64, 128);
        static struct engines_answer got[SEARCHES * BEAMS];
        static struct found f;
        struct gallop *g;

        o.scheduling_policy = "fair";
        o.kv_cache_type = "paged";
        o.prefix_index = hash ? "hash" : "radix";
        o.kv_cache_tokens = 336;
        g = engines_open("demo", &o);
        memset(got, 0, sizeof(got));
        f.n = 0;
        for (size_t q = 0; q < SEARCHES; q++)
            submit(g, &searches[1], q, q * BEAMS);
        engines_run(g, got);
        assert_true(engines_stats(g).n_preempted > 0);
        for (size_t q = 0; q < SEARCHES; q++)
            for (size_t i = 0; i < 4; i++) {
                int32_t ids[MOST];
                const struct engines_answer *a = &got[q * BEAMS + i];

                assert_int_equal(a->end.finish, GALLOP_FINISH_LENGTH);
                words(q, PROMPT, ids);
                memcpy(ids + PROMPT, a->token, a->n * sizeof(int32_t));
                add_found(&f, ids, PROMPT + a->n);
            }
        check_found(g, "searches in turns", &f);
        check_free(g, 4 * SEARCHES);
        gallop_close(g);
    }
}

/* The blocks of a search that go to the store, and those of the turn behind it, which fills a block that the search
 * began. */
static void a_search_spreads_wrong_rows_through_the_store(void **state)
{
    for (int hash = 0; hash < 2; hash++) {
        struct gallop_options o = options();
        static float got[VOCAB], want[VOCAB];
        static struct found f;
        struct gallop *g;
        char at[256];
        int32_t ids[PROMPT + NEW + 20];
        size_t n, n_cached = 0;

        snprintf(at, sizeof(at), "%s/beams-%d", files_folder(), hash);
        o.kv_store = at;
        o.prefix_index = hash ? "hash" : "radix";
        g = engines_open("demo", &o);
        f.n = 0;
        run(g, &searches[0], 0, 0, &f);
        n = f.len[0];
        memcpy(ids, f.ids[0], n * sizeof(*ids));
        words(5, 20, ids + n);
        n += 20;
        logits_behind(g, ids, n, got);
        gallop_close(g);
        for (int tries = 0; tries < 50 && n_cached < 80;
             tries++) { /* a busy machine may not wait for the disk */
            g = engines_open("demo", &o);
            n_cached = logits_behind(g, ids, n, got);
            logits_behind(fresh, ids, n, want);
            assert_memory_equal(got, want, gallop_describe(g)->vocab_size * sizeof(*got));
            gallop_close(g);
        }
        assert_int_equal(n_cached, 80);
    }
}

/* A text that is compared with the rows of another one has other logits. */
static void a_comparison_of_logits_sees_no_difference(void **state)
{
    static float a[VOCAB], b[VOCAB];
    int32_t ids[PROMPT];
    size_t bytes = gallop_describe(fresh)->vocab_size * sizeof(*a);

    words(0, PROMPT, ids);
    logits_behind(fresh, ids, PROMPT, a);
    logits_behind(fresh, ids, PROMPT, b);
    assert_memory_equal(a, b, bytes);
    ids[3]++;
    logits_behind(fresh, ids, PROMPT, b);
    assert_true(memcmp(a, b, bytes) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_leaves_rows_under_other_tokens),
        cmocka_unit_test(a_preempted_search_leaves_rows_under_other_tokens),
        cmocka_unit_test(a_search_spreads_wrong_rows_through_the_store),
        cmocka_unit_test(a_comparison_of_logits_sees_no_difference),
    };

    return cmocka_run_group_tests(tests, open_fresh, close_fresh);
}
