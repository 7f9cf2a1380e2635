/* test_prefix.c - the index of the prefix cache against a list of all added paths. */
#include "kv/prefix.h"

#include "base/rng.h"

enum { BLOCK = 4, NODES = 200, DEEP = 6 };

static const struct prefix_key seed = {{1, 2}}, other = {{1, 3}};

static struct prefix open_index(enum prefix_kind kind, size_t n_nodes)
{
    struct prefix p;
    struct err e = {0};

    assert_int_equal(prefix_open(&p, kind, n_nodes, BLOCK, 2, &e), 0);
    return p;
}

static void assert_sound(const struct prefix *p)
{
    struct err e = {0};

    if (prefix_check(p, &e) != 0)
        fail_msg("%s", e.msg);
}

static uint32_t add(struct prefix *p, uint32_t parent, const int32_t *token, size_t n, uint32_t place)
{
    uint32_t i = prefix_add(p, parent, seed, token, n);

    if (i != PREFIX_NONE)
        prefix_set_place(p, i, 0, place);
    return i;
}

static void whole_blocks_are_found_behind_their_own_past_only(void **state)
{
    for (int kind = PREFIX_HASH; kind <= PREFIX_RADIX; kind++) {
        struct prefix p = open_index((enum prefix_kind)kind, NODES);
        const int32_t a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
        uint32_t x = add(&p, PREFIX_NONE, a, BLOCK, 10), y = add(&p, PREFIX_NONE, b, BLOCK, 11),
                 xb = add(&p, x, b, BLOCK, 12);
        size_t common;

        assert_int_equal(prefix_find(&p, PREFIX_NONE, seed, a, BLOCK, &common), x);
        assert_int_equal(common, BLOCK);
        assert_int_equal(prefix_find(&p, PREFIX_NONE, seed, b, BLOCK, &common), y);
        assert_int_equal(prefix_find(&p, x, seed, b, BLOCK, &common), xb);
        assert_int_equal(prefix_find(&p, y, seed, b, BLOCK, &common), PREFIX_NONE);
        assert_int_equal(prefix_find(&p, PREFIX_NONE, other, a, BLOCK, &common), PREFIX_NONE);
        assert_int_equal(prefix_add(&p, x, seed, b, BLOCK), xb); /* It is counted once. */
        assert_int_equal(prefix_place(&p, xb, 0), 12);
        assert_int_equal(prefix_place(&p, xb, 1), PREFIX_NONE);
        assert_sound(&p);
        prefix_close(&p);
    }
}

static void a_radix_index_finds_the_longest_beginning_and_a_hash_index_none(void **state)
{
    const int32_t a[] = {1, 2, 3, 4}, b[] = {1, 2, 9, 9}, tail[] = {7, 7}, ask[] = {1, 2, 9, 1},
                  five[] = {7, 7, 7, 7};
    struct prefix r = open_index(PREFIX_RADIX, NODES), h = open_index(PREFIX_HASH, NODES);
    uint32_t y;
    size_t common;

    add(&r, PREFIX_NONE, a, BLOCK, 1);
    y = add(&r, PREFIX_NONE, b, BLOCK, 2);
    assert_int_equal(prefix_find(&r, PREFIX_NONE, seed, ask, BLOCK, &common), y);
    assert_int_equal(common, 3);
    assert_int_equal(prefix_find(&r, PREFIX_NONE, seed, ask, 2, &common) != PREFIX_NONE, true);
    assert_int_equal(common, 2);
    y = add(&r, PREFIX_NONE, tail, 2, 3); /* the last block of a sequence, which is not full */
    assert_int_equal(prefix_find(&r, PREFIX_NONE, seed, five, BLOCK, &common), y);
    assert_int_equal(common, 2);
    assert_true(add(&r, PREFIX_NONE, five, BLOCK, 4) != y);
    prefix_find(&r, PREFIX_NONE, seed, five, BLOCK, &common);
    assert_int_equal(common, BLOCK);
    assert_sound(&r);

    add(&h, PREFIX_NONE, a, BLOCK, 1);
    assert_int_equal(prefix_find(&h, PREFIX_NONE, seed, ask, BLOCK, &common), PREFIX_NONE);
    assert_int_equal(common, 0);
    assert_int_equal(prefix_find(&h, PREFIX_NONE, seed, a, 3, &common), PREFIX_NONE);
    assert_int_equal(prefix_add(&h, PREFIX_NONE, seed, tail, 2), PREFIX_NONE);
    prefix_close(&r);
    prefix_close(&h);
}

/* With a hash of one bucket every key collides, and the results stay the same. */
static void a_collision_of_hashes_never_gives_the_rows_of_others(void **state)
{
    for (int kind = PREFIX_HASH; kind <= PREFIX_RADIX; kind++) {
        struct prefix p = open_index((enum prefix_kind)kind, NODES);
        uint32_t node[50];
        size_t common;

        for (int32_t i = 0; i < 50; i++) {
            const int32_t t[] = {i % 5, i, 3, 4};

            node[i] = add(&p, PREFIX_NONE, t, BLOCK, (uint32_t)i);
        }
        for (int32_t i = 0; i < 50; i++) { /* All keys are in one chain, with equal hashes. */
            p.node[node[i]].next = i ? node[i - 1] : PREFIX_NONE;
        }
        for (size_t b = 0; b < p.n_buckets; b++)
            p.bucket[b] = node[49];
        for (int32_t i = 0; i < 60; i++) {
            const int32_t t[] = {i % 5, i, 3, 4};
            uint32_t found = prefix_find(&p, PREFIX_NONE, seed, t, BLOCK, &common);

            if (i < 50)
                assert_int_equal(found, node[i]);
            else
                assert_true(found == PREFIX_NONE || common < BLOCK);
        }
        prefix_close(&p);
    }
}

static void a_node_stays_while_it_has_rows_children_or_somebody_who_goes_on(void **state)
{
    struct prefix p = open_index(PREFIX_HASH, NODES);
    const int32_t a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
    uint32_t x = add(&p, PREFIX_NONE, a, BLOCK, 1), y = add(&p, x, b, BLOCK, 2);
    size_t common;

    prefix_set_place(&p, x, 1, 5);
    prefix_set_place(&p, x, 0, PREFIX_NONE);
    prefix_set_place(&p, x, 1, PREFIX_NONE);
    assert_int_equal(prefix_find(&p, PREFIX_NONE, seed, a, BLOCK, &common), x); /* y needs it. */
    prefix_hold(&p, y);
    prefix_set_place(&p, y, 0, PREFIX_NONE);
    assert_int_equal(p.n_used, 2);
    assert_sound(&p);
    prefix_unhold(&p, y);
    assert_int_equal(p.n_used, 0);
    assert_sound(&p);
    prefix_hold(&p, PREFIX_NONE);
    prefix_unhold(&p, PREFIX_NONE);
    prefix_close(&p);
}

static void a_full_index_takes_no_more_and_takes_again_when_there_is_room(void **state)
{
    struct prefix p = open_index(PREFIX_RADIX, 3);
    uint32_t x[4];

    for (int32_t i = 0; i < 4; i++) {
        const int32_t t[] = {i, i, i, i};

        x[i] = add(&p, PREFIX_NONE, t, BLOCK, (uint32_t)i);
        assert_int_equal(x[i] != PREFIX_NONE, i < 3);
    }
    prefix_set_place(&p, x[1], 0, PREFIX_NONE);
    assert_true(prefix_add(&p, x[0], seed, (const int32_t[]){1}, 1) != PREFIX_NONE);
    prefix_close(&p);
}

/* The added paths, as the index should have them. */
struct memory {
    int32_t token[DEEP * BLOCK];
    size_t n;
};

/* Random paths of two tokens are added and searched for. The depth that the tree finds is that of the longest
 * common beginning with any added path. */
static void random_paths_are_found_as_far_as_any_was_added(void **state)
{
    for (int kind = PREFIX_HASH; kind <= PREFIX_RADIX; kind++) {
        struct prefix p = open_index((enum prefix_kind)kind, 4000);
        static struct memory all[300];

        for (size_t k = 0; k < 300; k++) {
            struct memory *m = &all[k];
            uint32_t rnd[4], parent = PREFIX_NONE;
            size_t expected = 0, found = 0, common = BLOCK;

            rng_block(4, k, 0, rnd);
            m->n = BLOCK * (1 + rnd[0] % DEEP);
            for (size_t i = 0; i < m->n; i++)
                m->token[i] =
                    (int32_t)(rnd[1] >> i % 32 & 1) + (i / 3 % 5 == 0 ? (int32_t)(rnd[2] >> i % 32 & 1) : 0);
            for (size_t j = 0; j < k; j++) {
                size_t at = 0, most = all[j].n < m->n ? all[j].n : m->n;

                while (at < most && all[j].token[at] == m->token[at])
                    at++;
                expected = at > expected ? at : expected;
            }
            for (uint32_t i; found < m->n && common == BLOCK; parent = i, found += common)
                i = prefix_find(&p, parent, seed, m->token + found, m->n - found, &common);
            assert_int_equal(found, kind == PREFIX_RADIX ? expected : expected / BLOCK * BLOCK);
            parent = PREFIX_NONE;
            for (size_t i = 0; i < m->n; i += BLOCK)
                parent = add(&p, parent, m->token + i, BLOCK, (uint32_t)k);
        }
        assert_sound(&p);
        prefix_close(&p);
    }
}

static void a_damaged_tree_is_noticed(void **state)
{
    struct prefix p = open_index(PREFIX_HASH, NODES);
    const int32_t a[] = {1, 2, 3, 4};
    uint32_t x = add(&p, PREFIX_NONE, a, BLOCK, 1);
    struct err e;

    p.node[x].n_places = 2;
    assert_int_not_equal(prefix_check(&p, &e), 0);
    p.node[x].n_places = 1;
    p.node[x].n_children = 1;
    assert_int_not_equal(prefix_check(&p, &e), 0);
    p.node[x].n_children = 0;
    p.n_used = 2;
    assert_int_not_equal(prefix_check(&p, &e), 0);
    p.n_used = 1;
    assert_sound(&p);
    prefix_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_blocks_are_found_behind_their_own_past_only),
        cmocka_unit_test(a_radix_index_finds_the_longest_beginning_and_a_hash_index_none),
        cmocka_unit_test(a_collision_of_hashes_never_gives_the_rows_of_others),
        cmocka_unit_test(a_node_stays_while_it_has_rows_children_or_somebody_who_goes_on),
        cmocka_unit_test(a_full_index_takes_no_more_and_takes_again_when_there_is_room),
        cmocka_unit_test(random_paths_are_found_as_far_as_any_was_added),
        cmocka_unit_test(a_damaged_tree_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
