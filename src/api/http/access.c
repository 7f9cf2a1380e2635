/* access.c - checks the keys and origins of requests against the table of routes. */
#include "api/http/access.h"

#include <string.h>
#include <strings.h>

#include "api/api_priv.h"
#include "api/http/routes.h"
#include "base/shares.h"
#include "engine/engine.h"
#include "net/http_head.h"
#include "net/server.h"

bool access_offers(const struct api *a, const struct route *r)
{
    return r->write != models_tokenizer || a->opt.tokenizer_info;
}

/* Returns whether the head H has one of the keys K, and writes the key's name to NAME. */
static bool shows(const struct keys *k, const struct http_head *h, char name[KEYS_NAME])
{
    return keys_allow(k, http_head_get(h, "authorization"), http_head_get(h, "x-api-key"), name);
}

static bool is_admin(const struct api *a, const struct http_head *h)
{
    char name[KEYS_NAME];

    return keys_needed(a->opt.admin) && shows(a->opt.admin, h, name);
}

void access_key(const struct api *a, const struct http_head *h, char key[KEYS_NAME])
{
    key[0] = 0;
    if (keys_needed(a->opt.keys))
        shows(a->opt.keys, h, key);
}

uint32_t access_client(const char *key, const char *peer)
{
    const char *name = key[0] ? key : peer;

    _Static_assert((int)ENGINE_FAIR_KEYS == (int)SHARES_CLIENTS,
                   "engine_fair_key() returns a client's number");
    return engine_fair_key(name, strlen(name));
}

const char *access_owner(const struct api *a, const struct server_exchange *x, char key[KEYS_NAME])
{
    if (is_admin(a, server_head(x)))
        return NULL;
    access_key(a, server_head(x), key);
    return key;
}

bool access_needs_admin(const struct api *a, const struct route *r)
{
    return r && r->access == ROUTE_ADMIN && keys_needed(a->opt.admin);
}

/* Returns the keys that allow requests for R. */
static const struct keys *keys_of(const struct api *a, const struct route *r)
{
    return access_needs_admin(a, r) ? a->opt.admin : a->opt.keys;
}

bool access_needs_key(const struct api *a, const struct route *r)
{
    return r->access != ROUTE_OPEN && keys_needed(keys_of(a, r));
}

/* Routes marked ROUTE_OWNER look up a request by id. They accept the admin key, too, which may look up
 * requests of all keys. */
bool access_allows(const struct api *a, const struct route *r, const struct http_head *h)
{
    const struct keys *k = keys_of(a, r);
    char name[KEYS_NAME];

    return (r && r->access == ROUTE_OPEN) || !keys_needed(k) || shows(k, h, name) ||
           (r && r->access == ROUTE_OWNER && is_admin(a, h));
}

/* Returns whether a browser page of a different site sent the request with the head H. */
static bool is_foreign(const struct http_head *h)
{
    const char *origin = http_head_get(h, "origin"), *host = h->host;
    const char *site = origin ? strstr(origin, "://") : NULL;

    return origin && !(site && host && strcasecmp(site + 3, host) == 0);
}

/* A browser page needs the consent of another site (a CORS preflight) to send it the content type of JSON.
 * Without consent it can send bytes with three other types or with no type, so these are refused from foreign
 * pages. Programs may leave the type out. For paths below /v1 a wrong type is refused from programs, too, as
 * in vLLM. For other paths it is accepted, because `curl -d` sends the type of HTML forms. */
bool access_takes_type(const struct route *r, const struct http_head *h)
{
    const char *type = http_head_get(h, "content-type");

    if (type && strncasecmp(type, "application/json", 16) == 0 && strchr("; \t", type[16]))
        return true;
    return !is_foreign(h) && (!type || strncmp(r->path, "/v1/", 4) != 0);
}

/* In FORM each x means a lower-case hexadecimal digit. A trace or parent id with only zeros is invalid. */
void access_trace(struct server_exchange *x, char out[REQUEST_TRACE])
{
    static const char form[] = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    const char *value = http_head_get(server_head(x), "traceparent");
    bool is_trace;
    size_t n = 0;

    _Static_assert(sizeof(form) == REQUEST_TRACE, "a traceparent of version 00");
    while (value && form[n] && value[n] &&
           (form[n] == 'x' ? strchr("0123456789abcdef", value[n]) != NULL : value[n] == form[n]))
        n++;
    is_trace = value && !form[n] && !value[n] && strspn(value + 3, "0") < 32 && strspn(value + 36, "0") < 16;
    snprintf(out, REQUEST_TRACE, "%s", is_trace ? value : "");
}

void access_name(struct request *q, struct server_exchange *x)
{
    const char *id = http_head_get(server_head(x), "x-request-id");

    if (!id || !id[0])
        return;
    q->naming = request_is_id(id) ? REQUEST_NAMED : REQUEST_MISNAMED;
    if (q->naming == REQUEST_MISNAMED)
        return;
    snprintf(q->name, sizeof(q->name), "%s", id);
    snprintf(q->id, sizeof(q->id), "%s%s", q->dialect->prefix, id);
}
