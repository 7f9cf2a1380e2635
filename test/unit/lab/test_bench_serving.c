/* test_bench_serving.c - the time at which a request counts as sent if it had to wait for a slot, with times
 * that the test sets. */
#include <jansson.h>

#include "app/print.h"
#include "base/err.h"
#include "lab/bench/serving.h"
#include "lab/bench/traffic.h"

enum { N = 8, LONG = 100 };

static struct traffic_request requests[N];
static struct traffic traffic = {.request = requests, .n = N, .n_first = N};
static struct serving s;

/* The printing of the summary and the tokens of turns are not reached here. */
void print_json(json_t *o)
{
    json_decref(o);
}

void print_text(const char *text)
{
    fail_msg("prints %s", text);
}

void print_fmt(const char *fmt, ...)
{
    fail_msg("prints %s", fmt);
}

void traffic_answered(struct traffic *t, size_t i, size_t k, int32_t token)
{
    assert_true(t == &traffic && i < N && k < LONG && token >= 0);
}

static int open_two(void **state)
{
    struct err e = {0};

    for (size_t i = 0; i < N; i++)
        requests[i] = (struct traffic_request){.n_prompt = 1, .n_output = 1};
    return serving_open(&s, &traffic, 2, &e);
}

static int close_all(void **state)
{
    serving_close(&s);
    return 0;
}

/* Sends request I, due at DUE_S, if there is a slot. Returns the time that counts. */
static double send_one(size_t i, double due_s)
{
    double at_s = serving_place(&s, due_s);

    assert_true(s.n_sent - s.n_ended < s.places);
    assert_true(serving_sent(&s, i, at_s, LONG));
    return at_s;
}

/* A step ends at NOW_S, and requests FROM to TO - 1 end with it. */
static void compute(double now_s, size_t from, size_t to)
{
    serving_computed(&s);
    for (size_t i = from; i < to; i++)
        serving_ended(&s, i, now_s, 0, false);
    serving_step(&s, now_s);
}

static void one_that_finds_the_last_place_taken_waits_for_the_step_that_empties_one(void **state)
{
    assert_true(send_one(0, 0) == 0);
    compute(1, 0, 0);
    /* These became due during the step: 1 takes the slot that was empty, and 2 that of 0. */
    compute(2, 0, 1);
    assert_true(send_one(1, 1.25) == 1.25);
    assert_true(send_one(2, 1.5) == 2);
    assert_true(s.request[1].sent_s == 1.25 && s.request[2].sent_s == 2);
}

static void an_empty_place_is_taken_when_the_request_is_due(void **state)
{
    assert_true(send_one(0, 0) == 0 && send_one(1, 0) == 0);
    compute(1, 0, 2);
    assert_true(send_one(2, 0.5) == 1); /* The request waited for the slot. */
    compute(2, 0, 0);
    assert_true(send_one(3, 1.5) == 1.5); /* The other slot was empty all the time. */
    compute(3, 2, 4);
    compute(4, 0, 0);
    assert_true(send_one(4, 4.25) == 4.25); /* due between two steps */
}

static void those_that_end_together_leave_as_many_places(void **state)
{
    assert_true(send_one(0, 0) == 0 && send_one(1, 0.25) == 0.25);
    compute(1, 0, 2);
    assert_true(send_one(2, 0.5) == 1 && send_one(3, 1.125) == 1.125);
}

static void one_that_fails_at_the_door_takes_no_place(void **state)
{
    requests[1].n_prompt = LONG;
    assert_true(send_one(0, 0) == 0);
    compute(2, 0, 1);
    assert_false(serving_sent(&s, 1, serving_place(&s, 1), LONG));
    assert_true(send_one(2, 1.25) == 1.25);
    assert_true(send_one(3, 1.5) == 2);
}

static void the_next_turn_has_the_place_of_the_one_before(void **state)
{
    assert_true(send_one(0, 0) == 0);
    serving_computed(&s);
    serving_ended(&s, 0, 2, 0, false);
    assert_true(serving_sent(&s, 1, 2, LONG));
    serving_step(&s, 2);
    assert_true(send_one(2, 1.5) == 1.5);
    assert_int_equal(s.n_sent - s.n_ended, s.places);
}

static void without_a_limit_nobody_waits(void **state)
{
    s.places = SIZE_MAX;
    for (size_t i = 0; i < N; i++)
        assert_true(send_one(i, (double)i / 8) == (double)i / 8);
    compute(2, 0, N);
    assert_int_equal(s.most_open, N);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_two, close_all)
    const struct CMUnitTest tests[] = {
        TEST(one_that_finds_the_last_place_taken_waits_for_the_step_that_empties_one),
        TEST(an_empty_place_is_taken_when_the_request_is_due),
        TEST(those_that_end_together_leave_as_many_places),
        TEST(one_that_fails_at_the_door_takes_no_place),
        TEST(the_next_turn_has_the_place_of_the_one_before),
        TEST(without_a_limit_nobody_waits),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
