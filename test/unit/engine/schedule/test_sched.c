/* test_sched.c - the scheduler as a pure function: limits hold, decoding comes first, no sequence starves,
 * and target times are kept. */
#include "engine/schedule/sched.h"

#include "base/rng.h"
#include "engine/schedule/cost.h"

enum { N = 24 };

/* A sequence of KNOWN tokens, of which COMPUTED have rows in the cache. */
static struct sched_seq of(size_t computed, size_t known)
{
    return (struct sched_seq){.computed = computed, .known = known};
}

static struct sched_limits limits(size_t max_tokens, size_t max_seqs)
{
    return (struct sched_limits){.max_tokens = max_tokens, .max_seqs = max_seqs};
}

static void assert_picks(const struct sched_seq *s, size_t n, const struct sched_limits *lim,
                         const size_t *expected)
{
    struct sched_pick p[N];
    size_t n_picks = sched_plan(s, n, lim, p, NULL), at = 0;

    for (size_t i = 0; i < n; i++) {
        size_t found = at < n_picks && p[at].seq == i ? p[at++].n : 0;

        if (found != expected[i])
            fail_msg("sequence %zu of %zu computes %zu rows, expected %zu", i, n, found, expected[i]);
    }
    assert_int_equal(at, n_picks);
}

static void a_stream_does_not_stall_behind_a_prompt(void **state)
{
    const struct sched_seq s[] = {of(0, 100), of(50, 51), of(10, 200), of(7, 8)};
    struct sched_limits lim = limits(64, 4);

    /* Decoding leaves this much, and the second prompt waits. */
    assert_picks(s, 4, &lim, (size_t[]){62, 1, 0, 1});
    lim.max_tokens = 150;
    assert_picks(s, 4, &lim, (size_t[]){100, 1, 48, 1});
    lim.max_tokens = 1;
    assert_picks(s, 4, &lim, (size_t[]){0, 1, 0, 0});
}

/* A step of a row takes a second, and each row beyond COST_KNEE STEEP seconds more. */
static struct cost straight(double steep)
{
    return (struct cost){.weight = {1, 0, steep * 256, 0}, .n_learned = 100};
}

static void guesses_are_computed_while_they_pay(void **state)
{
    static const float good[] = {.9F, .8F, .7F, .6F}, bad[] = {.5F, .05F, .01F, .005F};
    struct sched_seq s[] = {of(50, 51), of(0, 100), of(7, 8)};
    struct sched_limits lim = limits(200, 4);
    struct cost cost = straight(0);

    /* Rows cost nothing, and still each guess must be expected to give a 256th of the tokens. */
    lim.cost = &cost;
    s[0].n_guesses = s[2].n_guesses = 4;
    s[0].chance = good;
    s[2].chance = bad;
    assert_picks(s, 3, &lim, (size_t[]){5, 100, 3});

    /* Decoding takes a second for 2 tokens, and for 5.5 with the likelier guesses: a row of 0.02 seconds pays from a
     * chance of 0.04 on, and then of 0.11. The time of the prompt does not matter. */
    cost = straight(.02);
    assert_picks(s, 3, &lim, (size_t[]){5, 100, 2});
    s[1].known = 2;
    assert_picks(s, 3, &lim, (size_t[]){5, 2, 3}); /* 11 rows are below COST_KNEE, and cost nothing */
    s[1].known = 100;

    /* A trial adds guesses that do not pay, in less than its time. */
    lim.trial_s = .05;
    assert_picks(s, 3, &lim, (size_t[]){5, 100, 4});
    lim.trial_s = .07;
    assert_picks(s, 3, &lim, (size_t[]){5, 100, 5});
    lim.trial_s = 0;
    lim.every_guess = true;
    assert_picks(s, 3, &lim, (size_t[]){5, 100, 5});

    /* Guesses get what prompts and decoding leave, the likeliest first. */
    lim.max_tokens = 104;
    assert_picks(s, 3, &lim, (size_t[]){3, 100, 1});
    lim.max_tokens = 200;
    lim.max_wanted = 6;
    assert_picks(s, 3, &lim, (size_t[]){4, 100, 1});
    lim.max_tokens = 102;
    assert_picks(s, 3, &lim, (size_t[]){1, 100, 1});
}

static void guesses_of_a_chance_of_nothing_are_not_computed(void **state)
{
    static const float never[] = {0, 0};
    struct sched_seq s[] = {of(50, 51)};
    struct sched_limits lim = limits(200, 4);
    struct cost cost = straight(0);

    lim.cost = &cost;
    s[0].n_guesses = 2;
    s[0].chance = never;
    assert_picks(s, 1, &lim, (size_t[]){1});
}

static void prompts_first_lets_streams_wait_and_nothing_else(void **state)
{
    const struct sched_seq s[] = {of(0, 100), of(50, 51), of(10, 200)}, streams[] = {of(1, 2), of(5, 6)};
    struct sched_limits lim = limits(150, 4);

    lim.order = SCHED_PROMPTS_FIRST;
    assert_picks(s, 3, &lim, (size_t[]){100, 0, 50});
    assert_picks(streams, 2, &lim, (size_t[]){1, 1});
}

static void phases_that_do_not_mix_have_steps_of_their_own(void **state)
{
    const struct sched_seq s[] = {of(0, 100), of(50, 51), of(0, 30), of(0, 200)},
                           large[] = {of(0, 100), of(50, 51)};
    struct sched_limits lim = limits(128, 4);

    lim.apart = lim.whole = true;
    lim.max_prompts = 1;
    assert_picks(s, 4, &lim, (size_t[]){100, 0, 0, 0});
    lim.max_prompts = 0;
    assert_picks(s, 4, &lim, (size_t[]){100, 0, 0, 0}); /* The second prompt does not fit as a whole. */
    lim.max_tokens = 130;
    assert_picks(s, 4, &lim, (size_t[]){100, 0, 30, 0});
    lim.max_tokens = 99; /* No prompt fits, and decoding continues. */
    assert_picks(large, 2, &lim, (size_t[]){0, 1});
}

static void the_number_of_sequences_is_kept(void **state)
{
    const struct sched_seq s[] = {of(1, 2), of(1, 2), of(1, 2)};
    const struct sched_limits lim = limits(64, 2);

    assert_picks(s, 3, &lim, (size_t[]){1, 1, 0});
}

static void rows_of_logits_limit_scored_prompts_and_their_ends(void **state)
{
    struct sched_seq s[] = {of(4, 5), of(0, 50), of(0, 40)};
    struct sched_limits lim = limits(100, 4);

    lim.max_wanted = 11;
    s[1].all_wanted = true;
    assert_picks(s, 3, &lim, (size_t[]){1, 10, 39}); /* Without logits the last row waits. */
    lim.max_wanted = 60;
    assert_picks(s, 3, &lim, (size_t[]){1, 50, 40});
    lim.max_wanted = 1;
    assert_picks(s, 3, &lim, (size_t[]){1, 0, 39});
}

static void a_chunk_keeps_the_time_of_a_step_where_streams_go_on(void **state)
{
    const struct sched_seq s[] = {of(99, 100), of(0, 400)};
    struct sched_limits lim = limits(512, 4);
    struct sched_pick p[4];
    struct cost_step step;
    struct cost c;

    cost_init(&c, .01, .001); /* 1 ms for each row beyond the knee */
    lim.cost = &c;
    lim.target_s = .1;
    assert_int_equal(sched_plan(s, 2, &lim, p, &step), 2);
    assert_in_range(p[1].n, 100, 106);
    assert_true(cost_predict(&c, &step) <= .1);
    assert_int_equal(step.rows, 1 + p[1].n);
    lim.target_s = .001; /* The target cannot be kept, and prompts make slow progress. */
    assert_picks(s, 2, &lim, (size_t[]){1, SCHED_LEAST});
    lim.target_s = 0;
    assert_picks(s, 2, &lim, (size_t[]){1, 400});
    lim.target_s = .1;
    assert_picks(s + 1, 1, &lim, (size_t[]){400}); /* No sequence has to wait. */
}

/* Random queues: budgets are never exceeded, picks are ordered and distinct, no step is wasted, and a queue
 * without arrivals becomes empty. */
static void random_queues_finish_within_budgets(void **state)
{
    for (uint64_t round = 0; round < 300; round++) {
        struct sched_seq s[N];
        struct sched_limits lim;
        uint32_t u[4];
        size_t left = N;

        rng_block(11, 0, round, u);
        lim = limits(1 + u[0] % 100, 1 + u[1] % N);
        lim.max_wanted = u[2] % 3 ? 1 + u[2] % 40 : 0;
        lim.max_prompts = u[3] % 3;
        lim.order = u[3] % 7 == 0 ? SCHED_PROMPTS_FIRST : SCHED_DECODES_FIRST;
        lim.apart = u[3] % 5 == 0;
        for (size_t i = 0; i < N; i++) {
            rng_block(12, round, i, u);
            s[i] = of(0, 1 + u[0] % 300);
            s[i].all_wanted = u[1] % 4 == 0;
        }
        for (size_t step = 0; left; step++) {
            struct sched_seq open[N];
            struct sched_pick p[N];
            size_t index[N], n = 0, total = 0, logits = 0, prompts = 0, n_picks;

            assert_true(step < 100000);
            for (size_t i = 0; i < N; i++)
                if (s[i].computed < s[i].known) {
                    index[n] = i;
                    open[n++] = s[i];
                }
            n_picks = sched_plan(open, n, &lim, p, NULL);
            assert_true(n_picks >= 1 && n_picks <= lim.max_seqs);
            for (size_t k = 0; k < n_picks; k++) {
                struct sched_seq *q = &s[index[p[k].seq]];
                bool last = q->computed + p[k].n == q->known;

                assert_true(k == 0 || p[k].seq > p[k - 1].seq);
                assert_true(p[k].n >= 1 && p[k].n <= q->known - q->computed);
                total += p[k].n;
                logits += q->all_wanted ? p[k].n : last;
                prompts += q->known - q->computed > 1;
                q->computed += p[k].n;
                left -= q->computed == q->known;
            }
            assert_true(total <= lim.max_tokens);
            assert_true(!lim.max_wanted || logits <= lim.max_wanted);
            assert_true(!lim.max_prompts || prompts <= lim.max_prompts);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_does_not_stall_behind_a_prompt),
        cmocka_unit_test(guesses_are_computed_while_they_pay),
        cmocka_unit_test(guesses_of_a_chance_of_nothing_are_not_computed),
        cmocka_unit_test(prompts_first_lets_streams_wait_and_nothing_else),
        cmocka_unit_test(phases_that_do_not_mix_have_steps_of_their_own),
        cmocka_unit_test(the_number_of_sequences_is_kept),
        cmocka_unit_test(rows_of_logits_limit_scored_prompts_and_their_ends),
        cmocka_unit_test(a_chunk_keeps_the_time_of_a_step_where_streams_go_on),
        cmocka_unit_test(random_queues_finish_within_budgets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
