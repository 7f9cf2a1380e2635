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
    openai_put_message(&h->said, w->q->service->reasoning_field, false, true, out);
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

        openai_begin_event(q, chunk, i, out);
        buf_str(out, ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]");
        if (q->field.output.return_token_ids)
            openai_put_ids("prompt_token_ids", prompt->id, prompt->n_ids, out);
        openai_end_event(w, i, true, out);
    }
}

/* Writes an event with the unsent part of choice I. Its text never ends inside a character. */
static void chat_put_part(const struct dialect_writer *w, size_t i, struct buf *out)
{
    const struct answer_choice *h = &w->a->choice[i];
    const struct request *q = w->q;

    openai_begin_event(q, chunk, i, out);
    buf_str(out, ",\"delta\":{");
    openai_put_message(&h->said, q->service->reasoning_field, true, !h->parser, out);
    buf_str(out, "}");
    logprobs_put_chat(q, &h->tokens, out);
    openai_put_finish(h, out);
    if (q->field.output.return_token_ids)
        openai_put_token_ids(&h->tokens, out);
    buf_str(out, "}]");
    openai_end_event(w, i, false, out);
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
