/* test_sampling.c - sampling parameters: the values that are read, the errors, and which of the layers
 * (request, model, default) counts. */
#include <math.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/files/folder.h"
#include "base/mem.h"
#include "engine/sampling/public_sampling.h"
#include "engine/sampling/sampling.h"
#include "files.h"
#include "gallop.h"
#include "help.h"
#include "sentence.h"

static struct sampling s;
static struct arena arena;
static struct err e;

static int setup(void **state)
{
    sampling_default(&s);
    arena_init(&arena, MEM_ENGINE);
    e = (struct err){0};
    return 0;
}

static int teardown(void **state)
{
    arena_fini(&arena);
    return 0;
}

static int set(struct sampling *to, const char *json)
{
    json_t *o = json_loads(json, 0, NULL);
    int rc;

    assert_non_null(o);
    rc = sampling_set_json(to, o, "request 3", &arena, &e);
    json_decref(o);
    return rc;
}

static int config(struct sampling *to, const char *text)
{
    return sampling_from_text(text, strlen(text), "m/generation_config.json", 500, to, &arena, &e);
}

static void defaults_are_neutral_and_valid(void **state)
{
    assert_true(s.max_new_tokens == SIZE_MAX && s.min_new_tokens == 0 && s.temperature == 1 && s.top_p == 1);
    assert_true(s.top_k == 0 && s.min_p == 0 && s.repetition_penalty == 1 && s.logprobs == -1 && s.bos == -1);
    assert_true(s.frequency_penalty == 0 && s.presence_penalty == 0 && s.given == 0);
    assert_true(sampling_is_greedy(&s));
    assert_int_equal(sampling_validate(&s, 10, &e), 0);
}

static void every_field_is_read(void **state)
{
    assert_int_equal(
        set(&s,
            "{\"max_new_tokens\":5,\"min_new_tokens\":2,\"thinking_token_budget\":3,"
            "\"do_sample\":true,\"greedy\":false,"
            "\"temperature\":0.5,\"typical_p\":0.75,\"top_n_sigma\":-1,\"xtc_probability\":1,\"xtc_threshold\":0,"
            "\"dry_multiplier\":0,\"dry_base\":1,\"dry_allowed_length\":1024,\"dry_penalty_last_n\":-1,"
            "\"dry_sequence_breakers\":[\"\\n\",\":\"],"
            "\"top_k\":7,\"top_p\":0.25,\"min_p\":0.125,\"repetition_penalty\":1.5,\"frequency_penalty\":-2,"
            "\"presence_penalty\":3,\"logit_bias\":{\"9\":1.5,\"4\":-100},\"stop\":[\"a\",\"\\u00e9\"],"
            "\"stop_token\":[8,3,8],\"bad_words\":[\"c d\"],"
            "\"use_beam_search\":true,\"num_beams\":5,\"length_penalty\":-0.5,\"early_stopping\":\"never\","
            "\"suppress_tokens\":[5,1],\"begin_suppress_tokens\":7,"
            "\"eos_token_id\":2,\"ignore_eos\":true,\"seed\":-1,\"logprobs\":4}"),
        0);
    assert_true(s.use_beam_search && s.num_beams == 5 && s.length_penalty == -0.5 &&
                s.early_stopping == SAMPLING_EARLY_NEVER);
    assert_true(s.max_new_tokens == 5 && s.min_new_tokens == 2 && s.thinking_token_budget == 3 &&
                s.do_sample && !s.greedy && s.temperature == 0.5);
    assert_true(s.top_k == 7 && s.top_p == 0.25 && s.min_p == 0.125 && s.repetition_penalty == 1.5);
    assert_true(s.typical_p == 0.75 && s.top_n_sigma == -1 && s.xtc_probability == 1 && s.xtc_threshold == 0);
    assert_true(s.dry_multiplier == 0 && s.dry_base == 1 && s.dry_allowed_length == 1024 &&
                s.dry_penalty_last_n == -1 && s.n_dry_sequence_breakers == 2);
    assert_true(s.frequency_penalty == -2 && s.presence_penalty == 3 && s.ignore_eos && s.seed == UINT64_MAX);
    assert_int_equal(s.logprobs, 4);
    assert_true(s.n_bias == 2 && s.bias[0].id == 4 && s.bias[0].value == -100 && s.bias[1].id == 9);
    assert_true(s.n_stop == 2 && s.stop[1].n == 2 && strcmp(s.stop[0].s, "a") == 0);
    assert_true(s.n_stop_token == 2 && s.stop_token[0] == 3 && s.stop_token[1] == 8);
    assert_true(s.n_bad_words == 1 && s.bad_words[0].n == 3);
    assert_true(s.n_eos == 1 && s.eos[0] == 2);
    assert_true(s.n_suppress == 2 && s.suppress[0] == 1 && s.suppress[1] == 5);
    assert_true(s.n_begin_suppress == 1 && s.begin_suppress[0] == 7);
    for (int f = 0; f < SAMPLING_N_FIELDS; f++)
        assert_int_equal(sampling_given(&s, (enum sampling_field)f), f != SAMPLING_MAX_LENGTH);
    assert_int_equal(sampling_validate(&s, 10, &e), 0);
}

static void other_forms_of_lists_are_read(void **state)
{
    assert_int_equal(set(&s, "{\"stop\":\"one\",\"logit_bias\":[[5,1],[2,-1.5]],\"stop_token_ids\":4}"), 0);
    assert_true(s.n_stop == 1 && s.n_bias == 2 && s.bias[0].id == 2 && s.bias[0].value == -1.5f);
    assert_true(s.n_stop_token == 1 && s.stop_token[0] == 4);
    assert_int_equal(set(&s, "{\"stop_strings\":[],\"logit_bias\":{},\"stop_token\":[]}"), 0);
    assert_true(s.n_stop == 0 && s.n_bias == 0 && s.n_stop_token == 0);
    assert_int_equal(set(&s, "{\"max_completion_tokens\":8,\"min_tokens\":3}"), 0);
    assert_true(s.max_new_tokens == 8 && s.min_new_tokens == 3);
    assert_int_equal(set(&s, "{\"max_tokens\":9}"), 0);
    assert_int_equal(s.max_new_tokens, 9);
    assert_int_equal(set(&s, "{\"top_k\":5.0}"), 0); /* some programs count in floats */
    assert_int_equal(s.top_k, 5);
    assert_int_equal(set(&s, "{\"dry_sequence_breakers\":[]}"), 0); /* none, and not the usual ones */
    assert_true(s.n_dry_sequence_breakers == 0 && sampling_given(&s, SAMPLING_DRY_SEQUENCE_BREAKERS));
}

static void null_is_not_given(void **state)
{
    assert_int_equal(set(&s, "{\"top_k\":null,\"stop\":null,\"seed\":null}"), 0);
    assert_int_equal(s.given, 0);
}

#define REFUSED(json, sentence)                             \
    do {                                                    \
        assert_int_equal(set(&s, json), ERR_INPUT);         \
        assert_string_equal(e.msg, "request 3: " sentence); \
    } while (0)

static void wrong_scalars_are_refused_with_field_found_and_expected(void **state)
{
    REFUSED("{\"temperature\":-0.5}", "temperature: found -0.5, expected a number in [0,inf)");
    REFUSED("{\"temperature\":\"hot\"}", "temperature: found a string, expected a number in [0,inf)");
    REFUSED("{\"top_k\":-1}", "top_k: found -1, expected a whole number in [0,inf)");
    REFUSED("{\"top_k\":5.5}", "top_k: found 5.5, expected a whole number in [0,inf)");
    REFUSED("{\"top_p\":0}", "top_p: found 0, expected a number in (0,1]");
    REFUSED("{\"top_p\":1.5}", "top_p: found 1.5, expected a number in (0,1]");
    REFUSED("{\"min_p\":-0.1}", "min_p: found -0.1, expected a number in [0,1]");
    REFUSED("{\"min_p\":1.1}", "min_p: found 1.1, expected a number in [0,1]");
    REFUSED("{\"typical_p\":0}", "typical_p: found 0, expected a number in (0,1]");
    REFUSED("{\"top_n_sigma\":-1.5}", "top_n_sigma: found -1.5, expected a number in [-1,inf)");
    REFUSED("{\"xtc_probability\":1.01}", "xtc_probability: found 1.01, expected a number in [0,1]");
    REFUSED("{\"xtc_threshold\":-0.01}", "xtc_threshold: found -0.01, expected a number in [0,1]");
    REFUSED("{\"dry_multiplier\":-1}", "dry_multiplier: found -1, expected a number in [0,inf)");
    REFUSED("{\"dry_base\":0.9}", "dry_base: found 0.9, expected a number in [1,inf)");
    REFUSED("{\"dry_allowed_length\":1025}",
            "dry_allowed_length: found 1025, expected a whole number in [0,1024]");
    REFUSED("{\"dry_penalty_last_n\":-2}",
            "dry_penalty_last_n: found -2, expected a whole number in [-1,2147483647]");
    REFUSED("{\"repetition_penalty\":0}", "repetition_penalty: found 0, expected a number in (0,inf)");
    REFUSED("{\"frequency_penalty\":true}", "frequency_penalty: found true, expected a number");
    REFUSED("{\"do_sample\":1}", "do_sample: found 1, expected true or false");
    REFUSED("{\"max_new_tokens\":-3}", "max_new_tokens: found -3, expected a whole number in [0,inf)");
    REFUSED("{\"logprobs\":1025}", "logprobs: found 1025, expected a whole number in [0,1024]");
    REFUSED("{\"logprobs\":false}", "logprobs: found false, expected a whole number in [0,1024]");
    REFUSED("{\"seed\":0.5}", "seed: found 0.5, expected a whole number of 64 bits");
    REFUSED("{\"seed\":{}}", "seed: found an object, expected a whole number of 64 bits");
}

static void wrong_lists_are_refused_with_field_found_and_expected(void **state)
{
    char json[8192], *at = json;

    REFUSED("{\"logit_bias\":{\"x\":1}}", "logit_bias: found the key \"x\", expected a token id");
    REFUSED("{\"logit_bias\":{\"-1\":1}}", "logit_bias: found the key \"-1\", expected a token id");
    REFUSED("{\"logit_bias\":{\"\":1}}", "logit_bias: found the key \"\", expected a token id");
    REFUSED("{\"logit_bias\":{\"4294967296\":1}}",
            "logit_bias: found the key 4294967296, expected a token id");
    REFUSED("{\"logit_bias\":{\"1\":\"a\"}}", "logit_bias: found a string, expected a finite number");
    REFUSED("{\"logit_bias\":{\"1\":1e300}}", "logit_bias: found 1e+300, expected a finite number");
    REFUSED("{\"logit_bias\":[[1,2],[3]]}",
            "logit_bias: found a list, expected a pair of token id and value");
    REFUSED("{\"logit_bias\":[[1,2],[1,3]]}", "logit_bias: token 1 appears twice");
    REFUSED("{\"logit_bias\":[[-1,2]]}", "logit_bias: found the key -1, expected a token id");
    REFUSED("{\"logit_bias\":3}",
            "logit_bias: found 3, expected an object of token ids and values, or a list of pairs");
    REFUSED("{\"stop\":\"\"}",
            "stop: found an empty string, expected a non-empty string, or a list of non-empty strings");
    REFUSED("{\"stop\":[\"a\",5]}",
            "stop: found 5, expected a non-empty string, or a list of non-empty strings");
    REFUSED("{\"stop_token\":[1,-1]}", "stop_token: found -1, expected a token id");
    REFUSED("{\"stop_token\":2147483648}", "stop_token: found 2147483648, expected a token id");
    REFUSED("{\"eos_token_id\":[\"2\"]}", "eos_token_id: found a string, expected a token id");
    at += sprintf(at, "{\"stop\":[\"a\"");
    for (int i = 0; i < SAMPLING_MAX_STOPS; i++)
        at += sprintf(at, ",\"b\"");
    sprintf(at, "]}");
    REFUSED(json, "stop: found 65 strings, at most 64 are supported");
    sprintf(json, "{\"stop\":\"%01025d\"}", 0);
    REFUSED(json, "stop: found a string of 1025 bytes, at most 1024 are supported");
    sprintf(json, "{\"bad_words\":\"%0129d\"}", 0);
    REFUSED(json, "bad_words: found a string of 129 bytes, at most 128 are supported");
    sprintf(json, "{\"dry_sequence_breakers\":\"%041d\"}", 0);
    REFUSED(json, "dry_sequence_breakers: found a string of 41 bytes, at most 40 are supported");
    at = json + sprintf(json, "{\"dry_sequence_breakers\":[\"a\"");
    for (int i = 0; i < SAMPLING_MAX_BREAKERS; i++)
        at += sprintf(at, ",\"b\"");
    sprintf(at, "]}");
    REFUSED(json, "dry_sequence_breakers: found 33 strings, at most 32 are supported");
    REFUSED("{\"bad_words\":[\"\"]}",
            "bad_words: found an empty string, expected a non-empty string, or a list of non-empty strings");
}

static void unknown_names_are_refused(void **state)
{
    REFUSED("{\"top_k\":5,\"tempreature\":1}", "tempreature: unknown sampling parameter");
    REFUSED("{\"max_length\":5}", "max_length: unknown sampling parameter");
    REFUSED("{\"max_tokens\":5,\"max_new_tokens\":5}",
            "max_tokens: max_new_tokens is given twice, under two names");
    REFUSED("{\"min_new_tokens\":1,\"min_tokens\":2}",
            "min_tokens: min_new_tokens is given twice, under two names");
    REFUSED("[]", "expected a JSON object of sampling parameters");
}

static void a_generation_config_is_read(void **state)
{
    assert_int_equal(
        config(&s, "{\"_from_model_config\":true,\"bos_token_id\":1,\"pad_token_id\":0,\"do_sample\":true,"
                   "\"temperature\":0.6,\"top_p\":0.9,\"top_k\":20,\"repetition_penalty\":1.05,"
                   "\"eos_token_id\":[9,2,9],\"max_length\":4096,\"max_new_tokens\":2048,"
                   "\"stop_strings\":[\"x\"],\"transformers_version\":\"4.44.0\",\"min_p\":null,"
                   /* names of requests, which such a file does not have */
                   "\"max_tokens\":16,\"max_completion_tokens\":\"auto\",\"min_tokens\":-1}"),
        0);
    assert_true(s.do_sample && s.temperature == 0.6 && s.top_p == 0.9 && s.top_k == 20 &&
                s.repetition_penalty == 1.05);
    assert_true(s.n_eos == 2 && s.eos[0] == 2 && s.eos[1] == 9 && s.bos == 1 && s.pad == 0);
    assert_true(s.max_length == 4096 && s.max_new_tokens == 2048 && s.n_stop == 1);
    assert_false(sampling_given(&s, SAMPLING_MIN_P));
    assert_int_equal(config(&s, "{\"eos_token_id\":-1,\"pad_token_id\":-1,\"bos_token_id\":null}"), 0);
    assert_true(s.n_eos == 0 && s.pad == -1 && s.bos == -1 && !s.do_sample && s.temperature == 1);
}

static void a_broken_generation_config_is_refused_with_the_file_named(void **state)
{
    assert_int_equal(config(&s, "{\"temperature\":\n,}"), ERR_INPUT);
    assert_non_null(strstr(e.msg, "m/generation_config.json: at byte 16 (line 2): "));
    assert_int_equal(config(&s, ""), ERR_INPUT);
    assert_int_equal(config(&s, "{\"top_k\":1,\"top_k\":2}"), ERR_INPUT);
    assert_non_null(strstr(e.msg, "m/generation_config.json: at byte 19: duplicate key \"top_k\""));
    assert_int_equal(config(&s, "[]"), ERR_INPUT);
    assert_string_equal(e.msg, "m/generation_config.json: expected a JSON object");
    assert_int_equal(config(&s, "{\"temperature\":\"0.6\"}"), ERR_INPUT);
    assert_string_equal(
        e.msg, "m/generation_config.json: temperature: found a string, expected a number in [0,inf)");
}

/* Runs config() and returns what it writes to standard error. */
static const char *warning_of(const char *text)
{
    help_listen();
    assert_int_equal(config(&s, text), 0);
    return help_said();
}

static void a_generation_config_does_not_ask_for_beam_search(void **state)
{
    struct sampling config, merged, user;
    struct arena a;
    static const char text[] = "{\"num_beams\":4,\"length_penalty\":0.5,\"early_stopping\":\"never\"}";

    arena_init(&a, MEM_ENGINE);
    assert_int_equal(sampling_from_text(text, sizeof(text) - 1, "x", 500, &config, &a, &e), 0);
    sampling_default(&user);
    sampling_merge(&merged, &user, &config);
    assert_true(merged.num_beams == 1 && merged.length_penalty == 0.5 &&
                merged.early_stopping == SAMPLING_EARLY_NEVER);
    assert_false(sampling_is_search(&merged));
    arena_fini(&a);
}

static void other_decoding_is_warned_of_once(void **state)
{
    assert_string_equal(
        warning_of("{\"num_beams\":4,\"top_k\":5,\"epsilon_cutoff\":0.9,\"forced_eos_token_id\":1}"),
        "gallop: warning: m/generation_config.json: ignored fields that select unsupported decoding "
        "methods: num_beams, epsilon_cutoff, forced_eos_token_id\n");
    assert_string_equal(
        warning_of("{\"num_beams\":1,\"typical_p\":1.0,\"penalty_alpha\":null,\"bad_words_ids\":null,"
                   "\"suppress_tokens\":[],\"no_repeat_ngram_size\":0,\"use_cache\":true,\"new\":1}"),
        "");
}

static void token_ids_outside_the_vocabulary_are_dropped_and_named(void **state)
{
    static const char *const fields[] = {"eos_token_id", "suppress_tokens", "begin_suppress_tokens",
                                         "stop_token"};
    char text[128], wanted[160];

    for (size_t i = 0; i < 4; i++) {
        const int32_t *id;
        size_t n;

        snprintf(text, sizeof(text), "{\"%s\":[500, 499, 2147483647, 501, 3, -1]}", fields[i]);
        snprintf(
            wanted, sizeof(wanted),
            "gallop: warning: m/generation_config.json: %s: ignored token 500 and 2 more: the vocabulary has 500 "
            "tokens\n",
            fields[i]);
        assert_string_equal(warning_of(text), wanted);
        id = i == 0 ? s.eos : i == 1 ? s.suppress : i == 2 ? s.begin_suppress : s.stop_token;
        n = i == 0 ? s.n_eos : i == 1 ? s.n_suppress : i == 2 ? s.n_begin_suppress : s.n_stop_token;
        assert_true(n == 2 && id[0] == 3 && id[1] == 499);
        assert_int_equal(sampling_validate(&s, 500, &e), 0);
    }
    assert_string_equal(
        warning_of("{\"eos_token_id\":500,\"bos_token_id\":499,\"pad_token_id\":500}"),
        "gallop: warning: m/generation_config.json: pad_token_id: ignored token 500: the vocabulary "
        "has 500 tokens\n"
        "gallop: warning: m/generation_config.json: eos_token_id: ignored token 500: the vocabulary "
        "has 500 tokens\n");
    assert_true(s.n_eos == 0 && s.bos == 499 && s.pad == -1);
    assert_string_equal(
        warning_of("{\"logit_bias\":{\"500\":1,\"499\":2,\"600\":3}}"),
        "gallop: warning: m/generation_config.json: logit_bias: ignored token 500 and 1 more: the "
        "vocabulary has 500 tokens\n");
    assert_true(s.n_bias == 1 && s.bias[0].id == 499 && s.bias[0].value == 2);
    assert_string_equal(warning_of("{\"eos_token_id\":[499],\"logit_bias\":{\"499\":2}}"), "");
}

/* The ids of a request are not dropped, but refused. */
static void token_ids_of_a_request_outside_the_vocabulary_are_refused(void **state)
{
    static const char *const fields[] = {"eos_token_id", "suppress_tokens", "begin_suppress_tokens",
                                         "stop_token", "allowed_token_ids"};
    char text[128];

    for (size_t i = 0; i < 5; i++) {
        for (int last = 499; last <= 500; last++) {
            sampling_default(&s);
            snprintf(text, sizeof(text), "{\"%s\":[3, %d]}", fields[i], last);
            assert_int_equal(set(&s, text), 0);
            assert_int_equal(sampling_validate(&s, 500, &e), last == 500 ? ERR_INPUT : 0);
        }
        assert_non_null(strstr(e.msg, "found token 500, but the vocabulary has 500 tokens"));
        assert_string_equal(e.subject, fields[i]);
    }
}

static void a_folder_without_generation_config_is_neutral(void **state)
{
    static char zeros[1100000];
    const char *dir = files_folder();

    memset(zeros, '0', sizeof(zeros));
    assert_int_equal(sampling_from_generation_config(folder_at(dir), 500, &s, &arena, &e), 0);
    assert_true(s.given == 0 && s.temperature == 1);
    files_write_in(dir, "generation_config.json", "{\"top_k\": 3}", 12);
    assert_int_equal(sampling_from_generation_config(folder_at(dir), 500, &s, &arena, &e), 0);
    assert_true(s.top_k == 3 && s.given == 1 << SAMPLING_TOP_K);
    files_write_in(dir, "generation_config.json", zeros, sizeof(zeros));
    assert_int_equal(sampling_from_generation_config(folder_at(dir), 500, &s, &arena, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "1100000 bytes"));
}

static void the_users_word_beats_the_models_and_that_the_neutral(void **state)
{
    struct sampling user, model, out;

    sampling_default(&user);
    assert_int_equal(
        config(
            &model,
            "{\"do_sample\":true,\"temperature\":0.6,\"top_p\":0.9,\"eos_token_id\":2,\"pad_token_id\":7}"),
        0);
    assert_int_equal(set(&user, "{\"temperature\":1.5,\"stop\":\"x\",\"logit_bias\":{\"1\":2}}"), 0);
    sampling_merge(&out, &user, &model);
    assert_true(out.temperature == 1.5 && out.top_p == 0.9 && out.do_sample && out.top_k == 0 &&
                out.n_eos == 1);
    assert_true(out.n_stop == 1 && out.n_bias == 1 && out.pad == 7 && !sampling_is_greedy(&out));
    assert_true(sampling_given(&out, SAMPLING_TOP_P) && !sampling_given(&out, SAMPLING_TOP_K));

    sampling_default(&user);
    /* This is given, although it is neutral. */
    assert_int_equal(set(&user, "{\"top_p\":1,\"eos_token_id\":[]}"), 0);
    sampling_merge(&out, &user, &model);
    assert_true(out.top_p == 1 && out.n_eos == 0 && out.temperature == 0.6);
    sampling_merge(&model, &user, &model); /* in place */
    assert_true(model.top_p == 1 && model.temperature == 0.6);
}

static bool greedy_of(const char *user_json, const char *model_json)
{
    struct sampling user, model, out;

    sampling_default(&user);
    assert_int_equal(set(&user, user_json), 0);
    assert_int_equal(config(&model, model_json), 0);
    sampling_merge(&out, &user, &model);
    return sampling_is_greedy(&out);
}

static void a_request_is_greedy_unless_it_asks_for_sampling(void **state)
{
    assert_true(greedy_of("{}", "{}"));
    assert_true(
        /* In Hugging Face's files, do_sample counts. */
        greedy_of("{}", "{\"temperature\":0.6,\"top_p\":0.9}"));
    assert_false(greedy_of("{}", "{\"do_sample\":true}"));
    assert_false(greedy_of("{\"do_sample\":true}", "{}"));
    assert_true(greedy_of("{\"do_sample\":false}", "{\"do_sample\":true}"));
    assert_true(greedy_of("{\"greedy\":true}", "{\"do_sample\":true}"));
    assert_true(greedy_of("{\"greedy\":true,\"do_sample\":true,\"temperature\":2}", "{}"));
    assert_true(greedy_of("{\"temperature\":0}", "{\"do_sample\":true}"));
    assert_true(greedy_of("{\"temperature\":9e-6}", "{\"do_sample\":true}"));
    assert_false(greedy_of("{\"temperature\":2e-5}", "{\"do_sample\":true}"));
    assert_false(greedy_of("{\"temperature\":0.8}", "{}")); /* The request sets it explicitly. */
    assert_false(greedy_of("{\"temperature\":0.8}", "{\"do_sample\":false}"));
    assert_false(greedy_of("{\"top_p\":0.5}", "{}"));
    assert_true(greedy_of("{\"temperature\":0.8,\"do_sample\":false}", "{}"));
    assert_true(greedy_of("{\"seed\":5,\"repetition_penalty\":1.2}", "{}"));
}

/* Each field alone, from the user and from the model, with and without do_sample in the model's file. */
static void each_field_alone_asks_for_sampling_or_does_not(void **state)
{
    static const struct {
        const char *field;
        bool asks; /* Sampling is on, unless the user says otherwise. */
    } of[SAMPLING_N_FIELDS] = {
        [SAMPLING_MAX_NEW_TOKENS] = {"\"max_new_tokens\":9", false},
        [SAMPLING_MIN_NEW_TOKENS] = {"\"min_new_tokens\":1", false},
        [SAMPLING_THINKING_TOKEN_BUDGET] = {"\"thinking_token_budget\":1", false},
        [SAMPLING_DO_SAMPLE] = {"\"do_sample\":true", true},
        [SAMPLING_GREEDY] = {"\"greedy\":false", false},
        [SAMPLING_TEMPERATURE] = {"\"temperature\":0.7", true},
        [SAMPLING_TOP_K] = {"\"top_k\":5", true},
        [SAMPLING_TOP_P] = {"\"top_p\":0.5", true},
        [SAMPLING_MIN_P] = {"\"min_p\":0.1", true},
        [SAMPLING_TYPICAL_P] = {"\"typical_p\":0.5", true},
        [SAMPLING_TOP_N_SIGMA] = {"\"top_n_sigma\":1", true},
        [SAMPLING_XTC_PROBABILITY] = {"\"xtc_probability\":0.5", true},
        [SAMPLING_XTC_THRESHOLD] = {"\"xtc_threshold\":0.2", false},
        [SAMPLING_DRY_MULTIPLIER] = {"\"dry_multiplier\":1", false},
        [SAMPLING_DRY_BASE] = {"\"dry_base\":2", false},
        [SAMPLING_DRY_ALLOWED_LENGTH] = {"\"dry_allowed_length\":3", false},
        [SAMPLING_DRY_PENALTY_LAST_N] = {"\"dry_penalty_last_n\":64", false},
        [SAMPLING_DRY_SEQUENCE_BREAKERS] = {"\"dry_sequence_breakers\":[\"x\"]", false},
        [SAMPLING_REPETITION_PENALTY] = {"\"repetition_penalty\":1.2", false},
        [SAMPLING_FREQUENCY_PENALTY] = {"\"frequency_penalty\":0.5", false},
        [SAMPLING_PRESENCE_PENALTY] = {"\"presence_penalty\":0.5", false},
        [SAMPLING_LOGIT_BIAS] = {"\"logit_bias\":{\"1\":2}", false},
        [SAMPLING_STOP] = {"\"stop\":\"x\"", false},
        [SAMPLING_STOP_TOKEN] = {"\"stop_token\":3", false},
        [SAMPLING_BAD_WORDS] = {"\"bad_words\":[\"x\"]", false},
        [SAMPLING_EOS_TOKEN_ID] = {"\"eos_token_id\":2", false},
        [SAMPLING_SUPPRESS_TOKENS] = {"\"suppress_tokens\":2", false},
        [SAMPLING_BEGIN_SUPPRESS_TOKENS] = {"\"begin_suppress_tokens\":2", false},
        [SAMPLING_IGNORE_EOS] = {"\"ignore_eos\":true", false},
        [SAMPLING_SEED] = {"\"seed\":4", false},
        [SAMPLING_LOGPROBS] = {"\"logprobs\":2", false},
        [SAMPLING_USE_BEAM_SEARCH] = {"\"use_beam_search\":true", false},
        [SAMPLING_NUM_BEAMS] = {"\"num_beams\":2", false},
        [SAMPLING_LENGTH_PENALTY] = {"\"length_penalty\":2", false},
        [SAMPLING_EARLY_STOPPING] = {"\"early_stopping\":true", false},
    };

    for (int f = 0; f < SAMPLING_N_FIELDS; f++) {
        char alone[80], refused[120];

        if (f == SAMPLING_MAX_LENGTH) /* A request cannot set this. */
            continue;
        assert_non_null(of[f].field);
        snprintf(alone, sizeof(alone), "{%s}", of[f].field);
        snprintf(refused, sizeof(refused), "{%s,\"do_sample\":false}", of[f].field);
        if (greedy_of(alone, "{}") != !of[f].asks || greedy_of(alone, "{\"do_sample\":false}") != !of[f].asks)
            fail_msg("%s alone asks for sampling, or does not", of[f].field);
        if (greedy_of(alone, "{\"do_sample\":true}"))
            fail_msg("%s takes the model's do_sample away", of[f].field);
        if (f != SAMPLING_DO_SAMPLE && !greedy_of(refused, "{\"do_sample\":true}"))
            fail_msg("%s goes before the user's do_sample", of[f].field);
        if (f != SAMPLING_DO_SAMPLE &&
            !greedy_of("{}", alone)) /* Only do_sample counts in the model's file. */
            fail_msg("%s of the model asks for sampling", of[f].field);
    }
}

static void limits_that_contradict_each_other_are_settled_or_refused(void **state)
{
    struct sampling user, model, out;

    sampling_default(&user);
    assert_int_equal(config(&model, "{\"min_new_tokens\":10,\"max_new_tokens\":20}"), 0);
    assert_int_equal(set(&user, "{\"max_new_tokens\":5}"), 0);
    sampling_merge(&out, &user, &model);
    assert_true(out.min_new_tokens == 5 && out.max_new_tokens == 5);
    sampling_default(&user);
    assert_int_equal(set(&user, "{\"min_new_tokens\":30}"), 0);
    sampling_merge(&out, &user, &model);
    assert_true(out.min_new_tokens == 30 && out.max_new_tokens == 30);
    assert_int_equal(set(&user, "{\"max_new_tokens\":5}"), 0);
    sampling_merge(&out, &user, &model);
    assert_int_equal(sampling_validate(&out, 10, &e), ERR_INPUT);
    assert_string_equal(
        sentence_of(&e),
        "min_new_tokens: found 30, expected at most 5, the maximum number of tokens to generate");
}

#define INVALID(sentence)                                           \
    do {                                                            \
        assert_int_equal(sampling_validate(&s, 10, &e), ERR_INPUT); \
        assert_string_equal(sentence_of(&e), sentence);             \
        sampling_default(&s);                                       \
    } while (0)

static void a_record_filled_by_hand_is_checked(void **state)
{
    struct sampling_bias bias[2] = {{.id = 3, .value = 1}, {.id = 10, .value = 1}};
    struct sampling_str stop = {.s = "\xff", .n = 1};
    int32_t ids[] = {1, 10};

    s.temperature = NAN, sampling_mark(&s, SAMPLING_TEMPERATURE);
    INVALID("temperature: found nan, expected a number in [0,inf)");
    s.top_p = 0, sampling_mark(&s, SAMPLING_TOP_P);
    INVALID("top_p: found 0, expected a number in (0,1]");
    s.frequency_penalty = INFINITY, sampling_mark(&s, SAMPLING_FREQUENCY_PENALTY);
    INVALID("frequency_penalty: found inf, expected a number");
    s.logprobs = -2, sampling_mark(&s, SAMPLING_LOGPROBS);
    INVALID("logprobs: found -2, expected a whole number in [0,1024]");
    s.bias = bias, s.n_bias = 2;
    INVALID("logit_bias: found token 10, but the vocabulary has 10 tokens");
    bias[1].id = 3;
    s.bias = bias, s.n_bias = 2;
    INVALID("logit_bias: token 3 appears twice or out of order");
    bias[0].value = -INFINITY;
    s.bias = bias, s.n_bias = 1;
    INVALID("logit_bias: the bias of token 3 is not finite");
    s.stop_token = ids, s.n_stop_token = 2;
    INVALID("stop_token: found token 10, but the vocabulary has 10 tokens");
    s.stop = &stop, s.n_stop = 1;
    INVALID("stop: string 0 has 1 bytes, expected 1 to 1024 bytes of valid UTF-8");
    s.n_stop = 0;
    s.bad_words = &stop, s.n_bad_words = 1;
    INVALID("bad_words: string 0 has 1 bytes, expected 1 to 128 bytes of valid UTF-8");
    s.eos = ids, s.n_eos = 2;
    INVALID("eos_token_id: found token 10, but the vocabulary has 10 tokens");
}

static void end_tokens_are_added_in_order(void **state)
{
    static const int32_t want[] = {1, 4, 9};

    for (int k = 0; k < 2; k++) {
        assert_int_equal(sampling_add_eos(&s, 4, &arena, &e), 0);
        assert_int_equal(sampling_add_eos(&s, 9, &arena, &e), 0);
        assert_int_equal(sampling_add_eos(&s, 1, &arena, &e), 0);
        assert_int_equal(sampling_add_eos(&s, -1, &arena, &e), 0);
    }
    assert_int_equal(s.n_eos, 3);
    assert_memory_equal(s.eos, want, sizeof(want));
    assert_true(sampling_has_id(s.eos, 3, 4) && !sampling_has_id(s.eos, 3, 5) &&
                !sampling_has_id(s.eos, 3, 10));
    assert_false(sampling_has_id(NULL, 0, 0));
}

static void running_out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    static const char text[] =
        "{\"stop_strings\":[\"a\",\"a string that outgrows the first buffer of a reader\"],"
        "\"eos_token_id\":[1,2],\"logit_bias\":{\"1\":2},\"top_k\":5}";
    size_t blocks = mem_live_blocks();
    bool failed = true;

    for (long n = 1; failed; n++) {
        struct arena a;
        int rc;

        arena_init(&a, MEM_ENGINE);
        mem_fail_at(n);
        rc = sampling_from_text(text, sizeof(text) - 1, "f", 500, &s, &a, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(rc, failed ? ERR_NOMEM : 0);
        arena_fini(&a);
        assert_int_equal(mem_live_blocks(), blocks);
    }
}

/* A list without entries, which differs from none: a repetition ends nowhere. */
static void an_empty_list_of_breakers_is_given(void **state)
{
    static const char *const list[] = {"x"};
    struct gallop_sampling p;
    struct arena a;

    arena_init(&a, MEM_ENGINE);
    public_sampling_init(&p);
    assert_int_equal(public_sampling_read(&p, &s, &a, NULL), 0);
    assert_false(sampling_given(&s, SAMPLING_DRY_SEQUENCE_BREAKERS));
    p.dry_sequence_breakers = list;
    assert_int_equal(public_sampling_read(&p, &s, &a, NULL), 0);
    assert_true(sampling_given(&s, SAMPLING_DRY_SEQUENCE_BREAKERS));
    assert_int_equal(s.n_dry_sequence_breakers, 0);
    p.n_dry_sequence_breakers = 1;
    assert_int_equal(public_sampling_read(&p, &s, &a, NULL), 0);
    assert_int_equal(s.n_dry_sequence_breakers, 1);
    arena_fini(&a);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(defaults_are_neutral_and_valid),
        TEST(every_field_is_read),
        TEST(other_forms_of_lists_are_read),
        TEST(null_is_not_given),
        TEST(wrong_scalars_are_refused_with_field_found_and_expected),
        TEST(wrong_lists_are_refused_with_field_found_and_expected),
        TEST(unknown_names_are_refused),
        TEST(a_generation_config_is_read),
        TEST(a_broken_generation_config_is_refused_with_the_file_named),
        TEST(a_generation_config_does_not_ask_for_beam_search),
        TEST(other_decoding_is_warned_of_once),
        TEST(token_ids_outside_the_vocabulary_are_dropped_and_named),
        TEST(token_ids_of_a_request_outside_the_vocabulary_are_refused),
        TEST(a_folder_without_generation_config_is_neutral),
        TEST(the_users_word_beats_the_models_and_that_the_neutral),
        TEST(a_request_is_greedy_unless_it_asks_for_sampling),
        TEST(each_field_alone_asks_for_sampling_or_does_not),
        TEST(limits_that_contradict_each_other_are_settled_or_refused),
        TEST(a_record_filled_by_hand_is_checked),
        TEST(end_tokens_are_added_in_order),
        TEST(an_empty_list_of_breakers_is_given),
        TEST(running_out_of_memory_is_reported_and_leaks_nothing),
    };

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
