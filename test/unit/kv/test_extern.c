/* test_extern.c - a cache whose tables come from the caller: rows are where the table says, in every layer,
 * layout and dtype; blocks are shared and copied, and nothing is allocated or dropped. */
#include "caches.h"
#include "kern/kern.h"
#include "kv/kvpool.h"

enum { BLOCK = 32, BLOCKS = 12, LONGEST = 250 };

static struct kv_limits limits(enum dtype dtype, enum kv_layout layout)
{
    return (struct kv_limits){.n_layers = 2,
                              .n_kv = 3,
                              .head_dim = 24,
                              .dtype = dtype,
                              .layout = layout,
                              .max_seqs = 3,
                              .max_len = LONGEST,
                              .pool_tokens = BLOCKS * BLOCK,
                              .block = BLOCK};
}

static void rows_lie_where_the_table_says(void **state)
{
    static const enum dtype dtypes[] = {DT_F32, DT_BF16, DT_I8, DT_I4};
    static const int32_t one[] = {7, 3, 11}, two[] = {7, 3, 1, 2}; /* The first two blocks are shared. */

    for (int k = 0; k < 6; k++) {
        struct kv c;

        caches_open(&c, "extern", limits(dtypes[k / 2], k % 2 ? KV_BLOCK_MAJOR : KV_HEAD_MAJOR));
        kv_lend(&c, 0, one, 3);
        for (size_t pos = 0; pos < 3 * BLOCK; pos++)
            caches_write(&c, 0, pos, (uint32_t)pos + 1);
        kv_lend(&c, 1, two, 4);
        kv_copy_block(&c, 11, 1);
        kv_lend(&c, 0, two, 1); /* The old table is replaced, and no rows are lost. */
        for (size_t pos = 0; pos < 3 * BLOCK; pos++)
            for (size_t l = 0; l < 2; l++)
                assert_true(caches_is(&c, 1, l, pos, (uint32_t)pos + 1, true));
        caches_write(&c, 1, 2 * BLOCK, 9999); /* This block is the copy. */
        kv_lend(&c, 2, one, 3);
        assert_true(caches_is(&c, 2, 1, 2 * BLOCK, 2 * BLOCK + 1, true));
        assert_false(caches_is(&c, 2, 1, 2 * BLOCK, 9999, true));
        caches_check(&c);
        kv_close(&c);
    }
}

static void a_sequence_is_as_long_as_its_table(void **state)
{
    static const int32_t all[] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct kv c;

    caches_open(&c, "extern", limits(DT_F32, KV_HEAD_MAJOR));
    assert_int_equal(kv_n_blocks(&c), BLOCKS);
    assert_int_equal(kv_reserve(&c, 0, 1), ERR_NOSPACE);
    assert_false(kv_has_room(&c, &(struct kv_want){0, 1}, 1));
    kv_lend(&c, 0, all, 2);
    assert_int_equal(kv_reserve(&c, 0, 2 * BLOCK), 0);
    assert_int_equal(kv_reserve(&c, 0, 2 * BLOCK + 1), ERR_NOSPACE);
    assert_true(kv_has_room(&c, &(struct kv_want){0, 2 * BLOCK}, 1));
    assert_true(kv_sees(&c, 0, 2 * BLOCK));
    assert_false(kv_sees(&c, 0, 2 * BLOCK + 1));
    kv_advance(&c, 0, 2 * BLOCK);
    assert_int_equal(kv_truncate(&c, 0, 5), 0); /* The sequence is truncated and continued. */
    assert_int_equal(kv_reserve(&c, 0, 2 * BLOCK), 0);
    kv_lend(&c, 0, all, 8);
    assert_int_equal(kv_reserve(&c, 0, LONGEST), 0);
    assert_int_equal(kv_fork(&c, 0, 10, 1), ERR_UNSUPPORTED);
    kv_release(&c, 0);
    assert_int_equal(kv_reserve(&c, 0, 1), ERR_NOSPACE);
    kv_close(&c);
}

static void its_size_is_known_in_advance_and_block_0_comes_on_top(void **state)
{
    struct kv_limits lim = limits(DT_I8, KV_BLOCK_MAJOR);
    struct kv c;

    caches_open(&c, "extern", lim);
    assert_true(kv_type_pooled("extern") && kv_type_extern("extern"));
    assert_false(kv_type_extern("paged") || kv_type_extern("nonsense"));
    assert_int_equal(kv_bytes(&c), BLOCKS * BLOCK * kv_token_bytes(&lim));
    assert_int_equal(kv_pool_bytes("extern", &lim), kv_bytes(&c));
    assert_int_equal(kv_least_tokens("extern", &lim), 9 * BLOCK);
    for (size_t i = 0; kv_type_name(i); i++)
        assert_false(kv_type_extern(kv_type_name(i)));
    assert_non_null(kv_type_name(3));
    assert_null(kv_type_name(4));
    kv_close(&c);
}

static void kv_check_sees_a_block_that_is_none(void **state)
{
    static const int32_t two[] = {1, 2};
    struct err e = {0};
    struct kv c;

    caches_open(&c, "extern", limits(DT_F32, KV_HEAD_MAJOR));
    kv_lend(&c, 1, two, 2);
    caches_check(&c);
    kvpool_set(c.state, kvpool_seq(&c, c.state, 1, 0), 1, BLOCKS);
    assert_int_equal(kv_check(&c, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "sequence 1: block 1"));
    kv_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_lie_where_the_table_says),
        cmocka_unit_test(a_sequence_is_as_long_as_its_table),
        cmocka_unit_test(its_size_is_known_in_advance_and_block_0_comes_on_top),
        cmocka_unit_test(kv_check_sees_a_block_that_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
