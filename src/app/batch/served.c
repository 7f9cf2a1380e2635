/* served.c - answers lines of OpenAI's batch files through struct request. */
#include "app/batch/served.h"

#include <jansson.h>
#include <string.h>
#include <sys/random.h>

#include "app/batch/requests.h"
#include "base/mem.h"
#include "chat/dialect/dialect.h"
#include "chat/endpoint.h"
#include "chat/prepare/prepare.h"
#include "chat/prepare/prompt.h"
#include "chat/prepare/refuse.h"
#include "engine/engine.h"
#include "engine/sampling/sampling.h"

struct served_request {
    struct request q;
    struct batch_request *line;
};

bool served_split(struct served_line *out, const char *line, size_t n, struct arena *a)
{
    struct json_pull j;
    struct json_str key;
    bool is_line = true;

    *out = (struct served_line){.body = {NULL, 0}};
    if (json_pull_open(&j, line, n, "", a, NULL) != 0 || json_pull_peek(&j) != JSON_PULL_OBJECT)
        return false;
    for (json_pull_enter_object(&j); json_pull_key(&j, &key);) {
        struct json_str *text = json_str_is(&key, "custom_id") ? &out->custom_id
                                : json_str_is(&key, "method")  ? &out->method
                                : json_str_is(&key, "url")     ? &out->url
                                                               : NULL;

        if (text && !text->s && json_pull_peek(&j) == JSON_PULL_STRING) {
            json_pull_string(&j, text);
        } else if (json_str_is(&key, "body") && !out->body.s && json_pull_peek(&j) == JSON_PULL_OBJECT) {
            out->body = json_pull_raw(&j);
        } else {
            is_line = false;
            json_pull_skip(&j);
        }
    }
    return json_pull_finish(&j) == 0 && is_line && out->custom_id.s && out->method.s && out->url.s &&
           out->body.s;
}

/* Unless --served-model-name is given, accepts the `model` of the first BODY that has one as a name of the model. */
static void accept_name(struct served *s, const struct json_str *body, struct arena *a)
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

bool served_open(struct served *s, struct batch_request *b, const struct served_line *line)
{
    b->served = mem_zalloc(1, sizeof(*b->served), MEM_APP);
    if (!b->served)
        return false;
    b->served->line = b;
    b->served->q.service = &s->service;
    accept_name(s, &line->body, &b->arena);
    return true;
}

void served_free(struct served_request *r)
{
    if (r)
        request_fini(&r->q);
    mem_free(r);
}

/* ---- reading ---- */

/* Takes the sampling parameters that the body lacks from the command line, GIVEN. */
static void set_sampling(struct batch_request *b, const struct sampling *given)
{
    struct fields *f = &b->served->q.field;
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
        f->output.chat_logprobs = b->served->q.endpoint == FIELDS_CHAT;
        if (f->output.chat_logprobs)
            f->output.top_logprobs = given->logprobs;
        else
            f->output.logprobs = given->logprobs;
    }
}

/* Gives the fields that the body lacks the values of the command line. */
static void set_given(const struct served *s, struct batch_request *b, const struct sampling *given)
{
    struct fields *f = &b->served->q.field;
    const json_t *body = f->body;

    if (!(b->served->q.endpoint & FIELDS_POOLED))
        set_sampling(b, given);
    if (s->no_special && !f->input.has_add_special) {
        f->input.has_add_special = true;
        f->input.add_special_tokens = false;
    }
    if (s->keep_special && !json_object_get(body, "skip_special_tokens"))
        f->output.skip_special_tokens = false;
}

/* If the request of B was refused or has failed, copies the reason to b->fault, for the log. */
static void set_fault(struct batch_request *b)
{
    const struct request *q = &b->served->q;

    if (q->status != 200 && !b->fault.code)
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

void served_read(struct served *s, struct batch_request *b, const struct served_line *line,
                 const struct sampling *given)
{
    struct request *q = &b->served->q;

    if (endpoint_open(q, &s->service, line->url.s, line->url.n) == 0 && !json_str_is(&line->method, "POST"))
        refuse(q, 405, "this path does not take that method");
    q->once = &s->once;
    q->seeds = &s->seeds;
    if (q->status || prepare_read(q, line->body.s, line->body.n) != 0 || prepare_whole(q) != 0) {
        set_fault(b);
        return;
    }
    b->n = n_answers(q);
    set_given(s, b, given);
    if (sampling_given(q->field.sampling, SAMPLING_NUM_BEAMS))
        b->sampling = *q->field.sampling; /* n_sequences() of verb_run.c reads it */
}

/* ---- answering ---- */

/* If no answer of B is being computed any more, writes its response and marks B as done. */
static void end_if_done(struct batch_request *b)
{
    struct request *q = &b->served->q;
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

/* Reads the chat template and the files about embeddings. An error is stored in S, and each line fails with
 * it. */
static void start(struct served *s, struct gallop *engine, struct checkpoint *model, const char *file)
{
    s->is_started = true;
    if (answering_read(&s->answering, model, file, &s->fault) == 0 &&
        answering_check(&s->answering, engine, &s->fault) == 0) {
        const char *const *name = s->service.name;
        size_t n = s->service.n_names;

        answering_serve(&s->answering, engine, &s->service);
        s->service.name = name;
        s->service.n_names = n;
    }
}

size_t served_submit(struct served *s, struct batch_request *b, struct gallop *engine,
                     struct checkpoint *model, const char *file)
{
    struct request *q = &b->served->q;

    if (!q->status && !s->is_started)
        start(s, engine, model, file);
    if (!q->status && s->fault.code)
        refuse_error(q, &s->fault);
    if (!q->status && prepare_check(q) == 0 && prepare_prompts(q) == 0 && prepare_submit(q, NULL) != 0)
        prepare_cancel(q);
    fields_forget(&q->field, q->endpoint);
    for (size_t i = 0; q->prompt && i < q->n_prompts; i++)
        b->n_open += q->prompt[i].n_open;
    b->random_seed = q->draws;
    b->sampling.seed = q->seed;
    end_if_done(b);
    return q->n_prompt_tokens;
}

void served_take(const struct gallop_event *ev)
{
    struct request_prompt *p = ev->user;
    struct batch_request *b = ((struct served_request *)(void *)p->request)->line;

    if (!request_take(p, ev))
        prepare_cancel(p->request);
    if (ev->type == GALLOP_FINISHED) {
        b->n_open--;
        end_if_done(b);
    }
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
    const struct request *q = &b->served->q;

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

/* Returns whether the answer to Q is nothing but one generated text for each choice. */
static bool is_text_alone(const struct request *q)
{
    const struct fields *f = &q->field;
    bool is_text = q->status == 200 && q->answer.n_choices && !(q->endpoint & FIELDS_POOLED) &&
                   !f->output.echo && f->generation.best_of <= f->generation.n;

    for (size_t i = 0; i < q->answer.n_choices; i++)
        is_text &= !q->answer.choice[i].said.reasoning.len && !q->answer.choice[i].said.calls.n;
    return is_text;
}

size_t served_n_texts(const struct batch_request *b)
{
    const struct request *q = &b->served->q;

    return is_text_alone(q) ? q->answer.n_choices : 1;
}

void served_put_text(const struct batch_request *b, size_t i, struct buf *out)
{
    const struct request *q = &b->served->q;

    if (is_text_alone(q) && q->answer.choice[i].said.text.len)
        buf_add(out, q->answer.choice[i].said.text.data, q->answer.choice[i].said.text.len);
    else if (!is_text_alone(q))
        buf_add(out, q->reply.data, q->reply.len);
}
