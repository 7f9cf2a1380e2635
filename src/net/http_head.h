/* http_head.h - reads the head of an HTTP/1.1 request strictly: request line and header fields.
 *
 * Heads that a proxy and this server could understand differently are refused, to prevent request smuggling
 * (RFC 9112): lines that do not end with CR LF, spaces before a colon, folded lines, NUL and other control
 * characters, a missing or repeated Host, a repeated or non-numeric Content-Length, and a Transfer-Encoding
 * that is not a single "chunked" or comes with a Content-Length. The parser has no sockets and no routes.
 */
#ifndef GALLOP_NET_HTTP_HEAD_H
#define GALLOP_NET_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_HEAD_MAX_FIELDS = 256 };

struct http_head_field {
    const char *name, *value; /* name in lower case; value without spaces at both ends */
};

struct http_head {
    const char *method;
    const char *path;  /* "/...", or "*" for OPTIONS */
    const char *query; /* the part of the target after the first '?', or "" */
    /* Host and port: of the target if it begins with "http://" or "https://", else of the Host field. NULL: there
     * are none, in HTTP/1.0. */
    const char *host;
    struct http_head_field header[HTTP_HEAD_MAX_FIELDS];
    size_t n_headers;
    int minor;           /* N of HTTP/1.N */
    bool keep_alive;     /* the client may send another request on the connection */
    bool chunked;        /* the body has chunked transfer coding; otherwise it has body_bytes */
    bool expects;        /* the head has Expect: 100-continue */
    uint64_t body_bytes; /* value of Content-Length, below 2^53; 0 without one */
};

/* Parses the head TEXT [n], which ends with an empty line, into *H. TEXT is modified, and H points into it.
 * MAX_HEADERS is the maximum number of fields, up to HTTP_HEAD_MAX_FIELDS. Returns 0, or the HTTP status of a
 * refusal with a sentence in *WHY. */
int http_head_read(struct http_head *h, char *text, size_t n, size_t max_headers, const char **why);

/* Returns the value of the last field NAME (in lower case), or NULL if there is none. */
const char *http_head_get(const struct http_head *h, const char *name);

/* Parses the first line of a chunk (without CR LF) and writes the size of the chunk to *BYTES. Returns false
 * if the line is malformed. */
bool http_head_chunk_size(const char *line, size_t n, uint64_t *bytes);

#endif
