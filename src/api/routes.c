/* routes.c - which path does what, who may ask, and how an error looks. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/answer.h"
#include "api/anthropic.h"
#include "api/embeddings.h"
#include "api/ollama.h"
#include "api/openapi.h"
#include "api/request.h"
#include "api/responses.h"
#include "api/routes.h"
#include "api/status.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/utf8.h"

enum { MOST_ABORT_BYTES = 256 << 10 }; /* which are read on the server's thread */

size_t routes_refusal(void *ctx, int status, const char *why, char *out, size_t size)
{
    struct api *a = ctx;
    struct buf text = {.tag = MEM_API};
    size_t n;

    metrics_count_http(&a->metrics, "none", "none", status);
    if (!a->opt.quiet)
        log_fields(LOG_INFO, (const struct log_field[]){{"status", NULL, status, 0}, {"reason", why, 0, 0}},
                   2, "no request: %d: %s", status, why);
    a->metrics.n_refused += status == 503;
    dialect_error(&text, status, why, NULL);
    n = text.len < size ? text.len : 0;
    if (n)
        memcpy(out, text.data, n);
    buf_fini(&text);
    return n;
}

/* One of the methods that are spoken here, for the labels of metrics. */
static const char *method_of(const struct server_exchange *x)
{
    const char *method = server_head(x)->method;

    return strcmp(method, "GET") == 0 ? "GET" : strcmp(method, "POST") == 0 ? "POST" : "other";
}

/* What becomes no call has a line only where it is refused: probes and scrapes come every few seconds. */
static void log_refusal(struct server_exchange *x, int status, const char *sentence)
{
    const struct http_head *h = server_head(x);
    const char *id = http_head_get(h, "x-request-id");
    char trace[REQUEST_TRACE], reason[DIALECT_REASON];

    request_trace(x, trace);
    dialect_reason(sentence, reason, sizeof(reason));
    id = id && request_is_id(id) ? id : "";
    log_fields(LOG_INFO,
               (const struct log_field[]){{"client", server_peer(x), 0, 0},
                                          {"method", h->method, 0, 0},
                                          {"path", h->path, 0, 0},
                                          {"status", NULL, status, 0},
                                          {"request_id", id, 0, 0},
                                          {"traceparent", trace, 0, 0},
                                          {"reason", reason, 0, 0}},
               7, "%s \"%.32s %.1000s\" %d, %s%s%s: %s", server_peer(x), h->method, h->path, status,
               id[0] ? id : "-", trace[0] ? ", " : "", trace, reason);
}

void routes_reply(struct api *a, struct server_exchange *x, const char *route, int status,
                  const char *headers, const char *type, const void *body, size_t n)
{
    metrics_count_http(&a->metrics, route, method_of(x), status);
    server_reply(x, status, headers, type, body, n);
}

/* The error that TEXT holds in the form of the client's API. SENTENCE: the same for the log. */
static void reply_error(struct api *a, struct server_exchange *x, const char *route, int status,
                        const char *headers, const char *sentence, const struct buf *text)
{
    if (!a->opt.quiet)
        log_refusal(x, status, sentence);
    routes_reply(a, x, route, status, headers, "application/json", text->data ? text->data : "", text->len);
}

static const struct dialect *form_of(const struct server_exchange *x);

void routes_refuse(struct api *a, struct server_exchange *x, const char *route, int status,
                   const char *message, const char *param)
{
    struct buf body = {.tag = MEM_API};
    char headers[80] = "";

    if (status == 429 || status == 503) {
        snprintf(headers, sizeof(headers), "Retry-After: %.0f\r\n", status_retry_s(a));
        a->metrics.n_refused++;
    } else if (status == 401) {
        snprintf(headers, sizeof(headers), "WWW-Authenticate: Bearer\r\n");
    }
    form_of(x)->error(&body, status, message, param);
    reply_error(a, x, route, status, headers, message, &body);
    buf_fini(&body);
}

void routes_limit(struct api *a, struct server_exchange *x, const char *route, const char *key, double wait_s)
{
    static const char why[] = "the limit of this API key is reached; come back later";
    char headers[STATUS_LIMITS + 40];
    struct buf body = {.tag = MEM_API};
    size_t n;

    status_limits(a, key, headers);
    n = strlen(headers);
    snprintf(headers + n, sizeof(headers) - n, "Retry-After: %.0f\r\n", ceil(wait_s));
    a->metrics.n_limited++;
    form_of(x)->error(&body, 429, why, NULL);
    reply_error(a, x, route, 429, headers, why, &body);
    buf_fini(&body);
}

/* ---- small answers ---- */

static void reply_json(struct api *a, struct server_exchange *x, const struct route *r,
                       const struct buf *body)
{
    if (body->oom)
        routes_refuse(a, x, r->path, 503, "out of memory", NULL);
    else
        routes_reply(a, x, r->path, 200, "", "application/json", body->data, body->len);
}

/* An answer that PUT writes. */
static void reply_put(struct api *a, struct server_exchange *x, const struct route *r,
                      void (*put)(const struct api *a, struct buf *out))
{
    struct buf body = {.tag = MEM_API};

    put(a, &body);
    reply_json(a, x, r, &body);
    buf_fini(&body);
}

/* The answer to a probe: 200, or 503 and WHY. It counts as no request that was refused because of load. */
static void reply_probe(struct api *a, struct server_exchange *x, const struct route *r, const char *why)
{
    struct buf body = {.tag = MEM_API};

    if (why) {
        dialect_error(&body, 503, why, NULL);
        reply_error(a, x, r->path, 503, "", why, &body);
    } else {
        routes_reply(a, x, r->path, 200, "", "application/json", "", 0);
    }
    buf_fini(&body);
}

static const char stalled[] = "the engine has been in one step for longer than --step-timeout";

static void health(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_probe(a, x, r, api_stalled(a) ? stalled : NULL);
}

static void ready(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_probe(a, x, r, a->draining ? "the server is shutting down" : api_stalled(a) ? stalled : NULL);
}

static void put_version(const struct api *a, struct buf *out)
{
    (void)a;
    buf_fmt(out, "{\"version\":\"%s\"}", gallop_version());
}

static void version(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_put(a, x, r, put_version);
}

/* The version of Ollama whose paths are served here: its clients refuse to work with one that they take for
 * too old (Codex wants 0.13.4, Visual Studio Code 0.6.4). */
static void put_ollama_version(const struct api *a, struct buf *out)
{
    (void)a;
    buf_fmt(out, "{\"version\":\"0.13.5\",\"gallop\":\"%s\"}", gallop_version());
}

static void ollama_version(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_put(a, x, r, put_ollama_version);
}

static void put_load(const struct api *a, struct buf *out)
{
    buf_fmt(out, "{\"server_load\":%zu}", a->n_calls);
}

static void load(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_put(a, x, r, put_load);
}

static void put_models(const struct api *a, struct buf *out)
{
    status_models(a, NULL, out);
}

static void models(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_put(a, x, r, put_models);
}

/* What follows PREFIX in the path, with %XX as bytes. */
static void rest_of_path(const struct server_exchange *x, const char *prefix, char *out, size_t size)
{
    const char *p = server_head(x)->path + strlen(prefix) - 1; /* prefixes end in a star */
    size_t n = 0;

    for (; *p && n + 1 < size; p++)
        if (*p == '%' && utf8_hex_digit(p[1]) >= 0 && utf8_hex_digit(p[2]) >= 0) {
            out[n++] = (char)(utf8_hex_digit(p[1]) << 4 | utf8_hex_digit(p[2]));
            p += 2;
        } else {
            out[n++] = *p;
        }
    out[n] = 0;
}

static void model(struct api *a, struct server_exchange *x, const struct route *r)
{
    struct buf body = {.tag = MEM_API};
    char name[512];

    rest_of_path(x, r->path, name, sizeof(name));
    for (size_t i = 0; i < a->opt.n_names && !body.len; i++)
        if (strcmp(a->opt.name[i], name) == 0)
            status_models(a, name, &body);
    if (body.len || body.oom)
        reply_json(a, x, r, &body);
    else
        routes_refuse(a, x, r->path, 404, "The model does not exist; /v1/models lists what is served.",
                      "model");
    buf_fini(&body);
}

static void metrics(struct api *a, struct server_exchange *x, const struct route *r)
{
    struct buf body = {.tag = MEM_API};
    struct metrics_now now;

    status_gauges(a, &now);
    metrics_write(&a->metrics, &now, &body);
    if (body.oom)
        routes_refuse(a, x, r->path, 503, "out of memory", NULL);
    else
        routes_reply(a, x, r->path, 200, "", "text/plain; version=0.0.4; charset=utf-8", body.data, body.len);
    buf_fini(&body);
}

static void openapi(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_put(a, x, r, openapi_write);
}

static void tags(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_put(a, x, r, ollama_tags);
}

static void running(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_put(a, x, r, ollama_running);
}

static void put_tokenizer(const struct api *a, struct buf *out)
{
    buf_str(out, a->opt.tokenizer_info);
}

static void tokenizer(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_put(a, x, r, put_tokenizer);
}

static void pace_health(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_put(a, x, r, status_pace_health);
}

static void pace_queue(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_put(a, x, r, status_pace_queue);
}

static void pace_metrics(struct api *a, struct server_exchange *x, const struct route *r)
{
    reply_put(a, x, r, status_pace_metrics);
}

void routes_key(const struct api *a, const struct server_exchange *x, char key[KEYS_NAME])
{
    key[0] = 0;
    if (keys_needed(a->opt.keys))
        keys_allow(a->opt.keys, http_head_get(server_head(x), "authorization"),
                   http_head_get(server_head(x), "x-api-key"), key);
}

static bool shows(const struct keys *k, const struct http_head *h)
{
    char key[KEYS_NAME];

    return keys_allow(k, http_head_get(h, "authorization"), http_head_get(h, "x-api-key"), key);
}

/* H comes from who has the admin key. */
static bool is_admin(const struct api *a, const struct http_head *h)
{
    return keys_needed(a->opt.admin) && shows(a->opt.admin, h);
}

/* Whose requests X may reach by their ids: NULL: everybody's, else those of its key, to KEY. */
static const char *whose(const struct api *a, const struct server_exchange *x, char key[KEYS_NAME])
{
    if (is_admin(a, server_head(x)))
        return NULL;
    routes_key(a, x, key);
    return key;
}

static void pace_status(struct api *a, struct server_exchange *x, const struct route *r)
{
    struct buf body = {.tag = MEM_API};
    char id[512], key[KEYS_NAME];

    rest_of_path(x, r->path, id, sizeof(id));
    if (status_request(a, id, whose(a, x, key), &body))
        reply_json(a, x, r, &body);
    else
        routes_refuse(a, x, r->path, 404, "no request of that id is being computed", NULL);
    buf_fini(&body);
}

static void ignore_unknown(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
}

/* Ends the requests of ID that have KEY (NULL: any); returns how many. */
static size_t abort_id(struct api *a, const char *id, const char *key)
{
    size_t n = 0;

    for (const struct request *c = NULL; (c = status_find(a, id, key, c)) != NULL; n++)
        request_abort((struct request *)(uintptr_t)c);
    return n;
}

static void abort_requests(struct api *a, struct server_exchange *x, const struct route *r)
{
    const char *text, *owner;
    char key[KEYS_NAME], body[64];
    struct err e = {0};
    struct fields f;
    size_t n, aborted = 0;

    text = server_body(x, &n);
    if (n > MOST_ABORT_BYTES) {
        routes_refuse(a, x, r->path, 413, "the body is larger than 256 KiB", NULL);
        return;
    }
    if (fields_read(&f, FIELDS_ABORT, text, n, ignore_unknown, NULL, &e) != 0 || !f.request_ids) {
        routes_refuse(a, x, r->path, e.code == ERR_NOMEM ? 503 : 400, e.code ? e.msg : "request_ids: missing",
                      !e.code      ? "request_ids"
                      : f.param[0] ? f.param
                                   : NULL);
    } else {
        owner = whose(a, x, key);
        if (json_is_string(f.request_ids))
            aborted = abort_id(a, json_string_value(f.request_ids), owner);
        for (size_t i = 0; i < json_array_size(f.request_ids); i++)
            aborted += abort_id(a, json_string_value(json_array_get(f.request_ids, i)), owner);
        n = (size_t)snprintf(body, sizeof(body), "{\"aborted\":%zu}", aborted);
        routes_reply(a, x, r->path, 200, "", "application/json", body, n);
    }
    fields_fini(&f);
}

/* ---- the table ---- */

static const struct route routes[] = {
    {"POST", "/v1/completions", ROUTE_KEY, FIELDS_COMPLETIONS, NULL, &answer_completions_form, "Completion",
     "Continues texts."},
    {"POST", "/v1/chat/completions", ROUTE_KEY, FIELDS_CHAT, NULL, &answer_chat_form, "ChatCompletion",
     "The next turn of a conversation."},
    {"POST", "/v1/responses", ROUTE_KEY, FIELDS_RESPONSES, NULL, &responses_form, "Response",
     "OpenAI's Responses: the next turn of a conversation; nothing is kept."},
    {"POST", "/v1/embeddings", ROUTE_KEY, FIELDS_EMBEDDINGS, NULL, &embeddings_form, "Embeddings",
     "Vectors of texts: hidden states behind the last norm, pooled as --pooling says."},
    {"POST", "/v1/messages", ROUTE_KEY, FIELDS_MESSAGES, NULL, &anthropic_form, "Message",
     "Anthropic's Messages: the next turn of a conversation."},
    {"POST", "/v1/messages/count_tokens", ROUTE_KEY, FIELDS_COUNT, NULL, &anthropic_form, "Count",
     "The tokens that such a conversation has."},
    {"GET", "/v1/models", ROUTE_KEY, 0, models, NULL, "Models", "The names of the model."},
    {"GET", "/v1/models/*", ROUTE_KEY, 0, model, NULL, "Model", "One of them."},
    {"POST", "/tokenize", ROUTE_KEY, FIELDS_TOKENIZE, NULL, NULL, "Tokens",
     "The ids of a text or conversation."},
    {"POST", "/detokenize", ROUTE_KEY, FIELDS_DETOKENIZE, NULL, NULL, "Text", "The text of ids."},
    {"GET", "/tokenizer_info", ROUTE_KEY, 0, tokenizer, NULL, "TokenizerInfo",
     "vLLM's, only with --enable-tokenizer-info-endpoint: tokenizer_config.json with the chat template."},
    {"POST", "/abort_requests", ROUTE_KEY, FIELDS_ABORT, abort_requests, NULL, "Aborted",
     "Ends the computing of requests of the same key; their answers end with `finish_reason` \"abort\". At "
     "most 256 KiB."},
    {"POST", "/api/generate", ROUTE_KEY, FIELDS_GENERATE, NULL, &ollama_form, "OllamaAnswer",
     "Ollama's: the answer to a prompt, a JSON object a line unless `stream` is false."},
    {"POST", "/api/chat", ROUTE_KEY, FIELDS_OLLAMA_CHAT, NULL, &ollama_form, "OllamaAnswer",
     "Ollama's: the next turn of a conversation."},
    {"GET", "/api/tags", ROUTE_KEY, 0, tags, &ollama_form, "OllamaTags", "Ollama's names of the model."},
    {"GET", "/api/ps", ROUTE_KEY, 0, running, &ollama_form, "OllamaRunning",
     "Ollama's: the model that is loaded."},
    {"POST", "/api/show", ROUTE_KEY, FIELDS_SHOW, NULL, &ollama_show_form, "OllamaShow",
     "Ollama's: what the model is; sizes, chat template, capabilities."},
    {"POST", "/api/embed", ROUTE_KEY, FIELDS_EMBED, NULL, &embeddings_ollama_form, "OllamaEmbed",
     "Ollama's: vectors of texts, of length 1."},
    {"POST", "/api/embeddings", ROUTE_KEY, FIELDS_EMBED_ONE, NULL, &embeddings_ollama_one_form,
     "OllamaEmbedding", "Ollama's older form: the vector of one text, as it is."},
    {"GET", "/api/version", ROUTE_OPEN, 0, ollama_version, &ollama_form, "Version",
     "The version of Ollama's API that clients may count on, and that of the program."},
    {"GET", "/health", ROUTE_OPEN, 0, health, NULL, ROUTE_EMPTY,
     "200 while the server runs, and 503 with the reason while a step takes longer than --step-timeout."},
    {"GET", "/ready", ROUTE_OPEN, 0, ready, NULL, ROUTE_EMPTY,
     "200, and 503 while it shuts down or is not healthy."},
    {"GET", "/version", ROUTE_OPEN, 0, version, NULL, "Version", "Of the program."},
    {"GET", "/load", ROUTE_ADMIN, 0, load, NULL, "Load", "Requests that are in the house."},
    {"GET", "/metrics", ROUTE_ADMIN, 0, metrics, NULL, ROUTE_TEXT, "Prometheus text with vLLM's names."},
    {"GET", "/openapi.json", ROUTE_KEY, 0, openapi, NULL, "OpenAPI",
     "This table and those below for machines (OpenAPI 3.1)."},
    {"GET", "/v1/health", ROUTE_ADMIN, 0, pace_health, NULL, "PaceHealth", "As AMD PACE's server has it."},
    {"GET", "/v1/queue/status", ROUTE_ADMIN, 0, pace_queue, NULL, "PaceQueue", "The same."},
    {"GET", "/v1/server_metrics", ROUTE_ADMIN, 0, pace_metrics, NULL, "PaceMetrics", "The same."},
    {"GET", "/v1/status/*", ROUTE_KEY, 0, pace_status, NULL, "PaceStatus",
     "The same: of a request by its id, while it is computed."},
};
enum { N_ROUTES = sizeof(routes) / sizeof(routes[0]) };

const struct route *routes_all(size_t *n)
{
    *n = N_ROUTES;
    return routes;
}

static bool is_path(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);

    return r->path[n - 1] == '*' ? strncmp(r->path, path, n - 1) == 0 && path[n - 1]
                                 : strcmp(r->path, path) == 0;
}

bool routes_offers(const struct api *a, const struct route *r)
{
    return r->answer != tokenizer || a->opt.tokenizer_info;
}

/* The route of X; *KNOWN: its path is there, perhaps for another method. */
static const struct route *routes_find(const struct api *a, const struct http_head *h, bool *known)
{
    *known = false;
    for (int i = 0; i < N_ROUTES; i++)
        if (is_path(&routes[i], h->path) && routes_offers(a, &routes[i])) {
            *known = true;
            if (strcmp(routes[i].method, h->method) == 0 ||
                (strcmp(h->method, "HEAD") == 0 && strcmp(routes[i].method, "GET") == 0))
                return &routes[i];
        }
    return NULL;
}

/* In which errors of X are written. */
static const struct dialect *form_of(const struct server_exchange *x)
{
    for (int i = 0; i < N_ROUTES; i++)
        if (routes[i].form && is_path(&routes[i], server_head(x)->path))
            return routes[i].form;
    return strncmp(server_head(x)->path, "/api/", 5) == 0 ? &ollama_form : &answer_completions_form;
}

/* PATH is one of Ollama's that keep models: a server of one model has nothing to say there. */
static bool is_keeping(const char *path)
{
    static const char *const all[] = {"/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i], path) == 0)
            return true;
    return strncmp(path, "/api/blobs/", 11) == 0;
}

/* The keys that open R, NULL for what is not there; none of them: everybody may ask. */
static const struct keys *keys_of(const struct api *a, const struct route *r)
{
    return r && r->access == ROUTE_ADMIN && keys_needed(a->opt.admin) ? a->opt.admin : a->opt.keys;
}

bool routes_needs_key(const struct api *a, const struct route *r)
{
    return r->access != ROUTE_OPEN && keys_needed(keys_of(a, r));
}

/* What is of a client's own, its requests by their ids, is also the administrator's. */
static bool is_shared(const struct route *r)
{
    return r && (r->answer == abort_requests || r->answer == pace_status);
}

static bool may_ask(const struct api *a, const struct route *r, const struct http_head *h)
{
    const struct keys *k = keys_of(a, r);

    return !keys_needed(k) || shows(k, h) || (is_shared(r) && is_admin(a, h));
}

/* H comes from a page of a browser, and that page is not from here. */
static bool is_foreign(const struct http_head *h)
{
    const char *origin = http_head_get(h, "origin"), *host = http_head_get(h, "host");
    const char *site = origin ? strstr(origin, "://") : NULL;

    return origin && !(site && host && strcasecmp(site + 3, host) == 0);
}

/* The body of H may be read as JSON. A page of a browser cannot send the type of JSON to another site without
 * asking it first, but can send any bytes with one of three other types or with none. Programs leave the type
 * out, too; below /v1 one that is wrong is refused, as vLLM does, elsewhere it says nothing (curl -d sends
 * that of a form). */
static bool takes_type(const struct route *r, const struct http_head *h)
{
    const char *type = http_head_get(h, "content-type");

    if (type && strncasecmp(type, "application/json", 16) == 0 && strchr("; \t", type[16]))
        return true;
    return !is_foreign(h) && (!type || strncmp(r->path, "/v1/", 4) != 0);
}

/* The path is there for other methods: which is said. */
static void refuse_method(struct api *a, struct server_exchange *x)
{
    static const char why[] = "this path does not take that method";
    struct buf body = {.tag = MEM_API};
    char headers[64] = "Allow: ";

    for (int i = 0; i < N_ROUTES; i++)
        if (is_path(&routes[i], server_head(x)->path)) {
            strcat(headers, headers[7] ? ", " : "");
            strcat(headers, strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD" : routes[i].method);
        }
    if (!headers[7]) /* a file of the page */
        strcat(headers, "GET, HEAD");
    strcat(headers, "\r\n");
    form_of(x)->error(&body, 405, why, NULL);
    reply_error(a, x, "none", 405, headers, why, &body);
    buf_fini(&body);
}

/* What H is refused with, whatever its body is; 0: nothing. *R: its route, NULL for 404 and 405. */
static int refusal_of(const struct api *a, const struct http_head *h, const struct route **r)
{
    bool known;

    *r = routes_find(a, h, &known);
    if (!known && a->opt.page_has && a->opt.page_has(h->path))
        return 405;
    if (!(*r && (*r)->access == ROUTE_OPEN) && !may_ask(a, *r, h))
        return 401;
    if (!*r)
        return known ? 405 : 404;
    return (*r)->endpoint && !takes_type(*r, h) ? 415 : 0;
}

bool routes_wants_body(void *ctx, const struct http_head *h)
{
    const struct api *a = ctx;
    const struct route *r;

    return refusal_of(a, h, &r) == 0 && r->endpoint && (r->answer || !a->draining);
}

/* There is nothing at the path of X. */
static void refuse_path(struct api *a, struct server_exchange *x)
{
    if (is_keeping(server_head(x)->path))
        routes_refuse(a, x, "none", 501,
                      "this server serves the model that it was started with (/api/tags); models are neither "
                      "pulled nor changed here",
                      NULL);
    else
        routes_refuse(a, x, "none", 404, "there is nothing at this path", NULL);
}

void routes_handle(void *ctx, struct server_exchange *x)
{
    const struct http_head *h = server_head(x);
    struct api *a = ctx;
    char lines[CORS_PREFLIGHT];
    const struct route *r;
    bool known;

    if (a->opt.cors && cors_preflight(a->opt.cors, h, lines)) { /* which is sent without a key */
        routes_reply(a, x, "none", 200, lines, NULL, "", 0);
        return;
    }
    if (strcmp(h->path, "*") == 0) { /* OPTIONS of the server itself (RFC 9110, 9.3.7) */
        routes_reply(a, x, "none", 200, "Allow: GET, HEAD, POST, OPTIONS\r\n", NULL, "", 0);
        return;
    }
    if (!routes_find(a, h, &known) && !known && a->opt.page && a->opt.page(x))
        return;
    switch (refusal_of(a, h, &r)) {
    case 401:
        routes_refuse(a, x, "none", 401,
                      r && r->access == ROUTE_ADMIN && keys_needed(a->opt.admin)
                          ? "the admin key is needed: Authorization: Bearer KEY"
                          : "a valid API key is needed: Authorization: Bearer KEY",
                      NULL);
        break;
    case 404: refuse_path(a, x); break;
    case 405: refuse_method(a, x); break;
    case 415:
        routes_refuse(a, x, r->path, 415, "Unsupported Media Type: Only 'application/json' is allowed", NULL);
        break;
    default:
        if (r->answer)
            r->answer(a, x, r);
        else
            request_start(a, x, r);
    }
}

static const char preface[] =
    "# The API of `gallop serve`\n"
    "\n"
    "Made by `gallop help --api` from the tables that the server reads requests by. OpenAI's paths and names, with\n"
    "vLLM's additions and defaults.\n"
    "\n"
    "An error is `{\"error\": {\"message\", \"type\", \"param\", \"code\"}}`; `param` names the field. 400:\n"
    "a field is wrong, or would change the answer and is not built. 401: no valid key. 404: no such path or model.\n"
    "408: the request came too slowly. 413: the body is too large. 415: it is not `application/json`\n"
    "(below `/v1/`; elsewhere, or where no type is given, only a page of another site is refused). 429: the queue\n"
    "is full, the key has as many places of it as `--scheduling-policy fair` leaves to one, too many tokens of\n"
    "prompts wait, all requests together hold as much memory as is allowed (`--max-request-memory`), or the limit\n"
    "of the key is reached; each with `Retry-After`. 431: too many or too long headers. 503:\n"
    "shutting down, too many connections, too many bytes of bodies (`--max-bodies-bytes`), no memory, or\n"
    "embeddings whose computing was ended.\n"
    "504: `--request-timeout` has passed. Paths of Anthropic's and Ollama's have their forms of errors, with\n"
    "`param`. 501: Ollama's `/api/pull`, `push`, `create`, `copy`, `delete` and `blobs`: there is the model that\n"
    "the server was started with. Its clients look for a server by `HEAD /`, which is 200: the page for browsers\n"
    "is there.\n"
    "\n"
    "A field that is null is as if it were not there, but for `max_tokens` of `/v1/completions`. So is an empty\n"
    "string where one of at most some length is taken. Fields that are not listed are taken, change nothing, and\n"
    "are said once in the server's log. JSON is read strictly: no field twice, at most 64 levels, 65536 lists and\n"
    "objects, and 4259840 values. Whole numbers may be written as floats (`16.0`), and a UTF-8 byte order mark in\n"
    "front of a body is passed over.\n"
    "\n"
    "A limit of tokens beyond what the context leaves behind the prompt (`max_tokens` and its like) is what it\n"
    "leaves: the answer ends there with `length`. A prompt that leaves no room for a token is refused with 400.\n"
    "\n"
    "Streams are server-sent events, one for each token (several are one where the client reads slowly,\n"
    "or where they were there before the stream began), the last with `finish_reason`, then `usage` if asked for,\n"
    "then `[DONE]`; `: ping` lines while a prompt is computed. A chat begins with an event of the role alone for\n"
    "each answer, when the first token is there, so that who measures the first event measures that. A\n"
    "request whose client leaves, or closes its sending side, is not computed any further.\n"
    "\n"
    "Clients that are tried against it (`make test-clients`): Claude Code and Codex (docs/OPERATIONS.md says how\n"
    "they are told of the server), openai, anthropic, ollama, LangChain, LlamaIndex, LiteLLM, lm-eval,\n"
    "guidellm. lm-eval's `local-completions` wants `tokenizer=` the model's folder and sends ids,\n"
    "to which nothing is added: `add_bos_token=True` where the model wants BOS. With\n"
    "`tokenized_requests=False` the server adds BOS, which lm-eval does not count: scores of choices are wrong.\n"
    "`tokenizer_backend=remote` (with --enable-tokenizer-info-endpoint) asks `/tokenize` for ids without special\n"
    "tokens whatever `add_bos_token` says, so that prompts have no BOS, here as at vLLM: other scores.\n"
    "\n"
    "Where keys are needed, the last column but one says which: `admin` is the key of `--admin-api-key`, and any\n"
    "other does not open these paths then; without that option an ordinary one does. The admin key opens nothing\n"
    "else, but that `/abort_requests` and `/v1/status/*` reach requests of all keys with it.\n"
    "\n"
    "| method | path | key needed | |\n"
    "| --- | --- | --- | --- |\n";

void api_document(struct buf *out)
{
    static const char *const access[] = {[ROUTE_KEY] = "yes", [ROUTE_OPEN] = "no", [ROUTE_ADMIN] = "admin"};

    buf_str(out, preface);
    for (int i = 0; i < N_ROUTES; i++)
        buf_fmt(out, "| %s | `%s` | %s | %s |\n", routes[i].method, routes[i].path, access[routes[i].access],
                routes[i].says);
    fields_document(out);
}
