/* ollama_models.c - writes lists and descriptions of the model in Ollama's format. */
#include "chat/dialect/ollama_models.h"

#include <string.h>

#include "base/buf.h"
#include "base/digest.h"
#include "chat/dialect/dialect.h"
#include "chat/schema.h"
#include "chat/service.h"
#include "engine/embeddings/embed.h"
#include "engine/engine.h"
#include "text/markup/markup.h"
#include "text/markup/template.h"

static void put_member(const char *key, const char *text, struct buf *out)
{
    buf_json_key(out, key);
    dialect_put_string(out, text);
}

static const struct engine_info *info_of(const struct service *s)
{
    return engine_info(s->engine);
}

/* Writes a number of parameters in Ollama's format: 1.2B, 135M. */
static void put_size(size_t n_params, struct buf *out)
{
    double n = (double)n_params, unit = n >= 1e9 ? 1e9 : n >= 1e6 ? 1e6 : 1e3;

    buf_fmt(out, "\"%.*f%c\"", n / unit < 10 ? 1 : 0, n / unit, unit == 1e9 ? 'B' : unit == 1e6 ? 'M' : 'K');
}

static void put_details(const struct service *s, struct buf *out)
{
    const struct engine_info *m = info_of(s);
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
    put_member("quantization_level", strcmp(m->model->quant, "none") == 0 ? m->model->dtype : m->model->quant,
               out);
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
static void put_listed(const struct service *s, const char *name, struct buf *out)
{
    buf_json_begin(out, '{');
    put_member("name", name, out);
    put_member("model", name, out);
    buf_fmt(out, ",\"size\":%zu", info_of(s)->model->weight_bytes);
    put_digest(name, out);
    put_details(s, out);
}

void ollama_put_tags(const struct service *s, struct buf *out)
{
    buf_str(out, "{\"models\":");
    buf_json_begin(out, '[');
    for (size_t i = 0; i < s->n_names; i++) {
        put_listed(s, s->name[i], out);
        buf_json_key(out, "modified_at");
        dialect_put_time(s->created, out);
        buf_json_end(out, '}');
    }
    buf_json_end(out, ']');
    buf_str(out, "}");
}

/* Lists the model as loaded. Ollama reports an expiry in about 300 years for a model that stays loaded. */
void ollama_put_running(const struct service *s, struct buf *out)
{
    buf_str(out, "{\"models\":");
    buf_json_begin(out, '[');
    put_listed(s, s->name[0], out);
    put_member("expires_at", "2318-01-01T00:00:00Z", out);
    buf_fmt(out, ",\"size_vram\":0,\"context_length\":%zu}", info_of(s)->model->max_model_len);
    buf_json_end(out, ']');
    buf_str(out, "}");
}

/* Writes the model's dimensions under the names that Ollama reads from GGUF files. */
static void put_model_info(const struct service *s, struct buf *out)
{
    const struct engine_info *m = info_of(s);
    const struct {
        const char *name;
        size_t value;
    } numbers[] = {{"context_length", info_of(s)->model->max_model_len},
                   {"embedding_length", embed_size(s->embedder, m->model->hidden_size)},
                   {"block_count", m->model->n_layers},
                   {"feed_forward_length", m->model->intermediate_size},
                   {"attention.head_count", m->model->n_heads},
                   {"attention.head_count_kv", m->model->n_kv_heads},
                   {"vocab_size", m->model->vocab_size}};

    buf_json_key(out, "model_info");
    buf_json_begin(out, '{');
    put_member("general.architecture", m->model->model_type, out);
    put_member("general.basename", s->name[0], out);
    buf_fmt(out, ",\"general.parameter_count\":%zu", m->model->n_params);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        buf_fmt(out, ",\"%s.%s\":%zu", m->model->model_type, numbers[i].name, numbers[i].value);
    buf_json_end(out, '}');
}

const struct schema ollama_model_schema = {
    "OllamaShow",
    "{'type':'object','required':['template','details','model_info','capabilities'],"
    "'properties':{'template':{'type':'string'},'details':{'type':'object'},"
    "'model_info':{'type':'object'},'capabilities':{'type':'array','items':{'type':'string'}}}}",
    NULL};

void ollama_put_model(const struct service *s, struct buf *out)
{
    buf_json_begin(out, '{');
    put_member("modelfile", "", out);
    put_member("parameters", "", out);
    put_member("template", s->template->source ? s->template->source : "", out);
    put_details(s, out);
    put_model_info(s, out);
    buf_json_key(out, "capabilities");
    buf_json_begin(out, '[');
    buf_str(out, info_of(s)->model->no_generation ? "\"embedding\"" : "\"completion\"");
    buf_str(out, !info_of(s)->model->no_generation && s->template->chat && s->markup->calls &&
                         s->template->tools.place != TOOLS_NOWHERE
                     ? ",\"tools\""
                     : "");
    buf_str(out, !info_of(s)->model->no_generation && s->template->chat && s->markup->reasoning
                     ? ",\"thinking\""
                     : "");
    buf_json_end(out, ']');
    buf_json_key(out, "modified_at");
    dialect_put_time(s->created, out);
    buf_json_end(out, '}');
}
