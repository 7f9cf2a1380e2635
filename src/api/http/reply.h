/* reply.h - answers that are sent at once: counted, logged, and in the form of the client's API. */
#ifndef GALLOP_API_HTTP_REPLY_H
#define GALLOP_API_HTTP_REPLY_H

#include <stddef.h>

struct api;
struct buf;
struct dialect;
struct server_exchange;

/* The answer to X. ROUTE: the path of the table, or "none". */
struct reply {
    struct api *api;
    struct server_exchange *x;
    const char *route;
    const struct dialect *dialect; /* in which errors are written */
};

/* Answers, and counts it. */
void reply_send(const struct reply *r, int status, const char *headers, const char *type, const void *body,
                size_t n);

/* Answers with the JSON of BODY. */
void reply_json(const struct reply *r, const struct buf *body);

/* Answers with an error; a 429 or 503 says when to come back. PARAM: the field at fault, or NULL. */
void reply_refuse(const struct reply *r, int status, const char *message, const char *param);

/* Answers with an error and HEADERS. */
void reply_error(const struct reply *r, int status, const char *headers, const char *message,
                 const char *param);

/* Refuses a request beyond the limits of KEY, of which the next may come in WAIT_S. */
void reply_limit(const struct reply *r, const char *key, double wait_s);

/* Copies what follows the route, which ends in a star, in the path of the request, with %XX as bytes. */
void reply_rest_of_path(const struct reply *r, char *out, size_t size);

#endif
