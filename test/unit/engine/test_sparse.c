/* test_sparse.c - engines that keep the first rows and a window: the same bits over caches, types, chunks,
 * threads and company; none changed where the window is not outgrown; forks, steps back and saved rows;
 * memory that stops growing; which layers it touches, and models and texts that are refused.
 * test/unit/ops/test_sparse.c has the arithmetic.
 */
#include <unistd.h>

#include "base/err.h"
#include "engine/gallop_in.h"
#include "engine/identity.h"
#include "engine/score.h"
#include "goldens.h"
#include "kv/kv_wire.h"

enum { LONGEST = 400, PROMPT = 300, N_REQUESTS = 4, NEW = 20 };
#define SPEC "sink=4,window=48"

static const size_t lengths[N_REQUESTS] = {3, 50, 130, 300};

struct way {
    const char *type, *kv_dtype;
    int threads;
    int64_t chunk, block;
    const char *spec;
};

static int32_t token_at(size_t request, size_t i)
{
    return (int32_t)(3 + (request * 61 + i * i * 5 + i * 37) % 150);
}

static int try_open(struct gallop **g, const char *name, const char *dtype, const struct way *w, char *err)
{
    struct gallop_options o;

    gallop_options_init(&o);
    o.dtype = dtype;
    o.kv_cache_type = w->type;
    o.kv_cache_dtype = w->kv_dtype;
    o.threads = w->threads ? w->threads : 1;
    o.max_batched_tokens = w->chunk;
    o.block_size = w->block;
    o.max_num_seqs = 4;
    o.max_model_len = LONGEST;
    o.kv_sparse = w->spec;
    return golden_try_open(g, name, &o, err);
}

static struct gallop *open_with(const char *name, const char *dtype, const struct way *w)
{
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;

    if (try_open(&g, name, dtype, w, err) != 0)
        fail_msg("%s: %s", name, err);
    return g;
}

struct all_rows {
    float *x; /* [PROMPT, V] */
    size_t V;
};

static int take(void *ctx, size_t pos, size_t n, const float *logits)
{
    struct all_rows *r = ctx;

    memcpy(r->x + pos * r->V, logits, n * r->V * sizeof(float));
    return 0;
}

/* Logits of all rows of a prompt in pieces of CHUNK. free(). */
static float *logits(struct gallop *g, size_t chunk, size_t *bytes)
{
    struct llm *m = gallop_llm(g);
    struct all_rows r = {.V = m->model.info.vocab};
    int32_t ids[PROMPT];
    struct score_request q = {
        .ids = ids, .n = PROMPT, .last = PROMPT, .chunk = chunk, .rows = take, .ctx = &r};
    struct err e = {0};

    for (size_t i = 0; i < PROMPT; i++)
        ids[i] = token_at(4, i);
    *bytes = PROMPT * r.V * sizeof(float);
    r.x = malloc(*bytes);
    if (score_run(m, &q, &e) != 0 || kv_check(&m->kv, &e) != 0)
        fail_msg("%s", e.msg);
    return r.x;
}

/* Tokens of all requests, alone or together. */
static void tokens(struct gallop *g, bool together, int32_t out[N_REQUESTS][NEW])
{
    size_t n[N_REQUESTS] = {0};
    struct gallop_event ev;

    for (size_t q = 0; q < N_REQUESTS; q++) {
        int32_t ids[LONGEST];

        for (size_t i = 0; i < lengths[q]; i++)
            ids[i] = token_at(q, i);
        golden_submit(g, ids, lengths[q], NEW, q);
        if (together && q + 1 < N_REQUESTS)
            continue;
        while (gallop_next(g, &ev))
            if (ev.type == GALLOP_TOKEN)
                out[(size_t)ev.user][n[(size_t)ev.user]++] = ev.token;
    }
    for (size_t q = 0; q < N_REQUESTS; q++)
        assert_int_equal(n[q], NEW);
}

static void same_everywhere(const char *name, const char *dtype, const char *kv_dtype)
{
    static const size_t chunks[] = {1, 7, 64};
    static const struct way ways[] = {
        {"slab_pool", NULL, 2, 0, 16, SPEC}, {"slab_pool", NULL, 1, 33, 64, SPEC},
        {"paged", NULL, 2, 0, 0, SPEC},      {"paged", NULL, 1, 9, 16, SPEC},
        {"dynamic", NULL, 2, 64, 0, SPEC},   {"bmc", NULL, 1, 0, 0, SPEC}};
    int32_t want[N_REQUESTS][NEW], got[N_REQUESTS][NEW];
    struct way plain = {"slab_pool", kv_dtype, 1, 0, 0, SPEC};
    struct gallop *g = open_with(name, dtype, &plain);
    size_t bytes;
    float *ref = logits(g, 0, &bytes), *x;

    tokens(g, false, want);
    for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); c++) {
        x = logits(g, chunks[c], &bytes);
        if (memcmp(x, ref, bytes) != 0)
            fail_msg("%s %s: logits differ at chunk %zu", name, dtype, chunks[c]);
        free(x);
    }
    gallop_close(g);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        struct way way = ways[w];

        way.kv_dtype = kv_dtype;
        g = open_with(name, dtype, &way);
        tokens(g, true, got);
        x = logits(g, 0, &bytes);
        if (memcmp(want, got, sizeof(want)) != 0 || memcmp(x, ref, bytes) != 0)
            fail_msg("%s %s: tokens or logits differ, way %zu", name, dtype, w);
        free(x);
        gallop_close(g);
    }
    plain.spec = NULL; /* the ruler: all rows give other bits */
    g = open_with(name, dtype, &plain);
    x = logits(g, 0, &bytes);
    assert_memory_not_equal(x, ref, bytes);
    free(x);
    free(ref);
    gallop_close(g);
}

static void the_same_bits_come_from_every_cache_and_in_any_company(void **state)
{
    same_everywhere("llama3-rope", "fp32", NULL);
    same_everywhere("llama3-rope", "bf16", "int8");
    same_everywhere("gemma3", "bf16", NULL); /* windows of its own beside it */
    same_everywhere("gpt-oss", "bf16", NULL);
    same_everywhere("gpt-oss", "fp32", "int8");
    same_everywhere("gemma4", "bf16", NULL);
    same_everywhere("llama4", "fp32", "bf16");
    same_everywhere("llama-longrope", "bf16", "fp32");
}

/* llama-longrope changes its factors behind 128 positions: of the text, or of what a sparse cache keeps. */
static void a_long_rope_goes_by_what_the_cache_keeps(void **state)
{
    static const struct {
        const char *spec;
        bool changes;
    } table[] = {
        {NULL, true}, {"sink=4,window=60", false}, {"sink=4,window=124", false}, {"sink=4,window=125", true}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct way w = {.type = "slab_pool", .spec = table[i].spec};
        struct gallop *g = open_with("llama-longrope", "fp32", &w);

        assert_int_equal(llm_must_recompute(gallop_llm(g), 128, 128, 140), table[i].changes);
        gallop_close(g);
    }
}

static void a_window_that_is_not_outgrown_changes_no_bit(void **state)
{
    static const char *const names[] = {"llama3-rope", "gpt-oss", "llama4"};

    for (size_t i = 0; i < 3; i++) {
        struct way w = {"paged", NULL, 2, 0, 0, NULL};
        struct gallop *g = open_with(names[i], "bf16", &w);
        size_t bytes, rows[] = {296, 299, 100000};
        float *want = logits(g, 0, &bytes);

        gallop_close(g);
        for (size_t n = 0; n < 3; n++) {
            char spec[64];
            float *x;

            snprintf(spec, sizeof(spec), "sink=4,window=%zu", rows[n]);
            w.spec = spec;
            g = open_with(names[i], "bf16", &w);
            x = logits(g, 0, &bytes);
            assert_memory_equal(x, want, bytes);
            free(x);
            gallop_close(g);
        }
        free(want);
    }
}

/* Computes tokens [from, to) of one sequence in chunks; logits of the last into OUT. */
static void compute(struct llm *m, size_t slot, size_t from, size_t to, size_t chunk, float *out)
{
    for (size_t pos = from; pos < to;) {
        int32_t ids[LONGEST];
        size_t n = to - pos < chunk ? to - pos : chunk;
        struct llm_rows r = {.slot = slot, .id = ids, .n = n, .pos = pos, .n_prompt = to, .n_total = to};

        for (size_t i = 0; i < n; i++)
            ids[i] = token_at(9, pos + i);
        r.n_wanted = pos + n == to;
        assert_int_equal(kv_reserve(&m->kv, slot, pos + n), 0);
        llm_forward(m, &r, 1);
        pos += n;
        kv_advance(&m->kv, slot, pos);
    }
    memcpy(out, m->logits, m->model.info.vocab * sizeof(float));
}

static void forks_and_saved_rows_go_on_with_the_bits_of_one_run(void **state)
{
    static const char *const types[] = {"slab_pool", "paged", "dynamic", "bmc"};
    float want[4096], got[4096];

    for (int t = 0; t < 4; t++) {
        struct way w = {types[t], NULL, 1, 0, 0, SPEC}, w2 = {types[(t + 1) % 4], NULL, 1, 0, 32, SPEC};
        struct gallop *g = open_with("gpt-oss", "bf16", &w), *g2 = open_with("gpt-oss", "bf16", &w2);
        struct llm *m = gallop_llm(g), *there = gallop_llm(g2);
        size_t bytes = m->model.info.vocab * sizeof(float), n = 0;
        uint64_t model = identity_of(&m->model);
        struct err e = {0};

        compute(m, 0, 0, 250, 50, want);
        kv_release(&m->kv, 0);
        compute(m, 0, 0, 200, 50, got);
        assert_int_equal(kv_fork(&m->kv, 0, 200, 1), 0);
        if (kv_wire_write(&m->kv, 0, 200, model, "sparse.kv", &e) != 0 ||
            kv_wire_read(&there->kv, 2, model, "sparse.kv", &n, &e) != 0)
            fail_msg("%s", e.msg);
        compute(m, 0, 200, 250, 7, got);
        assert_memory_equal(got, want, bytes);
        compute(m, 1, 200, 250, 50, got);
        assert_memory_equal(got, want, bytes);
        assert_int_equal(n, 200);
        compute(there, 2, 200, 250, 1, got);
        assert_memory_equal(got, want, bytes);
        assert_int_equal(kv_check(&m->kv, NULL), 0);
        assert_int_equal(kv_check(&there->kv, NULL), 0);
        gallop_close(g);
        gallop_close(g2);
    }
    unlink("sparse.kv");
}

static void rows_of_another_setting_are_those_of_another_model(void **state)
{
    static const char *const specs[] = {NULL, SPEC, "sink=5,window=48", "sink=4,window=47"};
    uint64_t seen[4];

    for (int i = 0; i < 4; i++) {
        struct way w = {"slab_pool", NULL, 1, 0, 0, specs[i]};
        struct gallop *g = open_with("llama3-rope", "fp32", &w);

        seen[i] = identity_of(&gallop_llm(g)->model);
        for (int j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
        gallop_close(g);
    }
}

static void memory_stops_growing_with_the_window(void **state)
{
    float x[4096];

    for (int t = 0; t < 2; t++) {
        struct way w = {t ? "paged" : "slab_pool", NULL, 1, 32, 16, SPEC};
        struct gallop *g = open_with("llama3-rope", "bf16", &w);
        struct llm *m = gallop_llm(g);
        size_t block = 16 * kv_token_bytes(&m->kv.lim), most = 0;

        for (size_t n = 0; n < 390; n += 10) {
            compute(m, 0, n, n + 10, 10, x);
            most = kv_held_bytes(&m->kv, 0) > most ? kv_held_bytes(&m->kv, 0) : most;
        }
        assert_true(most >= kv_seq_bytes(&m->kv.lim, 390) && most <= (1 + 3 + 1) * block);
        assert_true(kv_bytes(&m->kv) <= (4 * (1 + 3 + 2) + 32 / 16 + 1) * block);
        gallop_close(g);
    }
}

static void small_windows_and_chunks_of_a_model_stay(void **state)
{
    static const struct {
        const char *name, *spec;
        size_t own; /* rows that some layers see and that stay */
    } models[] = {{"gemma3", SPEC, 24},
                  {"gemma3", "sink=4,window=20", 24},
                  {"gemma3", "sink=4,window=19", 0},
                  {"llama4", "sink=4,window=10", 32}};

    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        struct way w = {"slab_pool", NULL, 1, 0, 0, models[i].spec};
        struct gallop *g = open_with(models[i].name, "fp32", &w);
        const struct llm *m = gallop_llm(g);
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

static void sink_and_window_come_in_either_order(void **state)
{
    static const char *const spec[] = {"sink=4,window=9", "window=9,sink=4"};

    for (int i = 0; i < 2; i++) {
        struct way w = {NULL, NULL, 1, 0, 0, spec[i]};
        struct gallop *g = open_with("llama3-rope", "fp32", &w);

        assert_int_equal(gallop_llm(g)->sparse.sink, 4);
        assert_int_equal(gallop_llm(g)->sparse.window, 9);
        gallop_close(g);
    }
}

static void what_cannot_be_is_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *name, *spec, *what;
        int code;
    } wrong[] = {{"gpt2", SPEC, "learned", GALLOP_UNSUPPORTED},
                 {"opt", SPEC, "learned", GALLOP_UNSUPPORTED},
                 {"llama-dynamic", SPEC, "changes with the length", GALLOP_UNSUPPORTED},
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
        struct way w = {NULL, NULL, 1, 0, 0, wrong[i].spec};
        char err[GALLOP_ERR_SIZE] = "";
        struct gallop *g;

        if (try_open(&g, wrong[i].name, "fp32", &w, err) != wrong[i].code || !strstr(err, wrong[i].what))
            fail_msg("%s with \"%s\": %s", wrong[i].name, wrong[i].spec, err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_come_from_every_cache_and_in_any_company),
        cmocka_unit_test(a_long_rope_goes_by_what_the_cache_keeps),
        cmocka_unit_test(a_window_that_is_not_outgrown_changes_no_bit),
        cmocka_unit_test(forks_and_saved_rows_go_on_with_the_bits_of_one_run),
        cmocka_unit_test(rows_of_another_setting_are_those_of_another_model),
        cmocka_unit_test(memory_stops_growing_with_the_window),
        cmocka_unit_test(small_windows_and_chunks_of_a_model_stay),
        cmocka_unit_test(sink_and_window_come_in_either_order),
        cmocka_unit_test(what_cannot_be_is_refused_with_a_sentence),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
