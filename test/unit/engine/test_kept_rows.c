/* test_kept_rows.c - rows of logits and probabilities in events: they are those of the model and of the sampler, with
 * chunks, guesses, preemption and company; requests without them get the same tokens; memory that is missing ends
 * only the request. */
#include <jansson.h>
#include <math.h>

#include "base/mem.h"
#include "engines.h"
#include "gallop.h"

enum { N_PROMPT = 21, N_NEW = 9, MOST_ROWS = 64, VOCAB = 2048 };

/* The rows of one answer. */
struct rows {
    size_t n_prompt, n;
    float prompt[MOST_ROWS][VOCAB], logits[MOST_ROWS][VOCAB], probs[MOST_ROWS][VOCAB];
    bool has_logits, has_probs;
    int32_t token[MOST_ROWS];
    float logprob[MOST_ROWS];
    struct gallop_event end;
};

static char err[GALLOP_ERR_SIZE];
static int32_t prompt[N_PROMPT];
static size_t n_ids = N_PROMPT; /* the prompt of the test in hand */
static struct rows got[2];

static struct gallop *open_engine(int64_t max_logits, const char *guesses, int64_t kv_tokens)
{
    struct gallop_options o = engines_options(2, 32, 64);

    o.max_logits = max_logits;
    o.speculative_config = guesses;
    o.kv_cache_tokens = kv_tokens;
    engines_text(0, 0, N_PROMPT, prompt);
    n_ids = N_PROMPT;
    return engines_open("demo", &o);
}

/* Returns a request for all rows. */
static struct gallop_request all_rows(void)
{
    struct gallop_request r;

    gallop_request_init(&r);
    r.ids = prompt;
    r.n_ids = n_ids;
    r.sampling.max_new_tokens = N_NEW;
    r.sampling.ignore_eos = 1;
    r.sampling.logprobs = 0;
    r.return_logits = r.return_probs = r.return_prompt_logits = 1;
    return r;
}

static void copy_row(float to[VOCAB], const float *from)
{
    memcpy(to, from, VOCAB * sizeof(*to));
}

static void take(struct rows *a, const struct gallop_event *ev)
{
    if (ev->type == GALLOP_PROMPT_TOKEN) {
        if (ev->logits)
            copy_row(a->prompt[a->n_prompt], ev->logits);
        assert_null(ev->probs);
        a->n_prompt++;
    } else if (ev->type == GALLOP_TOKEN) {
        a->has_logits |= ev->logits != NULL;
        a->has_probs |= ev->probs != NULL;
        if (ev->logits)
            copy_row(a->logits[a->n], ev->logits);
        if (ev->probs)
            copy_row(a->probs[a->n], ev->probs);
        a->logprob[a->n] = ev->logprob;
        a->token[a->n++] = ev->token;
    } else if (ev->type == GALLOP_FINISHED) {
        a->end = *ev;
    }
}

/* Submits R and takes its events; answer I is got[I]. */
static int run(struct gallop *g, const struct gallop_request *r)
{
    struct gallop_event ev;
    int rc = gallop_submit(g, r, NULL, err);

    for (int i = 0; i < 2; i++)
        got[i].n = got[i].n_prompt = got[i].has_logits = got[i].has_probs = 0;
    while (gallop_next(g, &ev))
        take(&got[ev.choice], &ev);
    return rc;
}

/* Checks that the rows of A are those that the model computes for its tokens. */
static void check_logits(struct gallop *g, const struct rows *a)
{
    int32_t ids[MOST_ROWS];
    size_t n = n_ids + a->n;
    float *logits;

    memcpy(ids, prompt, sizeof(prompt));
    memcpy(ids + n_ids, a->token, a->n * sizeof(*ids));
    logits = engines_logits(engine_llm(g), ids, n, n, 1, NULL);
    for (size_t i = 0; i < a->n_prompt; i++)
        assert_memory_equal(a->prompt[i], logits + i * VOCAB, VOCAB * sizeof(float));
    for (size_t i = 0; i < a->n && a->has_logits; i++)
        assert_memory_equal(a->logits[i], logits + (n_ids - 1 + i) * VOCAB, VOCAB * sizeof(float));
    free(logits);
}

/* ---- logits ---- */

static void logits_are_those_of_the_model_in_chunks_of_any_size(void **state)
{
    for (int64_t most = 2; most <= 64; most += most < 4 ? 1 : 15) {
        struct gallop *g = open_engine(most, NULL, 0);
        struct gallop_request r = all_rows();

        assert_int_equal(run(g, &r), 0);
        assert_int_equal(got[0].n_prompt, N_PROMPT - 1);
        assert_int_equal(got[0].n, N_NEW);
        assert_true(got[0].has_logits);
        check_logits(g, &got[0]);
        gallop_close(g);
    }
}

static void log_probabilities_are_the_log_softmax_of_logits(void **state)
{
    struct gallop *g = open_engine(0, NULL, 0);
    struct gallop_request r = all_rows();

    assert_int_equal(run(g, &r), 0);
    for (size_t i = 0; i < N_NEW; i++) {
        double sum = 0;
        size_t best = 0;

        for (size_t k = 0; k < VOCAB; k++) {
            sum += exp((double)got[0].logits[i][k]);
            best = got[0].logits[i][k] > got[0].logits[i][best] ? k : best;
        }
        assert_int_equal(got[0].token[i], best);
        assert_true(fabs((double)got[0].logits[i][best] - log(sum) - (double)got[0].logprob[i]) < 1e-4);
    }
    gallop_close(g);
}

static void events_without_a_request_for_rows_have_none(void **state)
{
    struct gallop *g = open_engine(0, NULL, 0);
    struct gallop_request r = all_rows();
    int32_t before[N_NEW];

    assert_int_equal(run(g, &r), 0);
    memcpy(before, got[0].token, sizeof(before));
    r.return_logits = r.return_probs = r.return_prompt_logits = 0;
    assert_int_equal(run(g, &r), 0);
    assert_false(got[0].has_logits || got[0].has_probs);
    assert_int_equal(got[0].n_prompt, 0);
    assert_memory_equal(got[0].token, before, sizeof(before));
    r.prompt_logprobs = 0;
    r.return_probs = 1;
    assert_int_equal(run(g, &r), 0);
    assert_false(got[0].has_logits);
    assert_true(got[0].has_probs);
    assert_int_equal(got[0].n_prompt, N_PROMPT - 1);
    gallop_close(g);
}

static void guesses_and_their_errors_change_no_row(void **state)
{
    struct gallop *g =
        open_engine(0, "{\"method\":\"ngram\",\"num_speculative_tokens\":3,\"adaptive\":false}", 0);
    struct gallop_request r = all_rows();

    for (size_t i = 0; i < N_PROMPT; i++)
        prompt[i] = 100 + (int32_t)(i % 3); /* so that something is guessed */
    assert_int_equal(run(g, &r), 0);
    assert_true(got[0].end.speculation.n_draft_tokens > 0);
    assert_int_equal(got[0].n, N_NEW);
    check_logits(g, &got[0]);
    gallop_close(g);
}

static void a_preempted_request_gets_each_row_once(void **state)
{
    struct gallop *g = open_engine(4, NULL, 64);
    struct gallop_request r;
    struct gallop_event ev;
    static struct rows both[2];

    memset(both, 0, sizeof(both));
    n_ids = 14; /* two sequences fit, until they grow */
    r = all_rows();
    r.sampling.max_new_tokens = 25;
    for (uintptr_t i = 0; i < 2; i++) {
        r.user = (void *)i;
        assert_int_equal(gallop_submit(g, &r, NULL, err), 0);
    }
    while (gallop_next(g, &ev))
        take(&both[(uintptr_t)ev.user], &ev);
    assert_true(engines_stats(g).n_preempted > 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(both[i].n, 25);
        assert_int_equal(both[i].n_prompt, n_ids - 1);
        check_logits(g, &both[i]);
    }
    gallop_close(g);
}

static void only_the_first_answer_has_rows_of_the_prompt(void **state)
{
    struct gallop *g = open_engine(0, NULL, 0);
    struct gallop_request r = all_rows();

    r.n = 2;
    r.sampling.temperature = 1;
    assert_int_equal(run(g, &r), 0);
    assert_int_equal(got[0].n_prompt, N_PROMPT - 1);
    assert_int_equal(got[1].n_prompt, 0);
    check_logits(g, &got[0]);
    check_logits(g, &got[1]);
    gallop_close(g);
}

static void a_prompt_alone_has_rows(void **state)
{
    struct gallop *g = open_engine(0, NULL, 0);
    struct gallop_request r = all_rows();

    r.sampling.max_new_tokens = 0;
    assert_int_equal(run(g, &r), 0);
    assert_int_equal(got[0].n_prompt, N_PROMPT - 1);
    assert_int_equal(got[0].n, 0);
    check_logits(g, &got[0]);
    r.n_ids = 1;
    assert_int_equal(run(g, &r), 0);
    assert_int_equal(got[0].n_prompt, 0);
    gallop_close(g);
}

/* ---- probabilities ---- */

/* Returns the number of tokens of P that may be drawn. The probabilities add up to 1. */
static size_t n_likely(const float p[VOCAB])
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < VOCAB; i++) {
        assert_true(p[i] >= 0 && p[i] <= 1.0000001F);
        sum += (double)p[i];
        n += p[i] > 0;
    }
    assert_true(fabs(sum - 1) < 1e-5);
    return n;
}

static void probabilities_are_those_of_the_draw(void **state)
{
    static const float hot = 1.7F;
    struct gallop *g = open_engine(0, NULL, 0);
    struct gallop_request r = all_rows();

    assert_int_equal(run(g, &r), 0); /* greedy: the softmax */
    for (size_t i = 0; i < N_NEW; i++) {
        assert_true(n_likely(got[0].probs[i]) > 100);
        assert_true(fabs(log((double)got[0].probs[i][got[0].token[i]]) - (double)got[0].logprob[i]) < 1e-4);
    }
    r.sampling.temperature = (double)hot;
    r.sampling.top_k = 3;
    assert_int_equal(run(g, &r), 0);
    for (size_t i = 0; i < N_NEW; i++) {
        const float *x = got[0].logits[i], *p = got[0].probs[i];
        size_t first = SIZE_MAX, a = (size_t)got[0].token[i];

        assert_int_equal(n_likely(p), 3);
        assert_true(p[a] > 0);
        for (size_t k = 0; k < VOCAB; k++)
            if (p[k] > 0 && k != a)
                first = k;
        assert_true(fabs(log((double)(p[a] / p[first])) - (double)((x[a] - x[first]) / hot)) < 1e-4);
    }
    r.sampling.top_k = -1;
    assert_int_equal(run(g, &r), 0); /* every token is a candidate */
    assert_true(n_likely(got[0].probs[0]) > 1000);
    gallop_close(g);
}

static void probabilities_know_penalties_and_masks(void **state)
{
    static const char *const choices[] = {"Once", "Upon"};
    struct gallop *g = open_engine(0, NULL, 0);
    struct gallop_request r = all_rows();
    static const int32_t id[] = {77};
    static const float bias[] = {1000};

    r.sampling.bias_id = id;
    r.sampling.bias = bias;
    r.sampling.n_bias = 1;
    assert_int_equal(run(g, &r), 0);
    assert_int_equal(got[0].token[0], 77);
    assert_true(got[0].probs[0][77] > 0.999F);
    check_logits(g, &got[0]); /* which stay raw */
    r.sampling.n_bias = 0;
    r.sampling.temperature = 1;
    r.sampling.ignore_eos = 0;
    r.structured_outputs.choice = choices;
    r.structured_outputs.n_choice = 2;
    assert_int_equal(run(g, &r), 0);
    assert_true(n_likely(got[0].probs[0]) < 12); /* the beginnings of two words */
    gallop_close(g);
}

/* ---- limits ---- */

static void searches_and_embeddings_have_no_rows(void **state)
{
    struct gallop *g = open_engine(0, NULL, 0);
    struct gallop_request r = all_rows();

    r.sampling.logprobs = -1;
    r.sampling.num_beams = 2;
    assert_int_equal(gallop_submit(g, &r, NULL, err), GALLOP_UNSUPPORTED);
    assert_non_null(strstr(err, "return_logits"));
    r = all_rows();
    r.return_logits = r.return_probs = 0;
    r.sampling.max_new_tokens = 0;
    r.sampling.logprobs = -1;
    r.pooling = GALLOP_POOL_LAST;
    assert_int_equal(gallop_submit(g, &r, NULL, err), GALLOP_UNSUPPORTED);
    assert_non_null(strstr(err, "return_prompt_logits"));
    gallop_close(g);
}

static void memory_that_is_missing_ends_only_the_request(void **state)
{
    struct gallop *g = open_engine(0, NULL, 0);
    struct gallop_request r = all_rows();
    bool failed = true;

    for (long n = 1; failed; n++) {
        int rc;

        mem_fail_at(n);
        rc = run(g, &r);
        failed = mem_failed();
        mem_fail_at(0);
        assert_true(rc == 0 || rc == GALLOP_NO_MEMORY);
        if (!failed)
            assert_int_equal(got[0].n, N_NEW);
    }
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_the_model_in_chunks_of_any_size),
        cmocka_unit_test(log_probabilities_are_the_log_softmax_of_logits),
        cmocka_unit_test(events_without_a_request_for_rows_have_none),
        cmocka_unit_test(guesses_and_their_errors_change_no_row),
        cmocka_unit_test(a_preempted_request_gets_each_row_once),
        cmocka_unit_test(only_the_first_answer_has_rows_of_the_prompt),
        cmocka_unit_test(a_prompt_alone_has_rows),
        cmocka_unit_test(probabilities_are_those_of_the_draw),
        cmocka_unit_test(probabilities_know_penalties_and_masks),
        cmocka_unit_test(searches_and_embeddings_have_no_rows),
        cmocka_unit_test(memory_that_is_missing_ends_only_the_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
