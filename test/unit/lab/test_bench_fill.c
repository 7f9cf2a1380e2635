/* test_bench_fill.c - contexts that are filled without computing each token: the cache holds the computed
 * rows and nothing else, in each sequence's own memory, in every way of filling; windows that release rows
 * show only what is visible. */
#include "base/err.h"
#include "base/log.h"
#include "engine/engine_priv.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "gallop.h"
#include "lab/bench/fill.h"

enum { LONGEST = 320, CHUNK = 32, TILE = 16 };

static const char *const models[] = {"llama3-rope", "gemma3"}; /* The second model has windows. */
static const char *const dtypes[] = {"fp32", "bf16", "int8", "int4"};

static const char *sparse; /* the caches that are opened */

static struct gallop *open_with(const char *name, const char *type, const char *dtype, int64_t n_tokens)
{
    struct gallop_options o;
    struct gallop *g;
    char err[GALLOP_ERR_SIZE], dir[4096];

    snprintf(dir, sizeof(dir), "%s/test/golden/%s", GALLOP_SOURCE_DIR, name);
    gallop_options_init(&o);
    o.model = dir;
    o.threads = 2;
    o.kv_cache_type = type;
    o.kv_cache_dtype = dtype;
    o.kv_cache_tokens = n_tokens;
    o.kv_sparse = sparse;
    o.block_size = 32;
    o.max_batched_tokens = CHUNK;
    o.max_num_seqs = 3;
    o.max_model_len = LONGEST;
    if (gallop_open(&g, &o, err) != 0)
        fail_msg("%s", err);
    return g;
}

static void open_fill(struct bench_fill *f, struct llm *m, size_t longest)
{
    static int32_t ids[LONGEST];
    struct err e = {0};

    for (size_t i = 0; i < LONGEST; i++)
        ids[i] = (int32_t)(3 + i * 37 % 150);
    if (bench_fill_open(f, m, ids, longest, &e) != 0)
        fail_msg("%s", e.msg);
}

static void fill(struct bench_fill *f, size_t seq, size_t n)
{
    struct err e = {0};

    if (bench_fill_sequence(f, seq, n, &e) != 0 || kv_check(&f->m->kv, &e) != 0)
        fail_msg("%s", e.msg);
}

/* Computes N tokens of SEQ from position POS. */
static void compute(struct llm *m, size_t seq, size_t pos, size_t n)
{
    int32_t ids[LONGEST];

    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(3 + (pos + i) * 37 % 150);
    while (n) {
        size_t len = n < CHUNK ? n : CHUNK;
        struct executor_rows r = {.slot = seq,
                                  .id = ids,
                                  .n = len,
                                  .pos = pos,
                                  .n_prompt = pos + len,
                                  .n_total = pos + len,
                                  .n_wanted = 1};

        assert_int_equal(kv_reserve(&m->kv, seq, pos + len), 0);
        llm_forward(m, &r, 1);
        memmove(ids, ids + len, (n - len) * sizeof(ids[0]));
        pos += len;
        n -= len;
        kv_advance(&m->kv, seq, pos);
    }
}

static char *tile_at(const struct llm *m, size_t seq, size_t layer, size_t head, bool value, size_t t)
{
    struct kv_view v = kv_view(&m->kv, seq);
    const struct kv_layer *l = &v.layer[layer];
    uint32_t tile = v.tile[l->group][t];

    return (value ? l->v : l->k) + (size_t)(tile >> l->block_shift) * l->block_bytes + head * l->head_bytes +
           (tile & ((1u << l->block_shift) - 1)) * l->tile_bytes;
}

static bool tiles_match(const struct bench_fill *f, size_t seq, size_t plane, size_t begin, size_t end)
{
    const struct kv *c = &f->m->kv;
    size_t heads = c->lim.n_kv, tiles = (f->n + TILE - 1) / TILE;

    for (size_t t = begin; t < end; t++)
        if (memcmp(tile_at(f->m, seq, plane / heads / 2, plane % heads, plane / heads % 2, t),
                   f->tile + (plane * tiles + t % tiles) * c->tile_bytes, c->tile_bytes) != 0)
            return false;
    return true;
}

/* Checks that the rows of SEQ that a query at N sees are, tile by tile, those that F computed. */
static bool is_filled(const struct bench_fill *f, size_t seq, size_t n)
{
    const struct kv *c = &f->m->kv;

    for (size_t plane = 0; plane < 2 * c->lim.n_kv * c->lim.n_layers; plane++) {
        const struct kv_group *g = &c->group[c->group_of[plane / c->lim.n_kv / 2]];
        size_t first = kv_group_first(g, n);

        if (!tiles_match(f, seq, plane, first / TILE, n / TILE) ||
            (first && !tiles_match(f, seq, plane, 0, (g->sink + TILE - 1) / TILE)))
            return false;
    }
    return true;
}

static void a_context_of_computed_rows_gives_the_bits_of_a_real_one(void **state)
{
    static const size_t contexts[] = {5, 16, 31, 32};
    static float want[4096];

    for (int i = 0; i < 2; i++)
        for (int d = 0; d < 3; d++) {
            struct gallop *g = open_with(models[i], "slab_pool", dtypes[d], 0);
            struct llm *m = engine_llm(g);
            size_t bytes = m->model.info.vocab * sizeof(float);
            struct bench_fill f;

            assert_true(bytes <= sizeof(want));
            open_fill(&f, m, CHUNK);
            for (size_t k = 0; k < 4; k++) {
                compute(m, 1, 0, contexts[k] + 1);
                memcpy(want, m->logits, bytes);
                kv_release(&m->kv, 1);
                fill(&f, 2, contexts[k]);
                compute(m, 2, contexts[k], 1);
                assert_memory_equal(m->logits, want, bytes);
            }
            compute(m, 2, contexts[3] + 1, 1);
            assert_memory_not_equal(m->logits, want, bytes); /* the comparison itself */
            bench_fill_close(&f);
            gallop_close(g);
        }
}

static void longer_contexts_repeat_the_computed_rows_in_memory_of_their_own(void **state)
{
    for (size_t t = 0; kv_type_name(t); t++)
        for (int i = 0; i < 2; i++) {
            struct gallop *g = open_with(models[i], kv_type_name(t), dtypes[t % 3], 0);
            struct llm *m = engine_llm(g);
            struct bench_fill f;

            open_fill(&f, m, 300);
            assert_int_equal(f.n, CHUNK);
            for (size_t s = 0; s < 3; s++)
                fill(&f, s, 300);
            assert_true(is_filled(&f, 0, 300) && is_filled(&f, 1, 300) && is_filled(&f, 2, 300));
            *tile_at(m, 1, 0, 0, true, 17) ^= 1;
            assert_false(is_filled(&f, 1, 300));
            assert_true(is_filled(&f, 0, 300) && is_filled(&f, 2, 300));
            bench_fill_close(&f);
            gallop_close(g);
        }
}

static void a_context_is_what_was_asked_for_whatever_was_there_before(void **state)
{
    static const size_t contexts[] = {40, 40, 130, 17, 16, 300, 299, 1};

    for (size_t t = 0; kv_type_name(t); t++)
        for (int i = 0; i < 2; i++) {
            struct gallop *g = open_with(models[i], kv_type_name(t), "bf16", 0);
            struct llm *m = engine_llm(g);
            struct bench_fill f;

            open_fill(&f, m, 300);
            for (size_t k = 0; k < sizeof(contexts) / sizeof(contexts[0]); k++) {
                fill(&f, 1, contexts[k]);
                assert_true(is_filled(&f, 1, contexts[k]));
                compute(m, 1, contexts[k], 18); /* The next sequence must not find these rows. */
            }
            bench_fill_drop(&f, 1);
            assert_int_equal(kv_held_bytes(&m->kv, 1), 0);
            bench_fill_close(&f);
            gallop_close(g);
        }
}

static void sinks_are_filled_beside_their_windows(void **state)
{
    sparse = "sink=20,window=64";
    longer_contexts_repeat_the_computed_rows_in_memory_of_their_own(state);
    a_context_is_what_was_asked_for_whatever_was_there_before(state);
    sparse = NULL;
}

static void rows_stay_where_no_window_takes_them(void **state)
{
    struct gallop *g = open_with("llama3-rope", "slab_pool", "bf16", 0);
    struct bench_fill f;
    char *tile;

    open_fill(&f, engine_llm(g), 300);
    fill(&f, 1, 200);
    tile = tile_at(f.m, 1, 0, 0, false, 3);
    *tile ^= 1;
    compute(f.m, 1, 200, 8);
    fill(&f, 1, 300); /* The sequence continues after them. */
    fill(&f, 1, 100);
    assert_false(is_filled(&f, 1, 100));
    *tile ^= 1;
    assert_true(is_filled(&f, 1, 100));
    bench_fill_close(&f);
    gallop_close(g);
}

static void a_cache_without_room_says_so_and_keeps_nothing_of_the_sequence(void **state)
{
    for (size_t t = 0; kv_type_name(t); t++) {
        struct gallop *g = open_with("llama3-rope", kv_type_name(t), "bf16", 320);
        struct bench_fill f;
        struct err e = {0};

        open_fill(&f, engine_llm(g), 300);
        fill(&f, 0, 100);
        assert_int_equal(bench_fill_sequence(&f, 1, 300, &e), ERR_NOSPACE);
        assert_non_null(strstr(e.msg, "300 tokens"));
        assert_int_equal(kv_held_bytes(&f.m->kv, 1), 0);
        assert_true(is_filled(&f, 0, 100));
        bench_fill_close(&f);
        gallop_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_of_computed_rows_gives_the_bits_of_a_real_one),
        cmocka_unit_test(longer_contexts_repeat_the_computed_rows_in_memory_of_their_own),
        cmocka_unit_test(a_context_is_what_was_asked_for_whatever_was_there_before),
        cmocka_unit_test(sinks_are_filled_beside_their_windows),
        cmocka_unit_test(rows_stay_where_no_window_takes_them),
        cmocka_unit_test(a_cache_without_room_says_so_and_keeps_nothing_of_the_sequence),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
