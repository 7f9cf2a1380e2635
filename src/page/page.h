/* page.h - the web page at /: a chat and a live view of the server. Its files are embedded in the program.
 *
 * The page uses only the public API. Its files need no API key, because they contain no data of the server.
 * cmake/page.cmake generates the table of files, and adds third-party libraries if it finds them.
 */
#ifndef GALLOP_PAGE_PAGE_H
#define GALLOP_PAGE_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "net/server.h"

struct page_file {
    const char *path; /* path of the URL: "/", "/page/page.css" */
    const char *type; /* content type */
    const char *etag; /* digest of the bytes, without quotation marks */
    const unsigned char *bytes, *bytes_end;
    /* The bytes compressed with gzip; empty for fonts, which are already compressed. */
    const unsigned char *packed, *packed_end;
};

/* Chooses the answer to a request for F with the headers ACCEPT_ENCODING and IF_NONE_MATCH (NULL: not sent). Sets
 * *STATUS to 200 or 304, HEADERS to the header lines, and *PACKED to whether to send the compressed bytes. */
enum { PAGE_HEADERS = 1024 };
void page_choose(const struct page_file *f, const char *accept_encoding, const char *if_none_match,
                 int *status, bool *packed, char headers[PAGE_HEADERS]);

bool page_has(const char *path); /* whether the page has a file PATH */

/* Answers X if X is a GET or HEAD of a file of the page. Returns false, without an answer, for other requests. */
bool page_answer(struct server_exchange *x);

#endif
