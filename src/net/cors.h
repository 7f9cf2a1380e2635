/* cors.h - Cross-Origin Resource Sharing: which web pages of other origins may read answers
 * (https://fetch.spec.whatwg.org/#http-cors-protocol).
 *
 * A request from an origin that is not listed is answered without CORS headers, and its origin is never
 * repeated. Immutable after cors_open(). A zeroed struct allows no origin and adds nothing to answers.
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
    /* Owned lists of strings. NULL: no origins; all methods; all headers. */
    json_t *origins, *methods, *headers;
    bool any; /* all origins are allowed */
    bool credentials;
};

/* Each list is a JSON array, as in vLLM, or words separated by commas; "*" means all. NULL: no origins, or
 * all methods and headers. ERR_USAGE names the option. *C needs cors_close() in any case. */
int cors_open(struct cors *c, const char *origins, const char *methods, const char *headers, bool credentials,
              struct err *e);
void cors_close(struct cors *c);

/* Writes the header lines for an answer to H, each with its line end; "" if there are none. */
void cors_lines(const struct cors *c, const struct http_head *h, char out[CORS_LINES]);

/* Whether H is a preflight request of an allowed origin. If so, OUT receives the header lines that the answer
 * has besides those of cors_lines(). */
bool cors_preflight(const struct cors *c, const struct http_head *h, char out[CORS_PREFLIGHT]);

#endif
