/* test_prefix_cache.c - which rows are found, by which requests, and how they are counted. test_mixed.c shows
 * that a hit never changes a bit. */
#include "engine/engine_priv.h"
#include "engines.h"
#include "gallop.h"

static void hits_are_counted_once_and_whole_prompts_but_for_a_row_are_hits(void **state)
{
    static const struct {
        const char *index;
        size_t cached; /* the prompt of 100 tokens that is repeated */
    } way[] = {{NULL, 99}, {"radix", 99}, {"hash", 96}, {"none", 0}};

    for (size_t w = 0; w < sizeof(way) / sizeof(way[0]); w++) {
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
    static const size_t cached[] = {0, 0, 0, 99, 99, 0};
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
    assert_string_equal(err, "prefix_index: found 'trie', expected one of radix|hash|none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_are_counted_once_and_whole_prompts_but_for_a_row_are_hits),
        cmocka_unit_test(a_preempted_sequence_finds_what_is_left_of_its_rows),
        cmocka_unit_test(salts_share_with_their_own_only),
        cmocka_unit_test(a_scored_prompt_is_computed_whatever_is_there),
        cmocka_unit_test(an_index_of_another_name_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
