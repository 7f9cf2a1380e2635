/* test_guess_speed.c - speculative decoding under a simulated clock: how many guesses a step computes follows from
 * learned chances and times. Right guesses gain nearly what the best constant number of guesses gains, and wrong
 * guesses cost next to nothing, whatever the number of sequences and the machine. */
#include <math.h>

#include "engine/guess/oracle.h"
#include "engine/seq.h"
#include "machines.h"

enum { SLOTS = 160, LEN = 256, PROMPT = 32, GUESSES = 4, WARM = 512, STEPS = 1500 };

/* Rows that a machine computes in the time that it needs to read the weights: int4, bf16, and many cores. */
static const double knees[] = {10, 19, 109};

/* An engine and its oracle. */
struct world {
    struct machine machine;
    struct oracle oracle;
    struct guess_maker draft; /* the oracle as a draft model, whose passes take time */
    size_t n_seqs;
    int32_t right[LEN]; /* the answers: zeros, as all logits are equal */
};

static const int32_t *right_tokens(void *ctx, const struct seq *s, size_t *n)
{
    struct world *w = ctx;

    (void)s;
    *n = LEN;
    return w->right;
}

static void open_world(struct world *w, size_t n_seqs, double knee, double accept, double p_slow)
{
    const struct machine_size size = {.max_seqs = SLOTS,
                                      .max_len = LEN,
                                      .pool_tokens = 32 * LEN,
                                      .step_tokens = 512,
                                      .keep_prefixes = true};
    const struct sim_executor_spec spec = {.bandwidth = 6e10,
                                           .flops = 1e12,
                                           .overhead_s = 5e-4,
                                           .dense_bytes = 2e9,
                                           .row_flops = 1e12 * (2e9 / 6e10) / knee,
                                           .pair_flops = 1e5,
                                           .token_bytes = 3e4,
                                           .p_slow = p_slow,
                                           .seed = 5,
                                           .n_vocab = 2};
    const struct step_options o = {.step_guess_s = .05, .row_guess_s = .004};

    *w = (struct world){.n_seqs = n_seqs};
    machines_open(&w->machine, &size, &spec, &o);
    w->oracle = (struct oracle){.accept = accept, .seed = 9, .n_vocab = 2, .answer = right_tokens, .ctx = w};
    oracle_init(&w->oracle, GUESSES);
    w->oracle.guesser.adaptive = true;
}

static void add_one(struct world *w)
{
    const int32_t ids[PROMPT] = {(int32_t)w->machine.n_came}; /* nothing is shared */

    machines_submit(&w->machine,
                    &(struct machine_request){
                        .ids = ids, .n_prompt = PROMPT, .n_output = LEN - PROMPT, .most_guesses = GUESSES});
}

/* Runs N steps, and keeps n_seqs sequences. */
static void run(struct world *w, size_t n)
{
    const struct step *step = &w->machine.step;

    for (size_t i = 0; i < n; i++) {
        while (step->n_running + step_n_waiting(step) < w->n_seqs)
            add_one(w);
        machines_step(&w->machine);
    }
}

/* Returns tokens per second with the current kind of guesses. */
static double rate(struct world *w, size_t n_steps)
{
    uint64_t tokens = w->machine.step.n_output_tokens;
    double start = w->machine.sim.now_s;

    run(w, n_steps);
    return (double)(w->machine.step.n_output_tokens - tokens) / (w->machine.sim.now_s - start);
}

/* Returns tokens per second without guesses: *EARLY of the first WARM steps, and of later ones. */
static double plain_rate(size_t n_seqs, double knee, double *early)
{
    struct world w;
    double found;

    open_world(&w, n_seqs, knee, 0, 0);
    *early = rate(&w, WARM);
    found = rate(&w, STEPS);
    machines_close(&w.machine);
    return found;
}

/* Returns tokens per second with K guesses in every step. */
static double constant_rate(size_t n_seqs, double knee, double accept, size_t k)
{
    struct world w;
    double found;

    open_world(&w, n_seqs, knee, accept, 0);
    w.oracle.guesser.adaptive = false;
    w.oracle.guesser.most = k;
    w.machine.step.guesser = &w.oracle.guesser;
    run(&w, WARM);
    found = rate(&w, STEPS);
    machines_close(&w.machine);
    return found;
}

/* Returns tokens per second with guesses that the engine chooses: *EARLY of the first WARM steps, and of later ones. */
static double chosen_rate(size_t n_seqs, double knee, double accept, double p_slow, double *early)
{
    struct world w;
    double found;

    open_world(&w, n_seqs, knee, accept, p_slow);
    w.machine.step.guesser = &w.oracle.guesser;
    *early = rate(&w, WARM);
    w.machine.sim.spec.p_slow = 0;
    found = rate(&w, STEPS);
    machines_close(&w.machine);
    return found;
}

static void the_number_of_guesses_is_nearly_the_best(void **state)
{
    static const double accept[] = {.8, .4};

    for (size_t k = 0; k < sizeof(knees) / sizeof(knees[0]); k++)
        for (size_t n = 1; n <= 32; n *= 2)
            for (int a = 0; a < 2; a++) {
                double early, found = chosen_rate(n, knees[k], accept[a], .001, &early),
                              best = plain_rate(n, knees[k], &early), plain = best;

                for (size_t i = 1; i <= GUESSES; i++)
                    best = fmax(best, constant_rate(n, knees[k], accept[a], i));
                print_message("%2zu sequences, knee %3.0f, %.1f right: %.2f x, at best %.2f x\n", n, knees[k],
                              accept[a], found / plain, best / plain);
                if (found < .95 * best || found < .985 * plain)
                    fail_msg("%.3f of the best, %.3f of decoding without guesses", found / best,
                             found / plain);
            }
}

static void guesses_that_are_never_right_cost_next_to_nothing(void **state)
{
    for (size_t k = 0; k < sizeof(knees) / sizeof(knees[0]); k++)
        for (size_t n = 1; n <= 32; n *= 2) {
            double plain_early, early, plain = plain_rate(n, knees[k], &plain_early),
                                       found = chosen_rate(n, knees[k], 0, 0, &early);

            print_message("%2zu sequences, knee %3.0f: %.3f x, %.3f x at the beginning\n", n, knees[k],
                          found / plain, early / plain_early);
            if (found < .99 * plain || early < .97 * plain_early)
                fail_msg("%.3f of decoding without guesses, %.3f at the beginning", found / plain,
                         early / plain_early);
        }
}

/* A source that becomes good is found again, and one that becomes useless is left. */
static void a_change_of_the_chances_is_followed(void **state)
{
    double early, plain = plain_rate(4, 19, &early), found;
    struct world w;

    open_world(&w, 4, 19, 0, 0);
    w.machine.step.guesser = &w.oracle.guesser;
    run(&w, WARM);
    w.oracle.accept = .8;
    run(&w, 2000);
    found = rate(&w, STEPS);
    assert_true(found > 2 * plain);
    w.oracle.accept = 0;
    run(&w, 200);
    found = rate(&w, STEPS);
    assert_true(found > .985 * plain);
    machines_close(&w.machine);
}

/* The same on a machine whose rows take half the time of a step, which is more than a trial has. */
static void expensive_guesses_are_tried_again(void **state)
{
    double early, plain = plain_rate(1, 2, &early), found;
    struct world w;

    open_world(&w, 1, 2, 0, 0);
    w.machine.step.guesser = &w.oracle.guesser;
    run(&w, WARM);
    found = rate(&w, STEPS);
    assert_true(found > .985 * plain);
    w.oracle.accept = .95;
    run(&w, 4000);
    found = rate(&w, STEPS);
    assert_true(found > 1.6 * plain);
    machines_close(&w.machine);
}

/* Guesses of a draft model: one pass for each, up to the depth that the step has chosen. */
static void propose_in_passes(void *ctx, struct seq **seq, size_t n)
{
    struct world *w = ctx;

    for (size_t i = 0; i < n; i++)
        seq[i]->guess.most = w->draft.depth < seq[i]->guess.most ? w->draft.depth : seq[i]->guess.most;
    w->oracle.guesser.propose(&w->oracle, seq, n);
    for (size_t i = 0; i < n; i++)
        seq[i]->guess.source = GUESS_DRAFT;
    w->machine.sim.now_s += (double)w->draft.depth * w->draft.pass_s;
}

/* The time of the draft counts in trials of guesses that do not pay. */
static void a_draft_that_is_never_right_costs_next_to_nothing(void **state)
{
    static const double step_s = 2e9 / 6e10, share[] = {.05, .35, .9};

    for (size_t i = 0; i < sizeof(share) / sizeof(share[0]); i++)
        for (size_t n = 1; n <= 8; n *= 8) {
            double early, plain = plain_rate(n, 19, &early), never, often;
            struct world w;

            open_world(&w, n, 19, 0, 0);
            w.draft = (struct guess_maker){.ctx = &w,
                                           .most = GUESSES,
                                           .adaptive = true,
                                           .draft = GUESS_DRAFT,
                                           .pass_s = share[i] * step_s,
                                           .propose = propose_in_passes};
            w.machine.step.guesser = &w.draft;
            run(&w, WARM);
            never = rate(&w, STEPS);
            w.oracle.accept = .9;
            run(&w, 4000);
            often = rate(&w, STEPS);
            machines_close(&w.machine);
            print_message("%zu sequences, passes of %.2f steps: never right %.3f x, often %.2f x\n", n,
                          share[i], never / plain, often / plain);
            assert_true(never > .99 * plain && often > (share[i] > .5 ? .985 : 1.2) * plain);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_of_guesses_is_nearly_the_best),
        cmocka_unit_test(guesses_that_are_never_right_cost_next_to_nothing),
        cmocka_unit_test(a_change_of_the_chances_is_followed),
        cmocka_unit_test(expensive_guesses_are_tried_again),
        cmocka_unit_test(a_draft_that_is_never_right_costs_next_to_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
