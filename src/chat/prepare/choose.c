/* choose.c - converts the request's fields about sampling, stopping and output format for the engine. */
#include "chat/prepare/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"
#include "chat/once.h"
#include "chat/request.h"
#include "chat/service.h"
#include "engine/constraints/constrain.h"
#include "engine/constraints/structured.h"
#include "engine/engine.h"
#include "text/markup/markup.h"
#include "text/markup/template.h"
#include "text/tok/tok.h"

/* Appends the tokens that end an answer after a tool call to the stop tokens of S, allocated in M. */
static bool add_ends_of_call(struct request *q, struct arena *m, struct sampling *s)
{
    size_t n = s->n_stop_token;
    int32_t *ids;

    q->n_ends_of_call = constrain_stop_tokens(q->calls, engine_info(q->service->engine)->tok, q->end_of_call);
    if (q->n_ends_of_call == 0)
        return true;
    if (!(ids = arena_alloc(m, (n + MARKUP_MAX_STOP) * sizeof(*ids))))
        return false;
    if (n)
        memcpy(ids, s->stop_token, n * sizeof(*ids));
    memcpy(ids + n, q->end_of_call, q->n_ends_of_call * sizeof(*ids));
    s->stop_token = ids;
    s->n_stop_token = n + q->n_ends_of_call;
    sampling_mark(s, SAMPLING_STOP_TOKEN);
    return true;
}

#define TAKE(s, given, field, value, bit)     \
    do {                                      \
        if (given) {                          \
            (s)->field = value;               \
            sampling_mark(s, SAMPLING_##bit); \
        }                                     \
    } while (0)

/* Reads `budget_tokens` of Anthropic's API, unless thinking_token_budget is given. */
static void read_thinking(struct request *q, struct sampling *s)
{
    const struct markup_reasoning *reasoning = q->service->markup->reasoning;
    int64_t budget = q->field.input.thinking_budget;

    if (budget < 0 || sampling_given(s, SAMPLING_THINKING_TOKEN_BUDGET))
        return;
    if (reasoning && markup_fixed(reasoning->close))
        TAKE(s, true, thinking_token_budget, (size_t)budget, THINKING_TOKEN_BUDGET);
    else
        once_warn(
            q->once, q->origin.route, "thinking",
            "`budget_tokens` in '%s' is not enforced, since no marks of this model's reasoning are known");
}

static void read_numbers(struct request *q, struct sampling *s)
{
    const struct fields *f = &q->field;
    int64_t most = request_max_tokens(q);

    *s = *f->sampling;
    if (q->endpoint ==
        FIELDS_LINE) /* *S is complete, and follows the model's generation config as options do */
        return;
    TAKE(s,
         !f->generation.do_sample ||
             (q->service->defaults == SERVICE_DEFAULTS_GREEDY && !sampling_given(s, SAMPLING_TEMPERATURE)),
         temperature, 0, TEMPERATURE);
    if (q->service->defaults != SERVICE_DEFAULTS_MODEL)
        sampling_keep_neutral(s);
    sampling_mark(s, SAMPLING_MIN_NEW_TOKENS);
    sampling_mark(s, SAMPLING_IGNORE_EOS);
    TAKE(s, true, max_new_tokens, most < 0 ? SIZE_MAX : (size_t)most, MAX_NEW_TOKENS);
    TAKE(s, true, do_sample, !sampling_is_search(s),
         DO_SAMPLE); /* true for greedy requests, too: they have temperature 0 */
    TAKE(s, f->output.logprobs >= 0, logprobs, (int)f->output.logprobs, LOGPROBS);
    TAKE(s, f->generation.best_of > f->generation.n && f->output.logprobs < 0, logprobs, 0, LOGPROBS);
    TAKE(s, f->output.chat_logprobs, logprobs, f->output.top_logprobs > 0 ? (int)f->output.top_logprobs : 0,
         LOGPROBS);
    read_thinking(q, s);
    s->include_stop = f->generation.include_stop;
    TAKE(s, f->generation.has_seed, seed, f->generation.seed, SEED);
}

/* If the request has no seed, sets the seed in S to the server's or, if the server was started without one,
 * to the next of SEEDS. A seed of SEEDS has 53 bits, so that JSON readers that store numbers as doubles keep
 * it exactly, and is logged if tokens are sampled. Also sets the temperature and the top_p of Q to the values
 * in use. */
static void choose_seed(struct request *q, struct rng_seeds *seeds, struct sampling *s)
{
    const struct sampling *defaults = engine_info(q->service->engine)->defaults;
    bool is_fresh = !q->field.generation.has_seed && !sampling_given(defaults, SAMPLING_SEED);
    struct sampling merged;

    if (is_fresh)
        q->seed = rng_seeds_next(seeds) >> 11;
    TAKE(s, !q->field.generation.has_seed, seed, is_fresh ? q->seed : defaults->seed, SEED);
    sampling_merge(&merged, s, defaults);
    q->temperature = merged.temperature;
    q->top_p = merged.top_p;
    q->draws = is_fresh && !(q->endpoint & FIELDS_POOLED) && !sampling_is_greedy(&merged);
}

bool choose_sampling(struct request *q, struct rng_seeds *seeds, struct arena *m, struct sampling *s)
{
    read_numbers(q, s);
    choose_seed(q, seeds, s);
    return q->endpoint == FIELDS_LINE || add_ends_of_call(q, m, s);
}

/* Reads FORMAT, the field text.format of Responses, after conversion to the form of response_format. */
static int read_text_format(struct request *q, json_t *format, struct err *e)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    json_t *as_chat = type && strcmp(type, "json_schema") == 0
                          ? json_pack("{s:s,s:O}", "type", type, "json_schema", format)
                          : json_incref(format);
    int rc = as_chat ? structured_set_json(&q->structured, "response_format", as_chat, &q->arena, e)
                     : err_nomem(e, "a request");

    if (rc)
        err_subject(e, "text.format");
    json_decref(as_chat);
    return rc;
}

/* Reads FORMAT, from the field NAME of Anthropic's API, after conversion to the form of response_format. */
static int read_json_format(struct request *q, const char *name, json_t *format, struct err *e)
{
    json_t *as_chat;
    int rc;

    if (!json_is_object(format))
        return 0;
    as_chat = json_pack("{s:s,s:{s:O}}", "type", "json_schema", "json_schema", "schema",
                        json_object_get(format, "schema"));
    rc = as_chat ? structured_set_json(&q->structured, "response_format", as_chat, &q->arena, e)
                 : err_nomem(e, "a request");
    if (rc)
        err_subject(e, name);
    json_decref(as_chat);
    return rc;
}

/* Reads FORMAT, the field `format` of Ollama's API. */
static int read_ollama_format(struct request *q, const json_t *format, struct err *e)
{
    if (json_is_object(format))
        return structured_set_json(&q->structured, "guided_json", format, &q->arena, e);
    q->structured.json_object = json_string_length(format) > 0;
    return 0;
}

/* Reads the constraint of the request. */
static int read_structured(struct request *q, struct err *e)
{
    const json_t *body = q->field.body;
    json_t *format = json_object_get(json_object_get(body, "text"), "format"), *v;
    const char *key;
    int rc = 0;

    if (q->endpoint & FIELDS_RESPONSES && json_is_object(format))
        rc = read_text_format(q, format, e);
    if (q->endpoint & FIELDS_MESSAGES)
        rc = read_json_format(q, "output_config.format",
                              json_object_get(json_object_get(body, "output_config"), "format"), e);
    if (q->endpoint & FIELDS_MESSAGES && rc == 0)
        rc = read_json_format(q, "output_format", json_object_get(body, "output_format"), e);
    format = json_object_get(body, "format");
    if (q->endpoint & (FIELDS_GENERATE | FIELDS_OLLAMA_CHAT) && format)
        rc = read_ollama_format(q, format, e);
    if (!(q->endpoint & (FIELDS_COMPLETIONS | FIELDS_CHAT | FIELDS_LINE)))
        return rc;
    json_object_foreach((json_t *)(uintptr_t)body, key, v)
    {
        if (rc == 0 && structured_is_field(key))
            rc = structured_set_json(&q->structured, key, v, &q->arena, e);
    }
    return rc;
}

int choose_structured(struct request *q, struct err *e)
{
    int rc = read_structured(q, e);

    if (rc == 0 && !(q->endpoint & FIELDS_POOLED) && q->service->structured &&
        !structured_is_given(&q->structured))
        q->structured = *q->service->structured;
    return rc;
}

int choose_calls(struct request *q, struct err *e)
{
    const struct constrain_calls c = {.markup = q->service->markup,
                                      .template = q->service->template->source,
                                      .tools = q->field.input.tools,
                                      .origins = q->field.input.tool_origins,
                                      .names = q->field.tool_names,
                                      .choice = q->field.input.tool_choice,
                                      .is_parallel = q->field.output.parallel_tool_calls,
                                      .field = choose_field(q, "structured_outputs")};
    int rc = constrain_calls(&q->structured, &c, &q->arena, e);

    if (rc == 0 && c.choice != TOOLS_NONE && c.markup->plain_calls && constrain_is_strict(&c))
        once_warn(q->once, q->origin.route, "tools",
                  "`strict` in '%s' is not enforced, because the server's tool-call-parser is none");
    return rc; /* other requests with tools are refused by check_tools() */
}

/* Returns the name of the field of Q that constrains the answers. */
static const char *structured_field(const struct request *q)
{
    static const char *const names[] = {"response_format", "guided_json",    "guided_regex",
                                        "guided_choice",   "guided_grammar", "text",
                                        "format",          "output_format",  "output_config"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (json_object_get(q->field.body, names[i]))
            return names[i];
    return "structured_outputs";
}

const char *choose_field(const struct request *q, const char *member)
{
    static const struct {
        const char *member, *field;
    } names[] = {
        {"min_new_tokens", "min_tokens"}, {"max_new_tokens", "max_tokens"}, {"stop_token", "stop_token_ids"}};

    if (strcmp(member, "structured_outputs") == 0)
        return structured_field(q);
    if (strcmp(member, "structured_outputs.tool_calls") == 0)
        return "tools";
    for (size_t i = 0; q->endpoint != FIELDS_LINE && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(member, names[i].member) == 0)
            return names[i].field;
    return member;
}
