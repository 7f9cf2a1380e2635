/* test_shares.c - pools that clients share: what one client can take, with the limits met exactly. */
#include "base/shares.h"

#include <pthread.h>

/* Of 100 units a client gets 75: then it holds three times as many as stay free. */
static void one_client_leaves_a_quarter_to_the_others(void **state)
{
    static struct shares s;

    s = (struct shares){.fair = true};
    assert_int_equal(shares_most(&s, 100), 75);
    assert_true(shares_take(&s, 7, 74, 100, 0));
    assert_false(shares_take(&s, 7, 2, 100, 0));
    assert_true(shares_has_room(&s, 7, 1, 100, 0));
    assert_true(shares_take(&s, 7, 1, 100, 0));
    assert_false(shares_has_room(&s, 7, 1, 100, 0));
    assert_false(shares_take(&s, 7, 1, 100, 0));
    assert_int_equal(s.n, 75);
    assert_true(shares_take(&s, 8, 18, 100, 0)); /* 18 <= 3 * 7 */
    assert_false(shares_take(&s, 8, 1, 100, 0)); /* 19 > 3 * 6 */
    assert_true(shares_take(&s, 9, 5, 100, 0));
    assert_false(shares_take(&s, 9, 1, 100, 0));
    shares_give(&s, 7, 75);
    assert_true(shares_take(&s, 8, 30, 100, 0));
    assert_int_equal(s.of[8], 48);
    assert_int_equal(s.n, 53);
    shares_give(&s, 8, 48);
    shares_give(&s, 9, 5);
    assert_int_equal(s.n, 0);
    assert_int_equal(s.of[7] + s.of[8] + s.of[9], 0);
}

/* A client with at most ALONE units needs no share, but the pool needs the units. */
static void a_client_without_units_gets_what_is_free(void **state)
{
    static struct shares s;

    s = (struct shares){.fair = true};
    assert_true(shares_take(&s, 1, 75, 100, 0));
    assert_false(shares_take(&s, 2, 25, 100, 24));
    assert_true(shares_take(&s, 2, 25, 100, 25));
    assert_false(shares_take(&s, 3, 1, 100, 1));
    shares_give(&s, 2, 1);
    assert_true(shares_take(&s, 3, 1, 100, 1));
    assert_false(shares_take(&s, 1, 1, 100, SIZE_MAX));
    shares_give(&s, 2, 1);
    assert_true(shares_take(&s, 1, 1, 100, SIZE_MAX));
}

static void in_a_pool_that_is_not_fair_one_client_may_take_everything(void **state)
{
    static struct shares s;

    s.fair = false;
    assert_int_equal(shares_most(&s, 100), 100);
    assert_false(shares_take(&s, 1, 101, 100, 0));
    assert_true(shares_take(&s, 1, 100, 100, 0));
    assert_false(shares_take(&s, 2, 1, 100, SIZE_MAX));
    assert_false(shares_take(&s, 2, 0, 99, 0)); /* The limit may be lower than what is taken. */
    shares_give(&s, 1, 100);
    assert_true(shares_take(&s, 2, SIZE_MAX, SIZE_MAX, 0));
    assert_false(shares_take(&s, 2, 1, SIZE_MAX, 0));
    shares_give(&s, 2, SIZE_MAX);
    s.fair = true;
    assert_false(shares_take(&s, 2, SIZE_MAX, SIZE_MAX, 0));
    assert_true(shares_take(&s, 2, SIZE_MAX / 4 * 3, SIZE_MAX, 0));
    shares_give(&s, 2, SIZE_MAX / 4 * 3);
}

/* The most of a client is what shares_take() gives to the first one. */
static void small_pools_are_shared_as_well(void **state)
{
    static struct shares s;

    s = (struct shares){.fair = true};
    for (size_t most = 1; most < 20; most++) {
        size_t n = shares_most(&s, most);

        assert_true(shares_has_room(&s, 3, n, most, 1));
        assert_false(shares_has_room(&s, 3, n + 1, most, 1));
    }
    assert_int_equal(shares_most(&s, 1), 1);
    assert_int_equal(shares_most(&s, 4), 3);
    assert_int_equal(shares_most(&s, 5), 3);
    assert_int_equal(shares_most(&s, 0), 0);
}

static void *takes_and_gives(void *ctx)
{
    struct shares *s = ctx;

    for (int i = 0; i < 20000; i++)
        if (shares_take(s, i % 3, 3, 7, 0)) {
            assert_true(s->n <= 7);
            shares_give(s, i % 3, 3);
        }
    return NULL;
}

static void threads_never_exceed_the_pool(void **state)
{
    static struct shares s;
    pthread_t t[3];

    s = (struct shares){.fair = false};
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, takes_and_gives, &s), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(s.n, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(s.of[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_client_leaves_a_quarter_to_the_others),
        cmocka_unit_test(a_client_without_units_gets_what_is_free),
        cmocka_unit_test(in_a_pool_that_is_not_fair_one_client_may_take_everything),
        cmocka_unit_test(small_pools_are_shared_as_well), cmocka_unit_test(threads_never_exceed_the_pool)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
