/* openai_chat.c - OpenAI's chat completions: writes answers as one object, or as a stream of events.
 *
 * Specification: https://platform.openai.com/docs/api-reference/chat.
 */
#include "base/buf.h"
#include "chat/dialect/logprobs.h"
#include "chat/dialect/openai.h"
#include "chat/schema.h"
#include "chat/service.h"

static const char object[] = "chat.completion", chunk[] = "chat.completion.chunk";

/* Writes an element of tool_calls. In a stream it has an index, and several elements with the same index may carry
 * parts of the arguments. */
static void put_call(const struct request *q, const struct answer_calls *calls, size_t i, struct buf *out)
{
    const struct answer_call *v = &calls->v[i];

    buf_str(out, i ? ",{" : "{");
    if (q->field.output.stream)
        buf_fmt(out, "\"index\":%u,", v->index);
    if (v->begins) {
        buf_fmt(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", v->id);
        buf_json_str(out, answer_call_name(calls, v), v->n_name);
        buf_str(out, ",\"arguments\":");
    } else {
        buf_str(out, "\"function\":{\"arguments\":");
    }
    buf_json_str(out, answer_call_arguments(calls, v), v->n_arguments);
    buf_str(out, "}}");
}

/* Writes the members content, reasoning and tool_calls, except for empty ones. WITH_CONTENT: empty content is
 * written too, as null if there is reasoning or a tool call, else as an empty string. */
static void put_pieces(const struct request *q, const struct answer_choice *h, bool with_content,
                       struct buf *out)
{
    bool other = h->reasoning.len || h->calls.n_ready;

    if (h->text.len || with_content) {
        buf_json_key(out, "content");
        if (h->text.len || !other)
            dialect_put_text(out, &h->text);
        else
            buf_json_null(out);
    }
    if (h->reasoning.len) {
        buf_json_key(out, q->service->reasoning_field);
        dialect_put_text(out, &h->reasoning);
    }
    if (h->calls.n_ready) {
        buf_json_key(out, "tool_calls");
        buf_char(out, '[');
        for (size_t i = 0; i < h->calls.n_ready; i++)
            put_call(q, &h->calls, i, out);
        buf_char(out, ']');
    }
}

const struct schema openai_chat_schema = {
    "ChatCompletion",
    "{'type':'object','required':['id','object','created','model','choices','usage'],"
    "'properties':{'warnings':{'type':'array','items':{'type':'string'}},"
    "'id':{'type':'string'},'object':{'const':'chat.completion'},"
    "'created':{'type':'integer'},'model':{'type':'string'},"
    "'usage':{'$ref':'#/components/schemas/Usage'},'choices':{'type':'array',"
    "'items':{'type':'object','required':['index','message','finish_reason'],"
    "'properties':{'index':{'type':'integer'},"
    "'finish_reason':{'$ref':'#/components/schemas/FinishReason'},'logprobs':{'type':['object',"
    "'null']},'message':{'type':'object','required':['role','content'],"
    "'properties':{'role':{'const':'assistant'},'content':{'type':['string','null']},"
    "'tool_calls':{'type':'array','items':{'type':'object'}}}}}}}}}",
    (const struct schema *const[]){&openai_usage_schema, &openai_finish_schema, NULL}};

static void put_choice(const struct dialect_writer *w, size_t i, struct buf *out)
{
    const struct answer_choice *h = &w->a->choice[i];

    buf_fmt(out, i ? ",{\"index\":%zu" : "{\"index\":%zu", i);
    buf_str(out, ",\"message\":{\"role\":\"assistant\"");
    put_pieces(w->q, h, true, out);
    buf_str(out, ",\"refusal\":null}");
    logprobs_put_chat(w->q, &h->tokens, out);
    openai_put_finish(h, out);
    if (w->q->field.output.return_token_ids)
        openai_put_token_ids(&h->tokens, out);
    buf_str(out, "}");
}

static void chat_put_whole(const struct dialect_writer *w, struct buf *out)
{
    const struct request *q = w->q;

    openai_put_head(q, object, out);
    for (size_t i = 0; i < w->a->n_choices; i++)
        put_choice(w, i, out);
    buf_str(out, "]");
    openai_put_all_usage(w, out);
    if (q->field.output.return_token_ids)
        openai_put_ids("prompt_token_ids", q->prompt->id, q->prompt->n_ids, out);
    if (q->field.output.prompt_logprobs >= 0)
        logprobs_put_prompt(q, w->a->prompt, out);
    dialect_put_warnings(w->a, out);
    buf_str(out, "}");
}

/* ---- events ---- */

/* Writes one event for each choice, which contains only the role. */
static void put_roles(const struct dialect_writer *w, struct buf *out)
{
    const struct request *q = w->q;

    for (size_t i = 0; i < w->a->n_choices; i++) {
        const struct request_prompt *prompt = &q->prompt[i / q->n];

        buf_str(out, "data: ");
        openai_put_head(q, chunk, out);
        buf_fmt(out,
                "{\"index\":%zu,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                "\"finish_reason\":null}]",
                i);
        if (q->field.output.return_token_ids)
            openai_put_ids("prompt_token_ids", prompt->id, prompt->n_ids, out);
        if (q->field.output.continuous_usage)
            openai_put_choice_usage(w, i, true, out);
        buf_str(out, "}\n\n");
    }
}

/* Writes an event with the unsent part of choice I. Its text never ends inside a character. */
static void chat_put_part(const struct dialect_writer *w, size_t i, struct buf *out)
{
    const struct answer_choice *h = &w->a->choice[i];
    const struct request *q = w->q;

    buf_str(out, "data: ");
    openai_put_head(q, chunk, out);
    buf_fmt(out, "{\"index\":%zu,\"delta\":{", i);
    put_pieces(q, h, !h->parser, out);
    buf_str(out, "}");
    logprobs_put_chat(q, &h->tokens, out);
    openai_put_finish(h, out);
    if (q->field.output.return_token_ids)
        openai_put_token_ids(&h->tokens, out);
    buf_str(out, "}]");
    if (h->state == ANSWER_ENDED)
        dialect_put_warnings(w->a, out);
    if (q->field.output.continuous_usage)
        openai_put_choice_usage(w, i, false, out);
    buf_str(out, "}\n\n");
}

static void chat_put_end(const struct dialect_writer *w, int status, const char *sentence, struct buf *out)
{
    openai_put_end(w, chunk, status, sentence, out);
}

const struct dialect openai_chat = {.prefix = "chatcmpl-",
                                    .type = "text/event-stream; charset=utf-8",
                                    .ping = dialect_ping,
                                    .whole = chat_put_whole,
                                    .introduce = put_roles,
                                    .part = chat_put_part,
                                    .end = chat_put_end,
                                    .error = dialect_error,
                                    .error_schema = &dialect_error_schema};
