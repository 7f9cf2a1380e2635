/* prepare.c - turns the body of an HTTP request into requests to the engine. */
#include "api/prepare/prepare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "api/api_priv.h"
#include "api/dialect/ollama.h"
#include "api/flight.h"
#include "api/http/access.h"
#include "api/http/models.h"
#include "api/once.h"
#include "api/prepare/calls.h"
#include "api/prepare/choose.h"
#include "api/prepare/prompt.h"
#include "api/prepare/refuse.h"
#include "api/prepare/tokens.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "engine/constraints/constrain.h"
#include "engine/constraints/structured.h"
#include "engine/embeddings/embedder.h"
#include "engine/engine.h"
#include "text/markup/markup.h"

enum { MOST_SCORED = 4 << 20 }; /* maximum number of prompt log-probabilities in an answer: about 300 MB */

/* ---- checks across fields ---- */

static bool is_served(const struct api *a, const char *name)
{
    for (size_t i = 0; i < a->opt.n_names; i++)
        if (strcmp(a->opt.name[i], name) == 0)
            return true;
    return a->opt.path_name && strcmp(a->opt.path_name, name) == 0;
}

static int check_model(struct flight *f)
{
    char sentence[400], plain[256];
    const char *tag =
        f->q.field.model && ollama_owns(f->q.origin.route) ? strrchr(f->q.field.model, ':') : NULL;

    if (!f->q.field.model || is_served(f->api, f->q.field.model))
        return 0;
    if (tag && strcmp(tag, ":latest") == 0) { /* clients of Ollama may append it to any name */
        snprintf(plain, sizeof(plain), "%.*s", (int)(tag - f->q.field.model), f->q.field.model);
        if (is_served(f->api, plain))
            return 0;
    }
    snprintf(sentence, sizeof(sentence), "The model `%.100s` does not exist; `%.100s` is served here.",
             f->q.field.model, f->api->opt.name[0]);
    fields_blame(&f->q.field, "model", 0);
    return refuse(f, 404, sentence);
}

static int check_logprobs(struct flight *f)
{
    const int64_t most = f->api->opt.max_logprobs;
    const struct fields *given = &f->q.field;
    char sentence[128];
    const char *field = given->output.logprobs > most          ? "logprobs"
                        : given->output.top_logprobs > most    ? "top_logprobs"
                        : given->output.prompt_logprobs > most ? "prompt_logprobs"
                                                               : NULL;

    snprintf(sentence, sizeof(sentence), "%s: the server gives at most %lld", field ? field : "",
             (long long)most);
    if (field)
        return refuse_field(f, field, sentence);
    if (given->output.top_logprobs > 0 && !given->output.chat_logprobs)
        return refuse_field(f, "top_logprobs", "top_logprobs: `logprobs` has to be true");
    if (given->output.logprob_ids && given->output.logprobs < 0 && !given->output.chat_logprobs)
        return refuse_field(f, "logprob_token_ids", "logprob_token_ids: `logprobs` has to be asked for");
    if (given->output.logprob_ids && given->output.echo && given->generation.max_tokens == 0 &&
        f->q.endpoint == FIELDS_COMPLETIONS)
        return refuse_field(f, "logprob_token_ids", "logprob_token_ids: no token is made with max_tokens 0");
    if (given->output.stream && given->output.prompt_logprobs >= 0)
        return refuse_field(f, "prompt_logprobs", "prompt_logprobs are not given with `stream`");
    return 0;
}

/* Checks that the request has the field that its endpoint requires. */
static int check_needed(struct flight *f)
{
    const char *needs = fields_needed(f->q.endpoint);
    const json_t *v = needs ? json_object_get(f->q.field.body, needs) : NULL;
    char sentence[80];

    if (!needs || (v && !json_is_null(v)))
        return 0;
    snprintf(sentence, sizeof(sentence), "%s: missing", needs);
    return refuse_field(f, needs, sentence);
}

/* Sets the field that the engine's error E is about. */
static void blame(struct flight *f, struct err *e)
{
    const char *field = choose_field(&f->q, e->subject);

    if (!field[0])
        return;
    if (json_object_get(f->q.field.body, field))
        fields_blame(&f->q.field, field, 0);
    if (field != e->subject)
        err_subject(e, field);
}

/* Checks the fields of a request for beam search. */
static int check_search(struct flight *f)
{
    const struct fields *given = &f->q.field;
    struct err e = {0};

    if (given->output.stream)
        return refuse_field(
            f, "stream",
            "stream: beam search knows the first token only at the end, so answers are not streamed");
    if (given->generation.best_of > given->generation.n)
        return refuse_field(f, "best_of", "best_of: beam search has `num_beams` instead");
    if (sampling_check_search(given->sampling, &e) == 0)
        return check_logprobs(f);
    blame(f, &e);
    return refuse_error(f, &e);
}

static int check_together(struct flight *f)
{
    const struct fields *given = &f->q.field;
    const char *side = given->input.truncation_side;

    if (given->output.has_stream_options && !given->output.stream)
        return refuse_field(f, "stream_options", "stream_options: only with `stream`");
    if (given->generation.best_of >= 0 && given->generation.best_of < given->generation.n)
        return refuse_field(f, "best_of", "best_of: expected at least as many answers as n");
    if (given->generation.best_of > given->generation.n && given->output.stream)
        return refuse_field(f, "best_of", "best_of: answers that are chosen from more are not streamed");
    if (given->priority && !f->api->opt.priorities)
        return refuse_field(
            f, "priority",
            "priority: found a value other than 0, but the server's scheduling-policy is fcfs");
    if (side && strcmp(side, "left") != 0 && strcmp(side, "right") != 0)
        return refuse_field(f, "truncation_side", "truncation_side: expected left or right");
    if (given->input.truncate_prompt_tokens == 0 && json_object_get(given->body, "truncate_prompt_tokens") &&
        !json_is_null(json_object_get(given->body, "truncate_prompt_tokens")))
        return refuse_field(f, "truncate_prompt_tokens",
                            "truncate_prompt_tokens: nothing would be left of the prompt");
    if (given->input.suffix && (given->output.echo || given->input.truncate_prompt_tokens))
        return refuse_field(f, "suffix", "suffix: not with echo or truncate_prompt_tokens");
    if (f->q.endpoint == FIELDS_TOKENIZE && !given->input.prompt == !given->input.messages)
        return refuse_field(f, "prompt", "either prompt or messages is expected");
    return sampling_is_search(given->sampling) ? check_search(f) : check_logprobs(f);
}

/* ---- prompts and answers ---- */

/* Refuses N_PROMPTS prompts with N_EACH answers each, because the server's queue can never hold them. */
static int refuse_answers(struct flight *f, size_t n_prompts, size_t n_each)
{
    const char *field = n_each == 1                                               ? prompt_field(&f->q)
                        : f->q.field.generation.best_of > f->q.field.generation.n ? "best_of"
                                                                                  : "n";
    char sentence[160];

    snprintf(sentence, sizeof(sentence),
             "%s: found %zu answers to each of %zu prompts, expected at most %zu answers in all", field,
             n_each, n_prompts, queue_most_places(&f->api->queue));
    return refuse_field(f, field, sentence);
}

/* Reserves places in the queue for N_PROMPTS * N_EACH answers, in addition to the place that the flight has
 * already. */
static int reserve_places(struct flight *f, size_t n_prompts, size_t n_each)
{
    size_t n = n_prompts * n_each;

    if (n > queue_most_places(&f->api->queue))
        return refuse_answers(f, n_prompts, n_each);
    return queue_extend(&f->api->queue, &f->places, f->client, n)
               ? 0
               : refuse(f, 429, "the queue is full; come back later");
}

static void init_choice(const struct request *q, struct answer_choice *h)
{
    bool stops = json_is_string(q->field.generation.stop) || json_array_size(q->field.generation.stop) > 0 ||
                 json_array_size(q->field.generation.stop_token_ids) > 0;

    h->text.tag = h->reasoning.tag = h->calls.text.tag = MEM_API;
    h->drops_reasoning = !q->field.output.include_reasoning;
    h->stop_token = -1;
    h->calls.whole = stops;
    h->calls.when = q->dialect->calls == ANSWER_CALLS_AT_END ? ANSWER_CALLS_AT_END
                    : stops                                  ? ANSWER_CALLS_COMPLETE
                                                             : ANSWER_CALLS_STREAMED;
}

/* Reserves places in the queue and allocates the prompts and answers of F. */
static int reserve(struct flight *f)
{
    struct request *q = &f->q;
    size_t n_prompts = prompt_is_list(q->field.input.prompt) ? json_array_size(q->field.input.prompt) : 1,
           n_each = (size_t)(q->field.generation.best_of > q->field.generation.n ? q->field.generation.best_of
                                                                                 : q->field.generation.n),
           n = n_prompts * n_each;
    int rc = reserve_places(f, n_prompts, n_each);

    if (rc)
        return rc;
    q->prompt = arena_zalloc(&q->arena, n_prompts, sizeof(*q->prompt));
    f->prompt = arena_zalloc(&q->arena, n_prompts, sizeof(*f->prompt));
    f->a.prompt = arena_zalloc(&q->arena, n_prompts, sizeof(*f->a.prompt));
    f->a.choice = arena_zalloc(&q->arena, n, sizeof(*f->a.choice));
    if (!q->prompt || !f->prompt || !f->a.prompt || !f->a.choice)
        return refuse_memory(f);
    q->n_prompts = f->a.n_prompts = n_prompts;
    q->n = n_each;
    f->a.n_choices = n;
    for (size_t i = 0; i < n_prompts; i++) {
        f->prompt[i].flight = f;
        q->prompt[i].text.tag = MEM_API;
    }
    for (size_t i = 0; i < n; i++)
        init_choice(q, &f->a.choice[i]);
    return !q->dialect->open || q->dialect->open(&f->writer) ? 0 : refuse_memory(f);
}

/* Checks the total number of log-probabilities of prompts, which can be many times the number of tokens. */
static int check_scored(struct flight *f)
{
    const struct fields *given = &f->q.field;
    bool echoes = given->output.echo && given->output.logprobs > given->output.prompt_logprobs;
    const char *field = echoes ? "logprobs" : "prompt_logprobs";
    size_t each = (size_t)((echoes ? given->output.logprobs : given->output.prompt_logprobs) + 1),
           n_answers = f->q.endpoint == FIELDS_COMPLETIONS ? (size_t)given->generation.n : 1;
    char sentence[200];

    /* the product cannot overflow: n_prompt_tokens is bounded by the size of a body, and the other factors
     * are small */
    if (f->q.n_prompt_tokens * each * n_answers <= MOST_SCORED)
        return 0;
    snprintf(sentence, sizeof(sentence),
             "%s: found %zu tokens of prompts with %zu log-probabilities each, in %zu answers; expected at "
             "most %d in all",
             field, f->q.n_prompt_tokens, each, n_answers, MOST_SCORED);
    return refuse_field(f, field, sentence);
}

/* ---- submitting ---- */

static void describe(struct flight *f, struct flight_prompt *p, const char *salt, struct gallop_request *r)
{
    const struct request *q = &f->q;
    const struct fields *given = &q->field;
    const struct request_prompt *prompt = &q->prompt[p - f->prompt];
    const struct markup_reasoning *reasoning = q->server->markup->reasoning;

    gallop_request_init(r);
    r->ids = prompt->id;
    r->n_ids = prompt->n_ids;
    r->infill = given->input.suffix != NULL;
    r->keep_special = !given->output.skip_special_tokens || q->keeps_special;
    r->n = (int64_t)q->n;
    r->structured_outputs = q->structured;
    if (reasoning) {
        r->reasoning_open = markup_fixed(reasoning->open);
        r->reasoning_close = markup_fixed(reasoning->close);
        r->reasoning_begun = markup_reasons(q->place);
        constrain_set_marks(q->calls, r);
    }
    r->prompt_logprobs = given->output.prompt_logprobs;
    if (given->output.echo && given->output.logprobs > r->prompt_logprobs)
        r->prompt_logprobs = given->output.logprobs;
    if (q->endpoint & FIELDS_POOLED)
        r->pooling = q->server->embedder ? q->server->embedder->pooling : GALLOP_POOL_LAST;
    r->speculative = given->generation.speculative;
    r->priority = (int)given->priority;
    r->key = q->origin.key[0] ? q->origin.key : given->user;
    r->cache_salt = salt;
    if (q->server->request_timeout_s > 0)
        r->deadline_s = fmax(q->server->request_timeout_s - (clock_seconds() - q->origin.arrival_s), 1e-3);
    r->user = p;
}

/* Submits P. Answer K of the response, counted over all prompts, draws with the request's seed + K. */
static int submit(struct flight *f, struct flight_prompt *p, const struct sampling *s, const char *salt)
{
    struct sampling own = *s;
    struct gallop_request r;
    struct err e = {0};

    describe(f, p, salt, &r);
    own.seed += (uint64_t)(p - f->prompt) * f->q.n;
    p->n_open = f->q.n;
    if (engine_submit(f->api->opt.engine, &r, &own, &p->id, &e) == 0)
        return 0;
    p->n_open = 0;
    prepare_waits_no_more(p);
    blame(f, &e);
    return refuse_error(f, &e);
}

/* Counts the tokens of P as waiting. Returns false if the limit of waiting tokens is reached. */
static bool take_room(struct flight *f, struct flight_prompt *p)
{
    p->waits = queue_add_tokens(&f->api->queue, f->client, f->q.prompt[p - f->prompt].n_ids);
    return p->waits;
}

void prepare_waits_no_more(struct flight_prompt *p)
{
    struct flight *f = p->flight;

    if (p->waits)
        queue_remove_tokens(&f->api->queue, f->client, f->q.prompt[p - f->prompt].n_ids);
    p->waits = false;
}

static int submit_prompts(struct flight *f, const struct sampling *s)
{
    const char *own = f->q.field.cache_salt;
    char salt[KEYS_NAME + 1032] = "";
    int rc = 0;

    snprintf(salt, sizeof(salt), "%s/%s", f->q.origin.key, own ? own : "");
    for (size_t i = 0; i < f->q.n_prompts && rc == 0; i++) {
        if (refuse_late(f))
            return ERR_INPUT;
        fields_blame(&f->q.field, prompt_field(&f->q), 0);
        rc = take_room(f, &f->prompt[i]) ? submit(f, &f->prompt[i], s, salt[1] ? salt : NULL)
                                         : refuse(f, 429, "too many tokens of prompts wait; come back later");
    }
    return rc;
}

static int submit_all(struct flight *f)
{
    struct arena lists; /* the engine copies these lists */
    struct sampling s;
    int rc;

    arena_init(&lists, MEM_API);
    rc = choose_sampling(&f->q, &f->api->seeds, &lists, &s) ? submit_prompts(f, &s) : refuse_memory(f);
    arena_fini(&lists);
    return rc;
}

void prepare_cancel(struct flight *f)
{
    bool pending = false;

    for (size_t i = 0; i < f->q.n_prompts; i++)
        if (f->prompt[i].id && f->prompt[i].n_open)
            pending |= gallop_cancel(f->api->opt.engine, f->prompt[i].id) != 0;
    /* The engine accepts a limited number of messages at once; flight_advance() tries again. */
    f->cancel = pending ? FLIGHT_CANCEL : FLIGHT_CANCELLED;
}

/* ---- the job ---- */

static void say_unknown(void *ctx, const char *name)
{
    const struct request *q = ctx;

    once_warn(q->once, q->origin.route, name, "the field '%s' is not supported and changes nothing");
}

/* Chooses the id of the answer, which /abort_requests accepts too. */
static int choose_id(struct flight *f)
{
    struct request *q = &f->q;
    const char *id = q->field.request_id;
    uint64_t random[2]; /* random, since a client that guesses an id could abort the request */

    if (q->naming == REQUEST_NAMED)
        return 0;
    if (q->naming == REQUEST_MISNAMED || (id && !request_is_id(id)))
        return refuse_field(f, "request_id",
                            "request_id: expected at most 128 printable ASCII characters without blanks");
    if (id)
        snprintf(q->name, sizeof(q->name), "%s", id);
    else if (getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random))
        snprintf(q->name, sizeof(q->name), "%016llx%016llx", (unsigned long long)random[0],
                 (unsigned long long)random[1]);
    snprintf(q->id, sizeof(q->id), "%s%s", q->dialect->prefix, q->name);
    return 0;
}

/* Frees the token ids of prompts, unless the answer repeats them. */
static void forget_prompts(struct request *q)
{
    if (q->field.output.return_token_ids || q->field.output.echo || q->field.output.prompt_logprobs >= 0)
        return;
    for (size_t i = 0; i < q->n_prompts; i++) {
        mem_free(q->prompt[i].id); /* n_ids stays, since the server's thread may read it now */
        q->prompt[i].id = NULL;
    }
}

/* Reads the constraint on the answers. */
static int read_structured(struct flight *f)
{
    struct err e = {0};
    char field[ERR_SUBJECT_BYTES];

    if (choose_structured(&f->q, &e) == 0 && calls_choose(&f->q, &e) == 0) {
        if (structured_is_given(&f->q.structured))
            f->q.constraint = choose_field(&f->q, "structured_outputs");
        else if (f->q.structured.tool_calls)
            f->q.constraint = choose_field(&f->q, "structured_outputs.tool_calls");
        return 0;
    }
    snprintf(field, sizeof(field), "%.*s", (int)strcspn(e.subject, "."), e.subject);
    fields_blame(&f->q.field, field, 0);
    return refuse_error(f, &e);
}

/* Submits F, whose prompts are read. */
static void submit_read(struct flight *f)
{
    submit_all(f);
    forget_prompts(&f->q);
}

/* Returns whether the constraint on the answers has to be compiled. */
static bool must_compile(struct flight *f)
{
    struct gallop_request r;

    if (!f->q.constraint)
        return false;
    gallop_request_init(&r);
    r.structured_outputs = f->q.structured;
    return !engine_is_compiled(f->api->opt.engine, &r);
}

static void begin_job(const struct flight *f)
{
    mem_over_budget(); /* resets the flag of an earlier failure */
    mem_set_client(f->client);
    mem_charge(MEM_CHARGE_NEW);
}

static void end_job(struct flight *f)
{
    if (f->reply.oom) /* the reply is incomplete */
        refuse_memory(f);
    if (!f->job.then)
        fields_forget(&f->q.field, f->q.endpoint);
    mem_charge(MEM_CHARGE_NONE);
}

/* The rest of prepare_request() for a request whose constraint has to be compiled. */
static void compile_request(struct workers_job *job)
{
    struct flight *f = (struct flight *)(void *)job;

    begin_job(f);
    if (!refuse_late(f))
        submit_read(f);
    end_job(f);
}

static void compute(struct flight *f)
{
    const struct fields *given = &f->q.field;

    if (reserve(f) != 0 || read_structured(f) != 0 || prompt_read_all(f, &f->api->seeds) != 0 ||
        check_scored(f) != 0)
        return;
    f->q.keeps_tokens =
        given->output.logprobs >= 0 || given->output.chat_logprobs || given->output.return_token_ids;
    if (must_compile(f)) {
        f->job.client = f->client; /* which the field `user` may have changed */
        f->job.then = compile_request;
    } else {
        submit_read(f);
    }
}

static int read_fields(struct flight *f)
{
    struct request *q = &f->q;
    struct err e = {0};

    if (fields_read(&q->field, q->endpoint, f->body.data ? f->body.data : "", f->body.len, say_unknown, q,
                    &e) != 0)
        return refuse_error(f, &e);
    buf_fini(&f->body);
    if (!q->origin.key[0] && q->field.user) {
        f->client = access_client(q->field.user, "");
        mem_set_client(f->client);
    }
    if (refuse_late(f))
        return ERR_INPUT;
    return choose_id(f) != 0 || check_model(f) != 0 || check_needed(f) != 0 ? ERR_INPUT : 0;
}

static void prepare(struct flight *f)
{
    struct request *q = &f->q;
    struct err e = {0};

    if (read_fields(f) != 0)
        return;
    if (ollama_loads(q)) {
        ollama_put_loaded(q, &f->reply);
        f->status = 200;
        return;
    }
    if (q->endpoint == FIELDS_EMBED && q->field.input.prompt && prompt_is_list(q->field.input.prompt) &&
        json_array_size(q->field.input.prompt) == 0) { /* there is nothing to compute */
        q->dialect->whole(&f->writer, &f->reply);
        f->status = 200;
        return;
    }
    if (q->dialect->read && q->dialect->read(q, &e) != 0) {
        refuse_error(f, &e);
        return;
    }
    fields_blame(&f->q.field, "", 0); /* the checks below set the field of their errors */
    if (check_together(f) != 0)
        return;
    switch (q->endpoint) {
    case FIELDS_TOKENIZE: tokens_encode(f); break;
    case FIELDS_DETOKENIZE: tokens_decode(f); break;
    case FIELDS_COUNT: tokens_count(f); break;
    case FIELDS_SHOW:
        models_ollama_show(f->api, &f->reply);
        f->status = 200;
        break;
    default: compute(f); break;
    }
}

void prepare_request(struct workers_job *job)
{
    struct flight *f = (struct flight *)(void *)job;

    begin_job(f);
    if (!refuse_late(f))
        prepare(f);
    end_job(f);
}
