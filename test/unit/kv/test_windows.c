/* test_windows.c - layers with a window, with a sink and a window, or without rows because they read those of
 * other layers: the number of blocks of a sequence, memory that stops growing, how far a sequence can be
 * truncated, shared and adopted, and which rows are found again. test_random.c does the same at random. */
#include "caches.h"
#include "kern/kern.h"
#include "kv/kvpool.h"

enum { LAYERS = 2, BLOCK = 16, SINK = 20, WINDOW = 50, HEAD = 2 }; /* HEAD: the blocks of the sink */

static const size_t windows[LAYERS] = {WINDOW, WINDOW}, sinks[LAYERS] = {SINK, SINK};
static const char *const pooled[] = {"slab_pool", "paged"};

static struct kv_limits limits(void)
{
    return (struct kv_limits){.n_layers = LAYERS,
                              .n_kv = 2,
                              .head_dim = 16,
                              .dtype = DT_F32,
                              .max_seqs = 3,
                              .max_len = 4096,
                              .pool_tokens = 3 * 4096,
                              .step_tokens = 32,
                              .block = BLOCK,
                              .window = windows,
                              .sink = sinks};
}

static void memory_of_a_sequence_stops_growing(void **state)
{
    size_t block = 2 * LAYERS * 2 * 16 * 4 * BLOCK, most = (HEAD + (WINDOW + BLOCK - 1) / BLOCK + 1) * block;

    for (int t = 0; t < 2; t++)
        for (size_t step = 1; step <= 32; step += 31) {
            size_t held = 0;
            struct kv c;

            caches_open(&c, pooled[t], limits());
            for (size_t n = 0; n < 1000; n += step) {
                caches_grow(&c, 1, n, n + step, step);
                caches_check(&c);
                held = kv_held_bytes(&c, 1) > held ? kv_held_bytes(&c, 1) : held;
            }
            assert_true(held <= most && held >= kv_seq_bytes(&c.lim, 1000));
            caches_must_show(&c, 1, step == 1 ? 1000 : 1024);
            kv_close(&c);
        }
}

/* Each of at most three sequences holds its sink, its window and the partly visible blocks. All together hold
 * the rows of a step. */
static void a_pool_has_room_for_all_sequences_and_no_more(void **state)
{
    struct kv_limits lim = limits();
    size_t block = 2 * LAYERS * 2 * 16 * 4 * BLOCK,
           n = 3 * (HEAD + (WINDOW + BLOCK - 1) / BLOCK + 2) + 32 / BLOCK;

    assert_int_equal(kv_seq_bytes(&lim, 4000), (size_t)(SINK + WINDOW) * kv_token_bytes(&lim));
    assert_int_equal(kv_seq_bytes(&lim, SINK + WINDOW - 1), (SINK + WINDOW - 1) * kv_token_bytes(&lim));
    for (int t = 0; t < 2; t++) {
        struct kv c;

        caches_open(&c, pooled[t], lim);
        assert_int_equal(kv_bytes(&c), (n + 1) * block);
        assert_int_equal(kv_pool_bytes(pooled[t], &lim), kv_bytes(&c));
        for (size_t pos = 0; pos < 2000; pos += 10)
            for (size_t s = 0; s < 3; s++)
                caches_grow(&c, s, pos, pos + 10, 10);
        for (size_t s = 0; s < 3; s++)
            caches_must_show(&c, s, 2000);
        kv_close(&c);
    }
}

static void a_sink_and_window_that_no_sequence_outgrows_are_none(void **state)
{
    struct kv_limits lim = limits(), all = limits();

    lim.max_len = SINK + WINDOW;
    all.max_len = SINK + WINDOW;
    all.window = all.sink = NULL;
    assert_int_equal(kv_pool_bytes("slab_pool", &lim), kv_pool_bytes("slab_pool", &all));
    lim.max_len++;
    assert_int_not_equal(kv_pool_bytes("slab_pool", &lim), kv_pool_bytes("slab_pool", &all));
}

static void rows_between_are_gone_and_said_to_be(void **state)
{
    for (int t = 0; t < 2; t++) {
        struct kv c;

        caches_open(&c, pooled[t], limits());
        caches_grow(&c, 0, 0, SINK + WINDOW, 7); /* No row has left the window yet. */
        assert_true(kv_sees(&c, 0, 1) && kv_sees(&c, 0, SINK + WINDOW));
        /* A query sees rows from 151, in block 9 and later, so the sequence can be truncated to 193. */
        caches_grow(&c, 0, SINK + WINDOW, 200, 7);
        assert_true(kv_sees(&c, 0, 193) && !kv_sees(&c, 0, 192) && !kv_sees(&c, 0, SINK));
        assert_int_equal(kv_truncate(&c, 0, 192), KV_GONE);
        assert_int_equal(kv_fork(&c, 0, 192, 1), KV_GONE);
        assert_int_equal(kv_fork(&c, 0, 193, 1), 0);
        caches_check(&c);
        caches_must_show(&c, 1, 193);
        assert_int_equal(kv_truncate(&c, 0, 193), 0);
        caches_grow(&c, 0, 193, 260, 9);
        caches_must_show(&c, 0, 260);
        caches_must_show(&c, 1, 193);
        kv_release(&c, 0);
        kv_release(&c, 1);
        caches_check(&c);
        assert_int_equal(kv_held_bytes(&c, 0), 0);
        caches_grow(&c, 0, 0, 40, 40);
        assert_int_equal(kv_truncate(&c, 0, 3), 0);
        caches_check(&c);
        kv_close(&c);
    }
}

/* The memory that a kernel may read between sink and window is zero. */
static void a_dropped_tile_behind_a_sink_is_not_zero(void **state)
{
    struct kv_view v;
    struct kv c;

    caches_open(&c, "slab_pool", limits());
    caches_grow(&c, 0, 0, 200, 32);
    v = kv_view(&c, 0);
    for (size_t pos = HEAD * BLOCK; pos < 144; pos += KERN_TILE) {
        const char *t = caches_tile(&v, 1, 1, pos, false);

        for (size_t b = 0; b < c.tile_bytes; b++)
            assert_int_equal(t[b], 0);
    }
    kv_close(&c);
}

/* Blocks 0 and 1 hold the sink of a prefix of 12 blocks. Of the others a query after it sees the last
 * four. */
static void a_prefix_is_adopted_with_its_sink(void **state)
{
    const struct prefix_key seed = {{1, 2}};
    struct kv_limits lim = limits();
    int32_t token[192];
    struct kv c;

    for (int32_t i = 0; i < 192; i++)
        token[i] = i;
    lim.keep_prefixes = true;
    caches_open(&c, "paged", lim);
    kv_adopt(&c, 0, seed, token, 192);
    for (size_t i = 0; i < 12; i++) { /* These were published before a window drops them. */
        assert_int_equal(kv_reserve(&c, 0, (i + 1) * BLOCK), 0);
        for (size_t pos = i * BLOCK; pos < (i + 1) * BLOCK; pos++)
            caches_write(&c, 0, pos, (uint32_t)pos + 1);
        kv_set_tokens(&c, 0, i * BLOCK, token + i * BLOCK, BLOCK);
        kv_publish(&c, 0, token, (i + 1) * BLOCK, false);
        kv_advance(&c, 0, (i + 1) * BLOCK);
    }
    assert_int_equal(kv_adopt(&c, 1, seed, token, 192), 192);
    caches_check(&c);
    caches_must_show(&c, 1, 192);
    assert_int_equal(kv_held_bytes(&c, 1), (HEAD + 4) * 2 * LAYERS * 2 * 16 * 4 * BLOCK);
    caches_grow(&c, 1, 192, 300, 16);
    caches_must_show(&c, 1, 300);
    caches_check(&c);
    kv_close(&c);
}

static void a_check_sees_a_sink_that_is_counted_wrongly(void **state)
{
    struct kvpool *p;
    struct err e = {0};
    struct kv c;

    caches_open(&c, "slab_pool", limits());
    caches_grow(&c, 0, 0, 200, 32);
    caches_check(&c);
    p = c.state;
    kvpool_seq(&c, p, 0, 0)->head--;
    assert_int_equal(kv_check(&c, &e), ERR_INPUT);
    kvpool_seq(&c, p, 0, 0)->head++;
    caches_check(&c);
    kv_close(&c);
}

/* ---- windows alone ---- */

static struct kv_limits two_layers(const size_t window[2])
{
    return (struct kv_limits){.n_layers = 2,
                              .n_kv = 3,
                              .head_dim = 16,
                              .dtype = DT_F32,
                              .max_seqs = 4,
                              .max_len = 512,
                              .pool_tokens = 512,
                              .block = 16,
                              .window = window};
}

enum { MAX_LAYERS = 40 };

struct shape {
    const char *name;
    size_t n_layers, n_kv, head_dim, window, every; /* every EVERY-th layer sees all rows */
    size_t n_shared;                                /* the layers after those store nothing */
};

/* A prompt of 32k tokens in chunks, then a few tokens one by one. */
static void one_shape(const struct shape *s, const char *type, bool gives_back)
{
    size_t window[MAX_LAYERS] = {0}, want, all, most = 0;
    struct kv_limits lim = {.n_layers = s->n_layers,
                            .n_shared = s->n_shared,
                            .n_kv = s->n_kv,
                            .head_dim = s->head_dim,
                            .dtype = DT_BF16,
                            .max_seqs = 2,
                            .max_len = 33000,
                            .pool_tokens = 2 * 33024,
                            .step_tokens = 512,
                            .window = window};
    struct kv c;

    for (size_t l = 0; l < s->n_layers + s->n_shared; l++)
        window[l] = (l + 1) % s->every ? s->window : 0;
    want = kv_seq_bytes(&lim, 32768);
    all = 32768 * kv_token_bytes(&lim);
    caches_open(&c, type, lim);
    for (size_t pos = 0, step; pos < 32768; pos += step) {
        step = pos < 32256 ? 512 : 1;
        assert_int_equal(kv_reserve(&c, 1, pos + step), 0);
        kv_advance(&c, 1, pos + step);
        most = step == 1 && kv_held_bytes(&c, 1) > most ? kv_held_bytes(&c, 1) : most;
    }
    caches_check(&c);
    print_message("%s in %s: a sequence of 32k holds %.1f MiB; arithmetic %.1f, without windows %.1f\n",
                  s->name, type, (double)most / 1048576, (double)want / 1048576, (double)all / 1048576);
    if (gives_back)
        assert_true(kv_held_bytes(&c, 1) >= want && most <= want + want / 10);
    else
        assert_true(kv_held_bytes(&c, 1) >= all);
    kv_close(&c);
}

static void windows_give_back_what_no_query_can_see(void **state)
{
    static const struct shape gemma = {"gemma-3-1b", 26, 1, 256, 512, 6, 0},
                              gpt_oss = {"gpt-oss-20b", 24, 8, 64, 128, 2, 0},
                              gemma4 = {"gemma-4-e2b", 15, 1, 512, 512, 5, 20};

    one_shape(&gemma, "slab_pool", true);
    one_shape(&gemma, "paged", true);
    one_shape(&gemma, "bmc", false);
    one_shape(&gemma4, "slab_pool", true);
    one_shape(&gemma4, "paged", true);
    one_shape(&gpt_oss, "slab_pool", true);
    one_shape(&gpt_oss, "paged", true);
    one_shape(&gpt_oss, "dynamic", false);
}

static void rows_that_a_window_dropped_are_gone_and_said_to_be(void **state)
{
    static const size_t window[2] = {0, 32};
    struct kv_limits lim = two_layers(window);
    struct kv c;

    caches_open(&c, "slab_pool", lim);
    assert_int_equal(kv_reserve(&c, 0, 200), 0);
    kv_advance(&c, 0, 200); /* A query sees rows from 169, in block 10 and later. */
    assert_true(kv_sees(&c, 0, 200) && kv_sees(&c, 0, 191) && !kv_sees(&c, 0, 190));
    assert_int_equal(kv_truncate(&c, 0, 190), KV_GONE);
    assert_int_equal(kv_fork(&c, 0, 190, 1), KV_GONE);
    assert_int_equal(kv_fork(&c, 0, 191, 1), 0);
    assert_int_equal(kv_truncate(&c, 0, 191), 0);
    assert_int_equal(kv_reserve(&c, 0, 220), 0);
    caches_check(&c);
    kv_release(&c, 0);
    assert_int_equal(kv_reserve(&c, 0, 40), 0);
    assert_int_equal(kv_truncate(&c, 0, 1), 0);
    caches_check(&c);
    kv_close(&c);
}

/* It holds no rows, so no rows are missing. */
static void a_fork_of_no_rows_does_not_inherit_what_is_missing(void **state)
{
    static const size_t window[2] = {0, 32};

    for (size_t t = 0; kv_type_name(t); t++) {
        struct kv_limits lim = two_layers(window);
        struct kv c;

        caches_open(&c, kv_type_name(t), lim);
        assert_int_equal(kv_reserve(&c, 0, 200), 0);
        kv_advance(&c, 0, 200);
        assert_int_equal(kv_fork(&c, 0, 0, 1), 0);
        assert_int_equal(kv_reserve(&c, 1, 40), 0);
        assert_int_equal(kv_truncate(&c, 1, 20), 0);
        caches_check(&c);
        kv_close(&c);
    }
}

/* A kernel that reads before a window must find zeros, whatever the block held before. */
static void a_dropped_tile_in_front_of_a_window_is_not_zero(void **state)
{
    static const size_t window[2] = {32, 32};
    struct kv_limits lim = two_layers(window);
    struct kv_view v;
    struct kv c;

    caches_open(&c, "paged", lim);
    assert_int_equal(kv_reserve(&c, 0, 100), 0);
    for (size_t pos = 0; pos < 100; pos++)
        caches_write(&c, 0, pos, 1 + (uint32_t)pos);
    kv_advance(&c, 0, 100);
    v = kv_view(&c, 0);
    for (size_t pos = 0; pos < 64; pos += KERN_TILE) {
        const char *t = caches_tile(&v, 1, 2, pos, true);

        for (size_t b = 0; b < c.tile_bytes; b++)
            assert_int_equal(t[b], 0);
    }
    assert_true(caches_is(&c, 0, 1, 69, 70, true));
    kv_close(&c);
}

/* ---- layers that read the rows of earlier ones (Gemma 4) take nothing ---- */

enum { N_STORE = 3, N_SHARED = 9, SEEN = 128, ROWS = 480, CHUNK = 48 };

static const char *const types[] = {"slab_pool", "paged", "dynamic", "bmc"};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

/* The last N_SHARED layers have so many and such small windows that the counts of groups and blocks would
 * show them. */
static struct kv_limits shared_limits(size_t n_layers, size_t n_shared)
{
    static const size_t window[N_STORE + N_SHARED] = {0, SEEN, SEEN, 1, 2, 3, 4, 5, 6, 7, 8, 9};

    return (struct kv_limits){.n_layers = n_layers,
                              .n_shared = n_shared,
                              .n_kv = 2,
                              .head_dim = 16,
                              .dtype = DT_BF16,
                              .max_seqs = 3,
                              .max_len = 512,
                              .pool_tokens = 1024,
                              .step_tokens = CHUNK,
                              .window = window};
}

static void fill(struct kv *c)
{
    for (size_t n = CHUNK; n <= ROWS; n += CHUNK) {
        assert_int_equal(kv_reserve(c, 1, n), 0);
        kv_advance(c, 1, n);
    }
}

static void shared_layers_change_no_size_in_advance(void **state)
{
    const struct kv_limits with = shared_limits(N_STORE, N_SHARED), without = shared_limits(N_STORE, 0),
                           more = shared_limits(N_STORE + 1, 0);

    assert_int_equal(kv_token_bytes(&with), N_STORE * 2 * 2 * 16 * 2);
    /* the comparison: a fourth layer that stores rows */
    assert_true(kv_token_bytes(&more) > kv_token_bytes(&with));
    assert_int_equal(kv_seq_bytes(&with, ROWS), (ROWS + 2 * SEEN) * 2 * 2 * 16 * 2);
    for (int t = 0; t < N_TYPES; t++) {
        assert_int_equal(kv_block(types[t], &with), kv_block(types[t], &without));
        assert_int_equal(kv_budget_bytes(types[t], &with), kv_budget_bytes(types[t], &without));
        assert_int_equal(kv_pool_fit(types[t], with, 1 << 20), kv_pool_fit(types[t], without, 1 << 20));
        assert_int_equal(kv_record_bytes(types[t], &with), kv_record_bytes(types[t], &without));
    }
}

static void shared_layers_hold_no_bytes_in_any_cache(void **state)
{
    for (int t = 0; t < N_TYPES; t++) {
        const struct kv_limits lim[2] = {shared_limits(N_STORE, N_SHARED), shared_limits(N_STORE, 0)};
        struct kv c[2];

        for (int i = 0; i < 2; i++) {
            caches_open(&c[i], types[t], lim[i]);
            fill(&c[i]);
        }
        assert_int_equal(c[0].n_groups, 2);
        assert_int_equal(kv_bytes(&c[0]), kv_bytes(&c[1]));
        assert_int_equal(kv_held_bytes(&c[0], 1), kv_held_bytes(&c[1], 1));
        if (kv_type_pooled(types[t])) { /* The windows of the layers that store rows still release blocks. */
            size_t block = c[0].lim.block, seen = (SEEN / block + 2) * block;

            assert_true(kv_held_bytes(&c[0], 1) <= (ROWS + block + 2 * seen) * 2 * 2 * 16 * 2);
        }
        for (int i = 0; i < 2; i++)
            kv_close(&c[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_a_sequence_stops_growing),
        cmocka_unit_test(a_pool_has_room_for_all_sequences_and_no_more),
        cmocka_unit_test(a_sink_and_window_that_no_sequence_outgrows_are_none),
        cmocka_unit_test(rows_between_are_gone_and_said_to_be),
        cmocka_unit_test(a_dropped_tile_behind_a_sink_is_not_zero),
        cmocka_unit_test(a_prefix_is_adopted_with_its_sink),
        cmocka_unit_test(windows_give_back_what_no_query_can_see),
        cmocka_unit_test(rows_that_a_window_dropped_are_gone_and_said_to_be),
        cmocka_unit_test(a_fork_of_no_rows_does_not_inherit_what_is_missing),
        cmocka_unit_test(a_dropped_tile_in_front_of_a_window_is_not_zero),
        cmocka_unit_test(shared_layers_change_no_size_in_advance),
        cmocka_unit_test(shared_layers_hold_no_bytes_in_any_cache),
        cmocka_unit_test(a_check_sees_a_sink_that_is_counted_wrongly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
