/* embeddings.c - OpenAI's Embeddings API: returns the pooled hidden states of texts or token ids, as JSON
 * numbers or as base64 of little-endian floats. Also Ollama's /api/embed and its older /api/embeddings.
 *
 * The pooling method is a setting of the server, because it depends on the model. /api/embeddings accepts one
 * text, and its vector is not normalized.
 */
#include <openssl/evp.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "chat/dialect/ollama.h"
#include "chat/dialect/openai.h"
#include "chat/schema.h"
#include "chat/service.h"
#include "engine/embeddings/embed.h"

static int embeddings_read_request(struct request *q, struct err *e)
{
    (void)e;
    q->field.generation.max_tokens = 0;
    return 0;
}

static void put_base64(const float *v, size_t n, struct buf *out)
{
    size_t bytes = n * sizeof(*v), need = (bytes + 2) / 3 * 4 + 1;

    buf_char(out, '"');
    if (bytes > INT32_MAX || !buf_reserve(out, out->len + need + 1)) {
        out->oom = true;
        return;
    }
    out->len +=
        (size_t)EVP_EncodeBlock((unsigned char *)out->data + out->len, (const unsigned char *)v, (int)bytes);
    buf_char(out, '"');
}

static void put_vector(const struct dialect_writer *w, size_t i, struct buf *out)
{
    const struct embedder *x = w->q->service->embedder;
    const struct answer_prompt *p = &w->a->prompt[i];
    size_t n = embed_size(x, p->n_embedding);
    float *v =
        p->embedding ? embed_vector(x, p->embedding, p->n_embedding, w->q->field.output.normalize) : NULL;

    if (!v) {
        out->oom = true;
        return;
    }
    if (w->q->field.output.base64) {
        put_base64(v, n, out);
    } else {
        buf_json_begin(out, '[');
        for (size_t k = 0; k < n; k++)
            buf_json_float(out, v[k]);
        buf_json_end(out, ']');
    }
    mem_free(v);
}

const struct schema embeddings_schema = {
    "Embeddings",
    "{'type':'object','required':['object','model','data','usage'],"
    "'properties':{'object':{'const':'list'},'model':{'type':'string'},"
    "'usage':{'$ref':'#/components/schemas/Usage'},'data':{'type':'array','items':{'type':'object',"
    "'required':['object','index','embedding'],'properties':{'object':{'const':'embedding'},"
    "'index':{'type':'integer'},'embedding':{'type':['array','string'],"
    "'items':{'type':'number'}}}}}}}",
    (const struct schema *const[]){&openai_usage_schema, NULL}};

static void embeddings_put_whole(const struct dialect_writer *w, struct buf *out)
{
    const struct request *q = w->q;

    buf_str(out, "{\"id\":");
    dialect_put_string(out, q->id);
    buf_fmt(out, ",\"object\":\"list\",\"created\":%lld,\"model\":", (long long)q->origin.created);
    dialect_put_string(out, request_model(q));
    buf_str(out, ",\"data\":[");
    for (size_t i = 0; i < q->n_prompts; i++) {
        buf_fmt(out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i ? "," : "", i);
        put_vector(w, i, out);
        buf_str(out, "}");
    }
    buf_fmt(out,
            "],\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":0,\"total_tokens\":%zu,"
            "\"prompt_tokens_details\":{\"cached_tokens\":%zu,\"truncated_tokens\":%zu}}}",
            q->n_prompt_tokens, q->n_prompt_tokens, answer_n_cached(w->a), q->n_cut_tokens);
}

const struct dialect embeddings_dialect = {.prefix = "embd-",
                                           .read = embeddings_read_request,
                                           .whole = embeddings_put_whole,
                                           .error = dialect_error,
                                           .error_schema = &dialect_error_schema};

/* ---- Ollama's embeddings ---- */

static int read_ollama(struct request *q, struct err *e)
{
    (void)e;
    q->field.generation.max_tokens = 0;
    q->field.output.normalize = q->endpoint == FIELDS_EMBED;
    q->field.input.truncate_prompt_tokens = q->field.input.truncate ? -1 : 0;
    q->field.input.truncation_side = "right";
    return 0;
}

const struct schema embeddings_ollama_schema = {
    "OllamaEmbed",
    "{'type':'object','required':['model','embeddings','prompt_eval_count'],"
    "'properties':{'model':{'type':'string'},'prompt_eval_count':{'type':'integer'},"
    "'embeddings':{'type':'array','items':{'type':'array','items':{'type':'number'}}}}}",
    NULL};

static void put_ollama(const struct dialect_writer *w, struct buf *out)
{
    buf_str(out, "{\"model\":");
    dialect_put_string(out, request_model(w->q));
    buf_str(out, ",\"embeddings\":[");
    for (size_t i = 0; i < w->q->n_prompts; i++) {
        buf_str(out, i ? "," : "");
        put_vector(w, i, out);
    }
    buf_fmt(out, "],\"total_duration\":%.0f,\"load_duration\":0,\"prompt_eval_count\":%zu}",
            (clock_seconds() - w->q->origin.arrival_s) * 1e9, w->q->n_prompt_tokens);
}

const struct schema embeddings_ollama_one_schema = {
    "OllamaEmbedding",
    "{'type':'object','required':['embedding'],'properties':{'embedding':{"
    "'type':'array','items':{'type':'number'}}}}",
    NULL};

static void put_ollama_one(const struct dialect_writer *w, struct buf *out)
{
    buf_str(out, "{\"embedding\":");
    put_vector(w, 0, out);
    buf_char(out, '}');
}

const struct dialect embeddings_ollama = {.prefix = "ollama-",
                                          .read = read_ollama,
                                          .whole = put_ollama,
                                          .error = ollama_error,
                                          .error_schema = &ollama_error_schema};
const struct dialect embeddings_ollama_one = {.prefix = "ollama-",
                                              .read = read_ollama,
                                              .whole = put_ollama_one,
                                              .error = ollama_error,
                                              .error_schema = &ollama_error_schema};
