/* models.c - answers with lists and descriptions of the model in the formats of OpenAI, Anthropic and Ollama. */

#include <stdio.h>
#include <string.h>

#include "api/api_priv.h"
#include "api/http/reply.h"
#include "api/http/routes.h"
#include "base/buf.h"
#include "base/json/json_tree.h"
#include "base/utf8.h"
#include "chat/dialect/dialect.h"
#include "chat/dialect/ollama_models.h"
#include "chat/schema.h"
#include "text/markup/markup.h"

/* ---- OpenAI and Anthropic ---- */

const struct schema models_one_schema = {
    "Model",
    "{'type':'object','required':['id','object','created','owned_by','max_model_len'],"
    "'properties':{'id':{'type':'string'},'object':{'const':'model'},'created':{'type':'integer'},"
    "'owned_by':{'type':'string'},'max_model_len':{'type':'integer'},'markup':{'type':'object','properties':{"
    "'tool_call_parser':{'type':['string','null']},'reasoning_parser':{'type':['string','null']},"
    "'tool_call_parser_from':{'type':'string'},'reasoning_parser_from':{'type':'string'}}}}}",
    NULL};
const struct schema models_list_schema = {
    "Models",
    "{'type':'object','required':['object','data'],'properties':{'object':{'const':'list'},"
    "'data':{'type':'array','items':{'$ref':'#/components/schemas/Model'}}}}",
    (const struct schema *const[]){&models_one_schema, NULL}};

/* Writes a model with the members of OpenAI's and Anthropic's APIs, vLLM's max_model_len, and the formats of its tool
 * calls and reasoning. */
static void put_model(const struct api *a, const char *name, struct buf *out)
{
    buf_json_begin(out, '{');
    buf_json_key(out, "id");
    dialect_put_string(out, name);
    buf_fmt(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"gallop\",\"root\":",
            (long long)a->opt.service.created);
    dialect_put_string(out, a->opt.service.name[0]);
    buf_fmt(out, ",\"parent\":null,\"max_model_len\":%zu,\"type\":\"model\",\"created_at\":", a->max_len);
    dialect_put_time(a->opt.service.created, out);
    buf_json_key(out, "display_name");
    dialect_put_string(out, name);
    buf_fmt(out, ",\"lifecycle\":\"active\",\"max_input_tokens\":%zu,\"max_tokens\":%zu", a->max_len,
            a->max_len);
    if (a->opt.service.markup) {
        json_t *markup = markup_json(a->opt.service.markup);

        buf_json_key(out, "markup");
        if (markup)
            buf_json_tree(out, markup, false);
        out->oom |= !markup;
        json_decref(markup);
    }
    buf_char(out, '}');
}

void models_list(const struct api *a, struct buf *out)
{
    buf_str(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < a->opt.service.n_names; i++)
        put_model(a, a->opt.service.name[i], out);
    buf_str(out, "],\"has_more\":false,\"first_id\":");
    dialect_put_string(out, a->opt.service.name[0]);
    buf_str(out, ",\"last_id\":");
    dialect_put_string(out, a->opt.service.name[a->opt.service.n_names - 1]);
    buf_str(out, "}");
}

void models_answer_one(const struct reply *r)
{
    const struct service *o = &r->api->opt.service;
    struct buf body = {.tag = MEM_API};
    char name[512];
    size_t i = 0;

    reply_rest_of_path(r, name, sizeof(name));
    while (i < o->n_names && strcmp(o->name[i], name) != 0)
        i++;
    if (i < o->n_names) {
        put_model(r->api, name, &body);
        reply_json(r, &body);
    } else {
        char sentence[200];

        name[100] = 0;
        name[utf8_printable(name)] = 0;
        snprintf(sentence, sizeof(sentence),
                 "The model `%.100s` does not exist; /v1/models lists what is served.", name);
        reply_refuse(r, 404, sentence, "model");
    }
    buf_fini(&body);
}

const struct schema models_tokenizer_schema = {
    "TokenizerInfo",
    "{'type':'object','required':['tokenizer_class'],'properties':{"
    "'tokenizer_class':{'type':'string'},'chat_template':{'type':'string'}}}",
    NULL};

void models_tokenizer(const struct api *a, struct buf *out)
{
    buf_str(out, a->opt.tokenizer_info);
}

/* ---- Ollama ---- */

const struct schema models_ollama_tags_schema = {
    "OllamaTags",
    "{'type':'object','required':['models'],'properties':{'models':{'type':'array',"
    "'items':{'type':'object','required':['name','model','modified_at','size','details']}}}}",
    NULL};

void models_ollama_tags(const struct api *a, struct buf *out)
{
    ollama_put_tags(&a->opt.service, out);
}

const struct schema models_ollama_loaded_schema = {
    "OllamaRunning",
    "{'type':'object','required':['models'],'properties':{'models':{'type':'array',"
    "'items':{'type':'object','required':['name','model','size','digest','details',"
    "'expires_at','size_vram','context_length']}}}}",
    NULL};

void models_ollama_loaded(const struct api *a, struct buf *out)
{
    ollama_put_running(&a->opt.service, out);
}
