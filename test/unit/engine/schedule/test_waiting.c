/* test_waiting.c - the order of waiting requests: arrival, priorities that age, and keys that take turns. */
#include "engine/schedule/waiting.h"

#include "base/rng.h"

struct frame {
    struct waiting w;
    struct waiting_entry r[64];
    uint64_t n;
};

static void open_queue(struct frame *f, enum waiting_policy policy)
{
    struct err e = {0};

    *f = (struct frame){0};
    assert_int_equal(waiting_open(&f->w, policy, &e), 0);
}

static struct waiting_entry *add(struct frame *f, int priority, double arrival_s, uint32_t key)
{
    struct waiting_entry *r = &f->r[f->n];

    *r = (struct waiting_entry){.order = f->n++, .arrival_s = arrival_s, .priority = priority, .key = key};
    waiting_add(&f->w, r);
    return r;
}

/* Takes the next request and returns its arrival. -1: there is none. */
static int take(struct frame *f)
{
    struct waiting_entry *r = waiting_next(&f->w);

    if (!r)
        return -1;
    waiting_remove(&f->w, r);
    return (int)r->order;
}

static void first_come_is_first_served_whatever_the_priority(void **state)
{
    struct frame f;

    open_queue(&f, WAITING_FCFS);
    assert_int_equal(take(&f), -1);
    add(&f, 5, 0, 1);
    add(&f, -5, 1, 2);
    add(&f, 0, 2, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(take(&f), i);
    assert_int_equal(take(&f), -1);
    waiting_close(&f.w);
}

static void a_preempted_request_has_its_old_place(void **state)
{
    struct frame f;
    struct waiting_entry *first;

    open_queue(&f, WAITING_FCFS);
    first = add(&f, 0, 0, 0);
    add(&f, 0, 1, 0);
    assert_int_equal(take(&f), 0);
    add(&f, 0, 2, 0);
    waiting_add(&f.w, first);
    assert_int_equal(f.w.n, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(take(&f), i);
    waiting_close(&f.w);
}

static void a_smaller_priority_overtakes_until_the_other_has_aged(void **state)
{
    struct frame f;

    open_queue(&f, WAITING_PRIORITY);
    add(&f, 1, 0, 0);
    add(&f, 0, WAITING_AGE_S - 1, 0); /* It overtakes the others. */
    add(&f, 0, WAITING_AGE_S, 0);     /* The rank is equal, so arrival decides. */
    add(&f, 0, WAITING_AGE_S + 1, 0);
    add(&f, INT32_MAX, 0, 0);
    add(&f, INT32_MIN, 1e9, 0);
    assert_int_equal(take(&f), 5);
    assert_int_equal(take(&f), 1);
    assert_int_equal(take(&f), 0);
    assert_int_equal(take(&f), 2);
    assert_int_equal(take(&f), 3);
    assert_int_equal(take(&f), 4);
    waiting_close(&f.w);
}

/* Key 1 has 40 waiting requests of 512 tokens, and key 2 submits 8 of 64: a turn of key 1 is one request, and
 * a turn of key 2 is eight. */
static void keys_take_turns_by_tokens_not_by_requests(void **state)
{
    struct frame f;
    int at[2] = {0, 0}, when = 0;

    open_queue(&f, WAITING_FAIR);
    for (int i = 0; i < 40; i++)
        add(&f, 0, i, 1);
    for (int i = 0; i < 8; i++)
        add(&f, 0, 100 + i, 2);
    for (struct waiting_entry *r; (r = waiting_next(&f.w)) != NULL; when++) {
        waiting_remove(&f.w, r);
        waiting_charge(&f.w, r->key, r->key == 1 ? 512 : 64);
        at[r->key - 1] = r->key == 1 && at[1] ? at[0] : when;
    }
    assert_int_equal(when, 48);
    assert_in_range(at[1], 7, 12); /* the last request of key 2, after at most two of key 1 */
    waiting_close(&f.w);
}

static void a_request_longer_than_many_turns_is_paid_for_and_does_begin(void **state)
{
    struct frame f;
    size_t n = 0;

    open_queue(&f, WAITING_FAIR);
    add(&f, 0, 0, 1);
    waiting_charge(&f.w, 1, 0);
    assert_int_equal(take(&f), 0);
    waiting_charge(&f.w, 1, 1000000); /* After a long absence its debt is limited when it returns. */
    add(&f, 0, 1, 1);
    for (int i = 0; i < 60; i++)
        add(&f, 0, 2, 2);
    for (;; n++) {
        struct waiting_entry *r = waiting_next(&f.w);

        waiting_remove(&f.w, r);
        waiting_charge(&f.w, r->key, WAITING_QUANTUM);
        if (r->key == 1)
            break;
    }
    assert_in_range(n, WAITING_DEBT / WAITING_QUANTUM - 1, WAITING_DEBT / WAITING_QUANTUM + 2);
    waiting_close(&f.w);
}

static void a_key_alone_goes_on_however_much_it_owes(void **state)
{
    struct frame f;

    open_queue(&f, WAITING_FAIR);
    for (int i = 0; i < 10; i++)
        add(&f, 0, i, 7);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(take(&f), i);
        waiting_charge(&f.w, 7, INT64_C(1) << 40);
    }
    waiting_close(&f.w);
}

/* There are four slots. Key 2 owes as much as a key can, so that its turns come after those of key 1. */
static void a_key_never_takes_the_last_slot_while_another_waits(void **state)
{
    struct frame f;

    open_queue(&f, WAITING_FAIR);
    f.w.n_slots = 4;
    waiting_charge(&f.w, 2, WAITING_DEBT);
    for (int i = 0; i < 8; i++)
        add(&f, 0, i, 1);
    for (int i = 0; i < 3; i++)
        waiting_run(&f.w, 1, 1);
    assert_int_equal(waiting_next(&f.w)->key, 1); /* An only key may have all slots. */
    add(&f, 0, 9, 2);
    assert_int_equal(waiting_next(&f.w)->key, 2);
    assert_int_equal(waiting_next(&f.w)->key, 2); /* The question changes nothing. */
    waiting_run(&f.w, 1, 1);
    /* It does not have to wait longer if key 1 holds all slots. */
    assert_int_equal(waiting_next(&f.w)->key, 2);
    waiting_run(&f.w, 1, -2);
    assert_int_equal(waiting_next(&f.w)->key, 1); /* With two slots left turns count. */
    waiting_run(&f.w, 1, 1);
    assert_int_equal(waiting_next(&f.w)->key, 2);
    f.w.n_slots = 1; /* There is nothing to share, so turns count. */
    assert_int_equal(waiting_next(&f.w)->key, 1);
    f.w.n_slots = 4;
    assert_int_equal(take(&f), 8);
    assert_int_equal(waiting_next(&f.w)->key, 1);
    waiting_close(&f.w);
}

static void requests_of_any_key_can_leave_in_the_middle(void **state)
{
    struct frame f;
    bool there[64] = {false};
    size_t n = 0;
    uint32_t rnd[4];

    open_queue(&f, WAITING_FAIR);
    f.n = 64;
    for (uint64_t i = 0; i < 20000; i++) {
        struct waiting_entry *r;
        size_t at;

        rng_block(3, i, 0, rnd);
        at = rnd[0] % 64;
        r = &f.r[at];
        if (there[at]) {
            waiting_remove(&f.w, r);
            n--;
        } else {
            *r = (struct waiting_entry){.order = i, .arrival_s = (double)i, .key = rnd[1] % 5};
            waiting_add(&f.w, r);
            n++;
        }
        there[at] = !there[at];
        waiting_charge(&f.w, rnd[2] % 5, rnd[3] % 1000);
        assert_int_equal(f.w.n, n);
        r = waiting_next(&f.w);
        assert_int_equal(r != NULL, n != 0);
        if (r)
            assert_true(there[r - f.r]);
    }
    waiting_close(&f.w);
}

static heap_before_fn *before;
static size_t n_comparisons;

static bool count_comparison(const struct heap_node *a, const struct heap_node *b)
{
    n_comparisons++;
    return before(a, b);
}

/* Comparisons are counted, and not the time, which depends on what else the machine does. */
static void one_hundred_thousand_waiting_cost_no_more_than_a_hundred(void **state)
{
    enum { MANY = 100000, TURNS = 20000 };
    struct waiting_entry *r = calloc(MANY, sizeof(*r));

    assert_non_null(r);
    for (size_t n = 100; n <= MANY; n *= 1000) {
        struct waiting w;
        struct err e;

        assert_int_equal(waiting_open(&w, WAITING_PRIORITY, &e), 0);
        before = w.key[0].heap.before;
        w.key[0].heap.before = count_comparison;
        for (size_t i = 0; i < n; i++) {
            r[i] = (struct waiting_entry){.order = i, .arrival_s = (double)(i * 7919 % n)};
            waiting_add(&w, &r[i]);
        }
        for (int i = 0; i < TURNS + 2;
             i++) { /* The first removal sorts members that were only appended before. */
            struct waiting_entry *x = waiting_next(&w);

            n_comparisons = i == 2 ? 0 : n_comparisons;
            waiting_remove(&w, x);
            x->arrival_s += (double)n;
            waiting_add(&w, x);
        }
        print_message("%zu waiting: %.1f comparisons a turn\n", n, (double)n_comparisons / TURNS);
        assert_true(n_comparisons > TURNS && n_comparisons < (size_t)60 * TURNS); /* a walk would need n */
        waiting_close(&w);
    }
    free(r);
}

static void names_of_policies_go_there_and_back(void **state)
{
    enum waiting_policy p;

    for (int i = 0; i < 3; i++) {
        assert_true(waiting_policy_of_name(waiting_policy_name((enum waiting_policy)i), &p));
        assert_int_equal(p, i);
    }
    assert_false(waiting_policy_of_name("lifo", &p));
    assert_int_equal(waiting_key("", 0), 0);
    assert_in_range(waiting_key("a", 1), 1, WAITING_KEYS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_come_is_first_served_whatever_the_priority),
        cmocka_unit_test(a_preempted_request_has_its_old_place),
        cmocka_unit_test(a_smaller_priority_overtakes_until_the_other_has_aged),
        cmocka_unit_test(keys_take_turns_by_tokens_not_by_requests),
        cmocka_unit_test(a_request_longer_than_many_turns_is_paid_for_and_does_begin),
        cmocka_unit_test(a_key_alone_goes_on_however_much_it_owes),
        cmocka_unit_test(a_key_never_takes_the_last_slot_while_another_waits),
        cmocka_unit_test(requests_of_any_key_can_leave_in_the_middle),
        cmocka_unit_test(one_hundred_thousand_waiting_cost_no_more_than_a_hundred),
        cmocka_unit_test(names_of_policies_go_there_and_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
