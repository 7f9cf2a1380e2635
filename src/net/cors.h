/* cors.h - Cross-Origin Resource Sharing: the web pages of other origins that may read answers
 * (https://fetch.spec.whatwg.org/#http-cors-protocol).
 *
 * A request from an origin that is not allowed is answered without CORS headers. A struct cors is immutable
 * after cors_open(). A zeroed struct allows no origin and adds no header lines.
 */
#ifndef GALLOP_NET_CORS_H
#define GALLOP_NET_CORS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "net/http_head.h"

enum { CORS_LINES = 1024, CORS_PREFLIGHT = 4096 }; /* bytes of header lines, with a final NUL */

struct cors {
    /* Arrays of allowed strings, owned. NULL: no origins (unless `any`), all methods, all headers. */
    json_t *origins, *methods, *headers;
    bool any;         /* all origins are allowed */
    bool credentials; /* browsers may send cookies and other credentials */
};

/* Reads the three lists: each is a JSON array, as in vLLM, or words separated by commas; "*" allows
 * everything. NULL allows no origin, all methods, all headers. ERR_USAGE names the option at fault. The
 * caller calls cors_close() after success and after errors. */
int cors_open(struct cors *c, const char *origins, const char *methods, const char *headers, bool credentials,
              struct err *e);
void cors_close(struct cors *c);

/* Writes the CORS header lines of the answer to request H to OUT, each with CR LF; "" if there are none. */
void cors_lines(const struct cors *c, const struct http_head *h, char out[CORS_LINES]);

/* Returns true if H is a preflight request of an allowed origin, and writes the header lines that its answer
 * has in addition to the lines of cors_lines() to OUT. */
bool cors_preflight(const struct cors *c, const struct http_head *h, char out[CORS_PREFLIGHT]);

#endif
