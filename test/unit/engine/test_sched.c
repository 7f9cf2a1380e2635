/* test_sched.c - the scheduler as a pure function: budgets hold, decoding goes first, nobody starves. */
#include "base/rng.h"
#include "engine/sched.h"

static void decoding_goes_before_prompts(void **state)
{
    const struct sched_seq s[] = {{0, 100}, {50, 51}, {10, 200}, {7, 8}};
    const struct sched_limits lim = {.max_tokens = 64, .max_seqs = 4};
    struct sched_pick p[4];

    assert_int_equal(sched_plan(s, 4, &lim, p), 3);
    assert_int_equal(p[0].seq, 0);
    assert_int_equal(p[0].n, 62); /* what decoding left; the second prompt waits */
    assert_int_equal(p[1].seq, 1);
    assert_int_equal(p[1].n, 1);
    assert_int_equal(p[2].seq, 3);
    assert_int_equal(p[2].n, 1);
}

static void a_chunk_limit_lets_two_prompts_share_a_step(void **state)
{
    const struct sched_seq s[] = {{0, 100}, {0, 100}};
    const struct sched_limits lim = {.max_tokens = 64, .max_seqs = 4, .max_chunk = 32};
    struct sched_pick p[4];

    assert_int_equal(sched_plan(s, 2, &lim, p), 2);
    assert_int_equal(p[0].n, 32);
    assert_int_equal(p[1].n, 32);
}

static void the_number_of_sequences_is_kept(void **state)
{
    const struct sched_seq s[] = {{1, 2}, {1, 2}, {1, 2}};
    const struct sched_limits lim = {.max_tokens = 64, .max_seqs = 2};
    struct sched_pick p[2];

    assert_int_equal(sched_plan(s, 3, &lim, p), 2);
}

/* Random queues: budgets are never passed, picks are ordered and distinct, no step is wasted, and a queue
 * without arrivals runs dry. */
static void random_queues_finish_within_budgets(void **state)
{
    enum { N = 24 };

    for (uint64_t round = 0; round < 300; round++) {
        struct sched_limits lim;
        struct sched_seq s[N];
        struct sched_pick p[N];
        uint32_t u[4];
        size_t left = N;

        rng_block(11, 0, round, u);
        lim = (struct sched_limits){.max_tokens = 1 + u[0] % 100,
                                    .max_seqs = 1 + u[1] % N,
                                    .max_chunk = u[2] % 3 ? 1 + u[3] % 64 : 0};
        for (size_t i = 0; i < N; i++) {
            rng_block(12, round, i, u);
            s[i] = (struct sched_seq){0, 1 + u[0] % 300};
        }
        for (size_t step = 0; left; step++) {
            struct sched_seq open[N];
            size_t index[N], n = 0, total = 0, n_picks;

            assert_true(step < 100000);
            for (size_t i = 0; i < N; i++)
                if (s[i].computed < s[i].known) {
                    index[n] = i;
                    open[n++] = s[i];
                }
            n_picks = sched_plan(open, n, &lim, p);
            assert_true(n_picks > 0 && n_picks <= lim.max_seqs);
            for (size_t k = 0; k < n_picks; k++) {
                struct sched_seq *q = &s[index[p[k].seq]];

                assert_true(k == 0 || p[k].seq > p[k - 1].seq);
                assert_true(p[k].n >= 1 && p[k].n <= q->known - q->computed);
                assert_true(lim.max_chunk == 0 || p[k].n <= lim.max_chunk);
                total += p[k].n;
                q->computed += p[k].n;
                left -= q->computed == q->known;
            }
            assert_true(total <= lim.max_tokens);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_goes_before_prompts),
        cmocka_unit_test(a_chunk_limit_lets_two_prompts_share_a_step),
        cmocka_unit_test(the_number_of_sequences_is_kept),
        cmocka_unit_test(random_queues_finish_within_budgets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
