/* prepare.c - from the bytes of a request to requests of the engine. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "api/messages.h"
#include "api/ollama.h"
#include "api/prepare.h"
#include "api/request.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"

enum { MOST_SCORED = 4 << 20 }; /* log-probabilities of prompts in an answer: about 300 MB */

static const struct engine_info *info_of(const struct request *c)
{
    return engine_info(c->api->opt.engine);
}

/* ---- refusing ---- */

/* The sentence is not charged: there may be no room for it. */
static int prepare_refuse(struct request *c, int status, const char *sentence)
{
    enum mem_charge before = mem_charge(MEM_CHARGE_NONE);

    dialect_reason(sentence, c->reason, sizeof(c->reason));
    buf_fini(&c->reply);
    c->form->error(&c->reply, status, sentence, c->f.param[0] ? c->f.param : NULL);
    mem_charge(before);
    c->status = status;
    return ERR_INPUT;
}

/* There is no memory for the request, or none is left of what requests may hold together. */
static int refuse_memory(struct request *c)
{
    if (!mem_over_budget())
        return prepare_refuse(c, 503, "out of memory");
    atomic_fetch_add(&c->api->n_over_memory, 1);
    fields_blame(&c->f, "", 0);
    return prepare_refuse(c, 429, request_over_memory);
}

static int refuse_field(struct request *c, const char *field, const char *sentence)
{
    fields_blame(&c->f, field, 0);
    return prepare_refuse(c, 400, sentence);
}

static int refuse_code(struct request *c, const struct err *e)
{
    char text[sizeof(*e)];

    if (mem_lib_failed() || e->code == ERR_NOMEM) /* for lack of memory E may blame the request */
        return refuse_memory(c);
    err_text_without_path(e, text, sizeof(text));
    return prepare_refuse(c, e->code == ERR_NOSPACE ? 429 : 400, text);
}

/* C is not worth its next stage: its client left, the server ends, or its time is over; it is refused
 * then. */
static bool is_over(struct request *c)
{
    double most_s = c->api->opt.request_timeout_s;

    if (atomic_load(&c->unwanted))
        prepare_refuse(c, 503, "the server is shutting down"); /* if anybody is there who hears it */
    else if (most_s > 0 && clock_seconds() - c->arrival_s >= most_s)
        prepare_refuse(c, 504, "the request took longer than this server allows");
    else
        return false;
    return true;
}

/* ---- what fields say together ---- */

static bool is_served(const struct api *a, const char *name)
{
    for (size_t i = 0; i < a->opt.n_names; i++)
        if (strcmp(a->opt.name[i], name) == 0)
            return true;
    return a->opt.path_name && strcmp(a->opt.path_name, name) == 0;
}

static int check_model(struct request *c)
{
    char sentence[400], plain[256];
    const char *tag = c->f.model && strncmp(c->route, "/api/", 5) == 0 ? strrchr(c->f.model, ':') : NULL;

    if (!c->f.model || is_served(c->api, c->f.model))
        return 0;
    if (tag && strcmp(tag, ":latest") == 0) { /* Ollama's clients may write it behind any name */
        snprintf(plain, sizeof(plain), "%.*s", (int)(tag - c->f.model), c->f.model);
        if (is_served(c->api, plain))
            return 0;
    }
    snprintf(sentence, sizeof(sentence), "The model `%.100s` does not exist; `%.100s` is served here.",
             c->f.model, c->api->opt.name[0]);
    fields_blame(&c->f, "model", 0);
    return prepare_refuse(c, 404, sentence);
}

static int check_logprobs(struct request *c)
{
    const int64_t most = c->api->opt.max_logprobs;
    struct fields *f = &c->f;
    char sentence[128];
    const char *field = f->logprobs > most          ? "logprobs"
                        : f->top_logprobs > most    ? "top_logprobs"
                        : f->prompt_logprobs > most ? "prompt_logprobs"
                                                    : NULL;

    snprintf(sentence, sizeof(sentence), "%s: at most %lld are given (--max-logprobs)", field ? field : "",
             (long long)most);
    if (field)
        return refuse_field(c, field, sentence);
    if (f->top_logprobs > 0 && !f->chat_logprobs)
        return refuse_field(c, "top_logprobs", "top_logprobs: `logprobs` has to be true");
    if (f->logprob_ids && f->logprobs < 0 && !f->chat_logprobs)
        return refuse_field(c, "logprob_token_ids", "logprob_token_ids: `logprobs` has to be asked for");
    if (f->logprob_ids && f->echo && f->max_tokens == 0 && c->endpoint == FIELDS_COMPLETIONS)
        return refuse_field(c, "logprob_token_ids", "logprob_token_ids: no token is made with max_tokens 0");
    if (f->stream && f->prompt_logprobs >= 0)
        return refuse_field(c, "prompt_logprobs", "prompt_logprobs are not given with `stream`");
    return 0;
}

/* The field is there that the endpoint cannot be without. */
static int check_needed(struct request *c)
{
    const char *needs = fields_needed(c->endpoint);
    const json_t *v = needs ? json_object_get(c->f.body, needs) : NULL;
    char sentence[80];

    if (!needs || (v && !json_is_null(v)))
        return 0;
    snprintf(sentence, sizeof(sentence), "%s: missing", needs);
    return refuse_field(c, needs, sentence);
}

static int check_together(struct request *c)
{
    const char *side = c->f.truncation_side;
    struct fields *f = &c->f;

    if (f->has_stream_options && !f->stream)
        return refuse_field(c, "stream_options", "stream_options: only with `stream`");
    if (f->best_of >= 0 && f->best_of < f->n)
        return refuse_field(c, "best_of", "best_of: expected at least as many answers as n");
    if (f->best_of > f->n && f->stream)
        return refuse_field(c, "best_of", "best_of: answers that are chosen from more are not streamed");
    if (f->priority && !c->api->opt.priorities)
        return refuse_field(c, "priority", "priority: the server's --scheduling-policy is fcfs");
    if (side && strcmp(side, "left") != 0 && strcmp(side, "right") != 0)
        return refuse_field(c, "truncation_side", "truncation_side: expected left or right");
    if (f->truncate_prompt_tokens == 0 && json_object_get(f->body, "truncate_prompt_tokens") &&
        !json_is_null(json_object_get(f->body, "truncate_prompt_tokens")))
        return refuse_field(c, "truncate_prompt_tokens",
                            "truncate_prompt_tokens: nothing would be left of the prompt");
    if (c->endpoint == FIELDS_TOKENIZE && !f->prompt == !f->messages)
        return refuse_field(c, "prompt", "either prompt or messages is expected");
    return check_logprobs(c);
}

/* ---- prompts ---- */

static int add_json_ids(struct tok_ids *ids, const json_t *list, struct err *e)
{
    size_t n = json_array_size(list);

    if (!mem_grow((void **)&ids->id, &ids->cap, n, sizeof(*ids->id), MEM_TEXT))
        return err_nomem(e, "a prompt");
    for (size_t i = 0; i < n; i++)
        ids->id[ids->n++] = (int32_t)json_integer_value(json_array_get(list, i));
    return 0;
}

/* The sentence that refuses a prompt of N tokens (or of AT LEAST so many). Clients know it: OpenAI's by
 * "maximum context length", Anthropic's by "prompt is too long". */
static int say_too_long(const struct request *c, const char *at_least, size_t n, struct err *e)
{
    size_t context = info_of(c)->max_len, least = prepare_max_tokens(c) == 0 ? 0 : 1;

    if (c->endpoint == FIELDS_MESSAGES)
        return err_set(e, ERR_INPUT, "prompt is too long: %s%zu tokens > %zu maximum", at_least, n,
                       context - least);
    return err_set(e, ERR_INPUT,
                   "This model's maximum context length is %zu tokens. However, your request has %s%zu input "
                   "tokens%s. Please reduce the length of the input messages.",
                   context, at_least, n, n == context ? ", and no room for an answer" : "");
}

/* However it is cut into tokens, a prompt of N bytes does not fit: then no time is spent on tokenizing it. */
static int check_bytes(const struct request *c, size_t n, struct err *e)
{
    const struct engine_info *m = info_of(c);
    size_t most;

    if (!c->prompt || c->f.truncate_prompt_tokens || n <= m->max_len)
        return 0;
    most = tok_most_bytes(m->tok);
    if (n / most < m->max_len || (n / most == m->max_len && n % most == 0))
        return 0;
    return say_too_long(c, "at least ", n / most + (n % most != 0), e);
}

/* ORIGIN: of the bytes of TEXT, or NULL. */
static int encode(const struct request *c, const char *text, const char *origin, size_t n, bool special,
                  struct tok_ids *ids, struct err *e)
{
    const struct engine_info *m = info_of(c);
    int rc;

    if (!m->tok)
        return err_set(e, ERR_UNSUPPORTED, "this model has no tokenizer: give the prompt as token ids");
    rc = check_bytes(c, n, e);
    return rc ? rc : tok_encode_marked(m->tok, text, origin, n, special ? TOK_ADD_SPECIAL : 0, ids, e);
}

static bool adds_special(const struct request *c, bool otherwise)
{
    return c->f.has_add_special ? c->f.add_special_tokens : otherwise;
}

/* The prompt that V is: a text or a list of ids. */
static int prepare_read_prompt(struct request *c, const json_t *v, struct request_prompt *p, struct err *e)
{
    int rc;

    if (json_is_string(v)) {
        rc = encode(c, json_string_value(v), NULL, json_string_length(v), adds_special(c, true), &p->ids, e);
        if (rc == 0 && c->f.echo)
            buf_add(&p->text, json_string_value(v), json_string_length(v));
    } else {
        rc = add_json_ids(&p->ids, v, e);
        if (rc == 0 && c->f.echo && info_of(c)->tok)
            rc = tok_decode(info_of(c)->tok, p->ids.id, p->ids.n, c->f.skip_special_tokens, &p->text, e);
    }
    return rc || !p->text.oom ? rc : err_nomem(e, "a prompt");
}

/* A well mixed number (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Answers that have to be taken apart are so from the place on where the prompt ends. */
static int open_parts(struct request *c, const struct buf *prompt, struct err *e)
{
    const struct markup *m = &c->api->opt.markup;
    struct parser_options o = {.calls = messages_have_tools(c) ? m->calls : NULL,
                               .reasoning = m->reasoning,
                               .prompt = prompt->data ? prompt->data : "",
                               .prompt_len = prompt->len,
                               .n_names = json_array_size(c->f.tools),
                               .one_call = !c->f.parallel_tool_calls};
    const char **names;
    int rc = 0;

    if (!o.calls && !o.reasoning)
        return 0;
    names = arena_zalloc(&c->arena, o.n_names, sizeof(*names));
    if (!names)
        return err_nomem(e, "an answer");
    o.names = names;
    if (o.n_names)
        rc = tools_check(c->f.tools, names, e);
    for (size_t i = 0; i < o.n_names && rc == 0; i++) { /* the list is let go of before the answer is there */
        names[i] = arena_strndup(&c->arena, names[i], strlen(names[i]));
        rc = names[i] ? 0 : err_nomem(e, "an answer");
    }
    for (size_t i = 0; i < c->n && rc == 0; i++) {
        o.seed = mix(c->api->secret ^ mix(atomic_fetch_add(&c->api->n_seeds, 1)));
        rc = parser_open(&c->choice[i].parts, &o, e);
    }
    c->keep_special = (o.calls && o.calls->special) || (o.reasoning && o.reasoning->special);
    c->calls = o.calls;
    return rc;
}

/* What tools are there for can be done with this model. */
static int check_tools(struct request *c, struct err *e)
{
    const struct api_options *o = &c->api->opt;

    if (!messages_have_tools(c) || !o->chat)
        return 0;
    if (o->tools.place == TOOLS_NOWHERE)
        return fields_blame(
            &c->f, "tools",
            err_set(e, ERR_UNSUPPORTED, "tools: the model's chat template does not write them"));
    if (c->choice && !o->markup.calls && !o->markup.plain_calls)
        return fields_blame(
            &c->f, "tools",
            err_set(e, ERR_UNSUPPORTED,
                    "tools: the chat template does not show how this model writes calls; the server's "
                    "--tool-call-parser names the way, or none for calls as text"));
    return 0;
}

/* What the prompt of C was given as. */
static const char *prompt_field(const struct request *c)
{
    const char *needs = fields_needed(c->endpoint);

    return needs ? needs : c->f.messages && c->endpoint != FIELDS_GENERATE ? "messages" : "prompt";
}

static int read_messages(struct request *c, struct tok_ids *ids, struct err *e)
{
    struct buf text = {.tag = MEM_API}, origin = {.tag = MEM_API};
    int rc = check_tools(c, e);

    if (rc == 0)
        rc = messages_render(c, &text, &origin, e);
    if (rc == 0 &&
        mem_lib_failed()) /* since the fields were read: not all that jansson is asked for is checked */
        rc = err_nomem(e, "messages");
    if (rc == 0 && c->choice)
        rc = open_parts(c, &text, e);
    if (rc == 0)
        rc = encode(c, text.data ? text.data : "", origin.data, text.len, adds_special(c, false), ids, e);
    buf_fini(&text);
    buf_fini(&origin);
    return rc;
}

int64_t prepare_max_tokens(const struct request *c)
{
    const struct sampling *config = engine_info(c->api->opt.engine)->defaults;

    if (c->f.max_completion_tokens >= 0)
        return c->f.max_completion_tokens;
    if (c->f.max_tokens >= 0)
        return c->f.max_tokens;
    if (c->endpoint == FIELDS_COMPLETIONS && !json_is_null(json_object_get(c->f.body, "max_tokens")))
        return 16;
    return sampling_given(config, SAMPLING_MAX_NEW_TOKENS) && config->max_new_tokens <= INT64_MAX
               ? (int64_t)config->max_new_tokens
               : -1;
}

/* Cuts the prompt to what truncate_prompt_tokens leaves of it. */
static void cut_prompt(const struct request *c, struct tok_ids *ids)
{
    const struct engine_info *m = info_of(c);
    bool whole = m->is_bidirectional && m->max_step_tokens < m->max_len; /* it takes a prompt in one step */
    int64_t max_tokens = prepare_max_tokens(c), most = c->f.truncate_prompt_tokens,
            context = (int64_t)(whole ? m->max_step_tokens : m->max_len);

    if (most == 0)
        return;
    if (most < 0)
        most = context - (max_tokens >= 0 && max_tokens < context ? max_tokens : 1);
    if (ids->n <= (size_t)most)
        return;
    if (!c->f.truncation_side || strcmp(c->f.truncation_side, "left") == 0)
        memmove(ids->id, ids->id + (ids->n - (size_t)most), (size_t)most * sizeof(*ids->id));
    ids->n = (size_t)most;
}

/* An answer of one token fits behind the prompt; a longer one ends where the context does. */
static int check_room(struct request *c, const struct request_prompt *p)
{
    size_t least = prepare_max_tokens(c) == 0 ? 0 : 1;
    struct err e = {0};

    if (p->ids.n + least <= info_of(c)->max_len)
        return 0;
    say_too_long(c, "", p->ids.n, &e);
    return refuse_field(c, prompt_field(c), e.msg);
}

static bool is_list_of_prompts(const json_t *prompt)
{
    return json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0));
}

/* The request asks for N_PROMPTS * N_EACH answers, which are more than this server ever queues. */
static int refuse_answers(struct request *c, size_t n_prompts, size_t n_each)
{
    const char *field = n_each == 1 ? prompt_field(c) : c->f.best_of > c->f.n ? "best_of" : "n";
    char sentence[160];

    snprintf(sentence, sizeof(sentence),
             "%s: found %zu answers to each of %zu prompts, expected at most %zu answers in all", field,
             n_each, n_prompts, request_most_places(c->api));
    return refuse_field(c, field, sentence);
}

/* Places of the queue for N_PROMPTS * N_EACH answers. One place is reserved already. */
static int reserve_places(struct request *c, size_t n_prompts, size_t n_each)
{
    const char *key = c->key[0] ? c->key : c->f.user ? c->f.user : "";
    size_t n = n_prompts * n_each;

    if (n > request_most_places(c->api))
        return refuse_answers(c, n_prompts, n_each);
    return request_settle(c, engine_fair_key(key, strlen(key)), n)
               ? 0
               : prepare_refuse(c, 429, "the queue is full; come back later");
}

/* Places, and memory for all prompts and answers. */
static int prepare_reserve(struct request *c)
{
    size_t n_prompts = is_list_of_prompts(c->f.prompt) ? json_array_size(c->f.prompt) : 1,
           n_each = (size_t)(c->f.best_of > c->f.n ? c->f.best_of : c->f.n), n = n_prompts * n_each;
    int rc = reserve_places(c, n_prompts, n_each);

    if (rc)
        return rc;
    c->prompt = arena_zalloc(&c->arena, n_prompts, sizeof(*c->prompt));
    c->choice = arena_zalloc(&c->arena, n, sizeof(*c->choice));
    if (!c->prompt || !c->choice)
        return refuse_memory(c);
    c->n_prompts = n_prompts;
    c->n = n_each;
    for (size_t i = 0; i < n_prompts; i++) {
        c->prompt[i].call = c;
        c->prompt[i].text.tag = MEM_API;
    }
    for (size_t i = 0; i < n; i++) {
        struct request_choice *h = &c->choice[i];

        h->text.tag = h->reasoning.tag = h->calls.tag = h->held.tag = MEM_API;
        h->holds = json_is_string(c->f.stop) || json_array_size(c->f.stop) > 0 ||
                   json_array_size(c->f.stop_token_ids) > 0;
        h->head.tag = h->said.tag = h->items.tag = MEM_API;
    }
    return 0;
}

/* The answers to a chat begin with its last message, if that is the same turn. */
static bool echo_message(struct request *c)
{
    const json_t *m = json_array_get(c->f.messages, json_array_size(c->f.messages) - 1),
                 *content = json_object_get(m, "content");
    bool is_list = json_is_array(content), good = true;

    if (c->f.add_generation_prompt && !dialect_is(json_object_get(m, "role"), "assistant"))
        return true;
    for (size_t i = 0; i < c->n; i++) {
        struct buf *text = &c->choice[i].text;
        bool begun = false;

        for (size_t k = 0; k < (is_list ? json_array_size(content) : 1); k++) {
            const json_t *one = is_list ? messages_part_text(json_array_get(content, k)) : content;

            if (!json_is_string(one))
                continue;
            if (begun)
                buf_char(text, '\n');
            begun = true;
            buf_add(text, json_string_value(one), json_string_length(one));
        }
        good &= !text->oom;
    }
    return good;
}

static int read_prompts(struct request *c)
{
    bool list = is_list_of_prompts(c->f.prompt);
    struct err e = {0};
    int rc = 0;

    for (size_t i = 0; i < c->n_prompts; i++) {
        struct request_prompt *p = &c->prompt[i];

        if (is_over(c))
            return ERR_INPUT;
        fields_blame(&c->f, prompt_field(c), 0);
        rc = c->f.messages
                 ? read_messages(c, &p->ids, &e)
                 : prepare_read_prompt(c, list ? json_array_get(c->f.prompt, i) : c->f.prompt, p, &e);
        if (rc)
            return refuse_code(c, &e);
        cut_prompt(c, &p->ids);
        if ((rc = check_room(c, p)) != 0)
            return rc;
        if (c->f.messages && c->f.echo && !echo_message(c))
            return refuse_memory(c);
        c->n_prompt_tokens += p->ids.n;
    }
    return 0;
}

/* Log-probabilities of prompts, which can be many more than tokens, fit into an answer. */
static int check_scored(struct request *c)
{
    const struct fields *f = &c->f;
    bool echoes = f->echo && f->logprobs > f->prompt_logprobs;
    const char *field = echoes ? "logprobs" : "prompt_logprobs";
    size_t each = (size_t)((echoes ? f->logprobs : f->prompt_logprobs) + 1),
           n_answers = c->endpoint == FIELDS_COMPLETIONS ? (size_t)f->n : 1;
    char sentence[200];

    if (c->n_prompt_tokens * each * n_answers <= MOST_SCORED) /* bytes of a body times two small numbers */
        return 0;
    snprintf(sentence, sizeof(sentence),
             "%s: found %zu tokens of prompts with %zu log-probabilities each, in %zu answers; expected at "
             "most %d in all",
             field, c->n_prompt_tokens, each, n_answers, MOST_SCORED);
    return refuse_field(c, field, sentence);
}

/* ---- sampling ---- */

static int32_t *copy_ids(struct request *c, const json_t *list, size_t *n)
{
    int32_t *ids = arena_alloc(&c->arena, json_array_size(list) * sizeof(*ids));

    *n = ids ? json_array_size(list) : 0;
    for (size_t i = 0; i < *n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

/* The texts of V, a string or a list of strings. */
static struct sampling_str *point_at_texts(struct request *c, const json_t *v, size_t *n)
{
    size_t count = json_is_array(v) ? json_array_size(v) : 1;
    struct sampling_str *texts = arena_zalloc(&c->arena, count, sizeof(*texts));

    *n = texts ? count : 0;
    for (size_t i = 0; i < *n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;

        texts[i] = (struct sampling_str){json_string_value(one), json_string_length(one)};
    }
    return texts;
}

static bool read_stop(struct request *c, struct sampling *s)
{
    s->stop = point_at_texts(c, c->f.stop, &s->n_stop);
    sampling_mark(s, SAMPLING_STOP);
    return s->stop != NULL;
}

static bool read_bad_words(struct request *c, struct sampling *s)
{
    s->bad_words = point_at_texts(c, c->f.bad_words, &s->n_bad_words);
    sampling_mark(s, SAMPLING_BAD_WORDS);
    return s->bad_words != NULL;
}

static bool read_bias(struct request *c, struct sampling *s)
{
    const char *key;
    json_t *v;

    s->bias = arena_zalloc(&c->arena, json_object_size(c->f.logit_bias), sizeof(*s->bias));
    if (!s->bias)
        return false;
    json_object_foreach((json_t *)(uintptr_t)c->f.logit_bias, key, v) s->bias[s->n_bias++] =
        (struct sampling_bias){(int32_t)atoll(key), (float)json_number_value(v)};
    sampling_sort(s);
    sampling_mark(s, SAMPLING_LOGIT_BIAS);
    return true;
}

/* Those of the request, and those that end an answer behind a call. */
static bool read_stop_tokens(struct request *c, struct sampling *s)
{
    const struct tok *tok = info_of(c)->tok;
    size_t n = json_array_size(c->f.stop_token_ids);
    int32_t *ids = arena_alloc(&c->arena, (n + MARKUP_MAX_STOP) * sizeof(*ids));

    if (!ids)
        return false;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(c->f.stop_token_ids, i));
    c->n_ends_of_call = 0;
    for (size_t i = 0; c->calls && i < MARKUP_MAX_STOP && c->calls->stop[i]; i++)
        if (tok && tok_id_of(tok, c->calls->stop[i], strlen(c->calls->stop[i]), &ids[n]))
            c->end_of_call[c->n_ends_of_call++] = ids[n++];
    s->stop_token = ids;
    s->n_stop_token = n;
    if (n)
        sampling_mark(s, SAMPLING_STOP_TOKEN);
    return true;
}

/* Each once. */
static bool read_logprob_ids(struct request *c, struct sampling *s)
{
    size_t n, kept = 0;
    int32_t *id = copy_ids(c, c->f.logprob_ids, &n);

    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < kept && id[k] != id[i])
            k++;
        id[k] = id[i];
        kept += k == kept;
    }
    s->logprob_id = id;
    s->n_logprob_ids = kept;
    return id != NULL;
}

static bool read_lists(struct request *c, struct sampling *s)
{
    if ((c->f.stop && !read_stop(c, s)) || (c->f.logit_bias && !read_bias(c, s)))
        return false;
    if ((c->f.stop_token_ids || c->calls) && !read_stop_tokens(c, s))
        return false;
    if (c->f.bad_words && !read_bad_words(c, s))
        return false;
    if (c->f.allowed && !(s->allowed = copy_ids(c, c->f.allowed, &s->n_allowed)))
        return false;
    return !c->f.logprob_ids || read_logprob_ids(c, s);
}

#define TAKE(s, given, field, value, bit)     \
    do {                                      \
        if (given) {                          \
            (s)->field = value;               \
            sampling_mark(s, SAMPLING_##bit); \
        }                                     \
    } while (0)

static void read_numbers(struct request *c, struct sampling *s)
{
    const struct fields *f = &c->f;
    bool neutral = c->api->opt.neutral;
    int64_t most = prepare_max_tokens(c);

    TAKE(s, true, max_new_tokens, most < 0 ? SIZE_MAX : (size_t)most, MAX_NEW_TOKENS);
    TAKE(s, true, min_new_tokens, f->min_tokens > 0 ? (size_t)f->min_tokens : 0, MIN_NEW_TOKENS);
    TAKE(s, true, do_sample, true, DO_SAMPLE); /* a temperature of 0 is greedy */
    TAKE(s, true, ignore_eos, f->ignore_eos, IGNORE_EOS);
    TAKE(s, !isnan(f->temperature) || neutral, temperature, isnan(f->temperature) ? 1 : f->temperature,
         TEMPERATURE);
    TAKE(s, !isnan(f->top_p) || neutral, top_p, isnan(f->top_p) ? 1 : f->top_p, TOP_P);
    TAKE(s, f->top_k >= -1 || neutral, top_k, f->top_k > 0 ? (size_t)f->top_k : 0, TOP_K);
    TAKE(s, !isnan(f->min_p) || neutral, min_p, isnan(f->min_p) ? 0 : f->min_p, MIN_P);
    TAKE(s, !isnan(f->repetition_penalty) || neutral, repetition_penalty,
         isnan(f->repetition_penalty) ? 1 : f->repetition_penalty, REPETITION_PENALTY);
    TAKE(s, !isnan(f->frequency_penalty), frequency_penalty, f->frequency_penalty, FREQUENCY_PENALTY);
    TAKE(s, !isnan(f->presence_penalty), presence_penalty, f->presence_penalty, PRESENCE_PENALTY);
    TAKE(s, f->logprobs >= 0, logprobs, (int)f->logprobs, LOGPROBS);
    TAKE(s, f->best_of > f->n && f->logprobs < 0, logprobs, 0, LOGPROBS);
    TAKE(s, f->chat_logprobs, logprobs, f->top_logprobs > 0 ? (int)f->top_logprobs : 0, LOGPROBS);
    s->include_stop = f->include_stop;
    TAKE(s, f->has_seed, seed, f->seed, SEED);
}

/* A request without a seed gets one of its own, unless --seed says otherwise. It has 53 bits: readers of JSON
 * that keep numbers as doubles give it back as it is. The log says it where tokens are drawn. */
static void choose_seed(struct request *c, struct sampling *s)
{
    struct sampling merged;

    if (c->f.has_seed || c->api->opt.has_seed)
        return;
    c->seed = mix(c->api->secret ^ mix(atomic_fetch_add(&c->api->n_seeds, 1))) >> 11;
    TAKE(s, true, seed, c->seed, SEED);
    sampling_merge(&merged, s, engine_info(c->api->opt.engine)->defaults);
    c->drew_seed = !(c->endpoint & FIELDS_POOLED) && !sampling_is_greedy(&merged);
}

/* ---- submitting ---- */

/* The member of a sampling record that E is about, as clients spell it: the field at fault. */
static void blame(struct request *c, struct err *e)
{
    static const struct {
        const char *member, *field;
    } names[] = {
        {"min_new_tokens", "min_tokens"}, {"max_new_tokens", "max_tokens"}, {"stop_token", "stop_token_ids"}};
    const char *field = e->subject;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(e->subject, names[i].member) == 0)
            field = names[i].field;
    if (!field[0])
        return;
    if (json_object_get(c->f.body, field))
        fields_blame(&c->f, field, 0);
    err_subject(e, field);
}

static int submit(struct request *c, struct request_prompt *p, const struct sampling *s, const char *salt)
{
    const struct fields *f = &c->f;
    struct gallop_request r;
    struct err e = {0};

    gallop_request_init(&r);
    r.ids = p->ids.id;
    r.n_ids = p->ids.n;
    r.keep_special = !f->skip_special_tokens || c->keep_special;
    r.n = (int64_t)c->n;
    r.prompt_logprobs = f->prompt_logprobs;
    if (f->echo && f->logprobs > r.prompt_logprobs)
        r.prompt_logprobs = f->logprobs;
    if (c->endpoint & FIELDS_POOLED)
        r.pooling = c->api->opt.pooling ? c->api->opt.pooling : GALLOP_POOL_LAST;
    r.priority = (int)f->priority;
    r.key = c->key[0] ? c->key : f->user;
    r.cache_salt = salt;
    if (c->api->opt.request_timeout_s > 0)
        r.deadline_s = fmax(c->api->opt.request_timeout_s - (clock_seconds() - c->arrival_s), 1e-3);
    r.user = p;
    p->n_open = c->n;
    if (engine_submit(c->api->opt.engine, &r, s, &p->id, &e) == 0)
        return 0;
    p->n_open = 0;
    prepare_waits_no_more(p);
    blame(c, &e);
    return refuse_code(c, &e);
}

/* The tokens of P wait from now on, if there is room for them; alone they never are too many. */
static bool take_room(struct request_prompt *p)
{
    _Atomic size_t *count = &p->call->api->n_waiting_tokens;
    size_t most = p->call->api->opt.max_queued_tokens, old = atomic_load(count);

    do
        if (most && old && (old >= most || p->ids.n > most - old))
            return false;
    while (!atomic_compare_exchange_weak(count, &old, old + p->ids.n));
    p->waits = true;
    return true;
}

void prepare_waits_no_more(struct request_prompt *p)
{
    if (p->waits)
        atomic_fetch_sub(&p->call->api->n_waiting_tokens, p->ids.n);
    p->waits = false;
}

/* S: what C asks for. */
static int submit_prompts(struct request *c, const struct sampling *s)
{
    char salt[KEYS_NAME + 1032] = "";
    int rc = 0;

    snprintf(salt, sizeof(salt), "%s/%s", c->key, c->f.cache_salt ? c->f.cache_salt : "");
    for (size_t i = 0; i < c->n_prompts && rc == 0; i++) {
        if (is_over(c))
            return ERR_INPUT;
        fields_blame(&c->f, prompt_field(c), 0);
        rc = take_room(&c->prompt[i])
                 ? submit(c, &c->prompt[i], s, salt[1] ? salt : NULL)
                 : prepare_refuse(c, 429, "too many tokens of prompts wait; come back later");
    }
    return rc;
}

static int submit_all(struct request *c)
{
    struct arena kept = c->arena;
    struct sampling s;
    int rc;

    arena_init(&c->arena, MEM_API); /* of lists, which the engine copies */
    sampling_default(&s);
    read_numbers(c, &s);
    choose_seed(c, &s);
    rc = read_lists(c, &s) ? submit_prompts(c, &s) : refuse_memory(c);
    arena_fini(&c->arena);
    c->arena = kept;
    return rc;
}

void prepare_cancel(struct request *c)
{
    bool pending = false;

    for (size_t i = 0; i < c->n_prompts; i++)
        if (c->prompt[i].id && c->prompt[i].n_open)
            pending |= gallop_cancel(c->api->opt.engine, c->prompt[i].id) != 0;
    c->aborting = pending; /* too many at once: asked again later */
}

/* ---- /tokenize and /detokenize ---- */

static void tokenize(struct request *c)
{
    const struct engine_info *m = info_of(c);
    struct tok_ids ids = {0};
    struct buf one = {.tag = MEM_API};
    struct err e = {0};
    int rc;

    fields_blame(&c->f, c->f.messages ? "messages" : "prompt", 0);
    rc = c->f.messages ? read_messages(c, &ids, &e)
                       : encode(c, json_string_value(c->f.prompt), NULL, json_string_length(c->f.prompt),
                                adds_special(c, true), &ids, &e);
    if (rc) {
        refuse_code(c, &e);
    } else {
        buf_fmt(&c->reply, "{\"count\":%zu,\"max_model_len\":%zu,\"tokens\":[", ids.n, m->max_len);
        for (size_t i = 0; i < ids.n; i++)
            buf_json_int(&c->reply, ids.id[i]);
        buf_str(&c->reply, "],\"token_strs\":");
        if (!c->f.return_token_strs)
            buf_json_null(&c->reply);
        else
            buf_json_begin(&c->reply, '[');
        for (size_t i = 0; i < ids.n && c->f.return_token_strs; i++) {
            buf_clear(&one);
            c->reply.oom |= tok_decode(m->tok, &ids.id[i], 1, false, &one, NULL) != 0 || one.oom;
            buf_json_str(&c->reply, one.data ? one.data : "", one.len);
        }
        buf_str(&c->reply, c->f.return_token_strs ? "]}" : "}");
        c->status = 200;
    }
    buf_fini(&one);
    tok_ids_fini(&ids);
}

static void detokenize(struct request *c)
{
    const struct engine_info *m = info_of(c);
    struct buf text = {.tag = MEM_API};
    struct tok_ids ids = {0};
    struct err e = {0};
    int rc = m->tok ? add_json_ids(&ids, c->f.tokens, &e)
                    : err_set(&e, ERR_UNSUPPORTED, "this model has no tokenizer");

    fields_blame(&c->f, "tokens", 0);
    for (size_t i = 0; i < ids.n && rc == 0; i++)
        if ((size_t)ids.id[i] >= m->vocab)
            rc = err_set(&e, ERR_INPUT, "tokens: token %d at position %zu is outside the vocabulary of %zu",
                         ids.id[i], i, m->vocab);
    if (rc == 0)
        rc = tok_decode(m->tok, ids.id, ids.n, false, &text, &e);
    if (rc) {
        refuse_code(c, &e);
    } else {
        buf_str(&c->reply, "{\"prompt\":");
        buf_json_str(&c->reply, text.data ? text.data : "", text.len);
        buf_char(&c->reply, '}');
        c->status = 200;
    }
    buf_fini(&text);
    tok_ids_fini(&ids);
}

/* ---- /v1/messages/count_tokens ---- */

static void count_tokens(struct request *c)
{
    struct tok_ids ids = {0};
    struct err e = {0};

    fields_blame(&c->f, "messages", 0);
    if (read_messages(c, &ids, &e) != 0) {
        refuse_code(c, &e);
    } else {
        buf_fmt(&c->reply, "{\"input_tokens\":%zu}", ids.n);
        c->status = 200;
    }
    tok_ids_fini(&ids);
}

/* ---- the job ---- */

void prepare_say_once(struct request *c, const char *name, const char *sentence)
{
    struct api *a = c->api;
    char text[200];
    size_t i = 0;

    pthread_mutex_lock(&a->unknown_lock);
    while (i < a->n_unknown && strncmp(a->unknown[i], name, sizeof(a->unknown[0]) - 1) != 0)
        i++;
    if (i == a->n_unknown && i < sizeof(a->unknown) / sizeof(a->unknown[0])) {
        snprintf(a->unknown[a->n_unknown++], sizeof(a->unknown[0]), "%s", name);
        snprintf(text, sizeof(text), sentence, a->unknown[i]);
        log_warn("%s: %s", c->route, text);
    }
    pthread_mutex_unlock(&a->unknown_lock);
}

static void say_unknown(void *ctx, const char *name)
{
    prepare_say_once(ctx, name, "the field '%s' is not supported and changes nothing");
}

/* The id that the answer has and that /abort_requests takes. */
static int name_call(struct request *c)
{
    const char *id = c->f.request_id;
    uint64_t random[2]; /* nobody guesses it, who could then end the request */

    if (c->named)
        return 0;
    if (c->misnamed || (id && !request_is_id(id)))
        return refuse_field(c, "request_id",
                            "request_id: expected at most 128 printable ASCII characters without blanks");
    if (id)
        snprintf(c->request_id, sizeof(c->request_id), "%s", id);
    else if (getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random))
        snprintf(c->request_id, sizeof(c->request_id), "%016llx%016llx", (unsigned long long)random[0],
                 (unsigned long long)random[1]);
    snprintf(c->id, sizeof(c->id), "%s%s", c->form->prefix, c->request_id);
    return 0;
}

/* Lets go of ids that no answer repeats. */
static void forget_prompts(struct request *c)
{
    if (c->f.return_token_ids || c->f.echo || c->f.prompt_logprobs >= 0)
        return;
    for (size_t i = 0; i < c->n_prompts; i++) {
        struct tok_ids *ids = &c->prompt[i].ids;

        mem_free(ids->id); /* their number stays: the server's thread may read it at this moment */
        ids->id = NULL;
        ids->cap = 0;
    }
}

static void prepare(struct request *c)
{
    struct err e = {0};

    if (fields_read(&c->f, c->endpoint, c->body.data ? c->body.data : "", c->body.len, say_unknown, c, &e) !=
        0) {
        refuse_code(c, &e);
        return;
    }
    buf_fini(&c->body);
    if (is_over(c) || name_call(c) != 0 || check_model(c) != 0 || check_needed(c) != 0)
        return;
    if (ollama_loads(c)) {
        ollama_loaded(c, &c->reply);
        c->status = 200;
        return;
    }
    if (c->form->read && c->form->read(c, &e) != 0) {
        refuse_code(c, &e);
        return;
    }
    fields_blame(&c->f, "", 0); /* what is refused from here on says itself what it is about */
    if (check_together(c) != 0)
        return;
    if (c->endpoint == FIELDS_TOKENIZE) {
        tokenize(c);
    } else if (c->endpoint == FIELDS_DETOKENIZE) {
        detokenize(c);
    } else if (c->endpoint == FIELDS_COUNT) {
        count_tokens(c);
    } else if (c->endpoint == FIELDS_SHOW) {
        ollama_show(c->api, &c->reply);
        c->status = 200;
    } else if (prepare_reserve(c) == 0 && read_prompts(c) == 0 && check_scored(c) == 0) {
        c->keep_tokens = c->f.logprobs >= 0 || c->f.chat_logprobs || c->f.return_token_ids;
        submit_all(c);
        forget_prompts(c);
    }
}

void prepare_request(struct workers_job *job)
{
    struct request *c = (struct request *)(void *)job;

    mem_over_budget(); /* what failed before is not of C */
    mem_charge(MEM_CHARGE_NEW);
    if (!is_over(c))
        prepare(c);
    if (c->reply.oom) /* half an answer is none */
        refuse_memory(c);
    fields_forget(&c->f, c->endpoint);
    mem_charge(MEM_CHARGE_NONE);
}
