/* test_store.c - blocks that outlive an engine: what is read from a store gives the tokens and bits of what
 * is computed, over models, indexes, layouts and types of rows; a store that was cut, flipped, filled, killed
 * or is another's costs hits, and never an answer.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/gallop_in.h"
#include "engines.h"
#include "files.h"

enum { REQUESTS = 12, PROMPT = 100, WHOLE = 96, MOST = 200 };

static char at[256]; /* the folder of the store */

static int new_folder(void **state)
{
    static int n;

    snprintf(at, sizeof(at), "%s/store-%d", files_folder(), n++);
    return 0;
}

/* ---- requests ---- */

/* The request number I: a beginning that it shares with others, then a text of its own. */
static size_t make_prompt(size_t i, int32_t *ids)
{
    static const size_t shared[] = {0, 33, 64, 100};
    size_t same = shared[i % 4], own = 5 + i * 7 % 40;

    engines_text(1, 0, same, ids);
    engines_text(10 + i % 5, same, own, ids + same);
    return same + own;
}

static void submit(struct gallop *g, size_t i, const int32_t *ids, size_t n, const char *salt)
{
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = n;
    r.user = (void *)i;
    r.cache_salt = salt;
    r.sampling.max_new_tokens = (int64_t)(3 + i * 5 % 30);
    r.sampling.ignore_eos = 1;
    r.sampling.logprobs = 0;
    r.sampling.do_sample = i % 3 == 0;
    r.sampling.has_seed = 1;
    r.sampling.seed = i;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

static void run_all(struct gallop *g, struct engines_answer *a)
{
    memset(a, 0, REQUESTS * sizeof(*a));
    for (size_t i = 0; i < REQUESTS; i++) {
        int32_t ids[MOST];

        submit(g, i, ids, make_prompt(i, ids), NULL);
    }
    engines_run(g, a);
    engines_check_cache(g);
}

static size_t stored_of(const struct engines_answer *a)
{
    size_t sum = 0;

    for (size_t i = 0; i < REQUESTS; i++)
        sum += a[i].end.n_stored;
    return sum;
}

static struct gallop_options options(void)
{
    struct gallop_options o = engines_options(8, 64, 256);

    o.kv_store = at;
    return o;
}

/* One prompt of PROMPT tokens, of which it then tells how many were read from the store. */
static size_t ask_once(const char *model, const struct gallop_options *o, struct engines_answer *a)
{
    static struct engines_answer own;
    struct gallop *g = engines_open(model, o);
    int32_t ids[PROMPT];

    a = a ? a : &own;
    memset(a, 0, sizeof(*a));
    engines_text(1, 0, PROMPT, ids);
    submit(g, 0, ids, PROMPT, NULL);
    engines_run(g, a);
    engines_check_cache(g);
    gallop_close(g);
    assert_true(a->end.n_stored <= a->end.n_cached);
    return a->end.n_stored;
}

/* ---- the same bits ---- */

static void what_is_read_after_a_restart_changes_no_token_and_no_bit(void **state)
{
    static const struct {
        const char *model, *index, *layout, *dtype, *kv_dtype;
        int64_t pool;
    } way[] = {{"llama3-rope", "hash", "head_major", "fp32", "auto", 0},
               {"llama3-rope", "radix", "block_major", "bf16", "auto", 0},
               {"llama3-rope", "hash", "block_major", "bf16", "int8", 512},
               {"gemma3", "hash", "head_major", "fp32", "auto", 0},
               {"gemma3", "radix", "block_major", "bf16", "int8", 0},
               {"gpt-oss", "hash", "head_major", "bf16", "auto", 0},
               {"gpt-oss", "radix", "head_major", "fp32", "int8", 0},
               {"mistral", "hash", "head_major", "bf16", "auto", 0},
               {"phi3-longrope", "radix", "head_major", "fp32", "auto", 0},
               {"gemma4", "hash", "head_major", "fp32", "auto", 0}};
    static struct engines_answer alone[REQUESTS], got[REQUESTS];

    for (size_t w = 0; w < sizeof(way) / sizeof(way[0]); w++) {
        struct gallop_options o = engines_options(8, 64, 256);
        struct gallop *g;
        char says[256];

        new_folder(state);
        o.dtype = way[w].dtype;
        o.kv_cache_dtype = way[w].kv_dtype;
        o.prefix_index = "none";
        g = engines_open(way[w].model, &o);
        run_all(g, alone);
        gallop_close(g);
        o.prefix_index = way[w].index;
        o.kv_cache_layout = way[w].layout;
        o.kv_store = at;
        o.kv_cache_tokens = way[w].pool;
        for (int again = 0; again < 3; again++) {
            if (again == 2) /* the records do not depend on it */
                o.kv_cache_layout = strcmp(way[w].layout, "head_major") == 0 ? "block_major" : "head_major";
            g = engines_open(way[w].model, &o);
            run_all(g, got);
            if (engines_differ(alone, got, REQUESTS, says))
                fail_msg("way %zu, engine %d: %s", w, again, says);
            if (again && stored_of(got) == 0)
                fail_msg("way %zu, engine %d: nothing was read", w, again);
            assert_int_equal(engines_stats(g).n_store_damaged, 0);
            gallop_close(g);
        }
    }
}

static void hits_from_the_store_are_counted_apart(void **state)
{
    static struct engines_answer a[2];
    struct gallop_options o = options();
    struct gallop_stats s;
    struct gallop *g;
    int32_t ids[PROMPT];

    assert_int_equal(ask_once("llama3-rope", &o, NULL), 0);
    memset(a, 0, sizeof(a));
    g = engines_open("llama3-rope", &o);
    engines_text(1, 0, PROMPT, ids);
    for (size_t i = 0; i < 2; i++) {
        submit(g, i, ids, PROMPT, NULL);
        engines_run(g, a);
    }
    s = engines_stats(g);
    assert_int_equal(a[0].end.n_cached, WHOLE);
    assert_int_equal(a[0].end.n_stored, WHOLE);
    assert_int_equal(a[1].end.n_cached, WHOLE);
    assert_int_equal(a[1].end.n_stored, 0); /* these were in memory */
    assert_int_equal(s.n_cached_tokens, 2 * WHOLE);
    assert_int_equal(s.n_stored_tokens, WHOLE);
    assert_int_equal(s.n_store_read, WHOLE / 16);
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_read_after_a_restart_changes_no_token_and_no_bit, new_folder),
        cmocka_unit_test_setup(hits_from_the_store_are_counted_apart, new_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
