/* test_shared.c - what a model whose last layers use the keys and values of earlier ones (Gemma 4) takes of
 * the KV cache: rows of the layers that store some, in memory and in a file.
 *
 * That the answers stay the same is test_grid.c's and test_restart.c's business.
 */
#include "base/err.h"
#include "engine/gallop_in.h"
#include "goldens.h"
#include "kv/kv_wire.h"

/* The golden: layers 0, 2, 3 see 24 rows in heads of 16 dims, layer 1 all in one of 32; 4 and 5 use the rows
 * of 3 and 1. */
enum { STORE = 4, WINDOW = 24, DIM = 32, LOCAL_DIM = 16, ROWS = 200, CHUNK = 40 };

static struct gallop *open_with(const char *type, const char *kv_dtype, double gib)
{
    struct gallop_options o;

    gallop_options_init(&o);
    o.dtype = "bf16";
    o.threads = 1;
    o.kv_cache_type = type;
    o.kv_cache_dtype = kv_dtype;
    o.kv_cache_memory = gib;
    o.block_size = 16;
    o.max_batched_tokens = CHUNK;
    o.max_num_seqs = 2;
    o.max_model_len = 256;
    return golden_open("gemma4", &o);
}

static void compute(struct llm *m)
{
    int32_t ids[CHUNK];

    for (size_t i = 0; i < CHUNK; i++)
        ids[i] = (int32_t)(3 + i * 37 % 150);
    for (size_t pos = 0; pos < ROWS; pos += CHUNK) {
        struct llm_rows r = {.id = ids, .n = CHUNK, .pos = pos, .n_prompt = ROWS, .n_total = ROWS};

        assert_int_equal(kv_reserve(&m->kv, 0, pos + CHUNK), 0);
        llm_forward(m, &r, 1);
        kv_advance(&m->kv, 0, pos + CHUNK);
    }
}

static void a_shared_layer_takes_no_bytes_in_any_cache(void **state)
{
    static const struct {
        const char *name;
        size_t bytes, local_bytes; /* of K and V of a token in a layer with heads of DIM, and of LOCAL_DIM */
    } dtypes[] = {{"fp32", 2 * DIM * 4, 2 * LOCAL_DIM * 4},
                  {"bf16", 2 * DIM * 2, 2 * LOCAL_DIM * 2},
                  {"int8", 2 * (DIM + 4), 2 * (LOCAL_DIM + 4)}};
    static const struct {
        const char *type;
        size_t all, local; /* rows held at the end by a layer that sees all, and by one with a window */
    } caches[] = {{"slab_pool", 208, 32}, {"paged", 208, 32}, {"dynamic", 256, 256}, {"bmc", 208, 208}};

    for (int c = 0; c < 4; c++)
        for (int t = 0; t < 3; t++) {
            struct gallop *g = open_with(caches[c].type, dtypes[t].name, 0);
            struct llm *m = gallop_llm(g);

            assert_int_equal(m->model.info.n_layers, STORE + 2);
            assert_int_equal(kv_token_bytes(&m->kv.lim), STORE * dtypes[t].bytes);
            compute(m);
            assert_int_equal(kv_held_bytes(&m->kv, 0),
                             (caches[c].all + (STORE - 1) * caches[c].local) * dtypes[t].bytes);
            /* the heads' own dims, and in windows the 23 rows that a query behind the last one sees */
            assert_int_equal(kv_wire_bytes(&m->kv, ROWS),
                             64 + 8 * STORE + ROWS * dtypes[t].bytes +
                                 (STORE - 1) * (WINDOW - 1) * dtypes[t].local_bytes);
            gallop_close(g);
        }
}

static void a_budget_in_bytes_buys_rows_of_storing_layers_alone(void **state)
{
    struct gallop *g = open_with("dynamic", "bf16", 1.0 / 1024);

    assert_int_equal(gallop_llm(g)->kv.lim.pool_tokens, (1 << 20) / (STORE * 2 * DIM * 2));
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_layer_takes_no_bytes_in_any_cache),
        cmocka_unit_test(a_budget_in_bytes_buys_rows_of_storing_layers_alone),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
