/* access.h - access control of the server's paths: API keys, the admin key, and requests from browser
 * pages. */
#ifndef GALLOP_API_HTTP_ACCESS_H
#define GALLOP_API_HTTP_ACCESS_H

#include <stdbool.h>

#include "api/http/keys.h"
#include "chat/request.h"

struct api;
struct http_head;
struct route;
struct server_exchange;

/* Returns whether A serves the route R. Some routes exist only if a command-line option is given. */
bool access_offers(const struct api *a, const struct route *r);

/* Writes the name of the API key in the head H to KEY; "" if H has no valid key. */
void access_key(const struct api *a, const struct http_head *h, char key[KEYS_NAME]);

/* Returns the number of a client (base/shares.h) with the API key KEY or, if KEY is "", at the address PEER. */
uint32_t access_client(const char *key, const char *peer);

/* Returns the name of the API key whose requests the client of X may look up by id. This is the client's own
 * key, whose name is written to KEY. NULL: the client has the admin key and may look up the requests of all
 * keys. */
const char *access_owner(const struct api *a, const struct server_exchange *x, char key[KEYS_NAME]);

/* Returns whether a client needs an API key or the admin key for R. */
bool access_needs_key(const struct api *a, const struct route *r);

/* Returns whether a client needs the admin key for R. R may be NULL. */
bool access_needs_admin(const struct api *a, const struct route *r);

/* Returns whether the keys in the head H allow a request for R. R is NULL for an unknown path. */
bool access_allows(const struct api *a, const struct route *r, const struct http_head *h);

/* Returns whether the Content-Type and Origin headers of H let the server read the body as JSON. */
bool access_takes_type(const struct route *r, const struct http_head *h);

/* Copies the header traceparent of X (W3C Trace Context, version 00) to OUT, or "" if it is missing or
 * malformed. */
void access_trace(struct server_exchange *x, char out[REQUEST_TRACE]);

/* Sets the id of the request Q to the value of the header X-Request-Id of X, if X has this header. */
void access_name(struct request *q, struct server_exchange *x);

#endif
