/* ollama.c - Ollama's API where it can be mapped: /api/generate and /api/chat, made into a chat or a plain
 * prompt, with answers of one JSON object a line; /api/tags, /api/ps and /api/show say what is served.
 * Embeddings are in embeddings.c.
 *
 * Streams are the default. Times are in nanoseconds. Calls of tools come whole, in the last line. Form:
 * https://github.com/ollama/ollama/blob/main/docs/api.md.
 */
#include <string.h>
#include <time.h>

#include "api/ollama.h"
#include "api/request.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/json_pull.h"
#include "base/json_tree.h"
#include "engine/dense.h"
#include "engine/engine.h"

/* ---- requests ---- */

/* Messages of the prompt, or of the request with names of tools as a chat has them. */
static int make_messages(struct request *c, json_t *list, struct err *e)
{
    struct fields *f = &c->f;
    int bad = 0;

    if (!f->messages) {
        if (f->system)
            bad |=
                json_array_append_new(list, json_pack("{s:s,s:O}", "role", "system", "content", f->system));
        bad |= json_array_append_new(list, json_pack("{s:s,s:O}", "role", "user", "content", f->prompt));
    }
    for (size_t i = 0; i < json_array_size(f->messages); i++) {
        json_t *m = json_copy(json_array_get(f->messages, i)), *name = json_object_get(m, "tool_name");

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

bool ollama_loads(const struct request *c)
{
    return c->endpoint == FIELDS_GENERATE      ? !json_string_length(c->f.prompt)
           : c->endpoint == FIELDS_OLLAMA_CHAT ? !json_array_size(c->f.messages)
                                               : false;
}

static int ollama_read_request(struct request *c, struct err *e)
{
    struct fields *f = &c->f;
    json_t *list;
    int rc;

    f->max_tokens = f->num_predict > 0 ? f->num_predict : -1;
    if (c->endpoint == FIELDS_GENERATE && f->raw)
        return 0;
    list = json_array();
    f->own = json_pack("[o]", list);
    if (!f->own)
        return err_nomem(e, "messages");
    fields_blame(f, "messages", 0);
    rc = make_messages(c, list, e);
    f->messages = list;
    f->prompt = NULL; /* as a chat from now on */
    return rc;
}

/* ---- answers ---- */

void ollama_error(struct buf *out, int status, const char *message, const char *param)
{
    (void)status;
    buf_str(out, "{\"error\":");
    buf_json_str(out, message, strlen(message));
    buf_json_key(out, "param");
    dialect_put_string(out, param);
    buf_str(out, "}");
}

/* [{"function": {"name", "arguments": {}}}] of the calls that were gathered. */
static void put_calls(struct request_choice *h, struct buf *out)
{
    json_t *calls = dialect_calls(h, out), *call, *list = json_array();
    size_t i;

    json_array_foreach(calls, i, call)
    {
        json_t *function = json_object_get(call, "function"), *last;
        const char *name = json_string_value(json_object_get(function, "name")),
                   *more = json_string_value(json_object_get(function, "arguments"));

        if (name) {
            json_array_append_new(list,
                                  json_pack("{s:{s:s,s:s}}", "function", "name", name, "arguments", more));
            continue;
        }
        last = json_object_get(json_array_get(list, json_array_size(list) - 1), "function");
        json_object_set_new(
            last, "arguments",
            json_sprintf("%s%s", json_string_value(json_object_get(last, "arguments")), more));
    }
    json_array_foreach(list, i, call)
    {
        json_t *function = json_object_get(call, "function"),
               *text_of = json_object_get(function, "arguments"), *object;

        out->oom |= json_pull_load_exact(&object, json_string_value(text_of), json_string_length(text_of), "",
                                         NULL) == ERR_NOMEM;
        if (!json_is_object(
                object)) { /* cut by a limit, or no JSON: clients expect an object, so it has a name */
            json_decref(object);
            object = json_pack("{s:O}", "arguments", text_of);
        }
        out->oom |= !object || json_object_set_new(function, "arguments", object) != 0;
    }
    buf_str(out, ",\"tool_calls\":");
    buf_json_tree(out, list, false);
    json_decref(list);
    json_decref(calls);
}

static void put_string(const char *key, const struct buf *text, struct buf *out)
{
    buf_fmt(out, ",\"%s\":", key);
    buf_json_str(out, text->data ? text->data : "", text->len);
}

/* What of a choice is not sent yet; calls only at its end. */
static void put_news(const struct request *c, struct request_choice *h, struct buf *out)
{
    if (c->endpoint == FIELDS_GENERATE) {
        put_string("response", &h->text, out);
        if (h->reasoning.len)
            put_string("thinking", &h->reasoning, out);
        return;
    }
    buf_str(out, ",\"message\":{\"role\":\"assistant\"");
    put_string("content", &h->text, out);
    if (h->reasoning.len)
        put_string("thinking", &h->reasoning, out);
    if (h->ended && h->calls.len)
        put_calls(h, out);
    buf_char(out, '}');
}

static void put_end_of(const struct request *c, const struct request_choice *h, struct buf *out)
{
    buf_fmt(
        out,
        ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%.0f,\"load_duration\":0,\"prompt_eval_count\":%zu,"
        "\"prompt_eval_duration\":%.0f,\"eval_count\":%zu,\"eval_duration\":%.0f}",
        h->finish == GALLOP_FINISH_STOP     ? "stop"
        : h->finish == GALLOP_FINISH_LENGTH ? "length"
                                            : "abort",
        (clock_seconds() - c->arrival_s) * 1e9, c->n_prompt_tokens, h->prefill_s * 1e9, h->n_output,
        h->decode_s * 1e9);
}

static void begin_line(const struct request *c, struct buf *out)
{
    const char *model = c->f.model ? c->f.model : c->api->opt.name[0];

    buf_str(out, "{\"model\":");
    buf_json_str(out, model, strlen(model));
    buf_str(out, ",\"created_at\":");
    dialect_put_time(c->created, out);
}

void ollama_loaded(const struct request *c, struct buf *out)
{
    begin_line(c, out);
    buf_str(out, c->endpoint == FIELDS_GENERATE ? ",\"response\":\"\""
                                                : ",\"message\":{\"role\":\"assistant\",\"content\":\"\"}");
    buf_str(out, ",\"done\":true,\"done_reason\":\"load\",\"total_duration\":0,\"load_duration\":0,"
                 "\"prompt_eval_count\":0,\"eval_count\":0}");
}

static void put_line(struct request *c, struct buf *out)
{
    struct request_choice *h = c->choice;

    begin_line(c, out);
    put_news(c, h, out);
    if (h->ended)
        put_end_of(c, h, out);
    else
        buf_str(out, ",\"done\":false}");
}

static void ollama_put_part(struct request *c, size_t i, struct buf *out)
{
    struct request_choice *h = &c->choice[i];

    if (!h->ended && !h->text.len && !h->reasoning.len) {
        h->n_new = 0; /* calls are gathered */
        return;
    }
    if (h->text.len || h->reasoning.len ||
        (h->ended && h->calls.len)) { /* the line that says done is empty */
        begin_line(c, out);
        put_news(c, h, out);
        buf_str(out, ",\"done\":false}\n");
    }
    h->n_new = 0;
    buf_clear(&h->text);
    buf_clear(&h->reasoning);
    if (!h->ended)
        return;
    buf_clear(&h->calls);
    put_line(c, out);
    buf_char(out, '\n');
    dialect_sent(h);
}

static void put_end(struct request *c, int status, const char *sentence, struct buf *out)
{
    (void)c;
    if (!status)
        return;
    ollama_error(out, status, sentence, NULL);
    buf_char(out, '\n');
}

const struct dialect ollama_form = {.prefix = "ollama-",
                                    .type = "application/x-ndjson",
                                    .read = ollama_read_request,
                                    .whole = put_line,
                                    .part = ollama_put_part,
                                    .end = put_end,
                                    .error = ollama_error,
                                    .error_schema = "OllamaError"};

const struct dialect ollama_show_form = {
    .prefix = "ollama-", .error = ollama_error, .error_schema = "OllamaError"};

/* ---- what is served ---- */

static void put_member(const char *key, const char *text, struct buf *out)
{
    buf_json_key(out, key);
    buf_json_str(out, text, strlen(text));
}

static const struct engine_info *info_of(const struct api *a)
{
    return engine_info(a->opt.engine);
}

/* 1.2B, 135M. */
static void put_size(size_t n_params, struct buf *out)
{
    double n = (double)n_params, unit = n >= 1e9 ? 1e9 : n >= 1e6 ? 1e6 : 1e3;

    buf_fmt(out, "\"%.*f%c\"", n / unit < 10 ? 1 : 0, n / unit, unit == 1e9 ? 'B' : unit == 1e6 ? 'M' : 'K');
}

static void put_details(const struct api *a, struct buf *out)
{
    const struct engine_info *m = info_of(a);
    const char *family = m->model_type;

    buf_json_key(out, "details");
    buf_json_begin(out, '{');
    put_member("parent_model", "", out);
    put_member("format", m->is_gguf ? "gguf" : "safetensors", out);
    put_member("family", family, out);
    buf_json_key(out, "families");
    buf_json_begin(out, '[');
    buf_json_str(out, family, strlen(family));
    buf_json_end(out, ']');
    buf_json_key(out, "parameter_size");
    put_size(m->n_params, out);
    put_member("quantization_level",
               strcmp(a->now.stats.quant, "none") == 0 ? a->now.stats.dtype : a->now.stats.quant, out);
    buf_json_end(out, '}');
}

/* Clients show its first digits and tell models apart by it: a hash of the name. */
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

/* The members that lists of models have in common, in an object that is left open. */
static void put_listed(const struct api *a, const char *name, struct buf *out)
{
    buf_json_begin(out, '{');
    put_member("name", name, out);
    put_member("model", name, out);
    buf_fmt(out, ",\"size\":%zu", a->now.stats.weight_bytes);
    put_digest(name, out);
    put_details(a, out);
}

void ollama_tags(const struct api *a, struct buf *out)
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

/* The model stays: what Ollama says of one that does lies about three centuries ahead, too. */
void ollama_running(const struct api *a, struct buf *out)
{
    buf_str(out, "{\"models\":");
    buf_json_begin(out, '[');
    put_listed(a, a->opt.name[0], out);
    put_member("expires_at", "2318-01-01T00:00:00Z", out);
    buf_fmt(out, ",\"size_vram\":0,\"context_length\":%zu}", a->max_len);
    buf_json_end(out, ']');
    buf_str(out, "}");
}

/* Ollama's names for what GGUF files say of themselves. */
static void put_model_info(const struct api *a, struct buf *out)
{
    const struct engine_info *m = info_of(a);
    const struct {
        const char *name;
        size_t value;
    } numbers[] = {{"context_length", a->max_len},
                   {"embedding_length", dense_features(a->opt.dense, m->hidden)},
                   {"block_count", m->n_layers},
                   {"feed_forward_length", m->inner},
                   {"attention.head_count", m->n_heads},
                   {"attention.head_count_kv", m->n_kv},
                   {"vocab_size", m->vocab}};

    buf_json_key(out, "model_info");
    buf_json_begin(out, '{');
    put_member("general.architecture", m->model_type, out);
    put_member("general.basename", a->opt.name[0], out);
    buf_fmt(out, ",\"general.parameter_count\":%zu", m->n_params);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        buf_fmt(out, ",\"%s.%s\":%zu", m->model_type, numbers[i].name, numbers[i].value);
    buf_json_end(out, '}');
}

void ollama_show(const struct api *a, struct buf *out)
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
    buf_str(out, info_of(a)->headless ? "\"embedding\"" : "\"completion\"");
    buf_str(out, !info_of(a)->headless && o->chat && o->markup.calls && o->tools.place != TOOLS_NOWHERE
                     ? ",\"tools\""
                     : "");
    buf_str(out, !info_of(a)->headless && o->chat && o->markup.reasoning ? ",\"thinking\"" : "");
    buf_json_end(out, ']');
    buf_json_key(out, "modified_at");
    dialect_put_time(a->created, out);
    buf_json_end(out, '}');
}
