/* openai.c - writes the answers to lines of OpenAI's batch files in the format of OpenAI's result files. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "app/batch/openai.h"
#include "app/batch/requests.h"
#include "app/input.h"
#include "app/print.h"
#include "base/buf.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "text/chat.h"
#include "text/jinja/jinja.h"
#include "text/markup/markup.h"
#include "text/markup/parser.h"

#define LOWEST_LOGPROB (-9999.0) /* written for minus infinity, as in vLLM, because JSON has no infinity */

/* The parts of one answer's text. */
struct message {
    struct buf content, reasoning, arguments;
    json_t *calls;
    bool drops; /* an incomplete tool call is left out of the message */
};

/* Makes an id: PREFIX and 24 random hexadecimal digits. */
static json_t *new_id(const char *prefix)
{
    unsigned char random[12] = {0};
    char text[64];
    int n = snprintf(text, sizeof(text), "%s", prefix);

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return NULL;
    for (size_t i = 0; i < sizeof(random); i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%02x", random[i]);
    return json_string(text);
}

/* ---- log-probabilities ---- */

static json_t *logprob_json(const json_t *logprob)
{
    double x = json_number_value(logprob);

    return json_real(isfinite(x) && x > LOWEST_LOGPROB ? x : LOWEST_LOGPROB);
}

/* Returns the text of the token ID alone as a JSON string. */
static json_t *token_text(const struct tok *tok, const json_t *id)
{
    int32_t token = (int32_t)json_integer_value(id);
    struct buf text = {.tag = MEM_APP};
    json_t *out;

    if (tok)
        tok_decode(tok, &token, 1, false, &text, NULL);
    out = print_json_string(text.data ? text.data : "", text.len);
    buf_fini(&text);
    return out;
}

/* Returns the bytes of the token ID as a list. The bytes are exact even if the token is a part of a
 * character, whose text is U+FFFD. */
static json_t *token_bytes(const struct tok *tok, const json_t *id)
{
    int32_t token = (int32_t)json_integer_value(id);
    struct buf bytes = {.tag = MEM_APP};
    json_t *list = json_array();

    if (tok) {
        tok_decode(tok, &token, 1, false, &bytes, NULL);
        tok_bytes(tok, token, &bytes);
    }
    for (size_t i = 0; i < bytes.len; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes.data[i]));
    buf_fini(&bytes);
    return list;
}

/* Returns {"token", "logprob", "bytes"}, as in OpenAI's chat completions. */
static json_t *token_json(const struct tok *tok, const json_t *id, const json_t *logprob)
{
    return json_pack("{s:o,s:o,s:o}", "token", token_text(tok, id), "logprob", logprob_json(logprob), "bytes",
                     token_bytes(tok, id));
}

static json_t *chat_logprobs(const struct tok *tok, const json_t *list)
{
    json_t *content = json_array(), *v, *t;
    size_t i, k;

    json_array_foreach(list, i, v)
    {
        json_t *o = token_json(tok, json_object_get(v, "id"), json_object_get(v, "logprob"));
        json_t *top = json_array();

        json_array_foreach(json_object_get(v, "top"), k, t)
        {
            json_array_append_new(top, token_json(tok, json_array_get(t, 0), json_array_get(t, 1)));
        }
        json_object_set_new(o, "top_logprobs", top);
        json_array_append_new(content, o);
    }
    return json_pack("{s:o}", "content", content);
}

/* Adds the text of the token ID and LOGPROB to the object TOP, unless TOP has a token with the same text. */
static void add_to_top(const struct tok *tok, json_t *top, const json_t *id, const json_t *logprob)
{
    json_t *text = token_text(tok, id);
    const char *s = json_string_value(text);
    size_t n = json_string_length(text);

    if (s && !json_object_getn(top, s, n))
        json_object_setn_new(top, s, n, logprob_json(logprob));
    json_decref(text);
}

/* Returns an object that maps texts of tokens to log-probabilities: the token of V, an entry of a list of
 * log-probabilities, and its alternatives. */
static json_t *top_of(const struct tok *tok, const json_t *v)
{
    json_t *top = json_object(), *t;
    size_t k;

    add_to_top(tok, top, json_object_get(v, "id"), json_object_get(v, "logprob"));
    json_array_foreach(json_object_get(v, "top"), k, t)
    {
        add_to_top(tok, top, json_array_get(t, 0), json_array_get(t, 1));
    }
    return top;
}

/* Returns the number of characters that token ID adds to the text of D. */
static size_t n_characters(struct tok_stream *d, const json_t *id)
{
    struct buf text = {.tag = MEM_APP};
    size_t n = 0;

    if (d)
        tok_stream_put(d, (int32_t)json_integer_value(id), &text, NULL);
    for (size_t i = 0; i < text.len; i++)
        n += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    buf_fini(&text);
    return n;
}

/* Returns the log-probabilities in the format of OpenAI's completions, as parallel lists. Offsets count
 * characters of the answer's text. */
static json_t *text_logprobs(const struct openai_form *f, const json_t *list)
{
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(), *offsets = json_array(), *v;
    struct tok_stream *text = NULL;
    size_t i, offset = 0;

    if (f->tok)
        tok_stream_new(&text, f->tok, !f->keep_special, NULL);
    json_array_foreach(list, i, v)
    {
        const json_t *id = json_object_get(v, "id");

        json_array_append_new(tokens, token_text(f->tok, id));
        json_array_append_new(values, logprob_json(json_object_get(v, "logprob")));
        json_array_append_new(tops, top_of(f->tok, v));
        json_array_append_new(offsets, json_integer((json_int_t)offset));
        offset += n_characters(text, id);
    }
    tok_stream_free(text);
    return json_pack("{s:o,s:o,s:o,s:o}", "tokens", tokens, "token_logprobs", values, "top_logprobs", tops,
                     "text_offset", offsets);
}

/* ---- messages ---- */

/* Ends the last tool call: adds its arguments, or removes the call if it is incomplete and m->drops is set. */
static void end_call(struct message *m, bool complete)
{
    size_t last = json_array_size(m->calls) - 1;

    if (!complete && m->drops)
        json_array_remove(m->calls, last);
    else
        json_object_set_new(json_object_get(json_array_get(m->calls, last), "function"), "arguments",
                            print_json_string(m->arguments.data ? m->arguments.data : "", m->arguments.len));
}

static void take_piece(struct message *m, const struct parser_piece *p)
{
    json_t *call;

    switch (p->kind) {
    case PARSER_CONTENT: buf_add(&m->content, p->text, p->len); break;
    case PARSER_REASONING: buf_add(&m->reasoning, p->text, p->len); break;
    case PARSER_ARGUMENTS: buf_add(&m->arguments, p->text, p->len); break;
    case PARSER_CALL:
        call = json_pack("{s:s,s:s,s:{s:s%}}", "id", p->id, "type", "function", "function", "name", p->text,
                         p->len);
        json_array_append_new(m->calls, call);
        break;
    case PARSER_CALL_END: end_call(m, p->complete); buf_clear(&m->arguments);
    }
}

static enum parser_end end_of(const struct request_answer *a)
{
    return a->end.finish == GALLOP_FINISH_LENGTH      ? PARSER_CUT
           : a->stop_string || a->end.stop_token >= 0 ? PARSER_STOPPED
                                                      : PARSER_ENDED;
}

static uint64_t random_bits(void)
{
    uint64_t x;

    return getrandom(&x, sizeof(x), 0) == (ssize_t)sizeof(x) ? x : clock_ns();
}

/* Separates content, reasoning and tool calls of an answer, as the server does. */
static int split(const struct openai_form *f, const struct request *q, const struct request_answer *a,
                 struct message *m, struct err *e)
{
    const struct parser_options o = {.calls = q->n_tools ? f->markup.calls : NULL,
                                     .reasoning = f->markup.reasoning,
                                     .tok = f->tok,
                                     .prompt = q->text.data,
                                     .prompt_len = q->text.len,
                                     .names = q->tool,
                                     .n_names = q->n_tools,
                                     .tools = q->tools,
                                     .one_call = q->one_call,
                                     .is_forced = q->is_forced,
                                     .seed = random_bits()};
    struct parser *parts;
    struct parser_piece p;
    int rc = parser_open(&parts, &o, e);

    if (rc)
        return rc;
    m->drops = end_of(a) == PARSER_STOPPED;
    if ((rc = parser_feed(parts, a->text.data ? a->text.data : "", a->special.data, a->text.len, e)) == 0)
        rc = parser_finish(parts, end_of(a), e);
    while (rc == 0 && parser_take(parts, &p))
        take_piece(m, &p);
    parser_close(parts);
    return rc;
}

static json_t *text_or_null(const struct buf *text, bool null)
{
    return null && !text->len ? json_null() : print_json_string(text->data ? text->data : "", text->len);
}

/* Adds the scores of a result of beam search to the choice O. */
static void add_scores(const struct request_answer *a, json_t *o)
{
    if (!a->end.has_score)
        return;
    json_object_set_new(o, "score", json_real(a->end.score));
    json_object_set_new(o, "cumulative_logprob", json_real(a->end.cumulative_logprob));
}

static json_t *chat_choice(const struct openai_form *f, const struct request *q, size_t i)
{
    const struct request_answer *a = &q->answer[i];
    struct message m = {{.tag = MEM_APP}, {.tag = MEM_APP}, {.tag = MEM_APP}, json_array(), false};
    struct err e = {0};
    const char *finish;
    json_t *message, *o = NULL;

    if (split(f, q, a, &m, &e) == 0) {
        bool calls = json_array_size(m.calls) > 0;

        message = json_pack("{s:s,s:o}", "role", "assistant", "content",
                            text_or_null(&m.content, calls || m.reasoning.len));
        if (m.reasoning.len)
            json_object_set_new(message, "reasoning", text_or_null(&m.reasoning, false));
        if (calls)
            json_object_set(message, "tool_calls", m.calls);
        finish = a->end.finish == GALLOP_FINISH_LENGTH ? "length" : calls ? "tool_calls" : "stop";
        o = json_pack("{s:I,s:o,s:o,s:s}", "index", (json_int_t)i, "message", message, "logprobs",
                      a->logprobs ? chat_logprobs(f->tok, a->logprobs) : json_null(), "finish_reason",
                      finish);
        add_scores(a, o);
    }
    json_decref(m.calls);
    buf_fini(&m.content);
    buf_fini(&m.reasoning);
    buf_fini(&m.arguments);
    return o;
}

static json_t *text_choice(const struct openai_form *f, const struct request *q, size_t i)
{
    const struct request_answer *a = &q->answer[i];
    json_t *o = json_pack("{s:I,s:o,s:o,s:s}", "index", (json_int_t)i, "text", text_or_null(&a->text, false),
                          "logprobs", a->logprobs ? text_logprobs(f, a->logprobs) : json_null(),
                          "finish_reason", a->end.finish == GALLOP_FINISH_LENGTH ? "length" : "stop");

    add_scores(a, o);
    return o;
}

/* ---- a line ---- */

static json_t *usage(const struct request *q)
{
    json_int_t n_prompt = (json_int_t)q->ids.n, n_output = 0;

    for (size_t i = 0; i < q->n; i++)
        n_output += (json_int_t)q->answer[i].end.n_output;
    return json_pack("{s:I,s:I,s:I}", "prompt_tokens", n_prompt, "completion_tokens", n_output,
                     "total_tokens", n_prompt + n_output);
}

static json_t *completion(const struct openai_form *f, const struct request *q, json_t *seed)
{
    bool chat = q->form == REQUEST_OPENAI_CHAT;
    json_t *choices = json_array(), *o;

    for (size_t i = 0; i < q->n; i++)
        json_array_append_new(choices, chat ? chat_choice(f, q, i) : text_choice(f, q, i));
    o = json_pack("{s:o,s:s,s:I,s:o,s:o,s:o}", "id", new_id(chat ? "chatcmpl-" : "cmpl-"), "object",
                  chat ? "chat.completion" : "text_completion", "created", (json_int_t)time(NULL), "model",
                  q->model ? json_incref(q->model) : json_string("gallop"), "choices", choices, "usage",
                  usage(q));
    if (seed)
        json_object_set(o, "seed", seed);
    if (q->warnings)
        json_object_set(o, "warnings", q->warnings);
    return o;
}

static json_t *refusal(const struct request *q)
{
    char text[sizeof(q->fault)];

    err_text(&q->fault, text, sizeof(text));
    return json_pack("{s:{s:o,s:s,s:n,s:i}}", "error", "message", print_json_text(text), "type",
                     "BadRequestError", "param", "code", 400);
}

json_t *openai_line(const struct openai_form *f, const struct request *q, json_t *seed)
{
    json_t *body = q->fault.code ? refusal(q) : completion(f, q, seed);

    return json_pack("{s:o,s:O,s:{s:i,s:o,s:o},s:n}", "id", new_id("batch_req_"), "custom_id", q->custom_id,
                     "response", "status_code", q->fault.code ? 400 : 200, "request_id", new_id("req_"),
                     "body", body, "error");
}

int openai_open(struct openai_form *f, const struct tok *tok, struct input_template *t, struct err *e)
{
    f->tok = tok;
    f->is_open = true;
    return input_template_markup(t, &f->markup, e);
}

bool openai_keeps_special(const struct openai_form *f, const struct request *q)
{
    return q->form == REQUEST_OPENAI_CHAT && ((q->n_tools && f->markup.calls && f->markup.calls->special) ||
                                              (f->markup.reasoning && f->markup.reasoning->special));
}
