/* routes.h - the table of paths, which the server answers by and which docs/API.md and /openapi.json are made
 * from.
 */
#ifndef GALLOP_API_ROUTES_H
#define GALLOP_API_ROUTES_H

#include "api/api_priv.h"
#include "api/dialect.h"
#include "api/keys.h"
#include "net/http_head.h"
#include "net/server.h"

#define ROUTE_EMPTY "" /* an answer without a body */
#define ROUTE_TEXT  "text"

struct route {
    const char *method, *path; /* a path that ends in * stands for all that begin so */
    enum route_access {
        ROUTE_KEY,   /* with a key, where there are keys */
        ROUTE_OPEN,  /* without one, too */
        ROUTE_ADMIN, /* with the admin key, where there is one; else as ROUTE_KEY */
    } access;
    unsigned endpoint; /* FIELDS_... of what is in the body */
    void (*answer)(struct api *a, struct server_exchange *x,
                   const struct route *r); /* NULL: the front prepares it */
    const struct dialect *form;            /* NULL: errors in OpenAI's */
    const char *gives;                     /* the name of the answer's schema, or ROUTE_... */
    const char *says;                      /* for docs/API.md */
};

const struct route *routes_all(size_t *n);

/* Who asks A for R has to show a key. */
bool routes_needs_key(const struct api *a, const struct route *r);

/* R is answered by A: some paths are there only on demand. */
bool routes_offers(const struct api *a, const struct route *r);

/* The name of the key that X has; "": none. */
void routes_key(const struct api *a, const struct server_exchange *x, char key[KEYS_NAME]);
void routes_handle(void *ctx, struct server_exchange *x);
bool routes_wants_body(void *ctx, const struct http_head *h);
size_t routes_refusal(void *ctx, int status, const char *why, char *out, size_t size);
/* Answers X with an error in the form of its path; a 429 or 503 says when to come back. */
void routes_refuse(struct api *a, struct server_exchange *x, const char *route, int status,
                   const char *message, const char *param);
/* Refuses X, a request beyond the limits of KEY, of which the next may come in WAIT_S. */
void routes_limit(struct api *a, struct server_exchange *x, const char *route, const char *key,
                  double wait_s);
/* Answers X, counts it and logs it. */
void routes_reply(struct api *a, struct server_exchange *x, const char *route, int status,
                  const char *headers, const char *type, const void *body, size_t n);

#endif
