/* http.h - HTTP client: GET and HEAD over http and https, one request at a time. Interprets neither headers
 * nor bodies.
 *
 * A connection is kept between requests. Not thread safe; each thread needs a struct http of its own.
 * Certificates and proxies are found as curl finds them: the system's, http_proxy, https_proxy, no_proxy.
 * SSL_CERT_FILE and CURL_CA_BUNDLE name another bundle of certificates.
 */
#ifndef GALLOP_NET_HTTP_H
#define GALLOP_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct http; /* a client with its connection */

/* A request. Strings are borrowed for the call. Zero members are not used. */
struct http_request {
    const char *url;
    bool head; /* HEAD instead of GET */
    /* The token of the Authorization header. It is sent to the origin of the URL only. */
    const char *bearer;
    uint64_t from;       /* request the body from this byte on */
    int follow;          /* most redirects to follow */
    int connect_seconds; /* timeout of the connection */
    /* The request fails if the average rate is below 1 KiB/s for this long. */
    int stall_seconds;
    size_t max_bytes; /* the request fails if the body is larger */

    /* Called once before the body of an answer with status 200 or 206, with the offset of its first byte.
     * False: stop. */
    bool (*begin)(void *ctx, uint64_t first);
    /* called with the next bytes of the body; false: stop */
    bool (*body)(void *ctx, const char *bytes, size_t n);
    bool (*tick)(void *ctx); /* called a few times per second; false: stop */
    void *ctx;
};

/* The result of a request. */
struct http_reply {
    int status;       /* of the last answer; 0: there was none */
    bool transient;   /* the failure or refusal may be temporary */
    bool unreachable; /* no connection could be made */
    bool stopped;     /* by a callback */
    char *location;   /* absolute target of a redirect that was not followed, or NULL */
    struct buf headers;
};

int http_open(struct http **out, struct err *e);
void http_close(struct http *h); /* NULL is fine */

/* Makes the request. 0: a complete answer came, of whatever status. Otherwise *E says what failed and where;
 * a callback that stops gives ERR_CANCELLED. *R is set in both cases and needs http_reply_fini(). */
int http_run(struct http *h, const struct http_request *q, struct http_reply *r, struct err *e);

void http_reply_fini(struct http_reply *r); /* a zeroed one is fine */

/* The value of the header NAME in the last answer, or NULL. Borrowed. */
const char *http_header(const struct http_reply *r, const char *name);

/* The header NAME as a number. False: it is missing, is no number, or does not fit. */
bool http_header_u64(const struct http_reply *r, const char *name, uint64_t *v);

/* Both URLs have the same scheme, host and port. */
bool http_same_origin(const char *a, const char *b);

/* Writes URL without user, password, query and fragment to OUT, for messages. Returns OUT. */
const char *http_url_for_people(char *out, size_t size, const char *url);

/* Makes libcurl use the heap of base/mem.h. For programs and tests, once, before the first http_open(); a
 * library must leave this to the program that uses it. */
void http_use_mem(void);

#endif
