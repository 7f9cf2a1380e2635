/* test_kv_sparse.c - engines that keep the first rows and a window: nothing changes while the window is not
 * exceeded, memory stops growing, only some layers are concerned, and some models and texts are refused.
 * test_grid.c and test_company.c compare sparse caches of every type, and test/unit/ops/test_attention.c has
 * the arithmetic. */
#include "base/err.h"
#include "base/log.h"
#include "check.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "engine/step.h"
#include "engines.h"
#include "kv/kv.h"
#include "model/model.h"

enum { LONGEST = 400, PROMPT = 300 };
#define SPEC "sink=4,window=48"

static struct gallop *open_sparse(const char *name, const char *spec)
{
    struct gallop_options o = engines_options(4, 32, LONGEST);

    o.kv_sparse = spec;
    return engines_open(name, &o);
}

/* Returns the logits of all rows of a prompt. [PROMPT, V], free(). */
static float *all_logits(const char *name, const char *spec, size_t *V)
{
    struct gallop *g = open_sparse(name, spec);
    int32_t ids[PROMPT];
    float *x;

    engines_text(4, 0, PROMPT, ids);
    x = engines_logits(engine_llm(g), ids, PROMPT, PROMPT, 0, NULL);
    *V = engine_llm(g)->model.info.vocab;
    gallop_close(g);
    return x;
}

/* phi3-longrope changes its RoPE factors after 128 positions of the text, and not of the rows that a sparse
 * cache keeps. */
static void a_long_rope_goes_by_the_text_where_the_cache_keeps_less(void **state)
{
    static const struct {
        const char *spec;
        bool changes;
    } table[] = {
        {NULL, true}, {"sink=4,window=60", false}, {"sink=4,window=124", false}, {"sink=4,window=125", true}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct gallop *g = open_sparse("phi3-longrope", table[i].spec);
        const struct executor *x = engine_loop(g)->x;

        assert_int_equal(x->is_stale(x->ctx, 128, 128, 140), table[i].changes);
        gallop_close(g);
    }
}

static void a_window_changes_bits_before_it_is_outgrown_or_none_behind(void **state)
{
    static const char *const names[] = {"llama3-rope", "gpt-oss", "llama4"};
    static const size_t windows[] = {296, 299, 100000, 48};

    for (size_t i = 0; i < 3; i++) {
        size_t V;
        float *want = all_logits(names[i], NULL, &V);

        for (size_t n = 0; n < 4; n++) {
            char spec[64];
            float *x;

            snprintf(spec, sizeof(spec), "sink=4,window=%zu", windows[n]);
            x = all_logits(names[i], spec, &V);
            if (windows[n] > 48)
                check_same(x, want, PROMPT * V, "%s with %s", names[i], spec);
            else
                assert_true(check_differs(x, want, PROMPT * V) < PROMPT * V);
            free(x);
        }
        free(want);
    }
}

static void rows_of_another_setting_pass_for_those_of_this(void **state)
{
    static const char *const specs[] = {NULL, SPEC, "sink=5,window=48", "sink=4,window=47"};
    uint64_t seen[4];

    for (int i = 0; i < 4; i++) {
        struct gallop *g = open_sparse("llama3-rope", specs[i]);

        seen[i] = model_identity(&engine_llm(g)->model);
        for (int j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
        gallop_close(g);
    }
}

static void memory_grows_beyond_the_window(void **state)
{
    int32_t ids[10];

    for (int t = 0; t < 2; t++) {
        struct gallop_options o = engines_options(4, 32, LONGEST);
        size_t block, most = 0;
        struct gallop *g;
        struct llm *m;

        o.kv_cache_type = t ? "paged" : "slab_pool";
        o.kv_sparse = SPEC;
        o.prefix_index = "none"; /* Windows keep no rows of released sequences. */
        g = engines_open("llama3-rope", &o);
        m = engine_llm(g);
        block = 16 * kv_token_bytes(&m->kv.lim);
        for (size_t n = 0; n < 390; n += 10) {
            engines_text(9, n, 10, ids);
            engines_compute(m, 0, ids, n, 10, 10, n + 10);
            most = kv_held_bytes(&m->kv, 0) > most ? kv_held_bytes(&m->kv, 0) : most;
        }
        assert_true(most >= kv_seq_bytes(&m->kv.lim, 390) && most <= (1 + 3 + 1) * block);
        assert_true(kv_bytes(&m->kv) <= (4 * (1 + 3 + 2) + 32 / 16 + 1) * block);
        gallop_close(g);
    }
}

static void a_small_window_of_a_model_is_widened(void **state)
{
    static const struct {
        const char *name, *spec;
        size_t own; /* the rows that some layers see and that stay */
    } models[] = {{"gemma3", SPEC, 24},
                  {"gemma3", "sink=4,window=20", 24},
                  {"gemma3", "sink=4,window=19", 0},
                  {"llama4", "sink=4,window=10", 32}};

    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        struct gallop *g = open_sparse(models[i].name, models[i].spec);
        const struct llm *m = engine_llm(g);
        size_t stay = 0, changed = 0;

        for (size_t l = 0; l < m->model.info.n_layers; l++) {
            bool same = m->model.info.window[l] == models[i].own && m->model.info.sink[l] == 0;

            stay += same;
            changed += m->model.info.window[l] == m->sparse.window && m->model.info.sink[l] == 4;
        }
        assert_int_equal(stay + changed, m->model.info.n_layers);
        assert_true((stay > 0) == (models[i].own > 0) && changed > 0);
        gallop_close(g);
    }
}

static void sink_and_window_are_taken_in_one_order_only(void **state)
{
    static const char *const spec[] = {"sink=4,window=9", "window=9,sink=4"};

    for (int i = 0; i < 2; i++) {
        struct gallop *g = open_sparse("llama3-rope", spec[i]);

        assert_int_equal(engine_llm(g)->sparse.sink, 4);
        assert_int_equal(engine_llm(g)->sparse.window, 9);
        gallop_close(g);
    }
}

static void a_model_or_text_that_cannot_be_sparse_is_taken(void **state)
{
    static const struct {
        const char *name, *spec, *what;
        int code;
    } wrong[] = {{"gpt2", SPEC, "learned", GALLOP_UNSUPPORTED},
                 {"opt", SPEC, "learned", GALLOP_UNSUPPORTED},
                 {"llama-dynamic", SPEC, "depends on the length", GALLOP_UNSUPPORTED},
                 {"llama3-rope", "", "sink=N,window=N", GALLOP_BAD_INPUT},
                 {"llama3-rope", "sink=4", "\"sink=4\"", GALLOP_BAD_INPUT},
                 {"llama3-rope", "window=4", "sink=N,window=N", GALLOP_BAD_INPUT},
                 {"llama3-rope", "window=4,window=4", "sink=N,window=N", GALLOP_BAD_INPUT},
                 {"llama3-rope", "sink=4,sink=4", "sink=N,window=N", GALLOP_BAD_INPUT},
                 {"llama3-rope", "window=4,sink=4,", "sink=N,window=N", GALLOP_BAD_INPUT},
                 {"llama3-rope", "window=4,sink=4,sink=4", "sink=N,window=N", GALLOP_BAD_INPUT},
                 {"llama3-rope", "window=4;sink=4", "sink=N,window=N", GALLOP_BAD_INPUT},
                 {"llama3-rope", "sink=4,window=0", "sink=N,window=N", GALLOP_BAD_INPUT},
                 {"llama3-rope", "sink=-1,window=9", "sink=N,window=N", GALLOP_BAD_INPUT},
                 {"llama3-rope", "sink=,window=9", "sink=N,window=N", GALLOP_BAD_INPUT},
                 {"llama3-rope", "sink=4,window=9x", "sink=N,window=N", GALLOP_BAD_INPUT},
                 {"llama3-rope", "sink=4,window=99999999999999999999", "sink=N,window=N", GALLOP_BAD_INPUT}};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct gallop_options o = engines_options(4, 0, LONGEST);
        char err[GALLOP_ERR_SIZE] = "";
        struct gallop *g;

        o.kv_sparse = wrong[i].spec;
        if (engines_try(&g, wrong[i].name, &o, err) != wrong[i].code || !strstr(err, wrong[i].what))
            fail_msg("%s with \"%s\": %s", wrong[i].name, wrong[i].spec, err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_rope_goes_by_the_text_where_the_cache_keeps_less),
        cmocka_unit_test(a_window_changes_bits_before_it_is_outgrown_or_none_behind),
        cmocka_unit_test(rows_of_another_setting_pass_for_those_of_this),
        cmocka_unit_test(memory_grows_beyond_the_window),
        cmocka_unit_test(a_small_window_of_a_model_is_widened),
        cmocka_unit_test(sink_and_window_are_taken_in_one_order_only),
        cmocka_unit_test(a_model_or_text_that_cannot_be_sparse_is_taken),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
