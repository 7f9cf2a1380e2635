/* test_cuts.c - typical_p, top_n_sigma, xtc and the penalty DRY against committed results of a slow program and
 * slow searches, at their limits, and on every instruction set. */
#include <jansson.h>
#include <math.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/files/folder.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/sampling/dry.h"
#include "engine/sampling/sample.h"
#include "engine/sampling/sampling.h"
#include "files.h"
#include "kern/kern.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

enum { MOST = 130000, TOKENS = 5000 };

static struct sampling p;
static struct sample_scratch smp;
static struct sample_history h;
static struct arena arena;
static struct err e;
static float logits[MOST];
static struct sample_prob probs[MOST];
static struct sample_stage stages[SAMPLE_MAX_STAGES];
static size_t n_stages, n_probs;
static int32_t token[TOKENS];

static int setup(void **state)
{
    sampling_default(&p);
    p.do_sample = true;
    h = (struct sample_history){.output = token};
    arena_init(&arena, MEM_ENGINE);
    return sample_open(&smp, kern_table(cpu_best()), MOST, &e);
}

static int teardown(void **state)
{
    sample_close(&smp);
    arena_fini(&arena);
    return 0;
}

static int explain(size_t n, size_t n_output)
{
    return sample_explain(&smp, &p, &h, logits, n, n_output, stages, &n_stages, probs, &n_probs);
}

static void fill(size_t n, double spread, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        logits[i] = (float)(spread * rng_normal(seed, i));
}

/* ---- committed cases ---- */

static size_t read_ids(const json_t *list, int32_t *ids)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return json_array_size(list);
}

static void run_case(const json_t *c, size_t number)
{
    const json_t *row = json_object_get(c, "logits"), *list = json_object_get(c, "probs");
    struct sampling user, none;
    size_t n = json_array_size(row), n_output;

    for (size_t i = 0; i < n; i++)
        logits[i] = json_is_null(json_array_get(row, i)) ? -INFINITY
                                                         : (float)json_number_value(json_array_get(row, i));
    sampling_default(&user);
    sampling_default(&none);
    assert_int_equal(sampling_set_json(&user, json_object_get(c, "params"), "case", &arena, &e), 0);
    sampling_merge(&p, &user, &none);
    assert_int_equal(sampling_validate(&p, n, &e), 0);
    h.n_before = read_ids(json_object_get(c, "prompt_ids"), token);
    h.output = token + h.n_before;
    n_output = read_ids(json_object_get(c, "output_ids"), token + h.n_before);
    assert_int_equal(explain(n, n_output), 0);
    if (n_probs != json_array_size(list))
        fail_msg("case %zu: found %zu tokens, expected %zu", number, n_probs, json_array_size(list));
    for (size_t i = 0; i < n_probs; i++) {
        const json_t *pair = json_array_get(list, i);

        if (probs[i].id != json_integer_value(json_array_get(pair, 0)) ||
            fabs(probs[i].p - json_number_value(json_array_get(pair, 1))) > 1e-5)
            fail_msg("case %zu: token %d has %g, expected token %d with %g", number, probs[i].id, probs[i].p,
                     (int)json_integer_value(json_array_get(pair, 0)),
                     json_number_value(json_array_get(pair, 1)));
    }
}

static void the_stages_agree_with_a_slow_program(void **state)
{
    json_error_t je;
    json_t *cases = json_load_file(GALLOP_SOURCE_DIR "/test/data/sampler/cuts.json", 0, &je);

    assert_non_null(cases);
    assert_true(json_array_size(cases) >= 80);
    for (size_t i = 0; i < json_array_size(cases); i++)
        run_case(json_array_get(cases, i), i);
    json_decref(cases);
}

/* ---- typical_p ---- */

static int by_distance(const void *a, const void *b)
{
    const struct sample_prob *x = a, *y = b;

    return x->p < y->p ? -1 : x->p > y->p;
}

/* Returns how many tokens typical_p keeps, by a full sort. *clear: rounding cannot decide. */
static size_t slow_typical(size_t n, bool *clear)
{
    static struct sample_prob at[MOST];
    double sum = 0, mean = 0, front = 0;
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        sum += exp((double)logits[i]);
        mean += exp((double)logits[i]) * (double)logits[i];
    }
    for (size_t i = 0; i < n; i++)
        at[i] = (struct sample_prob){.id = (int32_t)i, .p = fabs((double)logits[i] - mean / sum)};
    qsort(at, n, sizeof(*at), by_distance);
    while (kept < n && front < p.typical_p * sum)
        front += exp((double)logits[at[kept++].id]);
    *clear = kept == n || at[kept].p - at[kept - 1].p > 1e-5;
    return kept;
}

static void typical_tokens_are_those_of_a_full_sort(void **state)
{
    static const size_t sizes[] = {1, 2, 17, 1023, 1024, 1025, 30000, MOST};
    static const double shares[] = {1e-9, 0.2, 0.9, 0.99999}, spreads[] = {0.01, 1, 3, 12};
    size_t compared = 0;

    for (size_t k = 0; k < 8; k++)
        for (size_t i = 0; i < 4; i++)
            for (size_t j = 0; j < 4; j++) {
                size_t want;
                bool clear;

                fill(sizes[k], spreads[j], k * 16 + i * 4 + j);
                p.typical_p = shares[i];
                want = slow_typical(sizes[k], &clear);
                assert_int_equal(explain(sizes[k], 0), 0);
                assert_string_equal(stages[n_stages - 1].name, "typical_p");
                /* A value that rounding may move, one more or one less, is not compared. */
                if (clear &&
                    fabs((double)stages[n_stages - 1].survivors - (double)want) > 1 + 1e-4 * (double)want)
                    fail_msg("%zu tokens, spread %g, typical_p %g: found %zu tokens, expected %zu", sizes[k],
                             spreads[j], p.typical_p, stages[n_stages - 1].survivors, want);
                compared += clear;
            }
    assert_true(compared > 60);
}

/* The likeliest token may go: here most of the mass lies in tokens that are less likely. */
static void the_likeliest_token_is_not_always_typical(void **state)
{
    for (size_t i = 0; i < 1000; i++)
        logits[i] = i == 5 ? 2 : 0;
    p.typical_p = 0.9;
    assert_int_equal(explain(1000, 0), 0);
    assert_int_equal(n_probs, 999);
    assert_int_equal(probs[5].id, 6);
    p.typical_p = 1;
    assert_int_equal(explain(1000, 0), 0);
    assert_int_equal(n_probs, 1000);
}

/* ---- top_n_sigma ---- */

static void sigma_is_that_of_the_models_logits(void **state)
{
    uint32_t allowed = 0x0f; /* tokens 0 to 3 */

    for (size_t i = 0; i < 20; i++)
        logits[i] = i % 2 ? -1 : 1; /* the standard deviation is 1 */
    logits[3] = -INFINITY;
    logits[1] = -1.25f;
    p.top_n_sigma = 2.1;
    assert_int_equal(explain(20, 0), 0);
    assert_int_equal(n_probs, 18); /* token 1 is 2.25 below the largest, sigma is 1.02 */
    p.top_n_sigma = 2.3;
    assert_int_equal(explain(20, 0), 0);
    assert_int_equal(n_probs, 19);
    h.allowed = &allowed; /* a mask does not change sigma */
    assert_int_equal(explain(20, 0), 0);
    assert_int_equal(n_probs, 3);
    p.top_n_sigma = 1e-9;
    assert_int_equal(explain(20, 0), 0);
    assert_int_equal(n_probs, 2);
    p.top_n_sigma = -1;
    assert_int_equal(explain(20, 0), 0);
    assert_int_equal(n_probs, 3);
    assert_string_equal(stages[n_stages - 1].name, "min_p"); /* the stage is off */
}

static void temperature_does_not_change_what_sigma_keeps(void **state)
{
    size_t first = 0;

    fill(5000, 2, 3);
    p.top_n_sigma = 1.5;
    for (int i = 0; i < 3; i++) {
        p.temperature = i == 0 ? 1 : i == 1 ? 0.2 : 7;
        assert_int_equal(explain(5000, 0), 0);
        first = i ? first : stages[4].survivors;
        assert_string_equal(stages[4].name, "top_n_sigma");
        assert_true(stages[4].survivors == first && first > 5 && first < 1000);
    }
}

/* ---- xtc ---- */

static void xtc_keeps_the_least_likely_of_the_likely(void **state)
{
    static const struct {
        double threshold;
        size_t left;
        int32_t first;
    } cases[] = {{0.5, 6, 0}, {0.39, 6, 0}, {0.29, 5, 1}, {0.1, 4, 2}, {0.05, 1, 5}, {0, 1, 5}, {1, 6, 0}};
    static const double q[] = {0.4, 0.3, 0.12, 0.06, 0.06, 0.06}; /* equal ones: the lowest id stays */

    for (size_t i = 0; i < 6; i++)
        logits[i] = (float)log(q[i]);
    p.xtc_probability = 1;
    for (int cut = 0; cut < 2; cut++)
        for (size_t i = 0; i < 7; i++) {
            p.top_k = cut ? 6 : 0;
            p.top_p = cut ? 0.9999999 : 1;
            p.xtc_threshold = cases[i].threshold;
            assert_int_equal(explain(6, 0), 0);
            assert_int_equal(n_probs, cases[i].left);
            assert_int_equal(probs[0].id, cases[i].threshold <= 0.05 ? 3 : cases[i].first);
        }
    logits[1] = -INFINITY; /* one token alone stays, however likely */
    p.xtc_threshold = 0.3;
    assert_int_equal(explain(6, 0), 0);
    assert_int_equal(n_probs, 5);
}

/* The decision is a function of seed and number, has the chance that is asked for, and is independent of the
 * noise of the draw. */
static void the_decision_of_xtc_is_a_number_of_the_seed(void **state)
{
    enum { DRAWS = 20000 };
    size_t dropped = 0, both = 0, small = 0;

    logits[0] = 1;
    logits[1] = 0.5f;
    logits[2] = -1;
    p.xtc_threshold = 0.2;
    for (size_t t = 0; t < DRAWS; t++) {
        struct sample_result plain, one, again;

        p.seed = t / 7;
        p.xtc_probability = 0;
        assert_int_equal(sample_pick(&smp, &p, &h, logits, 3, t % 7, &plain), 0);
        p.xtc_probability = 0.3;
        assert_int_equal(explain(3, t % 7), 0);
        assert_int_equal(sample_pick(&smp, &p, NULL, logits, 3, t % 7, &one), 0);
        assert_int_equal(sample_pick(&smp, &p, &h, logits, 3, t % 7, &again), 0);
        assert_int_equal(one.id, again.id);
        assert_true(n_probs == 2 || one.id == plain.id);
        assert_true(n_probs == 3 || one.id != 0);
        dropped += n_probs == 2;
        small += plain.id == 2;
        both += n_probs == 2 && plain.id == 2;
    }
    assert_true(fabs((double)dropped / DRAWS - 0.3) < 0.015);
    assert_true(fabs((double)both / (double)small - 0.3) < 0.04);
}

/* ---- DRY ---- */

/* Returns the penalty of token ID after token[n], by comparing everywhere. */
static double slow_penalty(int32_t id, size_t n, size_t limit)
{
    size_t begin =
        p.dry_penalty_last_n >= 0 && (size_t)p.dry_penalty_last_n < n ? n - (size_t)p.dry_penalty_last_n : 0;
    bool any = false;
    size_t longest = 0;

    if (n - begin <= p.dry_allowed_length || p.dry_penalty_last_n == 0)
        return 0;
    for (size_t at = begin + 1; at < n; at++) {
        size_t len = 0;

        while (len < limit && len < at - begin && token[at - 1 - len] == token[n - 1 - len])
            len++;
        if (token[at] == id && len >= p.dry_allowed_length) {
            any = true;
            longest = len > longest ? len : longest;
        }
    }
    return any ? p.dry_multiplier * pow(p.dry_base, (double)longest - (double)p.dry_allowed_length) : 0;
}

static void penalties_are_those_of_a_slow_search(void **state)
{
    static const size_t lengths[] = {0, 1, 2, 3, 10, 100, 400}, allowed[] = {0, 1, 2, 5, 1024};
    static const int last[] = {-1, 0, 1, 2, 30, 500};
    static float x[8];
    static int32_t scratch[8];
    size_t penalised = 0;

    for (size_t round = 0; round < 3000; round++) {
        size_t n = lengths[round % 7], period = 1 + round % 13;

        for (size_t i = 0; i < n; i++)
            token[i] = rng_uniform(round, i) < 0.05 ? (int32_t)(rng_uniform(round, i + 9999) * 10)
                       : round % 2                  ? (int32_t)(i % period) % 8
                                                    : (int32_t)(rng_uniform(round, i + 77) * 3);
        p.dry_multiplier = 0.5;
        p.dry_base = round % 3 ? 1.05 : 1;
        p.dry_allowed_length = allowed[round % 5];
        p.dry_penalty_last_n = last[round % 6];
        for (size_t i = 0; i < 8; i++)
            x[i] = i == 7 ? -INFINITY : (float)i;
        memset(scratch, 0x55, sizeof(scratch));
        dry_penalise(&p, NULL, token, n, x, 8, scratch); /* tokens 8 and 9 are outside the vocabulary */
        for (int32_t i = 0; i < 8; i++) {
            double penalty = slow_penalty(i, n, SIZE_MAX);

            penalised += penalty > 0;
            if (i == 7 ? x[i] != -INFINITY : fabs((double)x[i] - (i - penalty)) > 1e-5 * (1 + penalty))
                fail_msg("round %zu: token %d has %g, expected %g", round, i, x[i], i - penalty);
        }
    }
    assert_true(penalised > 1000);
}

static void lengths_beyond_the_longest_count_as_the_longest(void **state)
{
    static const size_t n[] = {DRY_LONGEST, DRY_LONGEST + 1, DRY_LONGEST + 2, TOKENS};
    float x[2];
    int32_t scratch[2];

    p.dry_multiplier = 1;
    p.dry_base = 1.001;
    p.dry_allowed_length = 1;
    for (size_t i = 0; i < 4; i++) {
        size_t longest = n[i] - 1 < DRY_LONGEST ? n[i] - 1 : DRY_LONGEST;

        memset(token, 0, sizeof(token));
        x[0] = x[1] = 5;
        dry_penalise(&p, NULL, token, n[i], x, 2, scratch);
        assert_true(fabs((double)x[0] - (5 - pow(1.001, (double)longest - 1))) < 1e-6 && x[1] == 5);
    }
    p.dry_allowed_length = DRY_LONGEST;
    x[0] = 5;
    dry_penalise(&p, NULL, token, TOKENS, x, 2, scratch);
    assert_true(x[0] == 4);
    p.dry_multiplier = 1e300; /* the largest penalty leaves a finite logit */
    p.dry_base = 1e300;
    p.dry_allowed_length = 0;
    dry_penalise(&p, NULL, token, TOKENS, x, 2, scratch);
    assert_true(x[0] == -3.40282347e38f && x[1] == 5);
}

static struct tok *open_demo(void)
{
    struct tok *t;

    assert_int_equal(tok_open(&t, folder_at(GALLOP_SOURCE_DIR "/models/demo"), &e), 0);
    return t;
}

/* Sets token[] to the tokens of TEXT. Returns how much DRY lowers the token that TEXT would go on with: the
 * first token of NEXT. */
static double penalty_of(const struct tok *t, const char *text, const char *next)
{
    static float x[MOST];
    static int32_t scratch[MOST];
    struct tok_ids ids = {0};
    size_t n;
    double found;

    assert_int_equal(tok_encode(t, text, strlen(text), 0, &ids, &e), 0);
    n = ids.n;
    assert_true(n < TOKENS);
    memcpy(token, ids.id, n * sizeof(*token));
    ids.n = 0;
    assert_int_equal(tok_encode(t, next, strlen(next), 0, &ids, &e), 0);
    memset(x, 0, sizeof(x));
    dry_penalise(&p, t, token, n, x, MOST, scratch);
    found = -(double)x[ids.id[0]];
    tok_ids_fini(&ids);
    return found;
}

static void a_repetition_ends_at_a_breaker(void **state)
{
    struct sampling_str spanning = {"sat on", 6}, all = {" ", 1};
    struct tok *t = open_demo();

    p.dry_multiplier = 1;
    p.dry_base = 2;
    p.dry_allowed_length = 1;
    assert_true(penalty_of(t, " the cat sat on the cat sat on the cat", " sat") > 8);
    assert_true(penalty_of(t, " the cat sat on the cat sat on the cat", " on") == 0);
    /* Behind the line end there are two tokens. */
    assert_true(penalty_of(t, " the cat sat\n the cat sat\n the cat", " sat") == 2);
    assert_true(penalty_of(t, " the cat sat\n the cat sat\n the cat sat", "\n") == 0);
    p.dry_sequence_breakers = &spanning; /* it spans two tokens, and no token contains it */
    p.n_dry_sequence_breakers = 1;
    sampling_mark(&p, SAMPLING_DRY_SEQUENCE_BREAKERS);
    assert_true(penalty_of(t, " the cat sat on the cat sat on the cat", " sat") == 2);
    assert_true(penalty_of(t, " the cat sat\n the cat sat\n the cat", " sat") > 2);
    p.dry_sequence_breakers = &all;
    assert_true(penalty_of(t, " the cat sat on the cat sat on the cat", " sat") == 0);
    p.n_dry_sequence_breakers = 0; /* an empty list: none */
    assert_true(penalty_of(t, " the cat sat\n the cat sat\n the cat", " sat") > 2);
    tok_close(t);
}

/* ---- all of them ---- */

static void every_instruction_set_draws_the_same(void **state)
{
    struct sample_scratch other;

    for (enum cpu_isa isa = CPU_REF; isa < CPU_N_ISAS; isa++) {
        if (!cpu_has(isa))
            continue;
        assert_int_equal(sample_open(&other, kern_table(isa), MOST, &e), 0);
        for (size_t t = 0; t < 60; t++) {
            size_t n = t % 3 == 0 ? 1000 : t % 3 == 1 ? 30001 : 257;
            struct sample_result a, b;

            fill(n, 3, 100 + t);
            for (size_t i = 0; i < TOKENS; i++)
                token[i] = (int32_t)(i % 50);
            p.typical_p = t % 2 ? 0.9 : 1;
            p.top_n_sigma = t % 4 ? 2 : 0;
            p.xtc_probability = t % 5 ? 0.5 : 0;
            p.xtc_threshold = 0.02;
            p.dry_multiplier = t % 3 ? 1 : 0;
            p.top_p = t % 7 ? 1 : 0.95;
            assert_int_equal(sample_pick(&smp, &p, &h, logits, n, 100 + t, &a), 0);
            assert_int_equal(sample_pick(&other, &p, &h, logits, n, 100 + t, &b), 0);
            assert_int_equal(a.id, b.id);
        }
        sample_close(&other);
    }
}

static void nothing_is_allocated_and_greedy_is_not_cut(void **state)
{
    struct tok *t = open_demo();
    struct sample_result r;

    fill(5000, 3, 8);
    logits[77] = 30;
    for (size_t i = 0; i < TOKENS; i++)
        token[i] = (int32_t)(i % 90);
    h.tok = t;
    p.typical_p = 0.3;
    p.top_n_sigma = 0.1;
    p.xtc_probability = 1;
    p.xtc_threshold = 0;
    p.greedy = true;
    mem_guard_up();
    assert_int_equal(sample_pick(&smp, &p, &h, logits, 5000, TOKENS, &r), 0);
    assert_int_equal(r.id, 77);
    p.dry_multiplier = 50;
    p.dry_allowed_length = 0;
    assert_int_equal(sample_pick(&smp, &p, &h, logits, 5000, TOKENS, &r), 0);
    assert_true(r.id != 77); /* a penalty counts in greedy decoding, too */
    p.greedy = false;
    assert_int_equal(sample_pick(&smp, &p, &h, logits, 5000, TOKENS, &r), 0);
    mem_guard_down();
    tok_close(t);
}

/* Prints times; the limits are far away, for loaded machines. */
static void the_stages_take_little_time(void **state)
{
    static const char *const names[] = {"none", "typical_p", "top_n_sigma", "xtc", "dry"};

    fill(128256, 2, 8);
    for (size_t i = 0; i < TOKENS; i++)
        token[i] = (int32_t)(rng_uniform(4, i) * 3);
    for (int which = 0; which < 5; which++) {
        struct sample_result r;
        double best = INFINITY;

        p.typical_p = which == 1 ? 0.95 : 1;
        p.top_n_sigma = which == 2 ? 1 : 0;
        p.xtc_probability = which == 3 ? 1 : 0;
        p.xtc_threshold = 0.001;
        p.dry_multiplier = which == 4 ? 1 : 0;
        for (size_t t = 0; t < 20; t++) {
            double begin = clock_seconds();

            assert_int_equal(sample_pick(&smp, &p, &h, logits, 128256, TOKENS, &r), 0);
            best = fmin(best, clock_seconds() - begin);
        }
        print_message("%s: %.0f us\n", names[which], best * 1e6);
        assert_true(best < 0.05);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_stages_agree_with_a_slow_program),
        TEST(typical_tokens_are_those_of_a_full_sort),
        TEST(the_likeliest_token_is_not_always_typical),
        TEST(sigma_is_that_of_the_models_logits),
        TEST(temperature_does_not_change_what_sigma_keeps),
        TEST(xtc_keeps_the_least_likely_of_the_likely),
        TEST(the_decision_of_xtc_is_a_number_of_the_seed),
        TEST(penalties_are_those_of_a_slow_search),
        TEST(lengths_beyond_the_longest_count_as_the_longest),
        TEST(a_repetition_ends_at_a_breaker),
        TEST(every_instruction_set_draws_the_same),
        TEST(nothing_is_allocated_and_greedy_is_not_cut),
        TEST(the_stages_take_little_time),
    };

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
