/* test_sample.c - the sampling chain against committed results of transformers and against a slow chain with
 * full sorts; and the picked tokens against their distribution. */
/* long: one chain, tested in many ways */
#include <jansson.h>
#include <math.h>

#include "base/arena.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/sampling/sample.h"
#include "engine/sampling/sampling.h"
#include "kern/kern.h"
#include "kern/kmath.h"

enum { MOST = 60000 };

static struct sampling p;
static struct sample_scratch smp;
static struct arena arena;
static struct err e;
static float logits[MOST];
static struct sample_prob probs[MOST];
static struct sample_stage stages[SAMPLE_MAX_STAGES];
static size_t n_stages, n_probs;

static int setup(void **state)
{
    sampling_default(&p);
    p.do_sample = true;
    arena_init(&arena, MEM_ENGINE);
    return sample_open(&smp, kern_table(cpu_best()), MOST, &e);
}

static int teardown(void **state)
{
    sample_close(&smp);
    arena_fini(&arena);
    return 0;
}

static int explain(const struct sample_history *h, size_t n, size_t n_output)
{
    return sample_explain(&smp, &p, h, logits, n, n_output, stages, &n_stages, probs, &n_probs);
}

static int pick(const struct sample_history *h, size_t n, size_t n_output, struct sample_result *r)
{
    return sample_pick(&smp, &p, h, logits, n, n_output, r);
}

/* Returns the first difference between two distributions by id, or NULL. */
static const char *differ(const struct sample_prob *a, size_t n_a, const struct sample_prob *b, size_t n_b)
{
    if (n_a != n_b)
        return "number of survivors";
    for (size_t i = 0; i < n_a; i++) {
        if (a[i].id != b[i].id)
            return "survivors";
        if (!(fabs(a[i].p - b[i].p) <= 1e-5))
            return "probabilities";
    }
    return NULL;
}

static void the_comparison_can_fail(void **state)
{
    struct sample_prob a[] = {{1, 0.5}, {2, 0.5}}, b[] = {{1, 0.5}, {3, 0.5}},
                       c[] = {{1, 0.5001}, {2, 0.4999}};
    struct sample_prob d[] = {{1, NAN}, {2, 0.5}};

    assert_null(differ(a, 2, a, 2));
    assert_string_equal(differ(a, 2, a, 1), "number of survivors");
    assert_string_equal(differ(a, 2, b, 2), "survivors");
    assert_string_equal(differ(a, 2, c, 2), "probabilities");
    assert_string_equal(differ(a, 2, d, 2), "probabilities");
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
    static struct sample_prob want[MOST];
    const json_t *row = json_object_get(c, "logits"), *list = json_object_get(c, "probs");
    struct sampling user, config;
    struct sample_history h;
    int32_t ids[64];
    size_t n = json_array_size(row), n_ids;
    const char *difference;

    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(row, i);

        logits[i] = json_is_null(v) ? -INFINITY : (float)json_number_value(v);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);

        want[i].id = (int32_t)json_integer_value(json_array_get(pair, 0));
        want[i].p = json_number_value(json_array_get(pair, 1));
    }
    sampling_default(&user);
    sampling_default(&config);
    config.do_sample = true;
    sampling_mark(&config, SAMPLING_DO_SAMPLE);
    assert_int_equal(sampling_set_json(&user, json_object_get(c, "params"), "case", &arena, &e), 0);
    sampling_merge(&p, &user, &config);
    assert_int_equal(sampling_validate(&p, n, &e), 0);
    n_ids = read_ids(json_object_get(c, "prompt_ids"), ids);
    assert_int_equal(sample_history_init(&h, &p, ids, n_ids, 64, n, &arena, &e), 0);
    n_ids = read_ids(json_object_get(c, "output_ids"), ids);
    for (size_t i = 0; i < n_ids; i++)
        sample_history_add(&h, ids[i]);
    assert_int_equal(explain(&h, n, n_ids), 0);
    difference = differ(probs, n_probs, want, json_array_size(list));
    if (difference)
        fail_msg("case %zu: %s", number, difference);
}

static void the_chain_agrees_with_transformers(void **state)
{
    json_error_t je;
    json_t *cases = json_load_file(GALLOP_SOURCE_DIR "/test/data/sampler/cases.json", 0, &je);

    assert_non_null(cases);
    assert_true(json_array_size(cases) >= 50);
    for (size_t i = 0; i < json_array_size(cases); i++)
        run_case(json_array_get(cases, i), i);
    json_decref(cases);
}

/* ---- a slow chain: full sort, double precision, no history ---- */

static int descending(const void *a, const void *b)
{
    const struct sample_prob *x = a, *y = b;

    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static int ascending_id(const void *a, const void *b)
{
    const struct sample_prob *x = a, *y = b;

    return x->id < y->id ? -1 : 1;
}

/* Fills OUT. *clear: no limit is so near to a token that rounding could decide. */
static size_t slow_chain(size_t n, struct sample_prob *out, bool *clear)
{
    size_t m = 0, kept;
    double sum = 0, front = 0, max;

    for (size_t i = 0; i < n; i++)
        if (logits[i] > -INFINITY)
            out[m++] = (struct sample_prob){.id = (int32_t)i, .p = logits[i]};
    qsort(out, m, sizeof(*out), descending);
    if (p.top_k > 0 && p.top_k < m) {
        for (kept = p.top_k; kept < m && out[kept].p == out[p.top_k - 1].p;)
            kept++;
        m = kept;
    }
    max = out[0].p;
    for (size_t i = 0; i < m; i++)
        sum += out[i].p = exp((out[i].p - max) / p.temperature);
    *clear = true;
    for (kept = 0; kept < m && front / sum < p.top_p; kept++)
        front += out[kept].p;
    if (p.top_p < 1) {
        *clear = fabs(front / sum - p.top_p) > 1e-6 && fabs((front - out[kept - 1].p) / sum - p.top_p) > 1e-6;
        m = kept;
    }
    for (kept = 0; kept < m && out[kept].p >= p.min_p; kept++)
        *clear = *clear && fabs(out[kept].p / p.min_p - 1) > 1e-5;
    *clear = *clear && (kept == m || fabs(out[kept].p / p.min_p - 1) > 1e-5);
    m = kept;
    sum = 0;
    for (size_t i = 0; i < m; i++)
        sum += out[i].p;
    for (size_t i = 0; i < m; i++)
        out[i].p /= sum;
    qsort(out, m, sizeof(*out), ascending_id);
    while (m > 0 && (float)out[m - 1].p <= 0)
        m--;
    for (size_t i = kept = 0; i < m; i++) {
        out[kept] = out[i];
        kept += (float)out[i].p > 0;
    }
    return kept;
}

static void fill_logits(size_t n, int shape, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        double z = rng_normal(seed, i);

        logits[i] = (float)(shape == 0   ? 3 * z
                            : shape == 1 ? 0.05 * z
                            : shape == 2 ? rint(2 * z) / 2
                            : shape == 3 ? (z > 1.5 ? -INFINITY : 4 * z)
                                         : 1.25);
    }
}

static void the_chain_agrees_with_full_sorts_for_every_size(void **state)
{
    static const size_t sizes[] = {1, 2, 15, 63, 64, 65, 257, 1023, 1024, 1025, 20000, MOST};
    static const size_t ks[] = {0, 1, 3, 40, 300, 5000};
    static const double ps[] = {1, 0.001, 0.5, 0.9, 0.9999}, ms[] = {0, 0.02, 0.7, 1}, ts[] = {1, 0.6, 2.5};
    static struct sample_prob want[MOST];
    uint64_t r = 0;
    size_t compared = 0;

    for (size_t round = 0; round < 700; round++) {
        size_t n = sizes[(size_t)(rng_uniform(5, r++) * (round % 8 == 0 ? 12 : 10))], n_want;
        int shape = (int)(rng_uniform(5, r++) * 4);
        const char *difference;
        bool clear;

        fill_logits(n, shape, round);
        logits[(size_t)(rng_uniform(5, r++) * (double)n)] = 6;
        p.top_k = ks[(size_t)(rng_uniform(5, r++) * 6)];
        p.top_p = ps[(size_t)(rng_uniform(5, r++) * 5)];
        p.min_p = ms[(size_t)(rng_uniform(5, r++) * 4)];
        p.temperature = ts[(size_t)(rng_uniform(5, r++) * 3)];
        n_want = slow_chain(n, want, &clear);
        assert_int_equal(explain(NULL, n, 0), 0);
        if (!clear && p.min_p != 1)
            continue;
        difference = differ(probs, n_probs, want, n_want);
        /* A later test checks which of equal logits top_p keeps. */
        if (difference && !(p.top_p < 1 && shape == 2))
            fail_msg("round %zu: n %zu shape %d k %zu p %g min %g t %g: %s (%zu, %zu)", round, n, shape,
                     p.top_k, p.top_p, p.min_p, p.temperature, difference, n_probs, n_want);
        assert_true(n_probs == n_want);
        compared++;
    }
    assert_true(compared > 500);
}

static void of_equal_logits_top_p_keeps_as_many_as_needed_lowest_ids_first(void **state)
{
    fill_logits(1000, 4, 0);
    p.top_p = 0.5;
    assert_int_equal(explain(NULL, 1000, 0), 0);
    assert_int_equal(n_probs, 500);
    assert_int_equal(probs[499].id, 499);
    p.top_k = 10; /* Ties with the tenth token are kept; none has to go. */
    assert_int_equal(explain(NULL, 1000, 0), 0);
    assert_int_equal(n_probs, 500);
    logits[7] = 2;
    p.top_k = 1;
    assert_int_equal(explain(NULL, 1000, 0), 0);
    assert_int_equal(n_probs, 1);
}

static void stages_tell_what_is_left(void **state)
{
    static const char *const names[] = {"logit_bias",
                                        "min_new_tokens",
                                        "repetition_penalty",
                                        "frequency_and_presence_penalty",
                                        "temperature",
                                        "top_k",
                                        "top_p",
                                        "min_p"};
    static const size_t left[] = {100, 98, 98, 98, 98, 5, 3, 2};
    int32_t eos[] = {3, 4};

    for (int i = 0; i < 100; i++)
        logits[i] = -(float)i * 0.5f;
    p.eos = eos, p.n_eos = 2;
    p.min_new_tokens = 1;
    p.top_k = 5;
    p.top_p = 0.9;
    p.min_p = 0.5;
    assert_int_equal(explain(NULL, 100, 0), 0);
    assert_int_equal(n_stages, 8);
    for (size_t i = 0; i < n_stages; i++) {
        assert_string_equal(stages[i].name, names[i]);
        assert_int_equal(stages[i].survivors, left[i]);
    }
    for (int i = 3; i < 100; i++)
        logits[i] = -INFINITY; /* Fewer tokens are possible than top_k allows. */
    assert_int_equal(explain(NULL, 100, 1), 0);
    assert_int_equal(stages[0].survivors, 3);
    assert_int_equal(stages[5].survivors, 3);
    p.greedy = true;
    assert_int_equal(explain(NULL, 100, 0), 0);
    assert_int_equal(n_stages, 5);
    assert_string_equal(stages[4].name, "greedy");
    assert_true(n_probs == 1 && probs[0].id == 0 && probs[0].p == 1);
}

/* ---- the pick ---- */

static void picks_follow_the_distribution(void **state)
{
    enum { N = 12, PICKS = 60000 };
    size_t count[N] = {0};
    double chi = 0;

    for (int i = 0; i < N; i++)
        logits[i] = (float)rng_normal(8, (uint64_t)i);
    for (int cut = 0; cut < 2; cut++) {
        size_t seen = 0;

        memset(count, 0, sizeof(count));
        p.top_p = cut ? 0.8 : 1;
        chi = 0;
        assert_int_equal(explain(NULL, N, 0), 0);
        for (size_t i = 0; i < PICKS; i++) {
            struct sample_result r;

            p.seed = i / 100;
            assert_int_equal(pick(NULL, N, i % 100, &r), 0);
            count[r.id]++;
        }
        for (size_t i = 0; i < n_probs; i++) {
            double expected = probs[i].p * PICKS, d = (double)count[probs[i].id] - expected;

            chi += d * d / expected;
            seen += count[probs[i].id];
        }
        assert_int_equal(seen, PICKS);        /* No other token was picked. */
        assert_true(n_probs > 3 && chi < 33); /* 11 degrees of freedom: p = 5e-4 */
    }
}

/* Computes the sums of log-probability and noise in double precision. The pick must have the largest one, but
 * for rounding. */
static void the_pick_has_the_largest_sum_of_logit_and_noise(void **state)
{
    static const size_t sizes[] = {1, 5, 64, 1000, 1024, 1025, 5000, 50001};

    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++)
        for (int cut = 0; cut < 2; cut++) {
            size_t n = sizes[k];

            fill_logits(n, k % 2 ? 3 : 0, 77 + k);
            logits[n / 2] = 5;
            p.top_p = cut ? 0.95 : 1;
            assert_int_equal(explain(NULL, n, 0), 0);
            for (size_t t = 0; t < 60; t++) {
                double best = -INFINITY, own = -INFINITY;
                struct sample_result r;
                uint32_t key[2];

                p.seed = 31;
                rng_key(31, t, key);
                assert_int_equal(pick(NULL, n, t, &r), 0);
                for (size_t i = 0; i < n_probs; i++) {
                    double u = (kmath_noise((uint32_t)probs[i].id, key) + 0.5) * 0x1p-32;
                    double sum = log(probs[i].p) - log(-log1p(-u));

                    best = fmax(best, sum);
                    own = probs[i].id == r.id ? sum : own;
                }
                assert_true(own > best - 1e-5);
            }
        }
}

/* With the noise of one seed, the chance that two distributions draw the same token is at least (1 - d) / (1
 * + d) for their total variation distance d; independent draws would rarely agree. */
static void similar_distributions_mostly_draw_the_same_token(void **state)
{
    enum { N = 1000, DRAWS = 2000 };
    static double before[N];
    int32_t id[DRAWS];
    double distance = 0, same = 0, bound;

    fill_logits(N, 0, 12);
    assert_int_equal(explain(NULL, N, 0), 0);
    for (size_t i = 0; i < n_probs; i++)
        before[probs[i].id] = probs[i].p;
    for (size_t t = 0; t < DRAWS; t++) {
        struct sample_result r;

        assert_int_equal(pick(NULL, N, t, &r), 0);
        id[t] = r.id;
    }
    for (size_t i = 0; i < N; i++)
        logits[i] += 0.3f * (float)rng_normal(13, i);
    assert_int_equal(explain(NULL, N, 0), 0);
    for (size_t i = 0; i < n_probs; i++)
        distance += fabs(probs[i].p - before[probs[i].id]) / 2;
    for (size_t t = 0; t < DRAWS; t++) {
        struct sample_result r;

        assert_int_equal(pick(NULL, N, t, &r), 0);
        same += (double)(r.id == id[t]) / DRAWS;
    }
    bound = (1 - distance) / (1 + distance);
    assert_true(distance > 0.05 && distance < 0.3);
    assert_true(same > bound - 0.04 && same < 1 - distance + 0.04);
}

/* The draws of neighbouring numbers, and of one number under neighbouring seeds, are independent. */
static void draws_of_neighbours_are_independent(void **state)
{
    enum { N = 4, DRAWS = 20000 };

    for (int i = 0; i < N; i++)
        logits[i] = 0.3f * (float)i;
    for (int by_seed = 0; by_seed < 2; by_seed++) {
        double pair[N][N] = {{0}}, single[N] = {0}, chi = 0;
        int32_t last = 0;

        for (size_t t = 0; t <= DRAWS; t++) {
            struct sample_result r;

            p.seed = by_seed ? t : 5;
            assert_int_equal(pick(NULL, N, by_seed ? 3 : t, &r), 0);
            if (t > 0)
                pair[last][r.id]++;
            single[r.id]++;
            last = r.id;
        }
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                double expected = single[i] * single[j] / DRAWS, d = pair[i][j] - expected;

                chi += d * d / expected;
            }
        assert_true(chi < 30); /* 9 degrees of freedom: p = 4e-4 */
    }
}

static void the_pick_depends_on_seed_and_number_alone(void **state)
{
    struct sample_scratch other;
    struct sample_result a, b;
    size_t distinct = 0;
    int32_t last = -1;

    fill_logits(5000, 1, 3);
    assert_int_equal(sample_open(&other, kern_table(cpu_best()), 5000, &e), 0);
    for (uint64_t seed = 0; seed < 40; seed++) {
        p.seed = seed;
        p.top_k = seed % 2 ? 400 : 0;
        assert_int_equal(pick(NULL, 5000, 9, &a), 0);
        p.seed = seed + 1000; /* Another sequence is in between. */
        assert_int_equal(pick(NULL, 5000, 9, &b), 0);
        p.seed = seed;
        assert_int_equal(sample_pick(&other, &p, NULL, logits, 5000, 9, &b), 0);
        assert_int_equal(a.id, b.id);
        distinct += a.id != last;
        last = a.id;
    }
    assert_true(distinct > 30);
    sample_close(&other);
}

static void greedy_takes_the_largest_and_the_lowest_of_equals(void **state)
{
    struct sample_result r;

    p.greedy = true;
    fill_logits(300, 0, 4);
    logits[17] = logits[200] = 50;
    assert_int_equal(pick(NULL, 300, 0, &r), 0);
    assert_int_equal(r.id, 17);
    assert_true(r.n_top == 0 && r.logprob == 0);
    p.greedy = false;
    p.temperature = 0;
    p.top_k = 3;
    assert_int_equal(pick(NULL, 300, 0, &r), 0);
    assert_int_equal(r.id, 17);
}

static void greedy_obeys_penalties_biases_and_min_new_tokens(void **state)
{
    struct sampling_bias bias = {.id = 9, .value = 100};
    int32_t prompt[] = {1, 2, 1}, eos[] = {0};
    struct sample_history h;
    struct sample_result r;

    p.greedy = true;
    for (int i = 0; i < 10; i++)
        logits[i] = 10 - (float)i;
    p.eos = eos, p.n_eos = 1;
    p.min_new_tokens = 2;
    assert_int_equal(pick(NULL, 10, 1, &r), 0);
    assert_int_equal(r.id, 1); /* 0 must not end it yet. */
    assert_int_equal(pick(NULL, 10, 2, &r), 0);
    assert_int_equal(r.id, 0);
    p.stop_token = eos, p.n_stop_token = 1, p.n_eos = 0;
    assert_int_equal(pick(NULL, 10, 1, &r), 0);
    assert_int_equal(r.id, 1); /* A stop token neither. */
    p.n_stop_token = 0;

    p.repetition_penalty = 2;
    assert_int_equal(sample_history_init(&h, &p, prompt, 3, 5, 10, &arena, &e), 0);
    sample_history_add(&h, 0);
    assert_int_equal(pick(&h, 10, 1, &r), 0);
    assert_int_equal(r.id, 3);
    sample_history_undo(&h, 0);
    assert_int_equal(pick(&h, 10, 0, &r), 0);
    assert_int_equal(r.id, 0);

    p.repetition_penalty = 1;
    p.frequency_penalty = 1;
    assert_int_equal(sample_history_init(&h, &p, prompt, 3, 5, 10, &arena, &e), 0);
    assert_int_equal(h.n, 0); /* The prompt does not count. */
    for (int i = 0; i < 3; i++)
        sample_history_add(&h, 0);
    assert_int_equal(pick(&h, 10, 3, &r), 0);
    assert_int_equal(r.id, 1);
    p.frequency_penalty = 0;
    p.presence_penalty = 0.5;
    assert_int_equal(pick(&h, 10, 3, &r), 0);
    assert_int_equal(r.id, 0);
    p.bias = &bias, p.n_bias = 1;
    assert_int_equal(pick(&h, 10, 3, &r), 0);
    assert_int_equal(r.id, 9);
}

static void a_grammars_mask_is_obeyed(void **state)
{
    uint32_t allowed[32] = {0};
    struct sample_history h;
    struct sample_result r;

    fill_logits(1000, 0, 6);
    assert_int_equal(sample_history_init(&h, &p, NULL, 0, 5, 1000, &arena, &e), 0);
    allowed[40 / 32] |= UINT32_C(1) << 40 % 32;
    allowed[999 / 32] |= UINT32_C(1) << 999 % 32;
    h.allowed = allowed;
    assert_int_equal(explain(&h, 1000, 0), 0);
    assert_true(n_probs == 2 && probs[0].id == 40 && probs[1].id == 999);
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(pick(&h, 1000, i, &r), 0);
        assert_true(r.id == 40 || r.id == 999);
    }
    p.greedy = true;
    assert_int_equal(pick(&h, 1000, 0, &r), 0);
    assert_int_equal(r.id, logits[40] >= logits[999] ? 40 : 999);
    memset(allowed, 0, sizeof(allowed));
    assert_int_equal(pick(&h, 1000, 0, &r), ERR_NOSPACE);
    p.greedy = false;
    assert_int_equal(pick(&h, 1000, 0, &r), ERR_NOSPACE);
    assert_int_equal(explain(&h, 1000, 0), ERR_NOSPACE);
}

static void suppressed_tokens_are_not_chosen(void **state)
{
    struct sampling_bias bias = {.id = 0, .value = 1000};
    int32_t always[] = {0, 9}, first[] = {1};
    uint32_t allowed[1] = {1 << 1 | 1 << 9 | 1 << 4};
    struct sample_history h = {.allowed = allowed};
    struct sample_result r;
    float out[10];

    for (int i = 0; i < 10; i++)
        logits[i] = 10 - (float)i;
    p.suppress = always, p.n_suppress = 2;
    p.begin_suppress = first, p.n_begin_suppress = 1;
    p.bias = &bias, p.n_bias = 1;
    for (int greedy = 0; greedy < 2; greedy++) {
        p.greedy = greedy;
        p.do_sample = !greedy;
        p.temperature = 0.01;
        assert_false(sample_is_plain(&p, NULL, 1));
        assert_int_equal(pick(NULL, 10, 0, &r), 0);
        assert_int_equal(r.id, 2); /* token 1 may not begin the output */
        assert_int_equal(pick(NULL, 10, 1, &r), 0);
        assert_int_equal(r.id, 1);
        assert_int_equal(pick(&h, 10, 0, &r), 0);
        assert_int_equal(r.id, 4);
        assert_int_equal(sample_probs(&smp, &p, &h, logits, 10, 0, out), 0);
        assert_true(out[4] == 1 && out[1] == 0 && out[9] == 0);
    }
    assert_int_equal(sample_ranked(&smp, &p, NULL, logits, 10, 1, 10, &r), 0);
    assert_true(r.n_top == 8 && r.top[0].id == 1 && r.top[7].id == 8);
    assert_int_equal(sample_ranked(&smp, &p, NULL, logits, 10, 0, 10, &r), 0);
    assert_true(r.n_top == 7 && r.top[0].id == 2);
    p.n_suppress = p.n_bias = 0;
    p.greedy = true;
    assert_true(sample_is_plain(&p, NULL, 1) && !sample_is_plain(&p, NULL, 0));
}

static void a_bad_words_last_token_is_not_chosen_behind_the_others(void **state)
{
    static const int32_t one[] = {4}, pair[] = {7, 5}, three[] = {7, 7, 6}, outside[] = {7, 5000};
    const struct sample_word words[] = {{one, 1}, {pair, 2}, {three, 3}, {outside, 2}};
    static const struct {
        int32_t output[3];
        size_t n;
        int32_t wanted;
    } cases[] = {{{0}, 0, 5},    {{7}, 1, 6},       {{7, 8}, 2, 5},    {{7, 7}, 2, 3},
                 {{8, 7}, 2, 6}, {{7, 7, 7}, 3, 3}, {{7, 7, 8}, 3, 5}, {{8, 8, 8}, 3, 5}};
    struct sample_history h;
    struct sample_result r;

    for (size_t i = 0; i < 10; i++) /* Token 4 is the most likely, then 5, 6, 3. */
        logits[i] = i == 4 ? 9 : i == 5 ? 8 : i == 6 ? 7 : i == 3 ? 6 : 0;
    assert_int_equal(sample_history_init(&h, &p, NULL, 0, 5, 10, &arena, &e), 0);
    assert_int_equal(pick(&h, 10, 0, &r), 0);
    assert_int_equal(r.id, 4);
    h.bad = words;
    h.n_bad = 4;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int drawn = 0; drawn < 2; drawn++) {
            p.do_sample = drawn;
            p.temperature = drawn ? 0.001 : 1;
            h.output = cases[i].output;
            assert_int_equal(pick(&h, 10, cases[i].n, &r), 0);
            assert_int_equal(r.id, cases[i].wanted);
        }
    assert_true(logits[4] == 9);
}

static void bad_logits_fail_whatever_the_place_and_the_mode(void **state)
{
    static const size_t places[] = {0, 1, 63, 64, 129, 130};
    static const float bad[] = {NAN, INFINITY, -NAN};
    struct sample_result r;

    for (int mode = 0; mode < 3; mode++)
        for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
            for (size_t k = 0; k < 3; k++) {
                p.greedy = mode == 0;
                p.top_k = mode == 1 ? 5 : 0;
                fill_logits(131, 0, 4);
                assert_int_equal(pick(NULL, 131, 0, &r), 0);
                logits[places[i]] = bad[k];
                assert_int_equal(pick(NULL, 131, 0, &r), ERR_INPUT);
                assert_int_equal(r.id, -1);
                assert_int_equal(explain(NULL, 131, 0), ERR_INPUT);
            }
    for (int i = 0; i < 131; i++)
        logits[i] = -INFINITY;
    assert_int_equal(pick(NULL, 131, 0, &r), ERR_NOSPACE);
    p.greedy = true;
    assert_int_equal(pick(NULL, 131, 0, &r), ERR_NOSPACE);
}

static void forbidden_tokens_are_never_picked(void **state)
{
    for (int i = 0; i < 2000; i++)
        logits[i] = i % 3 == 1 ? 0 : -INFINITY;
    for (size_t t = 0; t < 3000; t++) {
        struct sample_result r;

        p.top_k = t % 3 == 1 ? 1500 : 0;
        p.top_p = t % 3 == 2 ? 0.99999999 : 1;
        assert_int_equal(pick(NULL, 2000, t, &r), 0);
        assert_true(r.id % 3 == 1);
    }
}

static void extreme_values_stay_finite(void **state)
{
    struct sampling_bias bias[] = {{.id = 0, .value = 3e38f}, {.id = 1, .value = -3e38f}};
    int32_t prompt[] = {0, 1, 2};
    struct sample_history h;
    struct sample_result r;

    fill_logits(500, 0, 1);
    logits[0] = 3e38f;
    logits[1] = -3e38f;
    p.bias = bias, p.n_bias = 2;
    p.temperature = 1.1e-5;
    p.repetition_penalty = 1e-300;
    p.frequency_penalty = -1e300;
    assert_int_equal(sample_history_init(&h, &p, prompt, 3, 5, 500, &arena, &e), 0);
    sample_history_add(&h, 2);
    p.logprobs = 3;
    for (int k = 0; k < 3; k++) {
        p.top_k = k == 1 ? 2 : 0;
        p.top_p = k == 2 ? 0.5 : 1;
        assert_int_equal(pick(&h, 500, 0, &r), 0);
        assert_true(r.id == 0 || r.id == 2);
        assert_int_equal(explain(&h, 500, 0), 0);
        assert_true(n_probs >= 1 && probs[0].p <= 1);
    }
    p.temperature = 1e300;
    p.repetition_penalty = 1e300;
    assert_int_equal(pick(&h, 500, 0, &r), 0);
}

/* The bias is added first, as in transformers, vLLM and llama.cpp: (2 + 3) / 2, and not 2 / 2 + 3. Beams add it to
 * log-probabilities, in the same order. */
static void penalties_are_applied_before_the_bias(void **state)
{
    struct sampling_bias bias[] = {{.id = 0, .value = 3}, {.id = 3, .value = -1e30f}};
    int32_t prompt[] = {0};
    struct sample_history h;
    struct sample_result r;
    double left[4], sum = 0;

    logits[0] = 2, logits[1] = 2.25f, logits[2] = 2.75f, logits[3] = 9;
    p.bias = bias, p.n_bias = 2;
    p.repetition_penalty = 2;
    p.frequency_penalty = 0.125;
    assert_int_equal(sample_history_init(&h, &p, prompt, 1, 5, 4, &arena, &e), 0);
    sample_history_add(&h, 0);
    left[0] = (2. + 3) / 2 - 0.125, left[1] = 2.25, left[2] = 2.75, left[3] = -INFINITY;
    for (int i = 0; i < 4; i++)
        sum += exp(left[i]);
    assert_int_equal(explain(&h, 4, 1), 0);
    assert_int_equal(n_probs, 3);
    for (size_t i = 0; i < n_probs; i++)
        assert_true(probs[i].id == (int32_t)i && fabs(probs[i].p - exp(left[i]) / sum) < 1e-6);
    assert_string_equal(stages[0].name, "logit_bias");
    assert_int_equal(stages[0].survivors, 4);

    sum = 0;
    for (int i = 0; i < 4; i++)
        sum += exp(logits[i]);
    p.frequency_penalty = 0;
    assert_int_equal(sample_ranked(&smp, &p, &h, logits, 4, 1, 1, &r), 0);
    left[0] = 2 - log(sum) + 3;
    assert_true(left[0] < 0);
    assert_int_equal(r.top[0].id, 2);
    assert_int_equal(sample_ranked(&smp, &p, &h, logits, 4, 1, 3, &r), 0);
    assert_int_equal(r.top[2].id, 0);
    assert_true(fabs(r.top[2].logprob - 2 * left[0]) < 1e-5);
}

/* 1 / temperature underflows to 0 or overflows as a float: forbidden tokens stay forbidden in every stage. */
static void no_temperature_makes_a_forbidden_token_possible(void **state)
{
    static const double temperatures[] = {1e-4, 1e-5, 1e30, 1e37, 1e38, 1e39, 1e45, 1e300, 1.7e308};
    uint32_t allowed[16] = {[1] = 1u << 3 | 1u << 9, [7] = 1u << 31};
    struct sample_history h = {.allowed = allowed};

    for (size_t i = 0; i < 512; i++)
        logits[i] = i % 5 == 0 ? -INFINITY : (float)(i % 7);
    logits[35] = 2.5f, logits[41] = 2, logits[255] = -INFINITY;
    for (size_t t = 0; t < sizeof(temperatures) / sizeof(*temperatures); t++)
        for (int k = 0; k < 32; k++) {
            size_t seen[2] = {0, 0};

            p.temperature = temperatures[t];
            p.typical_p = k & 1 ? 0.9 : 1;
            p.top_k = k & 2 ? 100 : 0;
            p.top_p = k & 4 ? 0.99 : 1;
            p.min_p = k & 8 ? 0.1 : 0;
            p.xtc_probability = k & 16 ? 1e-9 : 0;
            for (size_t n = 0; n < 60; n++) {
                struct sample_result r;

                assert_int_equal(pick(&h, 512, n, &r), 0);
                assert_true(r.id == 35 || r.id == 41);
                seen[r.id == 41]++;
            }
            assert_int_equal(explain(&h, 512, 0), 0);
            assert_true(n_probs >= 1 && n_probs <= 2);
            if (temperatures[t] > 1)
                assert_true(seen[0] > 0 && seen[1] > 0 && fabs(probs[0].p - 0.5) < 1e-6);
            else
                assert_true(seen[1] == 0);
        }
}

static void ids_above_the_tokenizers_are_tokens_like_any_other(void **state)
{
    struct sample_result r;

    fill_logits(1003, 1, 2);
    logits[1002] = 9; /* the last row of a padded head */
    p.top_k = 1;
    assert_int_equal(pick(NULL, 1003, 0, &r), 0);
    assert_int_equal(r.id, 1002);
}

/* ---- log-probabilities ---- */

static void logprobs_are_of_the_raw_distribution(void **state)
{
    static const size_t sizes[] = {1, 7, 64, 1000, 20000};
    struct sampling_bias bias = {.id = 0, .value = 60};
    struct sample_result r;

    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        size_t n = sizes[k], want = n < 9 ? n : 9;
        double max = -INFINITY, sum = 0;

        fill_logits(n, 0, 50 + k);
        for (size_t i = 0; i < n; i++)
            max = logits[i] > max ? logits[i] : max;
        for (size_t i = 0; i < n; i++)
            sum += exp(logits[i] - max);
        p.bias = &bias, p.n_bias = 1;
        p.temperature = 0.3;
        p.top_k = 2;
        p.logprobs = 9;
        assert_int_equal(pick(NULL, n, 0, &r), 0);
        assert_int_equal(r.id, 0);
        assert_true(fabs(r.logprob - (logits[0] - max - log(sum))) < 1e-5);
        assert_int_equal(r.n_top, want);
        assert_true(r.top[0].logprob == (float)(max - max - log(sum)) ||
                    fabs(r.top[0].logprob + log(sum)) < 1e-5);
        for (size_t i = 0; i < want; i++) {
            size_t larger = 0;

            for (size_t j = 0; j < n; j++)
                larger += logits[j] > logits[r.top[i].id];
            assert_int_equal(larger, i);
            assert_true(fabs(r.top[i].logprob - (logits[r.top[i].id] - max - log(sum))) < 1e-5);
        }
        p.logprobs = 0;
        assert_int_equal(pick(NULL, n, 0, &r), 0);
        assert_true(r.n_top == 0 && r.logprob < 0.001f && (n == 1 || r.logprob != 0));
    }
}

static void logprobs_of_chosen_tokens_come_in_their_order(void **state)
{
    int32_t chosen[SAMPLING_MAX_LOGPROBS];
    struct sample_result r, likeliest;

    for (size_t k = 1; k <= SAMPLING_MAX_LOGPROBS; k += k < 4 ? 1 : SAMPLING_MAX_LOGPROBS - 4) {
        for (size_t i = 0; i < k; i++)
            chosen[i] = (int32_t)(1999 - i);
        fill_logits(2000, 0, 70 + k);
        p.logprobs = 1;
        assert_int_equal(pick(NULL, 2000, 0, &likeliest), 0);
        p.logprob_id = chosen, p.n_logprob_ids = k;
        assert_int_equal(pick(NULL, 2000, 0, &r), 0);
        assert_true(r.id == likeliest.id && r.logprob == likeliest.logprob);
        assert_int_equal(r.n_top, k);
        for (size_t i = 0; i < k; i++) {
            struct sample_result scored;
            size_t n_likely = 0;

            assert_int_equal(sample_score(&smp, logits, 2000, chosen[i], 0, &scored), 0);
            for (size_t t = 0; t < 2000; t++)
                n_likely += logits[t] >= logits[chosen[i]];
            assert_int_equal(scored.rank, n_likely);
            assert_int_equal(r.top[i].id, chosen[i]);
            assert_true(r.top[i].logprob == scored.logprob);
        }
        p.n_logprob_ids = 0;
    }
}

static void of_equal_logits_the_lowest_ids_are_told(void **state)
{
    struct sample_result r;

    fill_logits(3000, 4, 0);
    logits[2999] = 2;
    logits[5] = 0;
    p.logprobs = 7;
    p.greedy = true;
    assert_int_equal(pick(NULL, 3000, 0, &r), 0);
    assert_int_equal(r.n_top, 7);
    assert_int_equal(r.top[0].id, 2999);
    for (int i = 1; i < 7; i++)
        assert_int_equal(r.top[i].id, i - 1 + (i - 1 >= 5));
    p.logprobs = SAMPLING_MAX_LOGPROBS;
    assert_int_equal(pick(NULL, 3000, 0, &r), 0);
    assert_int_equal(r.n_top, SAMPLING_MAX_LOGPROBS);
    for (size_t i = 2; i < r.n_top; i++)
        assert_true(r.top[i].id > r.top[i - 1].id);
}

/* ---- memory and history ---- */

static void nothing_allocates_after_opening(void **state)
{
    struct sample_history h;
    struct sample_result r;

    fill_logits(20000, 0, 12);
    p.repetition_penalty = 1.1;
    p.frequency_penalty = 0.1;
    p.top_p = 0.9;
    p.logprobs = 20;
    assert_int_equal(sample_history_init(&h, &p, NULL, 0, 400, 20000, &arena, &e), 0);
    mem_guard_up();
    for (size_t t = 0; t < 400; t++) {
        p.top_k = t % 2 ? 50 : 0;
        assert_int_equal(pick(&h, 20000, t, &r), 0);
        sample_history_add(&h, r.id);
    }
    mem_guard_down();
}

static void counts_are_kept_for_every_token(void **state)
{
    static uint32_t want[5000];
    static int32_t prompt[3000];
    struct sample_history h;
    size_t seen = 0;

    p.repetition_penalty = 1.5;
    for (size_t i = 0; i < 3000; i++)
        prompt[i] = (int32_t)(rng_uniform(1, i) * 2500) * 2;
    assert_int_equal(sample_history_init(&h, &p, prompt, 3000, 20000, 5000, &arena, &e), 0);
    for (size_t i = 0; i < 20000; i++) {
        int32_t id = (int32_t)(rng_uniform(2, i) * 5000);

        sample_history_add(&h, id);
        want[id]++;
        if (i % 5 == 0) {
            sample_history_undo(&h, id);
            want[id]--;
        }
    }
    assert_true(h.n <= 5000 && h.n_slots >= 2 * h.n);
    for (size_t i = 0; i < h.n; i++) {
        bool there = false;

        for (size_t j = 0; j < 3000 && !there; j++)
            there = prompt[j] == h.id[i];
        assert_int_equal(h.in_prompt[i], there);
        assert_int_equal(h.count[i], want[h.id[i]]);
        seen += h.count[i];
    }
    assert_int_equal(seen, 16000);
}

static void guesses_that_were_wrong_take_no_place_in_the_history(void **state)
{
    int32_t prompt[] = {1};
    struct sample_history h;

    p.repetition_penalty = 1.5;
    assert_int_equal(sample_history_init(&h, &p, prompt, 1, 4, 5000, &arena, &e), 0); /* at most 5 tokens */
    for (int32_t i = 0; i < 1000; i++) {
        for (int32_t k = 0; k < 4; k++)
            sample_history_add(&h, 10 + 4 * i + k);
        assert_int_equal(h.n, 5);
        for (int32_t k = 4; k-- > 0;)
            sample_history_undo(&h, 10 + 4 * i + k);
        assert_int_equal(h.n, 1);
    }
    sample_history_add(&h, 1);
    sample_history_undo(&h, 1); /* a token of the prompt stays */
    assert_true(h.n == 1 && h.in_prompt[0] && h.count[0] == 0);
}

static void a_history_that_nobody_asks_for_costs_nothing(void **state)
{
    int32_t prompt[] = {1};
    struct sample_history h;

    assert_int_equal(sample_history_init(&h, &p, prompt, 1, SIZE_MAX, 5000, &arena, &e), 0);
    assert_null(arena.chunk);
    sample_history_add(&h, 3);
    sample_history_undo(&h, 3);
    p.presence_penalty = 1;
    assert_int_equal(sample_history_init(&h, &p, prompt, 1, SIZE_MAX, 5000, &arena, &e), 0);
    assert_int_equal(h.cap, 5000); /* never more than the vocabulary */
}

static void running_out_of_memory_is_reported(void **state)
{
    int32_t prompt[] = {1};
    struct sample_history h;
    struct sample_scratch other;
    bool failed = true;

    p.presence_penalty = 1;
    for (long n = 1; failed; n++) {
        struct arena a;
        int rc;

        arena_init(&a, MEM_ENGINE);
        mem_fail_at(n);
        rc = sample_open(&other, kern_table(cpu_best()), 1000, &e);
        if (rc == 0)
            rc = sample_history_init(&h, &p, prompt, 1, 2000, 5000, &a, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(rc, failed ? ERR_NOMEM : 0);
        sample_close(&other);
        arena_fini(&a);
    }
    assert_int_equal(sample_open(&other, kern_table(cpu_best()), 0, &e), ERR_INPUT);
    assert_int_equal(sample_open(&other, kern_table(cpu_best()), (size_t)1 << 40, &e), ERR_INPUT);
    sample_close(&other);
}

/* ---- selection ---- */

static int descending_float(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return x > y ? -1 : x < y;
}

static void the_kth_largest_is_that_of_a_sort(void **state)
{
    static float x[600], scratch[600], sorted[600];
    uint64_t r = 0;

    for (int round = 0; round < 3000; round++) {
        size_t n = 1 + (size_t)(rng_uniform(6, r++) * (round % 10 ? 30 : 599));
        size_t k = 1 + (size_t)(rng_uniform(6, r++) * (double)n);

        for (size_t i = 0; i < n; i++)
            x[i] = round % 3 == 0   ? (float)rint(rng_uniform(6, r++) * 5)
                   : round % 3 == 1 ? (float)rng_normal(6, r++)
                                    : (float)i * (round % 2 ? 1 : -1);
        memcpy(sorted, x, sizeof(x));
        qsort(sorted, n, sizeof(*sorted), descending_float);
        assert_true(sample_select_kth(x, scratch, n, k) == sorted[k - 1]);
    }
}

static void the_mass_in_front_is_that_of_a_sort(void **state)
{
    uint64_t r = 0;

    for (int round = 0; round < 3000; round++) {
        float y[40], scratch[40], sorted[40];
        size_t n = 1 + (size_t)(rng_uniform(7, r++) * 40), kept = 0, stay = 0, equal = 0;
        double total = 0, mass, front = 0;
        struct sample_select_cut cut;

        for (size_t i = 0; i < n; i++) {
            y[i] = (float)rint(rng_uniform(7, r++) * -12) / 4;
            total += exp(y[i]);
        }
        mass = rng_uniform(7, r++) * total * 1.1 + 1e-3;
        memcpy(sorted, y, sizeof(y));
        qsort(sorted, n, sizeof(*sorted), descending_float);
        while (kept < n && front < mass)
            front += exp(sorted[kept++]);
        if (fabs(front - mass) < 1e-4 || fabs(front - exp(sorted[kept - 1]) - mass) < 1e-4)
            continue; /* Rounding decides here. */
        memcpy(y, sorted, sizeof(y));
        cut = sample_select_mass(smp.kern, y, scratch, n, mass);
        for (size_t i = 0; i < n; i++) {
            stay += sorted[i] > cut.value;
            equal += sorted[i] == cut.value;
        }
        stay += equal < cut.n_equal ? equal : cut.n_equal;
        assert_int_equal(stay, kept);
    }
}

static void sums_of_exponentials_are_right_at_every_length(void **state)
{
    static float y[3000];

    for (size_t n = 0; n < 3000; n = n * 3 / 2 + 1) {
        double want = 0;

        for (size_t i = 0; i < n; i++) {
            y[i] = (float)-rng_uniform(4, i) * 9;
            want += exp(y[i]);
        }
        assert_true(fabs(sample_select_sum(smp.kern, y, n) - want) <= 1e-5 * want);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_comparison_can_fail),
        TEST(the_chain_agrees_with_transformers),
        TEST(the_chain_agrees_with_full_sorts_for_every_size),
        TEST(of_equal_logits_top_p_keeps_as_many_as_needed_lowest_ids_first),
        TEST(stages_tell_what_is_left),
        TEST(picks_follow_the_distribution),
        TEST(the_pick_has_the_largest_sum_of_logit_and_noise),
        TEST(similar_distributions_mostly_draw_the_same_token),
        TEST(draws_of_neighbours_are_independent),
        TEST(the_pick_depends_on_seed_and_number_alone),
        TEST(greedy_takes_the_largest_and_the_lowest_of_equals),
        TEST(greedy_obeys_penalties_biases_and_min_new_tokens),
        TEST(a_grammars_mask_is_obeyed),
        TEST(suppressed_tokens_are_not_chosen),
        TEST(a_bad_words_last_token_is_not_chosen_behind_the_others),
        TEST(bad_logits_fail_whatever_the_place_and_the_mode),
        TEST(forbidden_tokens_are_never_picked),
        TEST(extreme_values_stay_finite),
        TEST(penalties_are_applied_before_the_bias),
        TEST(no_temperature_makes_a_forbidden_token_possible),
        TEST(ids_above_the_tokenizers_are_tokens_like_any_other),
        TEST(logprobs_are_of_the_raw_distribution),
        TEST(logprobs_of_chosen_tokens_come_in_their_order),
        TEST(of_equal_logits_the_lowest_ids_are_told),
        TEST(nothing_allocates_after_opening),
        TEST(counts_are_kept_for_every_token),
        TEST(guesses_that_were_wrong_take_no_place_in_the_history),
        TEST(a_history_that_nobody_asks_for_costs_nothing),
        TEST(running_out_of_memory_is_reported),
        TEST(the_kth_largest_is_that_of_a_sort),
        TEST(the_mass_in_front_is_that_of_a_sort),
        TEST(sums_of_exponentials_are_right_at_every_length),
    };

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
