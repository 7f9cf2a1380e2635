/* http_head.h - the head of an HTTP/1.1 request: request line and header fields, read strictly.
 *
 * What two readers could take for different requests is refused (RFC 9112, and what smuggles requests through
 * proxies): lines that do not end in CR LF, blanks before a colon, folded lines, NUL and other control
 * characters, a Host or Content-Length that is missing, repeated or no number, Transfer-Encoding other than
 * one "chunked", or beside a Content-Length. Knows neither sockets nor what a request is for.
 */
#ifndef GALLOP_NET_HTTP_HEAD_H
#define GALLOP_NET_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_HEAD_MAX_FIELDS = 256 };

struct http_head_field {
    const char *name, *value; /* the name in lower case, the value without blanks around it */
};

struct http_head {
    const char *method, *path,
        *query;            /* path: "/...", or "*" of OPTIONS; query: behind the first '?', or "" */
    const char *authority; /* of an absolute target, up to its path: the same host as Host; NULL: none */
    struct http_head_field header[HTTP_HEAD_MAX_FIELDS];
    size_t n_headers;
    int minor;           /* of HTTP/1.minor */
    bool keep_alive;     /* another request may follow on the connection */
    bool chunked;        /* the body comes in chunks; else it has body_bytes */
    bool expects;        /* 100-continue */
    uint64_t body_bytes; /* below 2^53 */
};

/* TEXT [n] is a head with its empty line, which is changed in place; H borrows from it, and from nothing
 * else. At most MAX_HEADERS (up to HTTP_HEAD_MAX_FIELDS) fields. Returns 0, or the status to refuse it with
 * and a sentence in *why. */
int http_head_read(struct http_head *h, char *text, size_t n, size_t max_headers, const char **why);

/* The value of NAME (lower case), or NULL. */
const char *http_head_get(const struct http_head *h, const char *name);

/* A line that begins a chunk, without its end: its size to *bytes. False: it is none. */
bool http_head_chunk_size(const char *line, size_t n, uint64_t *bytes);

#endif
