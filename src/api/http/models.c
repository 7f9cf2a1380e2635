/* models.c - writes lists and descriptions of the model in the formats of OpenAI, Anthropic and Ollama. */
#include "api/http/models.h"

#include <stdio.h>
#include <string.h>

#include "api/api_priv.h"
#include "api/dialect/dialect.h"
#include "api/http/reply.h"
#include "api/http/routes.h"
#include "api/schema.h"
#include "base/buf.h"
#include "base/digest.h"
#include "base/utf8.h"
#include "engine/embeddings/embed.h"
#include "engine/engine.h"
#include "text/markup/markup.h"
#include "text/markup/tools.h"

/* ---- OpenAI and Anthropic ---- */

const struct schema models_one_schema = {
    "Model",
    "{'type':'object','required':['id','object','created','owned_by','max_model_len'],"
    "'properties':{'id':{'type':'string'},'object':{'const':'model'},'created':{'type':'integer'},"
    "'owned_by':{'type':'string'},'max_model_len':{'type':'integer'}}}",
    NULL};
const struct schema models_list_schema = {
    "Models",
    "{'type':'object','required':['object','data'],'properties':{'object':{'const':'list'},"
    "'data':{'type':'array','items':{'$ref':'#/components/schemas/Model'}}}}",
    (const struct schema *const[]){&models_one_schema, NULL}};

/* Writes a model with the members of OpenAI's and Anthropic's APIs and vLLM's max_model_len. */
static void put_model(const struct api *a, const char *name, struct buf *out)
{
    buf_json_begin(out, '{');
    buf_json_key(out, "id");
    dialect_put_string(out, name);
    buf_fmt(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"gallop\",\"root\":",
            (long long)a->created);
    dialect_put_string(out, a->opt.name[0]);
    buf_fmt(out, ",\"parent\":null,\"max_model_len\":%zu,\"type\":\"model\",\"created_at\":", a->max_len);
    dialect_put_time(a->created, out);
    buf_json_key(out, "display_name");
    dialect_put_string(out, name);
    buf_fmt(out, ",\"lifecycle\":\"active\",\"max_input_tokens\":%zu,\"max_tokens\":%zu}", a->max_len,
            a->max_len);
}

void models_list(const struct api *a, struct buf *out)
{
    buf_str(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < a->opt.n_names; i++)
        put_model(a, a->opt.name[i], out);
    buf_str(out, "],\"has_more\":false,\"first_id\":");
    dialect_put_string(out, a->opt.name[0]);
    buf_str(out, ",\"last_id\":");
    dialect_put_string(out, a->opt.name[a->opt.n_names - 1]);
    buf_str(out, "}");
}

void models_answer_one(const struct reply *r)
{
    const struct api_options *o = &r->api->opt;
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

static void put_member(const char *key, const char *text, struct buf *out)
{
    buf_json_key(out, key);
    dialect_put_string(out, text);
}

static const struct engine_info *info_of(const struct api *a)
{
    return engine_info(a->opt.engine);
}

/* Writes a number of parameters in Ollama's format: 1.2B, 135M. */
static void put_size(size_t n_params, struct buf *out)
{
    double n = (double)n_params, unit = n >= 1e9 ? 1e9 : n >= 1e6 ? 1e6 : 1e3;

    buf_fmt(out, "\"%.*f%c\"", n / unit < 10 ? 1 : 0, n / unit, unit == 1e9 ? 'B' : unit == 1e6 ? 'M' : 'K');
}

static void put_details(const struct api *a, struct buf *out)
{
    const struct engine_info *m = info_of(a);
    const char *family = m->model->model_type;

    buf_json_key(out, "details");
    buf_json_begin(out, '{');
    put_member("parent_model", "", out);
    put_member("format", m->is_gguf ? "gguf" : "safetensors", out);
    put_member("family", family, out);
    buf_json_key(out, "families");
    buf_json_begin(out, '[');
    dialect_put_string(out, family);
    buf_json_end(out, ']');
    buf_json_key(out, "parameter_size");
    put_size(m->model->n_params, out);
    put_member("quantization_level",
               strcmp(a->now.stats.quant, "none") == 0 ? a->now.stats.dtype : a->now.stats.quant, out);
    buf_json_end(out, '}');
}

/* Writes a hash of the name as the digest. Clients show its first digits and distinguish models by it. */
static void put_digest(const char *name, struct buf *out)
{
    uint8_t hash[DIGEST_BYTES];
    char hex[DIGEST_HEX];

    buf_json_key(out, "digest");
    if (digest_sha256(name, strlen(name), hash, NULL) != 0) {
        out->oom = true;
        return;
    }
    digest_hex(hash, sizeof(hash), hex);
    buf_json_str(out, hex, sizeof(hex) - 1);
}

/* Begins an object and writes the members that all lists of models share; the caller ends the object. */
static void put_listed(const struct api *a, const char *name, struct buf *out)
{
    buf_json_begin(out, '{');
    put_member("name", name, out);
    put_member("model", name, out);
    buf_fmt(out, ",\"size\":%zu", a->now.stats.weight_bytes);
    put_digest(name, out);
    put_details(a, out);
}

const struct schema models_ollama_tags_schema = {
    "OllamaTags",
    "{'type':'object','required':['models'],'properties':{'models':{'type':'array',"
    "'items':{'type':'object','required':['name','model','modified_at','size','details']}}}}",
    NULL};

void models_ollama_tags(const struct api *a, struct buf *out)
{
    buf_str(out, "{\"models\":");
    buf_json_begin(out, '[');
    for (size_t i = 0; i < a->opt.n_names; i++) {
        put_listed(a, a->opt.name[i], out);
        buf_json_key(out, "modified_at");
        dialect_put_time(a->created, out);
        buf_json_end(out, '}');
    }
    buf_json_end(out, ']');
    buf_str(out, "}");
}

const struct schema models_ollama_loaded_schema = {
    "OllamaRunning",
    "{'type':'object','required':['models'],'properties':{'models':{'type':'array',"
    "'items':{'type':'object','required':['name','model','size','digest','details',"
    "'expires_at','size_vram','context_length']}}}}",
    NULL};

/* Lists the model as loaded. Ollama reports an expiry in about 300 years for a model that stays loaded. */
void models_ollama_loaded(const struct api *a, struct buf *out)
{
    buf_str(out, "{\"models\":");
    buf_json_begin(out, '[');
    put_listed(a, a->opt.name[0], out);
    put_member("expires_at", "2318-01-01T00:00:00Z", out);
    buf_fmt(out, ",\"size_vram\":0,\"context_length\":%zu}", a->max_len);
    buf_json_end(out, ']');
    buf_str(out, "}");
}

/* Writes the model's dimensions under the names that Ollama reads from GGUF files. */
static void put_model_info(const struct api *a, struct buf *out)
{
    const struct engine_info *m = info_of(a);
    const struct {
        const char *name;
        size_t value;
    } numbers[] = {{"context_length", a->max_len},
                   {"embedding_length", embed_size(a->opt.embedder, m->model->hidden_size)},
                   {"block_count", m->model->n_layers},
                   {"feed_forward_length", m->model->intermediate_size},
                   {"attention.head_count", m->model->n_heads},
                   {"attention.head_count_kv", m->model->n_kv_heads},
                   {"vocab_size", m->model->vocab_size}};

    buf_json_key(out, "model_info");
    buf_json_begin(out, '{');
    put_member("general.architecture", m->model->model_type, out);
    put_member("general.basename", a->opt.name[0], out);
    buf_fmt(out, ",\"general.parameter_count\":%zu", m->model->n_params);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        buf_fmt(out, ",\"%s.%s\":%zu", m->model->model_type, numbers[i].name, numbers[i].value);
    buf_json_end(out, '}');
}

const struct schema models_ollama_show_schema = {
    "OllamaShow",
    "{'type':'object','required':['template','details','model_info','capabilities'],"
    "'properties':{'template':{'type':'string'},'details':{'type':'object'},"
    "'model_info':{'type':'object'},'capabilities':{'type':'array','items':{'type':'string'}}}}",
    NULL};

void models_ollama_show(const struct api *a, struct buf *out)
{
    const struct api_options *o = &a->opt;

    buf_json_begin(out, '{');
    put_member("modelfile", "", out);
    put_member("parameters", "", out);
    put_member("template", o->template_text ? o->template_text : "", out);
    put_details(a, out);
    put_model_info(a, out);
    buf_json_key(out, "capabilities");
    buf_json_begin(out, '[');
    buf_str(out, info_of(a)->model->no_generation ? "\"embedding\"" : "\"completion\"");
    buf_str(out, !info_of(a)->model->no_generation && o->chat && o->markup->calls &&
                         o->tools->place != TOOLS_NOWHERE
                     ? ",\"tools\""
                     : "");
    buf_str(out, !info_of(a)->model->no_generation && o->chat && o->markup->reasoning ? ",\"thinking\"" : "");
    buf_json_end(out, ']');
    buf_json_key(out, "modified_at");
    dialect_put_time(a->created, out);
    buf_json_end(out, '}');
}
