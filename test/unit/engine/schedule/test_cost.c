/* test_cost.c - the cost model finds the true times of a machine, follows their changes, and sizes chunks by
 * them. */
#include "engine/schedule/cost.h"

#include <math.h>

#include "base/rng.h"

struct sim_executor {
    double step_s, knee_row_s, row_s, pair_s, noise;
};

static const struct sim_executor slow = {.050, .001, .004, 2e-8, .05}, fast = {.010, .0002, .0008, 4e-9, .05};

static double truth(const struct sim_executor *m, const struct cost_step *s)
{
    size_t few = s->rows < COST_KNEE ? s->rows : COST_KNEE;

    return m->step_s + m->knee_row_s * (double)few + m->row_s * (double)(s->rows - few) +
           m->pair_s * s->pairs;
}

/* Runs N steps of decoding and prompts on machine M. If HICCUPS is set, each 50th step takes 20 times as
 * long. */
static void run(struct cost *c, const struct sim_executor *m, uint64_t seed, size_t n, bool hiccups)
{
    for (uint64_t i = 0; i < n; i++) {
        struct cost_step s = {0};
        uint32_t r[4];
        double t;

        rng_block(seed, i, 0, r);
        for (uint32_t q = 0; q < 1 + r[0] % 24; q++)
            s = cost_with(s, 1, (r[1] >> q) % 4000);
        if (r[2] % 2)
            s = cost_with(s, 1 + r[2] % 400, r[3] % 6000);
        t = truth(m, &s) * (1 + m->noise * ((double)(r[3] >> 16) / 32768 - 1));
        cost_learn(c, &s, hiccups && i % 50 == 49 ? 20 * t : t);
    }
}

static void assert_knows(const struct cost *c, const struct sim_executor *m, double within)
{
    const struct cost_step s[] = {cost_with((struct cost_step){0}, 1, 100),
                                  cost_with((struct cost_step){.rows = 16, .pairs = 16000}, 128, 0),
                                  cost_with((struct cost_step){.rows = 8, .pairs = 30000}, 300, 5000)};

    for (size_t i = 0; i < sizeof(s) / sizeof(s[0]); i++) {
        double found = cost_predict(c, &s[i]), expected = truth(m, &s[i]);

        if (fabs(found / expected - 1) > within)
            fail_msg("step %zu takes %.4f s, %.4f were foretold", i, expected, found);
    }
}

static void two_hundred_steps_teach_a_machine(void **state)
{
    struct cost c;

    cost_init(&c, 1, .1); /* far from the truth */
    run(&c, &slow, 1, 200, false);
    assert_knows(&c, &slow, .08);
}

static void a_machine_that_becomes_faster_or_slower_is_followed(void **state)
{
    struct cost c;

    cost_init(&c, .01, .001);
    run(&c, &slow, 1, 300, false);
    run(&c, &fast, 2, 400, false);
    assert_knows(&c, &fast, .12);
    run(&c, &slow, 3, 400, false);
    assert_knows(&c, &slow, .12);
}

static void a_step_that_was_disturbed_spoils_little(void **state)
{
    struct cost c;

    cost_init(&c, .05, .004);
    run(&c, &slow, 1, 1000, true);
    assert_knows(&c, &slow, .25);
}

/* Decoding alone tells nothing about long prompts, so their term must not drift or explode meanwhile. */
static void an_hour_of_decoding_does_not_make_prompts_absurd(void **state)
{
    struct cost_step one = {.rows = 1, .pairs = 500}, prompt = cost_with(one, 400, 0);
    struct cost c;
    double t;

    cost_init(&c, .05, .004);
    run(&c, &slow, 1, 200, false);
    for (uint64_t i = 0; i < 100000; i++) {
        uint32_t r[4];

        rng_block(9, i, 0, r);
        one.pairs = 500 + r[0] % 1000;
        cost_learn(&c, &one, truth(&slow, &one) * (.9 + .2 * r[1] / 4294967296.));
    }
    t = cost_predict(&c, &prompt);
    assert_true(t > .5 * truth(&slow, &prompt) && t < 2 * truth(&slow, &prompt));
}

static void the_chunk_is_the_longest_that_keeps_the_time(void **state)
{
    struct cost_step s = {.rows = 16, .pairs = 16 * 900};
    struct cost c;
    size_t n;

    cost_init(&c, .05, .004);
    run(&c, &slow, 1, 300, false);
    n = cost_rows(&c, &s, 700, 1, 512, .5);
    assert_in_range(n, 80, 125); /* (0.5 - 0.066) / 0.004 */
    assert_true(
        cost_predict(&c, &(struct cost_step){cost_with(s, n, 700).rows, cost_with(s, n, 700).pairs}) <= .5);
    assert_int_equal(cost_rows(&c, &s, 700, 1, 512, 1e9), 512);
    assert_int_equal(cost_rows(&c, &s, 700, 16, 512, 0),
                     16); /* Nothing fits, and the prompt makes progress all the same. */
    assert_int_equal(cost_rows(&c, &s, 700, 1, 1, .5), 1);
}

static void a_row_attends_to_those_in_front_and_itself(void **state)
{
    struct cost_step s = cost_with((struct cost_step){.rows = 2, .pairs = 7}, 3, 10);

    assert_int_equal(s.rows, 5);
    assert_true(s.pairs == 7 + 11 + 12 + 13);
}

/* Steps of 8 rows are measured to be faster than those of one, as noise makes them. A prediction does not fall
 * with more rows for that. */
static void rows_that_seem_to_save_time_are_free(void **state)
{
    const struct cost_step one = {.rows = 1, .pairs = 1000}, eight = {.rows = 8, .pairs = 1000};
    struct cost c;

    cost_init(&c, 1, .1);
    for (int i = 0; i < 400; i++)
        cost_learn(&c, i % 2 ? &one : &eight, i % 2 ? 1 : .9);
    assert_true(cost_predict(&c, &eight) >= cost_predict(&c, &one));
    assert_true(cost_predict(&c, &one) < 1.03 && cost_predict(&c, &eight) < 1.03);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hundred_steps_teach_a_machine),
        cmocka_unit_test(a_machine_that_becomes_faster_or_slower_is_followed),
        cmocka_unit_test(a_step_that_was_disturbed_spoils_little),
        cmocka_unit_test(an_hour_of_decoding_does_not_make_prompts_absurd),
        cmocka_unit_test(the_chunk_is_the_longest_that_keeps_the_time),
        cmocka_unit_test(a_row_attends_to_those_in_front_and_itself),
        cmocka_unit_test(rows_that_seem_to_save_time_are_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
