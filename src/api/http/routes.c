/* routes.c - finds the route of a request and calls its handler, or refuses the request. */
#include "api/http/routes.h"

#include <stdio.h>
#include <string.h>

#include "api/api_priv.h"
#include "api/flight.h"
#include "api/http/access.h"
#include "api/http/openapi.h"
#include "api/http/reply.h"
#include "base/buf.h"
#include "base/log.h"
#include "chat/dialect/ollama.h"
#include "chat/fields.h"
#include "net/cors.h"
#include "net/http_head.h"
#include "net/server.h"

#define COMPUTED(letter, name, path, needs, form, gives, says) \
    {"POST", path, ROUTE_KEY, FIELDS_##name, &form, NULL, NULL, &gives, says},
#define HANDLED(letter, name, path, needs, access, function, gives, says) \
    {"POST", path, access, FIELDS_##name, NULL, function, NULL, &gives, says},
#define ANSWERED(path, access, function, gives, says) \
    {"GET", path, access, 0, NULL, function, NULL, &gives, says},
#define WRITTEN(path, access, function, gives, says) \
    {"GET", path, access, 0, NULL, NULL, function, &gives, says},
static const struct route routes[] = {
#include "chat/routes.def"
};
#undef COMPUTED
#undef HANDLED
#undef ANSWERED
#undef WRITTEN

enum { N_ROUTES = sizeof(routes) / sizeof(routes[0]) };

const struct route *routes_all(size_t *n)
{
    *n = N_ROUTES;
    return routes;
}

void routes_openapi(const struct reply *r)
{
    struct buf body = {.tag = MEM_API};

    openapi_write(r->api, routes, N_ROUTES, &body);
    reply_json(r, &body);
    buf_fini(&body);
}

/* ---- finding a route ---- */

static bool is_path(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);

    return r->path[n - 1] == '*' ? strncmp(r->path, path, n - 1) == 0 && path[n - 1]
                                 : strcmp(r->path, path) == 0;
}

/* Returns the route of H, or NULL. Sets *KNOWN if the path exists, even if only with a different method. */
static const struct route *find_route(const struct api *a, const struct http_head *h, bool *known)
{
    *known = false;
    for (int i = 0; i < N_ROUTES; i++)
        if (is_path(&routes[i], h->path) && access_offers(a, &routes[i])) {
            *known = true;
            if (strcmp(routes[i].method, h->method) == 0 ||
                (strcmp(h->method, "HEAD") == 0 && strcmp(routes[i].method, "GET") == 0))
                return &routes[i];
        }
    return NULL;
}

/* Returns the dialect that formats errors about PATH. */
static const struct dialect *dialect_of(const char *path)
{
    for (int i = 0; i < N_ROUTES; i++)
        if (routes[i].dialect && is_path(&routes[i], path))
            return routes[i].dialect;
    return ollama_owns(path) ? &ollama_dialect : &openai_completions;
}

/* ---- refusing ---- */

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

/* Returns whether PATH is one of Ollama's paths that change the set of models; this server has a fixed
 * model. */
static bool changes_models(const char *path)
{
    static const char *const all[] = {"/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i], path) == 0)
            return true;
    return strncmp(path, "/api/blobs/", 11) == 0;
}

/* Refuses the method with 405. The Allow header lists the methods of the path. */
static void refuse_method(const struct reply *r)
{
    const char *path = server_head(r->x)->path;
    char headers[64] = "Allow: ";

    for (int i = 0; i < N_ROUTES; i++)
        if (is_path(&routes[i], path)) {
            strcat(headers, headers[7] ? ", " : "");
            strcat(headers, strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD" : routes[i].method);
        }
    if (!headers[7]) /* no route has this path, so it is a file of the web page */
        strcat(headers, "GET, HEAD");
    strcat(headers, "\r\n");
    reply_error(r, 405, headers, "this path does not take that method", NULL);
}

static void refuse_path(const struct reply *r)
{
    if (changes_models(server_head(r->x)->path))
        reply_refuse(r, 501,
                     "this server serves the model that it was started with (/api/tags); models are neither "
                     "pulled nor changed here",
                     NULL);
    else
        reply_refuse(r, 404, "there is nothing at this path", NULL);
}

/* Returns the status with which H is refused before its body is read; 0: it is not refused. *R gets its
 * route, or NULL for 404 and 405. */
static int refusal_of(const struct api *a, const struct http_head *h, const struct route **r)
{
    bool known;

    *r = find_route(a, h, &known);
    if (!known && a->opt.page_has && a->opt.page_has(h->path))
        return 405;
    if (!access_allows(a, *r, h))
        return 401;
    if (!*r)
        return known ? 405 : 404;
    return (*r)->endpoint && !access_takes_type(*r, h) ? 415 : 0;
}

bool routes_wants_body(void *ctx, const struct http_head *h)
{
    const struct api *a = ctx;
    const struct route *r;

    return refusal_of(a, h, &r) == 0 && r->endpoint && (!r->dialect || !a->draining);
}

/* ---- answering ---- */

static void write_answer(const struct reply *r, const struct route *route)
{
    struct buf body = {.tag = MEM_API};

    route->write(r->api, &body);
    reply_json(r, &body);
    buf_fini(&body);
}

static void answer(struct api *a, struct server_exchange *x)
{
    const struct http_head *h = server_head(x);
    struct reply reply = {.api = a, .x = x, .route = "none", .dialect = dialect_of(h->path)};
    const struct route *r;
    int status = refusal_of(a, h, &r);

    if (r && (status == 0 || status == 415))
        reply.route = r->path;
    if (status == 401)
        reply_refuse(&reply, 401,
                     access_needs_admin(a, r) ? "the admin key is needed: Authorization: Bearer KEY"
                                              : "a valid API key is needed: Authorization: Bearer KEY",
                     NULL);
    else if (status == 404)
        refuse_path(&reply);
    else if (status == 405)
        refuse_method(&reply);
    else if (status == 415)
        reply_refuse(&reply, 415, "Unsupported Media Type: Only 'application/json' is allowed", NULL);
    else if (r->dialect)
        flight_start(a, x, r);
    else if (r->write)
        write_answer(&reply, r);
    else
        r->answer(&reply);
}

void routes_handle(void *ctx, struct server_exchange *x)
{
    const struct http_head *h = server_head(x);
    struct api *a = ctx;
    struct reply plain = {.api = a, .x = x, .route = "none"};
    char lines[CORS_PREFLIGHT];
    bool known;

    /* browsers send preflight requests without a key */
    if (a->opt.cors && cors_preflight(a->opt.cors, h, lines))
        reply_send(&plain, 200, lines, NULL, "", 0);
    else if (strcmp(h->path, "*") == 0) /* OPTIONS * asks about the server as a whole (RFC 9110, 9.3.7) */
        reply_send(&plain, 200, "Allow: GET, HEAD, POST, OPTIONS\r\n", NULL, "", 0);
    else if (find_route(a, h, &known) || known || !a->opt.page || !a->opt.page(x))
        answer(a, x);
}
