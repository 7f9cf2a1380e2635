/* test_fair.c - what one API key can take from the others: slots, room in the queue, and tokens that it is
 * charged for. The step, its queue and its scheduler run on the simulated executor. */
#include "machines.h"

#include "engine/seq.h"

enum { LEN = 4096, SLOTS = 4, ROWS = 256 };

static void open_frame(struct machine *f, const struct step_options *o)
{
    const struct machine_size size = {
        .max_seqs = SLOTS, .max_len = LEN, .pool_tokens = SLOTS * LEN, .step_tokens = ROWS};
    const struct sim_executor_spec spec = {
        .bandwidth = 5e10, .flops = 2e12, .overhead_s = 1e-3, .dense_bytes = 2e9, .row_flops = 2e9};

    machines_open(f, &size, &spec, o);
}

/* Submits a request of KEY and returns its id. 0: the queue refused it. */
static uint64_t submit(struct machine *f, uint32_t key, size_t n_prompt, size_t n_output)
{
    static const int32_t token[LEN];

    return machines_submit(
        f, &(struct machine_request){.ids = token, .n_prompt = n_prompt, .n_output = n_output, .key = key});
}

static size_t n_running(const struct machine *f, uint32_t key)
{
    size_t n = 0;

    for (size_t i = 0; i < f->step.n_running; i++)
        n += f->step.running[i]->wait.key == key;
    return n;
}

/* Key 1 floods the queue, and key 2 owes more than key 1. Key 2 still gets the next free slot each time. */
static void a_key_that_holds_all_slots_gives_the_next_one_away(void **state)
{
    struct machine f;

    open_frame(&f, &(struct step_options){.policy = WAITING_FAIR});
    for (int i = 0; i < 12; i++)
        submit(&f, 1, 1, 2000);
    machines_step(&f);
    assert_int_equal(n_running(&f, 1), SLOTS); /* No other key has requests. */
    for (int round = 0; round < 3; round++) {
        waiting_charge(&f.step.waiting, 2, 1 << 20);
        submit(&f, 2, 1, 3);
        machines_step(&f);
        assert_int_equal(n_running(&f, 1), SLOTS); /* Running requests are not stopped for it. */
        step_cancel(&f.step, f.step.running[0]->id);
        machines_step(&f);
        assert_int_equal(n_running(&f, 2), 1);
        assert_int_equal(n_running(&f, 1), SLOTS - 1);
        for (int i = 0; i < 4; i++)
            machines_step(&f);
        assert_int_equal(n_running(&f, 2), 0);
        assert_int_equal(n_running(&f, 1), SLOTS);
    }
    machines_close(&f);
}

/* The same flood under fcfs: key 2 waits until all requests of key 1 are done. */
static void by_arrival_a_flood_goes_first(void **state)
{
    struct machine f;

    open_frame(&f, &(struct step_options){.policy = WAITING_FCFS});
    for (int i = 0; i < 12; i++)
        submit(&f, 1, 1, 2000);
    submit(&f, 2, 1, 3);
    machines_step(&f);
    step_cancel(&f.step, f.step.running[0]->id);
    machines_step(&f);
    assert_int_equal(n_running(&f, 1), SLOTS);
    machines_close(&f);
}

/* A request that is refused because of the tokens in the queue takes no room in it. */
static void a_request_refused_for_its_tokens_keeps_no_place(void **state)
{
    struct machine f;

    open_frame(&f, &(struct step_options){.policy = WAITING_FCFS, .max_queued = 3, .max_queued_tokens = 100});
    assert_true(submit(&f, 0, 60, 1));
    for (int i = 0; i < 8; i++)
        assert_false(submit(&f, 0, 41, 1)); /* 101 tokens */
    assert_int_equal(atomic_load(&f.step.n_queued), 1);
    assert_int_equal(atomic_load(&f.step.n_queued_tokens), 60);
    assert_true(submit(&f, 0, 30, 1));
    assert_true(submit(&f, 0, 10, 1)); /* all 100 tokens, and all 3 slots of the queue */
    assert_false(submit(&f, 0, 0, 1));
    machines_step(&f);
    assert_int_equal(atomic_load(&f.step.n_queued), 0);
    assert_int_equal(atomic_load(&f.step.n_queued_tokens), 0);
    assert_true(submit(&f, 0, 1000, 1)); /* An only request is never too long. */
    machines_close(&f);
}

/* Key 1 cancels a prompt of 4000 tokens after one step. It is charged for that step only: its next request is
 * second, and not after all waiting requests of key 2. */
static void a_key_is_not_charged_for_tokens_that_were_never_computed(void **state)
{
    struct machine f;
    uint64_t id;

    open_frame(&f, &(struct step_options){.policy = WAITING_FAIR, .max_seqs = 1});
    id = submit(&f, 1, LEN - 96, 10);
    machines_step(&f);
    assert_in_range(-f.step.waiting.key[1].credit, LEN - 96 - WAITING_QUANTUM, LEN - 96);
    step_cancel(&f.step, id);
    assert_int_equal(f.step.n_prompt_tokens, ROWS);
    assert_int_equal(f.step.waiting.key[1].credit, -ROWS);
    for (int i = 0; i < 8; i++)
        submit(&f, 2, WAITING_QUANTUM, 1);
    submit(&f, 1, 1, 1);
    while (f.step.n_finished < 3) /* the cancelled request and two more */
        machines_step(&f);
    assert_int_equal(f.step.waiting.n + f.step.n_running, 7);
    assert_int_equal(f.step.waiting.key[1].n_running, 0);
    assert_null(f.step.waiting.key[1].heap.first);
    machines_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_holds_all_slots_gives_the_next_one_away),
        cmocka_unit_test(by_arrival_a_flood_goes_first),
        cmocka_unit_test(a_request_refused_for_its_tokens_keeps_no_place),
        cmocka_unit_test(a_key_is_not_charged_for_tokens_that_were_never_computed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
