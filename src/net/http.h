/* http.h - HTTP client: GET and HEAD over http and https, one request at a time. It does not interpret bodies.
 *
 * The connection is kept open between requests. A struct http belongs to one thread. As with curl, the system's
 * certificates are used, unless SSL_CERT_FILE or CURL_CA_BUNDLE names another certificate file, and the variables
 * http_proxy, https_proxy and no_proxy choose the proxies.
 */
#ifndef GALLOP_NET_HTTP_H
#define GALLOP_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct http; /* a client with its connection */

/* A request. Strings are borrowed for the call. A zero limit means no limit, a NULL callback is not called. */
struct http_request {
    const char *url;
    bool head; /* HEAD instead of GET */
    /* The token of the header Authorization: Bearer. It is sent to the origin of the URL only. */
    const char *bearer;
    uint64_t from;       /* offset of the first byte to request */
    int follow;          /* maximum number of redirects to follow */
    int connect_seconds; /* time limit for connecting */
    /* The request fails if the average rate is below 1 KiB/s for this many seconds. */
    int stall_seconds;
    size_t max_bytes; /* the request fails if the body is larger */

    /* Called once before the body of an answer with status 200 or 206, with the offset of its first byte. A
     * callback that returns false ends the request. */
    bool (*begin)(void *ctx, uint64_t first);
    /* Called with the next N bytes of the body. */
    bool (*body)(void *ctx, const char *bytes, size_t n);
    bool (*tick)(void *ctx); /* called a few times per second */
    void *ctx;
};

/* The result of a request. */
struct http_reply {
    int status;       /* HTTP status of the last answer; 0: no answer */
    bool transient;   /* the failure or refusal may be temporary */
    bool unreachable; /* no connection could be made */
    bool stopped;     /* a callback returned false */
    char *location;   /* absolute URL of a redirect that was not followed, or NULL */
    struct buf headers;
};

int http_open(struct http **out, struct err *e);
void http_close(struct http *h); /* H may be NULL */

/* Sends the request and reads the answer. Returns 0 if the answer is complete, whatever its status, ERR_CANCELLED if a
 * callback returned false, or another error. Sets *R in all cases; the caller calls http_reply_fini(). */
int http_run(struct http *h, const struct http_request *q, struct http_reply *r, struct err *e);

void http_reply_fini(struct http_reply *r); /* R may be zeroed */

/* Returns the value of the header NAME in the last answer, which R owns, or NULL. */
const char *http_header(const struct http_reply *r, const char *name);

/* Reads the header NAME as an integer. Returns false if it is missing, not an integer, or too large. */
bool http_header_u64(const struct http_reply *r, const char *name, uint64_t *v);

/* Returns true if both URLs have the same scheme, host and port. */
bool http_same_origin(const char *a, const char *b);

/* Writes URL without user, password, query and fragment to out[size], for messages. Returns OUT. */
const char *http_url_for_people(char *out, size_t size, const char *url);

/* Makes libcurl allocate through base/mem.h. Called at most once, by a program and before the first
 * http_open(); a library must not call it, since libcurl's setting is global to the process. */
void http_use_mem(void);

#endif
