/* tokens.c - answers /tokenize, /detokenize and /v1/messages/count_tokens, which do not run the model. */
#include "chat/prepare/tokens.h"

#include "base/buf.h"
#include "base/err.h"
#include "chat/prepare/prompt.h"
#include "chat/prepare/refuse.h"
#include "chat/request.h"
#include "chat/schema.h"
#include "chat/service.h"
#include "engine/engine.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

static const struct engine_info *info_of(const struct request *q)
{
    return engine_info(q->service->engine);
}

/* ---- /tokenize and /detokenize ---- */

const struct schema tokens_encode_schema = {
    "Tokens",
    "{'type':'object','required':['count','max_model_len','tokens'],"
    "'properties':{'count':{'type':'integer'},'max_model_len':{'type':'integer'},"
    "'tokens':{'type':'array','items':{'type':'integer'}},'token_strs':{'type':['array','null'],"
    "'items':{'type':'string'}}}}",
    NULL};

void tokens_encode(struct request *q)
{
    const struct engine_info *m = info_of(q);
    struct tok_ids ids = {0};
    struct buf one = {.tag = MEM_API};
    struct err e = {0};
    int rc;

    fields_blame(&q->field, q->field.input.messages ? "messages" : "prompt", 0);
    rc = q->field.input.messages ? prompt_read_messages(q, NULL, NULL, &ids, &e)
                                 : prompt_encode(q, json_string_value(q->field.input.prompt), NULL,
                                                 json_string_length(q->field.input.prompt),
                                                 prompt_adds_special(q, true), &ids, &e);
    if (rc) {
        refuse_error(q, &e);
    } else {
        buf_fmt(&q->reply, "{\"count\":%zu,\"max_model_len\":%zu,\"tokens\":[", ids.n,
                m->model->max_model_len);
        for (size_t i = 0; i < ids.n; i++)
            buf_json_int(&q->reply, ids.id[i]);
        buf_str(&q->reply, "],\"token_strs\":");
        if (!q->field.output.return_token_strs)
            buf_json_null(&q->reply);
        else
            buf_json_begin(&q->reply, '[');
        for (size_t i = 0; i < ids.n && q->field.output.return_token_strs; i++) {
            buf_clear(&one);
            q->reply.oom |= tok_decode(m->tok, &ids.id[i], 1, false, &one, NULL) != 0 || one.oom;
            buf_json_str(&q->reply, one.data ? one.data : "", one.len);
        }
        buf_str(&q->reply, q->field.output.return_token_strs ? "]}" : "}");
        q->status = 200;
    }
    buf_fini(&one);
    tok_ids_fini(&ids);
}

const struct schema tokens_decode_schema = {
    "Text", "{'type':'object','required':['prompt'],'properties':{'prompt':{'type':'string'}}}", NULL};

void tokens_decode(struct request *q)
{
    const struct engine_info *m = info_of(q);
    struct buf text = {.tag = MEM_API};
    struct tok_ids ids = {0};
    struct err e = {0};
    int rc = m->tok ? prompt_add_ids(&ids, q->field.input.tokens, &e)
                    : err_set(&e, ERR_UNSUPPORTED, "this model has no tokenizer");

    fields_blame(&q->field, "tokens", 0);
    for (size_t i = 0; i < ids.n && rc == 0; i++)
        if ((size_t)ids.id[i] >= m->model->vocab_size)
            rc = err_set(&e, ERR_INPUT, "tokens: token %d at position %zu is outside the vocabulary of %zu",
                         ids.id[i], i, m->model->vocab_size);
    if (rc == 0)
        rc = tok_decode(m->tok, ids.id, ids.n, false, &text, &e);
    if (rc) {
        refuse_error(q, &e);
    } else {
        buf_str(&q->reply, "{\"prompt\":");
        buf_json_str(&q->reply, text.data ? text.data : "", text.len);
        buf_char(&q->reply, '}');
        q->status = 200;
    }
    buf_fini(&text);
    tok_ids_fini(&ids);
}

/* ---- /v1/messages/count_tokens ---- */

const struct schema tokens_count_schema = {
    "Count", "{'type':'object','required':['input_tokens'],'properties':{'input_tokens':{'type':'integer'}}}",
    NULL};

void tokens_count(struct request *q)
{
    struct tok_ids ids = {0};
    struct err e = {0};

    fields_blame(&q->field, "messages", 0);
    if (prompt_read_messages(q, NULL, NULL, &ids, &e) != 0) {
        refuse_error(q, &e);
    } else {
        buf_fmt(&q->reply, "{\"input_tokens\":%zu}", ids.n);
        q->status = 200;
    }
    tok_ids_fini(&ids);
}
