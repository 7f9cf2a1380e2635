/* own.c - reads requests in Gallop's own format, and makes the JSON of their results. */
#include "app/batch/own.h"

#include <string.h>

#include "app/batch/requests.h"
#include "app/batch/served.h"
#include "app/print.h"
#include "base/json/json_tree.h"
#include "chat/dialect/dialect.h"
#include "chat/prepare/refuse.h"
#include "engine/engine.h"

enum { DEFAULT_NEW_TOKENS = 512 };

/* ---- reading ---- */

static void write_nothing(const struct dialect_writer *w, struct buf *out)
{
    (void)w;
    (void)out;
}

static void write_error(struct buf *out, int status, const char *message, const char *param)
{
    (void)status;
    (void)param;
    buf_str(out, message);
}

/* Results are written by own_print(), because they have the names and the times of the program. */
static const struct dialect own_dialect = {.prefix = "", .whole = write_nothing, .error = write_error};

void own_init(struct served *s, bool plain_user_text)
{
    s->own = (struct service){.plain_user_text = plain_user_text,
                              .structured = &s->structured,
                              .sampling = &s->sampling,
                              .priorities = true, /* no effect without --scheduling-policy */
                              .max_logprobs = SAMPLING_MAX_LOGPROBS};
    service_complete(&s->own);
}

void own_open(const struct served *s, struct request *q)
{
    request_open(q, &s->own, FIELDS_LINE, &own_dialect);
    q->origin.route = "run";
}

/* Returns how many of the fields A, B and C the body of Q has. */
static int count(const struct request *q, const char *a, const char *b, const char *c)
{
    const char *const names[] = {a, b, c};
    int n = 0;

    for (int i = 0; i < 3; i++) {
        const json_t *v = json_object_get(q->field.body, names[i]);

        n += v && !json_is_null(v);
    }
    return n;
}

/* Makes the prompt of Q the message of a user, after the system message of the command line. */
static void wrap(const struct served *s, struct request *q)
{
    struct fields *f = &q->field;
    int bad = 0;

    f->own = json_array();
    if (s->system)
        bad = json_array_append_new(f->own, json_pack("{s:s,s:s}", "role", "system", "content", s->system));
    bad |= json_array_append_new(
        f->own, json_pack("{s:s,s:O}", "role", "user", "content", json_object_get(f->body, "prompt")));
    if (bad)
        refuse_memory(q);
    f->input.messages = f->own;
    f->input.prompt = NULL;
}

void own_set_given(const struct served *s, struct batch_request *b)
{
    struct request *q = &b->q;
    struct fields *f = &q->field;
    struct sampling *own = f->sampling;

    if (count(q, "prompt", "ids", "messages") != 1)
        refuse(q, 400, "expected one of prompt, ids and messages");
    else if (count(q, "max_new_tokens", "max_tokens", "max_completion_tokens") > 1)
        refuse_field(q, "max_new_tokens", "max_new_tokens: given twice, under two names");
    else if (count(q, "min_new_tokens", "min_tokens", "") > 1)
        refuse_field(q, "min_new_tokens", "min_new_tokens: given twice, under two names");
    else if (f->generation.best_of >= 0 && f->generation.best_of != f->generation.n)
        refuse_field(q, "best_of", "best_of: not supported beyond n");
    else if (s->wrap && json_is_string(f->input.prompt))
        wrap(s, q);
    if (!q->status && f->input.suffix && f->input.messages)
        refuse_field(q, "suffix", "suffix needs a prompt that is text and no conversation");
    if (!q->status && !f->input.messages && count(q, "tools", "documents", ""))
        refuse_field(q, count(q, "tools", "", "") ? "tools" : "documents",
                     "tools and documents are for the chat template and need messages");
    f->output.return_token_ids = true;
    if (!s->json) /* only JSON output has them */
        f->output.prompt_logprobs = -1;
    if (f->output.chat_logprobs) {
        own->logprobs = f->output.top_logprobs > 0 ? (int)f->output.top_logprobs : 0;
        sampling_mark(own, SAMPLING_LOGPROBS);
    }
    if (!count(q, "seed", "", "")) /* requests without their own seed get different ones */
        own->seed += b->index * (uint64_t)b->n;
    f->generation.has_seed = sampling_given(own, SAMPLING_SEED);
    f->generation.seed = own->seed;
}

/* ---- submitting ---- */

/* Limits the generated tokens of B to the default if neither the request nor the model's generation config has a
 * limit. */
static void limit(struct batch_request *b, const struct sampling *config)
{
    struct sampling *s = b->q.field.sampling;

    b->default_limit = !sampling_given(s, SAMPLING_MAX_NEW_TOKENS) &&
                       !sampling_given(config, SAMPLING_MAX_NEW_TOKENS) &&
                       !sampling_given(config, SAMPLING_MAX_LENGTH);
    if (b->default_limit) {
        s->max_new_tokens = DEFAULT_NEW_TOKENS;
        if (sampling_given(s, SAMPLING_MIN_NEW_TOKENS) && s->min_new_tokens > DEFAULT_NEW_TOKENS)
            s->max_new_tokens = s->min_new_tokens;
        sampling_mark(s, SAMPLING_MAX_NEW_TOKENS);
    }
    if (sampling_given(s, SAMPLING_MAX_NEW_TOKENS) && s->max_new_tokens <= INT64_MAX)
        b->q.field.generation.max_tokens = (int64_t)s->max_new_tokens;
}

/* Gives Q the service with the chat template and its markup. */
static int use_template(struct served *s, struct request *q, struct err *e)
{
    struct input_template *t = &s->answering.template;
    int rc = input_template_open(t, s->model, s->template_file, e);

    if (rc || (rc = input_template_examine(t, e)) != 0)
        return rc;
    s->own_chat = s->own;
    s->own_chat.template = &t->template;
    s->own_chat.markup = &t->template.markup;
    q->service = &s->own_chat;
    q->calls = t->template.markup.calls; /* calls end reasoning that has a budget */
    q->place = MARKUP_CONTENT;           /* unless a template renders the prompt */
    return 0;
}

void own_begin(struct served *s, struct batch_request *b, struct gallop *engine)
{
    struct request *q = &b->q;
    struct err e = {0};

    s->own.engine = engine;
    limit(b, engine_info(engine)->defaults);
    if ((q->field.input.messages || sampling_given(q->field.sampling, SAMPLING_THINKING_TOKEN_BUDGET)) &&
        use_template(s, q, &e) != 0)
        refuse_error(q, &e);
    else if (!(b->end = arena_zalloc(&q->arena, b->n, sizeof(*b->end))))
        refuse_memory(q);
}

void own_set_seed(struct batch_request *b, const struct gallop *engine)
{
    struct sampling merged;

    sampling_merge(&merged, b->q.field.sampling, engine_info(engine)->defaults);
    b->drawn = !sampling_is_greedy(&merged) && !sampling_is_search(b->q.field.sampling);
    b->random_seed &= b->drawn;
    b->seed = b->random_seed ? b->seed : merged.seed;
}

void own_set_fault(struct batch_request *b)
{
    const char *text = b->q.reply.data ? b->q.reply.data : "out of memory";
    char subject[ERR_SUBJECT_BYTES];
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz_");

    if (b->where[0]) {
        err_set(&b->fault, ERR_INPUT, "%s: %s", b->where, text);
    } else if (n && n < sizeof(subject) && strncmp(text + n, ": ", 2) == 0) { /* the field was an option */
        snprintf(subject, sizeof(subject), "%.*s", (int)n, text);
        err_about(&b->fault, ERR_INPUT, subject, "%s", text + n + 2);
    } else {
        err_set(&b->fault, ERR_INPUT, "%s", text);
    }
}

/* ---- results ---- */

/* Appends the log-probability of each token of T, with its alternatives, to LIST. Returns LIST. */
static json_t *add_logprobs(const struct answer_tokens *t, json_t *list)
{
    for (const struct answer_token *v = t->v; v < t->v + t->n; v++) {
        json_t *top = json_array();

        for (const struct gallop_logprob *p = t->top + v->top; p < t->top + v->top + v->n_top; p++)
            json_array_append_new(top, json_pack("[i,f]", (int)p->id, (double)p->logprob));
        json_array_append_new(
            list, json_pack("{s:i,s:f,s:o}", "id", (int)v->id, "logprob", (double)v->logprob, "top", top));
    }
    return list;
}

/* Adds the fields of answer I to the JSON object O. */
static void add_answer(const struct batch_request *b, size_t i, json_t *o)
{
    const struct engine_info *info = engine_info(b->q.service->engine);
    const struct answer_choice *h = &b->q.answer.choice[i];
    const struct gallop_event *ev = &b->end[i];
    json_t *ids = json_array(), *timing;

    for (size_t k = 0; k < h->tokens.n; k++)
        json_array_append_new(ids, json_integer(h->tokens.v[k].id));
    json_object_set_new(o, "output_ids", ids);
    if (info->tok)
        json_object_set_new(o, "text",
                            json_stringn(h->said.text.data ? h->said.text.data : "", h->said.text.len));
    json_object_set_new(o, "finish_reason",
                        json_string(h->finish == GALLOP_FINISH_LENGTH ? "length" : "stop"));
    json_object_set_new(o, "stop_reason",
                        h->stop_string       ? print_json_text(h->stop_string)
                        : h->stop_token >= 0 ? json_integer(h->stop_token)
                                             : json_null());
    if (h->has_score) {
        json_object_set_new(o, "score", json_real(h->score));
        json_object_set_new(o, "cumulative_logprob", json_real(h->cumulative_logprob));
    }
    if (b->q.field.sampling->logprobs >= 0 && h->tokens.n)
        json_object_set_new(o, "logprobs", add_logprobs(&h->tokens, json_array()));
    timing = json_pack("{s:f,s:f,s:f,s:I,s:I}", "load_s", info->load_s, "prefill_s", ev->prefill_s,
                       "decode_s", ev->decode_s, "prompt_tokens", (json_int_t)ev->n_prompt, "output_tokens",
                       (json_int_t)ev->n_output);
    if (info->has_store) {
        json_object_set_new(timing, "cached_tokens", json_integer((json_int_t)ev->n_cached));
        json_object_set_new(timing, "stored_tokens", json_integer((json_int_t)ev->n_stored));
    }
    json_object_set_new(o, "timing", timing);
    if (ev->speculation.n_positions)
        json_object_set_new(o, "speculation", print_json_speculation(&ev->speculation));
}

static json_t *warnings_json(const struct answer *a)
{
    const char *text = a->warnings;
    json_t *list = json_array();

    for (size_t i = 0; i < a->n_warnings; i++, text += strlen(text) + 1)
        json_array_append_new(list, print_json_text(text));
    return list;
}

/* Returns the JSON object that is printed for answer I to B, or for the error of B. */
static json_t *result(const struct batch_request *b, size_t i)
{
    const struct request *q = &b->q;
    char text[sizeof(b->fault)];
    json_t *o = json_object(), *scored;

    json_object_set_new(o, "index", json_integer((json_int_t)b->index));
    if (b->custom_id)
        json_object_set(o, "custom_id", b->custom_id);
    if (b->fault.code) {
        err_text(&b->fault, text, sizeof(text));
        json_object_set_new(o, "error", print_json_text(text));
        return o;
    }
    if (q->answer.choice[i].has_score)
        json_object_set_new(o, "beam", json_integer((json_int_t)i));
    json_object_set_new(o, "prompt_ids",
                        print_json_ids(&(struct tok_ids){.id = q->prompt[0].id, .n = q->prompt[0].n_ids}));
    if (b->drawn)
        json_object_set_new(o, "seed", json_unsigned(b->seed));
    if (q->field.output.prompt_logprobs >= 0) {
        scored = json_array();
        json_array_append_new(scored, json_null()); /* the first token has no log-probability */
        json_object_set_new(o, "prompt_logprobs", add_logprobs(&q->answer.prompt[0].scored, scored));
    }
    add_answer(b, i, o);
    if (q->answer.n_warnings)
        json_object_set_new(o, "warnings", warnings_json(&q->answer));
    return o;
}

void own_print(const struct batch_request *b)
{
    bool is_search = !b->fault.code && sampling_is_search(b->q.field.sampling);
    json_t *o = result(b, 0), *choices = json_array();

    for (size_t i = 0; b->n > 1 && !b->fault.code && !is_search && i < b->n; i++) {
        json_t *one = json_pack("{s:I}", "index", (json_int_t)i);

        add_answer(b, i, one);
        json_array_append_new(choices, one);
    }
    if (json_array_size(choices))
        json_object_set(o, "choices", choices);
    json_decref(choices);
    print_json(o);
    for (size_t i = 1; is_search && i < b->n; i++)
        print_json(result(b, i));
}
