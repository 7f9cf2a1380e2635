/* test_invariance.c - same tokens and same bits, whatever the company: alone or in a ragged batch, whole or
 * in chunks, any thread count, any cache, any instruction set of one arithmetic class. */
#include "base/err.h"
#include "engine/gallop_in.h"
#include "engine/score.h"
#include "goldens.h"

enum { N_REQUESTS = 7, NEW = 12, VOCAB = 160, LONGEST = 600 };
static const size_t lengths[N_REQUESTS] = {1, 3, 17, 64, 65, 130, 300};

static int32_t token_at(size_t request, size_t i)
{
    return (int32_t)(3 + (request * 131 + i * i * 7 + i * 29) % (VOCAB - 3));
}

static struct gallop *open_with(const char *name, const char *dtype, int threads, const char *isa,
                                const char *kv, int64_t chunk, int64_t block)
{
    struct gallop_options o;

    gallop_options_init(&o);
    o.dtype = dtype;
    o.threads = threads;
    o.isa = isa;
    o.kv_cache_type = kv;
    o.max_batched_tokens = chunk;
    o.block_size = block;
    o.max_num_seqs = 8;
    o.max_model_len = LONGEST;
    return golden_open(name, &o);
}

static void submit(struct gallop *g, size_t request)
{
    int32_t ids[LONGEST];

    for (size_t i = 0; i < lengths[request]; i++)
        ids[i] = token_at(request, i);
    /* rows leave the batch at different times */
    golden_submit(g, ids, lengths[request], NEW + (int64_t)request, request);
}

/* Tokens of all requests, run alone or together, into out[request][]. */
static void tokens(struct gallop *g, bool together, int32_t out[N_REQUESTS][NEW + N_REQUESTS])
{
    size_t n[N_REQUESTS] = {0};
    struct gallop_event ev;

    for (size_t q = 0; q < N_REQUESTS; q++) {
        submit(g, q);
        if (together && q + 1 < N_REQUESTS)
            continue;
        while (gallop_next(g, &ev))
            if (ev.type == GALLOP_TOKEN)
                out[(size_t)ev.user][n[(size_t)ev.user]++] = ev.token;
            else if (ev.type == GALLOP_FINISHED)
                assert_int_equal(ev.finish, GALLOP_FINISH_LENGTH);
    }
    for (size_t q = 0; q < N_REQUESTS; q++)
        assert_int_equal(n[q], NEW + q);
}

struct last_row {
    float *x;
    size_t V;
};

static int take(void *ctx, size_t pos, size_t n, const float *logits)
{
    struct last_row *r = ctx;

    (void)pos;
    memcpy(r->x, logits + (n - 1) * r->V, r->V * sizeof(float));
    return 0;
}

/* Logits behind the longest prompt. free(). */
static float *logits(struct gallop *g, size_t chunk)
{
    struct llm *m = gallop_llm(g);
    struct last_row r = {.V = m->model.info.vocab};
    int32_t ids[LONGEST];
    struct score_request q = {
        .ids = ids, .n = lengths[N_REQUESTS - 1], .last = 1, .chunk = chunk, .rows = take, .ctx = &r};
    struct err e = {0};

    for (size_t i = 0; i < q.n; i++)
        ids[i] = token_at(N_REQUESTS - 1, i);
    r.x = malloc(r.V * sizeof(float));
    if (score_run(m, &q, &e) != 0)
        fail_msg("%s", e.msg);
    return r.x;
}

static void same_everywhere(const char *name, const char *dtype)
{
    static const size_t chunks[] = {1, 7, 64, 200};
    static const struct {
        int threads;
        const char *kv;
        int64_t chunk, block;
    } ways[] = {{1, "slab_pool", 0, 0},
                {2, "slab_pool", 0, 16},
                {3, "slab_pool", 33, 256},
                {2, "dynamic", 0, 0},
                {4, "dynamic", 9, 0}};
    int32_t want[N_REQUESTS][NEW + N_REQUESTS], got[N_REQUESTS][NEW + N_REQUESTS];
    struct gallop *g = open_with(name, dtype, 1, NULL, "slab_pool", 0, 0);
    size_t bytes = gallop_llm(g)->model.info.vocab * sizeof(float);
    float *ref = logits(g, 0);

    memset(want, 0, sizeof(want));
    memset(got, 0, sizeof(got));
    tokens(g, false, want);
    for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); c++) {
        float *x = logits(g, chunks[c]);

        if (memcmp(x, ref, bytes) != 0)
            fail_msg("%s %s: logits differ at chunk %zu", name, dtype, chunks[c]);
        free(x);
    }
    gallop_close(g);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        float *x;

        g = open_with(name, dtype, ways[w].threads, NULL, ways[w].kv, ways[w].chunk, ways[w].block);
        tokens(g, true, got);
        if (memcmp(want, got, sizeof(want)) != 0)
            fail_msg("%s %s: tokens differ in a batch, way %zu", name, dtype, w);
        x = logits(g, 0);
        if (memcmp(x, ref, bytes) != 0)
            fail_msg("%s %s: logits differ, way %zu", name, dtype, w);
        free(x);
        gallop_close(g);
    }
    free(ref);
}

static void llama_gives_the_same_bits_in_any_company_in_fp32(void **state)
{
    same_everywhere("llama3-rope", "fp32");
}

static void llama_gives_the_same_bits_in_any_company_in_bf16(void **state)
{
    same_everywhere("llama-gqa8-d256", "bf16");
}

static void longrope_gives_the_same_bits_across_its_border(void **state)
{
    same_everywhere("llama-longrope", "fp32");
}

static void dynamic_ntk_gives_the_same_bits_however_a_prompt_is_cut(void **state)
{
    same_everywhere("llama-dynamic", "fp32");
}

/* Rows of the same class as the best one must give its bits; "bf16 dot" is a class of its own. */
static void instruction_sets_of_one_class_give_the_same_bits(void **state)
{
    static const char *const dtypes[] = {"fp32", "bf16"};

    for (int d = 0; d < 2; d++) {
        enum kern_fn gemm = d ? KERN_FN_gemm_bf16 : KERN_FN_gemm_f32;
        struct gallop *g = open_with("llama3-rope", dtypes[d], 2, "ref", "slab_pool", 0, 0);
        size_t bytes = gallop_llm(g)->model.info.vocab * sizeof(float);
        float *ref = logits(g, 0);
        const char *class = kern_class(gallop_llm(g)->kern, gemm);
        int compared = 0;

        gallop_close(g);
        for (int isa = CPU_AVX2; isa < CPU_N_ISAS; isa++) {
            float *x;

            if (!cpu_has((enum cpu_isa)isa))
                continue;
            g = open_with("llama3-rope", dtypes[d], 2, cpu_isa_name((enum cpu_isa)isa), "slab_pool", 0, 0);
            if (strcmp(kern_class(gallop_llm(g)->kern, gemm), class) == 0) {
                x = logits(g, 0);
                if (memcmp(x, ref, bytes) != 0)
                    fail_msg("%s: %s differs from ref", dtypes[d], cpu_isa_name((enum cpu_isa)isa));
                free(x);
                compared++;
            }
            gallop_close(g);
        }
        if (cpu_has(CPU_AVX2))
            assert_true(compared > 0);
        free(ref);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_gives_the_same_bits_in_any_company_in_fp32),
        cmocka_unit_test(llama_gives_the_same_bits_in_any_company_in_bf16),
        cmocka_unit_test(longrope_gives_the_same_bits_across_its_border),
        cmocka_unit_test(dynamic_ntk_gives_the_same_bits_however_a_prompt_is_cut),
        cmocka_unit_test(instruction_sets_of_one_class_give_the_same_bits),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
