/* test_beam_goldens.c - beam search against Hugging Face's results: the files beam.json of test/golden. */
#include <jansson.h>
#include <math.h>

#include "base/mem.h"
#include "engine/beams/beam.h"
#include "engines.h"
#include "gallop.h"

/* The members of a case. */
enum { MOST_PROMPT = 128, MOST_ENDS = 16, MOST_STOPS = 4 };

static json_int_t integer(const json_t *c, const char *key)
{
    return json_integer_value(json_object_get(c, key));
}

/* Writes the ids of the member KEY to IDS [most], and returns their number. */
static size_t read_ids(const json_t *c, const char *key, size_t most, int32_t *ids)
{
    const json_t *list = json_object_get(c, key), *id;
    size_t i;

    assert_true(json_array_size(list) <= most);
    json_array_foreach(list, i, id)
    {
        ids[i] = (int32_t)json_integer_value(id);
    }
    return json_array_size(list);
}

/* Submits the case C. WHICH is the number of its first answer. The number of beams is that of the results if BY_N. */
static void submit_case(struct gallop *g, const json_t *c, size_t which, bool by_n)
{
    const json_t *early = json_object_get(c, "early_stopping"), *stops = json_object_get(c, "stop_strings");
    int32_t ids[MOST_PROMPT], ends[MOST_ENDS];
    const char *stop[MOST_STOPS];
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    assert_true(json_array_size(stops) <= MOST_STOPS);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = read_ids(c, "prompt", MOST_PROMPT, ids);
    r.n = integer(c, "num_return_sequences");
    r.user = (void *)which;
    r.sampling.use_beam_search = by_n ? 1 : -1;
    r.sampling.num_beams = by_n ? -1 : integer(c, "num_beams");
    r.sampling.stop_token = ends;
    r.sampling.n_stop_token = read_ids(c, "eos_token_id", MOST_ENDS, ends);
    r.sampling.stop = stop;
    r.sampling.n_stop = json_array_size(stops);
    for (size_t i = 0; i < r.sampling.n_stop; i++)
        stop[i] = json_string_value(json_array_get(stops, i));
    r.sampling.max_new_tokens = integer(c, "max_new_tokens");
    r.sampling.min_new_tokens = integer(c, "min_new_tokens");
    r.sampling.length_penalty = json_number_value(json_object_get(c, "length_penalty"));
    r.sampling.repetition_penalty = json_number_value(json_object_get(c, "repetition_penalty"));
    r.sampling.early_stopping = json_is_string(early) ? GALLOP_EARLY_NEVER : json_is_true(early);
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

/* Compares the result number I of the case C. WHERE begins the message of a failure. */
static void check_result(const json_t *c, size_t i, const struct engines_answer *a, const char *where)
{
    const json_t *want = json_array_get(json_object_get(c, "sequences"), i),
                 *score = json_array_get(json_object_get(c, "scores"), i);
    double sum = 0;

    assert_true(a->ended && a->end.has_score);
    for (size_t k = 0; k < json_array_size(want) && k < a->n; k++)
        if (a->token[k] != json_integer_value(json_array_get(want, k)))
            fail_msg("%s: token %zu is %d", where, k, a->token[k]);
    if (a->n != json_array_size(want))
        fail_msg("%s: %zu tokens, expected %zu", where, a->n, json_array_size(want));
    if (score && !(fabs(a->end.score - json_number_value(score)) <= 1e-4 + 2e-6 * fabs(a->end.score)))
        fail_msg("%s: score %.9g, expected %.9g", where, a->end.score, json_number_value(score));
    for (size_t k = 0; k < a->n; k++)
        sum += (double)a->logprob[k];
    assert_float_equal(a->end.cumulative_logprob, sum, 1e-4);
    if (a->n < (size_t)integer(c, "max_new_tokens"))
        assert_int_equal(a->end.finish, GALLOP_FINISH_STOP);
}

/* Searches with MODEL for all cases of the file beam.json of FOLDER, a folder of test/golden, in company. */
static void compare(const char *model, const char *folder)
{
    struct gallop_options o = engines_options(BEAM_MOST, 0, 128);
    struct gallop *g = engines_open(model, &o);
    struct engines_answer *got;
    size_t i, n = 0, first = 0;
    char path[1024], where[256];
    json_t *cases, *c;

    snprintf(path, sizeof(path), "%s/test/golden/%s/beam.json", GALLOP_SOURCE_DIR, folder);
    cases = json_load_file(path, 0, NULL);
    assert_true(json_array_size(cases) > 20);
    json_array_foreach(cases, i, c)
    {
        size_t n_results = (size_t)integer(c, "num_return_sequences"),
               beams = (size_t)integer(c, "num_beams");

        assert_true(n_results > 0 && json_array_size(json_object_get(c, "sequences")) == n_results);
        submit_case(g, c, n, beams == 1 || (i % 2 && beams == n_results));
        n += n_results;
    }
    got = calloc(n, sizeof(*got));
    assert_non_null(got);
    engines_run(g, got);
    json_array_foreach(cases, i, c)
    {
        for (size_t k = 0; k < json_array_size(json_object_get(c, "sequences")); k++) {
            snprintf(where, sizeof(where), "%s, case %zu, beam %zu", folder, i, k);
            check_result(c, k, &got[first++], where);
        }
    }
    engines_check_cache(g);
    gallop_close(g);
    free(got);
    json_decref(cases);
}

static void results_differ_from_hugging_face(void **state)
{
    static const char *const models[] = {"gpt2",         "gemma3",    "llama3-rope", "mistral", "mixtral",
                                         "qwen2-window", "qwen3-moe", "phi3",        "gpt-oss", "llama4"};
    char folder[64];

    test_of_one_thread();
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        snprintf(folder, sizeof(folder), "%s/golden", models[i]);
        compare(models[i], folder);
    }
}

static void results_with_stop_strings_differ_from_hugging_face(void **state)
{
    test_of_one_thread();
    compare("demo", "demo");
}

/* Hugging Face ends " there" at the stop string "time there", because the prompt ends with "time", and " there was" at
 * " was", whatever min_new_tokens is. Here a stop string is one in the answer, behind its minimum. */
static void a_stop_string_counts_in_the_prompt_or_before_the_minimum(void **state)
{
    enum { BEAMS = 3 };
    static const struct {
        const char *stop;
        int minimum;
    } cases[] = {{"never", 0}, {"time there", 0}, {" was", 6}, {" was", 0}, {" there", 0}};
    struct engines_answer(*got)[BEAMS] = calloc(sizeof(cases) / sizeof(cases[0]), sizeof(*got));
    struct gallop_options o = engines_options(BEAM_MOST, 0, 128);
    struct gallop *g = engines_open("demo", &o);
    char says[256];

    assert_non_null(got);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *c =
            json_pack("{s:[iiiii], s:i, s:i, s:f, s:b, s:f, s:i, s:i, s:[i], s:[s]}", "prompt", 1, 435, 499,
                      262, 409, "num_beams", BEAMS, "num_return_sequences", BEAMS, "length_penalty", 1.0,
                      "early_stopping", 0, "repetition_penalty", 1.0, "min_new_tokens", cases[i].minimum,
                      "max_new_tokens", 8, "eos_token_id", 2, "stop_strings", cases[i].stop);

        assert_non_null(c);
        submit_case(g, c, i * BEAMS, false);
        json_decref(c);
    }
    engines_run(g, got[0]);
    for (size_t i = 1; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (engines_differ(got[i], got[0], BEAMS, says) != (i > 2))
            fail_msg("%s: %s", cases[i].stop, i > 2 ? "the same results" : says);
    gallop_close(g);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_differ_from_hugging_face),
        cmocka_unit_test(results_with_stop_strings_differ_from_hugging_face),
        cmocka_unit_test(a_stop_string_counts_in_the_prompt_or_before_the_minimum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
