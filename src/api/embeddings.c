/* embeddings.c - OpenAI's Embeddings: the pooled hidden states of texts or ids, as numbers or as base64 of
 * little-endian floats. How they are pooled is the server's setting, as it belongs to the model. Ollama's are
 * the same in other words; the older of its two forms has one text, and its vector as it is.
 */
#include <math.h>
#include <openssl/evp.h>
#include <string.h>

#include "api/embeddings.h"
#include "api/ollama.h"
#include "api/request.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "engine/dense.h"

static int embeddings_read_request(struct request *c, struct err *e)
{
    (void)e;
    c->f.max_tokens = 0;
    return 0;
}

/* Scales V [n] to length 1; zeros stay. */
static void normalize(float *v, size_t n)
{
    double sum = 0, scale;

    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] * scale);
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

/* The embedding of P becomes what the model's Dense modules make of it. */
static bool pass_dense(const struct dense *d, struct request_prompt *p)
{
    float *v;

    if (!d || d->n == 0 || !p->embedding)
        return true;
    if (!(v = dense_apply(d, p->embedding, p->n_embedding)))
        return false;
    mem_free(p->embedding);
    p->embedding = v;
    p->n_embedding = dense_features(d, p->n_embedding);
    return true;
}

static void put_vector(const struct request *c, struct request_prompt *p, struct buf *out)
{
    if (!pass_dense(c->api->opt.dense, p)) {
        out->oom = true;
        return;
    }
    if (c->f.normalize)
        normalize(p->embedding, p->n_embedding);
    if (c->f.base64) {
        put_base64(p->embedding, p->n_embedding, out);
        return;
    }
    buf_json_begin(out, '[');
    for (size_t i = 0; i < p->n_embedding; i++)
        buf_json_float(out, p->embedding[i]);
    buf_json_end(out, ']');
}

static void put_whole(struct request *c, struct buf *out)
{
    const char *model = c->f.model ? c->f.model : c->api->opt.name[0];
    size_t cached = 0;

    buf_str(out, "{\"id\":");
    buf_json_str(out, c->id, strlen(c->id));
    buf_fmt(out, ",\"object\":\"list\",\"created\":%lld,\"model\":", (long long)c->created);
    buf_json_str(out, model, strlen(model));
    buf_str(out, ",\"data\":[");
    for (size_t i = 0; i < c->n_prompts; i++) {
        buf_fmt(out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i ? "," : "", i);
        put_vector(c, &c->prompt[i], out);
        buf_str(out, "}");
        cached += c->prompt[i].n_cached;
    }
    buf_fmt(out,
            "],\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":0,\"total_tokens\":%zu,"
            "\"prompt_tokens_details\":{\"cached_tokens\":%zu}}}",
            c->n_prompt_tokens, c->n_prompt_tokens, cached);
}

const struct dialect embeddings_form = {.prefix = "embd-",
                                        .read = embeddings_read_request,
                                        .whole = put_whole,
                                        .error = dialect_error,
                                        .error_schema = "Error"};

/* ---- Ollama's ---- */

static int read_ollama(struct request *c, struct err *e)
{
    (void)e;
    c->f.max_tokens = 0;
    c->f.normalize = c->endpoint == FIELDS_EMBED;
    c->f.truncate_prompt_tokens = c->f.truncate ? -1 : 0;
    c->f.truncation_side = "right";
    return 0;
}

static void put_ollama(struct request *c, struct buf *out)
{
    const char *model = c->f.model ? c->f.model : c->api->opt.name[0];

    buf_str(out, "{\"model\":");
    buf_json_str(out, model, strlen(model));
    buf_str(out, ",\"embeddings\":[");
    for (size_t i = 0; i < c->n_prompts; i++) {
        buf_str(out, i ? "," : "");
        put_vector(c, &c->prompt[i], out);
    }
    buf_fmt(out, "],\"total_duration\":%.0f,\"load_duration\":0,\"prompt_eval_count\":%zu}",
            (clock_seconds() - c->arrival_s) * 1e9, c->n_prompt_tokens);
}

static void put_ollama_one(struct request *c, struct buf *out)
{
    buf_str(out, "{\"embedding\":");
    put_vector(c, c->prompt, out);
    buf_char(out, '}');
}

const struct dialect embeddings_ollama_form = {.prefix = "ollama-",
                                               .read = read_ollama,
                                               .whole = put_ollama,
                                               .error = ollama_error,
                                               .error_schema = "OllamaError"};
const struct dialect embeddings_ollama_one_form = {.prefix = "ollama-",
                                                   .read = read_ollama,
                                                   .whole = put_ollama_one,
                                                   .error = ollama_error,
                                                   .error_schema = "OllamaError"};
