/* routes.h - the table of routes (routes.def). The server dispatches requests by this table; docs/API.md
 * and /openapi.json are generated from the table.
 */
#ifndef GALLOP_API_HTTP_ROUTES_H
#define GALLOP_API_HTTP_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

struct api;
struct buf;
struct dialect;
struct http_head;
struct reply;
struct schema;
struct server_exchange;

enum route_access {
    ROUTE_KEY,   /* requires an API key, if the server has keys */
    ROUTE_OPEN,  /* requires no key */
    ROUTE_ADMIN, /* requires the admin key; without --admin-api-key, the same as ROUTE_KEY */
    ROUTE_OWNER, /* as ROUTE_KEY, and the admin key is accepted too */
};

struct route {
    const char *method, *path; /* a * at the end of a path matches any text */
    enum route_access access;
    /* FIELDS_... bit that selects the fields of the body; 0: no body */
    unsigned endpoint;
    /* format of request and answer if a worker answers; otherwise NULL */
    const struct dialect *dialect;
    void (*answer)(const struct reply *r);               /* answers on the server's thread, or NULL */
    void (*write)(const struct api *a, struct buf *out); /* writes the JSON answer, or NULL */
    const struct schema *schema;                         /* JSON Schema of the answer */
    const char *says;                                    /* the description in docs/API.md */
};

/* Declares the functions and schemas of the table's rows. dialect.h declares the dialects. */
#define COMPUTED(letter, name, path, needs, form, gives, says)
#define HANDLED(letter, name, path, needs, access, function, gives, says) \
    void function(const struct reply *r);                                 \
    extern const struct schema gives;
#define ANSWERED(path, access, function, gives, says) \
    void function(const struct reply *r);             \
    extern const struct schema gives;
#define WRITTEN(path, access, function, gives, says)     \
    void function(const struct api *a, struct buf *out); \
    extern const struct schema gives;
#include "chat/routes.def"
#undef COMPUTED
#undef HANDLED
#undef ANSWERED
#undef WRITTEN

const struct route *routes_all(size_t *n);

/* ---- handlers for the HTTP server; CTX is the struct api ---- */

void routes_handle(void *ctx, struct server_exchange *x);
bool routes_wants_body(void *ctx, const struct http_head *h);
size_t routes_refusal(void *ctx, int status, const char *why, char *out, size_t size);

#endif
