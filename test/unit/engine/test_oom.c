/* test_oom.c - open and generate with every n-th allocation failing: an error with a sentence, never a
 * crash, never a leak; and no allocation inside a step, seen both by our allocator and by a replaced
 * malloc(). */
#include <jansson.h>

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "gallop.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__has_feature)
#define REPLACED_MALLOC 0 /* a sanitizer has replaced it already */
#else
#define REPLACED_MALLOC 1
#endif

#if REPLACED_MALLOC
static volatile long n_in_step; /* calls of malloc() while a step ran on the same thread */

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

/* Opens, generates twice in one batch, closes. Returns the first code that is not 0. */
static int scenario(const char *kv, char *err)
{
    static const char *const stops[] = {"\n\n", "never found"};
    struct gallop_options o;
    struct gallop_request r;
    struct gallop_event ev;
    struct gallop *g;
    int rc;

    err[0] = 0;
    gallop_options_init(&o);
    o.model = model;
    o.threads = 1;
    o.max_num_seqs = 2;
    o.max_model_len = 64;
    o.kv_cache_type = kv;
    if ((rc = gallop_open(&g, &o, err)) != 0)
        return rc;
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

static void every_allocation_may_fail(const char *kv)
{
    char err[GALLOP_ERR_SIZE];
    size_t blocks = mem_live_blocks(), regions = map_region_live_bytes();
    long n = 1, failures = 0;

    for (;; n++) {
        int rc;

        mem_fail_at(n);
        rc = scenario(kv, err);
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
    every_allocation_may_fail("slab_pool");
}

static void the_dynamic_cache_survives_any_failing_allocation(void **state)
{
    every_allocation_may_fail("dynamic");
}

static void the_paged_cache_survives_any_failing_allocation(void **state)
{
    every_allocation_may_fail("paged");
}

static void the_bmc_cache_survives_any_failing_allocation(void **state)
{
    every_allocation_may_fail("bmc");
}

static void nothing_allocates_inside_a_step(void **state)
{
    char err[GALLOP_ERR_SIZE];

#if REPLACED_MALLOC
    n_in_step = 0;
    assert_int_equal(scenario("slab_pool", err), 0);
    assert_int_equal(n_in_step, 0);
    mem_guard_up();
    free(malloc(10)); /* the comparison itself */
    mem_guard_down();
    assert_true(n_in_step == 2);
#else
    assert_int_equal(scenario("slab_pool", err), 0); /* mem.c aborts on an allocation of ours */
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
    };
    char err[GALLOP_ERR_SIZE];

    json_set_alloc_funcs(mem_lib_alloc, mem_free); /* as the program does, so that jansson fails too */
    log_set_level(LOG_ERROR);
    scenario("slab_pool", err); /* what libraries allocate once and keep is allocated now */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
