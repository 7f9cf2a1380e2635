/* prepare.c - turns the body of a request into requests to the engine. */
#include "chat/prepare/prepare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "chat/dialect/dialect.h"
#include "chat/dialect/ollama.h"
#include "chat/dialect/ollama_models.h"
#include "chat/once.h"
#include "chat/prepare/choose.h"
#include "chat/prepare/prompt.h"
#include "chat/prepare/refuse.h"
#include "chat/prepare/tokens.h"
#include "chat/service.h"
#include "engine/constraints/constrain.h"
#include "engine/constraints/structured.h"
#include "engine/embeddings/embedder.h"
#include "engine/engine.h"
#include "engine/sampling/sampling.h"
#include "text/markup/markup.h"

enum { MOST_SCORED = 4 << 20 }; /* maximum number of prompt log-probabilities in an answer: about 300 MB */

/* ---- checks across fields ---- */

static bool is_served(const struct service *s, const char *name)
{
    for (size_t i = 0; i < s->n_names; i++)
        if (strcmp(s->name[i], name) == 0)
            return true;
    return s->path_name && strcmp(s->path_name, name) == 0;
}

static int check_model(struct request *q)
{
    char sentence[400], plain[256];
    const char *tag = q->field.model && ollama_owns(q->origin.route) ? strrchr(q->field.model, ':') : NULL;

    if (!q->field.model || is_served(q->service, q->field.model))
        return 0;
    if (tag && strcmp(tag, ":latest") == 0) { /* clients of Ollama may append it to any name */
        snprintf(plain, sizeof(plain), "%.*s", (int)(tag - q->field.model), q->field.model);
        if (is_served(q->service, plain))
            return 0;
    }
    snprintf(sentence, sizeof(sentence), "The model `%.100s` does not exist; `%.100s` is served here.",
             q->field.model, q->service->name[0]);
    fields_blame(&q->field, "model", 0);
    return refuse(q, 404, sentence);
}

static int check_logprobs(struct request *q)
{
    const int64_t most = q->service->max_logprobs;
    const struct fields *given = &q->field;
    char sentence[128];
    const char *field = given->output.logprobs > most          ? "logprobs"
                        : given->output.top_logprobs > most    ? "top_logprobs"
                        : given->output.prompt_logprobs > most ? "prompt_logprobs"
                                                               : NULL;

    snprintf(sentence, sizeof(sentence), "%s: the server gives at most %lld", field ? field : "",
             (long long)most);
    if (field)
        return refuse_field(q, field, sentence);
    if (given->output.top_logprobs > 0 && !given->output.chat_logprobs)
        return refuse_field(q, "top_logprobs", "top_logprobs: `logprobs` has to be true");
    if (given->sampling->n_logprob_ids && given->output.logprobs < 0 && !given->output.chat_logprobs)
        return refuse_field(q, "logprob_token_ids", "logprob_token_ids: `logprobs` has to be asked for");
    if (given->sampling->n_logprob_ids && given->output.echo && given->generation.max_tokens == 0 &&
        q->endpoint == FIELDS_COMPLETIONS)
        return refuse_field(q, "logprob_token_ids", "logprob_token_ids: no token is made with max_tokens 0");
    if (given->output.stream && given->output.prompt_logprobs >= 0)
        return refuse_field(q, "prompt_logprobs", "prompt_logprobs are not given with `stream`");
    return 0;
}

/* Checks that the request has the field required by its endpoint. */
static int check_needed(struct request *q)
{
    const char *needs = fields_needed(q->endpoint);
    const json_t *v = needs ? json_object_get(q->field.body, needs) : NULL;
    char sentence[80];

    if (!needs || (v && !json_is_null(v)))
        return 0;
    snprintf(sentence, sizeof(sentence), "%s: missing", needs);
    return refuse_field(q, needs, sentence);
}

/* Sets the field that the engine's error E is about. */
static void blame(struct request *q, struct err *e)
{
    const char *field = choose_field(q, e->subject);

    if (!field[0])
        return;
    if (json_object_get(q->field.body, field))
        fields_blame(&q->field, field, 0);
    if (field != e->subject)
        err_subject(e, field);
}

/* Checks the fields of a request for beam search. */
static int check_search(struct request *q)
{
    const struct fields *given = &q->field;
    struct err e = {0};

    if (given->output.stream)
        return refuse_field(
            q, "stream",
            "stream: beam search knows the first token only at the end, so answers are not streamed");
    if (given->generation.best_of > given->generation.n)
        return refuse_field(q, "best_of", "best_of: beam search has `num_beams` instead");
    if (sampling_check_search(given->sampling, &e) == 0)
        return check_logprobs(q);
    blame(q, &e);
    return refuse_error(q, &e);
}

static int check_together(struct request *q)
{
    const struct fields *given = &q->field;
    const char *side = given->input.truncation_side;

    if (given->output.has_stream_options && !given->output.stream)
        return refuse_field(q, "stream_options", "stream_options: only with `stream`");
    if (given->generation.best_of >= 0 && given->generation.best_of < given->generation.n)
        return refuse_field(q, "best_of", "best_of: expected at least as many answers as n");
    if (given->generation.best_of > given->generation.n && given->output.stream)
        return refuse_field(q, "best_of", "best_of: answers that are chosen from more are not streamed");
    if (given->priority && !q->service->priorities)
        return refuse_field(
            q, "priority",
            "priority: found a value other than 0, but the server's scheduling-policy is fcfs");
    if (side && strcmp(side, "left") != 0 && strcmp(side, "right") != 0)
        return refuse_field(q, "truncation_side", "truncation_side: expected left or right");
    if (given->input.truncate_prompt_tokens == 0 && json_object_get(given->body, "truncate_prompt_tokens") &&
        !json_is_null(json_object_get(given->body, "truncate_prompt_tokens")))
        return refuse_field(q, "truncate_prompt_tokens",
                            "truncate_prompt_tokens: nothing would be left of the prompt");
    if (given->input.suffix && (given->output.echo || given->input.truncate_prompt_tokens))
        return refuse_field(q, "suffix", "suffix: not with echo or truncate_prompt_tokens");
    if (q->endpoint == FIELDS_TOKENIZE && !given->input.prompt == !given->input.messages)
        return refuse_field(q, "prompt", "either prompt or messages is expected");
    return sampling_is_search(given->sampling) ? check_search(q) : check_logprobs(q);
}

/* ---- prompts and answers ---- */

/* Refuses more answers than can ever be computed. */
static int check_answers(struct request *q)
{
    const char *field = q->n == 1                                             ? prompt_field(q)
                        : q->field.generation.best_of > q->field.generation.n ? "best_of"
                                                                              : "n";
    char sentence[160];

    if (q->n_prompts * q->n <= q->service->max_answers)
        return 0;
    snprintf(sentence, sizeof(sentence),
             "%s: found %zu answers to each of %zu prompts, expected at most %zu answers in all", field, q->n,
             q->n_prompts, q->service->max_answers);
    return refuse_field(q, field, sentence);
}

/* Sets the numbers of prompts and answers. */
static int count_answers(struct request *q)
{
    const struct fields_generation *g = &q->field.generation;

    q->n_prompts = prompt_is_list(q->field.input.prompt) ? json_array_size(q->field.input.prompt) : 1;
    q->n = (size_t)(g->best_of > g->n ? g->best_of : g->n);
    return check_answers(q);
}

static void init_choice(const struct request *q, struct answer_choice *h)
{
    bool stops = q->field.sampling->n_stop || q->field.sampling->n_stop_token;

    message_init(&h->said, MEM_API);
    h->said.drops_reasoning = !q->field.output.include_reasoning;
    h->stop_token = -1;
    h->said.calls.whole = stops;
    h->said.calls.when = q->dialect->calls == MESSAGE_CALLS_AT_END ? MESSAGE_CALLS_AT_END
                         : stops                                   ? MESSAGE_CALLS_COMPLETE
                                                                   : MESSAGE_CALLS_STREAMED;
}

/* Allocates the prompts and the answers of Q. */
static int allocate(struct request *q)
{
    struct answer *a = &q->answer;
    size_t n = q->n_prompts * q->n;

    a->prompt = arena_zalloc(&q->arena, q->n_prompts, sizeof(*a->prompt));
    a->choice = arena_zalloc(&q->arena, n, sizeof(*a->choice));
    q->prompt = arena_zalloc(&q->arena, q->n_prompts, sizeof(*q->prompt));
    if (!q->prompt || !a->prompt || !a->choice) {
        q->prompt = NULL;
        return refuse_memory(q);
    }
    a->n_prompts = q->n_prompts;
    a->n_choices = n;
    for (size_t i = 0; i < q->n_prompts; i++) {
        q->prompt[i].request = q;
        q->prompt[i].text.tag = MEM_API;
    }
    for (size_t i = 0; i < n; i++)
        init_choice(q, &a->choice[i]);
    return !q->dialect->open || q->dialect->open(&q->writer) ? 0 : refuse_memory(q);
}

/* Checks the total number of log-probabilities of prompts, which can be many times the number of tokens. */
static int check_scored(struct request *q)
{
    const struct fields *given = &q->field;
    bool echoes = given->output.echo && given->output.logprobs > given->output.prompt_logprobs;
    const char *field = echoes ? "logprobs" : "prompt_logprobs";
    size_t each = (size_t)((echoes ? given->output.logprobs : given->output.prompt_logprobs) + 1),
           n_answers = q->endpoint == FIELDS_COMPLETIONS ? (size_t)given->generation.n : 1;
    char sentence[200];

    /* the product cannot overflow: n_prompt_tokens is bounded by the size of a body, and the other factors
     * are small */
    if (q->endpoint == FIELDS_LINE || q->n_prompt_tokens * each * n_answers <= MOST_SCORED)
        return 0;
    snprintf(sentence, sizeof(sentence),
             "%s: found %zu tokens of prompts with %zu log-probabilities each, in %zu answers; expected at "
             "most %d in all",
             field, q->n_prompt_tokens, each, n_answers, MOST_SCORED);
    return refuse_field(q, field, sentence);
}

/* ---- submitting ---- */

static void describe(const struct request *q, const struct request_prompt *prompt, const char *salt,
                     struct gallop_request *r)
{
    const struct fields *given = &q->field;

    gallop_request_init(r);
    r->ids = prompt->id;
    r->n_ids = prompt->n_ids;
    r->infill = given->input.suffix != NULL;
    r->keep_special = !given->output.skip_special_tokens || q->keeps_special;
    r->n = (int64_t)q->n;
    r->structured_outputs = q->structured;
    constrain_set_marks(q->service->markup->reasoning, q->calls, q->place, r);
    r->prompt_logprobs = given->output.prompt_logprobs;
    if (given->output.echo && given->output.logprobs > r->prompt_logprobs)
        r->prompt_logprobs = given->output.logprobs;
    if (q->endpoint & FIELDS_POOLED)
        r->pooling = q->service->embedder ? q->service->embedder->pooling : GALLOP_POOL_LAST;
    r->speculative = given->generation.speculative;
    r->priority = (int)given->priority;
    r->key = q->origin.key[0] ? q->origin.key : given->user;
    r->cache_salt = salt;
    if (q->service->request_timeout_s > 0)
        r->deadline_s = fmax(q->service->request_timeout_s - (clock_seconds() - q->origin.arrival_s), 1e-3);
    r->user = (void *)(uintptr_t)prompt;
}

/* Submits P. Answer K of the response, counted over all prompts, draws with the request's seed + K. */
static int submit(struct request_prompt *p, const struct sampling *s, const char *salt)
{
    struct request *q = p->request;
    struct sampling own = *s;
    struct gallop_request r;
    struct err e = {0};

    describe(q, p, salt, &r);
    own.seed += (uint64_t)(p - q->prompt) * q->n;
    p->n_open = q->n;
    if (engine_submit(q->service->engine, &r, &own, &p->engine_id, &e) == 0)
        return 0;
    p->n_open = 0;
    blame(q, &e);
    return refuse_error(q, &e);
}

static int submit_prompts(struct request *q, const struct sampling *s,
                          bool (*has_room)(struct request_prompt *p))
{
    const char *own = q->field.cache_salt;
    char salt[REQUEST_KEY + 1032] = "";
    int rc = 0;

    snprintf(salt, sizeof(salt), "%s/%s", q->origin.key, own ? own : "");
    for (size_t i = 0; i < q->n_prompts && rc == 0; i++) {
        if (refuse_late(q))
            return ERR_INPUT;
        fields_blame(&q->field, prompt_field(q), 0);
        rc = !has_room || has_room(&q->prompt[i])
                 ? submit(&q->prompt[i], s, salt[1] ? salt : NULL)
                 : refuse(q, 429, "too many tokens of prompts wait; come back later");
    }
    return rc;
}

/* Frees the token ids of prompts, unless the answer repeats them. */
static void forget_prompts(struct request *q)
{
    if (q->field.output.return_token_ids || q->field.output.echo || q->field.output.prompt_logprobs >= 0)
        return;
    for (size_t i = 0; i < q->n_prompts; i++) {
        mem_free(q->prompt[i].id); /* n_ids stays, since another thread may read it now */
        q->prompt[i].id = NULL;
    }
}

int prepare_submit(struct request *q, bool (*has_room)(struct request_prompt *p))
{
    struct arena lists; /* the engine copies these lists */
    struct sampling s;
    int rc;

    arena_init(&lists, MEM_API);
    rc = choose_sampling(q, q->seeds, &lists, &s) ? submit_prompts(q, &s, has_room) : refuse_memory(q);
    arena_fini(&lists);
    forget_prompts(q);
    return rc;
}

bool prepare_cancel(struct request *q)
{
    bool good = true;

    for (size_t i = 0; q->prompt && i < q->n_prompts; i++)
        if (q->prompt[i].engine_id && q->prompt[i].n_open)
            good &= gallop_cancel(q->service->engine, q->prompt[i].engine_id) == 0;
    return good;
}

/* ---- reading ---- */

static void say_unknown(void *ctx, const char *name)
{
    const struct request *q = ctx;

    once_warn(q->once, q->origin.route, name, "the field '%s' is not supported and changes nothing");
}

/* Chooses the id of the answer, which /abort_requests accepts too. */
static int choose_id(struct request *q)
{
    const char *id = q->field.request_id;
    uint64_t random[2]; /* random, since a client that guesses an id could abort the request */

    if (q->naming == REQUEST_NAMED)
        return 0;
    if (q->naming == REQUEST_MISNAMED || (id && !request_is_id(id)))
        return refuse_field(q, "request_id",
                            "request_id: expected at most 128 printable ASCII characters without blanks");
    if (id)
        snprintf(q->name, sizeof(q->name), "%s", id);
    else if (getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random))
        snprintf(q->name, sizeof(q->name), "%016llx%016llx", (unsigned long long)random[0],
                 (unsigned long long)random[1]);
    snprintf(q->id, sizeof(q->id), "%s%s", q->dialect->prefix, q->name);
    return 0;
}

/* Reads the constraint on the answers. */
static int read_structured(struct request *q)
{
    struct err e = {0};
    char field[ERR_SUBJECT_BYTES];

    if (choose_structured(q, &e) == 0 && (q->endpoint == FIELDS_LINE || choose_calls(q, &e) == 0)) {
        if (structured_is_given(&q->structured))
            q->constraint = choose_field(q, "structured_outputs");
        else if (q->structured.tool_calls)
            q->constraint = choose_field(q, "structured_outputs.tool_calls");
        return 0;
    }
    snprintf(field, sizeof(field), "%.*s", (int)strcspn(e.subject, "."), e.subject);
    fields_blame(&q->field, field, 0);
    return refuse_error(q, &e);
}

bool prepare_compiles(const struct request *q)
{
    struct gallop_request r;

    if (!q->constraint)
        return false;
    gallop_request_init(&r);
    r.structured_outputs = q->structured;
    return !engine_is_compiled(q->service->engine, &r);
}

int prepare_prompts(struct request *q)
{
    const struct fields *given = &q->field;

    if (allocate(q) != 0 || read_structured(q) != 0 || prompt_read_all(q, q->seeds) != 0 ||
        check_scored(q) != 0)
        return ERR_INPUT;
    q->keeps_tokens =
        given->output.logprobs >= 0 || given->output.chat_logprobs || given->output.return_token_ids;
    return 0;
}

int prepare_read(struct request *q, const char *body, size_t n)
{
    struct err e = {0};

    if (fields_read(&q->field, q->endpoint, body, n, q->service->sampling, say_unknown, q, &e) != 0)
        return refuse_error(q, &e);
    return choose_id(q) != 0 || check_model(q) != 0 || check_needed(q) != 0 ? ERR_INPUT : 0;
}

int prepare_whole(struct request *q)
{
    if (q->field.output.stream && json_is_true(json_object_get(q->field.body, "stream")))
        return refuse_field(q, "stream", "stream: whole answers are returned here, expected false");
    q->field.output.stream = false;
    return 0;
}

/* Answers Q if that needs no engine. */
static void answer_at_once(struct request *q)
{
    if (ollama_loads(q)) {
        ollama_put_loaded(q, &q->reply);
        q->status = 200;
    } else if (q->endpoint == FIELDS_EMBED && q->field.input.prompt &&
               prompt_is_list(q->field.input.prompt) &&
               json_array_size(q->field.input.prompt) == 0) { /* there is nothing to compute */
        q->dialect->whole(&q->writer, &q->reply);
        q->status = 200;
    }
}

static int check(struct request *q)
{
    struct err e = {0};

    answer_at_once(q);
    if (q->status)
        return ERR_INPUT;
    if (q->dialect->read && q->dialect->read(q, &e) != 0)
        return refuse_error(q, &e);
    if ((q->endpoint & FIELDS_POOLED) && q->service->embedder_missing)
        return refuse(q, 400, q->service->embedder_missing);
    fields_blame(&q->field, "", 0); /* the checks below set the field of their errors */
    if (check_together(q) != 0)
        return ERR_INPUT;
    switch (q->endpoint) {
    case FIELDS_TOKENIZE: tokens_encode(q); break;
    case FIELDS_DETOKENIZE: tokens_decode(q); break;
    case FIELDS_COUNT: tokens_count(q); break;
    case FIELDS_SHOW:
        ollama_put_model(q->service, &q->reply);
        q->status = 200;
        break;
    default: return count_answers(q);
    }
    return ERR_INPUT;
}

int prepare_check(struct request *q)
{
    int rc = check(q);

    if (q->reply.oom) /* an answer that needs no engine is incomplete */
        refuse_memory(q);
    return rc;
}
