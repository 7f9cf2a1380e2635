/* cors.h - which pages of other origins may read answers: Cross-Origin Resource Sharing, as browsers have it
 * (https://fetch.spec.whatwg.org/#http-cors-protocol).
 *
 * An origin that is not listed is answered as if there were no such protocol, and never repeated. Immutable
 * after cors_open(); one that is zeroed allows nobody and adds nothing to answers.
 */
#ifndef GALLOP_NET_CORS_H
#define GALLOP_NET_CORS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "net/http_head.h"

enum { CORS_LINES = 1024, CORS_PREFLIGHT = 4096 }; /* bytes of headers, with a zero behind them */

struct cors {
    json_t *origins, *methods, *headers; /* lists of strings, owned; NULL: none, or for the latter two, all */
    bool any;                            /* origin */
    bool credentials;
};

/* Each list is one of JSON, as vLLM takes it, or words with commas between; "*" is all. NULL: no origin, or
 * all methods and headers. ERR_USAGE names the option. *c needs cors_close() in any case. */
int cors_open(struct cors *c, const char *origins, const char *methods, const char *headers, bool credentials,
              struct err *e);
void cors_close(struct cors *c);

/* The lines of an answer to H, each with its end; "" where there are none. */
void cors_lines(const struct cors *c, const struct http_head *h, char out[CORS_LINES]);

/* H is a browser's question whether it may send a request, and the page that wants to is one of C's; then the
 * lines that the answer has beside those of cors_lines(). */
bool cors_preflight(const struct cors *c, const struct http_head *h, char out[CORS_PREFLIGHT]);

#endif
