/* test_pool.c - the promises of each cache type besides storing rows: the order of blocks, layouts, sizes,
 * the growth of regions, what forks and prefixes share, and that kv_check() detects damage. test_windows.c
 * has the blocks that windows release. */
#include <sys/mman.h>

#include "base/cpu.h"
#include "base/threads/pool.h"
#include "caches.h"
#include "kern/kern.h"
#include "kv/kvpool.h"

static struct kv_limits small(size_t block)
{
    return (struct kv_limits){.n_layers = 2,
                              .n_kv = 3,
                              .head_dim = 16,
                              .dtype = DT_F32,
                              .max_seqs = 4,
                              .max_len = 512,
                              .pool_tokens = 512,
                              .block = block};
}

/* ---- blocks ---- */

static void blocks_come_as_neighbours_in_order_and_again_after_a_release(void **state)
{
    static const char *const types[] = {"slab_pool", "paged"};

    for (int t = 0; t < 2; t++)
        for (int round = 0; round < 3; round++) {
            struct kv_view v;
            struct kv c;

            caches_open(&c, types[t], small(32));
            for (int r = 0; r <= round; r++) {
                kv_release(&c, 0);
                assert_int_equal(kv_reserve(&c, 0, 100), 0);
                assert_int_equal(kv_reserve(&c, 0, 250), 0);
            }
            v = kv_view(&c, 0);
            for (uint32_t i = 0; i < 250 / KERN_TILE; i++)
                assert_int_equal(v.tile[0][i], i);
            kv_close(&c);
        }
}

/* Every tile of every layer and head has its own address, and together they fill the region. */
static void both_layouts_place_every_tile_once(void **state)
{
    for (int layout = 0; layout < 2; layout++) {
        struct kv_limits lim = small(64);
        struct kv_view v;
        struct kv c;
        char *low, *seen;
        size_t n = 0;

        lim.layout = (enum kv_layout)layout;
        caches_open(&c, "slab_pool", lim);
        assert_int_equal(kv_reserve(&c, 0, 512), 0);
        v = kv_view(&c, 0);
        low = v.layer[0].k;
        seen = calloc(kv_bytes(&c) / c.tile_bytes, 1);
        for (size_t l = 0; l < 2; l++)
            for (size_t h = 0; h < 3; h++)
                for (size_t pos = 0; pos < 512; pos += KERN_TILE)
                    for (int value = 0; value < 2; value++) {
                        size_t at = (size_t)(caches_tile(&v, l, h, pos, value) - low);

                        assert_true(at % c.tile_bytes == 0 && at < kv_bytes(&c));
                        assert_int_equal(seen[at / c.tile_bytes]++, 0);
                        n++;
                    }
        assert_int_equal(n * c.tile_bytes, kv_bytes(&c));
        free(seen);
        kv_close(&c);
    }
    assert_int_equal(
        kv_token_bytes(&(struct kv_limits){.n_layers = 3, .n_kv = 2, .head_dim = 20, .dtype = DT_BF16}),
        3 * 2 * 2 * 32 * 2);
    assert_int_equal(
        kv_token_bytes(&(struct kv_limits){.n_layers = 3, .n_kv = 2, .head_dim = 20, .dtype = DT_I8}),
        3 * 2 * 2 * (32 + 4));
    assert_int_equal(
        kv_token_bytes(&(struct kv_limits){.n_layers = 3, .n_kv = 2, .head_dim = 20, .dtype = DT_I4}),
        3 * 2 * 2 * (16 + 1 + 2));
    /* A row of a tile of one group is not a whole number of bytes, but K and V together are. */
    assert_int_equal(
        kv_token_bytes(&(struct kv_limits){.n_layers = 1, .n_kv = 1, .head_dim = 16, .dtype = DT_I4}), 21);
}

static void the_block_follows_the_cache_and_the_smallest_window(void **state)
{
    static const size_t window[2] = {0, 128};
    struct kv_limits lim = {
        .n_layers = 2, .n_kv = 8, .head_dim = 64, .dtype = DT_BF16, .max_seqs = 1, .max_len = 4096};
    size_t block, row = 8 * 2 * 64 * 2, quarter = cpu_cache_bytes(2) / 4;

    block = kv_block("slab_pool", &lim);
    assert_true(block >= 16 && block <= 256 && (block & (block - 1)) == 0);
    assert_true(block == 16 || block * row <= quarter);
    assert_true(block == 256 || 2 * block * row > quarter);
    assert_true(kv_block("paged", &lim) <= 64);
    lim.window = window;
    assert_int_equal(kv_block("slab_pool", &lim), block < 32 ? block : 32);
    lim.max_len = 100; /* No sequence is longer than the window. */
    assert_int_equal(kv_block("slab_pool", &lim), block);
    lim.block = 128;
    assert_int_equal(kv_block("slab_pool", &lim), 128);
}

static void the_largest_pool_that_fits_fits_and_the_next_does_not(void **state)
{
    static const size_t window[3] = {0, 100, 700};
    static const char *const types[] = {"slab_pool", "paged"};

    for (int t = 0; t < 2; t++)
        for (size_t bytes = 1 << 20; bytes < 1 << 30; bytes = bytes * 5 / 2)
            for (int windowed = 0; windowed < 2; windowed++) {
                struct kv_limits lim = {.n_layers = 3,
                                        .n_kv = 2,
                                        .head_dim = 64,
                                        .dtype = DT_BF16,
                                        .max_seqs = 3,
                                        .max_len = 4096,
                                        .step_tokens = 256,
                                        .block = 32,
                                        .window = windowed ? window : NULL};

                lim.pool_tokens = kv_pool_fit(types[t], lim, bytes);
                assert_true(lim.pool_tokens > 0 && lim.pool_tokens % 32 == 0);
                assert_true(kv_pool_bytes(types[t], &lim) <= bytes);
                lim.pool_tokens += 32;
                assert_true(kv_pool_bytes(types[t], &lim) > bytes);
            }
}

static size_t resident(const struct kv *c)
{
    size_t pages = kv_bytes(c) / 4096, n = 0;
    unsigned char *in = malloc(pages);

    assert_int_equal(mincore(kv_view(c, 0).layer[0].k, pages * 4096, in), 0);
    for (size_t i = 0; i < pages; i++)
        n += in[i] & 1;
    free(in);
    return n * 4096;
}

static void a_pool_is_touched_at_once_if_threads_are_given(void **state)
{
    struct kv_limits lim = small(64);
    struct pool *threads;
    struct kv c;

    lim.pool_tokens = 1 << 14;
    caches_open(&c, "slab_pool", lim);
    assert_int_equal(resident(&c), 0);
    kv_close(&c);
    assert_int_equal(pool_new(&threads, 2, NULL), 0);
    lim.touch = threads;
    caches_open(&c, "slab_pool", lim);
    assert_int_equal(resident(&c), kv_bytes(&c));
    kv_close(&c);
    pool_free(threads);
}

/* ---- growth ---- */

static void bmc_grows_in_splits_and_copies_only_then(void **state)
{
    static const size_t splits[] = {1, 7, 0};

    for (int i = 0; i < 3; i++) {
        size_t split = i == 0 ? 1000 : i == 1 ? 143 : 33; /* ceil(1000 / 7), ceil(1000 / floor(sqrt(1000))) */
        struct kv_limits lim = small(0);
        size_t moves = 0, most = (1000 + split - 1) / split;
        char *last = NULL;
        struct kv c;

        lim.max_len = lim.pool_tokens = 1000;
        lim.splits = splits[i];
        caches_open(&c, "bmc", lim);
        for (size_t n = 1; n <= 1000; n++) {
            size_t want = (n + split - 1) / split * split;

            want = want < 1000 ? want : 1000;
            assert_int_equal(kv_reserve(&c, 0, n), 0);
            assert_true(kv_held_bytes(&c, 0) >= n * kv_token_bytes(&lim));
            if (kv_view(&c, 0).layer[0].k == last)
                continue;
            moves++;
            last = kv_view(&c, 0).layer[0].k;
            assert_int_equal(kv_held_bytes(&c, 0), (want + 15) / 16 * 16 * kv_token_bytes(&lim));
        }
        assert_true(moves <= most);
        kv_close(&c);
    }
}

static void dynamic_grows_by_less_than_doubling(void **state)
{
    struct kv_limits lim = small(0);
    size_t moves = 0, copied = 0, held = 0;
    struct kv c;

    lim.max_len = lim.pool_tokens = 10000;
    caches_open(&c, "dynamic", lim);
    for (size_t n = 1; n <= 10000; n++) {
        assert_int_equal(kv_reserve(&c, 0, n), 0);
        if (kv_held_bytes(&c, 0) != held) {
            moves++;
            copied += held;
            held = kv_held_bytes(&c, 0);
        }
    }
    assert_true(moves <= 9 && copied <= 2 * held);
    kv_close(&c);
}

/* ---- sharing ---- */

static void a_fork_shares_until_one_is_written(void **state)
{
    struct kv_limits lim = small(32);
    struct kv c;

    lim.pool_tokens = 320; /* ten blocks */
    caches_open(&c, "paged", lim);
    assert_int_equal(kv_reserve(&c, 0, 200), 0); /* seven blocks, the last of which is partly filled */
    for (size_t pos = 0; pos < 200; pos++)
        caches_write(&c, 0, pos, 1 + (uint32_t)pos);
    for (size_t s = 1; s < 4; s++)
        assert_int_equal(kv_fork(&c, 0, 200, s), 0);
    caches_check(&c);
    for (size_t s = 1; s < 4; s++) { /* Three copies of the last block fill the pool. */
        assert_int_equal(kv_reserve(&c, s, 201), 0);
        caches_write(&c, s, 200, 1000 + (uint32_t)s);
        caches_check(&c);
    }
    assert_int_equal(kv_reserve(&c, 0, 224), 0); /* The block is no longer shared, so nothing is copied. */
    assert_int_equal(kv_reserve(&c, 0, 225), ERR_NOSPACE);
    for (size_t s = 0; s < 4; s++)
        for (size_t pos = 0; pos < 200; pos++)
            assert_true(caches_is(&c, s, 1, pos, 1 + (uint32_t)pos, true));
    assert_true(caches_is(&c, 2, 0, 200, 1002, true));
    kv_close(&c);
}

static void what_is_written_into_a_published_block_is_not_found_any_more(void **state)
{
    static const int32_t token[16] = {1, 2, 3};
    const struct prefix_key seed = {{1, 2}};
    struct kv_limits lim = small(16);
    struct kv c;

    lim.keep_prefixes = true;
    caches_open(&c, "paged", lim);
    assert_int_equal(kv_adopt(&c, 0, seed, token, 16), 0);
    assert_int_equal(kv_reserve(&c, 0, 16), 0);
    kv_set_tokens(&c, 0, 0, token, 16);
    kv_publish(&c, 0, token, 16, false);
    assert_int_equal(kv_truncate(&c, 0, 10), 0);
    assert_int_equal(kv_adopt(&c, 1, seed, token, 16), 16);
    kv_release(&c, 1);
    assert_int_equal(kv_reserve(&c, 0, 11), 0);
    assert_int_equal(kv_adopt(&c, 1, seed, token, 16), 0);
    caches_check(&c);
    kv_close(&c);
}

/* Types without a prefix cache find nothing, and report it. */
static void other_types_share_no_prefixes(void **state)
{
    static const char *const types[] = {"dynamic", "bmc"};
    static const int32_t token[16] = {1, 2, 3};
    const struct prefix_key seed = {{1, 2}};

    for (int t = 0; t < 2; t++) {
        struct kv_limits lim = small(16);
        struct kv c;

        lim.keep_prefixes = true;
        caches_open(&c, types[t], lim);
        assert_int_equal(kv_adopt(&c, 0, seed, token, 16), 0);
        assert_int_equal(kv_reserve(&c, 0, 16), 0);
        kv_set_tokens(&c, 0, 0, token, 16);
        kv_publish(&c, 0, token, 16, true);
        assert_int_equal(kv_adopt(&c, 1, seed, token, 16), 0);
        kv_close(&c);
    }
}

/* A region has more rows than its sequence needs, until another sequence needs them. */
static void rows_that_no_sequence_has_asked_for_are_refused_to_others(void **state)
{
    static const char *const types[] = {"dynamic", "bmc"};

    for (int t = 0; t < 2; t++) {
        struct kv_limits lim = small(0);
        struct kv c;

        lim.pool_tokens = 160;
        lim.max_len = 160;
        lim.splits = 2;
        caches_open(&c, types[t], lim);
        for (size_t s = 0; s < 2; s++) {
            caches_grow(&c, s, 0, 17, 17);
            assert_true(kv_held_bytes(&c, s) > 2 * kv_seq_bytes(&c.lim, 16));
        }
        assert_true(kv_has_room(&c, &(struct kv_want){0, 128}, 1));
        assert_false(kv_has_room(&c, &(struct kv_want){0, 129}, 1));
        assert_int_equal(kv_reserve(&c, 0, 129), ERR_NOSPACE);
        assert_int_equal(kv_reserve(&c, 0, 128), 0);
        assert_int_equal(kv_held_bytes(&c, 1), 2 * kv_seq_bytes(&c.lim, 16)); /* it was cut */
        caches_check(&c);
        caches_must_show(&c, 0, 17);
        caches_must_show(&c, 1, 17);
        assert_int_equal(kv_reserve(&c, 1, 33), ERR_NOSPACE);
        assert_int_equal(kv_truncate(&c, 0, 112), 0); /* as behind wrong guesses */
        assert_int_equal(kv_reserve(&c, 1, 33), 0);
        caches_must_show(&c, 1, 17);
        kv_release(&c, 0);
        assert_int_equal(kv_reserve(&c, 1, 160), 0);
        caches_must_show(&c, 1, 17);
        caches_check(&c);
        kv_close(&c);
    }
}

/* ---- the checker itself ---- */

static void must_complain(struct kv *c, const char *what)
{
    struct err e = {0};

    if (kv_check(c, &e) == 0 || strlen(e.msg) < 10)
        fail_msg("%s: a %s goes unseen", c->type->name, what);
}

static void a_check_sees_lost_doubled_and_torn_blocks(void **state)
{
    static const char *const types[] = {"slab_pool", "paged"};

    for (int t = 0; t < 2; t++) {
        struct kvpool_seq *q;
        struct kvpool *p;
        uint32_t was;
        struct kv c;

        caches_open(&c, types[t], small(32));
        assert_int_equal(kv_reserve(&c, 0, 100), 0);
        assert_int_equal(kv_reserve(&c, 1, 40), 0);
        p = c.state;
        caches_check(&c);
        p->group[0].n_free--;
        must_complain(&c, "lost block");
        p->group[0].n_free++;
        was = p->group[0].free[0];
        p->group[0].free[0] = kvpool_block(p, kvpool_seq(&c, p, 1, 0), 1);
        must_complain(&c, "free block that is held");
        p->group[0].free[0] = was;
        q = kvpool_seq(&c, p, 0, 0);
        was = q->tile[2];
        q->tile[2] = kvpool_seq(&c, p, 1, 0)->tile[0];
        must_complain(&c, "torn block");
        q->tile[2] = was;
        kvpool_set(p, q, 1, kvpool_block(p, kvpool_seq(&c, p, 1, 0), 0));
        must_complain(&c, "block held by two");
        kvpool_set(p, q, 1, was >> p->shift);
        caches_check(&c);
        p->len[0] = 200;
        must_complain(&c, "length without blocks");
        p->len[0] = 100;
        caches_check(&c);
        kv_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_as_neighbours_in_order_and_again_after_a_release),
        cmocka_unit_test(both_layouts_place_every_tile_once),
        cmocka_unit_test(the_block_follows_the_cache_and_the_smallest_window),
        cmocka_unit_test(the_largest_pool_that_fits_fits_and_the_next_does_not),
        cmocka_unit_test(a_pool_is_touched_at_once_if_threads_are_given),
        cmocka_unit_test(bmc_grows_in_splits_and_copies_only_then),
        cmocka_unit_test(dynamic_grows_by_less_than_doubling),
        cmocka_unit_test(a_fork_shares_until_one_is_written),
        cmocka_unit_test(what_is_written_into_a_published_block_is_not_found_any_more),
        cmocka_unit_test(rows_that_no_sequence_has_asked_for_are_refused_to_others),
        cmocka_unit_test(other_types_share_no_prefixes),
        cmocka_unit_test(a_check_sees_lost_doubled_and_torn_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
