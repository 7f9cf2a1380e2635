/* ollama.c - Ollama's /api/generate and /api/chat: converts a request into a chat or a plain prompt, and writes the
 * answer as JSON objects, one on each line.
 *
 * Answers are streamed by default. Times are in nanoseconds. Tool calls are sent complete, at the end of an answer.
 * Specification: https://github.com/ollama/ollama/blob/main/docs/api.md.
 */
#include "chat/dialect/ollama.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json/json_tree.h"
#include "chat/request.h"
#include "chat/schema.h"

/* ---- requests ---- */

/* Appends the messages of the request to LIST or, if it has none, messages with its system text and its prompt.
 * `tool_name` is copied to `name`, as in OpenAI's chat format. */
static int make_messages(struct request *q, json_t *list, struct err *e)
{
    struct fields *f = &q->field;
    int bad = 0;

    if (!f->input.messages) {
        if (f->input.system)
            bad |= json_array_append_new(
                list, json_pack("{s:s,s:O}", "role", "system", "content", f->input.system));
        bad |=
            json_array_append_new(list, json_pack("{s:s,s:O}", "role", "user", "content", f->input.prompt));
    }
    for (size_t i = 0; i < json_array_size(f->input.messages); i++) {
        json_t *m = json_copy(json_array_get(f->input.messages, i)), *name = json_object_get(m, "tool_name");

        if (json_array_size(json_object_get(m, "images"))) {
            json_decref(m);
            return err_set(e, ERR_UNSUPPORTED, "messages[%zu].images: not supported by this server", i);
        }
        if (name)
            bad |= json_object_set(m, "name", name);
        bad |= json_array_append_new(list, m);
    }
    return bad ? err_nomem(e, "messages") : 0;
}

bool ollama_owns(const char *path)
{
    return strncmp(path, "/api/", 5) == 0;
}

bool ollama_loads(const struct request *q)
{
    return q->endpoint == FIELDS_GENERATE
               ? !json_string_length(q->field.input.prompt) && !q->field.input.suffix
           : q->endpoint == FIELDS_OLLAMA_CHAT ? !json_array_size(q->field.input.messages)
                                               : false;
}

static int ollama_read_request(struct request *q, struct err *e)
{
    struct fields *f = &q->field;
    json_t *list;
    int rc;

    f->generation.max_tokens = f->generation.num_predict > 0 ? f->generation.num_predict : -1;
    if (q->endpoint == FIELDS_GENERATE && (f->input.raw || f->input.suffix))
        return 0;
    list = json_array();
    f->own = json_pack("[o]", list);
    if (!f->own)
        return err_nomem(e, "messages");
    fields_blame(f, "messages", 0);
    rc = make_messages(q, list, e);
    f->input.messages = list;
    f->input.prompt = NULL; /* the request is a chat from here on */
    return rc;
}

/* ---- answers ---- */

const struct schema ollama_error_schema = {
    "OllamaError", "{'type':'object','required':['error'],'properties':{'error':{'type':'string'}}}", NULL};

void ollama_error(struct buf *out, int status, const char *message, const char *param)
{
    (void)status;
    buf_str(out, "{\"error\":");
    buf_json_str(out, message, strlen(message));
    buf_json_key(out, "param");
    dialect_put_string(out, param);
    buf_str(out, "}");
}

static void put_calls(const struct message_calls *calls, struct buf *out)
{
    buf_str(out, ",\"tool_calls\":[");
    for (size_t i = 0; i < calls->n_ready; i++) {
        buf_fmt(out, "%s{\"function\":{\"name\":", i ? "," : "");
        dialect_put_string(out, message_call_name(calls, &calls->v[i]));
        buf_str(out, ",\"arguments\":");
        dialect_put_arguments(message_call_arguments(calls, &calls->v[i]), calls->v[i].n_arguments, out);
        buf_str(out, "}}");
    }
    buf_char(out, ']');
}

static void put_member(const char *key, const struct buf *text, struct buf *out)
{
    buf_fmt(out, ",\"%s\":", key);
    dialect_put_text(out, text);
}

/* Writes the unsent text, reasoning and tool calls of choice H. H NULL: writes empty text. */
static void put_news(const struct request *q, const struct answer_choice *h, struct buf *out)
{
    static const struct answer_choice none;
    bool is_chat = q->endpoint == FIELDS_OLLAMA_CHAT;

    if (!h)
        h = &none;
    if (is_chat)
        buf_str(out, ",\"message\":{\"role\":\"assistant\"");
    put_member(is_chat ? "content" : "response", &h->said.text, out);
    if (h->said.reasoning.len)
        put_member("thinking", &h->said.reasoning, out);
    if (is_chat && h->said.calls.n_ready)
        put_calls(&h->said.calls, out);
    if (is_chat)
        buf_char(out, '}');
}

static void put_figures(const struct dialect_writer *w, struct buf *out)
{
    const struct answer_choice *h = w->a->choice;

    buf_fmt(
        out,
        ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%.0f,\"load_duration\":0,\"prompt_eval_count\":%zu,"
        "\"prompt_eval_duration\":%.0f,\"eval_count\":%zu,\"eval_duration\":%.0f",
        h->finish == GALLOP_FINISH_STOP     ? "stop"
        : h->finish == GALLOP_FINISH_LENGTH ? "length"
                                            : "abort",
        (clock_seconds() - w->q->origin.arrival_s) * 1e9, w->q->n_prompt_tokens, h->prefill_s * 1e9,
        h->n_output, h->decode_s * 1e9);
    dialect_put_warnings(w->a, out);
    buf_char(out, '}');
}

static void begin_line(const struct request *q, struct buf *out)
{
    buf_str(out, "{\"model\":");
    dialect_put_string(out, request_model(q));
    buf_str(out, ",\"created_at\":");
    dialect_put_time(q->origin.created, out);
}

void ollama_put_loaded(const struct request *q, struct buf *out)
{
    begin_line(q, out);
    buf_str(out, q->endpoint == FIELDS_GENERATE ? ",\"response\":\"\""
                                                : ",\"message\":{\"role\":\"assistant\",\"content\":\"\"}");
    buf_str(out, ",\"done\":true,\"done_reason\":\"load\",\"total_duration\":0,\"load_duration\":0,"
                 "\"prompt_eval_count\":0,\"eval_count\":0}");
}

const struct schema ollama_schema = {
    "OllamaAnswer",
    "{'type':'object','required':['model','created_at','done','done_reason','eval_count',"
    "'prompt_eval_count'],'properties':{'warnings':{'type':'array','items':{'type':'string'}},"
    "'model':{'type':'string'},'created_at':{'type':'string'},"
    "'done':{'type':'boolean'},'response':{'type':'string'},'message':{'type':'object',"
    "'required':['role','content'],'properties':{'role':{'const':'assistant'},"
    "'content':{'type':'string'}}}}}",
    NULL};

static void ollama_put_whole(const struct dialect_writer *w, struct buf *out)
{
    begin_line(w->q, out);
    put_news(w->q, w->a->choice, out);
    put_figures(w, out);
}

/* Writes a line with the unsent part of choice I. The line that ends the answer has no text. */
static void ollama_put_part(const struct dialect_writer *w, size_t i, struct buf *out)
{
    const struct answer_choice *h = &w->a->choice[i];

    if (h->said.text.len || h->said.reasoning.len || h->said.calls.n_ready) {
        begin_line(w->q, out);
        put_news(w->q, h, out);
        buf_str(out, ",\"done\":false}\n");
    }
    if (h->state != ANSWER_ENDED)
        return;
    begin_line(w->q, out);
    put_news(w->q, NULL, out);
    put_figures(w, out);
    buf_char(out, '\n');
}

static void ollama_put_end(const struct dialect_writer *w, int status, const char *sentence, struct buf *out)
{
    (void)w;
    if (!status)
        return;
    ollama_error(out, status, sentence, NULL);
    buf_char(out, '\n');
}

const struct dialect ollama_dialect = {.prefix = "ollama-",
                                       .type = "application/x-ndjson",
                                       .calls = MESSAGE_CALLS_AT_END,
                                       .read = ollama_read_request,
                                       .whole = ollama_put_whole,
                                       .part = ollama_put_part,
                                       .end = ollama_put_end,
                                       .error = ollama_error,
                                       .error_schema = &ollama_error_schema};

const struct dialect ollama_show_dialect = {
    .prefix = "ollama-", .error = ollama_error, .error_schema = &ollama_error_schema};
