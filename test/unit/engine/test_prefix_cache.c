/* test_prefix_cache.c - a hit never changes a bit: whatever index, cache, model, company and pool, tokens and
 * their log-probabilities are those computed without a prefix cache; and hits are counted once.
 */
#include "engine/gallop_in.h"
#include "engines.h"

enum { REQUESTS = 40, MOST = 200 };

/* The request number I: one of four beginnings, some of them the beginning of others, then a text of its
 * own. */
static size_t make_prompt(size_t i, int32_t *ids)
{
    static const size_t shared[] = {0, 33, 64, 100};
    size_t same = shared[i % 4], own = 5 + i * 7 % 40;

    engines_text(1, 0, same, ids);
    engines_text(10 + i % 13, same, own,
                 ids + same); /* 13 texts for 40 requests: whole prompts come again, too */
    return same + own;
}

static void submit_all(struct gallop *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t ids[MOST];
        size_t len = make_prompt(i, ids);
        struct gallop_request r;
        char err[GALLOP_ERR_SIZE];

        gallop_request_init(&r);
        r.ids = ids;
        r.n_ids = len;
        r.user = (void *)i;
        r.sampling.max_new_tokens = (int64_t)(3 + i * 5 % 30);
        r.sampling.ignore_eos = 1;
        r.sampling.logprobs = 0;
        r.sampling.do_sample = i % 3 == 0;
        r.sampling.has_seed = 1;
        r.sampling.seed = i;
        if (gallop_submit(g, &r, NULL, err) != 0)
            fail_msg("%s", err);
    }
}

static size_t cached_of(const struct engines_answer *a, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += a[i].end.n_cached;
    return sum;
}

static void a_hit_never_changes_a_token_or_a_bit(void **state)
{
    static const char *const models[] = {"llama3-rope",   "gemma3",        "gpt-oss",
                                         "phi3-longrope", "llama-dynamic", "gemma4"};
    static const struct {
        const char *type, *index, *admission;
        int64_t seqs, pool;
    } way[] = {{"paged", "hash", NULL, 8, 0},           {"paged", "radix", NULL, 8, 0},
               {"slab_pool", "radix", NULL, 1, 0},      {"paged", "radix", NULL, 8, 512},
               {"paged", "hash", "worst-case", 8, 512}, {"dynamic", "hash", NULL, 8, 0}};
    static struct engines_answer alone[REQUESTS], got[REQUESTS];

    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
        struct gallop_options o = engines_options(8, 64, 256);
        struct gallop *g;

        memset(alone, 0, sizeof(alone));
        o.prefix_index = "none";
        g = engines_open(models[m], &o);
        submit_all(g, REQUESTS);
        engines_run(g, alone);
        assert_int_equal(cached_of(alone, REQUESTS), 0);
        gallop_close(g);
        for (size_t w = 0; w < sizeof(way) / sizeof(way[0]); w++) {
            struct gallop_stats s;
            char says[256];

            o = engines_options(way[w].seqs, 64, 256);
            o.kv_cache_type = way[w].type;
            o.prefix_index = way[w].index;
            o.admission = way[w].admission;
            o.kv_cache_tokens = way[w].pool;
            g = engines_open(models[m], &o);
            for (int again = 0; again < 2; again++) { /* the second time most of it is there */
                memset(got, 0, sizeof(got));
                submit_all(g, REQUESTS);
                engines_run(g, got);
                if (engines_differ(alone, got, REQUESTS, says))
                    fail_msg("%s, way %zu: %s", models[m], w, says);
                engines_check_cache(g);
            }
            s = engines_stats(g);
            if (w == 5)
                assert_int_equal(s.n_cached_tokens, 0); /* this type keeps nothing */
            else if (m < 3 && cached_of(got, REQUESTS) == 0)
                fail_msg("%s, way %zu: nothing was found", models[m], w);
            gallop_close(g);
        }
    }
}

static void hits_are_counted_once_and_whole_prompts_but_for_a_row_are_hits(void **state)
{
    static const struct {
        const char *index;
        size_t cached; /* of 100 tokens that come again */
    } way[] = {{"hash", 96}, {"radix", 99}, {"none", 0}};

    for (size_t w = 0; w < 3; w++) {
        static struct engines_answer a[2];
        struct gallop_options o = engines_options(4, 64, 256);
        struct gallop_stats s;
        struct gallop *g;

        memset(a, 0, sizeof(a));
        o.prefix_index = way[w].index;
        g = engines_open("llama3-rope", &o);
        for (size_t i = 0; i < 2; i++) {
            int32_t ids[100];

            engines_text(1, 0, 100, ids);
            engines_submit(g, ids, 100, 20, i);
            engines_run(g, a);
        }
        s = engines_stats(g);
        assert_int_equal(a[0].end.n_cached, 0);
        assert_int_equal(a[1].end.n_cached, way[w].cached);
        assert_int_equal(s.n_cached_tokens, way[w].cached);
        assert_int_equal(s.n_prompt_tokens, 200 - way[w].cached);
        assert_memory_equal(a[0].token, a[1].token, sizeof(a[0].token));
        gallop_close(g);
    }
}

static void a_preempted_sequence_finds_what_is_left_of_its_rows(void **state)
{
    static struct engines_answer a[4];
    struct gallop_stats with, without;

    for (int keep = 0; keep < 2; keep++) {
        struct gallop_options o = engines_options(4, 64, 256);
        struct gallop *g;

        memset(a, 0, sizeof(a));
        o.kv_cache_tokens = 256;
        o.prefix_index = keep ? "hash" : "none";
        g = engines_open("llama3-rope", &o);
        for (size_t i = 0; i < 4; i++)
            engines_submit_text(g, 16, 112, i);
        engines_run(g, a);
        *(keep ? &with : &without) = engines_stats(g);
        gallop_close(g);
    }
    assert_true(without.n_preempted > 0 && with.n_preempted > 0);
    assert_true(with.n_recomputed_tokens <= without.n_recomputed_tokens);
}

static void salts_share_with_their_own_only(void **state)
{
    static const char *const salts[] = {NULL, "a", "b", "a", NULL, ""};
    static const size_t cached[] = {0, 0, 0, 96, 96, 0};
    struct gallop_options o = engines_options(4, 64, 256);
    struct gallop *g = engines_open("llama3-rope", &o);

    for (size_t i = 0; i < sizeof(salts) / sizeof(salts[0]); i++) {
        static struct engines_answer a[1];
        struct gallop_request r;
        int32_t ids[100];

        memset(a, 0, sizeof(a));
        engines_text(1, 0, 100, ids);
        gallop_request_init(&r);
        r.ids = ids;
        r.n_ids = 100;
        r.sampling.max_new_tokens = 2;
        r.cache_salt = salts[i];
        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
        engines_run(g, a);
        assert_int_equal(a[0].end.n_cached, cached[i]);
    }
    gallop_close(g);
}

static void a_scored_prompt_is_computed_whatever_is_there(void **state)
{
    struct gallop_options o = engines_options(4, 64, 256);
    struct gallop *g = engines_open("llama3-rope", &o);

    for (size_t i = 0; i < 2; i++) {
        struct gallop_request r;
        struct gallop_event ev;
        int32_t ids[100];
        size_t n = 0;

        engines_text(1, 0, 100, ids);
        gallop_request_init(&r);
        r.ids = ids;
        r.n_ids = 100;
        r.sampling.max_new_tokens = 0;
        r.prompt_logprobs = 0;
        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
        while (gallop_next(g, &ev)) {
            n += ev.type == GALLOP_PROMPT_TOKEN;
            if (ev.type == GALLOP_FINISHED)
                assert_int_equal(ev.n_cached, 0);
        }
        assert_int_equal(n, 99);
    }
    gallop_close(g);
}

static void an_index_of_another_name_is_refused(void **state)
{
    struct gallop_options o = engines_options(4, 64, 256);
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;

    o.prefix_index = "trie";
    assert_int_equal(engines_try(&g, "llama3-rope", &o, err), GALLOP_BAD_INPUT);
    assert_string_equal(err, "prefix index trie is not known (hash, radix, none)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hit_never_changes_a_token_or_a_bit),
        cmocka_unit_test(hits_are_counted_once_and_whole_prompts_but_for_a_row_are_hits),
        cmocka_unit_test(a_preempted_sequence_finds_what_is_left_of_its_rows),
        cmocka_unit_test(salts_share_with_their_own_only),
        cmocka_unit_test(a_scored_prompt_is_computed_whatever_is_there),
        cmocka_unit_test(an_index_of_another_name_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
