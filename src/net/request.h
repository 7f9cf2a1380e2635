/* request.h - the head of an HTTP/1.1 request: request line and header fields, read strictly.
 *
 * What two readers could take for different requests is refused (RFC 9112, and what smuggles requests through
 * proxies): lines that do not end in CR LF, blanks before a colon, folded lines, NUL and other control
 * characters, a Host or Content-Length that is missing, repeated or no number, Transfer-Encoding other than
 * one "chunked", or beside a Content-Length. Knows neither sockets nor what a request is for.
 */
#ifndef GALLOP_NET_REQUEST_H
#define GALLOP_NET_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REQUEST_MAX_HEADERS = 256 };

struct request_header {
    const char *name, *value; /* the name in lower case, the value without blanks around it */
};

struct request_head {
    const char *method, *path,
        *query;            /* path: "/...", or "*" of OPTIONS; query: behind the first '?', or "" */
    const char *authority; /* of an absolute target, up to its path: the same host as Host; NULL: none */
    struct request_header header[REQUEST_MAX_HEADERS];
    size_t n_headers;
    int minor;           /* of HTTP/1.minor */
    bool keep_alive;     /* another request may follow on the connection */
    bool chunked;        /* the body comes in chunks; else it has body_bytes */
    bool expects;        /* 100-continue */
    uint64_t body_bytes; /* below 2^53 */
};

/* TEXT [n] is a head with its empty line, which is changed in place; H borrows from it, and from nothing
 * else. At most MAX_HEADERS (up to REQUEST_MAX_HEADERS) fields. Returns 0, or the status to refuse it with
 * and a sentence in *why. */
int request_read(struct request_head *h, char *text, size_t n, size_t max_headers, const char **why);

/* The value of NAME (lower case), or NULL. */
const char *request_header(const struct request_head *h, const char *name);

/* A line that begins a chunk, without its end: its size to *bytes. False: it is none. */
bool request_chunk_size(const char *line, size_t n, uint64_t *bytes);

#endif
