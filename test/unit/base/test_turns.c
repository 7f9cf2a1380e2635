/* test_turns.c - a queue in which clients take turns: the order, and what a client may take at once. */
#include "base/threads/turns.h"

static struct turns turns;
static struct turns_item item[16];

/* Queues items of the clients in ORDER ("a" is 1). */
static void add(const char *order)
{
    memset(item, 0, sizeof(item));
    for (size_t i = 0; order[i]; i++) {
        item[i].client = order[i] & 31u;
        turns_add(&turns, &item[i]);
    }
}

/* Takes N items, and checks whose they are. */
static void take(const char *wanted)
{
    char found[16] = "";

    for (size_t i = 0; wanted[i]; i++) {
        const struct turns_item *x = turns_take(&turns);

        assert_non_null(x);
        found[i] = (char)('a' - 1 + x->client);
    }
    assert_string_equal(found, wanted);
}

static void the_first_of_each_client_comes_before_the_second_of_any(void **state)
{
    turns_init(&turns, 0);
    assert_null(turns_take(&turns));
    add("aaaabbc");
    take("abcabaa");
    assert_null(turns_take(&turns));
    add("b");
    take("b");
}

static void items_of_a_client_stay_in_order(void **state)
{
    turns_init(&turns, 0);
    add("abab");
    assert_ptr_equal(turns_take(&turns), &item[0]);
    assert_ptr_equal(turns_take(&turns), &item[1]);
    assert_ptr_equal(turns_take(&turns), &item[2]);
    assert_ptr_equal(turns_take(&turns), &item[3]);
}

/* Clients that have taken as many as they may keep their turns. */
static void a_client_takes_no_more_than_it_may(void **state)
{
    turns_init(&turns, 2);
    add("aaaabbbc");
    take("abcab");
    assert_null(turns_take(&turns));
    turns_give(&turns, 2);
    take("b");
    assert_null(turns_take(&turns));
    turns_give(&turns, 1);
    turns_give(&turns, 1);
    take("aa");
    assert_null(turns_take(&turns));
    turns_give(&turns, 3);
    turns_add(&turns, &item[7]); /* behind the end of the queue, which was taken from the middle */
    take("c");
    assert_null(turns_take(&turns));
    for (uint32_t client = 1; client < SHARES_CLIENTS; client++)
        while (turns.line[client].n_taken)
            turns_give(&turns, client);
    add("aab");
    take("aba");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_each_client_comes_before_the_second_of_any),
        cmocka_unit_test(items_of_a_client_stay_in_order),
        cmocka_unit_test(a_client_takes_no_more_than_it_may)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
