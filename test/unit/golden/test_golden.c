/* test_golden.c - every golden folder of the tree and of the large test data against what Hugging Face
 * computed from the same weights: fp32 logits and hidden states, greedy tokens, and the divergence of
 * bf16. */
#include <math.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/score.h"
#include "engines.h"
#include "files.h"
#include "gallop.h"
#include "goldfile.h"

enum { MAX_FOLDERS = 64, MAX_PROMPTS = 1024 };

/* KL(fp32 || bf16) of prompts, and that of Hugging Face's own bf16 (DESIGN.md, Numerics). A near-tie of a
 * router may fall either way in both, so mixtures are judged by their median. */
struct divergences {
    double ours[MAX_PROMPTS], theirs[MAX_PROMPTS];
    size_t n;
};

struct accuracy {
    struct divergences dense, mixtures;
};

static const double logits_limit = 2e-4, hidden_limit = 3e-4;

static struct gallop *open_model(const char *dir, const char *dtype, size_t seqs)
{
    struct gallop_options o = engines_options((int64_t)seqs, 0, 0);

    o.dtype = dtype;
    return engines_open(dir, &o);
}

static void compare_logits(const char *dir, struct gallop *g, size_t i, const int32_t *ids, size_t n)
{
    struct goldfile_npy want, hidden;
    char path[8192];
    size_t row;
    float *got, *h = NULL;
    double off;

    snprintf(path, sizeof(path), "%s/golden/logits_%zu.npy", dir, i);
    assert_true(goldfile_npy(path, &want));
    snprintf(path, sizeof(path), "%s/golden/hidden_%zu.npy", dir, i);
    if (goldfile_npy(path, &hidden))
        h = malloc(hidden.shape[0] * hidden.shape[1] * hidden.shape[2] * sizeof(float));
    got = engines_logits(engine_llm(g), ids, n, h ? n : want.shape[0], 0, h);
    off = goldfile_worst(got + (h ? n - want.shape[0] : 0) * want.shape[1], want.x, want.shape[0],
                         want.shape[1], &row);
    if (!(off <= logits_limit))
        fail_msg("%s: prompt %zu: logits off by %.2e of the row's largest at row %zu", dir, i, off, row);
    for (size_t l = 0; h && l < hidden.shape[0]; l++) {
        size_t layer = hidden.shape[1] * hidden.shape[2];

        off = goldfile_worst(h + l * layer, hidden.x + l * layer, 1, layer, &row);
        if (!(off <= hidden_limit))
            fail_msg("%s: hidden state %zu off by %.2e of its largest", dir, l, off);
    }
    free(got);
    free(h);
    free(want.x);
    free(hidden.x);
}

static void compare_greedy(const char *dir, struct gallop *g, size_t i, const int32_t *ids, size_t n,
                           const json_t *golden)
{
    const json_t *list = json_is_object(golden) ? json_object_get(golden, "tokens") : golden;
    struct engines_answer a = {0};

    engines_submit(g, ids, n, (int64_t)json_array_size(list), 0);
    engines_run(g, &a);
    for (size_t k = 0; k < a.n; k++)
        if (a.token[k] != json_integer_value(json_array_get(list, k)))
            fail_msg("%s: prompt %zu: token %zu is %d, Hugging Face's is %lld", dir, i, k, a.token[k],
                     json_integer_value(json_array_get(list, k)));
    assert_int_equal(a.n, json_array_size(list));
}

/* Returns the KL divergence of the distributions of the logits P and Q [V], in nats. */
static double divergence(const float *p, const float *q, size_t V)
{
    double lp = score_logsumexp(p, V), lq = score_logsumexp(q, V), kl = 0;

    for (size_t v = 0; v < V; v++)
        kl += exp((double)p[v] - lp) * (((double)p[v] - lp) - ((double)q[v] - lq));
    return kl;
}

static bool is_far(double kl, double other)
{
    return kl > 4 * other + 1e-3;
}

static void compare_bf16(const char *dir, struct gallop *g, size_t i, const int32_t *ids, size_t n,
                         double theirs, struct accuracy *a)
{
    const char *name = strrchr(dir, '/'); /* The parent folders may have any name. */
    bool mixture =
        strstr(name, "moe") || strstr(name, "mixtral") || strstr(name, "oss") || strstr(name, "llama4");
    struct divergences *d = mixture ? &a->mixtures : &a->dense;
    struct goldfile_npy want;
    char path[8192];
    size_t V;
    float *got;
    double kl;

    snprintf(path, sizeof(path), "%s/golden/logits_%zu.npy", dir, i);
    assert_true(goldfile_npy(path, &want));
    V = want.shape[1];
    got = engines_logits(engine_llm(g), ids, n, 1, 0, NULL);
    kl = divergence(want.x + (want.shape[0] - 1) * V, got, V);
    if (!(kl >= -1e-9) || (!mixture && is_far(kl, theirs)))
        fail_msg("%s: prompt %zu: KL(fp32 || bf16) is %.2e, Hugging Face's %.2e", dir, i, kl, theirs);
    assert_true(d->n < MAX_PROMPTS);
    d->ours[d->n] = kl;
    d->theirs[d->n++] = theirs;
    free(got);
    free(want.x);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Checks the bounds that all prompts of a kind must keep together. Returns false if one is exceeded. */
static bool is_accurate(struct accuracy *a)
{
    double ours = 0, theirs = 0;
    int far = 0;

    for (size_t i = 0; i < a->dense.n; i++) {
        ours += a->dense.ours[i];
        theirs += a->dense.theirs[i];
    }
    for (size_t i = 0; i < a->mixtures.n; i++)
        far += is_far(a->mixtures.ours[i], a->mixtures.theirs[i]) -
               is_far(a->mixtures.theirs[i], a->mixtures.ours[i]);
    qsort(a->mixtures.ours, a->mixtures.n, sizeof(double), by_size);
    qsort(a->mixtures.theirs, a->mixtures.n, sizeof(double), by_size);
    return ours <= theirs && far <= 2 &&
           (!a->mixtures.n ||
            a->mixtures.ours[a->mixtures.n / 2] <= 1.5 * a->mixtures.theirs[a->mixtures.n / 2]);
}

static void check_folder(const char *dir, struct accuracy *a)
{
    json_t *prompts = goldfile_json(dir, "prompts.json"), *greedy = goldfile_json(dir, "greedy.json");
    /* Dynamic NTK keeps the keys as they were computed. Longrope recomputes them, which no cache does. */
    json_t *cached = strstr(dir, "dynamic") ? goldfile_json(dir, "greedy_cached.json") : NULL,
           *bf16 = goldfile_json(dir, "bf16.json");
    struct gallop *exact = open_model(dir, "fp32", 16), *fast = open_model(dir, "bf16", 16);

    for (size_t i = 0; i < json_array_size(prompts); i++) {
        size_t n;
        int32_t *ids = goldfile_ids(json_array_get(prompts, i), &n);

        compare_logits(dir, exact, i, ids, n);
        compare_greedy(dir, exact, i, ids, n, json_array_get(cached ? cached : greedy, i));
        if (i < json_array_size(bf16))
            compare_bf16(dir, fast, i, ids, n,
                         json_number_value(json_object_get(json_array_get(bf16, i), "kl")), a);
        free(ids);
    }
    gallop_close(exact);
    gallop_close(fast);
    json_decref(prompts);
    json_decref(greedy);
    json_decref(cached);
    json_decref(bf16);
}

/* A left-padded batch with its mask gives what each prompt gives alone. */
static void check_padded(const char *dir)
{
    json_t *b = goldfile_json(dir, "batch.json");
    struct gallop *g;

    if (!b)
        return;
    g = open_model(dir, "fp32", 4);
    for (size_t i = 0; i < json_array_size(json_object_get(b, "tokens")); i++) {
        size_t n, n_mask, at = 0;
        int32_t *ids = goldfile_ids(json_array_get(json_object_get(b, "padded_input_ids"), i), &n);
        int32_t *mask = goldfile_ids(json_array_get(json_object_get(b, "attention_mask"), i), &n_mask);
        const json_t *want = json_array_get(json_object_get(b, "tokens"), i);
        int8_t *m = malloc(n);
        struct gallop_request r;
        struct gallop_event ev;
        char err[GALLOP_ERR_SIZE];

        for (size_t k = 0; k < n; k++)
            m[k] = (int8_t)mask[k];
        gallop_request_init(&r);
        r.ids = ids;
        r.mask = m;
        r.n_ids = n;
        r.sampling.max_new_tokens = (int64_t)json_array_size(want);
        r.sampling.ignore_eos = 1;
        assert_int_equal(gallop_submit(g, &r, NULL, err), 0);
        while (gallop_next(g, &ev))
            if (ev.type == GALLOP_TOKEN)
                assert_int_equal(ev.token, json_integer_value(json_array_get(want, at++)));
        assert_int_equal(at, json_array_size(want));
        free(ids);
        free(mask);
        free(m);
    }
    gallop_close(g);
    json_decref(b);
}

static size_t check_root(const char *root)
{
    static char names[MAX_FOLDERS][64];
    size_t n = goldfile_list(root, names, MAX_FOLDERS);
    static struct accuracy accuracy;

    memset(&accuracy, 0, sizeof(accuracy));

    for (size_t i = 0; i < n; i++) {
        char dir[4096];

        snprintf(dir, sizeof(dir), "%s/%s", root, names[i]);
        check_folder(dir, &accuracy);
        check_padded(dir);
    }
    assert_true(accuracy.dense.n >= 20 && is_accurate(&accuracy));
    return n;
}

static void own_goldens_agree_with_hugging_face(void **state)
{
    assert_true(check_root(GALLOP_SOURCE_DIR "/test/golden") >= 10);
}

static void shared_goldens_agree_with_hugging_face(void **state)
{
    char root[4096];

    if (!files_shared(root, sizeof(root), "goldens"))
        skip();
    assert_true(check_root(root) >= 10);
}

/* The output of the bundled model is fixed: Hugging Face's greedy tokens and last logits of the same
 * files. */
static void the_demo_model_says_what_it_said(void **state)
{
    const char *dir = GALLOP_SOURCE_DIR "/test/golden/demo";
    json_t *prompts = json_load_file(GALLOP_SOURCE_DIR "/test/golden/demo/prompts.json", 0, NULL);
    json_t *greedy = json_load_file(GALLOP_SOURCE_DIR "/test/golden/demo/greedy.json", 0, NULL);
    struct gallop *g = open_model("demo", "fp32", 1);

    assert_true(json_array_size(prompts) >= 10);
    for (size_t i = 0; i < json_array_size(prompts); i++) {
        size_t n;
        int32_t *ids = goldfile_ids(json_array_get(prompts, i), &n);

        compare_greedy(dir, g, i, ids, n, json_array_get(greedy, i));
        free(ids);
    }
    gallop_close(g);
    json_decref(prompts);
    json_decref(greedy);
}

/* The trained stories260K checkpoint generates its story of 200 tokens, token for token. */
static void stories260k_tells_its_story(void **state)
{
    char dir[4096], path[4200];
    struct gallop *g;
    json_t *doc;

    if (!files_shared(dir, sizeof(dir), "data/weights/stories260K/hf"))
        skip();
    snprintf(path, sizeof(path), "%s/../golden.json", dir);
    assert_non_null(doc = json_load_file(path, 0, NULL));
    g = open_model(dir, "fp32", 1);
    for (size_t i = 0; i < json_array_size(json_object_get(doc, "cases")); i++) {
        const json_t *c = json_array_get(json_object_get(doc, "cases"), i);
        size_t n;
        int32_t *ids = goldfile_ids(json_object_get(c, "prompt_ids"), &n);

        compare_greedy(dir, g, i, ids, n, json_object_get(c, "greedy_ids"));
        free(ids);
    }
    gallop_close(g);
    json_decref(doc);
}

static void a_mean_a_median_or_many_far_ones_are_overlooked(void **state)
{
    static struct accuracy good, bad;

    for (size_t i = 0; i < 9; i++) {
        good.dense.ours[i] = good.mixtures.ours[i] = 1e-3;
        good.dense.theirs[i] = good.mixtures.theirs[i] = 1.1e-3;
    }
    good.dense.n = good.mixtures.n = 9;
    assert_true(is_accurate(&good));
    bad = good;
    bad.dense.ours[3] = 3e-3;
    assert_false(is_accurate(&bad));
    bad = good;
    for (size_t i = 0; i < 5; i++)
        bad.mixtures.ours[i] = 1.7e-3;
    assert_false(is_accurate(&bad));
    bad = good;
    bad.mixtures.ours[0] = bad.mixtures.ours[1] = 1;
    assert_true(is_accurate(&bad));
    bad = good;
    bad.mixtures.ours[0] = bad.mixtures.ours[1] = bad.mixtures.ours[2] = 1;
    assert_false(is_accurate(&bad));
}

static void the_comparison_fails_on_zeros_and_on_one_wrong_element(void **state)
{
    float want[8] = {1, -2, 3, 4, 5, -6, 7, 8}, zeros[8] = {0}, wrong[8];
    size_t row;

    memcpy(wrong, want, sizeof(want));
    assert_true(goldfile_worst(want, want, 2, 4, &row) == 0);
    assert_true(goldfile_worst(zeros, want, 2, 4, &row) > logits_limit);
    wrong[6] += 0.01f;
    assert_true(goldfile_worst(wrong, want, 2, 4, &row) > logits_limit);
    assert_int_equal(row, 1);
    assert_true(divergence(want, want, 8) < 1e-12 && divergence(want, zeros, 8) > 1);
    wrong[6] = NAN;
    assert_true(goldfile_worst(wrong, want, 2, 4, &row) > logits_limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_comparison_fails_on_zeros_and_on_one_wrong_element),
        cmocka_unit_test(a_mean_a_median_or_many_far_ones_are_overlooked),
        cmocka_unit_test(own_goldens_agree_with_hugging_face),
        cmocka_unit_test(shared_goldens_agree_with_hugging_face),
        cmocka_unit_test(the_demo_model_says_what_it_said),
        cmocka_unit_test(stories260k_tells_its_story),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
