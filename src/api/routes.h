/* routes.h - the table of paths, which the server answers by and which docs/API.md and /openapi.json are made
 * from.
 */
#ifndef GALLOP_API_ROUTES_H
#define GALLOP_API_ROUTES_H

#include "api/request.h"
#include "base/buf.h"

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

/* The answers of /api/tags, /api/ps and /api/show. */
void ollama_tags(const struct api *a, struct buf *out);
void ollama_running(const struct api *a, struct buf *out);
void ollama_show(const struct api *a, struct buf *out);

/* C asks for nothing: so Ollama's clients have a model loaded, or let go of. Here it stays, which is said. */
bool ollama_loads(const struct request *c);
void ollama_loaded(const struct request *c, struct buf *out);

/* The answer of /openapi.json. */
void openapi_write(const struct api *a, struct buf *out);

#endif
