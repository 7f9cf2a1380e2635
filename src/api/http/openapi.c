/* openapi.c - generates /openapi.json: paths from the table of routes, bodies from the table of fields,
 * and answers from the schemas beside the functions that write them. The format is OpenAPI 3.1
 * (https://spec.openapis.org/oas/v3.1.0), whose schemas are JSON Schemas.
 */
#include "api/http/openapi.h"

#include <stdio.h>
#include <string.h>

#include "api/api_priv.h"
#include "api/http/access.h"
#include "api/http/routes.h"
#include "base/buf.h"
#include "base/err.h"
#include "chat/dialect/ollama.h"
#include "chat/fields.h"
#include "chat/schema.h"

const struct schema openapi_schema = {"OpenAPI", "{'type':'object','required':['openapi','info','paths']}",
                                      NULL};

/* Writes TEXT with each ' replaced by ". */
static void openapi_put(struct buf *out, const char *text)
{
    for (; *text; text++)
        buf_char(out, *text == '\'' ? '"' : *text);
}

static void put_ref(struct buf *out, const struct schema *s)
{
    openapi_put(out, "{'$ref':'#/components/schemas/");
    buf_fmt(out, "%s\"}", s->name);
}

/* ---- answers of an operation ---- */

/* Writes the response for STATUS. HEADERS: the JSON text of a `headers` member, or "". */
static void put_status(int status, const char *says, const char *headers, const struct schema *error,
                       struct buf *out)
{
    char key[8];

    snprintf(key, sizeof(key), "%d", status);
    buf_json_key(out, key);
    openapi_put(out, "{'description':'");
    openapi_put(out, says);
    openapi_put(out, "'");
    openapi_put(out, headers);
    openapi_put(out, ",'content':{'application/json':{'schema':");
    put_ref(out, error);
    openapi_put(out, "}}}");
}

#define COUNT(name)   "'x-ratelimit-" name "':{'schema':{'type':'integer','minimum':0}}"
#define SECONDS(name) "'x-ratelimit-" name "':{'schema':{'type':'string','pattern':'^[0-9.]+s$'}}"
#define RETRY         "'Retry-After':{'schema':{'type':'integer','minimum':1}}"
#define LIMITS                                                                                         \
    COUNT("limit-requests")                                                                            \
    "," COUNT("remaining-requests") "," SECONDS("reset-requests") "," COUNT("limit-tokens") "," COUNT( \
        "remaining-tokens") "," SECONDS("reset-tokens")

/* Returns whether any API key of the server has a rate limit. */
static bool has_limits(const struct api *a)
{
    return a->opt.keys && keys_have_limits(a->opt.keys);
}

/* Returns the schema of error answers of R. */
static const struct schema *error_of(const struct route *r)
{
    return r->dialect             ? r->dialect->error_schema
           : ollama_owns(r->path) ? &ollama_error_schema
                                  : &dialect_error_schema;
}

/* Writes the error responses of an operation, ordered by status. */
static void put_refusals(const struct api *a, const struct route *r, struct buf *out)
{
    static const char later[] = ",'headers':{" RETRY "}", limits[] = ",'headers':{" RETRY "," LIMITS "}",
                      key[] = ",'headers':{'WWW-Authenticate':{'schema':{'type':'string'}}}";
    bool computes = r->dialect != NULL, named = r->path[strlen(r->path) - 1] == '*';
    const struct schema *error = error_of(r);

    put_status(400, "a field or the JSON is wrong, or the request asks for something that is not supported",
               "", error, out);
    if (access_needs_key(a, r))
        put_status(401, "no valid key", key, error, out);
    if (computes || named)
        put_status(404, "there is no such model or id", "", error, out);
    put_status(408, "the request arrived too slowly", "", error, out);
    put_status(413, "the body is too large", "", error, out);
    if (r->endpoint)
        put_status(415, "the body is not application/json", "", error, out);
    if (computes)
        put_status(429,
                   has_limits(a)
                       ? "the queue or the memory of requests is full, or the limit of the key is reached"
                       : "the queue or the memory of requests is full",
                   has_limits(a) ? limits : later, error, out);
    put_status(431, "the headers are too many or too long", "", error, out);
    if (computes)
        put_status(500, "the answer could not be computed", "", error, out);
    put_status(503, "the server shuts down, has too many connections, or has no memory", later, error, out);
    if (computes)
        put_status(504, "the request took longer than the server allows", "", error, out);
}

static void put_answer(const struct route *r, struct buf *out)
{
    bool streams = r->endpoint & (FIELDS_COMPLETIONS | FIELDS_CHAT | FIELDS_MESSAGES | FIELDS_RESPONSES);

    buf_json_key(out, "200");
    openapi_put(out, "{'description':'OK'");
    if (r->schema == &schema_text) {
        openapi_put(out, ",'content':{'text/plain':{'schema':{'type':'string'}}}");
    } else if (r->schema != &schema_empty) {
        openapi_put(out, ",'content':{'application/json':{'schema':");
        put_ref(out, r->schema);
        openapi_put(out, streams ? "},'text/event-stream':{}}"
                         : r->endpoint & (FIELDS_GENERATE | FIELDS_OLLAMA_CHAT)
                             ? "},'application/x-ndjson':{}}"
                             : "}}");
    }
    openapi_put(out, "}");
}

/* ---- operations ---- */

static void put_parameters(const struct route *r, struct buf *out)
{
    buf_json_key(out, "parameters");
    if (r->path[strlen(r->path) - 1] == '*')
        openapi_put(out,
                    "[{'name':'name','in':'path','required':true,'schema':{'type':'string','minLength':1}}]");
    else if (r->dialect)
        openapi_put(
            out, "[{'name':'X-Request-Id','in':'header','required':false,'schema':{'type':'string','pattern':"
                 "'^[!-~]{1,128}$'}}]");
    else
        openapi_put(out, "[]");
}

/* Writes the names of the model, and null, as a JSON list. */
static void put_models(const struct api *a, struct buf *out)
{
    buf_json_begin(out, '[');
    for (size_t i = 0; i < a->opt.service.n_names; i++)
        buf_json_str(out, a->opt.service.name[i], strlen(a->opt.service.name[i]));
    buf_json_null(out);
    buf_json_end(out, ']');
}

static void put_body(const struct api *a, const struct route *r, struct buf *out)
{
    struct buf models = {.tag = MEM_API};

    put_models(a, &models);
    out->oom |= models.oom;
    buf_json_key(out, "requestBody");
    openapi_put(out, "{'required':true,'content':{'application/json':{'schema':");
    fields_schema(r->endpoint, models.oom ? "[]" : models.data, out);
    buf_str(out, "}}}");
    buf_fini(&models);
}

static void put_operation(const struct api *a, const struct route *r, struct buf *out)
{
    buf_json_key(out, strcmp(r->method, "GET") == 0 ? "get" : "post");
    buf_json_begin(out, '{');
    buf_json_key(out, "summary");
    buf_json_str(out, r->says, strlen(r->says));
    put_parameters(r, out);
    if (r->endpoint)
        put_body(a, r, out);
    if (access_needs_key(a, r)) {
        buf_json_key(out, "security");
        openapi_put(out, "[{'bearer':[]},{'key':[]}]");
    }
    buf_json_key(out, "responses");
    buf_json_begin(out, '{');
    put_answer(r, out);
    put_refusals(a, r, out);
    buf_json_end(out, '}');
    buf_json_end(out, '}');
}

/* ---- schemas ---- */

/* The schemas that are already written. */
struct written {
    const struct schema *schema[64];
    size_t n;
};

/* Writes S and the schemas that it refers to, unless they are already written. */
static void put_schema(struct written *w, const struct schema *s, struct buf *out)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->schema[i] == s)
            return;
    if (!s->text)
        return;
    ASSERT(w->n < sizeof(w->schema) / sizeof(w->schema[0]));
    w->schema[w->n++] = s;
    buf_json_key(out, s->name);
    openapi_put(out, s->text);
    for (const struct schema *const *other = s->uses; other && *other; other++)
        put_schema(w, *other, out);
}

static void put_schemas(const struct route *r, size_t n, struct buf *out)
{
    struct written w = {.n = 0};

    buf_json_begin(out, '{');
    for (size_t i = 0; i < n; i++) {
        put_schema(&w, error_of(&r[i]), out);
        put_schema(&w, r[i].schema, out);
    }
    buf_json_end(out, '}');
}

/* Writes the path of R; a star becomes a named path parameter. */
static void put_path(const struct route *r, struct buf *out)
{
    size_t n = strlen(r->path);
    bool named = r->path[n - 1] == '*';
    char path[64];

    snprintf(path, sizeof(path), "%.*s%s", (int)(n - named), r->path, named ? "{name}" : "");
    buf_json_key(out, path);
}

void openapi_write(const struct api *a, const struct route *r, size_t n, struct buf *out)
{
    openapi_put(out, "{'openapi':'3.1.0','info':{'title':'gallop serve','version':'");
    buf_fmt(out, "%s\"},\"paths\":", gallop_version());
    buf_json_begin(out, '{');
    for (size_t i = 0; i < n; i++) { /* each path has only one method */
        if (!access_offers(a, &r[i]))
            continue;
        put_path(&r[i], out);
        buf_json_begin(out, '{');
        put_operation(a, &r[i], out);
        buf_json_end(out, '}');
    }
    buf_json_end(out, '}');
    openapi_put(
        out,
        ",'components':{'securitySchemes':{'bearer':{'type':'http','scheme':'bearer'},'key':{'type':'apiKey',"
        "'in':'header','name':'X-Api-Key'}},'schemas':");
    put_schemas(r, n, out);
    openapi_put(out, "}}");
}
