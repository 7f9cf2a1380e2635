/* test_fields.c - the table of a request's fields: each at its limits, one beyond, of another type, and
 * null. */
#include "base/buf.h"
#include "base/err.h"
#include "chat/fields.h"
#include "engine/sampling/sampling.h"

#include <math.h>

static struct fields f;
static struct err e;
static char unknown[64];

static void say_unknown(void *ctx, const char *name)
{
    snprintf(unknown, sizeof(unknown), "%s", name);
}

/* The code of {"prompt" or "messages" ..., MEMBER}. */
static int code_of(unsigned endpoint, const char *fmt, ...)
{
    char text[1200];
    va_list ap;
    int rc;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    unknown[0] = 0;
    e = (struct err){0};
    rc = fields_read(&f, endpoint, text, strlen(text), NULL, say_unknown, NULL, &e);
    return rc;
}

/* MEMBER alone is taken, or refused with a sentence that names it. */
static void check(const struct fields_row *r, const char *value, bool good)
{
    for (unsigned endpoint = 1; endpoint < FIELDS_END; endpoint *= 2) {
        int rc;

        if (!(r->endpoints & endpoint))
            continue;
        rc = code_of(endpoint, "{\"%s\":%s}", r->name, value);
        if ((rc == 0) != good)
            fail_msg("%s: %s is %s: %s", r->name, value, good ? "refused" : "taken", e.msg);
        if (rc) {
            char sentence[sizeof(e)];

            err_text(&e, sentence, sizeof(sentence));
            assert_string_equal(f.param, r->name);
            assert_non_null(strstr(sentence, r->name));
        }
        fields_fini(&f);
    }
}

static void check_number(const struct fields_row *r, double x, bool good)
{
    char text[40];

    snprintf(text, sizeof(text), "%.17g", x);
    check(r, text, good);
}

static void every_field_is_held_by_its_range(void **state)
{
    struct fields_row r;

    for (size_t i = 0; fields_row(i, &r); i++) {
        bool whole = strcmp(r.kind, "int") == 0;
        double lo, hi;
        char *end;

        check(&r, "null", true);
        if (!r.range)
            continue;
        lo = strtod(r.range + 1, &end);
        hi = strtod(end + 1, NULL);
        check_number(&r, lo, r.range[0] == '[');
        if (isfinite(hi)) {
            check_number(&r, hi, true);
            check_number(&r, whole ? hi + 1 : nextafter(hi, INFINITY), false);
        }
        check_number(&r, whole ? lo - 1 : nextafter(lo, -INFINITY), false);
        check_number(&r, whole ? lo + 1 : nextafter(lo, INFINITY), true);
        check_number(&r, 0, r.range[0] == '[' ? lo <= 0 : lo < 0);
        check_number(&r, 1, lo <= 1 && hi >= 1);
        if (whole)
            check_number(&r, 0.5, false);
        check(&r, "9223372036854775807", isinf(hi));
        check(&r, "1e300", isinf(hi));
        check(&r, "\"1\"", false);
        check(&r, "true", false);
        check(&r, "[1]", false);
        check(&r, "{}", false);
    }
}

static void every_field_is_held_by_its_type(void **state)
{
    struct fields_row r;

    for (size_t i = 0; fields_row(i, &r); i++)
        if (strcmp(r.kind, "bool") == 0) {
            check(&r, "true", true);
            check(&r, "false", true);
            check(&r, "0", false);
            check(&r, "\"true\"", false);
            check(&r, "[]", false);
        } else if (strcmp(r.kind, "text") == 0 || strcmp(r.kind, "filled") == 0) {
            check(&r, "\"a\"", true);
            check(&r, "\"\"", strcmp(r.kind, "text") == 0);
            check(&r, "\"a\\u0000b\"", false);
            check(&r, "5", false);
            check(&r, "[\"a\"]", false);
            check(&r, "true", false);
        } else if (strcmp(r.kind, "own") == 0) {
            /* `think` is a boolean or a level, `early_stopping` a boolean or "never", `logprobs` of lines a boolean or
             * a number. */
            check(&r, "true",
                  strcmp(r.name, "think") == 0 || strcmp(r.name, "early_stopping") == 0 ||
                      strcmp(r.name, "logprobs") == 0);
            check(&r, "0.5", false);
        } else if (strcmp(r.kind, "empty") == 0) {
            check(&r, "[1]", true);
        } else if (strcmp(r.kind, "never") == 0) {
            check(&r, "17.5", false);
            check(&r, "{\"a\":1}", false);
        }
}

static void no_field_has_two_rows_of_an_endpoint(void **state)
{
    struct fields_row a, b;

    for (size_t i = 0; fields_row(i, &a); i++)
        for (size_t k = i + 1; fields_row(k, &b); k++)
            if ((a.endpoints & b.endpoints) && strcmp(a.name, b.name) == 0)
                fail_msg("%s has two rows", a.name);
}

static void lengths_of_texts_are_limited(void **state)
{
    char text[200];

    for (size_t n = 127; n < 130; n++) {
        memset(text, 'a', n);
        text[n] = 0;
        assert_int_equal(code_of(FIELDS_CHAT, "{\"request_id\":\"%s\"}", text), n > 128 ? ERR_INPUT : 0);
        fields_fini(&f);
    }
    for (int n = 1023; n < 1026; n++) {
        assert_int_equal(code_of(FIELDS_CHAT, "{\"stop\":\"%0*d\"}", n, 0), n > 1024 ? ERR_INPUT : 0);
        fields_fini(&f);
    }
}

static void a_body_is_read_strictly(void **state)
{
    static const char *const wrong[] = {"",
                                        "{",
                                        "[]",
                                        "1",
                                        "null",
                                        "{}{}",
                                        "{\"a\":}",
                                        "{\"a\":01}",
                                        "{a:1}",
                                        "{\"a\":NaN}",
                                        "{\"a\":1,}",
                                        "\xef\xbb\xbf",
                                        "\xef\xbb\xbf\xef\xbb\xbf{}",
                                        "{}\xef\xbb\xbf",
                                        "{\"a\":\"\xff\"}",
                                        "{\"seed\":99999999999999999999}",
                                        "{\"a\":1e999}"};
    char deep[400];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(code_of(FIELDS_CHAT, "%s", wrong[i]), ERR_INPUT);
        fields_fini(&f);
    }
    for (int n = FIELDS_MAX_DEPTH - 1; n <= FIELDS_MAX_DEPTH; n++) {
        snprintf(deep, sizeof(deep), "{\"metadata\":%.*s%.*s}", n,
                 "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", n,
                 "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
        assert_int_equal(code_of(FIELDS_CHAT, "%s", deep), n < FIELDS_MAX_DEPTH ? 0 : ERR_INPUT);
        fields_fini(&f);
        /* brackets behind a quotation mark of the text open nothing */
        assert_int_equal(code_of(FIELDS_CHAT, "{\"user\":\"\\\"%s\"}", deep + strlen("{\"metadata\":")), 0);
        fields_fini(&f);
    }
    assert_int_equal(code_of(FIELDS_CHAT, "{\"nobody\":1,\"metadata\":\"[[\\\"[[\"}"), 0);
    assert_string_equal(unknown, "nobody");
    fields_fini(&f);
}

/* {"metadata":[ and N times VALUE with commas between, ]}: the code. */
static int code_of_many(const char *value, size_t n)
{
    struct buf text = {0};
    int rc;

    buf_str(&text, "{\"metadata\":[");
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_char(&text, ',');
        buf_str(&text, value);
    }
    buf_str(&text, "]}");
    rc = fields_read(&f, FIELDS_CHAT, text.data, text.len, NULL, say_unknown, NULL, &e);
    fields_fini(&f);
    buf_fini(&text);
    return rc;
}

/* A byte or two of JSON may take a hundred bytes as a value. */
static void the_number_of_values_is_limited(void **state)
{
    assert_int_equal(code_of_many("{}", FIELDS_MAX_LISTS - 2), 0);
    assert_int_equal(code_of_many("[]", FIELDS_MAX_LISTS - 1), ERR_INPUT);
    assert_int_equal(code_of_many("1", FIELDS_MAX_VALUES + 1), 0);
    assert_int_equal(code_of_many("1", FIELDS_MAX_VALUES + 2), ERR_INPUT);
}

/* A body with N_FIELDS members, the last of which has N_INNER members: the code. */
static int code_of_members(size_t n_fields, size_t n_inner)
{
    struct buf text = {0};
    int rc;

    buf_char(&text, '{');
    for (size_t i = 1; i < n_fields; i++)
        buf_fmt(&text, "\"k%zu\":\":\",", i);
    buf_str(&text, "\"last\":{");
    for (size_t i = 0; i < n_inner; i++)
        buf_fmt(&text, "%s\"%zu\":0", i ? "," : "", i);
    buf_str(&text, "}}");
    rc = fields_read(&f, FIELDS_CHAT, text.data, text.len, NULL, say_unknown, NULL, &e);
    fields_fini(&f);
    buf_fini(&text);
    return rc;
}

/* A member takes more time than a value of a list. Colons within strings are none. */
static void the_number_of_members_is_limited(void **state)
{
    assert_int_equal(code_of_members(FIELDS_MAX_FIELDS, 3), 0);
    assert_int_equal(code_of_members(FIELDS_MAX_FIELDS + 1, 0), ERR_INPUT);
    assert_string_equal(e.msg, "the body has more than 1024 fields");
    assert_int_equal(code_of_members(1, FIELDS_MAX_MEMBERS - 1), 0);
    assert_int_equal(code_of_members(1, FIELDS_MAX_MEMBERS), ERR_INPUT);
    assert_string_equal(e.msg, "the body has more than 262144 members of objects");
}

static void what_is_not_built_is_refused_unless_it_asks_for_nothing(void **state)
{
    static const struct {
        const char *member;
        int code;
    } cases[] = {{"\"response_format\":{\"type\":\"text\"}", 0},
                 {"\"response_format\":{\"type\":\"json_object\"}", 0},
                 {"\"response_format\":\"json_object\"", ERR_INPUT},
                 {"\"tool_choice\":\"auto\"", 0},
                 {"\"tool_choice\":\"none\"", 0},
                 {"\"tool_choice\":\"required\"", 0},
                 {"\"tool_choice\":{\"type\":\"function\"}", ERR_INPUT},
                 {"\"tool_choice\":{\"type\":\"web_search\"}", ERR_UNSUPPORTED},
                 {"\"use_beam_search\":false", 0},
                 {"\"use_beam_search\":true,\"early_stopping\":\"never\"", 0},
                 {"\"early_stopping\":\"always\"", ERR_INPUT},
                 {"\"modalities\":[\"text\"]", 0},
                 {"\"modalities\":[\"text\",\"audio\"]", ERR_UNSUPPORTED}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(code_of(FIELDS_CHAT, "{%s}", cases[i].member), cases[i].code);
        fields_fini(&f);
    }
}

static void values_arrive(void **state)
{
    assert_int_equal(code_of(FIELDS_COMPLETIONS,
                             "{\"prompt\":[[1],[2]],\"n\":2.0,\"seed\":-3,\"top_p\":0.5,\"stream\":true,"
                             "\"stream_options\":{\"continuous_usage_stats\":true},\"user\":\"u\"}"),
                     0);
    assert_true(f.generation.n == 2 && f.generation.has_seed && f.generation.seed == (uint64_t)-3 &&
                f.sampling->top_p == 0.5 && f.output.stream && !f.output.continuous_usage);
    assert_string_equal(f.user, "u");
    fields_fini(&f);
    assert_int_equal(code_of(FIELDS_COMPLETIONS, "{\"seed\":-1}"), 0);
    assert_true(!f.generation.has_seed && f.generation.n == 1 &&
                !sampling_given(f.sampling, SAMPLING_TEMPERATURE) && f.generation.max_tokens == -1 &&
                f.output.skip_special_tokens);
    fields_fini(&f);
}

/* Lines of `run --batch` have the names of sampling.def, and start from the options of the command line. */
static void a_line_has_the_parameters_of_options(void **state)
{
    static const char line[] = "{\"prompt\":\"x\",\"max_tokens\":5,\"top_p\":0.5,\"logit_bias\":{\"9\":1000},"
                               "\"logprobs\":3,\"frequency_penalty\":7,\"eos_token_id\":4}";
    struct sampling options;

    sampling_default(&options);
    sampling_set_number(&options, SAMPLING_TOP_K, 7);
    sampling_set_number(&options, SAMPLING_TOP_P, 0.25);
    assert_int_equal(fields_read(&f, FIELDS_LINE, line, strlen(line), &options, say_unknown, NULL, &e), 0);
    assert_true(sampling_given(f.sampling, SAMPLING_TOP_K) && f.sampling->top_k == 7);
    assert_true(f.sampling->top_p == 0.5 && f.sampling->max_new_tokens == 5 && f.sampling->logprobs == 3 &&
                f.sampling->frequency_penalty == 7);
    assert_true(f.sampling->n_bias == 1 && f.sampling->bias[0].value == 1000 && f.sampling->n_eos == 1);
    assert_false(sampling_given(f.sampling, SAMPLING_SEED));
    fields_fini(&f);
    assert_int_equal(code_of(FIELDS_LINE, "{\"logprobs\":true,\"top_logprobs\":2}"), 0);
    assert_true(f.output.chat_logprobs && f.output.top_logprobs == 2);
    fields_fini(&f);
}

static void what_a_line_cannot_have_is_refused_and_its_size_is_not_limited(void **state)
{
    static const char *const wrong[] = {"colour", "echo", "max_length", "tool_choice", "top_k"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(code_of(FIELDS_LINE, "{\"%s\":-1}", wrong[i]), ERR_INPUT);
        assert_string_equal(f.param, wrong[i]);
        assert_string_equal(unknown, "");
        fields_fini(&f);
    }
    for (int k = 0; k < 2; k++) {
        assert_int_equal(
            code_of(k ? FIELDS_LINE : FIELDS_CHAT, "{\"documents\":[{\"a\":%.*s%.*s}]}", FIELDS_MAX_DEPTH,
                    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", FIELDS_MAX_DEPTH,
                    "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
            k ? 0 : ERR_INPUT);
        fields_fini(&f);
    }
}

/* A response repeats these fields of its request, when its other fields are forgotten. */
static void what_a_response_repeats_is_kept(void **state)
{
    static const char kept[] =
        "{\"model\":\"m\",\"instructions\":\"i\",\"max_output_tokens\":7,\"metadata\":{\"a\":\"b\"},"
        "\"max_tool_calls\":1,\"tools\":[],\"tool_choice\":\"none\",\"parallel_tool_calls\":false,"
        "\"reasoning\":{},\"text\":{},\"user\":\"u\"";
    json_t *expected;

    assert_int_equal(code_of(FIELDS_RESPONSES, "%s,\"input\":\"long\",\"temperature\":1}", kept), 0);
    expected = json_copy(f.body);
    json_object_del(expected, "input");
    json_object_del(expected, "temperature");
    fields_forget(&f, FIELDS_RESPONSES);
    assert_true(json_equal(f.body, expected));
    json_decref(expected);
    fields_fini(&f);
}

static void of_equal_keys_the_last_counts(void **state)
{
    assert_int_equal(code_of(FIELDS_COMPLETIONS, "{\"n\":2,\"user\":\"u\",\"n\":3}"), 0);
    assert_int_equal(f.generation.n, 3);
    fields_fini(&f);
}

static void an_empty_text_is_as_if_it_were_not_there(void **state)
{
    assert_int_equal(code_of(FIELDS_CHAT, "{\"model\":\"\",\"user\":\"\",\"reasoning_effort\":\"\"}"), 0);
    assert_true(!f.model && !f.user && !f.input.reasoning_effort);
    fields_fini(&f);
    assert_int_equal(code_of(FIELDS_CHAT, "{\"cache_salt\":\"\"}"), ERR_INPUT); /* it would share rows */
    assert_non_null(strstr(e.msg, "expected 1 to 1024"));
    fields_fini(&f);
}

static void a_byte_order_mark_is_passed_over(void **state)
{
    assert_int_equal(code_of(FIELDS_CHAT, "\xef\xbb\xbf{\"n\":3}"), 0);
    assert_int_equal(f.generation.n, 3);
    fields_fini(&f);
}

static int64_t id_at(const json_t *list, size_t i)
{
    assert_true(json_is_integer(json_array_get(list, i)));
    return json_integer_value(json_array_get(list, i));
}

/* -1 means no limit in both, but struct sampling has 0 for it in top_k only. */
static void minus_one_keeps_its_meaning_in_each_field(void **state)
{
    assert_int_equal(code_of(FIELDS_COMPLETIONS, "{\"top_k\":-1,\"dry_penalty_last_n\":-1}"), 0);
    assert_true(f.sampling->top_k == 0 && f.sampling->dry_penalty_last_n == -1);
    fields_fini(&f);
    assert_int_equal(code_of(FIELDS_COMPLETIONS, "{\"top_k\":0,\"dry_penalty_last_n\":0}"), 0);
    assert_true(f.sampling->top_k == 0 && f.sampling->dry_penalty_last_n == 0);
    fields_fini(&f);
    assert_int_equal(code_of(FIELDS_COMPLETIONS, "{\"top_k\":-2}"), ERR_INPUT);
    fields_fini(&f);
    assert_int_equal(code_of(FIELDS_COMPLETIONS, "{\"dry_penalty_last_n\":-2}"), ERR_INPUT);
    fields_fini(&f);
}

/* JavaScript and Python's float() write 16.0. */
static void whole_numbers_may_be_written_as_floats(void **state)
{
    assert_int_equal(code_of(FIELDS_COMPLETIONS,
                             "{\"seed\":1e3,\"max_tokens\":16.0,\"top_k\":5.0,\"stop_token_ids\":[2.0,3],"
                             "\"allowed_token_ids\":[4.0],\"logprob_token_ids\":[5.0],\"prompt\":[6.0,7]}"),
                     0);
    assert_true(f.generation.has_seed && f.generation.seed == 1000 && f.generation.max_tokens == 16 &&
                f.sampling->top_k == 5);
    assert_true(f.sampling->stop_token[0] == 2 && f.sampling->stop_token[1] == 3);
    assert_true(f.sampling->allowed[0] == 4 && f.sampling->logprob_id[0] == 5);
    assert_true(id_at(f.input.prompt, 0) == 6 && id_at(f.input.prompt, 1) == 7);
    fields_fini(&f);
    assert_int_equal(code_of(FIELDS_COMPLETIONS, "{\"prompt\":[[1,2.0],[3.0]],\"seed\":-1.0}"), 0);
    assert_true(!f.generation.has_seed && id_at(json_array_get(f.input.prompt, 0), 1) == 2 &&
                id_at(json_array_get(f.input.prompt, 1), 0) == 3);
    fields_fini(&f);
    assert_int_equal(code_of(FIELDS_DETOKENIZE, "{\"tokens\":[8.0]}"), 0);
    assert_int_equal(id_at(f.input.tokens, 0), 8);
    fields_fini(&f);
    assert_int_equal(code_of(FIELDS_COMPLETIONS, "{\"seed\":9007199254740992.0}"), 0);
    assert_true(f.generation.seed == 1ull << 53);
    fields_fini(&f);
    static const char *const wrong[] = {"{\"seed\":1.5}",
                                        "{\"seed\":9007199254740994.0}",
                                        "{\"seed\":\"1\"}",
                                        "{\"stop_token_ids\":[2.5]}",
                                        "{\"stop_token_ids\":[-1.0]}",
                                        "{\"allowed_token_ids\":[1e10]}",
                                        "{\"prompt\":[1.5]}",
                                        "{\"prompt\":[[1],[0.5]]}"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(code_of(FIELDS_COMPLETIONS, "%s", wrong[i]), ERR_INPUT);
        fields_fini(&f);
    }
}

static void a_tool_without_a_type_is_a_function(void **state)
{
    static const char *const tools[] = {"{\"function\":{\"name\":\"f\"}}",
                                        "{\"type\":null,\"function\":{\"name\":\"f\"}}",
                                        "{\"function\":{\"name\":\"f\"},\"type\":\"function\"}"};

    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
        const json_t *tool;

        assert_int_equal(code_of(FIELDS_CHAT, "{\"tools\":[%s]}", tools[i]), 0);
        tool = json_array_get(f.input.tools, 0);
        assert_string_equal(json_string_value(json_object_get(tool, "type")), "function");
        assert_int_equal(json_object_size(tool), 2);
        assert_string_equal(json_string_value(json_object_get(json_object_get(tool, "function"), "name")),
                            "f");
        fields_fini(&f);
    }
    assert_int_equal(code_of(FIELDS_CHAT, "{\"tools\":[{\"name\":\"f\"}]}"), ERR_INPUT);
    fields_fini(&f);
    assert_int_equal(code_of(FIELDS_CHAT, "{\"tools\":[{\"type\":\"\",\"function\":{\"name\":\"f\"}}]}"),
                     ERR_UNSUPPORTED);
    fields_fini(&f);
}

static void an_option_that_is_not_built_is_told(void **state)
{
    static const struct {
        const char *options, *told;
    } cases[] = {{"\"mirostat\":0,\"tfs_z\":1,\"typical_p\":1.0,\"repeat_last_n\":-1", ""},
                 {"\"mirostat\":1", "options.mirostat"},
                 {"\"tfs_z\":0.5", "options.tfs_z"},
                 {"\"repeat_last_n\":64", "options.repeat_last_n"},
                 {"\"repeat_last_n\":null,\"seed\":1.0,\"num_ctx\":8", ""},
                 {"\"penalize_newline\":true", "options.penalize_newline"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(code_of(FIELDS_OLLAMA_CHAT, "{\"options\":{%s}}", cases[i].options), 0);
        assert_string_equal(unknown, cases[i].told);
        fields_fini(&f);
    }
}

static void a_member_without_effect_is_told(void **state)
{
    static const struct {
        unsigned endpoint;
        const char *field, *told;
    } cases[] = {
        {FIELDS_CHAT, "\"stream_options\":{\"include_usage\":true,\"include_obfuscation\":false}", ""},
        {FIELDS_CHAT, "\"stream_options\":{\"bogus\":1}", "stream_options.bogus"},
        {FIELDS_CHAT, "\"response_format\":{\"type\":\"json_object\",\"schema\":{}}", ""},
        {FIELDS_CHAT, "\"response_format\":{\"type\":\"json_object\",\"zzz\":1}", "response_format.zzz"},
        {FIELDS_CHAT, "\"response_format\":{\"type\":\"structural_tag\",\"structures\":[]}", ""},
        {FIELDS_CHAT,
         "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"strict\":true,"
         "\"description\":\"d\",\"schema\":{\"zzz\":1}}}",
         ""},
        {FIELDS_CHAT,
         "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},\"zzz\":1}}",
         "response_format.json_schema.zzz"},
        {FIELDS_RESPONSES, "\"text\":{\"format\":{\"type\":\"text\"},\"verbosity\":\"low\"}", ""},
        {FIELDS_RESPONSES, "\"text\":{\"zzz\":1}", "text.zzz"},
        {FIELDS_RESPONSES, "\"text\":{\"format\":{\"type\":\"text\",\"zzz\":1}}", "text.format.zzz"},
        {FIELDS_MESSAGES, "\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"}", ""},
        {FIELDS_MESSAGES, "\"thinking\":{\"type\":\"adaptive\",\"zzz\":1}", "thinking.zzz"},
        {FIELDS_MESSAGES, "\"output_config\":{\"effort\":\"low\",\"zzz\":1}", "output_config.zzz"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(code_of(cases[i].endpoint, "{%s}", cases[i].field), 0);
        assert_string_equal(unknown, cases[i].told);
        fields_fini(&f);
    }
}

static void what_was_found_is_said_as_it_was_given(void **state)
{
    static const struct {
        unsigned endpoint;
        const char *body, *sentence;
    } wrong[] = {
        {FIELDS_CHAT, "\"x\"", "the body is a string, expected an object"},
        {FIELDS_CHAT, "[]", "the body is an empty list, expected an object"},
        {FIELDS_CHAT, "true", "the body is true, expected an object"},
        {FIELDS_CHAT, "{\"n\":1.0000001}", "n: found 1.0000001, expected a whole number"},
        {FIELDS_CHAT, "{\"n\":-9223372036854775808}", "n: found -9223372036854775808, expected"},
        {FIELDS_CHAT, "{\"n\":18446744073709551615}", "n: found 1.8446744073709552e+19, expected"},
        {FIELDS_CHAT, "{\"messages\":\"x\"}", "messages: found a string, expected a list of objects"},
        {FIELDS_CHAT, "{\"messages\":[{},5]}", "messages[1]: found 5, expected an object"},
        {FIELDS_CHAT, "{\"stop\":[\"x\",null]}", "stop[1]: found null, expected a string"},
        {FIELDS_CHAT, "{\"stop_token_ids\":[1,2,-3]}", "stop_token_ids[2]: found -3, expected a token id"},
        {FIELDS_CHAT, "{\"allowed_token_ids\":[1.5]}",
         "allowed_token_ids[0]: found 1.5, expected a token id"},
        {FIELDS_COMPLETIONS, "{\"prompt\":[\"a\",1]}",
         "prompt[1]: found 1, expected a string, like the first"},
        {FIELDS_COMPLETIONS, "{\"prompt\":[1,\"a\"]}", "prompt[1]: found a string, expected a token id"},
        {FIELDS_COMPLETIONS, "{\"prompt\":[[1],[]]}",
         "prompt[1]: found an empty list, expected a list of token ids that"},
        {FIELDS_COMPLETIONS, "{\"prompt\":[]}", "prompt: found an empty list, expected a string, a list of"},
        {FIELDS_MESSAGES, "{\"system\":[{\"type\":\"text\",\"text\":\"x\"},{}]}",
         "system[1]: found an object, expected a block of text"},
        {FIELDS_RESPONSES, "{\"input\":[{},\"x\"]}", "input[1]: found a string, expected an object"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(code_of(wrong[i].endpoint, "%s", wrong[i].body), ERR_INPUT);
        if (!strstr(e.msg, wrong[i].sentence))
            fail_msg("%s: %s", wrong[i].body, e.msg);
        fields_fini(&f);
    }
}

static void memory_that_runs_out_is_said(void **state)
{
    size_t before = mem_live_blocks();

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    for (long n = 1;; n++) {
        mem_fail_at(n);
        int rc =
            code_of(FIELDS_CHAT,
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":\"auto\",\"n\":2,"
                    "\"stop_token_ids\":[2.0],\"tools\":[{\"function\":{\"name\":\"f\"}}]}");
        bool failed = mem_failed();

        mem_fail_at(0);
        fields_fini(&f);
        assert_int_equal(mem_live_blocks(), before);
        if (!failed) {
            assert_int_equal(rc, 0);
            break;
        }
        assert_true(rc != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_held_by_its_range),
        cmocka_unit_test(every_field_is_held_by_its_type),
        cmocka_unit_test(no_field_has_two_rows_of_an_endpoint),
        cmocka_unit_test(lengths_of_texts_are_limited),
        cmocka_unit_test(a_body_is_read_strictly),
        cmocka_unit_test(the_number_of_values_is_limited),
        cmocka_unit_test(the_number_of_members_is_limited),
        cmocka_unit_test(what_is_not_built_is_refused_unless_it_asks_for_nothing),
        cmocka_unit_test(values_arrive),
        cmocka_unit_test(a_line_has_the_parameters_of_options),
        cmocka_unit_test(what_a_line_cannot_have_is_refused_and_its_size_is_not_limited),
        cmocka_unit_test(what_a_response_repeats_is_kept),
        cmocka_unit_test(of_equal_keys_the_last_counts),
        cmocka_unit_test(an_empty_text_is_as_if_it_were_not_there),
        cmocka_unit_test(a_byte_order_mark_is_passed_over),
        cmocka_unit_test(minus_one_keeps_its_meaning_in_each_field),
        cmocka_unit_test(whole_numbers_may_be_written_as_floats),
        cmocka_unit_test(a_tool_without_a_type_is_a_function),
        cmocka_unit_test(an_option_that_is_not_built_is_told),
        cmocka_unit_test(a_member_without_effect_is_told),
        cmocka_unit_test(what_was_found_is_said_as_it_was_given),
        cmocka_unit_test(memory_that_runs_out_is_said)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
