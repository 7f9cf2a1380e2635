/* reply.h - sends complete answers and errors: counts them in the metrics, logs errors, and writes errors
 * in the JSON of the client's API.
 */
#ifndef GALLOP_API_HTTP_REPLY_H
#define GALLOP_API_HTTP_REPLY_H

#include <stddef.h>

struct api;
struct buf;
struct dialect;
struct server_exchange;

/* The HTTP exchange X (a request and its response) that is answered. ROUTE: its path in the table of routes,
 * or "none". */
struct reply {
    struct api *api;
    struct server_exchange *x;
    const char *route;
    const struct dialect *dialect; /* the JSON format of errors */
};

/* Sends a complete answer and counts it in the metrics. */
void reply_send(const struct reply *r, int status, const char *headers, const char *type, const void *body,
                size_t n);

/* Sends 200 with the JSON text BODY. */
void reply_json(const struct reply *r, const struct buf *body);

/* Sends an error. A 429 or 503 gets a Retry-After header, a 401 a WWW-Authenticate header. PARAM: the field
 * that the error is about, or NULL. */
void reply_refuse(const struct reply *r, int status, const char *message, const char *param);

/* Sends an error with the header lines HEADERS. */
void reply_error(const struct reply *r, int status, const char *headers, const char *message,
                 const char *param);

/* Sends 429 because KEY has reached its rate limit. WAIT_S: seconds until its next request is allowed. */
void reply_limit(const struct reply *r, const char *key, double wait_s);

/* Copies the part of the request's path that the route's star matches, with %XX decoded, to OUT. */
void reply_rest_of_path(const struct reply *r, char *out, size_t size);

#endif
