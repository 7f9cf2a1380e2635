/* access.h - which paths there are, and who may ask for them: API keys, the admin key, and pages of browsers.
 */
#ifndef GALLOP_API_HTTP_ACCESS_H
#define GALLOP_API_HTTP_ACCESS_H

#include <stdbool.h>

#include "api/http/keys.h"

struct api;
struct http_head;
struct route;
struct server_exchange;

/* A answers R: some paths are there only if an option says so. */
bool access_offers(const struct api *a, const struct route *r);

/* The name of the API key that X shows; "": none. */
void access_key(const struct api *a, const struct server_exchange *x, char key[KEYS_NAME]);

/* Whose requests X may reach by their ids: those of its key, which is written to KEY, or those of all keys
 * (NULL). */
const char *access_owner(const struct api *a, const struct server_exchange *x, char key[KEYS_NAME]);

/* A client has to show a key for R. */
bool access_needs_key(const struct api *a, const struct route *r);

/* A client has to show the admin key for R. */
bool access_needs_admin(const struct api *a, const struct route *r);

/* The client of H may ask for R; R NULL: for a path that is not there. */
bool access_allows(const struct api *a, const struct route *r, const struct http_head *h);

/* The body of H may be read as JSON. */
bool access_takes_type(const struct route *r, const struct http_head *h);

#endif
