/* http_head.h - reads the head of an HTTP/1.1 request strictly: request line and header fields.
 *
 * Heads that two readers could understand as different requests are refused (RFC 9112; this prevents request
 * smuggling through proxies): lines that do not end with CR LF, spaces before a colon, folded lines, NUL and
 * other control characters, a missing or repeated Host, a repeated Content-Length or one that is no number, a
 * Transfer-Encoding other than a single "chunked", or beside a Content-Length. Uses no sockets and does not
 * interpret requests.
 */
#ifndef GALLOP_NET_HTTP_HEAD_H
#define GALLOP_NET_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_HEAD_MAX_FIELDS = 256 };

struct http_head_field {
    const char *name, *value; /* name in lower case, value without surrounding spaces */
};

struct http_head {
    const char *method, *path,
        /* Path: "/...", or "*" for OPTIONS. Query: what follows the first '?', or "". */
        *query;
    /* Host and port of an absolute target, which must equal the Host field. NULL: the target is not
     * absolute. */
    const char *authority;
    struct http_head_field header[HTTP_HEAD_MAX_FIELDS];
    size_t n_headers;
    int minor;           /* of HTTP/1.minor */
    bool keep_alive;     /* the connection may have another request */
    bool chunked;        /* the body is chunked; otherwise it has body_bytes */
    bool expects;        /* Expect: 100-continue */
    uint64_t body_bytes; /* below 2^53 */
};

/* Reads TEXT [n], a head with its empty line, and changes it in place. H borrows from TEXT only. MAX_HEADERS
 * limits the fields (at most HTTP_HEAD_MAX_FIELDS). Returns 0, or the status of the refusal, with a sentence
 * in *WHY. */
int http_head_read(struct http_head *h, char *text, size_t n, size_t max_headers, const char **why);

/* The value of the field NAME (lower case), or NULL. */
const char *http_head_get(const struct http_head *h, const char *name);

/* Reads the first line of a chunk, without its end: its size goes to *BYTES. False: the line is malformed. */
bool http_head_chunk_size(const char *line, size_t n, uint64_t *bytes);

#endif
