/* http.h - GET and HEAD over http and https: one request, one answer. Knows bytes and headers, not what they
 * mean.
 *
 * A connection is kept between requests. Not thread safe; one struct http per thread. Certificates and
 * proxies are found as curl finds them: the system's, http_proxy, https_proxy, no_proxy; SSL_CERT_FILE and
 * CURL_CA_BUNDLE name another bundle of certificates.
 */
#ifndef GALLOP_NET_HTTP_H
#define GALLOP_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct http; /* a session */

/* What is asked. Strings are borrowed for the call; what is zero is not asked for. */
struct http_request {
    const char *url;
    bool head;           /* the headers only */
    const char *bearer;  /* token of the Authorization header; no other origin than URL's ever sees it */
    uint64_t from;       /* the body from this byte on */
    int follow;          /* redirects to go after, at most */
    int connect_seconds; /* to be connected within */
    int stall_seconds;   /* an average below 1 KiB/s for so long is a failure */
    size_t max_bytes;    /* of the body; more is a failure */

    /* Called once before the body of an answer 200 or 206 comes, with the byte it begins at. false: stop. */
    bool (*begin)(void *ctx, uint64_t first);
    bool (*body)(void *ctx, const char *bytes, size_t n); /* the next bytes of the body. false: stop */
    bool (*tick)(void *ctx);                              /* a few times a second. false: stop */
    void *ctx;
};

/* What came. */
struct http_reply {
    int status;       /* of the last answer; 0: none came */
    bool transient;   /* the request failed, or was refused, in a way that may pass */
    bool unreachable; /* no connection was made at all */
    bool stopped;     /* by a callback */
    char *location;   /* where a redirect that was not followed leads, absolute; or NULL */
    struct buf headers;
};

int http_open(struct http **out, struct err *e);
void http_close(struct http *h); /* NULL is fine */

/* Makes the request. 0: an answer came whole, whatever its status. Otherwise *e says what failed and where;
 * a callback that stops gives ERR_CANCELLED. *r is set in both cases and needs http_reply_fini(). */
int http_run(struct http *h, const struct http_request *q, struct http_reply *r, struct err *e);

void http_reply_fini(struct http_reply *r); /* a zeroed one is fine */

/* The value of the header NAME in the last answer, or NULL. Borrowed. */
const char *http_header(const struct http_reply *r, const char *name);

/* The header NAME as a number that fits; false if it is missing or anything else. */
bool http_header_u64(const struct http_reply *r, const char *name, uint64_t *v);

/* Both URLs have the same scheme, host and port. */
bool http_same_origin(const char *a, const char *b);

/* URL without user, password, query and fragment, for messages. Returns out. */
const char *http_url_for_people(char *out, size_t size, const char *url);

/* Tests and the program: the heap of libcurl goes through base/mem.h too. Once, before the first
 * http_open(); a library leaves the choice to the program it is part of. */
void http_use_mem(void);

#endif
