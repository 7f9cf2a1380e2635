/* access.c - keys and origins of requests, checked against the table of routes. */
#include "api/http/access.h"

#include <string.h>
#include <strings.h>

#include "api/api_priv.h"
#include "api/http/routes.h"
#include "net/http_head.h"
#include "net/server.h"

bool access_offers(const struct api *a, const struct route *r)
{
    return r->write != models_tokenizer || a->opt.tokenizer_info;
}

/* H has one of the keys K, whose name is written to NAME. */
static bool shows(const struct keys *k, const struct http_head *h, char name[KEYS_NAME])
{
    return keys_allow(k, http_head_get(h, "authorization"), http_head_get(h, "x-api-key"), name);
}

static bool is_admin(const struct api *a, const struct http_head *h)
{
    char name[KEYS_NAME];

    return keys_needed(a->opt.admin) && shows(a->opt.admin, h, name);
}

void access_key(const struct api *a, const struct server_exchange *x, char key[KEYS_NAME])
{
    key[0] = 0;
    if (keys_needed(a->opt.keys))
        shows(a->opt.keys, server_head(x), key);
}

const char *access_owner(const struct api *a, const struct server_exchange *x, char key[KEYS_NAME])
{
    if (is_admin(a, server_head(x)))
        return NULL;
    access_key(a, x, key);
    return key;
}

bool access_needs_admin(const struct api *a, const struct route *r)
{
    return r && r->access == ROUTE_ADMIN && keys_needed(a->opt.admin);
}

/* The keys that open R. */
static const struct keys *keys_of(const struct api *a, const struct route *r)
{
    return access_needs_admin(a, r) ? a->opt.admin : a->opt.keys;
}

bool access_needs_key(const struct api *a, const struct route *r)
{
    return r->access != ROUTE_OPEN && keys_needed(keys_of(a, r));
}

/* The admin key also reaches the requests of other keys by their ids. */
bool access_allows(const struct api *a, const struct route *r, const struct http_head *h)
{
    const struct keys *k = keys_of(a, r);
    char name[KEYS_NAME];

    return (r && r->access == ROUTE_OPEN) || !keys_needed(k) || shows(k, h, name) ||
           (r && r->access == ROUTE_OWNER && is_admin(a, h));
}

/* H comes from a page of a browser that another site has served. */
static bool is_foreign(const struct http_head *h)
{
    const char *origin = http_head_get(h, "origin"), *host = http_head_get(h, "host");
    const char *site = origin ? strstr(origin, "://") : NULL;

    return origin && !(site && host && strcasecmp(site + 3, host) == 0);
}

/* A page of a browser cannot send the content type of JSON to another site without asking that site first,
 * but can send any bytes with one of three other types or with none. Programs leave the type out, too. Below
 * /v1 a wrong type is refused, as vLLM does; elsewhere it says nothing (curl -d sends that of a form). */
bool access_takes_type(const struct route *r, const struct http_head *h)
{
    const char *type = http_head_get(h, "content-type");

    if (type && strncasecmp(type, "application/json", 16) == 0 && strchr("; \t", type[16]))
        return true;
    return !is_foreign(h) && (!type || strncmp(r->path, "/v1/", 4) != 0);
}
