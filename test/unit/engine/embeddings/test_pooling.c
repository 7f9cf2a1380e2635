/* test_pooling.c - embeddings are the hidden states after the last norm, of the last token or the mean of all
 * tokens, with the same bits alone and beside other requests, for any chunks and any cached rows. */
#include "engines.h"

#include "engine/llm.h"
#include "gallop.h"

enum { N_TEXTS = 6, MOST = 90, MOST_HIDDEN = 512 };

static const char *const models[] = {"llama3-rope", "gemma3", "opt-postln-proj"};

/* the embedding of a text: [n_hidden] */
struct vectors {
    float last[MOST_HIDDEN], mean[MOST_HIDDEN];
};

static size_t length_of(size_t text)
{
    return text == 0 ? 1 : 7 + 16 * text;
}

static void expect_from_logits(const char *name, size_t text, struct vectors *out)
{
    struct gallop_options o = engines_options(2, 64, 128);
    struct gallop *g = engines_open(name, &o);
    struct llm *m = (struct llm *)(uintptr_t)engine_llm(g);
    size_t n = length_of(text), E = m->model.info.hidden, L = m->model.info.n_layers;
    float *all = malloc((L + 1) * n * E * sizeof(*all));
    const float *h = all + L * n * E;
    int32_t ids[MOST];

    assert_true(E <= MOST_HIDDEN);
    engines_text(text, 0, n, ids);
    free(engines_logits(m, ids, n, n, 0, all));
    memcpy(out->last, h + (n - 1) * E, E * sizeof(float));
    for (size_t i = 0; i < E; i++) {
        double sum = 0;

        for (size_t k = 0; k < n; k++)
            sum += (double)h[k * E + i];
        out->mean[i] = (float)(sum / (double)n);
    }
    free(all);
    gallop_close(g);
}

static int submit(struct gallop *g, size_t text, enum gallop_pooling pooling)
{
    struct gallop_request r;
    int32_t ids[MOST];
    char err[GALLOP_ERR_SIZE];
    int rc;

    gallop_request_init(&r);
    engines_text(text, 0, length_of(text), ids);
    r.ids = ids;
    r.n_ids = length_of(text);
    r.sampling.max_new_tokens = 0;
    r.pooling = pooling;
    r.user = (void *)(uintptr_t)(2 * text + (pooling == GALLOP_POOL_MEAN));
    if ((rc = gallop_submit(g, &r, NULL, err)) != 0)
        print_message("%s\n", err);
    return rc;
}

/* Checks that every embedding is that of WANT. Returns their number. */
static size_t compare(struct gallop *g, const struct vectors *want, size_t n_hidden)
{
    struct gallop_event ev;
    size_t n = 0;

    while (gallop_next(g, &ev)) {
        size_t which = (uintptr_t)ev.user;
        const float *vector = which % 2 ? want[which / 2].mean : want[which / 2].last;

        if (ev.type != GALLOP_EMBEDDING) {
            assert_true(ev.type == GALLOP_FINISHED && ev.finish == GALLOP_FINISH_LENGTH);
            continue;
        }
        n++;
        assert_int_equal(ev.n_embedding, n_hidden);
        for (size_t i = 0; i < n_hidden; i++)
            if (memcmp(&vector[i], &ev.embedding[i], sizeof(float)) != 0)
                fail_msg("%s, text %zu, %s: element %zu is %.9g, not %.9g",
                         engine_llm(g)->model.arch->class_name, which / 2, which % 2 ? "mean" : "last", i,
                         (double)ev.embedding[i], (double)vector[i]);
    }
    return n;
}

static void embeddings_are_the_hidden_states(const char *name)
{
    static const int64_t sizes[][3] = {{1, 64, 64}, {12, 64, 128}, {3, 5, 16}, {12, 512, 16}};
    struct vectors want[N_TEXTS];

    for (size_t t = 0; t < N_TEXTS; t++)
        expect_from_logits(name, t, &want[t]);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        struct gallop_options o = engines_options(sizes[s][0], sizes[s][1], 128);
        struct gallop *g;
        size_t E;

        o.threads = s == 1 ? 2 : 1;
        g = engines_open(name, &o);
        E = engine_llm(g)->model.info.hidden;
        for (int round = 0; round < 2; round++) { /* The second request finds rows of the first. */
            for (size_t t = 0; t < N_TEXTS; t++) {
                assert_int_equal(submit(g, t, GALLOP_POOL_LAST), 0);
                assert_int_equal(submit(g, t, GALLOP_POOL_MEAN), 0);
            }
            assert_int_equal(compare(g, want, E), 2 * N_TEXTS);
        }
        engines_check_cache(g);
        gallop_close(g);
    }
}

static void embeddings_are_the_hidden_states_alone_and_together(void **state)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        embeddings_are_the_hidden_states(models[i]);
}

static void what_has_no_embedding_is_refused(void **state)
{
    struct gallop_options o = engines_options(2, 64, 128);
    struct gallop *g = engines_open(models[0], &o);
    struct gallop_request r;
    int32_t ids[] = {5, 6};

    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 2;
    r.pooling = GALLOP_POOL_LAST;
    assert_int_not_equal(gallop_submit(g, &r, NULL, NULL), 0); /* This request generates tokens. */
    r.sampling.max_new_tokens = 0;
    r.n = 2;
    assert_int_not_equal(gallop_submit(g, &r, NULL, NULL), 0);
    r.n = 1;
    r.prompt_logprobs = 0;
    assert_int_not_equal(gallop_submit(g, &r, NULL, NULL), 0);
    r.prompt_logprobs = -1;
    r.pooling = (enum gallop_pooling)(GALLOP_POOL_AUTO + 1);
    assert_int_not_equal(gallop_submit(g, &r, NULL, NULL), 0);
    r.pooling = GALLOP_POOL_MEAN;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    gallop_close(g);
}

/* Returns the cost of one request of LONG_PROMPT tokens, with as many rows in each step as fit. */
enum { LONG_PROMPT = 900 };

struct work_done {
    uint64_t steps;
    double flops, head_flops;
};

static double flops_of(const struct gallop_stats *s, const char *name)
{
    double sum = 0;

    for (size_t i = 0; i < GALLOP_N_OPERATORS; i++)
        sum += !name || strcmp(s->operators[i].name, name) == 0 ? s->operators[i].flops : 0;
    return sum;
}

static struct work_done work_of(enum gallop_pooling pooling, int prompt_logprobs)
{
    struct gallop_options o = engines_options(2, 512, 1024);
    struct gallop *g = engines_open("demo", &o);
    static int32_t ids[LONG_PROMPT];
    struct gallop_event ev;
    struct gallop_request r;
    struct gallop_stats s;

    gallop_request_init(&r);
    engines_text(1, 0, LONG_PROMPT, ids);
    r.ids = ids;
    r.n_ids = LONG_PROMPT;
    r.sampling.max_new_tokens = 0;
    r.pooling = pooling;
    r.prompt_logprobs = prompt_logprobs;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    while (gallop_next(g, &ev))
        assert_true(ev.type != GALLOP_FINISHED || ev.finish == GALLOP_FINISH_LENGTH);
    s = engines_stats(g);
    gallop_close(g);
    return (struct work_done){s.n_steps, flops_of(&s, NULL), flops_of(&s, "lm_head")};
}

static void a_mean_takes_the_steps_and_operations_of_a_last_token(void **state)
{
    struct work_done last = work_of(GALLOP_POOL_LAST, -1), mean = work_of(GALLOP_POOL_MEAN, -1);

    assert_int_equal(last.steps, 2); /* 512 and 388 rows */
    assert_int_equal(mean.steps, last.steps);
    assert_true(last.head_flops == 0 && mean.head_flops == 0); /* Logits are not computed. */
    assert_true(mean.flops > 0 && mean.flops <= 1.1 * last.flops);
}

static void a_scored_prompt_takes_the_steps_of_one_that_is_not(void **state)
{
    struct work_done plain = work_of(GALLOP_POOL_NONE, -1), scored = work_of(GALLOP_POOL_NONE, 0);

    assert_int_equal(plain.steps, 2);
    assert_int_equal(scored.steps, plain.steps);
    assert_true(plain.head_flops == 0); /* No tokens are generated. */
    assert_true(scored.head_flops > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mean_takes_the_steps_and_operations_of_a_last_token),
        cmocka_unit_test(a_scored_prompt_takes_the_steps_of_one_that_is_not),
        cmocka_unit_test(embeddings_are_the_hidden_states_alone_and_together),
        cmocka_unit_test(what_has_no_embedding_is_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
