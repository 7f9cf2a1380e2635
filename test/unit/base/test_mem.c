/* test_mem.c - the heap functions: exact accounting, failure on demand, and the guard that aborts on
 * allocations inside a step. */
#include <pthread.h>

#include "base/mem.h"
#include "help.h"

static void bytes_are_counted_by_tag(void **state)
{
    void *a, *b, *c;

    assert_int_equal(mem_live_bytes(), 0);
    a = mem_alloc(100, MEM_TEXT);
    b = mem_zalloc(10, 20, MEM_KV);
    c = mem_alloc(0, MEM_KV);
    assert_true(a && b && c);
    assert_int_equal(mem_tag_bytes(MEM_TEXT), 100);
    assert_int_equal(mem_tag_bytes(MEM_KV), 200);
    assert_int_equal(mem_live_bytes(), 300);
    assert_int_equal(mem_live_blocks(), 3);
    a = mem_realloc(a, 5000, MEM_APP); /* A block keeps the tag of its allocation. */
    assert_int_equal(mem_tag_bytes(MEM_TEXT), 5000);
    assert_int_equal(mem_tag_bytes(MEM_APP), 0);
    a = mem_realloc(a, 1, MEM_TEXT);
    assert_int_equal(mem_tag_bytes(MEM_TEXT), 1);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(NULL);
    assert_int_equal(mem_live_bytes(), 0);
    assert_int_equal(mem_live_blocks(), 0);
    for (int t = 0; t < MEM_N_TAGS; t++) {
        assert_int_equal(mem_tag_bytes((enum mem_tag)t), 0);
        assert_true(strlen(mem_tag_name((enum mem_tag)t)) > 1);
    }
}

static void blocks_are_aligned_and_keep_their_content(void **state)
{
    unsigned char *p;

    for (size_t n = 0; n < 200; n++) {
        p = mem_zalloc(n, 1, MEM_BASE);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(p[i], 0);
            p[i] = (unsigned char)i;
        }
        p = mem_realloc(p, n * 3 + 1, MEM_BASE);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], (unsigned char)i);
        mem_free(p);
    }
}

static void sizes_that_overflow_give_nothing(void **state)
{
    char *p = mem_strdup("kept", MEM_BASE);

    assert_null(mem_alloc(SIZE_MAX, MEM_BASE));
    assert_null(mem_alloc(SIZE_MAX - 15, MEM_BASE));
    assert_null(mem_zalloc(SIZE_MAX / 2, 3, MEM_BASE));
    assert_null(mem_zalloc(SIZE_MAX, 1, MEM_BASE));
    assert_null(mem_realloc(p, SIZE_MAX - 4, MEM_BASE));
    assert_null(mem_strndup("abc", SIZE_MAX, MEM_BASE));
    assert_string_equal(p, "kept");
    mem_free(p);
    assert_int_equal(mem_live_blocks(), 0);
}

static void arrays_grow_by_doubling(void **state)
{
    uint32_t *a = NULL;
    size_t cap = 0, grown = 0;

    for (size_t n = 1; n <= 100000; n++) {
        size_t before = cap;

        assert_true(mem_grow((void **)&a, &cap, n, sizeof(*a), MEM_BASE));
        assert_true(cap >= n);
        grown += cap != before;
        a[n - 1] = (uint32_t)n;
    }
    assert_true(grown < 20);
    for (size_t n = 0; n < 100000; n++)
        assert_int_equal(a[n], n + 1);
    mem_fail_at(1);
    assert_false(mem_grow((void **)&a, &cap, cap + 1, sizeof(*a), MEM_BASE));
    assert_int_equal(a[99999], 100000);
    assert_false(mem_grow((void **)&a, &cap, SIZE_MAX, sizeof(*a), MEM_BASE));
    assert_false(mem_grow((void **)&a, &cap, SIZE_MAX / 4, 8, MEM_BASE));
    assert_true(cap < 300000);
    mem_free(a);
}

static void the_chosen_allocation_fails_and_no_other(void **state)
{
    void *p[4], *q;

    mem_fail_at(3);
    assert_false(mem_failed());
    p[0] = mem_alloc(1, MEM_BASE);
    p[1] = mem_zalloc(1, 1, MEM_BASE);
    assert_false(mem_failed());
    q = mem_realloc(p[1], 50, MEM_BASE);
    assert_null(q);
    assert_true(mem_failed());
    p[2] = mem_realloc(p[1], 50, MEM_BASE);
    p[3] = mem_lib_alloc(3);
    assert_true(p[0] && p[2] && p[3]);
    assert_int_equal(mem_tag_bytes(MEM_LIB), 3);
    mem_fail_at(1);
    assert_null(mem_strndup("x", 1, MEM_BASE));
    mem_fail_at(1);
    assert_null(mem_zalloc(1, 1, MEM_BASE));
    mem_fail_at(0);
    assert_false(mem_failed());
    mem_free(p[0]);
    mem_free(p[2]);
    mem_free(p[3]);
    assert_int_equal(mem_live_blocks(), 0);
}

static void *block;

static void alloc_in_step(void)
{
    mem_guard_up();
    mem_guard_up();
    mem_guard_down();
    mem_alloc(77, MEM_KV);
}

static void zalloc_in_step(void)
{
    mem_guard_up();
    mem_zalloc(7, 11, MEM_KV);
}

static void realloc_in_step(void)
{
    mem_guard_up();
    block = mem_realloc(block, 10, MEM_KV);
}

static void free_in_step(void)
{
    mem_guard_up();
    mem_free(block);
}

static void free_what_is_not_ours(void)
{
    static _Alignas(16) char memory[64];

    mem_free(memory + 32);
}

static void guard_down_twice(void)
{
    mem_guard_up();
    mem_guard_down();
    mem_guard_down();
}

static void nothing(void)
{
}

static void the_guard_aborts_whoever_allocates_in_a_step(void **state)
{
    block = mem_alloc(1, MEM_BASE);
    assert_true(help_aborts(alloc_in_step, "77 bytes (kv) asked for inside a step"));
    assert_true(help_aborts(zalloc_in_step, "77 bytes (kv)"));
    assert_true(help_aborts(realloc_in_step, "realloc to 10 bytes"));
    assert_true(help_aborts(free_in_step, "free inside a step"));
    assert_true(help_aborts(free_what_is_not_ours, "was freed or is not ours"));
    assert_true(help_aborts(guard_down_twice, "guard_depth > 0"));
    assert_false(help_aborts(nothing, ""));
    mem_guard_up();
    assert_true(mem_guarded());
    mem_guard_down();
    assert_false(mem_guarded());
    mem_free(block);
}

static void *count(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        void *p = mem_alloc((size_t)i % 100, MEM_ENGINE);
        p = mem_realloc(p, 50, MEM_ENGINE);
        mem_free(p);
    }
    return arg;
}

static void *allocates_beside_a_guard(void *arg)
{
    assert_false(mem_guarded()); /* The guard belongs to a thread. */
    mem_free(mem_alloc(1, MEM_BASE));
    return arg;
}

static void threads_count_together_and_are_guarded_alone(void **state)
{
    pthread_t t[4];

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, count, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(mem_live_bytes(), 0);
    assert_int_equal(mem_live_blocks(), 0);
    assert_int_equal(pthread_create(&t[0], NULL, allocates_beside_a_guard, NULL), 0);
    mem_guard_up();
    pthread_join(t[0], NULL);
    mem_guard_down();
}

/* Charged bytes count until they are freed, in any thread. A budget refuses more, and refuses new requests
 * first. */
static void a_budget_holds_all_that_is_charged(void **state)
{
    size_t before = mem_charged_bytes(), one;
    void *a, *b, *c;

    mem_set_budget(before + 80000);
    assert_int_equal(mem_charge(MEM_CHARGE_OLD), MEM_CHARGE_NONE);
    a = mem_alloc(1000, MEM_API);
    one = mem_charged_bytes() - before;
    assert_true(a && one >= 1000 + 16 && one <= 1000 + 64);
    assert_int_equal(mem_charge(MEM_CHARGE_NONE), MEM_CHARGE_OLD);
    b = mem_zalloc(1, 100000, MEM_API); /* These bytes are not charged. */
    assert_true(b && mem_charged_bytes() == before + one);
    a = mem_realloc(a, 60000, MEM_API); /* These bytes are still charged to a request. */
    assert_true(a && mem_charged_bytes() >= before + 60000);
    assert_null(mem_realloc(a, 90000, MEM_API));
    assert_true(mem_over_budget() && !mem_over_budget());
    mem_charge(MEM_CHARGE_NEW);
    /* This would fit, but the last eighth is reserved for accepted requests. */
    assert_null(mem_alloc(15000, MEM_API));
    assert_true(mem_over_budget());
    mem_charge(MEM_CHARGE_OLD);
    c = mem_alloc(15000, MEM_API);
    assert_non_null(c);
    assert_null(mem_zalloc(1, 15000, MEM_API));
    a = mem_realloc(a, 100, MEM_API);
    mem_free(c);
    mem_charge(MEM_CHARGE_NONE);
    assert_true(mem_charged_bytes() <= before + 200);
    mem_free(a);
    mem_free(b);
    assert_int_equal(mem_charged_bytes(), before);
    mem_over_budget();
    mem_set_budget(0);
    mem_charge(MEM_CHARGE_NEW);
    a = mem_alloc(1000000, MEM_API); /* Without a budget bytes are only counted. */
    mem_charge(MEM_CHARGE_NONE);
    assert_true(a && mem_charged_bytes() >= before + 1000000 && !mem_over_budget());
    mem_free(a);
    assert_int_equal(mem_charged_bytes(), before);
}

/* Blocks count for the client that allocated them, whoever grows or frees them. With shares a client leaves a quarter
 * of the budget to the others. */
static void clients_share_the_budget(void **state)
{
    void *a, *b;

    assert_int_equal(mem_charged_bytes(), 0);
    mem_set_budget(100000);
    mem_share_budget(true);
    mem_charge(MEM_CHARGE_OLD);
    assert_int_equal(mem_set_client(5), 0);
    a = mem_alloc(70000, MEM_API);
    assert_non_null(a);
    assert_null(mem_alloc(6000, MEM_API));
    assert_true(mem_over_budget());
    assert_int_equal(mem_set_client(6), 5);
    assert_int_equal(mem_client(), 6);
    b = mem_alloc(6000, MEM_API); /* Another client gets them. */
    assert_non_null(b);
    assert_int_equal(mem_client_bytes(5) + mem_client_bytes(6), mem_charged_bytes());
    assert_in_range(mem_client_bytes(6), 6000, 6100);
    a = mem_realloc(a, 1000, MEM_API);
    assert_in_range(mem_client_bytes(5), 1000, 1100);
    assert_null(mem_realloc(a, 73000, MEM_API)); /* The share that counts is that of client 5. */
    a = mem_realloc(a, 60000, MEM_API);
    assert_in_range(mem_client_bytes(5), 60000, 60100);
    mem_free(a);
    assert_int_equal(mem_client_bytes(5), 0);
    a = mem_alloc(64000, MEM_API);
    assert_non_null(a);
    mem_free(a);
    mem_charge(MEM_CHARGE_NEW); /* for which 87500 bytes are there */
    assert_null(mem_alloc(64000, MEM_API));
    mem_share_budget(false);
    a = mem_alloc(64000, MEM_API);
    assert_non_null(a);
    mem_charge(MEM_CHARGE_NONE);
    mem_free(a);
    mem_free(b);
    assert_int_equal(mem_charged_bytes(), 0);
    assert_int_equal(mem_client_bytes(6), 0);
    mem_set_client(0);
    mem_set_budget(0);
    mem_over_budget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_counted_by_tag),
        cmocka_unit_test(clients_share_the_budget),
        cmocka_unit_test(blocks_are_aligned_and_keep_their_content),
        cmocka_unit_test(sizes_that_overflow_give_nothing),
        cmocka_unit_test(arrays_grow_by_doubling),
        cmocka_unit_test(the_chosen_allocation_fails_and_no_other),
        cmocka_unit_test(the_guard_aborts_whoever_allocates_in_a_step),
        cmocka_unit_test(threads_count_together_and_are_guarded_alone),
        cmocka_unit_test(a_budget_holds_all_that_is_charged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
