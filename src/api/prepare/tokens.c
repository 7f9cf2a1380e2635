/* tokens.c - answers /tokenize, /detokenize and /v1/messages/count_tokens, which do not run the model. */
#include "api/prepare/tokens.h"

#include "api/api.h"
#include "api/flight.h"
#include "api/prepare/prompt.h"
#include "api/prepare/refuse.h"
#include "api/schema.h"
#include "base/buf.h"
#include "base/err.h"
#include "engine/engine.h"
#include "text/tok/tok.h"

static const struct engine_info *info_of(const struct flight *f)
{
    return engine_info(f->q.server->engine);
}

/* ---- /tokenize and /detokenize ---- */

const struct schema tokens_encode_schema = {
    "Tokens",
    "{'type':'object','required':['count','max_model_len','tokens'],"
    "'properties':{'count':{'type':'integer'},'max_model_len':{'type':'integer'},"
    "'tokens':{'type':'array','items':{'type':'integer'}},'token_strs':{'type':['array','null'],"
    "'items':{'type':'string'}}}}",
    NULL};

void tokens_encode(struct flight *f)
{
    const struct engine_info *m = info_of(f);
    struct tok_ids ids = {0};
    struct buf one = {.tag = MEM_API};
    struct err e = {0};
    int rc;

    fields_blame(&f->q.field, f->q.field.input.messages ? "messages" : "prompt", 0);
    rc = f->q.field.input.messages ? prompt_read_messages(&f->q, NULL, NULL, &ids, &e)
                                   : prompt_encode(&f->q, json_string_value(f->q.field.input.prompt), NULL,
                                                   json_string_length(f->q.field.input.prompt),
                                                   prompt_adds_special(&f->q, true), &ids, &e);
    if (rc) {
        refuse_error(f, &e);
    } else {
        buf_fmt(&f->reply, "{\"count\":%zu,\"max_model_len\":%zu,\"tokens\":[", ids.n,
                m->model->max_model_len);
        for (size_t i = 0; i < ids.n; i++)
            buf_json_int(&f->reply, ids.id[i]);
        buf_str(&f->reply, "],\"token_strs\":");
        if (!f->q.field.output.return_token_strs)
            buf_json_null(&f->reply);
        else
            buf_json_begin(&f->reply, '[');
        for (size_t i = 0; i < ids.n && f->q.field.output.return_token_strs; i++) {
            buf_clear(&one);
            f->reply.oom |= tok_decode(m->tok, &ids.id[i], 1, false, &one, NULL) != 0 || one.oom;
            buf_json_str(&f->reply, one.data ? one.data : "", one.len);
        }
        buf_str(&f->reply, f->q.field.output.return_token_strs ? "]}" : "}");
        f->status = 200;
    }
    buf_fini(&one);
    tok_ids_fini(&ids);
}

const struct schema tokens_decode_schema = {
    "Text", "{'type':'object','required':['prompt'],'properties':{'prompt':{'type':'string'}}}", NULL};

void tokens_decode(struct flight *f)
{
    const struct engine_info *m = info_of(f);
    struct buf text = {.tag = MEM_API};
    struct tok_ids ids = {0};
    struct err e = {0};
    int rc = m->tok ? prompt_add_ids(&ids, f->q.field.input.tokens, &e)
                    : err_set(&e, ERR_UNSUPPORTED, "this model has no tokenizer");

    fields_blame(&f->q.field, "tokens", 0);
    for (size_t i = 0; i < ids.n && rc == 0; i++)
        if ((size_t)ids.id[i] >= m->model->vocab_size)
            rc = err_set(&e, ERR_INPUT, "tokens: token %d at position %zu is outside the vocabulary of %zu",
                         ids.id[i], i, m->model->vocab_size);
    if (rc == 0)
        rc = tok_decode(m->tok, ids.id, ids.n, false, &text, &e);
    if (rc) {
        refuse_error(f, &e);
    } else {
        buf_str(&f->reply, "{\"prompt\":");
        buf_json_str(&f->reply, text.data ? text.data : "", text.len);
        buf_char(&f->reply, '}');
        f->status = 200;
    }
    buf_fini(&text);
    tok_ids_fini(&ids);
}

/* ---- /v1/messages/count_tokens ---- */

const struct schema tokens_count_schema = {
    "Count", "{'type':'object','required':['input_tokens'],'properties':{'input_tokens':{'type':'integer'}}}",
    NULL};

void tokens_count(struct flight *f)
{
    struct tok_ids ids = {0};
    struct err e = {0};

    fields_blame(&f->q.field, "messages", 0);
    if (prompt_read_messages(&f->q, NULL, NULL, &ids, &e) != 0) {
        refuse_error(f, &e);
    } else {
        buf_fmt(&f->reply, "{\"input_tokens\":%zu}", ids.n);
        f->status = 200;
    }
    tok_ids_fini(&ids);
}
