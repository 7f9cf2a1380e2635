/* test_experts.c - models with experts from the goldens: with every allocation failing once, and with
 * inconsistent configs, each of which must be refused with a sentence that names the fault. */

#include "base/cpu.h"
#include "base/err.h"
#include "base/files/map.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "engines.h"
#include "files.h"
#include "kern/kern.h"
#include "model/model.h"

static struct pool *pool;

static int open_model(struct model *m, const char *dir, struct err *e)
{
    struct model_options opt = {.dtype = DT_BF16, .kern = kern_table(cpu_best())};

    int rc = model_open(m, dir, &opt, pool, e);

    if (rc == 0 && (rc = model_pack(m, e)) != 0)
        model_close(m);
    return rc;
}

/* Tries the first allocations one by one, then every STEP-th. Each failure must be reported, and nothing may
 * leak. */
static void fail_in_turn(const char *golden, long step)
{
    const char *dir = engines_path(golden);
    size_t blocks, regions;
    struct model m;
    struct err e = {0};

    /* This is run once, so that libraries have allocated what they keep. */
    assert_int_equal(open_model(&m, dir, &e), 0);
    model_close(&m);
    blocks = mem_live_blocks();
    regions = map_region_live_bytes();
    for (long n = 1;; n += n < 40 ? 1 : step) {
        int rc;

        e = (struct err){0};
        mem_fail_at(n);
        rc = open_model(&m, dir, &e);
        if (!mem_failed()) {
            mem_fail_at(0);
            assert_int_equal(rc, 0);
            model_close(&m);
            break;
        }
        mem_fail_at(0);
        if (rc == 0)
            model_close(&m); /* The caller can do without this allocation. */
        else
            assert_true(strlen(e.msg) > 10);
        if (mem_live_blocks() != blocks || map_region_live_bytes() != regions)
            fail_msg("%s: allocation %ld fails and %zu blocks, %zu bytes of regions stay", dir, n,
                     mem_live_blocks() - blocks, map_region_live_bytes() - regions);
    }
    assert_int_equal(mem_live_blocks(), blocks);
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    fail_in_turn("mixtral", 2);
    fail_in_turn("qwen3-moe", 2);
    fail_in_turn("gpt-oss", 2);
    fail_in_turn("llama4", 2);
    fail_in_turn("gemma4", 2);
    fail_in_turn("gemma4-moe", 2);
}

/* ---- configs that do not fit ---- */

static const char *scratch; /* the folder of a changed checkpoint */

/* Opens the golden NAME with FROM replaced by TO in its config.json. */
static int open_changed(struct model *m, const char *name, const char *from, const char *to, struct err *e)
{
    char path[4096], *text, *at;
    size_t n;
    FILE *f;

    files_copy_all(engines_path(name), scratch);
    snprintf(path, sizeof(path), "%s/config.json", scratch);
    text = files_read(path, &n);
    assert_non_null(at = strstr(text, from));
    assert_non_null(f = fopen(path, "w"));
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(f);
    free(text);
    return open_model(m, scratch, e);
}

/* The model must be refused, and the sentence must contain SAYS. */
static void refused(const char *name, const char *from, const char *to, const char *says)
{
    struct model m;
    struct err e = {0};

    if (open_changed(&m, name, from, to, &e) == 0)
        fail_msg("%s with %s was taken", name, to);
    if (!strstr(e.msg, says))
        fail_msg("%s with %s: the message does not say \"%s\": %s", name, to, says, e.msg);
}

static void configs_that_do_not_fit_are_refused_in_a_sentence(void **state)
{
    refused("mixtral", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 5", "num_experts_per_tok");
    refused("mixtral", "\"num_local_experts\": 4", "\"num_local_experts\": 5", "gate.weight");
    refused("mixtral", "\"num_local_experts\": 4", "\"num_local_experts\": 0", "num_local_experts");
    refused("mixtral", "\"num_local_experts\": 4", "\"num_local_experts\": 4, \"shared_expert_size\": 3",
            "shared_expert_size");
    refused("qwen3-moe", "\"moe_intermediate_size\": 32", "\"moe_intermediate_size\": 31",
            "experts.0.gate_proj");
    refused("gpt-oss", "\"num_local_experts\": 6", "\"num_local_experts\": 7", "router");
    refused("gpt-oss", "\"intermediate_size\": 32", "\"intermediate_size\": 24", "gate_up_proj");
    refused("gpt-oss", "\"num_local_experts\": 6",
            "\"num_local_experts\": 6, \"quantization_config\": {\"quant_method\": \"fp8\"}", "fp8");
    refused("gpt-oss", "\"full_attention\"", "\"chunked_attention\"", "chunked_attention");
    refused("llama4", "\"attention_chunk_size\": 32", "\"attention_chunk_size\": null",
            "attention_chunk_size");
    refused("llama4", "\"floor_scale\": 16", "\"floor_scale\": 0", "floor_scale");
    refused("llama4", "\"use_qk_norm\": true", "\"use_qk_norm\": true, \"no_rope_layers\": [1, 0]",
            "no_rope_layers");
    refused("gemma4", "\"use_double_wide_mlp\": true", "\"use_double_wide_mlp\": false", "mlp.gate_proj");
    refused("gemma4", "\"num_kv_shared_layers\": 2", "\"num_kv_shared_layers\": 5", "shares keys and values");
    refused("gemma4", "\"attention_bias\": false",
            "\"attention_bias\": false, \"use_bidirectional_attention\": \"all\"",
            "use_bidirectional_attention");
    refused("gemma4-moe", "\"top_k_experts\": 2,", "", "top_k_experts");
    refused("gemma4-moe", "\"global_head_dim\": 32", "\"global_head_dim\": 16", "q_norm");
    refused("gemma4", "\"global_head_dim\": 32",
            "\"per_layer_config\": {\"1\": {\"head_dim\": 32}, \"5\": {\"head_dim\": 32, "
            "\"num_key_value_heads\": 3}}",
            "whose keys and values it uses");
}

static void layer_numbers_are_known_with_zeros_in_front(void **state)
{
    struct model m;
    struct err e = {0};

    if (open_changed(&m, "gemma4", "\"global_head_dim\": 32",
                     "\"per_layer_config\": {\"01\": {\"head_dim\": 32}, \"005\": {\"head_dim\": 32}}",
                     &e) != 0)
        fail_msg("%s", e.msg);
    model_close(&m);
}

static int start(void **state)
{
    struct err e = {0};

    log_set_level(LOG_ERROR);
    scratch = files_folder();
    return pool_new(&pool, 2, &e);
}

static int end(void **state)
{
    pool_free(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(configs_that_do_not_fit_are_refused_in_a_sentence),
        cmocka_unit_test(layer_numbers_are_known_with_zeros_in_front),
    };

    return cmocka_run_group_tests(tests, start, end);
}
