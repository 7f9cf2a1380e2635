/* test_oom.c - opening and generating with every n-th allocation failing, and requests of an engine that
 * stays open: there is an error with a sentence, no crash and no leak, and the next request gets its tokens.
 * No step allocates, as seen both by our allocator and by a replaced malloc(). */
#include <jansson.h>

#include "base/err.h"
#include "base/files/map.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "engines.h"
#include "files.h"
#include "gallop.h"
#include "kv/store/store.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__has_feature)
#define REPLACED_MALLOC 0 /* A sanitizer has already replaced it. */
#else
#define REPLACED_MALLOC 1
#endif

#if REPLACED_MALLOC
static volatile long n_in_step; /* the number of malloc() calls while a step ran on the same thread */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
void *malloc(size_t n)
{
    n_in_step += mem_guarded();
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t m)
{
    n_in_step += mem_guarded();
    return __libc_calloc(n, m);
}
void *realloc(void *p, size_t n)
{
    n_in_step += mem_guarded();
    return __libc_realloc(p, n);
}
void free(void *p)
{
    n_in_step += p && mem_guarded();
    __libc_free(p);
}
#endif

static const char *model = GALLOP_SOURCE_DIR "/models/demo";

/* an engine on the bundled model, for short texts */
static struct gallop_options small_options(const char *kv)
{
    struct gallop_options o;

    gallop_options_init(&o);
    o.model = model;
    o.threads = 1;
    o.max_num_seqs = 2;
    o.max_model_len = 64;
    o.kv_cache_type = kv;
    return o;
}

/* Opens, generates twice in one batch, and closes. Returns the first code that is not 0. */
static int scenario(const char *kv, char *err)
{
    static const char *const stops[] = {"\n\n", "never found"};
    struct gallop_options o = small_options(kv);
    struct gallop_request r;
    struct gallop_event ev;
    struct gallop *g;
    struct err e = {0};
    int rc;

    err[0] = 0;
    if ((rc = engine_open(&g, &o, NULL, &e)) != 0) /* test_texts.c opens the rest of gallop_open() */
        return engine_give(err, &e, rc);
    if ((rc = engine_read_embedder(g, &e)) != 0) {
        gallop_close(g);
        return engine_give(err, &e, rc);
    }
    gallop_request_init(&r);
    r.text = "Once upon a time there was a";
    r.sampling.max_new_tokens = 6;
    r.sampling.stop = stops;
    r.sampling.n_stop = 2;
    r.sampling.logprobs = 2;
    r.sampling.repetition_penalty = 1.1;
    rc = gallop_submit(g, &r, NULL, err);
    if (rc == 0)
        rc = gallop_submit(g, &r, NULL, err);
    while (gallop_next(g, &ev))
        if (ev.type == GALLOP_FINISHED && ev.finish == GALLOP_FINISH_ERROR && rc == 0) {
            rc = GALLOP_NO_MEMORY;
            strcpy(err, ev.error);
        }
    gallop_close(g);
    return rc;
}

/* The same without an engine: opens an executor, and computes a prompt and a row with a pick. */
static int scenario_outside(const char *kv, char *err)
{
    static const int32_t ids[5] = {3, 14, 15, 92, 65}, blocks[2] = {2, 1};
    struct gallop_options o = small_options(kv);
    struct gallop_request r;
    struct gallop_rows rows;
    struct gallop_outcome out;
    struct gallop_executor *x;
    int rc;

    err[0] = 0;
    if ((rc = gallop_executor_open(&x, GALLOP_EXECUTOR_VERSION, &o, err)) != 0)
        return rc;
    gallop_request_init(&r);
    r.sampling.temperature = .8;
    r.sampling.repetition_penalty = 1.1;
    rows = (struct gallop_rows){
        .ids = ids, .n = 4, .n_wanted = 1, .pick = &r.sampling, .n_prompt = 2, .tokens = ids};
    if (strcmp(kv, "extern") == 0) {
        rows.blocks = blocks;
        rows.n_blocks = 2;
    }
    rc = gallop_executor_run(x, &rows, 1, &out, err);
    rows.ids = ids + 4;
    rows.pos = 4;
    rows.n = 1;
    if (rc == 0)
        rc = gallop_executor_run(x, &rows, 1, &out, err);
    gallop_executor_close(x);
    return rc;
}

static void every_allocation_may_fail(int (*run)(const char *kv, char *err), const char *kv)
{
    char err[GALLOP_ERR_SIZE];
    size_t blocks = mem_live_blocks(), regions = map_region_live_bytes();
    long n = 1, failures = 0;

    for (;; n++) {
        int rc;

        mem_fail_at(n);
        rc = run(kv, err);
        if (!mem_failed()) {
            mem_fail_at(0);
            assert_int_equal(rc, 0);
            break;
        }
        mem_fail_at(0);
        if (rc != 0) {
            failures++;
            if (strlen(err) < 10)
                fail_msg("allocation %ld: code %d without a sentence: \"%s\"", n, rc, err);
        }
        if (mem_live_blocks() != blocks || map_region_live_bytes() != regions)
            fail_msg("allocation %ld: %zu blocks and %zu region bytes leak (%s)", n,
                     mem_live_blocks() - blocks, map_region_live_bytes() - regions, err);
    }
    assert_true(failures > 100);
    print_message("%ld allocations, %ld of them fatal to the scenario when they fail\n", n - 1, failures);
}

static void open_and_generate_survive_any_failing_allocation(void **state)
{
    every_allocation_may_fail(scenario, "slab_pool");
}

static void the_dynamic_cache_survives_any_failing_allocation(void **state)
{
    every_allocation_may_fail(scenario, "dynamic");
}

static void the_paged_cache_survives_any_failing_allocation(void **state)
{
    every_allocation_may_fail(scenario, "paged");
}

static void the_bmc_cache_survives_any_failing_allocation(void **state)
{
    every_allocation_may_fail(scenario, "bmc");
}

static void an_executor_survives_any_failing_allocation(void **state)
{
    every_allocation_may_fail(scenario_outside, "extern");
    every_allocation_may_fail(scenario_outside, "dynamic");
}

/* ---- an engine that stays open ---- */

enum { ANSWERS = 3, NEW = 6 };

/* The outcome of a request. */
struct outcome {
    int32_t token[ANSWERS][NEW];
    size_t n[ANSWERS];
    int code; /* the code of the submission, or of a sequence that ended with an error */
    char err[GALLOP_ERR_SIZE];
};

/* Makes a request of each kind. */
static struct gallop_request request(int kind)
{
    static const char *const stops[] = {"\n\n", "never found"};
    static const int32_t bias_ids[] = {5, 6}, stop_tokens[] = {2047};
    static const float biases[] = {1, -1};
    struct gallop_request r;

    gallop_request_init(&r);
    r.text = "Once upon a time there was a girl who had a dog and a cat and";
    r.sampling.max_new_tokens = NEW;
    r.sampling.do_sample = 1;
    r.sampling.has_seed = 1;
    r.sampling.seed = 5;
    r.sampling.logprobs = 2;
    if (kind == 1)
        r.n = ANSWERS;
    if (kind == 2)
        r.prompt_logprobs = 3;
    if (kind == 3) {
        r.cache_salt = "salt";
        r.key = "key";
        r.deadline_s = 1000;
        r.sampling.stop = stops;
        r.sampling.n_stop = 2;
        r.sampling.bad_words = stops;
        r.sampling.n_bad_words = 2;
        r.sampling.dry_multiplier = 1;
        r.sampling.dry_sequence_breakers = stops;
        r.sampling.n_dry_sequence_breakers = 2;
        r.sampling.stop_token = stop_tokens;
        r.sampling.n_stop_token = 1;
        r.sampling.bias_id = bias_ids;
        r.sampling.bias = biases;
        r.sampling.n_bias = 2;
        r.sampling.repetition_penalty = 1.1;
    }
    return r;
}

static void ask(struct gallop *g, int kind, struct outcome *o)
{
    struct gallop_request r = request(kind);
    struct gallop_event ev;

    memset(o, 0, sizeof(*o));
    o->code = gallop_submit(g, &r, NULL, o->err);
    while (gallop_next(g, &ev)) {
        if (ev.type == GALLOP_TOKEN)
            o->token[ev.choice][o->n[ev.choice]++] = ev.token;
        if (ev.type == GALLOP_FINISHED && ev.finish == GALLOP_FINISH_ERROR) {
            o->code = GALLOP_NO_MEMORY;
            snprintf(o->err, sizeof(o->err), "%s", ev.error);
        }
    }
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->code, 0);
    assert_memory_equal(a->n, b->n, sizeof(a->n));
    assert_memory_equal(a->token, b->token, sizeof(a->token));
}

/* Every allocation of a request of KIND fails once: of its submission, of its rows when they are reserved,
 * forked and published, of its texts. Returns how many failed. */
static long every_allocation_of_a_request_fails(struct gallop *g, int kind)
{
    struct outcome expected, usual, o;
    size_t blocks, regions;
    long n = 0;

    ask(g, 0, &usual);
    ask(g, kind, &expected);
    if (expected.code)
        fail_msg("kind %d: %s", kind, expected.err);
    ask(g, 0, &usual); /* The last event keeps its sequence until the next one. */
    blocks = mem_live_blocks();
    regions = map_region_live_bytes();
    for (bool failed = true; failed; n += failed) {
        mem_fail_at(n + 1);
        ask(g, kind, &o);
        failed = mem_failed();
        mem_fail_at(0);
        if (o.code == 0) /* Rows that the cache could not keep were computed again. */
            assert_same(&o, &expected);
        else if (strlen(o.err) < 10 || o.code != GALLOP_NO_MEMORY)
            fail_msg("allocation %ld of kind %d: code %d, \"%s\"", n + 1, kind, o.code, o.err);
        engines_check_cache(g);
        ask(g, 0, &o);
        assert_same(&o, &usual);
        if (mem_live_blocks() != blocks || map_region_live_bytes() != regions)
            fail_msg("allocation %ld of kind %d: %zu blocks and %zu region bytes leak", n + 1, kind,
                     mem_live_blocks() - blocks, map_region_live_bytes() - regions);
    }
    return n;
}

static void a_request_without_memory_leaves_the_engine_as_it_was(void **state)
{
    static const char *const types[] = {"paged", "dynamic", "bmc"};

    for (int t = 0; t < 3; t++) {
        struct gallop_options o = engines_options(4, 16, 64);
        long n = 0;
        struct gallop *g;

        o.kv_cache_type = types[t];
        o.prefix_index = "radix";
        g = engines_open("demo", &o);
        for (int kind = 0; kind < 4; kind++)
            n += every_allocation_of_a_request_fails(g, kind);
        print_message("%s: %ld allocations of requests\n", types[t], n);
        assert_true(n > 40);
        gallop_close(g);
    }
}

static void forks_hits_and_what_is_kept_need_no_memory(void **state)
{
    struct gallop_options o = engines_options(4, 16, 64);
    struct gallop *g = engines_open("demo", &o);

    for (int kind = 0; kind < 8; kind++) { /* This runs twice, because the second time has cache hits. */
        struct gallop_request r = request(kind % 4);
        struct gallop_event ev;

        size_t kv_bytes = mem_tag_bytes(MEM_KV);

        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
        while (gallop_next(g, &ev)) { /* The memory of a sequence itself belongs to the engine. */
            assert_int_equal(mem_tag_bytes(MEM_KV), kv_bytes);
            if (ev.type == GALLOP_FINISHED && ev.finish != GALLOP_FINISH_LENGTH)
                fail_msg("kind %d: %s", kind, ev.error ? ev.error : "ended early");
        }
    }
    assert_true(engines_stats(g).n_cached_tokens > 0);
    gallop_close(g);
}

/* ---- an engine with a KV store ---- */

/* Opens an engine with the store AT, submits KIND and closes. Allocation N after the opening fails (0: none).
 * Returns whether it failed; *N_STORED counts rows from the store. */
static bool ask_beside_a_store(const char *at, int kind, long n, struct outcome *o, uint64_t *n_stored)
{
    struct gallop_options opt = engines_options(4, 16, 64);
    struct gallop *g;
    bool failed;

    opt.prefix_index = "radix";
    opt.kv_store = at;
    g = engines_open("demo", &opt);
    mem_fail_at(n);
    ask(g, kind, o);
    store_flush(engine_llm(g)->store);
    failed = mem_failed();
    mem_fail_at(0);
    engines_check_cache(g);
    *n_stored = engines_stats(g).n_stored_tokens;
    assert_int_equal(engines_stats(g).n_store_damaged, 0);
    gallop_close(g);
    return failed;
}

/* Chooses a folder that does not exist yet. */
static void new_store(char at[256])
{
    static const char *folder;
    static int n;

    folder = folder ? folder : files_folder();
    snprintf(at, 256, "%s/store-%d", folder, n++);
}

/* Each allocation of a request of KIND fails once: with an empty store, so that blocks are written, or WARM,
 * with all blocks in the store, so that they are read ahead. Returns how many failed. */
static long every_allocation_beside_a_store_fails(int kind, bool warm)
{
    char at[256];
    struct outcome expected, o;
    uint64_t n_stored = 0, n_read = 0;
    size_t blocks, regions;
    long n = 0;

    new_store(at);
    ask_beside_a_store(at, kind, 0, &expected, &n_stored);
    assert_int_equal(n_stored, 0);
    for (int i = 0; warm && kind != 2 && n_read == 0; i++) { /* A busy machine may not wait for the disk. */
        ask_beside_a_store(at, kind, 0, &o, &n_read);
        assert_same(&o, &expected);
        assert_true(i < 50);
    }
    blocks = mem_live_blocks();
    regions = map_region_live_bytes();
    for (bool failed = true; failed; n += failed) {
        if (!warm)
            new_store(at);
        failed = ask_beside_a_store(at, kind, n + 1, &o, &n_stored);
        if (o.code == 0)
            assert_same(&o, &expected);
        else if (strlen(o.err) < 10 || o.code != GALLOP_NO_MEMORY)
            fail_msg("allocation %ld of kind %d: code %d, \"%s\"", n + 1, kind, o.code, o.err);
        if (mem_live_blocks() != blocks || map_region_live_bytes() != regions)
            fail_msg("allocation %ld of kind %d: %zu blocks and %zu region bytes leak", n + 1, kind,
                     mem_live_blocks() - blocks, map_region_live_bytes() - regions);
    }
    return n;
}

static void a_request_without_memory_leaves_a_store_as_it_was(void **state)
{
    long n = 0;

    for (int kind = 0; kind < 4; kind++)
        for (int warm = 0; warm < 2; warm++)
            n += every_allocation_beside_a_store_fails(kind, warm);
    print_message("%ld allocations of requests beside a store\n", n);
    assert_true(n > 80);
}

static void nothing_allocates_inside_a_step(void **state)
{
    char err[GALLOP_ERR_SIZE];

#if REPLACED_MALLOC
    n_in_step = 0;
    assert_int_equal(scenario("slab_pool", err), 0);
    assert_int_equal(scenario_outside("extern", err), 0);
    assert_int_equal(n_in_step, 0);
    mem_guard_up();
    free(malloc(10)); /* the comparison itself */
    mem_guard_down();
    assert_true(n_in_step == 2);
#else
    assert_int_equal(scenario("slab_pool", err), 0); /* mem.c aborts on an allocation inside a step. */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_allocates_inside_a_step),
        cmocka_unit_test(open_and_generate_survive_any_failing_allocation),
        cmocka_unit_test(the_dynamic_cache_survives_any_failing_allocation),
        cmocka_unit_test(the_paged_cache_survives_any_failing_allocation),
        cmocka_unit_test(the_bmc_cache_survives_any_failing_allocation),
        cmocka_unit_test(a_request_without_memory_leaves_the_engine_as_it_was),
        cmocka_unit_test(forks_hits_and_what_is_kept_need_no_memory),
        cmocka_unit_test(a_request_without_memory_leaves_a_store_as_it_was),
        cmocka_unit_test(an_executor_survives_any_failing_allocation),
    };
    char err[GALLOP_ERR_SIZE];

    /* The program sets the same functions, so that allocations of jansson fail as well. */
    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    log_set_level(LOG_ERROR);
    scenario("slab_pool", err); /* Libraries allocate what they keep now. */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
