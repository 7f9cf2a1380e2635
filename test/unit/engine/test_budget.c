/* test_budget.c - the size of the KV cache and the time at which it takes its memory: a configured size is
 * used, a size without configuration stays within bounds, and an engine that does not fit into memory does
 * not start. */
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/threads/topo.h"
#include "engine/llm.h"
#include "engines.h"
#include "gallop.h"
#include "kv/kv.h"

static int open_budget(double gib, int64_t n_tokens, const char *type, char *err)
{
    struct gallop_options o;
    struct gallop *g = NULL;
    int rc;

    gallop_options_init(&o);
    o.threads = 1;
    o.kv_cache_memory = gib;
    o.kv_cache_tokens = n_tokens;
    o.kv_cache_type = type;
    err[0] = 0;
    rc = engines_try(&g, "demo", &o, err);
    if (rc == 0)
        snprintf(err, GALLOP_ERR_SIZE, "%zu", kv_bytes(&engine_llm(g)->kv));
    gallop_close(g);
    return rc;
}

static void a_cache_that_does_not_fit_is_refused_with_the_largest_that_does(void **state)
{
    static const char *const types[] = {"slab_pool", "paged", "dynamic", "bmc"};
    char err[GALLOP_ERR_SIZE];

    for (int t = 0; t < 4; t++) {
        const char *most;
        double fit;

        assert_int_equal(open_budget(900000, 0, types[t], err), GALLOP_NO_MEMORY);
        assert_non_null(strstr(err, "do not fit"));
        assert_non_null(most = strstr(err, "kv_cache_memory "));
        assert_true(sscanf(most, "kv_cache_memory %lf", &fit) == 1 && fit > 0.01);
        assert_true(fit * 1073741824 < (double)topo_memory_limit_bytes() * 31 / 32);
        if (!kv_type_pooled(types[t])) { /* The other cache types would accept it. */
            assert_int_equal(open_budget(fit, 0, types[t], err), 0);
            assert_int_equal(open_budget(fit * 1.01 + 0.02, 0, types[t], err), GALLOP_NO_MEMORY);
        }
        assert_int_equal(open_budget(0, INT64_MAX / 4, types[t], err), GALLOP_NO_MEMORY);
        assert_int_equal(open_budget(1e-7, 0, types[t], err), GALLOP_BAD_INPUT);
        assert_non_null(strstr(err, "less than one KV block"));
        assert_int_equal(open_budget(1e-12, 0, types[t], err), GALLOP_BAD_INPUT); /* less than one byte */
        assert_non_null(strstr(err, "less than one KV block"));
    }
}

/* The sizes that the error recommends are sufficient, both of them. */
static void a_cache_below_one_sequence_is_refused_with_what_would_help(void **state)
{
    static const char *const types[] = {"slab_pool", "paged", "dynamic", "bmc"};

    for (int t = 0; t < 4; t++)
        for (int by_memory = 0; by_memory < 2; by_memory++) {
            struct gallop_options o;
            struct gallop *g;
            char err[GALLOP_ERR_SIZE];
            const char *gib, *len;

            gallop_options_init(&o);
            o.threads = 1; /* The model has 1024 positions. */
            o.kv_cache_type = types[t];
            o.kv_cache_tokens = by_memory ? 0 : 512;
            o.kv_cache_memory = by_memory ? 0.0008 : 0;
            if (engines_try(&g, "demo", &o, err) != GALLOP_BAD_INPUT)
                fail_msg("%s: a cache of 512 tokens for 1024 positions: %s", types[t], g ? "it opens" : err);
            gib = strstr(err, "kv_cache_memory ");
            len = strstr(err, ", or max_model_len ");
            if (!strstr(err, "cannot hold one sequence of max_model_len 1024") || !gib || !len)
                fail_msg("%s: both options are expected in: %s", types[t], err);
            o.max_model_len = atoi(len + strlen(", or max_model_len "));
            if (engines_try(&g, "demo", &o, err) != 0)
                fail_msg("%s, %d positions: %s", types[t], (int)o.max_model_len, err);
            gallop_close(g);
            o.kv_cache_memory = atof(gib + strlen("kv_cache_memory "));
            o.max_model_len = 0;
            if (engines_try(&g, "demo", &o, err) != 0)
                fail_msg("%s, %f GiB: %s", types[t], o.kv_cache_memory, err);
            gallop_close(g);
        }
}

static void a_budget_in_gib_is_filled_and_not_passed(void **state)
{
    char err[GALLOP_ERR_SIZE];
    double bytes = 0.05 * 1073741824;

    assert_int_equal(open_budget(0.05, 0, "slab_pool", err), 0);
    assert_true(atof(err) <= bytes && atof(err) > 0.95 * bytes);
}

/* Returns the resident bytes of this process. */
static size_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*s %zu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Opens the demo model with a pool for SEQS sequences of LENGTH (0: the model's). Returns the bytes of its
 * pool. *CAME is the growth of resident memory. */
static size_t open_pool(double gib, int64_t seqs, int64_t length, size_t *came)
{
    struct gallop_options o;
    struct gallop *g = NULL;
    char err[GALLOP_ERR_SIZE];
    size_t before = resident(), bytes;

    gallop_options_init(&o);
    o.max_num_seqs = seqs;
    o.max_model_len = length;
    o.kv_cache_memory = gib;
    assert_int_equal(engines_try(&g, "demo", &o, err), 0);
    bytes = kv_bytes(&engine_llm(g)->kv);
    *came = resident() - before;
    gallop_close(g);
    return bytes;
}

static void a_pool_that_is_not_in_memory_at_open(void **state)
{
    size_t came, bytes;

    /* The allocator now holds the memory that an engine needs in addition to its pool. */
    open_pool(0, 1, 0, &came);
    bytes = open_pool(0.25, 256, 0, &came);
    assert_true(came >= bytes && bytes > (size_t)250 << 20);
}

/* The pages of a pool without a configured size become resident when they are written, however long sequences
 * may be. */
static void a_long_context_that_takes_memory_at_open(void **state)
{
    size_t came, bytes;

    open_pool(0, 1, 0, &came);
    bytes = open_pool(0, 256, 0, &came);
    assert_true(bytes > (size_t)256 << 20);
    assert_true(came < bytes / 8);
    bytes = open_pool(0, 8, 131072, &came);
    assert_true(bytes > (size_t)256 << 20);
    assert_true(came < (size_t)64 << 20); /* Most of it is shadow memory of a thread sanitizer. */
}

static size_t default_tokens(int unbounded, int64_t seqs, int64_t length, size_t *token_bytes)
{
    struct gallop_options o;
    struct gallop *g = NULL;
    char err[GALLOP_ERR_SIZE];
    size_t tokens;

    gallop_options_init(&o);
    o.kv_cache_type = "dynamic"; /* a budget of which nothing is taken here */
    o.max_num_seqs = seqs;
    o.max_model_len = length;
    o.kv_cache_unbounded = unbounded;
    assert_int_equal(engines_try(&g, "demo", &o, err), 0);
    tokens = engine_llm(g)->kv.lim.pool_tokens;
    *token_bytes = kv_token_bytes(&engine_llm(g)->kv.lim);
    gallop_close(g);
    return tokens;
}

static void a_default_pool_larger_than_4_gib_unless_one_sequence_needs_it(void **state)
{
    const size_t most = (size_t)4 << 30;
    size_t each, tokens = default_tokens(0, 4096, 1024, &each), one = most / each * 3 / 2;

    assert_true(tokens * each <= most);
    assert_true(default_tokens(1, 4096, 1024, &each) >= tokens);
    tokens = default_tokens(0, 4, (int64_t)one, &each);
    assert_true(tokens <= one + KV_MAX_BLOCK);
    assert_true(tokens > most / each || tokens == default_tokens(1, 4, (int64_t)one, &each));
    assert_int_equal(default_tokens(0, 3, 1024, &each), 3 * (1024 + KV_MAX_BLOCK));
}

static void count_progress(void *ctx, size_t done, size_t total)
{
    (void)done;
    (void)total;
    ++*(int *)ctx;
}

static void what_does_not_fit_is_refused_before_a_layer_is_packed(void **state)
{
    struct gallop_options o;
    struct gallop *g = NULL;
    char err[GALLOP_ERR_SIZE];
    int n_layers = 0;

    gallop_options_init(&o);
    o.threads = 1;
    o.kv_cache_memory = 900000;
    o.progress = count_progress;
    o.progress_ctx = &n_layers;
    assert_int_equal(engines_try(&g, "demo", &o, err), GALLOP_NO_MEMORY);
    assert_int_equal(n_layers, 0);
    o.kv_cache_memory = 0.01;
    assert_int_equal(engines_try(&g, "demo", &o, err), 0);
    assert_int_equal(n_layers, 5); /* The callback is called at all. */
    gallop_close(g);
}

/* The memory that the first engine uses is not available to the second. */
static void engines_of_one_process_share_its_memory(void **state)
{
    struct gallop_options o;
    struct gallop *g[2];
    char err[GALLOP_ERR_SIZE];
    size_t bytes[2];

    gallop_options_init(&o);
    o.threads = 1;
    o.max_num_seqs = 4096;
    o.max_model_len = 1 << 20; /* This is more than fits: the caches fill half of what is left. */
    o.kv_cache_unbounded = 1;
    for (int i = 0; i < 2; i++) {
        if (engines_try(&g[i], "demo", &o, err) != 0)
            fail_msg("engine %d: %s", i, err);
        bytes[i] = kv_bytes(&engine_llm(g[i])->kv);
    }
    if (bytes[1] > bytes[0] * 6 / 10)
        fail_msg("the first cache has %zu bytes, the second %zu, expected about half of that", bytes[0],
                 bytes[1]);
    gallop_close(g[0]);
    o.kv_cache_memory = 900000;
    assert_int_equal(engines_try(&g[0], "demo", &o, err), GALLOP_NO_MEMORY);
    assert_non_null(strstr(err, ", other engines ("));
    gallop_close(g[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_that_does_not_fit_is_refused_with_the_largest_that_does),
        cmocka_unit_test(a_cache_below_one_sequence_is_refused_with_what_would_help),
        cmocka_unit_test(a_budget_in_gib_is_filled_and_not_passed),
        cmocka_unit_test(a_pool_that_is_not_in_memory_at_open),
        cmocka_unit_test(a_long_context_that_takes_memory_at_open),
        cmocka_unit_test(what_does_not_fit_is_refused_before_a_layer_is_packed),
        cmocka_unit_test(engines_of_one_process_share_its_memory),
        cmocka_unit_test(a_default_pool_larger_than_4_gib_unless_one_sequence_needs_it),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
