/* test_waits.c - the memory of waiting requests: each answer takes little, whatever its parameters, and
 * nothing after its end. */
#include "base/mem.h"
#include "engine/engine_priv.h"
#include "engines.h"
#include "gallop.h"

enum { N_REQUESTS = 8, N_ANSWERS = 128, N_PROMPT = 600, N_BIASES = 1000 };

/* Returns the bytes that N_REQUESTS with N_ANSWERS each hold before one of them runs. */
static size_t bytes_of(struct gallop *g, struct gallop_request *r, int n_answers)
{
    size_t before = mem_tag_bytes(MEM_ENGINE), held;
    struct gallop_event ev;

    r->n = n_answers;
    for (int i = 0; i < N_REQUESTS; i++)
        assert_int_equal(gallop_submit(g, r, NULL, NULL), 0);
    held = mem_tag_bytes(MEM_ENGINE) - before;
    gallop_cancel(g, 0);
    while (gallop_next(g, &ev))
        assert_int_equal(ev.type, GALLOP_FINISHED);
    assert_true(mem_tag_bytes(MEM_ENGINE) <= before);
    return held;
}

/* Prompt, sampling lists and bad words exist once for each request, and tokens and counts when an answer
 * runs. */
static void an_answer_that_waits_costs_little(void **state)
{
    struct gallop_options o = engines_options(2, 16, 1024);
    struct gallop *g = engines_open("demo", &o);
    static int32_t ids[N_PROMPT], bias_id[N_BIASES];
    static float bias[N_BIASES];
    static const char *const words[] = {"one", "two", "three"}, *const stops[] = {"never", "found"};
    struct gallop_request r;
    size_t plain, one, many;

    for (int i = 0; i < N_PROMPT; i++)
        ids[i] = 5 + i % 100;
    for (int i = 0; i < N_BIASES; i++)
        bias_id[i] = i;
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 3;
    plain = bytes_of(g, &r, N_ANSWERS);
    r.n_ids = N_PROMPT;
    r.sampling.repetition_penalty = 1.1;
    r.sampling.presence_penalty = 0.1;
    r.sampling.bias_id = bias_id;
    r.sampling.bias = bias;
    r.sampling.n_bias = N_BIASES;
    r.sampling.bad_words = words;
    r.sampling.n_bad_words = 3;
    r.sampling.stop = stops;
    r.sampling.n_stop = 2;
    one = bytes_of(g, &r, 1);
    many = bytes_of(g, &r, N_ANSWERS);
    print_message("%zu bytes an answer; a request %zu and more, with all lists %zu\n",
                  plain / N_REQUESTS / N_ANSWERS, plain / N_REQUESTS, one / N_REQUESTS);
    assert_true(plain / N_REQUESTS / N_ANSWERS < 2800);
    assert_true(many < plain + one); /* The lists exist once. */
    gallop_close(g);
}

/* The memory that an answer needs to run may be missing: the answer waits for other sequences, or fails with
 * a sentence. */
static void an_answer_without_memory_waits_or_fails(void **state)
{
    struct gallop_options o = engines_options(2, 16, 1024);
    struct gallop *g = engines_open("demo", &o);
    static const int32_t ids[3] = {5, 6, 7};
    struct gallop_request r;
    struct gallop_event ev;
    int n_good = 0, n_failed = 0;

    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 3;
    r.sampling.max_new_tokens = 4;
    r.sampling.ignore_eos = 1;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    mem_set_budget(1); /* less than the smallest allocation */
    while (gallop_next(g, &ev)) {
        if (ev.type == GALLOP_FINISHED) {
            assert_int_equal(ev.finish, GALLOP_FINISH_ERROR);
            assert_non_null(strstr(ev.error, "out of memory"));
            n_failed++;
        }
    }
    mem_set_budget(0);
    assert_int_equal(n_failed, 1);
    r.n = 2;
    r.sampling.max_new_tokens = 30;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    while (gallop_next(g, &ev)) {
        if (ev.type == GALLOP_TOKEN && ev.choice == 0)
            mem_set_budget(1); /* The second answer has to wait until the first one is finished. */
        if (ev.type != GALLOP_FINISHED)
            continue;
        assert_int_equal(ev.finish, GALLOP_FINISH_LENGTH);
        assert_int_equal(ev.n_output, 30);
        n_good++;
        mem_set_budget(0);
    }
    mem_set_budget(0);
    assert_int_equal(n_good, 2);
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_answer_that_waits_costs_little),
                                       cmocka_unit_test(an_answer_without_memory_waits_or_fails)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
