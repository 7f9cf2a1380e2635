/* test_shared.c - the KV cache of a model whose last layers use the keys and values of earlier ones (Gemma
 * 4): only the rows of layers that store some take memory, and are written to a store.
 *
 * test_grid.c shows that the answers stay the same.
 */
#include "base/err.h"
#include "base/log.h"
#include "engine/llm.h"
#include "engines.h"
#include "kv/kv.h"
#include "kv/store/record.h"

/* The golden: layers 0, 2, 3 see 24 rows in heads of 16 dims, layer 1 all in one of 32; 4 and 5 use the rows
 * of 3 and 1. */
enum { STORE = 4, DIM = 32, BLOCK = 16, ROWS = 200, CHUNK = 40, LONGEST = 256 };

static struct gallop *open_with(const char *type, const char *kv_dtype, double gib)
{
    struct gallop_options o = engines_options(2, CHUNK, LONGEST);

    o.dtype = "bf16";
    o.kv_cache_type = type;
    o.kv_cache_dtype = kv_dtype;
    o.kv_cache_memory = gib;
    return engines_open("gemma4", &o);
}

static void a_layer_that_shares_rows_takes_bytes_in_a_cache(void **state)
{
    static const struct {
        const char *name;
        size_t bytes; /* the bytes of K and V of a token in a layer */
    } dtypes[] = {
        {"fp32", 2 * DIM * 4}, {"bf16", 2 * DIM * 2}, {"int8", 2 * (DIM + 4)}, {"int4", DIM + DIM / 16 + 4}};
    static const struct {
        const char *type;
        /* the rows that are held at the end, by a layer that sees all rows and by one with a window */
        size_t all, local;
    } caches[] = {{"slab_pool", 208, 32}, {"paged", 208, 32}, {"dynamic", 256, 256}, {"bmc", 208, 208}};

    for (int c = 0; c < 4; c++)
        for (int t = 0; t < 4; t++) {
            struct gallop *g = open_with(caches[c].type, dtypes[t].name, 0);
            struct llm *m = engine_llm(g);
            int32_t ids[ROWS];

            assert_int_equal(m->model.info.n_layers, STORE + 2);
            assert_int_equal(kv_token_bytes(&m->kv.lim), STORE * dtypes[t].bytes);
            engines_text(0, 0, ROWS, ids);
            engines_compute(m, 0, ids, 0, ROWS, CHUNK, ROWS);
            assert_int_equal(kv_held_bytes(&m->kv, 0),
                             (caches[c].all + (STORE - 1) * caches[c].local) * dtypes[t].bytes);
            /* the longest record: all tokens, and a block of the layers with windows */
            assert_int_equal(kv_record_bytes(caches[c].type, &m->kv.lim),
                             kv_type_pooled(caches[c].type) ? RECORD_HEADER + LONGEST * sizeof(int32_t) +
                                                                  (STORE - 1) * BLOCK * dtypes[t].bytes
                                                            : 0);
            gallop_close(g);
        }
}

static void a_budget_in_bytes_buys_rows_of_layers_that_store_none(void **state)
{
    struct gallop *g = open_with("dynamic", "bf16", 1.0 / 1024);

    assert_int_equal(engine_llm(g)->kv.lim.pool_tokens, (1 << 20) / (STORE * 2 * DIM * 2));
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_that_shares_rows_takes_bytes_in_a_cache),
        cmocka_unit_test(a_budget_in_bytes_buys_rows_of_layers_that_store_none),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
