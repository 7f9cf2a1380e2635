/* test_shared.c - layers that read the rows of earlier ones (Gemma 4) take nothing: no bytes in any type of
 * cache, no group for a window of theirs, no place among saved rows.
 */
#include "kv/kv.h"
#include "kv/kv_wire.h"

enum { STORE = 3, SHARED = 9, WINDOW = 128, ROWS = 480, STEP = 48 };

static const char *const types[] = {"slab_pool", "paged", "dynamic", "bmc"};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

/* The last N_SHARED layers have windows so many and so small that they would show in groups and blocks. */
static struct kv_limits limits(size_t n_layers, size_t n_shared)
{
    static const size_t window[STORE + SHARED] = {0, WINDOW, WINDOW, 1, 2, 3, 4, 5, 6, 7, 8, 9};

    return (struct kv_limits){.n_layers = n_layers,
                              .n_shared = n_shared,
                              .n_kv = 2,
                              .head_dim = 16,
                              .dtype = DT_BF16,
                              .max_seqs = 3,
                              .max_len = 512,
                              .pool_tokens = 1024,
                              .step_tokens = STEP,
                              .window = window};
}

static void open_kv(struct kv *c, const char *type, const struct kv_limits *lim)
{
    struct err e = {0};

    if (kv_open(c, type, lim, &e) != 0)
        fail_msg("%s: %s", type, e.msg);
}

static void fill(struct kv *c)
{
    for (size_t n = STEP; n <= ROWS; n += STEP) {
        assert_int_equal(kv_reserve(c, 1, n), 0);
        kv_advance(c, 1, n);
    }
}

static void shared_layers_change_no_size_in_advance(void **state)
{
    const struct kv_limits with = limits(STORE, SHARED), without = limits(STORE, 0),
                           more = limits(STORE + 1, 0);

    assert_int_equal(kv_token_bytes(&with), STORE * 2 * 2 * 16 * 2);
    assert_true(kv_token_bytes(&more) > kv_token_bytes(&with)); /* the ruler: a fourth that stores */
    assert_int_equal(kv_seq_bytes(&with, ROWS), (ROWS + 2 * WINDOW) * 2 * 2 * 16 * 2);
    for (int t = 0; t < N_TYPES; t++) {
        assert_int_equal(kv_block(types[t], &with), kv_block(types[t], &without));
        assert_int_equal(kv_budget_bytes(types[t], &with), kv_budget_bytes(types[t], &without));
        assert_int_equal(kv_pool_fit(types[t], with, 1 << 20), kv_pool_fit(types[t], without, 1 << 20));
    }
}

static void shared_layers_hold_no_bytes_in_any_cache(void **state)
{
    for (int t = 0; t < N_TYPES; t++) {
        const struct kv_limits lim[2] = {limits(STORE, SHARED), limits(STORE, 0)};
        struct kv c[2];

        for (int i = 0; i < 2; i++) {
            open_kv(&c[i], types[t], &lim[i]);
            fill(&c[i]);
        }
        assert_int_equal(c[0].n_groups, 2);
        assert_int_equal(kv_bytes(&c[0]), kv_bytes(&c[1]));
        assert_int_equal(kv_held_bytes(&c[0], 1), kv_held_bytes(&c[1], 1));
        if (kv_type_pooled(types[t])) { /* the windows of those that store still give back */
            size_t block = c[0].lim.block, seen = (WINDOW / block + 2) * block;

            assert_true(kv_held_bytes(&c[0], 1) <= (ROWS + block + 2 * seen) * 2 * 2 * 16 * 2);
        }
        for (int i = 0; i < 2; i++)
            kv_close(&c[i]);
    }
}

static void saved_rows_are_those_of_layers_that_store_and_their_number_is_proved(void **state)
{
    const struct kv_limits lim = limits(STORE, SHARED), all = limits(STORE + 1, SHARED - 1);
    struct err e = {0};
    struct kv a, b;
    size_t len, n;
    char *bytes;

    open_kv(&a, "paged", &lim);
    open_kv(&b, "dynamic", &all);
    fill(&a);
    len = kv_wire_bytes(&a, ROWS);
    /* the next query is one of its window's rows itself */
    assert_int_equal(len, 64 + 8 * STORE + (ROWS + 2 * (WINDOW - 1)) * 2 * 2 * 16 * 2);
    bytes = malloc(len);
    assert_non_null(bytes);
    assert_int_equal(kv_wire_save(&a, 1, ROWS, 7, bytes), 0);
    assert_int_equal(kv_wire_load(&b, 0, 7, bytes, len, "rows", &n, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "layers: 3, expected is 4"));
    assert_int_equal(kv_wire_load(&a, 0, 7, bytes, len, "rows", &n, &e), 0);
    assert_int_equal(n, ROWS);
    free(bytes);
    kv_close(&a);
    kv_close(&b);
}

/* Gemma-4-E2B: 15 of 35 layers store, every fifth sees all. */
static void windows_of_a_model_with_shared_layers_give_back_what_no_query_can_see(void **state)
{
    size_t window[35], want, before;
    struct kv_limits lim = {.n_layers = 15,
                            .n_shared = 20,
                            .n_kv = 1,
                            .head_dim = 512,
                            .dtype = DT_BF16,
                            .max_seqs = 2,
                            .max_len = 33000,
                            .pool_tokens = 33024,
                            .step_tokens = 512,
                            .window = window};

    for (size_t l = 0; l < 35; l++)
        window[l] = (l + 1) % 5 ? 512 : 0;
    want = kv_seq_bytes(&lim, 32768);
    assert_int_equal(want, (3 * 32768 + 12 * 512) * 2 * 512 * 2);
    for (int t = 0; t < 2; t++) {
        struct kv c;

        open_kv(&c, types[t], &lim);
        for (size_t n = 512; n <= 32768; n += 512) {
            assert_int_equal(kv_reserve(&c, 0, n), 0);
            kv_advance(&c, 0, n);
        }
        assert_true(kv_held_bytes(&c, 0) >= want - 12 * 2 * 512 * 2 &&
                    kv_held_bytes(&c, 0) <= want + want / 50);
        kv_close(&c);
    }
    before = kv_seq_bytes(&lim, 32768);
    lim.n_layers = 35; /* the ruler: as if all stored */
    assert_true(kv_seq_bytes(&lim, 32768) > 2 * before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_layers_change_no_size_in_advance),
        cmocka_unit_test(shared_layers_hold_no_bytes_in_any_cache),
        cmocka_unit_test(saved_rows_are_those_of_layers_that_store_and_their_number_is_proved),
        cmocka_unit_test(windows_of_a_model_with_shared_layers_give_back_what_no_query_can_see),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
