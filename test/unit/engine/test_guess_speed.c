/* test_guess_speed.c - speculative decoding under a simulated clock: how many guesses a step computes follows from
 * learned chances and times. Right guesses gain nearly what the best constant number of guesses gains, and wrong
 * guesses cost next to nothing, whatever the number of sequences and the machine. */
#include <math.h>

#include "engine/guess/oracle.h"
#include "engine/sim_executor.h"
#include "engine/step.h"

enum { SLOTS = 160, LEN = 256, PROMPT = 32, GUESSES = 4, WARM = 512, STEPS = 1500 };

/* Rows that a machine computes in the time that it needs to read the weights: int4, bf16, and many cores. */
static const double knees[] = {10, 19, 109};

/* An engine and its oracle. */
struct world {
    struct kv kv;
    struct sim_executor machine;
    struct step step;
    struct oracle oracle;
    size_t n_seqs;
    uint64_t n_came;
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
    const struct kv_limits lim = {.n_layers = 1,
                                  .n_kv = 1,
                                  .head_dim = 1,
                                  .dtype = DT_I8,
                                  .max_seqs = SLOTS,
                                  .max_len = LEN,
                                  .block = 16,
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
    struct err e = {0};

    *w = (struct world){.n_seqs = n_seqs};
    if (kv_open(&w->kv, "paged", &lim, &e) != 0 ||
        sim_executor_open(&w->machine, &spec, &w->kv, 512, &e) != 0 ||
        step_open(&w->step, &w->machine.x, &o, &e) != 0)
        fail_msg("%s", e.msg);
    w->oracle = (struct oracle){.accept = accept, .seed = 9, .n_vocab = 2, .answer = right_tokens, .ctx = w};
    oracle_init(&w->oracle, GUESSES);
    w->oracle.guesser.adaptive = true;
}

static void close_world(struct world *w)
{
    step_close(&w->step);
    sim_executor_close(&w->machine);
    kv_close(&w->kv);
}

static void add_one(struct world *w)
{
    int32_t ids[PROMPT] = {0};
    struct sampling sampling;
    struct seq_request r = {
        .ids = ids, .n_ids = PROMPT, .sampling = &sampling, .prompt_logprobs = -1, .most_guesses = GUESSES};
    struct err e = {0};
    struct seq *s;

    ids[0] = (int32_t)w->n_came; /* nothing is shared */
    sampling_default(&sampling);
    sampling.ignore_eos = true;
    sampling.max_new_tokens = LEN - PROMPT;
    sampling_mark(&sampling, SAMPLING_MAX_NEW_TOKENS);
    assert_int_equal(seq_new(&s, &r, 1, NULL, INT32_MAX, LEN, &e), 0);
    s->id = ++w->n_came;
    step_add(&w->step, s);
}

/* Runs N steps, and keeps n_seqs sequences. */
static void run(struct world *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct step_event ev;

        while (w->step.n_running + step_n_waiting(&w->step) < w->n_seqs)
            add_one(w);
        step_run(&w->step);
        while (step_take(&w->step, &ev))
            if (ev.type == STEP_FINISHED)
                seq_free(ev.seq);
    }
}

/* Returns tokens per second with the current kind of guesses. */
static double rate(struct world *w, size_t n_steps)
{
    uint64_t tokens = w->step.n_output_tokens;
    double start = w->machine.now_s;

    run(w, n_steps);
    return (double)(w->step.n_output_tokens - tokens) / (w->machine.now_s - start);
}

/* Returns tokens per second without guesses: *EARLY of the first WARM steps, and of later ones. */
static double plain_rate(size_t n_seqs, double knee, double *early)
{
    struct world w;
    double found;

    open_world(&w, n_seqs, knee, 0, 0);
    *early = rate(&w, WARM);
    found = rate(&w, STEPS);
    close_world(&w);
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
    w.step.guesser = &w.oracle.guesser;
    run(&w, WARM);
    found = rate(&w, STEPS);
    close_world(&w);
    return found;
}

/* Returns tokens per second with guesses that the engine chooses: *EARLY of the first WARM steps, and of later ones. */
static double chosen_rate(size_t n_seqs, double knee, double accept, double p_slow, double *early)
{
    struct world w;
    double found;

    open_world(&w, n_seqs, knee, accept, p_slow);
    w.step.guesser = &w.oracle.guesser;
    *early = rate(&w, WARM);
    w.machine.spec.p_slow = 0;
    found = rate(&w, STEPS);
    close_world(&w);
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
    w.step.guesser = &w.oracle.guesser;
    run(&w, WARM);
    w.oracle.accept = .8;
    run(&w, 2000);
    found = rate(&w, STEPS);
    assert_true(found > 2 * plain);
    w.oracle.accept = 0;
    run(&w, 200);
    found = rate(&w, STEPS);
    assert_true(found > .985 * plain);
    close_world(&w);
}

/* The same on a machine whose rows take half the time of a step, which is more than a trial has. */
static void expensive_guesses_are_tried_again(void **state)
{
    double early, plain = plain_rate(1, 2, &early), found;
    struct world w;

    open_world(&w, 1, 2, 0, 0);
    w.step.guesser = &w.oracle.guesser;
    run(&w, WARM);
    found = rate(&w, STEPS);
    assert_true(found > .985 * plain);
    w.oracle.accept = .95;
    run(&w, 4000);
    found = rate(&w, STEPS);
    assert_true(found > 1.6 * plain);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_of_guesses_is_nearly_the_best),
        cmocka_unit_test(guesses_that_are_never_right_cost_next_to_nothing),
        cmocka_unit_test(a_change_of_the_chances_is_followed),
        cmocka_unit_test(expensive_guesses_are_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
