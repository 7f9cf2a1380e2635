/* routes.h - the table of paths (routes.def), which the server answers by and which docs/API.md and
 * /openapi.json are made from.
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
    ROUTE_KEY,   /* with a key, if the server has keys */
    ROUTE_OPEN,  /* also without a key */
    ROUTE_ADMIN, /* with the admin key, if the server has one; else as ROUTE_KEY */
    ROUTE_OWNER, /* as ROUTE_KEY, and also with the admin key */
};

struct route {
    const char *method, *path; /* a path that ends in * stands for all that begin so */
    enum route_access access;
    unsigned endpoint;                     /* FIELDS_... of what is in the body; 0: no body */
    const struct dialect *dialect;         /* in which a worker reads and answers; NULL: no worker does */
    void (*answer)(const struct reply *r); /* on the server's thread; or NULL */
    void (*write)(const struct api *a, struct buf *out); /* the JSON of an answer; or NULL */
    const struct schema *schema;                         /* of the answer */
    const char *says;                                    /* for docs/API.md */
};

/* The functions and schemas of the rows, each defined beside its subject. dialect.h declares the dialects. */
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
#include "api/routes.def"
#undef COMPUTED
#undef HANDLED
#undef ANSWERED
#undef WRITTEN

const struct route *routes_all(size_t *n);

/* ---- handlers of the HTTP server, whose CTX is the api ---- */

void routes_handle(void *ctx, struct server_exchange *x);
bool routes_wants_body(void *ctx, const struct http_head *h);
size_t routes_refusal(void *ctx, int status, const char *why, char *out, size_t size);

#endif
