/* served.c - answers lines of a batch and prompts of the command line through struct request. */
#include "app/batch/served.h"

#include <jansson.h>
#include <string.h>
#include <sys/random.h>

#include "app/batch/own.h"
#include "app/batch/requests.h"
#include "chat/dialect/dialect.h"
#include "chat/endpoint.h"
#include "chat/prepare/prepare.h"
#include "chat/prepare/prompt.h"
#include "chat/prepare/refuse.h"
#include "engine/engine.h"
#include "engine/sampling/sampling.h"

/* Returns the member of OUT for the text KEY, or NULL. */
static struct json_str *text_of(struct served_line *out, const struct json_str *key)
{
    return json_str_is(key, "custom_id") ? &out->custom_id
           : json_str_is(key, "method")  ? &out->method
           : json_str_is(key, "url")     ? &out->url
                                         : NULL;
}

int served_split(struct served_line *out, const char *line, size_t n, const char *where, struct arena *a,
                 struct err *e)
{
    static const char form[] = "expected the texts custom_id, method and url and the object body, each once";
    struct json_str key, wrong = {NULL, 0}, other = {NULL, 0};
    struct json_pull j;
    int rc = json_pull_open(&j, line, n, where, a, e);

    *out = (struct served_line){.is_own = true};
    if (rc == 0 && json_pull_peek(&j) != JSON_PULL_OBJECT)
        return json_pull_rc(&j) ? json_pull_rc(&j)
                                : err_set(e, ERR_INPUT, "%s: expected a JSON object", where);
    for (json_pull_enter_object(&j); json_pull_key(&j, &key);) {
        struct json_str *text = text_of(out, &key);
        bool is_body = json_str_is(&key, "body");

        if (text && !text->s && json_pull_peek(&j) == JSON_PULL_STRING) {
            json_pull_string(&j, text);
        } else if (is_body && !out->body.s && json_pull_peek(&j) == JSON_PULL_OBJECT) {
            out->body = json_pull_raw(&j);
        } else if (!json_pull_null(&j)) {
            *(text || is_body ? &wrong : &other) = key;
            json_pull_skip(&j);
        }
    }
    if ((rc = json_pull_finish(&j)) != 0)
        return rc;
    if (wrong.s)
        return err_set(e, ERR_INPUT, "%s: %.*s: %s", where, (int)wrong.n, wrong.s, form);
    if (out->body.s && other.s)
        return err_set(e, ERR_INPUT, "%s: %.*s beside body: %s", where, (int)(other.n < 60 ? other.n : 60),
                       other.s, form);
    if (out->body.s && (out->url.s || out->method.s) && !(out->url.s && out->method.s && out->custom_id.s))
        return err_set(e, ERR_INPUT, "%s: %s", where, form);
    out->is_own = !out->body.s || !out->url.s;
    if (!out->body.s)
        out->body = (struct json_str){line, n};
    return 0;
}

void served_accept_name(struct served *s, const struct json_str *body, struct arena *a)
{
    struct json_pull j;
    struct json_str key, name = {NULL, 0};

    if (s->answering.o.names.n || s->service.n_names == 2 ||
        json_pull_open(&j, body->s, body->n, "", a, NULL) != 0)
        return;
    for (json_pull_enter_object(&j); json_pull_key(&j, &key);)
        if (json_str_is(&key, "model") && json_pull_peek(&j) == JSON_PULL_STRING)
            json_pull_string(&j, &name);
        else
            json_pull_skip(&j);
    if (!name.n || name.n >= sizeof(s->first_name) || memchr(name.s, 0, name.n) ||
        json_str_is(&name, s->service.name[0]) ||
        (s->service.path_name && json_str_is(&name, s->service.path_name)))
        return;
    memcpy(s->first_name, name.s, name.n);
    s->name[0] = s->service.name[0];
    s->name[1] = s->first_name;
    s->service.name = s->name;
    s->service.n_names = 2;
}

/* ---- reading ---- */

/* Takes the sampling parameters that the body lacks from the command line. */
static void set_sampling(const struct served *s, struct batch_request *b)
{
    const struct sampling *given = &s->sampling;
    struct fields *f = &b->q.field;
    struct fields_generation *g = &f->generation;
    struct sampling merged;

    sampling_merge(&merged, f->sampling, given);
    *f->sampling = merged;
    if (sampling_given(given, SAMPLING_MAX_NEW_TOKENS) && g->max_tokens < 0 && g->max_completion_tokens < 0)
        g->max_tokens = (int64_t)given->max_new_tokens;
    if (sampling_given(given, SAMPLING_MAX_NEW_TOKENS) && g->num_predict == 0)
        g->num_predict = (int64_t)given->max_new_tokens;
    if (sampling_given(given, SAMPLING_SEED) && !g->has_seed) {
        g->has_seed = true;
        g->seed = given->seed + b->index * (uint64_t)b->n;
    }
    if (sampling_given(given, SAMPLING_LOGPROBS) && !json_object_get(f->body, "logprobs")) {
        f->output.chat_logprobs = b->q.endpoint == FIELDS_CHAT;
        if (f->output.chat_logprobs)
            f->output.top_logprobs = given->logprobs;
        else
            f->output.logprobs = given->logprobs;
    }
}

/* Gives the fields that the body lacks the values of the command line. */
static void set_given(const struct served *s, struct batch_request *b)
{
    struct fields *f = &b->q.field;

    if (b->is_own)
        own_set_given(s, b);
    else if (!(b->q.endpoint & FIELDS_POOLED))
        set_sampling(s, b);
    if (s->no_special && !f->input.has_add_special) {
        f->input.has_add_special = true;
        f->input.add_special_tokens = false;
    }
    if (s->keep_special && !json_object_get(f->body, "skip_special_tokens"))
        f->output.skip_special_tokens = false;
}

/* If the request of B was refused or has failed, copies the reason to b->fault. */
static void set_fault(struct batch_request *b)
{
    const struct request *q = &b->q;

    if (q->status == 200 || b->fault.code)
        return;
    if (b->is_own)
        own_set_fault(b);
    else
        err_set(&b->fault, ERR_INPUT, "%s: %d %s", b->where, q->status, q->reason);
}

/* Returns the number of answers that are computed, at least 1. */
static size_t n_answers(const struct request *q)
{
    const struct fields_generation *g = &q->field.generation;
    size_t n_prompts = prompt_is_list(q->field.input.prompt) ? json_array_size(q->field.input.prompt) : 1;
    size_t n = n_prompts * (size_t)(g->best_of > g->n ? g->best_of : g->n);

    return n ? n : 1;
}

void served_read(struct served *s, struct batch_request *b, const struct served_line *line)
{
    struct request *q = &b->q;

    if (b->is_own)
        own_open(s, q);
    else if (endpoint_open(q, &s->service, line->url.s, line->url.n) == 0 &&
             !json_str_is(&line->method, "POST"))
        refuse(q, 405, "this path does not take that method");
    q->once = &s->once;
    q->seeds = &s->seeds;
    if (!q->status && prepare_read(q, line->body.s, line->body.n) == 0 && prepare_whole(q) == 0) {
        b->n = n_answers(q);
        set_given(s, b);
    }
    if (q->status)
        set_fault(b);
}

/* ---- answering ---- */

/* If no answer of B is being computed any more, writes its response and marks B as done. */
static void end_if_done(struct batch_request *b)
{
    struct request *q = &b->q;
    bool failed = false;

    b->done = b->n_open == 0;
    if (!b->done)
        return;
    for (size_t i = 0; i < q->answer.n_choices && !q->status; i++) {
        failed |= q->answer.choice[i].state == ANSWER_FAILED; /* then the others were cancelled, too */
        b->cancelled |= q->answer.choice[i].finish == GALLOP_FINISH_CANCELLED;
    }
    b->cancelled &= !failed;
    if (!q->status && !b->cancelled)
        q->status = request_write(q, &q->reply);
    if (!b->cancelled)
        set_fault(b);
}

/* Reads the chat template and the files about embeddings. An error is stored in S, and each line of OpenAI's fails
 * with it. */
static void start(struct served *s, struct gallop *engine)
{
    s->is_started = true;
    if (answering_read(&s->answering, s->model, s->template_file, &s->fault) == 0 &&
        answering_check(&s->answering, engine, &s->fault) == 0) {
        const char *const *name = s->service.name;
        size_t n = s->service.n_names;

        answering_serve(&s->answering, engine, &s->service);
        s->service.name = name;
        s->service.n_names = n;
    }
}

size_t served_submit(struct served *s, struct batch_request *b, struct gallop *engine)
{
    struct request *q = &b->q;

    b->done = b->fault.code != 0;
    if (b->done)
        return 0;
    if (b->is_own)
        own_begin(s, b, engine);
    else if (!s->is_started)
        start(s, engine);
    if (!b->is_own && s->fault.code)
        refuse_error(q, &s->fault);
    if (!q->status && prepare_check(q) == 0 && prepare_prompts(q) == 0 && prepare_submit(q, NULL) != 0)
        prepare_cancel(q);
    for (size_t i = 0; q->prompt && i < q->n_prompts; i++)
        b->n_open += q->prompt[i].n_open;
    b->random_seed = q->draws;
    b->seed = q->seed;
    if (b->is_own && !q->status)
        own_set_seed(b, engine);
    fields_forget(&q->field, q->endpoint);
    end_if_done(b);
    return q->n_prompt_tokens;
}

void served_take(const struct gallop_event *ev)
{
    struct request_prompt *p = ev->user;
    struct batch_request *b = (struct batch_request *)(void *)p->request;

    if (!request_take(p, ev))
        prepare_cancel(p->request);
    if (ev->type != GALLOP_FINISHED)
        return;
    if (b->is_own)
        b->end[ev->choice] = *ev;
    b->n_open--;
    end_if_done(b);
}

/* ---- results ---- */

/* Appends a random id: PREFIX and 24 hexadecimal digits. */
static void put_id(const char *prefix, struct buf *out)
{
    unsigned char random[12] = {0};

    out->oom |= getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random);
    buf_fmt(out, "\"%s", prefix);
    for (size_t i = 0; i < sizeof(random); i++)
        buf_fmt(out, "%02x", random[i]);
    buf_char(out, '"');
}

void served_put_line(const struct batch_request *b, struct buf *out)
{
    const struct request *q = &b->q;

    buf_str(out, "{\"id\":");
    put_id("batch_req_", out);
    buf_str(out, ",\"custom_id\":");
    buf_json_str(out, json_string_value(b->custom_id), json_string_length(b->custom_id));
    buf_fmt(out, ",\"response\":{\"status_code\":%d,\"request_id\":", q->status);
    if (q->name[0])
        dialect_put_string(out, q->name);
    else
        put_id("req_", out);
    if (b->random_seed)
        buf_fmt(out, ",\"seed\":%llu", (unsigned long long)q->seed);
    buf_str(out, ",\"body\":");
    buf_add(out, q->reply.data, q->reply.len);
    buf_str(out, "},\"error\":null}\n");
}

/* Returns whether the answer to B is nothing but one generated text for each choice, which may have been cut by a
 * cancellation. */
static bool is_text_alone(const struct batch_request *b)
{
    const struct request *q = &b->q;
    const struct fields *f = &q->field;
    bool is_text = (q->status == 200 || (!q->status && b->is_own && b->cancelled)) && q->answer.n_choices &&
                   !(q->endpoint & FIELDS_POOLED) && !f->output.echo &&
                   f->generation.best_of <= f->generation.n;

    for (size_t i = 0; i < q->answer.n_choices; i++)
        is_text &= !q->answer.choice[i].said.reasoning.len && !q->answer.choice[i].said.calls.n;
    return is_text;
}

size_t served_n_texts(const struct batch_request *b)
{
    const struct request *q = &b->q;

    return is_text_alone(b) ? q->answer.n_choices : 1;
}

void served_put_text(const struct batch_request *b, size_t i, struct buf *out)
{
    const struct request *q = &b->q;
    const struct answer_choice *h = is_text_alone(b) ? &q->answer.choice[i] : NULL;
    const struct buf *text = h ? &h->said.text : &q->reply;

    if (text->len)
        buf_add(out, text->data, text->len);
    for (size_t k = 0; h && !engine_info(q->service->engine)->tok && k < h->tokens.n; k++)
        buf_fmt(out, k ? ",%d" : "%d", h->tokens.v[k].id);
}
