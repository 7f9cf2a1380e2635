/* test_queue.c - places and waiting tokens of the server's queue, and what one client can take of them. */
#include "api/queue.h"

static struct queue q;

static void begin(size_t n_places, size_t most_tokens, bool fair)
{
    memset(&q, 0, sizeof(q));
    queue_init(&q, n_places, most_tokens, fair);
}

static void end(void)
{
    assert_int_equal(q.places.n, 0);
    assert_int_equal(q.tokens.n, 0);
    for (int i = 0; i < SHARES_CLIENTS; i++)
        assert_int_equal(q.places.of[i] + q.tokens.of[i], 0);
    queue_fini(&q);
}

static void a_request_has_a_place_for_each_answer(void **state)
{
    struct queue_places a = {0}, b = {0};

    begin(8, 0, true);
    assert_int_equal(queue_most_places(&q), 6);
    assert_true(queue_enter(&q, &a, 1, true));
    assert_true(queue_extend(&q, &a, 1, 6));
    assert_int_equal(a.n, 6);
    assert_false(queue_enter(&q, &b, 1, true)); /* 7 of 8 places are more than three quarters. */
    assert_int_equal(b.n, 0);
    assert_true(queue_enter(&q, &b, 2, true));
    assert_false(queue_extend(&q, &b, 2, 2));
    assert_int_equal(b.n, 1); /* It keeps the place that it had. */
    queue_leave(&q, &a, 2);
    assert_int_equal(a.n, 4);
    assert_true(queue_extend(&q, &b, 2, 3)); /* 3 <= 3 * 1 */
    queue_leave(&q, &a, 4);
    queue_leave(&q, &b, 3);
    end();
}

/* Before the body is read, the client is known by its address only. */
static void a_client_that_its_body_names_needs_no_share_before(void **state)
{
    struct queue_places a[4] = {0};

    begin(4, 0, true);
    for (int i = 0; i < 4; i++)
        assert_true(queue_enter(&q, &a[i], 9, false));
    assert_true(queue_extend(&q, &a[0], 1, 1));
    assert_int_equal(q.places.of[1], 1);
    assert_int_equal(q.places.of[9], 3);
    assert_false(queue_extend(&q, &a[1], 1, 1)); /* A second place would leave none. */
    assert_int_equal(a[1].client, 9);
    assert_true(queue_extend(&q, &a[1], 2, 1));
    for (int i = 0; i < 4; i++)
        queue_leave(&q, &a[i], 1);
    end();
}

static void tokens_of_prompts_are_shared(void **state)
{
    begin(8, 1000, true);
    assert_true(queue_add_tokens(&q, 1, 750));
    assert_false(queue_add_tokens(&q, 1, 1));
    assert_true(queue_add_tokens(&q, 2, 187)); /* 187 <= 3 * 63 */
    assert_false(queue_is_full_of_tokens(&q));
    queue_remove_tokens(&q, 1, 750);
    queue_remove_tokens(&q, 2, 187);
    end();
}

/* Such a prompt waits alone, or beside others that leave it the most that it can count. */
static void a_prompt_beyond_the_limit_is_taken_at_some_time(void **state)
{
    for (int fair = 0; fair < 2; fair++) {
        begin(8, 1000, fair);
        assert_true(queue_add_tokens(&q, 1, 5000));
        assert_false(queue_add_tokens(&q, 1, 1));
        assert_int_equal(queue_is_full_of_tokens(&q), !fair);
        assert_int_equal(queue_add_tokens(&q, 2, 60), fair);
        if (fair)
            queue_remove_tokens(&q, 2, 60);
        queue_remove_tokens(&q, 1, 5000);
        assert_true(queue_add_tokens(&q, 2, 300));
        assert_false(queue_add_tokens(&q, 1, 5000));
        queue_remove_tokens(&q, 2, 300);
        end();
    }
    begin(8, 0, true); /* There is no limit. */
    assert_true(queue_add_tokens(&q, 1, 1000000) && queue_add_tokens(&q, 1, 1000000));
    assert_false(queue_is_full_of_tokens(&q));
    queue_remove_tokens(&q, 1, 1000000);
    queue_remove_tokens(&q, 1, 1000000);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_request_has_a_place_for_each_answer),
                                       cmocka_unit_test(a_client_that_its_body_names_needs_no_share_before),
                                       cmocka_unit_test(tokens_of_prompts_are_shared),
                                       cmocka_unit_test(a_prompt_beyond_the_limit_is_taken_at_some_time)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
