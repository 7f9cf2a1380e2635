/* test_arena.c - arenas: alignment, growth, reset, and what happens when memory or arithmetic runs out. */
#include "base/arena.h"
#include "base/mem.h"

static void blocks_are_aligned_and_do_not_overlap(void **state)
{
    enum { N = 3000 };
    static char *block[N];
    static size_t len[N];
    struct arena a;

    arena_init(&a, MEM_CKPT);
    for (size_t i = 0; i < N; i++) {
        len[i] = i % 7 == 0 ? i * 5 : i % 40;
        block[i] = arena_alloc(&a, len[i]);
        assert_non_null(block[i]);
        assert_int_equal((uintptr_t)block[i] % 16, 0);
        memset(block[i], (int)(i & 0xff), len[i]);
    }
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < len[i]; k++)
            if ((unsigned char)block[i][k] != (i & 0xff))
                fail_msg("block %zu was overwritten", i);
    assert_true(mem_tag_bytes(MEM_CKPT) > 1000000);
    assert_true(mem_live_blocks() < 40); /* Chunks grow. */
    arena_fini(&a);
    assert_int_equal(mem_live_blocks(), 0);
    arena_fini(&a);
}

static void a_large_block_gets_a_chunk_of_its_own(void **state)
{
    struct arena a;
    char *p, *q;

    arena_init(&a, MEM_CKPT);
    p = arena_alloc(&a, 5 << 20);
    assert_non_null(p);
    memset(p, 1, 5 << 20);
    q = arena_alloc(&a, 16);
    assert_non_null(q);
    assert_true(mem_live_bytes() < 7 << 20); /* The next chunk is not twice as large again. */
    arena_fini(&a);
}

static void zeroed_blocks_are_zero_and_products_are_checked(void **state)
{
    struct arena a;
    unsigned char *p;

    arena_init(&a, MEM_CKPT);
    memset(arena_alloc(&a, 4000), 0xff, 4000);
    arena_fini(&a); /* This most likely returns the same memory. */
    p = arena_zalloc(&a, 100, 30);
    assert_non_null(p);
    for (size_t i = 0; i < 3000; i++)
        assert_int_equal(p[i], 0);
    assert_null(arena_zalloc(&a, SIZE_MAX / 2, 3));
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, SIZE_MAX - 20));
    assert_null(arena_strndup(&a, "abc", SIZE_MAX));
    assert_non_null(arena_alloc(&a, 1)); /* The arena can still be used. */
    arena_fini(&a);
}

static void copies_of_strings_are_terminated(void **state)
{
    struct arena a;
    char *s, *e;

    arena_init(&a, MEM_CKPT);
    s = arena_strndup(&a, "a\0bcd", 4);
    e = arena_strndup(&a, "", 0);
    assert_memory_equal(s, "a\0bc\0", 5);
    assert_string_equal(e, "");
    arena_fini(&a);
}

static void lack_of_memory_leaves_the_arena_as_it_was(void **state)
{
    struct arena a;
    char *p;

    arena_init(&a, MEM_CKPT);
    mem_fail_at(1);
    assert_null(arena_alloc(&a, 10));
    p = arena_strndup(&a, "kept", 4);
    mem_fail_at(1);
    assert_null(arena_alloc(&a, 100000));
    assert_non_null(arena_alloc(&a, 10));
    assert_string_equal(p, "kept");
    arena_fini(&a);
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_do_not_overlap),
        cmocka_unit_test(a_large_block_gets_a_chunk_of_its_own),
        cmocka_unit_test(zeroed_blocks_are_zero_and_products_are_checked),
        cmocka_unit_test(copies_of_strings_are_terminated),
        cmocka_unit_test(lack_of_memory_leaves_the_arena_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
