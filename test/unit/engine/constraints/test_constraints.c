/* test_constraints.c - constrained answers: what they are, how they end, and that they are the same alone and
 * in company, whatever the cache, the size of a step, the number of threads, and preemption.
 */
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/threads/thread.h"
#include "engine/constraints/constraints.h"
#include "engines.h"
#include "ways.h"

enum { SCHEMA = 5, TOOL = 6, CHOICES = 7 /* three answers */, N = 10 };

static const char city_schema[] =
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"pattern\":\"^[A-Z][a-z]{2,8}$\"},"
    "\"size\":{\"enum\":[\"small\",\"large\"]},\"n\":{\"type\":\"integer\",\"minimum\":7,\"maximum\":9999},"
    "\"note\":{\"type\":\"string\",\"pattern\":\"^[a-z ]{60,80}$\"}},"
    "\"required\":[\"city\",\"size\",\"n\",\"note\"],\"additionalProperties\":false}",
                  forced_call[] =
                      "{\"markup\":\"hermes\",\"required\":true,\"functions\":[{\"name\":\"f\",\"parameters\":{"
                      "\"properties\":{\"a\":{\"enum\":[\"on\",\"off\"]}},\"required\":[\"a\"],"
                      "\"additionalProperties\":false}}]}";

/* What the requests ask for. NULL in all members: nothing. */
static const struct asked {
    const char *regex, *const *choice, *json, *tool_calls;
    size_t n_choice;
    int64_t n_new;
    double temperature;
    bool has_penalties; /* penalties, and a bias against the letter that the model likes */
    int64_t n;          /* number of answers; 0: one, -1: it is an answer of the request before */
} asked[N] = {
    {.regex = "[0-9]{4}-[0-9]{2}-[0-9]{2}", .n_new = 60},
    {.n_new = 50},
    {.choice = (const char *const[]){"yes", "no", "perhaps not"}, .n_choice = 3, .n_new = 60},
    {.regex = "(the |a |cat ){12,14}end", .n_new = 60, .temperature = 1},
    {.regex = "[0-9]{4}-[0-9]{2}-[0-9]{2}", .n_new = 60, .temperature = 1.5, .has_penalties = true},
    [SCHEMA] = {.json = city_schema, .n_new = 200, .temperature = 1.5, .has_penalties = true},
    [TOOL] = {.tool_calls = forced_call, .n_new = 200, .has_penalties = true},
    [CHOICES] = {.json = city_schema, .n_new = 200, .temperature = 2, .n = 3},
    {.n = -1},
    {.n = -1},
};

static void set_penalties(struct gallop_sampling *p)
{
    static const int32_t id[] = {20, 30};
    static const float bias[] = {5, -5};

    p->repetition_penalty = 1.3;
    p->presence_penalty = .5;
    p->frequency_penalty = .2;
    p->bias_id = id;
    p->bias = bias;
    p->n_bias = 2;
}

static void submit_asked(struct gallop *g, size_t which)
{
    const struct asked *a = &asked[which];
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];
    int32_t ids[40];

    if (a->n < 0)
        return;
    engines_text(which, 0, 40, ids);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 40;
    r.n = a->n ? a->n : 1;
    r.user = (void *)which;
    r.sampling.max_new_tokens = a->n_new;
    r.sampling.ignore_eos = which == 1;
    r.sampling.do_sample = a->temperature > 0;
    r.sampling.temperature = a->temperature > 0 ? a->temperature : NAN;
    r.sampling.has_seed = 1;
    r.sampling.seed = which;
    if (a->has_penalties)
        set_penalties(&r.sampling);
    r.structured_outputs.regex = a->regex;
    r.structured_outputs.choice = a->choice;
    r.structured_outputs.n_choice = a->n_choice;
    r.structured_outputs.json = a->json;
    r.structured_outputs.tool_calls = a->tool_calls;
    r.structured_outputs.disable_any_whitespace = which != CHOICES;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

static bool is_date(const char *text)
{
    for (size_t i = 0; i < 10; i++)
        if (i == 4 || i == 7 ? text[i] != '-' : text[i] < '0' || text[i] > '9')
            return false;
    return text[10] == 0;
}

/* TEXT is an object under city_schema. White space is of the model's choice. */
static bool is_city(const char *text)
{
    json_t *v = json_loads(text, 0, NULL);
    const char *city = json_string_value(json_object_get(v, "city")),
               *size = json_string_value(json_object_get(v, "size"));
    bool is_right = city && size && json_object_size(v) == 4 && strlen(city) >= 3 && strlen(city) <= 9 &&
                    strspn(city + 1, "abcdefghijklmnopqrstuvwxyz") == strlen(city) - 1 && *city >= 'A' &&
                    *city <= 'Z' && (strcmp(size, "small") == 0 || strcmp(size, "large") == 0) &&
                    json_is_integer(json_object_get(v, "n")) &&
                    json_integer_value(json_object_get(v, "n")) >= 7 &&
                    json_integer_value(json_object_get(v, "n")) <= 9999;

    json_decref(v);
    return is_right;
}

/* TEXT is a call of f whose arguments are {"a": "on"} or {"a": "off"}. */
static bool is_call(const char *text)
{
    static const char open[] = "<tool_call>\n", close[] = "\n</tool_call>";
    const char *end = strstr(text, close);
    json_t *v = end ? json_loadb(text + strlen(open), (size_t)(end - text) - strlen(open), 0, NULL) : NULL,
           *arguments = json_object_get(v, "arguments");
    const char *name = json_string_value(json_object_get(v, "name")),
               *a = json_string_value(json_object_get(arguments, "a"));
    bool is_right = strncmp(text, open, strlen(open)) == 0 && name && strcmp(name, "f") == 0 && a &&
                    (strcmp(a, "on") == 0 || strcmp(a, "off") == 0) && json_object_size(arguments) == 1 &&
                    !end[strlen(close)];

    json_decref(v);
    return is_right;
}

static void check_texts(const struct engines_answer *a)
{
    const char *s = a[3].text;
    int n = 0;

    for (size_t i = 0; i < N; i++)
        assert_true(a[i].ended);
    assert_true(is_date(a[0].text) && is_date(a[4].text));
    assert_true(strcmp(a[2].text, "yes") == 0 || strcmp(a[2].text, "no") == 0 ||
                strcmp(a[2].text, "perhaps not") == 0);
    for (; strncmp(s, "end", 3) != 0; n++)
        s += strncmp(s, "the ", 4) == 0 || strncmp(s, "cat ", 4) == 0 ? 4
             : strncmp(s, "a ", 2) == 0                               ? 2
                                                                      : 100;
    assert_string_equal(s, "end");
    assert_in_range(n, 12, 14);
    for (size_t i = 0; i < N; i++)
        if (asked[i].json || asked[i].n < 0 ? !is_city(a[i].text)
                                            : asked[i].tool_calls && !is_call(a[i].text))
            fail_msg("answer %zu: %s", i, a[i].text);
    for (size_t i = CHOICES + 1; i < N; i++)
        assert_true(strcmp(a[i].text, a[i - 1].text) != 0);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(a[i].end.finish, i == 1 ? GALLOP_FINISH_LENGTH : GALLOP_FINISH_STOP);
}

static void answers_are_the_same_alone_and_in_company(void **state)
{
    static struct engines_answer alone[N];
    struct ways_seen seen = ways_alone_and_in_company(alone, N, 256, submit_asked, check_texts);

    assert_true(seen.n_preempted > 0 && seen.n_cached > 0);
}

/* All answers to one request, and later requests, share one compiled constraint. */
static void a_constraint_is_compiled_once(void **state)
{
    static struct engines_answer out[N];
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);

    for (int i = 0; i < 3; i++) {
        memset(out, 0, sizeof(out));
        submit_asked(g, 0);
        submit_asked(g, 4);
        engines_run(g, out);
    }
    assert_int_equal(engine_constraints(g)->n_queries, 6);
    assert_int_equal(engine_constraints(g)->n_hits, 5);
    gallop_close(g);
}

static void an_answer_that_is_cut_is_the_beginning_of_a_valid_text(void **state)
{
    static struct engines_answer out[1];
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct gallop_request r;
    char text[11];
    size_t n;

    gallop_request_init(&r);
    r.text = "Once";
    r.sampling.max_new_tokens = 3;
    r.structured_outputs.regex = "[0-9]{4}-[0-9]{2}-[0-9]{2}";
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    assert_int_equal(out[0].end.finish, GALLOP_FINISH_LENGTH);
    n = strlen(out[0].text);
    assert_in_range(n, 1, 9);
    memcpy(text, "2026-11-27", 11);
    memcpy(text, out[0].text, n);
    assert_true(is_date(text));
    gallop_close(g);
}

static void end_tokens_come_only_where_the_text_is_complete(void **state)
{
    static struct engines_answer out[1];
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct gallop_request r;

    /* the model likes to end at once; the constraint lets it after three letters, or go on */
    for (uint64_t seed = 0; seed < 20; seed++) {
        gallop_request_init(&r);
        r.text = "Once upon a time";
        r.sampling.max_new_tokens = 40;
        r.sampling.do_sample = 1;
        r.sampling.temperature = 3;
        r.sampling.has_seed = 1;
        r.sampling.seed = seed;
        r.structured_outputs.regex = "[a-z]{3,30}";
        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
        memset(out, 0, sizeof(out));
        engines_run(g, out);
        assert_in_range(strlen(out[0].text), 3, 30);
        assert_int_equal(strspn(out[0].text, "abcdefghijklmnopqrstuvwxyz"), strlen(out[0].text));
    }
    gallop_close(g);
}

/* The answer of CALLS with these other members, greedily. */
static const char *called(struct gallop *g, const char *calls, const char *json, const char *open,
                          int channels)
{
    static struct engines_answer out[1];
    struct gallop_request r;

    gallop_request_init(&r);
    r.text = "Once";
    r.sampling.max_new_tokens = 200;
    r.structured_outputs.tool_calls = calls;
    r.structured_outputs.json = json;
    r.structured_outputs.may_begin_with = open;
    r.structured_outputs.begins_after = open ? "</think>" : NULL;
    r.structured_outputs.has_channels = channels;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    return out[0].text;
}

static void tool_calls_are_constrained_alone_and_beside_a_schema(void **state)
{
    static const char forced[] = "{\"markup\":\"hermes\",\"required\":true,\"functions\":[{\"name\":\"f\","
                                 "\"parameters\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"],"
                                 "\"additionalProperties\":false}}]}",
                      head[] = "<tool_call>\n{\"name\": \"f\", \"arguments\": {",
                      free_calls[] = "{\"markup\":\"hermes\",\"functions\":[{\"name\":\"f\"}]}",
                      seven[] = "{\"const\":7}";
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    const char *text = called(g, forced, NULL, NULL, 0);

    /* the parameters say nothing of a type, but arguments are an object */
    assert_memory_equal(text, head, sizeof(head) - 1);
    assert_string_equal(text + strlen(text) - strlen("}\n</tool_call>"), "}\n</tool_call>");
    text = called(g, free_calls, seven, NULL, 0);
    if (*text != '7')
        assert_memory_equal(text, head, sizeof(head) - 1);
    text = called(g, NULL, seven, "<think>", 0);
    assert_true(*text == '7' || strncmp(text, "<think>", 7) == 0);
    text = called(g, NULL, seven, NULL, 1);
    assert_memory_equal(text, "<|channel|>", strlen("<|channel|>"));
    gallop_close(g);
}

static void wrong_constraints_are_refused_with_a_sentence(void **state)
{
    static const char *const empty[] = {"x", ""};
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    const struct {
        struct gallop_structured_outputs s;
        const char *sentence;
    } wrong[] = {
        {{.regex = "a", .grammar = "root ::= \"a\""},
         "structured_outputs: found 2 constraints, expected one"},
        {{.choice = empty, .n_choice = 2},
         "structured_outputs: choice 1 is empty, expected a string that is not empty"},
        {{.choice = empty},
         "structured_outputs: the choices are an empty list, expected a list of one or more strings"},
        {{.regex = "(a"}, "structured_outputs: "},
        {{.tool_calls = "{}"}, "structured_outputs.tool_calls: markup: expected the name"},
        {{.tool_calls = "{"}, "structured_outputs.tool_calls: "},
        {{.tool_calls =
              "{\"markup\":\"hermes\",\"functions\":[{\"name\":\"f\",\"pointer\":\"/p\",\"parameters\":{"
              "\"properties\":{\"a\":{\"type\":5}}}}]}"},
         "structured_outputs.tool_calls: function \"f\": schema at /p/properties/a: type: "},
        /* one of several functions whose arguments cannot be written */
        {{.tool_calls =
              "{\"markup\":\"hermes\",\"functions\":[{\"name\":\"f\"},{\"name\":\"g\",\"pointer\":\"/p\","
              "\"parameters\":{\"type\":\"string\"}}]}"},
         "structured_outputs.tool_calls: function \"g\": schema at /p: no text matches the schema, which must allow "
         "an object"},
        {{.json = "{\"enum\":[]}"}, "structured_outputs: schema: no text matches the schema"},
    };
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        gallop_request_init(&r);
        r.text = "a";
        r.structured_outputs = wrong[i].s;
        assert_int_equal(gallop_submit(g, &r, NULL, err), GALLOP_BAD_INPUT);
        if (strncmp(err, wrong[i].sentence, strlen(wrong[i].sentence)) != 0)
            fail_msg("%s, expected %s", err, wrong[i].sentence);
    }
    gallop_close(g);
}

/* A schema with KEYWORDS keywords that are not served, and that no value of which is checked. */
static const char *lax_schema(char *out, size_t size, int keywords)
{
    int n = snprintf(out, size, "{\"const\":1,\"allOf\":[{\"type\":\"integer\"}");

    for (int i = 0; i < keywords; i++)
        n += snprintf(out + n, size - (size_t)n, ",{\"$ref\":\"http://x/y\"}");
    snprintf(out + n, size - (size_t)n, "]}");
    return out;
}

static int submit_regex(struct gallop *g, const char *regex, size_t which, char *err)
{
    struct gallop_request r;

    gallop_request_init(&r);
    r.text = "Once";
    r.user = (void *)which;
    r.sampling.max_new_tokens = 60;
    r.structured_outputs.regex = regex;
    return gallop_submit(g, &r, NULL, err);
}

/* Constraints in use share one bound: above a part of it new ones are refused, and what is there may go on; beyond all
 * of it they end with an error. Constraints that no request uses make room. */
static void the_memory_of_all_constraints_is_bounded(void **state)
{
    static struct engines_answer out[2];
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct constraints *c = (struct constraints *)(uintptr_t)engine_constraints(g);
    char err[GALLOP_ERR_SIZE];
    size_t one;

    assert_int_equal(submit_regex(g, "[0-9]{4}-[0-9]{2}", 0, err), 0);
    one = atomic_load(&c->budget.bytes);
    assert_true(one > 0);
    c->max_admit = one - 1;
    assert_int_equal(submit_regex(g, "[0-9]{5}", 0, err), GALLOP_NO_SPACE);
    assert_non_null(strstr(err, "the constraints of running requests take more than"));
    assert_int_equal(submit_regex(g, "[0-9]{4}-[0-9]{2}", 1, err), 0); /* it is there already */
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    assert_int_equal(out[0].end.finish, GALLOP_FINISH_STOP);
    assert_int_equal(out[1].end.finish, GALLOP_FINISH_STOP);
    c->max_admit = SIZE_MAX;
    c->budget.most = 1; /* nothing may grow any more */
    assert_int_equal(submit_regex(g, "[a-z]{40}", 0, err), 0);
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    assert_int_equal(out->end.finish, GALLOP_FINISH_ERROR);
    assert_int_equal(out->end.forbids_all, 0); /* it is a limit of all requests */
    c->budget.most = CONSTRAINTS_MAX_IN_USE;
    assert_int_equal(submit_regex(g, "[a-z]{40}", 0, err), 0); /* what has failed is not used again */
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    assert_int_equal(strlen(out->text), 40);
    gallop_close(g);
}

/* Submits as a server does for a client: what is allocated is charged. */
static int submit_for(struct gallop *g, uint32_t client, const char *regex, size_t which)
{
    char err[GALLOP_ERR_SIZE];
    int rc;

    mem_set_client(client);
    mem_charge(MEM_CHARGE_NEW);
    rc = submit_regex(g, regex, which, err);
    mem_charge(MEM_CHARGE_NONE);
    mem_set_client(0);
    return rc;
}

/* A constraint counts for the client whose request compiles it, and its masks for the client that they are made for.
 * Everything is given back when the cache drops it, which happens at an eighth of the budget, or if it is needed. */
static void constraints_count_in_the_budget_of_requests(void **state)
{
    static struct engines_answer out[2];
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct constraints *c = (struct constraints *)(uintptr_t)engine_constraints(g);
    struct gallop_request r;
    size_t compiled, used;

    gallop_request_init(&r);
    r.text = "Once";
    r.sampling.max_new_tokens = 1;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0); /* Now the tokenizer has a scratch. */
    engines_run(g, out);
    assert_int_equal(mem_charged_bytes(), 0);
    mem_set_budget((size_t)1 << 30);
    c->max_admit = 0; /* without effect beside a budget, as is the limit of what may grow */
    c->budget.most = 1;
    assert_int_equal(submit_for(g, 3, "[a-z]{40}", 0), 0);
    compiled = mem_client_bytes(3);
    assert_true(compiled > atomic_load(&c->budget.bytes) / 2);
    assert_int_equal(compiled, mem_charged_bytes()); /* The vocabulary is not charged to anyone. */
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    assert_int_equal(strlen(out->text), 40);
    used = mem_client_bytes(3);
    assert_int_equal(used, mem_charged_bytes());
    assert_true(used > atomic_load(&c->budget.bytes) / 2); /* It is kept. */
    assert_int_equal(submit_for(g, 4, "[a-z]{40}", 0), 0);
    assert_true(mem_client_bytes(4) < compiled); /* only the request */
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    assert_int_equal(mem_client_bytes(4), 0);
    assert_int_equal(mem_client_bytes(3), used);

    mem_set_budget((used + compiled / 2) / 7 * 8); /* Entries without users make room, */
    assert_int_equal(submit_for(g, 4, "[0-9]{40}", 0), 0);
    assert_int_equal(mem_client_bytes(3), 0);
    assert_true(mem_client_bytes(4) > compiled / 2);
    mem_set_budget(mem_charged_bytes() / 7 * 8 + 9000);
    assert_int_not_equal(submit_for(g, 3, "[A-Z]{40}", 0), 0); /* and others do not. */
    assert_int_equal(mem_client_bytes(3), 0);
    assert_int_not_equal(atomic_load(&c->budget.bytes), 0);
    mem_set_budget(8 * atomic_load(&c->budget.bytes) - 8);
    memset(out, 0, sizeof(out));
    engines_run(g, out);
    assert_int_equal(strlen(out->text), 40);
    assert_int_equal(mem_charged_bytes(), 0); /* It took more than an eighth. */
    assert_int_equal(atomic_load(&c->budget.bytes), 0);
    mem_set_budget(0);
    mem_over_budget();
    gallop_close(g);
}

/* For the tests behind one that has failed. */
static int no_budget(void **state)
{
    mem_set_budget(0);
    return 0;
}

/* A refused constraint is refused again without being compiled, with its sentence, until many others were refused. */
static void refusals_are_remembered(void **state)
{
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    const struct constraints *c = engine_constraints(g);
    char regex[40], first[GALLOP_ERR_SIZE], err[GALLOP_ERR_SIZE];
    struct gallop_request r;

    assert_int_equal(submit_regex(g, "(a", 0, first), GALLOP_BAD_INPUT);
    assert_int_equal(c->n_refused, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(submit_regex(g, "(a", 0, err), GALLOP_BAD_INPUT);
        assert_string_equal(err, first);
    }
    assert_int_equal(c->n_refused, 1);
    assert_int_equal(c->n_refused_again, 3);
    gallop_request_init(&r);
    r.text = "Once";
    r.structured_outputs.grammar = "(a"; /* the same text, but no regular expression */
    assert_int_equal(gallop_submit(g, &r, NULL, err), GALLOP_BAD_INPUT);
    assert_true(strcmp(err, first) != 0);
    r.structured_outputs.grammar = NULL;
    r.structured_outputs.json = "{\"$ref\":\"http://x.y/z\"}";
    assert_int_equal(gallop_submit(g, &r, NULL, err), GALLOP_UNSUPPORTED);
    r.structured_outputs.ignore_unsupported = 1;
    assert_int_equal(gallop_submit(g, &r, NULL, err), 0);
    r.structured_outputs.ignore_unsupported = 0; /* each option makes another constraint */
    for (int i = 0; i < 5; i++) {
        r.structured_outputs.disable_any_whitespace = i == 0;
        r.structured_outputs.allow_additional_properties = i == 1;
        r.structured_outputs.whitespace_pattern = i == 2 ? " " : NULL;
        r.structured_outputs.begins_after = i == 3 ? "</t>" : NULL;
        r.structured_outputs.has_channels = i == 4;
        assert_int_equal(gallop_submit(g, &r, NULL, err), GALLOP_UNSUPPORTED);
        assert_int_equal(c->n_refused, 4 + i);
    }
    assert_int_equal(c->n_refused_again, 3);
    for (int i = 0; i < CONSTRAINTS_REFUSALS - 8; i++) {
        snprintf(regex, sizeof(regex), "(a%d", i);
        assert_int_equal(submit_regex(g, regex, 0, err), GALLOP_BAD_INPUT);
    }
    assert_int_equal(submit_regex(g, "(a", 0, err), GALLOP_BAD_INPUT);
    assert_int_equal(c->n_refused_again, 4);
    assert_int_equal(submit_regex(g, "(b", 0, err), GALLOP_BAD_INPUT); /* in the place of the oldest one */
    assert_int_equal(submit_regex(g, "(a", 0, err), GALLOP_BAD_INPUT);
    assert_string_equal(err, first);
    assert_int_equal(c->n_refused_again, 4);
    assert_int_equal(c->n_refused, CONSTRAINTS_REFUSALS + 2);
    gallop_close(g);
    assert_int_equal(mem_live_blocks(), 0);
}

/* A source with other spellings is another one, although no request can ask for them. */
static void a_refusal_holds_for_its_spellings(void **state)
{
    static const char json[] = "{\"$ref\":\"http://x.y/z\"}";
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct constraints *c = (struct constraints *)(uintptr_t)engine_constraints(g);
    struct constraint_source source = {.kind = CONSTRAINT_JSON_SCHEMA, .text = json, .n = strlen(json)};

    for (int i = 0; i < 4; i++) {
        struct constraints_entry *entry;

        source.every_spelling = i % 2;
        assert_int_equal(constraints_get(c, &source, &entry, NULL, NULL), ERR_UNSUPPORTED);
        assert_int_equal(c->n_refused, i == 0 ? 1 : 2);
    }
    assert_int_equal(c->n_refused_again, 2);
    gallop_close(g);
}

/* A thread that submits large schemas, each another one, until `is_enough`. PHASE is odd while it compiles one. */
struct compiling {
    struct gallop *g;
    atomic_uint phase;
    atomic_bool is_enough;
};

/* Returns the schema number WHICH, of 300 KB; free(). */
static char *large_schema(int which)
{
    enum { SIZE = 512 << 10, PROPERTIES = 1900 };
    char *text = malloc(SIZE);
    int n;

    ASSERT(text);
    n = snprintf(text, SIZE, "{\"properties\":{");
    for (int i = 0; i < PROPERTIES; i++)
        n += snprintf(
            text + n, (size_t)(SIZE - n),
            "%s\"p%d_%d\":{\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":50},\"b\":{"
            "\"type\":\"integer\",\"minimum\":%d},\"c\":{\"enum\":[\"x%d\",7]}},\"required\":[\"a\"]}",
            i ? "," : "", which, i, i, i);
    n += snprintf(text + n, (size_t)(SIZE - n), "}}");
    ASSERT(n > 250 << 10 && n < SIZE, "%d", n);
    return text;
}

static void *compile_schemas(void *context)
{
    struct compiling *c = context;

    for (int i = 0; !atomic_load(&c->is_enough) && i < 1000; i++) {
        struct gallop_request r;
        char *text = large_schema(i);
        bool is_refused;
        uint64_t id;

        gallop_request_init(&r);
        r.text = "Once";
        r.user = (void *)16;
        r.sampling.max_new_tokens = 1;
        r.structured_outputs.json = text;
        atomic_fetch_add(&c->phase, 1);
        is_refused = gallop_submit(c->g, &r, &id, NULL) != 0;
        atomic_fetch_add(&c->phase, 1);
        if (!is_refused)
            gallop_cancel(c->g, id);
        free(text);
    }
    return NULL;
}

/* Computes a step and takes its events. Returns how many of the first 16 requests got a token, and subtracts those
 * that ended from *OPEN. */
static int step_of_sixteen(struct gallop *g, int *open)
{
    struct gallop_event ev;
    int n = 0;

    gallop_step(g, 0);
    while (gallop_take(g, &ev)) {
        n += ev.type == GALLOP_TOKEN && (size_t)ev.user < 16;
        *open -= ev.type == GALLOP_FINISHED && (size_t)ev.user < 16;
    }
    return n;
}

/* Whole steps of sixteen sequences begin and end while one schema of 300 KB compiles. If a step waited for the
 * compiler, none would. The schemas repeat until this was seen, so that a busy machine does not fail the test. */
static void steps_go_on_while_a_schema_compiles(void **state)
{
    struct gallop_options o = engines_options(17, 64, 1024);
    struct gallop *g = engines_open("demo", &o);
    struct compiling c = {.g = g};
    struct thread thread;
    int open = 0, n_inside = 0;

    assert_int_equal(thread_start(&thread, compile_schemas, &c), 0);
    for (int round = 0; n_inside < 3 && round < 100; round++) {
        for (size_t i = 0; i < 16; i++, open++)
            engines_submit_text(g, 4, 900, i);
        while (open > 0) {
            unsigned before = atomic_load(&c.phase);
            int n = step_of_sixteen(g, &open);

            n_inside += n == 16 && before % 2 == 1 && atomic_load(&c.phase) == before;
            if (n_inside == 3)
                break;
        }
    }
    atomic_store(&c.is_enough, true);
    thread_join(&thread);
    assert_int_equal(n_inside, 3);
    gallop_close(g); /* ends what is left of the sixteen */
}

static void what_is_left_out_of_a_schema_is_in_the_last_event(void **state)
{
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct gallop_request r;
    struct gallop_event ev = {0};
    static char schema[8192];

    for (int k = 0; k < 6; k++) { /* twice each: compiled, and kept from before */
        static const int keywords[] = {0, 2, 70};
        int n = keywords[k / 2];

        gallop_request_init(&r);
        r.text = "Once";
        r.structured_outputs.json = lax_schema(schema, sizeof(schema), n);
        r.structured_outputs.ignore_unsupported = 1;
        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
        while (gallop_next(g, &ev))
            if (ev.type == GALLOP_FINISHED) {
                assert_int_equal(ev.n_warnings, n <= 64 ? n : 65);
                if (n)
                    assert_string_equal(
                        ev.warnings[1],
                        "JSON schema: the keyword $ref at /allOf/2 is not supported and is ignored");
                if (n > 64)
                    assert_string_equal(ev.warnings[64], "JSON schema: more keywords are ignored");
            }
    }
    gallop_close(g);
}

/* Two schemas of 40 unsupported keywords in one constraint share the limit of 64 warnings. */
static void warnings_are_limited_for_all_schemas_of_a_constraint(void **state)
{
    struct gallop *g = ways_open(&ways[0], 64, 1, 0);
    struct gallop_event ev = {0};
    static char schema[8192], tag[20000];
    struct gallop_request r;

    lax_schema(schema, sizeof(schema), 40);
    snprintf(
        tag, sizeof(tag),
        "{\"type\":\"structural_tag\",\"triggers\":[\"<\"],\"structures\":[{\"begin\":\"<a>\",\"schema\":%s,"
        "\"end\":\"</a>\"},{\"begin\":\"<b>\",\"schema\":%s,\"end\":\"</b>\"}]}",
        schema, schema);
    gallop_request_init(&r);
    r.text = "Once";
    r.sampling.max_new_tokens = 2;
    r.structured_outputs.structural_tag = tag;
    r.structured_outputs.ignore_unsupported = 1;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    while (gallop_next(g, &ev))
        if (ev.type == GALLOP_FINISHED)
            assert_int_equal(ev.n_warnings, 65);
    gallop_close(g);
}

static void a_refused_allocation_ends_one_request_and_nothing_else(void **state)
{
    static struct engines_answer out[N];
    char schema[256];
    size_t before;
    bool submitted = false;

    test_of_one_thread();
    for (long at = 1; !submitted; at++) {
        struct gallop *g = ways_open(&ways[0], 64, 1, 0);
        struct gallop_request r;

        gallop_request_init(&r);
        r.text = "Once";
        r.sampling.max_new_tokens = 20;
        r.structured_outputs.json = lax_schema(schema, sizeof(schema), 2);
        r.structured_outputs.ignore_unsupported = 1;
        before = mem_live_blocks();
        mem_fail_at(at);
        submitted = gallop_submit(g, &r, NULL, NULL) == 0;
        submitted = submitted && !mem_failed();
        mem_fail_at(0);
        if (!submitted) /* the vocabulary's trie may stay, and the constraint, if it was compiled */
            assert_in_range(mem_live_blocks(), before, before + 80);
        memset(out, 0, sizeof(out));
        engines_run(g, out);
        gallop_close(g);
        assert_int_equal(mem_live_blocks(), 0);
        at += at > 60 ? at / 8 : 0; /* the trie's allocations are tested elsewhere */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same_alone_and_in_company),
        cmocka_unit_test(a_constraint_is_compiled_once),
        cmocka_unit_test(an_answer_that_is_cut_is_the_beginning_of_a_valid_text),
        cmocka_unit_test(end_tokens_come_only_where_the_text_is_complete),
        cmocka_unit_test(tool_calls_are_constrained_alone_and_beside_a_schema),
        cmocka_unit_test(wrong_constraints_are_refused_with_a_sentence),
        cmocka_unit_test(the_memory_of_all_constraints_is_bounded),
        cmocka_unit_test(refusals_are_remembered),
        cmocka_unit_test(a_refusal_holds_for_its_spellings),
        cmocka_unit_test_teardown(constraints_count_in_the_budget_of_requests, no_budget),
        cmocka_unit_test(steps_go_on_while_a_schema_compiles),
        cmocka_unit_test(what_is_left_out_of_a_schema_is_in_the_last_event),
        cmocka_unit_test(warnings_are_limited_for_all_schemas_of_a_constraint),
        cmocka_unit_test(a_refused_allocation_ends_one_request_and_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
