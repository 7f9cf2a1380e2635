/* test_sink.c - layers that keep the first rows and a window: how many blocks a sequence holds, that its
 * memory stops growing, what can be gone back to, shared and adopted, and which rows are found again.
 * test_kv.c does the same at random.
 */
#include "kern/kern.h"
#include "kv/kvpool.h"
#include "kvrows.h"

enum { LAYERS = 2, BLOCK = 16, SINK = 20, WINDOW = 50, HEAD = 2 }; /* HEAD: blocks of the sink */

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

static void open_kv(struct kv *c, const char *type, struct kv_limits lim)
{
    struct err e = {0};

    if (kv_open(c, type, &lim, &e) != 0)
        fail_msg("%s: %s", type, e.msg);
}

static void must_hold(const struct kv *c)
{
    struct err e = {0};

    if (kv_check(c, &e) != 0)
        fail_msg("%s: %s", c->type->name, e.msg);
}

/* Rows [from, to) of SEQ, in steps of at most STEP, as an engine does it. */
static void grow(struct kv *c, size_t seq, size_t from, size_t to, size_t step)
{
    for (size_t pos = from; pos < to;) {
        size_t n = to - pos < step ? to - pos : step;

        assert_int_equal(kv_reserve(c, seq, pos + n), 0);
        for (size_t i = 0; i < n; i++)
            kvrows_write(c, seq, pos + i, (uint32_t)(pos + i + 1));
        pos += n;
        kv_advance(c, seq, pos);
    }
}

static void must_show(const struct kv *c, size_t seq, size_t n)
{
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t pos = 0; pos < n; pos++)
            if ((pos < SINK || pos + WINDOW > n) && !kvrows_is(c, seq, l, pos, (uint32_t)pos + 1, true))
                fail_msg("%s: row %zu of %zu is lost", c->type->name, pos, n);
}

static void memory_of_a_sequence_stops_growing(void **state)
{
    size_t block = 2 * LAYERS * 2 * 16 * 4 * BLOCK, most = (HEAD + (WINDOW + BLOCK - 1) / BLOCK + 1) * block;

    for (int t = 0; t < 2; t++)
        for (size_t step = 1; step <= 32; step += 31) {
            size_t held = 0;
            struct kv c;

            open_kv(&c, pooled[t], limits());
            for (size_t n = 0; n < 1000; n += step) {
                grow(&c, 1, n, n + step, step);
                must_hold(&c);
                held = kv_held_bytes(&c, 1) > held ? kv_held_bytes(&c, 1) : held;
            }
            assert_true(held <= most && held >= kv_seq_bytes(&c.lim, 1000));
            must_show(&c, 1, step == 1 ? 1000 : 1024);
            kv_close(&c);
        }
}

/* Each of three sequences at most holds sink, window and what it touches besides; together a step's rows. */
static void a_pool_has_room_for_all_sequences_and_no_more(void **state)
{
    struct kv_limits lim = limits();
    size_t block = 2 * LAYERS * 2 * 16 * 4 * BLOCK,
           n = 3 * (HEAD + (WINDOW + BLOCK - 1) / BLOCK + 2) + 32 / BLOCK;

    assert_int_equal(kv_seq_bytes(&lim, 4000), (size_t)(SINK + WINDOW) * kv_token_bytes(&lim));
    assert_int_equal(kv_seq_bytes(&lim, SINK + WINDOW - 1), (SINK + WINDOW - 1) * kv_token_bytes(&lim));
    for (int t = 0; t < 2; t++) {
        struct kv c;

        open_kv(&c, pooled[t], lim);
        assert_int_equal(kv_bytes(&c), (n + 1) * block);
        assert_int_equal(kv_pool_bytes(pooled[t], &lim), kv_bytes(&c));
        for (size_t pos = 0; pos < 2000; pos += 10)
            for (size_t s = 0; s < 3; s++)
                grow(&c, s, pos, pos + 10, 10);
        for (size_t s = 0; s < 3; s++)
            must_show(&c, s, 2000);
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

        open_kv(&c, pooled[t], limits());
        grow(&c, 0, 0, SINK + WINDOW, 7); /* nothing has left yet */
        assert_true(kv_sees(&c, 0, 1) && kv_sees(&c, 0, SINK + WINDOW));
        grow(&c, 0, SINK + WINDOW, 200, 7); /* sees 151.. : block 9 on, so back to 193 */
        assert_true(kv_sees(&c, 0, 193) && !kv_sees(&c, 0, 192) && !kv_sees(&c, 0, SINK));
        assert_int_equal(kv_truncate(&c, 0, 192), KV_GONE);
        assert_int_equal(kv_fork(&c, 0, 192, 1), KV_GONE);
        assert_int_equal(kv_fork(&c, 0, 193, 1), 0);
        must_hold(&c);
        must_show(&c, 1, 193);
        assert_int_equal(kv_truncate(&c, 0, 193), 0);
        grow(&c, 0, 193, 260, 9);
        must_show(&c, 0, 260);
        must_show(&c, 1, 193);
        kv_release(&c, 0);
        kv_release(&c, 1);
        must_hold(&c);
        assert_int_equal(kv_held_bytes(&c, 0), 0);
        grow(&c, 0, 0, 40, 40);
        assert_int_equal(kv_truncate(&c, 0, 3), 0);
        must_hold(&c);
        kv_close(&c);
    }
}

/* What a kernel may read between sink and window is zeros. */
static void dropped_tiles_read_as_zeros(void **state)
{
    struct kv_view v;
    struct kv c;

    open_kv(&c, "slab_pool", limits());
    grow(&c, 0, 0, 200, 32);
    v = kv_view(&c, 0);
    for (size_t pos = HEAD * BLOCK; pos < 144; pos += KERN_TILE) {
        const char *t = kvrows_tile(&v, 1, 1, pos, false);

        for (size_t b = 0; b < c.tile_bytes; b++)
            assert_int_equal(t[b], 0);
    }
    kv_close(&c);
}

/* Blocks 0 and 1 hold the sink of a prefix of 12; of the others a query behind it sees the last four. */
static void a_prefix_is_adopted_with_its_sink_or_not_at_all(void **state)
{
    struct kv_hash hash[12];
    struct kv c;

    open_kv(&c, "paged", limits());
    for (size_t i = 0; i < 12; i++) {
        hash[i] = (struct kv_hash){{i + 1, ~i}};
        grow(&c, 0, i * BLOCK, (i + 1) * BLOCK, BLOCK);
        kv_publish(&c, 0, i, hash[i]);
    }
    kv_publish(&c, 0, 0, (struct kv_hash){{99, 99}}); /* of a block in front of the window: not renamed */
    assert_int_equal(kv_lookup(&c, hash, 12), 12);
    kv_adopt(&c, 1, hash, 12);
    must_hold(&c);
    must_show(&c, 1, 192);
    assert_int_equal(kv_held_bytes(&c, 1), (HEAD + 4) * 2 * LAYERS * 2 * 16 * 4 * BLOCK);
    grow(&c, 1, 192, 300, 16);
    must_show(&c, 1, 300);
    kv_release(&c, 1);
    hash[1].w[0] = 77; /* a sink that nobody has */
    assert_int_equal(kv_lookup(&c, hash, 12), 1);
    must_hold(&c);
    kv_close(&c);
}

static void a_check_sees_a_sink_that_is_counted_wrongly(void **state)
{
    struct kvpool *p;
    struct err e = {0};
    struct kv c;

    open_kv(&c, "slab_pool", limits());
    grow(&c, 0, 0, 200, 32);
    must_hold(&c);
    p = c.state;
    kvpool_seq(&c, p, 0, 0)->head--;
    assert_int_equal(kv_check(&c, &e), ERR_INPUT);
    kvpool_seq(&c, p, 0, 0)->head++;
    must_hold(&c);
    kv_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_a_sequence_stops_growing),
        cmocka_unit_test(a_pool_has_room_for_all_sequences_and_no_more),
        cmocka_unit_test(a_sink_and_window_that_no_sequence_outgrows_are_none),
        cmocka_unit_test(rows_between_are_gone_and_said_to_be),
        cmocka_unit_test(dropped_tiles_read_as_zeros),
        cmocka_unit_test(a_prefix_is_adopted_with_its_sink_or_not_at_all),
        cmocka_unit_test(a_check_sees_a_sink_that_is_counted_wrongly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
