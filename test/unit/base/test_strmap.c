/* test_strmap.c - the string map against a plain list, its use of memory, and its resistance to chosen
 * keys. */
#include <xxhash.h>

#include "base/strmap.h"

static void keys_are_found_with_their_values(void **state)
{
    enum { N = 20000 };
    static char key[N][12];
    struct strmap m;
    uint64_t v;

    strmap_init(&m, MEM_BASE);
    assert_false(strmap_get(&m, "x", 1, &v));
    for (size_t i = 0; i < N; i++) {
        snprintf(key[i], sizeof(key[i]), "key%zu", i);
        assert_int_equal(strmap_put(&m, key[i], strlen(key[i]), i * 3), 1);
    }
    assert_int_equal(m.n, N);
    for (size_t i = 0; i < N; i++) {
        char copy[12];

        memcpy(copy, key[i], sizeof(copy)); /* Keys are found by content and not by address. */
        assert_true(strmap_get(&m, copy, strlen(copy), &v) && v == i * 3);
        assert_false(strmap_get(&m, copy, strlen(copy) - 1, &v) && v == i * 3);
    }
    assert_false(strmap_get(&m, "key20000", 8, &v));
    assert_true(m.n_slots >= N * 3 / 2 && (m.n_slots & (m.n_slots - 1)) == 0);
    strmap_fini(&m);
    assert_int_equal(mem_live_blocks(), 0);
}

static void a_second_put_keeps_the_first_value_and_set_replaces_it(void **state)
{
    struct strmap m;
    uint64_t v;

    strmap_init(&m, MEM_BASE);
    assert_int_equal(strmap_put(&m, "a", 1, 1), 1);
    assert_int_equal(strmap_put(&m, "a", 1, 2), 0);
    assert_true(strmap_get(&m, "a", 1, &v) && v == 1);
    assert_true(strmap_set(&m, "a", 1, 3));
    assert_true(strmap_get(&m, "a", 1, &v) && v == 3);
    assert_true(strmap_set(&m, "b", 1, UINT64_MAX));
    assert_true(strmap_get(&m, "b", 1, &v) && v == UINT64_MAX);
    assert_int_equal(m.n, 2);
    strmap_fini(&m);
}

static void keys_are_bytes(void **state)
{
    struct strmap m;
    uint64_t v;

    strmap_init(&m, MEM_BASE);
    assert_int_equal(strmap_put(&m, "", 0, 10), 1);
    assert_int_equal(strmap_put(&m, "a\0b", 3, 11), 1);
    assert_int_equal(strmap_put(&m, "a\0c", 3, 12), 1);
    assert_int_equal(strmap_put(&m, "a", 1, 13), 1);
    assert_true(strmap_get(&m, "x", 0, &v) && v == 10);
    assert_true(strmap_get(&m, "a\0b", 3, &v) && v == 11);
    assert_true(strmap_get(&m, "a\0c", 3, &v) && v == 12);
    assert_false(strmap_get(&m, "a\0", 2, &v));
    strmap_fini(&m);
}

static void reserved_room_needs_no_memory_later(void **state)
{
    static const char key[] = "abcdefghijklmnopqrstuvwxyz";
    struct strmap m;

    strmap_init(&m, MEM_BASE);
    assert_true(strmap_reserve(&m, 26));
    mem_fail_at(1);
    for (size_t i = 0; i < 26; i++)
        assert_int_equal(strmap_put(&m, key + i, 1, i), 1);
    assert_true(strmap_reserve(&m, 5)); /* The map never shrinks. */
    assert_false(mem_failed());
    mem_fail_at(0);
    strmap_fini(&m);
}

static void lack_of_memory_loses_nothing(void **state)
{
    static const char key[] = "abcdefghijklmnopqrstuvwxyz";
    struct strmap m;
    uint64_t v;
    size_t n = 0;
    int rc;

    strmap_init(&m, MEM_BASE);
    mem_fail_at(2); /* The first table can be allocated, and its first growth fails. */
    while ((rc = strmap_put(&m, key + n, 1, n)) == 1)
        n++;
    assert_int_equal(rc, -1);
    assert_true(n >= 10 && n < 26);
    for (size_t i = 0; i < n; i++) {
        mem_fail_at(1);
        assert_int_equal(strmap_put(&m, key + i, 1, 99), 0); /* A full map can still be searched. */
        assert_true(strmap_set(&m, key + i, 1, i + 50));
        mem_fail_at(0);
        assert_true(strmap_get(&m, key + i, 1, &v) && v == i + 50);
    }
    assert_false(strmap_get(&m, key + n, 1, &v));
    assert_false(strmap_reserve(&m, SIZE_MAX / 2));
    strmap_fini(&m);
    strmap_fini(&m);
    assert_int_equal(mem_live_blocks(), 0);
}

/* Keys that were chosen to collide under a known hash function do not collide here. */
static void the_place_of_a_key_cannot_be_foreseen(void **state)
{
    static char key[600][8];
    struct strmap m;
    size_t n = 0, longest = 0;

    strmap_init(&m, MEM_BASE);
    for (size_t i = 0; n < 600; i++) {
        snprintf(key[n], sizeof(key[n]), "%zu", i);
        if ((XXH3_64bits(key[n], strlen(key[n])) & 1023) != 7)
            continue;
        assert_int_equal(strmap_put(&m, key[n], strlen(key[n]), 0), 1);
        n++;
    }
    assert_int_equal(m.n_slots, 1024);
    for (size_t i = 0, run = 0; i < m.n_slots; i++) {
        run = m.slot[i].key ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    assert_true(longest < 300); /* Without a seed 600 keys would be in one run. */
    strmap_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_found_with_their_values),
        cmocka_unit_test(a_second_put_keeps_the_first_value_and_set_replaces_it),
        cmocka_unit_test(keys_are_bytes),
        cmocka_unit_test(reserved_room_needs_no_memory_later),
        cmocka_unit_test(lack_of_memory_loses_nothing),
        cmocka_unit_test(the_place_of_a_key_cannot_be_foreseen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
